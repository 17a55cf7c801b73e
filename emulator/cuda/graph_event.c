// SPDX-License-Identifier: MIT
// Events that a graph records, and waits for; clones of graphs.
#include "api.h"

#include <stdlib.h>

// ---------------------------------------------------------------------------------------- events

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                          CUevent event, CUgraphNodeType type)
{
    struct api_work work = { .type = type };
    CUresult result = api_graph_check_add(node, graph, after, count, &work);
    if (!result && !API_FIND(event, API_EVENT))
        result = CUDA_ERROR_INVALID_VALUE;
    work.as.event = event;
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

CUresult api_graphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t count, CUevent event)
{
    return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult api_graphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                   size_t count, CUevent event)
{
    return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static CUresult get_event(CUgraphNode handle, CUevent *event, CUgraphNodeType type)
{
    CUgraphNode node = api_graph_node(handle, type, event);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *event = node->work.as.event;
    return CUDA_SUCCESS;
}

CUresult api_graphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult api_graphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static CUresult set_event(struct api_work *work, CUevent event)
{
    if (!work || !API_FIND(event, API_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    struct api_work fresh = { .type = work->type };
    fresh.as.event = event;
    api_exec_replace(work, &fresh);
    return CUDA_SUCCESS;
}

static struct api_work *event_work(CUgraphNode handle, CUgraphNodeType type)
{
    CUgraphNode node = api_graph_node(handle, type, handle);
    return node ? &node->work : NULL;
}

CUresult api_graphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(event_work(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult api_graphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(event_work(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

CUresult api_graphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                              CUevent event)
{
    return set_event(api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult api_graphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return set_event(api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

// ---------------------------------------------------------------------------------------- clones

/// Each node's work, and what it comes after by its place in the original.
static CUresult copy_nodes(CUgraph clone, CUgraph graph, CUgraphNode *made)
{
    size_t place = 0;
    for (CUgraphNode node = graph->first; node; node = node->next) {
        struct api_work work;
        CUresult result = api_work_copy(&work, &node->work);
        if (!result)
            result = api_graph_add(clone, &work, NULL, 0, &made[place]);
        if (result)
            return result;
        made[place]->original = node;
        node->mark = place++;
    }
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode copy = made[node->mark];
        if (!api_nodes_copy(&copy->after, &copy->after_count, node->after, node->after_count))
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < copy->after_count; i++)
            copy->after[i] = made[copy->after[i]->mark];
    }
    return CUDA_SUCCESS;
}

CUresult api_graphClone(CUgraph *clone, CUgraph handle)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!clone || !graph || graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = api_graph_new();
    CUgraphNode *made = calloc(graph->count + 1, sizeof(CUgraphNode));
    CUresult result = copy && made ? copy_nodes(copy, graph, made) : CUDA_ERROR_OUT_OF_MEMORY;
    free(made);
    if (!result)
        *clone = copy;
    else if (copy)
        api_graph_free(copy);
    return result;
}

CUresult api_graphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph handle)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!node || !graph || !original)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphNode at = graph->first; at; at = at->next)
        if (at->original == original) {
            *node = at;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

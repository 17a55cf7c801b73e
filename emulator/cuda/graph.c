// SPDX-License-Identifier: MIT
// Graphs: nodes of work with their dependencies; clones.
#include "graph.h"

#include "calls.h"
#include "user_object.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>

CUgraph api_graph_new(void)
{
    CUgraph graph = calloc(1, sizeof(*graph));
    if (graph)
        api_object_add(&graph->object, API_GRAPH, (uint64_t)(uintptr_t)graph, NULL);
    return graph;
}

static void free_node(CUgraphNode node)
{
    api_object_remove(&node->object);
    api_work_clear(&node->work);
    free(node->after);
    free(node);
}

void api_graph_free(CUgraph graph)
{
    while (graph->first) {
        CUgraphNode node = graph->first;
        graph->first = node->next;
        free_node(node);
    }
    api_object_remove(&graph->object);
    struct api_held *held = graph->held;
    free(graph);
    api_held_drop(&held);
}

bool api_nodes_copy(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count)
{
    CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
    if (!copy)
        return false;
    if (count)
        memcpy(copy, from, count * sizeof(CUgraphNode));
    free(*to);
    *to = copy;
    *to_count = count;
    return true;
}

static bool among(CUgraphNode node, const CUgraphNode *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

bool api_nodes_unite(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count)
{
    CUgraphNode *larger = realloc(*to, (*to_count + count + 1) * sizeof(CUgraphNode));
    if (!larger)
        return false;
    *to = larger;
    for (size_t i = 0; i < count; i++)
        if (!among(from[i], larger, *to_count))
            larger[(*to_count)++] = from[i];
    return true;
}

static void mark_all(CUgraph graph, size_t mark)
{
    for (CUgraphNode node = graph->first; node; node = node->next)
        node->mark = mark;
}

bool api_nodes_joined(CUgraph graph, const CUgraphNode *nodes, size_t count,
                      const CUgraphNode *ends, size_t end_count)
{
    mark_all(graph, 0);
    for (size_t i = 0; i < end_count; i++)
        ends[i]->mark = 1;
    for (bool more = true; more;) {
        more = false;
        for (CUgraphNode node = graph->first; node; node = node->next)
            for (size_t i = 0; node->mark && i < node->after_count; i++)
                if (!node->after[i]->mark) {
                    node->after[i]->mark = 1;
                    more = true;
                }
    }
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->mark)
            return false;
    return true;
}

CUresult api_graph_add(CUgraph graph, struct api_work *work, const CUgraphNode *after, size_t count,
                       CUgraphNode *node)
{
    CUgraphNode made = calloc(1, sizeof(*made));
    if (!made || !api_nodes_copy(&made->after, &made->after_count, after, count)) {
        free(made);
        api_work_clear(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    api_object_add(&made->object, API_NODE, (uint64_t)(uintptr_t)made, NULL);
    made->graph = graph;
    made->work = *work;
    if (graph->last)
        graph->last->next = made;
    else
        graph->first = made;
    graph->last = made;
    graph->count++;
    *node = made;
    return CUDA_SUCCESS;
}

CUresult api_graphCreate(CUgraph *graph, unsigned flags)
{
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph made = api_graph_new();
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = made;
    return CUDA_SUCCESS;
}

CUresult api_graphDestroy(CUgraph handle)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!graph || graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    api_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult api_graph_check_add(CUgraphNode *node, CUgraph handle, const CUgraphNode *after,
                             size_t count, const void *params)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!node || !graph || !params || (count && !after))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUgraphNode before = API_FIND(after[i], API_NODE);
        if (!before || before->graph != graph || among(before, after, i))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult api_graphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t count)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_EMPTY };
    CUresult result = api_graph_check_add(node, graph, after, count, &work);
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

static void forget(CUgraphNode node, CUgraphNode gone)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->after_count; i++)
        if (node->after[i] != gone)
            node->after[kept++] = node->after[i];
    node->after_count = kept;
}

CUresult api_graphDestroyNode(CUgraphNode handle)
{
    CUgraphNode node = API_FIND(handle, API_NODE);
    if (!node || node->graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = node->graph;
    CUgraphNode *at = &graph->first, last = NULL;
    for (; *at != node; at = &(*at)->next)
        last = *at;
    *at = node->next;
    if (graph->last == node)
        graph->last = last;
    graph->count--;
    for (CUgraphNode other = graph->first; other; other = other->next)
        forget(other, node);
    free_node(node);
    return CUDA_SUCCESS;
}

CUgraphNode api_graph_node(CUgraphNode handle, CUgraphNodeType type, const void *params)
{
    CUgraphNode node = params ? API_FIND(handle, API_NODE) : NULL;
    return node && node->work.type == type ? node : NULL;
}

// ------------------------------------------------------------------------------ what is in a graph

/// Returns a list as the interface specifies: without `to`, only its length; otherwise as many
/// entries as there is room for, and *room becomes their number.
struct list {
    CUgraphNode *to;
    size_t *room, count;
};

static void put(struct list *list, CUgraphNode node)
{
    if (list->to && list->count < *list->room)
        list->to[list->count] = node;
    list->count++;
}

static CUresult done(const struct list *list)
{
    if (list->to) // the rest of the caller's array is said to be empty
        for (size_t i = list->count; i < *list->room; i++)
            list->to[i] = NULL;
    if (!list->to || list->count < *list->room)
        *list->room = list->count;
    return CUDA_SUCCESS;
}

CUresult api_graphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    CUgraphNode node = API_FIND(handle, API_NODE);
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->work.type;
    return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = { nodes, count, 0 };
    for (CUgraphNode node = graph->first; node; node = node->next)
        if (!roots || node->after_count == 0)
            put(&list, node);
    return done(&list);
}

CUresult api_graphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, false);
}

CUresult api_graphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, true);
}

static void clear_edges(CUgraphEdgeData *edges, const CUgraphNode *nodes, const size_t *count)
{
    if (edges && nodes)
        memset(edges, 0, *count * sizeof(*edges));
}

CUresult api_graphGetEdges(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *edges, size_t *count)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!graph || !count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    size_t room = *count;
    struct list sources = { from, &room, 0 }, targets = { to, count, 0 };
    for (CUgraphNode node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->after_count; i++) {
            put(&sources, node->after[i]);
            put(&targets, node);
        }
    done(&sources);
    done(&targets);
    clear_edges(edges, from, count);
    return CUDA_SUCCESS;
}

CUresult api_graphGetEdges1(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return api_graphGetEdges(graph, from, to, NULL, count);
}

CUresult api_graphNodeGetDependencies(CUgraphNode handle, CUgraphNode *nodes,
                                      CUgraphEdgeData *edges, size_t *count)
{
    CUgraphNode node = API_FIND(handle, API_NODE);
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = { nodes, count, 0 };
    for (size_t i = 0; i < node->after_count; i++)
        put(&list, node->after[i]);
    done(&list);
    clear_edges(edges, nodes, count);
    return CUDA_SUCCESS;
}

CUresult api_graphNodeGetDependencies1(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return api_graphNodeGetDependencies(node, nodes, NULL, count);
}

CUresult api_graphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode *nodes,
                                        CUgraphEdgeData *edges, size_t *count)
{
    CUgraphNode node = API_FIND(handle, API_NODE);
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = { nodes, count, 0 };
    for (CUgraphNode other = node->graph->first; other; other = other->next)
        for (size_t i = 0; i < other->after_count; i++)
            if (other->after[i] == node)
                put(&list, other);
    done(&list);
    clear_edges(edges, nodes, count);
    return CUDA_SUCCESS;
}

CUresult api_graphNodeGetDependentNodes1(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return api_graphNodeGetDependentNodes(node, nodes, NULL, count);
}

/// The index of `before` among the dependencies of the node; after_count: not there.
static size_t edge_of(const struct CUgraphNode_st *node, CUgraphNode before)
{
    size_t i = 0;
    while (i < node->after_count && node->after[i] != before)
        i++;
    return i;
}

/// Whether all of the edges may be added, or else removed.
static bool edges_fit(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
                      bool present)
{
    if (!graph || graph->capturing || (count && (!from || !to)))
        return false;
    for (size_t i = 0; i < count; i++) {
        CUgraphNode before = API_FIND(from[i], API_NODE), node = API_FIND(to[i], API_NODE);
        if (!before || !node || before == node || before->graph != graph || node->graph != graph)
            return false;
        if ((edge_of(node, before) < node->after_count) != present)
            return false;
    }
    return true;
}

CUresult api_graphAddDependencies(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                  const CUgraphEdgeData *edges, size_t count)
{
    static const CUgraphEdgeData plain;
    if (!edges_fit(API_FIND(handle, API_GRAPH), from, to, count, false))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; edges && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
            return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                              "the emulator does not support edges with ports or of other types");
    for (size_t i = 0; i < count; i++)
        if (!api_nodes_unite(&to[i]->after, &to[i]->after_count, &from[i], 1))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

CUresult api_graphAddDependencies1(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count)
{
    return api_graphAddDependencies(graph, from, to, NULL, count);
}

CUresult api_graphRemoveDependencies(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                     const CUgraphEdgeData *edges, size_t count)
{
    (void)edges;
    if (!edges_fit(API_FIND(handle, API_GRAPH), from, to, count, true))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        size_t at = edge_of(to[i], from[i]);
        if (at < to[i]->after_count)
            to[i]->after[at] = to[i]->after[--to[i]->after_count];
    }
    return CUDA_SUCCESS;
}

CUresult api_graphRemoveDependencies1(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      size_t count)
{
    return api_graphRemoveDependencies(graph, from, to, NULL, count);
}

// ---------------------------------------------------------------------------------------- clones

/// The work of each node, and its dependencies by their index in the original.
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
    if (!result && !api_held_copy(&copy->held, graph->held))
        result = CUDA_ERROR_OUT_OF_MEMORY;
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

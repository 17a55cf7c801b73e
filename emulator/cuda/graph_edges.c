// SPDX-License-Identifier: MIT
// What is in a graph, and what comes after what.
#include "api.h"

#include <stdlib.h>
#include <string.h>

/// Gives a list out as the interface has it: without `to`, only its length; else as many as there
/// is room for, and *room becomes how many those are.
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

/// Where `before` is in what the node comes after; after_count: nowhere.
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
                              "the emulator has no edges with ports or of other types");
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

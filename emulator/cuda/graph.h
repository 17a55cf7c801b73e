// SPDX-License-Identifier: MIT
// Graphs, and lists of their nodes.
#ifndef PTXGEN_EMULATOR_CUDA_GRAPH_H
#define PTXGEN_EMULATOR_CUDA_GRAPH_H

#include "state.h"

struct CUgraphNode_st {
    struct api_object object;
    CUgraph graph;
    CUgraphNode next;
    struct api_work work;
    CUgraphNode *after;
    size_t after_count;
    size_t mark;          // scratch for graph walks
    CUgraphNode original; // of a cloned node, only as a handle
};

struct CUgraphExec_st {
    struct api_object object;
    struct api_held *held;
    cuuint64_t flags;
    size_t count;
    struct api_work *works;
    CUgraphNode *nodes;  // the node that each work is a copy of, only as handles
    CUgraphNode *before; // the dependencies of all nodes, one node after another
    size_t *before_count;
};

CUgraph api_graph_new(void);
void api_graph_free(CUgraph graph);
// Takes the work over, even on failure.
CUresult api_graph_add(CUgraph graph, struct api_work *work, const CUgraphNode *after, size_t count,
                       CUgraphNode *node);
// Whether a node may be added with these arguments. `params` may not be NULL.
CUresult api_graph_check_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                             size_t count, const void *params);
// The node, if it has that type and `params` is not NULL.
CUgraphNode api_graph_node(CUgraphNode handle, CUgraphNodeType type, const void *params);
bool api_nodes_copy(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count);
// Adds the nodes that the list does not have yet.
bool api_nodes_unite(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count);
// Whether each of `nodes` is one of `ends` or a predecessor of one.
bool api_nodes_joined(CUgraph graph, const CUgraphNode *nodes, size_t count,
                      const CUgraphNode *ends, size_t end_count);

#endif

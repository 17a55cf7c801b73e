// SPDX-License-Identifier: MIT
// User objects: a program's data that graphs keep alive.
#include "user_object.h"

#include "calls.h"

#include <limits.h>
#include <stdlib.h>

struct CUuserObject_st {
    struct api_object object;
    void *data;
    CUhostFn destroy;
    uint64_t owned; // references of the program
    uint64_t held;  // references of graphs
};

// The destructor may wait for a lock of the program, whose other threads may be in the driver.
static void destroy_if_unused(CUuserObject object)
{
    if (object->owned || object->held)
        return;
    const bool before = api_thread.in_callback;
    api_object_remove(&object->object);
    api_thread.in_callback = true;
    pthread_mutex_unlock(&api_state.lock);
    object->destroy(object->data);
    pthread_mutex_lock(&api_state.lock);
    api_thread.in_callback = before;
    free(object);
}

CUresult api_userObjectCreate(CUuserObject *object, void *data, CUhostFn destroy,
                              unsigned references, unsigned flags)
{
    if (!object || !destroy || references == 0 || references > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->data = data;
    made->destroy = destroy;
    made->owned = references;
    api_object_add(&made->object, API_USER_OBJECT, (uint64_t)(uintptr_t)made, NULL);
    *object = made;
    return CUDA_SUCCESS;
}

CUresult api_userObjectRetain(CUuserObject handle, unsigned count)
{
    CUuserObject object = API_FIND(handle, API_USER_OBJECT);
    if (!object || count == 0 || count > INT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    object->owned += count;
    return CUDA_SUCCESS;
}

CUresult api_userObjectRelease(CUuserObject handle, unsigned count)
{
    CUuserObject object = API_FIND(handle, API_USER_OBJECT);
    if (!object || count == 0 || count > object->owned)
        return CUDA_ERROR_INVALID_VALUE;
    object->owned -= count;
    destroy_if_unused(object);
    return CUDA_SUCCESS;
}

static bool hold(struct api_held **list, CUuserObject object, unsigned count)
{
    struct api_held *at = *list;
    while (at && at->object != object)
        at = at->next;
    if (!at) {
        at = calloc(1, sizeof(*at));
        if (!at)
            return false;
        at->object = object;
        at->next = *list;
        *list = at;
    }
    if (count > UINT_MAX - at->count)
        return false;
    at->count += count;
    object->held += count;
    return true;
}

bool api_held_copy(struct api_held **to, const struct api_held *from)
{
    for (; from; from = from->next)
        if (!hold(to, from->object, from->count)) {
            api_held_drop(to);
            return false;
        }
    return true;
}

void api_held_drop(struct api_held **held)
{
    struct api_held *list = *held;
    *held = NULL;
    while (list) {
        struct api_held *next = list->next;
        list->object->held -= list->count;
        destroy_if_unused(list->object);
        free(list);
        list = next;
    }
}

CUresult api_graphRetainUserObject(CUgraph handle, CUuserObject object_handle, unsigned count,
                                   unsigned flags)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    CUuserObject object = API_FIND(object_handle, API_USER_OBJECT);
    const bool move = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (!graph || !object || count == 0 || count > INT_MAX ||
        flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE || (move && count > object->owned))
        return CUDA_ERROR_INVALID_VALUE;
    if (!hold(&graph->held, object, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->owned -= move ? count : 0;
    return CUDA_SUCCESS;
}

CUresult api_graphReleaseUserObject(CUgraph handle, CUuserObject object_handle, unsigned count)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    CUuserObject object = API_FIND(object_handle, API_USER_OBJECT);
    struct api_held **at = graph ? &graph->held : NULL;
    while (at && *at && (*at)->object != object)
        at = &(*at)->next;
    if (!object || !at || !*at || count == 0 || count > (*at)->count)
        return CUDA_ERROR_INVALID_VALUE;
    (*at)->count -= count;
    object->held -= count;
    if ((*at)->count == 0) {
        struct api_held *empty = *at;
        *at = empty->next;
        free(empty);
    }
    destroy_if_unused(object);
    return CUDA_SUCCESS;
}

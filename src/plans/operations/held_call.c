// SPDX-License-Identifier: MIT
// Calls that are checked once, and then run with other addresses. A run touches little code and
// memory: between two calls of a training step the caches have other things.
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "driver/launch.h"
#include "driver/nvtx.h"
#include "engine.h"
#include "plans/arrays.h"

struct ptx_operation_call {
    ptx_operations *operations;
    bool overlaps;
    size_t array_count;
    struct held_array {
        uint16_t offset; // of its address, in the parameters
        uint16_t bytes;  // of an element
        const char *name;
    } arrays[PLAN_MOST_FIELDS];
    struct plan_call call;
    union plan_params params; // as they were given
};

static int by_offset(const void *left, const void *right)
{
    return ((const struct held_array *)left)->offset - ((const struct held_array *)right)->offset;
}

ptx_operation_call *ptx_operation_call_create(ptx_operations *operations, ptx_operation operation,
                                              const void *params)
{
    struct plan_call call;

    memset(&call, 0, sizeof call);
    if (ptxp_operation_choose(operations, operation, params, &call))
        return NULL;
    ptx_operation_call *made = calloc(1, sizeof *made);
    if (!made) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "%s: out of host memory", call.function);
        return NULL;
    }
    made->operations = operations;
    made->overlaps = ptxp_operation_overlaps(operations);
    made->call = call;
    memcpy(&made->params, params, ptxp_operation_bytes(operation));
    for (const struct plan_field *f = call.row->fields; f->must || f->access; f++) {
        const struct plan_array array = ptxp_operation_array(&call, f);
        if (array.bytes && array.count)
            made->arrays[made->array_count++] =
                (struct held_array) { f->member.offset, (uint16_t)array.bytes, f->member.name };
    }
    qsort(made->arrays, made->array_count, sizeof *made->arrays, by_offset);
    return made;
}

void ptx_operation_call_destroy(ptx_operation_call **call)
{
    if (!call)
        return;
    free(*call);
    *call = NULL;
}

// The call with the addresses of now. False if it is not launched as it was: an address is between
// elements, others derive from it, or a kernel is not compiled yet.
static bool renewed(const ptx_operation_call *held, const CUdeviceptr *addresses,
                    struct plan_call *call)
{
    enum {
        FIRST = offsetof(struct plan_call, target),
        BYTES = offsetof(struct plan_call, extremes) - FIRST
    };

    memcpy(call, &held->call, sizeof *call);
    for (size_t k = 0; k < held->array_count; k++) {
        if (addresses[k] % held->arrays[k].bytes)
            return false;
        memcpy((char *)call + held->arrays[k].offset, &addresses[k], sizeof *addresses);
    }
    if (call->row->derive &&
        (call->row->derive(call) ||
         memcmp((const char *)call + FIRST, (const char *)&held->call + FIRST, BYTES) != 0))
        return false;
    for (size_t k = 0; k < call->chosen_count; k++)
        if (!call->chosen[k].left_out &&
            !atomic_load_explicit(&call->chosen[k].slot->ready, memory_order_acquire))
            return false;
    return true;
}

static ptx_status launch(const struct plan_call *call, const struct plan_chosen *chosen,
                         bool overlaps, CUstream stream)
{
    const struct plan_slot *slot = chosen->slot;
    void *values[PLAN_MOST_ARGS];

    for (size_t k = 0; k < slot->arg_count; k++)
        values[k] = (char *)call + slot->args[k].offset;
    return ptxd_named(ptxd_launch_again(atomic_load_explicit(&slot->ready, memory_order_relaxed),
                                        chosen->grid, chosen->launch->programmatic && overlaps,
                                        stream, values),
                      call->function);
}

// Checks all, and compiles what is to be compiled.
static ptx_status run_checked(const ptx_operation_call *held, const CUdeviceptr *addresses,
                              CUstream stream)
{
    union plan_params params = held->params;

    for (size_t k = 0; k < held->array_count; k++)
        memcpy((char *)&params + held->arrays[k].offset, &addresses[k], sizeof *addresses);
    return ptx_operation_run(held->operations, held->call.id, &params, stream);
}

ptx_status ptx_operation_call_run(const ptx_operation_call *held, const CUdeviceptr *addresses,
                                  size_t count, CUstream stream)
{
    struct plan_call call;
    ptx_status status = PTX_OK;

    if (!held || !addresses)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s", __func__,
                         held ? "addresses is NULL"
                              : "the call is NULL: see what ptx_operation_call_create() said");
    if (count != held->array_count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: count is %zu, and the call has %zu arrays: those that have elements, "
                         "without optional ones whose addresses were 0 at its creation",
                         __func__, count, held->array_count);
    if (held->call.n == 0)
        return PTX_OK;
    for (size_t k = 0; k < count; k++)
        if (!addresses[k])
            return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is 0", held->call.function,
                             held->arrays[k].name);
    if (!renewed(held, addresses, &call))
        return run_checked(held, addresses, stream);
    ptxd_range_begin(call.function);
    for (size_t k = 0; k < call.chosen_count && !status; k++)
        if (!call.chosen[k].left_out)
            status = launch(&call, &call.chosen[k], held->overlaps, stream);
    ptxd_range_end();
    return status;
}

// SPDX-License-Identifier: MIT
#include "arrays.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"

enum { NAME_SIZE = 64 };

// "tensor 3", "tensor 3's gradient", "group 1's lr_at" or "loss_scale_state".
static const char *name_of(const struct plan_array *a, char name[NAME_SIZE])
{
    if (a->tensor == ARRAY_OF_PLAN)
        snprintf(name, NAME_SIZE, "%s", a->field);
    else if (a->tensor == ARRAY_OF_GROUP)
        snprintf(name, NAME_SIZE, "group %" PRIu32 "'s %s", a->group, a->field);
    else if (a->tensor == ARRAY_OF_QK_CLIP)
        snprintf(name, NAME_SIZE, "qk_clips[%" PRIu32 "]'s %s", a->group, a->field);
    else if (a->field)
        snprintf(name, NAME_SIZE, "tensor %zu's %s", a->tensor, a->field);
    else
        snprintf(name, NAME_SIZE, "tensor %zu", a->tensor);
    return name;
}

const char *ptxp_type_text(ptx_type type, char room[TYPE_TEXT_SIZE])
{
    if ((unsigned)type < PTX_TYPE_COUNT)
        return ptx_type_name(type);
    snprintf(room, TYPE_TEXT_SIZE, "%d", (int)type);
    return room;
}

// ---- each for itself ----------------------------------------------------------------------------

static ptx_status check_address(const struct plan_array *a)
{
    char name[NAME_SIZE];

    if (a->at == 0 && a->sized_by)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: its address is 0, and the call needs %" PRIu64
                         " bytes there, as %s() says",
                         name_of(a, name), a->count * a->bytes, a->sized_by);
    if (a->at == 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: its address is 0, and it has %" PRIu64 " element%s", name_of(a, name),
                         a->count, ptxd_plural(a->count));
    if (a->at % a->bytes)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: its address 0x%llx is not a multiple of its element's %u bytes",
                         name_of(a, name), (unsigned long long)a->at, a->bytes);
    if (a->count > (UINT64_MAX - a->at) / a->bytes)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %" PRIu64 " elements from its address 0x%llx on reach beyond the end "
                         "of memory",
                         name_of(a, name), a->count, (unsigned long long)a->at);
    return PTX_OK;
}

struct allocation {
    CUdeviceptr first, end;
};

// The allocation at an address; consecutive addresses in one allocation make one query.
static ptx_status find_allocation(ptx_device *device, CUdeviceptr address, struct allocation *found)
{
    size_t size;

    if (address >= found->first && address < found->end)
        return PTX_OK;
    const ptx_status status = ptx_address_range(device, address, &found->first, &size);
    found->end = status ? found->first : found->first + size;
    return status;
}

static ptx_status check_allocation(ptx_device *device, const struct plan_array *a,
                                   struct allocation *allocation)
{
    const uint64_t bytes = a->count * a->bytes;
    const unsigned long long at = a->at;
    const ptx_status status = find_allocation(device, a->at, allocation);
    char name[NAME_SIZE];

    if (status == PTX_ERROR_NOT_FOUND)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: the driver knows no memory at its address 0x%llx: it was freed%s; "
                         "any_address skips this check",
                         name_of(a, name), at,
                         a->stays ? " since the plan got it: move it in the same call"
                                  : ", or is the host's");
    if (status) {
        ptxd_explain("\n%s, address 0x%llx", name_of(a, name), at);
        return status;
    }
    const unsigned long long left = allocation->end - a->at;
    if (bytes > left && a->in_bytes)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: it has %" PRIu64
                         " bytes, and its memory ends %llu byte%s after its address",
                         name_of(a, name), bytes, left, ptxd_plural(left));
    if (bytes > left)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %" PRIu64 " element%s %s %" PRIu64
                         " bytes, and its memory ends %llu byte%s after its address",
                         name_of(a, name), a->count, ptxd_plural(a->count),
                         a->count == 1 ? "is" : "are", bytes, left, ptxd_plural(left));
    return PTX_OK;
}

// ---- against each other -------------------------------------------------------------------------

static CUdeviceptr end_of(const struct plan_array *a)
{
    return a->at + a->count * a->bytes;
}

static ptx_status refuse_overlap(const struct plan_array *x, const struct plan_array *y)
{
    char one[NAME_SIZE], other[NAME_SIZE];
    const bool swap = y->tensor < x->tensor;
    const struct plan_array *first = swap ? y : x, *second = swap ? x : y;
    const unsigned long long at = x->at > y->at ? x->at : y->at;

    if (!second->field && second->tensor != ARRAY_OF_PLAN)
        return ptxd_fail(PTX_ERROR_INVALID, "tensors %zu and %zu overlap at 0x%llx: %s",
                         first->tensor, second->tensor, at, first->effect);
    ptxd_fail(PTX_ERROR_INVALID, "%s and %s overlap at 0x%llx: %s", name_of(first, one),
              name_of(second, other), at, second->effect);
    if (second->in_place_of == first)
        ptxd_explain("; %s may begin exactly where %s does", other, one);
    return PTX_ERROR_INVALID;
}

static ptx_status refuse_plan(const struct plan_array *a, CUdeviceptr plan)
{
    char name[NAME_SIZE];

    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s overlaps the plan's own memory at 0x%llx: %s memory was freed before the "
                     "plan was made",
                     name_of(a, name), (unsigned long long)(a->at > plan ? a->at : plan),
                     a->tensor == ARRAY_OF_PLAN || a->field ? "its" : "the tensor's");
}

// What is shared is one field of several owners: a count of steps is no learning rate.
static bool is_shared(const struct plan_array *x, const struct plan_array *y)
{
    return x->at == y->at && x->shared && y->shared && strcmp(x->field, y->field) == 0;
}

static uint64_t common_divisor(uint64_t x, uint64_t y)
{
    while (y) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static bool spans_meet(const struct plan_array *x, const struct plan_array *y)
{
    return x->at < end_of(y) && y->at < end_of(x);
}

// Whether one begins within the other's runs, of arrays whose spans overlap. A consecutive array is
// one run. Where strides differ, what lies apart modulo their common divisor does not meet.
static bool runs_may_meet(const struct plan_array *x, const struct plan_array *y)
{
    const struct plan_array *low = x->at <= y->at ? x : y, *high = low == x ? y : x;
    const uint64_t stride = common_divisor(low->stride, high->stride);
    const uint64_t low_run = low->stride ? low->run : end_of(low) - low->at;
    const uint64_t high_run = high->stride ? high->run : end_of(high) - high->at;

    if (!stride)
        return true;
    const uint64_t apart = (high->at - low->at) % stride;
    return apart < low_run || apart + high_run > stride;
}

// Exactly: where strides differ, as of rows with strides of their own, one run of an array after
// the other against all of the other's.
static bool runs_meet(const struct plan_array *x, const struct plan_array *y)
{
    struct plan_array run = *x;

    if (!runs_may_meet(x, y))
        return false;
    if (!x->stride || !y->stride || x->stride == y->stride)
        return true;
    run.stride = 0;
    for (; run.at < end_of(x); run.at += x->stride) {
        const uint64_t left = end_of(x) - run.at;
        run.count = (left < x->run ? left : x->run) / x->bytes;
        if (spans_meet(&run, y) && runs_may_meet(&run, y))
            return true;
    }
    return false;
}

static bool collide(const struct plan_array *x, const struct plan_array *y)
{
    const bool in_place = x->at == y->at && (x->in_place_of == y || y->in_place_of == x);

    return !(x->read_only && y->read_only) && spans_meet(x, y) && !in_place && !is_shared(x, y) &&
           runs_meet(x, y);
}

static ptx_status check_pairs(const struct plan_array *const *arrays, size_t count)
{
    for (size_t k = 1; k < count; k++)
        for (size_t j = 0; j < k; j++)
            if (collide(arrays[j], arrays[k]))
                return refuse_overlap(arrays[j], arrays[k]);
    return PTX_OK;
}

static int by_address(const void *left, const void *right)
{
    const struct plan_array *x = *(const struct plan_array *const *)left;
    const struct plan_array *y = *(const struct plan_array *const *)right;
    return (x->at > y->at) - (x->at < y->at);
}

// In the order of addresses, of those so far only the last to end matter: among arrays that may
// share an address each may with each, which does not hold for in_place_of. Those whose elements
// are not consecutive are compared with all that begin in their span.
static ptx_status check_sorted(const struct plan_array **arrays, size_t count)
{
    const struct plan_array *read = NULL, *written = NULL;

    qsort(arrays, count, sizeof *arrays, by_address);
    for (size_t k = 0; k < count; k++) {
        const struct plan_array *a = arrays[k];
        if (a->stride) { // others may begin in between
            for (size_t j = k + 1; j < count && arrays[j]->at < end_of(a); j++)
                if (collide(a, arrays[j]))
                    return refuse_overlap(a, arrays[j]);
            if (written && collide(written, a))
                return refuse_overlap(written, a);
            if (read && collide(read, a))
                return refuse_overlap(read, a);
            continue;
        }
        if (written && a->at < end_of(written) && !is_shared(written, a))
            return refuse_overlap(written, a);
        if (read && !a->read_only && a->at < end_of(read))
            return refuse_overlap(read, a);
        const struct plan_array **last = a->read_only ? &read : &written;
        if (!*last || end_of(a) > end_of(*last))
            *last = a;
    }
    return PTX_OK;
}

ptx_status ptxp_check_arrays(ptx_device *device, const struct plan_array *arrays, size_t count,
                             CUdeviceptr plan, uint64_t plan_bytes)
{
    const struct plan_array *few[FEW_ARRAYS];
    const struct plan_array **used = count <= FEW_ARRAYS ? few : malloc(count * sizeof *used);
    struct allocation allocation = { 0 };
    ptx_status status = PTX_OK;
    size_t some = 0;

    if (!used)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a plan's checks");
    for (size_t k = 0; k < count && !status; k++) {
        if (arrays[k].count == 0)
            continue;
        status = check_address(&arrays[k]);
        if (!status && device)
            status = check_allocation(device, &arrays[k], &allocation);
        used[some++] = &arrays[k];
    }
    if (!status)
        status = used == few ? check_pairs(used, some) : check_sorted(used, some);
    for (size_t k = 0; k < some && !status; k++)
        if (used[k]->at < plan + plan_bytes && end_of(used[k]) > plan)
            status = refuse_plan(used[k], plan);
    if (used != few)
        free(used);
    return status;
}

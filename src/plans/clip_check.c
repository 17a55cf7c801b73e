// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "clip_layout.h"
#include "driver/error.h"

static bool is_gradient_type(ptx_type dtype)
{
    return ptxk_clip_dtype_code(dtype) < CLIP_DTYPE_COUNT;
}

static ptx_status check_tensor(const struct ptx_clip_params *params, size_t t)
{
    const struct ptx_clip_tensor *tensor = &params->tensors[t];

    if (!is_gradient_type(tensor->dtype))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its dtype is %s; it must be f32, f64, f16 or bf16", t,
                         ptx_type_name(tensor->dtype));
    if (tensor->count > PTX_CLIP_MAX_ELEMENTS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %" PRIu64 " elements; a plan takes 2^40 in all", t,
                         tensor->count);
    if (params->group_count ? tensor->group >= params->group_count
                            : tensor->group >= PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its group is %" PRIu32 "; there are groups 0 to %" PRIu32, t,
                         tensor->group,
                         params->group_count ? params->group_count - 1
                                             : (uint32_t)PTX_CLIP_MAX_TENSORS - 1);
    if (!(tensor->weight >= 0.0) || isinf(tensor->weight))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its weight is %g; it must be finite and not negative", t,
                         tensor->weight);
    if (tensor->uncounted && tensor->weight != 0.0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: uncounted, and a weight of %g: it is one or the other", t,
                         tensor->weight);
    return PTX_OK;
}

ptx_status ptxp_clip_check_max_norm_given(const struct ptx_clip_params *params)
{
    if (params->group_max_norms || params->max_norm != 0.0f)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "max_norm is 0, as where it is left out, and would make every gradient "
                     "0: give the largest norm, or INFINITY for no clipping; if 0 is meant, "
                     "give it in group_max_norms");
}

static ptx_status check_scalars(const struct ptx_clip_params *params, uint32_t groups)
{
    ptx_status status = PTX_OK;

    if (!params->group_max_norms)
        status = ptxp_clip_check_max_norm(params->max_norm);
    for (uint32_t g = 0; params->group_max_norms && g < groups && !status; g++) {
        status = ptxp_clip_check_max_norm(params->group_max_norms[g]);
        if (status)
            ptxd_explain("\nin group_max_norms[%" PRIu32 "]", g);
    }
    if (status)
        return status;
    if (!(params->eps >= 0.0f) || isinf(params->eps))
        return ptxd_fail(PTX_ERROR_INVALID, "eps is %g; it must be finite and not negative",
                         (double)params->eps);
    if ((unsigned)params->nonfinite > PTX_NONFINITE_ZERO)
        return ptxd_fail(PTX_ERROR_INVALID, "nonfinite is %d; there are %d to %d",
                         (int)params->nonfinite, PTX_NONFINITE_PROPAGATE, PTX_NONFINITE_ZERO);
    if (params->loss_scale != 0.0f)
        status = ptxp_clip_check_loss_scale(params->loss_scale);
    if (!status && params->loss_scale_state % 4)
        status =
            ptxd_fail(PTX_ERROR_INVALID, "loss_scale_state is 0x%llx; it must be a multiple of 4",
                      (unsigned long long)params->loss_scale_state);
    return status;
}

ptx_status ptxp_clip_check_max_norm(float max_norm)
{
    if (max_norm >= 0.0f)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "max_norm is %g; it must be 0 or more, and not NaN (INFINITY: no clipping)",
                     (double)max_norm);
}

ptx_status ptxp_clip_check_loss_scale(float scale)
{
    if (scale > 0.0f && isfinite(scale))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "loss_scale is %g; it must be finite and above 0",
                     (double)scale);
}

ptx_status ptxp_clip_check_params(const struct ptx_clip_params *params)
{
    uint32_t groups;
    uint64_t elements = 0;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    if (params->tensor_count && !params->tensors)
        return ptxd_fail(PTX_ERROR_INVALID, "tensors is NULL, and tensor_count is %zu",
                         params->tensor_count);
    if (params->tensor_count > PTX_CLIP_MAX_TENSORS || params->group_count > PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%zu tensors in %" PRIu32 " groups; a plan takes %d of each",
                         params->tensor_count, params->group_count, PTX_CLIP_MAX_TENSORS);
    groups = params->group_count ? params->group_count : 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const ptx_status status = check_tensor(params, t);
        if (status)
            return status;
        elements += params->tensors[t].count;
        if (elements > PTX_CLIP_MAX_ELEMENTS)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu brings the elements to %" PRIu64 "; a plan takes 2^40", t,
                             elements);
        if (params->tensors[t].group >= groups)
            groups = params->tensors[t].group + 1;
    }
    return check_scalars(params, groups);
}

ptx_status ptxp_clip_out_of_host_memory(void)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a clip plan");
}

// ---- addresses ----------------------------------------------------------------------------------

// What lies at an address: a tensor, or one of what a plan has besides.
enum { THE_STATE = PTX_CLIP_MAX_TENSORS + 1, THE_PLAN };

struct extent {
    CUdeviceptr first, end;
    size_t what; // the tensor's index, THE_STATE or THE_PLAN
};

static int by_address(const void *left, const void *right)
{
    const struct extent *x = left, *y = right;
    return (x->first > y->first) - (x->first < y->first);
}

// `one` is below `other`: a tensor, if either is.
static ptx_status refuse_overlap(size_t one, size_t other, CUdeviceptr address)
{
    const unsigned long long at = address;

    if (one == THE_STATE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "loss_scale_state overlaps the plan's own memory at 0x%llx: its "
                         "memory was freed before the plan was made",
                         at);
    if (other == THE_STATE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu and loss_scale_state overlap at 0x%llx: the state would "
                         "be clipped with the tensor",
                         one, at);
    if (other == THE_PLAN)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu overlaps the plan's own memory at 0x%llx: the tensor's "
                         "memory was freed before the plan was made",
                         one, at);
    return ptxd_fail(PTX_ERROR_INVALID,
                     "tensors %zu and %zu overlap at 0x%llx: each would be scaled twice "
                     "there",
                     one, other, at);
}

static ptx_status check_overlap(struct extent *extents, size_t count)
{
    qsort(extents, count, sizeof *extents, by_address);
    for (size_t k = 1; k < count; k++) {
        const size_t x = extents[k - 1].what, y = extents[k].what;
        if (extents[k].first < extents[k - 1].end)
            return refuse_overlap(x < y ? x : y, x < y ? y : x, extents[k].first);
    }
    return PTX_OK;
}

// The driver's memory at an address; each is asked for once in a row.
static ptx_status find_allocation(ptx_device *device, CUdeviceptr address,
                                  struct extent *allocation)
{
    size_t size;

    if (address >= allocation->first && address < allocation->end)
        return PTX_OK;
    const ptx_status status = ptx_address_range(device, address, &allocation->first, &size);
    allocation->end = status ? allocation->first : allocation->first + size;
    return status;
}

static ptx_status check_address(const struct clip_tensor_row *row, size_t t)
{
    const unsigned bytes = ptxp_clip_row_bytes(row);

    if (row->data == 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its address is 0, and it has %" PRIu64 " elements", t,
                         row->count);
    if (row->data % bytes)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its address 0x%" PRIx64
                         " is not a multiple of its element's %u bytes",
                         t, row->data, bytes);
    return PTX_OK;
}

// Whether the driver knows the memory, and it has room.
static ptx_status check_allocation(ptx_device *device, const struct clip_tensor_row *row, size_t t,
                                   struct extent *allocation)
{
    const uint64_t bytes = row->count * ptxp_clip_row_bytes(row);
    const ptx_status status = find_allocation(device, row->data, allocation);

    if (status == PTX_ERROR_NOT_FOUND)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: the driver knows no memory at its address 0x%" PRIx64
                         ": it was freed, or is the host's; any_address lets it pass",
                         t, row->data);
    if (status) {
        ptxd_explain("\ntensor %zu, address 0x%" PRIx64, t, row->data);
        return status;
    }
    if (bytes > allocation->end - row->data)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %" PRIu64 " elements are %" PRIu64
                         " bytes, and its memory ends %" PRIu64 " bytes after its address",
                         t, row->count, bytes, (uint64_t)(allocation->end - row->data));
    return PTX_OK;
}

static ptx_status check_state(ptx_device *device, CUdeviceptr state)
{
    struct extent allocation = { 0 };
    const unsigned long long at = state;
    const ptx_status status = find_allocation(device, state, &allocation);

    if (status == PTX_ERROR_NOT_FOUND)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "loss_scale_state: the driver knows no memory at 0x%llx: it was "
                         "freed, or is the host's; any_address lets it pass",
                         at);
    if (status) {
        ptxd_explain("\nloss_scale_state, 0x%llx", at);
        return status;
    }
    if (allocation.end - state < sizeof(struct ptx_loss_scale_state))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "loss_scale_state: it takes %zu bytes, and its memory ends %llu "
                         "bytes after 0x%llx",
                         sizeof(struct ptx_loss_scale_state),
                         (unsigned long long)(allocation.end - state), at);
    return PTX_OK;
}

// Checks all, and writes the extent of each that is not empty.
static ptx_status check_each(ptx_device *device, const struct clip_addresses *of,
                             struct extent *extents, size_t *used)
{
    struct extent allocation = { 0 };
    ptx_status status = PTX_OK;

    extents[(*used)++] = (struct extent) { of->plan, of->plan + of->plan_bytes, THE_PLAN };
    for (size_t t = 0; t < of->count && !status; t++) {
        const struct clip_tensor_row *row = &of->rows[t];
        if (row->count == 0)
            continue;
        status = check_address(row, t);
        if (!status)
            status = check_allocation(device, row, t, &allocation);
        extents[(*used)++] =
            (struct extent) { row->data, row->data + row->count * ptxp_clip_row_bytes(row), t };
    }
    if (status || !of->state)
        return status;
    extents[(*used)++] =
        (struct extent) { of->state, of->state + sizeof(struct ptx_loss_scale_state), THE_STATE };
    return check_state(device, of->state);
}

ptx_status ptxp_clip_check_addresses(ptx_device *device, const struct clip_addresses *addresses)
{
    struct extent *extents = malloc((addresses->count + 2) * sizeof *extents);
    size_t used = 0;

    if (!extents)
        return ptxp_clip_out_of_host_memory();
    ptx_status status = check_each(device, addresses, extents, &used);
    if (!status)
        status = check_overlap(extents, used);
    free(extents);
    return status;
}

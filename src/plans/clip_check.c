// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "clip_table.h"
#include "driver/error.h"

static bool is_gradient_type(ptx_type dtype)
{
    return clip_dtype_code(dtype) < CLIP_DTYPE_COUNT;
}

static ptx_status check_tensor(const struct ptx_clip_params *params, size_t t)
{
    const struct ptx_tensor *tensor = &params->tensors[t];

    if (!is_gradient_type(tensor->dtype))
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: its dtype is %s; it must be f32, f64, f16 or bf16", t,
                               ptx_type_name(tensor->dtype));
    if (tensor->count > PTX_CLIP_MAX_ELEMENTS)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: %" PRIu64 " elements; a plan takes 2^40 in all", t,
                               tensor->count);
    if (params->group_count ? tensor->group >= params->group_count
                            : tensor->group >= PTX_CLIP_MAX_TENSORS)
        return ptx_driver_fail(
            PTX_ERROR_INVALID,
            "tensor %zu: its group is %" PRIu32 "; there are groups 0 to %" PRIu32, t,
            tensor->group,
            params->group_count ? params->group_count - 1 : (uint32_t)PTX_CLIP_MAX_TENSORS - 1);
    if (!(tensor->weight >= 0.0) || isinf(tensor->weight))
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: its weight is %g; it must be finite and not negative",
                               t, tensor->weight);
    if (tensor->uncounted && tensor->weight != 0.0)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: uncounted, and a weight of %g: it is one or the other",
                               t, tensor->weight);
    return PTX_OK;
}

static ptx_status check_scalars(const struct ptx_clip_params *params, uint32_t groups)
{
    ptx_status status = PTX_OK;

    if (!params->group_max_norms)
        status = clip_check_max_norm(params->max_norm);
    for (uint32_t g = 0; params->group_max_norms && g < groups && !status; g++) {
        status = clip_check_max_norm(params->group_max_norms[g]);
        if (status)
            ptx_driver_explain("\nin group_max_norms[%" PRIu32 "]", g);
    }
    if (status)
        return status;
    if (!(params->eps >= 0.0f) || isinf(params->eps))
        return ptx_driver_fail(PTX_ERROR_INVALID, "eps is %g; it must be finite and not negative",
                               (double)params->eps);
    if ((unsigned)params->nonfinite > PTX_NONFINITE_ZERO)
        return ptx_driver_fail(PTX_ERROR_INVALID, "nonfinite is %d; there are %d to %d",
                               (int)params->nonfinite, PTX_NONFINITE_PROPAGATE, PTX_NONFINITE_ZERO);
    if (params->loss_scale != 0.0f)
        status = clip_check_loss_scale(params->loss_scale);
    if (!status && params->loss_scale_state % 4)
        status = ptx_driver_fail(PTX_ERROR_INVALID,
                                 "loss_scale_state is 0x%llx; it must be a multiple of 4",
                                 (unsigned long long)params->loss_scale_state);
    return status;
}

ptx_status clip_check_max_norm(float max_norm)
{
    if (max_norm >= 0.0f)
        return PTX_OK;
    return ptx_driver_fail(
        PTX_ERROR_INVALID,
        "max_norm is %g; it must be 0 or more, and not NaN (INFINITY: no clipping)",
        (double)max_norm);
}

ptx_status clip_check_loss_scale(float scale)
{
    if (scale > 0.0f && isfinite(scale))
        return PTX_OK;
    return ptx_driver_fail(PTX_ERROR_INVALID, "loss_scale is %g; it must be finite and above 0",
                           (double)scale);
}

ptx_status clip_check_params(const struct ptx_clip_params *params)
{
    uint32_t groups;
    uint64_t elements = 0;

    if (!params)
        return ptx_driver_fail(PTX_ERROR_INVALID, "params is NULL");
    if (params->tensor_count && !params->tensors)
        return ptx_driver_fail(PTX_ERROR_INVALID, "tensors is NULL, and tensor_count is %zu",
                               params->tensor_count);
    if (params->tensor_count > PTX_CLIP_MAX_TENSORS || params->group_count > PTX_CLIP_MAX_TENSORS)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%zu tensors in %" PRIu32 " groups; a plan takes %d of each",
                               params->tensor_count, params->group_count, PTX_CLIP_MAX_TENSORS);
    groups = params->group_count ? params->group_count : 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const ptx_status status = check_tensor(params, t);
        if (status)
            return status;
        elements += params->tensors[t].count;
        if (elements > PTX_CLIP_MAX_ELEMENTS)
            return ptx_driver_fail(
                PTX_ERROR_INVALID,
                "tensor %zu brings the elements to %" PRIu64 "; a plan takes 2^40", t, elements);
        if (params->tensors[t].group >= groups)
            groups = params->tensors[t].group + 1;
    }
    return check_scalars(params, groups);
}

ptx_status clip_out_of_host_memory(void)
{
    return ptx_driver_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a clip plan");
}

// ---- addresses ----------------------------------------------------------------------------------

struct extent {
    CUdeviceptr first, end;
    size_t tensor;
};

static int by_address(const void *left, const void *right)
{
    const struct extent *x = left, *y = right;
    return (x->first > y->first) - (x->first < y->first);
}

static ptx_status check_overlap(struct extent *extents, size_t count)
{
    qsort(extents, count, sizeof *extents, by_address);
    for (size_t k = 1; k < count; k++) {
        if (extents[k].first >= extents[k - 1].end)
            continue;
        const size_t one = extents[k - 1].tensor, other = extents[k].tensor;
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensors %zu and %zu overlap at 0x%llx: each would be scaled twice "
                               "there",
                               one < other ? one : other, one < other ? other : one,
                               (unsigned long long)extents[k].first);
    }
    return PTX_OK;
}

static ptx_status check_address(const struct clip_tensor_row *row, size_t t)
{
    const unsigned bytes = clip_row_bytes(row);

    if (row->data == 0)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: its address is 0, and it has %" PRIu64 " elements", t,
                               row->count);
    if (row->data % bytes)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: its address 0x%" PRIx64
                               " is not a multiple of its element's %u bytes",
                               t, row->data, bytes);
    return PTX_OK;
}

// Whether the driver knows the memory. One question serves for all tensors in one allocation.
static ptx_status check_allocation(ptx_device *device, const struct clip_tensor_row *row, size_t t,
                                   struct extent *allocation)
{
    const uint64_t bytes = row->count * clip_row_bytes(row);

    if (row->data < allocation->first || row->data >= allocation->end) {
        size_t size;
        const ptx_status status = ptx_address_range(device, row->data, &allocation->first, &size);
        if (status == PTX_ERROR_NOT_FOUND)
            return ptx_driver_fail(
                PTX_ERROR_INVALID,
                "tensor %zu: the driver knows no memory at its address 0x%" PRIx64
                ": it was freed, or is the host's; any_address lets it pass",
                t, row->data);
        if (status) {
            ptx_driver_explain("\ntensor %zu, address 0x%" PRIx64, t, row->data);
            return status;
        }
        allocation->end = allocation->first + size;
    }
    if (bytes > allocation->end - row->data)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "tensor %zu: %" PRIu64 " elements are %" PRIu64
                               " bytes, and its memory ends %" PRIu64 " bytes after its address",
                               t, row->count, bytes, (uint64_t)(allocation->end - row->data));
    return PTX_OK;
}

ptx_status clip_check_addresses(ptx_device *device, const struct clip_tensor_row *rows,
                                size_t count)
{
    struct extent allocation = { 0 };
    struct extent *extents = malloc((count + 1) * sizeof *extents);
    ptx_status status = PTX_OK;
    size_t used = 0;

    if (!extents)
        return clip_out_of_host_memory();
    for (size_t t = 0; t < count && !status; t++) {
        if (rows[t].count == 0)
            continue;
        status = check_address(&rows[t], t);
        if (!status)
            status = check_allocation(device, &rows[t], t, &allocation);
        extents[used++] =
            (struct extent) { rows[t].data, rows[t].data + rows[t].count * clip_row_bytes(&rows[t]),
                              t };
    }
    if (!status)
        status = check_overlap(extents, used);
    free(extents);
    return status;
}

// SPDX-License-Identifier: MIT
#include <inttypes.h>

#include "driver/error.h"
#include "operations.h"

ptx_status ptxp_check_operations(const ptx_operations *operations, const struct plan_call *call)
{
    if (operations)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: operations is NULL: see what ptx_operations_create() said", call->name);
}

ptx_status ptxp_check_dtype(const struct plan_call *call, ptx_type dtype)
{
    if (dtype == PTX_F32 || dtype == PTX_F64 || dtype == PTX_F16 || dtype == PTX_BF16)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%s: dtype is %s; it must be f32, f64, f16 or bf16",
                     call->name, ptx_type_name(dtype));
}

ptx_status ptxp_check_count(const struct plan_call *call, const struct plan_request *request)
{
    const ptx_kernel *kernel = ptxp_operation(request->operation)->kernel;
    struct ptx_geometry geometry;

    if (request->n <= UINT64_MAX / 2 / ptx_type_bytes(request->dtype) &&
        ptx_kernel_geometry(kernel, request->dtype, request->n, &geometry))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: count is %" PRIu64 ", more than a launch can cover: split the "
                     "tensors",
                     call->name, request->n);
}

static uint64_t bytes_of(const struct plan_span *span)
{
    return span->count * ptx_type_bytes(span->type);
}

static ptx_status check_alone(const struct plan_call *call, const struct plan_span *span)
{
    const unsigned bytes = ptx_type_bytes(span->type);

    if (span->address == 0)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is 0; it must be a device address", call->name,
                         span->name);
    if (span->address % bytes)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is %#llx, not a multiple of the %u bytes of %s",
                         call->name, span->name, (unsigned long long)span->address, bytes,
                         ptx_type_name(span->type));
    if (bytes_of(span) > UINT64_MAX - span->address)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %#llx, and %" PRIu64 " elements from there on reach "
                         "beyond the end of memory",
                         call->name, span->name, (unsigned long long)span->address, span->count);
    return PTX_OK;
}

static ptx_status check_pair(const struct plan_call *call, const struct plan_span *x,
                             const struct plan_span *y, bool may_coincide)
{
    const bool apart =
        x->address + bytes_of(x) <= y->address || y->address + bytes_of(y) <= x->address;

    if (apart || !(x->written || y->written) || (may_coincide && x->address == y->address))
        return PTX_OK;
    const struct plan_span *written = x->written ? x : y;
    ptxd_fail(PTX_ERROR_INVALID,
              "%s: %s (%#llx, %" PRIu64 " bytes) and %s (%#llx, %" PRIu64
              " bytes) overlap, and %s is written: give it memory of its own",
              call->name, x->name, (unsigned long long)x->address, bytes_of(x), y->name,
              (unsigned long long)y->address, bytes_of(y), written->name);
    if (may_coincide)
        ptxd_explain(", or exactly that of %s", x->name);
    return PTX_ERROR_INVALID;
}

static ptx_status check_allocation(const ptx_operations *operations, const struct plan_call *call,
                                   const struct plan_span *span)
{
    CUdeviceptr base;
    size_t size;
    const ptx_status status = ptx_address_range(operations->device, span->address, &base, &size);

    if (status == PTX_ERROR_NOT_FOUND)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %#llx, and the driver knows no memory there: it was "
                         "freed, or is the host's; any_address lets it pass",
                         call->name, span->name, (unsigned long long)span->address);
    if (status) {
        ptxd_name_call(call->name);
        ptxd_explain("\n%s: %s", call->name, span->name);
        return status;
    }
    const uint64_t left = base + size - span->address;
    if (bytes_of(span) <= left)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: %s has %" PRIu64 " elements, %" PRIu64
                     " bytes, but its memory ends %" PRIu64 " bytes after its address %#llx",
                     call->name, span->name, span->count, bytes_of(span), left,
                     (unsigned long long)span->address);
}

ptx_status ptxp_check_spans(const ptx_operations *operations, const struct plan_call *call,
                            const struct plan_span *spans, size_t count)
{
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < count && !status; k++)
        status = check_alone(call, &spans[k]);
    for (size_t k = 1; k < count && !status; k++)
        for (size_t j = 0; j < k && !status; j++)
            status = check_pair(call, &spans[j], &spans[k], j == 0 && spans[k].may_be_first);
    for (size_t k = 0; k < count && !status && !operations->any_address; k++)
        status = check_allocation(operations, call, &spans[k]);
    return status;
}

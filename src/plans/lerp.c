// SPDX-License-Identifier: MIT
#include <math.h>

#include "driver/error.h"
#include "operations.h"

static const struct plan_call backward = { "ptx_lerp_backward", "ptx_lerp_prepare" };
static const struct plan_call prepare = { "ptx_lerp_prepare", "ptx_lerp_prepare" };
static const struct plan_call describe = { "ptx_lerp_describe", "ptx_lerp_prepare" };

enum { OUTPUTS_BOTH, OUTPUTS_DA, OUTPUTS_DB };

static ptx_status choose(const struct plan_call *call, const struct ptx_lerp_params *p,
                         struct ptx_kernel_spec *spec)
{
    if (!p)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: params is NULL", call->name);
    ptx_status status = ptxp_check_dtype(call, p->dtype);
    if (status)
        return status;
    if (!p->d_a && !p->d_b && p->count)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: d_a and d_b are both 0; one of them must be an address",
                               call->name);
    if (isnan(p->weight))
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: weight is NaN; it must be a number",
                               call->name);
    if (p->weight_at && p->weight != 0)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: there is a weight by value and one by address, weight_at; "
                               "leave one out",
                               call->name);
    *spec = (struct ptx_kernel_spec) { .dtype = p->dtype,
                                       .option = { !p->d_b   ? OUTPUTS_DA
                                                   : !p->d_a ? OUTPUTS_DB
                                                             : OUTPUTS_BOTH,
                                                   p->weight_at != 0 } };
    return ptxp_check_count(call, PLAN_lerp_backward, p->dtype, p->count);
}

static ptx_status check_addresses(const ptx_operations *operations, const struct ptx_lerp_params *p)
{
    struct plan_span spans[4] = { { "d_output", p->d_output, p->count, p->dtype, false, false } };
    size_t count = 1;

    if (p->d_a)
        spans[count++] = (struct plan_span) { "d_a", p->d_a, p->count, p->dtype, true, true };
    if (p->d_b)
        spans[count++] = (struct plan_span) { "d_b", p->d_b, p->count, p->dtype, true, true };
    if (p->weight_at)
        spans[count++] = (struct plan_span) { "weight_at", p->weight_at, 1, PTX_F64, false, false };
    return ptxp_check_spans(operations, &backward, spans, count);
}

ptx_status ptx_lerp_backward(ptx_operations *operations, const struct ptx_lerp_params *params,
                             CUstream stream)
{
    struct ptx_kernel_spec spec;
    ptx_status status = ptxp_check_operations(operations, &backward);

    if (!status)
        status = choose(&backward, params, &spec);
    if (status || params->count == 0)
        return status;
    status = check_addresses(operations, params);
    if (status)
        return status;
    struct ptx_arg args[5] = { PTX_ARG(params->d_output) };
    size_t count = 1;
    if (params->d_a)
        args[count++] = (struct ptx_arg)PTX_ARG(params->d_a);
    if (params->d_b)
        args[count++] = (struct ptx_arg)PTX_ARG(params->d_b);
    args[count++] = (struct ptx_arg)PTX_ARG(params->count);
    if (params->weight_at)
        args[count++] = (struct ptx_arg)PTX_ARG(params->weight_at);
    else
        args[count++] = (struct ptx_arg)PTX_ARG(params->weight);
    return ptxp_launch(operations, &backward, PLAN_lerp_backward, &spec, params->count, args, count,
                       stream);
}

ptx_status ptx_lerp_prepare(ptx_operations *operations, const struct ptx_lerp_params *params)
{
    struct ptx_kernel_spec spec;
    ptx_function *function;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &spec);
    return status ? status
                  : ptxp_function(operations, &prepare, PLAN_lerp_backward, &spec, NULL, &function);
}

ptx_status ptx_lerp_describe(const struct ptx_lerp_params *params,
                             struct ptx_operation_description *description)
{
    struct ptx_kernel_spec spec;
    ptx_status status = choose(&describe, params, &spec);

    if (status)
        return status;
    if (!description)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: description is NULL", describe.name);
    const uint64_t tensors = spec.option[0] == OUTPUTS_BOTH ? 3 : 2;
    uint64_t bytes = tensors * params->count * ptx_type_bytes(params->dtype);
    if (params->weight_at && params->count)
        bytes += sizeof(double);
    ptxp_describe(PLAN_lerp_backward, &spec, params->count, bytes, description);
    return PTX_OK;
}

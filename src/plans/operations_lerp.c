// SPDX-License-Identifier: MIT
#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "operations.h"

static const struct plan_call backward = { "ptx_lerp_backward", "ptx_lerp_prepare" };
static const struct plan_call prepare = { "ptx_lerp_prepare", "ptx_lerp_prepare" };
static const struct plan_call describe = { "ptx_lerp_describe", "ptx_lerp_prepare" };

enum { OPTION_OUTPUTS, OPTION_WEIGHT };
enum { OUTPUTS_BOTH, OUTPUTS_DA, OUTPUTS_DB };
enum { WEIGHT_VALUE, WEIGHT_DEVICE };

static size_t values_of(const void *call, struct ptx_named_arg *values)
{
    const struct ptx_lerp_params *p = call;
    const struct ptx_named_arg all[] = {
        { "d_output", PTX_ARG(p->d_output) },
        { "d_a", PTX_ARG(p->d_a) },
        { "d_b", PTX_ARG(p->d_b) },
        { "n", PTX_ARG(p->count) },
        { "weight", p->weight_at ? (struct ptx_arg)PTX_ARG(p->weight_at)
                                 : (struct ptx_arg)PTX_ARG(p->weight) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_lerp = {
    .kernel = &ptx_kernel_lerp_backward,
    .options = { [OPTION_OUTPUTS] = { "outputs",
                                      { [OUTPUTS_BOTH] = "both",
                                        [OUTPUTS_DA] = "da",
                                        [OUTPUTS_DB] = "db" } },
                 [OPTION_WEIGHT] = { "weight",
                                     { [WEIGHT_VALUE] = "value", [WEIGHT_DEVICE] = "device" } } },
    .values = values_of,
};

static ptx_status choose(const struct plan_call *call, const struct ptx_lerp_params *p,
                         struct plan_request *request)
{
    ptx_status status = ptxp_check_given(call, "params", p);

    if (!status)
        status = ptxp_check_dtype(call, p->dtype, true);
    if (status)
        return status;
    if (!p->d_a && !p->d_b && p->count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: d_a and d_b are both 0; one of them must be an address", call->name);
    if (isnan(p->weight))
        return ptxd_fail(PTX_ERROR_INVALID, "%s: weight is NaN; it must be a number", call->name);
    if (p->weight_at && p->weight != 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: there is a weight by value and one by address, weight_at; "
                         "leave one out",
                         call->name);
    *request = (struct plan_request) {
        .operation = PLAN_lerp,
        .dtype = p->dtype,
        .option = { [OPTION_OUTPUTS] = !p->d_b   ? OUTPUTS_DA
                                       : !p->d_a ? OUTPUTS_DB
                                                 : OUTPUTS_BOTH,
                    [OPTION_WEIGHT] = p->weight_at ? WEIGHT_DEVICE : WEIGHT_VALUE },
        .n = p->count,
        .call = p,
    };
    return ptxp_check_count(call, request);
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
    struct plan_request request;
    ptx_status status = ptxp_check_operations(operations, &backward);

    if (!status)
        status = choose(&backward, params, &request);
    if (status || params->count == 0)
        return status;
    status = check_addresses(operations, params);
    return status ? status : ptxp_launch(operations, &backward, &request, stream);
}

ptx_status ptx_lerp_prepare(ptx_operations *operations, const struct ptx_lerp_params *params)
{
    struct plan_request request;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &request);
    return status ? status : ptxp_prepare(operations, &prepare, &request, NULL);
}

ptx_status ptx_lerp_describe(const struct ptx_lerp_params *params,
                             struct ptx_operation_description *description)
{
    struct plan_request request;
    ptx_status status = choose(&describe, params, &request);

    if (!status)
        status = ptxp_check_given(&describe, "description", description);
    if (status)
        return status;
    const uint64_t tensors = request.option[OPTION_OUTPUTS] == OUTPUTS_BOTH ? 3 : 2;
    uint64_t bytes = tensors * params->count * ptx_type_bytes(params->dtype);
    if (params->weight_at && params->count)
        bytes += sizeof(double);
    ptxp_describe(&request, bytes, description);
    return PTX_OK;
}

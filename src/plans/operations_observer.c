// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "driver/error.h"
#include "operations.h"

#define PREPARE "ptx_observer_prepare"
static const struct plan_call update = { "ptx_observer_update", PREPARE };
static const struct plan_call prepare = { PREPARE, PREPARE };
static const struct plan_call describe = { "ptx_observer_describe", PREPARE };

enum { OPTION_SCHEME };

// The parameters with defaults filled in, and the launches.
struct choice {
    struct ptx_observer_params params;
    CUdeviceptr extremes;
    struct plan_request observe, average;
};

static size_t observe_values(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(c->params.x) },
        { "n", PTX_ARG(c->params.count) },
        { "extremes", PTX_ARG(c->extremes) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t average_values(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_observer_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "extremes", PTX_ARG(c->extremes) },
        { "averages", PTX_ARG(p->state) },
        { "averaging_constant", PTX_ARG(p->averaging_constant) },
        { "q_min", PTX_ARG(p->q_min) },
        { "q_max", PTX_ARG(p->q_max) },
        { "eps", PTX_ARG(p->eps) },
        { "zero", PTX_ARG(p->zero_point) },
        { "scale", PTX_ARG(p->scales) },
        { "zero_point", PTX_ARG(p->zero_points) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_observe = {
    .kernel = &ptx_kernel_observe_min_max,
    .values = observe_values,
};

const struct plan_operation ptxp_operation_average = {
    .kernel = &ptx_kernel_moving_average_update,
    .options = { [OPTION_SCHEME] = { "scheme", { "affine", "symmetric" } } },
    .values = average_values,
};

static ptx_status check_scheme(const struct plan_call *call, const struct ptx_observer_params *p)
{
    if (p->q_min == p->q_max)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: q_min and q_max are both %" PRId32 "; q_min must be below q_max",
                         call->name, p->q_min);
    if (!p->symmetric && p->zero_point)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: zero_point is %" PRId32
                         ", but only a symmetric scheme has one that is given; leave it 0",
                         call->name, p->zero_point);
    if (p->symmetric && (p->zero_point < p->q_min || p->zero_point > p->q_max))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: zero_point is %" PRId32 "; it must be from q_min %" PRId32
                         " to q_max %" PRId32,
                         call->name, p->zero_point, p->q_min, p->q_max);
    return PTX_OK;
}

static ptx_status choose(const struct plan_call *call, const struct ptx_observer_params *params,
                         struct choice *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct choice) { .params = *params };
    struct ptx_observer_params *p = &c->params;
    p->averaging_constant = p->averaging_constant != 0 ? p->averaging_constant : 0.01f;
    p->eps = p->eps != 0 ? p->eps : 0x1p-23f;
    status = ptxp_check_dtype(call, p->dtype, true);
    if (!status)
        status = ptxp_check_range(call, &p->q_min, &p->q_max);
    if (!status)
        status = check_scheme(call, p);
    if (status)
        return status;
    if (!(p->averaging_constant > 0 && p->averaging_constant <= 1))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: averaging_constant is %g; it must be above 0, and at most 1 (0: "
                         "0.01)",
                         call->name, (double)p->averaging_constant);
    if (!(p->eps > 0 && isfinite(p->eps)))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: eps is %g; it must be finite and above 0 (0: 2^-23)", call->name,
                         (double)p->eps);
    c->extremes = p->state + offsetof(struct ptx_observer_state, least);
    c->observe = (struct plan_request) {
        .operation = PLAN_observe, .dtype = p->dtype, .n = p->count, .call = c
    };
    c->average = (struct plan_request) { .operation = PLAN_average,
                                         .dtype = PTX_F32,
                                         .option = { [OPTION_SCHEME] = p->symmetric },
                                         .n = 1,
                                         .call = c };
    return ptxp_check_count(call, &c->observe);
}

static ptx_status check_addresses(const ptx_operations *operations, const struct choice *c)
{
    const struct ptx_observer_params *p = &c->params;
    const struct plan_span spans[] = {
        { "x", p->x, p->count, p->dtype, false, false },
        { "state", p->state, sizeof(struct ptx_observer_state) / sizeof(float), PTX_F32, true,
          false },
        { "scales", p->scales, 1, PTX_F32, true, false },
        { "zero_points", p->zero_points, 1, PTX_S32, true, false },
    };

    return ptxp_check_spans(operations, &update, spans, sizeof spans / sizeof *spans);
}

ptx_status ptx_observer_update(ptx_operations *operations, const struct ptx_observer_params *params,
                               CUstream stream)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &update);

    if (!status)
        status = choose(&update, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_addresses(operations, &c);
    // Nothing is launched unless both can be.
    if (!status)
        status = ptxp_prepare(operations, &update, &c.average, stream);
    if (!status)
        status = ptxp_launch(operations, &update, &c.observe, stream);
    return status ? status : ptxp_launch(operations, &update, &c.average, stream);
}

ptx_status ptx_observer_prepare(ptx_operations *operations,
                                const struct ptx_observer_params *params)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &c);
    if (!status)
        status = ptxp_prepare(operations, &prepare, &c.average, NULL);
    return status ? status : ptxp_prepare(operations, &prepare, &c.observe, NULL);
}

ptx_status ptx_observer_describe(const struct ptx_observer_params *params,
                                 struct ptx_operation_description *description)
{
    struct choice c;
    ptx_status status = choose(&describe, params, &c);

    if (!status)
        status = ptxp_check_given(&describe, "description", description);
    if (status)
        return status;
    const uint64_t small = 2 * sizeof(struct ptx_observer_state) + sizeof(float) + sizeof(int32_t);
    const uint64_t bytes = c.params.count * ptx_type_bytes(c.params.dtype) + small;
    ptxp_describe(&c.observe, c.params.count ? bytes : 0, description);
    description->launches *= 2;
    return PTX_OK;
}

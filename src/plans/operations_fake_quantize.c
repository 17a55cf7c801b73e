// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <string.h>

#include "driver/error.h"
#include "operations.h"

// ---- given scales -------------------------------------------------------------------------------

static const struct plan_call forward = { "ptx_fake_quantize", "ptx_fake_quantize_prepare" };
static const struct plan_call prepare = { "ptx_fake_quantize_prepare",
                                          "ptx_fake_quantize_prepare" };
static const struct plan_call describe = { "ptx_fake_quantize_describe",
                                           "ptx_fake_quantize_prepare" };

enum { OPTION_DIVISION, OPTION_ZERO_POINT, OPTION_SCALARS, OPTION_LAYOUT = OPTION_SCALARS };

// The parameters, those that a quantizer's gradient has too with their defaults filled in, and the
// values derived from them.
struct choice {
    struct ptx_fake_quantize_params params;
    struct ptx_quantize_params quantizer;
    float f32_scale;
    struct plan_request request;
};

static struct ptx_arg scale_of(const struct choice *c)
{
    const struct ptx_quantize_params *q = &c->quantizer;

    if (q->scales)
        return (struct ptx_arg)PTX_ARG(q->scales);
    return q->dtype == PTX_F64 ? (struct ptx_arg)PTX_ARG(q->scale)
                               : (struct ptx_arg)PTX_ARG(c->f32_scale);
}

static size_t values_of(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_quantize_params *q = &c->quantizer;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(c->params.x) },
        { "y", PTX_ARG(c->params.y) },
        { "n", PTX_ARG(q->count) },
        { "scale", scale_of(c) },
        { "zero_point", q->scales ? (struct ptx_arg)PTX_ARG(q->zero_points)
                                  : (struct ptx_arg)PTX_ARG(q->zero_point) },
        { "channels", PTX_ARG(q->channels) },
        { "inner", PTX_ARG(q->inner) },
        { "q_min", PTX_ARG(q->q_min) },
        { "q_max", PTX_ARG(q->q_max) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

#define FAKE_OPTIONS                                                                               \
    [OPTION_DIVISION] = { "division", { "exact", "reciprocal" } }, [OPTION_ZERO_POINT] = {         \
        "zero_point", { "fixed", "learned" }                                                       \
    }

const struct plan_operation ptxp_operation_fake_quantize = {
    .kernel = &ptx_kernel_fake_quantize,
    .options = { FAKE_OPTIONS, [OPTION_SCALARS] = { "scalars", { "value", "device" } } },
    .values = values_of,
};

const struct plan_operation ptxp_operation_fake_quantize_channel = {
    .kernel = &ptx_kernel_fake_quantize_channel,
    .options = { FAKE_OPTIONS, [OPTION_LAYOUT] = { "layout", { "rows", "columns" } } },
    .values = values_of,
};

static ptx_status choose(const struct plan_call *call,
                         const struct ptx_fake_quantize_params *params, struct choice *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct choice) { .params = *params, .f32_scale = (float)params->scale };
    struct ptx_quantize_params *q = &c->quantizer;
    *q = (struct ptx_quantize_params) { .dtype = params->dtype,
                                        .count = params->count,
                                        .x = params->x,
                                        .scale = params->scale,
                                        .zero_point = params->zero_point,
                                        .scales = params->scales,
                                        .zero_points = params->zero_points,
                                        .channels = params->channels,
                                        .inner = params->inner,
                                        .q_min = params->q_min,
                                        .q_max = params->q_max };
    status = ptxp_check_quantizer(call, q);
    if (status)
        return status;
    if (params->learned_zero_points && !params->scales)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: scales is 0, and there are learned_zero_points; they need the "
                         "addresses in scales and zero_points",
                         call->name);
    c->request = (struct plan_request) {
        .operation = q->channels ? PLAN_fake_quantize_channel : PLAN_fake_quantize,
        .dtype = q->dtype,
        .option = { [OPTION_DIVISION] = params->reciprocal,
                    [OPTION_ZERO_POINT] = params->learned_zero_points,
                    [OPTION_SCALARS] = q->channels ? ptxp_channel_layout(q) : q->scales != 0 },
        .n = q->count,
        .call = c,
    };
    return ptxp_check_count(call, &c->request);
}

static ptx_type scale_type(const struct choice *c)
{
    return c->quantizer.dtype == PTX_F64 ? PTX_F64 : PTX_F32;
}

static ptx_type zero_point_type(const struct choice *c)
{
    return c->params.learned_zero_points ? scale_type(c) : PTX_S32;
}

static uint64_t scale_count(const struct choice *c)
{
    return c->quantizer.channels ? c->quantizer.channels : 1;
}

static ptx_status check_addresses(const ptx_operations *operations, const struct choice *c)
{
    const struct ptx_quantize_params *q = &c->quantizer;
    const struct plan_span spans[] = {
        { "x", q->x, q->count, q->dtype, false, false },
        { "y", c->params.y, q->count, q->dtype, true, true },
        { "scales", q->scales, scale_count(c), scale_type(c), false, false },
        { "zero_points", q->zero_points, scale_count(c), zero_point_type(c), false, false },
    };

    return ptxp_check_spans(operations, &forward, spans, q->scales ? 4 : 2);
}

ptx_status ptx_fake_quantize(ptx_operations *operations,
                             const struct ptx_fake_quantize_params *params, CUstream stream)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &forward);

    if (!status)
        status = choose(&forward, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_addresses(operations, &c);
    return status ? status : ptxp_launch(operations, &forward, &c.request, stream);
}

ptx_status ptx_fake_quantize_prepare(ptx_operations *operations,
                                     const struct ptx_fake_quantize_params *params)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &c);
    if (!status)
        status = ptxp_prepare(operations, &prepare, &c.request, NULL);
    if (status || c.request.operation != PLAN_fake_quantize_channel)
        return status;
    // The layout of a call depends on inner and on the alignment of x.
    c.request.option[OPTION_LAYOUT] ^= 1;
    return ptxp_prepare(operations, &prepare, &c.request, NULL);
}

ptx_status ptx_fake_quantize_describe(const struct ptx_fake_quantize_params *params,
                                      struct ptx_operation_description *description)
{
    struct choice c;
    ptx_status status = choose(&describe, params, &c);

    if (!status)
        status = ptxp_check_given(&describe, "description", description);
    if (status)
        return status;
    uint64_t bytes = 2 * c.params.count * ptx_type_bytes(c.params.dtype);
    if (c.params.scales && c.params.count)
        bytes += scale_count(&c) *
                 (ptx_type_bytes(scale_type(&c)) + ptx_type_bytes(zero_point_type(&c)));
    ptxp_describe(&c.request, bytes, description);
    return PTX_OK;
}

// ---- groups -------------------------------------------------------------------------------------

static const struct plan_call groups_forward = { "ptx_fake_quantize_groups",
                                                 "ptx_fake_quantize_groups_prepare" };
static const struct plan_call groups_prepare = { "ptx_fake_quantize_groups_prepare",
                                                 "ptx_fake_quantize_groups_prepare" };
static const struct plan_call groups_describe = { "ptx_fake_quantize_groups_describe",
                                                  "ptx_fake_quantize_groups_prepare" };

enum { OPTION_GROUP, OPTION_LEVELS, OPTION_BITS };

struct groups_choice {
    struct ptx_fake_quantize_groups_params params;
    struct plan_request request;
};

static size_t groups_values_of(const void *call, struct ptx_named_arg *values)
{
    const struct groups_choice *c = call;
    const struct ptx_fake_quantize_groups_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(p->x) },
        { "y", PTX_ARG(p->y) },
        { "n", PTX_ARG(p->count) },
        { "scale", PTX_ARG(p->scales) },
        { "zero_point", PTX_ARG(p->zero_points) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_fake_quantize_groups = {
    .kernel = &ptx_kernel_fake_quantize_groups,
    .options = { [OPTION_GROUP] = { "group", { "32", "64", "128" } },
                 [OPTION_LEVELS] = { "levels",
                                     { [PTX_LEVELS_SYMMETRIC] = "symmetric",
                                       [PTX_LEVELS_FULL] = "full",
                                       [PTX_LEVELS_ASYMMETRIC] = "asymmetric",
                                       [PTX_LEVELS_UNSIGNED] = "unsigned" } },
                 [OPTION_BITS] = { "bits", { "4", "8" } } },
    .values = groups_values_of,
};

static bool has_zero_points(const struct ptx_fake_quantize_groups_params *p)
{
    return p->levels == PTX_LEVELS_ASYMMETRIC || p->levels == PTX_LEVELS_UNSIGNED;
}

static ptx_status check_levels(const struct plan_call *call,
                               const struct ptx_fake_quantize_groups_params *p)
{
    if (p->bits != 4 && p->bits != 8)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: bits is %" PRIu32 "; it must be 4 or 8",
                         call->name, p->bits);
    if ((unsigned)p->levels > PTX_LEVELS_UNSIGNED)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: levels is %d; it must be PTX_LEVELS_SYMMETRIC (%d), _FULL (%d), "
                         "_ASYMMETRIC (%d) or _UNSIGNED (%d)",
                         call->name, (int)p->levels, PTX_LEVELS_SYMMETRIC, PTX_LEVELS_FULL,
                         PTX_LEVELS_ASYMMETRIC, PTX_LEVELS_UNSIGNED);
    if (p->zero_points && !has_zero_points(p))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: zero_points is an address, but symmetric and full levels have no "
                         "zero points; leave it 0",
                         call->name);
    return PTX_OK;
}

ptx_status ptxp_check_groups(const struct plan_call *call, uint64_t count, uint64_t columns,
                             uint32_t group)
{
    const char *const name = columns && columns != count ? "columns" : "count";

    if (!columns)
        columns = count;
    if (group != 32 && group != 64 && group != 128)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: group is %" PRIu32 "; it must be 32, 64 or 128",
                         call->name, group);
    if (columns % group)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %" PRIu64 ", no multiple of group %" PRIu32
                         "; groups lie along the last axis",
                         call->name, name, columns, group);
    if (columns && count % columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: count is %" PRIu64 ", no multiple of columns %" PRIu64
                         ", the length of the last axis",
                         call->name, count, columns);
    return PTX_OK;
}

static ptx_status choose_groups(const struct plan_call *call,
                                const struct ptx_fake_quantize_groups_params *params,
                                struct groups_choice *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct groups_choice) { .params = *params };
    struct ptx_fake_quantize_groups_params *p = &c->params;
    p->group = p->group ? p->group : 32;
    p->bits = p->bits ? p->bits : 4;
    status = ptxp_check_dtype(call, p->dtype, false);
    if (!status)
        status = check_levels(call, p);
    if (!status)
        status = ptxp_check_groups(call, p->count, p->columns, p->group);
    if (status)
        return status;
    c->request = (struct plan_request) {
        .operation = PLAN_fake_quantize_groups,
        .dtype = p->dtype,
        .option = { [OPTION_GROUP] = (uint8_t)(p->group / 64),
                    [OPTION_LEVELS] = (uint8_t)p->levels,
                    [OPTION_BITS] = p->bits == 8 },
        .n = p->count,
        .call = c,
    };
    return ptxp_check_count(call, &c->request);
}

static ptx_status check_groups_addresses(const ptx_operations *operations,
                                         const struct groups_choice *c)
{
    const struct ptx_fake_quantize_groups_params *p = &c->params;
    const uint64_t groups = p->count / p->group;
    struct plan_span spans[4] = {
        { "x", p->x, p->count, p->dtype, false, false },
        { "y", p->y, p->count, p->dtype, true, true },
    };
    size_t count = 2;

    if (p->scales)
        spans[count++] = (struct plan_span) { "scales", p->scales, groups, PTX_F32, true, false };
    if (p->zero_points)
        spans[count++] =
            (struct plan_span) { "zero_points", p->zero_points, groups, PTX_S32, true, false };
    return ptxp_check_spans(operations, &groups_forward, spans, count);
}

ptx_status ptx_fake_quantize_groups(ptx_operations *operations,
                                    const struct ptx_fake_quantize_groups_params *params,
                                    CUstream stream)
{
    struct groups_choice c;
    ptx_status status = ptxp_check_operations(operations, &groups_forward);

    if (!status)
        status = choose_groups(&groups_forward, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_groups_addresses(operations, &c);
    return status ? status : ptxp_launch(operations, &groups_forward, &c.request, stream);
}

ptx_status ptx_fake_quantize_groups_prepare(ptx_operations *operations,
                                            const struct ptx_fake_quantize_groups_params *params)
{
    struct groups_choice c;
    ptx_status status = ptxp_check_operations(operations, &groups_prepare);

    if (!status)
        status = choose_groups(&groups_prepare, params, &c);
    return status ? status : ptxp_prepare(operations, &groups_prepare, &c.request, NULL);
}

ptx_status ptx_fake_quantize_groups_describe(const struct ptx_fake_quantize_groups_params *params,
                                             struct ptx_operation_description *description)
{
    struct groups_choice c;
    ptx_status status = choose_groups(&groups_describe, params, &c);

    if (!status)
        status = ptxp_check_given(&groups_describe, "description", description);
    if (status)
        return status;
    const struct ptx_fake_quantize_groups_params *p = &c.params;
    const uint64_t wanted = (p->scales != 0) + (uint64_t)(p->zero_points != 0);
    const uint64_t groups = p->count / p->group;
    ptxp_describe(&c.request, 2 * p->count * ptx_type_bytes(p->dtype) + 4 * groups * wanted,
                  description);
    return PTX_OK;
}

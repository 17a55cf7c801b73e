// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "operations.h"

static ptx_status check_format(const struct plan_call *call, ptx_fp8 format)
{
    if (format == PTX_FP8_E4M3 || format == PTX_FP8_E5M2)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: format is %d; it must be PTX_FP8_E4M3 (%d) or PTX_FP8_E5M2 (%d)",
                     call->name, (int)format, PTX_FP8_E4M3, PTX_FP8_E5M2);
}

// ---- casts --------------------------------------------------------------------------------------

static const struct plan_call cast = { "ptx_fp8_cast", "ptx_fp8_prepare" };
static const struct plan_call cast_prepare = { "ptx_fp8_prepare", "ptx_fp8_prepare" };
static const struct plan_call cast_describe = { "ptx_fp8_describe", "ptx_fp8_prepare" };

enum { CAST_FORMAT, CAST_SCALE, CAST_AMAX };
enum { SCALE_VALUE, SCALE_DEVICE };
enum { AMAX_MERGE, AMAX_NONE };

// The parameters, and what is derived from them.
struct cast {
    struct ptx_fp8_params params;
    float scale;
    struct plan_request request;
};

static size_t cast_values(const void *call, struct ptx_named_arg *values)
{
    const struct cast *c = call;
    const struct ptx_fp8_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(p->x) },
        { "y", PTX_ARG(p->y) },
        { "n", PTX_ARG(p->count) },
        { "scale",
          p->scale_at ? (struct ptx_arg)PTX_ARG(p->scale_at) : (struct ptx_arg)PTX_ARG(c->scale) },
        { "amax", PTX_ARG(p->amax) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_fp8 = {
    .kernel = &ptx_kernel_cast_fp8,
    .options = { [CAST_FORMAT] = { "format", { [PTX_FP8_E4M3] = "e4m3", [PTX_FP8_E5M2] = "e5m2" } },
                 [CAST_SCALE] = { "scale", { [SCALE_VALUE] = "value", [SCALE_DEVICE] = "device" } },
                 [CAST_AMAX] = { "amax", { [AMAX_MERGE] = "merge", [AMAX_NONE] = "none" } } },
    .values = cast_values,
};

static ptx_status check_cast(const struct plan_call *call, const struct cast *c)
{
    const struct ptx_fp8_params *p = &c->params;

    if (p->scale_at && p->scale != 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: there is a scale by value and one by address, scale_at; leave one "
                         "out",
                         call->name);
    if (!p->scale_at && !(c->scale > 0 && isfinite(c->scale)))
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "%s: scale is %g%s; it must be finite and above 0, or scale_at must be its "
            "address",
            call->name, p->scale,
            p->scale > 0 && isfinite(p->scale) ? ", which does not fit f32" : "");
    return check_format(call, p->format);
}

static ptx_status choose_cast(const struct plan_call *call, const struct ptx_fp8_params *params,
                              struct cast *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct cast) { .params = *params, .scale = (float)params->scale };
    status = ptxp_check_dtype(call, params->dtype, false);
    if (!status)
        status = check_cast(call, c);
    if (status)
        return status;
    c->request = (struct plan_request) {
        .operation = PLAN_fp8,
        .dtype = params->dtype,
        .option = { [CAST_FORMAT] = (uint8_t)params->format,
                    [CAST_SCALE] = params->scale_at ? SCALE_DEVICE : SCALE_VALUE,
                    [CAST_AMAX] = params->amax ? AMAX_MERGE : AMAX_NONE },
        .n = params->count,
        .call = c,
    };
    return ptxp_check_count(call, &c->request);
}

static ptx_status check_cast_addresses(const ptx_operations *operations, const struct cast *c)
{
    const struct ptx_fp8_params *p = &c->params;
    struct plan_span spans[4] = { { "x", p->x, p->count, p->dtype, false, false },
                                  { "y", p->y, p->count, PTX_U8, true, false } };
    size_t count = 2;

    if (p->scale_at)
        spans[count++] = (struct plan_span) { "scale_at", p->scale_at, 1, PTX_F32, false, false };
    if (p->amax)
        spans[count++] = (struct plan_span) { "amax", p->amax, 1, PTX_F32, true, false };
    return ptxp_check_spans(operations, &cast, spans, count);
}

ptx_status ptx_fp8_cast(ptx_operations *operations, const struct ptx_fp8_params *params,
                        CUstream stream)
{
    struct cast c;
    ptx_status status = ptxp_check_operations(operations, &cast);

    if (!status)
        status = choose_cast(&cast, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_cast_addresses(operations, &c);
    return status ? status : ptxp_launch(operations, &cast, &c.request, stream);
}

ptx_status ptx_fp8_prepare(ptx_operations *operations, const struct ptx_fp8_params *params)
{
    struct cast c;
    ptx_status status = ptxp_check_operations(operations, &cast_prepare);

    if (!status)
        status = choose_cast(&cast_prepare, params, &c);
    return status ? status : ptxp_prepare(operations, &cast_prepare, &c.request, NULL);
}

ptx_status ptx_fp8_describe(const struct ptx_fp8_params *params,
                            struct ptx_operation_description *description)
{
    struct cast c;
    ptx_status status = choose_cast(&cast_describe, params, &c);

    if (!status)
        status = ptxp_check_given(&cast_describe, "description", description);
    if (status)
        return status;
    uint64_t bytes = params->count * (ptx_type_bytes(params->dtype) + 1);
    if (params->count)
        bytes += (params->scale_at ? sizeof(float) : 0) + (params->amax ? 2 * sizeof(float) : 0);
    ptxp_describe(&c.request, bytes, description);
    return PTX_OK;
}

// ---- delayed scaling ----------------------------------------------------------------------------

static const struct plan_call update = { "ptx_delayed_scale_update", "ptx_delayed_scale_prepare" };
static const struct plan_call update_prepare = { "ptx_delayed_scale_prepare",
                                                 "ptx_delayed_scale_prepare" };
static const struct plan_call update_describe = { "ptx_delayed_scale_describe",
                                                  "ptx_delayed_scale_prepare" };

enum { UPDATE_AMAX, UPDATE_FORMAT };
enum { AMAX_MAX, AMAX_MOST_RECENT };
enum { FORMAT_EACH = PTX_FP8_E5M2 + 1 };
enum { MOST_MARGIN = 100 };

struct update {
    struct ptx_delayed_scale_params params;
    uint64_t entries; // of the history
    struct plan_request request;
};

static size_t update_values(const void *call, struct ptx_named_arg *values)
{
    const struct update *u = call;
    const struct ptx_delayed_scale_params *p = &u->params;
    const struct ptx_named_arg all[] = {
        { "scale", PTX_ARG(p->scale) },     { "scale_inv", PTX_ARG(p->scale_inv) },
        { "history", PTX_ARG(p->history) }, { "formats", PTX_ARG(p->formats) },
        { "n", PTX_ARG(p->tensors) },       { "count", PTX_ARG(u->entries) },
        { "margin", PTX_ARG(p->margin) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_delayed_scale = {
    .kernel = &ptx_kernel_delayed_scale_update,
    .options = { [UPDATE_AMAX] = { "amax",
                                   { [AMAX_MAX] = "max", [AMAX_MOST_RECENT] = "most_recent" } },
                 [UPDATE_FORMAT] = { "format",
                                     { [PTX_FP8_E4M3] = "e4m3",
                                       [PTX_FP8_E5M2] = "e5m2",
                                       [FORMAT_EACH] = "each" } } },
    .values = update_values,
};

static ptx_status check_rule(const struct plan_call *call, const struct ptx_delayed_scale_params *p)
{
    if (p->formats && p->format != 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: there is a format of all tensors and formats, an address; leave one "
                         "out",
                         call->name);
    if (p->margin < -MOST_MARGIN || p->margin > MOST_MARGIN)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: margin is %" PRId32 "; it must be from %d to %d, usually 0",
                         call->name, p->margin, -MOST_MARGIN, MOST_MARGIN);
    return check_format(call, p->format);
}

static ptx_status check_sizes(const struct plan_call *call,
                              const struct ptx_delayed_scale_params *p)
{
    const uint64_t most = UINT64_MAX / 2 / sizeof(float);

    if (p->tensors && !p->rows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: rows is 0; the history has 1 row or more, of which the first is "
                         "measured now",
                         call->name);
    if (p->tensors > UINT32_MAX || (p->tensors && p->rows > most / p->tensors))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: tensors is %" PRIu64 " and rows %" PRIu64
                         "; a history cannot be so large",
                         call->name, p->tensors, p->rows);
    return PTX_OK;
}

static ptx_status choose_update(const struct plan_call *call,
                                const struct ptx_delayed_scale_params *params, struct update *u)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (!status)
        status = check_rule(call, params);
    if (!status)
        status = check_sizes(call, params);
    if (status)
        return status;
    *u = (struct update) { .params = *params, .entries = params->tensors * params->rows };
    u->request = (struct plan_request) {
        .operation = PLAN_delayed_scale,
        .dtype = PTX_F32,
        .option = { [UPDATE_AMAX] = params->most_recent ? AMAX_MOST_RECENT : AMAX_MAX,
                    [UPDATE_FORMAT] = params->formats ? FORMAT_EACH : (uint8_t)params->format },
        .n = params->tensors,
        .call = u,
    };
    return PTX_OK;
}

static ptx_status check_update_addresses(const ptx_operations *operations, const struct update *u)
{
    const struct ptx_delayed_scale_params *p = &u->params;
    const struct plan_span spans[] = {
        { "history", p->history, u->entries, PTX_F32, true, false },
        { "scale", p->scale, p->tensors, PTX_F32, true, false },
        { "scale_inv", p->scale_inv, p->tensors, PTX_F32, true, false },
        { "formats", p->formats, p->tensors, PTX_U32, false, false },
    };

    return ptxp_check_spans(operations, &update, spans, p->formats ? 4 : 3);
}

ptx_status ptx_delayed_scale_update(ptx_operations *operations,
                                    const struct ptx_delayed_scale_params *params, CUstream stream)
{
    struct update u;
    ptx_status status = ptxp_check_operations(operations, &update);

    if (!status)
        status = choose_update(&update, params, &u);
    if (status || u.params.tensors == 0)
        return status;
    status = check_update_addresses(operations, &u);
    return status ? status : ptxp_launch(operations, &update, &u.request, stream);
}

ptx_status ptx_delayed_scale_prepare(ptx_operations *operations,
                                     const struct ptx_delayed_scale_params *params)
{
    struct update u;
    ptx_status status = ptxp_check_operations(operations, &update_prepare);

    if (!status)
        status = choose_update(&update_prepare, params, &u);
    return status ? status : ptxp_prepare(operations, &update_prepare, &u.request, NULL);
}

ptx_status ptx_delayed_scale_describe(const struct ptx_delayed_scale_params *params,
                                      struct ptx_operation_description *description)
{
    struct update u;
    ptx_status status = choose_update(&update_describe, params, &u);

    if (!status)
        status = ptxp_check_given(&update_describe, "description", description);
    if (status)
        return status;
    const uint64_t of_tensor = (params->formats ? 4 : 3) * sizeof(float);
    ptxp_describe(&u.request, 2 * u.entries * sizeof(float) + params->tensors * of_tensor,
                  description);
    return PTX_OK;
}

// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "kernels/common/quantizer_target.h"
#include "kernels/common/vector.h"
#include "operations.h"

static const struct plan_call backward = { "ptx_quantize_backward", "ptx_quantize_prepare" };
static const struct plan_call prepare = { "ptx_quantize_prepare", "ptx_quantize_prepare" };
static const struct plan_call describe = { "ptx_quantize_describe", "ptx_quantize_prepare" };

enum {
    OPTION_DIVISION,
    OPTION_GRADIENT,
    OPTION_TARGET,
    OPTION_SCALARS,
    OPTION_LAYOUT = OPTION_SCALARS
};
enum { SCALARS_VALUE, SCALARS_DEVICE };
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

// The parameters with defaults filled in, and the values derived from them.
struct choice {
    struct ptx_quantize_params params;
    float f32_scale;
    struct plan_request request;
};

static bool is_f64(const struct choice *c)
{
    return c->params.dtype == PTX_F64;
}

static struct ptx_arg scale_of(const struct choice *c)
{
    const struct ptx_quantize_params *p = &c->params;

    if (p->scales)
        return (struct ptx_arg)PTX_ARG(p->scales);
    return is_f64(c) ? (struct ptx_arg)PTX_ARG(p->scale) : (struct ptx_arg)PTX_ARG(c->f32_scale);
}

static size_t values_of(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_quantize_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(p->x) },
        { "d_output", PTX_ARG(p->d_output) },
        { "d_input", PTX_ARG(p->d_input) },
        { "n", PTX_ARG(p->count) },
        { "scale", scale_of(c) },
        { "zero_point", p->scales ? (struct ptx_arg)PTX_ARG(p->zero_points)
                                  : (struct ptx_arg)PTX_ARG(p->zero_point) },
        { "channels", PTX_ARG(p->channels) },
        { "inner", PTX_ARG(p->inner) },
        { "q_min", PTX_ARG(p->q_min) },
        { "q_max", PTX_ARG(p->q_max) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

#define QUANTIZER_OPTIONS                                                                          \
    [OPTION_DIVISION] = { "division", { "exact", "reciprocal" } },                                 \
    [OPTION_GRADIENT] = { "gradient", { "quantize", "fake_quantize" } },                           \
    [OPTION_TARGET] = { "target", { QUANTIZER_TARGET_NAMES } }

const struct plan_operation ptxp_operation_quantize = {
    .kernel = &ptx_kernel_quantize_ste_backward,
    .options = { QUANTIZER_OPTIONS, [OPTION_SCALARS] = { "scalars",
                                                         { [SCALARS_VALUE] = "value",
                                                           [SCALARS_DEVICE] = "device" } } },
    .values = values_of,
};

const struct plan_operation ptxp_operation_quantize_channel = {
    .kernel = &ptx_kernel_quantize_channel_ste_backward,
    .options = { QUANTIZER_OPTIONS,
                 [OPTION_LAYOUT] = { "layout",
                                     { [LAYOUT_ROWS] = "rows", [LAYOUT_COLUMNS] = "columns" } } },
    .values = values_of,
};

static uint8_t target_of(const struct ptx_quantize_params *p)
{
#define MATCH(id, name, least, greatest)                                                           \
    if (p->q_min == least && p->q_max == greatest)                                                 \
        return TARGET_##id;
    QUANTIZER_TARGETS(MATCH)
#undef MATCH
    return TARGET_ANY;
}

// The row layout is faster if few vectors contain two channels; otherwise the column layout is.
uint8_t ptxp_channel_layout(const struct ptx_quantize_params *p)
{
    const unsigned bytes = ptx_type_bytes(p->dtype), lanes = VECTOR_BYTES / bytes;
    const bool aligned = p->x % VECTOR_BYTES == 0 && p->inner % lanes == 0;

    return p->inner >= (aligned ? 64 : 4096) ? LAYOUT_ROWS : LAYOUT_COLUMNS;
}

static ptx_status check_scalars(const struct plan_call *call, const struct ptx_quantize_params *p)
{
    const double scale = p->dtype == PTX_F64 ? p->scale : (double)(float)p->scale;

    if (p->scales) {
        if (p->scale != 0 || p->zero_point != 0)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "%s: there are both scales and a scale or zero_point by value; "
                             "leave one out",
                             call->name);
        return PTX_OK;
    }
    if (!(scale > 0 && isfinite(scale)))
        return ptxd_fail(PTX_ERROR_INVALID, "%s: scale is %g%s; it must be finite and above 0%s",
                         call->name, p->scale,
                         p->scale > 0 && isfinite(p->scale) ? ", which does not fit f32" : "",
                         p->channels ? " (with channels: give the address in scales)" : "");
    if (p->zero_point < p->q_min || p->zero_point > p->q_max)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: zero_point is %" PRId32 "; it must be from q_min to q_max, "
                         "%" PRId32 " to %" PRId32,
                         call->name, p->zero_point, p->q_min, p->q_max);
    return PTX_OK;
}

ptx_status ptxp_check_channels(const struct plan_call *call, uint64_t count, uint64_t channels,
                               uint64_t *inner)
{
    if (!channels && *inner)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: channels is 0, and inner is %" PRIu64
                         "; give the number of channels, or leave inner 0",
                         call->name, *inner);
    if (channels && !*inner)
        *inner = 1;
    if (channels && (channels > UINT64_MAX / *inner || count % (channels * *inner) != 0))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: count is %" PRIu64 ", no multiple of channels %" PRIu64
                         " * inner %" PRIu64
                         "; inner is the product of the dimensions after the channels' axis",
                         call->name, count, channels, *inner);
    return PTX_OK;
}

ptx_status ptxp_check_range(const struct plan_call *call, int32_t *q_min, int32_t *q_max)
{
    if (*q_min == 0 && *q_max == 0) {
        *q_min = -128;
        *q_max = 127;
    }
    if (*q_min <= *q_max)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: q_min is %" PRId32 " and q_max %" PRId32
                     "; q_min must not be above q_max",
                     call->name, *q_min, *q_max);
}

// Scales by address come with zero points, and channels with scales by address.
static ptx_status check_scales(const struct plan_call *call, const struct ptx_quantize_params *p)
{
    if (p->zero_points && !p->scales)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: scales is 0, and there are zero_points; both are addresses or "
                         "neither is",
                         call->name);
    if (p->channels && !p->scales)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: scales is 0, and there are %" PRIu64
                         " channels; it must be the address of a scale for each",
                         call->name, p->channels);
    return PTX_OK;
}

ptx_status ptxp_check_quantizer(const struct plan_call *call, struct ptx_quantize_params *p)
{
    ptx_status status = ptxp_check_dtype(call, p->dtype, true);

    if (!status)
        status = check_scales(call, p);
    if (!status)
        status = ptxp_check_channels(call, p->count, p->channels, &p->inner);
    if (!status)
        status = ptxp_check_range(call, &p->q_min, &p->q_max);
    return status ? status : check_scalars(call, p);
}

static ptx_status choose(const struct plan_call *call, const struct ptx_quantize_params *params,
                         struct choice *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct choice) { .params = *params, .f32_scale = (float)params->scale };
    struct ptx_quantize_params *p = &c->params;
    status = ptxp_check_quantizer(call, p);
    if (status)
        return status;
    c->request = (struct plan_request) {
        .operation = p->channels ? PLAN_quantize_channel : PLAN_quantize,
        .dtype = p->dtype,
        .option = { [OPTION_DIVISION] = p->reciprocal,
                    [OPTION_GRADIENT] = p->fake_quantize,
                    [OPTION_TARGET] = target_of(p),
                    [OPTION_SCALARS] = p->channels ? ptxp_channel_layout(p)
                                       : p->scales ? SCALARS_DEVICE
                                                   : SCALARS_VALUE },
        .n = p->count,
        .call = c,
    };
    return ptxp_check_count(call, &c->request);
}

static uint64_t scale_count(const struct choice *c)
{
    return c->params.channels ? c->params.channels : 1;
}

static ptx_status check_addresses(const ptx_operations *operations, const struct plan_call *call,
                                  const struct choice *c)
{
    const struct ptx_quantize_params *p = &c->params;
    const uint64_t scales = scale_count(c);
    const struct plan_span spans[] = {
        { "d_output", p->d_output, p->count, p->dtype, false, false },
        { "x", p->x, p->count, p->dtype, false, false },
        { "d_input", p->d_input, p->count, p->dtype, true, true },
        { "scales", p->scales, scales, is_f64(c) ? PTX_F64 : PTX_F32, false, false },
        { "zero_points", p->zero_points, scales, PTX_S32, false, false },
    };

    return ptxp_check_spans(operations, call, spans, p->scales ? 5 : 3);
}

ptx_status ptx_quantize_backward(ptx_operations *operations,
                                 const struct ptx_quantize_params *params, CUstream stream)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &backward);

    if (!status)
        status = choose(&backward, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_addresses(operations, &backward, &c);
    return status ? status : ptxp_launch(operations, &backward, &c.request, stream);
}

ptx_status ptx_quantize_prepare(ptx_operations *operations,
                                const struct ptx_quantize_params *params)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &c);
    if (!status)
        status = ptxp_prepare(operations, &prepare, &c.request, NULL);
    if (status || c.request.operation != PLAN_quantize_channel)
        return status;
    // The layout of a call depends on inner and on the alignment of x.
    uint8_t *layout = &c.request.option[OPTION_LAYOUT];
    *layout = *layout == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS;
    return ptxp_prepare(operations, &prepare, &c.request, NULL);
}

ptx_status ptx_quantize_describe(const struct ptx_quantize_params *params,
                                 struct ptx_operation_description *description)
{
    struct choice c;
    ptx_status status = choose(&describe, params, &c);

    if (!status)
        status = ptxp_check_given(&describe, "description", description);
    if (status)
        return status;
    const uint64_t scale_bytes = (is_f64(&c) ? sizeof(double) : sizeof(float)) + sizeof(int32_t);
    uint64_t bytes = 3 * c.params.count * ptx_type_bytes(c.params.dtype);
    if (c.params.scales && c.params.count)
        bytes += scale_count(&c) * scale_bytes;
    ptxp_describe(&c.request, bytes, description);
    return PTX_OK;
}

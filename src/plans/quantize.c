// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>

#include "driver/error.h"
#include "operations.h"

static const struct plan_call backward = { "ptx_quantize_backward", "ptx_quantize_prepare" };
static const struct plan_call prepare = { "ptx_quantize_prepare", "ptx_quantize_prepare" };
static const struct plan_call describe = { "ptx_quantize_describe", "ptx_quantize_prepare" };

enum { TARGET_S8, TARGET_U8, TARGET_ANY };
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

// The parameters with their defaults in place, and the kernel that they come to.
struct choice {
    struct ptx_quantize_params params;
    float f32_scale;
    enum plan_kernel kernel;
    struct ptx_kernel_spec spec;
};

static bool is_f64(const struct choice *c)
{
    return c->params.dtype == PTX_F64;
}

static uint8_t target_of(const struct ptx_quantize_params *p)
{
    if (p->q_min == -128 && p->q_max == 127)
        return TARGET_S8;
    return p->q_min == 0 && p->q_max == 255 ? TARGET_U8 : TARGET_ANY;
}

// Rows are fast where a vector is seldom of two channels, columns everywhere else.
static uint8_t layout_of(const struct ptx_quantize_params *p)
{
    const unsigned bytes = ptx_type_bytes(p->dtype), lanes = 16 / bytes;
    const bool aligned = p->x % 16 == 0 && p->inner % lanes == 0;

    return p->inner >= (aligned ? 64 : 4096) ? LAYOUT_ROWS : LAYOUT_COLUMNS;
}

static ptx_status check_scalars(const struct plan_call *call, struct choice *c)
{
    const struct ptx_quantize_params *p = &c->params;
    const double scale = is_f64(c) ? p->scale : (double)(float)p->scale;

    if (p->q_min > p->q_max)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: q_min is %" PRId32 " and q_max %" PRId32
                               "; q_min must not be above q_max",
                               call->name, p->q_min, p->q_max);
    if (p->scales) {
        if (p->scale != 0 || p->zero_point != 0)
            return ptx_driver_fail(PTX_ERROR_INVALID,
                                   "%s: there are both scales and a scale or zero_point by value; "
                                   "leave one out",
                                   call->name);
        return PTX_OK;
    }
    if (!(scale > 0 && isfinite(scale)))
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: scale is %g%s; it must be finite and above 0%s", call->name,
                               p->scale, scale != p->scale ? ", which does not fit f32" : "",
                               p->channels ? " (with channels: give the address in scales)" : "");
    if (p->zero_point < p->q_min || p->zero_point > p->q_max)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: zero_point is %" PRId32 "; it must be from q_min to q_max, "
                               "%" PRId32 " to %" PRId32,
                               call->name, p->zero_point, p->q_min, p->q_max);
    return PTX_OK;
}

static ptx_status check_channels(const struct plan_call *call, const struct ptx_quantize_params *p)
{
    if (p->zero_points && !p->scales)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: scales is 0, and there are zero_points; both are addresses or "
                               "neither is",
                               call->name);
    if (!p->channels && p->inner)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: channels is 0, and inner is %" PRIu64
                               "; give the number of channels, or leave inner 0",
                               call->name, p->inner);
    if (p->channels && !p->scales)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: scales is 0, and there are %" PRIu64
                               " channels; it must be the address of a scale for each",
                               call->name, p->channels);
    const uint64_t inner = p->inner ? p->inner : 1;
    if (p->channels && (p->channels > UINT64_MAX / inner || p->count % (p->channels * inner) != 0))
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "%s: count is %" PRIu64 ", no multiple of channels %" PRIu64
                               " * inner %" PRIu64
                               "; inner is the product of the dimensions after the channels' axis",
                               call->name, p->count, p->channels, inner);
    return PTX_OK;
}

static ptx_status choose(const struct plan_call *call, const struct ptx_quantize_params *params,
                         struct choice *c)
{
    if (!params)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: params is NULL", call->name);
    *c = (struct choice) { .params = *params, .f32_scale = (float)params->scale };
    struct ptx_quantize_params *p = &c->params;
    ptx_status status = ptxp_check_dtype(call, p->dtype);

    if (!status)
        status = check_channels(call, p);
    if (status)
        return status;
    if (p->q_min == 0 && p->q_max == 0) {
        p->q_min = -128;
        p->q_max = 127;
    }
    if (p->channels && !p->inner)
        p->inner = 1;
    c->kernel = p->channels ? PLAN_quantize_channel_ste_backward : PLAN_quantize_ste_backward;
    c->spec =
        (struct ptx_kernel_spec) { .dtype = p->dtype,
                                   .option = { p->reciprocal, p->fake_quantize, target_of(p),
                                               p->channels ? layout_of(p) : p->scales != 0 } };
    status = check_scalars(call, c);
    return status ? status : ptxp_check_count(call, c->kernel, p->dtype, p->count);
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

static void add(struct ptx_arg *args, size_t *count, const void *value, size_t size)
{
    args[(*count)++] = (struct ptx_arg) { value, size };
}

static ptx_status launch(ptx_operations *operations, const struct plan_call *call,
                         const struct choice *c, CUstream stream)
{
    const struct ptx_quantize_params *p = &c->params;
    struct ptx_arg args[10] = { PTX_ARG(p->x), PTX_ARG(p->d_output), PTX_ARG(p->d_input),
                                PTX_ARG(p->count) };
    size_t count = 4;

    if (p->scales) {
        add(args, &count, &p->scales, sizeof p->scales);
        add(args, &count, &p->zero_points, sizeof p->zero_points);
    } else {
        if (is_f64(c))
            add(args, &count, &p->scale, sizeof p->scale);
        else
            add(args, &count, &c->f32_scale, sizeof c->f32_scale);
        add(args, &count, &p->zero_point, sizeof p->zero_point);
    }
    if (p->channels) {
        add(args, &count, &p->channels, sizeof p->channels);
        add(args, &count, &p->inner, sizeof p->inner);
    }
    if (target_of(p) == TARGET_ANY) {
        add(args, &count, &p->q_min, sizeof p->q_min);
        add(args, &count, &p->q_max, sizeof p->q_max);
    }
    return ptxp_launch(operations, call, c->kernel, &c->spec, p->count, args, count, stream);
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
    return status ? status : launch(operations, &backward, &c, stream);
}

ptx_status ptx_quantize_prepare(ptx_operations *operations,
                                const struct ptx_quantize_params *params)
{
    struct choice c;
    ptx_function *function;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &c);
    if (!status)
        status = ptxp_function(operations, &prepare, c.kernel, &c.spec, NULL, &function);
    if (status || c.kernel != PLAN_quantize_channel_ste_backward)
        return status;
    // Which layout a call takes depends on inner and on where x lies.
    c.spec.option[3] = c.spec.option[3] == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS;
    return ptxp_function(operations, &prepare, c.kernel, &c.spec, NULL, &function);
}

ptx_status ptx_quantize_describe(const struct ptx_quantize_params *params,
                                 struct ptx_operation_description *description)
{
    struct choice c;
    ptx_status status = choose(&describe, params, &c);

    if (status)
        return status;
    if (!description)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: description is NULL", describe.name);
    const uint64_t scale_bytes = (is_f64(&c) ? sizeof(double) : sizeof(float)) + sizeof(int32_t);
    uint64_t bytes = 3 * c.params.count * ptx_type_bytes(c.params.dtype);
    if (c.params.scales && c.params.count)
        bytes += scale_count(&c) * scale_bytes;
    ptxp_describe(c.kernel, &c.spec, c.params.count, bytes, description);
    return PTX_OK;
}

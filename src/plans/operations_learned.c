// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "kernels/common/pieces.h"
#include "kernels/common/vector.h"
#include "operations.h"

#define PREPARE "ptx_quantize_learned_prepare"
static const struct plan_call backward = { "ptx_quantize_learned_backward", PREPARE };
static const struct plan_call prepare = { PREPARE, PREPARE };
static const struct plan_call describe = { "ptx_quantize_learned_describe", PREPARE };

enum { OPTION_DIVISION, OPTION_ZERO_POINT, OPTION_RANGE, OPTION_LAYOUT };
enum { OPTION_GROUP = OPTION_LAYOUT };
enum { OPTION_GRADIENTS };
enum { LAYOUT_TENSOR, LAYOUT_ROWS, LAYOUT_COLUMNS };
static const enum pieces_layout layouts[] = {
    [LAYOUT_TENSOR] = PIECES_TENSOR, [LAYOUT_ROWS] = PIECES_ROWS, [LAYOUT_COLUMNS] = PIECES_COLUMNS
};
enum { MOST_BLOCKS = INT32_MAX };

// The parameters with defaults filled in, and the values derived from them.
struct choice {
    struct ptx_quantize_learned_params params;
    bool learns;      // the zero points
    CUdeviceptr zero; // the zero points of either kind
    CUdeviceptr zero_sums;
    uint64_t channels, pieces, width; // of the second launch; groups are channels, too
    // The two launches; with groups, the first alone.
    struct plan_request sums, reduce;
};

static bool is_grouped(const struct choice *c)
{
    return c->params.group != 0;
}

static size_t sums_values(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_quantize_learned_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(p->x) },
        { "d_output", PTX_ARG(p->d_output) },
        { "d_input", PTX_ARG(p->d_input) },
        { "n", PTX_ARG(p->count) },
        { "scale", PTX_ARG(p->scales) },
        { "zero_point", PTX_ARG(c->zero) },
        { "channels", PTX_ARG(p->channels) },
        { "inner", PTX_ARG(p->inner) },
        { "q_min", PTX_ARG(p->q_min) },
        { "q_max", PTX_ARG(p->q_max) },
        { "scale_sums", PTX_ARG(p->workspace) },
        { "zero_sums", PTX_ARG(c->zero_sums) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t reduce_values(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_quantize_learned_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "scale_sums", PTX_ARG(p->workspace) }, { "zero_sums", PTX_ARG(c->zero_sums) },
        { "pieces", PTX_ARG(c->pieces) },        { "channels", PTX_ARG(c->channels) },
        { "width", PTX_ARG(c->width) },          { "grad_factor", PTX_ARG(p->grad_factor) },
        { "d_scale", PTX_ARG(p->d_scales) },     { "d_zero_point", PTX_ARG(p->d_zero_points) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t groups_values(const void *call, struct ptx_named_arg *values)
{
    const struct choice *c = call;
    const struct ptx_quantize_learned_params *p = &c->params;
    const struct ptx_named_arg all[] = {
        { "x", PTX_ARG(p->x) },
        { "d_output", PTX_ARG(p->d_output) },
        { "d_input", PTX_ARG(p->d_input) },
        { "n", PTX_ARG(p->count) },
        { "scale", PTX_ARG(p->scales) },
        { "zero_point", PTX_ARG(c->zero) },
        { "q_min", PTX_ARG(p->q_min) },
        { "q_max", PTX_ARG(p->q_max) },
        { "grad_factor", PTX_ARG(p->grad_factor) },
        { "d_scale", PTX_ARG(p->d_scales) },
        { "d_zero_point", PTX_ARG(p->d_zero_points) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

#define LEARNED_OPTIONS                                                                            \
    [OPTION_DIVISION] = { "division", { "exact", "reciprocal" } },                                 \
    [OPTION_ZERO_POINT] = { "zero_point", { "learned", "fixed" } },                                \
    [OPTION_RANGE] = { "range", { "level", "quotient" } }

const struct plan_operation ptxp_operation_learned = {
    .kernel = &ptx_kernel_quantize_learned_backward,
    .options = { LEARNED_OPTIONS, [OPTION_LAYOUT] = { "layout",
                                                      { [LAYOUT_TENSOR] = "tensor",
                                                        [LAYOUT_ROWS] = "rows",
                                                        [LAYOUT_COLUMNS] = "columns" } } },
    .values = sums_values,
};

const struct plan_operation ptxp_operation_learned_reduce = {
    .kernel = &ptx_kernel_quantize_learned_reduce,
    .options = { [OPTION_GRADIENTS] = { "gradients", { "both", "scale" } } },
    .values = reduce_values,
};

const struct plan_operation ptxp_operation_learned_groups = {
    .kernel = &ptx_kernel_quantize_learned_groups,
    .options = { LEARNED_OPTIONS, [OPTION_GROUP] = { "group", { "32", "64", "128" } } },
    .values = groups_values,
};

// Rows, unless few vectors of them are whole or they are short; but the sums of columns cost more
// than that if there are few elements in each.
static uint8_t layout_of(const struct ptx_quantize_learned_params *p)
{
    enum { SHORT = 64, LONG = 4096, FEW = 32 };
    const unsigned lanes = VECTOR_BYTES / ptx_type_bytes(p->dtype);
    const bool whole = p->x % VECTOR_BYTES == 0 && p->inner % lanes == 0;
    const bool few = p->count / p->channels / p->inner < FEW;

    return p->inner >= (whole || few ? SHORT : LONG) ? LAYOUT_ROWS : LAYOUT_COLUMNS;
}

static ptx_status check_zero_points(const struct plan_call *call,
                                    const struct ptx_quantize_learned_params *p)
{
    if (p->zero_points && p->fixed_zero_points)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: there are both zero_points and fixed_zero_points; leave one out",
                         call->name);
    if (!p->zero_points && !p->fixed_zero_points)
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "%s: zero_points is 0, and so is fixed_zero_points; one of them must be an "
            "address: of floats that are learned, or of s32 that are not",
            call->name);
    if (p->fixed_zero_points && p->d_zero_points)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: d_zero_points is an address, but fixed zero points have no gradient; "
                         "leave it 0",
                         call->name);
    return PTX_OK;
}

static ptx_status check_group(const struct plan_call *call,
                              const struct ptx_quantize_learned_params *p)
{
    if (!p->group)
        return p->columns ? ptxd_fail(PTX_ERROR_INVALID,
                                      "%s: columns is %" PRIu64
                                      ", and group is 0; give the group, or leave columns 0",
                                      call->name, p->columns)
                          : PTX_OK;
    if (p->channels)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: channels is %" PRIu64 ", and group %" PRIu32 "; leave one of them 0",
                         call->name, p->channels, p->group);
    return ptxp_check_groups(call, p->count, p->columns, p->group);
}

// The one launch of groups.
static ptx_status choose_launch(const struct plan_call *call, struct choice *c)
{
    const struct ptx_quantize_learned_params *p = &c->params;

    c->channels = p->count / p->group;
    c->sums = (struct plan_request) {
        .operation = PLAN_learned_groups,
        .dtype = p->dtype,
        .option = { [OPTION_DIVISION] = p->reciprocal,
                    [OPTION_ZERO_POINT] = !c->learns,
                    [OPTION_RANGE] = p->quotient_range,
                    [OPTION_GROUP] = (uint8_t)(p->group / 64) },
        .n = p->count,
        .call = c,
    };
    c->reduce.dtype = PTX_F32; // of the gradients
    return ptxp_check_count(call, &c->sums);
}

// The launches, and what lies between them.
static ptx_status choose_launches(const struct plan_call *call, struct choice *c)
{
    const struct ptx_quantize_learned_params *p = &c->params;
    const struct ptx_kernel_sizes sizes = { p->count, p->channels, p->inner };
    struct ptx_kernel_spec spec = { .dtype = p->dtype };

    c->sums = (struct plan_request) {
        .operation = PLAN_learned,
        .dtype = p->dtype,
        .option = { [OPTION_DIVISION] = p->reciprocal,
                    [OPTION_ZERO_POINT] = !c->learns,
                    [OPTION_RANGE] = p->quotient_range,
                    [OPTION_LAYOUT] = p->channels ? layout_of(p) : LAYOUT_TENSOR },
        .n = p->count,
        .call = c,
    };
    ptx_status status = ptxp_check_count(call, &c->sums);
    if (status)
        return status;
    memcpy(spec.option, c->sums.option, sizeof spec.option); // the same order of values
    if (!ptx_kernel_length(&ptx_kernel_quantize_learned_backward, &spec, &sizes, "pieces",
                           &c->pieces))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %" PRIu64 " channels of %" PRIu64
                         " adjacent elements are more than sums can be for",
                         call->name, p->channels, p->inner);
    const uint8_t layout = c->sums.option[OPTION_LAYOUT];
    c->sums.blocks = ptxk_piece_blocks(&sizes, p->dtype, layouts[layout]);
    if (c->sums.blocks > MOST_BLOCKS)
        c->sums.blocks = MOST_BLOCKS; // each has more to do
    c->channels = p->channels ? p->channels : 1;
    c->width = layout == LAYOUT_TENSOR                 ? c->pieces
               : layout == LAYOUT_COLUMNS || !p->count ? p->inner
                                                       : c->pieces / (p->count / p->inner);
    c->reduce = (struct plan_request) {
        .operation = PLAN_learned_reduce,
        .dtype = p->dtype == PTX_F64 ? PTX_F64 : PTX_F32,
        .option = { [OPTION_GRADIENTS] = !c->learns },
        .n = c->pieces,
        .programmatic = true,
        .call = c,
    };
    return ptxp_check_count(call, &c->reduce);
}

static ptx_status choose(const struct plan_call *call,
                         const struct ptx_quantize_learned_params *params, struct choice *c)
{
    ptx_status status = ptxp_check_given(call, "params", params);

    if (status)
        return status;
    *c = (struct choice) { .params = *params };
    struct ptx_quantize_learned_params *p = &c->params;
    if (p->grad_factor == 0)
        p->grad_factor = 1;
    status = ptxp_check_dtype(call, p->dtype, !p->group);
    if (!status)
        status = ptxp_check_channels(call, p->count, p->channels, &p->inner);
    if (!status)
        status = check_group(call, params);
    if (!status)
        status = check_zero_points(call, p);
    if (!status)
        status = ptxp_check_range(call, &p->q_min, &p->q_max);
    if (status)
        return status;
    if (!isfinite(p->grad_factor))
        return ptxd_fail(PTX_ERROR_INVALID, "%s: grad_factor is %g; it must be finite", call->name,
                         p->grad_factor);
    c->learns = p->zero_points != 0;
    c->zero = c->learns ? p->zero_points : p->fixed_zero_points;
    status = is_grouped(c) ? choose_launch(call, c) : choose_launches(call, c);
    c->zero_sums = p->workspace + c->pieces * sizeof(double);
    return status;
}

static uint64_t sum_count(const struct choice *c)
{
    return c->learns ? 2 * c->pieces : c->pieces;
}

static ptx_status check_addresses(const ptx_operations *operations, const struct choice *c)
{
    const struct ptx_quantize_learned_params *p = &c->params;
    const ptx_type type = c->reduce.dtype;
    struct plan_span spans[8] = {
        { "d_output", p->d_output, p->count, p->dtype, false, false },
        { "x", p->x, p->count, p->dtype, false, false },
        { "d_input", p->d_input, p->count, p->dtype, true, true },
        { "scales", p->scales, c->channels, type, false, false },
        { c->learns ? "zero_points" : "fixed_zero_points", c->zero, c->channels,
          c->learns ? type : PTX_S32, false, false },
        { "d_scales", p->d_scales, c->channels, type, true, false },
    };
    size_t count = 6;

    if (!is_grouped(c))
        spans[count++] =
            (struct plan_span) { "workspace", p->workspace, sum_count(c), PTX_F64, true, false };
    if (c->learns)
        spans[count++] = (struct plan_span) {
            "d_zero_points", p->d_zero_points, c->channels, type, true, false
        };
    return ptxp_check_spans(operations, &backward, spans, count);
}

ptx_status ptx_quantize_learned_backward(ptx_operations *operations,
                                         const struct ptx_quantize_learned_params *params,
                                         CUstream stream)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &backward);

    if (!status)
        status = choose(&backward, params, &c);
    if (status || c.params.count == 0)
        return status;
    status = check_addresses(operations, &c);
    // Nothing is launched unless both can be.
    if (!status && !is_grouped(&c))
        status = ptxp_prepare(operations, &backward, &c.reduce, stream);
    if (!status)
        status = ptxp_launch(operations, &backward, &c.sums, stream);
    if (status || is_grouped(&c))
        return status;
    return ptxp_launch(operations, &backward, &c.reduce, stream);
}

ptx_status ptx_quantize_learned_prepare(ptx_operations *operations,
                                        const struct ptx_quantize_learned_params *params)
{
    struct choice c;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    if (!status)
        status = choose(&prepare, params, &c);
    if (!status && !is_grouped(&c))
        status = ptxp_prepare(operations, &prepare, &c.reduce, NULL);
    if (!status)
        status = ptxp_prepare(operations, &prepare, &c.sums, NULL);
    if (status || !c.params.channels)
        return status;
    // The layout of a call depends on the sizes and on the alignment of x.
    uint8_t *layout = &c.sums.option[OPTION_LAYOUT];
    *layout = *layout == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS;
    return ptxp_prepare(operations, &prepare, &c.sums, NULL);
}

ptx_status ptx_quantize_learned_describe(const struct ptx_quantize_learned_params *params,
                                         struct ptx_operation_description *description)
{
    struct choice c;
    ptx_status status = choose(&describe, params, &c);

    if (!status)
        status = ptxp_check_given(&describe, "description", description);
    if (status)
        return status;
    const uint64_t scalar = ptx_type_bytes(c.reduce.dtype);
    const uint64_t zero = c.learns ? 2 * scalar : sizeof(int32_t);
    const uint64_t workspace = sum_count(&c) * sizeof(double);
    const uint64_t bytes = 3 * c.params.count * ptx_type_bytes(c.params.dtype) + 2 * workspace +
                           c.channels * (2 * scalar + zero);
    ptxp_describe(&c.sums, c.params.count ? bytes : 0, description);
    description->launches *= is_grouped(&c) ? 1 : 2;
    description->workspace = workspace;
    return PTX_OK;
}

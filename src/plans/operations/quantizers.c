// SPDX-License-Identifier: MIT
// The rows of quantizers: with given scales, with scales of groups, learned ones, observed ones.
#include <float.h>
#include <inttypes.h>

#include "driver/error.h"
#include "engine.h"
#include "kernels/common/pieces.h"
#include "kernels/common/quantizer_target.h"
#include "kernels/common/vector.h"

static int32_t target_of(int32_t q_min, int32_t q_max)
{
#define MATCH(id, name, least, greatest)                                                           \
    if (q_min == least && q_max == greatest)                                                       \
        return TARGET_##id;
    QUANTIZER_TARGETS(MATCH)
    return TARGET_ANY;
}

// The row layout is faster unless few vectors of rows are whole or rows are short. With `few`
// rows of a channel, sums of columns cost more than vectors that are not whole.
static bool columns_of(ptx_type dtype, CUdeviceptr x, uint64_t inner, bool few)
{
    enum { SHORT = 64, LONG = 4096 };
    const bool whole = x % VECTOR_BYTES == 0 && inner % (VECTOR_BYTES / ptx_type_bytes(dtype)) == 0;

    return inner < (whole || few ? SHORT : LONG);
}

static ptx_status derive_quantize(struct plan_call *call)
{
    const struct ptx_quantize_backward_params *p = &call->params.quantize_backward;

    call->target = target_of(p->q_min, p->q_max);
    call->columns = columns_of(p->dtype, p->x, p->inner, false);
    return PTX_OK;
}

static ptx_status derive_fake_quantize(struct plan_call *call)
{
    const struct ptx_fake_quantize_params *p = &call->params.fake_quantize;

    call->columns = columns_of(p->dtype, p->x, p->inner, false);
    return PTX_OK;
}

#define LEVELS   .q_min = P(q_min), .q_max = P(q_max)
#define CHANNELS .channels = P(channels), .inner = P(inner)
#define INNER_OF_CHANNELS                                                                          \
    REFUSED("give the number of channels, or leave inner 0", GIVEN(P(inner)), ABSENT(P(channels)))
#define GIVEN_SCALES                                                                               \
    REFUSED("leave one out", GIVEN(P(scale)), GIVEN(A(scales))),                                   \
        REFUSED("leave one out", GIVEN(P(zero_point)), GIVEN(A(scales))),                          \
        REFUSED("both are addresses or neither is", ABSENT(A(scales)), GIVEN(A(zero_points))),     \
        REFUSED("with channels, give the address of a scale for each in scales",                   \
                ABSENT(A(scales)), GIVEN(P(channels))),                                            \
        INNER_OF_CHANNELS
#define LEVEL_FIELDS           VALUE(P(q_min)), VALUE(P(q_max))
// One for each channel or group, or one.
#define OF_EACH(type_, param_) .type = type_, .count = D(scales), .param = param_
// By value or by address.
#define SCALE                                                                                      \
    VALUE(P(scale), ABOVE_0, .must = "finite and above 0", .when = { ABSENT(A(scales)) },          \
          .narrow = true)
#define SCALES BRACED(READS(scales), OF_EACH(OF_SCALES, "scale"), .when = { GIVEN(A(scales)) })
#define SCALE_VALUES                                                                               \
    VALUE(P(zero_point), .when = { ABSENT(A(scales)) }), VALUE(P(channels)), VALUE(P(inner)),      \
        LEVEL_FIELDS
#define ZERO_POINTS(type_, ...)                                                                    \
    BRACED(READS(zero_points), OF_EACH(type_, "zero_point"), .when = { __VA_ARGS__ })

#define RECIPROCAL OPTION("division", { "reciprocal", GIVEN(P(reciprocal)) })
#define SCALARS    OPTION("scalars", { "device", GIVEN(A(scales)) })
#define LAYOUT                                                                                     \
    BRACED(.name = "layout", .of_shape = true,                                                     \
           .choices = { { "columns", GIVEN(D(columns)) }, { "rows", ABSENT(D(columns)) } })

#define PARAMS                            ptx_quantize_backward_params
#define TARGET(id, name, least, greatest) { name, IS(D(target), TARGET_##id) },
#define BACKWARD                                                                                   \
    RECIPROCAL, OPTION("gradient", { "fake_quantize", GIVEN(P(fake_quantize)) }),                  \
        OPTION("target", QUANTIZER_TARGETS(TARGET) { "any", IS(D(target), TARGET_ANY) })
const struct plan_operation ptxp_operation_quantize_backward = {
    TENSORS,
    .shape = { CHANNELS, LEVELS, .zero_point = P(zero_point), .leveled = ABSENT(A(scales)) },
    .refusals = { GIVEN_SCALES },
    .fields = {
        SCALE,
        { READS(d_output), .count = P(count) },
        { READS(x), .count = P(count) },
        { WRITES(d_input), .count = P(count), .may_be_first = true },
        SCALES,
        ZERO_POINTS(PTX_S32, GIVEN(A(scales))),
        SCALE_VALUES,
    },
    .derive = derive_quantize,
    .launches = {
        { .kernel = &ptx_kernel_quantize_ste_backward, .when = { ABSENT(P(channels)) },
          .options = { BACKWARD, SCALARS } },
        { .kernel = &ptx_kernel_quantize_channel_ste_backward, .when = { GIVEN(P(channels)) },
          .options = { BACKWARD, LAYOUT } },
    },
};
#undef PARAMS

#define PARAMS  ptx_fake_quantize_params
#define FORWARD RECIPROCAL, OPTION("zero_point", { "learned", GIVEN(P(learned_zero_points)) })
const struct plan_operation ptxp_operation_fake_quantize = {
    TENSORS,
    .shape = { CHANNELS, LEVELS, .zero_point = P(zero_point), .leveled = ABSENT(A(scales)) },
    .refusals = {
        GIVEN_SCALES,
        REFUSED("these need the addresses in scales and zero_points", ABSENT(A(scales)),
                GIVEN(P(learned_zero_points))),
    },
    .fields = {
        SCALE,
        { READS(x), .count = P(count) },
        { WRITES(y), .count = P(count), .may_be_first = true },
        SCALES,
        ZERO_POINTS(OF_SCALES, GIVEN(P(learned_zero_points))),
        ZERO_POINTS(PTX_S32, GIVEN(A(scales)), ABSENT(P(learned_zero_points))),
        SCALE_VALUES,
    },
    .derive = derive_fake_quantize,
    .launches = {
        { .kernel = &ptx_kernel_fake_quantize, .when = { ABSENT(P(channels)) },
          .options = { FORWARD, SCALARS } },
        { .kernel = &ptx_kernel_fake_quantize_channel, .when = { GIVEN(P(channels)) },
          .options = { FORWARD, LAYOUT } },
    },
};
#undef PARAMS

#define GROUP_FIELD NUMBER(group, BETWEEN(32, 128), "32, 64 or 128"), .power_of_2 = true
#define GROUP       OPTION("group", { "64", IS(P(group), 64) }, { "128", IS(P(group), 128) })

#define PARAMS ptx_fake_quantize_groups_params
#define NO_ZERO_POINTS(of)                                                                         \
    REFUSED("symmetric and full levels have no zero points; leave them 0", GIVEN(A(zero_points)),  \
            IS(ENUM(levels), of))
const struct plan_operation ptxp_operation_fake_quantize_groups = {
    TENSORS,
    .shape = { .columns = P(columns), .group = P(group) },
    .refusals = { NO_ZERO_POINTS(PTX_LEVELS_SYMMETRIC), NO_ZERO_POINTS(PTX_LEVELS_FULL) },
    .fields = {
        { GROUP_FIELD, .otherwise = 32 },
        { NUMBER(bits, BETWEEN(4, 8), "4 or 8"), .power_of_2 = true, .otherwise = 4 },
        VALUE(ENUM(levels), BETWEEN(PTX_LEVELS_SYMMETRIC, PTX_LEVELS_UNSIGNED),
              .must = "PTX_LEVELS_SYMMETRIC (0), _FULL (1), _ASYMMETRIC (2) or _UNSIGNED (3)"),
        { READS(x), .count = P(count) },
        { WRITES(y), .count = P(count), .may_be_first = true },
        { WRITES(scales), OF_EACH(PTX_F32, "scale"), .optional = true },
        { WRITES(zero_points), OF_EACH(PTX_S32, "zero_point"), .optional = true },
    },
    .launches = {
        { .kernel = &ptx_kernel_fake_quantize_groups,
          .options = { GROUP,
                       OPTION("levels", { "full", IS(ENUM(levels), PTX_LEVELS_FULL) },
                              { "asymmetric", IS(ENUM(levels), PTX_LEVELS_ASYMMETRIC) },
                              { "unsigned", IS(ENUM(levels), PTX_LEVELS_UNSIGNED) }),
                       OPTION("bits", { "8", IS(P(bits), 8) }) } },
    },
};
#undef PARAMS

static enum pieces_layout layout_of(const struct ptx_quantize_learned_backward_params *p)
{
    enum { FEW = 32 };

    if (!p->channels)
        return PIECES_TENSOR;
    const bool few = p->count / p->channels / p->inner < FEW;
    return columns_of(p->dtype, p->x, p->inner, few) ? PIECES_COLUMNS : PIECES_ROWS;
}

// What lies between the two launches: sums of pieces, in the workspace. Groups and whole rows have
// one launch.
static ptx_status derive_pieces(struct plan_call *call)
{
    enum { MOST_BLOCKS = INT32_MAX };
    struct ptx_quantize_learned_backward_params *p = &call->params.quantize_learned_backward;
    const struct ptx_kernel_sizes sizes = { p->count, p->channels, p->inner };

    if (p->group)
        return PTX_OK;
    call->whole = ptxk_pieces_are_whole(&sizes, p->dtype);
    const enum pieces_layout layout = call->whole ? PIECES_WHOLE : layout_of(p);
    if (call->whole)
        call->pieces = 0;
    else if (!ptxk_pieces(&sizes, p->dtype, layout, &call->pieces))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %" PRIu64 " channels of %" PRIu64
                         " adjacent elements are more than sums can be for",
                         call->function, p->channels, p->inner);
    call->blocks = ptxk_piece_blocks(&sizes, p->dtype, layout);
    if (call->blocks > MOST_BLOCKS)
        call->blocks = MOST_BLOCKS; // each has more to do
    call->columns = layout == PIECES_COLUMNS;
    if (!p->channels)
        p->inner = p->count; // a tensor of one row
    call->width = layout == PIECES_TENSOR ? call->pieces
                  : call->columns || !p->count || call->whole
                      ? p->inner
                      : call->pieces / (p->count / p->inner);
    call->sums = p->zero_points ? 2 * call->pieces : call->pieces;
    call->zero_sums = p->workspace + call->pieces * sizeof(double);
    return PTX_OK;
}

#define PARAMS ptx_quantize_learned_backward_params
#define LEARNED                                                                                    \
    RECIPROCAL, OPTION("zero_point", { "fixed", ABSENT(A(zero_points)) }),                         \
        OPTION("range", { "quotient", GIVEN(P(quotient_range)) })
#define SUMS .kernel = &ptx_kernel_quantize_learned_backward, .blocks = D(blocks)
// The layout of whole rows, or others.
#define SUMS_LAYOUT(...)                                                                           \
    BRACED(.name = "layout", .of_shape = true,                                                     \
           .choices = { { "whole", GIVEN(D(whole)) }, __VA_ARGS__ })
const struct plan_operation ptxp_operation_quantize_learned_backward = {
    TENSORS,
    .shape = { CHANNELS, LEVELS, .columns = P(columns), .group = P(group) },
    .refusals = {
        INNER_OF_CHANNELS,
        REFUSED("give the group, or leave columns 0", GIVEN(P(columns)), ABSENT(P(group))),
        REFUSED("leave one of them 0", GIVEN(P(channels)), GIVEN(P(group))),
        REFUSED("leave one out", GIVEN(A(zero_points)), GIVEN(A(fixed_zero_points))),
        REFUSED("one of them must be an address: of floats that are learned, or of s32 that are "
                "not", ABSENT(A(zero_points)), ABSENT(A(fixed_zero_points))),
        REFUSED("fixed zero points have no gradient; leave d_zero_points 0",
                GIVEN(A(fixed_zero_points)), GIVEN(A(d_zero_points))),
    },
    .fields = {
        { GROUP_FIELD, .when = { GIVEN(P(group)) } },
        { NUMBER(grad_factor, BETWEEN(-DBL_MAX, DBL_MAX), "given: finite, not 0"), .not_0 = true },
        { READS(d_output), .count = P(count) },
        { READS(x), .count = P(count) },
        { WRITES(d_input), .count = P(count), .may_be_first = true },
        { READS(scales), OF_EACH(OF_SCALES, "scale") },
        ZERO_POINTS(OF_SCALES, GIVEN(A(zero_points))),
        { READS(fixed_zero_points), OF_EACH(PTX_S32, "zero_point"),
          .when = { ABSENT(A(zero_points)) } },
        { WRITES(d_scales), OF_EACH(OF_SCALES, "d_scale") },
        { UPDATES(workspace), .type = PTX_F64, .count = D(sums), .param = "scale_sums",
          .when = { ABSENT(P(group)) }, .scratch = true },
        { WRITES(d_zero_points), OF_EACH(OF_SCALES, "d_zero_point"),
          .when = { GIVEN(A(zero_points)) } },
        VALUE(D(scales), .param = "channels"),
        VALUE(P(inner)),
        LEVEL_FIELDS,
        VALUE(DA(zero_sums)),
        VALUE(D(pieces)),
        VALUE(D(width)),
    },
    .derive = derive_pieces,
    .launches = {
        { SUMS, .when = { ABSENT(P(channels)), ABSENT(P(group)) },
          .options = { LEARNED, SUMS_LAYOUT({ "tensor", ABSENT(D(whole)) }) } },
        { SUMS, .when = { GIVEN(P(channels)) },
          .options = { LEARNED, SUMS_LAYOUT({ "columns", GIVEN(D(columns)) },
                                            { "rows", ABSENT(D(columns)) }) } },
        { .kernel = &ptx_kernel_quantize_learned_reduce, .when = { ABSENT(P(group)) },
          .type = OF_SCALES, .n = D(pieces), .programmatic = true, .unless = GIVEN(D(whole)),
          .options = { OPTION("gradients", { "scale", ABSENT(A(zero_points)) }) } },
        { .kernel = &ptx_kernel_quantize_learned_groups, .when = { GIVEN(P(group)) },
          .options = { LEARNED, GROUP } },
    },
};
#undef PARAMS

static ptx_status derive_extremes(struct plan_call *call)
{
    const struct ptx_observer_update_params *p = &call->params.observer_update;

    call->extremes = p->state + offsetof(struct ptx_observer_state, least);
    if (p->q_min != p->q_max)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: q_min and q_max are both %" PRId32 "; q_min must be below q_max",
                     call->function, p->q_min);
}

#define PARAMS ptx_observer_update_params
const struct plan_operation ptxp_operation_observer_update = {
    TENSORS,
    .shape = { LEVELS, .zero_point = P(zero_point), .leveled = GIVEN(P(symmetric)) },
    .refusals = {
        REFUSED("only a symmetric scheme has a zero point that is given; leave it 0",
                GIVEN(P(zero_point)), ABSENT(P(symmetric))),
    },
    .fields = {
        { NUMBER(averaging_constant, BETWEEN(DBL_TRUE_MIN, 1), "given: above 0, at most 1") },
        { NUMBER(eps, ABOVE_0, "finite and above 0 (0: 2^-23)"), .otherwise = 0x1p-23 },
        { READS(x), .count = P(count) },
        { UPDATES(state), .type = PTX_F32,
          .elements = sizeof(struct ptx_observer_state) / sizeof(float), .param = "averages" },
        { WRITES(scales), .type = PTX_F32, .param = "scale" },
        { WRITES(zero_points), .type = PTX_S32, .param = "zero_point" },
        LEVEL_FIELDS,
        VALUE(P(zero_point), .param = "zero"),
        VALUE(DA(extremes)),
    },
    .derive = derive_extremes,
    .launches = {
        { .kernel = &ptx_kernel_observe_min_max },
        { .kernel = &ptx_kernel_moving_average_update, .type = PTX_F32,
          .options = { OPTION("scheme", { "symmetric", GIVEN(P(symmetric)) }) } },
    },
};

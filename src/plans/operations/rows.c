// SPDX-License-Identifier: MIT
// The rows of operations without levels: lerp, floats of 8 bits, the loss scale.
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "driver/error.h"
#include "engine.h"
#include "plans/loss_scale.h"

#define PARAMS ptx_lerp_backward_params
const struct plan_operation ptxp_operation_lerp_backward = {
    TENSORS,
    .refusals = {
        { .when = { ABSENT(A(d_a)), ABSENT(A(d_b)) }, .with_elements = true,
          .remedy = "one of them must be an address" },
        REFUSED("leave one out", GIVEN(P(weight)), GIVEN(A(weight_at))),
    },
    .fields = {
        { NUMBER(weight, BETWEEN(-INFINITY, INFINITY), "a number"),
          .when = { ABSENT(A(weight_at)) } },
        { READS(d_output), .count = P(count) },
        { WRITES(d_a), .count = P(count), .optional = true, .may_be_first = true },
        { WRITES(d_b), .count = P(count), .optional = true, .may_be_first = true },
        { READS(weight_at), .type = PTX_F64, .param = "weight", .optional = true },
    },
    .launches = {
        { .kernel = &ptx_kernel_lerp_backward,
          .options = { OPTION("outputs", { "da", ABSENT(A(d_b)) }, { "db", ABSENT(A(d_a)) }),
                       OPTION("weight", { "device", GIVEN(A(weight_at)) }) } },
    },
};
#undef PARAMS

#define FORMAT                                                                                     \
    VALUE(ENUM(format), BETWEEN(PTX_FP8_E4M3, PTX_FP8_E5M2),                                       \
          .must = "PTX_FP8_E4M3 (0) or PTX_FP8_E5M2 (1)")

#define PARAMS ptx_fp8_cast_params
const struct plan_operation ptxp_operation_fp8_cast = {
    TENSORS,
    .refusals = { REFUSED("leave one out", GIVEN(P(scale)), GIVEN(A(scale_at))) },
    .fields = {
        FORMAT,
        { NUMBER(scale, ABOVE_0, "finite and above 0, or scale_at must be its address"),
          .when = { ABSENT(A(scale_at)) }, .narrow = true },
        { READS(x), .count = P(count) },
        { WRITES(y), .count = P(count), .type = PTX_U8 },
        { READS(scale_at), .type = PTX_F32, .param = "scale", .optional = true },
        { UPDATES(amax), .type = PTX_F32, .optional = true },
    },
    .launches = {
        { .kernel = &ptx_kernel_cast_fp8,
          .options = { OPTION("format", { "e5m2", IS(ENUM(format), PTX_FP8_E5M2) }),
                       OPTION("scale", { "device", GIVEN(A(scale_at)) }),
                       OPTION("amax", { "none", ABSENT(A(amax)) }) } },
    },
};
#undef PARAMS

static ptx_status derive_history(struct plan_call *call)
{
    const struct ptx_delayed_scale_update_params *p = &call->params.delayed_scale_update;
    const uint64_t most = UINT64_MAX / 2 / sizeof(float);

    call->entries = p->tensors * p->rows;
    if (p->tensors <= UINT32_MAX && (!p->tensors || p->rows <= most / p->tensors))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: tensors is %" PRIu64 " and rows %" PRIu64
                     "; a history cannot be so large",
                     call->function, p->tensors, p->rows);
}

#define PARAMS ptx_delayed_scale_update_params
const struct plan_operation ptxp_operation_delayed_scale_update = {
    .n = P(tensors),
    .refusals = {
        REFUSED("leave one out", GIVEN(P(format)), GIVEN(A(formats))),
        { .when = { ABSENT(P(rows)) }, .with_elements = true,
          .remedy = "the history has 1 row or more, of which the first is measured now" },
    },
    .fields = {
        FORMAT,
        { NUMBER(margin, BETWEEN(-100, 100), "from -100 to 100, usually 0") },
        { UPDATES(history), .count = D(entries) },
        { UPDATES(scale), .count = P(tensors) },
        { WRITES(scale_inv), .count = P(tensors) },
        { READS(formats), .count = P(tensors), .type = PTX_U32, .optional = true },
        VALUE(D(entries), .param = "count"),
    },
    .derive = derive_history,
    .launches = {
        { .kernel = &ptx_kernel_delayed_scale_update,
          .options = { OPTION("amax", { "most_recent", GIVEN(P(most_recent)) }),
                       OPTION("format", { "each", GIVEN(A(formats)) },
                              { "e5m2", IS(ENUM(format), PTX_FP8_E5M2) }) } },
    },
};
#undef PARAMS

static ptx_status derive_rule(struct plan_call *call)
{
    struct ptx_loss_scale_update_params *p = &call->params.loss_scale_update;

    call->tracker = p->state + offsetof(struct ptx_loss_scale_state, growth_tracker);
    return ptxd_named(ptxp_loss_scale_check("", &p->rule, &p->rule), call->function);
}

#define PARAMS     ptx_loss_scale_update_params
#define RULE(name) VALUE(MEMBER(#name, struct PARAMS, rule.name))
#define RULES                                                                                      \
    RULE(growth), RULE(backoff), RULE(interval), RULE(min_scale), RULE(max_scale), RULE(hysteresis)
const struct plan_operation ptxp_operation_loss_scale_update = {
    .fields = {
        { READS(found_inf) },
        { UPDATES(state), .elements = sizeof(struct ptx_loss_scale_state) / sizeof(float),
          .param = "scale" },
        VALUE(DA(tracker), .param = "growth_tracker"),
        RULES,
    },
    .derive = derive_rule,
    .launches = { { .kernel = &ptx_kernel_loss_scale_update } },
};

// SPDX-License-Identifier: MIT
// How a parameter and its states are stored, and the conversion of f32 values to that format.
#include "format.h"

#include "../common/common.h"

enum { REMAINDER_NAN = 0x7fc0 << 16 };

ptx_type ptxk_step_state_type(const struct ptxk_step_variant *v)
{
    switch (v->format) {
    case PTX_STEP_FORMAT_STATE_BF16:
    case PTX_STEP_FORMAT_STOCHASTIC:
        return PTX_BF16;
    case PTX_STEP_FORMAT_STATE_8BIT:
        return PTX_U8;
    default:
        return PTX_F32;
    }
}

ptx_type ptxk_step_beside_type(const struct ptxk_step_variant *v)
{
    return v->format == PTX_STEP_FORMAT_MASTER      ? PTX_F32
           : v->format == PTX_STEP_FORMAT_REMAINDER ? PTX_S16
                                                    : PTX_NONE;
}

void ptxk_step_comment(ptx_builder *b, const struct ptxk_step_variant *v)
{
    static const char *const formats[PTX_STEP_FORMAT_COUNT] = { "full",       "state_bf16",
                                                                "master",     "remainder",
                                                                "stochastic", "state_8bit" };

    ptx_comment(b, "%s, %s: parameter %s, gradient %s", ptxk_step_rule_of(v->rule)->name,
                formats[v->format], ptx_type_name(v->parameter), ptx_type_name(v->gradient));
}

// The f32 that a parameter and its remainder represent.
static ptx_val join(ptx_builder *b, ptx_val parameter, ptx_val remainder)
{
    ptx_val high = ptx_bitcast(b, PTX_U32, ptx_cvt(b, PTX_F32, parameter));
    ptx_val low = ptx_bitcast(b, PTX_U32, ptx_cvt(b, PTX_S32, remainder));
    return ptx_bitcast(b, PTX_F32, ptx_add(b, high, low));
}

static void split(ptx_builder *b, ptx_val x, struct ptxk_step_stored *to)
{
    ptx_val nan = ptx_is_nan(b, x);
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val rounded = ptx_add(b, bits, ptx_u32(0x8000));
    ptx_val low = ptx_cvt(b, PTX_S16, bits);

    to->parameter = ptx_select(b, nan, ptx_u32(REMAINDER_NAN), rounded);
    to->beside = ptx_select(b, nan, ptx_s16(0), low);
}

// Adds random bits (u32, below 2^16) below bf16's last place. Infinity has no bits that could
// carry, and the canonical NaN keeps its bits. `quick`: there is no NaN.
static ptx_val round_stochastically(ptx_builder *b, ptx_val x, ptx_val random, bool quick)
{
    ptx_val bits = ptx_bitcast(b, PTX_S32, x);

    if (!quick)
        bits = ptx_min(b, bits, ptx_s32(0x7fff0000));
    return ptx_add(b, ptx_bitcast(b, PTX_U32, bits), random);
}

struct ptxk_step_element ptxk_step_load(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_stored *from)
{
    struct ptxk_step_element e = { { 0 } };

    switch (v->format) {
    case PTX_STEP_FORMAT_MASTER:
        e.p = from->beside;
        break;
    case PTX_STEP_FORMAT_REMAINDER:
        e.p = join(b, from->parameter, from->beside);
        break;
    default:
        e.p = ptx_cvt(b, PTX_F32, from->parameter);
        break;
    }
    for (unsigned k = 0; k < ptxk_step_states(v); k++)
        e.state[k] = ptx_cvt(b, PTX_F32, from->state[k]);
    return e;
}

struct ptxk_step_stored ptxk_step_store(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_element *e, const ptx_val random[2])
{
    const struct ptxk_step_rule *rule = ptxk_step_rule_of(v->rule);
    struct ptxk_step_stored to = { { 0 } };

    switch (v->format) {
    case PTX_STEP_FORMAT_MASTER:
        to.parameter = e->p;
        to.beside = e->p;
        break;
    case PTX_STEP_FORMAT_REMAINDER:
        split(b, e->p, &to);
        break;
    case PTX_STEP_FORMAT_STOCHASTIC:
    case PTX_STEP_FORMAT_STATE_8BIT:
        to.parameter =
            v->parameter == PTX_F32 ? e->p : round_stochastically(b, e->p, random[0], e->quick);
        break;
    default:
        to.parameter = e->p;
        break;
    }
    for (unsigned k = 0; k < ptxk_step_states(v); k++) {
        const bool stochastic = v->format == PTX_STEP_FORMAT_STOCHASTIC && rule->stochastic[k];
        to.state[k] =
            stochastic ? round_stochastically(b, e->state[k], random[1], e->quick) : e->state[k];
    }
    return to;
}

ptx_val ptxk_step_narrow(ptx_builder *b, ptx_type type, ptx_val x)
{
    if (x.type != PTX_U32 || type == PTX_U32)
        return ptx_cvt(b, type, x);
    return ptx_unpack(b, type, ptx_bitcast(b, PTX_B32, x)).lane[1];
}

ptx_val ptxk_step_narrow_pair(ptx_builder *b, ptx_type type, ptx_val low, ptx_val high)
{
    if (low.type == PTX_U32) {
        enum { UPPER_HALVES = 0x7632 };
        ptx_val first = ptx_bitcast(b, PTX_B32, low);
        return ptx_prmt(b, first, ptx_bitcast(b, PTX_B32, high), ptx_u32(UPPER_HALVES));
    }
    if (low.type == PTX_F32 && ptx_builder_target(b).sm >= 80) {
        const ptx_type pair = type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
        return ptx_bitcast(b, PTX_B32, ptx_cvt_pack(b, pair, low, high));
    }
    ptx_val first = ptx_cvt(b, type, low);
    return ptx_pack(b, PTX_B32, ptx_vec2(first, ptx_cvt(b, type, high)));
}

ptx_type ptxk_step_array_type(const struct ptxk_step_variant *v, unsigned array)
{
    switch (array) {
    case ARRAY_PARAMETER:
        return v->parameter;
    case ARRAY_GRADIENT:
        return v->gradient;
    case ARRAY_BESIDE:
        return ptxk_step_beside_type(v);
    default:
        return array - ARRAY_STATE < ptxk_step_states(v) ? ptxk_step_state_type(v) : PTX_NONE;
    }
}

bool ptxk_step_variant_has_codes(const struct ptxk_step_variant *v)
{
    return ptxk_step_array_type(v, ARRAY_STATE) == PTX_U8;
}

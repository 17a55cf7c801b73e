// SPDX-License-Identifier: MIT
// What the formats share: their table, rounding, and the conversion of an element.
#include "format.h"

#include "../common/common.h"

#define PTXK_DECLARE(enumerator, name, state, beside)                                              \
    extern const struct ptxk_step_format ptxk_step_format_##name;
PTX_STEP_FORMATS(PTXK_DECLARE)
#undef PTXK_DECLARE

const struct ptxk_step_format *ptxk_step_format_of(ptx_step_format format)
{
    static const struct ptxk_step_format *const formats[PTX_STEP_FORMAT_COUNT] = {
#define PTXK_FORMAT(enumerator, name, state, beside) &ptxk_step_format_##name,
        PTX_STEP_FORMATS(PTXK_FORMAT)
#undef PTXK_FORMAT
    };

    return formats[format];
}

void ptxk_step_comment(ptx_builder *b, const struct ptxk_step_variant *v)
{
    static const char *const copies[] = { "", ", copy e4m3", ", copy e5m2" };

    ptx_comment(b, "%s, %s: parameter %s, gradient %s%s%s", v->rule->name,
                ptxk_step_format_of(v->format)->name, ptx_type_name(v->parameter),
                ptx_type_name(v->gradient), copies[v->copy], v->qk_clip ? ", factors" : "");
}

// ---- rounding -----------------------------------------------------------------------------------

static bool rounds_parameter(const struct ptxk_step_variant *v)
{
    return ptxk_step_format_of(v->format)->rounds_parameter && v->parameter != PTX_F32;
}

bool ptxk_step_rounds_state(const struct ptxk_step_variant *v, unsigned k)
{
    const struct ptxk_step_state *state = ptxk_step_state_of(v, k);

    return state->stochastic &&
           (state->type != PTX_NONE ||
            (rounds_parameter(v) && ptxk_step_format_of(v->format)->rounds_states));
}

unsigned ptxk_step_streams(const struct ptxk_step_variant *v)
{
    unsigned streams = rounds_parameter(v);

    for (unsigned k = 0; k < ptxk_step_states(v); k++)
        streams += ptxk_step_rounds_state(v, k);
    return streams;
}

unsigned ptxk_step_stream_of(const struct ptxk_step_variant *v, unsigned stream)
{
    if (v->ema == PTX_BF16 && stream == ptxk_step_streams(v) - 1)
        return PTXK_STREAM_EMA;
    return stream ? PTXK_STREAM_FIRST_STATE - 1 + stream : PTXK_STREAM_PARAMETER;
}

// Infinity has no bits that could carry, and the canonical NaN keeps its bits.
ptx_val ptxk_step_round(ptx_builder *b, ptx_val x, ptx_val random, bool quick)
{
    ptx_val bits = ptx_bitcast(b, PTX_S32, x);

    if (!quick)
        bits = ptx_min(b, bits, 0x7fff0000);
    return ptx_add(b, ptx_bitcast(b, PTX_U32, bits), random);
}

// The f32 of the f16 that an f32 is rounded to by random bits: 13 of them below the last place of a
// normal f16; of a smaller one all 16, below 2^-24. Each sum is cut.
static ptx_val round_to_f16(ptx_builder *b, ptx_val x, ptx_val random)
{
    enum { DROPPED = 13 };
    const uint32_t kept = ~((UINT32_C(1) << DROPPED) - 1), sign = UINT32_C(1) << 31;
    const int32_t most = (int32_t)(kept & ~sign); // of a NaN, which has the sign +

    ptx_comment(b, "rounds to f16 by random bits");
    ptx_val bits = ptx_bitcast(b, PTX_U32, ptx_min(b, ptx_bitcast(b, PTX_S32, x), most));
    ptx_val sum = ptx_add(b, bits, ptx_shr(b, random, 16 - DROPPED));
    ptx_val normal = ptx_and(b, sum, kept);

    ptx_val size = ptx_abs(b, x), part = ptx_mul(b, ptx_cvt(b, PTX_F32, random), 0x1p-40);
    ptx_val high = ptx_op(b, PTX_OP_add, size, part, .round = PTX_ROUND_RZ);
    ptx_val cut = ptx_op(b, PTX_OP_add, high, ptx_f32(0.5), .round = PTX_ROUND_RZ);
    ptx_val small = ptx_bitcast(b, PTX_U32, ptx_sub(b, cut, 0.5));
    small = ptx_or(b, small, ptx_and(b, bits, sign));
    ptx_val is_small = ptx_lt(b, size, 0x1p-14);
    return ptx_bitcast(b, PTX_F32, ptx_select(b, is_small, small, normal));
}

struct ptxk_step_element ptxk_step_load(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_stored *from)
{
    const struct ptxk_step_format *format = ptxk_step_format_of(v->format);
    struct ptxk_step_element e = { { 0 } };

    e.p = format->load ? format->load(b, from) : ptx_cvt(b, PTX_F32, from->parameter);
    for (unsigned k = 0; k < ptxk_step_states(v); k++)
        if (!ptxk_step_state_of(v, k)->output)
            e.state[k] = ptx_cvt(b, PTX_F32, from->state[k]);
    return e;
}

ptx_val ptxk_step_as_stored(ptx_builder *b, ptx_type type, ptx_val x)
{
    if (x.type == PTX_U32)
        return ptx_bitcast(b, PTX_F32, ptx_and(b, x, 0xffff0000));
    return type == PTX_F32 ? x : ptx_cvt(b, PTX_F32, ptx_cvt(b, type, x));
}

// The average of the weights, and `random` bits if it is in bf16.
static ptx_val average(ptx_builder *b, const struct ptxk_step_variant *v, ptx_val p, ptx_val old,
                       ptx_val rate, const ptx_val *random)
{
    ptx_comment(b, "the average of the weights follows");
    ptx_val apart = ptx_sub(b, ptxk_step_as_stored(b, v->parameter, p), old);
    ptx_val x = ptx_fma(b, rate, apart, old);

    return v->ema == PTX_BF16 ? ptxk_step_round(b, x, *random, false) : x;
}

struct ptxk_step_stored ptxk_step_store(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_element *e, ptx_val ema_rate,
                                        const ptx_val random[PTXK_STREAMS])
{
    const struct ptxk_step_format *format = ptxk_step_format_of(v->format);
    struct ptxk_step_stored to = { .type = v->parameter, .parameter = e->p };

    if (format->store)
        format->store(b, e->p, &to);
    if (rounds_parameter(v) && v->parameter == PTX_F16)
        to.parameter = round_to_f16(b, e->p, *random++);
    else if (rounds_parameter(v)) // a factor may be NaN
        to.parameter = ptxk_step_round(b, e->p, *random++, e->quick && !v->qk_clip);
    const unsigned states = ptxk_step_rule_states(v);
    for (unsigned k = 0; k < states; k++)
        to.state[k] = ptxk_step_rounds_state(v, k)
                          ? ptxk_step_round(b, e->state[k], *random++, e->quick)
                          : e->state[k];
    if (v->ema != PTX_NONE)
        to.state[states] = average(b, v, to.parameter, e->state[states], ema_rate, random);
    return to;
}

// ---- arrays -------------------------------------------------------------------------------------

ptx_type ptxk_step_array_type(const struct ptxk_step_variant *v, unsigned array)
{
    const struct ptxk_step_format *format = ptxk_step_format_of(v->format);
    const unsigned k = array - ARRAY_STATE;

    switch (array) {
    case ARRAY_PARAMETER:
        return v->parameter;
    case ARRAY_GRADIENT:
        return v->gradient;
    case ARRAY_BESIDE:
        return format->beside;
    default:
        if (k >= ptxk_step_states(v))
            return PTX_NONE;
        return k < ptxk_step_format_states(v) ? format->state : ptxk_step_state_of(v, k)->type;
    }
}

bool ptxk_step_is_average(const struct ptxk_step_variant *v, unsigned array)
{
    return v->ema != PTX_NONE && array == ARRAY_STATE + ptxk_step_rule_states(v);
}

bool ptxk_step_reads(const struct ptxk_step_variant *v, unsigned array)
{
    if (array == ARRAY_PARAMETER)
        return !ptxk_step_format_of(v->format)->follows;
    if (ptxk_step_array_type(v, array) == PTX_NONE)
        return false;
    return array < ARRAY_STATE || !ptxk_step_state_of(v, array - ARRAY_STATE)->output;
}

const struct ptxk_step_blocks *ptxk_step_blocks_of(const struct ptxk_step_variant *v)
{
    const struct ptxk_step_blocks *blocks = ptxk_step_format_of(v->format)->by_block;

    return blocks && (ptxk_step_format_states(v) || blocks->beside_of) ? blocks : NULL;
}

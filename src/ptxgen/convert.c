// SPDX-License-Identifier: MIT
// Conversions between types, and reinterpretation of bits.
#include "internal.h"

static ptx_val retype(ptx_val x, ptx_type type)
{
    x.type = (uint8_t)type;
    return x;
}

ptx_val ptx_bitcast(ptx_builder *b, ptx_type type, ptx_val x)
{
    if (!ptxb_ready(b, "bitcast") || !ptxb_usable(b, "bitcast", "x", x))
        return (ptx_val) { 0 };
    if (ptxb_bits(type) != ptxb_bits((ptx_type)x.type) || type == PTX_PRED) {
        if (type == PTX_PRED)
            ptxb_fail(b, "bitcast", "the result cannot be a predicate; ptx_ne() makes one");
        else
            ptxb_fail(b, "bitcast", "x is %s of %u bits; %s has %u",
                      ptx_type_name((ptx_type)x.type), ptxb_bits((ptx_type)x.type),
                      ptx_type_name(type), ptxb_bits(type));
        return (ptx_val) { 0 };
    }
    if (x.kind == PTX_KIND_IMMEDIATE)
        return retype(x, type);
    // A variable may change later, so the result is a copy of its current value.
    if (ptxb_file(type) == ptxb_file((ptx_type)x.type))
        return retype(x.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, x) : x, type);
    return ptxb_emit(b, type, ptxb_mov_bits(b, type), 1, &x);
}

// ---- packing ------------------------------------------------------------------------------------

static uint32_t pack_opcode(ptx_builder *b, const char *call, ptx_type whole, ptx_type part,
                            unsigned lanes)
{
    const unsigned bits = ptxb_bits(part);
    if ((bits != 16 && bits != 32) || bits * lanes != ptxb_bits(whole) || lanes < 2) {
        ptxb_fail(b, call, "%u lanes of %s do not make one %s; lanes have 16 or 32 bits", lanes,
                  ptx_type_name(part), ptx_type_name(whole));
        return 0;
    }
    return ptxb_mov_bits(b, whole);
}

ptx_val ptx_pack(ptx_builder *b, ptx_type type, ptx_vec v)
{
    const ptx_val poison = { 0 };

    if (!ptxb_ready(b, "pack"))
        return poison;
    if (v.lanes < 2 || v.lanes > 4) {
        ptxb_fail(b, "pack", "there are %u lanes; 2 or 4 can be packed", v.lanes);
        return poison;
    }
    unsigned typed = 0; // a lane that gives numbers a type
    while (typed < v.lanes - 1 && v.lane[typed].kind == PTX_KIND_NUMBER)
        typed++;
    for (unsigned k = 0; k < v.lanes; k++) {
        if (v.lane[typed].kind != PTX_KIND_NUMBER)
            v.lane[k] = ptxb_typed(b, "pack", "a lane", v.lane[k], (ptx_type)v.lane[typed].type);
        if (!ptxb_usable(b, "pack", "a lane", v.lane[k]))
            return poison;
        if (v.lane[k].type != v.lane[0].type) {
            ptxb_fail(b, "pack", "lane 0 is %s and lane %u is %s; all must have one type",
                      ptx_type_name((ptx_type)v.lane[0].type), k,
                      ptx_type_name((ptx_type)v.lane[k].type));
            return poison;
        }
    }
    const uint32_t opcode = pack_opcode(b, "pack", type, (ptx_type)v.lane[0].type, v.lanes);
    ptx_val result = opcode ? ptxb_register(b, type) : poison;
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, v.lanes);
    if (!insn)
        return poison;
    ptxb_result(b, insn, 0, result);
    for (unsigned k = 0; k < v.lanes; k++)
        ptxb_source(b, insn, 1 + k, v.lane[k]);
    ptxb_brace(b, insn, 1, v.lanes);
    return result;
}

ptx_vec ptx_unpack(ptx_builder *b, ptx_type type, ptx_val x)
{
    ptx_vec v = { { { 0 } }, 0 };

    if (!ptxb_ready(b, "unpack") || !ptxb_usable(b, "unpack", "x", x))
        return v;
    const unsigned bits = ptxb_bits(type);
    const unsigned lanes = bits ? ptxb_bits((ptx_type)x.type) / bits : 0;
    const uint32_t opcode = pack_opcode(b, "unpack", (ptx_type)x.type, type, lanes);
    if (!opcode)
        return v;
    x = ptxb_in_register(b, x);
    for (unsigned k = 0; k < lanes; k++)
        v.lane[k] = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, lanes, 1);
    if (!insn)
        return (ptx_vec) { { { 0 } }, 0 };
    for (unsigned k = 0; k < lanes; k++)
        ptxb_result(b, insn, k, v.lane[k]);
    ptxb_source(b, insn, lanes, x);
    ptxb_brace(b, insn, 0, lanes - 1);
    v.lanes = lanes;
    return v;
}

// ---- bf16 ---------------------------------------------------------------------------------------

// bf16 is the upper half of an f32: the conversion is exact and works on every target.
static ptx_val widen_bf16(ptx_builder *b, ptx_val x)
{
    const ptx_val halves[] = { ptx_imm_bits(PTX_U16, 0), x };
    const ptx_val result = ptxb_emit(b, PTX_F32, ptxb_mov_bits(b, PTX_B32), 2, halves);

    if (!b->failed)
        ptxb_brace(b, ptxb_newest(b), 1, 2);
    return result;
}

// f32 to bf16 below sm_80: adds half a unit in the last place, minus one if the result is even, and
// takes the upper half. NaN becomes 0x7fff, as the instruction gives it.
static ptx_val narrow_bf16(ptx_builder *b, ptx_val x, ptx_round round)
{
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val rounded = bits;
    if (round != PTX_ROUND_RZ) {
        ptx_val odd = ptx_bfe(b, bits, ptx_u32(16), ptx_u32(1));
        ptx_val half = ptx_add(b, odd, ptx_u32(0x7fff));
        rounded = ptx_add(b, bits, half);
    }
    ptx_val upper = ptx_shr(b, rounded, ptx_u32(16));
    ptx_val is_nan = ptx_unordered(b, x, x);
    ptx_val result = ptx_select(b, is_nan, ptx_u32(0x7fff), upper);
    return retype(ptx_cvt(b, PTX_U16, result), PTX_BF16);
}

// Whether every value of `type` is exact in f32.
static bool exact_in_f32(ptx_type type)
{
    return type == PTX_F16 || type == PTX_F32 || (ptxb_is_integer(type) && ptxb_bits(type) <= 16);
}

static ptx_val convert_to_bf16(ptx_builder *b, struct ptx_cvt_params p)
{
    const ptx_type from = (ptx_type)p.x.type;
    const bool toward_zero = p.round == PTX_ROUND_RZ;

    if (p.sat || p.ftz || p.round > PTX_ROUND_RZ) {
        ptxb_fail(b, "cvt",
                  "a conversion from %s to bf16 rounds by .rn or .rz, and takes no .ftz or .sat",
                  ptx_type_name(from));
        return (ptx_val) { 0 };
    }
    if (from == PTX_F32 || exact_in_f32(from)) {
        const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_cvt_bf16)->forms;
        ptx_val x = from == PTX_F32 ? p.x : ptx_cvt(b, PTX_F32, p.x);
        if (b->params.target.sm < form->sm || (b->params.isa && b->params.isa < form->isa))
            return narrow_bf16(b, x, p.round);
        const uint32_t opcode = ptxb_opcode(b, toward_zero ? "cvt.rz.bf16.f32" : "cvt.rn.bf16.f32");
        return ptxb_emit(b, PTX_BF16, ptxb_required(b, "cvt", form->isa, form->sm, opcode), 1, &x);
    }
    const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_cvt_bf16_any)->forms;
    const uint32_t opcode =
        ptxb_spell(b, toward_zero ? "cvt.rz.bf16." : "cvt.rn.bf16.", ptx_type_name(from), NULL);
    if (!ptxb_required(b, "cvt", form->isa, form->sm, opcode))
        return (ptx_val) { 0 };
    p.x = ptxb_in_register(b, p.x);
    return ptxb_emit(b, PTX_BF16, opcode, 1, &p.x);
}

// ---- cvt ----------------------------------------------------------------------------------------

// The rounding modifier of cvt, or NULL if this pair of types does not allow the rounding.
static const char *rounding(ptx_type to, ptx_type from, ptx_round round)
{
    static const char *const to_integer[] = { ".rzi", ".rni", ".rzi", ".rmi", ".rpi" };
    static const char *const to_float[] = { ".rn", ".rn", ".rz", ".rm", ".rp" };

    if (round > PTX_ROUND_RP)
        return NULL;
    if (ptxb_is_float(from) && ptxb_is_integer(to))
        return to_integer[round];
    if (ptxb_is_integer(from) && ptxb_is_float(to))
        return to_float[round];
    if (ptxb_is_float(from) && ptxb_bits(to) < ptxb_bits(from))
        return to_float[round];
    return round == PTX_ROUND_DEFAULT ? "" : NULL; // exact
}

// ---- formats of 8 bits, tf32 --------------------------------------------------------------------

static bool is_fp8(ptx_type type)
{
    return type == PTX_E4M3X2 || type == PTX_E5M2X2;
}

static ptx_val fail_modifier(ptx_builder *b, ptx_type to, ptx_type from, const char *modifier)
{
    ptxb_fail(b, "cvt", "a conversion from %s to %s takes no %s", ptx_type_name(from),
              ptx_type_name(to), modifier);
    return (ptx_val) { 0 };
}

static ptx_val fail_types(ptx_builder *b, ptx_type to, ptx_type from)
{
    ptxb_fail(b, "cvt", "there is no conversion from %s to %s%s", ptx_type_name(from),
              ptx_type_name(to),
              from == PTX_PRED   ? "; use ptx_select"
              : to == PTX_PRED   ? "; use ptx_ne"
              : is_fp8(to)       ? "; it comes from f16x2, or from two f32 (x and .hi)"
              : is_fp8(from)     ? "; it goes to f16x2"
              : to == PTX_TF32   ? "; it comes from f32"
              : from == PTX_TF32 ? "; it goes to f32"
                                 : "");
    return (ptx_val) { 0 };
}

// sm_90 had the instruction first.
static uint32_t required_fp8(ptx_builder *b, uint32_t opcode)
{
    const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_cvt_fp8)->forms;
    const bool first = b->params.target.sm >= 90;

    return ptxb_required(b, "cvt", first ? 78 : form->isa, form->sm, opcode);
}

static ptx_val convert_fp8(ptx_builder *b, ptx_type to, const struct ptx_cvt_params *p)
{
    const ptx_type from = (ptx_type)p->x.type;
    const bool two = ptxb_is_given(p->hi);

    if (!(is_fp8(to) && (two ? from == PTX_F32 && p->hi.type == PTX_F32 : from == PTX_F16X2)) &&
        !(is_fp8(from) && to == PTX_F16X2 && !two))
        return fail_types(b, to, from);
    if (p->round > PTX_ROUND_RN)
        return fail_modifier(b, to, from, "choice of rounding");
    if (p->ftz || p->sat || (p->satfinite && is_fp8(from)))
        return fail_modifier(b, to, from, p->ftz ? ".ftz" : p->sat ? ".sat" : ".satfinite");
    const uint32_t opcode =
        ptxb_spell(b, is_fp8(to) ? "cvt.rn.satfinite" : "cvt.rn", p->relu ? ".relu." : ".",
                   ptx_type_name(to), ".", ptx_type_name(from), NULL);
    const ptx_val halves[] = { p->hi, p->x }; // the first source goes to the upper half
    const ptx_val x = ptxb_in_register(b, p->x);
    return ptxb_emit(b, to, required_fp8(b, opcode), two ? 2 : 1, two ? halves : &x);
}

static ptx_val convert_to_tf32(ptx_builder *b, const struct ptx_cvt_params *p)
{
    const bool away = p->round == PTX_ROUND_DEFAULT || p->round == PTX_ROUND_RNA;
    const struct ptx_op_form *form =
        ptx_op_get_info(away ? PTX_OP_cvt_tf32 : PTX_OP_cvt_tf32_any)->forms;
    int isa = form->isa, sm = form->sm;

    if (!away && p->round > PTX_ROUND_RZ)
        return fail_modifier(b, PTX_TF32, PTX_F32, "rounding to minus or plus infinity");
    if (p->ftz || p->sat || ptxb_is_given(p->hi))
        return fail_modifier(b, PTX_TF32, PTX_F32, p->ftz ? ".ftz" : p->sat ? ".sat" : ".hi");
    if (p->relu && away)
        return fail_modifier(b, PTX_TF32, PTX_F32, ".relu with this rounding; choose .rn or .rz");
    if (p->satfinite) {
        isa = away ? 81 : 86;
        sm = away ? 80 : 100;
    }
    const uint32_t opcode =
        ptxb_spell(b,
                   away                       ? "cvt.rna"
                   : p->round == PTX_ROUND_RZ ? "cvt.rz"
                                              : "cvt.rn",
                   p->satfinite ? ".satfinite" : "", p->relu ? ".relu" : "", ".tf32.f32", NULL);
    const ptx_val word = ptxb_emit(b, PTX_TF32, ptxb_required(b, "cvt", isa, sm, opcode), 1, &p->x);
    // After .rn and .rz, ptxas 13.0 takes the word as the number itself where a 64-bit shift counts
    // by it, and converts it to an integer. A copy, which costs nothing, ends that; it stays.
    if (away || b->failed)
        return word;
    const ptx_val kept = ptxb_mov(b, word);
    if (!b->failed)
        ptxb_newest(b)->moves = 0;
    return kept;
}

static bool is_small(ptx_type type)
{
    return is_fp8(type) || type == PTX_TF32;
}

static ptx_val convert_small(ptx_builder *b, ptx_type to, const struct ptx_cvt_params *p)
{
    const ptx_type from = (ptx_type)p->x.type;
    const bool exact = p->round == PTX_ROUND_DEFAULT && !p->ftz && !p->sat && !p->relu &&
                       !p->satfinite && !ptxb_is_given(p->hi);

    if (from == to || (from == PTX_TF32 && to == PTX_F32))
        return exact ? ptx_bitcast(b, to, p->x)
                     : fail_modifier(b, to, from, "modifier: it is exact");
    if (is_fp8(to) || is_fp8(from))
        return convert_fp8(b, to, p);
    return to == PTX_TF32 && from == PTX_F32 ? convert_to_tf32(b, p) : fail_types(b, to, from);
}

// ---- all of them --------------------------------------------------------------------------------

static bool convertible(ptx_type type)
{
    return ptxb_is_integer(type) || ptxb_is_float(type);
}

// Whether every value of integer type `from` fits in `to`: then saturation does nothing, and PTX
// has no .sat for the pair.
static bool holds(ptx_type to, ptx_type from)
{
    const bool to_signed = to >= PTX_S8, from_signed = from >= PTX_S8;

    return ptxb_is_integer(to) && ptxb_is_integer(from) &&
           (to_signed == from_signed ? ptxb_bits(to) >= ptxb_bits(from)
                                     : to_signed && ptxb_bits(to) > ptxb_bits(from));
}

static ptx_val convert(ptx_builder *b, ptx_type to, struct ptx_cvt_params p)
{
    const ptx_type from = (ptx_type)p.x.type;
    const char *mode = rounding(to, from, p.round);

    if (!mode || (p.ftz && from != PTX_F32 && to != PTX_F32)) {
        ptxb_fail(b, "cvt", "a conversion from %s to %s takes no %s", ptx_type_name(from),
                  ptx_type_name(to), mode ? ".ftz" : "choice of rounding");
        return (ptx_val) { 0 };
    }
    const uint32_t spelling = ptxb_spelling(
        PTX_OP_cvt, to, from << 5 | (unsigned)p.round << 2 | (unsigned)p.ftz << 1 | p.sat);
    uint32_t opcode = ptxb_noted(b, spelling);
    if (!opcode)
        opcode = ptxb_note(b, spelling,
                           ptxb_spell(b, "cvt", mode, p.ftz ? ".ftz" : "", p.sat ? ".sat" : "", ".",
                                      ptx_type_name(to), ".", ptx_type_name(from), NULL));
    p.x = ptxb_in_register(b, p.x);
    return ptxb_emit(b, to, opcode, 1, &p.x);
}

ptx_val ptx_cvt_emit(ptx_builder *b, ptx_type to, struct ptx_cvt_params p)
{
    if (!ptxb_ready(b, "cvt") || !ptxb_usable(b, "cvt", "x", p.x))
        return (ptx_val) { 0 };
    const ptx_type from = (ptx_type)p.x.type;
    p.hi = ptxb_typed(b, "cvt", ".hi", p.hi, from);
    if (ptxb_is_given(p.hi) && !ptxb_usable(b, "cvt", ".hi", p.hi))
        return (ptx_val) { 0 };
    if (is_small(to) || is_small(from))
        return convert_small(b, to, &p);
    if (p.relu || p.satfinite || ptxb_is_given(p.hi))
        return fail_modifier(b, to, from,
                             p.relu        ? ".relu"
                             : p.satfinite ? ".satfinite"
                                           : ".hi; ptx_cvt_pack() has two f32");
    p.sat = p.sat && !holds(to, from);
    if (!convertible(to) || !convertible(from))
        return fail_types(b, to, from);
    const bool same_width =
        ptxb_is_integer(from) && ptxb_is_integer(to) && ptxb_bits(from) == ptxb_bits(to);
    if ((from == to || same_width) && p.round == PTX_ROUND_DEFAULT && !p.ftz && !p.sat)
        return ptx_bitcast(b, to, p.x);
    if (to == PTX_BF16 && from != PTX_BF16)
        return convert_to_bf16(b, p);
    if (from == PTX_BF16) {
        p.x = widen_bf16(b, p.x);
        return to == PTX_F32 && !p.ftz && !p.sat && p.round == PTX_ROUND_DEFAULT
                   ? p.x
                   : ptx_cvt_emit(b, to, p);
    }
    return convert(b, to, p);
}

ptx_val ptx_cvt_pack(ptx_builder *b, ptx_type type, ptx_val lo, ptx_val hi)
{
    const ptx_val poison = { 0 };

    if (!ptxb_ready(b, "cvt_pack") || !ptxb_usable(b, "cvt_pack", "lo", lo) ||
        !ptxb_usable(b, "cvt_pack", "hi", hi))
        return poison;
    if ((type != PTX_F16X2 && type != PTX_BF16X2 && !is_fp8(type)) || lo.type != PTX_F32 ||
        hi.type != PTX_F32) {
        ptxb_fail(b, "cvt_pack",
                  "two f32 go into one f16x2, bf16x2, e4m3x2 or e5m2x2; got %s and %s for %s",
                  ptx_type_name((ptx_type)lo.type), ptx_type_name((ptx_type)hi.type),
                  ptx_type_name(type));
        return poison;
    }
    if (is_fp8(type)) {
        b->within = "cvt_pack";
        const ptx_val packed = ptx_cvt(b, type, lo, .hi = hi);
        b->within = NULL;
        return packed;
    }
    const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_cvt_pack)->forms;
    if (b->params.target.sm >= form->sm && (!b->params.isa || b->params.isa >= form->isa)) {
        const uint32_t opcode =
            ptxb_opcode(b, type == PTX_F16X2 ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32");
        const ptx_val halves[] = { hi, lo }; // the first source goes to the upper half
        return ptxb_emit(b, type, ptxb_required(b, "cvt_pack", form->isa, form->sm, opcode), 2,
                         halves);
    }
    const ptx_type half = type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    ptx_val l = ptx_cvt(b, half, lo);
    ptx_val h = ptx_cvt(b, half, hi);
    return ptx_pack(b, type, ptx_vec2(l, h));
}

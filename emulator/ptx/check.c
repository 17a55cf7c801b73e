// SPDX-License-Identifier: MIT
// Rules of single instructions that the table does not hold.
#include "check.h"

#include <string.h>

// ---- barriers -----------------------------------------------------------------------------------

bool emu_rule_barrier(const struct emu_check *c)
{
    struct emu_insn *insn = c->insn;
    const struct emu_operand *source = &c->operands[insn->dst_count];
    const unsigned predicate = insn->dst_count != 0;

    if (emu_token_is_name(&c->spelled->name, "bar"))
        insn->aligned = true;
    if (emu_spells(c, EMU_G(SCOPE)) && insn->scope != EMU_SCOPE_CTA)
        return emu_illegal(c, EMU_G(SCOPE));
    if (emu_spells(c, EMU_G(SCOPE)) && !emu_requires(c, "bar.cta", 78, 30))
        return false;
    if (insn->opcode == EMU_OP_BAR_RED && insn->boolean == EMU_BOOL_XOR)
        return emu_error(c->p, &c->spelled->name,
                         "Illegal reduction operation for instruction 'bar.red.pred'");
    if (source->kind == EMU_OPERAND_IMMEDIATE && source->bits > 15)
        return emu_error(c->p, &c->spelled->name,
                         "Barrier number '%llu' out of range, expected to be in range [0..15]",
                         (unsigned long long)source->bits);
    const bool counted = insn->src_count > 1 + predicate;
    if (counted && source[1].kind == EMU_OPERAND_IMMEDIATE &&
        (source[1].bits % 32 || !source[1].bits))
        return emu_error(c->p, &c->spelled->name,
                         "Number of threads participating in barrier must be in multiple of warp "
                         "size");
    return true;
}

// ---- comparisons --------------------------------------------------------------------------------

bool emu_rule_compare(const struct emu_check *c)
{
    const enum emu_type type = (enum emu_type)c->insn->source_type;
    const uint8_t compare = c->insn->compare;
    const bool is_unsigned = emu_is_integer(type) && type <= EMU_U64;
    const bool fine = emu_is_bits(type)    ? compare <= EMU_NE
                      : emu_is_float(type) ? compare <= EMU_GE || compare >= EMU_EQU
                      : compare >= EMU_EQU ? false
                      : compare >= EMU_LO  ? is_unsigned
                                           : true;

    return fine || emu_error(c->p, &c->spelled->name,
                             "Mismatch between instruction type and comparison qualifier");
}

// ---- conversions --------------------------------------------------------------------------------

enum rounds { ROUNDS_NONE, ROUNDS_FLOAT, ROUNDS_INTEGRAL, ROUNDS_MAY_INTEGRAL };

// The rounding that a pair of types takes.
static enum rounds rounding_of(enum emu_type to, enum emu_type from)
{
    if (emu_is_integer(to))
        return emu_is_float(from) ? ROUNDS_INTEGRAL : ROUNDS_NONE;
    if (emu_is_integer(from))
        return ROUNDS_FLOAT;
    if (to == from)
        return ROUNDS_MAY_INTEGRAL;
    return emu_bits(to) <= emu_bits(from) ? ROUNDS_FLOAT : ROUNDS_NONE;
}

static bool check_rounding(const struct emu_check *c, enum rounds rounds)
{
    const bool to_float = emu_spells(c, EMU_G(RN) | EMU_G(DIRECTED));
    const bool integral = emu_spells(c, EMU_G(INTEGRAL));

    if ((to_float && rounds != ROUNDS_FLOAT) ||
        (integral && rounds != ROUNDS_INTEGRAL && rounds != ROUNDS_MAY_INTEGRAL))
        return emu_error(c->p, &c->spelled->name,
                         "Illegal rounding modifier for instruction 'cvt'");
    if ((rounds == ROUNDS_FLOAT && !to_float) || (rounds == ROUNDS_INTEGRAL && !integral))
        return emu_error(c->p, &c->spelled->name,
                         "Rounding modifier required for instruction 'cvt'");
    return true;
}

bool emu_rule_cvt(const struct emu_check *c)
{
    struct emu_insn *insn = c->insn;
    const enum emu_type to = (enum emu_type)insn->type, from = (enum emu_type)insn->source_type;

    if (to == EMU_F16X2 || to == EMU_BF16X2) {
        if (insn->round > EMU_RZ)
            return emu_error(c->p, &c->spelled->name,
                             "Illegal rounding modifier for instruction 'cvt'");
        return true;
    }
    if (!check_rounding(c, rounding_of(to, from)))
        return false;
    if (insn->ftz && to != EMU_F32 && from != EMU_F32)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.ftz' does not apply to this type of convert operation");
    if (insn->sat && to == EMU_BF16)
        return emu_illegal(c, EMU_G(SAT));
    if (insn->relu && ((to != EMU_F16 && to != EMU_BF16) || from != EMU_F32))
        return emu_illegal(c, EMU_G(RELU));
    if (insn->relu && insn->sat)
        return emu_cannot_combine(c, EMU_G(RELU), EMU_G(SAT));
    if (to == EMU_BF16 && from == EMU_F32)
        return insn->round > EMU_RZ ? emu_requires(c, "cvt.bf16.f32 with .rm or .rp", 78, 90)
                                    : emu_requires(c, "cvt.bf16.f32", 70, 80);
    if (from == EMU_BF16 && to == EMU_F32)
        return emu_requires(c, "cvt.f32.bf16", 71, 80);
    if (to == EMU_BF16 || from == EMU_BF16)
        return emu_requires(c, "cvt with .bf16", 78, 90);
    return true;
}

// ---- the rest -----------------------------------------------------------------------------------

bool emu_rule_address(const struct emu_check *c)
{
    const uint8_t space = c->insn->space;

    if (space == EMU_PARAM)
        return emu_requires(c, "cvta.param", 77, 70);
    return space != EMU_CONST || emu_requires(c, "cvta.const", 31, 20);
}

bool emu_rule_dot(const struct emu_check *c)
{
    c->insn->mode = emu_spells(c, EMU_G(HI)) ? EMU_DP2A_HI : EMU_MODE_NONE;
    return true;
}

bool emu_rule_redux(const struct emu_check *c)
{
    c->insn->boolean = EMU_BOOL_NONE;
    return true;
}

bool emu_rule_lop3(const struct emu_check *c)
{
    c->operands[c->insn->dst_count + 3].bits &= 0xff;
    return true;
}

bool emu_check(struct emu_parser *p, struct emu_spelled *spelled, struct emu_operand *operands)
{
    static bool (*const rules[EMU_OP_COUNT])(const struct emu_check *) = {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, defined, rule, ...)                          \
    [EMU_OP_##opcode] = emu_rule_##rule,
#include "isa.def"
    };
    const struct emu_check c = { p, spelled, &spelled->insn, operands };

    return !rules[spelled->insn.opcode] || rules[spelled->insn.opcode](&c);
}

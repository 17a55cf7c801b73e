// SPDX-License-Identifier: MIT
// The rules of video instructions.
#include "rules_video.h"

static bool wrong_selector(const struct check *c, unsigned operand)
{
    return emu_error(c->p, &c->spelled->name, "Incorrect video selector for operand %u", operand);
}

// Forms with `.second`, but no result type, are comparisons.
static bool check_video(const struct check *c)
{
    struct emu_insn *insn = c->insn;

    insn->secondary = spells(c, EMU_G(PLUS) | EMU_G(EXTREME));
    return !spells(c, EMU_G(COMPARE)) || insn->compare <= EMU_GE ||
           emu_error(c->p, &c->spelled->name,
                     "Mismatch between instruction type and comparison qualifier");
}

// At most one part of each operand.
static bool check_part(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    for (unsigned k = 0; k < 3; k++) {
        const uint32_t select = insn->select[k];
        if (select && (emu_select_count(select) != 1 ||
                       emu_select_part(select, 0) >= 32 / emu_select_bits(select)))
            return wrong_selector(c, k);
    }
    return true;
}

// The part of the result is merged into the third source.
bool emu_rule_video(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (!check_part(c))
        return false;
    if (insn->select[0] && insn->src_count < 3)
        return emu_error(c->p, &c->spelled->name,
                         "Video selector is not allowed on destination for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    if (insn->select[0] && spells(c, EMU_G(PLUS) | EMU_G(EXTREME)))
        return emu_error(c->p, &c->spelled->name,
                         "Video instruction cannot have destination selector and secondary "
                         "operation");
    return check_video(c);
}

bool emu_rule_vmad(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (!check_part(c))
        return false;
    if (insn->select[0])
        return emu_error(c->p, &c->spelled->name,
                         "Video selector is not allowed on destination for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    if (insn->negates_product && insn->negates_addend)
        return emu_error(c->p, &c->spelled->name,
                         "Operand negation limited to either (source A xor source B) or source C");
    return !(insn->negates_product || insn->negates_addend) || !insn->plus_one ||
           emu_error(c->p, &c->spelled->name,
                     "Conflicting use of '.po' modifier with operand negation");
}

// Each part of a source is one of both; those of the result are a set, the first one highest.
static bool check_parts(const struct check *c, unsigned bits)
{
    struct emu_insn *insn = c->insn;
    const unsigned parts = 32 / bits;
    uint32_t *mask = &insn->select[0];

    for (unsigned k = 0; k < 3; k++) {
        const uint32_t select = insn->select[k];
        if ((k > 0 && c->operands[k].kind == EMU_OPERAND_IMMEDIATE) ||
            (select && emu_select_bits(select) != bits) ||
            (k > 0 && select && emu_select_count(select) != parts))
            return wrong_selector(c, k);
    }
    if (c->operands[3].kind == EMU_OPERAND_IMMEDIATE)
        return wrong_selector(c, 3);
    for (unsigned k = 0; k < emu_select_count(*mask); k++)
        if (emu_select_part(*mask, k) >= parts ||
            (k > 0 && emu_select_part(*mask, k) <= emu_select_part(*mask, k - 1)))
            return wrong_selector(c, 0);
    return check_video(c);
}

bool emu_rule_video2(const struct check *c)
{
    return check_parts(c, 16);
}

bool emu_rule_video4(const struct check *c)
{
    return check_parts(c, 8);
}

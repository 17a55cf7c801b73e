// SPDX-License-Identifier: MIT
// The rules of video instructions.
#include "rules_video.h"

static bool wrong_selector(const struct check *c, unsigned operand)
{
    return emu_error(c->p, &c->spelled->name, "Incorrect video selector for operand %u", operand);
}

// For what ptxas makes of it, which follows neither the manual nor another rule that is known.
static bool no_rule(const struct check *c, const char *what)
{
    return emu_error(c->p, &c->spelled->name,
                     "Instruction '%.*s' %s is not supported by the emulator",
                     EMU_TEXT(&c->spelled->name), what);
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

// A part of each operand, of which the result's is merged into the third source.
bool emu_rule_video(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    for (unsigned k = 0; k < 3; k++) {
        const uint32_t select = insn->select[k];
        if (select && (emu_select_count(select) != 1 ||
                       emu_select_part(select, 0) >= 32 / emu_select_bits(select)))
            return wrong_selector(c, k);
    }
    if (insn->select[0] && insn->src_count < 3)
        return emu_error(c->p, &c->spelled->name,
                         "Video selector is not allowed on destination for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    if (insn->select[0] && spells(c, EMU_G(PLUS) | EMU_G(EXTREME)))
        return emu_error(c->p, &c->spelled->name,
                         "Video instruction cannot have destination selector and secondary "
                         "operation");
    if (insn->select[0] && spells(c, EMU_G(SAT)))
        return no_rule(c, "with '.sat' and a selector on destination");
    return check_video(c);
}

bool emu_rule_video_sum(const struct check *c)
{
    const struct emu_insn *insn = c->insn;
    const bool whole = (insn->source_type == EMU_U32 && !insn->select[1]) ||
                       (insn->factor_type == EMU_U32 && !insn->select[2]);

    if (insn->type == EMU_U32 && whole && spells(c, EMU_G(SAT) | EMU_G(EXTREME)))
        return no_rule(c, "of whole '.u32' sources with '.u32.sat', '.min' or '.max'");
    return emu_rule_video(c);
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

// SPDX-License-Identifier: MIT
// What the rules of instructions share. A rule returns true, or reports an error and returns
// false.
#ifndef PTXGEN_EMULATOR_PTX_RULES_H
#define PTXGEN_EMULATOR_PTX_RULES_H

#include "parse.h"

// The instruction that is checked, and the place for reports.
struct check {
    struct emu_parser *p;
    struct emu_spelled *spelled;
    struct emu_insn *insn;
    struct emu_operand *operands;
};

static inline bool spells(const struct check *c, emu_groups group)
{
    return (c->spelled->groups & group) != 0;
}

// Reports that two modifiers, one of each group, exclude each other. Always returns false.
bool emu_cannot_combine(const struct check *c, emu_groups one, emu_groups other);

// ---- rules_video.c ------------------------------------------------------------------------------

bool emu_rule_video(const struct check *c);
bool emu_rule_video_sum(const struct check *c);
bool emu_rule_video2(const struct check *c);
bool emu_rule_video4(const struct check *c);

#endif

// SPDX-License-Identifier: MIT
// What the rules of instructions share. A rule returns true, or reports an error and returns false.
#ifndef PTXGEN_EMULATOR_PTX_CHECK_H
#define PTXGEN_EMULATOR_PTX_CHECK_H

#include "form.h"

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
// Reports a modifier of the groups that the instruction does not allow. Always returns false.
bool emu_illegal(const struct check *c, emu_groups group);
// Reports and returns false if the version or target is too low for the feature.
bool emu_at_least(const struct check *c, const char *what, int isa, int sm);

#endif

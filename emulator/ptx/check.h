// SPDX-License-Identifier: MIT
// Inside the rules that the table of instructions does not hold.
#ifndef PTXGEN_EMULATOR_PTX_CHECK_H
#define PTXGEN_EMULATOR_PTX_CHECK_H

#include "parse.h"

// What is checked, and where to say so.
struct emu_check {
    struct emu_parser *p;
    struct emu_spelled *spelled;
    struct emu_insn *insn;
    struct emu_operand *operands;
};

// A modifier of the groups is not for this instruction. Always false, as the next one is.
bool emu_illegal(const struct emu_check *c, uint64_t group);
bool emu_cannot_combine(const struct emu_check *c, uint64_t one, uint64_t other);
// False, and reported, below that version or target.
bool emu_requires(const struct emu_check *c, const char *what, int isa, int sm);
bool emu_spells(const struct emu_check *c, uint64_t group);

// The rules that rows of isa.def name. False, and reported, where one is broken; some also complete
// the instruction.
#define emu_rule_none NULL
bool emu_rule_access(const struct emu_check *c);
bool emu_rule_address(const struct emu_check *c);
bool emu_rule_atomic(const struct emu_check *c);
bool emu_rule_barrier(const struct emu_check *c);
bool emu_rule_compare(const struct emu_check *c);
bool emu_rule_copy(const struct emu_check *c);
bool emu_rule_copy_batch(const struct emu_check *c);
bool emu_rule_cvt(const struct emu_check *c);
bool emu_rule_dot(const struct emu_check *c);
bool emu_rule_fence(const struct emu_check *c);
bool emu_rule_lop3(const struct emu_check *c);
bool emu_rule_policy(const struct emu_check *c);
bool emu_rule_prefetch(const struct emu_check *c);
bool emu_rule_redux(const struct emu_check *c);

#endif

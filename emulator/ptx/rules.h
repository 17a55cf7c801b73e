// SPDX-License-Identifier: MIT
// The rules that forms cannot express.
#ifndef PTXGEN_EMULATOR_PTX_RULES_H
#define PTXGEN_EMULATOR_PTX_RULES_H

#include "form.h"

// Checks the instruction by the rule of its row.
bool emu_check(struct emu_parser *p, struct emu_spelled *spelled, struct emu_operand *operands);

#endif

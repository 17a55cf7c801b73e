// SPDX-License-Identifier: MIT
// Operands as the form of their instruction takes them.
#ifndef PTXGEN_EMULATOR_PTX_TYPING_H
#define PTXGEN_EMULATOR_PTX_TYPING_H

#include "form.h"

enum { EMU_MOST_INSN_OPERANDS = 40 };

// Converts the written operands to the types that the form has for them, and counts them.
bool emu_type_operands(struct emu_parser *p, struct emu_spelled *spelled,
                       const struct emu_written_list *list, struct emu_operand *operands);

#endif

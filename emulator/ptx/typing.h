// SPDX-License-Identifier: MIT
// Operands as the form of their instruction takes them.
#ifndef PTXGEN_EMULATOR_PTX_TYPING_H
#define PTXGEN_EMULATOR_PTX_TYPING_H

#include "form.h"

// Few instructions have more operands than the second, and only wgmma has the most.
enum { EMU_MOST_INSN_OPERANDS = EMU_MOST_LANES + 16, EMU_USUAL_INSN_OPERANDS = 40 };

// Converts the written operands to the types that the form has for them, and counts them.
bool emu_type_operands(struct emu_parser *p, struct emu_spelled *spelled,
                       const struct emu_written_list *list, struct emu_operand *operands);

#endif

// SPDX-License-Identifier: MIT
// The body of a function as it grows: instructions, uses of labels, parameters, what it names.
#ifndef PTXGEN_EMULATOR_PTX_BODY_H
#define PTXGEN_EMULATOR_PTX_BODY_H

#include "parser.h"

// Adds a use of a label: an instruction jumps to it, or it is the function's next branch target
// (`listed`).
bool emu_use_label(struct emu_parser *p, const struct emu_token *label, bool listed);
// Adds an instruction and its operands to the body.
bool emu_append(struct emu_parser *p, const struct emu_insn *insn,
                const struct emu_operand *operands);
// Notes that the body names the function or variable, for the link.
bool emu_refer(struct emu_parser *p, uint32_t index, bool is_call, const struct emu_token *at);
// A parameter of a .func or of a call: makes its registers, and sets `first`.
bool emu_new_param(struct emu_parser *p, const struct emu_token *name,
                   struct emu_param_registers *param);
// The local variable that is a copy of a parameter of the .func, made by its first use.
// EMU_NO_REGISTER: reported.
uint32_t emu_param_symbol(struct emu_parser *p, const struct emu_token *at, uint32_t index);
// At the end of the body: stores inputs to these copies before its first instruction, results where
// they are written, and loads results before the function returns.
bool emu_copy_params(struct emu_parser *p);

#endif

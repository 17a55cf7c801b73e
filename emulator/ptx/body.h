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
// A parameter of a .func or of a call with that many bytes, in new registers; an array has one for
// each byte.
bool emu_new_param(struct emu_parser *p, const struct emu_token *name, enum emu_type type,
                   bool array, uint64_t bytes, bool readonly, struct emu_param_registers *param);
// The local variable that is a copy of a parameter of the .func, made by its first use.
// EMU_NO_REGISTER: reported.
uint32_t emu_param_symbol(struct emu_parser *p, const struct emu_token *at, uint32_t index);
// At the end of the body: makes these copies before its first instruction.
bool emu_store_params(struct emu_parser *p);

#endif

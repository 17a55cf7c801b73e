// SPDX-License-Identifier: MIT
// An instruction with its guard and operands.
#ifndef PTXGEN_EMULATOR_PTX_INSTRUCTION_H
#define PTXGEN_EMULATOR_PTX_INSTRUCTION_H

#include "parser.h"

// Parses an instruction up to the ';', which is left.
bool emu_parse_instruction(struct emu_parser *p);

#endif

// SPDX-License-Identifier: MIT
// Functions.
#ifndef PTXGEN_EMULATOR_PTX_FUNCTION_H
#define PTXGEN_EMULATOR_PTX_FUNCTION_H

#include "parser.h"

// Parses a function from after .entry or .func on.
bool emu_parse_function(struct emu_parser *p, bool is_entry);

#endif

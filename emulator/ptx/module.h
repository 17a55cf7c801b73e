// SPDX-License-Identifier: MIT
// A module's head and its list of definitions.
#ifndef PTXGEN_EMULATOR_PTX_MODULE_H
#define PTXGEN_EMULATOR_PTX_MODULE_H

#include "parser.h"

// Parses one text of the module.
bool emu_parse_unit(struct emu_parser *p);

#endif

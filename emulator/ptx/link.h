// SPDX-License-Identifier: MIT
// Checks and layout that need the whole module.
#ifndef PTXGEN_EMULATOR_PTX_LINK_H
#define PTXGEN_EMULATOR_PTX_LINK_H

#include "parser.h"

// Checks that called functions are defined, and lays out shared memory.
bool emu_link(struct emu_parser *p);

#endif

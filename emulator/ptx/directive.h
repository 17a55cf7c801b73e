// SPDX-License-Identifier: MIT
// Directives that compute nothing.
#ifndef PTXGEN_EMULATOR_PTX_DIRECTIVE_H
#define PTXGEN_EMULATOR_PTX_DIRECTIVE_H

#include "parser.h"

// Keeps .loc and .file, and skips .pragma and .section. *found says whether it was one of them.
bool emu_parse_ignored(struct emu_parser *p, bool *found);
// The instructions from here on have no .loc yet: a function begins.
bool emu_leave_location(struct emu_parser *p);

#endif

// SPDX-License-Identifier: MIT
// Directives that compute nothing.
#ifndef PTXGEN_EMULATOR_PTX_DIRECTIVE_H
#define PTXGEN_EMULATOR_PTX_DIRECTIVE_H

#include "parser.h"

// Skips .pragma, .loc, .file and .section. *found says whether it was one of them.
bool emu_parse_ignored(struct emu_parser *p, bool *found);

#endif

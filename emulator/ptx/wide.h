// SPDX-License-Identifier: MIT
// Registers of 128 bits: two of 64 each.
#ifndef PTXGEN_EMULATOR_PTX_WIDE_H
#define PTXGEN_EMULATOR_PTX_WIDE_H

#include "form.h"

// mov.b128: two moves of halves in its place. *handled says whether it was one.
bool emu_wide_move(struct emu_parser *p, struct emu_spelled *spelled,
                   const struct emu_written_list *list, bool *handled);

#endif

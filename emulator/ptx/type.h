// SPDX-License-Identifier: MIT
// What the parser asks of types.
#ifndef PTXGEN_EMULATOR_PTX_TYPE_H
#define PTXGEN_EMULATOR_PTX_TYPE_H

#include "program.h"

// Whether a register declared with a type does for another; `relaxed`: also a wider one.
bool emu_fits(enum emu_type declared, enum emu_type wanted, bool relaxed);
bool emu_is_integer(enum emu_type type);
bool emu_is_float(enum emu_type type);
bool emu_is_bits(enum emu_type type);

#endif

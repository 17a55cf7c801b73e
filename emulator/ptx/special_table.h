// SPDX-License-Identifier: MIT
// Special registers, as data.
#ifndef PTXGEN_EMULATOR_PTX_SPECIAL_TABLE_H
#define PTXGEN_EMULATOR_PTX_SPECIAL_TABLE_H

#include "program.h"

struct emu_special_row {
    const char *name; // without the axis
    uint8_t special;  // emu_special
    bool has_axis;
    uint8_t bits;
    uint8_t isa, sm; // least
};

// The special register of that name, "%tid" say, or NULL.
const struct emu_special_row *emu_special_find(const char *at, size_t length);
// One that PTX has and the emulator has not.
bool emu_special_is_unsupported(const char *at, size_t length);

#endif

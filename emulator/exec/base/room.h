// SPDX-License-Identifier: MIT
/// Memory of blocks, which a launch gives back and the next one takes again. Memory that is new is
/// pages that the system clears when they are touched: half of the time of a short launch.
#ifndef EMULATOR_EXEC_ROOM_H
#define EMULATOR_EXEC_ROOM_H

#include <stddef.h>

/// Memory for vectors, of any contents; NULL if host memory is out.
void *emu_room(size_t bytes);
/// The same, zeroed.
void *emu_zeros(size_t bytes);
/// For the next one that asks for as much. Thread-safe.
void emu_room_free(void *memory);

#endif

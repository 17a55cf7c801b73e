// SPDX-License-Identifier: MIT
// Memory of one module, up to a limit.
#ifndef PTXGEN_EMULATOR_PTX_ARENA_H
#define PTXGEN_EMULATOR_PTX_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_arena;

struct emu_arena *emu_arena_create(size_t limit);
void emu_arena_destroy(struct emu_arena *arena);
// Zeroed memory, aligned for any type. NULL past the limit or if memory is out.
void *emu_arena_alloc(struct emu_arena *arena, size_t bytes);
// A NUL-terminated copy.
char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t length);
// Makes room for one more element of an array in the arena; *at may move. False as above.
bool emu_arena_grow(struct emu_arena *arena, void **at, uint32_t count, uint32_t *capacity,
                    size_t element);

#endif

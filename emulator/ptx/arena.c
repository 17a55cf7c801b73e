// SPDX-License-Identifier: MIT
// Memory of one module, up to a limit.
#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct emu_arena {
    struct block *blocks;
    size_t room; // left in the first block
    size_t left; // bytes left of the limit
    unsigned char *at;
};

struct emu_arena *emu_arena_create(size_t limit)
{
    struct emu_arena *arena = calloc(1, sizeof *arena);

    if (arena)
        arena->left = limit;
    return arena;
}

void emu_arena_destroy(struct emu_arena *arena)
{
    if (!arena)
        return;
    for (struct block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

static struct block *new_block(struct emu_arena *arena, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + bytes);

    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *emu_arena_alloc(struct emu_arena *arena, size_t bytes)
{
    const size_t unit = alignof(max_align_t);

    if (bytes > arena->left)
        return NULL;
    bytes = (bytes + unit - 1) / unit * unit;
    if (bytes > arena->room) {
        const size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        struct block *block = new_block(arena, size);
        if (!block)
            return NULL;
        if (size == bytes && arena->blocks->next) {
            // A large allocation has its own block; small ones continue in the previous block.
            arena->blocks = block->next;
            block->next = arena->blocks->next;
            arena->blocks->next = block;
            arena->left -= bytes < arena->left ? bytes : arena->left;
            return block->bytes;
        }
        arena->at = block->bytes;
        arena->room = size;
    }
    void *result = arena->at;
    arena->at += bytes;
    arena->room -= bytes;
    arena->left -= bytes < arena->left ? bytes : arena->left;
    return result;
}

char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? emu_arena_alloc(arena, length + 1) : NULL;

    if (copy && length)
        memcpy(copy, text, length);
    return copy;
}

bool emu_arena_grow(struct emu_arena *arena, void **at, uint32_t count, uint32_t *capacity,
                    size_t element)
{
    if (count < *capacity)
        return true;
    if (count > UINT32_MAX / 4)
        return false;
    const uint32_t wanted = count ? count * 2 : 8;
    void *moved = emu_arena_alloc(arena, (size_t)wanted * element);
    if (!moved)
        return false;
    if (count)
        memcpy(moved, *at, (size_t)count * element);
    *at = moved;
    *capacity = wanted;
    return true;
}

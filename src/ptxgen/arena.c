// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size; // of data
    max_align_t data[];
};

enum { CHUNK_BYTES = 4096 };

void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes)
{
    void *moved;

    if (b->params.resize)
        moved = b->params.resize(b->params.user, memory, bytes);
    else if (bytes)
        moved = realloc(memory, bytes);
    else {
        free(memory);
        moved = NULL;
    }
    if (bytes && !moved) {
        ptxb_out_of_memory(b);
        return NULL;
    }
    b->bytes += bytes - old_bytes;
    if (b->bytes > b->peak)
        b->peak = b->bytes;
    return moved;
}

void *ptxb_alloc(ptx_builder *b, size_t bytes)
{
    struct arena_chunk *chunk = b->arena;

    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t size = CHUNK_BYTES - sizeof *chunk;
        if (size < bytes)
            size = bytes;
        chunk = ptxb_resize(b, NULL, 0, sizeof *chunk + size);
        if (!chunk)
            return NULL;
        chunk->next = b->arena;
        chunk->used = 0;
        chunk->size = size;
        b->arena = chunk;
    }
    void *memory = (char *)chunk->data + chunk->used;
    chunk->used += bytes;
    return memset(memory, 0, bytes);
}

bool ptxb_grow(ptx_builder *b, void **at, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    uint32_t larger = *capacity ? *capacity * 2 : 16;
    void *moved = ptxb_resize(b, *at, *capacity * size, larger * size);
    if (!moved)
        return false;
    *at = moved;
    *capacity = larger;
    return true;
}

void ptxb_release(ptx_builder *b)
{
    while (b->arena) {
        struct arena_chunk *next = b->arena->next;
        ptxb_resize(b, b->arena, sizeof *b->arena + b->arena->size, 0);
        b->arena = next;
    }
    for (uint32_t e = 0; e < b->entries.count; e++)
        ptxb_resize(b, b->entries.at[e].params,
                    b->entries.at[e].param_capacity * sizeof(struct param), 0);
    ptxb_resize(b, b->regs.at, b->regs.capacity * sizeof *b->regs.at, 0);
    ptxb_resize(b, b->labels.at, b->labels.capacity * sizeof *b->labels.at, 0);
    ptxb_resize(b, b->symbols.at, b->symbols.capacity * sizeof *b->symbols.at, 0);
    ptxb_resize(b, b->entries.at, b->entries.capacity * sizeof *b->entries.at, 0);
    ptxb_resize(b, b->blocks.at, b->blocks.capacity * sizeof *b->blocks.at, 0);
    ptxb_resize(b, b->text.at, b->text.capacity, 0);
}

const char *ptxb_join(ptx_builder *b, ...)
{
    char joined[160];
    size_t length = 0;
    va_list parts;
    const char *part;

    va_start(parts, b);
    while ((part = va_arg(parts, const char *))) {
        size_t n = strlen(part);
        if (n > sizeof joined - 1 - length)
            n = sizeof joined - 1 - length;
        memcpy(joined + length, part, n);
        length += n;
    }
    va_end(parts);
    char *text = ptxb_alloc(b, length + 1);
    if (text)
        memcpy(text, joined, length);
    return text;
}

const char *ptxb_format(ptx_builder *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : ptxb_alloc(b, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

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

static void release(ptx_builder *b, void *memory, size_t bytes)
{
    if (memory)
        ptxb_resize(b, memory, bytes, 0);
}

void ptxb_release(ptx_builder *b)
{
    while (b->arena) {
        struct arena_chunk *next = b->arena->next;
        release(b, b->arena, sizeof *b->arena + b->arena->size);
        b->arena = next;
    }
    for (uint32_t e = 0; e < b->entries.count; e++)
        release(b, b->entries.at[e].params, b->entries.at[e].param_capacity * sizeof(struct param));
    release(b, b->regs.at, b->regs.capacity * sizeof *b->regs.at);
    release(b, b->labels.at, b->labels.capacity * sizeof *b->labels.at);
    release(b, b->symbols.at, b->symbols.capacity * sizeof *b->symbols.at);
    release(b, b->entries.at, b->entries.capacity * sizeof *b->entries.at);
    release(b, b->blocks.at, b->blocks.capacity * sizeof *b->blocks.at);
    release(b, b->text.at, b->text.capacity);
}

const char *ptxb_join(ptx_builder *b, ...)
{
    size_t length = 0;
    va_list parts, again;
    const char *part;

    va_start(parts, b);
    va_copy(again, parts);
    while ((part = va_arg(parts, const char *)))
        length += strlen(part);
    va_end(parts);
    char *text = ptxb_alloc(b, length + 1);
    char *end = text;
    while (text && (part = va_arg(again, const char *))) {
        const size_t n = strlen(part);
        memcpy(end, part, n);
        end += n;
    }
    va_end(again);
    return text;
}

char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        ptxb_fail(b, call, "the C library cannot write '%.64s' with these arguments", format);
        return NULL;
    }
    char *text = ptxb_alloc(b, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

char *ptxb_format(ptx_builder *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = ptxb_vformat(b, NULL, format, args);
    va_end(args);
    return text;
}

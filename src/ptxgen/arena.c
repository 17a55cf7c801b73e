// SPDX-License-Identifier: MIT
#include "internal.h"

#include <assert.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes; // with this
};

enum { CHUNK_BYTES = 4096, ALIGNMENT = sizeof(uint64_t) };

static_assert(alignof(struct insn) <= ALIGNMENT && alignof(struct param) <= ALIGNMENT &&
                  sizeof(struct arena_chunk) % ALIGNMENT == 0 &&
                  sizeof(ptx_builder) % ALIGNMENT == 0,
              "the arena aligns to ALIGNMENT");

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
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((size_t)(b->arena_end - b->arena) < bytes) {
        const size_t least = sizeof(struct arena_chunk) + bytes;
        const size_t size = least < CHUNK_BYTES ? CHUNK_BYTES : least;
        struct arena_chunk *chunk = ptxb_resize(b, NULL, 0, size);
        if (!chunk)
            return NULL;
        *chunk = (struct arena_chunk) { b->chunks, size };
        b->chunks = chunk;
        b->arena = (char *)(chunk + 1);
        b->arena_end = (char *)chunk + size;
    }
    void *memory = b->arena;
    b->arena += bytes;
    return memory;
}

// What a small kernel needs.
static uint32_t first_capacity(size_t size)
{
    return (uint32_t)(512 / size);
}

bool ptxb_set_capacity(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t wanted)
{
    const bool in_arena = *capacity <= first_capacity(size);
    void *moved = in_arena ? ptxb_resize(b, NULL, 0, wanted * size)
                           : ptxb_resize(b, *at, *capacity * size, wanted * size);

    if (!moved)
        return false;
    if (in_arena && *capacity)
        memcpy(moved, *at, *capacity * size);
    *at = moved;
    *capacity = wanted;
    return true;
}

bool ptxb_grow(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t least,
               uint32_t most)
{
    const uint32_t first = first_capacity(size);
    const uint32_t usual = !*capacity                  ? first
                           : *capacity * size <= 20480 ? *capacity * 2
                                                       : *capacity + *capacity / 4;
    const uint32_t larger = usual < least ? least : usual < most ? usual : most;

    if (least > most) {
        ptxb_fail(b, NULL,
                  "the module is too large: it has more than %u values, labels or the like", most);
        return false;
    }
    if (*capacity || larger > first)
        return ptxb_set_capacity(b, at, capacity, size, larger);
    *at = ptxb_alloc(b, larger * size);
    *capacity = *at ? larger : 0;
    return *at;
}

static void release(ptx_builder *b, void *memory, uint32_t capacity, size_t size)
{
    if (capacity > first_capacity(size))
        ptxb_resize(b, memory, capacity * size, 0);
}

void ptxb_release(ptx_builder *b)
{
    for (uint32_t e = 0; e < b->entries.count; e++)
        release(b, b->entries.at[e].params.at, b->entries.at[e].params.capacity,
                sizeof(struct param));
    release(b, b->regs.at, b->regs.capacity, sizeof *b->regs.at);
    release(b, b->open.at, b->open.capacity, sizeof *b->open.at);
    release(b, b->opcodes.at, b->opcodes.capacity, sizeof *b->opcodes.at);
    release(b, b->extras.at, b->extras.capacity, sizeof *b->extras.at);
    for (int k = 0; k < 2; k++)
        release(b, b->code[k].at, b->code[k].capacity, sizeof *b->code[k].at);
    release(b, b->labels.at, b->labels.capacity, sizeof *b->labels.at);
    release(b, b->symbols.at, b->symbols.capacity, sizeof *b->symbols.at);
    release(b, b->entries.at, b->entries.capacity, sizeof *b->entries.at);
    release(b, b->blocks.at, b->blocks.capacity, sizeof *b->blocks.at);
    if (b->text.at)
        ptxb_resize(b, b->text.at, b->text.capacity, 0);
    while (b->chunks) {
        struct arena_chunk *next = b->chunks->next;
        ptxb_resize(b, b->chunks, b->chunks->bytes, 0);
        b->chunks = next;
    }
}

const char *ptxb_join(ptx_builder *b, ...)
{
    char usual[96];
    size_t length = 0;
    va_list parts, again;
    const char *part;

    va_start(parts, b);
    va_copy(again, parts);
    while ((part = va_arg(parts, const char *)))
        for (; *part; part++, length++) // mostly of a few characters
            if (length < sizeof usual)
                usual[length] = *part;
    va_end(parts);
    char *text = ptxb_alloc(b, length + 1);
    char *end = text;
    if (text && length <= sizeof usual)
        memcpy(text, usual, length);
    else
        while (end && (part = va_arg(again, const char *)))
            end = ptxb_write(end, part);
    va_end(again);
    if (text)
        text[length] = 0;
    return text;
}

char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
{
    char usual[256];
    va_list again;

    va_copy(again, args);
    const int length = vsnprintf(usual, sizeof usual, format, again);
    va_end(again);
    if (length < 0) {
        ptxb_fail(b, call, "the C library cannot write '%.64s' with these arguments", format);
        return NULL;
    }
    char *text = ptxb_alloc(b, (size_t)length + 1);
    if (text && (size_t)length < sizeof usual)
        memcpy(text, usual, (size_t)length + 1);
    else if (text)
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

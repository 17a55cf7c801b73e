// SPDX-License-Identifier: MIT
#include "clip/copy.h"

#include <string.h>

enum { BLOCK = 32 << 20 };

ptx_status clip_copier_open(struct clip_copier *copier)
{
    copier->block = copier->largest < BLOCK ? (size_t)copier->largest : BLOCK;
    for (size_t k = 0; k < 2 && copier->block > 0; k++) {
        copier->memory[k] = ptx_host_alloc(copier->device, copier->block);
        copier->passed[k] = copier->memory[k] ? ptx_event_create(copier->device) : NULL;
        if (!copier->passed[k])
            return ptx_error_status();
    }
    return PTX_OK;
}

void clip_copier_close(struct clip_copier *copier)
{
    for (size_t k = 0; k < 2; k++) {
        ptx_event_destroy(copier->device, &copier->passed[k]);
        ptx_host_free(copier->device, &copier->memory[k]);
    }
}

/// The part of a piece that is in one block of the window's memory.
struct part {
    const struct clip_piece *piece;
    uint64_t from;     ///< offset in the piece, in bytes
    uint64_t bytes;    ///< 0: no part of the piece is in the block
    size_t into_block; ///< offset in the block, in bytes
};

static struct part part_of(const struct clip_piece *piece, uint64_t begin, uint64_t end)
{
    uint64_t from = piece->offset > begin ? piece->offset : begin;
    uint64_t to = piece->offset + piece->bytes < end ? piece->offset + piece->bytes : end;
    if (from >= to)
        return (struct part) { .piece = piece };
    return (struct part) { piece, from - piece->offset, to - from, (size_t)(from - begin) };
}

/// Calls `visit` for the parts of a window that are in a block, in order. `*next` is the first
/// piece of the window that may be in the block; it is advanced for the next block.
static void for_parts(struct clip_copier *copier, const struct clip_window *window, size_t *next,
                      uint64_t begin, uint64_t end, char *block,
                      void (*visit)(struct clip_copier *copier, const struct part *part,
                                    char *block))
{
    const struct clip_piece *pieces = window->pieces;
    for (; *next < window->count && pieces[*next].offset < end; ++*next) {
        struct part part = part_of(&pieces[*next], begin, end);
        if (part.bytes > 0)
            visit(copier, &part, block);
        if (pieces[*next].offset + pieces[*next].bytes > end)
            return;
    }
}

static const char *place_in_file(const struct clip_copier *copier, const struct clip_piece *piece)
{
    const struct tensor *tensor = copier->job->tensors[piece->tensor];
    return (const char *)tensor->data + piece->first * tensor->dtype->bytes;
}

static void read_part(struct clip_copier *copier, const struct part *part, char *block)
{
    memcpy(block + part->into_block, place_in_file(copier, part->piece) + part->from,
           (size_t)part->bytes);
    progress_add(copier->progress, part->bytes);
}

ptx_status clip_copier_upload(struct clip_copier *copier, const struct clip_window *window)
{
    ptx_status status = PTX_OK;
    unsigned turn = 0;
    size_t next = 0;
    for (uint64_t begin = 0; begin < window->bytes && status == PTX_OK; turn ^= 1) {
        uint64_t left = window->bytes - begin;
        size_t bytes = left < copier->block ? (size_t)left : copier->block;
        // An event that was never recorded counts as complete.
        status = ptx_event_synchronize(copier->device, copier->passed[turn]);
        if (status != PTX_OK)
            break;
        for_parts(copier, window, &next, begin, begin + bytes, copier->memory[turn], read_part);
        status = ptx_buffer_upload(copier->buffer, (size_t)begin, copier->memory[turn], bytes,
                                   copier->stream);
        if (status == PTX_OK)
            status = ptx_event_record(copier->device, copier->passed[turn], copier->stream);
        begin += bytes;
    }
    return status;
}

/// Writes the tensors before `end` that are in no window: those of other types, and empty ones.
static void copy_through(struct clip_copier *copier, size_t end)
{
    for (; copier->next_written < end; copier->next_written++) {
        const struct tensor *tensor = copier->job->tensors[copier->next_written];
        if (copier->job->group_of[copier->next_written] != CLIP_NO_GROUP)
            continue;
        clip_outputs_write(copier->outputs, copier->next_written, tensor->data,
                           (size_t)tensor->bytes);
        progress_add(copier->progress, tensor->bytes);
    }
}

static void write_part(struct clip_copier *copier, const struct part *part, char *block)
{
    copy_through(copier, part->piece->tensor);
    clip_outputs_write(copier->outputs, part->piece->tensor, block + part->into_block,
                       (size_t)part->bytes);
    progress_add(copier->progress, part->bytes);
}

/// Puts the copy of the block that begins at this offset on the stream.
static ptx_status begin_download(struct clip_copier *copier, const struct clip_window *window,
                                 uint64_t begin, unsigned turn)
{
    uint64_t left = window->bytes - begin;
    size_t bytes = left < copier->block ? (size_t)left : copier->block;
    ptx_status status = ptx_buffer_download(copier->buffer, (size_t)begin, copier->memory[turn],
                                            bytes, copier->stream);
    if (status == PTX_OK)
        status = ptx_event_record(copier->device, copier->passed[turn], copier->stream);
    return status;
}

ptx_status clip_copier_download(struct clip_copier *copier, const struct clip_window *window)
{
    unsigned turn = 0;
    size_t next = 0;
    ptx_status status = PTX_OK;
    if (window->bytes > 0)
        status = begin_download(copier, window, 0, turn);
    for (uint64_t begin = 0; begin < window->bytes && status == PTX_OK; turn ^= 1) {
        uint64_t end = begin + copier->block;
        if (end < window->bytes)
            status = begin_download(copier, window, end, turn ^ 1);
        if (status == PTX_OK)
            status = ptx_event_synchronize(copier->device, copier->passed[turn]);
        if (status == PTX_OK)
            for_parts(copier, window, &next, begin, end, copier->memory[turn], write_part);
        begin = end;
    }
    return status;
}

void clip_copier_finish(struct clip_copier *copier)
{
    copy_through(copier, copier->job->count);
}

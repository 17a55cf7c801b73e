// SPDX-License-Identifier: MIT
#include "clip/window.h"

#include <stdlib.h>

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + CLIP_ALIGNMENT - 1) / CLIP_ALIGNMENT * CLIP_ALIGNMENT;
}

struct ptx_clip_tensor *clip_plan_params(const struct clip_job *job, struct ptx_clip_params *params)
{
    struct ptx_clip_tensor *tensors = calloc(job->count + 1, sizeof(*tensors));
    if (!tensors)
        return NULL;
    for (size_t k = 0; k < job->count; k++) {
        tensors[k].dtype = PTX_F32;
        if (job->group_of[k] == CLIP_NO_GROUP)
            continue;
        tensors[k].dtype = job->tensors[k]->dtype->type;
        tensors[k].count = job->tensors[k]->count;
        tensors[k].group = job->group_of[k];
    }
    *params = (struct ptx_clip_params) {
        .tensors = tensors,
        .tensor_count = job->count,
        .group_count = job->group_count,
        .eps = job->eps,
        .nonfinite =
            job->nonfinite == CLIP_ERROR ? PTX_NONFINITE_PROPAGATE : (ptx_nonfinite)job->nonfinite,
        .loss_scale = job->loss_scale,
    };
    return tensors;
}

/// Makes room for one more element of an array that grows by doubling; false: out of memory.
static bool grow(void **array, size_t count, size_t size)
{
    if (count & (count - 1))
        return true;
    void *larger = realloc(*array, (count ? 2 * count : 1) * size);
    if (larger)
        *array = larger;
    return larger != NULL;
}

static bool add_window(struct clip_windows *w)
{
    void *windows = w->windows;
    bool grown = grow(&windows, w->count, sizeof(*w->windows));
    w->windows = windows;
    if (grown)
        w->windows[w->count++] = (struct clip_window) { 0 };
    return grown;
}

static bool add_piece(struct clip_windows *w, struct clip_piece piece)
{
    void *pieces = w->pieces;
    bool grown = grow(&pieces, w->piece_count, sizeof(*w->pieces));
    w->pieces = pieces;
    if (!grown)
        return false;
    struct clip_window *window = &w->windows[w->count - 1];
    piece.offset = window->bytes;
    window->bytes += aligned(piece.bytes);
    window->count++;
    w->pieces[w->piece_count++] = piece;
    if (window->bytes > w->largest)
        w->largest = window->bytes;
    return true;
}

/// How many of `left` elements fit in `room` bytes, in whole chunks, except at the end of the
/// tensor.
static uint64_t fitting(uint64_t left, unsigned bytes, uint32_t chunk, uint64_t room)
{
    room = room / CLIP_ALIGNMENT * CLIP_ALIGNMENT;
    return room / bytes >= left ? left : room / bytes / chunk * chunk;
}

static bool cut_tensor(struct clip_windows *w, const struct clip_job *job, size_t k, uint32_t chunk,
                       uint64_t memory)
{
    const struct tensor *tensor = job->tensors[k];
    for (uint64_t first = 0; first < tensor->count;) {
        uint64_t room = memory - w->windows[w->count - 1].bytes;
        uint64_t count = fitting(tensor->count - first, tensor->dtype->bytes, chunk, room);
        struct clip_piece piece = {
            .tensor = k, .first = first, .count = count, .bytes = count * tensor->dtype->bytes
        };
        first += count;
        if (count > 0 ? !add_piece(w, piece) : !add_window(w))
            return false;
    }
    return true;
}

/// The memory of the largest chunk of one tensor, in bytes.
static uint64_t least_memory(const struct clip_job *job, uint32_t chunk)
{
    uint64_t least = 0;
    for (size_t k = 0; k < job->count; k++) {
        const struct tensor *tensor = job->tensors[k];
        uint64_t count = tensor->count < chunk ? tensor->count : chunk;
        uint64_t bytes = aligned(count * tensor->dtype->bytes);
        if (job->group_of[k] != CLIP_NO_GROUP && bytes > least)
            least = bytes;
    }
    return least;
}

/// The tensors to clip that are not empty, by groups or in the order of the output; *count is their
/// number. NULL: out of memory.
static size_t *sorted(const struct clip_job *job, bool by_group, size_t *count)
{
    uint32_t groups = by_group ? job->group_count : 1;
    size_t *tensors = calloc(job->count + 1, sizeof(*tensors));
    size_t *next = calloc((size_t)groups + 1, sizeof(*next));
    *count = 0;
    for (int pass = 0; tensors && next && pass < 2; pass++) {
        for (size_t k = 0; k < job->count; k++) {
            uint32_t group = job->group_of[k];
            if (group == CLIP_NO_GROUP || job->tensors[k]->count == 0)
                continue;
            if (pass == 0)
                next[(by_group ? group : 0) + 1]++;
            else
                tensors[next[by_group ? group : 0]++] = k;
        }
        for (uint32_t g = 0; pass == 0 && g < groups; g++)
            *count = next[g + 1] += next[g];
    }
    if (!next) {
        free(tensors);
        tensors = NULL;
    }
    free(next);
    return tensors;
}

/// The memory of the tensors that share a chunk with the first one; 0 if there are none.
static uint64_t shared_memory(const struct clip_job *job, const uint64_t *chunk_of,
                              const size_t *tensors, size_t count)
{
    uint64_t bytes = 0;
    size_t k = 0;
    for (; k < count && chunk_of[tensors[k]] == chunk_of[tensors[0]]; k++)
        bytes += aligned(job->tensors[tensors[k]]->bytes);
    return k > 1 ? bytes : 0;
}

static bool cut_all(struct clip_windows *w, const struct clip_job *job, const uint64_t *chunk_of,
                    uint32_t chunk, uint64_t memory, uint64_t *least)
{
    size_t count;
    size_t *tensors = sorted(job, chunk_of != NULL, &count);
    bool whole = tensors && add_window(w);
    for (size_t k = 0; whole && k < count; k++) {
        uint64_t bytes = 0;
        if (chunk_of && (k == 0 || chunk_of[tensors[k]] != chunk_of[tensors[k - 1]]))
            bytes = shared_memory(job, chunk_of, tensors + k, count - k);
        if (bytes > memory) {
            *least = bytes > *least ? bytes : *least;
            continue;
        }
        if (bytes > memory - w->windows[w->count - 1].bytes)
            whole = add_window(w);
        if (whole)
            whole = cut_tensor(w, job, tensors[k], chunk, memory);
    }
    free(tensors);
    return whole && *least == 0;
}

bool clip_windows_cut(struct clip_windows *windows, const struct clip_job *job,
                      const uint64_t *chunk_of, uint32_t chunk, uint64_t memory, uint64_t *least)
{
    *windows = (struct clip_windows) { 0 };
    *least = least_memory(job, chunk);
    if (memory < *least)
        return false;
    *least = 0;
    if (!cut_all(windows, job, chunk_of, chunk, memory, least)) {
        clip_windows_release(windows);
        return false;
    }
    // The array of pieces does not move any more.
    const struct clip_piece *pieces = windows->pieces;
    for (size_t k = 0; k < windows->count; k++) {
        windows->windows[k].pieces = pieces;
        pieces += windows->windows[k].count;
    }
    return true;
}

void clip_windows_release(struct clip_windows *windows)
{
    free(windows->pieces);
    free(windows->windows);
    *windows = (struct clip_windows) { 0 };
}

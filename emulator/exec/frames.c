// SPDX-License-Identifier: MIT
// The registers of a warp: a frame for each depth of calls, which grow when calls need them.
#include "exec/base/room.h"
#include "warps.h"

#include <stdlib.h>

uint64_t emu_depth_bytes(const struct emu_exec *exec)
{
    return exec->program->depth_bytes +
           sizeof(uint32_t) * (uint64_t)exec->program->depth_registers +
           sizeof(struct emu_return) * EMU_LANES;
}

// Frames of all depths of calls except the first, which every block has.
uint64_t emu_bytes_of_calls(const struct emu_warp *warp, uint32_t depths)
{
    return depths ? (depths - UINT64_C(1)) * emu_depth_bytes(warp->block->exec) : 0;
}

static bool allowed(const struct emu_warp *warp, uint32_t depths)
{
    atomic_uint_fast64_t *total = &warp->block->exec->frame_bytes;
    uint64_t more = emu_bytes_of_calls(warp, depths) - emu_bytes_of_calls(warp, warp->frame_depths);
    if (atomic_fetch_add(total, more) + more <= warp->block->exec->host_memory)
        return true;
    atomic_fetch_sub(total, more);
    return false;
}

static bool grow_undefined(struct emu_warp *warp, uint32_t depths)
{
    size_t registers = warp->block->exec->program->depth_registers;
    if (!warp->undefined)
        return true;
    struct emu_undefined_lanes **more = calloc(depths * registers, sizeof(*more));
    if (!more)
        return false;
    memcpy(more, warp->undefined, warp->frame_depths * registers * sizeof(*more));
    free(warp->undefined);
    warp->undefined = more;
    return true;
}

static bool grow_to(struct emu_warp *warp, uint32_t depths)
{
    const struct emu_program *program = warp->block->exec->program;
    if (!allowed(warp, depths))
        return false;
    size_t registers = (size_t)depths * program->depth_registers * sizeof(uint32_t);
    unsigned char *frames = emu_zeros((size_t)depths * program->depth_bytes);
    uint32_t *init = warp->block->exec->sanitize ? emu_zeros(registers) : NULL;
    struct emu_return *returns = emu_zeros((size_t)depths * EMU_LANES * sizeof(*returns));
    if (!frames || !returns || (warp->block->exec->sanitize && !init) ||
        !grow_undefined(warp, depths)) {
        emu_room_free(frames);
        emu_room_free(init);
        emu_room_free(returns);
        atomic_fetch_sub(&warp->block->exec->frame_bytes,
                         emu_bytes_of_calls(warp, depths) -
                             emu_bytes_of_calls(warp, warp->frame_depths));
        return false;
    }
    if (warp->frame_depths) {
        memcpy(frames, warp->frames, (size_t)warp->frame_depths * program->depth_bytes);
        memcpy(returns, warp->returns, (size_t)warp->frame_depths * EMU_LANES * sizeof(*returns));
        if (init)
            memcpy(init, warp->init,
                   (size_t)warp->frame_depths * program->depth_registers * sizeof(*init));
    }
    emu_room_free(warp->frames);
    emu_room_free(warp->init);
    emu_room_free(warp->returns);
    warp->frames = frames;
    warp->init = init;
    warp->returns = returns;
    warp->frame_depths = depths;
    return true;
}

// Doubles the depth if the host has the memory, because growing moves all frames.
bool emu_warp_grow(struct emu_warp *warp, uint32_t depth)
{
    uint32_t needed = depth + 1, had = warp->frame_depths;
    uint32_t ample = 2 * had < EMU_MAX_DEPTH ? 2 * had : EMU_MAX_DEPTH;
    if (needed <= had || (ample > needed && grow_to(warp, ample)))
        return true;
    return grow_to(warp, needed);
}

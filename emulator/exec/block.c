// SPDX-License-Identifier: MIT
// A block: its warps, their registers, its shared memory. A worker makes one and reuses it for each
// of its blocks.
#include "exec/async/async.h"
#include "exec/base/room.h"
#include "exec/check/race.h"
#include "exec/check/undefined.h"
#include "warps.h"

#include <stdlib.h>

enum { TURN = 2048 }; // instructions that a warp runs before the next one

static bool make_warp(struct emu_block *block, uint32_t index)
{
    struct emu_warp *warp = &block->warps[index];
    uint64_t local = block->exec->local_bytes * EMU_LANES;
    warp->block = block;
    warp->index = index;
    if (!emu_warp_grow(warp, 0))
        return false;
    if (local == 0)
        return true;
    // Pages that are never touched need no memory.
    warp->local = calloc(1, local);
    warp->local_shadow = block->exec->sanitize ? calloc(1, local) : NULL;
    return warp->local && (warp->local_shadow || !block->exec->sanitize);
}

void emu_block_destroy(struct emu_block *block)
{
    if (!block)
        return;
    for (uint32_t w = 0; block->warps && w < block->warp_count; w++) {
        struct emu_warp *warp = &block->warps[w];
        if (warp->frame_depths)
            atomic_fetch_sub(&block->exec->frame_bytes,
                             emu_bytes_of_calls(warp, warp->frame_depths));
        emu_undefined_clear(warp);
        if (warp->local_shadow)
            emu_shadow_forget(block->exec->shadows, warp->local_shadow,
                              block->exec->local_bytes * EMU_LANES);
        emu_room_free(warp->frames);
        emu_room_free(warp->init);
        emu_room_free(warp->returns);
        free(warp->copies.at);
        free(warp->local);
        free(warp->local_shadow);
    }
    free(block->warps);
    if (block->shared_shadow)
        emu_shadow_forget(block->exec->shadows, block->shared_shadow, block->exec->shared_bytes);
    emu_room_free(block->shared);
    emu_room_free(block->shared_shadow);
    emu_race_destroy(block->race);
    free(block->mbarriers);
    free(block->asyncs.at);
    free(block);
}

struct emu_block *emu_block_create(struct emu_worker *worker)
{
    struct emu_exec *exec = worker->exec;
    const uint32_t *size = exec->launch->block;
    struct emu_block *block = calloc(1, sizeof(*block));
    if (!block)
        return NULL;
    block->exec = exec;
    block->worker = worker;
    block->threads = size[0] * size[1] * size[2];
    block->warp_count = (block->threads + EMU_LANES - 1) / EMU_LANES;
    block->warps = calloc(block->warp_count, sizeof(*block->warps));
    bool ok = block->warps != NULL;
    for (uint32_t w = 0; ok && w < block->warp_count; w++)
        ok = make_warp(block, w);
    uint32_t shared = exec->shared_bytes;
    if (ok && shared) {
        block->shared = emu_zeros(shared);
        block->shared_shadow = exec->sanitize ? emu_zeros(shared) : NULL;
        block->race = exec->sanitize ? emu_race_create(worker, block->warp_count) : NULL;
        ok = block->shared && (!exec->sanitize || (block->shared_shadow && block->race));
    }
    if (ok)
        return block;
    emu_block_destroy(block);
    return NULL;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void emu_block_start(struct emu_block *block, uint64_t linear)
{
    const struct emu_exec *exec = block->exec;
    const uint32_t *grid = exec->launch->grid;
    uint32_t shared = exec->shared_bytes;
    block->linear = linear;
    block->id[0] = (uint32_t)(linear % grid[0]);
    block->id[1] = (uint32_t)(linear / grid[0] % grid[1]);
    block->id[2] = (uint32_t)(linear / grid[0] / grid[1]);
    block->live_warps = block->warp_count;
    block->exited = block->next_warp = 0;
    block->random = exec->config->seed ^ linear * UINT64_C(0xd1342543de82ef95);
    memset(block->barriers, 0, sizeof(block->barriers));
    block->mbarrier_count = block->asyncs.count = 0;
    block->polling = block->waited = block->stuck = 0;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        uint32_t rest = block->threads - w * EMU_LANES;
        struct emu_warp *warp = &block->warps[w];
        emu_warp_start(warp, rest >= EMU_LANES ? UINT32_MAX : (1u << rest) - 1);
        if (warp->local_shadow && block->used)
            memset(warp->local_shadow, 0, exec->local_bytes * EMU_LANES);
    }
    // The initial contents of shared memory are arbitrary; a seed changes them.
    if (shared)
        memset(block->shared, (int)(random_next(&block->random) & (exec->config->seed ? 255 : 0)),
               shared);
    if (block->shared_shadow && block->used)
        memset(block->shared_shadow, 0, shared);
    block->shared_defined = false;
    block->shared_checked = 0;
    if (block->race)
        emu_race_start(block->race);
    block->used = true;
}

// Runs warps by turns, in order or in the order of the seed. With a seed most turns are long, so
// that a warp runs far ahead of the others, and some are short, so that it stops anywhere.
static uint32_t next_warp(struct emu_block *block, int32_t *turn)
{
    *turn = TURN;
    if (block->exec->config->seed == 0)
        return block->next_warp++ % block->warp_count;
    uint64_t random = random_next(&block->random);
    if ((random >> 32 & 3) == 0)
        *turn = 1 + (int32_t)(random >> 34 & 63);
    return (uint32_t)(random & UINT32_MAX) % block->warp_count;
}

static bool can_run(const struct emu_warp *warp)
{
    return (warp->live & ~warp->waiting) != 0;
}

bool emu_block_run(struct emu_block *block, int64_t budget, int64_t *spent)
{
    struct emu_exec *exec = block->exec;
    *spent = 0;
    while (block->live_warps && *spent < budget) {
        int32_t turn;
        uint32_t w = next_warp(block, &turn);
        uint32_t tried = 0;
        while (tried < block->warp_count && !can_run(&block->warps[w])) {
            w = (w + 1) % block->warp_count;
            tried++;
        }
        if (tried == block->warp_count && emu_mbarrier_stuck(block))
            continue;
        if (tried == block->warp_count) {
            emu_fault_deadlock(block);
            return false;
        }
        if (exec->config->seed == 0)
            block->next_warp = w + 1;
        struct emu_warp *warp = &block->warps[w];
        emu_warp_run(warp, turn);
        *spent += turn - warp->budget;
        emu_mbarrier_turn(block);
        if (atomic_load_explicit(&exec->stop, memory_order_relaxed))
            return false;
    }
    return block->live_warps == 0;
}

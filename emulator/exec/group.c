// SPDX-License-Identifier: MIT
// A warp: lanes with a program counter each, run in groups that share one.
//
// The group with the deepest call, and among these the lowest pc, runs first, so that lanes meet
// again where their paths join. A group that has kept others waiting for long yields to the one
// that has waited longest, because a lane may spin until another lane of its warp has done
// something.
#include "exec/async/async.h"
#include "exec/check/undefined.h"
#include "step.h"
#include "warps.h"

#include <stdlib.h>

enum { PATIENCE = 4096 };

void emu_warp_start(struct emu_warp *warp, uint32_t exists)
{
    const struct emu_program *program = warp->block->exec->program;
    warp->exists = warp->live = exists;
    warp->waiting = warp->active = warp->carry = warp->carry_undefined = 0;
    warp->whole = false;
    warp->patience = PATIENCE;
    warp->stamp = 0;
    warp->copies.count = 0;
    warp->copy_order = 0;
    warp->impatient = 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        warp->lane_pc[i] = warp->lane_depth[i] = 0;
        warp->lane_code[i] = program->entry;
        warp->exit_line[i] = 0;
        warp->lane_served[i] = 0;
        warp->wait[i] = EMU_WAIT_NONE;
        warp->local_base[i] = 0;
        warp->stack_top[i] = warp->block->exec->local_bytes;
        warp->copy_batch[i] = 0;
        warp->bulk_batch[i] = 0;
    }
    if (warp->init)
        memset(warp->init, 0, sizeof(uint32_t) * program->depth_registers);
    warp->depended = 0;
    emu_undefined_clear(warp);
}

static uint64_t key_of(const struct emu_warp *warp, unsigned lane)
{
    return (uint64_t)(EMU_MAX_DEPTH - warp->lane_depth[lane]) << 56 |
           (uint64_t)(warp->lane_code[lane] & 0xffffff) << 32 | warp->lane_pc[lane];
}

static unsigned longest_waiting(const struct emu_warp *warp, uint32_t lanes)
{
    unsigned oldest = emu_first(lanes);
    for (; lanes; lanes &= lanes - 1)
        if (warp->lane_served[emu_first(lanes)] < warp->lane_served[oldest])
            oldest = emu_first(lanes);
    return oldest;
}

void emu_group_put_back(struct emu_warp *warp)
{
    emu_set_lanes(warp->lane_pc, warp->pc, warp->active);
}

struct choice {
    uint32_t lanes;
    uint32_t limit; // pc of the next group, if it is in the same function
};

// Without calls, the key of a lane is its pc.
static struct choice lowest_pc(const struct emu_warp *warp, uint32_t lanes)
{
    uint32_t keys[EMU_LANES], chosen = UINT32_MAX;
    struct choice choice = { 0, UINT32_MAX };
    for (unsigned i = 0; i < EMU_LANES; i++) {
        keys[i] = warp->lane_pc[i] | ((lanes & emu_bit_of_lane[i]) == 0 ? UINT32_MAX : 0);
        chosen = keys[i] < chosen ? keys[i] : chosen;
    }
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t after = keys[i] == chosen ? UINT32_MAX : keys[i];
        choice.lanes |= keys[i] == chosen ? emu_bit_of_lane[i] : 0;
        choice.limit = after < choice.limit ? after : choice.limit;
    }
    return choice;
}

static struct choice lowest_key(const struct emu_warp *warp, uint32_t lanes, bool oldest)
{
    uint64_t keys[EMU_LANES], chosen = UINT64_MAX, next = UINT64_MAX;
    struct choice choice = { 0, UINT32_MAX };
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        keys[i] = key_of(warp, i);
        chosen = keys[i] < chosen ? keys[i] : chosen;
    }
    if (oldest)
        chosen = keys[longest_waiting(warp, lanes)];
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        if (keys[i] == chosen)
            choice.lanes |= 1u << i;
        else if (keys[i] > chosen && keys[i] < next)
            next = keys[i];
    }
    if (next >> 32 == chosen >> 32)
        choice.limit = (uint32_t)next;
    return choice;
}

static struct choice choose(struct emu_warp *warp, uint32_t lanes)
{
    bool oldest = warp->patience <= 0;
    if (oldest)
        warp->patience = PATIENCE;
    return oldest || warp->block->exec->program->calls ? lowest_key(warp, lanes, oldest)
                                                       : lowest_pc(warp, lanes);
}

// Chooses the next group among the lanes that can run.
void emu_group_pick(struct emu_warp *warp)
{
    uint32_t lanes = warp->live & ~warp->waiting;
    if (warp->whole && lanes == warp->active) {
        warp->leave = false;
        warp->left = warp->budget;
        return;
    }
    if (warp->whole)
        emu_group_put_back(warp);
    struct choice choice = choose(warp, lanes);
    unsigned first = emu_first(choice.lanes);
    warp->active = choice.lanes;
    warp->pc = warp->lane_pc[first];
    warp->code = warp->lane_code[first];
    warp->depth = warp->lane_depth[first];
    warp->alone = choice.lanes == lanes;
    warp->leave = false;
    warp->limit = choice.limit;
    warp->left = warp->alone || warp->patience > warp->budget ? warp->budget : warp->patience;
    if (warp->alone)
        return;
    if (++warp->stamp == 0) // the stamps wrap: restart all
        memset(warp->lane_served, 0, sizeof(warp->lane_served));
    emu_set_lanes(warp->lane_served, warp->stamp, choice.lanes);
}

void emu_warp_exit(struct emu_warp *warp, uint32_t lanes, uint32_t line)
{
    struct emu_block *block = warp->block;
    if (!emu_copy_finish(warp, lanes) || !emu_bulk_exit(warp, lanes))
        return;
    for (uint32_t m = lanes; m; m &= m - 1)
        warp->exit_line[emu_first(m)] = line;
    block->exited += emu_count(lanes);
    warp->live &= ~lanes;
    warp->active &= ~lanes;
    if (warp->live == 0)
        block->live_warps--;
    else if (warp->waiting && !emu_warp_sync_check(warp))
        return;
    for (unsigned id = 0; id < EMU_BARRIERS; id++)
        if (block->barriers[id].busy && !emu_barrier_check(block, id))
            return;
}

// SPDX-License-Identifier: MIT
// Inside the check for races: records, and the list of reads. See race.c.
#ifndef PTXGEN_EMULATOR_EXEC_CHECK_RACE_H
#define PTXGEN_EMULATOR_EXEC_CHECK_RACE_H

#include "exec/base/state.h"

// Races in shared memory: see race.c. These do nothing if the sanitizers are off.
struct emu_race *emu_race_create(struct emu_worker *worker, uint32_t warps);
void emu_race_destroy(struct emu_race *race);
void emu_race_start(struct emu_race *race);
// One lane. `same`: a store of the value that memory already has.
bool emu_race_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool same);
// All lanes of the mask, each `away` from the offset `first`. False, with nothing reported, if the
// lanes need the check above one by one.
bool emu_race_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask, uint32_t first,
                    const int32_t *away, uint32_t bytes, enum emu_use use);
void emu_race_atomic(struct emu_warp *warp, const struct emu_op *op);
void emu_race_fence(struct emu_warp *warp);
// A wait for a phase of an mbarrier has ended.
void emu_race_phase(struct emu_warp *warp, const struct emu_op *op);
// An asynchronous copy by a lane is under way and writes shared memory: every access to its bytes
// races with it. Or it reads shared memory (EMU_USE_LOAD): every write does. Or it has ended.
void emu_race_flight(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool flying);
// What the warp has copied so far is ordered before what follows the wait for it.
void emu_race_landed(struct emu_warp *warp);
void emu_race_warp(struct emu_warp *warp, uint32_t lanes);
void emu_race_arrive(struct emu_warp *warp, unsigned barrier);
void emu_race_barrier_done(struct emu_block *block, unsigned barrier, bool whole_block);

struct record {
    uint64_t stamp; // 0: none. thread + 1, strong, epoch, tick: see make()
    uint32_t line;
};

struct cell {
    struct record write, read[2];
};

struct clocks {
    uint32_t tick;
    uint32_t full;                        // tick of the last synchronisation of all live lanes
    uint32_t known[EMU_MAX_WARPS];        // accesses of that warp before this tick are ordered
    uint32_t fenced[EMU_MAX_WARPS];       // `known` at the last fence
    uint32_t pending[EMU_MAX_WARPS];      // ticks that the next fence adds
    uint32_t lanes[EMU_LANES][EMU_LANES]; // the same between lanes
};

// The reads of the lanes of a warp by one instruction. 4096 of them are more than the reads between
// two barriers of a block of 1024 threads that multiplies tiles of 32 x 32.
struct reads {
    uint64_t stamp; // of the warp's first thread
    uint32_t line, mask, first, bytes;
    int32_t away[EMU_LANES]; // from `first`, an offset in shared memory
};

enum { MOST_READS = 4096 };

// The list of a worker, for one block at a time.
struct emu_reads {
    struct emu_race *of; // the block's; NULL: the list is empty
    uint32_t count;
    struct reads reads[MOST_READS];
};

struct emu_race {
    uint32_t grain_shift, cells_used, warps;
    uint32_t epoch;   // counts barriers of the whole block
    uint32_t written; // the epoch of the last write
    struct emu_reads *list;
    struct cell *cells;
    struct clocks *clocks;
    uint32_t published[EMU_MAX_WARPS]; // by synchronising accesses
    uint32_t barriers[EMU_BARRIERS][EMU_MAX_WARPS];
    uint32_t flying; // asynchronous copies that write, under way
};

// IN_FLIGHT is the thread of an asynchronous copy that has not completed; its tick is the thread
// that made it.
enum { EPOCH_BITS = 20, TICK_BITS = 32, IN_FLIGHT = 2046 };

static inline uint64_t emu_race_stamp(uint32_t thread, bool strong, uint32_t epoch, uint32_t tick)
{
    return (uint64_t)(thread + 1) << 53 | (uint64_t)strong << 52 |
           (uint64_t)(epoch & ((1u << EPOCH_BITS) - 1)) << TICK_BITS | tick;
}

// Records the reads of the list in their cells, in order.
void emu_race_settle(struct emu_race *race);

// Whether reads are only put on the list: there is no write that they could race with.
static inline bool emu_race_lists(const struct emu_race *race)
{
    return race->written != race->epoch && !race->flying;
}

// Puts the reads of a warp on the list. Returns where the caller writes how far each lane is from
// the offset `first`.
static inline int32_t *emu_race_list(struct emu_race *race, const struct emu_warp *warp,
                                     const struct emu_op *op, uint32_t mask, uint32_t first,
                                     uint32_t bytes)
{
    struct emu_reads *list = race->list;
    if (list->of != race || list->count == MOST_READS) {
        if (list->of)
            emu_race_settle(list->of);
        list->of = race;
    }
    struct reads *reads = &list->reads[list->count++];
    reads->stamp =
        emu_race_stamp(warp->index * EMU_LANES, false, race->epoch, race->clocks[warp->index].tick);
    reads->line = op->insn->line;
    reads->mask = mask;
    reads->first = first;
    reads->bytes = bytes;
    return reads->away;
}

#endif

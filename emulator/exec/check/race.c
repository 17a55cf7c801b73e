// SPDX-License-Identifier: MIT
// Races in shared memory: two threads of a block access the same bytes, at least one writes, and
// nothing orders the two accesses.
//
// Order comes from barriers of the block, from synchronisation between lanes of one warp (shfl,
// vote, bar.warp.sync and so on order the lanes of their mask), and from fences around atomic,
// volatile, relaxed or stronger accesses. Each warp has a clock that ticks when it synchronises.
// Each warp also knows, for every other warp, the tick before which all accesses are ordered. An
// access is recorded as (thread, tick): the last write of every grain of memory, and its last two
// reads by different threads. A grain is as wide as the narrowest access of the program.
//
// Two stores of the same value do not race: threads may all set one flag, in any order.
//
// A read can only race with a write of the same epoch, that is, between the same two barriers of
// the whole block. While there is no such write, the reads of a warp are only put on a list. A
// write settles them: it records them in their cells, in order. A barrier drops them.
//
// A synchronising access is assumed to order with all others of the block, not only with those of
// the same address. That may hide a race, and never reports a false one.
#include "race.h"
#include "exec/base/room.h"
#include "report.h"

#include <stdlib.h>

static uint32_t thread_of(uint64_t stamp)
{
    return (uint32_t)(stamp >> 53) - 1;
}

static bool is_strong(uint64_t stamp)
{
    return stamp >> 52 & 1;
}

static uint32_t epoch_of(uint64_t stamp)
{
    return (uint32_t)(stamp >> TICK_BITS) & ((1u << EPOCH_BITS) - 1);
}

static void drop_reads(struct emu_race *race)
{
    if (!race->list || race->list->of != race)
        return;
    race->list->of = NULL;
    race->list->count = 0;
}

// Made when it is first needed. NULL if host memory is out.
static struct emu_reads *list_of(struct emu_worker *worker)
{
    struct emu_reads *list = worker->reads;
    if (list)
        return list;
    list = emu_room(sizeof(*list)); // most launches need little of it
    if (list) {
        list->of = NULL;
        list->count = 0;
    }
    return worker->reads = list;
}

struct emu_race *emu_race_create(struct emu_worker *worker, uint32_t warps)
{
    const struct emu_exec *exec = worker->exec;
    struct emu_race *race = calloc(1, sizeof(*race));
    if (!race)
        return NULL;
    while (1u << race->grain_shift < exec->program->race_grain)
        race->grain_shift++;
    race->warps = warps;
    race->cells_used = (exec->shared_bytes >> race->grain_shift) + 1;
    race->cells = emu_room(race->cells_used * sizeof(*race->cells));
    race->clocks = calloc(warps, sizeof(*race->clocks));
    race->list = list_of(worker);
    if (!race->cells || !race->clocks || !race->list) {
        emu_race_destroy(race);
        return NULL;
    }
    return race;
}

void emu_race_destroy(struct emu_race *race)
{
    if (!race)
        return;
    drop_reads(race);
    emu_room_free(race->cells);
    free(race->clocks);
    free(race);
}

void emu_race_start(struct emu_race *race)
{
    memset(race->cells, 0, race->cells_used * sizeof(*race->cells));
    memset(race->clocks, 0, race->warps * sizeof(*race->clocks));
    memset(race->published, 0, sizeof(race->published));
    memset(race->barriers, 0, sizeof(race->barriers));
    race->epoch = 1;
    race->written = race->flying = 0;
    drop_reads(race);
    for (uint32_t w = 0; w < race->warps; w++)
        race->clocks[w].tick = 1;
}

static bool ordered(const struct emu_race *race, const struct emu_warp *warp, unsigned lane,
                    uint64_t stamp)
{
    const struct clocks *mine = &race->clocks[warp->index];
    uint32_t thread = thread_of(stamp), tick = (uint32_t)stamp;
    if (epoch_of(stamp) != (race->epoch & ((1u << EPOCH_BITS) - 1)))
        return true;
    if (thread / EMU_LANES != warp->index)
        return mine->known[thread / EMU_LANES] > tick;
    unsigned other = thread % EMU_LANES;
    return other == lane || mine->full > tick || mine->lanes[lane][other] > tick;
}

static bool conflicts(const struct emu_race *race, const struct emu_warp *warp, unsigned lane,
                      const struct record *record, bool strong)
{
    if (record->stamp && thread_of(record->stamp) == IN_FLIGHT)
        return true;
    return record->stamp && !(strong && is_strong(record->stamp)) &&
           !ordered(race, warp, lane, record->stamp);
}

static bool report(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                   const struct record *other, const char *now, const char *then)
{
    char thread[64], source[EMU_SOURCE];
    emu_beside_line(warp->block->exec->launch->module, other->line, source);
    if (thread_of(other->stamp) == IN_FLIGHT) {
        emu_describe_thread(warp->block, (uint32_t)other->stamp, thread, sizeof(thread));
        return emu_report_finding(warp, op->insn, lane, EMU_FINDING_RACE,
                                  "shared-memory race: this %s at shared offset 0x%x is not after "
                                  "the wait for the asynchronous copy by thread %s at line "
                                  "%u%s, which %ss there",
                                  now, (unsigned)offset, thread, (unsigned)other->line, source,
                                  then);
    }
    emu_describe_thread(warp->block, thread_of(other->stamp), thread, sizeof(thread));
    return emu_report_finding(warp, op->insn, lane, EMU_FINDING_RACE,
                              "shared-memory race: this %s at shared offset 0x%x and the %s by "
                              "thread %s at line %u%s have no barrier between them",
                              now, (unsigned)offset, then, thread, (unsigned)other->line, source);
}

static inline void record_read(struct cell *cell, const struct record *now)
{
    if (cell->read[0].stamp >> 53 != now->stamp >> 53 &&
        thread_of(cell->read[1].stamp) != IN_FLIGHT)
        cell->read[1] = cell->read[0];
    cell->read[0] = *now;
}

void emu_race_settle(struct emu_race *race)
{
    const struct emu_reads *list = race->list;
    for (uint32_t n = 0; list->of == race && n < list->count; n++) {
        const struct reads *reads = &list->reads[n];
        for (uint32_t m = reads->mask; m; m &= m - 1) {
            unsigned i = emu_first(m);
            uint32_t offset = reads->first + (uint32_t)reads->away[i];
            uint32_t k = offset >> race->grain_shift;
            uint32_t last = (offset + reads->bytes - 1) >> race->grain_shift;
            struct record now = { reads->stamp + ((uint64_t)i << 53), reads->line };
            for (; k <= last; k++)
                record_read(&race->cells[k], &now);
        }
    }
    drop_reads(race);
}

bool emu_race_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool same)
{
    struct emu_race *race = warp->block->race;
    uint32_t thread = warp->index * EMU_LANES + lane;
    bool strong = use == EMU_USE_ATOMIC || op->strong;
    struct record now = {
        emu_race_stamp(thread, strong, race->epoch, race->clocks[warp->index].tick), op->insn->line
    };
    uint32_t first = offset >> race->grain_shift, last = (offset + bytes - 1) >> race->grain_shift;
    emu_race_settle(race);
    if (use != EMU_USE_LOAD)
        race->written = race->epoch;
    for (uint32_t k = first; k <= last; k++) {
        struct cell *cell = &race->cells[k];
        const char *verb = use == EMU_USE_LOAD ? "read" : "write";
        if (!same && conflicts(race, warp, lane, &cell->write, strong) &&
            !report(warp, op, lane, k << race->grain_shift, &cell->write, verb, "write"))
            return false;
        if (use == EMU_USE_LOAD) {
            record_read(cell, &now);
            continue;
        }
        for (unsigned r = 0; r < 2; r++)
            if (conflicts(race, warp, lane, &cell->read[r], strong) &&
                !report(warp, op, lane, k << race->grain_shift, &cell->read[r], verb, "read"))
                return false;
        cell->write = now;
    }
    return true;
}

// True if no closer check is needed: no access, one from before the last barrier, or one of the
// same thread.
static inline bool quiet(uint64_t stamp, uint64_t mine)
{
    const uint64_t epoch = (UINT64_C(1) << 52) - (UINT64_C(1) << TICK_BITS);
    return stamp >> 53 == mine >> 53 || stamp == 0 ||
           (((stamp ^ mine) & epoch) != 0 && thread_of(stamp) != IN_FLIGHT);
}

bool emu_race_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask, uint32_t first,
                    const int32_t *away, uint32_t bytes, enum emu_use use)
{
    struct emu_race *race = warp->block->race;
    bool strong = use == EMU_USE_ATOMIC || op->strong;
    struct record now = { 0, op->insn->line };
    if (use == EMU_USE_LOAD && emu_race_lists(race)) {
        memcpy(emu_race_list(race, warp, op, mask, first, bytes), away,
               sizeof(int32_t) * EMU_LANES);
        return true;
    }
    emu_race_settle(race);
    if (use != EMU_USE_LOAD)
        race->written = race->epoch;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint32_t offset = first + (uint32_t)away[i];
        uint32_t k = offset >> race->grain_shift, last = (offset + bytes - 1) >> race->grain_shift;
        now.stamp = emu_race_stamp(warp->index * EMU_LANES + i, strong, race->epoch,
                                   race->clocks[warp->index].tick);
        for (; k <= last; k++) {
            struct cell *cell = &race->cells[k];
            if (!quiet(cell->write.stamp, now.stamp) ||
                (use != EMU_USE_LOAD && (!quiet(cell->read[0].stamp, now.stamp) ||
                                         !quiet(cell->read[1].stamp, now.stamp))))
                break;
            if (use != EMU_USE_LOAD) {
                cell->write = now;
                continue;
            }
            record_read(cell, &now);
        }
        if (k <= last)
            return false;
    }
    return true;
}

static void join(uint32_t *into, const uint32_t *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        into[i] = into[i] > from[i] ? into[i] : from[i];
}

// All accesses of the warp so far are ordered before every thread that learns of this tick.
static void tick(struct clocks *mine)
{
    mine->tick++;
}

void emu_race_atomic(struct emu_warp *warp, const struct emu_op *op)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    struct clocks *mine = &race->clocks[warp->index];
    unsigned order = op->insn->order;
    bool load = op->handler != EMU_DO_STORE, store = op->handler != EMU_DO_LOAD;
    if (load && (order == EMU_ACQUIRE || order == EMU_ACQ_REL || order == EMU_SEQ_CST))
        join(mine->known, race->published, race->warps);
    else if (load)
        join(mine->pending, race->published, race->warps);
    if (store && (order == EMU_RELEASE || order == EMU_ACQ_REL || order == EMU_SEQ_CST)) {
        tick(mine);
        mine->known[warp->index] = mine->tick;
        join(race->published, mine->known, race->warps);
    } else if (store) {
        join(race->published, mine->fenced, race->warps);
    }
}

void emu_race_phase(struct emu_warp *warp, const struct emu_op *op)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    emu_race_atomic(warp, op);
    struct clocks *mine = &race->clocks[warp->index];
    tick(mine);
    mine->full = mine->tick; // the lanes of the warp that arrived at the mbarrier are not known
}

void emu_race_flight(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool flying)
{
    struct emu_race *race = warp->block->race;
    const uint32_t thread = warp->index * EMU_LANES + lane;
    if (!race)
        return;
    emu_race_settle(race);
    if (use != EMU_USE_LOAD) {
        race->written = race->epoch;
        race->flying += flying ? 1 : UINT32_MAX;
    }
    const struct record now = { flying ? emu_race_stamp(IN_FLIGHT, false, race->epoch, thread)
                                       : emu_race_stamp(thread, false, race->epoch,
                                                        race->clocks[warp->index].tick),
                                op->insn->line };
    for (uint32_t k = offset >> race->grain_shift; k <= (offset + bytes - 1) >> race->grain_shift;
         k++) {
        struct cell *cell = &race->cells[k];
        *(use == EMU_USE_LOAD ? &cell->read[1] : &cell->write) = now;
    }
}

void emu_race_landed(struct emu_warp *warp)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    struct clocks *mine = &race->clocks[warp->index];
    tick(mine);
    mine->known[warp->index] = race->published[warp->index] = mine->tick;
}

void emu_race_fence(struct emu_warp *warp)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    struct clocks *mine = &race->clocks[warp->index];
    tick(mine);
    join(mine->known, mine->pending, race->warps);
    mine->known[warp->index] = mine->tick;
    memcpy(mine->fenced, mine->known, sizeof(mine->fenced));
}

void emu_race_warp(struct emu_warp *warp, uint32_t lanes)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    struct clocks *mine = &race->clocks[warp->index];
    tick(mine);
    if (lanes == warp->live) {
        mine->full = mine->tick;
        return;
    }
    uint32_t known[EMU_LANES] = { 0 };
    for (uint32_t m = lanes; m; m &= m - 1) {
        join(known, mine->lanes[emu_first(m)], EMU_LANES);
        known[emu_first(m)] = mine->tick;
    }
    for (uint32_t m = lanes; m; m &= m - 1)
        memcpy(mine->lanes[emu_first(m)], known, sizeof(known));
}

void emu_race_arrive(struct emu_warp *warp, unsigned barrier)
{
    struct emu_race *race = warp->block->race;
    if (!race)
        return;
    struct clocks *mine = &race->clocks[warp->index];
    tick(mine);
    mine->known[warp->index] = mine->tick;
    join(race->barriers[barrier], mine->known, race->warps);
}

void emu_race_barrier_done(struct emu_block *block, unsigned barrier, bool whole_block)
{
    struct emu_race *race = block->race;
    if (!race)
        return;
    if (whole_block) {
        race->epoch++;
        drop_reads(race);
        if ((race->epoch & ((1u << EPOCH_BITS) - 1)) ==
            0) // the epoch wraps: old stamps would look new
            memset(race->cells, 0, race->cells_used * sizeof(*race->cells));
    }
    for (uint32_t w = 0; w < race->warps; w++) {
        if (!block->barriers[barrier].waiting[w])
            continue;
        struct clocks *mine = &race->clocks[w];
        join(mine->known, race->barriers[barrier], race->warps);
        mine->full = mine->tick;
    }
    memset(race->barriers[barrier], 0, sizeof(race->barriers[barrier]));
}

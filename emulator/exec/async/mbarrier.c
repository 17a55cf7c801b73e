// SPDX-License-Identifier: MIT
// mbarrier objects: counts of arrivals and of bytes, and threads that wait for a phase.
//
// A table of the block has the objects, by their offsets in shared memory. Memory has a copy, by
// which a store to an object is found. A wait for a phase that has not completed suspends its
// lanes. They look again when the phase completes, and after some time, or when no other lane can
// run, the wait gives false, as hardware may at any time. If lanes only look again and again, and
// nothing changes, the phase never completes: a deadlock.
#include "async.h"
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_COUNT = (1 << 20) - 1, // of arrivals, and of bytes, above and below 0
    PATIENCE = 256,             // turns of warps until a wait gives false
    MOST_STUCK = 256,           // times that all lanes of the block wait before it is a deadlock
};

// The address of an operand, in shared memory.
struct place {
    struct emu_access access;
    uint32_t offset;
};

static bool locate(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t address,
                   enum emu_use use, struct place *place)
{
    const struct emu_block *block = warp->block;
    if (!emu_lane_access(warp, op, lane, address, 8, EMU_USE_ATOMIC, &place->access))
        return false;
    if (!place->access.shared)
        return emu_fault(warp, op->insn, lane, EMU_ILLEGAL_ADDRESS,
                         "the mbarrier at 0x%llx is not in shared memory",
                         (unsigned long long)address);
    place->offset = (uint32_t)(place->access.host - block->shared);
    return !block->race || emu_race_access(warp, op, lane, place->offset, 8, use, false);
}

static struct emu_mbarrier *find(const struct emu_block *block, uint32_t offset)
{
    for (uint32_t k = 0; k < block->mbarrier_count; k++)
        if (block->mbarriers[k].offset == offset)
            return &block->mbarriers[k];
    return NULL;
}

// What memory has of the object. The layout is the emulator's own.
static uint64_t packed(const struct emu_mbarrier *m)
{
    return (uint64_t)(m->phase & 3) << 62 | (uint64_t)m->expected << 42 |
           (uint64_t)m->pending << 22 | ((uint64_t)m->bytes & 0x3fffff);
}

static void save(struct emu_block *block, const struct emu_mbarrier *m)
{
    const uint64_t word = packed(m);
    memcpy(block->shared + m->offset, &word, sizeof(word));
    if (block->shared_shadow)
        memset(block->shared_shadow + m->offset, EMU_SHADOW_DEFINED, sizeof(word));
    block->stuck = 0;
}

// The object, if it is initialised and as it was left. NULL: reported.
struct emu_mbarrier *emu_mbarrier_object(struct emu_warp *warp, const struct emu_insn *insn,
                                         unsigned lane, uint32_t offset)
{
    struct emu_block *block = warp->block;
    struct emu_mbarrier *m = find(block, offset);
    uint64_t word;
    if (!m) {
        emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED,
                  "the mbarrier at shared offset 0x%x is used, and mbarrier.init has not "
                  "initialised it",
                  (unsigned)offset);
        return NULL;
    }
    memcpy(&word, block->shared + offset, sizeof(word));
    if (word == packed(m))
        return m;
    char source[EMU_SOURCE];
    emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED,
              "the mbarrier at shared offset 0x%x, initialised at line %u%s, was overwritten",
              (unsigned)offset, (unsigned)m->line,
              emu_beside_line(block->exec->launch->module, m->line, source));
    return NULL;
}

// ---- phases -------------------------------------------------------------------------------------

// Lanes that wait look again.
static void wake(struct emu_warp *warp, uint32_t lanes)
{
    emu_set_lanes(warp->wait, EMU_WAIT_NONE, lanes);
    warp->waiting &= ~lanes;
    warp->leave = true;
    warp->block->polling -= emu_count(lanes);
}

static uint32_t waiting_lanes(const struct emu_warp *warp)
{
    uint32_t lanes = 0;
    for (uint32_t m = warp->waiting; m; m &= m - 1)
        if (warp->wait[emu_first(m)] == EMU_WAIT_PHASE)
            lanes |= 1u << emu_first(m);
    return lanes;
}

// Completes the phase if nothing is missing.
static void advance(struct emu_block *block, struct emu_mbarrier *m)
{
    if (m->pending == 0 && m->bytes == 0) {
        m->phase++;
        m->pending = m->expected;
        for (uint32_t w = 0; block->polling && w < block->warp_count; w++) {
            struct emu_warp *warp = &block->warps[w];
            uint32_t lanes = 0;
            for (uint32_t rest = waiting_lanes(warp); rest; rest &= rest - 1)
                if (warp->wait_mask[emu_first(rest)] == m->offset)
                    lanes |= 1u << emu_first(rest);
            if (lanes)
                wake(warp, lanes);
        }
    }
    save(block, m);
}

static bool add_bytes(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                      struct emu_mbarrier *m, int64_t bytes)
{
    m->bytes += bytes;
    if (m->bytes <= MOST_COUNT && m->bytes >= -MOST_COUNT)
        return true;
    return emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED,
                     "wrong transaction count: the mbarrier at shared offset 0x%x would expect "
                     "%lld bytes; the limit is %d",
                     (unsigned)m->offset, (long long)m->bytes, (int)MOST_COUNT);
}

static bool arrive(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                   struct emu_mbarrier *m, uint32_t count)
{
    if (count == 0 || count > m->pending)
        return emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED,
                         "%u arrivals at the mbarrier at shared offset 0x%x, whose phase %u "
                         "expects %u more",
                         (unsigned)count, (unsigned)m->offset, (unsigned)m->phase,
                         (unsigned)m->pending);
    m->pending -= count;
    return true;
}

bool emu_mbarrier_complete(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                           uint32_t offset, uint32_t bytes, uint32_t arrivals)
{
    struct emu_mbarrier *m = emu_mbarrier_object(warp, insn, lane, offset);
    if (!m || !add_bytes(warp, insn, lane, m, -(int64_t)bytes) ||
        (arrivals && !arrive(warp, insn, lane, m, arrivals)))
        return false;
    advance(warp->block, m);
    return true;
}

bool emu_mbarrier_expect(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                         uint32_t offset)
{
    struct emu_mbarrier *m = emu_mbarrier_object(warp, insn, lane, offset);
    if (!m)
        return false;
    if (m->pending == MOST_COUNT)
        return emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED,
                         "too many arrivals at the mbarrier at shared offset 0x%x",
                         (unsigned)offset);
    m->pending++;
    save(warp->block, m);
    return true;
}

bool emu_mbarrier_check(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                        uint64_t address, uint32_t *offset)
{
    struct place place;
    if (!locate(warp, op, lane, address, EMU_USE_ATOMIC, &place))
        return false;
    *offset = place.offset;
    return emu_mbarrier_object(warp, op->insn, lane, place.offset) != NULL;
}

// ---- operations ---------------------------------------------------------------------------------

static bool initialise(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint32_t offset, uint32_t count)
{
    struct emu_block *block = warp->block;
    struct emu_mbarrier *m = find(block, offset);
    if (count == 0 || count > MOST_COUNT)
        return emu_fault(warp, op->insn, lane, EMU_LAUNCH_FAILED,
                         "mbarrier.init with a count of %u: it must be from 1 to %d",
                         (unsigned)count, (int)MOST_COUNT);
    if (!m && block->mbarrier_count == block->mbarrier_room) {
        const uint32_t room = block->mbarrier_room ? 2 * block->mbarrier_room : 16;
        struct emu_mbarrier *more = realloc(block->mbarriers, room * sizeof(*more));
        if (!more)
            return emu_fault_launch(block->exec, EMU_OUT_OF_MEMORY, "no host memory for mbarriers");
        block->mbarriers = more;
        block->mbarrier_room = room;
    }
    if (!m)
        m = &block->mbarriers[block->mbarrier_count++];
    *m = (struct emu_mbarrier) {
        .offset = offset, .expected = count, .pending = count, .line = op->insn->line
    };
    save(block, m);
    return true;
}

static bool invalidate(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint32_t offset)
{
    struct emu_block *block = warp->block;
    struct emu_mbarrier *m = emu_mbarrier_object(warp, op->insn, lane, offset);
    if (!m)
        return false;
    if (block->shared_shadow)
        memset(block->shared_shadow + offset, EMU_SHADOW_NEVER, 8);
    block->shared_defined = false;
    *m = block->mbarriers[--block->mbarrier_count];
    block->stuck = 0;
    return true;
}

static bool is_arrival(unsigned mode)
{
    return mode >= EMU_MODE_ARRIVE_AT && mode <= EMU_MODE_DROP_EXPECT;
}

// Everything but the waits, in one lane. `count` is the count or the bytes that are given. *state
// is the phase and the arrivals that it expected before.
static bool operate(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                    uint32_t count, uint64_t *state)
{
    const unsigned mode = op->insn->mode;
    if (mode == EMU_MODE_INIT)
        return initialise(warp, op, lane, offset, count);
    if (mode == EMU_MODE_INVAL)
        return invalidate(warp, op, lane, offset);
    struct emu_mbarrier *m = emu_mbarrier_object(warp, op->insn, lane, offset);
    if (!m)
        return false;
    *state = (uint64_t)m->phase << 32 | m->pending;
    if (mode == EMU_MODE_EXPECT_TX || mode == EMU_MODE_COMPLETE_TX) {
        if (!add_bytes(warp, op->insn, lane, m,
                       mode == EMU_MODE_EXPECT_TX ? (int64_t)count : -(int64_t)count))
            return false;
        if (mode == EMU_MODE_COMPLETE_TX)
            advance(warp->block, m);
        else
            save(warp->block, m);
        return true;
    }
    const bool expects = mode == EMU_MODE_ARRIVE_EXPECT || mode == EMU_MODE_DROP_EXPECT;
    const uint32_t arrivals = expects ? 1 : count;
    if ((expects && !add_bytes(warp, op->insn, lane, m, count)) ||
        !arrive(warp, op->insn, lane, m, arrivals))
        return false;
    if (mode >= EMU_MODE_DROP)
        m->expected -= arrivals;
    if (op->insn->no_complete && m->pending == 0 && m->bytes == 0)
        return emu_fault(warp, op->insn, lane, EMU_LAUNCH_FAILED,
                         "mbarrier.arrive.noComplete completes phase %u of the mbarrier at shared "
                         "offset 0x%x",
                         (unsigned)m->phase, (unsigned)offset);
    advance(warp->block, m);
    return true;
}

bool emu_do_mbarrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[2][EMU_LANES], states[EMU_LANES] = { 0 };
    const unsigned mode = op->insn->mode;
    const uint64_t *addresses = emu_addresses(warp, frame, op, scratch[0]);
    const uint32_t *counts =
        op->src_count > 1 ? emu_fetch(warp, frame, &op->src[1], scratch[1]) : NULL;
    const enum emu_use use =
        mode == EMU_MODE_INIT || mode == EMU_MODE_INVAL ? EMU_USE_STORE : EMU_USE_ATOMIC;
    if (is_arrival(mode)) // what the warp did before is seen by those that wait
        emu_race_atomic(warp, op);
    for (uint32_t m = mask; m; m &= m - 1) {
        const unsigned i = emu_first(m);
        struct place place;
        if (!locate(warp, op, i, addresses[i], use, &place) ||
            !operate(warp, op, i, place.offset, counts ? counts[i] : 1, &states[i]))
            return false;
    }
    if (op->dst_count)
        emu_put_longs(frame, init, &op->dst[0], mask, states);
    return true;
}

bool emu_do_pending_count(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES];
    const uint64_t *states = emu_fetch(warp, frame, &op->src[0], scratch);
    uint32_t counts[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++)
        counts[i] = (uint32_t)states[i];
    emu_put(frame, emu_init(warp, warp->depth, program, warp->code), &op->dst[0], mask, counts);
    return true;
}

// ---- waits --------------------------------------------------------------------------------------

static void give_up(struct emu_block *block)
{
    for (uint32_t w = 0; w < block->warp_count; w++) {
        struct emu_warp *warp = &block->warps[w];
        const uint32_t lanes = waiting_lanes(warp);
        if (!lanes)
            continue;
        warp->impatient |= lanes;
        wake(warp, lanes);
    }
    block->waited = 0;
}

void emu_mbarrier_turn(struct emu_block *block)
{
    if (block->polling && ++block->waited > PATIENCE)
        give_up(block);
}

bool emu_mbarrier_stuck(struct emu_block *block)
{
    if (!block->polling || ++block->stuck > MOST_STUCK)
        return false;
    give_up(block);
    return true;
}

void emu_mbarrier_describe(const struct emu_block *block, uint32_t offset, char *text, size_t size)
{
    const struct emu_mbarrier *m = find(block, offset);
    char source[EMU_SOURCE];
    if (m)
        snprintf(text, size,
                 "phase %u of the mbarrier at shared offset 0x%x, initialised at line %u%s, which "
                 "lacks %u of %u arrivals and %lld bytes",
                 (unsigned)m->phase, (unsigned)offset, (unsigned)m->line,
                 emu_beside_line(block->exec->launch->module, m->line, source),
                 (unsigned)m->pending, (unsigned)m->expected, (long long)m->bytes);
    else
        snprintf(text, size, "the mbarrier at shared offset 0x%x, which is invalid",
                 (unsigned)offset);
}

// SPDX-License-Identifier: MIT
// Asynchronous operations that complete on an mbarrier or in a bulk group: cp.async.bulk,
// cp.reduce.async.bulk, and cp.async.mbarrier.arrive. They are done when a thread waits for them,
// as late as possible.
#include "async.h"
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "exec/check/undefined_rules.h"

#include <stdalign.h>

static const uint64_t *addresses_of(struct emu_warp *warp, unsigned char *frame,
                                    const struct emu_op *op, unsigned k, unsigned space,
                                    uint64_t *scratch)
{
    struct emu_op one = *op;
    one.src = op->src + k;
    one.space = (uint8_t)space;
    return emu_addresses(warp, frame, &one, scratch);
}

// ---- cp.async.bulk ------------------------------------------------------------------------------

struct spaces {
    uint8_t to, from;
    bool counts; // on an mbarrier
};

static struct spaces spaces_of(const struct emu_op *op)
{
    switch (op->insn->mode) {
    case EMU_MODE_BULK_TO_GLOBAL:
    case EMU_MODE_BULK_REDUCE:
        return (struct spaces) { EMU_GLOBAL, EMU_SHARED, false };
    case EMU_MODE_BULK_SHARED:
        return (struct spaces) { EMU_SHARED, EMU_SHARED, true };
    default:
        return (struct spaces) { EMU_SHARED, EMU_GLOBAL, true };
    }
}

static bool check_range(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                        unsigned space, uint64_t address, uint32_t bytes, enum emu_use use,
                        struct emu_access *access)
{
    struct emu_op one = *op;
    one.handler = use == EMU_USE_LOAD ? EMU_DO_LOAD : EMU_DO_STORE;
    one.space = (uint8_t)space;
    if (address % 16)
        return emu_fault(warp, op->insn, lane, EMU_MISALIGNED_ADDRESS,
                         "misaligned cp.async.bulk of %u bytes at 0x%llx: addresses are multiples "
                         "of 16",
                         (unsigned)bytes, (unsigned long long)address);
    return !bytes || emu_lane_range(warp, &one, lane, address, bytes, use, access);
}

static bool start(struct emu_warp *warp, const struct emu_op *op, struct emu_async *async,
                  struct spaces spaces, uint64_t to, uint64_t from)
{
    struct emu_access source = { 0 }, target = { 0 };
    struct emu_block *block = warp->block;
    if (async->bytes % 16)
        return emu_fault(warp, op->insn, async->lane, EMU_MISALIGNED_ADDRESS,
                         "cp.async.bulk of %u bytes: the size is a multiple of 16",
                         (unsigned)async->bytes);
    if (!check_range(warp, op, async->lane, spaces.to, to, async->bytes, EMU_USE_STORE, &target) ||
        !check_range(warp, op, async->lane, spaces.from, from, async->bytes, EMU_USE_LOAD, &source))
        return false;
    async->to_address = to;
    async->from_address = from;
    async->to = target.host;
    async->to_shadow = target.shadow;
    async->to_shared = target.shared;
    async->from = source.host;
    async->from_shadow = source.shadow;
    async->from_shared = source.shared;
    if (block->race && async->bytes && source.shared) {
        const uint32_t offset = (uint32_t)(source.host - block->shared);
        if (!emu_race_access(warp, op, async->lane, offset, async->bytes, EMU_USE_LOAD, false))
            return false;
        emu_race_flight(warp, op, async->lane, offset, async->bytes, EMU_USE_LOAD, true);
    }
    if (block->race && async->bytes && target.shared) {
        const uint32_t offset = (uint32_t)(target.host - block->shared);
        if (!emu_race_access(warp, op, async->lane, offset, async->bytes, EMU_USE_STORE, false))
            return false;
        emu_race_flight(warp, op, async->lane, offset, async->bytes, EMU_USE_STORE, true);
    }
    return emu_pending_add(block->exec, &block->asyncs, async);
}

bool emu_do_bulk(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[4][EMU_LANES];
    const struct spaces spaces = spaces_of(op);
    const uint64_t *to = addresses_of(warp, frame, op, 0, spaces.to, scratch[0]);
    const uint64_t *from = addresses_of(warp, frame, op, 1, spaces.from, scratch[1]);
    const uint32_t *sizes = emu_fetch(warp, frame, &op->src[2], scratch[2]);
    const uint64_t *at =
        spaces.counts ? addresses_of(warp, frame, op, 3, EMU_SHARED, scratch[3]) : NULL;
    for (uint32_t m = mask; m; m &= m - 1) {
        const unsigned i = emu_first(m);
        uint32_t offset = 0;
        struct emu_async async = { .warp = warp,
                                   .op = op,
                                   .mbarrier = EMU_NO_MBARRIER,
                                   .bytes = sizes[i],
                                   .batch = warp->bulk_batch[i],
                                   .lane = (uint8_t)i };
        if (at && !emu_mbarrier_check(warp, op, i, at[i], &offset))
            return false;
        if (at)
            async.mbarrier = offset;
        if (!start(warp, op, &async, spaces, to[i], from[i]))
            return false;
    }
    return true;
}

static void copy_bytes(struct emu_block *block, const struct emu_async *async)
{
    memmove(async->to, async->from, async->bytes);
    if (!async->to_shadow)
        return;
    block->shared_defined &= !async->from_shadow; // if it is there
    if (async->from_shadow)                       // uninitialised bytes stay uninitialised
        emu_shadow_move(block->exec->shadows, async->to_shadow, async->from_shadow, async->bytes);
    else
        memset(async->to_shadow, EMU_SHADOW_DEFINED, async->bytes);
}

static struct emu_undefined undefined_at(const struct emu_async *async, unsigned space,
                                         uint64_t address, const unsigned char *shadow,
                                         unsigned bytes)
{
    struct emu_op one = *async->op;
    one.space = (uint8_t)space;
    return shadow ? emu_undefined_load(async->warp, &one, address, shadow, bytes)
                  : (struct emu_undefined) { 0 };
}

// Each element is an atomic operation.
static void reduce_elements(const struct emu_async *async)
{
    const struct emu_insn *insn = async->op->insn;
    const unsigned bytes = emu_bits((enum emu_type)insn->type) / 8;
    for (uint32_t k = 0; k < async->bytes; k += bytes) {
        unsigned char *shadow = async->to_shadow ? async->to_shadow + k : NULL;
        const unsigned char *given = async->from_shadow ? async->from_shadow + k : NULL;
        uint64_t x = 0;
        memcpy(&x, async->from + k, bytes);
        if (shadow &&
            (!emu_shadow_set_strong(shadow, bytes) || (given && !emu_shadow_set(given, bytes)))) {
            const struct emu_undefined before =
                undefined_at(async, EMU_GLOBAL, async->to_address + k, shadow, bytes);
            const struct emu_undefined u =
                undefined_at(async, EMU_SHARED, async->from_address + k, given, bytes);
            emu_undefined_store(
                async->warp, shadow, bytes,
                emu_undefined_atomic(insn, emu_read_strong(async->to + k, bytes), before, x, u, u));
        }
        emu_reduce(insn, async->to + k, bytes, x);
    }
}

static bool finish(const struct emu_async *async)
{
    struct emu_warp *warp = async->warp;
    struct emu_block *block = warp->block;
    if (async->is_arrival) {
        if (!emu_copy_finish_before(warp, 1u << async->lane, async->order))
            return false;
        emu_race_landed(warp);
        return emu_mbarrier_complete(warp, async->op->insn, async->lane, (uint32_t)async->mbarrier,
                                     0, 1);
    }
    if (async->bytes) {
        if (async->op->insn->mode == EMU_MODE_BULK_REDUCE)
            reduce_elements(async);
        else
            copy_bytes(block, async);
        if (async->to_shared)
            emu_race_flight(warp, async->op, async->lane, (uint32_t)(async->to - block->shared),
                            async->bytes, EMU_USE_STORE, false);
        if (async->from_shared)
            emu_race_flight(warp, async->op, async->lane, (uint32_t)(async->from - block->shared),
                            async->bytes, EMU_USE_LOAD, false);
        emu_race_landed(warp);
    }
    return async->mbarrier == EMU_NO_MBARRIER ||
           emu_mbarrier_complete(warp, async->op->insn, async->lane, (uint32_t)async->mbarrier,
                                 async->bytes, 0);
}

bool emu_async_finish(struct emu_warp *warp, uint32_t mbarrier)
{
    return emu_pending_finish(&warp->block->asyncs,
                              &(struct emu_ending) { .ends = emu_ends_at_mbarrier,
                                                     .finish = finish,
                                                     .mbarrier = mbarrier });
}

// ---- bulk groups --------------------------------------------------------------------------------

static bool finish_groups(struct emu_warp *warp, uint32_t lanes, uint64_t kept, bool open)
{
    return emu_pending_finish(&warp->block->asyncs,
                              &(struct emu_ending) { .ends = emu_ends_with_group,
                                                     .finish = finish,
                                                     .warp = warp,
                                                     .batches = warp->bulk_batch,
                                                     .kept = kept,
                                                     .lanes = lanes,
                                                     .open = open });
}

void emu_do_bulk_commit(struct emu_warp *warp, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1)
        warp->bulk_batch[emu_first(m)]++;
}

bool emu_do_bulk_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    return finish_groups(warp, mask, op->src[0].operand->bits, false);
}

bool emu_bulk_exit(struct emu_warp *warp, uint32_t lanes)
{
    return warp->block->asyncs.count == 0 || finish_groups(warp, lanes, 0, true);
}

// ---- cp.async.mbarrier.arrive -------------------------------------------------------------------

// Without .noinc the phase expects one arrival more, which is the one that follows the copies.
bool emu_do_copy_arrive(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES];
    const uint64_t *at = emu_addresses(warp, frame, op, scratch);
    for (uint32_t m = mask; m; m &= m - 1) {
        const unsigned i = emu_first(m);
        uint32_t offset;
        if (!emu_mbarrier_check(warp, op, i, at[i], &offset) ||
            (op->insn->mode != EMU_MODE_NOINC && !emu_mbarrier_expect(warp, op->insn, i, offset)))
            return false;
        const struct emu_async async = { .warp = warp,
                                         .op = op,
                                         .mbarrier = offset,
                                         .order = warp->copy_order,
                                         .lane = (uint8_t)i,
                                         .is_arrival = true };
        if (!emu_pending_add(warp->block->exec, &warp->block->asyncs, &async))
            return false;
    }
    return true;
}

// SPDX-License-Identifier: MIT
// Asynchronous copies to shared memory. They are done at the wait, as late as possible, so that a
// kernel that does not wait finds the old contents, or is reported.
#include "async.h"
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"

#include <stdalign.h>

static bool write_is_ordered(const struct emu_async *copy)
{
    struct emu_block *block = copy->warp->block;
    return !block->race ||
           emu_race_access(copy->warp, copy->op, copy->lane, (uint32_t)(copy->to - block->shared),
                           copy->op->bytes, EMU_USE_STORE, false);
}

// Whether the target is free for the copy, which then is under way until it is finished.
static bool take_off(const struct emu_async *copy)
{
    if (!write_is_ordered(copy))
        return false;
    emu_race_flight(copy->warp, copy->op, copy->lane,
                    (uint32_t)(copy->to - copy->warp->block->shared), copy->op->bytes,
                    EMU_USE_STORE, true);
    return true;
}

// The number of bytes that each lane reads from its source.
static void sizes(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                  uint32_t taken[EMU_LANES])
{
    alignas(64) uint32_t scratch[EMU_LANES];
    uint32_t ignore = 0;
    const void *given = op->src_count > 3 ? emu_fetch(warp, frame, &op->src[3], scratch) : NULL;
    if (given && op->src[3].want == EMU_MASK)
        memcpy(&ignore, given, sizeof(ignore));
    for (unsigned i = 0; i < EMU_LANES; i++)
        taken[i] = ignore >> i & 1                        ? 0
                   : given && op->src[3].want == EMU_WORD ? ((const uint32_t *)given)[i]
                                                          : op->bytes;
}

static const uint64_t *source_addresses(struct emu_warp *warp, unsigned char *frame,
                                        const struct emu_op *op, uint64_t *scratch)
{
    struct emu_op load = *op;
    load.src = op->src + 1;
    load.space = EMU_GLOBAL;
    return emu_addresses(warp, frame, &load, scratch);
}

bool emu_do_copy(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[2][EMU_LANES];
    uint32_t taken[EMU_LANES];
    const uint64_t *to = emu_addresses(warp, frame, op, scratch[0]);
    const uint64_t *from = source_addresses(warp, frame, op, scratch[1]);
    struct emu_op load = *op, store = *op;
    load.handler = EMU_DO_LOAD;
    load.space = EMU_GLOBAL;
    store.handler = EMU_DO_STORE;
    sizes(warp, frame, op, taken);
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_access source = { 0 }, target;
        if (taken[i] > op->bytes)
            return emu_fault(warp, op->insn, i, EMU_ILLEGAL_INSTRUCTION,
                             "cp.async copies %u bytes, but its source size is %u",
                             (unsigned)op->bytes, (unsigned)taken[i]);
        if (taken[i] && from[i] & (op->bytes - 1u))
            return emu_fault(warp, op->insn, i, EMU_MISALIGNED_ADDRESS,
                             "misaligned load of %u bytes at 0x%llx", (unsigned)op->bytes,
                             (unsigned long long)from[i]);
        if (!emu_lane_access(warp, &store, i, to[i], op->bytes, EMU_USE_STORE, &target) ||
            (taken[i] &&
             !emu_lane_access(warp, &load, i, from[i], taken[i], EMU_USE_LOAD, &source)))
            return false;
        const struct emu_async copy = { .warp = warp,
                                        .op = op,
                                        .to = target.host,
                                        .to_shadow = target.shadow,
                                        .from = source.host,
                                        .from_shadow = source.shadow,
                                        .mbarrier = EMU_NO_MBARRIER,
                                        .order = ++warp->copy_order,
                                        .batch = warp->copy_batch[i],
                                        .lane = (uint8_t)i,
                                        .taken = (uint8_t)taken[i] };
        if (!emu_pending_add(warp->block->exec, &warp->copies, &copy) || !take_off(&copy))
            return false;
    }
    return true;
}

static bool finish(const struct emu_async *copy)
{
    struct emu_block *block = copy->warp->block;
    const uint32_t bytes = copy->op->bytes;
    if (copy->taken)
        memcpy(copy->to, copy->from, copy->taken);
    memset(copy->to + copy->taken, 0, bytes - copy->taken);
    if (copy->to_shadow) { // uninitialised bytes stay uninitialised
        memset(copy->to_shadow, 1, bytes);
        block->shared_defined &= !copy->from_shadow;
        if (copy->from_shadow)
            emu_shadow_move(block->exec->shadows, copy->to_shadow, copy->from_shadow, copy->taken);
    }
    emu_race_flight(copy->warp, copy->op, copy->lane, (uint32_t)(copy->to - block->shared), bytes,
                    EMU_USE_STORE, false);
    return write_is_ordered(copy);
}

static bool finish_groups(struct emu_warp *warp, uint32_t lanes, uint64_t kept, bool open)
{
    return emu_pending_finish(&warp->copies, &(struct emu_ending) { .ends = emu_ends_with_group,
                                                                    .finish = finish,
                                                                    .warp = warp,
                                                                    .batches = warp->copy_batch,
                                                                    .kept = kept,
                                                                    .lanes = lanes,
                                                                    .open = open });
}

void emu_do_copy_commit(struct emu_warp *warp, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1)
        warp->copy_batch[emu_first(m)]++;
}

bool emu_do_copy_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    bool all = op->src_count == 0;
    return finish_groups(warp, mask, all ? 0 : op->src[0].operand->bits, all);
}

bool emu_copy_finish_before(struct emu_warp *warp, uint32_t lanes, uint64_t order)
{
    return emu_pending_finish(&warp->copies, &(struct emu_ending) { .ends = emu_ends_before,
                                                                    .finish = finish,
                                                                    .order = order,
                                                                    .lanes = lanes });
}

bool emu_copy_finish(struct emu_warp *warp, uint32_t lanes)
{
    return warp->copies.count == 0 || finish_groups(warp, lanes, 0, true);
}

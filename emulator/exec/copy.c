// SPDX-License-Identifier: MIT
// Asynchronous copies to shared memory. They are done at the wait, as late as possible, so that a
// kernel that does not wait finds the old contents.
#include "warp.h"

#include <stdalign.h>
#include <stdlib.h>

struct emu_copy {
    unsigned char *to, *to_shadow;
    const unsigned char *from, *from_shadow;
    const struct emu_op *op;
    uint64_t order;
    uint32_t batch;
    uint8_t lane;
    uint8_t taken; // bytes read from the source; the rest is zero
};

static bool write_is_ordered(struct emu_warp *warp, const struct emu_copy *copy)
{
    return !warp->block->race ||
           emu_race_access(warp, copy->op, copy->lane, (uint32_t)(copy->to - warp->block->shared),
                           copy->op->bytes, EMU_USE_STORE, false);
}

static bool add(struct emu_warp *warp, const struct emu_copy *copy)
{
    if (warp->copy_count == warp->copy_room) {
        uint32_t room = warp->copy_room ? 2 * warp->copy_room : 4 * EMU_LANES;
        struct emu_copy *more = realloc(warp->copies, room * sizeof(*more));
        if (!more)
            return emu_fault_launch(warp->block->exec, EMU_OUT_OF_MEMORY,
                                    "no host memory for %u asynchronous copies", (unsigned)room);
        warp->copies = more;
        warp->copy_room = room;
    }
    warp->copies[warp->copy_count++] = *copy;
    return write_is_ordered(warp, copy);
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
        const struct emu_copy copy = {
            target.host,        target.shadow,       source.host, source.shadow,    op,
            ++warp->copy_order, warp->copy_batch[i], (uint8_t)i,  (uint8_t)taken[i]
        };
        if (!add(warp, &copy))
            return false;
    }
    return true;
}

static bool finish(struct emu_warp *warp, const struct emu_copy *copy)
{
    const uint32_t bytes = copy->op->bytes;
    if (copy->taken)
        memcpy(copy->to, copy->from, copy->taken);
    memset(copy->to + copy->taken, 0, bytes - copy->taken);
    if (copy->to_shadow) { // uninitialised bytes stay uninitialised
        memset(copy->to_shadow, 1, bytes);
        warp->block->shared_defined &= !copy->from_shadow;
        if (copy->from_shadow)
            emu_shadow_move(warp->block->exec->shadows, copy->to_shadow, copy->from_shadow,
                            copy->taken);
    }
    return write_is_ordered(warp, copy);
}

// Completes the lanes' copies of all closed batches except the last `kept`, and with `open` those
// of the open batch too.
static bool finish_some(struct emu_warp *warp, uint32_t lanes, uint64_t kept, bool open)
{
    uint32_t left = 0;
    bool fine = true;
    for (uint32_t k = 0; k < warp->copy_count; k++) {
        const struct emu_copy copy = warp->copies[k];
        bool ends =
            lanes >> copy.lane & 1 && (open || copy.batch + kept < warp->copy_batch[copy.lane]);
        if (ends)
            fine = fine && finish(warp, &copy);
        else
            warp->copies[left++] = copy;
    }
    warp->copy_count = left;
    return fine;
}

void emu_do_copy_commit(struct emu_warp *warp, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1)
        warp->copy_batch[emu_first(m)]++;
}

bool emu_do_copy_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    bool all = op->src_count == 0;
    return finish_some(warp, mask, all ? 0 : op->src[0].operand->bits, all);
}

bool emu_copy_finish_before(struct emu_warp *warp, uint32_t lanes, uint64_t order)
{
    uint32_t left = 0;
    bool fine = true;
    for (uint32_t k = 0; k < warp->copy_count; k++) {
        const struct emu_copy copy = warp->copies[k];
        if (lanes >> copy.lane & 1 && copy.order <= order)
            fine = fine && finish(warp, &copy);
        else
            warp->copies[left++] = copy;
    }
    warp->copy_count = left;
    return fine;
}

bool emu_copy_finish(struct emu_warp *warp, uint32_t lanes)
{
    return warp->copy_count == 0 || finish_some(warp, lanes, 0, true);
}

// SPDX-License-Identifier: MIT
// Waits for a phase of an mbarrier: mbarrier.test_wait and try_wait.
#include "exec/access/access.h"
#include "exec/async/async.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "warps.h"

#include <stdalign.h>

// Whether the phase has completed: that of a state, or the latest one of a parity.
static bool is_complete(const struct emu_mbarrier *m, const struct emu_op *op, uint64_t what)
{
    return op->src[1].want == EMU_WORD ? (m->phase & 1) != (what & 1) : m->phase != what >> 32;
}

// Whether the wait of a lane ends. What is still missing from the phase is done now. A copy that
// the phase did not wait for, because the bytes that it expects are too few, stays under way.
static bool look(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                 uint64_t what, bool *complete)
{
    const struct emu_mbarrier *m = emu_mbarrier_object(warp, op->insn, lane, offset);
    if (!m)
        return false;
    *complete = is_complete(m, op, what);
    if (*complete)
        return true;
    if (!emu_async_finish(warp, offset) || !(m = emu_mbarrier_object(warp, op->insn, lane, offset)))
        return false;
    *complete = is_complete(m, op, what);
    return true;
}

bool emu_do_phase_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[2][EMU_LANES];
    const uint64_t *addresses = emu_addresses(warp, frame, op, scratch[0]);
    const void *wanted = emu_fetch(warp, frame, &op->src[1], scratch[1]);
    uint32_t complete = 0, given_up = 0, offsets[EMU_LANES];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned i = emu_first(rest);
        bool ended = false;
        if (!emu_mbarrier_check(warp, op, i, addresses[i], &offsets[i]) ||
            !look(warp, op, i, offsets[i], emu_lane_of(&op->src[1], wanted, i), &ended))
            return false;
        complete |= (uint32_t)ended << i;
    }
    given_up = mask & ~complete & warp->impatient;
    warp->impatient &= ~mask;
    if (complete)
        emu_race_phase(warp, op);
    if (complete | given_up)
        emu_put(frame, emu_init(warp, warp->depth, program, warp->code), &op->dst[0],
                complete | given_up, &complete);
    for (uint32_t rest = mask & ~(complete | given_up); rest; rest &= rest - 1) {
        emu_warp_park(warp, 1u << emu_first(rest), EMU_WAIT_PHASE, offsets[emu_first(rest)]);
        warp->block->polling++;
        warp->leave = true;
    }
    return true;
}

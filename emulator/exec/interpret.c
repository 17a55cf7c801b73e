// SPDX-License-Identifier: MIT
// The interpreter: runs the steps of a group of lanes one after the other. What a step leaves to
// it, and what is more than a step, runs by the instruction's handler for the lanes of a mask.
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "step.h"
#include "warps.h"

#include <stdalign.h>

enum { SYNC_COST = 64 }; // cost of an instruction that spinning uses, in instructions

// Whether everything that the instruction reads is defined.
static bool all_defined(const struct emu_warp *warp, const struct emu_op *op, const uint32_t *init,
                        uint32_t mask)
{
    if (op->guard != EMU_NO_REGISTER && warp->active & ~init[op->guard_register])
        return false;
    for (unsigned k = 0; k < op->src_count; k++) {
        const struct emu_value *value = &op->src[k];
        if (value->place == EMU_AT_SLOT && mask & ~init[value->reg])
            return false;
    }
    return true;
}

static void do_lanes(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                     const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) unsigned char out[EMU_LANES * 8];
    emu_fetch_all(warp, frame, op, &s);
    if (mask == UINT32_MAX && op->dst[0].direct) {
        emu_apply(op->fn, frame + op->dst[0].at, s.at, op->insn);
        if (init)
            init[op->dst[0].reg] = UINT32_MAX;
        return;
    }
    emu_apply(op->fn, out, s.at, op->insn);
    if (op->dst[0].direct) {
        emu_put_direct(frame, &op->dst[0], mask, out);
        if (init)
            init[op->dst[0].reg] |= mask;
    } else {
        emu_put(frame, init, &op->dst[0], mask, out);
    }
}

static void do_branch(struct emu_warp *warp, const struct emu_op *op, uint32_t taken)
{
    uint32_t passed = warp->active & ~taken;
    if (passed == 0) {
        warp->pc = op->target;
        return;
    }
    emu_set_lanes(warp->lane_pc, op->target, taken);
    emu_set_lanes(warp->lane_pc, warp->pc, passed);
    warp->active = 0;
}

static bool do_branch_list(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                           uint32_t mask)
{
    const struct emu_function *f = warp->block->exec->program->codes[warp->code].function;
    uint32_t scratch[EMU_LANES];
    const uint32_t *index = emu_fetch(warp, frame, &op->src[0], scratch);
    emu_group_put_back(warp);
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        if (index[i] >= op->insn->target_count)
            return emu_fault(warp, op->insn, i, EMU_ILLEGAL_INSTRUCTION,
                             "brx.idx with index %u, but its list has %u targets",
                             (unsigned)index[i], (unsigned)op->insn->target_count);
        warp->lane_pc[i] = f->targets[op->target + index[i]];
    }
    warp->active = 0;
    return true;
}

static void do_activemask(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                          const struct emu_op *op, uint32_t mask)
{
    uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++)
        words[i] = mask;
    emu_put(frame, init, &op->dst[0], mask, words);
    (void)warp;
}

// Instructions without a fast path. False after a fault.
static bool do_other(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                     const struct emu_op *op, uint32_t mask)
{
    switch (op->handler) {
    case EMU_DO_CARRY:
        emu_do_carry(warp, frame, init, op, mask);
        return true;
    case EMU_DO_MOVE:
        return emu_do_move(warp, op, mask);
    case EMU_DO_ATOMIC:
        warp->left -= SYNC_COST;
        return emu_do_atomic(warp, op, mask);
    case EMU_DO_WIDE:
        warp->left -= SYNC_COST;
        return emu_do_wide(warp, op, mask);
    case EMU_DO_STACK:
        return emu_do_stack(warp, op, mask);
    case EMU_DO_COPY:
        return emu_do_copy(warp, op, mask);
    case EMU_DO_COPY_COMMIT:
        emu_do_copy_commit(warp, mask);
        return true;
    case EMU_DO_COPY_WAIT:
        return emu_do_copy_wait(warp, op, mask);
    case EMU_DO_COPY_ARRIVE:
        return emu_do_copy_arrive(warp, op, mask);
    case EMU_DO_BULK:
        return emu_do_bulk(warp, op, mask);
    case EMU_DO_BULK_COMMIT:
        emu_do_bulk_commit(warp, mask);
        return true;
    case EMU_DO_BULK_WAIT:
        return emu_do_bulk_wait(warp, op, mask);
    case EMU_DO_MBARRIER:
        return emu_do_mbarrier(warp, op, mask);
    case EMU_DO_PHASE_WAIT:
        return emu_do_phase_wait(warp, op, mask);
    case EMU_DO_PENDING_COUNT:
        return emu_do_pending_count(warp, op, mask);
    case EMU_DO_BRANCH_LIST:
        return do_branch_list(warp, frame, op, mask);
    case EMU_DO_COMPARE_PAIR:
        emu_do_compare_pair(warp, frame, init, op, mask);
        return true;
    case EMU_DO_FLOAT_PAIR:
        emu_do_float_pair(warp, frame, init, op, mask);
        return true;
    case EMU_DO_TRUTH:
        emu_do_truth(warp, frame, init, op, mask);
        return true;
    case EMU_DO_ADDRESS:
        return emu_do_address(warp, op, mask);
    case EMU_DO_CLUSTER:
        return emu_do_cluster(warp, op, mask);
    case EMU_DO_CALL:
        return emu_do_call(warp, op, mask);
    case EMU_DO_RETURN:
        return emu_do_return(warp, op, mask);
    case EMU_DO_EXIT:
        emu_warp_exit(warp, mask, op->insn->line);
        return true;
    case EMU_DO_BARRIER:
        return emu_do_barrier(warp, op, mask);
    case EMU_DO_WARP_BARRIER:
    case EMU_DO_SHUFFLE:
    case EMU_DO_VOTE:
    case EMU_DO_MATCH:
    case EMU_DO_REDUX:
    case EMU_DO_ELECT:
    case EMU_DO_MATRIX_LOAD:
    case EMU_DO_MATRIX_MOVE:
    case EMU_DO_MATRIX_STORE:
    case EMU_DO_TILE_LOAD:
    case EMU_DO_TILE_STORE:
    case EMU_DO_WARPGROUP:
    case EMU_DO_MMA:
        return emu_do_warp_sync(warp, op, mask);
    case EMU_DO_ACTIVEMASK:
        do_activemask(warp, frame, init, op, mask);
        return true;
    case EMU_DO_FENCE: // strong accesses are already sequentially consistent on the host
        emu_race_fence(warp);
        return true;
    case EMU_DO_SLEEP:
        warp->left -= 16 * SYNC_COST;
        return true;
    case EMU_DO_DEPEND: // kernels run one after the other
        if (op->insn->mode == EMU_MODE_WAIT_PRIMARY)
            warp->depended |= mask;
        return true;
    case EMU_DO_BREAKPOINT: // without a debugger, the same as a trap: ptxas makes one code of both
        return emu_fault(warp, op->insn, emu_first(mask), EMU_LAUNCH_FAILED,
                         "brkpt, and no debugger is attached");
    case EMU_DO_TRAP:
        // No public document gives the CUresult. Hosts see "unspecified launch failure".
        return emu_fault(warp, op->insn, emu_first(mask), EMU_LAUNCH_FAILED, "trap");
    default:
        return true;
    }
}

bool emu_execute(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                 const struct emu_op *op, uint32_t mask)
{
    switch (op->handler) {
    case EMU_DO_LANES:
        do_lanes(warp, frame, init, op, mask);
        return true;
    case EMU_DO_FLOAT:
        emu_do_float(warp, frame, init, op, mask);
        return true;
    case EMU_DO_COMPARE:
        emu_do_compare(warp, frame, init, op, mask);
        return true;
    case EMU_DO_LOAD:
        return emu_do_load(warp, op, mask);
    case EMU_DO_STORE:
        return emu_do_store(warp, op, mask);
    case EMU_DO_BRANCH:
        do_branch(warp, op, mask);
        return true;
    default:
        return do_other(warp, frame, init, op, mask);
    }
}

// ---- steps --------------------------------------------------------------------------------------

// Runs the instruction and records which bits of its results are undefined. False after a fault.
static bool undefined_step(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                           const struct emu_op *op, uint32_t mask)
{
    struct emu_undefined_lanes results[EMU_MOST_PARTS];
    if (!emu_undefined_allows(warp, init, op, mask))
        return false;
    if (mask == 0)
        return true;
    const bool computes = emu_undefined_computes(op);
    if (computes)
        emu_undefined_compute(warp, frame, init, op, mask, results);
    if (!emu_execute(warp, frame, init, op, mask))
        return false;
    for (unsigned k = 0; computes && k < op->dst_count; k++)
        emu_undefined_put(warp, init, &op->dst[k], mask, &results[k]);
    return true;
}

bool emu_step_any(struct emu_running *run, const struct emu_op *op, uint32_t mask)
{
    struct emu_warp *warp = run->warp;
    emu_settle(run, op + 1);
    const uint32_t pc = warp->pc;
    const int32_t left = warp->left;
    bool ok = true;
    if (run->init && !all_defined(warp, op, run->init, mask)) {
        ok = undefined_step(warp, run->pools[0], run->init, op, mask);
    } else if (mask) {
        warp->left -= op->handler == EMU_DO_LOAD && op->strong ? SYNC_COST : 0;
        ok = emu_execute(warp, run->pools[0], run->init, op, mask);
    }
    run->failed = !ok;
    return ok && warp->active == run->group && warp->pc == pc && warp->left == left && !warp->leave;
}

bool emu_step_registers(struct emu_running *run, const struct emu_op *op, uint32_t mask)
{
    if (run->init && !all_defined(run->warp, op, run->init, mask))
        return emu_step_any(run, op, mask);
    emu_execute(run->warp, run->pools[0], run->init, op, mask);
    return true;
}

bool emu_step_branch(struct emu_running *run, const struct emu_op *op, uint32_t mask)
{
    emu_settle(run, op + 1);
    if (mask == run->group)
        run->warp->pc = op->target;
    else
        do_branch(run->warp, op, mask);
    return false;
}

// ---- the loop -----------------------------------------------------------------------------------

// Runs the chosen group until it has to be chosen anew. False after a fault.
static bool run_group(struct emu_warp *warp)
{
    struct emu_block *block = warp->block;
    const struct emu_code *code = &block->exec->program->codes[warp->code];
    struct emu_running run = {
        .warp = warp,
        .block = block,
        .worker = block->worker,
        .exec = block->exec,
        .pools = { emu_frame(warp, warp->depth, block->exec->program, warp->code),
                   code->constants },
        .init = emu_init(warp, warp->depth, block->exec->program, warp->code),
        .ops = code->ops,
        .exists = warp->exists,
    };
    while (warp->left > 0 && warp->pc < warp->limit && warp->active && !warp->leave) {
        const uint32_t limit = warp->limit <= code->count ? warp->limit : code->count + 1;
        const uint32_t left = (uint32_t)warp->left, ahead = limit - warp->pc;
        const struct emu_op *op = run.ops + warp->pc, *end = op + (left < ahead ? left : ahead);
        run.counted = warp->pc;
        if (run.group != warp->active) {
            run.group = warp->active;
            run.group_lanes = emu_count(run.group);
        }
        while (op < end && op->step(&run, op, run.group))
            op++;
        if (run.failed)
            break;
        if (op == end)
            emu_settle(&run, end);
    }
    block->worker->lanes += run.lanes;
    return !run.failed;
}

void emu_warp_run(struct emu_warp *warp, int32_t budget)
{
    struct emu_exec *exec = warp->block->exec;
    warp->budget = budget;
    while (warp->budget > 0 && warp->live & ~warp->waiting) {
        emu_group_pick(warp);
        int32_t before = warp->left;
        bool ok = run_group(warp);
        warp->whole = warp->active && warp->active == (warp->live & ~warp->waiting);
        if (!warp->whole)
            emu_group_put_back(warp);
        int32_t used = before - warp->left;
        warp->budget -= used > 0 ? used : 1;
        if (!warp->alone)
            warp->patience -= used;
        if (!ok || atomic_load_explicit(&exec->stop, memory_order_relaxed))
            return;
    }
}

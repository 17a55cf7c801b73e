// SPDX-License-Identifier: MIT
// A warp: lanes with a program counter each, run in groups that share one.
//
// The group with the deepest call, and among these the lowest pc, runs first, so that lanes meet
// again where their paths join. A group that has kept others waiting for long yields to the one
// that has waited longest, because a lane may spin until another lane of its warp has done
// something.
#include "straight.h"

#include <stdalign.h>
#include <stdlib.h>

// Inlined into the loop over instructions, although another function uses it too.
#define ALWAYS __attribute__((always_inline))

enum {
    PATIENCE = 4096,
    SYNC_COST = 64, // cost of an instruction that spinning uses, in instructions
};

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

static void put_back(struct emu_warp *warp)
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
static void pick(struct emu_warp *warp)
{
    uint32_t lanes = warp->live & ~warp->waiting;
    if (warp->whole && lanes == warp->active) {
        warp->leave = false;
        warp->left = warp->budget;
        return;
    }
    if (warp->whole)
        put_back(warp);
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

ALWAYS static inline void do_lanes(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                                   const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) unsigned char out[EMU_LANES * 8];
    emu_fetch_all(warp, frame, op, &s);
    if (mask == UINT32_MAX && op->in_place && op->dst[0].direct) {
        op->fn(frame + op->dst[0].at, s.at, op->insn);
        if (init)
            init[op->dst[0].reg] = UINT32_MAX;
        return;
    }
    op->fn(out, s.at, op->insn);
    if (op->dst[0].direct) {
        emu_put_direct(frame, &op->dst[0], mask, out);
        if (init)
            init[op->dst[0].reg] |= mask;
    } else {
        emu_put(frame, init, &op->dst[0], mask, out);
    }
}

ALWAYS static inline void do_branch(struct emu_warp *warp, const struct emu_op *op, uint32_t taken)
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
    put_back(warp);
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
ALWAYS static inline bool do_other(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
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

// Runs what it may of the straight piece at the pc. Returns the number of instructions that have
// run.
ALWAYS static inline uint32_t run_straight(struct emu_warp *warp, unsigned char *frame,
                                           uint32_t *init)
{
    const struct emu_code *code = &warp->block->exec->program->codes[warp->code];
    uint32_t count = code->straight[warp->pc].count;
    count = count < (uint32_t)warp->left ? count : (uint32_t)warp->left;
    count = count < warp->limit - warp->pc ? count : warp->limit - warp->pc;
    count = emu_straight_run(code, warp->pc, count, frame, init, warp->active);
    warp->pc += count;
    warp->left -= (int32_t)count;
    return count;
}

// Runs until the group has to be chosen again. False after a fault.
static bool run_group(struct emu_warp *warp)
{
    struct emu_worker *worker = warp->block->worker;
    const struct emu_program *program = warp->block->exec->program;
    const struct emu_op *ops = program->codes[warp->code].ops;
    const struct emu_straight *straight = program->codes[warp->code].straight;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    uint64_t lanes = 0, executed = 0;
    uint32_t group = warp->active, group_lanes = emu_count(group);
    bool ok = true;
    while (warp->left > 0 && warp->pc < warp->limit && warp->active && !warp->leave) {
        const struct emu_op *op = &ops[warp->pc];
        if (straight[warp->pc].count && warp->active == warp->exists) {
            uint32_t done = run_straight(warp, frame, init);
            executed += done;
            lanes += (uint64_t)done * group_lanes;
            if (done)
                continue;
        }
        uint32_t mask = emu_guarded(op, frame, warp->active);
        warp->left--;
        warp->pc++;
        executed++;
        if (init && !all_defined(warp, op, init, mask)) {
            lanes += emu_count(mask);
            ok = emu_undefined_step(warp, frame, init, op, mask);
            if (!ok)
                break;
            continue;
        }
        if (mask == 0)
            continue;
        lanes += mask == group ? group_lanes : emu_count(mask);
        switch (op->handler) {
        case EMU_DO_LANES:
            do_lanes(warp, frame, init, op, mask);
            continue;
        case EMU_DO_FLOAT:
            emu_do_float(warp, frame, init, op, mask);
            continue;
        case EMU_DO_COMPARE:
            emu_do_compare(warp, frame, init, op, mask);
            continue;
        case EMU_DO_LOAD:
            if (op->strong)
                warp->left -= SYNC_COST;
            ok = emu_do_load(warp, op, mask);
            break;
        case EMU_DO_STORE:
            ok = emu_do_store(warp, op, mask);
            break;
        case EMU_DO_BRANCH:
            do_branch(warp, op, mask);
            continue;
        default:
            worker->executed += executed;
            executed = 0;
            ok = do_other(warp, frame, init, op, mask);
        }
        if (!ok)
            break;
    }
    worker->executed += executed;
    worker->lanes += lanes;
    return ok;
}

void emu_warp_run(struct emu_warp *warp, int32_t budget)
{
    struct emu_exec *exec = warp->block->exec;
    warp->budget = budget;
    while (warp->budget > 0 && warp->live & ~warp->waiting) {
        pick(warp);
        int32_t before = warp->left;
        bool ok = run_group(warp);
        warp->whole = warp->active && warp->active == (warp->live & ~warp->waiting);
        if (!warp->whole)
            put_back(warp);
        int32_t used = before - warp->left;
        warp->budget -= used > 0 ? used : 1;
        if (!warp->alone)
            warp->patience -= used;
        if (!ok || atomic_load_explicit(&exec->stop, memory_order_relaxed))
            return;
    }
}

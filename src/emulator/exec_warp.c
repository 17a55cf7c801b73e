// SPDX-License-Identifier: MIT
// A warp: lanes with a program counter each, run in groups that share one.
//
// The group with the deepest call and then the lowest pc runs, so that lanes meet again where their
// paths join. A group that has kept others waiting for long gives way to the one that has waited
// longest: a lane may spin until another lane of its warp has done something.
#include "exec.h"

#include <fenv.h>
#include <stdalign.h>
#include <stdlib.h>

enum {
    PATIENCE = 4096,
    SYNC_COST = 64, // of what spinning is made of, in instructions
};

void emu_warp_start(struct emu_warp *warp, uint32_t exists)
{
    const struct emu_program *program = &warp->block->exec->program;
    warp->exists = warp->live = exists;
    warp->waiting = warp->active = warp->carry = 0;
    warp->whole = false;
    warp->patience = PATIENCE;
    warp->stamp = 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        warp->lane_pc[i] = warp->lane_depth[i] = 0;
        warp->lane_code[i] = program->entry;
        warp->exit_line[i] = 0;
        warp->lane_served[i] = 0;
        warp->wait[i] = EMU_WAIT_NONE;
        warp->local_base[i] = 0;
    }
    if (warp->init)
        memset(warp->init, 0, sizeof(uint32_t) * program->depth_registers);
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
    for (uint32_t m = warp->active; m; m &= m - 1) {
        unsigned i = emu_first(m);
        warp->lane_pc[i] = warp->pc;
    }
}

// Chooses the group among the lanes that can run.
static void pick(struct emu_warp *warp)
{
    uint32_t lanes = warp->live & ~warp->waiting, group = 0;
    if (warp->whole && lanes == warp->active) {
        warp->leave = false;
        warp->left = warp->budget;
        return;
    }
    if (warp->whole)
        put_back(warp);
    uint64_t keys[EMU_LANES], chosen = UINT64_MAX, next = UINT64_MAX;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        keys[i] = key_of(warp, i);
        if (keys[i] < chosen)
            chosen = keys[i];
    }
    if (warp->patience <= 0) {
        chosen = keys[longest_waiting(warp, lanes)];
        warp->patience = PATIENCE;
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned i = emu_first(m);
        if (keys[i] == chosen)
            group |= 1u << i;
        else if (keys[i] > chosen && keys[i] < next)
            next = keys[i];
    }
    unsigned first = emu_first(group);
    warp->active = group;
    warp->pc = warp->lane_pc[first];
    warp->code = warp->lane_code[first];
    warp->depth = warp->lane_depth[first];
    warp->alone = group == lanes;
    warp->leave = false;
    warp->limit = next >> 32 == chosen >> 32 ? (uint32_t)next : UINT32_MAX;
    warp->left = warp->alone || warp->patience > warp->budget ? warp->budget : warp->patience;
    if (warp->alone)
        return;
    warp->stamp++;
    for (uint32_t m = group; m; m &= m - 1)
        warp->lane_served[emu_first(m)] = warp->stamp;
}

void emu_warp_exit(struct emu_warp *warp, uint32_t lanes, uint32_t line)
{
    struct emu_block *block = warp->block;
    for (uint32_t m = lanes; m; m &= m - 1)
        warp->exit_line[emu_first(m)] = line;
    if (block->exited == 0 && lanes) {
        block->first_exit_thread = warp->index * EMU_LANES + emu_first(lanes);
        block->first_exit_line = line;
    }
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

// Lanes of `fresh` where the mask says so, else as they were.
static inline void blend_words(uint32_t *to, const uint32_t *fresh, uint32_t mask)
{
    for (unsigned i = 0; i < EMU_LANES; i++)
        to[i] = mask >> i & 1 ? fresh[i] : to[i];
}

static inline void blend_longs(uint64_t *to, const uint64_t *fresh, uint32_t mask)
{
    for (unsigned i = 0; i < EMU_LANES; i++)
        to[i] = mask >> i & 1 ? fresh[i] : to[i];
}

static inline void put_direct(unsigned char *frame, const struct emu_value *value, uint32_t mask,
                              const void *lanes)
{
    void *to = frame + value->at;
    if (value->want == EMU_MASK) {
        uint32_t old, fresh;
        memcpy(&old, to, 4);
        memcpy(&fresh, lanes, 4);
        old = (old & ~mask) | (fresh & mask);
        memcpy(to, &old, 4);
    } else if (mask == UINT32_MAX) {
        memcpy(to, lanes, value->want == EMU_LONG ? 256 : 128);
    } else if (value->want == EMU_LONG) {
        blend_longs(to, lanes, mask);
    } else {
        blend_words(to, lanes, mask);
    }
}

void emu_put(unsigned char *frame, uint32_t *init, const struct emu_value *value, uint32_t mask,
             const void *lanes)
{
    if (value->place == EMU_AT_SINK)
        return;
    if (init)
        init[value->reg] |= mask;
    if (value->direct) {
        put_direct(frame, value, mask, lanes);
        return;
    }
    const uint32_t *words = lanes;
    const uint64_t *longs = lanes;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint64_t x = value->want == EMU_LONG ? longs[i] : words[i];
        if (value->extend && x >> (value->extend - 1) & 1)
            x |= UINT64_MAX << value->extend;
        if (value->bits < 64)
            x &= (UINT64_C(1) << value->bits) - 1;
        uint32_t low = (uint32_t)x;
        if (value->width == EMU_LONG)
            memcpy(frame + value->at + 8 * i, &x, 8);
        else
            memcpy(frame + value->at + 4 * i, &low, 4);
    }
}

static uint64_t slow_lane(struct emu_warp *warp, unsigned char *frame,
                          const struct emu_value *value, unsigned lane)
{
    uint64_t x = 0;
    uint32_t low = 0;
    switch (value->place) {
    case EMU_AT_SPECIAL:
        return emu_special(warp, value->operand->special, value->operand->index, lane);
    case EMU_AT_LOCAL_SYMBOL:
        return warp->local_base[lane] +
               warp->block->exec->launch->module->symbols[value->reg].offset +
               (uint64_t)value->operand->offset;
    case EMU_AT_SLOT:
        if (value->width == EMU_LONG)
            memcpy(&x, frame + value->at + 8 * lane, 8);
        else
            memcpy(&low, frame + value->at + 4 * lane, 4);
        return value->width == EMU_LONG ? x : low;
    default:
        return 0;
    }
}

const void *emu_fetch_other(struct emu_warp *warp, unsigned char *frame,
                            const struct emu_value *value, void *scratch)
{
    if (value->want == EMU_MASK) {
        uint32_t mask = 0;
        const void *at = value->place == EMU_AT_CONST ? value->constant : frame + value->at;
        if (value->place == EMU_AT_CONST || value->place == EMU_AT_SLOT)
            memcpy(&mask, at, 4);
        mask = value->negated ? ~mask : mask;
        memcpy(scratch, &mask, 4);
        return scratch;
    }
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t x = slow_lane(warp, frame, value, i);
        uint32_t low = (uint32_t)x;
        if (value->want == EMU_LONG)
            memcpy((unsigned char *)scratch + 8 * i, &x, 8);
        else
            memcpy((unsigned char *)scratch + 4 * i, &low, 4);
    }
    return scratch;
}

struct sources {
    alignas(64) unsigned char scratch[4][EMU_LANES * 8];
    const void *at[4];
};

static inline void fetch_all(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                             struct sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++)
        s->at[k] = emu_fetch(warp, frame, &op->src[k], s->scratch[k]);
}

static void flush_words(void *to, const void *from)
{
    const uint32_t *x = from;
    uint32_t *r = to;
    for (unsigned i = 0; i < EMU_LANES; i++)
        r[i] = x[i] & UINT32_C(0x7f800000) ? x[i] : x[i] & UINT32_C(0x80000000);
}

static void flush_sources(const struct emu_op *op, struct sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++) {
        if (op->src[k].want != EMU_WORD)
            continue;
        flush_words(s->scratch[k], s->at[k]);
        s->at[k] = s->scratch[k];
    }
}

static int host_rounding(unsigned round)
{
    switch (round) {
    case EMU_RZ:
        return FE_TOWARDZERO;
    case EMU_RM:
        return FE_DOWNWARD;
    case EMU_RP:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

// To [0, 1]; NaN and -0 to +0.
static void saturate_words(uint32_t *r)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t x = r[i] > UINT32_C(0x7f800000) ? 0 : r[i];
        r[i] = x > UINT32_C(0x3f800000) ? UINT32_C(0x3f800000) : x;
    }
}

static void do_float(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                     const struct emu_op *op, uint32_t mask)
{
    struct sources s;
    alignas(64) uint32_t out[EMU_LANES * 2];
    int rounding = host_rounding(op->insn->round);
    fetch_all(warp, frame, op, &s);
    if (op->is_float && op->insn->ftz)
        flush_sources(op, &s);
    if (rounding != FE_TONEAREST)
        fesetround(rounding);
    op->fn(out, s.at, op->insn);
    if (rounding != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    if (op->float_out && op->insn->ftz)
        flush_words(out, out);
    if (op->float_out && op->insn->sat)
        saturate_words(out);
    emu_put(frame, init, &op->dst[0], mask, out);
}

static uint64_t truth(unsigned type)
{
    switch (type) {
    case EMU_F32:
        return UINT64_C(0x3f800000);
    case EMU_F64:
        return UINT64_C(0x3ff0000000000000);
    case EMU_F16:
        return 0x3c00;
    case EMU_BF16:
        return 0x3f80;
    default:
        return emu_bits(type) >= 64 ? UINT64_MAX : (UINT64_C(1) << emu_bits(type)) - 1;
    }
}

static void do_compare(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                       const struct emu_op *op, uint32_t mask)
{
    struct sources s;
    uint32_t holds = 0, with = 0;
    fetch_all(warp, frame, op, &s);
    if (op->is_float)
        flush_sources(op, &s);
    op->fn(&holds, s.at, op->insn);
    uint32_t fails = ~holds;
    if (op->insn->boolean != EMU_BOOL_NONE) {
        memcpy(&with, s.at[2], 4);
        switch (op->insn->boolean) {
        case EMU_BOOL_AND:
            holds &= with;
            fails &= with;
            break;
        case EMU_BOOL_OR:
            holds |= with;
            fails |= with;
            break;
        default:
            holds ^= with;
            fails ^= with;
        }
    }
    if (op->insn->opcode == EMU_OP_SETP) {
        emu_put(frame, init, &op->dst[0], mask, &holds);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &fails);
        return;
    }
    uint64_t longs[EMU_LANES], yes = truth(op->insn->type);
    uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++) {
        longs[i] = holds >> i & 1 ? yes : 0;
        words[i] = (uint32_t)longs[i];
    }
    emu_put(frame, init, &op->dst[0], mask,
            op->dst[0].want == EMU_LONG ? (const void *)longs : (const void *)words);
}

// The carry is a bit a lane; of a subtraction it is the borrow.
static uint64_t with_carry(const struct emu_insn *insn, const uint64_t x[3], bool *carry)
{
    bool wide = emu_bits(insn->type) == 64;
    bool is_signed = insn->type == EMU_S32 || insn->type == EMU_S64;
    uint64_t a = x[0], b = x[1], in = 0;
    switch (insn->opcode) {
    case EMU_OP_ADDC:
        in = *carry;
        break;
    case EMU_OP_SUB:
        b = ~b;
        in = 1;
        break;
    case EMU_OP_SUBC:
        b = ~b;
        in = !*carry;
        break;
    case EMU_OP_MAD_LO:
    case EMU_OP_MAD_HI: {
        struct emu_insn product = *insn;
        product.opcode = insn->opcode == EMU_OP_MAD_LO ? EMU_OP_MUL_LO : EMU_OP_MUL_HI;
        product.carry_out = product.sat = false;
        product.type = wide ? (is_signed ? EMU_S64 : EMU_U64) : is_signed ? EMU_S32 : EMU_U32;
        struct emu_lane_info info;
        alignas(64) uint64_t lanes[2][EMU_LANES] = { { a }, { b } }, out[EMU_LANES];
        alignas(64) uint32_t words[2][EMU_LANES] = { { (uint32_t)a }, { (uint32_t)b } };
        const void *longs_at[] = { lanes[0], lanes[1] }, *words_at[] = { words[0], words[1] };
        if (emu_lane_find(&product, &info))
            info.fn(out, wide ? longs_at : words_at, &product);
        uint32_t low;
        memcpy(&low, out, 4);
        a = wide ? out[0] : low;
        b = x[2];
        break;
    }
    default:
        break;
    }
    bool subtracts = insn->opcode == EMU_OP_SUB || insn->opcode == EMU_OP_SUBC;
    uint64_t sum;
    bool out_of;
    if (wide) {
        sum = a + b + in;
        out_of = sum < a || (in && sum == a);
    } else {
        sum = (uint64_t)(uint32_t)a + (uint32_t)b + in;
        out_of = sum >> 32 & 1;
        sum = (uint32_t)sum;
    }
    if (insn->carry_out)
        *carry = subtracts ? !out_of : out_of;
    return sum;
}

static void do_carry(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                     const struct emu_op *op, uint32_t mask)
{
    struct sources s;
    alignas(64) uint64_t longs[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    fetch_all(warp, frame, op, &s);
    bool wide = emu_bits(op->insn->type) == 64;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint64_t x[3] = { 0 };
        for (unsigned k = 0; k < op->src_count && k < 3; k++)
            x[k] = wide ? ((const uint64_t *)s.at[k])[i] : ((const uint32_t *)s.at[k])[i];
        bool carry = warp->carry >> i & 1;
        longs[i] = with_carry(op->insn, x, &carry);
        words[i] = (uint32_t)longs[i];
        warp->carry = (warp->carry & ~(1u << i)) | (uint32_t)carry << i;
    }
    emu_put(frame, init, &op->dst[0], mask, wide ? (const void *)longs : (const void *)words);
}

// A register that holds nothing yet may be copied, and passed on, but not used.
static bool check_sources(struct emu_warp *warp, const struct emu_op *op, const uint32_t *init,
                          uint32_t mask)
{
    if (op->guard != EMU_NO_REGISTER && warp->active & ~init[op->guard_register])
        return emu_fault_register(warp, op, op->guard_register,
                                  warp->active & ~init[op->guard_register]);
    if (op->copies || op->handler == EMU_DO_CALL)
        return true;
    for (unsigned k = 0; k < op->src_count; k++) {
        const struct emu_value *value = &op->src[k];
        if (value->place == EMU_AT_SLOT && mask & ~init[value->reg])
            return emu_fault_register(warp, op, value->reg, mask & ~init[value->reg]);
    }
    return true;
}

static inline void do_lanes(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                            const struct emu_op *op, uint32_t mask)
{
    struct sources s;
    alignas(64) unsigned char out[EMU_LANES * 8];
    uint32_t known = UINT32_MAX;
    if (op->copies && init)
        known = init[op->src[0].reg];
    fetch_all(warp, frame, op, &s);
    if (mask == UINT32_MAX && op->in_place && op->dst[0].direct) {
        op->fn(frame + op->dst[0].at, s.at, op->insn);
        if (init)
            init[op->dst[0].reg] = known;
        return;
    }
    op->fn(out, s.at, op->insn);
    if (op->dst[0].direct) {
        put_direct(frame, &op->dst[0], mask, out);
        if (init)
            init[op->dst[0].reg] |= mask;
    } else {
        emu_put(frame, init, &op->dst[0], mask, out);
    }
    if (known != UINT32_MAX && op->dst[0].place == EMU_AT_SLOT)
        init[op->dst[0].reg] &= known | ~mask;
}

static void do_branch(struct emu_warp *warp, const struct emu_op *op, uint32_t taken)
{
    uint32_t passed = warp->active & ~taken;
    if (passed == 0) {
        warp->pc = op->target;
        return;
    }
    for (uint32_t m = taken; m; m &= m - 1)
        warp->lane_pc[emu_first(m)] = op->target;
    for (uint32_t m = passed; m; m &= m - 1)
        warp->lane_pc[emu_first(m)] = warp->pc;
    warp->active = 0;
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

// What has no fast way. False after a fault.
static bool do_other(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                     const struct emu_op *op, uint32_t mask)
{
    switch (op->handler) {
    case EMU_DO_CARRY:
        do_carry(warp, frame, init, op, mask);
        return true;
    case EMU_DO_MOVE:
        return emu_do_move(warp, op, mask);
    case EMU_DO_ATOMIC:
        warp->left -= SYNC_COST;
        return emu_do_atomic(warp, op, mask);
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
    case EMU_DO_WARP_SYNC:
        return emu_do_warp_sync(warp, op, mask);
    case EMU_DO_ACTIVEMASK:
        do_activemask(warp, frame, init, op, mask);
        return true;
    case EMU_DO_FENCE:
        atomic_thread_fence(memory_order_seq_cst);
        emu_race_fence(warp);
        return true;
    case EMU_DO_SLEEP:
        warp->left -= 16 * SYNC_COST;
        return true;
    case EMU_DO_TRAP:
        return emu_fault(warp, op->insn, emu_first(mask), EMU_LAUNCH_FAILED, "trap");
    default:
        return true;
    }
}

// Until the group has to be chosen anew. False after a fault.
static bool run_group(struct emu_warp *warp)
{
    struct emu_worker *worker = warp->block->worker;
    const struct emu_program *program = &warp->block->exec->program;
    const struct emu_op *ops = program->codes[warp->code].ops;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    uint64_t lanes = 0, executed = 0;
    bool ok = true;
    while (warp->left > 0 && warp->pc < warp->limit && warp->active && !warp->leave) {
        const struct emu_op *op = &ops[warp->pc];
        uint32_t mask = emu_guarded(op, frame, warp->active);
        warp->left--;
        warp->pc++;
        executed++;
        if (init && !check_sources(warp, op, init, mask)) {
            ok = false;
            break;
        }
        if (mask == 0)
            continue;
        lanes += mask == UINT32_MAX ? 32 : emu_count(mask);
        switch (op->handler) {
        case EMU_DO_LANES:
            do_lanes(warp, frame, init, op, mask);
            continue;
        case EMU_DO_FLOAT:
            do_float(warp, frame, init, op, mask);
            continue;
        case EMU_DO_COMPARE:
            do_compare(warp, frame, init, op, mask);
            continue;
        case EMU_DO_LOAD:
            if (op->insn->is_volatile || op->insn->order != EMU_WEAK)
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

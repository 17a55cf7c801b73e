// SPDX-License-Identifier: MIT
// Moves of parts, addresses, special registers, calls.
#include "undefined.h"

#include <stdalign.h>
#include <stdlib.h>
#include <time.h>

void emu_move_parts(const struct emu_op *op, const uint64_t (*from)[EMU_LANES],
                    uint64_t (*to)[EMU_LANES])
{
    unsigned bits = op->bytes * 8u;
    uint64_t keep = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t whole = op->src_count > 1 ? 0 : from[0][i];
        for (unsigned k = 0; op->src_count > 1 && k < op->src_count; k++)
            whole |= (from[k][i] & keep) << (k * bits % 64);
        to[0][i] = whole;
        for (unsigned k = 0; op->dst_count > 1 && k < op->dst_count; k++)
            to[k][i] = whole >> (k * bits % 64) & keep;
    }
}

bool emu_do_move(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES], from[EMU_MOST_PARTS][EMU_LANES];
    alignas(64) uint64_t to[EMU_MOST_PARTS][EMU_LANES];
    for (unsigned k = 0; k < op->src_count; k++) {
        const void *lanes = emu_fetch(warp, frame, &op->src[k], scratch);
        for (unsigned i = 0; i < EMU_LANES; i++)
            from[k][i] = emu_lane_of(&op->src[k], lanes, i);
    }
    emu_move_parts(op, (const uint64_t(*)[EMU_LANES])from, to);
    for (unsigned k = 0; k < op->dst_count; k++)
        emu_put_longs(frame, init, &op->dst[k], mask, to[k]);
    return true;
}

static uint64_t window_of(unsigned space)
{
    switch (space) {
    case EMU_SHARED:
        return EMU_SHARED_WINDOW;
    case EMU_LOCAL:
        return EMU_LOCAL_WINDOW;
    case EMU_PARAM:
        return EMU_PARAM_WINDOW;
    default:
        return 0; // global and const addresses are generic ones
    }
}

static bool is_in(const struct emu_exec *exec, unsigned space, uint64_t address)
{
    bool window = address >= EMU_SHARED_WINDOW && address < EMU_WINDOWS_END;
    uint64_t base = window_of(space);
    if (base)
        return address >= base && address - base < EMU_WINDOW_SIZE;
    bool is_const = address - exec->launch->const_base < exec->launch->module->const_bytes;
    return !window && is_const == (space == EMU_CONST);
}

bool emu_do_address(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    struct emu_exec *exec = warp->block->exec;
    unsigned char *frame = emu_frame(warp, warp->depth, exec->program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, exec->program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES], out[EMU_LANES];
    const uint64_t *a = emu_fetch(warp, frame, &op->src[0], scratch);
    uint64_t window = window_of(op->space);
    uint32_t inside = 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        out[i] = op->insn->opcode == EMU_OP_CVTA ? a[i] + window : a[i] - window;
        if (is_in(exec, op->space, a[i]))
            inside |= 1u << i;
    }
    if (op->insn->opcode == EMU_OP_ISSPACEP)
        emu_put(frame, init, &op->dst[0], mask, &inside);
    else
        emu_put_longs(frame, init, &op->dst[0], mask, out);
    return true;
}

// ---- special registers --------------------------------------------------------------------------

static uint64_t nanoseconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t thread_index(const struct emu_warp *warp, uint32_t axis, unsigned lane)
{
    const uint32_t *size = warp->block->exec->launch->block;
    uint32_t linear = warp->index * EMU_LANES + lane;
    if (axis == 0 && linear < size[0])
        return linear;
    return axis == 0   ? linear % size[0]
           : axis == 1 ? linear / size[0] % size[1]
                       : linear / size[0] / size[1];
}

static uint64_t lane_mask(unsigned special, unsigned lane)
{
    uint32_t equal = 1u << lane;
    switch (special) {
    case EMU_LANEMASK_EQ:
        return equal;
    case EMU_LANEMASK_LT:
        return equal - 1;
    case EMU_LANEMASK_LE:
        return equal | (equal - 1);
    case EMU_LANEMASK_GE:
        return ~(equal - 1);
    default:
        return ~(equal | (equal - 1));
    }
}

// Blocks are clusters of their own.
static uint64_t of_grid(const struct emu_warp *warp, unsigned special, uint32_t axis)
{
    const struct emu_exec *exec = warp->block->exec;
    switch (special) {
    case EMU_NTID:
        return exec->launch->block[axis];
    case EMU_CTAID:
    case EMU_CLUSTERID:
        return warp->block->id[axis];
    case EMU_NCTAID:
    case EMU_NCLUSTERID:
        return exec->launch->grid[axis];
    case EMU_CLUSTER_NCTAID:
    case EMU_CLUSTER_NCTARANK:
        return 1;
    case EMU_SMID:
        return exec->config->multiprocessors > 0
                   ? warp->block->linear % (uint64_t)exec->config->multiprocessors
                   : 0;
    case EMU_NSMID:
        return (uint64_t)exec->config->multiprocessors;
    case EMU_GRIDID:
        return exec->launch->grid_id;
    case EMU_NWARPID:
        return (uint64_t)exec->config->gpu->threads_per_sm / EMU_LANES;
    case EMU_DYNAMIC_SMEM_SIZE:
        return exec->launch->dynamic_shared;
    case EMU_TOTAL_SMEM_SIZE:
        return exec->shared_bytes;
    default:
        return 0;
    }
}

bool emu_special_by_lane(uint8_t special)
{
    return special == EMU_TID || special == EMU_LANEID ||
           (special >= EMU_LANEMASK_EQ && special <= EMU_LANEMASK_GT);
}

uint64_t emu_special(struct emu_warp *warp, uint8_t special, uint32_t axis, unsigned lane)
{
    axis = axis < 3 ? axis : 2;
    switch (special) {
    case EMU_TID:
        return thread_index(warp, axis, lane);
    case EMU_LANEID:
        return lane;
    case EMU_WARPID:
        return warp->index;
    case EMU_LANEMASK_EQ:
    case EMU_LANEMASK_LE:
    case EMU_LANEMASK_LT:
    case EMU_LANEMASK_GE:
    case EMU_LANEMASK_GT:
        return lane_mask(special, lane);
    case EMU_CLOCK:
        return (uint32_t)warp->block->worker->executed;
    case EMU_CLOCK_HI:
        return warp->block->worker->executed >> 32;
    case EMU_CLOCK64:
        return warp->block->worker->executed;
    case EMU_GLOBALTIMER:
        return nanoseconds();
    case EMU_GLOBALTIMER_LO:
        return (uint32_t)nanoseconds();
    case EMU_GLOBALTIMER_HI:
        return nanoseconds() >> 32;
    default:
        return of_grid(warp, special, axis);
    }
}

// ---- calls --------------------------------------------------------------------------------------

static void pass_undefined(struct emu_warp *warp, const struct emu_op *call,
                           const struct emu_value *from, const uint32_t *from_init,
                           const struct emu_value *to, uint32_t *to_init, uint32_t mask)
{
    struct emu_undefined_lanes u;
    uint32_t open = emu_undefined_in(from_init, from, mask);
    if (!open)
        return;
    emu_undefined_fetch(warp, from_init, call, from, open, &u);
    emu_undefined_put(warp, to_init, to, open, &u);
}

// The value lies in one frame, the register in another.
static void pass(struct emu_warp *warp, const struct emu_op *op, unsigned char *from,
                 uint32_t *from_init, const struct emu_value *value, const struct emu_code *code,
                 unsigned char *to, uint32_t *to_init, uint32_t index, uint32_t mask)
{
    alignas(64) uint64_t scratch[EMU_LANES];
    const struct emu_register *r = &code->function->registers[index];
    struct emu_value target = { .place = EMU_AT_SLOT,
                                .width = value->want,
                                .want = value->want,
                                .bits = (uint8_t)emu_bits(r->type),
                                .direct = true,
                                .at = code->slots[index],
                                .reg = index };
    emu_put(to, to_init, &target, mask, emu_fetch(warp, from, value, scratch));
    pass_undefined(warp, op, value, from_init, &target, to_init, mask);
}

bool emu_do_call(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    uint32_t callee = op->insn->target;
    const struct emu_code *code = &program->codes[callee];
    if (warp->depth + 1 >= EMU_MAX_DEPTH)
        return emu_fault(warp, op->insn, emu_first(mask), EMU_HARDWARE_STACK,
                         "calls nested deeper than %u", (unsigned)EMU_MAX_DEPTH);
    if (!emu_warp_grow(warp, warp->depth + 1))
        return emu_fault(warp, op->insn, emu_first(mask), EMU_HARDWARE_STACK,
                         "no host memory for the registers of calls nested %u deep",
                         (unsigned)warp->depth + 1);
    unsigned char *from = emu_frame(warp, warp->depth, program, warp->code);
    unsigned char *to = emu_frame(warp, warp->depth + 1, program, callee);
    uint32_t *from_init = emu_init(warp, warp->depth, program, warp->code);
    uint32_t *to_init = emu_init(warp, warp->depth + 1, program, callee);
    for (uint32_t i = 0; to_init && i < code->function->register_count; i++)
        to_init[i] &= ~mask;
    emu_undefined_enter(warp, to_init, code->function->register_count, mask);
    for (unsigned k = 0; k < op->src_count; k++)
        pass(warp, op, from, from_init, &op->src[k], code, to, to_init,
             code->function->arguments[k], mask);
    const struct emu_function *caller = program->codes[warp->code].function;
    uint32_t frame = (caller->local_bytes + 15) / 16 * 16;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        warp->returns[warp->depth * EMU_LANES + i] =
            (struct emu_return) { warp->code, warp->pc, warp->local_base[i] };
        if (warp->local_base[i] + frame + code->function->local_bytes >
            warp->block->exec->local_bytes)
            return emu_fault(warp, op->insn, i, EMU_HARDWARE_STACK, "local memory of calls spent");
        warp->local_base[i] += frame;
        warp->lane_depth[i] = warp->depth + 1;
        warp->lane_code[i] = callee;
        warp->lane_pc[i] = 0;
    }
    warp->active &= ~mask;
    warp->leave = true;
    return true;
}

// Back to the caller, whose results are the destinations of its call.
static void give_back(struct emu_warp *warp, const struct emu_op *op, uint32_t lanes,
                      uint32_t caller, uint32_t pc)
{
    const struct emu_program *program = warp->block->exec->program;
    const struct emu_code *code = &program->codes[warp->code];
    const struct emu_op *call = &program->codes[caller].ops[pc - 1];
    unsigned char *from = emu_frame(warp, warp->depth, program, warp->code);
    unsigned char *to = emu_frame(warp, warp->depth - 1, program, caller);
    uint32_t *from_init = emu_init(warp, warp->depth, program, warp->code);
    uint32_t *to_init = emu_init(warp, warp->depth - 1, program, caller);
    for (unsigned k = 0; k < call->dst_count; k++) {
        uint32_t result = code->function->results[k];
        emu_put(to, to_init, &call->dst[k], lanes, from + code->slots[result]);
        const struct emu_value given = { .place = EMU_AT_SLOT,
                                         .want = call->dst[k].want,
                                         .bits = (uint8_t)emu_bits(
                                             code->function->registers[result].type),
                                         .reg = result };
        pass_undefined(warp, op, &given, from_init, &call->dst[k], to_init, lanes);
    }
}

bool emu_do_return(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    if (warp->depth == 0) {
        emu_warp_exit(warp, mask, op->insn ? op->insn->line : 0);
        return true;
    }
    struct emu_return *returns = warp->returns + (size_t)(warp->depth - 1) * EMU_LANES;
    while (mask) {
        struct emu_return to = returns[emu_first(mask)];
        uint32_t same = 0;
        for (uint32_t m = mask; m; m &= m - 1) {
            unsigned i = emu_first(m);
            if (returns[i].code == to.code && returns[i].pc == to.pc)
                same |= 1u << i;
        }
        give_back(warp, op, same, to.code, to.pc);
        for (uint32_t m = same; m; m &= m - 1) {
            unsigned i = emu_first(m);
            warp->lane_depth[i] = warp->depth - 1;
            warp->lane_code[i] = to.code;
            warp->lane_pc[i] = to.pc;
            warp->local_base[i] = returns[i].local_base;
        }
        warp->active &= ~same;
        mask &= ~same;
    }
    warp->leave = true;
    return true;
}

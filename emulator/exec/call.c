// SPDX-License-Identifier: MIT
// Calls: copies arguments to the registers of the function, and results back to the caller.
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "warps.h"

#include <stdalign.h>

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

// The value is in one frame, the register in another.
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

// Whether the function has the parameters that the call passes.
static bool agrees(const struct emu_exec *exec, const struct emu_op *op, uint32_t callee)
{
    const struct emu_function *wanted = &exec->launch->module->functions[op->insn->target];
    const struct emu_function *f = exec->program->codes[callee].function;
    if (f->argument_count != wanted->argument_count || f->result_count != wanted->result_count)
        return false;
    for (uint32_t k = 0; k < f->argument_count; k++)
        if (emu_bits(f->registers[f->arguments[k]].type) !=
            emu_bits(wanted->registers[wanted->arguments[k]].type))
            return false;
    for (uint32_t k = 0; k < f->result_count; k++)
        if (emu_bits(f->registers[f->results[k]].type) !=
            emu_bits(wanted->registers[wanted->results[k]].type))
            return false;
    return true;
}

// The function at an address. UINT32_MAX: reported.
static uint32_t function_at(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                            uint64_t address)
{
    const struct emu_exec *exec = warp->block->exec;
    const struct emu_module *module = exec->launch->module;
    const uint64_t offset = address - exec->launch->global_base - module->code_at;
    const uint64_t index = offset / EMU_FUNCTION_STEP;
    const bool any = module->code_at != 0 || module->global_bytes != 0;
    if (!any || offset % EMU_FUNCTION_STEP || index >= exec->program->count ||
        !exec->program->codes[index].function || module->functions[index].is_entry) {
        emu_fault(warp, op->insn, lane, EMU_ILLEGAL_INSTRUCTION,
                  "call of 0x%llx, which is no function of this module",
                  (unsigned long long)address);
        return UINT32_MAX;
    }
    if (!agrees(exec, op, (uint32_t)index)) {
        emu_fault(warp, op->insn, lane, EMU_ILLEGAL_INSTRUCTION,
                  "call of %s with parameters that it does not have",
                  module->functions[index].name);
        return UINT32_MAX;
    }
    return (uint32_t)index;
}

static bool call(struct emu_warp *warp, const struct emu_op *op, uint32_t mask, uint32_t callee)
{
    const struct emu_program *program = warp->block->exec->program;
    const struct emu_code *code = &program->codes[callee];
    if (code->function->system)
        return emu_do_system(warp, op, mask, (enum emu_system)code->function->system);
    if (warp->depth + 1 >= EMU_MAX_DEPTH)
        return emu_fault(warp, op->insn, emu_first(mask), EMU_HARDWARE_STACK,
                         "calls nested deeper than %u, the emulator's limit",
                         (unsigned)EMU_MAX_DEPTH);
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
    for (unsigned k = 0; k < code->function->argument_count; k++)
        pass(warp, op, from, from_init, &op->src[k], code, to, to_init,
             code->function->arguments[k], mask);
    const struct emu_function *caller = program->codes[warp->code].function;
    uint32_t frame = (caller->local_bytes + 15) / 16 * 16;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        warp->returns[warp->depth * EMU_LANES + i] =
            (struct emu_return) { warp->code, warp->pc, warp->local_base[i], warp->stack_top[i] };
        if (warp->local_base[i] + frame + code->function->local_bytes > warp->stack_top[i])
            return emu_fault(warp, op->insn, i, EMU_HARDWARE_STACK,
                             "the calls need more local memory than the %llu bytes a thread has",
                             (unsigned long long)warp->block->exec->local_bytes);
        warp->local_base[i] += frame;
        warp->lane_depth[i] = warp->depth + 1;
        warp->lane_code[i] = callee;
        warp->lane_pc[i] = 0;
    }
    warp->active &= ~mask;
    warp->leave = true;
    return true;
}

bool emu_do_call(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    alignas(64) uint64_t scratch[EMU_LANES], at[EMU_LANES];
    const struct emu_program *program = warp->block->exec->program;
    if (op->insn->mode != EMU_MODE_INDIRECT)
        return call(warp, op, mask, op->insn->target);
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    memcpy(at, emu_fetch(warp, frame, &op->src[op->src_count - 1], scratch), sizeof(at));
    while (mask) {
        const unsigned first = emu_first(mask);
        uint32_t same = 0;
        for (uint32_t m = mask; m; m &= m - 1)
            same |= at[emu_first(m)] == at[first] ? 1u << emu_first(m) : 0;
        const uint32_t callee = function_at(warp, op, first, at[first]);
        if (callee == UINT32_MAX || !call(warp, op, same, callee))
            return false;
        mask &= ~same;
    }
    return true;
}

// Returns to the caller. The results are the destinations of its call.
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
            warp->stack_top[i] = returns[i].stack_top;
        }
        warp->active &= ~same;
        mask &= ~same;
    }
    warp->leave = true;
    return true;
}

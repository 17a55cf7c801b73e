// SPDX-License-Identifier: MIT
// alloca, stacksave and stackrestore. What alloca gives lies at the end of a thread's local memory,
// from the top down; the variables of functions are at its beginning. It ends with its function.
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/report.h"

#include <stdalign.h>

static uint64_t align_of(const struct emu_op *op)
{
    return op->src_count > 1 ? op->src[1].operand->bits : 8;
}

static bool allocate(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t bytes,
                     uint64_t *address)
{
    const struct emu_exec *exec = warp->block->exec;
    const struct emu_function *f = exec->program->codes[warp->code].function;
    const uint64_t least = warp->local_base[lane] + f->local_bytes, top = warp->stack_top[lane];
    if (bytes > top - least || ((top - bytes) & ~(align_of(op) - 1)) < least)
        return emu_fault(warp, op->insn, lane, EMU_HARDWARE_STACK,
                         "alloca of %llu bytes, but %llu of the thread's %u are left",
                         (unsigned long long)bytes, (unsigned long long)(top - least),
                         (unsigned)EMU_ALLOCA_BYTES);
    *address = warp->stack_top[lane] = (top - bytes) & ~(align_of(op) - 1);
    if (warp->local_shadow)
        memset(warp->local_shadow + lane * exec->local_bytes + *address, 0, bytes);
    return true;
}

static bool restore(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t top)
{
    if (top < warp->stack_top[lane] || top > warp->block->exec->local_bytes)
        return emu_fault(warp, op->insn, lane, EMU_HARDWARE_STACK,
                         "stackrestore of 0x%llx, which stacksave did not give",
                         (unsigned long long)top);
    warp->stack_top[lane] = top;
    return true;
}

bool emu_do_stack(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[EMU_LANES], results[EMU_LANES] = { 0 };
    const void *lanes = op->src_count ? emu_fetch(warp, frame, &op->src[0], scratch) : NULL;
    for (uint32_t m = mask; m; m &= m - 1) {
        const unsigned i = emu_first(m);
        const uint64_t value = lanes ? emu_lane_of(&op->src[0], lanes, i) : 0;
        bool fine = true;
        if (op->insn->mode == EMU_MODE_ALLOCATE)
            fine = allocate(warp, op, i, value, &results[i]);
        else if (op->insn->mode == EMU_MODE_RESTORE)
            fine = restore(warp, op, i, value);
        else
            results[i] = warp->stack_top[i];
        if (!fine)
            return false;
    }
    if (op->dst_count)
        emu_put_longs(frame, init, &op->dst[0], mask, results);
    return true;
}

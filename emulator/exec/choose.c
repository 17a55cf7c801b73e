// SPDX-License-Identifier: MIT
// The step of an instruction, chosen when it is decoded.
#include "step.h"

extern const struct emu_step_build emu_steps_plain;
#ifdef EMU_HAVE_AVX2
extern const struct emu_step_build emu_steps_avx2;
#else
#define emu_steps_avx2 emu_steps_plain
#endif

static const struct emu_step_build *steps_of(enum emu_lane_build build)
{
    return build == EMU_LANES_AVX2 ? &emu_steps_avx2 : &emu_steps_plain;
}

static bool is_register_step(const struct emu_op *op)
{
    for (unsigned k = 0; k < op->src_count; k++)
        if (op->src[k].place == EMU_AT_SPECIAL) // the clock counts what has run
            return false;
    switch (op->handler) {
    case EMU_DO_LANES:
    case EMU_DO_FLOAT:
    case EMU_DO_FLOAT_PAIR:
    case EMU_DO_COMPARE:
    case EMU_DO_COMPARE_PAIR:
    case EMU_DO_CARRY:
    case EMU_DO_MOVE:
    case EMU_DO_TRUTH:
    case EMU_DO_ADDRESS:
        return true;
    default:
        return false;
    }
}

void emu_choose_step(struct emu_op *op)
{
    const struct emu_step_build *build = steps_of(emu_lane_build());
    emu_step *step = build->lanes(op);
    step = step ? step : build->access(op);
    if (!step)
        step = op->handler == EMU_DO_BRANCH ? emu_step_branch
               : is_register_step(op)       ? emu_step_registers
                                            : emu_step_any;
    op->guarded = step;
    op->step = op->guard == EMU_NO_REGISTER ? step : build->guarded;
}

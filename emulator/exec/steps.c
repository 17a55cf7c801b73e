// SPDX-License-Identifier: MIT
// Steps of instructions that apply a lane function to registers and constants as they are stored,
// and the guard of any instruction. As the lane functions, this is compiled once for any processor
// and once for AVX2.
#include "lanes/family.h"
#include "step.h"

#define ALWAYS inline __attribute__((always_inline))

// The lanes of the mask from `fresh`, the others unchanged. Without branches, so that compilers
// vectorise it.
static ALWAYS void blend_words(uint32_t *restrict to, const uint32_t *restrict fresh, uint32_t mask)
{
    EMU_FOR_LANES
    {
        uint32_t keep = (mask & bit_of_lane[i]) == 0 ? UINT32_MAX : 0;
        to[i] = (to[i] & keep) | (fresh[i] & ~keep);
    }
}

static ALWAYS void blend_longs(uint64_t *restrict to, const uint64_t *restrict fresh, uint32_t mask)
{
    EMU_FOR_LANES
    {
        uint64_t keep = (mask & bit_of_lane[i]) == 0 ? UINT64_MAX : 0;
        to[i] = (to[i] & keep) | (fresh[i] & ~keep);
    }
}

static ALWAYS void keep(struct emu_running *run, const struct emu_op *op, enum emu_width width,
                        uint32_t mask)
{
    void *to = run->pools[0] + op->to[0];
    if (width == EMU_LONG) {
        blend_longs(to, (const void *)run->result, mask);
    } else if (width == EMU_WORD) {
        blend_words(to, (const void *)run->result, mask);
    } else {
        uint32_t old, fresh;
        memcpy(&old, to, sizeof(old));
        memcpy(&fresh, run->result, sizeof(fresh));
        fresh = (old & ~mask) | (fresh & mask);
        memcpy(to, &fresh, sizeof(fresh));
    }
}

static ALWAYS const void *source(const struct emu_running *run, const struct emu_op *op,
                                 unsigned sources, unsigned k)
{
    return k < sources ? run->pools[op->pool[k]] + op->from[k] : NULL;
}

// The result goes through a scratch, because its register keeps some lanes.
#define SOME_LANES(name, width)                                                                    \
    __attribute__((noinline)) static bool some_lanes_##name(                                       \
        struct emu_running *run, const struct emu_op *op, uint32_t mask)                           \
    {                                                                                              \
        op->fn(run->result, source(run, op, 4, 0), source(run, op, 4, 1), source(run, op, 4, 2),   \
               source(run, op, 4, 3), op->insn);                                                   \
        keep(run, op, width, mask);                                                                \
        return true;                                                                               \
    }
SOME_LANES(mask, EMU_MASK)
SOME_LANES(word, EMU_WORD)
SOME_LANES(long, EMU_LONG)

// If all lanes of the warp run it, the result fills its register, including the lanes of threads
// that the block does not have. Nothing reads these: shuffles take zero for them.
static ALWAYS bool run_lanes(struct emu_running *run, const struct emu_op *op, uint32_t mask,
                             unsigned sources, enum emu_width width, bool reads)
{
    uint32_t *const init = run->init;
    if (init && reads) {
        uint32_t defined = mask;
        for (unsigned k = 0; k < sources; k++)
            defined &= init[op->reads[k]];
        if (defined != mask)
            return emu_step_any(run, op, mask);
    }
    if (init)
        init[op->writes[0]] |= mask;
    if (mask == run->exists)
        return op->fn(run->pools[0] + op->to[0], source(run, op, sources, 0),
                      source(run, op, sources, 1), source(run, op, sources, 2),
                      source(run, op, sources, 3), op->insn);
    return width == EMU_MASK   ? some_lanes_mask(run, op, mask)
           : width == EMU_WORD ? some_lanes_word(run, op, mask)
                               : some_lanes_long(run, op, mask);
}

#define LANES(sources, name, width)                                                                \
    static bool lanes_##sources##_##name(struct emu_running *run, const struct emu_op *op,         \
                                         uint32_t mask)                                            \
    {                                                                                              \
        return run_lanes(run, op, mask, sources, width, true);                                     \
    }
#define WIDTHS(sources)                                                                            \
    LANES(sources, mask, EMU_MASK)                                                                 \
    LANES(sources, word, EMU_WORD)                                                                 \
    LANES(sources, long, EMU_LONG)
WIDTHS(1)
WIDTHS(2)
WIDTHS(3)
WIDTHS(4)

// Of constants alone.
static bool lanes_constant(struct emu_running *run, const struct emu_op *op, uint32_t mask)
{
    return op->dst[0].want == EMU_LONG   ? run_lanes(run, op, mask, 4, EMU_LONG, false)
           : op->dst[0].want == EMU_WORD ? run_lanes(run, op, mask, 4, EMU_WORD, false)
                                         : run_lanes(run, op, mask, 4, EMU_MASK, false);
}

static emu_step *lanes_step(const struct emu_op *op)
{
    static emu_step *const steps[4][3] = {
        { lanes_1_mask, lanes_1_word, lanes_1_long },
        { lanes_2_mask, lanes_2_word, lanes_2_long },
        { lanes_3_mask, lanes_3_word, lanes_3_long },
        { lanes_4_mask, lanes_4_word, lanes_4_long },
    };
    const bool plain = op->handler == EMU_DO_LANES ||
                       (op->handler == EMU_DO_COMPARE && !op->is_float && op->dst_count == 1 &&
                        op->insn->boolean == EMU_BOOL_NONE && op->dst[0].want == EMU_MASK);
    bool reads = false;
    if (!plain || op->src_count < 1 || op->src_count > 4 || op->dst[0].place != EMU_AT_SLOT ||
        !op->dst[0].direct)
        return NULL;
    for (unsigned k = 0; k < op->src_count; k++) {
        if (!op->src[k].direct)
            return NULL;
        reads |= op->src[k].place == EMU_AT_SLOT;
    }
    return reads ? steps[op->src_count - 1][op->dst[0].want / 4] : lanes_constant;
}

static bool guarded(struct emu_running *run, const struct emu_op *op, uint32_t mask)
{
    const uint32_t holds = emu_guarded(op, run->pools[0], mask);
    const bool open = run->init && mask & ~run->init[op->guard_register];
    if (holds != mask)
        run->lanes -= run->group_lanes - emu_count(holds);
    if (open)
        return emu_step_any(run, op, holds);
    return holds == 0 || op->guarded(run, op, holds);
}

extern const struct emu_step_build EMU_NAMED(emu_steps);
const struct emu_step_build EMU_NAMED(emu_steps) = { guarded, lanes_step,
                                                     EMU_NAMED(emu_access_step) };

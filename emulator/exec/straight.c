// SPDX-License-Identifier: MIT
// Straight pieces of code: instructions one after the other that only apply a lane function to
// registers and constants as they are stored, without a guard. While all lanes of a warp are
// active, a piece runs with little more than the calls of its functions.
//
// A result then fills its register, including the lanes of threads that the block does not have.
// Nothing reads these: shuffles take zero for them.
#include "straight.h"

#include <stdalign.h>
#include <stdlib.h>

static bool is_straight(const struct emu_op *op)
{
    bool plain = op->handler == EMU_DO_LANES ||
                 (op->handler == EMU_DO_COMPARE && !op->is_float && op->dst_count == 1 &&
                  op->insn->boolean == EMU_BOOL_NONE && op->dst[0].want == EMU_MASK);
    if (!plain || op->guard != EMU_NO_REGISTER || op->src_count > EMU_STRAIGHT_SOURCES ||
        op->dst[0].place != EMU_AT_SLOT || !op->dst[0].direct)
        return false;
    for (unsigned k = 0; k < op->src_count; k++)
        if (!op->src[k].direct)
            return false;
    return true;
}

static struct emu_straight straight_of(const struct emu_op *op, uint32_t following)
{
    struct emu_straight s = { .fn = op->fn, .insn = op->insn, .count = following + 1 };
    s.to = op->dst[0].at;
    s.writes = op->dst[0].reg;
    s.bytes = op->dst[0].want ? (uint16_t)(op->dst[0].want * EMU_LANES) : sizeof(uint32_t);
    s.in_place = op->in_place;
    s.source_count = (uint8_t)op->src_count; // of a lane function
    for (unsigned k = 0; k < op->src_count; k++) {
        s.from[k] = op->src[k].at;
        s.constant[k] = op->src[k].place == EMU_AT_CONST;
        if (!s.constant[k])
            s.reads[s.read_count++] = op->src[k].reg;
    }
    return s;
}

bool emu_straight_find(struct emu_code *code)
{
    uint32_t following = 0;
    code->straight = calloc((size_t)code->count + 1, sizeof(*code->straight));
    if (!code->straight)
        return false;
    for (uint32_t i = code->count; i-- > 0;) {
        if (!is_straight(&code->ops[i])) {
            following = 0;
            continue;
        }
        code->straight[i] = straight_of(&code->ops[i], following);
        following++;
    }
    return true;
}

static bool defined(const struct emu_straight *at, const uint32_t *init, uint32_t mask)
{
    uint32_t lanes = mask;
    for (unsigned k = 0; k < at->read_count; k++)
        lanes &= init[at->reads[k]];
    return lanes == mask;
}

// In sizes that compilers copy without a call.
static inline void copy_lanes(unsigned char *to, const unsigned char *from, unsigned bytes)
{
    if (bytes == sizeof(uint32_t) * EMU_LANES)
        memcpy(to, from, sizeof(uint32_t) * EMU_LANES);
    else if (bytes == sizeof(uint64_t) * EMU_LANES)
        memcpy(to, from, sizeof(uint64_t) * EMU_LANES);
    else
        memcpy(to, from, sizeof(uint32_t));
}

uint32_t emu_straight_run(const struct emu_code *code, uint32_t pc, uint32_t count,
                          unsigned char *frame, uint32_t *init, uint32_t mask)
{
    alignas(64) unsigned char result[EMU_LANES * 8];
    const void *sources[EMU_STRAIGHT_SOURCES];
    const struct emu_straight *at = &code->straight[pc];
    const unsigned char *const pools[2] = { frame, code->constants };
    for (uint32_t i = 0; i < count; i++, at++) {
        if (init && !defined(at, init, mask))
            return i;
        sources[0] = pools[at->constant[0]] + at->from[0];
        sources[1] = pools[at->constant[1]] + at->from[1];
        sources[2] = pools[at->constant[2]] + at->from[2];
        if (at->source_count > 3)
            sources[3] = pools[at->constant[3]] + at->from[3];
        if (at->in_place) {
            at->fn(frame + at->to, sources, at->insn);
        } else {
            at->fn(result, sources, at->insn);
            copy_lanes(frame + at->to, result, at->bytes);
        }
        if (init)
            init[at->writes] |= mask;
    }
    return count;
}

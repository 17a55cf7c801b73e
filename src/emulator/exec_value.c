// SPDX-License-Identifier: MIT
// Operands as lanes: what an instruction reads, and where its results go.
#include "exec.h"

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

void emu_put_direct(unsigned char *frame, const struct emu_value *value, uint32_t mask,
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
        emu_put_direct(frame, value, mask, lanes);
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

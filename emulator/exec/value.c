// SPDX-License-Identifier: MIT
// Operands as lanes: what an instruction reads, and where its results go.
#include "warp.h"

#include <stdalign.h>

const uint32_t emu_bit_of_lane[EMU_LANES] = {
#define BITS(k) 1u << (k), 1u << ((k) + 1), 1u << ((k) + 2), 1u << ((k) + 3)
    BITS(0), BITS(4), BITS(8), BITS(12), BITS(16), BITS(20), BITS(24), BITS(28),
#undef BITS
};

// Lanes of `fresh` where the mask says so, else as they were. Without branches, so that compilers
// make vectors of it.
static inline void blend_words(uint32_t *restrict to, const uint32_t *restrict fresh, uint32_t mask)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t keep = (mask & emu_bit_of_lane[i]) == 0 ? UINT32_MAX : 0;
        to[i] = (to[i] & keep) | (fresh[i] & ~keep);
    }
}

static inline void blend_longs(uint64_t *restrict to, const uint64_t *restrict fresh, uint32_t mask)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t keep = (uint64_t)(mask >> i & 1) - 1;
        to[i] = (to[i] & keep) | (fresh[i] & ~keep);
    }
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

void emu_put_longs(unsigned char *frame, uint32_t *init, const struct emu_value *value,
                   uint32_t mask, const uint64_t *longs)
{
    alignas(64) uint32_t words[EMU_LANES];
    if (value->want == EMU_LONG) {
        emu_put(frame, init, value, mask, longs);
        return;
    }
    for (unsigned i = 0; i < EMU_LANES; i++)
        words[i] = (uint32_t)longs[i];
    emu_put(frame, init, value, mask, words);
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

// A register that is wider or narrower than what is wanted.
static const void *other_width(const unsigned char *at, uint8_t width, void *scratch)
{
    const uint32_t *words = (const void *)at;
    const uint64_t *longs = (const void *)at;
    uint32_t *to_words = scratch;
    uint64_t *to_longs = scratch;
    for (unsigned i = 0; width == EMU_WORD && i < EMU_LANES; i++)
        to_longs[i] = words[i];
    for (unsigned i = 0; width == EMU_LONG && i < EMU_LANES; i++)
        to_words[i] = (uint32_t)longs[i];
    return scratch;
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
    if (value->place == EMU_AT_SLOT && value->width != value->want)
        return other_width(frame + value->at, value->width, scratch);
    bool same = value->place == EMU_AT_SPECIAL && !emu_special_by_lane(value->operand->special);
    uint64_t first = slow_lane(warp, frame, value, 0);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint64_t x = same || i == 0 ? first : slow_lane(warp, frame, value, i);
        uint32_t low = (uint32_t)x;
        if (value->want == EMU_LONG)
            memcpy((unsigned char *)scratch + 8 * i, &x, 8);
        else
            memcpy((unsigned char *)scratch + 4 * i, &low, 4);
    }
    return scratch;
}

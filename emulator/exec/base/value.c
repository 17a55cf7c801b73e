// SPDX-License-Identifier: MIT
// Operands as lanes: the values that an instruction reads, including special registers, and where
// its results are stored.
#include "value.h"

#include <stdalign.h>
#include <time.h>

const uint32_t emu_bit_of_lane[EMU_LANES] = {
#define BITS(k) 1u << (k), 1u << ((k) + 1), 1u << ((k) + 2), 1u << ((k) + 3)
    BITS(0), BITS(4), BITS(8), BITS(12), BITS(16), BITS(20), BITS(24), BITS(28),
#undef BITS
};

// The lanes of the mask from `fresh`, the others unchanged. Without branches, so that compilers
// vectorise it.
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

void emu_move_parts(const struct emu_op *op, const uint64_t (*from)[EMU_LANES],
                    uint64_t (*to)[EMU_LANES])
{
    unsigned bits = op->bytes * 8u;
    if (op->insn->lanes > 1) { // a vector, element by element
        memcpy(to, from, op->src_count * sizeof(*to));
        return;
    }
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

// For a register that is wider or narrower than the operand.
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

// Each block is its own cluster.
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
    case EMU_AGGR_SMEM_SIZE: // no memory is reserved
        return exec->shared_bytes;
    default:
        return 0;
    }
}

// The address of the grid's workspace, with which the grid barrier of CUDA's cooperative groups
// works: its high half and its low half. The manual leaves the contents to the driver.
static uint64_t environment(const struct emu_exec *exec, uint32_t number)
{
    return number == 1 ? exec->workspace >> 32 : number == 2 ? (uint32_t)exec->workspace : 0;
}

bool emu_special_by_lane(uint8_t special)
{
    return special == EMU_TID || special == EMU_LANEID ||
           (special >= EMU_LANEMASK_EQ && special <= EMU_LANEMASK_GT);
}

uint64_t emu_special(struct emu_warp *warp, uint8_t special, uint32_t axis, unsigned lane)
{
    if (special == EMU_ENVREG)
        return environment(warp->block->exec, axis);
    if (axis > 2) // .w
        return 0;
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

// SPDX-License-Identifier: MIT
// Operands as lanes.
#ifndef PTXGEN_EMULATOR_EXEC_BASE_VALUE_H
#define PTXGEN_EMULATOR_EXEC_BASE_VALUE_H

#include "state.h"

// The result of a move of parts, lane by lane.
void emu_move_parts(const struct emu_op *op, const uint64_t (*from)[EMU_LANES],
                    uint64_t (*to)[EMU_LANES]);
// Operands.
const void *emu_fetch_other(struct emu_warp *warp, unsigned char *frame,
                            const struct emu_value *value, void *scratch);
uint64_t emu_special(struct emu_warp *warp, uint8_t special, uint32_t axis, unsigned lane);
// Whether a special register differs between the lanes of a warp.
bool emu_special_by_lane(uint8_t special);
void emu_put_direct(unsigned char *frame, const struct emu_value *value, uint32_t mask,
                    const void *lanes);
void emu_put(unsigned char *frame, uint32_t *init, const struct emu_value *value, uint32_t mask,
             const void *lanes);
// Converts 64-bit lanes to the storage of the register.
void emu_put_longs(unsigned char *frame, uint32_t *init, const struct emu_value *value,
                   uint32_t mask, const uint64_t *longs);

// The operand's lanes or mask; `scratch` has room for them if they must be computed.
static inline const void *emu_fetch(struct emu_warp *warp, unsigned char *frame,
                                    const struct emu_value *value, void *scratch)
{
    if (value->direct)
        return value->constant ? value->constant : frame + value->at;
    return emu_fetch_other(warp, frame, value, scratch);
}

// Lane i of what emu_fetch() returned for this value.
static inline uint64_t emu_lane_of(const struct emu_value *value, const void *lanes, unsigned i)
{
    return value->want == EMU_LONG ? ((const uint64_t *)lanes)[i] : ((const uint32_t *)lanes)[i];
}

struct emu_sources {
    alignas(64) unsigned char scratch[4][EMU_LANES * 8];
    const void *at[4];
};

static inline void emu_fetch_all(struct emu_warp *warp, unsigned char *frame,
                                 const struct emu_op *op, struct emu_sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++)
        s->at[k] = emu_fetch(warp, frame, &op->src[k], s->scratch[k]);
}

#endif

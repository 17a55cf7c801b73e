// SPDX-License-Identifier: MIT
// Undefined bits of registers and memory.
#ifndef PTXGEN_EMULATOR_EXEC_CHECK_UNDEFINED_H
#define PTXGEN_EMULATOR_EXEC_CHECK_UNDEFINED_H

#include "exec/base/state.h"

#define EMU_TO_HOST "uninitialised value is stored to pinned or managed memory; it comes from %s"

// An instruction of which a guard or a source is undefined in some lanes. False if what it decides
// ends the launch.
bool emu_undefined_allows(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                          uint32_t mask);
// Whether it computes its results from registers alone; and which of their bits are undefined then.
// Call this before the instruction runs, and emu_undefined_put() for each result afterwards.
bool emu_undefined_computes(const struct emu_op *op);
void emu_undefined_compute(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                           const struct emu_op *op, uint32_t mask,
                           struct emu_undefined_lanes *results);
// Drops all records: every register counts as never written.
void emu_undefined_clear(struct emu_warp *warp);
// The same for the registers of a function that the lanes of the mask call.
void emu_undefined_enter(struct emu_warp *warp, const uint32_t *init, uint32_t registers,
                         uint32_t mask);

// The lanes of the mask in which the operand is open. `init` may be NULL.
static inline uint32_t emu_undefined_in(const uint32_t *init, const struct emu_value *value,
                                        uint32_t mask)
{
    return init && value->place == EMU_AT_SLOT ? mask & ~init[value->reg] : 0;
}

// The origin of what a shuffle reads from a lane that does not take part; `why` says why not.
uint32_t emu_origin_of_lane(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                            const char *why);
// The undefined bits of a source, in the width that emu_fetch() gives it.
void emu_undefined_fetch(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                         const struct emu_value *value, uint32_t mask,
                         struct emu_undefined_lanes *lanes);
// Records the undefined bits of a result. Call it after emu_put().
void emu_undefined_put(struct emu_warp *warp, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, const struct emu_undefined_lanes *lanes);
// The undefined bits of an element of memory that a lane reads. `address` is the instruction's.
struct emu_undefined emu_undefined_load(struct emu_warp *warp, const struct emu_op *op,
                                        uint64_t address, const unsigned char *shadow,
                                        uint32_t bytes);
void emu_undefined_store(struct emu_warp *warp, unsigned char *shadow, uint32_t bytes,
                         struct emu_undefined value);
// Reports the source if it is open in a lane of the mask. False if that ends the launch.
bool emu_undefined_decides(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                           const struct emu_value *value, uint32_t mask, enum emu_finding kind);

#endif

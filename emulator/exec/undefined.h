// SPDX-License-Identifier: MIT
// Undefined values in registers: tracked through instructions, reported where they decide
// something.
//
// A set bit of `init` means that the register is fully defined in that lane. An instruction that
// reads only such lanes runs as it would without the sanitizers; any other one runs through
// emu_undefined_step(). For a lane without its bit, the register's record says which bits are
// undefined. A register without a record was never written.
//
// A lane is called open if an operand, or the answer to a question, is undefined in it.
#ifndef PTXGEN_EMULATOR_EXEC_UNDEFINED_H
#define PTXGEN_EMULATOR_EXEC_UNDEFINED_H

#include "warp.h"

// One operand of an instruction.
struct emu_undefined_lanes {
    struct emu_undefined lane[EMU_LANES];
};

#define EMU_TO_HOST "uninitialised value is stored to pinned or managed memory; it comes from %s"

// Runs the instruction and records which bits of its results are undefined. False after a fault.
bool emu_undefined_step(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                        const struct emu_op *op, uint32_t mask);
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

// The undefined bits of the results of an instruction on registers. `x` and `u` are the values and
// the undefined bits of its sources.
void emu_undefined_results(const struct emu_op *op, const uint64_t (*x)[EMU_LANES],
                           const struct emu_undefined_lanes *u,
                           struct emu_undefined_lanes *results);
// Whether the defined bits of two values differ.
bool emu_undefined_differ(uint64_t x, struct emu_undefined ux, uint64_t y, struct emu_undefined uy);
// All bits from the lowest set bit upward.
uint64_t emu_undefined_upward(uint64_t bits);
// The undefined bits of both results of a vote, match or redux over `lanes`. Each lane contributes
// x with the undefined bits u.
void emu_undefined_exchange(const struct emu_op *op, uint32_t lanes, const uint64_t *x,
                            const struct emu_undefined_lanes *u,
                            struct emu_undefined_lanes *results);
// The undefined bits of memory after an atomic operation on `old`.
struct emu_undefined emu_undefined_atomic(const struct emu_insn *insn, uint64_t old,
                                          struct emu_undefined u_old, uint64_t x,
                                          struct emu_undefined u_x, struct emu_undefined u_fresh);

#endif

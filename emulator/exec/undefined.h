// SPDX-License-Identifier: MIT
// Undefined values in registers, carried as they are computed with and reported where they decide.
//
// A bit of `init` says that a register is fully defined in a lane. What reads only such lanes is
// executed without a thought; everything else goes through emu_undefined_step(). Of a lane without
// its bit, the record says which bits are undefined; without a record the register was never
// written.
#ifndef PTXGEN_EMULATOR_EXEC_UNDEFINED_H
#define PTXGEN_EMULATOR_EXEC_UNDEFINED_H

#include "warp.h"

// Lanes of the operands of one instruction.
struct emu_undefined_lanes {
    struct emu_undefined lane[EMU_LANES];
};

#define EMU_TO_HOST "uninitialised value is given to the host, in its memory; it comes from %s"

// Executes the instruction, and finds out what of its results is defined. False after a fault.
bool emu_undefined_step(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                        const struct emu_op *op, uint32_t mask);
// All registers are as never written, in no lane.
void emu_undefined_clear(struct emu_warp *warp);
// The registers of a function that is called by these lanes.
void emu_undefined_enter(struct emu_warp *warp, const uint32_t *init, uint32_t registers,
                         uint32_t mask);

// Lanes of the mask in which the operand has undefined bits.
static inline uint32_t emu_undefined_in(const uint32_t *init, const struct emu_value *value,
                                        uint32_t mask)
{
    return init && value->place == EMU_AT_SLOT ? mask & ~init[value->reg] : 0;
}

// The undefined bits of an operand, as it is fetched.
void emu_undefined_fetch(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                         const struct emu_value *value, uint32_t mask,
                         struct emu_undefined_lanes *lanes);
// After the result was put: what of it is undefined.
void emu_undefined_put(struct emu_warp *warp, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, const struct emu_undefined_lanes *lanes);
// Of an element of memory that a lane reads. `address` is as the instruction has it.
struct emu_undefined emu_undefined_load(struct emu_warp *warp, const struct emu_op *op,
                                        uint64_t address, const unsigned char *shadow,
                                        uint32_t bytes);
void emu_undefined_store(struct emu_warp *warp, unsigned char *shadow, uint32_t bytes,
                         struct emu_undefined value);
// False if a value decides that is undefined in a lane of the mask, and the launch ends there.
bool emu_undefined_decides(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                           const struct emu_value *value, uint32_t mask, enum emu_finding kind);

// What the undefined bits of the sources leave undefined of the results; of operations on
// registers. `x` and `u` are lanes of each source.
void emu_undefined_results(const struct emu_op *op, const uint64_t (*x)[EMU_LANES],
                           const struct emu_undefined_lanes *u,
                           struct emu_undefined_lanes *results);
// Of two values that are compared: whether they are known to differ.
bool emu_undefined_differ(uint64_t x, struct emu_undefined ux, uint64_t y, struct emu_undefined uy);
// From the lowest undefined bit upward.
uint64_t emu_undefined_upward(uint64_t bits);
// Of a vote, match or redux over `lanes`, each of which has x and u: whether the lanes' results,
// and the second one, are undefined.
void emu_undefined_exchange(const struct emu_insn *insn, uint32_t lanes, const uint64_t *x,
                            const struct emu_undefined_lanes *u,
                            struct emu_undefined_lanes *results);
// What memory holds after an atomic operation on `old`.
struct emu_undefined emu_undefined_atomic(const struct emu_insn *insn, uint64_t old,
                                          struct emu_undefined u_old, uint64_t x,
                                          struct emu_undefined u_x, struct emu_undefined u_fresh);

#endif

// SPDX-License-Identifier: MIT
// Undefined bits of results.
#ifndef PTXGEN_EMULATOR_EXEC_CHECK_UNDEFINED_RULES_H
#define PTXGEN_EMULATOR_EXEC_CHECK_UNDEFINED_RULES_H

#include "exec/base/state.h"

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

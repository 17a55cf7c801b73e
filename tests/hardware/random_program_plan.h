// SPDX-License-Identifier: MIT
// Shared by the files that plan random programs.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_PLAN_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_PLAN_H

#include "random_program.h"

struct plan {
    struct program *p;
    struct random r;
    struct operand visible[2 * PROGRAM_NODES];
    unsigned seen;
    unsigned depth;
    enum condition by; // who comes by here
    bool whole;        // once, and with all lanes of a warp that have not returned
    bool left;         // some have returned whom a barrier would wait for
    bool met;
};

static inline unsigned plan_below(struct plan *g, unsigned bound)
{
    return random_below(&g->r, bound);
}

/// Whether there is a value of the type that a node here can take.
bool plan_sees(const struct plan *g, ptx_type type);
struct operand plan_constant(ptx_type type, uint64_t bits);
struct operand plan_operand(struct plan *g, ptx_type type);
/// Bit counts and places. Immediate ones lie within 32 bits: what ptxas makes of others is not what
/// the instruction does (bfe, bfi), or it refuses them.
struct operand plan_place(struct plan *g);
/// A type that is not in the set `without`.
ptx_type plan_any_type(struct plan *g, uint32_t without);

#endif

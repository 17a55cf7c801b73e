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
    enum condition by; // which threads are here
    bool whole;        // executed once, with all lanes of a warp that have not returned
    bool left;         // some threads have returned, and a barrier would wait for them
    bool met;
    bool in_function;
    bool on_subject; // the node is a row of the program's subject
};

static inline unsigned plan_below(struct plan *g, unsigned bound)
{
    return random_below(&g->r, bound);
}

/// True if a node here can use a value of the type.
bool plan_sees(const struct plan *g, ptx_type type);
struct operand plan_constant(ptx_type type, uint64_t bits);
struct operand plan_operand(struct plan *g, ptx_type type);
/// Bit counts and positions. Immediate ones are within 32 bits: for others, ptxas computes
/// something else (bfe, bfi), or refuses them.
struct operand plan_place(struct plan *g);
/// The nodes of later programs: a call of program_rows, functions and their calls.
void plan_row(struct plan *g, struct node *n);
bool plan_can_call(const struct plan *g);
void plan_call(struct plan *g, struct node *n);
void plan_functions(struct plan *g, void nodes(struct plan *g, unsigned count));
/// A type that is not in the set `without`.
ptx_type plan_any_type(struct plan *g, uint32_t without);

#endif

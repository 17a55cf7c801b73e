// SPDX-License-Identifier: MIT
// What is known of the values of a caller's `update`, so that quick quotients check no more than
// the library's rules do: which are NaN if another one is, and which divisors are in range.
#ifndef PTXGEN_KERNELS_STEP_OWN_FLOW_H
#define PTXGEN_KERNELS_STEP_OWN_FLOW_H

#include "quick.h"

enum { PTXK_FLOW_MADE = 256, PTXK_FLOW_ROOTS = 8, PTXK_FLOW_WAITING = 32 };

// Of an element. The latest instructions are kept; of older ones nothing is known.
struct ptxk_flow {
    struct ptxk_quick *quick;
    uint32_t blocks; // that were open before the update
    struct ptxk_flow_made {
        ptx_val result, operand[3];
        ptx_opcode op; // PTX_OP_div and PTX_OP_sqrt: by quick sequences, too
    } made[PTXK_FLOW_MADE];
    uint32_t count; // in all
    // Roots, and their quotients by coefficients from PTXK_QUICK_LEAST on: 0 to 2^33, or NaN. A
    // quotient of such a quotient is none of them.
    struct ptxk_flow_root {
        ptx_val value, scaled; // by PTXK_QUICK_SCALE
        bool divided;
    } root[PTXK_FLOW_ROOTS];
    uint32_t roots;
    ptx_val waiting[PTXK_FLOW_WAITING]; // to be noted, if no other note tells of them
    uint32_t waits;
};

void ptxk_flow_begin(ptx_builder *b, struct ptxk_flow *flow, struct ptxk_quick *quick);
// An instruction of f32s that gives NaN where an operand is NaN, or a maximum; others are left out.
void ptxk_flow_made(struct ptxk_flow *flow, ptx_val result, ptx_opcode op, const ptx_val *operands);
// A root or, divided, a quotient of one by a coefficient.
void ptxk_flow_root(struct ptxk_flow *flow, struct ptxk_flow_root root);
// The scaled value of a root; { 0 }: it is none.
ptx_val ptxk_flow_scaled_root(const struct ptxk_flow *flow, ptx_val value);

// Whether y is a root or the like, or its sum or maximum with a number or a coefficient (one of
// `c`, bits: `coefficients`), which is then checked: it is 0 to 2^34, or NaN. Sets *y to an equal
// value that takes fewer instructions.
bool ptxk_flow_in_range(ptx_builder *b, struct ptxk_flow *flow, const ptx_val *c,
                        uint32_t coefficients, ptx_val *y);

// Notes that NaN is a failure, in a block at once, else at the end.
void ptxk_flow_note(ptx_builder *b, struct ptxk_flow *flow, ptx_val result);
// Notes p, and what waits and need not make it NaN.
void ptxk_flow_end(ptx_builder *b, struct ptxk_flow *flow, ptx_val p);

#endif

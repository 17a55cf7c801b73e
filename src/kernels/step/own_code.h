// SPDX-License-Identifier: MIT
// What a call of a caller's function writes, as a number that another call of it gives, too: its
// instructions of ops.h without modifiers, its quotients, roots and powers, and what it sets.
// Registers are the places of those instructions, so the number is the same in every text.
#ifndef PTXGEN_KERNELS_STEP_OWN_CODE_H
#define PTXGEN_KERNELS_STEP_OWN_CODE_H

#include "own_rule.h"

enum { PTXK_OWN_CODE_MADE = 256 };

struct ptxk_own_code {
    uint64_t hash;
    uint32_t count;                   // of instructions
    uint32_t reg[PTXK_OWN_CODE_MADE]; // of the latest results; older ones are as what is given
};

void ptxk_own_code_made(struct ptxk_own_code *code, ptx_val result, ptx_opcode op,
                        const ptx_val *operands, unsigned count);
// An entry k that a function sets.
void ptxk_own_code_set(struct ptxk_own_code *code, uint32_t k, ptx_val x);
// Of a call that ended, and got the coefficients c (NULL: none): notes what it wrote, or compares
// it. Where of_sums has set one to a number, which has no register, nothing is known.
void ptxk_own_code_check(ptx_builder *b, const struct ptxk_step_rule *rule,
                         enum ptxk_own_function function, const ptx_val *c, uint64_t hash);

#endif

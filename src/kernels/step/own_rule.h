// SPDX-License-Identifier: MIT
// Rules of callers (<ptxgen/rule.h>) as rules of step.h.
#ifndef PTXGEN_KERNELS_STEP_OWN_RULE_H
#define PTXGEN_KERNELS_STEP_OWN_RULE_H

#include "step.h"

struct ptxk_own_rule {
    struct ptxk_step_rule rule; // its `own` is this
    struct ptx_rule_params params;
    struct ptxk_step_scalar scalar[PTX_STEP_MAX_SCALARS];
    uint32_t coefficients; // bits: those that `once` sets
    // Bits: those of them by which `update` divides. Behind all others a row has two more for each,
    // in their order, from `first_reciprocal` on: its struct ptxk_quick_divisor.
    uint32_t divisors;
    uint32_t first_reciprocal, reciprocals; // how many, two for each
    // Where a row has whether the step is the first, as 1 or 0; PTX_RULE_MAX_COEFFICIENTS: no state
    // starts as the parameter, or it is not known yet.
    uint32_t first_at;
    uint64_t serial; // tells rules of one name and version apart
};

// Sets `rule` from params that are in range, but for what ptxk_own_rule_emit() finds.
void ptxk_own_rule_set(struct ptxk_own_rule *own);
// Writes an entry with the rule's code for a clock and an element each thread, and notes in `own`
// which coefficients the rule has and whether it divides. What the functions do wrong is an error
// of the builder.
void ptxk_own_rule_emit(ptx_builder *b, struct ptxk_own_rule *own);
// Writes an entry for each function, as plans do, for the errors of a function that uses what
// another one made. `own` has been written by ptxk_own_rule_emit(); it is changed.
void ptxk_own_rule_emit_apart(ptx_builder *b, struct ptxk_own_rule *own);

// The functions of a rule that is a program, whose `user` it is. It has passed the checks of
// ptx_rule_create().
void ptxk_rule_program_once(ptx_builder *b, struct ptx_rule_clock *clock);
void ptxk_rule_program_update(ptx_builder *b, struct ptx_rule_element *e);
void ptxk_rule_program_reduce(ptx_builder *b, struct ptx_rule_element *e);
void ptxk_rule_program_of_sums(ptx_builder *b, struct ptx_rule_sums *sums);
// What an operation of PTX_RULE_OPS that computes gives, of operands of one type.
ptx_val ptxk_rule_program_computed(ptx_builder *b, ptx_rule_op op, ptx_val x, ptx_val y, ptx_val z);

// ptx_rule_power() of an f64 and a u32; ptx_rule_div() and ptx_rule_sqrt().
ptx_val ptxk_own_rule_power(ptx_builder *b, ptx_val x, ptx_val t);
ptx_val ptxk_own_rule_div(ptx_builder *b, ptx_val x, ptx_val y);
ptx_val ptxk_own_rule_sqrt(ptx_builder *b, ptx_val x);
// What an entry is that has no value, for errors: "c[3], which once does not set". NULL: x is none.
const char *ptxk_own_rule_absent(ptx_val x);
// A C number.
double ptxk_own_rule_number(ptx_val x);

// Those of PTX_RULE_FUNCTIONS, and ptx_rule_function().
ptx_val ptxk_rule_exp(ptx_builder *b, ptx_val x);
ptx_val ptxk_rule_log(ptx_builder *b, ptx_val x);
ptx_val ptxk_rule_pow(ptx_builder *b, ptx_val x, ptx_val y);
uint32_t ptxk_rule_function(ptx_rule_op op, struct ptx_rule_operation *to, uint32_t most);

// The place of a scalar of this name among the doubles of struct ptx_step_hyper; UINT32_MAX: no
// member has it.
uint32_t ptxk_own_rule_place(const char *name);

#endif

// SPDX-License-Identifier: MIT
// The optimizer part of a step plan: the rules, the formats of parameters and states, and the code
// around them. <ptxgen/rules.h> has the formulas.
#ifndef PTXGEN_KERNELS_STEP_STEP_H
#define PTXGEN_KERNELS_STEP_STEP_H

#include <stddef.h>

#include <ptxgen/builder.h>
#include <ptxgen/rules.h>

#include "quick.h"

// ---- rules --------------------------------------------------------------------------------------

// X(enumerator, name). CONTRIBUTING.md has what a new rule needs.
#define PTXK_STEP_RULES(X) X(ADAMW, adamw) X(ADAM, adam) X(SGD, sgd) X(LION, lion)

enum { PTXK_STEP_COEFFICIENTS = 8 }; // maximum for a rule

// What the code depends on: a tensor's rule, format and types. A text has one body for each
// variant.
struct ptxk_step_variant {
    ptx_step_rule rule;
    ptx_step_format format;
    ptx_type parameter, gradient;
    bool maximize;
    bool nesterov, momentum; // SGD
};

// A group's scalars, rounded to f32.
struct ptxk_step_scalars {
    ptx_val lr, beta1, beta2, eps, weight_decay, momentum, dampening;
};

// One element, in f32; the rule updates p and its states.
struct ptxk_step_element {
    ptx_val p, g;
    ptx_val state[2];
    struct ptxk_quick *quick; // NULL: exact instructions
};

struct ptxk_step_rule {
    const char *name;
    unsigned states, coefficients;
    bool stochastic[2]; // the states that PTX_STEP_FORMAT_STOCHASTIC rounds stochastically
    // Whether the update takes quick quotients, and then notes p: a parameter or state that is NaN
    // is a failure.
    bool quick;
    // Computes what depends only on the scalars and t (u32, from 1), in f32.
    void (*derive)(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t,
                   ptx_val c[PTXK_STEP_COEFFICIENTS]);
    void (*update)(ptx_builder *b, const struct ptxk_step_variant *v,
                   const ptx_val c[PTXK_STEP_COEFFICIENTS], struct ptxk_step_element *e);
};

#define PTXK_DECLARE(enumerator, file) extern const struct ptxk_step_rule ptxk_step_##file;
PTXK_STEP_RULES(PTXK_DECLARE)
#undef PTXK_DECLARE

const struct ptxk_step_rule *ptxk_step_rule_of(ptx_step_rule rule);
// The number of states of a tensor of the variant: 0 for SGD without momentum.
unsigned ptxk_step_states(const struct ptxk_step_variant *v);

// A total order of variants.
int ptxk_step_variant_compare(const struct ptxk_step_variant *x, const struct ptxk_step_variant *y);

// 1 - beta^t in f64; beta is an f32, t a u32.
ptx_val ptxk_step_complement(ptx_builder *b, ptx_val beta, ptx_val t);

// ---- clocks -------------------------------------------------------------------------------------

// A clock: a step count and the scalars of a group. What is computed from both is the same for all
// tensors of the clock.
struct step_clock_row {
    uint64_t step;  // address
    uint64_t hyper; // address of the scalars
    uint64_t lr;    // address of an f32 used instead of the scalar; 0: none
    uint64_t rule;
};

// What a launch derives of a clock.
struct step_coefficients {
    float of_rule[PTXK_STEP_COEFFICIENTS];
    float count; // of this step
    uint32_t t;  // the same as an integer
    uint32_t unused[6];
};

// Word offsets in a row of coefficients, and its words.
enum {
    PTXK_STEP_COUNT = offsetof(struct step_coefficients, count) / sizeof(float),
    PTXK_STEP_T = offsetof(struct step_coefficients, t) / sizeof(uint32_t),
    PTXK_STEP_ROW_WORDS = sizeof(struct step_coefficients) / sizeof(float),
};

// Declared as parameters.
struct ptxk_step_clocks {
    ptx_ptr rows, coefficients;
    ptx_val count, blocks; // u32: number of clocks, and of blocks that compute coefficients
};
struct ptxk_step_clocks ptxk_step_clocks_param(ptx_builder *b);

// Computes the coefficients of clock `k` (u32) from its scalars and its count. `rules`: bits of
// ptx_step_rule: the rules of the clocks.
void ptxk_step_derive(ptx_builder *b, uint32_t rules, const struct ptxk_step_clocks *clocks,
                      ptx_val k);

// ---- random bits --------------------------------------------------------------------------------

// Philox4x32-7 of Salmon et al. 2011.
struct ptxk_philox {
    ptx_val word[4]; // u32
};
struct ptxk_philox ptxk_philox(ptx_builder *b, const ptx_val counter[4], const ptx_val key[2]);

#endif

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

// X(enumerator, file). CONTRIBUTING.md has what a new rule needs.
#define PTXK_STEP_RULES(X) X(ADAMW, adamw) X(ADAM, adam) X(SGD, sgd) X(LION, lion)

enum { PTXK_STEP_COEFFICIENTS = 8 }; // maximum for a rule

// What a rule does differently for the life of a plan. maximize is every rule's: g has the other
// sign.
enum ptxk_step_option {
    PTXK_STEP_MOMENTUM = 1,
    PTXK_STEP_NESTEROV = 2,
    PTXK_STEP_MAXIMIZE = 4,
};

// What the code depends on: a tensor's rule, format and types. A text has one body for each
// variant.
struct ptxk_step_variant {
    ptx_step_rule rule;
    ptx_step_format format;
    ptx_type parameter, gradient;
    uint32_t options; // bits of enum ptxk_step_option
};

// The places of the scalars here among the doubles of struct ptx_step_hyper.
#define PTXK_STEP_PLACE(member) (offsetof(struct ptx_step_hyper, member) / sizeof(double))
enum {
    S_LR = PTXK_STEP_PLACE(lr),
    S_BETA1 = PTXK_STEP_PLACE(beta1),
    S_BETA2 = PTXK_STEP_PLACE(beta2),
    S_EPS = PTXK_STEP_PLACE(eps),
    S_WEIGHT_DECAY = PTXK_STEP_PLACE(weight_decay),
    S_MOMENTUM = PTXK_STEP_PLACE(momentum),
    S_DAMPENING = PTXK_STEP_PLACE(dampening),
};

// A scalar of a rule, which gets it rounded to f32. Rules that share a place agree on name and
// range.
struct ptxk_step_scalar {
    const char *name;
    uint32_t place;
    enum ptxk_step_range {
        PTXK_STEP_FINITE,
        PTXK_STEP_AT_LEAST_0, // and finite
        PTXK_STEP_BELOW_1,    // and at least 0
    } range;
    double usual; // the default of the published rule, or of PyTorch's optimizer
};

struct ptxk_step_state {
    enum {
        PTXK_STEP_SIGNED,
        PTXK_STEP_POSITIVE, // never below 0
        PTXK_STEP_WEIGHT,   // of a parameter's precision: not in formats with blocks
    } kind;
    bool stochastic; // how formats with random bits for states round it; else to nearest
    uint32_t option; // only with this option; 0: always
};

// One element, in f32; the rule updates p and its states.
struct ptxk_step_element {
    ptx_val p, g;
    ptx_val state[PTX_STEP_MAX_STATES];
    struct ptxk_quick *quick; // NULL: exact instructions
};

struct ptxk_step_rule {
    const char *name;
    unsigned states, scalars, coefficients;
    const struct ptxk_step_scalar *scalar;
    struct ptxk_step_state state[PTX_STEP_MAX_STATES];
    uint32_t options; // those that it has besides maximize
    // Whether the update takes quick quotients, and then notes p: a parameter or state that is NaN
    // is a failure.
    bool quick;
    // Computes what depends only on the scalars, by place, and t (u32, from 1), in f32.
    void (*once)(ptx_builder *b, const ptx_val s[PTX_STEP_MAX_SCALARS], ptx_val t,
                 ptx_val c[PTXK_STEP_COEFFICIENTS]);
    void (*update)(ptx_builder *b, uint32_t options, const ptx_val c[PTXK_STEP_COEFFICIENTS],
                   struct ptxk_step_element *e);
};

const struct ptxk_step_rule *ptxk_step_rule_of(ptx_step_rule rule);
// The scalar that rules have at a place; NULL: none has any.
const struct ptxk_step_scalar *ptxk_step_scalar_at(uint32_t place);
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
    PTXK_STEP_COEFFICIENTS_WORDS = sizeof(struct step_coefficients) / sizeof(float),
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

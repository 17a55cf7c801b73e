// SPDX-License-Identifier: MIT
// The optimizer part of a step plan: the rules, the formats of parameters and states, and the code
// around them. <ptxgen/rules.h> has the formulas.
#ifndef PTXGEN_KERNELS_STEP_STEP_H
#define PTXGEN_KERNELS_STEP_STEP_H

#include <stddef.h>

#include <ptxgen/builder.h>
#include <ptxgen/rule.h>
#include <ptxgen/rules.h>

#include "quick.h"

// ---- rules --------------------------------------------------------------------------------------

// X(enumerator, file). CONTRIBUTING.md has what a new rule needs.
#define PTXK_STEP_RULES(X) X(ADAMW, adamw) X(ADAM, adam) X(SGD, sgd) X(LION, lion) X(MUON, muon)

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
    const struct ptxk_step_rule *rule;
    ptx_step_format format;
    ptx_type parameter, gradient;
    ptx_type ema;     // of the weights' average: PTX_F32 or PTX_BF16; PTX_NONE: there is none
    uint32_t copy;    // of the weights in 8 bits: 1 + enum fp8_format; 0: there is none
    uint32_t options; // bits of enum ptxk_step_option
    bool qk_clip;     // some rows or columns are multiplied by factors
    bool square;      // stepped in tiles of 128 x 128, whose codes in blocks are made at once
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
    S_EMA_DECAY = PTXK_STEP_PLACE(ema_decay),
};

// A scalar of a rule, which gets it rounded to f32. Rules that share a place agree on name and
// range.
struct ptxk_step_scalar {
    const char *name;
    uint32_t place;
    ptx_rule_range range;
    double usual; // the default of the published rule, or of PyTorch's optimizer
};

// An array beside the parameter, with an element for each of its elements.
struct ptxk_step_state {
    ptx_rule_kind kind;
    bool stochastic; // formats with random bits for states round it by them; else to nearest
    uint32_t option; // only with this option; 0: always
    // Its type in every format, to which it is rounded to nearest; PTX_NONE: as the format stores
    // states. States with a type of their own follow the others. Of a rule's, none is `stochastic`.
    ptx_type type;
    bool output; // only written: `update` finds nothing there; it has a type of its own
};

// What `once` gets of a clock.
struct ptxk_step_clock {
    ptx_val scalar[PTXK_STEP_PLACE(more)]; // f32, by place: those of the library's rules
    ptx_val t;                             // u32: the number of this step, from 1
    // f64: as the last step left them, which `once` replaces. Zeros at the first: a rule whose
    // clock state begins elsewhere selects by t.
    ptx_val state[PTX_RULE_MAX_CLOCK_STATES];
    // For a rule of the caller's, which reads its scalars itself.
    const struct ptxk_step_rule *rule;
    ptx_ptr hyper; // f64
    ptx_val lr_at; // u64; 0: lr is a scalar as others
};

// One element, in f32; the rule updates p and its states.
struct ptxk_step_element {
    ptx_val p, g;
    ptx_val state[PTX_STEP_MAX_STATES];
    struct ptxk_quick *quick; // NULL: exact instructions
    const struct ptxk_step_rule *rule;
    // Of a state that is in the rule's `roots`, set by its update: the root, rounded. By quick
    // instructions times PTXK_QUICK_SCALE.
    ptx_val root[PTX_STEP_MAX_STATES];
    ptx_val first; // a predicate, in the entry of ptx_rule_emit(): whether the step is the first
};

// A rule's file, which has its name in PTXK_STEP_RULES, has one of these. docs/design.md describes
// the parts.
struct ptxk_step_rule {
    const char *name;
    unsigned states, scalars;
    unsigned coefficients; // that `once` computes
    unsigned clock_states; // those of a clock, which its count has behind it: struct step_count
    unsigned sums;         // over the elements of a tensor; 0: no `reduce`
    const struct ptxk_step_scalar *scalar;
    struct ptxk_step_state state[PTX_STEP_MAX_STATES];
    uint32_t options; // those that it has besides maximize
    uint32_t roots;   // bits of the positive states whose roots the update takes
    // A rule of matrices, which are stepped in two passes with products in between (step_matrix.c):
    // that of the second, which has no state. NULL: of elements.
    const struct ptxk_step_rule *of_matrices;
    const struct ptxk_own_rule *own; // a rule of the caller's; NULL: it is in PTXK_STEP_RULES
    // Whether the update takes quick quotients, and then notes p: a parameter or state that is NaN
    // is a failure.
    bool quick;
    // Computes what depends on the clock alone: the coefficients, in f32, and the clock's states.
    void (*once)(ptx_builder *b, struct ptxk_step_clock *clock,
                 ptx_val c[PTX_RULE_MAX_COEFFICIENTS]);
    // The terms of the sums, in f32, from what `update` gets of an element, which it may change.
    // The sums are f64, and taken before the first update.
    void (*reduce)(ptx_builder *b, uint32_t options, const ptx_val c[PTX_RULE_MAX_COEFFICIENTS],
                   struct ptxk_step_element *e, ptx_val term[PTX_RULE_MAX_SUMS]);
    // Computes what depends on the sums: coefficients behind those of `once`, which it may read.
    void (*of_sums)(ptx_builder *b, const struct ptxk_step_rule *rule,
                    const ptx_val sum[PTX_RULE_MAX_SUMS], ptx_val c[PTX_RULE_MAX_COEFFICIENTS]);
    // Steps an element.
    void (*update)(ptx_builder *b, uint32_t options, const ptx_val c[PTX_RULE_MAX_COEFFICIENTS],
                   struct ptxk_step_element *e);
};

const struct ptxk_step_rule *ptxk_step_rule_of(ptx_step_rule rule);
// The decay of averages, which is no rule's own.
extern const struct ptxk_step_scalar ptxk_step_ema_decay;
// The scalar that rules have at a place; NULL: none has any.
const struct ptxk_step_scalar *ptxk_step_scalar_at(uint32_t place);
// The doubles of a struct ptx_step_hyper from the first to the last that the rule reads, at least
// those before `more`.
uint32_t ptxk_step_rule_places(const struct ptxk_step_rule *rule);
// The number of states of a tensor of the variant, the average of its weights being the last; how
// many are the rule's own: 0 for SGD without momentum; and how many, the first ones, are stored as
// the format stores states.
unsigned ptxk_step_states(const struct ptxk_step_variant *v);
unsigned ptxk_step_rule_states(const struct ptxk_step_variant *v);
unsigned ptxk_step_format_states(const struct ptxk_step_variant *v);
// One of its states.
const struct ptxk_step_state *ptxk_step_state_of(const struct ptxk_step_variant *v, unsigned k);

// Whether `once` sets a coefficient.
bool ptxk_step_has_coefficient(const struct ptxk_step_rule *rule, uint32_t k);

// Total orders of rules, by what they are called, and of variants.
int ptxk_step_rule_compare(const struct ptxk_step_rule *x, const struct ptxk_step_rule *y);
int ptxk_step_variant_compare(const struct ptxk_step_variant *x, const struct ptxk_step_variant *y);

// x^t of an f64 x and a u32 t, by squares; 1 - beta^t in f64, beta being an f32.
ptx_val ptxk_step_power(ptx_builder *b, ptx_val base, ptx_val t);
ptx_val ptxk_step_complement(ptx_builder *b, ptx_val beta, ptx_val t);

// ---- clocks -------------------------------------------------------------------------------------

// A clock: a step count and the scalars of a group. What is computed from both is the same for all
// tensors of the clock. The caller's memory has what lasts from step to step.
struct step_count {
    float count; // of the steps taken
    uint32_t unused;
    double state[PTX_RULE_MAX_CLOCK_STATES]; // as many as the rule has: without any, only the count
};

struct step_clock_row {
    uint64_t step;  // address of its struct step_count, a multiple of 8 if it has states
    uint64_t hyper; // address of the scalars
    uint64_t lr;    // address of an f32 used instead of the scalar; 0: none
    uint64_t rule;
};

// What a launch derives of a clock.
enum { PTXK_STEP_FIRST_COEFFICIENTS = 8 };
struct step_coefficients {
    float of_rule[PTXK_STEP_FIRST_COEFFICIENTS];
    float count;    // of this step
    uint32_t t;     // the same as an integer
    float ema_rate; // 1 - decay; not set in plans without averages
    uint32_t unused[5];
    // Of this step, for struct step_count. Left out where no rule has clock states: `more` is here.
    double clock_state[PTX_RULE_MAX_CLOCK_STATES];
    // As many as the rules have, up to a multiple of 8.
    float more[PTX_RULE_MAX_COEFFICIENTS - PTXK_STEP_FIRST_COEFFICIENTS];
};

// Offsets in a row of coefficients, in elements of the type.
enum {
    PTXK_STEP_COUNT = offsetof(struct step_coefficients, count) / sizeof(float),
    PTXK_STEP_T = offsetof(struct step_coefficients, t) / sizeof(uint32_t),
    PTXK_STEP_EMA_RATE = offsetof(struct step_coefficients, ema_rate) / sizeof(float),
    PTXK_STEP_CLOCK_STATE = offsetof(struct step_coefficients, clock_state) / sizeof(double),
    PTXK_STEP_CLOCK_STATE_AT = offsetof(struct step_count, state) / sizeof(double),
    PTXK_STEP_COEFFICIENTS_WORDS = sizeof(struct step_coefficients) / sizeof(float), // at most
};

// The rules of the clocks of a plan, without duplicates, in the order of ptxk_step_rule_compare().
enum { PTXK_STEP_MOST_RULES = 64 };
struct ptxk_step_rules {
    const struct ptxk_step_rule *rule[PTXK_STEP_MOST_RULES];
    unsigned count;
};
// What the row of a clock has for the rule: the enumerator, or the callers' rules in their order,
// from PTX_STEP_RULE_COUNT on.
uint32_t ptxk_step_rule_number(const struct ptxk_step_rules *rules,
                               const struct ptxk_step_rule *rule);

// The words of a row: a multiple of 8 from 16 to 48.
uint32_t ptxk_step_coefficients_words(const struct ptxk_step_rules *rules);
// Where coefficient `k` is in it.
uint32_t ptxk_step_coefficient_at(const struct ptxk_step_rules *rules, uint32_t k);
// The meaning of the kernels' parameter.
const char *ptxk_step_coefficients_meaning(const struct ptxk_step_rules *rules);

// Declared as parameters.
struct ptxk_step_clocks {
    ptx_ptr rows, coefficients;
    ptx_val count, blocks; // u32: number of clocks, and of blocks that compute coefficients
};
struct ptxk_step_clocks ptxk_step_clocks_param(ptx_builder *b, const struct ptxk_step_rules *rules);

// Computes the coefficients of clock `k` (u32) from its scalars, its count and its states; `ema`:
// also those of averages.
void ptxk_step_derive(ptx_builder *b, const struct ptxk_step_rules *rules, bool ema,
                      const struct ptxk_step_clocks *clocks, ptx_val k);

// ---- random bits --------------------------------------------------------------------------------

// Philox4x32-7 of Salmon et al. 2011.
struct ptxk_philox {
    ptx_val word[4]; // u32
};
struct ptxk_philox ptxk_philox(ptx_builder *b, const ptx_val counter[4], const ptx_val key[2]);

#endif

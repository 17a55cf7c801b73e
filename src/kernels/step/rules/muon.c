// SPDX-License-Identifier: MIT
// Muon in two passes: the first, whose formulas are in step_matrix.c, leaves the update of a matrix
// for products; the second steps the parameter by what these leave.
#include "../muon.h"

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val *s = clock->scalar;

    c[MUON_LR] = s[S_LR];
    c[MUON_DECAY] = ptx_mul(b, s[S_LR], s[S_WEIGHT_DECAY]);
    c[MUON_MOMENTUM] = s[S_MOMENTUM];
    c[MUON_REST] = ptx_sub(b, 1, s[S_MOMENTUM]);
    c[MUON_EPS] = s[S_EPS];
}

// g is the element of the orthogonalized matrix.
static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    ptx_val p = ptx_fma(b, ptx_neg(b, c[MUON_DECAY]), e->p, e->p);
    e->p = ptx_fma(b, ptx_neg(b, c[MUON_RATE]), e->g, p);
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },
    { "momentum", S_MOMENTUM, PTX_RULE_RANGE_BELOW_1, 0.95 },
    { "weight_decay", S_WEIGHT_DECAY, PTX_RULE_RANGE_AT_LEAST_0, 0.1 },
    { "eps", S_EPS, PTX_RULE_RANGE_AT_LEAST_0, 1e-7 },
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

static const struct ptxk_step_rule of_parameters = {
    .name = "muon, the parameters",
    .coefficients = MUON_CLOCK_COEFFICIENTS,
    .update = update,
};

const struct ptxk_step_rule ptxk_step_muon = {
    .name = "muon",
    .states = 1,
    .scalars = SCALARS,
    .coefficients = MUON_CLOCK_COEFFICIENTS,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED, .stochastic = true } },
    .options = PTXK_STEP_NESTEROV,
    .of_matrices = &of_parameters,
    .once = once,
};

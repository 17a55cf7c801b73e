// SPDX-License-Identifier: MIT
#include "../format.h"

#include "../blocks.h"

#define LARGEST_CODE 0x1p11f

static void decode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_state *of,
                   const struct ptxk_lanes *codes, ptx_val scale, ptx_val state[PTXK_LANES])
{
    (void)tables;
    ptxk_lanes_of(b, codes, state);
    for (unsigned n = 0; n < PTXK_LANES; n++) {
        ptxk_comment_lanes(b, "codes times the scale", n, 8, PTXK_LANES);
        state[n] = ptx_mul(b, ptx_cvt(b, PTX_F32, state[n]), scale);
        if (of->kind == PTX_RULE_POSITIVE)
            state[n] = ptx_mul(b, state[n], state[n]);
    }
}

static void encode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_rule *rule,
                   unsigned states, ptx_val (*state)[PTXK_LANES], ptx_val *scale)
{
    ptx_val inverse[PTX_STEP_MAX_STATES];

    (void)tables;
    for (unsigned k = 0; k < states; k++) {
        if (rule->state[k].kind == PTX_RULE_POSITIVE && !(rule->roots >> k & 1))
            ptxk_block_roots(b, state[k]);
        scale[k] = ptx_mul(b, ptxk_block_largest(b, state[k]), 1 / LARGEST_CODE);
    }
    ptxk_block_inverses(b, scale, states, inverse, NULL);
    for (unsigned k = 0; k < states; k++) {
        ptx_comment(b, "states over the scale, or 0 with a scale that has no inverse");
        ptx_if (b, ptx_eq(b, inverse[k], 0)) {
            for (unsigned n = 0; n < PTXK_LANES; n++)
                ptx_set(b, state[k][n], 0);
            ptx_set(b, scale[k], ptx_add(b, scale[k], 1)); // from 0 to 1; NaN stays
        }
        for (unsigned n = 0; n < PTXK_LANES; n++)
            state[k][n] = ptx_mul(b, state[k][n], inverse[k]);
    }
}

static const struct ptxk_step_blocks blocks = {
    .elements = 256,
    .scale = PTX_F32,
    .decode = decode,
    .encode = encode,
    .by_roots = true,
};

const struct ptxk_step_format ptxk_step_format_state_f16 = {
    .name = "state_f16",
    .parameters = { PTX_F32, PTX_BF16, PTX_F16 },
    .state = PTX_F16,
    .rounds_parameter = true,
    .vectors = 8,
    .blocks = 3,
    .blocks_if_short = 3,
    .by_block = &blocks,
};

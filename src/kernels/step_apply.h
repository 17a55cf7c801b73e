// SPDX-License-Identifier: MIT
// The kernels that a step plan has in addition to those of a clip plan.
#ifndef PTXGEN_KERNELS_STEP_APPLY_H
#define PTXGEN_KERNELS_STEP_APPLY_H

#include "clip.h"
#include "step/format.h"

enum {
    PTXK_STEP_MOST_VARIANTS = 64,
};

// What a step does with the gradients.
enum ptxk_step_gradients {
    PTXK_STEP_GRADIENTS_RAW,     // left unchanged
    PTXK_STEP_GRADIENTS_WRITTEN, // multiplied by the factor
    PTXK_STEP_GRADIENTS_ZEROED,
};

// What the text depends on.
struct ptxk_step_spec {
    const struct ptxk_step_variant
        *variants; // without duplicates, in the order of ptxk_step_variant_compare()
    unsigned variant_count;
    enum ptxk_step_gradients gradients;
};

// A total order of variants.
int ptxk_step_variant_compare(const struct ptxk_step_variant *x, const struct ptxk_step_variant *y);

// The lanes that a thread processes at once of a variant's tensor, and the elements of a block's
// tile.
unsigned ptxk_step_lanes(const struct ptxk_step_variant *v);
uint32_t ptxk_step_tile(const struct ptxk_step_spec *spec, uint32_t chunk);

// The number of step kernel blocks wanted on an SM: the fastest on an H200 for the variant with the
// most registers.
unsigned ptxk_step_blocks(const struct ptxk_step_spec *spec);

// Whether any variant uses random bits.
bool ptxk_step_draws(const struct ptxk_step_spec *spec);
// Whether any variant has 8-bit states, and so reads the tables of eight_bit.h.
bool ptxk_step_has_codes(const struct ptxk_step_spec *spec);
// The rules of the variants, as bits of ptx_step_rule.
uint32_t ptxk_step_rules(const struct ptxk_step_spec *spec);

#endif

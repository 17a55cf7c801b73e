// SPDX-License-Identifier: MIT
// The kernels that a step plan has in addition to those of a clip plan.
#ifndef PTXGEN_KERNELS_STEP_APPLY_H
#define PTXGEN_KERNELS_STEP_APPLY_H

#include "clip.h"
#include "step/eight_bit.h"
#include "step/format.h"

enum {
    PTXK_STEP_MOST_VARIANTS = 64,
    STEP_SET_ROWS_BATCH = 32, // rows per launch
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
    uint32_t tile; // elements that a block steps, of one tensor; from ptxk_step_tile()
    enum ptxk_step_gradients gradients;
};

// A tensor's row, with the same index as in the clip plan's table.
struct step_tensor_row {
    uint64_t parameter, beside, state[2];
    uint64_t step;               // address of the step count
    uint64_t first, run, stride; // run = stride: all elements are consecutive
    uint32_t id, clock;
    uint32_t kind; // 2 * variant; + 1 if all arrays except the gradient can be accessed in whole
                   // vectors
    uint32_t norm_group;
    uint64_t absmax[2];
};

enum {
    STEP_ROW_WORDS = CLIP_LENGTH(uint64_t, struct step_tensor_row),
    STEP_SCALARS = CLIP_LENGTH(double, struct ptx_step_hyper),
};

// A tile: its tensor, and its place among the tensor's tiles.
struct step_tile_row {
    uint32_t tensor, index;
};

// The lanes that a thread processes at once of a variant's tensor.
unsigned ptxk_step_lanes(const struct ptxk_step_variant *v);
// The tile of a plan of so many elements; the spec's own is ignored.
uint32_t ptxk_step_tile(const struct ptxk_step_spec *spec, uint64_t elements);

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

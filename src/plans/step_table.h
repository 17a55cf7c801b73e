// SPDX-License-Identifier: MIT
// A step plan's own device memory, beside that of the clip plan that it stands on.
#ifndef PTXGEN_PLANS_STEP_TABLE_H
#define PTXGEN_PLANS_STEP_TABLE_H

#include <ptxgen/step.h>

#include "kernels/step_apply.h"

// A tensor's row, at the index of its row in the clip plan's table.
struct step_tensor_row {
    uint64_t parameter, beside, state[2];
    uint64_t step;               // the address of its count
    uint64_t first, run, stride; // run = stride: elements in a row
    uint32_t id, clock;
    uint32_t variant;
    uint32_t vectors; // 1: its arrays, the gradient apart, may be accessed in whole vectors
};

// A clock: a count of steps, and the scalars of a group. What follows from both is the same for all
// tensors of the clock.
struct step_clock_row {
    uint64_t step;  // address
    uint64_t hyper; // address of the scalars
    uint64_t lr;    // address of an f32 in their place; 0: none
    uint64_t rule;
};

struct step_coefficients {
    float of_rule[PTXK_STEP_COEFFICIENTS];
    float count;
    uint32_t t;
    uint32_t unused[PTXK_STEP_ROW_WORDS - PTXK_STEP_COEFFICIENTS - 2];
};

// X(member, type of an element): the arrays, each from a 256-byte boundary. The host writes all but
// the last.
#define STEP_ARRAYS(X)                                                                             \
    X(rows, struct step_tensor_row)                                                                \
    X(clock_rows, struct step_clock_row)                                                           \
    X(hypers, struct ptx_step_hyper)                                                               \
    X(seed, uint64_t)                                                                              \
    X(coefficients, struct step_coefficients)

struct step_array {
    uint64_t offset; // bytes
    uint64_t length; // elements
};

struct step_layout {
    size_t tensor_count;
    uint32_t clock_count;
    uint32_t *clocks;                                           // of each tensor
    struct ptxk_step_variant variants[PTXK_STEP_MOST_VARIANTS]; // in order, each once
    unsigned variant_count;
    uint64_t bytes; // of memory
    uint64_t bytes_moved;
#define STEP_DECLARE(member, type) struct step_array member;
    STEP_ARRAYS(STEP_DECLARE)
#undef STEP_DECLARE
};

// From parameters that ptxp_step_check_params() found in order. ptxp_step_layout_free() is needed
// after a success.
ptx_status ptxp_step_layout_create(const struct ptx_step_params *params,
                                   struct step_layout *layout);
void ptxp_step_layout_free(struct step_layout *layout);

// Fills an image of the memory up to the coefficients, zeroed before; `memory` is where it will
// lie.
void ptxp_step_layout_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                           CUdeviceptr memory, unsigned char *image);

// A tensor's row.
struct step_tensor_row ptxp_step_row_of(const struct ptx_step_params *params,
                                        const struct step_layout *layout, size_t t);

ptx_type ptxp_step_gradient_type(const struct ptx_step_tensor *tensor);
struct ptxk_step_variant ptxp_step_variant_of(const struct ptx_step_tensor *tensor,
                                              const struct ptx_step_group *group);

// Everything about the parameters that is known without a device.
ptx_status ptxp_step_check_params(const struct ptx_step_params *params);
ptx_status ptxp_step_check_hyper(uint32_t group, const struct ptx_step_hyper *hyper);

#endif

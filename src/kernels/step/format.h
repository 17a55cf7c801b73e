// SPDX-License-Identifier: MIT
#ifndef PTXGEN_KERNELS_STEP_FORMAT_H
#define PTXGEN_KERNELS_STEP_FORMAT_H

#include "step.h"

// The types in memory of states and of what lies beside the parameter; NONE if nothing does.
ptx_type ptxk_step_state_type(const struct ptxk_step_variant *v);
ptx_type ptxk_step_beside_type(const struct ptxk_step_variant *v);

// One element as it lies in memory.
struct ptxk_step_stored {
    ptx_val parameter; // MASTER reads none
    ptx_val beside;    // master or remainder
    ptx_val state[2];
};

// To f32; the gradient is not touched.
struct ptxk_step_element ptxk_step_load(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_stored *from);
// And back, to what ptxk_step_narrow() takes. `random`: 16 bits (u32) for the parameter and for the
// state, where the format rounds stochastically.
struct ptxk_step_stored ptxk_step_store(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_element *e, const ptx_val random[2]);

// What is written of a value, of the type in memory: the value itself, an f32 rounded to nearest,
// or the upper half of a u32 as bf16. A pair of 16 bits each is a b32, the first in the lower half.
ptx_val ptxk_step_narrow(ptx_builder *b, ptx_type type, ptx_val x);
ptx_val ptxk_step_narrow_pair(ptx_builder *b, ptx_type type, ptx_val low, ptx_val high);

#endif

// SPDX-License-Identifier: MIT
#ifndef PTXGEN_KERNELS_STEP_FORMAT_H
#define PTXGEN_KERNELS_STEP_FORMAT_H

#include "step.h"

// The stored types of the states and of the array beside the parameter; NONE if there is none.
ptx_type ptxk_step_state_type(const struct ptxk_step_variant *v);
ptx_type ptxk_step_beside_type(const struct ptxk_step_variant *v);

// Comments on the code of a variant: its rule, format and types.
void ptxk_step_comment(ptx_builder *b, const struct ptxk_step_variant *v);

// One element as stored in memory.
struct ptxk_step_stored {
    ptx_val parameter; // MASTER does not read it
    ptx_val beside;    // master or remainder
    ptx_val state[2];  // STATE_8BIT: in f32; eight_bit.h has codes and absmax
};

// Converts to f32; the gradient does not change.
struct ptxk_step_element ptxk_step_load(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_stored *from);
// Converts back to the form that ptxk_step_narrow() takes. `random`: 16 bits (u32) each for the
// parameter and the state, if the format rounds stochastically.
struct ptxk_step_stored ptxk_step_store(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_element *e, const ptx_val random[2]);

// The stored form of a value: the value itself, an f32 rounded to nearest, or the upper half of a
// u32 as bf16. Two 16-bit values are packed as a b32, the first in the lower half.
ptx_val ptxk_step_narrow(ptx_builder *b, ptx_type type, ptx_val x);
ptx_val ptxk_step_narrow_pair(ptx_builder *b, ptx_type type, ptx_val low, ptx_val high);

// The arrays of a tensor.
enum { ARRAY_PARAMETER, ARRAY_GRADIENT, ARRAY_BESIDE, ARRAY_STATE, ARRAYS = ARRAY_STATE + 2 };
// The type of an array's elements; PTX_NONE: the variant has no such array.
ptx_type ptxk_step_array_type(const struct ptxk_step_variant *v, unsigned array);
// Whether states are codes of 8 bits. A warp's lanes then have a block of them, eight each.
bool ptxk_step_variant_has_codes(const struct ptxk_step_variant *v);

#endif

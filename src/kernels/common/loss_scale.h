// SPDX-License-Identifier: MIT
// The rule of a dynamic loss scale, for every kernel that ends a step.
#ifndef PTXGEN_KERNELS_LOSS_SCALE_H
#define PTXGEN_KERNELS_LOSS_SCALE_H

#include <ptxgen/builder.h>

// Immediates or parameters. Poisoned ({ 0 }), the last three are off.
struct loss_scale_rule {
    ptx_val growth, backoff;      // f32
    ptx_val interval;             // s32
    ptx_val min_scale, max_scale; // f32
    ptx_val hysteresis;           // s32
};

// Updates { f32 scale, s32 growth_tracker } at `state`, whose elements are of 4 bytes; `found` is
// the predicate that something was not finite. For one thread.
void ptxk_update_loss_scale(ptx_builder *b, ptx_ptr state, ptx_val found,
                            const struct loss_scale_rule *rule);
// The same with the two apart: f32, s32.
void ptxk_update_loss_scale_parts(ptx_builder *b, ptx_ptr scale_at, ptx_ptr tracker_at,
                                  ptx_val found, const struct loss_scale_rule *rule);

#endif

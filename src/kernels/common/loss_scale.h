// SPDX-License-Identifier: MIT
// The rule of the dynamic loss scale, for every kernel that ends a step.
#ifndef PTXGEN_KERNELS_LOSS_SCALE_H
#define PTXGEN_KERNELS_LOSS_SCALE_H

#include <ptxgen/builder.h>

// Immediates or parameters. The last three are optional: poisoned ({ 0 }) means off.
struct loss_scale_rule {
    ptx_val growth, backoff;      // f32
    ptx_val interval;             // s32
    ptx_val min_scale, max_scale; // f32
    ptx_val hysteresis;           // s32
};

// Updates { f32 scale, s32 growth_tracker } at `state`, a pointer to 4-byte elements; `found` is
// the predicate that something was not finite. Executed by one thread.
void ptxk_update_loss_scale(ptx_builder *b, ptx_ptr state, ptx_val found,
                            const struct loss_scale_rule *rule);
// The same with separate pointers: f32, s32.
void ptxk_update_loss_scale_parts(ptx_builder *b, ptx_ptr scale_at, ptx_ptr tracker_at,
                                  ptx_val found, const struct loss_scale_rule *rule);

#endif

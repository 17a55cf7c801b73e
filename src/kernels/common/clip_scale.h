// SPDX-License-Identifier: MIT
// From a sum of squares to the scale of a gradient.
#ifndef PTXGEN_KERNELS_CLIP_SCALE_H
#define PTXGEN_KERNELS_CLIP_SCALE_H

#include <ptxgen/builder.h>

// min(1, max_norm / (norm + eps)) in f32; 1 if `total` is 0, NaN if the norm is: PTX's min would
// drop it. `total` is the sum of squares and `root` the norm in f64, `norm` the same in f32.
ptx_val ptxk_clip_scale(ptx_builder *b, ptx_val total, ptx_val root, ptx_val norm, ptx_val max_norm,
                        ptx_val eps);

#endif

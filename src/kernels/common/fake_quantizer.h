// SPDX-License-Identifier: MIT
// Quantizing and scaling back, shared by the kernels with one scale and with one scale per channel.
#ifndef PTXGEN_KERNELS_FAKE_QUANTIZER_H
#define PTXGEN_KERNELS_FAKE_QUANTIZER_H

#include "quantizer.h"

enum { FAKE_DIVISION, FAKE_ZERO_POINT, FAKE_OPTIONS };

#define FAKE_OPTION_ROWS                                                                           \
    [FAKE_DIVISION] = DIVISION_OPTION_ROW, [FAKE_ZERO_POINT] = {                                   \
        "zero_point", { "fixed", "learned" }, "an s32, or a float that is rounded and clamped"     \
    }

// The parameter zero_point, without the way it is passed, and its type.
struct ptx_param_info ptxk_fake_zero_point_info(void);
ptx_type ptxk_fake_zero_point_type(const struct ptx_kernel_spec *spec);

// `zero_point` is an element of the parameter. The quantizer's lo and hi are levels: q_min and
// q_max minus the zero point.
struct quantizer ptxk_fake_quantizer_of(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                        ptx_val scale, ptx_val zero_point, struct levels levels);

// in[0], quantized and scaled back.
ptx_vec ptxk_fake_quantize(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct quantizers *q, const ptx_vec *in);

#endif

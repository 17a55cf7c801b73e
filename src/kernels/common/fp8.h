// SPDX-License-Identifier: MIT
// Conversions from f32 to the floats of 8 bits: to nearest even; beyond the largest value, and from
// infinity, the largest value; from NaN the NaN 0x7f. The same codes on every target.
#ifndef PTXGEN_KERNELS_FP8_H
#define PTXGEN_KERNELS_FP8_H

#include <ptxgen/builder.h>

// In the order of the kernels' options and of a table of formats.
enum fp8_format { FP8_E4M3, FP8_E5M2 };

// The largest value of the format.
float ptxk_fp8_max(enum fp8_format format);

// The code of an f32, u8.
ptx_val ptxk_fp8_code(ptx_builder *b, enum fp8_format format, ptx_val x);

// The codes of four f32, b32, that of the first lowest.
ptx_val ptxk_fp8_word(ptx_builder *b, enum fp8_format format, const ptx_val x[4]);

#endif

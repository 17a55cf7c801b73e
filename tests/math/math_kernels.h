// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TESTS_MATH_KERNELS_H
#define PTXGEN_TESTS_MATH_KERNELS_H

#include <ptxgen/builder.h>

enum { MATH_BLOCK = 128 };

// An entry of each row's name: n (u32), x, y for pow alone, out.
void math_kernels(ptx_builder *b);

// An entry hash_<row>: *sum += the hashes of the row's results for n inputs: 0, step, 2 * step...
void math_hash_kernels(ptx_builder *b);

#endif

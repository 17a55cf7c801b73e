// SPDX-License-Identifier: MIT
// The functions of <ptxgen/math.h> in plain C, bit for bit, and which inputs they are tested with.
#ifndef PTXGEN_TESTS_MATH_TWIN_H
#define PTXGEN_TESTS_MATH_TWIN_H

#include <ptxgen/math.h>

#include <stddef.h>
#include <stdint.h>

struct math_twin {
    const char *name;
    void (*many)(const float *x, const float *y, float *out, size_t n); // y: for pow alone
};

// By row of math.h; a name of NULL ends them.
extern const struct math_twin math_twins[];
// The same for a processor with AVX2 and FMA.
extern const struct math_twin math_twins_fma[];

#endif

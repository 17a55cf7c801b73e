// SPDX-License-Identifier: MIT
#include "math_error.h"

#include <math.h>

#include "math_distance.h"
#include "math_twin.h"

static inline double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}

#define MANY(name, ...)                                                                            \
    static void many_##name(const float *x, const float *y, double *exact, size_t n)               \
    {                                                                                              \
        (void)y;                                                                                   \
        for (size_t k = 0; k < n; k++)                                                             \
            exact[k] = name((double)x[k]);                                                         \
    }
PTX_MATH_UNARY(MANY)
#undef MANY

static void many_pow(const float *x, const float *y, double *exact, size_t n)
{
    for (size_t k = 0; k < n; k++)
        exact[k] = pow((double)x[k], (double)y[k]);
}

const struct math_exact math_exact[] = {
#define ROW(name, ...) { #name, many_##name },
    PTX_MATH_UNARY(ROW) PTX_MATH_BINARY(ROW)
#undef ROW
        { NULL, NULL },
};

void math_errors(const float *result, const double *exact, double *error, size_t n)
{
    for (size_t k = 0; k < n; k++)
        error[k] = math_distance_of_numbers(result[k], exact[k]);
    for (size_t k = 0; k < n; k++)
        if (result[k] == 0 || error[k] != error[k])
            error[k] = math_distance_of_special(result[k], exact[k]);
}

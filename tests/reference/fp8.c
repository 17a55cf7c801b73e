// SPDX-License-Identifier: MIT
#include "reference/fp8.h"

#include <float.h>
#include <math.h>

#include "reference/small.h"

static enum small_format small_of(enum ref_fp8 format)
{
    return format == REF_E4M3 ? SMALL_E4M3 : SMALL_E5M2;
}

void ref_cast_fp8(enum ref_type type, const void *x, uint64_t n, enum ref_fp8 format, float scale,
                  uint8_t *y, float *amax)
{
    float greatest = 0;
    for (uint64_t i = 0; i < n; ++i) {
        float value = (float)ref_load(type, x, i);
        float product = value * scale;
        y[i] = (uint8_t)small_from_f64(small_of(format), (double)product, false);
        if (fabsf(value) > greatest) // false for NaN
            greatest = fabsf(value);
    }
    if (amax && greatest > *amax)
        *amax = greatest;
}

static float next_scale(const struct ref_delayed_scale *rule, enum ref_fp8 format, float amax,
                        float scale)
{
    const float largest = (float)small_value(small_of(format), small_count(small_of(format)) - 1);
    if (amax > 0 && isfinite(amax))
        scale = ldexpf(largest, -rule->margin) / amax;
    return isinf(scale) ? FLT_MAX : scale;
}

static float amax_of(const struct ref_delayed_scale *rule, const float *history, uint64_t n,
                     uint64_t rows)
{
    float amax = rule->most_recent ? history[0] : 0;
    for (uint64_t r = 0; r < rows && !rule->most_recent; ++r)
        if (history[r * n] > amax) // false for NaN
            amax = history[r * n];
    return amax;
}

void ref_delayed_scale_update(const struct ref_delayed_scale *rule, uint64_t n, uint64_t rows,
                              float *history, float *scale, float *scale_inv)
{
    for (uint64_t t = 0; t < n; ++t) {
        const enum ref_fp8 format =
            rule->formats ? (rule->formats[t] ? REF_E5M2 : REF_E4M3) : rule->format;
        float next = next_scale(rule, format, amax_of(rule, history + t, n, rows), scale[t]);
        float inverse = 1 / next;
        ref_store(REF_F32, scale_inv, t, (double)inverse);
        scale[t] = next;
        float newest = history[t];
        for (uint64_t r = 1; r + 1 < rows; ++r)
            history[r * n + t] = history[(r + 1) * n + t];
        if (rows > 1)
            history[(rows - 1) * n + t] = newest;
        history[t] = 0;
    }
}

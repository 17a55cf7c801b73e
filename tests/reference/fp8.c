// SPDX-License-Identifier: MIT
#include "reference/fp8.h"

#include <float.h>
#include <math.h>
#include <string.h>

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

// ---- blocks -------------------------------------------------------------------------------------

// A matrix, or the transposed one, of a tensor's elements.
struct matrix {
    enum ref_type type;
    const void *x;
    uint64_t rows, columns;
    bool transposed;
};

static uint64_t place_in(const struct matrix *m, uint64_t r, uint64_t c)
{
    return m->transposed ? c * m->rows + r : r * m->columns + c;
}

static float one_nan(void)
{
    const uint32_t bits = UINT32_MAX >> 1;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static float to_power(float x, bool up)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = (bits + (up ? 0x7fffff : 0)) & 0xff800000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// What the elements of a block are multiplied by, and their codes.
static void block_scale(const struct ref_fp8_blocks *how, float amax, float *by, float *inverse)
{
    const enum small_format small = small_of(how->format);
    const float largest = (float)small_value(small, small_count(small) - 1);

    if (how->is_deepgemm) {
        *inverse = isnan(amax) ? one_nan() : fmaxf(amax, 1e-4f) / largest;
        if (how->is_power && isfinite(*inverse))
            *inverse = to_power(*inverse, true);
        *by = 1 / *inverse;
        return;
    }
    *by = 1;
    if (isfinite(amax) && amax > 0) {
        *by = largest / amax;
        *by = isinf(*by) ? FLT_MAX : *by;
        *by = how->is_power ? to_power(*by, false) : *by;
    }
    *inverse = 1 / *by;
}

static void matrix_cast(const struct ref_fp8_blocks *how, const struct matrix *m, uint8_t *codes,
                        float *inverses)
{
    const uint64_t size = 128, height = how->of_rows ? 1 : size;

    for (uint64_t r0 = 0; r0 < m->rows; r0 += height)
        for (uint64_t c0 = 0; c0 < m->columns; c0 += size) {
            const uint64_t r1 = m->rows - r0 < height ? m->rows : r0 + height;
            const uint64_t c1 = m->columns - c0 < size ? m->columns : c0 + size;
            float amax = 0, by, inverse;
            for (uint64_t r = r0; r < r1; ++r)
                for (uint64_t c = c0; c < c1; ++c) {
                    const float x = fabsf((float)ref_load(m->type, m->x, place_in(m, r, c)));
                    amax = isnan(amax) || isnan(x) ? NAN : fmaxf(amax, x);
                }
            block_scale(how, amax, &by, &inverse);
            memcpy(inverses++, &inverse, sizeof inverse);
            for (uint64_t r = r0; r < r1; ++r)
                for (uint64_t c = c0; c < c1; ++c) {
                    const float x = (float)ref_load(m->type, m->x, place_in(m, r, c));
                    const float product = x * by;
                    codes[r * m->columns + c] =
                        (uint8_t)small_from_f64(small_of(how->format), (double)product, false);
                }
        }
}

void ref_cast_fp8_blocks(const struct ref_fp8_blocks *how, enum ref_type type, const void *x,
                         uint64_t rows, uint64_t columns, bool transposed, uint8_t *codes,
                         float *inverses)
{
    const struct matrix m = { type, x, transposed ? columns : rows, transposed ? rows : columns,
                              transposed };
    matrix_cast(how, &m, codes, inverses);
}

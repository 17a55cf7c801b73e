// SPDX-License-Identifier: MIT
#include "blocks.h"

#include <float.h>
#include <math.h>

#include "half.h"
#include "step.h"

// The float nearest to a, or by the random part r (0 to 1), of floats as many as fit: in f64, where
// all of it is exact.
static double to_float(int fraction, int least, double a, bool stochastic, double r)
{
    int exponent;

    if (isnan(a) || a == 0)
        return a;
    frexp(a, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    const double step = ldexp(1, exponent - fraction);
    return stochastic ? floor(a / step + r) * step : rint(a / step) * step;
}

static float to_e4m3(float x)
{
    return isnan(x) ? x : (float)to_float(3, -6, x > 448 ? 448 : (double)x, false, 0);
}

struct scale {
    float by, times;
};

static struct scale nvfp4(const struct ref_blocks *how, float amax, float tensor_amax)
{
    struct scale s;

    if (how->scale == REF_NVFP4_TORCHAO) {
        const float tensor = tensor_amax / 2688;
        const float part = amax / 6 / tensor;
        s.by = s.times = tensor * to_e4m3(part < 0x1p-6f ? 0x1p-6f : part);
        return s;
    }
    float tensor = 2688 / tensor_amax;
    if (isinf(tensor))
        tensor = FLT_MAX;
    if (tensor_amax == 0 || tensor == 0)
        tensor = 1;
    const float sixth = tensor * (1.0f / 6), part = amax * sixth, inverse = 1 / tensor;
    s.times = to_e4m3(part) * inverse;
    s.by = s.times == 0 || isinf(1 / s.times) ? FLT_MAX : 1 / s.times;
    return s;
}

static struct scale mx(const struct ref_blocks *how, float amax)
{
    int e = -127;

    if (isnan(amax) || (isinf(amax) && how->scale != REF_MX_RCEIL_TE))
        return (struct scale) { NAN, NAN };
    if (isinf(amax)) {
        e = 127;
    } else if (how->scale == REF_MX_FLOOR) {
        if (amax > 0)
            e = (int)floor(log2((double)amax)) - how->greatest;
    } else {
        const float part = amax * (1 / how->largest);
        int above;
        if (part > 0) {
            const double fraction = frexp((double)part, &above);
            e = fraction == 0.5 ? above - 1 : above;
        }
    }
    e = e < -127 ? -127 : e;
    return (struct scale) { ldexpf(1, -e), ldexpf(1, e) };
}

static struct scale fp8(const struct ref_blocks *how, float amax)
{
    struct scale s = { 1, 1 };
    int exponent;

    if (how->scale == REF_FP8_TE || how->scale == REF_FP8_TE_POWER) {
        if (amax > 0 && !isinf(amax))
            s.by = isinf(448 / amax) ? FLT_MAX : 448 / amax;
        if (how->scale == REF_FP8_TE_POWER) {
            frexpf(s.by, &exponent);
            s.by = ldexpf(1, exponent - 1);
        }
        s.times = 1 / s.by;
        return s;
    }
    s.times = (amax < 1e-4f ? 1e-4f : amax) / 448;
    if (how->scale == REF_FP8_DEEPGEMM_POWER && isfinite(s.times)) {
        const float fraction = frexpf(s.times, &exponent);
        s.times = ldexpf(1, fraction == 0.5f ? exponent - 1 : exponent);
    }
    s.by = 1 / s.times;
    return s;
}

static double random_part(const struct ref_blocks *how, uint64_t i)
{
    const uint32_t counter[4] = { (uint32_t)(i / 8), (uint32_t)(i / 8 >> 32), (uint32_t)how->offset,
                                  (uint32_t)(how->offset >> 32) };
    const uint32_t key[2] = { (uint32_t)how->seed, (uint32_t)(how->seed >> 32) };
    uint32_t word[4];

    ref_philox(counter, key, word);
    return (i % 2 ? word[i % 8 / 2] >> 16 : word[i % 8 / 2] & 0xffff) / 65536.0;
}

static float quantized(const struct ref_blocks *how, const struct scale *s, float x, uint64_t i)
{
    const float scaled = how->scale == REF_NVFP4_TORCHAO ? x / s->by : x * s->by;
    const float size = fabsf(scaled) > how->largest ? how->largest : fabsf(scaled);
    const double r = how->stochastic ? random_part(how, i) : 0;
    const double q = to_float(how->fraction, how->least, (double)size, how->stochastic, r);
    const float y = (float)q * s->times;

    return copysignf(y, x);
}

static float learned(float amax)
{
    return amax < 0 ? 0 : amax;
}

void ref_blocks(const struct ref_blocks *how, const float *x, uint64_t rows, uint64_t columns,
                float amax, uint64_t first, float *y)
{
    for (uint64_t row = 0; row < rows; row += how->height)
        for (uint64_t column = 0; column < columns; column += how->width) {
            const uint64_t bottom = row + how->height < rows ? row + how->height : rows;
            const uint64_t end = column + how->width < columns ? column + how->width : columns;
            float most = 0;
            for (uint64_t r = row; r < bottom; r++)
                for (uint64_t c = column; c < end; c++) {
                    const float size = fabsf(x[r * columns + c]);
                    most = isnan(most) || isnan(size) ? NAN : size > most ? size : most;
                }
            if (how->amaxes)
                most = learned(how->amaxes[(row * columns + column) / how->width]);
            const struct scale s = how->scale <= REF_NVFP4_TORCHAO ? nvfp4(how, most, amax)
                                   : how->scale <= REF_MX_RCEIL_TE ? mx(how, most)
                                                                   : fp8(how, most);
            for (uint64_t r = row; r < bottom; r++)
                for (uint64_t c = column; c < end; c++) {
                    const uint64_t i = r * columns + c;
                    y[i] = quantized(how, &s, x[i], first + i);
                }
        }
}

// The residual of an element, and whether it is in range.
static double residual(const struct ref_blocks *how, const struct scale *s, float x, bool *inside)
{
    const float u = how->scale == REF_NVFP4_TORCHAO ? x / s->by : x * s->by;
    const float largest = how->largest, least = -largest;

    *inside = u >= least && u <= largest;
    if (!*inside)
        return (double)(u > largest ? largest : least);
    const double q =
        copysign(to_float(how->fraction, how->least, fabs((double)u), false, 0), (double)u);
    return (double)((float)q - u);
}

void ref_blocks_gradients(const struct ref_blocks *how, const float *x, const float *d,
                          uint64_t count, float amax, unsigned lanes, double factor, float *d_x,
                          float *d_amaxes)
{
    enum { WIDTH = 16 };
    for (uint64_t block = 0; block < count / WIDTH; block++) {
        const struct scale s = nvfp4(how, learned(how->amaxes[block]), amax);
        double sums[WIDTH] = { 0 };
        unsigned parts = WIDTH / lanes;
        for (unsigned k = 0; k < WIDTH; k++) {
            const uint64_t i = block * WIDTH + k;
            bool inside;
            const double r = residual(how, &s, x[i], &inside);
            sums[k / lanes] += (double)d[i] * r;
            d_x[i] = inside ? d[i] : 0;
        }
        for (; parts > 1; parts /= 2)
            for (unsigned k = 0; k < parts / 2; k++)
                sums[k] += sums[k + parts / 2];
        d_amaxes[block] = (float)(sums[0] * factor);
    }
}

void ref_hadamard(const float *from, uint64_t count, float *to)
{
    static const float signs[16] = { 1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1 };

    for (uint64_t first = 0; first + 16 <= count; first += 16) {
        float x[16];
        for (int k = 0; k < 16; k++)
            x[k] = from[first + (uint64_t)k] * signs[k];
        for (int apart = 1; apart < 16; apart *= 2)
            for (int k = 0; k < 16; k++)
                if (!(k & apart)) {
                    const float low = x[k], high = x[k + apart];
                    x[k] = low + high;
                    x[k + apart] = low - high;
                }
        for (int k = 0; k < 16; k++)
            to[first + (uint64_t)k] = (float)bf16_to_f64(bf16_from_f64((double)(x[k] * 0.25f)));
    }
}

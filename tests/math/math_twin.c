// SPDX-License-Identifier: MIT
// The functions of <ptxgen/math.h> in plain C, written from their formulas a second time. What is
// an fma in the text is an fmaf() here; nothing else is fused (-ffp-contract=off). Compiled once
// for any processor and once for AVX2 and FMA, with the same bits.
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "math_twin.h"

#ifndef MATH_TWINS
#define MATH_TWINS math_twins
#endif

static inline uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float value(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

// NaN of an operation is 0x7fffffff on a GPU; here it may have any sign and payload.
static inline float canonical(float x)
{
    return x != x ? value(0x7fffffff) : x;
}

static inline float keep_within(float x, float least, float most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

static inline float power_of_2(int n)
{
    return value((uint32_t)(n + 127) << 23);
}

// x * 2^n for |n| < 253, rounded once.
static inline float scaled(float x, int n)
{
    const int half = n >> 1;
    return x * power_of_2(half) * power_of_2(n - half);
}

static inline float signed_by(float magnitude, uint32_t sign)
{
    return magnitude * value((sign & 0x80000000) | 0x3f800000);
}

// ---- exponentials -------------------------------------------------------------------------------

#define SHIFTER 0x1.8p23f // adding it rounds to an integer, in the low bits

static inline int low_integer(float shifted)
{
    return (int)(bits(shifted) - bits(SHIFTER));
}

// e^r - 1 for |r| <= ln(2) / 2.
static inline float expm1_near_0(float r)
{
    float q = 0x1.9e738p-13f;
    q = fmaf(q, r, 0x1.6d3a4ap-10f);
    q = fmaf(q, r, 0x1.1112d8p-7f);
    q = fmaf(q, r, 0x1.5554f8p-5f);
    q = fmaf(q, r, 0x1.555554p-3f);
    q = fmaf(q, r, 0.5f);
    return fmaf(r * r, q, r);
}

// e^(x + low) = 2^n (1 + result).
static inline float exp_parts(float x, float low, int *n)
{
    const float shifted = fmaf(x, 0x1.715476p+0f, SHIFTER), k = shifted - SHIFTER;
    float r = fmaf(k, -0x1.62e4p-1f, x);
    r = fmaf(k, -0x1.7f7d1cp-20f, r);
    *n = low_integer(shifted);
    return expm1_near_0(r + low);
}

static inline float twin_exp(float x)
{
    int n;
    const float t = exp_parts(keep_within(x, -110, 90), 0, &n);
    return scaled(1 + t, n);
}

static inline float twin_exp2(float x)
{
    x = keep_within(x, -160, 130);
    const float shifted = x + SHIFTER, k = shifted - SHIFTER;
    return scaled(1 + expm1_near_0((x - k) * 0x1.62e43p-1f), low_integer(shifted));
}

static inline float twin_expm1(float x)
{
    int n;
    const float t = exp_parts(keep_within(x, -18, 89), 0, &n);
    const float half = power_of_2(n - 1);
    const float result = 2 * fmaf(t, half, half - 0.5f);
    return fabsf(x) < 0x1p-26f ? x : result;
}

static inline float twin_sigmoid(float x)
{
    int n;
    const bool negative = x < 0;
    const float t = exp_parts(keep_within(-fabsf(x), -110, 0), 0, &n);
    const float p = 1 + t, p_low = t - (p - 1);
    const float scale = power_of_2(n < -60 ? -60 : n);
    const float e = p * scale, d = 1 + e, d_low = fmaf(p_low, scale, (1 - d) + e);
    const float r = 1 / d, numerator = negative ? p : 1;
    float q = numerator * r;
    float rest = fmaf(-q, d, numerator);
    rest = rest + (negative ? p_low : 0);
    rest = fmaf(-q, d_low, rest);
    q = fmaf(rest, r, q);
    return scaled(q, negative ? n : 0);
}

static inline float twin_tanh(float x)
{
    int n;
    const float a = fabsf(x), s = a * a;
    float p = -0x1.9958dcp-8f;
    p = fmaf(p, s, 0x1.58eccp-6f);
    p = fmaf(p, s, -0x1.b91f24p-5f);
    p = fmaf(p, s, 0x1.110cfp-3f);
    p = fmaf(p, s, -0x1.55554ap-2f);
    const float near = fmaf(p * s, a, a);

    const float twice = a > 10 ? 20 : a + a;
    const float t = exp_parts(twice, 0, &n);
    const float scale = power_of_2(n), e = fmaf(t, scale, scale);
    const float far = fmaf(-2.0f, 1 / (e + 1), 1);
    return signed_by(a < 0.55f ? near : far, bits(x));
}

// ---- logarithms ---------------------------------------------------------------------------------

static inline float log1p_near_0(float f)
{
    float q = -0x1.38ddcp-4f;
    q = fmaf(q, f, 0x1.056c76p-3f);
    q = fmaf(q, f, -0x1.0d854p-3f);
    q = fmaf(q, f, 0x1.22d78cp-3f);
    q = fmaf(q, f, -0x1.54720cp-3f);
    q = fmaf(q, f, 0x1.99a028p-3f);
    q = fmaf(q, f, -0x1.000228p-2f);
    q = fmaf(q, f, 0x1.555554p-2f);
    q = fmaf(q, f, -0.5f);
    return q;
}

// The exponent of the power of 2 that brings x into [sqrt(1/2), sqrt(2)), at its place in the bits.
static inline uint32_t exponent_bits(float x)
{
    return (bits(x) - 0x3f3504f3) & 0xff800000;
}

static inline float exponent_value(uint32_t e)
{
    return (float)(int32_t)e * 0x1p-23f;
}

// log(x) where x is 0, negative, infinite or NaN.
static inline float or_special(float x, float result)
{
    const float special = x == 0 ? -INFINITY : fmaf(x, INFINITY, INFINITY);
    return bits(x) - 1 < 0x7f7fffff ? result : special;
}

// x = 2^k m; returns m - 1.
static inline float log_parts(float x, float *k)
{
    const bool small = x < 0x1p-126f;
    const float y = small ? x * 0x1p23f : x;
    const uint32_t e = exponent_bits(y);
    *k = fmaf((float)(int32_t)e, 0x1p-23f, small ? -23.0f : 0.0f);
    return value(bits(y) - e) - 1;
}

static inline float twin_log(float x)
{
    float k;
    const float f = log_parts(x, &k);
    const float r = fmaf(f * f, log1p_near_0(f), f);
    return or_special(x, fmaf(k, 0x1.62e43p-1f, r));
}

static inline float twin_log2(float x)
{
    float k;
    const float f = log_parts(x, &k), v = f * f * log1p_near_0(f);
    float low = f * 0x1.4ae0cp-26f;
    low = fmaf(v, 0x1.715476p+0f, low);
    return or_special(x, k + fmaf(f, 0x1.715476p+0f, low));
}

static inline float twin_log1p(float x)
{
    const float u = x + 1;
    const uint32_t e = exponent_bits(u);
    float f = value(bits(x) - e);
    f = f + fmaf(0.25f, value(0x40800000 - e), -1.0f);
    const float r = fmaf(f * f, log1p_near_0(f), f);
    const float result = fmaf(exponent_value(e), 0x1.62e43p-1f, r);
    return fabsf(x) < 0x1p-26f ? x : or_special(u, result);
}

// ---- circular functions -------------------------------------------------------------------------

// a = pi / 2 * quadrant + result, |result| <= pi / 4, by as many bits of 2 / pi as have an effect.
static float reduce_large(float a, uint32_t *quadrant)
{
    static const uint32_t words[] = { 0x00000000, 0x28be60db, 0x9391054a, 0x7f09d5f4,
                                      0x7d4d3770, 0x36d8a566, 0x4f10e410 };
    const uint32_t m = bits(a) << 8 | 0x80000000;
    const uint32_t e = (bits(a) >> 23) - 127, shift = (e & 31) + 1;
    const uint32_t *w = words + (e >> 5 & 3);
    uint32_t part[3];
    for (int k = 0; k < 3; k++)
        part[k] = (uint32_t)(((uint64_t)w[k] << 32 | w[k + 1]) << shift >> 32);
    const uint64_t low = (uint64_t)m * part[2];
    const uint64_t middle = (uint64_t)m * part[1] + (low >> 32);
    const uint32_t high = m * part[0] + (uint32_t)(middle >> 32);
    uint64_t fraction = ((uint64_t)high << 32 | (uint32_t)middle) << 2;
    const uint32_t up = (uint32_t)(fraction >> 63);
    *quadrant = (high >> 30) + up;
    fraction = up ? ~fraction : fraction;
    const int zeros = fraction >> 32 ? __builtin_clz((uint32_t)(fraction >> 32)) : 32;
    const uint32_t top = (uint32_t)(fraction << zeros >> 32);
    const uint32_t r = (uint32_t)((uint64_t)top * 0xc90fdaa2 >> 32);
    const float result = (float)r * value((uint32_t)(96 - zeros) << 23 | up << 31);
    return fmaf(a, 0, result);
}

static inline float reduce(float a, uint32_t *quadrant)
{
    if (a > 0x1p15f)
        return reduce_large(a, quadrant);
    const float shifted = fmaf(a, 0x1.45f306p-1f, SHIFTER), k = shifted - SHIFTER;
    float r = fmaf(k, -0x1.921fb6p+0f, a);
    r = fmaf(k, 0x1.777a5cp-25f, r);
    r = fmaf(k, 0x1.ee59dap-50f, r);
    *quadrant = bits(shifted);
    return r;
}

static inline float sine(float r, uint32_t quadrant, uint32_t sign)
{
    const float s = r * r;
    float p = -0x1.9953f2p-13f;
    p = fmaf(p, s, 0x1.110778p-7f);
    p = fmaf(p, s, -0x1.555546p-3f);
    const float sin_r = fmaf(p * s, r, r);
    float c = 0x1.99e90ap-16f;
    c = fmaf(c, s, -0x1.6c0c2ap-10f);
    c = fmaf(c, s, 0x1.55554ap-5f);
    c = fmaf(c, s, -0.5f);
    const float cos_r = fmaf(c, s, 1.0f);
    return signed_by(quadrant & 1 ? cos_r : sin_r, sign ^ quadrant << 30);
}

static inline float twin_sin(float x)
{
    uint32_t quadrant;
    const float r = reduce(fabsf(x), &quadrant);
    return sine(r, quadrant, bits(x));
}

static inline float twin_cos(float x)
{
    uint32_t quadrant;
    const float r = reduce(fabsf(x), &quadrant);
    return sine(r, quadrant + 1, 0);
}

// ---- error function, root -----------------------------------------------------------------------

static inline float twin_erf(float x)
{
    int n;
    const float a = fabsf(x), s = a * a, t = a > 4 ? 4 : a;
    float p = 0x1.4f3bb2p-14f;
    p = fmaf(p, s, -0x1.a601e6p-11f);
    p = fmaf(p, s, 0x1.5449ap-8f);
    p = fmaf(p, s, -0x1.b80116p-6f);
    p = fmaf(p, s, 0x1.ce2d64p-4f);
    p = fmaf(p, s, -0x1.81274p-2f);
    p = fmaf(p, s, 0x1.06eba8p-3f);
    const float near = fmaf(p, a, a);
    float l = -0x1.78e02cp-17f;
    l = fmaf(l, t, 0x1.527e46p-12f);
    l = fmaf(l, t, -0x1.dd6e36p-9f);
    l = fmaf(l, t, 0x1.8551d2p-6f);
    l = fmaf(l, t, -0x1.b3259cp-4f);
    l = fmaf(l, t, -0x1.45328ap-1f);
    l = fmaf(l, t, -0x1.20ef1cp+0f);
    const float e = exp_parts(l * t, 0, &n);
    const float scale = power_of_2(n);
    const float far = 1 - fmaf(e, scale, scale);
    return signed_by(a < 0.92f ? near : far, bits(x));
}

static inline float twin_erfc(float x)
{
    int n;
    float a = fabsf(x);
    a = a > 10.5f ? 10.5f : a;
    const float over = 1 / (a + 4);
    float q = (a - 4) * over;
    float rest = fmaf(q + 1, -4, a);
    rest = fmaf(-q, a, rest);
    q = fmaf(over, rest, q);
    float p = 0x1.12a368p-10f;
    p = fmaf(p, q, 0x1.e81bb8p-8f);
    p = fmaf(p, q, -0x1.ffbd8cp-7f);
    p = fmaf(p, q, 0x1.296e7p-5f);
    p = fmaf(p, q, -0x1.11927ep-4f);
    p = fmaf(p, q, 0x1.804656p-4f);
    p = fmaf(p, q, -0x1.9d8d14p-4f);
    p = fmaf(p, q, 0x1.16eb22p-4f);
    p = fmaf(p, q, 0x1.f7d52cp-7f);
    p = fmaf(p, q, -0x1.1df1aep-3f);
    p = fmaf(p, q, 0x1.3ba592p+0f);
    const float r = 1 / fmaf(a, 2, 1);
    float v = p * r;
    rest = fmaf(v * -2, a, p - v);
    v = fmaf(rest, r, v);
    const float square = a * a, low = fmaf(a, a, -square);
    const float t = exp_parts(-square, -low, &n);
    const float result = scaled(fmaf(v, t, v), n);
    return x < 0 ? 2 - result : result;
}

static inline float twin_rsqrt(float x)
{
    return 1 / sqrtf(x);
}

// ---- powers -------------------------------------------------------------------------------------

// log(x) = high + low for x > 0; high alone is right where x is 0, infinite or NaN.
static inline float log_extended(float x, float *low)
{
    float k;
    const float f = log_parts(x, &k);
    const float r = 1 / (f + 2);
    const float q = f * r;
    float q_low = fmaf(q, -2, f);
    q_low = fmaf(-q, f, q_low) * r;
    const float s = q * q, s_low = fmaf(q, q, -s);
    float c = 0x1.f13cfep-3f;
    c = fmaf(c, s, 0x1.23d3dcp-2f);
    c = fmaf(c, s, 0x1.999c26p-2f);
    const float c_high = fmaf(c, s, 0x1.555554p-1f);
    const float c_low = fmaf(c, s, 0x1.555554p-1f - c_high);
    const float t = s * c_high;
    float t_low = fmaf(s, c_high, -t);
    t_low = fmaf(s, c_low, t_low);
    t_low = fmaf(s_low, c_high, t_low);
    const float u = q * t;
    float rest = fmaf(q, t, -u);
    rest = fmaf(q, t_low, rest);
    rest = fmaf(q_low * 3, t, rest);
    rest = fmaf(q_low, 2, rest);
    rest = fmaf(k, 0x1.7f7d1cp-20f, rest);
    const float a = k * 0x1.62e4p-1f, b = q + q;
    const float h = a + b, h_low = (a - h) + b;
    const float g = h + u, g_low = (h - g) + u;
    rest = rest + (h_low + g_low);
    const float high = g + rest;
    *low = (g - high) + rest;
    return or_special(x, high);
}

static inline float twin_pow(float x, float y)
{
    int n;
    float low;
    const float w = keep_within(y, -0x1p100f, 0x1p100f);
    const float high = log_extended(fabsf(x), &low);
    const float p = w * high, kept = keep_within(p, -120, 100);
    float p_low = fmaf(w, high, -p);
    p_low = fmaf(w, low, p_low);
    p_low = kept == p ? p_low : 0;
    const float t = exp_parts(kept, p_low, &n);
    float result = scaled(1 + t, n);

    const bool whole = truncf(w) == w;
    const float half = w * 0.5f;
    const bool odd = whole && truncf(half) != half;
    result = signed_by(result, odd ? bits(x) : 0);
    result = x < 0 && x > -INFINITY && !whole ? value(0x7fffffff) : result;
    return y == 0 || x == 1 ? 1 : result;
}

// ---- the table ----------------------------------------------------------------------------------

#define MANY(name, ...)                                                                            \
    static void many_##name(const float *x, const float *y, float *out, size_t n)                  \
    {                                                                                              \
        (void)y;                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = canonical(twin_##name(x[i]));                                                 \
    }
PTX_MATH_UNARY(MANY)
#undef MANY
#define MANY(name, ...)                                                                            \
    static void many_##name(const float *x, const float *y, float *out, size_t n)                  \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = canonical(twin_##name(x[i], y[i]));                                           \
    }
PTX_MATH_BINARY(MANY)
#undef MANY

const struct math_twin MATH_TWINS[] = {
#define ROW(name, ...) { #name, many_##name },
    PTX_MATH_UNARY(ROW) PTX_MATH_BINARY(ROW)
#undef ROW
        { NULL, NULL },
};

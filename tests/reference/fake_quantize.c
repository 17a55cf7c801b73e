// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include "reference/reference.h"

// ---- a scale that is given ----------------------------------------------------------------------

double ref_narrow(enum ref_type type, double x)
{
    return type == REF_F64 ? x : (double)(float)x;
}

double ref_level_towards(enum ref_type type, int64_t level, double towards)
{
    const double exact = (double)level, near = ref_narrow(type, exact);
    const bool beyond = towards > 0 ? near < exact : near > exact;
    return beyond ? (double)nextafterf((float)near, (float)towards) : near;
}

static double quotient(enum ref_type type, double x, const struct ref_quantize *q)
{
    if (type == REF_F64)
        return q->reciprocal ? x * (1 / q->scale) : x / q->scale;
    const float scale = (float)q->scale;
    return (double)(q->reciprocal ? (float)x * (1 / scale) : (float)x / scale);
}

void ref_fake_quantize(enum ref_type type, const void *x, void *y, uint64_t n,
                       struct ref_quantize quantize)
{
    const int64_t zero = quantize.zero_point;
    const double low = ref_level_towards(type, quantize.q_min - zero, INFINITY);
    const double high = ref_level_towards(type, quantize.q_max - zero, -INFINITY);
    for (uint64_t i = 0; i < n; ++i) {
        double level = rint(quotient(type, ref_load(type, x, i), &quantize));
        level = level > low ? level : low; // NaN too has the least level
        level = level > high ? high : level;
        const double product = type == REF_F64 ? level * quantize.scale
                                               : (double)((float)level * (float)quantize.scale);
        ref_store(type, y, i, product + 0.0); // -0 becomes +0
    }
}

void ref_fake_quantize_channel(enum ref_type type, const void *x, void *y, uint64_t n,
                               struct ref_channels channels, struct ref_quantize quantize)
{
    const size_t bytes = ref_bytes(type);
    for (uint64_t i = 0; i < n; ++i) {
        const uint64_t channel = i / channels.inner % channels.count;
        quantize.scale = channels.scale[channel];
        quantize.zero_point = channels.zero_point[channel];
        ref_fake_quantize(type, (const char *)x + i * bytes, (char *)y + i * bytes, 1, quantize);
    }
}

int32_t ref_nearest_level(double zero_point, int32_t q_min, int32_t q_max)
{
    const double level = rint(zero_point);
    return !(level > q_min) ? q_min : level > q_max ? q_max : (int32_t)level;
}

// ---- groups -------------------------------------------------------------------------------------

/// The quantizer of a group. Levels are q - zero_point.
struct quantizer {
    float scale;
    int least, greatest;
    int32_t zero_point;
};

/// (high - low) / steps, as if the difference could not overflow.
static float part_of(float high, float low, float steps)
{
    const float span = high - low;
    if (isinf(span) && isfinite(high) && isfinite(low))
        return (high / 2 - low / 2) / (steps / 2);
    return span / steps;
}

/// A scale below the least float is the least float; a group of zeros has 1.
static float scale_of(float high, float low, float steps)
{
    const float scale = part_of(high, low, steps);
    if (high == low)
        return isinf(high) ? INFINITY : 1;
    return scale == 0 ? FLT_TRUE_MIN : scale;
}

static struct quantizer symmetric(float most, int half, bool full)
{
    const float steps = full ? (float)half - 0.5f : (float)(half - 1);
    return (struct quantizer) { scale_of(most, 0, steps), full ? -half : 1 - half, half - 1, 0 };
}

/// The range always includes 0.
static struct quantizer asymmetric(float least, float greatest, int half, bool from_zero)
{
    const int q_min = from_zero ? 0 : -half, q_max = q_min + 2 * half - 1;
    const float low = least > 0 ? 0 : least, high = greatest < 0 ? 0 : greatest;
    struct quantizer q = { .scale = scale_of(high, low, (float)(2 * half - 1)) };
    float zero = (float)q_min;
    if (isfinite(q.scale))
        zero -= rintf(low / q.scale);
    q.zero_point = zero > (float)q_max ? q_max : (int32_t)zero;
    q.least = q_min - q.zero_point;
    q.greatest = q_max - q.zero_point;
    return q;
}

static struct quantizer quantizer_of(enum ref_type type, const void *x, uint64_t begin,
                                     struct ref_groups groups)
{
    const int half = 1 << (groups.bits - 1);
    float least = INFINITY, greatest = -INFINITY;
    for (uint64_t i = begin; i < begin + groups.group; ++i) {
        const float value = (float)ref_load(type, x, i);
        if (isnan(value)) {
            least = greatest = value;
            break;
        }
        least = value < least ? value : least;
        greatest = value > greatest ? value : greatest;
    }
    if (groups.levels == REF_LEVELS_ASYMMETRIC || groups.levels == REF_LEVELS_UNSIGNED)
        return asymmetric(least, greatest, half, groups.levels == REF_LEVELS_UNSIGNED);
    const float most = isnan(least) ? least : fmaxf(fabsf(least), fabsf(greatest));
    return symmetric(most, half, groups.levels == REF_LEVELS_FULL);
}

static float scaled_back(float x, const struct quantizer *q)
{
    if (!isfinite(q->scale))
        return NAN;
    float level = rintf(x / q->scale);
    level = level < (float)q->least ? (float)q->least : level;
    level = level > (float)q->greatest ? (float)q->greatest : level;
    return level == 0 ? 0 : level * q->scale;
}

void ref_fake_quantize_groups(enum ref_type type, const void *x, void *y, uint64_t n,
                              struct ref_groups groups, float *scale, int32_t *zero_point)
{
    for (uint64_t g = 0; g < n / groups.group; ++g) {
        const uint64_t begin = g * groups.group;
        const struct quantizer q = quantizer_of(type, x, begin, groups);
        for (uint64_t i = begin; i < begin + groups.group; ++i)
            ref_store(type, y, i, (double)scaled_back((float)ref_load(type, x, i), &q));
        if (scale)
            ref_store(REF_F32, scale, g, (double)q.scale);
        if (zero_point &&
            (groups.levels == REF_LEVELS_ASYMMETRIC || groups.levels == REF_LEVELS_UNSIGNED))
            zero_point[g] = q.zero_point;
    }
}

// SPDX-License-Identifier: MIT
#include "reference/observer.h"

#include <math.h>
#include <string.h>

void ref_observe_min_max(enum ref_type type, const void *x, uint64_t n, float extremes[2])
{
    static const uint32_t of_nan[2] = { 0xffffffff, 0x7fffffff };
    bool nan = isnan(extremes[0]);
    for (uint64_t i = 0; i < n; ++i) {
        const float value = (float)ref_load(type, x, i) + 0.0f;
        nan = nan || isnan(value);
        extremes[0] = value < extremes[0] ? value : extremes[0];
        extremes[1] = value > extremes[1] ? value : extremes[1];
    }
    if (nan)
        memcpy(extremes, of_nan, sizeof of_nan);
}

static bool is_empty(const float pair[2])
{
    return pair[0] == INFINITY && pair[1] == -INFINITY;
}

static float one_nan(float x)
{
    const uint32_t bits = 0x7fffffff;
    if (isnan(x))
        memcpy(&x, &bits, sizeof x);
    return x;
}

static void quantizer_of(const struct ref_observer *rule, const float averages[2], float *scale,
                         int32_t *zero_point)
{
    const int64_t steps = (int64_t)rule->q_max - rule->q_min;
    const float low = averages[0] >= 0 ? 0 : averages[0], high = averages[1] <= 0 ? 0 : averages[1];
    if (rule->symmetric) {
        *scale = (isnan(low) || -low > high ? -low : high) / (float)((double)steps / 2);
        *zero_point = rule->zero;
    } else {
        *scale = (high - low) / (float)steps;
    }
    if (*scale <= rule->eps)
        *scale = rule->eps;
    *scale = one_nan(*scale);
    if (rule->symmetric)
        return;
    const float level = rintf(low / *scale);
    const double zero = (double)rule->q_min - (isnan(level) ? 0 : (double)level);
    *zero_point = zero < rule->q_min   ? rule->q_min
                  : zero > rule->q_max ? rule->q_max
                                       : (int32_t)zero;
}

void ref_moving_average_update(const struct ref_observer *rule, float extremes[2],
                               float averages[2], float *scale, int32_t *zero_point)
{
    const bool nothing = is_empty(extremes), first = is_empty(averages);
    for (int k = 0; k < 2; ++k) {
        const float difference = extremes[k] - averages[k];
        const float change = rule->averaging_constant * difference;
        const float next = first ? extremes[k] : averages[k] + change;
        averages[k] = one_nan(nothing ? averages[k] : next);
        extremes[k] = k ? -INFINITY : INFINITY;
    }
    *scale = 1;
    *zero_point = 0;
    if (!is_empty(averages))
        quantizer_of(rule, averages, scale, zero_point);
}

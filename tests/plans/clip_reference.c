// SPDX-License-Identifier: MIT
#include "clip_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"

enum { THREADS = 256 };

uint64_t ref_clip_chunk(const struct ref_clip_plan *plan)
{
    uint64_t elements = 0, chunk = 2048;
    for (size_t t = 0; t < plan->tensor_count; ++t)
        elements += plan->tensors[t].count;
    while (chunk < 1 << 20 && elements / chunk > (chunk < 8192    ? 300u
                                                  : chunk < 16384 ? 2048u
                                                  : chunk < 65536 ? 8192u
                                                                  : 16384u))
        chunk *= 2;
    return chunk;
}

static double one_nan(double x)
{
    return isnan(x) ? f64_of_bits(UINT64_MAX >> 1) : x;
}

/// Thread t adds partials t, t + 256 ... in four turns, which are added in pairs; then the threads'
/// sums as a block adds them.
static double sum_of_partials(const double *partials, size_t count)
{
    double turn[4][THREADS] = { { 0 } }, thread[THREADS];
    for (size_t i = 0; i < count; ++i)
        turn[i / THREADS % 4][i % THREADS] += partials[i];
    for (int t = 0; t < THREADS; ++t)
        thread[t] = (turn[0][t] + turn[1][t]) + (turn[2][t] + turn[3][t]);
    return ref_block_sum(thread, THREADS);
}

void ref_clip_sums(const struct ref_clip_plan *plan, double *sums)
{
    uint64_t chunk = ref_clip_chunk(plan), most = 0;
    for (size_t t = 0; t < plan->tensor_count; ++t)
        most += (plan->tensors[t].count + chunk - 1) / chunk;
    double *partials = malloc((size_t)(most + 1) * sizeof *partials);
    for (uint32_t g = 0; partials && g < plan->group_count; ++g) {
        size_t count = 0;
        for (size_t t = 0; t < plan->tensor_count; ++t) {
            const struct ref_gradient *x = &plan->tensors[t];
            for (uint64_t begin = 0; x->group == g && begin < x->count; begin += chunk) {
                uint64_t end = x->count - begin < chunk ? x->count : begin + chunk;
                double sum = ref_chunk_sum(x->type, x->data, begin, end);
                partials[count++] = one_nan(sum * x->weight);
            }
        }
        sums[g] = count ? one_nan(sum_of_partials(partials, count)) : 0.0;
    }
    free(partials);
}

void ref_clip_record(const struct ref_clip_plan *plan, uint32_t group, double sum, float loss_scale,
                     float record[3])
{
    float max_norm = plan->max_norms[group];
    bool found = !isfinite(sum);
    double inverse = 1.0 / (double)loss_scale, root = sqrt(sum) * inverse;
    float norm = (float)root;
    float ratio =
        isinf(norm) && !found ? (float)((double)max_norm / root) : max_norm / (norm + plan->eps);
    float clip = ratio < 1.0f || isnan(ratio) ? ratio : 1.0f;
    if (sum == 0.0)
        clip = 1.0f;
    float factor = (float)((double)clip * inverse);
    if (found && plan->nonfinite == REF_SKIP)
        factor = 1.0f;
    if (found && plan->nonfinite == REF_ZERO)
        factor = 0.0f;
    ref_store(REF_F32, record, 0, (double)factor);
    ref_store(REF_F32, record, 1, (double)norm);
    ref_store(REF_F32, record, 2, found ? 1.0 : 0.0);
}

void ref_clip_apply(const struct ref_clip_plan *plan, uint32_t group, const float record[3])
{
    for (size_t t = 0; t < plan->tensor_count; ++t)
        if (plan->tensors[t].group == group)
            ref_gradient_clip_from_device_scale(plan->tensors[t].type, plan->tensors[t].data,
                                                plan->tensors[t].count, plan->nonfinite, record);
}

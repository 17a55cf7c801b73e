// SPDX-License-Identifier: MIT
#include "weight_report.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 };

static void put_f64(double *to, double x)
{
    const uint64_t nan = UINT64_MAX >> 1;

    *to = x;
    if (isnan(x))
        memcpy(to, &nan, sizeof nan);
}

static void put_f32(float *to, float x)
{
    const uint32_t nan = UINT32_MAX >> 1;

    *to = x;
    if (isnan(x))
        memcpy(to, &nan, sizeof nan);
}

// The weight before the step: of a parameter with a master, the master's, rounded.
static double old_weight(const struct step_set *set, const unsigned char *before, size_t t,
                         uint64_t i)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const enum ref_type type = gpu_ref_type(tensor->dtype);
    unsigned char rounded[8];

    if (tensor->format != PTX_STEP_FORMAT_MASTER)
        return ref_load(type, before + set->offset[t][0], i);
    ref_store(type, rounded, 0, ref_load(REF_F32, before + set->offset[t][2], i));
    return ref_load(type, rounded, 0);
}

// The sum of a tensor's tiles: of each 256 by themselves, then of these.
static double sum_of_tiles(const double *tile, uint64_t tiles)
{
    double of_parts[BLOCK] = { 0 };

    for (uint64_t first = 0; first < tiles; first += BLOCK) {
        double part[BLOCK] = { 0 };
        memcpy(part, tile + first, (tiles - first < BLOCK ? tiles - first : BLOCK) * sizeof *part);
        const double sum = ref_block_sum(part, BLOCK);
        of_parts[first / BLOCK % BLOCK] += sum;
    }
    return ref_block_sum(of_parts, BLOCK);
}

void weight_report_expect(const struct step_set *set, const unsigned char *before, size_t t,
                          uint32_t tile, struct ptx_weight_report *must)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const enum ref_type type = gpu_ref_type(tensor->dtype);
    const unsigned lanes = step_set_lanes(set, t);
    const uint64_t tiles = (tensor->count + tile - 1) / tile;
    double *norm = calloc(2 * tiles, sizeof *norm), *change = norm + tiles, largest = 0;

    assert_non_null(norm);
    for (uint64_t first = 0; first < tensor->count; first += tile) {
        const uint64_t length = tensor->count - first < tile ? tensor->count - first : tile;
        double own[BLOCK] = { 0 }, own_change[BLOCK] = { 0 };
        for (uint64_t i = 0; i < length; i++) {
            const uint64_t thread = i / lanes % BLOCK;
            const double x = ref_load(type, set->host + set->offset[t][0], first + i);
            const double d = x - old_weight(set, before, t, first + i);
            own[thread] = fma(x, x, own[thread]);
            own_change[thread] = fma(d, d, own_change[thread]);
            largest = isnan(x) || isnan(largest) ? NAN : fmax(largest, fabs(x));
        }
        norm[first / tile] = ref_block_sum(own, BLOCK);
        change[first / tile] = ref_block_sum(own_change, BLOCK);
    }
    *must = (struct ptx_weight_report) { 0 };
    put_f64(&must->norm, sqrt(sum_of_tiles(norm, tiles)));
    put_f64(&must->change, sqrt(sum_of_tiles(change, tiles)));
    put_f32(&must->largest, (float)largest);
    free(norm);
}

// SPDX-License-Identifier: MIT
#include "reference/units.h"

#include <math.h>
#include <string.h>

#include "reference/half.h"

enum { PART = 1024, WARP = 32, THREADS = 256, FEW = 8 };

static double one_nan(double x)
{
    return isnan(x) ? f64_of_bits(UINT64_MAX >> 1) : x;
}

/// x[i] += x[i + d] for d = count / 2 ... 1.
static double tree(double *x, unsigned count)
{
    for (unsigned d = count / 2; d > 0; d /= 2)
        for (unsigned i = 0; i < d; i++)
            x[i] += x[i + d];
    return x[0];
}

static double square(enum ref_type type, const void *x, uint64_t i, double sum)
{
    const double value = ref_load(type, x, i);
    return fma(value, value, sum);
}

/// The threads of a part: each has at most 32 elements of it.
static unsigned team_of(uint64_t columns)
{
    unsigned team = 1;
    while (team < WARP && 32 * (uint64_t)team < columns)
        team *= 2;
    return team;
}

/// A thread has vectors of 16 bytes, a team apart, and adds their elements to two sums in turn.
static double part_sum(const struct ref_units *u, uint64_t first, uint64_t length)
{
    const unsigned lanes = 16 / (unsigned)ref_bytes(u->gradient_type), team = team_of(u->columns);
    double sum[WARP][2] = { { 0 } }, thread[WARP];

    for (uint64_t i = 0; i < length; i++) {
        double *own = &sum[i / lanes % team][i % lanes % 2];
        *own = square(u->gradient_type, u->gradient, first + i, *own);
    }
    for (unsigned t = 0; t < team; t++)
        thread[t] = sum[t][0] + sum[t][1];
    return tree(thread, team);
}

static uint64_t parts_of(const struct ref_units *u)
{
    return (u->columns + PART - 1) / PART;
}

static double sum_of_part(const struct ref_units *u, uint64_t unit, uint64_t part)
{
    const uint64_t left = u->columns - part * PART;
    return part_sum(u, unit * u->columns + part * PART, left < PART ? left : PART);
}

/// Team t of those of a block has parts t, t + teams, ... of the chunk, and its first thread adds
/// their sums.
double ref_units_chunk_sum(const struct ref_units *u, uint64_t begin, uint64_t end)
{
    const unsigned team = team_of(u->columns), teams = THREADS / team;
    double thread[THREADS] = { 0 };
    unsigned turn = 0;

    for (uint64_t unit = begin / u->columns; unit * u->columns < end; unit++)
        for (uint64_t part = 0; part < parts_of(u); part++) {
            const uint64_t first = unit * u->columns + part * PART;
            if (first < begin || first >= end)
                continue;
            thread[turn * team] += sum_of_part(u, unit, part);
            turn = (turn + 1) % teams;
        }
    return ref_block_sum(thread, THREADS);
}

/// The elements of a sum of weights: the greatest power of two that divides a row, or any for a
/// vector, up to what a warp of the step reads. 0: below what a thread reads.
static uint64_t run_of(const struct ref_units *u)
{
    uint64_t run = 1;
    while (run < 32 * u->lanes && (u->vector || u->columns % (2 * run) == 0))
        run *= 2;
    return run < u->lanes ? 0 : run;
}

/// A run of weights, in f32.
static double run_sum(const struct ref_units *u, uint64_t first, uint64_t length, uint64_t run)
{
    float lane[WARP] = { 0 };

    for (uint64_t i = 0; i < length; i++) {
        const float x = (float)ref_load(u->parameter_type, u->parameter, first + i);
        lane[i / u->lanes] = fmaf(x, x, lane[i / u->lanes]);
    }
    for (uint64_t d = run / u->lanes / 2; d > 0; d /= 2)
        for (uint64_t k = 0; k < d; k++)
            lane[k] += lane[k + d];
    return one_nan((double)lane[0]);
}

float ref_unit_factor(const struct ref_units *u, uint64_t unit, float factor)
{
    const uint64_t run = run_of(u), parts = parts_of(u), first = unit * u->columns;
    const uint64_t runs = run ? (u->columns + run - 1) / run : 0;
    const unsigned team = !run || runs > FEW || parts > FEW ? WARP : 1;
    double g[WARP] = { 0 }, w[WARP] = { 0 };

    for (uint64_t k = 0; k < parts; k++)
        g[k % team] += sum_of_part(u, unit, k);
    for (uint64_t k = 0; k < runs; k++) {
        const uint64_t left = u->columns - k * run;
        w[k % team] += run_sum(u, first + k * run, left < run ? left : run, run);
    }
    for (uint64_t k = 0; k < u->columns && !run; k++)
        w[k % team] = square(u->parameter_type, u->parameter, first + k, w[k % team]);
    const double gradient = sqrt(tree(g, team)) * (double)factor, weights = sqrt(tree(w, team));
    const double most = u->clipping * (weights < u->eps ? u->eps : weights);
    if (gradient < most)
        return factor;
    const double clipped = (double)factor * (most / (gradient < 1e-6 ? 1e-6 : gradient));
    return isnan(clipped) ? f32_of_bits(UINT32_MAX >> 1) : (float)clipped;
}

// SPDX-License-Identifier: MIT
#include "reference/learned.h"

#include <math.h>
#include <string.h>

enum { LANES = 32, WARPS = 8 };

// ---- an element ---------------------------------------------------------------------------------

/// The step, the least and the greatest level around the zero point.
struct quantizer {
    double scale, inverse, low, high;
};

/// What an element adds: d_output * residual, and d_output * factor.
struct term {
    bool inside;
    double residual, factor;
};

static int64_t zero_point_of(const struct ref_learned *p, uint64_t channel)
{
    return p->zero_fixed ? p->zero_fixed[channel]
                         : ref_nearest_level(p->zero_point[channel], p->q_min, p->q_max);
}

static struct quantizer quantizer_of(enum ref_type type, const struct ref_learned *p,
                                     uint64_t channel)
{
    const int64_t zero_point = zero_point_of(p, channel);
    const double scale = p->scale[channel];
    return (struct quantizer) { scale,
                                type == REF_F64 ? 1.0 / scale : (double)(1.0f / (float)scale),
                                ref_level_towards(type, p->q_min - zero_point, INFINITY),
                                ref_level_towards(type, p->q_max - zero_point, -INFINITY) };
}

static struct term term_of(enum ref_type type, const struct ref_learned *p,
                           const struct quantizer *q, double x)
{
    const double quotient = ref_narrow(type, p->reciprocal ? x * q->inverse : x / q->scale);
    const double level = rint(quotient);
    const bool inside = p->quotient_range ? quotient > q->low && quotient < q->high
                                          : level >= q->low && level <= q->high;
    double within = level > q->low ? level : q->low; // NaN: low
    if (within > q->high)
        within = q->high;
    return (struct term) { inside, ref_narrow(type, inside ? within - quotient : within),
                           inside ? 0 : -q->scale };
}

/// Sums of both kinds.
struct sums {
    double scale, zero_point;
};

static void add_element(enum ref_type type, const struct ref_learned *p, const struct quantizer *q,
                        const void *x, const void *d_output, void *d_input, uint64_t i,
                        struct sums *to)
{
    const size_t bytes = ref_bytes(type);
    const struct term t = term_of(type, p, q, ref_load(type, x, i));
    const double dy = ref_load(type, d_output, i);
    to->scale = fma(dy, t.residual, to->scale);
    if (!t.inside)
        to->zero_point = fma(dy, t.factor, to->zero_point);
    if (t.inside)
        memmove((char *)d_input + i * bytes, (const char *)d_output + i * bytes, bytes);
    else
        ref_store(type, d_input, i, 0.0);
}

static struct sums halve(struct sums *v, int count)
{
    for (int d = count / 2; d > 0; d /= 2)
        for (int k = 0; k < d; k++) {
            v[k].scale += v[k + d].scale;
            v[k].zero_point += v[k + d].zero_point;
        }
    return v[0];
}

static void store_sum(double *to, uint64_t k, double sum)
{
    if (to)
        ref_store(REF_F64, to, k, isnan(sum) ? (double)NAN : sum);
}

// ---- pieces -------------------------------------------------------------------------------------

static uint64_t over(uint64_t x, uint64_t y)
{
    return (x + y - 1) / y;
}

/// Elements of a piece of a row, or of a tensor with one scale.
static uint64_t piece_of(enum ref_type type, uint64_t n, enum ref_layout layout)
{
    if (layout == REF_TENSOR)
        return (n > 262144 ? 32768 : 4096) / ref_bytes(type);
    if (layout == REF_WHOLE)
        return UINT64_MAX;
    return n > 16777216 ? 8192 : 2048;
}

/// Columns of a row of tiles.
static uint64_t unit_of(enum ref_type type, const struct ref_learned *p)
{
    uint64_t unit = p->channels * p->inner;
    while (unit % (type == REF_F64 ? 2 : 4))
        unit *= 2;
    return unit < 1024 ? unit * (1024 / unit) : unit;
}

/// Rows of a tile, each with 64 elements of f64 or 128 of the others.
static uint64_t tile_rows(enum ref_type type, uint64_t n)
{
    const uint64_t tile = n > 16777216 ? 65536 : n > 1048576 ? 16384 : 4096;
    return tile / (type == REF_F64 ? 64 : 128);
}

uint64_t ref_learned_pieces(enum ref_type type, uint64_t n, const struct ref_learned *p)
{
    if (p->layout == REF_TENSOR)
        return over(n, piece_of(type, n, p->layout));
    if (p->layout == REF_WHOLE)
        return p->channels;
    if (p->layout == REF_ROWS)
        return over(n, p->inner) * over(p->inner, piece_of(type, n, p->layout));
    const uint64_t unit = unit_of(type, p);
    return over(over(n, unit), tile_rows(type, n)) * unit;
}

/// The threads for a row that has at most one piece.
static int team_of(uint64_t inner, uint64_t lanes)
{
    int team = 1;
    while (team < LANES && (uint64_t)team * lanes < inner)
        team *= 2;
    return team;
}

/// Over the lanes of each warp, then over the warps.
static struct sums sum_of_team(struct sums *v, int team)
{
    struct sums warps[WARPS];
    const int lanes = team < LANES ? team : LANES;
    for (int k = 0; k < team / lanes; k++)
        warps[k] = halve(v + k * lanes, lanes);
    return halve(warps, team / lanes);
}

static void backward_rows(enum ref_type type, const void *x, const void *d_output, void *d_input,
                          uint64_t n, const struct ref_learned *p, double *scale_sums,
                          double *zero_sums)
{
    const uint64_t lanes = 16 / ref_bytes(type), size = piece_of(type, n, p->layout);
    const uint64_t inner = p->layout == REF_TENSOR ? n : p->inner;
    const bool whole = p->layout == REF_WHOLE;
    const bool block = p->layout == REF_TENSOR || (whole && p->channels == 1);
    const int team = block ? LANES * WARPS : team_of(inner, lanes);
    uint64_t piece = 0;
    for (uint64_t row = 0; whole ? row < p->channels : row * inner < n; row++) {
        const uint64_t channel = p->layout == REF_TENSOR ? 0 : row % p->channels;
        const struct quantizer q = quantizer_of(type, p, channel);
        for (uint64_t begin = 0; begin < inner; begin += size < inner ? size : inner, piece++) {
            struct sums thread[LANES * WARPS] = { { 0, 0 } };
            for (uint64_t e = 0; e < size && begin + e < inner; e++) {
                const uint64_t i = row * inner + begin + e;
                if (i < n)
                    add_element(type, p, &q, x, d_output, d_input, i,
                                &thread[e / lanes % (uint64_t)team]);
            }
            const struct sums total = sum_of_team(thread, team);
            store_sum(scale_sums, piece, total.scale);
            store_sum(zero_sums, piece, total.zero_point);
        }
    }
}

static void backward_columns(enum ref_type type, const void *x, const void *d_output, void *d_input,
                             uint64_t n, const struct ref_learned *p, double *scale_sums,
                             double *zero_sums)
{
    const uint64_t unit = unit_of(type, p), rows = tile_rows(type, n);
    uint64_t piece = 0;
    for (uint64_t top = 0; top * unit < n; top += rows)
        for (uint64_t column = 0; column < unit; column++, piece++) {
            const struct quantizer q = quantizer_of(type, p, column / p->inner % p->channels);
            struct sums warp[WARPS] = { { 0, 0 } };
            for (uint64_t row = 0; row < rows; row++) {
                const uint64_t i = (top + row) * unit + column;
                if (i < n)
                    add_element(type, p, &q, x, d_output, d_input, i, &warp[row % WARPS]);
            }
            const struct sums total = halve(warp, WARPS);
            store_sum(scale_sums, piece, total.scale);
            store_sum(zero_sums, piece, total.zero_point);
        }
}

void ref_learned_backward(enum ref_type type, const void *x, const void *d_output, void *d_input,
                          uint64_t n, const struct ref_learned *p, double *scale_sums,
                          double *zero_sums)
{
    (p->layout == REF_COLUMNS ? backward_columns : backward_rows)(
        type, x, d_output, d_input, n, p, scale_sums, p->zero_fixed ? NULL : zero_sums);
}

// ---- the second launch --------------------------------------------------------------------------

void ref_learned_reduce(enum ref_type type, const double *sums, uint64_t pieces, uint64_t channels,
                        uint64_t width, double grad_factor, void *gradient)
{
    enum { MOST_THREADS = 1024 };
    const uint64_t each = pieces / channels;
    uint64_t threads = 1;
    while (threads < MOST_THREADS && threads * 8 < each)
        threads *= 2;
    for (uint64_t channel = 0; channel < channels; channel++) {
        struct sums thread[MOST_THREADS] = { { 0, 0 } };
        for (uint64_t k = 0; k < each; k++)
            thread[k % threads].scale += sums[(k / width * channels + channel) * width + k % width];
        ref_store(type, gradient, channel, halve(thread, (int)threads).scale * grad_factor);
    }
}

// SPDX-License-Identifier: MIT
#include "clip_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/half.h"

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

/// Thread t adds partials t, t + 256, ... to four sums in turn, and adds those in pairs. Then the
/// threads' sums are added as in a block.
static double sum_of_partials(const double *partials, size_t count)
{
    double turn[4][THREADS] = { { 0 } }, thread[THREADS];
    for (size_t i = 0; i < count; ++i)
        turn[i / THREADS % 4][i % THREADS] += partials[i];
    for (int t = 0; t < THREADS; ++t)
        thread[t] = (turn[0][t] + turn[1][t]) + (turn[2][t] + turn[3][t]);
    return ref_block_sum(thread, THREADS);
}

// ---- packed chunks ------------------------------------------------------------------------------

/// How many times the busiest of the 256 / team teams reads four vectors a thread, over all its
/// pieces.
static uint64_t turns_of(const struct ref_gradient *const *pieces, size_t count, size_t team)
{
    uint64_t most = 0;
    for (size_t t = 0; t < THREADS / team; ++t) {
        uint64_t turns = 0;
        for (size_t k = t; k < count; k += THREADS / team) {
            uint64_t at_once = 4 * team * 16 / ref_bytes(pieces[k]->type);
            turns += (pieces[k]->count + at_once - 1) / at_once;
        }
        most = turns > most ? turns : most;
    }
    return most;
}

/// A sum times its tensor's weight: 0 for one that is not counted, of which infinity stays.
static double weighted(double sum, double weight)
{
    return isnan(sum * weight) ? sum : sum * weight;
}

/// The sums of a piece's threads, without its weight.
static void piece_sums(const struct ref_gradient *x, size_t team, double thread[THREADS])
{
    double sums[THREADS][2] = { { 0 } };
    for (uint64_t i = 0; i < x->count; ++i) {
        uint64_t lanes = 16 / ref_bytes(x->type), whole = x->count / lanes * lanes;
        double *sum = i < whole ? &sums[i / lanes % team][i % 2] : &sums[i - whole][0];
        double value = ref_load(x->type, x->data, i);
        *sum = fma(value, value, *sum);
    }
    for (size_t l = 0; l < team; ++l)
        thread[l] = sums[l][0] + sums[l][1];
}

double ref_clip_piece_sum(const struct ref_gradient *x)
{
    double thread[THREADS];
    piece_sums(x, 32, thread);
    return ref_block_sum(thread, 32);
}

/// With T = 256 / team teams, team t takes pieces t, t + T, t + 2T, ... Thread l of a team takes
/// the 16-byte vectors l, l + team, ... of the piece, and adds elements at even and at odd
/// positions in two sums. Of the elements after the last whole vector, thread l adds the l-th to
/// its first sum.
static double sum_of_pack(const struct ref_gradient *const *pieces, size_t count, bool reports)
{
    double thread[THREADS] = { 0 };
    size_t team = 32;
    for (size_t larger = 64; larger <= THREADS && !reports; larger *= 2)
        if (turns_of(pieces, count, larger) < turns_of(pieces, count, team))
            team = larger;
    for (size_t k = 0; k < count; ++k) {
        const struct ref_gradient *x = pieces[k];
        double sums[THREADS];
        double *own = thread + k % (THREADS / team) * team;
        piece_sums(x, team, sums);
        for (size_t l = 0; l < team; ++l)
            own[l] += weighted(sums[l], x->weight);
    }
    return ref_block_sum(thread, THREADS);
}

/// The chunks of a group so far, and the pieces of the last one, which is not full yet.
struct chunks {
    uint64_t size;
    bool reports;
    double *partials; ///< NULL: the partials are only counted
    size_t count;
    const struct ref_gradient *pieces[REF_CLIP_PIECES];
    size_t piece_count;
    uint64_t elements; ///< in the pieces
};

static void add_chunk(struct chunks *c, const struct ref_gradient *x, uint64_t begin, uint64_t end)
{
    const struct ref_units units = { .gradient_type = x->type,
                                     .gradient = x->data,
                                     .columns = x->columns };
    if (c->partials)
        c->partials[c->count] =
            one_nan(weighted(x->columns ? ref_units_chunk_sum(&units, begin, end)
                                        : ref_chunk_sum(x->type, x->data, begin, end),
                             x->weight));
    ++c->count;
}

static void close_pack(struct chunks *c)
{
    if (c->piece_count == 1) {
        add_chunk(c, c->pieces[0], 0, c->pieces[0]->count);
    } else if (c->piece_count > 1) {
        if (c->partials)
            c->partials[c->count] = one_nan(sum_of_pack(c->pieces, c->piece_count, c->reports));
        ++c->count;
    }
    c->piece_count = 0;
    c->elements = 0;
}

static void add_tensor(struct chunks *c, const struct ref_gradient *x, bool packs)
{
    if (x->count == 0)
        return;
    bool small = packs && x->count <= c->size / (c->reports ? THREADS / 32 : 2);
    if (!small || c->piece_count == REF_CLIP_PIECES || c->elements + x->count > c->size)
        close_pack(c);
    if (small) {
        c->pieces[c->piece_count++] = x;
        c->elements += x->count;
        return;
    }
    for (uint64_t begin = 0; begin < x->count; begin += c->size)
        add_chunk(c, x, begin, x->count - begin < c->size ? x->count : begin + c->size);
}

static size_t chunks_of_group(const struct ref_clip_plan *plan, uint32_t group, bool packs,
                              double *partials)
{
    struct chunks c = { .size = ref_clip_chunk(plan),
                        .reports = plan->reports,
                        .partials = partials };
    for (size_t t = 0; t < plan->tensor_count; ++t)
        if (plan->tensors[t].group == group)
            add_tensor(&c, &plan->tensors[t], packs);
    close_pack(&c);
    return c.count;
}

uint64_t ref_clip_chunk_count(const struct ref_clip_plan *plan, bool packs)
{
    uint64_t count = 0;
    for (uint32_t g = 0; g < plan->group_count; ++g) {
        size_t chunks = chunks_of_group(plan, g, packs, NULL);
        count += chunks ? chunks : 1;
    }
    return count;
}

bool ref_clip_packs(const struct ref_clip_plan *plan)
{
    for (size_t t = 0; t < plan->tensor_count; ++t)
        if (plan->tensors[t].columns)
            return false;
    uint64_t chunks = ref_clip_chunk_count(plan, false);
    return chunks > 512 && 2 * ref_clip_chunk_count(plan, true) <= chunks;
}

bool ref_clip_shares(const struct ref_clip_plan *plan, size_t t)
{
    struct chunks c = { .size = ref_clip_chunk(plan), .reports = plan->reports };
    const bool packs = ref_clip_packs(plan);
    size_t pieces = 0; // of the tensor's chunk
    bool open = false;
    for (size_t u = 0; u < plan->tensor_count; ++u) {
        const struct ref_gradient *x = &plan->tensors[u];
        const size_t before = c.piece_count;
        if (x->group != plan->tensors[t].group || x->count == 0)
            continue;
        add_tensor(&c, x, packs);
        open = u == t ? c.piece_count > 0 : open && c.piece_count > before;
        pieces = open ? c.piece_count : pieces;
    }
    return pieces > 1;
}

void ref_clip_sums(const struct ref_clip_plan *plan, double *sums)
{
    uint64_t most = ref_clip_chunk_count(plan, false);
    double *partials = malloc((size_t)(most + 1) * sizeof *partials);
    bool packs = ref_clip_packs(plan);
    for (uint32_t g = 0; partials && g < plan->group_count; ++g) {
        size_t count = chunks_of_group(plan, g, packs, partials);
        sums[g] = count ? one_nan(sum_of_partials(partials, count)) : 0.0;
    }
    free(partials);
}

void ref_clip_record(const struct ref_clip_plan *plan, uint32_t group, double sum, float loss_scale,
                     float record[3])
{
    float max_norm = plan->max_norms[group];
    double inverse = 1.0 / (double)loss_scale, root = sqrt(sum) * inverse;
    float norm = (float)root, divisor = norm + plan->eps;
    float ratio = max_norm / (divisor == 0.0f ? 0x1p-149f : divisor);
    if (isinf(divisor) && isfinite(sum))
        ratio = (float)((double)max_norm / (root + (double)plan->eps));
    float clip = ratio < 1.0f || isnan(ratio) ? ratio : 1.0f;
    if (sum == 0.0)
        clip = 1.0f;
    float factor = (float)((double)clip * inverse);
    bool found = !isfinite(sum) || !isfinite(factor) || plan->found_inf != 0.0f ||
                 !(max_norm >= 0.0f) || !(loss_scale > 0.0f) || isinf(loss_scale);
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

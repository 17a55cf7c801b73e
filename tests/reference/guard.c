// SPDX-License-Identifier: MIT
#include "reference/guard.h"

#include <math.h>
#include <string.h>

// Thread t of 256 adds x[t], x[t + 256], ...; a tree over the threads follows.
static double block_total(const double *x, uint32_t count)
{
    double thread[256] = { 0 };

    for (uint32_t k = 0; k < count; k++)
        thread[k % 256] += x[k];
    return ref_block_sum(thread, 256);
}

static float norm_of(double sum, float loss_scale)
{
    return (float)(sqrt(sum) * (1.0 / (double)loss_scale));
}

// ---- history ------------------------------------------------------------------------------------

// Lane l of 32 adds values l, l + 32, ...; a tree over the lanes follows.
static double lanes_total(const double *x, uint32_t count)
{
    double lane[32] = { 0 };

    for (uint32_t k = 0; k < count; k++)
        lane[k % 32] += x[k];
    for (int d = 16; d > 0; d /= 2)
        for (int l = 0; l < d; l++)
            lane[l] += lane[l + d];
    return lane[0];
}

static bool is_outlier(const float *ring, uint32_t count, double deviations, float x)
{
    double values[REF_GUARD_MOST_LENGTH] = { 0 };

    for (uint32_t k = 0; k < count; k++)
        values[k] = (double)ring[k];
    const double mean = lanes_total(values, count) / count;
    for (uint32_t k = 0; k < count; k++)
        values[k] = (values[k] - mean) * (values[k] - mean);
    const double std = sqrt(lanes_total(values, count) / (count - 1.0));
    const double distance = (double)x - mean, most = deviations * std;
    return !(distance <= most);
}

static bool history_skips(const struct ref_guards *g, const struct ref_guard_state *s, float norm,
                          float loss)
{
    const uint32_t half = g->length / 2 > 2 ? g->length / 2 : 2;

    if (g->length == 0 || s->filled + 1 < half)
        return false;
    return is_outlier(s->norms, s->filled, g->deviations, norm) ||
           (g->has_loss && is_outlier(s->losses, s->filled, g->deviations, loss));
}

static void history_add(const struct ref_guards *g, struct ref_guard_state *s, float norm,
                        float loss)
{
    const bool usable = isfinite(norm) && (!g->has_loss || isfinite(loss));

    if (usable && s->skipped != REF_SKIP_FOUND_INF &&
        (g->most_skips == 0 || s->skipped == REF_SKIP_NONE)) {
        s->norms[s->next] = norm;
        s->losses[s->next] = loss;
        s->next = (s->next + 1) % g->length;
        s->filled += s->filled < g->length;
    }
    if (g->most_skips && s->in_a_row >= g->most_skips)
        s->filled = s->next = s->in_a_row = 0;
}

// ---- clipping further ---------------------------------------------------------------------------

static float clip_to(double sum, float loss_scale, float norm, float limit, float eps)
{
    const float divisor = norm + eps;
    float ratio = limit / (divisor == 0.0f ? 0x1p-149f : divisor);

    if (isinf(divisor))
        ratio = (float)((double)limit / (sqrt(sum) * (1.0 / (double)loss_scale) + (double)eps));
    return ratio < 1.0f && sum != 0.0 ? ratio : 1.0f;
}

static float zclip(const struct ref_guards *g, struct ref_guard_state *s, uint32_t k, double sum,
                   float loss_scale, float norm)
{
    const double x = (double)norm, std = sqrt(s->variance[k]);
    const bool usable = norm > 0 && isfinite(norm);

    if (s->count[k] < g->zclip_warmup) {
        if (!usable)
            return 1;
        const double n = (double)++s->count[k], distance = x - s->mean[k];
        s->mean[k] += distance / n;
        s->variance[k] += distance * (x - s->mean[k]);
        if (s->count[k] == g->zclip_warmup)
            s->variance[k] /= n;
        return 1;
    }
    const double z = (x - s->mean[k]) / (std + 1e-6);
    const double c = z > g->z_most ? s->mean[k] + g->z_most * std / (z / g->z_most) : x;
    if (usable) {
        s->mean[k] = g->alpha * s->mean[k] + (1 - g->alpha) * c;
        const double distance = c - s->mean[k];
        s->variance[k] = g->alpha * s->variance[k] + (1 - g->alpha) * (distance * distance);
    }
    return z > g->z_most ? clip_to(sum, loss_scale, norm, (float)c, g->eps) : 1;
}

static float adagc(const struct ref_guards *g, struct ref_guard_state *s, uint32_t k, float norm,
                   float all)
{
    const double x = (double)norm;
    const bool begins = s->mean[k] == 0;
    const bool warm = begins || s->counts[0] + 1 < g->adagc_warmup;

    if (!(norm > 0) || !isfinite(norm))
        return 1;
    double h = warm ? g->lambda_abs / (double)all : g->lambda_rel * s->mean[k] / x;
    h = h < 1 ? h : 1;
    if (begins)
        s->mean[k] = h * x;
    else if (warm)
        s->mean[k] = h * x < s->mean[k] ? h * x : s->mean[k];
    else
        s->mean[k] = g->beta * s->mean[k] + (1 - g->beta) * (h * x);
    s->count[k]++;
    return (float)h;
}

// ---- a step -------------------------------------------------------------------------------------

static enum ref_skip reason_of(const struct ref_guards *g, const struct ref_guard_state *s,
                               const struct ref_guard_step *step, float watched)
{
    bool found = false, over = false;

    for (uint32_t k = 0; k < g->groups; k++) {
        found |= step->records[k][2] != 0.0f;
        over |= g->limits && step->records[k][1] > g->limits[k];
    }
    return found                                      ? REF_SKIP_FOUND_INF
           : step->given != 0.0f                      ? REF_SKIP_GIVEN
           : over                                     ? REF_SKIP_LIMIT
           : history_skips(g, s, watched, step->loss) ? REF_SKIP_HISTORY
                                                      : REF_SKIP_NONE;
}

static void set_factors(const struct ref_guards *g, struct ref_guard_state *s,
                        const struct ref_guard_step *step)
{
    for (uint32_t k = 0; k < g->groups; k++) {
        float *record = step->records[k], clip = 1;
        if (s->skipped > REF_SKIP_FOUND_INF)
            record[0] = 1;
        if (s->skipped != REF_SKIP_NONE)
            continue;
        if (g->zclip_warmup)
            clip = zclip(g, s, k, step->sums[k], step->loss_scale, record[1]);
        else if (g->adagc_warmup)
            clip = adagc(g, s, k, record[1], s->norm);
        else
            continue;
        const float factor = (float)((double)clip * (1.0 / (double)step->loss_scale));
        record[0] = factor < record[0] ? factor : record[0];
    }
}

enum ref_skip ref_guard_decide(const struct ref_guards *g, struct ref_guard_state *s,
                               const struct ref_guard_step *step)
{
    s->norm = norm_of(block_total(step->sums, g->groups), step->loss_scale);
    const float watched = g->group < 0 ? s->norm : norm_of(step->sums[g->group], step->loss_scale);
    s->skipped = reason_of(g, s, step, watched);
    set_factors(g, s, step);
    s->counts[s->skipped]++;
    if (s->skipped == REF_SKIP_NONE)
        s->in_a_row = 0;
    else if (s->skipped != REF_SKIP_FOUND_INF)
        s->in_a_row++;
    if (g->length)
        history_add(g, s, watched, step->loss);
    return s->skipped;
}

// ---- bytes --------------------------------------------------------------------------------------

static size_t put(unsigned char *to, size_t at, const void *from, size_t bytes)
{
    memcpy(to + at, from, bytes);
    return at + bytes;
}

size_t ref_guard_bytes(const struct ref_guards *g, const struct ref_guard_state *s,
                       unsigned char *bytes)
{
    const bool has_groups = g->zclip_warmup || g->adagc_warmup;
    const uint32_t words[] = { 1, g->length, has_groups ? g->groups : 0,
                               (g->zclip_warmup   ? 1u
                                : g->adagc_warmup ? 2u
                                                  : 0u) +
                                   (g->has_loss ? 4u : 0u) };
    const float skipped = (float)s->skipped;
    const uint32_t more[] = { s->filled, s->next, s->in_a_row, 0 };
    const uint64_t none[3] = { 0 };
    float norm;
    size_t at = put(bytes, 0, words, sizeof words);

    ref_store(REF_F32, &norm, 0, (double)s->norm);
    at = put(bytes, at, &skipped, sizeof skipped);
    at = put(bytes, at, &norm, sizeof norm);
    at = put(bytes, at, more, sizeof more);
    at = put(bytes, at, s->counts, sizeof s->counts);
    at = put(bytes, at, none, sizeof none);
    at = put(bytes, at, s->norms, g->length * sizeof *s->norms);
    if (g->has_loss)
        at = put(bytes, at, s->losses, g->length * sizeof *s->losses);
    if (at % 8)
        at = put(bytes, at, none, 4);
    for (uint32_t k = 0; has_groups && k < g->groups; k++) {
        at = put(bytes, at, &s->mean[k], sizeof *s->mean);
        at = put(bytes, at, &s->variance[k], sizeof *s->variance);
        at = put(bytes, at, &s->count[k], sizeof *s->count);
    }
    return at;
}

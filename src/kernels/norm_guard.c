// SPDX-License-Identifier: MIT
// Guards: one block decides for all groups whether the step is taken and how far it is clipped, and
// writes the records, the summary and the guards' state.
#include <math.h>

#include "common/common.h"
#include "norm_parts.h"

#define RULE(member)   NORM_PLACE(double, struct norm_guard_rule, member)
#define RULE32(member) NORM_PLACE(uint32_t, struct norm_guard_rule, member)
#define STATE(member)  NORM_PLACE(uint32_t, struct ptx_guard_state, member)
#define OWN(member)    NORM_PLACE(double, struct ptx_guard_record, member)
#define RECORD(member) NORM_PLACE(float, struct ptx_clip_record, member)

enum { STATE_WORDS = NORM_LENGTH(uint32_t, struct ptx_guard_state) };

void ptxk_norm_guards_param(ptx_builder *b, const struct norm_spec *spec, struct norm_guards *g)
{
    g->rule = ptx_param_ptr(b, PTX_F64, "guard_rule", .readonly = true,
                            .meaning = "the guards' scalars: struct norm_guard_rule");
    g->state = ptx_param_ptr(b, PTX_U32, "guard_state",
                             .meaning = "struct ptx_guard_state, rings, records of groups");
    if (spec->guards & NORM_GUARD_LIMITS_AT)
        g->limits_at = ptx_param_ptr(b, PTX_F32, "limits_at", .readonly = true,
                                     .meaning = "one a group, the caller's");
    if (spec->guards & NORM_GUARD_SKIP_AT)
        g->skip_at = ptx_param_ptr(b, PTX_F32, "skip_at", .readonly = true, .length = "1",
                                   .meaning = "the caller's: not 0: the step is skipped");
    if (spec->guards & NORM_GUARD_LOSS)
        g->loss_at = ptx_param_ptr(b, PTX_F32, "loss_at", .readonly = true, .length = "1",
                                   .meaning = "the caller's");
}

ptx_val ptxk_norm_guards_skipped(ptx_builder *b, ptx_ptr state)
{
    return ptx_load(b, ptx_ptr_cast(b, PTX_F32, state), STATE(skipped));
}

// ---- the decision -------------------------------------------------------------------------------

struct decision {
    const struct norm_results *r;
    const struct norm_guards_known *known;
    ptx_ptr rule32, shared; // scalars as u32; f64
    ptx_val tid;
    ptx_val found, reason; // a predicate; u32: enum ptx_guard_skip
    ptx_val norm, watched; // f32: over all groups, and what history looks at
    ptx_val inverse;       // f64: 1 / loss scale
    // Variables, of the thread's first group: those of its record.
    ptx_val first_norm, first_factor;
};

static bool has(const struct decision *d, uint32_t guard)
{
    return d->r->spec->guards & guard;
}

// The sum of `x` over the block, in all threads. With one group thread 0 alone has something.
static ptx_val sum_for_all(ptx_builder *b, const struct decision *d, ptx_val x, uint32_t place)
{
    ptx_val sum = ptx_var(b, x);

    ptx_if (b, ptx_ne(b, d->r->groups, 1))
        ptx_set(b, sum, ptxk_block_sum(b, x, NORM_BLOCK));
    ptx_if (b, ptx_eq(b, d->tid, 0))
        ptx_store(b, d->shared, place, sum);
    ptx_barrier(b);
    return ptx_load(b, d->shared, place);
}

static ptx_val norm_of(ptx_builder *b, ptx_val sum, ptx_val inverse)
{
    return ptxk_one_nan(b, ptx_cvt(b, PTX_F32, ptx_mul(b, ptx_sqrt(b, sum), inverse)));
}

// Writes the records as without guards. Sets `found`, whether one of them is not finite, and the
// norms. Returns whether a norm is above its limit; poisoned without limits.
static ptx_val records_begin(ptx_builder *b, struct decision *d, norm_sum_of *sum_of,
                             const void *from)
{
    const struct norm_results *r = d->r;
    const bool limits = has(d, NORM_GUARD_LIMIT | NORM_GUARD_LIMITS_AT);
    ptx_val bad = ptx_var(b, ptx_bool(false)), over = { 0 }, watched = { 0 };
    ptx_val total = ptx_var(b, ptx_f64(0));

    if (limits)
        over = ptx_var(b, ptx_bool(false));
    if (has(d, NORM_GUARD_ONE_GROUP))
        watched = ptx_var(b, ptx_f64(0));
    d->inverse = ptx_rcp(b, ptx_cvt(b, PTX_F64, ptx_load(b, r->used, 0)));
    d->first_norm = ptx_var(b, ptx_f32(0));
    d->first_factor = ptx_var(b, ptx_f32(0));
    ptx_comment(b, "thread t takes groups t, t + 256, ...: their records, as without guards");
    ptx_for (b, group, d->tid, r->groups, NORM_BLOCK) {
        struct norm_inputs inputs = ptxk_norm_inputs_read(b, r, group);
        ptx_val sum = sum_of(b, from, group);
        struct norm_record record = ptxk_norm_record_of(b, r, &inputs, sum);
        ptxk_norm_record_store(b, r, group, &record);
        if (has(d, NORM_GUARD_ZCLIP | NORM_GUARD_ADAGC)) {
            ptx_val first = ptx_eq(b, group, d->tid);
            ptx_set(b, d->first_norm, ptx_select(b, first, record.norm, d->first_norm));
            ptx_set(b, d->first_factor, ptx_select(b, first, record.factor, d->first_factor));
        }
        ptx_set(b, bad, ptx_or(b, bad, ptx_not(b, record.finite)));
        ptx_set(b, total, ptx_add(b, total, sum));
        if (limits) {
            ptx_val limit = has(d, NORM_GUARD_LIMITS_AT)
                                ? ptx_load(b, r->guards.limits_at, group)
                                : ptx_load(b, ptx_ptr_cast(b, PTX_F32, d->rule32), RULE32(limit));
            ptx_set(b, over, ptx_or(b, over, ptx_gt(b, record.norm, limit)));
        }
        if (has(d, NORM_GUARD_ONE_GROUP)) {
            ptx_val is = ptx_eq(b, group, ptx_load(b, d->rule32, RULE32(group)));
            ptx_set(b, watched, ptx_select(b, is, sum, watched));
        }
    }
    ptx_comment(b, "whether one is not finite, and the norm over all groups");
    d->found = ptx_barrier_any(b, bad);
    if (limits)
        over = ptx_barrier_any(b, over);
    d->norm = d->watched = norm_of(b, sum_for_all(b, d, total, 0), d->inverse);
    if (has(d, NORM_GUARD_ONE_GROUP))
        d->watched = norm_of(b, sum_for_all(b, d, watched, 1), d->inverse);
    return over;
}

// ---- history ------------------------------------------------------------------------------------

// The ring of norms (u32: 0) or losses (1).
static ptx_ptr ring_at(ptx_builder *b, const struct norm_results *r,
                       const struct norm_guards_known *known, ptx_val which)
{
    ptx_ptr first = ptx_at(b, ptx_ptr_cast(b, PTX_F32, r->guards.state), STATE_WORDS);

    return ptx_at(b, first, ptx_mul(b, which, known->length));
}

// The sum over the ring's values, or of the squares of their distances from `mean`, in all lanes:
// lane l adds places l, l + 32, ...; a tree over the lanes follows.
static ptx_val ring_sum(ptx_builder *b, const struct norm_guards_known *known, ptx_val tid,
                        ptx_ptr ring, ptx_val mean)
{
    ptx_val sum = ptx_var(b, ptx_f64(0));

    ptx_for (b, k, ptx_and(b, tid, WARP - 1), known->filled, WARP) {
        ptx_val x = ptx_cvt(b, PTX_F64, ptx_load(b, ring, k));
        if (mean.kind != PTX_KIND_POISON) {
            x = ptx_sub(b, x, mean);
            x = ptx_mul(b, x, x);
        }
        ptx_set(b, sum, ptx_add(b, sum, x));
    }
    ptx_comment(b, "the sum over the lanes of the warp");
    return ptxk_lanes_combine_all(b, ptx_add, sum, WARP);
}

// What history knows before this step: a warp for each ring, which does not need the norm.
static void history_read(ptx_builder *b, const struct norm_results *r, ptx_val tid,
                         struct norm_guards_known *to)
{
    const bool has_loss = r->spec->guards & NORM_GUARD_LOSS;

    to->length = ptx_load(b, ptx_ptr_cast(b, PTX_U32, r->guards.rule), RULE32(length));
    to->filled = ptx_load(b, r->guards.state, STATE(filled));
    to->next = ptx_load(b, r->guards.state, STATE(next));
    to->mean = ptx_var(b, ptx_f64(0));
    to->reach = ptx_var(b, ptx_f64(0));
    if (has_loss)
        to->loss = ptx_load(b, r->guards.loss_at, 0);
    ptx_comment(b, "history: warp 0 has the norms%s", has_loss ? ", warp 1 the losses" : "");
    ptx_if (b, ptx_lt(b, tid, has_loss ? 2 * WARP : WARP)) {
        ptx_ptr ring = ring_at(b, r, to, ptx_shr(b, tid, 5));
        ptx_val count = ptx_cvt(b, PTX_F64, to->filled), nothing = { 0 };
        ptx_set(b, to->mean, ptx_div(b, ring_sum(b, to, tid, ring, nothing), count));
        ptx_comment(b, "a multiple of the standard deviation");
        ptx_val squares = ring_sum(b, to, tid, ring, to->mean);
        ptx_val std = ptx_sqrt(b, ptx_div(b, squares, ptx_sub(b, count, 1)));
        ptx_val most = ptx_load(b, r->guards.rule, RULE(deviations));
        ptx_set(b, to->reach, ptx_mul(b, most, std));
    }
}

// Whether the norm, or the loss, is an outlier of its ring. In all threads.
static ptx_val is_outlier(ptx_builder *b, const struct decision *d)
{
    const struct norm_guards_known *known = d->known;
    const bool has_loss = has(d, NORM_GUARD_LOSS);
    ptx_val outlier = ptx_var(b, ptx_bool(false));

    ptx_comment(b, "whether the value is within that multiple of the mean");
    ptx_val half = ptx_max(b, ptx_shr(b, known->length, 1), ptx_u32(2));
    ptx_val armed = ptx_ge(b, ptx_add(b, known->filled, 1), half);
    ptx_if (b, ptx_lt(b, d->tid, has_loss ? 2 * WARP : WARP)) {
        ptx_val norms = ptx_lt(b, d->tid, WARP);
        ptx_val x = has_loss ? ptx_select(b, norms, d->watched, known->loss) : d->watched;
        ptx_val above = ptx_sub(b, ptx_cvt(b, PTX_F64, x), known->mean);
        ptx_val usual = ptx_le(b, above, known->reach);
        ptx_set(b, outlier, ptx_and(b, armed, ptx_not(b, usual)));
    }
    return ptx_barrier_any(b, outlier);
}

// The values of this step enter the rings. Executed by one thread.
static void history_add(ptx_builder *b, const struct decision *d, ptx_val in_a_row)
{
    const bool skipped_stay_out = has(d, NORM_GUARD_MOST_SKIPS);
    const struct norm_guards_known *known = d->known;
    ptx_ptr state = d->r->guards.state;
    ptx_comment(b, "the values enter the history");
    ptx_val enters = ptx_and(b, ptx_not(b, d->found), ptx_is_finite(b, d->watched));
    ptx_val filled = ptx_var(b, known->filled), next = ptx_var(b, known->next);

    if (has(d, NORM_GUARD_LOSS))
        enters = ptx_and(b, enters, ptx_is_finite(b, known->loss));
    if (skipped_stay_out)
        enters = ptx_and(b, enters, ptx_eq(b, d->reason, PTX_GUARD_SKIP_NONE));
    ptx_if (b, enters) {
        ptx_store(b, ring_at(b, d->r, known, ptx_u32(0)), next, d->watched);
        if (has(d, NORM_GUARD_LOSS))
            ptx_store(b, ring_at(b, d->r, known, ptx_u32(1)), next, known->loss);
        ptx_val after = ptx_add(b, next, 1);
        ptx_set(b, next, ptx_select(b, ptx_ge(b, after, known->length), 0, after));
        ptx_set(b, filled, ptx_min(b, ptx_add(b, filled, 1), known->length));
    }
    if (skipped_stay_out) {
        ptx_comment(b, "too many skips in a row: the history begins again");
        ptx_if (b, ptx_ge(b, in_a_row, known->most_skips)) {
            ptx_set(b, filled, ptx_u32(0));
            ptx_set(b, next, ptx_u32(0));
            ptx_set(b, in_a_row, ptx_u32(0));
        }
    }
    ptx_store(b, state, STATE(filled), filled);
    ptx_store(b, state, STATE(next), next);
}

// ---- clipping further ---------------------------------------------------------------------------

// A group's norm, and what keeps it.
struct group {
    ptx_val norm, x; // f32, f64
    struct norm_guard_kept kept;
    ptx_ptr at; // f64: struct ptx_guard_record
};

// The record (f64) that keeps a group's (u32).
static ptx_ptr kept_at(ptx_builder *b, const struct norm_results *r, ptx_val group)
{
    ptx_ptr first = ptx_ptr_cast(b, PTX_F64, r->guards.state);
    ptx_ptr rule = ptx_ptr_cast(b, PTX_U32, r->guards.rule);
    ptx_val place = ptx_mul_wide(b, group, NORM_LENGTH(double, struct ptx_guard_record));

    return ptx_at(b, ptx_at(b, first, ptx_load(b, rule, RULE32(records))), place);
}

static struct norm_guard_kept kept_read(ptx_builder *b, ptx_ptr at)
{
    struct norm_guard_kept kept;

    kept.mean = ptx_load(b, at, OWN(mean));
    kept.variance = ptx_load(b, at, OWN(variance));
    kept.count = ptx_load(b, ptx_ptr_cast(b, PTX_U64, at), OWN(count));
    return kept;
}

static void kept_set(ptx_builder *b, const struct norm_guard_kept *to,
                     const struct norm_guard_kept *from)
{
    ptx_set(b, to->mean, from->mean);
    ptx_set(b, to->variance, from->variance);
    ptx_set(b, to->count, from->count);
}

// Of the thread's first group, which does not need the norm.
static void first_kept_read(ptx_builder *b, const struct norm_results *r, ptx_val tid,
                            struct norm_guards_known *to)
{
    ptx_comment(b, "what keeps the thread's first group");
    to->first = (struct norm_guard_kept) { ptx_var(b, ptx_f64(0)), ptx_var(b, ptx_f64(0)),
                                           ptx_var(b, ptx_u64(0)) };
    ptx_if (b, ptx_lt(b, tid, r->groups)) {
        struct norm_guard_kept kept = kept_read(b, kept_at(b, r, tid));
        kept_set(b, &to->first, &kept);
    }
}

// Replaces what is the first group's by that of another one, if `group` is: what keeps it, its norm
// and its factor.
static struct group group_read(ptx_builder *b, const struct decision *d, ptx_val group)
{
    struct group g = { .at = kept_at(b, d->r, group), .kept = d->known->first };

    ptx_comment(b, "a group: what keeps it is known of the thread's first");
    ptx_if (b, ptx_ne(b, group, d->tid)) {
        ptx_ptr record = ptxk_norm_record_at(b, d->r, group);
        struct norm_guard_kept kept = kept_read(b, g.at);
        kept_set(b, &g.kept, &kept);
        ptx_set(b, d->first_norm, ptx_load(b, record, RECORD(norm)));
        ptx_set(b, d->first_factor, ptx_load(b, record, RECORD(factor)));
    }
    g.norm = d->first_norm;
    g.x = ptx_cvt(b, PTX_F64, g.norm);
    return g;
}

static void group_write(ptx_builder *b, const struct group *g)
{
    ptx_comment(b, "kept for the next step");
    ptx_store(b, g->at, OWN(mean), g->kept.mean);
    ptx_store(b, g->at, OWN(variance), g->kept.variance);
    ptx_store(b, ptx_ptr_cast(b, PTX_U64, g->at), OWN(count), g->kept.count);
}

// Whether the norm is above 0 and not beyond f32.
static ptx_val is_usable(ptx_builder *b, const struct group *g)
{
    return ptx_and(b, ptx_gt(b, g->norm, 0), ptx_is_finite(b, g->norm));
}

// alpha * x + (1 - alpha) * y, three roundings.
static ptx_val moving(ptx_builder *b, ptx_val alpha, ptx_val x, ptx_val y)
{
    ptx_val rest = ptx_sub(b, 1, alpha);

    return ptx_add(b, ptx_mul(b, alpha, x), ptx_mul(b, rest, y));
}

// A warm-up step of ZClip.
static void zclip_begin(ptx_builder *b, const struct group *g, ptx_val warmup)
{
    struct group to = *g;

    to.kept.count = ptx_add(b, g->kept.count, 1);
    ptx_val distance = ptx_sub(b, g->x, g->kept.mean);
    ptx_val n = ptx_cvt(b, PTX_F64, to.kept.count);
    to.kept.mean = ptx_add(b, g->kept.mean, ptx_div(b, distance, n));
    ptx_val squares = ptx_mul(b, distance, ptx_sub(b, g->x, to.kept.mean));
    squares = ptx_add(b, g->kept.variance, squares);
    ptx_val ends = ptx_eq(b, to.kept.count, warmup);
    to.kept.variance = ptx_select(b, ends, ptx_div(b, squares, n), squares);
    ptx_if (b, is_usable(b, g))
        group_write(b, &to);
}

// A later step. Returns the limit of the norm, f32: infinite if it is no outlier.
static ptx_val zclip_limit(ptx_builder *b, const struct decision *d, const struct group *g)
{
    const ptx_ptr rule = d->r->guards.rule;
    ptx_val alpha = ptx_load(b, rule, RULE(alpha)), most = ptx_load(b, rule, RULE(z_most));
    ptx_comment(b, "how many standard deviations the norm is above the mean");
    ptx_val std = ptx_sqrt(b, g->kept.variance);
    ptx_val z = ptx_div(b, ptx_sub(b, g->x, g->kept.mean), ptx_add(b, std, 1e-6));
    ptx_val reach = ptx_div(b, ptx_mul(b, most, std), ptx_div(b, z, most));
    ptx_val outlier = ptx_gt(b, z, most);
    ptx_comment(b, "an outlier counts less");
    ptx_val c = ptx_select(b, outlier, ptx_add(b, g->kept.mean, reach), g->x);
    struct group to = *g;

    ptx_comment(b, "the moving mean and variance");
    to.kept.mean = moving(b, alpha, g->kept.mean, c);
    ptx_val distance = ptx_sub(b, c, to.kept.mean);
    to.kept.variance = moving(b, alpha, g->kept.variance, ptx_mul(b, distance, distance));
    ptx_if (b, is_usable(b, g))
        group_write(b, &to);
    return ptx_select(b, outlier, ptx_cvt(b, PTX_F32, c), INFINITY);
}

static ptx_val zclip(ptx_builder *b, const struct decision *d, const struct group *g, ptx_val sum)
{
    ptx_val warmup = ptx_cvt(b, PTX_U64, ptx_load(b, d->rule32, RULE32(warmup)));
    ptx_val clip = ptx_var(b, ptx_f32(1));

    ptx_if (b, ptx_lt(b, g->kept.count, warmup)) {
        zclip_begin(b, g, warmup);
    }
    ptx_else (b) {
        ptx_val limit = zclip_limit(b, d, g);
        ptx_val root = ptx_mul(b, ptx_sqrt(b, sum), d->inverse);
        ptx_set(b, clip, ptxk_clip_scale(b, sum, root, g->norm, limit, d->r->eps));
    }
    return clip;
}

static ptx_val adagc(ptx_builder *b, const struct decision *d, const struct group *g)
{
    const ptx_ptr rule = d->r->guards.rule;
    ptx_val warmup = ptx_cvt(b, PTX_U64, ptx_load(b, d->rule32, RULE32(warmup)));
    ptx_val begins = ptx_eq(b, g->kept.mean, 0);
    ptx_val warm = ptx_or(b, ptx_lt(b, ptx_add(b, d->known->taken, 1), warmup), begins);
    ptx_comment(b, "warming up, h is from the norm of all, else from the group's average");
    ptx_val all = ptx_cvt(b, PTX_F64, d->norm);
    ptx_val absolute = ptx_div(b, ptx_load(b, rule, RULE(lambda_abs)), all);
    ptx_val relative = ptx_mul(b, ptx_load(b, rule, RULE(lambda_rel)), g->kept.mean);
    relative = ptx_div(b, relative, g->x);
    ptx_val h = ptx_select(b, warm, absolute, relative);
    h = ptx_select(b, ptx_lt(b, h, 1), h, 1);
    ptx_val clipped = ptx_mul(b, h, g->x);
    ptx_val least = ptx_select(b, ptx_lt(b, clipped, g->kept.mean), clipped, g->kept.mean);
    ptx_val later = moving(b, ptx_load(b, rule, RULE(beta)), g->kept.mean, clipped);
    struct group to = *g;

    to.kept.mean = ptx_select(b, warm, least, later);
    to.kept.mean = ptx_select(b, begins, clipped, to.kept.mean);
    to.kept.count = ptx_add(b, g->kept.count, 1);
    ptx_val usable = is_usable(b, g);
    ptx_if (b, usable)
        group_write(b, &to);
    return ptx_select(b, usable, ptx_cvt(b, PTX_F32, h), 1);
}

// The factors of a step that is taken: the smaller of max_norm's and the rule's.
static void factors_reduce(ptx_builder *b, const struct decision *d, norm_sum_of *sum_of,
                           const void *from)
{
    const struct norm_results *r = d->r;

    ptx_for (b, group, d->tid, r->groups, NORM_BLOCK) {
        struct group g = group_read(b, d, group);
        ptx_val clip =
            has(d, NORM_GUARD_ZCLIP) ? zclip(b, d, &g, sum_of(b, from, group)) : adagc(b, d, &g);
        ptx_val factor = ptx_mul(b, ptx_cvt(b, PTX_F64, clip), d->inverse);
        factor = ptx_min(b, ptx_cvt(b, PTX_F32, factor), d->first_factor);
        ptx_store(b, ptxk_norm_record_at(b, r, group), RECORD(factor), factor);
    }
}

// ---- the state ----------------------------------------------------------------------------------

// Executed by one thread.
static void state_write(ptx_builder *b, const struct decision *d)
{
    const struct norm_guards_known *known = d->known;
    ptx_ptr state = d->r->guards.state, floats = ptx_ptr_cast(b, PTX_F32, state);
    ptx_ptr counts = ptx_at(b, ptx_ptr_cast(b, PTX_U64, state), STATE(counts) / 2);
    ptx_val more = ptx_add(b, known->in_a_row, 1);
    ptx_val in_a_row = ptx_var(b, ptx_select(b, d->found, known->in_a_row, more));

    ptx_if (b, ptx_eq(b, d->reason, PTX_GUARD_SKIP_NONE))
        ptx_set(b, in_a_row, ptx_u32(0));
    for (uint32_t k = 0; k < GUARD_BELONGS; k++)
        ptx_store(b, state, k, known->belongs[k]);
    ptx_store(b, floats, STATE(skipped), ptx_cvt(b, PTX_F32, d->reason));
    ptx_store(b, floats, STATE(norm), d->norm);
    ptx_atomic_add(b, counts, d->reason, ptx_u64(1)); // nothing waits for the sum
    if (has(d, NORM_GUARD_HISTORY))
        history_add(b, d, in_a_row);
    ptx_store(b, state, STATE(in_a_row), in_a_row);
}

static void reason_set(ptx_builder *b, const struct decision *d, ptx_val holds, ptx_guard_skip why)
{
    ptx_set(b, d->reason, ptx_select(b, holds, ptx_u32(why), d->reason));
}

struct norm_guards_known ptxk_norm_guards_begin(ptx_builder *b, const struct norm_results *r,
                                                ptx_val tid)
{
    const uint32_t guards = r->spec->guards;
    ptx_ptr rule32 = ptx_ptr_cast(b, PTX_U32, r->guards.rule);
    struct norm_guards_known known = { 0 };

    ptx_comment(b, "what the guards know of the steps before");
    known.in_a_row = ptx_load(b, r->guards.state, STATE(in_a_row));
    for (uint32_t k = 0; k < GUARD_BELONGS; k++)
        known.belongs[k] = ptx_load(b, rule32, RULE32(belongs) + k);
    if (guards & NORM_GUARD_MOST_SKIPS)
        known.most_skips = ptx_load(b, rule32, RULE32(most_skips));
    if (guards & NORM_GUARD_ADAGC)
        known.taken = ptx_load(b, ptx_ptr_cast(b, PTX_U64, r->guards.state), STATE(counts) / 2);
    if (guards & (NORM_GUARD_ZCLIP | NORM_GUARD_ADAGC))
        first_kept_read(b, r, tid, &known);
    if (guards & NORM_GUARD_HISTORY)
        history_read(b, r, tid, &known);
    return known;
}

void ptxk_norm_guards_decide(ptx_builder *b, const struct norm_results *r, ptx_val tid,
                             const struct norm_guards_known *known, norm_sum_of *sum_of,
                             const void *from)
{
    struct decision d = { .r = r, .known = known, .tid = tid };

    d.rule32 = ptx_ptr_cast(b, PTX_U32, r->guards.rule);
    d.shared = ptx_shared(b, PTX_F64, 2);
    ptx_val over = records_begin(b, &d, sum_of, from);

    ptx_comment(b, "the first reason counts");
    d.reason = ptx_var(b, ptx_u32(PTX_GUARD_SKIP_NONE));
    if (has(&d, NORM_GUARD_HISTORY))
        reason_set(b, &d, is_outlier(b, &d), PTX_GUARD_SKIP_HISTORY);
    if (over.kind != PTX_KIND_POISON)
        reason_set(b, &d, over, PTX_GUARD_SKIP_LIMIT);
    if (has(&d, NORM_GUARD_SKIP_AT))
        reason_set(b, &d, ptx_neu(b, ptx_load(b, r->guards.skip_at, 0), 0), PTX_GUARD_SKIP_GIVEN);
    reason_set(b, &d, d.found, PTX_GUARD_SKIP_FOUND_INF);

    if (has(&d, NORM_GUARD_ZCLIP | NORM_GUARD_ADAGC))
        ptx_if (b, ptx_eq(b, d.reason, PTX_GUARD_SKIP_NONE))
            factors_reduce(b, &d, sum_of, from);
    ptx_comment(b, "a guard's skip leaves the gradients as they are");
    ptx_if (b, ptx_gt(b, d.reason, PTX_GUARD_SKIP_FOUND_INF))
        ptx_for (b, group, tid, r->groups, NORM_BLOCK)
            ptx_store(b, ptxk_norm_record_at(b, r, group), RECORD(factor), 1);
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptxk_norm_summary_write(b, r, d.found);
        ptx_comment(b, "the state of the guards");
        state_write(b, &d);
    }
}

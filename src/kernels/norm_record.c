// SPDX-License-Identifier: MIT
// Computes a group's sum from its partials, and its record from the sum; the last group also writes
// the plan's summary.
#include "common/common.h"
#include "common/loss_scale.h"
#include "norm_parts.h"

#define RULE(member)    NORM_PLACE(uint32_t, struct norm_rule, member)
#define RECORD(member)  NORM_PLACE(float, struct ptx_clip_record, member)
#define SUMMARY(member) NORM_PLACE(float, struct ptx_clip_summary, member)
#define TOTALS(member)  NORM_PLACE(uint32_t, struct norm_totals, member)

enum { PARTIALS_AT_ONCE = 16 };

static ptx_ptr records_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_F32, "records",
                         .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                    "found_inf of all");
}

ptx_ptr ptxk_norm_totals_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U32, "totals", .length = "4",
                         .meaning = "groups written, whether one found_inf; tiles taken, blocks "
                                    "through");
}

struct norm_results ptxk_norm_records_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_results r = { .spec = spec };

    r.records = records_param(b);
    r.totals = ptxk_norm_totals_param(b);
    r.groups = ptx_param(b, PTX_U32, "group_count");
    return r;
}

struct norm_results ptxk_norm_results_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_results r = { .spec = spec };

    r.records = records_param(b);
    r.used = ptx_param_ptr(b, PTX_F32, "used", .readonly = true, .length = "1",
                           .meaning = "the loss scale that this run divides by");
    if (!spec->guards)
        r.totals = ptxk_norm_totals_param(b);
    r.groups = ptx_param(b, PTX_U32, "group_count");
    r.eps = ptx_param(b, PTX_F32, "eps", .meaning = "added to the norm before dividing",
                      .range = PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE);
    if (spec->has_max_norms_at)
        r.max_norms_at = ptx_param_ptr(b, PTX_F32, "max_norms_at", .readonly = true,
                                       .meaning = "one a group, the caller's");
    if (spec->has_found_inf_at)
        r.found_inf_at = ptx_param_ptr(b, PTX_F32, "found_inf_at", .readonly = true, .length = "1",
                                       .meaning = "the caller's: not 0: as if a gradient were NaN");
    if (spec->has_found_inf_to)
        r.found_inf_to = ptx_param_ptr(b, PTX_F32, "found_inf_to", .writeonly = true, .length = "1",
                                       .meaning = "the caller's: found_inf of all");
    if (spec->guards)
        ptxk_norm_guards_param(b, spec, &r.guards);
    if (!spec->updates)
        return r;
    r.state = ptx_param_ptr(b, PTX_B32, "state", .length = "2",
                            .meaning = "loss scale (f32), growth_tracker (s32)");
    r.rule = ptx_param_ptr(b, PTX_B32, "rule", .readonly = true, .length = "6",
                           .meaning = "growth, backoff, min_scale, max_scale (f32), interval, "
                                      "hysteresis (s32)");
    return r;
}

static ptx_val scalar(ptx_builder *b, const struct norm_results *r, ptx_type type, uint32_t word)
{
    return ptx_bitcast(b, type, ptx_load(b, r->rule, word));
}

static void update(ptx_builder *b, const struct norm_results *r, ptx_val found)
{
    struct loss_scale_rule rule = { { 0 } };

    rule.growth = scalar(b, r, PTX_F32, RULE(growth));
    rule.backoff = scalar(b, r, PTX_F32, RULE(backoff));
    rule.interval = scalar(b, r, PTX_S32, RULE(interval));
    rule.min_scale = scalar(b, r, PTX_F32, RULE(min_scale));
    rule.max_scale = scalar(b, r, PTX_F32, RULE(max_scale));
    rule.hysteresis = scalar(b, r, PTX_S32, RULE(hysteresis));
    ptxk_update_loss_scale(b, r->state, found, &rule);
}

// Counts a group whose results are written: whether all others are, too.
static ptx_val arrive(ptx_builder *b, const struct norm_results *r)
{
    ptx_val limit = ptx_sub(b, r->groups, 1);
    ptx_val before = ptx_atomic(b, PTX_ATOMIC_inc, r->totals, TOTALS(arrivals), limit,
                                .order = PTX_ORDER_ACQ_REL);

    return ptx_eq(b, before, limit);
}

// Whether this is the last group to finish; if so, `found` covers all groups.
static ptx_val is_last_group(ptx_builder *b, const struct norm_results *r, ptx_val found)
{
    ptx_val last = ptx_var(b, ptx_bool(true));

    ptx_if (b, ptx_ne(b, r->groups, 1)) {
        ptx_if (b, found)
            ptx_atomic_or(b, ptx_ptr_cast(b, PTX_B32, r->totals), TOTALS(found), 1);
        ptx_set(b, last, arrive(b, r));
        ptx_if (b, last) {
            ptx_val any = ptx_atomic_exch(b, ptx_ptr_cast(b, PTX_B32, r->totals), TOTALS(found), 0);
            any = ptx_bitcast(b, PTX_U32, any);
            ptx_set(b, found, ptx_ne(b, any, 0));
        }
    }
    return last;
}

ptx_val ptxk_norm_arrives_last(ptx_builder *b, const struct norm_results *r)
{
    ptx_val last = ptx_var(b, ptx_bool(true));

    ptx_if (b, ptx_ne(b, r->groups, 1))
        ptx_set(b, last, arrive(b, r));
    return last;
}

ptx_ptr ptxk_norm_record_at(ptx_builder *b, const struct norm_results *r, ptx_val group)
{
    return ptx_at(b, r->records,
                  ptx_mul_wide(b, group, NORM_LENGTH(float, struct ptx_clip_record)));
}

// `x` may be poisoned: true.
static ptx_val both(ptx_builder *b, ptx_val x, ptx_val y)
{
    return x.kind == PTX_KIND_POISON ? y : ptx_and(b, x, y);
}

static ptx_val usable(ptx_builder *b, const struct norm_results *r,
                      const struct norm_inputs *inputs)
{
    ptx_val all = { 0 };

    // A loss scale of 0 or NaN makes the factor infinite or NaN, which is found there.
    if (r->spec->checks_loss_scale)
        all = ptx_gt(b, inputs->inverse, 0);
    if (r->spec->has_max_norms_at)
        all = both(b, all, ptx_ge(b, inputs->max_norm, 0));
    if (r->spec->has_found_inf_at) {
        ptx_val found = ptx_load(b, r->found_inf_at, 0);
        all = both(b, all, ptx_eq(b, found, 0));
    }
    return all;
}

struct norm_inputs ptxk_norm_inputs_read(ptx_builder *b, const struct norm_results *r,
                                         ptx_val group)
{
    struct norm_inputs inputs;

    if (r->spec->has_max_norms_at)
        inputs.max_norm = ptx_load(b, r->max_norms_at, group);
    else
        inputs.max_norm = ptx_load(b, ptxk_norm_record_at(b, r, group), RECORD(max_norm));
    ptx_val loss_scale = ptx_load(b, r->used, 0);
    inputs.inverse = ptx_rcp(b, ptx_cvt(b, PTX_F64, loss_scale));
    inputs.usable = usable(b, r, &inputs);
    return inputs;
}

struct norm_record ptxk_norm_record_of(ptx_builder *b, const struct norm_results *r,
                                       const struct norm_inputs *inputs, ptx_val sum)
{
    struct norm_record record;

    ptx_comment(b, "the norm of the unscaled gradients, and what they are multiplied by");
    ptx_val root = ptx_mul(b, ptx_sqrt(b, sum), inputs->inverse);
    record.norm = ptxk_one_nan(b, ptx_cvt(b, PTX_F32, root));
    ptx_val clip = ptxk_clip_scale(b, sum, root, record.norm, inputs->max_norm, r->eps);
    ptx_val product = ptx_mul(b, ptx_cvt(b, PTX_F64, clip), inputs->inverse);
    ptx_val factor = ptxk_one_nan(b, ptx_cvt(b, PTX_F32, product));
    record.finite = both(b, inputs->usable, ptx_is_finite(b, sum));
    // No finite gradient becomes NaN unless found_inf is set.
    record.finite = ptx_and(b, record.finite, ptx_is_finite(b, factor));
    record.max_norm = inputs->max_norm;
    if (r->spec->nonfinite == PTX_NONFINITE_SKIP)
        factor = ptx_select(b, record.finite, factor, 1);
    if (r->spec->nonfinite == PTX_NONFINITE_ZERO)
        factor = ptx_select(b, record.finite, factor, 0);
    record.factor = factor;
    return record;
}

void ptxk_norm_record_store(ptx_builder *b, const struct norm_results *r, ptx_val group,
                            const struct norm_record *record)
{
    ptx_ptr at = ptxk_norm_record_at(b, r, group);
    ptx_val found_inf = ptx_select(b, record->finite, ptx_f32(0), 1);
    ptx_store(b, at, RECORD(factor), record->factor);
    ptx_store(b, at, RECORD(norm), record->norm);
    ptx_store(b, at, RECORD(found_inf), found_inf);
    if (r->spec->has_max_norms_at)
        ptx_store(b, at, RECORD(max_norm), record->max_norm);
}

void ptxk_norm_summary_write(ptx_builder *b, const struct norm_results *r, ptx_val found)
{
    ptx_val found_inf = ptx_select(b, found, ptx_f32(1), 0);
    ptx_ptr summary = ptxk_norm_record_at(b, r, r->groups); // after the records
    ptx_store(b, summary, SUMMARY(found_inf), found_inf);
    if (r->spec->has_found_inf_to)
        ptx_store(b, r->found_inf_to, 0, found_inf);
    if (r->spec->updates)
        update(b, r, found);
}

void ptxk_norm_record_write(ptx_builder *b, const struct norm_results *r, ptx_val group,
                            const struct norm_record *record)
{
    ptxk_norm_record_store(b, r, group, record);
    ptx_comment(b, "the last group writes the summary");
    ptx_val found = ptx_var(b, ptx_not(b, record->finite));
    ptx_if (b, is_last_group(b, r, found))
        ptxk_norm_summary_write(b, r, found);
}

// ---- sums ---------------------------------------------------------------------------------------

struct norm_partials ptxk_norm_partials_param(ptx_builder *b)
{
    ptx_ptr groups = ptx_param_ptr(b, PTX_U32, "groups", .readonly = true,
                                   .meaning = "rows of 2: first chunk, chunks");
    ptx_ptr partials = ptx_param_ptr(b, PTX_F64, "partials", .readonly = true,
                                     .meaning = "sums of squares, one a chunk");
    return (struct norm_partials) { groups, partials };
}

enum { TURNS = 4 };

// Adds partials i, i + 256, ... to the sums in turn, `at_once` at a time, as long as that many
// remain.
static void add_partials(ptx_builder *b, ptx_ptr partials, ptx_val i, ptx_val count,
                         const ptx_val sums[TURNS], unsigned at_once)
{
    ptx_comment(b, "%u partials at a time", at_once);
    ptx_while (b, ptx_lt(b, ptx_add(b, i, (at_once - 1) * NORM_BLOCK), count)) {
        ptx_val partial[PARTIALS_AT_ONCE];
        ptx_ptr p = ptx_at(b, partials, i);
        for (unsigned k = 0; k < at_once; k++)
            partial[k] = ptx_load(b, p, k * NORM_BLOCK);
        if (at_once > TURNS)
            ptx_comment(b, "added to %d sums in turn", TURNS);
        for (unsigned k = 0; k < at_once; k++)
            ptx_set(b, sums[k % TURNS], ptx_add(b, sums[k % TURNS], partial[k]));
        ptx_set(b, i, ptx_add(b, i, at_once * NORM_BLOCK));
    }
}

ptx_val ptxk_norm_group_total(ptx_builder *b, const struct norm_partials *from, ptx_val tid,
                              ptx_vec group)
{
    ptx_ptr partials = ptx_at(b, from->partials, group.lane[0]);
    ptx_val count = group.lane[1];
    ptx_val i = ptx_var(b, tid);
    ptx_val sums[TURNS], partial[TURNS];

    for (unsigned k = 0; k < TURNS; k++)
        sums[k] = ptx_var(b, ptx_f64(0));
    ptx_if (b, ptx_gt(b, count, TURNS * NORM_BLOCK)) {
        add_partials(b, partials, i, count, sums, PARTIALS_AT_ONCE);
        add_partials(b, partials, i, count, sums, TURNS);
    }
    ptx_comment(b, "those left: 0 where there is none");
    ptx_val end = ptx_sub(b, count, 1);
    for (unsigned k = 0; k < TURNS; k++) {
        ptx_val place = ptx_add(b, i, k * NORM_BLOCK);
        ptx_val value = ptx_load(b, partials, ptx_min(b, place, end));
        partial[k] = ptx_select(b, ptx_le(b, place, end), value, 0);
    }
    for (unsigned k = 0; k < TURNS; k++)
        ptx_set(b, sums[k], ptx_add(b, sums[k], partial[k]));
    return ptxk_one_nan(b, ptxk_block_sum(b, ptxk_tree_sum(b, sums, TURNS), NORM_BLOCK));
}

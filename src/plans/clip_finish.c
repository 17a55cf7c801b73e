// SPDX-License-Identifier: MIT
// A group's sum made into its record; the last group's, into the plan's summary too.
#include "clip_text.h"
#include "kernels/clip_scale.h"
#include "kernels/common.h"
#include "kernels/loss_scale.h"

// Words of struct clip_scalars.
enum { EPS, GROWTH, BACKOFF, MIN_SCALE, MAX_SCALE, INTERVAL, HYSTERESIS, GROUPS };
// Words of a record and of the summary.
enum { FACTOR, NORM, FOUND_INF, MAX_NORM, RECORD_WORDS };
enum { SUMMARY_FOUND_INF, SUMMARY_LOSS_SCALE };
// Words of struct clip_totals.
enum { ARRIVALS, FOUND };

struct clip_results clip_results_param(ptx_builder *b, const struct clip_spec *spec)
{
    struct clip_results r = { .spec = spec };

    r.scalars = ptx_param_ptr(b, PTX_B32, "scalars", .readonly = true, .length = "8",
                              .meaning = "eps, the loss scale's rule, number of groups");
    r.records = ptx_param_ptr(b, PTX_F32, "records",
                              .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                         "found_inf of all, and the loss scale");
    r.state = ptx_param_ptr(b, PTX_B32, "state", .length = "2", .readonly = !spec->updates,
                            .meaning = "loss scale (f32), growth_tracker (s32)");
    r.totals = ptx_param_ptr(b, PTX_U32, "totals", .length = "2",
                             .meaning = "groups that have arrived; whether one found_inf");
    return r;
}

static ptx_val scalar(ptx_builder *b, const struct clip_results *r, ptx_type type, uint32_t word)
{
    return ptx_bitcast(b, type, ptx_load(b, r->scalars, ptx_u32(word)));
}

static void update(ptx_builder *b, const struct clip_results *r, ptx_val found)
{
    struct loss_scale_rule rule = { { 0 } };

    rule.growth = scalar(b, r, PTX_F32, GROWTH);
    rule.backoff = scalar(b, r, PTX_F32, BACKOFF);
    rule.interval = scalar(b, r, PTX_S32, INTERVAL);
    rule.min_scale = scalar(b, r, PTX_F32, MIN_SCALE);
    rule.max_scale = scalar(b, r, PTX_F32, MAX_SCALE);
    rule.hysteresis = scalar(b, r, PTX_S32, HYSTERESIS);
    update_loss_scale(b, r->state, found, &rule);
}

// Whether this is the last of the groups to come by; then `found` is of all of them.
static ptx_val is_last_group(ptx_builder *b, const struct clip_results *r, ptx_val found)
{
    ptx_val last = ptx_var(b, ptx_bool(true));
    ptx_val groups = scalar(b, r, PTX_U32, GROUPS);

    ptx_if (b, ptx_ne(b, groups, ptx_u32(1))) {
        ptx_if (b, found)
            ptx_atomic_or(b, ptx_ptr_cast(b, PTX_B32, r->totals), ptx_u32(FOUND), ptx_b32(1));
        ptx_val limit = ptx_sub(b, groups, ptx_u32(1));
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_inc, r->totals, ptx_u32(ARRIVALS), limit,
                                    .order = PTX_ACQ_REL);
        ptx_set(b, last, ptx_eq(b, before, limit));
        ptx_if (b, last) {
            ptx_val any =
                ptx_atomic_exch(b, ptx_ptr_cast(b, PTX_B32, r->totals), ptx_u32(FOUND), ptx_b32(0));
            any = ptx_bitcast(b, PTX_U32, any);
            ptx_set(b, found, ptx_ne(b, any, ptx_u32(0)));
        }
    }
    return last;
}

void clip_finish_group(ptx_builder *b, const struct clip_results *r, ptx_val group, ptx_val sum)
{
    ptx_ptr record = ptx_at(b, r->records, ptx_mul_wide(b, group, ptx_u32(RECORD_WORDS)));
    ptx_val max_norm = ptx_load(b, record, ptx_u32(MAX_NORM));
    ptx_val eps = scalar(b, r, PTX_F32, EPS);
    ptx_val loss_scale = ptx_bitcast(b, PTX_F32, ptx_load(b, r->state, ptx_u32(0)));

    ptx_comment(b, "the norm of the unscaled gradients, and what they are multiplied by");
    ptx_val divisor = ptx_cvt(b, PTX_F64, loss_scale);
    ptx_val root = ptx_div(b, ptx_sqrt(b, sum), divisor);
    ptx_val norm = one_nan(b, ptx_cvt(b, PTX_F32, root));
    ptx_val clip = clip_scale(b, sum, root, norm, max_norm, eps);
    ptx_val quotient = ptx_div(b, ptx_cvt(b, PTX_F64, clip), divisor);
    ptx_val factor = one_nan(b, ptx_cvt(b, PTX_F32, quotient));
    ptx_val finite = ptx_is_finite(b, sum);
    if (r->spec->nonfinite == PTX_NONFINITE_SKIP)
        factor = ptx_select(b, finite, factor, ptx_f32(1.0f));
    if (r->spec->nonfinite == PTX_NONFINITE_ZERO)
        factor = ptx_select(b, finite, factor, ptx_f32(0.0f));
    ptx_store(b, record, ptx_u32(FACTOR), factor);
    ptx_store(b, record, ptx_u32(NORM), norm);
    ptx_store(b, record, ptx_u32(FOUND_INF), ptx_select(b, finite, ptx_f32(0.0f), ptx_f32(1.0f)));

    ptx_comment(b, "the last group writes the summary");
    ptx_val found = ptx_var(b, ptx_not(b, finite));
    ptx_if (b, is_last_group(b, r, found)) {
        ptx_val groups = scalar(b, r, PTX_U32, GROUPS);
        ptx_ptr summary = ptx_at(b, r->records, ptx_mul_wide(b, groups, ptx_u32(RECORD_WORDS)));
        ptx_store(b, summary, ptx_u32(SUMMARY_FOUND_INF),
                  ptx_select(b, found, ptx_f32(1.0f), ptx_f32(0.0f)));
        ptx_store(b, summary, ptx_u32(SUMMARY_LOSS_SCALE), loss_scale);
        if (r->spec->updates)
            update(b, r, found);
    }
}

void clip_finish_emit(ptx_builder *b, const struct clip_spec *spec)
{
    ptx_comment(b, "one thread a group: its record from its sum");
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "sums", .readonly = true,
                                 .meaning = "of weighted squares, one a group");
    ptx_val count = ptx_param(b, PTX_U32, "groups");
    struct clip_results results = clip_results_param(b, spec);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val group = ptx_mad(b, block, ptx_u32(CLIP_BLOCK), tid);
    ptx_if (b, ptx_lt(b, group, count))
        clip_finish_group(b, &results, group, ptx_load(b, sums, group));
}

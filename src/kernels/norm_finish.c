// SPDX-License-Identifier: MIT
// Adds a group's partials to its sum, and computes the record from the sum.
#include "norm_parts.h"

// The sums of the groups, and with one group its sum in thread 0.
struct known_sums {
    ptx_ptr sums;
    ptx_val groups, own;
};

static ptx_val known_sum(ptx_builder *b, const void *user, ptx_val group)
{
    const struct known_sums *from = user;
    ptx_val sum = ptx_var(b, from->own);

    ptx_if (b, ptx_ne(b, from->groups, 1))
        ptx_set(b, sum, ptx_load(b, from->sums, group));
    return sum;
}

// With guards the last block decides for all groups.
static void sums_guarded(ptx_builder *b, const struct norm_sums *s, ptx_val tid,
                         const struct norm_guards_known *known, ptx_val own)
{
    const struct known_sums from = { s->sums, s->results.groups, own };
    ptx_val last = ptx_var(b, ptx_bool(false));

    ptx_comment(b, "the block of the last group decides for all");
    ptx_val first = ptx_eq(b, tid, 0);
    ptx_if (b, ptx_and(b, first, ptx_ne(b, s->finishes, 0)))
        ptx_set(b, last, ptxk_norm_arrives_last(b, &s->results));
    ptx_if (b, ptx_barrier_any(b, last))
        ptxk_norm_guards_decide(b, &s->results, tid, known, known_sum, &from);
}

struct norm_sums ptxk_norm_sums_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_sums s;

    ptx_comment(b, "a block for each group: the sum of its partials");
    s.from = ptxk_norm_partials_param(b);
    s.sums =
        ptx_param_ptr(b, PTX_F64, "sums", .writeonly = !spec->guards, .meaning = "one a group");
    s.results = ptxk_norm_results_param(b, spec);
    if (spec->guards)
        s.results.totals = ptxk_norm_totals_param(b);
    s.finishes = ptx_param(b, PTX_U32, "finishes", .meaning = "1: writes the records, too");
    return s;
}

void ptxk_norm_sums_of(ptx_builder *b, const struct norm_spec *spec, const struct norm_sums *s,
                       ptx_val tid, ptx_val group)
{
    ptx_vec row = ptx_load_vec(b, s->from.groups, ptx_mul_wide(b, group, 2), 2);

    ptxk_norm_let_next_start(b);
    if (spec->guards) {
        const struct norm_guards_known known = ptxk_norm_guards_begin(b, &s->results, tid);
        ptxk_norm_wait_for_last(b);
        ptx_val total = ptxk_norm_group_total(b, &s->from, tid, row);
        ptx_if (b, ptx_eq(b, tid, 0))
            ptx_store(b, s->sums, group, total);
        sums_guarded(b, s, tid, &known, total);
        return;
    }
    ptxk_norm_wait_for_last(b);
    struct norm_inputs inputs = ptxk_norm_inputs_read(b, &s->results, group);
    ptx_val sum = ptxk_norm_group_total(b, &s->from, tid, row);
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_store(b, s->sums, group, sum);
        ptx_if (b, ptx_ne(b, s->finishes, 0)) {
            struct norm_record record = ptxk_norm_record_of(b, &s->results, &inputs, sum);
            ptxk_norm_record_write(b, &s->results, group, &record);
        }
    }
}

void ptxk_norm_sums_emit(ptx_builder *b, const struct norm_spec *spec)
{
    const struct norm_sums s = ptxk_norm_sums_param(b, spec);

    ptx_val tid = ptx_tid(b, PTX_X);

    ptxk_norm_sums_of(b, spec, &s, tid, ptx_ctaid(b, PTX_X));
}

// What a finish reads: the sums, in rows if there are several.
struct all_sums {
    ptx_ptr sums;
    ptx_val rows, groups; // rows: poisoned if there is one
};

static struct all_sums all_sums_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct all_sums from = { .rows = { 0 } };

    from.sums = ptx_param_ptr(b, PTX_F64, spec->adds_rows ? "all_sums" : "sums", .readonly = true,
                              .meaning = "of weighted squares, one a group");
    if (spec->adds_rows)
        from.rows = ptx_param(b, PTX_U32, "sum_rows", .meaning = "rows of sums");
    return from;
}

// The total of the group's sums, one in each row, in the order of the rows.
static ptx_val total_of_rows(ptx_builder *b, const void *user, ptx_val group)
{
    const struct all_sums *from = user;

    if (from->rows.kind == PTX_KIND_POISON)
        return ptx_load(b, from->sums, group);
    ptx_val total = ptx_var(b, ptx_load(b, from->sums, group));
    ptx_for (b, row, 1, from->rows, 1) {
        ptx_val place = ptx_mad(b, row, from->groups, group);
        ptx_set(b, total, ptx_add(b, total, ptx_load(b, from->sums, place)));
    }
    return total;
}

void ptxk_norm_finish_emit(ptx_builder *b, const struct norm_spec *spec)
{
    ptx_comment(b, spec->guards ? "one block for all groups: their records from their sums"
                                : "a thread for each group: its record from its sum");
    struct all_sums from = all_sums_param(b, spec);
    struct norm_results results = ptxk_norm_results_param(b, spec);
    from.groups = results.groups;
    if (spec->guards) {
        ptx_val thread = ptx_tid(b, PTX_X);
        const struct norm_guards_known known = ptxk_norm_guards_begin(b, &results, thread);
        ptxk_norm_guards_decide(b, &results, thread, &known, total_of_rows, &from);
        return;
    }
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val group = ptx_mad(b, block, NORM_BLOCK, tid);
    ptx_if (b, ptx_lt(b, group, results.groups)) {
        struct norm_inputs inputs = ptxk_norm_inputs_read(b, &results, group);
        ptx_val sum = total_of_rows(b, &from, group);
        struct norm_record record = ptxk_norm_record_of(b, &results, &inputs, sum);
        ptxk_norm_record_write(b, &results, group, &record);
    }
}

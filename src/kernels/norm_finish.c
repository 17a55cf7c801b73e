// SPDX-License-Identifier: MIT
// Adds a group's partials to its sum, and computes the record from the sum.
#include "norm_parts.h"

void ptxk_norm_sums_emit(ptx_builder *b, const struct norm_spec *spec)
{
    ptx_comment(b, "a block for each group: the sum of its partials");
    struct norm_partials from = ptxk_norm_partials_param(b);
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "sums", .writeonly = true, .meaning = "one a group");
    struct norm_results results = ptxk_norm_results_param(b, spec);
    ptx_val finishes = ptx_param(b, PTX_U32, "finishes", .meaning = "1: writes the records, too");
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val group = ptx_ctaid(b, PTX_X);
    ptx_vec row = ptx_load_vec(b, from.groups, ptx_mul_wide(b, group, 2), 2);
    ptxk_norm_let_next_start(b);
    ptxk_norm_wait_for_last(b);
    struct norm_inputs inputs = ptxk_norm_inputs_read(b, &results, group);
    ptx_val sum = ptxk_norm_group_total(b, &from, tid, row);
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_store(b, sums, group, sum);
        ptx_if (b, ptx_ne(b, finishes, 0)) {
            struct norm_record record = ptxk_norm_record_of(b, &results, &inputs, sum);
            ptxk_norm_record_write(b, &results, group, &record);
        }
    }
}

// The total of the group's sums, one in each row, in the order of the rows.
static ptx_val total_of_rows(ptx_builder *b, ptx_ptr sums, ptx_val rows, ptx_val groups,
                             ptx_val group)
{
    ptx_val total = ptx_var(b, ptx_load(b, sums, group));

    ptx_for (b, row, 1, rows, 1) {
        ptx_val place = ptx_mad(b, row, groups, group);
        ptx_set(b, total, ptx_add(b, total, ptx_load(b, sums, place)));
    }
    return total;
}

void ptxk_norm_finish_emit(ptx_builder *b, const struct norm_spec *spec)
{
    ptx_comment(b, "a thread for each group: its record from its sum");
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, spec->adds_rows ? "all_sums" : "sums",
                                 .readonly = true, .meaning = "of weighted squares, one a group");
    ptx_val rows = { 0 };
    if (spec->adds_rows)
        rows = ptx_param(b, PTX_U32, "sum_rows", .meaning = "rows of sums");
    struct norm_results results = ptxk_norm_results_param(b, spec);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val group = ptx_mad(b, block, NORM_BLOCK, tid);
    ptx_if (b, ptx_lt(b, group, results.groups)) {
        struct norm_inputs inputs = ptxk_norm_inputs_read(b, &results, group);
        ptx_val sum = spec->adds_rows ? total_of_rows(b, sums, rows, results.groups, group)
                                      : ptx_load(b, sums, group);
        struct norm_record record = ptxk_norm_record_of(b, &results, &inputs, sum);
        ptxk_norm_record_write(b, &results, group, &record);
    }
}

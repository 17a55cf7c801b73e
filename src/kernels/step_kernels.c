// SPDX-License-Identifier: MIT
// The kernels of a step plan beside the step: the norm's, which derives what follows from the
// clocks; the sums of tensors; and those that change the values that a step reads.
#include "norm_parts.h"
#include "step_apply.h"
#include "step_matrix.h"
#include "step_units.h"

#include "common/common.h"

static bool has_matrices(const struct norm_spec *spec)
{
    return ptxk_step_has_matrices(spec->own);
}

static bool accumulates(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->accumulates;
}

static bool clips_units(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->clips_units;
}

static bool spreads_matrices(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->spreads;
}

// The first blocks compute what depends only on scalars and counts, and end. The others sum.
static void squares_emit(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_squares n = ptxk_norm_squares_param(b, spec);
    const struct ptxk_step_rules rules = ptxk_step_rules(spec->own);
    const struct ptxk_step_clocks clocks = ptxk_step_clocks_param(b, &rules);
    if (accumulates(spec))
        ptxk_norm_accumulator_params(b, &n, "chunk_turns");
    struct ptxk_matrix_sums matrices;
    if (has_matrices(spec))
        ptxk_matrix_sums_param(b, &n, &matrices);
    struct ptxk_unit_sums units;
    if (clips_units(spec))
        ptxk_unit_sums_param(b, &n, &units);
    ptx_val block = ptxk_norm_squares_begin(b, &n);

    ptx_comment(b, "the first blocks: what follows from scalars and counts alone");
    ptx_val derives = ptx_lt(b, block, clocks.blocks);
    ptx_if (b, derives) {
        ptx_val clock = ptx_mad(b, block, NORM_BLOCK, n.tid);
        ptx_if (b, ptx_eq(b, clock, 0))
            ptxk_norm_squares_note_scale(b, &n);
        ptx_if (b, ptx_lt(b, clock, clocks.count))
            ptxk_step_derive(b, &rules, ptxk_step_has_ema(spec->own), &clocks, clock);
    }
    ptx_return_if(b, derives);
    n.may_lack = n.notes_scale = true;
    ptx_val chunk = ptx_sub(b, block, clocks.blocks);
    if (accumulates(spec)) { // of the sums the last may still be in the cache
        ptx_comment(b, "from the last chunk on");
        chunk = ptx_sub(b, ptx_sub(b, ptx_nctaid(b, PTX_X), 1), block);
    }
    ptxk_norm_squares_sum(b, &n, chunk);
}

// Behind the blocks of the groups, one for each matrix.
static void sums_emit(ptx_builder *b, const struct norm_spec *spec)
{
    const struct norm_sums s = ptxk_norm_sums_param(b, spec);
    struct ptxk_matrix_totals totals = { 0 };
    if (has_matrices(spec))
        totals = ptxk_matrix_total_params(b);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);

    if (has_matrices(spec)) {
        ptx_val is = ptx_ge(b, block, s.results.groups);
        ptx_if (b, is) {
            ptxk_norm_let_next_start(b);
            ptxk_norm_wait_for_last(b);
            ptxk_matrix_total(b, &totals, tid, ptx_sub(b, block, s.results.groups));
        }
        ptx_return_if(b, is);
    }
    if (has_matrices(spec))
        ptx_comment(b, "the sum of a group");
    ptxk_norm_sums_of(b, spec, &s, tid, block);
}

static void accumulate_emit(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_squares n = { .spec = spec };

    ptx_comment(b, "a block for each part: takes the gradients up into the accumulators");
    n.tables.tensors = ptxk_norm_tensors_param(b);
    ptx_ptr parts = ptx_param_ptr(b, PTX_U32, "sum_parts", .readonly = true,
                                  .meaning = "rows of 2: tensor, place in it");
    ptxk_norm_accumulator_params(b, &n, "sum_turns");
    struct ptxk_matrix_spreads spreads;
    if (spreads_matrices(spec))
        spreads = ptxk_matrix_spreads_param(b);
    n.tid = ptx_tid(b, PTX_X);
    n.accumulator.place = ptx_ctaid(b, PTX_X);
    ptx_vec part = ptx_load_vec(b, parts, ptx_mul_wide(b, n.accumulator.place, 2), 2);
    n.chunk = (struct norm_chunk) { .tensor = part.lane[0], .index = part.lane[1] };
    n.tensor = ptxk_norm_tensor_read(b, &n.tables, n.chunk.tensor);
    n.extent = ptxk_norm_extent_of(b, n.chunk.index, n.tensor.count, STEP_PART);
    ptx_return_if(b, ptx_eq(b, n.tensor.data, 0));
    ptxk_norm_accumulator_read(b, &n, false);
    if (spreads_matrices(spec))
        ptxk_matrix_accumulate(b, &spreads, &n);
    else
        ptxk_norm_accumulate_chunk(b, &n, false);
    ptx_barrier(b);
    ptxk_norm_accumulator_count(b, &n, false);
}

static bool transposes(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->transposes;
}

static bool has_fp8_blocks(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->fp8_blocks;
}

static bool notes_weights(const struct norm_spec *spec)
{
    const struct ptxk_step_spec *own = spec->own;

    return own->reports_weights || own->takes_amax;
}

static bool is_over_ranks(const struct norm_spec *spec)
{
    return ((const struct ptxk_step_spec *)spec->own)->over_ranks;
}

static bool has_others(const struct norm_spec *spec)
{
    return ptxk_step_has_others(spec->own);
}

static bool has_sums(const struct norm_spec *spec)
{
    return ptxk_step_has_sums(spec->own);
}

void ptxk_step_sums_store(ptx_builder *b, const ptx_val *sum, unsigned count, ptx_val tid,
                          ptx_ptr rows, ptx_val k)
{
    ptx_val total[PTX_RULE_MAX_SUMS];

    for (unsigned n = 0; n < count; n++)
        total[n] = ptxk_one_nan(b, ptxk_block_sum(b, sum[n], NORM_BLOCK));
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_ptr row = ptx_at(b, rows, ptx_mul_wide(b, k, PTX_RULE_MAX_SUMS));
        for (uint32_t n = 0; n < count; n++)
            ptx_store(b, row, n, total[n]);
    }
}

// A block for each tensor adds the sums of its tiles: thread t those of tiles t, t + 256, ... in
// this order; a tree over the threads follows. A tensor without elements, or without a gradient or
// a sum of gradients, has zeros.
void ptxk_step_sums_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;

    ptx_comment(b, "a block for each tensor: its sums");
    ptx_ptr tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                    .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles =
        ptx_param_ptr(b, PTX_U32, "first_tiles", .readonly = true, .meaning = "one a tensor");
    ptx_ptr of_tiles = ptx_param_ptr(b, PTX_F64, "tile_sums", .readonly = true,
                                     .meaning = "rows of 4, one a tile");
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "tensor_sums", .writeonly = true,
                                 .meaning = "rows of 4, one a tensor");
    ptx_ptr of = { 0 };
    if (has_matrices(norm))
        of = ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                           .meaning = "one a tensor: 0: it is no matrix");
    ptx_ptr accumulators = { 0 };
    if (spec->accumulates)
        accumulators = ptxk_norm_accumulators_param(b);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val row = ptx_mul_wide(b, block, NORM_LENGTH(uint64_t, struct norm_tensor_row));
    ptx_vec extent = ptx_load_vec(b, ptx_at(b, tensors, row), 0, 2); // gradient, count
    ptx_val first_tile = ptx_load(b, tiles, block), first = ptx_cvt(b, PTX_U64, first_tile);
    ptx_val up = ptx_add(b, extent.lane[1], spec->tile - 1);
    ptx_val all = ptxk_over_power_of_two(b, up, spec->tile);
    ptx_val absent = spec->accumulates
                         ? ptx_not(b, ptxk_norm_has_accumulated(b, accumulators, block))
                         : ptx_eq(b, extent.lane[0], 0);
    ptx_val count = ptx_select(b, absent, ptx_u64(0), all);
    if (has_matrices(norm)) { // those have no sums of tiles
        ptx_val is = ptx_ne(b, ptx_load(b, of, block), 0);
        count = ptx_select(b, is, ptx_u64(0), count);
    }
    if (ptxk_step_has_squares(norm)) // nor have those
        count = ptx_select(b, ptx_eq(b, first_tile, ptx_u32(STEP_NO_TILES)), ptx_u64(0), count);
    ptx_val sum[PTX_RULE_MAX_SUMS];
    for (unsigned k = 0; k < PTX_RULE_MAX_SUMS; k++)
        sum[k] = ptx_var(b, ptx_f64(0));
    ptx_for (b, n, ptx_cvt(b, PTX_U64, tid), count, NORM_BLOCK) {
        ptx_val place = ptx_mul(b, ptx_add(b, first, n), PTX_RULE_MAX_SUMS);
        for (uint32_t k = 0; k < PTX_RULE_MAX_SUMS; k++)
            ptx_set(b, sum[k], ptx_add(b, sum[k], ptx_load(b, ptx_at(b, of_tiles, place), k)));
    }
    ptxk_step_sums_store(b, sum, PTX_RULE_MAX_SUMS, tid, sums, block);
}

static void set_hyper_emit(ptx_builder *b, const struct norm_spec *spec)
{
    const uint32_t count = ptxk_step_set_scalars(spec->own);
    ptx_ptr hyper = ptx_param_ptr(b, PTX_F64, "hyper", .writeonly = true,
                                  .length = count == STEP_SCALARS ? "24" : "16",
                                  .meaning = "a group's scalars");
    ptx_ptr values = ptx_param_array(b, PTX_F64, "values", count);
    ptxk_norm_setter_begin(b);
    ptx_val k = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_lt(b, k, count))
        ptx_store(b, hyper, k, ptx_load(b, values, k));
}

static void set_rows_emit(ptx_builder *b, const struct norm_spec *spec)
{
    static const char *const meanings[] = { "rows of 12, from the first to set",
                                            "rows of 16, from the first to set",
                                            "rows of 20, from the first to set" };
    ptx_ptr rows = ptx_param_ptr(b, PTX_U64, "rows", .writeonly = true,
                                 .meaning = ptxk_step_row_meaning(spec->own, meanings));
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "words to set");
    ptx_ptr words = ptx_param_array(b, PTX_U64, "words", STEP_SET_ROWS_WORDS);
    ptx_for (b, k, ptx_tid(b, PTX_X), count, NORM_BLOCK)
        ptx_store(b, rows, k, ptx_load(b, words, k));
}

static unsigned squares_blocks(const struct norm_spec *spec, int sm)
{
    return has_matrices(spec) ? ptxk_matrix_sums_blocks(spec, sm) : 4;
}

const struct norm_entry ptxk_step_entries[NORM_ENTRIES] = {
    NORM_COMMON_ENTRIES,
    [NORM_SQUARES] = { "clip_norm", squares_emit, .blocks = squares_blocks },
    [NORM_SUMS] = { "clip_sums", sums_emit, 1 },
    [STEP_REDUCE] = { "step_reduce", ptxk_step_reduce_emit, 4, has_sums },
    [STEP_SUMS] = { "step_sums", ptxk_step_sums_emit, 1, has_sums },
    [STEP_ACCUMULATE] = { "step_accumulate", accumulate_emit, 8, accumulates },
    [STEP_REPORT] = { "step_report", ptxk_step_report_emit, 1, notes_weights },
    [STEP_MATRIX_TOTALS] = { "step_matrix_totals", ptxk_step_matrix_totals_emit, 1, is_over_ranks },
    [STEP_MATRIX] = { "step_matrix", ptxk_step_matrix_emit, 5, has_matrices },
    [STEP_MATRIX_LAST] = { "step_matrix_apply", ptxk_step_matrix_apply_emit, 6, has_matrices },
    [STEP_UNITS] = { "step_units", ptxk_step_units_emit, 4, clips_units },
    [STEP_UNIT_WEIGHTS] = { "step_unit_weights", ptxk_step_unit_weights_emit, 4, clips_units },
    [STEP_SQUARES] = { "step_squares", ptxk_step_squares_emit, 2, ptxk_step_has_squares,
                       ptxk_step_square_shared, ptxk_step_square_threads },
    [NORM_LAST] = { "step_apply", ptxk_step_apply_emit, .is_needed = has_others },
    [STEP_TRANSPOSE] = { "step_transpose", ptxk_step_transpose_emit, 8, transposes },
    [STEP_FP8_BLOCKS] = { "step_fp8_blocks", ptxk_step_fp8_blocks_emit, 2, has_fp8_blocks },
    [STEP_SET_HYPER] = { "step_set_hyper", set_hyper_emit, 1 },
    [STEP_SET_ROWS] = { "step_set_rows", set_rows_emit, 1 },
};

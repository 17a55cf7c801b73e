// SPDX-License-Identifier: MIT
// A tensor's report, from those of its chunks in their order.
#include "common/common.h"
#include "norm_parts.h"

#define CHUNK(member)  NORM_PLACE(uint32_t, struct norm_chunk_report, member)
#define ROW(member)    NORM_PLACE(uint64_t, struct norm_report_row, member)
#define REPORT(member) NORM_PLACE(uint64_t, struct ptx_gradient_report, member)

bool ptxk_norm_reports(const struct norm_spec *spec)
{
    return spec->reports && !spec->folds_reports;
}

// Of this thread's chunks, in variables: f64, f32, u64, u64.
struct folded {
    ptx_val sum, largest, zeros, first;
};

// Thread t takes chunks t, t + 256, ...
static struct folded fold(ptx_builder *b, const struct norm_spec *spec, ptx_ptr reports,
                          ptx_val tid, ptx_val count)
{
    const uint32_t length = NORM_LENGTH(double, struct norm_chunk_report);
    struct folded f = { ptx_var(b, ptx_f64(0)), ptx_var(b, ptx_f32(0)), ptx_var(b, ptx_u64(0)),
                        ptx_var(b, ptx_u64(UINT64_MAX)) };

    ptx_comment(b, "chunks t, t + %d, ... for thread t", NORM_BLOCK);
    ptx_for (b, k, tid, count, NORM_BLOCK) {
        ptx_ptr row = ptx_at(b, reports, ptx_mul_wide(b, k, length));
        ptx_ptr words = ptx_ptr_cast(b, PTX_U32, row);
        ptx_val sum = ptx_load(b, row, 0);
        ptx_val largest = ptx_load(b, ptx_ptr_cast(b, PTX_F32, row), CHUNK(largest));
        ptx_val zeros = ptx_load(b, words, CHUNK(zeros)), first = ptx_load(b, words, CHUNK(first));
        ptx_set(b, f.sum, ptx_add(b, f.sum, sum));
        ptx_set(b, f.largest, ptxk_larger(b, f.largest, largest));
        ptx_set(b, f.zeros, ptx_add(b, f.zeros, ptx_cvt(b, PTX_U64, zeros)));
        ptx_val wide = ptx_cvt(b, PTX_U64, first);
        ptx_val place = ptx_add(b, ptx_mul_wide(b, k, spec->chunk), wide);
        place = ptx_select(b, ptx_eq(b, first, UINT32_MAX), UINT64_MAX, place);
        ptx_set(b, f.first, ptx_min(b, f.first, place));
    }
    return f;
}

// The place in the whole parameter of element `i` of the tensor; UINT64_MAX stays.
static ptx_val place_in_whole(ptx_builder *b, ptx_ptr row, ptx_val i)
{
    ptx_val place = ptx_var(b, i);

    ptx_if (b, ptx_ne(b, i, UINT64_MAX)) {
        ptx_val run = ptx_load(b, row, ROW(run));
        ptx_val turn = ptx_div(b, i, run);
        ptx_val within = ptx_sub(b, i, ptx_mul(b, turn, run));
        ptx_val at = ptx_mul(b, turn, ptx_load(b, row, ROW(stride)));
        at = ptx_add(b, at, ptx_load(b, row, ROW(first)));
        ptx_set(b, place, ptx_add(b, at, within));
    }
    return place;
}

// What the reports of tensors are made from, and written to.
struct report_arrays {
    ptx_ptr tensors, rows, of_chunks, reports;
    ptx_val some; // a predicate: there is a gradient; poisoned: the tensor's address says so
};

static ptx_ptr rows_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "report_rows", .readonly = true,
                         .meaning = "rows of 4: place in the whole, first chunk, chunks");
}

static ptx_ptr reports_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "reports_at", .writeonly = true,
                         .meaning = "rows of 4, one a tensor: norm (f64), largest (f32) "
                                    "and absent (u32), zeros, first not finite");
}

// Writes all but the first element that is not finite, which first_write() writes. Executed by one
// thread. Returns the tensor's report.
static ptx_ptr report_write(ptx_builder *b, ptx_ptr reports, ptx_val tensor, ptx_val absent,
                            const struct folded *f)
{
    ptx_val flag = ptx_select(b, absent, ptx_u32(1), 0);
    ptx_ptr to = ptx_at(b, reports, ptx_mul_wide(b, tensor, 4));
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, to);
    ptx_val bits = ptx_bitcast(b, PTX_U32, ptxk_one_nan(b, f->largest));
    ptx_val norm = ptxk_one_nan(b, ptx_sqrt(b, f->sum));

    ptx_store(b, ptx_ptr_cast(b, PTX_F64, to), REPORT(norm), norm);
    ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_gradient_report, largest), bits);
    ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_gradient_report, absent), flag);
    ptx_store(b, to, REPORT(zeros), f->zeros);
    return to;
}

// `first`: in the tensor.
static void first_write(ptx_builder *b, ptx_ptr to, ptx_ptr row, ptx_val first)
{
    ptx_val bad = place_in_whole(b, row, first);

    ptx_store(b, to, REPORT(first_nonfinite), bad);
}

// From the reports of the tensor's chunks, {first, number}. Executed by all threads of a block.
static void report_fold(ptx_builder *b, const struct norm_spec *spec, const struct report_arrays *a,
                        ptx_val tensor, ptx_ptr row, ptx_vec chunks, ptx_val tid)
{
    const uint32_t length = NORM_LENGTH(double, struct norm_chunk_report);
    ptx_ptr first = ptx_at(b, a->of_chunks, ptx_mul_wide(b, chunks.lane[0], length));
    struct folded own = fold(b, spec, first, tid, chunks.lane[1]), all;

    ptx_ptr least = ptx_shared(b, PTX_U64, 1);
    ptx_if (b, ptx_eq(b, tid, 0))
        ptx_store(b, least, 0, UINT64_MAX);
    all.sum = ptxk_one_nan(b, ptxk_block_sum(b, own.sum, NORM_BLOCK)); // its barrier: for `least`
    all.largest = ptxk_block_extreme(b, own.largest, NORM_BLOCK, true);
    all.zeros = ptxk_block_sum(b, own.zeros, NORM_BLOCK);
    ptx_comment(b, "the first element that is not finite");
    ptx_if (b, ptx_ne(b, own.first, UINT64_MAX))
        ptx_atomic_min(b, least, 0, own.first);
    ptx_barrier(b);
    ptx_comment(b, "the report");
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_val data = { 0 };
        if (!a->some.type)
            data = ptx_load(b, ptx_at(b, a->tensors, ptx_mul_wide(b, tensor, 4)), 0);
        ptx_val none = ptx_eq(b, chunks.lane[1], 0);
        ptx_val absent = ptx_or(b, none, a->some.type ? ptx_not(b, a->some) : ptx_eq(b, data, 0));
        ptx_ptr to = report_write(b, a->reports, tensor, absent, &all);
        first_write(b, to, row, ptx_load(b, least, 0));
    }
}

void ptxk_norm_report_emit(ptx_builder *b, const struct norm_spec *spec)
{
    struct report_arrays a = { 0 };

    ptx_comment(b, "a block for each tensor: its report from those of its chunks");
    a.tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                              .meaning = "rows of 4: data, count, weight, type");
    a.rows = rows_param(b);
    a.of_chunks = ptx_param_ptr(b, PTX_F64, "chunk_reports", .readonly = true,
                                .meaning = "rows of 3, one a chunk");
    a.reports = reports_param(b);
    ptx_val tensor = ptx_ctaid(b, PTX_X), tid = ptx_tid(b, PTX_X);
    ptx_ptr row = ptx_at(b, a.rows, ptx_mul_wide(b, tensor, 4));
    ptx_vec chunks = ptx_unpack(b, PTX_U32, ptx_load(b, row, ROW(chunk)));
    report_fold(b, spec, &a, tensor, row, chunks, tid);
}

// ---- in the launch of the chunks ----------------------------------------------------------------

void ptxk_norm_squares_report_param(ptx_builder *b, struct norm_squares *n)
{
    n->reports = ptx_param_ptr(b, PTX_F64, "chunk_reports", .writeonly = !n->spec->folds_reports,
                               .meaning = "rows of 3: sum, largest (f32) and zeros (u32), first "
                                          "that is not finite (u32), one a chunk");
    if (!n->spec->folds_reports)
        return;
    n->report_rows = rows_param(b);
    n->reports_at = reports_param(b);
    n->arrivals =
        ptx_param_ptr(b, PTX_U32, "report_arrivals", .meaning = "chunks through, one a tensor");
}

// Leaves what is known of chunk `k`. Executed by one thread.
static void chunk_store(ptx_builder *b, const struct norm_squares *n, ptx_val k, ptx_val sum,
                        ptx_val largest, ptx_val zeros)
{
    const uint32_t length = NORM_LENGTH(double, struct norm_chunk_report);
    ptx_ptr row = ptx_at(b, n->reports, ptx_mul_wide(b, k, length));
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, row);

    ptx_store(b, row, 0, ptxk_one_nan(b, sum));
    ptx_store(b, words, CHUNK(largest), ptx_bitcast(b, PTX_U32, ptxk_one_nan(b, largest)));
    ptx_store(b, words, CHUNK(zeros), zeros);
    ptx_store(b, words, CHUNK(first), n->first_bad);
}

// The report of a tensor that is one chunk.
static void report_alone(ptx_builder *b, const struct norm_squares *n, ptx_ptr row, ptx_val sum,
                         ptx_val largest, ptx_val zeros)
{
    ptx_val none = ptx_eq(b, n->tensor.count, 0);
    ptx_val some = n->accumulator.some;
    ptx_val absent = ptx_or(b, none, some.type ? ptx_not(b, some) : ptx_eq(b, n->tensor.data, 0));
    ptx_val first = ptx_cvt(b, PTX_U64, n->first_bad);
    first = ptx_select(b, ptx_eq(b, n->first_bad, UINT32_MAX), UINT64_MAX, first);
    ptx_val wide = ptx_cvt(b, PTX_U64, zeros);
    const struct folded f = { ptxk_one_nan(b, sum), largest, wide, first };

    ptx_comment(b, "the report of a tensor that is one chunk");
    ptx_ptr to = report_write(b, n->reports_at, n->chunk.tensor, absent, &f);
    ptx_comment(b, "its first element that is not finite");
    first_write(b, to, row, f.first);
}

// Reports the tensor of the chunk, if it is complete.
static void report_tensor(ptx_builder *b, const struct norm_squares *n, ptx_val k, ptx_val sum,
                          ptx_val largest, ptx_val zeros)
{
    const struct report_arrays a = { n->tables.tensors, n->report_rows, n->reports, n->reports_at,
                                     n->accumulator.some };
    ptx_ptr row = ptx_at(b, n->report_rows, ptx_mul_wide(b, n->chunk.tensor, 4));
    ptx_vec chunks = ptx_unpack(b, PTX_U32, ptx_load(b, row, ROW(chunk)));
    ptx_val last = ptx_var(b, ptx_bool(false));
    ptx_val is_first = ptx_eq(b, n->tid, 0), several = ptx_gt(b, chunks.lane[1], 1);
    ptx_if (b, ptx_and(b, is_first, ptx_eq(b, chunks.lane[1], 1)))
        report_alone(b, n, row, sum, largest, zeros);
    ptx_if (b, ptx_and(b, is_first, several)) {
        ptx_comment(b, "of several chunks, what the block leaves");
        chunk_store(b, n, k, sum, largest, zeros);
        ptx_val limit = ptx_sub(b, chunks.lane[1], 1);
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_inc, n->arrivals, n->chunk.tensor, limit,
                                    .order = PTX_ORDER_ACQ_REL);
        ptx_set(b, last, ptx_eq(b, before, limit));
    }
    ptx_if (b, several) {
        ptx_if (b, ptx_barrier_any(b, last))
            report_fold(b, n->spec, &a, n->chunk.tensor, row, chunks, n->tid);
    }
    ptx_comment(b, "the partial of the chunk");
}

// The place (u32) of the first element that is not finite; UINT32_MAX: there is none. For all lanes
// of the warp, if any of their sums is not finite.
static ptx_val piece_nonfinite(ptx_builder *b, const struct norm_piece *piece, ptx_ptr x,
                               ptx_val sum)
{
    ptx_val first = ptx_var(b, ptx_u32(UINT32_MAX));
    ptx_val odd = ptx_not(b, ptx_is_finite(b, sum));

    ptx_if (b, ptx_vote_any(b, odd, ptx_full_warp())) {
        ptx_for (b, i, piece->thread, piece->count, WARP) {
            ptx_val value = ptx_load(b, x, i);
            value = ptx_cvt(b, value.type == PTX_F64 ? PTX_F64 : PTX_F32, value);
            ptx_if (b, ptx_not(b, ptx_is_finite(b, value)))
                ptx_set(b, first, ptx_min(b, first, ptx_bitcast(b, PTX_U32, i)));
        }
        ptx_set(b, first, ptxk_lanes_combine_all(b, ptx_min, first, WARP));
    }
    return first;
}

void ptxk_norm_piece_report(ptx_builder *b, const struct norm_squares *n,
                            const struct norm_piece *piece, ptx_ptr x,
                            const struct chunk_seen *seen, ptx_val sum)
{
    ptx_comment(b, "its report");
    ptx_val bad = piece_nonfinite(b, piece, x, sum);
    ptx_comment(b, "of all lanes: the squares");
    ptx_val all = ptxk_team_sum(b, sum, ptx_u32(WARP));
    ptx_comment(b, "the largest");
    ptx_val largest = ptxk_lanes_combine_all(b, ptxk_larger, seen->largest, WARP);
    ptx_comment(b, "the zeros");
    ptx_val zeros = ptxk_lanes_combine_all(b, ptx_add, seen->zeros, WARP);
    ptx_val first = ptx_cvt(b, PTX_U64, bad);
    first = ptx_select(b, ptx_eq(b, bad, UINT32_MAX), UINT64_MAX, first);
    ptx_if (b, ptx_eq(b, piece->thread, 0)) {
        ptx_ptr row = ptx_at(b, n->report_rows, ptx_mul_wide(b, piece->tensor, 4));
        ptx_val wide = ptx_cvt(b, PTX_U64, zeros);
        const struct folded f = { ptxk_one_nan(b, all), largest, wide, first };
        ptx_val absent = ptx_eq(b, piece->count, 0);
        ptx_comment(b, "what is written of it");
        ptx_ptr to = report_write(b, n->reports_at, piece->tensor, absent, &f);
        first_write(b, to, row, f.first);
    }
}

ptx_val ptxk_norm_squares_report(ptx_builder *b, const struct norm_squares *n, ptx_val k)
{
    if (n->spec->folds_reports) {
        struct ptxk_reduced r[] = { { n->sum, ptx_add, "the squares" },
                                    { n->seen.largest, ptxk_larger, "the largest" },
                                    { n->seen.zeros, ptx_add, "the zeros" } };
        ptxk_block_reduce(b, r, sizeof r / sizeof *r, NORM_BLOCK);
        report_tensor(b, n, k, r[0].value, r[1].value, r[2].value);
        return r[0].value;
    }
    ptx_val sum = ptxk_block_sum(b, n->sum, NORM_BLOCK);
    ptx_val largest = ptxk_block_extreme(b, n->seen.largest, NORM_BLOCK, true);
    ptx_val zeros = ptxk_block_sum(b, n->seen.zeros, NORM_BLOCK);
    ptx_if (b, ptx_eq(b, n->tid, 0))
        chunk_store(b, n, k, sum, largest, zeros);
    return sum;
}

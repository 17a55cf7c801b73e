// SPDX-License-Identifier: MIT
// The sums of squares: one block for each chunk, which writes one partial.
#include "common/chunk.h"
#include "norm_parts.h"

void ptxk_norm_find_nonfinite(ptx_builder *b, const struct norm_squares *n,
                              const struct chunk *chunk)
{
    ptx_val some = ptx_barrier_any(b, ptx_not(b, ptx_is_finite(b, n->sum)));

    ptx_if (b, some) {
        ptx_ptr least = ptx_shared(b, PTX_U32, 1);
        ptx_ptr data = ptx_at(b, chunk->x, n->spread ? n->spread->base : chunk->first);
        ptx_if (b, ptx_eq(b, n->tid, 0))
            ptx_store(b, least, 0, UINT32_MAX);
        ptx_barrier(b);
        ptx_for (b, i, ptx_bitcast(b, PTX_S32, n->tid), chunk->length, CHUNK_BLOCK) {
            ptx_val x = ptx_load(b, data, n->spread ? ptxk_spread_at(b, n->spread, i) : i);
            x = ptx_cvt(b, x.type == PTX_F64 ? PTX_F64 : PTX_F32, x);
            ptx_if (b, ptx_not(b, ptx_is_finite(b, x)))
                ptx_atomic_min(b, least, 0, ptx_bitcast(b, PTX_U32, i));
        }
        ptx_barrier(b);
        ptx_set(b, n->first_bad, ptx_load(b, least, 0));
    }
}

static void sum_chunk(ptx_builder *b, ptx_type dtype, void *user)
{
    struct norm_squares *n = user;
    const struct chunk chunk = { .x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, n->tensor.data),
                                 .first = n->extent.first,
                                 .length = n->extent.length,
                                 .most = n->spec->chunk,
                                 .tid = n->tid,
                                 .scratch = n->scratch,
                                 .ragged = true,
                                 .seen = n->spec->reports ? &n->seen : NULL };

    ptx_set(b, n->sum, ptxk_chunk_square_sum(b, &chunk));
    if (n->spec->reports)
        ptxk_norm_find_nonfinite(b, n, &chunk);
}

void ptxk_norm_squares_read(ptx_builder *b, struct norm_squares *n)
{
    n->tensor = ptxk_norm_tensor_read(b, &n->tables, n->chunk.tensor);
    n->extent = ptxk_norm_extent_of(b, n->chunk.index, n->tensor.count, n->spec->chunk);
    if (n->accumulator.rows.type) {
        struct norm_accumulator *a = &n->accumulator;
        ptxk_norm_accumulator_read(b, n, true);
        a->some = ptx_or(b, a->adds, a->onto);
        n->extent.length = ptx_select(b, a->some, n->extent.length, 0);
    } else if (n->may_lack) {
        ptx_comment(b, "a tensor without a gradient adds nothing");
        ptx_val absent = ptx_eq(b, n->tensor.data, 0);
        n->extent.length = ptx_select(b, absent, 0, n->extent.length);
    }
}

void ptxk_norm_squares_chunk(ptx_builder *b, struct norm_squares *n)
{
    if (n->accumulator.rows.type)
        ptxk_norm_accumulate_chunk(b, n, true);
    else
        ptxk_norm_for_dtype(b, n->spec, n->tensor.dtype, sum_chunk, n);
}

static void seen_begin(ptx_builder *b, struct norm_squares *n)
{
    if (!n->spec->reports)
        return;
    n->seen.largest = ptx_var(b, ptx_f32(0));
    n->seen.zeros = ptx_var(b, ptx_u32(0));
    n->first_bad = ptx_var(b, ptx_u32(UINT32_MAX));
}

// Returns the sum of chunk `k` (u32), in thread 0.
static ptx_val sum_tensor(ptx_builder *b, struct norm_squares *n, ptx_val k)
{
    ptxk_norm_squares_read(b, n);
    seen_begin(b, n);
    n->sum = ptx_var(b, ptx_f64(0));
    if (n->own_sum)
        n->own_sum(b, n);
    else
        ptxk_norm_squares_chunk(b, n);
    n->weight = n->tensor.weight;
    return n->spec->reports ? ptxk_norm_squares_report(b, n, k)
                            : ptxk_block_sum(b, n->sum, NORM_BLOCK);
}

// Returns the sum of chunk `k` (u32), in thread 0. It already includes the weights of pieces.
static ptx_val sum_pieces_or_tensor(ptx_builder *b, struct norm_squares *n, ptx_val k)
{
    const bool reports = n->spec->reports;
    ptx_val total = { 0 };

    n->sum = ptx_var(b, ptx_f64(0));
    n->weight = ptx_var(b, ptx_f64(1));
    if (reports)
        total = ptx_var(b, ptx_f64(0));
    ptx_if (b, ptx_ne(b, n->chunk.team, 0)) {
        ptx_comment(b, "a chunk of several tensors: a team of threads for each");
        const ptx_val one = { 0 };
        struct norm_share share = ptxk_norm_share_of(b, &n->chunk, n->tid, one, 1);
        ptx_val tensor = ptxk_norm_share_tensor(b, &n->tables, &n->chunk, &share, n->tid);
        share.row = ptxk_norm_tensor_read(b, &n->tables, tensor);
        if (n->may_lack) {
            ptx_comment(b, "one without a gradient adds nothing");
            ptx_val absent = ptx_eq(b, share.row.data, 0);
            share.row.count = ptx_select(b, absent, ptx_u64(0), share.row.count);
        }
        if (reports)
            share.tensor = tensor;
        ptx_set(b, n->sum, ptxk_norm_share_sum(b, n, &share));
        if (reports)
            ptx_set(b, total, ptxk_block_sum(b, n->sum, NORM_BLOCK));
    }
    ptx_else (b) {
        ptx_comment(b, "a chunk of one tensor");
        ptxk_norm_squares_read(b, n);
        ptx_set(b, n->weight, n->tensor.weight);
        seen_begin(b, n);
        ptxk_norm_for_dtype(b, n->spec, n->tensor.dtype, sum_chunk, n);
        if (reports)
            ptx_set(b, total, ptxk_norm_squares_report(b, n, k));
    }
    return reports ? total : ptxk_block_sum(b, n->sum, NORM_BLOCK);
}

struct norm_squares ptxk_norm_squares_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_squares n = { .spec = spec };

    ptx_comment(b, "a block for each chunk: the sum of its squares in f64, times its weight");
    n.tables = ptxk_norm_tables_param(b, spec);
    n.partials = ptx_param_ptr(b, PTX_F64, "partials", .writeonly = true,
                               .meaning = "sums of squares, one a chunk");
    n.state = ptx_param_ptr(b, PTX_F32, "state", .readonly = true, .length = "1",
                            .meaning = "loss scale");
    n.used = ptx_param_ptr(b, PTX_F32, "used", .writeonly = true, .length = "1",
                           .meaning = "the loss scale that this run divides by");
    n.first = ptx_param(b, PTX_U32, "first", .meaning = "chunk of block 0");
    if (spec->reports)
        ptxk_norm_squares_report_param(b, &n);
    return n;
}

ptx_val ptxk_norm_squares_begin(ptx_builder *b, struct norm_squares *n)
{
    // A setter, in a graph, before launches begin that read tables early.
    ptxk_norm_wait_for_last(b);
    ptxk_norm_let_next_start(b);
    n->scratch = ptx_shared(b, PTX_F64, CHUNK_SCRATCH);
    n->tid = ptx_tid(b, PTX_X);
    return ptx_ctaid(b, PTX_X);
}

void ptxk_norm_squares_note_scale(ptx_builder *b, const struct norm_squares *n)
{
    ptx_store(b, n->used, 0, ptx_load(b, n->state, 0));
}

void ptxk_norm_squares_sum(ptx_builder *b, struct norm_squares *n, ptx_val block)
{
    ptx_val k = ptx_add(b, block, n->first);

    n->chunk = ptxk_norm_chunk_read(b, &n->tables, k);
    n->accumulator.place = k;
    ptx_val sum = n->spec->packs ? sum_pieces_or_tensor(b, n, k) : sum_tensor(b, n, k);
    if (n->accumulator.rows.type)
        ptxk_norm_accumulator_count(b, n, true);
    ptx_if (b, ptx_eq(b, n->tid, 0)) {
        ptx_store(b, n->partials, k,
                  ptxk_one_nan(b, ptxk_norm_weighted(b, n->spec, sum, n->weight)));
        if (!n->notes_scale) {
            ptx_if (b, ptx_eq(b, k, 0))
                ptxk_norm_squares_note_scale(b, n);
        }
    }
}

void ptxk_norm_squares_emit(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_squares n = ptxk_norm_squares_param(b, spec);

    ptxk_norm_squares_sum(b, &n, ptxk_norm_squares_begin(b, &n));
}

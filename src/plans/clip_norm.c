// SPDX-License-Identifier: MIT
// The sums of squares: a block for each chunk; the last to arrive adds what the others left.
#include "clip_text.h"
#include "kernels/chunk.h"

struct norm {
    const struct clip_spec *spec;
    struct clip_chunk chunk;
    ptx_val tid;
    ptx_ptr scratch;
    ptx_val sum; // this thread's
};

static void sum_chunk(ptx_builder *b, ptx_type dtype, void *user)
{
    struct norm *n = user;
    ptx_ptr x = ptx_pointer(b, dtype, PTX_GLOBAL, n->chunk.data);
    struct chunk chunk = { x, n->chunk.first, n->chunk.length, n->spec->chunk, n->tid, n->scratch };

    ptx_set(b, n->sum, chunk_square_sum(b, &chunk));
}

// Thread 0 leaves `value` in to[k] and says that it has arrived; whether all `count` have, and so
// what they left can be read, is what every thread gets.
static ptx_val arrive(ptx_builder *b, ptx_val tid, ptx_ptr to, ptx_val k, ptx_val value,
                      ptx_ptr arrivals, ptx_val place, ptx_val count)
{
    ptx_val last = ptx_var(b, ptx_bool(false));

    ptx_if (b, ptx_eq(b, tid, ptx_u32(0))) {
        ptx_store(b, to, k, value);
        ptx_val limit = ptx_sub(b, count, ptx_u32(1));
        ptx_val before =
            ptx_atomic(b, PTX_ATOMIC_inc, arrivals, place, limit, .order = PTX_ACQ_REL);
        ptx_set(b, last, ptx_eq(b, before, limit));
    }
    return ptx_barrier_any(b, last);
}

// The sum of values[first ... first + count - 1], in thread 0.
static ptx_val sum_left(ptx_builder *b, ptx_val tid, ptx_ptr values, ptx_val first, ptx_val count)
{
    ptx_val sum = ptx_var(b, ptx_f64(0));
    ptx_ptr from = ptx_at(b, values, first);

    ptx_for (b, i, tid, count, ptx_u32(CLIP_BLOCK))
        ptx_set(b, sum, ptx_add(b, sum, ptx_load(b, from, i, .order = PTX_RELAXED)));
    return block_sum(b, sum, CLIP_BLOCK);
}

void clip_norm_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct norm n = { .spec = spec };

    ptx_comment(b, "a block for each chunk: the sum of its squares in f64, times its weight");
    struct clip_tables tables = clip_tables_param(b);
    ptx_ptr segments = ptx_param_ptr(b, PTX_U32, "segments", .readonly = true,
                                     .meaning = "rows of 4: first chunk, chunks, group");
    ptx_ptr groups = ptx_param_ptr(b, PTX_U32, "groups", .readonly = true,
                                   .meaning = "rows of 2: first segment, segments");
    ptx_ptr partials = ptx_param_ptr(b, PTX_F64, "partials", .meaning = "one a chunk");
    ptx_ptr segment_sums = ptx_param_ptr(b, PTX_F64, "segment_sums", .meaning = "one a segment");
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "sums", .writeonly = true, .meaning = "one a group");
    ptx_ptr segment_arrivals =
        ptx_param_ptr(b, PTX_U32, "segment_arrivals", .meaning = "of chunks; 0 before and after");
    ptx_ptr group_arrivals =
        ptx_param_ptr(b, PTX_U32, "group_arrivals", .meaning = "of segments; 0 before and after");
    struct clip_results results = clip_results_param(b, spec);
    ptx_val first = ptx_param(b, PTX_U32, "first", .meaning = "chunk of block 0");
    ptx_val finishes = ptx_param(b, PTX_U32, "finishes",
                                 .meaning = "1: the last block of a group writes its record");

    n.scratch = ptx_shared(b, PTX_F64, CHUNK_SCRATCH);
    n.tid = ptx_tid(b, PTX_X);
    ptx_val k = ptx_add(b, ptx_ctaid(b, PTX_X), first);
    n.chunk = clip_chunk_read(b, &tables, k, spec->chunk);
    ptx_val segment_row = ptx_mul_wide(b, n.chunk.segment, ptx_u32(4));
    ptx_vec segment = ptx_load_vec(b, segments, segment_row, 4);
    ptx_val group_row = ptx_mul_wide(b, n.chunk.group, ptx_u32(2));
    ptx_vec group = ptx_load_vec(b, groups, group_row, 2);

    n.sum = ptx_var(b, ptx_f64(0));
    clip_for_dtype(b, spec, n.chunk.dtype, sum_chunk, &n);
    clip_let_next_start(b);
    ptx_val partial = block_sum(b, n.sum, CLIP_BLOCK);
    ptx_val weighted = one_nan(b, ptx_mul(b, partial, n.chunk.weight));

    ptx_comment(b, "the last chunk of a segment adds the segment's partials");
    ptx_val arrived =
        arrive(b, n.tid, partials, k, weighted, segment_arrivals, n.chunk.segment, segment.lane[1]);
    ptx_return_if(b, ptx_not(b, arrived));
    ptx_val total = ptx_var(b, sum_left(b, n.tid, partials, segment.lane[0], segment.lane[1]));

    ptx_comment(b, "the last segment of a group adds the group's segments, if there are several");
    ptx_if (b, ptx_gt(b, group.lane[1], ptx_u32(1))) {
        ptx_val all = arrive(b, n.tid, segment_sums, n.chunk.segment, total, group_arrivals,
                             n.chunk.group, group.lane[1]);
        ptx_return_if(b, ptx_not(b, all));
        ptx_set(b, total, sum_left(b, n.tid, segment_sums, group.lane[0], group.lane[1]));
    }
    ptx_if (b, ptx_eq(b, n.tid, ptx_u32(0))) {
        ptx_val sum = one_nan(b, total);
        ptx_store(b, sums, n.chunk.group, sum);
        ptx_if (b, ptx_ne(b, finishes, ptx_u32(0)))
            clip_finish_group(b, &results, n.chunk.group, sum);
    }
}

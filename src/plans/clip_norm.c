// SPDX-License-Identifier: MIT
// The sums of squares: a block for each chunk leaves one partial.
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

void clip_norm_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct norm n = { .spec = spec };

    ptx_comment(b, "a block for each chunk: the sum of its squares in f64, times its weight");
    struct clip_tables tables = clip_tables_param(b);
    ptx_ptr partials = ptx_param_ptr(b, PTX_F64, "partials", .writeonly = true,
                                     .meaning = "sums of squares, one a chunk");
    ptx_ptr state = ptx_param_ptr(b, PTX_F32, "state", .readonly = true, .length = "1",
                                  .meaning = "loss scale");
    ptx_ptr used = ptx_param_ptr(b, PTX_F32, "used", .writeonly = true, .length = "1",
                                 .meaning = "the loss scale that this run divides by");
    ptx_val first = ptx_param(b, PTX_U32, "first", .meaning = "chunk of block 0");

    clip_let_next_start(b);
    n.scratch = ptx_shared(b, PTX_F64, CHUNK_SCRATCH);
    n.tid = ptx_tid(b, PTX_X);
    ptx_val k = ptx_add(b, ptx_ctaid(b, PTX_X), first);
    n.chunk = clip_chunk_read(b, &tables, k, spec->chunk);
    n.sum = ptx_var(b, ptx_f64(0));
    clip_for_dtype(b, spec, n.chunk.dtype, sum_chunk, &n);
    ptx_val sum = block_sum(b, n.sum, CLIP_BLOCK);
    ptx_if (b, ptx_eq(b, n.tid, ptx_u32(0))) {
        ptx_store(b, partials, k, one_nan(b, ptx_mul(b, sum, n.chunk.weight)));
        ptx_if (b, ptx_eq(b, k, ptx_u32(0)))
            ptx_store(b, used, ptx_u32(0), ptx_load(b, state, ptx_u32(0)));
    }
}

// SPDX-License-Identifier: MIT
// The sums of squares: one block for each chunk, which writes one partial.
#include "clip_parts.h"
#include "common/chunk.h"
#include "step_apply.h"

struct norm {
    const struct clip_spec *spec;
    struct clip_tables tables;
    struct clip_chunk chunk;
    struct clip_tensor tensor;
    struct clip_extent extent;
    ptx_val tid;
    ptx_ptr scratch;
    ptx_val sum;    // a variable: this thread's sum
    ptx_val weight; // factor of the block's sum
};

static void sum_chunk(ptx_builder *b, ptx_type dtype, void *user)
{
    struct norm *n = user;
    const struct chunk chunk = { .x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, n->tensor.data),
                                 .first = n->extent.first,
                                 .length = n->extent.length,
                                 .most = n->spec->chunk,
                                 .tid = n->tid,
                                 .scratch = n->scratch,
                                 .ragged = true };

    ptx_set(b, n->sum, ptxk_chunk_square_sum(b, &chunk));
}

static void read_tensor(ptx_builder *b, struct norm *n)
{
    n->tensor = ptxk_clip_tensor_read(b, &n->tables, n->chunk.tensor);
    n->extent = ptxk_clip_extent_of(b, n->chunk.index, n->tensor.count, n->spec->chunk);
    if (n->spec->step) {
        ptx_comment(b, "a tensor without a gradient adds nothing");
        ptx_val absent = ptx_eq(b, n->tensor.data, ptx_u64(0));
        n->extent.length = ptx_select(b, absent, ptx_s32(0), n->extent.length);
    }
}

static void sum_tensor(ptx_builder *b, struct norm *n)
{
    read_tensor(b, n);
    n->sum = ptx_var(b, ptx_f64(0));
    ptxk_clip_for_dtype(b, n->spec, n->tensor.dtype, sum_chunk, n);
    n->weight = n->tensor.weight;
}

// The sum already includes the weights of the pieces.
static void sum_pieces_or_tensor(ptx_builder *b, struct norm *n)
{
    n->sum = ptx_var(b, ptx_f64(0));
    n->weight = ptx_var(b, ptx_f64(1));
    ptx_if (b, ptx_ne(b, n->chunk.team, ptx_u32(0))) {
        const ptx_val one = { 0 };
        struct clip_share share = ptxk_clip_share_of(b, &n->chunk, n->tid, one, 1);
        ptx_val tensor = ptxk_clip_share_tensor(b, &n->tables, &n->chunk, &share, n->tid);
        share.row = ptxk_clip_tensor_read(b, &n->tables, tensor);
        ptx_set(b, n->sum, ptxk_clip_share_sum(b, n->spec, &share, n->tid));
    }
    ptx_else (b) {
        read_tensor(b, n);
        ptx_set(b, n->weight, n->tensor.weight);
        ptxk_clip_for_dtype(b, n->spec, n->tensor.dtype, sum_chunk, n);
    }
}

// The first blocks compute what depends only on scalars and counts, and end. The others continue,
// renumbered from 0.
static ptx_val derive_or_go_on(ptx_builder *b, const struct norm *n,
                               const struct ptxk_step_clocks *clocks, ptx_val block, ptx_ptr used,
                               ptx_ptr state)
{
    ptx_comment(b, "the first blocks: what follows from scalars and counts alone");
    ptx_val derives = ptx_lt(b, block, clocks->blocks);
    ptx_if (b, derives) {
        ptx_val clock = ptx_mad(b, block, ptx_u32(CLIP_BLOCK), n->tid);
        ptx_if (b, ptx_eq(b, clock, ptx_u32(0)))
            ptx_store(b, used, ptx_u32(0), ptx_load(b, state, ptx_u32(0)));
        ptx_if (b, ptx_lt(b, clock, clocks->count))
            ptxk_step_derive(b, ptxk_step_rules(n->spec->step), clocks, clock);
    }
    ptx_return_if(b, derives);
    return ptx_sub(b, block, clocks->blocks);
}

void ptxk_clip_norm_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct norm n = { .spec = spec };

    ptx_comment(b, "a block for each chunk: the sum of its squares in f64, times its weight");
    n.tables = ptxk_clip_tables_param(b, spec);
    ptx_ptr partials = ptx_param_ptr(b, PTX_F64, "partials", .writeonly = true,
                                     .meaning = "sums of squares, one a chunk");
    ptx_ptr state = ptx_param_ptr(b, PTX_F32, "state", .readonly = true, .length = "1",
                                  .meaning = "loss scale");
    ptx_ptr used = ptx_param_ptr(b, PTX_F32, "used", .writeonly = true, .length = "1",
                                 .meaning = "the loss scale that this run divides by");
    ptx_val first = ptx_param(b, PTX_U32, "first", .meaning = "chunk of block 0");
    struct ptxk_step_clocks clocks;
    if (spec->step)
        clocks = ptxk_step_clocks_param(b);

    ptxk_clip_let_next_start(b);
    n.scratch = ptx_shared(b, PTX_F64, CHUNK_SCRATCH);
    n.tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);
    if (spec->step)
        block = derive_or_go_on(b, &n, &clocks, block, used, state);
    ptx_val k = ptx_add(b, block, first);
    n.chunk = ptxk_clip_chunk_read(b, &n.tables, k);
    if (spec->packs)
        sum_pieces_or_tensor(b, &n);
    else
        sum_tensor(b, &n);
    ptx_val sum = ptxk_block_sum(b, n.sum, CLIP_BLOCK);
    ptx_if (b, ptx_eq(b, n.tid, ptx_u32(0))) {
        ptx_store(b, partials, k, ptxk_one_nan(b, ptx_mul(b, sum, n.weight)));
        ptx_if (b, ptx_eq(b, k, ptx_u32(0)))
            ptx_store(b, used, ptx_u32(0), ptx_load(b, state, ptx_u32(0)));
    }
}

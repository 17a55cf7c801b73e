// SPDX-License-Identifier: MIT
// Gradients of micro-batches, summed in f32: in a kernel of their own, and in that of the norm,
// which takes the last one up. The first one is written, so nothing is set to 0.
#include "norm_parts.h"

// struct ptx_step_accumulated as a u64: the count in the lower half, in the upper one what the
// launch that wrote it has and no other. So blocks that read it before and after tell the same, and
// none waits for another. A count that a norm has taken has bit 31: it is negative.
#define TAKEN UINT32_C(0x80000000)

ptx_ptr ptxk_norm_accumulators_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "accumulators", .readonly = true,
                         .meaning = "rows of 2: addresses of the f32 sums, and of their counts");
}

void ptxk_norm_accumulator_params(ptx_builder *b, struct norm_squares *n, const char *turns)
{
    n->accumulator.rows = ptxk_norm_accumulators_param(b);
    n->accumulator.turns =
        ptx_param_ptr(b, PTX_U32, turns, .meaning = "one a block: twice the launches that it had");
    n->accumulator.first_turn =
        ptx_param(b, PTX_U32, "first_turn", .meaning = "of the plan: marks its launches");
}

ptx_val ptxk_norm_accumulated(ptx_builder *b, ptx_val state)
{
    ptx_ptr count = ptx_ptr_from(b, PTX_U32, PTX_SPACE_GLOBAL, state);

    return ptx_shl(b, ptx_load(b, count, 0), 1);
}

ptx_val ptxk_norm_has_accumulated(ptx_builder *b, ptx_ptr rows, ptx_val tensor)
{
    ptx_vec sum = ptx_load_vec(b, rows, ptx_mul_wide(b, tensor, 2), 2);
    ptx_val taken = ptx_var(b, ptx_u32(0));

    ptx_if (b, ptx_ne(b, sum.lane[0], 0))
        ptx_set(b, taken, ptxk_norm_accumulated(b, sum.lane[1]));
    return ptx_ne(b, taken, 0);
}

// How many gradients an accumulator had before this launch, of which its first block may have
// written that it has one more.
static ptx_val count_before(ptx_builder *b, const struct norm_accumulator *a)
{
    ptx_ptr at = ptx_ptr_from(b, PTX_U64, PTX_SPACE_GLOBAL, a->state);
    ptx_vec has = ptx_unpack(b, PTX_U32, ptx_load(b, at, 0, .order = PTX_ORDER_RELAXED));

    ptx_comment(b, "its count before this launch, whose first block may have counted");
    ptx_val some = ptx_ne(b, has.lane[0], 0);
    ptx_val counted = ptx_and(b, some, ptx_eq(b, has.lane[1], a->mark));
    ptx_val one = ptx_select(b, a->adds, ptx_u32(1), 0);
    ptx_val without = ptx_sub(b, ptx_and(b, has.lane[0], ~TAKEN), one);
    ptx_val goes_on = ptx_gt(b, ptx_bitcast(b, PTX_S32, has.lane[0]), 0);
    ptx_val count = ptx_select(b, goes_on, has.lane[0], 0);
    count = ptx_select(b, counted, without, count);
    ptx_assume_warp_uniform(b, count);
    return count;
}

void ptxk_norm_accumulator_read(ptx_builder *b, struct norm_squares *n, bool takes)
{
    struct norm_accumulator *a = &n->accumulator;

    ptx_comment(b, "the accumulator, and how many gradients it has since the last step");
    ptx_vec row = ptx_load_vec(b, ptx_at(b, a->rows, ptx_mul_wide(b, n->chunk.tensor, 2)), 0, 2);
    a->at = row.lane[0];
    a->state = row.lane[1];
    a->adds = ptx_ne(b, n->tensor.data, 0);
    a->turn = ptx_add(b, ptx_load(b, a->turns, a->place), 2);
    a->mark = ptx_add(b, a->first_turn, takes ? ptx_or(b, a->turn, 1) : a->turn);
    a->count = ptx_var(b, ptx_u32(0));
    ptx_if (b, ptx_ne(b, a->state, 0))
        ptx_set(b, a->count, count_before(b, a));
    a->onto = ptx_ne(b, a->count, 0);
}

struct taking {
    struct norm_squares *n;
    bool squares;
};

static void take_up(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct taking *taking = user;
    struct norm_squares *n = taking->n;
    const struct norm_accumulator *a = &n->accumulator;
    const struct chunk chunk = { .x = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, a->at),
                                 .first = n->extent.first,
                                 .length = n->extent.length,
                                 .most = n->spec->chunk,
                                 .tid = n->tid,
                                 .seen = taking->squares && n->spec->reports ? &n->seen : NULL };
    const struct chunk_addend addend = {
        .y = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, n->tensor.data),
        .adds = a->adds,
        .onto = a->onto,
    };
    ptx_val sum = ptxk_chunk_add(b, &chunk, &addend, taking->squares);

    if (taking->squares)
        ptx_set(b, n->sum, sum);
    if (chunk.seen)
        ptxk_norm_find_nonfinite(b, n, &chunk);
}

// The same element by element, of gradients that need not be consecutive; the accumulator's are.
static void take_up_each(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct taking *taking = user;
    const struct norm_squares *n = taking->n;
    const struct norm_accumulator *a = &n->accumulator;
    ptx_ptr x = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, a->at);
    ptx_ptr y = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, n->tensor.data);

    x = ptx_at(b, x, n->extent.first);
    y = ptx_at(b, y, n->spread ? n->spread->base : n->extent.first);
    ptx_val end = ptx_select(b, a->adds, n->extent.length, 0);
    ptx_for (b, i, ptx_bitcast(b, PTX_S32, n->tid), end, NORM_BLOCK) {
        ptx_val sum = ptx_var(b, ptx_f32(0));
        ptx_val at = n->spread ? ptxk_spread_at(b, n->spread, i) : i;
        ptx_val g = ptx_cvt(b, PTX_F32, ptx_load(b, y, at));
        ptx_set(b, sum, g);
        ptx_if (b, a->onto)
            ptx_set(b, sum, ptx_add(b, ptx_load(b, x, i), g));
        ptx_store(b, x, i, sum);
    }
}

void ptxk_norm_accumulate_chunk(ptx_builder *b, struct norm_squares *n, bool squares)
{
    struct taking taking = { n, squares };

    ptxk_norm_for_dtype(b, n->spec, n->tensor.dtype, n->spread ? take_up_each : take_up, &taking);
}

void ptxk_norm_accumulator_count(ptx_builder *b, const struct norm_squares *n, bool takes)
{
    const struct norm_accumulator *a = &n->accumulator;

    ptx_comment(b, "the block's turn; the tensor's first block counts the gradient");
    ptx_val first = ptx_and(b, ptx_eq(b, n->tid, 0), ptx_ne(b, a->state, 0));
    ptx_if (b, first) {
        ptx_store(b, a->turns, a->place, a->turn);
        ptx_val counts = ptx_and(b, ptx_eq(b, n->chunk.index, 0), ptx_ne(b, n->tensor.count, 0));
        ptx_if (b, counts) {
            ptx_ptr at = ptx_ptr_from(b, PTX_U64, PTX_SPACE_GLOBAL, a->state);
            ptx_val one = ptx_select(b, a->adds, ptx_u32(1), 0);
            ptx_val count = ptx_add(b, a->count, one);
            if (takes)
                count = ptx_or(b, count, TAKEN);
            const ptx_vec has = { .lanes = 2, .lane = { count, a->mark } };
            ptx_store(b, at, 0, ptx_pack(b, PTX_U64, has), .order = PTX_ORDER_RELAXED);
        }
    }
}

// SPDX-License-Identifier: MIT
// Threads together: in a warp, the lanes that are here; in a block, with barriers.
#include "random_program_emit.h"

// Frozen, like the alphabet.
static const ptx_shfl_mode modes[] = { PTX_SHFL_DOWN, PTX_SHFL_UP, PTX_SHFL_BFLY, PTX_SHFL_IDX };
const struct program_warp_row program_warp_rows[] = {
    { ptx_redux_add, PTX_TYPES_I32, PTX_NONE },
    { ptx_redux_min, PTX_TYPES_I32, PTX_NONE },
    { ptx_redux_max, PTX_TYPES_I32, PTX_NONE },
    { ptx_redux_and, PTX_TYPES_W32, PTX_NONE },
    { ptx_redux_or, PTX_TYPES_W32, PTX_NONE },
    { ptx_redux_xor, PTX_TYPES_W32, PTX_NONE },
    { ptx_match_any, PTX_TYPES_W32 | PTX_TYPES_W64, PTX_U32 },
    { ptx_match_all, PTX_TYPES_W32 | PTX_TYPES_W64, PTX_U32 },
    { ptx_ballot, PTX_TYPE_BIT(PRED), PTX_U32 },
    { ptx_vote_all, PTX_TYPE_BIT(PRED), PTX_PRED },
    { ptx_vote_any, PTX_TYPE_BIT(PRED), PTX_PRED },
    { ptx_vote_uniform, PTX_TYPE_BIT(PRED), PTX_PRED },
};
const unsigned program_warp_count = sizeof program_warp_rows / sizeof *program_warp_rows;

// ---- over lanes ---------------------------------------------------------------------------------

// The distance to shift by if that lane is in the mask, because reading another lane is undefined.
// Otherwise 0, which reads the lane itself.
static ptx_val within_mask(struct emitter *e, const struct node *n, ptx_val distance, ptx_val mask)
{
    ptx_builder *b = e->b;
    const ptx_shfl_mode mode = modes[n->a % 4];
    const uint32_t width = 1u << n->b % 6;
    ptx_val lane = ptx_laneid(b), from, self = ptx_u32(0);

    if (mode == PTX_SHFL_IDX) {
        distance = ptx_and(b, distance, ptx_u32(width - 1));
        self = ptx_and(b, lane, ptx_u32(width - 1));
        ptx_val segment = ptx_xor(b, lane, self);
        from = ptx_or(b, segment, distance);
    } else {
        distance = ptx_and(b, distance, ptx_u32(31));
        from = mode == PTX_SHFL_DOWN ? ptx_add(b, lane, distance)
               : mode == PTX_SHFL_UP ? ptx_sub(b, lane, distance)
                                     : ptx_xor(b, lane, distance);
    }
    ptx_val bit = ptx_shr(b, mask, from); // 0 from 32 on, and below 0
    return ptx_select(b, program_is_odd(b, bit), distance, self);
}

static ptx_val call(struct emitter *e, const struct node *n, const ptx_val *x, ptx_val mask)
{
    if (n->kind == NODE_WARP)
        return program_warp_rows[n->c.what].call(e->b, x[0], mask);
    const ptx_shfl_mode mode = modes[n->a % 4];
    const bool all = mask.kind == PTX_KIND_IMMEDIATE && (uint32_t)mask.bits == UINT32_MAX;
    ptx_val distance = all ? x[1] : within_mask(e, n, x[1], mask);
    return ptx_shfl(e->b, mode, x[0], distance, .mask = mask, .width = 1u << n->b % 6);
}

// All lanes that are here; those of a fixed mask; or those for which a condition holds, while the
// others execute another kind of instruction. Not the same kind: ptxas merges the two, for lanes
// with different masks, and that is an illegal instruction in a divergent warp.
static ptx_val over_lanes(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    const unsigned way = n->a >> 8 & 3;

    if (way < 2)
        return call(e, n, x, e->lanes);
    ptx_val result = ptx_var(b, ptx_zero(n->type));
    if (way == 2) {
        const bool all = e->lanes.kind == PTX_KIND_IMMEDIATE;
        ptx_val mask = all ? ptx_u32(n->b | 1) : ptx_and(b, e->lanes, ptx_u32(n->b | 1));
        ptx_val bit = ptx_shr(b, mask, ptx_laneid(b));
        ptx_if (b, program_is_odd(b, bit)) {
            ptx_set(b, result, call(e, n, x, mask));
        }
        return result;
    }
    ptx_val mask = ptx_ballot(b, x[2], e->lanes);
    ptx_if (b, x[2]) {
        ptx_set(b, result, call(e, n, x, mask));
    }
    ptx_else (b) {
        ptx_barrier_warp(b, ptx_xor(b, mask, e->lanes));
    }
    return result;
}

static void emit_fence(struct emitter *e, const struct node *n)
{
    if (n->b & 1 && n->by <= BY_WARP)
        ptx_barrier_warp(e->b, e->lanes);
    else
        ptx_fence(e->b, n->c.order, n->c.scope);
}

// Through shared memory, from one lane to another.
static ptx_val emit_warp_exchange(struct emitter *e, const struct node *n, ptx_val x)
{
    ptx_builder *b = e->b;
    const uint32_t stride = 16 / ptx_type_bytes(n->type);
    ptx_ptr p = ptx_ptr_cast(b, n->type, e->own);
    ptx_val lane = ptx_laneid(b), cell = ptx_mul(b, e->tid, ptx_u32(stride));

    ptx_barrier_warp(b, e->lanes);
    ptx_store(b, p, cell, x);
    ptx_barrier_warp(b, e->lanes);
    ptx_val other = ptx_xor(b, lane, ptx_u32(n->a & 31));
    ptx_val bit = ptx_shr(b, e->lanes, other);
    other = ptx_select(b, program_is_odd(b, bit), other, lane);
    ptx_val first = ptx_sub(b, e->tid, lane);
    cell = ptx_add(b, first, other);
    cell = ptx_mul(b, cell, ptx_u32(stride));
    ptx_val found = ptx_load(b, p, cell);
    ptx_barrier_warp(b, e->lanes);
    return found;
}

// ---- over the block -----------------------------------------------------------------------------

// Each part of the block has its own barrier for its warps.
static void barrier_of_parts(struct emitter *e, uint32_t threads)
{
    ptx_val part = ptx_div(e->b, e->tid, ptx_u32(threads));

    for (uint32_t k = 0; k < PROGRAM_BLOCK / threads; k++)
        ptx_if (e->b, ptx_eq(e->b, part, ptx_u32(k))) {
            ptx_barrier_named(e->b, 1 + k, threads);
        }
}

// Each thread stores a value and, after a barrier, reads another thread's: in the block, or in a
// part of it.
static ptx_val emit_exchange(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    const uint32_t parts[] = { PROGRAM_BLOCK, PROGRAM_BLOCK, 64, 128 };
    const uint32_t threads = parts[n->a >> 1 & 3];
    const uint32_t bytes = threads * ptx_type_bytes(n->other);
    const uint32_t most = bytes / ptx_type_bytes(n->type);

    ptx_barrier(b);
    ptx_store(b, ptx_ptr_cast(b, n->other, e->shared), e->tid, x[0]);
    if (threads < PROGRAM_BLOCK)
        barrier_of_parts(e, threads);
    else
        ptx_barrier_named(b, n->b >> 28, n->b & 1 ? PROGRAM_BLOCK : 0);
    ptx_val i = n->a & 1 ? x[4] : ptx_mad(b, e->tid, ptx_u32(n->a), ptx_u32(n->b));
    i = ptx_and(b, i, ptx_u32(most - 1));
    if (threads < PROGRAM_BLOCK) {
        ptx_val part = ptx_div(b, e->tid, ptx_u32(threads));
        i = ptx_mad(b, part, ptx_u32(most), i);
    }
    return ptx_load(b, ptx_ptr_cast(b, n->type, e->shared), i);
}

static ptx_val emit_shared_atomic(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    ptx_ptr p = ptx_ptr_cast(b, n->type, e->shared);

    ptx_barrier(b);
    ptx_store(b, p, e->tid, x[0]);
    ptx_barrier(b);
    ptx_val i = ptx_and(b, x[1], ptx_u32(7));
    ptx_atomic(b, (ptx_atomic_op)n->c.what, p, i, x[2], .order = n->c.order, .scope = n->c.scope);
    ptx_barrier(b);
    i = ptx_xor(b, e->tid, ptx_u32(n->a & (PROGRAM_BLOCK - 1)));
    return ptx_load(b, p, i);
}

static ptx_val emit_block_vote(struct emitter *e, const struct node *n, ptx_val x)
{
    return n->a % 3 == 0   ? ptx_barrier_all(e->b, x)
           : n->a % 3 == 1 ? ptx_barrier_any(e->b, x)
                           : ptx_barrier_count(e->b, x);
}

ptx_val program_emit_together(struct emitter *e, const struct node *n, const ptx_val *x)
{
    switch (n->kind) {
    case NODE_FENCE:
        emit_fence(e, n);
        return x[0];
    case NODE_EXCHANGE:
        return n->by == BY_BLOCK ? emit_exchange(e, n, x) : emit_warp_exchange(e, n, x[0]);
    case NODE_SHARED_ATOMIC:
        return emit_shared_atomic(e, n, x);
    case NODE_SHUFFLE:
    case NODE_WARP:
        return over_lanes(e, n, x);
    default:
        return emit_block_vote(e, n, x[0]);
    }
}

// SPDX-License-Identifier: MIT
#include "random_program_emit.h"

const struct program_warp_row program_warp_rows[] = {
#define ROW(name, meaning, types) { ptx_redux_##name, types, PTX_NONE },
    PTX_WARP_REDUCTIONS(ROW)
#undef ROW
        { ptx_match_any, PTX_SET_W32 | PTX_SET_W64, PTX_U32 },
    { ptx_match_all, PTX_SET_W32 | PTX_SET_W64, PTX_U32 },
    { ptx_ballot, PTX_SET(PRED), PTX_U32 },
    { ptx_vote_all, PTX_SET(PRED), PTX_PRED },
    { ptx_vote_any, PTX_SET(PRED), PTX_PRED },
    { ptx_vote_uniform, PTX_SET(PRED), PTX_PRED },
};
const unsigned program_warp_count = sizeof program_warp_rows / sizeof *program_warp_rows;

static ptx_val emit_load(struct emitter *e, const struct node *n, ptx_val index)
{
    ptx_builder *b = e->b;
    const unsigned size = ptx_type_bytes(n->type);
    unsigned lanes = 1u << n->a % 4;

    while (lanes * size > 16 || (size == 1 && lanes > 4))
        lanes /= 2;
    ptx_val i = ptx_and(b, index, ptx_u32((PROGRAM_INPUTS - 1) & ~(lanes - 1)));
    ptx_vec v = ptx_load_vec(b, program_input_array(e, n->type), i, lanes, .nc = n->a >> 8 & 1);
    return v.lane[n->b % lanes];
}

static ptx_val emit_local(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    ptx_ptr array = ptx_local(b, n->type, 4);

    for (uint32_t k = 0; k < 4; k++)
        ptx_store(b, array, ptx_u32(k), x[k]);
    ptx_val i = ptx_and(b, x[4], ptx_u32(3));
    return ptx_load(b, array, i);
}

static ptx_val emit_scratch(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const unsigned size = ptx_type_bytes(n->other);
    ptx_vec v = { .lanes = size == 1 ? 4 : 16 / size };

    for (unsigned k = 0; k < v.lanes; k++)
        v.lane[k] = x[k % 4];
    ptx_ptr p = program_words(e, PROGRAM_SCRATCH, e->thread, 2, n->other);
    for (uint32_t first = 0; first < 16 / size; first += v.lanes)
        ptx_store_vec(e->b, p, ptx_u32(first), v);
    p = ptx_ptr_cast(e->b, n->type, p);
    return ptx_load(e->b, p, ptx_u32(n->a % (16 / ptx_type_bytes(n->type))));
}

static ptx_val emit_atomic_own(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const ptx_val none = { 0 };
    ptx_ptr p = program_words(e, PROGRAM_SCRATCH, e->thread, 2, n->type);

    ptx_store(e->b, p, ptx_u32(0), x[0]);
    ptx_val old = ptx_atomic(e->b, (ptx_atomic_op)n->c.what, p, ptx_u32(0), x[1],
                             .compare = n->c.what == PTX_ATOMIC_cas ? x[2] : none);
    return n->a & 1 ? old : ptx_load(e->b, p, ptx_u32(0));
}

// Every thread stores and, beyond a barrier, reads what another one stored.
static ptx_val emit_exchange(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    const uint32_t stored = PROGRAM_BLOCK * ptx_type_bytes(n->other);

    ptx_barrier(b);
    ptx_store(b, ptx_ptr_cast(b, n->other, e->shared), e->tid, x[0]);
    ptx_barrier(b);
    ptx_val i = n->a & 1 ? x[4] : ptx_mad(b, e->tid, ptx_u32(n->a), ptx_u32(n->b));
    i = ptx_and(b, i, ptx_u32(stored / ptx_type_bytes(n->type) - 1));
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
    ptx_atomic(b, (ptx_atomic_op)n->c.what, p, i, x[2]);
    ptx_barrier(b);
    i = ptx_xor(b, e->tid, ptx_u32(n->a & (PROGRAM_BLOCK - 1)));
    return ptx_load(b, p, i);
}

static ptx_val emit_warp(struct emitter *e, const struct node *n, ptx_val x)
{
    ptx_builder *b = e->b;
    program_reduction *call = program_warp_rows[n->c.what].call;

    if (n->a == UINT32_MAX)
        return call(b, x, ptx_full_warp());
    ptx_val result = ptx_var(b, ptx_zero(n->type));
    ptx_val bit = ptx_shr(b, ptx_u32(n->a), ptx_laneid(b));
    ptx_if (b, program_is_odd(b, bit)) {
        ptx_set(b, result, call(b, x, ptx_u32(n->a)));
    }
    return result;
}

static ptx_val emit_block_vote(struct emitter *e, const struct node *n, ptx_val x)
{
    return n->a % 3 == 0   ? ptx_barrier_all(e->b, x)
           : n->a % 3 == 1 ? ptx_barrier_any(e->b, x)
                           : ptx_barrier_count(e->b, x);
}

ptx_val program_emit_memory(struct emitter *e, const struct node *n, const ptx_val *x)
{
    switch (n->kind) {
    case NODE_LOAD:
        return emit_load(e, n, x[4]);
    case NODE_LOCAL:
        return emit_local(e, n, x);
    case NODE_SCRATCH:
        return emit_scratch(e, n, x);
    case NODE_ATOMIC: {
        const uint32_t cells = PROGRAM_CELLS + 8 * (uint32_t)(n - e->p->node);
        ptx_ptr p = program_words(e, cells, ptx_u32(0), 0, n->type);
        ptx_val i = ptx_and(e->b, x[1], ptx_u32(7));
        ptx_atomic(e->b, (ptx_atomic_op)n->c.what, p, i, x[2]);
        return x[0];
    }
    case NODE_ATOMIC_OWN:
        return emit_atomic_own(e, n, x);
    case NODE_EXCHANGE:
        return emit_exchange(e, n, x);
    case NODE_SHARED_ATOMIC:
        return emit_shared_atomic(e, n, x);
    case NODE_SHUFFLE:
        return ptx_shfl(e->b, (ptx_shfl_mode)(n->a % 4), x[0], x[1], .width = 1u << n->b % 6);
    case NODE_WARP:
        return emit_warp(e, n, x[0]);
    default:
        return emit_block_vote(e, n, x[0]);
    }
}

// SPDX-License-Identifier: MIT
#include "random_program_emit.h"

ptx_ptr program_own(struct emitter *e, ptx_space space, ptx_type type)
{
    ptx_builder *b = e->b;

    if (space == PTX_SPACE_LOCAL)
        return ptx_ptr_cast(b, type, ptx_local(b, PTX_U64, 2));
    if (space == PTX_SPACE_SHARED) {
        ptx_val i = ptx_mul(b, e->tid, ptx_u32(2));
        return ptx_ptr_cast(b, type, ptx_at(b, e->own, i));
    }
    ptx_ptr p = program_words(e, PROGRAM_SCRATCH, e->thread, 2, type);
    return space == PTX_SPACE_GENERIC
               ? ptx_ptr_from(b, type, PTX_SPACE_GENERIC, ptx_ptr_address(b, p))
               : p;
}

static ptx_vec load_case(struct emitter *e, const struct op_case *c, ptx_ptr p, ptx_val i)
{
    return ptx_load_vec(e->b, p, i, c->lanes, .nc = c->nc, .cache = c->cache, .order = c->order,
                        .scope = c->scope);
}

static ptx_val emit_load(struct emitter *e, const struct node *n, ptx_val index)
{
    ptx_builder *b = e->b;
    const struct op_case *c = &n->load;

    ptx_val i = ptx_and(b, index, ptx_u32((PROGRAM_INPUTS - 1) & ~(c->lanes - 1)));
    ptx_ptr p = program_input_array(e, c->type);
    if (c->space == PTX_SPACE_GENERIC)
        p = ptx_ptr_from(b, c->type, PTX_SPACE_GENERIC, ptx_ptr_address(b, p));
    ptx_vec v = load_case(e, c, p, i);
    return v.lane[n->b % c->lanes];
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

static ptx_val emit_access(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const struct op_case *c = &n->c, *load = &n->load;
    const uint32_t room = 16 / ptx_type_bytes(n->type) / load->lanes;
    ptx_vec v = { .lanes = c->lanes };
    ptx_ptr p = program_own(e, c->space, c->type);

    for (uint32_t first = 0; first < 16 / ptx_type_bytes(c->type); first += v.lanes) {
        for (unsigned k = 0; k < v.lanes; k++)
            v.lane[k] = x[(first + k) % 4];
        ptx_store_vec(e->b, p, ptx_u32(first), v, .nc = c->nc, .cache = c->cache, .order = c->order,
                      .scope = c->scope);
    }
    p = ptx_ptr_cast(e->b, load->type, p);
    v = load_case(e, load, p, ptx_u32(n->a % room * load->lanes));
    return v.lane[n->b % load->lanes];
}

static ptx_val atomic(struct emitter *e, const struct node *n, ptx_ptr p, ptx_val i, ptx_val x,
                      ptx_val compare)
{
    return ptx_atomic(e->b, (ptx_atomic_op)n->c.what, p, i, x, .compare = compare,
                      .order = n->c.order, .scope = n->c.scope);
}

// For an atomic addition of halves in shared memory, ptxas uses the lower half twice if the operand
// is the upper word of another value. So the operand comes from memory.
static ptx_val half_operand(struct emitter *e, const struct node *n, ptx_val x)
{
    if (n->c.space != PTX_SPACE_SHARED || program_is_integer(n->type) ||
        ptx_type_bytes(n->type) == 8)
        return x;
    ptx_ptr p = ptx_at(e->b, program_own(e, PTX_SPACE_SHARED, PTX_U64), ptx_u32(1));
    p = ptx_ptr_cast(e->b, n->type, p);
    ptx_store(e->b, p, ptx_u32(0), x, .order = PTX_ORDER_VOLATILE);
    return ptx_load(e->b, p, ptx_u32(0), .order = PTX_ORDER_VOLATILE);
}

static ptx_val emit_atomic_own(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const ptx_val none = { 0 };
    const bool constant = x[0].kind == PTX_KIND_IMMEDIATE && !program_is_integer(n->type);
    ptx_val before = constant ? program_opaque(e, x[0]) : x[0];
    ptx_val operand = half_operand(e, n, x[1]);
    ptx_ptr p = program_own(e, n->c.space, n->type);

    ptx_store(e->b, p, ptx_u32(0), before);
    ptx_val old = atomic(e, n, p, ptx_u32(0), operand, n->c.what == PTX_ATOMIC_cas ? x[2] : none);
    return n->a & 1 ? old : ptx_load(e->b, p, ptx_u32(0));
}

// Cells that all threads update. Only their last contents are compared.
static ptx_ptr cells(struct emitter *e, const struct node *n)
{
    const uint32_t first = PROGRAM_CELLS + 8 * (uint32_t)(n - e->p->node);
    return program_words(e, first, ptx_u32(0), 0, n->type);
}

static void emit_atomic(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const ptx_val none = { 0 };
    ptx_ptr p = cells(e, n);

    if (n->c.space == PTX_SPACE_GENERIC)
        p = ptx_ptr_from(e->b, n->type, PTX_SPACE_GENERIC, ptx_ptr_address(e->b, p));
    ptx_val i = ptx_and(e->b, x[1], ptx_u32(7));
    atomic(e, n, p, i, x[2], none);
}

// An addition by compare-and-swap: each thread repeats it until no other interferes.
static void emit_cas(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_builder *b = e->b;
    ptx_ptr p = cells(e, n);
    ptx_val i = ptx_and(b, x[1], ptx_u32(7));
    ptx_val old = ptx_var(b, ptx_load(b, p, i, .order = PTX_ORDER_RELAXED));

    ptx_loop (b) {
        ptx_val sum = ptx_add(b, old, x[0]);
        ptx_val found = ptx_atomic_cas(b, p, i, old, sum);
        ptx_val done = ptx_eq(b, found, old);
        ptx_set(b, old, found);
        ptx_break_if(b, done);
    }
}

// The threads at one position in both blocks store a word each. The later one finds the other's
// word, and writes a result that does not depend on the order.
static void emit_meeting(struct emitter *e, const struct node *n, ptx_val x)
{
    ptx_builder *b = e->b;
    const ptx_order order = n->a & 1 ? PTX_ORDER_SEQ_CST : PTX_ORDER_ACQ_REL;
    const ptx_scope scope = n->a & 2 ? PTX_SCOPE_SYSTEM : PTX_SCOPE_GPU;
    ptx_ptr words = program_words(e, PROGRAM_MEETING, e->tid, 4, PTX_U64);
    ptx_ptr flags = ptx_ptr_cast(b, PTX_U32, ptx_at(b, words, ptx_u32(2)));
    ptx_val block = ptx_ctaid(b, PTX_X);

    ptx_store(b, ptx_ptr_cast(b, (ptx_type)x.type, ptx_at(b, words, block)), ptx_u32(0), x);
    ptx_fence(b, order, scope);
    ptx_val mine = ptx_shl(b, ptx_u32(1), block);
    ptx_val before = ptx_atomic_or(b, flags, ptx_u32(0), mine);
    ptx_fence(b, order, scope);
    ptx_val both = ptx_or(b, before, mine);
    both = ptx_and(b, both, ptx_u32(3));
    ptx_if (b, ptx_eq(b, both, ptx_u32(3))) {
        ptx_val first = ptx_load(b, words, ptx_u32(0));
        ptx_val second = ptx_load(b, words, ptx_u32(1));
        ptx_store(b, words, ptx_u32(3), ptx_add(b, first, second));
    }
}

ptx_val program_emit_memory(struct emitter *e, const struct node *n, const ptx_val *x)
{
    switch (n->kind) {
    case NODE_LOAD:
        return emit_load(e, n, x[4]);
    case NODE_LOCAL:
        return emit_local(e, n, x);
    case NODE_ACCESS:
        return emit_access(e, n, x);
    case NODE_ATOMIC_OWN:
        return emit_atomic_own(e, n, x);
    case NODE_ATOMIC:
        emit_atomic(e, n, x);
        return x[0];
    case NODE_CAS:
        emit_cas(e, n, x);
        return x[0];
    default:
        emit_meeting(e, n, x[0]);
        return x[0];
    }
}

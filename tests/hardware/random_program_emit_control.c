// SPDX-License-Identifier: MIT
#include "random_program_emit.h"

static void emit_body(struct emitter *e, const struct node *n, unsigned k, ptx_val var)
{
    program_emit_range(e, n->begin[k], n->end[k]);
    ptx_set(e->b, var, program_operand(e, &n->result[k]));
}

static ptx_val emit_count(struct emitter *e, const struct node *n)
{
    ptx_val count = program_operand(e, &n->x[1]);
    return n->by == BY_BLOCK ? count : ptx_and(e->b, count, ptx_u32(3));
}

// A turn of a loop that counts, with its counter.
static void emit_turn(struct emitter *e, const struct node *n, ptx_val i, ptx_val var)
{
    e->index[n - e->p->node] = i;
    if (n->x[2].source) {
        program_emit_range(e, n->begin[0], n->end[0]);
        ptx_continue_if(e->b, program_operand(e, &n->x[2]));
        ptx_set(e->b, var, program_operand(e, &n->result[0]));
    } else {
        emit_body(e, n, 0, var);
    }
}

static void emit_loops(struct emitter *e, const struct node *n, ptx_val var)
{
    ptx_builder *b = e->b;
    ptx_val count = emit_count(e, n);

    if (n->kind == NODE_FOR) {
        ptx_for (b, i, ptx_u32(n->b & 1), count, ptx_u32(1 + (n->b >> 1 & 1)))
            emit_turn(e, n, i, var);
        return;
    }
    if (n->kind == NODE_DOWN) {
        ptx_for_down (b, i, count, ptx_u32(n->b & 1), ptx_u32(1 + (n->b >> 1) % 3))
            emit_turn(e, n, i, var);
        return;
    }
    if (n->kind == NODE_STRIDE) {
        count = ptx_and(b, program_operand(e, &n->x[1]), ptx_u32(2 * PROGRAM_THREADS - 1));
        ptx_grid_stride (b, i, count)
            emit_turn(e, n, i, var);
        return;
    }
    ptx_val turn = ptx_var(b, ptx_u32(0));
    if (n->kind == NODE_WHILE) {
        ptx_while (b, ptx_lt(b, turn, count)) {
            emit_body(e, n, 0, var);
            ptx_set(b, turn, ptx_add(b, turn, ptx_u32(1)));
        }
        return;
    }
    ptx_loop (b) {
        ptx_break_if(b, ptx_ge(b, turn, count));
        emit_body(e, n, 0, var);
        if (n->by == BY_THREAD)
            ptx_break_if(b, program_operand(e, &n->x[2]));
        ptx_set(b, turn, ptx_add(b, turn, ptx_u32(1)));
    }
}

// The warps with even or with odd numbers, or of one half of the block.
static ptx_val is_of_warps(struct emitter *e, uint32_t bits)
{
    ptx_val part = ptx_and(e->b, e->tid, ptx_u32(bits & 1 ? 32 : 128));
    return ptx_eq(e->b, part, ptx_u32(bits & 2 && bits & 1 ? 32 : 0));
}

static ptx_val emit_condition(struct emitter *e, const struct node *n)
{
    if (n->by == BY_BLOCK)
        return ptx_eq(e->b, ptx_ctaid(e->b, PTX_X), ptx_u32(n->b & 1));
    return n->by == BY_WARP ? is_of_warps(e, n->b) : program_operand(e, &n->x[1]);
}

static void emit_if(struct emitter *e, const struct node *n, ptx_val var)
{
    ptx_builder *b = e->b;
    const ptx_val before = e->lanes;
    ptx_val others = before, condition = emit_condition(e, n);

    if (n->by == BY_LANES) {
        e->lanes = ptx_ballot(b, condition, before);
        others = ptx_xor(b, before, e->lanes);
    }
    ptx_if (b, condition) {
        emit_body(e, n, 0, var);
    }
    e->lanes = others;
    if (n->begin[1] != n->end[1])
        ptx_else (b) {
            emit_body(e, n, 1, var);
        }
    e->lanes = before;
}

static void emit_else_if(struct emitter *e, const struct node *n, ptx_val var)
{
    ptx_builder *b = e->b;
    const bool block = n->by == BY_BLOCK;

    ptx_if (b, emit_condition(e, n)) {
        emit_body(e, n, 0, var);
    }
    ptx_else_if (b, block ? ptx_lt(b, ptx_ctaid(b, PTX_X), 1) : program_operand(e, &n->x[2])) {
        if (n->begin[1] != n->end[1])
            emit_body(e, n, 1, var);
    }
    ptx_else (b) {
        ptx_set(b, var, program_operand(e, &n->x[3]));
    }
}

static void emit_jump_back(struct emitter *e, const struct node *n, ptx_val var)
{
    ptx_builder *b = e->b;
    ptx_label head = ptx_label_create(b, "again");
    ptx_val count = emit_count(e, n), turn = ptx_var(b, ptx_u32(0));

    ptx_label_place(b, head);
    emit_body(e, n, 0, var);
    ptx_set(b, turn, ptx_add(b, turn, ptx_u32(1)));
    ptx_branch_if(b, ptx_lt(b, turn, count), head);
}

static void emit_jump(struct emitter *e, const struct node *n, ptx_val var)
{
    ptx_builder *b = e->b;

    if (n->a % 4 == JUMP_BACK) {
        emit_jump_back(e, n, var);
        return;
    }
    const ptx_label end = ptx_label_create(b, "past"), middle = ptx_label_create(b, "middle");
    ptx_val first = program_operand(e, &n->x[1]), second = program_operand(e, &n->x[2]);
    const bool two = n->begin[1] != n->end[1];

    if (n->a % 4 == JUMP_OUT) {
        ptx_if (b, first) {
            emit_body(e, n, 0, var);
            ptx_branch_if(b, second, end);
        }
    } else {
        ptx_branch_if(b, first, n->a % 4 == JUMP_OVER ? end : middle);
        emit_body(e, n, 0, var);
        if (n->a % 4 == JUMP_CROSS)
            ptx_branch_if(b, second, end);
    }
    if (n->a % 4 == JUMP_CROSS)
        ptx_label_place(b, middle);
    if (two)
        emit_body(e, n, 1, var);
    ptx_label_place(b, end);
}

void program_emit_control(struct emitter *e, const struct node *n)
{
    ptx_val var = ptx_var(e->b, program_operand(e, &n->x[0]));

    e->value[n - e->p->node] = var;
    if (n->kind == NODE_IF)
        emit_if(e, n, var);
    else if (n->kind == NODE_ELSE_IF)
        emit_else_if(e, n, var);
    else if (n->kind == NODE_JUMP)
        emit_jump(e, n, var);
    else
        emit_loops(e, n, var);
}

// Returns at most a quarter of the lanes, or the warps of one half, or one block.
void program_emit_return(struct emitter *e, const struct node *n, ptx_val condition)
{
    ptx_builder *b = e->b;

    if (n->by == BY_BLOCK) {
        ptx_return_if(b, ptx_eq(b, ptx_ctaid(b, PTX_X), ptx_u32(n->b & 1)));
        return;
    }
    if (n->by == BY_WARP) {
        ptx_return_if(b, is_of_warps(e, n->b));
        return;
    }
    ptx_val place = ptx_mad(b, e->tid, ptx_u32(n->a | 1), ptx_u32(n->b));
    place = ptx_and(b, place, ptx_u32(3));
    ptx_val here = ptx_eq(b, place, ptx_u32(0));
    ptx_val ends = ptx_and(b, condition, here);
    ptx_val left = ptx_not(b, ends);
    ptx_set(b, e->lanes, ptx_ballot(b, left, e->lanes));
    ptx_return_if(b, ends);
}

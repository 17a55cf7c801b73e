// SPDX-License-Identifier: MIT
// Loops, and how the next iteration begins.
#include "internal.h"

struct range {
    ptx_val lo, hi, step;
};

static bool range_ok(ptx_builder *b, const char *call, const struct range *r)
{
    const ptx_type type = (ptx_type)r->lo.type;

    if (!ptxb_ready(b, call) || !ptxb_usable(b, call, "lo", r->lo) ||
        !ptxb_usable(b, call, "hi", r->hi) || !ptxb_usable(b, call, "step", r->step))
        return false;
    if (type != r->hi.type || type != r->step.type ||
        !((PTX_TYPES_I32 | PTX_TYPES_I64) >> type & 1)) {
        ptxb_fail(
            b, call,
            "lo, hi and step are %s, %s and %s; they must have one type: u32, s32, u64 or s64",
            ptx_type_name(type), ptx_type_name((ptx_type)r->hi.type),
            ptx_type_name((ptx_type)r->step.type));
        return false;
    }
    const uint64_t sign = type == PTX_S32   ? UINT64_C(1) << 31
                          : type == PTX_S64 ? UINT64_C(1) << 63
                                            : 0;
    if (r->step.kind == PTX_KIND_IMMEDIATE && (!r->step.bits || (r->step.bits & sign))) {
        ptxb_fail(b, call, "the step must be above zero, or the loop never ends");
        return false;
    }
    return true;
}

// Gives numbers the type of the others, or without others that of C's int, and checks all three.
static bool take_range(ptx_builder *b, const char *call, struct range *r)
{
    const ptx_val typed = r->lo.kind != PTX_KIND_NUMBER   ? r->lo
                          : r->hi.kind != PTX_KIND_NUMBER ? r->hi
                                                          : r->step;

    const ptx_type type = typed.kind == PTX_KIND_NUMBER ? PTX_S32 : (ptx_type)typed.type;

    r->lo = ptxb_typed(b, call, "lo", r->lo, type);
    r->hi = ptxb_typed(b, call, "hi", r->hi, type);
    r->step = ptxb_typed(b, call, "step", r->step, type);
    return range_ok(b, call, r);
}

// A bound that the body cannot change.
static ptx_val fixed(ptx_builder *b, ptx_val x)
{
    return x.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, x) : x;
}

// Unsigned, of the same width.
static ptx_val as_unsigned(ptx_builder *b, ptx_val x)
{
    return ptx_bitcast(b, ptxb_bits((ptx_type)x.type) == 64 ? PTX_U64 : PTX_U32, x);
}

// Opens the block of a loop that is not entered if `none` holds. False after an error.
static bool open_for(ptx_builder *b, const char *call, ptx_val none, struct block *block)
{
    if (b->failed)
        return false;
    const uint32_t number = ++ptxb_entry(b)->labels;
    block->head = ptxb_new_label(b, "for", number, "");
    block->end = ptxb_new_label(b, "for", number, "_end");
    const uint32_t guard = ptxb_condition(b, call, none);
    if (!guard || !block->end)
        return false;
    ptxb_branch(b, guard, false, block->end);
    return ptxb_open_block(b, *block) != 0;
}

ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    const ptx_val failed = { .kind = PTX_KIND_REGISTER, .type = lo.type };
    struct range r = { lo, hi, step };

    if (!b || b->failed || !take_range(b, "for", &r)) {
        ptxb_not_opened(b);
        return failed;
    }
    ptx_val i = ptxb_mov(b, r.lo);
    struct block block = { .kind = BLOCK_FOR, .i = i };
    block.limit = fixed(b, r.hi);
    block.step = fixed(b, r.step);
    ptx_val none = ptx_ge(b, i, block.limit);
    if (b->failed)
        return failed;
    b->regs.at[i.reg].variable = true;
    if (!open_for(b, "for", none, &block))
        return failed;
    // After the loop it is not C's value: the loop ends before the counter would pass the limit.
    b->regs.at[i.reg].where = b->blocks.at[b->blocks.count - 1].id & MOST_INDEX;
    ptxb_place_label(b, block.head);
    return i;
}

// The greatest lo + k * step below hi, where hi is above lo. Nothing wraps.
static ptx_val last_of(ptx_builder *b, const struct range *r)
{
    const ptx_type type = (ptx_type)r->lo.type;
    const bool known = r->step.kind == PTX_KIND_IMMEDIATE;
    ptx_val top = ptx_sub(b, r->hi, ptx_imm_bits(type, 1));

    if (known && r->step.bits == 1)
        return top;
    const bool from_zero = r->lo.kind == PTX_KIND_IMMEDIATE && !r->lo.bits;
    ptx_val span = as_unsigned(b, from_zero ? top : ptx_sub(b, top, r->lo));
    ptx_val step = as_unsigned(b, r->step);
    ptx_val beyond = known && !(step.bits & (step.bits - 1))
                         ? ptx_and(b, span, ptx_imm_bits((ptx_type)span.type, step.bits - 1))
                         : ptx_rem(b, span, step);
    return ptx_sub(b, top, ptx_bitcast(b, type, beyond));
}

ptx_val ptx_for_down_begin(ptx_builder *b, ptx_val hi, ptx_val lo, ptx_val step)
{
    const ptx_val failed = { .kind = PTX_KIND_REGISTER, .type = lo.type };
    struct range r = { lo, hi, step };

    if (!b || b->failed || !take_range(b, "for_down", &r)) {
        ptxb_not_opened(b);
        return failed;
    }
    r.lo = fixed(b, r.lo);
    r.hi = ptxb_in_register(b, r.hi);
    r.step = fixed(b, r.step);
    struct block block = { .kind = BLOCK_FOR, .down = true, .limit = r.lo, .step = r.step };
    if (!open_for(b, "for_down", ptx_le(b, r.hi, r.lo), &block))
        return failed;
    ptx_val i = last_of(b, &r);
    if (b->failed)
        return failed;
    b->regs.at[i.reg].variable = true;
    b->blocks.at[b->blocks.count - 1].i = i;
    ptxb_place_label(b, block.head);
    return i;
}

// Whether `i` is the last value of a loop. i + step may wrap near the maximum of the type; hi - i
// as an unsigned number cannot. A loop that counts down ends at lo exactly.
static ptx_val is_last(ptx_builder *b, const struct block *block)
{
    if (block->down)
        return ptx_eq(b, block->i, block->limit);
    const ptx_val step = block->step;
    ptx_val left = ptx_sub(b, block->limit, block->i);
    if (!b->failed)
        ptxb_newest(b)->positive = 1;
    ptx_val unsigned_left = as_unsigned(b, left);
    return ptx_le(b, unsigned_left, as_unsigned(b, step));
}

// Closes the innermost block, a for, after the test and the step to the next value.
static void end_for(ptx_builder *b, const char *call)
{
    struct block block = b->blocks.at[b->blocks.count - 1];

    b->open.at[block.id] = false; // what is of the loop alone does not count
    const bool has_effect = ptxb_check_effect(b, call, &block, block.first);
    b->open.at[block.id] = true;
    if (!has_effect)
        return;
    if (block.next)
        ptxb_place_label(b, block.next);
    uint32_t guard = ptxb_condition(b, call, is_last(b, &block));
    if (!guard)
        return;
    ptxb_branch(b, guard, false, block.end);
    ptx_val next = block.down ? ptx_sub(b, block.i, block.step) : ptx_add(b, block.i, block.step);
    block.i.kind = PTX_KIND_VARIABLE;
    if (!b->failed)
        ptxb_assign(b, block.i, next);
    ptxb_branch(b, 0, false, block.head);
    if (ptxb_close_block(b, call, block.id, 1u << BLOCK_FOR, &block))
        ptxb_place_label(b, block.end);
}

static ptx_val close_for(ptx_builder *b, const char *call, ptx_val i, bool down)
{
    const ptx_val done = { 0 };
    struct block block;
    uint32_t id = 0;

    ptxb_recover(b);
    if (!b || b->failed || (b->adrift && !i.reg))
        return done;
    for (uint32_t k = 0; k < b->blocks.count; k++) {
        const struct block *open = &b->blocks.at[k];
        if (open->kind == BLOCK_FOR && open->down == down && open->i.reg == i.reg)
            id = open->id;
    }
    if (id && b->blocks.at[b->blocks.count - 1].id == id)
        end_for(b, call);
    else
        ptxb_close_block(b, call, id, 1u << BLOCK_FOR, &block);
    return done;
}

ptx_val ptx_for_end(ptx_builder *b, ptx_val i)
{
    return close_for(b, "for", i, false);
}

ptx_val ptx_for_down_end(ptx_builder *b, ptx_val i)
{
    return close_for(b, "for_down", i, true);
}

static int loop_begin(ptx_builder *b, const char *call, bool is_while)
{
    if (!ptxb_ready(b, call))
        return ptxb_not_opened(b);
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_LOOP, .is_while = is_while };
    block.head = ptxb_new_label(b, "loop", number, "");
    block.end = ptxb_new_label(b, "loop", number, "_end");
    const int id = ptxb_opened(b, block);
    ptxb_place_label(b, block.head);
    return id;
}

int ptx_loop_begin(ptx_builder *b)
{
    return loop_begin(b, "loop", false);
}

int ptx_while_begin(ptx_builder *b)
{
    return loop_begin(b, "while", true);
}

bool ptx_while_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "while", cond);
    if (!guard)
        return true;
    const struct block *top = &b->blocks.at[b->blocks.count - 1];
    if (top->kind == BLOCK_LOOP)
        ptxb_branch(b, guard, true, top->end);
    else if (!b->adrift || !ptxb_follows(b))
        ptxb_fail(b, "while", "the innermost block is not a loop; ptx_while_begin() opens one");
    return true;
}

static int loop_end(ptx_builder *b, const char *call, int id)
{
    struct block block;

    ptxb_recover(b);
    if (!b || b->failed || id == NOT_OPENED)
        return 0;
    const struct block *top = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    if (top && top->id == (uint32_t)id && top->kind == BLOCK_LOOP)
        ptxb_branch(b, 0, false, top->head);
    if (ptxb_close_block(b, call, (uint32_t)id, 1u << BLOCK_LOOP, &block))
        ptxb_place_label(b, block.end);
    return 0;
}

int ptx_loop_end(ptx_builder *b, int id)
{
    return loop_end(b, "loop", id);
}

int ptx_while_end(ptx_builder *b, int id)
{
    return loop_end(b, "while", id);
}

// NULL outside of loops.
static struct block *innermost_loop(ptx_builder *b)
{
    for (uint32_t k = b->blocks.count; k-- > 0;) {
        struct block *block = &b->blocks.at[k];
        if (block->kind == BLOCK_FOR || block->kind == BLOCK_LOOP)
            return block;
    }
    return NULL;
}

static void leave_loop(ptx_builder *b, const char *call, uint32_t guard)
{
    const struct block *loop = innermost_loop(b);
    if (loop)
        ptxb_branch(b, guard, false, loop->end);
    else if (!b->adrift || !ptxb_follows(b))
        ptxb_fail(b, call, "there is no loop to leave");
}

void ptx_break(ptx_builder *b)
{
    if (ptxb_ready(b, "break"))
        leave_loop(b, "break", 0);
}

void ptx_break_if(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "break_if", cond);
    if (guard)
        leave_loop(b, "break_if", guard);
}

// The next iteration: the increment of a for, the head of another loop.
static void continue_loop(ptx_builder *b, const char *call, uint32_t guard)
{
    struct block *loop = innermost_loop(b);
    if (!loop && b->adrift && ptxb_follows(b))
        return;
    if (!loop) {
        ptxb_fail(b, call, "there is no loop to continue");
        return;
    }
    if (loop->kind == BLOCK_FOR && !loop->next)
        loop->next = ptxb_new_label(b, "for", b->labels.at[loop->head - 1].number, "_next");
    const uint32_t to = loop->kind == BLOCK_FOR ? loop->next : loop->head;
    if (to)
        ptxb_branch(b, guard, false, to);
}

void ptx_continue(ptx_builder *b)
{
    if (ptxb_ready(b, "continue"))
        continue_loop(b, "continue", 0);
}

void ptx_continue_if(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "continue_if", cond);
    if (guard)
        continue_loop(b, "continue_if", guard);
}

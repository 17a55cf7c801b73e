// SPDX-License-Identifier: MIT
// Structured blocks: conditions and loops.
#include "internal.h"

struct block *ptxb_open_block(ptx_builder *b, struct block block)
{
    if (b->failed || !ROOM_FOR(b, b->blocks, 1) || !ROOM_FOR(b, b->open, 1))
        return NULL;
    block.id = b->open.count;
    block.first = b->code[0].insns;
    b->open.at[b->open.count++] = true;
    b->blocks.at[b->blocks.count++] = block;
    return &b->blocks.at[b->blocks.count - 1];
}

// The block that an end closes, which must be the innermost and of one of the `kinds`.
static bool close_block(ptx_builder *b, const char *call, uint32_t id, unsigned kinds,
                        struct block *closed)
{
    if (!b || b->failed)
        return false;
    const struct block *top = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    if (top && top->id == id && kinds >> top->kind & 1) {
        *closed = *top;
        b->open.at[id] = false;
        b->blocks.count--;
        return true;
    }
    bool inside = false;
    for (uint32_t k = 0; k < b->blocks.count; k++)
        inside |= b->blocks.at[k].id == id && kinds >> b->blocks.at[k].kind & 1;
    ptxb_fail(b, call,
              inside ? "a block inside this one was never closed: a C break, return or goto "
                       "left it (use ptx_break_if or ptx_return_if)"
                     : "this block is not open: it was closed before, or blocks cross");
    return false;
}

int ptx_if_begin(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "if", cond);
    if (!guard)
        return 1;
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_IF, .end = ptxb_label(b, "if", number, "_end") };
    ptxb_branch(b, guard, true, block.end);
    struct block *opened = ptxb_open_block(b, block);
    return opened ? (int)opened->id : 1;
}

int ptx_if_end(ptx_builder *b, int id)
{
    struct block block;

    if (!close_block(b, "if", (uint32_t)id, 1u << BLOCK_IF | 1u << BLOCK_ELSE, &block))
        return 0;
    ptxb_place(b, block.end);
    if (!b->failed && block.kind == BLOCK_IF) {
        b->closed_if = b->code[0].last;
        b->closed_block = block;
    }
    return 0;
}

int ptx_else_end(ptx_builder *b, int id)
{
    return ptx_if_end(b, id);
}

int ptx_else_begin(ptx_builder *b)
{
    if (!ptxb_ready(b, "else"))
        return 1;
    if (b->closed_if == NO_INDEX) {
        ptxb_fail(b, "else", "it must directly follow the block of a ptx_if");
        return 1;
    }
    // The label that ended the if becomes the jump over the else, whose own label follows.
    const uint32_t otherwise = b->closed_block.end;
    const uint32_t end = ptxb_label(b, "if", b->labels.at[otherwise - 1].number, "_end");
    const uint32_t bra = ptxb_opcode(b, "bra");
    if (!end || !bra)
        return 1;
    struct insn *jump = ptxb_insn(&b->code[0], b->closed_if);
    jump->kind = INSN_BRANCH;
    jump->opcode = bra & MOST_INDEX;
    jump->operands[0].value = end;
    if (jump->depth < MOST_DEPTH)
        jump->depth++;
    b->labels.at[end - 1].uses++;
    b->labels.at[otherwise - 1].part = "_else";
    ptxb_place(b, otherwise);
    struct block *opened = ptxb_open_block(b, (struct block) { .kind = BLOCK_ELSE, .end = end });
    return opened ? (int)opened->id : 1;
}

static bool range_ok(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    if (!ptxb_ready(b, "for") || !ptxb_usable(b, "for", "lo", lo) ||
        !ptxb_usable(b, "for", "hi", hi) || !ptxb_usable(b, "for", "step", step))
        return false;
    if (lo.type != hi.type || lo.type != step.type ||
        !((PTX_TYPES_I32 | PTX_TYPES_I64) >> lo.type & 1)) {
        ptxb_fail(
            b, "for",
            "lo, hi and step are %s, %s and %s; they must have one type: u32, s32, u64 or s64",
            ptx_type_name((ptx_type)lo.type), ptx_type_name((ptx_type)hi.type),
            ptx_type_name((ptx_type)step.type));
        return false;
    }
    const uint64_t sign = lo.type == PTX_S32   ? UINT64_C(1) << 31
                          : lo.type == PTX_S64 ? UINT64_C(1) << 63
                                               : 0;
    if (step.kind == PTX_KIND_IMMEDIATE && (!step.bits || (step.bits & sign))) {
        ptxb_fail(b, "for", "the step must be above zero, or the loop never ends");
        return false;
    }
    return true;
}

ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    const ptx_val failed = { .kind = PTX_KIND_REGISTER, .type = lo.type };

    if (!b || b->failed || !range_ok(b, lo, hi, step))
        return failed;
    ptx_val i = ptxb_mov(b, lo);
    // The bounds are what they are here, whatever the body sets.
    hi = hi.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, hi) : hi;
    step = step.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, step) : step;
    ptx_val none = ptx_ge(b, i, hi);
    if (b->failed)
        return failed;
    b->regs.at[i.reg].variable = true;
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_FOR, .i = i, .hi = hi, .step = step };
    block.head = ptxb_label(b, "for", number, "");
    block.end = ptxb_label(b, "for", number, "_end");
    uint32_t guard = ptxb_condition(b, "for", none);
    if (!guard || !block.end)
        return failed;
    ptxb_branch(b, guard, false, block.end);
    if (!ptxb_open_block(b, block))
        return failed;
    ptxb_place(b, block.head);
    return i;
}

ptx_val ptx_for_end(ptx_builder *b, ptx_val i)
{
    const ptx_val done = { 0 };
    struct block block;

    if (!b || b->failed)
        return done;
    const struct block *top = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    const bool own = top && top->kind == BLOCK_FOR && top->i.reg == i.reg;
    uint32_t id = own ? top->id : 0;
    for (uint32_t k = 0; !own && k < b->blocks.count; k++)
        if (b->blocks.at[k].kind == BLOCK_FOR && b->blocks.at[k].i.reg == i.reg)
            id = b->blocks.at[k].id;
    if (!own) {
        close_block(b, "for", id, 1u << BLOCK_FOR, &block);
        return done;
    }
    // i + step may wrap near the type's end; hi - i, seen as unsigned, cannot.
    const ptx_type counter = ptxb_bits((ptx_type)i.type) == 64 ? PTX_U64 : PTX_U32;
    ptx_val left = ptx_sub(b, top->hi, i);
    if (!b->failed)
        ptxb_newest(b)->positive = 1;
    ptx_val unsigned_left = ptx_bitcast(b, counter, left);
    ptx_val step = top->step;
    ptx_val unsigned_step = ptx_bitcast(b, counter, step);
    ptx_val last = ptx_le(b, unsigned_left, unsigned_step);
    uint32_t guard = ptxb_condition(b, "for", last);
    if (!guard)
        return done;
    top = &b->blocks.at[b->blocks.count - 1];
    ptxb_branch(b, guard, false, top->end);
    ptx_val next = ptx_add(b, i, step);
    i.kind = PTX_KIND_VARIABLE;
    if (!b->failed)
        ptxb_assign(b, i, next);
    ptxb_branch(b, 0, false, top->head);
    if (!close_block(b, "for", top->id, 1u << BLOCK_FOR, &block))
        return done;
    ptxb_place(b, block.end);
    return done;
}

int ptx_loop_begin(ptx_builder *b)
{
    if (!ptxb_ready(b, "loop"))
        return 1;
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_LOOP };
    block.head = ptxb_label(b, "loop", number, "");
    block.end = ptxb_label(b, "loop", number, "_end");
    struct block *opened = ptxb_open_block(b, block);
    if (!opened)
        return 1;
    const int id = (int)opened->id;
    ptxb_place(b, block.head);
    return id;
}

bool ptx_while_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "while", cond);
    if (!guard)
        return true;
    const struct block *top = &b->blocks.at[b->blocks.count - 1];
    if (top->kind == BLOCK_LOOP)
        ptxb_branch(b, guard, true, top->end);
    else
        ptxb_fail(b, "while", "the innermost block is not a loop; ptx_while_begin() opens one");
    return true;
}

int ptx_loop_end(ptx_builder *b, int id)
{
    struct block block;

    if (!b || b->failed)
        return 0;
    const struct block *top = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    if (top && top->id == (uint32_t)id && top->kind == BLOCK_LOOP)
        ptxb_branch(b, 0, false, top->head);
    if (close_block(b, "loop", (uint32_t)id, 1u << BLOCK_LOOP, &block))
        ptxb_place(b, block.end);
    return 0;
}

int ptx_while_begin(ptx_builder *b)
{
    return ptx_loop_begin(b);
}

int ptx_while_end(ptx_builder *b, int id)
{
    return ptx_loop_end(b, id);
}

static void leave_loop(ptx_builder *b, const char *call, uint32_t guard)
{
    for (uint32_t k = b->blocks.count; k-- > 0;) {
        const struct block *block = &b->blocks.at[k];
        if (block->kind == BLOCK_FOR || block->kind == BLOCK_LOOP) {
            ptxb_branch(b, guard, false, block->end);
            return;
        }
    }
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

void ptxb_guard(ptx_builder *b, struct insn *insn, uint32_t guard, bool negated)
{
    insn->guarded = 1;
    insn->negated = negated;
    insn->operands[0] = (struct operand) { .id = guard & MOST_INDEX, .kind = OPERAND_REGISTER };
    ptxb_use(b, guard);
}

void ptxb_return(ptx_builder *b, uint32_t guard)
{
    const uint32_t opcode = ptxb_opcode(b, "ret");
    struct insn *insn = opcode ? ptxb_append(b, INSN_RETURN, opcode, 0, guard != 0) : NULL;

    if (insn && guard)
        ptxb_guard(b, insn, guard, false);
    if (insn)
        ptxb_entry(b)->returns = true;
}

void ptx_return(ptx_builder *b)
{
    if (ptxb_ready(b, "return"))
        ptxb_return(b, 0);
}

void ptx_return_if(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "return_if", cond);
    if (guard)
        ptxb_return(b, guard);
}

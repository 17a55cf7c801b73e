// SPDX-License-Identifier: MIT
// Structured blocks, labels and branches; how a thread waits or ends.
#include "internal.h"

#include <stdio.h>

// ---- labels and branches ------------------------------------------------------------------------

static uint32_t new_label(ptx_builder *b, const char *name, uint32_t number, const char *part)
{
    if (b->failed || !ROOM_FOR(b, b->labels, 1))
        return 0;
    ptxb_note_name(b, name);
    b->labels.at[b->labels.count++] = (struct label) {
        .name = name,
        .part = part,
        .number = number,
        .entry = (uint16_t)(b->entries.count - 1),
    };
    return b->labels.count;
}

static void place(ptx_builder *b, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_LABEL, 0, 0, 1);
    if (!insn)
        return;
    struct label *placed = &b->labels.at[label - 1];
    ptxb_label_operand(b, insn, 0, label);
    placed->placed = true;
    placed->index = b->code[0].insns.count - 1;
    placed->block = b->blocks.at[b->blocks.count - 1].id;
}

// Predicates the instruction, which has room for the predicate as its first operand.
static void set_guard(ptx_builder *b, struct insn *insn, uint32_t guard, bool negated)
{
    insn->guarded = 1;
    insn->negated = negated;
    b->regs.at[guard].decides = 1;
    ptxb_source(b, insn, 0, (ptx_val) { .reg = guard, .kind = PTX_KIND_REGISTER });
}

static void branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_BRANCH, ptxb_opcode(b, "bra"), 0, guard ? 2 : 1);
    if (!insn)
        return;
    struct label *to = &b->labels.at[label - 1];
    if (guard)
        set_guard(b, insn, guard, negated);
    ptxb_label_operand(b, insn, guard != 0, label);
    if (!to->uses++)
        to->first_use = b->code[0].insns.count - 1;
}

void ptxb_label_text(const struct label *label, char out[96])
{
    snprintf(out, 96, "$%.64s_%u%s", label->name, label->number, label->part);
}

// ---- blocks -------------------------------------------------------------------------------------

uint32_t ptxb_open_block(ptx_builder *b, struct block block)
{
    if (b->failed || !ROOM_FOR(b, b->blocks, 1) || !ROOM_FOR(b, b->open, 1))
        return 0;
    block.id = b->open.count;
    block.place = b->place;
    block.first = b->code[0].insns.count;
    b->open.at[b->open.count++] = true;
    b->blocks.at[b->blocks.count++] = block;
    return block.id;
}

// The return value of a begin function: the body is always entered once, also after an error.
static int opened(ptx_builder *b, struct block block)
{
    const uint32_t id = ptxb_open_block(b, block);
    return id ? (int)id : 1;
}

// The block to close: the innermost one, which must be of one of `kinds`.
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
    ptxb_fail_place(b, inside && top->place ? top->place : b->place, call, "%s",
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
    struct block block = { .kind = BLOCK_IF, .end = new_label(b, "if", number, "_end") };
    block.test = b->code[0].insns.count;
    branch(b, guard, true, block.end);
    return opened(b, block);
}

uint32_t ptxb_unless_begin(ptx_builder *b, uint32_t guard, const char *name)
{
    struct block block = { .kind = BLOCK_IF, .test = b->code[0].insns.count };

    block.end = new_label(b, name, ++ptxb_entry(b)->labels, "_end");
    if (!block.end)
        return 0;
    branch(b, guard, false, block.end);
    return ptxb_open_block(b, block);
}

// Closes an if, an else or an else-if; all of a chain end at one label.
static int end_branch(ptx_builder *b, const char *call, int id, unsigned kinds)
{
    struct block block;

    if (!close_block(b, call, (uint32_t)id, kinds, &block))
        return 0;
    place(b, block.end);
    if (!b->failed && block.kind != BLOCK_ELSE) {
        b->closed_if = b->code[0].insns.count - 1;
        b->closed_block = block;
    }
    return 0;
}

int ptx_if_end(ptx_builder *b, int id)
{
    return end_branch(b, "if", id, 1u << BLOCK_IF | 1u << BLOCK_ELSE);
}

int ptx_else_end(ptx_builder *b, int id)
{
    return ptx_if_end(b, id);
}

// Makes the label at the end of the if just closed a jump over what follows, and sends the if's
// branch here. Returns the label at the end of the chain, 0 after an error.
static uint32_t begin_else(ptx_builder *b, const char *call)
{
    if (!ptxb_ready(b, call))
        return 0;
    if (b->closed_if == NO_INDEX) {
        ptxb_fail(b, call, "it must directly follow the block of a ptx_if or ptx_else_if");
        return 0;
    }
    const uint32_t end = b->closed_block.end, test = b->closed_block.test;
    const uint32_t closed_if = b->closed_if;
    const uint32_t number =
        b->closed_block.kind == BLOCK_IF ? b->labels.at[end - 1].number : ++ptxb_entry(b)->labels;
    const uint32_t otherwise = new_label(b, "if", number, "_else");
    const uint32_t bra = ptxb_opcode(b, "bra");
    if (!otherwise || !bra)
        return 0;
    struct insn *jump = &b->code[0].insns.at[closed_if], *branch = &b->code[0].insns.at[test];
    jump->kind = INSN_BRANCH;
    jump->opcode = bra & MOST_INDEX;
    if (jump->depth < MOST_DEPTH)
        jump->depth++;
    ptxb_label_operand(b, branch, 1, otherwise);
    b->labels.at[otherwise - 1].uses = 1;
    b->labels.at[otherwise - 1].first_use = test;
    place(b, otherwise);
    return end;
}

int ptx_else_begin(ptx_builder *b)
{
    const uint32_t end = begin_else(b, "else");
    return end ? opened(b, (struct block) { .kind = BLOCK_ELSE, .end = end }) : 1;
}

int ptx_else_if_begin(ptx_builder *b)
{
    const uint32_t end = begin_else(b, "else_if");
    return end ? opened(b, (struct block) { .kind = BLOCK_ELSE_IF, .end = end }) : 1;
}

bool ptx_else_if_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "else_if", cond);
    if (!guard)
        return true;
    struct block *top = &b->blocks.at[b->blocks.count - 1];
    if (top->kind != BLOCK_ELSE_IF || top->test) {
        ptxb_fail(b, "else_if", "%s",
                  top->test
                      ? "the block has its condition already"
                      : "the innermost block is not an else-if; ptx_else_if_begin() opens one");
        return true;
    }
    top->test = b->code[0].insns.count;
    branch(b, guard, true, top->end);
    // The condition belongs to the block and stands where that of the ptx_if does.
    for (uint32_t k = top->first; b->blocks.count < MOST_DEPTH && k < b->code[0].insns.count; k++)
        b->code[0].insns.at[k].depth--;
    return true;
}

int ptx_else_if_end(ptx_builder *b, int id)
{
    const struct block *top = b && b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;

    if (top && top->kind == BLOCK_ELSE_IF && top->id == (uint32_t)id && !top->test)
        ptxb_fail(b, "else_if", "the block has no condition; ptx_else_if_test() sets it");
    return end_branch(b, "else_if", id, 1u << BLOCK_ELSE_IF);
}

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

// Gives numbers the type of the others, and checks all three.
static bool take_range(ptx_builder *b, const char *call, struct range *r)
{
    const ptx_val typed = r->lo.kind != PTX_KIND_NUMBER   ? r->lo
                          : r->hi.kind != PTX_KIND_NUMBER ? r->hi
                                                          : r->step;

    if (typed.kind != PTX_KIND_NUMBER) {
        r->lo = ptxb_typed(b, call, "lo", r->lo, (ptx_type)typed.type);
        r->hi = ptxb_typed(b, call, "hi", r->hi, (ptx_type)typed.type);
        r->step = ptxb_typed(b, call, "step", r->step, (ptx_type)typed.type);
    }
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
    block->head = new_label(b, "for", number, "");
    block->end = new_label(b, "for", number, "_end");
    const uint32_t guard = ptxb_condition(b, call, none);
    if (!guard || !block->end)
        return false;
    branch(b, guard, false, block->end);
    return ptxb_open_block(b, *block) != 0;
}

ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    const ptx_val failed = { .kind = PTX_KIND_REGISTER, .type = lo.type };
    struct range r = { lo, hi, step };

    if (!b || b->failed || !take_range(b, "for", &r))
        return failed;
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
    place(b, block.head);
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

    if (!b || b->failed || !take_range(b, "for_down", &r))
        return failed;
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
    place(b, block.head);
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

    if (block.next)
        place(b, block.next);
    uint32_t guard = ptxb_condition(b, call, is_last(b, &block));
    if (!guard)
        return;
    branch(b, guard, false, block.end);
    ptx_val next = block.down ? ptx_sub(b, block.i, block.step) : ptx_add(b, block.i, block.step);
    block.i.kind = PTX_KIND_VARIABLE;
    if (!b->failed)
        ptxb_assign(b, block.i, next);
    branch(b, 0, false, block.head);
    if (close_block(b, call, block.id, 1u << BLOCK_FOR, &block))
        place(b, block.end);
}

static ptx_val close_for(ptx_builder *b, const char *call, ptx_val i, bool down)
{
    const ptx_val done = { 0 };
    struct block block;
    uint32_t id = 0;

    if (!b || b->failed)
        return done;
    for (uint32_t k = 0; k < b->blocks.count; k++) {
        const struct block *open = &b->blocks.at[k];
        if (open->kind == BLOCK_FOR && open->down == down && open->i.reg == i.reg)
            id = open->id;
    }
    if (id && b->blocks.at[b->blocks.count - 1].id == id)
        end_for(b, call);
    else
        close_block(b, call, id, 1u << BLOCK_FOR, &block);
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

int ptx_loop_begin(ptx_builder *b)
{
    if (!ptxb_ready(b, "loop"))
        return 1;
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_LOOP };
    block.head = new_label(b, "loop", number, "");
    block.end = new_label(b, "loop", number, "_end");
    const int id = opened(b, block);
    place(b, block.head);
    return id;
}

bool ptx_while_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "while", cond);
    if (!guard)
        return true;
    const struct block *top = &b->blocks.at[b->blocks.count - 1];
    if (top->kind == BLOCK_LOOP)
        branch(b, guard, true, top->end);
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
        branch(b, 0, false, top->head);
    if (close_block(b, "loop", (uint32_t)id, 1u << BLOCK_LOOP, &block))
        place(b, block.end);
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
            branch(b, guard, false, block->end);
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

// The next iteration: the increment of a for, the head of another loop.
static void continue_loop(ptx_builder *b, const char *call, uint32_t guard)
{
    for (uint32_t k = b->blocks.count; k-- > 0;) {
        struct block *block = &b->blocks.at[k];
        if (block->kind != BLOCK_FOR && block->kind != BLOCK_LOOP)
            continue;
        if (block->kind == BLOCK_FOR && !block->next)
            block->next = new_label(b, "for", b->labels.at[block->head - 1].number, "_next");
        const uint32_t to = block->kind == BLOCK_FOR ? block->next : block->head;
        if (to)
            branch(b, guard, false, to);
        return;
    }
    ptxb_fail(b, call, "there is no loop to continue");
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

void ptxb_return(ptx_builder *b, uint32_t guard)
{
    const uint32_t opcode = ptxb_opcode(b, "ret");
    struct insn *insn = opcode ? ptxb_append(b, INSN_RETURN, opcode, 0, guard != 0) : NULL;

    if (insn && guard)
        set_guard(b, insn, guard, false);
    if (insn)
        ptxb_entry(b)->returns = true;
}

// A function with a result returns a value.
static bool returns_nothing(ptx_builder *b, const char *call)
{
    if (!ptxb_ready(b, call))
        return false;
    const ptx_type result = (ptx_type)ptxb_entry(b)->result;
    if (result == PTX_NONE)
        return true;
    ptxb_fail(b, call, "the function returns %s; ptx_return_value() gives it",
              ptx_type_name(result));
    return false;
}

void ptx_return(ptx_builder *b)
{
    if (returns_nothing(b, "return"))
        ptxb_return(b, 0);
}

void ptx_return_if(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = returns_nothing(b, "return_if") ? ptxb_condition(b, "return_if", cond) : 0;
    if (guard)
        ptxb_return(b, guard);
}

// ---- raw control flow ---------------------------------------------------------------------------

ptx_label ptx_label_create(ptx_builder *b, const char *name)
{
    ptx_label label = { 0 };

    if (!ptxb_ready(b, "label_create"))
        return label;
    for (const char *c = name; c && *c; c++) {
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            *c == '_')
            continue;
        ptxb_fail(b, "label_create", "'%.64s' is not a name: letters, digits and '_'", name);
        return label;
    }
    if (!name)
        name = "label";
    // "$shared_1" and "$local_1" are names of arrays.
    const bool taken = !strcmp(name, "shared") || !strcmp(name, "local");
    const char *own = ptxb_copy(b, name);
    label.id = new_label(b, own, ++ptxb_entry(b)->labels, taken ? "_label" : "");
    label.owner = b->owner;
    if (label.id) {
        b->labels.at[label.id - 1].raw = true;
        ptxb_entry(b)->raw_labels = true;
    }
    return label;
}

static bool raw_ok(ptx_builder *b, const char *call, ptx_label label)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!label.id || label.owner != b->owner || label.id > b->labels.count ||
        !b->labels.at[label.id - 1].raw ||
        b->labels.at[label.id - 1].entry != b->entries.count - 1) {
        ptxb_fail(b, call, "the label is not one of this %s; ptx_label_create() makes one",
                  ptxb_entry_kind(ptxb_entry(b)));
        return false;
    }
    return true;
}

void ptx_label_place(ptx_builder *b, ptx_label label)
{
    char text[96];

    if (!raw_ok(b, "label_place", label))
        return;
    if (b->labels.at[label.id - 1].placed) {
        ptxb_label_text(&b->labels.at[label.id - 1], text);
        ptxb_fail(b, "label_place", "label %s is already placed", text);
        return;
    }
    if (b->labels.at[label.id - 1].uses &&
        b->labels.at[label.id - 1].first_use < b->blocks.at[b->blocks.count - 1].first) {
        ptxb_label_text(&b->labels.at[label.id - 1], text);
        ptxb_fail(b, "label_place",
                  "a branch before this block goes to label %s; branches do not enter blocks",
                  text);
        return;
    }
    place(b, label.id);
}

static bool raw_branch_ok(ptx_builder *b, const char *call, ptx_label label)
{
    char text[96];

    if (!raw_ok(b, call, label))
        return false;
    const struct label *to = &b->labels.at[label.id - 1];
    if (!to->placed || ptxb_is_open(b, to->block))
        return true;
    ptxb_label_text(to, text);
    ptxb_fail(b, call, "label %s stands in a block that is closed; branches do not enter blocks",
              text);
    return false;
}

void ptx_branch(ptx_builder *b, ptx_label label)
{
    if (raw_branch_ok(b, "branch", label))
        branch(b, 0, false, label.id);
}

void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label)
{
    if (!raw_branch_ok(b, "branch_if", label))
        return;
    uint32_t guard = ptxb_condition(b, "branch_if", cond);
    if (guard)
        branch(b, guard, false, label.id);
}

// ---- waiting and ending -------------------------------------------------------------------------

void ptx_trap(ptx_builder *b)
{
    if (ptxb_ready(b, "trap"))
        ptxb_emit_void(b, ptxb_opcode(b, "trap"), 0, NULL);
}

static bool special_ready(ptx_builder *b, ptx_opcode op)
{
    const struct ptx_op_info *info = ptx_op_get_info(op);
    return ptxb_ready(b, info->name) &&
           ptxb_require(b, info->name, info->forms->isa, info->forms->sm, info->forms->text);
}

void ptx_nanosleep(ptx_builder *b, ptx_val nanoseconds)
{
    if (!special_ready(b, PTX_OP_nanosleep))
        return;
    nanoseconds = ptxb_typed(b, "nanosleep", "the time", nanoseconds, PTX_U32);
    if (!ptxb_usable(b, "nanosleep", "the time", nanoseconds))
        return;
    if (nanoseconds.type != PTX_U32) {
        ptxb_fail(b, "nanosleep", "the time is %s; it must be u32",
                  ptx_type_name((ptx_type)nanoseconds.type));
        return;
    }
    ptxb_emit_void(b, ptxb_opcode(b, "nanosleep.u32"), 1, &nanoseconds);
}

void ptx_griddepcontrol_wait(ptx_builder *b)
{
    if (special_ready(b, PTX_OP_griddepcontrol))
        ptxb_emit_void(b, ptxb_opcode(b, "griddepcontrol.wait"), 0, NULL);
}

void ptx_griddepcontrol_launch_dependents(ptx_builder *b)
{
    if (special_ready(b, PTX_OP_griddepcontrol))
        ptxb_emit_void(b, ptxb_opcode(b, "griddepcontrol.launch_dependents"), 0, NULL);
}

void ptx_comment(ptx_builder *b, const char *format, ...)
{
    va_list args;

    if (!ptxb_ready(b, "comment"))
        return;
    va_start(args, format);
    const char *text = ptxb_vformat(b, "comment", format, args);
    va_end(args);
    struct insn *insn = ptxb_append(b, INSN_COMMENT, 0, 0, 1);
    if (insn)
        ptxb_text_operand(b, insn, 0, OPERAND_TEXT, text);
}

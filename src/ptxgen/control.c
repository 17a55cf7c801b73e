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
    branch(b, guard, true, block.end);
    return opened(b, block);
}

int ptx_if_end(ptx_builder *b, int id)
{
    struct block block;

    if (!close_block(b, "if", (uint32_t)id, 1u << BLOCK_IF | 1u << BLOCK_ELSE, &block))
        return 0;
    place(b, block.end);
    if (!b->failed && block.kind == BLOCK_IF) {
        b->closed_if = b->code[0].insns.count - 1;
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
    // The label at the end of the if becomes the jump over the else; a new label starts the else.
    const uint32_t otherwise = b->closed_block.end;
    const uint32_t end = new_label(b, "if", b->labels.at[otherwise - 1].number, "_end");
    const uint32_t bra = ptxb_opcode(b, "bra");
    if (!end || !bra)
        return 1;
    struct insn *jump = &b->code[0].insns.at[b->closed_if];
    jump->kind = INSN_BRANCH;
    jump->opcode = bra & MOST_INDEX;
    ptxb_label_operand(b, jump, 0, end);
    if (jump->depth < MOST_DEPTH)
        jump->depth++;
    b->labels.at[end - 1].uses++;
    b->labels.at[otherwise - 1].part = "_else";
    place(b, otherwise);
    return opened(b, (struct block) { .kind = BLOCK_ELSE, .end = end });
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

    if (!b || b->failed)
        return failed;
    const ptx_type type = (ptx_type)(lo.kind != PTX_KIND_NUMBER   ? lo.type
                                     : hi.kind != PTX_KIND_NUMBER ? hi.type
                                                                  : step.type);
    if (lo.kind != PTX_KIND_NUMBER || hi.kind != PTX_KIND_NUMBER || step.kind != PTX_KIND_NUMBER) {
        lo = ptxb_typed(b, "for", "lo", lo, type);
        hi = ptxb_typed(b, "for", "hi", hi, type);
        step = ptxb_typed(b, "for", "step", step, type);
    }
    if (!range_ok(b, lo, hi, step))
        return failed;
    ptx_val i = ptxb_mov(b, lo);
    // Copies the bounds, so that the body cannot change them.
    hi = hi.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, hi) : hi;
    step = step.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, step) : step;
    ptx_val none = ptx_ge(b, i, hi);
    if (b->failed)
        return failed;
    b->regs.at[i.reg].variable = true;
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_FOR, .i = i, .hi = hi, .step = step };
    block.head = new_label(b, "for", number, "");
    block.end = new_label(b, "for", number, "_end");
    uint32_t guard = ptxb_condition(b, "for", none);
    if (!guard || !block.end)
        return failed;
    branch(b, guard, false, block.end);
    if (!ptxb_open_block(b, block))
        return failed;
    place(b, block.head);
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
    if (top->next)
        place(b, top->next);
    // i + step may wrap near the maximum of the type; hi - i as an unsigned number cannot.
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
    branch(b, guard, false, top->end);
    ptx_val next = ptx_add(b, i, step);
    i.kind = PTX_KIND_VARIABLE;
    if (!b->failed)
        ptxb_assign(b, i, next);
    branch(b, 0, false, top->head);
    if (!close_block(b, "for", top->id, 1u << BLOCK_FOR, &block))
        return done;
    place(b, block.end);
    return done;
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
        ptxb_fail(b, call, "the label is not one of this entry; ptx_label_create() makes one");
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

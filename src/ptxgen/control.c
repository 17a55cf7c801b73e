// SPDX-License-Identifier: MIT
// Variables, structured blocks, labels.
#include "internal.h"

// ---- variables ----------------------------------------------------------------------------------

ptx_val ptx_var(ptx_builder *b, ptx_val init)
{
    if (!ptxb_ready(b, "var") || !ptxb_usable(b, "var", "init", init))
        return (ptx_val) { 0 };
    ptx_val var = ptxb_mov(b, init);
    if (b->failed)
        return (ptx_val) { 0 };
    b->regs.at[var.reg].variable = true;
    var.kind = PTX_VARIABLE;
    return var;
}

static void assign(ptx_builder *b, ptx_val var, ptx_val x)
{
    const ptx_val source = x;
    ptx_val copy = ptxb_mov(b, source);
    struct insn *insn = b->failed ? NULL : ptxb_entry(b)->body.last;
    if (!insn)
        return;
    // The register that mov made is the last one: give it back and write the variable instead.
    ptxb_entry(b)->registers[b->regs.at[copy.reg].file]--;
    b->regs.count--;
    insn->operands[0].val = var;
}

void ptx_set(ptx_builder *b, ptx_val var, ptx_val x)
{
    if (!ptxb_ready(b, "set") || !ptxb_usable(b, "set", "the variable", var) ||
        !ptxb_usable(b, "set", "the value", x))
        return;
    if (var.kind != PTX_VARIABLE) {
        ptxb_fail(b, "set", "the first value is not a variable; ptx_var() makes one");
        return;
    }
    if (var.type != x.type) {
        ptxb_fail(b, "set", "the variable is %s and the value %s",
                  ptx_type_name((ptx_type)var.type), ptx_type_name((ptx_type)x.type));
        return;
    }
    assign(b, var, x);
}

ptx_val ptx_copy(ptx_builder *b, ptx_val x)
{
    if (!ptxb_ready(b, "copy") || !ptxb_usable(b, "copy", "x", x))
        return (ptx_val) { 0 };
    return ptxb_mov(b, x);
}

// ---- labels -------------------------------------------------------------------------------------

static uint32_t new_label(ptx_builder *b, const char *name, uint32_t number, const char *part)
{
    if (b->failed || !ptxb_grow(b, (void **)&b->labels.at, b->labels.count, &b->labels.capacity,
                                sizeof *b->labels.at))
        return 0;
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
    struct insn *insn = ptxb_append(b, INSN_LABEL, "", 0, 0);
    if (!insn)
        return;
    insn->label = label;
    b->labels.at[label - 1].insn = insn;
}

static void branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_BRANCH, "bra", 0, 1);
    if (!insn)
        return;
    insn->operands[0] = (struct operand) { .kind = OPERAND_LABEL };
    insn->guard = guard;
    insn->guard_negated = negated;
    insn->label = label;
    b->labels.at[label - 1].uses++;
}

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
    const char *own = ptxb_join(b, name ? name : "label", NULL);
    label.id = new_label(b, own, ++ptxb_entry(b)->labels, "");
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
    if (!label.id || label.id > b->labels.count || !b->labels.at[label.id - 1].raw ||
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
    if (b->labels.at[label.id - 1].insn) {
        ptxb_label_text(&b->labels.at[label.id - 1], text);
        ptxb_fail(b, "label_place", "label %s is placed already", text);
        return;
    }
    place(b, label.id);
}

void ptx_branch(ptx_builder *b, ptx_label label)
{
    if (raw_ok(b, "branch", label))
        branch(b, 0, false, label.id);
}

void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label)
{
    if (!raw_ok(b, "branch_if", label))
        return;
    uint32_t guard = ptxb_condition(b, "branch_if", cond);
    if (guard)
        branch(b, guard, false, label.id);
}

// ---- blocks -------------------------------------------------------------------------------------

static struct block *open_block(ptx_builder *b, struct block block)
{
    if (b->failed ||
        !ptxb_grow(b, (void **)&b->blocks.at, b->blocks.count, &b->blocks.capacity, sizeof block))
        return NULL;
    block.id = b->next_block++;
    b->blocks.at[b->blocks.count++] = block;
    return &b->blocks.at[b->blocks.count - 1];
}

// The block that an end closes, which must be the innermost.
static bool close_block(ptx_builder *b, const char *call, uint32_t id, struct block *closed)
{
    if (!b || b->failed)
        return false;
    const struct block *top = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    if (top && top->id == id && top->kind != BLOCK_ENTRY) {
        *closed = *top;
        b->blocks.count--;
        return true;
    }
    bool inside = false;
    for (uint32_t k = 0; k < b->blocks.count; k++)
        inside |= b->blocks.at[k].id == id;
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
    struct block block = { .kind = BLOCK_IF, .end = new_label(b, "if", number, "_end") };
    branch(b, guard, true, block.end);
    struct block *opened = open_block(b, block);
    return opened ? (int)opened->id : 1;
}

int ptx_if_end(ptx_builder *b, int id)
{
    struct block block;

    if (!close_block(b, "if", (uint32_t)id, &block))
        return 0;
    place(b, block.end);
    if (!b->failed && block.kind == BLOCK_IF) {
        b->closed_if = ptxb_entry(b)->body.last;
        b->closed_block = block;
    }
    return 0;
}

int ptx_else_begin(ptx_builder *b)
{
    if (!ptxb_ready(b, "else"))
        return 1;
    if (!b->closed_if) {
        ptxb_fail(b, "else", "it must directly follow the block of a ptx_if");
        return 1;
    }
    // The label that ended the if becomes the jump over the else, whose own label follows.
    struct insn *jump = b->closed_if;
    const uint32_t otherwise = b->closed_block.end;
    const uint32_t end = new_label(b, "if", b->labels.at[otherwise - 1].number, "_end");
    struct operand *target = ptxb_alloc(b, sizeof *target);
    if (!end || !target)
        return 1;
    target->kind = OPERAND_LABEL;
    *jump = (struct insn) { .next = jump->next,
                            .opcode = "bra",
                            .operands = target,
                            .label = end,
                            .index = jump->index,
                            .kind = INSN_BRANCH,
                            .operand_count = 1,
                            .depth = (uint8_t)(jump->depth + 1) };
    b->labels.at[end - 1].uses++;
    b->labels.at[otherwise - 1].part = "_else";
    place(b, otherwise);
    struct block *opened = open_block(b, (struct block) { .kind = BLOCK_ELSE, .end = end });
    return opened ? (int)opened->id : 1;
}

static bool range_ok(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    if (!ptxb_ready(b, "for") || !ptxb_usable(b, "for", "lo", lo) ||
        !ptxb_usable(b, "for", "hi", hi) || !ptxb_usable(b, "for", "step", step))
        return false;
    if (lo.type != hi.type || lo.type != step.type ||
        !((PTX_SET_I32 | PTX_SET_I64) >> lo.type & 1)) {
        ptxb_fail(
            b, "for",
            "lo, hi and step are %s, %s and %s; all must be the same of u32, s32, u64 and s64",
            ptx_type_name((ptx_type)lo.type), ptx_type_name((ptx_type)hi.type),
            ptx_type_name((ptx_type)step.type));
        return false;
    }
    const uint64_t sign = lo.type == PTX_S32   ? UINT64_C(1) << 31
                          : lo.type == PTX_S64 ? UINT64_C(1) << 63
                                               : 0;
    if (step.kind == PTX_IMMEDIATE && (!step.bits || (step.bits & sign))) {
        ptxb_fail(b, "for", "the step must be above zero, or the loop never ends");
        return false;
    }
    return true;
}

ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step)
{
    const ptx_val failed = { .kind = PTX_REGISTER, .type = lo.type };

    if (!b || b->failed || !range_ok(b, lo, hi, step))
        return failed;
    ptx_val i = ptxb_mov(b, lo);
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
    if (!open_block(b, block))
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
        if (b->blocks.at[k].i.reg == i.reg)
            id = b->blocks.at[k].id;
    if (!own) {
        close_block(b, "for", id, &block);
        return done;
    }
    // i + step may wrap near the type's end; hi - i, seen as unsigned, cannot.
    const ptx_type counter = ptxb_bits((ptx_type)i.type) == 64 ? PTX_U64 : PTX_U32;
    ptx_val left = ptx_sub(b, top->hi, i);
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
    i.kind = PTX_VARIABLE;
    if (!b->failed)
        assign(b, i, next);
    branch(b, 0, false, top->head);
    close_block(b, "for", top->id, &block);
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
    struct block *opened = open_block(b, block);
    if (!opened)
        return 1;
    const int id = (int)opened->id;
    place(b, block.head);
    return id;
}

bool ptx_while_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "while", cond);
    if (guard)
        branch(b, guard, true, b->blocks.at[b->blocks.count - 1].end);
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
    if (close_block(b, "loop", (uint32_t)id, &block))
        place(b, block.end);
    return 0;
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

void ptx_return(ptx_builder *b)
{
    if (ptxb_ready(b, "return"))
        ptxb_append(b, INSN_RETURN, "ret", 0, 0);
}

void ptx_return_if(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "return_if", cond);
    struct insn *insn = guard ? ptxb_append(b, INSN_RETURN, "ret", 0, 0) : NULL;
    if (insn)
        insn->guard = guard;
}

// ---- the rest -----------------------------------------------------------------------------------

void ptx_trap(ptx_builder *b)
{
    if (ptxb_ready(b, "trap"))
        ptxb_emit_void(b, "trap", 0, NULL);
}

static bool special_ready(ptx_builder *b, ptx_opcode op)
{
    const struct ptx_op_info *info = ptx_op_info(op);
    return ptxb_ready(b, info->name) &&
           ptxb_require(b, info->name, info->forms->isa, info->forms->sm, info->forms->text);
}

void ptx_nanosleep(ptx_builder *b, ptx_val nanoseconds)
{
    if (!special_ready(b, PTX_OP_nanosleep) ||
        !ptxb_usable(b, "nanosleep", "the time", nanoseconds))
        return;
    if (nanoseconds.type != PTX_U32) {
        ptxb_fail(b, "nanosleep", "the time is %s; it must be u32",
                  ptx_type_name((ptx_type)nanoseconds.type));
        return;
    }
    ptxb_emit_void(b, "nanosleep.u32", 1, &nanoseconds);
}

void ptx_griddepcontrol_wait(ptx_builder *b)
{
    if (special_ready(b, PTX_OP_griddepcontrol))
        ptxb_emit_void(b, "griddepcontrol.wait", 0, NULL);
}

void ptx_griddepcontrol_launch_dependents(ptx_builder *b)
{
    if (special_ready(b, PTX_OP_griddepcontrol))
        ptxb_emit_void(b, "griddepcontrol.launch_dependents", 0, NULL);
}

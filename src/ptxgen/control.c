// SPDX-License-Identifier: MIT
// Conditions, labels and branches; how a thread waits or ends. control_loop.c has the loops.
#include "internal.h"

#include <stdio.h>

// ---- labels and branches ------------------------------------------------------------------------

uint32_t ptxb_new_label(ptx_builder *b, const char *name, uint32_t number, const char *part)
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

void ptxb_place_label(ptx_builder *b, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_LABEL, 0, 0, 1);
    if (!insn)
        return;
    b->addresses.count = 0;
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

void ptxb_branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_BRANCH, ptxb_opcode(b, "bra"), 0, guard ? 2 : 1);
    if (!insn)
        return;
    b->addresses.count = 0;
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

int ptxb_opened(ptx_builder *b, struct block block)
{
    const uint32_t id = ptxb_open_block(b, block);
    return id ? (int)id : ptxb_not_opened(b);
}

bool ptxb_close_block(ptx_builder *b, const char *call, uint32_t id, unsigned kinds,
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
    if (b->adrift && ptxb_follows(b))
        return false;
    bool inside = false;
    for (uint32_t k = 0; k < b->blocks.count; k++)
        inside |= b->blocks.at[k].id == id && kinds >> b->blocks.at[k].kind & 1;
    ptxb_fail_place(b, inside && top->place ? top->place : b->place,
                    inside ? top->first : b->code[0].insns.count, call, "%s",
                    inside ? "a block inside this one was never closed: a C break, return or goto "
                             "left it (use ptx_break_if or ptx_return_if)"
                           : "this block is not open: it was closed before, or blocks cross");
    return false;
}

int ptx_if_begin(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "if", cond);
    if (!guard)
        return ptxb_not_opened(b);
    const uint32_t number = ++ptxb_entry(b)->labels;
    struct block block = { .kind = BLOCK_IF, .end = ptxb_new_label(b, "if", number, "_end") };
    block.test = b->code[0].insns.count;
    ptxb_branch(b, guard, true, block.end);
    return ptxb_opened(b, block);
}

uint32_t ptxb_unless_begin(ptx_builder *b, uint32_t guard, const char *name)
{
    struct block block = { .kind = BLOCK_IF, .test = b->code[0].insns.count };

    block.end = ptxb_new_label(b, name, ++ptxb_entry(b)->labels, "_end");
    if (!block.end)
        return 0;
    ptxb_branch(b, guard, false, block.end);
    return ptxb_open_block(b, block);
}

// Whether instructions from `first` on set a variable that is still open, or jump out.
static bool has_effect(const ptx_builder *b, uint32_t first)
{
    const struct code *code = &b->code[0];

    for (uint32_t index = first; index < code->insns.count; index++) {
        const struct insn *insn = &code->insns.at[index];
        const struct operand *operands = ptxb_operands(code, insn);
        for (unsigned k = 0; k < insn->dst_count; k++) {
            const struct reg *reg = &b->regs.at[ptxb_operand_reg(&operands[k])];
            if (reg->variable && ptxb_is_open(b, reg->where))
                return true;
        }
        if (insn->kind == INSN_RETURN ||
            (insn->kind == INSN_BRANCH && !ptxb_label_of(b, insn)->placed))
            return true;
    }
    return false;
}

bool ptxb_check_effect(ptx_builder *b, const char *call, const struct block *block, uint32_t first)
{
    if (b->failed || !b->restriction.within || has_effect(b, first))
        return !b->failed;
    ptxb_fail_place(
        b, block->place ? block->place : b->place, b->code[0].insns.count, call,
        "the block sets no variable, so it changes nothing: what C assigns in it counts "
        "always; make a ptx_var before the block and ptx_set it inside, or use "
        "ptx_select");
    return false;
}

// Closes an if, an else or an else-if; all of a chain end at one label.
static int end_branch(ptx_builder *b, const char *call, int id, unsigned kinds)
{
    struct block block;

    if (!ptxb_close_block(b, call, (uint32_t)id, kinds, &block))
        return 0;
    const uint32_t first = block.test >= block.first ? block.test + 1 : block.first;
    const char *const name = block.kind == BLOCK_ELSE      ? "else"
                             : block.kind == BLOCK_ELSE_IF ? "else_if"
                                                           : call;
    if (!ptxb_check_effect(b, name, &block, first))
        return 0;
    const char *const place = b->place;
    b->place = place ? place : block.place; // its macro names none
    ptxb_place_label(b, block.end);
    b->place = place;
    if (!b->failed && block.kind != BLOCK_ELSE) {
        b->closed_if = b->code[0].insns.count - 1;
        b->closed_block = block;
    }
    return 0;
}

int ptx_if_end(ptx_builder *b, int id)
{
    ptxb_recover(b);
    return id == NOT_OPENED ? 0 : end_branch(b, "if", id, 1u << BLOCK_IF | 1u << BLOCK_ELSE);
}

// Makes the label at the end of the if just closed a jump over what follows, and sends the if's
// branch here. Returns the label at the end of the chain, 0 after an error.
static uint32_t begin_else(ptx_builder *b, const char *call)
{
    if (!ptxb_ready(b, call))
        return 0;
    if (b->closed_if == NO_INDEX && b->adrift && ptxb_follows(b))
        return 0;
    if (b->closed_if == NO_INDEX) {
        ptxb_fail(b, call, "it must directly follow the block of a ptx_if or ptx_else_if");
        return 0;
    }
    const uint32_t end = b->closed_block.end, test = b->closed_block.test;
    const uint32_t closed_if = b->closed_if;
    const uint32_t number =
        b->closed_block.kind == BLOCK_IF ? b->labels.at[end - 1].number : ++ptxb_entry(b)->labels;
    const uint32_t otherwise = ptxb_new_label(b, "if", number, "_else");
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
    ptxb_place_label(b, otherwise);
    return end;
}

int ptx_else_begin(ptx_builder *b)
{
    const uint32_t end = begin_else(b, "else");
    return end ? ptxb_opened(b, (struct block) { .kind = BLOCK_ELSE, .end = end })
               : ptxb_not_opened(b);
}

int ptx_else_if_begin(ptx_builder *b)
{
    const uint32_t end = begin_else(b, "else_if");
    return end ? ptxb_opened(b, (struct block) { .kind = BLOCK_ELSE_IF, .end = end })
               : ptxb_not_opened(b);
}

bool ptx_else_if_test(ptx_builder *b, ptx_val cond)
{
    uint32_t guard = ptxb_condition(b, "else_if", cond);
    if (!guard) {
        ptxb_not_opened(b);
        return true;
    }
    struct block *top = &b->blocks.at[b->blocks.count - 1];
    if (top->kind != BLOCK_ELSE_IF || top->test) {
        if (b->adrift && ptxb_follows(b))
            return true;
        ptxb_fail(b, "else_if", "%s",
                  top->test
                      ? "the block has its condition already"
                      : "the innermost block is not an else-if; ptx_else_if_begin() opens one");
        return true;
    }
    top->test = b->code[0].insns.count;
    ptxb_branch(b, guard, true, top->end);
    // The condition belongs to the block and stands where that of the ptx_if does.
    for (uint32_t k = top->first; b->blocks.count < MOST_DEPTH && k < b->code[0].insns.count; k++)
        b->code[0].insns.at[k].depth--;
    return true;
}

int ptx_else_if_end(ptx_builder *b, int id)
{
    ptxb_recover(b);
    const struct block *top = b && b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;

    if (id == NOT_OPENED)
        return 0;
    if (top && top->kind == BLOCK_ELSE_IF && top->id == (uint32_t)id && !top->test && !b->adrift)
        ptxb_fail(b, "else_if", "the block has no condition; ptx_else_if_test() sets it");
    return end_branch(b, "else_if", id, 1u << BLOCK_ELSE_IF);
}

void ptxb_return(ptx_builder *b, uint32_t guard)
{
    const uint32_t opcode = ptxb_opcode(b, "ret");
    struct insn *insn = opcode ? ptxb_append(b, INSN_RETURN, opcode, 0, guard != 0) : NULL;

    b->addresses.count = 0;
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
    const struct entry *entry = ptxb_entry(b);
    if (entry->results > 1)
        ptxb_fail(b, call, "the function returns %u values; ptx_return_values() gives them",
                  (unsigned)entry->results);
    else if (entry->results)
        ptxb_fail(b, call, "the function returns %s; ptx_return_value() gives it",
                  ptx_type_name((ptx_type)entry->result[0]));
    return !b->failed;
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

// ---- code of others -----------------------------------------------------------------------------

// A place that no call has, so that the next instruction gets a mark.
static const char unmarked[] = "";

static void enter_site(ptx_builder *b, uint32_t site)
{
    b->site = site;
    b->marked = unmarked;
}

int ptx_inlined_begin(ptx_builder *b, const char *name)
{
    if (!ptxb_ready(b, "inlined"))
        return ptxb_not_opened(b);
    if (!name || !*name) {
        ptxb_fail(b, "inlined", "the name is %s; give that of the code that stands here",
                  name ? "empty" : "NULL");
        return ptxb_not_opened(b);
    }
    name = ptxb_copy(b, name);
    if (!name || !ROOM_FOR(b, b->sites, 1))
        return ptxb_not_opened(b);
    b->sites.at[b->sites.count++] = (struct site) { name, b->place, b->site };
    enter_site(b, b->sites.count);
    return (int)b->site;
}

int ptx_inlined_end(ptx_builder *b, int site)
{
    ptxb_recover(b);
    if (!b || b->failed || site == NOT_OPENED)
        return 0;
    if (site && b->site == (uint32_t)site)
        enter_site(b, b->sites.at[site - 1].outer);
    else if (ptxb_sites_are_closed(b, "inlined"))
        ptxb_fail(b, "inlined", "this block is not open: it was closed before");
    return 0;
}

bool ptxb_sites_are_closed(ptx_builder *b, const char *call)
{
    if (!b->site || (b->adrift && b->errors.count))
        return true;
    const struct site *site = &b->sites.at[b->site - 1];
    ptxb_fail_place(b, site->place, NO_INDEX, call,
                    "the ptx_inlined block '%.64s' was never closed: a C break, return or goto "
                    "left it",
                    site->name);
    return false;
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
    label.id = ptxb_new_label(b, own, ++ptxb_entry(b)->labels, taken ? "_label" : "");
    label.builder = b->number;
    if (label.id) {
        b->labels.at[label.id - 1].raw = true;
        ptxb_entry(b)->raw_labels = true;
    }
    return label;
}

static bool raw_ok(ptx_builder *b, const char *call, ptx_label label)
{
    if (!ptxb_ready(b, call) || (!label.id && ptxb_follows(b)))
        return false;
    if (!label.id || label.builder != b->number || label.id > b->labels.count ||
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
    ptxb_place_label(b, label.id);
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
        ptxb_branch(b, 0, false, label.id);
}

void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label)
{
    if (!raw_branch_ok(b, "branch_if", label))
        return;
    uint32_t guard = ptxb_condition(b, "branch_if", cond);
    if (guard)
        ptxb_branch(b, guard, false, label.id);
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
    const char *text =
        strchr(format, '%') ? ptxb_vformat(b, "comment", format, args) : ptxb_copy(b, format);
    va_end(args);
    struct insn *insn = ptxb_append(b, INSN_COMMENT, 0, 0, 1);
    if (insn)
        ptxb_text_operand(b, insn, 0, OPERAND_TEXT, text);
}

// SPDX-License-Identifier: MIT
// A closed entry, made ready for printing.
#include "internal.h"

// About what texts have, from which their length is told in advance.
enum { TWO_OPERANDS_BYTES = 13, FLOAT_BYTES = 24, PARAM_LINE_BYTES = 96, ENTRY_BYTES = 640 };

// The result of the instruction that is the register; NULL if none is.
static struct operand *result_in(struct insn *insn, uint32_t reg)
{
    for (unsigned k = 0; k < insn->dst_count; k++)
        if (insn->operands[k].id == reg)
            return &insn->operands[k];
    return NULL;
}

// `op {x, y ...}; mov var, x` with no other use of x is `op {var, y ...}`. False if it is not that,
// or if y has become var before.
static bool drop_move(ptx_builder *b, struct insn *op, struct insn *mov)
{
    if (!mov->moves || !op || (op->kind != INSN_PLAIN && op->kind != INSN_WARP) ||
        mov->operands[1].kind != OPERAND_REGISTER || !b->regs.at[mov->operands[0].id].variable)
        return false;
    struct operand *made = result_in(op, mov->operands[1].id);
    if (!made || b->regs.at[made->id].used_again || b->regs.at[made->id].variable ||
        result_in(op, mov->operands[0].id))
        return false;
    made->id = mov->operands[0].id;
    op->reducible = 0;
    mov->kind = INSN_DROPPED;
    return true;
}

static inline void number_results(ptx_builder *b, struct entry *entry, const struct insn *insn)
{
    for (unsigned k = 0; k < insn->dst_count; k++) {
        struct reg *reg = &b->regs.at[insn->operands[k].id];
        if (reg->placed)
            continue;
        reg->where = ++entry->registers[reg->file] & MOST_INDEX;
        reg->placed = 1;
    }
}

static inline size_t usual_bytes(const ptx_builder *b, const struct insn *insn)
{
    const size_t indent = insn->depth * (size_t)INDENT;

    if (insn->kind == INSN_COMMENT)
        return indent + strlen(b->extras.at[insn->operands[0].value].text) + 5;
    return indent + OPERAND_COLUMN + insn->operand_count * (size_t)TWO_OPERANDS_BYTES / 2 +
           (insn->floats ? FLOAT_BYTES : 0);
}

size_t ptxb_settle(ptx_builder *b, struct entry *entry)
{
    size_t bytes = ENTRY_BYTES + entry->params.count * (size_t)PARAM_LINE_BYTES;
    struct insn *insn = ptxb_first(&b->code[1], &entry->prologue);

    // Registers are numbered as they appear, so that the text has no gaps.
    for (uint32_t k = 0; k < entry->prologue.count; k++, insn = ptxb_next(insn)) {
        number_results(b, entry, insn);
        bytes += usual_bytes(b, insn);
    }
    // The result of one is numbered once it is known that the next does not rename it.
    struct insn *before = NULL;
    insn = ptxb_insn(&b->code[0], entry->body.first);
    for (uint32_t k = 0; k < entry->body.count; k++, insn = ptxb_next(insn)) {
        if (drop_move(b, before, insn))
            continue;
        if (before)
            number_results(b, entry, before);
        bytes += usual_bytes(b, insn);
        before = insn;
    }
    if (before)
        number_results(b, entry, before);
    return bytes;
}

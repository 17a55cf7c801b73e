// SPDX-License-Identifier: MIT
// What is made of an entry's instructions before they are printed: copies that nothing needs go,
// and registers get their numbers.
#include "internal.h"

// A copy of a variable, which may change later: until then, and in straight code, what reads the
// copy reads the variable.
struct copy {
    uint32_t reg, of; // the copy and the variable
    uint32_t insn;    // index of the move
};

enum { COPIES = 16, WHEN = 2 * MOST_INDEX + 1 };

struct settling {
    struct reg *regs;
    const struct code *code;
    uint32_t begin; // index of the label or branch that this straight code follows
    uint32_t now;   // index of the instruction
    uint32_t copies;
    struct copy copy[COPIES];
};

static void forget(struct settling *s, uint32_t k)
{
    s->regs[s->copy[k].reg].same = 0;
    s->copy[k] = s->copy[--s->copies];
}

static void forget_all(struct settling *s)
{
    while (s->copies)
        forget(s, s->copies - 1);
}

static void drop(struct settling *s, uint32_t index)
{
    struct insn *insn = &s->code->insns.at[index];

    insn->kind = INSN_DROPPED;
    ptxb_count_use(&s->regs[ptxb_operands(s->code, insn)[1].id], -1);
}

// ---- copies -------------------------------------------------------------------------------------

// The last read of a copy: its move goes.
static void end_copy(struct settling *s, uint32_t reg)
{
    for (uint32_t k = 0; k < s->copies; k++)
        if (s->copy[k].reg == reg) {
            drop(s, s->copy[k].insn);
            forget(s, k);
            return;
        }
}

// Reads what the register copies.
static void resolve(struct settling *s, const struct insn *insn, struct operand *operand)
{
    const uint32_t id = operand->id, same = s->regs[id].same;
    const bool changes = s->regs[same].set;

    if (changes && insn->divergence) // a text may write the variable before it reads the copy
        return;
    operand->id = same & MOST_INDEX;
    if (!changes)
        return; // its uses were counted with the move
    ptxb_count_use(&s->regs[same], 1);
    ptxb_count_use(&s->regs[id], -1);
    if (!s->regs[id].uses)
        end_copy(s, id);
}

static void write_variable(struct settling *s, uint32_t id)
{
    for (uint32_t k = s->copies; k-- > 0;)
        if (s->copy[k].of == id)
            forget(s, k);
}

// The instruction moves a register to a value, which is the same from here on, or until a variable
// changes. Returns whether the move is dropped.
static bool begin_copy(struct settling *s, const struct operand *moved)
{
    struct reg *to = &s->regs[moved[0].id], *from = &s->regs[moved[1].id];

    if (to->set || to->file != from->file)
        return false;
    to->same = moved[1].id & MOST_INDEX;
    if (!from->set || !to->uses) {
        drop(s, s->now);
        ptxb_count_use(from, (int)to->uses);
        return true;
    }
    if (s->copies == COPIES)
        forget(s, 0);
    s->copy[s->copies++] = (struct copy) { moved[0].id, moved[1].id, s->now };
    return false;
}

// ---- results that are moved to a variable -------------------------------------------------------

// The result operand of the instruction that is this register, or NULL.
static struct operand *result_in(const struct code *code, const struct insn *insn, uint32_t reg)
{
    struct operand *operands = ptxb_operands(code, insn);

    for (unsigned k = 0; k < insn->dst_count; k++)
        if (operands[k].id == reg)
            return &operands[k];
    return NULL;
}

// Rewrites `op {x, y ...}; ...; mov var, x`, with no other use of x, to `op {var, y ...}; ...`, in
// straight code where nothing reads or writes the variable in between and which is short: over many
// instructions ptxas spills more for it. A text of ptx_asm() may write a result before it reads the
// variable, so its results keep their registers.
enum { FAR = 128 }; // instructions

static bool write_directly(struct settling *s, const struct operand *moved)
{
    struct reg *to = &s->regs[moved[0].id], *from = &s->regs[moved[1].id];

    if (!to->set || from->set || from->uses != 1 || !(from->where & 1) ||
        from->where < 2 * s->begin || from->where <= to->where)
        return false;
    if (s->now - from->where / 2 > FAR)
        return false;
    struct insn *op = &s->code->insns.at[from->where / 2];
    if ((op->kind != INSN_PLAIN && op->kind != INSN_WARP) || op->divergence)
        return false;
    struct operand *made = result_in(s->code, op, moved[1].id);
    if (!made)
        return false;
    made->id = moved[0].id & MOST_INDEX;
    op->reducible = 0;
    to->where = from->where;
    write_variable(s, moved[0].id);
    s->code->insns.at[s->now].kind = INSN_DROPPED;
    return true;
}

// ---- all of it ----------------------------------------------------------------------------------

static void settle_insn(struct settling *s, struct insn *insn)
{
    struct operand *const operands = ptxb_operands(s->code, insn);
    struct reg *const regs = s->regs;

    if (insn->kind == INSN_LABEL) {
        forget_all(s);
        s->begin = s->now;
        return;
    }
    if (insn->moves && operands[1].kind == OPERAND_REGISTER) {
        if (regs[operands[1].id].same)
            resolve(s, insn, &operands[1]);
        if (operands[0].id == operands[1].id) {
            drop(s, s->now);
            return;
        }
        if (write_directly(s, operands) || begin_copy(s, operands))
            return;
    }
    const uint32_t now = 2 * s->now & WHEN; // an instruction reads before it writes
    struct operand *at = operands + insn->dst_count;
    for (struct operand *const end = operands + insn->operand_count; at < end; at++) {
        if (at->kind > OPERAND_ADDRESS || (!regs[at->id].same && !regs[at->id].set))
            continue;
        if (regs[at->id].same)
            resolve(s, insn, at);
        regs[at->id].where = now & WHEN;
    }
    at = operands;
    for (struct operand *const end = operands + insn->dst_count; at < end; at++) {
        regs[at->id].where = (now | 1) & WHEN;
        if (regs[at->id].set && s->copies)
            write_variable(s, at->id);
    }
    if (insn->kind == INSN_BRANCH || insn->kind == INSN_RETURN)
        s->begin = s->now;
}

static void number_results(struct reg *regs, struct entry *entry, const struct code *code)
{
    const struct insn *const end = code->insns.at + code->insns.count;

    for (const struct insn *insn = code->insns.at; insn < end; insn++) {
        const struct operand *operands = ptxb_operands(code, insn);
        const unsigned count = insn->kind == INSN_DROPPED ? 0 : insn->dst_count;
        for (unsigned k = 0; k < count; k++) {
            struct reg *reg = &regs[operands[k].id];
            if (reg->placed)
                continue;
            reg->where = ++entry->registers[reg->file] & MOST_INDEX;
            reg->placed = 1;
        }
    }
}

void ptxb_settle(ptx_builder *b, struct entry *entry)
{
    struct settling s = { .regs = b->regs.at, .code = &b->code[0] };

    for (uint32_t k = entry->first_reg; k < b->regs.count; k++)
        s.regs[k].where = 0; // not read or written yet
    for (; s.now < s.code->insns.count; s.now++) {
        struct insn *insn = &s.code->insns.at[s.now];
        if (insn->kind != INSN_COMMENT)
            settle_insn(&s, insn);
    }
    number_results(s.regs, entry, &b->code[1]);
    number_results(s.regs, entry, &b->code[0]);
}

// SPDX-License-Identifier: MIT
// Checks on the complete instruction list of an entry: what a single call cannot check.
#include "internal.h"

static bool labels_are_placed(ptx_builder *b, const struct entry *entry)
{
    const struct label *missing = NULL;
    char text[96];

    for (uint32_t k = entry->first_label; k < b->labels.count; k++) {
        const struct label *label = &b->labels.at[k];
        if (label->uses && !label->placed && (!missing || label->first_use < missing->first_use))
            missing = label;
    }
    if (!missing)
        return true;
    ptxb_label_text(missing, text);
    ptxb_fail_insn(b, missing->first_use, "branch",
                   "a branch goes to label %s, which is never placed; call ptx_label_place()",
                   text);
    return false;
}

// ---- definitions --------------------------------------------------------------------------------

// Uses in structured blocks are checked when a value is used. Raw branches can jump over a
// definition, so here every use is checked against the registers that are defined on all paths to
// it.
struct flow {
    uint64_t *now;
    uint64_t *
        at_label; // by label of the entry: whether it is reachable, and the registers defined there
    size_t words; // of one set
    uint32_t first_reg, first_label;
    bool reached;
    bool changed;
};

// One word that tells whether the label is reachable, then the set.
static uint64_t *at_label(const struct flow *f, uint32_t label)
{
    return f->at_label + (label - 1 - f->first_label) * (f->words + 1);
}

static void join(struct flow *f, uint32_t label)
{
    uint64_t *known = at_label(f, label);
    uint64_t *set = known + 1;

    if (!f->reached)
        return;
    if (!*known) {
        *known = true;
        memcpy(set, f->now, f->words * sizeof *set);
        f->changed = true;
        return;
    }
    for (size_t w = 0; w < f->words; w++) {
        uint64_t both = set[w] & f->now[w];
        f->changed |= both != set[w];
        set[w] = both;
    }
}

static bool defined(const struct flow *f, uint32_t reg)
{
    const uint32_t k = reg - f->first_reg;
    return f->now[k / 64] >> (k % 64) & 1;
}

static bool uses_are_defined(ptx_builder *b, const struct flow *f, const struct insn *insn)
{
    const struct operand *operands = ptxb_operands(&b->code[0], insn);
    bool ok = true;

    for (unsigned k = insn->dst_count; ok && k < insn->operand_count; k++) {
        const uint32_t reg = ptxb_operand_reg(&operands[k]);
        ok = !reg || defined(f, reg);
    }
    if (!ok)
        ptxb_fail_insn(b, (uint32_t)(insn - b->code[0].insns.at), "branch",
                       "an operand of '%s' is not defined on every path to it: a branch jumps "
                       "over its definition",
                       b->opcodes.at[insn->opcode].text);
    return ok;
}

static void define_results(struct flow *f, const struct code *code, const struct insn *insn)
{
    const struct operand *operands = ptxb_operands(code, insn);

    for (unsigned k = 0; k < insn->dst_count; k++) {
        const uint32_t bit = operands[k].id - f->first_reg;
        f->now[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
}

// Whether a function that has a result has it where it returns.
static bool has_result(ptx_builder *b, const struct flow *f, const struct insn *insn)
{
    const struct entry *entry = ptxb_entry(b);
    const uint32_t index = (uint32_t)(insn - b->code[0].insns.at);

    if (insn->kind != INSN_RETURN || !entry->results || defined(f, entry->result_reg))
        return true;
    if (entry->results > 1)
        ptxb_fail_place(b, entry->place, index + 1, "func",
                        "a path through '%.64s' ends without ptx_return_values() of its %u values, "
                        "which a path that ends in a trap needs, too",
                        entry->decl.name, (unsigned)entry->results);
    else
        ptxb_fail_place(b, entry->place, index + 1, "func",
                        "a path through '%.64s' ends without ptx_return_value(); the result is %s; "
                        "a path that ends in a trap needs it, too",
                        entry->decl.name, ptx_type_name((ptx_type)entry->result[0]));
    return false;
}

static void walk(ptx_builder *b, struct flow *f, bool report)
{
    const struct code *code = &b->code[0], *prologue = &b->code[1];

    memset(f->now, 0, f->words * sizeof *f->now);
    f->reached = true;
    for (uint32_t k = 0; k < prologue->insns.count; k++)
        define_results(f, prologue, &prologue->insns.at[k]);
    for (uint32_t i = 0; i < code->insns.count; i++) {
        const struct insn *insn = &code->insns.at[i];
        const struct operand *operands = ptxb_operands(code, insn);
        if (insn->kind == INSN_LABEL) {
            join(f, operands[0].value);
            const uint64_t *known = at_label(f, operands[0].value);
            f->reached = *known;
            if (*known)
                memcpy(f->now, known + 1, f->words * sizeof *f->now);
        }
        if (report && f->reached && (!uses_are_defined(b, f, insn) || !has_result(b, f, insn)))
            return;
        define_results(f, code, insn);
        if (insn->kind == INSN_BRANCH)
            join(f, operands[insn->guarded].value);
        if ((insn->kind == INSN_BRANCH || insn->kind == INSN_RETURN) && !insn->guarded)
            f->reached = false;
    }
}

static bool definitions_reach(ptx_builder *b, const struct entry *entry)
{
    const size_t labels = b->labels.count - entry->first_label;
    struct flow f = { .first_reg = entry->first_reg, .first_label = entry->first_label };

    f.words = (b->regs.count - f.first_reg) / 64 + 1;
    const size_t bytes = (f.words + labels * (f.words + 1)) * sizeof *f.now;
    f.now = ptxb_resize(b, NULL, 0, bytes);
    if (!f.now)
        return false;
    f.at_label = f.now + f.words;
    memset(f.now, 0, bytes);
    do {
        f.changed = false;
        walk(b, &f, false);
    } while (f.changed);
    walk(b, &f, true);
    ptxb_resize(b, f.now, bytes, 0);
    return !b->failed;
}

bool ptxb_check_entry(ptx_builder *b, struct entry *entry)
{
    if (!labels_are_placed(b, entry))
        return false;
    if ((entry->raw_labels || entry->results) && !definitions_reach(b, entry))
        return false;
    return ptxb_check_divergence(b, entry);
}

// SPDX-License-Identifier: MIT
// Checks on the finished list of an entry: what no single call can see.
#include "internal.h"

#include <string.h>

// The index that a branch or return goes to; the entry's end for returns.
static uint32_t target_of(const ptx_builder *b, const struct entry *entry, const struct insn *insn)
{
    if (insn->kind == INSN_RETURN)
        return entry->insns;
    return b->labels.at[insn->label - 1].insn->index;
}

static bool labels_are_placed(ptx_builder *b, const struct entry *entry)
{
    char text[96];

    for (const struct insn *insn = entry->body.first; insn; insn = insn->next) {
        if (insn->kind != INSN_BRANCH || b->labels.at[insn->label - 1].insn)
            continue;
        ptxb_label_text(&b->labels.at[insn->label - 1], text);
        ptxb_fail(b, "branch", "label %s is never placed; ptx_label_place() does it", text);
        return false;
    }
    return true;
}

// ---- barriers -----------------------------------------------------------------------------------

// Threads of a block part ways where a branch depends on a value that differs between them. The
// code between such a branch and its label is divergent; so is what a jump out of divergent code
// skips. Variables written in divergent code differ from there on. Both grow until they are stable.
struct divergence {
    const struct insn **from; // by instruction: the branch that made it divergent, or NULL
    bool changed;
};

static bool differs(const ptx_builder *b, const struct insn *insn)
{
    if (insn->varying)
        return true;
    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        if (b->regs.at[insn->operands[k].reg].varying) // [0] never is
            return true;
    }
    return false;
}

static void mark_results(ptx_builder *b, struct divergence *d, const struct entry *entry,
                         const struct insn *insn)
{
    // Without blocks, a value can outlive the divergent loop that it is made in.
    const bool here = d->from[insn->index] != NULL;
    const bool outlives = here && entry->raw_labels;
    const bool differing = insn->kind != INSN_BARRIER && differs(b, insn); // one answer for all

    for (unsigned k = 0; k < insn->dst_count; k++) {
        struct reg *reg = &b->regs.at[insn->operands[k].reg];
        if (!reg->varying && (differing || outlives || (here && reg->variable))) {
            reg->varying = true;
            d->changed = true;
        }
    }
}

static void mark_region(const ptx_builder *b, struct divergence *d, const struct entry *entry,
                        const struct insn *insn)
{
    const bool parts = insn->guard && b->regs.at[insn->guard].varying;
    if (!parts && !d->from[insn->index])
        return;
    const uint32_t target = target_of(b, entry, insn);
    const uint32_t first = target < insn->index ? target : insn->index + 1;
    const uint32_t last = target < insn->index ? insn->index : target;
    for (uint32_t k = first; k < last; k++) {
        if (d->from[k])
            continue;
        d->from[k] = parts ? insn : d->from[insn->index];
        d->changed = true;
    }
}

static void find_divergence(ptx_builder *b, struct divergence *d, const struct entry *entry)
{
    for (const struct insn *insn = entry->prologue.first; insn; insn = insn->next)
        for (unsigned k = 0; k < insn->dst_count; k++)
            b->regs.at[insn->operands[k].reg].varying |= differs(b, insn);
    do {
        d->changed = false;
        for (const struct insn *insn = entry->body.first; insn; insn = insn->next) {
            mark_results(b, d, entry, insn);
            if (insn->kind == INSN_BRANCH || insn->kind == INSN_RETURN)
                mark_region(b, d, entry, insn);
        }
    } while (d->changed);
}

static void report_barriers(ptx_builder *b, const struct divergence *d, const struct entry *entry)
{
    unsigned nth = 0;

    for (const struct insn *insn = entry->body.first; insn; insn = insn->next) {
        if (insn->kind != INSN_BARRIER)
            continue;
        nth++;
        const struct insn *from = d->from[insn->index];
        if (!from)
            continue;
        char text[96] = "a return";
        if (from->kind == INSN_BRANCH)
            ptxb_label_text(&b->labels.at[from->label - 1], text);
        ptxb_fail(b, "barrier",
                  "barrier %u of the entry stands where only some threads may come by: the "
                  "condition of the branch to %s differs between threads of a block. Move the "
                  "barrier out, or make the condition the same for all",
                  nth, text);
        return;
    }
}

static bool barriers_are_uniform(ptx_builder *b, const struct entry *entry)
{
    const size_t bytes = entry->insns * sizeof(struct insn *);
    struct divergence d = { .from = ptxb_resize(b, NULL, 0, bytes) };

    if (!d.from)
        return false;
    memset(d.from, 0, bytes);
    find_divergence(b, &d, entry);
    report_barriers(b, &d, entry);
    ptxb_resize(b, d.from, bytes, 0);
    return !b->failed;
}

// ---- definitions --------------------------------------------------------------------------------

// Structured blocks are checked where a value is used. Raw branches can jump over a definition:
// here every use is held against what is defined on every path to it.
struct flow {
    uint64_t *now;
    uint64_t **at_label; // by label; NULL: not reached yet
    size_t words;
    uint32_t first_reg;
    bool reached;
    bool changed;
};

static void join(ptx_builder *b, struct flow *f, uint32_t label)
{
    uint64_t **known = &f->at_label[label - 1];

    if (!f->reached)
        return;
    if (!*known) {
        *known = ptxb_alloc(b, f->words * sizeof **known);
        if (*known)
            memcpy(*known, f->now, f->words * sizeof **known);
        f->changed = true;
        return;
    }
    for (size_t w = 0; w < f->words; w++) {
        uint64_t both = (*known)[w] & f->now[w];
        f->changed |= both != (*known)[w];
        (*known)[w] = both;
    }
}

static bool defined(const struct flow *f, uint32_t reg)
{
    const uint32_t k = reg - f->first_reg;
    return f->now[k / 64] >> (k % 64) & 1;
}

static bool uses_are_defined(ptx_builder *b, const struct flow *f, const struct insn *insn)
{
    bool ok = !insn->guard || defined(f, insn->guard);

    for (unsigned k = insn->dst_count; ok && k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        ok = !operand->reg || defined(f, operand->reg);
    }
    if (!ok)
        ptxb_fail(b, "branch",
                  "an operand of '%s' is not defined on every path to it: a branch jumps "
                  "over its definition",
                  insn->opcode);
    return ok;
}

static void define_results(struct flow *f, const struct insn *insn)
{
    for (unsigned k = 0; k < insn->dst_count; k++) {
        const uint32_t bit = insn->operands[k].reg - f->first_reg;
        f->now[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
}

static bool walk(ptx_builder *b, struct flow *f, const struct entry *entry, bool report)
{
    memset(f->now, 0, f->words * sizeof *f->now);
    f->reached = true;
    for (const struct insn *insn = entry->prologue.first; insn; insn = insn->next)
        define_results(f, insn);
    for (const struct insn *insn = entry->body.first; insn; insn = insn->next) {
        if (insn->kind == INSN_LABEL) {
            join(b, f, insn->label);
            const uint64_t *known = f->at_label[insn->label - 1];
            f->reached = known != NULL;
            if (known)
                memcpy(f->now, known, f->words * sizeof *f->now);
        }
        if (report && f->reached && !uses_are_defined(b, f, insn))
            return false;
        define_results(f, insn);
        if (insn->kind == INSN_BRANCH)
            join(b, f, insn->label);
        if ((insn->kind == INSN_BRANCH || insn->kind == INSN_RETURN) && !insn->guard)
            f->reached = false;
    }
    return !b->failed;
}

static bool definitions_reach(ptx_builder *b, const struct entry *entry)
{
    struct flow f = { .first_reg = 1 };
    const uint16_t number = (uint16_t)(b->entries.count - 1);

    while (f.first_reg < b->regs.count && b->regs.at[f.first_reg].entry != number)
        f.first_reg++;
    f.words = (b->regs.count - f.first_reg) / 64 + 1;
    f.now = ptxb_alloc(b, f.words * sizeof *f.now);
    f.at_label = ptxb_alloc(b, b->labels.count * sizeof *f.at_label);
    if (!f.now || !f.at_label)
        return false;
    do {
        f.changed = false;
        if (!walk(b, &f, entry, false))
            return false;
    } while (f.changed);
    return walk(b, &f, entry, true);
}

bool ptxb_check_entry(ptx_builder *b, struct entry *entry)
{
    if (!labels_are_placed(b, entry))
        return false;
    if (entry->raw_labels && !definitions_reach(b, entry))
        return false;
    return !entry->barriers || barriers_are_uniform(b, entry);
}

// `x = op ...; mov var, x` with no other use of x is `var = op ...`.
void ptxb_coalesce(ptx_builder *b, struct entry *entry)
{
    for (struct insn *insn = entry->body.first; insn && insn->next; insn = insn->next) {
        struct insn *mov = insn->next;
        if (insn->kind != INSN_PLAIN || insn->dst_count != 1 || mov->kind != INSN_PLAIN ||
            mov->dst_count != 1 || mov->operand_count != 2)
            continue;
        const uint32_t made = insn->operands[0].reg, set = mov->operands[0].reg;
        if (mov->operands[1].kind != OPERAND_REGISTER || mov->operands[1].reg != made ||
            b->regs.at[made].uses != 1 || b->regs.at[made].variable || !b->regs.at[set].variable ||
            strncmp(mov->opcode, "mov.", 4) != 0)
            continue;
        insn->operands[0].reg = set;
        insn->reducible = false;
        insn->next = mov->next; // never the last: that is a return
    }
}

// SPDX-License-Identifier: MIT
// Checks on the finished list of an entry: what no single call can see.
#include "internal.h"

#include <string.h>

// The instructions of a body, one after the other, with their indices:
// for (struct reader r = read_body(b, entry); r.insn; read_next(&r)).
struct reader {
    const struct insn *insn;
    uint32_t index, count;
};

static struct reader read_body(const ptx_builder *b, const struct entry *entry)
{
    return (struct reader) { ptxb_insn(&b->code[0], entry->body.first), 0, entry->body.count };
}

// As if the label came next.
static struct reader read_from(const ptx_builder *b, const struct reader *r,
                               const struct label *label)
{
    return (struct reader) { ptxb_insn(&b->code[0], label->place), label->index, r->count };
}

static inline void read_next(struct reader *r)
{
    r->insn = ++r->index < r->count ? ptxb_next(r->insn) : NULL;
}

static struct label *label_of(const ptx_builder *b, const struct insn *branch)
{
    return &b->labels.at[branch->operands[branch->guarded].value - 1];
}

// The index that a branch or return goes to; the entry's end for returns.
static uint32_t target_of(const ptx_builder *b, const struct entry *entry, const struct insn *insn)
{
    return insn->kind == INSN_RETURN ? entry->body.count : label_of(b, insn)->index;
}

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
    ptxb_fail(b, "branch",
              "a branch goes to label %s, which is never placed; call ptx_label_place()", text);
    return false;
}

// ---- barriers -----------------------------------------------------------------------------------

// Threads of a block part ways where a branch depends on a value that differs between them. The
// code between such a branch and its label is divergent; so is what a jump out of divergent code
// skips. Variables written in divergent code differ from there on. Both only grow; what grows in a
// loop can matter to what stands before it there, so that loops are read again until it is stable.
struct divergence {
    uint32_t *from;   // by instruction: where the branch is that made it divergent, or NO_INDEX
    uint32_t changes; // that can matter to what was read before
    uint32_t until;   // from what is read now up to here all is divergent
};

static bool differs(const ptx_builder *b, const struct insn *insn)
{
    bool any = insn->varying;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++)
        any |= b->regs.at[ptxb_operand_reg(&insn->operands[k])].varying; // [0] never is
    return any;
}

static void mark_results(ptx_builder *b, struct divergence *d, const struct entry *entry,
                         const struct reader *at)
{
    const struct insn *insn = at->insn;
    unsigned k = 0;

    while (k < insn->dst_count && b->regs.at[insn->operands[k].id].varying)
        k++;
    if (k == insn->dst_count)
        return;
    // Without blocks, a value can outlive the divergent loop that it is made in.
    const bool here = d->from[at->index] != NO_INDEX;
    const bool all = (insn->kind != INSN_BARRIER && differs(b, insn)) || // one answer for all
                     (here && entry->raw_labels);
    for (; k < insn->dst_count; k++) {
        struct reg *reg = &b->regs.at[insn->operands[k].id];
        if (reg->varying || !(all || (here && reg->variable)))
            continue;
        reg->varying = true;
        d->changes += reg->variable; // no other is read before it is written
    }
}

static void mark_region(const ptx_builder *b, struct divergence *d, const struct entry *entry,
                        const struct reader *at)
{
    const struct insn *insn = at->insn;
    const bool parts = insn->guarded && b->regs.at[insn->operands[0].id].varying;
    if (!parts && d->from[at->index] == NO_INDEX)
        return;
    const uint32_t from = parts ? ptxb_place_of(&b->code[0], insn) : d->from[at->index];
    const uint32_t target = target_of(b, entry, insn);
    const bool back = target < at->index;
    const uint32_t next = at->index + 1;
    const uint32_t first = back ? target : d->until > next ? d->until : next;
    const uint32_t last = back ? at->index : target;
    if (!back && d->until < target)
        d->until = target;
    for (uint32_t k = first; k < last; k++) {
        if (d->from[k] != NO_INDEX)
            continue;
        d->from[k] = from;
        d->changes += back;
    }
}

static void find_divergence(ptx_builder *b, struct divergence *d, const struct entry *entry)
{
    const struct insn *insn = ptxb_first(&b->code[1], &entry->prologue);

    for (uint32_t k = 0; k < entry->prologue.count; k++, insn = ptxb_next(insn))
        b->regs.at[insn->operands[0].id].varying |= differs(b, insn);
    for (struct reader r = read_body(b, entry); r.insn; read_next(&r)) {
        if (r.insn->kind == INSN_LABEL)
            b->labels.at[r.insn->operands[0].value - 1].changes = d->changes;
        mark_results(b, d, entry, &r);
        if (r.insn->kind != INSN_BRANCH && r.insn->kind != INSN_RETURN)
            continue;
        mark_region(b, d, entry, &r);
        if (target_of(b, entry, r.insn) > r.index)
            continue;
        // Once more around the loop, until nothing changes in it.
        struct label *head = label_of(b, r.insn);
        if (head->changes != d->changes) {
            r = read_from(b, &r, head);
            d->until = 0;
        }
        head->changes = d->changes;
    }
}

static void report_barriers(ptx_builder *b, const struct divergence *d, const struct entry *entry)
{
    unsigned nth = 0;

    for (struct reader r = read_body(b, entry); r.insn; read_next(&r)) {
        if (r.insn->kind != INSN_BARRIER)
            continue;
        nth++;
        if (d->from[r.index] == NO_INDEX)
            continue;
        const struct insn *from = ptxb_insn(&b->code[0], d->from[r.index]);
        char text[96] = "a return";
        if (from->kind == INSN_BRANCH)
            ptxb_label_text(label_of(b, from), text);
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
    const size_t bytes = entry->body.count * sizeof(uint32_t);
    struct divergence d = { .from = ptxb_resize(b, NULL, 0, bytes) };

    if (!d.from)
        return false;
    memset(d.from, 0xff, bytes); // NO_INDEX
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
    uint64_t *at_label; // by label of the entry: whether it was reached, and what is defined there
    size_t words;       // of a set
    uint32_t first_reg, first_label;
    bool reached;
    bool changed;
};

// Whether the label was reached, and behind it the set.
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
    bool ok = true;

    for (unsigned k = insn->dst_count; ok && k < insn->operand_count; k++) {
        const uint32_t reg = ptxb_operand_reg(&insn->operands[k]);
        ok = !reg || defined(f, reg);
    }
    if (!ok)
        ptxb_fail(b, "branch",
                  "an operand of '%s' is not defined on every path to it: a branch jumps "
                  "over its definition",
                  b->opcodes.at[insn->opcode].text);
    return ok;
}

static void define_results(struct flow *f, const struct insn *insn)
{
    for (unsigned k = 0; k < insn->dst_count; k++) {
        const uint32_t bit = insn->operands[k].id - f->first_reg;
        f->now[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
}

static void walk(ptx_builder *b, struct flow *f, const struct entry *entry, bool report)
{
    const struct insn *first = ptxb_first(&b->code[1], &entry->prologue);

    memset(f->now, 0, f->words * sizeof *f->now);
    f->reached = true;
    for (uint32_t k = 0; k < entry->prologue.count; k++, first = ptxb_next(first))
        define_results(f, first);
    for (struct reader r = read_body(b, entry); r.insn; read_next(&r)) {
        const struct insn *insn = r.insn;
        if (insn->kind == INSN_LABEL) {
            join(f, insn->operands[0].value);
            const uint64_t *known = at_label(f, insn->operands[0].value);
            f->reached = *known;
            if (*known)
                memcpy(f->now, known + 1, f->words * sizeof *f->now);
        }
        if (report && f->reached && !uses_are_defined(b, f, insn))
            return;
        define_results(f, insn);
        if (insn->kind == INSN_BRANCH)
            join(f, insn->operands[insn->guarded].value);
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
        walk(b, &f, entry, false);
    } while (f.changed);
    walk(b, &f, entry, true);
    ptxb_resize(b, f.now, bytes, 0);
    return !b->failed;
}

bool ptxb_check_entry(ptx_builder *b, struct entry *entry)
{
    if (!labels_are_placed(b, entry))
        return false;
    if (entry->raw_labels && !definitions_reach(b, entry))
        return false;
    // All threads come by a barrier that stands in no block, with no return before it.
    const bool passed = entry->inner_barriers || (entry->barriers && entry->raw_labels);
    return !passed || barriers_are_uniform(b, entry);
}

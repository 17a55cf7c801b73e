// SPDX-License-Identifier: MIT
// Labels and the branches to them.
#include "internal.h"

#include <stdio.h>
#include <string.h>

uint32_t ptxb_label(ptx_builder *b, const char *name, uint32_t number, const char *part)
{
    if (b->failed || !ROOM_FOR(b, b->labels, 1))
        return 0;
    b->labels.at[b->labels.count++] = (struct label) {
        .name = name,
        .part = part,
        .number = number,
        .entry = (uint16_t)(b->entries.count - 1),
    };
    return b->labels.count;
}

void ptxb_place(ptx_builder *b, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_LABEL, 0, 0, 1);
    if (!insn)
        return;
    struct label *placed = &b->labels.at[label - 1];
    insn->operands[0] = (struct operand) { .kind = OPERAND_LABEL, .value = label };
    insn->named = 1;
    placed->placed = true;
    placed->index = b->code[0].insns - 1;
    placed->place = b->code[0].last;
    placed->block = b->blocks.at[b->blocks.count - 1].id;
}

void ptxb_branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label)
{
    struct insn *insn = ptxb_append(b, INSN_BRANCH, ptxb_opcode(b, "bra"), 0, guard ? 2 : 1);
    if (!insn)
        return;
    struct label *to = &b->labels.at[label - 1];
    if (guard)
        ptxb_guard(b, insn, guard, negated);
    insn->operands[guard != 0] = (struct operand) { .kind = OPERAND_LABEL, .value = label };
    insn->named = 1;
    if (!to->uses++)
        to->first_use = b->code[0].insns - 1;
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
    if (!name)
        name = "label";
    // "$shared_1" and "$local_1" are arrays.
    const bool taken = !strcmp(name, "shared") || !strcmp(name, "local");
    const char *own = ptxb_join(b, name, NULL);
    label.id = ptxb_label(b, own, ++ptxb_entry(b)->labels, taken ? "_label" : "");
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
    ptxb_place(b, label.id);
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

void ptxb_label_text(const struct label *label, char out[96])
{
    snprintf(out, 96, "$%.64s_%u%s", label->name, label->number, label->part);
}

// SPDX-License-Identifier: MIT
// Divergence analysis: a barrier needs all threads of the block, a warp instruction with the full
// mask needs all lanes of the warp.
#include "lane_bits.h"

#include <stdio.h>

// Code between a divergent branch and its label is divergent, and so is code that a jump out of
// divergent code skips. Variables written in divergent code vary afterwards. These facts only grow.
// A fact that grows in a loop can matter to earlier code of the loop, so loops are read again until
// nothing changes.
struct divergence {
    enum meeting scope;
    struct lane_bits *values; // by register of the entry
    uint32_t *from; // by instruction: index of the branch that made it divergent, or NO_INDEX
    uint32_t first_reg;
    uint32_t changes; // number of changes that can matter to code already read
    uint32_t until;   // all code from here up to this index is divergent
    enum rows rows;
    bool rows_of_warps;  // each warp has 32 threads of one row of the block
    bool whole_rows;     // and the length of a row is a multiple of 32
    bool uniform_params; // the parameters of the function are the same in all threads
    bool by_rows;        // what is known of the block's rows was asked for
};

static struct lane_bits *value_at(const struct divergence *d, uint32_t reg)
{
    return &d->values[reg - d->first_reg];
}

// ---- what instructions make of it ---------------------------------------------------------------

static struct lane_bits source_of(const ptx_builder *b, const struct divergence *d,
                                  const struct operand *operand)
{
    const uint32_t reg = ptxb_operand_reg(operand);

    if (reg)
        return *value_at(d, reg);
    if (operand->kind == OPERAND_WIDE)
        return ptxb_constant_bits(b->extras.at[operand->value].bits);
    return operand->kind == OPERAND_IMMEDIATE ? ptxb_constant_bits(operand->value)
                                              : ptxb_uniform_if(true);
}

static struct lane_bits special_register(struct divergence *d, const char *name, bool varying)
{
    d->by_rows |= !strncmp(name, "%tid", 4) || !strncmp(name, "%ntid", 5);
    if (!strcmp(name, "%laneid") || !strcmp(name, "%tid.x"))
        return name[1] == 'l' || d->rows_of_warps ? ptxb_low_bits_differ(5)
                                                  : ptxb_uniform_if(false);
    if (!strcmp(name, "%tid.y") || !strcmp(name, "%tid.z"))
        return ptxb_uniform_if(d->rows_of_warps);
    if (!strcmp(name, "%ntid.x"))
        return ptxb_low_bits_zero(d->whole_rows ? 5 : 0);
    return ptxb_uniform_if(!varying || !strcmp(name, "%warpid") || !strcmp(name, "%smid"));
}

// Whether the result is uniform, as it is if all operands are.
static bool is_alike(const struct divergence *d, const struct insn *insn,
                     const struct operand *operands)
{
    for (unsigned k = insn->dst_count; !insn->varying && k < insn->operand_count; k++) {
        const uint32_t reg = ptxb_operand_reg(&operands[k]);
        if (reg && value_at(d, reg)->differ)
            return false;
    }
    return !insn->varying;
}

// For the lanes of a warp.
static void find_in_warp(const ptx_builder *b, struct divergence *d, const struct insn *insn,
                         const struct operand *operands, struct lane_bits *result)
{
    struct opcode *opcode = &b->opcodes.at[insn->opcode];
    const bool single = insn->dst_count == 1 && insn->operand_count <= 5 && !operands[1].open;

    if (single && operands[1].kind == OPERAND_TEXT) {
        *result = special_register(d, b->extras.at[operands[1].value].text, insn->varying);
    } else if (!single || !ptxb_has_lane_rule(opcode, insn)) {
        *result = ptxb_uniform_if(is_alike(d, insn, operands));
    } else {
        struct lane_bits source[4] = { { 0 } };
        for (unsigned k = 1; k < insn->operand_count; k++)
            source[k - 1] = source_of(b, d, &operands[k]);
        ptxb_lane_bits(opcode, insn, source, result);
    }
}

// What the caller of ptx_asm() said.
static bool is_said_alike(const struct divergence *d, const struct insn *insn,
                          const struct operand *operands)
{
    switch (insn->divergence - 1) {
    case PTX_DIVERGENCE_OPERANDS:
        return is_alike(d, insn, operands);
    case PTX_DIVERGENCE_WARPS:
        return d->scope == MEET_WARP;
    default:
        return insn->divergence - 1 == PTX_DIVERGENCE_NONE;
    }
}

// Result `k` is that of uniform arguments, or varies.
static struct lane_bits call_result(const ptx_builder *b, struct divergence *d,
                                    const struct insn *insn, const struct operand *operands,
                                    unsigned k)
{
    const uint32_t function = operands[insn->dst_count].id;

    if (function == MOST_INDEX || !is_alike(d, insn, operands))
        return ptxb_uniform_if(false);
    const struct entry *callee = &b->entries.at[function];
    const uint8_t *differs = callee->result_differs[k][d->scope];
    d->by_rows |=
        differs[ROWS_SINGLE] != differs[ROWS_WHOLE] || differs[ROWS_ANY] != differs[ROWS_WHOLE];
    return ptxb_cut_to_type(ptxb_low_bits_differ(differs[d->rows]),
                            ptxb_carrier((ptx_type)callee->result[k]));
}

// Of result `k`. Written where it stays: a struct that is copied as soon as it is made waits for
// its stores.
static void find_result(const ptx_builder *b, struct divergence *d, const struct insn *insn,
                        const struct operand *operands, unsigned k, struct lane_bits *result)
{
    if (insn->param)
        *result = ptxb_uniform_if(d->uniform_params);
    else if (insn->calls)
        *result = call_result(b, d, insn, operands, k);
    else if (insn->divergence)
        *result = ptxb_uniform_if(is_said_alike(d, insn, operands));
    else if (insn->kind == INSN_BARRIER)
        *result = ptxb_uniform_if(true); // same result in all threads
    else if (d->scope == MEET_WARP)
        find_in_warp(b, d, insn, operands, result);
    else
        *result = ptxb_uniform_if(is_alike(d, insn, operands));
}

// ---- the analysis -------------------------------------------------------------------------------

// Marks the registers that a branch may depend on, and the instructions that make them: nothing
// else can make code divergent. A mark in a loop can matter to later code, so marks are made until
// there are no more.
static void find_deciding(ptx_builder *b, const struct entry *entry)
{
    const struct code *code = &b->code[0];
    bool again = true;

    while (again) {
        again = false;
        for (uint32_t k = code->insns.count; k-- > 0;) {
            struct insn *insn = &code->insns.at[k];
            if (insn->decides)
                continue;
            const struct operand *operands = ptxb_operands(code, insn);
            bool decides = false;
            for (unsigned n = 0; n < insn->dst_count; n++)
                decides |= b->regs.at[operands[n].id].decides;
            if (!decides)
                continue;
            insn->decides = 1;
            for (unsigned n = insn->dst_count; n < insn->operand_count; n++) {
                struct reg *reg = &b->regs.at[ptxb_operand_reg(&operands[n])]; // [0]: none
                again |= !reg->decides && (reg->variable || entry->raw_labels);
                reg->decides = 1;
            }
        }
    }
}

static void mark_results(ptx_builder *b, struct divergence *d, const struct entry *entry,
                         uint32_t at)
{
    const struct insn *insn = &b->code[0].insns.at[at];
    const struct operand *operands = ptxb_operands(&b->code[0], insn);
    const bool here = d->from[at] != NO_INDEX;
    unsigned most = 0;

    while (most < insn->dst_count && value_at(d, operands[most].id)->differ == UINT64_MAX)
        most++;
    if (most == insn->dst_count) // no more facts to find
        return;
    struct lane_bits result;
    for (unsigned k = 0; k < insn->dst_count; k++) {
        const struct reg *reg = &b->regs.at[operands[k].id];
        struct lane_bits *known = value_at(d, operands[k].id);
        const struct lane_bits before = *known;
        if (k == 0 || insn->calls)
            find_result(b, d, insn, operands, k, known);
        else
            *known = result;
        if (k == 0 && insn->dst_count > 1)
            result = *known;
        // Without structured blocks, a value can be used after the divergent loop that defines it.
        if (here && (reg->variable || entry->raw_labels))
            *known = ptxb_uniform_if(false);
        if (reg->assumed && d->scope == MEET_WARP)
            known->differ = 0;
        if (!reg->variable) // written before it is read
            continue;
        *known = ptxb_also_written(before, *known);
        d->changes += known->differ != before.differ || known->zero != before.zero ||
                      known->one != before.one;
    }
}

static void mark_region(const ptx_builder *b, struct divergence *d, uint32_t at)
{
    const struct insn *insn = &b->code[0].insns.at[at];
    const bool here = insn->guarded && value_at(d, ptxb_operands(&b->code[0], insn)[0].id)->differ;
    if (!here && d->from[at] == NO_INDEX)
        return;
    const uint32_t from = here ? at : d->from[at];
    const uint32_t target = ptxb_target_of(b, insn);
    const bool back = target < at;
    const uint32_t next = at + 1;
    const uint32_t first = back ? target : d->until > next ? d->until : next;
    const uint32_t last = back ? at : target;
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
    const struct code *code = &b->code[0], *prologue = &b->code[1];

    for (uint32_t k = 0; k < prologue->insns.count; k++) {
        const struct operand *operands = ptxb_operands(prologue, &prologue->insns.at[k]);
        find_result(b, d, &prologue->insns.at[k], operands, 0, value_at(d, operands[0].id));
    }
    for (uint32_t k = 0; k < code->insns.count; k++) {
        const struct insn *insn = &code->insns.at[k];
        if (!insn->decides)
            continue;
        if (insn->kind == INSN_LABEL)
            ptxb_label_of(b, insn)->changes = d->changes;
        mark_results(b, d, entry, k);
        if (insn->kind != INSN_BRANCH && insn->kind != INSN_RETURN)
            continue;
        mark_region(b, d, k);
        if (ptxb_target_of(b, insn) > k)
            continue;
        // Reads the loop again until nothing changes in it.
        struct label *head = ptxb_label_of(b, insn);
        if (head->changes != d->changes) {
            k = head->index; // continue after the label
            d->until = 0;
        }
        head->changes = d->changes;
    }
}

// The first instruction of the scope that only some threads may reach, and its number among them;
// NO_INDEX: none.
static uint32_t find_violation(const ptx_builder *b, const struct divergence *d, unsigned *nth)
{
    const struct code *code = &b->code[0];
    const enum insn_kind kind = d->scope == MEET_WARP ? INSN_WARP : INSN_BARRIER;

    *nth = 0;
    for (uint32_t k = 0; k < code->insns.count; k++) {
        if (code->insns.at[k].kind != kind)
            continue;
        ++*nth;
        if (d->from[k] != NO_INDEX)
            return k;
    }
    return NO_INDEX;
}

// The function that the instruction calls, or NULL.
static const char *called(const ptx_builder *b, const struct insn *insn)
{
    const struct operand *operands = ptxb_operands(&b->code[0], insn);

    return insn->calls ? b->entries.at[operands[insn->dst_count].id].decl.name : NULL;
}

static void report_barrier(ptx_builder *b, uint32_t k, unsigned nth, const char *to)
{
    const char *function = called(b, &b->code[0].insns.at[k]);

    if (function)
        ptxb_fail_insn(
            b, k, "call",
            "'%.64s' has a barrier, and its call is in code that only some threads may reach: the "
            "condition of the branch to %s differs between threads of a block. Move the call out, "
            "or make the condition the same for all",
            function, to);
    else
        ptxb_fail_insn(b, k, "barrier",
                       "barrier %u of the %s is in code that only some threads may reach: the "
                       "condition of the branch to %s differs between threads of a block. Move the "
                       "barrier out, or make the condition the same for all",
                       nth, ptxb_entry_kind(ptxb_entry(b)), to);
}

static void report_warp(ptx_builder *b, uint32_t k, const char *to)
{
    const struct insn *insn = &b->code[0].insns.at[k];
    const char *function = called(b, insn);

    if (function)
        ptxb_fail_insn(
            b, k, "call",
            "'%.64s' has operations of the full warp, and its call is in code that only some lanes "
            "of a warp may reach: the condition of the branch to %s differs between lanes. Move "
            "the call out, or make the condition the same for whole warps (tid / 32 == 0, say)",
            function, to);
    else
        ptxb_fail_insn(
            b, k, NULL,
            insn->whole
                ? "%s needs all lanes of a warp, and is in code that only some lanes of a warp "
                  "may reach: the condition of the branch to %s differs between lanes. Move it "
                  "out, or make the condition the same for whole warps (tid / 32 == 0, say)"
                : "%s with the full mask is in code that only some lanes of a warp may reach: "
                  "the condition of the branch to %s differs between lanes. Move it out, make "
                  "the condition the same for whole warps (tid / 32 == 0, say), or pass the "
                  "mask of the lanes that get there, from a ptx_ballot before the branch",
            b->opcodes.at[insn->opcode].text, to);
}

static void report_text(ptx_builder *b, const struct divergence *d, uint32_t k, const char *to)
{
    ptxb_fail_insn(b, k, "asm",
                   "'%s' needs all threads of a %s and is in code that only some may reach: the "
                   "condition of the branch to %s differs between them. Move it out, make the "
                   "condition the same for all, or say in .convergence what the text needs",
                   b->opcodes.at[b->code[0].insns.at[k].opcode].text,
                   d->scope == MEET_WARP ? "warp" : "block", to);
}

enum { TARGET_BYTES = 256 };

// Where the branch goes, and its place if that is known: "$if_1_end (kernel.c:12)". The end of a
// long path is the part that tells files apart.
static void write_target(const ptx_builder *b, uint32_t branch, char out[TARGET_BYTES])
{
    const struct insn *from = &b->code[0].insns.at[branch];
    const char *place = ptxb_place_of(b, branch);
    char label[96] = "a return";

    if (from->kind == INSN_BRANCH)
        ptxb_label_text(ptxb_label_of(b, from), label);
    const size_t most = 100, length = place ? strlen(place) : 0;
    if (!place)
        snprintf(out, TARGET_BYTES, "%s", label);
    else if (length > most)
        snprintf(out, TARGET_BYTES, "%s (...%s)", label, place + length - most);
    else
        snprintf(out, TARGET_BYTES, "%s (%s)", label, place);
}

static void report(ptx_builder *b, const struct divergence *d)
{
    unsigned nth;
    const uint32_t k = find_violation(b, d, &nth);
    char to[TARGET_BYTES];

    if (k == NO_INDEX)
        return;
    write_target(b, d->from[k], to);
    if (b->code[0].insns.at[k].divergence)
        report_text(b, d, k, to);
    else if (d->scope == MEET_BLOCK)
        report_barrier(b, k, nth, to);
    else
        report_warp(b, k, to);
}

// What the caller of a function passes is not known, and taken to be the same in all lanes.
static void report_uniforms(ptx_builder *b, const struct divergence *d)
{
    for (uint32_t k = 0; k < b->uniforms.count && !b->failed; k++) {
        const struct uniform *u = &b->uniforms.at[k];
        if (value_at(d, u->reg)->differ)
            ptxb_fail_insn(b, u->index, u->call,
                           "%s differs between lanes of a warp, and all lanes have parts of one "
                           "fragment. Compute it from what is the same for whole warps (tid / 32, "
                           "say), or declare that by ptx_assume_warp_uniform()",
                           u->name);
    }
}

// What an analysis is for: errors; what a function asks of blocks; the result of a function; what
// must be the same in a warp.
enum purpose { FOR_ERRORS, FOR_ROWS, FOR_RESULT, FOR_UNIFORMS };

static void conclude(ptx_builder *b, const struct divergence *d, struct entry *entry,
                     enum purpose purpose)
{
    unsigned nth;

    if (purpose == FOR_ERRORS)
        report(b, d);
    else if (purpose == FOR_UNIFORMS)
        report_uniforms(b, d);
    else if (purpose == FOR_RESULT)
        for (unsigned k = 0; k < entry->results; k++)
            entry->result_differs[k][d->scope][d->rows] = (uint8_t)ptxb_differing_bits(
                *value_at(d, entry->result_reg + k), ptxb_carrier((ptx_type)entry->result[k]));
    else if (d->rows <= entry->rows && find_violation(b, d, &nth) != NO_INDEX)
        entry->rows = (uint8_t)(d->rows - 1);
}

// Whether the conclusion depends on the rows.
static bool check_scope(ptx_builder *b, struct entry *entry, enum meeting scope, enum rows rows,
                        enum purpose purpose)
{
    const uint32_t registers = b->regs.count - entry->first_reg;
    const size_t value_bytes = registers * sizeof(struct lane_bits);
    const size_t from_bytes = b->code[0].insns.count * sizeof(uint32_t);
    struct divergence d = { .scope = scope,
                            .rows = rows,
                            .rows_of_warps = rows != ROWS_ANY,
                            .whole_rows = rows == ROWS_WHOLE,
                            .uniform_params = purpose == FOR_RESULT || purpose == FOR_UNIFORMS,
                            .first_reg = entry->first_reg };

    d.values = ptxb_resize(b, NULL, 0, value_bytes + from_bytes);
    if (!d.values)
        return false;
    memset(d.values, 0, value_bytes); // the state before any write
    d.from = (uint32_t *)(d.values + registers);
    memset(d.from, 0xff, from_bytes); // NO_INDEX
    find_divergence(b, &d, entry);
    conclude(b, &d, entry, purpose);
    ptxb_resize(b, d.values, value_bytes + from_bytes, 0);
    return d.by_rows;
}

// What callers of a function have to know. `by_rows`: its warp operations depend on the rows.
static void summarise(ptx_builder *b, struct entry *entry, bool by_rows)
{
    for (int rows = ROWS_SINGLE; by_rows && rows <= entry->rows && !b->failed; rows++)
        check_scope(b, entry, MEET_WARP, (enum rows)rows, FOR_ROWS);
    for (int scope = 0; entry->results && scope < MEETINGS; scope++) {
        by_rows = check_scope(b, entry, (enum meeting)scope, ROWS_WHOLE, FOR_RESULT);
        for (int rows = ROWS_SINGLE; rows < ROWS_COUNT && !b->failed; rows++)
            if (by_rows)
                check_scope(b, entry, (enum meeting)scope, (enum rows)rows, FOR_RESULT);
            else
                for (unsigned k = 0; k < entry->results; k++) {
                    uint8_t *differs = entry->result_differs[k][scope];
                    differs[rows] = differs[ROWS_WHOLE];
                }
    }
}

bool ptxb_check_divergence(ptx_builder *b, struct entry *entry)
{
    const enum rows rows = ptxb_rows(entry->decl.block);
    bool found = false, by_rows = false;

    for (int scope = 0; scope < MEETINGS && !b->failed; scope++) {
        // All threads reach code that is in no block and after no return.
        if (!entry->inner[scope] && !(entry->meets[scope] && entry->raw_labels))
            continue;
        if (!found)
            find_deciding(b, entry);
        found = true;
        by_rows = check_scope(b, entry, (enum meeting)scope, rows, FOR_ERRORS);
    }
    if ((entry->results || b->uniforms.count) && !found && !b->failed)
        find_deciding(b, entry);
    if (b->uniforms.count && !b->failed)
        check_scope(b, entry, MEET_WARP, rows, FOR_UNIFORMS);
    if (entry->is_function && !b->failed)
        summarise(b, entry, by_rows);
    return !b->failed;
}

void ptxb_require_uniform(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    if ((x.kind != PTX_KIND_REGISTER && x.kind != PTX_KIND_VARIABLE) || b->failed ||
        !ROOM_FOR(b, b->uniforms, 1))
        return;
    b->regs.at[x.reg].decides = 1;
    b->uniforms.at[b->uniforms.count++] =
        (struct uniform) { call, name, x.reg, b->code[0].insns.count };
}

void ptxb_meet(ptx_builder *b, enum meeting scope)
{
    if (b->failed)
        return;
    struct entry *entry = ptxb_entry(b);
    ptxb_newest(b)->kind = scope == MEET_WARP ? INSN_WARP : INSN_BARRIER;
    entry->meets[scope] = true;
    entry->inner[scope] |= b->blocks.count > 1 || entry->returns;
}

void ptxb_meet_whole_warps(ptx_builder *b)
{
    ptxb_meet(b, MEET_WARP);
    if (!b->failed)
        ptxb_newest(b)->whole = 1;
}

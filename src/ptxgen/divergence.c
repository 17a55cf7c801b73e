// SPDX-License-Identifier: MIT
// Divergence analysis: a barrier needs all threads of the block, a warp instruction with the full
// mask needs all lanes of the warp.
#include "internal.h"

#include <stdio.h>

// What is known about a value across the threads of a block, or of each of its warps: the bits from
// `spread` up are the same in all threads, and the `zeros` lowest bits are zero. In a warp %tid.x
// has spread 5; %tid.x >> 5 has spread 0, which is uniform; x < 64 is uniform if x has spread 5,
// because 64 has enough zero bits. Floats and predicates have spread 0 or VARIES. A `reversed`
// value counts down: it is a multiple of 2^spread minus the lower bits.
struct value {
    uint8_t spread, zeros;
    bool reversed;
};
enum { MOST_BITS = 16, VARIES = 64 }; // larger spreads count as VARIES

static struct value make_value(unsigned spread, unsigned zeros)
{
    return (struct value) { .spread = spread <= MOST_BITS ? (uint8_t)spread : VARIES,
                            .zeros = zeros <= MOST_BITS ? (uint8_t)zeros : MOST_BITS };
}

static unsigned larger(unsigned x, unsigned y)
{
    return x > y ? x : y;
}

static unsigned smaller(unsigned x, unsigned y)
{
    return x < y ? x : y;
}

// Code between a divergent branch and its label is divergent, and so is code that a jump out of
// divergent code skips. Variables written in divergent code vary afterwards. These facts only grow.
// A fact that grows in a loop can matter to earlier code of the loop, so loops are read again until
// nothing changes.
struct divergence {
    enum meeting scope;
    struct value *values; // by register of the entry
    uint32_t *from;       // by instruction: index of the branch that made it divergent, or NO_INDEX
    uint32_t first_reg;
    uint32_t changes; // number of changes that can matter to code already read
    uint32_t until;   // all code from here up to this index is divergent
    enum rows rows;
    bool rows_of_warps;  // each warp has 32 threads of one row of the block
    bool whole_rows;     // and the length of a row is a multiple of 32
    bool uniform_params; // the parameters of the function are the same in all threads
};

static struct value *value_at(const struct divergence *d, uint32_t reg)
{
    return &d->values[reg - d->first_reg];
}

// ---- what instructions make of it ---------------------------------------------------------------

struct source {
    struct value v;
    bool constant;
    uint64_t bits; // of a constant
};

static struct source source_of(const ptx_builder *b, const struct divergence *d,
                               const struct operand *operand)
{
    const uint32_t reg = ptxb_operand_reg(operand);
    struct source s = { .v = make_value(0, 0) };

    if (reg) {
        s.v = *value_at(d, reg);
    } else if (operand->kind == OPERAND_IMMEDIATE || operand->kind == OPERAND_WIDE) {
        unsigned zeros = 0;
        s.constant = true;
        s.bits = operand->kind == OPERAND_WIDE ? b->extras.at[operand->value].bits : operand->value;
        while (zeros < MOST_BITS && !(s.bits >> zeros & 1))
            zeros++;
        s.v = make_value(0, zeros);
    }
    return s;
}

static struct value uniform_if(bool uniform)
{
    return make_value(uniform ? 0 : VARIES, 0);
}

static struct value sum(struct value x, struct value y, bool minus)
{
    const unsigned zeros = smaller(x.zeros, y.zeros);

    if (!y.spread && (!x.spread || y.zeros >= x.spread))
        return make_value(x.spread, zeros);
    if (!x.spread && !minus && x.zeros >= y.spread)
        return make_value(y.spread, zeros);
    return make_value(VARIES, 0);
}

static struct value shifted_left(struct value x, struct source by)
{
    if (by.v.spread)
        return make_value(VARIES, 0);
    const unsigned n = by.constant ? (unsigned)smaller((unsigned)by.bits, 64) : 0;
    if (x.spread)
        return by.constant ? make_value(x.spread + n, x.zeros + n) : make_value(VARIES, 0);
    return make_value(0, x.zeros + n);
}

static struct value shifted_right(struct value x, struct source by)
{
    if (by.v.spread || x.spread == VARIES)
        return uniform_if(false);
    const unsigned n = by.constant ? (unsigned)smaller((unsigned)by.bits, 64) : 0;
    return make_value(x.spread > n ? x.spread - n : 0,
                      by.constant && x.zeros > n ? x.zeros - n : 0);
}

// log2 of a constant power of two, else -1.
static int power_of(struct source s)
{
    int k = 0;

    if (!s.constant || !s.bits || (s.bits & (s.bits - 1)))
        return -1;
    while (s.bits >> k != 1)
        k++;
    return k;
}

static struct value product(struct source x, struct source y)
{
    if (!x.v.spread && !y.v.spread)
        return make_value(0, x.v.zeros + y.v.zeros);
    const struct source other = x.v.spread ? y : x;
    const int power = power_of(other);
    if (other.v.spread || power < 0)
        return make_value(VARIES, 0);
    return shifted_left(x.v.spread ? x.v : y.v,
                        (struct source) { .constant = true, .bits = (uint64_t)power });
}

static struct value masked(struct source x, struct source y)
{
    const unsigned zeros = larger(x.v.zeros, y.v.zeros);
    unsigned spread = larger(x.v.spread, y.v.spread);

    if (x.constant || y.constant) { // the bits that the mask keeps
        const uint64_t mask = x.constant ? x.bits : y.bits;
        unsigned bits = smaller(spread, 64);
        while (bits && !(mask >> (bits - 1) & 1))
            bits--;
        spread = bits;
    }
    return make_value(spread <= zeros ? 0 : spread, zeros);
}

// Unsigned division or remainder.
static struct value quotient(struct source x, struct source y, bool remainder)
{
    const int power = power_of(y);

    if (!x.v.spread || y.v.spread)
        return uniform_if(!y.v.spread);
    if (y.v.zeros >= x.v.spread)
        return make_value(remainder ? x.v.spread : 0, 0);
    if (power < 0)
        return make_value(VARIES, 0);
    return remainder
               ? make_value(smaller(x.v.spread, (unsigned)power), 0)
               : shifted_right(x.v, (struct source) { .constant = true, .bits = (uint64_t)power });
}

// Whether a window of 2^spread numbers that starts at a multiple of 2^spread lies on one side of
// the bound: below a multiple of it, or up to a multiple minus one.
static bool splits_no_window(struct source bound, unsigned spread, bool inclusive)
{
    if (bound.v.spread || spread > MOST_BITS)
        return false;
    if (!inclusive)
        return bound.v.zeros >= spread;
    return bound.constant && !((bound.bits + 1) & ((UINT64_C(1) << spread) - 1));
}

static struct value compared(const char *how, struct source x, struct source y)
{
    if (!x.v.spread && !y.v.spread)
        return uniform_if(true);
    const bool less_or_not = !strncmp(how, "lt", 2) || !strncmp(how, "ge", 2);
    const bool order = less_or_not || !strncmp(how, "le", 2) || !strncmp(how, "gt", 2);
    if (!order || (x.v.spread && y.v.spread) || y.v.reversed)
        return uniform_if(false);
    if (x.v.reversed)
        return uniform_if(!less_or_not && splits_no_window(y, x.v.spread, false));
    return uniform_if(x.v.spread ? splits_no_window(y, x.v.spread, !less_or_not)
                                 : splits_no_window(x, y.v.spread, less_or_not));
}

static struct value special_register(const struct divergence *d, const char *name, bool varying)
{
    if (!strcmp(name, "%laneid") || !strcmp(name, "%tid.x"))
        return name[1] == 'l' || d->rows_of_warps ? make_value(5, 0) : make_value(VARIES, 0);
    if (!strcmp(name, "%tid.y") || !strcmp(name, "%tid.z"))
        return uniform_if(d->rows_of_warps);
    if (!strcmp(name, "%ntid.x"))
        return make_value(0, d->whole_rows ? 5 : 0);
    return uniform_if(!varying || !strcmp(name, "%warpid") || !strcmp(name, "%smid"));
}

// The rule for the results of an instruction; looked up once for each opcode.
enum rule { UNKNOWN, ALIKE, MOVE, ADD, SUB, MUL, MAD, SHL, SHR, AND, OR, NOT, DIV, REM, BFE };
enum { COMPARE = BFE + 1, CHOOSE, AGREE, ONE_LANE };

static bool starts_with(const char *text, const char *start)
{
    while (*start && *start == *text++)
        start++;
    return !*start;
}

// Rules for integers used in indices and for results that lanes agree on. All other instructions
// are ALIKE: uniform if all operands are.
static uint8_t rule_of(const char *text)
{
    static const struct {
        char opcode[16];
        uint8_t rule;
    } rules[] = {
        { "mov.", MOVE },
        { "cvt.", MOVE },
        { "add.", ADD },
        { "sub.", SUB },
        { "mul.lo.", MUL },
        { "mul.wide.", MUL },
        { "mad.lo.", MAD },
        { "mad.wide.", MAD },
        { "shl.", SHL },
        { "shr.", SHR },
        { "and.", AND },
        { "or.", OR },
        { "xor.", OR },
        { "not.", NOT },
        { "div.u", DIV },
        { "rem.u", REM },
        { "bfe.u", BFE },
        { "setp.", COMPARE },
        { "selp.", CHOOSE },
        { "vote.", AGREE },
        { "redux.", AGREE },
        { "match.all.", AGREE },
        { "shfl.sync.idx.", ONE_LANE },
    };

    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (starts_with(text, rules[k].opcode))
            return strstr(text, ".f") || strstr(text, ".bf") || strstr(text, ".sat")
                       ? ALIKE
                       : rules[k].rule;
    return ALIKE;
}

static struct value alike(const struct divergence *d, const struct insn *insn,
                          const struct operand *operands)
{
    if (insn->varying)
        return uniform_if(false);
    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const uint32_t reg = ptxb_operand_reg(&operands[k]);
        if (reg && value_at(d, reg)->spread)
            return uniform_if(false);
    }
    return uniform_if(true);
}

// For the lanes of a warp.
static struct value lanes_result(const ptx_builder *b, const struct divergence *d,
                                 const struct insn *insn, const struct operand *operands)
{
    struct opcode *opcode = &b->opcodes.at[insn->opcode];
    struct source s[4] = { 0 };
    unsigned n = 0;

    if (opcode->rule == UNKNOWN)
        opcode->rule = rule_of(opcode->text);
    if (opcode->rule == ALIKE || insn->dst_count != 1 || insn->operand_count > 5 ||
        operands[1].open)
        return alike(d, insn, operands);
    for (unsigned k = 1; k < insn->operand_count; k++)
        s[n++] = source_of(b, d, &operands[k]);
    const struct value x = s[0].v, y = s[1].v;
    if ((x.reversed || y.reversed) && opcode->rule != MOVE && opcode->rule != COMPARE)
        return make_value(VARIES, 0);
    switch (opcode->rule) {
    case MOVE:
        return operands[1].kind == OPERAND_TEXT
                   ? special_register(d, b->extras.at[operands[1].value].text, insn->varying)
                   : x;
    case ADD:
        return sum(x, y, false);
    case SUB:
        if (insn->positive && y.spread && !x.spread && x.zeros >= y.spread)
            return (struct value) { .spread = y.spread, .reversed = true };
        return sum(x, y, true);
    case MUL:
        return product(s[0], s[1]);
    case MAD:
        return s[2].v.reversed ? make_value(VARIES, 0) : sum(product(s[0], s[1]), s[2].v, false);
    case SHL:
        return shifted_left(x, s[1]);
    case SHR:
        return shifted_right(x, s[1]);
    case AND:
        return masked(s[0], s[1]);
    case OR:
        return make_value(larger(x.spread, y.spread), smaller(x.zeros, y.zeros));
    case NOT:
        return make_value(x.spread, 0);
    case DIV:
        return quotient(s[0], s[1], false);
    case REM:
        return quotient(s[0], s[1], true);
    case BFE:
        return s[2].v.spread ? make_value(VARIES, 0) : shifted_right(x, s[1]);
    case COMPARE:
        return compared(opcode->text + strlen("setp."), s[0], s[1]);
    case CHOOSE:
        if (s[2].v.spread)
            return make_value(VARIES, 0);
        return make_value(larger(x.spread, y.spread), smaller(x.zeros, y.zeros));
    case AGREE:
        return uniform_if(!y.spread); // same result in all lanes of the mask
    default:                          // value of one lane: uniform in any case
        return uniform_if(!y.spread && s[2].bits == 31 && !s[3].v.spread);
    }
}

// What the caller of ptx_asm() said.
static struct value text_result(const struct divergence *d, const struct insn *insn,
                                const struct operand *operands)
{
    switch (insn->divergence - 1) {
    case PTX_DIVERGENCE_OPERANDS:
        return alike(d, insn, operands);
    case PTX_DIVERGENCE_WARPS:
        return uniform_if(d->scope == MEET_WARP);
    default:
        return uniform_if(insn->divergence - 1 == PTX_DIVERGENCE_NONE);
    }
}

// A result is that of uniform arguments, or varies.
static struct value call_result(const ptx_builder *b, const struct divergence *d,
                                const struct insn *insn, const struct operand *operands)
{
    const uint32_t function = operands[insn->dst_count].id;

    if (function == MOST_INDEX || alike(d, insn, operands).spread)
        return make_value(VARIES, 0);
    return make_value(b->entries.at[function].result_spread[d->scope][d->rows], 0);
}

static struct value result_of(const ptx_builder *b, const struct divergence *d,
                              const struct insn *insn, const struct operand *operands)
{
    if (insn->param)
        return uniform_if(d->uniform_params);
    if (insn->calls)
        return call_result(b, d, insn, operands);
    if (insn->divergence)
        return text_result(d, insn, operands);
    if (insn->kind == INSN_BARRIER)
        return uniform_if(true); // same result in all threads
    return d->scope == MEET_WARP ? lanes_result(b, d, insn, operands) : alike(d, insn, operands);
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
            const struct operand *operands = ptxb_operands(code, insn);
            bool decides = false;
            for (unsigned n = 0; !insn->decides && n < insn->dst_count; n++)
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

    while (most < insn->dst_count && value_at(d, operands[most].id)->spread == VARIES)
        most++;
    if (most == insn->dst_count) // no more facts to find
        return;
    const struct value result = result_of(b, d, insn, operands);
    for (unsigned k = 0; k < insn->dst_count; k++) {
        const struct reg *reg = &b->regs.at[operands[k].id];
        struct value *known = value_at(d, operands[k].id);
        // Without structured blocks, a value can be used after the divergent loop that defines it.
        const bool left = here && (reg->variable || entry->raw_labels);
        struct value v = make_value(left ? VARIES : larger(known->spread, result.spread),
                                    smaller(known->zeros, result.zeros));
        v.reversed = result.reversed;
        if (known->spread && known->reversed != result.reversed)
            v.spread = VARIES;
        if (reg->assumed && d->scope == MEET_WARP)
            v.spread = 0;
        if (v.spread == known->spread && v.zeros == known->zeros)
            continue;
        *known = v;
        d->changes += reg->variable; // other registers are written before they are read
    }
}

static void mark_region(const ptx_builder *b, struct divergence *d, uint32_t at)
{
    const struct insn *insn = &b->code[0].insns.at[at];
    const bool here = insn->guarded && value_at(d, ptxb_operands(&b->code[0], insn)[0].id)->spread;
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
        *value_at(d, operands[0].id) = result_of(b, d, &prologue->insns.at[k], operands);
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

// Instructions that take no mask.
static bool needs_warp(const char *opcode)
{
    return starts_with(opcode, "mma.") || strstr(opcode, "matrix.");
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
            needs_warp(b->opcodes.at[insn->opcode].text)
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
        if (value_at(d, u->reg)->spread)
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
        entry->result_spread[d->scope][d->rows] = value_at(d, entry->result_reg)->spread;
    else if (d->rows <= entry->rows && find_violation(b, d, &nth) != NO_INDEX)
        entry->rows = (uint8_t)(d->rows - 1);
}

static void check_scope(ptx_builder *b, struct entry *entry, enum meeting scope, enum rows rows,
                        enum purpose purpose)
{
    const uint32_t registers = b->regs.count - entry->first_reg;
    const size_t from_bytes = b->code[0].insns.count * sizeof(uint32_t);
    const size_t bytes = from_bytes + registers * sizeof(struct value);
    struct divergence d = { .scope = scope,
                            .rows = rows,
                            .rows_of_warps = rows != ROWS_ANY,
                            .whole_rows = rows == ROWS_WHOLE,
                            .uniform_params = purpose == FOR_RESULT || purpose == FOR_UNIFORMS,
                            .first_reg = entry->first_reg };

    d.from = ptxb_resize(b, NULL, 0, bytes);
    if (!d.from)
        return;
    d.values = (struct value *)(d.from + b->code[0].insns.count);
    memset(d.from, 0xff, from_bytes); // NO_INDEX
    for (uint32_t k = 0; k < registers; k++)
        d.values[k] = make_value(0, MOST_BITS); // the state before any write
    find_divergence(b, &d, entry);
    conclude(b, &d, entry, purpose);
    ptxb_resize(b, d.from, bytes, 0);
}

// What callers of a function have to know.
static void summarise(ptx_builder *b, struct entry *entry, bool needs_warps)
{
    for (int rows = ROWS_SINGLE; needs_warps && rows < ROWS_COUNT && !b->failed; rows++)
        check_scope(b, entry, MEET_WARP, (enum rows)rows, FOR_ROWS);
    for (int scope = 0; entry->result && scope < MEETINGS; scope++)
        for (int rows = 0; rows < ROWS_COUNT && !b->failed; rows++)
            check_scope(b, entry, (enum meeting)scope, (enum rows)rows, FOR_RESULT);
}

bool ptxb_check_divergence(ptx_builder *b, struct entry *entry)
{
    const enum rows rows = ptxb_rows(entry->decl.block);
    bool found = false, needs_warps = false;

    for (int scope = 0; scope < MEETINGS && !b->failed; scope++) {
        // All threads reach code that is in no block and after no return.
        if (!entry->inner[scope] && !(entry->meets[scope] && entry->raw_labels))
            continue;
        if (!found)
            find_deciding(b, entry);
        found = true;
        check_scope(b, entry, (enum meeting)scope, rows, FOR_ERRORS);
        needs_warps |= scope == MEET_WARP;
    }
    if ((entry->result || b->uniforms.count) && !found)
        find_deciding(b, entry);
    if (b->uniforms.count && !b->failed)
        check_scope(b, entry, MEET_WARP, rows, FOR_UNIFORMS);
    if (entry->is_function)
        summarise(b, entry, needs_warps);
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

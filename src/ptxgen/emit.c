// SPDX-License-Identifier: MIT
// Appends instructions: every value is checked here first.
#include "internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

static_assert(PTX_TYPE_COUNT <= 32, "operands and ptxb_spelling() have 5 bits for a type");
static_assert(PTX_OP_COUNT <= 128, "ptxb_spelling() has 7 bits for a row");

enum {
    FLOATS = (1 << PTX_F16) | (1 << PTX_BF16) | (1 << PTX_F32) | (1 << PTX_F64) | (1 << PTX_F16X2) |
             (1 << PTX_BF16X2) | (1 << PTX_E4M3X2) | (1 << PTX_E5M2X2) | (1 << PTX_TF32)
};

// ---- values -------------------------------------------------------------------------------------

static const struct entry *entry_of(const ptx_builder *b, uint32_t reg)
{
    uint32_t e = b->entries.count - 1;

    while (b->entries.at[e].first_reg > reg)
        e--;
    return &b->entries.at[e];
}

static void fail_immediate(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    double number;

    memcpy(&number, &x.bits, sizeof number); // where ptx_imm() keeps the number that does not fit
    if (x.kind == PTX_KIND_POISON)
        ptxb_fail(b, call, "%s is the immediate %.17g, which %s cannot hold", name, number,
                  ptx_type_name((ptx_type)x.type));
    else
        ptxb_fail(b, call, "%s is an immediate of %s with bits that its type does not have: 0x%llx",
                  name, ptx_type_name((ptx_type)x.type), (unsigned long long)x.bits);
}

// The number as C has it.
static const char *number_text(ptx_val x, char out[32])
{
    double real;

    memcpy(&real, &x.bits, sizeof real);
    if (x.type == PTX_F64 && !isfinite(real))
        snprintf(out, 32, "%s", isnan(real) ? "NAN" : real < 0 ? "-INFINITY" : "INFINITY");
    else if (x.type == PTX_F64)
        snprintf(out, 32, "%.17g", real);
    else if (x.type == PTX_S64)
        snprintf(out, 32, "%lld", (long long)x.bits);
    else
        snprintf(out, 32, "%llu", (unsigned long long)x.bits);
    return out;
}

// An integer in the type, poison if it does not fit.
static ptx_val integer_in(ptx_val x, ptx_type type)
{
    const unsigned bits = ptxb_bits(type);
    const bool negative = x.type == PTX_S64 && x.bits >> 63;
    const uint64_t low = x.bits & (UINT64_MAX >> (64 - bits));
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    bool fits = negative ? ~x.bits < sign && bits > 1 : low == x.bits;

    if (ptxb_is_integer(type))
        fits = fits && (type >= PTX_S8 ? negative || x.bits < sign : !negative);
    return fits ? ptx_imm_bits(type, low) : (ptx_val) { 0 };
}

ptx_val ptxb_number(ptx_builder *b, const char *call, const char *name, ptx_val x, ptx_type type)
{
    ptx_val typed = { 0 };
    double real;
    char text[32];

    if (b->failed || !ptxb_bits(type))
        return typed;
    if (x.type != PTX_F64 && x.bits <= INT16_MAX && (PTX_TYPES_BITS >> type & 1))
        return ptx_imm_bits(type, x.bits); // most: each of these types holds it
    if (x.type != PTX_F64 && !(FLOATS >> type & 1)) {
        typed = integer_in(x, type);
    } else {
        memcpy(&real, &x.bits, sizeof real);
        if (x.type != PTX_F64)
            real = x.type == PTX_S64 ? (double)(int64_t)x.bits : (double)x.bits;
        typed = ptx_imm(type, real);
    }
    if (typed.kind != PTX_KIND_POISON)
        return typed;
    ptxb_fail(b, call, "%s is the number %s, which %s cannot hold", name, number_text(x, text),
              ptx_type_name(type));
    return (ptx_val) { 0 };
}

// Where the place of the use is not known, that of the value is.
static void fail_closed(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    const char *const place = b->place ? b->place : ptxb_place_of(b, ptxb_index_of(b, x));

    ptxb_fail_place(b, place, b->code[0].insns.count, call,
                    "%s was made inside a block that is closed, so that it is not defined on every "
                    "path; make a ptx_var before the block and ptx_set it inside",
                    name);
}

void ptxb_fail_unusable(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    const bool typed = ptxb_bits((ptx_type)x.type) != 0;
    const char *const absent = b->restriction.absent ? b->restriction.absent(x) : NULL;
    char text[32];

    if (b->failed)
        return;
    if (x.kind != PTX_KIND_IMMEDIATE && x.kind != PTX_KIND_NUMBER && !x.bits && ptxb_follows(b))
        return;
    if (absent) {
        ptxb_fail(b, call, "%s was never set: it is %s", name, absent);
        return;
    }
    if (typed && x.kind == PTX_KIND_NUMBER) {
        const char *const types[] = {
            x.type == PTX_F64                          ? "f32"
            : x.type == PTX_S64 && (int64_t)x.bits < 0 ? "s32"
                                                       : "u32",
            x.type == PTX_F64 ? "f64" : "f32",
        };
        number_text(x, text);
        ptxb_fail(b, call,
                  "%s is the number %s, and nothing here has a type for it; write ptx_%s(%s), "
                  "ptx_%s(%s) or the like",
                  name, text, types[0], text, types[1], text);
        return;
    }
    if (typed && (x.kind == PTX_KIND_IMMEDIATE || x.kind == PTX_KIND_POISON))
        fail_immediate(b, call, name, x);
    else if (x.kind == PTX_KIND_POISON && x.bits && !x.reg) // what C makes of .in = { 5 }
        ptxb_fail(b, call,
                  "%s is the C number %llu, which has no type here; write ptx_u32(%llu), "
                  "ptx_f32(%llu) or the like",
                  name, (unsigned long long)x.bits, (unsigned long long)x.bits,
                  (unsigned long long)x.bits);
    else if (x.kind == PTX_KIND_POISON && x.bits == b->number && x.reg &&
             x.reg <= b->entries.count) // from ptx_call()
        ptxb_fail(b, call, "%s is what '%.64s' returns, which has no result", name,
                  b->entries.at[x.reg - 1].decl.name);
    else if (x.kind == PTX_KIND_POISON && x.reg == PTXGEN_NUMBERS_ALONE)
        ptxb_fail(b, call,
                  "%s is an expression of numbers alone, and nothing in it has a type; write "
                  "ptx::builder::constant() for one of them",
                  name);
    else if (!typed || (x.kind != PTX_KIND_REGISTER && x.kind != PTX_KIND_VARIABLE))
        ptxb_fail(b, call, "%s was never set", name);
    else if (b->restriction.within && (x.bits != b->number || x.reg < b->first_reg))
        ptxb_fail(b, call,
                  "%s was made by an earlier call: %.64s keeps no value from one call to another, "
                  "and its functions use those that they are given",
                  name, b->restriction.within);
    else if (x.bits != b->number || x.reg == 0 || x.reg >= b->regs.count)
        ptxb_fail(b, call, "%s belongs to another builder", name);
    else if (x.reg < b->first_reg)
        ptxb_fail(b, call, "%s was made in another %s, '%.64s'", name,
                  ptxb_entry_kind(entry_of(b, x.reg)), entry_of(b, x.reg)->decl.name);
    else
        fail_closed(b, call, name, x);
}

ptx_val ptxb_register(ptx_builder *b, ptx_type type)
{
    if (b->failed || !ROOM_FOR(b, b->regs, 1))
        return (ptx_val) { 0 };
    // Registers defined in the prologue are defined everywhere in the entry.
    const struct block *block = &b->blocks.at[b->in_prologue ? 0 : b->blocks.count - 1];
    b->regs.at[b->regs.count] =
        (struct reg) { .where = block->id & MOST_INDEX, .file = ptxb_file(type) & 7u };
    return (ptx_val) {
        .reg = b->regs.count++, .bits = b->number, .kind = PTX_KIND_REGISTER, .type = (uint8_t)type
    };
}

// ---- opcodes ------------------------------------------------------------------------------------

uint32_t ptxb_spell(ptx_builder *b, ...)
{
    char text[OPCODE_BYTES];
    uint32_t length = 0, hash = 2166136261u;
    const char *part;
    va_list parts;

    va_start(parts, b);
    while ((part = va_arg(parts, const char *)))
        for (; *part && length + 1 < sizeof text; part++) {
            text[length++] = *part;
            hash = (hash ^ (unsigned char)*part) * 16777619u;
        }
    va_end(parts);
    text[length] = 0;
    uint32_t *newest = &b->opcode_at[(hash ^ hash >> 16) % OPCODE_HASHES];
    for (uint32_t k = *newest; k; k = b->opcodes.at[k].next)
        if (b->opcodes.at[k].length == length && !memcmp(b->opcodes.at[k].text, text, length))
            return k;
    const char *copy = !b->failed && ROOM_FOR(b, b->opcodes, 1) ? ptxb_copy(b, text) : NULL;
    if (!copy)
        return 0;
    b->opcodes.at[b->opcodes.count] =
        (struct opcode) { .text = copy, .next = *newest, .length = (uint8_t)length };
    return *newest = b->opcodes.count++;
}

uint32_t ptxb_opcode(ptx_builder *b, const char *text)
{
    return ptxb_spell(b, text, NULL);
}

static uint32_t note_of(uint32_t spelling)
{
    return spelling * 2654435769u >> 16 & (NOTES - 1);
}

uint32_t ptxb_noted(const ptx_builder *b, uint32_t spelling)
{
    const struct note note = b->notes[note_of(spelling)];
    return note.spelling == spelling ? note.opcode : 0;
}

uint32_t ptxb_note(ptx_builder *b, uint32_t spelling, uint32_t opcode)
{
    b->notes[note_of(spelling)] = (struct note) { spelling, opcode };
    return opcode;
}

static uint32_t mov(ptx_builder *b, ptx_type type)
{
    const uint32_t spelling = ptxb_spelling(PTX_OP_mov, type, 0);
    const uint32_t noted = ptxb_noted(b, spelling);

    return noted ? noted : ptxb_note(b, spelling, ptxb_spell(b, "mov.", ptx_type_name(type), NULL));
}

uint32_t ptxb_mov_value(ptx_builder *b, ptx_type type)
{
    return mov(b, ptxb_mov_type(type));
}

uint32_t ptxb_mov_bits(ptx_builder *b, ptx_type type)
{
    return mov(b, ptxb_bits_type(type));
}

uint32_t ptxb_required(ptx_builder *b, const char *call, int isa, int sm, uint32_t opcode)
{
    return opcode && ptxb_require(b, call, isa, sm, b->opcodes.at[opcode].text) ? opcode : 0;
}

// ---- instructions -------------------------------------------------------------------------------

struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, uint32_t opcode, unsigned dst,
                         unsigned src)
{
    struct code *code = &b->code[b->in_prologue];
    const uint32_t depth = b->in_prologue ? 1 : b->blocks.count;

    if (b->failed || (!opcode && kind == INSN_PLAIN) || !ROOM_FOR(b, code->insns, 1) ||
        !ROOM_FOR_UP_TO(UINT32_MAX / 2, b, code->operands, dst + src))
        return NULL;
    struct insn *insn = &code->insns.at[code->insns.count++];
    *insn =
        (struct insn) { .operands = code->operands.count,
                        .opcode = opcode & MOST_INDEX,
                        .kind = kind & 7u,
                        .decides = kind == INSN_LABEL || kind == INSN_BRANCH || kind == INSN_RETURN,
                        .depth = (uint8_t)(depth < MOST_DEPTH ? depth : MOST_DEPTH),
                        .dst_count = (uint8_t)dst,
                        .operand_count = (uint8_t)(dst + src) };
    code->operands.count += dst + src;
    if (!b->in_prologue)
        b->closed_if = NO_INDEX;
    return b->place == b->marked ? insn : ptxb_mark_place(b, insn);
}

struct insn *ptxb_newest(const ptx_builder *b)
{
    const struct code *code = &b->code[b->in_prologue];
    return &code->insns.at[code->insns.count - 1];
}

void ptxb_mark_varying(ptx_builder *b)
{
    if (!b->failed)
        ptxb_newest(b)->varying = true;
}

static struct operand *operand(const ptx_builder *b, const struct insn *insn, unsigned k)
{
    return &ptxb_operands(&b->code[b->in_prologue], insn)[k];
}

uint32_t ptxb_extra(ptx_builder *b, union extra extra)
{
    if (!ROOM_FOR(b, b->extras, 1))
        return 0;
    b->extras.at[b->extras.count] = extra;
    return b->extras.count++;
}

void ptxb_result(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x)
{
    *operand(b, insn, k) = (struct operand) { .id = x.reg & MOST_INDEX, .kind = OPERAND_REGISTER };
}

void ptxb_source(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x)
{
    const bool wide = x.bits > UINT32_MAX;

    if (x.kind != PTX_KIND_IMMEDIATE) {
        ptxb_result(b, insn, k, x);
        ptxb_count_use(&b->regs.at[x.reg], 1);
        return;
    }
    *operand(b, insn, k) = (struct operand) {
        .kind = wide ? OPERAND_WIDE : OPERAND_IMMEDIATE,
        .type = x.type & 31u,
        .value = wide ? ptxb_extra(b, (union extra) { .bits = x.bits }) : (uint32_t)x.bits,
    };
}

void ptxb_address(ptx_builder *b, const struct insn *insn, unsigned k, ptx_ptr p)
{
    const bool known = p.base.kind == PTX_KIND_POISON;

    *operand(b, insn, k) = (struct operand) {
        .id = (known ? p.symbol : p.base.reg) & MOST_INDEX,
        .kind = known ? OPERAND_SYMBOL : OPERAND_ADDRESS,
        .offset = (int32_t)p.offset, // at() of memory.c ensures that it fits
    };
    if (!known)
        ptxb_count_use(&b->regs.at[p.base.reg], 1);
}

void ptxb_note_name(ptx_builder *b, const char *name)
{
    const size_t length = strlen(name);

    b->longest_name = length > b->longest_name ? length : b->longest_name;
}

void ptxb_text_operand(ptx_builder *b, const struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text)
{
    ptxb_note_name(b, text);
    *operand(b, insn, k) = (struct operand) {
        .kind = kind & 7u,
        .value = ptxb_extra(b, (union extra) { .text = text }),
    };
}

void ptxb_label_operand(ptx_builder *b, const struct insn *insn, unsigned k, uint32_t label)
{
    *operand(b, insn, k) = (struct operand) { .kind = OPERAND_LABEL, .value = label };
}

void ptxb_brace(ptx_builder *b, const struct insn *insn, unsigned first, unsigned last)
{
    operand(b, insn, first)->open = 1;
    operand(b, insn, last)->close = 1;
}

// PTX has no literals of some types. An instruction on untyped bits takes theirs.
bool ptxb_has_literal(ptx_val x)
{
    const uint32_t types = PTX_TYPES_I | PTX_TYPES_B | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64);
    return x.kind != PTX_KIND_IMMEDIATE || (types >> x.type & 1);
}

static bool is_of_bits(const struct opcode *opcode)
{
    const char *dot = strrchr(opcode->text, '.');
    return dot && dot[1] == 'b' && dot[2] != 'f';
}

// Appends an instruction with at most one result.
static ptx_val emit(ptx_builder *b, ptx_type type, uint32_t opcode, unsigned n, const ptx_val *src)
{
    const unsigned dst = type != PTX_NONE;
    ptx_val result = { 0 };

    if (dst)
        result = ptxb_register(b, type);
    const struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, dst, n);
    if (!insn)
        return (ptx_val) { 0 };
    if (dst)
        ptxb_result(b, insn, 0, result);
    for (unsigned k = 0; k < n; k++)
        ptxb_source(b, insn, dst + k, src[k]);
    return result;
}

ptx_val ptxb_emit(ptx_builder *b, ptx_type type, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptx_val own[4];

    if (b->failed || !opcode)
        return (ptx_val) { 0 };
    for (unsigned k = 0; k < n; k++)
        own[k] = ptxb_has_literal(src[k]) || is_of_bits(&b->opcodes.at[opcode])
                     ? src[k]
                     : ptxb_mov(b, src[k]);
    return emit(b, type, opcode, n, own);
}

void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptxb_emit(b, PTX_NONE, opcode, n, src);
}

ptx_val ptxb_mov(ptx_builder *b, ptx_val x)
{
    if (b->failed)
        return (ptx_val) { 0 };
    const ptx_type type = (ptx_type)x.type;
    const ptx_val result = emit(b, type, ptxb_mov_value(b, type), 1, &x);
    if (!b->failed)
        ptxb_newest(b)->moves = 1;
    return result;
}

ptx_val ptxb_in_register(ptx_builder *b, ptx_val x)
{
    return x.kind == PTX_KIND_IMMEDIATE ? ptxb_mov(b, x) : x;
}

void ptxb_sets(ptx_builder *b, uint32_t var)
{
    struct addresses *a = &b->addresses;

    b->regs.at[var].set = 1;
    for (uint32_t k = a->count; k-- > 0;)
        if (a->at[k].index == var)
            a->at[k] = a->at[--a->count];
}

void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x)
{
    const uint32_t opcode = ptxb_mov_value(b, (ptx_type)x.type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, 1);

    if (!insn)
        return;
    insn->moves = 1;
    ptxb_result(b, insn, 0, var);
    ptxb_sets(b, var.reg);
    ptxb_source(b, insn, 1, x);
}

bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond)
{
    char text[32];

    if (!ptxb_ready(b, call))
        return false;
    if (cond.kind == PTX_KIND_NUMBER)
        ptxb_fail(b, call,
                  "the condition is the number %s; write ptx_bool() or a comparison, as "
                  "ptx_ne(b, x, 0)",
                  number_text(cond, text));
    if (b->failed || !ptxb_usable(b, call, "the condition", cond))
        return false;
    if (cond.type == PTX_PRED)
        return true;
    ptxb_fail(b, call, "the condition is %s; it must be pred, as comparisons give it",
              ptx_type_name((ptx_type)cond.type));
    return false;
}

uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond)
{
    if (!ptxb_is_condition(b, call, cond))
        return 0;
    cond = ptxb_in_register(b, cond);
    return b->failed ? 0 : cond.reg;
}

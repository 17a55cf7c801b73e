// SPDX-License-Identifier: MIT
// The finished module as text.
#include "internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *prefix, *type;
} files[FILE_COUNT] = {
    [FILE_P] = { "p", "pred" },  [FILE_RS] = { "rs", "b16" }, [FILE_R] = { "r", "b32" },
    [FILE_RD] = { "rd", "b64" }, [FILE_F] = { "f", "f32" },   [FILE_FD] = { "fd", "f64" },
};

enum { OPERAND_COLUMN = 20, COMMENT_COLUMN = 44 };

// ---- the buffer ---------------------------------------------------------------------------------

static void put_bytes(ptx_builder *b, const char *bytes, size_t count)
{
    if (b->failed)
        return;
    if (b->text.count + count + 1 > b->text.capacity) {
        size_t capacity = b->text.capacity ? b->text.capacity * 2 : 4096;
        while (capacity < b->text.count + count + 1)
            capacity *= 2;
        char *moved = ptxb_resize(b, b->text.at, b->text.capacity, capacity);
        if (!moved)
            return;
        b->text.at = moved;
        b->text.capacity = capacity;
    }
    memcpy(b->text.at + b->text.count, bytes, count);
    b->text.count += count;
    b->text.at[b->text.count] = 0;
}

static void put(ptx_builder *b, const char *string)
{
    put_bytes(b, string, strlen(string));
}

static void PTXGEN_PRINTF(2, 3) putf(ptx_builder *b, const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(b, line);
}

static void pad(ptx_builder *b, size_t line_start, size_t column)
{
    do
        put(b, " ");
    while (!b->failed && b->text.count - line_start < column);
}

// ---- values -------------------------------------------------------------------------------------

// The shortest decimal that reads back as the same number, with a point in every locale.
static void put_decimal(ptx_builder *b, double x, bool single)
{
    char text[40];
    bool plain = true;

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x)
            break;
    }
    for (char *c = text; *c; c++) {
        const bool known =
            (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || *c == '-' || *c == '+';
        if (!known)
            *c = '.';
        plain &= (*c >= '0' && *c <= '9') || *c == '-';
    }
    put(b, text);
    if (plain)
        put(b, ".0");
}

static double from_half(uint64_t bits, int fraction, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const double units = (double)(bits & ((UINT64_C(1) << fraction) - 1));
    double x;

    if (exponent == (1 << exponent_bits) - 1)
        x = units > 0 ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp(units, 1 - bias - fraction);
    else
        x = ldexp(units + (double)(1 << fraction), exponent - bias - fraction);
    return bits >> 15 & 1 ? -x : x;
}

// The decimal of a float immediate, for the comment. False for what is no float.
static bool put_comment_value(ptx_builder *b, ptx_val x)
{
    uint32_t word = (uint32_t)x.bits;
    float single;
    double wide;

    switch (x.type) {
    case PTX_F32:
        memcpy(&single, &word, sizeof single);
        put_decimal(b, (double)single, true);
        return true;
    case PTX_F64:
        memcpy(&wide, &x.bits, sizeof wide);
        put_decimal(b, wide, false);
        return true;
    case PTX_F16:
        put_decimal(b, from_half(x.bits, 10, 5), true);
        return true;
    case PTX_BF16:
        put_decimal(b, from_half(x.bits, 7, 8), true);
        return true;
    default:
        return false;
    }
}

static void put_immediate(ptx_builder *b, ptx_val x)
{
    switch (x.type) {
    case PTX_F32:
        putf(b, "0f%08" PRIX64, x.bits);
        return;
    case PTX_F64:
        putf(b, "0d%016" PRIX64, x.bits);
        return;
    case PTX_F16:
    case PTX_BF16:
        putf(b, "0x%04" PRIX64, x.bits);
        return;
    case PTX_S8:
    case PTX_S16:
    case PTX_S32:
    case PTX_S64: {
        const unsigned shift = 64 - ptxb_bits((ptx_type)x.type);
        const uint64_t sign = UINT64_C(1) << 63;
        const uint64_t top = x.bits << shift;
        if (top & sign) // magnitude of a negative number, without a signed shift
            putf(b, "-%" PRIu64, (~top >> shift) + 1);
        else
            putf(b, "%" PRIu64, x.bits);
        return;
    }
    default:
        if (x.bits <= 0xffff)
            putf(b, "%" PRIu64, x.bits);
        else
            putf(b, "0x%" PRIx64, x.bits);
    }
}

static void put_register(ptx_builder *b, uint32_t reg)
{
    putf(b, "%%%s%u", files[b->regs.at[reg].file].prefix, b->regs.at[reg].number);
}

static void put_value(ptx_builder *b, ptx_val x)
{
    if (x.kind == PTX_IMMEDIATE)
        put_immediate(b, x);
    else
        put_register(b, x.reg);
}

void ptxb_label_text(const struct label *label, char out[96])
{
    snprintf(out, 96, "$%.64s_%u%s", label->name, label->number, label->part);
}

static void put_operand(ptx_builder *b, const struct insn *insn, const struct operand *operand)
{
    char text[96];

    if (operand->open)
        put(b, "{");
    switch (operand->kind) {
    case OPERAND_VALUE:
        put_value(b, operand->val);
        break;
    case OPERAND_TEXT:
        put(b, operand->text);
        break;
    case OPERAND_LABEL:
        ptxb_label_text(&b->labels.at[insn->label - 1], text);
        put(b, text);
        break;
    case OPERAND_ADDRESS:
        put(b, "[");
        if (operand->text)
            put(b, operand->text);
        else
            put_value(b, operand->val);
        if (operand->offset)
            putf(b, "+%" PRId64, operand->offset);
        put(b, "]");
        break;
    }
    if (operand->close)
        put(b, "}");
}

// ---- instructions -------------------------------------------------------------------------------

static void put_float_comment(ptx_builder *b, const struct insn *insn, size_t line_start)
{
    bool first = true;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        const ptx_val v = operand->val;
        if (operand->kind != OPERAND_VALUE || v.kind != PTX_IMMEDIATE ||
            !ptxb_is_float((ptx_type)v.type))
            continue;
        if (first)
            pad(b, line_start, COMMENT_COLUMN);
        put(b, first ? "// " : ", ");
        put_comment_value(b, v);
        first = false;
    }
}

static void put_opcode(ptx_builder *b, const struct insn *insn, bool reduce)
{
    if (insn->guard) {
        put(b, insn->guard_negated ? "@!" : "@");
        put_register(b, insn->guard);
        put(b, " ");
    }
    if (reduce)
        put(b, "red");
    put(b, reduce ? insn->opcode + strlen("atom") : insn->opcode);
}

static void put_insn(ptx_builder *b, const struct insn *insn)
{
    char text[96];
    size_t line_start = b->text.count;

    if (insn->kind == INSN_LABEL) {
        if (!b->labels.at[insn->label - 1].uses)
            return;
        ptxb_label_text(&b->labels.at[insn->label - 1], text);
        putf(b, "%s:\n", text);
        return;
    }
    if (insn->kind == INSN_COMMENT)
        put(b, "\n");
    line_start = b->text.count;
    for (unsigned k = 0; k < insn->depth; k++)
        put(b, "    ");
    if (insn->kind == INSN_COMMENT) {
        putf(b, "// %.240s\n", insn->opcode);
        return;
    }
    const size_t opcode_start = b->text.count;
    const bool reduce = insn->reducible && b->regs.at[insn->operands[0].val.reg].uses == 0;
    put_opcode(b, insn, reduce);
    for (unsigned k = reduce; k < insn->operand_count; k++) {
        if (k == reduce)
            pad(b, opcode_start, OPERAND_COLUMN);
        else
            put(b, ", ");
        put_operand(b, insn, &insn->operands[k]);
    }
    put(b, ";");
    put_float_comment(b, insn, line_start);
    put(b, "\n");
}

// ---- entries ------------------------------------------------------------------------------------

static void put_param_comment(ptx_builder *b, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    put(b, "// ");
    if (info->is_pointer)
        putf(b, "%s[%s]%s", ptx_type_name((ptx_type)info->type), info->length ? info->length : "",
             info->readonly    ? ", read only"
             : info->writeonly ? ", written"
                               : "");
    if (info->meaning)
        putf(b, "%s%.160s", info->is_pointer ? ": " : "", info->meaning);
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->param_count; k++) {
        const struct ptx_param_info *info = &entry->params[k].info;
        const size_t line_start = b->text.count;
        const char *comma = k + 1 < entry->param_count ? "," : "";
        if (info->count)
            putf(b, "    .param .align 16 .%s %.64s[%u]%s", ptxb_memory_name((ptx_type)info->type),
                 info->name, info->count, comma);
        else
            putf(b, "    .param .%s %.64s%s",
                 info->is_pointer ? "u64" : ptxb_memory_name((ptx_type)info->type), info->name,
                 comma);
        if (info->is_pointer || info->meaning)
            pad(b, line_start, 32);
        put_param_comment(b, info);
        put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (shape[0] || shape[1] || shape[2])
        putf(b, "%s %u, %u, %u\n", directive, shape[0], shape[1] ? shape[1] : 1,
             shape[2] ? shape[2] : 1);
}

// Registers are numbered as they appear, so that the text has no gaps.
static void number_registers(ptx_builder *b, struct entry *entry)
{
    const struct insn *lists[] = { entry->prologue.first, entry->body.first };

    memset(entry->registers, 0, sizeof entry->registers);
    for (int list = 0; list < 2; list++)
        for (const struct insn *insn = lists[list]; insn; insn = insn->next)
            for (unsigned k = 0; k < insn->dst_count; k++) {
                struct reg *reg = &b->regs.at[insn->operands[k].val.reg];
                if (!reg->placed)
                    reg->number = ++entry->registers[reg->file];
                reg->placed = true;
            }
}

static void put_declarations(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file])
            putf(b, "    .reg .%-6s %%%s<%u>;\n", files[file].type, files[file].prefix,
                 entry->registers[file] + 1);
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->entry != number ||
            (symbol->kind != SYMBOL_SHARED && symbol->kind != SYMBOL_LOCAL))
            continue;
        putf(b, "    .%s .align 16 .%s %s[%u];\n",
             symbol->kind == SYMBOL_SHARED ? "shared" : "local",
             ptxb_memory_name((ptx_type)symbol->type), symbol->name, symbol->count);
    }
}

static void put_entry(ptx_builder *b, uint32_t number)
{
    struct entry *entry = &b->entries.at[number];

    number_registers(b, entry);
    putf(b, "\n.visible .entry %.64s(\n", entry->decl.name);
    put_params(b, entry);
    put(b, ")\n");
    put_shape(b, ".reqntid", entry->decl.block);
    put_shape(b, ".maxntid", entry->decl.max_block);
    if (entry->decl.min_blocks)
        putf(b, ".minnctapersm %u\n", entry->decl.min_blocks);
    put(b, "{\n");
    put_declarations(b, number);
    if (entry->prologue.first)
        put(b, "\n");
    for (const struct insn *insn = entry->prologue.first; insn; insn = insn->next)
        put_insn(b, insn);
    if (entry->body.first && entry->body.first->kind != INSN_COMMENT)
        put(b, "\n");
    for (const struct insn *insn = entry->body.first; insn; insn = insn->next)
        put_insn(b, insn);
    put(b, "}\n");
}

bool ptxb_print(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_isa(b);

    put(b, "// Written by ptxgen. The PTX ISA version is ");
    if (b->params.isa)
        put(b, "pinned.\n");
    else
        putf(b, "the least that has %.160s.\n", b->isa_reason);
    putf(b, ".version %d.%d\n.target %s\n.address_size 64\n", isa / 10, isa % 10,
         ptx_target_name(b->params.target, target));
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        putf(b, "\n.extern .shared .align 16 .b8 %s[];\n", b->symbols.at[s].name);
        break;
    }
    for (uint32_t e = 0; e < b->entries.count; e++)
        put_entry(b, e);
    return !b->failed;
}

void ptx_comment(ptx_builder *b, const char *format, ...)
{
    char text[200];
    va_list args;

    if (!ptxb_ready(b, "comment"))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    ptxb_append(b, INSN_COMMENT, ptxb_format(b, "%s", text), 0, 0);
}

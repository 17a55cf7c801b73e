// SPDX-License-Identifier: MIT
// The finished module as text.
#include "internal.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *type;
    uint8_t length;
    char prefix[4];
} files[FILE_COUNT] = {
    [FILE_P] = { "pred  ", 2, "%p" }, [FILE_RS] = { "b16   ", 3, "%rs" },
    [FILE_R] = { "b32   ", 2, "%r" }, [FILE_RD] = { "b64   ", 3, "%rd" },
    [FILE_F] = { "f32   ", 2, "%f" }, [FILE_FD] = { "f64   ", 3, "%fd" },
};

enum {
    INDENT = 4,
    OPERAND_COLUMN = 20,
    COMMENT_COLUMN = 44,
    // Most that an instruction can have, beside what operands and labels are called.
    OPCODE_BYTES = 64,
    LINE_BYTES = 33 * INDENT + 16 + OPCODE_BYTES + OPERAND_COLUMN + COMMENT_COLUMN + 16,
    OPERAND_BYTES = 32 + DECIMAL_BYTES,
    // About what the text has.
    USUAL_OPERAND_BYTES = 7,
    PARAM_LINE_BYTES = 96,
    ENTRY_BYTES = 768,
};

static char *write_char(char *at, char c)
{
    *at = c;
    return at + 1;
}

// To the column of the line, and one blank at least.
static inline char *write_pad(char *at, char *start, size_t column)
{
    char *const end = start + column;

    memset(at, ' ', column); // of one length, so that it is a few stores
    return at < end ? end : at + 1;
}

static char *write_register(char *at, const ptx_builder *b, uint32_t number)
{
    const struct reg *reg = &b->regs.at[number];

    memcpy(at, files[reg->file].prefix, sizeof files->prefix);
    return ptxb_write_unsigned(at + files[reg->file].length, reg->number);
}

static char *write_label(char *at, const ptx_builder *b, uint32_t number)
{
    const struct label *label = &b->labels.at[number - 1];

    at = ptxb_write(write_char(at, '$'), label->name);
    at = ptxb_write_unsigned(write_char(at, '_'), label->number);
    return ptxb_write(at, label->part);
}

static char *write_offset(char *at, int32_t offset)
{
    if (!offset)
        return at;
    at = ptxb_write(at, offset < 0 ? "+-" : "+");
    return ptxb_write_unsigned(at, (uint64_t)(offset < 0 ? -(int64_t)offset : offset));
}

static char *write_operand(char *at, const ptx_builder *b, const struct operand *operand)
{
    switch (operand->kind) {
    case OPERAND_REGISTER:
        return write_register(at, b, operand->reg);
    case OPERAND_IMMEDIATE:
        return ptxb_write_immediate(at, (ptx_type)operand->type, operand->as.bits);
    case OPERAND_TEXT:
        return ptxb_write(at, operand->as.text);
    case OPERAND_PARAM:
        at = ptxb_write(write_char(at, '['), operand->as.text);
        break;
    case OPERAND_SYMBOL:
        at = ptxb_write(write_char(at, '['), b->symbols.at[operand->as.place.symbol - 1].name);
        at = write_offset(at, operand->as.place.offset);
        break;
    default:
        at = write_register(write_char(at, '['), b, operand->reg);
        at = write_offset(at, operand->as.place.offset);
    }
    return write_char(at, ']');
}

// ---- instructions -------------------------------------------------------------------------------

// Room for the line, whatever its operands are.
static char *line_room(ptx_builder *b, const struct insn *insn)
{
    size_t bytes = LINE_BYTES + insn->operand_count * (size_t)OPERAND_BYTES;

    for (unsigned k = 0; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        if (operand->kind == OPERAND_TEXT || operand->kind == OPERAND_PARAM)
            bytes += strlen(operand->as.text);
        else if (operand->kind == OPERAND_SYMBOL)
            bytes += strlen(b->symbols.at[operand->as.place.symbol - 1].name);
    }
    if (insn->kind == INSN_BRANCH || insn->kind == INSN_LABEL)
        bytes += strlen(b->labels.at[insn->label - 1].name);
    return ptxb_room(b, bytes);
}

static char *write_decimal(char *at, ptx_builder *b, const struct operand *operand)
{
    const uint64_t bits = operand->as.bits;
    struct decimal *known =
        &b->decimals[bits * UINT64_C(0x9e3779b97f4a7c15) >> 62 & (DECIMALS - 1)];

    if (known->type != operand->type || known->bits != bits) {
        *ptxb_write_decimal(known->text, (ptx_type)operand->type, bits) = 0;
        known->type = operand->type;
        known->bits = bits;
    }
    return ptxb_write(at, known->text);
}

static char *write_float_comment(char *at, ptx_builder *b, const struct insn *insn, char *line)
{
    bool first = true;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        if (operand->kind != OPERAND_IMMEDIATE || !ptxb_is_float((ptx_type)operand->type))
            continue;
        at = first ? ptxb_write(write_pad(at, line, COMMENT_COLUMN), "// ") : ptxb_write(at, ", ");
        at = write_decimal(at, b, operand);
        first = false;
    }
    return at;
}

static char *write_opcode(char *at, const ptx_builder *b, const struct insn *insn, bool reduce)
{
    if (insn->guard) {
        at = ptxb_write(at, insn->guard_negated ? "@!" : "@");
        at = write_char(write_register(at, b, insn->guard), ' ');
    }
    if (reduce)
        at = ptxb_write(at, "red");
    return ptxb_write(at, reduce ? insn->opcode + strlen("atom") : insn->opcode);
}

static char *write_operands(char *at, const ptx_builder *b, const struct insn *insn, unsigned first)
{
    for (unsigned k = first; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        if (k > first)
            at = ptxb_write(at, ", ");
        if (operand->open)
            *at++ = '{';
        at = write_operand(at, b, operand);
        if (operand->close)
            *at++ = '}';
    }
    return at;
}

static void put_comment(ptx_builder *b, const struct insn *insn)
{
    ptxb_put(b, "\n");
    for (unsigned k = 0; k < insn->depth; k++)
        ptxb_put(b, "    ");
    ptxb_put(b, "// ");
    ptxb_put_comment(b, insn->opcode);
    ptxb_put(b, "\n");
}

static void put_insn(ptx_builder *b, const struct insn *insn)
{
    if (insn->kind == INSN_COMMENT) {
        put_comment(b, insn);
        return;
    }
    if (insn->kind == INSN_LABEL && !b->labels.at[insn->label - 1].uses)
        return;
    char *const line = line_room(b, insn);
    if (!line)
        return;
    if (insn->kind == INSN_LABEL) {
        ptxb_put_end(b, ptxb_write(write_label(line, b, insn->label), ":\n"));
        return;
    }
    char *at = line;
    for (unsigned k = 0; k < insn->depth; k++, at += INDENT)
        memcpy(at, "    ", INDENT);
    char *const opcode = at;
    const bool reduce = insn->reducible && b->regs.at[insn->operands[0].reg].uses == 0;
    at = write_opcode(at, b, insn, reduce);
    if (insn->operand_count > reduce || insn->kind == INSN_BRANCH)
        at = write_pad(at, opcode, OPERAND_COLUMN);
    at = insn->kind == INSN_BRANCH ? write_label(at, b, insn->label)
                                   : write_operands(at, b, insn, reduce);
    at = write_float_comment(write_char(at, ';'), b, insn, line);
    ptxb_put_end(b, write_char(at, '\n'));
}

// ---- entries ------------------------------------------------------------------------------------

static void put_number(ptx_builder *b, const char *before, uint64_t x, const char *after)
{
    ptxb_put(b, before);
    ptxb_put_unsigned(b, x);
    ptxb_put(b, after);
}

static void put_param_comment(ptx_builder *b, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    ptxb_put(b, "// ");
    if (info->is_pointer) {
        ptxb_put(b, ptx_type_name((ptx_type)info->type));
        ptxb_put(b, "[");
        ptxb_put_comment(b, info->length ? info->length : "");
        ptxb_put(b, info->readonly ? "], read only" : info->writeonly ? "], written" : "]");
        ptxb_put(b, info->meaning ? ": " : "");
    }
    ptxb_put_comment(b, info->meaning ? info->meaning : "");
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->param_count; k++) {
        const struct ptx_param_info *info = &entry->params[k].info;
        const size_t line_start = b->text.count;
        const char *comma = k + 1 < entry->param_count ? "," : "";
        ptxb_put(b, info->count ? "    .param .align 16 ." : "    .param .");
        ptxb_put(b, info->is_pointer ? "u64" : ptxb_memory_name((ptx_type)info->type));
        ptxb_put(b, " ");
        ptxb_put(b, info->name);
        if (info->count)
            put_number(b, "[", info->count, "]");
        ptxb_put(b, comma);
        if (info->is_pointer || info->meaning)
            ptxb_pad(b, line_start, 32);
        put_param_comment(b, info);
        ptxb_put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (!shape[0] && !shape[1] && !shape[2])
        return;
    put_number(b, directive, shape[0], ", ");
    put_number(b, "", shape[1] ? shape[1] : 1, ", ");
    put_number(b, "", shape[2] ? shape[2] : 1, "\n");
}

static void number_results(ptx_builder *b, struct entry *entry, const struct insn *insn)
{
    for (unsigned k = 0; k < insn->dst_count; k++) {
        struct reg *reg = &b->regs.at[insn->operands[k].reg];
        if (!reg->placed)
            reg->number = ++entry->registers[reg->file];
        reg->placed = true;
    }
}

// Registers are numbered as they appear, so that the text has no gaps. Returns about how long the
// text of the entry will be.
static size_t number_registers(ptx_builder *b, struct entry *entry)
{
    const struct insn *lists[] = { entry->prologue.first, entry->body.first };
    size_t bytes = ENTRY_BYTES + entry->param_count * (size_t)PARAM_LINE_BYTES;

    memset(entry->registers, 0, sizeof entry->registers);
    for (int list = 0; list < 2; list++)
        for (const struct insn *insn = lists[list]; insn; insn = insn->next) {
            number_results(b, entry, insn);
            bytes += insn->depth * (size_t)INDENT + OPERAND_COLUMN +
                     insn->operand_count * (size_t)USUAL_OPERAND_BYTES;
        }
    return bytes;
}

static void put_declarations(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file]) {
            ptxb_put(b, "    .reg .");
            ptxb_put(b, files[file].type);
            ptxb_put(b, " ");
            ptxb_put(b, files[file].prefix);
            put_number(b, "<", entry->registers[file] + 1, ">;\n");
        }
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->entry != number ||
            (symbol->kind != SYMBOL_SHARED && symbol->kind != SYMBOL_LOCAL))
            continue;
        ptxb_put(b, symbol->kind == SYMBOL_SHARED ? "    .shared" : "    .local");
        ptxb_put(b, " .align 16 .");
        ptxb_put(b, ptxb_memory_name((ptx_type)symbol->type));
        ptxb_put(b, " ");
        ptxb_put(b, symbol->name);
        put_number(b, "[", symbol->count, "];\n");
    }
}

static void put_entry(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    ptxb_put(b, "\n.visible .entry ");
    ptxb_put(b, entry->decl.name);
    ptxb_put(b, "(\n");
    put_params(b, entry);
    ptxb_put(b, ")\n");
    put_shape(b, ".reqntid ", entry->decl.block);
    put_shape(b, ".maxntid ", entry->decl.max_block);
    if (entry->decl.min_blocks)
        put_number(b, ".minnctapersm ", entry->decl.min_blocks, "\n");
    ptxb_put(b, "{\n");
    put_declarations(b, number);
    if (entry->prologue.first)
        ptxb_put(b, "\n");
    for (const struct insn *insn = entry->prologue.first; insn; insn = insn->next)
        put_insn(b, insn);
    if (entry->body.first && entry->body.first->kind != INSN_COMMENT)
        ptxb_put(b, "\n");
    for (const struct insn *insn = entry->body.first; insn; insn = insn->next)
        put_insn(b, insn);
    ptxb_put(b, "}\n");
}

bool ptxb_print(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_isa(b);
    size_t bytes = 0;

    for (uint32_t e = 0; e < b->entries.count; e++)
        bytes += number_registers(b, &b->entries.at[e]);
    ptxb_room(b, bytes);
    ptxb_put(b, "// Written by ptxgen. The PTX ISA version is ");
    if (b->params.isa)
        ptxb_put(b, "pinned.\n");
    else {
        ptxb_put(b, "the least that has ");
        ptxb_put(b, b->isa_reason);
        ptxb_put(b, ".\n");
    }
    put_number(b, ".version ", (unsigned)isa / 10, ".");
    put_number(b, "", (unsigned)isa % 10, "\n.target ");
    ptxb_put(b, ptx_target_name(b->params.target, target));
    ptxb_put(b, "\n.address_size 64\n");
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        ptxb_put(b, "\n.extern .shared .align 16 .b8 ");
        ptxb_put(b, b->symbols.at[s].name);
        ptxb_put(b, "[];\n");
        break;
    }
    for (uint32_t e = 0; e < b->entries.count; e++)
        put_entry(b, e);
    return !b->failed;
}

void ptx_comment(ptx_builder *b, const char *format, ...)
{
    va_list args;

    if (!ptxb_ready(b, "comment"))
        return;
    va_start(args, format);
    ptxb_append(b, INSN_COMMENT, ptxb_vformat(b, "comment", format, args), 0, 0);
    va_end(args);
}

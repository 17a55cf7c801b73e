// SPDX-License-Identifier: MIT
// Instructions as lines of text.
#include "internal.h"

const struct file_row ptxb_files[FILE_COUNT] = {
    [FILE_P] = { "pred  ", 2, "%p" }, [FILE_RS] = { "b16   ", 3, "%rs" },
    [FILE_R] = { "b32   ", 2, "%r" }, [FILE_RD] = { "b64   ", 3, "%rd" },
    [FILE_F] = { "f32   ", 2, "%f" }, [FILE_FD] = { "f64   ", 3, "%fd" },
};

static inline char *write_char(char *at, char c)
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

static inline char *write_register(char *at, const ptx_builder *b, uint32_t number)
{
    const struct reg reg = b->regs.at[number];
    const struct file_row *file = &ptxb_files[reg.file];

    memcpy(at, file->prefix, sizeof file->prefix);
    return ptxb_write_unsigned(at + file->length, reg.where);
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

static uint64_t immediate_bits(const ptx_builder *b, const struct operand *operand)
{
    return operand->kind == OPERAND_WIDE ? b->extras.at[operand->value].bits : operand->value;
}

// The name that the operand has in the text, or NULL.
static const char *name_of(const ptx_builder *b, const struct operand *operand)
{
    switch (operand->kind) {
    case OPERAND_TEXT:
    case OPERAND_PARAM:
        return b->extras.at[operand->value].text;
    case OPERAND_SYMBOL:
        return b->symbols.at[operand->id - 1].name;
    case OPERAND_LABEL:
        return b->labels.at[operand->value - 1].name;
    default:
        return NULL;
    }
}

static char *write_unusual_operand(char *at, const ptx_builder *b, const struct operand *operand)
{
    switch (operand->kind) {
    case OPERAND_REGISTER:
        return write_register(at, b, operand->id);
    case OPERAND_IMMEDIATE:
    case OPERAND_WIDE:
        return ptxb_write_immediate(at, (ptx_type)operand->type, immediate_bits(b, operand));
    case OPERAND_TEXT:
        return ptxb_write(at, name_of(b, operand));
    case OPERAND_LABEL:
        return write_label(at, b, operand->value);
    case OPERAND_PARAM:
        at = ptxb_write(write_char(at, '['), name_of(b, operand));
        break;
    case OPERAND_SYMBOL:
        at = ptxb_write(write_char(at, '['), name_of(b, operand));
        at = write_offset(at, operand->offset);
        break;
    default:
        at = write_register(write_char(at, '['), b, operand->id);
        at = write_offset(at, operand->offset);
    }
    return write_char(at, ']');
}

static inline char *write_operands(char *at, const ptx_builder *b, const struct insn *insn,
                                   unsigned first)
{
    const struct operand *operand = &insn->operands[first];
    const struct operand *const end = &insn->operands[insn->operand_count];

    if (operand == end)
        return at;
    for (; operand < end; operand++) {
        if (operand->kind == OPERAND_REGISTER && !operand->open && !operand->close) {
            at = write_register(at, b, operand->id); // most are
        } else {
            if (operand->open)
                *at++ = '{';
            at = write_unusual_operand(at, b, operand);
            if (operand->close)
                *at++ = '}';
        }
        memcpy(at, ", ", 2);
        at += 2;
    }
    return at - 2;
}

static char *write_decimal(char *at, ptx_builder *b, ptx_type type, uint64_t bits)
{
    struct decimal *known =
        &b->decimals[bits * UINT64_C(0x9e3779b97f4a7c15) >> 62 & (DECIMALS - 1)];

    if (known->type != type || known->bits != bits) {
        known->length = (uint8_t)(ptxb_write_decimal(known->text, type, bits) - known->text);
        known->type = (uint8_t)type;
        known->bits = bits;
    }
    memcpy(at, known->text, DECIMAL_BYTES);
    return at + known->length;
}

// What floats are in decimal, behind the line.
static char *write_float_comment(char *at, ptx_builder *b, const struct insn *insn, char *line)
{
    bool first = true;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        if ((operand->kind != OPERAND_IMMEDIATE && operand->kind != OPERAND_WIDE) ||
            !ptxb_is_float((ptx_type)operand->type))
            continue;
        at = first ? ptxb_write(write_pad(at, line, COMMENT_COLUMN), "// ") : ptxb_write(at, ", ");
        at = write_decimal(at, b, (ptx_type)operand->type, immediate_bits(b, operand));
        first = false;
    }
    return at;
}

// An opcode with something before it, or with another name; and the blanks after it.
static char *write_unusual_opcode(char *at, const ptx_builder *b, const struct insn *insn,
                                  bool reduce)
{
    const char *text = b->opcodes.at[insn->opcode].text;
    char *const start = at;

    if (insn->guarded) {
        at = ptxb_write(at, insn->negated ? "@!" : "@");
        at = write_char(write_register(at, b, insn->operands[0].id), ' ');
    }
    at = reduce ? ptxb_write(ptxb_write(at, "red"), text + strlen("atom")) : ptxb_write(at, text);
    return insn->operand_count > insn->guarded + reduce ? write_pad(at, start, OPERAND_COLUMN) : at;
}

static inline char *write_opcode(char *at, const ptx_builder *b, const struct insn *insn,
                                 bool reduce)
{
    const struct opcode *opcode = &b->opcodes.at[insn->opcode];

    if (insn->guarded || reduce || opcode->padded > sizeof opcode->line)
        return write_unusual_opcode(at, b, insn, reduce);
    memcpy(at, opcode->line, sizeof opcode->line);
    return at + (insn->operand_count ? opcode->padded : opcode->length);
}

size_t ptxb_names_bytes(const ptx_builder *b, const struct insn *insn)
{
    size_t bytes = 0;

    for (unsigned k = 0; k < insn->operand_count; k++) {
        const char *name = name_of(b, &insn->operands[k]);
        bytes += name ? strlen(name) : 0;
    }
    return bytes;
}

static void put_comment(ptx_builder *b, const struct insn *insn)
{
    const unsigned depth = insn->depth;
    const char *text = b->extras.at[insn->operands[0].value].text;

    ptxb_put(b, "\n");
    for (unsigned k = 0; k < depth; k++)
        ptxb_put(b, "    ");
    ptxb_put(b, "// ");
    ptxb_put_comment(b, text);
    ptxb_put(b, "\n");
}

static inline char *write_indent(char *at, unsigned depth)
{
    enum { USUAL = 8 };

    memset(at, ' ', USUAL * INDENT);
    if (depth > USUAL)
        memset(at + USUAL * INDENT, ' ', (depth - USUAL) * INDENT);
    return at + depth * INDENT;
}

void ptxb_put_insn(ptx_builder *b, const struct insn *insn)
{
    char *const line = b->text.at + b->text.count;
    char *at = line;

    if (insn->kind == INSN_COMMENT) {
        put_comment(b, insn);
        return;
    }
    if (insn->kind == INSN_DROPPED)
        return;
    if (insn->kind == INSN_LABEL) {
        if (b->labels.at[insn->operands[0].value - 1].uses)
            ptxb_put_end(b, ptxb_write(write_label(at, b, insn->operands[0].value), ":\n"));
        return;
    }
    const bool reduce = insn->reducible && !b->regs.at[insn->operands[0].id].used;
    at = write_indent(at, insn->depth);
    at = write_opcode(at, b, insn, reduce);
    at = write_operands(at, b, insn, insn->guarded + reduce);
    *at++ = ';';
    if (insn->floats)
        at = write_float_comment(at, b, insn, line);
    *at++ = '\n';
    ptxb_put_end(b, at);
}

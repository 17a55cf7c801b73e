// SPDX-License-Identifier: MIT
// Prints instructions: labels, comments, operands in columns.
#include "print.h"
#include "asm_text.h"

const struct file_words ptxb_register_files[FILE_COUNT] = {
    [FILE_P] = { "pred  ", "%p", 2 }, [FILE_RS] = { "b16   ", "%rs", 3 },
    [FILE_R] = { "b32   ", "%r", 2 }, [FILE_RD] = { "b64   ", "%rd", 3 },
    [FILE_F] = { "f32   ", "%f", 2 }, [FILE_FD] = { "f64   ", "%fd", 3 },
};

// ---- the text -----------------------------------------------------------------------------------

bool ptxb_grow_text(ptx_builder *b, size_t bytes)
{
    const uint32_t most = UINT32_MAX / 2;

    if (bytes > most - b->text.count)
        ptxb_fail(b, NULL, "the module is too large: its text has more than %u bytes", most);
    return !b->failed && ROOM_FOR_UP_TO(most, b, b->text, (uint32_t)bytes);
}

void ptxb_put_number(ptx_builder *b, const char *before, uint64_t x, const char *after)
{
    put(b, before);
    char *at = text_end(b, INTEGER_BYTES);
    if (at)
        set_end(b, write_unsigned(at, x));
    put(b, after);
}

// Whether all of eight bytes are from 0x20 to 0x7e: most texts are read so.
static bool are_plain(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x;

    memcpy(&x, at, sizeof x);
    return !((x | (x + ones) | (x - 0x20 * ones)) & 0x80 * ones);
}

void ptxb_put_ascii(ptx_builder *b, const char *string, size_t most)
{
    const char *const end = string + (most < SIZE_MAX ? most : strlen(string));

    while (string < end) {
        const char *plain = string;
        while (end - plain >= 8 && are_plain(plain))
            plain += 8;
        while (plain < end && *plain >= 0x20 && *plain < 0x7f)
            plain++;
        put_bytes(b, string, (size_t)(plain - string));
        string = plain;
        if (string == end)
            return;
        const unsigned char c = (unsigned char)*string++;
        if (c < 0x80 || c >= 0xc0) // otherwise a continuation byte of a UTF-8 character
            put(b, c >= 0x80 ? "?" : " ");
    }
}

// How many bytes of the text are printed in a line that has room for so many: whole words, at least
// one.
static size_t words_for(const char *string, size_t room)
{
    size_t count = strlen(string);

    if (count <= room)
        return count;
    for (count = room; count && string[count] != ' '; count--)
        ;
    return count ? count : strcspn(string, " ");
}

void ptxb_put_comment_text(ptx_builder *b, uint32_t start, unsigned column, const char *string)
{
    for (;;) {
        const uint32_t used = b->text.count - start;
        const size_t count = words_for(string, used < LINE_COLUMNS ? LINE_COLUMNS - used : 0);
        ptxb_put_ascii(b, string, count);
        for (string += count; *string == ' '; string++)
            ;
        if (!*string || b->failed)
            return;
        put(b, "\n");
        start = b->text.count;
        for (unsigned k = 0; k < column; k++)
            put(b, " ");
        put(b, "// ");
    }
}

// ---- operands -----------------------------------------------------------------------------------

static char *write_hex(char *at, uint64_t x, unsigned digits, const char alphabet[17])
{
    for (unsigned k = digits; k-- > 0; x >>= 4)
        at[k] = alphabet[x & 15];
    return at + digits;
}

char *ptxb_write_immediate(char *at, ptx_type type, uint64_t bits)
{
    static const char upper[] = "0123456789ABCDEF", lower[] = "0123456789abcdef";
    unsigned digits = 1;

    switch (type) {
    case PTX_F32:
        return write_hex(write_string(at, "0f"), bits, 8, upper);
    case PTX_F64:
        return write_hex(write_string(at, "0d"), bits, 16, upper);
    case PTX_F16:
    case PTX_BF16:
        return write_hex(write_string(at, "0x"), bits, 4, upper);
    case PTX_S8:
    case PTX_S16:
    case PTX_S32:
    case PTX_S64: {
        const uint64_t sign = UINT64_C(1) << (ptxb_bits(type) - 1);
        at = write_string(at, bits & sign ? "-" : "");
        return write_unsigned(at, bits & sign ? sign - (bits & (sign - 1)) : bits);
    }
    default:
        if (bits <= 0xffff)
            return write_unsigned(at, bits);
        while (digits < 16 && bits >> (4 * digits))
            digits++;
        return write_hex(write_string(at, "0x"), bits, digits, lower);
    }
}

// Names of a function that is written inline differ at each place.
static char *write_inlining(const ptx_builder *b, char *at)
{
    return b->inlining ? write_unsigned(write_string(at, "$"), b->inlining) : at;
}

char *ptxb_write_result(char *at, uint32_t k)
{
    at = write_string(at, "$result");
    return k ? write_unsigned(write_string(at, "_"), k + 1) : at;
}

static inline char *write_register(const ptx_builder *b, char *at, uint32_t number)
{
    const struct reg *reg = &b->regs.at[number];
    const struct file_words *words = &ptxb_register_files[reg->file];

    if (reg->is_result)
        return write_inlining(b, ptxb_write_result(at, reg->same));
    write_bytes(at, words->prefix, sizeof words->prefix); // of one size: a single store
    return write_unsigned(at + words->length, reg->where);
}

static char *write_label(const ptx_builder *b, char *at, uint32_t number)
{
    const struct label *label = &b->labels.at[number - 1];

    at = write_string(write_string(write_inlining(b, at), "$"), label->name);
    at = write_unsigned(write_string(at, "_"), label->number);
    return write_string(at, label->part);
}

static char *write_offset(char *at, int64_t offset)
{
    if (!offset)
        return at;
    at = write_string(at, offset < 0 ? "+-" : "+");
    return write_unsigned(at, (uint64_t)(offset < 0 ? -offset : offset));
}

static uint64_t immediate_bits(const ptx_builder *b, const struct operand *operand)
{
    return operand->kind == OPERAND_WIDE ? b->extras.at[operand->value].bits : operand->value;
}

char *ptxb_write_bare(const ptx_builder *b, char *at, const struct operand *operand)
{
    switch (operand->kind) {
    case OPERAND_REGISTER:
        return write_register(b, at, operand->id);
    case OPERAND_ADDRESS:
        return write_offset(write_register(b, at, operand->id), operand->offset);
    case OPERAND_SYMBOL:
        return write_offset(write_string(at, b->symbols.at[operand->id - 1].name), operand->offset);
    case OPERAND_PARAM:
    case OPERAND_TEXT:
        return write_string(at, b->extras.at[operand->value].text);
    case OPERAND_LABEL:
        return write_label(b, at, operand->value);
    default:
        return ptxb_write_immediate(at, (ptx_type)operand->type, immediate_bits(b, operand));
    }
}

static inline char *write_operand(const ptx_builder *b, char *at, const struct operand *operand)
{
    const bool address = operand->kind == OPERAND_ADDRESS || operand->kind == OPERAND_SYMBOL ||
                         operand->kind == OPERAND_PARAM;

    if (!address)
        return ptxb_write_bare(b, at, operand);
    return write_string(ptxb_write_bare(b, write_string(at, "["), operand), "]");
}

// ---- instructions -------------------------------------------------------------------------------

// The decimal values of float literals, as a comment after the line, if it has room.
static char *write_float_comment(ptx_builder *b, char *at, const struct insn *insn,
                                 const struct operand *operands, char *line)
{
    char *const end = at;
    bool first = true;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const struct operand *operand = &operands[k];
        if (!ptxb_is_float((ptx_type)operand->type))
            continue;
        at = first ? write_string(write_to_column(at, line, COMMENT_COLUMN), "// ")
                   : write_string(at, ", ");
        at = ptxb_write_decimal(b, at, (ptx_type)operand->type, immediate_bits(b, operand));
        first = false;
    }
    if (at - line <= LINE_COLUMNS)
        return at;
    ptxb_forget_decimals(b, end);
    return end;
}

// (result), function, (arguments)
static char *write_call(const ptx_builder *b, char *at, const struct insn *insn,
                        const struct operand *operands)
{
    const unsigned name = insn->dst_count;

    if (name) {
        at = write_operand(b, write_string(at, "("), &operands[0]);
        at = write_string(at, "), ");
    }
    at = write_operand(b, at, &operands[name]);
    for (unsigned k = name + 1; k < insn->operand_count; k++)
        at = write_operand(b, write_string(at, k == name + 1 ? ", (" : ", "), &operands[k]);
    return write_string(at, insn->operand_count > name + 1 ? ")" : "");
}

// Whether no result of the instruction is used.
static bool is_unused(const ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    for (unsigned k = 0; k < insn->dst_count; k++)
        if (b->regs.at[operands[k].id].uses)
            return false;
    return true;
}

static void put_plain(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    const struct opcode *opcode = &b->opcodes.at[insn->opcode];
    const bool reduce = insn->reducible && is_unused(b, insn, operands);
    const unsigned first = insn->guarded + (reduce ? insn->dst_count : 0u);
    char *const line =
        text_end(b, BARE_LINE_BYTES + insn->operand_count * (OPERAND_BYTES + b->longest_name));
    char *at = line;
    bool floats = false;

    if (!line)
        return;
    for (unsigned k = 0; k < insn->depth; k++)
        at = write_bytes(at, "    ", INDENT);
    char *const start = at;
    if (insn->guarded) {
        at = write_register(b, write_string(at, insn->negated ? "@!" : "@"), operands[0].id);
        *at++ = ' ';
    }
    const unsigned skipped = reduce ? (unsigned)strlen("atom") : 0;
    if (reduce)
        at = write_string(at, "red");
    at = write_bytes(at, opcode->text + skipped, opcode->length - skipped);
    if (insn->operand_count > first)
        at = write_to_column(at, start, OPERAND_COLUMN);
    if (insn->calls)
        at = write_call(b, at, insn, operands);
    for (unsigned k = first; k < insn->operand_count && !insn->calls; k++) {
        if (k > first)
            at = write_string(at, ", ");
        if (!operands[k].type && !operands[k].kind && !operands[k].open && !operands[k].close) {
            at = write_register(b, at, operands[k].id); // most are
            continue;
        }
        if (operands[k].open)
            *at++ = '{';
        at = write_operand(b, at, &operands[k]);
        if (operands[k].close)
            *at++ = '}';
        floats |= ptxb_is_float((ptx_type)operands[k].type); // only immediates have a type
    }
    *at++ = ';';
    if (floats)
        at = write_float_comment(b, at, insn, operands, line);
    *at++ = '\n';
    set_end(b, at);
}

static void put_label(ptx_builder *b, uint32_t number)
{
    const struct label *label = &b->labels.at[number - 1];
    char *at = label->uses ? text_end(b, OPERAND_BYTES + b->longest_name) : NULL;

    if (at)
        set_end(b, write_string(write_label(b, at, number), ":\n"));
}

void ptxb_put_bare(ptx_builder *b, const struct operand *operand)
{
    char *at = text_end(b, OPERAND_BYTES + b->longest_name);

    if (at)
        set_end(b, ptxb_write_bare(b, at, operand));
}

void ptxb_put_indent(ptx_builder *b, unsigned depth)
{
    for (unsigned k = 0; k < depth && k < MOST_DEPTH; k++)
        put_bytes(b, "    ", INDENT);
}

static void put_comment(ptx_builder *b, const char *string, unsigned depth)
{
    put(b, "\n");
    const uint32_t start = b->text.count;
    ptxb_put_indent(b, depth);
    const uint32_t column = b->text.count - start;
    put(b, "// ");
    ptxb_put_comment_text(b, start, column, string);
    put(b, "\n");
}

void ptxb_put_opcode(ptx_builder *b, unsigned depth, const char *opcode, const char *type)
{
    ptxb_put_indent(b, depth);
    const uint32_t start = b->text.count;
    put(b, opcode);
    put(b, type);
    char *at = text_end(b, MOST_COLUMN + 1);
    if (at)
        set_end(b, write_to_column(at, b->text.at + start, OPERAND_COLUMN));
}

// A return from inline code goes to its end.
static void put_leave(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    char bra[OPERAND_BYTES], *at = bra;

    if (insn->guarded)
        at = write_register(b, write_string(at, insn->negated ? "@!" : "@"), operands[0].id);
    memcpy(at, insn->guarded ? " bra" : "bra", insn->guarded ? 5 : 4);
    ptxb_put_opcode(b, insn->depth, bra, "");
    ptxb_put_number(b, "$return$", b->inlining, ";\n");
}

// The lines of a text of ptx_asm().
static void put_text(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    const char *at = b->extras.at[operands[insn->operand_count - 1].value].text;
    uint32_t start = 0;

    for (; *at && !b->failed; put_bytes(b, at++, 1)) {
        if (*at != ASM_LABEL) {
            ptxb_put_indent(b, insn->depth);
            ptxb_put_indent(b, (unsigned)(*at - '0'));
        }
        start = b->text.count;
        for (at++; *at != '\n'; at++) {
            const unsigned char c = (unsigned char)*at;
            char *const end = c == ASM_COLUMN ? text_end(b, MOST_COLUMN + 1) : NULL;
            if (c >= ASM_OPERAND)
                ptxb_put_bare(b, &operands[c - ASM_OPERAND]);
            else if (c != ASM_COLUMN)
                put_bytes(b, at, 1);
            else if (end)
                set_end(b, write_to_column(end, b->text.at + start, OPERAND_COLUMN));
        }
    }
}

void ptxb_put_insn(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    switch (insn->kind) {
    case INSN_DROPPED:
        return;
    case INSN_LABEL:
        put_label(b, operands[0].value);
        return;
    case INSN_COMMENT:
        put_comment(b, b->extras.at[operands[0].value].text, insn->depth);
        return;
    default:
        if (insn->divergence)
            put_text(b, insn, operands);
        else if (insn->kind == INSN_RETURN && b->inlining)
            put_leave(b, insn, operands);
        else if (insn->calls && operands[insn->dst_count].id != MOST_INDEX)
            ptxb_put_inline(b, insn, operands);
        else
            put_plain(b, insn, operands);
    }
}

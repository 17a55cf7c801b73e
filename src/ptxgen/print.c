// SPDX-License-Identifier: MIT
// Prints a finished entry and the module around it.
#include "print.h"

static const struct {
    char type[7], prefix[4];
    uint8_t length; // of the prefix
} files[FILE_COUNT] = {
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

// Prints the user's text. Characters that are not ASCII or could end a comment are replaced.
static void put_comment_text(ptx_builder *b, const char *string)
{
    while (*string) {
        size_t plain = 0;
        while (string[plain] >= 0x20 && string[plain] < 0x7f)
            plain++;
        put_bytes(b, string, plain);
        string += plain;
        if (!*string)
            return;
        const unsigned char c = (unsigned char)*string++;
        if (c < 0x80 || c >= 0xc0) // otherwise a continuation byte of a UTF-8 character
            put(b, c >= 0x80 ? "?" : " ");
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

static inline char *write_register(const ptx_builder *b, char *at, uint32_t number)
{
    const struct reg reg = b->regs.at[number];

    if (reg.is_result)
        return write_string(at, "$result");
    write_bytes(at, files[reg.file].prefix, sizeof files->prefix); // of one size: a single store
    return write_unsigned(at + files[reg.file].length, reg.where);
}

static char *write_label(const ptx_builder *b, char *at, uint32_t number)
{
    const struct label *label = &b->labels.at[number - 1];

    at = write_string(write_string(at, "$"), label->name);
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
    if (operand->kind == OPERAND_REGISTER) // most are
        return write_register(b, at, operand->id);
    const bool address = operand->kind == OPERAND_ADDRESS || operand->kind == OPERAND_SYMBOL ||
                         operand->kind == OPERAND_PARAM;

    if (!address)
        return ptxb_write_bare(b, at, operand);
    return write_string(ptxb_write_bare(b, write_string(at, "["), operand), "]");
}

// ---- instructions -------------------------------------------------------------------------------

// The decimal values of float literals, as a comment after the line.
static char *write_float_comment(ptx_builder *b, char *at, const struct insn *insn,
                                 const struct operand *operands, char *line)
{
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
    return at;
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

static void put_plain(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    const struct opcode *opcode = &b->opcodes.at[insn->opcode];
    const bool reduce = insn->reducible && !b->regs.at[operands[0].id].used;
    const unsigned first = insn->guarded + (unsigned)reduce;
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
    at = write_string(at, reduce ? "red" : "");
    at = write_bytes(at, opcode->text + skipped, opcode->length - skipped);
    if (insn->operand_count > first)
        at = write_to_column(at, start, OPERAND_COLUMN);
    if (insn->calls)
        at = write_call(b, at, insn, operands);
    for (unsigned k = first; k < insn->operand_count && !insn->calls; k++) {
        if (k > first)
            at = write_string(at, ", ");
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

static void put_comment(ptx_builder *b, const char *string, unsigned depth)
{
    put(b, "\n");
    for (unsigned k = 0; k < depth; k++)
        put_bytes(b, "    ", INDENT);
    put(b, "// ");
    put_comment_text(b, string);
    put(b, "\n");
}

static void put_insn(ptx_builder *b, const struct insn *insn, const struct operand *operands)
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
            ptxb_print_asm(b, insn, operands);
        else
            put_plain(b, insn, operands);
    }
}

static void put_code(ptx_builder *b, const struct code *code)
{
    for (uint32_t k = 0; k < code->insns.count && !b->failed; k++)
        put_insn(b, &code->insns.at[k], ptxb_operands(code, &code->insns.at[k]));
}

// ---- what is made of an entry before it is printed ----------------------------------------------

// The result operand of the instruction that is this register, or NULL.
static struct operand *result_in(const struct code *code, const struct insn *insn, uint32_t reg)
{
    struct operand *operands = ptxb_operands(code, insn);

    for (unsigned k = 0; k < insn->dst_count; k++)
        if (operands[k].id == reg)
            return &operands[k];
    return NULL;
}

// Rewrites `op {x, y ...}; mov var, x`, with no other use of x, to `op {var, y ...}`. Returns false
// if the pattern does not match, or if var already is another result. A text of ptx_asm() may write
// a result before it reads the variable, so its results keep their registers.
static bool drop_move(ptx_builder *b, const struct code *code, struct insn *op, struct insn *mov)
{
    const struct operand *moved = ptxb_operands(code, mov);

    if (!mov->moves || !op || (op->kind != INSN_PLAIN && op->kind != INSN_WARP) || op->divergence ||
        moved[1].kind != OPERAND_REGISTER || !b->regs.at[moved[0].id].variable)
        return false;
    struct operand *made = result_in(code, op, moved[1].id);
    if (!made || b->regs.at[made->id].used_again || b->regs.at[made->id].variable ||
        result_in(code, op, moved[0].id))
        return false;
    made->id = moved[0].id;
    op->reducible = 0;
    mov->kind = INSN_DROPPED;
    return true;
}

static void number_results(ptx_builder *b, struct entry *entry, const struct code *code,
                           const struct insn *insn)
{
    const struct operand *operands = ptxb_operands(code, insn);

    for (unsigned k = 0; k < insn->dst_count; k++) {
        struct reg *reg = &b->regs.at[operands[k].id];
        if (reg->placed)
            continue;
        reg->where = ++entry->registers[reg->file] & MOST_INDEX;
        reg->placed = 1;
    }
}

// Drops useless moves and numbers the registers in order of appearance, so that the numbers have no
// gaps.
static void settle(ptx_builder *b, struct entry *entry, const struct code *code)
{
    struct insn *before = NULL; // numbered when the next instruction is known not to rename it

    for (uint32_t k = 0; k < code->insns.count; k++) {
        struct insn *insn = &code->insns.at[k];
        if (drop_move(b, code, before, insn))
            continue;
        if (before)
            number_results(b, entry, code, before);
        before = insn;
    }
    if (before)
        number_results(b, entry, code, before);
}

// ---- entries ------------------------------------------------------------------------------------

static void put_param_comment(ptx_builder *b, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    put(b, "// ");
    if (info->is_pointer) {
        put(b, ptx_type_name((ptx_type)info->type));
        put(b, "[");
        put_comment_text(b, info->length ? info->length : "");
        put(b, info->readonly ? "], read only" : info->writeonly ? "], written" : "]");
        put(b, info->meaning ? ": " : "");
    }
    put_comment_text(b, info->meaning ? info->meaning : "");
}

// The type in which a function gets or returns a value.
static const char *passed_name(ptx_type type)
{
    return ptx_type_name(ptxb_mov_type(ptxb_carrier(type)));
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->params.count; k++) {
        const struct ptx_param_info *info = &entry->params.at[k].info;
        const uint32_t line_start = b->text.count;
        const char *comma = k + 1 < entry->params.count ? "," : "";
        put(b, entry->is_function ? "    .reg ."
               : info->count      ? "    .param .align 16 ."
                                  : "    .param .");
        put(b, info->is_pointer     ? "u64"
               : entry->is_function ? passed_name((ptx_type)info->type)
                                    : ptxb_memory_name((ptx_type)info->type));
        put(b, " ");
        put(b, info->name);
        if (info->count)
            ptxb_put_number(b, "[", info->count, "]");
        put(b, comma);
        char *at = text_end(b, PARAM_COLUMN);
        if (at && (info->is_pointer || info->meaning))
            set_end(b, write_to_column(at, b->text.at + line_start, PARAM_COLUMN));
        put_param_comment(b, info);
        put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (!shape[0] && !shape[1] && !shape[2])
        return;
    ptxb_put_number(b, directive, shape[0], ", ");
    ptxb_put_number(b, "", shape[1] ? shape[1] : 1, ", ");
    ptxb_put_number(b, "", shape[2] ? shape[2] : 1, "\n");
}

static void put_declarations(ptx_builder *b, const struct entry *entry)
{
    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file]) {
            put(b, "    .reg .");
            put(b, files[file].type);
            put(b, " ");
            put(b, files[file].prefix);
            ptxb_put_number(b, "<", entry->registers[file] + 1, ">;\n");
        }
    for (uint32_t s = entry->first_symbol; s < b->symbols.count; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->kind != SYMBOL_SHARED && symbol->kind != SYMBOL_LOCAL)
            continue;
        put(b, symbol->kind == SYMBOL_SHARED ? "    .shared" : "    .local");
        put(b, " .align 16 .");
        put(b, ptxb_memory_name((ptx_type)symbol->type));
        put(b, " ");
        put(b, symbol->name);
        ptxb_put_number(b, "[", symbol->count, "];\n");
    }
}

void ptxb_print_entry(ptx_builder *b, struct entry *entry)
{
    const struct code *prologue = &b->code[1], *body = &b->code[0];
    const size_t about =
        ((size_t)prologue->insns.count + body->insns.count) * LINE_BYTES + ENTRY_BYTES;

    settle(b, entry, prologue);
    settle(b, entry, body);
    if (!ROOM_FOR_UP_TO(UINT32_MAX / 2, b, b->text, (uint32_t)about))
        return;
    put(b, entry->is_function ? "\n.func " : "\n.visible .entry ");
    if (entry->result) {
        put(b, "(.reg .");
        // As other registers are declared: an instruction may want its type without a sign.
        put(b, files[b->regs.at[entry->result_reg].file].type);
        put(b, " $result) ");
    }
    put(b, entry->decl.name);
    put(b, "(\n");
    put_params(b, entry);
    put(b, ")\n");
    put_shape(b, ".reqntid ", entry->decl.block);
    put_shape(b, ".maxntid ", entry->decl.max_block);
    if (entry->decl.min_blocks)
        ptxb_put_number(b, ".minnctapersm ", entry->decl.min_blocks, "\n");
    put(b, "{\n");
    put_declarations(b, entry);
    if (prologue->insns.count)
        put(b, "\n");
    put_code(b, prologue);
    if (body->insns.at[0].kind != INSN_COMMENT)
        put(b, "\n");
    put_code(b, body);
    put(b, "}\n");
}

// ---- the context of an error --------------------------------------------------------------------

// The comment above instruction `index` of the body, or NULL.
static const char *comment_above(const ptx_builder *b, uint32_t index)
{
    const struct code *code = &b->code[0];

    while (index-- > 0)
        if (code->insns.at[index].kind == INSN_COMMENT)
            return b->extras.at[ptxb_operands(code, &code->insns.at[index])[0].value].text;
    return NULL;
}

void ptxb_print_context(ptx_builder *b, uint32_t index, char *to, size_t size)
{
    enum { LINES = 3 };
    const struct code *code = &b->code[0];
    const uint32_t start = b->text.count;
    uint32_t first = index, written = 0, lines = 0;

    for (uint32_t k = 0; k < index; k++)
        written += code->insns.at[k].kind != INSN_LABEL && code->insns.at[k].kind != INSN_COMMENT;
    if (!written)
        return;
    settle(b, ptxb_entry(b), &b->code[1]);
    settle(b, ptxb_entry(b), code);
    while (first > 0 && lines < LINES)
        lines +=
            code->insns.at[--first].kind <= INSN_WARP && code->insns.at[first].kind != INSN_LABEL;
    const char *comment = comment_above(b, index);
    ptxb_put_number(b, "\nafter ", written, written == 1 ? " instruction" : " instructions");
    put(b, comment ? " of the entry, below '" : " of the entry");
    put_comment_text(b, comment ? comment : "");
    put(b, comment ? "'; the last lines:\n" : "; the last lines:\n");
    for (uint32_t k = first; k < index; k++)
        if (code->insns.at[k].kind != INSN_COMMENT)
            put_insn(b, &code->insns.at[k], ptxb_operands(code, &code->insns.at[k]));
    const size_t length = b->text.count - start - 1; // without the last line break
    if (!b->failed && length < size) {
        memcpy(to, b->text.at + start, length);
        to[length] = 0;
    }
    b->text.count = start;
}

// ---- the module ---------------------------------------------------------------------------------

static void put_header(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_isa(b);

    put(b, "// Written by ptxgen. The PTX ISA version is ");
    put(b, b->params.isa ? "pinned" : "the least that has ");
    put(b, b->params.isa ? "" : b->isa_reason);
    ptxb_put_number(b, ".\n.version ", (unsigned)isa / 10, ".");
    ptxb_put_number(b, "", (unsigned)isa % 10, "\n.target ");
    put(b, ptx_target_name(b->params.target, target));
    put(b, "\n.address_size 64\n");
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        put(b, "\n.extern .shared .align 16 .b8 ");
        put(b, b->symbols.at[s].name);
        put(b, "[];\n");
        break;
    }
    ptxb_print_externals(b);
    ptxb_print_data(b);
}

bool ptxb_print_module(ptx_builder *b)
{
    const uint32_t entries = b->text.count;

    // The header depends on the whole module, so it is written last and moved to the start.
    put_header(b);
    const uint32_t header = b->text.count - entries;
    if (!text_end(b, header))
        return false;
    memmove(b->text.at + header, b->text.at, entries + header);
    memcpy(b->text.at, b->text.at + entries + header, header);
    put_bytes(b, "", 1);
    return !b->failed;
}

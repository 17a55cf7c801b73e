// SPDX-License-Identifier: MIT
// Named arrays of the module, and strings.
#include "print.h"

enum { CONST_BYTES = 64 << 10, MOST_ALIGN = 256, MOST_BYTES = INT32_MAX };

// Data may be declared outside entries.
static bool ready(ptx_builder *b, const char *call)
{
    if (!b || b->failed)
        return false;
    if (b->finished)
        ptxb_fail(b, call, "the module is finished; nothing can be added");
    return !b->failed;
}

static bool params_ok(ptx_builder *b, const char *call, ptx_type type,
                      const struct ptx_data_params *p)
{
    const size_t size = ptx_type_bytes(type);
    const uint32_t align = p->align;

    if (!size)
        ptxb_fail(b, call, "an array cannot have elements of type %s", ptx_type_name(type));
    else if (!p->values != !p->bytes)
        ptxb_fail(b, call, "'%.64s' has %s", p->name,
                  p->values ? ".values and no .bytes, their size"
                            : ".bytes, which is the size of .values, and no .values");
    else if (p->bytes % size)
        ptxb_fail(b, call, "'%.64s' has %zu bytes of values, which are not whole elements of %s",
                  p->name, p->bytes, ptx_type_name(type));
    else if (!p->bytes && !p->count)
        ptxb_fail(b, call, "'%.64s' has no elements; give it a .count, or .values", p->name);
    else if (p->count && p->bytes / size > p->count)
        ptxb_fail(b, call, "'%.64s' has %u element%s and %zu values", p->name, p->count,
                  p->count == 1 ? "" : "s", p->bytes / size);
    else if (align && (align < 16 || align > MOST_ALIGN || (align & (align - 1))))
        ptxb_fail(b, call, "'%.64s' is aligned to %u bytes; it can be 16, 32, 64, 128 or 256",
                  p->name, align);
    else if (p->bytes > MOST_BYTES || p->count > MOST_BYTES / size)
        ptxb_fail(b, call, "'%.64s' is too large: an array has less than 2 GiB", p->name);
    return !b->failed;
}

// Checks the room for a const array after those that the module has.
static bool const_fits(ptx_builder *b, const char *name, uint64_t bytes, uint32_t align)
{
    const uint64_t end = ((uint64_t)b->const_bytes + align - 1) / align * align + bytes;

    if (end > CONST_BYTES) {
        ptxb_fail(b, "const",
                  "'%.64s' of %llu bytes makes %llu bytes of constants; a module has at most %d, "
                  "and ptx_global() can have more",
                  name, (unsigned long long)bytes, (unsigned long long)end, CONST_BYTES);
        return false;
    }
    b->const_bytes = (uint32_t)end;
    return true;
}

static const struct data *copy_data(ptx_builder *b, const void *values, size_t bytes,
                                    uint32_t align)
{
    struct data *data = ptxb_alloc(b, sizeof *data + bytes);

    if (!data)
        return NULL;
    *data = (struct data) { .bytes = (uint32_t)bytes, .align = align };
    if (bytes)
        memcpy(data + 1, values, bytes);
    return data;
}

static ptx_ptr declare(ptx_builder *b, const char *call, enum symbol_kind kind, ptx_type type,
                       const struct ptx_data_params *p)
{
    const bool constant = kind == SYMBOL_CONST;
    const uint32_t align = p->align ? p->align : 16;

    if (!ready(b, call) || !ptxb_valid_name(b, call, p->name) || !params_ok(b, call, type, p) ||
        !ptxb_name_is_free(b, call, p->name))
        return (ptx_ptr) { 0 };
    const uint32_t count = p->count ? p->count : (uint32_t)(p->bytes / ptx_type_bytes(type));
    if (constant && !const_fits(b, p->name, (uint64_t)count * ptx_type_bytes(type), align))
        return (ptx_ptr) { 0 };
    const struct symbol symbol = {
        .name = ptxb_copy(b, p->name),
        .data = copy_data(b, p->values, p->bytes, align),
        .kind = (uint8_t)kind,
        .type = (uint8_t)type,
        .count = count,
    };
    return ptxb_declare_array(b, symbol, constant ? PTX_SPACE_CONST : PTX_SPACE_GLOBAL, constant);
}

ptx_ptr ptx_global_emit(ptx_builder *b, ptx_type type, struct ptx_data_params params)
{
    return declare(b, "global", SYMBOL_GLOBAL, type, &params);
}

ptx_ptr ptx_const_emit(ptx_builder *b, ptx_type type, struct ptx_data_params params)
{
    return declare(b, "const", SYMBOL_CONST, type, &params);
}

ptx_ptr ptx_string(ptx_builder *b, const char *text)
{
    if (!ready(b, "string"))
        return (ptx_ptr) { 0 };
    if (!text) {
        ptxb_fail(b, "string", "the text is NULL");
        return (ptx_ptr) { 0 };
    }
    const size_t bytes = strlen(text) + 1;
    if (bytes > MOST_BYTES) {
        ptxb_fail(b, "string", "the text has more than 2 GiB");
        return (ptx_ptr) { 0 };
    }
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const struct symbol *known = &b->symbols.at[s];
        if (known->kind == SYMBOL_STRING && known->count == bytes &&
            !memcmp(ptxb_values(known->data), text, bytes))
            return ptxb_symbol_ptr(b, s + 1, PTX_SPACE_GLOBAL, true);
    }
    const struct symbol symbol = {
        .name = ptxb_format(b, "$string_%u", ++b->strings),
        .data = copy_data(b, text, bytes, 1),
        .kind = SYMBOL_STRING,
        .type = PTX_U8,
        .count = (uint32_t)bytes,
    };
    return ptxb_declare_array(b, symbol, PTX_SPACE_GLOBAL, true);
}

// ---- printing -----------------------------------------------------------------------------------

// Longer arrays have no decimal values beside their floats.
enum { MOST_DECIMALS = 1024, LINE_VALUES = 16 };

static uint64_t value_at(const struct symbol *symbol, uint32_t k)
{
    const unsigned size = ptx_type_bytes((ptx_type)symbol->type);
    const unsigned char *from = ptxb_values(symbol->data) + (size_t)k * size;
    uint64_t bits = 0;
    uint32_t word;
    uint16_t half;

    switch (size) {
    case 8:
        memcpy(&bits, from, sizeof bits);
        return bits;
    case 4:
        memcpy(&word, from, sizeof word);
        return word;
    case 2:
        memcpy(&half, from, sizeof half);
        return half;
    default:
        return *from;
    }
}

static unsigned values_in_line(ptx_type type)
{
    return ptxb_is_float(type) || ptxb_bits(type) == 64 ? 4
           : ptxb_bits(type) == 32                      ? 8
                                                        : LINE_VALUES;
}

static void put_values_line(ptx_builder *b, const struct symbol *symbol, uint32_t first,
                            uint32_t last, bool more, bool decimals)
{
    char *const line = text_end(b, 2 * LINE_VALUES * OPERAND_BYTES + COMMENT_COLUMN);
    char *at = line;

    if (!line)
        return;
    for (uint32_t k = first; k < last; k++) {
        at = write_string(at, k == first ? "    " : ", ");
        at = ptxb_write_immediate(at, (ptx_type)symbol->type, value_at(symbol, k));
    }
    at = write_string(at, more ? "," : "");
    if (decimals)
        at = write_to_column(at, line, COMMENT_COLUMN);
    for (uint32_t k = first; decimals && k < last; k++) {
        at = write_string(at, k == first ? "// " : ", ");
        at = ptxb_write_decimal(b, at, (ptx_type)symbol->type, value_at(symbol, k));
    }
    set_end(b, write_string(at, "\n"));
}

// Zeros at the end are left out: PTX fills an array with them.
static uint32_t written_values(const struct symbol *symbol)
{
    uint32_t count = symbol->data->bytes / ptx_type_bytes((ptx_type)symbol->type);

    while (count && !value_at(symbol, count - 1))
        count--;
    return count;
}

static void put_values(ptx_builder *b, const struct symbol *symbol, uint32_t count)
{
    const bool decimals = ptxb_is_float((ptx_type)symbol->type) && count <= MOST_DECIMALS;
    const unsigned in_line = values_in_line((ptx_type)symbol->type);

    for (uint32_t k = 0; k < count && !b->failed; k += in_line) {
        const uint32_t last = count - k < in_line ? count : k + in_line;
        put_values_line(b, symbol, k, last, last < count, decimals);
    }
}

// The string as C writes it, in a comment.
static void put_quoted(ptx_builder *b, const struct symbol *symbol)
{
    static const char escaped[] = "\a\b\t\n\v\f\r\"\\", letters[] = "abtnvfr\"\\";
    const unsigned char *text = ptxb_values(symbol->data);

    put(b, "  // \"");
    for (uint32_t k = 0; k + 1 < symbol->count && !b->failed; k++) {
        const char *special = strchr(escaped, text[k]);
        const char letter = (char)text[k];
        if (special) {
            put(b, "\\");
            put_bytes(b, &letters[special - escaped], 1);
        } else {
            put_bytes(b, letter >= 0x20 && letter < 0x7f ? &letter : "?", 1);
        }
    }
    put(b, "\"");
}

static void put_array(ptx_builder *b, const struct symbol *symbol)
{
    const uint32_t count = written_values(symbol);
    const bool string = symbol->kind == SYMBOL_STRING;

    put(b, symbol->kind == SYMBOL_CONST ? ".visible .const"
           : string                     ? ".global"
                                        : ".visible .global");
    ptxb_put_number(b, " .align ", symbol->data->align, string ? " .b8 " : " .");
    put(b, string ? "" : ptxb_memory_name((ptx_type)symbol->type));
    put(b, string ? "" : " ");
    put(b, symbol->name);
    ptxb_put_number(b, "[", symbol->count, count ? "] = {" : "];");
    if (string)
        put_quoted(b, symbol);
    put(b, "\n");
    put_values(b, symbol, count);
    put(b, count ? "};\n" : "");
}

void ptxb_print_data(ptx_builder *b)
{
    bool first = true;

    for (uint32_t s = 0; s < b->symbols.count && !b->failed; s++) {
        if (!ptxb_is_of_module(&b->symbols.at[s]) || b->symbols.at[s].kind == SYMBOL_TEXT)
            continue;
        put(b, first ? "\n" : "");
        first = false;
        put_array(b, &b->symbols.at[s]);
    }
}

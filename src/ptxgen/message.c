// SPDX-License-Identifier: MIT
// Calls of the functions that the driver has for every kernel: vprintf and __assertfail.
#include "print.h"

#include <stdio.h>

enum { MOST_VALUES = 16 };

// ---- formats ------------------------------------------------------------------------------------

// One conversion: "%-8.3lld".
struct conversion {
    const char *at;
    int length;
    unsigned longs;
    char letter;
};

static size_t span(const char *text, const char *set)
{
    return strspn(text, set);
}

// Reads the conversion at the '%'. An error names what of it is wrong. The driver misreads all
// arguments after one with another size than these, such as hh.
static bool read_conversion(ptx_builder *b, const char *at, struct conversion *c)
{
    const char *end = at + 1;

    end += span(end, "-+ #0");
    end += span(end, "0123456789");
    if (*end == '.')
        end += 1 + span(end + 1, "0123456789");
    size_t shorts = 0, longs = 0;
    for (; *end == 'h' || *end == 'l'; end++)
        *(*end == 'h' ? &shorts : &longs) += 1;
    *c = (struct conversion) { at, (int)(end - at) + (*end != 0), (unsigned)longs, *end };
    const bool integer = *end && strchr("diuxXoc", *end), real = *end && strchr("fFeEgGaA", *end);
    const char *wrong = *end == '*'                                 ? "a width is a number"
                        : !*end                                     ? "the format ends in it"
                        : strchr("zjtL", *end)                      ? "a size is h, l or ll"
                        : !integer && !real && !strchr("sp%", *end) ? "there is no such conversion"
                        : shorts > 1 || longs > 2 || (shorts && longs) ? "a size is h, l or ll"
                        : !integer && (shorts || longs)                ? "a size is for integers"
                        : *end == 'c' && longs          ? "wide characters are not printed"
                        : *end == '%' && c->length != 2 ? "'%' stands alone"
                        : c->length > 20                ? "widths have a few digits"
                                                        : NULL;
    if (!wrong)
        return true;
    ptxb_fail(b, "printf", "'%.*s' in the format: %s", c->length < 24 ? c->length : 24, at, wrong);
    return false;
}

// The type of a C number.
static ptx_type number_type(const struct conversion *c)
{
    if (strchr("dic", c->letter))
        return c->longs ? PTX_S64 : PTX_S32;
    if (strchr("uxXo", c->letter))
        return c->longs ? PTX_U64 : PTX_U32;
    return c->letter == 's' || c->letter == 'p' ? PTX_U64 : PTX_F64;
}

// What the conversion takes, for a message; NULL if it takes values of the type.
static const char *refused(const struct conversion *c, ptx_type type)
{
    const bool integer = ptxb_is_integer(type) || (PTX_TYPES_B >> type & 1) || type == PTX_B8;

    if (strchr("fFeEgGaA", c->letter))
        return ptxb_is_float(type) ? NULL : "f16, bf16, f32 and f64";
    if (c->letter == 's' || c->letter == 'p')
        return type == PTX_U64 || type == PTX_B64 ? NULL : "a u64, as ptx_ptr_generic() gives it";
    if (c->longs)
        return integer && ptxb_bits(type) == 64 ? NULL : "integers of 64 bits";
    return type == PTX_PRED || (integer && ptxb_bits(type) <= 32)
               ? NULL
               : "integers of up to 32 bits; ll is for 64";
}

// As C promotes arguments.
static ptx_val promoted(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;

    if (ptxb_is_float(type))
        return ptx_cvt(b, PTX_F64, ptxb_bits(type) < 32 ? ptx_cvt(b, PTX_F32, x) : x);
    if (type == PTX_PRED)
        return ptx_select(b, x, ptx_u32(1), ptx_u32(0));
    if (ptxb_bits(type) >= 32)
        return x;
    if (type == PTX_B8 || type == PTX_B16)
        return ptxb_emit(b, PTX_U32, ptxb_opcode(b, type == PTX_B8 ? "cvt.u32.u8" : "cvt.u32.u16"),
                         1, &x);
    return ptx_cvt(b, type >= PTX_S8 ? PTX_S32 : PTX_U32, x);
}

// Checks the values against the format and promotes them.
static bool read_format(ptx_builder *b, const char *format, ptx_val *values, size_t count)
{
    struct conversion c;
    char name[32];
    size_t taken = 0;

    for (const char *at = strchr(format, '%'); at; at = strchr(at + c.length, '%')) {
        if (!read_conversion(b, at, &c))
            return false;
        if (c.letter == '%' || ++taken > count)
            continue;
        ptx_val *x = &values[taken - 1];
        snprintf(name, sizeof name, "value %zu", taken);
        *x = ptxb_typed(b, "printf", name, *x, number_type(&c));
        if (!ptxb_usable(b, "printf", name, *x))
            return false;
        const char *wanted = refused(&c, (ptx_type)x->type);
        if (wanted)
            ptxb_fail(b, "printf", "%s is %s; '%.*s' takes %s", name,
                      ptx_type_name((ptx_type)x->type), c.length, at, wanted);
        if (b->failed)
            return false;
        *x = promoted(b, *x);
    }
    if (taken != count)
        ptxb_fail(b, "printf", "the format takes %zu value%s; got %zu", taken,
                  taken == 1 ? "" : "s", count);
    return !b->failed;
}

// ---- calls --------------------------------------------------------------------------------------

static void call_driver(ptx_builder *b, const char *function, const ptx_val *args, unsigned count,
                        bool result)
{
    const ptx_val status = result ? ptxb_register(b, PTX_U32) : (ptx_val) { 0 };
    struct insn *insn = ptxb_append(b, INSN_PLAIN, ptxb_opcode(b, "call"), result, 1 + count);

    if (!insn)
        return;
    insn->calls = 1;
    if (result)
        ptxb_result(b, insn, 0, status);
    ptxb_text_operand(b, insn, result, OPERAND_TEXT, function);
    ptxb_operands(&b->code[0], insn)[result].id = MOST_INDEX;
    for (unsigned k = 0; k < count; k++)
        ptxb_source(b, insn, result + 1u + k, args[k]);
}

// The values in the thread's local memory, each aligned to its size; all printf of an entry share
// the memory. Returns its generic address.
static ptx_val stored(ptx_builder *b, const ptx_val *values, size_t count)
{
    struct entry *entry = ptxb_entry(b);
    uint32_t bytes = 0, at[MOST_VALUES];

    if (!count)
        return ptx_u64(0);
    for (size_t k = 0; k < count; k++) {
        const uint32_t size = ptx_type_bytes((ptx_type)values[k].type);
        at[k] = (bytes + size - 1) / size * size;
        bytes = at[k] + size;
    }
    if (!entry->print_buffer) {
        const struct symbol buffer = { .name = "$printf", .kind = SYMBOL_LOCAL, .type = PTX_B8 };
        entry->print_buffer = ptxb_declare_array(b, buffer, PTX_SPACE_LOCAL, false).symbol;
    }
    if (b->failed)
        return (ptx_val) { 0 };
    struct symbol *symbol = &b->symbols.at[entry->print_buffer - 1];
    symbol->count = bytes > symbol->count ? bytes : symbol->count;
    const ptx_ptr buffer = ptxb_symbol_ptr(b, entry->print_buffer, PTX_SPACE_LOCAL, false);
    for (size_t k = 0; k < count; k++) {
        const ptx_ptr to = ptx_at(b, buffer, ptx_u32(at[k]));
        ptx_store(b, ptx_ptr_cast(b, (ptx_type)values[k].type, to), ptx_u32(0), values[k]);
    }
    return ptx_ptr_generic(b, buffer);
}

void ptx_printf_emit(ptx_builder *b, const char *format, const ptx_val *values, size_t count)
{
    ptx_val promoted_values[MOST_VALUES];

    if (!ptxb_ready(b, "printf"))
        return;
    if (!format) {
        ptxb_fail(b, "printf", "the format is NULL");
        return;
    }
    if (count > MOST_VALUES) {
        ptxb_fail(b, "printf", "%zu values; there are at most %d", count, MOST_VALUES);
        return;
    }
    if (count)
        memcpy(promoted_values, values, count * sizeof *values);
    if (!read_format(b, format, promoted_values, count))
        return;
    const ptx_val text = ptx_ptr_generic(b, ptx_string(b, format));
    const ptx_val args[] = { text, stored(b, promoted_values, count) };
    if (b->failed)
        return;
    call_driver(b, "vprintf", args, 2, true);
    b->calls_vprintf = true;
}

static void fail_thread(ptx_builder *b, const struct ptx_message_params *p)
{
    struct entry *entry = ptxb_entry(b);
    const char *name = entry->decl.name;
    const uint32_t line = ++entry->messages;
    const ptx_val message = ptx_ptr_generic(b, ptx_string(b, p->text));
    const ptx_val file = ptx_ptr_generic(b, ptx_string(b, p->file ? p->file : name));
    const ptx_val function = ptx_ptr_generic(b, ptx_string(b, name));
    const ptx_val args[] = { message, file, ptx_u32(p->line ? p->line : line), function,
                             ptx_u64(1) }; // bytes of a character

    if (b->failed)
        return;
    call_driver(b, "__assertfail", args, 5, false);
    b->calls_assertfail = true;
}

static bool message_ok(ptx_builder *b, const char *call, const struct ptx_message_params *p)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!p->text)
        ptxb_fail(b, call, "the text is NULL");
    return !b->failed;
}

void ptx_trap_message_emit(ptx_builder *b, struct ptx_message_params params)
{
    if (message_ok(b, "trap_message", &params))
        fail_thread(b, &params);
}

void ptx_assert_emit(ptx_builder *b, ptx_val cond, struct ptx_message_params params)
{
    if (!message_ok(b, "assert", &params))
        return;
    const uint32_t guard = ptxb_condition(b, "assert", cond);
    const uint32_t block = guard ? ptxb_unless_begin(b, guard, "assert") : 0;
    if (!block)
        return;
    fail_thread(b, &params);
    ptx_if_end(b, (int)block);
    b->closed_if = NO_INDEX; // no ptx_else() goes with it
}

void ptxb_print_externals(ptx_builder *b)
{
    if (b->calls_vprintf || b->calls_assertfail)
        put(b, "\n");
    if (b->calls_vprintf)
        put(b,
            ".extern .func (.reg .b32 $status) vprintf(.reg .b64 $format, .reg .b64 $values);\n");
    if (b->calls_assertfail)
        put(b, ".extern .func __assertfail(.reg .b64 $message, .reg .b64 $file, .reg .b32 $line,\n"
               "    .reg .b64 $function, .reg .b64 $char_bytes);\n");
}

// SPDX-License-Identifier: MIT
// Integers of several words. A chain of carries is one instruction of the list, as a text of
// ptx_asm() is: nothing moves into it, and its results vary where one of its operands does.
#include "asm_text.h"

#include <assert.h>

#include <stdio.h>

enum { MOST_OPERANDS = 3 * PTX_WORDS_MAX + 2 };
static_assert(ASM_OPERAND + MOST_OPERANDS <= UINT8_MAX, "a line names operands by a byte");

// The results come first, then the sources.
struct chain {
    ptx_builder *b;
    const char *call;
    ptx_type type;
    unsigned results, sources;
    ptx_val source[2 * PTX_WORDS_MAX + 1];
    char *text, *at;
};

// ---- operands -----------------------------------------------------------------------------------

static bool begin(struct chain *c, unsigned count, const void *result)
{
    if (!ptxb_ready(c->b, c->call))
        return false;
    if (!count || count > PTX_WORDS_MAX)
        ptxb_fail(c->b, c->call, "%u words; an integer has 1 to %d", count, PTX_WORDS_MAX);
    else if (!result)
        ptxb_fail(c->b, c->call, "there is no array for the result");
    return !c->b->failed;
}

// Adds a source, all of which have the type of the first.
static bool add_word(struct chain *c, const char *name, unsigned k, ptx_val x)
{
    char text[32];

    snprintf(text, sizeof text, k == NO_INDEX ? "%s" : "%s[%u]", name, k);
    if (c->sources)
        x = ptxb_typed(c->b, c->call, text, x, c->type);
    if (!ptxb_usable(c->b, c->call, text, x))
        return false;
    if (!c->sources)
        c->type = (ptx_type)x.type;
    if (c->type != PTX_U32 && c->type != PTX_U64)
        ptxb_fail(c->b, c->call, "%s is %s; words are u32 or u64", text, ptx_type_name(c->type));
    else if (x.type != c->type)
        ptxb_fail(c->b, c->call, "%s is %s; x[0] is %s", text, ptx_type_name((ptx_type)x.type),
                  ptx_type_name(c->type));
    c->source[c->sources++] = x;
    return !c->b->failed;
}

static bool add_words(struct chain *c, const char *name, unsigned count, const ptx_val *x)
{
    if (!x)
        ptxb_fail(c->b, c->call, "there is no array %s", name);
    for (unsigned k = 0; x && k < count; k++)
        if (!add_word(c, name, k, x[k]))
            return false;
    return x;
}

// ---- the text -----------------------------------------------------------------------------------

enum { LINE_BYTES = 40, ZERO = -1 };

static void open_text(struct chain *c, unsigned results, unsigned lines)
{
    c->results = results;
    c->text = c->at = ptxb_alloc(c->b, (size_t)lines * LINE_BYTES + 1);
}

// One line: the operands are indices, results first, or ZERO.
static void put(struct chain *c, const char *opcode, const int *operands, unsigned count)
{
    if (!c->at)
        return;
    c->at += sprintf(c->at, "0%s.%s%c", opcode, ptx_type_name(c->type), ASM_COLUMN);
    for (unsigned k = 0; k < count; k++) {
        if (k)
            c->at += sprintf(c->at, ", ");
        *c->at++ = operands[k] == ZERO ? '0' : (char)(ASM_OPERAND + operands[k]);
    }
    c->at += sprintf(c->at, ";\n");
}

#define PUT(c, opcode, ...)                                                                        \
    put(c, opcode, (const int[]) { __VA_ARGS__ }, sizeof(int[]) { __VA_ARGS__ } / sizeof(int))

static void append(struct chain *c, const char *opcode, ptx_opcode row, ptx_val *out)
{
    ptx_builder *const b = c->b;
    const struct ptx_op_form *form = ptx_op_get_info(row)->forms;

    if (!c->text)
        return;
    const uint32_t first = ptxb_required(b, c->call, form->isa, form->sm,
                                         ptxb_spell(b, opcode, ".", ptx_type_name(c->type), NULL));
    for (unsigned k = 0; k < c->results; k++)
        out[k] = ptxb_register(b, c->type);
    const uint32_t text = ptxb_extra(b, (union extra) { .text = c->text });
    struct insn *insn = ptxb_append(b, INSN_PLAIN, first, c->results, c->sources + 1);
    if (!insn)
        return;
    for (unsigned k = 0; k < c->results; k++)
        ptxb_result(b, insn, k, out[k]);
    for (unsigned k = 0; k < c->sources; k++)
        ptxb_source(b, insn, c->results + k, c->source[k]);
    ptxb_operands(&b->code[b->in_prologue], insn)[c->results + c->sources] =
        (struct operand) { .kind = OPERAND_TEXT, .value = text };
    insn->divergence = 1 + PTX_DIVERGENCE_OPERANDS;
}

// ---- calls --------------------------------------------------------------------------------------

static void set_all(ptx_val *to, unsigned count, const ptx_val *from)
{
    for (unsigned k = 0; to && k < count; k++)
        to[k] = from[k];
}

// A sum, or a difference, and what is left over.
static void add_or_sub(struct chain *c, bool sub, unsigned count, ptx_val *sum, const ptx_val *x,
                       const ptx_val *y, ptx_val *left)
{
    ptx_val out[PTX_WORDS_MAX + 1] = { { 0 } };
    const char *const first = sub ? "sub.cc" : "add.cc", *const next = sub ? "subc.cc" : "addc.cc";

    if (begin(c, count, sum) && add_words(c, "x", count, x) && add_words(c, "y", count, y)) {
        open_text(c, count + (left != NULL), count + 2);
        const int from = (int)c->results, n = (int)count;
        for (int k = 0; k < n; k++)
            PUT(c,
                k == 0              ? first
                : k + 1 < n || left ? next
                : sub               ? "subc"
                                    : "addc",
                k, from + k, from + n + k);
        if (left)
            PUT(c, sub ? "subc" : "addc", n, ZERO, ZERO);
        if (left && sub) // minus one is a borrow
            PUT(c, "sub", n, ZERO, n);
        append(c, first, sub ? PTX_OP_sub_cc : PTX_OP_add_cc, out);
    }
    set_all(sum, count <= PTX_WORDS_MAX ? count : 0, out);
    set_all(left, 1, count <= PTX_WORDS_MAX ? out + count : out);
}

void ptx_words_add(ptx_builder *b, unsigned count, ptx_val *sum, const ptx_val *x, const ptx_val *y,
                   ptx_val *carry)
{
    add_or_sub(&(struct chain) { .b = b, .call = "words_add" }, false, count, sum, x, y, carry);
}

void ptx_words_sub(ptx_builder *b, unsigned count, ptx_val *difference, const ptx_val *x,
                   const ptx_val *y, ptx_val *borrow)
{
    add_or_sub(&(struct chain) { .b = b, .call = "words_sub" }, true, count, difference, x, y,
               borrow);
}

// The low halves of the products in a first chain, the high halves, one word up, in a second one.
static void put_rows(struct chain *c, int n)
{
    const int x = n + 1, y = x + n, z = y + 1;

    for (int k = 0; k < n; k++)
        PUT(c, k == 0 ? "mad.lo.cc" : "madc.lo.cc", k, x + k, y, z + k);
    PUT(c, "addc", n, ZERO, ZERO);
    for (int k = 0; k < n; k++)
        PUT(c,
            n == 1      ? "mad.hi"
            : k == 0    ? "mad.hi.cc"
            : k + 1 < n ? "madc.hi.cc"
                        : "madc.hi",
            k + 1, x + k, y, k + 1);
}

void ptx_words_mad(ptx_builder *b, unsigned count, ptx_val *sum, const ptx_val *x, ptx_val y,
                   const ptx_val *z)
{
    struct chain c = { .b = b, .call = "words_mad" };
    ptx_val out[PTX_WORDS_MAX + 1] = { { 0 } };

    if (begin(&c, count, sum) && add_words(&c, "x", count, x) && add_word(&c, "y", NO_INDEX, y) &&
        add_words(&c, "z", count, z)) {
        open_text(&c, count + 1, 2 * count + 1);
        put_rows(&c, (int)count);
        append(&c, "mad.lo.cc", PTX_OP_mad_cc, out);
    }
    set_all(sum, count <= PTX_WORDS_MAX ? count + 1 : 0, out);
}

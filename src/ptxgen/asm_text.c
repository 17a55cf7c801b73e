// SPDX-License-Identifier: MIT
// Reads the texts of ptx_asm() and ptx_asm_module(): statements, operands, braces, names.
#include "asm_text.h"

#include <stdio.h>

// ---- characters ---------------------------------------------------------------------------------

const char *ptxb_asm_excerpt(const char *from, char out[ASM_EXCERPT])
{
    size_t length = 0;

    for (; length + 4 < ASM_EXCERPT && from[length] && from[length] != '\n' &&
           from[length] != '\r' && from[length] != ';';
         length++)
        out[length] = from[length] == '\t' ? ' ' : from[length];
    memcpy(out + length, length + 4 < ASM_EXCERPT ? "" : "...", length + 4 < ASM_EXCERPT ? 1 : 4);
    return out;
}

static bool is_ascii(ptx_builder *b, const char *call, const char *text)
{
    if (!text) {
        ptxb_fail(b, call, "the text is missing");
        return false;
    }
    for (const char *c = text; *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        if ((byte >= 0x20 && byte < 0x7f) || strchr(" \t\n\r", *c))
            continue;
        ptxb_fail(b, call,
                  "byte %zu of the text is 0x%02x; PTX is ASCII, without control characters",
                  (size_t)(c - text), byte);
        return false;
    }
    return true;
}

// ---- pieces -------------------------------------------------------------------------------------

struct reader {
    ptx_builder *b;
    const char *call;
    const char *at;        // the next character
    const char *statement; // where it begins
    char *out;             // the end of what is written; NULL: nothing is
    const struct asm_operands *operands;
    uint32_t number;
    unsigned scopes;
    bool numbered, numbered_any; // the statement has %=; a statement has
    const char *varying;
    uint64_t shared;
    bool special;
    bool used[ASM_OPERANDS];
    char open[16]; // the brackets of the statement
    unsigned opened;
    bool space;                          // skip_space() skipped some
    char excerpt[ASM_EXCERPT], name[40]; // for errors
};

#define FAIL(r, ...) (ptxb_fail((r)->b, (r)->call, __VA_ARGS__), false)

static const char *excerpt(struct reader *r)
{
    return ptxb_asm_excerpt(r->statement, r->excerpt);
}

static void keep(struct reader *r, char c)
{
    if (r->out)
        *r->out++ = c;
}

// Skips white space and comments, of which nothing is printed.
static bool skip_space(struct reader *r)
{
    const char *from = r->at;

    r->at = ptxb_asm_skip(from);
    r->space = r->at != from;
    return strncmp(r->at, "/*", 2) != 0 || FAIL(r, "a comment of the text has no end");
}

static bool copy_string(struct reader *r)
{
    const char *end = strchr(r->at + 1, '"');

    if (!end)
        return FAIL(r, "a string has no end in '%s'", excerpt(r));
    while (r->at <= end)
        keep(r, *r->at++);
    return true;
}

// One character; brackets must match.
static bool copy_character(struct reader *r)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char c = *r->at++;
    const char *open = strchr(opening, c), *close = strchr(closing, c);

    keep(r, c);
    if (open && r->opened == sizeof r->open)
        return FAIL(r, "there are too many brackets in '%s'", excerpt(r));
    if (open)
        r->open[r->opened++] = closing[open - opening];
    else if (close && (!r->opened || r->open[--r->opened] != c))
        return FAIL(r, "a '%c' closes nothing in '%s'", c, excerpt(r));
    return true;
}

// ---- operands -----------------------------------------------------------------------------------

static unsigned count(const struct asm_operands *o)
{
    return o->results + o->inouts + o->inputs + o->addresses;
}

// "%3, which is .in[1]".
static const char *operand_name(struct reader *r, unsigned k)
{
    const struct asm_operands *o = r->operands;
    const unsigned counts[] = { o->results, o->inouts, o->inputs, o->addresses };
    static const char *const names[] = { "result", "inout", "in", "at" };
    unsigned list = 0, element = k;

    while (list < 3 && element >= counts[list])
        element -= counts[list++];
    snprintf(r->name, sizeof r->name, "%%%u, which is .%s[%u]", k, names[list], element);
    return r->name;
}

// An address stands alone in its brackets, or before coordinates.
static bool in_brackets(const struct reader *r)
{
    const char *after = ptxb_asm_skip(r->at);

    return r->out[-1] == '[' && (*after == ']' || *after == ',');
}

static bool copy_operand(struct reader *r)
{
    const struct asm_operands *o = r->operands;
    const char *from = r->at++;
    unsigned k = 0;

    while (asm_is_digit(*r->at) && k < 1000)
        k = 10 * k + (unsigned)(*r->at++ - '0');
    if (asm_is_word(*r->at))
        return FAIL(r, "'%.*s' in '%s' is no operand: those are %%0, %%1, ...",
                    (int)(r->at - from) + 1, from, excerpt(r));
    if (k >= count(o))
        return FAIL(r, "'%s' names %%%u, and the call has %u operand%s", excerpt(r), k, count(o),
                    count(o) == 1 ? "" : "s");
    if (k >= count(o) - o->addresses && !in_brackets(r))
        return FAIL(r, "%s, is an address; write [%%%u], and offsets by ptx_at()",
                    operand_name(r, k), k);
    r->used[k] = true;
    // A variable is twice among the operands of the instruction, as result and as source.
    const unsigned index = k < o->results + o->inouts ? k : k + o->inouts;
    keep(r, (char)(unsigned char)(ASM_OPERAND + index));
    return true;
}

// The registers that the builder declares; not %pm0 and other special registers.
static bool is_builders(const char *name)
{
    static const char *const prefixes[] = { "p", "rs", "rd", "r", "fd", "f" };

    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
        const size_t length = strlen(prefixes[k]);
        if (!strncmp(name, prefixes[k], length) &&
            (asm_is_digit(name[length]) || name[length] == '<'))
            return true;
    }
    return false;
}

static bool copy_percent(struct reader *r)
{
    if (asm_is_digit(r->at[1]))
        return copy_operand(r);
    if (r->at[1] == '=') {
        r->numbered = r->numbered_any = true;
        r->out += snprintf(r->out, 11, "%u", (unsigned)r->number);
    } else if (r->at[1] == '%') {
        if (is_builders(r->at + 2))
            return FAIL(r,
                        "'%.*s' in '%s' is a register of the builder's; name your own without "
                        "%%%%, and pass values as operands",
                        (int)strcspn(r->at, " \t\n\r<>,;])}"), r->at, excerpt(r));
        r->special = true;
        if (!r->varying && ptxb_asm_varies(r->at + 1))
            r->varying = r->at + 1;
        keep(r, '%');
    } else {
        return FAIL(r,
                    "'%s' has a single %%: operands are %%0, %%1, ..., and PTX's own percent "
                    "sign is %%%%, as in %%%%laneid",
                    excerpt(r));
    }
    r->at += 2;
    return true;
}

// ---- the parts of a statement -------------------------------------------------------------------

// A mnemonic, a directive or the name of a label.
static bool copy_word(struct reader *r)
{
    for (;;) {
        const bool colons = r->at[0] == ':' && r->at[1] == ':';
        if (r->at[0] == '%' && r->at[1] == '=') {
            if (!copy_percent(r))
                return false;
        } else if (asm_is_word(*r->at) || *r->at == '.' || colons) {
            keep(r, *r->at++);
            if (colons)
                keep(r, *r->at++);
        } else {
            return true;
        }
    }
}

static bool copy_guard(struct reader *r)
{
    keep(r, *r->at++);
    if (*r->at == '!')
        keep(r, *r->at++);
    if (*r->at == '%' && !copy_percent(r))
        return false;
    if (!copy_word(r) || !skip_space(r))
        return false;
    keep(r, ' ');
    return true;
}

// The rest of a statement after `column`, up to its ';'.
static bool copy_rest(struct reader *r, char column)
{
    char before = 0;

    for (;;) {
        bool ok;
        if (!skip_space(r))
            return false;
        const char c = *r->at;
        if (!c || (c == ';' && r->opened))
            return FAIL(r, c ? "a bracket is never closed in '%s'" : "'%s' does not end with ';'",
                        excerpt(r));
        if (c == ';') {
            keep(r, *r->at++);
            return true;
        }
        if (!before || (r->space && before != '[' && c != ']'))
            keep(r, before ? ' ' : column);
        before = c;
        if (c == '$' && !asm_is_word(r->at[-1]))
            return FAIL(r, "'%s' uses a name that begins with '$', as the builder's own do",
                        excerpt(r));
        if (c == '%')
            ok = copy_percent(r);
        else
            ok = c == '"' ? copy_string(r) : copy_character(r);
        if (!ok)
            return false;
    }
}

// ---- destinations -------------------------------------------------------------------------------

// An input is not the text's to set: other code reads it, and the analyses do not see that it
// changed.
static bool destinations_ok(struct reader *r, const char *line)
{
    const struct asm_operands *o = r->operands;
    size_t length;

    for (const char *at = ptxb_asm_destinations(line, &length); length; at++, length--) {
        const unsigned index = (unsigned char)*at - (unsigned)ASM_OPERAND;
        if ((unsigned char)*at >= ASM_OPERAND && index >= o->results + o->inouts)
            return FAIL(r,
                        "'%s' sets %s; what a text sets is a new value of .result, or a variable "
                        "in .inout",
                        excerpt(r), operand_name(r, index - o->inouts));
    }
    return true;
}

static bool results_are_set(struct reader *r, const char *lines)
{
    for (unsigned k = 0; k < r->operands->results; k++) {
        const enum asm_setting setting = ptxb_asm_setting(r->b, lines, k);
        if (setting == ASM_SET)
            continue;
        const char *name = operand_name(r, k);
        return setting == ASM_UNSET
                   ? FAIL(r,
                          "no statement of the text sets %s; what it only reads is in .in, what "
                          "it reads and sets in .inout",
                          name)
                   : FAIL(r,
                          "%s, is set %s, and undefined elsewhere; set it in any case first, or "
                          "pass a variable in .inout",
                          name,
                          setting == ASM_GUARDED ? "under a guard only"
                                                 : "only where no branch of the text skips it");
    }
    return true;
}

// ---- statements ---------------------------------------------------------------------------------

static bool end_label(struct reader *r, char *line)
{
    if (!r->scopes && !r->numbered)
        return FAIL(r,
                    "label '%.*s' would be there again at the next use of the text; write it with "
                    "%%=, as in done_%%=, or inside { }",
                    (int)strcspn(r->statement, " \t\r\n:/"), r->statement);
    *line = ASM_LABEL;
    keep(r, *r->at++);
    return true;
}

static bool read_statement(struct reader *r)
{
    char *const line = r->out;

    r->statement = r->at;
    r->numbered = false;
    r->opened = 0;
    keep(r, (char)('0' + (r->scopes < ASM_MOST_DEPTH ? r->scopes : ASM_MOST_DEPTH)));
    if (*r->at == '@' && !copy_guard(r))
        return false;
    const char *word = r->at;
    if (!asm_is_word(*word) && *word != '.')
        return FAIL(r, "'%s' does not begin with an instruction", excerpt(r));
    if (*word == '$')
        return FAIL(r, "'%s' begins with '$', as the builder's own names do", excerpt(r));
    if (!copy_word(r))
        return false;
    const struct asm_mnemonic m = { word, (size_t)(r->at - word) };
    const char column = *word == '.' ? ' ' : ptxb_asm_facts(m) & ASM_SOURCE ? ASM_READ : ASM_COLUMN;
    if (!skip_space(r))
        return false;
    if (*r->at == ':' && r->statement == word)
        return end_label(r, line);
    if (ptxb_is_shared(word))
        r->shared += ptxb_declared_shared(word);
    return copy_rest(r, column) && (*word == '.' || destinations_ok(r, line));
}

static bool read_statements(struct reader *r)
{
    for (;;) {
        if (!skip_space(r))
            return false;
        const char c = *r->at;
        if (!c)
            break;
        if (c == ';') {
            r->at++;
            continue;
        }
        if (c == '}' && !r->scopes--)
            return FAIL(r, "a '}' of the text closes nothing");
        if (c == '{' || c == '}') {
            keep(r, (char)('0' + (r->scopes < ASM_MOST_DEPTH ? r->scopes : ASM_MOST_DEPTH)));
            keep(r, *r->at++);
            r->scopes += c == '{';
        } else if (!read_statement(r)) {
            return false;
        }
        keep(r, '\n');
    }
    keep(r, 0);
    return r->scopes ? FAIL(r, "a '{' of the text is never closed") : true;
}

bool ptxb_read_asm(ptx_builder *b, const char *call, const char *text, uint32_t number,
                   const struct asm_operands *operands, struct asm_text *read)
{
    struct reader r = { .b = b, .call = call, .at = text, .operands = operands, .number = number };
    size_t bytes = 1;

    if (!is_ascii(b, call, text))
        return false;
    for (const char *c = text; *c; c++) // what a character can become
        bytes += *c == ';' || *c == '{' || *c == '}' || *c == ':' ? 4 : *c == '=' ? 10 : 2;
    char *lines = ptxb_alloc(b, bytes);
    if (!lines)
        return false;
    r.out = lines;
    if (!read_statements(&r))
        return false;
    if (!*lines)
        return FAIL(&r, "the text is empty");
    for (unsigned k = 0; k < count(operands); k++)
        if (!r.used[k])
            return FAIL(&r, "the text does not have %s", operand_name(&r, k));
    *read = (struct asm_text) { lines, r.varying, r.shared, r.special, r.numbered_any };
    return results_are_set(&r, lines);
}

// ---- the text of a module -----------------------------------------------------------------------

// What the text's declarations have so far: their names, and the one under way.
struct names {
    const char *const *name;
    unsigned count;
    struct asm_declaration declaration;
    struct asm_name *newest;
    struct asm_name *is;
    bool found[PTX_ASM_MAX_NAMES];
};

static bool is_named(struct names *names, const char *word, size_t length)
{
    const struct asm_declaration *d = &names->declaration;

    for (unsigned k = 0; k < names->count; k++) {
        if (strlen(names->name[k]) != length || memcmp(names->name[k], word, length) != 0)
            continue;
        names->newest = &names->is[k];
        *names->newest = (struct asm_name) { .space = d->space, .function = d->function };
        if (d->space == PTX_SPACE_SHARED)
            names->newest->shared = ptxb_variable_bytes(d, word + length);
        return names->found[k] = true;
    }
    return false;
}

// A word of the text; outside of brackets and initial values it is a name that the text declares.
static bool check_word(struct reader *r, struct names *names, bool outside)
{
    const char *word = r->at;
    size_t length = 1;

    while (asm_is_word(word[length]) || word[length] == '%')
        length++;
    r->at += length;
    if (*word == '$')
        return FAIL(r, "'%.*s' begins with '$', as the builder's own names do", (int)length, word);
    if (!outside || asm_is_digit(*word) || is_named(names, word, length))
        return true;
    return FAIL(r, "the text declares '%.*s'; name it in .declares", (int)length, word);
}

static bool check_directive(struct reader *r, struct names *names)
{
    const char *const word = r->at;
    const size_t length = 1 + strspn(word + 1, "abcdefghijklmnopqrstuvwxyz_");

    if (ptxb_asm_among(word, length, ".version .target .address_size"))
        return FAIL(r, "%.*s is the builder's to write", (int)length, word);
    for (r->at++; asm_is_word(*r->at) || *r->at == '.' || *r->at == ':'; r->at++)
        ;
    if (!r->opened)
        ptxb_note_directive(&names->declaration, word, 1 + strcspn(word + 1, ". \t\r\n;,[({/"));
    else if (names->newest && ptxb_is_shared(word)) // in the body of a function
        names->newest->shared += ptxb_declared_shared(word);
    return true;
}

static bool check_tokens(struct reader *r, struct names *names)
{
    bool value = false, whole = true; // after '='; at the end of a statement

    r->statement = r->at;
    while (skip_space(r) && *r->at) {
        const char c = *r->at;
        bool ok;
        if (whole) {
            r->statement = r->at;
            names->declaration = (struct asm_declaration) { 0 };
        }
        if (asm_is_word(c) || c == '%')
            ok = check_word(r, names, !value && !r->opened);
        else if (c == '.')
            ok = check_directive(r, names);
        else
            ok = c == '"' ? copy_string(r) : copy_character(r);
        if (!ok)
            return false;
        // A brace ends a body, and not the initial value of a variable.
        whole = !r->opened && (c == ';' || (c == '}' && !value));
        if (!r->opened && (c == '=' || c == ',' || c == ';'))
            value = c == '=';
    }
    if (!r->b->failed && (r->opened || !whole))
        return FAIL(r, "'%s' does not end", excerpt(r));
    return !r->b->failed;
}

bool ptxb_check_module_text(ptx_builder *b, const char *text,
                            const char *const names[PTX_ASM_MAX_NAMES], unsigned count,
                            struct asm_name found[PTX_ASM_MAX_NAMES])
{
    struct reader r = { .b = b, .call = "asm_module", .at = text };
    struct names n = { .name = names, .count = count, .is = found };

    if (!is_ascii(b, r.call, text))
        return false;
    if (!text[strspn(text, " \t\n\r")])
        return FAIL(&r, "the text is empty");
    if (!check_tokens(&r, &n))
        return false;
    for (unsigned k = 0; k < count; k++)
        if (!n.found[k])
            return FAIL(&r, "the text does not declare '%.64s'", names[k]);
    return true;
}

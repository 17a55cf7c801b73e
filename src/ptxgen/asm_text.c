// SPDX-License-Identifier: MIT
// Reads the texts of ptx_asm() and ptx_asm_module(): statements, operands, braces, declarations.
#include "asm_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(ASM_OPERAND + ASM_OPERANDS <= UINT8_MAX, "a line names operands by a byte");

const char *ptxb_excerpt(struct asm_text *t)
{
    const size_t length = strcspn(t->from, "\n\r;"), most = sizeof t->excerpt - 4;

    snprintf(t->excerpt, sizeof t->excerpt, "%.*s%s", (int)(length < most ? length : most), t->from,
             length < most ? "" : "...");
    for (char *c = t->excerpt; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    return t->excerpt;
}

// Whether the text is ASCII. Finds the most bytes and statements of its lines.
static bool measure(struct asm_text *t, size_t *bytes, size_t *statements)
{
    *bytes = *statements = 1;
    for (const char *c = t->at; c && *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        const bool ends = strchr(";{}:", *c);
        if ((byte < 0x20 || byte >= 0x7f) && !strchr(" \t\n\r", *c))
            return FAIL(t,
                        "byte %zu of the text is 0x%02x; PTX is ASCII, without control characters",
                        (size_t)(c - t->at), byte);
        *bytes += ends ? 4 : *c == '=' ? 10 : 2;
        *statements += ends;
    }
    return t->at || FAIL(t, "the text is missing");
}

static const char *behind_space(const char *at)
{
    for (const char *end = at; end;) {
        at = end + strspn(end, " \t\r\n");
        end = at[0] != '/'   ? NULL
              : at[1] == '/' ? at + strcspn(at, "\n")
              : at[1] == '*' ? strstr(at + 2, "*/")
                             : NULL;
        if (end && *end == '*')
            end += 2;
    }
    return at;
}

// Skips white space and comments, of which nothing is printed.
static bool skip_space(struct asm_text *t)
{
    t->at = behind_space(t->at);
    return strncmp(t->at, "/*", 2) != 0 || FAIL(t, "a comment of the text has no end");
}

static void keep(struct asm_text *t, char c)
{
    if (t->out)
        *t->out++ = c;
}

// ---- declarations and tokens --------------------------------------------------------------------

bool ptxb_asm_among(struct asm_word word, const char *list)
{
    for (size_t end; *list; list += end + (list[end] == ' ')) {
        end = strcspn(list, " ");
        if (end == word.length && !memcmp(list, word.at, end))
            return true;
    }
    return false;
}

// The directives from `at` to the next character, ".shared.b32".
static void note_directives(struct asm_text *t, const char *at)
{
    struct asm_declaration *d = &t->declares;

    for (struct asm_word w = { at, 0 }; d->begun && w.at < t->at; w.at += w.length) {
        w.length = 1 + strcspn(w.at + 1, ". \t\r\n;,[({/");
        const bool digit = w.length > 2 && asm_is_digit(w.at[w.length - 1]);
        if (ptxb_asm_among(w, ".global .shared .const"))
            d->space = w.at[1] == 'g'   ? PTX_SPACE_GLOBAL
                       : w.at[1] == 's' ? PTX_SPACE_SHARED
                                        : PTX_SPACE_CONST;
        d->function |= ptxb_asm_among(w, ".func .entry");
        d->external |= ptxb_asm_among(w, ".extern");
        if (digit && strchr("busfv", w.at[1]))
            *(w.at[1] == 'v' ? &d->vector : &d->bits) =
                (unsigned)strtoul(w.at + strcspn(w.at, "0123456789"), NULL, 10);
    }
}

// The shared memory of a variable whose name was read; 0 where its text does not say it in numbers.
static uint64_t shared_bytes(const struct asm_text *t)
{
    const struct asm_declaration *d = &t->declares;
    uint64_t bytes = d->bits / 8 * (d->vector ? d->vector : 1u);

    if (d->space != PTX_SPACE_SHARED || d->external)
        return 0;
    for (const char *at = behind_space(t->at); *at == '['; at = behind_space(at)) {
        char *end;
        const uint64_t count = strtoull(at + 1, &end, 0);
        end += *end == 'U';
        end += strspn(end, " \t\r\n");
        if (*end != ']' || count > UINT32_MAX || bytes > UINT32_MAX)
            return 0;
        bytes *= count;
        at = end + 1;
    }
    return bytes;
}

// A name that code has; in a text of the module and outside of bodies, one that it declares.
static bool note_name(struct asm_text *t, struct asm_word word)
{
    for (struct symbol *symbol = t->names; symbol && !t->opened; symbol++) {
        if (!symbol->name)
            return FAIL(t, "the text declares '%.*s'; name it in .declares", (int)word.length,
                        word.at);
        if (strncmp(symbol->name, word.at, word.length) != 0 || symbol->name[word.length])
            continue;
        symbol->kind = SYMBOL_TEXT;
        symbol->space = t->declares.space;
        symbol->function = t->declares.function;
        symbol->shared = 0;
        t->newest = symbol;
        break;
    }
    t->newest->shared += shared_bytes(t);
    return true;
}

const char *ptxb_asm_operand(struct asm_text *t, unsigned k)
{
    unsigned list = 0, element = k;

    while (list < ASM_ADDRESSES && element >= t->counts[list])
        element -= t->counts[list++];
    snprintf(t->operand, sizeof t->operand, "%%%u, which is .%s[%u]", k, ptxb_asm_lists[list].name,
             element);
    return t->operand;
}

static bool copy_operand(struct asm_text *t)
{
    const char *const from = t->at++;
    unsigned k = 0;

    while (asm_is_digit(*t->at) && k < 1000)
        k = 10 * k + (unsigned)(*t->at++ - '0');
    if (asm_is_word(*t->at))
        return FAIL(t, "'%.*s' in '%s' is no operand: those are %%0, %%1, ...",
                    (int)(t->at - from) + 1, from, ptxb_excerpt(t));
    if (k >= t->operands && ptxb_follows(t->b)) // an operand that was not set ends the list
        return false;
    if (k >= t->operands)
        return FAIL(t, "'%s' names %%%u, and the call has %u operand%s", ptxb_excerpt(t), k,
                    t->operands, t->operands == 1 ? "" : "s");
    // An address stands alone in its brackets, or before coordinates.
    const char after = *behind_space(t->at);
    if (k >= t->operands - t->counts[ASM_ADDRESSES] &&
        (t->out[-1] != '[' || (after != ']' && after != ',')))
        return FAIL(t, "%s, is an address; write [%%%u], and offsets by ptx_at()",
                    ptxb_asm_operand(t, k), k);
    t->used[k] = true;
    *t->out++ = (char)(unsigned char)(ASM_OPERAND + k);
    return true;
}

static bool copy_percent(struct asm_text *t)
{
    if (asm_is_digit(t->at[1]))
        return copy_operand(t);
    if (t->at[1] == '=') {
        t->numbered = t->any_numbered = true;
        t->out += snprintf(t->out, 11, "%u", (unsigned)ptxb_entry(t->b)->labels + 1);
    } else if (t->at[1] == '%') {
        // The registers that the builder declares; not %pm0 and other special registers.
        const struct asm_word name = { t->at + 2, strspn(t->at + 2, "prsdf") };
        if (ptxb_asm_among(name, "p rs rd r fd f") &&
            (asm_is_digit(name.at[name.length]) || name.at[name.length] == '<'))
            return FAIL(t,
                        "'%.*s' in '%s' is a register of the builder's; name your own without "
                        "%%%%, and pass values as operands",
                        (int)strcspn(t->at, " \t\n\r<>,;])}"), t->at, ptxb_excerpt(t));
        t->special = true;
        if (!t->varying && ptxb_special_varies(t->at + 1))
            t->varying = t->at + 1;
        *t->out++ = '%';
    } else {
        return FAIL(t,
                    "'%s' has a single %%: operands are %%0, %%1, ..., and PTX's own percent sign "
                    "is %%%%, as in %%%%laneid",
                    ptxb_excerpt(t));
    }
    t->at += 2;
    return true;
}

// A word; of an instruction's name, a directive's or a label's, with its dots.
static void copy_word(struct asm_text *t, bool dots)
{
    for (;;) {
        const char c = *t->at, next = c ? t->at[1] : 0;
        if (!t->names && c == '%' && next == '=')
            copy_percent(t);
        else if (asm_is_word(c) || (dots && c == '.') || (!dots && t->names && c == '%') ||
                 (dots && c == ':' && (t->names || next == ':' || t->at[-1] == ':')))
            keep(t, *t->at++);
        else
            return;
    }
}

// A word among others, or a directive.
static bool copy_name(struct asm_text *t)
{
    struct asm_word word = { t->at, 0 };
    const bool directive = *word.at == '.', code = !t->opened || t->open[t->opened - 1] == '}';

    if (!t->names && word.at[directive] == '$')
        return FAIL(t, "'%s' uses a name that begins with '$', as the builder's own do",
                    ptxb_excerpt(t));
    keep(t, *t->at++);
    copy_word(t, directive && t->names);
    word.length = (size_t)(t->at - word.at);
    if (*word.at == '$')
        return FAIL(t, "'%.*s' begins with '$', as the builder's own names do", (int)word.length,
                    word.at);
    if (directive && code)
        note_directives(t, word.at);
    if (!directive)
        return !code || t->value || asm_is_digit(*word.at) || note_name(t, word);
    word.length = 1 + strspn(word.at + 1, "abcdefghijklmnopqrstuvwxyz_");
    return !t->names || !ptxb_asm_among(word, ".version .target .address_size") ||
           FAIL(t, "%.*s is the builder's to write", (int)word.length, word.at);
}

// One token; brackets must match.
static bool copy_token(struct asm_text *t)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char c = *t->at, *const open = strchr(opening, c);
    const char *const end = c == '"' ? strchr(t->at + 1, '"') : t->at;

    if (asm_is_word(c) || c == '.' || (t->names && c == '%'))
        return copy_name(t);
    if (c == '%')
        return copy_percent(t);
    if (!end)
        return FAIL(t, "a string has no end in '%s'", ptxb_excerpt(t));
    while (t->at <= end)
        keep(t, *t->at++);
    if (open && t->opened == sizeof t->open)
        return FAIL(t, "there are too many brackets in '%s'", ptxb_excerpt(t));
    if (open)
        t->open[t->opened++] = closing[open - opening];
    return open || !strchr(closing, c) || (t->opened && t->open[--t->opened] == c) ||
           FAIL(t, "a '%c' closes nothing in '%s'", c, ptxb_excerpt(t));
}

// ---- statements ---------------------------------------------------------------------------------

// What a statement sets is its first operand, in front of a comma outside of brackets. That of a
// call is in parentheses, and what begins with an address sets none. An input is not the text's to
// set: other code reads it, and the analyses do not see that it changed.
static bool copy_operands(struct asm_text *t, struct asm_statement *s)
{
    const char column = *s->name.at == '.' ? ' ' : ASM_COLUMN;
    bool sets = column != ' ' && !(s->facts & ASM_SOURCE) && *t->at != '[' &&
                (*t->at == '(' || !ptxb_asm_is(s->name, "call"));

    for (char before = 0; before != ';'; before = t->at[-1]) {
        const char *const from = t->at;
        if (!skip_space(t))
            return false;
        const char c = *t->at;
        if (!c || (c == ';' && t->opened))
            return FAIL(t, c ? "a bracket is never closed in '%s'" : "'%s' does not end with ';'",
                        ptxb_excerpt(t));
        if (c != ';' && (!before || (t->at != from && before != '[' && c != ']')))
            keep(t, before ? ' ' : column);
        if (!before)
            s->sets.at = t->out;
        if (sets && (c == ';' || (c == ',' && !t->opened))) {
            s->sets.length = (size_t)(t->out - s->sets.at);
            sets = false;
        }
        if (!copy_token(t))
            return false;
    }
    for (size_t at = 0; at < s->sets.length; at++) {
        const unsigned k = (unsigned char)s->sets.at[at] - (unsigned)ASM_OPERAND;
        if (k < 128 && k >= t->set)
            return FAIL(t,
                        "'%s' sets %s; what a text sets is a new value of .result, or a variable "
                        "in .inout",
                        ptxb_excerpt(t), ptxb_asm_operand(t, k));
    }
    return true;
}

static bool copy_statement(struct asm_text *t, struct asm_statement *s)
{
    t->numbered = false;
    if (*t->at == '@') {
        keep(t, *t->at++);
        s->negated = *t->at == '!';
        if (s->negated)
            keep(t, *t->at++);
        s->guard.at = t->out;
        if (*t->at == '%' && !copy_percent(t))
            return false;
        copy_word(t, true);
        s->guard.length = (size_t)(t->out - s->guard.at);
        keep(t, ' ');
        if (!skip_space(t))
            return false;
    }
    const char *const word = t->at;
    if ((!asm_is_word(*word) && *word != '.') || (s->guard.at && !s->guard.length))
        return FAIL(t, "'%s' does not begin with an instruction", ptxb_excerpt(t));
    if (*word == '$')
        return FAIL(t, "'%s' begins with '$', as the builder's own names do", ptxb_excerpt(t));
    s->name.at = t->out;
    copy_word(t, true);
    s->name.length = (size_t)(t->out - s->name.at);
    t->declares = (struct asm_declaration) { .begun = *word == '.' };
    note_directives(t, word);
    if (!skip_space(t))
        return false;
    s->is_label = *t->at == ':' && t->from == word;
    if (s->is_label) {
        *s->line = ASM_LABEL;
        return t->scope || t->numbered
                   ? copy_token(t)
                   : FAIL(t,
                          "label '%.*s' would be there again at the next use of the text; write "
                          "it with %%=, as in done_%%=, or inside { }",
                          (int)strcspn(word, " \t\r\n:/"), word);
    }
    s->facts = *word == '.' ? 0 : ptxb_asm_facts(s->name);
    return copy_operands(t, s);
}

bool ptxb_read_asm(struct asm_text *t)
{
    size_t bytes, statements;

    if (!measure(t, &bytes, &statements))
        return false;
    t->bytes = statements * sizeof *t->statements;
    t->statements = ptxb_resize(t->b, NULL, 0, t->bytes);
    t->lines = t->out = t->statements ? ptxb_alloc(t->b, bytes) : NULL;
    for (unsigned depth = 0; t->lines && skip_space(t) && *t->at;) {
        const char c = *t->at;
        if (c == ';') {
            t->at++;
            continue;
        }
        struct asm_statement *s = &t->statements[t->count++];
        *s = (struct asm_statement) { .line = t->out, .scope = t->scope };
        t->from = t->at;
        if (c == '}' && !t->scope)
            return FAIL(t, "a '}' of the text closes nothing");
        depth -= c == '}';
        keep(t, (char)('0' + (depth < ASM_MOST_DEPTH ? depth : ASM_MOST_DEPTH)));
        depth += c == '{';
        if (c == '{' || c == '}') {
            t->scope = c == '{' ? t->count : t->statements[t->scope - 1].scope;
            keep(t, *t->at++);
        } else if (!copy_statement(t, s)) {
            return false;
        }
        keep(t, '\n');
    }
    keep(t, 0);
    if (t->b->failed || t->scope || !t->count)
        return FAIL(t, t->scope ? "a '{' of the text is never closed" : "the text is empty");
    for (unsigned k = 0; k < t->operands; k++)
        if (!t->used[k])
            return FAIL(t, "the text does not have %s", ptxb_asm_operand(t, k));
    for (unsigned k = 0; k < t->counts[ASM_RESULTS]; k++)
        if (!ptxb_asm_sets(t, k))
            return false;
    return true;
}

// ---- the text of a module -----------------------------------------------------------------------

bool ptxb_read_module(struct asm_text *t)
{
    size_t bytes, statements;
    bool begins = true; // a statement, here or in a body

    if (!measure(t, &bytes, &statements))
        return false;
    if (!t->at[strspn(t->at, " \t\n\r")])
        return FAIL(t, "the text is empty");
    t->from = t->at;
    while (skip_space(t) && *t->at) {
        const char c = *t->at;
        if (begins && !t->opened)
            t->from = t->at;
        if (begins)
            t->declares = (struct asm_declaration) { .begun = c == '.' || !t->opened };
        if (!copy_token(t))
            return false;
        if (!t->opened && strchr("=,;", c))
            t->value = c == '=';
        // A brace ends a body, and not the initial value of a variable.
        begins = !t->value && strchr(t->opened ? ";{}:" : ";}", c) &&
                 (!t->opened || t->open[t->opened - 1] == '}');
    }
    if (t->b->failed || t->opened || !begins)
        return FAIL(t, "'%s' does not end", ptxb_excerpt(t));
    for (const struct symbol *symbol = t->names; symbol->name; symbol++)
        if (symbol->kind != SYMBOL_TEXT)
            return FAIL(t, "the text does not declare '%.64s'", symbol->name);
    return true;
}

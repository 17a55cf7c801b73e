// SPDX-License-Identifier: MIT
// Reads the texts of ptx_asm() and ptx_asm_module(): statements, operands, braces, names.
#include "asm_text.h"

#include <stdio.h>

// ---- characters ---------------------------------------------------------------------------------

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

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
        if ((byte >= 0x20 && byte < 0x7f) || is_space(*c))
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
    bool set[PTX_ASM_MAX_RESULTS];          // by result: a statement sets it in any case
    const char *guard[PTX_ASM_MAX_RESULTS]; // by result: of the first that sets it under a guard
    char open[16];                          // the brackets of the statement
    unsigned opened;
};

#define FAIL(r, ...) (ptxb_fail((r)->b, (r)->call, __VA_ARGS__), false)

static const char *excerpt(const struct reader *r, char out[ASM_EXCERPT])
{
    return ptxb_asm_excerpt(r->statement, out);
}

static void keep(struct reader *r, char c)
{
    if (r->out)
        *r->out++ = c;
}

// Skips white space and comments, of which nothing is printed.
static bool skip_space(struct reader *r, bool *skipped)
{
    for (;;) {
        const char *from = r->at;
        while (is_space(*r->at))
            r->at++;
        if (r->at[0] == '/' && r->at[1] == '/')
            r->at += strcspn(r->at, "\n");
        if (r->at[0] == '/' && r->at[1] == '*') {
            const char *end = strstr(r->at + 2, "*/");
            if (!end)
                return FAIL(r, "a comment of the text has no end");
            r->at = end + 2;
        }
        if (from == r->at)
            return true;
        *skipped = true;
    }
}

static bool copy_string(struct reader *r)
{
    const char *end = strchr(r->at + 1, '"');
    char text[ASM_EXCERPT];

    if (!end)
        return FAIL(r, "a string has no end in '%s'", excerpt(r, text));
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
    char text[ASM_EXCERPT];

    keep(r, c);
    if (open && r->opened == sizeof r->open)
        return FAIL(r, "there are too many brackets in '%s'", excerpt(r, text));
    if (open)
        r->open[r->opened++] = closing[open - opening];
    else if (close && (!r->opened || r->open[--r->opened] != c))
        return FAIL(r, "a '%c' closes nothing in '%s'", c, excerpt(r, text));
    return true;
}

// ---- operands -----------------------------------------------------------------------------------

static unsigned count(const struct asm_operands *o)
{
    return o->results + o->inouts + o->inputs + o->addresses;
}

// "%3, which is .in[1]".
static const char *operand_name(const struct asm_operands *o, unsigned k, char out[40])
{
    const unsigned counts[] = { o->results, o->inouts, o->inputs, o->addresses };
    static const char *const names[] = { "result", "inout", "in", "at" };
    unsigned list = 0, element = k;

    while (list < 3 && element >= counts[list])
        element -= counts[list++];
    snprintf(out, 40, "%%%u, which is .%s[%u]", k, names[list], element);
    return out;
}

// An address stands alone in its brackets, or before coordinates.
static bool in_brackets(const struct reader *r)
{
    const char *after = r->at;

    while (is_space(*after))
        after++;
    return r->out[-1] == '[' && (*after == ']' || *after == ',');
}

static bool copy_operand(struct reader *r)
{
    const struct asm_operands *o = r->operands;
    const char *from = r->at++;
    char text[ASM_EXCERPT], name[40];
    unsigned k = 0;

    while (asm_is_digit(*r->at) && k < 1000)
        k = 10 * k + (unsigned)(*r->at++ - '0');
    if (asm_is_word(*r->at))
        return FAIL(r, "'%.*s' in '%s' is no operand: those are %%0, %%1, ...",
                    (int)(r->at - from) + 1, from, excerpt(r, text));
    if (k >= count(o))
        return FAIL(r, "'%s' names %%%u, and the call has %u operand%s", excerpt(r, text), k,
                    count(o), count(o) == 1 ? "" : "s");
    if (k >= count(o) - o->addresses && !in_brackets(r))
        return FAIL(r, "%s, is an address; write [%%%u], and offsets by ptx_at()",
                    operand_name(o, k, name), k);
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

// The special registers that differ between threads of a block.
static bool is_varying(const char *name)
{
    static const char *const prefixes[] = { "tid",    "laneid", "lanemask_",
                                            "warpid", "clock",  "globaltimer" };

    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
        if (!strncmp(name, prefixes[k], strlen(prefixes[k])))
            return true;
    return name[0] == 'p' && name[1] == 'm' && asm_is_digit(name[2]);
}

static bool copy_percent(struct reader *r)
{
    char text[ASM_EXCERPT];

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
                        (int)strcspn(r->at, " \t\n\r<>,;])}"), r->at, excerpt(r, text));
        r->special = true;
        if (!r->varying && is_varying(r->at + 2))
            r->varying = r->at + 1;
        keep(r, '%');
    } else {
        return FAIL(r,
                    "'%s' has a single %%: operands are %%0, %%1, ..., and PTX's own percent "
                    "sign is %%%%, as in %%%%laneid",
                    excerpt(r, text));
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
    bool space = false;

    keep(r, *r->at++);
    if (*r->at == '!')
        keep(r, *r->at++);
    if (*r->at == '%' && !copy_percent(r))
        return false;
    if (!copy_word(r) || !skip_space(r, &space))
        return false;
    keep(r, ' ');
    return true;
}

// The rest of a statement after `word`, up to its ';'.
static bool copy_rest(struct reader *r, const char *word)
{
    const char column = *word == '.' ? ' ' : ASM_COLUMN;
    char before = 0, text[ASM_EXCERPT];

    for (;;) {
        bool space = false, ok;
        if (!skip_space(r, &space))
            return false;
        const char c = *r->at;
        if (!c || (c == ';' && r->opened))
            return FAIL(r, c ? "a bracket is never closed in '%s'" : "'%s' does not end with ';'",
                        excerpt(r, text));
        if (c == ';') {
            keep(r, *r->at++);
            return true;
        }
        if (!before || (space && before != '[' && c != ']'))
            keep(r, before ? ' ' : column);
        before = c;
        if (c == '$' && !asm_is_word(r->at[-1]))
            return FAIL(r, "'%s' uses a name that begins with '$', as the builder's own do",
                        excerpt(r, text));
        if (c == '%')
            ok = copy_percent(r);
        else
            ok = c == '"' ? copy_string(r) : copy_character(r);
        if (!ok)
            return false;
    }
}

// ---- destinations -------------------------------------------------------------------------------

// Whether an instruction reads its first operand, although that is no address.
static bool reads_first(struct asm_mnemonic m)
{
    static const char *const names[] = { "bar",     "barrier",      "bra",
                                         "brx",     "nanosleep",    "setmaxnreg",
                                         "pmevent", "stackrestore", "tcgen05.dealloc" };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const size_t length = strlen(names[k]);
        if (m.length < length || memcmp(m.at, names[k], length) ||
            (m.length > length && m.at[length] != '.'))
            continue;
        for (size_t at = length; at + 5 <= m.length; at++)
            if (!memcmp(m.at + at, ".red.", 5)) // bar.red has a result
                return false;
        return true;
    }
    return false;
}

// The operands that an instruction sets: the first one, in front of a comma outside of brackets.
// Those of a call are in parentheses, and what begins with an address sets none.
static const char *destinations(struct asm_mnemonic m, size_t *length)
{
    const char *const first = m.at + m.length + 1, *at = first;
    const bool call = m.length >= 4 && !memcmp(m.at, "call", 4);
    unsigned depth = 0;

    *length = 0;
    if (m.at[m.length] != ASM_COLUMN || *first == '[' || (call && *first != '(') || reads_first(m))
        return first;
    for (; *at != ';' && (*at != ',' || depth); at++) {
        depth += *at == '{' || *at == '(' || *at == '[';
        depth -= *at == '}' || *at == ')' || *at == ']';
    }
    *length = (size_t)(at - first);
    return first;
}

// Whether two guards, "@p " and "@!p ", are those of opposite cases.
static bool are_opposite(const char *x, const char *y)
{
    const bool no_x = x[1] == '!', no_y = y[1] == '!';
    const size_t length = strcspn(x + no_x, " ");

    return no_x != no_y && length == strcspn(y + no_y, " ") &&
           !memcmp(x + no_x + 1, y + no_y + 1, length);
}

// Notes the results that a statement sets. An input is not the text's to set: other code reads it,
// and the analyses do not see that it changed.
static bool note_destinations(struct reader *r, const char *line)
{
    const struct asm_operands *o = r->operands;
    const char *guard = line[1] == '@' ? line + 1 : NULL;
    char text[ASM_EXCERPT], name[40];
    size_t length;
    const char *at = destinations(ptxb_asm_mnemonic(line), &length);

    for (; length; at++, length--) {
        const unsigned index = (unsigned char)*at - (unsigned)ASM_OPERAND;
        if ((unsigned char)*at < ASM_OPERAND)
            continue;
        if (index >= o->results + o->inouts)
            return FAIL(r,
                        "'%s' sets %s; what a text sets is a new value of .result, or a variable "
                        "in .inout",
                        excerpt(r, text), operand_name(o, index - o->inouts, name));
        if (index >= o->results)
            continue;
        r->set[index] |= !guard || (r->guard[index] && are_opposite(r->guard[index], guard));
        r->guard[index] = r->guard[index] ? r->guard[index] : guard;
    }
    return true;
}

static bool results_are_set(struct reader *r)
{
    char name[40];

    for (unsigned k = 0; k < r->operands->results; k++) {
        if (r->set[k])
            continue;
        operand_name(r->operands, k, name);
        return r->guard[k] ? FAIL(r,
                                  "%s, is set under a guard only, and undefined elsewhere; set it "
                                  "in any case first, or pass a variable in .inout",
                                  name)
                           : FAIL(r,
                                  "no statement of the text sets %s; what it only reads is in .in, "
                                  "what it reads and sets in .inout",
                                  name);
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
    char *const line = r->out, text[ASM_EXCERPT];
    bool space = false;

    r->statement = r->at;
    r->numbered = false;
    r->opened = 0;
    keep(r, (char)('0' + (r->scopes < ASM_MOST_DEPTH ? r->scopes : ASM_MOST_DEPTH)));
    if (*r->at == '@' && !copy_guard(r))
        return false;
    const char *word = r->at;
    if (!asm_is_word(*word) && *word != '.')
        return FAIL(r, "'%s' does not begin with an instruction", excerpt(r, text));
    if (*word == '$')
        return FAIL(r, "'%s' begins with '$', as the builder's own names do", excerpt(r, text));
    if (!copy_word(r) || !skip_space(r, &space))
        return false;
    if (*r->at == ':' && r->statement == word)
        return end_label(r, line);
    if (ptxb_is_shared(word))
        r->shared += ptxb_declared_shared(word);
    return copy_rest(r, word) && (*word == '.' || note_destinations(r, line));
}

static bool read_statements(struct reader *r)
{
    for (;;) {
        bool space = false;
        if (!skip_space(r, &space))
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
    char name[40];
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
            return FAIL(&r, "the text does not have %s", operand_name(operands, k, name));
    *read = (struct asm_text) { lines, r.varying, r.shared, r.special, r.numbered_any };
    return results_are_set(&r);
}

struct asm_mnemonic ptxb_asm_mnemonic(const char *line)
{
    const char *at = line + 1;

    if (*line == ASM_LABEL || *at == '{' || *at == '}')
        return (struct asm_mnemonic) { at, 0 };
    if (*at == '@')
        at = strchr(at, ' ') + 1;
    return (struct asm_mnemonic) { at, strcspn(at, "\t ;") };
}

// ---- the text of a module -----------------------------------------------------------------------

size_t ptxb_asm_word(const char *line, const char *at)
{
    size_t length = 0;

    if (asm_is_digit(*at) || (at > line && (asm_is_word(at[-1]) || at[-1] == '%' || at[-1] == '.')))
        return 0;
    while (asm_is_word(at[length]))
        length++;
    return length;
}

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
    static const char *const heads[] = { ".version", ".target", ".address_size" };
    const char *const word = r->at;
    const size_t length = 1 + strspn(word + 1, "abcdefghijklmnopqrstuvwxyz_");

    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        if (strlen(heads[k]) == length && !memcmp(heads[k], r->at, length))
            return FAIL(r, "%s is the builder's to write", heads[k]);
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
    bool value = false, whole = true, space = false; // after '='; at the end of a statement

    r->statement = r->at;
    while (skip_space(r, &space) && *r->at) {
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
    char text[ASM_EXCERPT];
    if (!r->b->failed && (r->opened || !whole))
        return FAIL(r, "'%s' does not end", excerpt(r, text));
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

// SPDX-License-Identifier: MIT
/// Reads from PTX text what a launch is checked against. The driver reports parameter sizes only
/// since 12.4, and never their names or .reqntid; the text always has them.
#include "internal.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/// Limit for a parameter: far more than a kernel can take, and small enough that sums do not
/// overflow.
enum { MOST_BYTES = 1 << 20 };

struct scanner {
    const char *source;
    const char *next;
    const char *word; ///< the current token: a word, a directive with its dot, or one character
    size_t length;    ///< 0 at the end of the text
};

// Whatever the locale.
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '%';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Skips blanks, comments and strings.
static const char *skip(const char *p)
{
    for (;;) {
        const char *end = NULL;
        if (is_blank(*p))
            end = p + 1;
        else if (p[0] == '/' && p[1] == '/')
            end = p + strcspn(p, "\n");
        else if (p[0] == '/' && p[1] == '*')
            end = (end = strstr(p + 2, "*/")) ? end + 2 : p + strlen(p);
        else if (p[0] == '"')
            end = (end = strchr(p + 1, '"')) ? end + 1 : p + strlen(p);
        else
            return p;
        p = end;
    }
}

static void advance(struct scanner *s)
{
    s->word = skip(s->next);
    const char *end = s->word;
    bool word = *end == '.' || is_word(*end);
    end += *end != '\0';
    while (word && is_word(*end))
        end++;
    s->length = (size_t)(end - s->word);
    s->next = end;
}

static bool is(const struct scanner *s, const char *word)
{
    return s->length == strlen(word) && memcmp(s->word, word, s->length) == 0;
}

static bool accept(struct scanner *s, const char *word)
{
    if (!is(s, word))
        return false;
    advance(s);
    return true;
}

static int digit_of(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

/// Reads an integer in PTX notation, at most `most`. Returns false, without consuming the token, if
/// there is none.
static bool number(struct scanner *s, unsigned most, unsigned *value)
{
    const char *p = s->word;
    const char *end = s->word + s->length;
    unsigned base = 10;
    unsigned long long sum = 0;
    if (s->length == 0 || !isdigit((unsigned char)*p))
        return false;
    if (*p == '0' && end - p > 1) {
        bool prefix = p[1] == 'x' || p[1] == 'X' || p[1] == 'b' || p[1] == 'B';
        base = p[1] == 'x' || p[1] == 'X' ? 16 : prefix ? 2 : 8;
        p += prefix ? 2 : 1;
    }
    if (end - p > 1 && end[-1] == 'U')
        end--;
    for (; p < end; p++) {
        unsigned digit = (unsigned)digit_of(*p);
        sum = sum * base + digit;
        if (digit >= base || sum > most)
            return false;
    }
    *value = (unsigned)sum;
    advance(s);
    return true;
}

static char *copy(const struct scanner *s)
{
    char *text = malloc(s->length + 1);
    if (text) {
        memcpy(text, s->word, s->length);
        text[s->length] = '\0';
    }
    return text;
}

/// Bytes of a fundamental type, spelled with its dot; 0 if it is not one.
static size_t type_size(const struct scanner *s)
{
    static const struct {
        const char *name;
        size_t size;
    } types[] = {
        { ".b8", 1 },      { ".u8", 1 },         { ".s8", 1 },    { ".b16", 2 },
        { ".u16", 2 },     { ".s16", 2 },        { ".f16", 2 },   { ".bf16", 2 },
        { ".b32", 4 },     { ".u32", 4 },        { ".s32", 4 },   { ".f32", 4 },
        { ".f16x2", 4 },   { ".bf16x2", 4 },     { ".b64", 8 },   { ".u64", 8 },
        { ".s64", 8 },     { ".f64", 8 },        { ".b128", 16 }, { ".texref", 8 },
        { ".surfref", 8 }, { ".samplerref", 8 },
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (is(s, types[i].name))
            return types[i].size;
    return 0;
}

static ptx_status not_understood(const struct scanner *s, const char *kernel, const char *what,
                                 const char *rule)
{
    int line = 1;
    for (const char *p = s->source; p < s->word; p++)
        line += *p == '\n';
    return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                     "cannot read the %s of kernel %s in line %d, near '%.*s': %s", what, kernel,
                     line, (int)(s->length < 40 ? s->length : 40), s->word, rule);
}

static ptx_status bad_param(const struct scanner *s, const char *kernel)
{
    return not_understood(s, kernel, "parameters",
                          "a kernel parameter is .param, a type of 1 to 16 bytes, and a name");
}

static ptx_status too_large(const struct scanner *s, const char *kernel)
{
    return not_understood(s, kernel, "parameters",
                          "alignments and sizes of arrays are 1 or more, and a parameter takes at "
                          "most 1 MiB");
}

static ptx_status out_of_memory(void)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while reading PTX");
}

/// Reads `[24]` or `[2][3]`, if present.
static ptx_status read_lengths(struct scanner *s, const char *kernel,
                               struct ptx_function_param *param)
{
    while (accept(s, "[")) {
        unsigned length = 0;
        if (!number(s, MOST_BYTES, &length) || length == 0 || param->size > MOST_BYTES / length)
            return too_large(s, kernel);
        param->size *= length;
        if (!accept(s, "]"))
            return bad_param(s, kernel);
    }
    return PTX_OK;
}

/// Reads `.param .u64 .ptr .global .align 16 name` or `.param .align 8 .b8 name[24]`.
static ptx_status read_param(struct scanner *s, const char *kernel,
                             struct ptx_function_param *param)
{
    if (!accept(s, ".param"))
        return bad_param(s, kernel);
    unsigned alignment = 0;
    if (accept(s, ".align") && (!number(s, MOST_BYTES, &alignment) || alignment == 0))
        return too_large(s, kernel);
    param->size = type_size(s);
    if (param->size == 0)
        return bad_param(s, kernel);
    memcpy(param->type, s->word + 1, s->length - 1);
    advance(s);
    if (alignment == 0)
        alignment = (unsigned)param->size;
    while (s->length && *s->word == '.') { // attributes of the pointer: ignored
        bool align = accept(s, ".align");
        if (!align || (s->length && isdigit((unsigned char)*s->word)))
            advance(s);
    }
    if (s->length == 0 || !is_word(*s->word))
        return bad_param(s, kernel);
    param->name = copy(s);
    if (!param->name)
        return out_of_memory();
    advance(s);
    param->offset = (param->offset + alignment - 1) / alignment * alignment;
    return read_lengths(s, kernel, param);
}

static ptx_status read_params(struct scanner *s, struct ptxd_signature *entry)
{
    size_t offset = 0;
    while (!accept(s, ")")) {
        if (entry->param_count && !accept(s, ","))
            return bad_param(s, entry->name);
        if (entry->param_count == PTXD_MAX_PARAMS)
            return ptxd_fail(PTX_ERROR_UNSUPPORTED, "kernel %s has more than %d parameters",
                             entry->name, PTXD_MAX_PARAMS);
        struct ptx_function_param *params =
            realloc(entry->params, (entry->param_count + 1) * sizeof(*params));
        if (!params)
            return out_of_memory();
        entry->params = params;
        struct ptx_function_param *param = &params[entry->param_count++];
        *param = (struct ptx_function_param) { .offset = offset };
        ptx_status status = read_param(s, entry->name, param);
        if (status)
            return status;
        offset = param->offset + param->size;
    }
    return PTX_OK;
}

/// Reads the numbers of a .reqntid; omitted ones are 1.
static ptx_status read_block(struct scanner *s, struct ptxd_signature *entry)
{
    for (int i = 0; i < 3; i++) {
        unsigned threads = 1;
        if ((i == 0 || accept(s, ",")) && (!number(s, INT_MAX, &threads) || threads == 0))
            return not_understood(s, entry->name, ".reqntid",
                                  "it takes one to three numbers of threads, each 1 or more");
        entry->required_block[i] = (int)threads;
    }
    return PTX_OK;
}

static ptx_status read_entry(struct scanner *s, struct ptxd_signature *entry)
{
    entry->name = copy(s);
    if (!entry->name)
        return out_of_memory();
    advance(s);
    ptx_status status = accept(s, "(") ? read_params(s, entry) : PTX_OK;
    while (!status && s->length && !is(s, "{") && !is(s, ";")) {
        if (accept(s, ".reqntid"))
            status = read_block(s, entry);
        else
            advance(s);
    }
    entry->body = (size_t)(s->word - s->source);
    return status;
}

static ptx_status add_entry(struct scanner *s, struct ptxd_text *text)
{
    struct ptxd_signature *entries =
        realloc(text->entries, (text->entry_count + 1) * sizeof(*entries));
    if (!entries)
        return out_of_memory();
    text->entries = entries;
    struct ptxd_signature *entry = &entries[text->entry_count++];
    *entry = (struct ptxd_signature) { 0 };
    return read_entry(s, entry);
}

/// isa remains 0 if the version cannot exist.
static void read_version(struct scanner *s, struct ptxd_text *text)
{
    unsigned major = 0, minor = 0;
    if (!number(s, 999, &major))
        return;
    if (s->length > 1 && *s->word == '.') {
        struct scanner fraction = { .source = s->source, .next = s->word + 1 };
        advance(&fraction);
        if (!number(&fraction, 9, &minor))
            return;
    }
    text->isa = (int)(10 * major + minor);
}

static void read_target(const struct scanner *s, struct ptxd_text *text)
{
    size_t length = s->length < sizeof(text->target) ? s->length : sizeof(text->target) - 1;
    memcpy(text->target, s->word, length);
    text->target[length] = '\0';
    if (strncmp(text->target, "sm_", 3) != 0)
        return;
    for (const char *p = text->target + 3; isdigit((unsigned char)*p) && text->sm < 10000; p++)
        text->sm = 10 * text->sm + (*p - '0');
}

ptx_status ptxd_text_read(struct ptxd_text *text, const char *source, bool entries)
{
    *text = (struct ptxd_text) { 0 };
    struct scanner s = { .source = source, .next = source };
    ptx_status status = PTX_OK;
    for (advance(&s); s.length && !status;) {
        if (*s.word != '.')
            advance(&s);
        else if (accept(&s, ".version"))
            read_version(&s, text);
        else if (accept(&s, ".target"))
            read_target(&s, text);
        else if (!accept(&s, ".entry"))
            advance(&s);
        else if (entries)
            status = add_entry(&s, text);
    }
    if (status)
        ptxd_text_free(text);
    return status;
}

void ptxd_text_free(struct ptxd_text *text)
{
    for (size_t i = 0; i < text->entry_count; i++) {
        struct ptxd_signature *entry = &text->entries[i];
        for (size_t k = 0; k < entry->param_count; k++)
            free((char *)entry->params[k].name);
        free(entry->params);
        free(entry->name);
    }
    free(text->entries);
    *text = (struct ptxd_text) { 0 };
}

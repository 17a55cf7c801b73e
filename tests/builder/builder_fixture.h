// SPDX-License-Identifier: MIT
// For the builder's tests: creates a builder, and checks its text or its error message. A check
// that fails prints the module.
#ifndef PTXGEN_TESTS_BUILDER_FIXTURE_H
#define PTXGEN_TESTS_BUILDER_FIXTURE_H

#include <ptxgen/builder.h>

#include <stdio.h>
#include <string.h>

#include "test.h"

static inline ptx_builder *builder_at(int sm)
{
    return ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = sm } });
}

// A builder `b` for this target, and its entry k (with attributes), whose body follows.
#define NEW_ENTRY(b, sm)                                                                           \
    ptx_builder *b = builder_at(sm);                                                               \
    ptx_entry (b, "k")
#define NEW_ENTRY_WITH(b, sm, ...)                                                                 \
    ptx_builder *b = builder_at(sm);                                                               \
    ptx_entry (b, "k", __VA_ARGS__)

// The finished text, or a failed test.
static inline const char *finished(ptx_builder *b)
{
    const char *text = ptx_builder_finish(b);

    if (!text)
        fail_msg("the builder refuses: %s", ptx_builder_error(b));
    return text;
}

// Finds `line` in `text`. A run of spaces equals any other run.
static inline const char *find_line(const char *text, const char *line)
{
    for (; *text; text++) {
        const char *t = text, *l = line;
        while (*l && *t == *l) {
            if (*l == ' ')
                while (t[1] == ' ')
                    t++;
            t++, l++;
        }
        if (!*l)
            return text;
    }
    return NULL;
}

// Finishes and destroys the builder. The text must contain all of the lines (a NULL ends them), in
// this order.
static inline void expect_lines_(ptx_builder *b, const char *file, int line, ...)
{
    const char *text = ptx_builder_finish(b);
    const char *wanted, *from = text;
    va_list lines;

    if (!text)
        print_error("the builder refuses: %s\n", ptx_builder_error(b));
    va_start(lines, line);
    while (from && (wanted = va_arg(lines, const char *))) {
        const char *at = find_line(from, wanted);
        if (!at)
            fprintf(stderr, "\"%s\" is not in\n%s\n", wanted, text);
        from = at ? at + 1 : NULL;
    }
    va_end(lines);
    ptx_builder_destroy(&b);
    if (!from)
        _fail(file, line);
}
#define EXPECT_LINES(b, ...) expect_lines_(b, __FILE__, __LINE__, __VA_ARGS__, (const char *)NULL)

// The error without its place, "file.c:12: ".
static inline const char *after_place(const char *error)
{
    const char *space = error ? strchr(error, ' ') : NULL;

    return space && space[-1] == ':' ? space + 1 : "no place";
}

// Finishes and destroys the builder. There must be an error, with all of the words.
static inline void expect_error_(ptx_builder *b, const char *file, int line, ...)
{
    const char *text = ptx_builder_finish(b);
    const char *error = ptx_builder_error(b);
    const char *word;
    bool ok = !text && error;
    va_list words;

    if (!ok)
        fprintf(stderr, "no error, but\n%s\n", text ? text : "neither text nor error");
    va_start(words, line);
    while (ok && (word = va_arg(words, const char *)))
        if (!strstr(error, word)) {
            print_error("\"%s\" is not in: %s\n", word, error);
            ok = false;
        }
    va_end(words);
    ptx_builder_destroy(&b);
    if (!ok)
        _fail(file, line);
}
#define EXPECT_ERROR(b, ...) expect_error_(b, __FILE__, __LINE__, __VA_ARGS__, (const char *)NULL)

// Wrong calls, one at a time: a function calls number k, says what words the error has, and returns
// the line; 0 if there is no such call.
typedef unsigned misuse_call(ptx_builder *b, unsigned k, const char *words[2]);
#define MISUSE(call, what, remedy)                                                                 \
    if (k-- == 0) {                                                                                \
        words[0] = what, words[1] = remedy;                                                        \
        call;                                                                                      \
        return __LINE__;                                                                           \
    }

// Each of them must be an error at its line. Their number.
static inline unsigned misuse_checked(misuse_call *misuse, const char *file)
{
    const char *const name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    unsigned k = 0;

    for (unsigned line = 1; line; k++) {
        ptx_builder *b = builder_at(90);
        const char *words[2] = { NULL, NULL };
        unsigned named = 0;
        ptx_entry (b, "k", .block = { 32 })
            line = misuse(b, k, words);
        if (!line) {
            ptx_builder_destroy(&b);
            break;
        }
        const char *error = ptx_builder_finish(b) ? NULL : ptx_builder_error(b);
        const char *place = error ? strstr(error, name) : NULL;
        // A call of two lines is at one of them: compilers differ.
        if (!place || sscanf(place + strlen(name), ":%u: k: ptx_", &named) != 1 ||
            named + 1 < line || named > line + 1)
            fail_msg("line %u: %s", line, error ? error : "no error");
        EXPECT_ERROR(b, words[0], words[1]);
    }
    return k;
}

// A break of C that leaves a block open on purpose; tests/blocks.py finds the others.
#define C_BREAK break

// The call, in an entry for this target, must be refused with an error that has all of the words.
// It can use the values u (u32), f (f32), h (f16) and p (pred).
#define REFUSED_AT(sm, call, ...)                                                                  \
    do {                                                                                           \
        ptx_builder *b = builder_at(sm);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_val u = ptx_var(b, ptx_u32(1)), f = ptx_var(b, ptx_f32(1));                        \
            ptx_val h = ptx_var(b, ptx_imm(PTX_F16, 1)), p = ptx_var(b, ptx_bool(true));           \
            (void)u, (void)f, (void)h, (void)p;                                                    \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, "k: ptx_", __VA_ARGS__);                                                   \
    } while (0)

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
// The place of this line.
#define HERE     __FILE__ ":" TEXT(__LINE__)

// Finishes and destroys the builder. Its error must begin with the place and have the words.
static inline void expect_place_(ptx_builder *b, const char *place, const char *words, int line)
{
    (void)(ptx_builder_finish)(b);
    const char *error = ptx_builder_error(b);
    const size_t length = strlen(place);
    const bool ok = error && !strncmp(error, place, length) && !strncmp(error + length, ": ", 2) &&
                    strstr(error, words) && !strchr(error, '\n');

    if (!ok)
        print_error("not \"%s: ... %s\": %s\n", place, words, error ? error : "no error");
    ptx_builder_destroy(&b);
    if (!ok)
        _fail(__FILE__, line);
}
#define EXPECT_PLACE(b, place, words) expect_place_(b, place, words, __LINE__)

#endif

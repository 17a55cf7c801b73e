// SPDX-License-Identifier: MIT
// Mutations of PTX text and of the recipe after its NUL, for libFuzzer. They change lines and
// words, so that more results parse than after changes of bytes. Inserted instructions name
// registers as compilers do (%p %rs %r %rd %f %fd), and the corpus declares these.
#define _POSIX_C_SOURCE 200809L // strnlen
#include "fuzz_device.h"
#include "fuzz_ptx_lines.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_out, unsigned seed);

// The coverage counters, which libFuzzer reads after each input.
extern uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];

const char *__asan_default_options(void);

// Stacks of allocations cost a tenth of the time. ASAN_OPTIONS=malloc_context_size=30 has them.
const char *__asan_default_options(void)
{
    return "malloc_context_size=2";
}

void fuzz_forget(void)
{
    memset(__start___sancov_cntrs, 0, (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs));
}

enum { MOST_TEXT = 1 << 16, MOST_WORDS = 4096 };

struct span {
    size_t at, length;
};

struct text {
    char bytes[MOST_TEXT];
    size_t length, room;
    uint32_t random;
};

static uint32_t below(struct text *text, uint32_t limit)
{
    text->random = text->random * UINT32_C(1664525) + UINT32_C(1013904223);
    return limit ? (uint32_t)(((uint64_t)(text->random >> 4) * limit) >> 28) : 0;
}

static const char *pick(struct text *text, const char *const *list, size_t count)
{
    return list[below(text, (uint32_t)count)];
}
#define PICK(text, list) pick(text, list, sizeof(list) / sizeof((list)[0]))

static void replace(struct text *text, struct span old, const char *with, size_t length)
{
    size_t rest = text->length - old.at - old.length;
    if (old.at + length + rest > text->room)
        return;
    memmove(text->bytes + old.at + length, text->bytes + old.at + old.length, rest);
    memcpy(text->bytes + old.at, with, length);
    text->length = old.at + length + rest;
}

// A line with its end.
static struct span some_line(struct text *text)
{
    size_t at = below(text, (uint32_t)text->length), end = at;
    while (at > 0 && text->bytes[at - 1] != '\n')
        at--;
    while (end < text->length && text->bytes[end] != '\n')
        end++;
    end += end < text->length;
    return (struct span) { at, end - at };
}

static bool of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

// 'r': a register or other name that begins with %; 'm': a modifier or directive; 'n': a number;
// 'w': a word; otherwise the character itself.
static char kind_of(const struct text *text, struct span span)
{
    char c = text->bytes[span.at];
    return c == '%' ? 'r' : c == '.' ? 'm' : isdigit((unsigned char)c) ? 'n' : of_word(c) ? 'w' : c;
}

static size_t words_of(const struct text *text, struct span *words)
{
    size_t count = 0;
    for (size_t at = 0; at < text->length && count < MOST_WORDS;) {
        struct span word = { at, 1 };
        char c = text->bytes[at];
        if (of_word(c) || c == '%' || c == '.')
            while (at + word.length < text->length && of_word(text->bytes[at + word.length]))
                word.length++;
        if (!isspace((unsigned char)c))
            words[count++] = word;
        at += word.length;
    }
    return count;
}

static void replace_word(struct text *text)
{
    struct span words[MOST_WORDS];
    size_t count = words_of(text, words);
    if (count == 0)
        return;
    struct span old = words[below(text, (uint32_t)count)];
    char kind = kind_of(text, old), copy[64];
    const char *with = NULL;
    if (kind == 'n' && below(text, 2))
        with = PICK(text, fuzz_numbers);
    if (kind == 'm' && below(text, 2))
        with = PICK(text, fuzz_modifiers);
    for (int tries = 0; !with && tries < 32; tries++) {
        struct span other = words[below(text, (uint32_t)count)];
        if (kind_of(text, other) != kind || other.length >= sizeof(copy))
            continue;
        memcpy(copy, text->bytes + other.at, other.length);
        copy[other.length] = '\0';
        with = copy;
    }
    if (with)
        replace(text, old, with, strlen(with));
}

static void remove_word(struct text *text)
{
    struct span words[MOST_WORDS];
    size_t count = words_of(text, words);
    if (count)
        replace(text, words[below(text, (uint32_t)count)], "", 0);
}

static void remove_line(struct text *text)
{
    replace(text, some_line(text), "", 0);
}

static void copy_line(struct text *text, bool move)
{
    char copy[512];
    struct span from = some_line(text);
    if (from.length > sizeof(copy))
        return;
    memcpy(copy, text->bytes + from.at, from.length);
    if (move)
        replace(text, from, "", 0);
    replace(text, (struct span) { some_line(text).at, 0 }, copy, from.length);
}

// '?' is the number of a register, '#' another number.
static void add_instruction(struct text *text)
{
    char line[256];
    size_t length = 0;
    for (const char *c = PICK(text, fuzz_instructions); *c && length < 192; c++) {
        char number[2] = { (char)('0' + below(text, 3 + below(text, 5))), '\0' };
        const char *part = *c == '?' ? number : PICK(text, fuzz_numbers);
        if (*c == '?' || *c == '#')
            length += (size_t)snprintf(line + length, sizeof(line) - length, "%s", part);
        else
            line[length++] = *c;
    }
    line[length++] = '\n';
    replace(text, (struct span) { some_line(text).at, 0 }, line, length);
}

static void mutate_text(struct text *text)
{
    switch (below(text, 8)) {
    case 0:
        remove_line(text);
        break;
    case 1:
        copy_line(text, false);
        break;
    case 2:
        copy_line(text, true);
        break;
    case 3:
    case 4:
        add_instruction(text);
        break;
    case 5:
        if (below(text, 4) == 0) {
            remove_word(text);
            break;
        } // fall through
    default:
        replace_word(text);
    }
}

static size_t mutate_recipe(uint8_t *data, size_t size, size_t length, size_t max_size)
{
    if (length + 2 >= max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    data[length] = '\0';
    size_t recipe = size > length ? size - length - 1 : 0, room = max_size - length - 1;
    return length + 1 + LLVMFuzzerMutate(data + length + 1, recipe, room < 128 ? room : 128);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct text text; // its bytes are not cleared: that would cost more than the mutation
    text.random = seed;
    size_t length = strnlen((const char *)data, size);
    uint32_t choice = below(&text, 16);
    if (choice < 3)
        return mutate_recipe(data, size, length, max_size);
    if (choice == 3 || size > MOST_TEXT || length == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t behind = size - length;
    text.room = (max_size < MOST_TEXT ? max_size : MOST_TEXT) - behind;
    text.length = length;
    memcpy(text.bytes, data, length);
    // Most inputs change in one place, so that many still load.
    for (uint32_t count = below(&text, 3) ? 1 : 1 + below(&text, 4); count > 0 && text.length > 0;
         count--)
        mutate_text(&text);
    memmove(data + text.length, data + length, behind);
    memcpy(data, text.bytes, text.length);
    return text.length + behind;
}

// Some lines of the second text inside the first, and the recipe of one of them.
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_out, unsigned seed)
{
    struct text into, from;
    into.random = seed;
    from.random = ~seed;
    size_t length = strnlen((const char *)data1, size1);
    from.length = strnlen((const char *)data2, size2);
    bool second = below(&into, 4) == 0;
    const uint8_t *recipe = second ? data2 + from.length : data1 + length;
    size_t behind = second ? size2 - from.length : size1 - length;
    if (length == 0 || from.length == 0 || length + behind > max_out || max_out > MOST_TEXT ||
        from.length > MOST_TEXT)
        return 0;
    into.length = length;
    into.room = max_out - behind;
    memcpy(into.bytes, data1, length);
    memcpy(from.bytes, data2, from.length);
    struct span lines = some_line(&from);
    for (uint32_t count = below(&from, 12); count > 0 && lines.at + lines.length < from.length;
         count--)
        while (lines.at + lines.length < from.length &&
               from.bytes[lines.at + lines.length++] != '\n')
            continue;
    replace(&into, (struct span) { some_line(&into).at, 0 }, from.bytes + lines.at, lines.length);
    memcpy(out, into.bytes, into.length);
    memcpy(out + into.length, recipe, behind);
    return into.length + behind;
}

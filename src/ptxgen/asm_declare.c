// SPDX-License-Identifier: MIT
// What the declarations of PTX text say of a variable: its state space and its size.
#include "asm_text.h"

#include <stdlib.h>

void ptxb_note_directive(struct asm_declaration *d, const char *at, size_t length)
{
    static const struct {
        char text[9];
        uint8_t space;
    } spaces[] = { { ".global", PTX_SPACE_GLOBAL },
                   { ".shared", PTX_SPACE_SHARED },
                   { ".const", PTX_SPACE_CONST } };
    const bool digit = length > 2 && asm_is_digit(at[length - 1]);

    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (length == strlen(spaces[k].text) && !memcmp(at, spaces[k].text, length))
            d->space = spaces[k].space;
    d->function |=
        (length == 5 && !memcmp(at, ".func", 5)) || (length == 6 && !memcmp(at, ".entry", 6));
    d->external |= length == 7 && !memcmp(at, ".extern", 7);
    if (digit && at[1] == 'v')
        d->vector = (unsigned)(at[2] - '0');
    else if (digit && strchr("busf", at[1]))
        d->bytes = (unsigned)strtoul(at + strcspn(at, "0123456789"), NULL, 10) / 8;
}

uint64_t ptxb_variable_bytes(const struct asm_declaration *d, const char *at)
{
    uint64_t bytes = d->external ? 0 : d->bytes * (d->vector ? d->vector : 1u);

    for (at += strspn(at, " \t\r\n"); *at == '['; at += strspn(at, " \t\r\n")) {
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

static const char *after_comment(const char *at)
{
    const bool block = at[1] == '*';
    const char *end = block ? strstr(at + 2, "*/") : strchr(at, '\n');

    return end ? end + 1 + block : at + strlen(at);
}

uint64_t ptxb_declared_shared(const char *at)
{
    struct asm_declaration d = { 0 };
    uint64_t bytes = 0;

    while (*at && *at != ';') {
        size_t length = *at == '.' || asm_is_word(*at);
        while (length && asm_is_word(at[length]))
            length++;
        if (*at == '/') {
            at = after_comment(at);
        } else if (*at == '[') {
            at += strcspn(at, "];");
        } else {
            if (*at == '.')
                ptxb_note_directive(&d, at, length);
            else if (length && !asm_is_digit(*at))
                bytes += ptxb_variable_bytes(&d, at + length);
            at += length ? length : 1;
        }
    }
    return bytes;
}

bool ptxb_is_shared(const char *word)
{
    return !strncmp(word, ".shared", 7) && !asm_is_word(word[7]) && word[7] != ':';
}

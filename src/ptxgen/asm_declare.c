// SPDX-License-Identifier: MIT
// What the declarations of PTX text say of a variable: its state space and its size.
#include "asm_text.h"

#include <stdlib.h>

const char *ptxb_asm_skip(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\r\n");
        const char *end = at[0] != '/'   ? NULL
                          : at[1] == '/' ? at + strcspn(at, "\n")
                          : at[1] == '*' ? strstr(at + 2, "*/")
                                         : NULL;
        if (!end)
            return at;
        at = end + (*end == '*' ? 2 : 0);
    }
}

bool ptxb_asm_among(const char *word, size_t length, const char *list)
{
    for (size_t end; *list; list += end + (list[end] == ' ')) {
        end = strcspn(list, " ");
        if (end == length && !memcmp(list, word, length))
            return true;
    }
    return false;
}

void ptxb_note_directive(struct asm_declaration *d, const char *at, size_t length)
{
    const bool digit = length > 2 && asm_is_digit(at[length - 1]);

    if (ptxb_asm_among(at, length, ".global .shared .const"))
        d->space = at[1] == 'g'   ? PTX_SPACE_GLOBAL
                   : at[1] == 's' ? PTX_SPACE_SHARED
                                  : PTX_SPACE_CONST;
    d->function |= ptxb_asm_among(at, length, ".func .entry");
    d->external |= ptxb_asm_among(at, length, ".extern");
    if (digit && at[1] == 'v')
        d->vector = (unsigned)(at[2] - '0');
    else if (digit && strchr("busf", at[1]))
        d->bytes = (unsigned)strtoul(at + strcspn(at, "0123456789"), NULL, 10) / 8;
}

uint64_t ptxb_variable_bytes(const struct asm_declaration *d, const char *at)
{
    uint64_t bytes = d->external ? 0 : d->bytes * (d->vector ? d->vector : 1u);

    for (at = ptxb_asm_skip(at); *at == '['; at = ptxb_asm_skip(at)) {
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

uint64_t ptxb_declared_shared(const char *at)
{
    struct asm_declaration d = { 0 };
    uint64_t bytes = 0;

    for (at = ptxb_asm_skip(at); *at && *at != ';'; at = ptxb_asm_skip(at)) {
        size_t length = *at == '.' || asm_is_word(*at);
        while (length && asm_is_word(at[length]))
            length++;
        if (*at == '.')
            ptxb_note_directive(&d, at, length);
        else if (length && !asm_is_digit(*at))
            bytes += ptxb_variable_bytes(&d, at + length);
        at += *at == '[' ? strcspn(at, "];") : length ? length : 1;
    }
    return bytes;
}

bool ptxb_is_shared(const char *word)
{
    return !strncmp(word, ".shared", 7) && !asm_is_word(word[7]) && word[7] != ':';
}

// SPDX-License-Identifier: MIT
// How many registers the code of a rule takes, as it is written: from its text.
#include "rule.h"

#include <stdlib.h>
#include <string.h>

// From the first line that has a register to the last.
struct range {
    uint32_t first, last;
};

enum { CLASSES = 26 * 27 };

struct survey {
    struct range *of[CLASSES]; // by the letters of the register's name
    uint32_t count[CLASSES];
    uint32_t lines;
};

// The class of "%fd12" is that of "fd"; its number is 12. Returns what is behind it; NULL: it is no
// such register.
static const char *parse(const char *at, unsigned *class, uint32_t *number)
{
    unsigned letters = 0, sum = 0;
    char *end;

    for (at++; *at >= 'a' && *at <= 'z'; at++, letters++)
        sum = sum * 26 + (unsigned)(*at - 'a') + (letters ? 26 : 0);
    if (!letters || letters > 2 || (*at != '<' && (*at < '0' || *at > '9')))
        return NULL;
    *class = sum;
    *number = (uint32_t)strtoul(*at == '<' ? at + 1 : at, &end, 10);
    return end;
}

// The registers of 32 bits that one of the class takes: %fd and %rd two, predicates none.
static int size_of(unsigned class)
{
    const unsigned predicate = 'p' - 'a', d = 'd' - 'a';

    return class == predicate ? 0 : class >= 26 && class % 26 == d ? 2 : 1;
}

// Lines like `.reg .f32 %f<56>;` say how many there are.
static bool declare(struct survey *s, const char *line)
{
    unsigned class;
    uint32_t count;
    const char *at = strchr(line, '%');

    if (!at || !parse(at, &class, &count) || class >= CLASSES || s->of[class])
        return true;
    s->of[class] = calloc(count + 1, sizeof *s->of[class]);
    s->count[class] = s->of[class] ? count : 0;
    return s->of[class] != NULL;
}

static void note(struct survey *s, const char *line, const char *end)
{
    for (const char *at = line; (at = strchr(at, '%')) && at < end;) {
        unsigned class;
        uint32_t number;
        const char *behind = parse(at, &class, &number);
        at = behind ? behind : at + 1;
        if (!behind || class >= CLASSES || number >= s->count[class])
            continue;
        struct range *range = &s->of[class][number];
        range->first = range->first ? range->first : s->lines;
        range->last = s->lines;
    }
}

// The greatest number of registers in use after a line, and that line, from 1.
static bool most_in_use(const struct survey *s, uint32_t *most, uint32_t *line)
{
    int *change = calloc(s->lines + 2, sizeof *change), now = 0;

    if (!change)
        return false;
    for (unsigned class = 0; class < CLASSES; class ++)
        for (uint32_t k = 0; k < s->count[class]; k++) {
            change[s->of[class][k].first] += size_of(class);
            change[s->of[class][k].last] -= size_of(class);
        }
    for (uint32_t k = 1; k <= s->lines; k++) {
        now += change[k];
        if (now > (int)*most) {
            *most = (uint32_t)now;
            *line = k;
        }
    }
    free(change);
    return true;
}

bool ptxp_rule_registers(const char *text, uint32_t *most, uint32_t *line)
{
    struct survey *s = calloc(1, sizeof *s);
    bool ok = s != NULL;

    *most = *line = 0;
    for (const char *at = text; ok && *at;) {
        const char *end = at + strcspn(at, "\n");
        const char *word = at + strspn(at, " ");
        s->lines++;
        if (!strncmp(word, ".reg ", 5))
            ok = declare(s, word);
        else if (strncmp(word, "//", 2) != 0 && strncmp(word, ".file ", 6) != 0)
            note(s, word, end);
        at = *end ? end + 1 : end;
    }
    ok = ok && most_in_use(s, most, line);
    for (unsigned class = 0; s && class < CLASSES; class ++)
        free(s->of[class]);
    free(s);
    return ok;
}

// SPDX-License-Identifier: MIT
// The ways through a text: its branches, and what each way sets.
#include "asm_text.h"

struct asm_mnemonic ptxb_asm_mnemonic(const char *line)
{
    const char *at = line + 1;

    if (*line == ASM_LABEL || *at == '{' || *at == '}')
        return (struct asm_mnemonic) { at, 0 };
    if (*at == '@')
        at = strchr(at, ' ') + 1;
    return (struct asm_mnemonic) { at, strcspn(at, ASM_ENDS) };
}

// ---- branches -----------------------------------------------------------------------------------

static bool is_at(const char *label, const char *to)
{
    const size_t length = strcspn(to, " ;\n");

    return *label == ASM_LABEL && !memcmp(label + 1, to, length) && label[1 + length] == ':';
}

// Whether a branch can mean a label: that of another scope has the same name, and is another.
static bool sees(const char *branch, const char *label)
{
    const char *const last = branch < label ? label : branch;
    int depth = 0, least = 0;

    for (const char *at = branch < label ? branch : label; at != last; at = asm_next(at)) {
        depth += at[1] == '{';
        depth -= at[1] == '}';
        least = depth < least ? depth : least;
    }
    return branch < label ? depth == least : least == 0;
}

static bool is_branch(struct asm_mnemonic m)
{
    return asm_is(m, "bra") || asm_is(m, "brx");
}

// Whether a branch can end at a label; that of brx, at any.
static bool leads(const char *branch, const char *label)
{
    const struct asm_mnemonic m = ptxb_asm_mnemonic(branch);

    if (*label != ASM_LABEL || asm_is(m, "brx"))
        return *label == ASM_LABEL;
    return is_at(label, m.at + m.length + 1) && sees(branch, label);
}

bool ptxb_asm_stays(const char *lines, const char *branch)
{
    while (*lines && !leads(branch, lines))
        lines = asm_next(lines);
    return *lines;
}

bool ptxb_asm_skips(const char *lines, const char *at)
{
    for (const char *branch = lines; *branch; branch = asm_next(branch))
        for (const char *label = lines; is_branch(ptxb_asm_mnemonic(branch)) && *label;
             label = asm_next(label))
            if (leads(branch, label) && (at > branch) != (at > label))
                return true;
    return false;
}

// ---- destinations -------------------------------------------------------------------------------

const char *ptxb_asm_destinations(const char *line, size_t *length)
{
    const struct asm_mnemonic m = ptxb_asm_mnemonic(line);
    const char *const first = m.at + m.length + 1, *at = first;
    unsigned depth = 0;

    *length = 0;
    if (!m.length || first[-1] != ASM_COLUMN || *first == '[' ||
        (asm_is(m, "call") && *first != '('))
        return first;
    for (; *at != ';' && (*at != ',' || depth); at++) {
        depth += *at == '{' || *at == '(' || *at == '[';
        depth -= *at == '}' || *at == ')' || *at == ']';
    }
    *length = (size_t)(at - first);
    return first;
}

// Whether a line sets an operand or a register of the text's own.
static bool sets(const char *line, const char *name, size_t name_length)
{
    size_t length;
    const char *const from = ptxb_asm_destinations(line, &length);

    for (const char *at = from; at + name_length <= from + length; at++)
        if (!memcmp(at, name, name_length) && !asm_is_word(at[name_length]) &&
            (at == from || !asm_is_word(at[-1])))
            return true;
    return false;
}

// ---- results ------------------------------------------------------------------------------------

// A predicate, and what it is; or none.
struct guard {
    const char *name;
    size_t length;
    bool is;
};

static struct guard guard_of(const char *line)
{
    const bool negated = line[2] == '!';
    const char *const name = line + 2 + negated;

    return line[1] == '@' ? (struct guard) { name, strcspn(name, " "), !negated }
                          : (struct guard) { 0 };
}

// Whether a way through the text misses all that sets the result, where the guard is what it is.
// Marks the lines that are reached without it.
static bool is_missed(const char *lines, char result, struct guard where, bool *reached)
{
    const char *line = lines;

    reached[0] = true;
    for (bool again = true; again;) {
        again = false;
        for (line = lines; *line; line = asm_next(line)) {
            const struct asm_mnemonic m = ptxb_asm_mnemonic(line);
            const struct guard own = guard_of(line);
            const bool known = where.name && own.length == where.length &&
                               !memcmp(own.name, where.name, own.length);
            const bool never = known && own.is != where.is, always = known ? !never : !own.name;
            const bool jumps = !never && is_branch(m);
            if (!reached[line - lines] || (always && sets(line, &result, 1)))
                continue;
            for (const char *label = lines; jumps && *label; label = asm_next(label)) {
                if (reached[label - lines] || !leads(line, label))
                    continue;
                reached[label - lines] = true;
                again |= label < line;
            }
            if (!always || (!jumps && !asm_is(m, "trap")))
                reached[asm_next(line) - lines] = true;
        }
    }
    return reached[line - lines];
}

enum asm_setting ptxb_asm_setting(ptx_builder *b, const char *lines, unsigned result)
{
    const char operand = (char)(unsigned char)(ASM_OPERAND + result);
    const size_t bytes = strlen(lines) + 1;
    struct guard guard = { 0 };
    bool any = false, missed = false, changes = false, jumps = false;

    for (const char *line = lines; *line; line = asm_next(line)) {
        const bool here = sets(line, &operand, 1);
        if (here && !jumps && !guard_of(line).name) // what most texts do
            return ASM_SET;
        jumps |= is_branch(ptxb_asm_mnemonic(line));
        changes |= guard.name && sets(line, guard.name, guard.length);
        guard = here && !guard.name ? guard_of(line) : guard;
        any |= here;
    }
    bool *const reached = any ? ptxb_alloc(b, bytes) : NULL;
    if (!reached)
        return ASM_UNSET;
    // Instructions under opposite guards set it together, if the predicate stays the same.
    const enum asm_setting without = guard.name ? ASM_GUARDED : ASM_SKIPPED;
    guard.name = changes ? NULL : guard.name;
    for (unsigned k = 0; k < 2 && !missed; k++, guard.is = !guard.is) {
        memset(reached, 0, bytes);
        missed = is_missed(lines, operand, guard, reached);
    }
    return missed ? without : ASM_SET;
}

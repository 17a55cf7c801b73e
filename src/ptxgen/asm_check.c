// SPDX-License-Identifier: MIT
// Whether the instructions of a text are what the caller of ptx_asm() says of them.
#include "asm_text.h"

// ---- memory -------------------------------------------------------------------------------------

static bool begins(struct asm_mnemonic m, const char *start)
{
    const size_t length = strlen(start);
    return m.length >= length && !memcmp(m.at, start, length);
}

static bool has(struct asm_mnemonic m, const char *part)
{
    const size_t length = strlen(part);

    for (size_t k = 0; k + length <= m.length; k++)
        if (!memcmp(m.at + k, part, length))
            return true;
    return false;
}

// Whether an instruction's memory is within what the caller said.
static bool is_within(ptx_memory said, struct asm_mnemonic m)
{
    const bool shared = has(m, ".shared"), global = has(m, ".global"), local = has(m, ".local");

    if (said == PTX_MEMORY_ANY || said == PTX_MEMORY_NONE)
        return said == PTX_MEMORY_ANY;
    return said == PTX_MEMORY_SHARED ? shared || !(global || local) : global || !(shared || local);
}

static bool memory_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                      struct asm_mnemonic m)
{
    static const struct {
        char start[14];
        bool reads, writes;
    } rows[] = {
        { "ld.", true, false },        { "ldu.", true, false },        { "ldmatrix.", true, false },
        { "st.", false, true },        { "stmatrix.", false, true },   { "atom.", true, true },
        { "red.", true, true },        { "cp.", true, true },          { "multimem.", true, true },
        { "mbarrier.", true, true },   { "tex.", true, false },        { "tld4.", true, false },
        { "suld.", true, false },      { "sust.", false, true },       { "sured.", true, true },
        { "wmma.load.", true, false }, { "wmma.store.", false, true }, { "tcgen05.", true, true },
        { "call", true, true },
    };

    // Parameters and constants are no memory that anybody writes.
    if (has(m, ".param") || has(m, ".const"))
        return true;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!begins(m, rows[k].start))
            continue;
        const bool read = rows[k].reads && !is_within(p->reads, m);
        if (!read && !(rows[k].writes && !is_within(p->writes, m)))
            continue;
        ptxb_fail(b, call, "'%.*s' %s memory, which .%s%s excludes", (int)m.length, m.at,
                  read ? "reads" : "writes",
                  p->pure ? "pure"
                  : read  ? "reads"
                          : "writes",
                  p->pure ? "" : " of the call");
        return false;
    }
    return true;
}

// ---- addresses and shared memory ----------------------------------------------------------------

// The state space in a mnemonic; PTX_SPACE_GENERIC: none. False for those that have several.
static bool space_of(struct asm_mnemonic m, unsigned *space)
{
    static const char *const names[] = { "global", "shared", "local", "param", "const" };
    static const uint8_t spaces[] = { PTX_SPACE_GLOBAL, PTX_SPACE_SHARED, PTX_SPACE_LOCAL,
                                      PTX_SPACE_PARAM, PTX_SPACE_CONST };
    const char *const end = m.at + m.length;

    *space = PTX_SPACE_GENERIC;
    for (const char *part = m.at; part < end; part++) {
        const size_t length = strcspn(part, ".:\t ;");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (length != strlen(names[k]) || memcmp(part, names[k], length) != 0)
                continue;
            if (*space != PTX_SPACE_GENERIC && *space != spaces[k])
                return false;
            *space = spaces[k];
        }
        part += strcspn(part, ".\t ;");
    }
    return true;
}

// The addresses of an instruction are of its state space. One of a generic pointer can be any.
static bool spaces_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                      const struct asm_operands *o, const char *line, struct asm_mnemonic m)
{
    static const char *const starts[] = { "ld",       "st",    "atom.",    "red.",
                                          "prefetch", "wmma.", "mbarrier." };
    const unsigned first = o->results + 2 * o->inouts + o->inputs; // of the addresses
    const bool plain =
        begins(m, "ld.") || begins(m, "st.") || begins(m, "atom.") || begins(m, "red.");
    bool known = false;
    unsigned space;

    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
        known |= begins(m, starts[k]);
    if (!known || !space_of(m, &space) || (space == PTX_SPACE_GENERIC && !plain))
        return true;
    for (; *line != '\n'; line++) {
        const unsigned index = (unsigned char)*line - (unsigned)ASM_OPERAND;
        if ((unsigned char)*line < ASM_OPERAND || index < first)
            continue;
        const unsigned at = p->at[index - first].space;
        // Addresses of global memory are generic addresses.
        if (at == space || at == PTX_SPACE_GENERIC ||
            (space == PTX_SPACE_GENERIC && at == PTX_SPACE_GLOBAL))
            continue;
        ptxb_fail(b, call,
                  "'%.*s' is of %s memory, and .at[%u] points to %s memory; write '%s' into the "
                  "instruction, or pass another pointer",
                  (int)m.length, m.at, ptxb_space_name(space), index - first, ptxb_space_name(at),
                  ptxb_space_text(at));
        return false;
    }
    return true;
}

static bool shared_fits(ptx_builder *b, const char *call, const char *name, uint64_t bytes)
{
    const uint64_t held = ptxb_entry(b)->shared_bytes;

    if (held + bytes <= SHARED_BYTES)
        return true;
    ptxb_fail(b, call,
              "%s%.64s%s %llu bytes of shared memory, and %llu bytes are declared already; an "
              "entry has at most %d; ptx_shared_dynamic() can have more",
              name ? "'" : "the text declares", name ? name : "", name ? "' has" : "",
              (unsigned long long)bytes, (unsigned long long)held, SHARED_BYTES);
    return false;
}

// Counts the shared memory of a name of the module, once in an entry.
static bool count_name(ptx_builder *b, const char *call, const char *word, size_t length)
{
    for (uint32_t k = 0; k < b->symbols.count; k++) {
        struct symbol *symbol = &b->symbols.at[k];
        if (!symbol->shared || symbol->counted == b->entries.count ||
            strlen(symbol->name) != length || memcmp(symbol->name, word, length) != 0)
            continue;
        if (!shared_fits(b, call, symbol->name, symbol->shared))
            return false;
        symbol->counted = (uint16_t)b->entries.count;
        ptxb_entry(b)->shared_bytes += (uint32_t)symbol->shared;
    }
    return true;
}

static bool count_names(ptx_builder *b, const char *call, const char *line)
{
    for (const char *at = line + 1; *at != '\n'; at++) {
        const size_t length = ptxb_asm_word(line + 1, at);
        if (length && !count_name(b, call, at, length))
            return false;
        at += length ? length - 1 : 0;
    }
    return true;
}

// Each use of a text has its own arrays.
static bool count_shared(ptx_builder *b, const char *call, const struct asm_text *text)
{
    if (!shared_fits(b, call, NULL, text->shared))
        return false;
    ptxb_entry(b)->shared_bytes += (uint32_t)text->shared;
    ptxb_entry(b)->own_shared += (uint32_t)text->shared;
    return true;
}

// ---- what needs other threads -------------------------------------------------------------------

static ptx_convergence needs(struct asm_mnemonic m)
{
    const bool warp = begins(m, "bar.warp.");

    if ((begins(m, "bar.") && !warp) || begins(m, "barrier.") || begins(m, "call"))
        return PTX_CONVERGENCE_BLOCK;
    return warp || has(m, ".sync") || has(m, ".aligned") ? PTX_CONVERGENCE_WARP
                                                         : PTX_CONVERGENCE_NONE;
}

// ---- the lines of a text ------------------------------------------------------------------------

static const char *next_line(const char *line)
{
    return strchr(line, '\n') + 1;
}

static bool is_branch(struct asm_mnemonic m)
{
    return begins(m, "bra.") || (begins(m, "bra") && m.length == 3);
}

static bool is_target(const char *line, const char *to, size_t length)
{
    return *line == ASM_LABEL && !memcmp(line + 1, to, length) && line[1 + length] == ':';
}

// A branch ends at a label of the text.
static bool stays_inside(ptx_builder *b, const char *call, const char *lines, struct asm_mnemonic m)
{
    const char *to = m.at + m.length + 1;
    const size_t length = strcspn(to, " ;\n");

    for (const char *line = lines; *line; line = next_line(line))
        if (is_target(line, to, length))
            return true;
    ptxb_fail(b, call, "a branch to '%.*s' leaves the text; ptx_branch_if() and blocks do that",
              (int)length, to);
    return false;
}

static bool directive_ok(ptx_builder *b, const char *call, const char *line, struct asm_mnemonic m)
{
    static const char *const own[] = { ".reg", ".local", ".shared", ".param" };
    static const char *const others[] = { ".pragma", ".loc", ".branchtargets", ".calltargets",
                                          ".callprototype" };

    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (m.length == strlen(own[k]) && begins(m, own[k])) {
            if (*line == '0')
                ptxb_fail(b, call,
                          "'%s' outside of { } would be declared again at the next use of the text",
                          own[k]);
            return *line != '0';
        }
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (m.length == strlen(others[k]) && begins(m, others[k]))
            return true;
    ptxb_fail(b, call, "'%.*s' does not belong into a kernel's code; ptx_asm_module() declares",
              (int)m.length, m.at);
    return false;
}

static bool line_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                    const struct asm_operands *o, const char *lines, const char *line,
                    struct asm_mnemonic m)
{
    if (!count_names(b, call, line))
        return false;
    if (*m.at == '.')
        return directive_ok(b, call, line, m);
    if (begins(m, "ret") || begins(m, "exit")) {
        ptxb_fail(b, call, "'%.*s' leaves the text; ptx_return_if() does that", (int)m.length,
                  m.at);
        return false;
    }
    if (is_branch(m))
        return stays_inside(b, call, lines, m);
    return memory_ok(b, call, p, m) && spaces_ok(b, call, p, o, line, m);
}

// Whether a branch can mean a label: that of another scope has the same name, and is another.
static bool sees(const char *branch, const char *label)
{
    const char *const last = branch < label ? label : branch;
    int depth = 0, least = 0;

    for (const char *line = branch < label ? branch : label; line != last; line = next_line(line)) {
        depth += line[1] == '{';
        depth -= line[1] == '}';
        least = depth < least ? depth : least;
    }
    return branch < label ? depth == least : least == 0;
}

// Whether a line lies between a branch and its label, so that not all threads that begin the text
// need to reach it.
static bool is_skipped(const char *lines, const char *at)
{
    for (const char *branch = lines; *branch; branch = next_line(branch)) {
        const struct asm_mnemonic m = ptxb_asm_mnemonic(branch);
        const char *const to = m.at + m.length + 1;
        if (begins(m, "brx."))
            return true;
        if (!is_branch(m))
            continue;
        for (const char *label = lines; *label; label = next_line(label))
            if (is_target(label, to, strcspn(to, " ;\n")) && sees(branch, label) &&
                (at > branch) != (at > label))
                return true;
    }
    return false;
}

// What needs other threads is reached by all that begin the text, unless the caller says more.
static bool together_ok(ptx_builder *b, const char *call, const char *lines, const char *line,
                        struct asm_mnemonic m)
{
    const bool guarded = line[1] == '@';

    if (needs(m) == PTX_CONVERGENCE_NONE || (!guarded && !is_skipped(lines, line)))
        return true;
    ptxb_fail(b, call,
              "'%.*s' needs all threads of a %s, and %s, so that only some may reach it; say in "
              ".convergence what the text needs",
              (int)m.length, m.at, needs(m) == PTX_CONVERGENCE_WARP ? "warp" : "block",
              guarded ? "has a guard" : "a branch of the text may skip it");
    return false;
}

// The results are not said to be more alike than a special register that the text reads, unless
// threads can agree on them.
static bool divergence_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                          const struct asm_text *text, ptx_convergence together)
{
    const char *const reg = text->varying;

    if (!reg || together != PTX_CONVERGENCE_NONE ||
        (p->divergence != PTX_DIVERGENCE_OPERANDS && p->divergence != PTX_DIVERGENCE_NONE))
        return true;
    ptxb_fail(b, call,
              ".divergence says that results %s, and the text reads %.*s, which differs between "
              "threads; leave .divergence out, or pass what ptx_tid() and its like give as an "
              "operand",
              p->divergence == PTX_DIVERGENCE_NONE ? "are the same in a block"
                                                   : "differ only where an operand does",
              (int)strcspn(reg, " \t\r\n,;)]}/"), reg);
    return false;
}

bool ptxb_check_asm(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                    const struct asm_operands *o, const struct asm_text *text,
                    struct asm_mnemonic *first, ptx_convergence *together)
{
    if (!count_shared(b, call, text))
        return false;
    *first = (struct asm_mnemonic) { "", 0 };
    *together = PTX_CONVERGENCE_NONE;
    for (const char *line = text->lines; *line; line = next_line(line)) {
        const struct asm_mnemonic m = ptxb_asm_mnemonic(line);
        if (!m.length)
            continue;
        if (!line_ok(b, call, p, o, text->lines, line, m) ||
            (p->convergence == PTX_CONVERGENCE_TEXT && !together_ok(b, call, text->lines, line, m)))
            return false;
        if (!first->length || *first->at == '.')
            *first = m;
        *together = needs(m) > *together ? needs(m) : *together;
    }
    if (p->pure && (text->special || *together != PTX_CONVERGENCE_NONE)) {
        ptxb_fail(b, call,
                  ".pure, and the text %s; a pure text only computes results from its "
                  "operands",
                  text->special ? "reads a special register" : "needs other threads");
        return false;
    }
    if (!divergence_ok(b, call, p, text, *together))
        return false;
    if (p->convergence != PTX_CONVERGENCE_TEXT)
        *together = p->convergence;
    return true;
}

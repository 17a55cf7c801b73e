// SPDX-License-Identifier: MIT
// Whether the instructions of a text are what the caller of ptx_asm() says of them.
#include "asm_text.h"

// A line of a text, and who says what about it.
struct check {
    ptx_builder *b;
    const char *call;
    const struct ptx_asm_params *p;
    const struct asm_operands *o;
    const struct asm_text *text;
    const char *line;
    struct asm_mnemonic m;
    unsigned facts;            // enum asm_fact
    unsigned first, last;      // state spaces that the mnemonic names; PTX_SPACE_GENERIC: none
    struct asm_mnemonic lanes; // the first whose results differ between lanes
    ptx_convergence meet;      // the most that an instruction needs
    bool agrees;               // threads can agree on results
};

// An error that begins with the mnemonic.
#define FAIL(c, format, ...)                                                                       \
    (ptxb_fail((c)->b, (c)->call, "'%.*s' " format, (int)(c)->m.length, (c)->m.at, __VA_ARGS__),   \
     false)

// ---- memory -------------------------------------------------------------------------------------

static void find_spaces(struct check *c)
{
    c->first = c->last = PTX_SPACE_GENERIC;
    for (struct asm_mnemonic m = c->m; m.length; m.at++, m.length--)
        for (unsigned k = PTX_SPACE_GLOBAL; *m.at == '.' && k <= PTX_SPACE_CONST; k++) {
            const struct asm_mnemonic rest = { m.at + 1, m.length - 1 };
            if (!asm_is(rest, ptxb_space_name(k)))
                continue;
            c->first = c->first == PTX_SPACE_GENERIC ? k : c->first;
            c->last = k;
        }
}

static bool within(const struct check *c, ptx_memory said, unsigned space)
{
    if (space == PTX_SPACE_GENERIC && c->facts & ASM_SHARED)
        space = PTX_SPACE_SHARED;
    // Parameters and constants are no memory that anybody writes.
    return space == PTX_SPACE_PARAM || space == PTX_SPACE_CONST || asm_may_touch(said, space);
}

static bool memory_ok(const struct check *c)
{
    const bool read = (c->facts & ASM_READS && !within(c, c->p->reads, c->last)) ||
                      (c->facts & ASM_UPDATES && !within(c, c->p->reads, c->first));

    if (!read && !(c->facts & ASM_WRITES && !within(c, c->p->writes, c->first)))
        return true;
    return FAIL(c, "%s memory, which .%s%s excludes", read ? "reads" : "writes",
                c->p->pure ? "pure"
                : read     ? "reads"
                           : "writes",
                c->p->pure ? "" : " of the call");
}

// The addresses of an instruction are of its state space. One of a generic pointer can be any. What
// a line loads by .nc, nothing in the entry writes. A line writes to the first of its addresses.
static bool addresses_ok(const struct check *c)
{
    const unsigned first = ASM_OPERAND + c->o->results + 2 * c->o->inouts + c->o->inputs;
    const bool nc = ptxb_asm_has(c->m, "nc");
    bool traffic = nc || c->facts & ASM_WRITES;
    // Those of copies and of descriptors of tensors are of several spaces.
    const bool one = c->facts & (ASM_READS | ASM_WRITES | ASM_EFFECT) && c->first == c->last &&
                     (c->first != PTX_SPACE_GENERIC || !(c->facts & ASM_SHARED)) &&
                     !asm_is(c->m, "cp");

    for (const char *at = c->line; *at != '\n'; at++) {
        const unsigned k = (unsigned char)*at - first;
        if (k >= c->o->addresses)
            continue;
        const unsigned space = c->p->at[k].space;
        // Addresses of global memory are generic addresses.
        if (one && space != c->first && space != PTX_SPACE_GENERIC &&
            (c->first != PTX_SPACE_GENERIC || space != PTX_SPACE_GLOBAL))
            return FAIL(c,
                        "is of %s memory, and .at[%u] points to %s memory; write '%s' into the "
                        "instruction, or pass another pointer",
                        ptxb_space_name(c->first), k, ptxb_space_name(space),
                        ptxb_space_text(space));
        if (traffic && !ptxb_traffic_ok(c->b, c->call, c->p->at[k], nc))
            return false;
        traffic = false;
    }
    return true;
}

// ---- shared memory ------------------------------------------------------------------------------

static bool count_bytes(const struct check *c, const char *name, uint64_t bytes)
{
    struct entry *entry = ptxb_entry(c->b);

    if (entry->shared_bytes + bytes > SHARED_BYTES) {
        ptxb_fail(c->b, c->call,
                  "%s%.64s%s %llu bytes of shared memory, and %llu bytes are declared already; an "
                  "entry has at most %d; ptx_shared_dynamic() can have more",
                  name ? "'" : "the text declares", name ? name : "", name ? "' has" : "",
                  (unsigned long long)bytes, (unsigned long long)entry->shared_bytes, SHARED_BYTES);
        return false;
    }
    entry->shared_bytes += (uint32_t)bytes;
    return true;
}

// Whether a line has the word, and not within another, a register or a mnemonic.
static bool has_word(const char *line, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = line + 1; *at != '\n'; at++)
        if (!strncmp(at, word, length) && !asm_is_word(at[length]) && !asm_is_word(at[-1]) &&
            at[-1] != '%' && at[-1] != '.')
            return true;
    return false;
}

// Counts the shared memory of the module's arrays that a line names, once in an entry.
static bool count_names(const struct check *c)
{
    ptx_builder *const b = c->b;

    for (uint32_t k = 0; k < b->symbols.count; k++) {
        struct symbol *symbol = &b->symbols.at[k];
        if (!symbol->shared || symbol->counted == b->entries.count ||
            !has_word(c->line, symbol->name))
            continue;
        if (!count_bytes(c, symbol->name, symbol->shared))
            return false;
        symbol->counted = (uint16_t)b->entries.count;
    }
    return true;
}

// ---- branches and directives --------------------------------------------------------------------

static bool directive_ok(const struct check *c)
{
    if (ptxb_asm_among(c->m.at, c->m.length, ".reg .local .shared .param"))
        return *c->line != '0' ||
               FAIL(c, "outside of %s would be declared again at the next use of the text", "{ }");
    return ptxb_asm_among(c->m.at, c->m.length,
                          ".pragma .loc .branchtargets .calltargets .callprototype") ||
           FAIL(c, "does not belong into a kernel's code; %s declares", "ptx_asm_module()");
}

static bool stays_inside(const struct check *c)
{
    const char *const to = c->m.at + c->m.length + 1;

    if (asm_is(c->m, "ret") || asm_is(c->m, "exit"))
        return FAIL(c, "leaves the text; %s does that", "ptx_return_if()");
    if (!asm_is(c->m, "bra") || ptxb_asm_stays(c->text->lines, c->line))
        return true;
    ptxb_fail(c->b, c->call,
              "a branch to '%.*s' leaves the text; ptx_branch_if() and blocks do that",
              (int)strcspn(to, " ;\n"), to);
    return false;
}

// ---- other threads ------------------------------------------------------------------------------

// What is done by all that begin the text, unless the caller says who takes part.
static bool together_ok(struct check *c)
{
    const bool unknown = c->facts == ASM_UNKNOWN && !c->p->pure, guarded = c->line[1] == '@';
    const ptx_convergence needed = unknown || c->facts & ASM_BLOCK ? PTX_CONVERGENCE_BLOCK
                                   : c->facts & ASM_WARP           ? PTX_CONVERGENCE_WARP
                                                                   : PTX_CONVERGENCE_NONE;

    c->meet = needed > c->meet ? needed : c->meet;
    c->agrees |=
        c->facts == ASM_UNKNOWN || (needed != PTX_CONVERGENCE_NONE && !(c->facts & ASM_LANES));
    if (c->p->convergence == PTX_CONVERGENCE_NONE && ptxb_asm_has(c->m, "aligned"))
        return FAIL(c, "needs all threads of a warp together, which %s excludes", ".convergence");
    if (c->p->convergence != PTX_CONVERGENCE_TEXT || needed == PTX_CONVERGENCE_NONE ||
        (!guarded && !ptxb_asm_skips(c->text->lines, c->line)))
        return true;
    return FAIL(c,
                "%s all threads of a %s, and %s, so that only some may reach it; say in "
                ".convergence what the text needs",
                unknown ? "is not known to the builder, may need" : "needs",
                needed == PTX_CONVERGENCE_WARP ? "warp" : "block",
                guarded ? "has a guard" : "a branch of the text may skip it");
}

static bool pure_ok(const struct check *c)
{
    const char *more = c->facts & (ASM_WARP | ASM_BLOCK) ? "needs other threads"
                       : c->facts & ASM_LANES            ? "differs between lanes"
                       : c->facts & ASM_EFFECT           ? "has an effect beside its results"
                                                         : NULL;

    return !c->p->pure || !more || FAIL(c, "%s, which .pure excludes", more);
}

// Results are not said to be more alike than a special register that the text reads, or than the
// results of an instruction, unless threads can agree on them.
static bool divergence_ok(const struct check *c)
{
    const ptx_divergence said = c->p->divergence;
    const bool warps = said == PTX_DIVERGENCE_WARPS;
    // Of %tid a text can compute what is the same in a warp; of %laneid and %lanemask it cannot.
    const char *const own = warps ? strstr(c->text->lines, "%lane") : c->text->varying;
    const char *const name = own ? own : c->lanes.at;

    if (!name || c->agrees || said == PTX_DIVERGENCE_ANY ||
        (warps && c->p->convergence >= PTX_CONVERGENCE_WARP))
        return true;
    ptxb_fail(c->b, c->call,
              ".divergence says that results %s, and the text %s %.*s, which differs between "
              "threads; leave .divergence out, or pass what ptx_tid() and its like give as an "
              "operand",
              said == PTX_DIVERGENCE_NONE ? "are the same in a block"
              : warps                     ? "are the same in a warp"
                                          : "differ only where an operand does",
              name == c->lanes.at ? "uses" : "reads", (int)strcspn(name, " \t\r\n,;)]}/"), name);
    return false;
}

// ---- all of a text ------------------------------------------------------------------------------

static bool line_ok(struct check *c)
{
    size_t length;

    if (!count_names(c))
        return false;
    if (*c->m.at == '.')
        return directive_ok(c);
    c->facts = ptxb_asm_facts(c->m);
    // The parameters of a function are those of its callers.
    if (c->facts & ASM_READS && ptxb_asm_has(c->m, "param") && ptxb_entry(c->b)->is_function)
        c->facts |= ASM_LANES;
    const char *const to = ptxb_asm_destinations(c->line, &length);
    if (c->facts & ASM_LANES && length && (length > 1 || *to != '_') && !c->lanes.at)
        c->lanes = c->m;
    find_spaces(c);
    return stays_inside(c) && memory_ok(c) && addresses_ok(c) && pure_ok(c) && together_ok(c);
}

bool ptxb_check_asm(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                    const struct asm_operands *o, const struct asm_text *text,
                    struct asm_mnemonic *first, ptx_convergence *together)
{
    struct check c = { .b = b, .call = call, .p = p, .o = o, .text = text };

    c.meet = PTX_CONVERGENCE_NONE;
    *first = (struct asm_mnemonic) { "", 0 };
    if (!count_bytes(&c, NULL, text->shared)) // each use of a text has its own arrays
        return false;
    ptxb_entry(b)->own_shared += (uint32_t)text->shared;
    ptxb_entry(b)->text_shared |= text->shared != 0;
    for (c.line = text->lines; *c.line; c.line = asm_next(c.line)) {
        c.m = ptxb_asm_mnemonic(c.line);
        if (!c.m.length)
            continue;
        if (!line_ok(&c))
            return false;
        if (!first->length || *first->at == '.')
            *first = c.m;
    }
    if (p->pure && text->special) {
        ptxb_fail(b, call,
                  ".pure, and the text reads a special register; a pure text only computes results "
                  "from its operands");
        return false;
    }
    *together = p->convergence == PTX_CONVERGENCE_TEXT ? c.meet : p->convergence;
    return divergence_ok(&c);
}

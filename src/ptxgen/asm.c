// SPDX-License-Identifier: MIT
// PTX text in an entry and beside it, and whether it is what the caller says of it.
#include "asm_text.h"
#include "print.h"

#include <stdio.h>

// ---- what is known of PTX's instructions, up to PTX ISA 9.0 -------------------------------------

// The names of a row stand for the instructions that begin with them, part by part, up to a longer
// name of another row. What ops.h has a row for computes a value, and is not here.
static const struct {
    unsigned facts;
    const char *names;
} rows[] = {
    { 0, // values that depend on the operands alone
      "addc clusterlaunchcontrol.query_cancel cnot createpolicy cvt cvta dp2a fns getctarank "
      "isspacep istypep mad24 madc mapa mbarrier.pending_count mov mul24 set setp slct subc suq "
      "txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 "
      "vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4" },
    { ASM_SOURCE | ASM_BRANCH, "bra brx" },
    { ASM_LANES, "activemask" },
    { ASM_WARP, "match redux shfl vote" },
    { ASM_LANES | ASM_WARP,
      "elect match.any mma movmatrix shfl.down shfl.sync.down shfl.sync.up shfl.up wmma" },
    { ASM_READS, "ld ldu multimem.ld_reduce suld tex tld4" },
    { ASM_READS | ASM_LANES | ASM_WARP, "wmma.load" },
    { ASM_READS | ASM_SHARED | ASM_LANES, "mbarrier.test_wait mbarrier.try_wait" },
    { ASM_READS | ASM_SHARED | ASM_LANES | ASM_WARP, "ldmatrix wgmma.mma_async" },
    { ASM_WRITES, "discard multimem.st st sust" },
    { ASM_WRITES | ASM_WARP, "wmma.store" },
    { ASM_WRITES | ASM_SHARED, "clusterlaunchcontrol.try_cancel st.bulk tcgen05.alloc" },
    { ASM_WRITES | ASM_SHARED | ASM_WARP, "stmatrix" },
    { ASM_READS | ASM_WRITES, "cp multimem.red red sured tensormap" },
    { ASM_READS | ASM_WRITES | ASM_UPDATES, "cp.reduce" },
    { ASM_READS | ASM_WRITES | ASM_LANES, "atom" },
    { ASM_READS | ASM_WRITES | ASM_SHARED, "cp.async.mbarrier" },
    { ASM_READS | ASM_WRITES | ASM_SHARED | ASM_LANES, "mbarrier tcgen05" },
    { ASM_READS | ASM_WRITES | ASM_BLOCK, "call" },
    { ASM_EFFECT,
      "alloca applypriority brkpt cp.async.bulk.commit_group cp.async.bulk.prefetch "
      "cp.async.commit_group cp.async.wait_all fence griddepcontrol membar prefetch prefetchu "
      "stacksave tcgen05.fence tcgen05.relinquish_alloc_permit tcgen05.wait trap" },
    { ASM_EFFECT | ASM_LEAVES, "exit ret" },
    { ASM_EFFECT | ASM_SOURCE,
      "cp.async.bulk.wait_group cp.async.wait_group nanosleep pmevent setmaxnreg stackrestore "
      "tcgen05.dealloc" },
    { ASM_EFFECT | ASM_SOURCE | ASM_WARP,
      "bar.warp wgmma.commit_group wgmma.fence wgmma.wait_group" },
    { ASM_EFFECT | ASM_SOURCE | ASM_BLOCK, "bar barrier" },
    { ASM_EFFECT | ASM_BLOCK, "bar.cta.red bar.red barrier.cta.red barrier.red" },
};

bool ptxb_asm_is(struct asm_word name, const char *parts)
{
    const size_t length = strcspn(parts, " ");

    return name.length >= length && !memcmp(name.at, parts, length) &&
           (name.length == length || name.at[length] == '.' || name.at[length] == ':');
}

// Whether the name has one of these parts, ".shared" as ld.shared::cta.u32 has.
static bool has(struct asm_word name, const char *parts)
{
    for (; name.length; name.at++, name.length--)
        for (const char *at = parts; at; at = strchr(at + 1, ' '))
            if (ptxb_asm_is(name, at + (*at == ' ')))
                return true;
    return false;
}

unsigned ptxb_asm_facts(struct asm_word name)
{
    unsigned facts = 0;
    size_t longest = 0;

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (const char *at = rows[k].names; at; at = strchr(at, ' ')) {
            at += *at == ' ';
            if (*at != *name.at || strcspn(at, " ") <= longest || !ptxb_asm_is(name, at))
                continue;
            longest = strcspn(at, " ");
            facts = rows[k].facts;
        }
    if (!longest && !ptxb_is_spelled(name.at, name.length))
        return ASM_UNKNOWN;
    if (!(facts & ASM_BLOCK) && has(name, ".sync .aligned"))
        facts |= ASM_WARP;
    // A load of a thread's own memory, or of memory that others change, is not the same for all.
    if (facts & ASM_READS && has(name, ".acquire .local .mmio .relaxed .volatile"))
        facts |= ASM_LANES;
    return facts;
}

// ---- ways through a text ------------------------------------------------------------------------

// Whether a statement is a branch and can end at another, a label: at one of its name in a scope
// around the branch; that of brx, at any.
static bool leads(const struct asm_text *t, const struct asm_statement *branch,
                  const struct asm_statement *label)
{
    uint32_t scope = branch->scope;

    if (!(branch->facts & ASM_BRANCH) || !label->is_label || ptxb_asm_is(branch->name, "brx"))
        return branch->facts & ASM_BRANCH && label->is_label;
    while (scope && scope != label->scope)
        scope = t->statements[scope - 1].scope;
    const size_t length = strcspn(branch->sets.at, " ;\n");
    return scope == label->scope && length == label->name.length &&
           !memcmp(branch->sets.at, label->name.at, length);
}

// Whether a branch of the text, this one if it is not NULL, can end at a label; and has `between`,
// if it is not NULL, between itself and the label.
static bool any_leads(const struct asm_text *t, const struct asm_statement *branch,
                      const struct asm_statement *between)
{
    const struct asm_statement *const first = t->statements, *const end = first + t->count;

    for (const struct asm_statement *s = branch ? branch : first; s < end; s = branch ? end : s + 1)
        for (const struct asm_statement *label = first; label < end; label++)
            if ((!between || (between > s) != (between > label)) && leads(t, s, label))
                return true;
    return false;
}

// Whether a piece of a line has the word, and not within another, a register or a name with dots.
static bool has_word(struct asm_word in, struct asm_word word)
{
    for (; word.length <= in.length; in.at++, in.length--)
        if (!memcmp(in.at, word.at, word.length) && !asm_is_word(in.at[word.length]) &&
            !asm_is_word(in.at[-1]) && in.at[-1] != '%' && in.at[-1] != '.')
            return true;
    return false;
}

// Whether a way through the text misses all that sets the result, where the predicate of a guard,
// if it is not NULL, has one value or the other.
static bool is_missed(struct asm_text *t, struct asm_word result, const struct asm_statement *under,
                      bool opposite)
{
    struct asm_statement *const end = t->statements + t->count;

    for (struct asm_statement *s = t->statements; s <= end; s++)
        s->reached = s == t->statements; // without it
    for (bool again = true; again;) {
        again = false;
        for (struct asm_statement *s = t->statements; s < end; s++) {
            const bool known = under && s->guard.at && s->guard.length == under->guard.length &&
                               !memcmp(s->guard.at, under->guard.at, s->guard.length);
            const bool never = known && (s->negated != under->negated) != opposite;
            const bool always = known ? !never : !s->guard.at;
            const bool jumps = !never && s->facts & ASM_BRANCH;
            if (!s->reached || (always && has_word(s->sets, result)))
                continue;
            for (struct asm_statement *label = t->statements; jumps && label < end; label++)
                if (!label->reached && leads(t, s, label))
                    label->reached = again = true;
            if (!always || (!jumps && !ptxb_asm_is(s->name, "trap")))
                s[1].reached = true;
        }
    }
    return end->reached;
}

bool ptxb_asm_sets(struct asm_text *t, unsigned k)
{
    const char byte = (char)(unsigned char)(ASM_OPERAND + k);
    const struct asm_word result = { &byte, 1 };
    const struct asm_statement *under = NULL; // the first guard of what sets it
    bool any = false, changes = false;

    for (const struct asm_statement *s = t->statements; s < t->statements + t->count; s++) {
        const bool here = has_word(s->sets, result);
        any |= here;
        changes |= under && has_word(s->sets, under->guard);
        under = here && !under && s->guard.at ? s : under;
    }
    // Instructions under opposite guards set it together, if the predicate stays the same.
    const struct asm_statement *const guard = changes ? NULL : under;
    if (any && !is_missed(t, result, guard, false) && !is_missed(t, result, guard, true))
        return true;
    const char *const name = ptxb_asm_operand(t, k);
    return any ? FAIL(t,
                      "%s, is set %s, and undefined elsewhere; set it in any case first, or pass a "
                      "variable in .inout",
                      name,
                      under ? "under a guard only" : "only where no branch of the text skips it")
               : FAIL(t,
                      "no statement of the text sets %s; what it only reads is in .in, what it "
                      "reads and sets in .inout",
                      name);
}

// ---- what is said of each statement -------------------------------------------------------------

// An error that begins with the name.
#define FAIL_NAME(t, format, ...)                                                                  \
    FAIL(t, "'%.*s' " format, (int)(t)->s->name.length, (t)->s->name.at, __VA_ARGS__)

static bool within(struct asm_text *t, ptx_memory said, unsigned space)
{
    if (space == PTX_SPACE_GENERIC && t->facts & ASM_SHARED)
        space = PTX_SPACE_SHARED;
    // Parameters and constants are no memory that anybody writes.
    return space == PTX_SPACE_PARAM || space == PTX_SPACE_CONST || asm_may_touch(said, space);
}

// The addresses of an instruction are of its state space. One of a generic pointer can be any. What
// a line loads by .nc, nothing in the entry writes. A line writes to the first of its addresses.
static bool memory_ok(struct asm_text *t)
{
    const unsigned first = ASM_OPERAND + t->operands - t->counts[ASM_ADDRESSES];
    const bool nc = has(t->s->name, ".nc");
    bool traffic = nc || t->facts & ASM_WRITES;
    // Those of copies and of descriptors of tensors are of several spaces.
    const bool one = t->facts & (ASM_READS | ASM_WRITES | ASM_EFFECT) && t->first == t->last &&
                     (t->first != PTX_SPACE_GENERIC || !(t->facts & ASM_SHARED)) &&
                     !ptxb_asm_is(t->s->name, "cp");

    for (const char *at = t->s->line; *at != '\n'; at++) {
        const unsigned k = (unsigned char)*at - first;
        if (k >= t->counts[ASM_ADDRESSES])
            continue;
        const unsigned space = t->p->at[k].space;
        // Addresses of global memory are generic addresses.
        if (one && space != t->first && space != PTX_SPACE_GENERIC &&
            (t->first != PTX_SPACE_GENERIC || space != PTX_SPACE_GLOBAL))
            return FAIL_NAME(t,
                             "is of %s memory, and .at[%u] points to %s memory; write '%s' into "
                             "the instruction, or pass another pointer",
                             ptxb_space_name(t->first), k, ptxb_space_name(space),
                             ptxb_space_text(space));
        if (traffic && !ptxb_traffic_ok(t->b, t->call, t->p->at[k], nc))
            return false;
        traffic = false;
    }
    return true;
}

static bool count_bytes(struct asm_text *t, const char *name, uint64_t bytes)
{
    struct entry *const entry = ptxb_entry(t->b);

    if (entry->shared_bytes + bytes > SHARED_BYTES)
        return FAIL(t,
                    "%s%.64s%s %llu bytes of shared memory, and %llu bytes are declared already; "
                    "an entry has at most %d; ptx_shared_dynamic() can have more",
                    name ? "'" : "the text declares", name ? name : "", name ? "' has" : "",
                    (unsigned long long)bytes, (unsigned long long)entry->shared_bytes,
                    SHARED_BYTES);
    entry->shared_bytes += (uint32_t)bytes;
    return true;
}

// Counts the shared memory of the module's arrays that a line names, once in an entry.
static bool count_names(struct asm_text *t)
{
    const struct asm_word operands = { t->s->sets.at, strcspn(t->s->sets.at, "\n") };
    struct symbol *const end = t->b->symbols.at + t->b->symbols.count;

    for (struct symbol *at = t->b->symbols.at; at < end; at++) {
        if (!at->shared || at->counted == t->b->entries.count ||
            !has_word(operands, (struct asm_word) { at->name, strlen(at->name) }))
            continue;
        if (!count_bytes(t, at->name, at->shared))
            return false;
        at->counted = (uint16_t)t->b->entries.count;
    }
    return true;
}

// What is done by all that begin the text, unless the caller says who takes part.
static bool together_ok(struct asm_text *t)
{
    const struct ptx_asm_params *const p = t->p;
    const bool unknown = t->facts == ASM_UNKNOWN && !p->pure, guarded = t->s->guard.at;
    const ptx_convergence needed = unknown || t->facts & ASM_BLOCK ? PTX_CONVERGENCE_BLOCK
                                   : t->facts & ASM_WARP           ? PTX_CONVERGENCE_WARP
                                                                   : PTX_CONVERGENCE_NONE;

    t->together = needed > t->together ? needed : t->together;
    t->agrees |=
        t->facts == ASM_UNKNOWN || (needed != PTX_CONVERGENCE_NONE && !(t->facts & ASM_LANES));
    if (p->convergence == PTX_CONVERGENCE_NONE && has(t->s->name, ".aligned"))
        return FAIL_NAME(t, "needs all threads of a warp together, which %s excludes",
                         ".convergence");
    return p->convergence != PTX_CONVERGENCE_TEXT || needed == PTX_CONVERGENCE_NONE ||
           (!guarded && !any_leads(t, NULL, t->s)) ||
           FAIL_NAME(t,
                     "%s all threads of a %s, and %s, so that only some may reach it; say in "
                     ".convergence what the text needs",
                     unknown ? "is not known to the builder, may need" : "needs",
                     needed == PTX_CONVERGENCE_WARP ? "warp" : "block",
                     guarded ? "has a guard" : "a branch of the text may skip it");
}

static bool statement_ok(struct asm_text *t)
{
    const struct ptx_asm_params *const p = t->p;
    const unsigned facts = t->facts;

    if (ptxb_asm_among(t->s->name, ".reg .local .shared .param"))
        return t->s->scope ||
               FAIL_NAME(t, "outside of %s would be declared again at the next use of the text",
                         "{ }");
    if (*t->s->name.at == '.')
        return ptxb_asm_among(t->s->name,
                              ".pragma .loc .branchtargets .calltargets .callprototype") ||
               FAIL_NAME(t, "does not belong into a kernel's code; %s declares",
                         "ptx_asm_module()");
    t->first = t->last = PTX_SPACE_GENERIC;
    for (struct asm_word rest = t->s->name; rest.length; rest.at++, rest.length--)
        for (unsigned k = PTX_SPACE_GLOBAL; *rest.at == '.' && k <= PTX_SPACE_CONST; k++)
            if (ptxb_asm_is(rest, ptxb_space_text(k))) {
                t->first = t->first == PTX_SPACE_GENERIC ? k : t->first;
                t->last = k;
            }
    if (ptxb_asm_is(t->s->name, "cp.async") && !ptxb_asm_is(t->s->name, "cp.async.bulk") &&
        has(t->s->name, ".L2::cache_hint"))
        return FAIL_NAME(t,
                         "can become an illegal instruction on sm_90, sm_100 and sm_103 by %s; "
                         "leave the hint out, or load with it and store to shared memory",
                         "ptxas before 13.4");
    if (facts & ASM_LEAVES)
        return FAIL_NAME(t, "leaves the text; %s does that", "ptx_return_if()");
    if (facts & ASM_BRANCH && !ptxb_asm_is(t->s->name, "brx") && !any_leads(t, t->s, NULL))
        return FAIL(t, "a branch to '%.*s' leaves the text; ptx_branch_if() and blocks do that",
                    (int)strcspn(t->s->sets.at, " ;\n"), t->s->sets.at);
    const bool read = (facts & ASM_READS && !within(t, p->reads, t->last)) ||
                      (facts & ASM_UPDATES && !within(t, p->reads, t->first));
    if (read || (facts & ASM_WRITES && !within(t, p->writes, t->first)))
        return FAIL_NAME(t, "%s memory, which .%s excludes", read ? "reads" : "writes",
                         p->pure ? "pure"
                         : read  ? "reads of the call"
                                 : "writes of the call");
    if (!memory_ok(t))
        return false;
    const char *const more = facts & (ASM_WARP | ASM_BLOCK) ? "needs other threads"
                             : facts & ASM_LANES            ? "differs between lanes"
                             : facts & ASM_EFFECT           ? "has an effect beside its results"
                                                            : NULL;
    if (p->pure && more)
        return FAIL_NAME(t, "%s, which .pure excludes", more);
    return together_ok(t);
}

// Whether each instruction is what the parameters say, and its shared memory fits.
static bool claims_hold(struct asm_text *t)
{
    struct entry *const entry = ptxb_entry(t->b);
    const struct ptx_asm_params *const p = t->p;
    const bool warps = p->divergence == PTX_DIVERGENCE_WARPS;

    t->first_name = (struct asm_word) { "{ }", 3 }; // a text of braces
    if (!count_bytes(t, NULL, t->own.shared))       // each use of a text has its own arrays
        return false;
    entry->own_shared += (uint32_t)t->own.shared;
    entry->text_shared |= t->own.shared != 0;
    for (const struct asm_statement *s = t->statements; s < t->statements + t->count; s++) {
        if (!s->name.length || s->is_label)
            continue;
        t->s = s;
        t->facts = s->facts;
        // The parameters of a function are those of its callers.
        if (t->facts & ASM_READS && has(s->name, ".param") && entry->is_function)
            t->facts |= ASM_LANES;
        if (t->facts & ASM_LANES && s->sets.length && !t->lanes &&
            (s->sets.length > 1 || *s->sets.at != '_'))
            t->lanes = s->name.at;
        if (!count_names(t) || !statement_ok(t))
            return false;
        if (*t->first_name.at == '{' || *t->first_name.at == '.')
            t->first_name = s->name;
    }
    if (p->pure && t->special)
        return FAIL(t, ".pure, and the text reads a special register; a pure text only computes "
                       "results from its operands");
    if (p->convergence != PTX_CONVERGENCE_TEXT)
        t->together = p->convergence;
    // Results are not said to be more alike than a special register that the text reads, or than
    // those of an instruction, unless threads can agree on them. Of %tid a text can compute what is
    // the same in a warp; of %laneid and %lanemask it cannot.
    const char *const own = warps ? strstr(t->lines, "%lane") : t->varying;
    const char *const name = own ? own : t->lanes;
    return !name || t->agrees || p->divergence == PTX_DIVERGENCE_ANY ||
           (warps && p->convergence >= PTX_CONVERGENCE_WARP) ||
           FAIL(t,
                ".divergence says that results %s, and the text %s %.*s, which differs between "
                "threads; leave .divergence out, or pass what ptx_tid() and its like give as an "
                "operand",
                p->divergence == PTX_DIVERGENCE_NONE ? "are the same in a block"
                : warps                              ? "are the same in a warp"
                                                     : "differ only where an operand does",
                own ? "reads" : "uses", (int)strcspn(name, " \t\r\n,;)]}/"), name);
}

// ---- texts in an entry --------------------------------------------------------------------------

const struct asm_list_row ptxb_asm_lists[ASM_LISTS] = {
    [ASM_RESULTS] = { "result", PTX_ASM_MAX_RESULTS },
    [ASM_INOUTS] = { "inout", PTX_ASM_MAX_INOUTS },
    [ASM_INPUTS] = { "in", PTX_ASM_MAX_INPUTS },
    [ASM_ADDRESSES] = { "at", PTX_ASM_MAX_ADDRESSES },
    [ASM_NAMES] = { "declares", PTX_ASM_MAX_NAMES },
};

// Counts the elements of lists. A list ends at the first that is not set.
static bool count_operands(struct asm_text *t, unsigned list, unsigned end)
{
    for (; list < end; list++)
        for (unsigned k = 0; k < ptxb_asm_lists[list].most; k++) {
            const bool set = list == ASM_RESULTS  ? t->p->result[k] != PTX_NONE
                             : list == ASM_INOUTS ? ptxb_is_given(t->p->inout[k])
                             : list == ASM_INPUTS ? ptxb_is_given(t->p->in[k])
                             : list == ASM_NAMES  ? t->names[k].name != NULL
                                                  : t->p->at[k].symbol || t->p->at[k].type ||
                                                       ptxb_is_given(t->p->at[k].base);
            if (set && t->counts[list]++ != k)
                return !ptxb_follows(t->b) &&
                       FAIL(t, ".%s[%u] was never set, and .%s[%u] is", ptxb_asm_lists[list].name,
                            t->counts[list] - 1, ptxb_asm_lists[list].name, k);
        }
    t->set = t->counts[ASM_RESULTS] + t->counts[ASM_INOUTS];
    t->operands = t->set + t->counts[ASM_INPUTS] + t->counts[ASM_ADDRESSES];
    return true;
}

static bool values_ok(struct asm_text *t)
{
    char name[16];

    for (unsigned k = 0; k < t->counts[ASM_RESULTS]; k++)
        if (!ptxb_bits(t->p->result[k]))
            return FAIL(t, ".result[%u] is %d, which is not a ptx_type", k, (int)t->p->result[k]);
    for (unsigned list = ASM_INOUTS; list <= ASM_INPUTS; list++)
        for (unsigned k = 0; k < t->counts[list]; k++) {
            const ptx_val x = list == ASM_INOUTS ? t->p->inout[k] : t->p->in[k];
            snprintf(name, sizeof name, ".%s[%u]", ptxb_asm_lists[list].name, k);
            if (!ptxb_usable(t->b, t->call, name, x))
                return false;
            if (list == ASM_INOUTS && x.kind != PTX_KIND_VARIABLE)
                return FAIL(t, "%s is not a variable; ptx_var() makes one", name);
            for (unsigned n = 0; list == ASM_INOUTS && n < k; n++)
                if (t->p->inout[n].reg == x.reg)
                    return FAIL(t, ".inout[%u] and %s are one variable", n, name);
        }
    return true;
}

static bool addresses_ok(struct asm_text *t)
{
    for (unsigned k = 0; k < t->counts[ASM_ADDRESSES]; k++) {
        const ptx_ptr at = t->p->at[k];
        const bool memory = at.space != PTX_SPACE_CONST && at.space != PTX_SPACE_PARAM;
        const bool wrote = at.readonly && memory && asm_may_touch(t->p->writes, at.space);
        if (!ptxb_pointer_ok(t->b, t->call, at))
            return false;
        if (wrote || (at.writeonly && asm_may_touch(t->p->reads, at.space)))
            return FAIL(t,
                        ".at[%u] is declared %s, and by .%s the text may %s there; say what it %s, "
                        "or pass ptx_ptr_address() as a value",
                        k, wrote ? "readonly" : "writeonly", wrote ? "writes" : "reads",
                        wrote ? "write" : "read", wrote ? "writes" : "reads");
    }
    return true;
}

static bool facts_ok(struct asm_text *t)
{
    struct ptx_asm_params *const p = t->p;

    if ((unsigned)p->reads > PTX_MEMORY_GLOBAL || (unsigned)p->writes > PTX_MEMORY_GLOBAL ||
        (unsigned)p->convergence > PTX_CONVERGENCE_BLOCK ||
        (unsigned)p->divergence > PTX_DIVERGENCE_NONE)
        return FAIL(t,
                    ".reads %d, .writes %d, .convergence %d, .divergence %d: they are ptx_memory, "
                    "ptx_convergence and ptx_divergence",
                    (int)p->reads, (int)p->writes, (int)p->convergence, (int)p->divergence);
    if (!p->pure)
        return true;
    const char *const wrong =
        p->reads > PTX_MEMORY_NONE                          ? "memory is read"
        : p->writes > PTX_MEMORY_NONE                       ? "memory is written"
        : p->convergence > PTX_CONVERGENCE_NONE             ? "other threads take part"
        : p->divergence > PTX_DIVERGENCE_OPERANDS           ? ".divergence is another than that "
                                                              "of the operands"
        : !t->counts[ASM_RESULTS] && !t->counts[ASM_INOUTS] ? "there is no result"
                                                            : NULL;
    p->reads = p->writes = PTX_MEMORY_NONE;
    p->divergence = PTX_DIVERGENCE_OPERANDS;
    return !wrong ||
           FAIL(t, ".pure, and %s; a pure text only computes results from its operands", wrong);
}

static bool version_ok(struct asm_text *t, int isa, struct ptx_target least, const char *what)
{
    char name[PTX_TARGET_NAME_SIZE];

    if (isa && !ptx_isa_exists(isa))
        return FAIL(t,
                    ".isa is %d; it is ten times major plus minor, 80 for 8.0, of a version that "
                    "exists",
                    isa);
    if (!least.sm && least.suffix)
        return FAIL(t, ".suffix is '%c' and .sm is 0; it goes with a target, 90 for sm_90a",
                    least.suffix);
    if (least.sm && !ptxb_target_isa(least) &&
        (least.sm < 0 || least.sm >= 70 || least.suffix)) // what all targets have is no error
        return FAIL(t, "there is no target %s; ptx_target_at() lists them",
                    ptx_target_name(least, name));
    return ptxb_require_target(t->b, t->call, isa, least, what);
}

static bool append(const struct asm_text *t, uint32_t opcode, ptx_val *out)
{
    ptx_builder *const b = t->b;
    const unsigned results = t->counts[ASM_RESULTS], inouts = t->counts[ASM_INOUTS];
    const unsigned addresses = t->operands - t->counts[ASM_ADDRESSES], last = t->operands + inouts;
    ptx_val in[PTX_ASM_MAX_INPUTS];

    for (unsigned k = 0; k < t->counts[ASM_INPUTS]; k++) {
        const ptx_val x = t->p->in[k];
        bool set = false; // by the text, as another operand
        for (unsigned n = 0; n < inouts; n++)
            set |= x.kind == PTX_KIND_VARIABLE && x.reg == t->p->inout[n].reg;
        in[k] = set ? ptxb_mov(b, x) : ptxb_in_register(b, x);
    }
    for (unsigned k = 0; k < results; k++)
        out[k] = ptxb_register(b, t->p->result[k]);
    const uint32_t text = ptxb_extra(b, (union extra) { .text = t->lines });
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, t->set, last + 1 - t->set);
    if (!insn)
        return false;
    for (unsigned k = 0; k < t->set; k++)
        ptxb_result(b, insn, k, k < results ? out[k] : t->p->inout[k - results]);
    for (unsigned k = 0; k < inouts; k++)
        ptxb_sets(b, t->p->inout[k].reg);
    for (unsigned k = t->set; k < addresses; k++)
        ptxb_source(b, insn, k, in[k - t->set]);
    for (unsigned k = addresses; k < t->operands; k++)
        ptxb_address(b, insn, k, t->p->at[k - addresses]);
    for (unsigned k = t->operands; k < last; k++)
        ptxb_source(b, insn, k, t->p->inout[k - t->operands]);
    ptxb_operands(&b->code[b->in_prologue], insn)[last] =
        (struct operand) { .kind = OPERAND_TEXT, .value = text };
    insn->divergence = (1 + t->p->divergence) & 15u;
    return true;
}

// Checks and appends a text; `out` gets its results, and has room for so many.
static bool emit(ptx_builder *b, const char *call, struct ptx_asm_params *p, unsigned room,
                 ptx_val *out)
{
    struct asm_text t = { .b = b, .call = call, .at = p->text, .p = p, .newest = &t.own };
    char name[OPCODE_BYTES];
    bool done = ptxb_ready(b, call) && count_operands(&t, ASM_RESULTS, ASM_NAMES) &&
                (t.counts[ASM_RESULTS] <= room ||
                 FAIL(&t,
                      room ? "%u results; ptx_asm_many() gives more than one"
                           : "%u results, and no array for them",
                      t.counts[ASM_RESULTS])) &&
                values_ok(&t) && facts_ok(&t) && addresses_ok(&t) && ptxb_read_asm(&t) &&
                claims_hold(&t);

    if (done) {
        ptxb_entry(b)->labels += t.any_numbered;
        snprintf(name, sizeof name, "%.*s", (int)t.first_name.length, t.first_name.at);
        const uint32_t opcode = ptxb_opcode(b, name);
        const struct ptx_target least = { p->sm, p->suffix };
        done = opcode && version_ok(&t, p->isa, least, b->opcodes.at[opcode].text) &&
               append(&t, opcode, out);
    }
    if (done && t.together > PTX_CONVERGENCE_NONE)
        ptxb_meet(b, t.together == PTX_CONVERGENCE_WARP ? MEET_WARP : MEET_BLOCK);
    if (t.statements)
        ptxb_resize(b, t.statements, t.bytes, 0);
    return done;
}

ptx_val ptx_asm_emit(ptx_builder *b, struct ptx_asm_params p)
{
    ptx_val out[PTX_ASM_MAX_RESULTS] = { { 0 } };

    return emit(b, "asm", &p, 1, out) ? out[0] : (ptx_val) { 0 };
}

void ptx_asm_many_emit(ptx_builder *b, ptx_val *out, struct ptx_asm_params p)
{
    ptx_val results[PTX_ASM_MAX_RESULTS] = { { 0 } };
    const bool done = emit(b, "asm_many", &p, out ? PTX_ASM_MAX_RESULTS : 0, results);

    for (unsigned k = 0; out && k < PTX_ASM_MAX_RESULTS && p.result[k] != PTX_NONE; k++)
        out[k] = done ? results[k] : (ptx_val) { 0 };
}

// ---- texts of the module ------------------------------------------------------------------------

// The lines without the indentation that all of them have.
static void put_lines(ptx_builder *b, const char *text)
{
    size_t common = SIZE_MAX, end = strlen(text);

    while (end && strchr(" \t\r\n", text[end - 1]))
        end--;
    for (size_t k = 0; k < end; k += strcspn(text + k, "\n") + 1) {
        const size_t blank = strspn(text + k, " \t\r");
        if (text[k + blank] != '\n' && blank < common)
            common = blank;
    }
    put(b, "\n");
    for (size_t k = 0; k < end; k += strcspn(text + k, "\n") + 1) {
        size_t length = strcspn(text + k, "\n");
        length = length > end - k ? end - k : length;
        while (length && strchr(" \t\r", text[k + length - 1]))
            length--;
        if (length > common)
            put_bytes(b, text + k + common, length - common);
        put(b, "\n");
    }
}

void ptx_asm_module_emit(ptx_builder *b, struct ptx_asm_module_params p)
{
    struct symbol names[PTX_ASM_MAX_NAMES + 1] = { { 0 } };
    struct asm_text t = {
        .b = b, .call = "asm_module", .at = p.text, .names = names, .newest = &t.own
    };

    if (!b || b->failed)
        return;
    for (unsigned k = 0; k < PTX_ASM_MAX_NAMES; k++)
        names[k].name = p.declares[k];
    if ((b->finished && !FAIL(&t, "the module is finished; nothing can be added")) ||
        !count_operands(&t, ASM_NAMES, ASM_LISTS))
        return;
    for (const struct symbol *symbol = names; symbol->name; symbol++) {
        if (!ptxb_valid_name(b, t.call, symbol->name) ||
            !ptxb_name_is_free(b, t.call, symbol->name))
            return;
        for (const struct symbol *other = names; other < symbol; other++)
            if (!strcmp(other->name, symbol->name))
                ptxb_fail(b, t.call, ".declares names '%.64s' twice", symbol->name);
    }
    if (b->failed || !ptxb_read_module(&t))
        return;
    p.text += strspn(p.text, "\r\n");
    t.from = p.text + strspn(p.text, " \t\r\n");
    const char *const what = ptxb_copy(b, ptxb_excerpt(&t));
    if (!what || !version_ok(&t, p.isa, (struct ptx_target) { p.sm, p.suffix }, what))
        return;
    for (struct symbol *symbol = names; symbol->name; symbol++) {
        symbol->name = ptxb_copy(b, symbol->name);
        ptxb_declare_array(b, *symbol, PTX_SPACE_GENERIC, false);
    }
    put_lines(b, p.text);
}

ptx_ptr ptx_asm_ptr(ptx_builder *b, ptx_type type, ptx_space space, const char *name)
{
    const struct symbol *symbol = NULL;

    if (!ptxb_ready(b, "asm_ptr"))
        return (ptx_ptr) { 0 };
    for (uint32_t k = 0; name && !symbol && k < b->symbols.count; k++)
        if (b->symbols.at[k].kind == SYMBOL_TEXT && !strcmp(b->symbols.at[k].name, name))
            symbol = &b->symbols.at[k];
    if (!symbol && b->lost && ptxb_follows(b))
        return (ptx_ptr) { 0 };
    if (!symbol)
        ptxb_fail(b, "asm_ptr", "no text of the module declares '%.64s'; ptx_asm_module() does",
                  name ? name : "");
    else if (!ptx_type_bytes(type))
        ptxb_fail(b, "asm_ptr", "memory does not hold elements of type %s", ptx_type_name(type));
    else if (space != PTX_SPACE_GLOBAL && space != PTX_SPACE_CONST)
        ptxb_fail(b, "asm_ptr", "the space is %s; it is global or const", ptxb_space_name(space));
    else if (symbol->function)
        ptxb_fail(b, "asm_ptr", "'%.64s' is a function, and no variable", name);
    else if (symbol->space != PTX_SPACE_GENERIC && symbol->space != space)
        ptxb_fail(b, "asm_ptr", "'%.64s' is in %s memory, and the space is %s", name,
                  ptxb_space_name(symbol->space), ptxb_space_name(space));
    if (b->failed)
        return (ptx_ptr) { 0 };
    const uint32_t number = (uint32_t)(symbol - b->symbols.at) + 1;
    ptx_ptr p = ptxb_symbol_ptr(b, number, space, space == PTX_SPACE_CONST);
    p.type = (uint8_t)type;
    return p;
}

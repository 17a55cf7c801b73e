// SPDX-License-Identifier: MIT
// PTX text in an entry and beside it.
#include "asm_text.h"
#include "print.h"

#include <stdio.h>

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
                return FAIL(t, ".%s[%u] was never set, and .%s[%u] is", ptxb_asm_lists[list].name,
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
    const unsigned last = t->operands + inouts, addresses = last - t->counts[ASM_ADDRESSES];
    ptx_val in[PTX_ASM_MAX_INOUTS + PTX_ASM_MAX_INPUTS];

    for (unsigned k = 0; k < addresses - t->set; k++) {
        const ptx_val x = k < inouts ? t->p->inout[k] : t->p->in[k - inouts];
        bool set = false; // by the text, as another operand
        for (unsigned n = 0; k >= inouts && n < inouts; n++)
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
    for (unsigned k = addresses; k < last; k++)
        ptxb_address(b, insn, k, t->p->at[k - addresses]);
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
                ptxb_check_asm(&t);

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

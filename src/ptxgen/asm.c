// SPDX-License-Identifier: MIT
// PTX text in an entry and beside it.
#include "asm_text.h"
#include "print.h"

// ---- operands -----------------------------------------------------------------------------------

// The length of a list: its elements up to the first that is not set.
static unsigned length_of(ptx_builder *b, const char *call, const char *name, const bool *set,
                          unsigned most)
{
    unsigned length = 0;

    while (length < most && set[length])
        length++;
    for (unsigned k = length; k < most; k++)
        if (set[k])
            ptxb_fail(b, call, ".%s[%u] was never set, and .%s[%u] is", name, length, name, k);
    return length;
}

static bool is_pointer(ptx_ptr p)
{
    return p.type != PTX_NONE || p.symbol || ptxb_is_given(p.base);
}

static bool count_operands(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                           struct asm_operands *o)
{
    bool set[ASM_OPERANDS];

    for (unsigned k = 0; k < PTX_ASM_MAX_RESULTS; k++)
        set[k] = p->result[k] != PTX_NONE;
    o->results = length_of(b, call, "result", set, PTX_ASM_MAX_RESULTS);
    for (unsigned k = 0; k < PTX_ASM_MAX_INOUTS; k++)
        set[k] = ptxb_is_given(p->inout[k]);
    o->inouts = length_of(b, call, "inout", set, PTX_ASM_MAX_INOUTS);
    for (unsigned k = 0; k < PTX_ASM_MAX_INPUTS; k++)
        set[k] = ptxb_is_given(p->in[k]);
    o->inputs = length_of(b, call, "in", set, PTX_ASM_MAX_INPUTS);
    for (unsigned k = 0; k < PTX_ASM_MAX_ADDRESSES; k++)
        set[k] = is_pointer(p->at[k]);
    o->addresses = length_of(b, call, "at", set, PTX_ASM_MAX_ADDRESSES);
    return !b->failed;
}

static const char *element(ptx_builder *b, const char *list, unsigned k)
{
    const char *name = ptxb_format(b, ".%s[%u]", list, k);
    return name ? name : "";
}

static bool values_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                      const struct asm_operands *o)
{
    for (unsigned k = 0; k < o->results; k++)
        if (!ptxb_bits(p->result[k]))
            ptxb_fail(b, call, ".result[%u] is %d, which is not a ptx_type", k, (int)p->result[k]);
    for (unsigned k = 0; k < o->inouts && !b->failed; k++) {
        if (!ptxb_usable(b, call, element(b, "inout", k), p->inout[k]))
            return false;
        if (p->inout[k].kind != PTX_KIND_VARIABLE)
            ptxb_fail(b, call, ".inout[%u] is not a variable; ptx_var() makes one", k);
        for (unsigned n = 0; n < k; n++)
            if (p->inout[n].reg == p->inout[k].reg)
                ptxb_fail(b, call, ".inout[%u] and .inout[%u] are one variable", n, k);
    }
    for (unsigned k = 0; k < o->inputs && !b->failed; k++)
        ptxb_usable(b, call, element(b, "in", k), p->in[k]);
    return !b->failed;
}

static bool addresses_ok(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                         unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        const ptx_ptr at = p->at[k];
        if (!ptxb_pointer_ok(b, call, at))
            return false;
        const bool memory = at.space != PTX_SPACE_CONST && at.space != PTX_SPACE_PARAM;
        const bool wrote = at.readonly && memory && asm_may_touch(p->writes, at.space);
        if (!wrote && !(at.writeonly && asm_may_touch(p->reads, at.space)))
            continue;
        ptxb_fail(b, call,
                  ".at[%u] is declared %s, and by .%s the text may %s there; say what it %s, or "
                  "pass ptx_ptr_address() as a value",
                  k, wrote ? "readonly" : "writeonly", wrote ? "writes" : "reads",
                  wrote ? "write" : "read", wrote ? "writes" : "reads");
        return false;
    }
    return true;
}

// ---- what is said about a text ------------------------------------------------------------------

static bool facts_ok(ptx_builder *b, const char *call, struct ptx_asm_params *p,
                     const struct asm_operands *o)
{
    if ((unsigned)p->reads > PTX_MEMORY_GLOBAL || (unsigned)p->writes > PTX_MEMORY_GLOBAL ||
        (unsigned)p->convergence > PTX_CONVERGENCE_BLOCK ||
        (unsigned)p->divergence > PTX_DIVERGENCE_NONE) {
        ptxb_fail(b, call,
                  ".reads %d, .writes %d, .convergence %d, .divergence %d: they are ptx_memory, "
                  "ptx_convergence and ptx_divergence",
                  (int)p->reads, (int)p->writes, (int)p->convergence, (int)p->divergence);
        return false;
    }
    if (!p->pure)
        return true;
    const char *wrong = p->reads > PTX_MEMORY_NONE              ? "memory is read"
                        : p->writes > PTX_MEMORY_NONE           ? "memory is written"
                        : p->convergence > PTX_CONVERGENCE_NONE ? "other threads take part"
                        : p->divergence > PTX_DIVERGENCE_OPERANDS
                            ? ".divergence is another than that of the operands"
                        : !o->results && !o->inouts ? "there is no result"
                                                    : NULL;
    if (wrong)
        ptxb_fail(b, call, ".pure, and %s; a pure text only computes results from its operands",
                  wrong);
    p->reads = p->writes = PTX_MEMORY_NONE;
    p->divergence = PTX_DIVERGENCE_OPERANDS;
    return !wrong;
}

// ---- versions -----------------------------------------------------------------------------------

static bool version_ok(ptx_builder *b, const char *call, int isa, struct ptx_target least,
                       const char *what)
{
    char name[PTX_TARGET_NAME_SIZE];

    if (isa && !ptx_isa_exists(isa))
        ptxb_fail(b, call,
                  ".isa is %d; it is ten times major plus minor, 80 for 8.0, of a version "
                  "that exists",
                  isa);
    else if (!least.sm && least.suffix)
        ptxb_fail(b, call, ".suffix is '%c' and .sm is 0; it goes with a target, 90 for sm_90a",
                  least.suffix);
    else if (least.sm && !ptxb_target_isa(least) &&
             (least.sm < 0 || least.sm >= 70 || least.suffix)) // what all targets have is no error
        ptxb_fail(b, call, "there is no target %s; ptx_target_at() lists them",
                  ptx_target_name(least, name));
    return !b->failed && ptxb_require_target(b, call, isa, least, what);
}

// ---- the calls ----------------------------------------------------------------------------------

static uint32_t opcode_of(ptx_builder *b, struct asm_mnemonic m)
{
    char text[OPCODE_BYTES];
    const size_t length = m.length < sizeof text ? m.length : sizeof text - 1;

    memcpy(text, m.at, length);
    text[length] = 0;
    return ptxb_opcode(b, length ? text : "{ }");
}

// An input in a register that the text does not set by another operand.
static ptx_val own_register(ptx_builder *b, const struct ptx_asm_params *p, unsigned inouts,
                            ptx_val x)
{
    for (unsigned k = 0; k < inouts; k++)
        if (x.kind == PTX_KIND_VARIABLE && x.reg == p->inout[k].reg)
            return ptxb_mov(b, x);
    return ptxb_in_register(b, x);
}

static struct insn *append(ptx_builder *b, uint32_t opcode, const struct ptx_asm_params *p,
                           const struct asm_operands *o, const char *lines, ptx_val *out)
{
    const unsigned results = o->results + o->inouts, addresses = results + o->inouts + o->inputs;
    ptx_val in[PTX_ASM_MAX_INPUTS];

    for (unsigned k = 0; k < o->inputs; k++)
        in[k] = own_register(b, p, o->inouts, p->in[k]);
    for (unsigned k = 0; k < o->results; k++)
        out[k] = ptxb_register(b, p->result[k]);
    const uint32_t text = ptxb_extra(b, (union extra) { .text = lines });
    struct insn *insn =
        ptxb_append(b, INSN_PLAIN, opcode, results, addresses - results + o->addresses + 1);
    if (!insn)
        return NULL;
    for (unsigned k = 0; k < o->results; k++)
        ptxb_result(b, insn, k, out[k]);
    for (unsigned k = 0; k < o->inouts; k++) {
        ptxb_result(b, insn, o->results + k, p->inout[k]);
        ptxb_source(b, insn, results + k, p->inout[k]);
    }
    for (unsigned k = 0; k < o->inputs; k++)
        ptxb_source(b, insn, results + o->inouts + k, in[k]);
    for (unsigned k = 0; k < o->addresses; k++)
        ptxb_address(b, insn, addresses + k, p->at[k]);
    ptxb_operands(&b->code[b->in_prologue], insn)[addresses + o->addresses] =
        (struct operand) { .kind = OPERAND_TEXT, .value = text };
    insn->divergence = (1 + p->divergence) & 15u;
    return insn;
}

// Checks and appends a text; `out` gets its results, and has room for so many.
static bool emit(ptx_builder *b, const char *call, struct ptx_asm_params *p, unsigned room,
                 ptx_val *out)
{
    struct asm_operands o;
    struct asm_text text;
    struct asm_mnemonic first;
    ptx_convergence together;

    if (!ptxb_ready(b, call) || !count_operands(b, call, p, &o))
        return false;
    if (o.results > room)
        ptxb_fail(b, call,
                  room ? "%u results; ptx_asm_many() gives more than one"
                       : "%u results, and no array for them",
                  o.results);
    if (b->failed || !values_ok(b, call, p, &o) || !facts_ok(b, call, p, &o) ||
        !addresses_ok(b, call, p, o.addresses) ||
        !ptxb_read_asm(b, call, p->text, ptxb_entry(b)->labels + 1, &o, &text) ||
        !ptxb_check_asm(b, call, p, &o, &text, &first, &together))
        return false;
    ptxb_entry(b)->labels += text.numbered;
    const uint32_t opcode = opcode_of(b, first);
    if (!opcode || !version_ok(b, call, p->isa, (struct ptx_target) { p->sm, p->suffix },
                               b->opcodes.at[opcode].text))
        return false;
    if (!append(b, opcode, p, &o, text.lines, out))
        return false;
    if (together > PTX_CONVERGENCE_NONE)
        ptxb_meet(b, together == PTX_CONVERGENCE_WARP ? MEET_WARP : MEET_BLOCK);
    return true;
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

static bool names_ok(ptx_builder *b, const struct ptx_asm_module_params *p, unsigned *count)
{
    bool set[PTX_ASM_MAX_NAMES];

    for (unsigned k = 0; k < PTX_ASM_MAX_NAMES; k++)
        set[k] = p->declares[k];
    *count = length_of(b, "asm_module", "declares", set, PTX_ASM_MAX_NAMES);
    for (unsigned k = 0; k < *count && !b->failed; k++) {
        if (!ptxb_valid_name(b, "asm_module", p->declares[k]) ||
            !ptxb_name_is_free(b, "asm_module", p->declares[k]))
            return false;
        for (unsigned n = 0; n < k; n++)
            if (!strcmp(p->declares[n], p->declares[k]))
                ptxb_fail(b, "asm_module", ".declares names '%.64s' twice", p->declares[k]);
    }
    return !b->failed;
}

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
    struct asm_name names[PTX_ASM_MAX_NAMES] = { { 0 } };
    char excerpt[ASM_EXCERPT];
    unsigned count;

    if (!b || b->failed)
        return;
    if (b->finished) {
        ptxb_fail(b, "asm_module", "the module is finished; nothing can be added");
        return;
    }
    if (!names_ok(b, &p, &count) || !ptxb_check_module_text(b, p.text, p.declares, count, names))
        return;
    p.text += strspn(p.text, "\r\n");
    const char *what = ptxb_copy(b, ptxb_asm_excerpt(p.text + strspn(p.text, " \t\r\n"), excerpt));
    if (!what || !version_ok(b, "asm_module", p.isa, (struct ptx_target) { p.sm, p.suffix }, what))
        return;
    for (unsigned k = 0; k < count; k++) {
        const struct symbol symbol = { .name = ptxb_copy(b, p.declares[k]),
                                       .kind = SYMBOL_TEXT,
                                       .space = names[k].space,
                                       .function = names[k].function,
                                       .shared = names[k].shared };
        ptxb_declare_array(b, symbol, PTX_SPACE_GENERIC, false);
    }
    put_lines(b, p.text);
}

ptx_ptr ptx_asm_ptr(ptx_builder *b, ptx_type type, ptx_space space, const char *name)
{
    uint32_t number = 0;

    if (!ptxb_ready(b, "asm_ptr"))
        return (ptx_ptr) { 0 };
    for (uint32_t k = 0; name && k < b->symbols.count; k++)
        if (b->symbols.at[k].kind == SYMBOL_TEXT && !strcmp(b->symbols.at[k].name, name))
            number = k + 1;
    if (!number)
        ptxb_fail(b, "asm_ptr", "no text of the module declares '%.64s'; ptx_asm_module() does",
                  name ? name : "");
    else if (!ptx_type_bytes(type))
        ptxb_fail(b, "asm_ptr", "memory does not hold elements of type %s", ptx_type_name(type));
    else if (space != PTX_SPACE_GLOBAL && space != PTX_SPACE_CONST)
        ptxb_fail(b, "asm_ptr", "the space is %s; it is global or const", ptxb_space_name(space));
    else if (b->symbols.at[number - 1].function)
        ptxb_fail(b, "asm_ptr", "'%.64s' is a function, and no variable", name);
    else if (b->symbols.at[number - 1].space != PTX_SPACE_GENERIC &&
             b->symbols.at[number - 1].space != space)
        ptxb_fail(b, "asm_ptr", "'%.64s' is in %s memory, and the space is %s", name,
                  ptxb_space_name(b->symbols.at[number - 1].space), ptxb_space_name(space));
    if (b->failed)
        return (ptx_ptr) { 0 };
    ptx_ptr p = ptxb_symbol_ptr(b, number, space, space == PTX_SPACE_CONST);
    p.type = (uint8_t)type;
    return p;
}

// ---- printing -----------------------------------------------------------------------------------

void ptxb_print_asm(ptx_builder *b, const struct insn *insn, const struct operand *operands)
{
    const char *at = b->extras.at[operands[insn->operand_count - 1].value].text;
    uint32_t start = 0;

    while (*at && !b->failed) {
        if (*at != ASM_LABEL) {
            ptxb_put_indent(b, insn->depth);
            ptxb_put_indent(b, (unsigned)(*at - '0'));
        }
        start = b->text.count;
        for (at++; *at != '\n'; at++) {
            const unsigned char c = (unsigned char)*at;
            const bool column = c == ASM_COLUMN || c == ASM_READ;
            char *end = column ? text_end(b, OPERAND_COLUMN + 1) : NULL;
            if (c >= ASM_OPERAND)
                ptxb_put_bare(b, &operands[c - ASM_OPERAND]);
            else if (!column)
                put_bytes(b, at, 1);
            else if (end)
                set_end(b, write_to_column(end, b->text.at + start, OPERAND_COLUMN));
        }
        put_bytes(b, at++, 1);
    }
}

// SPDX-License-Identifier: MIT
// Checks and layout that need the whole module: calls, and shared memory.
#include "link.h"

#include "type.h"

#include <string.h>

// Limit of steps through the call graph, from all entries together. Real modules need a small part
// of it.
enum { MOST_STEPS = 1 << 25 };

// ---- calls --------------------------------------------------------------------------------------

static bool same_width(const struct emu_function *caller, const struct emu_operand *operand,
                       const struct emu_function *called, uint32_t formal)
{
    const enum emu_type wanted = (enum emu_type)called->registers[formal].type;

    if (operand->kind != EMU_OPERAND_REGISTER)
        return wanted != EMU_PRED; // a constant has been given the type
    return emu_bits((enum emu_type)caller->registers[operand->index].type) == emu_bits(wanted);
}

static bool call_agrees(const struct emu_function *caller, const struct emu_insn *insn,
                        const struct emu_function *called)
{
    const uint32_t arguments = insn->src_count - (insn->mode == EMU_MODE_INDIRECT ? 1u : 0u);

    if (insn->dst_count != called->result_count || arguments != called->argument_count)
        return false;
    if (insn->dst_count + insn->src_count == 0)
        return true;
    struct emu_operand *operands = &caller->operands[insn->operands];
    for (uint32_t k = 0; k < insn->dst_count; k++)
        if (operands[k].kind != EMU_OPERAND_SINK &&
            !same_width(caller, &operands[k], called, called->results[k]))
            return false;
    for (uint32_t k = 0; k < arguments; k++) {
        struct emu_operand *operand = &operands[insn->dst_count + k];
        if (!same_width(caller, operand, called, called->arguments[k]))
            return false;
        const enum emu_type type = (enum emu_type)called->registers[called->arguments[k]].type;
        if (operand->kind == EMU_OPERAND_IMMEDIATE)
            operand->bits &= UINT64_MAX >> (64 - emu_bits(type));
    }
    return true;
}

// Calls of an alias become calls of the function.
static bool resolve_aliases(struct emu_parser *p)
{
    struct emu_function *functions = p->module->functions;

    for (uint32_t k = 0; k < p->alias_count; k++) {
        const struct emu_alias *a = &p->aliases[k];
        if (functions[a->alias].insn_count)
            return emu_error(p, &a->at, "'%.64s' is defined and cannot be an alias",
                             functions[a->alias].name);
        if (!functions[a->function].insn_count)
            return emu_error(p, &a->at, "'%.64s' is not defined and cannot have an alias",
                             functions[a->function].name);
        for (uint32_t f = 0; f < p->module->function_count; f++)
            for (uint32_t i = 0; i < functions[f].insn_count; i++)
                if (*functions[f].insns[i].letters == 'c' &&
                    functions[f].insns[i].target == a->alias)
                    functions[f].insns[i].target = a->function;
        for (uint32_t f = 0; f < p->module->function_count; f++)
            for (uint32_t i = 0; i < functions[f].operand_count; i++)
                if (functions[f].operands[i].kind == EMU_OPERAND_FUNCTION &&
                    functions[f].operands[i].index == a->alias)
                    functions[f].operands[i].index = a->function;
        for (uint32_t r = 0; r < p->module->relocation_count; r++)
            if (p->module->relocations[r].is_function &&
                p->module->relocations[r].target == a->alias)
                p->module->relocations[r].target = a->function;
        for (uint32_t r = 0; r < p->reference_count; r++)
            if (p->references[r].is_call && p->references[r].index == a->alias)
                p->references[r].index = a->function;
    }
    return true;
}

static bool check_calls(struct emu_parser *p)
{
    const struct emu_module *module = p->module;

    for (uint32_t f = 0; f < module->function_count; f++) {
        const struct emu_function *caller = &module->functions[f];
        for (uint32_t k = 0; k < caller->insn_count; k++) {
            const struct emu_insn *insn = &caller->insns[k];
            const struct emu_token at = { .line = insn->line, .column = 1 };
            if (*insn->letters != 'c')
                continue;
            const struct emu_function *called = &module->functions[insn->target];
            if (!call_agrees(caller, insn, called))
                return emu_error(p, &at,
                                 "Arguments of the call do not match the parameters of '%.64s'",
                                 called->name);
        }
    }
    return true;
}

static bool have_sizes(const struct emu_function *f, const uint32_t *registers, uint32_t count,
                       const char *sizes)
{
    if (count != strlen(sizes))
        return false;
    for (uint32_t k = 0; k < count; k++)
        if (emu_bits((enum emu_type)f->registers[registers[k]].type) !=
            8 * (unsigned)(sizes[k] - '0'))
            return false;
    return true;
}

// (.b32) vprintf(format, arguments); __assertfail(message, file, line, function, size of a
// character); (.b64) malloc(bytes); free(address). Digits are the sizes in bytes.
static void find_system_function(struct emu_function *f)
{
    static const struct {
        const char *name, *arguments, *results;
        uint8_t system;
    } known[] = { { "vprintf", "88", "4", EMU_SYSTEM_VPRINTF },
                  { "__assertfail", "88488", "", EMU_SYSTEM_ASSERTFAIL },
                  { "malloc", "8", "8", EMU_SYSTEM_MALLOC },
                  { "free", "8", "", EMU_SYSTEM_FREE } };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (strcmp(f->name, known[k].name) == 0 &&
            have_sizes(f, f->arguments, f->argument_count, known[k].arguments) &&
            have_sizes(f, f->results, f->result_count, known[k].results))
            f->system = known[k].system;
    }
}

static bool check_references(struct emu_parser *p)
{
    for (uint32_t f = 0; f < p->module->function_count; f++)
        if (!p->module->functions[f].insn_count)
            find_system_function(&p->module->functions[f]);
    for (uint32_t k = 0; k < p->reference_count; k++) {
        const struct emu_reference *r = &p->references[k];
        if (r->is_call && !p->module->functions[r->index].insn_count &&
            !p->module->functions[r->index].system)
            emu_error(p, &r->at, "Unresolved extern function '%.*s'", EMU_TEXT(&r->at));
        if (!r->is_call && p->module->symbols[r->index].is_extern &&
            p->module->symbols[r->index].space != EMU_SHARED)
            emu_error(p, &r->at, "Unresolved extern variable '%.*s'", EMU_TEXT(&r->at));
    }
    for (uint32_t k = 0; k < p->module->relocation_count; k++) {
        const uint32_t target = p->module->relocations[k].target;
        if (p->module->relocations[k].is_function) {
            const struct emu_function *f = &p->module->functions[target];
            if (!f->insn_count && !f->system)
                emu_error(p, &p->token, "Unresolved extern function '%.64s'", f->name);
        } else if (p->module->symbols[target].is_extern) {
            emu_error(p, &p->token, "Unresolved extern variable '%.64s'",
                      p->module->symbols[target].name);
        }
    }
    return p->errors == 0;
}

// Finds the functions whose address some text uses, and those that call by address. Gives the
// functions addresses if they need any.
static void place_functions(struct emu_module *module)
{
    bool any = false;

    for (uint32_t n = 0; n < module->function_count; n++) {
        struct emu_function *f = &module->functions[n];
        for (uint32_t k = 0; k < f->operand_count; k++)
            if (f->operands[k].kind == EMU_OPERAND_FUNCTION)
                any = module->functions[f->operands[k].index].has_address = true;
        for (uint32_t k = 0; k < f->insn_count; k++)
            f->calls_by_address = f->calls_by_address || (*f->insns[k].letters == 'c' &&
                                                          f->insns[k].mode == EMU_MODE_INDIRECT);
    }
    for (uint32_t k = 0; k < module->relocation_count; k++)
        if (module->relocations[k].is_function)
            any = module->functions[module->relocations[k].target].has_address = true;
    if (!any)
        return;
    module->code_at =
        (module->global_bytes + EMU_FUNCTION_STEP - 1) / EMU_FUNCTION_STEP * EMU_FUNCTION_STEP;
    module->global_bytes = emu_function_offset(module, module->function_count);
}

// ---- shared memory ------------------------------------------------------------------------------

// References by function, and what each entry reaches.
struct reach {
    struct emu_parser *p;
    uint32_t *first;  // first reference of each function in `sorted`; one more at the end
    uint32_t *sorted; // numbers of references
    uint32_t *seen;   // 1 + latest entry that reached the function
    uint32_t *stack;
    uint32_t *marked; // 1 + latest entry that reached the symbol
    uint32_t *owner;  // for each symbol: 0, 1 + the only entry that reaches it, or one of these:
    uint64_t *end;    // for each entry: shared bytes so far
    uint64_t common_end;
    uint32_t steps;
    uint32_t by_address; // 1 + latest entry that reached a call by address
};

static const uint32_t OWNED_BY_SEVERAL = UINT32_MAX, PLACED = UINT32_MAX - 1;

static bool sort_references(struct reach *r)
{
    struct emu_parser *p = r->p;
    const uint32_t functions = p->module->function_count;
    const size_t word = sizeof(uint32_t);

    r->first = emu_arena_alloc(p->arena, (functions + (size_t)2) * word);
    r->sorted = emu_arena_alloc(p->arena, (p->reference_count + (size_t)1) * word);
    r->seen = emu_arena_alloc(p->arena, (functions + (size_t)1) * word);
    r->stack = emu_arena_alloc(p->arena, (functions + (size_t)1) * word);
    r->marked = emu_arena_alloc(p->arena, (p->module->symbol_count + (size_t)1) * word);
    r->owner = emu_arena_alloc(p->arena, (p->module->symbol_count + (size_t)1) * word);
    r->end = emu_arena_alloc(p->arena, (functions + (size_t)1) * sizeof(uint64_t));
    if (!r->first || !r->sorted || !r->seen || !r->stack || !r->marked || !r->owner || !r->end)
        return emu_out_of_memory(p);
    for (uint32_t k = 0; k < p->reference_count; k++)
        r->first[p->references[k].function + 2]++;
    for (uint32_t f = 0; f < functions; f++)
        r->first[f + 2] += r->first[f + 1];
    for (uint32_t k = 0; k < p->reference_count; k++)
        r->sorted[r->first[p->references[k].function + 1]++] = k;
    return true;
}

typedef bool visit(struct reach *r, uint32_t entry, struct emu_symbol *symbol);

// A call by address reaches every function that has one.
static void reach_by_address(struct reach *r, uint32_t entry, uint32_t *depth)
{
    const struct emu_module *module = r->p->module;

    if (r->by_address == entry + 1)
        return;
    r->by_address = entry + 1;
    for (uint32_t f = 0; f < module->function_count; f++)
        if (module->functions[f].has_address && r->seen[f] != entry + 1) {
            r->seen[f] = entry + 1;
            r->stack[(*depth)++] = f;
        }
}

// Visits each shared variable that the entry, or a function that it calls, names.
static bool visit_entry(struct reach *r, uint32_t entry, visit *visitor)
{
    struct emu_module *module = r->p->module;
    uint32_t depth = 0;

    r->stack[depth++] = entry;
    r->seen[entry] = entry + 1;
    while (depth) {
        const uint32_t f = r->stack[--depth];
        if (module->functions[f].calls_by_address)
            reach_by_address(r, entry, &depth);
        for (uint32_t k = r->first[f]; k < r->first[f + 1]; k++) {
            if (r->steps++ == MOST_STEPS)
                return emu_error(r->p, &r->p->token,
                                 "Too many calls from too many entries for the emulator");
            const struct emu_reference *reference = &r->p->references[r->sorted[k]];
            const uint32_t index = reference->index;
            if (reference->is_call && r->seen[index] != entry + 1) {
                r->seen[index] = entry + 1;
                r->stack[depth++] = index;
            }
            if (reference->is_call || module->symbols[index].space != EMU_SHARED ||
                module->symbols[index].is_extern || r->marked[index] == entry + 1)
                continue;
            r->marked[index] = entry + 1;
            if (!visitor(r, entry, &module->symbols[index]))
                return false;
        }
    }
    return true;
}

static bool note_owner(struct reach *r, uint32_t entry, struct emu_symbol *symbol)
{
    uint32_t *owner = &r->owner[symbol - r->p->module->symbols];

    *owner = *owner ? OWNED_BY_SEVERAL : entry + 1;
    return true;
}

static bool place(struct reach *r, uint32_t entry, struct emu_symbol *symbol, uint64_t *end)
{
    const struct emu_token at = { .line = 1, .column = 1 };
    const uint64_t offset = (*end + symbol->align - 1) / symbol->align * symbol->align;

    if (symbol->bytes > EMU_SHARED_DEFAULT || offset + symbol->bytes > EMU_SHARED_DEFAULT)
        return emu_error(r->p, &at,
                         "Entry function '%.64s' uses too much shared data (more than 0x%x bytes)",
                         r->p->module->functions[entry].name, EMU_SHARED_DEFAULT);
    symbol->offset = offset;
    *end = offset + symbol->bytes;
    return true;
}

// A variable that several entries reach has the same address in all of them, next to others of this
// kind.
static bool place_common(struct reach *r, uint32_t entry, struct emu_symbol *symbol)
{
    uint32_t *owner = &r->owner[symbol - r->p->module->symbols];

    if (*owner == OWNED_BY_SEVERAL) {
        if (!place(r, entry, symbol, &r->common_end))
            return false;
        *owner = PLACED;
    }
    if (*owner == PLACED && symbol->offset + symbol->bytes > r->end[entry])
        r->end[entry] = symbol->offset + symbol->bytes;
    return true;
}

static bool place_own(struct reach *r, uint32_t entry, struct emu_symbol *symbol)
{
    return r->owner[symbol - r->p->module->symbols] == PLACED ||
           place(r, entry, symbol, &r->end[entry]);
}

static bool each_entry(struct reach *r, visit *visitor)
{
    const struct emu_module *module = r->p->module;

    memset(r->seen, 0, module->function_count * sizeof *r->seen);
    memset(r->marked, 0, module->symbol_count * sizeof *r->marked);
    r->by_address = 0;
    for (uint32_t f = 0; f < module->function_count; f++)
        if (module->functions[f].is_entry && !visit_entry(r, f, visitor))
            return false;
    return true;
}

static bool lay_out_shared(struct emu_parser *p)
{
    struct reach r = { .p = p };

    if (!sort_references(&r) || !each_entry(&r, note_owner) || !each_entry(&r, place_common) ||
        !each_entry(&r, place_own))
        return false;
    for (uint32_t f = 0; f < p->module->function_count; f++)
        p->module->functions[f].shared_bytes = (uint32_t)r.end[f];
    return true;
}

bool emu_link(struct emu_parser *p)
{
    if (p->module->const_bytes > EMU_MAX_CONST)
        return emu_error(p, &p->token,
                         "The module has too much constant data (0x%llx bytes, 0x%x max)",
                         (unsigned long long)p->module->const_bytes, EMU_MAX_CONST);
    if (!resolve_aliases(p) || !check_calls(p))
        return false;
    if (p->limits->partial)
        return true;
    place_functions(p->module);
    return check_references(p) && lay_out_shared(p);
}

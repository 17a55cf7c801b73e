// SPDX-License-Identifier: MIT
// Functions: heads, statements, scopes, labels.
#include "function.h"

#include "body.h"
#include "directive.h"
#include "expression.h"
#include "instruction.h"
#include "names.h"
#include "variable.h"

#include <string.h>

// ---- labels -------------------------------------------------------------------------------------

// Resolves branches of the innermost scope, and of scopes closed in it, to labels of this scope.
static void resolve_labels(struct emu_parser *p)
{
    struct emu_body *body = p->body;
    struct emu_function *f = &p->module->functions[body->function];
    uint32_t kept = body->scope_uses[p->names.depth];

    for (uint32_t k = kept; k < body->use_count; k++) {
        const struct emu_label_use use = body->uses[k];
        const struct emu_name *label = emu_find_label(p, use.at, use.length);
        if (!label || label->depth != p->names.depth)
            body->uses[kept++] = use;
        else if (use.listed && use.insn < f->target_count)
            f->targets[use.insn] = label->index;
        else if (!use.listed && use.insn < f->insn_count)
            f->insns[use.insn].target = label->index;
    }
    body->use_count = kept;
}

static void report_unresolved(struct emu_parser *p)
{
    for (uint32_t k = 0; k < p->body->use_count; k++) {
        const struct emu_label_use *use = &p->body->uses[k];
        const struct emu_token at = {
            .at = use->at, .length = use->length, .line = use->line, .column = use->column
        };
        emu_error(p, &at, "Unknown symbol '%.*s'", EMU_TEXT(&at));
    }
}

// name: .branchtargets A, B;
static bool parse_targets(struct emu_parser *p, const struct emu_token *name)
{
    struct emu_function *f = &p->module->functions[p->body->function];
    const uint32_t first = f->target_count;
    struct emu_token label;

    do {
        if (!emu_parse_name(p, &label) || !emu_use_label(p, &label, true) ||
            !emu_push(p, &f->targets, &f->target_count, &p->body->target_capacity,
                      sizeof *f->targets))
            return false;
    } while (emu_take(p, ','));
    struct emu_name *list = emu_declare(p, name, EMU_NAME_TARGETS, first);
    if (list)
        list->count = f->target_count - first;
    return list && emu_expect(p, ';');
}

static bool add_index(struct emu_parser *p, uint32_t **list, uint32_t *count, uint32_t *capacity,
                      uint32_t index)
{
    uint32_t *added = emu_push(p, list, count, capacity, sizeof *added);

    if (added)
        *added = index;
    return added != NULL;
}

static bool parse_number(struct emu_parser *p, uint32_t *number)
{
    uint64_t count = 0;

    if (!emu_parse_count(p, 1, UINT32_MAX, &count))
        return false;
    *number = (uint32_t)count;
    return true;
}

// ---- prototypes of calls ------------------------------------------------------------------------

static bool parse_param(struct emu_parser *p, struct emu_declaration *d);

// Adds a parameter to the function `index`, which has no body: registers without names.
static bool add_formal(struct emu_parser *p, uint32_t index, bool result, uint32_t capacity[2])
{
    struct emu_declaration d;

    if (!parse_param(p, &d))
        return false;
    uint8_t type;
    const uint64_t count = emu_formal_registers(&d, &type);
    for (uint64_t k = 0; k < count; k++) {
        struct emu_function *f = &p->module->functions[index];
        struct emu_register *r =
            emu_push(p, &f->registers, &f->register_count, &capacity[0], sizeof *r);
        if (!r)
            return false;
        *r = (struct emu_register) { .name = "_", .type = type, .follows = k > 0 };
        if (!add_index(p, result ? &f->results : &f->arguments,
                       result ? &f->result_count : &f->argument_count, &capacity[1],
                       f->register_count - 1))
            return false;
        if (k == EMU_MAX_OPERANDS)
            return emu_error(p, &d.name,
                             "Calls with more than %d parameters are not supported by the emulator",
                             (int)EMU_MAX_OPERANDS);
    }
    return true;
}

static bool parse_formals(struct emu_parser *p, uint32_t index, bool result)
{
    uint32_t capacity[2] = { p->module->functions[index].register_count, 0 };

    if (!emu_take(p, '(') || emu_take(p, ')'))
        return true;
    do {
        if (!add_formal(p, index, result, capacity))
            return false;
    } while (emu_take(p, ','));
    return emu_expect(p, ')');
}

// Takes the directive if it is next, and checks the version that it needs.
static bool parse_promise(struct emu_parser *p, const char *name, int isa)
{
    const struct emu_token at = p->token;

    return !emu_take_dot(p, name) || p->module->isa >= isa ||
           emu_error(p, &at, "Feature '.%s' requires PTX ISA .version %d.%d or later", name,
                     isa / 10, isa % 10);
}

// .abi_preserve 8: how many registers a call leaves as they are, which are those of ptxas. `found`
// is false if no such directive is next.
static bool parse_preserved(struct emu_parser *p, bool *found)
{
    static const char *const names[] = { "abi_preserve", "abi_preserve_control" };
    uint64_t ignored;

    for (unsigned k = 0; k < sizeof names / sizeof *names; k++)
        if (emu_token_is_dot(&p->token, names[k])) {
            *found = true;
            return parse_promise(p, names[k], 90) && emu_parse_count(p, 0, UINT32_MAX, &ignored);
        }
    *found = false;
    return true;
}

// name: .callprototype (results) _ (parameters); It becomes a function without a body.
static bool parse_prototype(struct emu_parser *p, const struct emu_token *name)
{
    const uint32_t index = p->module->function_count;
    bool more = true;
    struct emu_token blank;

    struct emu_function *f = emu_push(p, &p->module->functions, &p->module->function_count,
                                      &p->function_capacity, sizeof *f);
    if (!f)
        return false;
    memset(f, 0, sizeof *f);
    f->name = ".callprototype";
    if (!parse_formals(p, index, true))
        return false;
    if (!emu_parse_name(p, &blank))
        return false;
    if (blank.length != 1 || *blank.at != '_')
        return emu_error(p, &blank, "Parsing error near '%.*s': syntax error", EMU_TEXT(&blank));
    if (!parse_formals(p, index, false))
        return false;
    if (!parse_promise(p, "noreturn", 64))
        return false;
    while (more)
        if (!parse_preserved(p, &more))
            return false;
    return emu_declare(p, name, EMU_NAME_PROTOTYPE, index) && emu_expect(p, ';');
}

// name: .calltargets f, g; All have the same parameters, so the first stands for them.
static bool parse_calltargets(struct emu_parser *p, const struct emu_token *name)
{
    struct emu_token at;
    uint32_t first = UINT32_MAX;

    do {
        if (!emu_parse_name(p, &at))
            return false;
        const struct emu_name *function = emu_find(p, &at);
        if (!function || function->kind != EMU_NAME_FUNCTION)
            return emu_error(p, &at, "Unknown symbol '%.*s'", EMU_TEXT(&at));
        if (p->module->functions[function->index].is_entry)
            return emu_error(p, &at, "An .entry cannot be called");
        first = first == UINT32_MAX ? function->index : first;
        if (!emu_refer(p, function->index, true, &at))
            return false;
    } while (emu_take(p, ','));
    return emu_declare(p, name, EMU_NAME_PROTOTYPE, first) && emu_expect(p, ';');
}

static bool parse_label(struct emu_parser *p)
{
    struct emu_token name;
    const uint32_t here = p->module->functions[p->body->function].insn_count;

    if (!emu_parse_name(p, &name) || !emu_expect(p, ':'))
        return false;
    if (emu_take_dot(p, "branchtargets"))
        return parse_targets(p, &name);
    if (emu_take_dot(p, "callprototype"))
        return parse_prototype(p, &name);
    if (emu_take_dot(p, "calltargets"))
        return parse_calltargets(p, &name);
    if (p->token.kind == EMU_TOKEN_DOT && !emu_token_is_dot(&p->token, "loc") &&
        !emu_token_is_dot(&p->token, "pragma") && !emu_token_is_dot(&p->token, "reg"))
        return emu_error(p, &p->token, "'.%.*s' is not supported by the emulator",
                         EMU_TEXT(&p->token));
    return emu_declare(p, &name, EMU_NAME_LABEL, here) != NULL;
}

// ---- statements ---------------------------------------------------------------------------------

static bool parse_directive(struct emu_parser *p)
{
    static const char *const spaces[] = { "reg", "shared", "local", "const", "global", "param" };
    bool found;

    if (!emu_parse_ignored(p, &found))
        return false;
    if (found)
        return true;
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (emu_token_is_dot(&p->token, spaces[k]))
            return emu_parse_variables(p, false) && emu_expect(p, ';');
    return emu_error(p, &p->token, "'.%.*s' is not supported by the emulator here",
                     EMU_TEXT(&p->token));
}

static bool parse_statement(struct emu_parser *p)
{
    if (p->token.kind == EMU_TOKEN_DOT)
        return parse_directive(p);
    if (p->token.kind == EMU_TOKEN_NAME) {
        const struct emu_token next = emu_peek(p);
        if (emu_token_is(&next, ':'))
            return parse_label(p);
    } else if (!emu_token_is(&p->token, '@')) {
        return emu_syntax_error(p);
    }
    return emu_parse_instruction(p) && emu_expect(p, ';');
}

// Control never runs past the end, because a return is added.
static bool close_function(struct emu_parser *p, uint32_t line)
{
    const struct emu_insn ret = {
        .letters = "=", .opcode = EMU_OP_RET, .guard = EMU_NO_REGISTER, .line = line
    };

    return emu_append(p, &ret, NULL) && emu_copy_params(p);
}

static bool parse_body(struct emu_parser *p)
{
    const unsigned outermost = p->names.depth;

    if (!emu_leave_location(p))
        return false;
    emu_next(p);
    for (;;) {
        const struct emu_token at = p->token;
        if (emu_ended(p))
            return emu_syntax_error(p);
        if (emu_take(p, '{')) {
            if (!emu_scope_open(p))
                return false;
        } else if (emu_token_is(&at, '}')) {
            resolve_labels(p);
            if (p->names.depth == outermost) {
                report_unresolved(p);
                const bool closed = close_function(p, at.line);
                emu_next(p);
                return closed;
            }
            emu_scope_close(p);
            emu_next(p);
        } else if (!parse_statement(p)) {
            emu_skip_statement(p);
        }
    }
}

// ---- heads --------------------------------------------------------------------------------------

static bool parse_param(struct emu_parser *p, struct emu_declaration *d)
{
    memset(d, 0, sizeof *d);
    d->space = EMU_PARAM;
    if (emu_take_dot(p, "reg"))
        d->is_reg = true;
    else if (!emu_take_dot(p, "param"))
        return emu_syntax_error(p);
    if (!emu_parse_declaration(p, d) || !emu_parse_declarator(p, d))
        return false;
    // ptxas 13.0 passes 8 bits of them.
    if (d->is_reg && d->type == EMU_B128)
        return emu_error(p, &d->name,
                         "Parameter '%.*s', a register of 128 bits, is not supported by the "
                         "emulator",
                         EMU_TEXT(&d->name));
    if (!d->is_reg && d->dimensions && !d->extents[0])
        return emu_error(p, &d->name, "The extent of parameter '%.*s' is missing",
                         EMU_TEXT(&d->name));
    return true;
}

// The first of the registers of one parameter of a .func, which are made. EMU_NO_REGISTER:
// reported.
static uint32_t make_registers(struct emu_parser *p, const struct emu_declaration *d, bool result)
{
    struct emu_param_registers param;

    if (d->is_reg) {
        const struct emu_name *name = emu_declare_register(p, d);
        return !name                           ? EMU_NO_REGISTER
               : name->kind == EMU_NAME_VECTOR ? name->elements[0].index
                                               : name->index;
    }
    return emu_declare_param(p, d, result ? EMU_PARAM_RESULT : EMU_PARAM_INPUT, &param)
               ? param.first
               : EMU_NO_REGISTER;
}

static bool add_func_param(struct emu_parser *p, const struct emu_declaration *d, bool result,
                           uint32_t *capacity)
{
    uint8_t type;
    const uint64_t count = emu_formal_registers(d, &type);
    const uint32_t first = make_registers(p, d, result);

    if (first == EMU_NO_REGISTER)
        return false;
    struct emu_function *f = &p->module->functions[p->body->function];
    for (uint32_t k = 0; k < count; k++) {
        f->registers[first + k].follows = k > 0;
        if (!(result ? add_index(p, &f->results, &f->result_count, capacity, first + k)
                     : add_index(p, &f->arguments, &f->argument_count, capacity, first + k)))
            return false;
    }
    return true;
}

static bool parse_params(struct emu_parser *p, bool result)
{
    struct emu_declaration d;
    uint32_t capacity = 0;

    if (!emu_take(p, '('))
        return true;
    if (emu_take(p, ')'))
        return true;
    do {
        if (!parse_param(p, &d))
            return false;
        struct emu_function *f = &p->module->functions[p->body->function];
        if (!f->is_entry) {
            if (!add_func_param(p, &d, result, &capacity))
                return false;
            continue;
        }
        if (d.is_reg)
            return emu_error(p, &d.name, "Parameters of an .entry are .param variables");
        const uint32_t symbol = emu_new_symbol(p, &d);
        if (symbol == EMU_NO_REGISTER ||
            !add_index(p, &f->params, &f->param_count, &capacity, symbol))
            return false;
    } while (emu_take(p, ','));
    return emu_expect(p, ')');
}

// More threads than a block has are no error: a launch meets its own limits.
static bool parse_shape(struct emu_parser *p, uint32_t shape[3])
{
    uint64_t extent;

    for (unsigned axis = 0; axis < 3; axis++) {
        extent = 1;
        if ((axis == 0 || emu_take(p, ',')) && !emu_parse_count(p, 1, UINT32_MAX, &extent))
            return false;
        shape[axis] = (uint32_t)extent;
    }
    return true;
}

static bool parse_cluster(struct emu_parser *p, struct emu_function *f)
{
    const struct emu_token at = p->token;
    uint32_t blocks[3];

    f->in_cluster = true;
    if (!parse_shape(p, blocks))
        return false;
    return (blocks[0] == 1 && blocks[1] == 1 && blocks[2] == 1) ||
           emu_error(p, &at,
                     "'.reqnctapercluster' of several blocks is not supported by the emulator");
}

// .maxntid and the like, between the parameters and the body.
static bool parse_tuning(struct emu_parser *p, bool *found)
{
    struct emu_function *f = &p->module->functions[p->body->function];
    uint32_t ignored;

    *found = true;
    if (emu_take_dot(p, "maxntid"))
        return parse_shape(p, f->max_block);
    if (emu_take_dot(p, "reqntid"))
        return parse_shape(p, f->required_block);
    if (emu_take_dot(p, "minnctapersm"))
        return parse_number(p, &f->min_blocks);
    if (emu_take_dot(p, "maxnreg"))
        return parse_number(p, &f->max_registers);
    if (emu_take_dot(p, "maxnctapersm") || emu_take_dot(p, "maxclusterrank"))
        return parse_number(p, &ignored);
    if (emu_take_dot(p, "explicitcluster"))
        return f->in_cluster = true;
    if (emu_take_dot(p, "reqnctapercluster"))
        return parse_cluster(p, f);
    if (emu_take_dot(p, "noreturn"))
        return true;
    if (!parse_preserved(p, found))
        return false;
    return *found || emu_parse_ignored(p, found);
}

// ---- a definition -------------------------------------------------------------------------------

// The function of that name: one that is declared and not defined yet, or a new one. That of
// another text stays what it is until settle().
static bool find_function(struct emu_parser *p, const struct emu_token *name, bool is_entry)
{
    struct emu_module *module = p->module;
    struct emu_name *before = emu_find_linked(p, name, EMU_NAME_FUNCTION);
    struct emu_function *f = NULL;

    if (before &&
        (before->defined == p->unit + 1 || module->functions[before->index].is_entry != is_entry))
        return emu_error(p, name, "Duplicate definition of function '%.*s'", EMU_TEXT(name));
    p->body->name = before;
    p->body->again = before && before->defined;
    if (before && !before->defined) {
        f = &module->functions[before->index];
        p->body->function = before->index;
    } else {
        p->body->function = module->function_count;
        if (!before)
            p->body->name = emu_declare(p, name, EMU_NAME_FUNCTION, module->function_count);
        if (!p->body->name)
            return false;
        f = emu_push(p, &module->functions, &module->function_count, &p->function_capacity,
                     sizeof *f);
        if (!f)
            return false;
    }
    memset(f, 0, sizeof *f);
    f->is_entry = is_entry;
    f->name = emu_arena_copy(p->arena, name->at, name->length);
    return f->name || emu_out_of_memory(p);
}

// The results of a .func precede its name, so the function must exist before its name is known.
static bool parse_head(struct emu_parser *p, bool is_entry)
{
    struct emu_token name;
    const struct emu_lexer lexer = p->lexer;
    const struct emu_token first = p->token;
    const bool results = emu_token_is(&first, '(');

    while (results && !emu_ended(p) && !emu_token_is(&p->token, ')'))
        emu_next(p);
    if (results && !emu_expect(p, ')'))
        return false;
    if (!emu_parse_name(p, &name) || !find_function(p, &name, is_entry) || !emu_scope_open(p))
        return false;
    const struct emu_lexer after = p->lexer;
    const struct emu_token next = p->token;
    if (results) {
        if (is_entry)
            return emu_error(p, &first, "An .entry has no results");
        p->lexer = lexer;
        p->token = first;
        if (!parse_params(p, true))
            return false;
        p->lexer = after;
        p->token = next;
    }
    return parse_params(p, false);
}

static bool parse_rest(struct emu_parser *p)
{
    for (bool found = true; found;)
        if (!parse_tuning(p, &found))
            return false;
    if (emu_take(p, ';'))
        return true;
    if (emu_token_is(&p->token, '{'))
        return parse_body(p);
    if (p->token.kind == EMU_TOKEN_DOT)
        return emu_error(p, &p->token, "'.%.*s' is not supported by the emulator",
                         EMU_TEXT(&p->token));
    return emu_syntax_error(p);
}

// What one function names is what the other names from now on.
static void swap_functions(struct emu_parser *p, uint32_t one, uint32_t other)
{
    struct emu_function *functions = p->module->functions;
    const struct emu_function kept = functions[one];

    functions[one] = functions[other];
    functions[other] = kept;
    for (uint32_t k = 0; k < p->reference_count; k++) {
        uint32_t *function = &p->references[k].function;
        *function = *function == one ? other : *function == other ? one : *function;
    }
}

// The function that was read is the definition, or one too many: a declaration of what is defined,
// or a weak definition of it. A function too many stays in the module, and nothing calls it.
static bool settle(struct emu_parser *p)
{
    struct emu_name *name = p->body->name;
    const struct emu_token at = { .at = name->at, .length = name->length, .line = p->token.line };
    struct emu_function *read = &p->module->functions[p->body->function];

    if (!read->insn_count) {
        read->is_entry = read->is_entry && !p->body->again;
        return true;
    }
    if (p->body->again && !emu_overrides(p, name)) {
        read->is_entry = false;
        return p->linkage == EMU_LINKAGE_WEAK ||
               emu_error(p, &at, "Duplicate definition of function '%.*s'", EMU_TEXT(&at));
    }
    if (p->body->again) {
        swap_functions(p, name->index, p->body->function);
        p->module->functions[p->body->function].is_entry = false;
    }
    name->defined = p->unit + 1;
    if (p->linkage != EMU_LINKAGE_STATIC)
        name->linkage = (uint8_t)p->linkage;
    return true;
}

bool emu_parse_function(struct emu_parser *p, bool is_entry)
{
    struct emu_body body;

    memset(&body, 0, sizeof body);
    p->body = &body;
    // Programs launch entries by name, .visible or not.
    if (is_entry && p->linkage == EMU_LINKAGE_STATIC)
        p->linkage = EMU_LINKAGE_VISIBLE;
    const bool parsed = parse_head(p, is_entry) && parse_rest(p);
    while (p->names.depth > 0)
        emu_scope_close(p);
    const bool settled = parsed && settle(p);
    p->body = NULL;
    return settled;
}

// SPDX-License-Identifier: MIT
// Declarations of registers, variables and parameters, and the initial values of .global and
// .const variables.
#include "variable.h"

#include "body.h"
#include "expression.h"
#include "isa.h"
#include "names.h"
#include "type.h"

#include <string.h>

enum {
    MOST_REGISTERS = 1 << 20, // registers of a range
    MOST_ALIGN = 1 << 16,
};

static const uint64_t MOST_BYTES = UINT64_C(1) << 40;

static const char *space_name(uint8_t space)
{
    static const char *const names[] = { "generic", "global", "shared", "local", "param", "const" };
    return names[space];
}

static bool parse_align(struct emu_parser *p, uint64_t *align)
{
    const struct emu_token at = p->token;

    if (!emu_parse_count(p, 1, MOST_ALIGN, align))
        return false;
    return (*align & (*align - 1)) == 0 || emu_error(p, &at, "Alignment must be a power of two");
}

static bool parse_type(struct emu_parser *p, struct emu_declaration *d)
{
    const struct emu_token at = p->token;
    const struct emu_modifier *known =
        at.kind == EMU_TOKEN_DOT ? emu_modifier_find(at.at, at.length) : NULL;

    if (emu_token_is_dot(&at, "texref") || emu_token_is_dot(&at, "samplerref") ||
        emu_token_is_dot(&at, "surfref"))
        return emu_error(p, &at, "Type '.%.*s' is not supported by the emulator", EMU_TEXT(&at));
    if (!known)
        return emu_syntax_error(p);
    emu_next(p);
    if (known->group != EMU_GROUP_INDEX_TYPE)
        return emu_error(p, &at, "Type '.%.*s' is not supported by the emulator", EMU_TEXT(&at));
    d->type = known->value;
    if (d->type == EMU_PRED && !d->is_reg)
        return emu_error(p, &at, "Predicate variable must be in register state space");
    if (d->type == EMU_B128 && p->module->isa < 83)
        return emu_error(p, &at, "Type '.b128' requires PTX ISA .version 8.3 or later");
    if (d->type == EMU_B128 && p->module->sm < 70)
        return emu_error(p, &at, "Type '.b128' requires .target sm_70 or higher");
    if (d->type == EMU_BF16 || (d->type >= EMU_BF16X2 && d->type != EMU_B128))
        return emu_error(p, &at, "Parsing error near '.%.*s': syntax error", EMU_TEXT(&at));
    return true;
}

// .ptr .global .align 4: a promise about a pointer parameter.
static bool parse_pointer(struct emu_parser *p)
{
    static const char *const spaces[] = { "global", "const", "local", "shared", "param" };
    uint64_t align;

    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (emu_take_dot(p, spaces[k]))
            break;
    return !emu_take_dot(p, "align") || parse_align(p, &align);
}

// (.managed)
static bool parse_attributes(struct emu_parser *p, struct emu_declaration *d)
{
    if (!emu_expect(p, '('))
        return false;
    do {
        const struct emu_token at = p->token;
        if (emu_token_is_dot(&at, "unified"))
            return emu_error(p, &at, "Attribute '.unified' is not supported by the emulator");
        if (!emu_take_dot(p, "managed"))
            return emu_syntax_error(p);
        if (d->space != EMU_GLOBAL)
            return emu_error(p, &at, "Illegal attribute '.managed' in this state space");
        if (p->module->isa < 40)
            return emu_error(p, &at, "Feature '.managed' requires PTX ISA .version 4.0 or later");
        d->managed = true;
    } while (emu_take(p, ','));
    return emu_expect(p, ')');
}

bool emu_parse_declaration(struct emu_parser *p, struct emu_declaration *d)
{
    d->align = d->lanes = 0;
    d->managed = false;
    for (;;) {
        if (emu_take_dot(p, "attribute")) {
            if (!parse_attributes(p, d))
                return false;
        } else if (emu_take_dot(p, "align")) {
            if (!parse_align(p, &d->align))
                return false;
        } else if (emu_token_is_dot(&p->token, "v2") || emu_token_is_dot(&p->token, "v4")) {
            d->lanes = (uint64_t)(p->token.at[1] - '0');
            emu_next(p);
        } else {
            break;
        }
    }
    if (!parse_type(p, d))
        return false;
    return d->space != EMU_PARAM || !emu_take_dot(p, "ptr") || parse_pointer(p);
}

static bool parse_extents(struct emu_parser *p, struct emu_declaration *d)
{
    d->dimensions = 0;
    while (emu_take(p, '[')) {
        if (d->dimensions == EMU_MOST_DIMENSIONS)
            return emu_error(p, &d->name, "There are too many dimensions");
        uint64_t *extent = &d->extents[d->dimensions++];
        *extent = 0;
        if (emu_take(p, ']')) {
            if (d->dimensions > 1)
                return emu_error(p, &d->name, "Only the first extent can be omitted");
            continue;
        }
        if (!emu_parse_count(p, 0, MOST_BYTES, extent) || !emu_expect(p, ']'))
            return false;
    }
    return true;
}

bool emu_parse_declarator(struct emu_parser *p, struct emu_declaration *d)
{
    const uint64_t element = emu_bits((enum emu_type)d->type) / 8;

    if (!emu_parse_name(p, &d->name) || !parse_extents(p, d))
        return false;
    if (d->is_reg && d->dimensions)
        return emu_error(p, &d->name, "Registers have no extents");
    if (d->is_reg && d->lanes && d->type == EMU_PRED)
        return emu_error(p, &d->name,
                         "Predicate type can only be used to define scalar register variables");
    if (d->lanes * (uint64_t)element > 16)
        return emu_error(p, &d->name, "Vector type too large, exceeds 128 bit limit");
    if (d->is_reg)
        return true;
    d->bytes = element * (d->lanes ? d->lanes : 1);
    if (!d->align)
        d->align = d->bytes;
    for (unsigned k = 0; k < d->dimensions; k++) {
        const uint64_t extent = d->extents[k];
        if (extent && d->bytes > MOST_BYTES / extent)
            return emu_error(p, &d->name, "Variable '%.*s' is too large", EMU_TEXT(&d->name));
        d->bytes *= extent;
    }
    return true;
}

// ---- registers ----------------------------------------------------------------------------------

// The number before the '>', which an expression would read as a comparison.
static bool parse_range(struct emu_parser *p, uint64_t *count)
{
    const struct emu_token at = p->token;

    if (at.kind != EMU_TOKEN_INTEGER)
        return emu_syntax_error(p);
    if (at.bits < 1 || at.bits > MOST_REGISTERS)
        return emu_error(p, &at, "A range has 1 to %d registers", MOST_REGISTERS);
    *count = at.bits;
    emu_next(p);
    return emu_expect(p, '>');
}

// A register of 128 bits is a vector of two of 64.
static uint8_t vector_lanes(const struct emu_declaration *d)
{
    return d->type == EMU_B128 ? 2 : (uint8_t)d->lanes;
}

struct emu_name *emu_declare_register(struct emu_parser *p, const struct emu_declaration *d)
{
    const uint8_t lanes = vector_lanes(d);
    struct emu_name *name =
        emu_declare(p, &d->name, lanes ? EMU_NAME_VECTOR : EMU_NAME_REGISTER, 0);

    if (name && lanes) {
        name->lanes = lanes;
        name->type = d->type;
        return emu_new_vector(p, name, d->type) ? name : NULL;
    }
    if (name)
        name->index = emu_new_register(p, d->name.at, d->name.length, d->type);
    return name && name->index != EMU_NO_REGISTER ? name : NULL;
}

static bool parse_register(struct emu_parser *p, const struct emu_declaration *d)
{
    uint64_t count = 0;

    if (!emu_take(p, '<'))
        return emu_declare_register(p, d) != NULL;
    if (!parse_range(p, &count))
        return false;
    struct emu_name *range = emu_declare(p, &d->name, EMU_NAME_RANGE, 0);
    if (!range)
        return false;
    range->count = (uint32_t)count;
    range->type = d->type;
    range->lanes = vector_lanes(d);
    return true;
}

// ---- variables ----------------------------------------------------------------------------------

static bool place(struct emu_parser *p, const struct emu_declaration *d, uint64_t *end,
                  uint64_t *offset)
{
    *offset = (*end + d->align - 1) / d->align * d->align;
    if (*offset > MOST_BYTES)
        return emu_error(p, &d->name, "Variables take too much memory");
    *end = *offset + d->bytes;
    return true;
}

static bool place_in_space(struct emu_parser *p, const struct emu_declaration *d, uint64_t *offset)
{
    struct emu_module *module = p->module;
    uint64_t end = 0;

    *offset = 0;
    if (d->space == EMU_GLOBAL)
        return place(p, d, &module->global_bytes, offset);
    if (d->space == EMU_CONST)
        return place(p, d, &module->const_bytes, offset);
    if (d->space == EMU_SHARED)
        return true; // emu_link() does this
    struct emu_function *f = &module->functions[p->body->function];
    uint32_t *bytes = d->space == EMU_LOCAL ? &f->local_bytes : &f->param_bytes;
    const uint64_t most = d->space == EMU_LOCAL ? EMU_MAX_LOCAL : module->isa >= 81 ? 32764 : 4352;
    end = *bytes;
    if (!place(p, d, &end, offset))
        return false;
    if (end > most)
        return emu_error(p, &d->name, "The function has more than %llu bytes of .%s variables",
                         (unsigned long long)most, space_name(d->space));
    *bytes = (uint32_t)end;
    return true;
}

// The variable that is declared again: one that was .extern or is now, or that of another text,
// where types may differ.
static struct emu_name *declared_before(struct emu_parser *p, const struct emu_declaration *d)
{
    const struct emu_name *found = p->body ? NULL : emu_find(p, &d->name);
    if (!found || found->kind != EMU_NAME_SYMBOL)
        return NULL;
    const struct emu_symbol *symbol = &p->module->symbols[found->index];
    const bool elsewhere = found->declared != p->unit;
    if (symbol->space != d->space || (symbol->type != d->type && !elsewhere) ||
        (!symbol->is_extern && !d->is_extern && found->defined == p->unit + 1))
        return NULL;
    return emu_find_linked(p, &d->name, EMU_NAME_SYMBOL);
}

// A .common variable is as large as the largest of the texts.
static bool enlarge(struct emu_parser *p, const struct emu_declaration *d,
                    struct emu_symbol *symbol)
{
    if (d->bytes <= symbol->bytes && d->align <= symbol->align)
        return true;
    struct emu_declaration larger = *d;
    larger.bytes = d->bytes > symbol->bytes ? d->bytes : symbol->bytes;
    larger.align = d->align > symbol->align ? d->align : symbol->align;
    symbol->bytes = larger.bytes;
    symbol->align = (uint32_t)larger.align;
    return place_in_space(p, &larger, &symbol->offset);
}

// Addresses in the initial value of a definition that another takes the place of.
static void drop_relocations(struct emu_module *module, uint32_t symbol)
{
    uint32_t kept = 0;

    for (uint32_t k = 0; k < module->relocation_count; k++)
        if (module->relocations[k].symbol != symbol)
            module->relocations[kept++] = module->relocations[k];
    module->relocation_count = kept;
}

static uint32_t put_symbol(struct emu_parser *p, const struct emu_declaration *d, uint32_t index)
{
    struct emu_module *module = p->module;
    uint64_t offset = 0;
    const bool placed = d->is_extern || place_in_space(p, d, &offset);
    // The name is declared, so what follows finds a symbol, even one that has no place.
    struct emu_symbol *symbol = index < module->symbol_count
                                    ? &module->symbols[index]
                                    : emu_push(p, &module->symbols, &module->symbol_count,
                                               &p->symbol_capacity, sizeof *symbol);
    if (!symbol)
        return EMU_NO_REGISTER;
    *symbol = (struct emu_symbol) {
        .name = emu_arena_copy(p->arena, d->name.at, d->name.length),
        .space = d->space,
        .type = d->type,
        .align = (uint32_t)d->align,
        .offset = offset,
        .bytes = d->bytes,
        .is_extern = d->is_extern,
        .managed = d->managed,
    };
    module->managed = module->managed || d->managed;
    if (!symbol->name) {
        emu_out_of_memory(p);
        return EMU_NO_REGISTER;
    }
    return placed ? index : EMU_NO_REGISTER;
}

// A second definition, by another text. EMU_NO_REGISTER: reported.
static uint32_t define_again(struct emu_parser *p, const struct emu_declaration *d,
                             struct emu_name *name)
{
    if (emu_overrides(p, name)) {
        drop_relocations(p->module, name->index);
        name->linkage = (uint8_t)p->linkage;
        name->defined = p->unit + 1;
        return put_symbol(p, d, name->index);
    }
    if (p->linkage != EMU_LINKAGE_WEAK && p->linkage != EMU_LINKAGE_COMMON) {
        emu_error(p, &d->name, "Duplicate definition of variable '%.*s'", EMU_TEXT(&d->name));
        return EMU_NO_REGISTER;
    }
    if (p->linkage == EMU_LINKAGE_COMMON && name->linkage == EMU_LINKAGE_COMMON)
        return enlarge(p, d, &p->module->symbols[name->index]) ? name->index : EMU_NO_REGISTER;
    return put_symbol(p, d, p->module->symbol_count); // for its initial value; nothing names it
}

// A declaration and the definition have one size, as ptxas and nvlink demand. An array without
// extent has any.
static bool sizes_agree(struct emu_parser *p, const struct emu_declaration *d,
                        const struct emu_name *name)
{
    const struct emu_symbol *symbol = &p->module->symbols[name->index];
    if (symbol->is_extern == d->is_extern || !symbol->bytes || !d->bytes ||
        symbol->bytes == d->bytes || p->linkage == EMU_LINKAGE_COMMON ||
        name->linkage == EMU_LINKAGE_COMMON)
        return true;
    return emu_error(
        p, &d->name, "Inconsistent redefinition of variable '%.*s': %llu bytes here, %llu before",
        EMU_TEXT(&d->name), (unsigned long long)d->bytes, (unsigned long long)symbol->bytes);
}

uint32_t emu_new_symbol(struct emu_parser *p, const struct emu_declaration *d)
{
    struct emu_name *name = declared_before(p, d);

    if (name && !sizes_agree(p, d, name))
        return EMU_NO_REGISTER;
    if (name && d->is_extern)
        return name->index;
    if (name && name->defined)
        return define_again(p, d, name);
    if (!name)
        name = emu_declare(p, &d->name, EMU_NAME_SYMBOL, p->module->symbol_count);
    if (!name)
        return EMU_NO_REGISTER;
    if (!d->is_extern)
        name->defined = p->unit + 1;
    return put_symbol(p, d, name->index);
}

static bool check_variable(struct emu_parser *p, const struct emu_declaration *d)
{
    const bool open = d->dimensions && d->extents[0] == 0;
    const struct emu_token *at = &d->name;

    if (!p->body && (d->space == EMU_LOCAL || d->space == EMU_PARAM || d->is_reg))
        return emu_error(p, at, "Variable '%.*s' must be within a function", EMU_TEXT(at));
    if (open && !d->is_extern && !emu_token_is(&p->token, '='))
        return emu_error(p, at, "Non-external variable '%.*s' has incomplete type", EMU_TEXT(at));
    if (d->is_extern && d->space == EMU_SHARED && !open)
        return emu_error(p, at, "External shared variable '%.*s' must be an array without extent",
                         EMU_TEXT(at));
    if (!emu_token_is(&p->token, '='))
        return true;
    if ((d->space != EMU_GLOBAL && d->space != EMU_CONST) || d->is_extern)
        return emu_error(p, at, "No initial value is allowed for '%.*s' in this state space",
                         EMU_TEXT(at));
    return !open || emu_error(p, at, "The extent of '%.*s' is missing", EMU_TEXT(at));
}

uint64_t emu_formal_registers(const struct emu_declaration *d, uint8_t *type)
{
    const bool bytes = !d->is_reg && (d->dimensions || d->lanes || d->type == EMU_B128);

    *type = bytes ? EMU_B8 : d->type;
    return bytes ? d->bytes : vector_lanes(d) ? vector_lanes(d) : 1;
}

enum { MOST_PARAM_BYTES = 4096 };

bool emu_declare_param(struct emu_parser *p, const struct emu_declaration *d,
                       enum emu_param_role role, struct emu_param_registers *param)
{
    uint8_t type;

    if (d->bytes > MOST_PARAM_BYTES)
        return emu_error(p, &d->name,
                         "Parameter '%.*s' of a function with more than %d bytes is not supported "
                         "by the emulator",
                         EMU_TEXT(&d->name), MOST_PARAM_BYTES);
    const uint64_t count = emu_formal_registers(d, &type);
    *param =
        (struct emu_param_registers) { .bytes = (uint32_t)d->bytes,
                                       .unit = count ? (uint32_t)(d->bytes / count) : 1,
                                       .element =
                                           d->dimensions ? emu_bits((enum emu_type)d->type) / 8 : 0,
                                       .type = type,
                                       .role = (uint8_t)role };
    return emu_new_param(p, &d->name, param);
}

static bool parse_variable(struct emu_parser *p, const struct emu_declaration *d)
{
    struct emu_param_registers param;

    if (d->space == EMU_PARAM)
        return emu_declare_param(p, d, EMU_PARAM_OF_CALL, &param);
    const uint32_t symbol = emu_new_symbol(p, d);
    if (symbol == EMU_NO_REGISTER)
        return false;
    return !emu_take(p, '=') || emu_parse_init(p, d, symbol);
}

bool emu_parse_variables(struct emu_parser *p, bool is_extern)
{
    static const struct {
        const char *name;
        uint8_t space;
    } spaces[] = { { "global", EMU_GLOBAL }, { "const", EMU_CONST }, { "shared", EMU_SHARED },
                   { "local", EMU_LOCAL },   { "param", EMU_PARAM }, { "reg", EMU_GENERIC } };
    struct emu_declaration d;
    size_t k = 0;

    memset(&d, 0, sizeof d);
    while (k < sizeof spaces / sizeof *spaces && !emu_token_is_dot(&p->token, spaces[k].name))
        k++;
    if (k == sizeof spaces / sizeof *spaces)
        return emu_syntax_error(p);
    d.space = spaces[k].space;
    d.is_reg = d.space == EMU_GENERIC;
    d.is_extern = is_extern;
    emu_next(p);
    if (!emu_parse_declaration(p, &d))
        return false;
    const uint64_t align = d.align;
    do {
        d.align = align;
        if (!emu_parse_declarator(p, &d) || !check_variable(p, &d) ||
            !(d.is_reg ? parse_register(p, &d) : parse_variable(p, &d)))
            return false;
    } while (emu_take(p, ','));
    return emu_token_is(&p->token, ';') || emu_syntax_error(p);
}

// ---- initial values -----------------------------------------------------------------------------

struct init {
    struct emu_parser *p;
    const struct emu_declaration *d;
    uint32_t symbol;
    unsigned char *bytes;
    uint64_t element; // bytes of an element
    uint64_t count;   // elements of the variable
};

// The upper half of 16 bytes is 0, also of a negative number, as ptxas has it.
static void store(const struct init *init, uint64_t index, uint64_t bits)
{
    for (uint64_t k = 0; k < init->element; k++, bits >>= 8)
        init->bytes[index * init->element + k] = (unsigned char)bits;
}

// x, x+4, generic(x), generic(x)+4: the address of a variable.
static bool parse_address(const struct init *init, uint64_t index)
{
    struct emu_parser *p = init->p;
    struct emu_constant addend = { EMU_TOKEN_INTEGER, 0, false };
    struct emu_token at = p->token;

    emu_next(p);
    const bool generic = emu_token_is_name(&at, "generic") && emu_take(p, '(');
    if (generic && (!emu_parse_name(p, &at) || !emu_expect(p, ')')))
        return false;
    if (emu_take(p, '+') && !emu_parse_constant(p, &addend))
        return false;
    const struct emu_name *name = emu_find(p, &at);
    const bool is_function = name && name->kind == EMU_NAME_FUNCTION;
    if (!name || (name->kind != EMU_NAME_SYMBOL && !is_function))
        return emu_error(p, &at,
                         name ? "The address of '%.*s' is not supported by the emulator here"
                              : "Unknown symbol '%.*s'",
                         EMU_TEXT(&at));
    const uint8_t space = is_function ? EMU_GLOBAL : p->module->symbols[name->index].space;
    if (space != EMU_GLOBAL && space != EMU_CONST)
        return emu_error(p, &at, "'%.*s' has no address before the launch", EMU_TEXT(&at));
    if (init->element < (is_function ? 8 : 4) || emu_is_float((enum emu_type)init->d->type) ||
        addend.kind != EMU_TOKEN_INTEGER)
        return emu_error(p, &at, "An address does not fit into this variable");
    struct emu_relocation *relocation =
        emu_push(p, &p->module->relocations, &p->module->relocation_count, &p->relocation_capacity,
                 sizeof *relocation);
    if (!relocation)
        return false;
    *relocation = (struct emu_relocation) { .symbol = init->symbol,
                                            .target = name->index,
                                            .is_function = is_function,
                                            .offset = index * init->element,
                                            .addend = (int64_t)addend.bits,
                                            .bytes = (uint8_t)init->element };
    return true;
}

static bool parse_value(const struct init *init, uint64_t index)
{
    struct emu_parser *p = init->p;
    const struct emu_token at = p->token;
    struct emu_constant constant;
    uint64_t bits;

    if (index >= init->count)
        return emu_error(p, &at, "There are more values than '%.*s' has elements",
                         EMU_TEXT(&init->d->name));
    if (at.kind == EMU_TOKEN_NAME && !emu_token_is_name(&at, "WARP_SZ"))
        return parse_address(init, index);
    if (!emu_parse_constant(p, &constant))
        return false;
    if (emu_token_is(&p->token, '('))
        return emu_error(p, &at, "Parts of addresses are not supported by the emulator");
    if (!emu_constant_in(&constant, (enum emu_type)init->d->type, &bits))
        return emu_error(p, &at, "The value does not fit the type of '%.*s'",
                         EMU_TEXT(&init->d->name));
    store(init, index, bits);
    return true;
}

// Parses the braces of one dimension; `span` elements begin at `index`.
static bool parse_braces(const struct init *init, unsigned dimension, uint64_t index, uint64_t span)
{
    struct emu_parser *p = init->p;
    const struct emu_token at = p->token;
    const uint64_t end = index + span;
    uint64_t inner = dimension < init->d->dimensions ? span / init->d->extents[dimension] : 1;

    emu_next(p);
    if (emu_take(p, '}'))
        return true;
    if (!inner)
        inner = 1;
    do {
        if (emu_token_is(&p->token, '{')) {
            if (dimension >= EMU_MOST_DIMENSIONS || index > end - inner)
                return emu_error(p, &at, "There are too many braces");
            if (!parse_braces(init, dimension + 1, index, inner))
                return false;
            index += inner;
        } else if (index >= end) {
            return emu_error(p, &p->token, "There are more values than '%.*s' has elements",
                             EMU_TEXT(&init->d->name));
        } else if (!parse_value(init, index++)) {
            return false;
        }
    } while (emu_take(p, ','));
    return emu_expect(p, '}');
}

bool emu_parse_init(struct emu_parser *p, const struct emu_declaration *d, uint32_t symbol)
{
    struct init init = { p, d, symbol, NULL, emu_bits((enum emu_type)d->type) / 8, 0 };

    if (!init.element || !d->bytes)
        return emu_error(p, &d->name, "'%.*s' has no elements", EMU_TEXT(&d->name));
    init.count = d->bytes / init.element;
    init.bytes = d->bytes < SIZE_MAX ? emu_arena_alloc(p->arena, (size_t)d->bytes) : NULL;
    if (!init.bytes)
        return emu_out_of_memory(p);
    p->module->symbols[symbol].init = init.bytes;
    if (!emu_token_is(&p->token, '{'))
        return parse_value(&init, 0);
    return parse_braces(&init, 0, 0, init.count);
}

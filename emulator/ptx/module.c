// SPDX-License-Identifier: MIT
// The module's head and its list of definitions.
#include "module.h"

#include "directive.h"
#include "expression.h"
#include "function.h"
#include "names.h"
#include "variable.h"

#include <string.h>

// ---- the head -----------------------------------------------------------------------------------

// "8.0", which reads as a decimal or, for 8, as an integer.
static bool parse_version(struct emu_parser *p)
{
    const struct emu_token at = p->token;
    unsigned major = 0, minor = 0, digits = 0;
    const char *c = at.at, *end = at.at + at.length;

    if (!emu_take_dot(p, "version"))
        return emu_error(p, &at, "Missing .version directive at start of file");
    const struct emu_token number = p->token;
    if (number.kind != EMU_TOKEN_DECIMAL)
        return emu_syntax_error(p);
    for (c = number.at, end = c + number.length; c < end && *c >= '0' && *c <= '9'; c++)
        major = major < 1000 ? major * 10 + (unsigned)(*c - '0') : major;
    if (c < end && *c == '.')
        for (c++; c < end && *c >= '0' && *c <= '9'; c++, digits++)
            minor = (unsigned)(*c - '0');
    if (c != end || digits != 1)
        return emu_error(p, &number, "'%.*s' is not a version", EMU_TEXT(&number));
    p->module->isa = (int)(major * 10 + minor);
    if (p->module->isa > p->limits->isa)
        return emu_fatal(p, &number, EMU_UNSUPPORTED_PTX_VERSION,
                         "Unsupported .version %u.%u; current version is '%d.%d'", major, minor,
                         p->limits->isa / 10, p->limits->isa % 10);
    if (p->module->isa < 10)
        return emu_error(p, &number, "Unsupported .version %u.%u", major, minor);
    emu_next(p);
    return true;
}

// The known targets and the least ISA of each: plain, 'a', 'f'; 0: no such target.
static const struct {
    int sm;
    uint8_t plain, a, f;
} targets[] = {
    { 10, 10, 0, 0 },    { 11, 10, 0, 0 },    { 12, 12, 0, 0 },    { 13, 12, 0, 0 },
    { 20, 20, 0, 0 },    { 21, 20, 0, 0 },    { 30, 30, 0, 0 },    { 32, 40, 0, 0 },
    { 35, 31, 0, 0 },    { 37, 41, 0, 0 },    { 50, 40, 0, 0 },    { 52, 41, 0, 0 },
    { 53, 42, 0, 0 },    { 60, 50, 0, 0 },    { 61, 50, 0, 0 },    { 62, 50, 0, 0 },
    { 70, 60, 0, 0 },    { 72, 61, 0, 0 },    { 75, 63, 0, 0 },    { 80, 70, 0, 0 },
    { 86, 71, 0, 0 },    { 87, 74, 0, 0 },    { 88, 90, 0, 0 },    { 89, 78, 0, 0 },
    { 90, 78, 80, 0 },   { 100, 86, 86, 88 }, { 101, 86, 86, 88 }, { 103, 88, 88, 88 },
    { 107, 94, 94, 94 }, { 110, 90, 90, 90 }, { 120, 87, 87, 88 }, { 121, 88, 88, 88 },
};

static bool runs_on_device(const struct emu_parser *p)
{
    const int sm = p->module->sm, device = p->limits->sm;

    switch (p->module->sm_suffix) {
    case 'a':
        return sm == device && p->limits->sm_suffix == 'a';
    case 'f': // later members of the same family
        return sm / 10 == device / 10 && sm <= device;
    default:
        return sm <= device;
    }
}

static bool check_target(struct emu_parser *p, const struct emu_token *at)
{
    const char suffix = p->module->sm_suffix;
    int least = 0;

    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
        if (targets[k].sm == p->module->sm)
            least = suffix == 'a' ? targets[k].a : suffix == 'f' ? targets[k].f : targets[k].plain;
    if (!least)
        return emu_error(p, at, "'%.*s' is not a known .target", EMU_TEXT(at));
    if (least > p->module->isa)
        return emu_error(p, at, ".target %.*s requires PTX ISA .version %d.%d or later",
                         EMU_TEXT(at), least / 10, least % 10);
    if (!runs_on_device(p))
        return emu_fatal(p, at, EMU_NO_BINARY_FOR_GPU,
                         ".target %.*s does not run on the device, which is sm_%d%.1s",
                         EMU_TEXT(at), p->limits->sm, &p->limits->sm_suffix);
    return true;
}

static bool read_target(struct emu_parser *p, const struct emu_token *at)
{
    uint32_t k = 3;
    int sm = 0;

    while (k < at->length && at->at[k] >= '0' && at->at[k] <= '9' && sm < 1000)
        sm = sm * 10 + (at->at[k++] - '0');
    p->module->sm = sm;
    p->module->sm_suffix = 0;
    if (k + 1 == at->length && (at->at[k] == 'a' || at->at[k] == 'f'))
        p->module->sm_suffix = at->at[k++];
    if (k != at->length)
        return emu_error(p, at, "'%.*s' is not a known .target", EMU_TEXT(at));
    return check_target(p, at);
}

static bool parse_target(struct emu_parser *p)
{
    struct emu_token at;

    if (!emu_take_dot(p, "target"))
        return emu_error(p, &p->token, "Missing .target directive");
    do {
        if (!emu_parse_name(p, &at))
            return false;
        if (at.length > 3 && memcmp(at.at, "sm_", 3) == 0) {
            if (!read_target(p, &at))
                return false;
        } else if (emu_token_is_name(&at, "map_f64_to_f32")) {
            return emu_error(p, &at, "'map_f64_to_f32' is not supported by the emulator");
        } else if (!emu_token_is_name(&at, "debug") && !emu_token_is_name(&at, "texmode_unified") &&
                   !emu_token_is_name(&at, "texmode_independent")) {
            return emu_error(p, &at, "'%.*s' is not a known .target option", EMU_TEXT(&at));
        }
    } while (emu_take(p, ','));
    return p->module->sm != 0 || emu_error(p, &p->token, "Missing .target directive");
}

static bool parse_address_size(struct emu_parser *p)
{
    uint64_t bits = 0;
    const struct emu_token at = p->token;

    if (!emu_take_dot(p, "address_size"))
        return true;
    if (!emu_parse_count(p, 32, 64, &bits))
        return false;
    return bits == 64 || emu_error(p, &at, "Only .address_size 64 is supported by the emulator");
}

// ---- definitions --------------------------------------------------------------------------------

static bool parse_linkage(struct emu_parser *p)
{
    static const struct {
        const char *name;
        enum emu_linkage linkage;
        int isa;
    } known[] = { { "visible", EMU_LINKAGE_VISIBLE, 10 },
                  { "extern", EMU_LINKAGE_EXTERN, 10 },
                  { "weak", EMU_LINKAGE_WEAK, 31 },
                  { "common", EMU_LINKAGE_COMMON, 50 } };

    p->linkage = EMU_LINKAGE_STATIC;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const struct emu_token at = p->token;
        if (!emu_take_dot(p, known[k].name))
            continue;
        if (p->linkage != EMU_LINKAGE_STATIC)
            return emu_error(p, &at,
                             "A definition has one of .visible, .extern, .weak and .common");
        if (p->module->isa < known[k].isa)
            return emu_error(p, &at, "'.%s' requires PTX ISA .version %d.%d or later",
                             known[k].name, known[k].isa / 10, known[k].isa % 10);
        p->linkage = known[k].linkage;
        k = (size_t)-1;
    }
    return true;
}

// A function that is declared, or defined, so far.
static bool parse_function_name(struct emu_parser *p, uint32_t *index)
{
    struct emu_token at;

    if (!emu_parse_name(p, &at))
        return false;
    const struct emu_name *name = emu_find(p, &at);
    if (!name || name->kind != EMU_NAME_FUNCTION || p->module->functions[name->index].is_entry)
        return emu_error(p, &at, "'%.*s' is no .func", EMU_TEXT(&at));
    *index = name->index;
    return true;
}

// .alias one, other;
static bool parse_alias(struct emu_parser *p)
{
    const struct emu_token at = p->token;
    uint32_t alias = 0, function = 0;

    if (p->module->isa < 63)
        return emu_error(p, &at, "'.alias' requires PTX ISA .version 6.3 or later");
    if (!parse_function_name(p, &alias) || !emu_expect(p, ',') ||
        !parse_function_name(p, &function) || !emu_expect(p, ';'))
        return false;
    struct emu_alias *added =
        emu_push(p, &p->aliases, &p->alias_count, &p->alias_capacity, sizeof *added);
    if (added)
        *added = (struct emu_alias) { .at = at, .alias = alias, .function = function };
    return added != NULL;
}

static bool parse_definition(struct emu_parser *p)
{
    bool found;

    if (!emu_parse_ignored(p, &found) || found)
        return found;
    if (emu_take_dot(p, "alias"))
        return parse_alias(p);
    if (!parse_linkage(p))
        return false;
    if (p->linkage == EMU_LINKAGE_COMMON && !emu_token_is_dot(&p->token, "global"))
        return emu_error(p, &p->token, "'.common' is for variables of .global");
    if (emu_take_dot(p, "entry"))
        return emu_parse_function(p, true);
    if (emu_take_dot(p, "func"))
        return emu_parse_function(p, false);
    if (emu_token_is_dot(&p->token, "global") || emu_token_is_dot(&p->token, "const") ||
        emu_token_is_dot(&p->token, "shared") || emu_token_is_dot(&p->token, "local") ||
        emu_token_is_dot(&p->token, "reg") || emu_token_is_dot(&p->token, "param"))
        return emu_parse_variables(p, p->linkage == EMU_LINKAGE_EXTERN) && emu_expect(p, ';');
    if (p->token.kind == EMU_TOKEN_DOT)
        return emu_error(p, &p->token, "'.%.*s' is not supported by the emulator here",
                         EMU_TEXT(&p->token));
    return emu_syntax_error(p);
}

bool emu_parse_unit(struct emu_parser *p)
{
    p->module->sm = 0;
    emu_next(p);
    if (!parse_version(p) || !parse_target(p) || !parse_address_size(p))
        return false;
    while (!emu_ended(p))
        if (!parse_definition(p))
            emu_skip_definition(p);
    return p->errors == 0;
}

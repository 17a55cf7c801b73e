// SPDX-License-Identifier: MIT
// The modifiers of an instruction, and the matching form of its row.
#include "form.h"

#include <stdio.h>
#include <string.h>

// ---- the form that agrees, and why none does ----------------------------------------------------

// How well a form matches the instruction.
enum agreement { AGREES_NOT, AGREES_REQUIRED, AGREES_TYPES, AGREES_ONE_OF, AGREES };

static bool types_agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const uint64_t types[] = { form->types, form->second, form->third, form->fourth };
    unsigned wanted = 0;

    for (; wanted < 4 && types[wanted]; wanted++)
        if (wanted >= spelled->type_count || !(types[wanted] >> spelled->types[wanted] & 1))
            return false;
    return spelled->type_count == wanted;
}

static enum agreement agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const emu_groups chosen = spelled->groups & form->one_of;

    if (!form->operands || (spelled->groups & form->must) != form->must)
        return AGREES_NOT;
    if (!types_agree(spelled, form) || (form->shapes && !(form->shapes >> spelled->insn.shape & 1)))
        return AGREES_REQUIRED;
    if (form->one_of && (chosen == 0 || (chosen & (chosen - 1))))
        return AGREES_TYPES;
    if (spelled->groups & ~(form->must | form->one_of | form->may))
        return AGREES_ONE_OF;
    return AGREES;
}

static bool refuse_required(struct emu_parser *p, const struct emu_spelled *spelled,
                            const struct emu_form *form)
{
    const emu_groups missing = (form->must ? form->must : form->one_of) & ~spelled->groups;
    unsigned group = 0;

    while (group < EMU_GROUP_COUNT && !(missing >> group & 1))
        group++;
    if (missing & EMU_G(SYNC))
        return emu_error(
            p, &spelled->name,
            p->module->isa >= 64
                ? "Instruction '%.*s' without '.sync' is not supported on .target "
                  "sm_70 and higher from PTX ISA version 6.4"
                : "Instruction '%.*s' without '.sync' is not supported by the emulator",
            EMU_TEXT(&spelled->name));
    return emu_error(p, &spelled->name, "%s modifier required for instruction '%.*s'",
                     emu_group_name(group), EMU_TEXT(&spelled->name));
}

static bool refuse_modifier(struct emu_parser *p, const struct emu_spelled *spelled,
                            const struct emu_form *form)
{
    const emu_groups fine = form->must | form->one_of | form->may | EMU_G(TYPE);

    for (unsigned k = 0; k < spelled->count; k++) {
        const unsigned group = spelled->known[k]->group;
        const bool rounds = group == EMU_GROUP_INDEX_DIRECTED || group == EMU_GROUP_INDEX_INTEGRAL;
        if (fine >> group & 1)
            continue;
        if (rounds)
            return emu_error(p, &spelled->modifiers[k],
                             "Illegal rounding modifier for instruction '%.*s'" EMU_NOT_PTX,
                             EMU_TEXT(&spelled->name));
        return emu_error(p, &spelled->modifiers[k],
                         "Illegal modifier '.%s' for instruction '%.*s'" EMU_NOT_PTX,
                         spelled->known[k]->name, EMU_TEXT(&spelled->name));
    }
    return emu_error(p, &spelled->name, "Modifiers mismatch for instruction '%.*s'" EMU_NOT_PTX,
                     EMU_TEXT(&spelled->name));
}

static bool refuse(struct emu_parser *p, const struct emu_spelled *spelled,
                   const struct emu_form *nearest, enum agreement best)
{
    switch (best) {
    case AGREES_NOT:
        return refuse_required(p, spelled, nearest);
    case AGREES_REQUIRED:
        return emu_error(p, &spelled->name,
                         "Unexpected instruction types specified for '%.*s'" EMU_NOT_PTX,
                         EMU_TEXT(&spelled->name));
    case AGREES_TYPES:
        if (nearest->one_of & EMU_G(RN))
            return emu_error(p, &spelled->name,
                             "Rounding modifier%s required for instruction '%.*s'",
                             nearest->one_of & EMU_G(APPROX) ? " or '.approx' modifier" : "",
                             EMU_TEXT(&spelled->name));
        return emu_error(p, &spelled->name, "A modifier is missing for instruction '%.*s'",
                         EMU_TEXT(&spelled->name));
    default:
        return refuse_modifier(p, spelled, nearest);
    }
}

static bool fits(const struct emu_parser *p, uint8_t isa, uint8_t sm)
{
    return p->module->isa >= isa && p->module->sm >= sm;
}

static bool floors(struct emu_parser *p, const struct emu_spelled *spelled,
                   const struct emu_token *at, const char *modifier, uint8_t isa, uint8_t sm)
{
    const struct emu_modifier *type = emu_spelled_in(spelled, EMU_G(TYPE));
    const char *suffix = modifier ? modifier : type ? type->name : NULL;

    if (p->module->isa < isa)
        return emu_error(p, at, "Feature '%.*s%s%s' requires PTX ISA .version %d.%d or later",
                         EMU_TEXT(&spelled->name), suffix ? "." : "", suffix ? suffix : "",
                         isa / 10, isa % 10);
    if (p->module->sm < sm)
        return emu_error(p, at, "Feature '%.*s%s%s' requires .target sm_%d or higher",
                         EMU_TEXT(&spelled->name), suffix ? "." : "", suffix ? suffix : "", sm);
    return true;
}

enum { MOST_LACKS = 64 };

// The modifiers that identify a form that is not run, as "async.bulk"; NULL if none does.
static const char *told_by(const struct emu_form *form, char text[MOST_LACKS])
{
    snprintf(text, MOST_LACKS, "%s", form->lacks ? form->lacks : "");
    for (char *c = text; *c; c++)
        *c = *c == ' ' ? '.' : *c;
    return *text ? text : NULL;
}

bool emu_check_floors(struct emu_parser *p, const struct emu_spelled *spelled,
                      const struct emu_form *form)
{
    char text[MOST_LACKS];

    if (!fits(p, form->isa, form->sm) || (form->own && !p->module->sm_suffix)) {
        const char *told = told_by(form, text);
        return floors(p, spelled, &spelled->name, told, form->isa, form->sm) &&
               emu_error(p, &spelled->name, "Feature '%.*s%s%s' requires .target sm_%da",
                         EMU_TEXT(&spelled->name), told ? "." : "", told ? told : "", form->sm);
    }
    for (unsigned k = 0; k < spelled->count && spelled->known[k]; k++) {
        // cp.async accepted .shared::cta before any other instruction.
        if (form->must & EMU_G(FROM) && spelled->known[k]->group == EMU_GROUP_INDEX_SPACE)
            continue;
        if (!floors(p, spelled, &spelled->modifiers[k], spelled->known[k]->name,
                    spelled->known[k]->isa, spelled->known[k]->sm))
            return false;
    }
    return true;
}

static unsigned written_count(const struct emu_spelled *spelled, const struct emu_form *form,
                              const struct emu_written_list *list)
{
    unsigned count = 0;

    for (const char *c = form->operands; *c; c++)
        count += *c != '=' && *c != '_' && (*c != 'q' || (list->count && list->at[0].pair)) &&
                 (*c != 'h' || spelled->groups & EMU_G(HINT));
    return count;
}

// Whether there are as many operands as in the form, and no vector where a descriptor is expected:
// that tells the forms of wgmma apart.
static bool operands_agree(const struct emu_spelled *spelled, const struct emu_form *form,
                           const struct emu_written_list *list)
{
    const char *at = strchr(form->operands, 'y');

    return written_count(spelled, form, list) == list->count &&
           (!at || list->at[at - form->operands - 1].syntax != EMU_SYNTAX_VECTOR);
}

// ---- known, and not supported -------------------------------------------------------------------

// Whether the instruction has all modifiers of the list.
static bool has_modifiers(const struct emu_spelled *spelled, const char *list)
{
    while (*list) {
        const size_t length = strcspn(list, " ");
        unsigned k = 0;
        while (k < spelled->count && (spelled->modifiers[k].length != length ||
                                      memcmp(spelled->modifiers[k].at, list, length) != 0))
            k++;
        if (k == spelled->count)
            return false;
        list += length + (list[length] == ' ');
    }
    return true;
}

static bool refuse_unsupported(struct emu_parser *p, const struct emu_spelled *spelled,
                               const struct emu_form *form)
{
    char text[MOST_LACKS];
    const char *told = told_by(form, text);

    return emu_error(p, &spelled->name, "Instruction '%.*s%s%s' is not supported by the emulator",
                     EMU_TEXT(&spelled->name), told ? "." : "", told ? told : "");
}

// Reports PTX that the rows mark as unsupported, and returns false.
static bool check_supported(struct emu_parser *p, const struct emu_spelled *spelled,
                            const struct emu_spelling *rows, unsigned count)
{
    const struct emu_form *last = NULL;
    bool runs = false;

    for (unsigned row = 0; row < count; row++) {
        runs = runs || rows[row].opcode != EMU_OP_COUNT;
        for (unsigned k = 0; k < rows[row].form_count; k++) {
            const struct emu_form *form = &rows[row].forms[k];
            if (form->operands || !has_modifiers(spelled, form->lacks))
                continue;
            if (!emu_check_floors(p, spelled, form))
                return false;
            last = form;
        }
    }
    if (last)
        return refuse_unsupported(p, spelled, last);
    return runs ||
           emu_error(p, &spelled->name, "Unknown modifiers of instruction '%.*s'" EMU_NOT_PTX,
                     EMU_TEXT(&spelled->name));
}

bool emu_choose_form(struct emu_parser *p, const struct emu_spelled *spelled,
                     const struct emu_spelling *rows, unsigned count,
                     const struct emu_written_list *list, struct emu_choice *choice)
{
    const struct emu_form *nearest = rows->forms;
    enum agreement best = AGREES_NOT;

    for (unsigned row = 0; row < count; row++)
        for (unsigned k = 0; k < rows[row].form_count; k++) {
            const struct emu_form *form = &rows[row].forms[k];
            const enum agreement found = agree(spelled, form);
            if (found == AGREES && operands_agree(spelled, form, list)) {
                *choice = (struct emu_choice) { (enum emu_opcode)rows[row].opcode, form };
                return true;
            }
            if (found > best) {
                best = found;
                nearest = form;
            }
        }
    if (best == AGREES)
        return emu_error(p, &spelled->name, "Arguments mismatch for instruction '%.*s'",
                         EMU_TEXT(&spelled->name));
    return refuse(p, spelled, nearest, best);
}

// ---- modifiers ----------------------------------------------------------------------------------

const struct emu_modifier *emu_spelled_in(const struct emu_spelled *spelled, emu_groups group)
{
    for (unsigned k = 0; k < spelled->count && spelled->known[k]; k++)
        if (group >> spelled->known[k]->group & 1)
            return spelled->known[k];
    return NULL;
}

static void set_logic(struct emu_insn *insn, uint8_t value)
{
    static const uint8_t atomics[] = { [EMU_BOOL_AND] = EMU_ATOMIC_AND,
                                       [EMU_BOOL_OR] = EMU_ATOMIC_OR,
                                       [EMU_BOOL_XOR] = EMU_ATOMIC_XOR };

    insn->boolean = value;
    insn->atomic = atomics[value];
}

// The one-byte field of the instruction that a modifier sets to its value, or a flag that it sets
// to true.
static void set_field(struct emu_insn *insn, const struct emu_modifier *known)
{
#define VALUE(group, field)                                                                        \
    {                                                                                              \
        EMU_GROUP_INDEX_##group, offsetof(struct emu_insn, field), false                           \
    }
#define FLAG(group, field)                                                                         \
    {                                                                                              \
        EMU_GROUP_INDEX_##group, offsetof(struct emu_insn, field), true                            \
    }
    static const struct {
        uint8_t group;
        size_t offset;
        bool flag;
    } fields[] = {
        VALUE(RN, round),
        VALUE(DIRECTED, round),
        VALUE(INTEGRAL, round),
        VALUE(AWAY, round),
        VALUE(COMPARE, compare),
        VALUE(TEST, test),
        VALUE(PLUS, atomic),
        VALUE(EXTREME, atomic),
        VALUE(COUNTER, atomic),
        VALUE(EXCHANGE, atomic),
        VALUE(CAS, atomic),
        VALUE(SPACE, space),
        VALUE(ORDER, order),
        VALUE(SCOPE, scope),
        VALUE(MEMBAR, scope),
        VALUE(VECTOR, lanes),
        VALUE(CLAMP, mode),
        VALUE(PERMUTE, mode),
        VALUE(SHIFTAMT, mode),
        VALUE(SHUFFLE, mode),
        VALUE(ALL, mode),
        VALUE(ANY, mode),
        VALUE(UNI, mode),
        VALUE(BALLOT, mode),
        VALUE(ARRIVE, mode),
        VALUE(TO, mode),
        VALUE(TRANSPOSED, mode),
        VALUE(TILES, lanes),
        VALUE(SHAPE, shape),
        VALUE(DEPEND, mode),
        VALUE(SPARSE, mode),
        VALUE(SCALE, scale),
        FLAG(FTZ, ftz),
        FLAG(SAT, sat),
        FLAG(APPROX, approx),
        FLAG(FULL, full),
        FLAG(NAN, nan),
        FLAG(ABS, abs),
        FLAG(XORSIGN, xorsign),
        FLAG(RELU, relu),
        FLAG(SATFINITE, satfinite),
        FLAG(OOB, oob),
        FLAG(NOFTZ, noftz),
        FLAG(NC, nc),
        FLAG(ALIGNED, aligned),
        FLAG(CC, carry_out),
        FLAG(PLUS_ONE, plus_one),
        FLAG(NO_COMPLETE, no_complete),
        VALUE(CLUSTER_SHARED, space),
        VALUE(FROM_SHARED, space),
    };
#undef VALUE
#undef FLAG

    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        if (fields[k].group == known->group)
            ((unsigned char *)insn)[fields[k].offset] = fields[k].flag ? true : known->value;
    if (known->group == EMU_GROUP_INDEX_LOGIC)
        set_logic(insn, known->value);
    if (known->group == EMU_GROUP_INDEX_SHAPE64) {
        insn->eighths = known->value & 63;
        insn->shape = (uint8_t)(EMU_M64K8 + (known->value >> 6));
    }
    if (known->group == EMU_GROUP_INDEX_ORDER)
        insn->is_volatile = strcmp(known->name, "volatile") == 0;
}

static bool take_modifier(struct emu_parser *p, struct emu_spelled *spelled,
                          const struct emu_token *at, const struct emu_modifier *known)
{
    const emu_groups rounding = EMU_G(RN) | EMU_G(DIRECTED) | EMU_G(AWAY) | EMU_G(INTEGRAL);
    const emu_groups spaces = EMU_G(SPACE) | EMU_G(CLUSTER_SHARED);
    const emu_groups bit = EMU_GROUP_BIT(known->group);

    if (bit & rounding && spelled->groups & rounding)
        return emu_error(p, at, "Multiple rounding modifiers specified");
    if (known->group == EMU_GROUP_INDEX_TYPE) {
        if (spelled->type_count == sizeof spelled->types)
            return emu_error(p, at, "Unexpected instruction types specified for '%.*s'",
                             EMU_TEXT(&spelled->name));
        spelled->types[spelled->type_count++] = known->value;
        return true;
    }
    if (spelled->groups & (bit & spaces ? spaces : bit))
        return emu_error(p, at, "Modifier '.%.*s' conflicts with an earlier one", EMU_TEXT(at));
    spelled->groups |= bit;
    set_field(&spelled->insn, known);
    return true;
}

// .lo and .hi are halves of a product, and comparisons of unsigned integers.
static const struct emu_modifier *in_comparison(const struct emu_modifier *known)
{
    static const struct emu_modifier lo = { "lo", EMU_GROUP_INDEX_COMPARE, EMU_LO, 0, 0 };
    static const struct emu_modifier hi = { "hi", EMU_GROUP_INDEX_COMPARE, EMU_HI, 0, 0 };

    return known->group == EMU_GROUP_INDEX_LO   ? &lo
           : known->group == EMU_GROUP_INDEX_HI ? &hi
                                                : known;
}

// A modifier that occurs twice has another meaning the second time: the source space of cp.async,
// the secondary eviction priority of createpolicy, the layout of B.
static const struct emu_modifier *second(const struct emu_spelled *spelled, emu_groups groups,
                                         const struct emu_modifier *known)
{
    static const struct emu_modifier from = { "global", EMU_GROUP_INDEX_FROM, 0, 0, 0 };
    static const struct emu_modifier evict = { "L2::evict", EMU_GROUP_INDEX_EVICT2, 0, 0, 0 };
    static const struct emu_modifier shared = { "shared::cta", EMU_GROUP_INDEX_FROM_SHARED,
                                                EMU_SHARED, 78, 30 };
    static const struct emu_modifier row = { "row", EMU_GROUP_INDEX_ROW_B, 0, 0, 0 };
    static const struct emu_modifier col = { "col", EMU_GROUP_INDEX_COL_B, 0, 0, 0 };
    const bool again = spelled->groups >> known->group & 1;

    if (known->group == EMU_GROUP_INDEX_SPACE && known->value == EMU_GLOBAL &&
        spelled->groups & EMU_G(CLUSTER_SHARED) && groups & EMU_G(FROM))
        return &from;
    if (known->group == EMU_GROUP_INDEX_SPACE && known->value == EMU_SHARED &&
        strcmp(known->name, "shared::cta") == 0 &&
        (again || spelled->groups & EMU_G(CLUSTER_SHARED)) && groups & EMU_G(FROM_SHARED))
        return &shared;
    if (again && known->group == EMU_GROUP_INDEX_SPACE && known->value == EMU_GLOBAL &&
        groups & EMU_G(FROM))
        return &from;
    if (again && groups & EMU_G(ROW_B) && known->group == EMU_GROUP_INDEX_ROW)
        return &row;
    if (again && groups & EMU_G(COL_B) && known->group == EMU_GROUP_INDEX_COL)
        return &col;
    if (again && known->group == EMU_GROUP_INDEX_EVICT && (known->value & 1) &&
        groups & EMU_G(EVICT2))
        return &evict;
    return known;
}

static bool read_modifiers(struct emu_parser *p, struct emu_spelled *spelled)
{
    for (; p->token.kind == EMU_TOKEN_DOT; emu_next(p)) {
        if (spelled->count == EMU_MOST_MODIFIERS)
            return emu_error(p, &p->token, "Instruction '%.*s' has too many modifiers",
                             EMU_TEXT(&spelled->name));
        spelled->modifiers[spelled->count++] = p->token;
    }
    return true;
}

// The groups of modifiers in any form of the rows.
static emu_groups groups_of(const struct emu_spelling *rows, unsigned count)
{
    emu_groups groups = 0;

    for (unsigned row = 0; row < count; row++)
        for (unsigned k = 0; k < rows[row].form_count; k++) {
            const struct emu_form *form = &rows[row].forms[k];
            groups |= form->must | form->one_of | form->may;
        }
    return groups;
}

static bool take_modifiers(struct emu_parser *p, struct emu_spelled *spelled,
                           const struct emu_spelling *rows, unsigned count)
{
    const emu_groups groups = groups_of(rows, count);

    for (unsigned k = 0; k < spelled->count; k++) {
        const struct emu_token *at = &spelled->modifiers[k];
        const struct emu_modifier *known = emu_modifier_find(at->at, at->length);
        if (!known)
            return emu_error(p, at, "Unknown modifier '.%.*s' of instruction '%.*s'" EMU_NOT_PTX,
                             EMU_TEXT(at), EMU_TEXT(&spelled->name));
        spelled->known[k] =
            groups & EMU_G(COMPARE) ? in_comparison(known) : second(spelled, groups, known);
        if (!take_modifier(p, spelled, at, spelled->known[k]))
            return false;
    }
    return true;
}

bool emu_parse_modifiers(struct emu_parser *p, struct emu_spelled *spelled,
                         const struct emu_spelling *rows, unsigned count)
{
    return read_modifiers(p, spelled) && check_supported(p, spelled, rows, count) &&
           take_modifiers(p, spelled, rows, count);
}

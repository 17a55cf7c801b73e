// SPDX-License-Identifier: MIT
// The form that an instruction's spelling agrees with, and why none does.
#include "parse.h"

#include <stdio.h>
#include <string.h>

// How far a form agrees with what is written.
enum agreement { AGREES_NOT, AGREES_REQUIRED, AGREES_TYPES, AGREES_ONE_OF, AGREES };

static bool types_agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const unsigned wanted = (form->types ? 1u : 0u) + (form->second ? 1u : 0u);

    if (spelled->type_count != wanted)
        return false;
    return (!form->types || form->types >> spelled->types[0] & 1) &&
           (!form->second || form->second >> spelled->types[1] & 1);
}

static enum agreement agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const uint64_t chosen = spelled->groups & form->one_of;

    if (!form->operands || (spelled->groups & form->must) != form->must)
        return AGREES_NOT;
    if (!types_agree(spelled, form))
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
    const uint64_t missing = (form->must ? form->must : form->one_of) & ~spelled->groups;
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
    const uint64_t fine = form->must | form->one_of | form->may | EMU_G(TYPE);

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

bool emu_check_floors(struct emu_parser *p, const struct emu_spelled *spelled,
                      const struct emu_form *form)
{
    if (!floors(p, spelled, &spelled->name, NULL, form->isa, form->sm))
        return false;
    if (form->own && !p->module->sm_suffix)
        return emu_error(p, &spelled->name, "Feature '%.*s' requires .target sm_%da",
                         EMU_TEXT(&spelled->name), form->sm);
    for (unsigned k = 0; k < spelled->count && spelled->known[k]; k++)
        if (!floors(p, spelled, &spelled->modifiers[k], spelled->known[k]->name,
                    spelled->known[k]->isa, spelled->known[k]->sm))
            return false;
    return true;
}

static unsigned written_count(const struct emu_spelled *spelled, const struct emu_form *form,
                              const struct emu_written_list *list)
{
    unsigned count = 0;

    for (const char *c = form->operands; *c; c++)
        count += *c != '=' && (*c != 'q' || (list->count && list->at[0].pair)) &&
                 (*c != 'h' || spelled->groups & EMU_G(HINT));
    return count;
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
    char what[64] = "";

    snprintf(what, sizeof what, "%s%s", *form->lacks ? "." : "", form->lacks);
    for (char *c = what; *c; c++)
        *c = *c == ' ' ? '.' : *c;
    return emu_error(p, &spelled->name, "Instruction '%.*s%s' is not supported by the emulator",
                     EMU_TEXT(&spelled->name), what);
}

bool emu_check_supported(struct emu_parser *p, const struct emu_spelled *spelled,
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
            if (found == AGREES && written_count(spelled, form, list) == list->count) {
                if (form->lacks)
                    return emu_check_floors(p, spelled, form) &&
                           refuse_unsupported(p, spelled, form);
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

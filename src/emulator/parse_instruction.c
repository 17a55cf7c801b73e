// SPDX-License-Identifier: MIT
// An instruction: its spelling against the table, then its operands against the form.
#include "parse.h"

#include <string.h>

// ---- modifiers ----------------------------------------------------------------------------------

const struct emu_modifier *emu_spelled_in(const struct emu_spelled *spelled, uint64_t group)
{
    for (unsigned k = 0; k < spelled->count; k++)
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

// The field of the instruction that a modifier sets.
static void set_field(struct emu_insn *insn, const struct emu_modifier *known)
{
    const uint8_t value = known->value;

    switch (known->group) {
    case EMU_GROUP_INDEX_RN:
    case EMU_GROUP_INDEX_DIRECTED:
    case EMU_GROUP_INDEX_INTEGRAL:
        insn->round = value;
        break;
    case EMU_GROUP_INDEX_FTZ:
        insn->ftz = true;
        break;
    case EMU_GROUP_INDEX_SAT:
        insn->sat = true;
        break;
    case EMU_GROUP_INDEX_APPROX:
        insn->approx = true;
        break;
    case EMU_GROUP_INDEX_FULL:
        insn->full = true;
        break;
    case EMU_GROUP_INDEX_NAN:
        insn->nan = true;
        break;
    case EMU_GROUP_INDEX_RELU:
        insn->relu = true;
        break;
    case EMU_GROUP_INDEX_COMPARE:
        insn->compare = value;
        break;
    case EMU_GROUP_INDEX_LOGIC:
        set_logic(insn, value);
        break;
    case EMU_GROUP_INDEX_TEST:
        insn->test = value;
        break;
    case EMU_GROUP_INDEX_PLUS:
    case EMU_GROUP_INDEX_EXTREME:
    case EMU_GROUP_INDEX_COUNTER:
    case EMU_GROUP_INDEX_EXCHANGE:
    case EMU_GROUP_INDEX_CAS:
        insn->atomic = value;
        break;
    case EMU_GROUP_INDEX_SPACE:
        insn->space = value;
        break;
    case EMU_GROUP_INDEX_NC:
        insn->nc = true;
        break;
    case EMU_GROUP_INDEX_ORDER:
        insn->order = value;
        insn->is_volatile = strcmp(known->name, "volatile") == 0;
        break;
    case EMU_GROUP_INDEX_SCOPE:
    case EMU_GROUP_INDEX_MEMBAR:
        insn->scope = value;
        break;
    case EMU_GROUP_INDEX_VECTOR:
        insn->lanes = value;
        break;
    case EMU_GROUP_INDEX_ALIGNED:
        insn->aligned = true;
        break;
    case EMU_GROUP_INDEX_UNI:
        insn->uni = true;
        break;
    case EMU_GROUP_INDEX_CC:
        insn->carry_out = true;
        break;
    case EMU_GROUP_INDEX_CLAMP:
    case EMU_GROUP_INDEX_PERMUTE:
        insn->mode = value;
        break;
    default:
        break;
    }
}

static bool add_modifier(struct emu_parser *p, struct emu_spelled *spelled,
                         const struct emu_token *at, const struct emu_modifier *known)
{
    const uint64_t rounding = EMU_G(RN) | EMU_G(DIRECTED) | EMU_G(INTEGRAL);
    const uint64_t bit = UINT64_C(1) << known->group;

    if (spelled->count == EMU_MOST_MODIFIERS)
        return emu_error(p, at, "Instruction '%.*s' has too many modifiers",
                         EMU_TEXT(&spelled->name));
    if (bit & rounding && spelled->groups & rounding)
        return emu_error(p, at, "Multiple rounding modifiers specified");
    if (known->group == EMU_GROUP_INDEX_UNSUPPORTED)
        return emu_error(p, at, "Modifier '.%.*s' is not supported by the emulator", EMU_TEXT(at));
    spelled->modifiers[spelled->count] = *at;
    spelled->known[spelled->count++] = known;
    if (known->group == EMU_GROUP_INDEX_TYPE) {
        if (spelled->type_count == 3)
            return emu_error(p, at, "Unexpected instruction types specified for '%.*s'",
                             EMU_TEXT(&spelled->name));
        spelled->types[spelled->type_count++] = known->value;
        return true;
    }
    if (spelled->groups & bit)
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

static bool parse_modifiers(struct emu_parser *p, struct emu_spelled *spelled)
{
    const bool comparison =
        emu_token_is_name(&spelled->name, "setp") || emu_token_is_name(&spelled->name, "set");

    while (p->token.kind == EMU_TOKEN_DOT) {
        const struct emu_token at = p->token;
        const struct emu_modifier *known = emu_modifier_find(at.at, at.length);
        if (!known)
            return emu_error(p, &at, "Unknown modifier '.%.*s'", EMU_TEXT(&at));
        if (!add_modifier(p, spelled, &at, comparison ? in_comparison(known) : known))
            return false;
        emu_next(p);
    }
    return true;
}

static bool parse_guard(struct emu_parser *p, struct emu_spelled *spelled)
{
    spelled->insn.guard = EMU_NO_REGISTER;
    if (!emu_take(p, '@'))
        return true;
    spelled->insn.guard_negated = emu_take(p, '!');
    if (!emu_parse_name(p, &spelled->guard))
        return false;
    const struct emu_name *name = emu_find(p, &spelled->guard);
    const struct emu_function *f = &p->module->functions[p->body->function];
    if (!name || name->kind != EMU_NAME_REGISTER || f->registers[name->index].type != EMU_PRED)
        return emu_error(p, &spelled->guard, "Predicate expression expected");
    spelled->insn.guard = name->index;
    return true;
}

// ---- the form -----------------------------------------------------------------------------------

// How far a form agrees with what is written.
enum agreement { AGREES_NOT, AGREES_REQUIRED, AGREES_TYPES, AGREES_ONE_OF, AGREES };

static bool types_agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const unsigned wanted = (form->types ? 1u : 0u) + (form->types2 ? 1u : 0u);

    if (spelled->type_count != wanted)
        return false;
    return (!form->types || form->types >> spelled->types[0] & 1) &&
           (!form->types2 || form->types2 >> spelled->types[1] & 1);
}

static enum agreement agree(const struct emu_spelled *spelled, const struct emu_form *form)
{
    const uint64_t chosen = spelled->groups & form->one_of;

    if ((spelled->groups & form->required) != form->required)
        return AGREES_NOT;
    if (!types_agree(spelled, form))
        return AGREES_REQUIRED;
    if (form->one_of && (chosen == 0 || (chosen & (chosen - 1))))
        return AGREES_TYPES;
    if (spelled->groups & ~(form->required | form->one_of | form->allowed))
        return AGREES_ONE_OF;
    return AGREES;
}

static bool refuse_required(struct emu_parser *p, const struct emu_spelled *spelled,
                            const struct emu_form *form)
{
    const uint64_t missing = (form->required ? form->required : form->one_of) & ~spelled->groups;
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

// Modifiers that PTX has for an instruction and the emulator does not.
static bool known_elsewhere(const struct emu_token *name, unsigned group)
{
    static const struct {
        const char *name;
        uint8_t group;
    } rows[] = {
        { "atom", EMU_GROUP_INDEX_VECTOR }, { "lop3", EMU_GROUP_INDEX_LOGIC },
        { "max", EMU_GROUP_INDEX_RELU },    { "min", EMU_GROUP_INDEX_RELU },
        { "red", EMU_GROUP_INDEX_VECTOR },
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].group == group && emu_token_is_name(name, rows[k].name))
            return true;
    return false;
}

static bool refuse_modifier(struct emu_parser *p, const struct emu_spelled *spelled,
                            const struct emu_form *form)
{
    const uint64_t fine = form->required | form->one_of | form->allowed | EMU_G(TYPE);

    for (unsigned k = 0; k < spelled->count; k++) {
        const unsigned group = spelled->known[k]->group;
        const bool rounds = group == EMU_GROUP_INDEX_DIRECTED || group == EMU_GROUP_INDEX_INTEGRAL;
        if (fine >> group & 1)
            continue;
        if (rounds)
            return emu_error(p, &spelled->modifiers[k],
                             "Illegal rounding modifier for instruction '%.*s'",
                             EMU_TEXT(&spelled->name));
        return emu_error(p, &spelled->modifiers[k],
                         known_elsewhere(&spelled->name, group)
                             ? "Modifier '.%s' of instruction '%.*s' is not supported by the "
                               "emulator"
                             : "Illegal modifier '.%s' for instruction '%.*s'",
                         spelled->known[k]->name, EMU_TEXT(&spelled->name));
    }
    return emu_error(p, &spelled->name, "Modifiers mismatch for instruction '%.*s'",
                     EMU_TEXT(&spelled->name));
}

static bool refuse(struct emu_parser *p, const struct emu_spelled *spelled,
                   const struct emu_form *nearest, enum agreement best)
{
    switch (best) {
    case AGREES_NOT:
        return refuse_required(p, spelled, nearest);
    case AGREES_REQUIRED:
        for (unsigned k = 0; k < spelled->type_count; k++)
            if ((spelled->types[k] == EMU_F16X2 || spelled->types[k] == EMU_BF16X2) &&
                spelled->groups & EMU_G(COMPARE))
                return emu_error(p, &spelled->name,
                                 "Comparisons of packed halves are not supported by the emulator");
        return emu_error(p, &spelled->name, "Unexpected instruction types specified for '%.*s'",
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

static bool check_floors(struct emu_parser *p, const struct emu_spelled *spelled,
                         const struct emu_form *form)
{
    if (!floors(p, spelled, &spelled->name, NULL, form->isa, form->sm))
        return false;
    for (unsigned k = 0; k < spelled->count; k++)
        if (!floors(p, spelled, &spelled->modifiers[k], spelled->known[k]->name,
                    spelled->known[k]->isa, spelled->known[k]->sm))
            return false;
    return true;
}

static unsigned written_count(const struct emu_form *form, const struct emu_written_list *list)
{
    unsigned count = 0;

    for (const char *c = form->operands; *c; c++)
        count += *c != '=' && (*c != 'q' || (list->count && list->at[0].pair));
    return count;
}

// The form that agrees in spelling and in the number of operands.
static const struct emu_form *choose(struct emu_parser *p, const struct emu_spelled *spelled,
                                     const struct emu_form *forms, unsigned count,
                                     const struct emu_written_list *list)
{
    const struct emu_form *nearest = forms;
    enum agreement best = AGREES_NOT;

    for (unsigned k = 0; k < count; k++) {
        const enum agreement found = agree(spelled, &forms[k]);
        if (found == AGREES && written_count(&forms[k], list) == list->count)
            return &forms[k];
        if (found > best) {
            best = found;
            nearest = &forms[k];
        }
    }
    if (best == AGREES)
        emu_error(p, &spelled->name, "Arguments mismatch for instruction '%.*s'",
                  EMU_TEXT(&spelled->name));
    else
        refuse(p, spelled, nearest, best);
    return NULL;
}

// ---- all of it ----------------------------------------------------------------------------------

bool emu_append(struct emu_parser *p, const struct emu_insn *insn,
                const struct emu_operand *operands)
{
    struct emu_body *body = p->body;
    struct emu_function *f = &p->module->functions[body->function];
    const unsigned count = (unsigned)insn->dst_count + insn->src_count;
    struct emu_insn *added =
        emu_push(p, &f->insns, &f->insn_count, &body->insn_capacity, sizeof *added);

    if (!added)
        return false;
    *added = *insn;
    added->operands = f->operand_count;
    for (unsigned k = 0; k < count; k++) {
        struct emu_operand *operand =
            emu_push(p, &f->operands, &f->operand_count, &body->operand_capacity, sizeof *operand);
        if (!operand)
            return false;
        *operand = operands[k];
    }
    return true;
}

static bool finish(struct emu_parser *p, struct emu_spelled *spelled, const struct emu_form *form,
                   const struct emu_written_list *list)
{
    struct emu_operand operands[EMU_MOST_INSN_OPERANDS];
    struct emu_insn *insn = &spelled->insn;
    bool handled = false;

    insn->opcode = form->opcode;
    insn->type = spelled->types[0];
    insn->source_type = spelled->type_count > 1 ? spelled->types[1] : spelled->types[0];
    if (!check_floors(p, spelled, form) || !emu_param_access(p, spelled, list, &handled))
        return false;
    if (handled)
        return true;
    memset(operands, 0, sizeof operands);
    return emu_type_operands(p, spelled, form, list, operands) &&
           emu_check(p, spelled, form, operands) && emu_append(p, insn, operands);
}

bool emu_parse_instruction(struct emu_parser *p)
{
    struct emu_spelled spelled;
    struct emu_written_list list;
    unsigned count;

    memset(&spelled, 0, sizeof spelled);
    if (!parse_guard(p, &spelled))
        return false;
    spelled.insn.line = p->token.line;
    spelled.insn.scope = EMU_SCOPE_GPU;
    spelled.insn.lanes = 1;
    if (!emu_parse_name(p, &spelled.name))
        return false;
    const struct emu_form *forms = emu_forms_find(spelled.name.at, spelled.name.length, &count);
    if (!forms) {
        const bool known = emu_is_unsupported(spelled.name.at, spelled.name.length);
        return emu_error(p, &spelled.name,
                         known ? "Instruction '%.*s' is not supported by the emulator"
                               : "Not a name of any known instruction: '%.*s'",
                         EMU_TEXT(&spelled.name));
    }
    if (!parse_modifiers(p, &spelled))
        return false;
    if (forms->opcode == EMU_OP_CALL)
        return emu_parse_call(p, &spelled);
    if (!emu_parse_operands(p, &list))
        return false;
    if (!emu_token_is(&p->token, ';'))
        return emu_syntax_error(p);
    const struct emu_form *form = choose(p, &spelled, forms, count, &list);
    return form && finish(p, &spelled, form, &list);
}

// SPDX-License-Identifier: MIT
// An instruction: its spelling against the table, then its operands against the form.
#include "parse.h"

#include <string.h>

// ---- modifiers ----------------------------------------------------------------------------------

const struct emu_modifier *emu_spelled_in(const struct emu_spelled *spelled, uint64_t group)
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

// The field of the instruction, one byte, that a modifier sets: to its value, or a flag to true.
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
        VALUE(RN, round),        VALUE(DIRECTED, round), VALUE(INTEGRAL, round),
        VALUE(COMPARE, compare), VALUE(TEST, test),      VALUE(PLUS, atomic),
        VALUE(EXTREME, atomic),  VALUE(COUNTER, atomic), VALUE(EXCHANGE, atomic),
        VALUE(CAS, atomic),      VALUE(SPACE, space),    VALUE(ORDER, order),
        VALUE(SCOPE, scope),     VALUE(MEMBAR, scope),   VALUE(VECTOR, lanes),
        VALUE(CLAMP, mode),      VALUE(PERMUTE, mode),   FLAG(FTZ, ftz),
        FLAG(SAT, sat),          FLAG(APPROX, approx),   FLAG(FULL, full),
        FLAG(NAN, nan),          FLAG(RELU, relu),       FLAG(NC, nc),
        FLAG(ALIGNED, aligned),  FLAG(UNI, uni),         FLAG(CC, carry_out),
    };
#undef VALUE
#undef FLAG

    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        if (fields[k].group == known->group)
            ((unsigned char *)insn)[fields[k].offset] = fields[k].flag ? true : known->value;
    if (known->group == EMU_GROUP_INDEX_LOGIC)
        set_logic(insn, known->value);
    if (known->group == EMU_GROUP_INDEX_ORDER)
        insn->is_volatile = strcmp(known->name, "volatile") == 0;
}

static bool take_modifier(struct emu_parser *p, struct emu_spelled *spelled,
                          const struct emu_token *at, const struct emu_modifier *known)
{
    const uint64_t rounding = EMU_G(RN) | EMU_G(DIRECTED) | EMU_G(INTEGRAL);
    const uint64_t bit = UINT64_C(1) << known->group;

    if (bit & rounding && spelled->groups & rounding)
        return emu_error(p, at, "Multiple rounding modifiers specified");
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

// What stands twice in an instruction means something else the second time: where cp.async copies
// from, and the eviction of what createpolicy leaves over.
static const struct emu_modifier *second(const struct emu_spelled *spelled,
                                         const struct emu_modifier *known)
{
    static const struct emu_modifier from = { "global", EMU_GROUP_INDEX_FROM, 0, 0, 0 };
    static const struct emu_modifier evict = { "L2::evict", EMU_GROUP_INDEX_EVICT2, 0, 0, 0 };
    const bool again = spelled->groups >> known->group & 1;

    if (again && known->group == EMU_GROUP_INDEX_SPACE && known->value == EMU_GLOBAL &&
        emu_token_is_name(&spelled->name, "cp"))
        return &from;
    if (again && known->group == EMU_GROUP_INDEX_EVICT && (known->value & 1) &&
        emu_token_is_name(&spelled->name, "createpolicy"))
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

static bool take_modifiers(struct emu_parser *p, struct emu_spelled *spelled)
{
    const bool comparison =
        emu_token_is_name(&spelled->name, "setp") || emu_token_is_name(&spelled->name, "set");

    for (unsigned k = 0; k < spelled->count; k++) {
        const struct emu_token *at = &spelled->modifiers[k];
        const struct emu_modifier *known = emu_modifier_find(at->at, at->length);
        if (!known)
            return emu_error(p, at, "Unknown modifier '.%.*s' of instruction '%.*s'" EMU_NOT_PTX,
                             EMU_TEXT(at), EMU_TEXT(&spelled->name));
        spelled->known[k] = comparison ? in_comparison(known) : second(spelled, known);
        if (!take_modifier(p, spelled, at, spelled->known[k]))
            return false;
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

static bool finish(struct emu_parser *p, struct emu_spelled *spelled,
                   const struct emu_choice *choice, const struct emu_written_list *list)
{
    const struct emu_form *form = choice->form;
    struct emu_operand operands[EMU_MOST_INSN_OPERANDS];
    struct emu_insn *insn = &spelled->insn;
    bool handled = false;

    insn->letters = form->operands;
    insn->opcode = (uint16_t)choice->opcode;
    insn->type = spelled->types[0];
    insn->source_type = spelled->type_count > 1 ? spelled->types[1] : spelled->types[0];
    if (!emu_check_floors(p, spelled, form) || !emu_param_access(p, spelled, list, &handled))
        return false;
    if (handled)
        return true;
    memset(operands, 0, sizeof operands);
    return emu_type_operands(p, spelled, form, list, operands) && emu_check(p, spelled, operands) &&
           emu_append(p, insn, operands);
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
    const struct emu_spelling *rows =
        emu_spellings_find(spelled.name.at, spelled.name.length, &count);
    if (!rows)
        return emu_error(p, &spelled.name, "Not a name of any known instruction: '%.*s'",
                         EMU_TEXT(&spelled.name));
    if (!read_modifiers(p, &spelled) || !emu_check_supported(p, &spelled, rows, count) ||
        !take_modifiers(p, &spelled))
        return false;
    if (rows->opcode == EMU_OP_CALL)
        return emu_parse_call(p, &spelled);
    if (!emu_parse_operands(p, &list))
        return false;
    if (!emu_token_is(&p->token, ';'))
        return emu_syntax_error(p);
    struct emu_choice choice;
    return emu_choose_form(p, &spelled, rows, count, &list, &choice) &&
           finish(p, &spelled, &choice, &list);
}

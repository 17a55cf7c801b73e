// SPDX-License-Identifier: MIT
// An instruction: its guard, its mnemonic, its operands.
#include "instruction.h"

#include "body.h"
#include "call.h"
#include "names.h"
#include "rules.h"
#include "typing.h"
#include "wide.h"

#include <string.h>

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

static bool finish(struct emu_parser *p, struct emu_spelled *spelled,
                   const struct emu_choice *choice, const struct emu_written_list *list)
{
    const struct emu_form *form = choice->form;
    struct emu_operand operands[EMU_MOST_INSN_OPERANDS];
    struct emu_insn *insn = &spelled->insn;
    bool handled = false;

    spelled->form = form;
    insn->letters = form->operands;
    insn->mode = form->mode ? form->mode : insn->mode;
    insn->opcode = (uint16_t)choice->opcode;
    insn->type = spelled->types[0];
    insn->source_type = spelled->type_count > 1 ? spelled->types[1] : spelled->types[0];
    insn->factor_type = spelled->types[2];
    insn->sum_type = spelled->type_count > 3 ? spelled->types[3] : insn->type;
    if (form->factors) {
        insn->sum_type = insn->source_type;
        insn->source_type = insn->factor_type = form->factors;
    }
    if (spelled->types[0] == EMU_B128)
        insn->type = insn->source_type = EMU_B64;
    if (!emu_check_floors(p, spelled, form) || !emu_param_access(p, spelled, list, &handled) ||
        !emu_wide_move(p, spelled, list, &handled))
        return false;
    if (handled)
        return true;
    memset(operands, 0, EMU_USUAL_INSN_OPERANDS * sizeof *operands); // rules look behind the last
    return emu_type_operands(p, spelled, list, operands) && emu_check(p, spelled, operands) &&
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
    if (!emu_parse_modifiers(p, &spelled, rows, count))
        return false;
    if (rows->forms->operands && *rows->forms->operands == 'c')
        return emu_parse_call(p, &spelled);
    if (!emu_parse_operands(p, &list))
        return false;
    if (!emu_token_is(&p->token, ';'))
        return emu_syntax_error(p);
    struct emu_choice choice = { EMU_OP_COUNT, NULL };
    return emu_choose_form(p, &spelled, rows, count, &list, &choice) &&
           finish(p, &spelled, &choice, &list);
}

// SPDX-License-Identifier: MIT
// Registers of 128 bits, which are kept in two of 64: their moves.
#include "wide.h"

#include "body.h"
#include "type.h"

static bool mismatch(struct emu_parser *p, const struct emu_spelled *spelled,
                     const struct emu_written *w)
{
    return emu_error(p, &w->at, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&spelled->name));
}

// One register, constant or sink of a half.
static bool put(struct emu_parser *p, const struct emu_spelled *spelled,
                const struct emu_written *w, enum emu_type type, bool destination,
                struct emu_operand *operand)
{
    const struct emu_function *f = &p->module->functions[p->body->function];

    if (w->syntax == EMU_SYNTAX_SINK && destination) {
        *operand = (struct emu_operand) { .kind = EMU_OPERAND_SINK };
        return true;
    }
    if (w->syntax == EMU_SYNTAX_CONSTANT && !destination) {
        *operand = (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE };
        return emu_constant_in(&w->constant, type, &operand->bits) || mismatch(p, spelled, w);
    }
    if (w->syntax != EMU_SYNTAX_NAME || !w->name || w->name->kind != EMU_NAME_REGISTER ||
        w->negated || w->minus || w->offset_given || w->select ||
        !emu_fits((enum emu_type)f->registers[w->name->index].type, type, false))
        return mismatch(p, spelled, w);
    *operand = (struct emu_operand) { .kind = EMU_OPERAND_REGISTER, .index = w->name->index };
    return true;
}

// The operands of half 0 or 1; 0 after an error.
static unsigned put_half(struct emu_parser *p, const struct emu_spelled *spelled,
                         const struct emu_written_list *list, const struct emu_written *w,
                         unsigned half, bool destination, struct emu_operand operands[2])
{
    if (w->syntax == EMU_SYNTAX_CONSTANT && half) {
        const bool negative = !w->constant.is_unsigned && w->constant.bits >> 63;
        operands[0] = (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE,
                                             .bits = negative ? UINT64_MAX : 0 };
        return 1;
    }
    if (w->syntax == EMU_SYNTAX_CONSTANT)
        return put(p, spelled, w, EMU_B64, destination, operands);
    if (w->syntax != EMU_SYNTAX_VECTOR || (w->lanes != 2 && w->lanes != 4)) {
        mismatch(p, spelled, w);
        return 0;
    }
    const unsigned count = w->lanes / 2;
    const struct emu_written *first = &list->elements[w->first + half * count];
    for (unsigned k = 0; k < count; k++)
        if (!put(p, spelled, &first[k], count == 2 ? EMU_B32 : EMU_B64, destination, &operands[k]))
            return 0;
    return count;
}

bool emu_wide_move(struct emu_parser *p, struct emu_spelled *spelled,
                   const struct emu_written_list *list, bool *handled)
{
    const struct emu_written *to = &list->at[0], *from = &list->at[1];

    if (spelled->insn.letters[0] != 'x')
        return true;
    *handled = true;
    if (!to->wide && !from->wide)
        return mismatch(p, spelled, from);
    for (unsigned half = 0; half < 2; half++) {
        struct emu_operand operands[4];
        struct emu_insn insn = spelled->insn;
        insn.letters = "M=M";
        insn.type = insn.source_type = EMU_B64;
        insn.lanes = 1;
        insn.dst_count = (uint16_t)put_half(p, spelled, list, to, half, true, operands);
        insn.src_count = insn.dst_count ? (uint16_t)put_half(p, spelled, list, from, half, false,
                                                             operands + insn.dst_count)
                                        : 0;
        if (!insn.src_count || !emu_append(p, &insn, operands))
            return false;
    }
    return true;
}

// SPDX-License-Identifier: MIT
// Operands that are places: addresses, variables, labels.
#include "typed.h"

static bool wrong_space(const struct emu_typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at,
                     "State space mismatch between instruction and address in instruction '%.*s'",
                     EMU_TEXT(&t->spelled->name));
}

static bool put_symbol_address(struct emu_typing *t, const struct emu_written *w)
{
    struct emu_insn *insn = &t->spelled->insn;
    const struct emu_symbol *symbol = &t->p->module->symbols[w->name->index];

    if (insn->space == EMU_GENERIC)
        insn->space = symbol->space; // the variable's name says which
    if (insn->space != symbol->space)
        return wrong_space(t, w);
    return emu_refer(t->p, w->name->index, false, &w->at) &&
           emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SYMBOL_ADDRESS,
                                                     .index = w->name->index,
                                                     .offset = w->offset });
}

bool emu_put_address(struct emu_typing *t, const struct emu_written *w)
{
    if (w->syntax == EMU_SYNTAX_NAME && w->name && w->name->kind == EMU_NAME_SYMBOL &&
        w->offset_given)
        return put_symbol_address(t, w); // a[1], without brackets
    if (w->syntax != EMU_SYNTAX_ADDRESS)
        return emu_mismatch(t, w);
    if (!w->name) {
        if (t->spelled->insn.space != EMU_LOCAL)
            return emu_error(t->p, &w->at,
                             "Immediate addresses allowed only for .local state space");
        return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_ADDRESS,
                                                         .index = EMU_NO_REGISTER,
                                                         .offset = w->offset });
    }
    if (w->name->kind == EMU_NAME_SYMBOL)
        return put_symbol_address(t, w);
    if (w->name->kind == EMU_NAME_PARAM)
        return wrong_space(t, w);
    const enum emu_type type = emu_declared_type(t, w);
    if (emu_bits(type) < 32 || emu_is_float(type))
        return emu_error(t->p, &w->at,
                         "Illegal to use symbol '%.*s' as address operand. Use integer or bit only",
                         EMU_TEXT(&w->at));
    const uint8_t space = t->spelled->insn.space;
    if (emu_bits(type) < 64 && (space == EMU_GENERIC || space == EMU_GLOBAL))
        return emu_error(t->p, &w->at,
                         "32-bit addresses are for .shared, .local, .const and .param");
    return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_ADDRESS,
                                                     .index = w->name->index,
                                                     .offset = w->offset });
}

// A register or the address of a variable: mov and cvta.
bool emu_put_movable(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const struct emu_insn *insn = &t->spelled->insn;

    if (w->syntax != EMU_SYNTAX_NAME || !w->name)
        return emu_put_plain(t, w, wanted, false, false);
    if (w->name->kind == EMU_NAME_FUNCTION)
        return emu_error(t->p, &w->at, "Addresses of functions are not supported by the emulator");
    if (w->name->kind == EMU_NAME_PARAM)
        return emu_error(t->p, &w->at,
                         "The address of a parameter of a function is not supported by the "
                         "emulator");
    if (w->name->kind != EMU_NAME_SYMBOL)
        return emu_put_plain(t, w, wanted, false, false);
    const struct emu_symbol *symbol = &t->p->module->symbols[w->name->index];
    if (emu_is_float(wanted) || emu_bits(wanted) < 32 || t->destination || w->negated)
        return emu_mismatch(t, w);
    if (insn->opcode == EMU_OP_CVTA && insn->space != symbol->space)
        return wrong_space(t, w);
    if (emu_bits(wanted) < 64 && symbol->space == EMU_GLOBAL)
        return emu_error(t->p, &w->at,
                         "32-bit addresses are for .shared, .local, .const and .param");
    return emu_refer(t->p, w->name->index, false, &w->at) &&
           emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SYMBOL,
                                                     .index = w->name->index,
                                                     .offset = w->offset });
}

bool emu_put_label(struct emu_typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || w->negated ||
        (w->name && w->name->kind == EMU_NAME_REGISTER))
        return emu_error(t->p, &w->at, "Label expected for argument 0 of instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    return emu_use_label(t->p, &w->at, false);
}

bool emu_put_pointer(struct emu_typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || !w->name || w->name->kind != EMU_NAME_REGISTER)
        return w->syntax == EMU_SYNTAX_NAME && !w->name ? emu_unknown(t, w) : emu_mismatch(t, w);
    const enum emu_type type = emu_declared_type(t, w);
    t->spelled->insn.type = emu_bits(type) == 32 ? EMU_U32 : EMU_U64;
    return emu_put_register(t, w, (enum emu_type)t->spelled->insn.type, false);
}

// Of brx: the list is what the instruction jumps by.
bool emu_put_targets(struct emu_typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || !w->name)
        return w->syntax == EMU_SYNTAX_NAME ? emu_unknown(t, w) : emu_mismatch(t, w);
    if (w->name->kind != EMU_NAME_TARGETS)
        return emu_mismatch(t, w);
    t->spelled->insn.target = w->name->index;
    t->spelled->insn.target_count = w->name->count;
    return true;
}

bool emu_put_global_address(struct emu_typing *t, const struct emu_written *w)
{
    const uint8_t space = t->spelled->insn.space;

    t->spelled->insn.space = EMU_GLOBAL;
    const bool put = emu_put_address(t, w);
    t->spelled->insn.space = space;
    return put;
}

// SPDX-License-Identifier: MIT
// The operands of a random program's nodes.
#include "random_program_plan.h"

bool plan_sees(const struct plan *g, ptx_type type)
{
    for (unsigned k = 0; k < g->seen; k++)
        if (g->visible[k].type == type)
            return true;
    return false;
}

struct operand plan_constant(ptx_type type, uint64_t bits)
{
    return (struct operand) { .source = OPERAND_CONSTANT, .type = type, .bits = bits };
}

struct operand plan_operand(struct plan *g, ptx_type type)
{
    const unsigned way = plan_below(g, 100);

    if (plan_sees(g, type) && way < 78) {
        const bool recent = way < 40;
        for (;;) {
            const unsigned k = recent ? g->seen - 1 - plan_below(g, g->seen < 6 ? g->seen : 6)
                                      : plan_below(g, g->seen);
            if (g->visible[k].type == type)
                return g->visible[k];
            for (unsigned j = g->seen; recent && j-- > 0;)
                if (g->visible[j].type == type)
                    return g->visible[j];
        }
    }
    if (way >= 92)
        return plan_constant(type, program_value(&g->r, type));
    const enum operand_source source =
        type == PTX_U32 && way >= 84 ? OPERAND_SPECIAL : OPERAND_INPUT;
    return (struct operand) { .source = source, .type = type, .bits = random_u64(&g->r) };
}

struct operand plan_place(struct plan *g)
{
    struct operand o = plan_operand(g, PTX_U32);
    return o.source == OPERAND_CONSTANT || plan_below(g, 2)
               ? plan_constant(PTX_U32, plan_below(g, 32))
               : o;
}

ptx_type plan_any_type(struct plan *g, uint32_t without)
{
    for (;;) {
        const ptx_type type = op_type(1 + plan_below(g, OP_TYPES - 1));
        if (!(without >> type & 1))
            return type;
    }
}

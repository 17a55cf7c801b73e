// SPDX-License-Identifier: MIT
#include "random_program.h"

#include <string.h>

static void need(struct program *p, unsigned id)
{
    const struct node *n = &p->node[id];

    if (p->needed[id])
        return;
    p->needed[id] = true;
    if (n->kind == NODE_CALL)
        for (unsigned k = p->function[n->a].begin; k < p->function[n->a].end; k++)
            need(p, k);
    for (unsigned k = 0; k < NODE_OPERANDS; k++)
        if (n->x[k].source == OPERAND_NODE || n->x[k].source == OPERAND_INDEX)
            need(p, n->x[k].node);
    for (unsigned k = 0; k < 2; k++)
        if (n->result[k].source == OPERAND_NODE || n->result[k].source == OPERAND_INDEX)
            need(p, n->result[k].node);
}

void program_cut(struct program *p, unsigned last)
{
    const unsigned step = last < p->steps ? last : p->steps - 1;

    memset(p->needed, 0, sizeof p->needed);
    need(p, p->step[step]);
    for (unsigned id = 0; p->returns && id < p->step[step]; id++)
        if (p->node[id].kind == NODE_RETURN)
            need(p, id);
}

// SPDX-License-Identifier: MIT
// What only later programs have: calls of rows, functions and their calls.
#include "random_program_plan.h"

#include <string.h>

// A function of a text. A program about messages has no other call in divergent code.
static bool calls_text(const struct program_row *row)
{
    return !strcmp(row->name, "asm_module");
}

void plan_row(struct plan *g, struct node *n)
{
    const struct program_row *row;

    do
        row = &program_rows[n->c.what = g->on_subject
                                            ? program_subject_row(g->p->subject, plan_below(g, 64))
                                            : plan_below(g, program_row_count)];
    while ((row->together && (g->by != BY_BLOCK || g->left)) ||
           (g->p->subject == SUBJECT_MESSAGES && calls_text(row)));
    g->p->subjects += g->on_subject && !g->in_function;
    n->type = row->result;
    for (unsigned k = 0; k < NODE_OPERANDS && row->operand[k]; k++)
        n->x[k] = plan_operand(g, row->operand[k]);
}

static bool fits(const struct plan *g, unsigned f)
{
    return !g->p->function[f].together || (g->by == BY_BLOCK && !g->left);
}

bool plan_can_call(const struct plan *g)
{
    for (unsigned f = 0; f < g->p->functions; f++)
        if (fits(g, f))
            return true;
    return false;
}

void plan_call(struct plan *g, struct node *n)
{
    do
        n->a = plan_below(g, g->p->functions);
    while (!fits(g, n->a));
    const struct program_function *f = &g->p->function[n->a];
    n->type = f->result.type;
    for (unsigned k = 0; k < f->params; k++)
        n->x[k] = plan_operand(g, g->p->node[f->begin + k].type);
}

static void plan_function(struct plan *g, struct program_function *f,
                          void nodes(struct plan *g, unsigned count))
{
    struct program *p = g->p;

    *f = (struct program_function) { .begin = p->count, .params = 1 + plan_below(g, 3) };
    f->together = plan_below(g, 3) == 0;
    g->by = f->together ? BY_BLOCK : BY_THREAD;
    g->depth = 1;
    g->seen = 0;
    for (uint32_t k = 0; k < f->params; k++) {
        const ptx_type type = plan_any_type(g, 0);
        p->needed[p->count] = true;
        p->node[p->count] = (struct node) { .kind = NODE_PARAM, .type = type, .a = k };
        g->visible[g->seen++] =
            (struct operand) { .source = OPERAND_NODE, .type = type, .node = p->count++ };
    }
    nodes(g, 2 + plan_below(g, 4));
    f->end = p->count;
    f->result = g->visible[g->seen - 1];
    f->other = plan_operand(g, f->result.type);
    if (!f->together && plan_below(g, 2))
        f->early = plan_operand(g, PTX_PRED);
}

// A function can call those before it.
void plan_functions(struct plan *g, void nodes(struct plan *g, unsigned count))
{
    const unsigned count = plan_below(g, PROGRAM_FUNCTIONS + 1);
    const struct plan before = *g;

    g->in_function = true;
    for (unsigned k = 0; k < count; k++) {
        plan_function(g, &g->p->function[k], nodes);
        g->p->functions = k + 1;
    }
    const struct random r = g->r;
    *g = before;
    g->r = r;
}

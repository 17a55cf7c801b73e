// SPDX-License-Identifier: MIT
// The functions of later programs, and their calls.
#include "random_program_emit.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

static void function_name(const struct emitter *e, unsigned f, char name[NAME])
{
    snprintf(name, NAME, "%s_f%u", e->name, f);
}

// Stores a parameter, so that each is used.
static void use(struct emitter *e, ptx_val v)
{
    ptx_val x = v.type == PTX_PRED ? ptx_select(e->b, v, ptx_u32(1), ptx_u32(0)) : v;
    ptx_store(e->b, program_own(e, PTX_SPACE_GLOBAL, (ptx_type)x.type), ptx_u32(0), x);
}

static void emit_function(const struct emitter *of, unsigned k)
{
    const struct program_function *f = &of->p->function[k];
    struct emitter e = { .b = of->b, .p = of->p, .name = of->name, .failed = of->failed };
    char name[NAME];

    function_name(of, k, name);
    ptx_func (e.b, name, .result = f->result.type) {
        program_open(&e);
        program_emit_range(&e, f->begin, f->begin + f->params);
        use(&e, program_input(&e, PTX_U64, k));
        for (unsigned i = 0; i < f->params; i++)
            use(&e, e.value[f->begin + i]);
        program_emit_range(&e, f->begin + f->params, f->end);
        if (f->early.source)
            ptx_if (e.b, program_operand(&e, &f->early))
                ptx_return_value(e.b, program_operand(&e, &f->other));
        ptx_return_value(e.b, program_operand(&e, &f->result));
    }
}

// Marks the functions that nodes from `begin` to `end` call.
static void find_calls(const struct program *p, unsigned begin, unsigned end, bool *called)
{
    for (unsigned k = begin; k < end; k++)
        if (p->needed[k] && p->node[k].kind == NODE_CALL)
            called[p->node[k].a] = true;
}

void program_emit_functions(const struct emitter *e)
{
    const struct program *p = e->p;
    bool called[PROGRAM_FUNCTIONS] = { false };
    const unsigned first = p->functions ? p->function[p->functions - 1].end : 0;

    find_calls(p, first, p->count, called);
    for (unsigned k = p->functions; k-- > 0;)
        if (called[k])
            find_calls(p, p->function[k].begin, p->function[k].end, called);
    for (unsigned k = 0; k < p->functions; k++)
        if (called[k])
            emit_function(e, k);
}

ptx_val program_emit_call(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const struct program_function *f = &e->p->function[n->a];
    ptx_val args[2 + PROGRAM_PARAMS] = { ptx_ptr_address(e->b, e->in),
                                         ptx_ptr_address(e->b, e->out) };
    char name[NAME];

    function_name(e, n->a, name);
    memcpy(args + 2, x, f->params * sizeof *x);
    return ptx_call_emit(e->b, name, args, 2 + f->params);
}

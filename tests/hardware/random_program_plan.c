// SPDX-License-Identifier: MIT
#include "random_program_plan.h"

#include <string.h>

// ---- nodes that compute -------------------------------------------------------------------------

static ptx_type shape_type(const struct op_case *c, char letter)
{
    return letter == 'W'   ? (ptx_type)(c->type + 1)
           : letter == 's' ? PTX_S32
           : letter == 'p' ? PTX_PRED
           : letter == 'T' ? c->type
                           : PTX_U32;
}

static void plan_case(struct plan *g, struct node *n, enum program_group from)
{
    for (unsigned tries = 0; tries < 4; tries++) {
        n->c = program_choose(&g->r, from);
        if (plan_sees(g, n->c.kind == CASE_OP ? n->c.type : n->c.from))
            break;
    }
    n->type = n->c.type;
    if (n->c.kind == CASE_OP) {
        const char *shape = ptx_op_get_info((ptx_opcode)n->c.what)->shape;
        n->type = shape_type(&n->c, shape[0]);
        for (unsigned k = 0; shape[2 + k]; k++)
            n->x[k] = shape[2 + k] == 'i' ? plan_constant(PTX_U32, n->a & 255)
                      : strchr("uf", shape[2 + k])
                          ? plan_place(g)
                          : plan_operand(g, shape_type(&n->c, shape[2 + k]));
    } else if (n->c.kind == CASE_CVT_PACK) {
        n->x[0] = plan_operand(g, PTX_F32);
        n->x[1] = plan_operand(g, PTX_F32);
    } else {
        n->x[0] = plan_operand(g, n->c.from);
        if (n->x[0].source == OPERAND_CONSTANT) // otherwise the result would be an immediate
            n->x[0].source = OPERAND_INPUT;
    }
}

static const uint32_t bytes_only = PTX_TYPE_BIT(U8) | PTX_TYPE_BIT(S8) | PTX_TYPE_BIT(B8);

static void plan_packing(struct plan *g, struct node *n)
{
    unsigned whole, part;
    do {
        n->type = plan_any_type(g, PTX_TYPE_BIT(PRED) | bytes_only);
        n->other = plan_any_type(g, PTX_TYPE_BIT(PRED) | bytes_only);
        whole = ptx_type_bytes(n->kind == NODE_PACK ? n->type : n->other);
        part = ptx_type_bytes(n->kind == NODE_PACK ? n->other : n->type);
    } while (part > 4 || whole <= part);
    if (n->kind == NODE_UNPACK)
        n->x[0] = plan_operand(g, n->other);
    for (unsigned k = 0; n->kind == NODE_PACK && k < whole / part; k++)
        n->x[k] = plan_operand(g, n->other);
}

static void plan_atomic(struct plan *g, struct node *n)
{
    const bool own = n->kind == NODE_ATOMIC_OWN, shared = n->kind == NODE_SHARED_ATOMIC;
    bool commutes;

    do {
        n->c = program_choose(&g->r, GROUP_ATOMICS);
        commutes = n->c.what == PTX_ATOMIC_min || n->c.what == PTX_ATOMIC_max ||
                   n->c.what == PTX_ATOMIC_and || n->c.what == PTX_ATOMIC_or ||
                   n->c.what == PTX_ATOMIC_xor ||
                   (n->c.what == PTX_ATOMIC_add && program_is_integer(n->c.type));
    } while (!own && (!commutes || (n->c.space == PTX_SPACE_SHARED) != shared));
    n->type = n->c.type;
    n->x[0] = plan_operand(g, n->type);
    n->x[1] = own ? plan_operand(g, n->type) : plan_operand(g, PTX_U32);
    n->x[2] = own && plan_below(g, 2) ? n->x[0] : plan_operand(g, n->type);
}

static void plan_warp(struct plan *g, struct node *n)
{
    const struct program_warp_row *row;

    n->c.what = plan_below(g, program_warp_count);
    row = &program_warp_rows[n->c.what];
    do
        n->other = plan_any_type(g, 0);
    while (!(row->types >> n->other & 1));
    n->type = row->result ? row->result : n->other;
    n->x[0] = plan_operand(g, n->other);
    n->x[2] = plan_operand(g, PTX_PRED);
}

static void plan_memory(struct plan *g, struct node *n)
{
    n->type = plan_any_type(g, PTX_TYPE_BIT(PRED));
    n->other = plan_any_type(g, PTX_TYPE_BIT(PRED));
    n->by = g->by;
    if (n->kind == NODE_LOCAL || n->kind == NODE_MEETING || n->by > BY_BLOCK)
        n->other = n->type;
    for (unsigned k = 0; k < 4; k++)
        n->x[k] = plan_operand(g, n->other);
    n->x[4] = plan_operand(g, PTX_U32);
}

// A thread stores in one way and loads in another. No program writes `in`: .nc loads read it.
static void plan_access(struct plan *g, struct node *n)
{
    if (n->kind == NODE_LOAD) {
        do
            n->load = program_choose(&g->r, GROUP_LOADS);
        while (n->load.space != PTX_SPACE_GLOBAL && n->load.space != PTX_SPACE_GENERIC);
    } else {
        n->c = program_choose(&g->r, GROUP_STORES);
        do
            n->load = program_choose(&g->r, GROUP_LOADS);
        while (n->load.space != n->c.space || n->load.nc);
        n->other = n->c.type;
        for (unsigned k = 0; k < 4; k++)
            n->x[k] = plan_operand(g, n->other);
    }
    n->type = n->load.type;
    n->x[4] = plan_operand(g, PTX_U32);
}

static void plan_approximate(struct plan *g, struct node *n)
{
    n->c = program_choose(&g->r, GROUP_APPROXIMATE);
    n->type = n->c.type;
    n->site = g->p->approximates;
    n->x[0] = plan_operand(g, n->type);
    n->x[1] = plan_operand(g, n->type);
    g->p->approximate[g->p->approximates++] = n->c;
}

// ---- control ------------------------------------------------------------------------------------

static void plan_nodes(struct plan *g, unsigned count);

static bool turns(const struct node *n)
{
    return n->kind == NODE_JUMP ? n->a % 4 == JUMP_BACK
                                : n->kind != NODE_IF && n->kind != NODE_ELSE_IF;
}

static enum condition inside(const struct plan *g, const struct node *n)
{
    const enum condition here = n->by == BY_LANES ? BY_WARP : n->by;
    return here > g->by ? here : g->by;
}

static void plan_body(struct plan *g, struct node *n, unsigned k)
{
    const unsigned seen = g->seen, id = (unsigned)(n - g->p->node);
    const enum condition by = g->by;
    const bool whole = g->whole;

    g->by = inside(g, n);
    g->whole = whole && n->kind == NODE_IF && n->by <= BY_WARP;
    g->depth++;
    n->begin[k] = g->p->count;
    g->visible[g->seen++] =
        (struct operand) { .source = OPERAND_NODE, .type = n->type, .node = id };
    if (n->kind == NODE_FOR || n->kind == NODE_DOWN || n->kind == NODE_STRIDE)
        g->visible[g->seen++] =
            (struct operand) { .source = OPERAND_INDEX, .type = PTX_U32, .node = id };
    plan_nodes(g, 1 + plan_below(g, 4));
    n->end[k] = g->p->count;
    n->result[k] = plan_operand(g, n->type);
    if ((n->kind == NODE_LOOP || (g->p->later && n->kind != NODE_WHILE && turns(n))) &&
        n->by == BY_THREAD && n->kind != NODE_JUMP)
        n->x[2] = plan_operand(g, PTX_PRED);
    g->depth--;
    g->seen = seen;
    g->by = g->left && by == BY_BLOCK ? BY_WARP : by;
    g->whole = whole;
}

static enum condition choose_condition(struct plan *g, const struct node *n)
{
    static const enum condition of_if[] = { BY_BLOCK,  BY_WARP,   BY_LANES,
                                            BY_THREAD, BY_THREAD, BY_THREAD };

    if (n->kind == NODE_IF) {
        const enum condition by = of_if[plan_below(g, 6)];
        return by == BY_LANES && g->by > BY_WARP ? BY_THREAD : by;
    }
    if (n->kind == NODE_JUMP && n->a % 4 != JUMP_BACK)
        return BY_THREAD;
    return n->kind == NODE_STRIDE || plan_below(g, 3) ? BY_THREAD : BY_BLOCK;
}

static void plan_control(struct plan *g, struct node *n)
{
    const bool loop = turns(n);

    n->type = plan_any_type(g, 0);
    for (unsigned tries = 0; tries < 4 && !plan_sees(g, n->type); tries++)
        n->type = plan_any_type(g, 0);
    n->by = choose_condition(g, n);
    n->x[0] = plan_operand(g, n->type);
    n->x[1] = !loop               ? plan_operand(g, PTX_PRED)
              : n->by == BY_BLOCK ? plan_constant(PTX_U32, 1 + plan_below(g, 4))
                                  : plan_operand(g, PTX_U32);
    if (n->kind == NODE_JUMP || n->kind == NODE_ELSE_IF)
        n->x[2] = plan_operand(g, PTX_PRED);
    if (n->kind == NODE_ELSE_IF)
        n->x[3] = plan_operand(g, n->type);
    plan_body(g, n, 0);
    n->begin[1] = n->end[1] = g->p->count;
    if (!loop && n->a >> 8 & 1)
        plan_body(g, n, 1);
}

// Some lanes, whole warps or a block end here. The nodes after it know the remaining lanes. They
// have barriers of the block only if whole blocks have ended.
static void plan_return(struct plan *g, struct node *n)
{
    static const enum condition of_return[] = { BY_BLOCK, BY_WARP, BY_THREAD, BY_THREAD };

    n->by = of_return[plan_below(g, 4)];
    n->type = PTX_PRED;
    n->x[0] = plan_operand(g, PTX_PRED);
    g->p->returns |= n->by == BY_THREAD;
    g->left |= n->by > BY_BLOCK || g->by > BY_BLOCK;
    if (g->left)
        g->by = BY_WARP;
}

// ---- any node -----------------------------------------------------------------------------------

static bool has_place(const struct plan *g, enum node_kind kind)
{
    if (kind >= NODE_IF)
        return g->depth < 3 && g->p->count <= PROGRAM_NODES - 64;
    if (kind >= NODE_RETURN)
        return g->whole && !g->in_function;
    if (kind >= NODE_SHARED_ATOMIC)
        return g->by == BY_BLOCK;
    if (kind >= NODE_SHUFFLE)
        return g->by <= BY_WARP;
    if (kind == NODE_MEETING)
        return g->depth == 0 && !g->met;
    if (kind == NODE_CALL)
        return plan_can_call(g);
    return kind != NODE_APPROXIMATE ||
           (g->p->approximates < PROGRAM_APPROXIMATES && !g->in_function);
}

static enum node_kind choose_kind(struct plan *g)
{
    static const unsigned char first[] = {
        [NODE_CASE] = 56,      [NODE_PACK] = 3,   [NODE_UNPACK] = 3,   [NODE_APPROXIMATE] = 3,
        [NODE_LOAD] = 5,       [NODE_LOCAL] = 3,  [NODE_ACCESS] = 6,   [NODE_ATOMIC] = 2,
        [NODE_ATOMIC_OWN] = 5, [NODE_CAS] = 1,    [NODE_MEETING] = 1,  [NODE_FENCE] = 1,
        [NODE_SHUFFLE] = 5,    [NODE_WARP] = 5,   [NODE_EXCHANGE] = 4, [NODE_SHARED_ATOMIC] = 2,
        [NODE_BLOCK_VOTE] = 1, [NODE_RETURN] = 1, [NODE_IF] = 7,       [NODE_FOR] = 4,
        [NODE_LOOP] = 2,       [NODE_WHILE] = 2,  [NODE_JUMP] = 4,
    };
    static const unsigned char later[] = {
        [NODE_CASE] = 20,       [NODE_PACK] = 1,       [NODE_UNPACK] = 1,
        [NODE_APPROXIMATE] = 1, [NODE_LOAD] = 2,       [NODE_LOCAL] = 1,
        [NODE_ACCESS] = 2,      [NODE_ATOMIC] = 1,     [NODE_ROW] = 50,
        [NODE_CALL] = 8,        [NODE_ATOMIC_OWN] = 2, [NODE_CAS] = 1,
        [NODE_MEETING] = 1,     [NODE_FENCE] = 1,      [NODE_SHUFFLE] = 2,
        [NODE_WARP] = 2,        [NODE_EXCHANGE] = 2,   [NODE_SHARED_ATOMIC] = 1,
        [NODE_BLOCK_VOTE] = 1,  [NODE_RETURN] = 1,     [NODE_IF] = 5,
        [NODE_FOR] = 3,         [NODE_LOOP] = 1,       [NODE_WHILE] = 1,
        [NODE_JUMP] = 2,        [NODE_ELSE_IF] = 4,    [NODE_DOWN] = 3,
        [NODE_STRIDE] = 1,
    };
    const unsigned char *weight = g->p->later ? later : first;
    const unsigned kinds = g->p->later ? sizeof later : sizeof first;
    unsigned total = 0, k = 0;

    for (unsigned i = 0; i < kinds; i++)
        total += weight[i];
    unsigned at = plan_below(g, total);
    while (at >= weight[k])
        at -= weight[k++];
    return has_place(g, (enum node_kind)k) ? (enum node_kind)k : NODE_CASE;
}

static void plan_kind(struct plan *g, struct node *n)
{
    const unsigned way = plan_below(g, 100);

    switch (n->kind) {
    case NODE_CASE:
        plan_case(g, n,
                  way < 70   ? GROUP_OPS
                  : way < 93 ? GROUP_CONVERSIONS
                  : way < 97 ? GROUP_BITCASTS
                             : GROUP_PACKS);
        break;
    case NODE_PACK:
    case NODE_UNPACK:
        plan_packing(g, n);
        break;
    case NODE_APPROXIMATE:
        plan_approximate(g, n);
        break;
    case NODE_LOAD:
    case NODE_ACCESS:
        plan_access(g, n);
        break;
    case NODE_ATOMIC:
    case NODE_ATOMIC_OWN:
    case NODE_SHARED_ATOMIC:
        plan_atomic(g, n);
        break;
    case NODE_CAS:
        n->type = PTX_U32;
        n->x[0] = plan_operand(g, PTX_U32);
        n->x[1] = plan_operand(g, PTX_U32);
        break;
    case NODE_FENCE:
        n->c = program_choose(&g->r, GROUP_FENCES);
        n->by = g->by;
        n->type = PTX_U32;
        n->x[0] = plan_operand(g, PTX_U32);
        break;
    case NODE_SHUFFLE:
        n->type = plan_any_type(g, PTX_TYPE_BIT(PRED));
        n->x[0] = plan_operand(g, n->type);
        n->x[1] = plan_place(g);
        n->x[2] = plan_operand(g, PTX_PRED);
        break;
    case NODE_WARP:
        plan_warp(g, n);
        break;
    case NODE_BLOCK_VOTE:
        n->type = n->a % 3 == 2 ? PTX_U32 : PTX_PRED;
        n->x[0] = plan_operand(g, PTX_PRED);
        break;
    case NODE_RETURN:
        plan_return(g, n);
        break;
    case NODE_ROW:
        plan_row(g, n);
        break;
    case NODE_CALL:
        plan_call(g, n);
        break;
    default:
        if (n->kind >= NODE_IF)
            plan_control(g, n);
        else
            plan_memory(g, n);
    }
}

// The value of such a node is its operand: it adds nothing.
static bool is_silent(const struct node *n)
{
    return n->kind == NODE_ATOMIC || n->kind == NODE_APPROXIMATE || n->kind == NODE_CAS ||
           n->kind == NODE_MEETING || n->kind == NODE_FENCE || n->kind == NODE_RETURN;
}

// Messages have a place in code that part of a warp reaches, products where the whole block is.
static bool is_on_subject(struct plan *g)
{
    switch (g->p->subject) {
    case SUBJECT_MESSAGES:
        return g->by == BY_THREAD && plan_below(g, 3) == 0;
    case SUBJECT_CONSTANTS:
        return g->by == BY_BLOCK && !g->left && plan_below(g, 3) == 0;
    default:
        return false;
    }
}

static void plan_node(struct plan *g)
{
    const unsigned id = g->p->count++;
    struct node *n = &g->p->node[id];

    g->on_subject = is_on_subject(g);
    *n = (struct node) { .kind = g->on_subject ? NODE_ROW : choose_kind(g) };
    n->a = (uint32_t)random_u64(&g->r);
    n->b = (uint32_t)random_u64(&g->r);
    g->p->needed[id] = true;
    g->met |= n->kind == NODE_MEETING;
    plan_kind(g, n);
    if (!is_silent(n))
        g->visible[g->seen++] =
            (struct operand) { .source = OPERAND_NODE, .type = n->type, .node = id };
}

static void plan_nodes(struct plan *g, unsigned count)
{
    while (count-- && g->p->count < PROGRAM_NODES - 40)
        plan_node(g);
}

static void plan_program(struct program *p, struct random *r)
{
    struct plan g = { .p = p, .r = *r, .whole = true };

    p->count = p->approximates = 0;
    p->functions = p->subjects = 0;
    p->returns = false;
    memset(p->lacking, 0, sizeof p->lacking);
    if (p->later && p->subject != SUBJECT_MESSAGES)
        plan_functions(&g, plan_nodes);
    p->steps = 8 + plan_below(&g, PROGRAM_STEPS - 7);
    for (unsigned k = 0; k < p->steps; k++) {
        p->step[k] = p->count;
        plan_node(&g);
    }
    *r = g.r;
}

void program_plan(struct program *p, uint64_t seed)
{
    struct random r = { seed * UINT64_C(0xd1342543de82ef95) + 1 };

    p->later = seed >= PROGRAM_LATER;
    p->subject = seed >= PROGRAM_CONSTANTS  ? SUBJECT_CONSTANTS
                 : seed >= PROGRAM_MESSAGES ? SUBJECT_MESSAGES
                                            : SUBJECT_NONE;
    do
        plan_program(p, &r);
    while (p->subject && !p->subjects);
}

// SPDX-License-Identifier: MIT
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what there is to choose from ---------------------------------------------------------------

// Cases in groups that are equally likely, so that an instruction with many modifiers is not.
struct catalogue {
    struct op_case c[8192];
    unsigned count;
    unsigned group[2048];
    unsigned groups;
};
static struct catalogue ops, conversions, bitcasts, atomics, packs;

static bool is_approximate(const struct op_case *c)
{
    const struct ptx_op_info *info = ptx_op_info((ptx_opcode)c->what);
    for (size_t k = 0; k < info->form_count; k++)
        if (info->forms[k].types >> c->type & 1)
            return info->forms[k].modifiers & PTX_MOD_APPROX;
    return false;
}

static bool is_accepted(const struct op_case *c)
{
    const struct ptx_builder_params params = { .target = { .sm = 90 } };
    ptx_builder *b = ptx_builder_create(&params);

    ptx_entry (b, "trial") {
        const struct op_frame frame = op_frame_open(b);
        op_case_emit(b, &frame, c);
    }
    const bool accepted = ptx_builder_finish(b) != NULL;
    ptx_builder_destroy(&b);
    return accepted;
}

static void visit(void *user, const struct op_case *c)
{
    struct catalogue *into = NULL;

    (void)user;
    if (c->kind == CASE_OP && !is_approximate(c))
        into = &ops;
    else if (c->kind == CASE_CVT)
        into = &conversions;
    else if (c->kind == CASE_CVT_PACK)
        into = &packs;
    else if (c->kind == CASE_BITCAST)
        into = &bitcasts;
    else if (c->kind == CASE_ATOMIC && c->space == PTX_GLOBAL && c->used && !c->order && !c->scope)
        into = &atomics;
    if (!into || !is_accepted(c))
        return;
    const struct op_case *last = into->count ? &into->c[into->count - 1] : NULL;
    if (!last || last->what != c->what || last->type != c->type || last->from != c->from)
        into->group[into->groups++] = into->count;
    into->c[into->count++] = *c;
    into->group[into->groups] = into->count;
}

void program_catalogue(void)
{
    if (!ops.count)
        op_cases(visit, NULL);
}

static struct op_case choose(struct random *r, const struct catalogue *from)
{
    const unsigned g = random_below(r, from->groups);
    return from->c[from->group[g] + random_below(r, from->group[g + 1] - from->group[g])];
}

// ---- operands -----------------------------------------------------------------------------------

struct plan {
    struct program *p;
    struct random r;
    struct operand visible[2 * PROGRAM_NODES];
    unsigned seen;
    unsigned depth;
    bool uniform;
};

static unsigned below(struct plan *g, unsigned bound)
{
    return random_below(&g->r, bound);
}

static bool is_visible(const struct plan *g, ptx_type type)
{
    for (unsigned k = 0; k < g->seen; k++)
        if (g->visible[k].type == type)
            return true;
    return false;
}

static struct operand constant(ptx_type type, uint64_t bits)
{
    return (struct operand) { .source = OPERAND_CONSTANT, .type = type, .bits = bits };
}

static struct operand operand(struct plan *g, ptx_type type)
{
    const unsigned way = below(g, 100);

    if (is_visible(g, type) && way < 78) {
        const bool recent = way < 40;
        for (;;) {
            const unsigned k =
                recent ? g->seen - 1 - below(g, g->seen < 6 ? g->seen : 6) : below(g, g->seen);
            if (g->visible[k].type == type)
                return g->visible[k];
            for (unsigned j = g->seen; recent && j-- > 0;)
                if (g->visible[j].type == type)
                    return g->visible[j];
        }
    }
    if (way >= 92)
        return constant(type, program_value(&g->r, type));
    const enum operand_source source =
        type == PTX_U32 && way >= 84 ? OPERAND_SPECIAL : OPERAND_INPUT;
    return (struct operand) { .source = source, .type = type, .bits = random_u64(&g->r) };
}

// Bit counts and places. Immediate ones lie within 32 bits: what ptxas makes of others is not what
// the instruction does (bfe, bfi), or it refuses them.
static struct operand place(struct plan *g)
{
    struct operand o = operand(g, PTX_U32);
    return o.source == OPERAND_CONSTANT || below(g, 2) ? constant(PTX_U32, below(g, 32)) : o;
}

static ptx_type any_type(struct plan *g, uint32_t without)
{
    for (;;) {
        const unsigned t = 1 + below(g, PTX_TYPE_COUNT - 1);
        if (!(without >> t & 1))
            return (ptx_type)t;
    }
}

static ptx_type shape_type(const struct op_case *c, char letter)
{
    return letter == 'W'   ? (ptx_type)(c->type + 1)
           : letter == 'u' ? PTX_U32
           : letter == 's' ? PTX_S32
           : letter == 'p' ? PTX_PRED
                           : c->type;
}

// ---- nodes --------------------------------------------------------------------------------------

static void plan_case(struct plan *g, struct node *n, const struct catalogue *from)
{
    for (unsigned tries = 0; tries < 4; tries++) {
        n->c = choose(&g->r, from);
        if (is_visible(g, n->c.kind == CASE_OP ? n->c.type : n->c.from))
            break;
    }
    n->type = n->c.type;
    if (n->c.kind == CASE_OP) {
        const char *shape = ptx_op_info((ptx_opcode)n->c.what)->shape;
        n->type = shape_type(&n->c, shape[0]);
        for (unsigned k = 0; shape[2 + k]; k++)
            n->x[k] = n->c.what == PTX_OP_lop3 && k == 3 ? constant(PTX_U32, n->a & 255)
                      : shape[2 + k] == 'u'              ? place(g)
                                            : operand(g, shape_type(&n->c, shape[2 + k]));
    } else if (n->c.kind == CASE_CVT_PACK) {
        n->x[0] = operand(g, PTX_F32);
        n->x[1] = operand(g, PTX_F32);
    } else {
        n->x[0] = operand(g, n->c.from);
        if (n->x[0].source == OPERAND_CONSTANT) // or the result would be an immediate
            n->x[0].source = OPERAND_INPUT;
    }
}

static const uint32_t bytes_only = PTX_SET(U8) | PTX_SET(S8) | PTX_SET(B8);

static void plan_packing(struct plan *g, struct node *n)
{
    unsigned whole, part;
    do {
        n->type = any_type(g, PTX_SET(PRED) | bytes_only);
        n->other = any_type(g, PTX_SET(PRED) | bytes_only);
        whole = ptx_type_bytes(n->kind == NODE_PACK ? n->type : n->other);
        part = ptx_type_bytes(n->kind == NODE_PACK ? n->other : n->type);
    } while (part > 4 || whole <= part);
    if (n->kind == NODE_UNPACK)
        n->x[0] = operand(g, n->other);
    for (unsigned k = 0; n->kind == NODE_PACK && k < whole / part; k++)
        n->x[k] = operand(g, n->other);
}

static void plan_atomic(struct plan *g, struct node *n)
{
    const bool own = n->kind == NODE_ATOMIC_OWN;
    bool commutes;

    do {
        n->c = choose(&g->r, &atomics);
        commutes = n->c.what == PTX_ATOMIC_min || n->c.what == PTX_ATOMIC_max ||
                   n->c.what == PTX_ATOMIC_and || n->c.what == PTX_ATOMIC_or ||
                   n->c.what == PTX_ATOMIC_xor ||
                   (n->c.what == PTX_ATOMIC_add && n->c.type <= PTX_B64);
    } while (!own && !commutes);
    n->type = n->c.type;
    n->x[0] = operand(g, n->type);
    n->x[1] = own ? operand(g, n->type) : operand(g, PTX_U32);
    n->x[2] = own && below(g, 2) ? n->x[0] : operand(g, n->type);
}

static void plan_warp(struct plan *g, struct node *n)
{
    const struct program_warp_row *row;

    n->c.what = below(g, program_warp_count);
    row = &program_warp_rows[n->c.what];
    do
        n->other = any_type(g, 0);
    while (!(row->types >> n->other & 1));
    n->type = row->result ? row->result : n->other;
    n->x[0] = operand(g, n->other);
    n->a = below(g, 2) ? UINT32_MAX : n->a | 1;
}

static void plan_memory(struct plan *g, struct node *n)
{
    n->type = any_type(g, PTX_SET(PRED));
    n->other = any_type(g, PTX_SET(PRED));
    if (n->kind == NODE_LOCAL)
        n->other = n->type;
    for (unsigned k = 0; k < 4; k++)
        n->x[k] = operand(g, n->other);
    n->x[4] = operand(g, PTX_U32);
}

static void plan_nodes(struct plan *g, unsigned count);

static void plan_body(struct plan *g, struct node *n, unsigned k)
{
    const unsigned seen = g->seen, id = (unsigned)(n - g->p->node);
    const bool uniform = g->uniform;

    g->uniform = uniform && n->uniform;
    g->depth++;
    n->begin[k] = g->p->count;
    g->visible[g->seen++] =
        (struct operand) { .source = OPERAND_NODE, .type = n->type, .node = id };
    if (n->kind == NODE_FOR)
        g->visible[g->seen++] =
            (struct operand) { .source = OPERAND_INDEX, .type = PTX_U32, .node = id };
    plan_nodes(g, 1 + below(g, 4));
    n->end[k] = g->p->count;
    n->result[k] = operand(g, n->type);
    if (n->kind == NODE_LOOP && !n->uniform)
        n->x[2] = operand(g, PTX_PRED);
    g->depth--;
    g->seen = seen;
    g->uniform = uniform;
}

static void plan_control(struct plan *g, struct node *n)
{
    n->type = any_type(g, 0);
    for (unsigned tries = 0; tries < 4 && !is_visible(g, n->type); tries++)
        n->type = any_type(g, 0);
    n->uniform = !below(g, 3);
    n->x[0] = operand(g, n->type);
    n->x[1] = n->kind == NODE_IF ? operand(g, PTX_PRED)
              : n->uniform       ? constant(PTX_U32, 1 + below(g, 4))
                                 : operand(g, PTX_U32);
    plan_body(g, n, 0);
    n->begin[1] = n->end[1] = g->p->count;
    if (n->kind == NODE_IF && n->a & 1)
        plan_body(g, n, 1);
}

static enum node_kind choose_kind(struct plan *g)
{
    static const unsigned char weight[] = {
        [NODE_CASE] = 62,         [NODE_PACK] = 3,    [NODE_UNPACK] = 3, [NODE_LOAD] = 4,
        [NODE_LOCAL] = 3,         [NODE_SCRATCH] = 3, [NODE_ATOMIC] = 2, [NODE_ATOMIC_OWN] = 4,
        [NODE_EXCHANGE] = 3,      [NODE_SHUFFLE] = 5, [NODE_WARP] = 5,   [NODE_BLOCK_VOTE] = 1,
        [NODE_SHARED_ATOMIC] = 2, [NODE_IF] = 6,      [NODE_FOR] = 4,    [NODE_LOOP] = 2,
        [NODE_WHILE] = 2,
    };
    unsigned total = 0, k = 0;

    for (unsigned i = 0; i < sizeof weight; i++)
        total += weight[i];
    unsigned at = below(g, total);
    while (at >= weight[k])
        at -= weight[k++];
    if ((k >= NODE_EXCHANGE && k <= NODE_BLOCK_VOTE && !g->uniform) ||
        (k >= NODE_IF && (g->depth == 3 || g->p->count > PROGRAM_NODES - 64)))
        return NODE_CASE;
    return (enum node_kind)k;
}

static void plan_node(struct plan *g)
{
    const unsigned id = g->p->count++;
    struct node *n = &g->p->node[id];

    *n = (struct node) { .kind = choose_kind(g) };
    n->a = (uint32_t)random_u64(&g->r);
    n->b = (uint32_t)random_u64(&g->r);
    g->p->needed[id] = true;
    const unsigned way = below(g, 100);
    switch (n->kind) {
    case NODE_CASE:
        plan_case(g, n, way < 70 ? &ops : way < 93 ? &conversions : way < 97 ? &bitcasts : &packs);
        break;
    case NODE_PACK:
    case NODE_UNPACK:
        plan_packing(g, n);
        break;
    case NODE_ATOMIC:
    case NODE_ATOMIC_OWN:
    case NODE_SHARED_ATOMIC:
        plan_atomic(g, n);
        break;
    case NODE_SHUFFLE:
        n->type = any_type(g, PTX_SET(PRED));
        n->x[0] = operand(g, n->type);
        n->x[1] = place(g);
        break;
    case NODE_WARP:
        plan_warp(g, n);
        break;
    case NODE_BLOCK_VOTE:
        n->type = n->a % 3 == 2 ? PTX_U32 : PTX_PRED;
        n->x[0] = operand(g, PTX_PRED);
        break;
    case NODE_IF:
    case NODE_FOR:
    case NODE_LOOP:
    case NODE_WHILE:
        plan_control(g, n);
        break;
    default:
        plan_memory(g, n);
    }
    if (n->kind != NODE_ATOMIC)
        g->visible[g->seen++] =
            (struct operand) { .source = OPERAND_NODE, .type = n->type, .node = id };
}

static void plan_nodes(struct plan *g, unsigned count)
{
    while (count-- && g->p->count < PROGRAM_NODES - 40)
        plan_node(g);
}

void program_plan(struct program *p, uint64_t seed)
{
    struct plan g = { .p = p, .r = { seed * UINT64_C(0xd1342543de82ef95) + 1 }, .uniform = true };

    p->count = 0;
    p->steps = 8 + below(&g, PROGRAM_STEPS - 7);
    for (unsigned k = 0; k < p->steps; k++) {
        p->step[k] = p->count;
        plan_node(&g);
    }
}

static void need(struct program *p, unsigned id)
{
    const struct node *n = &p->node[id];

    if (p->needed[id])
        return;
    p->needed[id] = true;
    for (unsigned k = 0; k < NODE_OPERANDS; k++)
        if (n->x[k].source == OPERAND_NODE || n->x[k].source == OPERAND_INDEX)
            need(p, n->x[k].node);
    for (unsigned k = 0; k < 2; k++)
        if (n->result[k].source == OPERAND_NODE || n->result[k].source == OPERAND_INDEX)
            need(p, n->result[k].node);
}

void program_cut(struct program *p, unsigned last)
{
    memset(p->needed, 0, sizeof p->needed);
    need(p, p->step[last < p->steps ? last : p->steps - 1]);
}

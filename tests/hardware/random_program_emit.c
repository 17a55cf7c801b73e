// SPDX-License-Identifier: MIT
#include "random_program_emit.h"

#include <stdio.h>
#include <string.h>

// A GPU returns the NaN of one of the operands, with its f64 payload, and the compiler may swap
// operands. So every f64 NaN is replaced by one NaN before it is used or stored.
static ptx_val canonical(ptx_builder *b, ptx_val v)
{
    if (v.type != PTX_F64 || v.kind == PTX_KIND_IMMEDIATE)
        return v;
    ptx_val nan = ptx_is_nan(b, v);
    return ptx_select(b, nan, ptx_imm_bits(PTX_F64, UINT64_C(0x7ff8000000000000)), v);
}

ptx_ptr program_words(struct emitter *e, uint32_t first, ptx_val index, uint32_t scale,
                      ptx_type type)
{
    ptx_val i = ptx_mad(e->b, index, ptx_u32(scale), ptx_u32(first));
    return ptx_ptr_cast(e->b, type, ptx_at(e->b, e->out, i));
}

ptx_ptr program_input_array(struct emitter *e, ptx_type type)
{
    ptx_ptr p = ptx_at(e->b, e->in, ptx_u32(op_type_number(type) * PROGRAM_INPUTS));
    return ptx_ptr_cast(e->b, type, p);
}

ptx_val program_is_odd(ptx_builder *b, ptx_val x)
{
    ptx_val bit = ptx_and(b, x, ptx_u32(1));
    return ptx_ne(b, bit, ptx_u32(0));
}

ptx_val program_input(struct emitter *e, ptx_type type, uint64_t bits)
{
    ptx_builder *b = e->b;
    ptx_val i = ptx_mad(b, e->thread, ptx_u32((uint32_t)bits | 1), ptx_u32((uint32_t)(bits >> 32)));
    i = ptx_and(b, i, ptx_u32(PROGRAM_INPUTS - 1));
    ptx_val v = ptx_load(b, program_input_array(e, type == PTX_PRED ? PTX_U32 : type), i);
    return type == PTX_PRED ? program_is_odd(b, v) : canonical(b, v);
}

static ptx_val special(struct emitter *e, uint64_t bits)
{
    switch (bits % 5) {
    case 0:
        return e->tid;
    case 1:
        return ptx_laneid(e->b);
    case 2:
        return ptx_lanemask_lt(e->b);
    case 3:
        return ptx_ctaid(e->b, PTX_X);
    default:
        return ptx_ntid(e->b, PTX_X);
    }
}

ptx_val program_operand(struct emitter *e, const struct operand *o)
{
    switch (o->source) {
    case OPERAND_NODE:
        return e->value[o->node];
    case OPERAND_INDEX:
        return e->index[o->node];
    case OPERAND_INPUT:
        return program_input(e, o->type, o->bits);
    case OPERAND_CONSTANT:
        return ptx_imm_bits(o->type, o->bits);
    case OPERAND_SPECIAL:
        return special(e, o->bits);
    default:
        return (ptx_val) { 0 };
    }
}

// Hides a value from ptxas, which sometimes fuses two instructions although the result changes: a
// NaN converted to a 64-bit integer and then to a saturated one of 32 bits; the negative or
// absolute value of the least integer, of a NaN, or of a constant; min(x, x) of a NaN, which
// becomes x; a zero extension and a shift, which become a signed product; fma with constant lanes;
// bit fields that reach beyond the register, at constant positions; the low byte of a prmt that
// repeats a sign in it, which cvt.u8 stores as 0; a conversion to an integer after one between
// floats, which then takes that one's rounding; lop3 with two equal operands, and uses of its
// result. Constant halves are hidden too.
ptx_val program_opaque(struct emitter *e, ptx_val v)
{
    if (v.type == PTX_PRED)
        return v;
    ptx_ptr p = program_words(e, PROGRAM_SCRATCH, e->thread, 2, (ptx_type)v.type);
    ptx_store(e->b, p, ptx_u32(0), v, .order = PTX_ORDER_VOLATILE);
    return ptx_load(e->b, p, ptx_u32(0), .order = PTX_ORDER_VOLATILE);
}

static ptx_val emit_plain(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const struct op_case *c = &n->c;

    if (c->kind == CASE_CVT)
        return ptx_cvt(e->b, c->type, x[0], .round = c->round, .ftz = c->ftz, .sat = c->sat);
    if (c->kind == CASE_CVT_PACK)
        return ptx_cvt_pack(e->b, c->type, x[0], x[1]);
    if (c->kind == CASE_BITCAST)
        return ptx_bitcast(e->b, c->type, x[0]);
    return ptx_op(e->b, (ptx_opcode)c->what, .x = x[0], .y = x[1], .z = x[2], .w = x[3],
                  .round = c->round, .ftz = c->ftz, .sat = c->sat);
}

static ptx_val emit_case(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const bool cvt = n->c.kind == CASE_CVT, op = n->c.kind == CASE_OP;
    const bool sign = op && (n->c.what == PTX_OP_neg || n->c.what == PTX_OP_abs);
    const bool least = op && (n->c.what == PTX_OP_min || n->c.what == PTX_OP_max ||
                              n->c.what == PTX_OP_min_nan || n->c.what == PTX_OP_max_nan);
    ptx_val v[NODE_OPERANDS];

    for (unsigned k = 0; k < NODE_OPERANDS; k++)
        v[k] = x[k];
    const bool lop3 = op && n->c.what == PTX_OP_lop3;
    if (sign || least || lop3 || (op && n->c.what == PTX_OP_fma) ||
        (cvt && program_is_integer(n->type) && !program_is_integer(n->c.from)))
        v[0] = program_opaque(e, x[0]);
    for (unsigned k = 1; lop3 && k < 3; k++)
        v[k] = program_opaque(e, v[k]);
    if (op && (n->c.what == PTX_OP_bfe || n->c.what == PTX_OP_bfi))
        for (unsigned k = 1; k < 4; k++)
            if (v[k].kind > PTX_KIND_POISON && v[k].kind != PTX_KIND_IMMEDIATE)
                v[k] = program_opaque(e, v[k]);
    ptx_val result = emit_plain(e, n, v);
    const bool bits = lop3 || (op && n->c.what == PTX_OP_prmt);
    return sign || bits || (cvt && program_is_integer(n->type)) ? program_opaque(e, result)
                                                                : result;
}

static ptx_val emit_packing(struct emitter *e, const struct node *n, const ptx_val *x)
{
    ptx_vec v = { .lanes = ptx_type_bytes(n->type) / ptx_type_bytes(n->other) };

    if (n->kind == NODE_UNPACK) {
        v = ptx_unpack(e->b, n->type, x[0]);
        return v.lanes ? v.lane[n->a % v.lanes] : x[0];
    }
    for (unsigned k = 0; k < v.lanes; k++)
        v.lane[k] = x[k];
    return ptx_pack(e->b, n->type, v);
}

// Stores operands and result, so that the host can compare them with what PTX documents. The
// program continues with the operand: it never uses a result that has no exact bits.
static ptx_val emit_approximate(struct emitter *e, const struct node *n, const ptx_val *x)
{
    const uint32_t first = PROGRAM_APPROXIMATE + n->site * 3 * PROGRAM_THREADS;
    const bool pair = ptx_op_get_info((ptx_opcode)n->c.what)->shape[3] != 0;
    const ptx_val none = { 0 };

    ptx_val result =
        ptx_op(e->b, (ptx_opcode)n->c.what, .x = x[0], .y = pair ? x[1] : none, .ftz = n->c.ftz);
    const ptx_val v[] = { x[0], x[1], result };
    for (uint32_t k = 0; k < 3; k++)
        ptx_store(e->b, program_words(e, first + k, e->thread, 3, n->type), ptx_u32(0), v[k]);
    return x[0];
}

static ptx_val emit_later(struct emitter *e, const struct node *n, const ptx_val *x)
{
    char name[16];

    if (n->kind == NODE_ROW)
        return program_rows[n->c.what].call(e, n, x);
    if (n->kind == NODE_CALL)
        return program_emit_call(e, n, x);
    snprintf(name, sizeof name, "p%u", n->a);
    return ptx_param(e->b, n->type, name);
}

static void emit_node(struct emitter *e, const struct node *n)
{
    ptx_val x[NODE_OPERANDS];

    if (e->p->lacking[n - e->p->node]) {
        e->value[n - e->p->node] = program_input(e, n->type, n->a);
        return;
    }
    if (n->kind >= NODE_IF) {
        program_emit_control(e, n);
        return;
    }
    for (unsigned k = 0; k < NODE_OPERANDS; k++)
        x[k] = program_operand(e, &n->x[k]);
    ptx_val v = x[0];
    if (n->kind == NODE_RETURN)
        program_emit_return(e, n, x[0]);
    else if (n->kind >= NODE_ROW && n->kind <= NODE_PARAM)
        v = emit_later(e, n, x);
    else
        v = n->kind == NODE_CASE          ? emit_case(e, n, x)
            : n->kind <= NODE_UNPACK      ? emit_packing(e, n, x)
            : n->kind == NODE_APPROXIMATE ? emit_approximate(e, n, x)
            : n->kind < NODE_FENCE        ? program_emit_memory(e, n, x)
                                          : program_emit_together(e, n, x);
    e->value[n - e->p->node] = canonical(e->b, v);
}

// The nodes of a body come after their node.
void program_emit_range(struct emitter *e, unsigned begin, unsigned end)
{
    for (unsigned k = begin; k < end;) {
        const struct node *n = &e->p->node[k];
        if (e->p->needed[k])
            emit_node(e, n);
        if (*e->failed == PROGRAM_NODES && ptx_builder_error(e->b))
            *e->failed = k;
        k = n->kind >= NODE_IF ? n->end[1] : k + 1;
    }
}

static void store_row(struct emitter *e, uint32_t row, ptx_val v)
{
    if (v.type == PTX_PRED)
        v = ptx_select(e->b, v, ptx_u32(1), ptx_u32(0));
    ptx_ptr p = program_words(e, row * PROGRAM_THREADS, e->thread, 1, (ptx_type)v.type);
    ptx_store(e->b, p, ptx_u32(0), v);
}

void program_open(struct emitter *e)
{
    ptx_builder *b = e->b;

    e->in = ptx_param_ptr(b, PTX_U64, "in", .readonly = true);
    e->out = ptx_param_ptr(b, PTX_U64, "out");
    e->shared = ptx_shared(b, PTX_U64, PROGRAM_BLOCK);
    e->own = ptx_shared(b, PTX_U64, 2 * PROGRAM_BLOCK);
    e->tid = ptx_tid(b, PTX_X);
    e->thread = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(PROGRAM_BLOCK), e->tid);
    e->lanes = ptx_full_warp();
}

unsigned program_emit(ptx_builder *b, const struct program *p, const char *name)
{
    unsigned failed = PROGRAM_NODES;
    struct emitter e;

    memset(&e, 0, sizeof e);
    e.b = b;
    e.p = p;
    e.name = name;
    e.failed = &failed;
    program_emit_functions(&e);
    ptx_entry (b, name, .block = { PROGRAM_BLOCK }) {
        program_open(&e);
        if (p->returns)
            e.lanes = ptx_var(b, ptx_full_warp());
        // Uses all parameters, whatever the steps are.
        store_row(&e, PROGRAM_STEPS, program_input(&e, PTX_U64, 0));
        for (unsigned k = 0; k < p->steps; k++) {
            const unsigned first = p->step[k];
            ptx_comment(b, "step %u", k);
            program_emit_range(&e, first, k + 1 < p->steps ? p->step[k + 1] : p->count);
            if (p->needed[first])
                store_row(&e, k, e.value[first]);
        }
    }
    return failed;
}

bool program_fit(struct program *p, struct ptx_target target, char *error, size_t size)
{
    const struct ptx_builder_params params = { .target = target };

    for (;;) {
        ptx_builder *b = ptx_builder_create(&params);
        const unsigned failed = program_emit(b, p, "program");
        const bool right = ptx_builder_finish(b);
        snprintf(error, size, "%s", right ? "" : ptx_builder_error(b));
        ptx_builder_destroy(&b);
        if (right || failed == PROGRAM_NODES || !strstr(error, "needs sm_"))
            return right;
        p->lacking[failed] = true;
    }
}

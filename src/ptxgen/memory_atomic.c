// SPDX-License-Identifier: MIT
// Atomics, of single elements and of vectors, and fences.
#include "internal.h"

#include <stdio.h>

// How it orders the accesses of its thread.
struct ordering {
    ptx_order order;
    ptx_scope scope;
};

static bool ordering_ok(ptx_builder *b, const char *call, struct ordering a)
{
    if (a.order == PTX_ORDER_VOLATILE || (unsigned)a.order > PTX_ORDER_ACQ_REL) {
        ptxb_fail(b, call,
                  "order %d; an atomic takes PTX_ORDER_RELAXED, PTX_ORDER_ACQUIRE, "
                  "PTX_ORDER_RELEASE or PTX_ORDER_ACQ_REL",
                  (int)a.order);
        return false;
    }
    if ((unsigned)a.scope > PTX_SCOPE_SYSTEM) {
        ptxb_fail(b, call, "%d is not a scope; see ptx_scope", (int)a.scope);
        return false;
    }
    return true;
}

static bool pointer_ok(ptx_builder *b, const char *call, ptx_ptr p, ptx_space last,
                       const char *where)
{
    if (!p.readonly && !p.writeonly && p.space <= last)
        return true;
    ptxb_fail(b, call, "an atomic reads and writes %s memory; the pointer is %s%s", where,
              p.readonly    ? "readonly, "
              : p.writeonly ? "writeonly, "
                            : "",
              ptxb_space_name(p.space));
    return false;
}

static bool operands_ok(ptx_builder *b, const char *call, const struct ptx_op_info *info, ptx_ptr p,
                        const struct ptx_atomic_params *a, bool cas)
{
    if (!ptxb_usable(b, call, "x", a->x) || (cas && !ptxb_usable(b, call, "compare", a->compare)))
        return false;
    if (a->x.type != p.type || (cas && a->compare.type != p.type)) {
        ptxb_fail(b, call, "the value is %s; the pointer is to %s",
                  ptx_type_name((ptx_type)(a->x.type != p.type ? a->x.type : a->compare.type)),
                  ptx_type_name((ptx_type)p.type));
        return false;
    }
    if (!cas && ptxb_is_given(a->compare)) {
        ptxb_fail(b, call, "%s takes no .compare; cas does", info->name);
        return false;
    }
    return pointer_ok(b, call, p, PTX_SPACE_SHARED, "global or shared") &&
           ordering_ok(b, call, (struct ordering) { a->order, a->scope });
}

static const char *const calls[] = {
#define CALL(name, ...) "atomic_" #name,
    PTX_ATOMICS(CALL) PTX_ATOMICS_CAS(CALL)
#undef CALL
};

static uint32_t atomic_opcode(ptx_builder *b, const char *call, const struct ptx_op_form *form,
                              ptx_ptr p, const char *vector, struct ordering a)
{
    const bool explicit_order = a.order != PTX_ORDER_WEAK || a.scope != PTX_SCOPE_DEFAULT;
    const size_t length = strlen(form->text);
    const bool bits = length > 2 && !strcmp(form->text + length - 2, ".b");
    const ptx_order order = a.order ? a.order : PTX_ORDER_RELAXED;
    const uint32_t opcode =
        ptxb_spell(b, "atom", explicit_order ? ptxb_order_names[order] : "",
                   explicit_order ? ptxb_scope_names[a.scope] : "", ptxb_space_text(p.space), ".",
                   form->text, vector, bits ? "" : ".",
                   bits ? ptx_type_name(ptxb_bits_type((ptx_type)p.type)) + 1
                        : ptx_type_name((ptx_type)p.type),
                   NULL);

    if (!ptxb_required(b, call, form->isa, form->sm, opcode))
        return 0;
    return a.scope == PTX_SCOPE_CLUSTER ? ptxb_required(b, call, 78, 90, opcode) : opcode;
}

static bool has_red(ptx_order order)
{
    return order != PTX_ORDER_ACQUIRE && order != PTX_ORDER_ACQ_REL;
}

ptx_val ptx_atomic_emit(ptx_builder *b, ptx_atomic_op op, ptx_ptr p, ptx_val i,
                        struct ptx_atomic_params a)
{
    const struct ptx_op_info *info = ptx_atomic_get_info(op);
    const bool cas = op == PTX_ATOMIC_cas;
    const ptx_val poison = { 0 };

    if (!info) {
        if (b)
            ptxb_fail(b, "atomic", "%d is not an operation; see ptx_atomic_op", (int)op);
        return poison;
    }
    const char *const call = calls[op];
    if (!ptxb_ready(b, call))
        return poison;
    p = ptxb_at(b, call, p, i);
    a.x = ptxb_typed(b, call, "x", a.x, (ptx_type)p.type);
    a.compare = ptxb_typed(b, call, "compare", a.compare, (ptx_type)p.type);
    if (b->failed || !operands_ok(b, call, info, p, &a, cas) ||
        !ptxb_in_array(b, call, p, ptx_type_bytes((ptx_type)p.type)) ||
        !ptxb_traffic_ok(b, call, p, false))
        return poison;
    const struct ptx_op_form *form = ptxb_form(info, (ptx_type)p.type);
    if (!form) {
        ptxb_fail(b, call, "there is no atomic %s of %s", info->name,
                  ptx_type_name((ptx_type)p.type));
        return poison;
    }
    const uint32_t opcode =
        atomic_opcode(b, call, form, p, "", (struct ordering) { a.order, a.scope });
    if (!opcode)
        return poison;
    a.x = ptxb_has_literal(a.x) ? a.x : ptxb_mov(b, a.x);
    a.compare = !cas || ptxb_has_literal(a.compare) ? a.compare : ptxb_mov(b, a.compare);
    ptx_val old = ptxb_register(b, (ptx_type)p.type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, cas ? 3 : 2);
    if (!insn)
        return poison;
    ptxb_result(b, insn, 0, old);
    ptxb_address(b, insn, 1, p);
    if (cas)
        ptxb_source(b, insn, 2, a.compare);
    ptxb_source(b, insn, cas ? 3 : 2, a.x);
    insn->varying = true;
    insn->reducible = !cas && op != PTX_ATOMIC_exch && has_red(a.order);
    return old;
}

// ---- vectors ------------------------------------------------------------------------------------

// The instruction of vectors, without its type; NULL: there is none.
static const char *vector_text(ptx_atomic_op op, ptx_type type)
{
    if (type == PTX_F32)
        return op == PTX_ATOMIC_add ? "add" : NULL;
    if (type != PTX_F16 && type != PTX_BF16 && type != PTX_F16X2 && type != PTX_BF16X2)
        return NULL;
    return op == PTX_ATOMIC_add   ? "add.noftz"
           : op == PTX_ATOMIC_min ? "min.noftz"
           : op == PTX_ATOMIC_max ? "max.noftz"
                                  : NULL;
}

static bool vector_ok(ptx_builder *b, const struct ptx_op_info *info, ptx_ptr p, const char *text,
                      struct ptx_atomic_vec_params *a)
{
    const ptx_type type = (ptx_type)p.type;
    const unsigned lanes = a->x.lanes;

    if (!text) {
        ptxb_fail(b, "atomic_vec",
                  "there is no atomic %s of vectors of %s; there are add, min and max of f16, "
                  "f16x2, bf16 and bf16x2, and add of f32",
                  info->name, ptx_type_name(type));
        return false;
    }
    if (lanes != 2 && lanes != 4 && (lanes != 8 || ptx_type_bytes(type) != 2)) {
        ptxb_fail(b, "atomic_vec", "%u lanes of %s; there are 2 and 4, and 8 of f16 and bf16",
                  lanes, ptx_type_name(type));
        return false;
    }
    for (unsigned k = 0; k < lanes; k++) {
        char name[16];
        snprintf(name, sizeof name, "lane %u", k);
        a->x.lane[k] = ptxb_typed(b, "atomic_vec", name, a->x.lane[k], type);
        if (!ptxb_usable(b, "atomic_vec", name, a->x.lane[k]))
            return false;
        if (a->x.lane[k].type == p.type)
            continue;
        ptxb_fail(b, "atomic_vec", "%s is %s; the pointer is to %s", name,
                  ptx_type_name((ptx_type)a->x.lane[k].type), ptx_type_name(type));
        return false;
    }
    return pointer_ok(b, "atomic_vec", p, PTX_SPACE_GLOBAL, "global") &&
           ordering_ok(b, "atomic_vec", (struct ordering) { a->order, a->scope }) &&
           ptxb_in_array(b, "atomic_vec", p, lanes * ptx_type_bytes(type)) &&
           ptxb_traffic_ok(b, "atomic_vec", p, false);
}

ptx_vec ptx_atomic_vec_emit(ptx_builder *b, ptx_atomic_op op, ptx_ptr p, ptx_val i,
                            struct ptx_atomic_vec_params a)
{
    static const char *const vectors[] = { [2] = ".v2", [4] = ".v4", [8] = ".v8" };
    const struct ptx_op_info *info = ptx_atomic_get_info(op);
    const unsigned lanes = a.x.lanes <= 8 ? a.x.lanes : 8;
    ptx_vec old = { { { 0 } }, lanes };

    if (!ptxb_ready(b, "atomic_vec"))
        return old;
    if (!info)
        ptxb_fail(b, "atomic_vec", "%d is not an operation; see ptx_atomic_op", (int)op);
    p = ptxb_at(b, "atomic_vec", p, i);
    const char *text = vector_text(op, (ptx_type)p.type);
    if (b->failed || !vector_ok(b, info, p, text, &a))
        return old;
    struct ptx_op_form form = *ptx_op_get_info(PTX_OP_atom_vec)->forms;
    form.text = text;
    const uint32_t opcode = atomic_opcode(b, "atomic_vec", &form, p, vectors[lanes],
                                          (struct ordering) { a.order, a.scope });
    for (unsigned k = 0; opcode && k < lanes; k++)
        a.x.lane[k] = ptxb_has_literal(a.x.lane[k]) ? a.x.lane[k] : ptxb_mov(b, a.x.lane[k]);
    for (unsigned k = 0; opcode && k < lanes; k++)
        old.lane[k] = ptxb_register(b, (ptx_type)p.type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, lanes, 1 + lanes);
    if (!insn)
        return (ptx_vec) { { { 0 } }, lanes };
    ptxb_address(b, insn, lanes, p);
    for (unsigned k = 0; k < lanes; k++) {
        ptxb_result(b, insn, k, old.lane[k]);
        ptxb_source(b, insn, lanes + 1 + k, a.x.lane[k]);
    }
    ptxb_brace(b, insn, 0, lanes - 1);
    ptxb_brace(b, insn, lanes + 1, 2 * lanes);
    insn->varying = true;
    insn->reducible = has_red(a.order);
    return old;
}

// ---- fences -------------------------------------------------------------------------------------

void ptx_fence(ptx_builder *b, ptx_order order, ptx_scope scope)
{
    if (!ptxb_ready(b, "fence"))
        return;
    if ((order != PTX_ORDER_ACQ_REL && order != PTX_ORDER_SEQ_CST) ||
        (unsigned)scope > PTX_SCOPE_SYSTEM) {
        ptxb_fail(b, "fence",
                  "order %d, scope %d; a fence takes PTX_ORDER_ACQ_REL or PTX_ORDER_SEQ_CST, and a "
                  "ptx_scope",
                  (int)order, (int)scope);
        return;
    }
    const bool cluster = scope == PTX_SCOPE_CLUSTER;
    const uint32_t opcode = ptxb_spell(b, "fence", order == PTX_ORDER_SEQ_CST ? ".sc" : ".acq_rel",
                                       ptxb_scope_names[scope], NULL);
    ptxb_emit_void(b, ptxb_required(b, "fence", cluster ? 78 : 60, cluster ? 90 : 70, opcode), 0,
                   NULL);
}

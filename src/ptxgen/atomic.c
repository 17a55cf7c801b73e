// SPDX-License-Identifier: MIT
// Atomics and fences.
#include "internal.h"

#include <string.h>

static const char *const scopes[] = { ".gpu", ".cta", ".cluster", ".gpu", ".sys" };
static const char *const orders[] = {
    [PTX_ORDER_RELAXED] = ".relaxed",
    [PTX_ORDER_ACQUIRE] = ".acquire",
    [PTX_ORDER_RELEASE] = ".release",
    [PTX_ORDER_ACQ_REL] = ".acq_rel",
};

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
    if (p.readonly || p.writeonly || p.space > PTX_SPACE_SHARED) {
        ptxb_fail(b, call,
                  "an atomic reads and writes global or shared memory; the pointer is %s%s",
                  p.readonly    ? "readonly, "
                  : p.writeonly ? "writeonly, "
                                : "",
                  ptxb_space_name(p.space));
        return false;
    }
    if (a->order == PTX_ORDER_VOLATILE || (unsigned)a->order > PTX_ORDER_ACQ_REL) {
        ptxb_fail(b, call,
                  "order %d; an atomic takes PTX_ORDER_RELAXED, PTX_ORDER_ACQUIRE, "
                  "PTX_ORDER_RELEASE or PTX_ORDER_ACQ_REL",
                  (int)a->order);
        return false;
    }
    if ((unsigned)a->scope > PTX_SCOPE_SYSTEM) {
        ptxb_fail(b, call, "%d is not a scope; see ptx_scope", (int)a->scope);
        return false;
    }
    return true;
}

static const char *const calls[] = {
#define CALL(name, ...) "atomic_" #name,
    PTX_ATOMICS(CALL) PTX_ATOMICS_CAS(CALL)
#undef CALL
};

static const char *spell(ptx_builder *b, const struct ptx_op_form *form, ptx_ptr p,
                         const struct ptx_atomic_params *a)
{
    const bool explicit_order = a->order != PTX_ORDER_WEAK || a->scope != PTX_SCOPE_DEFAULT;
    const size_t length = strlen(form->text);
    const bool bits = length > 2 && !strcmp(form->text + length - 2, ".b");

    return ptxb_join(
        b, "atom", explicit_order ? orders[a->order ? a->order : PTX_ORDER_RELAXED] : "",
        explicit_order ? scopes[a->scope] : "", ptxb_space_text(p.space), ".", form->text,
        bits ? "" : ".",
        bits ? ptxb_bits_name((ptx_type)p.type) + 1 : ptx_type_name((ptx_type)p.type), NULL);
}

static uint32_t atomic_opcode(ptx_builder *b, const char *call, const struct ptx_op_form *form,
                              ptx_ptr p, const struct ptx_atomic_params *a, ptx_atomic_op op)
{
    const uint64_t key = SPELLED_ATOM | (uint64_t)op << 8 | (uint64_t)p.type << 16 |
                         (uint64_t)p.space << 24 | (uint64_t)a->order << 32 |
                         (uint64_t)a->scope << 40;
    const uint32_t known = ptxb_remembered(b, key);
    if (known)
        return known;
    const char *opcode = spell(b, form, p, a);
    const bool cluster = a->scope == PTX_SCOPE_CLUSTER;
    if (!ptxb_require(b, call, form->isa, form->sm, opcode) ||
        (cluster && !ptxb_require(b, call, 78, 90, opcode)))
        return 0;
    return ptxb_remember(b, key, opcode);
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
    if (!ptxb_ready(b, "atomic"))
        return poison;
    const char *call = calls[op];
    p = ptxb_at(b, call, p, i);
    if (b->failed || !operands_ok(b, call, info, p, &a, cas) ||
        !ptxb_in_array(b, call, p, ptx_type_bytes((ptx_type)p.type)))
        return poison;
    const struct ptx_op_form *form = ptxb_form(info, (ptx_type)p.type);
    if (!form) {
        ptxb_fail(b, call, "there is no atomic %s of %s", info->name,
                  ptx_type_name((ptx_type)p.type));
        return poison;
    }
    const uint32_t opcode = atomic_opcode(b, call, form, p, &a, op);
    if (!opcode)
        return poison;
    a.x = ptxb_in_register(b, a.x);
    a.compare = cas ? ptxb_in_register(b, a.compare) : poison;
    ptx_val old = ptxb_register(b, (ptx_type)p.type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, cas ? 3 : 2);
    if (!insn)
        return poison;
    ptxb_result(insn, 0, old);
    ptxb_address(b, insn, 1, p);
    if (cas)
        ptxb_source(b, insn, 2, &a.compare);
    ptxb_source(b, insn, cas ? 3 : 2, &a.x);
    insn->varying = true;
    insn->reducible = !cas && op != PTX_ATOMIC_exch && a.order != PTX_ORDER_ACQUIRE &&
                      a.order != PTX_ORDER_ACQ_REL;
    return old;
}

#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_atomic_##name(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val x)                     \
    {                                                                                              \
        return ptx_atomic(b, PTX_ATOMIC_##name, p, i, x);                                          \
    }
PTX_ATOMICS(DEFINE)
#undef DEFINE

ptx_val ptx_atomic_cas(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val compare, ptx_val x)
{
    return ptx_atomic(b, PTX_ATOMIC_cas, p, i, x, .compare = compare);
}

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
    const uint64_t key = SPELLED_FENCE | (uint64_t)order << 8 | (uint64_t)scope << 16;
    uint32_t opcode = ptxb_remembered(b, key);
    if (!opcode) {
        const char *text = ptxb_join(b, "fence", order == PTX_ORDER_SEQ_CST ? ".sc" : ".acq_rel",
                                     scopes[scope], NULL);
        if (!ptxb_require(b, "fence", cluster ? 78 : 60, cluster ? 90 : 70, text))
            return;
        opcode = ptxb_remember(b, key, text);
    }
    ptxb_emit_void(b, opcode, 0, NULL);
}

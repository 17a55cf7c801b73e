// SPDX-License-Identifier: MIT
// Variables: the values that change.
#include "internal.h"

ptx_val ptx_var(ptx_builder *b, ptx_val init)
{
    if (!ptxb_ready(b, "var") || !ptxb_usable(b, "var", "init", init))
        return (ptx_val) { 0 };
    ptx_val var = ptxb_mov(b, init);
    if (b->failed)
        return (ptx_val) { 0 };
    b->regs.at[var.reg].variable = true;
    var.kind = PTX_KIND_VARIABLE;
    return var;
}

void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x)
{
    const uint32_t opcode = ptxb_opcode(b, ptxb_mov_value((ptx_type)x.type));
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, 1);

    if (!insn)
        return;
    insn->moves = 1;
    ptxb_result(insn, 0, var);
    ptxb_source(b, insn, 1, &x);
}

void ptx_set(ptx_builder *b, ptx_val var, ptx_val x)
{
    if (!ptxb_ready(b, "set") || !ptxb_usable(b, "set", "the variable", var) ||
        !ptxb_usable(b, "set", "the value", x))
        return;
    if (var.kind != PTX_KIND_VARIABLE) {
        ptxb_fail(b, "set", "the first value is not a variable; ptx_var() makes one");
        return;
    }
    if (var.type != x.type) {
        ptxb_fail(b, "set", "the variable is %s and the value %s",
                  ptx_type_name((ptx_type)var.type), ptx_type_name((ptx_type)x.type));
        return;
    }
    ptxb_assign(b, var, x);
}

ptx_val ptx_copy(ptx_builder *b, ptx_val x)
{
    if (!ptxb_ready(b, "copy") || !ptxb_usable(b, "copy", "x", x))
        return (ptx_val) { 0 };
    return ptxb_mov(b, x);
}

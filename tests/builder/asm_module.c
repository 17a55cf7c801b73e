// SPDX-License-Identifier: MIT
#include "asm_module.h"

void asm_module(ptx_builder *b)
{
    ptx_asm_module(b,
                   "\n"
                   "    // counts what was dropped\n"
                   "    .global .align 4 .u32 dropped;\n"
                   "    .func (.reg .b32 r) twice(.reg .b32 a)\n"
                   "    {\n"
                   "        add.u32 r, a, a;\n"
                   "        ret;\n"
                   "    }\n",
                   .declares = { "dropped", "twice" });
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_ptr in = ptx_param_ptr(b, PTX_U32, "in", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val tid = ptx_tid(b, PTX_X), sum = ptx_var(b, ptx_u32(7)), pair[2];

        ptx_val x = ptx_asm(b, "ld.global.L1::no_allocate.u32 %0, [%1];", .result = { PTX_U32 },
                            .at = { ptx_at(b, in, 3) }, .isa = 74, .writes = PTX_MEMORY_NONE);
        ptx_val dot = ptx_asm(b, "dp2a.lo.u32.u32 %0, %1, %2, %3;", .result = { PTX_U32 },
                              .in = { x, tid, ptx_u32(5) }, .isa = 60, .sm = 70, .pure = true);
        ptx_asm_many(b, pair, "shfl.sync.idx.b32 %0|%1, %2, 0, 31, -1;",
                     .result = { PTX_B32, PTX_PRED }, .in = { dot });
        ptx_if (b, pair[1]) {
            ptx_asm(b,
                    "{\n"
                    "    .reg .pred big;             // its own\n"
                    "    .reg .b32 t; .reg .b64 w;\n"
                    "    setp.gt.u32 big, %0, 100;\n"
                    "    @big bra done;\n"
                    "    call (t), twice, (%1);\n"
                    "    mov.b64 w, { t, %1 };\n"
                    "    mov.b64 { %0, t }, w;\n"
                    "done: mov.u32 t, %%laneid; add.u32 %0, %0, t;\n"
                    "}",
                    .inout = { sum }, .in = { pair[0] }, .convergence = PTX_CONVERGENCE_NONE);
        }
        ptx_asm(b, "@!%1 bra skip_%=; red.global.add.u32 [dropped], %0; skip_%=: // the end",
                .in = { sum, pair[1] });
        ptx_store(b, out, tid, sum);
        ptx_store(b, ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "dropped"), 1, x);
    }
}

// SPDX-License-Identifier: MIT
// The calls that came after the first recordings, as rows of operand types: text, data, messages,
// mathematics, conversions to 8 bits and tf32, vectors, numbers. Those of whole warps are in
// random_program_matrix.c. Frozen, like the alphabet: new calls need seeds of their own.
#include "random_program_calls.h"

#include <stdio.h>

ptx_val program_placed(struct emitter *e, ptx_val x)
{
    return x.kind == PTX_KIND_IMMEDIATE ? ptx_copy(e->b, x) : x;
}

#define ROW(function)                                                                              \
    static ptx_val function(struct emitter *e, const struct node *n, const ptx_val *x)

// ---- asm.h --------------------------------------------------------------------------------------

ROW(asm_dot)
{
    (void)n;
    return ptx_asm(e->b, "dp2a.lo.s32.u32 %0, %1, %2, %3;", .result = { PTX_S32 },
                   .in = { x[0], x[1], x[2] }, .isa = 60, .sm = 70, .pure = true);
}

ROW(asm_block)
{
    (void)n;
    return ptx_asm(e->b,
                   "{\n"
                   "    .reg .pred small;\n"
                   "    setp.lt.u32 small, %1, %2;\n"
                   "    mov.u32 %0, %1;\n"
                   "    @small bra done;\n"
                   "    sub.u32 %0, %1, %2;\n"
                   "done:\n"
                   "}",
                   .result = { PTX_U32 }, .in = { x[0], x[1] }, .pure = true);
}

ROW(asm_results)
{
    ptx_val sum[2];

    ptx_asm_many(e->b, sum, "add.cc.u32 %0, %2, %3; addc.u32 %1, %4, 0;",
                 .result = { PTX_U32, PTX_U32 }, .in = { x[0], x[1], x[2] },
                 .divergence = PTX_DIVERGENCE_OPERANDS, .reads = PTX_MEMORY_NONE,
                 .writes = PTX_MEMORY_NONE);
    return sum[n->a & 1];
}

ROW(asm_variable)
{
    ptx_val v = ptx_var(e->b, x[0]);

    (void)n;
    ptx_asm(e->b, "{ .reg .b32 t; mov.u32 t, %%laneid; mad.lo.u32 %0, %0, %1, t; }", .inout = { v },
            .in = { x[1] });
    return v;
}

ROW(asm_address)
{
    ptx_val i = ptx_and(e->b, x[0], PROGRAM_INPUTS - 1);
    ptx_ptr p = ptx_at(e->b, program_input_array(e, PTX_U32), i);

    (void)n;
    return ptx_asm(e->b, "ld.global.u32 %0, [%1];", .result = { PTX_U32 }, .at = { p },
                   .reads = PTX_MEMORY_GLOBAL, .writes = PTX_MEMORY_NONE);
}

// A name of its own for each node of each program.
static void name_of(const struct emitter *e, const struct node *n, char name[64])
{
    snprintf(name, 64, "%s_v%u", e->name, (unsigned)(n - e->p->node));
}

// Without a call of a function: docs/asm.md says what ptxas may make of it.
ROW(asm_module)
{
    char name[64], text[256], use[128];

    name_of(e, n, name);
    snprintf(text, sizeof text, ".const .align 4 .u32 %s = %u;", name, (unsigned)n->b);
    snprintf(use, sizeof use,
             "{ .reg .b32 mask; ld.const.u32 mask, [%s]; xor.b32 %%0, %%1, mask; }", name);
    ptx_asm_module(e->b, text, .declares = { name });
    return ptx_asm(e->b, use, .result = { PTX_U32 }, .in = { x[0] },
                   .convergence = PTX_CONVERGENCE_NONE, .divergence = PTX_DIVERGENCE_OPERANDS);
}

// ---- data.h -------------------------------------------------------------------------------------

static struct ptx_data_params array(const struct emitter *e, const struct node *n, ptx_type type,
                                    char name[64], uint64_t values[16])
{
    struct random r = { n->b };

    name_of(e, n, name);
    for (unsigned k = 0; k < 16; k++)
        values[k] = random_u64(&r);
    // The last elements are left out: they are zero.
    return (struct ptx_data_params) { .name = name,
                                      .values = values,
                                      .bytes = (12 + n->a % 5) * ptx_type_bytes(type),
                                      .count = 16,
                                      .align = n->a & 32 ? 64 : 0 };
}

static ptx_val read_const(struct emitter *e, const struct node *n, ptx_val i, ptx_type type)
{
    uint64_t values[16];
    char name[64];
    ptx_ptr p = ptx_const_emit(e->b, type, array(e, n, type, name, values));
    return ptx_load(e->b, p, ptx_and(e->b, i, 15));
}

ROW(const_u32)
{
    return read_const(e, n, x[0], PTX_U32);
}

ROW(const_u8)
{
    return read_const(e, n, x[0], PTX_U8);
}

ROW(const_s64)
{
    return read_const(e, n, x[0], PTX_S64);
}

ROW(const_f16)
{
    return read_const(e, n, x[0], PTX_F16);
}

ROW(global_u16)
{
    uint64_t values[16];
    char name[64];
    ptx_ptr p = ptx_global_emit(e->b, PTX_U16, array(e, n, PTX_U16, name, values));
    return ptx_load(e->b, p, ptx_and(e->b, x[0], 15));
}

// An element for each thread, stored and loaded.
ROW(global_own)
{
    char name[64];

    name_of(e, n, name);
    ptx_ptr p = ptx_global(e->b, PTX_F64, name, .count = PROGRAM_THREADS);
    ptx_store(e->b, p, e->thread, x[0]);
    return ptx_load(e->b, p, e->thread);
}

ROW(string_byte)
{
    ptx_ptr p = ptx_string(e->b, n->a & 1 ? "0123456" : "a string");
    return ptx_load(e->b, p, ptx_and(e->b, x[0], 7));
}

ROW(string_generic)
{
    ptx_val address = ptx_ptr_generic(e->b, ptx_string(e->b, "by its address"));
    ptx_ptr p = ptx_ptr_from(e->b, PTX_U8, PTX_SPACE_GENERIC, address);

    (void)n;
    return ptx_load(e->b, p, ptx_and(e->b, x[0], 7));
}

// ---- message.h ----------------------------------------------------------------------------------

// False, which no compiler knows: the grid is small.
static ptx_val never(struct emitter *e)
{
    return ptx_gt(e->b, ptx_nctaid(e->b, PTX_X), 1000);
}

ptx_val program_print_if(struct emitter *e, const struct node *n, const ptx_val *x,
                         ptx_val condition)
{
    ptx_builder *b = e->b;

    ptx_if (b, condition) {
        if (n->a & 1)
            ptx_printf(b, "%u %5d%% %s\n", x[0], x[1],
                       ptx_ptr_generic(b, ptx_string(b, "a string")));
        else
            ptx_printf(b, "%g %.3e %llx %d %p\n", x[2], x[3], x[4], 7, x[4]);
    }
    return program_placed(e, x[2]);
}

ROW(print)
{
    return program_print_if(e, n, x, never(e));
}

ROW(assertion)
{
    ptx_assert(e->b, ptx_lt(e->b, e->tid, PROGRAM_BLOCK), "tid < 256", .line = n->a & 1 ? 7 : 0);
    return program_placed(e, x[0]);
}

ROW(trap)
{
    (void)n;
    ptx_if (e->b, never(e))
        ptx_trap_message(e->b, "the grid is large");
    return program_placed(e, x[0]);
}

// ---- math.h -------------------------------------------------------------------------------------

#define UNARY(name, ...)                                                                           \
    ROW(math_##name)                                                                               \
    {                                                                                              \
        (void)n;                                                                                   \
        return ptx_math_##name(e->b, x[0]);                                                        \
    }
#define BINARY(name, ...)                                                                          \
    ROW(math_##name)                                                                               \
    {                                                                                              \
        (void)n;                                                                                   \
        return ptx_math_##name(e->b, x[0], x[1]);                                                  \
    }
PTX_MATH_UNARY(UNARY)
PTX_MATH_BINARY(BINARY)

// ---- convert.h ----------------------------------------------------------------------------------

static ptx_type byte_type(const struct node *n)
{
    return n->a & 1 ? PTX_E4M3X2 : PTX_E5M2X2;
}

ROW(bytes_of_halves)
{
    ptx_val small = ptx_cvt(e->b, byte_type(n), x[0], .relu = n->a & 2);
    return ptx_cvt(e->b, PTX_F16X2, small);
}

ROW(bytes_of_floats)
{
    ptx_val small = n->a & 2 ? ptx_cvt_pack(e->b, byte_type(n), x[0], x[1])
                             : ptx_cvt(e->b, byte_type(n), x[0], .hi = x[1], .relu = n->a & 4);
    return ptx_bitcast(e->b, PTX_U16, small);
}

ROW(bytes_in_memory)
{
    ptx_ptr p = program_own(e, n->a & 2 ? PTX_SPACE_LOCAL : PTX_SPACE_SHARED, byte_type(n));

    ptx_store(e->b, p, 1, ptx_bitcast(e->b, byte_type(n), program_placed(e, x[0])));
    return ptx_cvt(e->b, PTX_F16X2, ptx_load(e->b, p, 1), .relu = n->a & 4);
}

ROW(tf32)
{
    static const ptx_round rounds[] = { PTX_ROUND_DEFAULT, PTX_ROUND_RNA, PTX_ROUND_RN,
                                        PTX_ROUND_RZ };
    const ptx_round round = rounds[n->a & 3];
    ptx_val t = ptx_cvt(e->b, PTX_TF32, x[0], .round = round, .relu = n->a & 2 && n->a & 4);
    return n->a & 8 ? ptx_bitcast(e->b, PTX_U32, t)
                    : ptx_bitcast(e->b, PTX_U32, ptx_cvt(e->b, PTX_F32, t));
}

// ---- vectors ------------------------------------------------------------------------------------

ROW(vector_of_4)
{
    const ptx_space spaces[] = { PTX_SPACE_GENERIC, PTX_SPACE_GLOBAL, PTX_SPACE_SHARED,
                                 PTX_SPACE_LOCAL };
    ptx_ptr p = program_own(e, spaces[n->a & 3], PTX_S32);

    ptx_store_vec(e->b, p, 0, ptx_vec4(x[0], x[1], 5, x[2]));
    return ptx_load_vec(e->b, p, 0, 4).lane[n->b & 3];
}

ROW(vector_of_8)
{
    ptx_ptr p = program_own(e, n->a & 1 ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL, PTX_U16);

    ptx_store_vec(e->b, p, 0, ptx_vec8(x[0], x[1], x[2], x[3], 7, x[4], x[0], 65535));
    return ptx_load_vec(e->b, p, 0, 8).lane[n->b & 7];
}

ROW(wide_vector)
{
    ptx_val i = ptx_and(e->b, x[0], (PROGRAM_INPUTS - 1) & ~7);
    return ptx_load_vec(e->b, program_input_array(e, PTX_U32), i, 8, .nc = n->a & 8).lane[n->b & 7];
}

// ---- threads.h, numbers -------------------------------------------------------------------------

ROW(index_u32)
{
    return ptx_xor(e->b, ptx_global_index(e->b, (ptx_axis)(n->a % 3)), x[0]);
}

ROW(index_u64)
{
    return ptx_add(e->b, ptx_global_index_wide(e->b, (ptx_axis)(n->a % 3)), x[0]);
}

ROW(numbers_u32)
{
    (void)n;
    return ptx_mad(e->b, ptx_shl(e->b, x[0], 3), 4000000000, ptx_sub(e->b, 7, x[1]));
}

ROW(numbers_s64)
{
    (void)n;
    return ptx_max(e->b, ptx_sub(e->b, x[0], -9000000000), 12);
}

ROW(numbers_f32)
{
    (void)n;
    return ptx_fma(e->b, ptx_mul(e->b, 0.5, x[0]), -2, ptx_add(e->b, x[1], 1e-3f));
}

ROW(numbers_f16)
{
    (void)n;
    return ptx_add(e->b, ptx_mul(e->b, x[0], 0.25), 1);
}

ROW(numbers_pred)
{
    (void)n;
    return ptx_and(e->b, ptx_lt(e->b, x[0], 3), ptx_ge(e->b, -1, x[1]));
}

ROW(numbers_select)
{
    (void)n;
    return ptx_select(e->b, x[0], x[1], -1);
}

ROW(numbers_memory)
{
    ptx_builder *b = e->b;
    ptx_ptr p = program_own(e, PTX_SPACE_LOCAL, PTX_F32);

    ptx_store(b, p, 0, 1.5);
    ptx_store(b, p, 1, x[0]);
    ptx_store(b, p, 2, 3);
    ptx_store(b, p, 3, -1e10);
    return ptx_load(b, p, n->a & 3);
}

// ---- all ----------------------------------------------------------------------------------------

#define MATH_UNARY(name, ...)  { #name, math_##name, false, PTX_F32, { PTX_F32 } },
#define MATH_BINARY(name, ...) { #name, math_##name, false, PTX_F32, { PTX_F32, PTX_F32 } },
const struct program_row program_rows[] = {
    { "asm_dot", asm_dot, false, PTX_S32, { PTX_S32, PTX_U32, PTX_S32 } },
    { "asm_block", asm_block, false, PTX_U32, { PTX_U32, PTX_U32 } },
    { "asm_results", asm_results, false, PTX_U32, { PTX_U32, PTX_U32, PTX_U32 } },
    { "asm_variable", asm_variable, false, PTX_U32, { PTX_U32, PTX_U32 } },
    { "asm_address", asm_address, false, PTX_U32, { PTX_U32 } },
    { "asm_module", asm_module, false, PTX_U32, { PTX_U32 } },
    { "const_u32", const_u32, false, PTX_U32, { PTX_U32 } },
    { "const_u8", const_u8, false, PTX_U8, { PTX_U32 } },
    { "const_s64", const_s64, false, PTX_S64, { PTX_U32 } },
    { "const_f16", const_f16, false, PTX_F16, { PTX_U32 } },
    { "global_u16", global_u16, false, PTX_U16, { PTX_U32 } },
    { "global_own", global_own, false, PTX_F64, { PTX_F64 } },
    { "string_byte", string_byte, false, PTX_U8, { PTX_U32 } },
    { "string_generic", string_generic, false, PTX_U8, { PTX_U32 } },
    { "print", print, false, PTX_F32, { PTX_U32, PTX_S32, PTX_F32, PTX_F16, PTX_U64 } },
    { "assertion", assertion, false, PTX_U32, { PTX_U32 } },
    { "trap", trap, false, PTX_B64, { PTX_B64 } },
    PTX_MATH_UNARY(MATH_UNARY) PTX_MATH_BINARY(MATH_BINARY) {
        "bytes_of_halves", bytes_of_halves, false, PTX_F16X2, { PTX_F16X2 } },
    { "bytes_of_floats", bytes_of_floats, false, PTX_U16, { PTX_F32, PTX_F32 } },
    { "bytes_in_memory", bytes_in_memory, false, PTX_F16X2, { PTX_U16 } },
    { "tf32", tf32, false, PTX_U32, { PTX_F32 } },
    { "vector_of_4", vector_of_4, false, PTX_S32, { PTX_S32, PTX_S32, PTX_S32 } },
    { "vector_of_8", vector_of_8, false, PTX_U16, { PTX_U16, PTX_U16, PTX_U16, PTX_U16, PTX_U16 } },
    { "wide_vector", wide_vector, false, PTX_U32, { PTX_U32 } },
    { "index_u32", index_u32, false, PTX_U32, { PTX_U32 } },
    { "index_u64", index_u64, false, PTX_U64, { PTX_U64 } },
    { "numbers_u32", numbers_u32, false, PTX_U32, { PTX_U32, PTX_U32 } },
    { "numbers_s64", numbers_s64, false, PTX_S64, { PTX_S64 } },
    { "numbers_f32", numbers_f32, false, PTX_F32, { PTX_F32, PTX_F32 } },
    { "numbers_f16", numbers_f16, false, PTX_F16, { PTX_F16 } },
    { "numbers_pred", numbers_pred, false, PTX_PRED, { PTX_S32, PTX_F64 } },
    { "numbers_select", numbers_select, false, PTX_S16, { PTX_PRED, PTX_S16 } },
    { "numbers_memory", numbers_memory, false, PTX_F32, { PTX_F32 } },
    { "copy", program_copy, false, PTX_U64, { PTX_U32 } },
    { "load_tiles", program_load_tiles, true, PTX_B32, { PTX_B64, PTX_B64 } },
    { "store_tiles", program_store_tiles, true, PTX_U64, { PTX_B32, PTX_F32, PTX_F16X2, PTX_U32 } },
    { "product_f16",
      program_product_f16,
      true,
      PTX_U32,
      { PTX_F16X2, PTX_F16X2, PTX_F32, PTX_B32 } },
    { "product_bf16", program_product_bf16, true, PTX_F32, { PTX_BF16X2, PTX_BF16X2, PTX_F32 } },
    { "product_tf32", program_product_tf32, true, PTX_F32, { PTX_F32, PTX_F32, PTX_F32 } },
    { "product_s8", program_product_s8, true, PTX_S32, { PTX_B32, PTX_U32, PTX_S32 } },
    { "product_in_memory",
      program_product_in_memory,
      true,
      PTX_U64,
      { PTX_B64, PTX_U64, PTX_F32 } },
    // Of programs with a subject only.
    { "print_some",
      program_print_some,
      false,
      PTX_F32,
      { PTX_U32, PTX_S32, PTX_F32, PTX_F16, PTX_U64 } },
    { "print_sides", program_print_sides, false, PTX_U32, { PTX_U32, PTX_PRED, PTX_F32 } },
    { "assert_each", program_assert_each, false, PTX_U32, { PTX_U32, PTX_U32 } },
    { "trap_never", program_trap_never, false, PTX_B64, { PTX_B64, PTX_U32 } },
    { "constant_f16", program_constant_f16, true, PTX_U32, { PTX_F16X2, PTX_F32 } },
    { "constant_bf16", program_constant_bf16, true, PTX_F32, { PTX_BF16X2, PTX_F32 } },
};
enum { MESSAGE_ROWS = 4, CONSTANT_ROWS = 2, ROWS = sizeof program_rows / sizeof *program_rows };
const unsigned program_row_count = ROWS - MESSAGE_ROWS - CONSTANT_ROWS;

unsigned program_subject_row(enum program_subject subject, unsigned choice)
{
    return subject == SUBJECT_MESSAGES ? program_row_count + choice % MESSAGE_ROWS
                                       : ROWS - CONSTANT_ROWS + choice % CONSTANT_ROWS;
}

// SPDX-License-Identifier: MIT
#include "builder_fixture.h"
#include "ops_lines.h"

#include <math.h>

static const size_t line_count = sizeof ops_lines / sizeof *ops_lines;

static void operands(ptx_builder *b, const struct ptx_op_info *info, ptx_type type, ptx_val v[4])
{
    const char *shape = info->shape + 2;

    memset(v, 0, 4 * sizeof *v);
    for (unsigned k = 0; shape[k]; k++) {
        const ptx_type of = shape[k] == 'W'   ? (ptx_type)(type + 1)
                            : shape[k] == 'p' ? PTX_PRED
                            : shape[k] == 'T' ? type
                                              : PTX_U32;
        v[k] = ptx_var(b, ptx_zero(of));
        if (shape[k] == 'i')
            v[k] = ptx_u32(0xe8);
    }
}

TEST(each_form_has_its_line)
{
    size_t forms = 0;

    for (size_t k = 0; k < line_count; k++) {
        const struct ptx_op_info *info = ptx_op_get_info(ops_lines[k].op);
        ptx_builder *b = builder_at(100);
        const struct ptx_op_form *form = info->forms;
        while (!(form->types >> ops_lines[k].type & 1))
            form++;
        const unsigned mods = ops_lines[k].all ? form->modifiers : 0;
        ptx_entry (b, "k") {
            ptx_val v[4];
            operands(b, info, ops_lines[k].type, v);
            ptx_op(b, ops_lines[k].op, .x = v[0], .y = v[1], .z = v[2], .w = v[3],
                   .round = mods & PTX_MOD_ROUND ? PTX_ROUND_RP : PTX_ROUND_DEFAULT,
                   .ftz = mods & PTX_MOD_FTZ, .sat = mods & PTX_MOD_SAT);
        }
        EXPECT_LINES(b, ops_lines[k].line);
    }
    for (unsigned op = 1; op < PTX_OP_COUNT; op++)
        forms += ptx_op_get_info((ptx_opcode)op)->shape
                     ? ptx_op_get_info((ptx_opcode)op)->form_count
                     : 0;
    // Each form has a line.
    assert_int_equal(line_count, forms);
}

// The function ptx_<name>() writes the same as ptx_op() for the row without modifiers.
TEST(each_function_is_its_row)
{
#define CALL(name, ...)                                                                            \
    for (int plain = 0; plain < 2; plain++) {                                                      \
        const struct ptx_op_info *info = ptx_op_get_info(PTX_OP_##name);                           \
        ptx_type type = PTX_U8;                                                                    \
        while (!(info->forms->types >> type & 1))                                                  \
            type = (ptx_type)(type + 1);                                                           \
        ptx_builder *b = builder_at(100);                                                          \
        ptx_entry (b, "k") {                                                                       \
            ptx_val v[4];                                                                          \
            operands(b, info, type, v);                                                            \
            if (plain)                                                                             \
                ptx_op(b, PTX_OP_##name, .x = v[0], .y = v[1], .z = v[2], .w = v[3]);              \
            else                                                                                   \
                CALLED(ptx_##name, ARGUMENTS);                                                     \
        }                                                                                          \
        const char *written = finished(b);                                                         \
        assert_non_null(written);                                                                  \
        snprintf(text[plain], sizeof text[plain], "%s", written ? written : "");                   \
        ptx_builder_destroy(&b);                                                                   \
        if (plain)                                                                                 \
            assert_string_equal(text[0], text[1]);                                                 \
    }
    static char text[2][4096];

#define CALLED(function, ...) function(__VA_ARGS__)
#define ARGUMENTS             b, v[0]
    PTX_OPS_UNARY(CALL)
#undef ARGUMENTS
#define ARGUMENTS b, v[0], v[1]
    PTX_OPS_BINARY(CALL)
#undef ARGUMENTS
#define ARGUMENTS b, v[0], v[1], v[2]
    PTX_OPS_TERNARY(CALL)
#undef ARGUMENTS
#define ARGUMENTS b, v[0], v[1], v[2], v[3]
    PTX_OPS_QUATERNARY(CALL)
#undef ARGUMENTS
#undef CALLED
#undef CALL
}

TEST(roundings_are_spelled)
{
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_var(b, ptx_f32(1.5f));
        ptx_add(b, x, x);
        ptx_op(b, PTX_OP_add, .x = x, .y = x, .round = PTX_ROUND_RN);
        ptx_op(b, PTX_OP_add, .x = x, .y = x, .round = PTX_ROUND_RZ);
        ptx_op(b, PTX_OP_add, .x = x, .y = x, .round = PTX_ROUND_RM);
        ptx_op(b, PTX_OP_add, .x = x, .y = x, .round = PTX_ROUND_RP, .sat = true);
    }
    EXPECT_LINES(b, "add.rn.f32 %f2, %f1, %f1;", "add.rn.f32 %f3,", "add.rz.f32 %f4,",
                 "add.rm.f32 %f5,", "add.rp.sat.f32 %f6,");
}

// A literal is written into the instruction if PTX allows it, with a float's decimal value as a
// comment. Otherwise it goes through a register.
TEST(immediates_are_written_in_place)
{
    NEW_ENTRY (b, 90) {
        ptx_val p = ptx_var(b, ptx_bool(true));
        ptx_val f = ptx_var(b, ptx_f32(0.1f));
        ptx_val d = ptx_var(b, ptx_f64(-1e300));
        ptx_val h = ptx_var(b, ptx_imm(PTX_F16, 65504));
        ptx_add(b, f, ptx_f32(-2));
        ptx_fma(b, d, ptx_f64(1.0 / 3), ptx_f64(0));
        ptx_select(b, p, ptx_imm(PTX_F16, 0.5), h);
        ptx_select(b, p, ptx_imm(PTX_F16X2, 1), ptx_imm(PTX_F16X2, -1));
        ptx_and(b, p, ptx_bool(false));
        ptx_add(b, ptx_s16(-7), ptx_s16(INT16_MIN));
        ptx_add(b, ptx_s64(INT64_MIN), ptx_s64(-1));
        ptx_xor(b, ptx_b32(0x12345), ptx_b32(7));
        ptx_add(b, ptx_f32(INFINITY), ptx_f32(-NAN));
        ptx_var(b, ptx_imm(PTX_S8, -3));
        ptx_var(b, ptx_imm(PTX_BF16, -0.0));
        ptx_var(b, ptx_imm(PTX_F16, -INFINITY));
    }
    EXPECT_LINES(b, "mov.pred %p1, 1;", "mov.f32 %f1, 0f3DCCCCCD; // 0.1",
                 "mov.f64 %fd1, 0dFE37E43C8800759C; // -1e+300", "mov.b16 %rs1, 0x7BFF; // 65504.0",
                 "add.rn.f32 %f2, %f1, 0fC0000000; // -2.0",
                 "fma.rn.f64 %fd2, %fd1, 0d3FD5555555555555, 0d0000000000000000; // "
                 "0.3333333333333333, 0.0",
                 "selp.b16 %rs2, 0x3800, %rs1, %p1; // 0.5",
                 "selp.b32 %r1, 0x3c003c00, 0xbc00bc00, %p1;", "mov.pred %p2, 0;",
                 "and.pred %p3, %p1, %p2;", "add.s16 %rs3, -7, -32768;",
                 "add.s64 %rd1, -9223372036854775808, -1;", "xor.b32 %r2, 0x12345, 7;",
                 "0f7F800000, 0fFFC00000; // inf, nan", "mov.b16 %rs4, -3;",
                 "mov.b16 %rs5, 0x8000; // -0.0", "mov.b16 %rs6, 0xFC00; // -inf");
}

// Integer operations that change nothing are not written; those of floats are. A result ends with
// its block nevertheless.
TEST(idle_operations_are_not_written)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val x = ptx_tid(b, PTX_X), f = ptx_cvt(b, PTX_F32, x);
        ptx_comment(b, "here");
        ptx_val same = ptx_mul(b, 1, ptx_shl(b, ptx_sub(b, ptx_add(b, 0, x), 0), 0));
        same = ptx_xor(b, ptx_or(b, ptx_mul(b, ptx_shr(b, same, 0), 1), 0), 0);
        ptx_store(b, out, 0, same);
        ptx_store(b, ptx_ptr_cast(b, PTX_S32, out), 1, ptx_neg(b, ptx_s32(INT32_MIN + 1)));
        ptx_add(b, f, 0);
        ptx_mul(b, f, 1);
        ptx_neg(b, ptx_f32(1));
        ptx_op(b, PTX_OP_add, .x = ptx_bitcast(b, PTX_S32, x), .y = ptx_s32(0), .sat = true);
    }
    EXPECT_LINES(b, "// here\n st.global.u32 [%rd2], %r1;\n mov.s32 %r2, 2147483647;\n",
                 "st.global.s32 [%rd2+4], %r2;\n add.rn.f32 %f2, %f1, 0f00000000; // 0.0\n",
                 "mul.rn.f32 %f3, %f1, 0f3F800000; // 1.0\n neg.f32 %f4, 0f3F800000; // 1.0\n",
                 "add.sat.s32 %r3, %r1, 0;\n ret;");
    // A variable's value at the time of the call.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val var = ptx_var(b, ptx_tid(b, PTX_X)), before = ptx_add(b, var, 0);
        ptx_store(b, out, 0, before);
        ptx_set(b, var, 5);
        ptx_store(b, out, 1, before);
    }
    EXPECT_LINES(b, "mov.u32 %r1, %tid.x;\n mov.u32 %r2, %r1;\n st.global.u32 [%rd2], %r1;\n",
                 "mov.u32 %r1, 5;\n st.global.u32 [%rd2+4], %r2;");
    ptx_val inner = { 0 };
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val x = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_eq(b, x, 0))
            inner = ptx_add(b, x, 0);
        ptx_add(b, inner, 1);
    }
    EXPECT_ERROR(b, "x was made inside a block that is closed");
}

// An operand that no form of the row takes: the error names the call, the operand's type and the
// types allowed.
TEST(wrong_operands_are_named)
{
    const ptx_val none = { 0 };

#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

    REFUSED(ptx_add(b, u, f), "add: x is u32 and y is f32", "the same type");
    REFUSED(ptx_fma(b, f, f, u), "fma: x is f32 and z is u32", "the same type");
    REFUSED(ptx_shl(b, u, f), "shl: y is f32", "must be u32 where x is u32");
    REFUSED(ptx_selp(b, u, u, u), "selp: z is u32", "must be pred");
    REFUSED(ptx_mad_wide(b, u, u, u), "mad_wide: z is u32", "must be u64");
    REFUSED(ptx_sqrt(b, u), "sqrt: x is u32", "the instruction takes f32 or f64");
    REFUSED(ptx_mul_wide(b, f, f), "mul_wide: x is f32", "u16, u32, s16 or s32");
    REFUSED(ptx_add(b, ptx_bool(true), ptx_bool(true)), "add: x is pred",
            "the instruction takes u16");
    REFUSED(ptx_not(b, f), "not: x is f32", "or b64");
    REFUSED(ptx_select(b, ptx_bool(true), ptx_bool(true), ptx_bool(false)), "select: x is pred");
    REFUSED(ptx_select(b, ptx_bool(true), 1, 2), "ptx_select: x is the number 1, and nothing");
    REFUSED(ptx_select(b, 7, u, u), "ptx_select: the condition is the number 7, which pred");
    REFUSED(ptx_select(b, ptx_bool(true), u, f), "ptx_select: x is u32 and y is f32");
    REFUSED(ptx_add(b, none, f), "add: x was never set");
    REFUSED(ptx_add(b, f, none), "add: y was never set");
    REFUSED(ptx_add(b, ptx_imm(PTX_U16, -1), ptx_u16(1)), "x is the immediate -1",
            "u16 cannot hold");
    REFUSED(ptx_add(b, u, ptx_imm_bits(PTX_U32, UINT64_C(1) << 32)), "y is an immediate of u32",
            "0x100000000");
    REFUSED(ptx_lop3(b, u, u, u, u), "lop3: w", "immediate from 0 to 255");
    REFUSED(ptx_lop3(b, u, u, u, ptx_u32(256)), "lop3: w", "immediate from 0 to 255");
    REFUSED(ptx_bfe(b, u, u, ptx_u32(256)), "bfe: z is 256", "0 to 255");
    REFUSED(ptx_bfi(b, u, u, ptx_u32(300), u), "bfi: z is 300", "0 to 255");
    REFUSED(ptx_op(b, PTX_OP_neg, .x = f, .y = f), "neg: y is given", "takes 1 operand");
    REFUSED(ptx_op(b, PTX_OP_add, .x = f, .y = f, .w = f), "add: w is given", "2 operands");
    REFUSED(ptx_op(b, PTX_OP_add, .x = u, .y = u, .round = PTX_ROUND_RZ),
            "add: add has no choice of", "rounding for u32");
    REFUSED(ptx_op(b, PTX_OP_add, .x = u, .y = u, .ftz = true), "add: add has no .ftz for u32");
    REFUSED(ptx_op(b, PTX_OP_add, .x = u, .y = u, .sat = true), "add: add has no .sat for u32");
    REFUSED(ptx_op(b, PTX_OP_add, .x = f, .y = f, .round = (ptx_round)5),
            "add: 5 is not a rounding", "PTX_ROUND_RN");
    REFUSED(ptx_op(b, PTX_OP_ld, .x = u), "op: ptx_op() does not emit ld", "function of its own");
    REFUSED(ptx_op(b, PTX_OP_NONE, .x = u), "op: the opcode is not");
    REFUSED(ptx_op(b, PTX_OP_COUNT, .x = u), "op: the opcode is not");
    REFUSED(ptx_tid(b, (ptx_axis)3), "tid: 3 is not an axis", "PTX_X");
    REFUSED(ptx_special(b, PTX_SPECIAL_COUNT, PTX_X), "special: ", "is no special register");
    REFUSED(ptx_special(b, (ptx_special_register)-1, PTX_X), "special: -1 is no special register",
            "ptx_special_register");
    REFUSED(ptx_special(b, PTX_SPECIAL_laneid, PTX_Y), "laneid: the register has no axis", "PTX_X");
    REFUSED(ptx_clusterid(b, PTX_X), "clusterid: %clusterid.x needs sm_90", "sm_80");
    REFUSED(ptx_cluster_ctarank(b), "cluster_ctarank: %cluster_ctarank needs sm_90", "sm_80");
#undef REFUSED
}

TEST(special_registers_are_read)
{
    for (unsigned axis = 0; axis < 3; axis++) {
        char line[64];
#define READ(name, text, ...)                                                                      \
    {                                                                                              \
        ptx_builder *b = builder_at(90);                                                           \
        ptx_entry (b, "k")                                                                         \
            ptx_##name(b, (ptx_axis)axis);                                                         \
        snprintf(line, sizeof line, "mov.u32 %%r1, %s.%c;", text, "xyz"[axis]);                    \
        EXPECT_LINES(b, line);                                                                     \
    }
        PTX_SPECIAL_VECTORS(READ)
#undef READ
    }
#define READ(name, text, type, ...)                                                                \
    {                                                                                              \
        ptx_builder *b = builder_at(90);                                                           \
        ptx_entry (b, "k")                                                                         \
            ptx_##name(b);                                                                         \
        EXPECT_LINES(b, PTX_##type == PTX_U64 ? "mov.u64 %rd1, " text ";"                          \
                                              : "mov.u32 %r1, " text ";");                         \
    }
    PTX_SPECIAL_SCALARS(READ)
#undef READ
}

TEST(the_table_is_data)
{
    assert_null(ptx_op_get_info(PTX_OP_NONE));
    assert_null(ptx_op_get_info(PTX_OP_COUNT));
    assert_null(ptx_atomic_get_info(PTX_ATOMIC_COUNT));
    assert_string_equal(ptx_op_get_info(PTX_OP_fma)->name, "fma");
    assert_string_equal(ptx_op_get_info(PTX_OP_fma)->shape, "T=TTT");
    assert_null(ptx_op_get_info(PTX_OP_ld)->shape);
    assert_string_equal(ptx_atomic_get_info(PTX_ATOMIC_cas)->name, "cas");
}

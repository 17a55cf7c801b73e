// SPDX-License-Identifier: MIT
// C numbers as arguments: they get the type of what they belong to, or are refused.
#include "builder_fixture.h"

#include <math.h>

// The same kernel with typed constants and with C numbers.
static void write_kernel(ptx_builder *b, bool plain)
{
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p", .length = "64");
        ptx_ptr q = ptx_param_ptr(b, PTX_U32, "q", .length = "64");
        ptx_val n = ptx_param(b, PTX_S32, "n");
        ptx_val f = ptx_load(b, p, ptx_u32(3)), u = ptx_load(b, q, ptx_u32(3));
        if (!plain) {
            ptx_fma(b, ptx_f32(2), f, ptx_f32(-0.5));
            ptx_add(b, u, ptx_u32(UINT32_MAX));
            ptx_add(b, n, ptx_s32(INT32_MIN));
            ptx_and(b, ptx_bitcast(b, PTX_B32, u), ptx_b32(UINT32_MAX));
            ptx_mad_wide(b, u, ptx_u32(4), ptx_u64(UINT64_C(1) << 40));
            ptx_shl(b, u, ptx_u32(5));
            ptx_bfi(b, u, u, ptx_u32(8), ptx_u32(4));
            ptx_select(b, ptx_lt(b, n, ptx_s32(-1)), f, ptx_f32(1));
            ptx_store(b, p, ptx_u32(0), ptx_f32(1.5), .cache = PTX_CACHE_STREAMING);
            ptx_store(b, p, ptx_s32(-1), ptx_f32(3));
            ptx_atomic_add(b, q, ptx_u32(1), ptx_u32(7));
            ptx_atomic_cas(b, q, ptx_u32(1), ptx_u32(7), ptx_u32(8));
            ptx_shfl(b, PTX_SHFL_DOWN, u, ptx_u32(16), .width = 32);
            ptx_ballot(b, ptx_is_nan(b, f), ptx_u32(UINT32_MAX));
            ptx_barrier_warp(b, ptx_u32(UINT32_MAX));
            ptx_for (b, i, ptx_s32(0), n, ptx_s32(1))
                ptx_store(b, p, i, ptx_f32(0));
        } else {
            ptx_fma(b, 2, f, -0.5f);
            ptx_add(b, u, UINT32_MAX);
            ptx_add(b, n, INT32_MIN);
            ptx_and(b, ptx_bitcast(b, PTX_B32, u), -1);
            ptx_mad_wide(b, u, (unsigned char)4, 1ull << 40);
            ptx_shl(b, u, 5);
            ptx_bfi(b, u, u, 8, (short)4);
            ptx_select(b, ptx_lt(b, n, -1L), f, true);
            ptx_store(b, p, 0, 1.5, .cache = PTX_CACHE_STREAMING);
            ptx_store(b, p, -1, 3);
            ptx_atomic_add(b, q, 1, 7);
            ptx_atomic_cas(b, q, 1u, 7.0, 8);
            ptx_shfl(b, PTX_SHFL_DOWN, u, 16, .width = 32);
            ptx_ballot(b, ptx_is_nan(b, f), 0xffffffff);
            ptx_barrier_warp(b, UINT32_MAX);
            ptx_for (b, i, 0, n, 1)
                ptx_store(b, p, i, 0);
        }
    }
}

TEST(numbers_are_typed_constants)
{
    ptx_builder *typed = builder_at(80), *plain = builder_at(80);
    write_kernel(typed, false);
    write_kernel(plain, true);
    const char *wanted = finished(typed), *text = finished(plain);
    assert_string_equal(text ? text : "", wanted ? wanted : "no text");
    ptx_builder_destroy(&typed);
    ptx_builder_destroy(&plain);
}

// The immediate in `add x, x, number` for a type, or NULL.
static void expect_number(ptx_type type, ptx_val number, const char *immediate)
{
    NEW_ENTRY (b, 90) {
        ptx_val x = ptx_var(b, ptx_zero(type));
        ptx_set(b, x, number);
    }
    if (immediate)
        EXPECT_LINES(b, "mov", immediate);
    else
        EXPECT_ERROR(b, "ptx_set: the value is the number", "cannot hold", ptx_type_name(type));
}

TEST(the_ranges_of_types_are_kept)
{
    expect_number(PTX_U32, ptx_number_unsigned(UINT32_MAX), ", 0xffffffff;");
    expect_number(PTX_U32, ptx_number_unsigned(UINT64_C(1) << 32), NULL);
    expect_number(PTX_U32, ptx_number_signed(-1), NULL);
    expect_number(PTX_U16, ptx_number_signed(65535), ", 65535;");
    expect_number(PTX_U16, ptx_number_signed(65536), NULL);
    expect_number(PTX_S32, ptx_number_signed(INT32_MIN), ", -2147483648;");
    expect_number(PTX_S32, ptx_number_signed(INT64_C(-2147483649)), NULL);
    expect_number(PTX_S32, ptx_number_signed(INT64_C(2147483648)), NULL);
    expect_number(PTX_S64, ptx_number_signed(INT64_MIN), ", -9223372036854775808;");
    expect_number(PTX_S64, ptx_number_unsigned(UINT64_C(1) << 63), NULL);
    expect_number(PTX_U64, ptx_number_unsigned(UINT64_MAX), ", 0xffffffffffffffff;");
    expect_number(PTX_U64, ptx_number_signed(-1), NULL);
    expect_number(PTX_B32, ptx_number_signed(INT32_MIN), ", 0x80000000;");
    expect_number(PTX_B32, ptx_number_signed(INT64_C(-2147483649)), NULL);
    expect_number(PTX_PRED, ptx_number_signed(1), ", 1;");
    expect_number(PTX_PRED, ptx_number_signed(2), NULL);
    expect_number(PTX_PRED, ptx_number_signed(-1), NULL);
    expect_number(PTX_F32, ptx_number_float(0.1), ", 0f3DCCCCCD;");
    expect_number(PTX_F32, ptx_number_float(1e39), NULL);
    expect_number(PTX_F32, ptx_number_signed(-3), ", 0fC0400000;");
    expect_number(PTX_F64, ptx_number_unsigned(3), ", 0d4008000000000000;");
    expect_number(PTX_F16, ptx_number_signed(70000), NULL);
    expect_number(PTX_U32, ptx_number_float(2), ", 2;");
    expect_number(PTX_U32, ptx_number_float(0.5), NULL);
}

TEST(numbers_without_a_type_are_refused)
{
    REFUSED_AT(80, ptx_add(b, 1, 2), "ptx_add: x is the number 1", "ptx_u32(1), ptx_f32(1) or");
    REFUSED_AT(80, ptx_var(b, -5), "ptx_var: init is the number -5", "ptx_s32(-5), ptx_f32(-5) or");
    REFUSED_AT(80, ptx_var(b, 0.5), "init is the number 0.5", "ptx_f32(0.5), ptx_f64(0.5) or");
    REFUSED_AT(80, ptx_var(b, -INFINITY), "init is the number -INFINITY",
               "ptx_f32(-INFINITY), ptx_f64(-INFINITY) or");
    REFUSED_AT(80, ptx_add(b, u, NAN), "ptx_add: y is the number NAN, which u32 cannot hold");
    REFUSED_AT(80, ptx_cvt(b, PTX_F32, 0.5), "ptx_cvt: x is the number 0.5");
    REFUSED_AT(80, ptx_op(b, PTX_OP_neg, .x = f, .y = ptx_number_signed(1)),
               "ptx_neg: y is given; the instruction takes 1 operand");
    // A number beside what has no type for another reason: that reason.
    REFUSED_AT(80, ptx_add(b, (ptx_val) { 0 }, 1), "ptx_add: x was never set");
    const ptx_val garbage = { .kind = 7, .type = PTX_U32 };
    REFUSED_AT(80, ptx_add(b, u, garbage), "ptx_add: y was never set");
    REFUSED_AT(80, ptx_mul(b, u, 0.5), "ptx_mul: y is the number 0.5, which u32 cannot hold");
    REFUSED_AT(80, ptx_sub(b, -1, u), "ptx_sub: x is the number -1, which u32 cannot hold");
    REFUSED_AT(80, ptx_shl(b, u, -1), "ptx_shl: y is the number -1, which u32 cannot hold");
    REFUSED_AT(80, ptx_for_begin(b, 0, 0.5, 1), "ptx_for: hi is the number 0.5, which s32 cannot");
    REFUSED_AT(80, ptx_for_begin(b, 0, 2147483648, 1), "number 2147483648, which s32 cannot hold");
    REFUSED_AT(80, ptx_for_begin(b, 0, u, 0), "ptx_for: the step must be above zero");
    REFUSED_AT(80, ptx_if_begin(b, 1), "ptx_if: the condition is the number 1; write ptx_bool()");
    REFUSED_AT(80, ptx_if_begin(b, true),
               "ptx_if: the condition is the number 1; write ptx_bool()");
    REFUSED_AT(80, ptx_while_test(b, 0.5), "ptx_while: the condition is the number 0.5; write");
    REFUSED_AT(80, ptx_load(b, ptx_shared(b, PTX_F32, 4), 4), "ptx_load: 4 bytes at byte 16");
    REFUSED_AT(80, ptx_load(b, ptx_shared(b, PTX_F32, 4), 0.5),
               "ptx_load: the index is the number");
    REFUSED_AT(80, ptx_store(b, ptx_shared(b, PTX_U8, 4), 0, 256), "which u8 cannot hold");
    REFUSED_AT(80, ptx_ballot(b, p, 0), "ptx_ballot: the mask is 0");
    REFUSED_AT(80, ptx_shfl_down(b, u, -1), "ptx_shfl_down: the lane is the number -1");
    REFUSED_AT(80, ptx_lop3(b, u, u, u, 256), "ptx_lop3: w, the truth table");
    REFUSED_AT(80, ptx_nanosleep(b, -5), "ptx_nanosleep: the time is the number -5");
}

// The values of a vector are taken from left to right; numbers get the pointer's type, or that of
// the lanes beside them.
TEST(vectors_hold_numbers)
{
    NEW_ENTRY (b, 100) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p");
        ptx_val x = ptx_copy(b, ptx_f32(5)), h = ptx_copy(b, ptx_imm(PTX_B16, 5));
        ptx_store_vec(b, p, 0, ptx_vec2(ptx_neg(b, x), ptx_abs(b, x)));
        ptx_store_vec(b, p, 4, ptx_vec4(ptx_sqrt(b, x), 2, 0.5, ptx_rcp(b, x)));
        ptx_store_vec(b, p, 8, ptx_vec8(x, x, x, x, x, x, x, ptx_neg(b, x)));
        ptx_pack(b, PTX_B64, ptx_vec4(1, 2, h, 3));
    }
    EXPECT_LINES(
        b, "neg.f32 %f2, %f1;", "abs.f32 %f3, %f1;", "st.global.v2.f32 [%rd2], {%f2, %f3};",
        "sqrt.rn.f32 %f4, %f1;", "rcp.rn.f32 %f5, %f1;",
        "st.global.v4.f32 [%rd2+16], {%f4, 0f40000000, 0f3F000000, %f5}; // 2.0, 0.5",
        "neg.f32 %f6, %f1;", "st.global.v8.f32 [%rd2+32], {%f1,", "mov.b64 %rd3, {1, 2, %rs1, 3};");
}

TEST(bad_lanes_are_named)
{
    REFUSED_AT(80, ptx_pack(b, PTX_B64, ptx_vec2(1, 2)),
               "pack: a lane is the number 1, and nothing");
    REFUSED_AT(80, ptx_pack(b, PTX_B64, ptx_vec2(u, 0.5)),
               "pack: a lane is the number 0.5, which u32 cannot hold");
    REFUSED_AT(80, ptx_pack(b, PTX_B64, ptx_vec2(f, (ptx_val) { 0 })),
               "pack: a lane was never set");
    REFUSED_AT(80, ptx_pack(b, PTX_B64, ptx_vec8(u, u, u, u, u, u, u, u)),
               "pack: there are 8 lanes");
    REFUSED_AT(80, ptx_store_vec(b, ptx_shared(b, PTX_U32, 4), 0, ptx_vec4(u, u, -1, u)),
               "store_vec: the value is the number -1, which u32 cannot hold");
    REFUSED_AT(80, ptx_store_vec(b, ptx_shared(b, PTX_U32, 4), 0, ptx_vec4(u, u, f, u)),
               "store_vec: the value is f32; the pointer is to u32");
}

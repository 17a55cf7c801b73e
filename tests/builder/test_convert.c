// SPDX-License-Identifier: MIT
#include "builder_fixture.h"

// The text of one conversion of a variable.
static void expect_cvt(int sm, ptx_type to, ptx_type from, struct ptx_cvt_params p,
                       const char *line, const char *next)
{
    ptx_builder *b = builder_at(sm);
    ptx_val result = { 0 };

    ptx_entry (b, "k") {
        p.x = ptx_var(b, ptx_zero(from));
        ptx_comment(b, "here");
        result = ptx_cvt_emit(b, to, p);
    }
    if (ptx_builder_error(b))
        print_error("%s to %s: %s\n", ptx_type_name(from), ptx_type_name(to), ptx_builder_error(b));
    assert_int_equal(result.type, to);
    EXPECT_LINES(b, "// here", line, next);
}

TEST(conversions_are_spelled)
{
    const struct ptx_cvt_params plain = { 0 };

    expect_cvt(70, PTX_S32, PTX_F32, plain, "cvt.rzi.s32.f32 %r1, %f1;", "ret;");
    expect_cvt(70, PTX_U8, PTX_F64, plain, "cvt.rzi.u8.f64 %rs1, %fd1;", "ret;");
    expect_cvt(70, PTX_F32, PTX_U64, plain, "cvt.rn.f32.u64 %f1, %rd1;", "ret;");
    expect_cvt(70, PTX_F16, PTX_F32, plain, "cvt.rn.f16.f32 %rs1, %f1;", "ret;");
    expect_cvt(70, PTX_F64, PTX_F32, plain, "cvt.f64.f32 %fd1, %f1;", "ret;");
    expect_cvt(70, PTX_F32, PTX_F16, plain, "cvt.f32.f16 %f1, %rs1;", "ret;");
    expect_cvt(70, PTX_U64, PTX_U32, plain, "cvt.u64.u32 %rd1, %r1;", "ret;");
    expect_cvt(70, PTX_S64, PTX_S32, plain, "cvt.s64.s32 %rd1, %r1;", "ret;");
    expect_cvt(70, PTX_U16, PTX_S32, plain, "cvt.u16.s32 %rs1, %r1;", "ret;");
    expect_cvt(70, PTX_S32, PTX_F32, (struct ptx_cvt_params) { .round = PTX_ROUND_RN },
               "cvt.rni.s32.f32 %r1, %f1;", "ret;");
    expect_cvt(70, PTX_S32, PTX_F32, (struct ptx_cvt_params) { .round = PTX_ROUND_RM, .ftz = true },
               "cvt.rmi.ftz.s32.f32 %r1, %f1;", "ret;");
    expect_cvt(70, PTX_F32, PTX_F64,
               (struct ptx_cvt_params) { .round = PTX_ROUND_RP, .ftz = true, .sat = true },
               "cvt.rp.ftz.sat.f32.f64 %f1, %fd1;", "ret;");
    expect_cvt(70, PTX_F32, PTX_F32, (struct ptx_cvt_params) { .sat = true },
               "cvt.sat.f32.f32 %f2, %f1;", "ret;");
    expect_cvt(70, PTX_S8, PTX_S32, (struct ptx_cvt_params) { .sat = true },
               "cvt.sat.s8.s32 %rs1, %r1;", "ret;");
    expect_cvt(70, PTX_U32, PTX_S32, (struct ptx_cvt_params) { .sat = true },
               "cvt.sat.u32.s32 %r2, %r1;", "ret;");
}

// Between the same types, one after the other in a module.
TEST(modifiers_are_those_of_each_conversion)
{
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_var(b, ptx_f32(0));
        for (int k = 0; k < 2; k++) {
            ptx_cvt(b, PTX_S32, x);
            ptx_cvt(b, PTX_S32, x, .round = PTX_ROUND_RN);
            ptx_cvt(b, PTX_S32, x, .ftz = true);
            ptx_cvt(b, PTX_S32, x, .sat = true);
            ptx_cvt(b, PTX_U32, x);
            ptx_cvt(b, PTX_S32, ptx_f64(1));
        }
    }
    EXPECT_LINES(b, "cvt.rzi.s32.f32 %r1, %f1;", "cvt.rni.s32.f32 %r2, %f1;",
                 "cvt.rzi.ftz.s32.f32 %r3, %f1;", "cvt.rzi.sat.s32.f32 %r4, %f1;",
                 "cvt.rzi.u32.f32 %r5, %f1;", "mov.f64 %fd1, 0d3FF0000000000000; // 1.0",
                 "cvt.rzi.s32.f64 %r6, %fd1;", "cvt.rzi.s32.f32 %r7, %f1;",
                 "cvt.rni.s32.f32 %r8, %f1;", "cvt.rzi.ftz.s32.f32 %r9, %f1;",
                 "cvt.rzi.sat.s32.f32 %r10, %f1;", "cvt.rzi.u32.f32 %r11, %f1;");
}

// PTX has no .sat for a result type that can hold every value.
TEST(idle_saturation_is_dropped)
{
    const struct ptx_cvt_params sat = { .sat = true };

    expect_cvt(70, PTX_S64, PTX_U32, sat, "cvt.s64.u32 %rd1, %r1;", "ret;");
    expect_cvt(70, PTX_U32, PTX_U8, sat, "cvt.u32.u8 %r1, %rs1;", "ret;");
    expect_cvt(70, PTX_S32, PTX_S32, sat, "ret;", "}");
}

TEST(bf16_is_converted_on_every_target)
{
    const struct ptx_cvt_params plain = { 0 }, rz = { .round = PTX_ROUND_RZ };

    expect_cvt(80, PTX_BF16, PTX_F32, plain, "cvt.rn.bf16.f32 %rs1, %f1;", "ret;");
    expect_cvt(80, PTX_BF16, PTX_F32, rz, "cvt.rz.bf16.f32 %rs1, %f1;", "ret;");
    expect_cvt(80, PTX_BF16, PTX_F16, plain, "cvt.f32.f16 %f1, %rs1;",
               "cvt.rn.bf16.f32 %rs2, %f1;");
    expect_cvt(80, PTX_BF16, PTX_S8, plain, "cvt.rn.f32.s8 %f1, %rs1;",
               "cvt.rn.bf16.f32 %rs2, %f1;");
    expect_cvt(90, PTX_BF16, PTX_F64, plain, "cvt.rn.bf16.f64 %rs1, %fd1;", "ret;");
    expect_cvt(90, PTX_BF16, PTX_U32, rz, "cvt.rz.bf16.u32 %rs1, %r1;", "ret;");
    expect_cvt(70, PTX_F32, PTX_BF16, plain, "mov.b32 %f1, {0, %rs1};", "ret;");
    expect_cvt(70, PTX_F64, PTX_BF16, plain, "mov.b32 %f1, {0, %rs1};", "cvt.f64.f32 %fd1, %f1;");
    expect_cvt(70, PTX_S32, PTX_BF16, (struct ptx_cvt_params) { .round = PTX_ROUND_RP },
               "mov.b32 %f1, {0, %rs1};", "cvt.rpi.s32.f32 %r1, %f1;");
    expect_cvt(70, PTX_F32, PTX_BF16, (struct ptx_cvt_params) { .sat = true },
               "mov.b32 %f1, {0, %rs1};", "cvt.sat.f32.f32 %f2, %f1;");
    // Below sm_80 the code adds half a unit, and restores NaN. Towards zero it adds nothing.
    expect_cvt(75, PTX_BF16, PTX_F32, plain, "bfe.u32 %r2, %r1, 16, 1;",
               "add.u32 %r3, %r2, 32767;");
    expect_cvt(75, PTX_BF16, PTX_F32, rz, "shr.u32 %r2, %r1, 16;",
               "selp.u32 %r3, 32767, %r2, %p1;");
}

// The conversion of a variable to its own type gives its value now, not the variable.
TEST(a_converted_variable_is_its_value_now)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val var = ptx_var(b, ptx_f32(1));
        ptx_val same = ptx_cvt(b, PTX_F32, var);
        ptx_val bits = ptx_bitcast(b, PTX_B32, var);
        ptx_set(b, var, ptx_f32(2));
        ptx_store(b, out, ptx_u32(0), same);
        ptx_store(b, out, ptx_u32(1), var);
        ptx_store(b, out, ptx_u32(2), ptx_bitcast(b, PTX_F32, bits));
    }
    EXPECT_LINES(b, "mov.f32 %f2, %f1;", "mov.b32 %r1, %f1;", "mov.f32 %f1, 0f40000000;",
                 "st.global.f32 [%rd2], %f2;", "st.global.f32 [%rd2+4], %f1;", "mov.b32 %f3, %r1;",
                 "st.global.f32 [%rd2+8], %f3;");
}

TEST(bits_are_seen_as_another_type)
{
    NEW_ENTRY (b, 80) {
        ptx_val f = ptx_copy(b, ptx_f32(1)), d = ptx_copy(b, ptx_f64(1));
        ptx_val u = ptx_bitcast(b, PTX_U32, f);
        ptx_val s = ptx_bitcast(b, PTX_S32, u);
        assert_int_equal(s.reg, u.reg);
        assert_int_equal(s.type, PTX_S32);
        ptx_bitcast(b, PTX_U64, d);
        ptx_val one = ptx_bitcast(b, PTX_U32, ptx_f32(1));
        assert_true(one.kind == PTX_KIND_IMMEDIATE && one.type == PTX_U32 &&
                    one.bits == 0x3f800000);
    }
    EXPECT_LINES(b, "mov.b32 %r1, %f1;", "mov.b64 %rd1, %fd1;", "ret;");
}

TEST(lanes_are_packed_and_unpacked)
{
    NEW_ENTRY (b, 80) {
        ptx_val h = ptx_copy(b, ptx_imm(PTX_F16, 1)), w = ptx_copy(b, ptx_u32(7));
        ptx_val two = ptx_pack(b, PTX_F16X2, ptx_vec2(h, ptx_imm(PTX_F16, 2)));
        ptx_vec four = { { h, h, h, h }, 4 };
        ptx_val wide = ptx_pack(b, PTX_B64, four);
        ptx_pack(b, PTX_F64, ptx_vec2(w, w));
        ptx_unpack(b, PTX_BF16, two);
        assert_int_equal(ptx_unpack(b, PTX_F32, wide).lanes, 2);
        assert_int_equal(ptx_unpack(b, PTX_U16, ptx_u64(1)).lanes, 4);
    }
    EXPECT_LINES(b, "mov.b32 %r2, {%rs1, 0x4000}; // 2.0",
                 "mov.b64 %rd1, {%rs1, %rs1, %rs1, %rs1};", "mov.b64 %fd1, {%r1, %r1};",
                 "mov.b32 {%rs2, %rs3}, %r2;", "mov.b64 {%f1, %f2}, %rd1;", "mov.u64 %rd2, 1;",
                 "mov.b64 {%rs4, %rs5, %rs6, %rs7}, %rd2;");
}

TEST(pairs_are_narrowed_with_the_first_in_the_lower_half)
{
    for (int sm = 75; sm <= 80; sm += 5) {
        NEW_ENTRY (b, sm) {
            ptx_val lo = ptx_copy(b, ptx_f32(1)), hi = ptx_copy(b, ptx_f32(2));
            ptx_cvt_pack(b, PTX_F16X2, lo, hi);
            ptx_cvt_pack(b, PTX_BF16X2, lo, hi);
        }
        if (sm == 80)
            EXPECT_LINES(b, "cvt.rn.f16x2.f32 %r1, %f2, %f1;", "cvt.rn.bf16x2.f32 %r2, %f2, %f1;");
        else
            EXPECT_LINES(b, "cvt.rn.f16.f32 %rs1, %f1;", "cvt.rn.f16.f32 %rs2, %f2;",
                         "mov.b32 %r1, {%rs1, %rs2};", "bfe.u32", "bfe.u32",
                         "mov.b32 %r14, {%rs3, %rs4};");
    }
}

TEST(small_floats_are_spelled)
{
    for (int sm = 89; sm <= 90; sm++) {
        NEW_ENTRY (b, sm) {
            ptx_val lo = ptx_copy(b, ptx_f32(1)), hi = ptx_copy(b, ptx_f32(2));
            ptx_val x = ptx_cvt_pack(b, PTX_E4M3X2, lo, hi);
            ptx_val y = ptx_cvt(b, PTX_E5M2X2, lo, .hi = hi, .relu = true);
            ptx_val z = ptx_cvt(b, PTX_F16X2, x, .round = PTX_ROUND_RN);
            ptx_cvt(b, PTX_F16X2, y, .relu = true);
            ptx_cvt(b, PTX_E4M3X2, z);
            ptx_cvt(b, PTX_E4M3X2, lo, .hi = ptx_f32(2.5), .satfinite = true);
            ptx_val t = ptx_cvt(b, PTX_TF32, lo);
            ptx_cvt(b, PTX_F32, t);
            ptx_cvt(b, PTX_E4M3X2, x);
            ptx_store(b, ptx_shared(b, PTX_E4M3X2, 4), 0, x);
        }
        EXPECT_LINES(b, sm == 89 ? ".version 8.1" : ".version 7.8",
                     "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f2, %f1;",
                     "cvt.rn.satfinite.relu.e5m2x2.f32 %rs2, %f2, %f1;",
                     "cvt.rn.f16x2.e4m3x2 %r1, %rs1;", "cvt.rn.relu.f16x2.e5m2x2 %r2, %rs2;",
                     "cvt.rn.satfinite.e4m3x2.f16x2 %rs3, %r1;",
                     "cvt.rn.satfinite.e4m3x2.f32 %rs4, 0f40200000, %f1;",
                     "cvt.rna.tf32.f32 %r3, %f1;", "mov.b32 %f3, %r3;", "st.shared.b16 ");
    }
    NEW_ENTRY (b, 100) {
        ptx_val x = ptx_copy(b, ptx_f32(1));
        ptx_cvt(b, PTX_TF32, x, .round = PTX_ROUND_RN, .relu = true);
        ptx_cvt(b, PTX_TF32, x, .round = PTX_ROUND_RZ, .satfinite = true);
        ptx_cvt(b, PTX_TF32, x, .round = PTX_ROUND_RNA);
        ptx_cvt(b, PTX_TF32, x, .satfinite = true);
    }
    EXPECT_LINES(b, "cvt.rn.relu.tf32.f32 %r1, %f1;", "mov.b32 %r2, %r1;",
                 "cvt.rz.satfinite.tf32.f32 %r3, %f1;", "mov.b32 %r4, %r3;",
                 "cvt.rna.tf32.f32 %r5, %f1;", "cvt.rna.satfinite.tf32.f32 %r6, %f1;");
}

TEST(wrong_small_conversions_are_named)
{
#define REFUSED(call, ...) REFUSED_AT(90, call, __VA_ARGS__)

    const ptx_val w = ptx_imm(PTX_F16X2, 1), e = ptx_imm(PTX_E4M3X2, 1), t = ptx_imm(PTX_TF32, 1);
    REFUSED(ptx_cvt(b, PTX_E4M3X2, f), "cvt: there is no conversion from f32 to e4m3x2", "two f32");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, f, .hi = u), "cvt: there is no conversion", "two f32");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, w, .hi = w), "cvt: there is no conversion from f16x2");
    REFUSED(ptx_cvt(b, PTX_E5M2X2, e), "cvt: there is no conversion from e4m3x2 to e5m2x2");
    REFUSED(ptx_cvt(b, PTX_F32, e), "cvt: there is no conversion from e4m3x2 to f32", "f16x2");
    REFUSED(ptx_cvt(b, PTX_F16X2, e, .satfinite = true),
            "from e4m3x2 to f16x2 takes no .satfinite");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, w, .round = PTX_ROUND_RZ), "takes no choice of rounding");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, w, .ftz = true), "takes no .ftz");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, w, .sat = true), "takes no .sat");
    REFUSED(ptx_cvt(b, PTX_E4M3X2, f, .hi = ptx_f32(1e39)), "cvt: .hi is the immediate");
    REFUSED(ptx_cvt(b, PTX_TF32, u), "cvt: there is no conversion from u32 to tf32", "from f32");
    REFUSED(ptx_cvt(b, PTX_F16, t), "cvt: there is no conversion from tf32 to f16", "goes to f32");
    REFUSED(ptx_cvt(b, PTX_F32, t, .round = PTX_ROUND_RN), "from tf32 to f32 takes no modifier");
    REFUSED(ptx_cvt(b, PTX_TF32, f, .relu = true), "takes no .relu with this rounding");
    REFUSED(ptx_cvt(b, PTX_TF32, f, .round = PTX_ROUND_RM), "takes no rounding to minus");
    REFUSED(ptx_cvt(b, PTX_TF32, f, .hi = f), "takes no .hi");
    REFUSED(ptx_cvt(b, PTX_TF32, f, .round = PTX_ROUND_RZ, .satfinite = true), "needs sm_100");
    REFUSED(ptx_cvt(b, PTX_F16, f, .relu = true), "from f32 to f16 takes no .relu");
    REFUSED(ptx_cvt(b, PTX_F16X2, f, .hi = f), "takes no .hi; ptx_cvt_pack()");
    REFUSED(ptx_cvt(b, PTX_F16, f, .round = PTX_ROUND_RNA), "choice of rounding");
    REFUSED(ptx_op(b, PTX_OP_add, .x = f, .y = f, .round = PTX_ROUND_RNA), "add: ");
    REFUSED(ptx_add(b, t, t), "add: ", "tf32");
    REFUSED(ptx_add(b, e, e), "add: ", "e4m3x2");
    REFUSED(ptx_cvt_pack(b, PTX_E4M3X2, f, w), "cvt_pack: two f32");
#undef REFUSED
#define REFUSED(call, ...) REFUSED_AT(86, call, __VA_ARGS__)
    REFUSED(ptx_cvt_pack(b, PTX_E4M3X2, f, f),
            "ptx_cvt_pack: cvt.rn.satfinite.e4m3x2.f32 needs sm_89", "sm_86");
    REFUSED(ptx_cvt(b, PTX_TF32, f, .round = PTX_ROUND_RN), "cvt.rn.tf32.f32 needs sm_90");
#undef REFUSED
}

TEST(wrong_conversions_are_named)
{
    const ptx_val none = { 0 };
    ptx_vec five = { .lanes = 5 };

#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

    REFUSED(ptx_cvt(b, PTX_U32, p), "cvt: there is no conversion from pred to u32", "ptx_select");
    REFUSED(ptx_cvt(b, PTX_PRED, u), "cvt: there is no conversion from u32 to pred", "ptx_ne");
    REFUSED(ptx_cvt(b, PTX_B32, f), "cvt: there is no conversion from f32 to b32");
    REFUSED(ptx_cvt(b, PTX_F16X2, f), "cvt: there is no conversion from f32 to f16x2");
    REFUSED(ptx_cvt(b, PTX_NONE, f), "cvt: there is no conversion from f32 to none");
    REFUSED(ptx_cvt(b, PTX_F32, none), "cvt: x was never set");
    REFUSED(ptx_cvt(b, PTX_F64, f, .round = PTX_ROUND_RZ), "cvt: a conversion from f32 to f64",
            "rounding");
    REFUSED(ptx_cvt(b, PTX_U32, u, .round = PTX_ROUND_RZ), "cvt: a conversion from u32 to u32",
            "rounding");
    REFUSED(ptx_cvt(b, PTX_S32, f, .round = (ptx_round)9), "cvt: a conversion from f32 to s32",
            "rounding");
    REFUSED(ptx_cvt(b, PTX_U64, u, .ftz = true), "cvt: a conversion from u32 to u64 takes no .ftz");
    REFUSED(ptx_cvt(b, PTX_BF16, f, .round = PTX_ROUND_RM), "cvt: a conversion from f32 to bf16",
            ".rn or .rz");
    REFUSED(ptx_cvt(b, PTX_BF16, f, .sat = true), "cvt: a conversion from f32 to bf16",
            "no .ftz or .sat");
    REFUSED(ptx_cvt(b, PTX_BF16, u), "cvt: cvt.rn.bf16.u32 needs sm_90", "sm_80");
    REFUSED(ptx_cvt_pack(b, PTX_F16X2, f, h), "cvt_pack: two f32", "got f32 and f16 for f16x2");
    REFUSED(ptx_cvt_pack(b, PTX_U32, f, f), "cvt_pack: two f32", "for u32");
    REFUSED(ptx_cvt_pack(b, PTX_F16X2, none, f), "cvt_pack: lo was never set");
    REFUSED(ptx_cvt_pack(b, PTX_F16X2, f, none), "cvt_pack: hi was never set");
    REFUSED(ptx_bitcast(b, PTX_U64, f), "bitcast: x is f32", "u64", "of 32 bits; u64 has 64");
    REFUSED(ptx_bitcast(b, PTX_PRED, p), "bitcast: the result cannot be a predicate");
    REFUSED(ptx_bitcast(b, PTX_U32, none), "bitcast: x was never set");
    REFUSED(ptx_pack(b, PTX_B64, five), "pack: there are 5 lanes", "2 or 4");
    REFUSED(ptx_pack(b, PTX_B64, ptx_vec2(u, f)), "pack: lane 0 is u32 and lane 1 is f32");
    REFUSED(ptx_pack(b, PTX_B64, ptx_vec2(u, none)), "pack: a lane was never set");
    REFUSED(ptx_pack(b, PTX_B64, ptx_vec2(h, h)), "pack: 2 lanes of f16 do not make one b64");
    REFUSED(ptx_unpack(b, PTX_U8, u), "unpack: 4 lanes of u8 do not make one u32", "16 or 32");
    REFUSED(ptx_unpack(b, PTX_U64, u), "unpack: 0 lanes of u64");
    REFUSED(ptx_unpack(b, PTX_B32, u), "unpack: 1 lanes of b32");
    REFUSED(ptx_unpack(b, PTX_U16, none), "unpack: x was never set");
#undef REFUSED
}

// PTX ISA 7.0 converts f32 to bf16. It converts other types to bf16 directly only from 7.8 on.
TEST(a_pinned_isa_is_a_floor)
{
    ptx_builder *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 80 }, .isa = 70 });
    ptx_entry (b, "k")
        ptx_cvt(b, PTX_BF16, ptx_f32(1));
    EXPECT_LINES(b, ".version 7.0", "cvt.rn.bf16.f32");
}

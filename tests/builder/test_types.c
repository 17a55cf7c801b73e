// SPDX-License-Identifier: MIT
#include "builder_fixture.h"

#include <math.h>

TEST(types_have_names_and_sizes)
{
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        assert_int_equal(ptx_type_parse(ptx_type_name((ptx_type)t)), t);
    assert_string_equal(ptx_type_name(PTX_BF16X2), "bf16x2");
    assert_string_equal(ptx_type_name(PTX_NONE), "none");
    assert_string_equal(ptx_type_name(PTX_TYPE_COUNT), "none");
    assert_string_equal(ptx_type_name((ptx_type)-1), "none");
    assert_int_equal(ptx_type_parse("f8"), PTX_NONE);
    assert_int_equal(ptx_type_parse(""), PTX_NONE);
    assert_int_equal(ptx_type_parse(NULL), PTX_NONE);
    assert_int_equal(ptx_type_bytes(PTX_PRED), 0);
    assert_int_equal(ptx_type_bytes(PTX_NONE), 0);
    assert_int_equal(ptx_type_bytes((ptx_type)99), 0);
    assert_int_equal(ptx_type_bytes(PTX_S8), 1);
    assert_int_equal(ptx_type_bytes(PTX_BF16), 2);
    assert_int_equal(ptx_type_bytes(PTX_F16X2), 4);
    assert_int_equal(ptx_type_bytes(PTX_F64), 8);
}

TEST(targets_are_listed_in_order)
{
    char name[PTX_TARGET_NAME_SIZE];
    struct ptx_target target, before = { 0 }, parsed = { 0 };
    size_t count = 0;
    int isa;

    for (; ptx_target_at(count, &target, &isa); count++) {
        assert_true(target.sm > before.sm || (target.sm == before.sm && target.suffix));
        assert_true(isa >= 60 && isa <= 90);
        assert_true(ptx_target_parse(ptx_target_name(target, name), &parsed));
        assert_int_equal(parsed.sm, target.sm);
        assert_int_equal(parsed.suffix, target.suffix);
        before = target;
    }
    assert_true(count >= 25);
    assert_true(ptx_target_at(0, NULL, NULL));
    assert_false(ptx_target_at(count, &target, &isa));
    assert_false(ptx_target_at(SIZE_MAX, NULL, NULL));
    assert_string_equal(ptx_target_name((struct ptx_target) { 90, 'a' }, name), "sm_90a");
    assert_string_equal(ptx_target_name((struct ptx_target) { 80, 0 }, name), "sm_80");
}

TEST(isa_versions_exist)
{
    static const int last[] = { 59, 65, 78, 88 }; // of 1 to 5, 6, 7 and 8

    for (int isa = -10; isa < 90; isa++) {
        const int most = isa < 60 ? last[0] : last[isa / 10 - 5];
        assert_int_equal(ptx_isa_exists(isa), isa >= 10 && isa <= most);
    }
    assert_true(ptx_isa_exists(90) && ptx_isa_exists(999));
    assert_false(ptx_isa_exists(1000));
    int least;
    for (size_t k = 0; ptx_target_at(k, NULL, &least); k++)
        assert_true(ptx_isa_exists(least));
}

TEST(the_newest_target_fits_gpu_and_driver)
{
    struct ptx_target target = { 0 };

    assert_true(ptx_target_newest(90, 90, &target));
    assert_true(target.sm == 90 && target.suffix == 0);
    assert_true(ptx_target_newest(99, 0, &target)); // between two generations: the older one
    assert_int_equal(target.sm, 90);
    assert_true(ptx_target_newest(90, 70, &target)); // the driver knows nothing after sm_80
    assert_int_equal(target.sm, 80);
    assert_false(ptx_target_newest(69, 0, &target));
    assert_false(ptx_target_newest(90, 50, &target));
    assert_int_equal(target.sm, 80);
}

TEST(unknown_targets_are_not_parsed)
{
    static const char *const unknown[] = { "sm_69", "sm_90b", "sm_80a",     "sm_",    "",
                                           "80",    "sm_080", "compute_80", "sm_80 ", NULL };
    struct ptx_target target = { 75, 0 };

    for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++)
        assert_false(ptx_target_parse(unknown[k], &target));
    assert_int_equal(target.sm, 75);
}

TEST(immediates_keep_their_bits)
{
    assert_true(ptx_u16(65535).bits == 65535 && ptx_u16(1).type == PTX_U16);
    assert_true(ptx_s16(-1).bits == 65535 && ptx_s16(1).type == PTX_S16);
    assert_true(ptx_u32(UINT32_MAX).bits == UINT32_MAX && ptx_u32(1).type == PTX_U32);
    assert_true(ptx_s32(-1).bits == UINT32_MAX && ptx_s32(1).type == PTX_S32);
    assert_true(ptx_u64(UINT64_MAX).bits == UINT64_MAX && ptx_u64(1).type == PTX_U64);
    assert_true(ptx_s64(-1).bits == UINT64_MAX && ptx_s64(1).type == PTX_S64);
    assert_true(ptx_b32(5).type == PTX_B32 && ptx_b64(5).type == PTX_B64);
    assert_true(ptx_bool(true).bits == 1 && ptx_bool(false).type == PTX_PRED);
    assert_true(ptx_f32(1).bits == 0x3f800000 && ptx_f32(1).type == PTX_F32);
    assert_true(ptx_f64(-2).bits == UINT64_C(0xc000000000000000) && ptx_f64(1).type == PTX_F64);
    assert_true(ptx_zero(PTX_BF16X2).bits == 0 && ptx_zero(PTX_BF16X2).type == PTX_BF16X2);
    assert_true(ptx_u32(1).kind == PTX_KIND_IMMEDIATE);
}

TEST(integers_must_fit)
{
    static const struct {
        ptx_type type;
        double x;
        bool fits;
        uint64_t bits;
    } rows[] = {
        { PTX_U8, 255, true, 255 },
        { PTX_U8, 256, false, 0 },
        { PTX_U8, -1, false, 0 },
        { PTX_S8, -128, true, 0x80 },
        { PTX_S8, 128, false, 0 },
        { PTX_S8, -129, false, 0 },
        { PTX_B16, 65535, true, 65535 },
        { PTX_S16, -1, true, 0xffff },
        { PTX_U32, 4294967295.0, true, UINT32_MAX },
        { PTX_U32, 4294967296.0, false, 0 },
        { PTX_S32, -2147483648.0, true, 0x80000000 },
        { PTX_S32, 2147483648.0, false, 0 },
        { PTX_U64, 18446744073709549568.0, true, UINT64_C(0xfffffffffffff800) },
        { PTX_U64, 18446744073709551616.0, false, 0 },
        { PTX_S64, -9223372036854775808.0, true, UINT64_C(1) << 63 },
        { PTX_S64, 9223372036854775808.0, false, 0 },
        { PTX_U32, 0.5, false, 0 },
        { PTX_U32, -0.0, true, 0 },
        { PTX_S32, NAN, false, 0 },
        { PTX_S64, INFINITY, false, 0 },
        { PTX_PRED, 1, true, 1 },
        { PTX_PRED, 2, false, 0 },
        { PTX_E4M3X2, 1, true, 0x3838 },
        { PTX_E4M3X2, -448, true, 0xfefe },
        { PTX_E4M3X2, 464, true, 0x7e7e },
        { PTX_E4M3X2, 464.5, false, 0 },
        { PTX_E4M3X2, INFINITY, false, 0 },
        { PTX_E4M3X2, NAN, true, 0x7f7f },
        { PTX_E4M3X2, 0x1p-9, true, 0x0101 },
        { PTX_E4M3X2, 0x1p-10, true, 0 },
        { PTX_E4M3X2, 256, true, 0x7878 },
        { PTX_E5M2X2, 57344, true, 0x7b7b },
        { PTX_E5M2X2, 61440, false, 0 },
        { PTX_E5M2X2, -INFINITY, true, 0xfcfc },
        { PTX_E5M2X2, -0.0, true, 0x8080 },
        { PTX_TF32, 1, true, 0x3f800000 },
        { PTX_TF32, 1 + 0x1p-11, true, 0x3f800000 },
        { PTX_TF32, 1 + 3 * 0x1p-11, true, 0x3f804000 },
        { PTX_TF32, 0x1.fffp127, false, 0 },
        { PTX_TF32, INFINITY, true, 0x7f800000 },
        { PTX_NONE, 0, false, 0 },
        { PTX_TYPE_COUNT, 0, false, 0 },
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ptx_val v = ptx_imm(rows[k].type, rows[k].x);
        if ((v.kind == PTX_KIND_IMMEDIATE) != rows[k].fits ||
            (rows[k].fits && v.bits != rows[k].bits))
            fail_msg("ptx_imm(%s, %g)", ptx_type_name(rows[k].type), rows[k].x);
    }
}

static double value_of(unsigned bits, int fraction, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const unsigned part = bits & ((1u << fraction) - 1);
    const double x = exponent ? ldexp(part + (double)(1u << fraction), exponent - bias - fraction)
                              : ldexp(part, 1 - bias - fraction);

    return bits >> 15 ? -x : x;
}

// The first use of the value is an error that names the number and the type.
static void expect_unfit(ptx_val v, const char *words)
{
    ptx_builder *b = builder_at(90);

    assert_int_equal(v.kind, PTX_KIND_POISON);
    ptx_entry (b, "k")
        ptx_copy(b, v);
    EXPECT_ERROR(b, "k: ptx_copy: x is the immediate ", words);
}

static void expect_bits(ptx_type type, double x, unsigned bits)
{
    if (ptx_imm(type, x).bits != bits)
        fail_msg("ptx_imm(%s, %a) is 0x%04x, not 0x%04x", ptx_type_name(type), x,
                 (unsigned)ptx_imm(type, x).bits, bits);
}

// Every value of the type, and three numbers at each middle between two of them: just below, just
// above, and the middle itself, which goes to the even value. A number that would round to infinity
// does not fit.
static void halves_are_rounded(ptx_type type, int fraction, int exponent_bits)
{
    const unsigned infinity = ((1u << exponent_bits) - 1) << fraction;

    for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000)
        for (unsigned h = 0; h < infinity; h++) {
            const double x = value_of(h | sign, fraction, exponent_bits);
            // Above the largest value: the next one if the exponent had no limit.
            const double next = value_of(h + 1, fraction, exponent_bits);
            const double tie = copysign((fabs(x) + next) / 2, x);
            expect_bits(type, x, h | sign);
            expect_bits(type, nextafter(tie, 0), h | sign);
            if (h + 1 == infinity) {
                assert_int_equal(ptx_imm(type, tie).kind, PTX_KIND_POISON);
                continue;
            }
            expect_bits(type, tie, (h + (h & 1)) | sign);
            expect_bits(type, nextafter(tie, copysign(INFINITY, x)), (h + 1) | sign);
        }
    expect_bits(type, INFINITY, infinity);
    expect_bits(type, -INFINITY, infinity | 0x8000);
    expect_bits(type, -5e-324, 0x8000);
    expect_bits(type, NAN, 0x7fff);
    const uint64_t one = ptx_imm(type, 1).bits;
    const ptx_type pair = type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
    assert_true(ptx_imm(pair, 1).bits == (one << 16 | one));
    assert_int_equal(ptx_imm(type, 1e308).kind, PTX_KIND_POISON);
    assert_int_equal(ptx_imm(pair, -1e308).kind, PTX_KIND_POISON);
    assert_int_equal(ptx_imm(pair, INFINITY).kind, PTX_KIND_IMMEDIATE);
}

TEST(floats_are_rounded_to_nearest_even)
{
    halves_are_rounded(PTX_F16, 10, 5);
    halves_are_rounded(PTX_BF16, 7, 8);
    assert_true(ptx_imm(PTX_F32, 0.1).bits == 0x3dcccccd);
    assert_true(ptx_f32(0x1.fffffefffffffp127).bits == 0x7f7fffff);
    assert_true(ptx_f32(INFINITY).bits == 0x7f800000);
    assert_true(ptx_f32(-INFINITY).bits == 0xff800000);
    assert_int_equal(ptx_f32(NAN).kind, PTX_KIND_IMMEDIATE);
    assert_true(ptx_imm(PTX_F64, 0.1).bits == UINT64_C(0x3fb999999999999a));
}

TEST(immediates_that_do_not_fit_are_errors)
{
    expect_unfit(ptx_imm(PTX_F16, 1e9), "1000000000, which f16 cannot hold");
    expect_unfit(ptx_imm(PTX_F16X2, 65520), "65520, which f16x2 cannot hold");
    expect_unfit(ptx_imm(PTX_BF16, 3.4e38), "which bf16 cannot hold");
    expect_unfit(ptx_imm(PTX_F32, 1e300), "1e+300, which f32 cannot hold");
    expect_unfit(ptx_f32(0x1.ffffffp127), "which f32 cannot hold");
    expect_unfit(ptx_f32(-1e39), "which f32 cannot hold");
    expect_unfit(ptx_imm(PTX_U32, 0.5), "0.5, which u32 cannot hold");
    expect_unfit(ptx_imm(PTX_PRED, 2), "2, which pred cannot hold");
}

TEST(vectors_hold_what_they_are_given)
{
    ptx_vec v = ptx_vec2(ptx_u32(1), ptx_u32(2));

    assert_int_equal(v.lanes, 2);
    assert_true(v.lane[0].bits == 1 && v.lane[1].bits == 2 && v.lane[2].kind == PTX_KIND_POISON);
}

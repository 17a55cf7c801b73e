// SPDX-License-Identifier: MIT
// Instructions of f16, bf16 and tf32 that the builder does not write, compared with the conversions
// of half.h, which use integer arithmetic alone. `op record emulator` has the others.
#include "apply.h"
#include "reference/small.h"

#include <math.h>

static double widened(bool bf16, uint64_t h)
{
    return half_to_f64(bf16 ? BF16_EXPONENT_BITS : F16_EXPONENT_BITS, (uint16_t)h);
}

static void inputs_for(uint64_t in[3][APPLY_COUNT], uint64_t seed)
{
    static const uint64_t corners[] = { 0,      0x8000, 1,      0x8001, 0x03ff, 0x0400,
                                        0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00,
                                        0xfc00, 0x7e00, 0x7f7f, 0x7f80, 0xff80, 0x7fc0,
                                        0x0080, 0x3f80, 0x3f81, 0x6400 };
    apply_inputs(in, corners, 22, 16, seed);
    for (unsigned i = 700; i < APPLY_COUNT; i++) // similar exponents: cancellation and ties
        for (unsigned k = 0; k < 3; k++)
            in[k][i] = (in[k][i] & 0x83ff) | 0x3800;
}

// 2^-14 - 2^-25 has eleven bits and is not normal. An H200 flushes it, although as a subnormal it
// would be rounded to 2^-14.
EMULATOR_TEST(flushed_products)
{
    static const char *const names[] = { "mul.ftz.f16", "mul.f16", "fma.rn.ftz.f16", "fma.rn.f16" };
    static uint64_t x[APPLY_COUNT], y[APPLY_COUNT], zero[APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const in[4] = { x, y, zero };
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        x[i] = i & 1 ? 0x87ff : 0x07ff;
        y[i] = i & 2 ? 0x3801 : 0x3800;
    }
    for (unsigned k = 0; k < 4; k++) {
        apply(e, &(struct apply) { names[k], 16, { 16, 16, k > 1 ? 16 : 0 } }, in, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            const unsigned sign = i & 1 ? 0x8000 : 0;
            const bool flushed = !(k & 1) && !(i & 2);
            assert_int_equal(out[i] & 0xffff, flushed ? sign : sign | 0x400);
        }
    }
}

// The smaller and the larger magnitude, with the sign of a product; bits alone decide.
EMULATOR_TEST(magnitudes)
{
    static const char *const types[] = { "f16", "bf16", "f16x2", "bf16x2" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1] };
    for (unsigned k = 0; k < 16; k++) {
        const bool greatest = k & 1, nan = k & 2, bf16 = k >> 2 & 1, pair = k >> 3;
        const unsigned infinity = bf16 ? 0x7f80 : 0x7c00;
        char name[40];
        snprintf(name, sizeof(name), "%s%s.xorsign.abs.%s", greatest ? "max" : "min",
                 nan ? ".NaN" : "", types[2 * pair + bf16]);
        struct apply a = { name, pair ? 32 : 16, { pair ? 32 : 16, pair ? 32 : 16 } };
        inputs_for(in, k + 70);
        for (unsigned n = 0; pair && n < 2; n++)
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                in[n][i] |= (in[n][(i * 3 + 5) % APPLY_COUNT] & 0xffff) << 16;
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < (pair ? 2u : 1u) * APPLY_COUNT; i++) {
            const unsigned at = i >> pair, shift = pair ? 16 * (i & 1) : 0;
            const unsigned x = (uint16_t)(in[0][at] >> shift), y = (uint16_t)(in[1][at] >> shift);
            const unsigned mx = x & 0x7fff, my = y & 0x7fff, sign = (x ^ y) & 0x8000;
            const bool nx = mx > infinity, ny = my > infinity;
            const unsigned want = (nx && ny) || (nan && (nx || ny)) ? 0x7fff
                                  : nx                              ? my | sign
                                  : ny                              ? mx | sign
                                  : (mx < my) == !greatest          ? mx | sign
                                                                    : my | sign;
            if ((uint16_t)(out[at] >> shift) != want)
                fail_msg("%s of %04x, %04x: not %04x", name, x, y, want);
        }
    }
}

static bool holds(unsigned compare, double x, double y)
{
    const bool unordered = isnan(x) || isnan(y);
    switch (compare) {
    case 0: // eq ne lt le gt ge, equ ...
        return x == y;
    case 1:
        return !unordered && x != y;
    case 2:
        return x < y;
    case 3:
        return x <= y;
    case 4:
        return x > y;
    case 5:
        return x >= y;
    case 12: // num, nan
        return !unordered;
    case 13:
        return unordered;
    default:
        return unordered || holds(compare - 6, x, y);
    }
}

static uint64_t flushed(bool bf16, bool ftz, uint64_t half)
{
    return !ftz || half & (bf16 ? 0x7f80u : 0x7c00u) ? half : half & 0x8000;
}

// Packed pairs: set gives 1.0 or all ones in each half.
EMULATOR_TEST(packed_comparisons)
{
    static const char *const names[] = { "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                         "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };
    static uint64_t in[3][APPLY_COUNT], other[3][APPLY_COUNT], out[APPLY_COUNT];
    inputs_for(in, 21);
    inputs_for(other, 22);
    for (unsigned i = 0; i < APPLY_COUNT; i++)
        for (unsigned k = 0; k < 2; k++)
            in[k][i] |= other[1 - k][APPLY_COUNT - 1 - i] << 16;
    for (unsigned k = 0; k < 14 * 6; k++) {
        const bool bf16 = k / 14 % 3 == 2, ftz = k / 14 % 3 == 1, ones = k / 42;
        const uint64_t *const inputs[4] = { in[0], in[1] };
        char name[64];
        snprintf(name, sizeof(name), "set.%s%s.%s.%s", names[k % 14], ftz ? ".ftz" : "",
                 ones   ? "u32"
                 : bf16 ? "bf16x2"
                        : "f16x2",
                 bf16 ? "bf16x2" : "f16x2");
        const struct apply a = { name, 32, { 32, 32 } };
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t wanted = 0, yes = ones ? 0xffff : bf16 ? 0x3f80 : 0x3c00;
            for (unsigned half = 0; half < 32; half += 16) {
                double x = widened(bf16, flushed(bf16, ftz, in[0][i] >> half & 0xffff));
                double y = widened(bf16, flushed(bf16, ftz, in[1][i] >> half & 0xffff));
                wanted |= holds(k % 14, x, y) ? yes << half : 0;
            }
            if (out[i] != wanted)
                fail_msg("%s of %llx, %llx: %llx, not %llx", name, (unsigned long long)in[0][i],
                         (unsigned long long)in[1][i], (unsigned long long)out[i],
                         (unsigned long long)wanted);
        }
    }
}

// setp writes the result of the low half to the first predicate and that of the high half to the
// second. Each is combined with the third predicate.
EMULATOR_TEST(packed_predicates)
{
    static const char *const logic[] = { "", ".and", ".or", ".xor" };
    const uint32_t pairs[4][2] = {
        { 0x3c004000, 0x40003c00 }, // 2 1 and 1 2, low half first
        { 0x40003c00, 0x3c004000 },
        { 0x3c003c00, 0x40004000 },
        { 0x7e003c00, 0x40004000 }, // high half NaN
    };
    const unsigned less[4] = { 2, 1, 3, 1 }; // bit 0: low half
    for (unsigned k = 0; k < 4 * 2; k++) {
        char body[1024];
        const bool with = k / 4;
        snprintf(body, sizeof(body),
                 "mul.wide.u32 %%rd6, %%r0, 8;\nadd.u64 %%rd4, %%rd0, %%rd6;\n"
                 "ld.global.v2.u32 {%%r5, %%r6}, [%%rd4];\nsetp.%s.u32 %%p3, %%r0, %%r0;\n"
                 "setp.lt%s.f16x2 %%p1|%%p2, %%r5, %%r6%s;\nselp.u32 %%r7, 1, 0, %%p1;\n"
                 "@%%p2 add.u32 %%r7, %%r7, 2;\nst.global.u32 [%%rd4], %%r7;\nret;",
                 with ? "eq" : "ne", logic[k % 4], k % 4 ? ", %p3" : "");
        e->block = 4;
        uint64_t at = emulator_upload(e, pairs, sizeof(pairs));
        emulator_runs(e, body, at, 0, 0);
        const uint32_t *got = emulator_at(e, at, sizeof(pairs));
        for (unsigned i = 0; i < 4; i++) {
            unsigned third = with ? 3 : 0;
            unsigned wanted = k % 4 == 1   ? less[i] & third
                              : k % 4 == 2 ? less[i] | third
                              : k % 4 == 3 ? less[i] ^ third
                                           : less[i];
            assert_int_equal(got[2 * i], wanted);
        }
    }
}

EMULATOR_TEST(to_tf32)
{
    static const struct {
        const char *name;
        char mode;
        bool relu, satfinite;
    } cases[] = {
        { "cvt.rna.tf32.f32", 'a', false, false },
        { "cvt.rna.satfinite.tf32.f32", 'a', false, true },
        { "cvt.rn.tf32.f32", 'n', false, false },
        { "cvt.rz.tf32.f32", 'z', false, false },
        { "cvt.rn.relu.tf32.f32", 'n', true, false },
        { "cvt.rz.relu.tf32.f32", 'z', true, false },
        { "cvt.rn.satfinite.tf32.f32", 'n', false, true },
        { "cvt.rz.relu.satfinite.tf32.f32", 'z', true, true },
    };
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    static const uint32_t ends[] = { 0,          0x00800000, 0x7f7fe000, 0x7f800000,
                                     0x3f800000, 0x007fe000, 0x7fc00000 };
    struct random r = { 77 };
    e->target = ".version 8.6\n.target sm_100";
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
        for (unsigned round = 0; round < 8; round++) {
            struct apply a = { cases[k].name, 32, { 32 } };
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                // A value, a tie, their neighbours; around the ends of the range, and anywhere.
                uint32_t x = (uint32_t)random_u64(&r);
                x = i % 4 ? (x & 0xfffff000) + i % 3 - 1 : x;
                in[0][i] =
                    round ? x : (ends[i % 7] + (i / 7 % 16) * 0x1000 - 1 + i / 112) ^ x >> 31 << 31;
            }
            apply(e, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                if ((uint32_t)out[i] != tf32_from_f32((uint32_t)in[0][i], cases[k].mode,
                                                      cases[k].relu, cases[k].satfinite))
                    fail_msg("%s of %08x: %08x", cases[k].name, (unsigned)in[0][i],
                             (unsigned)out[i]);
        }
}

// Between f16 and bf16 without a rounding: ptxas 13.0 makes the machine code of .rn.
EMULATOR_TEST(halves_to_other_halves)
{
    static uint64_t in[APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in };
    struct random r = { 4 };
    for (unsigned bf16 = 0; bf16 < 2; bf16++)
        for (unsigned rn = 0; rn < 2; rn++) {
            char name[32];
            snprintf(name, sizeof(name), "cvt%s.%s", rn ? ".rn" : "",
                     bf16 ? "bf16.f16" : "f16.bf16");
            struct apply a = { name, 16, { 16 } };
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                in[i] = bf16 ? random_u64(&r) % 0x7c01 // positive, up to infinity
                             : 0x3300 + random_u64(&r) % 0x1500;
            apply(e, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                const double x = widened(!bf16, in[i]);
                assert_int_equal((uint16_t)out[i], bf16 ? bf16_from_f64(x) : f16_from_f64(x));
            }
        }
}

// .satfinite to f16 and bf16: what would be infinite is the largest value.
EMULATOR_TEST(finite_halves)
{
    static uint64_t in[2][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1] };
    struct random r = { 3 };
    for (unsigned bf16 = 0; bf16 < 2; bf16++)
        for (unsigned pair = 0; pair < 2; pair++) {
            const unsigned most = bf16 ? 0x7f7f : 0x7bff;
            char name[64];
            snprintf(name, sizeof(name), "cvt.rn.satfinite.%s%s.f32", bf16 ? "bf16" : "f16",
                     pair ? "x2" : "");
            struct apply a = { name, pair ? 32 : 16, { 32, pair ? 32 : 0 } };
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                for (unsigned n = 0; n < 2; n++) {
                    const uint32_t x = (uint32_t)random_u64(&r);
                    in[n][i] = i % 2 ? x : (x & 0x800fffff) | (bf16 ? 0x7f700000 : 0x47700000);
                }
            apply(e, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                for (unsigned n = 0; n < 1 + pair; n++) {
                    const double x = (double)f32_of_bits((uint32_t)in[n][i]);
                    unsigned wanted = bf16 ? bf16_from_f64(x) : f16_from_f64(x);
                    if ((wanted & 0x7fff) == most + 1)
                        wanted--;
                    assert_int_equal((uint16_t)(out[i] >> (pair && n == 0 ? 16 : 0)), wanted);
                }
        }
}

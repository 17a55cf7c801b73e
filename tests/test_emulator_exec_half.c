// SPDX-License-Identifier: MIT
// f16 and bf16 arithmetic, and conversions between all types, against the tests' own conversions
// (half.h), which are integer arithmetic alone.
#include "emulator_apply.h"
#include "half.h"

#include <math.h>

static double widened(bool bf16, uint64_t h)
{
    return half_to_f64(bf16 ? BF16_EXPONENT_BITS : F16_EXPONENT_BITS, (uint16_t)h);
}

static uint16_t narrowed(bool bf16, double x)
{
    return half_from_f64(bf16 ? BF16_EXPONENT_BITS : F16_EXPONENT_BITS, x);
}

// high + low exactly; rounded once: as `high` alone, unless that lies just between two results, or
// is a result itself, and the rest tips the scale.
static uint16_t narrowed_sum(bool bf16, double high, double low)
{
    if (low == 0 || !isfinite(high))
        return narrowed(bf16, high);
    double toward = low > 0 ? (double)INFINITY : -(double)INFINITY;
    // Only a tie of `high` can be tipped, and one step of double is less than what tips it.
    return narrowed(bf16, nextafter(high, toward)) == narrowed(bf16, nextafter(high, -toward))
               ? narrowed(bf16, high)
               : narrowed(bf16, nextafter(high, toward));
}

static uint16_t wanted(bool bf16, unsigned op, uint64_t a, uint64_t b, uint64_t c)
{
    double x = widened(bf16, a), y = widened(bf16, b), z = widened(bf16, c);
    double p = op < 2 ? x : x * y, q = op == 0 ? y : op == 1 ? -y : op == 2 ? -0.0 : z;
    if (op == 2)
        return narrowed(bf16, p);
    double s = p + q, part = s - p;
    double rest = isfinite(s) ? (p - (s - part)) + (q - part) : 0;
    return narrowed_sum(bf16, s, rest);
}

static void inputs_for(uint64_t in[3][APPLY_COUNT], uint64_t seed)
{
    static const uint64_t corners[] = { 0,      0x8000, 1,      0x8001, 0x03ff, 0x0400,
                                        0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00,
                                        0xfc00, 0x7e00, 0x7f7f, 0x7f80, 0xff80, 0x7fc0,
                                        0x0080, 0x3f80, 0x3f81, 0x6400 };
    apply_inputs(in, corners, 22, 16, seed);
    for (unsigned i = 700; i < APPLY_COUNT; i++) // like exponents: cancellation and ties
        for (unsigned k = 0; k < 3; k++)
            in[k][i] = (in[k][i] & 0x83ff) | 0x3800;
}

static void arithmetic(void **state)
{
    static const char *const names[] = { "add", "sub", "mul", "fma" };
    static const char *const types[] = { "f16", "bf16" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT], packed[3][APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    const uint64_t *const pairs[4] = { packed[0], packed[1], packed[2] };
    for (unsigned op = 0; op < 4; op++)
        for (unsigned bf16 = 0; bf16 < 2; bf16++)
            for (uint64_t round = 0; round < 4; round++) {
                char name[32];
                snprintf(name, sizeof(name), "%s.rn.%s", names[op], types[bf16]);
                struct apply a = { name, 16, { 16, 16, op == 3 ? 16 : 0 } };
                inputs_for(in, op * 10 + bf16 * 5 + round);
                apply(*state, &a, inputs, out);
                for (unsigned i = 0; i < APPLY_COUNT; i++) {
                    uint16_t want = wanted(bf16, op, in[0][i], in[1][i], in[2][i]);
                    if ((uint16_t)out[i] != want)
                        fail_msg("%s of %04x, %04x, %04x: %04x, not %04x", name, (unsigned)in[0][i],
                                 (unsigned)in[1][i], (unsigned)in[2][i], (unsigned)(uint16_t)out[i],
                                 want);
                }
                // Two at once: the same, in the lower half and, from another element, the upper.
                for (unsigned k = 0; k < 3; k++)
                    for (unsigned i = 0; i < APPLY_COUNT; i++)
                        packed[k][i] = in[k][i] | in[k][(i + 1) % APPLY_COUNT] << 16;
                uint64_t single[APPLY_COUNT];
                memcpy(single, out, sizeof(single));
                snprintf(name, sizeof(name), "%s.rn.%sx2", names[op], types[bf16]);
                a = (struct apply) { name, 32, { 32, 32, op == 3 ? 32 : 0 } };
                apply(*state, &a, pairs, out);
                for (unsigned i = 0; i < APPLY_COUNT; i++)
                    assert_int_equal((uint32_t)out[i],
                                     (single[i] & 0xffff) | (single[(i + 1) % APPLY_COUNT] & 0xffff)
                                                                << 16);
            }
}

// 2^-14 - 2^-25 has eleven bits and is no normal number: an H200 flushes it, though rounded to the
// places of subnormal ones it would be 2^-14.
static void flushed_products(void **state)
{
    static const char *const names[] = { "mul.ftz.f16", "mul.f16", "fma.rn.ftz.f16", "fma.rn.f16" };
    static uint64_t x[APPLY_COUNT], y[APPLY_COUNT], zero[APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const in[4] = { x, y, zero };
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        x[i] = i & 1 ? 0x87ff : 0x07ff;
        y[i] = i & 2 ? 0x3801 : 0x3800;
    }
    for (unsigned k = 0; k < 4; k++) {
        apply(*state, &(struct apply) { names[k], 16, { 16, 16, k > 1 ? 16 : 0 } }, in, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            const unsigned sign = i & 1 ? 0x8000 : 0;
            const bool flushed = !(k & 1) && !(i & 2);
            assert_int_equal(out[i] & 0xffff, flushed ? sign : sign | 0x400);
        }
    }
}

// Calls `check` with every 16-bit value, 1024 at a time, and what the instruction makes of it.
static void every_half(struct emulator *e, const char *instruction, unsigned out_bits,
                       void (*check)(uint16_t x, uint64_t got))
{
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    struct apply a = { instruction, out_bits, { 16 } };
    for (unsigned first = 0; first < 65536; first += APPLY_COUNT) {
        for (unsigned i = 0; i < APPLY_COUNT; i++)
            in[0][i] = first + i;
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++)
            check((uint16_t)(first + i), out[i]);
    }
}

static bool is_nan_f16(uint16_t x)
{
    return (x & 0x7fff) > 0x7c00;
}

static void check_f32_f16(uint16_t x, uint64_t got)
{
    assert_int_equal((uint32_t)got,
                     is_nan_f16(x) ? 0x7fffffff : bits_of_f32((float)widened(false, x)));
}

static void check_f32_bf16(uint16_t x, uint64_t got)
{
    assert_int_equal((uint32_t)got, (uint32_t)x << 16);
}

static void check_neg_f16(uint16_t x, uint64_t got)
{
    assert_int_equal((uint16_t)got, is_nan_f16(x) ? 0x7fff : x ^ 0x8000);
}

static void check_abs_f16(uint16_t x, uint64_t got)
{
    assert_int_equal((uint16_t)got, is_nan_f16(x) ? 0x7fff : x & 0x7fff);
}

static double nearest(double x)
{
    double whole = floor(x), rest = x - whole;
    return rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0) ? whole + 1 : whole;
}

static void check_s16_f16(uint16_t x, uint64_t got)
{
    double y = is_nan_f16(x) ? 0 : nearest(widened(false, x));
    int32_t want = y > 32767 ? 32767 : y < -32768 ? -32768 : (int32_t)y;
    assert_int_equal((int16_t)got, want);
}

static void check_u8_f16(uint16_t x, uint64_t got)
{
    double y = is_nan_f16(x) ? 0 : trunc(widened(false, x));
    assert_int_equal((uint16_t)got, y > 255 ? 255 : y < 0 ? 0 : (unsigned)y);
}

static void check_s64_f16(uint16_t x, uint64_t got)
{
    double y = is_nan_f16(x) ? 0 : floor(widened(false, x));
    int64_t want = y > 1e9 ? INT64_MAX : y < -1e9 ? INT64_MIN : (int64_t)y;
    assert_true((int64_t)got == (is_nan_f16(x) ? INT64_MIN : want));
}

static void check_rint_f16(uint16_t x, uint64_t got)
{
    double y = widened(false, x);
    uint16_t want = is_nan_f16(x) ? 0x7fff
                    : isinf(y)
                        ? x
                        : (uint16_t)((narrowed(false, nearest(fabs(y))) & 0x7fff) | (x & 0x8000));
    assert_int_equal((uint16_t)got, want);
}

static void every_f16(void **state)
{
    every_half(*state, "cvt.f32.f16", 32, check_f32_f16);
    every_half(*state, "cvt.f32.bf16", 32, check_f32_bf16);
    every_half(*state, "neg.f16", 16, check_neg_f16);
    every_half(*state, "abs.f16", 16, check_abs_f16);
    every_half(*state, "cvt.rni.s16.f16", 16, check_s16_f16);
    every_half(*state, "cvt.rzi.u8.f16", 16, check_u8_f16);
    every_half(*state, "cvt.rmi.s64.f16", 64, check_s64_f16);
    every_half(*state, "cvt.rni.f16.f16", 16, check_rint_f16);
}

static void floats_to_halves(void **state)
{
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    struct random r = { 8 };
    for (unsigned round = 0; round < 40; round++)
        for (unsigned bf16 = 0; bf16 < 2; bf16++) {
            struct apply a = { bf16 ? "cvt.rn.bf16.f32" : "cvt.rn.f16.f32", 16, { 32 } };
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                // Results and the ties between them, and their neighbours; then any bits.
                uint32_t x = bits_of_f32((float)widened(bf16, random_u64(&r) & 0xffff));
                x += (bf16 ? 0x8000u : 0x1000u) * (uint32_t)random_below(&r, 2);
                x += random_below(&r, 3) - 1;
                in[0][i] = i & 7 ? x : (uint32_t)random_u64(&r);
            }
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                assert_int_equal((uint16_t)out[i],
                                 narrowed(bf16, (double)f32_of_bits((uint32_t)in[0][i])));
        }
}

static void integers_to_floats(void **state)
{
    // |x - result| is at most half a step, and ties go to even; directed modes lie on their side.
    static const char *const modes[] = { "rn", "rz", "rm", "rp" };
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    struct random r = { 21 };
    for (unsigned mode = 0; mode < 4; mode++) {
        char name[32];
        snprintf(name, sizeof(name), "cvt.%s.f32.s64", modes[mode]);
        struct apply a = { name, 32, { 64 } };
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t x = random_u64(&r) >> random_below(&r, 60);
            in[0][i] = i & 1 ? 0 - x : x;
        }
        in[0][0] = UINT64_C(1) << 63;
        in[0][1] = INT64_MAX;
        in[0][2] = 0;
        in[0][3] = (1 << 24) + 1;
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t x = in[0][i], size = x >> 63 ? 0 - x : x, unit = 1;
            while (size / unit >> 24)
                unit *= 2;
            uint64_t low = size / unit * unit, rest = size - low;
            bool up = mode == 0
                          ? rest > unit / 2 || (unit > 1 && rest == unit / 2 && low / unit & 1)
                      : mode == 1 ? false
                      : mode == 2 ? rest && x >> 63
                                  : rest && !(x >> 63);
            double want = ((double)(low / unit) + up) * (double)unit;
            assert_int_equal((uint32_t)out[i], bits_of_f32((float)(x >> 63 ? -want : want)));
        }
    }
}

static void saturating_integers(void **state)
{
    static const struct {
        const char *name;
        unsigned from, to;
        int64_t least, most;
        bool is_signed;
    } cases[] = {
        { "cvt.sat.s8.s32", 32, 16, -128, 127, true },
        { "cvt.sat.u8.s32", 32, 16, 0, 255, true },
        { "cvt.sat.u16.s64", 64, 16, 0, 65535, true },
        { "cvt.sat.s16.u32", 32, 16, 0, 32767, false },
        { "cvt.sat.u32.s32", 32, 32, 0, UINT32_MAX, true },
        { "cvt.sat.s32.s64", 64, 32, INT32_MIN, INT32_MAX, true },
    };
    static const uint64_t corners[] = { 0,          1,          127,        128,       255,
                                        256,        0x7fff,     0x8000,     0xffff,    0x10000,
                                        0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct apply a = { cases[k].name, cases[k].to, { cases[k].from } };
        apply_inputs(in, corners, 14, cases[k].from, k);
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            int64_t x = cases[k].from == 64  ? (int64_t)in[0][i]
                        : cases[k].is_signed ? (int64_t)(int32_t)in[0][i]
                                             : (int64_t)in[0][i];
            x = x < cases[k].least ? cases[k].least : x > cases[k].most ? cases[k].most : x;
            uint64_t keep = cases[k].to == 16 ? 0xffff : 0xffffffff;
            assert_int_equal(out[i] & keep, (uint64_t)x & keep);
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

// Halves two at a time: set to 1.0 or to ones in each half.
static void packed_comparisons(void **state)
{
    static const char *const names[] = { "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                         "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };
    static uint64_t in[3][APPLY_COUNT], other[3][APPLY_COUNT], out[APPLY_COUNT];
    struct emulator *e = *state;
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

// setp gives the low half's to the first predicate, the high half's to the second; each is combined
// with the third.
static void packed_predicates(void **state)
{
    struct emulator *e = *state;
    static const char *const logic[] = { "", ".and", ".or", ".xor" };
    const uint32_t pairs[4][2] = {
        { 0x3c004000, 0x40003c00 }, // 2 1 and 1 2, low half first
        { 0x40003c00, 0x3c004000 },
        { 0x3c003c00, 0x40004000 },
        { 0x7e003c00, 0x40004000 }, // high half NaN
    };
    const unsigned less[4] = { 2, 1, 3, 1 }; // bit 0: of the low half
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
        emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMULATOR_TEST(arithmetic),          EMULATOR_TEST(every_f16),
        EMULATOR_TEST(floats_to_halves),    EMULATOR_TEST(integers_to_floats),
        EMULATOR_TEST(saturating_integers), EMULATOR_TEST(packed_comparisons),
        EMULATOR_TEST(packed_predicates),   EMULATOR_TEST(flushed_products),
    };
    return cmocka_run_group_tests_name("emulator exec half", tests, NULL, NULL);
}

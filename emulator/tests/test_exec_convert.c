// SPDX-License-Identifier: MIT
// Conversions between all types, compared with those of half.h, which use integer arithmetic alone;
// and other tests with every 16-bit value.
#include "apply.h"
#include "reference/half.h"

#include <math.h>

// Calls `check` with every 16-bit value, 1024 at a time, and with the results of the instruction.
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
    assert_int_equal((uint32_t)got, is_nan_f16(x) ? 0x7fffffff : bits_of_f32((float)f16_to_f64(x)));
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
    double y = is_nan_f16(x) ? 0 : nearest(f16_to_f64(x));
    int32_t want = y > 32767 ? 32767 : y < -32768 ? -32768 : (int32_t)y;
    assert_int_equal((int16_t)got, want);
}

static void check_u8_f16(uint16_t x, uint64_t got)
{
    double y = is_nan_f16(x) ? 0 : trunc(f16_to_f64(x));
    assert_int_equal((uint16_t)got, y > 255 ? 255 : y < 0 ? 0 : (unsigned)y);
}

static void check_s64_f16(uint16_t x, uint64_t got)
{
    double y = is_nan_f16(x) ? 0 : floor(f16_to_f64(x));
    int64_t want = y > 1e9 ? INT64_MAX : y < -1e9 ? INT64_MIN : (int64_t)y;
    assert_true((int64_t)got == (is_nan_f16(x) ? INT64_MIN : want));
}

static void check_rint_f16(uint16_t x, uint64_t got)
{
    double y = f16_to_f64(x);
    uint16_t want = is_nan_f16(x) ? 0x7fff
                    : isinf(y)
                        ? x
                        : (uint16_t)((f16_from_f64(nearest(fabs(y))) & 0x7fff) | (x & 0x8000));
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
                // Possible results, the ties between them and their neighbours; then random bits.
                uint16_t half = (uint16_t)random_u64(&r);
                uint32_t x = bits_of_f32((float)(bf16 ? bf16_to_f64(half) : f16_to_f64(half)));
                x += (bf16 ? 0x8000u : 0x1000u) * (uint32_t)random_below(&r, 2);
                x += random_below(&r, 3) - 1;
                in[0][i] = i & 7 ? x : (uint32_t)random_u64(&r);
            }
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                double x = (double)f32_of_bits((uint32_t)in[0][i]);
                assert_int_equal((uint16_t)out[i], bf16 ? bf16_from_f64(x) : f16_from_f64(x));
            }
        }
}

static void integers_to_floats(void **state)
{
    // |x - result| is at most half a step, and ties go to even. In directed modes the result is on
    // the right side.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMULATOR_TEST(every_f16),
        EMULATOR_TEST(floats_to_halves),
        EMULATOR_TEST(integers_to_floats),
        EMULATOR_TEST(saturating_integers),
    };
    return cmocka_run_group_tests_name("emulator exec convert", tests, NULL, NULL);
}

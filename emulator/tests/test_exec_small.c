// SPDX-License-Identifier: MIT
// Conversions to and from floats of 8 bits and tf32. The expectation knows the values of a format
// as a sorted list and looks for the nearest; it computes with no bits of the formats.
#include "apply.h"
#include "reference/small.h"

static enum small_format format_of(unsigned k)
{
    return k % 2 ? SMALL_E5M2 : SMALL_E4M3;
}

static void the_ends_of_the_lists(void **state)
{
    (void)state;
    assert_true(small_value(SMALL_E4M3, 0x7e) == 448 && small_value(SMALL_E4M3, 1) == 0x1p-9);
    assert_true(small_value(SMALL_E5M2, 0x7b) == 57344 && small_value(SMALL_E5M2, 1) == 0x1p-16);
}

static const char *const names[2][2] = { { "e4m3x2", "e5m2x2" }, { "relu.e4m3x2", "relu.e5m2x2" } };

// f32: every boundary between two results, its neighbours, both signs; then random bits.
static void from_f32(void **state)
{
    static uint64_t in[2][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1] };
    static const uint32_t special[] = { 0,          0x80000000, 1,          0x80000001,
                                        0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
                                        0x7f800001, 0x7f7fffff, 0xff7fffff, 0x007fffff };
    struct random r = { 5 };
    for (unsigned k = 0; k < 4; k++) {
        const enum small_format format = format_of(k);
        char name[64];
        snprintf(name, sizeof(name), "cvt.rn.satfinite.%s.f32", names[k / 2][k % 2]);
        struct apply a = { name, 16, { 32, 32 } };
        for (unsigned round = 0; round < 4; round++) {
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                const unsigned at = i / 6 % small_count(format);
                const double here = small_value(format, at);
                const double next = small_value(format, at + 1); // past the last, as in the list
                const double tie = round % 2 ? (here + next) / 2 : here;
                uint32_t x = bits_of_f32((float)tie) + i % 3 - 1;
                x ^= i % 6 < 3 ? 0 : UINT32_C(0x80000000);
                in[0][i] = round < 2 ? x : (uint32_t)random_u64(&r);
                in[1][i] = i < 12 ? special[i] : in[0][(i * 7 + 5) % (i + 1)];
            }
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                const double hi = (double)f32_of_bits((uint32_t)in[0][i]);
                const double lo = (double)f32_of_bits((uint32_t)in[1][i]);
                const unsigned wanted =
                    small_from_f64(format, hi, k / 2) << 8 | small_from_f64(format, lo, k / 2);
                if ((uint16_t)out[i] != wanted)
                    fail_msg("%s of %a, %a: %04x, wanted %04x", name, hi, lo, (unsigned)out[i],
                             wanted);
            }
        }
    }
}

// Every f16, in the lower half and, in another order, in the upper.
static void from_f16(void **state)
{
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    for (unsigned k = 0; k < 4; k++) {
        const enum small_format format = format_of(k);
        char name[64];
        snprintf(name, sizeof(name), "cvt.rn.satfinite.%s.f16x2", names[k / 2][k % 2]);
        struct apply a = { name, 16, { 32 } };
        for (unsigned first = 0; first < 65536; first += APPLY_COUNT) {
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                in[0][i] = (first + i) | ((first + i) * 40503u & 0xffff) << 16;
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                const double lo = f16_to_f64((uint16_t)in[0][i]);
                const double hi = f16_to_f64((uint16_t)(in[0][i] >> 16));
                assert_int_equal((uint16_t)out[i], small_from_f64(format, hi, k / 2) << 8 |
                                                       small_from_f64(format, lo, k / 2));
            }
        }
    }
}

// Every pair.
static void to_f16(void **state)
{
    static const char *const from[4] = { "cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2",
                                         "cvt.rn.relu.f16x2.e4m3x2", "cvt.rn.relu.f16x2.e5m2x2" };
    static uint64_t in[1][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    for (unsigned k = 0; k < 4; k++) {
        const enum small_format format = format_of(k);
        struct apply a = { from[k], 32, { 16 } };
        for (unsigned first = 0; first < 65536; first += APPLY_COUNT) {
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                in[0][i] = first + i;
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                const unsigned x = first + i;
                assert_int_equal((uint32_t)out[i], small_to_f16(format, x >> 8, k / 2) << 16 |
                                                       small_to_f16(format, x & 0xff, k / 2));
            }
        }
    }
}

static void to_tf32(void **state)
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
    struct emulator *e = *state;
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

// .satfinite to f16 and bf16: what would be infinite is the largest value.
static void finite_halves(void **state)
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
            apply(*state, &a, inputs, out);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ends_of_the_lists),
        EMULATOR_TEST(from_f32),
        EMULATOR_TEST(from_f16),
        EMULATOR_TEST(to_f16),
        EMULATOR_TEST(to_tf32),
        EMULATOR_TEST(finite_halves),
    };
    return cmocka_run_group_tests_name("emulator exec small", tests, NULL, NULL);
}

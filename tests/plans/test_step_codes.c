// SPDX-License-Identifier: MIT
// The maps of 8-bit states, and the tables by which kernels find codes: every quotient that there
// is gets the nearest entry. How far steps with states in blocks are from f64.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/step.h>

#include "kernels/step/format.h"
#include "kernels/step/formats/state_8bit.h"
#include "random.h"
#include "reference/half.h"
#include "reference/step.h"
#include "test.h"

static struct ptxk_state_8bit_tables tables;

static int set_up(void **state)
{
    (void)state;
    ptxk_state_8bit_tables_fill(&tables);
    return 0;
}

static uint64_t hash_of(const float map[256])
{
    const unsigned char *bytes = (const void *)map;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a

    for (size_t k = 0; k < 256 * sizeof *map; k++)
        hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
    return hash;
}

// The hashes are of the maps that bitsandbytes 0.50.2 makes with PyTorch 2.15 on x86-64 with AVX2
// and with AVX-512.
TEST(test_maps)
{
    static const uint64_t hashes[2] = { UINT64_C(0x43811b16730a873e),
                                        UINT64_C(0xd677f22a96665bc4) };
    float map[256], expected[256];

    assert_int_equal(ptx_step_map(true, NULL), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "ptx_step_map: map is NULL"));
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        assert_int_equal(ptx_step_map(is_signed, map), PTX_OK);
        ref_map(is_signed, expected);
        assert_memory_equal(map, expected, sizeof map);
        assert_memory_equal(map, tables.map[is_signed], sizeof map);
        if (hash_of(map) != hashes[is_signed])
            fail_msg("the map's hash is 0x%llx", (unsigned long long)hash_of(map));
        assert_true(map[255] == 1.0f && map[is_signed ? 127 : 0] == 0.0f);
    }
    assert_true(map[0] == -map[254] && map[254] == 0x1.fc6666p-1f && map[128] == -map[126]);
}

// What the kernel computes of q's bits.
static unsigned code_of(bool is_signed, uint32_t q)
{
    const uint32_t size = is_signed ? q & 0x7fffffff
                          : q >> 31 ? 0
                                    : q,
                   least = bits_of_f32(0x1p-23f);
    const uint32_t limited = size > least ? size : least;
    const uint16_t entry = tables.cells[is_signed][(limited >> 16) - (least >> 16)];
    const unsigned place = (limited + 256u * entry) >> 16 & 0xff;

    if (!is_signed)
        return place;
    return q >> 31 ? place > 127 ? 0 : 127 - place : 127 + place;
}

// Every q of a sign up to 1, from 0 on, with the nearest entry moving along; none is midway.
static void check_quotients(bool is_signed, bool below_0)
{
    const uint32_t sign = below_0 ? UINT32_C(1) << 31 : 0, one = 0x3f800080;
    const float *map = tables.map[is_signed];
    unsigned nearest = is_signed ? 127 : 0;

    for (uint32_t bits = 0x80; bits <= one; bits += 0x100) {
        const double q = (double)f32_of_bits(bits | sign);
        for (;;) {
            const unsigned next = below_0 ? nearest - 1 : nearest + 1;
            if (next > 255 || (below_0 && !is_signed))
                break;
            const double here = fabs(q - (double)map[nearest]), there = fabs(q - (double)map[next]);
            assert_true(here != there);
            if (here < there)
                break;
            nearest = next;
        }
        const unsigned code = code_of(is_signed, bits | sign);
        if (code != nearest)
            fail_msg("%s map, q %a: code %u, and the nearest is %u",
                     is_signed ? "signed" : "unsigned", q, code, nearest);
        if (bits % 0x40100 == 0x80) // some of them, by the reference
            assert_int_equal(ref_code(map, f32_of_bits(bits | sign), 1.0f), code);
    }
}

TEST(test_quotients)
{
    check_quotients(false, false);
    check_quotients(false, true);
    check_quotients(true, false);
    check_quotients(true, true);
}

// ---- closeness ----------------------------------------------------------------------------------

enum { ELEMENTS = 2000, STEPS = 100 };

static const struct ref_step_hyper adam = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
static float parameter[ELEMENTS], gradient[STEPS][ELEMENTS];
static double exact[ELEMENTS];

// AdamW in f64.
static void step_exactly(void)
{
    for (unsigned i = 0; i < ELEMENTS; i++) {
        double m = 0, v = 0, p = 0;
        for (int t = 1; t <= STEPS; t++) {
            const double g = (double)gradient[t - 1][i];
            m = adam.beta1 * m + (1 - adam.beta1) * g;
            v = adam.beta2 * v + (1 - adam.beta2) * g * g;
            const double bc1 = 1 - pow(adam.beta1, t), bc2 = 1 - pow(adam.beta2, t);
            p -= adam.lr * (m / bc1) / (sqrt(v / bc2) + adam.eps);
        }
        exact[i] = p;
    }
}

// The mean distance of parameters from f64, as a part of the mean size: how far they went.
static double distance_in(enum ref_step_format format)
{
    static uint32_t states[2][ELEMENTS];
    static float absmax[2][(ELEMENTS + 255) / 256];
    double distance = 0, size = 0;

    memset(parameter, 0, sizeof parameter);
    memset(states, 0, sizeof states);
    memset(absmax, 0, sizeof absmax);
    for (uint32_t t = 1; t <= STEPS; t++) {
        const struct ref_step_tensor tensor = { .rule = REF_ADAMW,
                                                .format = format,
                                                .parameter_type = REF_F32,
                                                .gradient_type = REF_F32,
                                                .parameter = parameter,
                                                .gradient = gradient[t - 1],
                                                .state = { states[0], states[1] },
                                                .absmax = { absmax[0], absmax[1] },
                                                .count = ELEMENTS,
                                                .hyper = adam };
        ref_step(&tensor, t, 1, REF_GRADIENTS_RAW);
    }
    for (unsigned i = 0; i < ELEMENTS; i++) {
        distance += fabs((double)parameter[i] - exact[i]);
        size += fabs(exact[i]);
    }
    return distance / size;
}

// Gradients change sign, and differ by up to 2^(spread - 1) within a block. A state in f16 is off
// by at most 2^-12 of itself a step, however small it is beside the others; 8 bits hold no small
// ones.
TEST(test_distance)
{
    struct random r = { .state = 1 };

    for (int spread = 5; spread <= 17; spread += 12) {
        for (int t = 0; t < STEPS; t++)
            for (int i = 0; i < ELEMENTS; i++)
                gradient[t][i] = ldexpf((float)random_below(&r, 2001) - 900, -(i * 7 % spread));
        step_exactly();
        const double full = distance_in(REF_FULL), f16 = distance_in(REF_STATE_F16);
        const double codes = distance_in(REF_STATE_8BIT);
        if (full > 1e-6 || f16 > 0.001 || f16 > codes / 20)
            fail_msg("spread %d: f32 %g, f16 %g, 8 bits %g", spread, full, f16, codes);
    }
}

// The public table has the types of the formats' own files.
TEST(test_types_of_formats)
{
    static const struct {
        ptx_type state, beside;
    } types[] = {
#define TYPES(enumerator, name, state, beside) { PTX_##state, PTX_##beside },
        PTX_STEP_FORMATS(TYPES)
#undef TYPES
    };

    for (unsigned f = 0; f < PTX_STEP_FORMAT_COUNT; f++) {
        assert_int_equal(types[f].state, ptxk_step_format_of((ptx_step_format)f)->state);
        assert_int_equal(types[f].beside, ptxk_step_format_of((ptx_step_format)f)->beside);
    }
}

int main(void)
{
    return tests_run(set_up, NULL);
}

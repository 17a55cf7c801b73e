// SPDX-License-Identifier: MIT
// What nvcc wrote, parsed and executed: the results are those of the C++ that it came from.
#include "emulator_fixture.h"

enum { LANES = 32 };

static void load_sample(struct emulator *e, const char *name)
{
    static char text[1 << 18];
    char path[512];
    snprintf(path, sizeof path, PTX_DIR "/%s.ptx", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    emulator_load(e, text);
}

// Initial values, as the driver puts them into the device's memory.
static void initialise(struct emulator *e)
{
    const struct emu_module *module = e->module;
    for (uint32_t k = 0; k < module->symbol_count; k++) {
        const struct emu_symbol *symbol = &module->symbols[k];
        if (symbol->space == EMU_GLOBAL && symbol->init)
            memcpy(emulator_at(e, e->global_base + symbol->offset, symbol->bytes), symbol->init,
                   (size_t)symbol->bytes);
    }
    for (uint32_t k = 0; k < module->relocation_count; k++) {
        const struct emu_relocation *r = &module->relocations[k];
        const uint64_t address =
            e->global_base + module->symbols[r->target].offset + (uint64_t)r->addend;
        assert_int_equal(r->bytes, 8);
        memcpy(emulator_at(e, e->global_base + module->symbols[r->symbol].offset + r->offset, 8),
               &address, 8);
    }
}

// The functions of calls.cu.
static float scale(float x, int power)
{
    return power > 3 ? x * 8 : x - 1;
}

static void calls(void **state, const char *name)
{
    (void)state;
    struct emulator e;
    float in[LANES];
    emulator_open(&e);
    load_sample(&e, name);
    initialise(&e);
    for (int i = 0; i < LANES; i++)
        in[i] = (float)i * 1.25f - 7;
    const uint64_t out = emulator_zeros(&e, 64 * sizeof(float));
    const uint64_t wide = emulator_zeros(&e, LANES * 8);
    const uint64_t seen = emulator_zeros(&e, 8);
    const uint64_t params[] = { emulator_upload(&e, in, sizeof in), out, wide, seen };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const float *got = emulator_at(&e, out, 64 * sizeof(float));
    const int64_t *got_wide = emulator_at(&e, wide, LANES * 8);
    for (int i = 0; i < LANES; i++) {
        const float value = in[i] + 0.5f;
        const int twice = (int)scale((float)i, 9) + (int)scale((float)i, 1);
        assert_true(got[i] == scale(value, i) + (float)(i + 1));
        assert_int_equal(got_wide[i], ((int64_t)i << 40) - (i + 1) - 6 * i + twice);
        assert_true(got[i + 32] == in[i] * (float)(i & 7));
    }
    assert_int_equal(*(const int *)emulator_at(&e, seen, 4), -16);
    assert_int_equal(*(const int *)emulator_at(&e, e.global_base, 4), 5 + 16);
    emulator_close(&e);
}

static void calls_with_structures(void **state)
{
    calls(state, "calls");
}

static void calls_of_a_debug_build(void **state)
{
    calls(state, "calls_debug");
}

static void reduction(void **state)
{
    (void)state;
    struct emulator e;
    float in[1000], sum = 0;
    emulator_open(&e);
    load_sample(&e, "reduce");
    for (int i = 0; i < 1000; i++)
        sum += in[i] = (float)(i % 37);
    e.block = 128;
    e.dynamic_shared = 128 * sizeof(float);
    const uint64_t out = emulator_zeros(&e, 129 * sizeof(float));
    const uint64_t params[] = { emulator_upload(&e, in, sizeof in), out, 1000 };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const float *got = emulator_at(&e, out, 129 * sizeof(float));
    assert_true(got[0] == sum);
    float partial = 0;
    for (int i = 127; i < 1000; i += 128)
        partial += in[i];
    assert_true(got[1] == partial);
    emulator_close(&e);
}

static void warps(void **state)
{
    (void)state;
    struct emulator e;
    uint32_t in[LANES];
    emulator_open(&e);
    load_sample(&e, "warps");
    for (uint32_t i = 0; i < LANES; i++)
        in[i] = i % 6;
    const uint64_t p = emulator_zeros(&e, 288 * 4), v = emulator_zeros(&e, 64 * 16);
    const uint64_t params[] = { p, emulator_upload(&e, in, sizeof in), v };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const uint32_t *got = emulator_at(&e, p, 288 * 4);
    uint32_t ballot = 0, sum = 0, parity = 0, above = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        ballot |= (in[i] > 3 ? 1u : 0u) << i;
        above += in[i] > 3;
        sum += in[i];
        parity ^= in[i];
    }
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t match = 0;
        for (uint32_t j = 0; j < LANES; j++)
            match |= (in[j] == in[i] ? 1u : 0u) << j;
        assert_int_equal(got[i], ballot + 2);
        assert_int_equal(got[i + 32], in[3] + in[i ^ 1] + in[i < 2 ? i : i - 2]);
        assert_int_equal(got[i + 64], match);
        assert_int_equal(got[i + 96], sum + parity);
        assert_int_equal(got[i + 128], above);
        assert_int_equal(got[i + 160], UINT32_MAX + in[31 - i] + in[i]);
        assert_int_equal(got[i + 192], in[i]);
        assert_int_equal(got[i + 224], in[i]);
        assert_int_equal(got[i + 256], in[i] == 3 ? 3 : 4);
    }
    emulator_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_with_structures),
        cmocka_unit_test(calls_of_a_debug_build),
        cmocka_unit_test(reduction),
        cmocka_unit_test(warps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
// The functions of math.h on a device give the bits of the plain C of math_twin.c: test_math_gpu.
// The hash of all their results, 2^32 of each, is that of math_hashes.h: test_math_gpu hashes. That
// takes seconds on a GPU and days on the emulator.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "math_hashes.h"
#include "math_inputs.h"
#include "math_kernels.h"
#include "math_twin.h"
#include "test.h"

enum { MOST = 1 << 22, SAMPLE = 1 << 15 };

static ptx_module *module;

struct arrays {
    uint32_t n;
    float *x, *y, *out;
    ptx_buffer *buffer[3]; // x, y, out
};

static float *floats(uint32_t n)
{
    float *memory = malloc(n * sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static void arrays_create(struct arrays *a, uint32_t n)
{
    a->n = n;
    a->x = floats(n);
    a->y = floats(n);
    a->out = floats(n);
    for (unsigned k = 0; k < 3; k++) {
        a->buffer[k] = ptx_buffer_create(gpu.device, n * sizeof(float));
        assert_non_null(a->buffer[k]);
    }
}

static void arrays_destroy(struct arrays *a)
{
    for (unsigned k = 0; k < 3; k++)
        ptx_buffer_destroy(&a->buffer[k]);
    free(a->x);
    free(a->y);
    free(a->out);
}

// out = row(x, y) on the device.
static void launch(struct arrays *a, const struct ptx_math_info *row)
{
    const ptx_function *function = ptx_module_function(module, row->name);
    const size_t bytes = a->n * sizeof(float);
    const float *from[] = { a->x, a->y };
    CUdeviceptr at[3];
    struct ptx_arg args[4] = { PTX_ARG(a->n) };
    size_t count = 1;

    assert_non_null(function);
    for (unsigned k = 0; k < 3; k++) {
        at[k] = ptx_buffer_address(a->buffer[k]);
        if (k < row->operands)
            assert_int_equal(ptx_buffer_upload(a->buffer[k], 0, from[k], bytes, gpu.stream),
                             PTX_OK);
        if (k < row->operands || k == 2)
            args[count++] = (struct ptx_arg)PTX_ARG(at[k]);
    }
    const struct ptx_launch_params params = { .grid = { (a->n - 1) / MATH_BLOCK + 1 },
                                              .stream = gpu.stream,
                                              .args = args,
                                              .arg_count = count };
    assert_int_equal(ptx_launch(function, &params), PTX_OK);
    assert_int_equal(ptx_buffer_download(a->buffer[2], 0, a->out, bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
}

static void compare(struct arrays *a, const struct ptx_math_info *row, const struct math_twin *twin)
{
    ALLOCATED(float) *wanted = floats(a->n);

    assert_string_equal(row->name, twin->name);
    launch(a, row);
    twin->many(a->x, a->y, wanted, a->n);
    for (uint32_t i = 0; i < a->n; i++)
        if (math_bits(a->out[i]) != math_bits(wanted[i]))
            fail_msg("%s(%a, %a) is %a (0x%08" PRIx32 "), not %a (0x%08" PRIx32 ")", row->name,
                     (double)a->x[i], (double)a->y[i], (double)a->out[i], math_bits(a->out[i]),
                     (double)wanted[i], math_bits(wanted[i]));
}

// Input i of a row: x from all of them, or a pair.
static void input(const struct ptx_math_info *row, uint64_t i, float *x, float *y)
{
    uint32_t x_bits = (uint32_t)i, y_bits = 0;

    if (row->operands == 2)
        math_pair(i, &x_bits, &y_bits);
    *x = math_value(x_bits);
    *y = math_value(y_bits);
}

// ---- the tests ----------------------------------------------------------------------------------

// Each edge with both signs, and for pow with each other edge with both signs.
TEST(test_edges)
{
    enum { SIGNED = 2 * MATH_EDGES };
    struct arrays a;

    arrays_create(&a, SIGNED * SIGNED);
    for (uint32_t i = 0; i < a.n; i++) {
        const uint32_t x = i % SIGNED, y = i / SIGNED;
        a.x[i] = math_value(math_edges[x / 2] | x << 31);
        a.y[i] = math_value(math_edges[y / 2] | y << 31);
    }
    for (size_t k = 0; math_twins[k].name; k++) {
        const struct ptx_math_info *row = ptx_math_get_info(k);
        const uint32_t n = a.n;
        a.n = row->operands == 2 ? n : SIGNED;
        compare(&a, row, &math_twins[k]);
        a.n = n;
    }
    arrays_destroy(&a);
}

TEST(test_sample)
{
    struct arrays a;
    const uint32_t most = gpu.max_size < MOST ? SAMPLE : MOST;
    const uint64_t step = (UINT64_C(1) << 32) / most;

    arrays_create(&a, most);
    for (size_t k = 0; math_twins[k].name; k++) {
        struct random r = gpu_random(math_twins[k].name);
        for (uint32_t i = 0; i < a.n; i++)
            input(ptx_math_get_info(k), i * step + random_below(&r, (uint32_t)step), &a.x[i],
                  &a.y[i]);
        compare(&a, ptx_math_get_info(k), &math_twins[k]);
    }
    arrays_destroy(&a);
}

// The sum of the hashes of a row's results for every step-th input.
static uint64_t hash_of(const struct ptx_math_info *row, uint64_t step)
{
    char name[32];
    uint64_t n = ((UINT64_C(1) << 32) - 1) / step + 1, sum = 0;
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, sizeof sum);

    assert_non_null(buffer);
    snprintf(name, sizeof name, "hash_%s", row->name);
    const ptx_function *function = ptx_module_function(module, name);
    assert_non_null(function);
    CUdeviceptr at = ptx_buffer_address(buffer);
    struct ptx_arg args[] = { PTX_ARG(n), PTX_ARG(step), PTX_ARG(at) };
    const struct ptx_launch_params params = {
        .grid = { 4096 }, .stream = gpu.stream, .args = args, .arg_count = 3
    };
    assert_int_equal(ptx_buffer_upload(buffer, 0, &sum, sizeof sum, gpu.stream), PTX_OK);
    assert_int_equal(ptx_launch(function, &params), PTX_OK);
    assert_int_equal(ptx_buffer_download(buffer, 0, &sum, sizeof sum, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    return sum;
}

// The hashes of a sample of the results, and of all, are those of the plain C.
TEST(test_hashes)
{
    for (size_t k = 0; math_twins[k].name; k++) {
        const struct ptx_math_info *row = ptx_math_get_info(k);
        const uint64_t sample = hash_of(row, MATH_SAMPLE_STEP);
        if (sample != math_hashes[k].sample)
            fail_msg("%s: the hash of the sample is %016" PRIx64 ", not %016" PRIx64, row->name,
                     sample, math_hashes[k].sample);
    }
}

static void test_all_hashes(void **state)
{
    (void)state;
    for (size_t k = 0; math_twins[k].name; k++) {
        const struct ptx_math_info *row = ptx_math_get_info(k);
        const uint64_t all = hash_of(row, 1);
        printf("X(%s, 0x%016" PRIx64 ")\n", row->name, all);
        fflush(stdout);
        if (all != math_hashes[k].all)
            fail_msg("%s: the hash of all results is %016" PRIx64 ", not %016" PRIx64, row->name,
                     all, math_hashes[k].all);
    }
}

static int load(void **state)
{
    (void)state;
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
    math_kernels(b);
    math_hash_kernels(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fprintf(stderr, "%s\n", ptx_builder_error(b));
    module = text ? ptx_module_load(gpu.device, text, NULL) : NULL;
    ptx_builder_destroy(&b);
    return module ? 0 : -1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = { cmocka_unit_test(test_all_hashes) };
    gpu_open();
    const int failed = argc > 1 && !strcmp(argv[1], "hashes")
                           ? cmocka_run_group_tests_name("all results", all, load, NULL)
                           : tests_run(load, NULL);
    ptx_module_unload(&module);
    gpu_close();
    return failed;
}

// SPDX-License-Identifier: MIT
// The kernels on a GPU against the plain-C reference. Contracts C-SQSUM-001 (squared_sum),
// C-FUSEDCLIP-001 (clip_scale_reduce) and C-CLIP-001 (all three in a row).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "data.h"
#include "test.h"

struct suite_row {
    char name[80];
    void (*check)(ptx_type dtype);
    ptx_type dtype;
};

/// Every kernel in every type; then the sizes at which a kernel changes its method.
static const struct {
    void (*check)(ptx_type dtype);
    const ptx_kernel *kernel;
    const char *size;
} checks[] = {
#define ROW(kernel) { check_##kernel, &ptx_kernel_##kernel, "" },
    PTX_KERNELS(ROW)
#undef ROW
        { check_squared_sum_at_switch, &ptx_kernel_squared_sum, " of 2^22" },
    { check_gradient_clip_at_switch, &ptx_kernel_gradient_clip_from_device_scale, " of 2^18" },
};

enum { CHECKS = sizeof checks / sizeof *checks, MOST_ROWS = CHECKS * PTX_TYPE_COUNT };

static struct suite_row rows[MOST_ROWS];

/// The contract that a kernel's check covers; "" for most.
static const char *contract_of(const ptx_kernel *kernel)
{
    return kernel == &ptx_kernel_squared_sum         ? "C-SQSUM-001 "
           : kernel == &ptx_kernel_clip_scale_reduce ? "C-FUSEDCLIP-001 "
                                                     : "";
}

static size_t fill_rows(void)
{
    size_t count = 0;
    for (size_t k = 0; k < CHECKS; k++)
        for (int dtype = 0; dtype < PTX_TYPE_COUNT; dtype++) {
            if (!(checks[k].kernel->dtypes >> dtype & 1))
                continue;
            struct suite_row *row = &rows[count++];
            *row = (struct suite_row) { .check = checks[k].check, .dtype = (ptx_type)dtype };
            snprintf(row->name, sizeof row->name, "%s%s %s%s", contract_of(checks[k].kernel),
                     checks[k].kernel->name, ptx_type_name((ptx_type)dtype), checks[k].size);
        }
    return count;
}

static void test_row(void **state)
{
    const struct suite_row *row = *state;
    row->check(row->dtype);
}

static void test_beyond_32_bits(void **state)
{
    (void)state;
    check_beyond_32_bits();
}

static void require(ptx_status status)
{
    if (status != PTX_OK)
        fail_msg("%s", ptx_error_message());
}

static void load_default(const ptx_kernel *kernel, ptx_type dtype, struct gpu_kernel *loaded)
{
    gpu_kernel_load(kernel, &(struct ptx_kernel_spec) { .dtype = dtype }, gpu_target(), loaded);
}

/// Norm, scale and clipping on the device. The result is in x.
static void clip_on_device(ptx_type dtype, void *x, uint64_t n, float max_norm)
{
    struct gpu_kernel square, reduce, clip;
    size_t bytes = (size_t)n * ptx_type_bytes(dtype);
    uint64_t count = ref_partial_count(n);
    float eps = 0.0f;
    load_default(&ptx_kernel_squared_sum, dtype, &square);
    load_default(&ptx_kernel_clip_scale_reduce, PTX_F64, &reduce);
    load_default(&ptx_kernel_gradient_clip_from_device_scale, dtype, &clip);
    ptx_buffer *gradient = ptx_buffer_create(gpu.device, bytes);
    ptx_buffer *sums = ptx_buffer_create(gpu.device, (size_t)count * sizeof(double));
    ptx_buffer *record = ptx_buffer_create(gpu.device, 3 * sizeof(float));
    assert_true(gradient && sums && record);
    CUdeviceptr g = ptx_buffer_address(gradient), partials = ptx_buffer_address(sums);
    CUdeviceptr out = ptx_buffer_address(record);
    const struct ptx_arg square_args[] = { PTX_ARG(g), PTX_ARG(n), PTX_ARG(partials) };
    const struct ptx_arg reduce_args[] = { PTX_ARG(partials), PTX_ARG(count), PTX_ARG(max_norm),
                                           PTX_ARG(eps), PTX_ARG(out) };
    const struct ptx_arg clip_args[] = { PTX_ARG(g), PTX_ARG(n), PTX_ARG(out) };
    require(ptx_buffer_upload(gradient, 0, x, bytes, gpu.stream));
    require(gpu_launch(&square, n, square_args, 3));
    require(gpu_launch(&reduce, count, reduce_args, 5));
    require(gpu_launch(&clip, n, clip_args, 3));
    require(ptx_buffer_download(gradient, 0, x, bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    ptx_buffer_destroy(&record);
    ptx_buffer_destroy(&sums);
    ptx_buffer_destroy(&gradient);
    gpu_kernel_unload(&clip);
    gpu_kernel_unload(&reduce);
    gpu_kernel_unload(&square);
}

static double exact_norm(enum ref_type type, const void *x, uint64_t n)
{
    long double sum = 0;
    for (uint64_t i = 0; i < n; ++i) {
        long double value = (long double)ref_load(type, x, i);
        sum += value * value;
    }
    return (double)sqrtl(sum);
}

static void test_norm_after_clipping(void **state)
{
    (void)state;
    struct random r = gpu_random("C-CLIP-001");
    uint64_t n = gpu.max_size < 100003 ? gpu.max_size : 100003;
    ALLOCATED(double) *x = malloc(((size_t)n + 1) * sizeof *x);
    assert_non_null(x);
    for (int trial = 0; n > 0 && trial < 8; ++trial) {
        ptx_type dtype = trial & 1 ? PTX_F32 : PTX_F64;
        enum ref_type type = gpu_ref_type(dtype);
        data_fill(&r, type, DATA_PLAIN, x, n);
        double before = exact_norm(type, x, n);
        float max_norm = (float)(before * (0.1 + 0.3 * trial / 2));
        clip_on_device(dtype, x, n, max_norm);
        double after = exact_norm(type, x, n);
        assert_true(after <= (double)max_norm * (1.0 + 1e-6));
        assert_true(after >= fmin(before, (double)max_norm) * (1.0 - 1e-6));
    }
}

/// Arguments: `large`: only the sizes that take much of the device's memory; `1/4`: the first of
/// four parts, which have every fourth test each.
int main(int argc, char **argv)
{
    struct CMUnitTest tests[MOST_ROWS + 1];
    const struct CMUnitTest large[] = { { "more than 2^32 elements", test_beyond_32_bits, NULL,
                                          NULL, NULL } };
    const size_t all = fill_rows() + 1;
    size_t part = 1, parts = 1, count = 0;
    if (argc > 1 && sscanf(argv[1], "%zu/%zu", &part, &parts) == 2 && (part < 1 || part > parts))
        return 2;
    for (size_t i = part - 1; i < all; i += parts)
        tests[count++] = i + 1 < all
                             ? (struct CMUnitTest) { rows[i].name, test_row, NULL, NULL, &rows[i] }
                             : (struct CMUnitTest) { "C-CLIP-001 norm after clipping",
                                                     test_norm_after_clipping, NULL, NULL, NULL };
    gpu_open();
    int failed = argc > 1 && strcmp(argv[1], "large") == 0
                     ? cmocka_run_group_tests_name("large tensors", large, NULL, NULL)
                     : _cmocka_run_group_tests("kernels on the GPU", tests, count, NULL, NULL);
    gpu_close();
    return failed;
}

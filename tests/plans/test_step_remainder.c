// SPDX-License-Identifier: MIT
// Parameters with a remainder that others wrote: each of the 65,536 halves beside a sweep of
// remainders takes a step that changes nothing. The kernel is compared with the reference, and both
// with the formula in f64: between two neighbours in bf16 an f32 goes from one to the other.
#include <math.h>
#include <stdlib.h>

#include "plan_calls.h"
#include "reference/half.h"
#include "reference/step.h"
#include "test.h"

enum { HALVES = 65536, SWEEPS = 10, AT_RANDOM = SWEEPS - 1, PITCH = HALVES + 8 };

static const int16_t sweep[AT_RANDOM] = {
    INT16_MIN, INT16_MIN + 1, -0x100, -1, 0, 1, 0x100, INT16_MAX - 1, INT16_MAX,
};

// The arrays of all sweeps; the last sweep's begin at no multiple of 16 bytes.
struct arrays {
    uint16_t parameter[SWEEPS * PITCH];
    int16_t remainder[SWEEPS * PITCH];
    uint16_t gradient[SWEEPS * PITCH];
    float count;
};

static size_t place(size_t k)
{
    return k * PITCH + (k == AT_RANDOM);
}

// The size of a half in f64; infinity is where the next number would be.
static double size_of(uint32_t half)
{
    return half == 0x7f80 ? 0x1p128 : bf16_to_f64((uint16_t)half);
}

// What a finite half and its remainder represent.
static double value_of(uint16_t half, int32_t remainder)
{
    const uint32_t size = half & 0x7fff;
    const double here = size_of(size);
    double value = here;

    if (remainder > 0)
        value += remainder * 0x1p-16 * (size_of(size + 1) - here);
    else if (size > 0)
        value += remainder * 0x1p-16 * (here - size_of(size - 1));
    return half >> 15 ? -value : value;
}

static bool is_finite(uint16_t half)
{
    return (half & 0x7fff) < 0x7f80;
}

static void fill(struct arrays *a)
{
    struct random r = gpu_random("remainders");

    for (size_t k = 0; k < SWEEPS; k++)
        for (size_t half = 0; half < HALVES; half++) {
            const size_t i = place(k) + half;
            a->parameter[i] = (uint16_t)half;
            a->remainder[i] = k == AT_RANDOM ? (int16_t)random_below(&r, 65536) : sweep[k];
        }
}

// SGD with a learning rate of 0 leaves finite values as they are, and makes a NaN of others.
static void run(struct arrays *a)
{
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD };
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof *a);
    struct ptx_step_tensor tensors[SWEEPS];

    assert_non_null(memory);
    const CUdeviceptr base = ptx_buffer_address(memory);
    for (size_t k = 0; k < SWEEPS; k++) {
        const CUdeviceptr at = base + place(k) * sizeof *a->parameter;
        tensors[k] = (struct ptx_step_tensor) {
            .parameter = at + offsetof(struct arrays, parameter),
            .beside = at + offsetof(struct arrays, remainder),
            .gradient = at + offsetof(struct arrays, gradient),
            .step = base + offsetof(struct arrays, count),
            .count = HALVES,
            .dtype = PTX_BF16,
            .format = PTX_STEP_FORMAT_REMAINDER,
        };
    }
    OWNED(ptx_step_plan) *plan =
        made(ptx_step_plan_create(gpu.device, &(struct ptx_step_params) { .tensors = tensors,
                                                                          .tensor_count = SWEEPS,
                                                                          .groups = &group,
                                                                          .group_count = 1,
                                                                          .max_norm = INFINITY,
                                                                          .stream = gpu.stream }));
    require(ptx_buffer_upload(memory, 0, a, sizeof *a, gpu.stream));
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, a, sizeof *a, gpu.stream));
}

static void run_reference(struct arrays *a)
{
    for (size_t k = 0; k < SWEEPS; k++)
        ref_step(&(struct ref_step_tensor) { .rule = REF_SGD,
                                             .format = REF_REMAINDER,
                                             .parameter_type = REF_BF16,
                                             .gradient_type = REF_BF16,
                                             .parameter = a->parameter + place(k),
                                             .beside = a->remainder + place(k),
                                             .gradient = a->gradient + place(k),
                                             .count = HALVES },
                 1, 1, REF_GRADIENTS_RAW);
    a->count = 1;
}

static void check(uint16_t half, int16_t remainder, uint16_t got, int16_t low)
{
    bool right = got == 0x7fc0 && low == 0;

    if (is_finite(half)) {
        const double wanted = value_of(half, remainder);
        right = is_finite(got) && got >> 15 == half >> 15 && value_of(got, low) == wanted;
    }
    if (!right)
        fail_msg("0x%04x with remainder %d became 0x%04x with %d", half, remainder, got, low);
}

TEST(test_remainders)
{
    struct arrays *before = calloc(1, sizeof *before), *kernel = calloc(1, sizeof *kernel),
                  *reference = calloc(1, sizeof *reference);

    assert_true(before && kernel && reference);
    fill(before);
    *kernel = *reference = *before;
    run(kernel);
    run_reference(reference);
    for (size_t i = 0; i < SWEEPS * (size_t)PITCH; i++) {
        check(before->parameter[i], before->remainder[i], reference->parameter[i],
              reference->remainder[i]);
        check(before->parameter[i], before->remainder[i], kernel->parameter[i],
              kernel->remainder[i]);
    }
    assert_memory_equal(kernel, reference, sizeof *kernel);
    free(before);
    free(kernel);
    free(reference);
}

GPU_MAIN

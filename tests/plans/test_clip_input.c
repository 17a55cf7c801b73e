// SPDX-License-Identifier: MIT
// The input that a clip plan refuses, and the messages. Nothing is launched, and nothing stays
// allocated.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "plan_calls.h"

enum { COUNT = 1000 };

static struct gpu gpu;
static ptx_buffer *memory;
static CUdeviceptr base;

static struct ptx_clip_tensor tensors[3];
static struct ptx_clip_params params;

static int set_up(void **state)
{
    (void)state;
    for (unsigned t = 0; t < 3; ++t)
        tensors[t] = (struct ptx_clip_tensor) { .data = base + t * 4 * COUNT,
                                                .count = COUNT,
                                                .dtype = PTX_F32 };
    params = (struct ptx_clip_params) {
        .tensors = tensors, .tensor_count = 3, .max_norm = 1.0f, .stream = gpu.stream
    };
    return 0;
}

/// The thread's last error is of this call, and has these words.
static void expect_named(const char *call, const char *words)
{
    const char *message = ptx_error_message();
    const size_t length = strlen(call);
    expect_failure(PTX_ERROR_INVALID, words);
    if (strncmp(message, call, length) != 0 || strncmp(message + length, ": ", 2) != 0 ||
        strstr(message + length, "ptx_clip_"))
        fail_msg("\"%s\" does not name %s alone", message, call);
}

/// The device memory that is still used after a refused creation.
static size_t kept_by_refusal(const char *words)
{
    size_t before = 0, after = 0;
    require(ptx_device_memory(gpu.device, &before, NULL));
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (plan)
        fail_msg("not refused: %s", words);
    expect_named("ptx_clip_plan_create", words);
    require(ptx_device_memory(gpu.device, &after, NULL));
    return before - after;
}

/// Creation must be refused with these words; so must description and text, except for errors of
/// addresses.
static void refuse(const char *words, bool described)
{
    struct ptx_clip_description description;
    size_t kept = kept_by_refusal(words);
    // Other processes change the GPU's free memory, above all while they start. A leak shows in
    // each attempt.
    const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    for (int again = 0; kept && again < 300; ++again) {
        nanosleep(&pause, NULL);
        kept = kept_by_refusal(words);
    }
    assert_int_equal(kept, 0);
    if (!described)
        return;
    assert_int_equal(ptx_clip_describe(&params, &description), PTX_ERROR_INVALID);
    expect_named("ptx_clip_describe", words);
    assert_int_equal(ptx_clip_emit(NULL, &params), PTX_ERROR_INVALID);
    expect_named("ptx_clip_emit", words);
}

static void test_arguments(void **state)
{
    (void)state;
    assert_null(ptx_clip_plan_create(NULL, &params));
    expect_failure(PTX_ERROR_INVALID, "device is NULL");
    assert_null(ptx_clip_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "params is NULL");
    params.tensors = NULL;
    refuse("tensors is NULL", true);
    params.tensors = tensors;
    params.tensor_count = (size_t)PTX_CLIP_MAX_TENSORS + 1;
    refuse("a plan takes", true);
    params.tensor_count = 3;
    params.group_count = PTX_CLIP_MAX_TENSORS + 1;
    refuse("a plan takes", true);
}

static void test_scalars(void **state)
{
    (void)state;
    const float norms[] = { 1.0f, NAN };
    const struct ptx_loss_scale_params wrong = { .growth = 0.5f };
    params.max_norm = NAN;
    refuse("max_norm is nan", true);
    params.max_norm = -1.0f;
    refuse("max_norm is -1", true);
    params.max_norm = 0.0f;
    refuse("max_norm is 0, as where it is left out", true);
    params.group_count = 2;
    params.group_max_norms = norms;
    refuse("group_max_norms[1]", true);
    set_up(NULL);
    params.eps = INFINITY;
    refuse("eps is inf", true);
    set_up(NULL);
    params.nonfinite = (ptx_nonfinite)3;
    refuse("nonfinite is 3", true);
    set_up(NULL);
    params.loss_scale = -2.0f;
    refuse("loss_scale is -2", true);
    set_up(NULL);
    params.loss_scale_state = base + 2;
    refuse("loss_scale_state", true);
    set_up(NULL);
    params.update = &wrong;
    refuse("growth", true);
}

static void test_tensors(void **state)
{
    (void)state;
    tensors[1].dtype = PTX_S32;
    refuse("tensor 1: its dtype is s32", true);
    tensors[1].dtype = (ptx_type)99;
    refuse("tensor 1: its dtype is 99; it must be", true);
    tensors[1].dtype = PTX_NONE;
    refuse("tensor 1: its dtype is none; it must be", true);
    set_up(NULL);
    tensors[2].group = 2;
    params.group_count = 2;
    refuse("tensor 2: its group is 2; there are groups 0 to 1", true);
    set_up(NULL);
    tensors[0].count = UINT64_MAX / 4 + 2; // times 4 bytes would wrap
    refuse("tensor 0", true);
    tensors[0].count = PTX_CLIP_MAX_ELEMENTS;
    refuse("tensor 1 brings the elements to", true);
    set_up(NULL);
    tensors[1].weight = NAN;
    refuse("tensor 1: its weight is nan", true);
    tensors[1].weight = -1.0;
    refuse("tensor 1: its weight is -1", true);
    tensors[1].weight = 0.5;
    tensors[1].uncounted = true;
    refuse("tensor 1: uncounted", true);
}

static void test_addresses(void **state)
{
    (void)state;
    static float host[1 << 20];
    tensors[1].data = 0;
    refuse("tensor 1: its address is 0", false);
    tensors[1].data = base + 4 * COUNT + 2;
    refuse("not a multiple of its element's 4 bytes", false);
    set_up(NULL);
    tensors[2].data = base + 4 * COUNT + 4 * (COUNT - 1); // overlaps the last element of tensor 1
    refuse("tensors 1 and 2 overlap", false);
    tensors[2].data = base;
    refuse("tensors 0 and 2 overlap", false);
    set_up(NULL);
    tensors[2].count = COUNT + 1;
    refuse("its memory ends 4000 bytes after its address", false);
    set_up(NULL);
    tensors[0].data = (CUdeviceptr)(uintptr_t)host; // the GPU may know a page with this address
    refuse("tensor 0: ", false);
    set_up(NULL);
    // Large, because drivers keep the memory of small allocations.
    ptx_buffer *freed = ptx_buffer_create(gpu.device, (size_t)64 << 20);
    assert_non_null(freed);
    tensors[0].data = ptx_buffer_address(freed);
    ptx_buffer_destroy(&freed);
    refuse("tensor 0: the driver knows no memory at its address", false);
    tensors[0].count = 0; // an empty tensor may have any address
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    ptx_clip_plan_destroy(&plan);
}

/// Errors of calls name the call.
static void test_names_of_calls(void **state)
{
    (void)state;
    const struct ptx_loss_scale_state one = { 1, 0 };
    const CUstream s = gpu.stream;
#define REFUSED(name, ...)                                                                         \
    do {                                                                                           \
        assert_int_equal(ptx_clip_plan_##name(NULL, __VA_ARGS__), PTX_ERROR_INVALID);              \
        expect_named("ptx_clip_plan_" #name, "the plan is NULL");                                  \
    } while (0)
    REFUSED(run, s);
    REFUSED(norm_sq, s);
    REFUSED(finish, s);
    REFUSED(apply, s);
    REFUSED(read, 0, 1, NULL, NULL, s);
    REFUSED(set_max_norm, 0, 1, s);
    REFUSED(set_loss_scale, one, s);
    REFUSED(set_data, 0, 0, NULL, s);
    REFUSED(norm_sq_chunks, 0, 1, s);
    REFUSED(apply_chunks, 0, 1, s);
#undef REFUSED
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    assert_non_null(plan);
    assert_int_equal(ptx_clip_plan_set_max_norm(plan, 9, 1, s), PTX_ERROR_INVALID);
    expect_named("ptx_clip_plan_set_max_norm", "group is 9; the plan has groups 0 to 0");
    assert_int_equal(ptx_clip_plan_norm_sq_chunks(plan, 99, 1, s), PTX_ERROR_INVALID);
    expect_named("ptx_clip_plan_norm_sq_chunks", "1 chunk from 99 on");
    ptx_clip_plan_destroy(&plan);
}

/// A max_norm of 0 is refused, which was probably left out. A limit of 0 is set with
/// group_max_norms, or later. It makes every gradient 0.
static void test_max_norm_of_zero(void **state)
{
    (void)state;
    const float norms[] = { 0.0f };
    struct ptx_clip_description description;
    float clipped[3 * COUNT];
    params.max_norm = 0.0f;
    refuse("max_norm is 0, as where it is left out", true);
    params.group_max_norms = norms; // has the norm that counts
    require(ptx_clip_describe(&params, &description));
    require(ptx_clip_emit(NULL, &params));
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    require(ptx_clip_plan_run(plan, gpu.stream));
    require(ptx_buffer_download(memory, 0, clipped, sizeof clipped, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    for (unsigned k = 0; k < 3 * COUNT; k++)
        assert_true(clipped[k] == 0.0f);
    require(ptx_clip_plan_set_max_norm(plan, 0, INFINITY, gpu.stream));
    require(ptx_clip_plan_set_max_norm(plan, 0, 0.0f, gpu.stream));
    ptx_clip_plan_destroy(&plan);
    require(ptx_buffer_fill(memory, 0, 0x3f, sizeof clipped, gpu.stream));
}

/// The state of the loss scale must be 8 bytes of the device's memory, outside all tensors.
static void test_loss_scale_state(void **state)
{
    (void)state;
    // Large, because drivers keep the memory of small allocations.
    ptx_buffer *states = ptx_buffer_create(gpu.device, (size_t)64 << 20);
    assert_non_null(states);
    const CUdeviceptr apart = ptx_buffer_address(states);
    params.loss_scale_state = 0x1234;
    refuse("loss_scale_state: the driver knows no memory at its address 0x1234", false);
    params.loss_scale_state = base + 4 * COUNT + 16;
    refuse("tensor 1 and loss_scale_state overlap", false);
    params.loss_scale_state = apart + ((size_t)64 << 20) - 4;
    refuse("loss_scale_state: 2 elements are 8 bytes, and its memory ends 4 bytes after", false);
    params.loss_scale_state = apart + 4;
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());

    const CUdeviceptr onto = apart + 8, beside = apart + 12, back = tensors[1].data;
    assert_int_equal(ptx_clip_plan_set_data(plan, 1, 1, &onto, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 1 and loss_scale_state overlap");
    require(ptx_clip_plan_set_data(plan, 1, 1, &beside, gpu.stream));
    require(ptx_clip_plan_set_data(plan, 1, 1, &back, gpu.stream));
    ptx_buffer_destroy(&states);
    assert_int_equal(ptx_clip_plan_set_data(plan, 1, 1, &back, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "loss_scale_state: the driver knows no memory");
    ptx_clip_plan_destroy(&plan);
}

/// The scalars that a plan reads or writes must be in the device's memory and outside all tensors.
/// The one that it writes must be apart from the others.
static void test_scalars_at(void **state)
{
    (void)state;
    const struct {
        CUdeviceptr *at;
        const char *name;
    } all[] = { { &params.max_norms_at, "max_norms_at" },
                { &params.loss_scale_at, "loss_scale_at" },
                { &params.found_inf_at, "found_inf_at" },
                { &params.found_inf_to, "found_inf_to" } };
    ptx_buffer *scalars = ptx_buffer_create(gpu.device, 64);
    assert_non_null(scalars);
    const CUdeviceptr apart = ptx_buffer_address(scalars);
    char words[96];
    for (unsigned k = 0; k < 4; k++) {
        *all[k].at = apart + 1;
        snprintf(words, sizeof words, "%s is 0x%llx; it must be a multiple of 4", all[k].name,
                 (unsigned long long)*all[k].at);
        refuse(words, true);
        *all[k].at = 0x1234;
        snprintf(words, sizeof words, "%s: the driver knows no memory at", all[k].name);
        refuse(words, false);
        *all[k].at = base + 4 * COUNT + 16;
        snprintf(words, sizeof words, "tensor 1 and %s overlap", all[k].name);
        refuse(words, false);
        *all[k].at = apart + 4 * k;
    }
    params.group_count = 2; // so max_norms_at reaches into loss_scale_at: both are only read
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    ptx_clip_plan_destroy(&plan);
    params.max_norms_at = params.found_inf_to - 4;
    refuse("max_norms_at and found_inf_to overlap", false);
    params.max_norms_at = apart + 60;
    refuse("max_norms_at: 2 elements are 8 bytes, and its memory ends 4 bytes after", false);
    params.max_norms_at = apart + 16;
    params.found_inf_at = params.found_inf_to;
    refuse("found_inf_at and found_inf_to overlap", false);
    params.found_inf_at = apart + 24;
    tensors[1].count = 1;
    plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    for (unsigned k = 0; k < 4; k++) {
        assert_int_equal(ptx_clip_plan_set_data(plan, 1, 1, all[k].at, gpu.stream),
                         PTX_ERROR_INVALID);
        snprintf(words, sizeof words, "tensor 1 and %s overlap", all[k].name);
        expect_failure(PTX_ERROR_INVALID, words);
    }
    ptx_clip_plan_destroy(&plan);
    params.loss_scale_state = apart + 32;
    refuse("loss_scale_at is given, which is only read, and loss_scale_state too", true);
    ptx_buffer_destroy(&scalars);
}

/// A tensor must not overlap the plan's tables, which may be in the memory of a freed tensor.
static void test_own_memory(void **state)
{
    (void)state;
    tensors[1].count = 1;
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    const CUdeviceptr own[] = { ptx_clip_plan_get_info(plan)->records,
                                ptx_clip_plan_get_info(plan)->sums };
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(ptx_clip_plan_set_data(plan, 1, 1, &own[k], gpu.stream),
                         PTX_ERROR_INVALID);
        expect_failure(PTX_ERROR_INVALID, "tensor 1 overlaps the plan's own memory");
    }
    ptx_clip_plan_destroy(&plan);
}

static void test_calls(void **state)
{
    (void)state;
    struct ptx_clip_record record;
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params), *none = NULL;
    if (!plan)
        fail_msg("%s", ptx_error_message());
    assert_int_equal(ptx_clip_plan_run(NULL, gpu.stream), PTX_ERROR_INVALID);
    assert_int_equal(ptx_clip_plan_set_max_norm(plan, 1, 1.0f, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "group is 1; the plan has groups 0 to 0");
    assert_int_equal(ptx_clip_plan_set_max_norm(plan, 0, NAN, gpu.stream), PTX_ERROR_INVALID);
    const struct ptx_loss_scale_state zero = { .scale = 0.0f };
    assert_int_equal(ptx_clip_plan_set_loss_scale(plan, zero, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "loss_scale is 0");
    assert_int_equal(ptx_clip_plan_read(plan, 0, 2, &record, NULL, gpu.stream), PTX_ERROR_INVALID);
    const CUdeviceptr moved[] = { base, base };
    assert_int_equal(ptx_clip_plan_set_data(plan, 2, 2, moved, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "2 tensors from 2 on: the plan has 3");
    assert_int_equal(ptx_clip_plan_set_data(plan, 0, 2, moved, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensors 0 and 1 overlap");
    assert_int_equal(ptx_clip_plan_set_data(plan, 0, 1, NULL, gpu.stream), PTX_ERROR_INVALID);
    const uint64_t chunks = ptx_clip_plan_get_info(plan)->chunks;
    assert_int_equal(ptx_clip_plan_apply_chunks(plan, chunks, 1, gpu.stream), PTX_ERROR_INVALID);
    assert_int_equal(ptx_clip_plan_norm_sq_chunks(plan, 1, UINT64_MAX, gpu.stream),
                     PTX_ERROR_INVALID);
    assert_null(ptx_clip_plan_get_info(NULL));
    ptx_clip_plan_destroy(&none);
    ptx_clip_plan_destroy(&plan);
}

static void test_cold_capture(void **state)
{
    (void)state;
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    assert_null(ptx_clip_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_CAPTURE, "before the capture begins");
    ptx_graph *graph = end_capture(&gpu, gpu.stream); // the capture goes on, and is empty
    ptx_graph_destroy(&graph);
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    require(ptx_clip_plan_run(plan, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    ptx_clip_plan_destroy(&plan);
}

/// A call that returns the fault of a plan's kernel names itself, and includes the emulator's
/// report. This is the last test, because the context is lost.
static void test_fault(void **state)
{
    (void)state;
    ptx_operations *operations = ptx_operations_create(gpu.device, NULL);
    assert_non_null(operations);
    tensors[1].data = 16; // no such memory
    params.any_address = true;
    ptx_clip_plan *plan = ptx_clip_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    require(ptx_clip_plan_run(plan, gpu.stream));
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER,
                   "ptx_stream_synchronize: an earlier kernel failed: CUDA_ERROR_");
    if (strstr(ptx_device_get_info(gpu.device)->name, "emulator"))
        expect_failure(PTX_ERROR_DRIVER, "(700), an illegal memory access was encountered: out of "
                                         "bounds: load of 16 bytes at 0x10");
    assert_int_equal(ptx_clip_plan_run(plan, gpu.stream), PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER, "ptx_clip_plan_run: an earlier kernel failed: CUDA_ERROR_");
    assert_int_equal(
        ptx_loss_scale_update_prepare(operations, &(struct ptx_loss_scale_update_params) { 0 }),
        PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER, "ptx_loss_scale_update_prepare: an earlier kernel failed");
    assert_null(ptx_clip_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_DRIVER, "ptx_clip_plan_create: an earlier kernel failed");
    ptx_clip_plan_destroy(&plan);
    ptx_operations_destroy(&operations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_arguments, set_up),
        cmocka_unit_test_setup(test_scalars, set_up),
        cmocka_unit_test_setup(test_tensors, set_up),
        cmocka_unit_test_setup(test_addresses, set_up),
        cmocka_unit_test_setup(test_names_of_calls, set_up),
        cmocka_unit_test_setup(test_max_norm_of_zero, set_up),
        cmocka_unit_test_setup(test_loss_scale_state, set_up),
        cmocka_unit_test_setup(test_scalars_at, set_up),
        cmocka_unit_test_setup(test_own_memory, set_up),
        cmocka_unit_test_setup(test_calls, set_up),
        cmocka_unit_test_setup(test_cold_capture, set_up),
        cmocka_unit_test_setup(test_fault, set_up),
    };
    gpu_open(&gpu);
    memory = ptx_buffer_create(gpu.device, 3 * 4 * COUNT);
    if (!memory) {
        fprintf(stderr, "%s\n", ptx_error_message());
        return 1;
    }
    base = ptx_buffer_address(memory);
    if (ptx_buffer_fill(memory, 0, 0x3f, 3 * 4 * COUNT, gpu.stream)) // each is 0.747
        return 1;
    int failed = cmocka_run_group_tests_name("clip plans: bad input", tests, NULL, NULL);
    ptx_buffer_destroy(&memory);
    gpu_close(&gpu);
    return failed;
}

// SPDX-License-Identifier: MIT
// The addresses and calls that a step plan refuses, and the messages. A refused call does nothing.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blocking_stream.h"
#include "plan_calls.h"

// The last tensor has 8-bit states in two blocks.
enum { TENSORS = 4, COUNT = 100, LAST_COUNT = 300, ROOM = 1024, SCALARS = 7 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, ABSMAX = STATE + 2, STEP = ABSMAX + 2, EMA, ARRAYS };
enum { BYTES = (TENSORS * ARRAYS + SCALARS) * ROOM };

static struct gpu gpu;
static ptx_buffer *memory;
static CUdeviceptr base;
static struct ptx_step_tensor tensors[TENSORS];
static struct ptx_step_group group;
static struct ptx_step_params params;

static const unsigned element_bytes[TENSORS][ARRAYS] = {
    { 4, 4, 0, 4, 4, 0, 0, 4, 4 },
    { 2, 4, 4, 4, 4, 0, 0, 4 },
    { 2, 2, 2, 4, 4, 0, 0, 4 },
    { 2, 2, 0, 1, 1, 4, 4, 4, 2 },
};

static const char *const fields[TENSORS][ARRAYS] = {
    { "tensor 0's parameter", "tensor 0's gradient", NULL, "tensor 0's state[0]",
      "tensor 0's state[1]", NULL, NULL, "tensor 0's step", "tensor 0's ema" },
    { "tensor 1's parameter", "tensor 1's gradient", "tensor 1's master (beside)",
      "tensor 1's state[0]", "tensor 1's state[1]", NULL, NULL, "tensor 1's step" },
    { "tensor 2's parameter", "tensor 2's gradient", "tensor 2's remainder (beside)",
      "tensor 2's state[0]", "tensor 2's state[1]", NULL, NULL, "tensor 2's step" },
    { "tensor 3's parameter", "tensor 3's gradient", NULL, "tensor 3's state[0]",
      "tensor 3's state[1]", "tensor 3's absmax[0]", "tensor 3's absmax[1]", "tensor 3's step",
      "tensor 3's ema" },
};

static CUdeviceptr place(unsigned tensor, unsigned array)
{
    return base + (tensor * ARRAYS + array) * (CUdeviceptr)ROOM;
}

static CUdeviceptr *address(unsigned tensor, unsigned array)
{
    struct ptx_step_tensor *t = &tensors[tensor];
    CUdeviceptr *const all[ARRAYS] = { &t->parameter, &t->gradient, &t->beside,
                                       &t->state[0],  &t->state[1], &t->absmax[0],
                                       &t->absmax[1], &t->step,     &t->ema };
    return all[array];
}

static int set_up(void **state)
{
    static const ptx_step_format formats[TENSORS] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_MASTER,
                                                      PTX_STEP_FORMAT_REMAINDER,
                                                      PTX_STEP_FORMAT_STATE_8BIT };
    (void)state;
    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t] = (struct ptx_step_tensor) {
            .count = t == TENSORS - 1 ? LAST_COUNT : COUNT,
            .dtype = t ? PTX_BF16 : PTX_F32,
            .gradient_dtype = t == 1 ? PTX_F32 : PTX_NONE,
            .format = formats[t],
            .ema_dtype = t == 0   ? PTX_F32
                         : t == 3 ? PTX_BF16
                                  : PTX_NONE,
        };
        for (unsigned a = 0; a < ARRAYS; a++)
            if (element_bytes[t][a])
                *address(t, a) = place(t, a);
    }
    group = (struct ptx_step_group) { .hyper = {
                                          .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 } };
    params = (struct ptx_step_params) { .tensors = tensors,
                                        .tensor_count = TENSORS,
                                        .groups = &group,
                                        .group_count = 1,
                                        .max_norm = 1.0f,
                                        .stream = gpu.stream };
    require(ptx_buffer_fill(memory, 0, 0, BYTES, gpu.stream));
    return 0;
}

static ptx_step_plan *create(void)
{
    ptx_step_plan *plan = ptx_step_plan_create(gpu.device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    return plan;
}

static void refuse(const char *name, const char *words)
{
    if (ptx_step_plan_create(gpu.device, &params))
        fail_msg("not refused: %s, %s", name, words);
    assert_ptr_equal(strstr(ptx_error_message(), "ptx_"),
                     strstr(ptx_error_message(), "ptx_step_plan_create: "));
    expect_failure(PTX_ERROR_INVALID, name);
    expect_failure(PTX_ERROR_INVALID, words);
}

// Both creation and set_addresses() refuse `tensors`.
static void refuse_everywhere(ptx_step_plan *plan, const char *name, const char *words)
{
    refuse(name, words);
    if (!ptx_step_plan_set_addresses(plan, 0, TENSORS, tensors, gpu.stream))
        fail_msg("not refused by ptx_step_plan_set_addresses: %s, %s", name, words);
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_set_addresses: ");
    expect_failure(PTX_ERROR_INVALID, name);
    expect_failure(PTX_ERROR_INVALID, words);
}

// Only creation, for the address of a step count, which does not change.
static void refuse_array(ptx_step_plan *plan, unsigned t, unsigned a, CUdeviceptr at,
                         const char *words)
{
    const CUdeviceptr was = *address(t, a);

    *address(t, a) = at;
    if (a == STEP)
        refuse(fields[t][a], words);
    else
        refuse_everywhere(plan, fields[t][a], words);
    *address(t, a) = was;
}

// Each array of each tensor: NULL, misaligned, unknown, and too short.
static void test_each_array(void **state)
{
    (void)state;
    ptx_step_plan *plan = create();
    for (unsigned t = 0; t < TENSORS; t++) {
        for (unsigned a = 0; a < ARRAYS; a++) {
            const unsigned bytes = element_bytes[t][a];
            if (bytes == 0)
                continue;
            if (a != GRADIENT)
                refuse_array(plan, t, a, 0, ": its address is 0");
            if (bytes > 1)
                refuse_array(plan, t, a, place(t, a) + bytes / 2,
                             bytes == 2 ? " is not a multiple of its element's 2 bytes"
                                        : " is not a multiple of its element's 4 bytes");
            refuse_array(plan, t, a, 0x1230, ": the driver knows no memory at its address 0x1230");
            if (a != STEP)
                refuse_array(plan, t, a, base + BYTES - bytes, "and its memory ends");
        }
    }
    require(ptx_step_plan_run(plan, gpu.stream)); // unchanged
    ptx_step_plan_destroy(&plan);
}

// Each array with the address of each other array: the message names both. Only step counts may be
// shared.
static void test_overlaps(void **state)
{
    (void)state;
    ptx_step_plan *plan = create();
    for (unsigned one = 0; one < TENSORS * ARRAYS; one++) {
        for (unsigned other = 0; other < TENSORS * ARRAYS; other++) {
            const unsigned t = one / ARRAYS, a = one % ARRAYS;
            const unsigned u = other / ARRAYS, c = other % ARRAYS;
            if (one == other || !fields[t][a] || !fields[u][c] || (a == STEP && c == STEP))
                continue;
            refuse_array(plan, t, a, place(u, c), " overlap at 0x");
            expect_failure(PTX_ERROR_INVALID, fields[u][c]);
        }
    }
    ptx_step_plan_destroy(&plan);
    tensors[1].step = tensors[2].step = tensors[0].step;
    plan = create();
    ptx_step_plan_destroy(&plan);
    tensors[1].step += 2;
    refuse("tensor 1's step", "is not a multiple");
}

// An array must not overlap the plan's results.
static void test_own_memory(void **state)
{
    (void)state;
    tensors[2].count = 1;
    ptx_step_plan *plan = create();
    const CUdeviceptr own[] = { ptx_step_plan_get_info(plan)->records,
                                ptx_step_plan_get_info(plan)->sums,
                                ptx_step_plan_get_info(plan)->summary };
    for (unsigned k = 0; k < 3; k++) {
        struct ptx_step_tensor moved = tensors[2];
        moved.gradient = own[k];
        assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &moved, gpu.stream),
                         PTX_ERROR_INVALID);
        expect_failure(PTX_ERROR_INVALID, "tensor 2's gradient");
        expect_failure(PTX_ERROR_INVALID, "the plan's own memory overlap");
    }
    ptx_step_plan_destroy(&plan);
}

// Creation refuses a max_norm of 0, which was probably left out. group_max_norms may have a 0.
static void test_max_norm_of_zero(void **state)
{
    (void)state;
    const float zero = 0.0f;

    params.max_norm = 0.0f;
    refuse("max_norm is 0, as where it is left out", "group_max_norms");
    params.group_max_norms = &zero;
    ptx_step_plan *plan = create();
    ptx_step_plan_destroy(&plan);
}

// The scalars that groups and the plan read from the caller's memory.
static void test_scalars(void **state)
{
    (void)state;
    const struct {
        CUdeviceptr *at;
        const char *name;
    } scalars[SCALARS] = { { &group.hyper_at, "hyper_at" },
                           { &group.lr_at, "lr_at" },
                           { &params.max_norms_at, "max_norms_at" },
                           { &params.found_inf_at, "found_inf_at" },
                           { &params.found_inf_to, "found_inf_to" },
                           { &params.loss_scale_at, "loss_scale_at" },
                           { &params.loss_scale_state, "loss_scale_state" } };
    const CUdeviceptr apart = place(TENSORS, 0);

    for (unsigned k = 0; k < SCALARS; k++) {
        if (scalars[k].at == &params.loss_scale_state) // one of these two
            params.loss_scale_at = 0;
        *scalars[k].at = 0x1230;
        refuse(scalars[k].name, ": the driver knows no memory at its address 0x1230");
        *scalars[k].at = place(1, STATE);
        refuse(scalars[k].name, "tensor 1's state[0] and ");
        *scalars[k].at = place(1, STEP);
        refuse(scalars[k].name, "tensor 1's step and ");
        *scalars[k].at = apart + 2;
        refuse(scalars[k].name, "multiple");
        *scalars[k].at = apart + k * ROOM;
    }
    group.hyper_at = base + BYTES - 8;
    refuse("hyper_at", "8 elements are 64 bytes, and its memory ends 8 bytes after");
    group.hyper_at = apart;
    params.loss_scale_state = group.lr_at;
    refuse("lr_at", "loss_scale_state overlap");
    params.loss_scale_state = apart + (SCALARS - 1) * ROOM;
    params.found_inf_to = params.found_inf_at;
    refuse("found_inf_at", "found_inf_to overlap");
    params.found_inf_to = params.loss_scale_state + 4;
    refuse("loss_scale_state", "found_inf_to overlap");
    params.found_inf_to = base + BYTES - 4;
    params.max_norms_at = params.found_inf_to - 4;
    params.norm_group_count = 2;
    refuse("max_norms_at", "found_inf_to overlap");
    params.max_norms_at = params.found_inf_to;
    params.found_inf_to = 0;
    refuse("max_norms_at", "2 elements are 8 bytes, and its memory ends 4 bytes after");
    params.norm_group_count = 2;
    params.max_norms_at -= 4;
    params.sum_rows = 3;
    params.sums_at = 0x1238;
    refuse("sums_at", ": the driver knows no memory at its address 0x1238");
    params.sums_at = base + BYTES - 40;
    refuse("sums_at", "6 elements are 48 bytes, and its memory ends 40 bytes after");
    params.sums_at -= 8;
    refuse("sums_at", "max_norms_at overlap");
    params.sums_at = 0;
    params.sum_rows = 0;
    params.max_norms_at += 4;
    params.norm_group_count = 0; // the tensors decide
    tensors[2].count = 1;
    struct ptx_step_tensor onto = tensors[2];
    ptx_step_plan *plan = create();
    onto.gradient = params.max_norms_at + 2;
    assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &onto, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 2's gradient and max_norms_at overlap");
    assert_int_equal(ptx_step_plan_set_gradients(plan, 2, 1, &onto.gradient, gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 2's gradient and max_norms_at overlap");
    assert_int_equal(ptx_step_plan_set_hyper(plan, 0, &group.hyper, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "the scalars of group 0 are the caller's");
    ptx_step_plan_destroy(&plan);
}

// ---- calls --------------------------------------------------------------------------------------

enum { CALLS = 10 };

// Every call that uses a stream.
static void call_all(ptx_step_plan *plan, CUstream stream, ptx_status statuses[CALLS])
{
    const struct ptx_loss_scale_state scale = { .scale = 1.0f };
    struct ptx_clip_summary summary;
    const ptx_status all[CALLS] = {
        ptx_step_plan_run(plan, stream),
        ptx_step_plan_norm_sq(plan, stream),
        ptx_step_plan_finish(plan, stream),
        ptx_step_plan_step(plan, stream),
        ptx_step_plan_read(plan, 0, 0, NULL, &summary, stream),
        ptx_step_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, 1.0f, stream),
        ptx_step_plan_set_loss_scale(plan, scale, stream),
        ptx_step_plan_set_hyper(plan, 0, &group.hyper, stream),
        ptx_step_plan_set_addresses(plan, 0, 1, tensors, stream),
        ptx_step_plan_set_gradients(plan, 0, 1, &tensors[0].gradient, stream),
    };
    memcpy(statuses, all, sizeof all);
}

// Scalars that are only read may be one; what is written overlaps none of them, wherever it lies.
static void test_shared_scalars(void **state)
{
    (void)state;
    const CUdeviceptr apart = place(TENSORS, 0);
    CUdeviceptr *const read[] = { &group.lr_at, &params.max_norms_at, &params.found_inf_at,
                                  &params.loss_scale_at };

    group.hyper_at = apart;
    for (unsigned k = 0; k < 4; k++)
        *read[k] = apart + 4 * (k / 2);
    ptx_step_plan *plan = create();
    ptx_step_plan_destroy(&plan);
    for (unsigned k = 0; k < 16; k++) {
        params.found_inf_to = apart + 4 * k;
        refuse("found_inf_to", "overlap at 0x");
        if (k > 1)
            refuse("group 0's hyper_at", "overlap");
    }
    params.found_inf_to = apart + 64;
    plan = create();
    ptx_step_plan_destroy(&plan);
}

// The message names the group, and the function that was called.
static void test_names_in_messages(void **state)
{
    (void)state;
    const struct ptx_loss_scale_params shrinks = { .growth = 0.5f };
    struct ptx_step_group groups[2] = { group, group };

    params.update = &shrinks;
    refuse("ptx_step_plan_create: update.growth is 0.5", "above 1");
    params.update = NULL;
    params.groups = groups;
    params.group_count = 2;
    groups[1].lr_at = 0x1230;
    refuse("group 1's lr_at: the driver knows no memory", "freed");
    groups[1].lr_at = 0;
    groups[1].hyper_at = 0x1230;
    refuse("group 1's hyper_at: the driver knows no memory", "freed");
    assert_int_equal(ptx_step_plan_set_hyper(NULL, 0, &group.hyper, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_set_hyper: the plan is NULL");
    assert_int_equal(ptx_step_plan_set_gradients(NULL, 0, 0, NULL, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_set_gradients: the plan is NULL");
}

// If the memory of a tensor that stays was freed, the message says what to do.
static void test_freed_memory(void **state)
{
    (void)state;
    ptx_buffer *own = ptx_buffer_create(gpu.device, 4 * COUNT);
    const CUdeviceptr before = tensors[0].gradient;

    assert_non_null(own);
    tensors[0].gradient = ptx_buffer_address(own);
    ptx_step_plan *plan = create();
    ptx_buffer_destroy(&own);
    assert_int_equal(ptx_step_plan_set_gradients(plan, 1, 1, &tensors[1].gradient, gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 0's gradient: the driver knows no memory");
    expect_failure(PTX_ERROR_INVALID, "move it in the same call");
    assert_int_equal(ptx_step_plan_set_addresses(plan, 1, 1, &tensors[1], gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "move it in the same call");
    const CUdeviceptr wild = 0x1230;
    assert_int_equal(ptx_step_plan_set_gradients(plan, 0, 1, &wild, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "it was freed, or is the host's");
    require(ptx_step_plan_set_gradients(plan, 0, 1, &before, gpu.stream));
    ptx_step_plan_destroy(&plan);
}

static void test_no_plan(void **state)
{
    (void)state;
    ptx_step_plan *none = NULL;
    ptx_status statuses[CALLS];

    assert_null(ptx_step_plan_create(NULL, &params));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: the device is NULL");
    assert_null(ptx_step_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: params is NULL");
    call_all(NULL, gpu.stream, statuses);
    for (unsigned k = 0; k < CALLS; k++)
        if (statuses[k] != PTX_ERROR_INVALID)
            fail_msg("call %u: %s", k, ptx_status_name(statuses[k]));
    expect_failure(PTX_ERROR_INVALID, "the plan is NULL");
    assert_int_equal(ptx_step_plan_run(NULL, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_run: the plan is NULL");
    assert_null(ptx_step_plan_get_info(NULL));
    ptx_step_plan_destroy(&none);
    ptx_step_plan_destroy(NULL);
}

// Creation on a stream under capture is refused; the capture continues.
static void test_cold_capture(void **state)
{
    (void)state;
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    assert_null(ptx_step_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_CAPTURE, "create the step plan before the capture begins");
    ptx_graph *graph = end_capture(&gpu, gpu.stream);
    assert_int_equal(ptx_graph_get_info(graph)->nodes, 0);
    ptx_graph_destroy(&graph);
}

// Work on the legacy default stream would invalidate the capture of a blocking stream.
static void test_capture_of_a_blocking_stream(void **state)
{
    (void)state;
    CUstream blocking = create_blocking_stream(gpu.device);
    ptx_step_plan *plan = create();
    ptx_status statuses[CALLS];
    assert_non_null(blocking);
    require(ptx_step_plan_run(plan, gpu.stream));
    require(ptx_capture_begin(gpu.device, blocking, PTX_CAPTURE_RELAXED));
    params.stream = NULL;
    assert_null(ptx_step_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_CAPTURE, "is being captured");
    call_all(plan, NULL, statuses);
    for (unsigned k = 0; k < CALLS; k++)
        if (statuses[k] != PTX_ERROR_CAPTURE)
            fail_msg("call %u: %s", k, ptx_status_name(statuses[k]));
    expect_failure(PTX_ERROR_CAPTURE, "use another stream");
    require(ptx_step_plan_run(plan, blocking));
    ptx_graph *graph = end_capture(&gpu, blocking);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 3);
    ptx_graph_destroy(&graph);
    ptx_step_plan_destroy(&plan);
    ptx_stream_destroy(gpu.device, &blocking);
}

static float count_of(unsigned t)
{
    float count;
    require(ptx_buffer_download(memory, place(t, STEP) - base, &count, sizeof count, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    return count;
}

// The addresses of a tensor without elements are not used, where it has none or all of them.
static void test_tensors_without_elements(void **state)
{
    (void)state;
    for (unsigned empty = 1; empty <= TENSORS; empty += TENSORS - 1) {
        for (unsigned t = 0; t < empty; t++) {
            tensors[t].count = 0;
            for (unsigned a = 0; a < ARRAYS; a++)
                *address(t, a) = 0;
        }
        ptx_step_plan *plan = create();
        require(ptx_step_plan_run(plan, gpu.stream));
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
        for (unsigned t = 1; t < TENSORS; t++)
            assert_true(count_of(t) == 1.0f);
        ptx_step_plan_destroy(&plan);
    }
}

// Records that do not exist: the message names the call, the first record and the number.
static void test_records_that_are_not(void **state)
{
    (void)state;
    ptx_step_plan *plan = create();
    struct ptx_clip_record records[3];

    assert_int_equal(ptx_step_plan_read(plan, 1, 2, records, NULL, gpu.stream), PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "2 records from 1 on: the plan has 1 group");
    ptx_step_plan_destroy(&plan);
}

// ---- threads ------------------------------------------------------------------------------------

enum { RUNS = 200 };

struct runner {
    ptx_step_plan *plan;
    atomic_int *ready;
    int taken, refused, wrong;
};

static void *run_often(void *argument)
{
    struct runner *r = argument;

    atomic_fetch_add(r->ready, 1);
    while (atomic_load(r->ready) < 2)
        ;
    for (int k = 0; k < RUNS; k++) {
        const ptx_status status = ptx_step_plan_run(r->plan, gpu.stream);
        r->taken += status == PTX_OK;
        if (status == PTX_OK)
            continue;
        if (status == PTX_ERROR_INVALID && strstr(ptx_error_message(), "another thread is using"))
            r->refused++;
        else
            r->wrong++;
    }
    return NULL;
}

// Two threads use one plan: one continues, the other is refused. Each step that was not refused
// counts once.
static void test_two_threads(void **state)
{
    (void)state;
    atomic_int ready = 0;
    ptx_step_plan *plan = create();
    struct runner runners[2] = { { .plan = plan, .ready = &ready },
                                 { .plan = plan, .ready = &ready } };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_often, &runners[0]), 0);
    run_often(&runners[1]);
    pthread_join(thread, NULL);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(runners[k].wrong, 0);
        assert_int_equal(runners[k].taken + runners[k].refused, RUNS);
    }
    assert_true(count_of(2) == (float)(runners[0].taken + runners[1].taken));
    ptx_step_plan_destroy(&plan);
}

// A plan keeps its device open.
static void test_device_closed_first(void **state)
{
    (void)state;
    ptx_device *device = ptx_device_open(NULL);
    assert_non_null(device);
    ptx_step_plan *plan = ptx_step_plan_create(device, &params);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    ptx_device_close(&device);
    require(ptx_step_plan_run(plan, gpu.stream));
    assert_true(count_of(0) == 1.0f);
    ptx_step_plan_destroy(&plan);
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_array, set_up),
        cmocka_unit_test_setup(test_overlaps, set_up),
        cmocka_unit_test_setup(test_own_memory, set_up),
        cmocka_unit_test_setup(test_max_norm_of_zero, set_up),
        cmocka_unit_test_setup(test_scalars, set_up),
        cmocka_unit_test_setup(test_shared_scalars, set_up),
        cmocka_unit_test_setup(test_names_in_messages, set_up),
        cmocka_unit_test_setup(test_freed_memory, set_up),
        cmocka_unit_test_setup(test_no_plan, set_up),
        cmocka_unit_test_setup(test_cold_capture, set_up),
        cmocka_unit_test_setup(test_capture_of_a_blocking_stream, set_up),
        cmocka_unit_test_setup(test_tensors_without_elements, set_up),
        cmocka_unit_test_setup(test_records_that_are_not, set_up),
        cmocka_unit_test_setup(test_two_threads, set_up),
        cmocka_unit_test_setup(test_device_closed_first, set_up),
    };
    gpu_open(&gpu);
    memory = ptx_buffer_create(gpu.device, BYTES);
    if (!memory) {
        fprintf(stderr, "%s\n", ptx_error_message());
        return 1;
    }
    base = ptx_buffer_address(memory);
    const int failed = cmocka_run_group_tests_name("step plans: bad input", tests, NULL, NULL);
    ptx_buffer_destroy(&memory);
    gpu_close(&gpu);
    return failed;
}

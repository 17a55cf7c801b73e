// SPDX-License-Identifier: MIT
// Creating and running a clip plan with each driver call and each allocation in it failing once:
// the error is reported, nothing stays behind, and the next attempt works.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "emulator_faults.h"
#include "failing_allocations.h"

#include <ptxgen/plans.h>

enum { TENSORS = 5, COUNT = 100 };

struct scene {
    ptx_device *device;
    ptx_buffer *memory;
    struct ptx_clip_tensor tensors[TENSORS];
};

static void set_up(struct scene *scene)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16, PTX_F32 };
    scene->device = ptx_device_open(NULL);
    assert_non_null(scene->device);
    scene->memory = ptx_buffer_create(scene->device, TENSORS * COUNT * 8);
    assert_non_null(scene->memory);
    assert_int_equal(ptx_buffer_fill(scene->memory, 0, 0, TENSORS * COUNT * 8, NULL), PTX_OK);
    for (unsigned t = 0; t < TENSORS; t++)
        scene->tensors[t] = (struct ptx_clip_tensor) {
            .data = ptx_buffer_address(scene->memory) + t * COUNT * 8,
            .count = COUNT,
            .dtype = types[t],
            .group = t / 2,
        };
}

static void tear_down(struct scene *scene)
{
    ptx_buffer_destroy(&scene->memory);
    ptx_device_close(&scene->device);
}

static ptx_clip_plan *create(const struct scene *scene)
{
    static const struct ptx_loss_scale_params update;
    return ptx_clip_plan_create(scene->device,
                                &(struct ptx_clip_params) { .tensors = scene->tensors,
                                                            .tensor_count = TENSORS,
                                                            .max_norm = 1.0f,
                                                            .update = &update });
}

// Creation ends with the destruction of a stream, which has nobody to report to.
static int calls_of_stream_destroy(const struct scene *scene)
{
    CUstream stream = ptx_stream_create(scene->device);
    assert_non_null(stream);
    const int before = calls_so_far();
    ptx_stream_destroy(scene->device, &stream);
    return calls_so_far() - before;
}

static void each_driver_call_of_creation_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    const int before = calls_so_far();
    ptx_clip_plan *plan = create(&scene);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    const int calls = calls_so_far() - before - calls_of_stream_destroy(&scene);
    ptx_clip_plan_destroy(&plan);
    assert_true(calls > 5);
    for (int call = 1; call <= calls; call++) {
        const int alive = objects_alive();
        fail_call(CUDA_ERROR_UNKNOWN, call);
        plan = create(&scene);
        const char *failed = failed_function();
        fail_call(CUDA_SUCCESS, 0);
        assert_non_null(failed);
        if (plan)
            fail_msg("failing %s, call %d of %d, was not reported", failed, call, calls);
        assert_int_equal(ptx_error_status(), PTX_ERROR_DRIVER);
        assert_non_null(strstr(ptx_error_message(), failed));
        if (objects_alive() != alive)
            fail_msg("failing %s, call %d of %d, left something behind", failed, call, calls);
    }
    tear_down(&scene);
}

static void each_allocation_of_creation_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    allocations = failing_allocation = 0;
    const int live = live_allocations;
    ptx_clip_plan *plan = create(&scene);
    const int count = allocations;
    assert_non_null(plan);
    ptx_clip_plan_destroy(&plan);
    assert_int_equal(live_allocations, live);
    assert_true(count > 5);
    for (int k = 1; k <= count; k++) {
        const int alive = objects_alive();
        allocations = 0;
        failing_allocation = k;
        plan = create(&scene);
        failing_allocation = 0;
        if (plan)
            fail_msg("failing allocation %d of %d was not reported", k, count);
        assert_int_equal(ptx_error_status(), PTX_ERROR_OUT_OF_MEMORY);
        assert_int_equal(live_allocations, live);
        assert_int_equal(objects_alive(), alive);
    }
    tear_down(&scene);
}

static ptx_status run(ptx_clip_plan *plan)
{
    return ptx_clip_plan_run(plan, NULL);
}

static ptx_status set_max_norm(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, 2.0f, NULL);
}

static ptx_status set_loss_scale(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_loss_scale(plan, (struct ptx_loss_scale_state) { .scale = 2.0f },
                                        NULL);
}

static ptx_status read_back(ptx_clip_plan *plan)
{
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    return ptx_clip_plan_read(plan, 0, 1, &record, &summary, NULL);
}

static ptx_status norm_sq(ptx_clip_plan *plan)
{
    return ptx_clip_plan_norm_sq(plan, NULL);
}

static ptx_status finish(ptx_clip_plan *plan)
{
    return ptx_clip_plan_finish(plan, NULL);
}

static ptx_status apply(ptx_clip_plan *plan)
{
    return ptx_clip_plan_apply(plan, NULL);
}

// The first tensor to where it is.
static CUdeviceptr first_tensor;

static ptx_status set_data(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_data(plan, 0, 1, &first_tensor, NULL);
}

// The call'th driver call of the operation meets the fault of a kernel launched earlier: it names
// the operation, whichever call of the driver layer it was in.
static void meet_a_fault(ptx_status (*operation)(ptx_clip_plan *), const char *name,
                         ptx_clip_plan *plan, int call)
{
    char begin[128];
    snprintf(begin, sizeof begin, "%s: an earlier kernel failed: CUDA_ERROR_LAUNCH_FAILED", name);
    fail_call(CUDA_ERROR_LAUNCH_FAILED, call);
    assert_int_equal(operation(plan), PTX_ERROR_DRIVER);
    fail_call(CUDA_SUCCESS, 0);
    if (strncmp(ptx_error_message(), begin, strlen(begin)) != 0)
        fail_msg("%s: %s", name, ptx_error_message());
}

static void each_driver_call_of_a_run_fails(void **state)
{
    static const struct {
        ptx_status (*call)(ptx_clip_plan *);
        const char *name;
    } operations[] = {
        { run, "ptx_clip_plan_run" },
        { norm_sq, "ptx_clip_plan_norm_sq" },
        { finish, "ptx_clip_plan_finish" },
        { apply, "ptx_clip_plan_apply" },
        { set_max_norm, "ptx_clip_plan_set_max_norm" },
        { set_loss_scale, "ptx_clip_plan_set_loss_scale" },
        { set_data, "ptx_clip_plan_set_data" },
        { read_back, "ptx_clip_plan_read" },
    };
    struct scene scene;
    (void)state;
    set_up(&scene);
    first_tensor = scene.tensors[0].data;
    ptx_clip_plan *plan = create(&scene);
    assert_non_null(plan);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        int before = calls_so_far();
        assert_int_equal(operations[i].call(plan), PTX_OK);
        const int calls = calls_so_far() - before;
        for (int call = 1; call <= calls; call++) {
            fail_call(CUDA_ERROR_UNKNOWN, call);
            assert_int_equal(operations[i].call(plan), PTX_ERROR_DRIVER);
            fail_call(CUDA_SUCCESS, 0);
            assert_thread_untouched(NULL);
            assert_int_equal(operations[i].call(plan), PTX_OK); // it is as good as new
            meet_a_fault(operations[i].call, operations[i].name, plan, call);
        }
    }
    allocations = 0;
    for (int k = 0; k < 100; k++)
        assert_int_equal(run(plan), PTX_OK);
    assert_int_equal(allocations, 0);
    ptx_clip_plan_destroy(&plan);
    tear_down(&scene);
}

// A run that fails in the midst of the caller's capture leaves the capture to the caller, and the
// plan as good as new.
static void each_driver_call_of_a_captured_run_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    ptx_clip_plan *plan = create(&scene);
    CUstream stream = ptx_stream_create(scene.device);
    assert_true(plan && stream);
    int calls = 0;
    for (int call = 0; call <= calls; call++) {
        assert_int_equal(ptx_capture_begin(scene.device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        const int before = calls_so_far();
        fail_call(CUDA_ERROR_UNKNOWN, call); // 0: none
        assert_int_equal(ptx_clip_plan_run(plan, stream), call ? PTX_ERROR_DRIVER : PTX_OK);
        fail_call(CUDA_SUCCESS, 0);
        calls = call ? calls : calls_so_far() - before;
        ptx_capture_abandon(scene.device, stream);
        assert_int_equal(ptx_clip_plan_run(plan, stream), PTX_OK);
    }
    assert_true(calls > 5);
    ptx_stream_destroy(scene.device, &stream);
    ptx_clip_plan_destroy(&plan);
    tear_down(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_driver_call_of_creation_fails),
        cmocka_unit_test(each_allocation_of_creation_fails),
        cmocka_unit_test(each_driver_call_of_a_run_fails),
        cmocka_unit_test(each_driver_call_of_a_captured_run_fails),
    };
    return cmocka_run_group_tests_name("clip plans: faults", tests, emulator_open, NULL);
}

// SPDX-License-Identifier: MIT
// Creating and using a step plan with each driver call and each allocation in it failing once.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "plan_faults.h"

#include <ptxgen/step.h>

// More tensors than one launch can set.
enum { TENSORS = 40, COUNT = 100, ROOM = 512, ARRAYS = 6, BYTES = (TENSORS + 1) * ARRAYS * ROOM };

static struct {
    ptx_device *device;
    ptx_buffer *memory;
    struct ptx_step_tensor tensors[TENSORS];
} scene;

static CUdeviceptr place(unsigned tensor, unsigned array)
{
    return ptx_buffer_address(scene.memory) + (tensor * ARRAYS + array) * (CUdeviceptr)ROOM;
}

static ptx_device *set_up(void)
{
    scene.device = ptx_device_open(NULL);
    assert_non_null(scene.device);
    scene.memory = ptx_buffer_create(scene.device, BYTES);
    assert_non_null(scene.memory);
    assert_int_equal(ptx_buffer_fill(scene.memory, 0, 0, BYTES, NULL), PTX_OK);
    for (unsigned t = 0; t < TENSORS; t++) {
        const bool master = t % 2;
        scene.tensors[t] = (struct ptx_step_tensor) {
            .parameter = place(t, 0),
            .gradient = place(t, 1),
            .state = { place(t, 2), place(t, 3) },
            .beside = master ? place(t, 4) : 0,
            .step = place(t, 5),
            .count = COUNT,
            .dtype = master ? PTX_BF16 : PTX_F32,
            .format = master ? PTX_STEP_FORMAT_MASTER : PTX_STEP_FORMAT_FULL,
            .norm_group = t % 3,
        };
    }
    return scene.device;
}

static void tear_down(void)
{
    ptx_buffer_destroy(&scene.memory);
    ptx_device_close(&scene.device);
}

static const struct ptx_step_group group = {
    .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 }
};

static void *create(void)
{
    static const struct ptx_loss_scale_params update;
    return ptx_step_plan_create(scene.device,
                                &(struct ptx_step_params) { .tensors = scene.tensors,
                                                            .tensor_count = TENSORS,
                                                            .groups = &group,
                                                            .group_count = 1,
                                                            .max_norm = 1.0f,
                                                            .loss_scale_state = place(TENSORS, 1),
                                                            .update = &update,
                                                            .found_inf_at = place(TENSORS, 2),
                                                            .found_inf_to = place(TENSORS, 3),
                                                            .sums_at = place(TENSORS, 4) });
}

static void destroy(void *plan)
{
    ptx_step_plan *step = plan;
    ptx_step_plan_destroy(&step);
}

static ptx_status run(void *plan, CUstream stream)
{
    return ptx_step_plan_run(plan, stream);
}

static ptx_status norm_sq(void *plan, CUstream stream)
{
    return ptx_step_plan_norm_sq(plan, stream);
}

static ptx_status finish(void *plan, CUstream stream)
{
    return ptx_step_plan_finish(plan, stream);
}

static ptx_status step(void *plan, CUstream stream)
{
    return ptx_step_plan_step(plan, stream);
}

static ptx_status set_max_norm(void *plan, CUstream stream)
{
    return ptx_step_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, 2.0f, stream);
}

static ptx_status set_loss_scale(void *plan, CUstream stream)
{
    return ptx_step_plan_set_loss_scale(plan, (struct ptx_loss_scale_state) { .scale = 2.0f },
                                        stream);
}

static ptx_status set_hyper(void *plan, CUstream stream)
{
    return ptx_step_plan_set_hyper(plan, 0, &group.hyper, stream);
}

// Sets the addresses of all tensors to the ones they have.
static ptx_status set_addresses(void *plan, CUstream stream)
{
    return ptx_step_plan_set_addresses(plan, 0, TENSORS, scene.tensors, stream);
}

static ptx_status set_gradients(void *plan, CUstream stream)
{
    CUdeviceptr gradients[TENSORS];
    for (size_t t = 0; t < TENSORS; t++)
        gradients[t] = scene.tensors[t].gradient;
    return ptx_step_plan_set_gradients(plan, 0, TENSORS, gradients, stream);
}

static ptx_status read_back(void *plan, CUstream stream)
{
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    return ptx_step_plan_read(plan, 0, 1, &record, &summary, stream);
}

static ptx_status norm_sq_and_finish(void *plan, CUstream stream)
{
    const ptx_status status = norm_sq(plan, stream);
    return status ? status : finish(plan, stream);
}

static const struct plan_operation operations[] = {
    { run, "ptx_step_plan_run", false },
    { norm_sq, "ptx_step_plan_norm_sq", false },
    { finish, "ptx_step_plan_finish", false, norm_sq },
    { step, "ptx_step_plan_step", false, norm_sq_and_finish },
    { set_max_norm, "ptx_step_plan_set_max_norm", false },
    { set_loss_scale, "ptx_step_plan_set_loss_scale", false },
    { set_hyper, "ptx_step_plan_set_hyper", false },
    { set_addresses, "ptx_step_plan_set_addresses", true },
    { set_gradients, "ptx_step_plan_set_gradients", true },
    { read_back, "ptx_step_plan_read", false },
};

static struct plan_kind kind = {
    set_up, tear_down, create, destroy, operations, sizeof operations / sizeof *operations,
};

// If moving tensors fails, the plan checks later addresses against the old ones.
static void a_failed_move_is_forgotten(void **state)
{
    (void)state;
    set_up();
    ptx_step_plan *plan = create();
    assert_non_null(plan);
    struct ptx_step_tensor moved = scene.tensors[0], onto = scene.tensors[2];
    moved.gradient = place(TENSORS, 0); // free
    onto.gradient = scene.tensors[0].gradient;
    const int before = calls_so_far();
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &scene.tensors[0], NULL), PTX_OK);
    const int calls = calls_so_far() - before;
    for (int call = 1; call <= calls; call++) {
        fail_call(CUDA_ERROR_UNKNOWN, call);
        assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &moved, NULL), PTX_ERROR_DRIVER);
        fail_call(CUDA_ERROR_UNKNOWN, 1);
        assert_int_equal(ptx_step_plan_set_gradients(plan, 0, 1, &moved.gradient, NULL),
                         PTX_ERROR_DRIVER);
        fail_call(CUDA_SUCCESS, 0);
        assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &onto, NULL), PTX_ERROR_INVALID);
        assert_non_null(strstr(ptx_error_message(), "tensor 0's gradient and tensor 2's gradient"));
    }
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &moved, NULL), PTX_OK);
    assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &onto, NULL), PTX_OK);
    ptx_step_plan_destroy(&plan);
    tear_down();
}

// After a norm_sq that failed between its launches, a finish does not take the sums of the norm_sq
// before.
static void failed_sums_are_not_known(void **state)
{
    (void)state;
    set_up();
    ptx_step_plan *plan = create();
    assert_non_null(plan);
    const int before = calls_so_far();
    assert_int_equal(norm_sq(plan, NULL), PTX_OK);
    const int calls = calls_so_far() - before;
    int halves = 0;
    for (int call = 1; call <= calls; call++) {
        const int launches = launches_so_far();
        fail_call(CUDA_ERROR_UNKNOWN, call);
        assert_int_equal(norm_sq(plan, NULL), PTX_ERROR_DRIVER);
        fail_call(CUDA_SUCCESS, 0);
        if (launches_so_far() == launches)
            continue;
        halves++;
        assert_int_equal(finish(plan, NULL), PTX_ERROR_INVALID);
        assert_non_null(strstr(ptx_error_message(), "the sums are not known"));
        assert_int_equal(norm_sq(plan, NULL), PTX_OK);
    }
    assert_true(halves > 0);
    assert_int_equal(finish(plan, NULL), PTX_OK);
    ptx_step_plan_destroy(&plan);
    tear_down();
}

static struct {
    ptx_step_plan *plan;
    int calls, refused;
} within;

static void run_within(void)
{
    within.calls++;
    within.refused += ptx_step_plan_run(within.plan, NULL) == PTX_ERROR_INVALID &&
                      strstr(ptx_error_message(), "another thread is using this plan");
}

// While addresses change, from the first allocation to the last free, a run is refused, as another
// thread's would be: it would find some tensors moved and others not.
static void a_move_is_one_call(void **state)
{
    (void)state;
    static ptx_status (*const moves[])(void *, CUstream) = { set_addresses, set_gradients };
    set_up();
    within.plan = create();
    assert_non_null(within.plan);
    for (size_t k = 0; k < sizeof moves / sizeof *moves; k++) {
        within.calls = within.refused = 0;
        at_allocation = run_within;
        const ptx_status status = moves[k](within.plan, NULL);
        at_allocation = NULL;
        assert_int_equal(status, PTX_OK);
        assert_true(within.calls >= 4);
        assert_int_equal(within.refused, within.calls);
        assert_int_equal(run(within.plan, NULL), PTX_OK);
    }
    ptx_step_plan_destroy(&within.plan);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_FAULT_TESTS(&kind),
        cmocka_unit_test(a_failed_move_is_forgotten),
        cmocka_unit_test(a_move_is_one_call),
        cmocka_unit_test(failed_sums_are_not_known),
    };
    return cmocka_run_group_tests_name("step plans: faults", tests, emulator_open, NULL);
}

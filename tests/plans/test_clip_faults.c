// SPDX-License-Identifier: MIT
// Creating and running a clip plan with each driver call and each allocation in it failing once.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "plan_faults.h"

#include <ptxgen/clip.h>

enum { TENSORS = 5, COUNT = 100 };

static struct {
    ptx_device *device;
    ptx_buffer *memory;
    struct ptx_clip_tensor tensors[TENSORS];
} scene;

static ptx_device *set_up(void)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16, PTX_F32 };
    scene.device = ptx_device_open(NULL);
    assert_non_null(scene.device);
    scene.memory = ptx_buffer_create(scene.device, TENSORS * COUNT * 8 + 16);
    assert_non_null(scene.memory);
    assert_int_equal(ptx_buffer_fill(scene.memory, 0, 0, TENSORS * COUNT * 8 + 16, NULL), PTX_OK);
    for (unsigned t = 0; t < TENSORS; t++)
        scene.tensors[t] = (struct ptx_clip_tensor) {
            .data = ptx_buffer_address(scene.memory) + t * COUNT * 8,
            .count = COUNT,
            .dtype = types[t],
            .group = t / 2,
        };
    return scene.device;
}

static void tear_down(void)
{
    ptx_buffer_destroy(&scene.memory);
    ptx_device_close(&scene.device);
}

static void *create(void)
{
    static const struct ptx_loss_scale_params update;
    const CUdeviceptr scalars = ptx_buffer_address(scene.memory) + TENSORS * COUNT * 8;
    return ptx_clip_plan_create(scene.device, &(struct ptx_clip_params) {
                                                  .tensors = scene.tensors,
                                                  .tensor_count = TENSORS,
                                                  .max_norm = 1.0f,
                                                  .loss_scale_state = scalars,
                                                  .update = &update,
                                                  .found_inf_at = scalars + 8,
                                                  .found_inf_to = scalars + 12,
                                              });
}

static void destroy(void *plan)
{
    ptx_clip_plan *clip = plan;
    ptx_clip_plan_destroy(&clip);
}

static ptx_status run(void *plan, CUstream stream)
{
    return ptx_clip_plan_run(plan, stream);
}

static ptx_status set_max_norm(void *plan, CUstream stream)
{
    return ptx_clip_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, 2.0f, stream);
}

static ptx_status set_loss_scale(void *plan, CUstream stream)
{
    return ptx_clip_plan_set_loss_scale(plan, (struct ptx_loss_scale_state) { .scale = 2.0f },
                                        stream);
}

static ptx_status read_back(void *plan, CUstream stream)
{
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    return ptx_clip_plan_read(plan, 0, 1, &record, &summary, stream);
}

static ptx_status norm_sq(void *plan, CUstream stream)
{
    return ptx_clip_plan_norm_sq(plan, stream);
}

static ptx_status finish(void *plan, CUstream stream)
{
    return ptx_clip_plan_finish(plan, stream);
}

static ptx_status apply(void *plan, CUstream stream)
{
    return ptx_clip_plan_apply(plan, stream);
}

// Sets the first tensor's address to the one it has.
static ptx_status set_data(void *plan, CUstream stream)
{
    return ptx_clip_plan_set_data(plan, 0, 1, &scene.tensors[0].data, stream);
}

static const struct plan_operation operations[] = {
    { run, "ptx_clip_plan_run", false },
    { norm_sq, "ptx_clip_plan_norm_sq", false },
    { finish, "ptx_clip_plan_finish", false },
    { apply, "ptx_clip_plan_apply", false },
    { set_max_norm, "ptx_clip_plan_set_max_norm", false },
    { set_loss_scale, "ptx_clip_plan_set_loss_scale", false },
    { set_data, "ptx_clip_plan_set_data", true },
    { read_back, "ptx_clip_plan_read", false },
};

static struct plan_kind kind = {
    set_up, tear_down, create, destroy, operations, sizeof operations / sizeof *operations,
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_FAULT_TESTS(&kind),
    };
    return cmocka_run_group_tests_name("clip plans: faults", tests, emulator_open, NULL);
}

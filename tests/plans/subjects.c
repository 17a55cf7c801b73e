// SPDX-License-Identifier: MIT
#include "subjects.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { CLIP_COUNT = 100, CLIP_BYTES = SCENE_CLIP_TENSORS * CLIP_COUNT * 8 };

CUdeviceptr scene_place(const struct scene *in, unsigned tensor, unsigned array)
{
    return in->at + (tensor * SCENE_ARRAYS + array) * (CUdeviceptr)SCENE_ROOM;
}

void scene_create(struct scene *in)
{
    static const ptx_type types[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16, PTX_F32 };

    memset(in, 0, sizeof *in);
    in->device = ptx_device_open(NULL);
    in->memory = ptx_buffer_create(in->device, SCENE_BYTES);
    if (!in->memory)
        fail_msg("%s", ptx_error_message());
    assert_int_equal(ptx_buffer_fill(in->memory, 0, 0, SCENE_BYTES, NULL), PTX_OK);
    in->at = ptx_buffer_address(in->memory);
    for (unsigned t = 0; t < SCENE_CLIP_TENSORS; t++)
        in->clip[t] = (struct ptx_clip_tensor) { .data = in->at + t * CLIP_COUNT * 8,
                                                 .count = CLIP_COUNT,
                                                 .dtype = types[t],
                                                 .group = t / 2 };
    for (unsigned t = 0; t < SCENE_STEP_TENSORS; t++) {
        const bool master = t % 2;
        in->step[t] = (struct ptx_step_tensor) {
            .parameter = scene_place(in, t, 0),
            .gradient = scene_place(in, t, 1),
            .state = { scene_place(in, t, 2), scene_place(in, t, 3) },
            .beside = master ? scene_place(in, t, 4) : 0,
            .step = scene_place(in, t, 5),
            .count = 100,
            .dtype = master ? PTX_BF16 : PTX_F32,
            .format = master ? PTX_STEP_FORMAT_MASTER : PTX_STEP_FORMAT_FULL,
            .norm_group = t % 3,
        };
    }
}

void scene_destroy(struct scene *in)
{
    ptx_buffer_destroy(&in->memory);
    ptx_device_close(&in->device);
}

struct scene scene;

int scene_set_up(void **state)
{
    (void)state;
    scene_create(&scene);
    return 0;
}

int scene_tear_down(void **state)
{
    (void)state;
    scene_destroy(&scene);
    return 0;
}

void *subject_create(const struct subject *subject)
{
    void *object = subject->create(&scene);
    if (!object)
        fail_msg("%s: %s", subject->name, ptx_error_message());
    return object;
}

// ---- plans --------------------------------------------------------------------------------------

static const struct ptx_loss_scale_params update;
static const struct ptx_step_group group = {
    .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 }
};
static const struct ptx_loss_scale_state two = { .scale = 2.0f };

static void *clip_create(const struct scene *in)
{
    const CUdeviceptr scalars = in->at + CLIP_BYTES;

    return ptx_clip_plan_create(in->device,
                                &(struct ptx_clip_params) { .tensors = in->clip,
                                                            .tensor_count = SCENE_CLIP_TENSORS,
                                                            .max_norm = 1.0f,
                                                            .loss_scale_state = scalars,
                                                            .update = &update,
                                                            .nonfinite = PTX_NONFINITE_SKIP,
                                                            .found_inf_at = scalars + 8,
                                                            .found_inf_to = scalars + 12,
                                                            .any_address = in->any_address,
                                                            .stream = in->stream });
}

static void *step_create(const struct scene *in)
{
    CUdeviceptr scalars[SCENE_ARRAYS];

    for (unsigned a = 0; a < SCENE_ARRAYS; a++)
        scalars[a] = scene_place(in, SCENE_STEP_TENSORS, a);
    return ptx_step_plan_create(in->device,
                                &(struct ptx_step_params) { .tensors = in->step,
                                                            .tensor_count = SCENE_STEP_TENSORS,
                                                            .groups = &group,
                                                            .group_count = 1,
                                                            .max_norm = 1.0f,
                                                            .loss_scale_state = scalars[1],
                                                            .update = &update,
                                                            .found_inf_at = scalars[2],
                                                            .found_inf_to = scalars[3],
                                                            .sums_at = scalars[4],
                                                            .any_address = in->any_address,
                                                            .stream = in->stream });
}

static void clip_destroy(void *object)
{
    ptx_clip_plan *plan = object;
    ptx_clip_plan_destroy(&plan);
}

static void step_destroy(void *object)
{
    ptx_step_plan *plan = object;
    ptx_step_plan_destroy(&plan);
}

#define CALL(kind, function, ...)                                                                  \
    static ptx_status kind##_##function(const struct scene *in, void *plan, CUstream stream)       \
    {                                                                                              \
        (void)in;                                                                                  \
        return ptx_##kind##_plan_##function(plan, __VA_ARGS__);                                    \
    }
#define PHASES(kind)                                                                               \
    CALL(kind, run, stream)                                                                        \
    CALL(kind, norm_sq, stream)                                                                    \
    CALL(kind, finish, stream)                                                                     \
    CALL(kind, read, 0, 1, &(struct ptx_clip_record) { 0 }, &(struct ptx_clip_summary) { 0 },      \
         stream)                                                                                   \
    CALL(kind, error_if_nonfinite, NULL, stream)                                                   \
    CALL(kind, set_max_norm, PTX_CLIP_ALL_GROUPS, 2.0f, stream)                                    \
    CALL(kind, set_loss_scale, two, stream)
PHASES(clip)
PHASES(step)
// Scales at which nothing is found.
#define RUN_SCALED(kind)                                                                           \
    static ptx_status kind##_run_scaled(const struct scene *in, void *plan, CUstream stream)       \
    {                                                                                              \
        const ptx_status status = kind##_set_loss_scale(in, plan, stream);                         \
        return status ? status : kind##_run(in, plan, stream);                                     \
    }
RUN_SCALED(clip)
RUN_SCALED(step)
CALL(clip, apply, stream)
CALL(clip, norm_sq_chunks, 0, 1, stream)
CALL(clip, apply_chunks, 0, 1, stream)
CALL(step, step, stream)
CALL(step, set_hyper, 0, &group.hyper, stream)
// These give tensors the addresses that they have.
CALL(clip, set_data, 0, 1, &in->clip[0].data, stream)
CALL(step, set_addresses, 0, SCENE_STEP_TENSORS, in->step, stream)

static ptx_status step_set_gradients(const struct scene *in, void *plan, CUstream stream)
{
    CUdeviceptr gradients[SCENE_STEP_TENSORS];

    for (unsigned t = 0; t < SCENE_STEP_TENSORS; t++)
        gradients[t] = in->step[t].gradient;
    return ptx_step_plan_set_gradients(plan, 0, SCENE_STEP_TENSORS, gradients, stream);
}

static ptx_status step_norm_sq_and_finish(const struct scene *in, void *plan, CUstream stream)
{
    const ptx_status status = step_norm_sq(in, plan, stream);
    return status ? status : step_finish(in, plan, stream);
}

// ---- operations ---------------------------------------------------------------------------------

static void *operations_create(const struct scene *in)
{
    return ptx_operations_create(
        in->device, &(struct ptx_operations_params) { .any_address = in->any_address });
}

static void operations_destroy(void *object)
{
    ptx_operations *operations = object;
    ptx_operations_destroy(&operations);
}

// 64 elements, arrays 512 bytes apart.
#define OPERATION(id, name, ...)                                                                   \
    static ptx_status id(const struct scene *in, void *operations, CUstream stream)                \
    {                                                                                              \
        const CUdeviceptr at = in->at;                                                             \
        return ptx_##name(operations, &(struct ptx_##name##_params) { __VA_ARGS__ }, stream);      \
    }
OPERATION(quantize, quantize_backward, .dtype = PTX_BF16, .count = 64, .x = at,
          .d_output = at + 512, .d_input = at + 1024, .scale = 0.1)
OPERATION(quantize_channels, quantize_backward, .dtype = PTX_F32, .count = 64, .x = at,
          .d_output = at + 512, .d_input = at + 512, .scales = at + 1024, .zero_points = at + 1536,
          .channels = 32)
OPERATION(lerp, lerp_backward, .dtype = PTX_F64, .count = 64, .d_output = at, .d_a = at,
          .d_b = at + 512, .weight_at = at + 1024)
OPERATION(loss_scale, loss_scale_update, .state = at, .found_inf = at + 8)
OPERATION(cast, fp8_cast, .dtype = PTX_F16, .count = 64, .x = at, .y = at + 512, .scale = 1,
          .amax = at + 1024)
OPERATION(delayed_scale, delayed_scale_update, .tensors = 3, .rows = 2, .history = at,
          .scale = at + 512, .scale_inv = at + 1024)
OPERATION(fake, fake_quantize, .dtype = PTX_F32, .count = 64, .x = at, .y = at + 512, .scale = 0.5)
OPERATION(fake_groups, fake_quantize_groups, .dtype = PTX_BF16, .count = 64, .x = at, .y = at + 512)
OPERATION(learned, quantize_learned_backward, .dtype = PTX_F32, .grad_factor = 1, .count = 128,
          .channels = 1, .inner = 64, .x = at, .d_output = at + 512, .d_input = at + 512,
          .scales = at + 1024, .zero_points = at + 1536, .d_scales = at + 2048,
          .d_zero_points = at + 2560, .workspace = at + 3072)
OPERATION(learned_groups, quantize_learned_backward, .dtype = PTX_F16, .grad_factor = 1,
          .count = 64, .group = 32, .x = at, .d_output = at + 512, .d_input = at + 512,
          .scales = at + 1024, .fixed_zero_points = at + 1536, .d_scales = at + 2048)
OPERATION(observer, observer_update, .dtype = PTX_F32, .averaging_constant = 0.01f, .count = 64,
          .x = at, .state = at + 512, .scales = at + 1024, .zero_points = at + 1536)

// ---- the table ----------------------------------------------------------------------------------

#define ROW(kind, function, ...)                                                                   \
    {                                                                                              \
        "ptx_" #kind "_plan_" #function, kind##_##function, __VA_ARGS__                            \
    }
#define OPERATION_ROW(id, name, launches)                                                          \
    {                                                                                              \
#id, operations_create, operations_destroy, true,                                          \
        {                                                                                          \
            {                                                                                      \
                "ptx_" #name, id, launches                                                         \
            }                                                                                      \
        }                                                                                          \
    }

const struct subject subjects[SUBJECTS] = {
    { "clip plan",
      clip_create,
      clip_destroy,
      false,
      {
          ROW(clip, run, 2),
          ROW(clip, norm_sq, 2),
          ROW(clip, finish, 1),
          ROW(clip, apply, 1),
          ROW(clip, norm_sq_chunks, 1),
          ROW(clip, apply_chunks, 1),
          ROW(clip, set_max_norm, 1),
          ROW(clip, set_loss_scale, 1),
          ROW(clip, set_data, 1, .allocates = true),
          ROW(clip, read, 0),
          ROW(clip, error_if_nonfinite, 0, .before = clip_run_scaled),
      } },
    { "step plan",
      step_create,
      step_destroy,
      false,
      {
          ROW(step, run, 3),
          ROW(step, norm_sq, 2),
          ROW(step, finish, 1, .before = step_norm_sq),
          ROW(step, step, 1, .before = step_norm_sq_and_finish),
          ROW(step, set_max_norm, 1),
          ROW(step, set_loss_scale, 1),
          ROW(step, set_hyper, 1),
          ROW(step, set_addresses, 3, .allocates = true),
          ROW(step, set_gradients, 1, .allocates = true),
          ROW(step, read, 0),
          ROW(step, error_if_nonfinite, 0, .before = step_run_scaled),
      } },
    OPERATION_ROW(quantize, quantize_backward, 1),
    OPERATION_ROW(quantize_channels, quantize_backward, 1),
    OPERATION_ROW(lerp, lerp_backward, 1),
    OPERATION_ROW(loss_scale, loss_scale_update, 1),
    OPERATION_ROW(cast, fp8_cast, 1),
    OPERATION_ROW(delayed_scale, delayed_scale_update, 1),
    OPERATION_ROW(fake, fake_quantize, 1),
    OPERATION_ROW(fake_groups, fake_quantize_groups, 1),
    OPERATION_ROW(learned, quantize_learned_backward, 2),
    OPERATION_ROW(learned_groups, quantize_learned_backward, 1),
    OPERATION_ROW(observer, observer_update, 2),
};

void expect_named(const char *name, const char *words)
{
    const char *message = ptx_error_message();
    const size_t length = strlen(name);

    if (strncmp(message, name, length) != 0 || strncmp(message + length, ": ", 2) != 0 ||
        !strstr(message, words) || strstr(message + length, "ptx_clip_") ||
        strstr(message + length, "ptx_step_"))
        fail_msg("\"%s\" has not \"%s\" of %s alone", message, words, name);
}

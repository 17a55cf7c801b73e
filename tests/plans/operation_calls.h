// SPDX-License-Identifier: MIT
/// One call of each operation, in 4096 bytes of memory, for tests that count driver calls or make
/// them fail. Include it after driver_fixture.h or emulator_faults.h.
#ifndef PTXGEN_TESTS_OPERATION_CALLS_H
#define PTXGEN_TESTS_OPERATION_CALLS_H

#include <ptxgen/operations.h>

struct scene {
    ptx_device *device;
    ptx_buffer *memory;
    CUdeviceptr at;
};

static inline void scene_create(struct scene *scene)
{
    scene->device = ptx_device_open(NULL);
    scene->memory = ptx_buffer_create(scene->device, 4096);
    assert_true(scene->device && scene->memory);
    assert_int_equal(ptx_buffer_fill(scene->memory, 0, 0, 4096, NULL), PTX_OK);
    scene->at = ptx_buffer_address(scene->memory);
}

static inline void scene_destroy(struct scene *scene)
{
    ptx_buffer_destroy(&scene->memory);
    ptx_device_close(&scene->device);
}

static ptx_status quantize(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_backward(
        operations,
        &(struct ptx_quantize_backward_params) { .dtype = PTX_BF16,
                                                 .count = 64,
                                                 .x = scene->at,
                                                 .d_output = scene->at + 512,
                                                 .d_input = scene->at + 1024,
                                                 .scale = 0.1 },
        NULL);
}

static ptx_status quantize_channels(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_backward(
        operations,
        &(struct ptx_quantize_backward_params) { .dtype = PTX_F32,
                                                 .count = 64,
                                                 .x = scene->at,
                                                 .d_output = scene->at + 512,
                                                 .d_input = scene->at + 512,
                                                 .scales = scene->at + 1024,
                                                 .zero_points = scene->at + 1536,
                                                 .channels = 32 },
        NULL);
}

static ptx_status lerp(const struct scene *scene, ptx_operations *operations)
{
    return ptx_lerp_backward(operations,
                             &(struct ptx_lerp_backward_params) { .dtype = PTX_F64,
                                                                  .count = 64,
                                                                  .d_output = scene->at,
                                                                  .d_a = scene->at,
                                                                  .d_b = scene->at + 512,
                                                                  .weight_at = scene->at + 1024 },
                             NULL);
}

static ptx_status loss_scale(const struct scene *scene, ptx_operations *operations)
{
    return ptx_loss_scale_update(
        operations,
        &(struct ptx_loss_scale_update_params) { .state = scene->at, .found_inf = scene->at + 8 },
        NULL);
}

static ptx_status cast(const struct scene *scene, ptx_operations *operations)
{
    return ptx_fp8_cast(operations,
                        &(struct ptx_fp8_cast_params) { .dtype = PTX_F16,
                                                        .count = 64,
                                                        .x = scene->at,
                                                        .y = scene->at + 512,
                                                        .scale = 1,
                                                        .amax = scene->at + 1024 },
                        NULL);
}

static ptx_status delayed_scale(const struct scene *scene, ptx_operations *operations)
{
    return ptx_delayed_scale_update(
        operations,
        &(struct ptx_delayed_scale_update_params) { .tensors = 3,
                                                    .rows = 2,
                                                    .history = scene->at,
                                                    .scale = scene->at + 512,
                                                    .scale_inv = scene->at + 1024 },
        NULL);
}

static ptx_status fake_quantize(const struct scene *scene, ptx_operations *operations)
{
    return ptx_fake_quantize(
        operations,
        &(struct ptx_fake_quantize_params) {
            .dtype = PTX_F32, .count = 64, .x = scene->at, .y = scene->at + 512, .scale = 0.5 },
        NULL);
}

static ptx_status fake_quantize_groups(const struct scene *scene, ptx_operations *operations)
{
    return ptx_fake_quantize_groups(
        operations,
        &(struct ptx_fake_quantize_groups_params) {
            .dtype = PTX_BF16, .count = 64, .x = scene->at, .y = scene->at + 512 },
        NULL);
}

static ptx_status learned(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_learned_backward(
        operations,
        &(struct ptx_quantize_learned_backward_params) { .dtype = PTX_F32,
                                                         .grad_factor = 1,
                                                         .count = 64,
                                                         .x = scene->at,
                                                         .d_output = scene->at + 512,
                                                         .d_input = scene->at + 512,
                                                         .scales = scene->at + 1024,
                                                         .zero_points = scene->at + 1536,
                                                         .d_scales = scene->at + 2048,
                                                         .d_zero_points = scene->at + 2560,
                                                         .workspace = scene->at + 3072 },
        NULL);
}

static ptx_status learned_groups(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_learned_backward(
        operations,
        &(struct ptx_quantize_learned_backward_params) { .dtype = PTX_F16,
                                                         .grad_factor = 1,
                                                         .count = 64,
                                                         .group = 32,
                                                         .x = scene->at,
                                                         .d_output = scene->at + 512,
                                                         .d_input = scene->at + 512,
                                                         .scales = scene->at + 1024,
                                                         .fixed_zero_points = scene->at + 1536,
                                                         .d_scales = scene->at + 2048 },
        NULL);
}

static ptx_status observer(const struct scene *scene, ptx_operations *operations)
{
    return ptx_observer_update(
        operations,
        &(struct ptx_observer_update_params) { .dtype = PTX_F32,
                                               .averaging_constant = 0.01f,
                                               .count = 64,
                                               .x = scene->at,
                                               .state = scene->at + 512,
                                               .scales = scene->at + 1024,
                                               .zero_points = scene->at + 1536 },
        NULL);
}

static ptx_status (*const calls[])(const struct scene *, ptx_operations *) = {
    quantize,      quantize_channels,    lerp,    loss_scale,     cast,    delayed_scale,
    fake_quantize, fake_quantize_groups, learned, learned_groups, observer
};
/// The launches of each.
static const int launches_of[] = { 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2 };
enum { CALLS = sizeof calls / sizeof *calls };

#endif

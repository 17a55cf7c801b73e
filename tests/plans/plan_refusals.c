// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "plan_refusals.h"

#include <stdio.h>
#include <time.h>

#include "subjects.h"
#include "test.h"

ptx_buffer *memory;
CUdeviceptr base;

struct ptx_clip_tensor clip_tensors[TENSORS];
struct ptx_clip_params clip_params;
struct ptx_step_tensor step_tensors[TENSORS];
struct ptx_step_group step_groups[2];
struct ptx_step_params step_params;

CUdeviceptr place(unsigned tensor, unsigned array)
{
    return base + (tensor * ARRAYS + array) * (CUdeviceptr)ROOM;
}

CUdeviceptr *address(unsigned tensor, unsigned array)
{
    struct ptx_step_tensor *t = &step_tensors[tensor];
    CUdeviceptr *const all[ARRAYS] = { &t->parameter, &t->gradient, &t->beside,
                                       &t->state[0],  &t->state[1], &t->absmax[0],
                                       &t->absmax[1], &t->step,     &t->ema };
    return all[array];
}

const unsigned element_bytes[TENSORS][ARRAYS] = {
    { 4, 4, 0, 4, 4, 0, 0, 4, 4 },
    { 2, 4, 4, 4, 4, 0, 0, 4 },
    { 2, 2, 2, 4, 4, 0, 0, 4 },
    { 2, 2, 0, 1, 1, 4, 4, 4, 2 },
};

int set_up(void **state)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_BF16, PTX_F64, PTX_F16 };
    static const ptx_step_format formats[TENSORS] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_MASTER,
                                                      PTX_STEP_FORMAT_REMAINDER,
                                                      PTX_STEP_FORMAT_STATE_8BIT };
    (void)state;
    for (unsigned t = 0; t < TENSORS; t++) {
        clip_tensors[t] =
            (struct ptx_clip_tensor) { .data = place(t, 0), .count = COUNT, .dtype = types[t] };
        step_tensors[t] = (struct ptx_step_tensor) {
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
    for (unsigned g = 0; g < 2; g++)
        step_groups[g] = (struct ptx_step_group) {
            .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9 }
        };
    clip_params = (struct ptx_clip_params) {
        .tensors = clip_tensors, .tensor_count = TENSORS, .max_norm = 1.0f, .stream = gpu.stream
    };
    step_params = (struct ptx_step_params) { .tensors = step_tensors,
                                             .tensor_count = TENSORS,
                                             .groups = step_groups,
                                             .group_count = 1,
                                             .max_norm = 1.0f,
                                             .stream = gpu.stream };
    require(ptx_buffer_fill(memory, 0, 0, BYTES, gpu.stream));
    return 0;
}

// ---- one call refused by each kind of plan ------------------------------------------------------

#define KIND(kind)                                                                                 \
    static void *kind##_create(void)                                                               \
    {                                                                                              \
        return ptx_##kind##_plan_create(gpu.device, &kind##_params);                               \
    }                                                                                              \
    static void kind##_destroy(void *object)                                                       \
    {                                                                                              \
        ptx_##kind##_plan *plan = object;                                                          \
        ptx_##kind##_plan_destroy(&plan);                                                          \
    }                                                                                              \
    static ptx_status kind##_describe(void)                                                        \
    {                                                                                              \
        struct ptx_##kind##_description description;                                               \
        return ptx_##kind##_describe(&kind##_params, &description);                                \
    }                                                                                              \
    static ptx_status kind##_emit(ptx_builder *b)                                                  \
    {                                                                                              \
        return ptx_##kind##_emit(b, &kind##_params);                                               \
    }
KIND(clip)
KIND(step)

static ptx_status clip_move(void *plan)
{
    CUdeviceptr data[TENSORS];

    for (unsigned t = 0; t < TENSORS; t++)
        data[t] = clip_tensors[t].data;
    return ptx_clip_plan_set_data(plan, 0, TENSORS, data, gpu.stream);
}

static ptx_status step_move(void *plan)
{
    return ptx_step_plan_set_addresses(plan, 0, TENSORS, step_tensors, gpu.stream);
}

const struct kind kinds[] = {
    { "ptx_clip_plan_create", "ptx_clip_describe", "ptx_clip_emit", "ptx_clip_plan_set_data",
      clip_create, clip_destroy, clip_describe, clip_emit, clip_move },
    { "ptx_step_plan_create", "ptx_step_describe", "ptx_step_emit", "ptx_step_plan_set_addresses",
      step_create, step_destroy, step_describe, step_emit, step_move },
};
void *create(const struct kind *kind)
{
    return made(kind->create());
}

void expect_invalid(ptx_status status, const char *call, const char *words)
{
    if (status != PTX_ERROR_INVALID)
        fail_msg("not refused by %s: %s", call, words);
    assert_int_equal(ptx_error_status(), PTX_ERROR_INVALID);
    expect_named(call, words);
}

// The device memory that is still used after a refused creation.
static size_t kept_by_refusal(const struct kind *kind, const char *words)
{
    size_t before = 0, after = 0;

    require(ptx_device_memory(gpu.device, &before, NULL));
    expect_invalid(kind->create() ? PTX_OK : ptx_error_status(), kind->create_name, words);
    require(ptx_device_memory(gpu.device, &after, NULL));
    return before - after;
}

void refuse_creation(const struct kind *kind, const char *words)
{
    // Other processes change the GPU's free memory, above all while they start. A leak shows in
    // each attempt.
    const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    size_t kept = kept_by_refusal(kind, words);

    for (int again = 0; kept && again < 300; again++) {
        nanosleep(&pause, NULL);
        kept = kept_by_refusal(kind, words);
    }
    assert_int_equal(kept, 0);
}

// Without a device: by description and text, with and without a builder.
void refuse_description(const struct kind *kind, const char *words)
{
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);

    expect_invalid(kind->describe(), kind->describe_name, words);
    expect_invalid(kind->emit(b), kind->emit_name, words);
    expect_invalid(kind->emit(NULL), kind->emit_name, words);
}

void refuse(const struct kind *kind, const char *words)
{
    refuse_creation(kind, words);
    refuse_description(kind, words);
}

int open_plans(void **state)
{
    (void)state;
    gpu_open();
    memory = ptx_buffer_create(gpu.device, BYTES);
    if (!memory) {
        fprintf(stderr, "%s\n", ptx_error_message());
        return -1;
    }
    base = ptx_buffer_address(memory);
    return 0;
}

int close_plans(void **state)
{
    (void)state;
    ptx_buffer_destroy(&memory);
    gpu_close();
    return 0;
}

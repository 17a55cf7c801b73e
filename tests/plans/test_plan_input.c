// SPDX-License-Identifier: MIT
// What clip plans and step plans refuse, and the messages: scalars and types, also without a
// device; addresses, at creation and when tensors move. Nothing is launched, and nothing stays
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

#include "input_arrays.h"
#include "plan_calls.h"
#include "subjects.h"

// The last tensor of a step plan has 8-bit states in two blocks.
enum { TENSORS = 4, COUNT = 100, LAST_COUNT = 300, ROOM = 1024, SCALARS = 8 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, ABSMAX = STATE + 2, STEP = ABSMAX + 2, EMA, ARRAYS };
enum { BYTES = (TENSORS * ARRAYS + SCALARS) * ROOM };

static struct gpu gpu;
static ptx_buffer *memory;
static CUdeviceptr base;

static struct ptx_clip_tensor clip_tensors[TENSORS];
static struct ptx_clip_params clip_params;
static struct ptx_step_tensor step_tensors[TENSORS];
static struct ptx_step_group step_groups[2];
static struct ptx_step_params step_params;

static CUdeviceptr place(unsigned tensor, unsigned array)
{
    return base + (tensor * ARRAYS + array) * (CUdeviceptr)ROOM;
}

static CUdeviceptr *address(unsigned tensor, unsigned array)
{
    struct ptx_step_tensor *t = &step_tensors[tensor];
    CUdeviceptr *const all[ARRAYS] = { &t->parameter, &t->gradient, &t->beside,
                                       &t->state[0],  &t->state[1], &t->absmax[0],
                                       &t->absmax[1], &t->step,     &t->ema };
    return all[array];
}

static const unsigned element_bytes[TENSORS][ARRAYS] = {
    { 4, 4, 0, 4, 4, 0, 0, 4, 4 },
    { 2, 4, 4, 4, 4, 0, 0, 4 },
    { 2, 2, 2, 4, 4, 0, 0, 4 },
    { 2, 2, 0, 1, 1, 4, 4, 4, 2 },
};

static int set_up(void **state)
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

static const struct kind {
    const char *create_name, *describe_name, *emit_name, *move_name;
    void *(*create)(void);
    void (*destroy)(void *plan);
    ptx_status (*describe)(void), (*emit)(ptx_builder *b);
    ptx_status (*move)(void *plan); ///< all tensors, to the addresses in the parameters
} kinds[] = {
    { "ptx_clip_plan_create", "ptx_clip_describe", "ptx_clip_emit", "ptx_clip_plan_set_data",
      clip_create, clip_destroy, clip_describe, clip_emit, clip_move },
    { "ptx_step_plan_create", "ptx_step_describe", "ptx_step_emit", "ptx_step_plan_set_addresses",
      step_create, step_destroy, step_describe, step_emit, step_move },
};
enum { CLIP_KIND, STEP_KIND };

static void *create(const struct kind *kind)
{
    void *plan = kind->create();
    if (!plan)
        fail_msg("%s", ptx_error_message());
    return plan;
}

static void expect_invalid(ptx_status status, const char *call, const char *words)
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

static void refuse_creation(const struct kind *kind, const char *words)
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
static void refuse_description(const struct kind *kind, const char *words)
{
    ptx_builder *b = ptx_builder_create(NULL);

    expect_invalid(kind->describe(), kind->describe_name, words);
    expect_invalid(kind->emit(b), kind->emit_name, words);
    expect_invalid(kind->emit(NULL), kind->emit_name, words);
    ptx_builder_destroy(&b);
}

static void refuse(const struct kind *kind, const char *words)
{
    refuse_creation(kind, words);
    refuse_description(kind, words);
}

// With this change of parameters p, their number of norm groups n, and the first tensor t, the
// plan is refused with these words.
#define CLIP(words, ...)                                                                           \
    do {                                                                                           \
        struct ptx_clip_params *p = &clip_params;                                                  \
        struct ptx_clip_tensor *t = clip_tensors;                                                  \
        uint32_t *n = &p->group_count;                                                             \
        set_up(NULL);                                                                              \
        (void)p, (void)t, (void)n;                                                                 \
        __VA_ARGS__;                                                                               \
        refuse(&kinds[CLIP_KIND], words);                                                          \
    } while (0)
#define STEP(words, ...)                                                                           \
    do {                                                                                           \
        struct ptx_step_params *p = &step_params;                                                  \
        struct ptx_step_group *g = step_groups;                                                    \
        struct ptx_step_tensor *t = step_tensors;                                                  \
        uint32_t *n = &p->norm_group_count;                                                        \
        set_up(NULL);                                                                              \
        (void)p, (void)g, (void)t, (void)n;                                                        \
        __VA_ARGS__;                                                                               \
        refuse(&kinds[STEP_KIND], words);                                                          \
    } while (0)
#define BOTH(words, ...)                                                                           \
    CLIP(words, __VA_ARGS__);                                                                      \
    STEP(words, __VA_ARGS__)

static void test_norm(void **state)
{
    (void)state;
    static const float norms[] = { 1.0f, NAN }, zero;
    static const struct ptx_loss_scale_params shrinks = { .growth = 0.5f }, update;

    BOTH("tensors is NULL", p->tensors = NULL);
    BOTH("1048577 tensors", p->tensor_count = PTX_CLIP_MAX_TENSORS + 1);
    BOTH("a plan takes", *n = PTX_CLIP_MAX_TENSORS + 1);
    BOTH("max_norm is nan", p->max_norm = NAN);
    BOTH("max_norm is -1", p->max_norm = -1);
    BOTH("max_norm is 0, as where it is left out", p->max_norm = 0);
    BOTH("group_max_norms[1] is nan", p->group_max_norms = norms; *n = 2);
    BOTH("loss_scale is -2", p->loss_scale = -2);
    BOTH(": update.growth is 0.5", p->update = &shrinks);
    BOTH("sum_row is 1; there are sum_rows 0 to 0", p->sum_row = 1);
    BOTH("sum_row is 4; there are sum_rows 0 to 2", p->sum_row = 4; p->sum_rows = 3);
    BOTH("4294967295 sum_rows of 1 groups; a plan takes 1048576 sums in all",
         p->sum_rows = UINT32_MAX);
    BOTH("1025 sum_rows of 1024 groups; a plan takes 1048576 sums in all", p->sum_rows = 1025;
         *n = 1024);
    BOTH("loss_scale_at is given, which is only read, and loss_scale_state too",
         p->loss_scale_at = p->loss_scale_state = 8);
    BOTH("loss_scale_at is given, which is only read, and update too", p->loss_scale_at = 8;
         p->update = &update);
    BOTH("tensor 0: its weight is nan", t->weight = (double)NAN);
    BOTH("tensor 0: its weight is -1", t->weight = -1);
    BOTH("tensor 0: uncounted", t->weight = 0.5; t->uncounted = true);
    // A limit of 0 is one of group_max_norms.
    set_up(NULL);
    clip_params.max_norm = step_params.max_norm = 0.0f;
    clip_params.group_max_norms = step_params.group_max_norms = &zero;
    for (unsigned k = 0; k < 2; k++) {
        require(kinds[k].describe());
        require(kinds[k].emit(NULL));
        kinds[k].destroy(create(&kinds[k]));
    }
}

static void test_clip(void **state)
{
    (void)state;

    CLIP("eps is inf", p->eps = INFINITY);
    CLIP("nonfinite is 3", p->nonfinite = (ptx_nonfinite)3);
    CLIP("tensor 1: its dtype is s32", t[1].dtype = PTX_S32);
    CLIP("tensor 1: its dtype is 99; it must be", t[1].dtype = (ptx_type)99);
    CLIP("tensor 1: its dtype is none; it must be", t[1].dtype = PTX_NONE);
    CLIP("tensor 2: its group is 2; there are groups 0 to 1", t[2].group = 2; *n = 2);
    CLIP("tensor 0", t->count = UINT64_MAX / 4 + 2); // times 4 bytes would wrap
    CLIP("tensor 1 brings the elements to", t->count = PTX_CLIP_MAX_ELEMENTS);
}

static void test_step_groups(void **state)
{
    (void)state;

    STEP("no hyperparameter groups", p->group_count = 0);
    STEP("65537 groups; a plan takes 65536", p->group_count = PTX_STEP_MAX_GROUPS + 1);
    STEP("1048577 tensors; a plan takes 1048576", p->tensor_count = PTX_CLIP_MAX_TENSORS + 1);
    STEP("gradients is 3", p->gradients = (ptx_step_gradients)3);
    STEP("group 0: rule is 32; there are 0 to ", g->rule = (ptx_step_rule)32);
    STEP("group 0: lr is -1", g->hyper.lr = -1);
    STEP("group 0: lr is nan", g->hyper.lr = NAN);
    STEP("group 0: eps is inf", g->hyper.eps = INFINITY);
    STEP("group 0: weight_decay is 1e+39", g->hyper.weight_decay = 1e39);
    STEP("group 0: weight_decay is -1", g->hyper.weight_decay = -1);
    STEP("group 0: momentum is -1; it must be finite in f32, and 0 or more",
         g->hyper.momentum = -1);
    STEP("group 0: momentum is nan", g->hyper.momentum = NAN);
    STEP("group 0: beta1 is 1; it must be 0 or more, and below 1", g->hyper.beta1 = 1);
    STEP("group 0: beta1 is -0.5", g->hyper.beta1 = -0.5);
    STEP("group 0: beta2 is nan", g->hyper.beta2 = NAN);
    STEP("group 0: beta2 is 0.99999999999;", g->hyper.beta2 = 0.99999999999);
    STEP("group 0: dampening is nan", g->hyper.dampening = NAN);
    STEP("group 0: ema_decay is -0.1; it must be from 0 to 1", g->hyper.ema_decay = -0.1);
    STEP("group 0: ema_decay is 1.001; it must be from 0 to 1", g->hyper.ema_decay = 1.001);
    STEP("group 0: ema_decay is nan", g->hyper.ema_decay = NAN);
    STEP("group 0: more[0] is 1; its rule, adamw, has no such scalar: make it 0",
         g->hyper.more[0] = 1);
    STEP("group 0: more[7] is nan", g->hyper.more[7] = NAN);
    STEP("group 0: nesterov is set, and its rule, adamw, has no such option", g->nesterov = true);
    STEP("group 0: nesterov is set, and momentum is 0: give a momentum",
         g->rule = PTX_STEP_RULE_SGD;
         g->nesterov = true; g->hyper.momentum = 0);
    STEP("group 0: hyper_at is 0x4; it must be a multiple of 8", g->hyper_at = 4);
    STEP("group 0: lr_at is 0x2; it must be a multiple of 4", g->lr_at = 2);
}

static void test_step_tensors(void **state)
{
    (void)state;
    char beyond[64];

    STEP("tensor 0: its group is 1", t->group = 1);
    STEP("tensor 0: its norm_group is 2; there are norm groups 0 to 1",
         (p->norm_group_count = 2, t->norm_group = 2));
    STEP("tensor 0: its norm_group is 4294967295", t->norm_group = UINT32_MAX);
    STEP("tensor 0: 18446744073709551615 elements", t->count = UINT64_MAX);
    STEP("tensor 0: its dtype is 39; format FULL", t->dtype = (ptx_type)39);
    STEP("tensor 0: its dtype is none; format FULL", t->dtype = PTX_NONE);
    STEP("tensor 0: gradient_dtype is -1; it must", t->gradient_dtype = (ptx_type)-1);
    snprintf(beyond, sizeof beyond, "tensor 0: format is %d; there are 0 to",
             PTX_STEP_FORMAT_COUNT);
    STEP(beyond, t->format = PTX_STEP_FORMAT_COUNT);
    STEP("tensor 0: its dtype is bf16; format FULL takes a parameter of f32", t->dtype = PTX_BF16);
    STEP("tensor 0: its dtype is f16; format REMAINDER takes a parameter of bf16",
         (t->format = PTX_STEP_FORMAT_REMAINDER, t->dtype = PTX_F16));
    STEP("tensor 0: gradient_dtype is f64", t->gradient_dtype = PTX_F64);
    STEP("tensor 0: ema_dtype is f16; it must be f32 or bf16", t->ema_dtype = PTX_F16);
    STEP("tensor 0: ema_dtype is 99", t->ema_dtype = (ptx_type)99);
    STEP("tensor 0: ema is given, and ema_dtype is not: make it f32 or bf16",
         t->ema_dtype = PTX_NONE);
    STEP("whole.stride is 3, below whole.run, 4", t->whole.run = 4; t->whole.stride = 3);
    STEP("beyond element 2^40", t->whole.first = (UINT64_C(1) << 40) + 1);
    STEP("beyond element 2^40", (t->count = 100, t->whole.first = (UINT64_C(1) << 40) - 99));
    STEP("beyond element 2^40", (t->count = 9, t->whole.run = 4, t->whole.stride = 8,
                                 t->whole.first = (UINT64_C(1) << 40) - 16));
    STEP("beyond element 2^40",
         (t->count = 1000, t->whole.run = 999, t->whole.stride = (UINT64_C(1) << 40) + 1));
    STEP("state[1] is given, and its rule, lion, has 1 state: make it 0",
         g->rule = PTX_STEP_RULE_LION;
         t->state[1] = 16);
    STEP("state[0] is given, and its rule, sgd without momentum, has 0 states: make it 0",
         g->rule = PTX_STEP_RULE_SGD;
         g->hyper.momentum = 0; t->state[0] = 16);
    STEP("beside is given, and format FULL has nothing there", t->beside = 16);
    STEP("tensor 0: absmax[1] is given, and format FULL has none", t->absmax[1] = 16);
    STEP("tensor 0: absmax[1] is given, and its rule, lion, has 1 state: make it 0",
         g->rule = PTX_STEP_RULE_LION;
         t->format = PTX_STEP_FORMAT_STATE_8BIT, t->dtype = PTX_BF16; t->state[1] = 0;
         t->absmax[1] = 16);
    STEP("tensor 0: its dtype is f16; format STATE_8BIT takes a parameter of f32 or bf16",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->dtype = PTX_F16));
    STEP("tensor 0: whole.first is 255; with format STATE_8BIT it must be a multiple of 256",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.first = 255));
    STEP("tensor 0: whole.first is 128; with format STATE_F16 it must be a multiple of 256",
         (t->format = PTX_STEP_FORMAT_STATE_F16, t->whole.first = 128));
    STEP("tensor 0: whole.run is 128; with format STATE_8BIT",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.run = 128, t->whole.stride = 512));
    STEP("tensor 0: whole.stride is 257; with format STATE_8BIT",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.run = 256, t->whole.stride = 257));
}

// ---- addresses ----------------------------------------------------------------------------------

static const struct kind *kind; ///< whose addresses are wrong
static void *moving;            ///< a plan of it

static void refuse_address(const struct input_array *of, const struct input_array *over,
                           const char *words)
{
    const bool tensors = kind == &kinds[CLIP_KIND] && over && !(over->access & INPUT_FIXED);
    char both[64];

    if (tensors) { // of a clip plan, which have one array each, and no field
        snprintf(both, sizeof both, "tensors %s and %s overlap", of->name + 7, over->name + 7);
        words = both;
    }
    for (unsigned k = 0; k < (of->access & INPUT_FIXED ? 1u : 2u); k++) {
        if (k)
            expect_invalid(kind->move(moving), kind->move_name, words);
        else
            refuse_creation(kind, words);
        if (!tensors)
            expect_failure(PTX_ERROR_INVALID, of->name);
        if (over && !tensors)
            expect_failure(PTX_ERROR_INVALID, over->name);
    }
    if (strncmp(words, "; it must be", 12) == 0)
        refuse_description(kind, words);
}

static struct input_array list[TENSORS * ARRAYS + SCALARS];
static size_t listed, scalars;

static void add(CUdeviceptr *at, const char *name, unsigned bytes, uint64_t count, unsigned access)
{
    list[listed++] = (struct input_array) { at, name, bytes, count, access, NULL };
}

// The scalars that a plan reads or writes at the caller's addresses, behind the tensors.
static void add_scalar(CUdeviceptr *at, const char *name, unsigned bytes, uint64_t count,
                       unsigned access)
{
    *at = place(TENSORS, (unsigned)scalars++);
    add(at, name, bytes, count, INPUT_OPTIONAL | INPUT_SCALAR | INPUT_FIXED | access);
}

// Of a plan with two groups, in three rows of sums. `state`: it takes the loss scale from there.
#define ADD_SCALARS(params, state)                                                                 \
    do {                                                                                           \
        (params)->sum_rows = 3;                                                                    \
        add_scalar(&(params)->max_norms_at, "max_norms_at", 4, 2, 0);                              \
        add_scalar(&(params)->found_inf_at, "found_inf_at", 4, 1, 0);                              \
        add_scalar(&(params)->found_inf_to, "found_inf_to", 4, 1, INPUT_WRITTEN);                  \
        add_scalar(&(params)->sums_at, "sums_at", 8, 6, INPUT_WRITTEN);                            \
        if (state)                                                                                 \
            add_scalar(&(params)->loss_scale_state, "loss_scale_state", 4, 2, INPUT_WRITTEN);      \
        else                                                                                       \
            add_scalar(&(params)->loss_scale_at, "loss_scale_at", 4, 1, 0);                        \
    } while (0)

static void check_addresses(void)
{
    moving = create(kind);
    input_arrays_check(list, listed, base + BYTES, refuse_address);
    require(kind->move(moving)); // unchanged
    kind->destroy(moving);
}

static void test_addresses_of_clip(void **state)
{
    (void)state;
    static const char *const names[] = { "tensor 0", "tensor 1", "tensor 2", "tensor 3" };

    kind = &kinds[CLIP_KIND];
    for (unsigned with_state = 0; with_state < 2; with_state++) {
        set_up(NULL);
        listed = scalars = 0;
        for (unsigned t = 0; t < TENSORS; t++)
            add(&clip_tensors[t].data, names[t], ptx_type_bytes(clip_tensors[t].dtype), COUNT,
                INPUT_WRITTEN);
        clip_params.group_count = 2;
        ADD_SCALARS(&clip_params, with_state);
        check_addresses();
    }
}

static void test_addresses_of_step(void **state)
{
    (void)state;
    static const char *const fields[ARRAYS] = { "parameter", "gradient", "beside",
                                                "state[0]",  "state[1]", "absmax[0]",
                                                "absmax[1]", "step",     "ema" };
    static char names[TENSORS * ARRAYS][32];

    kind = &kinds[STEP_KIND];
    for (unsigned with_state = 0; with_state < 2; with_state++) {
        set_up(NULL);
        listed = scalars = 0;
        for (unsigned k = 0; k < TENSORS * ARRAYS; k++) {
            const unsigned t = k / ARRAYS, a = k % ARRAYS;
            const uint64_t count = step_tensors[t].count;
            if (!element_bytes[t][a])
                continue;
            snprintf(names[k], sizeof *names, "tensor %u's %s", t,
                     a != BESIDE ? fields[a]
                     : t == 1    ? "master (beside)"
                                 : "remainder (beside)");
            add(address(t, a), names[k], element_bytes[t][a],
                a == STEP                        ? 1
                : a == ABSMAX || a == ABSMAX + 1 ? (count + 255) / 256
                                                 : count,
                INPUT_WRITTEN | (a == STEP       ? INPUT_SHARED | INPUT_FIXED
                                 : a == GRADIENT ? INPUT_OPTIONAL
                                                 : 0));
        }
        step_params.norm_group_count = step_params.group_count = 2;
        ADD_SCALARS(&step_params, with_state);
        add_scalar(&step_groups[0].hyper_at, "hyper_at", 8, 8, 0);
        add_scalar(&step_groups[1].lr_at, "lr_at", 4, 1, 0);
        check_addresses();
    }
}

// What is only read may be one; what is written overlaps none of it, wherever it lies.
static void test_shared_scalars(void **state)
{
    (void)state;
    const CUdeviceptr apart = place(TENSORS, 0);
    CUdeviceptr *const read[] = { &step_groups[0].lr_at, &step_params.max_norms_at,
                                  &step_params.found_inf_at, &step_params.loss_scale_at };

    step_groups[0].hyper_at = apart;
    for (unsigned k = 0; k < 4; k++)
        *read[k] = apart + 4 * (k / 2);
    step_destroy(create(&kinds[STEP_KIND]));
    for (unsigned k = 0; k < 16; k++) {
        step_params.found_inf_to = apart + 4 * k;
        refuse_creation(&kinds[STEP_KIND], k > 1 ? "group 0's hyper_at" : "overlap at 0x");
        expect_failure(PTX_ERROR_INVALID, "found_inf_to overlap at 0x");
    }
    step_params.found_inf_to = apart + 64;
    step_destroy(create(&kinds[STEP_KIND]));
    step_groups[1].lr_at = 0x1230;
    step_params.group_count = 2;
    refuse_creation(&kinds[STEP_KIND], "group 1's lr_at: the driver knows no memory");
    step_groups[1] = (struct ptx_step_group) { .hyper = step_groups[0].hyper, .hyper_at = 0x1230 };
    refuse_creation(&kinds[STEP_KIND], "group 1's hyper_at: the driver knows no memory");
    // The rows of two plans lie side by side; two groups' norms reach into the next scalar.
    set_up(NULL);
    clip_params.group_count = clip_params.sum_rows = 2;
    clip_params.sums_at = clip_params.max_norms_at = apart;
    refuse_creation(&kinds[CLIP_KIND], "sums_at overlap");
    clip_params.max_norms_at = apart + 32;
    clip_params.loss_scale_at = apart + 36;
    clip_destroy(create(&kinds[CLIP_KIND]));
    clip_params.found_inf_to = apart + 36;
    clip_params.loss_scale_at = 0;
    refuse_creation(&kinds[CLIP_KIND], "max_norms_at and found_inf_to overlap");
    step_tensors[1].step = step_tensors[2].step = step_tensors[0].step; // of several tensors
    step_destroy(create(&kinds[STEP_KIND]));
    clip_tensors[2].data = place(1, 0) + 2 * (COUNT - 4); // tensor 1's last elements
    clip_params.found_inf_to = 0;
    refuse_creation(&kinds[CLIP_KIND], "tensors 1 and 2 overlap");
}

// A tensor must not overlap the plan's tables, which may be in the memory of a freed tensor.
static void test_own_memory(void **state)
{
    (void)state;
    clip_tensors[2].count = step_tensors[2].count = 1;
    ptx_clip_plan *clip = create(&kinds[CLIP_KIND]);
    ptx_step_plan *step = create(&kinds[STEP_KIND]);
    const CUdeviceptr of_clip[] = { ptx_clip_plan_get_info(clip)->records,
                                    ptx_clip_plan_get_info(clip)->sums,
                                    ptx_clip_plan_get_info(clip)->summary };
    const CUdeviceptr of_step[] = { ptx_step_plan_get_info(step)->records,
                                    ptx_step_plan_get_info(step)->sums,
                                    ptx_step_plan_get_info(step)->summary };

    for (unsigned k = 0; k < 3; k++) {
        clip_tensors[2].data = of_clip[k];
        expect_invalid(clip_move(clip), "ptx_clip_plan_set_data",
                       "tensor 2 overlaps the plan's own memory");
        step_tensors[2].gradient = of_step[k];
        expect_invalid(step_move(step), "ptx_step_plan_set_addresses", "tensor 2's gradient");
        expect_failure(PTX_ERROR_INVALID, "the plan's own memory overlap");
    }
    ptx_clip_plan_destroy(&clip);
    ptx_step_plan_destroy(&step);
}

// Memory that was freed, of a tensor that moves, of one that stays, and of a scalar.
static void test_freed_memory(void **state)
{
    (void)state;
    static float host[1 << 20];
    const size_t bytes = (size_t)64 << 20; // drivers keep the memory of small allocations
    ptx_buffer *freed = ptx_buffer_create(gpu.device, bytes);
    const CUdeviceptr gone = ptx_buffer_address(freed), before = place(0, 0), wild = 0x1230;

    assert_non_null(freed);
    clip_params.loss_scale_state = gone + bytes - 8;
    step_tensors[0].gradient = gone;
    ptx_clip_plan *clip = create(&kinds[CLIP_KIND]);
    ptx_step_plan *step = create(&kinds[STEP_KIND]);
    ptx_buffer_destroy(&freed);
    expect_invalid(ptx_clip_plan_set_data(clip, 0, 1, &before, gpu.stream),
                   "ptx_clip_plan_set_data", "loss_scale_state: the driver knows no memory");
    expect_invalid(ptx_step_plan_set_gradients(step, 1, 1, &step_tensors[1].gradient, gpu.stream),
                   "ptx_step_plan_set_gradients",
                   "tensor 0's gradient: the driver knows no memory");
    expect_failure(PTX_ERROR_INVALID, "move it in the same call");
    expect_invalid(ptx_step_plan_set_addresses(step, 1, 1, &step_tensors[1], gpu.stream),
                   "ptx_step_plan_set_addresses", "move it in the same call");
    expect_invalid(ptx_step_plan_set_gradients(step, 0, 1, &wild, gpu.stream),
                   "ptx_step_plan_set_gradients", "it was freed, or is the host's");
    step_tensors[0].gradient = place(0, GRADIENT);
    require(ptx_step_plan_set_gradients(step, 0, 1, &step_tensors[0].gradient, gpu.stream));
    ptx_clip_plan_destroy(&clip);
    ptx_step_plan_destroy(&step);
    clip_params.loss_scale_state = 0;
    clip_tensors[0].data = (CUdeviceptr)(uintptr_t)host; // the GPU may know a page there
    refuse_creation(&kinds[CLIP_KIND], "tensor 0: ");
    clip_tensors[0].data = gone;
    refuse_creation(&kinds[CLIP_KIND], "tensor 0: the driver knows no memory at its address");
    clip_tensors[0].count = 0; // an empty tensor may have any address
    clip_destroy(create(&kinds[CLIP_KIND]));
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
            step_tensors[t].count = 0;
            for (unsigned a = 0; a < ARRAYS; a++)
                *address(t, a) = 0;
        }
        ptx_step_plan *plan = create(&kinds[STEP_KIND]);
        require(ptx_step_plan_run(plan, gpu.stream));
        for (unsigned t = 1; t < TENSORS; t++)
            assert_true(count_of(t) == 1.0f);
        ptx_step_plan_destroy(&plan);
    }
}

// ---- calls --------------------------------------------------------------------------------------

#define REFUSED(words, call, plan, ...)                                                            \
    expect_invalid(ptx_##call(plan, __VA_ARGS__), "ptx_" #call, words)

static void test_calls(void **state)
{
    (void)state;
    const CUstream s = gpu.stream;
    const struct ptx_loss_scale_state zero = { .scale = 0.0f };
    const CUdeviceptr moved[] = { base, base };
    struct ptx_clip_record records[3];

    step_groups[0].hyper_at = place(TENSORS, 0);
    ptx_clip_plan *clip = create(&kinds[CLIP_KIND]);
    ptx_step_plan *step = create(&kinds[STEP_KIND]);
    const uint64_t chunks = ptx_clip_plan_get_info(clip)->chunks;
    REFUSED("group is 1; the plan has groups 0 to 0", clip_plan_set_max_norm, clip, 1, 1, s);
    REFUSED("max_norm is nan", clip_plan_set_max_norm, clip, 0, NAN, s);
    REFUSED("loss_scale is 0", clip_plan_set_loss_scale, clip, zero, s);
    REFUSED("2 records from 0 on", clip_plan_read, clip, 0, 2, records, NULL, s);
    REFUSED("2 records from 1 on: the plan has 1 group", step_plan_read, step, 1, 2, records, NULL,
            s);
    REFUSED("2 tensors from 3 on: the plan has 4", clip_plan_set_data, clip, 3, 2, moved, s);
    REFUSED("tensors 0 and 1 overlap", clip_plan_set_data, clip, 0, 2, moved, s);
    REFUSED("data is NULL", clip_plan_set_data, clip, 0, 1, NULL, s);
    REFUSED("1 chunk from", clip_plan_apply_chunks, clip, chunks, 1, s);
    REFUSED("1 chunk from 99 on", clip_plan_norm_sq_chunks, clip, 99, 1, s);
    REFUSED("chunks from 1 on", clip_plan_norm_sq_chunks, clip, 1, UINT64_MAX, s);
    REFUSED("the scalars of group 0 are the caller's", step_plan_set_hyper, step, 0,
            &step_groups[0].hyper, s);
    ptx_clip_plan_destroy(&clip);
    ptx_step_plan_destroy(&step);
}

static void test_nothing_given(void **state)
{
    (void)state;

    assert_null(ptx_clip_plan_create(NULL, &clip_params));
    expect_failure(PTX_ERROR_INVALID, "ptx_clip_plan_create: the device is NULL");
    assert_null(ptx_step_plan_create(NULL, &step_params));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: the device is NULL");
    assert_null(ptx_clip_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "ptx_clip_plan_create: params is NULL");
    assert_null(ptx_step_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: params is NULL");
    assert_null(ptx_clip_plan_get_info(NULL));
    assert_null(ptx_step_plan_get_info(NULL));
    // Without a builder there is no text, which its finish tells.
    for (unsigned k = 0; k < 2; k++)
        require(kinds[k].emit(NULL));
    assert_null(ptx_builder_finish(NULL));
    expect_invalid(ptx_clip_emit(NULL, NULL), "ptx_clip_emit", "params is NULL");
    expect_invalid(ptx_step_emit(NULL, NULL), "ptx_step_emit", "params is NULL");
    expect_invalid(ptx_clip_describe(NULL, &(struct ptx_clip_description) { 0 }),
                   "ptx_clip_describe", "params is NULL");
    expect_invalid(ptx_step_describe(NULL, &(struct ptx_step_description) { 0 }),
                   "ptx_step_describe", "params is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_norm, set_up),
        cmocka_unit_test_setup(test_clip, set_up),
        cmocka_unit_test_setup(test_step_groups, set_up),
        cmocka_unit_test_setup(test_step_tensors, set_up),
        cmocka_unit_test_setup(test_addresses_of_clip, set_up),
        cmocka_unit_test_setup(test_addresses_of_step, set_up),
        cmocka_unit_test_setup(test_shared_scalars, set_up),
        cmocka_unit_test_setup(test_own_memory, set_up),
        cmocka_unit_test_setup(test_freed_memory, set_up),
        cmocka_unit_test_setup(test_tensors_without_elements, set_up),
        cmocka_unit_test_setup(test_calls, set_up),
        cmocka_unit_test_setup(test_nothing_given, set_up),
    };
    gpu_open(&gpu);
    memory = ptx_buffer_create(gpu.device, BYTES);
    if (!memory) {
        fprintf(stderr, "%s\n", ptx_error_message());
        return 1;
    }
    base = ptx_buffer_address(memory);
    const int failed = cmocka_run_group_tests_name("plans: bad input", tests, NULL, NULL);
    ptx_buffer_destroy(&memory);
    gpu_close(&gpu);
    return failed;
}

// SPDX-License-Identifier: MIT
#include "matrix_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix_reference.h"
#include "test.h"

enum { SEED = 77 };

// ---- memory -------------------------------------------------------------------------------------

// Some tensors begin between the boundaries of vectors.
static size_t place(size_t tensor, unsigned array)
{
    return (tensor * MATRIX_ARRAYS + array) * (size_t)MATRIX_ROOM + 64 + (tensor % 5 == 4 ? 4 : 0);
}

static ptx_type type_of(const struct matrix_shape *s, unsigned array)
{
    static const struct {
        ptx_type state, beside;
    } of[PTX_STEP_FORMAT_COUNT] = {
#define OF_FORMAT(enumerator, name, state, beside) { PTX_##state, PTX_##beside },
        PTX_STEP_FORMATS(OF_FORMAT)
#undef OF_FORMAT
    };

    return array == MATRIX_PARAMETER  ? s->parameter
           : array == MATRIX_GRADIENT ? s->gradient
           : array == MATRIX_BESIDE   ? of[s->format].beside
           : array == MATRIX_STATE    ? of[s->format].state
                                      : PTX_F32;
}

static enum ref_type ref_of(ptx_type type)
{
    return type == PTX_F16 ? REF_F16 : type == PTX_BF16 ? REF_BF16 : REF_F32;
}

void *matrix_array(const struct matrix_set *set, size_t t, unsigned array)
{
    return set->expected + place(t, array);
}

float matrix_get(const struct matrix_set *set, size_t t, unsigned array, uint64_t i)
{
    return (float)ref_load(ref_of(type_of(&set->shapes[t], array)), matrix_array(set, t, array), i);
}

void matrix_put(const struct matrix_set *set, size_t t, unsigned array, uint64_t i, float x)
{
    ref_store(ref_of(type_of(&set->shapes[t], array)), matrix_array(set, t, array), i, x);
}

static float random_float(struct random *r, float scale)
{
    return scale * ((float)random_below(r, 20001) / 10000.0f - 1);
}

void matrix_set_upload(const struct matrix_set *set)
{
    require_done(ptx_buffer_upload(set->memory, 0, set->expected, set->bytes, gpu.stream));
}

void matrix_set_check(const struct matrix_set *set, const char *what)
{
    ALLOCATED(unsigned char) *found = malloc(set->bytes);

    require_done(ptx_buffer_download(set->memory, 0, found, set->bytes, gpu.stream));
    for (size_t k = 0; k < set->bytes; k++)
        if (found[k] != set->expected[k])
            fail_msg("%s: tensor %zu, array %zu, byte %zu is %02x; expected %02x", what,
                     k / MATRIX_ROOM / MATRIX_ARRAYS, k / MATRIX_ROOM % MATRIX_ARRAYS,
                     k % MATRIX_ROOM - 64, found[k], set->expected[k]);
}

// The last tensor is AdamW's, in f32.
const struct matrix_shape matrix_adamw = { 1, 3001, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false };

static void fill(struct matrix_set *set, struct random *r)
{
    for (size_t t = 0; t < set->count; t++) {
        const struct matrix_shape *s = &set->shapes[t];
        for (uint64_t i = 0; i < s->rows * s->columns; i++) {
            const float p = random_float(r, 1);
            matrix_put(set, t, MATRIX_PARAMETER, i, p);
            if (s->format == PTX_STEP_FORMAT_MASTER) {
                memcpy((float *)matrix_array(set, t, MATRIX_BESIDE) + i, &p, sizeof p);
            } else if (s->format == PTX_STEP_FORMAT_REMAINDER) {
                const int16_t low = (int16_t)(random_below(r, 65536) - 32768);
                memcpy((int16_t *)matrix_array(set, t, MATRIX_BESIDE) + i, &low, sizeof low);
            }
            matrix_put(set, t, MATRIX_STATE, i, t % 4 == 3 ? 0 : random_float(r, 0.1f));
        }
    }
    for (uint64_t i = 0; i < matrix_adamw.columns; i++) {
        ((float *)matrix_array(set, set->count, MATRIX_PARAMETER))[i] = random_float(r, 1);
        ((float *)matrix_array(set, set->count, MATRIX_STATE))[i] = 0;
        ((float *)matrix_array(set, set->count, MATRIX_BESIDE))[i] = 0; // its v
    }
}

void matrix_set_gradients(struct matrix_set *set, struct random *r)
{
    for (size_t t = 0; t < set->count; t++)
        for (uint64_t i = 0; i < set->shapes[t].rows * set->shapes[t].columns; i++)
            matrix_put(set, t, MATRIX_GRADIENT, i, random_float(r, 1));
    for (uint64_t i = 0; i < matrix_adamw.columns; i++)
        ((float *)matrix_array(set, set->count, MATRIX_GRADIENT))[i] = random_float(r, 1);
    matrix_set_upload(set);
}

static void destroy(void *object)
{
    struct matrix_set *set = object;

    ptx_buffer_destroy(&set->memory);
    free(set->expected);
}

void matrix_set_create(struct matrix_set *set, struct random *r, const struct matrix_shape *shapes,
                       size_t count)
{
    gpu_owns(set, destroy);
    *set = (struct matrix_set) { .count = count, .shapes = shapes };
    set->bytes = place(count + 1, 0);
    set->expected = calloc(set->bytes, 1);
    set->memory = made(ptx_buffer_create(gpu.device, set->bytes));
    const CUdeviceptr at = ptx_buffer_address(set->memory);
    for (size_t t = 0; t <= count; t++) {
        const struct matrix_shape *s = t < count ? &shapes[t] : &matrix_adamw;
        set->tensors[t] = (struct ptx_step_tensor) {
            .parameter = at + place(t, MATRIX_PARAMETER),
            .gradient = s->absent ? 0 : at + place(t, MATRIX_GRADIENT),
            .state = { at + place(t, MATRIX_STATE), t < count ? 0 : at + place(t, MATRIX_BESIDE) },
            .beside = t < count && type_of(s, MATRIX_BESIDE) ? at + place(t, MATRIX_BESIDE) : 0,
            .step = at + place(t, MATRIX_COUNT),
            .count = s->rows * s->columns,
            .dtype = s->parameter,
            .gradient_dtype = s->gradient,
            .format = s->format,
            .group = t == count,
            .id = (uint32_t)t + 5,
            .columns = s->columns,
        };
    }
    set->groups[0] = (struct ptx_step_group) {
        .rule = PTX_STEP_RULE_MUON,
        .nesterov = true,
        .hyper = { .lr = 0.02, .momentum = 0.95, .weight_decay = 0.1, .eps = 1e-7 },
        .muon = &set->muon,
    };
    set->groups[1] = (struct ptx_step_group) {
        .hyper = { .lr = 0.001, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8 },
    };
    set->params = (struct ptx_step_params) { .tensors = set->tensors,
                                             .tensor_count = count + 1,
                                             .groups = set->groups,
                                             .group_count = 2,
                                             .max_norm = 3,
                                             .seed = SEED,
                                             .stream = gpu.stream };
    fill(set, r);
}

// ---- steps in plain C ---------------------------------------------------------------------------

static void expect_matrix(const struct matrix_set *set, size_t t, uint32_t step, float factor,
                          ptx_step_gradients gradients)
{
    const struct matrix_shape *s = &set->shapes[t];
    const struct ptx_step_group *group = &set->groups[0];
    const struct ptx_step_hyper *h = &group->hyper;
    struct ref_step_tensor tensor = {
        .rule = REF_MUON,
        .format = (enum ref_step_format)s->format,
        .maximize = group->maximize,
        .nesterov = group->nesterov,
        .parameter_type = ref_of(s->parameter),
        .gradient_type = ref_of(s->gradient),
        .parameter = matrix_array(set, t, MATRIX_PARAMETER),
        .gradient = matrix_array(set, t, MATRIX_GRADIENT),
        .state = { matrix_array(set, t, MATRIX_STATE) },
        .beside = matrix_array(set, t, MATRIX_BESIDE),
        .count = set->tensors[t].count,
        .hyper = { .lr = h->lr,
                   .eps = h->eps,
                   .weight_decay = h->weight_decay,
                   .momentum = h->momentum },
        .id = set->tensors[t].id,
        .seed = SEED,
    };

    ALLOCATED(uint16_t) *x = matrix_orthogonalize(&tensor, group, s->columns, factor);

    tensor.x = x;
    ref_step(&tensor, step, factor, (enum ref_step_gradients)gradients);
}

static void expect_adamw(const struct matrix_set *set, uint32_t step, float factor,
                         ptx_step_gradients gradients)
{
    const struct ptx_step_hyper *h = &set->groups[1].hyper;
    const size_t t = set->count;
    const struct ref_step_tensor tensor = {
        .rule = REF_ADAMW,
        .format = REF_FULL,
        .parameter = matrix_array(set, t, MATRIX_PARAMETER),
        .gradient = matrix_array(set, t, MATRIX_GRADIENT),
        .state = { matrix_array(set, t, MATRIX_STATE), matrix_array(set, t, MATRIX_BESIDE) },
        .count = matrix_adamw.columns,
        .hyper = { .lr = h->lr, .beta1 = h->beta1, .beta2 = h->beta2, .eps = h->eps }
    };
    ref_step(&tensor, step, factor, (enum ref_step_gradients)gradients);
}

void matrix_set_clear(const struct matrix_set *set)
{
    for (size_t t = 0; t <= set->count; t++)
        if (set->tensors[t].gradient)
            memset(matrix_array(set, t, MATRIX_GRADIENT), 0,
                   (size_t)set->tensors[t].count * ptx_type_bytes(set->tensors[t].gradient_dtype));
}

void matrix_set_expect(const struct matrix_set *set, const ptx_step_plan *plan, uint32_t step)
{
    const ptx_step_gradients gradients = set->params.gradients;
    struct ptx_clip_record record;

    require_done(ptx_step_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
    assert_true(record.norm > 0 && record.found_inf == 0);
    for (size_t t = 0; t < set->count; t++)
        if (set->tensors[t].gradient)
            expect_matrix(set, t, step, record.factor, gradients);
    expect_adamw(set, step, record.factor, gradients);
    for (size_t t = 0; t <= set->count; t++)
        if (set->tensors[t].gradient && set->tensors[t].count)
            *(float *)matrix_array(set, t, MATRIX_COUNT) = (float)step;
    if (gradients == PTX_STEP_GRADIENTS_ZERO)
        matrix_set_clear(set);
}

ptx_step_plan *matrix_plan(const struct matrix_set *set)
{
    return made(ptx_step_plan_create(gpu.device, &set->params));
}

// Steps in the forms of plan_run(), from the one of this number on.
static void steps_in_forms(struct matrix_set *set, struct random *r, unsigned form, uint32_t count)
{
    OWNED(ptx_step_plan) *plan = matrix_plan(set);
    const struct any_plan any = { .step = plan };
    OWNED(ptx_graph) *graph = plan_capture(any);
    char what[40];

    for (uint32_t step = 1; step <= count; step++) {
        matrix_set_gradients(set, r);
        plan_run(any, (enum plan_form)((form + step) % 3), graph);
        matrix_set_expect(set, plan, step);
        snprintf(what, sizeof what, "step %u", step);
        matrix_set_check(set, what);
    }
}

void matrix_set_steps(struct matrix_set *set, struct random *r)
{
    steps_in_forms(set, r, 0, 3);
}

void matrix_set_two_steps(struct matrix_set *set, struct random *r, unsigned form)
{
    steps_in_forms(set, r, form, 2);
}

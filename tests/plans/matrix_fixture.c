// SPDX-License-Identifier: MIT
#include "matrix_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/muon_products.h"
#include "reference/half.h"
#include "reference/reference.h"
#include "reference/step.h"
#include "test.h"

enum { PART = 1024, WARP = 32, BLOCK = 256, SEED = 77 };

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

// ---- the formulas in plain C --------------------------------------------------------------------

// Of a matrix: G * G, m * m, m * G, in the order of the kernel.
static void sums_of(const struct matrix_set *set, size_t t, double sum[3])
{
    const uint64_t n = set->tensors[t].count, parts = (n + PART - 1) / PART;
    double all[3][BLOCK] = { { 0 } };

    for (uint64_t part = 0; part < parts; part++) {
        double of[3][WARP] = { { 0 } };
        for (uint64_t i = part * PART; i < n && i < (part + 1) * PART; i++) {
            const double g = matrix_get(set, t, MATRIX_GRADIENT, i),
                         m = matrix_get(set, t, MATRIX_STATE, i);
            const uint64_t lane = i / 4 % WARP; // four in a row
            of[0][lane] += g * g;               // exact products
            of[1][lane] += m * m;
            of[2][lane] += m * g;
        }
        for (unsigned k = 0; k < 3; k++)
            all[k][part % BLOCK] += ref_block_sum(of[k], WARP);
    }
    for (unsigned k = 0; k < 3; k++)
        sum[k] = ref_block_sum(all[k], BLOCK);
}

// What an update is divided by; infinity for one that is shorter than any f32.
static float scale_of(const struct matrix_set *set, const struct ptx_step_group *group, size_t t,
                      float factor)
{
    const float momentum = (float)group->hyper.momentum, eps = (float)group->hyper.eps;
    const double mu = momentum, a = group->nesterov ? mu * mu : mu;
    const double b = (1 - a) * (group->maximize ? -(double)factor : (double)factor);
    double sum[3];

    sums_of(set, t, sum);
    const double m_m = a * a * sum[1], m_g = a * b * sum[2], g_g = b * b * sum[0];
    const double square = m_m + 2 * m_g + g_g;
    const double root = sqrt(square > 0 ? square : 0);
    const double parts = 0x1p-20 * (sqrt(m_m) + sqrt(g_g));
    const double length = root > parts ? root : parts;
    const float scale = (float)(length > eps ? length : (double)eps);
    return scale == 0 ? INFINITY : scale;
}

static uint32_t random_bits(const struct matrix_set *set, size_t t, uint64_t i, uint32_t step,
                            uint32_t which)
{
    const uint32_t counter[4] = { (uint32_t)(i / 8), which << 29, step, set->tensors[t].id };
    const uint32_t key[2] = { SEED, 0 };
    uint32_t word[4];

    ref_philox(counter, key, word);
    return i % 2 ? word[i % 8 / 2] >> 16 : word[i % 8 / 2] & 0xffff;
}

static void put_randomly(const struct matrix_set *set, size_t t, unsigned array, uint64_t i,
                         float x, uint32_t random)
{
    const uint16_t half = (uint16_t)((bits_of_f32(x) + random) >> 16);

    memcpy((uint16_t *)matrix_array(set, t, array) + i, &half, sizeof half);
}

static float parameter_of(const struct matrix_set *set, size_t t, uint64_t i)
{
    uint16_t high;
    int16_t low;
    float p;

    if (set->shapes[t].format == PTX_STEP_FORMAT_MASTER) {
        memcpy(&p, (float *)matrix_array(set, t, MATRIX_BESIDE) + i, sizeof p);
        return p;
    }
    if (set->shapes[t].format != PTX_STEP_FORMAT_REMAINDER)
        return matrix_get(set, t, MATRIX_PARAMETER, i);
    memcpy(&high, (uint16_t *)matrix_array(set, t, MATRIX_PARAMETER) + i, sizeof high);
    memcpy(&low, (int16_t *)matrix_array(set, t, MATRIX_BESIDE) + i, sizeof low);
    if (!(high & 0x7fff) && low < 0)
        low = 0;
    return f32_of_bits(((uint32_t)high << 16) + (uint32_t)low);
}

static void set_parameter(const struct matrix_set *set, size_t t, uint64_t i, float p,
                          uint32_t step)
{
    const uint32_t bits = bits_of_f32(p);
    const uint16_t high = (uint16_t)((bits + 0x8000) >> 16), low = (uint16_t)bits;

    switch (set->shapes[t].format) {
    case PTX_STEP_FORMAT_REMAINDER:
        memcpy((uint16_t *)matrix_array(set, t, MATRIX_PARAMETER) + i, &high, sizeof high);
        memcpy((uint16_t *)matrix_array(set, t, MATRIX_BESIDE) + i, &low, sizeof low);
        return;
    case PTX_STEP_FORMAT_STOCHASTIC:
        put_randomly(set, t, MATRIX_PARAMETER, i, p, random_bits(set, t, i, step, 0));
        return;
    case PTX_STEP_FORMAT_MASTER:
        memcpy((float *)matrix_array(set, t, MATRIX_BESIDE) + i, &p, sizeof p);
        matrix_put(set, t, MATRIX_PARAMETER, i, p);
        return;
    default:
        matrix_put(set, t, MATRIX_PARAMETER, i, p);
    }
}

// ---- products, of one matrix alone
// ---------------------------------------------------------------

// X and the matrix have other orders where it has more rows than columns.
static uint64_t x_place(const struct matrix_shape *s, uint64_t i)
{
    const uint64_t row = i / s->columns, column = i % s->columns;
    const bool turns = s->rows > s->columns;
    const uint64_t line = muon_pitch((uint32_t)(turns ? s->rows : s->columns)) / 2;

    return turns ? column * line + row : row * line + column;
}

// `x`: f16, in the order of the tensor; replaced.
static void orthogonalize(const struct matrix_set *set, size_t t, uint16_t *x)
{
    static const float usual[3] = { 3.4445f, -4.7750f, 2.0315f };
    const struct matrix_shape *s = &set->shapes[t];
    const bool turns = s->rows > s->columns;
    struct muon_matrix matrix = { .rows = (uint32_t)(turns ? s->columns : s->rows),
                                  .columns = (uint32_t)(turns ? s->rows : s->columns) };
    float triples[PTX_MUON_MOST_STEPS][3];
    const struct muon_schedule schedule = { set->muon.steps, (const float(*)[3])triples };
    const struct muon_set one = {
        .matrices = &matrix, .count = 1, .schedules = &schedule, .schedule_count = 1
    };
    const uint64_t n = s->rows * s->columns;
    uint64_t bytes;

    for (uint32_t k = 0; k < set->muon.steps; k++)
        memcpy(triples[k], set->muon.triples ? set->muon.triples + 3 * k : usual, sizeof usual);
    require(ptxp_muon_layout(&one, &bytes));
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, (size_t)bytes);
    ALLOCATED(uint16_t) *image = calloc((size_t)bytes, 1);
    for (uint64_t i = 0; i < n; i++)
        image[matrix.x / 2 + x_place(s, i)] = x[i];
    require(ptx_buffer_upload(memory, 0, image, (size_t)bytes, gpu.stream));
    struct muon_products *products =
        ptxp_muon_create(gpu.device, &one, ptx_buffer_address(memory), NULL, gpu.stream);
    assert_non_null(products);
    require(ptxp_muon_run(products, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, image, (size_t)bytes, gpu.stream));
    for (uint64_t i = 0; i < n; i++)
        x[i] = image[matrix.out / 2 + x_place(s, i)];
    ptxp_muon_destroy(products);
}

// ---- steps in plain C ---------------------------------------------------------------------------

static double adjust_of(const struct matrix_set *set, size_t t)
{
    const struct matrix_shape *s = &set->shapes[t];
    const double a = (double)(set->muon.in_by_out ? s->columns : s->rows);
    const double b = (double)(set->muon.in_by_out ? s->rows : s->columns);

    return set->muon.adjust == PTX_MUON_ADJUST_ORIGINAL ? sqrt(a > b ? a / b : 1)
                                                        : 0.2 * sqrt(a > b ? a : b);
}

static void expect_matrix(const struct matrix_set *set, size_t t, uint32_t step, float factor,
                          ptx_step_gradients gradients)
{
    const struct ptx_step_group *group = &set->groups[0];
    const float scale = scale_of(set, group, t, factor), momentum = (float)group->hyper.momentum;
    const float rest = 1 - momentum, lr = (float)group->hyper.lr;
    const float decay = lr * (float)group->hyper.weight_decay;
    const float rate = (float)((double)lr * adjust_of(set, t));

    const uint64_t n = set->tensors[t].count;
    ALLOCATED(uint16_t) *x = calloc((size_t)n + 1, sizeof *x);

    for (uint64_t i = 0; i < n; i++) {
        const float scaled = matrix_get(set, t, MATRIX_GRADIENT, i) * factor;
        const float g = group->maximize ? -scaled : scaled;
        float m = matrix_get(set, t, MATRIX_STATE, i);
        m = fmaf(rest, g - m, m);
        const float u = group->nesterov ? fmaf(-rest, m - g, m) : m;
        if (set->shapes[t].format == PTX_STEP_FORMAT_STOCHASTIC)
            put_randomly(set, t, MATRIX_STATE, i, m, random_bits(set, t, i, step, 4));
        else
            matrix_put(set, t, MATRIX_STATE, i, m);
        ref_store(REF_F16, x, i, u / scale);
        if (gradients == PTX_STEP_GRADIENTS_WRITE)
            matrix_put(set, t, MATRIX_GRADIENT, i, scaled);
    }
    if (n && set->muon.steps)
        orthogonalize(set, t, x);
    for (uint64_t i = 0; i < n; i++) {
        float p = parameter_of(set, t, i);
        p = fmaf(-decay, p, p);
        p = fmaf(-rate, (float)ref_load(REF_F16, x, i), p);
        set_parameter(set, t, i, p, step);
    }
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

// SPDX-License-Identifier: MIT
// Step plans with matrices, compared with plain C that is written from the formulas of muon.h:
// every format, shapes that tiles cut, phases and graphs, beside AdamW; and what is refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "plans/muon_products.h"
#include "reference/fp8.h"
#include "reference/half.h"
#include "reference/reference.h"
#include "reference/step.h"
#include "test.h"

static struct gpu gpu;

enum { MOST = 13, ARRAYS = 5, ROOM = 40000 * 4, PART = 1024, WARP = 32, BLOCK = 256 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, COUNT };
enum { SEED = 77 };

struct shape {
    uint64_t rows, columns;
    ptx_step_format format;
    ptx_type parameter, gradient;
    bool absent;
};

struct set {
    size_t count; // of matrices, behind which AdamW has a tensor
    const struct shape *shapes;
    struct ptx_step_tensor tensors[MOST + 1];
    struct ptx_step_group groups[2];
    struct ptx_muon_params muon;
    struct ptx_step_params params;
    ptx_buffer *memory;
    unsigned char *expected;
    size_t bytes;
};

// ---- memory -------------------------------------------------------------------------------------

// Some tensors begin between the boundaries of vectors.
static size_t place(size_t tensor, unsigned array)
{
    return (tensor * ARRAYS + array) * (size_t)ROOM + 64 + (tensor % 5 == 4 ? 4 : 0);
}

static ptx_type type_of(const struct shape *s, unsigned array)
{
    static const struct {
        ptx_type state, beside;
    } of[PTX_STEP_FORMAT_COUNT] = {
#define OF_FORMAT(enumerator, name, state, beside) { PTX_##state, PTX_##beside },
        PTX_STEP_FORMATS(OF_FORMAT)
#undef OF_FORMAT
    };

    return array == PARAMETER  ? s->parameter
           : array == GRADIENT ? s->gradient
           : array == BESIDE   ? of[s->format].beside
           : array == STATE    ? of[s->format].state
                               : PTX_F32;
}

static enum ref_type ref_of(ptx_type type)
{
    return type == PTX_F16 ? REF_F16 : type == PTX_BF16 ? REF_BF16 : REF_F32;
}

static void *array_of(const struct set *set, size_t t, unsigned array)
{
    return set->expected + place(t, array);
}

static float get(const struct set *set, size_t t, unsigned array, uint64_t i)
{
    return (float)ref_load(ref_of(type_of(&set->shapes[t], array)), array_of(set, t, array), i);
}

static void put(const struct set *set, size_t t, unsigned array, uint64_t i, float x)
{
    ref_store(ref_of(type_of(&set->shapes[t], array)), array_of(set, t, array), i, x);
}

static float random_float(struct random *r, float scale)
{
    return scale * ((float)random_below(r, 20001) / 10000.0f - 1);
}

static void upload(const struct set *set)
{
    require(ptx_buffer_upload(set->memory, 0, set->expected, set->bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
}

static void check(const struct set *set, const char *what)
{
    unsigned char *found = malloc(set->bytes);

    require(ptx_buffer_download(set->memory, 0, found, set->bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    for (size_t k = 0; k < set->bytes; k++)
        if (found[k] != set->expected[k])
            fail_msg("%s: tensor %zu, array %zu, byte %zu is %02x; expected %02x", what,
                     k / ROOM / ARRAYS, k / ROOM % ARRAYS, k % ROOM - 64, found[k],
                     set->expected[k]);
    free(found);
}

// The last tensor is AdamW's, in f32.
static const struct shape of_adamw = { 1, 3001, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false };

static void fill(struct set *set, struct random *r)
{
    for (size_t t = 0; t < set->count; t++) {
        const struct shape *s = &set->shapes[t];
        for (uint64_t i = 0; i < s->rows * s->columns; i++) {
            const float p = random_float(r, 1);
            put(set, t, PARAMETER, i, p);
            if (s->format == PTX_STEP_FORMAT_MASTER) {
                memcpy((float *)array_of(set, t, BESIDE) + i, &p, sizeof p);
            } else if (s->format == PTX_STEP_FORMAT_REMAINDER) {
                const int16_t low = (int16_t)(random_below(r, 65536) - 32768);
                memcpy((int16_t *)array_of(set, t, BESIDE) + i, &low, sizeof low);
            }
            put(set, t, STATE, i, t % 4 == 3 ? 0 : random_float(r, 0.1f));
        }
    }
    for (uint64_t i = 0; i < of_adamw.columns; i++) {
        ((float *)array_of(set, set->count, PARAMETER))[i] = random_float(r, 1);
        ((float *)array_of(set, set->count, STATE))[i] = 0;
        ((float *)array_of(set, set->count, BESIDE))[i] = 0; // its v
    }
}

static void fill_gradients(struct set *set, struct random *r)
{
    for (size_t t = 0; t < set->count; t++)
        for (uint64_t i = 0; i < set->shapes[t].rows * set->shapes[t].columns; i++)
            put(set, t, GRADIENT, i, random_float(r, 1));
    for (uint64_t i = 0; i < of_adamw.columns; i++)
        ((float *)array_of(set, set->count, GRADIENT))[i] = random_float(r, 1);
    upload(set);
}

static void create(struct set *set, struct random *r, const struct shape *shapes, size_t count)
{
    *set = (struct set) { .count = count, .shapes = shapes };
    set->bytes = place(count + 1, 0);
    set->expected = calloc(set->bytes, 1);
    set->memory = ptx_buffer_create(gpu.device, set->bytes);
    assert_non_null(set->memory);
    const CUdeviceptr at = ptx_buffer_address(set->memory);
    for (size_t t = 0; t <= count; t++) {
        const struct shape *s = t < count ? &shapes[t] : &of_adamw;
        set->tensors[t] = (struct ptx_step_tensor) {
            .parameter = at + place(t, PARAMETER),
            .gradient = s->absent ? 0 : at + place(t, GRADIENT),
            .state = { at + place(t, STATE), t < count ? 0 : at + place(t, BESIDE) },
            .beside = t < count && type_of(s, BESIDE) ? at + place(t, BESIDE) : 0,
            .step = at + place(t, COUNT),
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

static void destroy(struct set *set)
{
    ptx_buffer_destroy(&set->memory);
    free(set->expected);
}

// ---- the formulas in plain C --------------------------------------------------------------------

// Of a matrix: G * G, m * m, m * G, in the order of the kernel.
static void sums_of(const struct set *set, size_t t, double sum[3])
{
    const uint64_t n = set->tensors[t].count, parts = (n + PART - 1) / PART;
    double all[3][BLOCK] = { { 0 } };

    for (uint64_t part = 0; part < parts; part++) {
        double of[3][WARP] = { { 0 } };
        for (uint64_t i = part * PART; i < n && i < (part + 1) * PART; i++) {
            const double g = get(set, t, GRADIENT, i), m = get(set, t, STATE, i);
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
static float scale_of(const struct set *set, const struct ptx_step_group *group, size_t t,
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

static uint32_t random_bits(const struct set *set, size_t t, uint64_t i, uint32_t step,
                            uint32_t which)
{
    const uint32_t counter[4] = { (uint32_t)(i / 8), which << 29, step, set->tensors[t].id };
    const uint32_t key[2] = { SEED, 0 };
    uint32_t word[4];

    ref_philox(counter, key, word);
    return i % 2 ? word[i % 8 / 2] >> 16 : word[i % 8 / 2] & 0xffff;
}

static void put_randomly(const struct set *set, size_t t, unsigned array, uint64_t i, float x,
                         uint32_t random)
{
    const uint16_t half = (uint16_t)((bits_of_f32(x) + random) >> 16);

    memcpy((uint16_t *)array_of(set, t, array) + i, &half, sizeof half);
}

static float parameter_of(const struct set *set, size_t t, uint64_t i)
{
    uint16_t high;
    int16_t low;
    float p;

    if (set->shapes[t].format == PTX_STEP_FORMAT_MASTER) {
        memcpy(&p, (float *)array_of(set, t, BESIDE) + i, sizeof p);
        return p;
    }
    if (set->shapes[t].format != PTX_STEP_FORMAT_REMAINDER)
        return get(set, t, PARAMETER, i);
    memcpy(&high, (uint16_t *)array_of(set, t, PARAMETER) + i, sizeof high);
    memcpy(&low, (int16_t *)array_of(set, t, BESIDE) + i, sizeof low);
    if (!(high & 0x7fff) && low < 0)
        low = 0;
    return f32_of_bits(((uint32_t)high << 16) + (uint32_t)low);
}

static void set_parameter(const struct set *set, size_t t, uint64_t i, float p, uint32_t step)
{
    const uint32_t bits = bits_of_f32(p);
    const uint16_t high = (uint16_t)((bits + 0x8000) >> 16), low = (uint16_t)bits;

    switch (set->shapes[t].format) {
    case PTX_STEP_FORMAT_REMAINDER:
        memcpy((uint16_t *)array_of(set, t, PARAMETER) + i, &high, sizeof high);
        memcpy((uint16_t *)array_of(set, t, BESIDE) + i, &low, sizeof low);
        return;
    case PTX_STEP_FORMAT_STOCHASTIC:
        put_randomly(set, t, PARAMETER, i, p, random_bits(set, t, i, step, 0));
        return;
    case PTX_STEP_FORMAT_MASTER:
        memcpy((float *)array_of(set, t, BESIDE) + i, &p, sizeof p);
        put(set, t, PARAMETER, i, p);
        return;
    default:
        put(set, t, PARAMETER, i, p);
    }
}

// ---- products, of one matrix alone: other tests compare those with plain C
// --------------------------

// X and the matrix have other orders where it has more rows than columns.
static uint64_t x_place(const struct shape *s, uint64_t i)
{
    const uint64_t row = i / s->columns, column = i % s->columns;
    const bool turns = s->rows > s->columns;
    const uint64_t line = muon_pitch((uint32_t)(turns ? s->rows : s->columns)) / 2;

    return turns ? column * line + row : row * line + column;
}

// `x`: f16, in the order of the tensor; replaced.
static void orthogonalize(const struct set *set, size_t t, uint16_t *x)
{
    static const float usual[3] = { 3.4445f, -4.7750f, 2.0315f };
    const struct shape *s = &set->shapes[t];
    const bool turns = s->rows > s->columns;
    struct muon_matrix matrix = { .rows = (uint32_t)(turns ? s->columns : s->rows),
                                  .columns = (uint32_t)(turns ? s->rows : s->columns) };
    float triples[PTX_MUON_MOST_STEPS][3];
    const struct muon_schedule schedule = { set->muon.steps, (const float(*)[3])triples };
    const struct muon_set one = { &matrix, 1, &schedule, 1 };
    const uint64_t n = s->rows * s->columns;
    uint64_t bytes;

    for (uint32_t k = 0; k < set->muon.steps; k++)
        memcpy(triples[k], set->muon.triples ? set->muon.triples + 3 * k : usual, sizeof usual);
    require(ptxp_muon_layout(&one, &bytes));
    ptx_buffer *memory = ptx_buffer_create(gpu.device, (size_t)bytes);
    uint16_t *image = calloc((size_t)bytes, 1);
    for (uint64_t i = 0; i < n; i++)
        image[matrix.x / 2 + x_place(s, i)] = x[i];
    require(ptx_buffer_upload(memory, 0, image, (size_t)bytes, gpu.stream));
    struct muon_products *products =
        ptxp_muon_create(gpu.device, &one, ptx_buffer_address(memory), NULL, gpu.stream);
    assert_non_null(products);
    require(ptxp_muon_run(products, gpu.stream));
    require(ptx_buffer_download(memory, 0, image, (size_t)bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    for (uint64_t i = 0; i < n; i++)
        x[i] = image[matrix.out / 2 + x_place(s, i)];
    ptxp_muon_destroy(products);
    ptx_buffer_destroy(&memory);
    free(image);
}

// ---- steps in plain C ---------------------------------------------------------------------------

static double adjust_of(const struct set *set, size_t t)
{
    const struct shape *s = &set->shapes[t];
    const double a = (double)(set->muon.in_by_out ? s->columns : s->rows);
    const double b = (double)(set->muon.in_by_out ? s->rows : s->columns);

    return set->muon.adjust == PTX_MUON_ADJUST_ORIGINAL ? sqrt(a > b ? a / b : 1)
                                                        : 0.2 * sqrt(a > b ? a : b);
}

static void expect_matrix(const struct set *set, size_t t, uint32_t step, float factor,
                          ptx_step_gradients gradients)
{
    const struct ptx_step_group *group = &set->groups[0];
    const float scale = scale_of(set, group, t, factor), momentum = (float)group->hyper.momentum;
    const float rest = 1 - momentum, lr = (float)group->hyper.lr;
    const float decay = lr * (float)group->hyper.weight_decay;
    const float rate = (float)((double)lr * adjust_of(set, t));

    const uint64_t n = set->tensors[t].count;
    uint16_t *x = calloc((size_t)n + 1, sizeof *x);

    for (uint64_t i = 0; i < n; i++) {
        const float scaled = get(set, t, GRADIENT, i) * factor;
        const float g = group->maximize ? -scaled : scaled;
        float m = get(set, t, STATE, i);
        m = fmaf(rest, g - m, m);
        const float u = group->nesterov ? fmaf(-rest, m - g, m) : m;
        if (set->shapes[t].format == PTX_STEP_FORMAT_STOCHASTIC)
            put_randomly(set, t, STATE, i, m, random_bits(set, t, i, step, 4));
        else
            put(set, t, STATE, i, m);
        ref_store(REF_F16, x, i, u / scale);
        if (gradients == PTX_STEP_GRADIENTS_WRITE)
            put(set, t, GRADIENT, i, scaled);
    }
    if (n && set->muon.steps)
        orthogonalize(set, t, x);
    for (uint64_t i = 0; i < n; i++) {
        float p = parameter_of(set, t, i);
        p = fmaf(-decay, p, p);
        p = fmaf(-rate, (float)ref_load(REF_F16, x, i), p);
        set_parameter(set, t, i, p, step);
    }
    free(x);
}

static void expect_adamw(const struct set *set, uint32_t step, float factor,
                         ptx_step_gradients gradients)
{
    const struct ptx_step_hyper *h = &set->groups[1].hyper;
    const size_t t = set->count;
    const struct ref_step_tensor tensor = {
        .rule = REF_ADAMW,
        .format = REF_FULL,
        .parameter = array_of(set, t, PARAMETER),
        .gradient = array_of(set, t, GRADIENT),
        .state = { array_of(set, t, STATE), array_of(set, t, BESIDE) },
        .count = of_adamw.columns,
        .hyper = { .lr = h->lr, .beta1 = h->beta1, .beta2 = h->beta2, .eps = h->eps }
    };
    ref_step(&tensor, step, factor, (enum ref_step_gradients)gradients);
}

static void clear_gradients(const struct set *set)
{
    for (size_t t = 0; t <= set->count; t++)
        if (set->tensors[t].gradient)
            memset(array_of(set, t, GRADIENT), 0,
                   (size_t)set->tensors[t].count * ptx_type_bytes(set->tensors[t].gradient_dtype));
}

// What a step that is not skipped does, with the factor that the plan has left.
static void expect(const struct set *set, const ptx_step_plan *plan, uint32_t step)
{
    const ptx_step_gradients gradients = set->params.gradients;
    struct ptx_clip_record record;

    require(ptx_step_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    assert_true(record.norm > 0 && record.found_inf == 0);
    for (size_t t = 0; t < set->count; t++)
        if (set->tensors[t].gradient)
            expect_matrix(set, t, step, record.factor, gradients);
    expect_adamw(set, step, record.factor, gradients);
    for (size_t t = 0; t <= set->count; t++)
        if (set->tensors[t].gradient && set->tensors[t].count)
            *(float *)array_of(set, t, COUNT) = (float)step;
    if (gradients == PTX_STEP_GRADIENTS_ZERO)
        clear_gradients(set);
}

// ---- runs ---------------------------------------------------------------------------------------

static const struct shape full[] = {
    { 1, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 1, 70, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 70, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_BF16, false },
    { 5, 3, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 64, 64, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 65, 131, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F16, false },
    { 131, 65, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 9, 9, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
    { 0, 7, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 72, 36, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 40, 260, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 6147, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },  // blocks have several tiles
    { 1, 12293, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false }, // likewise
};
static const struct shape formats[] = {
    { 66, 70, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
    { 70, 20, PTX_STEP_FORMAT_MASTER, PTX_F16, PTX_F16, false },
    { 66, 33, PTX_STEP_FORMAT_REMAINDER, PTX_BF16, PTX_F32, false },
    { 33, 66, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
    { 67, 15, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_F32, false },
    { 30, 31, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
    { 8, 4, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
};

static ptx_step_plan *plan_of(const struct set *set)
{
    ptx_step_plan *plan = ptx_step_plan_create(gpu.device, &set->params);

    if (!plan)
        fail_msg("%s", ptx_error_message());
    return plan;
}

// Three steps: in one run, in phases, by a graph.
static void steps(struct set *set, struct random *r)
{
    ptx_step_plan *plan = plan_of(set);
    const struct any_plan any = { .step = plan };
    ptx_graph *graph = plan_capture(&gpu, any);
    char what[40];

    for (uint32_t step = 1; step <= 3; step++) {
        fill_gradients(set, r);
        plan_run(&gpu, any, (enum plan_form)(step % 3), graph);
        expect(set, plan, step);
        snprintf(what, sizeof what, "step %u", step);
        check(set, what);
    }
    ptx_graph_destroy(&graph);
    ptx_step_plan_destroy(&plan);
}

TEST(test_shapes)
{
    struct random r = gpu_random(&gpu, "shapes of matrices");
    struct set set;

    for (unsigned k = 0; k < 3; k++) {
        create(&set, &r, full, sizeof full / sizeof *full);
        set.groups[0].nesterov = k != 1;
        set.groups[0].maximize = k == 1;
        set.muon.adjust = k ? PTX_MUON_ADJUST_MATCH_RMS_ADAMW : PTX_MUON_ADJUST_ORIGINAL;
        set.muon.in_by_out = k == 2;
        set.params.gradients = (ptx_step_gradients)k;
        set.params.max_norm = k == 2 ? INFINITY : 3;
        steps(&set, &r);
        destroy(&set);
    }
}

TEST(test_formats)
{
    struct random r = gpu_random(&gpu, "formats of matrices");
    struct set set;

    for (unsigned k = 0; k < 3; k++) {
        create(&set, &r, formats, sizeof formats / sizeof *formats);
        set.groups[0].nesterov = k == 1;
        set.params.gradients = (ptx_step_gradients)k;
        steps(&set, &r);
        destroy(&set);
    }
}

// With products: each matrix gets the bits that it gets alone.
TEST(test_products)
{
    static const float triples[] = { 3.4445f, -4.775f, 2.0315f, 2.0f, -1.5f, 0.5f };
    static const struct shape shapes[] = {
        { 20, 30, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 70, 40, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
        { 24, 24, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
        { 1, 33, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 130, 136, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    struct random r = gpu_random(&gpu, "products of matrices");
    struct set set;

    for (unsigned k = 0; k < 2; k++) {
        create(&set, &r, shapes, sizeof shapes / sizeof *shapes - k);
        set.muon.steps = k ? 5 : 2;
        set.muon.triples = k ? NULL : triples;
        steps(&set, &r);
        destroy(&set);
    }
}

// A step that is skipped writes nothing, but clears gradients that are to be.
TEST(test_skips)
{
    struct random r = gpu_random(&gpu, "skipped matrices");
    struct set set;

    for (unsigned k = 0; k < 3; k++) {
        create(&set, &r, formats, sizeof formats / sizeof *formats);
        set.params.gradients = (ptx_step_gradients)k;
        ptx_step_plan *plan = plan_of(&set);
        fill_gradients(&set, &r);
        put(&set, k, GRADIENT, 17, k == 1 ? NAN : INFINITY);
        upload(&set);
        require(ptx_step_plan_run(plan, gpu.stream));
        if (k == PTX_STEP_GRADIENTS_ZERO)
            clear_gradients(&set);
        check(&set, "a skipped step");
        ptx_step_plan_destroy(&plan);
        destroy(&set);
    }
}

// Scalars change; a gradient and a matrix move away; a guard skips.
TEST(test_changes)
{
    struct random r = gpu_random(&gpu, "changes of matrices");
    struct set set;
    create(&set, &r, formats, sizeof formats / sizeof *formats);
    const CUdeviceptr skip = ptx_buffer_address(set.memory);
    const struct ptx_guard_params guards = { .skip_at = skip };
    set.params.guards = &guards;
    ptx_step_plan *plan = plan_of(&set);

    set.groups[0].hyper.lr = 0.3;
    set.groups[0].hyper.momentum = 0.5;
    set.groups[0].hyper.eps = 100;
    require(ptx_step_plan_set_hyper(plan, 0, &set.groups[0].hyper, gpu.stream));
    fill_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect(&set, plan, 1);
    check(&set, "other scalars");

    const CUdeviceptr none = 0, gradient = set.tensors[1].gradient;
    require(ptx_step_plan_set_gradients(plan, 1, 1, &none, gpu.stream));
    set.tensors[1].gradient = 0;
    fill_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect(&set, plan, 2);
    check(&set, "a matrix without a gradient");

    set.tensors[1].gradient = gradient;
    require(ptx_step_plan_set_addresses(plan, 1, 1, &set.tensors[1], gpu.stream));
    *(float *)set.expected = 1;
    fill_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    check(&set, "a step that a guard skips");
    ptx_step_plan_destroy(&plan);
    destroy(&set);
}

// Without eps, an update that is shorter than any f32 is zeros.
TEST(test_shortest_update)
{
    static const struct shape shapes[] = {
        { 3, 5, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    struct random r = gpu_random(&gpu, "the shortest update");
    struct set set;

    create(&set, &r, shapes, 1);
    set.groups[0].hyper.eps = 0;
    ptx_step_plan *plan = plan_of(&set);
    memset(array_of(&set, 0, GRADIENT), 0, 15 * sizeof(float));
    memset(array_of(&set, 0, STATE), 0, 15 * sizeof(float));
    memset(array_of(&set, 1, GRADIENT), 0, (size_t)of_adamw.columns * sizeof(float));
    put(&set, 0, GRADIENT, 7, 0x1p-149f);
    upload(&set);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect(&set, plan, 1);
    check(&set, "the shortest update");
    assert_true(isfinite(get(&set, 0, PARAMETER, 7)));
    ptx_step_plan_destroy(&plan);
    destroy(&set);
}

// Sums of gradients in accumulators, which are what the step sees.
TEST(test_accumulators)
{
    static const struct shape shapes[] = {
        { 65, 30, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 33, 66, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
    };
    enum { TENSORS = 3 };
    struct random r = gpu_random(&gpu, "accumulators of matrices");
    struct set set;
    create(&set, &r, shapes, TENSORS - 1);
    ptx_buffer *sums = ptx_buffer_create(gpu.device, (size_t)TENSORS * ROOM);
    float *first[TENSORS], *last[TENSORS];

    require(ptx_buffer_fill(sums, 0, 0, (size_t)TENSORS * ROOM, gpu.stream));
    for (size_t t = 0; t < TENSORS; t++) {
        set.tensors[t].accumulator = ptx_buffer_address(sums) + t * ROOM + 256;
        set.tensors[t].accumulated = ptx_buffer_address(sums) + t * ROOM;
        first[t] = calloc((size_t)set.tensors[t].count, sizeof(float));
        last[t] = calloc((size_t)set.tensors[t].count, sizeof(float));
    }
    ptx_step_plan *plan = plan_of(&set);
    fill_gradients(&set, &r);
    for (size_t t = 0; t < TENSORS; t++)
        memcpy(first[t], array_of(&set, t, GRADIENT), (size_t)set.tensors[t].count * sizeof(float));
    require(ptx_step_plan_accumulate(plan, gpu.stream));
    fill_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    for (size_t t = 0; t < TENSORS; t++) {
        float *g = array_of(&set, t, GRADIENT);
        memcpy(last[t], g, (size_t)set.tensors[t].count * sizeof(float));
        for (uint64_t i = 0; i < set.tensors[t].count; i++)
            g[i] = first[t][i] + g[i];
    }
    expect(&set, plan, 1);
    for (size_t t = 0; t < TENSORS; t++) { // what the step has not written
        memcpy(array_of(&set, t, GRADIENT), last[t], (size_t)set.tensors[t].count * sizeof(float));
        free(first[t]);
        free(last[t]);
    }
    check(&set, "sums of gradients");
    ptx_step_plan_destroy(&plan);
    ptx_buffer_destroy(&sums);
    destroy(&set);
}

// What a step leaves of weights: their average, amax, codes and report.
TEST(test_copies)
{
    static const struct shape shapes[] = {
        { 70, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 40, 20, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    enum { EMA = 0, CODES = 40000, TURNED = 50000, AMAX = 60000, SCALE = 60004, REPORTS = 60008 };
    struct random r = gpu_random(&gpu, "copies of matrices");
    struct set set;
    unsigned char found[2][ROOM / 2];
    create(&set, &r, shapes, 2);
    ptx_buffer *more = ptx_buffer_create(gpu.device, sizeof found);
    const CUdeviceptr at = ptx_buffer_address(more);
    const float scale = 16;

    require(ptx_buffer_fill(more, 0, 0, sizeof found, gpu.stream));
    for (size_t t = 0; t < 2; t++) {
        const CUdeviceptr own = at + t * sizeof found[0];
        require(ptx_buffer_upload(more, t * sizeof found[0] + SCALE, &scale, 4, gpu.stream));
        set.tensors[t].ema = own + EMA;
        set.tensors[t].ema_dtype = PTX_F32;
        set.tensors[t].amax = own + AMAX;
        set.tensors[t].fp8 = own + CODES;
        set.tensors[t].fp8_scale = own + SCALE;
        set.tensors[t].fp8_transposed = own + TURNED;
        set.tensors[t].fp8_columns = shapes[t].columns;
    }
    set.groups[0].hyper.ema_decay = 0.5;
    set.params.weight_reports_at = at + REPORTS;
    ptx_step_plan *plan = plan_of(&set);
    fill_gradients(&set, &r);
    float *old = calloc(ROOM, 1);
    struct ptx_weight_report reports[3];
    for (size_t t = 0; t < 2; t++)
        memcpy(old + t * 10000, array_of(&set, t, PARAMETER),
               (size_t)set.tensors[t].count * sizeof *old);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect(&set, plan, 1);
    check(&set, "beside copies");
    require(ptx_buffer_download(more, 0, found, sizeof found, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    memcpy(reports, found[0] + REPORTS, sizeof reports);
    for (size_t t = 0; t < 2; t++) {
        const float *p = array_of(&set, t, PARAMETER);
        const uint64_t n = set.tensors[t].count, columns = shapes[t].columns;
        double norm = 0, change = 0;
        float largest = 0;
        unsigned char *codes = calloc((size_t)n, 1);
        ref_cast_fp8(REF_F32, p, n, REF_E4M3, scale, codes, NULL);
        for (uint64_t i = 0; i < n; i++) {
            const double apart = (double)p[i] - old[t * 10000 + i];
            const float ema = 0.5f * p[i];
            const uint64_t turned = i % columns * (n / columns) + i / columns;
            norm += (double)p[i] * p[i];
            change += apart * apart;
            largest = fmaxf(largest, fabsf(p[i]));
            assert_memory_equal(found[t] + EMA + 4 * i, &ema, 4);
            assert_int_equal(found[t][CODES + i], codes[i]);
            assert_int_equal(found[t][TURNED + turned], codes[i]);
        }
        assert_memory_equal(found[t] + AMAX, &largest, 4);
        assert_true(fabs(reports[t].norm - sqrt(norm)) <= 1e-12 * sqrt(norm));
        assert_true(fabs(reports[t].change - sqrt(change)) <= 1e-12 * sqrt(change));
        assert_true(reports[t].largest == largest && !reports[t].absent);
        free(codes);
    }
    free(old);
    ptx_step_plan_destroy(&plan);
    ptx_buffer_destroy(&more);
    destroy(&set);
}

// Codes in blocks of the stepped weights are those that a cast makes of them; the weights are the
// formula's.
TEST(test_blocks)
{
    static const struct shape shapes[] = {
        { 130, 36, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 33, 140, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_F32, false },
    };
    enum { CODES = 130 * 36, TURNED = CODES + 64, SCALES = 2 * TURNED, EACH = SCALES + 4096 };
    struct random r = gpu_random(&gpu, "blocks of matrices");
    struct set set;
    unsigned char *found[2] = { calloc(2, EACH), calloc(2, EACH) };
    create(&set, &r, shapes, 2);
    ptx_buffer *more = ptx_buffer_create(gpu.device, (size_t)2 * EACH);
    const CUdeviceptr at = ptx_buffer_address(more);

    for (size_t t = 0; t < 2; t++) {
        struct ptx_step_tensor *tensor = &set.tensors[t];
        tensor->fp8 = at + t * EACH;
        tensor->fp8_transposed = tensor->fp8 + TURNED;
        tensor->fp8_scale_inv = tensor->fp8 + SCALES;
        tensor->fp8_transposed_scale_inv = tensor->fp8 + SCALES + 2048;
        tensor->fp8_columns = shapes[t].columns;
        tensor->fp8_blocks = t ? PTX_FP8_BLOCKS_1X128 : PTX_FP8_BLOCKS_128X128;
    }
    set.muon.steps = 1;
    ptx_step_plan *plan = plan_of(&set);
    fill_gradients(&set, &r);
    for (unsigned k = 0; k < 2; k++) {
        require(ptx_buffer_fill(more, 0, 0, (size_t)2 * EACH, gpu.stream));
        require(k ? ptx_step_plan_cast(plan, gpu.stream) : ptx_step_plan_run(plan, gpu.stream));
        require(ptx_buffer_download(more, 0, found[k], (size_t)2 * EACH, gpu.stream));
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
    }
    expect(&set, plan, 1);
    check(&set, "beside codes in blocks");
    assert_memory_equal(found[0], found[1], (size_t)2 * EACH);
    for (size_t t = 0; t < 2; t++) {
        const uint64_t n = set.tensors[t].count, columns = shapes[t].columns;
        uint64_t zeros = 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t turned = i % columns * (n / columns) + i / columns;
            zeros += !(found[0][t * EACH + i] & 0x7f);
            if (!t) // blocks of columns have scales of their own
                assert_int_equal(found[0][TURNED + turned], found[0][i]);
        }
        assert_true(zeros < n / 10);
    }
    free(found[0]);
    free(found[1]);
    ptx_step_plan_destroy(&plan);
    ptx_buffer_destroy(&more);
    destroy(&set);
}

static void refuse(const struct set *set, const char *words)
{
    ptx_step_plan *plan = ptx_step_plan_create(gpu.device, &set->params);

    assert_null(plan);
    expect_failure(PTX_ERROR_INVALID, words);
}

TEST(test_refusals)
{
    static const float triples[] = { 1, 2, INFINITY };
    struct random r = gpu_random(&gpu, "refused matrices");
    struct set set;
    create(&set, &r, formats, 2);
    struct ptx_step_tensor *tensor = &set.tensors[1];
    struct ptx_step_group *group = &set.groups[0];
    const struct ptx_step_tensor good = *tensor;
    const struct ptx_step_group usual = *group;

    tensor->columns = 0;
    refuse(&set, "tensor 1: columns is 0, and the tensor has 1400 elements");
    tensor->columns = 3;
    refuse(&set, "tensor 1: columns is 3");
    *tensor = good;
    set.params.any_address = true;
    tensor->count = UINT64_C(16385) * 16385;
    tensor->columns = 16385;
    refuse(&set, "tensor 1: it is a matrix of 16385 x 16385; rule muon takes a smaller side");
    tensor->count = tensor->columns = (1 << 24) + 1;
    refuse(&set, "tensor 1: it is a matrix of 1 x 16777217; rule muon takes sides of at most 2^24");
    *tensor = good;
    tensor->whole.first = 8;
    refuse(&set, "tensor 1: its rule, muon, steps whole matrices, and `whole` says");
    *tensor = good;
    tensor->dtype = PTX_BF16;
    tensor->beside = 0;
    tensor->format = PTX_STEP_FORMAT_STATE_8BIT;
    refuse(&set, "tensor 1: its rule is muon, and its format, state_8bit, stores states in blocks");
    *tensor = good;
    tensor->count = 0;
    tensor->counts_empty = true;
    refuse(&set, "tensor 1: counts_empty is set, and its rule is muon");
    *tensor = good;
    tensor->state[1] = tensor->state[0] + 8192;
    refuse(&set, "tensor 1: state[1] is given, and its rule, muon, has 1 state");
    *tensor = good;
    group->hyper.momentum = 1;
    refuse(&set, "group 0: momentum is 1; it must be 0 or more, and below 1");
    *group = usual;
    set.muon.steps = 33;
    refuse(&set, "group 0: muon->steps is 33; there are at most 32");
    set.muon.steps = 1;
    set.muon.triples = triples;
    refuse(&set, "group 0: muon->triples[2] is inf; the coefficients of a step must be finite");
    set.muon = (struct ptx_muon_params) { .adjust = (ptx_muon_adjust)2 };
    refuse(&set, "group 0: muon->adjust is 2; there are 0 to 1");
    set.muon.adjust = PTX_MUON_ADJUST_ORIGINAL;
    set.groups[1].muon = &set.muon;
    refuse(&set, "group 1: muon is given, and its rule is adamw: make it NULL");
    destroy(&set);
}

int main(void)
{
    return gpu_tests_run(&gpu);
}

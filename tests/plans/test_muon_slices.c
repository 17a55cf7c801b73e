// SPDX-License-Identifier: MIT
// Matrices that are rows or columns of a parameter: a step leaves the bits that it leaves of each
// as a parameter of its own, in every array, and nothing is written between them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "random.h"
#include "reference/reference.h"
#include "test.h"

enum { PARAMETER, GRADIENT, BESIDE, STATE, EMA, CODES, ARRAYS };
enum { PARAMETERS = 6, MOST_SLICES = 4, MOST = 64, ELEMENTS = 70 * 264, ROOM = ELEMENTS * 4 + 128 };
enum { COUNTS_AT = PARAMETERS * ARRAYS * ROOM, BYTES = COUNTS_AT + MOST * 256 };
enum { SUMS_AT = 256, SUMS = SUMS_AT + ELEMENTS * 4, STEPS = 2 };
enum { AMAX = 64, SCALE = 128, INVERSE = 192 }; // behind a tensor's count

static const struct parameter {
    uint64_t rows, columns;
    struct ptx_muon_range ranges[MOST_SLICES];
    size_t count;
    bool rest;
    ptx_step_format format;
    ptx_type type, gradient;
} parameters[PARAMETERS] = {
    // Megatron's interleaved QKV, two heads; rows of no whole vectors
    { 48,
      90,
      { { 0, 8, 24, false }, { 8, 8, 24, false }, { 16, 8, 24, false } },
      3,
      false,
      PTX_STEP_FORMAT_FULL,
      PTX_F32,
      PTX_F32 },
    // Conv1D's Q, K and V
    { 40,
      144,
      { { 0, 48, 0, true }, { 48, 48, 0, true } },
      2,
      true,
      PTX_STEP_FORMAT_MASTER,
      PTX_BF16,
      PTX_BF16 },
    // runs of columns that are no vectors, one of them narrow
    { 30,
      66,
      { { 0, 11, 33, true }, { 12, 21, 33, true } },
      2,
      true,
      PTX_STEP_FORMAT_STOCHASTIC,
      PTX_BF16,
      PTX_F32 },
    // of vectors, and tall
    { 70,
      96,
      { { 0, 8, 32, true }, { 8, 24, 32, true } },
      2,
      false,
      PTX_STEP_FORMAT_REMAINDER,
      PTX_BF16,
      PTX_F32 },
    // several chunks of the norm, and blocks
    { 70,
      264,
      { { 0, 132, 0, true }, { 132, 132, 0, true } },
      2,
      false,
      PTX_STEP_FORMAT_FULL,
      PTX_F32,
      PTX_F16 },
    // heads of rows, the middle ones one matrix, which is the rest
    { 64,
      20,
      { { 0, 16, 0, false }, { 48, 16, 0, false } },
      2,
      true,
      PTX_STEP_FORMAT_STATE_BF16,
      PTX_F32,
      PTX_F32 },
};

// One plan's memory: all of the parameters, or their matrices one after the other.
struct copy {
    bool spreads;
    ptx_buffer *memory, *sums;
    unsigned char *image;
    struct ptx_step_tensor tensors[MOST];
    struct ptx_weight_report reports[MOST];
    struct ptx_gradient_report gradients[MOST];
};

static struct slices {
    struct ptx_muon_slice of[PARAMETERS][MOST_SLICES];
    size_t count[PARAMETERS];
} slices;

static size_t place(size_t p, unsigned array)
{
    return (p * ARRAYS + array) * (size_t)ROOM + 64;
}

static unsigned size_of(const struct parameter *p, unsigned array)
{
    switch (array) {
    case PARAMETER:
        return ptx_type_bytes(p->type);
    case GRADIENT:
        return ptx_type_bytes(p->gradient);
    case BESIDE:
        return p->format == PTX_STEP_FORMAT_MASTER      ? 4
               : p->format == PTX_STEP_FORMAT_REMAINDER ? 2
                                                        : 0;
    case STATE:
        return p->format == PTX_STEP_FORMAT_STOCHASTIC || p->format == PTX_STEP_FORMAT_STATE_BF16
                   ? 2
                   : 4;
    default:
        return array == EMA ? 4 : 1;
    }
}

static uint64_t element_of(const struct ptx_muon_slice *s, uint64_t i)
{
    const uint64_t run = s->spread.run;

    return s->first + (run ? i / run * s->spread.stride + i % run : i);
}

// Copies the arrays of the matrices from one form into the other.
static void convert(unsigned char *to, const unsigned char *from, bool spreads, size_t p)
{
    for (unsigned a = 0; a < ARRAYS; a++) {
        const unsigned bytes = size_of(&parameters[p], a);
        uint64_t before = 0;
        for (size_t k = 0; k < slices.count[p]; k++) {
            const struct ptx_muon_slice *s = &slices.of[p][k];
            for (uint64_t i = 0; i < s->count; i++) {
                const uint64_t apart = place(p, a) + element_of(s, i) * bytes;
                const uint64_t own = place(p, a) + (before + i) * bytes;
                memcpy(to + (spreads ? apart : own), from + (spreads ? own : apart), bytes);
            }
            before += s->count;
        }
    }
}

static void put(unsigned char *at, ptx_type type, float x)
{
    ref_store(type == PTX_F16 ? REF_F16 : type == PTX_BF16 ? REF_BF16 : REF_F32, at, 0, x);
}

static void fill_array(unsigned char *image, struct random *r, size_t p, unsigned array)
{
    const struct parameter *of = &parameters[p];
    const unsigned bytes = size_of(of, array);
    const ptx_type type = array == PARAMETER  ? of->type
                          : array == GRADIENT ? of->gradient
                          : bytes == 4        ? PTX_F32
                                              : PTX_BF16;

    for (uint64_t i = 0; i < of->rows * of->columns && bytes > 1; i++)
        put(image + place(p, array) + i * bytes, type,
            (array == STATE ? 0.1f : 1) * ((float)random_below(r, 20001) / 10000.0f - 1));
}

static void create(struct copy *c, bool spreads, bool accumulates)
{
    const float scale = 16;
    size_t t = 0;

    *c = (struct copy) { .spreads = spreads };
    c->memory = ptx_buffer_create(gpu.device, BYTES);
    c->sums = ptx_buffer_create(gpu.device, (size_t)MOST * SUMS);
    c->image = calloc(BYTES, 1);
    assert_true(c->memory && c->sums && c->image);
    require(ptx_buffer_fill(c->sums, 0, 0, (size_t)MOST * SUMS, gpu.stream));
    const CUdeviceptr at = ptx_buffer_address(c->memory);
    for (size_t p = 0; p < PARAMETERS; p++) {
        const struct parameter *of = &parameters[p];
        uint64_t before = 0;
        for (size_t k = 0; k < slices.count[p]; k++, t++) {
            const struct ptx_muon_slice *s = &slices.of[p][k];
            const uint64_t first = spreads ? s->first : before;
            const CUdeviceptr own = at + COUNTS_AT + t * 256;
            CUdeviceptr to[ARRAYS];
            for (unsigned a = 0; a < ARRAYS; a++)
                to[a] = size_of(of, a) ? at + place(p, a) + first * size_of(of, a) : 0;
            memcpy(c->image + COUNTS_AT + t * 256 + SCALE, &scale, sizeof scale);
            c->tensors[t] = (struct ptx_step_tensor) {
                .parameter = to[PARAMETER],
                .gradient = to[GRADIENT],
                .beside = to[BESIDE],
                .state = { to[STATE] },
                .ema = to[EMA],
                .ema_dtype = PTX_F32,
                .amax = own + AMAX,
                .fp8 = to[CODES],
                .fp8_scale = own + SCALE,
                .fp8_scale_inv = own + INVERSE,
                .step = own,
                .count = s->count,
                .columns = s->columns,
                .dtype = of->type,
                .gradient_dtype = of->gradient,
                .format = of->format,
                .id = (uint32_t)t + 3,
            };
            if (spreads)
                c->tensors[t].spread = s->spread;
            if (accumulates) {
                c->tensors[t].accumulator = ptx_buffer_address(c->sums) + t * SUMS + SUMS_AT;
                c->tensors[t].accumulated = ptx_buffer_address(c->sums) + t * SUMS;
            }
            before += s->count;
        }
    }
    require_done(ptx_buffer_upload(c->memory, 0, c->image, BYTES, gpu.stream));
}

static size_t tensor_count(void)
{
    size_t count = 0;

    for (size_t p = 0; p < PARAMETERS; p++)
        count += slices.count[p];
    return count;
}

static void slice_all(void)
{
    for (size_t p = 0; p < PARAMETERS; p++) {
        const struct parameter *of = &parameters[p];
        require(ptx_muon_slices(of->rows, of->columns, of->ranges, of->count, of->rest,
                                slices.of[p], &slices.count[p]));
        uint64_t elements = 0;
        for (size_t k = 0; k < slices.count[p]; k++)
            elements += slices.of[p][k].count;
        assert_int_equal(elements, of->rows * of->columns);
    }
}

static ptx_step_plan *plan_of(struct copy *c, const struct ptx_step_group *group,
                              ptx_step_gradients gradients, ptx_buffer *reports)
{
    const CUdeviceptr at = ptx_buffer_address(reports);
    const struct ptx_step_params params = {
        .tensors = c->tensors,
        .tensor_count = tensor_count(),
        .groups = group,
        .group_count = 1,
        .max_norm = 3,
        .gradients = gradients,
        .seed = 12,
        .reports_at = at,
        .weight_reports_at = at + sizeof c->gradients,
        .stream = gpu.stream,
    };
    return made(ptx_step_plan_create(gpu.device, &params));
}

static void download(struct copy *c, ptx_buffer *reports)
{
    require(ptx_buffer_download(c->memory, 0, c->image, BYTES, gpu.stream));
    require(ptx_buffer_download(reports, 0, c->gradients, sizeof c->gradients, gpu.stream));
    require_done(ptx_buffer_download(reports, sizeof c->gradients, c->reports, sizeof c->reports,
                                     gpu.stream));
}

static void compare(const struct copy *apart, const struct copy *own, const char *what)
{
    ALLOCATED(unsigned char) *expected = malloc(BYTES);

    memcpy(expected, own->image, BYTES);
    for (size_t p = 0; p < PARAMETERS; p++)
        convert(expected, own->image, true, p);
    for (size_t k = 0; k < BYTES; k++)
        if (expected[k] != apart->image[k])
            fail_msg("%s: parameter %zu, array %zu, byte %zu is %02x; expected %02x", what,
                     k / ROOM / ARRAYS, k / ROOM % ARRAYS, k % ROOM - 64, apart->image[k],
                     expected[k]);
    assert_memory_equal(apart->reports, own->reports, sizeof own->reports);
    assert_memory_equal(apart->gradients, own->gradients, sizeof own->gradients);
}

// Some steps of both, and one that is skipped.
static void steps(struct random *r, ptx_step_gradients gradients, bool accumulates)
{
    const struct ptx_muon_params muon = { .steps = gradients == PTX_STEP_GRADIENTS_WRITE };
    const struct ptx_step_group group = {
        .rule = PTX_STEP_RULE_MUON,
        .nesterov = true,
        .hyper = { .lr = 0.02,
                   .momentum = 0.9,
                   .weight_decay = 0.1,
                   .eps = 1e-7,
                   .ema_decay = 0.5 },
        .muon = &muon,
    };
    struct copy copies[2];
    ptx_step_plan *plans[2];
    ptx_graph *graphs[2];
    ptx_buffer *reports[2];

    slice_all();
    for (unsigned k = 0; k < 2; k++) {
        create(&copies[k], k, accumulates);
        reports[k] =
            ptx_buffer_create(gpu.device, sizeof copies->gradients + sizeof copies->reports);
        require(ptx_buffer_fill(reports[k], 0, 0, sizeof copies->gradients + sizeof copies->reports,
                                gpu.stream));
        plans[k] = plan_of(&copies[k], &group, gradients, reports[k]);
        graphs[k] = plan_capture((struct any_plan) { .step = plans[k] });
    }
    for (size_t p = 0; p < PARAMETERS; p++)
        for (unsigned a = 0; a < ARRAYS; a++)
            fill_array(copies[0].image, r, p, a);
    for (unsigned step = 0; step <= STEPS; step++) {
        for (size_t p = 0; p < PARAMETERS; p++)
            fill_array(copies[0].image, r, p, GRADIENT);
        if (step == STEPS) // of a matrix of rows, and of one of columns
            for (unsigned p = 0; p < 2; p++)
                put(copies[0].image + place(p, GRADIENT) + 1001 * size_of(&parameters[p], GRADIENT),
                    parameters[p].gradient, -INFINITY);
        for (size_t p = 0; p < PARAMETERS; p++)
            convert(copies[1].image, copies[0].image, true, p);
        for (unsigned k = 0; k < 2; k++) {
            require(ptx_buffer_upload(copies[k].memory, 0, copies[k].image, BYTES, gpu.stream));
            if (accumulates)
                for (unsigned n = 0; n < 2; n++)
                    require(ptx_step_plan_accumulate(plans[k], gpu.stream));
            plan_run((struct any_plan) { .step = plans[k] }, (enum plan_form)step, graphs[k]);
            download(&copies[k], reports[k]);
        }
        compare(&copies[1], &copies[0], step == STEPS ? "a skipped step" : "a step");
        assert_true(copies[0].gradients[0].first_nonfinite == (step == STEPS ? 1001 : -1));
        const float *count = (const void *)(copies[0].image + COUNTS_AT);
        assert_true(*count == (float)(step == STEPS ? STEPS : step + 1));
    }
    for (unsigned k = 0; k < 2; k++) {
        ptx_graph_destroy(&graphs[k]);
        ptx_step_plan_destroy(&plans[k]);
        ptx_buffer_destroy(&reports[k]);
        ptx_buffer_destroy(&copies[k].memory);
        ptx_buffer_destroy(&copies[k].sums);
        free(copies[k].image);
    }
}

TEST(test_slices_step_as_matrices)
{
    struct random r = gpu_random("rows and columns");

    steps(&r, PTX_STEP_GRADIENTS_WRITE, false);
    steps(&r, PTX_STEP_GRADIENTS_ZERO, false);
}

TEST(test_slices_of_sums)
{
    struct random r = gpu_random("sums of rows and columns");

    steps(&r, PTX_STEP_GRADIENTS_RAW, true);
}

// ---- slices -------------------------------------------------------------------------------------

static void expect_slice(const struct ptx_muon_slice *s, uint64_t first, uint64_t count,
                         uint64_t columns, uint64_t run, uint64_t stride)
{
    assert_int_equal(s->first, first);
    assert_int_equal(s->count, count);
    assert_int_equal(s->columns, columns);
    assert_int_equal(s->spread.run, run);
    assert_int_equal(s->spread.stride, stride);
}

TEST(test_slices)
{
    static const struct ptx_muon_range rows[] = { { 0, 2, 6, false }, { 2, 1, 3, false } };
    static const struct ptx_muon_range heads[] = { { 0, 6, 0, false }, { 6, 6, 6, false } };
    static const struct ptx_muon_range columns[] = { { 4, 2, 6, true } };
    struct ptx_muon_slice s[3];
    size_t count;

    require(ptx_muon_slices(12, 5, rows, 2, true, s, &count)); // rows 3 and 4, 9 and 10 are left
    assert_int_equal(count, 3);
    expect_slice(&s[0], 0, 20, 5, 10, 30);
    expect_slice(&s[1], 10, 20, 5, 5, 15);
    expect_slice(&s[2], 15, 20, 5, 10, 30);
    require(ptx_muon_slices(12, 5, heads, 1, true, s, &count));
    expect_slice(&s[0], 0, 30, 5, 0, 0);
    expect_slice(&s[1], 30, 30, 5, 0, 0);
    require(ptx_muon_slices(5, 12, columns, 1, true, s, &count));
    assert_int_equal(count, 2);
    expect_slice(&s[0], 4, 20, 4, 2, 6);
    expect_slice(&s[1], 0, 40, 8, 4, 6);
    require(ptx_muon_slices(7, 9, NULL, 0, true, s, &count)); // all of it
    assert_int_equal(count, 1);
    expect_slice(&s[0], 0, 63, 9, 0, 0);
    // Another range has the place of a last run that is not whole.
    const struct ptx_muon_range apart[] = { { 2, 1, 0, false }, { 5, 2, 0, false } };
    require(ptx_muon_slices(7, 9, apart, 2, true, s, &count));
    assert_int_equal(count, 3);
    expect_slice(&s[2], 0, 36, 9, 18, 27);
}

TEST(test_refused_slices)
{
    static const struct {
        struct ptx_muon_range ranges[2];
        bool rest;
        const char *words;
    } bad[] = {
        { { { 0, 8, 0, false }, { 7, 5, 0, false } },
          false,
          "ranges 0 and 1 overlap: both have row 7" },
        { { { 0, 6, 0, true }, { 3, 1, 4, true } },
          false,
          "ranges 0 and 1 overlap: both have column 3" },
        { { { 0, 8, 0, false }, { 0, 4, 0, true } },
          false,
          "range 1 is of columns, and range 0 of rows: they overlap" },
        { { { 0, 8, 0, false }, { 8, 5, 0, false } },
          false,
          "range 1: first 8 and run 5 are not within the parameter's 12 rows" },
        { { { 0, 8, 0, false }, { 8, 0, 0, false } }, false, "range 1: first 8 and run 0 are not" },
        { { { 0, 8, 0, false }, { 9, 3, 0, false } },
          false,
          "no range has the rows 8 to 8 of the parameter's 12: give ranges for what is left, or" },
        { { { 1, 2, 0, false }, { 5, 2, 0, false } },
          true,
          "the rows that no range has are no range: those from 0 and from 3 on do not repeat" },
        { { { 2, 3, 4, false }, { 0, 2, 0, false } },
          false,
          "range 0: its stride is 4, below first + run, 5" },
        { { { 0, 1, 5, true }, { 1, 1, 0, true } },
          false,
          "range 0: its stride is 5, which does not divide the parameter's 12 columns" },
    };
    // of 11 rows the rest is 2, 3, 6, 7 and 10
    static const struct ptx_muon_range pairs[] = { { 0, 2, 4, false } };
    struct ptx_muon_slice s[3];
    size_t count;

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        expect_refused(ptx_muon_slices(12, 12, bad[k].ranges, 2, bad[k].rest, s, &count),
                       bad[k].words);
    expect_refused(ptx_muon_slices(11, 12, pairs, 1, true, s, &count),
                   "those from 2 and from 6 on do not repeat to the end");
    expect_refused(ptx_muon_slices(12, 0, NULL, 0, true, s, &count),
                   "a parameter of 12 x 0: it has no elements, and so no matrices: leave it out");
    expect_refused(ptx_muon_slices(UINT64_C(1) << 39, 4, NULL, 0, true, s, &count),
                   "there are at most 2^40 elements, and 2^31 - 1 rows, columns and ranges");
    expect_refused(ptx_muon_slices(12, 12, NULL, 1, true, s, &count), "ranges is NULL");
}

TEST(test_refused_tensors)
{
    const struct ptx_muon_params muon = { .steps = 1 };
    struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON,
                                    .hyper = { .lr = 0.02, .momentum = 0.9 },
                                    .muon = &muon };
    const struct ptx_step_params params = {
        .groups = &group, .group_count = 1, .max_norm = 1, .stream = gpu.stream
    };
    struct ptx_step_params given = params;
    struct copy c;

    slice_all();
    create(&c, true, false);
    given.tensors = c.tensors;
    given.tensor_count = tensor_count();
    struct ptx_step_tensor *tensor = &c.tensors[1];
#define REFUSED(words, ...) CHANGED(*tensor, expect_no_step(&given, words), __VA_ARGS__)
    REFUSED("tensor 1: spread has a run of 720 elements and a stride of 719",
            tensor->spread.stride = tensor->spread.run - 1);
    REFUSED("tensor 1: spread has a run of 1073741824 elements", tensor->spread.run = 1u << 30);
    REFUSED("tensor 1: spread.run is 100, neither whole rows of its matrix, of 90 columns",
            tensor->spread.run = 100);
    REFUSED("tensor 1: fp8_transposed is given, and its elements are not consecutive",
            tensor->fp8_transposed = tensor->fp8 + 1, tensor->fp8_columns = 90);
    REFUSED("tensor 0's parameter and tensor 1's parameter overlap",
            tensor->parameter -= 4); // its first element is the last of the one before
    REFUSED("tensor 1's parameter and tensor 2's parameter overlap",
            tensor->parameter += (size_t)8 * 90 * 4); // that of the third
    REFUSED("tensor 1's state[0]", tensor->state[0] += (size_t)64 * 1024 * 1024 * 1024);
    given.groups = &(const struct ptx_step_group) { .hyper = { .lr = 1 } };
    for (size_t t = 0; t < given.tensor_count; t++)
        c.tensors[t].state[1] = c.tensors[t].state[0];
    expect_no_step(&given, "tensor 0: spread.run is 720, and its rule is adamw: only muon's");
    ptx_buffer_destroy(&c.memory);
    ptx_buffer_destroy(&c.sums);
    free(c.image);
}

// Rows of one parameter whose strides have no common divisor lie apart where their runs do.
TEST(test_strides_of_rows)
{
    enum { ROWS = 11, COLUMNS = 8, MATRICES = 4, LENGTH = ROWS * COLUMNS * 4 };
    static const struct ptx_muon_range ranges[] = {
        { 0, 2, 5, false }, { 2, 2, 7, false }, { 4, 1, 0, false }, { 7, 2, 0, false }
    };
    static const struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON,
                                                 .hyper = { .lr = 1, .momentum = 0.5 } };
    struct ptx_muon_slice s[MATRICES];
    struct ptx_step_tensor tensors[MATRICES];
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 3 * LENGTH + 4);
    size_t count;

    assert_non_null(memory);
    const CUdeviceptr at = ptx_buffer_address(memory);
    require(ptx_buffer_fill(memory, 0, 0, 3 * LENGTH + 4, gpu.stream));
    require(ptx_muon_slices(ROWS, COLUMNS, ranges, MATRICES, false, s, &count));
    for (size_t k = 0; k < count; k++)
        tensors[k] = (struct ptx_step_tensor) { .parameter = at + 4 * s[k].first,
                                                .gradient = at + LENGTH + 4 * s[k].first,
                                                .state = { at + 2 * LENGTH + 4 * s[k].first },
                                                .step = at + 3 * LENGTH,
                                                .count = s[k].count,
                                                .columns = s[k].columns,
                                                .spread = s[k].spread,
                                                .dtype = PTX_F32 };
    const struct ptx_step_params params = { .tensors = tensors,
                                            .tensor_count = count,
                                            .groups = &group,
                                            .group_count = 1,
                                            .max_norm = 1,
                                            .stream = gpu.stream };
    OWNED(ptx_step_plan) *plan = ptx_step_plan_create(gpu.device, &params);
    assert_non_null(plan);
    tensors[1].state[0] -= (size_t)4 * COLUMNS; // rows 1, 2, 8 and 9
    expect_no_step(&params, "tensor 0's state[0] and tensor 1's state[0] overlap");
    tensors[1].state[0] += (size_t)4 * COLUMNS;
    tensors[2].state[0] += (size_t)4 * 5 * COLUMNS; // row 9
    expect_no_step(&params, "tensor 1's state[0] and tensor 2's state[0] overlap");
}

// The last run of a tensor may be a part of a run, and a stride may divide the other.
TEST(test_runs_that_end_early)
{
    enum { ROW = 16, LENGTH = 12 * ROW };
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON,
                                          .hyper = { .lr = 1, .momentum = 0.5 } };
    const struct {
        uint64_t first, rows, run, stride; // in rows, of 4 elements
    } pairs[][2] = {
        { { 0, 5, 2, 5 }, { 4, 2, 1, 7 } },  // 0, 1, 5, 6, 10; 4, 11
        { { 0, 2, 1, 10 }, { 5, 1, 1, 5 } }, // 0, 10; 5
    };

    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        struct ptx_step_tensor t[2];
        OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, (size_t)4 * LENGTH);
        assert_non_null(memory);
        const CUdeviceptr at = ptx_buffer_address(memory);
        require(ptx_buffer_fill(memory, 0, 0, (size_t)4 * LENGTH, gpu.stream));
        for (size_t n = 0; n < 2; n++)
            t[n] = (struct ptx_step_tensor) {
                .parameter = at + pairs[k][n].first * ROW,
                .gradient = at + LENGTH + pairs[k][n].first * ROW,
                .state = { at + (size_t)2 * LENGTH + pairs[k][n].first * ROW },
                .step = at + (size_t)3 * LENGTH,
                .count = pairs[k][n].rows * ROW / 4,
                .columns = ROW / 4,
                .spread = { pairs[k][n].run * ROW / 4, pairs[k][n].stride * ROW / 4 },
                .dtype = PTX_F32,
            };
        OWNED(ptx_step_plan) *plan =
            ptx_step_plan_create(gpu.device, &(struct ptx_step_params) { .tensors = t,
                                                                         .tensor_count = 2,
                                                                         .groups = &group,
                                                                         .group_count = 1,
                                                                         .max_norm = 1,
                                                                         .stream = gpu.stream });
        if (!plan)
            fail_msg("pair %zu: %s", k, ptx_error_message());
    }
}

GPU_MAIN

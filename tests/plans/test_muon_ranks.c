// SPDX-License-Identifier: MIT
// Matrices whose rows are on several ranks, here plans on one device, and the Muon plan that
// multiplies them: with the same sums the bits are those of whole matrices in one run.
#define PTXGEN_HERE NULL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "random.h"
#include "test.h"

enum { MATRICES = 6, TENSORS = MATRICES + 1, RANKS = 2, STEPS = 2 };
enum { PARAMETER, GRADIENT, STATE, ARRAYS, MOST = 133 * 129, ROOM = MOST * 4 + 64 };
enum { COUNTS_AT = TENSORS * ARRAYS * ROOM, BYTES = COUNTS_AT + RANKS * TENSORS * 256 };
enum { SUMS = TENSORS * PTX_MUON_SUMS };

// The last is AdamW's.
static const struct shape {
    uint64_t rows, columns, cut; // rows of the first rank
    bool half;                   // parameter and momentum in bf16
} shapes[TENSORS] = {
    { 20, 75, 13, false },   // a block's
    { 130, 30, 67, true },   // X has its columns as rows
    { 133, 129, 70, false }, // in tiles, transposed: 133 is no multiple of 8
    { 9, 140, 1, true },     //
    { 17, 17, 16, false },   // square
    { 5, 9, 5, false },      // the second rank has none
    { 1, 700, 1, false },
};

// Those of one rank that has all, which all plans are given: so they have the same. Those of
// several add up to them.
struct sums {
    double norm, of[SUMS];
};

// What some plans step, with parameters, gradients and states of their own.
struct copy {
    ptx_buffer *memory;
    CUdeviceptr base;
    unsigned ranks; // 0: whole matrices
    struct ptx_step_tensor tensors[RANKS][TENSORS];
    ptx_step_plan *plans[RANKS];
    ptx_buffer *updates, *sums;
    ptx_muon_plan *products;
};

static const float triples[] = { 3, -4, 2, 2, -1.5f, 0.5f };
static const struct ptx_muon_params one = { .steps = 1 }, two = { .steps = 2, .triples = triples };
static const struct ptx_step_group groups[] = {
    { .rule = PTX_STEP_RULE_MUON,
      .nesterov = true,
      .hyper = { .lr = 0.02, .momentum = 0.9, .weight_decay = 0.1, .eps = 1e-7 },
      .muon = &one },
    { .rule = PTX_STEP_RULE_MUON,
      .maximize = true,
      .hyper = { .lr = 0.03, .momentum = 0.8, .eps = 1e-7 },
      .muon = &two },
    { .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8 } },
};

static size_t place(size_t t, unsigned array)
{
    return (t * ARRAYS + array) * (size_t)ROOM;
}

static uint64_t size_of(const struct shape *s, unsigned array)
{
    return s->half && array != GRADIENT ? 2 : 4;
}

// Rows of X at `update`, of all matrices.
static uint64_t update_at(size_t t)
{
    uint64_t at = 0;

    for (size_t k = 0; k < t; k++)
        at += shapes[k].rows * ptx_muon_pitch(shapes[k].columns);
    return at;
}

static struct ptx_step_tensor tensor_of(const struct copy *c, unsigned rank, size_t t)
{
    const struct shape *s = &shapes[t];
    const uint64_t first = c->ranks && rank ? c->ranks > 1 ? s->cut : s->rows : 0;
    const uint64_t end = c->ranks > 1 && !rank ? s->cut : s->rows;
    const uint64_t skipped = first * s->columns;
    const bool cut = c->ranks && t < MATRICES;
    const CUdeviceptr state = c->base + place(t, STATE) + skipped * size_of(s, STATE);

    return (struct ptx_step_tensor) {
        .parameter = c->base + place(t, PARAMETER) + skipped * size_of(s, PARAMETER),
        .gradient = c->base + place(t, GRADIENT) + skipped * size_of(s, GRADIENT),
        .state = { state, t < MATRICES ? 0 : state + ROOM / 2 / 64 * 64 },
        .step = c->base + COUNTS_AT + (rank * TENSORS + t) * 256,
        .count = (end - first) * s->columns,
        .dtype = s->half ? PTX_BF16 : PTX_F32,
        .gradient_dtype = PTX_F32,
        .format = s->half ? PTX_STEP_FORMAT_STOCHASTIC : PTX_STEP_FORMAT_FULL,
        .group = t == MATRICES ? 2 : t % 2,
        .id = (uint32_t)t + 3,
        .whole = { first * s->columns, 0, 0 },
        .columns = s->columns,
        .whole_rows = cut ? s->rows : 0,
        .update = cut && end > first ? ptx_buffer_address(c->updates) + update_at(t) +
                                           first * ptx_muon_pitch(s->columns)
                                     : 0,
    };
}

static void products_create(struct copy *c)
{
    struct ptx_muon_part parts[MATRICES][RANKS];
    struct ptx_muon_matrix matrices[MATRICES];

    for (size_t t = 0; t < MATRICES; t++) {
        const struct shape *s = &shapes[t];
        const CUdeviceptr at = ptx_buffer_address(c->updates) + update_at(t);
        const uint64_t first = c->ranks > 1 ? s->cut : s->rows;
        parts[t][0] = (struct ptx_muon_part) { at, first };
        parts[t][1] =
            (struct ptx_muon_part) { at + first * ptx_muon_pitch(s->columns), s->rows - first };
        matrices[t] = (struct ptx_muon_matrix) { .rows = s->rows,
                                                 .columns = s->columns,
                                                 .parts = parts[t],
                                                 .part_count = RANKS,
                                                 .muon = groups[t % 2].muon };
    }
    c->products = made(ptx_muon_plan_create(
        gpu.device, &(struct ptx_muon_plan_params) {
                        .matrices = matrices, .matrix_count = MATRICES, .stream = gpu.stream }));
}

static void create(struct copy *c, unsigned ranks)
{
    *c = (struct copy) { .ranks = ranks };
    c->memory = ptx_buffer_create(gpu.device, BYTES);
    c->base = ptx_buffer_address(c->memory);
    c->updates = ptx_buffer_create(gpu.device, update_at(MATRICES) + 16);
    c->sums = ptx_buffer_create(gpu.device, RANKS * sizeof(struct sums));
    for (unsigned r = 0; r < (ranks ? ranks : 1); r++) {
        const CUdeviceptr sums = ptx_buffer_address(c->sums) + r * sizeof(struct sums);
        for (size_t t = 0; t < TENSORS; t++)
            c->tensors[r][t] = tensor_of(c, r, t);
        c->plans[r] = ptx_step_plan_create(
            gpu.device,
            &(struct ptx_step_params) { .tensors = c->tensors[r],
                                        .tensor_count = TENSORS,
                                        .groups = groups,
                                        .group_count = 3,
                                        .max_norm = 5,
                                        .sums_at = ranks ? sums : 0,
                                        .matrix_sums_at = ranks ? sums + sizeof(double) : 0,
                                        .seed = 9,
                                        .stream = gpu.stream });
        if (!c->plans[r])
            fail_msg("%s", ptx_error_message());
    }
    if (ranks)
        products_create(c);
}

static void destroy(struct copy *c)
{
    for (unsigned r = 0; r < RANKS; r++)
        ptx_step_plan_destroy(&c->plans[r]);
    ptx_muon_plan_destroy(&c->products);
    assert_null(c->products);
    ptx_buffer_destroy(&c->memory);
    ptx_buffer_destroy(&c->updates);
    ptx_buffer_destroy(&c->sums);
}

static void download(CUdeviceptr at, void *to, size_t bytes)
{
    require_done(ptx_address_download(gpu.device, at, to, bytes, gpu.stream));
}

// ---- steps --------------------------------------------------------------------------------------

static void sums_of(const struct copy *c, struct sums *to)
{
    *to = (struct sums) { 0 };
    for (unsigned r = 0; r < c->ranks; r++) {
        const struct ptx_step_plan_info *info = ptx_step_plan_get_info(c->plans[r]);
        struct sums own;
        download(info->sums, &own.norm, sizeof own.norm);
        download(info->matrix_sums, own.of, sizeof own.of);
        to->norm += own.norm;
        for (unsigned k = 0; k < SUMS; k++)
            to->of[k] += own.of[k];
    }
}

static void take_phases(const struct copy *c, struct sums *sums)
{
    struct sums found;

    for (unsigned r = 0; r < c->ranks; r++)
        require(ptx_step_plan_norm_sq(c->plans[r], gpu.stream));
    sums_of(c, &found);
    if (c->ranks == 1)
        *sums = found;
    for (unsigned k = 0; k < SUMS; k++)
        if (!(fabs(found.of[k] - sums->of[k]) <= 1e-9 * (1 + fabs(sums->of[k]))))
            fail_msg("sum %u is %g; expected %g", k, found.of[k], sums->of[k]);
    for (unsigned k = MATRICES * PTX_MUON_SUMS; k < SUMS; k++)
        assert_true(found.of[k] == 0); // AdamW's
    for (unsigned r = 0; r < c->ranks; r++) {
        const struct ptx_step_plan_info *info = ptx_step_plan_get_info(c->plans[r]);
        assert_int_equal(info->matrix_sums, info->sums + sizeof sums->norm);
        require(ptx_buffer_upload(c->sums, r * sizeof *sums, sums, sizeof *sums, gpu.stream));
        require(ptx_step_plan_finish(c->plans[r], gpu.stream));
        expect_refused(ptx_step_plan_step(c->plans[r], gpu.stream),
                       "ptx_step_plan_reduce() comes first");
        require(ptx_step_plan_reduce(c->plans[r], gpu.stream));
    }
    require(ptx_muon_plan_run(c->products, gpu.stream));
    for (unsigned r = 0; r < c->ranks; r++)
        require(ptx_step_plan_step(c->plans[r], gpu.stream));
}

static unsigned char *image_of(struct random *r)
{
    unsigned char *image = calloc(BYTES, 1);

    for (size_t t = 0; t < TENSORS; t++)
        for (unsigned array = PARAMETER; array < ARRAYS; array++)
            for (uint64_t i = 0; i < shapes[t].rows * shapes[t].columns; i++) {
                const float x = (float)random_below(r, 20001) / 10000.0f - 1;
                unsigned char *at = image + place(t, array) + i * size_of(&shapes[t], array);
                if (array == STATE && t == MATRICES)
                    continue;
                if (size_of(&shapes[t], array) == 2) {
                    const uint16_t half = (uint16_t)(random_below(r, 128) + 0x3d00);
                    memcpy(at, &half, sizeof half);
                } else {
                    memcpy(at, &x, sizeof x);
                }
            }
    return image;
}

static void compare(const struct copy *a, const struct copy *b)
{
    unsigned char *left = calloc(COUNTS_AT, 1), *right = calloc(COUNTS_AT, 1);

    download(a->base, left, COUNTS_AT);
    download(b->base, right, COUNTS_AT);
    for (size_t k = 0; k < COUNTS_AT; k++)
        if (left[k] != right[k])
            fail_msg("%u ranks: tensor %zu, array %zu, byte %zu is %02x; expected %02x", b->ranks,
                     k / ROOM / ARRAYS, k / ROOM % ARRAYS, k % ROOM, right[k], left[k]);
    free(left);
    free(right);
}

TEST(test_ranks_have_the_bits_of_one)
{
    struct random r = gpu_random("matrices over ranks");
    ALLOCATED(unsigned char) *image = image_of(&r);
    struct copy copies[RANKS + 1];
    struct sums sums = { 0 };

    for (unsigned k = 0; k <= RANKS; k++) {
        create(&copies[k], k);
        require_done(ptx_buffer_upload(copies[k].memory, 0, image, BYTES, gpu.stream));
    }
    for (unsigned step = 0; step < STEPS; step++) {
        require(ptx_step_plan_run(copies[0].plans[0], gpu.stream));
        for (unsigned k = 1; k <= RANKS; k++) {
            take_phases(&copies[k], &sums);
            compare(&copies[0], &copies[k]);
        }
    }
    for (unsigned k = 0; k <= RANKS; k++)
        destroy(&copies[k]);
}

// A rank without a gradient of a matrix adds nothing to its sums, sends zeros, and keeps its rows.
TEST(test_absent_on_a_rank)
{
    enum { T = 0, ROW = 160, ROWS_HERE = 7 };
    struct random r = gpu_random("matrices that a rank has no gradient of");
    ALLOCATED(unsigned char) *image = image_of(&r);
    const uint64_t pitch = ptx_muon_pitch(shapes[T].columns);
    const uint64_t rows = shapes[T].rows - shapes[T].cut, bytes = rows * pitch;
    const uint64_t own = rows * shapes[T].columns * sizeof(float);
    unsigned char x[ROWS_HERE * ROW], zeros[ROWS_HERE * ROW] = { 0 };
    unsigned char *before = malloc((size_t)own), *after = malloc((size_t)own);
    const CUdeviceptr none = 0;
    struct sums sums;
    struct copy c;

    assert_true(bytes <= sizeof x);
    create(&c, RANKS);
    require(ptx_buffer_upload(c.memory, 0, image, BYTES, gpu.stream));
    const CUdeviceptr here = c.tensors[1][T].update, there = c.tensors[0][T].update;
    const CUdeviceptr parameter = c.tensors[1][T].parameter;
    for (unsigned step = 0; step < 2; step++) {
        if (step)
            require(ptx_step_plan_set_gradients(c.plans[1], T, 1, &none, gpu.stream));
        for (unsigned k = 0; k < RANKS; k++)
            require(ptx_step_plan_norm_sq(c.plans[k], gpu.stream));
        sums_of(&c, &sums);
        for (unsigned k = 0; k < RANKS; k++) {
            require(ptx_buffer_upload(c.sums, k * sizeof sums, &sums, sizeof sums, gpu.stream));
            require(ptx_step_plan_finish(c.plans[k], gpu.stream));
            require(ptx_step_plan_reduce(c.plans[k], gpu.stream));
        }
        download(here, x, bytes);
        assert_int_equal(memcmp(x, zeros, bytes) == 0, step);
        download(there, x, pitch);
        assert_memory_not_equal(x, zeros, pitch);
        require(ptx_muon_plan_run(c.products, gpu.stream));
        download(parameter, before, own);
        for (unsigned k = 0; k < RANKS; k++)
            require(ptx_step_plan_step(c.plans[k], gpu.stream));
        download(parameter, after, own);
        assert_int_equal(memcmp(before, after, own) == 0, step);
    }
    destroy(&c);
    free(before);
    free(after);
}

// A graph of the phases after the sums, and of the products.
TEST(test_capture)
{
    struct random r = gpu_random("captured matrices over ranks");
    ALLOCATED(unsigned char) *image = image_of(&r);
    struct copy copies[2];
    struct sums sums;

    for (unsigned k = 0; k < 2; k++) {
        create(&copies[k], 1);
        require(ptx_buffer_upload(copies[k].memory, 0, image, BYTES, gpu.stream));
    }
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_RELAXED));
    assert_null(
        ptx_muon_plan_create(gpu.device, &(struct ptx_muon_plan_params) { .stream = gpu.stream }));
    expect_failure(PTX_ERROR_CAPTURE, "create the Muon plan before the capture begins");
    require(ptx_step_plan_norm_sq(copies[1].plans[0], gpu.stream));
    require(ptx_step_plan_finish(copies[1].plans[0], gpu.stream));
    require(ptx_step_plan_reduce(copies[1].plans[0], gpu.stream));
    require(ptx_muon_plan_run(copies[1].products, gpu.stream));
    require(ptx_step_plan_step(copies[1].plans[0], gpu.stream));
    ptx_graph *graph = end_capture(gpu.stream);
    require(ptx_graph_launch(graph, gpu.stream));
    take_phases(&copies[0], &sums);
    compare(&copies[0], &copies[1]);
    ptx_graph_destroy(&graph);
    for (unsigned k = 0; k < 2; k++)
        destroy(&copies[k]);
}

// ---- what is refused ----------------------------------------------------------------------------

static void refuse_tensor(struct ptx_step_tensor tensor, const char *words)
{
    const struct ptx_step_params params = {
        .tensors = &tensor, .tensor_count = 1, .groups = groups, .group_count = 3, .max_norm = 1
    };

    expect_no_step(&params, words);
}

#define REFUSED(words, ...) CHANGED(t, refuse_tensor(t, words), __VA_ARGS__)

TEST(test_refused_tensors)
{
    struct copy c;
    create(&c, 2);
    const struct ptx_step_tensor good = c.tensors[1][0];
    struct ptx_step_tensor t = good;

    expect_refused(ptx_step_plan_run(c.plans[0], gpu.stream),
                   "ptx_step_plan_run: tensor 0: it has rows of a matrix of 20: use the phases");
    REFUSED("tensor 0: whole_rows is 19, and `whole` says first 975, run 0", t.whole_rows = 19);
    REFUSED("tensor 0: whole_rows is 20, and `whole` says first 1,", t.whole.first = 1);
    REFUSED("run 75: it must have rows of that matrix, of 75 columns",
            t.whole.run = t.whole.stride = 75);
    t.update = 0;
    refuse_tensor(t, "tensor 0: update is 0x0, and the tensor has rows of a matrix");
    t.update = good.update + 8;
    refuse_tensor(t, "it must be an address that is a multiple of 16");
    t = good;
    REFUSED("update", t.update = good.parameter - (good.parameter % 16));
    t.whole_rows = 0;
    t.whole.first = 0;
    refuse_tensor(t, "tensor 0: update is given, and the tensor has no rows of a matrix");
    t.update = 0;
    t.group = 2;
    t.state[1] = t.state[0] + 20000;
    t.whole_rows = 20;
    refuse_tensor(t, "tensor 0: whole_rows is 20, and its rule is adamw");
    destroy(&c);
}

static void refuse_matrix(struct ptx_muon_matrix matrix, const char *words)
{
    const struct ptx_muon_plan_params params = { .matrices = &matrix, .matrix_count = 1 };

    assert_null(ptx_muon_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_INVALID, words);
}

#undef REFUSED
#define REFUSED(words, ...) CHANGED(m, refuse_matrix(m, words), __VA_ARGS__)

TEST(test_refused_matrices)
{
    static const struct ptx_muon_params many = { .steps = 33 };
    struct ptx_muon_part part = { 256, 4 };
    const struct ptx_muon_matrix good = {
        .rows = 4, .columns = 8, .parts = &part, .part_count = 1
    };
    struct ptx_muon_matrix m = good;

    REFUSED("ptx_muon_plan_create: matrix 0: it is 4 x 0: leave one without elements out",
            m.columns = 0);
    REFUSED("matrix 0: muon->steps is 33; there are at most 32", m.muon = &many);
    REFUSED("matrix 0: it is a matrix of 16385 x 16385", m.rows = m.columns = 16385);
    REFUSED("matrix 0: parts is NULL", m.parts = NULL);
    m.rows = 5;
    refuse_matrix(m, "matrix 0: its parts have 4 rows, and it has 5");
    m.rows = 3;
    refuse_matrix(m, "matrix 0: its parts to parts[0] have more rows than its 3");
    part.at = 264;
    refuse_matrix(good, "matrix 0: parts[0].at is 0x108; it must be a multiple of 16");
    assert_null(ptx_muon_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "params is NULL");
    assert_null(ptx_muon_plan_create(NULL, &(struct ptx_muon_plan_params) { 0 }));
    expect_failure(PTX_ERROR_INVALID, "device is NULL");
    expect_refused(ptx_muon_plan_run(NULL, gpu.stream), "ptx_muon_plan_run: plan is NULL");
    OWNED(ptx_muon_plan) *none = made(
        ptx_muon_plan_create(gpu.device, &(struct ptx_muon_plan_params) { .stream = gpu.stream }));
    require(ptx_muon_plan_run(none, gpu.stream));
}

GPU_MAIN

// SPDX-License-Identifier: MIT
// Muon's products against the plain iteration in doubles, and against that iteration rounded to
// bf16 after each product. All memory but X is NaN before a run.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/muon.h"
#include "plan_calls.h"
#include "reference/half.h"
#include "sanitized.h"
#include "test.h"

#include "plans/muon_schedule.h"

enum { MOST_STEPS = 7 };

static const float jordan[MOST_STEPS][3] = {
    { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f },
    { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f },
    { 3.4445f, -4.7750f, 2.0315f },
};
enum { ONE, TWO, FOUR, FIVE, SCHEDULES };
static const struct muon_schedule schedules[SCHEDULES] = {
    { 1, jordan }, { 2, jordan }, { 4, jordan }, { 5, jordan }
};

enum kind { RANDOM, LOW_RANK, ILL, ZERO };

// ---- matrices -----------------------------------------------------------------------------------

static double normal(struct random *r)
{
    double x = 0;

    for (unsigned k = 0; k < 12; k++)
        x += random_unit(r);
    return x - 6;
}

// A matrix of norm 1.
static double *make(struct random *r, uint32_t n, uint32_t k, enum kind kind)
{
    const size_t count = (size_t)n * k;
    double *x = calloc(count, sizeof *x), sum = 0;

    assert_non_null(x);
    if (kind == RANDOM)
        for (size_t i = 0; i < count; i++)
            x[i] = normal(r);
    for (uint32_t rank = 0; (kind == LOW_RANK && rank < 3) || (kind == ILL && rank < n); rank++) {
        // Outer products whose lengths fall to 1e-7.
        const double length = kind == ILL ? pow(1e-7, (double)rank / n) : 1;
        ALLOCATED(double) *row = calloc((size_t)n + k, sizeof *row);
        for (uint32_t i = 0; i < n + k; i++)
            row[i] = normal(r);
        for (size_t i = 0; i < count; i++)
            x[i] += length * row[i / k] * row[n + i % k];
    }
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < count && sum > 0; i++)
        x[i] /= sqrt(sum);
    return x;
}

static double rounded(double x, bool to_bf16)
{
    return to_bf16 ? bf16_to_f64(bf16_from_f64((double)(float)x)) : x;
}

// x = a x + (b R + c R R) x with R = x x^T, a step after the other.
static void iterate(double *x, uint32_t n, uint32_t k, const struct muon_schedule *s, bool bf16)
{
    double *r = calloc((size_t)n * n, sizeof *r), *z = calloc((size_t)n * n, sizeof *z);
    ALLOCATED(double) *y = calloc((size_t)n * k, sizeof *y);

    assert_true(r && z && y);
    for (size_t i = 0; i < (size_t)n * k; i++)
        x[i] = rounded(x[i], bf16);
    for (uint32_t step = 0; step < s->steps; step++) {
        const double a = s->triples[step][0], b = s->triples[step][1], c = s->triples[step][2];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j <= i; j++) {
                double sum = 0;
                for (uint32_t l = 0; l < k; l++)
                    sum += x[(size_t)i * k + l] * x[(size_t)j * k + l];
                r[(size_t)i * n + j] = r[(size_t)j * n + i] = rounded(sum, bf16);
            }
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j <= i; j++) {
                double sum = 0;
                for (uint32_t l = 0; l < n; l++)
                    sum += r[(size_t)i * n + l] * r[(size_t)j * n + l];
                z[(size_t)i * n + j] = z[(size_t)j * n + i] =
                    rounded(b * r[(size_t)i * n + j] + c * sum, bf16);
            }
        for (uint32_t i = 0; i < n; i++) {
            double *row = y + (size_t)i * k;
            memset(row, 0, k * sizeof *row);
            for (uint32_t l = 0; l < n; l++)
                for (uint32_t j = 0; j < k; j++)
                    row[j] += z[(size_t)i * n + l] * x[(size_t)l * k + j];
        }
        for (size_t i = 0; i < (size_t)n * k; i++)
            x[i] = rounded(a * x[i] + y[i], bf16);
    }
    free(r);
    free(z);
}

static double distance(const double *x, const double *from, size_t count)
{
    double of = 0, all = 0;

    for (size_t i = 0; i < count; i++) {
        of += (x[i] - from[i]) * (x[i] - from[i]);
        all += from[i] * from[i];
    }
    return all > 0 ? sqrt(of / all) : sqrt(of);
}

// ---- runs ---------------------------------------------------------------------------------------

struct subject {
    uint32_t n, k;
    enum kind kind;
    unsigned schedule;
    double *x;     // as the kernels get it
    double *plain; // the iteration in doubles
    double bf16;   // how far the one in bf16 is from it
};

// Of each way to compute a matrix: on a chip of 64 and 128 rows, square and not, and square of more
// rows; in tiles, with rests of rows, columns and depth: plain, in pairs of steps, and with T where
// Q was or in a place of its own, with slices.
static struct subject subjects[] = {
    { 16, 16, RANDOM, FIVE },     { 1, 9, RANDOM, FIVE },    { 40, 203, RANDOM, FIVE },
    { 50, 96, LOW_RANK, FIVE },   { 64, 190, ILL, FIVE },    { 60, 60, ILL, FIVE },
    { 1, 1, RANDOM, FIVE },       { 30, 41, ZERO, FIVE },    { 128, 128, RANDOM, TWO },
    { 77, 90, RANDOM, FOUR },     { 129, 129, RANDOM, TWO }, { 130, 150, RANDOM, FIVE },
    { 129, 1030, LOW_RANK, ONE }, { 193, 193, ILL, FIVE },   { 130, 210, ILL, FIVE },
    { 130, 290, LOW_RANK, FOUR }, { 200, 201, RANDOM, ONE },
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static void prepare(struct random *r, struct subject *s, const struct muon_schedule *of)
{
    const size_t count = (size_t)s->n * s->k;
    s->x = make(r, s->n, s->k, s->kind);
    s->plain = malloc(count * sizeof *s->plain);
    ALLOCATED(double) *bf16 = malloc(count * sizeof *bf16);
    assert_true(s->plain && bf16);
    memcpy(s->plain, s->x, count * sizeof *s->x);
    memcpy(bf16, s->x, count * sizeof *s->x);
    iterate(s->plain, s->n, s->k, &of[s->schedule], false);
    iterate(bf16, s->n, s->k, &of[s->schedule], true);
    s->bf16 = distance(bf16, s->plain, count);
}

// The launches of these subjects: what they leave, as f16, matrix after matrix.
struct result {
    struct muon_matrix matrices[SUBJECTS];
    unsigned char *memory;
    unsigned launches;
    bool groups; // multiplied by warpgroups
};

static struct result run(const struct subject *const *which, size_t count,
                         const struct muon_schedule *of, uint32_t side, uint32_t band,
                         bool by_warps, bool captured)
{
    struct result result = { 0 };
    uint64_t bytes;

    for (size_t i = 0; i < count; i++)
        result.matrices[i] = (struct muon_matrix) { .rows = which[i]->n,
                                                    .columns = which[i]->k,
                                                    .schedule = which[i]->schedule };
    const struct muon_set set = { .matrices = result.matrices,
                                  .count = count,
                                  .schedules = of,
                                  .schedule_count = SCHEDULES,
                                  .side = side,
                                  .band = band,
                                  .by_warps = by_warps };
    assert_int_equal(ptxp_muon_layout(&set, &bytes), PTX_OK);
    result.memory = malloc(bytes);
    assert_non_null(result.memory);
    memset(result.memory, 0xff, bytes);
    for (size_t i = 0; i < count; i++) {
        const struct muon_matrix *m = &result.matrices[i];
        const size_t pitch = (size_t)muon_pitch(m->columns);
        for (uint32_t row = 0; row < m->rows; row++) {
            uint16_t *to = (uint16_t *)(void *)(result.memory + m->x + row * pitch);
            memset(to, 0, pitch);
            for (uint32_t j = 0; j < m->columns; j++)
                to[j] = f16_from_f64((double)(float)which[i]->x[(size_t)row * m->columns + j]);
        }
    }
    OWNED(ptx_buffer) *workspace = ptx_buffer_create(gpu.device, bytes);
    assert_non_null(workspace);
    assert_int_equal(ptx_buffer_upload(workspace, 0, result.memory, bytes, gpu.stream), PTX_OK);
    struct muon_products *products =
        made(ptxp_muon_create(gpu.device, &set, ptx_buffer_address(workspace), NULL, gpu.stream));
    result.launches = ptxp_muon_launches(products);
    result.groups = ptxp_muon_launch_at(products, 0).groups;
    unsigned char *launched = NULL;
    if (captured) {
        assert_int_equal(ptx_capture_begin(gpu.device, gpu.stream, 0), PTX_OK);
        assert_int_equal(ptxp_muon_run(products, gpu.stream), PTX_OK);
        // A run on another stream, while the capture is open, is a run as others.
        CUstream elsewhere = ptx_stream_create(gpu.device);
        if (ptxp_muon_run(products, elsewhere))
            fail_msg("%s", ptx_error_message());
        OWNED(ptx_graph) *graph = ptx_capture_end(gpu.device, gpu.stream);
        assert_non_null(graph);
        launched = malloc(bytes);
        assert_non_null(launched);
        assert_int_equal(ptx_buffer_download(workspace, 0, launched, bytes, elsewhere), PTX_OK);
        assert_int_equal(ptx_stream_synchronize(gpu.device, elsewhere), PTX_OK);
        ptx_stream_destroy(gpu.device, &elsewhere);
        assert_int_equal(ptx_buffer_upload(workspace, 0, result.memory, bytes, gpu.stream), PTX_OK);
        assert_int_equal(ptx_graph_launch(graph, gpu.stream), PTX_OK);
        assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    } else if (ptxp_muon_run(products, gpu.stream)) {
        fail_msg("%s", ptx_error_message());
    }
    assert_int_equal(ptx_buffer_download(workspace, 0, result.memory, bytes, gpu.stream), PTX_OK);
    if (ptx_stream_synchronize(gpu.device, gpu.stream))
        fail_msg("%s", ptx_error_message());
    for (size_t i = 0; i < count && captured; i++) {
        const struct muon_matrix *m = &result.matrices[i];
        assert_memory_equal(launched + m->out, result.memory + m->out,
                            m->rows * (size_t)muon_pitch(m->columns));
    }
    free(launched);
    ptxp_muon_destroy(products);
    return result;
}

// How far a result is from the plain iteration. Its pads are 0.
static double measure(const struct result *result, size_t i, const struct subject *s)
{
    const struct muon_matrix *m = &result->matrices[i];
    const size_t pitch = (size_t)muon_pitch(m->columns), count = (size_t)s->n * s->k;
    ALLOCATED(double) *x = malloc(count * sizeof *x);

    assert_non_null(x);
    for (uint32_t row = 0; row < s->n; row++) {
        const uint16_t *from =
            (const uint16_t *)(const void *)(result->memory + m->out + row * pitch);
        for (uint32_t j = 0; j < s->k; j++)
            x[(size_t)row * s->k + j] = f16_to_f64(from[j]);
        for (size_t j = s->k; j < pitch / 2; j++)
            assert_int_equal(from[j], 0);
    }
    const double far = distance(x, s->plain, count);
    return far;
}

static void expect_close(const struct result *result, const struct subject *const *which,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct subject *s = which[i];
        const double far = measure(result, i, s);
        const double most = s->bf16 > 0.01 ? s->bf16 : 0.01;
        const bool absolute = s->kind == RANDOM && s->n >= 16;
        if (getenv("MUON_SHOW"))
            print_message("%u x %u, kind %d: %.5f, bf16 %.5f\n", s->n, s->k, s->kind, far, s->bf16);
        if (!(far <= most) || (absolute && !(far <= 0.02)) || (s->kind == ZERO && far != 0))
            fail_msg("%u x %u, kind %d: %g from the plain iteration; bf16 is %g", s->n, s->k,
                     s->kind, far, s->bf16);
    }
}

static const struct subject *all[SUBJECTS];

TEST(results_are_close_to_the_plain_iteration)
{
    const struct result result = run(all, SUBJECTS, schedules, 0, 0, false, false);

    assert_int_equal(result.launches, 3 + ptxp_muon_has_groups(gpu.device));
    expect_close(&result, all, SUBJECTS);
    free(result.memory);
}

// Each alone, with the other tiles and multiplied by warps: the bits that it has among the others,
// captured, whose products warpgroups make where the device has them, those of square matrices in
// one block, and those by Q in bands of small tiles or by large ones. Blocks of 64 and of 128 rows
// are beside each other in the order of the caller.
TEST(bits_depend_on_the_matrix_alone)
{
    static const unsigned which[] = { 5, 10, 2, 13, 4, 9, 11, 12, 14 };
    enum { COUNT = sizeof which / sizeof *which };
    const struct subject *some[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        some[i] = &subjects[which[i]];
    const struct result together = run(some, COUNT, schedules, MUON_TILE, 0, false, true);
    const struct result bands = run(some, COUNT, schedules, MUON_SMALL, 2, false, false);
    for (size_t i = 0; i < COUNT; i++) {
        const struct result alone = run(&some[i], 1, schedules, MUON_SMALL, 0, true, false);
        const struct muon_matrix *m = &alone.matrices[0];
        const size_t bytes = m->rows * (size_t)muon_pitch(m->columns);
        assert_memory_equal(alone.memory + m->out, together.memory + together.matrices[i].out,
                            bytes);
        assert_memory_equal(alone.memory + m->out, bands.memory + bands.matrices[i].out, bytes);
        free(alone.memory);
    }
    free(together.memory);
    free(bands.memory);
}

// Warpgroups multiply where the device has instructions of theirs, unless that is not wanted.
TEST(warpgroups_multiply_on_sm_90)
{
    const struct subject *one[] = { &subjects[6] };

    for (unsigned by_warps = 0; by_warps < 2; by_warps++) {
        const struct result result = run(one, 1, schedules, 0, 0, by_warps, false);
        const struct ptx_device_info *info = ptx_device_get_info(gpu.device);
        assert_int_equal(result.groups, !by_warps && info->sm == 90 && info->isa >= 80);
        free(result.memory);
    }
}

// X that grows beyond f16: which elements are infinite and which NaN is open, but none is finite,
// in a square's block and in tiles.
TEST(nothing_stays_finite_beyond_f16)
{
    struct subject large = { 193, 193, RANDOM, TWO };
    struct random r = gpu_random("beyond f16");

    large.x = make(&r, large.n, large.k, large.kind);
    large.x[(size_t)large.n * large.k - 1] = 300;
    const struct subject *one[] = { &large };
    for (unsigned by_warps = 0; by_warps < 2; by_warps++) {
        const struct result result = run(one, 1, schedules, 0, 0, by_warps, false);
        const struct muon_matrix *m = &result.matrices[0];
        for (uint32_t row = 0; row < large.n; row++) {
            const uint16_t *x = (const uint16_t *)(const void *)(result.memory + m->out +
                                                                 row * (size_t)muon_pitch(large.k));
            for (uint32_t j = 0; j < large.k; j++)
                assert_false(isfinite(f16_to_f64(x[j])) != 0);
        }
        free(result.memory);
    }
    free(large.x);
}

static ptx_status count_level(void *to, uint32_t level, const struct muon_product *product)
{
    unsigned *most = to;

    assert_true(product->rows <= product->columns);
    *most = *most < level + 1 ? level + 1 : *most;
    return PTX_OK;
}

// Other counts of steps, with their restarts: 3 levels a step, 1 more, and 1 for each restart; 1
// less where one step is between restarts and ends. Where T has no place of its own, 1 more for
// each second step of three. Two steps of a pair have 7, and steps of the plain form 3.
TEST(other_counts_of_steps)
{
    const struct muon_matrix large = { .rows = 200, .columns = 600 };
    const struct muon_matrix shorter = { .rows = 200, .columns = 400 };
    const struct muon_matrix pairs = { .rows = 200, .columns = 399 };
    const struct muon_matrix plain = { .rows = 200, .columns = 299 };

    for (uint32_t steps = 0; steps <= MOST_STEPS; steps += SANITIZED_EVERY(3)) {
        const struct muon_schedule schedule[SCHEDULES] = { { steps, jordan } };
        struct subject own[] = { { 40, 70, RANDOM, 0 }, { 33, 33, RANDOM, 0 } };
        const struct subject *which[] = { &own[0], &own[1] };
        struct random r = gpu_random("steps");
        for (unsigned i = 0; i < 2; i++)
            prepare(&r, &own[i], schedule);
        const struct result result = run(which, 2, schedule, 0, 0, false, false);
        expect_close(&result, which, 2);
        unsigned levels = 0, more = 0, of_pairs = 0, of_plain = 0;
        ptxp_muon_visit(&large, &schedule[0], 0, count_level, &levels);
        ptxp_muon_visit(&shorter, &schedule[0], 0, count_level, &more);
        ptxp_muon_visit(&pairs, &schedule[0], 0, count_level, &of_pairs);
        ptxp_muon_visit(&plain, &schedule[0], 0, count_level, &of_plain);
        const unsigned restarts = steps > 3 ? (steps - 3) / 3 + 1 : 0;
        const unsigned single = steps == 1 || (steps > 3 && steps % 3 == 0);
        assert_int_equal(levels, steps ? 3 * steps + restarts + 1 - single : 0);
        assert_int_equal(more - levels, steps > 3 ? (steps - 2) / 3 : steps == 3);
        assert_int_equal(of_pairs, 7 * (steps / 2) + 3 * (steps % 2));
        assert_int_equal(of_plain, 3 * steps);
        for (unsigned i = 0; i < 2; i++) {
            free(own[i].x);
            free(own[i].plain);
        }
        free(result.memory);
    }
}

// Of devices from sm_86 on the least has 99 KB for a block. Those of warpgroups are for sm_90.
TEST(shared_memory_is_any_devices)
{
    for (unsigned entry = 0; entry < MUON_SQUARE; entry++)
        assert_true(ptxk_muon_shared(entry, false) <= 99 * 1024);
}

TEST(sizes_that_cannot_be_are_refused)
{
    struct muon_matrix m = { .rows = 5, .columns = 4 };
    const struct muon_set set = {
        .matrices = &m, .count = 1, .schedules = &schedules[FIVE], .schedule_count = 1
    };
    uint64_t bytes = 7;

    assert_int_equal(ptxp_muon_layout(&set, &bytes), PTX_ERROR_INVALID);
    m = (struct muon_matrix) { .rows = 16385, .columns = 20000 };
    assert_int_equal(ptxp_muon_layout(&set, &bytes), PTX_ERROR_INVALID);
    m = (struct muon_matrix) { .rows = 4, .columns = 4, .schedule = 1 };
    assert_int_equal(ptxp_muon_layout(&set, &bytes), PTX_ERROR_INVALID);
    assert_int_equal(bytes, 7);
}

static uint64_t bytes_of(const struct muon_set *set)
{
    uint64_t bytes;

    assert_int_equal(ptxp_muon_layout(set, &bytes), PTX_OK);
    return bytes;
}

// At most 2.2 bytes an element up to 128 rows and 6 above, with the elements that fill a row up to
// a multiple of 8; without those where X, its other place and a square allow it. Few have less.
TEST(memory_stays_small)
{
    static const struct {
        uint32_t rows, columns;
        double most;
    } less[] = { { 768, 768, 6 },    { 768, 2304, 5.34 },  { 896, 4864, 4.4 },
                 { 256, 1152, 4.5 }, { 129, 2560, 5.1 },   { 768, 1024, 5.5 },
                 { 129, 258, 5.21 }, { 1024, 1032, 5.99 }, { 16384, 20000, 5.7 } };
    struct muon_matrix m = { 0 };
    const struct muon_set set = {
        .matrices = &m, .count = 1, .schedules = &schedules[FIVE], .schedule_count = 1
    };

    for (uint32_t n = 1; n <= 600; n += SANITIZED_EVERY(7))
        for (uint32_t k = n; k <= 5 * n; k++) {
            m = (struct muon_matrix) { .rows = n, .columns = k };
            const uint64_t bytes = bytes_of(&set), x = n * muon_pitch(k);
            const uint64_t plain = 2 * x + n * muon_pitch(n), most = 6 * (uint64_t)n * k;
            if (n <= 128)
                assert_int_equal(bytes, x);
            else
                assert_in_range(bytes, 2 * x, plain < most ? most : plain);
        }
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        m = (struct muon_matrix) { .rows = less[i].rows, .columns = less[i].columns };
        assert_true((double)bytes_of(&set) <= less[i].most * m.rows * m.columns);
    }
    m = (struct muon_matrix) { .rows = 128, .columns = 1280, .given = true };
    assert_true((double)bytes_of(&set) <= 2.2 * m.rows * m.columns);
}

// Small matrices lie beside each other; a large one begins where lines of a cache do.
TEST(small_matrices_share_lines)
{
    struct muon_matrix m[] = { { .rows = 3, .columns = 3 },
                               { .rows = 1, .columns = 9 },
                               { .rows = 0 },
                               { .rows = 64, .columns = 64 },
                               { .rows = 1, .columns = 1 } };
    const struct muon_set set = {
        .matrices = m, .count = 5, .schedules = &schedules[FIVE], .schedule_count = 1
    };

    assert_int_equal(bytes_of(&set), 256 + 64 * 128 + 16);
    assert_int_equal(m[1].x, 3 * 16);
    assert_int_equal(m[3].x, 256);
    assert_int_equal(m[4].out, 256 + 64 * 128);
}

// What lies in the memory of a matrix: what was written, and at which level.
struct memory {
    struct {
        CUdeviceptr at;
        uint64_t bytes;
        uint32_t level;
    } written[16], read[16];
    size_t written_count, read_count;
    uint64_t bytes;
    uint32_t level;
};

// It is there since an earlier level.
static void reads(struct memory *m, CUdeviceptr at, uint64_t bytes)
{
    bool there = false;

    for (size_t k = 0; k < m->written_count; k++)
        there |= m->written[k].at == at && m->written[k].bytes == bytes &&
                 m->written[k].level < m->level;
    assert_true(there);
    assert_in_range(m->read_count, 0, 15);
    m->read[m->read_count].at = at;
    m->read[m->read_count++].bytes = bytes;
}

// Nothing of the level reads there, or has written there; what was there is gone.
static void writes(struct memory *m, CUdeviceptr at, uint64_t bytes)
{
    size_t kept = 0;

    assert_true(at + bytes <= m->bytes);
    for (size_t k = 0; k < m->read_count; k++)
        assert_true(at + bytes <= m->read[k].at || m->read[k].at + m->read[k].bytes <= at);
    for (size_t k = 0; k < m->written_count; k++) {
        const CUdeviceptr other = m->written[k].at, end = other + m->written[k].bytes;
        const bool apart = at + bytes <= other || end <= at;
        assert_true(apart || m->written[k].level < m->level);
        if (apart)
            m->written[kept++] = m->written[k];
    }
    assert_in_range(kept, 0, 15);
    m->written[kept].at = at;
    m->written[kept].bytes = bytes;
    m->written[kept].level = m->level;
    m->written_count = kept + 1;
}

static ptx_status follow(void *to, uint32_t level, const struct muon_product *p)
{
    struct memory *m = to;
    const uint64_t rows = p->rows;

    if (level + 1 != m->level) {
        assert_int_equal(level, m->level); // X is of level 0
        m->level = level + 1;
        m->read_count = 0;
    }
    reads(m, p->a, rows * p->pitch_a);
    reads(m, p->b, rows * p->pitch_b);
    if (p->e)
        reads(m, p->e, rows * p->pitch_c);
    writes(m, p->c, rows * p->pitch_c);
    if (p->q)
        writes(m, p->q, rows * p->pitch_c);
    if (p->slices > 1) {
        const uint64_t side = (rows + MUON_TILE - 1) / MUON_TILE;
        writes(m, p->partials, side * (side + 1) / 2 * p->slices * MUON_PARTIAL);
    }
    return PTX_OK;
}

// No product is written over what it, or one beside it or behind it, reads.
TEST(memory_is_shared_in_turns)
{
    static const uint32_t all_rows[] = {
        129, 136, 200, 256, 257, 384, 385, 768, 1000, 4096, 16384
    };
    static const uint32_t longer[] = { 0,  1,   8,   33,  49,  50,  51,  64, 95,
                                       99, 100, 149, 150, 151, 200, 333, 900 };
    static const float triples[9][3];
    enum { COUNT = sizeof longer / sizeof *longer };

    for (size_t i = 0; i < COUNT * sizeof all_rows / sizeof *all_rows; i++)
        for (uint32_t steps = 1; steps <= sizeof triples / sizeof *triples; steps++) {
            const uint32_t n = all_rows[i / COUNT], k = n + n * longer[i % COUNT] / 100;
            const struct muon_schedule schedule = { steps, triples };
            struct muon_matrix m = { .rows = n, .columns = k };
            const struct muon_set set = {
                .matrices = &m, .count = 1, .schedules = &schedule, .schedule_count = 1
            };
            struct memory memory = { 0 };
            assert_int_equal(ptxp_muon_layout(&set, &memory.bytes), PTX_OK);
            const uint64_t x = n * muon_pitch(k);
            writes(&memory, m.x, x);
            assert_int_equal(ptxp_muon_visit(&m, &schedule, 0, follow, &memory), PTX_OK);
            memory.level++;
            memory.read_count = 0;
            reads(&memory, m.out, x);
        }
}

int main(void)
{
    gpu_open_from(80);
    struct random r = gpu_random("muon products");
    for (size_t i = 0; i < SUBJECTS; i++) {
        prepare(&r, &subjects[i], schedules);
        all[i] = &subjects[i];
    }
    const int failed = tests_run(NULL, NULL);
    for (size_t i = 0; i < SUBJECTS; i++) {
        free(subjects[i].x);
        free(subjects[i].plain);
    }
    gpu_close();
    return failed;
}

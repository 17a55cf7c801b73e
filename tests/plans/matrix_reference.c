// SPDX-License-Identifier: MIT
#include "matrix_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "plans/muon_products.h"
#include "test.h"

enum { PART = 1024, WARP = 32, BLOCK = 256 };

static const struct ptx_muon_params usual = { .steps = PTX_MUON_STEPS };

void matrix_draw_group(struct random *r, struct ptx_step_group *g, struct ptx_muon_params *muon)
{
    *muon = (struct ptx_muon_params) { .steps = random_below(r, 7),
                                       .adjust = (ptx_muon_adjust)random_below(r, 2),
                                       .in_by_out = random_below(r, 2) };
    g->muon = random_below(r, 4) ? muon : NULL;
    g->nesterov = random_below(r, 2);
    g->hyper.dampening = 0;
}

void matrix_draw(struct random *r, uint64_t most, struct ptx_step_tensor *tensor)
{
    static const uint64_t widths[] = { 1, 3, 8, 16, 33, 48, 64, 70, 96, 128, 130, 144, 300 };
    const ptx_step_format formats[] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_STATE_BF16,
                                        PTX_STEP_FORMAT_MASTER, PTX_STEP_FORMAT_REMAINDER,
                                        PTX_STEP_FORMAT_STOCHASTIC };

    tensor->format = formats[random_below(r, 5)];
    tensor->dtype = tensor->format <= PTX_STEP_FORMAT_STATE_BF16  ? PTX_F32
                    : tensor->format == PTX_STEP_FORMAT_REMAINDER ? PTX_BF16
                    : random_below(r, 3)                          ? PTX_BF16
                                                                  : PTX_F16;
    tensor->columns = tensor->fp8_columns ? tensor->fp8_columns
                                          : widths[random_below(r, sizeof widths / sizeof *widths)];
    tensor->count = random_below(r, (uint32_t)(most / tensor->columns + 1)) * tensor->columns;
}

// G * G, m * m, m * G, in the order of the kernel.
static void sums_of(const struct ref_step_tensor *t, double sum[3])
{
    const enum ref_type state =
        t->format == REF_STATE_BF16 || t->format == REF_STOCHASTIC ? REF_BF16 : REF_F32;
    const uint64_t n = t->count, parts = (n + PART - 1) / PART;
    double all[3][BLOCK] = { { 0 } };

    for (uint64_t part = 0; part < parts; part++) {
        double of[3][WARP] = { { 0 } };
        for (uint64_t i = part * PART; i < n && i < (part + 1) * PART; i++) {
            const double g = ref_load(t->gradient_type, t->gradient, i),
                         m = ref_load(state, t->state[0], i);
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
static float scale_of(const struct ref_step_tensor *t, float factor)
{
    const float momentum = (float)t->hyper.momentum, eps = (float)t->hyper.eps;
    const double mu = momentum, a = t->nesterov ? mu * mu : mu;
    const double b = (1 - a) * (t->maximize ? -(double)factor : (double)factor);
    double sum[3];

    sums_of(t, sum);
    const double m_m = a * a * sum[1], m_g = a * b * sum[2], g_g = b * b * sum[0];
    const double square = m_m + 2 * m_g + g_g;
    const double root = sqrt(square > 0 ? square : 0);
    const double parts = 0x1p-20 * (sqrt(m_m) + sqrt(g_g));
    const double length = root > parts ? root : parts;
    const float scale = (float)(length > eps ? length : (double)eps);
    return scale == 0 ? INFINITY : scale;
}

// X and the matrix have other orders where it has more rows than columns.
static uint64_t x_place(uint64_t rows, uint64_t columns, uint64_t i)
{
    const uint64_t row = i / columns, column = i % columns;
    const uint64_t line = muon_pitch((uint32_t)(rows > columns ? rows : columns)) / 2;

    return rows > columns ? column * line + row : row * line + column;
}

// `x`: f16, in the order of the tensor; replaced.
static void products(const struct ptx_muon_params *muon, uint64_t rows, uint64_t columns,
                     uint16_t *x)
{
    static const float jordan[3] = { 3.4445f, -4.7750f, 2.0315f };
    struct muon_matrix matrix = { .rows = (uint32_t)(rows > columns ? columns : rows),
                                  .columns = (uint32_t)(rows > columns ? rows : columns) };
    float triples[PTX_MUON_MOST_STEPS][3];
    const struct muon_schedule schedule = { muon->steps, (const float(*)[3])triples };
    const struct muon_set one = {
        .matrices = &matrix, .count = 1, .schedules = &schedule, .schedule_count = 1
    };
    uint64_t bytes;

    for (uint32_t k = 0; k < muon->steps; k++)
        memcpy(triples[k], muon->triples ? muon->triples + 3 * k : jordan, sizeof jordan);
    require(ptxp_muon_layout(&one, &bytes));
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, (size_t)bytes);
    ALLOCATED(uint16_t) *image = calloc((size_t)bytes, 1);
    for (uint64_t i = 0; i < rows * columns; i++)
        image[matrix.x / 2 + x_place(rows, columns, i)] = x[i];
    require(ptx_buffer_upload(memory, 0, image, (size_t)bytes, gpu.stream));
    struct muon_products *made =
        ptxp_muon_create(gpu.device, &one, ptx_buffer_address(memory), NULL, gpu.stream);
    assert_non_null(made);
    require(ptxp_muon_run(made, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, image, (size_t)bytes, gpu.stream));
    for (uint64_t i = 0; i < rows * columns; i++)
        x[i] = image[matrix.out / 2 + x_place(rows, columns, i)];
    ptxp_muon_destroy(made);
}

static double adjust_of(const struct ptx_muon_params *muon, uint64_t rows, uint64_t columns)
{
    const double a = (double)(muon->in_by_out ? columns : rows);
    const double b = (double)(muon->in_by_out ? rows : columns);

    return muon->adjust == PTX_MUON_ADJUST_ORIGINAL ? sqrt(a > b ? a / b : 1)
                                                    : 0.2 * sqrt(a > b ? a : b);
}

uint16_t *matrix_orthogonalize(struct ref_step_tensor *tensor, const struct ptx_step_group *group,
                               uint64_t columns, float factor)
{
    const struct ptx_muon_params *const muon = group->muon ? group->muon : &usual;
    const uint64_t n = tensor->count, rows = n / columns;
    const float scale = scale_of(tensor, factor);
    ALLOCATED(float) *updates = calloc((size_t)n + 1, sizeof *updates);
    uint16_t *x = calloc((size_t)n + 1, sizeof *x);

    assert_true(updates && x);
    ref_muon_updates(tensor, factor, updates);
    for (uint64_t i = 0; i < n; i++) {
        const float quotient = updates[i] / scale;
        ref_store(REF_F16, x, i, (double)quotient);
    }
    if (n && muon->steps)
        products(muon, rows, columns, x);
    tensor->rate = (float)((double)(float)tensor->hyper.lr * adjust_of(muon, rows, columns));
    return x;
}

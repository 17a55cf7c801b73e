// SPDX-License-Identifier: MIT
// Step plans for the parameters of models.
#include "bench.h"
#include "gradient_sets.h"
#include "plans/rules/rules.h"
#include "step_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMULATED_ELEMENTS = 1 << 17, ALIGNMENT = 256 };

static const float scale = CODES_SCALE;

static const uint64_t gpu_copy = UINT64_C(1) << 30, emulated_copy = UINT64_C(1) << 17;

/// Gradients stay, so no guard finds anything, and every step is taken.
static const struct ptx_guard_params guards = { .limit = 1e30f,
                                                .history.length = 128,
                                                .zclip.warmup = 25 };

/// A rule, the format and the type of the parameters, and the element size of each array.
#define KIND(RULE, FORMAT, TYPE, ...)                                                              \
    PTX_STEP_RULE_##RULE, PTX_STEP_FORMAT_##FORMAT, PTX_##TYPE,                                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define ADAMW_F32            KIND(ADAMW, FULL, F32, 4, 4, 0, 4, 4)
#define ADAMW_F32_CODES      KIND(ADAMW, FULL, F32, 4, 4, 0, 4, 4, [CODES] = 1)
#define ADAMW_GRADIENTS_BF16 KIND(ADAMW, FULL, F32, 4, 2, 0, 4, 4)
#define ADAMW_SUMS           KIND(ADAMW, FULL, F32, 4, 2, 0, 4, 4, [SUM] = 4)
#define ADAMW_STOCHASTIC     KIND(ADAMW, STOCHASTIC, BF16, 2, 2, 0, 2, 2)

static const struct kind kinds[] = {
    { "adamw f32", ADAMW_F32 },
    { "adamw f32, a caller's rule", ADAMW_F32, .own = &own_adamw_params },
    { "adamw f32, guards", ADAMW_F32, .guards = &guards },
    { "adamw f32, reports", ADAMW_F32, .reports = true },
    { "adamw f32, weight reports", ADAMW_F32, .weight_reports = true },
    { "adamw f32, all reports", ADAMW_F32, .reports = true, .weight_reports = true },
    { "adamw f32, agc", ADAMW_F32, .agc = true },
    { "adamw f32, amax", ADAMW_F32, .amax = true },
    { "adamw f32, copy e4m3 and amax", ADAMW_F32_CODES, .amax = true },
    { "adamw f32, copy e4m3, its transpose and amax", ADAMW_F32_CODES, .amax = true,
      .transposed = true },
    { "adamw f32, gradients bf16", ADAMW_GRADIENTS_BF16 },
    { "adamw f32, gradients bf16, e4m3 in blocks of 128 x 128, both ways", ADAMW_GRADIENTS_BF16,
      .blocks = PTX_FP8_BLOCKS_128X128, .moved = 30 },
    { "adamw f32, gradients bf16, e4m3 in blocks of 1 x 128, both ways", ADAMW_GRADIENTS_BF16,
      .blocks = PTX_FP8_BLOCKS_1X128, .moved = 30 },
    { "adamw bf16, master, copy e4m3 and amax",
      KIND(ADAMW, MASTER, BF16, 2, 2, 4, 4, 4, [CODES] = 1), .amax = true },
    { "adamw f32, states bf16", KIND(ADAMW, STATE_BF16, F32, 4, 4, 0, 2, 2) },
    { "adamw bf16, master", KIND(ADAMW, MASTER, BF16, 2, 2, 4, 4, 4) },
    { "adamw bf16, remainder", KIND(ADAMW, REMAINDER, BF16, 2, 2, 2, 4, 4) },
    { "adamw bf16, stochastic", ADAMW_STOCHASTIC },
    { "adamw bf16, stochastic, agc", ADAMW_STOCHASTIC, .agc = true },
    { "adamw bf16, stochastic, a caller's rule", ADAMW_STOCHASTIC, .own = &own_adamw_params },
    { "adamw bf16, 8-bit states", KIND(ADAMW, STATE_8BIT, BF16, 2, 2, 0, 1, 1, 4, 4) },
    { "adamw bf16, f16 states", KIND(ADAMW, STATE_F16, BF16, 2, 2, 0, 2, 2, 4, 4) },
    { "adamw bf16, master of 24 bits", KIND(ADAMW, MASTER_24BIT, BF16, 2, 2, 1, 1, 1, 2, 2) },
    { "adamw f32, ema f32", KIND(ADAMW, FULL, F32, 4, 4, 0, 4, 4, [EMA] = 4) },
    { "adamw bf16, stochastic, ema bf16", KIND(ADAMW, STOCHASTIC, BF16, 2, 2, 0, 2, 2, [EMA] = 2) },
    { "first of micro-batches", ADAMW_SUMS, .part = FIRST_MICRO_BATCH, .moved = 6 },
    { "later micro-batch", ADAMW_SUMS, .part = LATER_MICRO_BATCH, .moved = 10 },
    { "adamw f32, two micro-batches", ADAMW_SUMS, .part = TWO_MICRO_BATCHES, .moved = 6 + 10 + 28 },
    { "adamw f32, two micro-batches, agc", ADAMW_SUMS, .part = TWO_MICRO_BATCHES, .agc = true,
      .moved = 6 + 10 + 28 },
    { "sgd f32", KIND(SGD, FULL, F32, 4, 4, 0, 4, 0) },
    { "lion bf16, stochastic", KIND(LION, STOCHASTIC, BF16, 2, 2, 0, 2, 0) },
};

// ---- memory -------------------------------------------------------------------------------------

/// The bytes of an array with its gaps.
static uint64_t bytes_of(const struct model *m, unsigned array)
{
    return elements_of(m->kind, array, m->room) * m->kind->bytes[array];
}

static CUdeviceptr address(const struct model *m, unsigned array, size_t t)
{
    return m->array[array] ? ptx_buffer_address(m->array[array]) +
                                 elements_of(m->kind, array, m->first[t]) * m->kind->bytes[array]
                           : 0;
}

static ptx_type ema_type(const struct kind *kind)
{
    return kind->bytes[EMA] == 4 ? PTX_F32 : kind->bytes[EMA] ? PTX_BF16 : PTX_NONE;
}

/// Whether a tensor is a matrix.
static bool is_matrix(const struct ptx_step_tensor *tensor)
{
    return tensor->count % COLUMNS == 0 && tensor->count / COLUMNS >= LEAST_ROWS;
}

static void place(struct model *m, const struct ptx_clip_tensor *gradients)
{
    for (size_t t = 0; t < m->count; t++) {
        m->first[t] = m->room;
        m->tensors[t] = (struct ptx_step_tensor) { .count = gradients[t].count,
                                                   .dtype = m->kind->dtype,
                                                   .gradient_dtype = gradient_type(m->kind),
                                                   .format = m->kind->format,
                                                   .ema_dtype = ema_type(m->kind),
                                                   .norm_group = gradients[t].group,
                                                   .id = (uint32_t)t };
        m->tensors[t].columns = is_matrix(&m->tensors[t]) ? COLUMNS : 0;
        m->elements += gradients[t].count;
        m->room += (gradients[t].count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/// The factors of a matrix, at most, for either way.
static uint64_t block_scales_of(const struct ptx_step_tensor *tensor)
{
    const uint64_t rows = tensor->count / COLUMNS, width = 128;

    return is_matrix(tensor) ? rows * (COLUMNS / width) + COLUMNS * ((rows + width - 1) / width)
                             : 0;
}

/// Gives the tensors their codes in blocks.
static bool allocate_blocks(struct bench *b, struct model *m)
{
    uint64_t scales = 0;

    if (!m->kind->blocks)
        return true;
    for (size_t t = 0; t < m->count; t++)
        scales += 2 * block_scales_of(&m->tensors[t]);
    m->blocks = bench_buffer(b, 2 * m->room);
    m->block_scales = bench_buffer(b, (scales + 1) * sizeof(float));
    if (!m->blocks || !m->block_scales)
        return false;
    scales = 0;
    for (size_t t = 0; t < m->count; t++) {
        struct ptx_step_tensor *tensor = &m->tensors[t];
        const uint64_t own = block_scales_of(tensor);
        if (!own)
            continue;
        tensor->fp8 = ptx_buffer_address(m->blocks) + m->first[t];
        tensor->fp8_transposed = tensor->fp8 + m->room;
        tensor->fp8_scale_inv = ptx_buffer_address(m->block_scales) + scales * sizeof(float);
        tensor->fp8_transposed_scale_inv = tensor->fp8_scale_inv + own * sizeof(float);
        tensor->fp8_columns = COLUMNS;
        tensor->fp8_blocks = m->kind->blocks;
        tensor->fp8_scaling = PTX_FP8_SCALING_DEEPGEMM;
        scales += 2 * own;
    }
    return true;
}

static bool fill(struct bench *b, const struct model *m, unsigned array)
{
    const uint64_t bytes = bytes_of(m, array);
    const ptx_type type = m->kind->bytes[array] == 2 ? PTX_BF16 : PTX_F32;

    if (array >= STATE || (array == BESIDE && m->kind->format != PTX_STEP_FORMAT_MASTER))
        return bench_ok(b, ptx_buffer_fill(m->array[array], 0, 0, (size_t)bytes, b->stream),
                        "fill");
    return bench_randomize(b, ptx_buffer_address(m->array[array]), bytes, type);
}

static bool add(struct bench *b, ptx_buffer **buffer, uint64_t bytes, bool cleared)
{
    *buffer = bench_buffer(b, bytes);
    return *buffer &&
           (!cleared ||
            bench_ok(b, ptx_buffer_fill(*buffer, 0, 0, (size_t)bytes, b->stream), "fill"));
}

static bool allocate(struct bench *b, struct model *m)
{
    for (unsigned a = 0; a < ARRAYS; a++) {
        if (!m->kind->bytes[a])
            continue;
        m->array[a] = bench_buffer(b, bytes_of(m, a));
        if (!m->array[a] || !fill(b, m, a))
            return false;
    }
    const struct kind *kind = m->kind;
    const size_t n = m->count;
    if (!add(b, &m->counts, n * sizeof(float), true) ||
        (kind->reports && !add(b, &m->reports, n * sizeof(struct ptx_gradient_report), false)) ||
        (kind->weight_reports &&
         !add(b, &m->weight_reports, n * sizeof(struct ptx_weight_report), false)) ||
        !add(b, &m->scale, sizeof scale, false) ||
        !bench_ok(b, ptx_buffer_upload(m->scale, 0, &scale, sizeof scale, b->stream), "scale") ||
        (kind->amax && !add(b, &m->amax, n * sizeof(float), false)) ||
        (kind->transposed && !add(b, &m->transposed, m->room, false)) ||
        (kind->part && !add(b, &m->accumulated, n * sizeof(struct ptx_step_accumulated), true)))
        return false;
    for (size_t t = 0; t < m->count; t++) {
        struct ptx_step_tensor *tensor = &m->tensors[t];
        tensor->accumulator = address(m, SUM, t);
        tensor->accumulated = m->accumulated
                                  ? ptx_buffer_address(m->accumulated) +
                                        t * (CUdeviceptr)sizeof(struct ptx_step_accumulated)
                                  : 0;
        tensor->parameter = address(m, PARAMETER, t);
        tensor->gradient = address(m, GRADIENT, t);
        tensor->beside = address(m, BESIDE, t);
        tensor->state[0] = address(m, STATE, t);
        tensor->state[1] = address(m, STATE + 1, t);
        tensor->absmax[0] = address(m, ABSMAX, t);
        tensor->absmax[1] = address(m, ABSMAX + 1, t);
        tensor->ema = address(m, EMA, t);
        tensor->amax = m->amax ? ptx_buffer_address(m->amax) + t * sizeof(float) : 0;
        tensor->fp8 = address(m, CODES, t);
        tensor->fp8_scale = tensor->fp8 ? ptx_buffer_address(m->scale) : 0;
        if (m->transposed && is_matrix(tensor)) {
            tensor->fp8_transposed = ptx_buffer_address(m->transposed) + m->first[t];
            tensor->fp8_columns = COLUMNS;
        }
        tensor->step = ptx_buffer_address(m->counts) + t * sizeof(float);
    }
    return allocate_blocks(b, m);
}

// ---- measuring ----------------------------------------------------------------------------------

static ptx_status enqueue_graph(struct bench *b, const void *state)
{
    return ptx_graph_launch(((const struct model *)state)->graph, b->stream);
}

/// Makes the next micro-batch the first, as a step does: no launch of its own.
static ptx_status forget_sums(struct bench *b, const void *state)
{
    const struct model *m = state;
    return ptx_buffer_fill(m->accumulated, 0, 0, ptx_buffer_size(m->accumulated), b->stream);
}

/// What is measured, launched.
static ptx_status launch(struct bench *b, const void *state)
{
    const struct model *m = state;
    CUstream stream = b->stream;
    ptx_status status = PTX_OK;

    if (m->kind->part)
        status = ptx_step_plan_accumulate(m->plan, stream);
    if ((m->kind->part == STEP || m->kind->part == TWO_MICRO_BATCHES) && !status)
        status = ptx_step_plan_run(m->plan, stream);
    return status;
}

static json_t *facts_of(const struct model *m)
{
    return json_pack("{s:s, s:s, s:I, s:I}", "name", m->name, "kind", m->kind->name, "tensors",
                     (json_int_t)m->count, "elements", (json_int_t)m->elements);
}

static bool measure(struct bench *b, struct model *m)
{
    const struct ptx_step_params params = { .tensors = m->tensors,
                                            .tensor_count = m->count,
                                            .groups = &m->group,
                                            .group_count = 1,
                                            .max_norm = 1,
                                            .guards = m->kind->guards,
                                            .reports_at = ptx_buffer_address(m->reports),
                                            .weight_reports_at =
                                                ptx_buffer_address(m->weight_reports) };
    struct ptx_step_description description;
    struct bench_times times;
    char label[128];

    if (!bench_ok(b, ptx_step_describe(&params, &description), "plan"))
        return false;
    m->plan = ptx_step_plan_create(b->gpu.device, &params);
    if (!m->plan)
        return bench_ok(b, ptx_error_status(), "plan");
    const struct bench_work work = { enqueue_graph, m, false,
                                     m->kind->part == FIRST_MICRO_BATCH ? forget_sums : NULL };
    if (m->kind->agc &&
        !bench_ok(b, ptx_step_plan_weights_changed(m->plan, b->stream), "weights_changed"))
        return false;
    if (!step_check(b, m) || !bench_capture(b, launch, m, &m->graph) ||
        !bench_measure(b, &work, &times))
        return false;
    snprintf(label, sizeof(label), "%s, %s", m->name, m->kind->name);
    const uint64_t bytes = m->kind->moved ? m->kind->moved * m->elements : description.bytes;
    return bench_report_times(b, facts_of(m), label, &times, (double)bytes);
}

static bool measure_model(struct bench *b, const struct gradient_set *of, const struct kind *kind)
{
    struct model m = {
        .name = of->name,
        .kind = kind,
        .group = { .rule = kind->own ? 0 : kind->rule,
                   .hyper = { .lr = 1e-4,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .momentum = kind->own ? 0 : 0.9,
                              .ema_decay = 0.999 } },
        .count = gradient_set_list(of, NULL),
    };
    ptx_rule *rule = kind->own ? ptx_rule_create(kind->own) : NULL;
    if (kind->own && !rule)
        return bench_ok(b, ptx_error_status(), "rule");
    m.group.own_rule = rule;
    if (kind->agc)
        m.group.agc.clipping = 1e30;
    struct ptx_clip_tensor *gradients = calloc(m.count, sizeof(*gradients));
    bool done = true;

    m.tensors = calloc(m.count, sizeof(*m.tensors));
    m.first = calloc(m.count, sizeof(*m.first));
    if (!gradients || !m.tensors || !m.first)
        done = message_set(&b->error, "out of memory");
    if (done) {
        gradient_set_list(of, gradients);
        place(&m, gradients);
        uint64_t bytes = 0;
        for (unsigned a = 0; a < ARRAYS; a++)
            bytes += bytes_of(&m, a);
        if (!bench_has_room(b, bytes)) {
            bench_step(b);
            done = bench_report_missing(b, facts_of(&m), of->name,
                                        "it takes more device memory than is free");
        } else {
            done = allocate(b, &m) && measure(b, &m);
        }
    }
    ptx_graph_destroy(&m.graph);
    ptx_step_plan_destroy(&m.plan);
    ptx_rule_destroy(&rule);
    for (unsigned a = 0; a < ARRAYS; a++)
        bench_free(b, &m.array[a]);
    ptx_buffer **const others[] = { &m.counts,       &m.reports,    &m.weight_reports,
                                    &m.amax,         &m.transposed, &m.blocks,
                                    &m.block_scales, &m.scale,      &m.accumulated };
    for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
        bench_free(b, others[k]);
    free(m.first);
    free(m.tensors);
    free(gradients);
    return done;
}

// ---- the suite ----------------------------------------------------------------------------------

static bool is_wanted(const struct bench *b, const struct gradient_set *of, const struct kind *kind)
{
    const bool small = gradient_set_elements(of) <= EMULATED_ELEMENTS;
    char label[128];

    snprintf(label, sizeof(label), "%s, %s", of->name, kind->name);
    return bench_is_wanted(b, label) && (small || !b->emulated || b->options.only);
}

bool bench_suite_step(struct bench *b)
{
    const size_t count = sizeof(kinds) / sizeof(kinds[0]);
    const struct gradient_set *of;
    size_t cases = 0;

    for (size_t k = 0; (of = gradient_set_at(k)); k++)
        for (size_t n = 0; n < count; n++)
            cases += is_wanted(b, of, &kinds[n]);
    if (cases == 0)
        return true;
    bench_steps(b, 1, cases);
    bool done = bench_copy(b, b->emulated ? emulated_copy : gpu_copy);
    for (size_t k = 0; (of = gradient_set_at(k)) && done; k++)
        for (size_t n = 0; n < count && done; n++)
            if (is_wanted(b, of, &kinds[n]))
                done = measure_model(b, of, &kinds[n]);
    return done;
}

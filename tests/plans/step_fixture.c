// SPDX-License-Identifier: MIT
#include "step_fixture.h"
#include "matrix_reference.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, POISON = 0xa5 };
enum {
    PARAMETER,
    GRADIENT,
    BESIDE,
    STATE,
    ABSMAX = STATE + 2,
    EMA = ABSMAX + 2,
    CODES,
    SCALE,
    SCALE_INV,
    AMAX,
    TRANSPOSED,
    TRANSPOSED_SCALE_INV
};

static unsigned choose(struct random *r, uint32_t bits)
{
    for (;;) {
        const unsigned k = random_below(r, 32);
        if (bits >> k & 1)
            return k;
    }
}

static unsigned states_of(const struct ptx_step_group *group)
{
    return ref_step_states((enum ref_step_rule)group->rule, group->hyper.momentum);
}

static bool has_blocks(ptx_step_format format)
{
    return format == PTX_STEP_FORMAT_STATE_8BIT || format == PTX_STEP_FORMAT_STATE_F16 ||
           format == PTX_STEP_FORMAT_MASTER_24BIT;
}

static ptx_type state_type(ptx_step_format format)
{
    switch (format) {
    case PTX_STEP_FORMAT_STATE_BF16:
    case PTX_STEP_FORMAT_STOCHASTIC:
        return PTX_BF16;
    case PTX_STEP_FORMAT_STATE_8BIT:
    case PTX_STEP_FORMAT_MASTER_24BIT:
        return PTX_U8;
    case PTX_STEP_FORMAT_STATE_F16:
        return PTX_F16;
    default:
        return PTX_F32;
    }
}

static ptx_type array_type(const struct step_set *set, size_t t, unsigned array)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const unsigned states = states_of(&set->group[tensor->group]);

    switch (array) {
    case PARAMETER:
        return tensor->dtype;
    case GRADIENT:
        return tensor->gradient_dtype ? tensor->gradient_dtype : tensor->dtype;
    case BESIDE:
        return tensor->format == PTX_STEP_FORMAT_MASTER         ? PTX_F32
               : tensor->format == PTX_STEP_FORMAT_REMAINDER    ? PTX_S16
               : tensor->format == PTX_STEP_FORMAT_MASTER_24BIT ? PTX_S8
                                                                : PTX_NONE;
    case STATE:
    case STATE + 1:
        return array - STATE >= states ? PTX_NONE : state_type(tensor->format);
    case EMA:
        return tensor->ema_dtype;
    case CODES:
        return set->copy[t] ? PTX_U8 : PTX_NONE;
    case SCALE:
        return set->copy[t] && !tensor->fp8_blocks ? PTX_F32 : PTX_NONE;
    case SCALE_INV:
        return set->copy[t] ? PTX_F32 : PTX_NONE;
    case TRANSPOSED:
        return set->transposed[t] ? PTX_U8 : PTX_NONE;
    case TRANSPOSED_SCALE_INV:
        return set->transposed[t] && tensor->fp8_blocks ? PTX_F32 : PTX_NONE;
    case AMAX:
        return set->amax[t] ? PTX_F32 : PTX_NONE;
    default:
        return array - ABSMAX >= states || !has_blocks(tensor->format) ? PTX_NONE
               : tensor->format == PTX_STEP_FORMAT_MASTER_24BIT        ? PTX_F16
                                                                       : PTX_F32;
    }
}

static CUdeviceptr *address_of(struct ptx_step_tensor *tensor, unsigned array)
{
    return array == PARAMETER   ? &tensor->parameter
           : array == GRADIENT  ? &tensor->gradient
           : array == BESIDE    ? &tensor->beside
           : array == EMA       ? &tensor->ema
           : array == CODES     ? &tensor->fp8
           : array == SCALE     ? &tensor->fp8_scale
           : array == SCALE_INV ? &tensor->fp8_scale_inv
           : array == AMAX      ? &tensor->amax

           : array == TRANSPOSED           ? &tensor->fp8_transposed
           : array == TRANSPOSED_SCALE_INV ? &tensor->fp8_transposed_scale_inv
           : array >= ABSMAX               ? &tensor->absmax[array - ABSMAX]
                                           : &tensor->state[array - STATE];
}

// Of a tensor with codes in blocks.
static uint64_t scales_of(const struct ptx_step_tensor *tensor, bool transposed)
{
    const uint64_t columns = tensor->fp8_columns, rows = tensor->count / columns;
    const uint64_t across = (columns + 127) / 128, down = (rows + 127) / 128;

    return tensor->fp8_blocks == PTX_FP8_BLOCKS_128X128 ? across * down
           : transposed                                 ? columns * down
                                                        : rows * across;
}

static uint64_t array_count(const struct ptx_step_tensor *tensor, unsigned array)
{
    if (tensor->fp8_blocks && (array == SCALE_INV || array == TRANSPOSED_SCALE_INV))
        return scales_of(tensor, array == TRANSPOSED_SCALE_INV);
    const uint64_t block = tensor->format == PTX_STEP_FORMAT_MASTER_24BIT ? 32 : 256;
    return array == ABSMAX || array == ABSMAX + 1 ? (tensor->count + block - 1) / block
           : array >= SCALE && array <= AMAX      ? 1
                                                  : tensor->count;
}

static void fill(struct random *r, ptx_type type, enum data_kind kind, void *data, uint64_t count)
{
    if (type == PTX_S16) {
        for (uint64_t i = 0; i < count; i++)
            ((uint16_t *)data)[i] = (uint16_t)random_below(r, 65536);
        return;
    }
    if (type == PTX_U8 || type == PTX_S8) {
        for (uint64_t i = 0; i < count; i++)
            ((uint8_t *)data)[i] = (uint8_t)random_below(r, 256);
        return;
    }
    data_fill(r, gpu_ref_type(type), kind, data, count);
}

static void make_group(struct random *r, const struct step_shape *shape, struct ptx_step_group *g)
{
    static const double wild_eps[] = { 0, 1e-8, 0x1.8p127 };
    static const double decays[] = { 0.9999, 0.75, 0.25, 0, 1 };

    *g = (struct ptx_step_group) {
        .rule = (ptx_step_rule)choose(r, shape->rules),
        .maximize = random_below(r, 4) == 0,
        .hyper = { .lr = 0.001 + random_below(r, 100) / 1000.0,
                   .beta1 = 0.9,
                   .beta2 = random_below(r, 2) ? 0.999 : 0.95,
                   .eps = shape->wild ? wild_eps[random_below(r, 3)] : 1e-8,
                   .weight_decay = random_below(r, 3) * 0.01,
                   .momentum = random_below(r, 3) * 0.45,
                   .dampening = random_below(r, 2) * 0.3,
                   .ema_decay = shape->averages ? decays[random_below(r, 5)] : 0 },
    };
    if (shape->units && random_below(r, 4))
        g->agc = (struct ptx_step_agc) { .clipping = random_below(r, 3) ? 0.5 : 3,
                                         .eps = random_below(r, 2) ? 0 : 2 };
    g->nesterov = g->rule == PTX_STEP_RULE_SGD && g->hyper.momentum != 0 && random_below(r, 2);
}

static bool is_matrix(const struct step_set *set, const struct ptx_step_tensor *tensor)
{
    return set->group[tensor->group].rule == PTX_STEP_RULE_MUON;
}

static void make_tensor(struct step_set *set, struct random *r, const struct step_shape *shape,
                        size_t t)
{
    static const ptx_type gradients[] = { PTX_NONE, PTX_F32, PTX_F16, PTX_BF16 };
    struct ptx_step_tensor *tensor = &set->tensors[t];

    tensor->format = (ptx_step_format)choose(r, shape->formats);
    tensor->dtype =
        tensor->format == PTX_STEP_FORMAT_FULL || tensor->format == PTX_STEP_FORMAT_STATE_BF16
            ? PTX_F32
        : tensor->format != PTX_STEP_FORMAT_REMAINDER && random_below(r, 3) == 0 ? PTX_F16
        : has_blocks(tensor->format) && tensor->format != PTX_STEP_FORMAT_MASTER_24BIT &&
                random_below(r, 2)
            ? PTX_F32
            : PTX_BF16;
    tensor->gradient_dtype = shape->sums ? PTX_F32 : gradients[random_below(r, 4)];
    tensor->count = random_below(r, 6) ? random_below(r, (uint32_t)shape->most + 1) : 0;
    tensor->group = random_below(r, shape->groups);
    tensor->norm_group = random_below(r, shape->norm_groups);
    tensor->id = random_below(r, 1000);
    tensor->ema_dtype = shape->averages ? (ptx_type)choose(r, shape->averages) : PTX_NONE;
    if (shape->copies)
        set->copy[t] = choose(r, shape->copies);
    if (set->copy[t])
        tensor->fp8_format = (ptx_fp8)(set->copy[t] - 1);
    if (set->copy[t] && shape->transposed && random_below(r, 4)) {
        static const uint64_t widths[] = { 1, 4, 7, 12, 64, 65, 96, 128, 200 };
        set->transposed[t] = true;
        tensor->fp8_columns = shape->columns
                                  ? shape->columns
                                  : widths[random_below(r, sizeof widths / sizeof *widths)];
        tensor->count -= tensor->count % tensor->fp8_columns;
    }
    if (set->copy[t] && shape->blocks)
        tensor->fp8_blocks = (ptx_fp8_blocks)choose(r, shape->blocks);
    if (tensor->fp8_blocks) {
        static const uint64_t widths[] = { 1, 7, 64, 127, 128, 132, 256, 300, 384 };
        tensor->fp8_scaling = (ptx_fp8_scaling)random_below(r, 4);
        tensor->fp8_columns = shape->columns ? shape->columns : widths[random_below(r, 9)];
        tensor->count -= tensor->count % tensor->fp8_columns;
    }
    if (set->group[tensor->group].agc.clipping != 0 && random_below(r, 5)) {
        static const uint64_t widths[] = { 1, 3, 4, 8, 12, 32, 40, 64, 96, 256, 768, 1100, 1280 };
        const uint64_t width = widths[random_below(r, sizeof widths / sizeof *widths)];
        tensor->columns = tensor->fp8_columns ? tensor->fp8_columns : width;
        tensor->count -= tensor->count % tensor->columns;
    }
    set->amax[t] = shape->amax && random_below(r, 3) != 0;
    if (is_matrix(set, tensor)) {
        matrix_draw(r, shape->most, tensor);
        return;
    }
    if (shape->sharded && random_below(r, 2))
        tensor->whole = (struct ptx_step_whole) { .first = random_below(r, 4) * 4 };
    else if (shape->sharded)
        tensor->whole =
            (struct ptx_step_whole) { .first = random_below(r, 5) * 8,
                                      .run = 8 * (1 + random_below(r, 3)) - random_below(r, 2),
                                      .stride = 24 + random_below(r, 3) * 8 };
    if (has_blocks(tensor->format)) {
        tensor->whole.first *= 64; // a multiple of 256
        tensor->whole.run = (tensor->whole.run + 7) / 8 * 256;
        tensor->whole.stride *= 32;
    }
}

static size_t place(struct random *r, const struct step_shape *shape, size_t *at, uint64_t count,
                    size_t bytes)
{
    const size_t begin = (*at + GUARD + 255) / 256 * 256 +
                         (shape->aligned ? 0 : random_below(r, 3) * random_below(r, 8) * bytes);
    *at = begin + (size_t)count * bytes;
    return begin;
}

static void destroy(void *object)
{
    struct step_set *set = object;

    free(set->host);
    ptx_buffer_destroy(&set->memory);
}

void step_set_create(struct step_set *set, struct random *r, const struct step_shape *given)
{
    struct step_shape with_defaults = *given;
    const struct step_shape *const shape = &with_defaults;
    size_t at = 0;

    with_defaults.groups += !given->groups;
    with_defaults.norm_groups += !given->norm_groups;
    with_defaults.rules |= given->rules ? 0 : 1u << PTX_STEP_RULE_ADAMW;
    with_defaults.formats |= given->formats ? 0 : 1u << PTX_STEP_FORMAT_FULL;
    gpu_owns(set, destroy);
    memset(set, 0, sizeof *set);
    set->count = shape->tensors;
    set->groups = shape->groups;
    set->norm_groups = shape->norm_groups;
    set->data = shape->wild ? DATA_WILD : DATA_PLAIN;
    set->seed = (uint64_t)random_below(r, 1 << 30) << 20;
    for (uint32_t g = 0; g < set->groups; g++) {
        make_group(r, shape, &set->group[g]);
        if (set->group[g].rule == PTX_STEP_RULE_MUON)
            matrix_draw_group(r, &set->group[g], &set->muon[g]);
    }
    for (size_t t = 0; t < set->count; t++) {
        make_tensor(set, r, shape, t);
        for (unsigned a = 0; a < STEP_ARRAYS; a++)
            if (array_type(set, t, a) != PTX_NONE)
                set->offset[t][a] = place(r, shape, &at, array_count(&set->tensors[t], a),
                                          ptx_type_bytes(array_type(set, t, a)));
        // One tensor in three shares the step count of the previous one, if both are in one group.
        const bool shares =
            t && set->tensors[t].group == set->tensors[t - 1].group && random_below(r, 3) == 0;
        set->step[t] = shares ? set->step[t - 1] : place(r, shape, &at, 1, sizeof(float));
    }
    set->bytes = at + GUARD;
    set->host = malloc(set->bytes);
    set->memory = ptx_buffer_create(gpu.device, set->bytes);
    assert_non_null(set->host);
    if (!set->memory)
        fail_msg("%s", ptx_error_message());
    memset(set->host, POISON, set->bytes);
    const CUdeviceptr base = ptx_buffer_address(set->memory);
    for (size_t t = 0; t < set->count; t++) {
        struct ptx_step_tensor *tensor = &set->tensors[t];
        for (unsigned a = 0; a < STEP_ARRAYS; a++) {
            const ptx_type type = array_type(set, t, a);
            if (type == PTX_NONE)
                continue;
            *address_of(tensor, a) = base + set->offset[t][a];
            unsigned char *data = set->host + set->offset[t][a];
            if (a == SCALE)
                ref_store(REF_F32, data, 0, ldexp(1 + random_below(r, 8) / 8.0, 3 * (int)t % 8));
            if (a >= CODES)
                continue; // what a step leaves there is poison before
            if (shape->wild)
                fill(r, type, DATA_SPECIAL, data, array_count(tensor, a));
            else if (a < STATE || a == EMA)
                fill(r, type, DATA_PLAIN, data, tensor->count);
            else
                memset(data, 0, (size_t)array_count(tensor, a) * ptx_type_bytes(type));
            if (shape->wild && a == STATE + 1 && type != PTX_U8 && t % 2)
                data_make_positive(gpu_ref_type(type), data, tensor->count);
        }
        tensor->step = base + set->step[t];
        memset(set->host + set->step[t], 0, sizeof(float));
        if (shape->absent && random_below(r, 4) == 0)
            tensor->gradient = 0;
        set->has_elements |= tensor->count != 0 && tensor->gradient != 0;
    }
    if (shape->copies) { // creation reads the scales
        require_done(ptx_buffer_upload(set->memory, 0, set->host, set->bytes, gpu.stream));
    }
}

void step_set_gradients(struct step_set *set, struct random *r, float bad)
{
    bool placed = bad == 0 || !set->has_elements;

    for (size_t t = 0; t < set->count; t++) {
        const ptx_type type = array_type(set, t, GRADIENT);
        unsigned char *data = set->host + set->offset[t][GRADIENT];
        fill(r, type, set->data, data, set->tensors[t].count);
        if (!placed && set->tensors[t].gradient && set->tensors[t].count) {
            const uint32_t place = random_below(r, (uint32_t)set->tensors[t].count);
            ref_store(gpu_ref_type(type), data, place, (double)bad);
            placed = true;
        }
    }
    assert_true(placed);
    require_done(ptx_buffer_upload(set->memory, 0, set->host, set->bytes, gpu.stream));
}

struct ptx_step_params step_set_params(const struct step_set *set)
{
    return (struct ptx_step_params) { .tensors = set->tensors,
                                      .tensor_count = set->count,
                                      .groups = set->group,
                                      .group_count = set->groups,
                                      .norm_group_count = set->norm_groups,
                                      .max_norm = 1.5f,
                                      .gradients = set->gradients,
                                      .seed = set->seed,
                                      .stream = gpu.stream };
}

ptx_step_plan *step_create(const struct ptx_step_params *params)
{
    return made(ptx_step_plan_create(gpu.device, params));
}

// ---- the reference ------------------------------------------------------------------------------

size_t step_set_first(const struct step_set *set, size_t stage)
{
    return stage * set->count / (set->stages ? set->stages : 1);
}

// The sums of the stages' own plans, added in the order of the stages.
static void expect_sums(const struct step_set *set, struct ref_clip_plan plan,
                        double total[STEP_MOST_GROUPS])
{
    const struct ref_gradient *const all = plan.tensors;
    double sums[STEP_MOST_GROUPS];

    for (size_t stage = 0; stage == 0 || stage < set->stages; stage++) {
        plan.tensors = all + step_set_first(set, stage);
        plan.tensor_count = step_set_first(set, stage + 1) - step_set_first(set, stage);
        ref_clip_sums(&plan, sums);
        for (uint32_t g = 0; g < set->norm_groups; g++)
            total[g] = stage ? total[g] + sums[g] : sums[g];
    }
}

static bool expect_records(const struct step_set *set, const struct ptx_step_params *params,
                           float loss_scale, float factor[STEP_MOST_GROUPS])
{
    struct ref_gradient gradients[STEP_MOST_TENSORS];
    float max_norms[STEP_MOST_GROUPS];
    double sums[STEP_MOST_GROUPS];
    float records[STEP_MOST_GROUPS][3];
    bool found = false;

    for (size_t t = 0; t < set->count; t++) {
        const struct ptx_step_tensor *tensor = &set->tensors[t];
        gradients[t] = (struct ref_gradient) {
            .type = gpu_ref_type(array_type(set, t, GRADIENT)),
            .data = set->host + set->offset[t][GRADIENT],
            .count = tensor->gradient == 0 ? 0 : tensor->count,
            .group = tensor->norm_group,
            .columns = set->group[tensor->group].agc.clipping == 0 ? 0
                       : tensor->columns                           ? tensor->columns
                                                                   : tensor->count,
            .weight = tensor->uncounted     ? 0.0
                      : tensor->weight == 0 ? 1.0
                                            : tensor->weight,
        };
    }
    for (uint32_t g = 0; g < set->norm_groups; g++)
        max_norms[g] = params->max_norms_at ? set->max_norms[g] : params->max_norm;
    const struct ref_clip_plan plan = { .tensors = gradients,
                                        .group_count = set->norm_groups,
                                        .max_norms = max_norms,
                                        .eps = params->eps,
                                        .reports = params->reports_at != 0,
                                        .found_inf = params->found_inf_at ? set->found_inf : 0 };
    expect_sums(set, plan, sums);
    for (uint32_t g = 0; g < set->norm_groups; g++) {
        ref_clip_record(&plan, g, sums[g], loss_scale, records[g]);
        found |= records[g][2] != 0;
    }
    if (set->guards) {
        const struct ref_guard_step step = { sums, records, loss_scale, set->given, set->loss };
        found = ref_guard_decide(set->guards, set->guard_state, &step) != REF_SKIP_NONE;
    }
    for (uint32_t g = 0; g < set->norm_groups; g++)
        factor[g] = records[g][0];
    return found;
}

// What each run makes of the codes, also one that skips its step.
static void expect_transposed(struct step_set *set)
{
    for (size_t t = 0; t < set->count; t++) {
        const uint64_t columns = set->tensors[t].fp8_columns;
        const unsigned char *codes = set->host + set->offset[t][CODES];
        unsigned char *to = set->host + set->offset[t][TRANSPOSED];
        if (!set->transposed[t] || set->tensors[t].fp8_blocks)
            continue;
        const uint64_t rows = set->tensors[t].count / columns;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < columns; c++)
                to[c * rows + r] = codes[r * columns + c];
    }
}

void step_set_expect_blocks(struct step_set *set, size_t t)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const enum ref_type type = gpu_ref_type(tensor->dtype);
    const struct ref_fp8_blocks how = {
        .of_rows = tensor->fp8_blocks == PTX_FP8_BLOCKS_1X128,
        .format = (enum ref_fp8)tensor->fp8_format,
        .is_deepgemm = tensor->fp8_scaling == PTX_FP8_SCALING_DEEPGEMM ||
                       tensor->fp8_scaling == PTX_FP8_SCALING_DEEPGEMM_UE8M0,
        .is_power = tensor->fp8_scaling == PTX_FP8_SCALING_TE_UE8M0 ||
                    tensor->fp8_scaling == PTX_FP8_SCALING_DEEPGEMM_UE8M0,
    };
    unsigned char *array[STEP_ARRAYS];

    if (!tensor->fp8_blocks || !tensor->count)
        return;
    for (unsigned a = 0; a < STEP_ARRAYS; a++)
        array[a] = set->host + set->offset[t][a];
    const uint64_t rows = tensor->count / tensor->fp8_columns;
    ref_cast_fp8_blocks(&how, type, array[PARAMETER], rows, tensor->fp8_columns, false,
                        array[CODES], (float *)(void *)array[SCALE_INV]);
    if (set->transposed[t])
        ref_cast_fp8_blocks(&how, type, array[PARAMETER], rows, tensor->fp8_columns, true,
                            array[TRANSPOSED], (float *)(void *)array[TRANSPOSED_SCALE_INV]);
}

// What a step leaves of the weights that it has stored.
static void expect_copy(struct step_set *set, size_t t)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const enum ref_type type = gpu_ref_type(tensor->dtype);
    const void *parameter = set->host + set->offset[t][PARAMETER];
    float largest = 0;

    step_set_expect_blocks(set, t);
    if (set->copy[t] && !tensor->fp8_blocks) {
        const float scale = (float)ref_load(REF_F32, set->host + set->offset[t][SCALE], 0);
        ref_cast_fp8(type, parameter, tensor->count, (enum ref_fp8)tensor->fp8_format, scale,
                     set->host + set->offset[t][CODES], NULL);
        const float inverse = 1 / scale;
        ref_store(REF_F32, set->host + set->offset[t][SCALE_INV], 0, (double)inverse);
    }
    if (!set->amax[t])
        return;
    for (uint64_t i = 0; i < tensor->count; i++) {
        const float x = fabsf((float)ref_load(type, parameter, i));
        largest = isnan(x) || isnan(largest) ? NAN : fmaxf(largest, x);
    }
    ref_store(REF_F32, set->host + set->offset[t][AMAX], 0, (double)largest);
}

static struct ref_step_tensor reference_of(const struct step_set *set, size_t t)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const struct ptx_step_group *group = &set->group[tensor->group];
    const struct ptx_step_hyper *h = &group->hyper;
    unsigned char *array[STEP_ARRAYS];

    for (unsigned a = 0; a < STEP_ARRAYS; a++)
        array[a] = set->host + set->offset[t][a];
    return (struct ref_step_tensor) {
        .rule = (enum ref_step_rule)group->rule,
        .format = (enum ref_step_format)tensor->format,
        .maximize = group->maximize,
        .nesterov = group->nesterov,
        .parameter_type = gpu_ref_type(tensor->dtype),
        .gradient_type = gpu_ref_type(array_type(set, t, GRADIENT)),
        .parameter = array[PARAMETER],
        .gradient = array[GRADIENT],
        .state = { array[STATE], array[STATE + 1] },
        .beside = array[BESIDE],
        .absmax = { (float *)(void *)array[ABSMAX], (float *)(void *)array[ABSMAX + 1] },
        .count = tensor->count,
        .ema = tensor->ema_dtype ? array[EMA] : NULL,
        .ema_type = gpu_ref_type(tensor->ema_dtype),
        .hyper = { h->lr, h->beta1, h->beta2, h->eps, h->weight_decay, h->momentum, h->dampening,
                   h->ema_decay },
        .id = tensor->id,
        .seed = set->seed,
        .first = tensor->whole.first,
        .run = tensor->whole.run,
        .stride = tensor->whole.stride,
        .factors = set->factors[t],
    };
}

unsigned step_set_lanes(const struct step_set *set, size_t t)
{
    const struct ptx_step_tensor *tensor = &set->tensors[t];
    const bool has_states = states_of(&set->group[tensor->group]) != 0;

    return tensor->dtype != PTX_F32 || tensor->ema_dtype == PTX_BF16 ||
                   (has_states && state_type(tensor->format) != PTX_F32)
               ? 8
               : 4;
}

// A step of a tensor whose units are clipped: that of an f32 gradient that has been multiplied.
static void step_units(const struct step_set *set, size_t t, struct ref_step_tensor tensor,
                       uint32_t count, float factor)
{
    const struct ptx_step_agc *agc = &set->group[set->tensors[t].group].agc;
    const uint64_t columns = set->tensors[t].columns ? set->tensors[t].columns : tensor.count;
    const struct ref_units units = { .gradient_type = tensor.gradient_type,
                                     .parameter_type = tensor.parameter_type,
                                     .gradient = tensor.gradient,
                                     .parameter = tensor.parameter,
                                     .columns = columns,
                                     .vector = !set->tensors[t].columns,
                                     .lanes = step_set_lanes(set, t),
                                     .clipping = agc->clipping,
                                     .eps = agc->eps != 0 ? agc->eps : 1e-3 };
    float *scaled = malloc(tensor.count * sizeof *scaled), of_unit = 0;
    void *const to = tensor.gradient;

    assert_non_null(scaled);
    for (uint64_t i = 0; i < tensor.count; i++) {
        of_unit = i % columns ? of_unit : ref_unit_factor(&units, i / columns, factor);
        scaled[i] = (float)ref_load(units.gradient_type, to, i) * of_unit;
    }
    tensor.gradient = scaled;
    tensor.gradient_type = REF_F32;
    ref_step(&tensor, count, 1, (enum ref_step_gradients)set->gradients);
    for (uint64_t i = 0; i < tensor.count && set->gradients != PTX_STEP_GRADIENTS_RAW; i++)
        ref_store(units.gradient_type, to, i, (double)scaled[i]);
    free(scaled);
}

static void step_matrix(const struct step_set *set, size_t t, struct ref_step_tensor tensor,
                        uint32_t count, float factor)
{
    ALLOCATED(uint16_t) *x = matrix_orthogonalize(&tensor, &set->group[set->tensors[t].group],
                                                  set->tensors[t].columns, factor);

    tensor.x = x;
    ref_step(&tensor, count, factor, (enum ref_step_gradients)set->gradients);
}

// What a step that must not write leaves of the gradients.
static void expect_skipped(struct step_set *set)
{
    for (size_t t = 0; t < set->count && set->gradients == PTX_STEP_GRADIENTS_ZERO; t++)
        if (set->tensors[t].gradient)
            memset(set->host + set->offset[t][GRADIENT], 0,
                   set->tensors[t].count * ptx_type_bytes(array_type(set, t, GRADIENT)));
}

bool step_set_expect(struct step_set *set, const struct ptx_step_params *params, float loss_scale)
{
    float factor[STEP_MOST_GROUPS], before[STEP_MOST_TENSORS];

    if (expect_records(set, params, loss_scale, factor)) {
        expect_skipped(set);
        expect_transposed(set);
        return true;
    }
    for (size_t t = 0; t < set->count; t++)
        memcpy(&before[t], set->host + set->step[t], sizeof(float));
    for (size_t t = 0; t < set->count; t++) {
        const struct ref_step_tensor tensor = reference_of(set, t);
        const float count = before[t] + 1;
        if (set->tensors[t].gradient == 0 || tensor.count == 0)
            continue;
        const float own = factor[set->tensors[t].norm_group];
        if (set->group[set->tensors[t].group].agc.clipping != 0)
            step_units(set, t, tensor, (uint32_t)count, own);
        else if (is_matrix(set, &set->tensors[t]))
            step_matrix(set, t, tensor, (uint32_t)count, own);
        else
            ref_step(&tensor, (uint32_t)count, own, (enum ref_step_gradients)set->gradients);
        expect_copy(set, t);
        memcpy(set->host + set->step[t], &count, sizeof count);
    }
    expect_transposed(set);
    return false;
}

static void report(const struct step_set *set, const unsigned char *got, size_t at,
                   const char *what)
{
    static const char *const names[] = { "parameter",
                                         "gradient",
                                         "beside",
                                         "state 0",
                                         "state 1",
                                         "absmax 0",
                                         "absmax 1",
                                         "ema",
                                         "fp8",
                                         "fp8_scale",
                                         "fp8_scale_inv",
                                         "amax",
                                         "fp8_transposed",
                                         "fp8_transposed_scale_inv" };

    for (size_t t = 0; t < set->count; t++) {
        const struct ptx_step_tensor *tensor = &set->tensors[t];
        for (unsigned a = 0; a < STEP_ARRAYS; a++) {
            const ptx_type type = array_type(set, t, a);
            if (type == PTX_NONE)
                continue;
            const size_t bytes = ptx_type_bytes(type), begin = set->offset[t][a];
            if (at < begin || at >= begin + array_count(tensor, a) * bytes)
                continue;
            const size_t i = (at - begin) / bytes;
            uint32_t is = 0, should = 0;
            memcpy(&is, got + begin + i * bytes, bytes);
            memcpy(&should, set->host + begin + i * bytes, bytes);
            fail_msg(
                "%s: tensor %zu of %zu, rule %d, format %d, %s %s[%zu of %llu] is %08x, not %08x",
                what, t, set->count, (int)set->group[tensor->group].rule, (int)tensor->format,
                ptx_type_name(type), names[a], i, (unsigned long long)tensor->count, is, should);
        }
        if (at - set->step[t] < sizeof(float)) {
            float is, should;
            memcpy(&is, got + set->step[t], sizeof is);
            memcpy(&should, set->host + set->step[t], sizeof should);
            fail_msg("%s: tensor %zu: count is %g, not %g", what, t, (double)is, (double)should);
        }
    }
    fail_msg("%s: byte %zu, between arrays, is %02x, not %02x", what, at, got[at], set->host[at]);
}

void step_set_check(const struct step_set *set, const char *what)
{
    ALLOCATED(unsigned char) *got = malloc(set->bytes);

    assert_non_null(got);
    require_done(ptx_buffer_download(set->memory, 0, got, set->bytes, gpu.stream));
    for (size_t at = 0; at < set->bytes; at++)
        if (got[at] != set->host[at])
            report(set, got, at, what);
}

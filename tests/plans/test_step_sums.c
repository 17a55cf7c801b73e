// SPDX-License-Identifier: MIT
// A rule that sums over each tensor before it steps, which no rule of the library does: LAMB, as a
// caller writes it. Its formula in plain C is here, with the order of its sums.
#define PTXGEN_HERE NULL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/step_apply.h"
#include "plan_calls.h"
#include "random.h"
#include "reference/step.h"
#include "sanitized.h"
#include "test.h"

#include "plans/rule.h"
#include "rules/rules.h"

static ptx_rule *lamb;

// The first tensor has more tiles than a block has threads, where they are short. The third is
// stepped by AdamW. The fourth begins between the boundaries of vectors. A tensor has COUNT
// elements at most; its arrays are ROOM bytes apart, and begin SHIFT elements later.
enum { BLOCK = 256, COUNT = 270000, ROOM = 4300 * 256, TENSORS = 5, STATES = 2 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, SCALES = STATE + STATES, CLOCK, OF_TENSOR };
enum { BYTES = TENSORS * OF_TENSOR * ROOM };
static const uint64_t counts[TENSORS] = { COUNT, 2500, 900, 5001, 1 };
enum { BY_ADAMW = 2, SHIFTED = 3 };

static ptx_buffer *memory;
static struct ptx_step_tensor tensors[TENSORS];
static struct ptx_step_group groups[2];
static struct ptx_step_params params;
static unsigned char *device, *expected;

static size_t place(unsigned tensor, unsigned array)
{
    return (size_t)(tensor * OF_TENSOR + array) * ROOM;
}

static void *at(unsigned tensor, unsigned array, ptx_type type, uint64_t i)
{
    const uint64_t shift = tensor == SHIFTED && array != SCALES;

    return expected + place(tensor, array) + (i + shift) * ptx_type_bytes(type);
}

static CUdeviceptr address(unsigned tensor, unsigned array, ptx_type type)
{
    const unsigned char *own = at(tensor, array, type, 0);
    return ptx_buffer_address(memory) + (CUdeviceptr)(own - expected);
}

static void lay_out(ptx_step_format format, ptx_type parameter)
{
    const struct ptxk_step_format *f = ptxk_step_format_of(format);

    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t] = (struct ptx_step_tensor) {
            .parameter = address(t, PARAMETER, parameter),
            .gradient = address(t, GRADIENT, parameter),
            .step = address(t, CLOCK, PTX_F32),
            .beside = f->beside ? address(t, BESIDE, f->beside) : 0,
            .count = counts[t],
            .dtype = parameter,
            .format = format,
            .group = t == BY_ADAMW,
        };
        for (unsigned k = 0; k < STATES; k++) {
            tensors[t].state[k] = address(t, STATE + k, f->state);
            tensors[t].absmax[k] =
                f->by_block ? address(t, SCALES, PTX_F32) + k * (CUdeviceptr)(ROOM / 2) : 0;
        }
    }
    groups[0] = (struct ptx_step_group) {
        .own_rule = lamb,
        .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1 },
    };
    groups[1] = groups[0];
    groups[1].own_rule = NULL; // AdamW
    params = (struct ptx_step_params) { .tensors = tensors,
                                        .tensor_count = TENSORS,
                                        .groups = groups,
                                        .group_count = 2,
                                        .max_norm = 1e30f,
                                        .stream = gpu.stream };
}

// ---- the formula in plain C ---------------------------------------------------------------------

static float get(ptx_type type, unsigned tensor, unsigned array, uint64_t i)
{
    return gpu_element(type, at(tensor, array, type, 0), i);
}

static void put(ptx_type type, unsigned tensor, unsigned array, uint64_t i, float x)
{
    gpu_set_element(type, at(tensor, array, type, 0), i, x);
}

// What a state's array means.
static float state_of(unsigned t, unsigned k, uint64_t i)
{
    const ptx_step_format format = tensors[t].format;
    const ptx_type type = ptxk_step_format_of(format)->state;
    const unsigned char *scales = at(t, SCALES, PTX_F32, 0);
    const unsigned char *stored = at(t, STATE + k, type, i);
    static float maps[STATES][256];
    float scale;

    if (!ptxk_step_format_of(format)->by_block)
        return gpu_element(type, stored, 0);
    memcpy(&scale, scales + k * (ROOM / 2) + i / 256 * sizeof scale, sizeof scale);
    if (format == PTX_STEP_FORMAT_STATE_8BIT) {
        if (maps[0][0] == 0)
            for (unsigned n = 0; n < STATES; n++)
                ref_map(n == 0, maps[n]);
        return maps[k][*stored] * scale;
    }
    const float x = gpu_element(PTX_F16, stored, 0) * scale;
    return k ? x * x : x;
}

struct element {
    float p, m, v, u;
};

static double power(float base, uint32_t t)
{
    double r = 1;

    for (int bit = 31; bit >= 0; bit--) {
        r = r * r;
        if (t >> bit & 1)
            r = r * (double)base;
    }
    return r;
}

// What the averages lack, of a step.
static float rest1, rest2;

static void set_rests(uint32_t step)
{
    const struct ptx_step_hyper *h = &groups[0].hyper;

    rest1 = (float)(1 - power((float)h->beta1, step));
    rest2 = (float)(1 - power((float)h->beta2, step));
}

static struct element element_of(unsigned t, uint64_t i)
{
    const struct ptx_step_hyper *h = &groups[0].hyper;
    const float beta1 = (float)h->beta1, beta2 = (float)h->beta2, eps = (float)h->eps;
    const ptx_type type = tensors[t].dtype;
    const float g = get(type, t, GRADIENT, i), gg = g * g;
    struct element e = {
        .p = tensors[t].beside ? get(PTX_F32, t, BESIDE, i) : get(type, t, PARAMETER, i),
        .m = fmaf(beta1, state_of(t, 0, i), fmaf(-beta1, g, g)),
        .v = fmaf(beta2, state_of(t, 1, i), fmaf(-beta2, gg, gg)),
    };
    const float mean = e.m / rest1, root = sqrtf(e.v / rest2);
    const float denominator = root + eps, adam = mean / denominator;

    e.u = fmaf((float)h->weight_decay, e.p, adam);
    return e;
}

// x[i] = x[i] + x[i + d] in each warp, then the same over the warps.
static double tree(const double of_threads[BLOCK])
{
    double x[BLOCK], warp[8];

    memcpy(x, of_threads, sizeof x);
    for (unsigned w = 0; w < 8; w++) {
        for (unsigned d = 16; d; d /= 2)
            for (unsigned i = 0; i < d; i++)
                x[32 * w + i] += x[32 * w + i + d];
        warp[w] = x[32 * w];
    }
    for (unsigned d = 4; d; d /= 2)
        for (unsigned i = 0; i < d; i++)
            warp[i] += warp[i + d];
    return warp[0];
}

// Sums of squares of parameters and of updates. A thread has `lanes` adjacent elements of each
// `lanes` * 256 of a tile, and later every 256th tile.
static void sum_squares(unsigned t, uint32_t tile, unsigned lanes, double *p, double *u)
{
    double p_tiles[BLOCK] = { 0 }, u_tiles[BLOCK] = { 0 };

    for (uint64_t first = 0; first < counts[t]; first += tile) {
        double p_threads[BLOCK] = { 0 }, u_threads[BLOCK] = { 0 };
        for (uint64_t i = first; i < first + tile && i < counts[t]; i++) {
            const struct element e = element_of(t, i);
            const uint64_t thread = (i - first) / lanes % BLOCK;
            const float p_term = e.p * e.p, u_term = e.u * e.u;
            p_threads[thread] += (double)p_term;
            u_threads[thread] += (double)u_term;
        }
        p_tiles[first / tile % BLOCK] += tree(p_threads);
        u_tiles[first / tile % BLOCK] += tree(u_threads);
    }
    *p = tree(p_tiles);
    *u = tree(u_tiles);
}

// Sets the parameter, and the states if they are not in blocks.
static void step_lamb(unsigned t, uint32_t step, uint32_t tile, unsigned lanes)
{
    const struct ptxk_step_format *format = ptxk_step_format_of(tensors[t].format);
    double p, u;

    set_rests(step);
    sum_squares(t, tile, lanes, &p, &u);
    const float ratio = p == 0 || u == 0 ? 1 : (float)(sqrt(p) / sqrt(u));
    const float move = (float)groups[0].hyper.lr * ratio, count = (float)step;
    const ptx_type type = tensors[t].dtype;

    for (uint64_t i = 0; i < counts[t]; i++) {
        const struct element e = element_of(t, i);
        const float next = fmaf(-move, e.u, e.p);
        put(type, t, PARAMETER, i, next);
        if (format->beside)
            put(PTX_F32, t, BESIDE, i, next);
        if (format->by_block)
            continue;
        put(format->state, t, STATE, i, e.m);
        put(format->state, t, STATE + 1, i, e.v);
    }
    memcpy(at(t, CLOCK, PTX_F32, 0), &count, sizeof count);
}

// ---- runs ---------------------------------------------------------------------------------------

// New gradients, and with `all` parameters, too, those of the last tensor 0.
static void fill(struct random *r, bool all)
{
    for (unsigned t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < counts[t]; i++) {
            const ptx_type type = tensors[t].dtype;
            const float p = t == TENSORS - 1 ? 0 : (float)random_unit(r);
            put(type, t, GRADIENT, i, (float)random_unit(r));
            if (!all)
                continue;
            put(type, t, PARAMETER, i, p);
            if (tensors[t].beside)
                put(PTX_F32, t, BESIDE, i, get(type, t, PARAMETER, i));
        }
}

static bool is_followed(unsigned array)
{
    const bool blocks = ptxk_step_format_of(tensors[0].format)->by_block;

    return !blocks || array < STATE || array == CLOCK;
}

static void check(void)
{
    require_done(ptx_buffer_download(memory, 0, device, BYTES, gpu.stream));
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned a = 0; a < OF_TENSOR && t != BY_ADAMW; a++)
            if (is_followed(a) && memcmp(device + place(t, a), expected + place(t, a), ROOM) != 0)
                fail_msg("%s: tensor %u, array %u differs",
                         ptxk_step_format_of(tensors[0].format)->name, t, a);
    memcpy(expected, device, BYTES);
}

// The second step is skipped.
static void steps_with(ptx_step_format format, ptx_type parameter)
{
    enum { STEPS = 3, SKIPPED = 1 };
    struct random r = { 5 };
    uint32_t step = 0;

    memset(expected, 0, BYTES);
    lay_out(format, parameter);
    fill(&r, true);
    const struct ptxk_step_variant v = { &lamb->own.rule, format, parameter, parameter, 0 };
    const struct ptxk_step_spec spec = { .variants = &v, .variant_count = 1 };
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(gpu.device, &params));
    for (unsigned n = 0; n < STEPS; n++) {
        fill(&r, false);
        if (n == SKIPPED)
            put(parameter, 1, GRADIENT, 7, NAN);
        require(ptx_buffer_upload(memory, 0, expected, BYTES, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        step += n != SKIPPED;
        for (unsigned t = 0; t < TENSORS && n != SKIPPED; t++)
            if (t != BY_ADAMW)
                step_lamb(t, step, ptxk_step_tile(&spec, COUNT), ptxk_step_lanes(&v));
        check();
    }
}

TEST(test_sums)
{
    steps_with(PTX_STEP_FORMAT_FULL, PTX_F32);
    steps_with(PTX_STEP_FORMAT_MASTER, PTX_BF16);
    steps_with(PTX_STEP_FORMAT_STATE_8BIT, PTX_F32);
    if (!SANITIZED) {
        steps_with(PTX_STEP_FORMAT_STATE_BF16, PTX_F32);
        steps_with(PTX_STEP_FORMAT_STATE_F16, PTX_F32);
    }
}

// The sums are those of what the accumulators have, whether the last gradients are there or not.
TEST(test_accumulated)
{
    enum { IN_THE_RUN = 1, NEVER = TENSORS - 1 };
    struct random r = { 6 };
    CUdeviceptr before[TENSORS], last[TENSORS] = { 0 };

    memset(expected, 0, BYTES);
    lay_out(PTX_STEP_FORMAT_FULL, PTX_F32);
    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t].accumulator = ptx_buffer_address(memory) + place(t, BESIDE);
        tensors[t].accumulated = ptx_buffer_address(memory) + place(t, SCALES);
        before[t] = t == IN_THE_RUN || t == NEVER ? 0 : tensors[t].gradient;
    }
    last[IN_THE_RUN] = tensors[IN_THE_RUN].gradient;
    const struct ptxk_step_variant v = { &lamb->own.rule, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32,
                                         0 };
    const struct ptxk_step_spec spec = { .variants = &v, .variant_count = 1, .accumulates = true };
    fill(&r, true);
    require(ptx_buffer_upload(memory, 0, expected, BYTES, gpu.stream));
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(gpu.device, &params));
    require(ptx_step_plan_set_gradients(plan, 0, TENSORS, before, gpu.stream));
    require(ptx_step_plan_accumulate(plan, gpu.stream));
    require(ptx_step_plan_set_gradients(plan, 0, TENSORS, last, gpu.stream));
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, device, BYTES, gpu.stream));
    for (unsigned t = 0; t < TENSORS; t++) {
        struct ptx_step_accumulated taken; // of which `launch` is the library's
        memcpy(&taken, device + place(t, SCALES), sizeof taken);
        assert_int_equal(taken.gradients, (t != NEVER) | 1u << 31);
        memcpy(expected + place(t, SCALES), &taken, sizeof taken);
        if (t == NEVER)
            continue;
        memcpy(expected + place(t, BESIDE), at(t, GRADIENT, PTX_F32, 0), counts[t] * sizeof(float));
        if (t != BY_ADAMW)
            step_lamb(t, 1, ptxk_step_tile(&spec, COUNT), ptxk_step_lanes(&v));
    }
    check();
}

// States in 8 bits have tables, which no rule with sums reads here.
TEST(test_tables_of_another_rule)
{
    lay_out(PTX_STEP_FORMAT_FULL, PTX_F32);
    tensors[BY_ADAMW].format = PTX_STEP_FORMAT_STATE_8BIT;
    for (unsigned k = 0; k < STATES; k++)
        tensors[BY_ADAMW].absmax[k] =
            address(BY_ADAMW, SCALES, PTX_F32) + k * (CUdeviceptr)(ROOM / 2);
    ptx_step_plan *plan = ptx_step_plan_create(gpu.device, &params);
    assert_non_null(plan);
    ptx_step_plan_destroy(&plan);
}

// ---- descriptions and checks --------------------------------------------------------------------

TEST(test_description)
{
    struct ptx_step_description d;

    lay_out(PTX_STEP_FORMAT_FULL, PTX_F32);
    params.tensor_count = 1;
    params.max_norm = INFINITY; // no norm reads gradients
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.launches, 5);
    assert_int_equal(d.bytes, COUNT * (2 * 4 * 4 + 3 * 4));
    tensors[0].group = 1;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.launches, 3);
    assert_int_equal(d.bytes, COUNT * (4 * 4 + 3 * 4));
}

int main(void)
{
    gpu_open();
    memory = ptx_buffer_create(gpu.device, BYTES);
    device = malloc(BYTES);
    expected = malloc(BYTES);
    lamb = ptx_rule_create(&lamb_params);
    if (!memory || !device || !expected || !lamb)
        return 1;
    const int failed = tests_run(NULL, NULL);
    free(expected);
    free(device);
    ptx_rule_destroy(&lamb);
    ptx_buffer_destroy(&memory);
    gpu_close();
    return failed;
}

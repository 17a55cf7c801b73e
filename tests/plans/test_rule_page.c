// SPDX-License-Identifier: MIT
// Rules as docs/rules.md teaches to write them, against their formulas in f64: LARS and the
// authors' cautious AdamW, which take sums over a tensor, and AdamW with a rate that decays, a
// number that lasts and a copy of the weights; and as new users wrote them from that page,
// Adadelta, Adamax and StableAdamW.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "random.h"
#include "reference/half.h"
#include "test.h"

enum { COUNT = 3000, STEPS = 6, STATES = 3 };

// ---- LARS: You, Gitman and Ginsburg 2017 --------------------------------------------------------

enum { LARS_LR, LARS_MOMENTUM, LARS_DECAY, LARS_TRUST };
enum { LARS_C_LR, LARS_C_MOMENTUM, LARS_C_DECAY, LARS_C_TRUST, LARS_RATE };

static void lars_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[LARS_C_LR] = clock->scalar[LARS_LR];
    clock->c[LARS_C_MOMENTUM] = clock->scalar[LARS_MOMENTUM];
    clock->c[LARS_C_DECAY] = clock->scalar[LARS_DECAY];
    clock->c[LARS_C_TRUST] = clock->scalar[LARS_TRUST];
}

static void lars_reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    e->term[0] = ptx_mul(b, e->p, e->p);
    e->term[1] = ptx_mul(b, e->g, e->g);
}

static void lars_of_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    ptx_val of_p = ptx_sqrt(b, s->sum[0]), of_g = ptx_sqrt(b, s->sum[1]);
    ptx_val decay = ptx_cvt(b, PTX_F64, s->c[LARS_C_DECAY]);
    ptx_val trust = ptx_cvt(b, PTX_F64, s->c[LARS_C_TRUST]);
    ptx_val lr = ptx_cvt(b, PTX_F64, s->c[LARS_C_LR]);
    ptx_val size = ptx_fma(b, decay, of_p, of_g);
    ptx_val local = ptx_div(b, ptx_mul(b, trust, of_p), size);

    s->c[LARS_RATE] = ptx_mul(b, lr, ptx_select(b, ptx_gt(b, size, 0), local, 1));
}

static void lars_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val g = ptx_fma(b, c[LARS_C_DECAY], e->p, e->g);
    ptx_val m = ptx_fma(b, c[LARS_C_MOMENTUM], e->state[0], ptx_mul(b, c[LARS_RATE], g));

    e->new_state[0] = m;
    e->new_p = ptx_sub(b, e->p, m);
}

static const struct ptx_rule_params lars = {
    .name = "lars",
    .version = 1,
    .states = { { "momentum_buffer" } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 0.1 },
                 { "momentum", PTX_RULE_RANGE_AT_LEAST_0, 0.9 },
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 1e-4 },
                 { "trust", PTX_RULE_RANGE_AT_LEAST_0, 0.001 } },
    .sums = 2,
    .once = lars_once,
    .update = lars_update,
    .reduce = lars_reduce,
    .of_sums = lars_of_sums,
};

// A step of all elements in f64. `state`: by the rule's states.
static void lars_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    double of_p = 0, of_g = 0;

    (void)t;
    for (unsigned i = 0; i < COUNT; i++)
        of_p += p[i] * p[i], of_g += g[i] * g[i];
    const double rate = 0.5 * 0.02 * sqrt(of_p) / (sqrt(of_g) + 0.01 * sqrt(of_p));
    for (unsigned i = 0; i < COUNT; i++) {
        state[0][i] = 0.9 * state[0][i] + rate * (g[i] + 0.01 * p[i]);
        p[i] -= state[0][i];
    }
}

// ---- cautious AdamW: Liang et al. 2024, with the terms of PyTorch's AdamW -----------------------

enum { S_LR, S_BETA1, S_BETA2, S_EPS, S_DECAY };
enum { LR, BETA1, REST1, BETA2, REST2, STEP, ROOT, EPS, DECAY, MEAN };

static void adamw_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;
    ptx_val to1 = ptx_sub(b, 1, ptx_rule_power(b, s[S_BETA1], clock->t));
    ptx_val to2 = ptx_sub(b, 1, ptx_rule_power(b, s[S_BETA2], clock->t));

    clock->c[LR] = s[S_LR];
    clock->c[BETA1] = s[S_BETA1];
    clock->c[REST1] = ptx_sub(b, 1, s[S_BETA1]);
    clock->c[BETA2] = s[S_BETA2];
    clock->c[REST2] = ptx_sub(b, 1, s[S_BETA2]);
    clock->c[STEP] = ptx_div(b, s[S_LR], to1);
    clock->c[ROOT] = ptx_sqrt(b, to2);
    clock->c[EPS] = s[S_EPS];
    clock->c[DECAY] = ptx_sub(b, 1, ptx_mul(b, s[S_LR], s[S_DECAY]));
}

static void moments(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val gg = ptx_mul(b, e->g, e->g);

    e->new_state[0] = ptx_fma(b, c[BETA1], e->state[0], ptx_mul(b, c[REST1], e->g));
    e->new_state[1] = ptx_fma(b, c[BETA2], e->state[1], ptx_mul(b, c[REST2], gg));
}

// 1 where the step goes against the gradient, else 0.
static ptx_val mask(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val agrees = ptx_gt(b, ptx_mul(b, e->new_state[0], e->g), 0);
    return ptx_select(b, agrees, ptx_f32(1), 0);
}

static ptx_val stepped(ptx_builder *b, const struct ptx_rule_element *e, ptx_val m)
{
    const ptx_val *c = e->c;
    ptx_val root = ptx_rule_div(b, ptx_rule_sqrt(b, e->new_state[1]), c[ROOT]);
    ptx_val u = ptx_rule_div(b, m, ptx_add(b, root, c[EPS]));
    return ptx_fma(b, ptx_neg(b, c[STEP]), u, ptx_mul(b, c[DECAY], e->p));
}

static void cautious_reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    moments(b, e);
    e->term[0] = mask(b, e);
    e->term[1] = ptx_f32(1);
}

static void cautious_of_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    s->c[MEAN] = ptx_max(b, ptx_div(b, s->sum[0], s->sum[1]), 1e-3);
}

static void cautious_update(ptx_builder *b, struct ptx_rule_element *e)
{
    moments(b, e);
    ptx_val scale = ptx_rule_div(b, mask(b, e), e->c[MEAN]);
    e->new_p = stepped(b, e, ptx_mul(b, e->new_state[0], scale));
}

#define ADAMW_SCALARS                                                                              \
    { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-3 }, { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },           \
        { "beta2", PTX_RULE_RANGE_BELOW_1, 0.999 }, { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-8 },    \
    {                                                                                              \
        "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0.01                                            \
    }

static const struct ptx_rule_params cautious = {
    .name = "c_adamw",
    .version = 1,
    .states = { { "exp_avg" }, { "exp_avg_sq", PTX_RULE_POSITIVE, .stochastic = true } },
    .scalars = { ADAMW_SCALARS },
    .sums = 2,
    .once = adamw_once,
    .update = cautious_update,
    .reduce = cautious_reduce,
    .of_sums = cautious_of_sums,
};

static void moments_step(const double *g, double state[STATES][COUNT])
{
    for (unsigned i = 0; i < COUNT; i++) {
        state[0][i] = 0.9 * state[0][i] + (1 - 0.9) * g[i];
        state[1][i] = 0.95 * state[1][i] + (1 - 0.95) * g[i] * g[i];
    }
}

static double adamw_of(double p, double m, double v, double lr, unsigned t)
{
    const double root = sqrt(v) / sqrt(1 - pow(0.95, t));

    return (1 - lr * 0.1) * p - lr / (1 - pow(0.9, t)) * m / (root + 1e-6);
}

static void cautious_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    double agree = 0;

    moments_step(g, state);
    for (unsigned i = 0; i < COUNT; i++)
        agree += state[0][i] * g[i] > 0;
    for (unsigned i = 0; i < COUNT; i++) {
        const double scale = (state[0][i] * g[i] > 0) / fmax(agree / COUNT, 1e-3);
        p[i] = adamw_of(p[i], state[0][i] * scale, state[1][i], 0.5, t);
    }
}

// ---- AdamW with a rate that decays --------------------------------------------------------------

enum { S_RATE = S_DECAY + 1, S_POWER };

// The rate is lr exp(-rate (t - 1)) t^-power; the sum of all is kept.
static void decaying_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    ptx_val s[PTX_STEP_MAX_SCALARS];
    ptx_val t = ptx_cvt(b, PTX_F64, clock->t);
    ptx_val passed = ptx_mul(b, clock->scalar[S_RATE], ptx_sub(b, t, 1));
    ptx_val decay = ptx_rule_exp(b, ptx_neg(b, passed));
    ptx_val slower = ptx_rule_pow(b, t, ptx_neg(b, clock->scalar[S_POWER]));

    memcpy(s, clock->scalar, sizeof s);
    clock->scalar[S_LR] = ptx_mul(b, ptx_mul(b, s[S_LR], decay), slower);
    adamw_once(b, clock);
    clock->new_state[0] = ptx_add(b, clock->state[0], clock->scalar[S_LR]);
}

static void decaying_update(ptx_builder *b, struct ptx_rule_element *e)
{
    moments(b, e);
    e->new_p = stepped(b, e, e->new_state[0]);
    e->new_state[2] = e->new_p;
}

static const struct ptx_rule_params decaying = {
    .name = "decaying",
    .version = 1,
    .states = { { "exp_avg" },
                { "exp_avg_sq", PTX_RULE_POSITIVE },
                { "copy", PTX_RULE_WEIGHT, .dtype = PTX_BF16, .output = true } },
    .scalars = { ADAMW_SCALARS, { "rate" }, { "power" } },
    .clock_states = 1,
    .once = decaying_once,
    .update = decaying_update,
};

static double decayed(unsigned t)
{
    return 0.5 * exp(-0.25 * (t - 1)) * pow(t, -0.5);
}

static void decaying_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    moments_step(g, state);
    for (unsigned i = 0; i < COUNT; i++)
        p[i] = adamw_of(p[i], state[0][i], state[1][i], decayed(t), t);
}

// ---- Adadelta: Zeiler 2012, as PyTorch 2.11 has it
// ------------------------------------------------

enum { DELTA_LR, DELTA_RHO, DELTA_EPS, DELTA_REST };

static void adadelta_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    for (unsigned k = 0; k < DELTA_REST; k++)
        clock->c[k] = clock->scalar[k];
    clock->c[DELTA_REST] = ptx_sub(b, 1, clock->scalar[DELTA_RHO]);
}

// rho x + (1 - rho) y^2
static ptx_val mean_square(ptx_builder *b, const struct ptx_rule_element *e, ptx_val x, ptx_val y)
{
    ptx_val square = ptx_mul(b, y, y);
    return ptx_fma(b, e->c[DELTA_RHO], x, ptx_mul(b, e->c[DELTA_REST], square));
}

static void adadelta_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val eps = e->c[DELTA_EPS];

    e->new_state[0] = mean_square(b, e, e->state[0], e->g);
    ptx_val size = ptx_rule_sqrt(b, ptx_add(b, e->new_state[0], eps));
    ptx_val before = ptx_rule_sqrt(b, ptx_add(b, e->state[1], eps));
    ptx_val delta = ptx_mul(b, ptx_rule_div(b, before, size), e->g);
    e->new_state[1] = mean_square(b, e, e->state[1], delta);
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, e->c[DELTA_LR], delta));
}

static const struct ptx_rule_params adadelta = {
    .name = "adadelta",
    .version = 1,
    .states = { { "square_avg", PTX_RULE_POSITIVE, .stochastic = true },
                { "acc_delta", PTX_RULE_POSITIVE, .stochastic = true } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1 },
                 { "rho", PTX_RULE_RANGE_UP_TO_1, 0.9 },
                 { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-6 } },
    .once = adadelta_once,
    .update = adadelta_update,
};

static void adadelta_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    (void)t;
    for (unsigned i = 0; i < COUNT; i++) {
        state[0][i] = 0.75 * state[0][i] + 0.25 * g[i] * g[i];
        const double delta = sqrt(state[1][i] + 1e-3) / sqrt(state[0][i] + 1e-3) * g[i];
        state[1][i] = 0.75 * state[1][i] + 0.25 * delta * delta;
        p[i] -= 0.5 * delta;
    }
}

// ---- Adamax: Kingma and Ba 2014, as PyTorch 2.11 has it
// -------------------------------------------

enum { MAX_BETA1, MAX_REST1, MAX_BETA2, MAX_EPS, MAX_STEP };

static void adamax_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;
    ptx_val power = ptx_rule_power(b, s[S_BETA1], clock->t);

    clock->c[MAX_BETA1] = s[S_BETA1];
    clock->c[MAX_REST1] = ptx_sub(b, 1, s[S_BETA1]);
    clock->c[MAX_BETA2] = s[S_BETA2];
    clock->c[MAX_EPS] = s[S_EPS];
    clock->c[MAX_STEP] = ptx_div(b, s[S_LR], ptx_sub(b, 1, power));
}

static void adamax_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val m = ptx_fma(b, c[MAX_BETA1], e->state[0], ptx_mul(b, c[MAX_REST1], e->g));
    ptx_val size = ptx_add(b, ptx_abs(b, e->g), c[MAX_EPS]);
    ptx_val u = ptx_max(b, ptx_mul(b, c[MAX_BETA2], e->state[1]), size);

    e->new_state[0] = m;
    e->new_state[1] = u;
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, c[MAX_STEP], ptx_rule_div(b, m, u)));
}

static const struct ptx_rule_params adamax = {
    .name = "adamax",
    .version = 1,
    .states = { { "exp_avg" }, { "exp_inf", PTX_RULE_POSITIVE } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 2e-3 },
                 { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },
                 { "beta2", PTX_RULE_RANGE_BELOW_1, 0.999 },
                 { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-8 } },
    .once = adamax_once,
    .update = adamax_update,
};

static void adamax_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    for (unsigned i = 0; i < COUNT; i++) {
        state[0][i] = 0.9 * state[0][i] + (1 - 0.9) * g[i];
        state[1][i] = fmax(0.95 * state[1][i], fabs(g[i]) + 1e-6);
        p[i] -= 0.5 / (1 - pow(0.9, t)) * state[0][i] / state[1][i];
    }
}

// ---- StableAdamW: Wortsman et al. 2023 (arXiv 2304.13013), algorithm 2
// ---------------------------
//
// Its step is divided by the root of the mean of g^2 / v, where that is more than 1.

enum { ST_BETA1 = BETA1, ST_LEAST = MEAN, ST_RMS };

// beta (1 - beta^(t-1)) / (1 - beta^t), so that averages need no correction.
static ptx_val unbiased(ptx_builder *b, const struct ptx_rule_clock *clock, ptx_val beta)
{
    ptx_val before = ptx_rule_power(b, beta, ptx_sub(b, clock->t, 1));
    ptx_val now = ptx_rule_power(b, beta, clock->t);
    ptx_val of_before = ptx_mul(b, beta, ptx_sub(b, 1, before));
    return ptx_div(b, of_before, ptx_sub(b, 1, now));
}

static void stable_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;
    ptx_val beta1 = unbiased(b, clock, s[S_BETA1]);
    ptx_val beta2 = unbiased(b, clock, s[S_BETA2]);

    clock->c[LR] = s[S_LR];
    clock->c[BETA1] = beta1;
    clock->c[REST1] = ptx_sub(b, 1, beta1);
    clock->c[BETA2] = beta2;
    clock->c[REST2] = ptx_sub(b, 1, beta2);
    clock->c[EPS] = s[S_EPS];
    clock->c[DECAY] = s[S_DECAY];
    clock->c[ST_LEAST] = ptx_mul(b, s[S_EPS], s[S_EPS]);
}

static void stable_reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    moments(b, e);
    ptx_val v = ptx_max(b, e->new_state[1], e->c[ST_LEAST]);
    e->term[0] = ptx_div(b, ptx_mul(b, e->g, e->g), v);
    e->term[1] = ptx_f32(1);
}

static void stable_of_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    ptx_val rms = ptx_sqrt(b, ptx_div(b, s->sum[0], s->sum[1]));
    ptx_val lr = ptx_cvt(b, PTX_F64, s->c[LR]);
    s->c[ST_RMS] = ptx_div(b, lr, ptx_max(b, rms, 1));
}

static void stable_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;

    moments(b, e);
    ptx_val size = ptx_add(b, ptx_rule_sqrt(b, e->new_state[1]), c[EPS]);
    ptx_val u = ptx_rule_div(b, e->new_state[0], size);
    ptx_val step = ptx_fma(b, c[DECAY], e->p, u);
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, c[ST_RMS], step));
}

static const struct ptx_rule_params stable = {
    .name = "stable_adamw",
    .version = 1,
    .states = { { "exp_avg" }, { "exp_avg_sq", PTX_RULE_POSITIVE, .stochastic = true } },
    .scalars = { ADAMW_SCALARS },
    .sums = 2,
    .once = stable_once,
    .update = stable_update,
    .reduce = stable_reduce,
    .of_sums = stable_of_sums,
};

static double unbiased_of(double beta, unsigned t)
{
    return beta * (1 - pow(beta, t - 1.0)) / (1 - pow(beta, t));
}

static void stable_step(double *p, const double *g, double state[STATES][COUNT], unsigned t)
{
    const double beta1 = unbiased_of(0.9, t), beta2 = unbiased_of(0.95, t);
    double sum = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        state[0][i] = beta1 * state[0][i] + (1 - beta1) * g[i];
        state[1][i] = beta2 * state[1][i] + (1 - beta2) * g[i] * g[i];
        sum += g[i] * g[i] / fmax(state[1][i], 1e-12);
    }
    const double lr = 0.5 / fmax(1, sqrt(sum / COUNT));
    for (unsigned i = 0; i < COUNT; i++)
        p[i] -= lr * (state[0][i] / (sqrt(state[1][i]) + 1e-6) + 0.1 * p[i]);
}

// ---- plans --------------------------------------------------------------------------------------

enum { ROOM = COUNT * sizeof(float), CLOCK = (2 + STATES) * ROOM, BYTES = CLOCK + 256 };

static unsigned char bytes[BYTES];

static float *array_of(unsigned k)
{
    return (void *)(bytes + k * ROOM);
}

// Steps with the rule, beside the formula. The gradients' norm is not clipped.
static void follow(const struct ptx_rule_params *params, const struct ptx_step_hyper *hyper,
                   unsigned states,
                   void (*step)(double *, const double *, double (*)[COUNT], unsigned))
{
    static double p[COUNT], g[COUNT], state[STATES][COUNT];
    struct random r = gpu_random(params->name);
    OWNED(ptx_rule) *rule = made(ptx_rule_create(params));
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, BYTES);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor tensor = {
        .parameter = at, .gradient = at + ROOM, .step = at + CLOCK, .count = COUNT, .dtype = PTX_F32
    };
    const struct ptx_step_group group = { .own_rule = rule, .hyper = *hyper };

    memset(bytes, 0, BYTES);
    memset(state, 0, sizeof state);
    for (unsigned k = 0; k < states; k++)
        tensor.state[k] = at + (2 + k) * (CUdeviceptr)ROOM;
    for (unsigned i = 0; i < COUNT; i++)
        p[i] = (double)(array_of(0)[i] = (float)random_unit(&r));
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(
        gpu.device, &(struct ptx_step_params) { ONE_TENSOR(tensor, group), .max_norm = INFINITY,
                                                .stream = gpu.stream }));
    for (unsigned t = 1; t <= STEPS; t++) {
        for (unsigned i = 0; i < COUNT; i++)
            g[i] = (double)(array_of(1)[i] = (float)random_unit(&r));
        require(ptx_buffer_upload(memory, 0, bytes, BYTES, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, bytes, BYTES, gpu.stream));
        step(p, g, state, t);
    }
    for (unsigned i = 0; i < COUNT; i++)
        if (!(fabs(p[i] - (double)array_of(0)[i]) < 1e-5))
            fail_msg("%s: element %u is %a; the formula has %a", params->name, i,
                     (double)array_of(0)[i], p[i]);
}

TEST(test_lars)
{
    follow(&lars,
           &(struct ptx_step_hyper) {
               .lr = 0.5, .momentum = 0.9, .weight_decay = 0.01, .more = { 0.02 } },
           1, lars_step);
}

#define ADAMW .lr = 0.5, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1

TEST(test_cautious)
{
    follow(&cautious, &(struct ptx_step_hyper) { ADAMW }, 2, cautious_step);
}

TEST(test_decaying)
{
    const uint16_t *copy = (const void *)array_of(4);
    double sum = 0, kept;

    follow(&decaying, &(struct ptx_step_hyper) { ADAMW, .more = { 0.25, 0.5 } }, 3, decaying_step);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(copy[i], bf16_from_f64((double)array_of(0)[i]));
    for (unsigned t = 1; t <= STEPS; t++)
        sum += decayed(t);
    memcpy(&kept, bytes + CLOCK + 8, sizeof kept);
    assert_true(fabs(kept - sum) < 1e-12);
}

TEST(test_adadelta)
{
    follow(&adadelta, &(struct ptx_step_hyper) { .lr = 0.5, .eps = 1e-3, .more = { 0.75 } }, 2,
           adadelta_step);
}

TEST(test_adamax)
{
    follow(&adamax,
           &(struct ptx_step_hyper) { .lr = 0.5, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6 }, 2,
           adamax_step);
}

TEST(test_stable)
{
    follow(&stable, &(struct ptx_step_hyper) { ADAMW }, 2, stable_step);
}

GPU_MAIN

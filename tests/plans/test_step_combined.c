// SPDX-License-Identifier: MIT
// Whatever a step plan can do, beside whatever else it can do: plans whose parts are drawn at
// random, each step in a random form, every byte as in plain C.
//   PTXGEN_TEST_CONFIGURATIONS  the number of plans
//   PTXGEN_TEST_FIRST           the number of the first one, as a message gives it
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qk_clip_fixture.h"
#include "sanitized.h"
#include "test.h"
#include "weight_report.h"

enum {
    ALL_BLOCKS = 1 << PTX_FP8_BLOCKS_NONE | 1 << PTX_FP8_BLOCKS_128X128 | 1 << PTX_FP8_BLOCKS_1X128,
    ALL_AVERAGES = PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(BF16),
    TENSORS = 8,
    MOST = 18000, // of matrices; above 128 x 128
    STEPS = 5,
};

// What the caller has in device memory besides the set: the factors, then these.
enum {
    INPUTS = 64,
    STATE = 256, // of guards
    STATE_BYTES = 2048,
    REPORTS = STATE + STATE_BYTES,
    WEIGHTS = REPORTS + TENSORS * 32,
    COUNTS = WEIGHTS + TENSORS * 24,
    MICRO = COUNTS + 256,                 // gradients of a micro-batch
    ROOM = (MOST + 8) * 4 / 16 * 16 + 16, // of one tensor's
    BYTES = MICRO + TENSORS * ROOM,
};

struct inputs {
    float loss, skip, found_inf, max_norms[STEP_MOST_GROUPS];
};

// A plan, what is expected of it, and the caller's memory.
static struct {
    bool accumulates, clips, factors, guarded, matrices, reports, weight_reports, updates, wild;
    struct ptx_step_params params;
    struct ptx_step_tensor tensors[TENSORS]; // as the plan has them
    struct ptx_guard_params guards;
    struct ref_guards reference;
    struct ref_guard_state state;
    float limits[STEP_MOST_GROUPS];
    struct ptx_loss_scale_state scale;
    struct qk_clips qk;
    struct ptx_gradient_report gradients[TENSORS];
    struct ptx_weight_report weights[TENSORS];
    unsigned sums[TENSORS]; // gradients that a tensor's accumulator has
    unsigned char batch[TENSORS * ROOM];
    ptx_step_plan *plan;
    ptx_graph *graph;
    char what[160];
} c;

static struct step_set set;
static ptx_buffer *memory;

static const struct ptx_loss_scale_params update = { .interval = 3 };

static bool often(struct random *r)
{
    return random_below(r, 2);
}

static bool seldom(struct random *r)
{
    return random_below(r, 4) == 0;
}

// ---- the plan -----------------------------------------------------------------------------------

// One kind of a mask, or all.
static uint32_t some_of(struct random *r, uint32_t mask, unsigned count)
{
    if (often(r))
        return mask;
    for (;;) {
        const uint32_t one = UINT32_C(1) << random_below(r, count);
        if (mask & one)
            return one;
    }
}

// Matrices, beside other tensors in most plans: agc is refused then, and products of numbers that
// are not finite are any such numbers.
static void draw_matrices(struct random *r, struct step_shape *shape)
{
    shape->rules |= 1 << PTX_STEP_RULE_MUON;
    if (often(r))
        shape->rules = 1 << PTX_STEP_RULE_MUON | 1 << random_below(r, STEP_RULES);
    if (seldom(r))
        shape->most = MOST;
    c.clips = c.wild = false;
}

static struct step_shape draw_shape(struct random *r)
{
    static const uint64_t most[] = { 60, 900, 3000, 5000 };
    struct step_shape shape = { .tensors = 1 + random_below(r, TENSORS),
                                .groups = 1 + random_below(r, 3),
                                .norm_groups = 1 + random_below(r, 3),
                                .most = most[random_below(r, 4)],
                                .rules = some_of(r, ALL_RULES, STEP_RULES),
                                .formats = some_of(r, ALL_FORMATS, PTX_STEP_FORMAT_COUNT),
                                .aligned = often(r),
                                .sharded = seldom(r),
                                .absent = seldom(r) };

    c.accumulates = seldom(r);
    c.clips = often(r);
    c.factors = seldom(r);
    c.guarded = often(r);
    c.reports = seldom(r);
    c.weight_reports = seldom(r);
    c.updates = seldom(r);
    c.wild = random_below(r, 6) == 0;
    c.matrices = seldom(r);
    if (c.matrices)
        draw_matrices(r, &shape);
    shape.units = c.clips;
    shape.sums = c.accumulates;
    shape.aligned |= c.accumulates;
    shape.wild = c.wild && !c.accumulates;
    shape.averages = seldom(r) ? ALL_AVERAGES : 0;
    shape.copies = seldom(r) ? some_of(r, ALL_COPIES, 3) : 0;
    shape.transposed = often(r);
    shape.blocks = shape.copies && often(r) ? ALL_BLOCKS : 0;
    shape.amax = seldom(r);
    return shape;
}

// A unit is whole on a rank.
static void make_units_whole(void)
{
    for (size_t t = 0; t < set.count; t++) {
        struct ptx_step_tensor *tensor = &set.tensors[t];
        const uint64_t columns = tensor->columns;
        if (set.group[tensor->group].agc.clipping != 0)
            tensor->whole = (struct ptx_step_whole) { .first = columns ? 256 * columns : 0 };
    }
}

static void draw_guards(struct random *r)
{
    const CUdeviceptr at = ptx_buffer_address(memory);
    const uint32_t groups = set.norm_groups;
    const unsigned further = random_below(r, 3);

    c.guards = (struct ptx_guard_params) {
        .limit = seldom(r) ? 3 : 0,
        .skip_at = often(r) ? at + INPUTS + offsetof(struct inputs, skip) : 0,
        .zclip = { .warmup = further == 1 ? 2 : 0 },
        .adagc = { .warmup = further == 2 ? 2 : 0 },
        .state = at + STATE,
        .state_bytes = STATE_BYTES,
    };
    if (often(r) || (!further && !c.guards.skip_at && c.guards.limit == 0))
        c.guards.history = (struct ptx_guard_history_params) {
            .length = 6,
            .deviations = 1,
            .loss_at = often(r) ? at + INPUTS + offsetof(struct inputs, loss) : 0,
            .most_skips = seldom(r) ? 2 : 0,
        };
    for (uint32_t g = 0; g < groups; g++)
        c.limits[g] = c.guards.limit;
    c.reference = (struct ref_guards) { .groups = groups,
                                        .limits = c.guards.limit != 0 ? c.limits : NULL,
                                        .length = c.guards.history.length,
                                        .deviations = 1,
                                        .has_loss = c.guards.history.loss_at != 0,
                                        .most_skips = c.guards.history.most_skips,
                                        .group = -1,
                                        .zclip_warmup = c.guards.zclip.warmup,
                                        .alpha = 0.97,
                                        .z_most = 2.5,
                                        .adagc_warmup = c.guards.adagc.warmup,
                                        .lambda_abs = 1,
                                        .lambda_rel = 1.05,
                                        .beta = 0.98 };
    set.guards = &c.reference;
    set.guard_state = &c.state;
}

// The set's gradients are the sums, which have the plan's gradients in micro-batches.
static void make_accumulators(struct random *r)
{
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16 };
    const CUdeviceptr at = ptx_buffer_address(memory);

    for (size_t t = 0; t < set.count; t++) {
        struct ptx_step_tensor *tensor = &c.tensors[t];
        tensor->gradient_dtype = types[random_below(r, 3)];
        const size_t skew = often(r) ? random_below(r, 8) : 0;
        tensor->accumulator = ptx_buffer_address(set.memory) + set.offset[t][1];
        tensor->accumulated = at + COUNTS + t * sizeof(struct ptx_step_accumulated);
        tensor->gradient = at + MICRO + t * ROOM + skew * ptx_type_bytes(tensor->gradient_dtype);
    }
}

// Needed where some group clips units, and refused where none does.
static void tell_weights_changed(void)
{
    for (uint32_t g = 0; g < set.groups; g++)
        if (set.group[g].agc.clipping != 0) {
            require(ptx_step_plan_weights_changed(c.plan, gpu.stream));
            return;
        }
    if (c.clips && ptx_step_plan_weights_changed(c.plan, gpu.stream))
        expect_failure(PTX_ERROR_INVALID, "no group of the plan has agc");
}

// A part of what matrices take, if each of them by itself takes no more.
static void draw_windows(struct random *r)
{
    struct ptx_step_description all;

    require(ptx_step_describe(&c.params, &all));
    c.params.matrix_memory = all.workspace / (2 + random_below(r, 3));
    if (ptx_step_describe(&c.params, &all))
        c.params.matrix_memory = 0;
}

static void create(struct random *r)
{
    const struct step_shape shape = draw_shape(r);
    const CUdeviceptr at = ptx_buffer_address(memory);

    memset(&c.state, 0, sizeof c.state);
    memset(c.sums, 0, sizeof c.sums);
    memset(c.weights, 0, sizeof c.weights);
    require(ptx_buffer_fill(memory, 0, 0, BYTES, gpu.stream));
    step_set_create(&set, r, &shape);
    for (size_t t = 0; t < set.count; t++) {
        set.tensors[t].uncounted = seldom(r);
        set.tensors[t].weight = set.tensors[t].uncounted || !seldom(r) ? 0 : 0.5;
    }
    c.qk = (struct qk_clips) { 0 };
    if (c.factors)
        qk_clips_create(&c.qk, &set, r, memory);
    make_units_whole();
    set.gradients = (ptx_step_gradients)random_below(r, 3);
    c.params = step_set_params(&set);
    c.params.qk_clips = c.qk.entry;
    c.params.qk_clip_count = c.qk.count;
    c.params.max_norm = seldom(r) ? INFINITY : 1.5f;
    if (seldom(r))
        c.params.max_norms_at = at + INPUTS + offsetof(struct inputs, max_norms);
    if (seldom(r))
        c.params.found_inf_at = at + INPUTS + offsetof(struct inputs, found_inf);
    if (c.guarded) {
        draw_guards(r);
        c.params.guards = &c.guards;
    }
    if (c.reports)
        c.params.reports_at = at + REPORTS;
    if (c.weight_reports)
        c.params.weight_reports_at = at + WEIGHTS;
    c.scale = (struct ptx_loss_scale_state) { .scale = c.updates ? 8 : 1 };
    c.params.loss_scale = c.scale.scale;
    c.params.update = c.updates ? &update : NULL;
    memcpy(c.tensors, set.tensors, set.count * sizeof *c.tensors);
    if (c.accumulates)
        make_accumulators(r);
    c.params.tensors = c.tensors;
    if (c.matrices && often(r))
        draw_windows(r);
    require_done(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
    c.plan = step_create(&c.params);
    tell_weights_changed();
}

// Whether the plan takes a norm, and so finds what is NaN or infinite.
static bool takes_norm(void)
{
    bool needs = false;

    for (size_t t = 0; t < set.count; t++) {
        const struct ptx_step_group *group = &set.group[set.tensors[t].group];
        needs |=
            set.tensors[t].count && (group->agc.clipping != 0 || group->rule == PTX_STEP_RULE_MUON);
    }
    return needs || c.accumulates || c.updates || c.reports || c.params.max_norms_at ||
           !isinf(c.params.max_norm) || c.guards.limit != 0 || c.guards.history.length ||
           c.guards.zclip.warmup || c.guards.adagc.warmup;
}

// ---- a step -------------------------------------------------------------------------------------

static void draw_inputs(struct random *r)
{
    struct inputs in = { .loss = seldom(r) ? 9 : (float)(1 + 0.1 * random_unit(r)),
                         .skip = random_below(r, 8) ? 0 : 2,
                         .found_inf = random_below(r, 8) ? 0 : 1 };

    for (uint32_t g = 0; g < STEP_MOST_GROUPS; g++)
        in.max_norms[g] = set.max_norms[g] = 0.5f + (float)random_below(r, 4);
    set.loss = in.loss;
    set.given = c.guards.skip_at ? in.skip : 0;
    set.found_inf = in.found_inf;
    require_done(ptx_buffer_upload(memory, INPUTS, &in, sizeof in, gpu.stream));
    if (c.qk.count)
        qk_clips_set(&c.qk, &set, r, c.wild);
}

// New gradients, of which some are absent.
static void draw_gradients(struct random *r, float bad)
{
    const bool lacks = seldom(r);
    CUdeviceptr addresses[TENSORS];

    set.has_elements = false;
    for (size_t t = 0; t < set.count; t++) {
        addresses[t] = lacks && often(r) ? 0 : c.tensors[t].gradient;
        set.tensors[t].gradient = addresses[t];
        set.has_elements |= addresses[t] && set.tensors[t].count;
    }
    step_set_gradients(&set, r, bad);
    require(ptx_step_plan_set_gradients(c.plan, 0, set.count, addresses, gpu.stream));
}

// The gradients of a micro-batch, and the sums on the host.
static void draw_batch(struct random *r, float bad)
{
    const bool lacks = seldom(r);
    const CUdeviceptr at = ptx_buffer_address(memory) + MICRO;
    CUdeviceptr addresses[TENSORS];

    for (size_t t = 0; t < set.count; t++) {
        const struct ptx_step_tensor *tensor = &c.tensors[t];
        const enum ref_type type = gpu_ref_type(tensor->gradient_dtype);
        unsigned char *data = c.batch + (tensor->gradient - at);
        float *sum = (void *)(set.host + set.offset[t][1]);
        const bool is = !lacks || often(r);
        data_fill(r, type, DATA_PLAIN, data, tensor->count);
        if (bad != 0 && tensor->count && often(r))
            ref_store(type, data, random_below(r, (uint32_t)tensor->count), (double)bad);
        for (uint64_t i = 0; i < tensor->count && is; i++) {
            const float g = (float)ref_load(type, data, i);
            sum[i] = c.sums[t] ? sum[i] + g : g;
        }
        addresses[t] = is ? tensor->gradient : 0;
        c.sums[t] += is;
    }
    require(ptx_buffer_upload(memory, MICRO, c.batch, sizeof c.batch, gpu.stream));
    require_done(ptx_step_plan_set_gradients(c.plan, 0, set.count, addresses, gpu.stream));
}

// All micro-batches of a step but what the run itself takes up.
static void accumulate(struct random *r, float bad)
{
    const unsigned batches = 1 + random_below(r, 3);
    const CUdeviceptr none[TENSORS] = { 0 };
    const bool in_run = often(r);

    memset(c.sums, 0, sizeof c.sums);
    for (unsigned k = 0; k < batches; k++) {
        draw_batch(r, k ? 0 : bad);
        if (k < batches - 1 || !in_run)
            require(ptx_step_plan_accumulate(c.plan, gpu.stream));
    }
    if (!in_run)
        require(ptx_step_plan_set_gradients(c.plan, 0, set.count, none, gpu.stream));
    for (size_t t = 0; t < set.count; t++)
        set.tensors[t].gradient = c.sums[t] ? c.tensors[t].accumulator : 0;
}

// Weights and scalars that something else writes between two steps.
static void change(struct random *r)
{
    if (seldom(r)) {
        for (size_t t = 0; t < set.count; t++)
            for (uint64_t i = random_below(r, 7); i < set.tensors[t].count; i += 7)
                ref_store(gpu_ref_type(set.tensors[t].dtype), set.host + set.offset[t][0], i,
                          1.0 / (double)(i % 9 + 1));
        require_done(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
        tell_weights_changed();
    }
    if (seldom(r)) {
        const uint32_t g = random_below(r, set.groups);
        set.group[g].hyper.lr *= 0.5;
        require(ptx_step_plan_set_hyper(c.plan, g, &set.group[g].hyper, gpu.stream));
    }
}

// ---- what is expected ---------------------------------------------------------------------------

// The report of a gradient, but for the order in which its squares are added.
static void expect_gradient(size_t t)
{
    const struct ptx_step_tensor *tensor = &set.tensors[t];
    const struct ptx_step_whole *w = &tensor->whole;
    const ptx_type type = c.accumulates            ? PTX_F32
                          : tensor->gradient_dtype ? tensor->gradient_dtype
                                                   : tensor->dtype;
    struct ptx_gradient_report *must = &c.gradients[t];
    double sum = 0;
    float largest = 0;

    *must = (struct ptx_gradient_report) { .first_nonfinite = -1 };
    if (!tensor->gradient || !tensor->count) {
        must->absent = 1;
        return;
    }
    for (uint64_t i = 0; i < tensor->count; i++) {
        const double x = ref_load(gpu_ref_type(type), set.host + set.offset[t][1], i);
        sum += x * x;
        largest = isnan(x) || isnan(largest) ? NAN : fmaxf(largest, fabsf((float)x));
        must->zeros += x == 0;
        if (!isfinite(x) && must->first_nonfinite < 0)
            must->first_nonfinite =
                (int64_t)(w->first + (w->run ? i / w->run * w->stride + i % w->run : i));
    }
    must->norm = sqrt(sum);
    must->largest = largest;
}

// Takes the step in plain C.
static void expect(void)
{
    struct ptx_step_description description;
    ALLOCATED(unsigned char) *before = malloc(set.bytes);

    assert_non_null(before);
    memcpy(before, set.host, set.bytes);
    require(ptx_step_plan_describe(c.plan, &description));
    for (size_t t = 0; t < set.count && c.reports; t++)
        expect_gradient(t);
    const bool skipped = step_set_expect(&set, &c.params, c.scale.scale);
    if (!takes_norm())
        c.state.norm = 0;
    for (size_t t = 0; t < set.count && c.weight_reports; t++) {
        if (!set.tensors[t].gradient || !set.tensors[t].count)
            c.weights[t] = (struct ptx_weight_report) { .absent = 1 };
        else if (!skipped)
            weight_report_expect(&set, before, t, description.tile, &c.weights[t]);
    }
    if (c.updates)
        ref_loss_scale_update(&c.scale.scale, &c.scale.growth_tracker,
                              c.guarded ? c.state.skipped == REF_SKIP_FOUND_INF : skipped,
                              (struct ref_loss_scale) { 2, 0.5f, 3, 0, INFINITY, 1 });
}

static bool is_near(double x, double y)
{
    return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-12 * fabs(y);
}

// The report of weights: of matrices but for the order in which squares are added.
static bool is_report(size_t t, const struct ptx_weight_report *is,
                      const struct ptx_weight_report *must)
{
    if (set.group[set.tensors[t].group].rule != PTX_STEP_RULE_MUON)
        return !memcmp(is, must, sizeof *is);
    return is_near(is->norm, must->norm) && is_near(is->change, must->change) &&
           is_near((double)is->largest, (double)must->largest) && is->absent == must->absent;
}

static void check_reports(void)
{
    struct ptx_gradient_report gradients[TENSORS];
    struct ptx_weight_report weights[TENSORS];

    require(ptx_buffer_download(memory, REPORTS, gradients, sizeof gradients, gpu.stream));
    require_done(ptx_buffer_download(memory, WEIGHTS, weights, sizeof weights, gpu.stream));
    for (size_t t = 0; t < set.count && c.reports; t++) {
        const struct ptx_gradient_report *is = &gradients[t], *must = &c.gradients[t];
        if (!is_near(is->norm, must->norm) ||
            !is_near((double)is->largest, (double)must->largest) || is->absent != must->absent ||
            is->zeros != must->zeros || is->first_nonfinite != must->first_nonfinite)
            fail_msg("%s: tensor %zu: gradient %a %a %u %llu %lld; must be %a %a %u %llu %lld",
                     c.what, t, is->norm, (double)is->largest, is->absent,
                     (unsigned long long)is->zeros, (long long)is->first_nonfinite, must->norm,
                     (double)must->largest, must->absent, (unsigned long long)must->zeros,
                     (long long)must->first_nonfinite);
    }
    for (size_t t = 0; t < set.count && c.weight_reports; t++)
        if (!is_report(t, &weights[t], &c.weights[t]))
            fail_msg("%s: tensor %zu: weights %a %a %a %u; must be %a %a %a %u", c.what, t,
                     weights[t].norm, weights[t].change, (double)weights[t].largest,
                     weights[t].absent, c.weights[t].norm, c.weights[t].change,
                     (double)c.weights[t].largest, c.weights[t].absent);
}

static void check_guards(void)
{
    unsigned char is[STATE_BYTES], must[STATE_BYTES];
    const size_t bytes = ref_guard_bytes(&c.reference, &c.state, must);

    assert_int_equal(bytes, ptx_guard_state_bytes(&c.guards, set.norm_groups));
    require_done(ptx_buffer_download(memory, STATE, is, bytes, gpu.stream));
    if (memcmp(is, must, bytes))
        fail_msg("%s: the guards' state differs", c.what);
}

static void check_scale(void)
{
    struct ptx_clip_summary summary;

    require_done(ptx_step_plan_read(c.plan, 0, 0, NULL, &summary, gpu.stream));
    if (memcmp(&summary.state, &c.scale, sizeof c.scale))
        fail_msg("%s: the loss scale is %g, not %g", c.what, (double)summary.state.scale,
                 (double)c.scale.scale);
}

static void check_accumulated(void)
{
    struct ptx_step_accumulated got[TENSORS];

    require_done(ptx_buffer_download(memory, COUNTS, got, sizeof got, gpu.stream));
    for (size_t t = 0; t < set.count; t++)
        if (set.tensors[t].count && got[t].gradients != (c.sums[t] | UINT32_C(1) << 31))
            fail_msg("%s: tensor %zu has %#x gradients, not %#x", c.what, t, got[t].gradients,
                     c.sums[t] | UINT32_C(1) << 31);
}

// ---- tests --------------------------------------------------------------------------------------

static void check_plan(uint64_t number)
{
    char name[64];

    snprintf(name, sizeof name, "combined %llu", (unsigned long long)number);
    struct random r = gpu_random(name);
    memset(&c.guards, 0, sizeof c.guards);
    create(&r);
    const struct any_plan any = { .step = c.plan };
    c.graph = plan_capture(any);
    for (unsigned step = 0; step < STEPS; step++) {
        const enum plan_form form = (enum plan_form)random_below(&r, 3);
        const float bad = random_below(&r, 5) || !takes_norm() ? 0 : often(&r) ? NAN : INFINITY;
        snprintf(c.what, sizeof c.what, "plan %llu%s%s%s%s%s%s%s, step %u, form %d",
                 (unsigned long long)number, c.clips ? ", agc" : "", c.matrices ? ", matrices" : "",
                 c.accumulates ? ", accumulators" : "", c.qk.count ? ", qk_clip" : "",
                 c.guarded ? ", guards" : "", c.reports ? ", reports" : "",
                 c.weight_reports ? ", weight reports" : "", step, (int)form);
        draw_inputs(&r);
        if (c.accumulates)
            accumulate(&r, bad != 0 ? INFINITY : 0); // the bits of a NaN in a sum are nothing said
        else
            draw_gradients(&r, bad);
        expect();
        plan_run(any, form, c.graph);
        step_set_check(&set, c.what);
        check_reports();
        if (c.guarded)
            check_guards();
        if (c.updates)
            check_scale();
        if (c.accumulates)
            check_accumulated();
        change(&r);
    }
    ptx_graph_destroy(&c.graph);
    ptx_step_plan_destroy(&c.plan);
    qk_clips_destroy(&c.qk);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

TEST(test_combined)
{
    const uint64_t first = number_of("PTXGEN_TEST_FIRST", 0);
    const uint64_t count = number_of("PTXGEN_TEST_CONFIGURATIONS", SANITIZED ? 8 : 40);

    for (uint64_t k = 0; k < count; k++)
        check_plan(first + k);
}

int main(void)
{
    gpu_open();
    gpu_buffer(&memory, BYTES);
    return gpu_tests_run();
}

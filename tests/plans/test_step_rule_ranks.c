// SPDX-License-Identifier: MIT
// Rules with sums over tensors that are spread over ranks: two plans on one device, whose sums are
// added between the phases, have the bits of one plan with the same sums; the order of the phases;
// and a rank without an element of a parameter counts its steps.
#define PTXGEN_HERE NULL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "random.h"
#include "rules/rules.h"
#include "test.h"

enum { PARAMETER, GRADIENT, M, V, ARRAYS };
enum { LONG, SHORT, TENSORS, RANKS = 2, PLANS = RANKS + 1, WHOLE = RANKS };
enum { CUT = 1003, MOST = 5000, ROOM = MOST * sizeof(float), CLOCK_BYTES = 16 };
enum { CLOCKS_AT = TENSORS * ARRAYS * ROOM, NORM_AT = CLOCKS_AT + 256, SUMS_AT = NORM_AT + 256 };
enum { BYTES = SUMS_AT + 256 };
enum { SUMS = TENSORS * PTX_RULE_MAX_SUMS };

static const uint64_t counts[PLANS][TENSORS] = { { CUT, 700 }, { MOST - CUT, 0 }, { MOST, 700 } };

static ptx_rule *rule;
static struct part {
    ptx_buffer *memory;
    ptx_step_plan *plan;
    CUdeviceptr base;
    struct ptx_step_tensor tensors[TENSORS];
    unsigned char bytes[BYTES];
} parts[PLANS];

// LAMB, with a number of its own behind the count.
static void once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    lamb_params.once(b, clock);
    clock->new_state[0] = ptx_add(b, clock->state[0], clock->scalar[0]);
}

static size_t place(unsigned tensor, unsigned array)
{
    return (size_t)(tensor * ARRAYS + array) * ROOM;
}

static float *array_of(struct part *p, unsigned tensor, unsigned array)
{
    return (void *)(p->bytes + place(tensor, array));
}

static const struct ptx_step_group groups[TENSORS + 1] = {
    { .hyper = { .lr = 0.5, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1 } },
    { .hyper = { .lr = 0.25, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6 } },
    { .hyper = { .lr = 0.25 } },
};

static void move(bool to_device, unsigned k, size_t at, void *bytes, size_t size)
{
    if (to_device)
        require(ptx_buffer_upload(parts[k].memory, at, bytes, size, gpu.stream));
    else
        require_done(ptx_buffer_download(parts[k].memory, at, bytes, size, gpu.stream));
}

// `owns`: the sums are in the plan's own memory.
static void plan_create(unsigned k, bool owns)
{
    struct part *p = &parts[k];
    struct ptx_step_group own[TENSORS] = { groups[0], groups[1] };

    own[0].own_rule = own[1].own_rule = rule;
    p->memory = ptx_buffer_create(gpu.device, BYTES);
    p->base = ptx_buffer_address(p->memory);
    move(true, k, 0, p->bytes, BYTES);
    for (unsigned t = 0; t < TENSORS; t++)
        p->tensors[t] = (struct ptx_step_tensor) {
            .parameter = p->base + place(t, PARAMETER),
            .gradient = p->base + place(t, GRADIENT),
            .state = { p->base + place(t, M), p->base + place(t, V) },
            .step = p->base + CLOCKS_AT + t * (CUdeviceptr)CLOCK_BYTES,
            .count = counts[k][t],
            .dtype = PTX_F32,
            .group = t,
            .whole = { .first = k == 1 && t == LONG ? CUT : 0 },
            .counts_empty = true,
        };
    const struct ptx_step_params params = { .tensors = p->tensors,
                                            .tensor_count = TENSORS,
                                            .groups = own,
                                            .group_count = TENSORS,
                                            .max_norm = 1,
                                            .sums_at = p->base + NORM_AT,
                                            .rule_sums_at = owns ? 0 : p->base + SUMS_AT,
                                            .stream = gpu.stream };
    p->plan = made(ptx_step_plan_create(gpu.device, &params));
    assert_true(ptx_step_plan_get_info(p->plan)->rule_sums != 0);
    if (!owns)
        assert_int_equal(ptx_step_plan_get_info(p->plan)->rule_sums, params.rule_sums_at);
}

// The ranks' parts of what the whole plan has.
static void spread(void)
{
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned a = 0; a < ARRAYS; a++)
            for (unsigned k = 0; k < RANKS; k++)
                memcpy(array_of(&parts[k], t, a), array_of(&parts[WHOLE], t, a) + (k ? CUT : 0),
                       counts[k][t] * sizeof(float));
}

static void check_parts(void)
{
    for (unsigned k = 0; k < PLANS; k++)
        move(false, k, 0, parts[k].bytes, BYTES);
    for (unsigned k = 0; k < RANKS; k++) {
        for (unsigned t = 0; t < TENSORS; t++)
            for (unsigned a = 0; a < ARRAYS; a++)
                assert_memory_equal(array_of(&parts[k], t, a),
                                    array_of(&parts[WHOLE], t, a) + (k ? CUT : 0),
                                    counts[k][t] * sizeof(float));
        // The second rank has no element of SHORT, and counts it.
        assert_memory_equal(parts[k].bytes + CLOCKS_AT, parts[WHOLE].bytes + CLOCKS_AT,
                            TENSORS * CLOCK_BYTES);
    }
}

// The ranks' sums are added; the plan of all has nearly the same, and gets the same.
static void add_up(size_t at, unsigned count)
{
    double sums[PLANS][SUMS], total[SUMS] = { 0 };

    for (unsigned k = 0; k < PLANS; k++) {
        move(false, k, at, sums[k], count * sizeof(double));
        for (unsigned n = 0; n < count && k < RANKS; n++)
            total[n] += sums[k][n];
    }
    for (unsigned n = 0; n < count; n++)
        if (!(fabs(sums[WHOLE][n] - total[n]) <= 1e-12 * total[n]) && !isnan(total[n]))
            fail_msg("sum %u is %.17g in one plan, and %.17g in two", n, sums[WHOLE][n], total[n]);
    for (unsigned k = 0; k < PLANS; k++)
        move(true, k, at, total, count * sizeof(double));
}

typedef ptx_status phase(ptx_step_plan *plan, CUstream stream);
enum { PHASES = 4 };
static phase *const phases[PHASES] = { ptx_step_plan_norm_sq, ptx_step_plan_finish,
                                       ptx_step_plan_reduce, ptx_step_plan_step };

// A step of all plans. `graphs`: NULL: launched.
static void take_step(ptx_graph *const graphs[PLANS][PHASES])
{
    for (unsigned n = 0; n < PHASES; n++) {
        for (unsigned k = 0; k < PLANS; k++)
            require(graphs ? ptx_graph_launch(graphs[k][n], gpu.stream)
                           : phases[n](parts[k].plan, gpu.stream));
        if (n == 0)
            add_up(NORM_AT, 1);
        if (n == 2)
            add_up(SUMS_AT, SUMS);
    }
}

static void destroy_plans(void)
{
    for (unsigned k = 0; k < PLANS; k++) {
        ptx_step_plan_destroy(&parts[k].plan);
        ptx_buffer_destroy(&parts[k].memory);
        memset(parts[k].bytes, 0, BYTES);
    }
}

TEST(test_ranks)
{
    enum { STEPS = 5, SKIPPED = 2, FROM_GRAPHS = 3 };
    ptx_graph *graphs[PLANS][PHASES];
    struct random r = gpu_random("sums of rules over ranks");
    double number;
    float count;

    for (unsigned k = 0; k < PLANS; k++)
        plan_create(k, false);
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned i = 0; i < MOST; i++)
            array_of(&parts[WHOLE], t, PARAMETER)[i] = (float)random_unit(&r);
    for (unsigned n = 0; n < STEPS; n++) {
        for (unsigned t = 0; t < TENSORS; t++)
            for (unsigned i = 0; i < MOST; i++)
                array_of(&parts[WHOLE], t, GRADIENT)[i] = (float)random_unit(&r);
        if (n == SKIPPED)
            array_of(&parts[WHOLE], LONG, GRADIENT)[MOST - 1] = NAN;
        spread();
        for (unsigned k = 0; k < PLANS; k++)
            move(true, k, 0, parts[k].bytes, NORM_AT);
        for (unsigned k = 0; k < PLANS && n == FROM_GRAPHS; k++)
            for (unsigned of = 0; of < PHASES; of++) {
                require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
                require(phases[of](parts[k].plan, gpu.stream));
                graphs[k][of] = end_capture(gpu.stream);
            }
        take_step(n >= FROM_GRAPHS ? (ptx_graph *const(*)[PHASES])graphs : NULL);
        check_parts();
    }
    memcpy(&count, parts[1].bytes + CLOCKS_AT + SHORT * CLOCK_BYTES, sizeof count);
    memcpy(&number, parts[1].bytes + CLOCKS_AT + SHORT * CLOCK_BYTES + 8, sizeof number);
    assert_true(count == STEPS - 1 && number == (STEPS - 1) * 0.25);
    for (unsigned k = 0; k < PLANS; k++)
        for (unsigned of = 0; of < PHASES; of++)
            ptx_graph_destroy(&graphs[k][of]);
    destroy_plans();
}

// ---- what is refused ----------------------------------------------------------------------------

static void expect_order(phase *call, ptx_step_plan *plan, const char *words)
{
    expect_refused(call(plan, gpu.stream), words);
}

TEST(test_order)
{
    static const char *const factors = "ptx_step_plan_reduce: the factors are not known";
    static const char *const sums = "ptx_step_plan_step: the sums of its rules, or the updates of "
                                    "its matrices, are not known: "
                                    "ptx_step_plan_reduce() comes first";

    plan_create(WHOLE, true);
    ptx_step_plan *plan = parts[WHOLE].plan;
    expect_order(ptx_step_plan_reduce, plan, factors);
    expect_order(ptx_step_plan_step, plan, sums);
    require(ptx_step_plan_norm_sq(plan, gpu.stream));
    expect_order(ptx_step_plan_reduce, plan, factors);
    require(ptx_step_plan_finish(plan, gpu.stream));
    expect_order(ptx_step_plan_step, plan, sums);
    require(ptx_step_plan_reduce(plan, gpu.stream));
    expect_order(ptx_step_plan_reduce, plan, factors);
    require(ptx_step_plan_step(plan, gpu.stream));
    expect_order(ptx_step_plan_step, plan, sums);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect_order(ptx_step_plan_step, plan, sums);
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_step_plan_norm_sq(plan, gpu.stream));
    require(ptx_step_plan_finish(plan, gpu.stream));
    expect_order(ptx_step_plan_step, plan, sums);
    require(ptx_step_plan_reduce(plan, gpu.stream));
    ptx_capture_abandon(gpu.device, gpu.stream);
    expect_order(ptx_step_plan_step, plan, "what was captured does not count outside of its graph");
    expect_refused(ptx_step_plan_reduce(NULL, gpu.stream), "the plan is NULL");
    destroy_plans();
}

TEST(test_refused)
{
    struct ptx_step_description d;
    struct ptx_step_tensor tensor = { .count = 4, .dtype = PTX_F32 };
    struct ptx_step_params params = { .tensors = &tensor,
                                      .tensor_count = 1,
                                      .groups = groups + TENSORS,
                                      .group_count = 1,
                                      .max_norm = 1,
                                      .rule_sums_at = 4 };

    plan_create(1, false);
    expect_refused(ptx_step_plan_run(parts[1].plan, gpu.stream),
                   "ptx_step_plan_run: tensor 0: its rule, lamb, takes sums over the whole "
                   "parameter, of which `whole` says that the tensor is a shard: use the phases");
    destroy_plans();
    expect_refused(ptx_step_describe(&params, &d), "rule_sums_at is 0x4; it must be a multiple");
    params.rule_sums_at = 0;
    tensor.count = 0;
    params.stream = gpu.stream;
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(gpu.device, &params));
    assert_int_equal(ptx_step_plan_get_info(plan)->rule_sums, 0);
    expect_refused(ptx_step_plan_reduce(plan, gpu.stream),
                   "ptx_step_plan_reduce: no rule of the plan has sums, and no tensor whole_rows: "
                   "leave this phase out");
}

int main(void)
{
    gpu_open();
    struct ptx_rule_params params = lamb_params;
    params.once = once;
    params.clock_states = 1;
    rule = ptx_rule_create(&params);
    if (!rule)
        return 1;
    const int failed = tests_run(NULL, NULL);
    ptx_rule_destroy(&rule);
    gpu_close();
    return failed;
}

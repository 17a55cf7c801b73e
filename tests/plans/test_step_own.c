// SPDX-License-Identifier: MIT
// Rules of callers: the library's own rules, written by a caller, have the bits of the reference in
// every format; many rules in one plan; and rules as data.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/step_table.h"
#include "rules/own.h"
#include "rules/rules.h"
#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

enum { ALL_AVERAGES = 1 << PTX_NONE | 1 << PTX_F32 | 1 << PTX_BF16 };

static ptx_rule *create(const struct ptx_rule_params *params)
{
    return made(ptx_rule_create(params));
}

// ---- the library's rules ------------------------------------------------------------------------

// Steps of a plan whose `params` differ from the set's in the rules' representation alone.
static void check_steps(struct step_set *set, struct random *r,
                        const struct ptx_step_params *params)
{
    enum { STEPS = 4 };
    OWNED(ptx_step_plan) *plan = step_create(params);
    char what[64];

    for (unsigned step = 0; step < STEPS; step++) {
        step_set_gradients(set, r, step == 1 ? NAN : 0);
        step_set_expect(set, params, 1);
        const struct any_plan any = { .step = plan };
        OWNED(ptx_graph) *graph = plan_capture(any);
        plan_run(any, (enum plan_form)(step % 3), graph);
        snprintf(what, sizeof what, "step %u", step + 1);
        step_set_check(set, what);
    }
}

// `own`: bits of the groups that have a caller's rule.
static void check_shape(struct random *r, const struct step_shape *shape, unsigned own)
{
    static struct step_set set;
    struct ptx_step_group groups[STEP_MOST_GROUPS];

    step_set_create(&set, r, shape);
    struct ptx_step_params params = step_set_params(&set);
    own_groups(&set, own, groups);
    params.groups = groups;
    check_steps(&set, r, &params);
}

TEST(test_library)
{
    struct random r = gpu_random("rules of the library");

    for (unsigned k = 0; k < 2 * STEP_RULES * PTX_STEP_FORMAT_COUNT; k += SANITIZED_EVERY(7)) {
        const unsigned rule = k / 2 % STEP_RULES, format = k / 2 / STEP_RULES;
        const struct step_shape shape = { .tensors = 3,
                                          .most = 5000,
                                          .rules = 1u << rule,
                                          .formats = 1u << format,
                                          .wild = k % 2,
                                          .aligned = (rule + format) % 2 };
        check_shape(&r, &shape, 1);
    }
}

TEST(test_mixed)
{
    struct random r = gpu_random("rules of both");

    for (unsigned trial = 0; trial < 8; trial += SANITIZED_EVERY(3)) {
        const struct step_shape shape = { ALL_STEPS,
                                          .tensors = 12,
                                          .groups = 4,
                                          .norm_groups = 2,
                                          .most = 3000,
                                          .averages = trial % 2 ? ALL_AVERAGES : 0,
                                          .sharded = trial % 4 > 1,
                                          .absent = true,
                                          .wild = trial % 3 == 0 };
        check_shape(&r, &shape, 5 + trial);
    }
}

// More rules than a word has bits, each with a name of its own.
TEST(test_many)
{
    enum { RULES = 40 };
    static struct step_set set;
    static struct ptx_step_tensor tensors[RULES];
    static struct ptx_step_group groups[RULES];
    const struct step_shape shape = { .tensors = RULES,
                                      .most = 300,
                                      .rules = 1 << PTX_STEP_RULE_LION };
    ptx_rule *rules[RULES];
    struct random r = gpu_random("many rules");

    step_set_create(&set, &r, &shape);
    struct ptx_step_params params = step_set_params(&set);
    for (uint32_t k = 0; k < RULES; k++) {
        char name[16];
        struct ptx_rule_params own = own_lion_params;
        snprintf(name, sizeof name, "lion_%" PRIu32, (k * 7) % RULES);
        own.name = name;
        rules[k] = create(&own);
        groups[k] = own_group(&set.group[0], rules[k]);
        tensors[k] = params.tensors[k];
        tensors[k].gradient_dtype = params.tensors[k].gradient_dtype;
        tensors[k].group = k;
    }
    params.tensors = tensors;
    params.groups = groups;
    params.group_count = RULES;
    check_steps(&set, &r, &params);
    for (uint32_t k = 0; k < RULES; k++)
        ptx_rule_destroy(&rules[k]);
}

// ---- scalars with names of their own ------------------------------------------------------------

// p = p - (s[0] + s[1] + ...) * g, with ten coefficients, which is more than a short row has.
enum { OTHERS = 10 };

static void others_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    for (unsigned k = 0; k < OTHERS; k++)
        clock->c[2 * k] = clock->scalar[k];
}

static void others_update(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val p = e->p;

    for (unsigned k = 0; k < OTHERS; k++)
        p = ptx_sub(b, p, ptx_mul(b, e->c[2 * k], e->g));
    e->new_p = p;
}

static const struct ptx_rule_params others_params = {
    .name = "others",
    .scalars = { { "a" },
                 { "eps" },
                 { "b" },
                 { "c" },
                 { "d" },
                 { "lr" },
                 { "e" },
                 { "f" },
                 { "g" },
                 { "h", PTX_RULE_RANGE_UP_TO_1 } },
    .once = others_once,
    .update = others_update,
};

TEST(test_scalars)
{
    const struct ptx_step_hyper hyper = { .lr = 64,
                                          .eps = 2,
                                          .more = { 1, 4, 8, 16, 32, 128, 256, 0.5 } };
    OWNED(ptx_rule) *rule = create(&others_params);
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 4096);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor tensor = {
        .parameter = at, .gradient = at + 256, .step = at + 512, .count = 1, .dtype = PTX_F32
    };
    struct ptx_step_group group = { .own_rule = rule, .hyper = hyper };
    const struct ptx_step_params params = { ONE_TENSOR(tensor, group), .max_norm = INFINITY,
                                            .stream = gpu.stream };
    float sent[129] = { [0] = 4096, [64] = 1 }, back;
    const float rate = 0.5f;
    struct ptx_step_description d;

    assert_int_equal(ptx_rule_get_info(rule)->scalars, OTHERS);
    assert_int_equal(ptx_rule_get_info(rule)->coefficients, OTHERS);
    assert_false(ptx_rule_get_info(rule)->quick);
    assert_int_equal(ptx_rule_get_info(rule)->place[0], 8);
    assert_int_equal(ptx_rule_get_info(rule)->place[5], 0);
    require(ptx_step_describe(&params, &d));
    assert_true(d.registers == 0 && d.local == 0 && !d.warning);
    for (unsigned turn = 0; turn < 3; turn++) { // the plan's own, the caller's, and the caller's lr
        group.hyper_at = turn == 1 ? at + 1024 : 0;
        group.lr_at = turn == 2 ? at + 2048 : 0;
        require(ptx_buffer_upload(memory, 0, sent, sizeof sent, gpu.stream));
        require(ptx_buffer_upload(memory, 1024, &hyper, sizeof hyper, gpu.stream));
        require_done(ptx_buffer_upload(memory, 2048, &rate, sizeof rate, gpu.stream));
        OWNED(ptx_step_plan) *plan = step_create(&params);
        require(ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, &back, sizeof back, gpu.stream));
        assert_true(back == (turn == 2 ? 3648.0f : 3584.5f));
        require(ptx_step_plan_describe(plan, &d));
        assert_true(d.launches == 3 && d.registers > 0 && d.local == 0 && !d.warning);
        expect_refused(ptx_step_plan_describe(plan, NULL), "description is NULL");
    }
    expect_refused(ptx_step_plan_describe(NULL, &d), "plan is NULL");
    // What a driver's compiler may say of a kernel.
    ptxp_step_describe_kernel(&(struct ptx_function_info) { .registers = 255, .local = 40 }, &d);
    ptxp_step_describe_kernel(&(struct ptx_function_info) { .registers = 32 }, &d);
    assert_true(d.registers == 255 && d.local == 40);
    assert_non_null(strstr(d.warning, "local memory"));
    group.lr_at = 0;
    group.hyper.more[7] = 2;
    expect_refused(ptx_step_describe(&params, &d), "group 0: h is 2; it must be from 0 to 1");
    group.hyper.more[7] = 0;
    group.hyper.beta1 = 0.5;
    expect_refused(ptx_step_describe(&params, &d),
                   "group 0: beta1 is 0.5; its rule, others, has no such scalar: make it 0");
    group.hyper.beta1 = 0;
    group.nesterov = true;
    expect_refused(ptx_step_describe(&params, &d), "own_rule is given, and so is nesterov");
    group.nesterov = false;
    group.rule = PTX_STEP_RULE_LION;
    expect_refused(ptx_step_describe(&params, &d), "own_rule is given, and so is rule: make it 0");
    group.rule = PTX_STEP_RULE_ADAMW;
    tensor.state[0] = at + 3072;
    expect_refused(ptx_step_describe(&params, &d),
                   "tensor 0: state[0] is given, and its rule, others, has 0 states: make it 0");
}

// As many scalars as a rule has, none with a name of struct ptx_step_hyper: p = p - (2^k of those
// that are set) * g.
static void sixteen_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    ptx_val sum = clock->scalar[0];

    for (unsigned k = 1; k < PTX_STEP_MAX_SCALARS; k++)
        sum = ptx_fma(b, clock->scalar[k], ptx_f64(1 << k), sum);
    clock->c[0] = sum;
}

static void sixteen_update(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, e->c[0], e->g));
}

TEST(test_sixteen_scalars)
{
    struct ptx_rule_params params = { .name = "sixteen",
                                      .once = sixteen_once,
                                      .update = sixteen_update };
    char names[PTX_STEP_MAX_SCALARS][8];
    struct ptx_step_hyper hyper = { .lr = 0 };
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 4096);
    const CUdeviceptr at = ptx_buffer_address(memory);
    const CUdeviceptr hyper_at = at + 4096 - sizeof hyper;
    struct ptx_step_tensor tensor = {
        .parameter = at, .gradient = at + 256, .step = at + 512, .count = 1, .dtype = PTX_F32
    };
    const float sent[129] = { [0] = 65536, [64] = 1 };
    float back;

    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS; k++) {
        snprintf(names[k], sizeof names[k], "s%u", k);
        params.scalars[k].name = names[k];
        hyper.more[k] = k % 3 != 0;
    }
    OWNED(ptx_rule) *rule = create(&params);
    assert_int_equal(ptx_rule_get_info(rule)->place[15], 23);
    struct ptx_step_group group = { .own_rule = rule, .hyper = hyper };
    const struct ptx_step_params step = { ONE_TENSOR(tensor, group), .max_norm = INFINITY,
                                          .stream = gpu.stream };
    group.hyper_at = hyper_at + 8;
    expect_no_step(&step, "group 0's hyper_at");
    for (unsigned turn = 0; turn < 3; turn++) { // at creation, the caller's, and set later
        group.hyper_at = turn == 1 ? hyper_at : 0;
        if (turn == 2)
            memset(&group.hyper, 0, sizeof hyper);
        require(ptx_buffer_upload(memory, 0, sent, sizeof sent, gpu.stream));
        require_done(
            ptx_buffer_upload(memory, 4096 - sizeof hyper, &hyper, sizeof hyper, gpu.stream));
        OWNED(ptx_step_plan) *plan = step_create(&step);
        if (turn == 2)
            require(ptx_step_plan_set_hyper(plan, 0, &hyper, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, &back, sizeof back, gpu.stream));
        assert_true(back == (float)(65536 - 0x6db6)); // 0110 1101 1011 0110: not 0, 3, 6, ...
    }
}

// ---- functions that count their calls -----------------------------------------------------------

// How often each function of a rule was called, and which writes other code from when on.
enum { OF_ONCE, OF_REDUCE, OF_SUMS, OF_UPDATE, FUNCTIONS };
static unsigned times[FUNCTIONS], changes, after;
static bool fails; // and has an error in its place

static bool turns(unsigned function)
{
    return ++times[function] > after && changes == function;
}

static void turning_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    clock->c[0] = ptx_sub(b, clock->scalar[0], ptx_rule_power(b, clock->scalar[0], clock->t));
    if (turns(OF_ONCE))
        clock->c[0] = ptx_mul(b, clock->scalar[0], ptx_f64(2));
}

static void turning_reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val gg = ptx_mul(b, e->g, e->g);

    e->term[0] = turns(OF_REDUCE) ? e->g : gg;
}

static void turning_of_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    ptx_val root = ptx_sqrt(b, s->sum[0]);

    s->c[1] = ptx_max(b, root, ptx_f64(turns(OF_SUMS) ? 2 : 1));
}

static void turning_update(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val share = ptx_rule_div(b, e->g, e->c[1]);
    ptx_val way = ptx_mul(b, share, e->c[0]);

    if (fails && times[OF_UPDATE] >= after)
        way = ptx_mul(b, share, ptx_u32(2));
    e->new_p = ptx_sub(b, e->p, turns(OF_UPDATE) ? share : way);
}

static const struct ptx_rule_params turning = { .name = "turning",
                                                .scalars = { { "lr" } },
                                                .once = turning_once,
                                                .sums = 1,
                                                .reduce = turning_reduce,
                                                .of_sums = turning_of_sums,
                                                .update = turning_update };

static ptx_step_plan *plan_of(const ptx_rule *rule, const ptx_buffer *memory)
{
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor tensor = {
        .parameter = at, .gradient = at + 1024, .step = at + 2048, .count = 100, .dtype = PTX_F32
    };
    struct ptx_step_group group = { .own_rule = rule, .hyper = { .lr = 0.5 } };

    return ptx_step_plan_create(gpu.device,
                                &(struct ptx_step_params) { ONE_TENSOR(tensor, group),
                                                            .max_norm = 1, .stream = gpu.stream });
}

// A rule, or a plan with it, is refused wherever two calls of one text, or of two, write other
// code.
TEST(test_functions_that_count_their_calls)
{
    enum { FEW = 13, CALLS = 60 };
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 4096);

    for (changes = 0; changes < FUNCTIONS; changes++) {
        unsigned refused = 0, plans = 0;
        for (after = 1; after < CALLS; after += after < FEW ? 1 : 7) {
            memset(times, 0, sizeof times);
            OWNED(ptx_rule) *rule = ptx_rule_create(&turning);
            const unsigned created = times[changes];
            assert_true(rule != NULL || created > after);
            if (!rule)
                continue;
            OWNED(ptx_step_plan) *plan = plan_of(rule, memory);
            const bool differs = after > created && after < times[changes];
            if ((plan == NULL) != differs)
                fail_msg("function %u turns after %u calls of %u and %u: the plan is %s", changes,
                         after, created, times[changes], plan ? "created" : "refused");
            if (!plan)
                assert_non_null(
                    strstr(ptx_error_message(), "a function of a rule writes other code"));
            refused += !plan;
            plans += plan != NULL;
        }
        assert_true(refused && plans);
    }
}

// An error in the second text of a plan is an error.
TEST(test_functions_that_fail_later)
{
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 4096);
    unsigned refused = 0, plans = 0;

    fails = true;
    changes = FUNCTIONS;
    for (after = 1; !plans; after++) {
        memset(times, 0, sizeof times);
        OWNED(ptx_rule) *rule = ptx_rule_create(&turning);
        if (!rule)
            continue;
        OWNED(ptx_step_plan) *plan = plan_of(rule, memory);
        assert_true((plan == NULL) == (times[OF_UPDATE] > after));
        refused += !plan;
        plans += plan != NULL;
    }
    fails = false;
    assert_true(refused);
}

// ---- rules as data ------------------------------------------------------------------------------

// p = p - lr * g, m = m + 1; with all of it in a copy that tests change.
static struct ptx_rule_operation once_of[] = {
    { PTX_RULE_SCALAR, .x = 0 },
    { PTX_RULE_SET_COEFFICIENT, .x = 0, .y = 3 },
};
static struct ptx_rule_operation update_of[] = {
    { PTX_RULE_P },
    { PTX_RULE_G },
    { PTX_RULE_COEFFICIENT, .x = 3 },
    { PTX_RULE_MUL, .x = 2, .y = 1 },
    { PTX_RULE_SUB, .x = 0, .y = 3 },
    { PTX_RULE_SET_P, .x = 4 },
    { PTX_RULE_STATE, .x = 0 },
    { PTX_RULE_NUMBER, .number = 1 },
    { PTX_RULE_ADD, .x = 6, .y = 7 },
    { PTX_RULE_SET_STATE, .x = 8, .y = 0 },
};
enum { ONCE = sizeof once_of / sizeof *once_of, UPDATE = sizeof update_of / sizeof *update_of };

TEST(test_program)
{
    const struct ptx_rule_program program = { once_of, update_of, ONCE, UPDATE };
    OWNED(ptx_rule) *rule = create(&(struct ptx_rule_params) {
        .name = "mine", .states = { { "m" } }, .scalars = { { "lr" } }, .program = &program });
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, 1024);
    const CUdeviceptr at = ptx_buffer_address(memory);
    const struct ptx_step_tensor tensor = { .parameter = at,
                                            .gradient = at + 256,
                                            .state = { at + 512 },
                                            .step = at + 768,
                                            .count = 1,
                                            .dtype = PTX_F32 };
    const struct ptx_step_group group = { .own_rule = rule, .hyper = { .lr = 0.5 } };
    float cells[193] = { [0] = 8, [64] = 4, [128] = 2 };

    require(ptx_buffer_upload(memory, 0, cells, sizeof cells, gpu.stream));
    update_of[3].op = PTX_RULE_ADD; // the rule has a copy
    OWNED(ptx_step_plan) *plan = step_create(&(struct ptx_step_params) {
        ONE_TENSOR(tensor, group), .max_norm = 100, .stream = gpu.stream });
    update_of[3].op = PTX_RULE_MUL;
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, cells, sizeof cells, gpu.stream));
    assert_true(cells[0] == 6.0f && cells[128] == 3.0f && cells[192] == 1.0f);
}

// p - lr * g / (the root of the sum of g * g).
TEST(test_program_with_sums)
{
    static const struct ptx_rule_operation once[] = {
        { PTX_RULE_SCALAR, .x = 0 },
        { PTX_RULE_SET_COEFFICIENT, .x = 0, .y = 0 },
    };
    static struct ptx_rule_operation reduce[] = {
        { PTX_RULE_G },
        { PTX_RULE_MUL, .x = 0, .y = 0 },
        { PTX_RULE_SET_TERM, .x = 1, .y = 0 },
    };
    static struct ptx_rule_operation of_sums[] = {
        { PTX_RULE_SUM, .x = 0 },
        { PTX_RULE_SQRT, .x = 0 },
        { PTX_RULE_COEFFICIENT, .x = 0 },
        { PTX_RULE_DIV, .x = 2, .y = 1 },
        { PTX_RULE_SET_COEFFICIENT, .x = 3, .y = 1 },
    };
    static const struct ptx_rule_operation update[] = {
        { PTX_RULE_P },
        { PTX_RULE_G },
        { PTX_RULE_COEFFICIENT, .x = 1 },
        { PTX_RULE_MUL, .x = 2, .y = 1 },
        { PTX_RULE_SUB, .x = 0, .y = 3 },
        { PTX_RULE_SET_P, .x = 4 },
    };
    struct ptx_rule_program program = { .once = once,
                                        .update = update,
                                        .once_count = 2,
                                        .update_count = 6,
                                        .reduce = reduce,
                                        .of_sums = of_sums,
                                        .reduce_count = 3,
                                        .of_sums_count = 5 };
    struct ptx_rule_params params = {
        .name = "mine", .scalars = { { "lr" } }, .sums = 1, .program = &program
    };
    ptx_rule *rule = create(&params);
    ptx_buffer *memory = ptx_buffer_create(gpu.device, 768);
    const CUdeviceptr at = ptx_buffer_address(memory);
    const struct ptx_step_tensor tensor = {
        .parameter = at, .gradient = at + 256, .step = at + 512, .count = 2, .dtype = PTX_F32
    };
    const struct ptx_step_group group = { .own_rule = rule, .hyper = { .lr = 0.5 } };
    float cells[129] = { [0] = 8, [1] = 7, [64] = 3, [65] = -4 };

    require(ptx_buffer_upload(memory, 0, cells, sizeof cells, gpu.stream));
    ptx_step_plan *plan = step_create(&(struct ptx_step_params) {
        ONE_TENSOR(tensor, group), .max_norm = 100, .stream = gpu.stream });
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, cells, sizeof cells, gpu.stream));
    assert_true(cells[0] == 8 - 0.1f * 3 && cells[1] == 7 + 0.1f * 4);
    ptx_step_plan_destroy(&plan);
    ptx_buffer_destroy(&memory);
    ptx_rule_destroy(&rule);

    reduce[2].y = 1;
    expect_no_rule(&params, "operation 2 of reduce, SET_TERM, has the index 1; it must be below 1");
    reduce[2] = (struct ptx_rule_operation) { PTX_RULE_NEG, .x = 1 };
    expect_no_rule(&params, "rule mine: reduce does not set term[0]");
    reduce[2] = (struct ptx_rule_operation) { PTX_RULE_SET_P, .x = 1 };
    expect_no_rule(&params, "operation 2 of reduce is SET_P, which is not for it");
    of_sums[0].op = PTX_RULE_SCALAR;
    reduce[2] = (struct ptx_rule_operation) { PTX_RULE_SET_TERM, .x = 1 };
    expect_no_rule(&params, "operation 0 of of_sums is SCALAR, which is not for it");
    of_sums[0].op = PTX_RULE_SUM;
    program.of_sums_count = 0;
    expect_no_rule(&params, "sums is 1, reduce is given and of_sums is NULL: a rule has all three");
    program.of_sums_count = 5;
    params.sums = 0;
    expect_no_rule(&params, "sums is 0, reduce is given and of_sums is given");
}

TEST(test_program_refused)
{
    static const struct {
        const char *words;
        uint32_t at;
        struct ptx_rule_operation op;
    } wrong[] = {
        { "operation 3 of update is 99; there are 0 to", 3, { (ptx_rule_op)99 } },
        { "operation 3 of update is SCALAR, which is not for it", 3, { PTX_RULE_SCALAR } },
        { "operation 3 of update is TRUNC, which is not for it", 3, { PTX_RULE_TRUNC } },
        { "operation 3 of update, MUL, takes the result of 3, which is not before it",
          3,
          { PTX_RULE_MUL, 2, 3 } },
        { "operation 3 of update, SELECT, takes the result of 0, P, which is no predicate",
          3,
          { PTX_RULE_SELECT, 0, 1, 2 } },
        { "operation 6 of update, ABS, takes the result of 5, SET_P, which is no value",
          6,
          { PTX_RULE_ABS, 5 } },
        { "operation 6 of update, STATE, has the index 1; it must be below 1",
          6,
          { PTX_RULE_STATE, 1 } },
        { "operation 2 of update, COEFFICIENT, has the index 32; it must be below 32",
          2,
          { PTX_RULE_COEFFICIENT, 32 } },
        { "ptx_mul: x was never set", 2, { PTX_RULE_COEFFICIENT, 4 } },
        { "rule mine: update does not set new_p", 5, { PTX_RULE_NEG, 4 } },
        { "rule mine: update does not set new_state[0], m", 9, { PTX_RULE_NEG, 4 } },
    };
    struct ptx_rule_program program = { once_of, update_of, ONCE, UPDATE };
    struct ptx_rule_params params = {
        .name = "mine", .states = { { "m" } }, .scalars = { { "lr" } }, .program = &program
    };

    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const struct ptx_rule_operation was = update_of[wrong[k].at];
        update_of[wrong[k].at] = wrong[k].op;
        expect_no_rule(&params, wrong[k].words);
        update_of[wrong[k].at] = was;
    }
    program.update_count = PTX_RULE_MAX_OPERATIONS + 1;
    expect_no_rule(&params, "update of the program is 1025 operations; 1024 are the most");
    program.update_count = UPDATE;
    program.once = NULL;
    expect_no_rule(&params, "once of the program is 2 operations at NULL");
    program.once = once_of;
    params.once = others_once;
    expect_no_rule(&params, "program is given, and so is once: leave one out");
    params.once = NULL;
    params.states[0] = (struct ptx_rule_state) { "m", .dtype = PTX_BF16, .output = true };
    expect_no_rule(&params, "operation 6 of update reads state m, which is only written");
}

TEST(test_emit)
{
    const ptx_rule *adamw = own_rule_of(&(struct ptx_step_group) { .rule = PTX_STEP_RULE_ADAMW });
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);

    ptx_rule_emit(b, adamw);
    const char *words = ptx_builder_finish(b);
    assert_non_null(words);
    assert_non_null(strstr(words, ".entry own_adamw("));
    assert_non_null(strstr(words, "div.rn.f32"));
    assert_true(ptx_rule_get_info(adamw)->quick);
    ptx_builder_destroy(&b);
    b = ptx_builder_create(NULL);
    ptx_rule_emit(b, NULL);
    assert_non_null(strstr(ptx_builder_error(b), "ptx_rule_emit: rule is NULL"));
}

static void lined_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[0] = clock->scalar[0];
}

enum { UPDATE_LINE = __LINE__ + 4 }; // of its product

static void lined_update(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, e->c[0], e->g));
}

// With .line_info a rule's instructions have the lines of its functions.
TEST(test_emit_with_lines)
{
    OWNED(ptx_rule) *rule = create(&(struct ptx_rule_params) {
        .name = "lined", .once = lined_once, .scalars = { { "lr" } }, .update = lined_update });
    OWNED(ptx_builder) *b = ptx_builder_create(&(struct ptx_builder_params) { .line_info = true });
    unsigned file = 0;
    char loc[64];

    ptx_rule_emit(b, rule);
    const char *words = ptx_builder_finish(b), *at = strstr(words ? words : "", "step_own.c\"");
    if (!at)
        fail_msg("%s", words ? words : ptx_builder_error(b));
    while (at > words && strncmp(at, ".file", 5) != 0)
        at--;
    assert_int_equal(sscanf(at, ".file %u", &file), 1);
    snprintf(loc, sizeof loc, ".loc %u %u 0\n", file, (unsigned)UPDATE_LINE);
    at = strstr(words, loc);
    if (!at || strncmp(at += strlen(loc), "    mul", 7) != 0)
        fail_msg("no product of line %u in\n%s", (unsigned)UPDATE_LINE, words);
}

int main(void)
{
    own_rules_create();
    const int failed = gpu_tests_run();
    own_rules_destroy();
    return failed;
}

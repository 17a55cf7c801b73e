// SPDX-License-Identifier: MIT
// Step plans with guards: a skipped step leaves every byte of parameters, states and counts, and
// the loss scale counts a good step; the state goes on from a copy; ranks take one decision; rules
// of the caller's do the same; what creation refuses.
#include <math.h>
#include <string.h>

#include "rules/own.h"
#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

enum {
    STATE = 256, // where it is, behind the loss and skip_at
    BYTES = 8192,
};

static struct step_set set;

static const struct step_shape shape = { ALL_STEPS, .tensors = 7, .groups = 2, .norm_groups = 3,
                                         .most = 700 };

static const struct ref_guards reference = { .groups = 3,
                                             .length = 8,
                                             .deviations = 1,
                                             .has_loss = true,
                                             .group = -1,
                                             .adagc_warmup = 4,
                                             .lambda_abs = 1,
                                             .lambda_rel = 1.05,
                                             .beta = 0.98 };

static ptx_buffer *inputs_create(void)
{
    ptx_buffer *memory = made(ptx_buffer_create(gpu.device, BYTES));
    require(ptx_buffer_fill(memory, 0, 0, BYTES, gpu.stream));
    return memory;
}

static struct ptx_guard_params guards_of(CUdeviceptr memory)
{
    return (struct ptx_guard_params) {
        .skip_at = memory + 4,
        .history = { .length = 8, .deviations = 1, .loss_at = memory },
        .adagc = { .warmup = 4 },
        .state = memory + STATE,
        .state_bytes = 2048,
    };
}

static void set_inputs(ptx_buffer *memory, struct random *r, unsigned step)
{
    const float values[] = { step % 5 == 4 ? 9.0f : (float)(1 + 0.1 * random_unit(r)),
                             step % 7 == 3 ? 2.0f : 0.0f };

    set.loss = values[0];
    set.given = values[1];
    require_done(ptx_buffer_upload(memory, 0, values, sizeof values, gpu.stream));
}

static void check_state(ptx_buffer *memory, const struct ref_guard_state *expected)
{
    unsigned char is[BYTES], must[BYTES];
    const size_t bytes = ref_guard_bytes(&reference, expected, must);
    const struct ptx_guard_params guards = guards_of(ptx_buffer_address(memory));

    assert_int_equal(bytes, ptx_guard_state_bytes(&guards, reference.groups));
    require_done(ptx_buffer_download(memory, STATE, is, bytes, gpu.stream));
    assert_memory_equal(is, must, bytes);
}

// `own`: bits of the groups that have a rule of the caller's. More than 24 steps are replays.
static void check_steps(struct random *r, const struct step_shape *of, ptx_step_gradients gradients,
                        unsigned own, unsigned steps)
{
    struct ptx_step_group groups[STEP_MOST_GROUPS];
    static const struct ptx_loss_scale_params update = { .interval = 3 };
    struct ref_guard_state state = { .counts = { 0 } };
    struct ptx_loss_scale_state scale = { .scale = 8 };
    struct ptx_clip_summary summary;
    unsigned skips = 0;

    step_set_create(&set, r, of);
    set.gradients = gradients;
    set.guards = &reference;
    set.guard_state = &state;
    OWNED(ptx_buffer) *memory = inputs_create();
    const struct ptx_guard_params guards = guards_of(ptx_buffer_address(memory));
    struct ptx_step_params params = step_set_params(&set);
    own_groups(&set, own, groups);
    params.groups = groups;
    params.guards = &guards;
    params.loss_scale = scale.scale;
    params.update = &update;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    for (unsigned step = 0; step < steps; step++) {
        set_inputs(memory, r, step);
        step_set_gradients(&set, r, step % 37 == 13 ? INFINITY : 0);
        const float used = scale.scale;
        skips += step_set_expect(&set, &params, used);
        const bool found = state.skipped == REF_SKIP_FOUND_INF;
        plan_run((struct any_plan) { .step = plan },
                 steps > 24 ? REPLAYED : (enum plan_form)(step % 3), graph);
        step_set_check(&set, "guards");
        check_state(memory, &state);
        ref_loss_scale_update(&scale.scale, &scale.growth_tracker, found,
                              (struct ref_loss_scale) { 2, 0.5f, 3, 0, INFINITY, 1 });
        require_done(ptx_step_plan_read(plan, 0, 0, NULL, &summary, gpu.stream));
        assert_true(summary.found_inf == (found ? 1.0f : 0.0f));
        assert_memory_equal(&summary.state, &scale, sizeof scale);
        // Another plan goes on with the state.
        if (step == 10) {
            ptx_graph_destroy(&graph);
            ptx_step_plan_destroy(&plan);
            params.loss_scale = scale.scale;
            plan = step_create(&params);
            require(ptx_step_plan_set_loss_scale(plan, scale, gpu.stream));
            graph = plan_capture((struct any_plan) { .step = plan });
        }
    }
    assert_true(skips > steps / 8 && skips < steps * 5 / 6 && state.counts[REF_SKIP_HISTORY]);
}

TEST(test_skips)
{
    struct random r = gpu_random("guards of step plans");

    for (unsigned trial = 0; trial < 6; trial++)
        check_steps(&r, &shape, (ptx_step_gradients)(trial % 3), trial < 3 ? 0 : trial - 2, 24);
}

TEST(test_replays)
{
    struct random r = gpu_random("1,000 steps of one graph");

    check_steps(&r, &shape, PTX_STEP_GRADIENTS_RAW, 1, 1000);
}

TEST(test_replays_of_matrices)
{
    struct step_shape matrices = shape;
    struct random r = gpu_random("steps of a graph with matrices");

    matrices.rules = 1 << PTX_STEP_RULE_MUON | 1 << PTX_STEP_RULE_ADAMW;
    matrices.groups = 3;
    matrices.tensors = 4;
    matrices.most = 300;
    check_steps(&r, &matrices, PTX_STEP_GRADIENTS_RAW, 0, SANITIZED ? 40 : 100);
}

// A plan without a limit takes a norm if a guard needs it; skip_at alone does not.
TEST(test_norm_is_taken)
{
    struct random r = gpu_random("guards and no limit");
    struct ptx_guard_params guards = { .skip_at = 16 };
    struct ptx_step_description none, needed;

    step_set_create(&set, &r, &shape);
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = INFINITY;
    params.guards = &guards;
    require(ptx_step_describe(&params, &none));
    guards.limit = 3;
    require(ptx_step_describe(&params, &needed));
    assert_true(needed.bytes > none.bytes);
}

// skip_at alone, where nothing else needs a norm: what ptxgen.torch's optimizers do.
TEST(test_given)
{
    static const struct ref_guards given = { .groups = 3, .group = -1 };
    struct random r = gpu_random("a skip that is given");
    struct ref_guard_state expected = { .counts = { 0 } };
    float found_inf = 0;

    step_set_create(&set, &r, &shape);
    OWNED(ptx_buffer) *memory = inputs_create();
    const struct ptx_guard_params guards = { .skip_at = ptx_buffer_address(memory) + 4 };
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = INFINITY;
    params.guards = &guards;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    set.guards = &given;
    set.guard_state = &expected;
    for (unsigned step = 0; step < 8; step++) {
        set_inputs(memory, &r, step);
        step_set_gradients(&set, &r, 0);
        assert_true(step_set_expect(&set, &params, 1) == (step % 7 == 3));
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "a skip that is given");
    }
    require_done(ptx_address_download(gpu.device,
                                      ptx_step_plan_get_info(plan)->guard_state +
                                          offsetof(struct ptx_guard_state, skipped),
                                      &found_inf, sizeof found_inf, gpu.stream));
    assert_true(found_inf == (float)PTX_GUARD_SKIP_NONE);
}

// Two ranks share the sums, through rows, and have a state each: they stay equal.
TEST(test_ranks)
{
    enum { RANKS = 2, GROUPS = 3, SUMS = 4096 };
    struct random r = gpu_random("guards of ranks");
    ptx_step_plan *plan[RANKS];
    ptx_buffer *memory[RANKS];
    unsigned char bytes[RANKS][1024];
    unsigned skips = 0;

    step_set_create(&set, &r, &shape);
    for (size_t rank = 0; rank < RANKS; rank++)
        memory[rank] = inputs_create();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct ptx_guard_params guards = guards_of(ptx_buffer_address(memory[rank]));
        struct ptx_step_params params = step_set_params(&set);
        set.stages = RANKS;
        params.tensors = set.tensors + step_set_first(&set, rank);
        params.tensor_count = step_set_first(&set, rank + 1) - step_set_first(&set, rank);
        params.norm_group_count = GROUPS;
        params.guards = &guards;
        params.sums_at = ptx_buffer_address(memory[0]) + SUMS;
        params.sum_rows = RANKS;
        params.sum_row = rank;
        plan[rank] = step_create(&params);
    }
    struct ref_guard_state expected = { .counts = { 0 } };
    set.guards = &reference;
    set.guard_state = &expected;
    const struct ptx_step_params params = step_set_params(&set);
    for (unsigned step = 0; step < 16; step++) {
        set_inputs(memory[0], &r, step);
        require(ptx_buffer_copy(memory[1], 0, memory[0], 0, 8, gpu.stream));
        step_set_gradients(&set, &r, step == 9 ? NAN : 0);
        skips += step_set_expect(&set, &params, 1);
        for (size_t rank = 0; rank < RANKS; rank++)
            require(ptx_step_plan_norm_sq(plan[rank], gpu.stream));
        for (size_t rank = 0; rank < RANKS; rank++)
            require(ptx_step_plan_finish(plan[RANKS - 1 - rank], gpu.stream));
        for (size_t rank = 0; rank < RANKS; rank++)
            require(ptx_step_plan_step(plan[rank], gpu.stream));
        step_set_check(&set, "ranks");
        for (size_t rank = 0; rank < RANKS; rank++) {
            check_state(memory[rank], &expected);
            require(ptx_buffer_download(memory[rank], STATE, bytes[rank], sizeof bytes[rank],
                                        gpu.stream));
        }
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
        assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
    }
    assert_true(skips > 1);
    for (size_t rank = 0; rank < RANKS; rank++) {
        ptx_step_plan_destroy(&plan[rank]);
        ptx_buffer_destroy(&memory[rank]);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

static void expect_guards(const struct ptx_guard_params *guards, const char *words)
{
    struct ptx_step_params params = step_set_params(&set);
    struct ptx_step_description description;

    params.guards = guards;
    expect_refused(ptx_step_describe(&params, &description), words);
    expect_no_step(&params, words);
    if (!guards->state && !guards->skip_at) {
        assert_int_equal(ptx_guard_state_bytes(guards, 3), 0);
        expect_failure(PTX_ERROR_INVALID, words);
    }
}

#define REFUSED(words, ...) expect_guards(&(struct ptx_guard_params) { __VA_ARGS__ }, words)

TEST(test_refused)
{
    struct random r = gpu_random("guards that are refused");

    step_set_create(&set, &r, &shape);
    REFUSED("guards.limit is nan; it must be above 0", .limit = NAN);
    REFUSED("guards.limit is -1; it must be above 0", .limit = -1);
    REFUSED("guards.history.length is 5; it must be 6 to 65536", .history.length = 5);
    REFUSED("guards.history.length is 65537; it must be 6 to 65536", .history.length = 65537);
    REFUSED("guards.history has a loss_at, and its length is 0", .history.loss_at = 16);
    REFUSED("guards.history.deviations is -6; it must be finite and above 0",
            .history = { .length = 6, .deviations = -6 });
    REFUSED("guards.history.deviations is nan", .history = { .length = 6, .deviations = NAN });
    REFUSED("guards.history.group is 3; there are groups 0 to 2",
            .history = { .length = 6, .one_group = true, .group = 3 });
    REFUSED("guards.history.group is 1, and one_group is not set",
            .history = { .length = 6, .group = 1 });
    REFUSED("guards.history has fields that are not 0, and its length is 0",
            .history.deviations = 6);
    REFUSED("guards.history has fields that are not 0", .history.most_skips = 1);
    REFUSED("guards.history has fields that are not 0", .history.one_group = true);
    REFUSED("guards.history has fields that are not 0", .history.group = 1);
    REFUSED("guards.zclip has fields that are not 0, and its warmup is 0", .zclip.alpha = 0.9);
    REFUSED("guards.zclip has fields that are not 0", .zclip.z_most = 2);
    REFUSED("guards.adagc has fields that are not 0, and its warmup is 0", .adagc.lambda_abs = 1);
    REFUSED("guards.adagc has fields that are not 0", .adagc.lambda_rel = 1);
    REFUSED("guards.adagc has fields that are not 0", .adagc.beta = 0.9);
    REFUSED("guards.zclip.alpha is 1; it must be above 0 and below 1",
            .zclip = { .warmup = 25, .alpha = 1 });
    REFUSED("guards.zclip.z_most is inf", .zclip = { .warmup = 25, .z_most = INFINITY });
    REFUSED("guards.adagc.lambda_abs is -1", .adagc = { .warmup = 100, .lambda_abs = -1 });
    REFUSED("guards.adagc.lambda_rel is nan", .adagc = { .warmup = 100, .lambda_rel = NAN });
    REFUSED("guards.adagc.beta is 2", .adagc = { .warmup = 100, .beta = 2 });
    REFUSED("guards has zclip and adagc: give one of them", .zclip.warmup = 25,
            .adagc.warmup = 100);
    REFUSED("guards.state has 127 bytes, and these guards need 128", .state = 256,
            .state_bytes = 127);
    REFUSED("guards.state is 0x104; it must be a multiple of 8", .state = 260, .state_bytes = 128);
    REFUSED("guards.skip_at is 0x2; it must be a multiple of 4", .skip_at = 2);
    float one;
    expect_refused(ptx_address_download(gpu.device, 0, &one, sizeof one, gpu.stream),
                   "ptx_address_download: address is 0");
    expect_refused(ptx_address_download(gpu.device, 16, NULL, sizeof one, gpu.stream),
                   "ptx_address_download: target is NULL");
    require(ptx_address_download(gpu.device, 0, NULL, 0, gpu.stream));
    assert_int_equal(ptx_guard_state_bytes(NULL, 1), 0);
    expect_failure(PTX_ERROR_INVALID, "ptx_guard_state_bytes: guards is NULL");
    assert_int_equal(ptx_guard_state_bytes(&(struct ptx_guard_params) { 0 }, 0), 0);
    expect_failure(PTX_ERROR_INVALID, "groups is 0; a plan has 1 to 1048576");
}

static void refused_memory(struct ptx_guard_params guards, const char *words)
{
    struct ptx_step_params params = step_set_params(&set);

    params.guards = &guards;
    expect_no_step(&params, words);
}

#undef REFUSED
#define REFUSED(words, ...) CHANGED(guards, refused_memory(guards, words), __VA_ARGS__)

// Memory that is too small, overlaps, or has the state of other guards.
TEST(test_refused_memory)
{
    struct random r = gpu_random("memory of guards that is refused");
    const uint32_t headers[][4] = {
        { 2, 8, 3, 6 }, { 1, 16, 3, 6 }, { 1, 8, 2, 6 }, { 1, 8, 3, 2 }, { 1, 8, 0, 4 }
    };
    const char *const words[] = {
        "guards.state is of version 2", "that of a history of length 16, and history.length is 8",
        "rule 2 of 2 groups and losses, and the plan rule 2 of 3 and losses",
        "rule 2 of 3 groups, and the plan rule 2 of 3 and losses",
        "rule 0 of 0 groups and losses, and the plan rule 2 of 3"
    };

    do
        step_set_create(&set, &r, &shape);
    while (!set.tensors[0].count);
    OWNED(ptx_buffer) *memory = inputs_create();
    const CUdeviceptr base = ptx_buffer_address(memory);
    struct ptx_guard_params guards = guards_of(base);
    for (size_t k = 0; k < 5; k++) {
        require_done(ptx_buffer_upload(memory, STATE, headers[k], sizeof headers[k], gpu.stream));
        refused_memory(guards, words[k]);
    }
    REFUSED("guards.state: it has 8192 bytes, and its memory ends", guards.state_bytes = BYTES);
    REFUSED("guards.state and guards.skip_at overlap", guards.skip_at = guards.state + 64);
    REFUSED("overlap", guards.state = set.tensors[0].step / 8 * 8, guards.state_bytes = 1024);
    // Of three groups.
    REFUSED("guards.limits_at: 3 elements are 12 bytes, and its memory ends",
            guards.limits_at = base + BYTES - 8);
    REFUSED("guards.state and guards.limits_at overlap", guards.limits_at = guards.state + 96);
    guards.history.loss_at = set.tensors[0].parameter / 4 * 4;
    refused_memory(guards, "tensor 0's parameter and guards.history.loss_at overlap");
}

int main(void)
{
    own_rules_create();
    const int failed = gpu_tests_run();
    own_rules_destroy();
    return failed;
}

// SPDX-License-Identifier: MIT
// Step plans on a GPU, or on the emulator, compared with plain C: every rule in every format.
#define _POSIX_C_SOURCE 200809L // setenv()
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

enum { ALL_AVERAGES = 1 << PTX_NONE | 1 << PTX_F32 | 1 << PTX_BF16 };

// Some steps, each compared with the reference: in one run, in phases, or by a graph.
static void check_steps(struct step_set *set, struct random *r, struct ptx_step_params params,
                        unsigned steps)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    char what[64];

    for (unsigned step = 0; step < steps; step++) {
        step_set_gradients(set, r, 0);
        step_set_expect(set, &params, params.loss_scale != 0 ? params.loss_scale : 1);
        const struct any_plan any = { .step = plan };
        ptx_graph *graph = plan_capture(any);
        plan_run(any, (enum plan_form)(step % 3), graph);
        snprintf(what, sizeof what, "step %u", step + 1);
        step_set_check(set, what); // waits for the stream
        ptx_graph_destroy(&graph);
        if (step == steps / 2) { // as from a checkpoint: the caller's memory has the whole state
            ptx_step_plan_destroy(&plan);
            plan = step_create(&params);
        }
    }
}

static void check_shape(struct random *r, const struct step_shape *shape, unsigned trial)
{
    static struct step_set set;

    step_set_create(&set, r, shape);
    set.gradients = (ptx_step_gradients)(trial % 3);
    struct ptx_step_params params = step_set_params(&set);
    params.loss_scale = trial % 4 == 1 ? 8.0f : 0.0f;
    check_steps(&set, r, params, 4);
}

// A set of one tensor for each rule and format, aligned and misaligned.
TEST(test_each)
{
    struct random r = gpu_random("each rule and format");

    for (unsigned rule = 0; rule < STEP_RULES; rule++) {
        for (unsigned format = rule % SANITIZED_EVERY(4); format < PTX_STEP_FORMAT_COUNT;
             format += SANITIZED_EVERY(4)) {
            const struct step_shape shape = { .tensors = 3,
                                              .most = 5000,
                                              .rules = 1u << rule,
                                              .formats = 1u << format,
                                              .aligned = (rule + format) % 2 };
            check_shape(&r, &shape, rule);
        }
    }
}

// The same with an average of the weights, in f32 and in bf16.
TEST(test_averages)
{
    static const ptx_type types[] = { PTX_F32, PTX_BF16 };
    struct random r = gpu_random("averages");

    for (unsigned k = 0; k < 2 * STEP_RULES * PTX_STEP_FORMAT_COUNT; k += SANITIZED_EVERY(11)) {
        const unsigned rule = k / 2 % STEP_RULES, format = k / 2 / STEP_RULES;
        const struct step_shape shape = { .tensors = 2,
                                          .most = 3001,
                                          .rules = 1u << rule,
                                          .formats = 1u << format,
                                          .averages = 1u << types[k % 2],
                                          .aligned = (rule + format) % 2,
                                          .sharded = k % 3 == 0 };
        check_shape(&r, &shape, k);
    }
}

TEST(test_random_sets)
{
    struct random r = gpu_random("step sets");

    for (unsigned trial = 0; trial < 12; trial += SANITIZED_EVERY(7)) {
        const struct step_shape shape = { ALL_STEPS,
                                          .tensors = 1 + random_below(&r, 12),
                                          .groups = 1 + random_below(&r, 4),
                                          .norm_groups = 1 + random_below(&r, 3),
                                          .most = trial % 4 == 3 ? 20000 : 3000,
                                          .averages = trial % 4 == 2 ? ALL_AVERAGES : 0,
                                          .aligned = trial % 2,
                                          .sharded = trial % 3 == 0,
                                          .absent = trial % 3 == 1 };
        check_shape(&r, &shape, trial);
    }
}

// So many small tensors that they share chunks of the norm, and blocks have few threads: with and
// without gradients, of one type and of several.
TEST(test_small_tensors)
{
    const uint32_t full = 1u << PTX_STEP_FORMAT_FULL, stochastic = 1u << PTX_STEP_FORMAT_STOCHASTIC;
    const uint32_t blocks = 1u << PTX_STEP_FORMAT_STATE_8BIT | 1u << PTX_STEP_FORMAT_MASTER_24BIT;
    const uint32_t formats[] = { full, stochastic, full | stochastic, full | blocks };
    const uint64_t most[] = { 300, 500, 1100, 60 };
    struct random r = gpu_random("small tensors");

    for (unsigned trial = 0; trial < 4; trial += SANITIZED_EVERY(3)) {
        const struct step_shape shape = { .tensors = STEP_MOST_TENSORS,
                                          .groups = 2,
                                          .norm_groups = 1 + trial % 2,
                                          .most = most[trial],
                                          .rules =
                                              trial == 3 ? ALL_RULES : 1u << PTX_STEP_RULE_ADAMW,
                                          .formats = formats[trial],
                                          .aligned = trial != 2,
                                          .absent = trial != 1 };
        static struct step_set small_set;
        step_set_create(&small_set, &r, &shape);
        small_set.gradients = (ptx_step_gradients)(trial % 3);
        check_steps(&small_set, &r, step_set_params(&small_set), 2);
    }
}

// Quotients and roots of every size, where the short sequences of ptxk_quick do not always hold.
TEST(test_wild)
{
    struct random r = gpu_random("wild steps");

    for (unsigned format = 0; format < PTX_STEP_FORMAT_COUNT; format++) {
        for (unsigned trial = format % SANITIZED_EVERY(3); trial < 3; trial += SANITIZED_EVERY(3)) {
            const struct step_shape shape = { .tensors = 6,
                                              .groups = 2,
                                              .most = 3000,
                                              .rules = trial == 2 ? ALL_RULES
                                                                  : 1u << PTX_STEP_RULE_ADAMW |
                                                                        1u << PTX_STEP_RULE_ADAM,
                                              .formats = 1u << format,
                                              .averages = trial ? ALL_AVERAGES : 0,
                                              .aligned = true,
                                              .wild = true };
            check_shape(&r, &shape, trial);
        }
    }
}

// So many elements that a thread takes several vectors.
TEST(test_several_vectors)
{
    const uint32_t formats[] = { 1u << PTX_STEP_FORMAT_STOCHASTIC, ALL_FORMATS,
                                 1u << PTX_STEP_FORMAT_STATE_8BIT |
                                     1u << PTX_STEP_FORMAT_STATE_F16 };
    struct random r = gpu_random("several vectors");

    for (unsigned trial = 0; trial < 3; trial += SANITIZED_EVERY(2)) {
        const struct step_shape shape = { .tensors = 6,
                                          .groups = 2,
                                          .most = gpu.max_size > 1000000 ? 1000000 : 20000,
                                          .rules = ALL_RULES,
                                          .formats = formats[trial],
                                          .averages = trial ? ALL_AVERAGES : 0,
                                          .aligned = true,
                                          .sharded = trial == 2 };
        static struct step_set long_set;
        step_set_create(&long_set, &r, &shape);
        check_steps(&long_set, &r, step_set_params(&long_set), 1);
    }
}

static const struct step_shape plain = { ALL_STEPS,        .tensors = 8, .groups = 2,
                                         .norm_groups = 2, .most = 2000, .averages = ALL_AVERAGES };

static struct step_set set;

static void set_up_plain(struct random *r, const char *name)
{
    *r = gpu_random(name);
    step_set_create(&set, r, &plain);
    for (size_t t = 0; t < set.count; t++)
        assert_true(set.tensors[t].gradient != 0);
}

// A step with NaN or infinity writes only records, the loss scale, and zeros where gradients become
// 0. The next step works as usual.
static void check_found_inf(ptx_step_gradients gradients)
{
    static const struct ptx_loss_scale_params update = { .interval = 2 };
    static const float bad[] = { 0, INFINITY, 0, NAN, 0, 0 };
    static const float scales[] = { 64, 32, 32, 16, 16, 32 }; // after each step
    struct random r;
    struct ptx_clip_summary summary;

    set_up_plain(&r, "found_inf");
    set.gradients = gradients;
    struct ptx_step_params params = step_set_params(&set);
    params.loss_scale = 64;
    params.update = &update;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    float scale = params.loss_scale;
    for (unsigned step = 0; step < 6; step++) {
        step_set_gradients(&set, &r, bad[step]);
        step_set_expect(&set, &params, scale);
        require(ptx_step_plan_run(plan, gpu.stream));
        require(ptx_step_plan_read(plan, 0, 0, NULL, &summary, gpu.stream));
        step_set_check(&set, "with NaN and infinity");
        assert_int_equal(summary.found_inf != 0, bad[step] != 0);
        scale = summary.state.scale;
        assert_true(scale == scales[step]);
    }
}

TEST(test_found_inf)
{
    for (int k = PTX_STEP_GRADIENTS_RAW; k <= PTX_STEP_GRADIENTS_ZERO; k++)
        check_found_inf((ptx_step_gradients)k);
}

// Without a limit and an update, there is no norm, and the factor is the inverse of the loss scale.
TEST(test_no_norm)
{
    struct random r;
    struct ptx_clip_record record;

    set_up_plain(&r, "no norm");
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = INFINITY;
    params.loss_scale = 4;
    check_steps(&set, &r, params, 6);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_step_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
    assert_true(record.norm == 0 && record.factor == 0.25f);
    expect_refused(ptx_step_plan_set_max_norm(plan, 0, 1, gpu.stream),
                   "ptx_step_plan_set_max_norm: the plan takes no norm");
}

// Scalars change between replays of a captured step: by the setter, and at the caller's addresses.
TEST(test_scalars)
{
    enum { BYTES = 64 }; // a caller's own scalars
    struct random r;
    struct ptx_step_hyper hyper;
    float lr = 0.25f;

    set_up_plain(&r, "scalars");
    OWNED(ptx_buffer) *own = made(ptx_buffer_create(gpu.device, BYTES + sizeof lr));
    set.group[0].hyper_at = ptx_buffer_address(own);
    set.group[1].lr_at = ptx_buffer_address(own) + BYTES;
    struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    for (unsigned step = 0; step < 4; step++) {
        for (uint32_t g = 0; g < 2; g++) {
            hyper = set.group[g].hyper;
            hyper.lr = (1 + random_below(&r, 50)) / 1000.0;
            hyper.weight_decay = random_below(&r, 10) / 100.0;
            hyper.beta2 = 0.9 + random_below(&r, 9) / 100.0;
            hyper.ema_decay = random_below(&r, 100) / 99.0;
            set.group[g].hyper = hyper;
            if (g == 0)
                require(ptx_buffer_upload(own, 0, &hyper, BYTES, gpu.stream));
            else
                require(ptx_step_plan_set_hyper(plan, 1, &hyper, gpu.stream));
        }
        lr = (float)(step + 1) / 64;
        require(ptx_buffer_upload(own, BYTES, &lr, sizeof lr, gpu.stream));
        set.group[1].hyper.lr = (double)lr;
        step_set_gradients(&set, &r, 0);
        step_set_expect(&set, &params, 1);
        require(ptx_graph_launch(graph, gpu.stream));
        step_set_check(&set, "scalars");
    }
    hyper = set.group[0].hyper;
    expect_refused(ptx_step_plan_set_hyper(plan, 0, &hyper, gpu.stream),
                   "the scalars of group 0 are the caller's");
    hyper = set.group[1].hyper; // its momentum, which cannot change
    hyper.lr = -1;
    expect_refused(ptx_step_plan_set_hyper(plan, 1, &hyper, gpu.stream), "group 1: lr is -1");
    expect_refused(ptx_step_plan_set_hyper(plan, 2, &hyper, gpu.stream),
                   "group is 2; the plan has groups 0 to 1");
    expect_refused(ptx_step_plan_set_hyper(plan, 1, NULL, gpu.stream), "hyper is NULL");
}

// Only the addresses may change. The error names the first other field that differs, and nothing is
// done.
static void other_tensors_are_refused(ptx_step_plan *plan)
{
    const struct ptx_step_tensor *was = &set.tensors[1];
    struct ptx_step_tensor is;

#define OTHER(field, value)                                                                        \
    do {                                                                                           \
        is = *was;                                                                                 \
        is.field = (value);                                                                        \
        expect_refused(ptx_step_plan_set_addresses(plan, 1, 1, &is, gpu.stream),                   \
                       "ptx_step_plan_set_addresses: tensor 1: its " #field " is not");            \
    } while (0)
    OTHER(count, was->count + 1);
    OTHER(dtype, was->dtype == PTX_F32 ? PTX_BF16 : PTX_F32);
    OTHER(gradient_dtype, was->gradient_dtype == PTX_F32 ? PTX_BF16 : PTX_F32);
    OTHER(format, (ptx_step_format)((was->format + 1) % PTX_STEP_FORMAT_COUNT));
    OTHER(ema_dtype, was->ema_dtype == PTX_F32 ? PTX_BF16 : PTX_F32);
    OTHER(group, 1 - was->group);
    OTHER(norm_group, was->norm_group + 1);
    OTHER(weight, 2);
    OTHER(uncounted, !was->uncounted);
    OTHER(id, was->id + 1);
    OTHER(step, was->step + 4);
#undef OTHER
    for (unsigned k = 0; k < 3; k++) {
        is = *was;
        *(k == 0 ? &is.whole.first : k == 1 ? &is.whole.run : &is.whole.stride) += 8;
        expect_refused(ptx_step_plan_set_addresses(plan, 1, 1, &is, gpu.stream),
                       "tensor 1: its whole is not");
    }
    require(ptx_step_plan_set_addresses(plan, 1, 1, was, gpu.stream));
    require(ptx_step_plan_set_addresses(plan, set.count, 0, NULL, gpu.stream));
    expect_refused(ptx_step_plan_set_addresses(plan, 0, 1, NULL, gpu.stream), "tensors is NULL");
    expect_refused(ptx_step_plan_set_addresses(NULL, 0, 1, was, gpu.stream), "the plan is NULL");
    expect_refused(ptx_step_plan_set_addresses(plan, 61, 0, was, gpu.stream),
                   "0 tensors from 61 on: the plan has 60");
    expect_refused(ptx_step_plan_set_addresses(plan, 59, 2, was, gpu.stream),
                   "2 tensors from 59 on: the plan has 60");
    expect_refused(ptx_step_plan_set_addresses(plan, 1, SIZE_MAX, was, gpu.stream),
                   "the plan has 60");
    const CUdeviceptr *gradient = &was->gradient;
    require(ptx_step_plan_set_gradients(plan, set.count, 0, NULL, gpu.stream));
    expect_refused(ptx_step_plan_set_gradients(plan, 0, 1, NULL, gpu.stream), "gradients is NULL");
    expect_refused(ptx_step_plan_set_gradients(NULL, 0, 1, gradient, gpu.stream),
                   "the plan is NULL");
    expect_refused(ptx_step_plan_set_gradients(plan, 59, 2, gradient, gpu.stream),
                   "ptx_step_plan_set_gradients: 2 tensors from 59 on: the plan has 60");
}

static void check_memory(const ptx_buffer *memory, const unsigned char *expected)
{
    ALLOCATED(unsigned char) *got = malloc(set.bytes);

    assert_non_null(got);
    require_done(ptx_buffer_download(memory, 0, got, set.bytes, gpu.stream));
    assert_memory_equal(got, expected, set.bytes);
}

// All arrays move, step counts do not: a step changes the arrays at the new addresses and the
// counts at the old ones.
static void everything_moves(ptx_step_plan *plan, const struct ptx_step_params *params,
                             struct random *r)
{
    ALLOCATED(unsigned char) *before = malloc(set.bytes);
    OWNED(ptx_buffer) *other = ptx_buffer_create(gpu.device, set.bytes);
    const CUdeviceptr here = ptx_buffer_address(set.memory);

    assert_true(before && other);
    step_set_gradients(&set, r, 0);
    memcpy(before, set.host, set.bytes);
    require(ptx_buffer_copy(other, 0, set.memory, 0, set.bytes, gpu.stream));
    const CUdeviceptr by = ptx_buffer_address(other) - here;
    for (size_t t = 0; t < set.count; t++) {
        struct ptx_step_tensor *tensor = &set.tensors[t];
        CUdeviceptr *const arrays[] = { &tensor->parameter, &tensor->gradient, &tensor->beside,
                                        &tensor->state[0],  &tensor->state[1], &tensor->absmax[0],
                                        &tensor->absmax[1], &tensor->ema };
        for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
            *arrays[k] += *arrays[k] ? by : 0;
    }
    require(ptx_step_plan_set_addresses(plan, 0, set.count, set.tensors, gpu.stream));
    step_set_expect(&set, params, 1);
    require(ptx_step_plan_run(plan, gpu.stream));
    for (size_t t = 0; t < set.count; t++) {
        float old, counted;
        memcpy(&old, before + set.step[t], sizeof old);
        memcpy(&counted, set.host + set.step[t], sizeof counted);
        if (old == counted) // shared and swapped already, or nothing was counted
            continue;
        memcpy(before + set.step[t], &counted, sizeof counted);
    }
    check_memory(set.memory, before);
    // The counts at the new addresses are those before the step.
    ALLOCATED(unsigned char) *there = malloc(set.bytes);
    assert_non_null(there);
    require_done(ptx_buffer_download(other, 0, there, set.bytes, gpu.stream));
    for (size_t t = 0; t < set.count; t++)
        memcpy(there + set.step[t], set.host + set.step[t], sizeof(float));
    assert_memory_equal(there, set.host, set.bytes);
}

// Gradients appear, disappear and move; more tensors than one launch can set.
TEST(test_addresses)
{
    struct random r = gpu_random("step addresses");
    const struct step_shape shape = { ALL_STEPS, .tensors = 60, .groups = 2, .most = 300,
                                      .averages = ALL_AVERAGES };

    step_set_create(&set, &r, &shape);
    struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    CUdeviceptr gradient[STEP_MOST_TENSORS], now[STEP_MOST_TENSORS];
    for (size_t t = 0; t < set.count; t++)
        gradient[t] = set.tensors[t].gradient;
    for (unsigned step = 0; step < 4; step++) {
        for (size_t t = 0; t < set.count; t++)
            now[t] = set.tensors[t].gradient = random_below(&r, 3) ? gradient[t] : 0;
        if (step % 2)
            require(ptx_step_plan_set_gradients(plan, 0, set.count, now, gpu.stream));
        else
            require(ptx_step_plan_set_addresses(plan, 0, set.count, set.tensors, gpu.stream));
        step_set_gradients(&set, &r, 0);
        step_set_expect(&set, &params, 1);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "addresses");
    }
    for (size_t t = 0; t < set.count; t++)
        set.tensors[t].gradient = gradient[t];
    other_tensors_are_refused(plan);
    require(ptx_step_plan_set_addresses(plan, 0, set.count, set.tensors, gpu.stream));
    everything_moves(plan, &params, &r);
}

// ---- states in blocks ---------------------------------------------------------------------------

enum {
    BLOCKS = 7,
    CODES = BLOCKS * 256 - 100,
    AT_GRADIENT = 8192,
    AT_CODES = 16384,
    AT_ABSMAX = AT_CODES + 4096,
    AT_STEP = AT_ABSMAX + 256,
    CODE_BYTES = AT_STEP + 256
};
static unsigned char block_memory[CODE_BYTES], block_got[CODE_BYTES];

// Takes a step of SGD with momentum 1 from t = 2 on, so that m becomes m + g, without a norm.
static void step_momentum(ptx_step_format format, unsigned char memory[CODE_BYTES])
{
    const float steps = 1;
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, CODE_BYTES);
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD, .hyper = { .momentum = 1 } };

    assert_non_null(buffer);
    const CUdeviceptr at = ptx_buffer_address(buffer);
    const struct ptx_step_tensor tensor = { .parameter = at,
                                            .gradient = at + AT_GRADIENT,
                                            .state = { at + AT_CODES },
                                            .absmax = { at + AT_ABSMAX },
                                            .step = at + AT_STEP,
                                            .count = CODES,
                                            .dtype = PTX_F32,
                                            .format = format };
    memcpy(memory + AT_STEP, &steps, sizeof steps);
    require(ptx_buffer_upload(buffer, 0, memory, CODE_BYTES, gpu.stream));
    OWNED(ptx_step_plan) *plan =
        step_create(&(struct ptx_step_params) { ONE_TENSOR(tensor, group), .max_norm = INFINITY });
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(buffer, 0, memory, CODE_BYTES, gpu.stream));
}

// States as another program saves them come back as they are: every code, in a block that has its
// absmax, whatever that is.
TEST(test_codes_are_kept)
{
    static const float absmax[BLOCKS] = { 1, 0x1p-126f, 0x1.fffffep127f, 3e-9f, 0.1f, 77, 1e-20f };

    memset(block_memory, 0, sizeof block_memory);
    memcpy(block_memory + AT_ABSMAX, absmax, sizeof absmax);
    for (unsigned i = 0; i < CODES; i++)
        block_memory[AT_CODES + i] = (unsigned char)(255 - i % 256);
    memcpy(block_got, block_memory, sizeof block_got);
    step_momentum(PTX_STEP_FORMAT_STATE_8BIT, block_got);
    assert_memory_equal(block_got + AT_CODES, block_memory + AT_CODES, CODES);
    assert_memory_equal(block_got + AT_ABSMAX, absmax, sizeof absmax);
}

enum { F16_2048 = 0x6800 }; // the largest code that the format has

// The same for codes in f16: of every size, with either sign, the largest first.
TEST(test_f16_is_kept)
{
    static const float scale[BLOCKS] = { 1, 1e-30f, 0x1.fffffep116f, 3e-9f, 0.1f, 77, 1e-20f };
    uint16_t codes[CODES];

    memset(block_memory, 0, sizeof block_memory);
    for (unsigned i = 0; i < CODES; i++)
        codes[i] = (uint16_t)((F16_2048 - i % 256 * 104) | (i / 256 + i) % 2 << 15);
    memcpy(block_memory + AT_CODES, codes, sizeof codes);
    memcpy(block_memory + AT_ABSMAX, scale, sizeof scale);
    memcpy(block_got, block_memory, sizeof block_got);
    step_momentum(PTX_STEP_FORMAT_STATE_F16, block_got);
    assert_memory_equal(block_got + AT_CODES, codes, sizeof codes);
    assert_memory_equal(block_got + AT_ABSMAX, scale, sizeof scale);
}

// What a block becomes that has one state which is not 0, and that is unusual; other blocks do not
// see it. `becomes`: the absmax or scale; NaN is 0x7fffffff.
static void check_unusual(ptx_step_format format, const float largest[BLOCKS],
                          const float becomes[BLOCKS], const uint16_t codes[BLOCKS], uint16_t zero)
{
    const uint32_t nan = 0x7fffffff;
    float gradient[CODES], absmax[BLOCKS];
    uint16_t wide[CODES];

    memset(block_memory, 0, sizeof block_memory);
    for (unsigned i = 0; i < CODES; i++)
        gradient[i] = i % 256 == 99 ? largest[i / 256] : 0;
    memcpy(block_memory + AT_GRADIENT, gradient, sizeof gradient);
    step_momentum(format, block_memory);
    memcpy(absmax, block_memory + AT_ABSMAX, sizeof absmax);
    memcpy(wide, block_memory + AT_CODES, sizeof wide);
    for (unsigned k = 0; k < BLOCKS; k++) {
        if (isnan(becomes[k]))
            assert_memory_equal(&absmax[k], &nan, sizeof nan);
        else
            assert_true(absmax[k] == becomes[k]);
    }
    for (unsigned i = 0; i < CODES; i++) {
        const unsigned code =
            format == PTX_STEP_FORMAT_STATE_F16 ? wide[i] : block_memory[AT_CODES + i];
        assert_int_equal(code, i % 256 == 99 ? codes[i / 256] : zero);
    }
}

TEST(test_unusual_blocks)
{
    static const float largest[BLOCKS] = { 2, 0, 0x1p-127f, INFINITY, NAN, -0x1p-126f, -3 };
    static const float becomes[BLOCKS] = { 2, 0, 0, NAN, NAN, 0x1p-126f, 3 };
    static const uint16_t codes[BLOCKS] = { 255, 127, 127, 127, 127, 0, 0 };
    static const float least[BLOCKS] = { 2, 0, -0x1p-116f, INFINITY, NAN, -0x1p-115f, -3 };
    static const float scale[BLOCKS] = { 2 / 2048.0f, 1, 1, NAN, NAN, 0x1p-126f, 3 / 2048.0f };
    static const uint16_t halves[BLOCKS] = { F16_2048,          0, 0, 0, 0, F16_2048 | 1 << 15,
                                             F16_2048 | 1 << 15 };

    check_unusual(PTX_STEP_FORMAT_STATE_8BIT, largest, becomes, codes, 127);
    check_unusual(PTX_STEP_FORMAT_STATE_F16, least, scale, halves, 0);
}

// ---- shards -------------------------------------------------------------------------------------

// Bits of a parameter and its gradient, and where the elements of a shard lie in it.
enum { SHARDED = 6000, SHARDS = 7 };
static uint16_t sharded_start[SHARDED], sharded_gradients[SHARDED], sharded[SHARDED];
static uint64_t shard_place[SHARDED];

// Takes three steps of the shard of `count` elements and writes its parameters to `sharded`.
static void step_shard(ptx_step_format format, uint64_t count, struct ptx_step_whole whole)
{
    enum { ROOM = (SHARDED * 2 + 255) / 256 * 256, ARRAYS = 7 };
    static uint16_t part[SHARDED];
    const bool codes = format != PTX_STEP_FORMAT_STOCHASTIC;
    const struct ptx_step_group group = {
        .rule = PTX_STEP_RULE_ADAMW,
        .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8 }
    };
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, ARRAYS * ROOM));
    const CUdeviceptr at = ptx_buffer_address(memory);
    require(ptx_buffer_fill(memory, 0, 0, ARRAYS * ROOM, gpu.stream));
    for (uint64_t k = 0; k < count; k++)
        part[k] = sharded_start[shard_place[k]];
    require(ptx_buffer_upload(memory, 0, part, count * 2, gpu.stream));
    for (uint64_t k = 0; k < count; k++)
        part[k] = sharded_gradients[shard_place[k]];
    require(ptx_buffer_upload(memory, ROOM, part, count * 2, gpu.stream));
    const struct ptx_step_tensor tensor = {
        .parameter = at,
        .gradient = at + ROOM,
        .state = { at + 2 * ROOM, at + 3 * ROOM },
        .absmax = { codes ? at + 4 * ROOM : 0, codes ? at + 5 * ROOM : 0 },
        .step = at + 6 * ROOM,
        .count = count,
        .dtype = PTX_BF16,
        .format = format,
        .id = 77,
        .whole = whole,
    };
    OWNED(ptx_step_plan) *plan = step_create(&(struct ptx_step_params) {
        ONE_TENSOR(tensor, group), .max_norm = INFINITY, .seed = 12345 });
    for (unsigned step = 0; step < 3; step++)
        require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, part, count * 2, gpu.stream));
    for (uint64_t k = 0; k < count; k++)
        sharded[shard_place[k]] = part[k];
}

// A parameter cut into shards, contiguous or strided, gets the same bits as whole, given the same
// sums. `block`: cuts are at multiples of it.
static void check_shards(ptx_step_format format, uint64_t block, uint64_t strided_run)
{
    static uint16_t whole[SHARDED];

    for (uint64_t shards = 1; shards <= SHARDS; shards++) {
        for (unsigned strided = 0; strided < 2; strided++) {
            const uint64_t even = (SHARDED + shards - 1) / shards;
            const uint64_t run = strided ? strided_run : (even + block - 1) / block * block;
            for (uint64_t s = 0; s < shards; s++) {
                uint64_t count = 0;
                for (uint64_t e = 0; e < SHARDED; e++)
                    if (e / run % shards == s)
                        shard_place[count++] = e;
                step_shard(format, count, (struct ptx_step_whole) { s * run, run, run * shards });
            }
            if (shards == 1 && !strided)
                memcpy(whole, sharded, sizeof whole);
            assert_memory_equal(sharded, whole, sizeof whole);
        }
    }
}

TEST(test_shards)
{
    struct random r = gpu_random("shards");

    data_fill(&r, REF_BF16, DATA_PLAIN, sharded_start, SHARDED);
    data_fill(&r, REF_BF16, DATA_PLAIN, sharded_gradients, SHARDED);
    check_shards(PTX_STEP_FORMAT_STOCHASTIC, 1, 24);
    check_shards(PTX_STEP_FORMAT_STATE_8BIT, 256, 512);
    check_shards(PTX_STEP_FORMAT_STATE_F16, 256, 512);
}

int main(void)
{
    // On the emulator: so few multiprocessors that few elements are several vectors of a thread.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=8", 0);
    return gpu_tests_run();
}

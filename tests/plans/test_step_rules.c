// SPDX-License-Identifier: MIT
// Rules and formats that no caller has yet, in place of some that callers have: four states in
// every way of storing them, also with outputs and an average behind them, as many arrays as there
// are, and a state that is a weight.
#define PTXGEN_HERE NULL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/step/format.h"
#include "plan_calls.h"
#include "test.h"

// The tables of the library are linked from here.
#undef PTXK_STEP_RULES
#define PTXK_STEP_RULES(X) X(ADAMW, four) X(ADAM, weight) X(SGD, sgd) X(LION, seven) X(MUON, muon)
#undef PTX_STEP_FORMATS
#define PTX_STEP_FORMATS(X)                                                                        \
    X(FULL, full, F32, NONE)                                                                       \
    X(STATE_BF16, state_bf16, BF16, NONE)                                                          \
    X(MASTER, master, F32, F32)                                                                    \
    X(REMAINDER, remainder, F32, S16)                                                              \
    X(STOCHASTIC, stochastic, BF16, NONE)                                                          \
    X(STATE_8BIT, state_8bit, U8, NONE)                                                            \
    X(STATE_F16, state_f16, F16, NONE)                                                             \
    X(MASTER_24BIT, master_24bit, U8, S8)
#include "kernels/step/format.c"
#include "kernels/step/rules.c"

enum { OUTPUTS = 3 };
_Static_assert(PTX_RULE_MAX_STATES + OUTPUTS + 1 == PTX_STEP_MAX_STATES, "with the average");

static void once_four(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    (void)b;
    c[0] = clock->scalar[S_LR];
}

// Each state follows the gradient by another law, and the parameter falls by lr times their sum.
static void update_four(ptx_builder *b, uint32_t options, const ptx_val *c,
                        struct ptxk_step_element *e)
{
    static const float rates[PTX_RULE_MAX_STATES] = { 1, 0, 3, 5 };
    ptx_val sum = ptx_f32(0);

    (void)options;
    for (unsigned k = 0; k < PTX_RULE_MAX_STATES; k++) {
        if (k == 1) {
            ptx_val squares = ptx_mul(b, ptx_f32(4), ptx_mul(b, e->g, e->g));
            e->state[1] = ptx_max(b, ptx_mul(b, e->state[1], ptx_f32(4)), squares);
        } else {
            e->state[k] = ptx_fma(b, ptx_f32(rates[k]), e->g, e->state[k]);
        }
        sum = ptx_add(b, sum, e->state[k]);
    }
    e->p = ptx_fma(b, ptx_neg(b, c[0]), sum, e->p);
}

static const struct ptxk_step_scalar scalars[] = { { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0 } };

const struct ptxk_step_rule ptxk_step_four = {
    .name = "four",
    .states = PTX_RULE_MAX_STATES,
    .scalars = 1,
    .coefficients = 1,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED, .stochastic = true },
               { PTX_RULE_POSITIVE, .stochastic = true },
               { PTX_RULE_SIGNED, .stochastic = true },
               { PTX_RULE_SIGNED, .stochastic = true } },
    .once = once_four,
    .update = update_four,
};

// The same, and what it leaves in the parameter: that, twice that, and four times that.
static void update_seven(ptx_builder *b, uint32_t options, const ptx_val *c,
                         struct ptxk_step_element *e)
{
    update_four(b, options, c, e);
    for (unsigned k = 0; k < OUTPUTS; k++)
        e->state[PTX_RULE_MAX_STATES + k] = ptx_mul(b, e->p, (float)(1 << k));
}

const struct ptxk_step_rule ptxk_step_seven = {
    .name = "seven",
    .states = PTX_RULE_MAX_STATES + OUTPUTS,
    .scalars = 1,
    .coefficients = 1,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED, .stochastic = true },
               { PTX_RULE_POSITIVE, .stochastic = true },
               { PTX_RULE_SIGNED, .stochastic = true },
               { PTX_RULE_SIGNED, .stochastic = true },
               { PTX_RULE_WEIGHT, .type = PTX_F32, .output = true },
               { PTX_RULE_WEIGHT, .type = PTX_BF16, .output = true },
               { PTX_RULE_WEIGHT, .type = PTX_F16, .output = true } },
    .once = once_four,
    .update = update_seven,
};

const struct ptxk_step_rule ptxk_step_weight = {
    .name = "weight",
    .states = 2,
    .scalars = 1,
    .coefficients = 1,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED }, { PTX_RULE_WEIGHT } },
    .once = once_four,
    .update = update_four,
};

// ---- four states --------------------------------------------------------------------------------

// More tensors than one launch gives addresses to; the arrays of one are ROOM apart, their copies
// after a move begin at MOVED.
enum { TENSORS = 30, COUNT = 700, ROOM = 4096, OF_TENSOR = 4 + 2 * PTX_RULE_MAX_STATES + OUTPUTS };
enum { OUTPUT = 3 + 2 * PTX_RULE_MAX_STATES, AVERAGE = OUTPUT + OUTPUTS };
enum { MOVED = TENSORS * OF_TENSOR * ROOM, BYTES = 2 * MOVED };

static ptx_buffer *memory;
static struct ptx_step_tensor tensors[TENSORS];
static struct ptx_step_group group;
static struct ptx_step_params params;

static size_t place(unsigned tensor, unsigned array)
{
    return (size_t)(tensor * OF_TENSOR + array) * ROOM;
}

static void lay_out_with(ptx_step_rule rule, ptx_step_format format, CUdeviceptr at)
{
    const bool blocks = ptxk_step_format_of(format)->by_block;

    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t] = (struct ptx_step_tensor) {
            .parameter = at + place(t, 0),
            .gradient = at + place(t, 1),
            .step = ptx_buffer_address(memory) + place(t, 2),
            .count = COUNT,
            .dtype = ptxk_step_format_of(format)->parameters[0],
            .gradient_dtype = PTX_F32,
            .format = format,
        };
        for (unsigned k = 0; k < PTX_RULE_MAX_STATES; k++) {
            tensors[t].state[k] = at + place(t, 3 + k);
            tensors[t].absmax[k] = blocks ? at + place(t, 3 + PTX_RULE_MAX_STATES + k) : 0;
        }
        if (rule == PTX_STEP_RULE_LION) {
            for (unsigned k = 0; k < OUTPUTS; k++)
                tensors[t].state[PTX_RULE_MAX_STATES + k] = at + place(t, OUTPUT + k);
            tensors[t].ema = at + place(t, AVERAGE);
            tensors[t].ema_dtype = PTX_F32;
        }
    }
    group = (struct ptx_step_group) { .rule = rule, .hyper.lr = 0.5 };
    params = (struct ptx_step_params) { .tensors = tensors,
                                        .tensor_count = TENSORS,
                                        .groups = &group,
                                        .group_count = 1,
                                        .max_norm = INFINITY,
                                        .stream = gpu.stream };
}

static void lay_out(ptx_step_format format, CUdeviceptr at)
{
    lay_out_with(PTX_STEP_RULE_ADAMW, format, at);
}

// All gradients are 1, or 2 in odd tensors.
static void fill(float *host)
{
    memset(host, 0, BYTES);
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned i = 0; i < COUNT; i++)
            host[place(t, 1) / sizeof *host + i] = (float)(1 + t % 2);
    require_done(ptx_buffer_upload(memory, 0, host, BYTES, gpu.stream));
}

static float element_of(const float *host, unsigned tensor, unsigned array, ptx_type type,
                        unsigned i)
{
    return gpu_element(type, (const unsigned char *)host + place(tensor, array), i);
}

// Every number is exact in bf16 and f16, and those of a block are one number. A decay of 0 makes
// the average the parameter.
static void check(const float *host, ptx_type parameter, int steps)
{
    static const ptx_type types[] = { PTX_F32, PTX_BF16, PTX_F16, PTX_F32 };

    for (unsigned t = 0; t < TENSORS; t++) {
        const float g = (float)(1 + t % 2);
        float p = 0;
        for (int k = 1; k <= steps; k++)
            p -= 0.5f * (9 * g * (float)k + g * g * (float)(1 << 2 * k));
        for (unsigned i = 0; i < COUNT; i++) {
            const float is = element_of(host, t, 0, parameter, i);
            if (is != p)
                fail_msg("tensor %u: parameter %u is %g, not %g", t, i, (double)is, (double)p);
            for (unsigned k = 0; k <= OUTPUTS && tensors[t].ema; k++) {
                const float wanted = k < OUTPUTS ? p * (float)(1 << k) : p;
                const float found = element_of(host, t, OUTPUT + k, types[k], i);
                if (found != wanted)
                    fail_msg("tensor %u: element %u of array %u behind the states is %g, not %g", t,
                             i, k, (double)found, (double)wanted);
            }
        }
    }
}

// Two steps, the second after all arrays have moved.
static void steps_with(ptx_step_rule rule, ptx_step_format format)
{
    const CUdeviceptr base = ptx_buffer_address(memory);
    ALLOCATED(float) *host = malloc(BYTES);

    assert_non_null(host);
    fill(host);
    lay_out_with(rule, format, base);
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(gpu.device, &params));
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, host, MOVED, gpu.stream));
    check(host, tensors[0].dtype, 1);
    require_done(ptx_buffer_upload(memory, MOVED, host, MOVED, gpu.stream));
    lay_out_with(rule, format, base + MOVED);
    require(ptx_step_plan_set_addresses(plan, 0, TENSORS, tensors, gpu.stream));
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, MOVED, host, MOVED, gpu.stream));
    check(host, tensors[0].dtype, 2);
}

TEST(test_four_states)
{
    static const ptx_step_format formats[] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_STATE_BF16,
                                               PTX_STEP_FORMAT_STOCHASTIC,
                                               PTX_STEP_FORMAT_STATE_8BIT,
                                               PTX_STEP_FORMAT_STATE_F16 };

    for (unsigned k = 0; k < sizeof formats / sizeof *formats; k++) {
        steps_with(PTX_STEP_RULE_ADAMW, formats[k]);
        steps_with(PTX_STEP_RULE_LION, formats[k]);
    }
}

// Every array of a tensor is checked, and named.
TEST(test_overlaps)
{
    static const char *const names[2][PTX_RULE_MAX_STATES] = {
        { "tensor 29's state[0]", "tensor 29's state[1]", "tensor 29's state[2]",
          "tensor 29's state[3]" },
        { "tensor 29's absmax[0]", "tensor 29's absmax[1]", "tensor 29's absmax[2]",
          "tensor 29's absmax[3]" },
    };
    for (unsigned n = 0; n < 2 * PTX_RULE_MAX_STATES; n++) {
        const unsigned k = n % PTX_RULE_MAX_STATES, is_absmax = n / PTX_RULE_MAX_STATES;
        lay_out(PTX_STEP_FORMAT_STATE_8BIT, ptx_buffer_address(memory));
        struct ptx_step_tensor *last = &tensors[TENSORS - 1];
        *(is_absmax ? &last->absmax[k] : &last->state[k]) = last->gradient;
        expect_no_step(&params, names[is_absmax][k]);
        expect_failure(PTX_ERROR_INVALID, "overlap");
    }
}

// ---- what is refused ----------------------------------------------------------------------------

TEST(test_weight)
{
    struct ptx_step_description d;

    for (unsigned f = 0; f < PTX_STEP_FORMAT_COUNT; f++) {
        lay_out((ptx_step_format)f, 0);
        memset(tensors[0].state, 0, sizeof tensors[0].state);
        memset(tensors[0].absmax, 0, sizeof tensors[0].absmax);
        group.rule = PTX_STEP_RULE_ADAM;
        params.tensor_count = 1;
        if (!ptxk_step_format_of((ptx_step_format)f)->by_block) {
            require(ptx_step_describe(&params, &d));
            continue;
        }
        assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
        expect_failure(PTX_ERROR_INVALID,
                       "tensor 0: state[1] of its rule, weight, is a weight, and format ");
    }
    expect_no_step(&params, "and format MASTER_24BIT has too few bits for it");
}

int main(void)
{
    gpu_open();
    gpu_buffer(&memory, BYTES);
    return gpu_tests_run();
}

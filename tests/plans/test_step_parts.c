// SPDX-License-Identifier: MIT
// The parts of a rule that no rule of the library has: clock states, states with a type of their
// own, and outputs. Rules of a caller's have them; their formulas in plain C are here.
#define PTXGEN_HERE NULL

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/step/format.h"
#include "plan_calls.h"
#include "random.h"
#include "test.h"

#include "rules/rules.h"

static ptx_rule *averaged, *averaged_with_copy, *schedule_free;

// Tensors 0 and 1 share a count and group 0; tensor 2 has its own, in group 1. Counts are not
// multiples of what a thread steps. The arrays of a tensor are ROOM bytes apart.
enum { TENSORS = 3, COUNT = 700, ROOM = 4096, STATES = 3 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, CLOCK = STATE + STATES, SCALES, OF_TENSOR };
enum { BYTES = TENSORS * OF_TENSOR * ROOM };

static ptx_buffer *memory;
static struct ptx_step_tensor tensors[TENSORS];
static struct ptx_step_group groups[2];
static struct ptx_step_params params;
// What the device has, and what it must have.
static unsigned char device[BYTES], expected[BYTES];

static size_t place(unsigned tensor, unsigned array)
{
    return (size_t)(tensor * OF_TENSOR + array) * ROOM;
}

static unsigned clock_of(unsigned tensor)
{
    return tensor == 2 ? 2 : 0;
}

// Gradients are bf16 where parameters are.
static void lay_out(const ptx_rule *rule, ptx_step_format format, ptx_type parameter)
{
    const CUdeviceptr at = ptx_buffer_address(memory);

    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t] = (struct ptx_step_tensor) {
            .parameter = at + place(t, PARAMETER),
            .gradient = at + place(t, GRADIENT),
            .step = at + place(clock_of(t), CLOCK),
            .count = COUNT,
            .dtype = parameter,
            .gradient_dtype = parameter == PTX_BF16 ? PTX_BF16 : PTX_F32,
            .format = format,
            .group = t == 2,
            .id = t,
        };
        if (ptxk_step_format_of(format)->beside)
            tensors[t].beside = at + place(t, BESIDE);
        for (unsigned k = 0; k < ptx_rule_get_info(rule)->states; k++)
            tensors[t].state[k] = at + place(t, STATE + k);
        if (ptxk_step_format_of(format)->by_block)
            tensors[t].absmax[0] = at + place(t, SCALES);
    }
    for (unsigned g = 0; g < 2; g++)
        groups[g] = (struct ptx_step_group) {
            .own_rule = rule,
            .hyper = { .lr = 0.5 / (1 + g), .beta1 = 0.75 },
        };
    for (unsigned g = 0; g < 2; g++)
        if (rule == schedule_free) {
            groups[g].hyper.beta1 = 0.9;
            groups[g].hyper.weight_decay = 0.01;
        } else {
            groups[g].hyper.momentum = 0.5;
        }
    params = (struct ptx_step_params) { .tensors = tensors,
                                        .tensor_count = TENSORS,
                                        .groups = groups,
                                        .group_count = 2,
                                        .max_norm = 1e30f,
                                        .stream = gpu.stream };
}

// ---- the formulas in plain C --------------------------------------------------------------------

// A number as an array of this type has it.
static float get(ptx_type type, unsigned tensor, unsigned array, unsigned i)
{
    return gpu_element(type, expected + place(tensor, array), i);
}

static void put(ptx_type type, unsigned tensor, unsigned array, unsigned i, float x)
{
    gpu_set_element(type, expected + place(tensor, array), i, x);
}

struct clock {
    float count;
    double lr_max, sum;
};

static struct clock clock_get(unsigned tensor)
{
    const unsigned char *at = expected + place(clock_of(tensor), CLOCK);
    struct clock c;

    memcpy(&c.count, at, sizeof c.count);
    memcpy(&c.lr_max, at + 8, sizeof c.lr_max);
    memcpy(&c.sum, at + 16, sizeof c.sum);
    return c;
}

static void clock_put(unsigned tensor, const struct clock *c)
{
    unsigned char *at = expected + place(clock_of(tensor), CLOCK);

    memcpy(at, &c->count, sizeof c->count);
    memcpy(at + 8, &c->lr_max, sizeof c->lr_max);
    memcpy(at + 16, &c->sum, sizeof c->sum);
}

static void step_schedule_free(unsigned tensor, struct clock *clock)
{
    const struct ptx_step_hyper *h = &groups[tensors[tensor].group].hyper;
    const struct ptxk_step_format *format = ptxk_step_format_of(tensors[tensor].format);
    const ptx_type type = tensors[tensor].dtype;
    const unsigned array = format->beside ? BESIDE : PARAMETER;
    const float lr = (float)h->lr, decay = (float)h->weight_decay;
    const double beta = (double)(float)h->beta1;

    clock->lr_max = fmax((double)lr, clock->lr_max);
    const double weight = clock->lr_max * clock->lr_max;
    clock->sum += weight;
    const double part = clock->sum == 0 ? 0 : weight / clock->sum;
    const double kept = beta * (1 - part);
    const float along = (float)((double)lr * (kept - 1)), out = (float)(1 - 1 / beta);
    for (unsigned i = 0; i < COUNT; i++) {
        const float y = get(format->beside ? PTX_F32 : type, tensor, array, i);
        const float z = clock->count == 1 ? y : get(format->state, tensor, STATE, i);
        const float g = fmaf(decay, y, get(tensors[tensor].gradient_dtype, tensor, GRADIENT, i));
        const float apart = z - y;
        const float next_y = fmaf(along, g, fmaf((float)part, apart, y));
        const float next_z = fmaf(-lr, g, z);
        const float back = next_z - next_y;
        put(type, tensor, PARAMETER, i, next_y);
        if (format->beside)
            put(PTX_F32, tensor, BESIDE, i, next_y);
        put(format->state, tensor, STATE, i, next_z);
        put(PTX_F32, tensor, STATE + 1, i, fmaf(out, back, next_y));
    }
}

// States in blocks are not followed: they are what `m` has here.
static void step_averaged(unsigned tensor, const struct clock *clock, float m[COUNT])
{
    const bool has_copy = tensors[tensor].state[2] != 0;
    const struct ptx_step_hyper *h = &groups[tensors[tensor].group].hyper;
    const struct ptxk_step_format *format = ptxk_step_format_of(tensors[tensor].format);
    const ptx_type type = tensors[tensor].dtype;
    const float rest = 1 - (float)h->beta1;

    for (unsigned i = 0; i < COUNT; i++) {
        const float old_m = format->by_block ? m[i] : get(format->state, tensor, STATE, i);
        const float g = get(tensors[tensor].gradient_dtype, tensor, GRADIENT, i);
        const float old =
            format->beside ? get(PTX_F32, tensor, BESIDE, i) : get(type, tensor, PARAMETER, i);
        m[i] = fmaf((float)h->momentum, old_m, g);
        const float p = fmaf(-(float)h->lr, m[i], old);
        const float average = get(PTX_F32, tensor, STATE + 1, i), apart = p - average;
        put(type, tensor, PARAMETER, i, p);
        if (format->beside)
            put(PTX_F32, tensor, BESIDE, i, p);
        if (!format->by_block)
            put(format->state, tensor, STATE, i, m[i]);
        put(PTX_F32, tensor, STATE + 1, i, clock->count == 1 ? p : fmaf(rest, apart, average));
        if (has_copy)
            put(PTX_BF16, tensor, STATE + 2, i, p);
    }
}

// ---- runs ---------------------------------------------------------------------------------------

static ptx_step_plan *create(void)
{
    return made(ptx_step_plan_create(gpu.device, &params));
}

static void upload(void)
{
    require_done(ptx_buffer_upload(memory, 0, expected, BYTES, gpu.stream));
}

// Compares all arrays but those that are not followed.
static void check(const char *what)
{
    const bool blocks = ptxk_step_format_of(tensors[0].format)->by_block;

    require_done(ptx_buffer_download(memory, 0, device, BYTES, gpu.stream));
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned a = 0; a < OF_TENSOR; a++)
            for (unsigned k = 0; k < ROOM && !(blocks && (a == STATE || a == SCALES)); k++)
                if (device[place(t, a) + k] != expected[place(t, a) + k])
                    fail_msg("%s, %s: tensor %u, array %u: byte %u is 0x%02x, not 0x%02x", what,
                             ptxk_step_format_of(tensors[0].format)->name, t, a, k,
                             device[place(t, a) + k], expected[place(t, a) + k]);
}

// New numbers for an array: any, or with `step` the same ones for a whole tensor, all of whose
// sums are exact.
static void fill(ptx_type type, unsigned array, struct random *r, unsigned step)
{
    for (unsigned t = 0; t < TENSORS; t++)
        for (unsigned i = 0; i < COUNT; i++)
            put(type, t, array, i, step ? (float)(1 + (t + step) % 2) : (float)random_unit(r));
}

static void start(bool exact)
{
    struct random r = { 7 };

    memset(expected, 0, sizeof expected);
    fill(tensors[0].dtype, PARAMETER, &r, exact);
    for (unsigned t = 0; t < TENSORS && tensors[0].beside; t++)
        for (unsigned i = 0; i < COUNT; i++)
            put(PTX_F32, t, BESIDE, i, get(tensors[0].dtype, t, PARAMETER, i));
}

// Clock states follow scalars that change, stay in a step that is skipped and where no tensor has a
// gradient, and go on in another plan.
static void schedule_free_with(ptx_step_format format, ptx_type parameter)
{
    enum { STEPS = 7, CHANGES = 2, SKIPPED = 3, WITHOUT = 4, ANEW = 5 };
    struct random r = { 11 };

    lay_out(schedule_free, format, parameter);
    start(false);
    fill(ptxk_step_format_of(format)->state, STATE, &r, 0); // z, which starts as the parameter
    OWNED(ptx_step_plan) *plan = create();
    for (unsigned n = 0; n < STEPS; n++) {
        if (n == CHANGES) {
            groups[0].hyper.lr = 0.125;
            groups[1].hyper.lr = 0.75;
            for (uint32_t g = 0; g < 2; g++)
                require(ptx_step_plan_set_hyper(plan, g, &groups[g].hyper, gpu.stream));
        }
        if (n == WITHOUT || n == WITHOUT + 1) {
            tensors[2].gradient = n == WITHOUT ? 0 : tensors[0].gradient + place(2, 0);
            require(ptx_step_plan_set_gradients(plan, 2, 1, &tensors[2].gradient, gpu.stream));
        }
        if (n == ANEW) {
            ptx_step_plan_destroy(&plan);
            plan = create();
        }
        fill(tensors[0].gradient_dtype, GRADIENT, &r, 0);
        if (n == SKIPPED)
            put(tensors[0].gradient_dtype, 1, GRADIENT, 600, INFINITY);
        upload();
        require(ptx_step_plan_run(plan, gpu.stream));
        for (unsigned t = 0; t < TENSORS && n != SKIPPED; t++) {
            struct clock clock = clock_get(t);
            if (!tensors[t].gradient)
                continue;
            clock.count++;
            step_schedule_free(t, &clock);
            if (t != 0) // tensor 1 has the clock of tensor 0
                clock_put(t, &clock);
        }
        check("schedule-free");
    }
}

TEST(test_clock_states)
{
    schedule_free_with(PTX_STEP_FORMAT_FULL, PTX_F32);
    schedule_free_with(PTX_STEP_FORMAT_STATE_BF16, PTX_F32);
    schedule_free_with(PTX_STEP_FORMAT_MASTER, PTX_BF16);
    schedule_free_with(PTX_STEP_FORMAT_MASTER, PTX_F16);
}

static void averaged_with(ptx_step_format format, ptx_type parameter, bool has_copy)
{
    const bool exact = ptxk_step_format_of(format)->rounds_parameter;
    float m[TENSORS][COUNT] = { { 0 } };
    struct random r = { 13 };

    lay_out(has_copy ? averaged_with_copy : averaged, format, parameter);
    start(exact);
    OWNED(ptx_step_plan) *plan = create();
    for (unsigned n = 1; n <= 3; n++) {
        fill(tensors[0].gradient_dtype, GRADIENT, &r, exact ? n : 0);
        upload();
        require(ptx_step_plan_run(plan, gpu.stream));
        for (unsigned t = 0; t < TENSORS; t++) {
            struct clock clock = clock_get(t);
            clock.count++;
            step_averaged(t, &clock, m[t]);
            if (t != 0)
                clock_put(t, &clock);
        }
        check("averaged");
        // States in blocks stay the device's own.
        memcpy(expected, device, sizeof expected);
    }
}

TEST(test_own_types)
{
    for (unsigned f = 0; f < PTX_STEP_FORMAT_COUNT; f++)
        for (unsigned k = 0; k < 3; k++) {
            const ptx_type parameter = ptxk_step_format_of((ptx_step_format)f)->parameters[k];
            if (f == PTX_STEP_FORMAT_REMAINDER || f == PTX_STEP_FORMAT_MASTER_24BIT ||
                parameter == PTX_NONE)
                continue;
            averaged_with((ptx_step_format)f, parameter, true);
            averaged_with((ptx_step_format)f, parameter, false);
        }
}

// ---- descriptions and checks --------------------------------------------------------------------

static void expect_bytes(const ptx_rule *rule, ptx_step_format format, unsigned each,
                         unsigned scales)
{
    struct ptx_step_description d;

    lay_out(rule, format, PTX_F32);
    params.max_norm = INFINITY; // no norm reads gradients
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, TENSORS * (COUNT * each + scales * 2 * sizeof(float)));
}

TEST(test_bytes)
{
    expect_bytes(schedule_free, PTX_STEP_FORMAT_FULL, 8 + 4 + 8 + 4, 0);
    expect_bytes(averaged_with_copy, PTX_STEP_FORMAT_FULL, 8 + 4 + 8 + 8 + 2, 0);
    expect_bytes(averaged_with_copy, PTX_STEP_FORMAT_STATE_8BIT, 8 + 4 + 2 + 8 + 2, 3);
}

static void expect_no_plan(const char *words)
{
    expect_no_step(&params, words);
}

TEST(test_refused)
{
    const CUdeviceptr end = ptx_buffer_address(memory) + BYTES;
    ptx_step_plan *plan;

    lay_out(schedule_free, PTX_STEP_FORMAT_FULL, PTX_F32);
    tensors[2].step = tensors[0].step;
    expect_no_plan(
        "have the same step, in groups 0 and 1, and the rule of group 0 keeps more there "
        "than the count");
    // Also with a rule that keeps none: the count would go on without the numbers behind it.
    for (unsigned g = 0; g < 2; g++) {
        const struct ptx_step_group own = groups[g];
        groups[g] = (struct ptx_step_group) { .rule = PTX_STEP_RULE_ADAM };
        expect_refused(ptx_step_describe(&params, &(struct ptx_step_description) { 0 }),
                       g ? "and the rule of group 0 keeps" : "and the rule of group 1 keeps");
        groups[g] = own;
    }
    lay_out(averaged, PTX_STEP_FORMAT_FULL, PTX_F32);
    tensors[2].step = tensors[0].step;
    plan = create();
    ptx_step_plan_destroy(&plan);

    lay_out(schedule_free, PTX_STEP_FORMAT_FULL, PTX_F32);
    tensors[2].step += 4;
    expect_no_plan(
        "tensor 2: its rule, schedule_free, keeps f64s behind the count, and step is 0x");
    expect_failure(PTX_ERROR_INVALID, "; it must be a multiple of 8");
    tensors[2].step = end - 16;
    expect_no_plan("tensor 2's step: 3 elements are 24 bytes, and its memory ends 16 bytes after");

    lay_out(schedule_free, PTX_STEP_FORMAT_STATE_F16, PTX_F32);
    expect_no_plan("state[0] of its rule, schedule_free, is a weight, and format STATE_F16");
    lay_out(averaged_with_copy, PTX_STEP_FORMAT_STATE_8BIT, PTX_F32);
    tensors[1].absmax[2] = tensors[1].absmax[0];
    expect_no_plan("tensor 1: absmax[2] is given, and state[2] of its rule, averaged, is bf16 in "
                   "every format: make it 0");
    lay_out(averaged_with_copy, PTX_STEP_FORMAT_FULL, PTX_F32);
    tensors[1].state[2] = tensors[1].state[1] + sizeof(float) * COUNT - 2;
    expect_no_plan("tensor 1's state[1] and tensor 1's state[2] overlap");
}

int main(void)
{
    gpu_open();
    memory = ptx_buffer_create(gpu.device, BYTES);
    averaged = ptx_rule_create(&averaged_params);
    averaged_with_copy = ptx_rule_create(&averaged_with_copy_params);
    schedule_free = ptx_rule_create(&schedule_free_params);
    if (!memory || !averaged || !averaged_with_copy || !schedule_free)
        return 1;
    const int failed = tests_run(NULL, NULL);
    ptx_rule_destroy(&averaged);
    ptx_rule_destroy(&averaged_with_copy);
    ptx_rule_destroy(&schedule_free);
    ptx_buffer_destroy(&memory);
    gpu_close();
    return failed;
}

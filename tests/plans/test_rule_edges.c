// SPDX-License-Identifier: MIT
// Quotients and roots of callers' rules have the bits of IEEE 754 at the edges of the quick
// sequences and beyond: every pair of such values, in threads of one pair and in threads of many.
#include <math.h>
#include <string.h>

#include "plan_calls.h"
#include "test.h"

// ---- the rule -----------------------------------------------------------------------------------

enum { QUOTIENT, ROOT, IN_BLOCK, OVER, STATES };

static void once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[0] = clock->scalar[0];
}

// The parameter becomes p / divisor. With roots, x is root(p), else g, so that a thread with a
// negative p is not left to the exact instructions.
static void update(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val x = e->user ? ptx_rule_sqrt(b, e->p) : e->g;
    ptx_val kept = ptx_var(b, e->p);

    e->new_p = ptx_rule_div(b, e->p, e->c[0]);
    e->new_state[QUOTIENT] = ptx_rule_div(b, e->p, e->g);
    e->new_state[ROOT] = x;
    ptx_if (b, ptx_ge(b, e->g, 0)) {
        ptx_val root = e->user ? ptx_rule_sqrt(b, e->p) : e->g;
        ptx_set(b, kept, ptx_rule_div(b, e->new_state[QUOTIENT], root));
    }
    e->new_state[IN_BLOCK] = ptx_copy(b, kept);
    e->new_state[OVER] = ptx_rule_div(b, x, e->c[0]);
}

static const struct ptx_rule_params params = {
    .name = "edges",
    .states = { { "quotient" }, { "root" }, { "in_block" }, { "over" } },
    .scalars = { { "divisor" } },
    .once = once,
    .update = update,
};

static void expected(float p, float g, float divisor, bool roots, float result[STATES + 1])
{
    const float quotient = p / g, x = roots ? sqrtf(p) : g;

    result[QUOTIENT] = quotient;
    result[ROOT] = x;
    result[IN_BLOCK] = g >= 0 ? quotient / x : p;
    result[OVER] = x / divisor;
    result[STATES] = p / divisor;
}

// ---- values -------------------------------------------------------------------------------------

// Both sides of what the sequences hold for: dividends from 2^-90 on, divisors from 2^-120 to 2^34,
// roots below 2^40; and the ends of f32.
#define AROUND(x) (x), (x) * (1 - 0x1p-24f), (x) * (1 + 0x1p-23f), (x)*0x1.7654fp0f
static const float values[] = {
    0,
    -0.0f,
    0x1p-149f,
    0x1.fffffcp-127f,
    -0x1p-126f,
    0x1p-126f,
    AROUND(0x1p-120f),
    AROUND(0x1p-90f),
    -0x1p-90f,
    0x1p-60f,
    0x1.234566p-3f,
    AROUND(1),
    -3,
    0x1.555556p-2f,
    AROUND(0x1p34f),
    AROUND(0x1p40f),
    0x1p100f,
    AROUND(0x1p126f),
    0x1.fffffep+127f,
    -0x1.fffffep+127f,
    INFINITY,
    -INFINITY,
    NAN,
};
enum { VALUES = sizeof values / sizeof *values, PAIRS = VALUES * VALUES };

// A thread has at most EACH elements in a row; the pairs are there EACH times, then each once.
// Every array begins at a multiple of 256, or threads would take single elements, without quick
// sequences.
enum { EACH = 8, COUNT = PAIRS * EACH + PAIRS, ARRAYS = 2 + STATES };
enum { ROOM = (COUNT + 63) / 64 * 64 };

static unsigned pair_of(unsigned i)
{
    return i < PAIRS * EACH ? i / EACH : (i - PAIRS * EACH) * 7 % PAIRS;
}

static bool same(float is, float want)
{
    return (isnan(is) && isnan(want)) || !memcmp(&is, &want, sizeof is);
}

static struct gpu gpu;
static float arrays[ARRAYS][ROOM];

static void fill(void)
{
    memset(arrays, 0, sizeof arrays);
    for (unsigned i = 0; i < COUNT; i++) {
        arrays[0][i] = values[pair_of(i) / VALUES];
        arrays[1][i] = values[pair_of(i) % VALUES];
    }
}

static void check(float divisor, bool roots)
{
    static const char *const names[] = { "p / g", "x", "in a block", "x / divisor", "p / divisor" };

    for (unsigned i = 0; i < COUNT; i++) {
        const float p = values[pair_of(i) / VALUES], g = values[pair_of(i) % VALUES];
        float want[STATES + 1];
        expected(p, g, divisor, roots, want);
        for (unsigned k = 0; k <= STATES; k++) {
            const float is = arrays[k == STATES ? 0 : 2 + k][i];
            if (!same(is, want[k]))
                fail_msg("element %u, p %a, g %a, divisor %a, %s: %s is %a, not %a", i, (double)p,
                         (double)g, (double)divisor, roots ? "roots" : "no roots", names[k],
                         (double)is, (double)want[k]);
        }
    }
}

static void check_edges(bool roots)
{
    static const float divisors[] = {
        1, 3, 0, -0.0f, -2, 0x1.fffffep-1f, AROUND(0x1p-120f), AROUND(0x1p34f), 0x1p-149f, 0x1p127f,
    };
    struct ptx_rule_params own = params;
    own.user = roots ? "roots" : NULL;
    ptx_rule *rule = ptx_rule_create(&own);
    if (!rule)
        fail_msg("%s", ptx_error_message());
    assert_true(ptx_rule_get_info(rule)->quick);
    ptx_buffer *memory = ptx_buffer_create(gpu.device, sizeof arrays + 256);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor tensor = { .parameter = at,
                                      .gradient = at + sizeof *arrays,
                                      .step = at + sizeof arrays,
                                      .count = COUNT,
                                      .dtype = PTX_F32 };
    struct ptx_step_group group = { .own_rule = rule };

    for (unsigned k = 0; k < STATES; k++)
        tensor.state[k] = at + (2 + k) * sizeof *arrays;
    ptx_step_plan *plan =
        ptx_step_plan_create(gpu.device, &(struct ptx_step_params) { .tensors = &tensor,
                                                                     .tensor_count = 1,
                                                                     .groups = &group,
                                                                     .group_count = 1,
                                                                     .max_norm = INFINITY,
                                                                     .stream = gpu.stream });
    if (!plan)
        fail_msg("%s", ptx_error_message());
    for (unsigned k = 0; k < sizeof divisors / sizeof *divisors; k++) {
        fill();
        require(ptx_buffer_upload(memory, 0, arrays, sizeof arrays, gpu.stream));
        const struct ptx_step_hyper hyper = { .more = { (double)divisors[k] } };
        require(ptx_step_plan_set_hyper(plan, 0, &hyper, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require(ptx_buffer_download(memory, 0, arrays, sizeof arrays, gpu.stream));
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
        check(divisors[k], roots);
    }
    ptx_step_plan_destroy(&plan);
    ptx_buffer_destroy(&memory);
    ptx_rule_destroy(&rule);
}

TEST(test_edges)
{
    check_edges(false);
    check_edges(true);
}

int main(void)
{
    return gpu_tests_run(&gpu);
}

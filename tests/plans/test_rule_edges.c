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
    // A root, and dividends of which a quotient by 2^40 of it is near 2.5 * 2^-149.
    0x1.4b65fp38f,
    0x1.6c164p-89f,
    0x1.6c1642p-89f,
    // Roots over 2^-26, dividends of them, and roots over 0x1.aadep33f twice.
    0x1.52p39f,
    0x1.bdf6dp-88f,
    0x1.6fa5ep-130f,
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

// Runs a plan of one tensor with each of the scalars, and checks what it leaves. The rule's states
// are the arrays from the third on.
static void run(const struct ptx_rule_params *own, const float scalars[][2], unsigned count,
                void (*check_run)(const float scalars[2], const void *user))
{
    OWNED(ptx_rule) *rule = made(ptx_rule_create(own));
    assert_true(ptx_rule_get_info(rule)->quick);
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof arrays + 256);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor tensor = { .parameter = at,
                                      .gradient = at + sizeof *arrays,
                                      .step = at + sizeof arrays,
                                      .count = COUNT,
                                      .dtype = PTX_F32 };
    struct ptx_step_group group = { .own_rule = rule };

    for (unsigned k = 0; k < STATES && own->states[k].name; k++)
        tensor.state[k] = at + (2 + k) * sizeof *arrays;
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(
        gpu.device, &(struct ptx_step_params) { ONE_TENSOR(tensor, group), .max_norm = INFINITY,
                                                .stream = gpu.stream }));
    for (unsigned k = 0; k < count; k++) {
        fill();
        require(ptx_buffer_upload(memory, 0, arrays, sizeof arrays, gpu.stream));
        const struct ptx_step_hyper hyper = { .more = { (double)scalars[k][0],
                                                        (double)scalars[k][1] } };
        require(ptx_step_plan_set_hyper(plan, 0, &hyper, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, arrays, sizeof arrays, gpu.stream));
        check_run(scalars[k], own->user);
    }
}

static void check_edges(const float scalars[2], const void *user)
{
    check(scalars[0], user != NULL);
}

// ---- quotients by sums --------------------------------------------------------------------------

enum { DIVISOR, ADDED };

static void sum_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    (void)b;
    clock->c[DIVISOR] = clock->scalar[DIVISOR];
    clock->c[ADDED] = clock->scalar[ADDED];
}

// The root of p by the divisor, and what is added, as AdamW has it.
static ptx_val sum_of(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val over = ptx_rule_div(b, ptx_rule_sqrt(b, e->p), e->c[DIVISOR]);
    return ptx_add(b, over, e->c[ADDED]);
}

static ptx_val largest(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_max(b, ptx_rule_sqrt(b, e->p), e->c[ADDED]);
}

static float larger(float x, float y)
{
    if (isnan(x) || isnan(y))
        return isnan(x) ? y : x;
    return x > y || (x == y && signbit(y)) ? x : y;
}

// Each makes the parameter of p and g alone, by shapes of which the library knows more than of
// others.
struct shape {
    const char *name;
    ptx_val (*emit)(ptx_builder *b, const struct ptx_rule_element *e);
    float (*expected)(float p, float g, float divisor, float added);
};

static ptx_val by_sum(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_sub(b, e->p, ptx_rule_div(b, e->g, sum_of(b, e)));
}

static float want_by_sum(float p, float g, float divisor, float added)
{
    return p - g / (sqrtf(p) / divisor + added);
}

static ptx_val by_sum_and_its_root(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val root = ptx_rule_sqrt(b, e->p);
    ptx_val sum = ptx_add(b, e->c[ADDED], root);
    return ptx_mul(b, ptx_rule_div(b, e->g, sum), ptx_add(b, sum, root));
}

static float want_by_sum_and_its_root(float p, float g, float divisor, float added)
{
    (void)divisor;
    const float sum = added + sqrtf(p), quotient = g / sum;
    return quotient * (sum + sqrtf(p));
}

static ptx_val by_root_and_number(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val sum = ptx_add(b, ptx_rule_sqrt(b, e->p), 0.375);
    return ptx_rule_div(b, ptx_rule_div(b, e->g, sum), ptx_rule_sqrt(b, e->p));
}

static float want_by_root_and_number(float p, float g, float divisor, float added)
{
    (void)divisor, (void)added;
    const float quotient = g / (sqrtf(p) + 0.375f);
    return quotient / sqrtf(p);
}

static ptx_val by_root_and_large_number(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_rule_div(b, e->g, ptx_add(b, ptx_rule_sqrt(b, e->p), 0x1.8p126));
}

static float want_by_root_and_large_number(float p, float g, float divisor, float added)
{
    (void)divisor, (void)added;
    return g / (sqrtf(p) + 0x1.8p126f);
}

static ptx_val by_over(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_rule_div(b, e->g, sum_of(b, e));
}

static float want_by_over(float p, float g, float divisor, float added)
{
    return g / (sqrtf(p) / divisor + added);
}

// A quotient of a quotient of a root.
static ptx_val twice(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val once = ptx_rule_div(b, ptx_rule_sqrt(b, e->p), e->c[DIVISOR]);
    return ptx_rule_div(b, once, e->c[DIVISOR]);
}

static float want_twice(float p, float g, float divisor, float added)
{
    (void)g, (void)added;
    const float once = sqrtf(p) / divisor;
    return once / divisor;
}

static ptx_val by_twice(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_rule_div(b, e->g, ptx_add(b, twice(b, e), e->c[ADDED]));
}

static float want_by_twice(float p, float g, float divisor, float added)
{
    return g / (want_twice(p, g, divisor, added) + added);
}

static ptx_val by_largest(ptx_builder *b, const struct ptx_rule_element *e)
{
    return ptx_rule_div(b, e->g, largest(b, e));
}

static float want_by_largest(float p, float g, float divisor, float added)
{
    (void)divisor;
    return g / larger(sqrtf(p), added);
}

// A quotient that is NaN, or a root, and the parameter is not.
static ptx_val hidden(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val quotient = ptx_rule_div(b, e->g, sum_of(b, e));
    ptx_val chosen = ptx_select(b, ptx_gt(b, e->g, 1), quotient, e->g);
    return ptx_max(b, chosen, ptx_neg(b, ptx_rule_sqrt(b, e->p)));
}

static float want_hidden(float p, float g, float divisor, float added)
{
    return larger(g > 1 ? g / (sqrtf(p) / divisor + added) : g, -sqrtf(p));
}

// The checks of coefficients come in a block first.
static ptx_val in_block(ptx_builder *b, const struct ptx_rule_element *e)
{
    ptx_val kept = ptx_var(b, e->p);

    ptx_if (b, ptx_ge(b, e->g, 0))
        ptx_set(b, kept, ptx_rule_div(b, e->p, sum_of(b, e)));
    return ptx_add(b, ptx_copy(b, kept), ptx_rule_div(b, e->g, sum_of(b, e)));
}

static float want_in_block(float p, float g, float divisor, float added)
{
    const float sum = sqrtf(p) / divisor + added, kept = g >= 0 ? p / sum : p;
    return kept + g / sum;
}

static const struct shape shapes[] = {
    { "p - g / (root / divisor + added)", by_sum, want_by_sum },
    { "g / (added + root) * (added + root + root)", by_sum_and_its_root, want_by_sum_and_its_root },
    { "g / (root + 0.375) / root", by_root_and_number, want_by_root_and_number },
    { "g / (root + 0x1.8p126)", by_root_and_large_number, want_by_root_and_large_number },
    { "g / (root / divisor + added)", by_over, want_by_over },
    { "root / divisor / divisor", twice, want_twice },
    { "g / (root / divisor / divisor + added)", by_twice, want_by_twice },
    { "g / max(root, added)", by_largest, want_by_largest },
    { "max(g > 1 ? g / sum : g, -root)", hidden, want_hidden },
    { "in a block", in_block, want_in_block },
};

static void sum_update(ptx_builder *b, struct ptx_rule_element *e)
{
    e->new_p = ((const struct shape *)e->user)->emit(b, e);
}

static void check_shape(const float scalars[2], const void *user)
{
    const struct shape *shape = user;

    for (unsigned i = 0; i < COUNT; i++) {
        const float p = values[pair_of(i) / VALUES], g = values[pair_of(i) % VALUES];
        const float want = shape->expected(p, g, scalars[DIVISOR], scalars[ADDED]);
        if (!same(arrays[0][i], want))
            fail_msg("element %u, p %a, g %a, divisor %a, added %a: %s is %a, not %a", i, (double)p,
                     (double)g, (double)scalars[DIVISOR], (double)scalars[ADDED], shape->name,
                     (double)arrays[0][i], (double)want);
    }
}

TEST(test_edges)
{
    static const float divisors[][2] = {
        { 1 },
        { 3 },
        { 0 },
        { -0.0f },
        { -2 },
        { 0x1.fffffep-1f },
#define EACH_AROUND(x)                                                                             \
    { (x) }, { (x) * (1 - 0x1p-24f) }, { (x) * (1 + 0x1p-23f) }, { (x)*0x1.7654fp0f }
        EACH_AROUND(0x1p-120f),
        EACH_AROUND(0x1p34f),
        { 0x1p-149f },
        { 0x1p127f },
    };
    struct ptx_rule_params own = params;

    run(&own, divisors, sizeof divisors / sizeof *divisors, check_edges);
    own.user = "roots";
    run(&own, divisors, sizeof divisors / sizeof *divisors, check_edges);
}

// Divisors on both sides of 2^-13, and sums on both sides of 2^27, which the sequences rely on.
TEST(test_sums)
{
    static const float scalars[][2] = {
        { 1, 0 },
        { 0x1.99999ap-6f, 0x1.5798eep-27f },
        { 0x1p-13f, 0x1p27f },
        { 0x1.fffffep-14f, 1 },
        { 0x1p-40f, 1 },
        { 0x1p34f, 0x1.000002p27f },
        { 3, 0x1p35f },
        { 0x1p-13f, 0 },
        { 0x1.aadep33f, 0 },
        { 1, 0x1.8p126f },
        { 0x1p-40f, 0 },
        { 1, -0.0f },
        { 1, -0.5f },
        { -1, 2 },
        { 0, 1 },
    };
    struct ptx_rule_params own = { .name = "sums",
                                   .scalars = { { "divisor" }, { "added" } },
                                   .once = sum_once,
                                   .update = sum_update };

    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        own.user = (void *)&shapes[k];
        run(&own, scalars, sizeof scalars / sizeof *scalars, check_shape);
    }
}

GPU_MAIN

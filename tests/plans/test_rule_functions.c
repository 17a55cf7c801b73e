// SPDX-License-Identifier: MIT
// exp, log and pow of rules in f64: their errors, by their lists; their special cases are those of
// C; and what is emitted has the lists' bits.
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "step_fixture.h"
#include "test.h"

enum { EXP, LOG, POW, FUNCTIONS, MOST = 512, BLOCK = 128 };

static const struct {
    const char *name;
    ptx_rule_op op;
    double ulp;
} functions[] = {
    { "exp", PTX_RULE_EXP, 0.7 },
    { "log", PTX_RULE_LOG, 0.51 },
    { "pow", PTX_RULE_POW, 0.8 },
};

// ---- lists --------------------------------------------------------------------------------------

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

// The operations as rule.h describes them; predicates are 0 and 1.
static double computed(const struct ptx_rule_operation *at, const double *results,
                       const double *arguments)
{
    const double x = results[at->x], y = results[at->y], z = results[at->z];

    switch (at->op) {
    case PTX_RULE_NUMBER:
        return at->number;
    case PTX_RULE_ARGUMENT:
        return arguments[at->x];
    case PTX_RULE_ADD:
        return x + y;
    case PTX_RULE_SUB:
        return x - y;
    case PTX_RULE_MUL:
        return x * y;
    case PTX_RULE_DIV:
        return x / y;
    case PTX_RULE_FMA:
        return fma(x, y, z);
    case PTX_RULE_NEG:
        return -x;
    case PTX_RULE_ABS:
        return fabs(x);
    case PTX_RULE_TRUNC:
        return trunc(x);
    case PTX_RULE_LT:
        return x < y;
    case PTX_RULE_EQ:
        return x == y;
    case PTX_RULE_AND:
        return x != 0 && y != 0;
    case PTX_RULE_OR:
        return x != 0 || y != 0;
    case PTX_RULE_NOT:
        return x == 0;
    case PTX_RULE_SELECT:
        return x != 0 ? y : z;
    case PTX_RULE_EXPONENT:
        return (double)(bits_of(x) >> 52 & 0x7ff) - 1023;
    case PTX_RULE_SIGNIFICAND:
        return of_bits((bits_of(x) & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000));
    case PTX_RULE_POWER_OF_2:
        return of_bits(bits_of(x + (0x1.8p52 + 1023)) << 52);
    default:
        fail_msg("operation %d is not one of a function's list", (int)at->op);
        return 0;
    }
}

static double value_of(unsigned f, double x, double y)
{
    static struct ptx_rule_operation lists[FUNCTIONS][MOST];
    static uint32_t counts[FUNCTIONS];
    const double arguments[] = { x, y };
    double results[MOST] = { 0 };

    if (!counts[f]) {
        counts[f] = ptx_rule_function(functions[f].op, lists[f], MOST);
        assert_in_range(counts[f], 2, MOST);
    }
    for (uint32_t k = 0; k < counts[f]; k++)
        results[k] = computed(&lists[f][k], results, arguments);
    return results[counts[f] - 1];
}

TEST(test_lists)
{
    struct ptx_rule_operation two[3] = { { .op = PTX_RULE_G },
                                         { .op = PTX_RULE_G },
                                         { .op = PTX_RULE_G } };

    assert_int_equal(ptx_rule_function(PTX_RULE_ADD, NULL, 0), 0);
    assert_true(ptx_rule_function(PTX_RULE_POW, NULL, 0) > 100);
    assert_int_equal(ptx_rule_function(PTX_RULE_POW, two, 2),
                     ptx_rule_function(PTX_RULE_POW, NULL, 0));
    assert_int_equal(two[0].op, PTX_RULE_ARGUMENT);
    assert_int_equal(two[2].op, PTX_RULE_G);
}

// ---- errors -------------------------------------------------------------------------------------

static long double exact(unsigned f, double x, double y)
{
    return f == EXP ? expl(x) : f == LOG ? logl(x) : powl(x, y);
}

// The error in units in the last place of the exact value, those of 2^-1022 below it.
static double error_of(double got, long double want)
{
    const bool is_beyond = fabsl(want) > (long double)DBL_MAX;
    int exponent;

    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(got) || isinf(want))
        return isinf(got) && is_beyond && !signbit(got) == !signbit(want) ? 0 : INFINITY;
    if (!signbit(got) != !signbit(want) && (got != 0 || want == 0))
        return INFINITY;
    (void)frexpl(want, &exponent);
    exponent = exponent < DBL_MIN_EXP ? DBL_MIN_EXP : exponent;
    return (double)fabsl((got - want) / ldexpl(1, exponent - DBL_MANT_DIG));
}

static double between(struct random *r, double low, double high)
{
    return low + (high - low) * 0.5 * (random_unit(r) + 1);
}

// Near 0 in every order of magnitude that matters.
static double near_0(struct random *r)
{
    return ldexp(random_unit(r), -(int)random_below(r, 60));
}

static void draw(struct random *r, unsigned f, double *x, double *y)
{
    const unsigned kind = random_below(r, 4);

    *y = 0;
    if (f == EXP) {
        *x = kind ? between(r, -746, 710) : near_0(r);
    } else if (f == LOG) {
        *x = kind == 0   ? of_bits(random_u64(r) >> 1)
             : kind == 1 ? between(r, 0.5, 2)
                         : 1 + near_0(r);
    } else if (kind == 0) {
        *x = between(r, 0.7, 1.42), *y = between(r, -2200, 2200);
    } else if (kind == 1) { // betas and steps
        *x = between(r, 0, 1), *y = random_below(r, 100000);
    } else if (kind == 2) {
        *x = between(r, -20, 20), *y = (int)random_below(r, 400) - 200;
    } else { // to the ends of the results
        do
            *x = of_bits(random_u64(r) >> 1);
        while (isnan(*x));
        *y = between(r, -1.07, 1.02) * 700 / log(*x);
    }
}

TEST(test_errors)
{
    struct random r = gpu_random("functions of rules");

    if (LDBL_MANT_DIG < 64)
        skip();
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        double most[2] = { 0, 0 };
        for (unsigned k = 0; k < 100000; k++) {
            double x, y;
            draw(&r, f, &x, &y);
            const long double want = exact(f, x, y);
            const double got = value_of(f, x, y), error = error_of(got, want);
            const bool is_subnormal = f != LOG && fabsl(want) < DBL_MIN;
            if (error > (is_subnormal ? 0.8 : functions[f].ulp))
                fail_msg("%s(%a, %a) is %a, which has an error of %g units in the last place",
                         functions[f].name, x, y, got, error);
            most[is_subnormal] = fmax(most[is_subnormal], error);
        }
        print_message("%s: %.3f units in the last place, %.3f of subnormals\n", functions[f].name,
                      most[0], most[1]);
    }
}

// ---- special cases ------------------------------------------------------------------------------

static const double special[] = {
    0.0,         -0.0,         1,           -1,       2,        -2,         3,           -3,
    0.5,         -0.5,         1.5,         -1.5,     INFINITY, -INFINITY,  NAN,         0x1p-1074,
    -0x1p-1074,  0x1p-1022,    DBL_MAX,     -DBL_MAX, 0x1p53,   0x1p53 + 2, -0x1p53 - 2, 0x1p53 - 1,
    1 - 0x1p-53, -1 + 0x1p-53, 1 + 0x1p-52, 0x1p54,   1e300,
};
enum { SPECIAL = sizeof special / sizeof *special };

static double of_c(unsigned f, double x, double y)
{
    return f == EXP ? exp(x) : f == LOG ? log(x) : pow(x, y);
}

TEST(test_special)
{
    for (unsigned f = 0; f < FUNCTIONS; f++)
        for (unsigned k = 0; k < SPECIAL * SPECIAL; k++) {
            const double x = special[k / SPECIAL], y = special[k % SPECIAL];
            const double got = value_of(f, x, y), want = of_c(f, x, y);
            const bool same = isnan(want) ? isnan(got) : got == want;
            const bool close =
                isfinite(got) && isfinite(want) && want != 0 && fabs(got / want - 1) < 0x1p-51;
            if ((!same && !close) || (!isnan(want) && !signbit(got) != !signbit(want)))
                fail_msg("%s(%a, %a) is %a; C has %a", functions[f].name, x, y, got, want);
        }
}

// ---- what is emitted ----------------------------------------------------------------------------

static void build(ptx_builder *b)
{
    ptx_entry (b, "functions", .block = { BLOCK }) {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr x = ptx_param_ptr(b, PTX_F64, "x", .readonly = true, .length = "n");
        ptx_ptr y = ptx_param_ptr(b, PTX_F64, "y", .readonly = true, .length = "n");
        ptx_ptr out = ptx_param_ptr(b, PTX_F64, "out", .writeonly = true);
        ptx_val i = ptx_global_index(b, PTX_X);
        ptx_return_if(b, ptx_ge(b, i, n));
        ptx_val a = ptx_load(b, x, i), c = ptx_load(b, y, i);
        ptx_val at = ptx_mul(b, i, FUNCTIONS);
        ptx_store(b, out, ptx_add(b, at, EXP), ptx_rule_exp(b, a));
        ptx_store(b, out, ptx_add(b, at, LOG), ptx_rule_log(b, a));
        ptx_store(b, out, ptx_add(b, at, POW), ptx_rule_pow(b, a, c));
    }
}

static void launch(uint32_t n, const double *x, const double *y, double *out)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
    const size_t bytes = n * sizeof *x;

    build(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, text, NULL);
    const ptx_function *function = ptx_module_function(module, "functions");
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, (2 + FUNCTIONS) * bytes);
    const CUdeviceptr at = ptx_buffer_address(memory), to = at + bytes, results = at + 2 * bytes;
    const struct ptx_arg args[] = { PTX_ARG(n), PTX_ARG(at), PTX_ARG(to), PTX_ARG(results) };

    require(ptx_buffer_upload(memory, 0, x, bytes, gpu.stream));
    require(ptx_buffer_upload(memory, bytes, y, bytes, gpu.stream));
    require(ptx_launch(function, &(struct ptx_launch_params) { .grid = { (n - 1) / BLOCK + 1 },
                                                               .stream = gpu.stream,
                                                               .args = args,
                                                               .arg_count = 4 }));
    require_done(ptx_buffer_download(memory, 2 * bytes, out, FUNCTIONS * bytes, gpu.stream));
}

TEST(test_emitted)
{
    enum { N = 4000 };
    static double x[N], y[N], out[FUNCTIONS * N];
    struct random r = gpu_random("emitted functions of rules");

    for (unsigned k = 0; k < N; k++) {
        draw(&r, k % FUNCTIONS, &x[k], &y[k]);
        if (k < SPECIAL * SPECIAL)
            x[k] = special[k / SPECIAL], y[k] = special[k % SPECIAL];
    }
    launch(N, x, y, out);
    for (unsigned k = 0; k < FUNCTIONS * N; k++) {
        const unsigned f = k % FUNCTIONS;
        const double want = value_of(f, x[k / FUNCTIONS], y[k / FUNCTIONS]);
        if (isnan(want) ? !isnan(out[k]) : bits_of(out[k]) != bits_of(want))
            fail_msg("%s(%a, %a) is %a on the device; the list has %a", functions[f].name,
                     x[k / FUNCTIONS], y[k / FUNCTIONS], out[k], want);
    }
}

// ---- operands -----------------------------------------------------------------------------------

// Types beside f64: f32s have the functions of math.h, numbers are either.
TEST(test_operands)
{
    static const struct {
        ptx_type x, y;
        const char *words;
    } wrong[] = {
        { PTX_U32, PTX_F64, "ptx_rule_pow: x is u32; it must be f64 or f32" },
        { PTX_F64, PTX_F32, "ptx_rule_pow: x is f64 and y is f32: ptx_cvt() converts" },
        { PTX_F64, PTX_NONE, "ptx_rule_pow: y was never set" },
    };

    for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        OWNED(ptx_builder) *b = ptx_builder_create(NULL);
        ptx_entry (b, "wrong", .block = { BLOCK }) {
            ptx_val x = ptx_cvt(b, wrong[k].x, ptx_tid(b, PTX_X)), y = { 0 };
            if (wrong[k].y != PTX_NONE)
                y = ptx_cvt(b, wrong[k].y, x);
            (void)ptx_rule_pow(b, x, y);
        }
        assert_null(ptx_builder_finish(b));
        if (!strstr(ptx_builder_error(b), wrong[k].words) ||
            !strstr(ptx_builder_error(b), "test_rule_functions.c:"))
            fail_msg("%s", ptx_builder_error(b));
    }
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);
    ptx_entry (b, "right", .block = { BLOCK }) {
        ptx_val x = ptx_cvt(b, PTX_F32, ptx_tid(b, PTX_X)), y = ptx_cvt(b, PTX_F64, x);
        assert_int_equal(ptx_rule_pow(b, x, 2).type, PTX_F32);
        assert_int_equal(ptx_rule_pow(b, 2, x).type, PTX_F32);
        assert_int_equal(ptx_rule_exp(b, x).type, PTX_F32);
        assert_int_equal(ptx_rule_log(b, x).type, PTX_F32);
        assert_int_equal(ptx_rule_pow(b, y, 2).type, PTX_F64);
        assert_int_equal(ptx_rule_pow(b, 2, 0.5).type, PTX_F64);
    }
    assert_non_null(ptx_builder_finish(b));
}

// Rules as data have them in both parts.
TEST(test_program)
{
    static const struct ptx_rule_operation once[] = {
        { PTX_RULE_SCALAR, .x = 0 },      { PTX_RULE_T },
        { PTX_RULE_POW, .x = 0, .y = 1 }, { PTX_RULE_LOG, .x = 2 },
        { PTX_RULE_EXP, .x = 3 },         { PTX_RULE_SET_COEFFICIENT, .x = 4, .y = 0 },
    };
    static const struct ptx_rule_operation update[] = {
        { PTX_RULE_COEFFICIENT, .x = 0 }, { PTX_RULE_G },           { PTX_RULE_EXP, .x = 1 },
        { PTX_RULE_POW, .x = 0, .y = 2 }, { PTX_RULE_LOG, .x = 3 }, { PTX_RULE_SET_P, .x = 4 },
    };
    static const struct ptx_rule_program program = { once, update, sizeof once / sizeof *once,
                                                     sizeof update / sizeof *update };
    const struct ptx_rule_params params = { .name = "functions",
                                            .scalars = { { "lr" } },
                                            .program = &program };
    ptx_rule *rule = made(ptx_rule_create(&params));
    ptx_rule_destroy(&rule);
}

GPU_MAIN

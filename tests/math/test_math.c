// SPDX-License-Identifier: MIT
// The functions of math.h: what they refuse, special values, and the error of a sample of results.
// The results are those of the plain C of math_twin.c, to which "math emulator" holds the texts.
#include "builder_fixture.h"
#include "math_error.h"
#include "math_hashes.h"
#include "math_inputs.h"
#include "math_kernels.h"
#include "math_twin.h"

#include <inttypes.h>
#include <math.h>

// ---- the rows -----------------------------------------------------------------------------------

TEST(rows_are_in_one_order)
{
    size_t k = 0;

    assert_null(ptx_math_get_info(14)); // the first that there is not
    for (const struct ptx_math_info *row; (row = ptx_math_get_info(k)); k++) {
        assert_string_equal(row->name, math_twins[k].name);
        assert_string_equal(row->name, math_exact[k].name);
        assert_string_equal(row->name, math_hashes[k].name);
        assert_in_range(row->operands, 1, 2);
        const bool loose = !strcmp(row->name, "erfc") || row->operands == 2;
        assert_true(row->ulp >= 0.5f && row->ulp <= (loose ? 4 : 2));
        assert_true(strlen(row->meaning) > 2 && strlen(row->source) > 5);
    }
    assert_int_equal(k, 14);
    assert_null(math_twins[k].name);
    assert_null(ptx_math_get_info(SIZE_MAX));
}

// ---- texts --------------------------------------------------------------------------------------

TEST(only_exact_instructions)
{
    static const char *const not_these[] = { ".approx", ".ftz", ".f64", ".full", "%fd" };

    OWNED(ptx_builder) *b = builder_at(70);
    math_kernels(b);
    const char *text = finished(b);
    for (size_t k = 0; k < sizeof not_these / sizeof *not_these; k++)
        assert_null(strstr(text, not_these[k]));
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

// A result that nothing uses, one of a number, of an immediate, of a variable and in a loop.
TEST(any_f32_is_an_operand)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val x = ptx_var(b, ptx_f32(1));
        ptx_val root = ptx_math_rsqrt(b, 4);
        ptx_store(b, out, 0, root);
        ptx_store(b, out, 1, ptx_math_pow(b, ptx_f32(2), 0.5));
        ptx_for (b, i, ptx_u32(0), ptx_u32(9), ptx_u32(1)) {
            ptx_set(b, x, ptx_math_sin(b, x));
            ptx_store(b, out, i, ptx_math_exp(b, ptx_math_log(b, x)));
        }
        ptx_math_tanh(b, x);
    }
    assert_true(lines(finished(b)) > 100);
}

// A call leaves its operand as it was, and later changes of a variable leave the result.
TEST(a_result_is_a_new_value)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val x = ptx_var(b, ptx_f32(0.25));
        ptx_val y = ptx_math_expm1(b, x);
        assert_int_not_equal(y.reg, x.reg);
        assert_int_not_equal(y.kind, PTX_KIND_VARIABLE);
        ptx_store(b, out, 0, y);
    }
    finished(b);
}

#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

TEST(other_types_are_refused)
{
    REFUSED(ptx_math_exp(b, u), "test_math.c:", "ptx_math_exp", "x is u32", "must be f32");
    REFUSED(ptx_math_sin(b, h), "ptx_math_sin", "x is f16", "ptx_cvt()");
    REFUSED(ptx_math_erf(b, p), "ptx_math_erf", "x is pred");
    REFUSED(ptx_math_log(b, ptx_f64(1)), "ptx_math_log", "x is f64");
    REFUSED(ptx_math_pow(b, u, f), "ptx_math_pow", "x is u32");
    REFUSED(ptx_math_pow(b, f, u), "ptx_math_pow", "y is u32");
    REFUSED(ptx_math_pow(b, f, ptx_s32(2)), "ptx_math_pow", "y is s32");
}

TEST(values_that_are_none_are_refused)
{
    const ptx_val nothing = { 0 };
    REFUSED(ptx_math_cos(b, nothing), "ptx_math_cos", "x");
    REFUSED(ptx_math_pow(b, f, nothing), "ptx_math_pow", "y");
    REFUSED(ptx_math_exp2(b, 1e300), "ptx_math_exp2", "x");
    ptx_val ended = nothing;
    REFUSED(
        {
            ptx_if (b, p)
                ended = ptx_math_log2(b, f);
            ptx_math_log1p(b, ended);
        },
        "ptx_math_log1p", "block");
    ptx_builder *b = builder_at(80);
    ptx_math_sigmoid(b, ptx_f32(1));
    EXPECT_ERROR(b, "ptx_math_sigmoid", "no open entry");
    assert_int_equal(ptx_math_erfc(NULL, ptx_f32(1)).kind, PTX_KIND_POISON);
}

// The first error stays, and a refused call writes nothing.
TEST(a_refused_call_writes_nothing)
{
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val u = ptx_var(b, ptx_u32(1));
        ptx_val bad = ptx_math_exp(b, u);
        assert_int_equal(bad.kind, PTX_KIND_POISON);
        ptx_math_pow(b, bad, bad);
    }
    EXPECT_ERROR(b, "ptx_math_exp");
}

// ---- special values -----------------------------------------------------------------------------

enum { INF = 0x7f800000, MINUS = (int)0x80000000u, NAN_ = 0x7fffffff, ONE = 0x3f800000 };

static const struct math_twin *twin(const char *name)
{
    const struct math_twin *t = math_twins;
    while (strcmp(t->name, name) != 0)
        t++;
    return t;
}

static uint32_t result(const char *name, uint32_t x, uint32_t y)
{
    const float a = math_value(x), b = math_value(y);
    float out;

    twin(name)->many(&a, &b, &out, 1);
    return math_bits(out);
}

TEST(special_values)
{
    // +0, -0, the least subnormal, infinity, -infinity, NaN, -NaN, -1
    static const uint32_t x[] = { 0,          0x80000000, 1,          INF,
                                  0xff800000, 0x7f800001, 0xffc00000, 0xbf800000 };
    static const struct {
        const char *name;
        uint32_t result[7]; // of those up to -NaN
    } rows[] = {
        { "exp", { ONE, ONE, ONE, INF, 0, NAN_, NAN_ } },
        { "exp2", { ONE, ONE, ONE, INF, 0, NAN_, NAN_ } },
        { "expm1", { 0, 0x80000000, 1, INF, 0xbf800000, NAN_, NAN_ } },
        { "log", { 0xff800000, 0xff800000, 0xc2ce8ed0, INF, NAN_, NAN_, NAN_ } },
        { "log2", { 0xff800000, 0xff800000, 0xc3150000, INF, NAN_, NAN_, NAN_ } },
        { "log1p", { 0, 0x80000000, 1, INF, NAN_, NAN_, NAN_ } },
        { "sin", { 0, 0x80000000, 1, NAN_, NAN_, NAN_, NAN_ } },
        { "cos", { ONE, ONE, ONE, NAN_, NAN_, NAN_, NAN_ } },
        { "tanh", { 0, 0x80000000, 1, ONE, 0xbf800000, NAN_, NAN_ } },
        { "sigmoid", { 0x3f000000, 0x3f000000, 0x3f000000, ONE, 0, NAN_, NAN_ } },
        { "erf", { 0, 0x80000000, 1, ONE, 0xbf800000, NAN_, NAN_ } },
        { "erfc", { ONE, ONE, ONE, 0, 0x40000000, NAN_, NAN_ } },
        { "rsqrt", { INF, 0xff800000, 0x64b504f3, 0, NAN_, NAN_, NAN_ } },
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t v = 0; v < 7; v++)
            if (result(rows[k].name, x[v], 0) != rows[k].result[v])
                fail_msg("%s(%a) is %08" PRIx32 ", not %08" PRIx32, rows[k].name,
                         (double)math_value(x[v]), result(rows[k].name, x[v], 0),
                         rows[k].result[v]);
    assert_int_equal(result("log1p", 0xbf800000, 0), 0xff800000); // -1
    assert_int_equal(result("log", 0xbf800000, 0), NAN_);
    assert_int_equal(result("rsqrt", 0xbf800000, 0), NAN_);
    assert_int_equal(result("exp2", 0x42fe0000, 0), 0x7f000000); // powers of 2 are exact
    assert_int_equal(result("exp2", 0xc3150000, 0), 1);
    assert_int_equal(result("log2", 0x7f000000, 0), 0x42fe0000);
    assert_int_equal(result("exp", 0x42b17217, 0), 0x7f7fff84); // the last finite result
    assert_int_equal(result("exp", 0x42b17218, 0), INF);
    assert_int_equal(result("erfc", 0x41200000, 0), 1);
    assert_int_equal(result("sigmoid", 0xc2cff1b4, 0), 1);
}

// pow by IEEE 754-2019, 9.2.1.
TEST(special_powers)
{
    static const struct {
        uint32_t x, y, result;
    } rows[] = {
        { NAN_, 0, ONE },
        { NAN_, 0x80000000, ONE },
        { 0xff800000, 0, ONE },
        { 0, 0x80000000, ONE },
        { ONE, NAN_, ONE },
        { ONE, INF, ONE },
        { ONE, 0xff800000, ONE },
        { 0xbf800000, INF, ONE },
        { 0xbf800000, 0xff800000, ONE },
        { 0xbf800000, NAN_, NAN_ },
        { NAN_, ONE, NAN_ },
        { 0xffc00001, 0x40000000, NAN_ },
        { 0x40000000, 0xffc00001, NAN_ },
        // 0 to odd, even and other powers
        { 0, 0x40400000, 0 },
        { 0x80000000, 0x40400000, 0x80000000 },
        { 0x80000000, 0x40000000, 0 },
        { 0x80000000, 0x3f000000, 0 },
        { 0, 0xc0400000, INF },
        { 0x80000000, 0xc0400000, 0xff800000 },
        { 0x80000000, 0xc0000000, INF },
        { 0x80000000, 0xbf000000, INF },
        { 0x80000000, 0xff800000, INF },
        { 0x80000000, INF, 0 },
        { 0x80000000, 0x4b800000, 0 },          // 2^24 is even
        { 0x80000000, 0x4b7fffff, 0x80000000 }, // 2^24 - 1 is odd
        // to infinite powers
        { 0x3f000000, INF, 0 },
        { 0x3f000000, 0xff800000, INF },
        { 0xc0000000, INF, INF },
        { 0xc0000000, 0xff800000, 0 },
        { 0x3f7fffff, INF, 0 },
        { 0x3f800001, 0xff800000, 0 },
        // of infinity
        { INF, 0x3f000000, INF },
        { INF, 0xbf000000, 0 },
        { 0xff800000, 0x40400000, 0xff800000 },
        { 0xff800000, 0x40000000, INF },
        { 0xff800000, 0x3f000000, INF },
        { 0xff800000, 0xc0400000, 0x80000000 },
        { 0xff800000, 0xc0000000, 0 },
        { 0xff800000, 0xbf000000, 0 },
        { 0xff800000, INF, INF },
        // of negative numbers
        { 0xc0000000, 0x3f000000, NAN_ },
        { 0xc0000000, 0x00000001, NAN_ },
        { 0xbf800000, 0x3f000000, NAN_ },
        { 0xc0000000, 0x40400000, 0xc1000000 },
        { 0xc0000000, 0x40000000, 0x40800000 },
        { 0xc0000000, 0xc0400000, 0xbe000000 },
        // limits of the results
        { 0x40000000, 0x43000000, INF },
        { 0x40000000, 0xc3150000, 1 },
        { 0x40000000, 0xc3170000, 0 },
        { 0xc0000000, 0x43010000, 0xff800000 },
        { 0xc0000000, 0xc3170000, 0x80000000 },
        { 1, 0x3f000000, 0x1a3504f3 },
        { 1, ONE, 1 },
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (result("pow", rows[k].x, rows[k].y) != rows[k].result)
            fail_msg("pow(%a, %a) is %08" PRIx32 ", not %08" PRIx32, (double)math_value(rows[k].x),
                     (double)math_value(rows[k].y), result("pow", rows[k].x, rows[k].y),
                     rows[k].result);
}

// Odd and even functions are so in every bit.
TEST(symmetries)
{
    static const char *const odd[] = { "sin", "tanh", "erf" };

    for (uint64_t x = 1; x < INF; x += 99991) {
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(result(odd[k], (uint32_t)x, 0) ^ 0x80000000,
                             result(odd[k], (uint32_t)x | 0x80000000, 0));
        assert_int_equal(result("cos", (uint32_t)x, 0), result("cos", (uint32_t)x | 0x80000000, 0));
    }
}

// ---- errors -------------------------------------------------------------------------------------

enum { BLOCK = 1 << 12 };

// The inputs of math_sweep, every MATH_SAMPLE_STEP-th of them: its hash, and its bound.
static void check_sample(size_t row)
{
    static float x[BLOCK], y[BLOCK], out[BLOCK];
    static double exact[BLOCK], error[BLOCK];
    const struct ptx_math_info *info = ptx_math_get_info(row);
    uint64_t hash = 0, i = 0;

    while (i < UINT64_C(1) << 32) {
        size_t n = 0;
        for (; n < BLOCK && i < UINT64_C(1) << 32; n++, i += MATH_SAMPLE_STEP) {
            uint32_t a = (uint32_t)i, b = 0;
            if (info->operands == 2)
                math_pair(i, &a, &b);
            x[n] = math_value(a);
            y[n] = math_value(b);
        }
        math_twins[row].many(x, y, out, n);
        math_exact[row].many(x, y, exact, n);
        math_errors(out, exact, error, n);
        for (size_t k = 0; k < n; k++) {
            hash += math_hash(math_bits(x[k]), math_bits(y[k]), math_bits(out[k]));
            if (error[k] > (double)info->ulp)
                fail_msg("%s(%a, %a) is %a, not %a: %f ulp", info->name, (double)x[k], (double)y[k],
                         (double)out[k], exact[k], error[k]);
        }
    }
    if (hash != math_hashes[row].sample)
        fail_msg("%s: the hash of the sample is %016" PRIx64 ", not %016" PRIx64, info->name, hash,
                 math_hashes[row].sample);
}

TEST(errors_of_a_sample)
{
    for (size_t row = 0; ptx_math_get_info(row); row++)
        check_sample(row);
}

// What the bounds are measured with tells wrong from right.
TEST(the_measure_of_errors)
{
    static const struct {
        uint32_t result;
        double exact, error;
    } rows[] = {
        { ONE, 1, 0 },
        { ONE, 1 + 0x1p-24, 0.5 },
        { 0x3f800001, 1, 1 },
        { 0x3f7fffff, 1, 0.5 },
        { 0xbf800000, -1 - 0x1p-22, 2 },
        { 1, 0x1p-150, 0.5 },
        { 0, 0x1p-149, 1 },
        { INF, 0x1.fffffep127, 1 },
        { INF, 1e300, 0 },
        { 0x7f7fffff, 1e300, 1 },
        { 0xff800000, -(double)INFINITY, 0 },
        { 0, 0, 0 },
        { 0x80000000, 0, (double)INFINITY },
        { 0, -0.0, (double)INFINITY },
        { NAN_, (double)NAN, 0 },
        { 0x7fc00000, (double)NAN, (double)INFINITY },
        { 0xffffffff, (double)NAN, (double)INFINITY },
        { NAN_, 1, (double)INFINITY },
        { ONE, (double)NAN, (double)INFINITY },
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const float found = math_value(rows[k].result);
        double error;
        math_errors(&found, &rows[k].exact, &error, 1);
        if (error != rows[k].error)
            fail_msg("%a for %a is %f ulp, not %f", (double)found, rows[k].exact, error,
                     rows[k].error);
    }
}

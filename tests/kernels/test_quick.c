// SPDX-License-Identifier: MIT
// Quotients and roots without branches: where they do not fail, they are those of IEEE 754.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "gpu.h"
#include "kernels/common/division.h"
#include "kernels/step/quick.h"
#include "reference/half.h"
#include "test.h"

enum { MOST = 1 << 24, BLOCK = 128 };

// ---- the sequence of a root ---------------------------------------------------------------------

static float root(float x, float y)
{
    const float s = x * y, h = y * 0.5f;

    return fmaf(fmaf(-s, s, x), h, s);
}

// Every significand, with exponents of both parities, from the nearest reciprocal root.
TEST(test_sequence_of_a_root)
{
    for (uint32_t k = 0; k < 1 << 24; k++) {
        const float x = f32_of_bits((127u << 23) + k), y = (float)(1 / sqrt((double)x));
        if (root(x, y) != sqrtf(x))
            fail_msg("sqrt(%a) is wrong from %a", (double)x, (double)y);
    }
}

// ---- the kernels --------------------------------------------------------------------------------

static ptx_val element(ptx_builder *b, ptx_ptr *x, ptx_ptr *y, ptx_ptr *out, ptx_ptr *failed)
{
    ptx_val n = ptx_param(b, PTX_U32, "n");
    *x = ptx_param_ptr(b, PTX_F32, "x", .readonly = true, .length = "n");
    *y = ptx_param_ptr(b, PTX_F32, "y", .readonly = true, .length = "n");
    *out = ptx_param_ptr(b, PTX_F32, "out", .writeonly = true, .length = "n");
    *failed = ptx_param_ptr(b, PTX_U32, "failed", .writeonly = true, .length = "n");
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val i = ptx_mad(b, block, ptx_u32(BLOCK), ptx_tid(b, PTX_X));
    ptx_return_if(b, ptx_ge(b, i, n));
    return i;
}

static void build(ptx_builder *b)
{
    ptx_ptr x, y, out, failed;

    ptx_entry (b, "quotient", .block = { BLOCK }) {
        ptx_val i = element(b, &x, &y, &out, &failed);
        struct ptxk_quick quick = ptxk_quick_begin();
        ptx_val dividend = ptx_load(b, x, i);
        ptx_val q = ptxk_quick_div(b, &quick, dividend, ptx_load(b, y, i));
        ptxk_quick_note(b, &quick, q);
        ptx_store(b, out, i, q);
        ptx_val bad = ptxk_quick_failed(b, &quick);
        ptx_store(b, failed, i, ptx_select(b, bad, ptx_u32(1), ptx_u32(0)));
    }
    ptx_entry (b, "root", .block = { BLOCK }) {
        ptx_val i = element(b, &x, &y, &out, &failed);
        ptx_val divisor = ptx_load(b, y, i);
        ptx_val reciprocal = ptx_rcp(b, divisor);
        ptx_val rest = ptx_fma(b, ptx_neg(b, divisor), reciprocal, ptx_f32(1.0f));
        const struct ptxk_quick_divisor by = { divisor, reciprocal, ptx_mul(b, rest, reciprocal) };
        struct ptxk_quick quick = ptxk_quick_begin();
        ptx_val root = ptxk_quick_root(b, ptx_load(b, x, i));
        ptx_val r = ptxk_quick_root_over(b, root, &by);
        ptxk_quick_note(b, &quick, r);
        ptx_store(b, out, i, r);
        ptx_val bad = ptxk_quick_failed(b, &quick);
        ptx_store(b, failed, i, ptx_select(b, bad, ptx_u32(1), ptx_u32(0)));
    }
    ptx_entry (b, "reciprocal", .block = { BLOCK }) { // of x; y: what it must be
        ptx_val i = element(b, &x, &y, &out, &failed);
        ptx_val r = ptxk_quick_rcp(b, ptx_load(b, x, i));
        ptx_store(b, out, i, r);
        ptx_val bad = ptx_neu(b, r, ptx_load(b, y, i));
        ptx_store(b, failed, i, ptx_select(b, bad, ptx_u32(1), ptx_u32(0)));
    }
    ptx_entry (b, "exact", .block = { BLOCK }) { // never fails
        ptx_val i = element(b, &x, &y, &out, &failed);
        const struct divisor by = ptxk_divisor_of_many(b, ptx_load(b, y, i), PTX_F32, false);
        const struct divisors all = { { &by } };
        const ptx_vec q = ptxk_quotients(b, &all, ptx_load_vec(b, x, i, 1));
        ptx_store(b, out, i, q.lane[0]);
        ptx_store(b, failed, i, ptx_u32(0));
    }
}

// ---- runs ---------------------------------------------------------------------------------------

enum { X, Y, OUT, FAILED, ARRAYS };

struct run {
    uint32_t n;
    uint32_t *bits[ARRAYS];
};

static void run_create(struct run *r, uint32_t n)
{
    r->n = n;
    for (unsigned a = 0; a < ARRAYS; a++) {
        r->bits[a] = malloc((n + 1) * sizeof *r->bits[a]);
        assert_non_null(r->bits[a]);
    }
}

static void run_destroy(struct run *r)
{
    for (unsigned a = 0; a < ARRAYS; a++)
        free(r->bits[a]);
}

static void launch(struct run *r, const char *entry)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
    const size_t bytes = r->n * sizeof(uint32_t);
    CUdeviceptr at[ARRAYS];
    ptx_buffer *buffer[ARRAYS];

    build(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, text, NULL);
    const ptx_function *function = ptx_module_function(module, entry);
    assert_non_null(function);
    for (unsigned a = 0; a < ARRAYS; a++) {
        buffer[a] = ptx_buffer_create(gpu.device, bytes);
        at[a] = ptx_buffer_address(buffer[a]);
        if (a < OUT)
            assert_int_equal(ptx_buffer_upload(buffer[a], 0, r->bits[a], bytes, gpu.stream),
                             PTX_OK);
    }
    const struct ptx_arg args[] = { PTX_ARG(r->n), PTX_ARG(at[X]), PTX_ARG(at[Y]), PTX_ARG(at[OUT]),
                                    PTX_ARG(at[FAILED]) };
    const struct ptx_launch_params params = { .grid = { (r->n - 1) / BLOCK + 1 },
                                              .stream = gpu.stream,
                                              .args = args,
                                              .arg_count = sizeof args / sizeof *args };
    assert_int_equal(ptx_launch(function, &params), PTX_OK);
    for (unsigned a = OUT; a < ARRAYS; a++)
        assert_int_equal(ptx_buffer_download(buffer[a], 0, r->bits[a], bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    for (unsigned a = 0; a < ARRAYS; a++)
        ptx_buffer_destroy(&buffer[a]);
}

static float value(const struct run *r, unsigned array, uint32_t i)
{
    return f32_of_bits(r->bits[array][i]);
}

// ---- quotients ----------------------------------------------------------------------------------

static void check_quotient(const struct run *r, uint32_t i, bool must_hold)
{
    const float x = value(r, X, i), y = value(r, Y, i), out = value(r, OUT, i);

    if (must_hold && r->bits[FAILED][i])
        fail_msg("%a / %a fails", (double)x, (double)y);
    if (!r->bits[FAILED][i] && bits_of_f32(out) != bits_of_f32(x / y))
        fail_msg("%a / %a is %a, not %a", (double)x, (double)y, (double)out, (double)(x / y));
}

// A number of a random significand and sign, and of an exponent from `least`, one of `count`.
static uint32_t number(struct random *r, int least, uint32_t count, bool positive)
{
    const uint32_t exponent = (uint32_t)(127 + least) + random_below(r, count);
    return (positive ? 0 : random_below(r, 2) << 31) | exponent << 23 | random_below(r, 1 << 23);
}

TEST(test_quotients)
{
    struct random random = gpu_random("quotients");
    struct run r;

    run_create(&r, gpu.max_size < MOST ? (uint32_t)gpu.max_size : MOST);
    for (uint32_t i = 0; i < r.n; i++) {
        r.bits[X][i] = i % 8 ? number(&random, -90, 100, false) : 0;
        r.bits[Y][i] = number(&random, -80, 114, true);
    }
    launch(&r, "quotient");
    for (uint32_t i = 0; i < r.n; i++)
        check_quotient(&r, i, true);
    run_destroy(&r);
}

// Dividends of any bits, and divisors down to 0; most are small, where remainders underflow.
TEST(test_any_quotient)
{
    struct random random = gpu_random("any quotient");
    uint32_t failed = 0;
    struct run r;

    run_create(&r, gpu.max_size < 1 << 18 ? (uint32_t)gpu.max_size : 1 << 18);
    data_fill(&random, REF_F32, DATA_SPECIAL, r.bits[X], r.n);
    data_fill(&random, REF_F32, DATA_SPECIAL, r.bits[Y], r.n);
    for (uint32_t i = 0; i < r.n; i++) {
        if (i % 2)
            r.bits[X][i] = number(&random, -127, 60, false);
        r.bits[Y][i] &= 0x7fffffff;
        if (i % 4 == 3 || value(&r, Y, i) > 0x1p34f)
            r.bits[Y][i] = number(&random, -127, 161, true);
    }
    launch(&r, "quotient");
    for (uint32_t i = 0; i < r.n; i++) {
        check_quotient(&r, i, false);
        failed += r.bits[FAILED][i];
    }
    assert_in_range(failed, r.n / 16, r.n - r.n / 16);
    run_destroy(&r);
}

// The inverse of an odd number modulo 2^64.
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t inverse = 1;

    for (int k = 0; k < 6; k++)
        inverse *= 2 - odd * inverse;
    return inverse;
}

// Numbers whose quotient is as near to a boundary of rounding as those of significands can be: with
// x 2^s = m y + k, m odd in [2^24, 2^25) and k at most 9, it is k / (2 y) of its last bit away.
// What is farther than 6 cannot be rounded wrongly: the error before the last rounding is less.
static void fill_hard(struct random *random, uint32_t *x, uint32_t *y)
{
    for (;;) {
        const uint64_t divisor = 1 << 23 | random_below(random, 1 << 23) | 1;
        const uint64_t rest = 2 * (uint64_t)random_below(random, 10) - 9; // modulo 2^64
        const unsigned s = 24 + random_below(random, 2);
        const uint64_t m =
            ((0 - rest) * inverse_of(divisor) & ((UINT64_C(1) << s) - 1)) | (s == 24 ? 1 << 24 : 0);
        const uint64_t dividend = (m * divisor + rest) >> s;
        if (m < 1 << 24 || dividend < 1 << 23 || dividend >= 1 << 24)
            continue;
        *x = ((uint32_t)(127 - 40) + random_below(random, 80)) << 23 | (dividend & 0x7fffff);
        *y = ((uint32_t)(127 - 59) + random_below(random, 118)) << 23 | (divisor & 0x7fffff);
        return;
    }
}

// Quotients for many dividends: hard ones, and those of any bits and signs.
TEST(test_exact_quotients)
{
    struct random random = gpu_random("exact quotients");
    struct run r;

    run_create(&r, gpu.max_size < MOST ? 1 << 15 : 1 << 22);
    data_fill(&random, REF_F32, DATA_SPECIAL, r.bits[X], r.n);
    data_fill(&random, REF_F32, DATA_SPECIAL, r.bits[Y], r.n);
    for (uint32_t i = 0; i < r.n; i++)
        if (i % 4)
            fill_hard(&random, &r.bits[X][i], &r.bits[Y][i]);
    launch(&r, "exact");
    for (uint32_t i = 0; i < r.n; i++) {
        const float wanted = value(&r, X, i) / value(&r, Y, i);
        if (isnan(wanted) ? !isnan(value(&r, OUT, i)) : r.bits[OUT][i] != bits_of_f32(wanted))
            fail_msg("%a / %a is %a, not %a", (double)value(&r, X, i), (double)value(&r, Y, i),
                     (double)value(&r, OUT, i), (double)wanted);
    }
    run_destroy(&r);
}

// ---- reciprocals --------------------------------------------------------------------------------

// Every significand, with exponents from the least to the greatest that it is for.
TEST(test_reciprocals)
{
    struct random random = gpu_random("reciprocals");
    struct run r;

    run_create(&r, gpu.max_size < MOST ? (uint32_t)gpu.max_size : MOST);
    for (uint32_t i = 0; i < r.n; i++) {
        const uint32_t k = r.n == MOST ? i : i < 4 ? i / 2 - i % 2 : random_below(&random, MOST);
        const uint32_t exponent = i % 2 ? 127 : 2 + random_below(&random, 250);
        r.bits[X][i] = exponent << 23 | (k & 0x7fffff);
        r.bits[Y][i] = bits_of_f32(1 / value(&r, X, i));
    }
    launch(&r, "reciprocal");
    for (uint32_t i = 0; i < r.n; i++)
        if (r.bits[FAILED][i])
            fail_msg("1 / %a is %a", (double)value(&r, X, i), (double)value(&r, OUT, i));
    run_destroy(&r);
}

// ---- roots --------------------------------------------------------------------------------------

static void check_root(const struct run *r, uint32_t i, bool must_hold)
{
    const float x = value(r, X, i), y = value(r, Y, i), out = value(r, OUT, i);
    const float wanted = sqrtf(x) / y;

    if (must_hold && r->bits[FAILED][i])
        fail_msg("sqrt(%a) / %a fails", (double)x, (double)y);
    if (!r->bits[FAILED][i] && out != wanted * PTXK_QUICK_SCALE)
        fail_msg("sqrt(%a) / %a is %a, not %a", (double)x, (double)y,
                 (double)(out / PTXK_QUICK_SCALE), (double)wanted);
}

// Every significand with exponents of both parities, over a divisor of a second moment.
TEST(test_roots)
{
    struct random random = gpu_random("roots");
    struct run r;

    run_create(&r, gpu.max_size < MOST ? (uint32_t)gpu.max_size : MOST);
    for (uint32_t i = 0; i < r.n; i++) {
        const uint32_t k = r.n == MOST ? i : random_below(&random, MOST);
        r.bits[X][i] = ((uint32_t)(126 - i % 40 * 2) << 23) + k;
        r.bits[Y][i] = number(&random, -12, 12, true);
    }
    launch(&r, "root");
    for (uint32_t i = 0; i < r.n; i++)
        check_root(&r, i, true);
    run_destroy(&r);
}

TEST(test_any_root)
{
    struct random random = gpu_random("any root");
    struct run r;

    run_create(&r, gpu.max_size < 1 << 18 ? (uint32_t)gpu.max_size : 1 << 18);
    data_fill(&random, REF_F32, DATA_SPECIAL, r.bits[X], r.n);
    for (uint32_t i = 0; i < r.n; i++) {
        if (i % 4 == 0)
            r.bits[X][i] &= 0x007fffff;
        r.bits[Y][i] = i % 2 ? bits_of_f32(1.0f) : number(&random, -12, 12, true);
    }
    launch(&r, "root");
    for (uint32_t i = 0; i < r.n; i++) {
        const float x = value(&r, X, i);
        const bool holds = !signbit(x) && x < 0x1p40f;
        check_root(&r, i, holds);
        if (!holds && !r.bits[FAILED][i])
            fail_msg("sqrt(%a) does not fail", (double)x);
    }
    run_destroy(&r);
}

GPU_MAIN

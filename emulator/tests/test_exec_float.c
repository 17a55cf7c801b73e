// SPDX-License-Identifier: MIT
// Instructions of f32 that the builder does not write, compared with the exact value, which is the
// unevaluated sum of two doubles. `op record emulator` has the others, with an H200's bits.
#include "apply.h"
#include "reference/half.h"

#include <float.h>
#include <math.h>

static const uint64_t singles[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
    0x3f000000, 0x3fc00000, 0xc0200000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
    0xffc01234, 0x7f800001, 0x33800000, 0x33800001, 0x3f7fffff, 0x3f800001, 0x3eaaaaab, 0x00ffffff,
};
static const char *const modes[] = { "rn", "rz", "rm", "rp" };

// high + low is exact; high is their rounded sum.
struct exact {
    double high, low;
};

static struct exact sum_of(double x, double y)
{
    double s = x + y, part = s - x;
    return (struct exact) { s, isfinite(s) ? (x - (s - part)) + (y - part) : 0 };
}

static int compare(double x, struct exact e)
{
    if (x != e.high)
        return x < e.high ? -1 : 1;
    return e.low > 0 ? -1 : e.low < 0;
}

// The value beyond the largest float counts as 2^128 when distances are compared.
static double as_number(float x)
{
    return isinf(x) ? copysign(0x1p128, (double)x) : (double)x;
}

// The f32 of the exact value, which is not zero.
static float rounded(struct exact e, unsigned mode)
{
    float down = (float)e.high < INFINITY ? (float)e.high : FLT_MAX;
    while (down > -INFINITY && compare(as_number(down), e) > 0)
        down = nextafterf(down, -INFINITY);
    for (float next = nextafterf(down, INFINITY); down < INFINITY;
         next = nextafterf(down, INFINITY)) {
        if (isinf(next) || compare(as_number(next), e) > 0)
            break;
        down = next;
    }
    if (compare(as_number(down), e) == 0 && !isinf(down))
        return down;
    float up = nextafterf(down, INFINITY);
    bool negative = e.high < 0 || (e.high == 0 && e.low < 0);
    if (mode == 1)
        mode = negative ? 3 : 2;
    if (mode == 2)
        return down;
    if (mode == 3)
        return up == 0 && negative ? -0.0f : up;
    double middle = (as_number(down) + as_number(up)) / 2;
    int side = compare(middle, e);
    float r = side < 0 ? up : side > 0 ? down : bits_of_f32(down) & 1 ? up : down;
    return r == 0 && negative ? -0.0f : r;
}

enum op { ADD, SUB, MUL, FMA };
static const char *const names[] = { "add", "sub", "mul", "fma" };

static uint32_t wanted(enum op op, unsigned mode, float x, float y, float z)
{
    if (op == SUB)
        y = -y;
    if (op == ADD || op == SUB) {
        z = y;
        y = 1;
    }
    double p = (double)x * (double)y; // exact
    double simple = op == MUL ? p : p + (double)z;
    if (isnan(simple))
        return 0x7fffffff;
    if (isinf(simple))
        return bits_of_f32((float)simple);
    struct exact e = op == MUL ? (struct exact) { p, 0 } : sum_of(p, (double)z);
    if (e.high == 0 && e.low == 0) {
        bool both = op == MUL || (signbit(p) != 0) == (signbit(z) != 0);
        bool negative = both ? signbit(p) : mode == 2;
        return negative ? 0x80000000 : 0;
    }
    return bits_of_f32(rounded(e, mode));
}

// What min and max give for two bit patterns, which are NaN or numbers.
static uint32_t extreme(bool greatest, bool nan, uint32_t a, uint32_t b)
{
    const float x = f32_of_bits((uint32_t)a), y = f32_of_bits((uint32_t)b);
    if ((isnan(x) && isnan(y)) || (nan && (isnan(x) || isnan(y))))
        return 0x7fffffff;
    if (isnan(x) || isnan(y))
        return isnan(x) ? b : a;
    if (x == y)
        return greatest ? a & b : a | b;
    return (x < y) == !greatest ? a : b;
}

// Of magnitudes, with the sign of a product, and of three numbers.
EMULATOR_TEST(magnitudes)
{
    static const struct {
        const char *name;
        bool greatest, nan, sign, three, abs;
    } all[] = {
        { "min.xorsign.abs.f32", false, false, true, false, true },
        { "max.xorsign.abs.f32", true, false, true, false, true },
        { "min.NaN.xorsign.abs.f32", false, true, true, false, true },
        { "max.NaN.xorsign.abs.f32", true, true, true, false, true },
        { "min.f32", false, false, false, true, false },
        { "max.f32", true, false, false, true, false },
        { "min.NaN.f32", false, true, false, true, false },
        { "max.NaN.abs.f32", true, true, false, true, true },
        { "min.abs.f32", false, false, false, true, true },
    };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    e->target = ".version 8.8\n.target sm_100";
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
        struct apply a = { all[k].name, 32, { 32, 32, all[k].three ? 32 : 0 } };
        apply_inputs(in, singles, 24, 32, k);
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            const uint32_t keep = all[k].abs ? 0x7fffffff : 0xffffffff;
            const uint32_t x = (uint32_t)in[0][i], y = (uint32_t)in[1][i];
            uint32_t want = extreme(all[k].greatest, all[k].nan, x & keep, y & keep);
            if (all[k].three)
                want = extreme(all[k].greatest, all[k].nan, want, (uint32_t)in[2][i] & keep);
            if (all[k].sign && !isnan(f32_of_bits((uint32_t)want)))
                want |= (x ^ y) & 0x80000000;
            if ((uint32_t)out[i] != want)
                fail_msg("%s of %08x, %08x: %08x, not %08x", all[k].name, (unsigned)x, (unsigned)y,
                         (unsigned)out[i], (unsigned)want);
        }
    }
}

static uint32_t flushed(uint32_t x)
{
    return x & 0x7f800000 ? x : x & 0x80000000;
}

// Flushes as an H200 does: a result that is below 2^-126 when it is rounded with an unbounded
// exponent. Computed here at 2^64 times the size.
static uint32_t flushed_result(unsigned op, unsigned mode, float x, float y, float z)
{
    uint32_t result = wanted(op, mode, x, y, z);
    float up = 0x1p64f;
    if ((result & 0x7fffffff) != 0x00800000 || op < MUL)
        return flushed(result);
    if (fabsf(x) < 1)
        x *= up;
    else
        y *= up;
    float large = f32_of_bits((uint32_t)wanted(op, mode, x, y, z * up));
    return fabsf(large) < 0x1p-62f ? result & 0x80000000 : result;
}

// Each half of .f32x2 is an f32: the corner values of one beside those of the other.
EMULATOR_TEST(pairs_of_f32)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    e->target = ".version 8.6\n.target sm_100";
    for (unsigned k = 0; k < 32; k++) {
        const unsigned op = k / 8, mode = k / 2 % 4;
        const bool ftz = k % 2;
        char name[32];
        snprintf(name, sizeof(name), "%s.%s%s.f32x2", names[op], modes[mode], ftz ? ".ftz" : "");
        struct apply a = { name, 64, { 64, 64, op == FMA ? 64 : 0 } };
        apply_inputs(in, singles, 24, 32, k + 1);
        for (unsigned n = 0; n < 3; n++)
            for (unsigned i = 0; i < APPLY_COUNT; i++)
                in[n][i] |= in[n][(i * 5 + 1) % APPLY_COUNT] << 32;
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < 2 * APPLY_COUNT; i++) {
            uint32_t x[3];
            for (unsigned n = 0; n < 3; n++)
                x[n] = (uint32_t)(in[n][i / 2] >> 32 * (i % 2));
            const uint32_t want =
                ftz ? flushed_result(op, mode, f32_of_bits((uint32_t)flushed(x[0])),
                                     f32_of_bits((uint32_t)flushed(x[1])),
                                     f32_of_bits((uint32_t)flushed(x[2])))
                    : wanted(op, mode, f32_of_bits((uint32_t)x[0]), f32_of_bits((uint32_t)x[1]),
                             f32_of_bits((uint32_t)x[2]));
            if ((uint32_t)(out[i / 2] >> 32 * (i % 2)) != want)
                fail_msg("%s, half %u of %08x, %08x: not %08x", name, i % 2, (unsigned)x[0],
                         (unsigned)x[1], (unsigned)want);
        }
    }
}

EMULATOR_TEST(comparisons)
{
    static const char *const all[] = { "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                       "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1] };
    for (unsigned k = 0; k < 14; k++) {
        char name[32];
        snprintf(name, sizeof(name), "set.%s.f32.f32", all[k]);
        struct apply a = { name, 32, { 32, 32 } };
        apply_inputs(in, singles, 24, 32, k);
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            float x = f32_of_bits((uint32_t)in[0][i]), y = f32_of_bits((uint32_t)in[1][i]);
            bool nan = isnan(x) || isnan(y);
            bool ordered[] = { x == y, x != y, x<y, x <= y, x> y, x >= y };
            bool want = k == 12   ? !nan
                        : k == 13 ? nan
                        : k < 6   ? !nan && ordered[k]
                                  : nan || ordered[k - 6];
            assert_int_equal((uint32_t)out[i], want ? 0x3f800000 : 0);
        }
    }
}

// SPDX-License-Identifier: MIT
// Integer instructions that the builder does not write, compared with plain C. `op record emulator`
// compares the others with tests/hardware/op_expected.c.
#include "apply.h"

struct type {
    const char *name;
    unsigned bits;
    bool is_signed;
};
static const struct type types[] = {
    { "u16", 16, false }, { "s16", 16, true },  { "u32", 32, false },
    { "s32", 32, true },  { "u64", 64, false }, { "s64", 64, true },
};

static const uint64_t corners[] = {
    0,          1,          2,
    3,          31,         32,
    33,         63,         64,
    127,        0x7fff,     0x8000,
    0xffff,     0x10000,    0x7fffffff,
    0x80000000, 0xffffffff, 0xfffffffe,
    UINT64_MAX, 1ull << 63, (1ull << 63) - 1,
    12345,      0xdeadbeef, 0xcafef00ddeadbeef,
};
enum { CORNERS = sizeof(corners) / sizeof(corners[0]) };

static uint64_t cut(uint64_t x, unsigned bits)
{
    return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static bool negative(const struct type *t, uint64_t x)
{
    return t->is_signed && x >> (t->bits - 1) & 1;
}

static bool less(const struct type *t, uint64_t x, uint64_t y)
{
    if (negative(t, x) != negative(t, y))
        return negative(t, x);
    return x < y;
}

EMULATOR_TEST(comparisons)
{
    static const char *const compares[] = { "eq", "ne", "lt", "le", "gt", "ge" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    for (size_t n = 0; n < sizeof(types) / sizeof(types[0]); n++) {
        const struct type *t = &types[n];
        char name[64];
        const struct apply a = { name, 32, { t->bits, t->bits } };
        apply_inputs(in, corners, CORNERS, t->bits, n + 300);
        for (unsigned c = 0; c < 6; c++) {
            snprintf(name, sizeof(name), "set.%s.u32.%s", compares[c], t->name);
            apply(e, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                bool below = less(t, in[0][i], in[1][i]), above = less(t, in[1][i], in[0][i]);
                bool holds[] = { !below && !above, below || above, below, !above, above, !below };
                assert_int_equal((uint32_t)out[i], holds[c] ? UINT32_MAX : 0);
            }
        }
    }
}

// The distance of the highest bit that differs from the sign to the top bit.
EMULATOR_TEST(normalizing_shifts)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    for (unsigned bits = 32; bits <= 64; bits += 32) {
        char name[32];
        snprintf(name, sizeof(name), "bfind.shiftamt.s%u", bits);
        apply_inputs(in, corners, CORNERS, bits, bits);
        for (unsigned i = APPLY_COUNT / 2; i < APPLY_COUNT; i++)
            in[0][i] >>= i % bits;
        const struct apply a = { name, 32, { bits } };
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t x = in[0][i], y = x >> (bits - 1) & 1 ? cut(~x, bits) : x;
            uint32_t shift = UINT32_MAX;
            for (unsigned k = 0; k < bits; k++)
                shift = y >> k & 1 ? bits - 1 - k : shift;
            assert_int_equal((uint32_t)out[i], shift);
        }
    }
}

EMULATOR_TEST(words)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    struct apply a = { NULL, 32, { 32, 32, 32 } };
    apply_inputs(in, corners, CORNERS, 32, 9);
    static const struct {
        const char *name;
        bool left, wraps;
    } funnels[] = { { "shf.l.clamp.b32", true, false },
                    { "shf.r.clamp.b32", false, false },
                    { "shf.l.wrap.b32", true, true },
                    { "shf.r.wrap.b32", false, true } };
    for (unsigned f = 0; f < 4; f++) {
        a.instruction = funnels[f].name;
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t n = funnels[f].wraps ? in[2][i] & 31 : in[2][i] < 32 ? in[2][i] : 32;
            uint64_t both = in[1][i] << 32 | in[0][i];
            uint64_t want = funnels[f].left ? both << n >> 32 : both >> n;
            assert_int_equal((uint32_t)out[i], (uint32_t)want);
        }
    }
    a.instruction = "dp4a.u32.s32";
    apply(e, &a, inputs, out);
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        uint32_t want = (uint32_t)in[2][i];
        for (unsigned k = 0; k < 32; k += 8)
            want += (uint32_t)((int32_t)(in[0][i] >> k & 0xff) * (int8_t)(in[1][i] >> k & 0xff));
        assert_int_equal((uint32_t)out[i], want);
    }
}

// Bit by bit, as in the PTX ISA.
static uint32_t mask_bits(bool wraps, uint32_t first, uint32_t width)
{
    uint32_t bits = 0;
    for (uint64_t k = 0; k < 32; k++) {
        uint64_t from = wraps ? first & 31 : first, count = wraps ? width & 31 : width;
        if (k >= from && k < from + count)
            bits |= 1u << k;
    }
    return bits;
}

static uint32_t extended(bool wraps, bool is_signed, uint32_t x, uint32_t width)
{
    uint32_t count = wraps ? width & 31 : width, bits = 0;
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t from = k < count ? k : count - 1;
        if (k < count || (is_signed && count > 0))
            bits |= (x >> from & 1) << k;
    }
    return bits;
}

EMULATOR_TEST(masks_and_extensions)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    static const char *const names[] = { "bmsk.clamp.b32", "bmsk.wrap.b32",   "szext.clamp.u32",
                                         "szext.wrap.u32", "szext.clamp.s32", "szext.wrap.s32" };
    apply_inputs(in, corners, CORNERS, 32, 9);
    for (unsigned i = CORNERS * CORNERS; i < APPLY_COUNT; i++) {
        in[1][i] %= 40;
        if (i % 2)
            in[0][i] %= 40;
    }
    for (unsigned k = 0; k < 6; k++) {
        const struct apply a = { names[k], 32, { 32, 32, 0, 0 } };
        apply(e, &a, (const uint64_t *const[4]) { in[0], in[1], NULL, NULL }, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint32_t x = (uint32_t)in[0][i], y = (uint32_t)in[1][i];
            uint32_t wanted = k < 2 ? mask_bits(k % 2, x, y) : extended(k % 2, k > 3, x, y);
            if (out[i] != wanted)
                fail_msg("%s of %x, %u: %x, not %x", names[k], (unsigned)x, (unsigned)y,
                         (unsigned)out[i], (unsigned)wanted);
        }
    }
}

// The n-th set bit from bit `base` on, upwards or downwards, as the PTX ISA writes it.
static uint32_t nth_set(uint32_t mask, uint32_t base, int64_t n)
{
    int64_t left = n < 0 ? -n : n;
    if (n == 0)
        return base < 32 && mask >> base & 1 ? base : UINT32_MAX;
    for (int64_t at = base; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
        if (mask >> at & 1 && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}

EMULATOR_TEST(nth_set_bits)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const struct apply a = { "fns.b32", 32, { 32, 32, 32 } };
    apply_inputs(in, corners, CORNERS, 32, 11);
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        in[1][i] = i % 5 ? in[1][i] % 32 : in[1][i];
        in[2][i] = i % 7 ? (uint32_t)((int32_t)(i % 13) - 6) : (uint32_t)in[2][i];
    }
    in[2][0] = 0x80000000; // its magnitude has no s32
    apply(e, &a, (const uint64_t *const[4]) { in[0], in[1], in[2], NULL }, out);
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        const uint32_t mask = (uint32_t)in[0][i], base = (uint32_t)in[1][i];
        const int32_t n = (int32_t)in[2][i];
        if (out[i] != nth_set(mask, base, n))
            fail_msg("fns of %x, %u, %d: %x", (unsigned)mask, (unsigned)base, (int)n,
                     (unsigned)out[i]);
    }
}

// add, min and max of pairs of 16-bit integers, and .relu, by wide arithmetic on each half.
static int64_t pair_element(unsigned k, bool is_signed, unsigned bits, uint64_t x, uint64_t y)
{
    const uint64_t top = is_signed ? UINT64_C(1) << (bits - 1) : 0;
    const int64_t a = (int64_t)(x ^ top) - (int64_t)top, b = (int64_t)(y ^ top) - (int64_t)top;
    const int64_t least = a < b ? a : b, most = a < b ? b : a;
    const int64_t result = k == 0 ? a + b : k % 2 ? least : most;
    return k > 2 && result < 0 ? 0 : result;
}

EMULATOR_TEST(pairs_and_relu)
{
    static const struct {
        const char *name;
        unsigned kind, bits; // kind: 0 add, odd min, even max, above 2 with .relu
        bool is_signed;
    } rows[] = {
        { "add.u16x2", 0, 16, false },     { "add.s16x2", 0, 16, true },
        { "min.u16x2", 1, 16, false },     { "min.s16x2", 1, 16, true },
        { "max.u16x2", 2, 16, false },     { "max.s16x2", 2, 16, true },
        { "min.relu.s16x2", 3, 16, true }, { "max.relu.s16x2", 4, 16, true },
        { "min.relu.s32", 3, 32, true },   { "max.relu.s32", 4, 32, true },
    };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const struct apply a = { rows[n].name, 32, { 32, 32 } };
        apply_inputs(in, corners, CORNERS, 32, n + 900);
        apply(e, &a, (const uint64_t *const[4]) { in[0], in[1] }, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t wanted = 0;
            for (unsigned at = 0; at < 32; at += rows[n].bits)
                wanted |= cut((uint64_t)pair_element(rows[n].kind, rows[n].is_signed, rows[n].bits,
                                                     cut(in[0][i] >> at, rows[n].bits),
                                                     cut(in[1][i] >> at, rows[n].bits)),
                              rows[n].bits)
                          << at;
            if (out[i] != wanted)
                fail_msg("%s of %llx, %llx: %llx, not %llx", rows[n].name,
                         (unsigned long long)in[0][i], (unsigned long long)in[1][i],
                         (unsigned long long)out[i], (unsigned long long)wanted);
        }
    }
}

// Factors of 24 bits, signed or not.
static int64_t factor(uint64_t x, bool is_signed)
{
    int64_t low = (int64_t)(x & 0xffffff);
    return is_signed && low >= 0x800000 ? low - 0x1000000 : low;
}

EMULATOR_TEST(products_of_24_bits)
{
    static const uint64_t ends[] = { 0,         1,          0x7fffff,   0x800000,   0xffffff,
                                     0x1000000, 0xff000001, 0x80000000, 0xffffffff, 0x12345678 };
    static const char *const names[] = { "mul24.lo", "mul24.hi", "mad24.lo", "mad24.hi",
                                         "mad24.hi.sat" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    apply_inputs(in, ends, 10, 32, 24);
    for (unsigned k = 0; k < 10; k++) {
        const bool is_signed = k % 2, mad = k / 2 > 1, high = k / 2 % 2 || k / 2 == 4;
        const bool sat = k / 2 == 4;
        char name[32];
        if (sat && !is_signed)
            continue;
        snprintf(name, sizeof(name), "%s.%s32", names[k / 2], is_signed ? "s" : "u");
        const struct apply a = { name, 32, { 32, 32, mad ? 32 : 0, 0 } };
        const uint64_t *const inputs[4] = { in[0], in[1], in[2], NULL };
        apply(e, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t bits = (uint64_t)(factor(in[0][i], is_signed) * factor(in[1][i], is_signed));
            uint32_t part = (uint32_t)(high ? bits >> 16 : bits);
            int64_t exact = (int64_t)(int32_t)part + (int32_t)(uint32_t)in[2][i];
            uint32_t wanted = mad ? part + (uint32_t)in[2][i] : part;
            if (sat)
                wanted = exact > INT32_MAX   ? (uint32_t)INT32_MAX
                         : exact < INT32_MIN ? 0x80000000u
                                             : (uint32_t)exact;
            if (out[i] != wanted)
                fail_msg("%s of %llx, %llx, %llx: %llx, not %x", name, (unsigned long long)in[0][i],
                         (unsigned long long)in[1][i], (unsigned long long)in[2][i],
                         (unsigned long long)out[i], (unsigned)wanted);
        }
    }
}

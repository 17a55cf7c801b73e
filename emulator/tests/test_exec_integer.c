// SPDX-License-Identifier: MIT
// Integer instructions against plain C on 64-bit values, one bit at a time where that is clearer.
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

static uint64_t magnitude(const struct type *t, uint64_t x)
{
    return negative(t, x) ? cut(0 - x, t->bits) : x;
}

// The 128-bit product, by adding x shifted for every bit of y.
static void product(const struct type *t, uint64_t x, uint64_t y, uint64_t *high, uint64_t *low)
{
    uint64_t a = magnitude(t, x), b = magnitude(t, y), h = 0, l = 0;
    for (unsigned k = 64; k-- > 0;) {
        h = h << 1 | l >> 63;
        l <<= 1;
        if (b >> k & 1) {
            l += a;
            h += l < a;
        }
    }
    if (negative(t, x) != negative(t, y)) {
        l = 0 - l;
        h = ~h + (l == 0);
    }
    *high = cut(t->bits == 64 ? h : l >> t->bits, t->bits);
    *low = l;
}

static bool less(const struct type *t, uint64_t x, uint64_t y)
{
    if (negative(t, x) != negative(t, y))
        return negative(t, x);
    return x < y;
}

static uint64_t quotient(const struct type *t, uint64_t x, uint64_t y, bool rest)
{
    if (y == 0)
        return cut(UINT64_MAX, t->bits);
    uint64_t q = magnitude(t, x) / magnitude(t, y), r = magnitude(t, x) % magnitude(t, y);
    if (rest)
        return cut(negative(t, x) ? 0 - r : r, t->bits);
    return cut(negative(t, x) != negative(t, y) ? 0 - q : q, t->bits);
}

enum op { ADD, SUB, MUL_LO, MUL_HI, MAD_LO, MAD_HI, DIV, REM, MIN, MAX, SAD, NEG, ABS };
static const struct {
    const char *name;
    enum op op;
    unsigned operands;
} ops[] = {
    { "add", ADD, 2 },       { "sub", SUB, 2 },       { "mul.lo", MUL_LO, 2 },
    { "mul.hi", MUL_HI, 2 }, { "mad.lo", MAD_LO, 3 }, { "mad.hi", MAD_HI, 3 },
    { "div", DIV, 2 },       { "rem", REM, 2 },       { "min", MIN, 2 },
    { "max", MAX, 2 },       { "sad", SAD, 3 },       { "neg", NEG, 1 },
    { "abs", ABS, 1 },
};

static uint64_t expected(const struct type *t, enum op op, uint64_t x, uint64_t y, uint64_t z)
{
    uint64_t high, low;
    product(t, x, y, &high, &low);
    switch (op) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case MUL_LO:
        return low;
    case MUL_HI:
        return high;
    case MAD_LO:
        return low + z;
    case MAD_HI:
        return high + z;
    case DIV:
    case REM:
        return quotient(t, x, y, op == REM);
    case MIN:
        return less(t, x, y) ? x : y;
    case MAX:
        return less(t, x, y) ? y : x;
    case SAD:
        return (less(t, x, y) ? y - x : x - y) + z;
    case NEG:
        return 0 - x;
    default:
        return magnitude(t, x);
    }
}

static void arithmetic(void **state)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
        for (size_t n = 0; n < sizeof(types) / sizeof(types[0]); n++) {
            const struct type *t = &types[n];
            if ((ops[k].op == NEG || ops[k].op == ABS) && !t->is_signed)
                continue;
            char name[64];
            snprintf(name, sizeof(name), "%s.%s", ops[k].name, t->name);
            struct apply a = { name, t->bits, { 0 } };
            for (unsigned i = 0; i < ops[k].operands; i++)
                a.in_bits[i] = t->bits;
            apply_inputs(in, corners, CORNERS, t->bits, k + 1);
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                uint64_t want = cut(expected(t, ops[k].op, in[0][i], in[1][i], in[2][i]), t->bits);
                if (cut(out[i], t->bits) != want)
                    fail_msg("%s of 0x%llx, 0x%llx, 0x%llx: 0x%llx, not 0x%llx", name,
                             (unsigned long long)in[0][i], (unsigned long long)in[1][i],
                             (unsigned long long)in[2][i], (unsigned long long)out[i],
                             (unsigned long long)want);
            }
        }
}

static void wide_products(void **state)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    for (size_t n = 0; n < 4; n++) {
        const struct type *t = &types[n];
        char name[64];
        snprintf(name, sizeof(name), "mad.wide.%s", t->name);
        struct apply a = { name, 2 * t->bits, { t->bits, t->bits, 2 * t->bits } };
        apply_inputs(in, corners, CORNERS, t->bits, n + 100);
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t high, low;
            product(t, in[0][i], in[1][i], &high, &low);
            assert_true(cut(out[i], 2 * t->bits) == cut(low + in[2][i], 2 * t->bits));
        }
    }
}

static void shifts_and_comparisons(void **state)
{
    static const char *const compares[] = { "eq", "ne", "lt", "le", "gt", "ge" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    for (size_t n = 0; n < sizeof(types) / sizeof(types[0]); n++) {
        const struct type *t = &types[n];
        char name[64];
        snprintf(name, sizeof(name), "shr.%s", t->name);
        struct apply a = { name, t->bits, { t->bits, 32 } };
        apply_inputs(in, corners, CORNERS, t->bits, n + 200);
        for (unsigned i = 0; i < APPLY_COUNT; i++)
            in[1][i] = cut(i < CORNERS * CORNERS ? in[1][i] : in[1][i] % 70, 32);
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t x = in[0][i], s = in[1][i] < t->bits ? in[1][i] : t->bits;
            for (uint64_t k = 0; k < s; k++)
                x = x >> 1 | (uint64_t)negative(t, in[0][i]) << (t->bits - 1);
            assert_true(cut(out[i], t->bits) == x);
        }
        snprintf(name, sizeof(name), "shl.b%u", t->bits);
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++)
            assert_true(cut(out[i], t->bits) ==
                        (in[1][i] < t->bits ? cut(in[0][i] << in[1][i], t->bits) : 0));
        a = (struct apply) { name, 32, { t->bits, t->bits } };
        apply_inputs(in, corners, CORNERS, t->bits, n + 300);
        for (unsigned c = 0; c < 6; c++) {
            snprintf(name, sizeof(name), "set.%s.u32.%s", compares[c], t->name);
            apply(*state, &a, inputs, out);
            for (unsigned i = 0; i < APPLY_COUNT; i++) {
                bool below = less(t, in[0][i], in[1][i]), above = less(t, in[1][i], in[0][i]);
                bool holds[] = { !below && !above, below || above, below, !above, above, !below };
                assert_int_equal((uint32_t)out[i], holds[c] ? UINT32_MAX : 0);
            }
        }
    }
}

// Bits one at a time, as the PTX manual writes these down.
static uint64_t field(const struct type *t, uint64_t x, uint64_t first, uint64_t length)
{
    uint64_t last = first + length - 1, r = 0;
    if (last > t->bits - 1)
        last = t->bits - 1;
    bool sign = t->is_signed && length && x >> last & 1;
    for (uint64_t k = 0; k < t->bits; k++)
        r |= (uint64_t)(k < length && first + k < t->bits ? x >> (first + k) & 1 : sign) << k;
    return r;
}

static void bit_fields(void **state)
{
    static uint64_t in[4][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2], in[3] };
    struct random r = { 5 };
    for (size_t n = 2; n < sizeof(types) / sizeof(types[0]); n++) {
        const struct type *t = &types[n];
        char name[64];
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            in[0][i] = cut(random_u64(&r), t->bits);
            in[1][i] = random_below(&r, 80);
            in[2][i] = random_below(&r, 80);
        }
        snprintf(name, sizeof(name), "bfe.%s", t->name);
        struct apply a = { name, t->bits, { t->bits, 32, 32 } };
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++)
            assert_true(cut(out[i], t->bits) == field(t, in[0][i], in[1][i], in[2][i]));
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            in[3][i] = in[2][i];
            in[2][i] = in[1][i];
            in[1][i] = cut(random_u64(&r), t->bits);
        }
        snprintf(name, sizeof(name), "bfi.b%u", t->bits);
        a = (struct apply) { name, t->bits, { t->bits, t->bits, 32, 32 } };
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t want = in[1][i];
            for (uint64_t k = 0; k < in[3][i] && in[2][i] + k < t->bits; k++) {
                uint64_t bit = UINT64_C(1) << (in[2][i] + k);
                want = in[0][i] >> k & 1 ? want | bit : want & ~bit;
            }
            assert_true(cut(out[i], t->bits) == want);
        }
    }
}

static void counts(void **state)
{
    static uint64_t in[3][APPLY_COUNT], out[5][APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0] };
    for (unsigned bits = 32; bits <= 64; bits += 32) {
        char names[5][32];
        snprintf(names[0], 32, "popc.b%u", bits);
        snprintf(names[1], 32, "clz.b%u", bits);
        snprintf(names[2], 32, "bfind.u%u", bits);
        snprintf(names[3], 32, "bfind.shiftamt.s%u", bits);
        snprintf(names[4], 32, "brev.b%u", bits);
        apply_inputs(in, corners, CORNERS, bits, bits);
        for (unsigned i = APPLY_COUNT / 2; i < APPLY_COUNT; i++)
            in[0][i] >>= i % bits;
        for (unsigned k = 0; k < 5; k++) {
            struct apply a = { names[k], k == 4 ? bits : 32, { bits } };
            apply(*state, &a, inputs, out[k]);
        }
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t x = in[0][i], reversed = 0, y = x >> (bits - 1) & 1 ? cut(~x, bits) : x;
            uint32_t ones = 0, zeros = 0, top = UINT32_MAX, shift = UINT32_MAX;
            for (unsigned k = 0; k < bits; k++) {
                ones += (uint32_t)(x >> k & 1);
                reversed |= (x >> k & 1) << (bits - 1 - k);
                top = x >> k & 1 ? k : top;
                shift = y >> k & 1 ? bits - 1 - k : shift;
            }
            while (zeros < bits && !(x >> (bits - 1 - zeros) & 1))
                zeros++;
            assert_int_equal((uint32_t)out[0][i], ones);
            assert_int_equal((uint32_t)out[1][i], zeros);
            assert_int_equal((uint32_t)out[2][i], top);
            assert_int_equal((uint32_t)out[3][i], shift);
            assert_true(cut(out[4][i], bits) == reversed);
        }
    }
}

static void words(void **state)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    const uint64_t *const inputs[4] = { in[0], in[1], in[2] };
    struct apply a = { "prmt.b32", 32, { 32, 32, 32 } };
    apply_inputs(in, corners, CORNERS, 32, 9);
    apply(*state, &a, inputs, out);
    for (unsigned i = 0; i < APPLY_COUNT; i++)
        for (unsigned k = 0; k < 4; k++) {
            uint64_t nibble = in[2][i] >> 4 * k & 15, both = in[1][i] << 32 | in[0][i];
            uint64_t byte = both >> 8 * (nibble & 7) & 0xff;
            byte = nibble & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
            assert_int_equal(out[i] >> 8 * k & 0xff, byte);
        }
    static const struct {
        const char *name;
        bool left, wraps;
    } funnels[] = { { "shf.l.clamp.b32", true, false },
                    { "shf.r.clamp.b32", false, false },
                    { "shf.l.wrap.b32", true, true },
                    { "shf.r.wrap.b32", false, true } };
    for (unsigned f = 0; f < 4; f++) {
        a.instruction = funnels[f].name;
        apply(*state, &a, inputs, out);
        for (unsigned i = 0; i < APPLY_COUNT; i++) {
            uint64_t n = funnels[f].wraps ? in[2][i] & 31 : in[2][i] < 32 ? in[2][i] : 32;
            uint64_t both = in[1][i] << 32 | in[0][i];
            uint64_t want = funnels[f].left ? both << n >> 32 : both >> n;
            assert_int_equal((uint32_t)out[i], (uint32_t)want);
        }
    }
    a.instruction = "dp4a.u32.s32";
    apply(*state, &a, inputs, out);
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        uint32_t want = (uint32_t)in[2][i];
        for (unsigned k = 0; k < 32; k += 8)
            want += (uint32_t)((int32_t)(in[0][i] >> k & 0xff) * (int8_t)(in[1][i] >> k & 0xff));
        assert_int_equal((uint32_t)out[i], want);
    }
    a.instruction = "add.sat.s32";
    a.in_bits[2] = 0;
    apply(*state, &a, inputs, out);
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        int64_t sum = (int64_t)(int32_t)in[0][i] + (int32_t)in[1][i];
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        assert_int_equal((uint32_t)out[i], (uint32_t)sum);
    }
}

static void long_addition(void **state)
{
    // 128 bits in four words, there and back.
    struct emulator *e = *state;
    uint32_t words_in[12] = { 0xffffffff, 0xffffffff, 0xffffffff, 1, 1, 0, 0, 5 };
    uint64_t at = emulator_upload(e, words_in, sizeof(words_in));
    const char *body = "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\n"
                       "ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd0];\n"
                       "ld.global.v4.u32 {%r14,%r15,%r16,%r17}, [%rd0+16];\n"
                       "add.cc.u32 %r20, %r10, %r14;\naddc.cc.u32 %r21, %r11, %r15;\n"
                       "addc.cc.u32 %r22, %r12, %r16;\naddc.u32 %r23, %r13, %r17;\n"
                       "st.global.v4.u32 [%rd0+32], {%r20,%r21,%r22,%r23};\n"
                       "sub.cc.u32 %r20, %r20, %r14;\nsubc.cc.u32 %r21, %r21, %r15;\n"
                       "subc.cc.u32 %r22, %r22, %r16;\nsubc.u32 %r23, %r23, %r17;\n"
                       "st.global.v4.u32 [%rd0+16], {%r20,%r21,%r22,%r23};\nret;";
    emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
    const uint32_t *got = emulator_at(e, at, sizeof(words_in));
    const uint32_t sum[4] = { 0, 0, 0, 7 };
    assert_memory_equal(got + 8, sum, 16);
    assert_memory_equal(got + 4, words_in, 16);
}

// Bit by bit, as the PTX ISA says it.
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

static void masks_and_extensions(void **state)
{
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    static const char *const names[] = { "bmsk.clamp.b32", "bmsk.wrap.b32",   "szext.clamp.u32",
                                         "szext.wrap.u32", "szext.clamp.s32", "szext.wrap.s32" };
    struct emulator *e = *state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMULATOR_TEST(arithmetic),
        EMULATOR_TEST(wide_products),
        EMULATOR_TEST(shifts_and_comparisons),
        EMULATOR_TEST(bit_fields),
        EMULATOR_TEST(counts),
        EMULATOR_TEST(words),
        EMULATOR_TEST(masks_and_extensions),
        EMULATOR_TEST(long_addition),
    };
    return cmocka_run_group_tests_name("emulator exec integer", tests, NULL, NULL);
}

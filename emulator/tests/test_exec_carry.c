// SPDX-License-Identifier: MIT
// Chains with carries against plain C on longer numbers, products of 24 bits, jumps by a list.
#include "apply.h"

enum { WORDS = 4, COUNT = 32 };

static const uint32_t corners[] = { 0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 0xfffffffe };

// Numbers of 128 bits: words of the first, then of the second.
static void fill(uint32_t numbers[COUNT][2 * WORDS])
{
    struct random r = { 11 };
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned k = 0; k < 2 * WORDS; k++)
            numbers[i][k] =
                random_below(&r, 2) ? corners[random_below(&r, 6)] : (uint32_t)random_u64(&r);
}

#define LOADS                                                                                      \
    "mul.wide.u32 %rd6, %r0, 32;\nadd.u64 %rd4, %rd0, %rd6;\nadd.u64 %rd5, %rd1, %rd6;\n"          \
    "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4];\n"                                         \
    "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd4+16];\n"                                      \
    "mov.b64 %rd10, {%r10, %r11};\nmov.b64 %rd11, {%r12, %r13};\n"                                 \
    "mov.b64 %rd20, {%r20, %r21};\nmov.b64 %rd21, {%r22, %r23};\n"
#define STORE_LONGS                                                                                \
    "st.global.v2.u64 [%rd5], {%rd30, %rd31};\nst.global.v2.u64 [%rd5+16], {%rd32, %rd33};\nret;"
#define STORE_WORDS                                                                                \
    "st.global.v4.u32 [%rd5], {%r30, %r31, %r32, %r33};\n"                                         \
    "st.global.v4.u32 [%rd5+16], {%r34, %r35, %r36, %r37};\nret;"

static void run(struct emulator *e, const char *body, uint32_t got[COUNT][2 * WORDS],
                uint32_t numbers[COUNT][2 * WORDS])
{
    const size_t bytes = COUNT * 2 * WORDS * sizeof(uint32_t);
    uint64_t in = emulator_upload(e, numbers, bytes), out = emulator_zeros(e, bytes);
    emulator_expect(e, emulator_body(e, body, in, out, 0), 0, "");
    memcpy(got, emulator_at(e, out, bytes), bytes);
}

// x + y or x - y, word by word as on paper.
static void sum(const uint32_t x[WORDS], const uint32_t y[WORDS], bool subtract,
                uint32_t result[WORDS])
{
    uint64_t carry = subtract;
    for (unsigned k = 0; k < WORDS; k++) {
        carry += (uint64_t)x[k] + (subtract ? ~y[k] : y[k]);
        result[k] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void sums(void **state)
{
    struct emulator *e = *state;
    uint32_t numbers[COUNT][2 * WORDS], words[COUNT][2 * WORDS], longs[COUNT][2 * WORDS];
    fill(numbers);
    run(e,
        LOADS "add.cc.u32 %r30, %r10, %r20;\naddc.cc.u32 %r31, %r11, %r21;\n"
              "addc.cc.s32 %r32, %r12, %r22;\naddc.u32 %r33, %r13, %r23;\n"
              "sub.cc.u32 %r34, %r10, %r20;\nsubc.cc.s32 %r35, %r11, %r21;\n"
              "subc.cc.u32 %r36, %r12, %r22;\nsubc.u32 %r37, %r13, %r23;\n" STORE_WORDS,
        words, numbers);
    run(e,
        LOADS "add.cc.u64 %rd30, %rd10, %rd20;\naddc.u64 %rd31, %rd11, %rd21;\n"
              "sub.cc.s64 %rd32, %rd10, %rd20;\nsubc.s64 %rd33, %rd11, %rd21;\n" STORE_LONGS,
        longs, numbers);
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t wanted[2 * WORDS];
        sum(numbers[i], numbers[i] + WORDS, false, wanted);
        sum(numbers[i], numbers[i] + WORDS, true, wanted + WORDS);
        assert_memory_equal(words[i], wanted, sizeof(wanted));
        assert_memory_equal(longs[i], wanted, sizeof(wanted));
    }
}

// The product of two numbers of 64 bits, plus one of 128, word by word.
static void product(const uint32_t x[2], const uint32_t y[2], const uint32_t z[WORDS],
                    uint32_t result[WORDS])
{
    memcpy(result, z, WORDS * sizeof(uint32_t));
    for (unsigned i = 0; i < 2; i++) {
        uint64_t carry = 0;
        for (unsigned k = 0; k < WORDS - i; k++) {
            carry += result[i + k] + (k < 2 ? (uint64_t)x[i] * y[k] : 0);
            result[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
    }
}

static uint64_t pair(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

// mad.hi.cc.s64 with the low half of z, and madc.lo.s64 with 0, from the unsigned product.
static void signed_chain(const uint32_t x[2], const uint32_t y[2], const uint32_t z[WORDS],
                         uint64_t result[2])
{
    static const uint32_t zero[WORDS];
    uint32_t words[WORDS];
    product(x, y, zero, words);
    uint64_t a = pair(x[0], x[1]), b = pair(y[0], y[1]), high = pair(words[2], words[3]);
    high -= (a >> 63 ? b : 0) + (b >> 63 ? a : 0);
    result[0] = high + pair(z[0], z[1]);
    result[1] = pair(words[0], words[1]) + (result[0] < high ? 1 : 0);
}

// The second number is added; the first is the two factors.
static void products(void **state)
{
    struct emulator *e = *state;
    uint32_t numbers[COUNT][2 * WORDS], words[COUNT][2 * WORDS], longs[COUNT][2 * WORDS];
    fill(numbers);
    run(e,
        LOADS "mad.lo.cc.u32 %r30, %r10, %r12, %r20;\nmadc.hi.cc.u32 %r31, %r10, %r12, %r21;\n"
              "addc.cc.u32 %r32, %r22, 0;\naddc.u32 %r33, %r23, 0;\n"
              "mad.lo.cc.u32 %r31, %r10, %r13, %r31;\nmadc.hi.cc.u32 %r32, %r10, %r13, %r32;\n"
              "addc.u32 %r33, %r33, 0;\n"
              "mad.lo.cc.u32 %r31, %r11, %r12, %r31;\nmadc.hi.cc.u32 %r32, %r11, %r12, %r32;\n"
              "addc.u32 %r33, %r33, 0;\nadd.cc.u32 %r34, %r10, %r20;\n"
              "madc.lo.cc.u32 %r35, %r11, %r13, %r32;\nmadc.hi.u32 %r36, %r11, %r13, %r33;\n"
              "mad.lo.cc.u32 %r32, %r11, %r13, %r32;\nmadc.hi.u32 %r33, %r11, %r13, %r33;\n"
              "mov.u32 %r37, 0;\n" STORE_WORDS,
        words, numbers);
    run(e,
        LOADS "mad.lo.cc.u64 %rd30, %rd10, %rd11, %rd20;\n"
              "madc.hi.u64 %rd31, %rd10, %rd11, %rd21;\n"
              "mad.hi.cc.s64 %rd32, %rd10, %rd11, %rd20;\n"
              "madc.lo.s64 %rd33, %rd10, %rd11, 0;\n" STORE_LONGS,
        longs, numbers);
    for (unsigned i = 0; i < COUNT; i++) {
        const uint32_t *x = numbers[i], *y = x + 2, *z = x + 4;
        const bool carry = (uint64_t)x[0] + z[0] > UINT32_MAX;
        uint32_t wanted[WORDS];
        uint64_t wanted_signed[2], top;
        product(x, y, z, wanted);
        signed_chain(x, y, z, wanted_signed);
        top = pair(wanted[2], wanted[3]) + carry;
        assert_memory_equal(words[i], wanted, sizeof(wanted));
        assert_memory_equal(longs[i], wanted, sizeof(wanted));
        assert_int_equal(pair(words[i][5], words[i][6]), top);
        assert_memory_equal(longs[i] + WORDS, wanted_signed, sizeof(wanted_signed));
    }
}

// Of 24 bits each, sign and all.
static int64_t factor(uint64_t x, bool is_signed)
{
    int64_t low = (int64_t)(x & 0xffffff);
    return is_signed && low >= 0x800000 ? low - 0x1000000 : low;
}

static void products_of_24_bits(void **state)
{
    static const uint64_t ends[] = { 0,         1,          0x7fffff,   0x800000,   0xffffff,
                                     0x1000000, 0xff000001, 0x80000000, 0xffffffff, 0x12345678 };
    static const char *const names[] = { "mul24.lo", "mul24.hi", "mad24.lo", "mad24.hi",
                                         "mad24.hi.sat" };
    static uint64_t in[3][APPLY_COUNT], out[APPLY_COUNT];
    struct emulator *e = *state;
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

static void jumps(void **state)
{
    struct emulator *e = *state;
    uint64_t out = emulator_zeros(e, 64 * 4);
    const char *const body =
        "LIST: .branchtargets A, B, C, B;\nmul.wide.u32 %rd6, %r0, 4;\nadd.u64 %rd5, %rd0, %rd6;\n"
        "and.b32 %r3, %r0, 7;\nmov.u32 %r4, 1;\nsetp.lt.u32 %p1, %r3, 4;\n"
        "add.u32 %r3, %r3, %r6x;\n@%p1 brx.idx %r3, LIST;\nadd.u32 %r4, %r4, 5;\nbra END;\n"
        "A: add.u32 %r4, %r4, 10;\nbra END;\nB: add.u32 %r4, %r4, 20;\n"
        "C: add.u32 %r4, %r4, 30;\nEND: add.u32 %r4, %r4, 100;\nst.global.u32 [%rd5], %r4;\nret;";
    static const uint32_t wanted[8] = { 111, 151, 131, 151, 106, 106, 106, 106 };
    for (unsigned off = 0; off < 2; off++) {
        char text[2048];
        const char *at = strstr(body, "%r6x");
        snprintf(text, sizeof(text), "%.*s%u%s", (int)(at - body), body, off, at + 4);
        e->block = 64;
        emulator_expect(e, emulator_body(e, text, out, 0, 0), off ? 715 : 0,
                        off ? "branch to target 4 of a list of 4|thread (3,0,0)|brx.idx" : "");
        const uint32_t *got = emulator_at(e, out, 64 * 4);
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(got[i], wanted[i % 8]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMULATOR_TEST(sums),
        EMULATOR_TEST(products),
        EMULATOR_TEST(products_of_24_bits),
        EMULATOR_TEST(jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

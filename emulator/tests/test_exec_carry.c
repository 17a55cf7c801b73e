// SPDX-License-Identifier: MIT
// Carry chains, compared with plain C on longer numbers; products of 24 bits; brx.idx.
#include "apply.h"

enum { WORDS = 4, COUNT = 32 };
enum { STEP_ADD, STEP_SUB, STEP_MAD_LO, STEP_MAD_HI, STEPS };

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

// x + y or x - y, word by word.
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

// The product of two 64-bit numbers plus a 128-bit one, word by word.
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

// The first number has the two factors; the second is added.
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

// A chain of three steps. The first two set the flag, the last two read it.
struct chain {
    unsigned bits;
    unsigned kinds[3];
};

static uint64_t half_of_product(uint64_t x, uint64_t y, unsigned bits, bool high)
{
    static const uint32_t zero[WORDS];
    const uint32_t a[2] = { (uint32_t)x, (uint32_t)(x >> 32) };
    const uint32_t b[2] = { (uint32_t)y, (uint32_t)(y >> 32) };
    uint32_t words[WORDS];
    product(a, b, zero, words);
    if (bits == 32)
        return words[high];
    return high ? pair(words[2], words[3]) : pair(words[0], words[1]);
}

// x - y is x + ~y + 1.
static uint64_t chain_step(unsigned kind, unsigned bits, bool takes, const uint64_t x[3],
                           bool *flag)
{
    const uint64_t ones = bits == 64 ? UINT64_MAX : UINT32_MAX;
    const bool multiplies = kind == STEP_MAD_LO || kind == STEP_MAD_HI;
    uint64_t first = multiplies ? half_of_product(x[0], x[1], bits, kind == STEP_MAD_HI) : x[0];
    uint64_t second = multiplies ? x[2] : kind == STEP_SUB ? ~x[1] & ones : x[1];
    uint64_t in = takes ? *flag : kind == STEP_SUB, sum = (first + second + in) & ones;
    *flag = sum < first || (in && sum == first);
    return sum;
}

static void chain_text(const struct chain *c, char *body, size_t size)
{
    static const char *const opcodes[STEPS][2] = {
        { "add", "addc" }, { "sub", "subc" }, { "mad.lo", "madc.lo" }, { "mad.hi", "madc.hi" }
    };
    const char *r = apply_register(c->bits);
    size_t used = (size_t)snprintf(body, size,
                                   "mul.wide.u32 %%rd40, %%r0, 24;\n"
                                   "add.u64 %%rd41, %%rd0, %%rd40;\n"
                                   "add.u64 %%rd42, %%rd1, %%rd40;\n");
    for (unsigned k = 0; k < 3; k++)
        used += (size_t)snprintf(body + used, size - used, "ld.global.u%u %s%u, [%%rd41+%u];\n",
                                 c->bits, r, 10 + k, 8 * k);
    for (unsigned k = 0; k < 3; k++) {
        used += (size_t)snprintf(body + used, size - used, "%s%s.u%u %s%u, %s10, %s11",
                                 opcodes[c->kinds[k]][k > 0], k < 2 ? ".cc" : "", c->bits, r,
                                 20 + k, r, r);
        if (c->kinds[k] >= STEP_MAD_LO)
            used += (size_t)snprintf(body + used, size - used, ", %s12", r);
        used += (size_t)snprintf(body + used, size - used, ";\n");
    }
    for (unsigned k = 0; k < 3; k++)
        used += (size_t)snprintf(body + used, size - used, "st.global.u%u [%%rd42+%u], %s%u;\n",
                                 c->bits, 8 * k, r, 20 + k);
    snprintf(body + used, size - used, "ret;");
}

static void check_chain(struct emulator *e, const struct chain *c)
{
    static const uint64_t ends[] = { 0,          1,          2,
                                     3,          5,          0x80000000,
                                     0xffffffff, UINT64_MAX, UINT64_MAX - 1 };
    static uint64_t in[3][APPLY_COUNT], data[APPLY_COUNT][3];
    char body[2048];
    chain_text(c, body, sizeof(body));
    apply_inputs(in, ends, 9, c->bits, 31);
    for (unsigned i = 0; i < APPLY_COUNT; i++)
        for (unsigned k = 0; k < 3; k++)
            data[i][k] = in[k][i] & (c->bits == 64 ? UINT64_MAX : UINT32_MAX);
    uint64_t from = emulator_upload(e, data, sizeof(data)), to = emulator_zeros(e, sizeof(data));
    e->block = APPLY_COUNT;
    emulator_expect(e, emulator_body(e, body, from, to, 0), 0, "");
    const uint64_t *got = emulator_at(e, to, sizeof(data));
    for (unsigned i = 0; i < APPLY_COUNT; i++) {
        bool flag = false;
        for (unsigned k = 0; k < 3; k++) {
            uint64_t wanted = chain_step(c->kinds[k], c->bits, k > 0, data[i], &flag);
            if (got[i * 3 + k] != wanted)
                fail_msg("step %u of\n%s\nwith %llx, %llx, %llx: %llx, not %llx", k, body,
                         (unsigned long long)data[i][0], (unsigned long long)data[i][1],
                         (unsigned long long)data[i][2], (unsigned long long)got[i * 3 + k],
                         (unsigned long long)wanted);
        }
    }
    emu_memory_free(e->memory, from);
    emu_memory_free(e->memory, to);
}

// Every kind of step after every other.
static void crossing_chains(void **state)
{
    for (unsigned code = 0; code < STEPS * STEPS * STEPS; code++)
        for (unsigned bits = 32; bits <= 64; bits += 32) {
            const struct chain c = { bits,
                                     { code % STEPS, code / STEPS % STEPS, code / STEPS / STEPS } };
            check_chain(*state, &c);
        }
}

// The two chains of nvcc's division of 128-bit integers, with fixed numbers.
static void flag_after_a_subtraction(void **state)
{
    struct emulator *e = *state;
    static const uint32_t one_two[2] = { 1, 2 };
    uint64_t from = emulator_upload(e, one_two, sizeof(one_two)), to = emulator_zeros(e, 8);
    emulator_expect(e,
                    emulator_body(e,
                                  "ld.global.v2.u32 {%r10, %r11}, [%rd0];\n"
                                  "sub.cc.u32 %r12, %r10, %r11;\naddc.u32 %r13, 0, 0;\n"
                                  "add.cc.u32 %r12, %r10, %r11;\nsubc.u32 %r14, 5, 3;\n"
                                  "st.global.v2.u32 [%rd1], {%r13, %r14};\nret;",
                                  from, to, 0),
                    0, "");
    const uint32_t *got = emulator_at(e, to, 8);
    assert_int_equal(got[0], 0);
    assert_int_equal(got[1], 1);
}

// Factors of 24 bits, signed or not.
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
        emulator_expect(
            e, emulator_body(e, text, out, 0, 0), off ? 715 : 0,
            off ? "brx.idx with index 4, but its list has 4 targets|thread (3,0,0)|brx.idx" : "");
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
        EMULATOR_TEST(crossing_chains),
        EMULATOR_TEST(flag_after_a_subtraction),
        EMULATOR_TEST(products_of_24_bits),
        EMULATOR_TEST(jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

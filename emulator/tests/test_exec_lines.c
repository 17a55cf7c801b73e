// SPDX-License-Identifier: MIT
// Sums of products of 16-bit floats, the faster way, against the model written out, bit for bit:
// all kinds of numbers, exponents near each other and far apart.
#include "exec/arithmetic/dot.h"
#include "test.h"

enum { CASES = 16000, DEPTH = EMU_LINE_MOST };

static uint64_t bits_now = 0x9e3779b97f4a7c15;

static uint32_t any(void)
{
    bits_now ^= bits_now << 13;
    bits_now ^= bits_now >> 7;
    bits_now ^= bits_now << 17;
    return (uint32_t)(bits_now >> 20);
}

// Zeros and small exponents are frequent; infinities and NaN, where `special` says so, are not.
static uint32_t element(enum emu_type type, unsigned kind, bool special)
{
    const unsigned fraction = type == EMU_F16 ? 10 : type == EMU_BF16 ? 7 : 23;
    const unsigned bits = type == EMU_F32 ? 32 : 16, most = (1u << (bits - 1 - fraction)) - 1;
    const uint32_t low = any() & ((1u << fraction) - 1), sign = (any() & 1) << (bits - 1);
    uint32_t exponent = any() % most;

    if (any() % 8 == 0)
        return sign;
    if (kind == 1)
        exponent = most / 2 + any() % 4;
    if (kind == 2)
        exponent = any() % 3;
    if (kind == 3 && type != EMU_F32)
        exponent = any() % 2 ? 1 : most - 1;
    if (special && any() % 20 == 0)
        exponent = most;
    return sign | exponent << fraction | low;
}

static void compare(enum emu_type type, int sm, unsigned depth)
{
    const struct emu_insn insn = { .type = EMU_F32,
                                   .sum_type = EMU_F32,
                                   .source_type = (uint8_t)type,
                                   .factor_type = (uint8_t)type };
    unsigned taken = 0;

    assert_true(emu_lines_fit(&insn, depth));
    for (unsigned n = 0; n < CASES; n++) {
        const unsigned kind = n % 4, of_sum = n / 4 % 4;
        const bool special = n / 16 % 4 == 0;
        uint64_t a[DEPTH], b[DEPTH];
        struct emu_line x, y;
        for (unsigned k = 0; k < depth; k++) {
            a[k] = element(type, kind, special);
            b[k] = element(type, kind, special);
        }
        uint32_t c = element(EMU_F32, of_sum, special);
        const uint32_t wanted = (uint32_t)emu_dot(&insn, sm, a, b, depth, c);
        emu_fill_line(&insn, a, depth, &x);
        emu_fill_line(&insn, b, depth, &y);
        if (!emu_dot_lines(sm, &x, &y, depth, &c))
            continue;
        taken++;
        if (c != wanted)
            fail_msg("case %u, sm_%d, depth %u: 0x%08x, and not 0x%08x", n, sm, depth, (unsigned)c,
                     (unsigned)wanted);
    }
    assert_true(taken > CASES / 2);
}

TEST(sums_are_those_of_the_model)
{
    static const int generations[] = { 80, 89, 90, 120 };

    for (unsigned g = 0; g < 4; g++)
        for (unsigned depth = 8; depth <= DEPTH; depth += 8) {
            compare(EMU_F16, generations[g], depth);
            compare(EMU_BF16, generations[g], depth);
        }
}

TEST(other_products_are_not_lines)
{
    struct emu_insn insn = {
        .type = EMU_F32, .sum_type = EMU_F32, .source_type = EMU_F16, .factor_type = EMU_F16
    };

    assert_true(emu_lines_fit(&insn, 16));
    assert_false(emu_lines_fit(&insn, 4));
    insn.sum_type = EMU_F16;
    assert_false(emu_lines_fit(&insn, 16));
    insn.sum_type = EMU_F32;
    insn.source_type = insn.factor_type = EMU_TF32;
    assert_false(emu_lines_fit(&insn, 8));
}

int main(void)
{
    return tests_run(NULL, NULL);
}

// SPDX-License-Identifier: MIT
// Sums of products of 16-bit floats, the faster ways, against the model written out, bit for bit:
// all kinds of numbers, exponents near each other and far apart. Lines, and tiles of f16 in each
// build of the lanes.
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

// A tile's registers, lane by lane, and its rows and columns.
struct operands {
    uint32_t a[4][EMU_LANES], b[2][EMU_LANES], c[EMU_TILE_SUMS][EMU_LANES];
    uint64_t rows[16][DEPTH], columns[8][DEPTH];
};

static void fill(struct operands *t, unsigned n, unsigned depth)
{
    const unsigned kind = n % 4, of_sum = n / 4 % 4;
    const bool special = n % 32 == 31;

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        const unsigned row = lane / 4, at = lane % 4 * 2;
        for (unsigned reg = 0; reg < depth / 4; reg++) {
            uint64_t *pair = &t->rows[row + reg % 2 * 8][reg / 2 * 8 + at];
            pair[0] = element(EMU_F16, kind, special);
            pair[1] = element(EMU_F16, kind, special);
            t->a[reg][lane] = (uint32_t)(pair[0] | pair[1] << 16);
        }
        for (unsigned reg = 0; reg < depth / 8; reg++) {
            uint64_t *pair = &t->columns[row][reg * 8 + at];
            pair[0] = element(EMU_F16, kind, special);
            pair[1] = element(EMU_F16, kind, special);
            t->b[reg][lane] = (uint32_t)(pair[0] | pair[1] << 16);
        }
        for (unsigned reg = 0; reg < EMU_TILE_SUMS; reg++)
            t->c[reg][lane] = element(EMU_F32, of_sum, special);
    }
}

static void compare_tiles(enum emu_lane_build build, int sm, unsigned depth)
{
    enum { TILES = 128 };
    const struct emu_insn insn = {
        .type = EMU_F32, .sum_type = EMU_F32, .source_type = EMU_F16, .factor_type = EMU_F16
    };
    const struct emu_tile_sums how = emu_half_sums(sm);
    struct operands t;
    unsigned taken = 0;

    for (unsigned n = 0; n < TILES; n++) {
        uint32_t d[EMU_TILE_SUMS][EMU_LANES];
        fill(&t, n, depth);
        const uint32_t *a[] = { t.a[0], t.a[1], t.a[2], t.a[3] }, *b[] = { t.b[0], t.b[1] };
        const uint32_t *c[] = { t.c[0], t.c[1], t.c[2], t.c[3] };
        if (!emu_tile_of(build)(&how, depth, a, b, c, d))
            continue;
        taken++;
        for (unsigned k = 0; k < EMU_TILE_SUMS * EMU_LANES; k++) {
            const unsigned reg = k / EMU_LANES, lane = k % EMU_LANES, row = lane / 4 + reg / 2 * 8;
            const uint32_t wanted = (uint32_t)emu_dot(
                &insn, sm, t.rows[row], t.columns[lane % 4 * 2 + reg % 2], depth, t.c[reg][lane]);
            if (d[reg][lane] != wanted)
                fail_msg("tile %u, sm_%d, depth %u, register %u, lane %u: 0x%08x, and not 0x%08x",
                         n, sm, depth, reg, lane, (unsigned)d[reg][lane], (unsigned)wanted);
        }
    }
    assert_true(taken > TILES / 4);
}

TEST(tiles_are_those_of_the_model)
{
    static const int generations[] = { 75, 80, 89, 90, 120 };

    for (unsigned g = 0; g < 5; g++)
        for (unsigned depth = 8; depth <= DEPTH; depth += 8) {
            compare_tiles(EMU_LANES_PLAIN, generations[g], depth);
            compare_tiles(emu_lane_build(), generations[g], depth);
        }
}

// An infinity, and a sum beyond the largest number.
TEST(some_tiles_need_the_model)
{
    const struct emu_tile_sums how = emu_half_sums(90);
    struct operands t = { .a = { { 0 } } };
    uint32_t d[EMU_TILE_SUMS][EMU_LANES];
    const uint32_t *a[] = { t.a[0], t.a[1], t.a[2], t.a[3] }, *b[] = { t.b[0], t.b[1] };
    const uint32_t *c[] = { t.c[0], t.c[1], t.c[2], t.c[3] };
    emu_tile_function *tile = emu_tile_of(emu_lane_build());

    assert_true(tile(&how, 16, a, b, c, d));
    t.c[3][31] = UINT32_C(0x7f7fffff);
    assert_true(tile(&how, 16, a, b, c, d));
    t.a[3][31] = t.b[1][31] = 0x7bff;
    assert_true(tile(&how, 16, a, b, c, d)); // too small beside that sum
    t.a[3][31] = 0xfc00;
    assert_false(tile(&how, 16, a, b, c, d));
    t.a[3][31] = 0;
    t.c[3][31] = UINT32_C(0x7fc00000);
    assert_false(tile(&how, 16, a, b, c, d));
    t.c[3][31] = 1; // a subnormal sum
    assert_false(tile(&how, 16, a, b, c, d));
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

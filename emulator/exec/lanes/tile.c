// SPDX-License-Identifier: MIT
// Products of matrices of f16 with sums in f32, for tiles of eight columns: a vector has a row's
// sums. The sums are those of exec/arithmetic/dot.c. A product of two f16 is exact in f32, and so
// is what a power of two makes of a summand, but for bits that are cut off.
#include "family.h"

#include <stdalign.h>

enum { COLUMNS = 8, ROWS = 16, PART = 8 };
// Of a zero, which aligns nothing; and the least to which f32 can align summands.
enum { ZERO = -1000, LOWEST = -100 };

typedef int32_t ints __attribute__((vector_size(COLUMNS * 4)));
typedef uint16_t halves __attribute__((vector_size(COLUMNS * 2)));
typedef float floats __attribute__((vector_size(COLUMNS * 4)));
typedef int64_t longs __attribute__((vector_size(COLUMNS * 8)));
typedef double doubles __attribute__((vector_size(COLUMNS * 8)));

#define GREATER(x, y) (((x) & ((x) > (y))) | ((y) & ((x) <= (y))))
#define INTS(x)       __builtin_convertvector(x, ints)

// Elements of A and of B, and their exponents, as they are stored: those of subnormal numbers are
// those of the least normal one.
struct factors {
    alignas(64) float a[ROWS][EMU_TILE_MOST], b[EMU_TILE_MOST][COLUMNS];
    alignas(64) int32_t of_a[ROWS][EMU_TILE_MOST], of_b[EMU_TILE_MOST][COLUMNS];
};

// False if one is infinite or NaN. `count` is a multiple of eight.
static bool convert(const uint16_t *from, float *to, int32_t *exponents, unsigned count)
{
    ints special = { 0 };
    int32_t any = 0;
    for (unsigned k = 0; k < count; k += COLUMNS) {
        halves read;
        memcpy(&read, from + k, sizeof(read));
        const ints bits = INTS(read), field = bits >> 10 & 31, zero = (bits & 0x7fff) == 0;
        const ints exponent = field - (field == 0) - 15;
        const ints unit_bits = ((exponent - 10 + 127) << 23) | (bits & 0x8000) << 16;
        const ints significand = (bits & 1023) | ((field != 0) & 1024);
        const ints aligned = (exponent & ~zero) | (zero & ZERO);
        floats unit;
        memcpy(&unit, &unit_bits, sizeof(unit));
        unit *= __builtin_convertvector(significand, floats);
        special |= field == 31;
        memcpy(to + k, &unit, sizeof(unit));
        memcpy(exponents + k, &aligned, sizeof(aligned));
    }
    for (unsigned i = 0; i < COLUMNS; i++)
        any |= special[i];
    return !any;
}

static bool take_factors(const uint32_t *const *a, const uint32_t *const *b, unsigned depth,
                         struct factors *f)
{
    alignas(64) uint16_t of_a[ROWS][EMU_TILE_MOST] = { { 0 } }, of_b[EMU_TILE_MOST][COLUMNS];
    for (unsigned reg = 0; reg < depth / 4; reg++) // four lanes have eight elements of a row
        for (unsigned row = 0; row < ROWS / 2; row++)
            memcpy(&of_a[row + reg % 2 * 8][reg / 2 * PART], a[reg] + row * 4, PART * 2);
    for (unsigned reg = 0; reg < depth / 8; reg++)
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            const uint32_t pair = b[reg][lane];
            of_b[reg * PART + lane % 4 * 2][lane / 4] = (uint16_t)pair;
            of_b[reg * PART + lane % 4 * 2 + 1][lane / 4] = (uint16_t)(pair >> 16);
        }
    return convert(of_a[0], f->a[0], f->of_a[0], ROWS * EMU_TILE_MOST) &&
           convert(of_b[0], f->b[0], f->of_b[0], depth * COLUMNS);
}

// Adds the products of a row and eight columns, from k on, to `sums`. `bad`: not 0 where a sum is
// not for this file.
static void add_step(const struct emu_tile_sums *g, const struct factors *f, unsigned row,
                     unsigned k, unsigned end, uint32_t *sums, ints *bad)
{
    ints c, largest, whole[2] = { { 0 } };
    floats addend;
    memcpy(&c, sums, sizeof(c));
    memcpy(&addend, sums, sizeof(addend));
    const ints field = c >> 23 & 255, zero = (c & INT32_MAX) == 0;
    largest = ((field - 127 - (field == 0)) & ~zero) | (zero & ZERO);
    largest = GREATER(largest, (ints) { 0 } + g->least);
    for (unsigned i = k; i < end; i++) {
        ints other;
        memcpy(&other, f->of_b[i], sizeof(other));
        other += f->of_a[row][i];
        largest = GREATER(largest, other);
    }
    *bad |= (field == 255) | ((largest < LOWEST) & ~zero);
    largest = GREATER(largest, (ints) { 0 } + LOWEST);
    const ints scale_bits = (g->fraction + 127 - largest) << 23;
    floats scale;
    memcpy(&scale, &scale_bits, sizeof(scale));
    whole[0] = INTS(addend * scale);
    for (unsigned i = k; i < end; i++) { // eight summands fit an int
        floats b;
        memcpy(&b, f->b[i], sizeof(b));
        whole[(i - k) / PART] += INTS(b * f->a[row][i] * scale);
    }
    doubles total =
        __builtin_convertvector(whole[0], doubles) + __builtin_convertvector(whole[1], doubles);
    const longs unit_bits = (__builtin_convertvector(largest, longs) - g->fraction + 1023) << 52;
    longs bits;
    doubles unit;
    memcpy(&bits, &total, sizeof(bits));
    memcpy(&unit, &unit_bits, sizeof(unit));
    bits &= -(INT64_C(1) << 29); // towards zero, to the bits of f32
    memcpy(&total, &bits, sizeof(total));
    const floats result = __builtin_convertvector(total * unit, floats);
    ints of_result;
    memcpy(&of_result, &result, sizeof(of_result));
    const ints magnitude = of_result & INT32_MAX;
    *bad |= magnitude >= 0x7f800000;
    *bad |= (magnitude < 0x00800000) & ((whole[0] | whole[1]) != 0);
    memcpy(sums, &of_result, sizeof(of_result));
}

emu_tile_function EMU_NAMED(emu_tile);
bool EMU_NAMED(emu_tile)(const struct emu_tile_sums *g, unsigned depth, const uint32_t *const *a,
                         const uint32_t *const *b, const uint32_t *const *c,
                         uint32_t d[EMU_TILE_SUMS][EMU_LANES])
{
    struct factors f;
    ints bad = { 0 };
    int32_t any = 0;
    if (!take_factors(a, b, depth, &f))
        return false;
    for (unsigned row = 0; row < ROWS; row++) {
        alignas(64) uint32_t sums[COLUMNS];
        const unsigned reg = row / 8 * 2, lane = row % 8 * 4;
        for (unsigned i = 0; i < COLUMNS; i++)
            sums[i] = c[reg + i % 2][lane + i / 2];
        for (unsigned k = 0; k < depth; k += g->step)
            add_step(g, &f, row, k, k + g->step < depth ? k + g->step : depth, sums, &bad);
        for (unsigned i = 0; i < COLUMNS; i++)
            d[reg + i % 2][lane + i / 2] = sums[i];
    }
    for (unsigned i = 0; i < COLUMNS; i++)
        any |= bad[i];
    return !any;
}

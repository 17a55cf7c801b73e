// SPDX-License-Identifier: MIT
// Matrices: ldmatrix and stmatrix, which move tiles of 8 x 8 between shared memory and the lanes of
// a warp, and mma, which multiplies tiles. All 32 lanes take part in each.
#include "warp.h"

#include <stdalign.h>

enum { ROWS = 8, ROW_BYTES = 16, ELEMENT_BYTES = 2 };

static bool require_warp(struct emu_warp *warp, const struct emu_op *op, uint32_t lanes)
{
    return lanes == UINT32_MAX ||
           emu_fault(warp, op->insn, emu_first(lanes), EMU_ILLEGAL_INSTRUCTION,
                     "it needs all 32 lanes of a warp; lanes 0x%08x are not there",
                     (unsigned)~lanes);
}

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

// Where lane `lane` has its element `half`, 0 or 1, of a tile.
struct place {
    unsigned row, column;
};

static struct place place_of(const struct emu_op *op, unsigned lane, unsigned half)
{
    const unsigned group = lane / 4, element = lane % 4 * 2 + half;
    return op->insn->mode == EMU_MODE_TRANSPOSED ? (struct place) { element, group }
                                                 : (struct place) { group, element };
}

// The bytes of each row, whose address lane 8 * tile + row has.
static bool find_rows(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                      enum emu_use use, unsigned tiles, struct emu_access rows[EMU_LANES],
                      uint64_t addresses[EMU_LANES])
{
    alignas(64) uint64_t scratch[EMU_LANES];
    struct emu_op access = *op;
    access.handler = use == EMU_USE_LOAD ? EMU_DO_LOAD : EMU_DO_STORE;
    memcpy(addresses, emu_addresses(warp, frame, &access, scratch), sizeof(scratch));
    for (unsigned i = 0; i < tiles * ROWS; i++) {
        if (!emu_lane_access(warp, &access, i, addresses[i], ROW_BYTES, use, &rows[i]))
            return false;
        if (!rows[i].shared)
            return emu_fault(warp, op->insn, i, EMU_ILLEGAL_ADDRESS,
                             "the row at 0x%llx is not in shared memory",
                             (unsigned long long)addresses[i]);
    }
    return true;
}

static bool row_is_ordered(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                           const struct emu_access *row, enum emu_use use, bool same)
{
    return !warp->block->race ||
           emu_race_access(warp, op, lane, (uint32_t)(row->host - warp->block->shared), ROW_BYTES,
                           use, same);
}

static bool load_tiles(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                       uint32_t *init)
{
    struct emu_access rows[EMU_LANES];
    uint64_t addresses[EMU_LANES];
    uint16_t tiles[EMU_LANES][ROWS];
    const unsigned count = op->dst_count;
    if (!find_rows(warp, frame, op, EMU_USE_LOAD, count, rows, addresses))
        return false;
    for (unsigned i = 0; i < count * ROWS; i++) {
        if (!row_is_ordered(warp, op, i, &rows[i], EMU_USE_LOAD, false))
            return false;
        memcpy(tiles[i], rows[i].host, ROW_BYTES);
    }
    for (unsigned k = 0; k < count; k++) {
        struct emu_undefined_lanes u = { 0 };
        uint32_t words[EMU_LANES] = { 0 }, open = 0;
        for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
            const unsigned lane = i / 2, half = i % 2;
            const struct place at = place_of(op, lane, half);
            const struct emu_access *row = &rows[k * ROWS + at.row];
            words[lane] |= (uint32_t)tiles[k * ROWS + at.row][at.column] << 16 * half;
            unsigned char *shadow = row->shadow ? row->shadow + at.column * ELEMENT_BYTES : NULL;
            if (!shadow || emu_shadow_set(shadow, ELEMENT_BYTES))
                continue;
            const struct emu_undefined part = emu_undefined_load(
                warp, op, addresses[k * ROWS + at.row] + at.column * ELEMENT_BYTES, shadow,
                ELEMENT_BYTES);
            u.lane[lane].bits |= part.bits << 16 * half;
            u.lane[lane].computed |= part.computed << 16 * half;
            u.lane[lane].origin = u.lane[lane].origin ? u.lane[lane].origin : part.origin;
            open |= 1u << lane;
        }
        emu_put(frame, init, &op->dst[k], UINT32_MAX, words);
        if (open)
            emu_undefined_put(warp, init, &op->dst[k], open, &u);
    }
    return true;
}

static void store_undefined(struct emu_warp *warp, const struct emu_op *op, const uint32_t *init,
                            unsigned tile, const struct emu_access rows[EMU_LANES])
{
    const struct emu_value *value = &op->src[1 + tile];
    struct emu_undefined_lanes u = { 0 };
    if (emu_undefined_in(init, value, UINT32_MAX))
        emu_undefined_fetch(warp, init, op, value, UINT32_MAX, &u);
    for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
        const unsigned lane = i / 2, half = i % 2;
        const struct place at = place_of(op, lane, half);
        const struct emu_undefined part = { u.lane[lane].bits >> 16 * half & 0xffff,
                                            u.lane[lane].computed >> 16 * half & 0xffff,
                                            u.lane[lane].origin };
        unsigned char *shadow = rows[tile * ROWS + at.row].shadow;
        if (shadow)
            emu_undefined_store(warp, shadow + at.column * ELEMENT_BYTES, ELEMENT_BYTES, part);
    }
}

static bool store_tiles(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                        const uint32_t *init)
{
    struct emu_access rows[EMU_LANES];
    uint64_t addresses[EMU_LANES];
    uint16_t tiles[EMU_LANES][ROWS];
    const unsigned count = op->src_count - 1u;
    if (!find_rows(warp, frame, op, EMU_USE_STORE, count, rows, addresses))
        return false;
    for (unsigned k = 0; k < count; k++) {
        alignas(64) uint32_t scratch[EMU_LANES];
        const uint32_t *words = emu_fetch(warp, frame, &op->src[1 + k], scratch);
        for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
            const struct place at = place_of(op, i / 2, i % 2);
            tiles[k * ROWS + at.row][at.column] = (uint16_t)(words[i / 2] >> 16 * (i % 2));
        }
    }
    for (unsigned i = 0; i < count * ROWS; i++) {
        const bool same = memcmp(rows[i].host, tiles[i], ROW_BYTES) == 0;
        if (!row_is_ordered(warp, op, i, &rows[i], EMU_USE_STORE, same))
            return false;
        memcpy(rows[i].host, tiles[i], ROW_BYTES);
    }
    for (unsigned k = 0; k < count; k++)
        store_undefined(warp, op, init, k, rows);
    return true;
}

// ---- mma: tiles in the registers of the lanes ---------------------------------------------------

enum { TILE_M = 16, TILE_N = 8, MOST_K = 32 };

// A number: significand * 2^(exponent - bits), where the significand of a normal number has its
// leading one at bit `bits`. The exponent of a subnormal number is that of the least normal one.
struct number {
    int64_t significand;
    int exponent;
    bool infinite, nan;
};

enum { FRACTION = 23 }; // bits of a significand below its leading one, for all formats

// What the model says of a zero: its exponent takes part in the alignment as this one.
enum { ZERO_EXPONENT = -126 };

static struct number number_of(enum emu_type type, uint32_t bits)
{
    const int fraction = type == EMU_F16 ? 10 : type == EMU_BF16 ? 7 : 23;
    const int width = type == EMU_F16 || type == EMU_BF16 ? 16 : 32;
    const int exponent_bits = width - 1 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
    bits = type == EMU_TF32 ? bits & UINT32_C(0xffffe000) : bits; // the rest is not read
    const int field = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const int64_t part = bits & ((UINT32_C(1) << fraction) - 1);
    const int64_t whole =
        (field ? part | INT64_C(1) << fraction : part) * (1 << (FRACTION - fraction));
    const bool special = field == (1 << exponent_bits) - 1;
    return (struct number) { .significand = bits >> (width - 1) & 1 ? -whole : whole,
                             .exponent = whole ? (field ? field : 1) - bias : ZERO_EXPONENT,
                             .infinite = special && part == 0,
                             .nan = special && part != 0 };
}

// The arithmetic of a generation: the summands of a step, which takes so many bytes of a row of A,
// are aligned to the largest exponent and truncated to so many bits of fraction.
struct generation {
    int fraction;
    unsigned step_bytes;
};

// From the model of MMA-Sim (arXiv 2511.10909), which its authors tested on these generations.
static struct generation generation_of(int sm)
{
    if (sm >= 90)
        return (struct generation) { 25, 32 };
    return (struct generation) { 24, 16 };
}

// The sign of an infinite sum; 0: it is finite; 2: NaN.
static int special_sum(const struct number *a, const struct number *b, unsigned count,
                       const struct number *c)
{
    bool up = c->infinite && c->significand > 0, down = c->infinite && c->significand < 0;
    bool nan = c->nan;
    for (unsigned k = 0; k < count; k++) {
        const bool infinite = a[k].infinite || b[k].infinite;
        nan = nan || a[k].nan || b[k].nan ||
              (infinite && (a[k].significand == 0 || b[k].significand == 0));
        const bool negative = (a[k].significand < 0) != (b[k].significand < 0);
        up = up || (infinite && !negative);
        down = down || (infinite && negative);
    }
    return nan || (up && down) ? 2 : up ? 1 : down ? -1 : 0;
}

// significand * 2^-shift, without the bits below the point.
static int64_t truncated(int64_t significand, int shift)
{
    const int64_t magnitude = significand < 0 ? -significand : significand;
    const int64_t kept = shift >= 63 ? 0 : shift >= 0 ? magnitude >> shift : magnitude << -shift;
    return significand < 0 ? -kept : kept;
}

// The bits of sum * 2^exponent: f32 towards zero, f16 to nearest even; a zero is +0.
static uint32_t pack_sum(enum emu_type type, int64_t sum, int exponent)
{
    const bool negative = sum < 0, half = type == EMU_F16;
    const uint64_t magnitude = (uint64_t)(negative ? -sum : sum);
    const struct emu_format *format = half ? &emu_format_f16 : &emu_format_f32;
    uint32_t bits = (uint32_t)emu_round_pack(format, half ? EMU_RN : EMU_RZ, negative, exponent,
                                             magnitude, false);
    // Beyond the largest number of f32 is infinity, though the rounding is towards zero.
    if (!half && magnitude && exponent + 63 - __builtin_clzll(magnitude) > 127)
        bits = (negative ? UINT32_C(0x80000000) : 0) | UINT32_C(0x7f800000);
    return bits << 1 << (half ? 16 : 0) ? bits : 0;
}

// c + the products of a and b, in one step.
static uint32_t fused(const struct generation *g, enum emu_type type, const struct number *a,
                      const struct number *b, unsigned count, uint32_t c_bits)
{
    const bool half = type == EMU_F16;
    const struct number c = number_of(type, c_bits);
    const int special = special_sum(a, b, count, &c);
    int largest = c.exponent;
    if (special == 2)
        return half ? EMU_F16_NAN : EMU_F32_NAN;
    if (special)
        return half ? (special < 0 ? 0xfc00 : 0x7c00)
                    : (special < 0 ? UINT32_C(0xff800000) : UINT32_C(0x7f800000));
    for (unsigned k = 0; k < count; k++) {
        const int exponent = a[k].exponent + b[k].exponent;
        largest = exponent > largest ? exponent : largest;
    }
    int64_t sum = truncated(c.significand, FRACTION + largest - c.exponent - g->fraction);
    for (unsigned k = 0; k < count; k++)
        sum += truncated(a[k].significand * b[k].significand,
                         2 * FRACTION + largest - a[k].exponent - b[k].exponent - g->fraction);
    return pack_sum(type, sum, largest - g->fraction);
}

// sm_8x takes the longest rows in two steps.
static uint32_t dot(const struct emu_insn *insn, const struct generation *g, const uint32_t *a,
                    const uint32_t *b, uint32_t c)
{
    const unsigned bytes = emu_bits((enum emu_type)insn->source_type) / 8;
    const unsigned step = g->step_bytes / bytes;
    struct number x[MOST_K], y[MOST_K];
    for (unsigned k = 0; k < insn->depth; k++) {
        x[k] = number_of((enum emu_type)insn->source_type, a[k]);
        y[k] = number_of((enum emu_type)insn->source_type, b[k]);
    }
    for (unsigned k = 0; k < insn->depth; k += step) {
        const unsigned count = insn->depth - k < step ? insn->depth - k : step;
        c = fused(g, (enum emu_type)insn->type, x + k, y + k, count, c);
    }
    return c;
}

static int64_t byte_of(enum emu_type type, uint32_t bits)
{
    return type == EMU_S8 ? (int8_t)bits : (uint8_t)bits;
}

static uint32_t integer_dot(const struct emu_insn *insn, const uint32_t *a, const uint32_t *b,
                            uint32_t c)
{
    int64_t sum = (int32_t)c;
    for (unsigned k = 0; k < insn->depth; k++)
        sum += byte_of((enum emu_type)insn->source_type, a[k]) *
               byte_of((enum emu_type)insn->factor_type, b[k]);
    if (insn->satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

// The place of element `part` of register `reg` of a lane in A, or in the transpose of B.
static struct place in_factor(unsigned bits, unsigned lane, unsigned reg, unsigned part, bool is_a)
{
    const unsigned parts = 32 / bits, block = is_a ? reg / 2 : reg;
    return (struct place) { lane / 4 + (is_a ? reg % 2 * 8 : 0),
                            block * 4 * parts + lane % 4 * parts + part };
}

static struct place in_sum(unsigned bits, unsigned lane, unsigned reg, unsigned part)
{
    const unsigned row = bits == 16 ? reg : reg / 2, column = bits == 16 ? part : reg % 2;
    return (struct place) { lane / 4 + row * 8, lane % 4 * 2 + column };
}

// Operands of mma: A, B, C, and D, which has the places of C.
enum factor { IS_A, IS_B, IS_C };

struct tiles {
    uint32_t a[TILE_M][MOST_K], b[TILE_N][MOST_K], c[TILE_M][TILE_N];
    // What the undefined bits of the sources reach: rows, columns, single results. 0: nothing.
    uint32_t row_origin[TILE_M], column_origin[TILE_N], origin[TILE_M][TILE_N];
    bool row_open[TILE_M], column_open[TILE_N], open[TILE_M][TILE_N];
};

static unsigned element_bits(const struct emu_insn *insn, enum factor factor)
{
    return emu_bits((enum emu_type)(factor == IS_C ? insn->type : insn->source_type));
}

static struct place place_in(const struct emu_insn *insn, enum factor factor, unsigned lane,
                             unsigned reg, unsigned part)
{
    const unsigned bits = element_bits(insn, factor);
    return factor == IS_C ? in_sum(bits, lane, reg, part)
                          : in_factor(bits, lane, reg, part, factor == IS_A);
}

static void open_element(struct tiles *t, enum factor factor, struct place at, uint32_t origin)
{
    bool *open = factor == IS_A   ? &t->row_open[at.row]
                 : factor == IS_B ? &t->column_open[at.row]
                                  : &t->open[at.row][at.column];
    uint32_t *from = factor == IS_A   ? &t->row_origin[at.row]
                     : factor == IS_B ? &t->column_origin[at.row]
                                      : &t->origin[at.row][at.column];
    *open = true;
    *from = *from ? *from : origin;
}

static void gather_register(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                            const struct emu_op *op, enum factor factor, unsigned reg, unsigned src,
                            struct tiles *t)
{
    const unsigned bits = element_bits(op->insn, factor);
    const uint32_t low = UINT32_MAX >> (32 - bits);
    const uint32_t undefined = emu_undefined_in(init, &op->src[src], UINT32_MAX);
    alignas(64) uint32_t scratch[EMU_LANES];
    const uint32_t *words = emu_fetch(warp, frame, &op->src[src], scratch);
    struct emu_undefined_lanes u = { 0 };
    if (undefined)
        emu_undefined_fetch(warp, init, op, &op->src[src], undefined, &u);
    for (unsigned i = 0; i < EMU_LANES * (32 / bits); i++) {
        const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
        const struct place at = place_in(op->insn, factor, lane, reg, part);
        *(factor == IS_A   ? &t->a[at.row][at.column]
          : factor == IS_B ? &t->b[at.row][at.column]
                           : &t->c[at.row][at.column]) = words[lane] >> part * bits & low;
        if (u.lane[lane].bits >> part * bits & low)
            open_element(t, factor, at, u.lane[lane].origin);
    }
}

static void put_results(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                        const struct emu_op *op, const struct tiles *t)
{
    const unsigned bits = element_bits(op->insn, IS_C);
    for (unsigned reg = 0; reg < op->dst_count; reg++) {
        struct emu_undefined_lanes u = { 0 };
        uint32_t words[EMU_LANES] = { 0 }, open = 0;
        for (unsigned i = 0; i < EMU_LANES * (32 / bits); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
            const struct place at = in_sum(bits, lane, reg, part);
            const uint64_t all = (uint64_t)(UINT32_MAX >> (32 - bits)) << part * bits;
            words[lane] |= t->c[at.row][at.column] << part * bits;
            if (!t->row_open[at.row] && !t->column_open[at.column] && !t->open[at.row][at.column])
                continue;
            open |= 1u << lane;
            u.lane[lane].bits |= all;
            u.lane[lane].computed |= all;
            u.lane[lane].origin = t->row_open[at.row]         ? t->row_origin[at.row]
                                  : t->column_open[at.column] ? t->column_origin[at.column]
                                                              : t->origin[at.row][at.column];
        }
        emu_put(frame, init, &op->dst[reg], UINT32_MAX, words);
        if (open)
            emu_undefined_put(warp, init, &op->dst[reg], open, &u);
    }
}

static bool multiply(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                     uint32_t *init)
{
    const struct emu_insn *insn = op->insn;
    const struct generation generation = generation_of(warp->block->exec->config->gpu->sm);
    const char letters[] = { 'A', 'B', 'C' };
    struct tiles t = { 0 };
    unsigned src = 0;
    for (unsigned factor = IS_A; factor <= IS_C; factor++) {
        const unsigned count = emu_fragment_registers(insn, letters[factor]);
        for (unsigned reg = 0; reg < count; reg++)
            gather_register(warp, frame, init, op, (enum factor)factor, reg, src++, &t);
    }
    for (unsigned row = 0; row < TILE_M; row++)
        for (unsigned column = 0; column < TILE_N; column++) {
            uint32_t *c = &t.c[row][column];
            *c = insn->type == EMU_S32 ? integer_dot(insn, t.a[row], t.b[column], *c)
                                       : dot(insn, &generation, t.a[row], t.b[column], *c);
        }
    put_results(warp, frame, init, op, &t);
    return true;
}

bool emu_matrix_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                          uint32_t *init, uint32_t lanes)
{
    if (!require_warp(warp, op, lanes))
        return false;
    return op->handler == EMU_DO_MATRIX_LOAD    ? load_tiles(warp, op, frame, init)
           : op->handler == EMU_DO_MATRIX_STORE ? store_tiles(warp, op, frame, init)
                                                : multiply(warp, op, frame, init);
}

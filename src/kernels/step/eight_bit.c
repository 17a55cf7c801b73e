// SPDX-License-Identifier: MIT
#include "eight_bit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

enum { DECADES = 7, EXPONENT = 23, NEGATIVE = 256, UNSIGNED = 128, CODE_OF_0 = 127 };

// ---- the tables ---------------------------------------------------------------------------------

static int by_value(const void *left, const void *right)
{
    const float x = *(const float *)left, y = *(const float *)right;
    return (x > y) - (x < y);
}

// torch.linspace(0.1, 1, n + 1)[k]: from the nearer end, each with one rounding.
static float boundary(int n, int k)
{
    const float step = (1.0f - 0.1f) / (float)n;
    return k < (n + 1) / 2 ? fmaf(step, (float)k, 0.1f) : fmaf(-step, (float)(n - k), 1.0f);
}

void ptxk_eight_bit_map(bool is_signed, float map[PTXK_EIGHT_BIT_CODES])
{
    static const float scale[DECADES] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f };
    size_t count = 0;

    map[count++] = 0.0f;
    map[count++] = 1.0f;
    for (int i = 0; i < DECADES; i++) {
        const int n = is_signed ? 1 << i : 2 << i;
        for (int k = 0; k < n; k++) {
            const float entry = scale[i] * ((boundary(n, k) + boundary(n, k + 1)) / 2);
            map[count++] = entry;
            if (is_signed)
                map[count++] = -entry;
        }
    }
    qsort(map, count, sizeof *map, by_value);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// The least q above the midpoint of two entries.
static uint32_t least_above(float x, float y)
{
    const double middle = ((double)x + (double)y) / 2;
    uint32_t q = (bits_of((float)middle) & ~UINT32_C(0xff)) | 0x80;
    float value;

    memcpy(&value, &q, sizeof value);
    return (double)value > middle ? q : q + 0x100;
}

// One sign of a map: the entries from code `zero` on in direction `sign`, in rows from `row` on, of
// which one is for 0, one for each decade, and one for 1, and the entries of to_row.
static void fill_sign(struct ptxk_eight_bit_tables *t, const float *map, int zero, int sign,
                      uint32_t row, uint32_t *to_row)
{
    const float least_byte = 0x1.8p23f; // a float of this size has its units in the last place
    const int first_length = zero ? 1 : 2;
    uint32_t edge[DECADES + 1]; // the least q of each row but the first
    int code = 1;

    t->rows[row] = (struct ptxk_eight_bit_row) { .least = least_byte + (float)zero };
    for (int i = 0; i <= DECADES; i++) {
        const int n = i < DECADES ? first_length << i : 1;
        const double first = fabs((double)map[zero + sign * code]);
        const double last = i < DECADES ? fabs((double)map[zero + sign * (code + n - 1)]) : first;
        edge[i] = least_above(fabsf(map[zero + sign * (code - 1)]), (float)first);
        t->rows[row + 1 + (uint32_t)i] = (struct ptxk_eight_bit_row) {
            .slope = n > 1 ? (float)(sign / (last - first)) : 0,
            .offset = n > 1 ? (float)(-first / (last - first)) : 0,
            .steps = (float)(sign * (n - 1)),
            .least = least_byte + (float)(zero + sign * code),
        };
        code += n;
        if (sign < 0 && i == DECADES - 1) { // there is no -1
            edge[DECADES] = UINT32_MAX;
            break;
        }
    }
    for (uint32_t e = 0, k = 0; e < UNSIGNED; e++) {
        to_row[e] = (row + k - e - (sign < 0 ? NEGATIVE : 0)) << EXPONENT;
        if (k <= DECADES && edge[k] >> EXPONENT == e)
            to_row[e] += ((e + 1) << EXPONENT) - edge[k++];
    }
}

void ptxk_eight_bit_tables_fill(struct ptxk_eight_bit_tables *t)
{
    enum { ROWS_OF_SIGN = DECADES + 2, ROWS_BELOW_0 = DECADES + 1 };

    _Static_assert(2 * ROWS_OF_SIGN + ROWS_BELOW_0 == PTXK_EIGHT_BIT_ROWS, "a row each");
    for (int is_signed = 0; is_signed < 2; is_signed++)
        ptxk_eight_bit_map(is_signed, t->map[is_signed]);
    fill_sign(t, t->map[1], CODE_OF_0, 1, 0, t->to_row);
    fill_sign(t, t->map[0], 0, 1, ROWS_OF_SIGN, t->to_row + UNSIGNED);
    fill_sign(t, t->map[1], CODE_OF_0, -1, 2 * ROWS_OF_SIGN, t->to_row + NEGATIVE);
    for (uint32_t e = 0; e < UNSIGNED; e++) // nothing is below 0: the row of 0
        t->to_row[NEGATIVE + UNSIGNED + e] = ((uint32_t)ROWS_OF_SIGN - NEGATIVE - e) << EXPONENT;
}

// ---- shared memory ------------------------------------------------------------------------------

#define WORDS_BEFORE(member) ((uint32_t)(offsetof(struct ptxk_eight_bit_tables, member) / 4))

ptx_ptr ptxk_eight_bit_shared(ptx_builder *b)
{
    return ptx_shared(b, PTX_U32, sizeof(struct ptxk_eight_bit_tables) / 4);
}

void ptxk_eight_bit_copy(ptx_builder *b, ptx_ptr shared, ptx_ptr from, ptx_val tid,
                         unsigned threads)
{
    enum { VECTOR = 4, VECTORS = sizeof(struct ptxk_eight_bit_tables) / 16 };

    _Static_assert(sizeof(struct ptxk_eight_bit_tables) % 16 == 0, "whole vectors");
    ptx_for (b, k, tid, ptx_u32(VECTORS), ptx_u32(threads)) {
        ptx_val at = ptx_mul(b, k, ptx_u32(VECTOR));
        ptx_store_vec(b, shared, at, ptx_load_vec(b, from, at, VECTOR));
    }
}

// ---- elements -----------------------------------------------------------------------------------

void ptxk_eight_bit_decode(ptx_builder *b, ptx_ptr shared, bool is_signed, const ptx_val codes[2],
                           ptx_val absmax, ptx_val state[PTXK_EIGHT_BIT_LANES])
{
    const uint32_t words = is_signed ? WORDS_BEFORE(map[1]) : WORDS_BEFORE(map[0]);
    ptx_ptr map = ptx_at(b, ptx_ptr_cast(b, PTX_F32, shared), ptx_u32(words));

    for (uint32_t k = 0; k < PTXK_EIGHT_BIT_LANES; k++) {
        ptx_val code = ptx_prmt(b, codes[k / 4], ptx_b32(0), ptx_u32(0x4440 + k % 4));
        ptx_val entry = ptx_load(b, map, ptx_bitcast(b, PTX_U32, code));
        state[k] = ptx_mul(b, entry, absmax);
    }
}

// The bits of the largest |state| of the warp; NaN is larger than infinity.
static ptx_val largest(ptx_builder *b, const ptx_val *state)
{
    const bool can_reduce = ptx_builder_target(b).sm >= 80;
    ptx_val most = { 0 };

    for (unsigned k = 0; k < PTXK_EIGHT_BIT_LANES; k++) {
        ptx_val size = ptx_abs(b, state[k]);
        if (!can_reduce)
            size = ptx_bitcast(b, PTX_U32, size);
        most = k == 0 ? size : can_reduce ? ptx_max_nan(b, most, size) : ptx_max(b, most, size);
    }
    if (can_reduce)
        return ptx_redux_max(b, ptx_bitcast(b, PTX_U32, most), ptx_full_warp());
    for (uint32_t lanes = WARP / 2; lanes; lanes /= 2) {
        ptx_val other = ptx_shfl_bfly(b, most, ptx_u32(lanes));
        most = ptx_max(b, most, other);
    }
    return most;
}

// A float whose lowest byte is the code of state * inverse.
static ptx_val code_of(ptx_builder *b, ptx_ptr shared, bool is_signed, ptx_val state,
                       ptx_val inverse)
{
    const uint32_t words = WORDS_BEFORE(to_row) + (is_signed ? 0 : UNSIGNED);
    const uint32_t and_or = 0xea; // (x & y) | z
    ptx_val quotient = ptx_bitcast(b, PTX_U32, ptx_mul(b, state, inverse));
    ptx_val q = ptx_lop3(b, quotient, ptx_u32(0xffffff00), ptx_u32(0x80), ptx_u32(and_or));
    ptx_val exponent = ptx_shr(b, q, ptx_u32(EXPONENT));
    ptx_val to_row = ptx_load(b, ptx_at(b, shared, ptx_u32(words)), exponent);
    ptx_val row = ptx_shr(b, ptx_add(b, q, to_row), ptx_u32(EXPONENT));
    ptx_val at =
        ptx_mad(b, row, ptx_u32(sizeof(struct ptxk_eight_bit_row)), ptx_ptr_address(b, shared));
    ptx_ptr row_at = ptx_ptr_from(b, PTX_F32, PTX_SPACE_SHARED, at);
    ptx_vec line = ptx_load_vec(b, row_at, ptx_u32(0), 4);
    ptx_val part = ptx_op(b, PTX_OP_fma, .x = ptx_bitcast(b, PTX_F32, q), .y = line.lane[0],
                          .z = line.lane[1], .sat = true);

    return ptx_fma(b, part, line.lane[2], line.lane[3]);
}

static ptx_val lowest_bytes(ptx_builder *b, const ptx_val x[4])
{
    ptx_val pair[2];

    for (unsigned k = 0; k < 2; k++) {
        ptx_val low = ptx_bitcast(b, PTX_B32, x[2 * k]);
        pair[k] = ptx_prmt(b, low, ptx_bitcast(b, PTX_B32, x[2 * k + 1]), ptx_u32(0x0040));
    }
    return ptx_prmt(b, pair[0], pair[1], ptx_u32(0x5410));
}

void ptxk_eight_bit_encode(ptx_builder *b, ptx_ptr shared, bool is_signed,
                           const ptx_val state[PTXK_EIGHT_BIT_LANES], ptx_val codes[2],
                           ptx_val *absmax)
{
    const uint32_t least = 0x00800000, infinity = 0x7f800000; // the least normal number
    const ptx_val zeros = ptx_b32(is_signed ? UINT32_C(0x01010101) * CODE_OF_0 : 0);
    ptx_val bits = largest(b, state);
    ptx_val above = ptx_sub(b, bits, ptx_u32(least));
    ptx_val usual = ptx_lt(b, above, ptx_u32(infinity - least));
    ptx_val small = ptx_lt(b, bits, ptx_u32(least));
    ptx_val other = ptx_select(b, small, ptx_u32(0), ptx_u32(0x7fffffff));

    *absmax = ptx_bitcast(b, PTX_F32, ptx_select(b, usual, bits, other));
    codes[0] = ptx_var(b, zeros);
    codes[1] = ptx_var(b, zeros);
    ptx_if (b, usual) {
        ptx_val inverse = ptx_rcp(b, *absmax);
        ptx_val code[PTXK_EIGHT_BIT_LANES];
        for (unsigned k = 0; k < PTXK_EIGHT_BIT_LANES; k++)
            code[k] = code_of(b, shared, is_signed, state[k], inverse);
        for (unsigned k = 0; k < 2; k++)
            ptx_set(b, codes[k], lowest_bytes(b, code + 4 * k));
    }
}

// SPDX-License-Identifier: MIT
#include "../format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../blocks.h"
#include "state_8bit.h"

enum { DECADES = 7, CODE_OF_0 = 127, FIRST_CELL = 0x3400 };
#define LEAST_CELL 0x1p-23f // the first number of the first cell: below it all is nearest to 0

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

void ptxk_state_8bit_map(bool is_signed, float map[PTXK_STATE_8BIT_CODES])
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

// The least q above the midpoint of two entries, as bits; their last byte does not count.
static uint32_t least_above(float x, float y)
{
    const double middle = ((double)x + (double)y) / 2;
    uint32_t q = (bits_of((float)middle) & ~UINT32_C(0xff)) | 0x80;
    float value;

    memcpy(&value, &q, sizeof value);
    return ((double)value > middle ? q : q + 0x100) & ~UINT32_C(0xff);
}

// The cells of a map whose entries from 0 up are entry[0] to entry[last].
static void fill_cells(uint16_t *cells, const float *entry, uint32_t last)
{
    uint32_t place = 0;

    for (uint32_t k = 0; k < PTXK_STATE_8BIT_CELLS; k++) {
        const uint32_t first = FIRST_CELL + k, least = first << 16;
        uint32_t rest = 0;
        while (place < last && least_above(entry[place], entry[place + 1]) <= least)
            place++;
        if (place < last) {
            const uint32_t next = least_above(entry[place], entry[place + 1]);
            if (next >> 16 == first)
                rest = 0x100 - (next >> 8 & 0xff);
        }
        cells[k] = (uint16_t)(((place - first) & 0xff) << 8 | rest);
    }
}

void ptxk_state_8bit_tables_fill(void *tables)
{
    struct ptxk_state_8bit_tables *t = tables;

    for (int is_signed = 0; is_signed < 2; is_signed++) {
        const int zero = is_signed ? CODE_OF_0 : 0;
        ptxk_state_8bit_map(is_signed, t->map[is_signed]);
        fill_cells(t->cells[is_signed], t->map[is_signed] + zero, (uint32_t)(255 - zero));
    }
}

// Where a table is in shared memory, in words.
#define WORDS_BEFORE(member) ((uint32_t)(offsetof(struct ptxk_state_8bit_tables, member) / 4))

// ---- elements -----------------------------------------------------------------------------------

static void decode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_state *of,
                   const struct ptxk_lanes *codes, ptx_val absmax, ptx_val state[PTXK_LANES])
{
    const uint32_t words =
        of->kind == PTX_RULE_SIGNED ? WORDS_BEFORE(map[1]) : WORDS_BEFORE(map[0]);
    ptx_ptr map = ptx_at(b, ptx_ptr_cast(b, PTX_F32, tables), words);

    for (uint32_t k = 0; k < PTXK_LANES; k++) {
        ptx_val code = ptx_prmt(b, codes->word[k / 4], 0, 0x4440 + k % 4);
        ptx_val entry = ptx_load(b, map, ptx_bitcast(b, PTX_U32, code));
        state[k] = ptx_mul(b, entry, absmax);
    }
}

// A word whose third byte is the place of state * inverse, or of its size, counted from that of 0.
static ptx_val place_of(ptx_builder *b, ptx_val cells, bool is_signed, ptx_val state,
                        ptx_val inverse)
{
    enum { REST = 16, ENTRY = sizeof(uint16_t) };
    ptx_val quotient = ptx_mul(b, state, inverse);
    ptx_val size = is_signed ? ptx_abs(b, quotient) : quotient;
    ptx_val limited = ptx_max(b, size, LEAST_CELL);
    ptx_val q = ptx_bitcast(b, PTX_U32, limited);
    ptx_val at = ptx_mad(b, ptx_shr(b, q, REST), ENTRY, cells);
    ptx_ptr cell = ptx_ptr_from(b, PTX_U16, PTX_SPACE_SHARED, at);
    ptx_val entry = ptx_cvt(b, PTX_U32, ptx_load(b, cell, 0));

    return ptx_mad(b, entry, 1 << 8, q);
}

// The same byte of four words, chosen by the two selectors of prmt that are in `of_two`.
static ptx_val four_bytes(ptx_builder *b, const ptx_val x[4], uint32_t of_two)
{
    ptx_val pair[2];

    for (unsigned k = 0; k < 2; k++) {
        ptx_val first = ptx_bitcast(b, PTX_B32, x[2 * k]);
        pair[k] = ptx_prmt(b, first, ptx_bitcast(b, PTX_B32, x[2 * k + 1]), of_two);
    }
    return ptx_prmt(b, pair[0], pair[1], 0x5410);
}

// The codes of four places of a sign each: 127 + place or 127 - place, and 0 for a place of 128
// below 0, since there is no -1. No byte carries.
static ptx_val signed_codes(ptx_builder *b, ptx_val places, const ptx_val state[4])
{
    enum { SIGNS = 0xfb, SIGNS_OF_BYTES = 0xba98, X_AND_Y = 0xca };
    const ptx_val code_of_0 = ptx_u32(UINT32_C(0x01010101) * CODE_OF_0);
    ptx_val negative = four_bytes(b, state, SIGNS);
    ptx_val last = ptx_prmt(b, places, places, SIGNS_OF_BYTES);
    ptx_val above = ptx_bitcast(b, PTX_B32, ptx_add(b, ptx_bitcast(b, PTX_U32, places), code_of_0));
    ptx_val positive = ptx_not(b, last);
    ptx_val below = ptx_and(b, ptx_xor(b, places, ptx_bitcast(b, PTX_B32, code_of_0)), positive);

    return ptx_lop3(b, negative, below, above, X_AND_Y);
}

static void encode(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_rule *rule,
                   unsigned states, ptx_val (*state)[PTXK_LANES], ptx_val *absmax)
{
    const uint32_t third_bytes = 0x62;
    ptx_val inverse[PTX_STEP_MAX_STATES];

    for (unsigned k = 0; k < states; k++)
        absmax[k] = ptxk_block_largest(b, state[k]);
    ptxk_block_inverses(b, absmax, states, inverse, NULL);
    for (unsigned k = 0; k < states; k++) {
        const bool is_signed = rule->state[k].kind == PTX_RULE_SIGNED;
        const uint32_t words = is_signed ? WORDS_BEFORE(cells[1]) : WORDS_BEFORE(cells[0]);
        ptx_val cells = ptx_add(b, ptx_ptr_address(b, tables),
                                words * 4 - FIRST_CELL * (uint32_t)sizeof(uint16_t));
        ptx_val place[PTXK_LANES], codes[2];
        for (unsigned n = 0; n < PTXK_LANES; n++) {
            ptxk_comment_lanes(b, "places of the quotients", n, 4, PTXK_LANES);
            place[n] = place_of(b, cells, is_signed, state[k][n], inverse[k]);
        }
        ptx_comment(b, "the codes of those places");
        for (unsigned n = 0; n < 2; n++) {
            codes[n] = four_bytes(b, place + 4 * n, third_bytes);
            if (is_signed)
                codes[n] = signed_codes(b, codes[n], state[k] + 4 * n);
        }
        for (unsigned n = 0; n < PTXK_LANES; n++)
            state[k][n] = codes[n / 4];
    }
}

static const struct ptxk_step_blocks blocks = {
    .elements = 256,
    .scale = PTX_F32,
    .tables_meaning = "of 8-bit states",
    .table_bytes = sizeof(struct ptxk_state_8bit_tables),
    .tables_fill = ptxk_state_8bit_tables_fill,
    .decode = decode,
    .encode = encode,
};

const struct ptxk_step_format ptxk_step_format_state_8bit = {
    .name = "state_8bit",
    .parameters = { PTX_F32, PTX_BF16, PTX_F16 },
    .state = PTX_U8,
    .rounds_parameter = true,
    .vectors = 8,
    .blocks = 3,
    .blocks_if_short = 3,
    .by_block = &blocks,
};

// SPDX-License-Identifier: MIT
#include "step_codes.h"

enum {
    TILE = STEP_CODES_TILE,
    EACH = STEP_CODES_EACH,
    LINES = STEP_CODES_LINES,
    UNIT = 16, // bytes of shared memory that are moved at once
    UNIT_WORDS = UNIT / EACH,
    LINE_UNITS = TILE / UNIT,
    LINE_WORDS = TILE / EACH,
};

unsigned ptxk_codes_lines(const struct ptxk_codes *t)
{
    return TILE * WARP / t->threads;
}

void ptxk_codes_place(ptx_builder *b, struct ptxk_codes *t, ptx_val index)
{
    ptx_comment(b, "its place and size");
    t->rights = ptxk_over_power_of_two(b, ptx_add(b, t->columns, TILE - 1), TILE);
    t->downs = ptxk_over_power_of_two(b, ptx_add(b, t->rows, TILE - 1), TILE);
    ptx_val in_row = ptx_cvt(b, PTX_U32, t->rights);
    ptx_val down = ptx_div(b, index, in_row);
    ptx_val right = ptx_sub(b, index, ptx_mul(b, down, in_row));
    t->down = ptx_cvt(b, PTX_U64, down);
    t->right = ptx_cvt(b, PTX_U64, right);
    t->row = ptx_mul_wide(b, down, TILE);
    t->column = ptx_mul_wide(b, right, TILE);
    ptx_val height = ptx_min(b, ptx_sub(b, t->rows, t->row), TILE);
    ptx_val width = ptx_min(b, ptx_sub(b, t->columns, t->column), TILE);
    t->height = ptx_cvt(b, PTX_U32, height);
    t->width = ptx_cvt(b, PTX_U32, width);
    ptx_val full = ptx_eq(b, t->height, TILE);
    t->whole = ptx_and(b, full, ptx_eq(b, t->width, TILE));
    t->keeps = ptxk_codes_policy(b);
}

ptx_val ptxk_codes_policy(ptx_builder *b)
{
    const ptx_val none = { 0 };

    if (ptx_builder_target(b).sm < 90)
        return none;
    return ptx_asm(b, "createpolicy.fractional.L2::evict_last.b64 %0, 1.0;", .result = { PTX_B64 },
                   .isa = 74, .sm = 80, .pure = true);
}

void ptxk_codes_store(ptx_builder *b, ptx_val policy, ptx_ptr at, ptx_vec words)
{
    const ptx_val *x = words.lane;

    if (!policy.type)
        ptx_store_vec(b, at, 0, words);
    else if (words.lanes == 1)
        ptx_asm(b, "st.global.L2::cache_hint.b32 [%2], %0, %1;", .in = { x[0], policy },
                .at = { at }, .isa = 74, .sm = 80, .reads = PTX_MEMORY_NONE,
                .writes = PTX_MEMORY_GLOBAL, .convergence = PTX_CONVERGENCE_NONE);
    else
        ptx_asm(b, "st.global.L2::cache_hint.v4.b32 [%5], {%0, %1, %2, %3}, %4;",
                .in = { x[0], x[1], x[2], x[3], policy }, .at = { at }, .isa = 74, .sm = 80,
                .reads = PTX_MEMORY_NONE, .writes = PTX_MEMORY_GLOBAL,
                .convergence = PTX_CONVERGENCE_NONE);
}

ptx_val ptxk_codes_unit_at(ptx_builder *b, ptx_val line, ptx_val u)
{
    ptx_val turn = ptx_and(b, ptx_shr(b, line, 2), LINE_UNITS - 1);
    ptx_val place = ptx_mul(b, ptx_xor(b, u, turn), UNIT_WORDS);

    return ptx_mad(b, line, LINE_WORDS, place);
}

// Where word `k` (u32) of a line of codes is in shared memory.
static ptx_val word_at(ptx_builder *b, ptx_val line, ptx_val k)
{
    ptx_val rest = ptx_and(b, k, UNIT_WORDS - 1);
    ptx_val unit = ptxk_codes_unit_at(b, line, ptx_shr(b, k, 2));

    return ptx_add(b, unit, rest);
}

// Four words of four codes, of four rows, to those of four columns.
static void words_transpose(ptx_builder *b, ptx_val x[EACH])
{
    enum { LOWS = 0x5140, HIGHS = 0x7362, LOWER = 0x5410, UPPER = 0x7632 };

    ptx_comment(b, "4 x 4 codes, transposed in registers");
    ptx_val low_01 = ptx_prmt(b, x[0], x[1], LOWS), high_01 = ptx_prmt(b, x[0], x[1], HIGHS);
    ptx_val low_23 = ptx_prmt(b, x[2], x[3], LOWS), high_23 = ptx_prmt(b, x[2], x[3], HIGHS);
    x[0] = ptx_prmt(b, low_01, low_23, LOWER);
    x[1] = ptx_prmt(b, low_01, low_23, UPPER);
    x[2] = ptx_prmt(b, high_01, high_23, LOWER);
    x[3] = ptx_prmt(b, high_01, high_23, UPPER);
}

void ptxk_codes_turn(ptx_builder *b, const struct ptxk_codes *t, ptx_val word[LINES])
{
    const unsigned rows = ptxk_codes_lines(t), words = rows / EACH;

    for (unsigned k = 0; k < rows; k += EACH)
        words_transpose(b, word + k);
    ptx_comment(b, "columns of codes into shared memory");
    for (uint32_t n = 0; n < EACH; n++) {
        ptxk_comment_lanes(b, "columns", n, 2, EACH);
        ptx_vec own = { .lanes = words };
        for (unsigned k = 0; k < words; k++)
            own.lane[k] = word[k * EACH + n];
        ptx_val line = ptx_add(b, ptx_mul(b, t->lane, EACH), n), place;
        if (words == UNIT_WORDS)
            place = ptxk_codes_unit_at(b, line, t->warp);
        else
            place = word_at(b, line, ptx_mul(b, t->warp, words));
        ptx_store_vec(b, t->shared, place, own);
    }
}

// ---- lines --------------------------------------------------------------------------------------

static void units_write(ptx_builder *b, const struct ptxk_codes *t, ptx_ptr to, ptx_val pitch,
                        ptx_val lines, ptx_val length)
{
    const uint32_t stride = t->threads / LINE_UNITS, turns = TILE / stride;
    ptx_val along = ptx_and(b, t->tid, LINE_UNITS - 1), codes = ptx_mul(b, along, UNIT);
    ptx_val first = ptx_shr(b, t->tid, ptxk_log2(LINE_UNITS));
    ptx_val before = ptx_mul(b, ptx_cvt(b, PTX_U64, first), pitch);
    ptx_ptr at = ptx_at(b, ptx_at(b, to, before), codes);
    ptx_val step = ptx_mul(b, pitch, stride);

    ptx_comment(b, "writes lines in units of 16 codes");
    ptx_if (b, ptx_lt(b, codes, length)) {
        for (uint32_t k = 0; k < turns; k++) {
            ptxk_comment_lanes(b, "lines", k, 1, turns);
            ptx_val line = ptx_add(b, first, k * stride);
            ptx_if (b, ptx_lt(b, line, lines)) {
                ptx_val from = ptxk_codes_unit_at(b, line, along);
                ptx_vec unit = ptx_load_vec(b, t->shared, from, UNIT_WORDS);
                ptxk_codes_store(b, t->keeps, ptx_ptr_cast(b, PTX_B32, at), unit);
            }
            at = ptx_at(b, at, step);
        }
    }
}

// What a warp writes of a line: words of its memory, a lane each, and single codes before and
// behind those.
struct line {
    ptx_val is;            // a predicate: there is such a line
    ptx_ptr at;            // u8
    ptx_val before, words; // u32: codes before the first word
};

static struct line line_of(ptx_builder *b, ptx_ptr to, ptx_val pitch, ptx_val line, ptx_val lines,
                           ptx_val length)
{
    struct line l = { .is = ptx_lt(b, line, lines),
                      .at = ptx_at(b, to, ptx_mul(b, ptx_cvt(b, PTX_U64, line), pitch)) };
    ptx_val low = ptx_cvt(b, PTX_U32, ptx_ptr_address(b, l.at));

    l.before = ptx_min(b, ptx_and(b, ptx_sub(b, ptx_u32(0), low), EACH - 1), length);
    l.words = ptx_shr(b, ptx_sub(b, length, l.before), 2);
    return l;
}

// A warp writes four lines at once: a lane a word of each, and 8 lanes the single codes of one.
static void words_write(ptx_builder *b, const struct ptxk_codes *t, ptx_ptr to, ptx_val pitch,
                        ptx_val lines, ptx_val length)
{
    enum { IN_ORDER = 0x3210, EACH_NEXT = 0x1111, AT_ONCE = WARP / (2 * EACH) };
    ptx_ptr bytes = ptx_ptr_cast(b, PTX_U8, t->shared);
    ptx_val behind = ptx_ge(b, ptx_and(b, t->lane, 2 * EACH - 1), EACH);
    ptx_val place = ptx_and(b, t->lane, EACH - 1);
    ptx_val own = ptx_shr(b, t->lane, ptxk_log2(2 * EACH));

    ptx_comment(b, "writes lines in words");
    ptx_for (b, first, ptx_mul(b, t->warp, AT_ONCE), lines, t->threads / WARP * AT_ONCE) {
        struct line l[AT_ONCE];
        ptx_val four[AT_ONCE];
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            ptx_comment(b, "line %u", k);
            ptx_val line = ptx_add(b, first, k);
            l[k] = line_of(b, to, pitch, line, lines, length);
            ptx_comment(b, "a word of it, of two of shared memory");
            ptx_val next = ptx_add(b, t->lane, ptx_min(b, l[k].before, 1));
            ptx_val second = ptx_min(b, next, LINE_WORDS - 1);
            ptx_val x = ptx_load(b, t->shared, word_at(b, line, t->lane));
            ptx_val y = ptx_load(b, t->shared, word_at(b, line, second));
            four[k] = ptx_prmt(b, x, y, ptx_mad(b, l[k].before, EACH_NEXT, IN_ORDER));
        }
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            ptx_comment(b, "writes the word of line %u", k);
            ptx_if (b, ptx_and(b, l[k].is, ptx_lt(b, t->lane, l[k].words))) {
                ptx_ptr word = ptx_at(b, l[k].at, ptx_mad(b, t->lane, EACH, l[k].before));
                ptxk_codes_store(b, t->keeps, ptx_ptr_cast(b, PTX_B32, word),
                                 (ptx_vec) { .lanes = 1, .lane = { four[k] } });
            }
        }
        ptx_comment(b, "the line of the lane's single code");
        ptx_val line = ptx_add(b, first, own);
        const struct line mine = line_of(b, to, pitch, line, lines, length);
        ptx_comment(b, "single codes");
        ptx_val skipped = ptx_mad(b, mine.words, EACH, mine.before);
        ptx_val i = ptx_add(b, place, ptx_select(b, behind, skipped, 0));
        ptx_val end = ptx_select(b, behind, length, mine.before);
        ptx_if (b, ptx_and(b, mine.is, ptx_lt(b, i, end))) {
            ptx_val unit = ptxk_codes_unit_at(b, line, ptx_shr(b, i, 4));
            ptx_val rest = ptx_and(b, i, UNIT - 1);
            ptx_store(b, mine.at, i, ptx_load(b, bytes, ptx_mad(b, unit, EACH, rest)));
        }
    }
}

void ptxk_codes_write(ptx_builder *b, const struct ptxk_codes *t, ptx_ptr to, ptx_val pitch,
                      ptx_val lines, ptx_val length)
{
    ptx_comment(b, "what lines can be written in");
    ptx_val bits = ptx_or(b, ptx_ptr_address(b, to), pitch);
    ptx_val odd = ptx_and(b, bits, UNIT - 1);

    ptx_if (b, ptx_eq(b, odd, 0))
        units_write(b, t, to, pitch, lines, length);
    ptx_else (b)
        words_write(b, t, to, pitch, lines, length);
}

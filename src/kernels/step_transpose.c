// SPDX-License-Identifier: MIT
// Copies of the weights in 8 bits, transposed, from the codes that the step has left: a block for
// each tile of a matrix, through shared memory.
#include "common/common.h"
#include "step_apply.h"

enum {
    TILE = PTXK_STEP_TRANSPOSE_TILE,
    BLOCK = NORM_BLOCK,
    EACH = 4,              // codes of a word
    WORDS = TILE / EACH,   // of a row of the tile
    PITCH = TILE + EACH,   // bytes from a column of the tile to the next in shared memory
    STRIDE = BLOCK / TILE, // rows or columns between its codes
};

#define ROW(member) NORM_PLACE(uint64_t, struct step_transpose_row, member)

struct transpose {
    ptx_val tid;           // u32
    ptx_ptr from, to;      // u8: the tile's first code, in both
    ptx_val rows, columns; // u64: of the matrix
    ptx_val height, width; // u32: of the tile
    ptx_ptr shared;        // u8: the tile's columns, one after the other
    ptx_val whole;         // a predicate: no edge of the matrix cuts the tile
};

// The tile of the block.
static void begin(ptx_builder *b, struct transpose *t, ptx_ptr tiles, ptx_ptr matrices)
{
    ptx_comment(b, "the tile, and the row of its matrix");
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, block, 2), 2);
    const uint32_t length = NORM_LENGTH(uint64_t, struct step_transpose_row);
    ptx_ptr row = ptx_at(b, matrices, ptx_mul_wide(b, tile.lane[0], length));
    ptx_vec at = ptx_load_vec(b, row, ROW(codes), 2), size = ptx_load_vec(b, row, ROW(rows), 2);
    t->rows = size.lane[0];
    t->columns = size.lane[1];
    ptx_val up = ptx_add(b, t->columns, TILE - 1);
    ptx_val across = ptx_cvt(b, PTX_U32, ptxk_over_power_of_two(b, up, TILE));
    ptx_val down = ptx_div(b, tile.lane[1], across);
    ptx_val right = ptx_sub(b, tile.lane[1], ptx_mul(b, down, across));

    ptx_val row_0 = ptx_mul_wide(b, down, TILE), column_0 = ptx_mul_wide(b, right, TILE);
    ptx_val height = ptx_min(b, ptx_sub(b, t->rows, row_0), TILE);
    ptx_val width = ptx_min(b, ptx_sub(b, t->columns, column_0), TILE);
    t->height = ptx_cvt(b, PTX_U32, height);
    t->width = ptx_cvt(b, PTX_U32, width);
    ptx_val full = ptx_eq(b, t->height, TILE);
    t->whole = ptx_and(b, full, ptx_eq(b, t->width, TILE));
    ptx_ptr from = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, at.lane[0]);
    ptx_ptr to = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, at.lane[1]);
    t->from = ptx_at(b, from, ptx_mad(b, row_0, t->columns, column_0));
    t->to = ptx_at(b, to, ptx_mad(b, column_0, t->rows, row_0));
}

// Whether lines of so many codes (u64), from `p` on, are read or written in words.
static ptx_val in_words(ptx_builder *b, const struct transpose *t, ptx_ptr p, ptx_val line)
{
    ptx_val bits = ptx_or(b, ptx_ptr_address(b, p), line);

    return ptx_and(b, t->whole, ptx_eq(b, ptx_and(b, bits, EACH - 1), 0));
}

void ptxk_step_words_transpose(ptx_builder *b, ptx_val x[EACH])
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

// A thread has a word of each of four rows.
static void words_read(ptx_builder *b, const struct transpose *t)
{
    ptx_comment(b, "reads words");
    ptx_val across = ptx_and(b, t->tid, WORDS - 1), down = ptx_shr(b, t->tid, 4);
    ptx_val first = ptx_cvt(b, PTX_U64, ptx_mul(b, down, EACH));
    ptx_val column = ptx_cvt(b, PTX_U64, ptx_mul(b, across, EACH));
    ptx_ptr row = ptx_at(b, t->from, ptx_mad(b, first, t->columns, column));
    ptx_val x[EACH];

    for (unsigned k = 0; k < EACH; k++) {
        x[k] = ptx_load(b, ptx_ptr_cast(b, PTX_B32, row), 0);
        row = ptx_at(b, row, t->columns);
    }
    ptxk_step_words_transpose(b, x);
    ptx_ptr words = ptx_ptr_cast(b, PTX_B32, t->shared);
    ptx_val place = ptx_mad(b, across, EACH * (PITCH / EACH), down);
    for (uint32_t k = 0; k < EACH; k++)
        ptx_store(b, ptx_at(b, words, k * (PITCH / EACH)), place, x[k]);
}

static void words_write(ptx_builder *b, const struct transpose *t)
{
    ptx_comment(b, "writes words");
    ptx_val down = ptx_and(b, t->tid, WORDS - 1), across = ptx_shr(b, t->tid, 4);
    ptx_ptr words = ptx_ptr_cast(b, PTX_B32, t->shared);
    ptx_val place = ptx_mad(b, across, PITCH / EACH, down);
    ptx_val column = ptx_cvt(b, PTX_U64, across);
    ptx_val row = ptx_cvt(b, PTX_U64, ptx_mul(b, down, EACH));
    ptx_ptr to = ptx_at(b, t->to, ptx_mad(b, column, t->rows, row));
    ptx_val step = ptx_mul(b, t->rows, BLOCK / WORDS);

    for (uint32_t k = 0; k < TILE / (BLOCK / WORDS); k++) {
        const uint32_t later = k * (BLOCK / WORDS) * (PITCH / EACH);
        ptx_val x = ptx_load(b, ptx_at(b, words, later), place);
        ptx_store(b, ptx_ptr_cast(b, PTX_B32, to), 0, x);
        to = ptx_at(b, to, step);
    }
}

// Adjacent threads have adjacent codes of a line, in device memory: of a row to read, of a column
// to write.
static void codes_move(ptx_builder *b, const struct transpose *t, bool writes)
{
    ptx_val along = ptx_and(b, t->tid, TILE - 1);
    ptx_val line = ptx_var(b, ptx_shr(b, t->tid, 6));
    ptx_val lines = writes ? t->width : t->height, length = writes ? t->height : t->width;
    ptx_val pitch = writes ? t->rows : t->columns;

    ptx_comment(b, writes ? "writes codes" : "reads codes");
    ptx_if (b, ptx_lt(b, along, length)) {
        ptx_for (b, k, line, lines, STRIDE) {
            ptx_val at = ptx_mad(b, ptx_cvt(b, PTX_U64, k), pitch, ptx_cvt(b, PTX_U64, along));
            ptx_val place = writes ? ptx_mad(b, k, PITCH, along) : ptx_mad(b, along, PITCH, k);
            if (writes)
                ptx_store(b, t->to, at, ptx_load(b, t->shared, place));
            else
                ptx_store(b, t->shared, place, ptx_load(b, t->from, at));
        }
    }
}

void ptxk_step_transpose_emit(ptx_builder *b, const struct norm_spec *norm)
{
    struct transpose t = { .tid = { 0 } };

    (void)norm;
    ptx_comment(b, "a block for each tile of a matrix: its codes, transposed");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "transpose_tiles", .readonly = true,
                                  .meaning = "rows of 2: matrix, place in it");
    ptx_ptr matrices = ptx_param_ptr(b, PTX_U64, "matrices", .readonly = true,
                                     .meaning = "rows of 4: codes, transposed, rows, columns");
    t.tid = ptx_tid(b, PTX_X);
    t.shared = ptx_ptr_cast(b, PTX_U8, ptx_shared(b, PTX_U32, TILE * PITCH / EACH));
    begin(b, &t, tiles, matrices);
    ptx_val words = in_words(b, &t, t.from, t.columns);
    ptx_if (b, words)
        words_read(b, &t);
    ptx_else (b)
        codes_move(b, &t, false);
    ptx_barrier(b);
    ptx_if (b, in_words(b, &t, t.to, t.rows))
        words_write(b, &t);
    ptx_else (b)
        codes_move(b, &t, true);
}

// SPDX-License-Identifier: MIT
// Copies of the weights in 8 bits, transposed, from the codes that the step has left: a block for
// each tile of a matrix.
#include "norm_parts.h"
#include "step_codes.h"

enum { TILE = STEP_CODES_TILE, EACH = STEP_CODES_EACH, LINES = STEP_CODES_LINES };

#define ROW(member) NORM_PLACE(uint64_t, struct step_transpose_row, member)

struct transpose {
    struct ptxk_codes tile;
    ptx_ptr from, to; // u8: the tile's first code, in both
};

// The tile of the block.
static void begin(ptx_builder *b, struct transpose *t, ptx_ptr tiles, ptx_ptr matrices)
{
    ptx_comment(b, "the tile, and the row of its matrix");
    t->tile.threads = NORM_BLOCK;
    t->tile.tid = ptx_tid(b, PTX_X);
    t->tile.lane = ptx_and(b, t->tile.tid, WARP - 1);
    t->tile.warp = ptx_shr(b, t->tile.tid, 5);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, block, 2), 2);
    const uint32_t length = NORM_LENGTH(uint64_t, struct step_transpose_row);
    ptx_ptr row = ptx_at(b, matrices, ptx_mul_wide(b, tile.lane[0], length));
    ptx_vec at = ptx_load_vec(b, row, ROW(codes), 2), size = ptx_load_vec(b, row, ROW(rows), 2);
    t->tile.rows = size.lane[0];
    t->tile.columns = size.lane[1];
    ptxk_codes_place(b, &t->tile, tile.lane[1]);
    ptx_ptr from = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, at.lane[0]);
    ptx_ptr to = ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, at.lane[1]);
    t->from = ptx_at(b, from, ptx_mad(b, t->tile.row, t->tile.columns, t->tile.column));
    t->to = ptx_at(b, to, ptx_mad(b, t->tile.column, t->tile.rows, t->tile.row));
}

// A word of each of the thread's rows, into shared memory. For a row that is not there, the tile's
// last.
static void words_read(ptx_builder *b, const struct transpose *t)
{
    ptx_val word[LINES];
    ptx_val first = ptx_mul(b, t->tile.warp, LINES), column = ptx_mul(b, t->tile.lane, EACH);
    ptx_val last = ptx_sub(b, t->tile.height, 1);
    ptx_ptr place = ptx_at(b, t->from, column);

    ptx_comment(b, "reads words");
    ptx_if (b, ptx_lt(b, column, t->tile.width)) {
        for (uint32_t k = 0; k < LINES; k++) {
            ptxk_comment_lanes(b, "rows", k, 4, LINES);
            ptx_val row = ptx_min(b, ptx_add(b, first, k), last);
            ptx_val before = ptx_mul(b, ptx_cvt(b, PTX_U64, row), t->tile.columns);
            word[k] = ptx_load(b, ptx_ptr_cast(b, PTX_B32, ptx_at(b, place, before)), 0);
        }
        ptxk_codes_turn(b, &t->tile, word);
    }
}

// Adjacent threads read adjacent codes of a row.
static void codes_read(ptx_builder *b, const struct transpose *t)
{
    ptx_val along = ptx_and(b, t->tile.tid, TILE - 1);
    ptx_ptr place = ptx_at(b, t->from, along), shared = ptx_ptr_cast(b, PTX_U8, t->tile.shared);

    ptx_comment(b, "reads codes one by one");
    ptx_if (b, ptx_lt(b, along, t->tile.width)) {
        ptx_for (b, k, ptx_var(b, ptx_shr(b, t->tile.tid, 7)), t->tile.height, NORM_BLOCK / TILE) {
            ptx_val before = ptx_mul(b, ptx_cvt(b, PTX_U64, k), t->tile.columns);
            ptx_val code = ptx_load(b, place, before);
            ptx_val unit = ptxk_codes_unit_at(b, along, ptx_shr(b, k, 4));
            ptx_val rest = ptx_and(b, k, 15);
            ptx_store(b, shared, ptx_mad(b, unit, EACH, rest), code);
        }
    }
}

void ptxk_step_transpose_emit(ptx_builder *b, const struct norm_spec *norm)
{
    struct transpose t = { .tile = { .tid = { 0 } } };

    (void)norm;
    ptx_comment(b, "a block for each tile of a matrix: its codes, transposed");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "transpose_tiles", .readonly = true,
                                  .meaning = "rows of 2: matrix, place in it");
    ptx_ptr matrices = ptx_param_ptr(b, PTX_U64, "matrices", .readonly = true,
                                     .meaning = "rows of 4: codes, transposed, rows, columns");
    t.tile.shared = ptx_ptr_cast(b, PTX_B32, ptx_shared(b, PTX_U32, STEP_CODES_WORDS));
    begin(b, &t, tiles, matrices);
    ptx_val bits = ptx_or(b, ptx_ptr_address(b, t.from), t.tile.columns);
    ptx_val odd = ptx_and(b, bits, EACH - 1);
    ptx_if (b, ptx_eq(b, odd, 0))
        words_read(b, &t);
    ptx_else (b)
        codes_read(b, &t);
    ptx_barrier(b);
    ptxk_codes_write(b, &t.tile, t.to, t.tile.rows, t.tile.width, t.tile.height);
}

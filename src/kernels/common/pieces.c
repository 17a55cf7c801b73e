// SPDX-License-Identifier: MIT
#include "pieces.h"

#include "channels.h"
#include "parts.h"

// A unit has about this many columns if channels * inner is less.
enum { WIDE = 1024 };

unsigned ptxk_tile_lanes(ptx_type dtype)
{
    return dtype == PTX_F64 ? 2 : TILE_LANES;
}

unsigned ptxk_tile_columns(ptx_type dtype)
{
    return WARP * ptxk_tile_lanes(dtype);
}

// ---- on the host --------------------------------------------------------------------------------

// The columns of a unit.
static uint64_t unit_of(uint64_t period, unsigned lanes)
{
    while (period % lanes)
        period *= 2;
    return period < WIDE ? WIDE / period * period : period;
}

static uint32_t tensor_piece(ptx_type dtype, bool is_short)
{
    return (is_short ? SHORT_TENSOR_PIECE : TENSOR_PIECE) / ptx_type_bytes(dtype);
}

static uint64_t tile_rows_of(ptx_type dtype, uint64_t n)
{
    const uint64_t tile = n <= SHORTEST_TILE_MOST ? SHORTEST_TILE
                          : n <= SHORT_TILE_MOST  ? SHORT_TILE
                                                  : TILE;
    return tile / ptxk_tile_columns(dtype);
}

static uint64_t row_piece(uint64_t n)
{
    return n <= SHORT_PIECE_MOST ? SHORT_PIECE : PIECE;
}

bool ptxk_pieces_are_whole(const struct ptx_kernel_sizes *sizes, ptx_type dtype)
{
    if (sizes->channels <= 1)
        return sizes->n <= tensor_piece(dtype, false) &&
               (!sizes->channels || sizes->n == sizes->inner);
    return sizes->inner && sizes->inner <= row_piece(sizes->n) &&
           sizes->n / sizes->inner == sizes->channels && sizes->n % sizes->inner == 0;
}

bool ptxk_pieces(const struct ptx_kernel_sizes *sizes, ptx_type dtype, enum pieces_layout layout,
                 uint64_t *count)
{
    const uint64_t piece = row_piece(sizes->n);

    if (layout == PIECES_WHOLE)
        return false;
    if (layout == PIECES_TENSOR) {
        *count = parts_of(sizes->n, tensor_piece(dtype, sizes->n <= SHORT_TENSOR_MOST));
        return true;
    }
    if (!sizes->channels || !sizes->inner || sizes->channels > UINT64_MAX / 16 / sizes->inner)
        return false;
    if (layout == PIECES_ROWS) {
        *count = parts_of(sizes->n, sizes->inner) * parts_of(sizes->inner, piece);
        return true;
    }
    const uint64_t unit = unit_of(sizes->channels * sizes->inner, ptxk_tile_lanes(dtype));
    *count = parts_of(parts_of(sizes->n, unit), tile_rows_of(dtype, sizes->n)) * unit;
    return true;
}

uint64_t ptxk_piece_blocks(const struct ptx_kernel_sizes *sizes, ptx_type dtype,
                           enum pieces_layout layout)
{
    const uint64_t lanes = ptxk_vector_lanes(dtype);
    uint64_t pieces = sizes->channels, team = 1;

    if (layout == PIECES_WHOLE && pieces <= 1)
        return 1;
    ptxk_pieces(sizes, dtype, layout, &pieces);
    if (layout == PIECES_TENSOR)
        return pieces;
    if (layout == PIECES_COLUMNS) {
        const uint64_t unit = unit_of(sizes->channels * sizes->inner, ptxk_tile_lanes(dtype));
        return pieces / unit * parts_of(unit, ptxk_tile_columns(dtype));
    }
    while (team < WARP && team * lanes < sizes->inner)
        team *= 2;
    return parts_of(pieces, PIECES_BLOCK / team);
}

// ---- in a kernel --------------------------------------------------------------------------------

static ptx_val quotient_up(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse)
{
    ptx_val above = ptx_add(b, x, ptx_sub(b, y, 1));

    return ptxk_quotient_by(b, above, y, inverse);
}

struct tensor_pieces ptxk_tensor_pieces(ptx_builder *b, ptx_type dtype, ptx_val n)
{
    const uint32_t few = tensor_piece(dtype, true), many = tensor_piece(dtype, false);
    ptx_val is_short = ptx_le(b, n, SHORT_TENSOR_MOST);
    ptx_val piece = ptx_select(b, is_short, ptx_u64(few), many);
    ptx_val log2 = ptx_select(b, is_short, ptx_u32(ptxk_log2(few)), ptxk_log2(many));

    return (struct tensor_pieces) { piece, log2 };
}

struct row_pieces ptxk_row_pieces(ptx_builder *b, ptx_val n, ptx_val inner)
{
    struct row_pieces p;
    ptx_val few = ptx_le(b, n, SHORT_PIECE_MOST);

    p.piece = ptx_select(b, few, ptx_u64(SHORT_PIECE), PIECE);
    p.rows = quotient_up(b, n, inner, ptxk_inverse_of(b, inner));
    p.per_row = quotient_up(b, inner, p.piece, ptxk_inverse_of(b, p.piece));
    p.per_row_inverse = ptxk_inverse_of(b, p.per_row);
    p.count = ptx_mul(b, p.rows, p.per_row);
    return p;
}

struct column_tiles ptxk_column_tiles(ptx_builder *b, ptx_type dtype, ptx_val n, ptx_val channels,
                                      ptx_val inner)
{
    const uint32_t lanes = ptxk_tile_lanes(dtype), columns = ptxk_tile_columns(dtype);
    struct column_tiles t;
    ptx_val few = ptx_le(b, n, SHORTEST_TILE_MOST);
    ptx_val some = ptx_le(b, n, SHORT_TILE_MOST);
    ptx_val unit = ptx_var(b, ptx_mul(b, channels, inner));

    t.tile_rows = ptx_select(b, some, ptx_u64(SHORT_TILE / columns), TILE / columns);
    t.tile_rows = ptx_select(b, few, SHORTEST_TILE / columns, t.tile_rows);
    ptx_comment(b, "the unit: a multiple of the period of the channels, and of the vector");
    for (uint32_t bits = lanes - 1; bits; bits >>= 1) {
        ptx_val misfit = ptx_ne(b, ptx_and(b, unit, lanes - 1), 0);
        ptx_val twice = ptx_add(b, unit, unit);
        ptx_set(b, unit, ptx_select(b, misfit, twice, unit));
    }
    ptx_if (b, ptx_lt(b, unit, WIDE)) {
        ptx_val narrow = ptx_cvt(b, PTX_U32, unit);
        ptx_val times = ptx_div(b, WIDE, narrow);
        ptx_set(b, unit, ptx_mul_wide(b, times, narrow));
    }
    ptx_comment(b, "the rows of units, and the tiles");
    t.unit = unit;
    t.rows = quotient_up(b, n, unit, ptxk_inverse_of(b, unit));
    t.across = ptxk_over_power_of_two(b, ptx_add(b, unit, columns - 1), columns);
    t.across_inverse = ptxk_inverse_of(b, t.across);
    ptx_val down = quotient_up(b, t.rows, t.tile_rows, ptxk_inverse_of(b, t.tile_rows));
    t.count = ptx_mul(b, t.across, down);
    return t;
}

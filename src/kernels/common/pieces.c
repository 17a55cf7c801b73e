// SPDX-License-Identifier: MIT
#include "pieces.h"

#include "channels.h"

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

static uint64_t over(uint64_t x, uint64_t y)
{
    return x / y + (x % y != 0);
}

// The columns of a unit.
static uint64_t unit_of(uint64_t period, unsigned lanes)
{
    while (period % lanes)
        period *= 2;
    return period < WIDE ? WIDE / period * period : period;
}

bool ptxk_pieces(const struct ptx_kernel_sizes *sizes, ptx_type dtype, enum pieces_layout layout,
                 uint64_t *count)
{
    const bool few = sizes->n <= PIECES_SHORT_MOST;
    const uint64_t piece = few ? SHORT_PIECE : PIECE;

    if (layout == PIECES_TENSOR) {
        *count = over(sizes->n, piece);
        return true;
    }
    if (!sizes->channels || !sizes->inner || sizes->channels > UINT64_MAX / 16 / sizes->inner)
        return false;
    if (layout == PIECES_ROWS) {
        *count = over(sizes->n, sizes->inner) * over(sizes->inner, piece);
        return true;
    }
    const uint64_t chunk = few ? PIECES_SHORT_CHUNK : PIECES_CHUNK;
    const uint64_t unit = unit_of(sizes->channels * sizes->inner, ptxk_tile_lanes(dtype));
    *count = over(over(sizes->n, unit), chunk / ptxk_tile_columns(dtype)) * unit;
    return true;
}

// ---- in a kernel --------------------------------------------------------------------------------

static ptx_val quotient_up(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse)
{
    ptx_val above = ptx_add(b, x, ptx_sub(b, y, ptx_u64(1)));

    return ptxk_quotient_by(b, above, y, inverse);
}

struct row_pieces ptxk_row_pieces(ptx_builder *b, ptx_val n, ptx_val inner)
{
    struct row_pieces p;
    ptx_val few = ptx_le(b, n, ptx_u64(PIECES_SHORT_MOST));

    p.piece = ptx_select(b, few, ptx_u64(SHORT_PIECE), ptx_u64(PIECE));
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
    ptx_val few = ptx_le(b, n, ptx_u64(PIECES_SHORT_MOST));
    ptx_val unit = ptx_var(b, ptx_mul(b, channels, inner));

    t.tile_rows =
        ptx_select(b, few, ptx_u64(PIECES_SHORT_CHUNK / columns), ptx_u64(PIECES_CHUNK / columns));
    for (uint32_t bits = lanes - 1; bits; bits >>= 1) {
        ptx_val misfit = ptx_ne(b, ptx_and(b, unit, ptx_u64(lanes - 1)), ptx_u64(0));
        ptx_val twice = ptx_add(b, unit, unit);
        ptx_set(b, unit, ptx_select(b, misfit, twice, unit));
    }
    ptx_if (b, ptx_lt(b, unit, ptx_u64(WIDE))) {
        ptx_val narrow = ptx_cvt(b, PTX_U32, unit);
        ptx_val times = ptx_div(b, ptx_u32(WIDE), narrow);
        ptx_set(b, unit, ptx_mul_wide(b, times, narrow));
    }
    t.unit = unit;
    t.rows = quotient_up(b, n, unit, ptxk_inverse_of(b, unit));
    t.across = ptxk_over_power_of_two(b, ptx_add(b, unit, ptx_u64(columns - 1)), columns);
    t.across_inverse = ptxk_inverse_of(b, t.across);
    ptx_val down = quotient_up(b, t.rows, t.tile_rows, ptxk_inverse_of(b, t.tile_rows));
    t.count = ptx_mul(b, t.across, down);
    return t;
}

// SPDX-License-Identifier: MIT
// Tiles of matrices, and the vectors of elements that a thread has of one: where they are, and how
// they are read and written.
#include "step_matrix_tile.h"

#include "muon_chip.h"

#include "common/common.h"

enum {
    BLOCK = NORM_BLOCK,
    LANES = PTXK_MATRIX_LANES,
    TILE = STEP_MATRIX_TILE,
    PITCH = STEP_MATRIX_PITCH,
    AT_ONCE = PTXK_MATRIX_AT_ONCE,
};

// Sets run and stride; those of consecutive elements are ones that leave them so.
static void spread_read(ptx_builder *b, struct ptxk_matrix_tile *m)
{
    ptx_comment(b, "where elements are in memory");
    ptx_vec apart = ptx_unpack(b, PTX_U32, ptx_load(b, m->row, MATRIX_ROW(run)));
    ptx_val none = ptx_eq(b, apart.lane[0], 0);
    m->run = ptx_select(b, none, ptx_u32(STEP_MATRIX_NO_RUN), apart.lane[0]);
    m->pace = ptx_select(b, none, ptx_u32(STEP_MATRIX_NO_RUN), apart.lane[1]);
    m->regular = ptx_and(b, m->regular, ptxk_spread_has_vectors(b, m->run, m->pace));
}

struct ptxk_matrix_tile ptxk_matrix_read(ptx_builder *b, bool spreads, ptx_ptr matrices,
                                         ptx_val matrix, ptx_val index, ptx_val tid, ptx_ptr shared)
{
    struct ptxk_matrix_tile m = { .row = ptxk_matrix_at(b, matrices, matrix) };

    ptx_comment(b, "the matrix, and the block's tiles of it");
    m.rows = ptx_unpack(b, PTX_U32, ptx_load(b, m.row, MATRIX_ROW(tensor))).lane[1];
    ptx_vec size = ptx_unpack(b, PTX_U32, ptx_load(b, m.row, MATRIX_ROW(columns)));
    ptx_vec more = ptx_unpack(b, PTX_U32, ptx_load(b, m.row, MATRIX_ROW(options)));
    ptx_val columns = size.lane[0], each = more.lane[1];
    m.options = more.lane[0];
    m.turns = ptxk_matrix_has(b, m.options, STEP_MATRIX_TRANSPOSED);
    m.shift = ptx_select(b, m.turns, ptx_u32(ptxk_log2(TILE)), ptxk_log2(STEP_MATRIX_COLUMNS));
    ptx_val tall = ptx_select(b, m.turns, ptx_u32(TILE), STEP_MATRIX_ROWS);
    ptx_val over = ptx_shr(b, ptx_sub(b, columns, 1), m.shift);
    m.wide = ptx_add(b, over, 1);
    ptx_val high = ptx_div(b, ptx_add(b, m.rows, ptx_sub(b, tall, 1)), tall);
    ptx_val all = ptx_mul(b, m.wide, high);
    m.begins = ptx_mul(b, index, each);
    ptx_val end = ptx_add(b, m.begins, each);
    m.ends = ptx_min(b, end, all);
    m.several = ptx_gt(b, all, each);
    m.regular = ptx_eq(b, ptx_and(b, columns, LANES - 1), 0);
    m.columns = ptx_bitcast(b, PTX_S32, columns);
    m.line = ptx_bitcast(b, PTX_S32, size.lane[1]);
    m.shared = ptx_ptr_cast(b, PTX_F16, shared);
    if (spreads)
        spread_read(b, &m);

    ptx_comment(b, "the thread's elements of a tile");
    ptx_val vectors = ptx_sub(b, m.shift, ptxk_log2(LANES)); // of a row: log2
    ptx_val mask = ptx_sub(b, ptx_shl(b, ptx_u32(1), vectors), 1);
    ptx_val place = ptx_and(b, tid, mask);
    m.along = ptx_bitcast(b, PTX_S32, ptx_mul(b, place, LANES));
    m.begin = ptx_bitcast(b, PTX_S32, ptx_shr(b, tid, vectors));
    m.stride = ptx_bitcast(b, PTX_S32, ptx_shr(b, ptx_u32(BLOCK), vectors));
    return m;
}

void ptxk_matrix_tile_set(ptx_builder *b, struct ptxk_matrix_tile *m, ptx_val index)
{
    ptx_val columns = ptx_bitcast(b, PTX_U32, m->columns);
    ptx_val line = ptx_bitcast(b, PTX_U32, m->line);
    ptx_val tall = ptx_select(b, m->turns, ptx_u32(TILE), STEP_MATRIX_ROWS);
    ptx_val broad = ptx_select(b, m->turns, ptx_u32(TILE), STEP_MATRIX_COLUMNS);

    ptx_comment(b, "a tile: its first row and column, and its size");
    ptx_val down = ptx_div(b, index, m->wide);
    ptx_val right = ptx_sub(b, index, ptx_mul(b, down, m->wide));
    ptx_val row_0 = ptx_mul(b, down, tall), column_0 = ptx_shl(b, right, m->shift);
    ptx_val left = ptx_sub(b, m->rows, row_0), beside = ptx_sub(b, columns, column_0);
    m->height = ptx_bitcast(b, PTX_S32, ptx_min(b, left, tall));
    m->width = ptx_bitcast(b, PTX_S32, ptx_min(b, beside, broad));
    ptx_val before = ptx_mul_wide(b, row_0, columns);
    m->memory_first = m->first = ptx_add(b, before, ptx_cvt(b, PTX_U64, column_0));
    if (m->run.type) {
        m->spread = ptxk_spread_from(b, m->run, m->pace, m->first);
        m->memory_first = m->spread.base;
    }

    ptx_comment(b, "its place in X");
    ptx_val x_row = ptx_select(b, m->turns, column_0, row_0);
    ptx_val x_column = ptx_select(b, m->turns, row_0, column_0);
    ptx_val x_before = ptx_mul_wide(b, x_row, line);
    m->x_first = ptx_add(b, x_before, ptx_cvt(b, PTX_U64, x_column));
    ptx_val in_line = ptx_min(b, ptx_sub(b, line, x_column), broad);
    m->x_line = ptx_bitcast(b, PTX_S32, in_line);
}

struct ptxk_matrix_vectors ptxk_matrix_vectors_of(ptx_builder *b, const struct ptxk_matrix_tile *m,
                                                  ptx_val r, ptx_val whole)
{
    struct ptxk_matrix_vectors v = { .m = m, .whole = whole };
    ptx_val row = r;

    ptx_comment(b, "rows of the thread");
    for (unsigned k = 0; k < AT_ONCE; k++) {
        if (k)
            row = ptx_add(b, row, m->stride);
        v.there[k] = ptx_lt(b, row, m->height);
        v.row[k] = ptx_select(b, v.there[k], row, 0);
        v.base[k] = ptx_mul(b, v.row[k], m->columns);
        if (m->run.type)
            v.at[k] = ptxk_spread_at(b, &m->spread, ptx_add(b, v.base[k], m->along));
    }
    return v;
}

struct ptxk_matrix_vectors ptxk_matrix_in_order(const struct ptxk_matrix_vectors *v)
{
    struct ptxk_matrix_vectors to = *v;

    for (unsigned k = 0; k < AT_ONCE; k++)
        to.at[k] = (ptx_val) { 0 };
    return to;
}

// A whole vector, and one of its elements.
static ptx_ptr vector_at(ptx_builder *b, const struct ptxk_matrix_vectors *v, unsigned k,
                         ptx_ptr at)
{
    if (v->at[k].type)
        return ptx_at(b, at, v->at[k]);
    ptx_ptr row = ptx_at(b, at, v->base[k]);
    return ptx_at(b, row, v->m->along);
}

static ptx_val lane_place(ptx_builder *b, const struct ptxk_matrix_vectors *v, unsigned k,
                          ptx_val column)
{
    return ptxk_spread_at(b, &v->m->spread, ptx_add(b, v->base[k], column));
}

ptx_val ptxk_matrix_is_whole(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val vectors)
{
    ptx_val end = ptx_add(b, m->along, LANES);
    ptx_val within = ptx_le(b, end, m->width);

    return ptx_and(b, ptx_and(b, vectors, m->regular), within);
}

// Reads those elements of vector `k` that are in the tile.
static void spread_read_some(ptx_builder *b, const struct ptxk_matrix_vectors *v, unsigned k,
                             ptx_ptr at, const struct ptxk_lanes *to)
{
    for (unsigned n = 0; n < to->words; n++)
        ptx_set(b, to->word[n], 0);
    for (uint32_t n = 0; n < LANES; n++) {
        ptx_comment(b, "an element, where it is");
        ptx_val column = ptx_add(b, v->m->along, n);
        ptx_if (b, ptx_lt(b, column, v->m->width))
            ptxk_lanes_read_lane(b, to, n, at, lane_place(b, v, k, column));
    }
}

void ptxk_matrix_vectors_read(ptx_builder *b, const struct ptxk_matrix_vectors *v, ptx_ptr at,
                              const struct ptxk_lanes to[AT_ONCE])
{
    ptx_if (b, v->whole)
        for (unsigned k = 0; k < AT_ONCE; k++)
            ptxk_lanes_read_as(b, &to[k], vector_at(b, v, k, at), v->cache);
    ptx_else (b)
        for (unsigned k = 0; k < AT_ONCE; k++)
            if (v->at[k].type)
                spread_read_some(b, v, k, at, &to[k]);
            else
                ptxk_lanes_read_some(b, &to[k], ptx_at(b, at, v->base[k]), v->m->along,
                                     v->m->width);
}

void ptxk_matrix_vectors_copy(ptx_builder *b, const struct ptxk_matrix_vectors *v, ptx_ptr at,
                              const ptx_ptr to[AT_ONCE])
{
    const uint32_t bytes = LANES * ptx_type_bytes((ptx_type)at.type);

    ptx_if (b, v->whole)
        for (unsigned k = 0; k < AT_ONCE; k++)
            ptx_cp_async(b, to[k], vector_at(b, v, k, at), bytes, .bypass = bytes == 16);
}

void ptxk_matrix_vector_write(ptx_builder *b, const struct ptxk_matrix_vectors *v, unsigned k,
                              ptx_type type, ptx_ptr at, const ptx_val value[LANES])
{
    const bool spreads = v->at[k].type;
    ptx_ptr row = at, whole = at;

    if (!spreads)
        row = ptx_at(b, at, v->base[k]);
    ptx_if (b, v->whole) {
        whole = spreads ? vector_at(b, v, k, at) : ptx_at(b, row, v->m->along);
        ptxk_lanes_write_as(b, type, whole, value, LANES, v->cache);
    }
    ptx_else (b) {
        for (uint32_t n = 0; n < LANES; n++) {
            ptxk_comment_lanes(b, "writes those that there are", n, spreads ? 1 : 2, LANES);
            ptx_val place = ptx_add(b, v->m->along, n);
            ptx_if (b, ptx_lt(b, place, v->m->width)) {
                ptx_val to = spreads ? lane_place(b, v, k, place) : place;
                ptx_store(b, row, to, ptxk_narrow(b, type, value[n]));
            }
        }
    }
}

void ptxk_matrix_lanes_var(ptx_builder *b, ptx_type type, struct ptxk_lanes to[AT_ONCE])
{
    for (unsigned k = 0; k < AT_ONCE; k++)
        to[k] = ptxk_lanes_var(b, type, LANES);
}

ptx_val ptxk_matrix_x_place(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val row,
                            ptx_val along)
{
    return ptx_mad_wide(b, row, m->line, ptx_cvt(b, PTX_S64, along));
}

struct ptxk_matrix_panels ptxk_matrix_panels_of(ptx_builder *b, ptx_ptr row,
                                                const struct ptxk_muon_chip *chip)
{
    enum { VECTORS = MUON_DEPTH / LANES, STRIDE = MUON_CHIP_THREADS / VECTORS };
    const struct ptxk_muon_chip_matrix of = ptxk_muon_chip_matrix(b, chip);
    struct ptxk_matrix_panels to = {
        .m = { .row = row }, .columns = of.columns, .tid = of.tid, .room = of.room
    };

    _Static_assert(STRIDE % 8 == 0, "a thread's rows are permuted alike");
    ptx_comment(b, "the thread's elements of 64 columns");
    ptx_val along = ptx_mul(b, ptx_and(b, of.tid, VECTORS - 1), LANES);
    ptx_val begin = ptx_shr(b, of.tid, ptxk_log2(VECTORS));
    ptx_val piece = ptx_xor(b, ptx_shr(b, along, 3), begin);
    to.in_panel = ptx_mad(b, piece, MUON_PIECE, ptx_mul(b, ptx_and(b, along, 7), 2));
    to.m.options = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(options)));
    to.m.rows = of.rows;
    to.m.columns = ptx_bitcast(b, PTX_S32, of.columns);
    to.m.regular = ptx_eq(b, ptx_and(b, of.columns, LANES - 1), 0);
    to.m.height = ptx_bitcast(b, PTX_S32, of.rows);
    to.m.along = ptx_bitcast(b, PTX_S32, along);
    to.m.begin = ptx_bitcast(b, PTX_S32, begin);
    to.m.stride = ptx_s32(STRIDE);
    return to;
}

void ptxk_matrix_panel_set(ptx_builder *b, struct ptxk_matrix_tile *m, ptx_val column)
{
    ptx_val left = ptx_sub(b, ptx_bitcast(b, PTX_U32, m->columns), column);

    m->width = ptx_bitcast(b, PTX_S32, ptx_min(b, left, MUON_DEPTH));
    m->memory_first = m->first = ptx_cvt(b, PTX_U64, column);
}

ptx_val ptxk_matrix_panel_place(ptx_builder *b, ptx_val row)
{
    return ptx_mul(b, row, MUON_DEPTH);
}

ptx_val ptxk_matrix_shared_place(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val row,
                                 uint32_t lane)
{
    ptx_val column = ptx_add(b, m->along, lane);

    return ptx_mad(b, column, PITCH, row);
}

struct ptxk_matrix_turned ptxk_matrix_turned_of(const struct ptxk_matrix_tile *m)
{
    return (struct ptxk_matrix_turned) { m->along, m->begin }; // tiles are as wide as high
}

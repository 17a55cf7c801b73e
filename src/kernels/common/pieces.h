// SPDX-License-Identifier: MIT
// How sums over a tensor or over its channels are divided: into pieces, each with a sum of its own.
// The sizes alone decide, so the bits depend on nothing else.
#ifndef PTXGEN_KERNELS_PIECES_H
#define PTXGEN_KERNELS_PIECES_H

#include "common.h"

// A tensor with one scale: a piece is adjacent elements, for a block. Rows: a piece is up to PIECE
// adjacent elements of one row, for a warp, or part of a warp where rows are short. Columns: a
// piece is one column of a tile, for a block. Small tensors have shorter pieces and tiles, to keep
// more multiprocessors busy.
enum {
    PIECES_BLOCK = 256,
    PIECES_WARPS = PIECES_BLOCK / WARP,
    TENSOR_PIECE = 1 << 15, // bytes
    SHORT_TENSOR_PIECE = 1 << 12,
    SHORT_TENSOR_MOST = 1 << 18,
    PIECE = 8192,
    SHORT_PIECE = 2048,
    SHORT_PIECE_MOST = 1 << 24,
    TILE_LANES = 4, // elements of a thread in a row of a tile; 2 in f64
    TILE = 1 << 16, // elements
    SHORT_TILE = 1 << 14,
    SHORT_TILE_MOST = 1 << 24,
    SHORTEST_TILE = 1 << 12,
    SHORTEST_TILE_MOST = 1 << 20,
};

// Whole: a row for each channel, and a sum for each row, which is the gradient. One row has a
// block; of several each has a warp, or part of one.
enum pieces_layout { PIECES_TENSOR, PIECES_ROWS, PIECES_COLUMNS, PIECES_WHOLE };

// Whether the layout is right and fast for the sizes: whole rows, if they are short, and small
// tensors. Without channels: a tensor.
bool ptxk_pieces_are_whole(const struct ptx_kernel_sizes *sizes, ptx_type dtype);

// The elements of a thread in a row of a tile, and the columns of a tile.
unsigned ptxk_tile_lanes(ptx_type dtype);
unsigned ptxk_tile_columns(ptx_type dtype);

// The number of pieces: ptx_kernel_length() of "pieces"; not of whole rows. False if there is none.
bool ptxk_pieces(const struct ptx_kernel_sizes *sizes, ptx_type dtype, enum pieces_layout layout,
                 uint64_t *count);
// The number of blocks of which each has something to do once. Sizes must have pieces.
uint64_t ptxk_piece_blocks(const struct ptx_kernel_sizes *sizes, ptx_type dtype,
                           enum pieces_layout layout);

// The same rules in a kernel. `n`, `channels` and `inner` are u64.

// A tensor: the elements of a piece, and their power of two; u64 and u32.
struct tensor_pieces {
    ptx_val piece, log2;
};
struct tensor_pieces ptxk_tensor_pieces(ptx_builder *b, ptx_type dtype, ptx_val n);

// Rows of `inner` elements: pieces of `piece` elements, `per_row` in each of `rows` rows; u64.
struct row_pieces {
    ptx_val piece, rows, per_row, per_row_inverse, count;
};
struct row_pieces ptxk_row_pieces(ptx_builder *b, ptx_val n, ptx_val inner);

// Columns: the tensor is a matrix of `unit` columns, a multiple of channels * inner and of a
// vector. A tile has `tile_rows` rows of it; there are `across` tiles side by side, `count` in all.
struct column_tiles {
    ptx_val unit, rows, tile_rows, across, across_inverse, count;
};
struct column_tiles ptxk_column_tiles(ptx_builder *b, ptx_type dtype, ptx_val n, ptx_val channels,
                                      ptx_val inner);

#endif

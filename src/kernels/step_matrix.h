// SPDX-License-Identifier: MIT
// Steps of matrices: sums with those of the norm, the pass before the products, and the tiles of
// the pass after them.
#ifndef PTXGEN_KERNELS_STEP_MATRIX_H
#define PTXGEN_KERNELS_STEP_MATRIX_H

#include "norm_parts.h"
#include "step/muon.h"
#include "step_tile.h"

// ---- in the launch of the norm ------------------------------------------------------------------

// Declared as parameters.
struct ptxk_matrix_sums {
    ptx_ptr of, matrices, rows, sums;
};
struct ptxk_matrix_sums ptxk_matrix_sums_param(ptx_builder *b, const struct norm_spec *spec);
// Of a chunk that is summed, where its tensor is a matrix: the sums of G * G, m * m and m * G over
// each part.
// Executed by all threads of the block.
void ptxk_matrix_sums(ptx_builder *b, const struct ptxk_matrix_sums *to,
                      const struct norm_squares *n);

// ---- tiles --------------------------------------------------------------------------------------

// A block's tile of a matrix, whose elements are `first` + row * columns + column.
struct ptxk_matrix_tile {
    ptx_ptr row;           // u64: that of the matrix
    ptx_val options;       // u32
    ptx_val columns, line; // u32: of the matrix; of X
    ptx_val height, width; // s32: of the tile
    ptx_val first;         // u64
    ptx_val several;       // a predicate: the matrix has others
    // In X: where the tile begins, u64; rows of the tile, s32; elements of a row that belong to the
    // matrix and to X, s32.
    ptx_val x_first, x_height, x_width, x_line;
    ptx_val across, down; // u32: where elements are in shared memory, by row and column
    ptx_ptr shared;       // f16
    ptx_val along, begin; // s32: the thread's column, and its first row
};
// `shared`: STEP_MATRIX_SHARED bytes in words, u32.
enum { STEP_MATRIX_SHARED = STEP_MATRIX_TILE * (STEP_MATRIX_TILE + 2) * 2 };
struct ptxk_matrix_tile ptxk_matrix_tile_read(ptx_builder *b, ptx_ptr matrices, ptx_val matrix,
                                              ptx_val index, ptx_val tid, ptx_ptr shared);

// Declares the parameters and the shared memory of the second pass.
void ptxk_matrix_params(ptx_builder *b, struct ptxk_tile *s);
// Steps the parameters of a tile from what the products have left. The coefficients are read, and
// s->variant has the rule of the second pass. All threads of the block must execute it.
void ptxk_matrix_step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_matrix_tile *m);

#endif

// SPDX-License-Identifier: MIT
// The vectors of elements that a thread has of a tile of a matrix.
#ifndef PTXGEN_KERNELS_STEP_MATRIX_TILE_H
#define PTXGEN_KERNELS_STEP_MATRIX_TILE_H

#include "step_matrix.h"

enum {
    PTXK_MATRIX_AT_ONCE = 2,                  // rows of a thread
    STEP_MATRIX_PITCH = STEP_MATRIX_TILE + 2, // elements in shared memory between rows of X
};

// Sets what belongs to tile `index` (u32).
void ptxk_matrix_tile_set(ptx_builder *b, struct ptxk_matrix_tile *m, ptx_val index);

// Rows of a thread in a tile: so many, from row `r` (s32) on, at stride.
struct ptxk_matrix_vectors {
    const struct ptxk_matrix_tile *m;
    ptx_val there[PTXK_MATRIX_AT_ONCE]; // predicates
    ptx_val row[PTXK_MATRIX_AT_ONCE];   // s32; 0 where it is not there
    ptx_val base[PTXK_MATRIX_AT_ONCE];  // s32: where it begins, from the tile's first element on
    ptx_val at[PTXK_MATRIX_AT_ONCE];    // u64: where the vectors begin of an array that may be
                                        // spread; else poisoned
    ptx_val whole;   // a predicate: the vectors are in the tile, and can be accessed at once
    ptx_cache cache; // of those
};
struct ptxk_matrix_vectors ptxk_matrix_vectors_of(ptx_builder *b, const struct ptxk_matrix_tile *m,
                                                  ptx_val r, ptx_val whole);
// The vectors of an array whose elements are consecutive, as sums of gradients are.
struct ptxk_matrix_vectors ptxk_matrix_in_order(const struct ptxk_matrix_vectors *v);
// Whether the thread's vectors can be accessed at once, of arrays for which `vectors` holds.
ptx_val ptxk_matrix_is_whole(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val vectors);

// Variables for them. Reads vectors of an array, which has the tile's first element at `at`;
// elements that are not in the tile become 0. Writes those elements of vector `k` that are in the
// tile: what ptxk_narrow() takes.
void ptxk_matrix_lanes_var(ptx_builder *b, ptx_type type,
                           struct ptxk_lanes to[PTXK_MATRIX_AT_ONCE]);
void ptxk_matrix_vectors_read(ptx_builder *b, const struct ptxk_matrix_vectors *v, ptx_ptr at,
                              const struct ptxk_lanes to[PTXK_MATRIX_AT_ONCE]);
// Begins to copy them into shared memory, where they are whole.
void ptxk_matrix_vectors_copy(ptx_builder *b, const struct ptxk_matrix_vectors *v, ptx_ptr at,
                              const ptx_ptr to[PTXK_MATRIX_AT_ONCE]);
void ptxk_matrix_vector_write(ptx_builder *b, const struct ptxk_matrix_vectors *v, unsigned k,
                              ptx_type type, ptx_ptr at, const ptx_val value[PTXK_MATRIX_LANES]);

// A chip's matrix, 64 columns at a time, as a tile whose rows the block's threads have: eight
// apart, so that a thread's are permuted alike in a panel.
struct ptxk_muon_chip;
struct ptxk_matrix_panels {
    struct ptxk_matrix_tile m;
    ptx_val columns, tid; // u32
    ptx_val in_panel;     // u32: bytes to the thread's columns of row 0 in a panel
    ptx_val room;         // u32: address of what the first product leaves free in shared memory
};
struct ptxk_matrix_panels ptxk_matrix_panels_of(ptx_builder *b, ptx_ptr row,
                                                const struct ptxk_muon_chip *chip);
// Sets what belongs to the columns from `column` (u32) on.
void ptxk_matrix_panel_set(ptx_builder *b, struct ptxk_matrix_tile *m, ptx_val column);
// Where a vector of the thread's is in shared memory, from its columns of row 0 on, in elements.
ptx_val ptxk_matrix_panel_place(ptx_builder *b, ptx_val row);

// Where a vector of X begins, from the tile's first element on.
ptx_val ptxk_matrix_x_place(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val row,
                            ptx_val along);
// A column of the thread's in shared memory, at a row of the tile.
ptx_val ptxk_matrix_shared_place(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val row,
                                 uint32_t lane);
// Vectors of X's own tile, of a matrix that is transposed: the thread's column and first row.
struct ptxk_matrix_turned {
    ptx_val along, begin;
};
enum { PTXK_MATRIX_TURNED_STRIDE = NORM_BLOCK / (STEP_MATRIX_TILE / PTXK_MATRIX_LANES) };
struct ptxk_matrix_turned ptxk_matrix_turned_of(const struct ptxk_matrix_tile *m);

#endif

// SPDX-License-Identifier: MIT
// Steps of matrices: sums with those of the norm, the pass before the products, and the tiles of
// the pass after them.
#ifndef PTXGEN_KERNELS_STEP_MATRIX_H
#define PTXGEN_KERNELS_STEP_MATRIX_H

#include "norm_parts.h"
#include "step/muon.h"
#include "step_tile.h"

// ---- what the kernels share ---------------------------------------------------------------------

#define MATRIX_ROW(member) NORM_PLACE(uint64_t, struct step_matrix_row, member)

ptx_ptr ptxk_matrices_param(ptx_builder *b);
ptx_ptr ptxk_matrix_rows_param(ptx_builder *b, const struct ptxk_step_spec *spec); // of tensors
ptx_ptr ptxk_matrix_at(ptx_builder *b, ptx_ptr matrices, ptx_val k);
ptx_ptr ptxk_matrix_tensor_at(ptx_builder *b, const struct ptxk_step_spec *spec, ptx_ptr rows,
                              ptx_val tensor);
// Whether options (u32) have one.
ptx_val ptxk_matrix_has(ptx_builder *b, ptx_val options, uint32_t option);

// ---- sums (step_matrix_sums.c) ------------------------------------------------------------------

// In the launch of the norm. Declares the parameters, and lets matrices be summed by
// ptxk_norm_squares_sum(): their G * G, m * m and m * G over each part, from which the chunk's own
// sum comes, too.
struct ptxk_matrix_sums {
    ptx_ptr of, matrices, rows, sums;
};
void ptxk_matrix_sums_param(ptx_builder *b, struct norm_squares *n, struct ptxk_matrix_sums *to);
// Its blocks of a multiprocessor.
unsigned ptxk_matrix_sums_blocks(const struct norm_spec *norm, int sm);

// In the launch that takes gradients up, in plans with matrices whose elements are not consecutive:
// declares the parameters, and takes a chunk's up.
struct ptxk_matrix_spreads {
    ptx_ptr of, matrices;
};
struct ptxk_matrix_spreads ptxk_matrix_spreads_param(ptx_builder *b);
void ptxk_matrix_accumulate(ptx_builder *b, const struct ptxk_matrix_spreads *from,
                            struct norm_squares *n);

// In the launch of the groups' sums, a block for each matrix behind theirs: its three sums.
struct ptxk_matrix_totals {
    ptx_ptr matrices, sums, totals;
};
struct ptxk_matrix_totals ptxk_matrix_total_params(ptx_builder *b);
ptx_ptr ptxk_matrix_totals_param(ptx_builder *b, bool writes);
void ptxk_matrix_total(ptx_builder *b, const struct ptxk_matrix_totals *t, ptx_val tid,
                       ptx_val matrix);

// What an update is divided by, f32, from the matrix's sums (f64) and what it has of m and G.
// Infinity: it is 0. Executed by one thread.
struct ptxk_matrix_scale {
    ptx_ptr coefficients; // f32: of the clock
    ptx_val factor, options;
    ptx_ptr totals; // of the matrix
};
ptx_val ptxk_matrix_scale(ptx_builder *b, const struct ptxk_matrix_scale *of);

// ---- tiles --------------------------------------------------------------------------------------

// Elements of a row that a thread processes at once.
enum { PTXK_MATRIX_LANES = 4 };

// A matrix, as a block goes through several of its tiles, and one of these, whose elements are
// `first` + row * columns + column. In a row of a tile a thread has 4 elements; its rows are
// `stride` apart.
struct ptxk_matrix_tile {
    ptx_ptr row;                  // u64: that of the matrix
    ptx_val options;              // u32
    ptx_val turns;                // a predicate: X is the matrix transposed
    ptx_val rows;                 // u32
    ptx_val columns, line;        // s32: elements from a row to the next; in X
    ptx_val regular;              // a predicate: rows begin at multiples of 4 elements
    ptx_val wide, shift;          // u32: tiles beside each other; log2 of a tile's columns
    ptx_val begins, ends;         // u32: the block's first tile, and that behind its last
    ptx_val several;              // a predicate: other blocks have tiles of the matrix
    ptx_val run, pace;            // u32: of elements that may not be consecutive; else poisoned
    ptx_val along, begin, stride; // s32: the thread's first column, its first row, rows in between
    ptx_ptr shared;               // f16, where a tile is transposed
    // Of the tile:
    ptx_val height, width; // s32
    ptx_val first;         // u64
    ptx_val memory_first;  // u64: where the tile begins in memory, or its first element's run
    struct ptxk_spread spread;
    ptx_val x_first; // u64: where it begins in X
    ptx_val x_line;  // s32: elements from there to the end of X's row, at most a tile
};
// `spreads`: elements may not be consecutive. `index`: u32, the block's place among those of the
// matrix. `shared`: STEP_MATRIX_SHARED bytes in words, u32.
enum { STEP_MATRIX_SHARED = STEP_MATRIX_TILE * (STEP_MATRIX_TILE + 2) * 2 };
struct ptxk_matrix_tile ptxk_matrix_read(ptx_builder *b, bool spreads, ptx_ptr matrices,
                                         ptx_val matrix, ptx_val index, ptx_val tid,
                                         ptx_ptr shared);

// Declares the parameters and the shared memory of the second pass, or of kernels of products: of
// chips, which may make momentum and update, or of others.
void ptxk_matrix_params(ptx_builder *b, struct ptxk_tile *s, bool of_products, bool of_chips);
// Steps the parameters of the block's tiles from what the products have left. The coefficients are
// read, and s->variant has the rule of the second pass. All threads of the block must execute it.
void ptxk_matrix_step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_matrix_tile *of);

// ---- within the products ------------------------------------------------------------------------

// Of the matrix that the block multiplies: momentum and update, as its first product reads it, of
// s->tensor; with these parameters.
struct ptxk_muon_chip;
struct ptxk_matrix_update {
    ptx_ptr tensors, rows;
};
void ptxk_matrix_update_chip(ptx_builder *b, const struct ptxk_tile *s,
                             const struct ptxk_matrix_update *with, struct ptxk_muon_chip *chip);
// And its parameters, from its last product; or those of what is taken of a last product.
struct ptxk_muon_taken;
void ptxk_matrix_step_chip(ptx_builder *b, struct ptxk_tile *s, ptx_val matrix,
                           struct ptxk_muon_chip *chip);
void ptxk_matrix_step_taken(ptx_builder *b, struct ptxk_tile *s, ptx_val matrix,
                            const struct ptxk_muon_taken *from);
// Brings near what that reads of s->tensor.
void ptxk_matrix_taken_prefetch(ptx_builder *b, const struct ptxk_tile *s, ptx_ptr rows,
                                const struct ptxk_muon_taken *from);

// The body of an entry of the products whose matrices are stepped by it (step_products.c), with
// the parameters of a step.
struct ptxk_step_products {
    struct ptxk_tile *s;
    ptx_ptr tensors, rows;
};
void ptxk_step_products_body(ptx_builder *b, const struct ptxk_step_products *of, unsigned entry);

#endif

// SPDX-License-Identifier: MIT
// A tile of a product: what a block computes in a turn (muon_tiles.c), or some beside each other
// (muon_band.c), and what becomes of the sums (muon_finish.c).
#ifndef PTXGEN_KERNELS_MUON_TILE_H
#define PTXGEN_KERNELS_MUON_TILE_H

#include "muon_panel.h"

// A tile of `side` rows and columns, and what follows from it.
struct shape {
    uint32_t side;
    uint32_t bytes, stage;           // of one operand's part of a stage, and of all of it
    uint32_t stages;                 // of the copies
    uint32_t copies;                 // of a thread and an operand
    bool groups;                     // multiplied by a warpgroup
    unsigned down, pairs;            // fragments of a warp's rows, and pairs of its columns
    unsigned across, wide;           // fragments, and warps beside each other
    unsigned sums;                   // fragments of a warp
    uint32_t pitch;                  // of a row of the finished tile in shared memory
    uint32_t row_pieces, rows_apart; // and from a thread's row to its next
    uint32_t partial;                // bytes of partial sums
    uint32_t in_square;              // tiles of a side of a square that is not mirrored within
};

struct tile {
    const struct shape *shape;
    ptx_ptr product;
    ptx_val a, b, c, e, q, partials, counters; // addresses
    ptx_val rows, columns, pitch_a, pitch_b, pitch_c, depth;
    ptx_val alpha, beta, diagonal;
    ptx_val across, symmetric, slices, slice, place, matrix;
    ptx_val row, column;    // the first, in elements
    ptx_val begin, end;     // of the depth, in bytes
    ptx_val tid, shared;    // the address of dynamic shared memory
    ptx_val aside;          // it is not on the diagonal
    ptx_val off_diagonal;   // nor in a square there, whose tiles are not mirrored
    ptx_val two;            // the rows of A and of B differ: not so on the diagonal of X X^T
    ptx_val wanted, addend; // whether E is still to be copied, and the stage that it is in
};

// A word of the product's row.
ptx_val ptxk_muon_word(ptx_builder *b, ptx_ptr product, ptx_type type, uint32_t place);

#define ADDRESS(member)                                                                            \
    ptxk_muon_word(b, t.product, PTX_U64, MUON_PLACE(uint64_t, muon_product, member))
#define NUMBER(member)                                                                             \
    ptxk_muon_word(b, t.product, PTX_U32, MUON_PLACE(uint32_t, muon_product, member))
#define NUMBER_OF(t, member)                                                                       \
    ptxk_muon_word(b, (t)->product, PTX_U32, MUON_PLACE(uint32_t, muon_product, member))
#define SCALAR(member)                                                                             \
    ptxk_muon_word(b, t.product, PTX_F32, MUON_PLACE(float, muon_product, member))

// A thread's piece of a row of the tile, 128 columns, and the first row that it has.
struct part {
    ptx_val row, piece;
    ptx_val at; // of the piece in a row of the matrix, in bytes
};

// The finished tile of a product whose `taken` is not 0.
struct ptxk_muon_taken ptxk_muon_taken_of(const struct tile *t, ptx_val taken);

struct part ptxk_muon_part_of(ptx_builder *b, const struct tile *t);

// Where piece `piece` of row `row` of E is in its stage: the rows of a load are in all banks.
ptx_val ptxk_muon_place_of_addend(ptx_builder *b, const struct tile *t, ptx_val row, ptx_val piece);

// Stores this slice's sums. The last block of the tile adds up all of them. Returns whether this
// one is: a predicate.
ptx_val ptxk_muon_add_slices(ptx_builder *b, const struct tile *t, ptx_fragment *sums);
// What only the last part needs, before it: registers are scarce in large tiles.
void ptxk_muon_read_rest(ptx_builder *b, struct tile *to);
// C, and Q where there is one, from all sums.
void ptxk_muon_finish_tile(ptx_builder *b, struct tile *t, const struct muon_warp *warp,
                           ptx_fragment *sums, const struct ptxk_muon_takes *takes);

// Begin to copy 64 rows or columns of the tile as a panel: 64 columns of A, from `depth` bytes on,
// and as many rows of B.
void ptxk_muon_copy_a(ptx_builder *b, const struct tile *t, ptx_val depth, ptx_val to);
void ptxk_muon_copy_columns(ptx_builder *b, const struct tile *t, ptx_val depth, ptx_val to);

// Where a warpgroup multiplies tiles of 64 x 64: `band` of them from this one on.
void ptxk_muon_band_emit(ptx_builder *b, const struct tile *t, ptx_val band,
                         const struct muon_warp *warp, ptx_fragment *sums,
                         const struct ptxk_muon_takes *takes);

#endif

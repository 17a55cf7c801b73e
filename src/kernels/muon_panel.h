// SPDX-License-Identifier: MIT
// Panels in shared memory, as muon.h says: addresses of pieces, and products of panels by the warps
// of a block.
#ifndef PTXGEN_KERNELS_MUON_PANEL_H
#define PTXGEN_KERNELS_MUON_PANEL_H

#include "muon.h"
#include "muon_taken.h"

enum { MUON_ROW = 2 * MUON_DEPTH, MUON_STEPS = MUON_DEPTH / 16 };

// What a warp computes: `down` times 16 rows and `across` times 16 columns of a product, and where
// this lane reads them, in bytes from the beginning of a panel.
struct muon_warp {
    unsigned down, across;
    unsigned apart;                 // rows from 16 of them to the next
    uint32_t panel;                 // of a warpgroup: bytes from 64 columns of B to the next
    ptx_val adds;                   // of a warpgroup: true
    ptx_val row, column;            // of the warp's first element, in the product; of a
                                    // warpgroup's no column, it is the first
    ptx_val of_rows[MUON_STEPS];    // of A, by the step of 16 columns
    ptx_val of_columns[MUON_STEPS]; // of B^T, whose rows are columns of the product
    ptx_val of_across[MUON_STEPS];  // of B, by 16 columns; the rows are steps
};

// Warps in `wide` columns. Columns of B beyond 64 are in further panels, `panel` bytes apart.
struct muon_warp ptxk_muon_warp(ptx_builder *b, unsigned down, unsigned across, unsigned wide,
                                uint32_t panel);

// Sums: down x across x 2 fragments of variables, 0.
void ptxk_muon_zero(ptx_builder *b, const struct muon_warp *warp, ptx_fragment *sums, bool first);

// What a warp multiplies in a step of 16 columns of A: fragments of A, and of B.
enum { MUON_MOST_DOWN = 4, MUON_MOST_ACROSS = 8 };
struct muon_part {
    ptx_fragment x[MUON_MOST_DOWN], y[MUON_MOST_ACROSS];
};

// Loads the part of a step from a panel of A and a panel of B^T, or 64 rows of B, at these
// addresses.
void ptxk_muon_load(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                    bool across, unsigned step, struct muon_part *to);

// Variables, and such a load into them.
void ptxk_muon_part_var(ptx_builder *b, const struct muon_warp *warp, struct muon_part *to);
void ptxk_muon_load_var(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                        bool across, unsigned step, const struct muon_part *to);

// Adds the products of a part.
void ptxk_muon_add(ptx_builder *b, const struct muon_warp *warp, const struct muon_part *part,
                   ptx_fragment *sums);

// Adds A B^T, or A B, of all steps of such panels.
void ptxk_muon_multiply(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                        bool across, ptx_fragment *sums);

// Products by all warps of the block together, which must be four: for sm_90a.
bool ptxk_muon_has_groups(const ptx_builder *b);
// What a warp computes: `down` times 16 rows, 64 apart, and `across` times 16 columns, at most 8.
struct muon_warp ptxk_muon_group(ptx_builder *b, unsigned down, unsigned across, uint32_t panel);
// What this thread copied can be multiplied after the next barrier.
void ptxk_muon_group_sees(ptx_builder *b);
// Begins to add such products of panels, which begin at multiples of 1,024 bytes. Until they are
// waited for, neither the sums nor the panels may be touched.
void ptxk_muon_group_add(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                         bool across, const ptx_fragment *sums);
// The same of A^T, of which 64 rows are in panels as those of B are, and A B.
void ptxk_muon_group_add_turned(ptx_builder *b, const struct muon_warp *warp, ptx_val left,
                                ptx_val right, const ptx_fragment *sums);
// The same of A B, 64 rows of A being in registers, by step as ptx_ldmatrix() loads them.
void ptxk_muon_group_add_kept(ptx_builder *b, const struct muon_warp *warp,
                              const ptx_vec left[MUON_STEPS], ptx_val right,
                              const ptx_fragment *sums);
// Waits for all products but the last `most` that were begun, 0 or 1.
void ptxk_muon_group_wait(ptx_builder *b, unsigned most);

// Pointers to global memory, and to f16 in shared memory.
ptx_ptr ptxk_muon_global(ptx_builder *b, ptx_type type, ptx_val address);
ptx_ptr ptxk_muon_shared_at(ptx_builder *b, ptx_val address);

// Dynamic shared memory: for warpgroups, from a multiple of MUON_ALIGNED bytes on.
ptx_val ptxk_muon_dynamic(ptx_builder *b);

// Where piece `piece` of row `row` is in a panel, in bytes.
ptx_val ptxk_muon_piece(ptx_builder *b, ptx_val row, ptx_val piece);

// The sums' lane: its row in a fragment, and its first column.
struct muon_lane {
    ptx_val row, column;
};
struct muon_lane ptxk_muon_lane(ptx_builder *b);

// The launches of a run overlap: each lets the next one start when its own blocks have started, and
// ends after the one before it.
void ptxk_muon_lead(ptx_builder *b);
void ptxk_muon_follow(ptx_builder *b);

// A block's matrix, and the parameter that has a row of struct muon_chip for each block.
struct muon_block_matrix {
    ptx_ptr row, words;       // its row, u64 and u32
    ptx_val x, steps;         // u64: addresses
    ptx_val step_count, rows; // u32
};
struct muon_block_matrix ptxk_muon_block_matrix(ptx_builder *b);

// The bodies of the entries. `takes`: NULL: results are written, as those are of which `taken` is
// 0.
void ptxk_muon_tiles_emit(ptx_builder *b, uint32_t side, const struct ptxk_muon_takes *takes);
void ptxk_muon_chip_emit(ptx_builder *b, unsigned rows);
void ptxk_muon_square_emit(ptx_builder *b);

#endif

// SPDX-License-Identifier: MIT
// A tile of a matrix's last product that is in shared memory, and taken in place of being written.
#ifndef PTXGEN_KERNELS_MUON_TAKEN_H
#define PTXGEN_KERNELS_MUON_TAKEN_H

#include "muon.h"

struct tile;

struct ptxk_muon_taken {
    ptx_val taken;         // u32: the product's
    ptx_val rows, columns; // u32: of the matrix
    ptx_val row, column;   // u32: the first that is here
    ptx_val tid;           // u32
    unsigned side;         // rows and columns that are here, at most
    const struct tile *tile;
};

// Where 4 elements of a row are, both counted from the first here: u32, an address in shared
// memory. `along`: a multiple of 4.
ptx_val ptxk_muon_taken_at(ptx_builder *b, const struct ptxk_muon_taken *from, ptx_val row,
                           ptx_val along);
// 4 elements of a column, f16, from row `along` on. All lanes of a warp call it: lane l with column
// 8 c + l / 4 and row 16 r + 4 (l % 4), c and r being the warp's.
void ptxk_muon_taken_column(ptx_builder *b, const struct ptxk_muon_taken *from, ptx_val column,
                            ptx_val along, ptx_val to[4]);

// What takes them, and what it does ahead, while they are computed. All threads execute both, and
// none may end the kernel.
struct ptxk_muon_takes {
    void (*ahead)(ptx_builder *b, void *user, const struct ptxk_muon_taken *from);
    void (*take)(ptx_builder *b, void *user, const struct ptxk_muon_taken *from);
    void *user;
};

#endif

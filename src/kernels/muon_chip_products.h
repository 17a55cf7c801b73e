// SPDX-License-Identifier: MIT
// What a chip multiplies, in shared memory: R, Z and Q of its whole size, and 64 columns of X. By a
// warpgroup, or by warps.
#ifndef PTXGEN_KERNELS_MUON_CHIP_PRODUCTS_H
#define PTXGEN_KERNELS_MUON_CHIP_PRODUCTS_H

#include "muon_panel.h"

enum { MUON_MOST_SUMS = 32, MUON_MOST_PART = 16 };

// X X^T is symmetric to the last bit, and is computed on one side of the diagonal: by a warp whose
// square is on the diagonal, its own triangle; by the two others, half of the square below it each.
struct muon_half {
    ptx_val on_diagonal; // a predicate
    ptx_val down, back;  // u32: bytes of a panel from the warp's own rows and columns to these
};

struct ptxk_muon_chip {
    bool groups;           // multiplied by a warpgroup
    unsigned size, panels; // rows that there is room for
    unsigned copies;       // of a thread, for a stage
    uint32_t stage;        // bytes of 64 columns
    ptx_val x;             // address of X
    ptx_val rows, columns, pitch;
    ptx_val taken, given, kept;       // of struct muon_chip
    ptx_val keeps;                    // a predicate: it has kept; poisoned where it cannot have
    ptx_val tid, shared, r, z, q;     // addresses of R, Z and Q
    struct muon_warp square, passing; // of R, Z and Q; of 64 columns of Q X
    struct muon_half half;            // of X X^T
    struct muon_lane lane;
    ptx_fragment sums[MUON_MOST_SUMS], part[MUON_MOST_PART];
};

// Sets what the products need besides `groups`, `size`, `panels` and addresses: the parts of the
// warps, and the sums.
void ptxk_muon_chip_begin(ptx_builder *b, struct ptxk_muon_chip *c);

// A barrier behind which all threads may multiply what any of them has written.
void ptxk_muon_chip_meet(ptx_builder *b, const struct ptxk_muon_chip *c);

// The sums of a product of R, Z, Q or X, of size x size.
void ptxk_muon_chip_square(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right);

// What is stored of the sums: alpha E + beta * sums in `to`, rounded; and that + diagonal I in `q`.
struct muon_combined {
    ptx_val to, e, alpha, beta;
    ptx_val q, diagonal;
};
void ptxk_muon_chip_store(ptx_builder *b, struct ptxk_muon_chip *c, struct muon_combined how);

// A product that is stored where one of its factors, or E, is.
void ptxk_muon_chip_replace(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right,
                            struct muon_combined how);

// X X^T: adds the products of 64 columns of X to the sums, or begins to; waits until they are
// added; stores R.
void ptxk_muon_chip_add_gram(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val panel);
void ptxk_muon_chip_multiplied(ptx_builder *b, const struct ptxk_muon_chip *c);
void ptxk_muon_chip_store_gram(ptx_builder *b, struct ptxk_muon_chip *c);

// 64 columns of Q X, into shared memory at `to`; where `replaces` (a predicate, or poisoned) holds,
// that is where they are read.
void ptxk_muon_chip_pass(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val q, ptx_val from,
                         ptx_val to, ptx_val replaces);

#endif

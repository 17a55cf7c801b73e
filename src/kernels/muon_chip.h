// SPDX-License-Identifier: MIT
// A chip whose first X is not read but given, and whose last is not written but taken, 64 columns
// at a time, in shared memory.
#ifndef PTXGEN_KERNELS_MUON_CHIP_H
#define PTXGEN_KERNELS_MUON_CHIP_H

#include "muon.h"

enum { MUON_CHIP_THREADS = 128 };

struct ptxk_muon_chip;

// The block's matrix.
struct ptxk_muon_chip_matrix {
    ptx_val rows, columns, tid; // u32
    ptx_val taken, given;       // u32: struct muon_chip's
    ptx_val room;               // u32: the address of memory that the first product leaves free
};
struct ptxk_muon_chip_matrix ptxk_muon_chip_matrix(ptx_builder *b,
                                                   const struct ptxk_muon_chip *chip);

// Gives 64 columns from `column` (u32) on, 0 outside of X. `panel`: their address in shared memory,
// u32. All threads execute it.
typedef void ptxk_muon_give(ptx_builder *b, void *user, ptx_val column, ptx_val panel);

// The first product, R = X X^T: of X where it is, or as it is given, and then written there.
void ptxk_muon_chip_first(ptx_builder *b, struct ptxk_muon_chip *chip, ptxk_muon_give *give,
                          void *user);

// Takes 64 columns from `column` (u32) on. `panel`: their address in shared memory, u32. All
// threads execute it; the panel is there until it ends.
typedef void ptxk_muon_take(ptx_builder *b, void *user, ptx_val column, ptx_val panel);

// The last product, X = Q X: written where X is, or taken.
void ptxk_muon_chip_last(ptx_builder *b, struct ptxk_muon_chip *chip, ptxk_muon_take *take,
                         void *user);

// The body of an entry whose first and last products these write, of matrices that are not square.
// They may end the kernel: the last, since the launch before has ended; the first, after
// ptxk_muon_follow().
struct ptxk_muon_ends {
    void (*first)(ptx_builder *b, void *user, struct ptxk_muon_chip *chip);
    void (*last)(ptx_builder *b, void *user, struct ptxk_muon_chip *chip);
    void *user;
};
void ptxk_muon_chip_emit_with(ptx_builder *b, unsigned rows, const struct ptxk_muon_ends *ends);

// Dynamic shared memory of a block, without the bytes that align it.
uint32_t ptxk_muon_chip_shared(unsigned rows);

#endif

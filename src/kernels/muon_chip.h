// SPDX-License-Identifier: MIT
// A chip whose result is not written but taken, 64 columns at a time, as the last product leaves
// them in shared memory.
#ifndef PTXGEN_KERNELS_MUON_CHIP_H
#define PTXGEN_KERNELS_MUON_CHIP_H

#include "muon.h"

enum { MUON_CHIP_THREADS = 128 };

struct ptxk_muon_chip;

// The block's matrix.
struct ptxk_muon_chip_matrix {
    ptx_val rows, columns, tid; // u32
    ptx_val taken;              // u32: struct muon_chip's
};
struct ptxk_muon_chip_matrix ptxk_muon_chip_matrix(const struct ptxk_muon_chip *chip);

// Takes 64 columns from `column` (u32) on. `panel`: their address in shared memory, u32. All
// threads execute it; the panel is there until it ends.
typedef void ptxk_muon_take(ptx_builder *b, void *user, ptx_val column, ptx_val panel);

// The last product, X = Q X: written where X is, or taken.
void ptxk_muon_chip_last(ptx_builder *b, struct ptxk_muon_chip *chip, ptxk_muon_take *take,
                         void *user);

// The body of an entry whose last products `last` writes, of matrices that are not square. It may
// end the kernel: the launch before has ended.
struct ptxk_muon_last {
    void (*emit)(ptx_builder *b, void *user, struct ptxk_muon_chip *chip);
    void *user;
};
void ptxk_muon_chip_emit_with(ptx_builder *b, unsigned rows, const struct ptxk_muon_last *last);

#endif

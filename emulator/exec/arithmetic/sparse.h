// SPDX-License-Identifier: MIT
// mma.sp: which elements of A the metadata names.
#ifndef PTXGEN_EMULATOR_EXEC_ARITHMETIC_SPARSE_H
#define PTXGEN_EMULATOR_EXEC_ARITHMETIC_SPARSE_H

#include "ptx/program.h"

// The lanes whose registers have the metadata of a row of A.
uint32_t emu_sparse_lanes(const struct emu_insn *insn, uint64_t selector, unsigned row);
// The column in the whole A of each element that a row has. Negative, or the lane whose metadata is
// not that of a sparse row.
int emu_sparse_columns(const struct emu_insn *insn, const uint32_t *metadata, uint32_t lanes,
                       unsigned row, uint8_t *columns);

#endif

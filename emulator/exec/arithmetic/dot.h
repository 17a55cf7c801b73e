// SPDX-License-Identifier: MIT
// The sum of products of one element of a product of matrices.
#ifndef PTXGEN_EMULATOR_EXEC_ARITHMETIC_DOT_H
#define PTXGEN_EMULATOR_EXEC_ARITHMETIC_DOT_H

#include "ptx/program.h"

// c + the products of `depth` elements of a row of A and a column of B, for one element of D. Bits
// come as words of 32; all other elements one by one. The host rounds as the instruction does.
uint64_t emu_dot(const struct emu_insn *insn, int sm, const uint64_t *a, const uint64_t *b,
                 unsigned depth, uint64_t c);

#endif

// SPDX-License-Identifier: MIT
// Where the lanes of a warp have the elements of matrices: the fragments of mma, which those of
// wgmma are made of.
#ifndef PTXGEN_EMULATOR_EXEC_ARITHMETIC_FRAGMENT_H
#define PTXGEN_EMULATOR_EXEC_ARITHMETIC_FRAGMENT_H

#include <stdbool.h>

// Row and column in A, in C, and in the transpose of B.
struct emu_position {
    unsigned row, column;
};

// Elements of a register; bits are a power of two.
static inline unsigned emu_parts_of(unsigned bits)
{
    return bits < 32 ? 32u >> __builtin_ctz(bits) : 1;
}

// The place of element `part` of register `reg` of a lane in A, or in the transpose of B.
static inline struct emu_position emu_position_in_factor(unsigned bits, unsigned lane, unsigned reg,
                                                         unsigned part, bool is_a)
{
    const unsigned parts = emu_parts_of(bits), block = is_a ? reg / 2 : reg;
    return (struct emu_position) { lane / 4 + (is_a ? reg % 2 * 8 : 0),
                                   block * 4 * parts + lane % 4 * parts + part };
}

// The same in eight columns of C or D.
static inline struct emu_position emu_position_in_sum(unsigned bits, unsigned lane, unsigned reg,
                                                      unsigned part)
{
    const unsigned row = bits == 16 ? reg : reg / 2, column = bits == 16 ? part : reg % 2;
    return (struct emu_position) { lane / 4 + row * 8, lane % 4 * 2 + column };
}

#endif

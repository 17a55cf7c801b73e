// SPDX-License-Identifier: MIT
// The sum of products of one element of a product of matrices.
#ifndef PTXGEN_EMULATOR_EXEC_ARITHMETIC_DOT_H
#define PTXGEN_EMULATOR_EXEC_ARITHMETIC_DOT_H

#include "exec/lanes/lanes.h"
#include "ptx/program.h"

// c + the products of `depth` elements of a row of A and a column of B, for one element of D. Bits
// come as words of 32; all other elements one by one. The host rounds as the instruction does.
uint64_t emu_dot(const struct emu_insn *insn, int sm, const uint64_t *a, const uint64_t *b,
                 unsigned depth, uint64_t c);

// Rows of A and columns of B for the same sums, faster: f16 or bf16 with sums in f32.
enum { EMU_LINE_MOST = 16 };
struct emu_line {
    double value[EMU_LINE_MOST];
    int16_t exponent[EMU_LINE_MOST];
    bool special; // has an infinity or a NaN
};

// How a generation sums products of f16, in f32.
struct emu_tile_sums emu_half_sums(int sm);

// Whether an instruction's rows of A and columns of B may be lines.
bool emu_lines_fit(const struct emu_insn *insn, unsigned depth);
void emu_fill_line(const struct emu_insn *insn, const uint64_t *bits, unsigned depth,
                   struct emu_line *to);
// Sets *c, or returns false: emu_dot() has to do it.
bool emu_dot_lines(int sm, const struct emu_line *a, const struct emu_line *b, unsigned depth,
                   uint32_t *c);

#endif

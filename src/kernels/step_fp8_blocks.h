// SPDX-License-Identifier: MIT
// Codes in blocks of a tile of 128 x 128 weights: of those in memory, or of those that the block
// has stepped and kept.
#ifndef PTXGEN_KERNELS_STEP_FP8_BLOCKS_H
#define PTXGEN_KERNELS_STEP_FP8_BLOCKS_H

#include "common/fp8.h"
#include "step_codes.h"

struct ptxk_step_blocks_tile {
    enum fp8_format format;
    struct ptxk_codes tile;
    ptx_val tensor, kind;                  // u32
    ptx_val parameter, codes, scales;      // u64: addresses
    ptx_val transposed, transposed_scales; // u64, 0: not wanted
    ptx_val scaling;                       // u32: ptx_fp8_scaling
    bool turns;   // has codes with a known scale, which are transposed; else in blocks
    ptx_val left; // then, a variable, a predicate: the tile is not stepped
    ptx_ptr kept; // f32, shared: the weights, by rows of 128; poisoned: they are in memory. If it
                  // turns b32: the codes, by rows of 32
    bool has_own; // if weights are kept: a warp has kept the rows of which it makes codes
    ptx_val largest[STEP_CODES_EACH]; // then, variables, f32: of the thread's weights of 4 columns
    ptx_ptr of_warps;                 // f32, shared: the largest of columns, a row of 128 a warp
    struct ptxk_lanes weight[STEP_CODES_LINES]; // else, of row 16 * warp + k, columns 4 * lane on
};

// The shared memory of the codes and what belongs to them, in words.
enum { STEP_FP8_SHARED_WORDS = STEP_CODES_WORDS + STEP_CODES_TILE };

ptx_ptr ptxk_step_fp8_tiles_param(ptx_builder *b, const char *name);
ptx_ptr ptxk_step_fp8_matrices_param(ptx_builder *b);
// The tile with this number (u32), but for the parameter and its place: ptxk_codes_place() of the
// index that it returns.
ptx_val ptxk_step_fp8_tile_read(ptx_builder *b, struct ptxk_step_blocks_tile *t, ptx_ptr tiles,
                                ptx_ptr matrices, ptx_val number);
// Whether any of these kinds, as bits, has blocks of 1 x 128.
bool ptxk_step_fp8_has_lines(uint32_t kinds);
// Makes the codes of the tile, whose kind is one of `kinds`, as bits.
void ptxk_step_fp8_make(ptx_builder *b, struct ptxk_step_blocks_tile *t, uint32_t kinds);
// Writes the transposed codes: a word of each of the thread's rows, which it replaces.
void ptxk_step_fp8_turn(ptx_builder *b, const struct ptxk_step_blocks_tile *t,
                        ptx_val word[STEP_CODES_LINES]);

#endif

// SPDX-License-Identifier: MIT
// The 8-bit states of PTX_STEP_FORMAT_STATE_8BIT. A warp has a block: eight elements a lane.
#ifndef PTXGEN_KERNELS_STEP_EIGHT_BIT_H
#define PTXGEN_KERNELS_STEP_EIGHT_BIT_H

#include <ptxgen/builder.h>

enum {
    PTXK_EIGHT_BIT_BLOCK = 256, // elements that share an absmax
    PTXK_EIGHT_BIT_LANES = 8,   // elements of a thread
    PTXK_EIGHT_BIT_CODES = 256,
    PTXK_EIGHT_BIT_CELLS = 23 * 128 + 8, // 128 from each power of two on up to 1, and that of 1
};

// What is read while elements are converted; in device memory, and copied to each block's shared
// memory.
struct ptxk_eight_bit_tables {
    // For q = |state| / absmax: the upper 16 bits of the f32 say its cell, the first being that of
    // 2^-23, below which all is nearest to 0. At most one code ends in a cell. 256 * entry + q, as
    // integers, has the code in its third byte, and the carry into it is the next code; q's lowest
    // byte does not count. Codes of the signed map count from that of 0.
    uint16_t cells[2][PTXK_EIGHT_BIT_CELLS];
    float map[2][PTXK_EIGHT_BIT_CODES]; // unsigned, signed
};
void ptxk_eight_bit_tables_fill(struct ptxk_eight_bit_tables *tables);

// The entries of a map by code; ptx_step_map().
void ptxk_eight_bit_map(bool is_signed, float map[PTXK_EIGHT_BIT_CODES]);

// The tables in shared memory (u32 words), copied by all threads of a block from global memory;
// a barrier must follow.
ptx_ptr ptxk_eight_bit_shared(ptx_builder *b);
void ptxk_eight_bit_copy(ptx_builder *b, ptx_ptr shared, ptx_ptr from, ptx_val tid,
                         unsigned threads);

// The states of a thread's eight codes, four in a word (b32); absmax is an f32.
void ptxk_eight_bit_decode(ptx_builder *b, ptx_ptr shared, bool is_signed, const ptx_val codes[2],
                           ptx_val absmax, ptx_val state[PTXK_EIGHT_BIT_LANES]);
// The inverse, of all states. All lanes of the warp take part; `absmax` becomes the new one, of all
// their states.
void ptxk_eight_bit_encode(ptx_builder *b, ptx_ptr shared, unsigned states,
                           ptx_val (*state)[PTXK_EIGHT_BIT_LANES], ptx_val codes[2][2],
                           ptx_val absmax[2]);

#endif

// SPDX-License-Identifier: MIT
// The 8-bit states of PTX_STEP_FORMAT_STATE_8BIT. A warp has a block: eight elements a lane.
#ifndef PTXGEN_KERNELS_STEP_EIGHT_BIT_H
#define PTXGEN_KERNELS_STEP_EIGHT_BIT_H

#include <ptxgen/builder.h>

enum {
    PTXK_EIGHT_BIT_BLOCK = 256, // elements that share an absmax
    PTXK_EIGHT_BIT_LANES = 8,   // elements of a thread
    PTXK_EIGHT_BIT_CODES = 256,
    PTXK_EIGHT_BIT_ROWS = 26,       // of a line each, below
    PTXK_EIGHT_BIT_EXPONENTS = 512, // entries of `to_row`
};

// What is read while elements are converted; in device memory, and copied to each block's shared
// memory.
struct ptxk_eight_bit_tables {
    // A decade of a map is a line: code = least + steps * clamp(q * slope + offset, 0, 1), rounded.
    // `least` has the number added that makes the sum's lowest byte the code.
    struct ptxk_eight_bit_row {
        float slope, offset, steps, least;
    } rows[PTXK_EIGHT_BIT_ROWS];
    // With the bits of q: its row is (bits + to_row[bits >> 23]) >> 23, since no two decades begin
    // between two powers of two. A quarter of the entries each: the signed map's for q above 0, the
    // unsigned map's, and the same for q below 0.
    uint32_t to_row[PTXK_EIGHT_BIT_EXPONENTS];
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
// The inverse. All lanes of the warp take part; `absmax` becomes the new one, of all their states.
void ptxk_eight_bit_encode(ptx_builder *b, ptx_ptr shared, bool is_signed,
                           const ptx_val state[PTXK_EIGHT_BIT_LANES], ptx_val codes[2],
                           ptx_val *absmax);

#endif

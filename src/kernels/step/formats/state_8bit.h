// SPDX-License-Identifier: MIT
// The maps of 8-bit states, and the tables by which kernels find codes.
#ifndef PTXGEN_KERNELS_STEP_STATE_8BIT_H
#define PTXGEN_KERNELS_STEP_STATE_8BIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PTXK_STATE_8BIT_CODES = 256,
    PTXK_STATE_8BIT_CELLS = 23 * 128 + 8, // 128 from each power of two on up to 1, and that of 1
};

// What is read while elements are converted; in device memory, and copied to each block's shared
// memory.
struct ptxk_state_8bit_tables {
    // For q = |state| / absmax: the upper 16 bits of the f32 say its cell, the first being that of
    // 2^-23, below which all is nearest to 0. At most one code ends in a cell. 256 * entry + q, as
    // integers, has the code in its third byte, and the carry into it is the next code; q's lowest
    // byte does not count. Codes of the signed map count from that of 0.
    uint16_t cells[2][PTXK_STATE_8BIT_CELLS];
    float map[2][PTXK_STATE_8BIT_CODES]; // unsigned, signed
};
void ptxk_state_8bit_tables_fill(void *tables); // of struct ptxk_state_8bit_tables

// The entries of a map by code; ptx_step_map().
void ptxk_state_8bit_map(bool is_signed, float map[PTXK_STATE_8BIT_CODES]);

#endif

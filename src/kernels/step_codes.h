// SPDX-License-Identifier: MIT
// Tiles of 128 x 128 codes of a matrix, which a block of threads turns through shared memory: a
// thread has 4 adjacent codes of each of 16 rows, of 8 or of 4.
#ifndef PTXGEN_KERNELS_STEP_CODES_H
#define PTXGEN_KERNELS_STEP_CODES_H

#include "common/common.h"
#include "step_apply.h"

enum {
    STEP_CODES_TILE = PTXK_STEP_CODES_TILE,
    STEP_CODES_EACH = 4,                                                    // of a word
    STEP_CODES_LINES = STEP_CODES_TILE / (NORM_BLOCK / WARP),               // of a thread, at most
    STEP_CODES_WORDS = STEP_CODES_TILE * STEP_CODES_TILE / STEP_CODES_EACH, // of shared memory
};

struct ptxk_codes {
    unsigned threads;        // of the block: NORM_BLOCK, or twice or four times as many
    ptx_val tid, lane, warp; // u32; the thread has rows lines * warp on, columns 4 * lane on
    ptx_val rows, columns;   // u64: of the matrix
    ptx_val row, column;     // u64: the tile's first
    ptx_val down, right;     // u64: the tile's place, in tiles
    ptx_val downs, rights;   // u64: how many there are
    ptx_val height, width;   // u32: of the tile
    ptx_val whole;           // a predicate: no edge cuts the tile
    ptx_val keeps;           // b64: the cache policy of codes; poisoned: none
    ptx_ptr shared;          // b32: STEP_CODES_WORDS
};

// The rows of a thread.
unsigned ptxk_codes_lines(const struct ptxk_codes *t);

// The tile with this index (u32), by rows of tiles, of a matrix whose size is set.
void ptxk_codes_place(ptx_builder *b, struct ptxk_codes *t, ptx_val index);

// Stores one word of codes or four. They stay in L2 until what other tiles write beside them is
// there: device memory takes long runs faster than lines of 128 bytes.
ptx_val ptxk_codes_policy(ptx_builder *b);
void ptxk_codes_store(ptx_builder *b, ptx_val policy, ptx_ptr at, ptx_vec words);

// Where unit `u` (u32) of 16 codes of a line is in shared memory, in words: so that neither lines
// nor columns of units meet in a bank.
ptx_val ptxk_codes_unit_at(ptx_builder *b, ptx_val line, ptx_val u);

// Leaves the thread's words, one of each row, in shared memory: lines are columns of the matrix.
// Replaces the words.
void ptxk_codes_turn(ptx_builder *b, const struct ptxk_codes *t, ptx_val word[STEP_CODES_LINES]);

// Writes lines of codes from shared memory to `to` (u8): so many lines, of so many codes (u32),
// `pitch` (u64) codes apart. Where addresses allow it in units of 16, else in words.
void ptxk_codes_write(ptx_builder *b, const struct ptxk_codes *t, ptx_ptr to, ptx_val pitch,
                      ptx_val lines, ptx_val length);

#endif

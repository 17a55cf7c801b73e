// SPDX-License-Identifier: MIT
// What the functions of matrix.h share.
#ifndef PTXGEN_BUILDER_MATRIX_PARTS_H
#define PTXGEN_BUILDER_MATRIX_PARTS_H

#include "internal.h"

static inline const struct ptx_op_form *ptxb_matrix_form(ptx_opcode op)
{
    return ptx_op_get_info(op)->forms;
}

// ---- matrix.c -----------------------------------------------------------------------------------

// All lanes take part in the newest instruction, and each has its own results.
void ptxb_of_a_warp(ptx_builder *b);

// ---- matrix_fragment.c --------------------------------------------------------------------------

extern const char *const ptxb_fragment_roles[]; // their letters
// Bits of an element: 8 for one of a pair of e4m3 or e5m2.
unsigned ptxb_fragment_bits(ptx_type type);
// Its letter; that of no role for a number that is none.
const char *ptxb_fragment_role(ptx_fragment_role role);
// Words of a fragment; 0 after an error: there is no such fragment.
unsigned ptxb_fragment_count(ptx_builder *b, const char *call, ptx_fragment_role role,
                             ptx_type type, unsigned k);
// The type of its words, of which it has `words`, without them.
ptx_type ptxb_fragment_word(ptx_fragment_role role, ptx_type type);
ptx_fragment ptxb_fragment_make(ptx_fragment_role role, ptx_type type, unsigned k, unsigned words);
bool ptxb_fragment_ok(ptx_builder *b, const char *call, const char *name, ptx_fragment f);

// ---- matrix_load.c ------------------------------------------------------------------------------

enum { MATRIX_FRAGMENTS = 64 }; // that a call loads or stores

// Makes the stride a u32; a constant one is a multiple of so many elements.
bool ptxb_stride_ok(ptx_builder *b, const char *call, ptx_val *stride, unsigned multiple);
// Whether rows of `length` elements lie within an array, as far as that is known; `unit` bytes are
// accessed at a time.
bool ptxb_rows_in_array(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride, unsigned rows,
                        unsigned length, unsigned unit);
void ptxb_require_uniform_matrix(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride);
bool ptxb_is_matrix(ptx_builder *b, const char *call, const ptx_matrix *m);
// A pointer moved by rows and columns of memory.
ptx_ptr ptxb_matrix_moved(ptx_builder *b, const ptx_matrix *m, ptx_ptr p, unsigned row,
                          unsigned column);
// Whether `count` fragments from an element on may be loaded or stored.
bool ptxb_matrix_place_ok(ptx_builder *b, const char *call, const ptx_matrix *m, unsigned row,
                          unsigned column, unsigned count);

// ---- matrix_store.c -----------------------------------------------------------------------------

// Bytes of a row of C in memory that are stored at a time, at a multiple of them.
unsigned ptxb_sum_unit(ptx_ptr p);
// Tiles of C that an instruction stores; 0: lanes store their own words.
unsigned ptxb_sum_tiles(const ptx_builder *b, ptx_ptr p);
// The first of the lane's own words, in elements.
ptx_val ptxb_sum_lane(ptx_builder *b, ptx_val stride);
// Whether a matrix of C may be there.
bool ptxb_sum_ok(ptx_builder *b, const char *call, ptx_type type, ptx_ptr p,
                 struct ptx_fragment_load_params *params);

#endif

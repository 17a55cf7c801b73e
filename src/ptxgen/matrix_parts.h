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

#endif

// SPDX-License-Identifier: MIT
#include "blocks.h"

#include "../common/division.h"
#include "quick.h"

// As bits, NaN is larger than infinity.
ptx_val ptxk_block_largest(ptx_builder *b, const ptx_val state[PTXK_LANES])
{
    const bool can_reduce = ptx_builder_target(b).sm >= 80;
    ptx_val most = { 0 };

    ptx_comment(b, "the largest state of the block");
    for (unsigned k = 0; k < PTXK_LANES; k++) {
        ptx_val size = ptx_abs(b, state[k]);
        if (!can_reduce)
            size = ptx_bitcast(b, PTX_U32, size);
        most = k == 0 ? size : can_reduce ? ptx_max_nan(b, most, size) : ptx_max(b, most, size);
    }
    if (can_reduce)
        most = ptx_redux_max(b, ptx_bitcast(b, PTX_U32, most), ptx_full_warp());
    else
        most = ptxk_lanes_combine_all(b, ptx_max, most, WARP);
    return ptx_bitcast(b, PTX_F32, most);
}

// All without a branch, if that holds for all, or each by the exact
// instruction. -0 and what is below it have larger bits than infinity.
void ptxk_block_roots(ptx_builder *b, const ptx_val state[PTXK_LANES])
{
    ptx_comment(b, "the roots of the states: all without a branch, if that holds for all");
    ptx_val most = ptx_bitcast(b, PTX_U32, state[0]);

    for (unsigned n = 1; n < PTXK_LANES; n++)
        most = ptx_max(b, most, ptx_bitcast(b, PTX_U32, state[n]));
    ptx_if (b, ptx_lt(b, most, PTXK_QUICK_ROOTS))
        for (unsigned n = 0; n < PTXK_LANES; n++) {
            ptxk_comment_lanes(b, "roots", n, 4, PTXK_LANES);
            ptx_val root = ptxk_quick_root(b, state[n]);
            ptx_set(b, state[n], ptx_mul(b, root, 1 / PTXK_QUICK_SCALE));
        }
    ptx_else (b) {
        ptx_comment(b, "by the exact instruction");
        for (unsigned n = 0; n < PTXK_LANES; n++)
            ptx_set(b, state[n], ptx_sqrt(b, state[n]));
    }
}

// What is usual, all at once; the rest in a branch.
void ptxk_block_inverses(ptx_builder *b, ptx_val *scale, unsigned states, ptx_val *inverse,
                         ptx_val (*state)[PTXK_LANES])
{
    const uint32_t least = 0x00800000, infinity = 0x7f800000; // the least normal number
    const uint32_t low = (127 - 100) << 23, high = (127 + 100) << 23;
    ptx_val quick = { 0 };

    ptx_comment(b, "the inverses of the scales");
    for (unsigned k = 0; k < states; k++) {
        ptx_val above = ptx_sub(b, ptx_bitcast(b, PTX_U32, scale[k]), low);
        ptx_val is = ptx_lt(b, above, high - low);
        quick = k == 0 ? is : ptx_and(b, quick, is);
        inverse[k] = ptx_var(b, ptxk_quick_rcp(b, scale[k]));
        scale[k] = ptx_var(b, scale[k]);
    }
    ptx_if (b, ptx_not(b, quick)) {
        ptx_comment(b, "of scales that are very small, very large or not finite");
        for (unsigned k = 0; k < states; k++) {
            ptx_val bits = ptx_bitcast(b, PTX_U32, scale[k]);
            ptx_val above = ptx_sub(b, bits, least);
            ptx_val usual = ptx_lt(b, above, infinity - least);
            ptx_val small = ptx_lt(b, bits, least);
            ptx_val other = ptx_select(b, small, ptx_u32(0), 0x7fffffff);
            ptx_set(b, inverse[k], ptx_select(b, usual, ptx_rcp(b, scale[k]), 0));
            ptx_set(b, scale[k], ptx_bitcast(b, PTX_F32, ptx_select(b, usual, bits, other)));
            for (unsigned n = 0; state && n < PTXK_LANES; n++)
                ptx_set(b, state[k][n], ptx_select(b, usual, state[k][n], 0));
        }
    }
}

// SPDX-License-Identifier: MIT
#include "in_c.h"

void operators_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 64, 2 }) {
        ptx_val n = ptx_param(b, PTX_U32, "n"), s = ptx_param(b, PTX_S32, "s");
        ptx_val x = ptx_param(b, PTX_F32, "x");
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_ntid(b, PTX_X), ptx_tid(b, PTX_X));
        ptx_val j =
            ptx_add(b, ptx_mul(b, ptx_ctaid(b, PTX_Y), ptx_ntid(b, PTX_Y)), ptx_tid(b, PTX_Y));
        ptx_val k = ptx_add(b, ptx_mul(b, ptx_add(b, i, j), ptx_sub(b, n, 1)), 4);
        ptx_xor(b, ptx_or(b, ptx_and(b, k, 15), ptx_shl(b, i, 2)), ptx_shr(b, j, 3));
        ptx_rem(b, ptx_div(b, k, 3), n);
        ptx_not(b, ptx_sub(b, 7, n));
        ptx_val y = ptx_div(b, ptx_neg(b, ptx_mul(b, x, x)), ptx_add(b, x, 0.5));
        ptx_val both = ptx_and(b, ptx_lt(b, x, y), ptx_ge(b, n, 3));
        ptx_or(b, ptx_or(b, both, ptx_neu(b, x, x)), ptx_ne(b, s, -1));
        ptx_xor(b, ptx_not(b, ptx_eq(b, y, 2)), ptx_xor(b, ptx_gt(b, x, y), ptx_le(b, 1, x)));
    }
}

void assignments_in_c(ptx_builder *b)
{
    ptx_entry (b, "k") {
        ptx_val x = ptx_param(b, PTX_F32, "x"), n = ptx_param(b, PTX_U64, "n");
        ptx_val v = ptx_var(b, ptx_f32(1)), w = ptx_var(b, ptx_mul(b, x, x));
        ptx_val u = ptx_var(b, ptx_u64(3));
        ptx_set(b, v, ptx_add(b, v, ptx_mul(b, x, 2)));
        ptx_set(b, v, ptx_mul(b, v, w));
        ptx_set(b, w, v);
        ptx_set(b, w, 5);
        ptx_val before = ptx_copy(b, w);
        ptx_set(b, w, ptx_sub(b, ptx_div(b, before, x), w));
        ptx_set(b, u, ptx_shl(b, u, 4));
        ptx_set(b, u, ptx_rem(b, u, n));
    }
}

void memory_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), q = ptx_param_ptr(b, PTX_U32, "q");
        ptx_ptr s = ptx_shared(b, PTX_F32, 64), l = ptx_local(b, PTX_S32, 2);
        ptx_val i = ptx_global_index(b, PTX_X);
        ptx_store(b, p, i, ptx_add(b, ptx_load(b, p, i), ptx_load(b, s, ptx_add(b, i, 1))));
        ptx_store(b, s, 0, ptx_load(b, p, 3));
        ptx_store(b, l, 1, -4);
        ptx_val at = ptx_add(b, i, 2);
        ptx_store(b, p, at, ptx_mul(b, ptx_load(b, p, at), ptx_cvt(b, PTX_F32, ptx_load(b, q, i))));
        ptx_val x = ptx_load(b, p, ptx_load(b, q, 0));
        ptx_store(b, ptx_at(b, p, i), 7, ptx_select(b, ptx_lt(b, x, 0), 0, x));
        ptx_atomic_add(b, q, i, 1);
        ptx_load(b, p, i, .cache = PTX_CACHE_STREAMING);
        ptx_store(b, p, i, x, .cache = PTX_CACHE_STREAMING);
        ptx_store(b, ptx_ptr_cast(b, PTX_U32, s), i, ptx_bitcast(b, PTX_U32, x));
    }
}

void blocks_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_val sum = ptx_var(b, ptx_u32(0));
        ptx_for (b, i, ptx_tid(b, PTX_X), n, 32) {
            ptx_continue_if(b, ptx_eq(b, i, 5));
            ptx_set(b, sum, ptx_add(b, sum, i));
        }
        ptx_for_down (b, i, ptx_mul(b, n, 2), 1, 3)
            ptx_break_if(b, ptx_gt(b, i, sum));
        ptx_grid_stride (b, i, n)
            ptx_set(b, sum, ptx_xor(b, sum, i));
        ptx_if (b, ptx_lt(b, sum, 3))
            ptx_set(b, sum, 1);
        ptx_else_if (b, ptx_eq(b, ptx_rem(b, sum, 4), 2))
            ptx_set(b, sum, 2);
        ptx_else (b)
            ptx_set(b, sum, 3);
        ptx_while (b, ptx_lt(b, sum, n))
            ptx_set(b, sum, ptx_mul(b, sum, 2));
        ptx_loop (b) {
            ptx_set(b, sum, ptx_sub(b, sum, 1));
            ptx_break_if(b, ptx_lt(b, sum, 9));
            ptx_if (b, ptx_eq(b, sum, 77))
                ptx_continue(b);
        }
        ptx_return_if(b, ptx_eq(b, sum, n));
        ptx_inlined (b, "tripled")
            ptx_set(b, sum, ptx_mul(b, sum, 3));
        ptx_val squared = { 0 };
        ptx_inlined (b, "squared")
            squared = ptx_mul(b, n, n);
        ptx_set(b, sum, ptx_add(b, squared, 1));
        ptx_if (b, ptx_lt(b, n, 100))
            ptx_trap(b);
    }
}

void helpers_in_c(ptx_builder *b)
{
    ptx_entry (b, "k") {
        ptx_ptr p = ptx_shared(b, PTX_U32, 4);
        ptx_val n = ptx_param(b, PTX_U32, "n"), m = ptx_param(b, PTX_U32, "m");
        ptx_store(b, p, 0, ptx_sub(b, ptx_mul(b, n, 3), ptx_add(b, m, 5)));
        ptx_store(b, p, 1, ptx_sub(b, ptx_sub(b, ptx_xor(b, n, 1), ptx_xor(b, m, 2)), 7));
        ptx_store(b, p, 2, ptx_sub(b, ptx_load(b, p, 3), n));
    }
}

void functions_in_c(ptx_builder *b)
{
    ptx_entry (b, "k") {
        ptx_val x = ptx_param(b, PTX_F32, "x"), i = ptx_param(b, PTX_S32, "i");
        ptx_val y = ptx_fma(b, ptx_abs(b, x), ptx_max(b, x, 1), ptx_sqrt(b, ptx_rcp(b, x)));
        ptx_min(b, ptx_cvt(b, PTX_F32, i), ptx_cvt(b, PTX_F32, ptx_cvt(b, PTX_F64, y)));
        ptx_select(b, ptx_is_nan(b, y), x, ptx_bitcast(b, PTX_F32, i));
        ptx_cvt(b, PTX_S32, y, .round = PTX_ROUND_RN);
        ptx_mad_wide(b, i, i, ptx_mul_wide(b, i, 3));
        ptx_shfl_down(b, ptx_add(b, x, y), 1);
    }
}

// SPDX-License-Identifier: MIT
#include "kitchen_sink.h"

static void arithmetic(ptx_builder *b, ptx_ptr out, ptx_val n)
{
    ptx_val x = ptx_cvt(b, PTX_F32, n);
    ptx_val h = ptx_cvt(b, PTX_F16, x);
    ptx_val pair = ptx_cvt_pack(b, PTX_BF16X2, x, x);
    ptx_val chosen = ptx_select(b, ptx_lt(b, h, ptx_imm(PTX_F16, 0.5)), h, ptx_imm(PTX_F16, 2));
    ptx_val rounded =
        ptx_op(b, PTX_OP_fma, .x = x, .y = x, .z = ptx_f32(0.1f), .round = PTX_ROUND_RZ);
    ptx_vec halves = ptx_unpack(b, PTX_B16, pair);
    ptx_val b16 = ptx_cvt(b, PTX_BF16, rounded);
    ptx_val merged = ptx_pack(b, PTX_B32, ptx_vec2(halves.lane[0], ptx_bitcast(b, PTX_B16, b16)));

    ptx_comment(b, "results of %d operations", 5);
    ptx_store(b, ptx_ptr_cast(b, PTX_B32, out), n, merged, .cache = PTX_CACHE_STREAMING);
    ptx_store(b, ptx_ptr_cast(b, PTX_F16, out), n, chosen);
}

static void together(ptx_builder *b, ptx_ptr out, ptx_val n)
{
    ptx_ptr s = ptx_shared(b, PTX_F64, 32), d = ptx_shared_dynamic(b, PTX_U32);
    ptx_ptr l = ptx_local(b, PTX_U32, 8);
    ptx_val tid = ptx_tid(b, PTX_X), full = ptx_full_warp();
    ptx_val moved = ptx_shfl_down(b, ptx_cvt(b, PTX_F64, tid), ptx_u32(1));
    ptx_val votes = ptx_ballot(b, ptx_eq(b, tid, n), full);
    ptx_val same = ptx_match_any(b, votes, full);

    ptx_store(b, s, ptx_rem(b, tid, ptx_u32(32)), moved);
    ptx_store(b, l, ptx_rem(b, tid, ptx_u32(8)), same);
    ptx_barrier(b);
    ptx_val all = ptx_barrier_count(b, ptx_ne(b, votes, same));
    ptx_atomic_add(b, d, tid, all);
    ptx_val old = ptx_atomic(b, PTX_ATOMIC_cas, d, tid, all, .compare = ptx_redux_max(b, n, full),
                             .order = PTX_ORDER_ACQ_REL);
    ptx_fence(b, PTX_ORDER_SEQ_CST, PTX_SCOPE_SYSTEM);
    ptx_store(b, ptx_ptr_cast(b, PTX_U32, out), old, ptx_load(b, l, ptx_u32(7)));
    ptx_vec four = ptx_load_vec(b, ptx_at(b, out, old), ptx_u32(0), 4, .nc = true,
                                .cache = PTX_CACHE_NO_ALLOCATE);
    ptx_store_vec(b, out, ptx_u32(0), four);
}

static void flow(ptx_builder *b, ptx_ptr out, ptx_val n)
{
    ptx_label again = ptx_label_create(b, "again");
    ptx_val sum = ptx_var(b, ptx_u32(0));

    ptx_label_place(b, again);
    ptx_grid_stride (b, i, n)
        ptx_set(b, sum, ptx_add(b, sum, i));
    ptx_for (b, i, ptx_ctaid(b, PTX_X), n, ptx_u32(3)) {
        ptx_if (b, ptx_eq(b, i, ptx_u32(7))) {
            ptx_set(b, sum, ptx_add(b, sum, i));
            ptx_break(b);
        }
        ptx_else_if (b, ptx_gt(b, i, ptx_u32(90))) {
            ptx_for_down (b, j, i, ptx_u32(1), ptx_u32(3))
                ptx_set(b, sum, ptx_xor(b, sum, j));
        }
        ptx_else (b) {
            ptx_while (b, ptx_lt(b, sum, ptx_u32(100)))
                ptx_set(b, sum, ptx_mul(b, sum, ptx_u32(2)));
        }
    }
    ptx_loop (b) {
        ptx_set(b, sum, ptx_add(b, sum, ptx_u32(1)));
        ptx_break_if(b, ptx_gt(b, sum, ptx_u32(200)));
        ptx_return_if(b, ptx_eq(b, sum, ptx_u32(150)));
    }
    ptx_branch_if(b, ptx_lt(b, sum, n), again);
    ptx_nanosleep(b, ptx_u32(10));
    ptx_store(b, ptx_ptr_cast(b, PTX_U32, out), ptx_u32(0), sum);
}

void kitchen_sink(ptx_builder *b, const char *name)
{
    ptx_entry (b, name, .max_block = { 256 }, .min_blocks = 2) {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .length = "n", .meaning = "the results");
        ptx_val n = ptx_param(b, PTX_U32, "n", .meaning = "their number");
        ptx_ptr table = ptx_param_array(b, PTX_U16, "table", 20);
        ptx_val picked = ptx_load(b, table, ptx_rem(b, n, ptx_u32(20)));

        arithmetic(b, out, ptx_add(b, n, ptx_cvt(b, PTX_U32, picked)));
        together(b, out, n);
        flow(b, out, n);
    }
}

// SPDX-License-Identifier: MIT
#include "kitchen_sink.h"

#include <stdio.h>

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

static void together(ptx_builder *b, ptx_ptr out, ptx_ptr in, ptx_val n)
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
    ptx_vec four = ptx_load_vec(b, ptx_at(b, in, old), ptx_u32(0), 4, .nc = true,
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

// Functions, one of which calls the other, and the names of data: `name` is in all of them.
static const char *named(const char *name, const char *what, char out[64])
{
    snprintf(out, 64, "%s_%s", name, what);
    return out;
}

static void functions(ptx_builder *b, const char *name)
{
    char inner[64], outer[64];

    ptx_func (b, named(name, "square", inner), .result = PTX_F16) {
        ptx_val x = ptx_param(b, PTX_F16, "x");
        ptx_if (b, ptx_param(b, PTX_PRED, "really"))
            ptx_return_value(b, ptx_mul(b, x, x));
        ptx_return_value(b, 0.5);
    }
    ptx_func (b, named(name, "store", outer)) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F16, "p", .meaning = "where to");
        ptx_ptr s = ptx_shared(b, PTX_F16, 8);
        ptx_store(b, s, 3, ptx_call(b, inner, ptx_load(b, p, 0), ptx_bool(true)));
        ptx_barrier(b);
        ptx_store(b, p, 0, ptx_load(b, s, 3));
    }
}

static void data(ptx_builder *b, const char *name, ptx_ptr out, ptx_val n)
{
    static const uint16_t table[] = { 1, 2, 3 };
    char first[64], second[64];
    ptx_ptr c = ptx_const(b, PTX_U16, named(name, "table", first), .values = table,
                          .bytes = sizeof table, .count = 5);
    ptx_ptr g = ptx_global(b, PTX_F64, named(name, "sums", second), .count = 4, .align = 64);
    ptx_val x = ptx_load(b, c, ptx_rem(b, n, 5));

    ptx_store(b, g, 3, ptx_cvt(b, PTX_F64, x));
    ptx_printf(b, "%s %d %g %5.2f%%\n", ptx_ptr_generic(b, ptx_string(b, name)), x,
               ptx_load(b, g, 2), 2.5);
    ptx_assert(b, ptx_ne(b, n, 12345), "n != 12345", .file = "sink.c", .line = 7);
    ptx_if (b, ptx_eq(b, n, 54321))
        ptx_trap_message(b, "n is 54321");
    ptx_val address = ptx_ptr_address(b, out);
    ptx_call(b, named(name, "store", first), address);
}

static void matrices(ptx_builder *b, ptx_ptr out)
{
    ptx_ptr s = ptx_shared(b, PTX_BF16, 512);
    ptx_val lane = ptx_laneid(b), row = ptx_mul(b, lane, 8);

    ptx_cp_async(b, ptx_at(b, s, row), ptx_ptr_cast(b, PTX_BF16, out), 16, .bypass = true);
    ptx_cp_async_commit(b);
    ptx_cp_async_wait(b, 0);
    ptx_cp_async_wait_all(b);
    ptx_barrier(b);
    ptx_fragment x = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, s, 16);
    ptx_fragment y = ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_BF16, 16, s, 16, .trans = true);
    ptx_fragment sum = ptx_mma(b, x, y, ptx_fragment_fill(b, ptx_f32(0))), across[2];
    ptx_matrix m = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 8, s, 16);
    ptx_matrix_load(b, ptx_matrix_at(b, m, 16), 0, 0, 2, across);
    sum = ptx_mma(b, ptx_fragment_to_a(b, PTX_BF16, 8, &sum), across[1], sum);
    ptx_vec v = ptx_ldmatrix(b, ptx_at(b, s, row), 2), words = ptx_fragment_words(b, sum);
    ptx_fragment_store(b, sum, out, 8);
    m = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, s, 16);
    ptx_matrix_store(b, m, 0, 0, 1, &sum);
    ptx_store_vec(b, ptx_ptr_cast(b, PTX_B32, out), 0, ptx_vec4(v.lane[0], v.lane[1], 1, 2));
    ptx_store(b, out, 5, ptx_math_pow(b, ptx_math_sin(b, words.lane[3]), 1.5));
}

static void text(ptx_builder *b, ptx_ptr out)
{
    ptx_val v = ptx_var(b, ptx_global_index(b, PTX_X)), pair[2];

    ptx_asm_many(b, pair, "add.cc.u32 %0, %2, %3; addc.u32 %1, 0, 0;",
                 .result = { PTX_U32, PTX_U32 }, .inout = { v }, .in = { ptx_u32(5) });
    ptx_store_vec(b, ptx_ptr_cast(b, PTX_U16, out), 0, ptx_vec8(1, 2, 3, 4, 5, 6, 7, 8));
    ptx_store(b, ptx_ptr_cast(b, PTX_U32, out), 1, ptx_add(b, pair[0], pair[1]));
    ptx_store(b, ptx_ptr_cast(b, PTX_B32, out), 2,
              ptx_bitcast(b, PTX_B32, ptx_cvt(b, PTX_TF32, ptx_load(b, out, 7))));
}

void kitchen_sink(ptx_builder *b, const char *name)
{
    functions(b, name);
    ptx_entry (b, name, .max_block = { 256 }, .min_blocks = 2) {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .length = "n", .meaning = "the results");
        ptx_ptr in = ptx_param_ptr(b, PTX_F32, "in", .readonly = true);
        ptx_val n = ptx_param(b, PTX_U32, "n", .meaning = "their number");
        ptx_ptr table = ptx_param_array(b, PTX_U16, "table", 20);
        ptx_val picked = ptx_load(b, table, ptx_rem(b, n, ptx_u32(20)));

        arithmetic(b, out, ptx_add(b, n, ptx_cvt(b, PTX_U32, picked)));
        together(b, out, in, n);
        matrices(b, out);
        data(b, name, out, n);
        text(b, out);
        flow(b, out, n);
    }
}

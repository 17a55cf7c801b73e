// SPDX-License-Identifier: MIT
// The kernels of test_calls.cc, and that of examples/classify_cpp.cc, in C.
#include "in_c.h"

void classify_in_c(ptx_builder *b)
{
    float table[128];

    for (int i = 0; i < 128; i++)
        table[i] = (float)(i * 37 % 64) / 64 - 0.5f;
    ptx_ptr weights = ptx_const(b, PTX_F32, "weights", .values = table, .bytes = sizeof table);
    ptx_ptr counts = ptx_global(b, PTX_U32, "counts", .count = 8);
    ptx_func (b, "squash", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x");
        ptx_return_value(b, ptx_div(b, x, ptx_add(b, 1, ptx_abs(b, x))));
    }
    ptx_entry (b, "classify", .block = { 32 }) {
        ptx_val tiles = ptx_param(b, PTX_U32, "tiles"), watched = ptx_param(b, PTX_U32, "watched");
        ptx_ptr features = ptx_param_ptr(b, PTX_F16, "features");
        ptx_ptr classes = ptx_param_ptr(b, PTX_U32, "classes");
        ptx_ptr marks = ptx_param_ptr(b, PTX_U32, "marks");
        ptx_ptr bias = ptx_param_array(b, PTX_F32, "bias", 8);
        ptx_ptr rows = ptx_shared_dynamic(b, PTX_F16), columns = ptx_at(b, rows, 256);
        ptx_ptr scores = ptx_shared(b, PTX_F32, 128);
        ptx_val lane = ptx_tid(b, PTX_X), first = ptx_mul(b, ptx_ctaid(b, PTX_X), 16);

        ptx_assert(b, ptx_lt(b, ptx_ctaid(b, PTX_X), tiles), "a block for each tile");
        ptx_ptr tile = ptx_at(b, features, ptx_mul(b, first, 16));
        ptx_for (b, i, lane, 256, 32)
            ptx_store(b, rows, i, ptx_load(b, tile, i));
        ptx_for (b, i, lane, 128, 32)
            ptx_store(b, columns, i, ptx_cvt(b, PTX_F16, ptx_load(b, weights, i)));
        ptx_barrier(b);

        ptx_fragment x = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, rows, 16);
        ptx_fragment y = ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_F16, 16, columns, 16);
        ptx_fragment zeros = ptx_fragment_fill(b, ptx_f32(0));
        ptx_fragment_store(b, ptx_mma(b, x, y, zeros), scores, 8);
        ptx_barrier(b);

        ptx_if (b, ptx_lt(b, lane, 16)) {
            ptx_val best = ptx_var(b, ptx_u32(0)), most = ptx_var(b, ptx_f32(-1));
            ptx_for (b, k, 0, ptx_u32(8), 1) {
                ptx_val score = ptx_load(b, scores, ptx_add(b, ptx_mul(b, lane, 8), k));
                score = ptx_call(b, "squash", ptx_add(b, score, ptx_load(b, bias, k)));
                ptx_if (b, ptx_gt(b, score, most)) {
                    ptx_set(b, most, score);
                    ptx_set(b, best, k);
                }
            }
            ptx_val scaled = ptx_mul(b, ptx_add(b, most, 1), 127.5);
            ptx_val mark = ptx_asm(b, "cvt.rni.sat.u8.f32 %0, %1;", .result = { PTX_U32 },
                                   .in = { scaled }, .pure = true);
            ptx_val sample = ptx_add(b, first, lane);
            ptx_store(b, classes, sample, best);
            ptx_store(b, marks, sample, mark);
            ptx_atomic_add(b, counts, best, 1);
            ptx_if (b, ptx_eq(b, sample, watched))
                ptx_printf(b, "sample %u: class %u, mark %u\n", sample, best, mark);
        }
    }
}

void module_in_c(ptx_builder *b)
{
    static const int primes[] = { 2, 3, 5, 7 };
    ptx_ptr table = ptx_const(b, PTX_S32, "primes", .values = primes, .bytes = sizeof primes);
    ptx_ptr more = ptx_global(b, PTX_S32, "more", .values = primes, .bytes = sizeof primes);
    ptx_ptr few =
        ptx_global(b, PTX_S32, "few", .values = primes, .bytes = 8, .count = 9, .align = 64);
    ptx_ptr hits = ptx_global(b, PTX_U64, "hits", .count = 3);

    ptx_asm_module(b, ".global .align 4 .u32 counter;", .declares = { "counter" });
    ptx_func (b, "sum", .result = PTX_S32) {
        ptx_val x = ptx_param(b, PTX_S32, "x"), y = ptx_param(b, PTX_S32, "y");
        ptx_if (b, ptx_lt(b, x, 0))
            ptx_return_value(b, y);
        ptx_return_value(b, ptx_add(b, x, y));
    }
    ptx_func (b, "hit") {
        ptx_atomic_add(b, hits, 1, 1);
    }
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr to = ptx_param_ptr(b, PTX_S32, "to");
        ptx_ptr scale = ptx_param_array(b, PTX_S32, "scale", 2);
        ptx_ptr shared = ptx_shared_dynamic(b, PTX_U32);
        ptx_ptr own = ptx_local(b, PTX_BF16, 4);
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_comment(b, "sums of %d%%", 100);
        ptx_val x = ptx_call(b, "sum", ptx_load(b, table, 1), ptx_mul(b, ptx_load(b, scale, 1), 3));
        ptx_val y = ptx_call(b, "sum", x, -4);
        ptx_call(b, "hit");
        ptx_store(b, to, 0, ptx_add(b, y, ptx_load(b, more, ptx_load(b, few, 2))));
        ptx_store(b, own, 1, ptx_bitcast(b, PTX_BF16, ptx_u16(7)));
        ptx_printf(b, "%d of %s at %p\n", ptx_add(b, y, 1),
                   ptx_ptr_generic(b, ptx_string(b, "all")), ptx_ptr_generic(b, shared));
        ptx_printf(b, "no values\n");
        ptx_assert(b, ptx_lt(b, tid, 32), "tid < 32");
        ptx_assert(b, ptx_lt(b, tid, 33), "tid < 33", .file = "a.c", .line = 3);
        ptx_if (b, ptx_gt(b, tid, 40))
            ptx_trap_message(b, "never");
        ptx_val sum = ptx_var(b, ptx_u32(1));
        ptx_asm(b, "add.u32 %0, %0, %1;", .inout = { sum }, .in = { tid }, .pure = true);
        ptx_val both[2];
        ptx_asm_many(b, both, "shfl.sync.idx.b32 %0|%1, %2, 0, 31, 0xffffffff;",
                     .result = { PTX_B32, PTX_PRED }, .in = { sum }, .reads = PTX_MEMORY_NONE,
                     .writes = PTX_MEMORY_NONE, .convergence = PTX_CONVERGENCE_WARP,
                     .divergence = PTX_DIVERGENCE_WARPS);
        ptx_asm(b, "st.shared.u32 [%1], %0;", .in = { both[0] }, .at = { ptx_at(b, shared, tid) },
                .isa = 60, .sm = 70, .reads = PTX_MEMORY_NONE, .writes = PTX_MEMORY_SHARED);
        ptx_ptr counter = ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "counter");
        ptx_atomic_add(b, counter, 0, 1);
    }
}

void threads_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), f = ptx_param(b, PTX_F32, "f");
        ptx_val t = ptx_add(b, ptx_laneid(b), ptx_add(b, ptx_warpid(b), ptx_ntid(b, PTX_Y)));
        ptx_add(b, ptx_cluster_ctarank(b), ptx_clusterid(b, PTX_X));
        ptx_add(b, ptx_clock64(b), ptx_globaltimer(b));
        ptx_add(b, ptx_shfl_up(b, t, 1), ptx_shfl_idx(b, t, 3));
        ptx_add(b, ptx_shfl_down(b, f, 1), ptx_shfl_bfly(b, ptx_mul(b, f, 2), 1));
        ptx_shfl(b, PTX_SHFL_DOWN, t, 1, .width = 16);
        ptx_val odd = ptx_eq(b, ptx_and(b, x, 1), 1);
        ptx_and(b, ptx_vote_all(b, odd, ptx_full_warp()), ptx_vote_any(b, odd, ptx_full_warp()));
        ptx_vote_uniform(b, odd, ptx_full_warp());
        ptx_popc(b, ptx_ballot(b, ptx_not(b, odd), ptx_full_warp()));
        ptx_add(b, ptx_match_any(b, t, ptx_u32(15)), ptx_match_all(b, t, ptx_full_warp()));
        ptx_add(b, ptx_redux_add(b, t, ptx_full_warp()), ptx_redux_max(b, t, ptx_full_warp()));
        ptx_val all = ptx_barrier_all(b, odd);
        ptx_val any = ptx_barrier_any(b, ptx_not(b, odd));
        ptx_val count = ptx_barrier_count(b, ptx_xor(b, all, any));
        ptx_barrier_named(b, 3, 64);
        ptx_barrier_warp(b, ptx_full_warp());
        ptx_assume_warp_uniform(b, f);
        ptx_activemask(b);
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
        ptx_nanosleep(b, ptx_add(b, count, 100));
        ptx_griddepcontrol_wait(b);
        ptx_griddepcontrol_launch_dependents(b);
        ptx_label end = ptx_label_create(b, "end");
        ptx_branch_if(b, ptx_gt(b, count, 3), end);
        ptx_label next = ptx_label_create(b, "next");
        ptx_branch(b, next);
        ptx_label_place(b, next);
        ptx_label_place(b, end);
        ptx_if (b, ptx_gt(b, f, 9))
            ptx_trap(b);
    }
}

void accesses_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), q = ptx_param_ptr(b, PTX_U32, "q");
        ptx_val i = ptx_tid(b, PTX_X);
        ptx_vec four = ptx_load_vec(b, p, ptx_mul(b, i, 4), 4, .cache = PTX_CACHE_STREAMING);
        ptx_val sum = ptx_add(b, four.lane[0], four.lane[3]);
        ptx_store_vec(b, p, ptx_mul(b, i, 4), four);
        ptx_store_vec(b, p, ptx_mul(b, i, 2), ptx_vec2(ptx_mul(b, sum, 2), 1),
                      .cache = PTX_CACHE_STREAMING);
        ptx_atomic(b, PTX_ATOMIC_max, q, ptx_add(b, i, 1), 7, .order = PTX_ORDER_ACQUIRE,
                   .scope = PTX_SCOPE_SYSTEM);
        ptx_atomic_cas(b, q, 0, ptx_u32(1), ptx_add(b, i, 2));
        ptx_val address = ptx_add(b, ptx_ptr_address(b, p), 16);
        ptx_ptr there = ptx_ptr_from(b, PTX_F64, PTX_SPACE_GLOBAL, address);
        ptx_store(b, there, 0, ptx_cvt(b, PTX_F64, sum));
        ptx_val packed = ptx_cvt_pack(b, PTX_F16X2, sum, ptx_mul(b, sum, 3));
        ptx_vec halves = ptx_unpack(b, PTX_F16, packed);
        ptx_val again = ptx_pack(b, PTX_F16X2, ptx_vec2(halves.lane[1], halves.lane[0]));
        ptx_store(b, q, 5, ptx_bitcast(b, PTX_U32, again));
        ptx_store(b, p, 6, ptx_op(b, PTX_OP_add, .x = sum, .y = ptx_f32(1), .round = PTX_ROUND_RZ));
        ptx_val k = ptx_load(b, q, i);
        ptx_store(b, q, 7, ptx_lop3(b, k, i, ptx_shf_l(b, k, i, 3), 0x96));
        ptx_store(b, q, 8, ptx_bfi(b, k, i, 4, 8));
        ptx_store(b, p, 9, ptx_math_pow(b, sum, ptx_math_exp(b, ptx_neg(b, sum))));
        ptx_store(b, p, 10, ptx_tanh(b, ptx_rsqrt_approx(b, ptx_div_full(b, sum, 3))));
    }
}

void matrices_in_c(ptx_builder *b)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr from = ptx_param_ptr(b, PTX_BF16, "from"), to = ptx_param_ptr(b, PTX_F32, "to");
        ptx_ptr tile = ptx_shared(b, PTX_BF16, 1024);
        ptx_val lane = ptx_laneid(b);
        ptx_cp_async(b, ptx_at(b, tile, ptx_mul(b, lane, 8)), from, 16, .bypass = true);
        ptx_cp_async_commit(b);
        ptx_cp_async_wait(b, 0);
        ptx_cp_async_wait_all(b);
        ptx_barrier(b);
        ptx_fragment sum = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));
        ptx_for (b, i, 0, ptx_u32(64), 16) {
            ptx_fragment x = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, tile, 16);
            ptx_ptr at = ptx_at(b, tile, i);
            ptx_fragment y =
                ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_BF16, 16, at, ptx_u32(64), .trans = true);
            ptx_fragment_set(b, sum, ptx_mma(b, x, y, sum));
        }
        ptx_fragment_store(b, sum, to, 8);
        ptx_vec words = ptx_ldmatrix(b, ptx_at(b, tile, ptx_mul(b, lane, 8)), 4, .trans = true);
        ptx_fragment x = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, words);
        ptx_vec again = ptx_fragment_words(b, x);
        ptx_stmatrix(b, ptx_at(b, tile, ptx_mul(b, lane, 8)), again);
        ptx_matrix down = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, tile, 16);
        ptx_matrix across =
            ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, tile, 16, .trans = true);
        ptx_fragment y[2], s[2];
        ptx_matrix_load(b, ptx_matrix_at(b, down, ptx_mul(b, ptx_ctaid(b, PTX_X), 8)), 0, 0, 1, &x);
        ptx_matrix_load(b, across, 0, 0, 2, y);
        for (int k = 0; k < 2; k++)
            s[k] = ptx_mma(b, x, y[k], sum);
        x = ptx_fragment_to_a(b, PTX_BF16, 16, s);
        ptx_fragment_store(b, ptx_mma(b, x, y[1], sum), to, 8);
        x = ptx_fragment_to_a(b, PTX_BF16, 8, s);
        ptx_matrix eights = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 8, tile, 16);
        ptx_matrix_load(b, eights, 0, 0, 1, y);
        ptx_fragment_store(b, ptx_mma(b, x, y[0], sum), to, 8);
        ptx_matrix result = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, tile, 16);
        ptx_matrix_store(b, result, 0, 0, 2, s);
        ptx_matrix_store(b, result, 16, 8, 1, &s[1]);
    }
}

void results_in_c(ptx_builder *b)
{
    ptx_func (b, "divide", .results = { PTX_U32, PTX_U32 }) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), y = ptx_param(b, PTX_U32, "y");
        ptx_return_values(b, ptx_div(b, x, y), ptx_rem(b, x, y));
    }
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p"), q = ptx_param_ptr(b, PTX_F32, "q");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_prefetch(b, p, ptx_add(b, tid, 1), PTX_PREFETCH_L2);
        ptx_vec d = ptx_call_many(b, "divide", tid, 10);
        ptx_store(b, p, tid, ptx_add(b, d.lane[0], d.lane[1]));
        ptx_val x = ptx_load(b, q, tid);
        ptx_vec old = ptx_atomic_vec(b, PTX_ATOMIC_add, q, 4, ptx_vec2(x, 1));
        ptx_store(b, q, 0, old.lane[1]);
        ptx_barrier_arrive(b, 1, 64);
    }
}

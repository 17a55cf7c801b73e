// SPDX-License-Identifier: MIT
// Checks that need the whole entry: divergent barriers, values that are not defined on every path,
// unused parameters.
#include "builder_fixture.h"

// Several blocks in one line, as in a macro, use one name for their C variables.
#pragma GCC diagnostic ignored "-Wshadow"

// `tid` differs between threads; `block` and `n` do not. `var` starts uniform.
#define BODY(...)                                                                                  \
    ptx_builder *b = builder_at(80);                                                               \
    ptx_entry (b, "k") {                                                                           \
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");                                            \
        ptx_val n = ptx_param(b, PTX_U32, "n");                                                    \
        ptx_val tid = ptx_tid(b, PTX_X), block = ptx_ctaid(b, PTX_X);                              \
        ptx_ptr s = ptx_shared(b, PTX_U32, 4);                                                     \
        ptx_val mine = ptx_eq(b, tid, ptx_u32(0)), ours = ptx_eq(b, block, ptx_u32(0));            \
        ptx_val var = ptx_var(b, n), zero = ptx_u32(0), one = ptx_u32(1);                          \
        ptx_store(b, out, tid, var);                                                               \
        (void)s, (void)mine, (void)ours, (void)zero, (void)one;                                    \
        __VA_ARGS__                                                                                \
    }

#define REFUSED(words, ...)                                                                        \
    do {                                                                                           \
        BODY(__VA_ARGS__)                                                                          \
        EXPECT_ERROR(b, "k: ptx_", words);                                                         \
    } while (0)

#define REFUSED_LANES(...)                                                                         \
    do {                                                                                           \
        BODY(__VA_ARGS__)                                                                          \
        EXPECT_ERROR(b, "with the full mask is in code that only some lanes");                     \
    } while (0)

#define ACCEPTED(...)                                                                              \
    do {                                                                                           \
        BODY(__VA_ARGS__)                                                                          \
        EXPECT_LINES(b, "ret;");                                                                   \
    } while (0)

TEST(divergent_barriers_are_refused)
{
    REFUSED("barrier: barrier 1 of the entry is in code that only some threads",
            ptx_if (b, mine) ptx_barrier(b););
    REFUSED(
        "the branch to $if_1_else", ptx_if (b, mine) {} ptx_else (b) ptx_barrier(b););
    REFUSED("barrier 2 of the entry", ptx_barrier(b); ptx_if (b, mine) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, mine) ptx_barrier_all(b, mine););
    REFUSED("barrier 1", ptx_if (b, mine) ptx_barrier_named(b, 3, 0););
    // Divergent values: loaded from an address that differs, from local memory, by an atomic, or
    // with an order.
    REFUSED("barrier 1", ptx_val x = ptx_load(b, out, tid);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_load(b, ptx_local(b, PTX_U32, 1), zero);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_atomic_add(b, out, zero, one);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_load(b, out, zero, .order = PTX_ORDER_VOLATILE);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_shfl_down(b, n, one);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, ptx_vote_any(b, mine, ptx_full_warp())) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, ptx_eq(b, ptx_laneid(b), zero)) ptx_barrier(b););
}

TEST(variables_carry_divergence)
{
    REFUSED("the branch to $if_2_end", ptx_if (b, mine) ptx_set(b, var, zero);
            ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_set(b, var, tid); ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    // Divergent because of the next iteration of a loop.
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, var, zero))
                ptx_barrier(b);
            ptx_set(b, var, tid);
        });
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, var, zero))
                ptx_barrier(b);
            ptx_if (b, mine)
                ptx_set(b, var, one);
        });
}

TEST(divergence_goes_round_every_loop)
{
    // Set after the inner loop; the outer loop comes back to it.
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_for (b, j, zero, n, one)
                ptx_if (b, ptx_eq(b, var, zero))
                    ptx_barrier(b);
            ptx_set(b, var, tid);
        });
    // Set in an inner loop, and read before that loop.
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, var, zero))
                ptx_barrier(b);
            ptx_for (b, j, zero, n, one)
                ptx_set(b, var, ptx_add(b, var, tid));
        });
    // Passed from one variable to the next, one per iteration.
    REFUSED(
        "barrier 1", ptx_val second = ptx_var(b, n); ptx_val third = ptx_var(b, n);
        ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, third, zero))
                ptx_barrier(b);
            ptx_set(b, third, second);
            ptx_set(b, second, var);
            ptx_set(b, var, tid);
        });
    // Two raw loops that overlap: both lead back.
    REFUSED("barrier 1", ptx_label far = ptx_label_create(b, "far");
            ptx_label near = ptx_label_create(b, "near"); ptx_label_place(b, far);
            ptx_val c = ptx_eq(b, var, zero); ptx_if (b, c) ptx_barrier(b);
            ptx_label_place(b, near); ptx_branch_if(b, ours, far); ptx_set(b, var, tid);
            ptx_branch_if(b, ours, near););
    // No branch leads back to the code before.
    ACCEPTED(ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b); ptx_set(b, var, tid););
    ACCEPTED(ptx_for (b, i, zero, n, one) ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b);
             ptx_for (b, i, zero, n, one) ptx_set(b, var, tid););
}

TEST(divergent_loops_and_exits_are_seen)
{
    REFUSED("the branch to $for_1_end", ptx_for (b, i, tid, n, one) ptx_barrier(b););
    REFUSED("barrier 1", ptx_for (b, i, zero, n, tid) ptx_barrier(b););
    REFUSED(
        "barrier 1", ptx_while (b, ptx_lt(b, tid, var)) {
            ptx_set(b, var, ptx_sub(b, var, one));
            ptx_barrier(b);
        });
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_barrier(b);
            ptx_break_if(b, mine);
        });
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_if (b, mine)
                ptx_break(b);
            ptx_barrier(b);
        });
    REFUSED("a return", ptx_return_if(b, mine); ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, mine) ptx_return(b); ptx_barrier(b););
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_barrier(b);
            ptx_return_if(b, mine);
        });
    // After a loop that threads leave in different iterations, its counter differs between threads.
    REFUSED(
        "barrier 1", ptx_loop (b) {
            ptx_set(b, var, ptx_add(b, var, one));
            ptx_break_if(b, ptx_gt(b, var, tid));
        } ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    REFUSED("the branch to $over_1", ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, mine, over); ptx_barrier(b); ptx_label_place(b, over););
    REFUSED("the branch to $again_1", ptx_label again = ptx_label_create(b, "again");
            ptx_label_place(b, again); ptx_barrier(b); ptx_branch_if(b, mine, again););
    // A value from a divergent raw loop is used after the loop.
    REFUSED("barrier 1", ptx_label again = ptx_label_create(b, "again"); ptx_label_place(b, again);
            ptx_val x = ptx_load(b, out, zero); ptx_branch_if(b, mine, again);
            ptx_if (b, ptx_eq(b, x, zero)) ptx_barrier(b););
}

TEST(uniform_barriers_are_accepted)
{
    ACCEPTED(ptx_if (b, ours) ptx_barrier(b); ptx_else (b) ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, zero, n, one) ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, block, n, ptx_nctaid(b, PTX_X)) {
        ptx_if (b, mine)
            ptx_store(b, s, zero, i);
        ptx_barrier(b);
        ptx_break_if(b, ptx_eq(b, i, one));
    });
    ACCEPTED(ptx_return_if(b, ours); ptx_barrier(b););
    // After the block, all threads are together again.
    ACCEPTED(ptx_if (b, mine) ptx_store(b, out, zero, one); ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, tid, n, one) ptx_store(b, out, i, one); ptx_barrier(b););
    // All threads read the flag of one thread, after a barrier.
    ACCEPTED(ptx_if (b, mine) ptx_store(b, s, zero, ptx_atomic_add(b, out, zero, one));
             ptx_barrier(b); ptx_if (b, ptx_eq(b, ptx_load(b, s, zero), one)) ptx_barrier(b););
    // A reducing barrier gives all threads the same result.
    ACCEPTED(ptx_if (b, ptx_barrier_any(b, mine)) ptx_barrier(b););
    ACCEPTED(ptx_val c = ptx_barrier_count(b, mine); ptx_for (b, i, zero, c, one) ptx_barrier(b););
    // Barriers for a number of threads, or for some lanes, are allowed everywhere.
    ACCEPTED(ptx_if (b, mine) ptx_barrier_named(b, 1, 32););
    ACCEPTED(ptx_if (b, mine) ptx_barrier_warp(b, one););
    // A variable that is set only in uniform code.
    ACCEPTED(ptx_if (b, ours) ptx_set(b, var, zero);
             ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
}

// Every instruction that takes a mask of lanes.
static void with_mask(ptx_builder *b, int which, ptx_val n, ptx_val pred, ptx_val mask)
{
    switch (which) {
    case 0:
        ptx_shfl(b, PTX_SHFL_BFLY, n, ptx_u32(1), .mask = mask);
        break;
    case 1:
        ptx_vote_all(b, pred, mask);
        break;
    case 2:
        ptx_vote_any(b, pred, mask);
        break;
    case 3:
        ptx_vote_uniform(b, pred, mask);
        break;
    case 4:
        ptx_ballot(b, pred, mask);
        break;
    case 5:
        ptx_match_any(b, n, mask);
        break;
    case 6:
        ptx_match_all(b, n, mask);
        break;
    case 7:
        ptx_redux_add(b, n, mask);
        break;
    default:
        ptx_barrier_warp(b, mask);
    }
}

TEST(full_masks_need_the_whole_warp)
{
    static const char *const names[] = { "shfl.sync.bfly", "vote.sync.all", "vote.sync.any",
                                         "vote.sync.uni",  "vote.sync.bal", "match.any.sync",
                                         "match.all.sync", "redux.sync",    "bar.warp.sync" };
    const ptx_val full = ptx_full_warp();

    for (int k = 0; k < 9; k++) {
        ACCEPTED(with_mask(b, k, n, mine, full););
        ACCEPTED(ptx_if (b, ours) with_mask(b, k, n, mine, full););
        ACCEPTED(ptx_if (b, mine) with_mask(b, k, n, mine, one););
        ACCEPTED(ptx_val some = ptx_ballot(b, mine, full);
                 ptx_if (b, mine) with_mask(b, k, n, mine, some););
        ACCEPTED(ptx_if (b, ptx_lt(b, tid, ptx_u32(64))) with_mask(b, k, n, mine, full););
        BODY(ptx_if (b, mine) with_mask(b, k, n, mine, full););
        EXPECT_ERROR(b, names[k], "with the full mask is in code that only some lanes of a warp");
        REFUSED("the mask is 0", with_mask(b, k, n, mine, zero););
    }
    REFUSED_LANES(ptx_return_if(b, mine); ptx_ballot(b, mine, full););
    REFUSED_LANES(ptx_for (b, i, tid, n, one) ptx_shfl_down(b, n, one););
    REFUSED_LANES(ptx_while (b, ptx_lt(b, var, tid)) {
        ptx_shfl_down(b, n, one);
        ptx_set(b, var, ptx_add(b, var, one));
    });
    REFUSED_LANES(ptx_if (b, mine) {} ptx_else (b) ptx_shfl_down(b, n, one););
    REFUSED_LANES(ptx_if (b, ptx_eq(b, ptx_shfl_down(b, n, one), zero)) ptx_shfl_down(b, n, one););
    REFUSED_LANES(ptx_val old = ptx_atomic_add(b, out, zero, one);
                  ptx_if (b, ptx_eq(b, old, zero)) ptx_shfl_down(b, n, one););
    // A shuffle of 64 bits is two shuffles.
    REFUSED_LANES(ptx_val x = ptx_cvt(b, PTX_F64, n); ptx_if (b, mine) ptx_shfl_down(b, x, one););
    // After the block, all lanes are together again.
    ACCEPTED(ptx_if (b, mine) ptx_store(b, out, zero, one); ptx_shfl_down(b, n, one););
    // Set in code that only some lanes reach.
    REFUSED_LANES(ptx_if (b, mine) ptx_set(b, var, zero);
                  ptx_if (b, ptx_eq(b, var, zero)) ptx_shfl_down(b, n, one););
    // The same with raw branches.
    REFUSED_LANES(ptx_label over = ptx_label_create(b, "over"); ptx_branch_if(b, mine, over);
                  ptx_shfl_down(b, n, one); ptx_label_place(b, over););
}

#define WHOLE(condition) ACCEPTED(ptx_if (b, condition) ptx_shfl_down(b, n, one);)
#define SPLIT(condition) REFUSED_LANES(ptx_if (b, condition) ptx_shfl_down(b, n, one);)

TEST(conditions_for_whole_warps_are_seen)
{
    WHOLE(ptx_lt(b, tid, ptx_u32(32)));
    WHOLE(ptx_ge(b, tid, ptx_u32(96)));
    WHOLE(ptx_le(b, tid, ptx_u32(31)));
    WHOLE(ptx_gt(b, tid, ptx_u32(63)));
    WHOLE(ptx_gt(b, ptx_u32(64), tid));
    WHOLE(ptx_le(b, ptx_u32(64), tid));
    WHOLE(ptx_lt(b, ptx_u32(31), tid));
    SPLIT(ptx_lt(b, tid, ptx_u32(31)));
    SPLIT(ptx_lt(b, tid, ptx_u32(16)));
    SPLIT(ptx_le(b, tid, ptx_u32(32)));
    SPLIT(ptx_gt(b, tid, ptx_u32(64)));
    SPLIT(ptx_gt(b, ptx_u32(33), tid));
    SPLIT(ptx_lt(b, ptx_u32(32), tid));
    SPLIT(ptx_eq(b, tid, ptx_u32(32)));
    SPLIT(ptx_lt(b, tid, n));
    WHOLE(ptx_eq(b, ptx_shr(b, tid, ptx_u32(5)), zero));
    WHOLE(ptx_ne(b, ptx_shr(b, tid, ptx_u32(7)), n));
    SPLIT(ptx_eq(b, ptx_shr(b, tid, ptx_u32(4)), zero));
    WHOLE(ptx_eq(b, ptx_div(b, tid, ptx_u32(32)), one));
    WHOLE(ptx_lt(b, ptx_div(b, tid, ptx_u32(96)), n));
    SPLIT(ptx_eq(b, ptx_div(b, tid, ptx_u32(48)), one));
    SPLIT(ptx_eq(b, ptx_rem(b, tid, ptx_u32(32)), one));
    WHOLE(ptx_lt(b, ptx_rem(b, tid, ptx_u32(64)), ptx_u32(32)));
    WHOLE(ptx_eq(b, ptx_and(b, tid, ptx_u32(32)), zero));
    WHOLE(ptx_eq(b, ptx_and(b, tid, ptx_u32(0xffffffe0)), zero));
    SPLIT(ptx_eq(b, ptx_and(b, tid, ptx_u32(31)), zero));
    SPLIT(ptx_eq(b, ptx_laneid(b), zero));
    WHOLE(ptx_eq(b, ptx_bfe(b, tid, ptx_u32(5), ptx_u32(3)), one));
    SPLIT(ptx_eq(b, ptx_bfe(b, tid, ptx_u32(4), ptx_u32(3)), one));
    // Indices: the block is a multiple of 32 threads; in bytes; in 64 bits.
    WHOLE(ptx_lt(b, ptx_mad(b, block, ptx_u32(256), tid), ptx_u32(1024)));
    WHOLE(ptx_lt(b, ptx_mad(b, block, ptx_ntid(b, PTX_X), tid), ptx_u32(1024)));
    SPLIT(ptx_lt(b, ptx_mad(b, block, ptx_u32(100), tid), ptx_u32(1024)));
    SPLIT(ptx_lt(b, ptx_mad(b, block, ptx_u32(256), tid), n));
    WHOLE(ptx_lt(b, ptx_mul(b, tid, ptx_u32(4)), ptx_u32(128)));
    SPLIT(ptx_lt(b, ptx_mul(b, tid, ptx_u32(4)), ptx_u32(64)));
    SPLIT(ptx_lt(b, ptx_mul(b, tid, ptx_u32(3)), ptx_u32(96)));
    WHOLE(ptx_lt(b, ptx_shl(b, tid, ptx_u32(2)), ptx_u32(128)));
    WHOLE(ptx_lt(b, ptx_mul_wide(b, tid, ptx_u32(8)), ptx_u64(256)));
    WHOLE(ptx_lt(b, ptx_cvt(b, PTX_U64, tid), ptx_u64(64)));
    WHOLE(ptx_lt(b, ptx_bitcast(b, PTX_S32, tid), ptx_s32(64)));
    WHOLE(ptx_lt(b, ptx_sub(b, tid, ptx_u32(32)), ptx_u32(64)));
    SPLIT(ptx_lt(b, ptx_sub(b, ptx_u32(64), tid), ptx_u32(32)));
    SPLIT(ptx_lt(b, ptx_add(b, tid, one), ptx_u32(64)));
    SPLIT(ptx_lt(b, ptx_add(b, tid, tid), ptx_u32(64)));
    // Values that are the same in all lanes of a warp.
    WHOLE(ptx_vote_any(b, mine, ptx_full_warp()));
    WHOLE(ptx_eq(b, ptx_ballot(b, mine, ptx_full_warp()), zero));
    WHOLE(ptx_eq(b, ptx_redux_max(b, tid, ptx_full_warp()), zero));
    WHOLE(ptx_eq(b, ptx_shfl_idx(b, tid, one), zero));
    SPLIT(ptx_eq(b, ptx_shfl_idx(b, tid, tid), zero));
    SPLIT(ptx_eq(b, ptx_shfl(b, PTX_SHFL_IDX, tid, one, .width = 16), zero));
    SPLIT(ptx_eq(b, ptx_match_any(b, tid, ptx_full_warp()), zero));
    // Combined, and selected.
    WHOLE(ptx_and(b, ours, ptx_lt(b, tid, ptx_u32(32))));
    SPLIT(ptx_or(b, ours, mine));
    WHOLE(ptx_eq(b, ptx_select(b, ours, ptx_u32(1), n), zero));
    SPLIT(ptx_eq(b, ptx_select(b, mine, ptx_u32(1), n), zero));
    // The bits of 1.0f end in many zeros; those of its sums do not.
    SPLIT(ptx_lt(b, tid, ptx_cvt(b, PTX_U32, ptx_add(b, ptx_f32(32), ptx_f32(1)))));
    // The halves of a value do not have the properties of the whole value.
    SPLIT(ptx_eq(b, ptx_unpack(b, PTX_U32, ptx_cvt(b, PTX_U64, tid)).lane[0], zero));
}

// A sign that differs between lanes is copied into all bits above it.
TEST(signs_are_copied_upward)
{
#define TOP(type, by) ptx_cvt(b, type, ptx_shl(b, tid, ptx_u32(by)))
#define BITS(x)       ptx_bitcast(b, PTX_U32, x)
#define UPPER(x)      ptx_eq(b, ptx_shr(b, x, ptx_u32(20)), zero)
    const ptx_val sixteen = ptx_s16(16);

    SPLIT(UPPER(BITS(ptx_cvt(b, PTX_S32, TOP(PTX_S8, 3)))));
    WHOLE(UPPER(BITS(ptx_cvt(b, PTX_S32, TOP(PTX_S8, 2)))));
    WHOLE(UPPER(ptx_cvt(b, PTX_U32, TOP(PTX_U8, 3))));
    SPLIT(UPPER(BITS(ptx_cvt(b, PTX_S32, TOP(PTX_S16, 11)))));
    WHOLE(UPPER(ptx_cvt(b, PTX_U32, TOP(PTX_U16, 11))));
    SPLIT(UPPER(BITS(ptx_mul_wide(b, TOP(PTX_S16, 11), sixteen))));
    WHOLE(UPPER(BITS(ptx_mul_wide(b, TOP(PTX_S16, 3), sixteen))));
    SPLIT(ptx_lt(b, TOP(PTX_S16, 11), 0));
    WHOLE(ptx_lt(b, TOP(PTX_S16, 10), 0));
    SPLIT(ptx_lt(b, ptx_cvt(b, PTX_S16, TOP(PTX_S8, 3)), 0));
    SPLIT(ptx_eq(b, ptx_shr(b, TOP(PTX_S16, 11), ptx_u32(15)), 0));
    SPLIT(ptx_eq(b, ptx_shr(b, ptx_shr(b, TOP(PTX_S32, 27), ptx_u32(20)), ptx_u32(12)), 0));
    SPLIT(ptx_eq(b, ptx_bfe(b, TOP(PTX_S32, 0), ptx_u32(0), ptx_u32(5)), 0));
    SPLIT(ptx_lt(b, TOP(PTX_S32, 27), 0));
#undef TOP
#undef BITS
#undef UPPER
}

TEST(loops_of_whole_warps_are_seen)
{
    ACCEPTED(ptx_for (b, i, ptx_shr(b, tid, ptx_u32(5)), n, ptx_u32(8)) ptx_shfl_down(b, n, one););
    ACCEPTED(ptx_for (b, i, tid, ptx_u32(1024), ptx_u32(256)) ptx_shfl_down(b, n, one););
    REFUSED_LANES(ptx_for (b, i, tid, ptx_u32(1000), ptx_u32(256)) ptx_shfl_down(b, n, one););
    REFUSED_LANES(ptx_for (b, i, tid, ptx_u32(1024), ptx_u32(16)) ptx_shfl_down(b, n, one););
    // The value that a variable gets in the loop reaches the loop's head.
    REFUSED_LANES(ptx_for (b, i, zero, n, one) {
        ptx_if (b, ptx_lt(b, var, ptx_u32(64)))
            ptx_shfl_down(b, n, one);
        ptx_set(b, var, ptx_add(b, tid, one));
    });
    ACCEPTED(ptx_set(b, var, zero); ptx_for (b, i, zero, n, one) {
        ptx_if (b, ptx_lt(b, var, ptx_u32(64)))
            ptx_shfl_down(b, n, one);
        ptx_set(b, var, tid);
    });
}

// Blocks of a known shape: the rows count.
TEST(shapes_of_blocks_count)
{
    static const struct {
        uint32_t block[3];
        bool by_x, by_y; // whole warps have tid.x < 32 and tid.y == 0
    } rows[] = { { { 0 }, true, true },        { { 100 }, true, true },
                 { { 64, 4 }, true, true },    { { 48, 2 }, false, false },
                 { { 16, 16 }, false, false }, { { 8, 1, 8 }, false, false } };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int y = 0; y < 2; y++) {
            ptx_builder *b = builder_at(80);
            const uint32_t *shape = rows[k].block;
            ptx_entry (b, "k", .block = { shape[0], shape[1], shape[2] }) {
                ptx_val id = ptx_tid(b, y ? PTX_Y : PTX_X);
                ptx_if (b, y ? ptx_eq(b, id, ptx_u32(0)) : ptx_lt(b, id, ptx_u32(32)))
                    ptx_shfl_down(b, id, ptx_u32(1));
            }
            if (y ? rows[k].by_y : rows[k].by_x)
                EXPECT_LINES(b, "shfl.sync");
            else
                EXPECT_ERROR(b, "k: shfl.sync.down.b32 with the full mask");
        }
}

TEST(what_the_caller_vouches_for_is_believed)
{
    ACCEPTED(ptx_val x = ptx_load(b, out, tid); ptx_assume_warp_uniform(b, x);
             ptx_if (b, ptx_eq(b, x, zero)) ptx_shfl_down(b, n, one););
    ACCEPTED(ptx_assume_warp_uniform(b, var); ptx_if (b, mine) ptx_set(b, var, zero);
             ptx_if (b, ptx_eq(b, var, zero)) ptx_shfl_down(b, n, one););
    // Uniform in a warp: the warps of a block may still differ.
    REFUSED("barrier 1", ptx_assume_warp_uniform(b, tid);
            ptx_if (b, ptx_eq(b, tid, zero)) ptx_barrier(b););
    ACCEPTED(ptx_assume_warp_uniform(b, one););
    REFUSED("assume_warp_uniform: x was never set", ptx_assume_warp_uniform(b, (ptx_val) { 0 }););
}

TEST(values_stay_in_their_block)
{
    ptx_val kept = { 0 };

    REFUSED("add: x was made inside a block that is closed",
            ptx_if (b, mine) kept = ptx_add(b, n, one);
            ptx_add(b, kept, one););
    REFUSED("store: the value was made inside", ptx_if (b, mine) kept = ptx_add(b, n, one);
            ptx_else (b) ptx_store(b, out, zero, kept););
    REFUSED("set: the variable was made inside", ptx_for (b, i, zero, n, one) kept = ptx_var(b, n);
            ptx_set(b, kept, n););
    REFUSED(
        "make a ptx_var before the block", ptx_loop (b) {
            kept = ptx_eq(b, n, zero);
            ptx_break(b);
        } ptx_return_if(b, kept););
    REFUSED("load: the pointer was made inside", ptx_ptr p = out;
            ptx_if (b, mine) p = ptx_at(b, out, tid); ptx_load(b, p, zero););
    // The addresses of arrays and parameters are computed at the start of the entry.
    ACCEPTED(ptx_ptr t = s; ptx_val x = n; ptx_if (b, mine) {
        t = ptx_shared(b, PTX_U32, 4);
        x = ptx_param(b, PTX_U32, "x");
        ptx_store(b, t, tid, one);
    } ptx_store(b, t, tid, x););
}

TEST(raw_branches_do_not_skip_definitions)
{
    REFUSED("branch: an operand of 'st.global.u32' is not defined on every path",
            ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, mine, over); ptx_val x = ptx_add(b, n, one); ptx_label_place(b, over);
            ptx_store(b, out, zero, x););
    // The undefined value is a condition.
    REFUSED("an operand of 'bra'", ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, ours, over); ptx_val x = ptx_eq(b, n, one); ptx_label_place(b, over);
            ptx_if (b, x) ptx_store(b, out, zero, one););
    // Undefined only on the way back into a loop.
    REFUSED("an operand of 'add.u32'", ptx_label head = ptx_label_create(b, "head");
            ptx_label middle = ptx_label_create(b, "middle"); ptx_branch_if(b, ours, middle);
            ptx_label_place(b, head); ptx_val x = ptx_add(b, n, one); ptx_label_place(b, middle);
            ptx_add(b, x, one); ptx_branch_if(b, ours, head););
    // Defined on both ways to the label, or used in code that cannot be reached.
    ACCEPTED(ptx_label over = ptx_label_create(b, "over"); ptx_val x = ptx_var(b, zero);
             ptx_branch_if(b, mine, over); ptx_set(b, x, one); ptx_label_place(b, over);
             ptx_store(b, out, zero, x););
    ACCEPTED(ptx_label again = ptx_label_create(b, "again"); ptx_label_place(b, again);
             ptx_val x = ptx_add(b, n, one); ptx_store(b, out, zero, x);
             ptx_branch_if(b, ours, again); ptx_store(b, out, zero, x););
    ACCEPTED(ptx_label over = ptx_label_create(b, "over"); ptx_branch(b, over);
             ptx_val x = ptx_add(b, n, one); ptx_store(b, out, zero, x); ptx_label_place(b, over););
}

TEST(parameters_are_used)
{
    REFUSED("param: parameter 'idle' is never used", ptx_param(b, PTX_U32, "idle"););
    REFUSED("param_ptr: parameter 'idle' is never used", ptx_param_ptr(b, PTX_U32, "idle"););
    REFUSED("param_array: parameter 'idle' is never", ptx_param_array(b, PTX_U32, "idle", 4););
    ACCEPTED(ptx_load(b, ptx_param_array(b, PTX_U32, "a", 4), zero););
    ACCEPTED(ptx_return_if(b, ptx_eq(b, ptx_param(b, PTX_U32, "x"), zero)););
}

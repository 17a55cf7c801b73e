// SPDX-License-Identifier: MIT
// What only the finished list of an entry shows: barriers that not all threads reach, values that
// are not defined on every path, parameters that nobody uses.
#include "builder_fixture.h"

// Blocks on one line, as within a macro, have one name for their C variables.
#pragma GCC diagnostic ignored "-Wshadow"

// `tid` differs between threads, `block` and `n` do not; `var` starts uniform.
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

#define ACCEPTED(...)                                                                              \
    do {                                                                                           \
        BODY(__VA_ARGS__)                                                                          \
        EXPECT_LINES(b, "ret;");                                                                   \
    } while (0)

static void divergent_barriers_are_refused(void **state)
{
    (void)state;
    REFUSED("barrier: barrier 1 of the entry stands where only some",
            ptx_if (b, mine) ptx_barrier(b););
    REFUSED(
        "the branch to $if_1_else", ptx_if (b, mine) {} ptx_else (b) ptx_barrier(b););
    REFUSED("barrier 2 of the entry", ptx_barrier(b); ptx_if (b, mine) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, mine) ptx_barrier_all(b, mine););
    REFUSED("barrier 1", ptx_if (b, mine) ptx_barrier_named(b, 3, 0););
    // Loaded at an address that differs; from local memory; by an atomic; with an order.
    REFUSED("barrier 1", ptx_val x = ptx_load(b, out, tid);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_load(b, ptx_local(b, PTX_U32, 1), zero);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_atomic_add(b, out, zero, one);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_load(b, out, zero, .order = PTX_VOLATILE);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_val x = ptx_shfl_down(b, n, one);
            ptx_if (b, ptx_eq(b, x, n)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, ptx_vote_any(b, mine, ptx_full_warp())) ptx_barrier(b););
    REFUSED("barrier 1", ptx_if (b, ptx_eq(b, ptx_laneid(b), zero)) ptx_barrier(b););
}

static void variables_carry_divergence(void **state)
{
    (void)state;
    REFUSED("the branch to $if_2_end", ptx_if (b, mine) ptx_set(b, var, zero);
            ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    REFUSED("barrier 1", ptx_set(b, var, tid); ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    // Through the next turn of a loop.
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

static void divergence_goes_round_every_loop(void **state)
{
    (void)state;
    // Set behind the inner loop, which the outer one comes back to.
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_for (b, j, zero, n, one)
                ptx_if (b, ptx_eq(b, var, zero))
                    ptx_barrier(b);
            ptx_set(b, var, tid);
        });
    // Set in an inner loop, and read before it.
    REFUSED(
        "barrier 1", ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, var, zero))
                ptx_barrier(b);
            ptx_for (b, j, zero, n, one)
                ptx_set(b, var, ptx_add(b, var, tid));
        });
    // From one variable to the next, a turn each.
    REFUSED(
        "barrier 1", ptx_val second = ptx_var(b, n); ptx_val third = ptx_var(b, n);
        ptx_for (b, i, zero, n, one) {
            ptx_if (b, ptx_eq(b, third, zero))
                ptx_barrier(b);
            ptx_set(b, third, second);
            ptx_set(b, second, var);
            ptx_set(b, var, tid);
        });
    // Two raw loops that overlap: back through both.
    REFUSED("barrier 1", ptx_label far = ptx_label_create(b, "far");
            ptx_label near = ptx_label_create(b, "near"); ptx_label_place(b, far);
            ptx_val c = ptx_eq(b, var, zero); ptx_if (b, c) ptx_barrier(b);
            ptx_label_place(b, near); ptx_branch_if(b, ours, far); ptx_set(b, var, tid);
            ptx_branch_if(b, ours, near););
    // Nothing comes back to what was before.
    ACCEPTED(ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b); ptx_set(b, var, tid););
    ACCEPTED(ptx_for (b, i, zero, n, one) ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b);
             ptx_for (b, i, zero, n, one) ptx_set(b, var, tid););
}

static void divergent_loops_and_exits_are_seen(void **state)
{
    (void)state;
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
    // The counter differs after a loop that threads leave at different turns.
    REFUSED(
        "barrier 1", ptx_loop (b) {
            ptx_set(b, var, ptx_add(b, var, one));
            ptx_break_if(b, ptx_gt(b, var, tid));
        } ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
    REFUSED("the branch to $over_1", ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, mine, over); ptx_barrier(b); ptx_label_place(b, over););
    REFUSED("the branch to $again_1", ptx_label again = ptx_label_create(b, "again");
            ptx_label_place(b, again); ptx_barrier(b); ptx_branch_if(b, mine, again););
    // A value made in a divergent raw loop outlives it.
    REFUSED("barrier 1", ptx_label again = ptx_label_create(b, "again"); ptx_label_place(b, again);
            ptx_val x = ptx_load(b, out, zero); ptx_branch_if(b, mine, again);
            ptx_if (b, ptx_eq(b, x, zero)) ptx_barrier(b););
}

static void uniform_barriers_are_accepted(void **state)
{
    (void)state;
    ACCEPTED(ptx_if (b, ours) ptx_barrier(b); ptx_else (b) ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, zero, n, one) ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, block, n, ptx_nctaid(b, PTX_X)) {
        ptx_if (b, mine)
            ptx_store(b, s, zero, i);
        ptx_barrier(b);
        ptx_break_if(b, ptx_eq(b, i, one));
    });
    ACCEPTED(ptx_return_if(b, ours); ptx_barrier(b););
    // Threads that parted are together again behind the block.
    ACCEPTED(ptx_if (b, mine) ptx_store(b, out, zero, one); ptx_barrier(b););
    ACCEPTED(ptx_for (b, i, tid, n, one) ptx_store(b, out, i, one); ptx_barrier(b););
    // One thread's flag, read by all behind a barrier.
    ACCEPTED(ptx_if (b, mine) ptx_store(b, s, zero, ptx_atomic_add(b, out, zero, one));
             ptx_barrier(b); ptx_if (b, ptx_eq(b, ptx_load(b, s, zero), one)) ptx_barrier(b););
    // What a reducing barrier answers is one for all.
    ACCEPTED(ptx_if (b, ptx_barrier_any(b, mine)) ptx_barrier(b););
    ACCEPTED(ptx_val c = ptx_barrier_count(b, mine); ptx_for (b, i, zero, c, one) ptx_barrier(b););
    // Barriers of a number of threads, or of a warp, may be anywhere.
    ACCEPTED(ptx_if (b, mine) ptx_barrier_named(b, 1, 32););
    ACCEPTED(ptx_if (b, mine) ptx_barrier_warp(b, ptx_full_warp()););
    // A variable that is set only where threads are together.
    ACCEPTED(ptx_if (b, ours) ptx_set(b, var, zero);
             ptx_if (b, ptx_eq(b, var, zero)) ptx_barrier(b););
}

static void values_stay_in_their_block(void **state)
{
    ptx_val kept = { 0 };

    (void)state;
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
    // Addresses of arrays and parameters are taken where the entry begins.
    ACCEPTED(ptx_ptr t = s; ptx_val x = n; ptx_if (b, mine) {
        t = ptx_shared(b, PTX_U32, 4);
        x = ptx_param(b, PTX_U32, "x");
        ptx_store(b, t, tid, one);
    } ptx_store(b, t, tid, x););
}

static void raw_branches_do_not_skip_definitions(void **state)
{
    (void)state;
    REFUSED("branch: an operand of 'st.global.u32' is not defined on every path",
            ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, mine, over); ptx_val x = ptx_add(b, n, one); ptx_label_place(b, over);
            ptx_store(b, out, zero, x););
    // As a condition.
    REFUSED("an operand of 'bra'", ptx_label over = ptx_label_create(b, "over");
            ptx_branch_if(b, ours, over); ptx_val x = ptx_eq(b, n, one); ptx_label_place(b, over);
            ptx_if (b, x) ptx_store(b, out, zero, one););
    // Only the way back into a loop lacks it.
    REFUSED("an operand of 'add.u32'", ptx_label head = ptx_label_create(b, "head");
            ptx_label middle = ptx_label_create(b, "middle"); ptx_branch_if(b, ours, middle);
            ptx_label_place(b, head); ptx_val x = ptx_add(b, n, one); ptx_label_place(b, middle);
            ptx_add(b, x, one); ptx_branch_if(b, ours, head););
    // Defined on both ways to the label, or behind what cannot be reached.
    ACCEPTED(ptx_label over = ptx_label_create(b, "over"); ptx_val x = ptx_var(b, zero);
             ptx_branch_if(b, mine, over); ptx_set(b, x, one); ptx_label_place(b, over);
             ptx_store(b, out, zero, x););
    ACCEPTED(ptx_label again = ptx_label_create(b, "again"); ptx_label_place(b, again);
             ptx_val x = ptx_add(b, n, one); ptx_store(b, out, zero, x);
             ptx_branch_if(b, ours, again); ptx_store(b, out, zero, x););
    ACCEPTED(ptx_label over = ptx_label_create(b, "over"); ptx_branch(b, over);
             ptx_val x = ptx_add(b, n, one); ptx_store(b, out, zero, x); ptx_label_place(b, over););
}

static void parameters_are_used(void **state)
{
    (void)state;
    REFUSED("param: parameter 'idle' is never used", ptx_param(b, PTX_U32, "idle"););
    REFUSED("param_ptr: parameter 'idle' is never used", ptx_param_ptr(b, PTX_U32, "idle"););
    REFUSED("param_array: parameter 'idle' is never", ptx_param_array(b, PTX_U32, "idle", 4););
    ACCEPTED(ptx_load(b, ptx_param_array(b, PTX_U32, "a", 4), zero););
    ACCEPTED(ptx_return_if(b, ptx_eq(b, ptx_param(b, PTX_U32, "x"), zero)););
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergent_barriers_are_refused),
        cmocka_unit_test(variables_carry_divergence),
        cmocka_unit_test(divergence_goes_round_every_loop),
        cmocka_unit_test(divergent_loops_and_exits_are_seen),
        cmocka_unit_test(uniform_barriers_are_accepted),
        cmocka_unit_test(values_stay_in_their_block),
        cmocka_unit_test(raw_branches_do_not_skip_definitions),
        cmocka_unit_test(parameters_are_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

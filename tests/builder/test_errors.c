// SPDX-License-Identifier: MIT
// All errors of a build: each has its line, and none follows from another.
#include "builder_fixture.h"

#include <stdlib.h>

static ptx_builder *builder_of_all(void)
{
    return ptx_builder_create(
        &(struct ptx_builder_params) { .target = { .sm = 90 }, .all_errors = true });
}

static unsigned lines[64], wrong;

// Stands on the line after that of a call that is wrong.
#define WRONG (lines[wrong++] = __LINE__ - 1)

// Finishes and destroys the builder: its errors must be at the lines that were wrong, and have
// these words, in this order.
static void expect_all_(ptx_builder *b, int line, ...)
{
    const char *const text = (ptx_builder_finish)(b);
    const char *word, *error;
    bool ok = !text;
    unsigned k = 0;
    va_list words;

    va_start(words, line);
    while ((word = va_arg(words, const char *))) {
        char place[32];
        snprintf(place, sizeof place, "test_errors.c:%u: ", k < wrong ? lines[k] : 0);
        error = ptx_builder_error_at(b, k++);
        ok = ok && error && strstr(error, place) && strstr(error, word) && !strchr(error, '\n');
    }
    va_end(words);
    ok = ok && k == wrong && !ptx_builder_error_at(b, k);
    for (unsigned n = 0; !ok && ptx_builder_error_at(b, n); n++)
        print_error("%u (line %u): %s\n", n, n < wrong ? lines[n] : 0, ptx_builder_error_at(b, n));
    if (ok && k)
        assert_string_equal(ptx_builder_error(b), ptx_builder_error_at(b, 0));
    ptx_builder_destroy(&b);
    wrong = 0;
    if (!ok)
        _fail(__FILE__, line);
}
#define EXPECT_ALL(b, ...) expect_all_(b, __LINE__, __VA_ARGS__, (const char *)NULL)

// ---- what is found ------------------------------------------------------------------------------

TEST(each_error_has_its_line)
{
    ptx_builder *b = builder_of_all();
    ptx_entry (b, "k") {
        ptx_val n = ptx_param(b, PTX_U32, "n"), f = ptx_var(b, ptx_f32(1));
        ptx_val bad = ptx_add(b, n, f);
        WRONG;
        ptx_val worse = ptx_mul(b, bad, 2); // follows
        ptx_ptr array = ptx_shared(b, PTX_F32, 4);
        ptx_store(b, array, 9, f);
        WRONG;
        ptx_if (b, ptx_lt(b, worse, n)) { // follows
            ptx_sqrt(b, n);
            WRONG;
        }
        ptx_else (b) {
            ptx_shl(b, n, 1.5);
            WRONG;
        }
    }
    ptx_entry (b, "l", .block = { 2000 }) {
        WRONG;
        ptx_tid(b, PTX_X); // follows
    }
    ptx_entry (b, "m") {
        ptx_param(b, PTX_U32, "unused");
        WRONG;
        ptx_param(b, PTX_U32, "idle");
        WRONG;
    }
    EXPECT_ALL(b, "k: ptx_add: x is u32 and y is f32", "k: ptx_store: index 9",
               "k: ptx_sqrt: x is u32", "k: ptx_shl: y is the number 1.5",
               "ptx_entry: .block = {2000, 0, 0}", "m: ptx_param: parameter 'unused'",
               "m: ptx_param: parameter 'idle'");
}

// What is found at the end of an entry is found in those without errors of their own.
TEST(ends_are_checked)
{
    ptx_builder *b = builder_of_all();
    ptx_func (b, "f", .result = PTX_U32) { // has no value, but an error of its own
        ptx_return_if(b, ptx_bool(true));
        WRONG;
    }
    ptx_func (b, "g", .result = PTX_U32) {
        WRONG;
        ptx_param(b, PTX_U32, "x", .unused = true);
    }
    ptx_entry (b, "k") {
        ptx_val x = ptx_call(b, "g", 1);
        ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), x)) {
            ptx_barrier(b);
            WRONG;
        }
    }
    ptx_entry (b, "l", .block = { 64 }) {
        ptx_val x = ptx_call(b, "f");
        ptx_barrier_named(b, 1, 96);
        WRONG;
        ptx_store(b, ptx_local(b, PTX_F32, 1), 0, x);
        WRONG;
    }
    EXPECT_ALL(b, "f: ptx_return_if: the function returns u32", "a path through 'g' ends",
               "k: ptx_barrier:", "l: ptx_barrier_named: barrier 1 waits for 96",
               "l: ptx_store: the value is u32");
}

TEST(a_block_left_open_is_one_error)
{
    ptx_builder *b = builder_of_all();
    ptx_entry (b, "k") {
        ptx_val n = ptx_ctaid(b, PTX_X);
        ptx_if (b, ptx_eq(b, n, 3)) {
            WRONG;
            C_BREAK;
        }
    }
    ptx_entry (b, "l") {
        ptx_break(b);
        WRONG;
        ptx_else (b) {
            WRONG;
            ptx_sqrt(b, 1);
            WRONG;
        }
    }
    EXPECT_ALL(b, "k: ptx_entry: a block inside it was never closed",
               "l: ptx_break: there is no loop", "l: ptx_else: it must directly follow",
               "l: ptx_sqrt: x is the number 1");
}

// ---- what follows is not an error ---------------------------------------------------------------

// Takes a value, a pointer and the like that errors left unset.
static void follow(ptx_builder *b, ptx_val x, ptx_ptr p, ptx_fragment f, ptx_label label)
{
    ptx_val u = ptx_var(b, ptx_u32(1)), words[2] = { x, u }, out[3];
    ptx_vec none = ptx_call_many(b, "missing", 1);

    ptx_add(b, x, x), ptx_add(b, u, x), ptx_add(b, 1, x), ptx_add(b, x, 1), ptx_neg(b, x);
    ptx_fma(b, x, u, 1), ptx_shl(b, u, x), ptx_lop3(b, u, u, x, 3), ptx_select(b, x, u, 2);
    ptx_select(b, ptx_bool(true), x, 1), ptx_cvt(b, PTX_F32, x), ptx_bitcast(b, PTX_F32, x);
    ptx_cvt_pack(b, PTX_F16X2, x, x), ptx_op(b, PTX_OP_add, .x = x, .y = u), ptx_var(b, x);
    ptx_set(b, x, u), ptx_set(b, u, x), ptx_copy(b, x), ptx_pack(b, PTX_U64, ptx_vec2(x, u));
    ptx_unpack(b, PTX_U32, x), ptx_math_exp(b, x), ptx_math_pow(b, x, x);
    ptx_load(b, p, 0), ptx_load(b, p, x), ptx_store(b, p, x, 1), ptx_load_vec(b, p, 0, 2);
    ptx_store_vec(b, p, 0, none), ptx_store_vec(b, p, 0, ptx_vec2(x, x)), ptx_at(b, p, 1);
    ptx_ptr_cast(b, PTX_U8, p), ptx_ptr_address(b, p), ptx_ptr_generic(b, p);
    ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, x), ptx_atomic_add(b, p, 0, x);
    ptx_atomic_cas(b, p, 0, x, x), ptx_atomic_vec(b, PTX_ATOMIC_add, p, 0, ptx_vec2(x, x));
    ptx_prefetch(b, p, 0, PTX_PREFETCH_L1);
    ptx_ptr good = ptx_shared(b, PTX_U32, 8);
    ptx_store(b, good, 0, x), ptx_store(b, good, x, 1), ptx_load(b, good, x);
    ptx_store_vec(b, good, 0, ptx_vec2(u, x)), ptx_atomic_add(b, good, 0, x);
    ptx_store_vec(b, good, 0, none), ptx_words_add(b, 2, out, words, words, NULL);
    ptx_words_mad(b, 2, out, words, x, words), ptx_shfl_down(b, x, 1), ptx_shfl_idx(b, u, x);
    ptx_vote_any(b, x, ptx_full_warp()), ptx_ballot(b, ptx_bool(true), x), ptx_redux_add(b, x, 1);
    ptx_match_any(b, x, 1), ptx_barrier_warp(b, x), ptx_barrier_any(b, x), ptx_nanosleep(b, x);
    ptx_assume_warp_uniform(b, x), ptx_fragment_fill(b, x), ptx_fragment_var(b, f);
    ptx_fragment_words(b, f), ptx_fragment_set(b, f, f), ptx_mma(b, f, f, f);
    ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, p, u);
    ptx_ldmatrix(b, p, 2), ptx_stmatrix(b, p, ptx_vec2(x, x)), ptx_cp_async(b, p, p, 16);
    ptx_asm(b, "mov.b32 %0, %1;", .result = { PTX_U32 }, .in = { x });
    ptx_asm(b, "mov.b32 %0, %1; mov.b32 %0, %2;", .result = { PTX_U32 }, .in = { x, u });
    ptx_asm(b, "ld.global.u32 %0, [%1];", .result = { PTX_U32 }, .at = { p });
    ptx_printf(b, "%u", x), ptx_assert(b, x, "x"), ptx_call(b, "good", x), ptx_call(b, "bad", u);
    ptx_call(b, "missing", u), ptx_branch(b, label), ptx_branch_if(b, x, label);
    ptx_label_place(b, label), ptx_return_if(b, x);
    ptx_if (b, x)
        ptx_add(b, u, 1);
    ptx_else_if (b, x)
        ptx_add(b, u, 1);
    ptx_else (b)
        ptx_add(b, u, 1);
    ptx_for (b, i, 0, x, 1) {
        ptx_add(b, u, i);
        ptx_break_if(b, ptx_eq(b, i, u));
        ptx_continue(b);
    }
    ptx_for_down (b, i, x, 0, 1)
        ptx_add(b, i, 1);
    ptx_grid_stride (b, i, x)
        ptx_load(b, good, i);
    ptx_while (b, x)
        ptx_break_if(b, x);
    ptx_inlined (b, "here")
        ptx_add(b, x, 1);
}

TEST(nothing_follows)
{
    ptx_builder *b = builder_of_all();
    ptx_func (b, "good") {
        ptx_val x = ptx_param(b, PTX_U32, "x");
        ptx_store(b, ptx_local(b, PTX_U32, 1), 0, x);
    }
    ptx_func (b, "bad", .result = PTX_U32) {
        ptx_val y = ptx_param(b, PTX_U32, "y");
        ptx_return_value(b, ptx_sqrt(b, y));
        WRONG;
    }
    ptx_func (b, "missing", .result = (ptx_type)99) {
        WRONG;
        ptx_param(b, PTX_U32, "z");
    }
    ptx_entry (b, "k") {
        ptx_val n = ptx_param(b, PTX_U32, "n"), m = ptx_param(b, PTX_U32, "n");
        WRONG;
        ptx_ptr p = ptx_param_ptr(b, PTX_PRED, "p");
        WRONG;
        ptx_fragment f = ptx_fragment_fill(b, ptx_bool(true));
        WRONG;
        ptx_label label = ptx_label_create(b, "a b");
        WRONG;
        (void)n;
        follow(b, m, p, f, label);
    }
    ptx_entry (b, "l") { // is right, and calls what is wrong
        ptx_val x = ptx_call(b, "bad", ptx_tid(b, PTX_X));
        ptx_if (b, ptx_eq(b, ptx_call(b, "bad", 1), 1))
            ptx_barrier(b);
        ptx_store(b, ptx_local(b, PTX_U32, 1), 0, x);
    }
    EXPECT_ALL(b, "bad: ptx_sqrt: x is u32", "ptx_func: the result of 'missing' needs a type",
               "k: ptx_param: the entry already has a parameter 'n'", "'p' cannot be pred",
               "ptx_fragment_fill:", "ptx_label_create: 'a b' is not a name");
}

// ---- how many -----------------------------------------------------------------------------------

TEST(the_same_error_is_told_once)
{
    ptx_builder *b = builder_of_all();
    ptx_entry (b, "k")
        for (unsigned k = 0; k < 100; k++) {
            ptx_sqrt(b, ptx_u32(k));
            WRONG, wrong = 1;
        }
    EXPECT_ALL(b, "k: ptx_sqrt: x is u32");
}

static unsigned told;

static void count_told(void *user, const char *error)
{
    (void)user, (void)error;
    told++;
}

TEST(there_are_at_most_twenty)
{
    OWNED(ptx_builder) *b = ptx_builder_create(
        &(struct ptx_builder_params) { .all_errors = true, .on_error = count_told });
    unsigned count = 0;

    ptx_entry (b, "k") {
        for (unsigned k = 0; k < 30; k++) {
            char place[32];
            snprintf(place, sizeof place, "k.c:%u", k);
            static char places[30][32];
            memcpy(places[k], place, sizeof place);
            ptx_builder_place(b, places[k]);
            (ptx_sqrt)(b, ptx_u32(1));
        }
        ptx_builder_place(b, NULL);
    }
    assert_null(ptx_builder_finish(b));
    while (ptx_builder_error_at(b, count))
        count++;
    assert_int_equal(count, 20);
    assert_int_equal(told, 1);
    assert_non_null(strstr(ptx_builder_error_at(b, 19), "k.c:19: k: ptx_sqrt"));
}

// An error without a place is the last: its text shows what stands before it.
TEST(without_a_place_it_is_the_last)
{
    OWNED(ptx_builder) *b = builder_of_all();
    const int k = (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
    ptx_val x = (ptx_tid)(b, PTX_X);
    (ptx_sqrt)(b, x);
    ptx_shl(b, x, 1.5);
    (ptx_entry_end)(b, k);
    assert_null(ptx_builder_finish(b));
    assert_non_null(strstr(ptx_builder_error_at(b, 0), "%tid.x;"));
    assert_null(ptx_builder_error_at(b, 1));
}

// Without the option there is one, and nothing changes.
TEST(one_error_is_the_default)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_sqrt(b, ptx_u32(1));
        ptx_shl(b, ptx_u32(1), 1.5);
    }
    assert_null(ptx_builder_finish(b));
    assert_string_equal(ptx_builder_error(b), ptx_builder_error_at(b, 0));
    assert_null(ptx_builder_error_at(b, 1));
    ptx_builder_destroy(&b);
    b = builder_of_all();
    ptx_entry (b, "k")
        ptx_store(b, ptx_local(b, PTX_U32, 1), 0, 7);
    assert_non_null(ptx_builder_finish(b));
    assert_null(ptx_builder_error_at(b, 0));
    ptx_builder_destroy(&b);
    assert_null(ptx_builder_error_at(NULL, 1));
    assert_non_null(strstr(ptx_builder_error_at(NULL, 0), "NULL"));
    b = ptx_builder_create(
        &(struct ptx_builder_params) { .target = { .sm = 71 }, .all_errors = true });
    ptx_entry (b, "k")
        ptx_sqrt(b, ptx_u32(1));
    assert_null(ptx_builder_finish(b));
    assert_non_null(strstr(ptx_builder_error_at(b, 0), "unknown target sm_71"));
    assert_null(ptx_builder_error_at(b, 1));
}

// The allocator refuses the n-th block: one error, or all of them, and never a crash.
static void *refuse(void *user, void *memory, size_t bytes)
{
    unsigned *left = user;

    if (!bytes) {
        free(memory);
        return NULL;
    }
    return (*left)-- ? realloc(memory, bytes) : (++*left, NULL);
}

TEST(memory_runs_out)
{
    for (unsigned blocks = 1; blocks < 40; blocks++) {
        unsigned left = blocks;
        OWNED(ptx_builder) *b = ptx_builder_create(&(struct ptx_builder_params) {
            .target = { .sm = 90 }, .all_errors = true, .resize = refuse, .user = &left });
        ptx_entry (b, "k") {
            ptx_val x = ptx_sqrt(b, ptx_u32(1));
            follow(b, x, (ptx_ptr) { 0 }, (ptx_fragment) { 0 }, (ptx_label) { 0 });
            for (unsigned k = 0; k < 200; k++)
                ptx_store(b, ptx_local(b, PTX_F32, 4), 0, ptx_add(b, ptx_f32(1), (float)k));
        }
        assert_null(ptx_builder_finish(b));
        assert_non_null(ptx_builder_error_at(b, 0));
    }
}

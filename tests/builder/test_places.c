// SPDX-License-Identifier: MIT
// Errors name the caller's file and line, or what stands before them.
#include "builder_fixture.h"

#include <ptxgen/ptxgen.h>

#include <stdlib.h>

static const char *helper_place;

static ptx_val helper(ptx_builder *b, ptx_val x)
{
    // clang-format off
    helper_place = HERE; return ptx_add(b, x, ptx_u32(1));
    // clang-format on
}

TEST(a_call_has_its_place)
{
    const char *place = NULL;

    NEW_ENTRY (b, 80) {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        // clang-format off
        // Calls of helpers among the arguments have places of their own.
        place = HERE; ptx_add(b, helper(b, helper(b, u)), helper(b, f));
        // clang-format on
    }
    EXPECT_PLACE(b, helper_place, "k: ptx_add: x is f32 and y is u32");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        // clang-format off
        place = HERE; ptx_add(b, f, helper(b, helper(b, u)));
        // clang-format on
    }
    EXPECT_PLACE(b, place, "k: ptx_add: x is f32 and y is u32");
}

// A call keeps its place where an argument in it is a call.
TEST(a_call_in_an_argument_keeps_the_place)
{
    const char *place = NULL;

    // clang-format off
    ptx_builder *b = builder_at(80);
    ptx_func (b, "g", .result = PTX_U32)
        ptx_return_value(b, ptx_param(b, PTX_U32, "x"));
    ptx_entry (b, "k") {
        ptx_val n = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        ptx_call_emit(b, "g", (ptx_val[]) { ptx_add(b, n, 1) }, 1);
        place = HERE; ptx_call_emit(b, "g", (ptx_val[]) { ptx_add(b, f, 1) }, 1);
    }
    EXPECT_PLACE(b, place, "k: ptx_call: ");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val n = ptx_tid(b, PTX_X);
        place = HERE; ptx_printf_emit(b, "%f", (ptx_val[]) { ptx_add(b, n, 1) }, 1);
    }
    EXPECT_PLACE(b, place, "k: ptx_printf: value 1 is u32");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val n = ptx_tid(b, PTX_X);
        place = HERE; ptx_asm(b, "add.u32 %0, %1, %2;", .result = { PTX_U32 }, .in = { ptx_add(b, n, 1) });
    }
    EXPECT_PLACE(b, place, "k: ptx_asm: ");
    // The function has no place of its own: its error has that of the call around it, where the
    // place of that begins before its arguments.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val n = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        place = HERE; ptx_bitcast(b, PTX_F32, (ptx_add)(b, n, f));
    }
    EXPECT_PLACE(b, place, "k: ptx_add: x is u32 and y is f32");
    // clang-format on
}

// The line of a call over several lines: where it begins, or, with clang, where it ends.
TEST(a_call_over_lines_has_one_of_them)
{
    const char *place[2] = { NULL, NULL };
#ifdef __clang__
    enum { IS_LAST = 1 };
#else
    enum { IS_LAST = 0 };
#endif

    // clang-format off
    NEW_ENTRY (b, 80) {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        place[0] = HERE; ptx_add(b, u,
                                 f); place[1] = HERE;
    }
    EXPECT_PLACE(b, place[IS_LAST], "k: ptx_add: x is u32 and y is f32");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        ptx_add(b,
                (place[0] = HERE, ptx_mul(b, u,
                                          (place[1] = HERE, f))),
                u);
    }
    EXPECT_PLACE(b, place[IS_LAST], "k: ptx_mul: x is u32 and y is f32");
    // clang-format on
}

// One call of each shape; `call` uses u (u32), f (f32) and p (a pointer to f32).
#define PLACED(call, words)                                                                        \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));                            \
            ptx_ptr p = ptx_shared(b, PTX_F32, 4);                                                 \
            (void)u, (void)f, (void)p;                                                             \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_PLACE(b, HERE, words);                                                              \
    } while (0)

TEST(every_shape_has_its_place)
{
    PLACED(ptx_sqrt(b, u), "ptx_sqrt: x is u32");
    PLACED(ptx_fma(b, f, f, u), "ptx_fma: x is f32 and z is u32");
    PLACED(ptx_bfi(b, u, u, u, f), "ptx_bfi: w is f32");
    PLACED(ptx_select(b, u, f, f), "ptx_select: the condition is u32");
    PLACED(ptx_tid(b, (ptx_axis)7), "ptx_tid: 7 is not an axis");
    PLACED(ptx_op(b, PTX_OP_add, .x = u, .y = f), "ptx_add: x is u32 and y is f32");
    PLACED(ptx_cvt(b, PTX_PRED, f), "ptx_cvt: there is no conversion");
    PLACED(ptx_bitcast(b, PTX_U64, f), "ptx_bitcast: x is f32");
    PLACED(ptx_load(b, p, f), "ptx_load: the index is f32");
    PLACED(ptx_store(b, p, u, u), "ptx_store: the value is u32");
    PLACED(ptx_load_vec(b, p, u, 3), "ptx_load_vec: 3 lanes");
    PLACED(ptx_store_vec(b, p, u, ptx_vec2(u, u)), "ptx_store_vec: the value is u32");
    PLACED(ptx_atomic_add(b, p, f, f), "ptx_atomic_add: the index is f32");
    PLACED(ptx_atomic(b, PTX_ATOMIC_add, p, u, u), "ptx_atomic_add: the value is u32");
    PLACED(ptx_atomic_cas(b, p, u, u, u), "ptx_atomic_cas: the value is u32");
    PLACED(ptx_fence(b, PTX_ORDER_WEAK, PTX_SCOPE_GPU), "ptx_fence: order 0");
    PLACED(ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, u), "ptx_ptr_from: a global pointer");
    PLACED(ptx_shfl_down(b, f, f), "ptx_shfl_down: the lane is f32");
    PLACED(ptx_redux_add(b, f, ptx_full_warp()), "ptx_redux_add: x is f32");
    PLACED(ptx_set(b, u, u), "ptx_set: the first value is not a variable");
    PLACED(ptx_global_index(b, (ptx_axis)7), "ptx_global_index: 7 is not an axis");
    PLACED(ptx_grid_stride_begin(b, f), "ptx_grid_stride: n is f32");
    PLACED(ptx_barrier_named(b, 99, 0), "ptx_barrier_named: barrier 99");
    PLACED(ptx_break(b), "ptx_break: there is no loop");
    PLACED(ptx_return_if(b, u), "ptx_return_if: the condition is u32");
    PLACED(ptx_local(b, PTX_F32, 0), "ptx_local: the array has no elements");
    PLACED(ptx_param(b, PTX_PRED, "x"), "ptx_param: parameter 'x' cannot be pred");
    PLACED(ptx_builder_fail(b, "no %s", "way"), "k: no way");
    PLACED(ptx_if_begin(b, u), "ptx_if: the condition is u32");
    PLACED(ptx_for_begin(b, u, f, u), "ptx_for: lo, hi and step are u32, f32 and u32");
    PLACED(ptx_for_down_begin(b, u, f, u), "ptx_for_down: lo, hi and step are f32, u32 and u32");
    PLACED(ptx_while_test(b, u), "ptx_while: the condition is u32");
    PLACED(ptx_else_if_test(b, u), "ptx_else_if: the condition is u32");
    PLACED(ptx_else_begin(b), "ptx_else: it must directly follow");
    PLACED(ptx_else_if_begin(b), "ptx_else_if: it must directly follow");
}

// Kernels and plans that are written into a caller's builder have the place of that call.
TEST(ready_kernels_have_the_place)
{
    struct ptx_kernel_spec spec = { .dtype = PTX_U8 };
    struct ptx_clip_params clip = { .max_norm = 1 };
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD, .hyper = { .lr = 0.5f } };
    struct ptx_step_params step = { .max_norm = 1, .groups = &group, .group_count = 1 };
    const ptx_kernel *kernel = ptx_kernel_find("squared_sum");
    const char *place = NULL;

    // clang-format off
    ptx_builder *b = builder_at(80);
    place = HERE; ptx_kernel_emit(b, kernel, &spec);
    EXPECT_PLACE(b, place, "squared_sum: there is no u8 of it");
    b = builder_at(80);
    place = HERE; ptx_kernel_emit(b, kernel, NULL);
    EXPECT_PLACE(b, place, "ptx_kernel_emit: the spec is NULL");
    b = builder_at(80);
    spec.dtype = PTX_F32;
    ptx_kernel_emit(b, kernel, &spec);
    place = HERE; ptx_kernel_emit(b, kernel, &spec);
    EXPECT_PLACE(b, place, "squared_sum_f32");
    b = builder_at(80);
    assert_int_equal(ptx_clip_emit(b, &clip), PTX_OK);
    place = HERE; ptx_clip_emit(b, &clip);
    EXPECT_PLACE(b, place, "ptx_entry: ");
    b = builder_at(80);
    if (ptx_step_emit(b, &step) != PTX_OK)
        fail_msg("%s", ptx_error_message());
    place = HERE; ptx_step_emit(b, &step);
    EXPECT_PLACE(b, place, "ptx_entry: ");
    // clang-format on
}

static void *out_of_memory(void *user, void *memory, size_t bytes)
{
    unsigned *left = user;

    if (!bytes) {
        free(memory);
        return NULL;
    }
    return *left && (*left)-- ? realloc(memory, bytes) : NULL;
}

static void emit_one(ptx_builder *b, unsigned which)
{
    const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    const struct ptx_clip_params clip = { .max_norm = 1 };

    if (which == 0)
        ptx_kernel_emit(b, ptx_kernel_find("quantize_learned_groups"), &spec);
    if (which == 1)
        (void)ptx_clip_emit(b, &clip);
    if (which == 2)
        ptx_entry (b, "k") {
            ptx_val x = ptx_copy(b, ptx_f32(1));
            for (unsigned n = 0; n < 100; n++)
                ptx_math_pow(b, x, x);
        }
}

// Wherever a call within a kernel, a plan or a function of math.h fails, the error has the place of
// the user's call. The library's calls have none of their own.
TEST(calls_within_the_library_keep_the_place)
{
    unsigned left;
    const struct ptx_builder_params params = { .resize = out_of_memory, .user = &left };

    for (unsigned which = 0; which < 3; which++) {
        bool failed = true;
        for (unsigned allocations = 1; failed; allocations++) {
            left = allocations;
            ptx_builder *b = ptx_builder_create(&params);
            assert_non_null(b);
            emit_one(b, which);
            failed = ptx_builder_error(b);
            if (failed)
                EXPECT_ERROR(b, __FILE__ ":", "out of memory");
            else
                ptx_builder_destroy(&b);
            assert_true(failed || allocations > 4);
        }
    }
}

// What is found at the end of an entry has the place of the call that it is about.
TEST(later_errors_have_their_place)
{
    const char *place = NULL;

    // clang-format off
    NEW_ENTRY (b, 80) {
        ptx_val few = ptx_lt(b, ptx_tid(b, PTX_X), ptx_u32(7));
        ptx_if (b, few) {
            place = HERE; ptx_barrier(b);
        }
    }
    EXPECT_PLACE(b, place, "ptx_barrier: barrier 1 of the entry");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, tid, ptx_u32(7))) {
            place = HERE; ptx_shfl_down(b, tid, ptx_u32(1));
        }
    }
    EXPECT_PLACE(b, place, "k: shfl.sync.down.b32 with the full mask");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_label away = ptx_label_create(b, "away");
        place = HERE; ptx_branch(b, away);
        ptx_barrier(b);
    }
    EXPECT_PLACE(b, place, "ptx_branch: a branch goes to label $away_1");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_label over = ptx_label_create(b, "over");
        ptx_val x = ptx_tid(b, PTX_X);
        ptx_branch_if(b, ptx_eq(b, x, ptx_u32(0)), over);
        ptx_val y = ptx_add(b, x, x);
        ptx_label_place(b, over);
        place = HERE; ptx_mul(b, y, y);
    }
    EXPECT_PLACE(b, place, "ptx_branch: an operand of 'mul.lo.u32'");
    b = builder_at(80);
    ptx_entry (b, "k") {
        place = HERE; ptx_param(b, PTX_U32, "n");
        ptx_barrier(b);
    }
    EXPECT_PLACE(b, place, "ptx_param: parameter 'n' is never used");
    b = builder_at(80);
    ptx_entry (b, "k") {
        place = HERE; ptx_loop (b)
            C_BREAK;
    }
    EXPECT_PLACE(b, place, "ptx_entry: a block inside it was never closed");
    b = builder_at(80);
    for (int once = 1; once; once = 0) {
        place = HERE; ptx_entry (b, "k")
            C_BREAK;
    }
    // clang-format on
    EXPECT_PLACE(b, place, "ptx_builder_finish: a ptx_entry block was never closed");
}

// Without a macro: the place that the caller sets, or what stands before the error.
TEST(functions_have_a_context)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        ptx_builder_place(b, "script.py:12");
        (ptx_add)(b, u, f);
    }
    EXPECT_PLACE(b, "script.py:12", "k: ptx_add: x is u32 and y is f32");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val u = ptx_tid(b, PTX_X), f = ptx_copy(b, ptx_f32(1));
        ptx_comment(b, "the %d%s", 2, "nd row");
        ptx_if (b, ptx_lt(b, u, ptx_u32(4))) {
            ptx_mul(b, f, ptx_f32(0.5));
            (ptx_add)(b, u, f);
        }
    }
    ptx_builder_finish(b);
    assert_string_equal(ptx_builder_error(b),
                        "k: ptx_add: x is u32 and y is f32; both must have the same type\n"
                        "after 5 instructions of the entry, below 'the 2nd row'; the last lines:\n"
                        "    setp.lt.u32         %p1, %r1, 4;\n"
                        "    @!%p1 bra           $if_1_end;\n"
                        "        mul.rn.f32          %f2, %f1, 0f3F000000; // 0.5");
    ptx_builder_destroy(&b);
    // At an entry's end, the lines end with what the error is about.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), ptx_u32(4)))
            (ptx_barrier)(b);
        ptx_barrier(b);
    }
    ptx_builder_finish(b);
    const char *error = ptx_builder_error(b);
    assert_non_null(strstr(error, "\nafter 4 instructions of the entry; the last lines:\n"));
    assert_string_equal(strrchr(error, '\n'), "\n        bar.sync            0;");
    ptx_builder_destroy(&b);
    // Nothing is before the first instruction, and a place does not stay behind its call.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_comment(b, "first");
        (ptx_break)(b);
    }
    ptx_builder_finish(b);
    assert_string_equal(ptx_builder_error(b), "k: ptx_break: there is no loop to leave");
}

// A call that is found too late has the lines before the block, parameter or path that it is about.
#define LATE(call, words, lines)                                                                   \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        call;                                                                                      \
        (ptx_builder_finish)(b);                                                                   \
        const char *error = ptx_builder_error(b);                                                  \
        if (!error || !strstr(error, words) || !strstr(error, "\nafter ") ||                       \
            !strstr(error, lines))                                                                 \
            fail_msg("not \"%s\" and \"%s\": %s", words, lines, error ? error : "no error");       \
        ptx_builder_destroy(&b);                                                                   \
    } while (0)

TEST(late_errors_have_a_context)
{
    LATE(
        {
            const int k = (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
            ptx_val x = (ptx_tid)(b, PTX_X);
            (ptx_comment)(b, "the part");
            (ptx_if_begin)(b, (ptx_lt)(b, x, ptx_u32(4)));
            (ptx_mul)(b, x, x);
            (ptx_entry_end)(b, k);
        },
        "k: ptx_entry: a block inside it was never closed",
        "below 'the part'; the last lines:\n    mov.u32             %r1, %tid.x;\n"
        "    setp.lt.u32         %p1, %r1, 4;\n    @!%p1 bra           $if_1_end;");
    LATE(
        {
            (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
            (ptx_if_begin)(b, (ptx_lt)(b, (ptx_tid)(b, PTX_X), ptx_u32(4)));
        },
        "k: ptx_builder_finish: a ptx_if block was never closed", "@!%p1 bra           $if_1_end;");
    LATE(
        {
            (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
            const int outer = (ptx_if_begin)(b, (ptx_lt)(b, (ptx_tid)(b, PTX_X), ptx_u32(4)));
            (ptx_loop_begin)(b);
            (ptx_barrier)(b);
            (ptx_if_end)(b, outer);
        },
        "k: ptx_if: a block inside this one was never closed", "@!%p1 bra           $if_1_end;");
    LATE(
        {
            (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
            (ptx_tid)(b, PTX_X);
            (ptx_if_end)(b, 77);
        },
        "k: ptx_if: this block is not open", "after 1 instruction of the entry");
    LATE(
        {
            const int k = (ptx_entry_begin)(b, (struct ptx_entry_params) { .name = "k" });
            (ptx_tid)(b, PTX_X);
            (ptx_param_emit)(b, PTX_U32, (struct ptx_param_info) { .name = "n" });
            (ptx_barrier)(b);
            (ptx_entry_end)(b, k);
        },
        "k: ptx_param: parameter 'n' is never used", "after 1 instruction of the entry");
    LATE(
        {
            const int f =
                (ptx_func_begin)(b, (struct ptx_func_params) { .name = "f", .result = PTX_U32 });
            ptx_val x = (ptx_param_emit)(b, PTX_U32, (struct ptx_param_info) { .name = "x" });
            const int inner = (ptx_if_begin)(b, (ptx_lt)(b, x, ptx_u32(4)));
            (ptx_return_value)(b, x);
            (ptx_if_end)(b, inner);
            (ptx_func_end)(b, f);
        },
        "f: ptx_func: a path through 'f' ends without ptx_return_value()", "    ret;");
}

// Not only the barrier has its place: so has the condition that keeps threads from it.
TEST(a_divergent_branch_has_its_place)
{
    // clang-format off
    OWNED(ptx_builder) *b = builder_at(80);
    const char *branch = NULL, *place = NULL;
    char words[200];
    ptx_entry (b, "k") {
        branch = HERE; ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), ptx_u32(7))) {
            place = HERE; ptx_barrier(b);
        }
    }
    snprintf(words, sizeof words, "the branch to $if_1_end (%s) differs", branch);
    EXPECT_PLACE(b, place, words);
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val x = ptx_tid(b, PTX_X);
        branch = HERE; ptx_return_if(b, ptx_lt(b, x, ptx_u32(7)));
        place = HERE; ptx_shfl_down(b, x, ptx_u32(1));
    }
    snprintf(words, sizeof words, "the branch to a return (%s) differs", branch);
    EXPECT_PLACE(b, place, words);
    // A long path is cut; an unknown one is left out.
    static char path[3000];
    memset(path, 'd', sizeof path - 1);
    memcpy(path + sizeof path - 12, "kernel.c:77", 12);
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_builder_place(b, path);
        const int block = (ptx_if_begin)(b, (ptx_lt)(b, (ptx_tid)(b, PTX_X), ptx_u32(7)));
        ptx_builder_place(b, NULL);
        place = HERE; ptx_barrier(b);
        (ptx_if_end)(b, block);
    }
    EXPECT_PLACE(b, place, "dddkernel.c:77) differs between threads of a block. Move the barrier out");
    // clang-format on
    b = builder_at(80);
    ptx_entry (b, "k") {
        const int block = (ptx_if_begin)(b, (ptx_lt)(b, (ptx_tid)(b, PTX_X), ptx_u32(7)));
        (ptx_barrier)(b);
        (ptx_if_end)(b, block);
    }
    ptx_builder_finish(b);
    assert_non_null(strstr(ptx_builder_error(b), "the branch to $if_1_end differs"));
}

TEST(a_long_path_is_cut_at_its_start)
{
    static char path[3000];

    memset(path, 'd', sizeof path - 1);
    memcpy(path + sizeof path - 12, "kernel.c:77", 12);
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_builder_place(b, path);
        (ptx_break)(b);
    }
    ptx_builder_finish(b);
    const char *error = ptx_builder_error(b);
    assert_int_equal(strncmp(error, "...ddd", 6), 0);
    assert_non_null(strstr(error, "dkernel.c:77: k: ptx_break: there is no loop to leave"));
}

struct heard {
    int calls;
    char error[1024];
};

static void hear(void *user, const char *error)
{
    struct heard *heard = user;

    heard->calls++;
    snprintf(heard->error, sizeof heard->error, "%s", error);
}

TEST(the_first_error_is_called)
{
    struct heard heard = { 0 };
    struct ptx_builder_params params = { .user = &heard, .on_error = hear };

    OWNED(ptx_builder) *b = ptx_builder_create(&params);
    ptx_entry (b, "k") {
        ptx_barrier(b);
        assert_int_equal(heard.calls, 0);
        ptx_break(b);
        assert_int_equal(heard.calls, 1);
        ptx_break(b);
    }
    assert_null(ptx_builder_finish(b));
    assert_int_equal(heard.calls, 1);
    assert_string_equal(heard.error, ptx_builder_error(b));
    ptx_builder_destroy(&b);
    params.target.sm = 71;
    b = ptx_builder_create(&params);
    assert_int_equal(heard.calls, 2);
    assert_non_null(strstr(heard.error, "unknown target sm_71"));
}

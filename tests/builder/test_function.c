// SPDX-License-Identifier: MIT
// Device functions and their calls: text, checks through calls, what is refused.
#include "builder_fixture.h"

static void square(ptx_builder *b)
{
    ptx_func (b, "square", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x", .meaning = "any number");
        ptx_return_value(b, ptx_mul(b, x, x));
    }
}

TEST(a_function_and_its_call)
{
    ptx_builder *b = builder_at(80);
    square(b);
    ptx_func (b, "add_to") {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p");
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_store(b, p, n, ptx_call(b, "square", 1.5));
        ptx_return_if(b, ptx_eq(b, n, 0));
    }
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val y = ptx_call(b, "square", ptx_call(b, "square", ptx_load(b, out, 0)));
        ptx_store(b, out, 0, y);
        ptx_call(b, "add_to", ptx_ptr_address(b, out), 7);
    }
    EXPECT_LINES(
        b,
        "{ // square, inline\n .reg .f32 $result$1;\n .reg .f32 x;\n mov.f32 x, %f1;\n {\n .reg "
        ".f32 %f<2>;\n\n mov.f32 %f1, x;\n\n mul.rn.f32 $result$1, %f1, %f1;\n$return$1:\n }\n "
        "mov.f32 %f2, $result$1;\n }\n",
        "{ // square, inline\n .reg .f32 $result$2;\n .reg .f32 x;\n mov.f32 x, %f2;\n",
        "{ // add_to, inline\n .reg .u64 p;\n .reg .u32 n;\n mov.u64 p, %rd2;\n mov.u32 n, 7;\n",
        "mov.u64 %rd1, p;\n cvta.to.global.u64 %rd2, %rd1;\n mov.u32 %r1, n;",
        "mov.f32 %f1, 0f3FC00000; // 1.5\n { // square, inline\n .reg .f32 $result$4;",
        "@%p1 bra $return$3;");
}

// Predicates and narrow values are passed in 32 bits.
TEST(every_type_is_passed)
{
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
        const ptx_type type = (ptx_type)t;
        ptx_builder *b = builder_at(80);
        ptx_func (b, "same", .result = type) {
            ptx_return_value(b, ptx_param(b, type, "x"));
        }
        ptx_entry (b, "k") {
            ptx_val x = ptx_call(b, "same", ptx_zero(type));
            ptx_val y = ptx_call(b, "same", ptx_copy(b, x));
            assert_int_equal(y.type, type);
            if (type != PTX_PRED)
                ptx_store(b, ptx_local(b, type, 1), 0, y);
        }
        const unsigned bits = type == PTX_PRED ? 1 : 8 * ptx_type_bytes(type);
        EXPECT_LINES(b, bits < 32 ? ".reg .b32 $result$1;\n .reg .u32 x;\n mov.u32 x, 0;" : "x, ",
                     type == PTX_PRED ? "setp.ne.u32 %p1, x, 0;\n\n selp.u32 $result$1, 1, 0, %p1;"
                     : bits < 32      ? "cvt.u16.u32 %rs1, x;\n\n cvt.u32.u16 $result$1, %rs1;"
                                      : ", x;\n\n mov",
                     bits < 32 ? "mov.b32 %r1, $result$1;" : ", $result$1;", "$return$2:");
    }
}

// A result can be in the register of the instruction that makes it, whatever type that wants.
TEST(a_result_is_reinterpreted)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "rounded", .result = PTX_U32) {
        ptx_val x = ptx_cvt(b, PTX_TF32, ptx_param(b, PTX_F32, "x"));
        ptx_return_value(b, ptx_bitcast(b, PTX_U32, x));
    }
    ptx_entry (b, "k") {
        ptx_store(b, ptx_local(b, PTX_U32, 1), 0, ptx_call(b, "rounded", 1.5));
    }
    EXPECT_LINES(b, ".reg .b32 $result$1;", "cvt.rna.tf32.f32 $result$1, %f1;");
}

TEST(calls_without_arguments_and_with_the_most)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "nothing") {}
    ptx_func (b, "many", .result = PTX_S32) {
        ptx_val sum = ptx_var(b, ptx_s32(0));
        for (unsigned k = 0; k < PTX_FUNC_MAX_PARAMS; k++) {
            char name[8];
            snprintf(name, sizeof name, "x%u", k);
            ptx_set(b, sum, ptx_add(b, sum, ptx_param(b, PTX_S32, name)));
        }
        ptx_return_value(b, sum);
    }
    ptx_entry (b, "k") {
        ptx_call(b, "nothing");
        ptx_call(b, "many", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16);
    }
    EXPECT_LINES(b, "{ // nothing, inline\n {\n", "$return$1:\n }\n }\n { // many, inline\n",
                 "mov.s32 x14, 15;\n mov.s32 x15, -16;\n {\n");
}

// Arguments are evaluated from left to right.
TEST(arguments_have_an_order)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "sum", .result = PTX_U32) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), y = ptx_param(b, PTX_U32, "y");
        ptx_val z = ptx_param(b, PTX_U32, "z");
        ptx_return_value(b, ptx_mad(b, x, y, z));
    }
    ptx_entry (b, "k")
        ptx_call(b, "sum", ptx_tid(b, PTX_X), ptx_tid(b, PTX_Y), ptx_tid(b, PTX_Z));
    EXPECT_LINES(b, "%r1, %tid.x;", "%r2, %tid.y;", "%r3, %tid.z;",
                 "mov.u32 x, %r1;\n mov.u32 y, %r2;\n mov.u32 z, %r3;");
}

TEST(values_on_every_path)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "absolute", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x");
        ptx_if (b, ptx_lt(b, x, 0))
            ptx_return_value(b, ptx_neg(b, x));
        ptx_else (b)
            ptx_return_value(b, x);
        ptx_comment(b, "not reached");
    }
    ptx_func (b, "first_power", .result = PTX_U32) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), power = ptx_var(b, ptx_u32(1));
        ptx_loop (b) {
            ptx_if (b, ptx_ge(b, power, x))
                ptx_return_value(b, power);
            ptx_set(b, power, ptx_add(b, power, power));
        }
    }
    ptx_entry (b, "k") {
        ptx_call(b, "absolute", 1);
        ptx_call(b, "first_power", 1);
    }
    EXPECT_LINES(b, "neg.f32 $result$1, %f1;\n bra $return$1;",
                 "mov.f32 $result$1, %f1;\n bra $return$1;");
}

#define PATH_MISSING(body)                                                                         \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        const int f =                                                                              \
            ptx_func_begin(b, (struct ptx_func_params) { .name = "f", .result = PTX_F32 });        \
        ptx_val x = ptx_param(b, PTX_F32, "x");                                                    \
        ptx_val p = ptx_lt(b, x, 0);                                                               \
        (void)p;                                                                                   \
        body;                                                                                      \
        ptx_func_end(b, f);                                                                        \
        EXPECT_ERROR(b, __FILE__,                                                                  \
                     "f: ptx_func: a path through 'f' ends without "                               \
                     "ptx_return_value(); the result is f32");                                     \
    } while (0)

TEST(a_path_without_a_value_is_refused)
{
    PATH_MISSING((void)x);
    PATH_MISSING(ptx_if (b, p) ptx_return_value(b, x));
    PATH_MISSING(ptx_if (b, p) ptx_return_value(b, x); ptx_else (b) ptx_copy(b, x));
    PATH_MISSING(ptx_loop (b) {
        ptx_break_if(b, p);
        ptx_return_value(b, x);
    });
    PATH_MISSING(ptx_label skip = ptx_label_create(b, "skip"); ptx_branch_if(b, p, skip);
                 ptx_return_value(b, x); ptx_label_place(b, skip));
}

// ---- checks through calls -----------------------------------------------------------------------

// Functions for the tests below.
static void with_barrier(ptx_builder *b)
{
    ptx_func (b, "with_barrier") {
        ptx_barrier(b);
    }
    ptx_func (b, "indirect") {
        ptx_call(b, "with_barrier");
    }
}

static void with_warp(ptx_builder *b)
{
    ptx_func (b, "warp_sum", .result = PTX_F32) {
        ptx_val sum = ptx_var(b, ptx_param(b, PTX_F32, "x"));
        for (unsigned step = 16; step; step /= 2)
            ptx_set(b, sum, ptx_add(b, sum, ptx_shfl_bfly(b, sum, step)));
        ptx_return_value(b, sum);
    }
}

#define CALLED(functions, body)                                                                    \
    ptx_builder *b = builder_at(80);                                                               \
    functions;                                                                                     \
    const int k = ptx_entry_begin(b, (struct ptx_entry_params) { .name = "k" });                   \
    ptx_val tid = ptx_tid(b, PTX_X), n = ptx_param(b, PTX_U32, "n");                               \
    ptx_store(b, ptx_shared(b, PTX_U32, 1), 0, n);                                                 \
    (void)tid;                                                                                     \
    body;                                                                                          \
    ptx_entry_end(b, k);
#define CALL_REFUSED(functions, body, ...)                                                         \
    do {                                                                                           \
        CALLED(functions, body)                                                                    \
        EXPECT_ERROR(b, __FILE__, "k: ", __VA_ARGS__);                                             \
    } while (0)
#define CALL_ACCEPTED(functions, body)                                                             \
    do {                                                                                           \
        CALLED(functions, body)                                                                    \
        (void)finished(b);                                                                         \
        ptx_builder_destroy(&b);                                                                   \
    } while (0)

TEST(barriers_go_through_calls)
{
    CALL_ACCEPTED(with_barrier(b), ptx_call(b, "indirect"));
    CALL_ACCEPTED(with_barrier(b), ptx_if (b, ptx_lt(b, n, 7)) ptx_call(b, "indirect"));
    CALL_REFUSED(with_barrier(b), ptx_if (b, ptx_lt(b, tid, 7)) ptx_call(b, "indirect"),
                 "ptx_call: 'indirect' has a barrier, and its call is in code that only some",
                 "the branch to $if_1_end (", ") differs between threads of a block");
    CALL_REFUSED(with_barrier(b), ptx_return_if(b, ptx_lt(b, tid, 7));
                 ptx_call(b, "indirect"), "'indirect' has a barrier", "branch to a return");
    CALL_REFUSED(with_warp(b), ptx_if (b, ptx_lt(b, tid, 7)) ptx_call(b, "warp_sum", 1),
                 "ptx_call: 'warp_sum' has operations of the full warp, and its call is in code");
    CALL_ACCEPTED(with_warp(b), ptx_if (b, ptx_lt(b, tid, 64)) ptx_call(b, "warp_sum", 1));

    // In the function, a parameter may differ between threads.
    ptx_builder *b = builder_at(80);
    ptx_func (b, "f") {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_if (b, ptx_eq(b, n, 0))
            ptx_barrier(b);
    }
    EXPECT_ERROR(b, "f: ptx_barrier: barrier 1 of the function is in code");
    b = builder_at(80);
    ptx_func (b, "f") {
        ptx_val p = ptx_param(b, PTX_PRED, "p");
        ptx_if (b, p)
            ptx_barrier_warp(b, ptx_full_warp());
    }
    EXPECT_ERROR(b, "f: bar.warp.sync with the full mask");
}

static void define_results(ptx_builder *b)
{
    ptx_func (b, "twice", .result = PTX_U32)
        ptx_return_value(b, ptx_mul(b, ptx_param(b, PTX_U32, "x"), 2));
    ptx_func (b, "thread", .result = PTX_U32)
        ptx_return_value(b, ptx_add(b, ptx_param(b, PTX_U32, "x"), ptx_tid(b, PTX_X)));
    ptx_func (b, "warp", .result = PTX_U32)
        ptx_return_value(b, ptx_shr(b, ptx_tid(b, PTX_X), ptx_u32(5)));
    // By the path, not by the value.
    ptx_func (b, "path", .result = PTX_U32) {
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 7))
            ptx_return_value(b, 1);
        ptx_return_value(b, 2);
    }
    ptx_func (b, "indirect_thread", .result = PTX_U32)
        ptx_return_value(b, ptx_call(b, "thread", ptx_call(b, "twice", 4)));
    ptx_entry (b, "all") {
        ptx_call(b, "warp");
        ptx_call(b, "path");
        ptx_call(b, "indirect_thread");
    }
}

#define AT(call)                                                                                   \
    ptx_if (b, ptx_eq(b, call, 0))                                                                 \
    ptx_barrier(b)
#define WARP_AT(call)                                                                              \
    ptx_if (b, ptx_eq(b, call, 0))                                                                 \
    ptx_barrier_warp(b, ptx_full_warp())

TEST(results_are_uniform_or_not)
{
    CALL_ACCEPTED(define_results(b), AT(ptx_call(b, "twice", n)));
    CALL_REFUSED(define_results(b), AT(ptx_call(b, "twice", tid)), "barrier 1 of the entry");
    CALL_REFUSED(define_results(b), AT(ptx_call(b, "thread", n)), "barrier 1 of the entry");
    CALL_REFUSED(define_results(b), AT(ptx_call(b, "path")), "barrier 1 of the entry");
    CALL_REFUSED(define_results(b), AT(ptx_call(b, "indirect_thread")), "barrier 1 of the entry");
    CALL_REFUSED(define_results(b), AT(ptx_call(b, "warp")), "barrier 1 of the entry");
    CALL_ACCEPTED(define_results(b), WARP_AT(ptx_call(b, "warp")));
    CALL_REFUSED(define_results(b), WARP_AT(ptx_call(b, "path")), "bar.warp.sync");
    CALL_ACCEPTED(define_results(b), WARP_AT(ptx_call(b, "twice", ptx_call(b, "warp"))));
}

// What a warp is depends on the block, which only the entry knows.
TEST(functions_ask_for_rows_of_warps)
{
    for (unsigned wide = 0; wide < 3; wide++) {
        static const uint32_t shapes[3][2] = { { 64, 2 }, { 48, 1 }, { 16, 16 } };
        ptx_builder *b = builder_at(80);
        ptx_func (b, "first_warp") {
            ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 32))
                ptx_barrier_warp(b, ptx_full_warp());
        }
        ptx_func (b, "through")
            ptx_call(b, "first_warp");
        ptx_entry (b, "k", .block = { shapes[wide][0], shapes[wide][1] })
            ptx_call(b, "through");
        if (wide < 2) {
            (void)finished(b);
            ptx_builder_destroy(&b);
        } else {
            EXPECT_ERROR(b, "k: ptx_call: the warp operations of 'through' need blocks with a "
                            "multiple of 32 threads in x, or one row of threads; those of the "
                            "entry are 16 x 16 x 1");
        }
    }
}

// ---- inline code --------------------------------------------------------------------------------

// Two functions, with all that names differ in: a result, labels, returns, arrays.
static void define_inlined(ptx_builder *b)
{
    ptx_func (b, "leaf", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x"), flag = ptx_param(b, PTX_PRED, "flag");
        ptx_if (b, flag)
            ptx_return_value(b, ptx_mul(b, x, 2));
        ptx_return_value(b, ptx_neg(b, x));
    }
    ptx_func (b, "outer", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x");
        ptx_ptr shared = ptx_shared(b, PTX_F32, 32), local = ptx_local(b, PTX_F32, 4);
        ptx_store(b, shared, ptx_laneid(b), x);
        ptx_store(b, local, 0, x);
        ptx_return_value(b, ptx_call(b, "leaf", ptx_load(b, local, 0), ptx_gt(b, x, 1)));
    }
}

// The entry has the function's code, and no call.
static void expect_code(ptx_builder *b, int k, unsigned times)
{
    ptx_entry_end(b, k);
    const char *text = finished(b);
    assert_null(strstr(text, ".func"));
    assert_null(strstr(text, "call"));
    for (; times; times--) {
        text = strstr(text, "{ // outer, inline");
        assert_non_null(text++);
    }
    assert_null(strstr(text, "{ // outer, inline"));
    ptx_builder_destroy(&b);
}

#define EXPECT_CODE(times, body)                                                                   \
    do {                                                                                           \
        ptx_builder *b = builder_at(90);                                                           \
        define_inlined(b);                                                                         \
        const struct ptx_entry_params entry = { .name = "k", .block = { 64 } };                    \
        const int k = ptx_entry_begin(b, entry);                                                   \
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p");                                                \
        ptx_val tid = ptx_tid(b, PTX_X), n = ptx_load(b, p, 0);                                    \
        ptx_val warp = ptx_shr(b, tid, 5), x = ptx_load(b, p, tid);                                \
        (void)n, (void)warp;                                                                       \
        body;                                                                                      \
        expect_code(b, k, times);                                                                  \
    } while (0)
#define CALL ptx_store(b, p, tid, ptx_call(b, "outer", x))

TEST(calls_are_inline)
{
    EXPECT_CODE(1, CALL);
    EXPECT_CODE(1, ptx_if (b, ptx_lt(b, warp, 1)) CALL);
    EXPECT_CODE(1, ptx_if (b, ptx_lt(b, tid, 7)) CALL);
    EXPECT_CODE(1, ptx_grid_stride (b, i, ptx_u32(1000)) CALL);
    EXPECT_CODE(2, CALL; ptx_if (b, ptx_lt(b, n, 7)) CALL);
}

TEST(inline_code_has_names_of_its_own)
{
    ptx_builder *b = builder_at(90);
    define_inlined(b);
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, tid, 7))
            ptx_store(b, p, tid, ptx_call(b, "outer", 3));
    }
    EXPECT_LINES(b, ".shared .align 16 .f32 outer$shared_1[32];\n\n.visible .entry",
                 "{ // outer, inline\n .reg .f32 $result$1;\n .reg .f32 x;\n mov.f32 x, %f1;\n {",
                 ".local .align 16 .f32 $local_2[4];", "mov.u32 %r1, outer$shared_1;",
                 "{ // leaf, inline\n .reg .f32 $result$2;\n .reg .f32 x;\n .reg .u32 flag;\n"
                 " mov.f32 x, %f2;\n mov.u32 flag, %r4;\n {",
                 "@!%p1 bra $2$if_1_end;\n mul.rn.f32 $result$2, %f1, 0f40000000; // 2.0\n"
                 " bra $return$2;\n$2$if_1_end:\n neg.f32 $result$2, %f1;\n$return$2:\n }",
                 "mov.f32 $result$1, $result$2;\n }\n$return$1:\n }\n mov.f32 %f2, $result$1;");
}

// A function that calls the one before, `count` deep.
static ptx_builder *nested(unsigned count)
{
    char name[2][16] = { "f0", "" };
    ptx_builder *b = builder_at(90);

    ptx_func (b, "f0")
        ptx_barrier_warp(b, ptx_full_warp());
    for (unsigned k = 1; k < count; k++) {
        snprintf(name[k & 1], sizeof name[0], "f%u", k);
        ptx_func (b, name[k & 1])
            ptx_call(b, name[~k & 1]);
    }
    ptx_entry (b, "k", .block = { 64 })
        ptx_call(b, name[~count & 1]);
    return b;
}

TEST(calls_are_nested_64_deep)
{
    ptx_builder *b = nested(64);
    EXPECT_LINES(b, "{ // f63, inline", "{ // f0, inline");
    b = nested(65);
    EXPECT_ERROR(b, "ptx_call: a call is written inline; with 'f64' more than 64 are nested");
}

TEST(too_much_inline_code_is_refused)
{
    char name[2][8] = { "f0", "" };

    ptx_builder *b = builder_at(90);
    ptx_func (b, "f0")
        ptx_store(b, ptx_local(b, PTX_U32, 1), 0, 1);
    for (int k = 1; k < 14; k++) {
        snprintf(name[k & 1], sizeof name[0], "f%d", k);
        ptx_func (b, name[k & 1]) {
            ptx_call(b, name[~k & 1]);
            ptx_call(b, name[~k & 1]);
        }
    }
    ptx_entry (b, "k", .block = { 64 })
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 7))
            ptx_call(b, name[1]);
    EXPECT_ERROR(b, "ptx_call: a call is written inline", "more than 4096 times");

    b = builder_at(90);
    ptx_func (b, "f")
        ptx_asm(b, "{ .shared .b32 s; st.shared.u32 [s], 1; }", .writes = PTX_MEMORY_SHARED);
    ptx_func (b, "g")
        ptx_call(b, "f");
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_call(b, "g");
    }
    EXPECT_ERROR(b, "ptx_call: 'f' has shared memory that a text of ptx_asm() declares",
                 "use ptx_shared()");
}

// ---- bad input ----------------------------------------------------------------------------------

TEST(bad_functions_are_refused)
{
#define FUNC_REFUSED(call, ...)                                                                    \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        square(b);                                                                                 \
        call;                                                                                      \
        EXPECT_ERROR(b, __FILE__, __VA_ARGS__);                                                    \
    } while (0)
    FUNC_REFUSED((void)b, "ptx_func: function 'square' is never called");
    FUNC_REFUSED(ptx_entry (b, "square") {}, "ptx_entry: the module already has a function");
    FUNC_REFUSED(ptx_func (b, "square") {}, "ptx_func: the module already has a function 'square'");
    FUNC_REFUSED(ptx_func (b, NULL) {}, "ptx_func: the name is missing");
    FUNC_REFUSED(ptx_func (b, "x") {}, "'x' names a parameter and an entry or function");
    FUNC_REFUSED(ptx_func (b, "f", .result = (ptx_type)77) {}, "77 is not a ptx_type");
    FUNC_REFUSED(ptx_entry (b, "k") ptx_func_begin(b, (struct ptx_func_params) { .name = "f" }),
                 "entry 'k' is still open: entries and functions do not nest");
    FUNC_REFUSED(ptx_func (b, "f") ptx_entry_begin(b, (struct ptx_entry_params) { .name = "k" }),
                 "function 'f' is still open");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_param_array(b, PTX_F32, "a", 1); },
        "ptx_param_array: 'a' is an array; functions take values");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_param(b, PTX_F32, "a"); }, "'a' is never used");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_param(b, PTX_NONE, "a"); }, "'a' needs a type");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_param(b, PTX_F32, "square"); }, "'square' names a");
    FUNC_REFUSED(
        ptx_func (b, "f") {
            for (char name[] = "A"; *name <= 'A' + PTX_FUNC_MAX_PARAMS; ++*name)
                ptx_param(b, PTX_F32, name);
        },
        "a function has at most 16 parameters; 'Q' is one more");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_return_value(b, 1); }, "the function has no result");
    FUNC_REFUSED(
        ptx_entry (b, "k") { ptx_return_value(b, 1); }, "an entry has no result");
    FUNC_REFUSED(
        ptx_func (b, "f", .result = PTX_F32) { ptx_return(b); },
        "f: ptx_return: the function returns f32; ptx_return_value() gives it");
    FUNC_REFUSED(
        ptx_func (b, "f", .result = PTX_F32) { ptx_return_if(b, ptx_bool(true)); },
        "ptx_return_if: the function returns f32");
    FUNC_REFUSED(
        ptx_func (b, "f", .result = PTX_F32) { ptx_return_value(b, ptx_u32(1)); },
        "the value is u32; the result of the function is f32");
    FUNC_REFUSED(
        ptx_func (b, "f", .result = PTX_U8) { ptx_return_value(b, 256); },
        "the value is the number 256, which u8 cannot hold");
    FUNC_REFUSED(ptx_func_end(b, ptx_entry_begin(b, (struct ptx_entry_params) { .name = "k" })),
                 "ptx_func: a block inside it was never closed");
    FUNC_REFUSED(ptx_func_begin(b, (struct ptx_func_params) { .name = "f" }),
                 "a ptx_func block was never closed");
}

TEST(bad_calls_are_refused)
{
#define CALLS_REFUSED(call, ...)                                                                   \
    FUNC_REFUSED(const int k = ptx_entry_begin(b, (struct ptx_entry_params) { .name = "k" });      \
                 ptx_val u = ptx_copy(b, ptx_u32(1)); (void)u; call;                               \
                 ptx_entry_end(b, k), "k: ", __VA_ARGS__)
    ptx_val other = { 0 };

    CALLS_REFUSED(ptx_call(b, "sqare", 1), "ptx_call: there is no function 'sqare' before this",
                  "so far: 'square'");
    CALLS_REFUSED(ptx_call_emit(b, NULL, NULL, 0),
                  "the name is missing; the functions so far: 'square'");
    CALLS_REFUSED(ptx_call(b, "k"), "'k' is an entry, which the host launches");
    CALLS_REFUSED(ptx_call(b, "square"), "'square' takes 1 argument; got 0");
    CALLS_REFUSED(ptx_call(b, "square", 1, 2), "'square' takes 1 argument; got 2");
    CALLS_REFUSED(ptx_call(b, "square", u), "argument 1 is u32; parameter 'x' of 'square' is f32");
    CALLS_REFUSED(ptx_call(b, "square", (ptx_val) { 0 }), "argument 1 was never set");
    CALLS_REFUSED(ptx_call(b, "square", 1e300), "argument 1 is the number");
    FUNC_REFUSED(
        ptx_func (b, "nothing") {} ptx_entry (b, "k") {
            ptx_call(b, "square", ptx_call(b, "nothing"));
        },
        "ptx_call: argument 1 is what 'nothing' returns, which has no result");
    FUNC_REFUSED(
        ptx_func (b, "nothing") {} ptx_entry (b, "k") { ptx_add(b, 1, ptx_call(b, "nothing")); },
        "ptx_add: y is what 'nothing' returns, which has no result");
    CALLS_REFUSED(ptx_if (b, ptx_eq(b, u, 1)) other = ptx_call(b, "square", 1);
                  ptx_call(b, "square", other), "argument 1 was made inside a block");
    CALLS_REFUSED(ptx_set(b, ptx_var(b, ptx_f32(0)), (ptx_call(b, "square", u))), "argument 1");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_call(b, "f"); },
        "function 'f' has not ended yet: functions do not recurse");
    FUNC_REFUSED(ptx_call(b, "square", 1), "there is no open entry");
    // Whatever number the value's register got, and that of the open block.
    for (int before = 0; before < 4; before++)
        FUNC_REFUSED(
            ptx_val v = { 0 }; ptx_func (b, "f") {
                for (int more = 0; more <= before; more++)
                    v = ptx_laneid(b);
            } ptx_entry (b, "k") { ptx_add(b, v, v); },
                               "x was made in another function, 'f'");
    FUNC_REFUSED(
        ptx_ptr p = { 0 }; ptx_func (b, "f") { p = ptx_shared(b, PTX_F32, 1); } ptx_entry (b, "k") {
            ptx_load(b, p, 0);
        },
                           "declared in another function, 'f'");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_shared(b, PTX_F32, 8000); } ptx_func (b, "g") {
            ptx_call(b, "f");
        } ptx_entry (b, "k") {
            ptx_shared(b, PTX_F32, 8000);
            ptx_call(b, "g");
        },
        "with the arrays of 'f', 64000 bytes of shared memory are declared");
    // Each call has its own local memory.
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_local(b, PTX_F32, 40000); } ptx_func (b, "g") {
            ptx_local(b, PTX_F32, 40000);
            ptx_call(b, "f");
        } ptx_func (b, "h") { ptx_local(b, PTX_F32, 40000); } ptx_entry (b, "k") {
            ptx_local(b, PTX_F32, 11072);
            ptx_call(b, "h");
            ptx_call(b, "g");
            ptx_local(b, PTX_F32, 1);
        },
        "ptx_local: 1 element of f32: 4 bytes, and 524288 bytes are declared already");
    FUNC_REFUSED(
        ptx_func (b, "f") { ptx_local(b, PTX_F32, 100000); } ptx_entry (b, "k") {
            ptx_local(b, PTX_F32, 100000);
            ptx_call(b, "f");
        },
        "with the arrays of 'f', 800000 bytes of local memory are declared");
    assert_int_equal((ptx_call_emit)(NULL, "f", NULL, 0).kind, PTX_KIND_POISON);
}

// Functions do not count as entries.
TEST(parameters_are_those_of_entries)
{
    struct ptx_param_info info;

    OWNED(ptx_builder) *b = builder_at(80);
    square(b);
    ptx_entry (b, "k")
        ptx_call(b, "square", ptx_param(b, PTX_F32, "a"));
    assert_true(ptx_builder_param(b, 0, 0, &info));
    assert_string_equal(info.name, "a");
    assert_false(ptx_builder_param(b, 1, 0, &info));
}

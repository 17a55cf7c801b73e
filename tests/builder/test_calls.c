// SPDX-License-Identifier: MIT
// Integers of several words, vectors of atomics, prefetches, arrivals, functions with several
// results, parameters without use, registers of an entry: their text, and what is refused.
#include "builder_fixture.h"

#define REFUSED(call, ...) REFUSED_AT(90, call, __VA_ARGS__)

#define COMMA ,

static void store_all(ptx_builder *b, ptx_ptr out, unsigned count, const ptx_val *x)
{
    for (unsigned k = 0; k < count; k++)
        ptx_store(b, out, k, x[k]);
}

// ---- integers of several words ------------------------------------------------------------------

TEST(a_chain_stands_together)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_val x[3], sum[3], carry, borrow, wide[4];
        for (unsigned k = 0; k < 3; k++)
            x[k] = ptx_load(b, p, k);
        ptx_words_add(b, 3, sum, x, (ptx_val[]) { ptx_u32(7), x[1], x[2] }, &carry);
        ptx_words_sub(b, 3, x, x, sum, &borrow);
        ptx_words_add(b, 2, x, x, sum, NULL);
        ptx_words_mad(b, 3, wide, x, ptx_add(b, carry, borrow), sum);
        store_all(b, p, 4, wide);
    }
    EXPECT_LINES(b,
                 " add.cc.u32 %r4, %r1, 7;\n addc.cc.u32 %r5, %r2, %r2;\n addc.cc.u32 %r6, %r3, "
                 "%r3;\n addc.u32 %r7, 0, 0;\n",
                 " sub.cc.u32 %r8, %r1, %r4;\n subc.cc.u32 %r9, %r2, %r5;\n subc.cc.u32 %r10, %r3, "
                 "%r6;\n subc.u32 %r11, 0, 0;\n sub.u32 %r11, 0, %r11;\n",
                 " add.cc.u32 %r12, %r8, %r4;\n addc.u32 %r13, %r9, %r5;\n",
                 " mad.lo.cc.u32 %r15, %r12, %r14, %r4;\n madc.lo.cc.u32 %r16, %r13, %r14, %r5;\n "
                 "madc.lo.cc.u32 %r17, %r10, %r14, %r6;\n addc.u32 %r18, 0, 0;\n mad.hi.cc.u32 "
                 "%r16, %r12, %r14, %r16;\n madc.hi.cc.u32 %r17, %r13, %r14, %r17;\n madc.hi.u32 "
                 "%r18, %r10, %r14, %r18;\n");
}

// A variable that a chain reads keeps its value until the chain has ended.
TEST(a_chain_sets_no_variable)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U64, "p");
        ptx_val x[2] = { ptx_var(b, ptx_load(b, p, 0)), ptx_var(b, ptx_load(b, p, 1)) };
        ptx_val sum[2];
        ptx_words_add(b, 2, sum, x, (ptx_val[]) { x[1], x[0] }, NULL);
        ptx_set(b, x[0], sum[0]);
        ptx_set(b, x[1], sum[1]);
        store_all(b, p, 2, x);
    }
    EXPECT_LINES(b, "add.cc.u64 %rd5, %rd3, %rd4;\n addc.u64 %rd6, %rd4, %rd3;\n",
                 "mov.u64 %rd3, %rd5;", "mov.u64 %rd4, %rd6;");
}

// A sum of words that differ between threads differs in every word.
TEST(carries_diverge)
{
    NEW_ENTRY (b, 80) {
        ptx_val x[2] = { ptx_tid(b, PTX_X), ptx_u32(1) }, sum[2];
        ptx_words_add(b, 2, sum, x, (ptx_val[]) { ptx_u32(1), ptx_u32(2) }, NULL);
        ptx_if (b, ptx_eq(b, sum[1], 3))
            ptx_barrier(b);
    }
    EXPECT_ERROR(b, "k: ptx_barrier:");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val x[2] = { ptx_ctaid(b, PTX_X), ptx_u32(1) }, sum[2];
        ptx_words_add(b, 2, sum, x, (ptx_val[]) { ptx_u32(1), ptx_u32(2) }, NULL);
        ptx_if (b, ptx_eq(b, sum[1], 3))
            ptx_barrier(b);
    }
    EXPECT_LINES(b, "bar.sync 0;");
}

TEST(wrong_words_are_named)
{
    ptx_val d[40], none[40] = { { 0 } }, w[2] = { ptx_u32(1), ptx_u32(2) };
    ptx_val mixed[2] = { ptx_u32(1), ptx_u64(2) }, signs[2] = { ptx_s32(1), ptx_s32(2) };
    ptx_val carry = ptx_u32(1);

    REFUSED(ptx_words_add(b, 0, d, w, w, NULL), "words_add: 0 words; an integer has 1 to 32");
    REFUSED(ptx_words_sub(b, 33, d, none, none, NULL), "words_sub: 33 words");
    REFUSED(ptx_words_add(b, 2, NULL, w, w, NULL), "words_add: there is no array for the result");
    REFUSED(ptx_words_add(b, 2, d, NULL, w, NULL), "words_add: there is no array x");
    REFUSED(ptx_words_add(b, 2, d, w, none, &carry), "words_add: y[0] was never set");
    assert_int_equal(carry.kind, PTX_KIND_POISON);
    assert_int_equal(d[1].kind, PTX_KIND_POISON);
    REFUSED(ptx_words_add(b, 2, d, mixed, w, NULL), "words_add: x[1] is u64; x[0] is u32");
    REFUSED(ptx_words_sub(b, 2, d, signs, w, NULL), "words_sub: x[0] is s32; words are u32 or u64");
    REFUSED(ptx_words_mad(b, 2, d, w, f, w), "words_mad: y is f32; x[0] is u32");
    REFUSED(ptx_words_mad(b, 2, d, w, 1e10, w), "words_mad: y is the number 10000000000");
    REFUSED(ptx_words_mad(b, 2, d, w, u, mixed), "words_mad: z[1] is u64; x[0] is u32");
}

// ---- atomics on vectors, prefetches, arrivals ---------------------------------------------------

TEST(vectors_are_added)
{
    NEW_ENTRY (b, 90) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), h = ptx_param_ptr(b, PTX_BF16, "h");
        ptx_val x = ptx_load(b, p, 0), y = ptx_load(b, h, 0);
        ptx_atomic_vec(b, PTX_ATOMIC_add, p, 4, ptx_vec4(x, 1.5, x, 0));
        ptx_vec old = ptx_atomic_vec(b, PTX_ATOMIC_add, p, 8, ptx_vec2(x, x),
                                     .order = PTX_ORDER_ACQUIRE, .scope = PTX_SCOPE_SYSTEM);
        ptx_store(b, p, 0, old.lane[1]);
        ptx_atomic_vec(b, PTX_ATOMIC_max, h, 0, ptx_vec8(y, y, y, y, y, y, y, y),
                       .order = PTX_ORDER_RELEASE);
    }
    EXPECT_LINES(b, "red.global.add.v4.f32 [%rd2+16], {%f1, 0f3FC00000, %f1, 0f00000000}; // 1.5",
                 "atom.acquire.sys.global.add.v2.f32 {%f6, %f7}, [%rd2+32], {%f1, %f1};",
                 "red.release.gpu.global.max.noftz.v8.bf16 [%rd4], {%rs1, %rs1, %rs1, %rs1, %rs1, "
                 "%rs1, %rs1, %rs1};");
}

TEST(lines_are_prefetched)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p", .readonly = true);
        ptx_ptr l = ptx_local(b, PTX_F32, 64);
        ptx_prefetch(b, p, 32, PTX_PREFETCH_L2);
        ptx_prefetch(b, p, ptx_tid(b, PTX_X), PTX_PREFETCH_L1);
        ptx_prefetch(b, p, 64, PTX_PREFETCH_L2_EVICT_LAST);
        ptx_prefetch(b, p, 96, PTX_PREFETCH_L2_EVICT_NORMAL);
        ptx_prefetch(b, p, 128, PTX_PREFETCH_UNIFORM);
        ptx_prefetch(b, l, 32, PTX_PREFETCH_L1);
        ptx_ptr generic =
            ptx_ptr_from(b, PTX_F32, PTX_SPACE_GENERIC, ptx_ptr_generic(b, ptx_at(b, p, 4)));
        ptx_prefetch(b, generic, 1, PTX_PREFETCH_UNIFORM);
    }
    EXPECT_LINES(b, "prefetch.global.L2 [%rd2+128];", "prefetch.global.L1 [%rd3];",
                 "prefetch.global.L2::evict_last [%rd2+256];",
                 "prefetch.global.L2::evict_normal [%rd2+384];", "cvta.global.u64 %rd5, %rd4;",
                 "prefetchu.L1 [%rd5];", "prefetch.local.L1 [$local_1+128];",
                 "prefetchu.L1 [%rd7+4];");
}

TEST(threads_arrive)
{
    NEW_ENTRY_WITH (b, 80, .block = { 128 }) {
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 64))
            ptx_barrier_arrive(b, 3, 128);
        ptx_else (b)
            ptx_barrier_named(b, 3, 128);
    }
    EXPECT_LINES(b, "bar.arrive 3, 128;", "bar.sync 3, 128;");
}

TEST(wrong_accesses_are_named)
{
#define WITH(type, call, ...)                                                                      \
    REFUSED(ptx_ptr v = ptx_param_ptr(b, type, "v"); ptx_val z = ptx_zero(type); (void)z;          \
            call, __VA_ARGS__)
    WITH(PTX_F32, ptx_atomic_vec(b, PTX_ATOMIC_max, v, 0, ptx_vec2(f, f)),
         "atomic_vec: there is no atomic max of vectors of f32", "add of f32");
    WITH(PTX_U32, ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ptx_vec2(u, u)), "of vectors of u32");
    WITH(PTX_F16, ptx_atomic_vec(b, PTX_ATOMIC_exch, v, 0, ptx_vec2(h, h)), "exch of vectors");
    WITH(PTX_F32, ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ptx_vec8(f, f, f, f, f, f, f, f)),
         "atomic_vec: 8 lanes of f32; there are 2 and 4, and 8 of f16 and bf16");
    WITH(PTX_F32, ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ((ptx_vec) { { f }, 1 })), "1 lanes");
    WITH(PTX_F32, ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ptx_vec2(f, u)),
         "atomic_vec: lane 1 is u32; the pointer is to f32");
    WITH(PTX_F32, ptx_atomic_vec(b, PTX_ATOMIC_add, v, f, ptx_vec2(f, f)), "the index is f32");
    WITH(PTX_F32,
         ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ptx_vec2(f, f), .order = PTX_ORDER_SEQ_CST),
         "atomic_vec: order 6; an atomic takes PTX_ORDER_RELAXED");
    WITH(PTX_F32, ptx_atomic_vec(b, (ptx_atomic_op)99, v, 0, ptx_vec2(f, f)),
         "atomic_vec: 99 is not an operation");
    REFUSED(ptx_ptr s = ptx_shared(b, PTX_F32, 8);
            ptx_atomic_vec(b, PTX_ATOMIC_add, s, 0, ptx_vec2(f, f)),
            "atomic_vec: an atomic reads and writes global memory; the pointer is shared");
    REFUSED(ptx_ptr r = ptx_param_ptr(b, PTX_F32, "r", .readonly = true);
            ptx_atomic_vec(b, PTX_ATOMIC_add, r, 0, ptx_vec2(f, f)), "the pointer is readonly");
    REFUSED_AT(89, ptx_ptr v = ptx_param_ptr(b, PTX_F32, "v");
               ptx_atomic_vec(b, PTX_ATOMIC_add, v, 0, ptx_vec2(f, f)), "atomic_vec: atom.global.",
               "needs sm_90 or newer; the target is sm_89");

    REFUSED(ptx_ptr s = ptx_shared(b, PTX_F32, 8);
            ptx_prefetch(b, s, 0, PTX_PREFETCH_L1),
            "prefetch: '.L1' of shared memory; it takes global or local memory");
    REFUSED(ptx_ptr l = ptx_local(b, PTX_F32, 8);
            ptx_prefetch(b, l, 0, PTX_PREFETCH_UNIFORM),
            "prefetch: 'prefetchu.L1' of local memory; it takes global memory");
    REFUSED(ptx_ptr l = ptx_local(b, PTX_F32, 8); ptx_prefetch(b, l, 0, PTX_PREFETCH_L2_EVICT_LAST),
                                                  "prefetch: '.L2::evict_last' of local memory");
    REFUSED(ptx_ptr l = ptx_local(b, PTX_F32, 8);
            ptx_prefetch(b, l, 8, PTX_PREFETCH_L1),
            "prefetch: 4 bytes at byte 32 would end past the array's end");
    WITH(PTX_F32, ptx_prefetch(b, v, 0, (ptx_prefetch_kind)5), "prefetch: 5 is not a cache");
    REFUSED_AT(75, ptx_ptr v = ptx_param_ptr(b, PTX_F32, "v");
               ptx_prefetch(b, v, 0, PTX_PREFETCH_L2_EVICT_LAST),
               "prefetch: prefetch.global.L2::evict_last needs sm_80 or newer");

    REFUSED(ptx_barrier_arrive(b, 16, 64), "barrier_arrive: barrier 16 for 64 threads");
    REFUSED(ptx_barrier_arrive(b, 1, 0), "barrier_arrive: barrier 1 needs the number of threads");
    REFUSED(ptx_barrier_arrive(b, 1, 100), "barrier_arrive: barrier 1 for 100", "whole warps");
    NEW_ENTRY (b, 80)
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 7))
            ptx_barrier_arrive(b, 1, 64);
    EXPECT_ERROR(b, "k: bar.arrive needs all lanes of a warp, and is in code "
                    "that only some lanes");
    b = builder_at(80);
    ptx_entry (b, "k", .block = { 64 })
        ptx_barrier_arrive(b, 1, 96);
    EXPECT_ERROR(b, "barrier_arrive: barrier 1 waits for 96 threads, and a block of the entry");
}

// Arrivals and waits at one barrier have one count, as far as it is known.
TEST(barriers_count_once)
{
    static const struct {
        unsigned id, wait, arrive; // wait of 1: ptx_barrier()
        uint32_t block;
        const char *error;
    } cases[] = {
        { 2, 96, 64, 128, "ptx_barrier_arrive: barrier 2 counts 64 threads here and 96 before" },
        { 0, 1, 64, 128, "ptx_barrier_arrive: barrier 0 counts 64 threads here and 128 before" },
        { 3, 0, 64, 100, "ptx_barrier_arrive: barrier 3 counts 64 threads here and 128 before" },
        { 0, 1, 128, 100, NULL },
        { 3, 0, 64, 0, NULL },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NEW_ENTRY_WITH (b, 80,
                        .block = { cases[k].block, cases[k].block != 0, cases[k].block != 0 }) {
            if (cases[k].wait == 1)
                ptx_barrier(b);
            else
                ptx_barrier_named(b, cases[k].id, cases[k].wait);
            ptx_barrier_arrive(b, cases[k].id, cases[k].arrive);
        }
        if (cases[k].error)
            EXPECT_ERROR(b, cases[k].error);
        else
            EXPECT_LINES(b, "bar.arrive ");
    }
    NEW_ENTRY_WITH (b, 80, .block = { 128 }) {
        ptx_barrier_arrive(b, 1, 64);
        ptx_barrier_named(b, 1, 128);
    }
    EXPECT_ERROR(b, "ptx_barrier_named: barrier 1 counts 128 threads here and 64 before");
    b = builder_at(80);
    ptx_entry (b, "k", .block = { 128 }) { // one after another
        ptx_barrier(b);
        ptx_barrier_named(b, 0, 64);
    }
    EXPECT_LINES(b, "bar.sync 0;", "bar.sync 0, 64;");
}

// ---- functions with several results -------------------------------------------------------------

static void divide(ptx_builder *b)
{
    ptx_func (b, "divide", .results = { PTX_U32, PTX_U16, PTX_PRED }) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), y = ptx_param(b, PTX_U32, "y");
        ptx_if (b, ptx_eq(b, y, 0))
            ptx_return_values(b, 0xffffffff, 0, ptx_bool(false));
        ptx_return_values(b, ptx_div(b, x, y), ptx_cvt(b, PTX_U16, ptx_rem(b, x, y)),
                          ptx_lt(b, y, x));
    }
}

TEST(a_function_returns_several_values)
{
    ptx_builder *b = builder_at(80);
    divide(b);
    ptx_func (b, "first", .results = { PTX_F64 })
        ptx_return_value(b, 1);
    ptx_entry (b, "k") {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_vec d = ptx_call_many(b, "divide", ptx_load(b, p, 0), 10);
        assert_int_equal(d.lanes, 3);
        assert_int_equal(d.lane[0].type, PTX_U32);
        assert_int_equal(d.lane[1].type, PTX_U16);
        assert_int_equal(d.lane[2].type, PTX_PRED);
        ptx_if (b, d.lane[2])
            ptx_store(b, p, 0, d.lane[0]);
        ptx_store(b, p, 1, ptx_cvt(b, PTX_U32, d.lane[1]));
        assert_int_equal(ptx_call(b, "first").type, PTX_F64);
        assert_int_equal(ptx_call_many(b, "first").lanes, 1);
    }
    EXPECT_LINES(b,
                 "{ // divide, inline\n .reg .b32 $result$1;\n .reg .b32 $result_2$1;\n .reg .b32 "
                 "$result_3$1;\n .reg .u32 x;\n .reg .u32 y;\n mov.u32 x, %r1;\n mov.u32 y, 10;\n",
                 "mov.u32 $result$1, 0xffffffff;\n mov.u32 $result_2$1, 0;\n mov.u32 $result_3$1, "
                 "0;\n bra $return$1;",
                 "div.u32 $result$1, %r1, %r2;", "selp.u32 $result_3$1, 1, 0, ",
                 "$return$1:\n }\n mov.b32 %r2, $result$1;\n mov.b32 %r3, $result_2$1;\n mov.b32 "
                 "%r4, $result_3$1;\n }\n",
                 "cvt.u16.u32 %rs1, %r3;", "setp.ne.u32 %p1, %r4, 0;");
}

// Each result is as uniform as the function makes it.
TEST(results_diverge_one_by_one)
{
    for (unsigned k = 0; k < 2; k++) {
        ptx_builder *b = builder_at(80);
        ptx_func (b, "two", .results = { PTX_U32, PTX_U32 })
            ptx_return_values(b, ptx_ctaid(b, PTX_X), ptx_tid(b, PTX_X));
        ptx_entry (b, "k", .block = { 64 })
            ptx_if (b, ptx_eq(b, ptx_call_many(b, "two").lane[k], 3))
                ptx_barrier(b);
        if (k == 0)
            EXPECT_LINES(b, "bar.sync 0;");
        else
            EXPECT_ERROR(b, "k: ptx_barrier:");
    }
}

TEST(wrong_functions_are_named)
{
#define FUNCTION(types, body, ...)                                                                 \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_func (b, "f", types) {                                                                 \
            body;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, __VA_ARGS__);                                                              \
    } while (0)
#define TWO .results = { PTX_U32, PTX_F32 }
    FUNCTION(TWO, ptx_return_value(b, 1),
             "f: ptx_return_value: the function has 2 results; got 1 value");
    FUNCTION(TWO, ptx_return_values(b, 1, 2, 3),
             "return_values: the function has 2 results; got 3");
    FUNCTION(TWO, ptx_return(b),
             "return: the function returns 2 values; ptx_return_values() gives them");
    FUNCTION(TWO, ptx_return_values(b, 1, ptx_u32(2)),
             "return_values: value 2 is u32; that result of the function is f32");
    FUNCTION(TWO, ptx_return_values(b, 1.5, 2), "value 1 is the number 1.5, which u32 cannot hold");
    FUNCTION(TWO, ptx_return_values(b, 1, ((ptx_val) { 0 })), "value 2 was never set");
    FUNCTION(TWO, , "a path through 'f' ends without ptx_return_values() of its 2 values");
    FUNCTION(TWO, ptx_trap(b), "of its 2 values, which a path that ends in a trap needs, too");
    FUNCTION(.result = PTX_U32, ptx_trap_message(b, "no"),
             "ptx_return_value(); the result is u32; a path that ends in a trap needs it, too");
    FUNCTION(TWO, ptx_return_values_emit(b, NULL, 2), "return_values: there is no array of values");
    FUNCTION(.results = { PTX_U32 COMMA PTX_NONE COMMA PTX_F32 }, ,
             "func: .results[1] of 'f' has no type, and .results[2] has one");
    FUNCTION(.result = PTX_U32 COMMA.results = { PTX_F32 }, ,
             "func: .result and .results of 'f' exclude each other");
    FUNCTION(.results = { PTX_U32 COMMA(ptx_type) 99 }, , "the result of 'f' needs a type; 99 is");
    FUNCTION(.result = PTX_NONE, ptx_return_values(b, 1, 2),
             "the function has no result; ptx_return()");
    ptx_builder *b = builder_at(80);
    divide(b);
    ptx_entry (b, "k")
        ptx_call(b, "divide", 1, 2);
    EXPECT_ERROR(b, "k: ptx_call: 'divide' has 3 results; ptx_call_many() gives them");
    b = builder_at(80);
    divide(b);
    ptx_entry (b, "k")
        ptx_call_many(b, "divide", 1);
    EXPECT_ERROR(b, "ptx_call_many: 'divide' takes 2 arguments; got 1");
    for (int many = 0; many < 2; many++) {
        b = builder_at(80);
        ptx_func (b, "f")
            ptx_printf(b, "%u", ptx_param(b, PTX_U32, "x"));
        ptx_entry (b, "k") {
            if (many)
                ptx_call_many_emit(b, "f", NULL, 1);
            else
                ptx_call_emit(b, "f", NULL, 1);
        }
        EXPECT_ERROR(b, many ? "k: ptx_call_many: there is no array of arguments for 'f'"
                             : "k: ptx_call: there is no array of arguments for 'f'");
    }
    b = builder_at(80);
    divide(b);
    ptx_entry (b, "k")
        ptx_add(b, ptx_call_many(b, "divide", 1, 2).lane[3], 1);
    EXPECT_ERROR(b, "k: ptx_add: x was never set");
}

// ---- parameters without use, registers of an entry ----------------------------------------------

// Variants of a kernel have the same parameters.
static void variant(ptx_builder *b, bool scaled)
{
    ptx_entry (b, "k", .block = { 128 }, .max_registers = 40) {
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .length = "n");
        ptx_ptr scale = ptx_param_ptr(b, PTX_F32, "scale", .unused = !scaled);
        ptx_val n = ptx_param(b, PTX_U32, "n", .unused = true);
        ptx_ptr table = ptx_param_array(b, PTX_F32, "table", 4);
        (void)n;
        ptx_store(b, y, 0, scaled ? ptx_load(b, scale, 0) : ptx_load(b, table, 0));
        ptx_store(b, y, 1, ptx_load(b, table, 1));
    }
}

TEST(variants_have_the_same_parameters)
{
    ptx_builder *b = builder_at(80);
    struct ptx_param_info info;
    variant(b, false);
    assert_true(ptx_builder_param(b, 0, 1, &info) && info.unused);
    const char *text = finished(b);
    assert_non_null(find_line(text, ".param .u64 scale, // f32[], unused\n"));
    assert_non_null(find_line(text, ".param .u32 n,\n"));
    assert_non_null(find_line(text, ".reqntid 128, 1, 1\n.maxnreg 40\n"));
    assert_null(find_line(text, "[scale];"));
    assert_null(find_line(text, "[n];"));
    assert_non_null(find_line(text, "cvta.to.global.u64 %rd2, %rd1;"));
    assert_null(find_line(text, "%rd3"));
    ptx_builder_destroy(&b);
    b = builder_at(80);
    variant(b, true);
    EXPECT_LINES(b, "ld.param.u64 %rd3, [scale];", "ld.global.f32 %f1, [%rd4];");
}

TEST(a_function_need_not_use_a_parameter)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "f", .result = PTX_PRED) {
        ptx_param(b, PTX_PRED, "masked", .unused = true);
        ptx_return_value(b, ptx_eq(b, ptx_param(b, PTX_U16, "x"), 1));
    }
    ptx_entry (b, "k")
        ptx_printf(b, "%u", ptx_select(b, ptx_call(b, "f", ptx_bool(true), 5), ptx_u32(1), 0));
    EXPECT_LINES(b, "mov.u32 masked, 1;\n mov.u32 x, 5;\n {\n", "cvt.u16.u32 %rs1, x;");
}

TEST(wrong_parameters_are_named)
{
    const char *used = "is declared .unused, and it is used";
    int used_at = 0;

    REFUSED(ptx_store(b, ptx_param_ptr(b, PTX_F32, "v", .unused = true), 0, f),
            "param_ptr: parameter 'v'", used);
    REFUSED(ptx_add(b, u, ptx_param(b, PTX_U32, "n", .unused = true)), "param: parameter 'n'",
            used);
    REFUSED(ptx_param(b, PTX_U32, "n"), "'n' is never used; use it, do not declare it, or declare");
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k", .max_registers = 16) {}
    EXPECT_ERROR(b, "ptx_entry: .max_registers = 16: a thread has 24 to 255");
    b = builder_at(80);
    ptx_entry (b, "k", .max_registers = 256) {}
    EXPECT_ERROR(b, "ptx_entry: .max_registers = 256: a thread has 24 to 255");
    b = builder_at(80);
    ptx_entry (b, "k", .block = { 64 }, .min_blocks = 2, .max_registers = 64) {}
    EXPECT_ERROR(b, "ptx_entry: .max_registers and .min_blocks both bound the registers");
    b = builder_at(80);
    ptx_entry (b, "k", .block = { 1024 }, .max_registers = 65) {}
    EXPECT_ERROR(b, "ptx_entry: .max_registers = 65 of 1024 threads: a block has at most 65536 "
                    "registers, so at most 64 of a thread");
    b = builder_at(80);
    ptx_entry (b, "k", .max_block = { 481 }, .max_registers = 128) {}
    finished(b); // 512 threads in whole warps
    ptx_builder_destroy(&b);
    b = builder_at(80);
    ptx_entry (b, "k", .max_block = { 481 }, .max_registers = 129) {}
    EXPECT_ERROR(b, ".max_registers = 129 of 512 threads", "at most 128 of a thread");
    // The error is at the use.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val n = ptx_param(b, PTX_U32, "n", .unused = true);
        used_at = __LINE__ + 1;
        ptx_store(b, out, 0, n);
    }
    char place[64];
    snprintf(place, sizeof place, "test_calls.c:%d:", used_at);
    EXPECT_ERROR(b, place, "ptx_param: parameter 'n' is declared .unused, and it is used; make");
}

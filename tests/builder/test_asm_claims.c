// SPDX-License-Identifier: MIT
// What the caller of ptx_asm() says of a text: held against its instructions, and followed by the
// checks of the entry.
#include "asm_refused.h"

// What a text sets is a result or a variable in .inout, and it sets all results.
TEST(destinations_are_checked)
{
#define SETS(text, operand)                                                                        \
    REFUSED(ptx_asm(b, text, .in = { u, p }), "' sets " operand "; what a text sets")
#define UNSET(text, words)                                                                         \
    REFUSED(ptx_asm(b, text, .result = { PTX_U32 }, .in = { p }, .at = { m }), words)

    REFUSED(ptx_asm(b, "trap; add.u32 %0, %0, 1;", .in = { ptx_add(b, u, 1) }),
            "'add.u32 %0, %0, 1' sets %0, which is .in[0]; what a text sets is a new value of "
            ".result, or a variable in .inout");
    REFUSED(ptx_asm(b, "mov.u32 %0, %1;\nmov.u32 %1, 5;", .inout = { u }, .in = { u }),
            "'mov.u32 %1, 5' sets %1, which is .in[0]");
    SETS("{ @%1 mov.u32 %0, %%tid.x; }", "%0, which is .in[0]");
    SETS("mov.b64 { _, %0 }, 5; @%1 trap;", "%0, which is .in[0]");
    SETS("setp.eq.and.u32 q|%1, %0, 5, q;", "%1, which is .in[1]");
    SETS("{ .reg .pred q; @%1 lop3.or.b32 %0|q, 1, 2, 3, 4, q; }", "%0, which is .in[0]");
    SETS("activemask.b32 %0; @%1 trap;", "%0, which is .in[0]");
    SETS("bar.red.popc.u32 %0, 1, %1;", "%0, which is .in[0]");
    SETS("call (%0), f, (%1);", "%0, which is .in[0]");
    UNSET("st.global.u32 [%2], %0; @%1 trap;",
          "no statement of the text sets %0, which is .result[0]");
    UNSET("@!%1 mov.u32 %0, 1; prefetch.global.L2 [%2];",
          "%0, which is .result[0], is set under a guard only");
    UNSET("@%1 mov.u32 %0, 1; @%1 ld.global.u32 %0, [%2];", "under a guard only");
    UNSET("call f, (%0); @%1 bra.uni x_%=; x_%=: prefetch.global.L2 [%2];", "no statement");
    UNSET("nanosleep.u32 %0; @%1 red.global.add.u32 [%2], %0;", "no statement");
    ptx_builder *own = builder_at(80);
    ptx_entry (own, "k", .block = { 64 }) {
        ptx_val x = ptx_tid(own, PTX_X), p = ptx_eq(own, x, 3), d[2];
        ptx_asm(own, "@%1 mov.u32 %0, 1; @!%1 mov.u32 %0, 2;", .result = { PTX_U32 }, .in = { p });
        ptx_asm(own, "mov.u32 %0, 1; @%1 mov.u32 %0, 2;", .result = { PTX_U32 }, .in = { p });
        ptx_asm_many(own, d, "setp.lt.and.u32 %0|%1, %2, 5, %3;", .result = { PTX_PRED, PTX_PRED },
                     .in = { x, p });
        ptx_asm_many(own, d, "mov.b64 {%0, %1}, %2;", .result = { PTX_U32, PTX_U32 },
                     .in = { ptx_u64(5) });
        ptx_asm(own, "st.global.u32 [%0], %1; nanosleep.u32 %1; barrier.sync %1; membar.gl;",
                .in = { ptx_u64(256), ptx_u32(1) });
        ptx_asm(own, "st.global.v2.u32 [%0], {%1, %1}; red.global.add.u32 [%0+4], %1;",
                .in = { ptx_u64(256), x });
    }
    EXPECT_LINES(own, "@%p1 mov.u32 %r2, 1;", "@!%p1 mov.u32 %r2, 2;", "{%r", "nanosleep.u32");
}

TEST(facts_are_refused)
{
    REFUSED(ptx_asm(b, "trap;", .reads = (ptx_memory)9), ".reads 9");
    REFUSED(ptx_asm(b, "trap;", .convergence = (ptx_convergence)-1), ".convergence -1");
    REFUSED(ptx_asm(b, "trap;", .pure = true), ".pure, and there is no result");
    REFUSED(ptx_asm(b, "use %0;", .result = { PTX_U32 }, .pure = true, .reads = PTX_MEMORY_SHARED),
            ".pure, and memory is read");
    REFUSED(ptx_asm(b, "use %0;", .result = { PTX_U32 }, .pure = true,
                    .divergence = PTX_DIVERGENCE_NONE),
            ".pure, and .divergence");
    REFUSED(ptx_asm(b, "mov.u32 %0, %%tid.x;", .result = { PTX_U32 }, .pure = true),
            ".pure, and the text reads a special register");
    REFUSED(ptx_asm(b, "vote.sync.any.pred %0, %1, -1;", .result = { PTX_PRED }, .in = { p },
                    .pure = true),
            "'vote.sync.any.pred' needs other threads, which .pure excludes");
    REFUSED(ptx_asm(b, "ld.global.u32 %0, [%1];", .result = { PTX_U32 }, .at = { m }, .pure = true),
            "'ld.global.u32' reads memory, which .pure excludes");
    REFUSED(ptx_asm(b, "atom.add.u32 %0, [%1], 1;", .result = { PTX_U32 }, .at = { m },
                    .writes = PTX_MEMORY_NONE),
            "'atom.add.u32' writes memory, which .writes of the call excludes");
    REFUSED(ptx_asm(b, "st.global.u32 [%0], 1;", .at = { m }, .writes = PTX_MEMORY_SHARED),
            "'st.global.u32' writes memory, which .writes");
    REFUSED(
        ptx_asm(b, "trap; @%0 ld.shared.u32 %0, [4];", .inout = { p }, .reads = PTX_MEMORY_GLOBAL),
        "'ld.shared.u32' reads memory, which .reads");
    // What is not memory that anybody writes, and what is within what was said.
    ptx_builder *own = builder_at(80);
    ptx_entry (own, "k") {
        ptx_ptr s = ptx_shared(own, PTX_U32, 4),
                m = ptx_ptr_from(own, PTX_U32, PTX_SPACE_GLOBAL, ptx_u64(256));
        ptx_asm(own, "ld.const.u32 %0, [c]; ld.param.u32 %0, [k]; redux.sync.add.u32 %0, %0, -1;",
                .result = { PTX_U32 }, .reads = PTX_MEMORY_NONE, .writes = PTX_MEMORY_NONE);
        ptx_asm(own, "cp.async.ca.shared.global [%0], [%1], 4;", .at = { s, m },
                .reads = PTX_MEMORY_GLOBAL, .writes = PTX_MEMORY_SHARED);
        ptx_asm(own, "st.u32 [%0], 4;", .at = { m }, .reads = PTX_MEMORY_NONE,
                .writes = PTX_MEMORY_GLOBAL);
    }
    EXPECT_LINES(own, "cp.async.ca.shared.global [$shared_1], [%rd2], 4;");
}

TEST(pointers_keep_their_word)
{
    for (int wrong = 0; wrong < 4; wrong++) {
        NEW_ENTRY (b, 80) {
            ptx_ptr in = ptx_param_ptr(b, PTX_U32, "in", .readonly = true);
            ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out", .writeonly = true);
            ptx_asm(b, "ld.global.u32 %0, [%1];", .result = { PTX_U32 }, .at = { in },
                    .writes = wrong == 1 ? PTX_MEMORY_ANY : PTX_MEMORY_NONE);
            ptx_asm(b, "st.global.u32 [%0], 1;", .at = { out },
                    .reads = wrong == 2 ? PTX_MEMORY_GLOBAL : PTX_MEMORY_SHARED);
            if (wrong == 3)
                ptx_asm(b, "prefetch.global.L2 [%0];", .at = { (ptx_ptr) { .type = PTX_U32 } });
        }
        if (wrong == 0)
            EXPECT_LINES(b, "ld.global.u32 %r1, [%rd2];", "st.global.u32 [%rd4], 1;");
        else if (wrong == 1)
            EXPECT_ERROR(b, ".at[0] is declared readonly, and by .writes the text may write there");
        else if (wrong == 2)
            EXPECT_ERROR(b, ".at[0] is declared writeonly, and by .reads the text may read there");
        else
            EXPECT_ERROR(b, "k: ptx_asm: the pointer was never set");
    }
    // Nobody can write constants and parameters.
    NEW_ENTRY (b, 80) {
        ptx_ptr c = ptx_const(b, PTX_U32, "c", .count = 4), p = ptx_param_array(b, PTX_U32, "p", 4);
        ptx_asm(b, "ld.const.u32 %0, [%1]; ld.param.u32 %0, [%2];", .result = { PTX_U32 },
                .at = { ptx_at(b, c, 1), ptx_at(b, p, 2) });
    }
    EXPECT_LINES(b, "ld.const.u32 %r1, [c+4];", "ld.param.u32 %r1, [p+8];");
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_global(b, PTX_U32, "hits", .count = 2);
        ptx_asm(b, "red.global.add.u32 [hits+4], 1;");
    }
    EXPECT_LINES(b, ".visible .global .align 16 .u32 hits[2];", "red.global.add.u32 [hits+4], 1;");
}

// The state space of an instruction is that of its address.
TEST(spaces_of_addresses_are_checked)
{
#define SPACES(text, pointer, words) REFUSED(ptx_asm(b, text, .at = { pointer }), words)

    SPACES("st.global.u32 [%0], 1;", ptx_shared(b, PTX_U32, 4),
           "'st.global.u32' is of global memory, and .at[0] points to shared memory; write "
           "'.shared'");
    SPACES("{ .reg .u32 t; ld.u32 t, [%0]; }", ptx_shared(b, PTX_U32, 4),
           "'ld.u32' is of generic memory, and .at[0]");
    SPACES("red.shared::cta.add.u32 [%0], 1;", m, "points to global memory; write '.global'");
    SPACES("st.v2.shared.u32 [%0], {1, 2};", ptx_local(b, PTX_U32, 4),
           "points to local memory; write '.local'");
    SPACES("prefetch.global.L2 [%0];", ptx_local(b, PTX_U32, 4),
           "'prefetch.global.L2' is of global memory");
    REFUSED(ptx_asm(b,
                    "{ .reg .u32 t; ld.shared.u32 t, [%1]; ld.global.u32 t, [%2];\n"
                    "add.u32 %0, t, 1; }",
                    .result = { PTX_U32 },
                    .at = { ptx_shared(b, PTX_U32, 4), ptx_shared(b, PTX_U32, 4) }),
            "'ld.global.u32' is of global memory, and .at[1] points to shared memory");
    ptx_builder *own = builder_at(90);
    ptx_entry (own, "k") {
        ptx_ptr m = ptx_ptr_from(own, PTX_U32, PTX_SPACE_GLOBAL, ptx_u64(256));
        ptx_ptr s = ptx_shared(own, PTX_U32, 4);
        ptx_ptr g = ptx_ptr_from(own, PTX_U32, PTX_SPACE_GENERIC, ptx_u64(256));
        ptx_asm(own, "st.u32 [%0], 1; st.shared::cluster.u32 [%1], 1; st.global.u32 [%2], 1;",
                .at = { m, s, g });
        ptx_asm(own,
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                "[%1], 16, [%2];",
                .at = { s, m, s });
        ptx_asm(own, "st.global.u32 [%0], 1;", .in = { ptx_u32(4) });
    }
    EXPECT_LINES(own, "st.shared::cluster.u32 [$shared_1], 1;");
}

// Arrays in shared memory that texts declare are counted as the entry's own.
TEST(shared_memory_is_counted)
{
    static const struct {
        const char *text;
        unsigned bytes; // declared beside it
        bool accepted;
    } cases[] = {
        { "{ .shared .align 4 .b8 x[100000]; trap; }", 0, false },
        { "{ .shared .align 4 .b8 x[49152]; trap; }", 0, true },
        { "{ .shared .align 4 .b8 x[49152]; trap; }", 4, false },
        { "{ .shared .f64 x[64][ 0x20 ], y[2048]; trap; }", 16384, true },
        { "{ .shared .f64 x[64][ 0x20 ], y[2048]; trap; }", 16400, false },
        { "{ .shared .v4 .b32 x[3000]; trap; }", 16, true },
        { "{ .shared .v4 .b32 /* [1] */ x[3100]; trap; }", 16, false },
        { "st.shared.u32 [a], 1; st.shared.u32 [a + 4], 2;", 29152, true },
        { "st.shared.u32 [a], 1;", 29168, false },
        { "st.shared.u32 [ab], 1;", 29168, true },
        { "st.shared.u32 [c], 1;", 0, false },
        { "call f, ();", 40000, false },
        { "call f, ();", 20000, true },
        { "st.shared.u32 [e], 1;", 49152, true },
        { "{ .shared .b8 x[10000]; } st.shared.u32 [a], 1; call f, ();", 0, true },
        { "{ .shared .b8 x[30000]; } st.shared.u32 [a], 1; call f, ();", 0, false },
        { "{ .shared .b8 x_%=[49153]; trap; }", 0, false },
        { "{ .shared .b8 x[39152]; } call f, ();", 0, true }, // f's loads declare nothing
        { "{ .shared .b8 x[39153]; } call f, ();", 0, false },
        { "st.shared::cta.u32 [ab], 1;", 0, true }, // the space, and not the array
        { "st.shared.u32 [cta], 1;", 0, false },
        { "st.shared.u32 [d], 1;", 0, false },
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ptx_builder *b = builder_at(80);
        ptx_asm_module(b,
                       ".shared .align 4 .b8 a[20000]; // [9]\n"
                       ".shared .align 4 .b32 ab[2], c[15000], cta[15000];\n"
                       ".shared.b32 d[15000];\n"
                       ".extern .shared .align 4 .b8 e[];\n"
                       ".func f() { .shared .b8 own[10000]; .reg .b32 r; ld.shared.b32 r, [own];\n"
                       "ret; }",
                       .declares = { "a", "ab", "c", "cta", "d", "e", "f" });
        for (int entry = 0; entry < 2; entry++) // each has its own
            ptx_entry (b, entry ? "k" : "first") {
                if (entry && cases[k].bytes)
                    ptx_store(b, ptx_shared(b, PTX_U8, cases[k].bytes), 0, 1);
                if (entry)
                    ptx_asm(b, cases[k].text);
                else
                    ptx_asm(b, "st.shared.u32 [ab], 1;");
            }
        if (cases[k].accepted)
            EXPECT_LINES(b, "entry k(");
        else
            EXPECT_ERROR(b, "k: ptx_asm: ", "bytes of shared memory", "at most 49152");
    }
}

// Whether a barrier, or a shuffle of the whole warp, may depend on the result of a text.
TEST(divergence_is_followed)
{
    static const struct {
        ptx_divergence said;
        bool from_tid, warp, block; // accepted
    } cases[] = {
        { PTX_DIVERGENCE_ANY, false, false, false },
        { PTX_DIVERGENCE_OPERANDS, false, true, true },
        { PTX_DIVERGENCE_OPERANDS, true, false, false },
        { PTX_DIVERGENCE_WARPS, true, true, false },
        { PTX_DIVERGENCE_NONE, true, true, true },
    };

    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        const bool block = k & 1, accepted = block ? cases[k / 2].block : cases[k / 2].warp;
        NEW_ENTRY_WITH (b, 80, .block = { 256 }) {
            ptx_val x = cases[k / 2].from_tid ? ptx_tid(b, PTX_X) : ptx_ctaid(b, PTX_X);
            ptx_val p = ptx_asm(b, "setp.eq.u32 %0, %1, 3;", .result = { PTX_PRED }, .in = { x },
                                .divergence = cases[k / 2].said);
            ptx_if (b, p) {
                if (block)
                    ptx_barrier(b);
                else
                    ptx_shfl_down(b, x, 1);
            }
        }
        if (accepted)
            EXPECT_LINES(b, "ret;");
        else
            EXPECT_ERROR(b, block ? "ptx_barrier: barrier 1"
                                  : "shfl.sync.down.b32 with the full mask");
    }
}

// What is said about results is held against the special registers of a text.
TEST(special_registers_diverge)
{
#define READS(text, ...)                                                                           \
    REFUSED(ptx_asm(b, text, .result = { PTX_U32 }, __VA_ARGS__), ".divergence says that results")

    REFUSED(ptx_asm(b, "mov.u32 %0, %%tid.x;", .result = { PTX_U32 },
                    .divergence = PTX_DIVERGENCE_OPERANDS),
            ".divergence says that results differ only where an operand does, and the text reads "
            "%tid.x, which differs between threads");
    REFUSED(ptx_asm(b, "mov.u32 %0, %%ctaid.x; { .reg .u32 t; mov.u32 t, %%laneid; }",
                    .result = { PTX_U32 }, .divergence = PTX_DIVERGENCE_NONE),
            ".divergence says that results are the same in a block, and the text reads %laneid,");
    READS("mov.u32 %0, %%clock;", .divergence = PTX_DIVERGENCE_NONE);
    READS("mov.u32 %0, %%pm0;", .divergence = PTX_DIVERGENCE_OPERANDS);
    READS("mov.u32 %0, %%lanemask_lt;", .divergence = PTX_DIVERGENCE_NONE);
    NEW_ENTRY_WITH (b, 80, .block = { 256 }) {
        ptx_asm(b, "mov.u32 %0, %%tid.x;", .result = { PTX_U32 });
        ptx_val warp = ptx_asm(b, "{ .reg .u32 t; mov.u32 t, %%tid.x; shr.u32 %0, t, 5; }",
                               .result = { PTX_U32 }, .divergence = PTX_DIVERGENCE_WARPS);
        ptx_if (b, ptx_lt(b, warp, 2))
            ptx_barrier_warp(b, ptx_u32(UINT32_MAX));
        ptx_val block = ptx_asm(b, "mov.u32 %0, %%ctaid.x;", .result = { PTX_U32 },
                                .divergence = PTX_DIVERGENCE_NONE);
        ptx_val count =
            ptx_asm(b,
                    "{ .reg .u32 t; .reg .pred q; mov.u32 t, %%tid.x;\n"
                    "setp.lt.u32 q, t, %1; bar.red.popc.u32 %0, 0, q; }",
                    .result = { PTX_U32 }, .in = { block }, .divergence = PTX_DIVERGENCE_NONE);
        ptx_if (b, ptx_eq(b, count, block))
            ptx_barrier(b);
    }
    EXPECT_LINES(b, "mov.u32 %r1, %tid.x;", "bar.warp.sync", "bar.red.popc.u32", "bar.sync 0;");
}

// Within a text, only some threads may reach what all must execute.
TEST(guards_of_texts_are_refused)
{
#define SKIPS(text, what, why)                                                                     \
    REFUSED(ptx_asm(b, text, .in = { p }), "'" what "' needs all threads of a ", why,              \
            ".convergence")

    SKIPS("@%0 bar.sync 0;", "bar.sync", "block, and has a guard");
    SKIPS("@!%0 bar.warp.sync -1;", "bar.warp.sync", "warp, and has a guard");
    SKIPS("@%0 barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.aligned", "has a guard");
    SKIPS("{ @%0 bra x; bar.sync 0; x: }", "bar.sync", "a branch of the text may skip it");
    SKIPS("a_%=: bar.sync 0; @%0 bra.uni a_%=;", "bar.sync", "a branch of the text may skip it");
    SKIPS("{ @%0 bra x; bra y; x: bar.sync 0; y: }", "bar.sync", "a branch");
    SKIPS("{ { @%0 bra x; { bar.sync 0; } } x: }", "bar.sync", "a branch");
    SKIPS("{ t: .branchtargets x, x; @%0 brx.idx 0, t; bar.sync 0; x: }", "bar.sync", "a branch");
    NEW_ENTRY_WITH (b, 80, .block = { 256 }) {
        ptx_val p = ptx_eq(b, ptx_ctaid(b, PTX_X), 3), q = ptx_eq(b, ptx_tid(b, PTX_X), 3);
        ptx_asm(b, "@%0 bar.sync 0;", .in = { p }, .convergence = PTX_CONVERGENCE_BLOCK);
        ptx_asm(b, "{ @%0 bra x; membar.gl; x: bar.sync 0; @%0 bra y; membar.cta; y: }",
                .in = { q });
        ptx_asm(b, "{ { @%0 bra x; membar.gl; x: } bar.sync 1; { @%0 bra x; membar.cta; x: } }",
                .in = { q });
    }
    EXPECT_LINES(b, "@%p1 bar.sync 0;", "bar.sync 0;", "bar.sync 1;");
}

// A variable that a text sets in divergent code varies, whatever is said about its results.
TEST(variables_set_in_divergent_code_vary)
{
    NEW_ENTRY_WITH (b, 80, .block = { 256 }) {
        ptx_val v = ptx_var(b, ptx_u32(1));
        ptx_if (b, ptx_lt(b, ptx_tid(b, PTX_X), 5))
            ptx_asm(b, "add.u32 %0, %0, 1;", .inout = { v }, .pure = true);
        ptx_if (b, ptx_eq(b, v, 1))
            ptx_barrier(b);
    }
    EXPECT_ERROR(b, "ptx_barrier: barrier 1 of the entry is in code that only some threads");
    b = builder_at(80);
    ptx_entry (b, "k", .block = { 256 }) {
        ptx_val v = ptx_var(b, ptx_u32(1));
        ptx_asm(b, "add.u32 %0, %0, 1;", .inout = { v }, .pure = true);
        ptx_if (b, ptx_eq(b, v, 1))
            ptx_barrier(b);
    }
    EXPECT_LINES(b, "bar.sync 0;");
}

// What a text needs by its instructions, and what it may be said to need; in divergent code.
TEST(convergence_is_checked)
{
    static const struct {
        const char *text;
        ptx_convergence said;
        bool warps, lanes; // refused where warps differ; where lanes do
    } cases[] = {
        { "add.u32 %0, %0, 1;", PTX_CONVERGENCE_TEXT, false, false },
        { "add.u32 %0, %0, 1;", PTX_CONVERGENCE_WARP, false, true },
        { "add.u32 %0, %0, 1;", PTX_CONVERGENCE_BLOCK, true, true },
        { "add.u32 %0, %0, 1; bar.sync 0;", PTX_CONVERGENCE_TEXT, true, true },
        { "add.u32 %0, %0, 1; bar.sync 1, 64;", PTX_CONVERGENCE_NONE, false, false },
        { "barrier.cluster.arrive.aligned; mov.u32 %0, 1;", PTX_CONVERGENCE_TEXT, true, true },
        { "call (%0), f, ();", PTX_CONVERGENCE_TEXT, true, true },
        { "bar.warp.sync -1; mov.u32 %0, 1;", PTX_CONVERGENCE_TEXT, false, true },
        { "redux.sync.add.u32 %0, %0, -1;", PTX_CONVERGENCE_TEXT, false, true },
        { "redux.sync.add.u32 %0, %0, 1;", PTX_CONVERGENCE_NONE, false, false },
        { "cp.async.wait_all; mov.u32 %0, 1;", PTX_CONVERGENCE_TEXT, false, false },
    };

    for (size_t k = 0; k < 3 * sizeof cases / sizeof *cases; k++) {
        const size_t where = k % 3; // everywhere, in some warps, in some lanes
        const bool refused = where == 1 ? cases[k / 3].warps : where == 2 && cases[k / 3].lanes;
        NEW_ENTRY_WITH (b, 90, .block = { 256 }) {
            ptx_val tid = ptx_tid(b, PTX_X), v = ptx_var(b, tid);
            ptx_val here = where == 0 ? ptx_eq(b, ptx_ctaid(b, PTX_X), 0)
                                      : ptx_lt(b, tid, where == 1 ? 64 : 65);
            ptx_if (b, here)
                ptx_asm(b, cases[k / 3].text, .inout = { v }, .convergence = cases[k / 3].said);
        }
        if (refused)
            EXPECT_ERROR(b, "test_asm_claims.c:", "k: ptx_asm: '",
                         "and is in code that only some may reach");
        else
            EXPECT_LINES(b, "ret;");
    }
}

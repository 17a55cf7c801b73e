// SPDX-License-Identifier: MIT
// PTX text in entries and beside them: what is printed, what is checked, what is refused.
#include "asm_module.h"
#include "builder_fixture.h"

// The call, in an entry for sm_80, must be refused at its place with an error that has all of the
// words. It can use the variables u (u32), f (f32) and p (pred), and m, a pointer to u32.
#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_val u = ptx_var(b, ptx_u32(1)), f = ptx_var(b, ptx_f32(1)),                        \
                    p = ptx_var(b, ptx_bool(1));                                                   \
            ptx_ptr m = ptx_ptr_from(b, PTX_U32, PTX_SPACE_GLOBAL, ptx_u64(256));                  \
            (void)u, (void)f, (void)p, (void)m;                                                    \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, "test_asm.c:", "k: ptx_asm", __VA_ARGS__);                                 \
    } while (0)

static void a_module_has_one_text(void **state)
{
    ptx_builder *b = builder_at(80);

    (void)state;
    asm_module(b);
    assert_string_equal(finished(b),
                        "// Written by ptxgen. The PTX ISA version is the least that has "
                        "ld.global.L1::no_allocate.u32.\n"
                        ".version 7.4\n"
                        ".target sm_80\n"
                        ".address_size 64\n"
                        "\n"
                        "// counts what was dropped\n"
                        ".global .align 4 .u32 dropped;\n"
                        ".func (.reg .b32 r) twice(.reg .b32 a)\n"
                        "{\n"
                        "    add.u32 r, a, a;\n"
                        "    ret;\n"
                        "}\n"
                        "\n"
                        ".visible .entry k(\n"
                        "    .param .u64 in,             // u32[], read only\n"
                        "    .param .u64 out             // u32[]\n"
                        ")\n"
                        ".reqntid 64, 1, 1\n"
                        "{\n"
                        "    .reg .pred   %p<2>;\n"
                        "    .reg .b32    %r<7>;\n"
                        "    .reg .b64    %rd<6>;\n"
                        "\n"
                        "    ld.param.u64        %rd1, [in];\n"
                        "    cvta.to.global.u64  %rd2, %rd1;\n"
                        "    ld.param.u64        %rd3, [out];\n"
                        "    cvta.to.global.u64  %rd4, %rd3;\n"
                        "\n"
                        "    mov.u32             %r1, %tid.x;\n"
                        "    mov.u32             %r2, 7;\n"
                        "    ld.global.L1::no_allocate.u32 %r3, [%rd2+12];\n"
                        "    mov.u32             %r4, 5;\n"
                        "    dp2a.lo.u32.u32     %r5, %r3, %r1, %r4;\n"
                        "    shfl.sync.idx.b32   %r6|%p1, %r5, 0, 31, -1;\n"
                        "    @!%p1 bra           $if_1_end;\n"
                        "        {\n"
                        "            .reg .pred big;\n"
                        "            .reg .b32 t;\n"
                        "            .reg .b64 w;\n"
                        "            setp.gt.u32         big, %r2, 100;\n"
                        "            @big bra            done;\n"
                        "            call                (t), twice, (%r6);\n"
                        "            mov.b64             w, { t, %r6 };\n"
                        "            mov.b64             { %r2, t }, w;\n"
                        "done:\n"
                        "            mov.u32             t, %laneid;\n"
                        "            add.u32             %r2, %r2, t;\n"
                        "        }\n"
                        "$if_1_end:\n"
                        "    @!%p1 bra           skip_2;\n"
                        "    red.global.add.u32  [dropped], %r2;\n"
                        "skip_2:\n"
                        "    mad.wide.u32        %rd5, %r1, 4, %rd4;\n"
                        "    st.global.u32       [%rd5], %r2;\n"
                        "    st.global.u32       [dropped+4], %r3;\n"
                        "    ret;\n"
                        "}\n");
    ptx_builder_destroy(&b);
}

static void operands_have_every_type(void **state)
{
    (void)state;
    ptx_builder *b = builder_at(90);
    ptx_entry (b, "k") {
        ptx_val d[16];
        ptx_asm_many(b, d, "all %0 %1 %2 %3 %4 %5 %6 %7 %8 %9 %10 %11 %12 %13 %14 %15;",
                     .result = { PTX_PRED, PTX_U8, PTX_U16, PTX_U32, PTX_U64, PTX_S8, PTX_S16,
                                 PTX_S32, PTX_B64, PTX_F16, PTX_BF16, PTX_F32, PTX_F64, PTX_F16X2,
                                 PTX_BF16X2, PTX_B8 });
        assert_true(d[0].type == PTX_PRED && d[14].type == PTX_BF16X2 && d[15].type == PTX_B8);
        ptx_asm(b, "many _,%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16;",
                .in = { d[15], d[14], d[13], d[12], d[11], d[10], d[9], d[8], d[7], d[6], d[5],
                        d[4], d[3], d[2], d[1], d[0], ptx_f32(0.5) });
        // The same operand twice, in an order of its own.
        ptx_asm(b, "twice _, %1, %0, %1;", .in = { d[3], d[4] });
    }
    EXPECT_LINES(
        b, "all %p1 %rs1 %rs2 %r1 %rd1 %rs3 %rs4 %r2 %rd2 %rs5 %rs6 %f1 %fd1 %r3 %r4 %rs7;",
        "mov.f32 %f2, 0f3F000000;",
        "many _,%rs7,%r4,%r3,%fd1,%f1,%rs6,%rs5,%rd2,%r2,%rs4,%rs3,%rd1,%r1,%rs2,%rs1,%p1,%f2;",
        "twice _, %rd1, %r1, %rd1;");
}

static void every_list_can_be_full(void **state)
{
    char text[1024];
    int length = 0;

    (void)state;
    for (int k = 0; k < 16 + 16 + 32 + 4; k++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           k < 32   ? "i %%%d; "
                           : k < 64 ? "i _,%%%d; "
                                    : "i [%%%d]; ",
                           k);
    ptx_builder *b = builder_at(90);
    ptx_entry (b, "k") {
        struct ptx_asm_params p = { .text = text };
        ptx_val d[16];
        for (int k = 0; k < 32; k++) {
            if (k < 16) {
                p.result[k] = PTX_U32;
                p.inout[k] = ptx_var(b, ptx_u32((unsigned)k));
            }
            p.in[k] = ptx_u32((unsigned)k);
            if (k < 4)
                p.at[k] = ptx_shared(b, PTX_U32, 8);
        }
        ptx_asm_many_emit(b, d, p);
        ptx_asm(b, "last _, %0, %1;", .in = { d[0], d[15] });
    }
    EXPECT_LINES(b, "i %r49;", "i %r64;", "i %r1;", "i %r16;", "i _,%r17;", "i _,%r48;",
                 "i [$shared_1];", "i [$shared_4];", "last _, %r49, %r64;");
}

// A text that writes a result before it reads a variable must not get one register for both.
static void results_have_registers_of_their_own(void **state)
{
    (void)state;
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val v = ptx_var(b, ptx_u32(3));
        ptx_set(
            b, v,
            ptx_asm(b, "mov.u32 %0, 1; add.u32 %0, %0, %1;", .result = { PTX_U32 }, .in = { v }));
    }
    EXPECT_LINES(b, "mov.u32 %r1, 3;", "mov.u32 %r2, 1;", "add.u32 %r2, %r2, %r1;",
                 "mov.u32 %r1, %r2;");
    // Nor one for a variable that it sets, and an input that is the same variable.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_val v = ptx_var(b, ptx_u32(3));
        ptx_asm(b, "mov.u32 %0, 1; add.u32 %0, %0, %1;", .inout = { v }, .in = { v });
    }
    EXPECT_LINES(b, "mov.u32 %r1, 3;", "mov.u32 %r2, %r1;", "mov.u32 %r1, 1;",
                 "add.u32 %r1, %r1, %r2;");
}

static void statements_are_lines(void **state)
{
    (void)state;
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_asm(b, ";;trap ; @%0 trap;@!%0   trap;\r\n\tnanosleep.u32\n 5\n;",
                .in = { ptx_eq(b, 1u, ptx_u32(2)) });
        ptx_asm(b, "{ { { trap; } trap; } }");
        ptx_asm(b, ".pragma \"nounroll; %1 {\";");
        ptx_asm(b, "cp.async.bulk [ %0 ], [%1, {%2, %3}];",
                .in = { ptx_u32(1), ptx_u32(2), ptx_u32(3), ptx_u32(4) });
        ptx_asm(b, "ld.shared::cta.u32 %0, [a.b$c + 4]; /* %9 { */ // %7", .result = { PTX_U32 });
        ptx_asm(b, "L%=_%=: bra.uni L%=_%=;");
    }
    EXPECT_LINES(b, "\n trap;\n @%p1 trap;\n @!%p1 trap;\n nanosleep.u32 5;\n",
                 "\n {\n {\n {\n trap;\n }\n trap;\n }\n }\n", ".pragma \"nounroll; %1 {\";",
                 "cp.async.bulk [%r1], [%r2, {%r3, %r4}];",
                 "ld.shared::cta.u32 %r5, [a.b$c + 4];\nL1_1:\n bra.uni L1_1;");
}

static void texts_are_refused(void **state)
{
    (void)state;
    REFUSED(ptx_asm(b, NULL), "the text is missing");
    REFUSED(ptx_asm(b, ""), "the text is empty");
    REFUSED(ptx_asm(b, "trap;", .suffix = 'a'), ".suffix is 'a' and .sm is 0");
    REFUSED(ptx_asm(b, "mov.u32 %0, %1;", .result = { PTX_U32 }, .in = { { 7 } }),
            ".in[0] is the C number 7, which has no type here; write ptx_u32(7), ptx_f32(7) or the "
            "like");
    REFUSED(ptx_asm(b, " ; // nothing\n /* */ "), "the text is empty");
    REFUSED(ptx_asm(b, "trap"), "'trap' does not end with ';'");
    REFUSED(ptx_asm(b, "trap; nanosleep.u32 5 // ;"),
            "'nanosleep.u32 5 // ' does not end with ';'");
    REFUSED(ptx_asm(b, "trap\xc3\xa9;"), "byte 4 of the text is 0xc3");
    REFUSED(ptx_asm(b, "trap\x01;"), "byte 4 of the text is 0x01");
    REFUSED(ptx_asm(b, "{ trap;"), "a '{' of the text is never closed");
    REFUSED(ptx_asm(b, "trap; }"), "a '}' of the text closes nothing");
    REFUSED(ptx_asm(b, "mov.b64 {%0, %0, 1;", .in = { u }),
            "a bracket is never closed in 'mov.b64 {%0, %0, 1'");
    REFUSED(ptx_asm(b, "ld.u32 %0, [5);", .result = { PTX_U32 }), "a ')' closes nothing");
    REFUSED(ptx_asm(b, "x ((((((((((((((((((;"), "too many brackets");
    REFUSED(ptx_asm(b, "trap; /* "), "a comment of the text has no end");
    REFUSED(ptx_asm(b, ".pragma \"x;"), "a string has no end");
    REFUSED(ptx_asm(b, "%0 = %1;", .result = { PTX_U32 }, .in = { u }),
            "does not begin with an instruction");
    REFUSED(ptx_asm(b, "$x: trap;"), "begins with '$'");
    REFUSED(ptx_asm(b, "mov.u32 %0, $shared_1;", .result = { PTX_U32 }), "begins with '$'");
    REFUSED(ptx_asm(b, "@%0 bra $if_1_end;", .in = { p }), "begins with '$'");
    REFUSED(ptx_asm(b, "done: trap;"), "label 'done' would", "done_%=");
    REFUSED(ptx_asm(b, "here: add.u32 %0, %0, 1;", .inout = { u }),
            "label 'here' would be there again");
    REFUSED(ptx_asm(b, "bra away;"), "a branch to 'away' leaves the text");
    REFUSED(ptx_asm(b, "{ here: @%0 bra.uni her; }", .in = { p }),
            "a branch to 'her' leaves the text");
    REFUSED(ptx_asm(b, "ret;"), "'ret' leaves the text; ptx_return_if() does that");
    REFUSED(ptx_asm(b, "@%0 exit;", .in = { p }), "'exit' leaves the text");
    REFUSED(ptx_asm(b, ".reg .u32 t;"), "'.reg' outside of { }");
    REFUSED(ptx_asm(b, ".shared .b32 t[4];"), "'.shared' outside of { }");
    REFUSED(ptx_asm(b, "{ .global .b32 t; }"), "'.global' does not belong into a kernel's code",
            "ptx_asm_module()");
    REFUSED(ptx_asm(b, ".entry x() {"), "'.entry x() {' does not end with ';'");
}

static void operands_are_refused(void **state)
{
    (void)state;
    REFUSED(ptx_asm(b, "mov.u32 %0, %2;", .result = { PTX_U32 }, .in = { u }),
            "'mov.u32 %0, %2' names %2, and the call has 2 operands");
    REFUSED(ptx_asm(b, "trap %0;"), "'trap %0' names %0, and the call has 0 operands");
    REFUSED(ptx_asm(b, "mov.u32 %0, 1;", .result = { PTX_U32 }, .in = { u }),
            "does not have %1, which is .in[0]");
    REFUSED(ptx_asm(b, "use %0, %2;", .inout = { u }, .in = { f, u }),
            "does not have %1, which is .in[0]");
    REFUSED(ptx_asm(b, "use %0, %1;", .inout = { u }, .in = { f }, .at = { m }),
            "does not have %2, which is .at[0]");
    REFUSED(ptx_asm(b, "mov.u32 %0, %laneid;", .result = { PTX_U32 }), "has a single %",
            "%%laneid");
    REFUSED(ptx_asm(b, "mov.u32 %0, %1x;", .result = { PTX_U32 }, .in = { u }),
            "'%1x' in 'mov.u32 %0, %1x' is no operand");
    REFUSED(ptx_asm(b, "mov.u32 %99999999999;"), "is no operand");
    REFUSED(ptx_asm(b, "mov.u32 %0, %%r1;", .result = { PTX_U32 }), "'%%r1'",
            "register of the builder's");
    REFUSED(ptx_asm(b, "{ .reg .b32 %%rd<4>; }"), "'%%rd'", "register of the builder's");
    REFUSED(
        ptx_asm(b, "ld.u32 %0, %1;", .result = { PTX_U32 }, .at = { m }, .writes = PTX_MEMORY_NONE),
        "%1, which is .at[0], is an address; write [%1]");
    REFUSED(ptx_asm(b, "ld.u32 %0, [%1+4];", .result = { PTX_U32 }, .at = { m }),
            "offsets by ptx_at()");
    REFUSED(ptx_asm(b, "use %0|%1;", .result = { PTX_U32, PTX_U32 }), "2 results; ptx_asm_many()");
    REFUSED(ptx_asm_many(b, NULL, "use %0|%1;", .result = { PTX_U32, PTX_U32 }),
            "ptx_asm_many: 2 results, and no array");
    REFUSED(ptx_asm(b, "use %0;", .result = { PTX_NONE, PTX_U32 }),
            ".result[0] was never set, and .result[1] is");
    REFUSED(ptx_asm(b, "use %0;", .result = { (ptx_type)77 }),
            ".result[0] is 77, which is not a ptx_type");
    REFUSED(ptx_asm(b, "use _, %0;", .in = { { 0 }, u }), ".in[0] was never set");
    REFUSED(ptx_asm(b, "use _, %0;", .in = { ptx_number_signed(4) }), ".in[0] is the number 4",
            "ptx_u32()");
    REFUSED(ptx_asm(b, "use _, %0;", .in = { ptx_imm(PTX_U8, 256) }),
            ".in[0] is the immediate 256");
    REFUSED(ptx_asm(b, "use _, %0;", .inout = { ptx_add(b, u, u) }),
            ".inout[0] is not a variable; ptx_var() makes one");
    REFUSED(ptx_asm(b, "use %0, %1;", .inout = { u, u }),
            ".inout[0] and .inout[1] are one variable");
    REFUSED(ptx_asm(b, "use _, %0;", .inout = { ptx_u32(4) }), ".inout[0] is not a variable");
}

// What a text sets is a result or a variable in .inout, and it sets all results.
static void destinations_are_checked(void **state)
{
#define SETS(text, operand)                                                                        \
    REFUSED(ptx_asm(b, text, .in = { u, p }), "' sets " operand "; what a text sets")
#define UNSET(text, words)                                                                         \
    REFUSED(ptx_asm(b, text, .result = { PTX_U32 }, .in = { p }, .at = { m }), words)

    (void)state;
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

static void facts_are_refused(void **state)
{
    (void)state;
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
            ".pure, and the text needs other threads");
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

static void pointers_keep_their_word(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 4; wrong++) {
        ptx_builder *b = builder_at(80);
        ptx_entry (b, "k") {
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
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k") {
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
static void spaces_of_addresses_are_checked(void **state)
{
#define SPACES(text, pointer, words) REFUSED(ptx_asm(b, text, .at = { pointer }), words)

    (void)state;
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
static void shared_memory_is_counted(void **state)
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
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ptx_builder *b = builder_at(80);
        ptx_asm_module(b,
                       ".shared .align 4 .b8 a[20000]; // [9]\n"
                       ".shared .align 4 .b32 ab[2], c[15000];\n"
                       ".extern .shared .align 4 .b8 e[];\n"
                       ".func f() { .shared .b8 own[10000]; ret; }",
                       .declares = { "a", "ab", "c", "e", "f" });
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

static void versions_are_required(void **state)
{
    struct ptx_builder_params params = { .target = { .sm = 90 }, .isa = 80 };

    (void)state;
    ptx_builder *own = builder_at(80);
    ptx_entry (own, "k")
        ptx_asm(own, "{ .reg .b32 t; new.thing t; }", .isa = 83, .sm = 75);
    assert_non_null(finished(own));
    assert_int_equal(ptx_builder_isa(own), 83);
    assert_string_equal(ptx_builder_isa_reason(own), "new.thing");
    ptx_builder_destroy(&own);
    REFUSED(ptx_asm(b, "new.thing;", .sm = 90),
            "new.thing needs sm_90 or newer; the target is sm_80");
    REFUSED(ptx_asm(b, "new.thing;", .sm = 80, .suffix = 'a'), "there is no target sm_80a");
    REFUSED(ptx_asm(b, "new.thing;", .suffix = 'a'),
            ".suffix is 'a' and .sm is 0; it goes with a target");
    REFUSED(ptx_asm(b, "new.thing;", .sm = 90, .suffix = 'a'),
            "new.thing needs sm_90a; the target is sm_80");
    REFUSED(ptx_asm(b, "new.thing;", .sm = 71), "there is no target sm_71");
    REFUSED(ptx_asm(b, "new.thing;", .sm = -80), "there is no target sm_-80");
    REFUSED(ptx_asm(b, "new.thing;", .isa = 8), ".isa is 8; it is ten times major plus minor");
    own = builder_at(70);
    ptx_entry (own, "k") // every target has what an older one had
        ptx_asm(own, "new.thing;", .isa = 50, .sm = 61);
    EXPECT_LINES(own, "new.thing;");
    REFUSED(ptx_asm(b, "new.thing;", .sm = 61, .suffix = 'a'), "there is no target sm_61a");
    own = ptx_builder_create(&params);
    ptx_entry (own, "k")
        ptx_asm(own, "new.thing;", .isa = 81);
    EXPECT_ERROR(own, "ptx_asm: new.thing needs PTX ISA 8.1; the text is pinned to 8.0");
}

// Which targets have what another target's suffix stands for.
static void suffixes_are_families(void **state)
{
    static const struct {
        struct ptx_target least, has;
        bool accepted;
    } cases[] = {
        { { 90, 'a' }, { 90, 'a' }, true },    { { 90, 'a' }, { 90, 0 }, false },
        { { 90, 'a' }, { 100, 'a' }, false },  { { 100, 'f' }, { 100, 'f' }, true },
        { { 100, 'f' }, { 100, 'a' }, true },  { { 100, 'f' }, { 103, 'f' }, true },
        { { 100, 'f' }, { 103, 'a' }, true },  { { 100, 'f' }, { 103, 0 }, false },
        { { 100, 'f' }, { 110, 'f' }, false }, { { 103, 'f' }, { 100, 'f' }, false },
        { { 120, 'f' }, { 121, 'a' }, true },  { { 100, 'a' }, { 100, 'f' }, false },
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ptx_builder *b =
            ptx_builder_create(&(struct ptx_builder_params) { .target = cases[k].has });
        ptx_entry (b, "k")
            ptx_asm(b, "new.thing;", .sm = cases[k].least.sm, .suffix = cases[k].least.suffix);
        if (!!ptx_builder_finish(b) != cases[k].accepted)
            fail_msg("case %zu: %s", k, ptx_builder_error(b) ? ptx_builder_error(b) : "accepted");
        ptx_builder_destroy(&b);
    }
}

// Whether a barrier, or a shuffle of the whole warp, may depend on the result of a text.
static void divergence_is_followed(void **state)
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

    (void)state;
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        const bool block = k & 1, accepted = block ? cases[k / 2].block : cases[k / 2].warp;
        ptx_builder *b = builder_at(80);
        ptx_entry (b, "k", .block = { 256 }) {
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
static void special_registers_diverge(void **state)
{
#define READS(text, ...)                                                                           \
    REFUSED(ptx_asm(b, text, .result = { PTX_U32 }, __VA_ARGS__), ".divergence says that results")

    (void)state;
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
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k", .block = { 256 }) {
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
static void guards_of_texts_are_refused(void **state)
{
#define SKIPS(text, what, why)                                                                     \
    REFUSED(ptx_asm(b, text, .in = { p }), "'" what "' needs all threads of a ", why,              \
            ".convergence")

    (void)state;
    SKIPS("@%0 bar.sync 0;", "bar.sync", "block, and has a guard");
    SKIPS("@!%0 bar.warp.sync -1;", "bar.warp.sync", "warp, and has a guard");
    SKIPS("@%0 barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.aligned", "has a guard");
    SKIPS("{ @%0 bra x; bar.sync 0; x: }", "bar.sync", "a branch of the text may skip it");
    SKIPS("a_%=: bar.sync 0; @%0 bra.uni a_%=;", "bar.sync", "a branch of the text may skip it");
    SKIPS("{ @%0 bra x; bra y; x: bar.sync 0; y: }", "bar.sync", "a branch");
    SKIPS("{ { @%0 bra x; { bar.sync 0; } } x: }", "bar.sync", "a branch");
    SKIPS("{ t: .branchtargets x, x; @%0 brx.idx 0, t; bar.sync 0; x: }", "bar.sync", "a branch");
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k", .block = { 256 }) {
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
static void variables_set_in_divergent_code_vary(void **state)
{
    (void)state;
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k", .block = { 256 }) {
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
static void convergence_is_checked(void **state)
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

    (void)state;
    for (size_t k = 0; k < 3 * sizeof cases / sizeof *cases; k++) {
        const size_t where = k % 3; // everywhere, in some warps, in some lanes
        const bool refused = where == 1 ? cases[k / 3].warps : where == 2 && cases[k / 3].lanes;
        ptx_builder *b = builder_at(90);
        ptx_entry (b, "k", .block = { 256 }) {
            ptx_val tid = ptx_tid(b, PTX_X), v = ptx_var(b, tid);
            ptx_val here = where == 0 ? ptx_eq(b, ptx_ctaid(b, PTX_X), 0)
                                      : ptx_lt(b, tid, where == 1 ? 64 : 65);
            ptx_if (b, here)
                ptx_asm(b, cases[k / 3].text, .inout = { v }, .convergence = cases[k / 3].said);
        }
        if (refused)
            EXPECT_ERROR(b, "test_asm.c:", "k: ptx_asm: '",
                         "and is in code that only some may reach");
        else
            EXPECT_LINES(b, "ret;");
    }
}

// Raw branches may not jump over what a text reads.
static void operands_are_defined(void **state)
{
    (void)state;
    ptx_builder *own = builder_at(80);
    ptx_entry (own, "k") {
        ptx_label over = ptx_label_create(own, "over");
        ptx_val x = ptx_tid(own, PTX_X);
        ptx_branch_if(own, ptx_eq(own, x, 0), over);
        ptx_val y = ptx_asm(own, "mov.u32 %0, 1;", .result = { PTX_U32 });
        ptx_label_place(own, over);
        ptx_asm(own, "use.it _, %0;", .in = { y });
    }
    EXPECT_ERROR(own, "an operand of 'use.it' is not defined on every path to it");
    REFUSED(ptx_val late = { 0 };
            ptx_if (b, p) late = ptx_asm(b, "mov.u32 %0, 1;", .result = { PTX_U32 });
            ptx_asm(b, "use _, %0;", .in = { late }),
            ".in[0] was made inside a block that is closed");
}

static void modules_are_refused(void **state)
{
#define MODULE_REFUSED(words, ...)                                                                 \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_asm_module(b, __VA_ARGS__);                                                            \
        EXPECT_ERROR(b, "test_asm.c:", "ptx_asm_module: ", words);                                 \
    } while (0)

    (void)state;
    MODULE_REFUSED("the text is missing", NULL);
    MODULE_REFUSED("the text is empty", " \n");
    MODULE_REFUSED("0xe9", ".global .u32 \xe9;");
    MODULE_REFUSED("'.global .u32 x' does not end", ".global .u32 x", .declares = { "x" });
    MODULE_REFUSED("'.func f() { ret' does not end", ".func f() { ret;", .declares = { "f" });
    MODULE_REFUSED("a '}' closes nothing", ".func f() } ret;", .declares = { "f" });
    MODULE_REFUSED("the text declares 'x'; name it in .declares", ".global .u32 x;");
    MODULE_REFUSED("the text declares 'y'", ".global .u32 x = 5, y[2] = { a, b };",
                   .declares = { "x" });
    MODULE_REFUSED("does not declare 'y'", ".global .u32 x[4] = { y };", .declares = { "x", "y" });
    MODULE_REFUSED("names 'x' twice", ".global .u32 x;", .declares = { "x", "x" });
    MODULE_REFUSED(".declares[0] was never set", ".global .u32 x;", .declares = { NULL, "x" });
    MODULE_REFUSED("'2x' is not a name", ".global .u32 x;", .declares = { "2x" });
    MODULE_REFUSED("'$x' begins with '$'", ".global .u32 $x;");
    MODULE_REFUSED(".version is the builder's to write", ".version 8.0\n.global .u32 x;",
                   .declares = { "x" });
    MODULE_REFUSED(".global .u32 x needs sm_90", ".global .u32 x;", .declares = { "x" }, .sm = 90);
    MODULE_REFUSED("needs sm_90a", "\n .global .u32 x;", .declares = { "x" }, .sm = 90,
                   .suffix = 'a');
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "k")
        ptx_barrier(b);
    assert_non_null(finished(b));
    ptx_asm_module(b, ".global .u32 x;", .declares = { "x" });
    assert_non_null(strstr(ptx_builder_error(b), "ptx_asm_module: the module is finished"));
    ptx_builder_destroy(&b);
}

static void names_of_texts_are_taken(void **state)
{
    static const char *const clashes[] = {
        "ptx_entry: a text of the module declares 'x'",
        "ptx_param: a text of the module declares 'x'",
        "ptx_asm_module: a text of the module declares 'x'",
        "ptx_asm_module: the module already has an entry 'k'",
        "ptx_asm_module: the module already has a parameter 'n', of entry 'k'",
        "ptx_asm_ptr: no text of the module declares 'y'",
        "ptx_asm_ptr: memory does not hold elements of type pred",
        "ptx_asm_ptr: the space is shared; it is global or const",
        "ptx_asm_ptr: 'x' is in global memory, and the space is const",
        "ptx_asm_ptr: 'f' is a function, and no variable",
        "ptx_asm_ptr: 'c' is in const memory, and the space is global",
    };

    (void)state;
    for (size_t k = 0; k < sizeof clashes / sizeof *clashes; k++) {
        ptx_builder *b = builder_at(80);
        ptx_asm_module(b, ".visible .global .u32 x; .const .u32 c = 5; .func f() { ret; }",
                       .declares = { "x", "c", "f" });
        ptx_entry (b, k == 0 ? "x" : "k") {
            ptx_val n = ptx_param(b, PTX_U32, k == 1 ? "x" : "n");
            ptx_store(b, ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "x"), 0, n);
            if (k >= 5)
                ptx_asm_ptr(b, k == 6 ? PTX_PRED : PTX_U32,
                            k == 7    ? PTX_SPACE_SHARED
                            : k == 10 ? PTX_SPACE_GLOBAL
                                      : PTX_SPACE_CONST,
                            k == 5    ? "y"
                            : k == 9  ? "f"
                            : k == 10 ? "c"
                                      : "x");
        }
        if (k == 2)
            ptx_asm_module(b, ".global .u32 x;", .declares = { "x" });
        else if (k == 3)
            ptx_asm_module(b, ".func k() { ret; }", .declares = { "k" });
        else if (k == 4)
            ptx_asm_module(b, ".global .u32 n;", .declares = { "n" });
        EXPECT_ERROR(b, clashes[k]);
    }
}

// Declared inside an entry, a text stands before it; each entry can use it.
static void texts_stand_before_entries(void **state)
{
    (void)state;
    ptx_builder *b = builder_at(80);
    for (int k = 0; k < 2; k++)
        ptx_entry (b, k ? "second" : "first") {
            ptx_val tid = ptx_tid(b, PTX_X);
            if (!k)
                ptx_asm_module(b, ".global .align 8 .b64 table[4] = { 1, 2,\n  3, 4 };",
                               .declares = { "table" });
            ptx_ptr p = ptx_asm_ptr(b, PTX_U64, PTX_SPACE_GLOBAL, "table"),
                    q = ptx_asm_ptr(b, PTX_U64, PTX_SPACE_GLOBAL, "table");
            ptx_store(b, ptx_at(b, p, tid), 0, ptx_load(b, q, tid));
            ptx_store(b, p, 3, 5);
        }
    EXPECT_LINES(b,
                 ".address_size 64\n\n.global .align 8 .b64 table[4] = { 1, 2,\n 3, 4 "
                 "};\n\n.visible .entry first(",
                 "mov.u64 %rd1, table;", "mad.wide.u32 %rd2, %r1, 8, %rd1;",
                 "mad.wide.u32 %rd3, %r1, 8, %rd1;", "st.global.u64 [table+24], %rd5;",
                 ".visible .entry second(", "mov.u64 %rd1, table;");
    b = builder_at(80);
    ptx_asm_module(b, ".global .u32 x;", .declares = { "x" });
    ptx_entry (b, "k")
        ptx_load(b, ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "x"), -1);
    EXPECT_ERROR(b, "ptx_load: index -1 of u32, from byte 0 on, is outside the array");
}

// After an error, and without a builder, results are poisoned.
static void errors_leave_nothing_half_done(void **state)
{
    ptx_val d[3] = { ptx_u32(1), ptx_u32(1), ptx_u32(1) };

    (void)state;
    ptx_asm_many(NULL, d, "use %0|%1;", .result = { PTX_U32, PTX_U32 });
    assert_true(d[0].kind == PTX_KIND_POISON && d[1].kind == PTX_KIND_POISON);
    assert_int_equal(d[2].kind, PTX_KIND_IMMEDIATE);
    assert_int_equal(ptx_asm(NULL, "trap;").kind, PTX_KIND_POISON);
    ptx_asm_module(NULL, ".global .u32 x;", .declares = { "x" });
    assert_int_equal(ptx_asm_ptr(NULL, PTX_U32, PTX_SPACE_GLOBAL, "x").type, PTX_NONE);
    ptx_builder *b = builder_at(80);
    ptx_asm(b, "trap;");
    EXPECT_ERROR(b, "ptx_asm: there is no open entry");
    b = builder_at(80);
    ptx_entry (b, "k") {
        d[0] = d[1] = ptx_u32(1);
        ptx_asm_many(b, d, "use %0, %1, %2;", .result = { PTX_U32, PTX_U32 });
        assert_true(d[0].kind == PTX_KIND_POISON && d[1].kind == PTX_KIND_POISON);
        assert_int_equal(ptx_asm(b, "mov.u32 %0, 1;", .result = { PTX_U32 }).kind, PTX_KIND_POISON);
    }
    EXPECT_ERROR(b, "ptx_asm_many: 'use %0, %1, %2' names %2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_has_one_text),
        cmocka_unit_test(operands_have_every_type),
        cmocka_unit_test(every_list_can_be_full),
        cmocka_unit_test(results_have_registers_of_their_own),
        cmocka_unit_test(statements_are_lines),
        cmocka_unit_test(texts_are_refused),
        cmocka_unit_test(operands_are_refused),
        cmocka_unit_test(destinations_are_checked),
        cmocka_unit_test(facts_are_refused),
        cmocka_unit_test(pointers_keep_their_word),
        cmocka_unit_test(spaces_of_addresses_are_checked),
        cmocka_unit_test(shared_memory_is_counted),
        cmocka_unit_test(versions_are_required),
        cmocka_unit_test(suffixes_are_families),
        cmocka_unit_test(divergence_is_followed),
        cmocka_unit_test(special_registers_diverge),
        cmocka_unit_test(guards_of_texts_are_refused),
        cmocka_unit_test(variables_set_in_divergent_code_vary),
        cmocka_unit_test(convergence_is_checked),
        cmocka_unit_test(operands_are_defined),
        cmocka_unit_test(modules_are_refused),
        cmocka_unit_test(names_of_texts_are_taken),
        cmocka_unit_test(texts_stand_before_entries),
        cmocka_unit_test(errors_leave_nothing_half_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

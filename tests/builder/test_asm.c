// SPDX-License-Identifier: MIT
// PTX text in entries and beside them: what is printed, and which texts, operands and versions are
// refused.
#include "asm_module.h"
#include "asm_refused.h"

TEST(a_module_has_one_text)
{
    OWNED(ptx_builder) *b = builder_at(80);

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
}

TEST(operands_have_every_type)
{
    NEW_ENTRY (b, 90) {
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

TEST(every_list_can_be_full)
{
    char text[2048];
    int length = 0;

    for (int k = 0; k < 16 + 64 + 32 + 4; k++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           k < 80    ? "i %%%d; "
                           : k < 112 ? "i _,%%%d; "
                                     : "i [%%%d]; ",
                           k);
    NEW_ENTRY (b, 90) {
        struct ptx_asm_params p = { .text = text };
        ptx_val d[16];
        for (int k = 0; k < 64; k++) {
            if (k < 16)
                p.result[k] = PTX_U32;
            p.inout[k] = ptx_var(b, ptx_u32((unsigned)k));
            if (k < 32)
                p.in[k] = ptx_u32((unsigned)k);
            if (k < 4)
                p.at[k] = ptx_shared(b, PTX_U32, 8);
        }
        ptx_asm_many_emit(b, d, p);
        ptx_asm(b, "last _, %0, %1;", .in = { d[0], d[15] });
    }
    EXPECT_LINES(b, "i %r97;", "i %r112;", "i %r1;", "i %r64;", "i _,%r65;", "i _,%r96;",
                 "i [$shared_1];", "i [$shared_4];", "last _, %r97, %r112;");
}

// A text that writes a result before it reads a variable must not get one register for both.
TEST(results_have_registers_of_their_own)
{
    NEW_ENTRY (b, 80) {
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

TEST(statements_are_lines)
{
    NEW_ENTRY (b, 80) {
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

TEST(texts_are_refused)
{
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
    REFUSED(ptx_asm(b, "@ trap;"), "'@ trap' does not begin with an instruction");
    REFUSED(ptx_asm(b, "@! trap;"), "does not begin with an instruction");
    REFUSED(ptx_asm(b, "mov.u32 %0, $shared_1;", .result = { PTX_U32 }), "begins with '$'");
    REFUSED(ptx_asm(b, "@%0 bra $if_1_end;", .in = { p }), "begins with '$'");
    REFUSED(ptx_asm(b, "done: trap;"), "label 'done' would", "done_%=");
    REFUSED(ptx_asm(b, "here: add.u32 %0, %0, 1;", .inout = { u }),
            "label 'here' would be there again");
    REFUSED(ptx_asm(b, "bra away;"), "a branch to 'away' leaves the text");
    REFUSED(ptx_asm(b, "{ here: @%0 bra.uni her; }", .in = { p }),
            "a branch to 'her' leaves the text");
    REFUSED(
        ptx_asm(b, "cp.async.ca.shared.global.L2::cache_hint [a], [%0], 8, 0;", .at = { m }),
        "'cp.async.ca.shared.global.L2::cache_hint' can become an illegal instruction on sm_90");
    REFUSED(ptx_asm(b, "cp.async.cg.shared.global.L2::cache_hint.L2::128B [a], [%0], 16, 0;",
                    .at = { m }),
            "by ptxas before 13.4; leave the hint out");
    REFUSED(ptx_asm(b, "ret;"), "'ret' leaves the text; ptx_return_if() does that");
    REFUSED(ptx_asm(b, "@%0 exit;", .in = { p }), "'exit' leaves the text");
    REFUSED(ptx_asm(b, ".reg .u32 t;"), "'.reg' outside of { }");
    REFUSED(ptx_asm(b, ".shared .b32 t[4];"), "'.shared' outside of { }");
    REFUSED(ptx_asm(b, "{ .global .b32 t; }"), "'.global' does not belong into a kernel's code",
            "ptx_asm_module()");
    REFUSED(ptx_asm(b, ".entry x() {"), "'.entry x() {' does not end with ';'");
}

TEST(operands_are_refused)
{
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
            "ptx_u32(4), ptx_f32(4) or");
    REFUSED(ptx_asm(b, "use _, %0;", .in = { ptx_imm(PTX_U8, 256) }),
            ".in[0] is the immediate 256");
    REFUSED(ptx_asm(b, "use _, %0;", .inout = { ptx_add(b, u, u) }),
            ".inout[0] is not a variable; ptx_var() makes one");
    REFUSED(ptx_asm(b, "use %0, %1;", .inout = { u, u }),
            ".inout[0] and .inout[1] are one variable");
    REFUSED(ptx_asm(b, "use _, %0;", .inout = { ptx_u32(4) }), ".inout[0] is not a variable");
}

TEST(versions_are_required)
{
    struct ptx_builder_params params = { .target = { .sm = 90 }, .isa = 80 };

    ptx_builder *own = builder_at(80);
    ptx_entry (own, "k")
        ptx_asm(own, "{ .reg .b32 t; new.thing t; }", .isa = 83, .sm = 75);
    assert_non_null(finished(own));
    assert_int_equal(ptx_builder_get_info(own).isa, 83);
    assert_string_equal(ptx_builder_get_info(own).isa_reason, "new.thing");
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
TEST(suffixes_are_families)
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

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        OWNED(ptx_builder) *b =
            ptx_builder_create(&(struct ptx_builder_params) { .target = cases[k].has });
        ptx_entry (b, "k")
            ptx_asm(b, "new.thing;", .sm = cases[k].least.sm, .suffix = cases[k].least.suffix);
        if (!!ptx_builder_finish(b) != cases[k].accepted)
            fail_msg("case %zu: %s", k, ptx_builder_error(b) ? ptx_builder_error(b) : "accepted");
    }
}

// Raw branches may not jump over what a text reads.
TEST(operands_are_defined)
{
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

TEST(modules_are_refused)
{
#define MODULE_REFUSED(words, ...)                                                                 \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_asm_module(b, __VA_ARGS__);                                                            \
        EXPECT_ERROR(b, "test_asm.c:", "ptx_asm_module: ", words);                                 \
    } while (0)

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
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k")
        ptx_barrier(b);
    assert_non_null(finished(b));
    ptx_asm_module(b, ".global .u32 x;", .declares = { "x" });
    assert_non_null(strstr(ptx_builder_error(b), "ptx_asm_module: the module is finished"));
}

TEST(names_of_texts_are_taken)
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
TEST(texts_stand_before_entries)
{
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
                 "ld.global.u64 %rd3, [%rd2];", "st.global.u64 [%rd2], %rd3;",
                 "st.global.u64 [table+24], 5;", ".visible .entry second(", "mov.u64 %rd1, table;");
    b = builder_at(80);
    ptx_asm_module(b, ".global .u32 x;", .declares = { "x" });
    ptx_entry (b, "k")
        ptx_load(b, ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "x"), -1);
    EXPECT_ERROR(b, "ptx_load: index -1 of u32, from byte 0 on, is outside the array");
}

// After an error, and without a builder, results are poisoned.
TEST(errors_leave_nothing_half_done)
{
    ptx_val d[3] = { ptx_u32(1), ptx_u32(1), ptx_u32(1) };

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

// SPDX-License-Identifier: MIT
// Source lines: .file and .loc, also of inlined code.
#define _POSIX_C_SOURCE 200809L
#define PTXGEN_HERE     NULL // places are what the tests say
#include "builder_fixture.h"

#include <stdlib.h>

static ptx_builder *lines_at(int isa)
{
    return ptx_builder_create(&(struct ptx_builder_params) { .isa = isa, .line_info = true });
}

static ptx_val twice(ptx_builder *b, ptx_val x)
{
    ptx_builder_place(b, "twice.c:3");
    x = ptx_add(b, x, x);
    ptx_builder_place(b, "twice.c:4");
    return ptx_xor(b, x, 5);
}

static ptx_val inlined_twice(ptx_builder *b, ptx_val x)
{
    ptx_inlined (b, "twice")
        x = twice(b, x);
    return x;
}

// An entry of k.c that stores a value of lines 1 to 9.
#define ENTRY(b, value)                                                                            \
    ptx_builder_place(b, "k.c:1");                                                                 \
    ptx_entry (b, "k", .block = { 32 }) {                                                          \
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");                                                \
        ptx_builder_place(b, "k.c:2");                                                             \
        ptx_val i = ptx_tid(b, PTX_X), x = value;                                                  \
        ptx_builder_place(b, "k.c:9");                                                             \
        ptx_store(b, p, i, x);                                                                     \
        ptx_builder_place(b, "k.c:10");                                                            \
    }

TEST(a_loc_stands_where_the_place_changes)
{
    ptx_builder *b = lines_at(0);
    ENTRY(b, twice(b, ptx_add(b, i, 1)));
    EXPECT_LINES(b, ".version 7.0", "\n.file 1 \"k.c\"\n.file 2 \"twice.c\"\n", "{\n",
                 "\n\n .loc 1 1 0\n ld.param.u64 %rd1, [p];\n cvta.to.global.u64 %rd2, %rd1;\n\n",
                 " .loc 1 2 0\n mov.u32 %r1, %tid.x;\n add.u32 %r2, %r1, 1;\n",
                 " .loc 2 3 0\n add.u32 %r3, %r2, %r2;\n .loc 2 4 0\n xor.b32 %r4, %r3, 5;\n",
                 " .loc 1 9 0\n mad.wide.u32 %rd3, %r1, 4, %rd2;\n st.global.u32 [%rd3], %r4;\n",
                 " .loc 1 10 0\n ret;\n}\n");
}

// Takes the lines away that begin with the word.
static void without(char *text, const char *word)
{
    char *to = text;

    while (*text) {
        const size_t length = strcspn(text, "\n") + 1;
        const char *const first = text + strspn(text, " ");
        if (strncmp(first, word, strlen(word)) != 0) {
            memmove(to, text, length);
            to += length;
        }
        text += length;
    }
    *to = 0;
}

TEST(the_instructions_are_the_same_without)
{
    ptx_builder *b = lines_at(0), *other = builder_at(80);
    ENTRY(b, twice(b, ptx_add(b, i, 1)));
    ENTRY(other, twice(other, ptx_add(other, i, 1)));
    ALLOCATED(char) *text = strdup(finished(b));
    assert_non_null(text);
    without(text, ".loc");
    without(text, ".file");
    char *const blank = strstr(text, "\n\n\n"); // before the files
    assert_non_null(blank);
    memmove(blank, blank + 1, strlen(blank));
    assert_string_equal(text, finished(other));
    ptx_builder_destroy(&b);
    ptx_builder_destroy(&other);
}

// In each other, with a position of the outer call before the inner one's.
TEST(code_of_blocks_is_inlined_where_they_stand)
{
    ptx_builder *b = lines_at(0);
    ptx_builder_place(b, "k.c:1");
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_val i = ptx_tid(b, PTX_X), x = { 0 };
        ptx_builder_place(b, "k.c:5");
        ptx_inlined (b, "outer") {
            ptx_builder_place(b, "outer.c:7");
            x = inlined_twice(b, i);
            ptx_builder_place(b, "outer.c:8");
            x = ptx_add(b, x, 9);
        }
        ptx_builder_place(b, "k.c:6");
        ptx_store(b, p, i, x);
    }
    EXPECT_LINES(b, ".version 7.2", ".loc 1 1 0\n", " .loc 1 5 0\n",
                 " .loc 2 7 0, function_name $inlined_1, inlined_at 1 5 0\n",
                 " .loc 3 3 0, function_name $inlined_2, inlined_at 2 7 0\n add.u32 ",
                 " .loc 3 4 0, function_name $inlined_2, inlined_at 2 7 0\n xor.b32 ",
                 " .loc 2 8 0, function_name $inlined_1, inlined_at 1 5 0\n add.u32 ",
                 " .loc 1 6 0\n mad.wide.u32 ", "\n}\n\n.section .debug_str\n{\n",
                 "$inlined_1: // outer\n .b8 111, 117, 116, 101, 114, 0\n",
                 "$inlined_2: // twice\n");
}

TEST(code_of_functions_is_inlined_where_they_are_called)
{
    ptx_builder *b = lines_at(0);
    ptx_builder_place(b, "f.c:20");
    ptx_func (b, "f", .result = PTX_U32) {
        ptx_val x = ptx_param(b, PTX_U32, "x");
        ptx_builder_place(b, "f.c:21");
        ptx_return_value(b, ptx_mul(b, x, 3));
    }
    ptx_builder_place(b, "g.c:30");
    ptx_func (b, "g", .result = PTX_U32) {
        ptx_val x = ptx_param(b, PTX_U32, "x");
        ptx_builder_place(b, "g.c:31");
        ptx_return_value(b, ptx_call(b, "f", x));
    }
    ENTRY(b, ptx_add(b, ptx_call(b, "g", i), ptx_call(b, "f", i)));
    EXPECT_LINES(b, " .loc 1 2 0\n", "{ // g, inline\n", "mov.u32 x, %r1;\n",
                 " .loc 2 30 0, function_name $inlined_1, inlined_at 1 2 0\n mov.u32 %r1, x;\n",
                 " .loc 2 31 0, function_name $inlined_1, inlined_at 1 2 0\n {",
                 " .loc 3 20 0, function_name $inlined_2, inlined_at 2 31 0\n mov.u32 %r1, x;\n",
                 " .loc 3 21 0, function_name $inlined_2, inlined_at 2 31 0\n mul.lo.u32 ",
                 " .loc 2 31 0, function_name $inlined_1, inlined_at 1 2 0\n mov.b32 ",
                 " .loc 1 2 0\n mov.b32 %r2, $result$1;\n", "{ // f, inline\n",
                 " .loc 3 21 0, function_name $inlined_2, inlined_at 1 2 0\n mul.lo.u32 ",
                 "$inlined_1: // g\n", "$inlined_2: // f\n");
}

// PTX ISA 7.0 has .loc, and no inlined_at.
TEST(an_older_isa_has_lines_without_call_sites)
{
    OWNED(ptx_builder) *b = lines_at(70);
    ENTRY(b, inlined_twice(b, i));
    const char *text = finished(b);
    assert_non_null(find_line(text, " .loc 2 3 0\n add.u32 "));
    assert_null(strstr(text, "inlined"));
}

TEST(paths)
{
    struct ptx_builder_params params = { .line_info = true, .source_folder = "/src/project" };
    ptx_builder *b = ptx_builder_create(&params);
    ENTRY(b, (ptx_builder_place(b, "/else/where.c:123456789"), ptx_add(b, i, 1)));
    EXPECT_LINES(b, ".file 1 \"/src/project/k.c\"\n.file 2 \"/else/where.c:123456789\"\n",
                 ".loc 2 0 0\n");
    params.source_folder = "relative/";
    b = ptx_builder_create(&params);
    ENTRY(b, (ptx_builder_place(b, "a:b \"\\\xc3\xbc.c:7"), ptx_add(b, i, 1)));
    EXPECT_LINES(b, ".file 1 \"relative/k.c\"\n.file 2 \"relative/a:b ????.c\"\n", ".loc 2 7 0\n");
    params.source_folder = "";
    b = ptx_builder_create(&params);
    ENTRY(b, (ptx_builder_place(b, ":5"), ptx_add(b, i, 1)));
    EXPECT_LINES(b, ".file 1 \"k.c\"\n.file 2 \"unknown\"\n", ".loc 2 5 0\n");
    b = ptx_builder_create(&params);
    ENTRY(b, (ptx_builder_place(b, "a script"), ptx_add(b, i, 1)));
    EXPECT_LINES(b, ".file 1 \"k.c\"\n.file 2 \"a script\"\n", ".loc 2 0 0\n");
}

// Code of math.h is the line of its call's.
TEST(functions_of_math_have_the_callers_line)
{
    OWNED(ptx_builder) *b = lines_at(0);
    ENTRY(b, ptx_bitcast(b, PTX_U32, ptx_math_pow(b, ptx_cvt(b, PTX_F32, i), ptx_f32(3))));
    const char *const text = finished(b), *const first = strstr(text, ".loc 1 2 0\n");
    const char *const next = first ? strstr(first + 1, ".loc") : NULL;
    unsigned instructions = 0;
    assert_non_null(next);
    assert_int_equal(strncmp(next, ".loc 1 9 0\n", 11), 0);
    for (const char *at = first; (at = strchr(at + 1, ';')) && at < next;)
        instructions++;
    assert_true(instructions > 20);
}

// Nothing is said where no place is known, and line 0 where one was known before.
TEST(no_places)
{
    ptx_builder *b = lines_at(0);
    ptx_func (b, "f", .result = PTX_U32)
        ptx_return_value(b, ptx_mul(b, ptx_param(b, PTX_U32, "x"), 3));
    ptx_entry (b, "k") {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_inlined (b, "site")
            ptx_store(b, p, 0, ptx_call(b, "f", ptx_tid(b, PTX_X)));
    }
    const char *text = finished(b);
    assert_null(strstr(text, ".loc"));
    assert_null(strstr(text, ".file"));
    assert_null(strstr(text, ".section"));
    ptx_builder_destroy(&b);
    b = lines_at(0);
    ENTRY(b, (ptx_builder_place(b, NULL), ptx_add(b, i, 1)));
    EXPECT_LINES(b, " .loc 1 2 0\n mov.u32 ", " .loc 1 0 0\n add.u32 ", " .loc 1 9 0\n mad.wide");
}

// Equal places are one, wherever the compiler has put their strings.
TEST(equal_places_are_one)
{
    char again[] = "k.c:2";
    ptx_builder *b = lines_at(0);
    ENTRY(b, (ptx_builder_place(b, again), ptx_add(b, i, 1)));
    EXPECT_LINES(b, " .loc 1 2 0\n mov.u32 %r1, %tid.x;\n add.u32 ");
}

// Each entry begins with its own place, also after one of the same file.
TEST(entries_have_their_own)
{
    ptx_builder *b = lines_at(0);
    ptx_builder_place(b, "k.c:1");
    ptx_entry (b, "k1")
        ptx_store(b, ptx_param_ptr(b, PTX_U32, "p"), 0, ptx_u32(1));
    ptx_entry (b, "k2")
        ptx_store(b, ptx_param_ptr(b, PTX_U32, "p"), 0, ptx_u32(2));
    EXPECT_LINES(b, "k1(", ".loc 1 1 0\n ld.param", "k2(", ".loc 1 1 0\n ld.param");
}

#define REFUSED(words, ...)                                                                        \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        EXPECT_ERROR(b, words);                                                                    \
    } while (0)

TEST(wrong_blocks)
{
    REFUSED("inlined: the name is NULL", ptx_inlined_begin(b, NULL));
    REFUSED("inlined: the name is empty", ptx_inlined_begin(b, ""));
    REFUSED("the ptx_inlined block 'lost' was never closed", ptx_inlined_begin(b, "lost"));
    REFUSED("inlined: this block is not open", const int site = ptx_inlined_begin(b, "a");
            ptx_inlined_end(b, site); ptx_inlined_end(b, site));
    REFUSED("inlined: this block is not open", ptx_inlined_end(b, 0));
    REFUSED("the ptx_inlined block 'in' was never closed",
            const int site = ptx_inlined_begin(b, "a");
            ptx_inlined_begin(b, "in"); ptx_inlined_end(b, site));
    ptx_builder *b = builder_at(80);
    assert_int_equal(ptx_inlined_begin(b, "early"), 1);
    EXPECT_ERROR(b, "there is no open entry");
    assert_int_equal(ptx_inlined_begin(NULL, "x"), 1);
    assert_int_equal(ptx_inlined_end(NULL, 1), 0);
}

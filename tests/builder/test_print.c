// SPDX-License-Identifier: MIT
// The finished text: complete, without injected lines, and the same on every machine.
#define _XOPEN_SOURCE 700
#include "builder_fixture.h"
#include "kitchen_sink.h"
#include "skip.h"

#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <wchar.h>

TEST(the_whole_text_is_known)
{
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);
    ptx_entry (b, "scale", .block = { 256 }, .min_blocks = 2) {
        ptx_ptr x =
            ptx_param_ptr(b, PTX_F32, "x", .length = "n", .readonly = true, .meaning = "the input");
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .writeonly = true);
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_val i = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, i, n)) {
            ptx_comment(b, "y = x / %d", 2);
            ptx_store(b, y, i, ptx_mul(b, ptx_load(b, x, i), ptx_f32(0.5f)));
        }
    }
    const char *text = finished(b);
    assert_string_equal(text,
                        "// Written by ptxgen. The PTX ISA version is the least that has sm_80.\n"
                        ".version 7.0\n"
                        ".target sm_80\n"
                        ".address_size 64\n"
                        "\n"
                        ".visible .entry scale(\n"
                        "    .param .u64 x,              // f32[n], read only: the input\n"
                        "    .param .u64 y,              // f32[], written\n"
                        "    .param .u32 n\n"
                        ")\n"
                        ".reqntid 256, 1, 1\n"
                        ".minnctapersm 2\n"
                        "{\n"
                        "    .reg .pred   %p<2>;\n"
                        "    .reg .b32    %r<3>;\n"
                        "    .reg .b64    %rd<7>;\n"
                        "    .reg .f32    %f<3>;\n"
                        "\n"
                        "    ld.param.u64        %rd1, [x];\n"
                        "    cvta.to.global.u64  %rd2, %rd1;\n"
                        "    ld.param.u64        %rd3, [y];\n"
                        "    cvta.to.global.u64  %rd4, %rd3;\n"
                        "    ld.param.u32        %r1, [n];\n"
                        "\n"
                        "    mov.u32             %r2, %tid.x;\n"
                        "    setp.lt.u32         %p1, %r2, %r1;\n"
                        "    @!%p1 bra           $if_1_end;\n"
                        "\n"
                        "        // y = x / 2\n"
                        "        mad.wide.u32        %rd5, %r2, 4, %rd2;\n"
                        "        ld.global.f32       %f1, [%rd5];\n"
                        "        mul.rn.f32          %f2, %f1, 0f3F000000; // 0.5\n"
                        "        mad.wide.u32        %rd6, %r2, 4, %rd4;\n"
                        "        st.global.f32       [%rd6], %f2;\n"
                        "$if_1_end:\n"
                        "    ret;\n"
                        "}\n");
    assert_ptr_equal(ptx_builder_finish(b), text);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", PTXGEN_VERSION_MAJOR, PTXGEN_VERSION_MINOR,
             PTXGEN_VERSION_PATCH);
    assert_string_equal(ptxgen_version(), version);
    assert_true(ptx_builder_get_info(b).peak_bytes > strlen(text));
    ptx_builder_destroy(&b);
    assert_null(b);
    ptx_builder_destroy(NULL);
}

// Long names, meanings and opcodes are printed completely. A user's text cannot end its comment.
TEST(nothing_is_cut_or_injected)
{
    static char entry[1025], param[301], meaning[6001], wanted[7000];

    memset(entry, 'e', 1024);
    memset(param, 'p', 300);
    memset(meaning, 'm', 6000);
    ptx_builder *b = builder_at(80);
    ptx_entry (b, entry) {
        ptx_val x = ptx_param(b, PTX_U32, param, .meaning = meaning);
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p", .length = "a\n.garbage", .computed_length = true,
                                  .meaning = "b\n.garbage\r\x01");
        ptx_store(b, p, ptx_u32(0), x);
        ptx_comment(b, "%s", meaning);
        ptx_comment(b, "two\nlines\\");
        ptx_comment(b, "caf\xc3\xa9 \xe2\x88\x9a");
    }
    snprintf(wanted, sizeof wanted, ".visible .entry %s(\n", entry);
    assert_non_null(strstr(finished(b), wanted));
    snprintf(wanted, sizeof wanted, ".param .u32 %s,", param);
    assert_non_null(strstr(finished(b), wanted));
    snprintf(wanted, sizeof wanted, "[%s];", param);
    assert_non_null(strstr(finished(b), wanted));
    snprintf(wanted, sizeof wanted, "// %s\n", meaning);
    EXPECT_LINES(b, "// u32[a .garbage]: b .garbage \n", wanted, "// two lines\\\n", "// caf? ?\n");
}

static char *sink_text(void)
{
    OWNED(ptx_builder) *b = builder_at(86);

    kitchen_sink(b, "sink");
    ptx_entry (b, "numbers") {
        ptx_var(b, ptx_f32(0.1f));
        ptx_var(b, ptx_f64(-1234567.875));
        ptx_var(b, ptx_imm(PTX_F16, 0.333));
    }
    char *text = malloc(strlen(finished(b)) + 1);
    strcpy(text, finished(b));
    return text;
}

TEST(the_same_calls_give_the_same_bytes)
{
    char *first = sink_text(), *second = sink_text();

    assert_string_equal(first, second);
    assert_non_null(strstr(first, "// 0.1\n"));
    assert_non_null(strstr(first, "// -1234567.875\n"));
    assert_non_null(strstr(first, "// 0.333007"));
    free(first);
    free(second);
}

// Selects an installed locale, or one that is made in `folder`.
static bool select_locale(const char *name, const char *folder)
{
    char command[256], full[64];

    snprintf(full, sizeof full, "%s.UTF-8", name);
    if (setlocale(LC_ALL, full))
        return true;
    snprintf(command, sizeof command, "localedef -i %s -f UTF-8 %s/%s >/dev/null 2>&1", name,
             folder, full);
    setenv("LOCPATH", folder, 1);
    return system(command) == 0 && setlocale(LC_ALL, full);
}

// More constants than the builder remembers, again and again; and the same bits in two types.
TEST(constants_that_come_again_are_printed_again)
{
    enum { CONSTANTS = 40 };
    char decimal[32];

    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_var(b, ptx_f32(1));
        for (int k = 0; k < 3 * CONSTANTS; k++) {
            ptx_set(b, x, ptx_f32(100.5f + (float)(k % CONSTANTS)));
            ptx_set(b, x, ptx_f32(0.1f));
        }
        ptx_var(b, ptx_imm_bits(PTX_F16, 0x3c00));
        ptx_var(b, ptx_imm_bits(PTX_BF16, 0x3c00));
    }
    const char *at = finished(b);
    for (int k = 0; k < 3 * CONSTANTS; k++) {
        snprintf(decimal, sizeof decimal, "// %d.5\n", 100 + k % CONSTANTS);
        at = strstr(at, "// 1");
        assert_non_null(at);
        if (k == 0) // that of the variable
            at = strstr(at + 1, "// 1");
        assert_int_equal(strncmp(at, decimal, strlen(decimal)), 0);
        at = strstr(at, "// 0.1\n");
        assert_non_null(at);
    }
    EXPECT_LINES(b, "mov.b16 %rs1, 0x3C00; // 1.0", "mov.b16 %rs2, 0x3C00; // 0.0078125");
}

// German has a decimal comma; Pashto has a separator of two bytes.
TEST(locales_do_not_matter)
{
    static const char *const names[] = { "de_DE", "ps_AF" };
    char folder[] = "/tmp/ptxgen-XXXXXX", command[64], number[16];
    char *first = sink_text();
    unsigned tried = 0;

    assert_non_null(mkdtemp(folder));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!select_locale(names[k], folder))
            continue;
        tried++;
        snprintf(number, sizeof number, "%.1f", 0.5);
        ALLOCATED(char) *text = sink_text();
        setlocale(LC_ALL, "C");
        assert_string_not_equal(number, "0.5");
        assert_string_equal(text, first);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    free(first);
    if (!tried)
        skip_because(
            "no locale of de_DE ps_AF: they are not installed, and localedef cannot make them");
}

// No line has more than 120 columns where words can be broken off; a decimal value that does not
// fit is left out, and is not taken for one that was printed.
TEST(lines_have_an_end)
{
    char words[600] = "", *at = words;

    for (int k = 0; k < 60; k++)
        at += sprintf(at, "word%d%s", k, k < 59 ? " " : "");
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_param(b, PTX_F64, "x", .meaning = words);
        ptx_comment(b, "%s", words);
        ptx_select(b, ptx_bool(true), ptx_f64(0x1p512), ptx_f64(0.1));
        ptx_val p = ptx_gt(b, x, 0);
        ptx_if (b, p) {
            ptx_comment(b, "%s", words);
            ptx_if (b, p)
                ptx_if (b, p)
                    ptx_if (b, p)
                        ptx_fma(b, ptx_f64(1.0 / 3), x, ptx_f64(-1.2345678901234567e-300));
        }
        ptx_mul(b, x, ptx_f64(1.0 / 3));
    }
    const char *text = finished(b);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 120);
    EXPECT_LINES(b, "// word0 word1", "\n // word", "word59\n)", "\n // word0 word1", "\n // word",
                 "word59\n", "// 2^512, 0.1\n", "// word0", "word59\n", "fma.rn.f64", "0d81A",
                 ";\n", "0d3FD5555555555555; // 0.3333333333333333\n");
}

// What printf() would write, whoever writes it: also beside the bounds of the usual.
TEST(comments_are_formatted)
{
    char text[300], plain[300], words[240];

    memset(words, 'w', sizeof words);
    for (int length = 225; length < 240; length++) {
        NEW_ENTRY (b, 80) {
            ptx_comment(b, "%d, %d, %u is %s%s", -7, INT_MIN, UINT_MAX, "all", "");
            ptx_comment(b, "%02d%% of %.2f, %s", 7, 0.5, "more");
            ptx_comment(b, "%.*s", length, words);
            words[length] = '\0';
            ptx_comment(b, "%s", words);
            ptx_comment(b, "%s%d", words, INT_MIN);
            words[length] = 'w';
        }
        sprintf(text, "// %.*s-2147483648\n", length, words);
        sprintf(plain, "// %.*s\n", length, words);
        EXPECT_LINES(b, "// -7, -2147483648, 4294967295 is all\n", "// 07% of 0.50, more\n", plain,
                     plain, text);
    }
}

TEST(a_comment_must_be_writable)
{
    static const wchar_t outside[] = { 0x7fffffff, 0 };

    NEW_ENTRY (b, 80)
        ptx_comment(b, "%ls", outside);
    EXPECT_ERROR(b, "k: ptx_comment: the C library cannot write '%ls'");
}

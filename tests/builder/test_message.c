// SPDX-License-Identifier: MIT
// printf, traps with a message and assertions: text, formats against values, what is refused.
#include "builder_fixture.h"

TEST(a_line_is_printed)
{
    NEW_ENTRY (b, 80) {
        ptx_val tid = ptx_tid(b, PTX_X), x = ptx_cvt(b, PTX_F32, tid);
        ptx_printf(b, "x = %d, %f\n", tid, x);
        ptx_printf(b, "done\n");
        ptx_printf(b, "x = %d, %f\n", 7, -1.5);
    }
    EXPECT_LINES(
        b,
        "\n\n.extern .func (.reg .b32 $status) vprintf(.reg .b64 $format, .reg .b64 $values);\n"
        "\n.global .align 1 .b8 $string_1[12] = { // \"x = %d, %f\\n\"\n",
        "$string_2[6] = { // \"done\\n\"\n", ".local .align 16 .b8 $printf[16];",
        "mov.u64 %rd1, $string_1;", "cvt.f64.f32 %fd1, %f1;", "cvta.global.u64 %rd4, %rd1;",
        "st.local.u32 [$printf], %r1;", "st.local.f64 [$printf+8], %fd1;",
        "cvta.local.u64 %rd5, %rd2;", "call (%r2), vprintf, (%rd4, %rd5);",
        "call (%r3), vprintf, (%rd6, 0);", "st.local.s32 [$printf], 7;",
        "st.local.f64 [$printf+8], 0dBFF8000000000000; // -1.5", "call (%r4), vprintf, (");
}

TEST(an_assertion_and_a_trap)
{
    NEW_ENTRY (b, 80) {
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_assert(b, ptx_lt(b, tid, 5), "x < 5", .file = "k.c", .line = 77);
        ptx_if (b, ptx_eq(b, tid, 3))
            ptx_trap_message(b, "never");
    }
    EXPECT_LINES(
        b,
        "\n\n.extern .func __assertfail(.reg .b64 $message, .reg .b64 $file, .reg .b32 $line,\n "
        ".reg .b64 $function, .reg .b64 $char_bytes);\n",
        "// \"x < 5\"", "// \"k.c\"", "// \"k\"", "// \"never\"",
        "@%p1 bra $assert_1_end;\n cvta.global.u64",
        "call __assertfail, (%rd5, %rd6, 77, %rd7, 1);\n$assert_1_end:",
        "call __assertfail, (%rd8, %rd9, 2, %rd10, 1);");
}

// A value of every type goes with the conversions of its kind alone.
TEST(formats_are_checked_against_types)
{
    static const char narrow[] = "diuxXoc", reals[] = "fFeEgGaA";

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
        const ptx_type type = (ptx_type)t;
        const unsigned bits = type == PTX_PRED ? 1 : 8 * ptx_type_bytes(type);
        const bool real = type >= PTX_F16 && type <= PTX_F64;
        const bool integer = type >= PTX_U8 && type <= PTX_B64;
        for (const char *letter = "diuxXocDIUXOQfFeEgGaAspnLZ"; *letter; letter++) {
            const bool wide = strchr("DIUQO", *letter) != NULL; // with ll
            const char small[] = { wide ? (char)(*letter == 'Q' ? 'x' : *letter - 'A' + 'a')
                                        : *letter,
                                   0 };
            char format[8];
            snprintf(format, sizeof format, "%%%s%s", wide ? "ll" : "", small);
            const bool pointer = strchr("sp", *letter) && (type == PTX_U64 || type == PTX_B64);
            const bool fits = wide                      ? integer && bits == 64
                              : strchr(narrow, *letter) ? (integer && bits <= 32) || bits == 1
                              : strchr(reals, *letter)  ? real
                                                        : pointer;
            OWNED(ptx_builder) *b = builder_at(90);
            ptx_entry (b, "k") {
                ptx_val x = ptx_copy(b, ptx_zero(type));
                ptx_printf(b, format, x);
            }
            const bool taken = ptx_builder_finish(b) != NULL;
            if (taken != fits)
                fail_msg("'%s' with %s: %s", format, ptx_type_name(type),
                         taken ? "accepted" : ptx_builder_error(b));
        }
    }
}

#define PRINT_REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

TEST(bad_messages_are_refused)
{
    ptx_val many[17];

    PRINT_REFUSED(ptx_printf(b, "%d %d", u), "ptx_printf: the format takes 2 values; got 1");
    PRINT_REFUSED(ptx_printf(b, "%d", u, u), "the format takes 1 value; got 2");
    PRINT_REFUSED(ptx_printf(b, "%% none", u), "the format takes 0 values; got 1");
    PRINT_REFUSED(ptx_printf(b, "%d %d", u, f),
                  "value 2 is f32; '%d' takes integers of up to 32 bits; ll is for 64");
    PRINT_REFUSED(ptx_printf(b, "%-8.3lld", u), "value 1 is u32; '%-8.3lld' takes integers of 64");
    PRINT_REFUSED(ptx_printf(b, "%g", u), "value 1 is u32; '%g' takes f16, bf16, f32 and f64");
    PRINT_REFUSED(ptx_printf(b, "%s", u), "a u64, as ptx_ptr_generic() gives it");
    PRINT_REFUSED(ptx_printf(b, "%d", 3000000000), "value 1 is the number 3000000000");
    PRINT_REFUSED(ptx_printf(b, "%d", 1.5), "value 1 is the number 1.5, which s32 cannot hold");
    PRINT_REFUSED(ptx_printf(b, "%u", -1), "value 1 is the number -1, which u32 cannot hold");
    PRINT_REFUSED(ptx_printf(b, "%d", (ptx_val) { 0 }), "value 1 was never set");
    PRINT_REFUSED(ptx_printf(b, "%*d", u), "a width is a number");
    PRINT_REFUSED(ptx_printf(b, "%.*f", f), "a width is a number");
    PRINT_REFUSED(ptx_printf(b, "100%"), "'%' in the format: the format ends in it");
    PRINT_REFUSED(ptx_printf(b, "%5"), "'%5' in the format: the format ends in it");
    PRINT_REFUSED(ptx_printf(b, "%y", u), "'%y' in the format: there is no such conversion");
    PRINT_REFUSED(ptx_printf(b, "%n", u), "there is no such conversion");
    PRINT_REFUSED(ptx_printf(b, "%zu", u), "'%z' in the format: a size is h, l or ll");
    PRINT_REFUSED(ptx_printf(b, "%llld", u), "a size is h, l or ll");
    PRINT_REFUSED(ptx_printf(b, "%hhu", u), "a size is h, l or ll");
    PRINT_REFUSED(ptx_printf(b, "%hld", u), "a size is h, l or ll");
    PRINT_REFUSED(ptx_printf(b, "%lf", f), "a size is for integers");
    PRINT_REFUSED(ptx_printf(b, "%lc", u), "wide characters are not printed");
    PRINT_REFUSED(ptx_printf(b, "%5%"), "'%' stands alone");
    PRINT_REFUSED(ptx_printf(b, "%012345678901234567890d", u), "widths have a few digits");
    PRINT_REFUSED(ptx_printf_emit(b, NULL, NULL, 0), "the format is NULL");
    PRINT_REFUSED(memset(many, 0, sizeof many); ptx_printf_emit(b, "", many, 17), "17 values");
    PRINT_REFUSED(ptx_assert(b, u, "u"), "ptx_assert: the condition is u32");
    PRINT_REFUSED(ptx_assert(b, p, NULL), "ptx_assert: the text is NULL");
    PRINT_REFUSED(ptx_assert(b, p, "p"); ptx_else_begin(b), "must directly follow");
    PRINT_REFUSED(ptx_trap_message(b, NULL), "ptx_trap_message: the text is NULL");
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "vprintf") {}
    EXPECT_ERROR(b, "'vprintf' is a function of the driver");
    b = builder_at(80);
    ptx_trap_message(b, "x");
    EXPECT_ERROR(b, "ptx_trap_message: there is no open entry");
    (ptx_printf_emit)(NULL, "x", NULL, 0);
}

// Neither is a barrier, and code after an assertion is reached by all.
TEST(messages_do_not_diverge)
{
    NEW_ENTRY (b, 80) {
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, tid, 5))
            ptx_printf(b, "%u\n", tid);
        ptx_assert(b, ptx_lt(b, tid, 77), "few");
        ptx_barrier(b);
    }
    EXPECT_LINES(b, "vprintf", "bar.sync 0;");
}

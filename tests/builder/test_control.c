// SPDX-License-Identifier: MIT
// Variables, blocks, labels.
#include "builder_fixture.h"

TEST(variables_change_and_copies_do_not)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_S32, "out");
        ptx_val x = ptx_param(b, PTX_S32, "x");
        ptx_val var = ptx_var(b, x);
        ptx_val before = ptx_copy(b, var);
        ptx_set(b, var, ptx_s32(-5));
        ptx_set(b, var, ptx_add(b, var, x));
        ptx_val other = ptx_var(b, var);
        ptx_set(b, var, other);
        ptx_store(b, out, ptx_u32(0), before);
        ptx_store(b, out, ptx_u32(1), var);
    }
    EXPECT_LINES(b, "mov.s32 %r2, %r1;", "mov.s32 %r3, %r2;", "mov.s32 %r2, -5;",
                 "add.s32 %r2, %r2, %r1;\n st.global.s32 [%rd2], %r3;",
                 "st.global.s32 [%rd2], %r3;", "st.global.s32 [%rd2+4], %r2;");
}

// A copy is written only if something reads it after the variable changed, or where it may have.
TEST(copies_that_nothing_needs_are_dropped)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val x = ptx_tid(b, PTX_X), never_set = ptx_var(b, x);
        ptx_val var = ptx_var(b, ptx_mul(b, x, 3)), copy = ptx_copy(b, var);
        ptx_comment(b, "straight");
        ptx_store(b, out, 0, ptx_copy(b, never_set));
        ptx_store(b, out, 1, copy);
        ptx_val sum = ptx_add(b, copy, x), twice = ptx_mul(b, sum, 2);
        ptx_set(b, var, twice);
        ptx_comment(b, "loop");
        ptx_val before = ptx_copy(b, var), in_asm = ptx_copy(b, var);
        ptx_asm(b, "{ mov.u32 %0, 7; add.u32 %0, %0, %1; }", .inout = { var }, .in = { in_asm });
        ptx_loop (b) {
            ptx_val inside = ptx_copy(b, var);
            ptx_break_if(b, ptx_eq(b, inside, before));
            ptx_set(b, var, ptx_add(b, inside, 1));
        }
    }
    EXPECT_LINES(
        b, "mul.lo.u32 %r2, %r1, 3;\n\n // straight\n st.global.u32 [%rd2], %r1;\n",
        "st.global.u32 [%rd2+4], %r2;\n add.u32 %r3, %r2, %r1;\n mul.lo.u32 %r2, %r3, 2;\n",
        "// loop\n mov.u32 %r4, %r2;\n mov.u32 %r5, %r2;\n {\n", "%r5;", "$loop_1:\n",
        "setp.eq.u32 %p1, %r2, %r4;\n @%p1 bra $loop_1_end;\n add.u32 %r2, %r2, 1;\n");
}

// What is set in a function is what it returns.
TEST(a_result_is_not_dropped)
{
    ptx_builder *b = builder_at(80);
    ptx_func (b, "f", .result = PTX_U32)
        ptx_return_value(b, ptx_param(b, PTX_U32, "x"));
    ptx_entry (b, "k")
        ptx_store(b, ptx_param_ptr(b, PTX_U32, "out"), 0, ptx_call(b, "f", ptx_tid(b, PTX_X)));
    EXPECT_LINES(b, "mov.u32 $result$1, %r1;", "mov.b32 %r2, $result$1;");
}

// `x = op; mov var, x` becomes `var = op` only if nothing else reads x.
TEST(a_value_used_twice_is_not_merged)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val var = ptx_var(b, ptx_u32(1)), p = ptx_var(b, ptx_bool(true));
        ptx_val sum = ptx_add(b, var, ptx_u32(2));
        ptx_set(b, var, sum);
        ptx_set(b, var, ptx_u32(9));
        ptx_store(b, out, ptx_u32(0), sum);
        ptx_val guard = ptx_eq(b, var, ptx_u32(9));
        ptx_set(b, p, guard);
        ptx_if (b, guard)
            ptx_store(b, out, ptx_u32(1), var);
        ptx_val twice = ptx_mul(b, var, ptx_u32(3));
        ptx_set(b, var, twice);
        ptx_set(b, var, twice);
        ptx_val not_next = ptx_sub(b, var, ptx_u32(4));
        ptx_set(b, p, ptx_bool(false));
        ptx_set(b, var, not_next);
    }
    EXPECT_LINES(b, "add.u32 %r2, %r1, 2;", "mov.u32 %r1, %r2;", "mov.u32 %r1, 9;",
                 "st.global.u32 [%rd2], %r2;", "setp.eq.u32 %p2, %r1, 9;", "mov.pred %p1, %p2;",
                 "@!%p2 bra $if_1_end;", "mul.lo.u32 %r3, %r1, 3;", "mov.u32 %r1, %r3;",
                 "mov.u32 %r1, %r3;", "sub.u32 %r1, %r1, 4;\n mov.pred %p1, 0;\n ret;");
}

// The same for an operation of several results: a variable takes one of them.
TEST(all_results_of_a_load_are_merged)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_val x = ptx_var(b, ptx_u32(1)), y = ptx_var(b, ptx_u32(2));
        ptx_vec crossed = ptx_load_vec(b, p, ptx_u32(0), 2);
        ptx_set(b, y, crossed.lane[0]);
        ptx_set(b, x, crossed.lane[1]);
        ptx_vec part = ptx_load_vec(b, p, ptx_u32(4), 4);
        ptx_set(b, y, part.lane[2]);
        ptx_store(b, p, ptx_u32(0), part.lane[1]);
        ptx_vec twice = ptx_load_vec(b, p, ptx_u32(8), 2);
        ptx_set(b, x, twice.lane[1]);
        ptx_set(b, x, twice.lane[0]);
        ptx_vec again = ptx_load_vec(b, p, ptx_u32(12), 2);
        ptx_set(b, y, again.lane[1]);
        ptx_set(b, x, again.lane[0]);
        ptx_store(b, p, ptx_u32(1), again.lane[0]);
        ptx_vec moved = ptx_load_vec(b, p, ptx_u32(16), 2);
        ptx_set(b, x, moved.lane[0]);
        ptx_set(b, y, x);
        ptx_store_vec(b, p, ptx_u32(2), ptx_vec2(x, y));
    }
    EXPECT_LINES(b, "ld.global.v2.u32 {%r2, %r1}, [%rd2];",
                 "ld.global.v4.u32 {%r3, %r4, %r2, %r5}, [%rd2+16];", "st.global.u32 [%rd2], %r4;",
                 "ld.global.v2.u32 {%r6, %r1}, [%rd2+32];", "mov.u32 %r1, %r6;",
                 "ld.global.v2.u32 {%r7, %r2}, [%rd2+48];", "mov.u32 %r1, %r7;",
                 "st.global.u32 [%rd2+4], %r7;", "ld.global.v2.u32 {%r1, %r8}, [%rd2+64];",
                 "mov.u32 %r2, %r1;", "st.global.v2.u32 [%rd2+8], {%r1, %r2};");
}

TEST(conditions_branch_around)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val p = ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(0));
        ptx_if (b, p) {
            ptx_store(b, out, ptx_u32(0), ptx_u32(1));
        }
        ptx_if (b, p) {
            ptx_store(b, out, ptx_u32(0), ptx_u32(2));
            ptx_if (b, p)
                ptx_store(b, out, ptx_u32(0), ptx_u32(3));
        }
        ptx_else (b) {
            ptx_shared(b, PTX_U32, 1); // a declaration emits nothing here
            ptx_if (b, ptx_bool(true))
                ptx_store(b, out, ptx_u32(0), ptx_u32(4));
            ptx_else (b)
                ptx_store(b, out, ptx_u32(0), ptx_u32(5));
        }
    }
    EXPECT_LINES(b, "@!%p1 bra $if_1_end;", " st.global.u32 [%rd2], 1;",
                 "$if_1_end:", "@!%p1 bra $if_2_else;", "[%rd2], 2;", "@!%p1 bra $if_3_end;",
                 "[%rd2], 3;", "$if_3_end:", "bra $if_2_end;", "$if_2_else:", "mov.pred %p2, 1;",
                 "@!%p2 bra $if_4_else;", "[%rd2], 4;", "bra $if_4_end;",
                 "$if_4_else:", "[%rd2], 5;", "$if_4_end:", "$if_2_end:", "ret;");
}

// The loop does not compare i + step. It compares what is left of the range, as an unsigned number,
// so no bound near the end of the type wraps.
TEST(counting_loops_never_wrap)
{
    static const ptx_type types[] = { PTX_U32, PTX_S32, PTX_U64, PTX_S64 };
    static const double ends[] = { 4294967295.0, 2147483647.0, 18446744073709549568.0,
                                   9223372036854774784.0 };

    for (int t = 0; t < 4; t++) {
        const char *name = ptx_type_name(types[t]), *file = t < 2 ? "r" : "rd";
        const unsigned first = t < 2 ? 1 : 3;
        char test[64], left[64], last[64], next[64];
        NEW_ENTRY (b, 80) {
            ptx_ptr out = ptx_param_ptr(b, types[t], "out");
            ptx_for (b, i, ptx_imm(types[t], 5), ptx_imm(types[t], ends[t]), ptx_imm(types[t], 7))
                ptx_store(b, out, ptx_u32(0), i);
        }
        snprintf(test, sizeof test, "setp.ge.%s %%p1, %%%s%u, ", name, file, first);
        snprintf(left, sizeof left, ", %%%s%u;", file, first);
        snprintf(last, sizeof last, "setp.le.u%d %%p2, %%%s%u, 7;", t < 2 ? 32 : 64, file,
                 first + 1);
        snprintf(next, sizeof next, "add.%s %%%s%u, %%%s%u, 7;", name, file, first, file, first);
        EXPECT_LINES(b, test, "@%p1 bra $for_1_end;", "$for_1:", "st.global", "sub.", left, last,
                     "@%p2 bra $for_1_end;", next, "bra $for_1;", "$for_1_end:");
    }
}

TEST(bounds_are_taken_once)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val hi = ptx_var(b, ptx_u32(10)), step = ptx_var(b, ptx_u32(1));
        ptx_for (b, i, ptx_u32(0), hi, step) {
            ptx_store(b, out, ptx_u32(0), i);
            ptx_set(b, hi, ptx_u32(3));
            ptx_set(b, step, ptx_u32(0));
        }
    }
    EXPECT_LINES(b, "mov.u32 %r1, 10;", "mov.u32 %r2, 1;", "mov.u32 %r3, 0;", "mov.u32 %r4, %r1;",
                 "mov.u32 %r5, %r2;", "setp.ge.u32 %p1, %r3, %r1;", "mov.u32 %r1, 3;",
                 "sub.u32 %r6, %r4, %r3;", "setp.le.u32 %p2, %r6, %r5;", "add.u32 %r3, %r3, %r5;");
}

TEST(loops_are_left_by_their_labels)
{
    NEW_ENTRY (b, 80) {
        ptx_val n = ptx_var(b, ptx_param(b, PTX_U32, "n"));
        ptx_while (b, ptx_gt(b, n, ptx_u32(0))) {
            ptx_set(b, n, ptx_sub(b, n, ptx_u32(1)));
            ptx_loop (b) {
                ptx_break_if(b, ptx_eq(b, n, ptx_u32(3)));
                ptx_if (b, ptx_eq(b, n, ptx_u32(4)))
                    ptx_break(b);
                ptx_return_if(b, ptx_eq(b, n, ptx_u32(5)));
            }
        }
        ptx_return(b);
    }
    EXPECT_LINES(b, "$loop_1:", "setp.gt.u32 %p1, %r2, 0;", "@!%p1 bra $loop_1_end;",
                 "sub.u32 %r2, %r2, 1;", "$loop_2:", "@%p2 bra $loop_2_end;",
                 "@!%p3 bra $if_3_end;", "bra $loop_2_end;", "$if_3_end:", "@%p4 ret;",
                 "bra $loop_2;", "$loop_2_end:", "bra $loop_1;", "$loop_1_end:", "ret;\n}");
}

TEST(raw_labels_are_named)
{
    char longer[101];

    memset(longer, 'x', 100);
    longer[100] = 0;
    NEW_ENTRY (b, 80) {
        ptx_label again = ptx_label_create(b, "again"), out = ptx_label_create(b, NULL);
        ptx_label wide = ptx_label_create(b, longer), unused = ptx_label_create(b, "unused");
        ptx_label shared = ptx_label_create(b, "shared");
        ptx_store(b, ptx_shared(b, PTX_U32, 1), ptx_u32(0), ptx_u32(0));
        ptx_val p = ptx_var(b, ptx_bool(true));
        ptx_label_place(b, again);
        ptx_branch_if(b, p, out);
        ptx_branch_if(b, p, again);
        ptx_branch(b, wide);
        ptx_label_place(b, wide);
        ptx_label_place(b, unused);
        ptx_branch(b, shared);
        ptx_label_place(b, shared);
        ptx_label_place(b, out);
    }
    char text[128];
    snprintf(text, sizeof text, "$%s_3:\n", longer);
    EXPECT_LINES(b, "$shared_1[1];", "$again_1:", "@%p1 bra $label_2;", "@%p1 bra $again_1;",
                 "bra $", text, " bra $shared_5_label;", "$shared_5_label:\n$label_2:\n");
}

// Several blocks in one line, as in a macro, use one name for their C variables.
#pragma GCC diagnostic ignored "-Wshadow"

#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

TEST(wrong_values_are_named)
{
    const ptx_val none = { 0 };

    REFUSED(ptx_var(b, none), "var: init was never set");
    REFUSED(ptx_copy(b, none), "copy: x was never set");
    REFUSED(ptx_set(b, none, u), "set: the variable was never set");
    REFUSED(ptx_set(b, u, none), "set: the value was never set");
    REFUSED(ptx_set(b, ptx_copy(b, u), u), "set: the first value is not a variable", "ptx_var()");
    REFUSED(ptx_set(b, ptx_u32(1), u), "set: the first value is not a variable");
    REFUSED(ptx_set(b, u, f), "set: the variable is u32 and the value f32");
    REFUSED(ptx_if (b, u) {}, "if: the condition is u32", "must be pred");
    REFUSED(ptx_if (b, none) {}, "if: the condition was never set");
    REFUSED(ptx_while (b, f) {}, "while: the condition is f32");
    REFUSED(ptx_break_if(b, u), "break_if: the condition is u32");
    REFUSED(ptx_return_if(b, u), "return_if: the condition is u32");
    REFUSED(ptx_for (b, i, u, f, u) {}, "for: lo, hi and step are u32, f32 and u32");
    REFUSED(ptx_for (b, i, f, f, f) {}, "for: lo, hi and step are f32", "u32, s32, u64 or s64");
    REFUSED(ptx_for (b, i, none, u, u) {}, "for: lo was never set");
    REFUSED(ptx_for (b, i, u, none, u) {}, "for: hi was never set");
    REFUSED(ptx_for (b, i, u, u, none) {}, "for: step was never set");
    REFUSED(ptx_for (b, i, u, u, ptx_u32(0)) {}, "for: the step must be above zero");
    REFUSED(ptx_for (b, i, ptx_s32(9), ptx_s32(0), ptx_s32(-1)) {}, "for: the step must be above");
    REFUSED(ptx_for (b, i, u, u, u) ptx_set(b, i, u), "set: the first value is not a variable");
}

TEST(misplaced_calls_are_named)
{
    const ptx_label none = { 0 };

    REFUSED(ptx_break(b), "break: there is no loop");
    REFUSED(ptx_if (b, p) ptx_break_if(b, p), "break_if: there is no loop");
    REFUSED(ptx_else (b) {}, "else: it must directly follow");
    REFUSED(
        ptx_if (b, p) {} ptx_else (b) {} ptx_else (b) {}, "else: it must directly follow");
    REFUSED(
        ptx_if (b, p) {} ptx_comment(b, "between"); ptx_else (b) {}, "else: it must directly");
    REFUSED(
        ptx_loop (b) {
            ptx_if (b, p) {}
        } ptx_else (b) {},
        "else: it must directly follow");
    REFUSED(ptx_while_test(b, p), "while: the innermost block is not a loop");
    REFUSED(ptx_label_place(b, none), "label_place: the label is not one of this entry");
    REFUSED(ptx_branch(b, none), "branch: the label is not one of this entry", "ptx_label_create");
    REFUSED(ptx_branch_if(b, p, none), "branch_if: the label is not one of this entry");
    REFUSED(ptx_branch_if(b, u, ptx_label_create(b, "l")), "branch_if: the condition is u32");
    REFUSED(ptx_label_create(b, "no way"), "label_create: 'no way' is not a name");
    REFUSED(ptx_label_create(b, "no:\n"), "label_create: 'no:");
    REFUSED(ptx_if_end(b, ptx_if_begin(b, p)); ptx_label l = ptx_label_create(b, "l"); l.id--;
            ptx_label_place(b, l), "label_place: the label is not one of this entry");
    REFUSED(ptx_branch(b, ptx_label_create(b, "lost")),
            "branch: a branch goes to label $lost_1, which is never placed");
    REFUSED(ptx_label l = ptx_label_create(b, "l"); ptx_label_place(b, l);
            ptx_label_place(b, l), "label_place: label $l_1 is already placed");
    REFUSED(ptx_label l = ptx_label_create(b, "l"); ptx_if (b, p) ptx_label_place(b, l);
            ptx_branch(b, l), "branch: label $l_1 stands in a block that is closed");
    REFUSED(ptx_label l = ptx_label_create(b, "l"); ptx_branch_if(b, p, l);
            ptx_if (b, p) ptx_label_place(b, l);
            , "label_place: a branch before this block", "$l_1");
}

// All of a chain end at one label; a condition is where those before it are false, and is indented
// as the first.
TEST(else_ifs_chain)
{
    NEW_ENTRY (b, 80) {
        ptx_val t = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_eq(b, t, 1)) {}
        ptx_else_if (b, ptx_eq(b, t, 2))
            ptx_trap(b);
    }
    assert_non_null(strstr(finished(b), "\n$if_1_else:\n"
                                        "    setp.eq.u32         %p2, %r1, 2;\n"
                                        "    @!%p2 bra           $if_1_end;\n"
                                        "        trap;\n"
                                        "$if_1_end:\n"));
    ptx_builder_destroy(&b);
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val t = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_eq(b, t, 1))
            ptx_store(b, out, 0, ptx_u32(1));
        ptx_else_if (b, ptx_eq(b, t, 2)) {
            ptx_if (b, ptx_eq(b, t, 3)) {}
            ptx_store(b, out, 0, ptx_u32(2));
        }
        ptx_else_if (b, ptx_eq(b, ptx_mul(b, t, t), 4))
            ptx_store(b, out, 0, ptx_u32(3));
        ptx_else (b)
            ptx_store(b, out, 0, ptx_u32(4));
        ptx_if (b, ptx_eq(b, t, 5)) {}
        ptx_else_if (b, ptx_eq(b, t, 6)) {}
    }
    EXPECT_LINES(
        b, " setp.eq.u32 %p1, %r1, 1;", "@!%p1 bra $if_1_else;", " st.global.u32 [%rd2], 1;",
        " bra $if_1_end;", "\n$if_1_else:\n setp.eq.u32 %p2, %r1, 2;", "@!%p2 bra $if_3_else;",
        "@!%p3 bra $if_2_end;", "$if_2_end:", "[%rd2], 2;", " bra $if_1_end;", "\n$if_3_else:\n",
        "mul.lo.u32 %r2, %r1, %r1;", "setp.eq.u32 %p4, %r2, 4;", "@!%p4 bra $if_4_else;",
        "[%rd2], 3;", " bra $if_1_end;", "\n$if_4_else:\n", "[%rd2], 4;", "\n$if_1_end:\n",
        "@!%p5 bra $if_5_else;", "bra $if_5_end;", "$if_5_else:", "setp.eq.u32 %p6, %r1, 6;",
        "@!%p6 bra $if_5_end;", "\n$if_5_end:\n ret;");
}

// Without braces an else is of the outer if, and a loop in C writes a chain.
TEST(an_else_is_a_statement)
{
    char braces[4096];

    for (int with_braces = 1; with_braces >= 0; with_braces--) {
        OWNED(ptx_builder) *b = builder_at(80);
        ptx_entry (b, "k") {
            ptx_val t = ptx_tid(b, PTX_X), x = ptx_lt(b, t, 5), y = ptx_lt(b, t, 3);
            if (with_braces) {
                ptx_if (b, x) {
                    ptx_if (b, y)
                        ptx_trap(b);
                }
                ptx_else (b)
                    ptx_nanosleep(b, 1);
            } else {
                ptx_if (b, x)
                    ptx_if (b, y)
                        ptx_trap(b);
                ptx_else (b)
                    ptx_nanosleep(b, 1);
            }
            ptx_if (b, ptx_eq(b, t, 0))
                ptx_nanosleep(b, 10);
            if (with_braces) {
                ptx_else_if (b, ptx_eq(b, t, 1))
                    ptx_nanosleep(b, 11);
                ptx_else_if (b, ptx_eq(b, t, 2))
                    ptx_nanosleep(b, 12);
            } else {
                for (int k = 1; k < 3; k++)
                    ptx_else_if (b, ptx_eq(b, t, k))
                        ptx_nanosleep(b, 10 + k);
            }
        }
        if (with_braces)
            snprintf(braces, sizeof braces, "%s", finished(b));
        else
            assert_string_equal(finished(b), braces);
    }
}

TEST(misplaced_else_ifs_are_refused)
{
    REFUSED(ptx_else_if (b, p) {}, "else_if: it must directly follow the block of a ptx_if or");
    REFUSED(
        ptx_if (b, p) {} ptx_else (b) {} ptx_else_if (b, p) {}, "else_if: it must directly follow");
    REFUSED(
        ptx_if (b, p) {} ptx_copy(b, u);
        ptx_else_if (b, p) {}, "else_if: it must directly follow the block of a ptx_if");
    REFUSED(ptx_loop (b) ptx_break(b); ptx_else_if (b, p) {}, "else_if: it must directly follow");
    REFUSED(
        ptx_if (b, p) {} ptx_else_if (b, p) {} ptx_copy(b, u);
        ptx_else (b) {}, "else: it must directly follow the block of a ptx_if or ptx_else_if");
    REFUSED(
        ptx_if (b, p) {} ptx_else_if (b, u) {}, "else_if: the condition is u32; it must be pred");
    REFUSED(
        ptx_if (b, p) {} ptx_else_if (b, (ptx_val) { 0 }) {},
        "else_if: the condition was never set");
    REFUSED(ptx_else_if_test(b, p),
            "else_if: the innermost block is not an else-if; ptx_else_if_b");
    REFUSED(
        ptx_if (b, p) {} int x = ptx_else_if_begin(b); ptx_else_if_test(b, p);
        ptx_else_if_test(b, p);
        ptx_else_if_end(b, x), "else_if: the block has its condition already");
    REFUSED(
        ptx_if (b, p) {} int x = ptx_else_if_begin(b);
        ptx_else_if_end(b, x), "else_if: the block has no condition; ptx_else_if_test() sets");
    REFUSED(
        ptx_if (b, p) {} int x = ptx_else_if_begin(b); ptx_else_if_test(b, p);
        ptx_if_end(b, x), "if: this block is not open");
    REFUSED(ptx_else_if_end(b, ptx_if_begin(b, p)), "else_if: this block is not open");
    REFUSED(
        ptx_if (b, p) {} ptx_else_if (b, p) { C_BREAK; },
        "entry: a block inside it was never closed");
    REFUSED(
        ptx_val x = { 0 }; ptx_if (b, p) {} ptx_else_if (b, x = ptx_eq(b, u, 1)) {} ptx_else (b)
                               ptx_not(b, x),
                           "not: x was made inside a block that is closed");
    // Only some threads come to the conditions after the first.
    for (int inside = 0; inside < 2; inside++) {
        NEW_ENTRY_WITH (b, 80, .block = { 64 }) {
            ptx_val few = ptx_eq(b, ptx_tid(b, PTX_X), 3), all = ptx_eq(b, ptx_ctaid(b, PTX_X), 3);
            ptx_if (b, inside ? few : all) {}
            ptx_else_if (b, all)
                ptx_barrier(b);
            ptx_else_if (b, few) {}
        }
        if (inside)
            EXPECT_ERROR(b, "barrier 1 of the entry", "the branch to $if_1_else");
        else
            EXPECT_LINES(b, "$if_1_else:", "bar.sync", "$if_2_else:", "$if_1_end:");
    }
}

// The values of a ptx_for in reverse: what is beyond the last step goes first, then i comes to lo
// exactly.
TEST(loops_count_down)
{
    NEW_ENTRY (b, 80) {
        ptx_val n = ptx_param(b, PTX_U32, "n"), m = ptx_param(b, PTX_S64, "m");
        ptx_for_down (b, i, n, 0, 1)
            ptx_continue_if(b, ptx_eq(b, i, 4));
        ptx_for_down (b, i, n, 2, 16)
            ptx_mul(b, i, i);
        ptx_for_down (b, i, m, -7, ptx_s64(12))
            ptx_break(b);
    }
    EXPECT_LINES(b, "setp.le.u32 %p1, %r1, 0;", "@%p1 bra $for_1_end;", "sub.u32 %r2, %r1, 1;",
                 "$for_1:", "@%p2 bra $for_1_next;", "$for_1_next:", "setp.eq.u32 %p3, %r2, 0;",
                 "@%p3 bra $for_1_end;", "sub.u32 %r2, %r2, 1;", "bra $for_1;",
                 "$for_1_end:", "setp.le.u32 %p4, %r1, 2;", "sub.u32 %r3, %r1, 1;",
                 "sub.u32 %r4, %r3, 2;", "and.b32 %r5, %r4, 15;", "sub.u32 %r6, %r3, %r5;",
                 "$for_2:", "setp.eq.u32 %p5, %r6, 2;", "sub.u32 %r6, %r6, 16;",
                 "$for_2_end:", "setp.le.s64 %p6, %rd1, -7;", "sub.s64 %rd2, %rd1, 1;",
                 "sub.s64 %rd3, %rd2, -7;", "rem.u64 %rd4, %rd3, 12;", "sub.s64 %rd5, %rd2, %rd4;",
                 "bra $for_3_end;", "setp.eq.s64 %p7, %rd5, -7;", "sub.s64 %rd5, %rd5, 12;");
}

TEST(bad_loops_down_are_refused)
{
    REFUSED(ptx_for_down (b, i, u, 0, 0) {}, "for_down: the step must be above zero");
    REFUSED(ptx_for_down (b, i, ptx_s32(9), 0, -1) {}, "for_down: the step must be above zero");
    REFUSED(ptx_for_down (b, i, u, -1, 1) {}, "for_down: lo is the number -1, which u32 cannot");
    REFUSED(ptx_for_down (b, i, 10, 0.5, 1) {}, "for_down: lo is the number 0.5, which s32");
    REFUSED(ptx_for_down (b, i, u, ptx_s32(0), 1) {}, "for_down: lo, hi and step are s32, u32 and");
    REFUSED(ptx_for_down (b, i, f, 0, 1) {}, "for_down: lo, hi and step are f32, f32 and f32");
    REFUSED(ptx_for_down (b, i, p, p, p) {}, "for_down: lo, hi and step are pred");
    REFUSED(ptx_for_down (b, i, u, (ptx_val) { 0 }, 1) {}, "for_down: lo was never set");
    REFUSED(ptx_for_down (b, i, u, 0, 1) ptx_set(b, i, u),
            "set: the first value is not a variable");
    REFUSED(ptx_for_down_end(b, u), "for_down: this block is not open");
    REFUSED(ptx_val i = ptx_for_begin(b, u, u, u);
            ptx_for_down_end(b, i), "for_down: this block is not open");
    REFUSED(ptx_val i = ptx_for_down_begin(b, u, u, u);
            ptx_for_end(b, i), "for: this block is not open");
    REFUSED(ptx_val i = ptx_for_down_begin(b, u, u, u); ptx_loop_begin(b);
            ptx_for_down_end(b, i), "for_down: a block inside this one was never closed");
    REFUSED(ptx_for_down (b, i, u, 0, 1) ptx_add(b, i, 1);
            ptx_continue(b), "continue: there is no loop to continue");
    REFUSED(ptx_val i = ptx_for_down_begin(b, u, u, u); ptx_for_down_end(b, i);
            ptx_copy(b, i), "copy: x was made inside a block that is closed");
}

// As C's int.
TEST(numbers_alone_count_in_s32)
{
    NEW_ENTRY (b, 80) {
        ptx_for (b, i, 0, 4, 1)
            ptx_mul(b, i, i);
        ptx_for_down (b, i, 4, -4, 2)
            ptx_mul(b, i, i);
    }
    EXPECT_LINES(b, "mov.s32 %r1, 0;", "setp.ge.s32 %p1, %r1, 4;", "mul.lo.s32 %r2, %r1, %r1;",
                 "add.s32 %r1, %r1, 1;", "mov.s32 %r", "and.b32", "mul.lo.s32", ", 2;");
}

// The counter of a loop that was left is not C's: the loop ends before it would pass the limit.
TEST(counters_end_with_their_loops)
{
    REFUSED(ptx_val kept = { 0 }; ptx_for (b, i, u, 9, 1) kept = i;
            ptx_copy(b, kept), "copy: x was made inside a block that is closed");
    REFUSED(ptx_val kept = { 0 }; ptx_for (b, i, 0, 9, 1) kept = i;
            ptx_add(b, kept, 1), "add: x was made inside a block that is closed");
    REFUSED(ptx_val kept = { 0 }; ptx_grid_stride (b, i, u) kept = i;
            ptx_copy(b, kept), "copy: x was made inside a block that is closed");
    NEW_ENTRY (b, 80) {
        ptx_val n = ptx_param(b, PTX_U32, "n"), kept = ptx_var(b, n);
        ptx_for (b, i, 0, n, 1) {
            ptx_break_if(b, ptx_eq(b, i, 4));
            ptx_set(b, kept, i);
        }
        ptx_copy(b, kept);
    }
    EXPECT_LINES(b, "mov.u32 %r2, %r3;");
}

// A block that C code leaves by itself (break, goto, return) stays open.
TEST(blocks_left_by_c_are_reported)
{
    REFUSED(
        ptx_if (b, p) { C_BREAK; }, "entry: a block inside it was never closed", "ptx_break_if");
    REFUSED(ptx_loop (b) { ptx_if (b, p) { C_BREAK;
}
}, "loop: a block inside this one was never");
    REFUSED(ptx_for (b, i, u, u, u) { ptx_if (b, p) { C_BREAK;
    }
    }, "for: a block inside this one");
    REFUSED(ptx_if (b, p) { ptx_loop (b) { C_BREAK;
    }
    }, "if: a block inside this one was never");
    REFUSED(break, "builder_finish: a ptx_entry block was never closed");
    ptx_builder *left = builder_at(80);
    ptx_entry (left, "k") {
        ptx_for (left, i, ptx_u32(0), ptx_u32(4), ptx_u32(1))
            goto out;
    }
    out : EXPECT_ERROR(left, "builder_finish: a ptx_for block was never closed");
    static const struct {
        int (*begin)(ptx_builder *b);
        const char *error;
    } loops[] = {
        { (ptx_loop_begin), "builder_finish: a ptx_loop block was never closed" },
        { (ptx_while_begin), "builder_finish: a ptx_while block was never closed" },
    };
    for (size_t k = 0; k < sizeof loops / sizeof *loops; k++) {
        left = builder_at(80);
        (ptx_entry_begin)(left, (struct ptx_entry_params) { .name = "k" });
        loops[k].begin(left);
        EXPECT_ERROR(left, loops[k].error);
    }
    left = builder_at(80);
    ptx_entry (left, "k")
        C_BREAK;
    ptx_entry (left, "second") {}
    EXPECT_ERROR(left, "k: ptx_entry: entry 'k' is still open");
    }

    // With the functions that the macros call, blocks can overlap.
    TEST(crossed_blocks_are_reported)
    {
        REFUSED(int x = ptx_if_begin(b, p); int y = ptx_loop_begin(b); ptx_if_end(b, x);
                ptx_loop_end(b, y), "if: a block inside this one was never closed");
        REFUSED(int x = ptx_if_begin(b, p); ptx_if_end(b, x);
                ptx_if_end(b, x), "if: this block is not open");
        REFUSED(int x = ptx_if_begin(b, p); ptx_loop_end(b, x), "loop: this block is not open");
        REFUSED(int x = ptx_loop_begin(b); ptx_if_end(b, x), "if: this block is not open");
        REFUSED(int x = ptx_if_begin(b, p); ptx_while_end(b, x), "while: this block is not open");
        REFUSED(ptx_if_end(b, 1), "if: this block is not open");
        REFUSED(ptx_for_end(b, u), "for: this block is not open");
        REFUSED(ptx_entry_end(b, 7), "entry: a block inside it");
    }

    TEST(a_loop_continues)
    {
        NEW_ENTRY (b, 80) {
            ptx_val n = ptx_tid(b, PTX_X);
            ptx_for (b, i, 0, n, 1) {
                ptx_if (b, ptx_eq(b, i, 3))
                    ptx_continue(b);
                ptx_continue_if(b, ptx_eq(b, i, 5));
                ptx_mul(b, i, i);
            }
            ptx_while (b, ptx_lt(b, n, 9))
                ptx_continue_if(b, ptx_eq(b, n, 4));
        }
        EXPECT_LINES(b, "$for_1:", "bra $for_1_next;", "bra $for_1_next;", "mul.lo.u32",
                     "$for_1_next:", "sub.u32", "bra $for_1;",
                     "$for_1_end:", "$loop_3:", "$loop_3_end;", "bra $loop_3;", "bra $loop_3;",
                     "$loop_3_end:");
        // A barrier after a continue of some threads only is refused, one in the next loop is not.
        REFUSED_AT(80, ptx_continue(b), "ptx_continue: there is no loop to continue");
        REFUSED_AT(80, ptx_continue_if(b, p), "ptx_continue_if: there is no loop to continue");
        REFUSED_AT(80, ptx_continue_if(b, u), "ptx_continue_if: the condition is u32");
        for (int after = 0; after < 2; after++) {
            b = builder_at(80);
            ptx_entry (b, "k", .block = { 64 }) {
                ptx_val tid = ptx_tid(b, PTX_X);
                ptx_for (b, i, 0, ptx_u32(4), 1) {
                    ptx_continue_if(b, ptx_eq(b, tid, i));
                    if (!after)
                        ptx_barrier(b);
                }
                if (after)
                    ptx_barrier(b);
            }
            if (after)
                EXPECT_LINES(b, "$for_1_next:", "$for_1_end:", "bar.sync");
            else
                EXPECT_ERROR(b, "barrier 1 of the entry", "$for_1_next");
        }
    }

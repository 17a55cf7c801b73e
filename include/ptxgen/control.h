// SPDX-License-Identifier: MIT
/// Part of builder.h: blocks, loops, branches, and how a thread waits or ends. The rules of
/// builder.h apply.
#ifndef PTXGEN_CONTROL_H
#define PTXGEN_CONTROL_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// Block macros. Each opens a C block: ptx_if (b, cond) { ... } ptx_else (b) { ... }. They are C
/// `for` loops that run once, so leave a block only at its end. C's `continue` and `break` write no
/// jump: `continue` only skips the C code up to the end of the block, and the kernel goes on after
/// it; `break`, as a C return or goto out of a block, leaves the block open, which is reported. The
/// kernel's jumps are ptx_continue(), ptx_continue_if(), ptx_break(), ptx_break_if() and
/// ptx_return_if(). ptx_entry of entry.h is such a macro, too. `cond` is always a predicate:
/// ptx_lt(b, i, n), say.
///
/// ptx_else and ptx_else_if are statements of their own, after the whole statement before them:
/// they belong to the outer ptx_if of `ptx_if (b, c) ptx_if (b, d) f(); ptx_else (b) g();`, and not
/// to each ptx_if of `for (...) ptx_if (b, c) f(); ptx_else (b) g();`, so a body that has one
/// stands in braces. (gcc -Wall warns where the indentation says otherwise.) A C loop may write a
/// chain of them: `ptx_if (b, c[0]) f(0); for (int k = 1; k < n; k++) ptx_else_if (b, c[k]) f(k);`.
#define PTXGEN_BLOCK(begin, end, b)                                                                \
    for (int PTXGEN_BLOCK_NUMBER = begin; PTXGEN_BLOCK_NUMBER;                                     \
         PTXGEN_BLOCK_NUMBER = end(b, PTXGEN_BLOCK_NUMBER))
#define PTXGEN_BLOCK_IF(begin, test, end, b)                                                       \
    for (int PTXGEN_BLOCK_NUMBER = begin; PTXGEN_BLOCK_NUMBER && test;                             \
         PTXGEN_BLOCK_NUMBER = end(b, PTXGEN_BLOCK_NUMBER))

#define ptx_if(b, cond) PTXGEN_BLOCK(ptx_if_begin(b, cond), ptx_if_end, b)
/// Must follow the block of a ptx_if or ptx_else_if directly.
#define ptx_else(b)     PTXGEN_BLOCK(ptx_else_begin(b), ptx_else_end, b)
/// Must follow the block of a ptx_if or ptx_else_if directly. The condition is emitted where all
/// conditions before it are false, so its values, as those of the body, end with the block.
#define ptx_else_if(b, cond)                                                                       \
    PTXGEN_BLOCK_IF(ptx_else_if_begin(b), ptx_else_if_test(b, cond), ptx_else_if_end, b)
/// for (i = lo; i < hi; i += step) over a 32-bit or 64-bit integer, step > 0. The counter never
/// wraps, even if hi is within `step` of the type's maximum. hi and step are evaluated once, before
/// the loop. C numbers get the type of the others; three of them count in s32, as C's int. The body
/// must not set `i`, which ends with the loop.
#define ptx_for(b, i, lo, hi, step)                                                                \
    for (ptx_val i = ptx_for_begin(b, lo, hi, step); i.kind; i = ptx_for_end(b, i))
/// The values of ptx_for (b, i, lo, hi, step) in reverse order, from the greatest below hi down to
/// lo, under the same rules: `ptx_for_down (b, i, n, 0, 1)` is for (i = n; i-- > 0;). A step that
/// is not a power of two or not constant takes a remainder before the loop.
/// In this and the other loops, barriers and full-mask warp operations are refused where the number
/// of turns may differ between threads: where lo, hi, step or a condition to leave the loop may.
#define ptx_for_down(b, i, hi, lo, step)                                                           \
    for (ptx_val i = ptx_for_down_begin(b, hi, lo, step); i.kind; i = ptx_for_down_end(b, i))
/// while (cond): the expression is emitted at the head of the loop and tested before each
/// iteration.
#define ptx_while(b, cond)                                                                         \
    PTXGEN_BLOCK_IF(ptx_while_begin(b), ptx_while_test(b, cond), ptx_while_end, b)
/// An endless loop; leave it with ptx_break_if() or ptx_return_if().
#define ptx_loop(b) PTXGEN_BLOCK(ptx_loop_begin(b), ptx_loop_end, b)

/// The code of the block is that of `name`, which was called here: ptx_inlined (b, "row_load") {
/// ... } around the calls of a C function that emits. Tools that show source lines show the lines
/// in it as inlined at this one (ptx_builder_params.line_info), and without source lines it has no
/// effect. The name is copied. Such blocks may be in each other, and cross those of other macros.
/// Operands that the caller computes stand before the block. Leave one only at its end.
#define ptx_inlined(b, name) PTXGEN_BLOCK(ptx_inlined_begin(b, name), ptx_inlined_end, b)

/// The functions behind the macros. A begin function returns the block's number; the end function
/// takes it and returns 0.
PTXGEN_API int ptx_if_begin(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_if_end(ptx_builder *b, int block);
PTXGEN_API int ptx_else_begin(ptx_builder *b);
static inline int ptx_else_end(ptx_builder *b, int block)
{
    return ptx_if_end(b, block);
}
PTXGEN_API int ptx_else_if_begin(ptx_builder *b);
PTXGEN_API bool ptx_else_if_test(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_else_if_end(ptx_builder *b, int block);
PTXGEN_API ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step);
PTXGEN_API ptx_val ptx_for_end(ptx_builder *b, ptx_val i);
PTXGEN_API ptx_val ptx_for_down_begin(ptx_builder *b, ptx_val hi, ptx_val lo, ptx_val step);
PTXGEN_API ptx_val ptx_for_down_end(ptx_builder *b, ptx_val i);
PTXGEN_API int ptx_loop_begin(ptx_builder *b);
PTXGEN_API int ptx_loop_end(ptx_builder *b, int block);
PTXGEN_API int ptx_while_begin(ptx_builder *b);
PTXGEN_API bool ptx_while_test(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_while_end(ptx_builder *b, int block);
PTXGEN_API int ptx_inlined_begin(ptx_builder *b, const char *name);
PTXGEN_API int ptx_inlined_end(ptx_builder *b, int block);

/// Leaves the innermost loop. Outside a loop this is an error.
PTXGEN_API void ptx_break(ptx_builder *b);
PTXGEN_API void ptx_break_if(ptx_builder *b, ptx_val cond);
/// Begins the next iteration of the innermost loop: a ptx_for or ptx_for_down counts, a ptx_while
/// tests its condition again. Outside a loop this is an error.
PTXGEN_API void ptx_continue(ptx_builder *b);
PTXGEN_API void ptx_continue_if(ptx_builder *b, ptx_val cond);
/// Ends the thread; in a function without a result, returns to its caller.
PTXGEN_API void ptx_return(ptx_builder *b);
PTXGEN_API void ptx_return_if(ptx_builder *b, ptx_val cond);

/// Unstructured control flow, for what the blocks do not express. `name` becomes part of the label.
/// A label is placed once. Branches may come before or after it, but must not enter a block from
/// outside.
PTXGEN_API ptx_label ptx_label_create(ptx_builder *b, const char *name);
PTXGEN_API void ptx_label_place(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label);

/// Aborts the kernel; the host sees a launch failure.
PTXGEN_API void ptx_trap(ptx_builder *b);
/// Sleeps between 0 and 2 * `nanoseconds` (u32).
PTXGEN_API void ptx_nanosleep(ptx_builder *b, ptx_val nanoseconds);
/// Programmatic dependent launch, sm_90 and up. `wait` waits for the preceding grids to end; their
/// writes are visible afterwards. `launch_dependents` allows the dependent grids to start; it makes
/// no writes visible to them.
PTXGEN_API void ptx_griddepcontrol_wait(ptx_builder *b);
PTXGEN_API void ptx_griddepcontrol_launch_dependents(ptx_builder *b);

/// Writes a comment on a line of its own at the current position. PTX is ASCII: other characters
/// become '?', line breaks become spaces.
PTXGEN_API void ptx_comment(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
/// Part of builder.h, which says what holds for all of it: blocks, loops, branches, and how a
/// thread waits or ends.
#ifndef PTXGEN_CONTROL_H
#define PTXGEN_CONTROL_H

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// Block macros. Each opens a C block: ptx_if (b, cond) { ... } ptx_else (b) { ... }. They are C
/// `for` loops that run once: leave them by their end alone. A C break, return or goto out of one
/// is caught and reported; use ptx_break_if() and ptx_return_if(). ptx_entry of builder.h is one,
/// too. A `cond`, here and below, is a predicate: ptx_lt(b, i, n), say.
#define PTXGEN_JOIN_(x, y) x##y
#define PTXGEN_JOIN(x, y)  PTXGEN_JOIN_(x, y)
#define PTXGEN_BLOCK(begin, end, b)                                                                \
    for (int PTXGEN_JOIN(ptx_block_, __LINE__) = begin; PTXGEN_JOIN(ptx_block_, __LINE__);         \
         PTXGEN_JOIN(ptx_block_, __LINE__) = end(b, PTXGEN_JOIN(ptx_block_, __LINE__)))

#define ptx_if(b, cond) PTXGEN_BLOCK(ptx_if_begin(b, cond), ptx_if_end, b)
/// Directly after the block of a ptx_if.
#define ptx_else(b)     PTXGEN_BLOCK(ptx_else_begin(b), ptx_else_end, b)
/// For i = lo, lo + step, ... while i < hi; an integer of 32 or 64 bits, step > 0. Never wraps,
/// even where hi is within step of the type's end. hi and step are taken once, as they are before
/// the loop; `i` must not be set in the body.
#define ptx_for(b, i, lo, hi, step)                                                                \
    for (ptx_val i = ptx_for_begin(b, lo, hi, step); i.kind; i = ptx_for_end(b, i))
/// While cond holds; the expression is emitted at the loop's head and tested before each turn.
#define ptx_while(b, cond)                                                                         \
    for (int PTXGEN_JOIN(ptx_block_, __LINE__) = ptx_while_begin(b);                               \
         PTXGEN_JOIN(ptx_block_, __LINE__) && ptx_while_test(b, cond);                             \
         PTXGEN_JOIN(ptx_block_, __LINE__) = ptx_while_end(b, PTXGEN_JOIN(ptx_block_, __LINE__)))
/// For ever; leave it with ptx_break_if() or ptx_return_if().
#define ptx_loop(b) PTXGEN_BLOCK(ptx_loop_begin(b), ptx_loop_end, b)

/// What the macros call. A begin returns the block's number, an end takes it and returns 0.
PTXGEN_API int ptx_if_begin(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_if_end(ptx_builder *b, int block);
PTXGEN_API int ptx_else_begin(ptx_builder *b);
PTXGEN_API int ptx_else_end(ptx_builder *b, int block);
PTXGEN_API ptx_val ptx_for_begin(ptx_builder *b, ptx_val lo, ptx_val hi, ptx_val step);
PTXGEN_API ptx_val ptx_for_end(ptx_builder *b, ptx_val i);
PTXGEN_API int ptx_loop_begin(ptx_builder *b);
PTXGEN_API int ptx_loop_end(ptx_builder *b, int block);
PTXGEN_API int ptx_while_begin(ptx_builder *b);
PTXGEN_API bool ptx_while_test(ptx_builder *b, ptx_val cond);
PTXGEN_API int ptx_while_end(ptx_builder *b, int block);

/// Leaves the innermost loop; an error where there is none.
PTXGEN_API void ptx_break(ptx_builder *b);
PTXGEN_API void ptx_break_if(ptx_builder *b, ptx_val cond);
/// Ends the thread.
PTXGEN_API void ptx_return(ptx_builder *b);
PTXGEN_API void ptx_return_if(ptx_builder *b, ptx_val cond);

/// Raw control flow, for what the blocks do not express. `name` becomes part of the label. A label
/// is placed once; branches may come before or after it, but not into a block from outside.
PTXGEN_API ptx_label ptx_label_create(ptx_builder *b, const char *name);
PTXGEN_API void ptx_label_place(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch(ptx_builder *b, ptx_label label);
PTXGEN_API void ptx_branch_if(ptx_builder *b, ptx_val cond, ptx_label label);

/// Aborts the kernel: the host sees a launch failure.
PTXGEN_API void ptx_trap(ptx_builder *b);
/// Sleeps for between 0 and twice `nanoseconds` (u32).
PTXGEN_API void ptx_nanosleep(ptx_builder *b, ptx_val nanoseconds);
/// Programmatic dependent launch, sm_90 and up: waits for the grids before this one and sees what
/// they wrote; lets the grids after this one start, which makes nothing visible to them.
PTXGEN_API void ptx_griddepcontrol_wait(ptx_builder *b);
PTXGEN_API void ptx_griddepcontrol_launch_dependents(ptx_builder *b);

/// A comment on a line of its own, at this place of the code. PTX is ASCII: other characters become
/// '?', and line breaks spaces.
PTXGEN_API void ptx_comment(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);

PTXGEN_END

#endif

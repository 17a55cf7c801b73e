// SPDX-License-Identifier: MIT
/// Layer 1: write a PTX module.
///
/// A builder records typed calls as a list of instructions, checks the list, and prints the text
/// once at the end. It makes no CUDA call and touches no file.
///
/// This header declares the builder object and includes the other builder headers: entry.h
/// (entries, parameters, arrays), data.h (named arrays of the module), function.h (device
/// functions, calls), ops.h (values, instructions), convert.h (conversions), math.h (exponentials,
/// logarithms, ...), matrix.h (matrix products of a warp), memory.h (pointers, loads, stores,
/// atomics), message.h (printf, traps with a message), threads.h (barriers, warp operations),
/// words.h (integers of several words), control.h (blocks, branches) and asm.h (PTX text, for what
/// has no call).
///
/// Errors are sticky: the builder keeps the first one (or all, with .all_errors), later calls do
/// nothing and return poisoned values, and ptx_builder_finish() returns NULL. A kernel therefore
/// needs a single check, at the end.
///
/// Use a builder from one thread at a time; different builders are independent. The same calls give
/// the same bytes on every machine, compiler and locale. The macros of places.h evaluate the
/// operands of a call from left to right, and its options after them, in the order of their fields:
/// all may be calls that emit. The macros name `b` several times: it is an expression without side
/// effects, a variable. C leaves open the order of the arguments of your own functions: the text of
/// helper(b, ptx_mul(b, n, 3), ptx_add(b, n, 5)) depends on the compiler. Give all but one a name
/// first:
///
///     ptx_val x = ptx_mul(b, n, 3);
///     ptx_val y = helper(b, x, ptx_add(b, n, 5));
#ifndef PTXGEN_BUILDER_H
#define PTXGEN_BUILDER_H

#include <ptxgen/asm.h>
#include <ptxgen/control.h>
#include <ptxgen/convert.h>
#include <ptxgen/data.h>
#include <ptxgen/entry.h>
#include <ptxgen/function.h>
#include <ptxgen/math.h>
#include <ptxgen/matrix.h>
#include <ptxgen/memory.h>
#include <ptxgen/message.h>
#include <ptxgen/ops.h>
#include <ptxgen/threads.h>
#include <ptxgen/types.h>
#include <ptxgen/words.h>

PTXGEN_BEGIN

// ---- the builder --------------------------------------------------------------------------------

struct ptx_builder_params {
    struct ptx_target target; ///< zero: sm_80
    /// PTX ISA version of the text, 80 for 8.0. An instruction that needs a newer version is an
    /// error, and so is a version that does not exist (7.9, say). 0: the least version that covers
    /// the target and every instruction used.
    int isa;
    /// Allocator: resizes `memory` (NULL: allocate) to `bytes` (0: free), like realloc. NULL: the C
    /// library. Called a few times a module, for blocks of some KiB, not once an instruction.
    void *(*resize)(void *user, void *memory, size_t bytes);
    void *user;
    /// Called once, at the first error and inside the call that made it, with the text that
    /// ptx_builder_error() returns: for a breakpoint or a backtrace. It must not call the builder,
    /// nor throw an exception of C++.
    void (*on_error)(void *user, const char *error);
    /// Goes on after an error and looks for more, of which ptx_builder_error_at() has at most 20.
    /// ptx_builder_error() stays the first, and ptx_builder_finish() returns NULL all the same.
    /// Each has a line and stands once. A call with an operand that an error left unset says
    /// nothing, nor does the end of an entry with an error, as what is missing there may follow
    /// from it. The calls are those of places.h, of C++, and those after ptx_builder_place(). An
    /// error without a place, memory that runs out, and an entry that begins within another end
    /// the search.
    bool all_errors;
    /// Writes where each instruction comes from, by .file and .loc, as nvcc -lineinfo does, so that
    /// profilers, compute-sanitizer, the emulator's reports and errors of ptx_module_load() name
    /// your lines. The places are those of errors: those of the macros of places.h, of C++, and of
    /// ptx_builder_place(), "file:line"; without a line, or where the place is not known, it is
    /// line 0. Of a call over several lines compilers name different ones (places.h), so that such
    /// a text depends on the compiler in these numbers. Code of functions of function.h, and of
    /// blocks of ptx_inlined(), is shown as inlined where it is called, for which the text needs
    /// PTX ISA 7.2: one that is pinned to an older ISA leaves that out. The instructions are the
    /// same as without.
    bool line_info;
    /// The folder of places whose path is relative, "/home/me/project", as compilers write
    /// __FILE__; NULL: they are written as they are. Make it absolute: ncu opens no file by a
    /// relative path. Without .line_info it is ignored. It must live as long as the builder. A
    /// character of a path that is not ASCII, a quote and a backslash become '?': ptxas takes none.
    const char *source_folder;
};

/// Creates a builder; NULL parameters mean the defaults. Returns NULL only if memory runs out.
/// Every function accepts a NULL builder, so that checking ptx_builder_finish() is enough.
PTXGEN_API ptx_builder *ptx_builder_create(const struct ptx_builder_params *params);
/// Frees the builder and everything it returned, and sets *builder to NULL.
PTXGEN_API void ptx_builder_destroy(ptx_builder **builder);
/// Checks the module and returns its text, or NULL on an error, which ptx_builder_error()
/// describes. The builder owns the text. Nothing can be added after this call: a call that tries is
/// an error for ptx_builder_error(), and this function keeps returning the finished text.
PTXGEN_API const char *ptx_builder_finish(ptx_builder *b);
/// The first error, or NULL: "kernel.c:12: k: ptx_add: x is f32 and y is u32; ...". It names the
/// place of the call (see places.h), the entry, the call, what the call got and what it expected.
/// What is found later, as a barrier in divergent code, has the place of the call that emitted it,
/// and names that of the branch.
/// Where the place is not known, lines follow with the number of instructions before the error, the
/// comment above it and the last lines of text. Owned by the builder. Of a NULL builder: that it is
/// NULL.
PTXGEN_API const char *ptx_builder_error(const ptx_builder *b);
/// Error `k` of a builder with .all_errors, in the order in which they were found; NULL past the
/// last. Of others it is ptx_builder_error() for 0, and NULL. Owned by the builder.
PTXGEN_API const char *ptx_builder_error_at(const ptx_builder *b, unsigned k);
/// Whether that error is that memory ran out; true for a NULL builder.
PTXGEN_API bool ptx_builder_out_of_memory(const ptx_builder *b);
/// Reports an error of the caller. If the builder already has an error, the first one is kept.
PTXGEN_API void ptx_builder_fail(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// The same about a value, in the open entry: the place is that of the call that made it; else that
/// of the call under way; else that of the last instruction, if it is known.
PTXGEN_API void ptx_builder_fail_value(ptx_builder *b, ptx_val x, const char *format, ...)
    PTXGEN_PRINTF(3, 4);
/// Whether a value may be an operand here: it has a type, and was made in the open entry, in none
/// of its closed blocks. False after an error, and for C numbers, which have no type by themselves.
PTXGEN_API bool ptx_builder_is_usable(const ptx_builder *b, ptx_val x);
/// Names the place of the calls that follow, for errors, in callers without the macros of places.h:
/// "script.py:12", say; NULL: not known. The string must live as long as the builder.
PTXGEN_API void ptx_builder_place(ptx_builder *b, const char *place);
/// What code of others may do.
struct ptx_restriction {
    const char *within; ///< names that code in errors: "a rule"; NULL: it may do all
    void *context;      ///< the caller's
    /// What a value is that was never set, for errors: "c[3], which once does not set". NULL, or a
    /// result of NULL: nothing is known.
    const char *(*absent)(ptx_val x);
    /// Called after each instruction of ops.h without modifiers, with its operands. It emits
    /// nothing. NULL: not wanted.
    void (*made)(void *context, ptx_val result, ptx_opcode op, const ptx_val *operands);
};

/// From now on only calls that compute values are allowed. Any other call is an error, which names
/// `within`. Allowed are the instructions of ops.h that give one result on every GPU, the
/// conversions of convert.h, the functions of math.h, variables, comments, and the blocks of
/// control.h with what leaves a loop, but for ptx_while and ptx_loop, which might never end.
/// Returns the restriction that held before. The string must live as long as the restriction holds.
/// No effect for a NULL builder.
PTXGEN_API struct ptx_restriction ptx_builder_restrict(ptx_builder *b, struct ptx_restriction to);
/// What is known of the text so far.
struct ptx_builder_info {
    struct ptx_target target;
    int isa; ///< the least PTX ISA version of what has been written, 80 for 8.0, or the pinned one
    /// The instruction or target that requires that version, as text: "cvt.rn.bf16.f32"; "pinned"
    /// if ptx_builder_params.isa set it. Never NULL; the builder's, valid until its next call.
    const char *isa_reason;
    size_t peak_bytes; ///< the most bytes that the builder has held, including its text
    uint32_t blocks;   ///< that are open: an entry or a function, ptx_if and the like
};

/// All zero for a NULL builder.
PTXGEN_API struct ptx_builder_info ptx_builder_get_info(const ptx_builder *b);
/// The target of the text, for code that depends on it.
static inline struct ptx_target ptx_builder_target(const ptx_builder *b)
{
    return ptx_builder_get_info(b).target;
}

PTXGEN_END

#include <ptxgen/places.h>

#endif

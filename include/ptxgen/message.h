// SPDX-License-Identifier: MIT
/// Part of builder.h: what kernels print, and traps with a message. The rules of builder.h apply.
///
///     ptx_printf(b, "row %u: %g of %s\n", row, x, ptx_ptr_generic(b, ptx_string(b, "the sum")));
///     ptx_assert(b, ptx_lt(b, row, n), "row < n");
///
/// Both call functions that the driver has for every kernel. The driver prints at the next
/// synchronisation of the host, to standard output and standard error.
#ifndef PTXGEN_MESSAGE_H
#define PTXGEN_MESSAGE_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// printf() of the threads that reach it, one text each. With places.h it is ptx_printf(b, "x =
/// %d\n", x) with up to 16 values and C numbers, evaluated from left to right. The format is C's,
/// and is checked against the values:
///
/// - d i u x X o c take integers and predicates up to 32 bits, with or without h;
/// - the same with l or ll take integers of 64 bits;
/// - f F e E g G a A take f16, bf16, f32 and f64;
/// - s and p take a u64, the generic address of a string or of anything: ptx_ptr_generic();
/// - %% takes nothing. Widths and precisions are numbers, not '*'. C's sizes hh, z, j, t and L are
///   refused: the driver misreads what follows them.
PTXGEN_API void ptx_printf_emit(ptx_builder *b, const char *format, const ptx_val *values,
                                size_t count);

/// What a message says beside its text. The text of a module does not depend on where the calls
/// stand in the caller's source; a caller who wants that says .file = __FILE__, .line = __LINE__.
struct ptx_message_params {
    const char *text;
    const char *file; ///< NULL: the name of the entry or function
    uint32_t line;    ///< 0: the number of the message in the entry or function, from 1
};

/// Aborts the kernel with a message, as assert() of CUDA C++: the host sees CUDA_ERROR_ASSERT, and
/// on standard error "file:line: function: block: [0,0,0], thread: [5,0,0] Assertion `text`
/// failed.".
PTXGEN_API void ptx_trap_message_emit(ptx_builder *b, struct ptx_message_params params);
#define ptx_trap_message(b, ...)                                                                   \
    ptx_trap_message_emit(b, PTXGEN_STRUCT(ptx_message_params, .text = __VA_ARGS__))
/// The same where the condition does not hold: ptx_assert(b, ptx_lt(b, i, n), "i < n").
PTXGEN_API void ptx_assert_emit(ptx_builder *b, ptx_val cond, struct ptx_message_params params);
#define ptx_assert(b, cond, ...)                                                                   \
    ptx_assert_emit(b, cond, PTXGEN_STRUCT(ptx_message_params, .text = __VA_ARGS__))

PTXGEN_END

#endif

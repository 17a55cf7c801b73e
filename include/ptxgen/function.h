// SPDX-License-Identifier: MIT
/// Part of builder.h: device functions and their calls. The rules of builder.h apply.
///
///     ptx_func (b, "square", .result = PTX_F32) {
///         ptx_val x = ptx_param(b, PTX_F32, "x");
///         ptx_return_value(b, ptx_mul(b, x, x));
///     }
///     ptx_entry (b, "k") {
///         ...
///         ptx_val y = ptx_call(b, "square", x);
///
/// A function with several results returns them together, and a call gives them as lanes:
///
///     ptx_func (b, "divide", .results = { PTX_U32, PTX_U32 }) {
///         ptx_val x = ptx_param(b, PTX_U32, "x"), y = ptx_param(b, PTX_U32, "y");
///         ptx_return_values(b, ptx_div(b, x, y), ptx_rem(b, x, y));
///     }
///     ...
///     ptx_vec d = ptx_call_many(b, "divide", n, 10); // d.lane[0] and d.lane[1]
///
/// A function is written like an entry and stands before what calls it, so functions do not
/// recurse. Its parameters are values: ptx_param() of any type, predicates too, and
/// ptx_param_ptr(), for the address of global memory as ptx_ptr_address() gives it. Every function
/// must be called.
///
/// The checks of threads.h go through calls. A call of a function with a barrier is a barrier, and
/// a call of a function with operations of the full warp is such an operation. In the function
/// itself, parameters count as different in every thread. A result is uniform where the arguments
/// are, unless the function makes it differ, by %tid for example. A call is written inline: the
/// text has the function's code there, in braces of its own (docs/functions.md says why).
#ifndef PTXGEN_FUNCTION_H
#define PTXGEN_FUNCTION_H

#ifdef __GNUC__ // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/control.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The most parameters that a function has.
enum { PTX_FUNC_MAX_PARAMS = 16 };
/// The most results that a function has.
enum { PTX_FUNC_MAX_RESULTS = 8 };

/// What a function is called, and what it returns.
struct ptx_func_params {
    const char *name; ///< a PTX identifier, unique in the module and different from the parameters
    ptx_type result;  ///< the type of its result; zero: it has none
    /// The types of several results, up to the first that is zero; not together with `result`.
    ptx_type results[PTX_FUNC_MAX_RESULTS];
};

/// Opens a function; use the block macro ptx_func(b, "name", .result = PTX_F32) { ... }.
PTXGEN_API int ptx_func_begin(ptx_builder *b, struct ptx_func_params params);
PTXGEN_API int ptx_func_end(ptx_builder *b, int block);
#define ptx_func(b, ...)                                                                           \
    PTXGEN_BLOCK(ptx_func_begin(b, PTXGEN_NAMED(ptx_func_params, __VA_ARGS__)), ptx_func_end, b)

/// Returns from a function that has a result. Every path must end with it; ptx_return() is for
/// functions without a result.
PTXGEN_API void ptx_return_value(ptx_builder *b, ptx_val x);
/// The same for a function with several results, in their order. With places.h it is
/// ptx_return_values(b, x, y): values and C numbers, evaluated from left to right.
PTXGEN_API void ptx_return_values_emit(ptx_builder *b, const ptx_val *x, size_t count);

/// Writes the code of a function that ended before. Returns its result, or a poisoned value if it
/// has none.
/// With places.h it is ptx_call(b, "square", x): values and C numbers, evaluated from left to
/// right.
PTXGEN_API ptx_val ptx_call_emit(ptx_builder *b, const char *name, const ptx_val *args,
                                 size_t count);
/// The same for a function with any number of results, as lanes of their own types. After an error
/// they are poisoned. With places.h it is ptx_call_many(b, "divide", x, y).
PTXGEN_API ptx_vec ptx_call_many_emit(ptx_builder *b, const char *name, const ptx_val *args,
                                      size_t count);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
/// Part of builder.h: calls that know where they stand. With gcc and clang, in C and C++, each
/// function of the builder is also a macro of the same name, which
///
/// - tells the builder the caller's file and line, so that errors name them;
/// - evaluates the arguments from left to right, so that calls may be arguments of calls and the
///   text is the same under every compiler.
///
/// A place is one constant string, "kernel.c:12". The functions themselves stay, for function
/// pointers and for other languages: `(ptx_add)(b, x, y)`, or everywhere with PTXGEN_NO_PLACES
/// defined before the first header. Their callers can name places by ptx_builder_place(); without
/// one, an error names the number of the instruction, the comment above it and the last lines.
#ifndef PTXGEN_PLACES_H
#define PTXGEN_PLACES_H

#if defined(__GNUC__) && !defined(PTXGEN_NO_PLACES)

#include <ptxgen/control.h>
#include <ptxgen/types.h>

/// Sets the place of the call that follows. A builder begins with it.
static inline void ptx_builder_begin_call(ptx_builder *b, const char *place)
{
    if (b)
        *(const char **)(void *)b = place;
}
/// A call with its operands. After it, the place is again the one before it: that of the call whose
/// operand it is.
struct ptx_builder_call {
    ptx_builder *b;
    const char *before;
};
static inline struct ptx_builder_call ptx_builder_open_call(ptx_builder *b)
{
    struct ptx_builder_call call = { b, NULL };

    if (b)
        call.before = *(const char **)(void *)b;
    return call;
}
static inline void ptx_builder_end_call(const struct ptx_builder_call *call)
{
    ptx_builder_begin_call(call->b, call->before);
}

#define PTXGEN_TEXT_(x) #x
#define PTXGEN_TEXT(x)  PTXGEN_TEXT_(x)
#define PTXGEN_HERE     __FILE__ ":" PTXGEN_TEXT(__LINE__)

#ifdef __cplusplus
#define PTXGEN_AUTO auto
#else
#define PTXGEN_AUTO __auto_type
#endif

// A call is a statement expression: first the builder and the operands, from left to right; then
// the place; then the function, whose result is that of the expression. `n` is a number of its own
// for each call, so that no name hides another.
#define PTXGEN_OPENED(n) PTXGEN_JOIN(ptxgen_b, n)
#define PTXGEN_B(n)      PTXGEN_OPENED(n).b
#define PTXGEN_X(k, n)   PTXGEN_JOIN(ptxgen_x##k##_, n)
// clang-format off
#define PTXGEN_OPEN(n, builder) \
    __extension__({ __attribute__((cleanup(ptx_builder_end_call))) \
                    const struct ptx_builder_call PTXGEN_OPENED(n) = ptx_builder_open_call(builder);
#define PTXGEN_KEEP(k, n, ...)  const PTXGEN_AUTO PTXGEN_X(k, n) = __VA_ARGS__;
#define PTXGEN_VAL(k, n, ...)   const ptx_val PTXGEN_X(k, n) = PTXGEN_ARG(__VA_ARGS__);
#define PTXGEN_CLOSE(n, ...) \
    ptx_builder_begin_call(PTXGEN_B(n), PTXGEN_HERE); \
    __VA_ARGS__; })
// Of a call whose last argument is a struct with fields that are values. A plain number there,
// `.taken = 0`, would be the first member of a value without its braces, and the value one that is
// left out. So it is an error of the compiler: of clang, and of gcc in C where the headers are not in
// a system folder. (A pragma at the end takes the value of g++'s expression.)
#if defined(__cplusplus) && !defined(__clang__)
#define PTXGEN_CLOSE_FIELDS(n, ...) PTXGEN_CLOSE(n, __VA_ARGS__)
#else
#define PTXGEN_CLOSE_FIELDS(n, ...) \
    ptx_builder_begin_call(PTXGEN_B(n), PTXGEN_HERE); \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wmissing-braces\"") \
    __VA_ARGS__; _Pragma("GCC diagnostic pop") })
#endif

// A shape has a letter for each argument after the builder: v is a value or a C number, k is
// something else, and both are evaluated before the call; t is a type or another constant; l, the
// last, is a struct of options that stands in the call itself, so that temporaries of C++ live as
// long as the call: std::string(...).c_str(). `plain` has all arguments in the call: it is for calls
// of which at most one is a value or has values; `fields`, too, where the last is a struct of options.
#define PTXGEN_CALL(shape, ...) PTXGEN_SHAPE_##shape(__COUNTER__, __VA_ARGS__)

#define PTXGEN_SHAPE_alone(n, f, b) \
    PTXGEN_OPEN(n, b) PTXGEN_CLOSE(n, f(PTXGEN_B(n)))
#define PTXGEN_SHAPE_plain(n, f, b, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_CLOSE(n, f(PTXGEN_B(n), __VA_ARGS__))
#define PTXGEN_SHAPE_fields(n, f, b, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), __VA_ARGS__))
#define PTXGEN_SHAPE_v(n, f, b, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n)))
#define PTXGEN_SHAPE_vv(n, f, b, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n)))
#define PTXGEN_SHAPE_vvv(n, f, b, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n)))
#define PTXGEN_SHAPE_vvvv(n, f, b, x1, x2, x3, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, x3) \
    PTXGEN_VAL(4, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n), PTXGEN_X(4, n)))
#define PTXGEN_SHAPE_kl(n, f, b, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), PTXGEN_X(1, n), __VA_ARGS__))
#define PTXGEN_SHAPE_kv(n, f, b, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_VAL(2, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n)))
#define PTXGEN_SHAPE_kvv(n, f, b, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n)))
#define PTXGEN_SHAPE_kvvv(n, f, b, x1, x2, x3, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, x3) \
    PTXGEN_VAL(4, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n), PTXGEN_X(4, n)))
#define PTXGEN_SHAPE_kvl(n, f, b, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_VAL(2, n, x2) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), __VA_ARGS__))
#define PTXGEN_SHAPE_kkl(n, f, b, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_KEEP(2, n, x2) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), __VA_ARGS__))
#define PTXGEN_SHAPE_kkv(n, f, b, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_KEEP(2, n, x2) PTXGEN_VAL(3, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n)))
#define PTXGEN_SHAPE_tttkl(n, f, b, t1, t2, t3, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), t1, t2, t3, PTXGEN_X(1, n), __VA_ARGS__))
#define PTXGEN_SHAPE_vl(n, f, b, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), PTXGEN_X(1, n), __VA_ARGS__))
#define PTXGEN_SHAPE_tv(n, f, b, t1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), t1, PTXGEN_X(1, n)))
#define PTXGEN_SHAPE_tvv(n, f, b, t1, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), t1, PTXGEN_X(1, n), PTXGEN_X(2, n)))
#define PTXGEN_SHAPE_tvl(n, f, b, t1, x1, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, x1) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), t1, PTXGEN_X(1, n), __VA_ARGS__))
#define PTXGEN_SHAPE_tkvl(n, f, b, t1, x1, x2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_KEEP(1, n, x1) PTXGEN_VAL(2, n, x2) \
    PTXGEN_CLOSE_FIELDS(n, f(PTXGEN_B(n), t1, PTXGEN_X(1, n), PTXGEN_X(2, n), __VA_ARGS__))
#define PTXGEN_SHAPE_ttv(n, f, b, t1, t2, ...) \
    PTXGEN_OPEN(n, b) PTXGEN_VAL(1, n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), t1, t2, PTXGEN_X(1, n)))

// Vectors have no builder: their values alone, from left to right.
#define PTXGEN_VEC2(n, x1, x2) \
    __extension__({ PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, x2) \
                    ptx_vec2(PTXGEN_X(1, n), PTXGEN_X(2, n)); })
#define PTXGEN_VEC4(n, x1, x2, x3, x4) \
    __extension__({ PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, x3) \
                    PTXGEN_VAL(4, n, x4) \
                    ptx_vec4(PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n), PTXGEN_X(4, n)); })
#define PTXGEN_VEC8(n, x1, x2, x3, x4, x5, x6, x7, x8) \
    __extension__({ PTXGEN_VAL(1, n, x1) PTXGEN_VAL(2, n, x2) PTXGEN_VAL(3, n, x3) \
                    PTXGEN_VAL(4, n, x4) PTXGEN_VAL(5, n, x5) PTXGEN_VAL(6, n, x6) \
                    PTXGEN_VAL(7, n, x7) PTXGEN_VAL(8, n, x8) \
                    ptx_vec8(PTXGEN_X(1, n), PTXGEN_X(2, n), PTXGEN_X(3, n), PTXGEN_X(4, n), \
                             PTXGEN_X(5, n), PTXGEN_X(6, n), PTXGEN_X(7, n), PTXGEN_X(8, n)); })

// A text and up to 16 values, kept in an array: the shape `list`. The text stands in the call.
#define PTXGEN_SHAPE_list(n, f, b, ...) \
    PTXGEN_OPEN(n, b) ptx_val PTXGEN_X(1, n)[16]; unsigned PTXGEN_X(2, n) = 0; \
    PTXGEN_VALUES(__VA_ARGS__, PTXGEN_COUNTS)(n, __VA_ARGS__) \
    PTXGEN_CLOSE(n, f(PTXGEN_B(n), PTXGEN_TEXT_OF(__VA_ARGS__, 0), PTXGEN_X(1, n), PTXGEN_X(2, n)))
#define PTXGEN_TEXT_OF(text, ...) text
#define PTXGEN_COUNTS \
    many, many, many, many, many, many, many, many, many, many, many, many, many, many, many, many, \
    16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0
#define PTXGEN_VALUES(...) PTXGEN_VALUES_(__VA_ARGS__)
#define PTXGEN_VALUES_(t, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, \
                       x17, x18, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30, x31, x32, k, ...) \
    PTXGEN_JOIN(PTXGEN_LIST_, k)
#ifdef __cplusplus
#define PTXGEN_LIST_many(...) static_assert(false, "ptx_printf() and ptx_call() take at most 16 values");
#else
#define PTXGEN_LIST_many(...) _Static_assert(0, "ptx_printf() and ptx_call() take at most 16 values");
#endif
#define PTXGEN_ADD(n, x)             PTXGEN_X(1, n)[PTXGEN_X(2, n)++] = PTXGEN_ARG(x);
#define PTXGEN_LIST_0(n, t)
#define PTXGEN_LIST_1(n, t, x)       PTXGEN_ADD(n, x)
#define PTXGEN_LIST_2(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_1(n, t, __VA_ARGS__)
#define PTXGEN_LIST_3(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_2(n, t, __VA_ARGS__)
#define PTXGEN_LIST_4(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_3(n, t, __VA_ARGS__)
#define PTXGEN_LIST_5(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_4(n, t, __VA_ARGS__)
#define PTXGEN_LIST_6(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_5(n, t, __VA_ARGS__)
#define PTXGEN_LIST_7(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_6(n, t, __VA_ARGS__)
#define PTXGEN_LIST_8(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_7(n, t, __VA_ARGS__)
#define PTXGEN_LIST_9(n, t, x, ...)  PTXGEN_ADD(n, x) PTXGEN_LIST_8(n, t, __VA_ARGS__)
#define PTXGEN_LIST_10(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_9(n, t, __VA_ARGS__)
#define PTXGEN_LIST_11(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_10(n, t, __VA_ARGS__)
#define PTXGEN_LIST_12(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_11(n, t, __VA_ARGS__)
#define PTXGEN_LIST_13(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_12(n, t, __VA_ARGS__)
#define PTXGEN_LIST_14(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_13(n, t, __VA_ARGS__)
#define PTXGEN_LIST_15(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_14(n, t, __VA_ARGS__)
#define PTXGEN_LIST_16(n, t, x, ...) PTXGEN_ADD(n, x) PTXGEN_LIST_15(n, t, __VA_ARGS__)

// ---- builder.h, entry.h, data.h -----------------------------------------------------------------

#define ptx_builder_finish(...)          PTXGEN_CALL(alone, ptx_builder_finish, __VA_ARGS__)
#define ptx_builder_fail(...)            PTXGEN_CALL(plain, ptx_builder_fail, __VA_ARGS__)
#define ptx_entry_begin(...)             PTXGEN_CALL(plain, ptx_entry_begin, __VA_ARGS__)
#define ptx_entry_end(...)               PTXGEN_CALL(plain, ptx_entry_end, __VA_ARGS__)
#define ptx_param_emit(...)              PTXGEN_CALL(plain, ptx_param_emit, __VA_ARGS__)
#define ptx_param_ptr_emit(...)          PTXGEN_CALL(plain, ptx_param_ptr_emit, __VA_ARGS__)
#define ptx_param_array(...)             PTXGEN_CALL(plain, ptx_param_array, __VA_ARGS__)
#define ptx_shared(...)                  PTXGEN_CALL(plain, ptx_shared, __VA_ARGS__)
#define ptx_shared_dynamic(...)          PTXGEN_CALL(plain, ptx_shared_dynamic, __VA_ARGS__)
#define ptx_local(...)                   PTXGEN_CALL(plain, ptx_local, __VA_ARGS__)
#define ptx_global_emit(...)             PTXGEN_CALL(plain, ptx_global_emit, __VA_ARGS__)
#define ptx_const_emit(...)              PTXGEN_CALL(plain, ptx_const_emit, __VA_ARGS__)
#define ptx_string(...)                  PTXGEN_CALL(plain, ptx_string, __VA_ARGS__)

// ---- ops.h, beside its rows; convert.h ----------------------------------------------------------

#define ptx_var(...)                     PTXGEN_CALL(v, ptx_var, __VA_ARGS__)
#define ptx_set(...)                     PTXGEN_CALL(vv, ptx_set, __VA_ARGS__)
#define ptx_copy(...)                    PTXGEN_CALL(v, ptx_copy, __VA_ARGS__)
#define ptx_op_emit(...)                 PTXGEN_CALL(fields, ptx_op_emit, __VA_ARGS__)
#define ptx_select(...)                  PTXGEN_CALL(vvv, ptx_select, __VA_ARGS__)
#define ptx_cvt_emit(...)                PTXGEN_CALL(fields, ptx_cvt_emit, __VA_ARGS__)
#define ptx_cvt_pack(...)                PTXGEN_CALL(tvv, ptx_cvt_pack, __VA_ARGS__)
#define ptx_bitcast(...)                 PTXGEN_CALL(tv, ptx_bitcast, __VA_ARGS__)
#define ptx_pack(...)                    PTXGEN_CALL(plain, ptx_pack, __VA_ARGS__)
#define ptx_unpack(...)                  PTXGEN_CALL(tv, ptx_unpack, __VA_ARGS__)

#define ptx_vec2(x1, x2)                 PTXGEN_VEC2(__COUNTER__, x1, x2)
#define ptx_vec4(x1, x2, x3, x4)         PTXGEN_VEC4(__COUNTER__, x1, x2, x3, x4)
#define ptx_vec8(x1, x2, x3, x4, x5, x6, x7, x8) \
    PTXGEN_VEC8(__COUNTER__, x1, x2, x3, x4, x5, x6, x7, x8)

// ---- math.h -------------------------------------------------------------------------------------

#define ptx_math_exp(...)                PTXGEN_CALL(v, ptx_math_exp, __VA_ARGS__)
#define ptx_math_exp2(...)               PTXGEN_CALL(v, ptx_math_exp2, __VA_ARGS__)
#define ptx_math_expm1(...)              PTXGEN_CALL(v, ptx_math_expm1, __VA_ARGS__)
#define ptx_math_log(...)                PTXGEN_CALL(v, ptx_math_log, __VA_ARGS__)
#define ptx_math_log2(...)               PTXGEN_CALL(v, ptx_math_log2, __VA_ARGS__)
#define ptx_math_log1p(...)              PTXGEN_CALL(v, ptx_math_log1p, __VA_ARGS__)
#define ptx_math_sin(...)                PTXGEN_CALL(v, ptx_math_sin, __VA_ARGS__)
#define ptx_math_cos(...)                PTXGEN_CALL(v, ptx_math_cos, __VA_ARGS__)
#define ptx_math_tanh(...)               PTXGEN_CALL(v, ptx_math_tanh, __VA_ARGS__)
#define ptx_math_sigmoid(...)            PTXGEN_CALL(v, ptx_math_sigmoid, __VA_ARGS__)
#define ptx_math_erf(...)                PTXGEN_CALL(v, ptx_math_erf, __VA_ARGS__)
#define ptx_math_erfc(...)               PTXGEN_CALL(v, ptx_math_erfc, __VA_ARGS__)
#define ptx_math_rsqrt(...)              PTXGEN_CALL(v, ptx_math_rsqrt, __VA_ARGS__)
#define ptx_math_pow(...)                PTXGEN_CALL(vv, ptx_math_pow, __VA_ARGS__)

// ---- memory.h -----------------------------------------------------------------------------------

#define ptx_ptr_from(...)                PTXGEN_CALL(ttv, ptx_ptr_from, __VA_ARGS__)
#define ptx_ptr_address(...)             PTXGEN_CALL(plain, ptx_ptr_address, __VA_ARGS__)
#define ptx_ptr_generic(...)             PTXGEN_CALL(plain, ptx_ptr_generic, __VA_ARGS__)
#define ptx_at(...)                      PTXGEN_CALL(kv, ptx_at, __VA_ARGS__)
#define ptx_ptr_cast(...)                PTXGEN_CALL(plain, ptx_ptr_cast, __VA_ARGS__)
#define ptx_load_emit(...)               PTXGEN_CALL(kl, ptx_load_emit, __VA_ARGS__)
#define ptx_store_emit(...)              PTXGEN_CALL(kvl, ptx_store_emit, __VA_ARGS__)
#define ptx_load_vec_emit(...)           PTXGEN_CALL(kvl, ptx_load_vec_emit, __VA_ARGS__)
#define ptx_store_vec_emit(...)          PTXGEN_CALL(kvl, ptx_store_vec_emit, __VA_ARGS__)
#define ptx_atomic_cas(...)              PTXGEN_CALL(kvvv, ptx_atomic_cas, __VA_ARGS__)
#define ptx_atomic_emit(...)             PTXGEN_CALL(tkvl, ptx_atomic_emit, __VA_ARGS__)
#define ptx_fence(...)                   PTXGEN_CALL(plain, ptx_fence, __VA_ARGS__)

// ---- matrix.h -----------------------------------------------------------------------------------

#define ptx_fragment_fill(...)           PTXGEN_CALL(v, ptx_fragment_fill, __VA_ARGS__)
#define ptx_fragment_from(...)           PTXGEN_CALL(plain, ptx_fragment_from, __VA_ARGS__)
#define ptx_fragment_words(...)          PTXGEN_CALL(plain, ptx_fragment_words, __VA_ARGS__)
#define ptx_fragment_var(...)            PTXGEN_CALL(plain, ptx_fragment_var, __VA_ARGS__)
#define ptx_fragment_set(...)            PTXGEN_CALL(kl, ptx_fragment_set, __VA_ARGS__)
#define ptx_fragment_load_emit(...)      PTXGEN_CALL(tttkl, ptx_fragment_load_emit, __VA_ARGS__)
#define ptx_fragment_store(...)          PTXGEN_CALL(kkv, ptx_fragment_store, __VA_ARGS__)
#define ptx_mma_emit(...)                PTXGEN_CALL(kkl, ptx_mma_emit, __VA_ARGS__)
#define ptx_ldmatrix_emit(...)           PTXGEN_CALL(kl, ptx_ldmatrix_emit, __VA_ARGS__)
#define ptx_stmatrix_emit(...)           PTXGEN_CALL(kl, ptx_stmatrix_emit, __VA_ARGS__)
#define ptx_cp_async_emit(...)           PTXGEN_CALL(kkl, ptx_cp_async_emit, __VA_ARGS__)
#define ptx_cp_async_commit(...)         PTXGEN_CALL(alone, ptx_cp_async_commit, __VA_ARGS__)
#define ptx_cp_async_wait(...)           PTXGEN_CALL(plain, ptx_cp_async_wait, __VA_ARGS__)
#define ptx_cp_async_wait_all(...)       PTXGEN_CALL(alone, ptx_cp_async_wait_all, __VA_ARGS__)

// ---- threads.h ----------------------------------------------------------------------------------

#define ptx_global_index(...)            PTXGEN_CALL(plain, ptx_global_index, __VA_ARGS__)
#define ptx_global_index_wide(...)       PTXGEN_CALL(plain, ptx_global_index_wide, __VA_ARGS__)
#define ptx_grid_stride_begin(...)       PTXGEN_CALL(v, ptx_grid_stride_begin, __VA_ARGS__)
#define ptx_grid_stride_end(...)         PTXGEN_CALL(v, ptx_grid_stride_end, __VA_ARGS__)
#define ptx_barrier(...)                 PTXGEN_CALL(alone, ptx_barrier, __VA_ARGS__)
#define ptx_barrier_named(...)           PTXGEN_CALL(plain, ptx_barrier_named, __VA_ARGS__)
#define ptx_barrier_all(...)             PTXGEN_CALL(v, ptx_barrier_all, __VA_ARGS__)
#define ptx_barrier_any(...)             PTXGEN_CALL(v, ptx_barrier_any, __VA_ARGS__)
#define ptx_barrier_count(...)           PTXGEN_CALL(v, ptx_barrier_count, __VA_ARGS__)
#define ptx_assume_warp_uniform(...)     PTXGEN_CALL(v, ptx_assume_warp_uniform, __VA_ARGS__)
#define ptx_barrier_warp(...)            PTXGEN_CALL(v, ptx_barrier_warp, __VA_ARGS__)
#define ptx_shfl_emit(...)               PTXGEN_CALL(tvl, ptx_shfl_emit, __VA_ARGS__)
#define ptx_shfl_down(...)               PTXGEN_CALL(vv, ptx_shfl_down, __VA_ARGS__)
#define ptx_shfl_up(...)                 PTXGEN_CALL(vv, ptx_shfl_up, __VA_ARGS__)
#define ptx_shfl_bfly(...)               PTXGEN_CALL(vv, ptx_shfl_bfly, __VA_ARGS__)
#define ptx_shfl_idx(...)                PTXGEN_CALL(vv, ptx_shfl_idx, __VA_ARGS__)
#define ptx_vote_all(...)                PTXGEN_CALL(vv, ptx_vote_all, __VA_ARGS__)
#define ptx_vote_any(...)                PTXGEN_CALL(vv, ptx_vote_any, __VA_ARGS__)
#define ptx_vote_uniform(...)            PTXGEN_CALL(vv, ptx_vote_uniform, __VA_ARGS__)
#define ptx_ballot(...)                  PTXGEN_CALL(vv, ptx_ballot, __VA_ARGS__)
#define ptx_match_any(...)               PTXGEN_CALL(vv, ptx_match_any, __VA_ARGS__)
#define ptx_match_all(...)               PTXGEN_CALL(vv, ptx_match_all, __VA_ARGS__)
#define ptx_activemask(...)              PTXGEN_CALL(alone, ptx_activemask, __VA_ARGS__)

// ---- control.h, function.h, message.h -----------------------------------------------------------

#define ptx_func_begin(...)              PTXGEN_CALL(plain, ptx_func_begin, __VA_ARGS__)
#define ptx_func_end(...)                PTXGEN_CALL(plain, ptx_func_end, __VA_ARGS__)
#define ptx_return_value(...)            PTXGEN_CALL(v, ptx_return_value, __VA_ARGS__)
#define ptx_call_emit(...)               PTXGEN_CALL(plain, ptx_call_emit, __VA_ARGS__)
#define ptx_call(...)                    PTXGEN_CALL(list, (ptx_call_emit), __VA_ARGS__)
#define ptx_printf_emit(...)             PTXGEN_CALL(plain, ptx_printf_emit, __VA_ARGS__)
#define ptx_printf(...)                  PTXGEN_CALL(list, (ptx_printf_emit), __VA_ARGS__)
#define ptx_trap_message_emit(...)       PTXGEN_CALL(plain, ptx_trap_message_emit, __VA_ARGS__)
#define ptx_assert_emit(...)             PTXGEN_CALL(vl, ptx_assert_emit, __VA_ARGS__)
#define ptx_if_begin(...)                PTXGEN_CALL(v, ptx_if_begin, __VA_ARGS__)
#define ptx_if_end(...)                  PTXGEN_CALL(plain, ptx_if_end, __VA_ARGS__)
#define ptx_else_begin(...)              PTXGEN_CALL(alone, ptx_else_begin, __VA_ARGS__)
#define ptx_else_end(...)                PTXGEN_CALL(plain, ptx_else_end, __VA_ARGS__)
#define ptx_else_if_begin(...)           PTXGEN_CALL(alone, ptx_else_if_begin, __VA_ARGS__)
#define ptx_else_if_test(...)            PTXGEN_CALL(v, ptx_else_if_test, __VA_ARGS__)
#define ptx_else_if_end(...)             PTXGEN_CALL(plain, ptx_else_if_end, __VA_ARGS__)
#define ptx_for_begin(...)               PTXGEN_CALL(vvv, ptx_for_begin, __VA_ARGS__)
#define ptx_for_end(...)                 PTXGEN_CALL(v, ptx_for_end, __VA_ARGS__)
#define ptx_for_down_begin(...)          PTXGEN_CALL(vvv, ptx_for_down_begin, __VA_ARGS__)
#define ptx_for_down_end(...)            PTXGEN_CALL(v, ptx_for_down_end, __VA_ARGS__)
#define ptx_loop_begin(...)              PTXGEN_CALL(alone, ptx_loop_begin, __VA_ARGS__)
#define ptx_loop_end(...)                PTXGEN_CALL(plain, ptx_loop_end, __VA_ARGS__)
#define ptx_while_begin(...)             PTXGEN_CALL(alone, ptx_while_begin, __VA_ARGS__)
#define ptx_while_test(...)              PTXGEN_CALL(v, ptx_while_test, __VA_ARGS__)
#define ptx_while_end(...)               PTXGEN_CALL(plain, ptx_while_end, __VA_ARGS__)
#define ptx_break(...)                   PTXGEN_CALL(alone, ptx_break, __VA_ARGS__)
#define ptx_break_if(...)                PTXGEN_CALL(v, ptx_break_if, __VA_ARGS__)
#define ptx_continue(...)                PTXGEN_CALL(alone, ptx_continue, __VA_ARGS__)
#define ptx_continue_if(...)             PTXGEN_CALL(v, ptx_continue_if, __VA_ARGS__)
#define ptx_return(...)                  PTXGEN_CALL(alone, ptx_return, __VA_ARGS__)
#define ptx_return_if(...)               PTXGEN_CALL(v, ptx_return_if, __VA_ARGS__)
#define ptx_label_create(...)            PTXGEN_CALL(plain, ptx_label_create, __VA_ARGS__)
#define ptx_label_place(...)             PTXGEN_CALL(plain, ptx_label_place, __VA_ARGS__)
#define ptx_branch(...)                  PTXGEN_CALL(plain, ptx_branch, __VA_ARGS__)
#define ptx_branch_if(...)               PTXGEN_CALL(vl, ptx_branch_if, __VA_ARGS__)
#define ptx_trap(...)                    PTXGEN_CALL(alone, ptx_trap, __VA_ARGS__)
#define ptx_nanosleep(...)               PTXGEN_CALL(v, ptx_nanosleep, __VA_ARGS__)
#define ptx_griddepcontrol_wait(...)     PTXGEN_CALL(alone, ptx_griddepcontrol_wait, __VA_ARGS__)
#define ptx_griddepcontrol_launch_dependents(...) PTXGEN_CALL(alone, ptx_griddepcontrol_launch_dependents, __VA_ARGS__)
#define ptx_comment(...)                 PTXGEN_CALL(plain, ptx_comment, __VA_ARGS__)

// ---- asm.h --------------------------------------------------------------------------------------

#define ptx_asm_emit(...)                PTXGEN_CALL(fields, ptx_asm_emit, __VA_ARGS__)
#define ptx_asm_many_emit(...)           PTXGEN_CALL(kl, ptx_asm_many_emit, __VA_ARGS__)
#define ptx_asm_module_emit(...)         PTXGEN_CALL(plain, ptx_asm_module_emit, __VA_ARGS__)
#define ptx_asm_ptr(...)                 PTXGEN_CALL(plain, ptx_asm_ptr, __VA_ARGS__)
// clang-format on

#include <ptxgen/places_ops.h>

#endif

#endif

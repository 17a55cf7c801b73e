// SPDX-License-Identifier: MIT
/// Part of builder.h: calls that know where they stand. Each function of the builder is also a
/// macro of the same name, in C11 and C++, which
///
/// - tells the builder the caller's file and line, so that errors name them;
/// - takes C numbers for values (a bit-field is written +s.field: gcc has no type for it);
/// - evaluates the operands from left to right, and then the options in the order of their fields,
///   so that calls may be operands of calls and the text is the same under every compiler.
///
/// The comma operator gives the order: the macro hands operands to the builder one by one, and the
/// call takes them back. `b` is therefore named several times and must be an expression without
/// side effects: a variable. An operand may have some: it is evaluated once. If it throws an
/// exception of C++, what is left of the call is what its operands have emitted, and the operands
/// before it: a few words of memory, which the builder holds until it is destroyed.
///
/// A call may be an operand of a call to any depth: with gcc and clang the cost to compile grows
/// with the number of calls. Other compilers of C double it with each level (_Generic names an
/// operand twice), so give deep operands a name there.
///
/// A place is one constant string, "kernel.c:12". Of a call over several lines, gcc and g++ name
/// the line of its name, clang and clang++ that of its closing parenthesis. The functions
/// themselves stay, for function pointers and for other languages: `(ptx_add)(b, x, y)`, or
/// everywhere with PTXGEN_NO_PLACES defined before the first header. Their callers can name places
/// by ptx_builder_place(); without one, an error names the number of the instruction, the comment
/// above it and the last lines.
///
/// A library of kernels may be compiled with -DPTXGEN_HERE=NULL: its calls keep the place that the
/// builder has, and its code has no name of its files. Its user's place comes from a macro, as
/// ptx_kernel_emit() of kernels.h is one, or from ptx_builder_place(). So are ptxgen's own kernels.
#ifndef PTXGEN_PLACES_H
#define PTXGEN_PLACES_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/convert.h>
#include <ptxgen/matrix.h>
#include <ptxgen/memory.h>
#include <ptxgen/message.h>
#include <ptxgen/threads.h>
#include <ptxgen/types.h>
#include <ptxgen/words.h>

PTXGEN_BEGIN

// ---- what the macros call -----------------------------------------------------------------------

/// The calls up to the matching end have the place; then it is again the one before. NULL keeps the
/// place. All take a NULL builder. The result is what ptxgen_unwind() takes in place of the end
/// where an exception of C++ passes by.
PTXGEN_API uint32_t ptxgen_place_begin(ptx_builder *b, const char *place);
PTXGEN_API void ptxgen_place_end(ptx_builder *b);
PTXGEN_API void ptxgen_unwind(ptx_builder *b, uint32_t height);

/// An operand of the call that follows. The builder keeps operands on a stack, which a call leaves
/// as it was before its first operand, also after an error.
PTXGEN_API void ptxgen_push(ptx_builder *b, ptx_val x);
PTXGEN_API void ptxgen_push_signed(ptx_builder *b, int64_t x);
PTXGEN_API void ptxgen_push_unsigned(ptx_builder *b, uint64_t x);
PTXGEN_API void ptxgen_push_float(ptx_builder *b, double x);
PTXGEN_API void ptxgen_push_fragment(ptx_builder *b, ptx_fragment x);
PTXGEN_API void ptxgen_push_matrix(ptx_builder *b, ptx_matrix m);
PTXGEN_API void ptxgen_push_ptr(ptx_builder *b, ptx_ptr p);

/// Emits a row of ops.h, or calls a function, with the last operands, at a place.
PTXGEN_API ptx_val ptxgen_popped_op(ptx_builder *b, const char *place, ptx_opcode op);
PTXGEN_API ptx_val ptxgen_popped1(ptx_builder *b, const char *place,
                                  ptx_val (*f)(ptx_builder *, ptx_val));
PTXGEN_API ptx_val ptxgen_popped2(ptx_builder *b, const char *place,
                                  ptx_val (*f)(ptx_builder *, ptx_val, ptx_val));
PTXGEN_API ptx_val ptxgen_popped3(ptx_builder *b, const char *place,
                                  ptx_val (*f)(ptx_builder *, ptx_val, ptx_val, ptx_val));

/// The same for blocks.
PTXGEN_API int ptxgen_popped_block(ptx_builder *b, const char *place,
                                   int (*f)(ptx_builder *, ptx_val));
/// The functions of these names at a place, without the operands that were pushed.
PTXGEN_API void ptxgen_popped_set(ptx_builder *b, const char *place);
PTXGEN_API ptx_val ptxgen_popped_cvt(ptx_builder *b, const char *place, ptx_type type);
PTXGEN_API ptx_val ptxgen_popped_cvt_pack(ptx_builder *b, const char *place, ptx_type type);
PTXGEN_API ptx_ptr ptxgen_popped_at(ptx_builder *b, const char *place);
PTXGEN_API ptx_val ptxgen_popped_load(ptx_builder *b, const char *place);
PTXGEN_API ptx_val ptxgen_popped_load_emit(ptx_builder *b, const char *place,
                                           struct ptx_load_params params);
PTXGEN_API ptx_vec ptxgen_popped_load_vec(ptx_builder *b, const char *place,
                                          struct ptx_load_vec_params params);
PTXGEN_API void ptxgen_popped_store(ptx_builder *b, const char *place);
PTXGEN_API void ptxgen_popped_store_emit(ptx_builder *b, const char *place,
                                         struct ptx_store_params params);
PTXGEN_API void ptxgen_popped_store_vec(ptx_builder *b, const char *place,
                                        struct ptx_store_vec_params params);
PTXGEN_API ptx_val ptxgen_popped_atomic(ptx_builder *b, const char *place, ptx_atomic_op op);
PTXGEN_API ptx_val ptxgen_popped_atomic_cas(ptx_builder *b, const char *place);
PTXGEN_API ptx_val ptxgen_popped_atomic_emit(ptx_builder *b, const char *place, ptx_atomic_op op,
                                             struct ptx_atomic_params params);
PTXGEN_API ptx_vec ptxgen_popped_atomic_vec(ptx_builder *b, const char *place, ptx_atomic_op op,
                                            struct ptx_atomic_vec_params params);
PTXGEN_API void ptxgen_popped_prefetch(ptx_builder *b, const char *place, ptx_prefetch_kind kind);
PTXGEN_API void ptxgen_popped_fragment_set(ptx_builder *b, const char *place, ptx_fragment x);
PTXGEN_API ptx_fragment ptxgen_popped_fragment_load(ptx_builder *b, const char *place,
                                                    ptx_fragment_role role, ptx_type type,
                                                    unsigned k,
                                                    struct ptx_fragment_load_params params);
PTXGEN_API ptx_matrix ptxgen_popped_matrix_from(ptx_builder *b, const char *place,
                                                ptx_fragment_role role, ptx_type type, unsigned k,
                                                struct ptx_fragment_load_params params);
PTXGEN_API ptx_matrix ptxgen_popped_matrix_at(ptx_builder *b, const char *place);
PTXGEN_API void ptxgen_popped_fragment_store(ptx_builder *b, const char *place);
PTXGEN_API ptx_fragment ptxgen_popped_mma(ptx_builder *b, const char *place,
                                          struct ptx_mma_params params);
PTXGEN_API void ptxgen_popped_stmatrix(ptx_builder *b, const char *place,
                                       struct ptx_stmatrix_params params);
PTXGEN_API void ptxgen_popped_cp_async(ptx_builder *b, const char *place,
                                       struct ptx_cp_async_params params);
PTXGEN_API ptx_val ptxgen_popped_shfl(ptx_builder *b, const char *place, ptx_shfl_mode mode,
                                      struct ptx_shfl_params params);
PTXGEN_API void ptxgen_popped_branch_if(ptx_builder *b, const char *place, ptx_label label);
PTXGEN_API void ptxgen_popped_assert(ptx_builder *b, const char *place,
                                     struct ptx_message_params params);
PTXGEN_API void ptxgen_popped_printf(ptx_builder *b, const char *place, const char *format,
                                     unsigned count);
PTXGEN_API ptx_val ptxgen_popped_call(ptx_builder *b, const char *place, const char *name,
                                      unsigned count);
PTXGEN_API ptx_vec ptxgen_popped_call_many(ptx_builder *b, const char *place, const char *name,
                                           unsigned count);
/// The text of the macro says nothing here.
PTXGEN_API void ptxgen_popped_return_values(ptx_builder *b, const char *place, const char *text,
                                            unsigned count);

PTXGEN_END

#ifndef PTXGEN_NO_PLACES

#define PTXGEN_TEXT_(x) #x
#define PTXGEN_TEXT(x)  PTXGEN_TEXT_(x)
#ifndef PTXGEN_HERE
#define PTXGEN_HERE __FILE__ ":" PTXGEN_TEXT(__LINE__)
#endif

// clang-format off
#ifdef PTXGEN_OVERLOAD
#define PTXGEN_OPERAND ptxgen_push // as an object, so that no operand is expanded again
#define PTXGEN_OVERLOADED(type, kind) \
    PTXGEN_OVERLOAD static inline void ptxgen_push(ptx_builder *b, type x) \
    { \
        ptxgen_push_##kind(b, x); \
    }
PTXGEN_NUMBERS(PTXGEN_OVERLOADED)
#undef PTXGEN_OVERLOADED
#ifdef PTXGEN_NEITHER
void ptxgen_push(ptx_builder *b, ...) PTXGEN_OVERLOAD PTXGEN_NEITHER;
#endif
#else
#define PTXGEN_PUSH_TYPED(b, x) \
    PTXGEN_BY_TYPE(x, ptxgen_push_signed, ptxgen_push_unsigned, ptxgen_push_float, ptxgen_push)(b, x)
#define PTXGEN_OPERAND(b, x) PTXGEN_ONCE(PTXGEN_PUSH_TYPED, b, x)
#endif
#ifdef __cplusplus
static inline void ptxgen_push(ptx_builder *b, long double x)
{
    ptxgen_push_float(b, static_cast<double>(x));
}
// A call at a place, which is gone after it, and where an argument throws an exception.
class ptxgen_placed
{
  public:
    ptxgen_placed(ptx_builder *b, const char *place)
        : builder_(b), height_(ptxgen_place_begin(b, place))
    {
    }
    ptxgen_placed(const ptxgen_placed &) = delete;
    ptxgen_placed &operator=(const ptxgen_placed &) = delete;
    ~ptxgen_placed()
    {
        if (builder_)
            ptxgen_unwind(builder_, height_);
    }
    template <class Result> Result end(const Result &result)
    {
        ptxgen_place_end(builder_);
        builder_ = nullptr;
        return result;
    }

  private:
    ptx_builder *builder_;
    uint32_t height_;
};
#define PTXGEN_PLACED(type, b, ...) ptxgen_placed(b, PTXGEN_HERE).end(__VA_ARGS__)
#define PTXGEN_PLACED_VOID(b, ...)  static_cast<void>(PTXGEN_PLACED(int, b, (__VA_ARGS__, 0)))
#else
#define PTXGEN_RESULT(name, type) \
    static inline type ptxgen_placed_##name(ptx_builder *b, type result) \
    { \
        ptxgen_place_end(b); \
        return result; \
    }
PTXGEN_RESULT(val, ptx_val)
PTXGEN_RESULT(ptr, ptx_ptr)
PTXGEN_RESULT(vec, ptx_vec)
PTXGEN_RESULT(fragment, ptx_fragment)
PTXGEN_RESULT(matrix, ptx_matrix)
PTXGEN_RESULT(label, ptx_label)
PTXGEN_RESULT(text, const char *)
PTXGEN_RESULT(int, int)
PTXGEN_RESULT(flag, bool)
#define PTXGEN_PLACED(type, b, ...) \
    (ptxgen_place_begin(b, PTXGEN_HERE), ptxgen_placed_##type(b, __VA_ARGS__))
#define PTXGEN_PLACED_VOID(b, ...) \
    (ptxgen_place_begin(b, PTXGEN_HERE), __VA_ARGS__, ptxgen_place_end(b))
#endif

// The shape of values: they are pushed, and the call after them takes them. So are pointers and
// fragments. The shape of the rest is PTXGEN_PLACED: a call at a place, of which at most one
// argument has values. PTXGEN_PLACED_VOID has no result.
#define PTXGEN_V1(b, x, call)       (PTXGEN_OPERAND(b, x), call)
#define PTXGEN_V2(b, x, y, call)    (PTXGEN_OPERAND(b, x), PTXGEN_OPERAND(b, y), call)
#define PTXGEN_V3(b, x, y, z, call) \
    (PTXGEN_OPERAND(b, x), PTXGEN_OPERAND(b, y), PTXGEN_OPERAND(b, z), call)
#define PTXGEN_V4(b, x, y, z, w, call) \
    (PTXGEN_OPERAND(b, x), PTXGEN_OPERAND(b, y), PTXGEN_OPERAND(b, z), PTXGEN_OPERAND(b, w), call)
// A call of at most two arguments, the last of which is a value, and one with options after them.
// With too few arguments it is the first, and a compiler says how many that takes.
#define PTXGEN_FORM(form, ...) \
    PTXGEN_JOIN(form, PTXGEN_TENTH(__VA_ARGS__, _WITH, _WITH, _WITH, _WITH, _WITH, _WITH, _WITH, , , ))
// A call whose last argument is a struct with fields that are values. A plain number there,
// `.taken = 0`, would be the first member of a value without its braces, and the value one that is
// left out. clang and, in C, gcc make it an error; for gcc that takes a statement. g++ sees no
// warning about braces that a header of its system, as this one is, has written. An option without
// its name, a number, would be a pointer that nothing reads: an error, too.
#if defined(__clang__)
#define PTXGEN_BRACED(...) \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic error \"-Wmissing-braces\"") \
    _Pragma("clang diagnostic error \"-Wint-conversion\"") __VA_ARGS__ _Pragma("clang diagnostic pop")
#elif defined(__GNUC__) && !defined(__cplusplus)
#define PTXGEN_BRACED(...) \
    __extension__({ _Pragma("GCC diagnostic push") \
                    _Pragma("GCC diagnostic error \"-Wmissing-braces\"") \
                    _Pragma("GCC diagnostic error \"-Wint-conversion\"") \
                    __VA_ARGS__; _Pragma("GCC diagnostic pop") })
#else
#define PTXGEN_BRACED(...) __VA_ARGS__
#endif

// A vector has no builder: its values stand in braces, as options do, which C++ and the compilers
// of C evaluate from left to right; C's in the order of the fields.
#ifdef __cplusplus
#define PTXGEN_VEC(lanes, ...) (ptx_vec{ { __VA_ARGS__ }, lanes })
#else
#define PTXGEN_VEC(lanes, ...) ((ptx_vec) { { __VA_ARGS__ }, lanes })
#endif

// A text, which stands in the call, and up to 16 values.
#define PTXGEN_LIST(f, b, ...) \
    (PTXGEN_LIST_OF(PTXGEN_VALUES(__VA_ARGS__, PTXGEN_COUNTS), f, b, __VA_ARGS__))
#define PTXGEN_LIST_OF(k, ...) PTXGEN_LIST_OF_(k, __VA_ARGS__)
#define PTXGEN_LIST_OF_(k, f, b, ...) \
    PTXGEN_EACH_##k(f(b, PTXGEN_HERE, PTXGEN_TEXT_OF(__VA_ARGS__, 0), k), b, __VA_ARGS__)
#define PTXGEN_TEXT_OF(text, ...) text
#define PTXGEN_COUNTS \
    many, many, many, many, many, many, many, many, many, many, many, many, many, many, many, many, \
    16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0
#define PTXGEN_VALUES(...) PTXGEN_VALUES_(__VA_ARGS__)
#define PTXGEN_VALUES_(t, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, \
                       x17, x18, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30, x31, x32, k, ...) k
#ifdef __cplusplus
template <bool fit> static inline void ptxgen_values_fit()
{
    static_assert(fit, "ptx_printf(), ptx_call() and the like take at most 16 values");
}
#define PTXGEN_EACH_many(...) ptxgen_values_fit<false>()
#else
#define PTXGEN_EACH_many(...) \
    (void)sizeof(struct { \
        _Static_assert(0, "ptx_printf(), ptx_call() and the like take at most 16 values"); char c; })
#endif
#define PTXGEN_EACH_0(call, b, t)          call
#define PTXGEN_EACH_1(call, b, t, x)       PTXGEN_OPERAND(b, x), call
#define PTXGEN_EACH_2(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_1(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_3(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_2(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_4(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_3(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_5(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_4(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_6(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_5(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_7(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_6(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_8(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_7(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_9(call, b, t, x, ...)  PTXGEN_OPERAND(b, x), PTXGEN_EACH_8(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_10(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_9(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_11(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_10(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_12(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_11(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_13(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_12(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_14(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_13(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_15(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_14(call, b, t, __VA_ARGS__)
#define PTXGEN_EACH_16(call, b, t, x, ...) PTXGEN_OPERAND(b, x), PTXGEN_EACH_15(call, b, t, __VA_ARGS__)

// ---- builder.h, entry.h, data.h -----------------------------------------------------------------

#define ptx_builder_finish(b) PTXGEN_PLACED(text, b, ptx_builder_finish(b))
#define ptx_builder_fail(b, ...) PTXGEN_PLACED_VOID(b, ptx_builder_fail(b, __VA_ARGS__))
#define ptx_entry_begin(b, ...) PTXGEN_PLACED(int, b, ptx_entry_begin(b, __VA_ARGS__))
#define ptx_entry_end(b, block) PTXGEN_PLACED(int, b, ptx_entry_end(b, block))
#define ptx_param_emit(b, type, ...) PTXGEN_PLACED(val, b, ptx_param_emit(b, type, __VA_ARGS__))
#define ptx_param_ptr_emit(b, type, ...) PTXGEN_PLACED(ptr, b, ptx_param_ptr_emit(b, type, __VA_ARGS__))
#define ptx_param_array(b, type, name, count) PTXGEN_PLACED(ptr, b, ptx_param_array(b, type, name, count))
#define ptx_shared(b, type, count) PTXGEN_PLACED(ptr, b, ptx_shared(b, type, count))
#define ptx_shared_dynamic(b, type) PTXGEN_PLACED(ptr, b, ptx_shared_dynamic(b, type))
#define ptx_local(b, type, count) PTXGEN_PLACED(ptr, b, ptx_local(b, type, count))
#define ptx_global_emit(b, type, ...) PTXGEN_PLACED(ptr, b, ptx_global_emit(b, type, __VA_ARGS__))
#define ptx_const_emit(b, type, ...) PTXGEN_PLACED(ptr, b, ptx_const_emit(b, type, __VA_ARGS__))
#define ptx_string(b, text) PTXGEN_PLACED(ptr, b, ptx_string(b, text))

// ---- ops.h, beside its rows; convert.h ----------------------------------------------------------

#define ptx_var(b, init) PTXGEN_V1(b, init, ptxgen_popped1(b, PTXGEN_HERE, ptx_var))
#define ptx_set(b, var, x) PTXGEN_V2(b, var, x, ptxgen_popped_set(b, PTXGEN_HERE))
#define ptx_copy(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_copy))
#define ptx_op_emit(b, ...) PTXGEN_PLACED(val, b, PTXGEN_BRACED(ptx_op_emit(b, __VA_ARGS__)))
#define ptx_special(b, special, axis) PTXGEN_PLACED(val, b, ptx_special(b, special, axis))
#define ptx_select(b, cond, x, y) PTXGEN_V3(b, cond, x, y, ptxgen_popped3(b, PTXGEN_HERE, ptx_select))
#define ptx_cvt_emit(b, type, ...) PTXGEN_PLACED(val, b, PTXGEN_BRACED(ptx_cvt_emit(b, type, __VA_ARGS__)))
#undef ptx_cvt
#define ptx_cvt(b, ...) PTXGEN_FORM(PTXGEN_CVT, __VA_ARGS__)(b, __VA_ARGS__)
#define PTXGEN_CVT(b, type, x) PTXGEN_V1(b, x, ptxgen_popped_cvt(b, PTXGEN_HERE, type))
#define PTXGEN_CVT_WITH(b, type, ...) \
    ptx_cvt_emit(b, type, PTXGEN_STRUCT(ptx_cvt_params, PTXGEN_FIELDS(x, __VA_ARGS__)))
#define ptx_cvt_pack(b, type, lo, hi) PTXGEN_V2(b, lo, hi, ptxgen_popped_cvt_pack(b, PTXGEN_HERE, type))
#define ptx_bitcast(b, type, x) PTXGEN_PLACED(val, b, ptx_bitcast(b, type, PTXGEN_ARG(x)))
#define ptx_pack(b, type, ...) PTXGEN_PLACED(val, b, ptx_pack(b, type, __VA_ARGS__))
#define ptx_unpack(b, type, x) PTXGEN_PLACED(vec, b, ptx_unpack(b, type, PTXGEN_ARG(x)))
#define ptx_vec2(x, y) PTXGEN_VEC(2, PTXGEN_ARG(x), PTXGEN_ARG(y))
#define ptx_vec4(x, y, z, w) PTXGEN_VEC(4, PTXGEN_ARG(x), PTXGEN_ARG(y), PTXGEN_ARG(z), PTXGEN_ARG(w))
#define ptx_vec8(x0, x1, x2, x3, x4, x5, x6, x7) \
    PTXGEN_VEC(8, PTXGEN_ARG(x0), PTXGEN_ARG(x1), PTXGEN_ARG(x2), PTXGEN_ARG(x3), \
               PTXGEN_ARG(x4), PTXGEN_ARG(x5), PTXGEN_ARG(x6), PTXGEN_ARG(x7))

// ---- math.h -------------------------------------------------------------------------------------

#define ptx_math_exp(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_exp))
#define ptx_math_exp2(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_exp2))
#define ptx_math_expm1(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_expm1))
#define ptx_math_log(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_log))
#define ptx_math_log2(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_log2))
#define ptx_math_log1p(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_log1p))
#define ptx_math_sin(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_sin))
#define ptx_math_cos(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_cos))
#define ptx_math_tanh(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_tanh))
#define ptx_math_sigmoid(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_sigmoid))
#define ptx_math_erf(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_erf))
#define ptx_math_erfc(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_erfc))
#define ptx_math_rsqrt(b, x) PTXGEN_V1(b, x, ptxgen_popped1(b, PTXGEN_HERE, ptx_math_rsqrt))
#define ptx_math_pow(b, x, y) PTXGEN_V2(b, x, y, ptxgen_popped2(b, PTXGEN_HERE, ptx_math_pow))

// ---- memory.h -----------------------------------------------------------------------------------

#define ptx_ptr_from(b, type, space, address) \
    PTXGEN_PLACED(ptr, b, ptx_ptr_from(b, type, space, PTXGEN_ARG(address)))
#define ptx_ptr_address(b, p) PTXGEN_PLACED(val, b, ptx_ptr_address(b, p))
#define ptx_ptr_generic(b, p) PTXGEN_PLACED(val, b, ptx_ptr_generic(b, p))
#define ptx_at(b, p, i) (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), ptxgen_popped_at(b, PTXGEN_HERE))
#define ptx_ptr_cast(b, type, p) PTXGEN_PLACED(ptr, b, ptx_ptr_cast(b, type, p))
#define ptx_load_emit(b, p, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_BRACED(ptxgen_popped_load_emit(b, PTXGEN_HERE, __VA_ARGS__)))
#undef ptx_load
#define ptx_load(b, ...) PTXGEN_FORM(PTXGEN_LOAD, __VA_ARGS__)(b, __VA_ARGS__)
#define PTXGEN_LOAD(b, p, i) (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), ptxgen_popped_load(b, PTXGEN_HERE))
#define PTXGEN_LOAD_WITH(b, p, ...) \
    ptx_load_emit(b, p, PTXGEN_STRUCT(ptx_load_params, PTXGEN_FIELDS(index, __VA_ARGS__)))
#undef ptx_store
#define ptx_store(b, p, ...) PTXGEN_FORM(PTXGEN_STORE, __VA_ARGS__)(b, p, __VA_ARGS__)
#define PTXGEN_STORE(b, p, i, x) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_OPERAND(b, x), ptxgen_popped_store(b, PTXGEN_HERE))
#define PTXGEN_STORE_WITH(b, p, i, ...) \
    ptx_store_emit(b, p, i, PTXGEN_STRUCT(ptx_store_params, PTXGEN_FIELDS(x, __VA_ARGS__)))
#define ptx_store_emit(b, p, i, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_BRACED(ptxgen_popped_store_emit(b, PTXGEN_HERE, __VA_ARGS__)))
#define ptx_load_vec_emit(b, p, i, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_BRACED(ptxgen_popped_load_vec(b, PTXGEN_HERE, __VA_ARGS__)))
#define ptx_store_vec_emit(b, p, i, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_BRACED(ptxgen_popped_store_vec(b, PTXGEN_HERE, __VA_ARGS__)))
#define ptx_atomic_cas(b, p, i, compare, x) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_OPERAND(b, compare), PTXGEN_OPERAND(b, x), \
     ptxgen_popped_atomic_cas(b, PTXGEN_HERE))
#define ptx_atomic_emit(b, op, p, i, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), \
     PTXGEN_BRACED(ptxgen_popped_atomic_emit(b, PTXGEN_HERE, op, __VA_ARGS__)))
#define PTXGEN_ATOMIC(op, b, p, i, value) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), PTXGEN_OPERAND(b, value), ptxgen_popped_atomic(b, PTXGEN_HERE, op))
#define ptx_atomic_vec_emit(b, op, p, i, ...) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), \
     PTXGEN_BRACED(ptxgen_popped_atomic_vec(b, PTXGEN_HERE, op, __VA_ARGS__)))
#define ptx_prefetch(b, p, i, kind) \
    (ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, i), ptxgen_popped_prefetch(b, PTXGEN_HERE, kind))
#define ptx_fence(b, order, scope) PTXGEN_PLACED_VOID(b, ptx_fence(b, order, scope))

// ---- words.h ------------------------------------------------------------------------------------

#define ptx_words_add(b, count, ...) PTXGEN_PLACED_VOID(b, ptx_words_add(b, count, __VA_ARGS__))
#define ptx_words_sub(b, count, ...) PTXGEN_PLACED_VOID(b, ptx_words_sub(b, count, __VA_ARGS__))
#define ptx_words_mad(b, count, sum, x, y, z) \
    PTXGEN_PLACED_VOID(b, ptx_words_mad(b, count, sum, x, PTXGEN_ARG(y), z))

// ---- matrix.h -----------------------------------------------------------------------------------

#define ptx_fragment_fill(b, x) PTXGEN_PLACED(fragment, b, ptx_fragment_fill(b, PTXGEN_ARG(x)))
#define ptx_fragment_from(b, role, type, k, ...) \
    PTXGEN_PLACED(fragment, b, ptx_fragment_from(b, role, type, k, __VA_ARGS__))
#define ptx_fragment_words(b, fragment) PTXGEN_PLACED(vec, b, ptx_fragment_words(b, fragment))
#define ptx_fragment_var(b, init) PTXGEN_PLACED(fragment, b, ptx_fragment_var(b, init))
#define ptx_fragment_set(b, var, ...) \
    (ptxgen_push_fragment(b, var), ptxgen_popped_fragment_set(b, PTXGEN_HERE, __VA_ARGS__))
#define ptx_fragment_load_emit(b, role, type, k, p, ...) \
    (ptxgen_push_ptr(b, p), ptxgen_popped_fragment_load(b, PTXGEN_HERE, role, type, k, __VA_ARGS__))
#define ptx_fragment_to_a(b, type, k, c) PTXGEN_PLACED(fragment, b, ptx_fragment_to_a(b, type, k, c))
#define ptx_matrix_from_emit(b, role, type, k, p, ...) \
    (ptxgen_push_ptr(b, p), ptxgen_popped_matrix_from(b, PTXGEN_HERE, role, type, k, __VA_ARGS__))
#define ptx_matrix_at(b, matrix, i) \
    (ptxgen_push_matrix(b, matrix), PTXGEN_OPERAND(b, i), ptxgen_popped_matrix_at(b, PTXGEN_HERE))
#define ptx_matrix_load(b, matrix, row, column, count, to) \
    PTXGEN_PLACED_VOID(b, ptx_matrix_load(b, matrix, row, column, count, to))
#define ptx_matrix_store(b, matrix, row, column, count, from) \
    PTXGEN_PLACED_VOID(b, ptx_matrix_store(b, matrix, row, column, count, from))
#define ptx_fragment_store(b, fragment, p, stride) \
    (ptxgen_push_fragment(b, fragment), ptxgen_push_ptr(b, p), PTXGEN_OPERAND(b, stride), \
     ptxgen_popped_fragment_store(b, PTXGEN_HERE))
#define ptx_mma_emit(b, x, y, ...) \
    (ptxgen_push_fragment(b, x), ptxgen_push_fragment(b, y), ptxgen_popped_mma(b, PTXGEN_HERE, __VA_ARGS__))
#define ptx_ldmatrix_emit(b, p, ...) PTXGEN_PLACED(vec, b, ptx_ldmatrix_emit(b, p, __VA_ARGS__))
#define ptx_stmatrix_emit(b, p, ...) (ptxgen_push_ptr(b, p), ptxgen_popped_stmatrix(b, PTXGEN_HERE, __VA_ARGS__))
#define ptx_cp_async_emit(b, to, from, ...) \
    (ptxgen_push_ptr(b, to), ptxgen_push_ptr(b, from), \
     PTXGEN_BRACED(ptxgen_popped_cp_async(b, PTXGEN_HERE, __VA_ARGS__)))
#define ptx_cp_async_commit(b) PTXGEN_PLACED_VOID(b, ptx_cp_async_commit(b))
#define ptx_cp_async_wait(b, pending) PTXGEN_PLACED_VOID(b, ptx_cp_async_wait(b, pending))
#define ptx_cp_async_wait_all(b) PTXGEN_PLACED_VOID(b, ptx_cp_async_wait_all(b))

// ---- threads.h ----------------------------------------------------------------------------------

#define ptx_global_index(b, axis) PTXGEN_PLACED(val, b, ptx_global_index(b, axis))
#define ptx_global_index_wide(b, axis) PTXGEN_PLACED(val, b, ptx_global_index_wide(b, axis))
#define ptx_grid_stride_begin(b, n) PTXGEN_V1(b, n, ptxgen_popped1(b, PTXGEN_HERE, ptx_grid_stride_begin))
#define ptx_grid_stride_end(b, i) PTXGEN_V1(b, i, ptxgen_popped1(b, PTXGEN_HERE, ptx_grid_stride_end))
#define ptx_barrier(b) PTXGEN_PLACED_VOID(b, ptx_barrier(b))
#define ptx_barrier_named(b, id, threads) PTXGEN_PLACED_VOID(b, ptx_barrier_named(b, id, threads))
#define ptx_barrier_arrive(b, id, threads) PTXGEN_PLACED_VOID(b, ptx_barrier_arrive(b, id, threads))
#define ptx_barrier_all(b, pred) PTXGEN_V1(b, pred, ptxgen_popped1(b, PTXGEN_HERE, ptx_barrier_all))
#define ptx_barrier_any(b, pred) PTXGEN_V1(b, pred, ptxgen_popped1(b, PTXGEN_HERE, ptx_barrier_any))
#define ptx_barrier_count(b, pred) PTXGEN_V1(b, pred, ptxgen_popped1(b, PTXGEN_HERE, ptx_barrier_count))
#define ptx_assume_warp_uniform(b, x) PTXGEN_PLACED_VOID(b, ptx_assume_warp_uniform(b, PTXGEN_ARG(x)))
#define ptx_barrier_warp(b, mask) PTXGEN_PLACED_VOID(b, ptx_barrier_warp(b, PTXGEN_ARG(mask)))
#define ptx_shfl_emit(b, mode, x, ...) \
    (PTXGEN_OPERAND(b, x), PTXGEN_BRACED(ptxgen_popped_shfl(b, PTXGEN_HERE, mode, __VA_ARGS__)))
#define ptx_shfl_down(b, x, delta) PTXGEN_V2(b, x, delta, ptxgen_popped2(b, PTXGEN_HERE, ptx_shfl_down))
#define ptx_shfl_up(b, x, delta) PTXGEN_V2(b, x, delta, ptxgen_popped2(b, PTXGEN_HERE, ptx_shfl_up))
#define ptx_shfl_bfly(b, x, mask) PTXGEN_V2(b, x, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_shfl_bfly))
#define ptx_shfl_idx(b, x, lane) PTXGEN_V2(b, x, lane, ptxgen_popped2(b, PTXGEN_HERE, ptx_shfl_idx))
#define ptx_vote_all(b, pred, mask) PTXGEN_V2(b, pred, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_vote_all))
#define ptx_vote_any(b, pred, mask) PTXGEN_V2(b, pred, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_vote_any))
#define ptx_vote_uniform(b, pred, mask) \
    PTXGEN_V2(b, pred, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_vote_uniform))
#define ptx_ballot(b, pred, mask) PTXGEN_V2(b, pred, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_ballot))
#define ptx_match_any(b, x, mask) PTXGEN_V2(b, x, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_match_any))
#define ptx_match_all(b, x, mask) PTXGEN_V2(b, x, mask, ptxgen_popped2(b, PTXGEN_HERE, ptx_match_all))
#define ptx_activemask(b) PTXGEN_PLACED(val, b, ptx_activemask(b))

// ---- control.h, function.h, message.h -----------------------------------------------------------

#define ptx_func_begin(b, ...) PTXGEN_PLACED(int, b, ptx_func_begin(b, __VA_ARGS__))
#define ptx_func_end(b, block) PTXGEN_PLACED(int, b, ptx_func_end(b, block))
#define ptx_return_value(b, x) PTXGEN_PLACED_VOID(b, ptx_return_value(b, PTXGEN_ARG(x)))
#define ptx_call_emit(b, name, ...) PTXGEN_PLACED(val, b, ptx_call_emit(b, name, __VA_ARGS__))
#define ptx_call(b, ...) PTXGEN_LIST(ptxgen_popped_call, b, __VA_ARGS__)
#define ptx_call_many_emit(b, name, ...) PTXGEN_PLACED(vec, b, ptx_call_many_emit(b, name, __VA_ARGS__))
#define ptx_call_many(b, ...) PTXGEN_LIST(ptxgen_popped_call_many, b, __VA_ARGS__)
#define ptx_return_values_emit(b, ...) PTXGEN_PLACED_VOID(b, ptx_return_values_emit(b, __VA_ARGS__))
#define ptx_return_values(b, ...) PTXGEN_LIST(ptxgen_popped_return_values, b, "", __VA_ARGS__)
#define ptx_printf_emit(b, format, ...) PTXGEN_PLACED_VOID(b, ptx_printf_emit(b, format, __VA_ARGS__))
#define ptx_printf(b, ...) PTXGEN_LIST(ptxgen_popped_printf, b, __VA_ARGS__)
#define ptx_trap_message_emit(b, ...) PTXGEN_PLACED_VOID(b, ptx_trap_message_emit(b, __VA_ARGS__))
#define ptx_assert_emit(b, cond, ...) \
    (PTXGEN_OPERAND(b, cond), ptxgen_popped_assert(b, PTXGEN_HERE, __VA_ARGS__))
#define ptx_if_begin(b, cond) PTXGEN_V1(b, cond, ptxgen_popped_block(b, PTXGEN_HERE, ptx_if_begin))
#define ptx_else_begin(b) PTXGEN_PLACED(int, b, ptx_else_begin(b))
#define ptx_else_if_begin(b) PTXGEN_PLACED(int, b, ptx_else_if_begin(b))
#define ptx_else_if_test(b, cond) PTXGEN_PLACED(flag, b, ptx_else_if_test(b, PTXGEN_ARG(cond)))
#define ptx_for_begin(b, lo, hi, step) \
    PTXGEN_V3(b, lo, hi, step, ptxgen_popped3(b, PTXGEN_HERE, ptx_for_begin))
#define ptx_for_end(b, i) PTXGEN_V1(b, i, ptxgen_popped1(b, PTXGEN_HERE, ptx_for_end))
#define ptx_for_down_begin(b, hi, lo, step) \
    PTXGEN_V3(b, hi, lo, step, ptxgen_popped3(b, PTXGEN_HERE, ptx_for_down_begin))
#define ptx_for_down_end(b, i) PTXGEN_V1(b, i, ptxgen_popped1(b, PTXGEN_HERE, ptx_for_down_end))
#define ptx_loop_begin(b) PTXGEN_PLACED(int, b, ptx_loop_begin(b))
#define ptx_loop_end(b, block) PTXGEN_PLACED(int, b, ptx_loop_end(b, block))
#define ptx_inlined_begin(b, name) PTXGEN_PLACED(int, b, ptx_inlined_begin(b, name))
#define ptx_inlined_end(b, block) PTXGEN_PLACED(int, b, ptx_inlined_end(b, block))
#define ptx_while_begin(b) PTXGEN_PLACED(int, b, ptx_while_begin(b))
#define ptx_while_test(b, cond) PTXGEN_PLACED(flag, b, ptx_while_test(b, PTXGEN_ARG(cond)))
#define ptx_while_end(b, block) PTXGEN_PLACED(int, b, ptx_while_end(b, block))
#define ptx_break(b) PTXGEN_PLACED_VOID(b, ptx_break(b))
#define ptx_break_if(b, cond) PTXGEN_PLACED_VOID(b, ptx_break_if(b, PTXGEN_ARG(cond)))
#define ptx_continue(b) PTXGEN_PLACED_VOID(b, ptx_continue(b))
#define ptx_continue_if(b, cond) PTXGEN_PLACED_VOID(b, ptx_continue_if(b, PTXGEN_ARG(cond)))
#define ptx_return(b) PTXGEN_PLACED_VOID(b, ptx_return(b))
#define ptx_return_if(b, cond) PTXGEN_PLACED_VOID(b, ptx_return_if(b, PTXGEN_ARG(cond)))
#define ptx_label_create(b, name) PTXGEN_PLACED(label, b, ptx_label_create(b, name))
#define ptx_label_place(b, label) PTXGEN_PLACED_VOID(b, ptx_label_place(b, label))
#define ptx_branch(b, label) PTXGEN_PLACED_VOID(b, ptx_branch(b, label))
#define ptx_branch_if(b, cond, label) PTXGEN_V1(b, cond, ptxgen_popped_branch_if(b, PTXGEN_HERE, label))
#define ptx_trap(b) PTXGEN_PLACED_VOID(b, ptx_trap(b))
#define ptx_nanosleep(b, nanoseconds) PTXGEN_PLACED_VOID(b, ptx_nanosleep(b, PTXGEN_ARG(nanoseconds)))
#define ptx_griddepcontrol_wait(b) PTXGEN_PLACED_VOID(b, ptx_griddepcontrol_wait(b))
#define ptx_griddepcontrol_launch_dependents(b) PTXGEN_PLACED_VOID(b, ptx_griddepcontrol_launch_dependents(b))
#define ptx_comment(b, ...) PTXGEN_PLACED_VOID(b, ptx_comment(b, __VA_ARGS__))

// ---- asm.h --------------------------------------------------------------------------------------

#define ptx_asm_emit(b, ...) PTXGEN_PLACED(val, b, PTXGEN_BRACED(ptx_asm_emit(b, __VA_ARGS__)))
#define ptx_asm_many_emit(b, out, ...) \
    PTXGEN_PLACED_VOID(b, PTXGEN_BRACED(ptx_asm_many_emit(b, out, __VA_ARGS__)))
#define ptx_asm_module_emit(b, ...) PTXGEN_PLACED_VOID(b, ptx_asm_module_emit(b, __VA_ARGS__))
#define ptx_asm_ptr(b, type, space, name) PTXGEN_PLACED(ptr, b, ptx_asm_ptr(b, type, space, name))
// clang-format on

#include <ptxgen/places_ops.h>

#endif

#endif

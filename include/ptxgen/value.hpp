// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: values with operators. The rules of ptxgen.hpp apply.
///
/// An operator emits nothing. `x * y + 1` is an expression: a list of what is to be emitted, which
/// is emitted from left to right, once, where it becomes a value, is stored, or is a condition. So
/// the text does not depend on the order in which a compiler evaluates operands, which C++ leaves
/// open. An expression cannot be kept: `auto e = x * y;` compiles, but each use of e is an error of
/// the compiler. Write `ptx::value e = x * y;`. A function takes ptx::expr and uses it once, by
/// std::move(e): then what its arguments emit has an order, which C++ leaves open for ptx::value.
///
/// An operand may have emitted before, as a call of a function that returns a value. Two such
/// operands of one expression are refused, because C++ does not order them: name one of them first.
///
/// Operators mean what they mean in C++, on the type of the operands: `*` of integers is the lower
/// half, `/` and `%` of integers truncate, `!=` of a NaN is true. Multiplications and additions are
/// not fused; fma() is. Comparisons give predicates, for &, |, ^, !, select() and blocks. There is
/// no && and ||: both operands would be evaluated.
#ifndef PTXGEN_VALUE_HPP
#define PTXGEN_VALUE_HPP

#include <ptxgen/context.hpp>

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace ptx
{

class element;
class expr;
class variable;

/// C++ numbers, and enumerators without a class.
template <class T>
using if_number =
    std::enable_if_t<std::is_arithmetic<T>::value ||
                     (std::is_enum<T>::value && std::is_convertible<T, long long>::value)>;

/// A value of a kernel, which does not change. C functions take it as the ptx_val that it is.
class value : public ptx_val
{
  public:
    value() : ptx_val() {}          ///< poison: its first use is an error
    value(const value &) = default; // a move is a copy
    value &operator=(const value &) = default;
    value(owner c, ptx_val x) : ptx_val(x), context_(std::move(c)) {}
    value(expr &&e);    ///< emits the expression
    value(element &&e); ///< emits the load
    /// What the variable holds now: emits a copy.
    value(const variable &x, place at = place::here());
    const owner &of() const
    {
        return context_;
    }

  private:
    owner context_;
};

/// What is emitted where it is used; see the top of the file. An unnamed operand or argument.
class expr
{
  public:
    using call1 = ptx_val (*)(ptx_builder *, ptx_val);
    using call2 = ptx_val (*)(ptx_builder *, ptx_val, ptx_val);
    using call3 = ptx_val (*)(ptx_builder *, ptx_val, ptx_val, ptx_val);
    using call4 = ptx_val (*)(ptx_builder *, ptx_val, ptx_val, ptx_val, ptx_val);
    using of_nothing = ptx_val (*)(ptx_builder *);
    using of_pointer = ptx_val (*)(ptx_builder *, ptx_ptr);
    using of_axis = ptx_val (*)(ptx_builder *, ptx_axis);

    expr(const value &x, place at = place::here()) : expr(x.of(), x, at, false) {}
    expr(value &&x, place at = place::here()) : expr(x.of(), x, at, emits(x)) {}
    /// From a C function.
    expr(const ptx_val &x, place at = place::here()) : expr(nullptr, x, at, false) {}
    expr(ptx_val &&x, place at = place::here()) : expr(nullptr, x, at, emits(x)) {}
    expr(const variable &x, place at = place::here());
    expr(variable &&x, place at = place::here());
    expr(element &&e);
    /// A number, which gets the type of what stands beside it.
    template <class T, class = if_number<T>>
    expr(T x, place at = place::here()) : expr(nullptr, number(x), at, false)
    {
    }
    expr(const expr &) = delete; // keep a value instead: ptx::value e = ...
    expr(expr &&) = default;     // what is left is poison
    expr &operator=(const expr &) = delete;

    /// Emits. Poison, and no error, where no operand belongs to a builder.
    ptx_val emit();
    operator ptx_val() &&
    {
        return emit();
    }

    const owner &of() const
    {
        return context_;
    }
    /// As an operand of a call by a pointer that has emitted before.
    expr &&after(bool emitted) &&
    {
        emitting_ += emitted;
        return std::move(*this);
    }
    place at() const
    {
        return at_;
    }
    unsigned emitting() const
    {
        return emitting_;
    } ///< operands that have emitted before

    static expr call(call1 f, expr &x)
    {
        step s(CALL1);
        s.f1 = f;
        return expr(s, { &x });
    }
    static expr call(call2 f, expr &x, expr &y)
    {
        step s(CALL2);
        s.f2 = f;
        return expr(s, { &x, &y });
    }
    static expr call(call3 f, expr &x, expr &y, expr &z)
    {
        step s(CALL3);
        s.f3 = f;
        return expr(s, { &x, &y, &z });
    }
    static expr call(call4 f, expr &x, expr &y, expr &z, expr &w)
    {
        step s(CALL4);
        s.f4 = f;
        return expr(s, { &x, &y, &z, &w });
    }
    static expr special(const owner &c, of_nothing f, place at)
    {
        expr e(c, ptx_val(), at, false);
        e.steps_[0].kind = CALL0;
        e.steps_[0].f0 = f;
        return e;
    }
    static expr of(const owner &c, of_pointer f, const ptx_ptr &p, place at)
    {
        expr e(c, ptx_val(), at, false);
        e.steps_[0].kind = POINTER;
        e.steps_[0].fp = f;
        e.steps_[0].p = p;
        return e;
    }
    static expr special(const owner &c, of_axis f, ptx_axis axis, place at)
    {
        expr e(c, ptx_val(), at, false);
        e.steps_[0].kind = AXIS;
        e.steps_[0].fa = f;
        e.steps_[0].axis = axis;
        return e;
    }
    static expr convert(ptx_type type, ptx_cvt_params how, expr &x)
    {
        step s(CONVERT);
        s.type = type;
        s.cvt = how;
        return expr(s, { &x });
    }
    static expr reinterpret(ptx_type type, expr &x)
    {
        step s(BITS);
        s.type = type;
        return expr(s, { &x });
    }
    static expr load(const owner &c, const ptx_ptr &p, ptx_load_params how, expr &index)
    {
        step s(LOAD);
        s.p = p;
        s.how = how;
        expr e(s, { &index });
        e.context_ = c;
        return e;
    }

  private:
    friend class operands;
    enum kind { LEAF, CALL0, CALL1, CALL2, CALL3, CALL4, AXIS, POINTER, CONVERT, BITS, LOAD };
    struct step {
        enum kind kind;
        union {
            call1 f1;
            call2 f2;
            call3 f3;
            call4 f4;
            of_nothing f0;
            of_pointer fp;
            of_axis fa;
        };
        ptx_val x = {};
        ptx_ptr p = {};
        ptx_type type = PTX_NONE;
        ptx_axis axis = PTX_X;
        ptx_cvt_params cvt = {};
        ptx_load_params how = {};

        explicit step(enum kind k) : kind(k), f1(nullptr) {}
    };

    [[gnu::noinline]] expr(owner c, ptx_val x, place at, bool emitted)
        : context_(std::move(c)), at_(at), emitting_(emitted), steps_(1, step(LEAF))
    {
        steps_[0].x = x;
    }
    [[gnu::noinline]] expr(const step &last, std::initializer_list<expr *> operands)
        : at_((*operands.begin())->at_), emitting_(0)
    {
        for (const expr *x : operands) {
            context_ = context_ ? context_ : x->context_;
            emitting_ += x->emitting_;
            steps_.insert(steps_.end(), x->steps_.begin(), x->steps_.end());
            if (x->steps_.empty()) // moved from
                steps_.push_back(step(LEAF));
        }
        steps_.push_back(last);
    }
    static bool emits(const ptx_val &x)
    {
        return x.kind == PTX_KIND_REGISTER || x.kind == PTX_KIND_VARIABLE;
    }
    template <class T> static ptx_val number(T x)
    {
        if constexpr (std::is_enum<T>::value)
            return number(+x);
        else if constexpr (std::is_floating_point<T>::value)
            return ptx_number_float(static_cast<double>(x));
        else if constexpr (std::is_signed<T>::value)
            return ptx_number_signed(static_cast<int64_t>(x));
        else
            return ptx_number_unsigned(static_cast<uint64_t>(x));
    }
    static void run(ptx_builder *b, const step &s, std::vector<ptx_val> &stack);

    owner context_;
    place at_;
    unsigned emitting_;
    std::vector<step> steps_; // in the order of emission: operands before what uses them
};

/// The value that the expression emits.
[[gnu::noinline]] inline value emit(expr &&e)
{
    const owner c = e.of();
    return value(c, e.emit());
}

/// Refuses operands or arguments of which two have emitted before.
[[gnu::noinline]] inline void require_order(const owner &c, place at, unsigned emitting)
{
    if (emitting < 2 || !c)
        return;
    located here(c, at);
    (ptx_builder_fail)(here.builder(),
                       "%u operands of one expression have emitted before, in an order that C++ "
                       "leaves open; give all but one a name first: ptx::value x = ...",
                       emitting);
}

inline void expr::run(ptx_builder *b, const step &s, std::vector<ptx_val> &stack)
{
    const bool alone = s.kind == LEAF || s.kind == AXIS || s.kind == CALL0 || s.kind == POINTER;
    const unsigned operands = alone             ? 0
                              : s.kind == CALL4 ? 4
                              : s.kind == CALL3 ? 3
                              : s.kind == CALL2 ? 2
                                                : 1;
    ptx_val x[4] = {}, result = s.x;

    for (unsigned k = operands; k-- > 0; stack.pop_back())
        x[k] = stack.back();
    if (s.kind == CALL1)
        result = s.f1(b, x[0]);
    else if (s.kind == CALL2)
        result = s.f2(b, x[0], x[1]);
    else if (s.kind == CALL3)
        result = s.f3(b, x[0], x[1], x[2]);
    else if (s.kind == CALL4)
        result = s.f4(b, x[0], x[1], x[2], x[3]);
    else if (s.kind == CALL0)
        result = s.f0(b);
    else if (s.kind == POINTER)
        result = s.fp(b, s.p);
    else if (s.kind == AXIS)
        result = s.fa(b, s.axis);
    else if (s.kind == BITS)
        result = (ptx_bitcast)(b, s.type, x[0]);
    else if (s.kind == CONVERT) {
        ptx_cvt_params how = s.cvt;
        how.x = x[0];
        result = (ptx_cvt_emit)(b, s.type, how);
    } else if (s.kind == LOAD) {
        ptx_load_params how = s.how;
        how.index = x[0];
        result = (ptx_load_emit)(b, s.p, how);
    }
    stack.push_back(result);
}

/// Operands in braces, which are evaluated from left to right.
class operands
{
  public:
    operands(std::initializer_list<expr> list)
    {
        for (const expr &each : list) {
            list_.push_back(expr(each.context_, ptx_val(), each.at_, false));
            list_.back().steps_ = each.steps_; // emitting in braces has an order
            emitting_ |= each.emitting_ != 0;
        }
    }
    /// Whether the braces have emitted before, beside other arguments.
    bool emitting() const
    {
        return emitting_;
    }
    size_t count() const
    {
        return list_.size();
    }
    ptx_val emit(size_t k)
    {
        return list_[k].emit();
    }
    /// A vector of at most eight lanes; of more, and of none, one that C refuses.
    ptx_vec emit()
    {
        ptx_vec x = {};
        for (expr &each : list_) {
            const ptx_val lane = each.emit();
            if (x.lanes < 8)
                x.lane[x.lanes] = lane;
            x.lanes++;
        }
        return x;
    }

  private:
    std::vector<expr> list_;
    bool emitting_ = false;
};

[[gnu::noinline]] inline ptx_val expr::emit()
{
    std::vector<ptx_val> stack;

    if (steps_.size() == 1 && steps_[0].kind == LEAF)
        return steps_[0].x;
    if (!context_ || steps_.empty()) {
        ptx_val poison = {};
        bool number = false, unset = false;
        for (const step &s : steps_) {
            number |= s.kind == LEAF && s.x.kind == PTX_KIND_NUMBER;
            unset |= s.kind == LEAF && s.x.kind == PTX_KIND_POISON;
        }
        poison.reg = number && !unset ? PTXGEN_NUMBERS_ALONE : 0;
        return poison;
    }
    require_order(context_, at_, emitting_);
    located here(context_, at_);
    for (const step &s : steps_)
        run(here.builder(), s, stack);
    steps_.clear(); // as after a move
    return stack.back();
}

/// A name or a format, with the place where it stands.
struct words {
    const char *text;
    place at;

    words(const char *from, place here = place::here()) : text(from), at(here) {}
};

/// The values of arguments, emitted from left to right.
template <class... Argument>
std::vector<ptx_val> emit_all(const owner &c, place at, Argument &&...x)
{
    static_assert(sizeof...(x) <= 16, "printf() and call() take at most 16 values");
    std::vector<expr> list;
    std::vector<ptx_val> values;
    unsigned emitting = 0;

    list.reserve(sizeof...(x));
    (list.push_back(expr(std::forward<Argument>(x))), ...);
    for (const expr &each : list)
        emitting += each.emitting();
    require_order(c, at, emitting);
    for (expr &each : list)
        values.push_back(each.emit());
    return values;
}

// ---- variables ----------------------------------------------------------------------------------

/// A variable of a kernel, from builder::var(). Assignments emit.
class variable : public ptx_val
{
  public:
    variable(owner c, ptx_val x) : ptx_val(x), context_(std::move(c)) {}
    variable(variable &&x) noexcept : ptx_val(x), context_(x.context_) {} // the same variable
    variable(const variable &) = delete; // a copy is ptx::value, another variable builder::var()
    const owner &of() const
    {
        return context_;
    }

    variable &operator=(expr &&e)
    {
        const place at = e.at();
        const ptx_val x = e.emit();
        located here(context_, at);
        (ptx_set)(here.builder(), *this, x);
        return *this;
    }
    variable &operator=(const variable &x)
    {
        return *this = expr(x);
    }

  private:
    owner context_;
};

inline expr::expr(const variable &x, place at) : expr(x.of(), x, at, false) {}
inline expr::expr(variable &&x, place at) : expr(x.of(), x, at, true) {}
inline value::value(expr &&e) : value(ptx::emit(std::move(e))) {}
inline value::value(const variable &x, place at) : ptx_val(), context_(x.of())
{
    located here(context_, at);
    static_cast<ptx_val &>(*this) = (ptx_copy)(here.builder(), x);
}

// ---- operators ----------------------------------------------------------------------------------

/// != as in C++: true if an operand is NaN.
inline ptx_val not_equal(ptx_builder *b, ptx_val x, ptx_val y)
{
    const ptx_val &typed = x.kind == PTX_KIND_NUMBER ? y : x;
    const bool real = (typed.type >= PTX_F16 && typed.type <= PTX_BF16X2);
    return real ? (ptx_neu)(b, x, y) : (ptx_ne)(b, x, y);
}

// What `sign` calls, as an operator of two operands, and as an assignment.
#define PTXGEN_OPERATORS(X)                                                                        \
    X(+, ptx_add)                                                                                  \
    X(-, ptx_sub)                                                                                  \
    X(*, ptx_mul)                                                                                  \
    X(/, ptx_div)                                                                                  \
    X(%, ptx_rem)                                                                                  \
    X(&, ptx_and)                                                                                  \
    X(|, ptx_or)                                                                                   \
    X(^, ptx_xor)                                                                                  \
    X(<<, ptx_shl)                                                                                 \
    X(>>, ptx_shr)
#define PTXGEN_COMPARISONS(X)                                                                      \
    X(<, ptx_lt)                                                                                   \
    X(<=, ptx_le)                                                                                  \
    X(>, ptx_gt)                                                                                   \
    X(>=, ptx_ge)                                                                                  \
    X(==, ptx_eq)                                                                                  \
    X(!=, not_equal)
#define PTXGEN_OPERATOR(sign, function)                                                            \
    inline expr operator sign(expr x, expr y)                                                      \
    {                                                                                              \
        return expr::call(static_cast<expr::call2>(function), x, y);                               \
    }
PTXGEN_OPERATORS(PTXGEN_OPERATOR)
PTXGEN_COMPARISONS(PTXGEN_OPERATOR)
#undef PTXGEN_OPERATOR
#define PTXGEN_OPERATOR(sign, function)                                                            \
    inline variable &operator sign##=(variable &x, expr y)                                         \
    {                                                                                              \
        expr old(x, y.at());                                                                       \
        return x = expr::call(static_cast<expr::call2>(function), old, y);                         \
    }
PTXGEN_OPERATORS(PTXGEN_OPERATOR)
#undef PTXGEN_OPERATOR

inline expr operator-(expr x)
{
    return expr::call(static_cast<expr::call1>(ptx_neg), x);
}
inline expr operator~(expr x)
{
    return expr::call(static_cast<expr::call1>(ptx_not), x);
}
inline expr operator!(expr x)
{
    return expr::call(static_cast<expr::call1>(ptx_not), x);
}

// ---- functions ----------------------------------------------------------------------------------

// The rows of ops.h that are no operator, by operands; those of math.h; operations of a warp; the
// functions of rule.h.
// clang-format off
#define PTXGEN_FUNCTIONS_1(X)                                                                      \
    X(abs) X(popc) X(clz) X(bfind) X(brev) X(sqrt) X(rcp) X(sqrt_approx) X(rcp_approx)             \
    X(rsqrt_approx) X(ex2) X(lg2) X(sin) X(cos) X(tanh) X(rint) X(trunc) X(floor) X(ceil)          \
    X(is_finite) X(is_infinite) X(is_number) X(is_nan) X(is_normal) X(is_subnormal)                \
    X(rule_sqrt) X(rule_exp) X(rule_log)
#define PTXGEN_FUNCTIONS_2(X)                                                                      \
    X(mul_hi) X(mul_wide) X(div_approx) X(div_full) X(min) X(max) X(min_nan) X(max_nan)            \
    X(copysign) X(bmsk) X(szext) X(ne) X(equ) X(neu) X(ltu) X(leu) X(gtu) X(geu) X(ordered)        \
    X(unordered) X(shfl_down) X(shfl_up) X(shfl_bfly) X(shfl_idx) X(rule_power) X(rule_div)        \
    X(rule_pow)
#define PTXGEN_FUNCTIONS_3(X)                                                                      \
    X(fma) X(mad) X(mad_hi) X(mad_wide) X(sad) X(selp) X(bfe) X(shf_l) X(shf_r) X(prmt) X(dp4a)    \
    X(select)
#define PTXGEN_FUNCTIONS_4(X) X(bfi) X(lop3)
// Of a value and the mask of the lanes.
#define PTXGEN_FUNCTIONS_WARP(X)                                                                   \
    X(vote_all) X(vote_any) X(vote_uniform) X(ballot) X(match_any) X(match_all) X(redux_add)       \
    X(redux_min) X(redux_max) X(redux_and) X(redux_or) X(redux_xor)
// clang-format on
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x)                                                                       \
    {                                                                                              \
        return expr::call(static_cast<expr::call1>(ptx_##name), x);                                \
    }
PTXGEN_FUNCTIONS_1(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name, ...)                                                                 \
    inline expr math_##name(expr x)                                                                \
    {                                                                                              \
        return expr::call(static_cast<expr::call1>(ptx_math_##name), x);                           \
    }
PTX_MATH_UNARY(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr y)                                                               \
    {                                                                                              \
        return expr::call(static_cast<expr::call2>(ptx_##name), x, y);                             \
    }
PTXGEN_FUNCTIONS_2(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name, ...)                                                                 \
    inline expr math_##name(expr x, expr y)                                                        \
    {                                                                                              \
        return expr::call(static_cast<expr::call2>(ptx_math_##name), x, y);                        \
    }
PTX_MATH_BINARY(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
// select(cond, x, y) is cond ? x : y; both are evaluated.
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr y, expr z)                                                       \
    {                                                                                              \
        return expr::call(static_cast<expr::call3>(ptx_##name), x, y, z);                          \
    }
PTXGEN_FUNCTIONS_3(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr y, expr z, expr w)                                               \
    {                                                                                              \
        return expr::call(static_cast<expr::call4>(ptx_##name), x, y, z, w);                       \
    }
PTXGEN_FUNCTIONS_4(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr mask = ptx_full_warp())                                          \
    {                                                                                              \
        return expr::call(static_cast<expr::call2>(ptx_##name), x, mask);                          \
    }
PTXGEN_FUNCTIONS_WARP(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION

/// The type of a kernel's values that holds a C++ type.
template <class T> constexpr ptx_type type_of()
{
    if constexpr (std::is_same<T, float>::value)
        return PTX_F32;
    else if constexpr (std::is_same<T, double>::value)
        return PTX_F64;
    else {
        static_assert(std::is_integral<T>::value && !std::is_same<T, bool>::value,
                      "kernels have float, double and integers");
        constexpr bool negative = std::is_signed<T>::value;
        return sizeof(T) == 1   ? (negative ? PTX_S8 : PTX_U8)
               : sizeof(T) == 2 ? (negative ? PTX_S16 : PTX_U16)
               : sizeof(T) == 4 ? (negative ? PTX_S32 : PTX_U32)
                                : (negative ? PTX_S64 : PTX_U64);
    }
}

/// ptx_cvt(): x in another type; `how` has rounding and saturation.
inline expr cast(ptx_type type, expr x, ptx_cvt_params how = {})
{
    return expr::convert(type, how, x);
}
template <class T> expr cast(expr x, ptx_cvt_params how = {})
{
    return expr::convert(type_of<T>(), how, x);
}
/// The bits of x as another type of the same width.
inline expr bitcast(ptx_type type, expr x)
{
    return expr::reinterpret(type, x);
}
template <class T> expr bitcast(expr x)
{
    return expr::reinterpret(type_of<T>(), x);
}

} // namespace ptx

#endif

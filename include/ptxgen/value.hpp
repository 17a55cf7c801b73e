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

#include <ptxgen/builder.h>

#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ptx
{

/// A line of the caller's program, for errors: a default argument of what can fail.
struct place {
    const char *file;
    int line;

    static constexpr place here(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return { file, line };
    }
};

/// The builder behind values, and the names of places, which it refers to.
class context
{
  public:
    explicit context(ptx_builder *b) : builder_(b) {}
    ptx_builder *builder() const
    {
        return builder_;
    }
    const char *name_of(place at)
    {
        std::string &name = places_[{ at.file, at.line }];
        if (name.empty())
            name = std::string(at.file) + ":" + std::to_string(at.line);
        return name.c_str();
    }

  private:
    ptx_builder *builder_;
    std::map<std::pair<const char *, int>, std::string> places_;
};

/// Calls in its scope have the place. After it, the place is again the one before it: that of the
/// call whose operand this is.
class located
{
  public:
    located(context *c, place at) : builder_(c ? c->builder() : nullptr)
    {
        if (builder_)
            ptxgen_place_begin(builder_, c->name_of(at));
    }
    ~located()
    {
        ptxgen_place_end(builder_);
    }
    located(const located &) = delete;
    located &operator=(const located &) = delete;

  private:
    ptx_builder *builder_;
};

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
    value() : ptx_val() {} ///< poison: its first use is an error
    value(context *c, ptx_val x) : ptx_val(x), context_(c) {}
    value(expr &&e);    ///< emits the expression
    value(element &&e); ///< emits the load
    /// What the variable holds now: emits a copy.
    value(const variable &x, place at = place::here());
    context *owner() const
    {
        return context_;
    }

  private:
    context *context_ = nullptr;
};

/// What is emitted where it is used; see the top of the file. An unnamed operand or argument.
class expr
{
  public:
    using call1 = ptx_val (*)(ptx_builder *, ptx_val);
    using call2 = ptx_val (*)(ptx_builder *, ptx_val, ptx_val);
    using call3 = ptx_val (*)(ptx_builder *, ptx_val, ptx_val, ptx_val);
    using of_axis = ptx_val (*)(ptx_builder *, ptx_axis);

    expr(const value &x, place at = place::here()) : expr(x.owner(), x, at, false) {}
    expr(value &&x, place at = place::here()) : expr(x.owner(), x, at, emits(x)) {}
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

    context *owner() const
    {
        return context_;
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
    static expr special(context *c, of_axis f, ptx_axis axis, place at)
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
    static expr load(context *c, const ptx_ptr &p, ptx_load_params how, expr &index)
    {
        step s(LOAD);
        s.p = p;
        s.how = how;
        expr e(s, { &index });
        e.context_ = c;
        return e;
    }

  private:
    friend class element;
    enum kind { LEAF, CALL1, CALL2, CALL3, AXIS, CONVERT, BITS, LOAD };
    struct step {
        enum kind kind;
        union {
            call1 f1;
            call2 f2;
            call3 f3;
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

    expr(context *c, ptx_val x, place at, bool emitted)
        : context_(c), at_(at), emitting_(emitted), steps_(1, step(LEAF))
    {
        steps_[0].x = x;
    }
    expr(const step &last, std::initializer_list<expr *> operands)
        : context_(nullptr), at_((*operands.begin())->at_), emitting_(0)
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

    context *context_;
    place at_;
    unsigned emitting_;
    std::vector<step> steps_; // in the order of emission: operands before what uses them
};

/// The value that the expression emits.
inline value emit(expr &&e)
{
    context *const c = e.owner();
    return value(c, e.emit());
}

/// Refuses operands or arguments of which two have emitted before.
inline void require_order(context *c, place at, unsigned emitting)
{
    if (emitting < 2 || !c)
        return;
    located here(c, at);
    (ptx_builder_fail)(c->builder(),
                       "%u operands of one expression have emitted before, in an order that C++ "
                       "leaves open; give all but one a name first: ptx::value x = ...",
                       emitting);
}

inline void expr::run(ptx_builder *b, const step &s, std::vector<ptx_val> &stack)
{
    const unsigned operands = s.kind == CALL3                    ? 3
                              : s.kind == CALL2                  ? 2
                              : s.kind == LEAF || s.kind == AXIS ? 0
                                                                 : 1;
    ptx_val x[3] = {}, result = s.x;

    for (unsigned k = operands; k-- > 0; stack.pop_back())
        x[k] = stack.back();
    if (s.kind == CALL1)
        result = s.f1(b, x[0]);
    else if (s.kind == CALL2)
        result = s.f2(b, x[0], x[1]);
    else if (s.kind == CALL3)
        result = s.f3(b, x[0], x[1], x[2]);
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

inline ptx_val expr::emit()
{
    std::vector<ptx_val> stack;

    if (steps_.size() == 1 && steps_[0].kind == LEAF)
        return steps_[0].x;
    if (!context_ || steps_.empty()) {
        ptx_val poison = {};
        for (const step &s : steps_)
            poison.reg = s.x.kind == PTX_KIND_NUMBER ? PTXGEN_NUMBERS_ALONE : poison.reg;
        return poison;
    }
    require_order(context_, at_, emitting_);
    located here(context_, at_);
    for (const step &s : steps_)
        run(context_->builder(), s, stack);
    steps_.clear(); // as after a move
    return stack.back();
}

// ---- variables ----------------------------------------------------------------------------------

/// A variable of a kernel, from builder::var(). Assignments emit.
class variable : public ptx_val
{
  public:
    variable(context *c, ptx_val x) : ptx_val(x), context_(c) {}
    variable(variable &&) = default;
    variable(const variable &) = delete; // a copy is ptx::value, another variable builder::var()
    context *owner() const
    {
        return context_;
    }

    variable &operator=(expr &&e)
    {
        const place at = e.at();
        const ptx_val x = e.emit();
        located here(context_, at);
        (ptx_set)(context_ ? context_->builder() : nullptr, *this, x);
        return *this;
    }
    variable &operator=(const variable &x)
    {
        return *this = expr(x);
    }

  private:
    context *context_;
};

inline expr::expr(const variable &x, place at) : expr(x.owner(), x, at, false) {}
inline expr::expr(variable &&x, place at) : expr(x.owner(), x, at, true) {}
inline value::value(expr &&e) : value(ptx::emit(std::move(e))) {}
inline value::value(const variable &x, place at) : ptx_val(), context_(x.owner())
{
    located here(context_, at);
    static_cast<ptx_val &>(*this) = (ptx_copy)(context_ ? context_->builder() : nullptr, x);
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

// The instructions that are functions here, by operands. The C functions have the others.
#define PTXGEN_FUNCTIONS_1(X)                                                                      \
    X(abs)                                                                                         \
    X(sqrt)                                                                                        \
    X(rcp)                                                                                         \
    X(ex2)                                                                                         \
    X(lg2) X(rint) X(trunc) X(floor) X(ceil) X(is_nan) X(is_finite) X(is_infinite) X(popc) X(clz)  \
        X(brev)
#define PTXGEN_FUNCTIONS_2(X) X(min) X(max) X(min_nan) X(max_nan) X(mul_hi) X(mul_wide) X(copysign)
#define PTXGEN_FUNCTIONS_3(X) X(fma) X(mad) X(mad_wide) X(select)
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x)                                                                       \
    {                                                                                              \
        return expr::call(static_cast<expr::call1>(ptx_##name), x);                                \
    }
PTXGEN_FUNCTIONS_1(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr y)                                                               \
    {                                                                                              \
        return expr::call(static_cast<expr::call2>(ptx_##name), x, y);                             \
    }
PTXGEN_FUNCTIONS_2(PTXGEN_FUNCTION)
#undef PTXGEN_FUNCTION
// select(cond, x, y) is cond ? x : y; both are evaluated.
#define PTXGEN_FUNCTION(name)                                                                      \
    inline expr name(expr x, expr y, expr z)                                                       \
    {                                                                                              \
        return expr::call(static_cast<expr::call3>(ptx_##name), x, y, z);                          \
    }
PTXGEN_FUNCTIONS_3(PTXGEN_FUNCTION)
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

// ---- pointers -----------------------------------------------------------------------------------

/// p[i]: a load where a value is expected, a store where it is assigned to. Used once, unnamed.
class element
{
  public:
    /// `emitted`: the pointer is that of a call within the expression.
    element(context *c, const ptx_ptr &p, expr &&i, bool emitted)
        : context_(c), p_(p), index_(std::move(i))
    {
        index_.emitting_ += emitted;
    }
    element(const element &) = delete;

    void operator=(expr &&x) &&
    {
        store(index_.emit(), x);
    }
    void operator=(element &&x) &&
    {
        std::move(*this) = expr(std::move(x));
    }
#define PTXGEN_OPERATOR(sign, function)                                                            \
    void operator sign##=(expr x) &&                                                               \
    {                                                                                              \
        update(static_cast<expr::call2>(function), x);                                             \
    }
    PTXGEN_OPERATORS(PTXGEN_OPERATOR)
#undef PTXGEN_OPERATOR
    operator ptx_val() &&
    {
        return expr(std::move(*this)).emit();
    }

  private:
    friend class expr;
    void store(ptx_val index, expr &x)
    {
        ptx_store_params how = {};
        how.x = x.emit();
        located here(context_, index_.at());
        (ptx_store_emit)(context_ ? context_->builder() : nullptr, p_, index, how);
    }
    // The index is emitted once. Not atomic.
    void update(expr::call2 f, expr &x)
    {
        const ptx_val index = index_.emit();
        expr i(index, index_.at());
        expr old = expr::load(context_, p_, ptx_load_params(), i);
        expr next = expr::call(f, old, x);
        store(index, next);
    }

    context *context_;
    ptx_ptr p_;
    expr index_;
};

inline expr::expr(element &&e) : expr(load(e.context_, e.p_, ptx_load_params(), e.index_)) {}
inline value::value(element &&e) : value(expr(std::move(e))) {}

/// A typed pointer. p[i] loads and stores; p.at(i) is p + i, and emits. C functions take it as the
/// ptx_ptr that it is.
class pointer : public ptx_ptr
{
  public:
    pointer(context *c, const ptx_ptr &p) : ptx_ptr(p), context_(c) {}

    element operator[](expr i) const &
    {
        return element(context_, *this, std::move(i), false);
    }
    element operator[](expr i) &&
    {
        return element(context_, *this, std::move(i), true);
    }
    /// p[i] with a cache hint or an ordering.
    expr load(expr i, ptx_load_params how) const
    {
        return expr::load(context_, *this, how, i);
    }
    void store(expr i, expr x, ptx_store_params how) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        how.x = x.emit();
        located here(context_, i.at());
        (ptx_store_emit)(builder(), *this, index, how);
    }
    pointer at(expr i) const
    {
        const ptx_val index = i.emit();
        located here(context_, i.at());
        return pointer(context_, (ptx_at)(builder(), *this, index));
    }
    pointer as(ptx_type other, place at = place::here()) const
    {
        located here(context_, at);
        return pointer(context_, (ptx_ptr_cast)(builder(), other, *this));
    }
    /// Atomic p[i] = f(p[i], x); the old value. Emits.
    value atomic(ptx_atomic_op op, expr i, expr x) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        ptx_atomic_params how = {};
        how.x = x.emit();
        located here(context_, i.at());
        return value(context_, (ptx_atomic_emit)(builder(), op, *this, index, how));
    }

  private:
    ptx_builder *builder() const
    {
        return context_ ? context_->builder() : nullptr;
    }
    context *context_;
};

} // namespace ptx

#endif

// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: pointers, and the elements and vectors in memory. The rules of ptxgen.hpp
/// apply.
#ifndef PTXGEN_POINTER_HPP
#define PTXGEN_POINTER_HPP

#include <ptxgen/value.hpp>

namespace ptx
{

/// p[i]: a load where a value is expected, a store where it is assigned to. Used once, unnamed.
class element
{
  public:
    /// `emitted`: the pointer is that of a call within the expression.
    element(const owner &c, const ptx_ptr &p, expr &&i, bool emitted)
        : context_(c), p_(p), index_(std::move(i).after(emitted))
    {
        require_owner(context_, "pointer", index_.at());
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
        (ptx_store_emit)(here.builder(), p_, index, how);
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

    owner context_;
    ptx_ptr p_;
    expr index_;
};

inline expr::expr(element &&e) : expr(load(e.context_, e.p_, ptx_load_params(), e.index_)) {}
inline value::value(element &&e) : value(expr(std::move(e))) {}

/// The number of a lane, with the place where it stands.
struct lane_number {
    unsigned k;
    place at;

    lane_number(unsigned number, place here = place::here()) : k(number), at(here) {}
};

/// Values of one type, as a vector load gives them. C functions take it as the ptx_vec that it is.
class vec : public ptx_vec
{
  public:
    vec() : ptx_vec() {}
    vec(owner c, const ptx_vec &x) : ptx_vec(x), context_(std::move(c)) {}
    /// Lane k; behind the last one no value.
    expr operator[](lane_number number) const
    {
        const value x(context_, number.k < lanes && number.k < 8 ? lane[number.k] : ptx_val());
        return expr(x, number.at);
    }

  private:
    owner context_;
};

/// A typed pointer. p[i] loads and stores; p.at(i) is p + i, and emits. C functions take it as the
/// ptx_ptr that it is.
class pointer : public ptx_ptr
{
  public:
    pointer() : ptx_ptr() {} ///< no pointer: its first use is an error
    pointer(owner c, const ptx_ptr &p) : ptx_ptr(p), context_(std::move(c)) {}
    pointer(const pointer &) = default; // a move is a copy
    pointer &operator=(const pointer &) = default;
    const owner &of() const
    {
        return context_;
    }

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
        require_owner(context_, "pointer", i.at());
        return expr::load(context_, *this, how, i);
    }
    void store(expr i, expr x, ptx_store_params how) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        how.x = x.emit();
        located here(context_, i.at(), "pointer");
        (ptx_store_emit)(here.builder(), *this, index, how);
    }
    pointer at(expr i) const
    {
        const ptx_val index = i.emit();
        located here(context_, i.at(), "pointer");
        return pointer(context_, (ptx_at)(here.builder(), *this, index));
    }
    pointer as(ptx_type other, place at = place::here()) const
    {
        located here(context_, at, "pointer");
        return pointer(context_, (ptx_ptr_cast)(here.builder(), other, *this));
    }
    /// p[i] to p[i + lanes - 1] in one access; see ptx_load_vec(). Emits.
    vec load_vec(expr i, unsigned lanes, ptx_load_vec_params how = {}) const
    {
        const ptx_val index = i.emit();
        how.lanes = lanes;
        located here(context_, i.at(), "pointer");
        return vec(context_, (ptx_load_vec_emit)(here.builder(), *this, index, how));
    }
    /// p.store_vec(i, { x, y }): p[i] = x, p[i + 1] = y in one access.
    void store_vec(expr i, operands x, ptx_store_vec_params how = {}) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        how.x = x.emit();
        located here(context_, i.at(), "pointer");
        (ptx_store_vec_emit)(here.builder(), *this, index, how);
    }
    void store_vec(expr i, const vec &x, ptx_store_vec_params how = {}) const
    {
        const ptx_val index = i.emit();
        how.x = x;
        located here(context_, i.at(), "pointer");
        (ptx_store_vec_emit)(here.builder(), *this, index, how);
    }
    /// Atomic p[i] = f(p[i], x); the old value. Emits. `how` has the order and the scope.
    value atomic(ptx_atomic_op op, expr i, expr x, ptx_atomic_params how = {}) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        how.x = x.emit();
        located here(context_, i.at(), "pointer");
        return value(context_, (ptx_atomic_emit)(here.builder(), op, *this, index, how));
    }
    /// Atomic p[i] = x if p[i] equals `compare`; the old value. Emits.
    value atomic_cas(expr i, expr compare, expr x) const
    {
        require_order(context_, i.at(), i.emitting() + compare.emitting() + x.emitting());
        const ptx_val index = i.emit(), expected = compare.emit(), next = x.emit();
        located here(context_, i.at(), "pointer");
        return value(context_, (ptx_atomic_cas)(here.builder(), *this, index, expected, next));
    }
    /// The same for p[i], p[i + 1] ..., as ptx_atomic_vec(): p.atomic_vec(op, i, { x, y }).
    vec atomic_vec(ptx_atomic_op op, expr i, operands x, ptx_atomic_vec_params how = {}) const
    {
        require_order(context_, i.at(), i.emitting() + x.emitting());
        const ptx_val index = i.emit();
        how.x = x.emit();
        located here(context_, i.at(), "pointer");
        return vec(context_, (ptx_atomic_vec_emit)(here.builder(), op, *this, index, how));
    }
    void prefetch(expr i, ptx_prefetch_kind kind) const
    {
        const ptx_val index = i.emit();
        located here(context_, i.at(), "pointer");
        (ptx_prefetch)(here.builder(), *this, index, kind);
    }
    /// The address, and the generic address: for functions, texts and printf().
    expr address(place at = place::here()) const &
    {
        require_owner(context_, "pointer", at);
        return expr::of(context_, (ptx_ptr_address), *this, at);
    }
    expr address(place at = place::here()) &&
    {
        require_owner(context_, "pointer", at);
        return expr::of(context_, (ptx_ptr_address), *this, at).after(true);
    }
    expr generic(place at = place::here()) const &
    {
        require_owner(context_, "pointer", at);
        return expr::of(context_, (ptx_ptr_generic), *this, at);
    }
    expr generic(place at = place::here()) &&
    {
        require_owner(context_, "pointer", at);
        return expr::of(context_, (ptx_ptr_generic), *this, at).after(true);
    }

  private:
    owner context_;
};

/// A pointer as the argument of a call, which has its place.
struct pointer_use {
    ptx_ptr p;
    place at;
    bool emitting; ///< it is that of a call within the arguments

    pointer_use(const pointer &x, place from = place::here()) : p(x), at(from), emitting(false) {}
    pointer_use(pointer &&x, place from = place::here())
        : p(x), at(from), emitting(x.type != PTX_NONE)
    {
    }
    pointer_use(const ptx_ptr &x, place from = place::here()) : p(x), at(from), emitting(false) {}
};

} // namespace ptx

#endif

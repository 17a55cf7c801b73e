// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: fragments of matrices, as of matrix.h. The rules of ptxgen.hpp apply.
///
///     ptx::fragment_variable sum = b.var(b.fragment_fill(0.0f));
///     b.for_(0, k, 16, [&](ptx::value i) {
///         ptx::fragment x = b.fragment_load(PTX_FRAGMENT_A, PTX_F16, 16, rows.at(i), stride);
///         ptx::fragment y = b.fragment_load(PTX_FRAGMENT_B, PTX_F16, 16, columns.at(i), stride);
///         sum = ptx::mma(x, y, sum);
///     });
///     sum.store(result, stride);
#ifndef PTXGEN_FRAGMENT_HPP
#define PTXGEN_FRAGMENT_HPP

#include <ptxgen/pointer.hpp>

namespace ptx
{

/// A matrix in the registers of a warp, which does not change. C functions take it as the
/// ptx_fragment that it is.
class fragment : public ptx_fragment
{
  public:
    fragment() : ptx_fragment() {} ///< no fragment: its first use is an error
    fragment(owner c, const ptx_fragment &x) : ptx_fragment(x), context_(std::move(c)) {}
    fragment(const fragment &) = default; // a move is a copy
    fragment &operator=(const fragment &) = default;
    const owner &of() const
    {
        return context_;
    }
    /// Its words, in the order of PTX's figures.
    vec fragment_words(place at = place::here()) const
    {
        located here(context_, at);
        return vec(context_, (ptx_fragment_words)(here.builder(), *this));
    }
    /// Writes C from `p` on, rows `stride` elements apart: ptx_fragment_store().
    void store(const pointer_use &p, expr stride) const
    {
        require_order(context_, p.at, p.emitting + stride.emitting());
        const ptx_val apart = stride.emit();
        located here(context_, p.at);
        (ptx_fragment_store)(here.builder(), *this, p.p, apart);
    }

  private:
    owner context_;
};

/// A fragment as the operand of a call, which has its place.
struct fragment_use {
    owner context;
    ptx_fragment x;
    place at;
    bool emitting; ///< it is that of a call within the operands

    fragment_use(const fragment &from, place here = place::here())
        : context(from.of()), x(from), at(here), emitting(false)
    {
    }
    fragment_use(fragment &&from, place here = place::here())
        : context(from.of()), x(from), at(here), emitting(from.role != 0)
    {
    }
    fragment_use(const ptx_fragment &from, place here = place::here())
        : x(from), at(here), emitting(false)
    {
    }
};

/// A fragment of variables, from builder::var(). It is used like any fragment; an assignment emits.
class fragment_variable : public fragment
{
  public:
    fragment_variable(owner c, const ptx_fragment &x) : fragment(std::move(c), x) {}
    fragment_variable(fragment_variable &&x) noexcept : fragment(x) {} // the same variables
    fragment_variable(const fragment_variable &) = delete;

    fragment_variable &operator=(const fragment_use &next)
    {
        located here(of(), next.at);
        (ptx_fragment_set)(here.builder(), *this, next.x);
        return *this;
    }
    fragment_variable &operator=(const fragment_variable &next)
    {
        return *this = fragment_use(static_cast<const fragment &>(next));
    }
};

/// x y + c as a fragment of c's type: ptx_mma(). Emits.
inline fragment mma(const fragment_use &x, const fragment_use &y, const fragment_use &c,
                    bool satfinite = false)
{
    const owner &context = x.context ? x.context : y.context ? y.context : c.context;
    ptx_mma_params how = {};

    require_order(context, x.at, 0u + x.emitting + y.emitting + c.emitting);
    how.c = c.x;
    how.satfinite = satfinite;
    located here(context, x.at);
    return fragment(context, (ptx_mma_emit)(here.builder(), x.x, y.x, how));
}

} // namespace ptx

#endif

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

#include <array>

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
        located here(context_, at, "fragment");
        return vec(context_, (ptx_fragment_words)(here.builder(), *this));
    }
    /// Writes C from `p` on, rows `stride` elements apart: ptx_fragment_store().
    void store(const pointer_use &p, expr stride) const
    {
        require_order(context_, p.at, p.emitting + stride.emitting());
        const ptx_val apart = stride.emit();
        located here(context_, p.at, "fragment");
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
    located here(context, x.at, "fragment");
    return fragment(context, (ptx_mma_emit)(here.builder(), x.x, y.x, how));
}

/// A of f16 or bf16 from a fragment of C, with k = 8, or from two neighbours, with k = 16:
/// ptx_fragment_to_a(). Emits.
inline fragment fragment_to_a(ptx_type type, const fragment &c, place at = place::here())
{
    located here(c.of(), at, "fragment");
    return fragment(c.of(), (ptx_fragment_to_a)(here.builder(), type, 8, &c));
}
inline fragment fragment_to_a(ptx_type type, const fragment &c, const fragment &next,
                              place at = place::here())
{
    const ptx_fragment both[] = { c, next };
    const owner &context = c.of() ? c.of() : next.of();

    located here(context, at, "fragment");
    return fragment(context, (ptx_fragment_to_a)(here.builder(), type, 16, both));
}

/// A matrix in memory, from builder::matrix_from(). C functions take it as the ptx_matrix
/// that it is.
class matrix : public ptx_matrix
{
  public:
    matrix() : ptx_matrix() {} ///< no matrix: its first use is an error
    matrix(owner c, const ptx_matrix &m) : ptx_matrix(m), context_(std::move(c)) {}
    matrix(const matrix &) = default; // a move is a copy
    matrix &operator=(const matrix &) = default;
    /// The matrix so many elements of memory further: ptx_matrix_at(). Emits.
    matrix at(expr i) const
    {
        const ptx_val index = i.emit();
        located here(context_, i.at(), "matrix");
        return matrix(context_, (ptx_matrix_at)(here.builder(), *this, index));
    }
    /// Fragments that follow each other, load<8>(row, column): ptx_matrix_load(). Emits.
    template <size_t count>
    std::array<fragment, count> load(unsigned row, unsigned column, place at = place::here()) const
    {
        ptx_fragment from[count];
        std::array<fragment, count> to;
        located here(context_, at, "matrix");
        (ptx_matrix_load)(here.builder(), *this, row, column, static_cast<unsigned>(count), from);
        for (size_t n = 0; n < count; n++)
            to[n] = fragment(context_, from[n]);
        return to;
    }
    fragment load(unsigned row, unsigned column, place at = place::here()) const
    {
        return load<1>(row, column, at)[0];
    }
    /// Stores fragments of C that follow each other: ptx_matrix_store(). Emits.
    template <size_t count>
    void store(unsigned row, unsigned column, const std::array<fragment, count> &from,
               place at = place::here()) const
    {
        ptx_fragment words[count];
        for (size_t n = 0; n < count; n++)
            words[n] = from[n];
        located here(context_, at, "matrix");
        (ptx_matrix_store)(here.builder(), *this, row, column, static_cast<unsigned>(count), words);
    }
    void store(unsigned row, unsigned column, const fragment &from, place at = place::here()) const
    {
        const ptx_fragment words = from;
        located here(context_, at, "matrix");
        (ptx_matrix_store)(here.builder(), *this, row, column, 1, &words);
    }

  private:
    owner context_;
};

/// Whether an argument is an array of ptx::value, variable or fragment. These are larger than what
/// C calls so, and a pointer to the first would convert to C's.
template <class T>
constexpr bool is_larger_array =
    std::is_pointer<std::decay_t<T>>::value &&
    ((std::is_base_of<ptx_val, std::remove_pointer_t<std::decay_t<T>>>::value &&
      !std::is_same<ptx_val, std::remove_cv_t<std::remove_pointer_t<std::decay_t<T>>>>::value) ||
     (std::is_base_of<ptx_fragment, std::remove_pointer_t<std::decay_t<T>>>::value &&
      !std::is_same<ptx_fragment,
                    std::remove_cv_t<std::remove_pointer_t<std::decay_t<T>>>>::value));

} // namespace ptx

#endif

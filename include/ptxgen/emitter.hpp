// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: what owns a builder of C, and calls it. The rules of ptxgen.hpp apply.
#ifndef PTXGEN_EMITTER_HPP
#define PTXGEN_EMITTER_HPP

#include <ptxgen/fragment.hpp>
#include <ptxgen/object.hpp>
#include <ptxgen/pointer.hpp>
#include <ptxgen/value.hpp>

namespace ptx
{

/// What a body returns, as it is kept after its block.
template <class Result>
using kept = std::conditional_t<std::is_same<std::decay_t<Result>, expr>::value ||
                                    std::is_same<std::decay_t<Result>, element>::value,
                                value, Result>;

/// A function of the module, from builder::func(): square(x) is b.call("square", x).
class function
{
  public:
    function() = default; ///< no function: its call is an error
    function(owner c, const char *name) : context_(std::move(c)), name_(name ? name : "") {}
    value operator()(place at = place::here()) const
    {
        return called(at, {});
    }
    template <class... Argument> value operator()(expr first, Argument &&...x) const
    {
        const place at = first.at();
        return called(at, emit_all(context_, at, std::move(first), std::forward<Argument>(x)...));
    }
    const char *name() const
    {
        return name_.c_str();
    }

  private:
    value called(place at, const std::vector<ptx_val> &x) const
    {
        if (!context_)
            refuse_empty("function");
        located here(context_, at);
        return value(context_, (ptx_call_emit)(here.builder(), name(), x.data(), x.size()));
    }
    owner context_;
    std::string name_;
};

/// The builder without the calls that emit, which are those of ptx::builder.
class emitter : public handle<ptx_builder, ptx_builder_destroy>
{
  public:
    emitter(emitter &&) = default;
    emitter &operator=(emitter &&from) noexcept
    {
        if (this != &from) {
            reset();
            handle::operator=(std::move(from));
            context_ = std::move(from.context_);
            borrowed_ = from.borrowed_;
        }
        return *this;
    }
    ~emitter()
    {
        reset();
    }
    ptx_builder *release()
    {
        if (context_)
            context_->leave();
        return handle::release();
    }
    void reset()
    {
        ptx_builder *const kept = release();
        handle owned(borrowed_ ? nullptr : kept);
    }

    /// The text, which the builder owns. Throws the builder's error; NULL without exceptions.
    const char *finish(place at = place::here())
    {
        const char *text;
        {
            located here(at_context(), at);
            text = (ptx_builder_finish)(get());
        }
        if (!text)
            fail();
        return text;
    }
    /// For the C functions and macros. Throws if the builder is empty: they take NULL in silence.
    operator ptx_builder *() const
    {
        if (empty())
            fail();
        return get();
    }
    explicit operator bool() const
    {
        return !empty();
    }
    /// The first error, or NULL.
    const char *error() const
    {
        return empty() ? "the builder is empty: it was moved from, released or reset"
                       : ptx_builder_error(get());
    }
    /// Error `k` of a builder with .all_errors; NULL past the last.
    const char *error_at(unsigned k) const
    {
        return empty() ? (k ? nullptr : error()) : ptx_builder_error_at(get(), k);
    }
    /// What a C function returned.
    value use(const ptx_val &x)
    {
        return value(context_, x);
    }
    pointer use(const ptx_ptr &p)
    {
        return pointer(context_, p);
    }
    vec use(const ptx_vec &x)
    {
        return vec(context_, x);
    }
    fragment use(const ptx_fragment &x)
    {
        return fragment(context_, x);
    }

  protected:
    emitter(ptx_builder *b, bool borrowed)
        : handle(b), context_(new context(b)), borrowed_(borrowed)
    {
    }
    // Without a builder, although one was made.
    bool empty() const
    {
        return !context_ || context_->left();
    }
    // Throws what error() says, where there are exceptions.
    void fail() const
    {
#if defined(__cpp_exceptions)
        const bool memory = !empty() && ptx_builder_out_of_memory(get());
        throw ptx::error(memory ? PTX_ERROR_OUT_OF_MEMORY : PTX_ERROR_INVALID, error());
#endif
    }
    // The body of a block. An exception leaves the block open, which is an error of its own.
    template <class Body, class... Argument>
    decltype(auto) run(const char *name, place at, Body &body, Argument &&...x)
    {
#if defined(__cpp_exceptions)
        try {
            return body(std::forward<Argument>(x)...);
        } catch (...) {
            if (!empty()) {
                located here(context_, at);
                (ptx_builder_fail)(get(), "an exception left the body of %s", name);
            }
            throw;
        }
#else
        (void)name, (void)at;
        return body(std::forward<Argument>(x)...);
#endif
    }
    // A C function, with its place.
    template <class Result, class... Parameter, class... Argument>
    Result emit_at(place at, Result (*function)(ptx_builder *, Parameter...), Argument &&...x)
    {
        located here(at_context(), at);
        return function(get(), std::forward<Argument>(x)...);
    }
    void refuse(place at, const char *what)
    {
        located here(at_context(), at);
        (ptx_builder_fail)(get(), "%s", what);
    }
    // Throws if the builder is empty. Without exceptions, then, a context without a builder.
    const owner &at_context() const
    {
        if (empty())
            fail();
        return context_;
    }

  private:
    owner context_;
    bool borrowed_;
};

} // namespace ptx

#endif

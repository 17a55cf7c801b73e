// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: lines of the caller's program, and the builder behind values. The rules of
/// ptxgen.hpp apply.
#ifndef PTXGEN_CONTEXT_HPP
#define PTXGEN_CONTEXT_HPP

#include <ptxgen/object.hpp>

#include <map>
#include <string>
#include <utility>

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

/// The builder behind values, and the names of places, which it refers to. Values share it: so one
/// that outlives its builder is an error that says so.
class context
{
  public:
    explicit context(ptx_builder *b) : builder_(b) {}
    ptx_builder *builder() const
    {
        return builder_;
    }
    /// Whether the builder was destroyed, released or reset.
    bool left() const
    {
        return left_;
    }
    void leave()
    {
        builder_ = nullptr;
        left_ = true;
    }
    [[gnu::noinline]] const char *name_of(place at)
    {
        std::string &name = places_[{ at.file, at.line }];
        if (name.empty())
            name = std::string(at.file) + ":" + std::to_string(at.line);
        return name.c_str();
    }

  private:
    friend class owner;
    ptx_builder *builder_;
    bool left_ = false;
    size_t holders_ = 0;
    std::map<std::pair<const char *, int>, std::string> places_;
};

/// A share in a context, which ends with the last. Of one thread at a time, as the builder is.
class owner
{
  public:
    owner() = default;
    owner(std::nullptr_t) {}
    explicit owner(context *c) : context_(c)
    {
        hold();
    }
    owner(const owner &x) : context_(x.context_)
    {
        hold();
    }
    owner(owner &&x) noexcept : context_(x.context_)
    {
        x.context_ = nullptr;
    }
    owner &operator=(owner x) noexcept
    {
        std::swap(context_, x.context_);
        return *this;
    }
    ~owner()
    {
        if (context_ && --context_->holders_ == 0)
            end(context_);
    }
    context *operator->() const
    {
        return context_;
    }
    explicit operator bool() const
    {
        return context_ != nullptr;
    }

  private:
    void hold()
    {
        if (context_)
            context_->holders_++;
    }
    [[gnu::noinline]] static void end(context *c) // once a builder: keeps code short
    {
        delete c;
    }
    context *context_ = nullptr;
};

[[gnu::noinline]] inline void refuse_left(place at)
{
#if defined(__cpp_exceptions)
    throw error(PTX_ERROR_INVALID,
                (std::string(at.file) + ":" + std::to_string(at.line) +
                 ": the builder of this value is gone: it was destroyed, released or reset")
                    .c_str());
#else
    (void)at;
#endif
}
/// Throws at a use of what never belonged to a builder, where there are exceptions.
[[gnu::noinline]] inline void require_owner(const owner &c, const char *kind, place at)
{
#if defined(__cpp_exceptions)
    if (!c)
        throw error(PTX_ERROR_INVALID, (std::string(at.file) + ":" + std::to_string(at.line) +
                                        ": the " + kind + " is empty: it was never set")
                                           .c_str());
#else
    (void)c, (void)kind, (void)at;
#endif
}
/// The builder of a value that is used at that place. NULL of a value that has none, whose use is
/// an error of the builder. Throws if it had one.
inline ptx_builder *builder_of(const owner &c, place at)
{
    if (c && c->left())
        refuse_left(at);
    return c ? c->builder() : nullptr;
}

/// Calls in its scope have the place. After it, the place is again the one before it: that of the
/// call whose operand this is.
class located
{
  public:
    // Not inline, as what follows of that kind: a kernel has hundreds of calls.
    [[gnu::noinline]] located(const owner &c, place at) : builder_(builder_of(c, at))
    {
        if (builder_)
            ptxgen_place_begin(builder_, c->name_of(at));
    }
    /// Of an object of that kind, whose use is an error if it is empty.
    [[gnu::noinline]] located(const owner &c, place at, const char *kind) : builder_(nullptr)
    {
        require_owner(c, kind, at);
        builder_ = builder_of(c, at);
        if (builder_)
            ptxgen_place_begin(builder_, c->name_of(at));
    }
    ~located()
    {
        ptxgen_place_end(builder_);
    }
    located(const located &) = delete;
    located &operator=(const located &) = delete;
    ptx_builder *builder() const
    {
        return builder_;
    }

  private:
    ptx_builder *builder_;
};

} // namespace ptx

#endif

// SPDX-License-Identifier: MIT
/// ptxgen for C++17 and later: objects that free themselves, errors as exceptions, values with
/// operators (value.hpp), blocks as lambdas. Header-only, over the C functions, for gcc and clang.
///
///     ptx::builder b;
///     b.entry("saxpy", { 256 }, [&] {
///         ptx::value n = b.param<uint32_t>("n"), a = b.param<float>("a");
///         ptx::pointer x = b.param_ptr<float>("x"), y = b.param_ptr<float>("y");
///         b.grid_stride(n, [&](ptx::value i) { y[i] = ptx::fma(a, x[i], y[i]); });
///     });
///     ptx::module module(gpu, b.finish());
///
/// Objects can be moved and not copied, convert to the pointer that the C functions take, and are
/// freed in reverse order of their declaration, as the C functions ask. A moved-from object is
/// empty; a call of a moved-from builder throws. Values, variables and pointers must not outlive
/// their builder. Threads may use an object as they may use the C object in it: a builder from one
/// thread at a time, say.
///
/// Errors: what fails throws ptx::error with the message of the C function; a builder keeps its
/// first error, and builder::finish() throws it. An exception that leaves a body is such an error,
/// because the block stays open. Without exceptions (-fno-exceptions) objects are
/// empty, functions return the status, finish() returns NULL, and messages are those of C. Errors
/// of a builder name the caller's file and line.
///
/// The C functions and macros take these objects: ptx_barrier(b), ptx_if (b, i < n) { ... },
/// ptx_shfl_down(b, x, 1). b.use() makes a ptx::value of their results. (Their macros with optional
/// fields need C++20.)
#ifndef PTXGEN_PTXGEN_HPP
#define PTXGEN_PTXGEN_HPP

#if __cplusplus < 201703L
#error "ptxgen.hpp is for C++17 and later: compile with -std=c++17"
#else

#include <ptxgen/ptxgen.h>
#include <ptxgen/value.hpp>

#include <cstddef>
#include <memory>
#include <stdexcept>

namespace ptx
{

// ---- errors -------------------------------------------------------------------------------------

class error : public std::runtime_error
{
  public:
    error(ptx_status status, const char *message) : std::runtime_error(message), status_(status) {}
    /// Of a builder: PTX_ERROR_INVALID, or PTX_ERROR_OUT_OF_MEMORY.
    ptx_status status() const
    {
        return status_;
    }

  private:
    ptx_status status_;
};

/// Throws, or returns the status where there are no exceptions.
inline ptx_status check(ptx_status status)
{
#if defined(__cpp_exceptions)
    if (status != PTX_OK)
        throw error(status, ptx_error_message());
#endif
    return status;
}
template <class T> T *check(T *made)
{
    if (!made)
        check(ptx_error_status());
    return made;
}

// ---- objects ------------------------------------------------------------------------------------

/// Owns an object of the C interface. Empty by default.
template <class T, void (*destroy)(T **)> class handle
{
  public:
    handle() = default;
    explicit handle(T *owned) : object_(owned) {}
    handle(handle &&from) noexcept : object_(from.release()) {}
    handle &operator=(handle &&from) noexcept
    {
        if (this != &from) {
            reset();
            object_ = from.release();
        }
        return *this;
    }
    ~handle()
    {
        reset();
    }

    T *get() const
    {
        return object_;
    }
    operator T *() const
    {
        return object_;
    }
    /// Gives the object up: the caller destroys it.
    T *release()
    {
        T *const object = object_;
        object_ = nullptr;
        return object;
    }
    void reset()
    {
        if (object_)
            destroy(&object_);
        object_ = nullptr;
    }

  private:
    T *object_ = nullptr;
};

class device : public handle<ptx_device, ptx_device_close>
{
  public:
    explicit device(const ptx_device_params &params = {}) : handle(check(ptx_device_open(&params)))
    {
    }
    ptx_status synchronize(CUstream stream = nullptr) const
    {
        return check(ptx_stream_synchronize(get(), stream));
    }
    /// The newest portable target that the device and its driver take.
    ptx_target target() const
    {
        ptx_target newest = {};
        const ptx_device_info *info = ptx_device_get_info(get());
        if (info)
            ptx_target_newest(info->sm, info->isa, &newest);
        return newest;
    }
};

/// A stream, event or block of host memory, which C destroys with its device.
template <class T, void (*destroy)(ptx_device *, T *)> class part_of_device
{
  public:
    part_of_device() = default;
    part_of_device(ptx_device *device, T owned) : device_(device), object_(owned) {}
    part_of_device(part_of_device &&from) noexcept : device_(from.device_), object_(from.object_)
    {
        from.object_ = T();
    }
    part_of_device &operator=(part_of_device &&from) noexcept
    {
        if (this != &from) {
            reset();
            device_ = from.device_;
            object_ = from.object_;
            from.object_ = T();
        }
        return *this;
    }
    ~part_of_device()
    {
        reset();
    }
    void reset()
    {
        if (object_)
            destroy(device_, &object_);
        object_ = T();
    }
    T get() const
    {
        return object_;
    }
    operator T() const
    {
        return object_;
    }

  private:
    ptx_device *device_ = nullptr;
    T object_ = T();
};

class stream : public part_of_device<CUstream, ptx_stream_destroy>
{
  public:
    stream() = default;
    explicit stream(const device &gpu)
        : part_of_device(gpu, static_cast<CUstream>(check(ptx_stream_create(gpu))))
    {
    }
};

class event : public part_of_device<CUevent, ptx_event_destroy>
{
  public:
    event() = default;
    explicit event(const device &gpu)
        : part_of_device(gpu, static_cast<CUevent>(check(ptx_event_create(gpu))))
    {
    }
};

inline void free_host_memory(ptx_device *device, void **memory)
{
    ptx_host_free(device, memory);
}

/// Pinned host memory.
class host_memory : public part_of_device<void *, free_host_memory>
{
  public:
    host_memory() = default;
    host_memory(const device &gpu, size_t bytes)
        : part_of_device(gpu, check(ptx_host_alloc(gpu, bytes)))
    {
    }
};

/// Device memory. Copies are in stream order, as those of buffer.h.
class buffer : public handle<ptx_buffer, ptx_buffer_destroy>
{
  public:
    buffer() = default;
    buffer(const device &gpu, size_t bytes) : handle(check(ptx_buffer_create(gpu, bytes))) {}

    CUdeviceptr address() const
    {
        return ptx_buffer_address(get());
    }
    size_t size() const
    {
        return ptx_buffer_size(get());
    }
    ptx_status upload(const void *from, size_t bytes, CUstream stream = nullptr, size_t offset = 0)
    {
        return check(ptx_buffer_upload(get(), offset, from, bytes, stream));
    }
    ptx_status download(void *to, size_t bytes, CUstream stream = nullptr, size_t offset = 0) const
    {
        return check(ptx_buffer_download(get(), offset, to, bytes, stream));
    }
    ptx_status fill(unsigned char byte, size_t bytes, CUstream stream = nullptr, size_t offset = 0)
    {
        return check(ptx_buffer_fill(get(), offset, byte, bytes, stream));
    }
};

class module : public handle<ptx_module, ptx_module_unload>
{
  public:
    module() = default;
    module(const device &gpu, const char *text,
           const ptx_module_params *params = nullptr) :handle(check(ptx_module_load(gpu, text,
                                                                                    params)))
    {
    }
    /// A kernel, which belongs to the module.
    ptx_function *function(const char *name) const
    {
        return check(ptx_module_function(get(), name));
    }
};

class graph : public handle<ptx_graph, ptx_graph_destroy>
{
  public:
    graph() = default;
    /// Ends the capture of the stream, as ptx_capture_end().
    graph(const device &gpu, CUstream captured) : handle(check(ptx_capture_end(gpu, captured))) {}
};

class operations : public handle<ptx_operations, ptx_operations_destroy>
{
  public:
    explicit operations(const device &gpu, const ptx_operations_params *params = nullptr)
        : handle(check(ptx_operations_create(gpu, params)))
    {
    }
};

class clip_plan : public handle<ptx_clip_plan, ptx_clip_plan_destroy>
{
  public:
    clip_plan() = default;
    clip_plan(const device &gpu, const ptx_clip_params &params)
        : handle(check(ptx_clip_plan_create(gpu, &params)))
    {
    }
};

class step_plan : public handle<ptx_step_plan, ptx_step_plan_destroy>
{
  public:
    step_plan() = default;
    step_plan(const device &gpu, const ptx_step_params &params)
        : handle(check(ptx_step_plan_create(gpu, &params)))
    {
    }
};

// ---- launches -----------------------------------------------------------------------------------

/// An argument as a launch takes it: a buffer as its address, anything else as it is.
template <class T> const T &argument(const T &x)
{
    return x;
}
inline CUdeviceptr argument(const buffer &x)
{
    return x.address();
}

/// Launches a kernel with its arguments, which are checked as by ptx_launch(). The grid, block and
/// stream are those of `params`.
template <class... Argument>
ptx_status launch(const ptx_function *function, ptx_launch_params params, const Argument &...x)
{
    const auto launched = [&](const auto &...y) {
        const ptx_arg args[] = { PTX_ARG(y)..., { nullptr, 0, PTX_ARG_UNTYPED } };
        params.args = args;
        params.arg_count = sizeof...(y);
        return ptx_launch(function, &params);
    };
    return check(launched(argument(x)...));
}

/// The launch parameters of a grid of `blocks` blocks along x, of the kernel's own shape.
inline ptx_launch_params grid(unsigned blocks, CUstream stream = nullptr)
{
    ptx_launch_params params = {};
    params.grid[0] = blocks;
    params.stream = stream;
    return params;
}

// ---- the builder --------------------------------------------------------------------------------

/// The threads of a block along x, y, z; zero: any number.
struct shape {
    uint32_t x = 0, y = 0, z = 0;
};

/// What a body returns, as it is kept after its block.
template <class Result>
using kept = std::conditional_t<std::is_same<std::decay_t<Result>, expr>::value ||
                                    std::is_same<std::decay_t<Result>, element>::value,
                                value, Result>;

class builder : public handle<ptx_builder, ptx_builder_destroy>
{
  public:
    explicit builder(const ptx_builder_params &params = {})
        : handle(ptx_builder_create(&params)), context_(new context(get()))
    {
    }
    explicit builder(ptx_target target) : builder(params_of(target)) {}

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

    // -- entries, parameters, arrays

    template <class Body>
    void entry(const char *name, shape block, Body &&body, place at = place::here())
    {
        ptx_entry_params params = {};
        params.name = name;
        params.block[0] = block.x, params.block[1] = block.y, params.block[2] = block.z;
        entry(params, std::forward<Body>(body), at);
    }
    template <class Body>
    void entry(const ptx_entry_params &params, Body &&body, place at = place::here())
    {
        const int block = call(at, ptx_entry_begin, params);
        run("entry()", at, body);
        call(at, ptx_entry_end, block);
    }
    value param(ptx_type type, const ptx_param_info &info, place at = place::here())
    {
        located here(at_context(), at);
        return use((ptx_param_emit)(get(), type, info));
    }
    template <class T> value param(const char *name, place at = place::here())
    {
        return param(type_of<T>(), info_of(name), at);
    }
    pointer param_ptr(ptx_type type, const ptx_param_info &info, place at = place::here())
    {
        located here(at_context(), at);
        return use((ptx_param_ptr_emit)(get(), type, info));
    }
    template <class T> pointer param_ptr(const char *name, place at = place::here())
    {
        return param_ptr(type_of<T>(), info_of(name), at);
    }
    pointer shared(ptx_type type, uint32_t count, place at = place::here())
    {
        located here(at_context(), at);
        return use((ptx_shared)(get(), type, count));
    }
    template <class T> pointer shared(uint32_t count, place at = place::here())
    {
        return shared(type_of<T>(), count, at);
    }
    template <class T> pointer local(uint32_t count, place at = place::here())
    {
        located here(at_context(), at);
        return use((ptx_local)(get(), type_of<T>(), count));
    }

    // -- values

    /// A variable with a first value, whose type it has: var(0.0f) is f32.
    variable var(expr first)
    {
        const ptx_val x = first.emit();
        located here(at_context(), first.at());
        return variable(at_context(), (ptx_var)(get(), x));
    }
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    variable var(T first, place at = place::here())
    {
        return var(expr(constant(first), at));
    }
    template <class T> static ptx_val constant(T x)
    {
        constexpr ptx_type type = type_of<T>();
        if constexpr (std::is_floating_point<T>::value)
            return type == PTX_F32 ? ptx_f32(x) : ptx_f64(x);
        else
            return ptx_imm_bits(type, static_cast<std::make_unsigned_t<T>>(x));
    }
    /// What a C function returned.
    value use(const ptx_val &x)
    {
        return value(context_.get(), x);
    }
    pointer use(const ptx_ptr &p)
    {
        return pointer(context_.get(), p);
    }

#define PTXGEN_INDEX(name)                                                                         \
    expr name(ptx_axis axis = PTX_X, place at = place::here())                                     \
    {                                                                                              \
        return expr::special(at_context(), (ptx_##name), axis, at);                                \
    }
    PTXGEN_INDEX(tid)
    PTXGEN_INDEX(ntid)
    PTXGEN_INDEX(ctaid)
    PTXGEN_INDEX(nctaid)
    PTXGEN_INDEX(global_index)
    PTXGEN_INDEX(global_index_wide)
#undef PTXGEN_INDEX

    // -- blocks: the body is a lambda, which gets the counter of a loop

    /// What may follow an if: b.if_(x < 0, ...).else_if(x < 9, ...).else_(...). A condition is
    /// emitted where those before it are false.
    class branch
    {
      public:
        explicit branch(builder *b) : b_(b) {}
        template <class Body> branch else_if(expr cond, Body &&body)
        {
            const place at = cond.at();
            const int block = b_->call(at, ptx_else_if_begin);
            const ptx_val tested = cond.emit();
            b_->call(at, ptx_else_if_test, tested);
            b_->run("else_if()", at, body);
            b_->call(at, ptx_else_if_end, block);
            return *this;
        }
        template <class Body> void else_(Body &&body, place at = place::here())
        {
            const int block = b_->call(at, ptx_else_begin);
            b_->run("else_()", at, body);
            b_->call(at, ptx_else_end, block);
        }

      private:
        builder *b_;
    };
    template <class Body> branch if_(expr cond, Body &&body)
    {
        const place at = cond.at();
        const ptx_val tested = cond.emit();
        const int block = call(at, ptx_if_begin, tested);
        run("if_()", at, body);
        call(at, ptx_if_end, block);
        return branch(this);
    }
    template <class Body> void for_(expr lo, expr hi, expr step, Body &&body)
    {
        counted("for_()", ptx_for_begin, ptx_for_end, { &lo, &hi, &step }, body);
    }
    /// The same values from the greatest to lo, as ptx_for_down().
    template <class Body> void for_down(expr hi, expr lo, expr step, Body &&body)
    {
        counted("for_down()", ptx_for_down_begin, ptx_for_down_end, { &hi, &lo, &step }, body);
    }
    template <class Body> void grid_stride(expr n, Body &&body)
    {
        const ptx_val limit = n.emit();
        const ptx_val i = call(n.at(), ptx_grid_stride_begin, limit);
        run("grid_stride()", n.at(), body, use(i));
        call(n.at(), ptx_grid_stride_end, i);
    }
    /// The condition is emitted at the head of the loop.
    template <class Body> void while_(expr cond, Body &&body)
    {
        const place at = cond.at();
        const int block = call(at, ptx_while_begin);
        const ptx_val tested = cond.emit();
        call(at, ptx_while_test, tested);
        run("while_()", at, body);
        call(at, ptx_while_end, block);
    }
    template <class Body> void loop(Body &&body, place at = place::here())
    {
        const int block = call(at, ptx_loop_begin);
        run("loop()", at, body);
        call(at, ptx_loop_end, block);
    }
    /// See ptx_inlined() of control.h. Returns what the body returns; an expression is emitted in
    /// the block, and is a value.
    template <class Body>
    kept<std::invoke_result_t<Body &>> inlined(const char *name, Body &&body,
                                               place at = place::here())
    {
        using result = kept<std::invoke_result_t<Body &>>;
        const int block = call(at, ptx_inlined_begin, name);
        if constexpr (std::is_void<result>::value) {
            run("inlined()", at, body);
            call(at, ptx_inlined_end, block);
        } else {
            result x = run("inlined()", at, body);
            call(at, ptx_inlined_end, block);
            return x;
        }
    }
#define PTXGEN_JUMP(name, function)                                                                \
    void name(place at = place::here())                                                            \
    {                                                                                              \
        call(at, function);                                                                        \
    }                                                                                              \
    void name##if (expr cond)                                                                      \
    {                                                                                              \
        const ptx_val tested = cond.emit();                                                        \
        call(cond.at(), function##_if, tested);                                                    \
    }
    PTXGEN_JUMP(break_, ptx_break)
    PTXGEN_JUMP(continue_, ptx_continue)
    PTXGEN_JUMP(return_, ptx_return)
#undef PTXGEN_JUMP
    void barrier(place at = place::here())
    {
        call(at, ptx_barrier);
    }

  private:
    // Without a builder, although one was made.
    bool empty() const
    {
        return !context_ || (!get() && context_->builder());
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
            located here(empty() ? nullptr : context_.get(), at);
            (ptx_builder_fail)(get(), "an exception left the body of %s", name);
            throw;
        }
#else
        (void)name, (void)at;
        return body(std::forward<Argument>(x)...);
#endif
    }
    // A C function, with its place.
    template <class Result, class... Parameter, class... Argument>
    Result call(place at, Result (*function)(ptx_builder *, Parameter...), const Argument &...x)
    {
        located here(at_context(), at);
        return function(get(), x...);
    }
    template <class Body>
    void counted(const char *name, expr::call3 begin, ptx_val (*end)(ptx_builder *, ptx_val),
                 std::initializer_list<expr *> bounds, Body &&body)
    {
        static_assert(std::is_invocable<Body &, value>::value,
                      "the body of a loop takes its number: [&](ptx::value i) { ... }");
        const place at = (*bounds.begin())->at();
        ptx_val x[3];
        unsigned n = 0, emitting = 0;

        for (expr *bound : bounds)
            emitting += bound->emitting();
        require_order(at_context(), at, emitting);
        for (expr *bound : bounds)
            x[n++] = bound->emit();
        const ptx_val i = call(at, begin, x[0], x[1], x[2]);
        run(name, at, body, use(i));
        call(at, end, i);
    }
    static ptx_builder_params params_of(ptx_target target)
    {
        ptx_builder_params params = {};
        params.target = target;
        return params;
    }
    static ptx_param_info info_of(const char *name)
    {
        ptx_param_info info = {};
        info.name = name;
        return info;
    }
    context *at_context() const
    {
        if (empty()) {
            fail();
            return nullptr;
        }
        return context_.get();
    }

    std::unique_ptr<context> context_;
};

} // namespace ptx

#endif
#endif

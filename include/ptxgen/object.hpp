// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: errors, objects of a device, plans, launches. The rules of ptxgen.hpp apply.
///
/// An empty object is one that was moved from, released, reset, or made without arguments. `if
/// (plan)` asks, get() gives NULL, and it may be assigned to. Any other use throws and names what
/// is empty; without exceptions it is C's NULL, which C functions answer by PTX_ERROR_INVALID.
#ifndef PTXGEN_OBJECT_HPP
#define PTXGEN_OBJECT_HPP

#include <ptxgen/ptxgen.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

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

/// Throws that an object is empty, where there are exceptions.
[[gnu::noinline]] inline void refuse_empty(const char *kind)
{
#if defined(__cpp_exceptions)
    throw error(PTX_ERROR_INVALID,
                (std::string("the ") + kind +
                 " is empty: it was moved from, released or reset, or never made")
                    .c_str());
#else
    (void)kind;
#endif
}

// What an object is called in errors.
#define PTXGEN_KINDS(X)                                                                            \
    X(ptx_builder *, "builder")                                                                    \
    X(ptx_device *, "device")                                                                      \
    X(CUstream, "stream")                                                                          \
    X(CUevent, "event")                                                                            \
    X(void *, "host memory")                                                                       \
    X(ptx_buffer *, "buffer")                                                                      \
    X(ptx_module *, "module")                                                                      \
    X(ptx_graph *, "graph")                                                                        \
    X(ptx_operations *, "operations object")                                                       \
    X(ptx_clip_plan *, "clip plan")                                                                \
    X(ptx_step_plan *, "step plan")                                                                \
    X(ptx_muon_plan *, "muon plan")                                                                \
    X(ptx_block_plan *, "block plan")                                                              \
    X(ptx_rule *, "rule")
#define PTXGEN_KIND(type, name)                                                                    \
    inline const char *kind_of(type)                                                               \
    {                                                                                              \
        return name;                                                                               \
    }
PTXGEN_KINDS(PTXGEN_KIND)
#undef PTXGEN_KIND
#undef PTXGEN_KINDS

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
    explicit operator bool() const
    {
        return object_ != nullptr;
    }
    /// For the C functions. Throws if the object is empty.
    operator T *() const
    {
        return need();
    }
    T *need() const
    {
        if (!object_)
            refuse_empty(kind_of(object_));
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
        return check(ptx_stream_synchronize(need(), stream));
    }
    /// Copies device memory at any address to the host: ptx_address_download().
    ptx_status download(CUdeviceptr from, void *to, size_t bytes, CUstream stream = nullptr) const
    {
        return check(ptx_address_download(need(), from, to, bytes, stream));
    }
    /// The device's own; NULL only without exceptions, of an empty device.
    const ptx_device_info *info() const
    {
        return ptx_device_get_info(need());
    }
    /// The newest portable target that the device and its driver take.
    ptx_target target() const
    {
        ptx_target newest = {};
        const ptx_device_info *const known = info();
        if (known)
            ptx_target_newest(known->sm, known->isa, &newest);
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
    explicit operator bool() const
    {
        return object_ != T();
    }
    /// Throws if the object is empty: an empty stream is not the default stream.
    operator T() const
    {
        return need();
    }
    T need() const
    {
        if (object_ == T())
            refuse_empty(kind_of(object_));
        return object_;
    }

  protected:
    ptx_device *owner() const
    {
        return object_ == T() ? nullptr : device_;
    }

  private:
    ptx_device *device_ = nullptr;
    T object_ = T();
};

class event : public part_of_device<CUevent, ptx_event_destroy>
{
  public:
    event() = default;
    explicit event(const device &gpu)
        : part_of_device(gpu, static_cast<CUevent>(check(ptx_event_create(gpu))))
    {
    }
    ptx_status record(CUstream stream = nullptr)
    {
        const CUevent recorded = need();
        return check(ptx_event_record(owner(), recorded, stream));
    }
    ptx_status synchronize() const
    {
        const CUevent recorded = need();
        return check(ptx_event_synchronize(owner(), recorded));
    }
    /// Milliseconds from `start` to this event; both are done.
    float since(const event &start) const
    {
        float milliseconds = 0;
        const CUevent from = start.need(), to = need();
        check(ptx_event_elapsed(owner(), from, to, &milliseconds));
        return milliseconds;
    }
};

class stream : public part_of_device<CUstream, ptx_stream_destroy>
{
  public:
    stream() = default;
    explicit stream(const device &gpu)
        : part_of_device(gpu, static_cast<CUstream>(check(ptx_stream_create(gpu))))
    {
    }
    ptx_status synchronize() const
    {
        const CUstream waited = need();
        return check(ptx_stream_synchronize(owner(), waited));
    }
    /// Later work waits for the event.
    ptx_status wait(const event &recorded)
    {
        const CUevent first = recorded.need();
        const CUstream waits = need();
        return check(ptx_stream_wait_event(owner(), waits, first));
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

    /// 0 of an empty buffer.
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
        return check(ptx_buffer_upload(need(), offset, from, bytes, stream));
    }
    ptx_status download(void *to, size_t bytes, CUstream stream = nullptr, size_t offset = 0) const
    {
        return check(ptx_buffer_download(need(), offset, to, bytes, stream));
    }
    /// Copies from another buffer of the device.
    ptx_status copy(const buffer &from, size_t bytes, CUstream stream = nullptr, size_t offset = 0,
                    size_t from_offset = 0)
    {
        return check(ptx_buffer_copy(need(), offset, from.need(), from_offset, bytes, stream));
    }
    ptx_status fill(unsigned char byte, size_t bytes, CUstream stream = nullptr, size_t offset = 0)
    {
        return check(ptx_buffer_fill(need(), offset, byte, bytes, stream));
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
        return check(ptx_module_function(need(), name));
    }
    /// The address of an array of builder::global() or builder::const_(); its bytes, if asked.
    CUdeviceptr global(const char *name, size_t *bytes = nullptr) const
    {
        CUdeviceptr address = 0;
        check(ptx_module_global(need(), name, &address, bytes));
        return address;
    }
    /// What the compiler said.
    const char *log() const
    {
        return ptx_module_log(need());
    }
};

class graph : public handle<ptx_graph, ptx_graph_destroy>
{
  public:
    graph() = default;
    /// Ends the capture of the stream, as ptx_capture_end().
    graph(const device &gpu, CUstream captured) : handle(check(ptx_capture_end(gpu, captured))) {}
    ptx_status launch(CUstream stream = nullptr) const
    {
        return check(ptx_graph_launch(need(), stream));
    }
};

/// The graph of what the body puts on the stream. An exception of the body ends the capture.
template <class Body>
graph capture(const device &gpu, CUstream stream, Body &&body,
              ptx_capture_mode mode = PTX_CAPTURE_THREAD_LOCAL)
{
    if (check(ptx_capture_begin(gpu, stream, mode)) != PTX_OK)
        return graph();
#if defined(__cpp_exceptions)
    try {
        body();
    } catch (...) {
        ptx_capture_abandon(gpu, stream);
        throw;
    }
#else
    body();
#endif
    return graph(gpu, stream);
}

class operations : public handle<ptx_operations, ptx_operations_destroy>
{
  public:
    operations() = default;
    explicit operations(const device &gpu, const ptx_operations_params *params = nullptr)
        : handle(check(ptx_operations_create(gpu, params)))
    {
    }
};

class operation_call : public handle<ptx_operation_call, ptx_operation_call_destroy>
{
  public:
    operation_call() = default;
    operation_call(ptx_operations *operations, ptx_operation operation, const void *params)
        : handle(check(ptx_operation_call_create(operations, operation, params)))
    {
    }
    ptx_status run(const CUdeviceptr *addresses, size_t count, CUstream stream = nullptr) const
    {
        return check(ptx_operation_call_run(need(), addresses, count, stream));
    }
};

// ---- plans: the calls of clip.h, step.h, muon.h, blocks.h, which take the plan ------------------

#define PTXGEN_PHASE(kind, name)                                                                   \
    ptx_status name(CUstream stream = nullptr)                                                     \
    {                                                                                              \
        return check(ptx_##kind##_plan_##name(need(), stream));                                    \
    }
// What clip and step plans have alike.
#define PTXGEN_NORMS(kind)                                                                         \
    PTXGEN_PHASE(kind, run)                                                                        \
    PTXGEN_PHASE(kind, norm_sq)                                                                    \
    PTXGEN_PHASE(kind, finish)                                                                     \
    const ptx_##kind##_plan_info *info() const                                                     \
    {                                                                                              \
        return ptx_##kind##_plan_get_info(need());                                                 \
    }                                                                                              \
    ptx_status read(uint32_t first, uint32_t count, ptx_clip_record *records,                      \
                    ptx_clip_summary *summary, CUstream stream = nullptr) const                    \
    {                                                                                              \
        return check(ptx_##kind##_plan_read(need(), first, count, records, summary, stream));      \
    }                                                                                              \
    ptx_status error_if_nonfinite(const char *const *names = nullptr, CUstream stream = nullptr)   \
    {                                                                                              \
        return check(ptx_##kind##_plan_error_if_nonfinite(need(), names, stream));                 \
    }                                                                                              \
    ptx_status set_max_norm(uint32_t group, float max_norm, CUstream stream = nullptr)             \
    {                                                                                              \
        return check(ptx_##kind##_plan_set_max_norm(need(), group, max_norm, stream));             \
    }                                                                                              \
    ptx_status set_loss_scale(ptx_loss_scale_state state, CUstream stream = nullptr)               \
    {                                                                                              \
        return check(ptx_##kind##_plan_set_loss_scale(need(), state, stream));                     \
    }

class clip_plan : public handle<ptx_clip_plan, ptx_clip_plan_destroy>
{
  public:
    clip_plan() = default;
    clip_plan(const device &gpu, const ptx_clip_params &params)
        : handle(check(ptx_clip_plan_create(gpu, &params)))
    {
    }
    PTXGEN_NORMS(clip)
    PTXGEN_PHASE(clip, apply)
    ptx_status set_data(size_t first, size_t count, const CUdeviceptr *data,
                        CUstream stream = nullptr)
    {
        return check(ptx_clip_plan_set_data(need(), first, count, data, stream));
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
    PTXGEN_NORMS(step)
    PTXGEN_PHASE(step, reduce)
    PTXGEN_PHASE(step, step)
    PTXGEN_PHASE(step, accumulate)
    PTXGEN_PHASE(step, cast)
    PTXGEN_PHASE(step, weights_changed)
    ptx_status set_hyper(uint32_t group, const ptx_step_hyper &hyper, CUstream stream = nullptr)
    {
        return check(ptx_step_plan_set_hyper(need(), group, &hyper, stream));
    }
    ptx_status set_addresses(size_t first, size_t count, const ptx_step_tensor *tensors,
                             CUstream stream = nullptr)
    {
        return check(ptx_step_plan_set_addresses(need(), first, count, tensors, stream));
    }
    ptx_status set_gradients(size_t first, size_t count, const CUdeviceptr *gradients,
                             CUstream stream = nullptr)
    {
        return check(ptx_step_plan_set_gradients(need(), first, count, gradients, stream));
    }
};

class muon_plan : public handle<ptx_muon_plan, ptx_muon_plan_destroy>
{
  public:
    muon_plan() = default;
    muon_plan(const device &gpu, const ptx_muon_plan_params &params)
        : handle(check(ptx_muon_plan_create(gpu, &params)))
    {
    }
    PTXGEN_PHASE(muon, run)
};
#undef PTXGEN_NORMS
#undef PTXGEN_PHASE

class block_plan : public handle<ptx_block_plan, ptx_block_plan_destroy>
{
  public:
    block_plan() = default;
    block_plan(const device &gpu, const ptx_block_params &params, CUstream stream = nullptr)
        : handle(check(ptx_block_plan_create(gpu, &params, stream)))
    {
    }
    ptx_status run(const ptx_block_tensor *tensors, size_t count, CUstream stream = nullptr,
                   const ptx_block_random *random = nullptr)
    {
        return check(ptx_block_plan_run(need(), tensors, count, random, stream));
    }
};

/// A rule of rule.h, which outlives the plans that have it. Its functions are those of C.
class rule : public handle<ptx_rule, ptx_rule_destroy>
{
  public:
    rule() = default;
    explicit rule(const ptx_rule_params &params) : handle(check(ptx_rule_create(&params))) {}
    const ptx_rule_info *info() const
    {
        return ptx_rule_get_info(need());
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
template <class T> ptx_arg argument_of(const T &, const T &x)
{
    return PTX_ARG(x);
}
inline ptx_arg argument_of(const buffer &memory, const CUdeviceptr &address)
{
    ptx_arg made = PTX_ARG(address);
    if (!memory)
        made.value = nullptr; // an error that names the argument
    return made;
}

/// Launches a kernel with its arguments, which are checked as by ptx_launch(). The grid, block and
/// stream are those of `params`. An empty buffer is an error: CUdeviceptr(0) is the null pointer.
template <class... Argument>
ptx_status launch(const ptx_function *function, ptx_launch_params params, const Argument &...x)
{
    const auto launched = [&](const auto &...y) {
        const ptx_arg args[] = { argument_of(x, y)..., { nullptr, 0, PTX_ARG_UNTYPED } };
        params.args = args;
        params.arg_count = sizeof...(y);
        return ptx_launch(function, &params);
    };
    return check(launched(argument(x)...));
}

/// The launch parameters of a grid of `blocks` blocks along x, of the kernel's own shape.
inline ptx_launch_params grid(unsigned blocks, CUstream stream = nullptr, size_t shared_bytes = 0)
{
    ptx_launch_params params = {};
    params.grid[0] = blocks;
    params.stream = stream;
    params.shared_bytes = shared_bytes;
    return params;
}

} // namespace ptx

#endif

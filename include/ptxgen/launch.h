// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: kernels and their launches.
#ifndef PTXGEN_LAUNCH_H
#define PTXGEN_LAUNCH_H

#include <ptxgen/module.h>

PTXGEN_BEGIN

/// One parameter of a kernel, as its text declares it.
struct ptx_function_param {
    const char *name;
    char type[12]; ///< "u32", "f32", "b8" ...
    size_t size;   ///< bytes that the argument must have; of the whole array, for one
    size_t offset; ///< bytes from the start of the parameter space
};

/// What a kernel is and needs. All sizes are in bytes.
struct ptx_function_info {
    const char *name;
    const struct ptx_function_param *params;
    size_t param_count;
    int required_block[3];     ///< .reqntid; 0, 0, 0 where the text has none
    int max_threads_per_block; ///< that this kernel can run with
    int registers;             ///< per thread
    int static_shared;         ///< per block
    int max_dynamic_shared;    ///< that a launch may ask for
    int local;                 ///< per thread: spills and local arrays
    int binary_version;        ///< of the machine code: 90 is sm_90
};

/// The kernel's particulars, owned by the module. Makes no driver call. NULL for NULL.
PTXGEN_API const struct ptx_function_info *ptx_function_get_info(const ptx_function *function);

/// How many blocks of `threads` threads and `shared_bytes` of dynamic shared memory are resident
/// on one SM at a time; times `multiprocessors`, the largest grid of a cooperative launch.
/// Errors: INVALID, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_function_occupancy(const ptx_function *function, int threads,
                                             size_t shared_bytes, int *blocks_per_sm);

/// What is known of an argument's C type.
enum ptx_arg_type {
    PTX_ARG_UNTYPED = 0, ///< nothing, or a struct, union or array: checked by its size alone
    PTX_ARG_INTEGER,     ///< a CUdeviceptr and a bool among them, and in C an enumeration
    PTX_ARG_FLOAT,
    PTX_ARG_POINTER, ///< to the host's memory, which no kernel takes
};

/// One argument of a launch: the address and the size of a value of exactly the parameter's type.
/// PTX_ARG() fills it in from a variable. Filled in by hand, with the type left 0, it is checked by
/// its size alone.
struct ptx_arg {
    const void *value;
    size_t size; ///< bytes
    enum ptx_arg_type type;
};

/// An argument from a variable: PTX_ARG(n). A launch refuses one whose size is not the parameter's,
/// an `int` for a .u64 say, and one of the wrong kind: .f32 and .f64 take a `float` and a `double`
/// alone, .u and .s any integer of the size, other types anything of the size. A buffer goes in as
/// its CUdeviceptr: a pointer is refused.
#define PTX_ARG(variable)                                                                          \
    {                                                                                              \
        &(variable), sizeof(variable), PTX_ARG_TYPE(variable)                                      \
    }

// X(C type, what it counts as)
#define PTX_ARG_TYPES(X)                                                                           \
    X(float, PTX_ARG_FLOAT)                                                                        \
    X(double, PTX_ARG_FLOAT)                                                                       \
    X(bool, PTX_ARG_INTEGER)                                                                       \
    X(char, PTX_ARG_INTEGER)                                                                       \
    X(signed char, PTX_ARG_INTEGER)                                                                \
    X(unsigned char, PTX_ARG_INTEGER)                                                              \
    X(short, PTX_ARG_INTEGER)                                                                      \
    X(unsigned short, PTX_ARG_INTEGER)                                                             \
    X(int, PTX_ARG_INTEGER)                                                                        \
    X(unsigned, PTX_ARG_INTEGER)                                                                   \
    X(long, PTX_ARG_INTEGER)                                                                       \
    X(unsigned long, PTX_ARG_INTEGER)                                                              \
    X(long long, PTX_ARG_INTEGER)                                                                  \
    X(unsigned long long, PTX_ARG_INTEGER)

#ifdef __cplusplus
#define PTX_ARG_TYPE(variable) ptx_arg_type_of(&(variable))
#else
#define PTX_ARG_CHOICE(c_type, arg_type)                                                           \
    c_type:                                                                                        \
    arg_type,
#define PTX_ARG_TYPE(variable)                                                                     \
    _Generic((variable), PTX_ARG_TYPES(PTX_ARG_CHOICE) default : PTX_ARG_OTHER_TYPE(variable))
#endif

// A pointer, not an array that would become one: that has another type then.
#ifdef __GNUC__
enum { PTX_ARG_POINTER_CLASS = 5 }; // of __builtin_classify_type()
#define PTX_ARG_OTHER_TYPE(variable)                                                               \
    (__builtin_classify_type(variable) == PTX_ARG_POINTER_CLASS &&                                 \
             __builtin_types_compatible_p(__typeof__(variable), __typeof__((void)0, (variable)))   \
         ? PTX_ARG_POINTER                                                                         \
         : PTX_ARG_UNTYPED)
#else
#define PTX_ARG_OTHER_TYPE(variable) PTX_ARG_UNTYPED
#endif

/// One launch. Dimensions that are 0 are 1, but see `grid` and `block`.
struct ptx_launch_params {
    /// Blocks in x, y, z. 0 in x: nothing to do; the call is checked and returns PTX_OK.
    unsigned grid[3];
    /// Threads of a block in x, y, z. All 0: what the kernel's .reqntid says.
    unsigned block[3];
    /// Dynamic shared memory of a block.
    size_t shared_bytes;
    /// Where it runs; may be under capture.
    CUstream stream;
    /// The kernel's arguments, in order. Read before the call returns.
    const struct ptx_arg *args;
    size_t arg_count;
    /// All blocks resident at once, so that they may wait for each other. Driver 520 and newer.
    bool cooperative;
    /// Blocks of a cluster in x, y, z; all 0: no cluster. sm_90, driver 520 and newer.
    unsigned cluster[3];
    /// May start before the kernel ahead of it on the stream has ended; the kernel then says
    /// griddepcontrol.wait. sm_90, driver 520 and newer; elsewhere it starts after it as usual.
    bool programmatic;
};

/// Puts a launch on the stream and returns at once. Arguments are held against the kernel's
/// parameter list, the geometry against the limits of device and kernel, before the driver is
/// asked. Safe on a stream under capture. Faults of the kernel itself (a bad address, say) show
/// in a later call: ptx_stream_synchronize().
/// Errors: INVALID (the message names the field), UNSUPPORTED, CAPTURE (the legacy default stream,
/// while a blocking stream of the context is being captured), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_launch(const ptx_function *function,
                                 const struct ptx_launch_params *params);

PTXGEN_END

#ifdef __cplusplus
extern "C++" {
constexpr enum ptx_arg_type ptx_arg_type_of(const void *)
{
    return PTX_ARG_UNTYPED;
}
#define PTX_ARG_OVERLOAD(c_type, arg_type)                                                         \
    constexpr enum ptx_arg_type ptx_arg_type_of(const c_type *)                                    \
    {                                                                                              \
        return arg_type;                                                                           \
    }
PTX_ARG_TYPES(PTX_ARG_OVERLOAD)
#undef PTX_ARG_OVERLOAD
template <typename T> constexpr enum ptx_arg_type ptx_arg_type_of(T *const *)
{
    return PTX_ARG_POINTER;
}
}
#endif

#endif

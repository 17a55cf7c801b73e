// SPDX-License-Identifier: MIT
/// Part of driver.h: kernels and their launches. The rules of driver.h apply.
#ifndef PTXGEN_LAUNCH_H
#define PTXGEN_LAUNCH_H

#include <ptxgen/module.h>

PTXGEN_BEGIN

/// One parameter of a kernel, as the text declares it.
struct ptx_function_param {
    const char *name;
    char type[12]; ///< "u32", "f32", "b8" ...
    size_t size;   ///< bytes of the argument; for an array, of the whole array
    size_t offset; ///< bytes from the start of the parameter space
};

/// Properties of a kernel. All sizes are in bytes.
struct ptx_function_info {
    const char *name;
    const struct ptx_function_param *params;
    size_t param_count;
    int required_block[3];     ///< .reqntid; 0, 0, 0 if the text has none
    int max_threads_per_block; ///< maximum for this kernel
    int registers;             ///< per thread
    int static_shared;         ///< per block
    int max_dynamic_shared;    ///< maximum that a launch may request
    int local;                 ///< per thread: spills and local arrays
    int binary_version;        ///< of the machine code: 90 for sm_90
};

/// The properties of the kernel, owned by the module. Makes no driver call. Returns NULL for NULL.
PTXGEN_API const struct ptx_function_info *ptx_function_get_info(const ptx_function *function);

/// The number of blocks resident on one SM at a time, with `threads` threads and `shared_bytes`
/// bytes of dynamic shared memory each. Times `multiprocessors`, this is the largest grid of a
/// cooperative launch. Errors: INVALID, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_function_occupancy(const ptx_function *function, int threads,
                                             size_t shared_bytes, int *blocks_per_sm);

/// What PTX_ARG() knows about an argument's C type.
enum ptx_arg_type {
    PTX_ARG_UNTYPED = 0, ///< nothing, or a struct, union or array: only the size is checked
    PTX_ARG_INTEGER,     ///< includes CUdeviceptr, bool and, in C, enumerations
    PTX_ARG_FLOAT,
    PTX_ARG_POINTER, ///< to host memory, which no kernel takes
};

/// One argument of a launch: address and size of a value that has exactly the parameter's type.
/// PTX_ARG() fills it in from a variable. If `type` is 0, only the size is checked.
struct ptx_arg {
    const void *value;
    size_t size; ///< bytes
    enum ptx_arg_type type;
};

/// An argument that points to a variable, which must live until the launch has been made:
/// PTX_ARG(n). A launch refuses an argument of the wrong size (an
/// `int` for a .u64, say) or kind: .f32 takes a `float` and .f64 a `double`, .u and .s take any
/// integer of the size, other types take anything of the size. Pass a buffer as its CUdeviceptr: a
/// pointer is refused.
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

// True for pointers, false for arrays: an array decays in (void)0, (variable) and then has another
// type.
#ifdef __GNUC__
enum { PTX_ARG_POINTER_CLASS = 5 }; // the value of __builtin_classify_type()
#define PTX_ARG_OTHER_TYPE(variable)                                                               \
    (__builtin_classify_type(variable) == PTX_ARG_POINTER_CLASS &&                                 \
             __builtin_types_compatible_p(__typeof__(variable), __typeof__((void)0, (variable)))   \
         ? PTX_ARG_POINTER                                                                         \
         : PTX_ARG_UNTYPED)
#else
#define PTX_ARG_OTHER_TYPE(variable) PTX_ARG_UNTYPED
#endif

/// One launch. Dimensions of 0 count as 1, except as `grid` and `block` say.
struct ptx_launch_params {
    /// Blocks in x, y, z. 0 in x: no launch; the call is checked and returns PTX_OK.
    unsigned grid[3];
    /// Threads of a block in x, y, z. All 0: the shape in the kernel's .reqntid.
    unsigned block[3];
    /// Dynamic shared memory of a block, in bytes.
    size_t shared_bytes;
    /// The stream; it may be under capture.
    CUstream stream;
    /// The kernel's arguments, in order. The call reads them before it returns.
    const struct ptx_arg *args;
    size_t arg_count;
    /// All blocks are resident at once, so that they may wait for each other. Driver 520 and newer.
    bool cooperative;
    /// Blocks of a cluster in x, y, z; all 0: no cluster. sm_90, driver 520 and newer.
    unsigned cluster[3];
    /// The kernel may start before the preceding kernel on the stream has ended, and executes
    /// griddepcontrol.wait itself. sm_90, driver 520 and newer; elsewhere a normal launch.
    bool programmatic;
};

/// Puts a launch on the stream and returns at once. The arguments are checked against the kernel's
/// parameter list, and the geometry against the limits of device and kernel, before the driver is
/// called. Safe on a stream under capture. Faults inside the kernel (a bad address, say) are
/// reported by a later call, such as ptx_stream_synchronize(). Errors: INVALID (the message names
/// the field), UNSUPPORTED, CAPTURE (the legacy default stream, while a blocking stream of the
/// context is being captured), DRIVER, FORKED.
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

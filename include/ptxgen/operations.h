// SPDX-License-Identifier: MIT
/// Layer 4: runs a kernel in one call, with checked arguments.
///
///     ptx_operations *ops = ptx_operations_create(gpu, NULL);
///     ptx_quantize_backward(ops, &(struct ptx_quantize_backward_params){
///         .dtype = PTX_BF16, .count = n, .x = x, .d_output = dy, .d_input = dy, .scale = 0.05 },
///         stream);
///
/// A call checks its arguments on the host, selects the kernel's variant, puts one launch on the
/// stream and returns; it never waits. On an error nothing is launched and nothing is written, and
/// the message names the argument. Every call checks that addresses are not 0 and are multiples of
/// the element size; that the driver knows the memory at them, that it belongs to this GPU and is
/// large enough for `count` elements; and that written memory overlaps nothing else, except where
/// documented.
///
/// A kernel is compiled once, on first use, by whichever thread is first. Compilation is refused
/// with CAPTURE while the stream is being captured, and the capture continues undisturbed; the
/// _prepare functions compile without launching. Launching a compiled kernel does not allocate,
/// lock or search. As everywhere (driver.h), a call on the legacy default stream is refused with
/// CAPTURE while a blocking stream of the context is being captured.
///
/// Every operation of PTX_OPERATIONS has the same names: struct ptx_fp8_cast_params,
/// ptx_fp8_cast(), ptx_fp8_cast_prepare() and ptx_fp8_cast_describe(). docs/kernels.md gives the
/// formulas, docs/operations.md the rest.
#ifndef PTXGEN_OPERATIONS_H
#define PTXGEN_OPERATIONS_H

#include <ptxgen/driver.h>
#include <ptxgen/records.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The compiled kernels of one device. Keeps the device alive. Any number of threads may use it at
/// once.
typedef struct ptx_operations ptx_operations;

struct ptx_operations_params {
    /// How modules are loaded; its `stream` is not used. Copied. NULL: the defaults.
    const struct ptx_module_params *module;
    /// Do not check addresses with the driver. For memory that the GPU can access but the driver
    /// does not know, and to save the time of the check (less than a microsecond an address).
    bool any_address;
};

/// Creates the object; compiles nothing yet. `params` may be NULL. Errors (NULL): OUT_OF_MEMORY,
/// FORKED, INVALID.
PTXGEN_API ptx_operations *ptx_operations_create(ptx_device *device,
                                                 const struct ptx_operations_params *params);
/// Unloads the kernels and sets *operations to NULL. Work that uses them must be done, and graphs
/// that contain their launches must not be launched afterwards.
PTXGEN_API void ptx_operations_destroy(ptx_operations **operations);

/// What a call would do.
struct ptx_operation_description {
    char entry[64]; ///< the kernel's entry, "quantize_ste_backward_bf16"; "" if nothing is launched
    int launches;   ///< 1, or what the call says; 0 if there are 0 elements
    uint64_t bytes; ///< read and written
    uint64_t workspace;      ///< bytes of device memory that the call needs besides its tensors
    const char *accumulator; ///< type of the sums, or "none"
    const char *determinism; ///< what is guaranteed, as a sentence
};

// clang-format off

/// X(name, what it computes): the operations.
#define PTX_OPERATIONS(X) \
    X(quantize_backward, "the gradient of a quantizer") \
    X(fake_quantize, "quantizes and scales back") \
    X(fake_quantize_groups, "the same in groups, with each group's own scale and zero point") \
    X(quantize_learned_backward, "the gradients of a quantizer's input, scale and zero point") \
    X(observer_update, "moving averages of a tensor's range, and the quantizer for it") \
    X(lerp_backward, "the gradients of a linear interpolation") \
    X(fp8_cast, "a scaled conversion to floats of 8 bits, and the greatest magnitude") \
    X(delayed_scale_update, "the scales of many tensors from histories of their magnitudes") \
    X(loss_scale_update, "a loss scale after a step")

// clang-format on

/// The operations as numbers.
typedef enum ptx_operation {
#define PTX_DECLARE(name, ...) PTX_OPERATION_##name,
    PTX_OPERATIONS(PTX_DECLARE)
#undef PTX_DECLARE
        PTX_OPERATION_COUNT
} ptx_operation;

/// Runs an operation; `params` points to its struct. In C and C++ ptx_fp8_cast() and the like have
/// the type of the struct. Errors: INVALID, CAPTURE (see above), JIT, DRIVER, UNSUPPORTED, FORKED,
/// OUT_OF_MEMORY.
PTXGEN_API ptx_status ptx_operation_run(ptx_operations *operations, ptx_operation operation,
                                        const void *params, CUstream stream);
/// Compiles the kernels that a call with these parameters needs, and launches nothing, so that the
/// call can be captured. Errors: those of ptx_operation_run(); CAPTURE if a blocking stream of the
/// context is being captured.
PTXGEN_API ptx_status ptx_operation_prepare(ptx_operations *operations, ptx_operation operation,
                                            const void *params);
/// Reports what a call would do. Needs no GPU; of the addresses it only checks which ones are 0.
/// Errors: INVALID.
PTXGEN_API ptx_status ptx_operation_describe(ptx_operation operation, const void *params,
                                             struct ptx_operation_description *description);

/// A call that is made often, with other addresses each time: it is checked once, and a run takes
/// less of the host's time than ptx_operation_run(). Any number of threads may run it at once.
typedef struct ptx_operation_call ptx_operation_call;

/// Checks the parameters of a call, which are copied. Launches and compiles nothing; of the
/// addresses it only checks which ones are 0. Destroy it before the operations. Errors (NULL):
/// INVALID, OUT_OF_MEMORY.
PTXGEN_API ptx_operation_call *
ptx_operation_call_create(ptx_operations *operations, ptx_operation operation, const void *params);
/// No thread may run it any more. NULL and a call that is NULL are left; the pointer becomes NULL.
PTXGEN_API void ptx_operation_call_destroy(ptx_operation_call **call);
/// Runs it with `count` addresses: of the arrays that the call has, in the order of its struct,
/// without those that have no elements and without optional ones that were 0 at its creation. They
/// must not be 0, and must be multiples of the element size. Whether the driver knows the memory,
/// and whether it overlaps, is checked only where the call is not as before: a kernel is to be
/// compiled, or another variant suits the alignment of `x`. Errors: those of ptx_operation_run();
/// INVALID also for another `count`.
PTXGEN_API ptx_status ptx_operation_call_run(const ptx_operation_call *call,
                                             const CUdeviceptr *addresses, size_t count,
                                             CUstream stream);

// --------------------------------------------------------------------------------------- quantize

/// The gradient of a quantizer with a straight-through estimator:
///
///     d_input = q_min <= rint(x / scale) + zero_point <= q_max  ?  d_output / scale  :  +0
///
/// The scale and zero point are those of the whole tensor (by value or at an address) or of each
/// channel. NaN and infinite x count as out of range. To prepare a call, of count, inner and the
/// addresses it matters only whether they are 0.
struct ptx_quantize_backward_params {
    ptx_type dtype;       ///< of the three tensors: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;       ///< elements of each; 0: no work
    CUdeviceptr x;        ///< input of the quantizer
    CUdeviceptr d_output; ///< gradient of the quantizer's output
    CUdeviceptr d_input;  ///< gradient of x, written; may be d_output

    double scale;       ///< finite, > 0; rounded to f32 unless the tensors are f64
    int32_t zero_point; ///< q_min to q_max

    /// In place of `scale` and `zero_point`, both of which are left 0 then (or the call is
    /// INVALID): the addresses of the scales (f32; f64 for f64 tensors) and of the zero points
    /// (s32). Each array has one element, or one for each channel. Their values are not checked: a
    /// NaN or zero scale makes its elements +0; other values go into the formula unchanged.
    CUdeviceptr scales;
    CUdeviceptr zero_points;
    /// Number of channels along one axis of the tensor, with `scales`; 0: one scale for the tensor.
    uint64_t channels;
    /// With channels: the number of adjacent elements of one channel, that is, the product of the
    /// dimensions after the axis; 1 for the last axis. 0 means 1. `count` must be a multiple of
    /// channels * inner.
    uint64_t inner;

    int32_t q_min; ///< range of quantized values, q_min <= q_max; both 0 (one level): -128 and 127
    int32_t q_max;
    /// Multiply by the rounded 1 / scale instead of dividing, as PyTorch's fake quantization does.
    /// Must match the forward pass.
    bool reciprocal;
    /// In range, d_input is d_output itself: the gradient of quantizing and dequantizing.
    bool fake_quantize;
};

// --------------------------------------------------------------------------------- fake quantize

/// Quantizes and scales back, the forward pass whose gradient ptx_quantize_backward() computes with
/// `fake_quantize`:
///
///     y = (clamp(rint(x / scale) + zero_point, q_min, q_max) - zero_point) * scale
///
/// The scale and zero point are those of the whole tensor (by value or at an address) or of each
/// channel. NaN x has the least level. To prepare a call, the same matters as for
/// ptx_quantize_backward_prepare().
struct ptx_fake_quantize_params {
    ptx_type dtype; ///< of x and y: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count; ///< elements of each; 0: no work
    CUdeviceptr x;  ///< read
    CUdeviceptr y;  ///< written; may be x

    double scale;       ///< finite, > 0; rounded to f32 unless the tensors are f64
    int32_t zero_point; ///< q_min to q_max
    /// In place of `scale` and `zero_point`: the addresses of the scales and the zero points, as in
    /// struct ptx_quantize_backward_params. Not checked: a scale of 0 gives +0, NaN gives NaN.
    CUdeviceptr scales;
    CUdeviceptr zero_points;
    /// The zero points are floats of the scales' type, as training learns them: rounded to even and
    /// clamped to [q_min, q_max]; NaN counts as q_min. Needs `scales`.
    bool learned_zero_points;
    uint64_t channels; ///< as in struct ptx_quantize_backward_params
    uint64_t inner;

    int32_t q_min; ///< range of quantized values, q_min <= q_max; both 0 (one level): -128 and 127
    int32_t q_max;
    bool reciprocal; ///< multiply by the rounded 1 / scale instead of dividing
};

/// Which levels a group has, with h = 2^(bits - 1).
typedef enum ptx_levels {
    PTX_LEVELS_SYMMETRIC,  ///< 1 - h to h - 1, scale = max |x| / (h - 1)
    PTX_LEVELS_FULL,       ///< -h to h - 1, scale = max |x| / (h - 1/2)
    PTX_LEVELS_ASYMMETRIC, ///< -h to h - 1, scale and zero point from the least and greatest x
    PTX_LEVELS_UNSIGNED,   ///< 0 to 2 h - 1, the same
} ptx_levels;

/// Quantizes and scales back by the formula of ptx_fake_quantize(), in groups of adjacent elements.
/// Each group's scale and zero point come from its elements. With a NaN or infinity in a group
/// every y of it is NaN. docs/kernels.md gives the formulas, and the results of groups of zeros and
/// of very small and large numbers. To prepare a call, only the dtype, `group`, `bits` and `levels`
/// matter.
struct ptx_fake_quantize_groups_params {
    ptx_type dtype;     ///< of x and y: PTX_F32, PTX_F16 or PTX_BF16
    uint64_t count;     ///< elements of each, a multiple of `columns`; 0: no work
    uint64_t columns;   ///< length of the last axis, a multiple of `group`; 0: `count`
    uint32_t group;     ///< elements of a group: 32, 64 or 128; 0: 32
    uint32_t bits;      ///< of a level: 4 or 8; 0: 4
    ptx_levels levels;  ///< which levels, and how scales come about
    CUdeviceptr x;      ///< read
    CUdeviceptr y;      ///< written; may be x
    CUdeviceptr scales; ///< f32[count / group], written; 0: not wanted
    /// s32[count / group], written; 0: not wanted. Only levels with a zero point have it.
    CUdeviceptr zero_points;
};

// ------------------------------------------------------------------------------- learned quantizer

/// The gradients of a fake quantizer's input, scale and zero point. For the output y = (q - z) *
/// scale with q = clamp(rint(x / scale) + z, q_min, q_max), in range if no clamping was needed:
///
///     d_input      = in range  ?  d_output  :  +0
///     d_scale      = grad_factor * sum of d_output * (in range  ?  q - z - x / scale  :  q - z)
///     d_zero_point = grad_factor * sum of d_output * (in range  ?  0  :  -scale)
///
/// Sums are over the tensor, over each channel or over each group, in f64 and in an order that the
/// sizes alone decide. Two launches; one for groups, for a tensor of up to 32 KiB with one scale,
/// and where each channel is one row of up to 2048 elements (8192 with a count above 2^24). Source:
/// PyTorch's learnable fake quantization; `quotient_range` as in Esser et al., "Learned Step Size
/// Quantization" (2020).
///
/// Values on the device are not checked: for a scale of 0 or NaN d_input is +0; a NaN x counts as
/// the lower bound, and is out of range. docs/kernels.md has every case. If the driver refuses the
/// second launch alone, the first has been made.
///
/// `workspace` of the description depends on dtype, count, channels, inner, the kind of zero point
/// and whether the address x is a multiple of 16; it is 0 where there is one launch.
struct ptx_quantize_learned_backward_params {
    ptx_type dtype;       ///< of the three tensors: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;       ///< elements of each; 0: no work, and nothing is written
    CUdeviceptr x;        ///< input of the quantizer
    CUdeviceptr d_output; ///< gradient of the quantizer's output
    CUdeviceptr d_input;  ///< gradient of x, written; may be d_output

    /// Addresses of one element, or of one for each channel or group; f32, f64 for f64 tensors.
    CUdeviceptr scales;
    CUdeviceptr zero_points; ///< learned; rounded to even and clamped to q_min and q_max
    /// Instead of zero_points: addresses of s32, which have no gradient.
    CUdeviceptr fixed_zero_points;
    /// Number of channels along one axis of the tensor; 0: one scale for the tensor.
    uint64_t channels;
    /// With channels: the number of adjacent elements of one channel, that is, the product of the
    /// dimensions after the axis; 1 for the last axis. 0 means 1. `count` must be a multiple of
    /// channels * inner.
    uint64_t inner;
    /// If not 0: groups of 32, 64 or 128 adjacent elements along the last axis have scales of their
    /// own. Without `channels`; not for PTX_F64.
    uint32_t group;
    uint64_t columns; ///< with group: length of the last axis, a multiple of `group`; 0: `count`

    int32_t q_min; ///< range of quantized values, q_min <= q_max; both 0 (one level): -128 and 127
    int32_t q_max;
    /// Multiply x by the rounded 1 / scale instead of dividing, as PyTorch's fake quantization
    /// does. Must match the forward pass.
    bool reciprocal;
    /// In range if the unrounded x / scale lies strictly between the bounds.
    bool quotient_range;

    /// Finite, and must be given: 1 for the gradients as they are. 0, as if left out, is refused.
    double grad_factor;
    /// Written: the gradients, of the scales' type and number.
    CUdeviceptr d_scales;
    CUdeviceptr d_zero_points; ///< 0 with fixed_zero_points
    /// Memory for the call, of as many bytes as ptx_quantize_learned_backward_describe() says, at a
    /// multiple of 8. Its contents before and after do not matter. Calls that may run at the same
    /// time need memory of their own. Those of one launch need none.
    CUdeviceptr workspace;
};

// --------------------------------------------------------------------------------------- observer

/// Moving averages of a tensor's least and greatest element, and the quantizer for that range, as
/// PyTorch's MovingAverageMinMaxObserver:
///
///     least, greatest = those of x, as f32
///     min_val += averaging_constant * (least - min_val)
///     max_val += averaging_constant * (greatest - max_val)
///     low = min(min_val, 0)        high = max(max_val, 0)
///
///     affine:     scale = (high - low) / (q_max - q_min)
///                 zero_point = q_min - rint(low / scale)
///     symmetric:  scale = max(-low, high) / ((q_max - q_min) / 2)
///
/// In the first step min_val and max_val are least and greatest. A symmetric zero point is given.
/// The scale is never below eps, and the zero point is clamped to [q_min, q_max]. Two launches;
/// nothing is read back. A NaN makes the averages and the scale NaN from then on. If the driver
/// refuses the second launch alone, the first has been made. To prepare a call, only the dtype and
/// `symmetric` matter, and the numbers must be valid.
struct ptx_observer_update_params {
    ptx_type dtype;    ///< of x: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;    ///< elements of x; 0: no work, and nothing is written
    CUdeviceptr x;     ///< read
    CUdeviceptr state; ///< a struct ptx_observer_state, read and written
    /// Weight of this step: above 0, at most 1. Must be given; PyTorch's default is 0.01.
    float averaging_constant;
    int32_t q_min; ///< range of quantized values, q_min < q_max; both 0: -128 and 127
    int32_t q_max;
    float eps;               ///< least scale, finite, > 0 (a scale of 0 is none); 0: 2^-23
    bool symmetric;          ///< the range is as wide below 0 as above
    int32_t zero_point;      ///< of a symmetric range, q_min to q_max; PyTorch has 128 for 0 to 255
    CUdeviceptr scales;      ///< f32[1], written
    CUdeviceptr zero_points; ///< s32[1], written
};

// ------------------------------------------------------------------------------------------- lerp

/// The gradients of a + weight * (b - a):
///
///     d_a = (1 - weight) * d_output        d_b = weight * d_output
struct ptx_lerp_backward_params {
    ptx_type dtype;       ///< of the tensors: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;       ///< elements of each; 0: no work
    CUdeviceptr d_output; ///< gradient of the output
    CUdeviceptr d_a;      ///< written; 0: not wanted. Either d_a or d_b may be d_output
    CUdeviceptr d_b;      ///< written; 0: not wanted
    double weight;        ///< not NaN
    CUdeviceptr
        weight_at; ///< if not 0: the address of one f64, used instead of `weight`; not checked
};

// ------------------------------------------------------------------------------- floats of 8 bits

/// A scaled conversion, and the greatest magnitude of what is converted:
///
///     y = fp8(x * scale)        amax = max(amax, |x|)
///
/// The product is rounded to f32 and then to the format, to nearest even. Beyond the largest value,
/// and from infinity, y is the largest value; from NaN it is NaN. In amax infinity counts, and NaN
/// does not.
struct ptx_fp8_cast_params {
    ptx_type dtype; ///< of x: PTX_F32, PTX_F16 or PTX_BF16
    uint64_t count; ///< elements of x and of y; 0: no work
    CUdeviceptr x;  ///< read
    CUdeviceptr y;  ///< `count` bytes, written; overlaps nothing
    ptx_fp8 format; ///< of y
    double scale;   ///< finite, > 0; rounded to f32
    /// In place of `scale`, which is left 0 then (or the call is INVALID): the address of one f32.
    /// Not checked: a scale of NaN makes every y NaN, and other values go into the formula
    /// unchanged.
    CUdeviceptr scale_at;
    /// If not 0: the address of one f32, +0 or above, that is read and written; not checked, and a
    /// NaN there stays. Calls on several streams may share it.
    CUdeviceptr amax;
};

/// The scales of many tensors by delayed scaling, with Transformer Engine's formulas (Python class
/// DelayedScaling; delayed_scaling.cu), in one launch:
///
///     amax = the greatest of the tensor's column of the history, NaN left out; or its first
///     scale = largest * 2^-margin / amax    if amax is finite and above 0, else unchanged;
///                                           the largest f32 in place of infinity
///     scale_inv = 1 / scale
///
/// Then row r of the history becomes row r + 1, the last row becomes row 0, and row 0 becomes 0.
/// Row 0 is where ptx_fp8_cast() merges: its `amax` for tensor t is history + 4 * t, its `scale_at`
/// is scale + 4 * t. Nothing on the device is checked. To prepare a call, only `format`, `formats`
/// and `most_recent` matter.
struct ptx_delayed_scale_update_params {
    uint64_t tensors;      ///< 0: no work
    uint64_t rows;         ///< of the history, >= 1
    CUdeviceptr history;   ///< f32[rows][tensors], read and written
    CUdeviceptr scale;     ///< f32[tensors], read and written
    CUdeviceptr scale_inv; ///< f32[tensors], written
    ptx_fp8 format;        ///< of all tensors
    /// In place of `format`, which is left 0 then (or the call is INVALID): the address of
    /// u32[tensors], a ptx_fp8 for each tensor. Other values count as PTX_FP8_E5M2.
    CUdeviceptr formats;
    bool most_recent; ///< amax is that of row 0, and not the greatest of the column
    int32_t margin;   ///< -100 to 100; usually 0
};

// ------------------------------------------------------------------------------------- loss scale

/// How the loss scale changes after a step. All zero: growth 2, backoff 0.5, interval 2000, no
/// bounds, no hysteresis, as PyTorch's GradScaler.
///
/// If something was not finite: scale *= backoff and growth_tracker = 0. Otherwise growth_tracker
/// += 1; when it reaches the interval, scale *= growth unless the product is not finite, and
/// growth_tracker = 0. Then the scale is clamped to [min_scale, max_scale]. Without min_scale,
/// about 200 consecutive bad steps reduce the scale to 0, where it stays; a plan with
/// that scale finds found_inf in every run.
struct ptx_loss_scale_params {
    float growth;     ///< > 1, finite; 0: 2
    float backoff;    ///< between 0 and 1; 0: 0.5
    int32_t interval; ///< steps, >= 1; 0: 2000
    float min_scale;  ///< > 0, finite; 0: no lower bound
    float max_scale;  ///< >= min_scale; 0: no upper bound
    /// Number of consecutive bad steps before the scale backs off: with 2, the first bad step has
    /// no effect. Bad steps are counted below zero in growth_tracker (-1 after the first); a good
    /// step or a backoff resets the count. 0 and 1: every bad step backs off.
    int32_t hysteresis;
};

/// Applies the rule on the host, with the same bits as on the device. `params` may be NULL. Errors:
/// INVALID (a parameter is out of range, or the scale is negative or not finite), with *state
/// unchanged.
PTXGEN_API ptx_status ptx_loss_scale_step(struct ptx_loss_scale_state *state, bool found_inf,
                                          const struct ptx_loss_scale_params *params);

/// A loss scale in device memory after a step, by the rule of struct ptx_loss_scale_params. To
/// prepare a call, nothing of it matters.
struct ptx_loss_scale_update_params {
    CUdeviceptr state;                 ///< a struct ptx_loss_scale_state, read and written
    CUdeviceptr found_inf;             ///< one f32, 0 if everything was finite
    struct ptx_loss_scale_params rule; ///< all zero: the defaults
};

// -------------------------------------------------------------------------------------- the calls

/// ptx_operation_run() for the parameters of this operation.
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_status ptx_##name(ptx_operations *operations,                                \
                                        const struct ptx_##name##_params *params, CUstream stream) \
    {                                                                                              \
        return ptx_operation_run(operations, PTX_OPERATION_##name, params, stream);                \
    }
PTX_OPERATIONS(PTX_DECLARE)
#undef PTX_DECLARE
/// ptx_operation_prepare() for the parameters of this operation.
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_status ptx_##name##_prepare(ptx_operations *operations,                      \
                                                  const struct ptx_##name##_params *params)        \
    {                                                                                              \
        return ptx_operation_prepare(operations, PTX_OPERATION_##name, params);                    \
    }
PTX_OPERATIONS(PTX_DECLARE)
#undef PTX_DECLARE
/// ptx_operation_describe() for the parameters of this operation.
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_status ptx_##name##_describe(const struct ptx_##name##_params *params,       \
                                                   struct ptx_operation_description *description)  \
    {                                                                                              \
        return ptx_operation_describe(PTX_OPERATION_##name, params, description);                  \
    }
PTX_OPERATIONS(PTX_DECLARE)
#undef PTX_DECLARE

PTXGEN_END

#endif

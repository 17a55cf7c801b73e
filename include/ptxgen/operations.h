// SPDX-License-Identifier: MIT
/// Layer 4: a kernel in one call, its arguments checked.
///
///     ptx_operations *ops = ptx_operations_create(gpu, NULL);
///     ptx_quantize_backward(ops, &(struct ptx_quantize_params){
///         .dtype = PTX_BF16, .count = n, .x = x, .d_output = dy, .d_input = dy, .scale = 0.05 },
///         stream);
///
/// A call checks all that can be known on the host, picks the kernel's variant, puts one launch on
/// the stream and returns; it never waits. On an error nothing is launched and nothing written, and
/// the message names the argument. Checked everywhere: addresses are not 0 and multiples of the
/// element's size; the driver knows the memory at them, it is this GPU's and has room for what is
/// counted; what is written overlaps nothing else, except exactly where it says so.
///
/// Kernels are compiled when they are first wanted, once, whichever thread comes first. That is
/// refused with CAPTURE while the stream is being captured, and the capture goes on undisturbed:
/// the _prepare functions compile without launching. A kernel that is there is launched without
/// allocating, locking or searching. On the legacy default stream a call is refused with CAPTURE
/// while a blocking stream of the context is being captured, as everywhere: driver.h.
///
/// The _describe functions say what a call would do. They need no GPU, and do not look at addresses
/// but for which of them are 0. docs/kernels.md gives the formulas, docs/operations.md the rest.
#ifndef PTXGEN_OPERATIONS_H
#define PTXGEN_OPERATIONS_H

#include <ptxgen/driver.h>
#include <ptxgen/records.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// Compiled kernels of one device, which it keeps alive. May be used by any number of threads at
/// once.
typedef struct ptx_operations ptx_operations;

struct ptx_operations_params {
    /// How modules are loaded; the stream in it is not used. Copied. NULL: the
    /// defaults.
    const struct ptx_module_params *module;
    /// Do not ask the driver about addresses: for memory that it does not know and the GPU can read
    /// all the same, and to save the time, less than a microsecond an address.
    bool any_address;
};

/// Compiles nothing yet. `params` may be NULL. Errors (NULL): OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API ptx_operations *ptx_operations_create(ptx_device *device,
                                                 const struct ptx_operations_params *params);
/// Unloads the kernels, whose work must be done, and sets *operations to NULL. Graphs that hold
/// their launches must not be launched any more.
PTXGEN_API void ptx_operations_destroy(ptx_operations **operations);

/// What a call would do.
struct ptx_operation_description {
    char entry[64];          ///< the kernel's entry, "quantize_ste_backward_bf16"; "" for no launch
    int launches;            ///< 1; 0 for 0 elements
    uint64_t bytes;          ///< read and written
    uint64_t workspace;      ///< bytes of device memory beside the arguments: 0
    const char *accumulator; ///< type of the sums; "none"
    const char *determinism; ///< what holds, in a sentence
};

// --------------------------------------------------------------------------------------- quantize

/// The gradient of a quantizer, straight through its rounding:
///
///     d_input = q_min <= rint(x / scale) + zero_point <= q_max  ?  d_output / scale  :  +0
///
/// with one scale and zero point for the tensor - by value, or at an address - or one for each
/// channel. NaN and infinite x count as out of range.
struct ptx_quantize_params {
    ptx_type dtype;       ///< of the three tensors: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;       ///< elements of each; 0: nothing is done
    CUdeviceptr x;        ///< what was quantized
    CUdeviceptr d_output; ///< gradient of the output
    CUdeviceptr d_input;  ///< gradient of x, written; may be d_output

    double scale;       ///< finite, > 0; rounded to f32 unless the tensors are f64
    int32_t zero_point; ///< q_min to q_max

    /// Not 0: in place of `scale` and `zero_point`, the addresses of the scales (f32; f64 for f64
    /// tensors) and of the zero points (s32), one or as many as there are channels. Their values
    /// are not checked: a NaN or zero scale makes its elements +0, others take the formula as it
    /// is.
    CUdeviceptr scales;
    CUdeviceptr zero_points;
    /// Channels along one axis of the tensor, with `scales`; 0: one scale for the tensor.
    uint64_t channels;
    /// With channels: how many adjacent elements are of one channel, which is the product of the
    /// dimensions after the axis: 1 for the last one. 0 is 1. `count` is a multiple of
    /// channels * inner.
    uint64_t inner;

    int32_t q_min; ///< quantized values, q_min <= q_max; both 0: -128 and 127
    int32_t q_max;
    /// Multiply by the rounded 1 / scale where the formula divides, as PyTorch's fake quantization
    /// does. Take what the forward pass takes.
    bool reciprocal;
    /// In range d_output itself: the gradient of quantizing and scaling back.
    bool fake_quantize;
};

/// Errors: INVALID, CAPTURE (see above), JIT, DRIVER, UNSUPPORTED, FORKED, OUT_OF_MEMORY.
PTXGEN_API ptx_status ptx_quantize_backward(ptx_operations *operations,
                                            const struct ptx_quantize_params *params,
                                            CUstream stream);
/// Compiles what ptx_quantize_backward() needs for such a dtype and choice of options; count, inner
/// and the addresses matter only as far as they are 0. Errors: the same; CAPTURE while a blocking
/// stream of the context is being captured.
PTXGEN_API ptx_status ptx_quantize_prepare(ptx_operations *operations,
                                           const struct ptx_quantize_params *params);
/// Errors: INVALID.
PTXGEN_API ptx_status ptx_quantize_describe(const struct ptx_quantize_params *params,
                                            struct ptx_operation_description *description);

// ------------------------------------------------------------------------------------------- lerp

/// The gradients of a + weight * (b - a):
///
///     d_a = (1 - weight) * d_output        d_b = weight * d_output
struct ptx_lerp_params {
    ptx_type dtype;        ///< of the tensors: PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint64_t count;        ///< elements of each; 0: nothing is done
    CUdeviceptr d_output;  ///< gradient of the output
    CUdeviceptr d_a;       ///< written; 0: not wanted. One of the two may be d_output
    CUdeviceptr d_b;       ///< written; 0: not wanted
    double weight;         ///< not NaN
    CUdeviceptr weight_at; ///< not 0: the address of one f64, in place of `weight`; not checked
};

/// Errors as ptx_quantize_backward().
PTXGEN_API ptx_status ptx_lerp_backward(ptx_operations *operations,
                                        const struct ptx_lerp_params *params, CUstream stream);
/// As ptx_quantize_prepare().
PTXGEN_API ptx_status ptx_lerp_prepare(ptx_operations *operations,
                                       const struct ptx_lerp_params *params);
/// Errors: INVALID.
PTXGEN_API ptx_status ptx_lerp_describe(const struct ptx_lerp_params *params,
                                        struct ptx_operation_description *description);

// ------------------------------------------------------------------------------------- loss scale

/// How the scale changes after a step. All zero: growth 2, backoff 0.5, interval 2000, no bounds,
/// no hysteresis, as PyTorch's GradScaler.
///
/// If something was not finite: scale *= backoff, growth_tracker = 0. Else growth_tracker + 1, and
/// when it reaches the interval: scale *= growth, unless that is not finite, growth_tracker = 0.
/// Then the scale is brought within [min_scale, max_scale]. Without min_scale some 200 bad steps in
/// a row bring it to 0, where it stays.
struct ptx_loss_scale_params {
    float growth;     ///< > 1, finite; 0: 2
    float backoff;    ///< between 0 and 1; 0: 0.5
    int32_t interval; ///< steps, >= 1; 0: 2000
    float min_scale;  ///< > 0, finite; 0: no lower bound
    float max_scale;  ///< >= min_scale; 0: no upper bound
    /// So many bad steps in a row make the scale back off once: with 2, one passes. Counted below
    /// zero in growth_tracker (-1 after the first); a good step and a backoff start the count anew.
    /// 0 and 1: each does.
    int32_t hysteresis;
};

/// The rule itself, on the host; the same bits as on the device. `params` may be NULL. Errors:
/// INVALID (a parameter is out of its range, the scale negative or not finite; *state is
/// unchanged).
PTXGEN_API ptx_status ptx_loss_scale_step(struct ptx_loss_scale_state *state, bool found_inf,
                                          const struct ptx_loss_scale_params *params);

/// The same on the device, in the stream's order: `state` is the address of a struct
/// ptx_loss_scale_state, `found_inf` of one f32, 0 if everything was finite. `params` may be NULL.
/// Errors as ptx_quantize_backward().
PTXGEN_API ptx_status ptx_loss_scale_update(ptx_operations *operations, CUdeviceptr state,
                                            CUdeviceptr found_inf,
                                            const struct ptx_loss_scale_params *params,
                                            CUstream stream);
/// Compiles it, so that it can be captured. Errors as ptx_quantize_prepare().
PTXGEN_API ptx_status ptx_loss_scale_prepare(ptx_operations *operations);
/// Errors: INVALID.
PTXGEN_API ptx_status ptx_loss_scale_describe(const struct ptx_loss_scale_params *params,
                                              struct ptx_operation_description *description);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
/// Layer 4: a kernel in one call, its arguments checked.
///
///     ptx_operations *ops = ptx_operations_create(gpu, NULL);
///     ptx_quantize_backward(ops, &(struct ptx_quantize_params){
///         .dtype = PTX_BF16, .count = n, .x = x, .d_output = dy, .d_input = dy, .scale = 0.05 },
///         stream);
///
/// A call checks everything that can be known on the host, picks the kernel, puts one launch on the
/// stream and returns; it never waits. What it is checked against is in front of each function; on
/// an error nothing is launched and nothing written.
///
/// Kernels are compiled when they are first wanted, once, whichever thread comes first. That is not
/// possible while the stream is being captured: ptx_..._prepare() compiles without launching.
/// docs/kernels.md gives the formulas.
#ifndef PTXGEN_OPERATIONS_H
#define PTXGEN_OPERATIONS_H

#include <ptxgen/driver.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// Compiled kernels of one device. May be used by any number of threads at once.
typedef struct ptx_operations ptx_operations;

struct ptx_operations_params {
    /// How modules are loaded: a cache, say; the stream in it is not used. NULL: the defaults.
    const struct ptx_module_params *module;
};

/// Compiles nothing yet. `params` may be NULL. Errors (NULL): OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API ptx_operations *ptx_operations_create(ptx_device *device,
                                                 const struct ptx_operations_params *params);
/// Unloads the kernels, whose work must be done, and sets *operations to NULL.
PTXGEN_API void ptx_operations_destroy(ptx_operations **operations);

// ------------------------------------------------------------------------------------- loss scale

/// The scale that the loss was multiplied by, and how long it has served; 8 bytes in device or host
/// memory.
struct ptx_loss_scale_state {
    float scale;            ///< finite, > 0
    int32_t growth_tracker; ///< steps in a row without a NaN or infinity
};

/// How the scale changes after a step. All zero: growth 2, backoff 0.5, interval 2000, no bounds,
/// no hysteresis, as PyTorch's GradScaler.
///
/// If something was not finite: scale *= backoff, growth_tracker = 0. Else growth_tracker + 1, and
/// when it reaches the interval: scale *= growth, unless that is not finite, growth_tracker = 0.
/// Then the scale is brought within [min_scale, max_scale].
struct ptx_loss_scale_params {
    float growth;     ///< > 1, finite; 0: 2
    float backoff;    ///< between 0 and 1; 0: 0.5
    int32_t interval; ///< steps, >= 1; 0: 2000
    float min_scale;  ///< > 0; 0: no lower bound
    float max_scale;  ///< >= min_scale; 0: no upper bound
    /// Steps with something not finite that pass before the scale backs off: 2 lets one pass.
    /// Counted below zero in growth_tracker (-1 after the first); a good step starts the count
    /// anew. 0 and 1: none passes.
    int32_t hysteresis;
};

/// The rule itself, on the host; the same bits as on the device. Errors: INVALID (a parameter is
/// out of its range; *state is unchanged).
PTXGEN_API ptx_status ptx_loss_scale_step(struct ptx_loss_scale_state *state, bool found_inf,
                                          const struct ptx_loss_scale_params *params);

/// The same on the device, in the stream's order: `state` is the address of a struct
/// ptx_loss_scale_state, `found_inf` of one f32, 0 if everything was finite. `params` may be NULL.
/// Errors: INVALID, CAPTURE (not compiled yet), JIT, DRIVER, FORKED, OUT_OF_MEMORY.
PTXGEN_API ptx_status ptx_loss_scale_update(ptx_operations *operations, CUdeviceptr state,
                                            CUdeviceptr found_inf,
                                            const struct ptx_loss_scale_params *params,
                                            CUstream stream);
/// Compiles it, so that it can be captured.
PTXGEN_API ptx_status ptx_loss_scale_prepare(ptx_operations *operations);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
// What the one-call operations share: their compiled kernels, and the checks of addresses.
#ifndef PTXGEN_PLANS_OPERATIONS_H
#define PTXGEN_PLANS_OPERATIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>

// Columns: the kernel, and how many values each of its options has.
#define PLAN_KERNELS(X)                                                                            \
    X(quantize_ste_backward, 2, 2, 3, 2)                                                           \
    X(quantize_channel_ste_backward, 2, 2, 3, 2)                                                   \
    X(lerp_backward, 3, 2, 1, 1)                                                                   \
    X(loss_scale_update, 1, 1, 1, 1)

enum plan_kernel {
#define PLAN_DECLARE(name, ...) PLAN_##name,
    PLAN_KERNELS(PLAN_DECLARE)
#undef PLAN_DECLARE
        PLAN_KERNEL_COUNT
};

enum { PLAN_DTYPES = 4 };

// A slot for each variant of each kernel.
enum {
    PLAN_SLOTS = 0
#define PLAN_DECLARE(name, a, b, c, d) +PLAN_DTYPES *(a) * (b) * (c) * (d)
    PLAN_KERNELS(PLAN_DECLARE)
#undef PLAN_DECLARE
};

struct ptx_operations {
    ptx_device *device;
    ptx_buffer *anchor; // empty; keeps the device alive
    struct ptx_module_params module;
    bool any_address;
    pthread_mutex_t compiling;
    ptx_module *modules[PLAN_SLOTS];           // under the mutex
    _Atomic(ptx_function *) ready[PLAN_SLOTS]; // NULL until compiled
};

// The name of a call, for messages, and of the function that compiles for it.
struct plan_call {
    const char *name, *prepare;
};

const ptx_kernel *ptxp_kernel(enum plan_kernel kernel);

// PTX_OK if there are operations.
ptx_status ptxp_check_operations(const ptx_operations *operations, const struct plan_call *call);

// PTX_OK if tensors may be of the dtype.
ptx_status ptxp_check_dtype(const struct plan_call *call, ptx_type dtype);

// The compiled variant; compiles it if the stream is not being captured, or, for NULL, no blocking
// stream of the context.
ptx_status ptxp_function(ptx_operations *operations, const struct plan_call *call,
                         enum plan_kernel kernel, const struct ptx_kernel_spec *spec,
                         CUstream stream, ptx_function **function);

// Compiles and launches the variant over n elements.
ptx_status ptxp_launch(ptx_operations *operations, const struct plan_call *call,
                       enum plan_kernel kernel, const struct ptx_kernel_spec *spec, uint64_t n,
                       const struct ptx_arg *args, size_t arg_count, CUstream stream);

// An address that was passed, and what lies there.
struct plan_span {
    const char *name;
    CUdeviceptr address;
    uint64_t count;
    ptx_type type;
    bool written;
    bool may_be_first; // may coincide with the first span
};

// None is 0 or misaligned, none ends beyond its memory, none is written where another lies.
ptx_status ptxp_check_spans(const ptx_operations *operations, const struct plan_call *call,
                            const struct plan_span *spans, size_t count);

// Whether n elements are what a launch can cover.
ptx_status ptxp_check_count(const struct plan_call *call, enum plan_kernel kernel, ptx_type dtype,
                            uint64_t n);

// `bytes` of a call over n elements.
void ptxp_describe(enum plan_kernel kernel, const struct ptx_kernel_spec *spec, uint64_t n,
                   uint64_t bytes, struct ptx_operation_description *description);

#endif

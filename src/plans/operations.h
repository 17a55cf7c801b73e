// SPDX-License-Identifier: MIT
// What the one-call operations share: their compiled kernels, and the checks of addresses.
#ifndef PTXGEN_PLANS_OPERATIONS_H
#define PTXGEN_PLANS_OPERATIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include <ptxgen/binding.h>
#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>

// An option of an operation's kernel, with its values in the order that the operation counts them.
struct plan_option {
    const char *name; // NULL ends the list
    const char *values[PTX_KERNEL_MAX_CHOICES];
};

enum { PLAN_MOST_ARGS = 12, PLAN_DTYPES = 4 };

// An operation: a kernel, and by the names that the kernel has for them its options, and what a
// call gives its parameters. Both are looked up when a variant is compiled, never in a call.
struct plan_operation {
    const ptx_kernel *kernel;
    struct plan_option options[PTX_KERNEL_MAX_OPTIONS + 1];
    // Writes up to PLAN_MOST_ARGS values of a call; returns how many. They are in *call, at places
    // that are the same for all calls of a variant.
    size_t (*values)(const void *call, struct ptx_named_arg *values);
};

// The operations.
#define PLAN_OPERATIONS(X)                                                                         \
    X(quantize)                                                                                    \
    X(quantize_channel)                                                                            \
    X(lerp)                                                                                        \
    X(loss_scale)

enum plan_operation_id {
#define PLAN_DECLARE(name) PLAN_##name,
    PLAN_OPERATIONS(PLAN_DECLARE)
#undef PLAN_DECLARE
        PLAN_OPERATION_COUNT
};
#define PLAN_DECLARE(name) extern const struct plan_operation ptxp_operation_##name;
PLAN_OPERATIONS(PLAN_DECLARE)
#undef PLAN_DECLARE

const struct plan_operation *ptxp_operation(enum plan_operation_id id);
// How many values the operation counts of its option; 1 if it has no such one.
unsigned ptxp_option_values(const struct plan_operation *operation, unsigned option);

// What a call comes to: a variant of an operation over n elements.
struct plan_request {
    enum plan_operation_id operation;
    ptx_type dtype;
    uint8_t option[PTX_KERNEL_MAX_OPTIONS]; // indices into the operation's values
    uint64_t n;
    const void *call; // what `values` of the operation reads
};

// A compiled variant, with the places of its arguments in a call.
struct plan_slot {
    ptx_module *module;            // under the mutex
    _Atomic(ptx_function *) ready; // NULL until compiled; what follows is complete then
    size_t arg_count;
    struct plan_place {
        size_t offset, size;
        enum ptx_arg_type type;
    } args[PLAN_MOST_ARGS];
};

struct ptx_operations {
    ptx_device *device;
    ptx_buffer *anchor; // empty; keeps the device alive
    struct ptx_module_params module;
    bool any_address;
    pthread_mutex_t compiling;
    struct plan_slot *slots[PLAN_OPERATION_COUNT]; // one for each variant
};

// The name of a call, for messages, and of the function that compiles for it.
struct plan_call {
    const char *name, *prepare;
};

// PTX_OK if there are operations.
ptx_status ptxp_check_operations(const ptx_operations *operations, const struct plan_call *call);

// PTX_OK if tensors may be of the dtype.
ptx_status ptxp_check_dtype(const struct plan_call *call, ptx_type dtype);

// Compiles the variant, unless it is there, if the stream is not being captured, or, for NULL, no
// blocking stream of the context.
ptx_status ptxp_prepare(ptx_operations *operations, const struct plan_call *call,
                        const struct plan_request *request, CUstream stream);

// Compiles the variant and launches it.
ptx_status ptxp_launch(ptx_operations *operations, const struct plan_call *call,
                       const struct plan_request *request, CUstream stream);

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
ptx_status ptxp_check_count(const struct plan_call *call, const struct plan_request *request);

// `bytes` of a call.
void ptxp_describe(const struct plan_request *request, uint64_t bytes,
                   struct ptx_operation_description *description);

#endif

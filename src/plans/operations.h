// SPDX-License-Identifier: MIT
// What the one-call operations share: compiled kernels, and checks of addresses.
#ifndef PTXGEN_PLANS_OPERATIONS_H
#define PTXGEN_PLANS_OPERATIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include <ptxgen/binding.h>
#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>

// An option of an operation's kernel, with its values in the operation's order.
struct plan_option {
    const char *name; // NULL ends the list
    const char *values[PTX_KERNEL_MAX_CHOICES];
};

enum { PLAN_MOST_ARGS = 12, PLAN_DTYPES = 4 };

// An operation: a kernel, and, by the kernel's names, its options and the values that a call gives
// to its parameters. Names are looked up when a variant is compiled, never in a call.
struct plan_operation {
    const ptx_kernel *kernel;
    struct plan_option options[PTX_KERNEL_MAX_OPTIONS + 1];
    // Writes up to PLAN_MOST_ARGS values of a call and returns their number. They point into *call,
    // at offsets that are the same for all calls of a variant.
    size_t (*values)(const void *call, struct ptx_named_arg *values);
};

// X(operation).
#define PLAN_OPERATIONS(X)                                                                         \
    X(quantize)                                                                                    \
    X(quantize_channel)                                                                            \
    X(learned)                                                                                     \
    X(learned_reduce)                                                                              \
    X(learned_groups)                                                                              \
    X(observe)                                                                                     \
    X(average)                                                                                     \
    X(lerp)                                                                                        \
    X(loss_scale)                                                                                  \
    X(fp8)                                                                                         \
    X(delayed_scale)                                                                               \
    X(fake_quantize)                                                                               \
    X(fake_quantize_channel)                                                                       \
    X(fake_quantize_groups)

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
// The number of values of an option; 1 if the operation does not have it.
unsigned ptxp_option_values(const struct plan_operation *operation, unsigned option);

// A checked call: a variant of an operation and n elements.
struct plan_request {
    enum plan_operation_id operation;
    ptx_type dtype;
    uint8_t option[PTX_KERNEL_MAX_OPTIONS]; // indices into the operation's values
    uint64_t n;
    uint64_t blocks;   // 0: as the kernel's geometry has it
    bool programmatic; // may begin before the launch ahead of it has ended
    const void *call;  // the argument of `values` of the operation
};

// A compiled variant, and the offsets of its arguments in a call.
struct plan_slot {
    ptx_module *module; // protected by the mutex
    _Atomic(ptx_function *)
        ready; // NULL until compiled; the following members are complete when it is set
    size_t arg_count;
    struct plan_place {
        size_t offset, size;
        enum ptx_arg_type type;
    } args[PLAN_MOST_ARGS];
};

struct ptx_operations {
    ptx_device *device;
    ptx_buffer *anchor; // an empty buffer; keeps the device alive
    struct ptx_module_params module;
    bool any_address;
    pthread_mutex_t compiling;
    struct plan_slot *slots[PLAN_OPERATION_COUNT]; // one slot for each variant
};

// The name of a call, for messages, and of the function that compiles its kernel.
struct plan_call {
    const char *name, *prepare;
};

// PTX_OK if `operations` is usable.
ptx_status ptxp_check_operations(const ptx_operations *operations, const struct plan_call *call);

// PTX_OK unless an argument of this name is NULL.
ptx_status ptxp_check_given(const struct plan_call *call, const char *name, const void *argument);

// PTX_OK if the dtype is allowed for tensors: f32, f16, bf16, and f64 if the operation has it.
ptx_status ptxp_check_dtype(const struct plan_call *call, ptx_type dtype, bool has_f64);

// Compiles the variant unless it is compiled already. Refused while the stream is being captured
// or, for NULL, while a blocking stream of the context is.
ptx_status ptxp_prepare(ptx_operations *operations, const struct plan_call *call,
                        const struct plan_request *request, CUstream stream);

// Compiles the variant and launches it.
ptx_status ptxp_launch(ptx_operations *operations, const struct plan_call *call,
                       const struct plan_request *request, CUstream stream);

// An address from the caller, and the memory expected there.
struct plan_span {
    const char *name;
    CUdeviceptr address;
    uint64_t count;
    ptx_type type;
    bool written;
    bool may_be_first; // may start exactly where another span starts
};

// Checks that no address is 0 or misaligned, that no span exceeds its allocation, and that no
// written span overlaps another.
ptx_status ptxp_check_spans(const ptx_operations *operations, const struct plan_call *call,
                            const struct plan_span *spans, size_t count);

// Checks that one launch can cover n elements.
ptx_status ptxp_check_count(const struct plan_call *call, const struct plan_request *request);

// Fills in the default of `inner`: 1 if there are channels. Checks that channels * inner divides
// the count.
ptx_status ptxp_check_channels(const struct plan_call *call, uint64_t count, uint64_t channels,
                               uint64_t *inner);
// Fills in the default of a quantizer's range, -128 to 127 for both 0, and checks its order.
ptx_status ptxp_check_range(const struct plan_call *call, int32_t *q_min, int32_t *q_max);

// Fills in the defaults of a quantizer's scalars, bounds and channels, and checks them.
ptx_status ptxp_check_quantizer(const struct plan_call *call, struct ptx_quantize_params *p);

// Checks groups of elements along the last axis, whose length is `columns`; 0: `count`.
ptx_status ptxp_check_groups(const struct plan_call *call, uint64_t count, uint64_t columns,
                             uint32_t group);

// The layout that is fast for the channels: 0 for rows, 1 for columns.
uint8_t ptxp_channel_layout(const struct ptx_quantize_params *p);

// The `bytes` of a call's description.
void ptxp_describe(const struct plan_request *request, uint64_t bytes,
                   struct ptx_operation_description *description);

#endif

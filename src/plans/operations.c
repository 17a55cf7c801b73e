// SPDX-License-Identifier: MIT
#include "operations.h"

#include <inttypes.h>
#include <stdlib.h>

#include "driver/error.h"
#include "load.h"

const struct plan_operation *ptxp_operation(enum plan_operation_id id)
{
    static const struct plan_operation *const operations[] = {
#define PLAN_ROW(name) &ptxp_operation_##name,
        PLAN_OPERATIONS(PLAN_ROW)
#undef PLAN_ROW
    };
    return operations[id];
}

unsigned ptxp_option_values(const struct plan_operation *operation, unsigned option)
{
    unsigned count = 0;

    while (count < PTX_KERNEL_MAX_CHOICES && operation->options[option].values[count])
        count++;
    return count ? count : 1;
}

static unsigned dtype_code(ptx_type dtype)
{
    static const uint8_t codes[PTX_TYPE_COUNT] = { [PTX_F64] = 1, [PTX_F16] = 2, [PTX_BF16] = 3 };

    return codes[dtype];
}

static size_t variants_of(const struct plan_operation *operation)
{
    size_t count = PLAN_DTYPES;

    for (unsigned k = 0; k < PTX_KERNEL_MAX_OPTIONS; k++)
        count *= ptxp_option_values(operation, k);
    return count;
}

static struct plan_slot *slot_of(const ptx_operations *operations,
                                 const struct plan_request *request)
{
    const struct plan_operation *operation = ptxp_operation(request->operation);
    size_t variant = dtype_code(request->dtype);

    for (unsigned k = 0; k < PTX_KERNEL_MAX_OPTIONS; k++)
        variant = variant * ptxp_option_values(operation, k) + request->option[k];
    return &operations->slots[request->operation][variant];
}

static bool allocate_slots(ptx_operations *operations)
{
    for (int k = 0; k < PLAN_OPERATION_COUNT; k++) {
        const struct plan_operation *operation = ptxp_operation((enum plan_operation_id)k);
        operations->slots[k] = calloc(variants_of(operation), sizeof *operations->slots[k]);
        if (!operations->slots[k])
            return false;
    }
    return true;
}

static void free_slots(ptx_operations *operations)
{
    for (int k = 0; operations && k < PLAN_OPERATION_COUNT; k++) {
        const size_t count = variants_of(ptxp_operation((enum plan_operation_id)k));
        for (size_t s = 0; operations->slots[k] && s < count; s++)
            ptx_module_unload(&operations->slots[k][s].module);
        free(operations->slots[k]);
    }
}

ptx_operations *ptx_operations_create(ptx_device *device,
                                      const struct ptx_operations_params *params)
{
    static const struct ptx_operations_params defaults;
    ptx_operations *made;

    if (!params)
        params = &defaults;
    ptx_buffer *anchor = ptx_buffer_create(device, 0);
    if (!anchor)
        return NULL;
    made = calloc(1, sizeof *made);
    if (!made || !allocate_slots(made) || pthread_mutex_init(&made->compiling, NULL) != 0) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for operations");
        ptx_buffer_destroy(&anchor);
        free_slots(made);
        free(made);
        return NULL;
    }
    made->device = device;
    made->anchor = anchor;
    made->any_address = params->any_address;
    if (params->module)
        made->module = *params->module;
    return made;
}

void ptx_operations_destroy(ptx_operations **operations)
{
    if (!operations || !*operations)
        return;
    ptx_operations *old = *operations;
    *operations = NULL;
    free_slots(old);
    pthread_mutex_destroy(&old->compiling);
    ptx_buffer_destroy(&old->anchor);
    free(old);
}

// Translates the options of a variant to the kernel's option values.
static ptx_status find_options(const struct plan_operation *operation,
                               const struct plan_request *request, struct ptx_kernel_spec *spec)
{
    *spec = (struct ptx_kernel_spec) { .dtype = request->dtype };
    for (unsigned k = 0; k < PTX_KERNEL_MAX_OPTIONS && operation->options[k].name; k++) {
        const struct plan_option *option = &operation->options[k];
        const char *value = option->values[request->option[k]];
        if (!ptx_kernel_spec_set(spec, operation->kernel, option->name, value))
            return ptxd_fail(PTX_ERROR_INVALID, "%s has no option %s with the value %s",
                             operation->kernel->name, option->name, value);
    }
    return PTX_OK;
}

// Finds the offsets in a call of the values of the kernel's parameters.
static ptx_status find_arguments(const ptx_builder *b, const struct plan_operation *operation,
                                 const void *call, struct plan_slot *slot)
{
    struct ptx_named_arg values[PLAN_MOST_ARGS];
    struct ptx_arg args[PLAN_MOST_ARGS];
    const size_t count = operation->values(call, values);
    const ptx_status status = ptx_bind(b, 0, values, count, args, PLAN_MOST_ARGS, &slot->arg_count);

    for (size_t k = 0; k < slot->arg_count && !status; k++)
        slot->args[k] =
            (struct plan_place) { (size_t)((const char *)args[k].value - (const char *)call),
                                  args[k].size, args[k].type };
    return status;
}

// The mutex must be held.
static ptx_status fill_slot(const ptx_operations *operations, const struct plan_request *request,
                            CUstream stream, struct plan_slot *slot)
{
    const struct plan_operation *operation = ptxp_operation(request->operation);
    char name[PTX_ENTRY_NAME_SIZE];
    struct ptx_kernel_spec spec;
    ptx_function *function = NULL;

    if (atomic_load_explicit(&slot->ready, memory_order_relaxed))
        return PTX_OK;
    ptx_status status = find_options(operation, request, &spec);
    if (status)
        return status;
    ptx_builder *b = ptxp_builder_create(operations->device);
    if (!b)
        return ptx_error_status();
    ptx_kernel_emit(b, operation->kernel, &spec);
    slot->module =
        ptxp_load(operations->device, b, operation->kernel->name, &operations->module, stream);
    if (slot->module)
        function = ptx_module_function(slot->module,
                                       ptx_kernel_entry_name(operation->kernel, &spec, name));
    status = function ? find_arguments(b, operation, request->call, slot) : ptx_error_status();
    ptx_builder_destroy(&b);
    if (status)
        ptx_module_unload(&slot->module);
    else
        atomic_store_explicit(&slot->ready, function, memory_order_release);
    return status;
}

static ptx_status refuse_capture(const ptx_operations *operations, const struct plan_call *call,
                                 CUstream stream)
{
    bool capturing = false;
    ptx_status status = ptx_stream_is_capturing(operations->device, stream, &capturing);

    if (status)
        ptxd_name_call(call->name);
    if (status || !capturing)
        return status;
    return ptxd_fail(PTX_ERROR_CAPTURE,
                     "%s: its kernel is not compiled yet, and %s is being captured: call %s() "
                     "before the capture begins. The capture continues",
                     call->name, ptxd_captured(stream), call->prepare);
}

ptx_status ptxp_prepare(ptx_operations *operations, const struct plan_call *call,
                        const struct plan_request *request, CUstream stream)
{
    struct plan_slot *slot = slot_of(operations, request);

    if (atomic_load_explicit(&slot->ready, memory_order_acquire))
        return PTX_OK;
    ptx_status status = refuse_capture(operations, call, stream);
    if (status)
        return status;
    pthread_mutex_lock(&operations->compiling);
    status = fill_slot(operations, request, stream, slot);
    pthread_mutex_unlock(&operations->compiling);
    if (status)
        ptxd_name_call(call->name);
    return status;
}

ptx_status ptxp_launch(ptx_operations *operations, const struct plan_call *call,
                       const struct plan_request *request, CUstream stream)
{
    const struct plan_slot *slot = slot_of(operations, request);
    struct ptx_geometry geometry = { 0 };
    struct ptx_arg args[PLAN_MOST_ARGS];
    // Older drivers cannot capture launches that overlap.
    enum { PROGRAMMATIC_EDGES = 12030 };
    const bool overlaps =
        ptx_device_get_info(operations->device)->driver_version >= PROGRAMMATIC_EDGES;
    ptx_status status = ptxp_prepare(operations, call, request, stream);

    if (status)
        return status;
    for (size_t k = 0; k < slot->arg_count; k++)
        args[k] = (struct ptx_arg) { (const char *)request->call + slot->args[k].offset,
                                     slot->args[k].size, slot->args[k].type };
    ptx_kernel_geometry(ptxp_operation(request->operation)->kernel, request->dtype, request->n,
                        &geometry);
    if (request->blocks)
        geometry.grid = (uint32_t)request->blocks;
    status =
        ptx_launch(atomic_load_explicit(&slot->ready, memory_order_acquire),
                   &(struct ptx_launch_params) { .grid = { geometry.grid },
                                                 .stream = stream,
                                                 .programmatic = request->programmatic && overlaps,
                                                 .args = args,
                                                 .arg_count = slot->arg_count });
    if (status)
        ptxd_name_call(call->name);
    return status;
}

void ptxp_describe(const struct plan_request *request, uint64_t bytes,
                   struct ptx_operation_description *description)
{
    const ptx_kernel *kernel = ptxp_operation(request->operation)->kernel;
    const struct ptx_kernel_spec spec = { .dtype = request->dtype };

    *description = (struct ptx_operation_description) {
        .launches = request->n != 0,
        .bytes = bytes,
        .accumulator = kernel->accumulator ? kernel->accumulator : "none",
        .determinism = kernel->guarantees,
    };
    if (request->n)
        ptx_kernel_entry_name(kernel, &spec, description->entry);
}

// ---- checks -------------------------------------------------------------------------------------

ptx_status ptxp_check_operations(const ptx_operations *operations, const struct plan_call *call)
{
    if (operations)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: operations is NULL: see what ptx_operations_create() said", call->name);
}

ptx_status ptxp_check_given(const struct plan_call *call, const char *name, const void *argument)
{
    if (argument)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is NULL", call->name, name);
}

ptx_status ptxp_check_dtype(const struct plan_call *call, ptx_type dtype, bool has_f64)
{
    if (dtype == PTX_F32 || dtype == PTX_F16 || dtype == PTX_BF16 || (has_f64 && dtype == PTX_F64))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%s: dtype is %s; it must be f32, %sf16 or bf16",
                     call->name, ptx_type_name(dtype), has_f64 ? "f64, " : "");
}

ptx_status ptxp_check_count(const struct plan_call *call, const struct plan_request *request)
{
    const ptx_kernel *kernel = ptxp_operation(request->operation)->kernel;
    struct ptx_geometry geometry;

    if (request->n <= UINT64_MAX / 2 / ptx_type_bytes(request->dtype) &&
        ptx_kernel_geometry(kernel, request->dtype, request->n, &geometry))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: count is %" PRIu64 ", more than a launch can cover: split the "
                     "tensors",
                     call->name, request->n);
}

static uint64_t bytes_of(const struct plan_span *span)
{
    return span->count * ptx_type_bytes(span->type);
}

static ptx_status check_alone(const struct plan_call *call, const struct plan_span *span)
{
    const unsigned bytes = ptx_type_bytes(span->type);

    if (span->address == 0)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is 0; it must be a device address", call->name,
                         span->name);
    if (span->address % bytes)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is %#llx, not a multiple of the %u bytes of %s",
                         call->name, span->name, (unsigned long long)span->address, bytes,
                         ptx_type_name(span->type));
    if (bytes_of(span) > UINT64_MAX - span->address)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %#llx, and %" PRIu64 " elements from there on reach "
                         "beyond the end of memory",
                         call->name, span->name, (unsigned long long)span->address, span->count);
    return PTX_OK;
}

static ptx_status check_pair(const struct plan_call *call, const struct plan_span *x,
                             const struct plan_span *y, bool may_coincide)
{
    const bool apart =
        x->address + bytes_of(x) <= y->address || y->address + bytes_of(y) <= x->address;

    if (apart || !(x->written || y->written) || (may_coincide && x->address == y->address))
        return PTX_OK;
    const struct plan_span *written = x->written ? x : y;
    ptxd_fail(PTX_ERROR_INVALID,
              "%s: %s (%#llx, %" PRIu64 " bytes) and %s (%#llx, %" PRIu64
              " bytes) overlap, and %s is written: give it memory of its own",
              call->name, x->name, (unsigned long long)x->address, bytes_of(x), y->name,
              (unsigned long long)y->address, bytes_of(y), written->name);
    if (may_coincide)
        ptxd_explain(", or exactly that of %s", x->name);
    return PTX_ERROR_INVALID;
}

static ptx_status check_allocation(const ptx_operations *operations, const struct plan_call *call,
                                   const struct plan_span *span)
{
    CUdeviceptr base;
    size_t size;
    const ptx_status status = ptx_address_range(operations->device, span->address, &base, &size);

    if (status == PTX_ERROR_NOT_FOUND)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %#llx, and the driver knows no memory there: it was freed, or "
                         "is the host's; any_address skips this check",
                         call->name, span->name, (unsigned long long)span->address);
    if (status) {
        ptxd_name_call(call->name);
        ptxd_explain("\n%s: %s", call->name, span->name);
        return status;
    }
    const uint64_t left = base + size - span->address;
    if (bytes_of(span) <= left)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: %s has %" PRIu64 " element%s, %" PRIu64
                     " bytes, but its memory ends %" PRIu64 " byte%s after its address %#llx",
                     call->name, span->name, span->count, ptxd_plural(span->count), bytes_of(span),
                     left, ptxd_plural(left), (unsigned long long)span->address);
}

ptx_status ptxp_check_spans(const ptx_operations *operations, const struct plan_call *call,
                            const struct plan_span *spans, size_t count)
{
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < count && !status; k++)
        status = check_alone(call, &spans[k]);
    for (size_t k = 1; k < count && !status; k++)
        for (size_t j = 0; j < k && !status; j++)
            status = check_pair(call, &spans[j], &spans[k], j == 0 && spans[k].may_be_first);
    for (size_t k = 0; k < count && !status && !operations->any_address; k++)
        status = check_allocation(operations, call, &spans[k]);
    return status;
}

// SPDX-License-Identifier: MIT
#include "operations.h"

#include <stdlib.h>

#include "driver/error.h"
#include "target.h"

static const struct {
    const ptx_kernel *kernel;
    uint8_t values[PTX_KERNEL_MAX_OPTIONS];
} kernels[] = {
#define PLAN_ROW(name, ...) { &ptx_kernel_##name, { __VA_ARGS__ } },
    PLAN_KERNELS(PLAN_ROW)
#undef PLAN_ROW
};

const ptx_kernel *ptxp_kernel(enum plan_kernel kernel)
{
    return kernels[kernel].kernel;
}

static unsigned dtype_code(ptx_type dtype)
{
    static const uint8_t codes[PTX_TYPE_COUNT] = { [PTX_F64] = 1, [PTX_F16] = 2, [PTX_BF16] = 3 };

    return codes[dtype];
}

static size_t variants_of(enum plan_kernel kernel)
{
    size_t count = PLAN_DTYPES;

    for (int k = 0; k < PTX_KERNEL_MAX_OPTIONS; k++)
        count *= kernels[kernel].values[k];
    return count;
}

static size_t slot_of(enum plan_kernel kernel, const struct ptx_kernel_spec *spec)
{
    size_t first = 0, variant = dtype_code(spec->dtype);

    for (int k = 0; k < (int)kernel; k++)
        first += variants_of((enum plan_kernel)k);
    for (int k = 0; k < PTX_KERNEL_MAX_OPTIONS; k++)
        variant = variant * kernels[kernel].values[k] + spec->option[k];
    return first + variant;
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
    if (!made || pthread_mutex_init(&made->compiling, NULL) != 0) {
        ptx_driver_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for operations");
        ptx_buffer_destroy(&anchor);
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
    for (size_t k = 0; k < PLAN_SLOTS; k++)
        ptx_module_unload(&old->modules[k]);
    pthread_mutex_destroy(&old->compiling);
    ptx_buffer_destroy(&old->anchor);
    free(old);
}

static ptx_module *compile(const ptx_operations *operations, const ptx_kernel *kernel,
                           const struct ptx_kernel_spec *spec, CUstream stream)
{
    struct ptx_builder_params builder = { 0 };
    struct ptx_module_params params = operations->module;
    ptx_module *module = NULL;

    if (!ptxp_target(operations->device, &builder.target))
        return NULL;
    ptx_builder *b = ptx_builder_create(&builder);
    ptx_kernel_emit(b, kernel, spec);
    const char *text = ptx_builder_finish(b);
    params.stream = stream;
    if (text)
        module = ptx_module_load(operations->device, text, &params);
    else
        ptx_driver_fail(PTX_ERROR_OUT_OF_MEMORY, "%s: %s", kernel->name,
                        b ? ptx_builder_error(b) : "out of host memory");
    ptx_builder_destroy(&b);
    return module;
}

// With the mutex held.
static ptx_status fill_slot(ptx_operations *operations, const ptx_kernel *kernel,
                            const struct ptx_kernel_spec *spec, CUstream stream, size_t slot)
{
    char name[PTX_ENTRY_NAME_SIZE];

    if (atomic_load_explicit(&operations->ready[slot], memory_order_relaxed))
        return PTX_OK;
    ptx_module *module = compile(operations, kernel, spec, stream);
    if (!module)
        return ptx_error_status();
    ptx_function *function = ptx_module_function(module, ptx_kernel_entry_name(kernel, spec, name));
    if (!function) {
        ptx_module_unload(&module);
        return ptx_error_status();
    }
    operations->modules[slot] = module;
    atomic_store_explicit(&operations->ready[slot], function, memory_order_release);
    return PTX_OK;
}

static ptx_status refuse_capture(const ptx_operations *operations, const struct plan_call *call,
                                 CUstream stream)
{
    bool capturing = false;
    ptx_status status = ptx_stream_is_capturing(operations->device, stream, &capturing);

    if (status)
        ptx_driver_name_call(call->name);
    if (status || !capturing)
        return status;
    return ptx_driver_fail(PTX_ERROR_CAPTURE,
                           "%s: its kernel is not compiled yet, and %s is being captured: call "
                           "%s() before the capture begins. The capture is not disturbed",
                           call->name, ptx_driver_captured(stream), call->prepare);
}

ptx_status ptxp_function(ptx_operations *operations, const struct plan_call *call,
                         enum plan_kernel kernel, const struct ptx_kernel_spec *spec,
                         CUstream stream, ptx_function **function)
{
    const size_t slot = slot_of(kernel, spec);

    *function = atomic_load_explicit(&operations->ready[slot], memory_order_acquire);
    if (*function)
        return PTX_OK;
    ptx_status status = refuse_capture(operations, call, stream);
    if (status)
        return status;
    pthread_mutex_lock(&operations->compiling);
    status = fill_slot(operations, kernels[kernel].kernel, spec, stream, slot);
    pthread_mutex_unlock(&operations->compiling);
    if (status)
        ptx_driver_name_call(call->name);
    *function = atomic_load_explicit(&operations->ready[slot], memory_order_acquire);
    return status;
}

ptx_status ptxp_launch(ptx_operations *operations, const struct plan_call *call,
                       enum plan_kernel kernel, const struct ptx_kernel_spec *spec, uint64_t n,
                       const struct ptx_arg *args, size_t arg_count, CUstream stream)
{
    struct ptx_geometry geometry = { 0 };
    ptx_function *function;
    ptx_status status = ptxp_function(operations, call, kernel, spec, stream, &function);

    if (status)
        return status;
    ptx_kernel_geometry(kernels[kernel].kernel, spec->dtype, n, &geometry);
    status = ptx_launch(function, &(struct ptx_launch_params) { .grid = { geometry.grid },
                                                                .stream = stream,
                                                                .args = args,
                                                                .arg_count = arg_count });
    if (status)
        ptx_driver_name_call(call->name);
    return status;
}

void ptxp_describe(enum plan_kernel kernel, const struct ptx_kernel_spec *spec, uint64_t n,
                   uint64_t bytes, struct ptx_operation_description *description)
{
    const ptx_kernel *row = kernels[kernel].kernel;

    *description = (struct ptx_operation_description) {
        .launches = n != 0,
        .bytes = bytes,
        .accumulator = row->accumulator ? row->accumulator : "none",
        .determinism = row->guarantees,
    };
    if (n)
        ptx_kernel_entry_name(row, spec, description->entry);
}

// SPDX-License-Identifier: MIT
// Every kernel in every type on large random tensors.
#include "kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Elements for kernels that have few.
enum { FEW = 16384, LARGEST_GROUP = 128 };

static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
static const uint64_t gpu_sizes[] = { UINT64_C(1) << 26, UINT64_C(1) << 28 };
static const uint64_t emulated_sizes[] = { 40000 };

// Scale of the gradient: slightly below 1, so that the values survive many launches.
#define CLIP_SCALE 0.9990234375f

// ---- arguments ----------------------------------------------------------------------------------

static double scalar_of(const struct ptx_param_info *param)
{
    static const struct {
        const char *name;
        double value;
    } values[] = {
        { "max_norm", 1 },
        { "weight", 0.3 },
        { "scale", 0.012 }, // random numbers in [1, 2): some are in the range of s8, some are not
        { "zero_point", 3 },
    };
    for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
        if (strcmp(param->name, values[k].name) == 0)
            return values[k].value;
    return param->preset ? strtod(param->preset, NULL) : 0;
}

static double channel_scale(uint64_t channel, uint64_t channels)
{
    return 0.008 + 0.008 * (double)channel / (double)channels;
}

static int32_t channel_zero_point(uint64_t channel)
{
    return (int32_t)(channel % 7);
}

bool kernel_is_large(const struct ptx_param_info *param)
{
    return strcmp(param->length, "n") == 0 || strcmp(param->length, "count") == 0;
}

uint64_t kernel_length(const struct kernel_run *run, const struct ptx_param_info *param)
{
    const struct ptx_kernel_sizes sizes = { run->n, run->channels, run->inner };
    uint64_t length = 0;
    if (kernel_is_large(param))
        return run->n;
    ptx_kernel_length(run->kernel, &run->spec, &sizes, param->length, &length);
    return length;
}

double kernel_value(const struct kernel_run *run, const struct ptx_param_info *param, uint64_t k)
{
    if (!param->is_pointer)
        return scalar_of(param);
    if (strcmp(param->length, "2") == 0) // a range: empty, unless averages follow it
        return run->kernel == &ptx_kernel_observe_min_max ? (k ? -INFINITY : (double)INFINITY)
               : strcmp(param->name, "averages") == 0     ? (k ? 2 : -1)
                                                          : (k ? 2.25 : -1.5);
    if (strcmp(param->length, "channels") == 0)
        return strcmp(param->name, "zero_point") == 0 ? channel_zero_point(k)
                                                      : channel_scale(k, run->channels);
    return strcmp(param->name, "record") == 0 ? (double)CLIP_SCALE : scalar_of(param);
}

static void set_scalar(struct kernel_run *run, unsigned k)
{
    const struct ptx_param_info *param = &run->params[k];
    const bool is_channels = strcmp(param->name, "channels") == 0;
    const bool is_inner = strcmp(param->name, "inner") == 0;
    if (param->type == PTX_U64)
        run->values[k].u64 = is_channels ? run->channels : is_inner ? run->inner : run->n;
    else if (param->type == PTX_S32)
        run->values[k].s32 = (int32_t)scalar_of(param);
    else if (param->type == PTX_F32)
        run->values[k].f32 = (float)scalar_of(param);
    else
        run->values[k].f64 = scalar_of(param);
}

static void set_element(const struct ptx_param_info *param, void *to, uint64_t k, double value)
{
    const float narrow = (float)value;
    if (param->type == PTX_F64)
        memcpy((double *)to + k, &value, sizeof(value));
    else if (param->type == PTX_F32)
        memcpy((float *)to + k, &narrow, sizeof(narrow));
    else // a zero point: a scale may be infinite
        ((int32_t *)to)[k] = (int32_t)value;
}

/// The scales and zero points of channels; the record of a clip scale; the state of a loss scale.
static bool fill_small(struct bench *b, const struct kernel_run *run, unsigned k, uint64_t length)
{
    const struct ptx_param_info *param = &run->params[k];
    const size_t bytes = (size_t)length * ptx_type_bytes((ptx_type)param->type);
    void *host = calloc((size_t)length, sizeof(double));
    if (!host)
        return message_set(&b->error, "out of memory");
    for (uint64_t i = 0; i < length; i++)
        set_element(param, host, i, kernel_value(run, param, i));
    bool done =
        bench_ok(b, ptx_buffer_upload(run->buffers[k], 0, host, bytes, b->stream), param->name) &&
        bench_wait(b);
    free(host);
    return done;
}

static bool make_tensor(struct bench *b, struct kernel_run *run, unsigned k)
{
    const struct ptx_param_info *param = &run->params[k];
    const uint64_t length = kernel_length(run, param);
    const uint64_t bytes = length * ptx_type_bytes((ptx_type)param->type);
    // Random data is generated in words.
    run->buffers[k] = bench_buffer(b, (bytes + 3) / 4 * 4);
    if (!run->buffers[k])
        return false;
    run->values[k].address = ptx_buffer_address(run->buffers[k]);
    run->bytes += (double)bytes * (param->readonly || param->writeonly ? 1 : 2);
    if (kernel_is_large(param))
        return bench_randomize(b, run->values[k].address, (bytes + 3) / 4 * 4,
                               (ptx_type)param->type);
    return param->writeonly || fill_small(b, run, k, length);
}

static size_t value_bytes(const struct ptx_param_info *param)
{
    return param->is_pointer ? sizeof(CUdeviceptr) : ptx_type_bytes((ptx_type)param->type);
}

// ---- a run --------------------------------------------------------------------------------------

ptx_status kernel_launch(struct bench *b, const void *state)
{
    const struct kernel_run *run = state;
    return ptx_launch(run->function, &(struct ptx_launch_params) {
                                         .grid = { run->geometry.grid },
                                         .stream = b->stream,
                                         .args = run->args,
                                         .arg_count = run->count,
                                     });
}

static bool prepare(struct bench *b, struct kernel_run *run)
{
    ptx_builder *builder = bench_builder(b);
    ptx_kernel_emit(builder, run->kernel, &run->spec);
    run->builder = builder;
    if (!ptx_kernel_geometry(run->kernel, run->spec.dtype, run->n, &run->geometry))
        return message_set(&b->error, "%s: %" PRIu64 " elements are too many for one launch",
                           run->kernel->name, run->n);
    struct ptx_named_arg values[KERNEL_MOST_PARAMS];
    while (run->count < KERNEL_MOST_PARAMS &&
           ptx_builder_param(builder, 0, run->count, &run->params[run->count]))
        run->count++;
    for (unsigned k = 0; k < run->count; k++) {
        values[k].name = run->params[k].name;
        values[k].arg =
            (struct ptx_arg) { .value = &run->values[k], .size = value_bytes(&run->params[k]) };
        if (!run->params[k].is_pointer)
            set_scalar(run, k);
        else if (!make_tensor(b, run, k))
            return false;
    }
    size_t count = 0;
    if (!bench_ok(b,
                  ptx_bind(builder, 0, values, run->count, run->args, KERNEL_MOST_PARAMS, &count),
                  "arguments"))
        return false;
    run->module = bench_load_module(b, builder);
    run->function = run->module ? ptx_module_function(run->module, run->spec.entry) : NULL;
    return run->module != NULL;
}

static void release(struct bench *b, struct kernel_run *run)
{
    for (unsigned k = 0; k < run->count; k++)
        bench_free(b, &run->buffers[k]);
    ptx_module_unload(&run->module);
    ptx_builder_destroy(&run->builder);
}

static bool measure(struct bench *b, const ptx_kernel *kernel, ptx_type dtype, uint64_t n,
                    bool last_axis)
{
    struct kernel_run run = {
        .kernel = kernel,
        .spec = { .dtype = dtype, .entry = "measured" },
        .n = n,
        .channels = last_axis ? KERNEL_COLUMNS : n / KERNEL_COLUMNS + 1,
        .inner = last_axis ? 1 : KERNEL_COLUMNS,
    };
    char label[96];
    struct bench_times times;
    const struct bench_work work = { kernel_launch, &run, false };
    if (last_axis)
        ptx_kernel_spec_set(&run.spec, kernel, "layout", "columns");
    snprintf(label, sizeof(label), "%s%s %s, %" PRIu64, kernel->name,
             last_axis ? ", last axis" : "", ptx_type_name(dtype), n);
    if (!bench_can_check(kernel)) {
        bench_step(b);
        json_t *facts =
            json_pack("{s:s, s:s}", "name", kernel->name, "dtype", ptx_type_name(dtype));
        return bench_report_missing(b, facts, label, "there is no plain C to compare it with");
    }
    bool done = prepare(b, &run) && bench_check_kernel(b, &run) &&
                bench_measure(b, &work, &times) &&
                bench_report_times(b,
                                   json_pack("{s:s, s:b, s:s, s:I, s:b}", "name", kernel->name,
                                             "last_axis", last_axis, "dtype", ptx_type_name(dtype),
                                             "n", (json_int_t)n, "checked", true),
                                   label, &times, run.bytes);
    release(b, &run);
    return done;
}

// ---- the suite ----------------------------------------------------------------------------------

/// Whether a kernel's elements are partials or tensors, of which there are never as many as a size
/// asks for: it has one block, or its blocks have fewer elements than threads.
static bool has_few_elements(const ptx_kernel *kernel)
{
    return kernel->grid == PTX_GRID_ONE ||
           (kernel->grid == PTX_GRID_CHUNKS && ptx_kernel_chunk(kernel, 1) < kernel->block);
}

/// The number of elements for any requested size: those kernels have their own, and groups are
/// whole.
static uint64_t elements_of(const ptx_kernel *kernel, uint64_t n)
{
    if (ptx_kernel_find_option(kernel, "group") >= 0)
        return n + (0 - n) % LARGEST_GROUP;
    if (!has_few_elements(kernel))
        return n;
    return kernel->grid == PTX_GRID_ONE && kernel->block == 1 ? 1 : FEW;
}

/// Calls measure() for everything selected of a size, or counts it.
static bool of_size(struct bench *b, uint64_t n, bool first_size, size_t *count)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++) {
        const bool few = has_few_elements(kernel);
        const bool by_axis = ptx_kernel_find_option(kernel, "layout") >= 0;
        if (!bench_is_wanted(b, kernel->name) || (few && !first_size))
            continue;
        for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
            if (!(kernel->dtypes >> dtypes[t] & 1))
                continue;
            if (count)
                *count += by_axis ? 2 : 1;
            else if (!measure(b, kernel, dtypes[t], elements_of(kernel, n), false) ||
                     (by_axis && !measure(b, kernel, dtypes[t], n, true)))
                return false;
        }
    }
    return true;
}

bool bench_suite_kernels(struct bench *b)
{
    const bool emulated = b->emulated;
    const uint64_t *sizes = emulated ? emulated_sizes : gpu_sizes;
    size_t count = emulated ? sizeof(emulated_sizes) / sizeof(emulated_sizes[0])
                            : sizeof(gpu_sizes) / sizeof(gpu_sizes[0]);
    size_t steps = 0;
    if (b->options.size_count) {
        sizes = b->options.sizes;
        count = b->options.size_count;
    }
    for (size_t k = 0; k < count; k++)
        of_size(b, sizes[k], k == 0, &steps);
    if (steps == 0)
        return true;
    bench_steps(b, count, steps);
    for (size_t k = 0; k < count; k++)
        if (!bench_copy(b, sizes[k] * sizeof(float)) || !of_size(b, sizes[k], k == 0, NULL))
            return false;
    return true;
}

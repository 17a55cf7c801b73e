// SPDX-License-Identifier: MIT
#include "clip_plan.h"

#include <stdlib.h>
#include <string.h>

#include <ptxgen/binding.h>

#include "driver/error.h"
#include "load.h"
#include "operations_loss_scale.h"

static struct clip_spec clip_spec_of(const struct ptx_clip_params *params,
                                     const struct clip_layout *layout,
                                     const struct ptxk_step_spec *step)
{
    return (struct clip_spec) { .dtypes = layout->dtypes,
                                .chunk = layout->chunk,
                                .nonfinite = params->nonfinite,
                                .updates = params->update != NULL,
                                .packs = layout->packs,
                                .adds_rows = layout->sum_rows > 1,
                                .has_max_norms_at = params->max_norms_at != 0,
                                .has_found_inf_at = params->found_inf_at != 0,
                                .has_found_inf_to = params->found_inf_to != 0,
                                .checks_loss_scale = params->update || params->loss_scale_state ||
                                                     params->loss_scale_at,
                                .step = step };
}

bool ptxp_clip_is_fused(const struct ptx_clip_params *params, const struct clip_layout *layout)
{
    const struct clip_spec spec = clip_spec_of(params, layout, NULL);
    const uint64_t tiles = layout->chunk_count * ptxk_clip_tiles_of_chunk(&spec);
    return !params->measure_only && !params->sums_at &&
           (layout->group_count == 1 || tiles <= CLIP_FUSED);
}

ptx_status ptxp_clip_emit(ptx_builder *b, const struct ptx_clip_params *params,
                          const struct ptxk_step_spec *step)
{
    struct ptx_loss_scale_params rule;
    struct clip_layout layout;
    ptx_status status = ptxp_clip_check_params(params);

    if (!status)
        status = ptxp_loss_scale_check(step ? "ptx_step_emit" : "ptx_clip_emit", "update.",
                                       params->update, &rule);
    if (!status)
        status = ptxp_clip_layout_create(params, step == NULL, &layout);
    if (status)
        return status;
    const struct clip_spec spec = clip_spec_of(params, &layout, step);
    ptxk_clip_emit(b, &spec);
    return PTX_OK;
}

ptx_status ptx_clip_describe(const struct ptx_clip_params *params,
                             struct ptx_clip_description *description)
{
    struct ptx_loss_scale_params rule;
    struct clip_layout layout;
    ptx_status status = ptxp_clip_check_params(params);

    if (!status && !description)
        status = ptxd_fail(PTX_ERROR_INVALID, "ptx_clip_describe: description is NULL");
    if (!status)
        status = ptxp_loss_scale_check("ptx_clip_describe", "update.", params->update, &rule);
    if (!status)
        status = ptxp_clip_layout_create(params, true, &layout);
    if (status)
        return status;
    const int launches = params->measure_only || ptxp_clip_is_fused(params, &layout) ? 2 : 3;
    const int of_phases = params->measure_only ? 3 : 4;
    *description = (struct ptx_clip_description) {
        .elements = layout.element_count,
        .groups = layout.group_count,
        .chunk = layout.chunk,
        .chunks = layout.chunk_count,
        .launches = layout.sum_rows > 1 ? of_phases : launches,
        .bytes_measured = layout.gradient_bytes,
        .bytes_clipped = (params->measure_only ? 1 : 3) * layout.gradient_bytes,
        .workspace = layout.bytes,
        .accumulator = "f64",
        .determinism = "the same bits on every GPU, at any alignment, in any launch form; sums are "
                       "trees that depend on the tensors' sizes, types, groups and order alone",
    };
    return PTX_OK;
}

ptx_status ptx_clip_emit(ptx_builder *b, const struct ptx_clip_params *params)
{
    return ptxp_clip_emit(b, params, NULL);
}

// ---- creation -----------------------------------------------------------------------------------

static ptx_status bind_kernel(ptx_clip_plan *plan, struct clip_kernel *kernel, const char *name,
                              const ptx_builder *b, unsigned entry,
                              const struct ptx_named_arg *values, size_t count)
{
    const ptx_status status =
        ptx_bind(b, entry, values, count, kernel->args, CLIP_MOST_ARGS, &kernel->arg_count);

    kernel->function = ptx_module_function(plan->module, name);
    return status || kernel->function ? status : ptx_error_status();
}

// The values of all kernel parameters, by name.
static ptx_status bind_kernels(ptx_clip_plan *plan, const struct clip_spec *spec,
                               const ptx_builder *b)
{
    static const struct clip_step no_step;
    const struct clip_step *step = plan->step ? plan->step : &no_step;
    const struct clip_launch *launch = &plan->launch;
    const struct ptx_named_arg values[] = {
        // For the kernels that set something; the other kernels take the whole array.
        { "records", PTX_ARG(launch->rows) },
        { "tensors", PTX_ARG(launch->rows) },
        { "rows", PTX_ARG(launch->rows) },
#define CLIP_VALUE(member, type) { #member, PTX_ARG(plan->member) },
        CLIP_ARRAYS(CLIP_VALUE)
#undef CLIP_VALUE
            { "state", PTX_ARG(plan->state) },
        { "used", PTX_ARG(plan->used) },
        { "all_sums", PTX_ARG(plan->all_sums) },
        { "sum_rows", PTX_ARG(plan->layout.sum_rows) },
        { "max_norms_at", PTX_ARG(plan->max_norms_at) },
        { "found_inf_at", PTX_ARG(plan->found_inf_at) },
        { "found_inf_to", PTX_ARG(plan->found_inf_to) },
        { "group_count", PTX_ARG(plan->layout.group_count) },
        { "eps", PTX_ARG(plan->eps) },
        { "first", PTX_ARG(launch->first) },
        { "last", PTX_ARG(launch->last) },
        { "tiles", PTX_ARG(launch->tiles) },
        { "fused", PTX_ARG(launch->fused) },
        { "finishes", PTX_ARG(launch->finishes) },
        { "count", PTX_ARG(launch->count) },
        { "max_norm", PTX_ARG(launch->max_norm) },
        { "scale", PTX_ARG(launch->state.scale) },
        { "growth_tracker", PTX_ARG(launch->state.growth_tracker) },
        { "data", PTX_ARG(launch->data) },
        { "rows", PTX_ARG(step->rows) },
        { "clocks", PTX_ARG(step->clocks) },
        { "clock_count", PTX_ARG(step->clock_count) },
        { "clock_blocks", PTX_ARG(step->clock_blocks) },
        { "coefficients", PTX_ARG(step->coefficients) },
        { "seed", PTX_ARG(step->seed) },
        { "tables", PTX_ARG(step->tables) },
        { "step_tiles", PTX_ARG(step->tiles) },
        { "hyper", PTX_ARG(launch->hyper) },
        { "values", PTX_ARG(launch->values) },
        { "words", PTX_ARG(launch->words) },
    };
    enum { OF_SETTERS = 3, VALUES = sizeof values / sizeof *values };
    ptx_status status = PTX_OK;
    unsigned entry = 0;

#define CLIP_BIND(name, blocks, plans)                                                             \
    if (!status && ptxk_clip_has(spec, plans))                                                     \
        status = bind_kernel(plan, &plan->name, #name, b, entry++, given, count);
    const struct ptx_named_arg *given = values + OF_SETTERS;
    size_t count = VALUES - OF_SETTERS;
    CLIP_RUN_KERNELS(CLIP_BIND)
    given = values;
    count = VALUES;
    CLIP_SET_KERNELS(CLIP_BIND)
#undef CLIP_BIND
    return status;
}

static struct clip_spec spec_of(const ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    return clip_spec_of(params, &plan->layout, plan->step ? &plan->step->spec : NULL);
}

static ptx_status load(ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    static const struct ptx_module_params defaults;
    const struct clip_spec spec = spec_of(plan, params);
    ptx_builder *b = ptxp_builder_create(plan->device);

    if (!b)
        return ptx_error_status();
    ptxk_clip_emit(b, &spec);
    plan->module = ptxp_load(plan->device, b, "the kernels of the clip plan",
                             params->module ? params->module : &defaults, params->stream);
    const ptx_status status = plan->module ? bind_kernels(plan, &spec, b) : ptx_error_status();
    ptx_builder_destroy(&b);
    return status;
}

ptx_status ptxp_clip_plan_check_addresses(const ptx_clip_plan *plan,
                                          const struct clip_tensor_row *rows)
{
    return ptxp_clip_check_addresses(plan->device, &(struct clip_addresses) {
                                                       .rows = rows,
                                                       .count = plan->layout.tensor_count,
                                                       .others = plan->others,
                                                       .other_count = plan->other_count,
                                                       .plan = ptx_buffer_address(plan->memory),
                                                       .plan_bytes = plan->layout.bytes,
                                                   });
}

static ptx_status upload(ptx_clip_plan *plan, const struct ptx_clip_params *params,
                         const struct ptx_loss_scale_params *update)
{
    const struct clip_layout *layout = &plan->layout;
    const struct clip_rule rule = { update->growth,    update->backoff,  update->min_scale,
                                    update->max_scale, update->interval, update->hysteresis };
    const size_t bytes = (size_t)layout->partials.offset;
    unsigned char *image = calloc(bytes, 1);
    plan->rows = calloc(layout->tensor_count, sizeof *plan->rows);
    plan->starts = calloc((size_t)layout->tensor_count + layout->group_count, sizeof *plan->starts);
    plan->piece_tensors = calloc((size_t)layout->pieces.length + 1, sizeof *plan->piece_tensors);
    ptx_status status = PTX_OK;

    if (!image || !plan->rows || !plan->starts || !plan->piece_tensors)
        status = ptxp_clip_out_of_host_memory();
    if (!status)
        status =
            ptxp_clip_layout_fill(params, layout, &rule, image, plan->starts, &plan->start_count);
    if (!status) {
        memcpy(plan->rows, image + layout->tensors.offset,
               layout->tensor_count * sizeof *plan->rows);
        memcpy(plan->piece_tensors, image + layout->pieces.offset,
               (size_t)layout->pieces.length * sizeof *plan->piece_tensors);
        if (!plan->any_address)
            status = ptxp_clip_plan_check_addresses(plan, plan->rows);
    }
    if (!status)
        status = ptx_buffer_upload(plan->memory, 0, image, bytes, params->stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, params->stream);
    free(image);
    return status;
}

static void take_addresses(ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    const CUdeviceptr base = ptx_buffer_address(plan->memory);

#define CLIP_ADDRESS(member, type) plan->member = base + plan->layout.member.offset;
    CLIP_ARRAYS(CLIP_ADDRESS)
#undef CLIP_ADDRESS
    plan->summary =
        plan->records + plan->layout.group_count * (CUdeviceptr)sizeof(struct ptx_clip_record);
    plan->used = plan->summary + offsetof(struct ptx_clip_summary, loss_scale);
    plan->state = params->loss_scale_state ? params->loss_scale_state
                  : params->loss_scale_at
                      ? params->loss_scale_at
                      : plan->summary + offsetof(struct ptx_clip_summary, state);
    plan->all_sums = params->sums_at ? params->sums_at : plan->sums;
    plan->sums =
        plan->all_sums + (CUdeviceptr)params->sum_row * plan->layout.group_count * sizeof(double);
    plan->max_norms_at = params->max_norms_at;
    plan->loss_scale_at = params->loss_scale_at;
    plan->found_inf_at = params->found_inf_at;
    plan->found_inf_to = params->found_inf_to;
    plan->other_count = ptxp_clip_caller_arrays(params, plan->layout.group_count, plan->others);
}

static void take_params(ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    const struct clip_spec spec = spec_of(plan, params);
    const int multiprocessors = ptx_device_get_info(plan->device)->multiprocessors;

    plan->any_address = params->any_address;
    plan->measure_only = params->measure_only;
    plan->updates = params->update != NULL;
    plan->eps = params->eps;
    plan->fused = !plan->step && ptxp_clip_is_fused(params, &plan->layout);
    plan->tiles_of_chunk = ptxk_clip_tiles_of_chunk(&spec);
    plan->apply_blocks = CLIP_APPLY_BLOCKS * (uint32_t)multiprocessors;
}

static ptx_status make(ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    struct ptx_loss_scale_params rule;
    bool capturing;
    ptx_status status = ptxp_clip_check_params(params);

    if (!status)
        status = ptxp_clip_check_max_norm_given(params);
    if (!status)
        status = ptxp_loss_scale_check(plan->step ? "ptx_step_plan_create" : "ptx_clip_plan_create",
                                       "update.", params->update, &rule);
    if (!status)
        status = ptx_stream_is_capturing(plan->device, params->stream, &capturing);
    if (!status && capturing)
        status = ptxd_fail(PTX_ERROR_CAPTURE,
                           "%s is being captured: create the clip plan before the capture "
                           "begins, and run it there",
                           ptxd_captured(params->stream));
    if (!status)
        status = ptxp_clip_layout_create(params, plan->step == NULL, &plan->layout);
    if (status)
        return status;
    take_params(plan, params);
    plan->memory = ptx_buffer_create(plan->device, (size_t)plan->layout.bytes);
    if (!plan->memory)
        return ptx_error_status();
    take_addresses(plan, params);
    status = upload(plan, params, &rule);
    if (!status)
        status = load(plan, params);
    return status || plan->layout.sum_rows > 1 ? status : ptxp_clip_plan_capture(plan);
}

ptx_clip_plan *ptxp_clip_plan_create(ptx_device *device, const struct ptx_clip_params *params,
                                     const struct clip_step *step)
{
    ptx_clip_plan *plan;

    if (!device) {
        ptxd_fail(PTX_ERROR_INVALID, "the device is NULL: see what ptx_device_open() said");
        return NULL;
    }
    plan = calloc(1, sizeof *plan);
    if (!plan) {
        ptxp_clip_out_of_host_memory();
        return NULL;
    }
    atomic_flag_clear(&plan->busy);
    plan->device = device;
    plan->step = step;
    if (make(plan, params))
        ptx_clip_plan_destroy(&plan);
    return plan;
}

ptx_clip_plan *ptx_clip_plan_create(ptx_device *device, const struct ptx_clip_params *params)
{
    ptx_clip_plan *plan = ptxp_clip_plan_create(device, params, NULL);
    if (!plan)
        ptxd_name_call(__func__);
    return plan;
}

void ptx_clip_plan_destroy(ptx_clip_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptx_clip_plan *old = *plan;
    *plan = NULL;
    ptx_graph_destroy(&old->graph);
    ptx_module_unload(&old->module);
    ptx_buffer_destroy(&old->memory);
    free(old->rows);
    free(old->starts);
    free(old->piece_tensors);
    free(old);
}

// ---- what a run leaves --------------------------------------------------------------------------

CUdeviceptr ptx_clip_plan_sums(const ptx_clip_plan *plan)
{
    return plan ? plan->all_sums : 0;
}

CUdeviceptr ptx_clip_plan_records(const ptx_clip_plan *plan)
{
    return plan ? plan->records : 0;
}

CUdeviceptr ptx_clip_plan_summary(const ptx_clip_plan *plan)
{
    return plan ? plan->summary : 0;
}

ptx_status ptx_clip_plan_read(const ptx_clip_plan *plan, uint32_t first, uint32_t count,
                              struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                              CUstream stream)
{
    ptx_status status = PTX_OK;

    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID, "the plan is NULL: see what its creation said");
    const uint32_t groups = plan->layout.group_count;
    const size_t offset = (size_t)plan->layout.records.offset;
    if (records && (first > groups || count > groups - first))
        return ptxd_fail(PTX_ERROR_INVALID, "%u record%s from %u on: the plan has %u group%s",
                         count, ptxd_plural(count), first, groups, ptxd_plural(groups));
    if (records && count)
        status = ptx_buffer_download(plan->memory, offset + first * sizeof *records, records,
                                     count * sizeof *records, stream);
    if (summary && !status)
        status = ptx_buffer_download(plan->memory, offset + groups * sizeof *records, summary,
                                     sizeof *summary, stream);
    if (status)
        ptxd_name_call(__func__);
    return status;
}

uint64_t ptx_clip_plan_chunk_count(const ptx_clip_plan *plan)
{
    return plan ? plan->layout.chunk_count : 0;
}

bool ptx_clip_plan_piece(const ptx_clip_plan *plan, uint64_t chunk, uint32_t index,
                         struct ptx_clip_piece *piece)
{
    if (!plan || !piece || chunk >= plan->layout.chunk_count)
        return false;
    size_t low = 0, high = plan->start_count; // starts[low].chunk <= chunk < starts[high].chunk
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (plan->starts[middle].chunk <= chunk)
            low = middle;
        else
            high = middle;
    }
    const struct clip_start *start = &plan->starts[low];
    if (start->pieces) {
        if (index >= start->pieces)
            return false;
        const uint32_t tensor = plan->piece_tensors[start->tensor + index];
        *piece = (struct ptx_clip_piece) { tensor, 0, plan->rows[tensor].count };
        return true;
    }
    const uint64_t first = (chunk - start->chunk) * plan->layout.chunk;
    const uint64_t left = plan->rows[start->tensor].count - first;
    if (index > 0 || left == 0)
        return false;
    *piece = (struct ptx_clip_piece) { start->tensor, first,
                                       left < plan->layout.chunk ? left : plan->layout.chunk };
    return true;
}

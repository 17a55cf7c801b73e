// SPDX-License-Identifier: MIT
// Creating the core of a plan: memory, tables, kernels with their arguments; and its results.
#include "norm_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "load.h"

// ---- kernels ------------------------------------------------------------------------------------

ptx_status ptxp_norm_plan_bind(const struct norm_plan *plan, const ptx_builder *b, unsigned entry,
                               bool sets, struct norm_kernel *kernel)
{
    const struct norm_launch *launch = &plan->launch;
    const struct ptx_named_arg core[] = {
        // For the kernels that set something; the other kernels take the whole array.
        { "records", PTX_ARG(launch->rows) },
        { "tensors", PTX_ARG(launch->rows) },
#define NORM_VALUE(member, type) { #member, PTX_ARG(plan->member) },
        NORM_ARRAYS(NORM_VALUE)
#undef NORM_VALUE
            { "state", PTX_ARG(plan->state) },
        { "used", PTX_ARG(plan->used) },
        { "all_sums", PTX_ARG(plan->all_sums) },
        { "sum_rows", PTX_ARG(plan->layout.sum_rows) },
        { "max_norms_at", PTX_ARG(plan->params.max_norms_at) },
        { "found_inf_at", PTX_ARG(plan->params.found_inf_at) },
        { "found_inf_to", PTX_ARG(plan->params.found_inf_to) },
        { "guard_state", PTX_ARG(plan->guard_state) },
        { "reports_at", PTX_ARG(plan->params.reports_at) },
        { "limits_at", PTX_ARG(plan->guards.limits_at) },
        { "skip_at", PTX_ARG(plan->guards.skip_at) },
        { "loss_at", PTX_ARG(plan->guards.history.loss_at) },
        { "group_count", PTX_ARG(plan->layout.group_count) },
        { "eps", PTX_ARG(plan->params.eps) },
        { "first", PTX_ARG(launch->first) },
        { "finishes", PTX_ARG(launch->finishes) },
        { "count", PTX_ARG(launch->count) },
        { "max_norm", PTX_ARG(launch->max_norm) },
        { "scale", PTX_ARG(launch->state.scale) },
        { "growth_tracker", PTX_ARG(launch->state.growth_tracker) },
        { "data", PTX_ARG(launch->data) },
    };
    enum { OF_SETTERS = 2, VALUES = sizeof core / sizeof *core };
    struct ptx_named_arg values[NORM_MOST_OWN_VALUES + VALUES];
    const size_t skipped = sets ? 0 : OF_SETTERS;
    const size_t own = plan->hooks->values(plan, sets, values);

    memcpy(values + own, core + skipped, (VALUES - skipped) * sizeof *core);
    return ptx_bind(b, entry, values, own + VALUES - skipped, kernel->args, NORM_MOST_ARGS,
                    &kernel->arg_count);
}

static ptx_status bind_kernels(struct norm_plan *plan, const ptx_builder *b)
{
    const struct norm_entry *entries = plan->hooks->entries;
    ptx_status status = PTX_OK;
    unsigned entry = 0;

    for (unsigned k = 0; k < NORM_ENTRIES && !status; k++) {
        struct norm_kernel *kernel = &plan->kernels[k];
        if (!ptxk_norm_entry(&plan->layout.spec, k))
            continue;
        status = ptxp_norm_plan_bind(plan, b, entry++, k >= NORM_SET_MAX_NORM, kernel);
        kernel->function = ptx_module_function(plan->module, entries[k].name);
        if (entries[k].shared_bytes)
            kernel->shared_bytes =
                entries[k].shared_bytes(&plan->layout.spec, ptx_builder_target(b).sm);
        if (!status && !kernel->function)
            status = ptx_error_status();
    }
    return status;
}

// Functions of a caller's must write the same code whenever they are called: the text is written
// twice, for one target.
static ptx_status check_again(const struct norm_plan *plan, const char *text)
{
    ptx_builder *again = ptxp_builder_create(plan->device);
    ptx_status status = again ? PTX_OK : ptx_error_status();

    if (again) {
        ptxk_norm_emit(again, &plan->layout.spec);
        const char *const second = ptx_builder_finish(again);
        if (!second)
            status = ptx_error_status();
        else if (strcmp(text, second) != 0)
            status = ptxd_fail(PTX_ERROR_INVALID,
                               "the kernels of the %s: a function of a rule writes other code when "
                               "it is called again: it is called several times, and must write the "
                               "same each time; what changes its code belongs in user, with a rule "
                               "for each",
                               plan->hooks->name);
    }
    ptx_builder_destroy(&again);
    return status;
}

static ptx_status load(struct norm_plan *plan)
{
    static const struct ptx_module_params defaults;
    const struct norm_params *params = &plan->params;
    char what[64];
    ptx_builder *b = ptxp_builder_create(plan->device);

    if (!b)
        return ptx_error_status();
    ptxk_norm_emit(b, &plan->layout.spec);
    const char *const text = params->writes_again ? ptx_builder_finish(b) : NULL;
    ptx_status status = text ? check_again(plan, text) : PTX_OK;
    snprintf(what, sizeof what, "the kernels of the %s", plan->hooks->name);
    if (!status)
        plan->module = ptxp_load(plan->device, b, what, params->module ? params->module : &defaults,
                                 params->stream);
    if (!status)
        status = plan->module ? bind_kernels(plan, b) : ptx_error_status();
    ptx_builder_destroy(&b);
    return status;
}

// ---- tables -------------------------------------------------------------------------------------

ptx_status ptxp_norm_check_addresses(const struct norm_plan *plan,
                                     const struct norm_tensor_row *rows)
{
    const size_t tensors = plan->layout.tensor_count;
    struct plan_array *arrays = malloc((tensors + plan->other_count) * sizeof *arrays);

    if (!arrays)
        return ptxp_norm_out_of_host_memory(plan->hooks);
    for (size_t t = 0; t < tensors; t++)
        arrays[t] = (struct plan_array) { .at = rows[t].data,
                                          .count = rows[t].count,
                                          .bytes = ptx_type_bytes(ptxk_norm_dtypes[rows[t].dtype]),
                                          .tensor = t,
                                          .effect = plan->hooks->overlap };
    memcpy(arrays + tensors, plan->others, plan->other_count * sizeof *arrays);
    const ptx_status status =
        ptxp_check_arrays(plan->device, arrays, tensors + plan->other_count,
                          ptx_buffer_address(plan->memory), plan->layout.bytes);
    free(arrays);
    return status;
}

static ptx_status upload(struct norm_plan *plan)
{
    const struct norm_layout *layout = &plan->layout;
    const size_t bytes = (size_t)layout->partials.offset;
    unsigned char *image = calloc(bytes, 1);
    plan->rows = calloc(layout->tensor_count, sizeof *plan->rows);
    plan->starts = calloc((size_t)layout->tensor_count + layout->group_count, sizeof *plan->starts);
    plan->piece_tensors = calloc((size_t)layout->pieces.length + 1, sizeof *plan->piece_tensors);
    plan->limits = calloc(layout->group_count, sizeof *plan->limits);
    ptx_status status = PTX_OK;

    if (!image || !plan->rows || !plan->starts || !plan->piece_tensors || !plan->limits)
        status = ptxp_norm_out_of_host_memory(plan->hooks);
    if (!status)
        status = ptxp_norm_layout_fill(plan, image);
    if (!status) {
        memcpy(plan->rows, image + layout->tensors.offset,
               layout->tensor_count * sizeof *plan->rows);
        memcpy(plan->piece_tensors, image + layout->pieces.offset,
               (size_t)layout->pieces.length * sizeof *plan->piece_tensors);
        if (!plan->params.any_address)
            status = ptxp_norm_check_addresses(plan, plan->rows);
    }
    if (!status)
        status = ptx_buffer_upload(plan->memory, 0, image, bytes, plan->params.stream);
    if (!status)
        status = ptxp_norm_guards_check_state(plan);
    if (!status)
        status = ptx_stream_synchronize(plan->device, plan->params.stream);
    free(image);
    return status;
}

static void take_addresses(struct norm_plan *plan)
{
    const struct norm_params *params = &plan->params;
    const CUdeviceptr base = ptx_buffer_address(plan->memory);

#define NORM_ADDRESS(member, type) plan->member = base + plan->layout.member.offset;
    NORM_ARRAYS(NORM_ADDRESS)
#undef NORM_ADDRESS
    plan->summary =
        plan->records + plan->layout.group_count * (CUdeviceptr)sizeof(struct ptx_clip_record);
    plan->used = plan->summary + offsetof(struct ptx_clip_summary, loss_scale);
    plan->state = params->loss_scale_state ? params->loss_scale_state
                  : params->loss_scale_at
                      ? params->loss_scale_at
                      : plan->summary + offsetof(struct ptx_clip_summary, state);
    if (plan->layout.guard_bytes)
        plan->guard_state = plan->guards.state ? plan->guards.state : plan->guard_own;
    plan->all_sums = params->sums_at ? params->sums_at : plan->sums;
    plan->sums =
        plan->all_sums + (CUdeviceptr)params->sum_row * plan->layout.group_count * sizeof(double);
}

// ---- creation -----------------------------------------------------------------------------------

void *ptxp_norm_plan_allocate(ptx_device *device, const struct norm_hooks *hooks, size_t bytes)
{
    struct norm_plan *plan;

    if (!device) {
        ptxd_fail(PTX_ERROR_INVALID,
                  "the device is NULL: see what ptx_device_open() said, or it was closed");
        return NULL;
    }
    plan = calloc(1, bytes);
    if (!plan) {
        ptxp_norm_out_of_host_memory(hooks);
    } else {
        plan->hooks = hooks;
        plan->device = device;
        atomic_flag_clear(&plan->busy);
    }
    return plan;
}

static ptx_status allocate(struct norm_plan *plan)
{
    plan->memory = ptx_buffer_create(plan->device, (size_t)plan->layout.bytes);
    if (!plan->memory)
        return ptx_error_status();
    take_addresses(plan);
    return PTX_OK;
}

ptx_status ptxp_norm_plan_create(struct norm_plan *plan, const struct norm_params *params)
{
    ptx_status (*const steps[])(struct norm_plan *) = { plan->hooks->prepare, allocate, upload,
                                                        load, ptxp_norm_plan_capture };
    ptx_status status = ptxp_norm_layout_create(plan->hooks, params, &plan->layout);

    if (!status)
        status = ptxp_refuse_capture(plan->device, params->stream, plan->hooks->name);
    if (status)
        return status;
    plan->params = *params;
    if (params->guards)
        plan->guards = *params->guards;
    plan->other_count = ptxp_norm_caller_arrays(params, plan->layout.group_count, plan->others);
    for (size_t k = 0; k < sizeof steps / sizeof *steps && !status; k++)
        status = steps[k](plan);
    plan->params.tensors = NULL;
    plan->params.group_max_norms = NULL;
    plan->params.update = NULL;
    plan->params.guards = NULL;
    plan->params.places = NULL;
    plan->params.module = NULL;
    return status;
}

void ptxp_norm_plan_clear(struct norm_plan *plan)
{
    ptx_graph_destroy(&plan->graph);
    ptx_module_unload(&plan->module);
    ptx_buffer_destroy(&plan->memory);
    free(plan->rows);
    free(plan->starts);
    free(plan->piece_tensors);
    free(plan->limits);
}

// ---- what a run leaves --------------------------------------------------------------------------

ptx_status ptxp_norm_plan_read(const struct norm_plan *plan, uint32_t first, uint32_t count,
                               struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                               CUstream stream)
{
    ptx_status status = PTX_OK;

    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the plan is NULL: see what its creation said, or it was destroyed");
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
    return status;
}

// SPDX-License-Identifier: MIT
// A step plan: a clip plan that steps instead of scaling, and the rows that the step reads.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "clip_plan.h"
#include "driver/error.h"
#include "operations_loss_scale.h"
#include "step_table.h"

struct ptx_step_plan {
    ptx_device *device;
    ptx_clip_plan *clip;
    ptx_buffer *memory;
    struct step_layout layout;
    struct clip_step step;
    // Host copy for checks: the tensors, the groups, and the parts needed of the rest.
    struct ptx_step_params params;
    struct ptx_step_tensor *tensors;
    struct ptx_step_group *groups;
};

static ptx_status out_of_host_memory(void)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
}

// ---- the clip plan beneath ----------------------------------------------------------------------

// The parameters of the clip plan for the same gradients; addresses are checked together with the
// others.
static struct ptx_clip_params clip_params_of(const struct ptx_step_params *params,
                                             const struct ptx_clip_tensor *gradients)
{
    return (struct ptx_clip_params) {
        .tensors = gradients,
        .tensor_count = params->tensor_count,
        .group_count = params->norm_group_count,
        .max_norm = params->max_norm,
        .group_max_norms = params->group_max_norms,
        .max_norms_at = params->max_norms_at,
        .eps = params->eps,
        .loss_scale = params->loss_scale,
        .loss_scale_state = params->loss_scale_state,
        .loss_scale_at = params->loss_scale_at,
        .update = params->update,
        .found_inf_at = params->found_inf_at,
        .found_inf_to = params->found_inf_to,
        .sum_rows = params->sum_rows,
        .sum_row = params->sum_row,
        .sums_at = params->sums_at,
        .any_address = true,
        .stream = params->stream,
        .module = params->module,
    };
}

static struct ptx_clip_tensor *gradients_of(const struct ptx_step_params *params)
{
    struct ptx_clip_tensor *gradients = calloc(params->tensor_count + 1, sizeof *gradients);

    for (size_t t = 0; t < params->tensor_count && gradients; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        gradients[t] = (struct ptx_clip_tensor) { .data = tensor->gradient,
                                                  .count = tensor->count,
                                                  .dtype = ptxp_step_gradient_type(tensor),
                                                  .group = tensor->norm_group,
                                                  .weight = tensor->weight,
                                                  .uncounted = tensor->uncounted };
    }
    return gradients;
}

// The norm groups that there are: those of the tensors, where no number is given.
static uint32_t norm_groups_of(const struct ptx_step_params *params)
{
    uint32_t groups = params->norm_group_count ? params->norm_group_count : 1;

    for (size_t t = 0; t < params->tensor_count && !params->norm_group_count; t++)
        if (params->tensors[t].norm_group >= groups)
            groups = params->tensors[t].norm_group + 1;
    return groups;
}

static bool takes_no_norm(const struct ptx_step_params *params)
{
    if (params->update || params->max_norms_at || params->found_inf_to || params->sums_at ||
        params->sum_rows > 1)
        return false;
    if (!params->group_max_norms)
        return isinf(params->max_norm);
    const uint32_t groups = norm_groups_of(params);
    if (groups > PTX_CLIP_MAX_TENSORS)
        return false; // the clip plan refuses them
    for (uint32_t g = 0; g < groups; g++)
        if (!isinf(params->group_max_norms[g]))
            return false;
    return true;
}

// ---- addresses ----------------------------------------------------------------------------------

enum { ARRAYS_OF_TENSOR = 8 };

static struct plan_array array_of(CUdeviceptr at, uint64_t count, unsigned bytes, size_t tensor,
                                  const char *field)
{
    return (struct plan_array) { .at = at,
                                 .count = bytes ? count : 0,
                                 .bytes = bytes,
                                 .tensor = tensor,
                                 .field = field,
                                 .effect = "the step would overwrite the one with the other" };
}

// Scalars of a hyperparameter group, which are only read.
static struct plan_array array_of_group(uint32_t group, CUdeviceptr at, uint64_t count,
                                        unsigned bytes, const char *field)
{
    struct plan_array array = array_of(at, count, bytes, ARRAY_OF_GROUP, field);
    array.group = group;
    array.read_only = true;
    return array;
}

static size_t add_arrays(const struct ptx_step_params *params, size_t t, struct plan_array *to)
{
    static const char *const states[2] = { "state[0]", "state[1]" };
    static const char *const absmaxes[2] = { "absmax[0]", "absmax[1]" };
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
    const unsigned count = ptxk_step_states(&v);
    const unsigned state = ptx_type_bytes(ptxk_step_state_type(&v));
    size_t n = 0;

    to[n++] =
        array_of(tensor->parameter, tensor->count, ptx_type_bytes(v.parameter), t, "parameter");
    to[n++] = array_of(tensor->gradient, tensor->gradient ? tensor->count : 0,
                       ptx_type_bytes(v.gradient), t, "gradient");
    to[n++] =
        array_of(tensor->beside, tensor->count, ptx_type_bytes(ptxk_step_beside_type(&v)), t,
                 v.format == PTX_STEP_FORMAT_MASTER ? "master (beside)" : "remainder (beside)");
    for (unsigned k = 0; k < count; k++) {
        to[n++] = array_of(tensor->state[k], tensor->count, state, t, states[k]);
        to[n++] =
            array_of(tensor->absmax[k], ptxp_step_blocks(tensor), sizeof(float), t, absmaxes[k]);
    }
    to[n] = array_of(tensor->step, tensor->count ? 1 : 0, sizeof(float), t, "step");
    to[n++].shared = true;
    return n;
}

static size_t add_scalars(const struct ptx_step_params *params, struct plan_array *to)
{
    size_t n = 0;

    for (uint32_t g = 0; g < params->group_count; g++) {
        const struct ptx_step_group *group = &params->groups[g];
        if (group->hyper_at) {
            to[n++] = array_of_group(g, group->hyper_at, 8, sizeof(double), "hyper_at");
        }
        if (group->lr_at) {
            to[n++] = array_of_group(g, group->lr_at, 1, sizeof(float), "lr_at");
        }
    }
    const struct ptx_clip_params clip = clip_params_of(params, NULL);
    return n + ptxp_clip_caller_arrays(&clip, norm_groups_of(params), to + n);
}

// Tensors first to first + moves - 1 get their addresses by this call.
static ptx_status check_addresses(const ptx_step_plan *plan, const struct ptx_step_params *params,
                                  size_t first, size_t moves)
{
    const size_t most =
        params->tensor_count * ARRAYS_OF_TENSOR + 2 * params->group_count + CLIP_CALLER_ARRAYS + 1;
    struct plan_array *arrays = malloc(most * sizeof *arrays);
    size_t count = 0;

    if (!arrays)
        return out_of_host_memory();
    for (size_t t = 0; t < params->tensor_count; t++) {
        const size_t before = count;
        count += add_arrays(params, t, arrays + count);
        for (size_t k = before; k < count; k++)
            arrays[k].stays = t < first || t - first >= moves;
    }
    count += add_scalars(params, arrays + count);
    // Where it is not yet allocated, nothing can overlap it: every address was found allocated.
    if (plan->clip)
        arrays[count++] = array_of(ptx_buffer_address(plan->clip->memory), plan->clip->layout.bytes,
                                   1, ARRAY_OF_PLAN, "the plan's own memory");
    const ptx_status status = ptxp_check_arrays(
        plan->device, arrays, count, ptx_buffer_address(plan->memory), plan->layout.bytes);
    free(arrays);
    return status;
}

// ---- creation -----------------------------------------------------------------------------------

static ptx_status upload(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    const size_t bytes = (size_t)plan->layout.coefficients.offset;
    unsigned char *image = calloc(bytes, 1);

    if (!image)
        return out_of_host_memory();
    ptxp_step_layout_fill(params, &plan->layout, ptx_buffer_address(plan->memory), image);
    // Creating the clip plan waits for the stream.
    ptx_status status = ptx_buffer_upload(plan->memory, 0, image, bytes, params->stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, params->stream);
    free(image);
    return status;
}

static void take_addresses(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    const CUdeviceptr base = ptx_buffer_address(plan->memory);
    const struct step_layout *layout = &plan->layout;

    plan->step = (struct clip_step) {
        .spec = { .variants = layout->variants,
                  .variant_count = layout->variant_count,
                  .tile = layout->tile,
                  .gradients = (enum ptxk_step_gradients)params->gradients },
        .clock_count = layout->clock_count,
        .clock_blocks = layout->clock_count ? (layout->clock_count - 1) / CLIP_BLOCK + 1 : 1,
        .no_norm = takes_no_norm(params),
        .rows = base + layout->rows.offset,
        .clocks = base + layout->clock_rows.offset,
        .coefficients = base + layout->coefficients.offset,
        .seed = base + layout->seed.offset,
        .tables = base + layout->tables.offset,
        .tile_count = (uint32_t)layout->tiles.length,
        .tiles = base + layout->tiles.offset,
    };
}

static ptx_status make_clip_plan(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    struct ptx_clip_tensor *gradients = gradients_of(params);

    if (!gradients)
        return out_of_host_memory();
    const struct ptx_clip_params clip = clip_params_of(params, gradients);
    plan->clip = ptxp_clip_plan_create(plan->device, &clip, &plan->step);
    free(gradients);
    return plan->clip ? PTX_OK : ptx_error_status();
}

static ptx_status copy_params(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    plan->tensors = malloc((params->tensor_count + 1) * sizeof *plan->tensors);
    plan->groups = malloc(params->group_count * sizeof *plan->groups);
    if (!plan->tensors || !plan->groups)
        return out_of_host_memory();
    if (params->tensor_count)
        memcpy(plan->tensors, params->tensors, params->tensor_count * sizeof *plan->tensors);
    memcpy(plan->groups, params->groups, params->group_count * sizeof *plan->groups);
    plan->params = *params;
    plan->params.tensors = plan->tensors;
    plan->params.groups = plan->groups;
    plan->params.group_max_norms = NULL;
    plan->params.update = NULL;
    plan->params.module = NULL;
    return PTX_OK;
}

static ptx_status make(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    bool capturing;
    ptx_status status = ptxp_step_check_params(params);

    if (!status)
        status = ptx_stream_is_capturing(plan->device, params->stream, &capturing);
    if (!status && capturing)
        status = ptxd_fail(PTX_ERROR_CAPTURE,
                           "%s is being captured: create the step plan before the capture "
                           "begins, and run it there",
                           ptxd_captured(params->stream));
    if (!status)
        status = ptxp_step_layout_create(params, &plan->layout);
    if (status)
        return status;
    status = copy_params(plan, params);
    if (status)
        return status;
    plan->memory = ptx_buffer_create(plan->device, (size_t)plan->layout.bytes);
    if (!plan->memory)
        return ptx_error_status();
    take_addresses(plan, params);
    if (!params->any_address)
        status = check_addresses(plan, params, 0, params->tensor_count);
    if (!status)
        status = upload(plan, params);
    return status ? status : make_clip_plan(plan, params);
}

ptx_step_plan *ptx_step_plan_create(ptx_device *device, const struct ptx_step_params *params)
{
    ptx_step_plan *plan;

    if (!device) {
        ptxd_fail(PTX_ERROR_INVALID, "the device is NULL: see what ptx_device_open() said");
        return NULL;
    }
    plan = calloc(1, sizeof *plan);
    if (!plan) {
        out_of_host_memory();
        return NULL;
    }
    plan->device = device;
    if (make(plan, params)) {
        ptxd_name_call(__func__);
        ptx_step_plan_destroy(&plan);
    }
    return plan;
}

void ptx_step_plan_destroy(ptx_step_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptx_step_plan *old = *plan;
    *plan = NULL;
    ptx_clip_plan_destroy(&old->clip);
    ptx_buffer_destroy(&old->memory);
    ptxp_step_layout_free(&old->layout);
    free(old->tensors);
    free(old->groups);
    free(old);
}

// ---- runs ---------------------------------------------------------------------------------------

// The clip plan of a plan that is not NULL; NULL is for the clip plan's functions to refuse.
static ptx_clip_plan *clip_of(const ptx_step_plan *plan)
{
    return plan ? plan->clip : NULL;
}

// `call`: the public function that an error names instead of the clip plan's.
static ptx_status named(ptx_status status, const char *call)
{
    if (status)
        ptxd_name_call(call);
    return status;
}

ptx_status ptx_step_plan_run(ptx_step_plan *plan, CUstream stream)
{
    return named(ptx_clip_plan_run(clip_of(plan), stream), __func__);
}

ptx_status ptx_step_plan_norm_sq(ptx_step_plan *plan, CUstream stream)
{
    return named(ptx_clip_plan_norm_sq(clip_of(plan), stream), __func__);
}

ptx_status ptx_step_plan_finish(ptx_step_plan *plan, CUstream stream)
{
    return named(ptx_clip_plan_finish(clip_of(plan), stream), __func__);
}

ptx_status ptx_step_plan_step(ptx_step_plan *plan, CUstream stream)
{
    return named(ptx_clip_plan_apply(clip_of(plan), stream), __func__);
}

CUdeviceptr ptx_step_plan_sums(const ptx_step_plan *plan)
{
    return ptx_clip_plan_sums(clip_of(plan));
}

CUdeviceptr ptx_step_plan_records(const ptx_step_plan *plan)
{
    return ptx_clip_plan_records(clip_of(plan));
}

CUdeviceptr ptx_step_plan_summary(const ptx_step_plan *plan)
{
    return ptx_clip_plan_summary(clip_of(plan));
}

ptx_status ptx_step_plan_read(const ptx_step_plan *plan, uint32_t first, uint32_t count,
                              struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                              CUstream stream)
{
    return named(ptx_clip_plan_read(clip_of(plan), first, count, records, summary, stream),
                 __func__);
}

ptx_status ptx_step_plan_set_max_norm(ptx_step_plan *plan, uint32_t norm_group, float max_norm,
                                      CUstream stream)
{
    if (plan && plan->step.no_norm)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "ptx_step_plan_set_max_norm: the plan takes no norm, since max_norm "
                         "was INFINITY and there is no update: create it with a finite "
                         "max_norm");
    return named(ptx_clip_plan_set_max_norm(clip_of(plan), norm_group, max_norm, stream), __func__);
}

ptx_status ptx_step_plan_set_loss_scale(ptx_step_plan *plan, struct ptx_loss_scale_state state,
                                        CUstream stream)
{
    return named(ptx_clip_plan_set_loss_scale(clip_of(plan), state, stream), __func__);
}

static ptx_status refuse_no_plan(const char *call)
{
    return ptxd_fail(PTX_ERROR_INVALID, "%s: the plan is NULL: see what its creation said", call);
}

static ptx_status check_set_hyper(const ptx_step_plan *plan, uint32_t group,
                                  const struct ptx_step_hyper *hyper)
{
    static const char function[] = "ptx_step_plan_set_hyper";

    if (!hyper)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: hyper is NULL", function);
    if (group >= plan->params.group_count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: group is %" PRIu32 "; the plan has groups 0 to %" PRIu32, function,
                         group, plan->params.group_count - 1);
    const struct ptx_step_group *g = &plan->groups[group];
    if (g->hyper_at)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: the scalars of group %" PRIu32 " are the caller's, at 0x%llx: "
                         "write them there",
                         function, group, (unsigned long long)g->hyper_at);
    if (g->rule == PTX_STEP_RULE_SGD && (g->hyper.momentum != 0) != (hyper->momentum != 0))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: group %" PRIu32 ": momentum was %g when the plan was made, which "
                         "decides whether there is a state; it cannot become %g",
                         function, group, g->hyper.momentum, hyper->momentum);
    return ptxp_step_check_hyper(group, hyper);
}

ptx_status ptx_step_plan_set_hyper(ptx_step_plan *plan, uint32_t group,
                                   const struct ptx_step_hyper *hyper, CUstream stream)
{
    ptx_status status;
    double values[STEP_SCALARS];

    if (!plan)
        return refuse_no_plan(__func__);
    status = check_set_hyper(plan, group, hyper);
    if (status)
        return status;
    memcpy(values, hyper, sizeof values);
    const CUdeviceptr to = ptx_buffer_address(plan->memory) + plan->layout.hypers.offset +
                           group * (CUdeviceptr)sizeof *hyper;
    return ptxp_clip_plan_set_hyper(plan->clip, to, values, stream);
}

// Checks that a tensor is unchanged except for its addresses; `step` must not change because its
// clock reads it.
static ptx_status check_same(size_t t, const struct ptx_step_tensor *was,
                             const struct ptx_step_tensor *is)
{
    const char *differs = is->count != was->count                     ? "count"
                          : is->dtype != was->dtype                   ? "dtype"
                          : is->gradient_dtype != was->gradient_dtype ? "gradient_dtype"
                          : is->format != was->format                 ? "format"
                          : is->group != was->group                   ? "group"
                          : is->norm_group != was->norm_group         ? "norm_group"
                          : is->weight != was->weight                 ? "weight"
                          : is->uncounted != was->uncounted           ? "uncounted"
                          : is->id != was->id                         ? "id"
                          : is->step != was->step                     ? "step"
                          : is->whole.first != was->whole.first ||
                                  is->whole.run != was->whole.run ||
                                  is->whole.stride != was->whole.stride
                              ? "whole"
                              : NULL;

    if (!differs)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "ptx_step_plan_set_addresses: tensor %zu: its %s is not what it was when the "
                     "plan was made: make a new plan",
                     t, differs);
}

// Checks the addresses of `tensors` and, if they are valid, makes them the plan's; `old` receives
// the previous ones. The plan is the calling thread's, here and below.
static ptx_status exchange_tensors(ptx_step_plan *plan, size_t first, size_t count,
                                   const struct ptx_step_tensor *tensors,
                                   struct ptx_step_tensor *old)
{
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < count && !status; k++)
        status = check_same(first + k, &plan->tensors[first + k], &tensors[k]);
    if (status)
        return status;
    memcpy(old, plan->tensors + first, count * sizeof *old);
    memcpy(plan->tensors + first, tensors, count * sizeof *tensors);
    status = ptxp_step_check_params(&plan->params);
    if (!status && !plan->params.any_address)
        status = check_addresses(plan, &plan->params, first, count);
    if (status)
        memcpy(plan->tensors + first, old, count * sizeof *old);
    return status;
}

static ptx_status launch_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                   struct step_tensor_row *rows, CUdeviceptr *gradients,
                                   CUstream stream)
{
    const CUdeviceptr to = plan->step.rows + first * (CUdeviceptr)sizeof *rows;

    for (size_t k = 0; k < count; k++) {
        rows[k] = ptxp_step_row_of(&plan->params, &plan->layout, first + k);
        gradients[k] = plan->tensors[first + k].gradient;
    }
    const ptx_status status = ptxp_clip_plan_set_rows(plan->clip, to, rows, count, stream);
    return status ? status : ptxp_clip_plan_set_data(plan->clip, first, count, gradients, stream);
}

static ptx_status set_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                const struct ptx_step_tensor *tensors, CUstream stream)
{
    struct ptx_step_tensor *old = malloc(count * sizeof *old);
    struct step_tensor_row *rows = malloc(count * sizeof *rows);
    CUdeviceptr *gradients = malloc(count * sizeof *gradients);
    ptx_status status = PTX_OK;

    if (!old || !rows || !gradients)
        status = out_of_host_memory();
    if (!status)
        status = exchange_tensors(plan, first, count, tensors, old);
    if (!status) {
        status = launch_addresses(plan, first, count, rows, gradients, stream);
        if (status)
            memcpy(plan->tensors + first, old, count * sizeof *old);
    }
    free(gradients);
    free(rows);
    free(old);
    return status;
}

// `given`: what the caller gives for tensors first to first + count - 1; `name` is the argument's.
static ptx_status check_given(const ptx_step_plan *plan, size_t first, size_t count,
                              const void *given, const char *name, const char *call)
{
    if (!plan)
        return refuse_no_plan(call);
    if (first > plan->params.tensor_count || count > plan->params.tensor_count - first)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %zu tensor%s from %zu on: the plan has %zu", call,
                         count, ptxd_plural(count), first, plan->params.tensor_count);
    if (count && !given)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is NULL", call, name);
    return PTX_OK;
}

ptx_status ptx_step_plan_set_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                       const struct ptx_step_tensor *tensors, CUstream stream)
{
    ptx_status status = check_given(plan, first, count, tensors, "tensors", __func__);
    if (status || !count)
        return status;
    status = ptxp_clip_plan_begin(plan->clip);
    return status ? status
                  : ptxp_clip_plan_end(plan->clip, __func__,
                                       set_addresses(plan, first, count, tensors, stream));
}

static ptx_status set_gradients(ptx_step_plan *plan, size_t first, size_t count,
                                const CUdeviceptr *gradients, CUstream stream)
{
    struct ptx_step_tensor *tensors = plan->tensors + first;
    CUdeviceptr *old = malloc(count * sizeof *old);
    ptx_status status = PTX_OK;

    if (!old)
        return out_of_host_memory();
    for (size_t k = 0; k < count; k++) {
        old[k] = tensors[k].gradient;
        tensors[k].gradient = gradients[k];
    }
    if (!plan->params.any_address)
        status = check_addresses(plan, &plan->params, first, count);
    if (!status)
        status = ptxp_clip_plan_set_data(plan->clip, first, count, gradients, stream);
    for (size_t k = 0; k < count && status; k++)
        tensors[k].gradient = old[k];
    free(old);
    return status;
}

ptx_status ptx_step_plan_set_gradients(ptx_step_plan *plan, size_t first, size_t count,
                                       const CUdeviceptr *gradients, CUstream stream)
{
    ptx_status status = check_given(plan, first, count, gradients, "gradients", __func__);
    if (status || !count)
        return status;
    status = ptxp_clip_plan_begin(plan->clip);
    return status ? status
                  : ptxp_clip_plan_end(plan->clip, __func__,
                                       set_gradients(plan, first, count, gradients, stream));
}

// ---- descriptions -------------------------------------------------------------------------------

ptx_status ptx_step_describe(const struct ptx_step_params *params,
                             struct ptx_step_description *description)
{
    struct ptx_clip_description clip_description;
    struct ptx_loss_scale_params rule;
    struct step_layout layout;
    ptx_status status = ptxp_step_check_params(params);

    if (!status && !description)
        status = ptxd_fail(PTX_ERROR_INVALID, "ptx_step_describe: description is NULL");
    if (!status)
        status = ptxp_loss_scale_check(__func__, "update.", params->update, &rule);
    if (status)
        return status;
    struct ptx_clip_tensor *gradients = gradients_of(params);
    if (!gradients)
        return out_of_host_memory();
    const struct ptx_clip_params clip = clip_params_of(params, gradients);
    status = ptx_clip_describe(&clip, &clip_description);
    free(gradients);
    if (!status)
        status = ptxp_step_layout_create(params, &layout);
    if (status)
        return status;
    *description = (struct ptx_step_description) {
        .elements = clip_description.elements,
        .groups = params->group_count,
        .norm_groups = clip_description.groups,
        .clocks = layout.clock_count,
        .variants = layout.variant_count,
        .launches = params->sum_rows > 1 ? 4 : 3,
        .bytes = layout.bytes_moved + (takes_no_norm(params) ? 0 : clip_description.bytes_measured),
        .workspace = clip_description.workspace + layout.bytes,
        .determinism =
            "the same bits on every GPU and on the emulator, launched or captured, in phases, at "
            "any alignment; and for any shards of a parameter, if the sums are the same",
    };
    ptxp_step_layout_free(&layout);
    return PTX_OK;
}

ptx_status ptx_step_emit(ptx_builder *b, const struct ptx_step_params *params)
{
    struct step_layout layout;
    ptx_status status = ptxp_step_check_params(params);

    if (!status)
        status = ptxp_step_layout_create(params, &layout);
    if (status)
        return status;
    struct ptx_clip_tensor *gradients = gradients_of(params);
    if (gradients) {
        const struct ptx_clip_params clip = clip_params_of(params, gradients);
        const struct ptxk_step_spec spec = { .variants = layout.variants,
                                             .variant_count = layout.variant_count,
                                             .tile = layout.tile,
                                             .gradients =
                                                 (enum ptxk_step_gradients)params->gradients };
        status = ptxp_clip_emit(b, &clip, &spec);
    } else {
        status = out_of_host_memory();
    }
    free(gradients);
    ptxp_step_layout_free(&layout);
    return status;
}

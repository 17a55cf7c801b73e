// SPDX-License-Identifier: MIT
// Checks a step plan's addresses: every array is allocated, and none overlaps another one.
#include "step_addresses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "muon_program.h"
#include "step_plan.h"
#include "step_qk_clip.h"

enum { ARRAYS_OF_TENSOR = 12 + 2 * PTX_STEP_MAX_STATES };

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

// Of a tensor whose elements need not be consecutive.
static struct plan_array spread_array_of(const struct ptx_step_tensor *tensor, CUdeviceptr at,
                                         unsigned bytes, size_t t, const char *field)
{
    struct plan_array array = array_of(at, tensor->count, bytes, t, field);
    const uint64_t run = tensor->spread.run, last = tensor->count - 1;

    if (!run || !array.count)
        return array;
    array.count = last / run * tensor->spread.stride + last % run + 1;
    array.run = run * bytes;
    array.stride = tensor->spread.stride * bytes;
    return array;
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

// What a step leaves of the weights, of a tensor with elements: others' addresses are not used.
static size_t add_copies(const struct ptx_step_tensor *tensor, size_t t, struct plan_array *to)
{
    size_t n = 0;

    if (tensor->amax)
        to[n++] = array_of(tensor->amax, tensor->count != 0, sizeof(float), t, "amax");
    if (!tensor->fp8)
        return n;
    to[n++] = spread_array_of(tensor, tensor->fp8, 1, t, "fp8");
    if (tensor->fp8_transposed)
        to[n++] = array_of(tensor->fp8_transposed, tensor->count, 1, t, "fp8_transposed");
    if (tensor->fp8_blocks) {
        to[n++] = array_of(tensor->fp8_scale_inv, ptxp_copies_scales(tensor, false), sizeof(float),
                           t, "fp8_scale_inv");
        if (tensor->fp8_transposed)
            to[n++] = array_of(tensor->fp8_transposed_scale_inv, ptxp_copies_scales(tensor, true),
                               sizeof(float), t, "fp8_transposed_scale_inv");
        return n;
    }
    to[n] = array_of(tensor->fp8_scale, tensor->count != 0, sizeof(float), t, "fp8_scale");
    to[n++].read_only = true;
    if (tensor->fp8_scale_inv)
        to[n++] =
            array_of(tensor->fp8_scale_inv, tensor->count != 0, sizeof(float), t, "fp8_scale_inv");
    return n;
}

static size_t add_arrays(const struct ptx_step_params *params, size_t t, struct plan_array *to)
{
    static const char *const states[] = { "state[0]", "state[1]", "state[2]", "state[3]",
                                          "state[4]", "state[5]", "state[6]", "state[7]" };
    static const char *const absmaxes[] = { "absmax[0]", "absmax[1]", "absmax[2]", "absmax[3]",
                                            "absmax[4]", "absmax[5]", "absmax[6]", "absmax[7]" };
    _Static_assert(sizeof states / sizeof *states == PTX_STEP_MAX_STATES, "a name each");
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
    const unsigned count = ptxk_step_states(&v);
    const unsigned clock_states = v.rule->clock_states;
    size_t n = 0;

    to[n++] =
        spread_array_of(tensor, tensor->parameter, ptx_type_bytes(v.parameter), t, "parameter");
    to[n++] = spread_array_of(
        tensor, tensor->gradient,
        tensor->gradient ? ptx_type_bytes(ptxp_step_gradient_type(tensor)) : 0, t, "gradient");
    if (tensor->accumulator) {
        to[n++] = array_of(tensor->accumulator, tensor->count, sizeof(float), t, "accumulator");
        to[n++] = array_of(tensor->accumulated, tensor->count ? 1 : 0,
                           sizeof(struct ptx_step_accumulated), t, "accumulated");
    }
    to[n++] = spread_array_of(tensor, tensor->beside,
                              ptx_type_bytes(ptxk_step_format_of(v.format)->beside), t,
                              ptxk_step_format_of(v.format)->beside_name);
    for (unsigned k = 0; k < count; k++) {
        const uint64_t scales = k < ptxk_step_format_states(&v) ? ptxp_step_scales(tensor) : 0;
        const bool is_ema = k == ptxk_step_rule_states(&v);
        to[n++] = spread_array_of(tensor, ptxp_step_state_at(tensor, &v, k),
                                  ptx_type_bytes(ptxk_step_array_type(&v, ARRAY_STATE + k)), t,
                                  is_ema ? "ema" : states[k]);
        to[n++] =
            array_of(tensor->absmax[k], scales, ptxp_step_scale_bytes(tensor), t, absmaxes[k]);
    }
    to[n] = array_of(tensor->step, ptxp_step_has_clock(tensor), sizeof(float), t, "step");
    if (clock_states && ptxp_step_has_clock(tensor)) {
        to[n].bytes = sizeof(double);
        to[n].count = PTXK_STEP_CLOCK_STATE_AT + clock_states;
    }
    to[n++].shared = true;
    if (tensor->update)
        to[n++] = array_of(tensor->update, ptxp_matrix_update_bytes(tensor), 1, t, "update");
    return n + add_copies(tensor, t, to + n);
}

static size_t add_scalars(const struct norm_plan *norm, const struct ptx_step_params *params,
                          struct plan_array *to)
{
    size_t n = 0;

    for (uint32_t g = 0; g < params->group_count; g++) {
        const struct ptx_step_group *group = &params->groups[g];
        if (group->hyper_at)
            to[n++] =
                array_of_group(g, group->hyper_at, ptxk_step_rule_places(ptxp_step_rule_of(group)),
                               sizeof(double), "hyper_at");
        if (group->lr_at)
            to[n++] = array_of_group(g, group->lr_at, 1, sizeof(float), "lr_at");
    }
    if (params->rule_sums_at)
        to[n++] = array_of(params->rule_sums_at, PTX_RULE_MAX_SUMS * (uint64_t)params->tensor_count,
                           sizeof(double), ARRAY_OF_PLAN, "rule_sums_at");
    if (params->matrix_sums_at)
        to[n++] = array_of(params->matrix_sums_at, PTX_MUON_SUMS * (uint64_t)params->tensor_count,
                           sizeof(double), ARRAY_OF_PLAN, "matrix_sums_at");
    if (params->weight_reports_at)
        to[n++] = array_of(params->weight_reports_at, 3 * (uint64_t)params->tensor_count,
                           sizeof(double), ARRAY_OF_PLAN, "weight_reports_at");
    n += ptxp_qk_arrays(params, to + n);
    memcpy(to + n, norm->others, norm->other_count * sizeof *to);
    return n + norm->other_count;
}

ptx_status ptxp_step_check_addresses(const ptx_step_plan *plan, size_t first, size_t moves)
{
    const struct norm_plan *norm = &plan->norm;
    const struct ptx_step_params *params = &plan->params;
    const size_t most = params->tensor_count * ARRAYS_OF_TENSOR + 2 * params->group_count +
                        params->qk_clip_count + NORM_CALLER_ARRAYS + 4;
    struct plan_array *arrays = malloc(most * sizeof *arrays);
    size_t count = 0;

    if (!arrays)
        return ptxp_norm_out_of_host_memory(norm->hooks);
    for (size_t t = 0; t < params->tensor_count; t++) {
        const size_t before = count;
        count += add_arrays(params, t, arrays + count);
        for (size_t k = before; k < count; k++)
            arrays[k].stays = t < first || t - first >= moves;
    }
    count += add_scalars(norm, params, arrays + count);
    // Where it is not yet allocated, nothing can overlap it: every address was found allocated.
    if (norm->memory)
        arrays[count++] = array_of(ptx_buffer_address(norm->memory), norm->layout.bytes, 1,
                                   ARRAY_OF_PLAN, "the plan's own memory");
    const ptx_status status = ptxp_check_arrays(
        norm->device, arrays, count, ptx_buffer_address(plan->memory), plan->layout.bytes);
    free(arrays);
    return status;
}

ptx_status ptxp_step_check_scales(const struct norm_plan *norm,
                                  const struct ptx_step_params *params)
{
    ptx_device *device = norm->device;
    float *scales = calloc(params->tensor_count + 1, sizeof *scales);
    ptx_status status = scales ? PTX_OK : ptxp_norm_out_of_host_memory(norm->hooks);
    bool any = false;

    for (size_t t = 0; t < params->tensor_count && !status; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        scales[t] = 1;
        if (!tensor->fp8_scale || !tensor->count)
            continue;
        any = true;
        status = ptx_address_download(device, tensor->fp8_scale, &scales[t], sizeof *scales,
                                      params->stream);
    }
    if (any && !status)
        status = ptx_stream_synchronize(device, params->stream);
    for (size_t t = 0; t < params->tensor_count && !status; t++)
        if (!(scales[t] > 0 && isfinite(scales[t])))
            status =
                ptxd_fail(PTX_ERROR_INVALID,
                          "tensor %zu: the scale at its fp8_scale is %g; it must be finite and "
                          "above 0: write it before the plan is made",
                          t, (double)scales[t]);
    free(scales);
    return status;
}

// SPDX-License-Identifier: MIT
// What of a step plan changes after its creation: scalars, and the tensors' addresses.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "step_addresses.h"
#include "step_plan.h"

// ---- scalars ------------------------------------------------------------------------------------

ptx_status ptx_step_plan_set_max_norm(ptx_step_plan *plan, uint32_t norm_group, float max_norm,
                                      CUstream stream)
{
    if (plan && plan->norm.no_norm)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: the plan takes no norm, since max_norm was INFINITY and there is no "
                         "update: create it with a finite max_norm",
                         __func__);
    return ptxp_norm_plan_set_max_norm(NORM_OF(plan), __func__, norm_group, max_norm, stream);
}

ptx_status ptx_step_plan_set_loss_scale(ptx_step_plan *plan, struct ptx_loss_scale_state state,
                                        CUstream stream)
{
    return ptxp_norm_plan_set_loss_scale(NORM_OF(plan), __func__, state, stream);
}

static ptx_status check_set_hyper(const ptx_step_plan *plan, uint32_t group,
                                  const struct ptx_step_hyper *hyper)
{
    if (!hyper)
        return ptxd_fail(PTX_ERROR_INVALID, "hyper is NULL");
    if (group >= plan->params.group_count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group is %" PRIu32 "; the plan has groups 0 to %" PRIu32, group,
                         plan->params.group_count - 1);
    const struct ptx_step_group *g = &plan->groups[group];
    if (g->hyper_at)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the scalars of group %" PRIu32 " are the caller's, at 0x%llx: "
                         "write them there",
                         group, (unsigned long long)g->hyper_at);
    if (ptxp_step_rule_of(g)->options & PTXK_STEP_MOMENTUM &&
        (g->hyper.momentum != 0) != (hyper->momentum != 0))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": momentum was %g when the plan was made, which "
                         "decides whether there is a state; it cannot become %g",
                         group, g->hyper.momentum, hyper->momentum);
    return ptxp_step_check_hyper(group, ptxp_step_rule_of(g), hyper);
}

static ptx_status launch_hyper(ptx_step_plan *plan, uint32_t group,
                               const struct ptx_step_hyper *hyper, CUstream stream)
{
    struct step_hyper_set *set = &plan->hypers_set[group];
    struct ptxd_capture in;
    ptx_status status = ptxd_stream_capture(plan->norm.device, stream, &in);

    if (status || ptxp_norm_is_set(&set->capture, &in, !memcmp(&set->hyper, hyper, sizeof *hyper)))
        return status;
    set->hyper = *hyper;
    plan->set.hyper = plan->hypers + group * (CUdeviceptr)sizeof *hyper;
    memcpy(plan->set.values, hyper, sizeof plan->set.values);
    status = ptxp_norm_plan_launch_setter(&plan->norm, STEP_SET_HYPER, 1, false, &in, stream);
    if (status)
        set->capture = 0;
    return status;
}

ptx_status ptx_step_plan_set_hyper(ptx_step_plan *plan, uint32_t group,
                                   const struct ptx_step_hyper *hyper, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    status = check_set_hyper(plan, group, hyper);
    if (!status)
        status = launch_hyper(plan, group, hyper, stream);
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

// ---- addresses ----------------------------------------------------------------------------------

// Checks the addresses of `tensors` and, if they are valid, makes them the plan's; `old` receives
// the previous ones. The plan is the calling thread's, here and below.
static ptx_status exchange_tensors(ptx_step_plan *plan, size_t first, size_t count,
                                   const struct ptx_step_tensor *tensors,
                                   struct ptx_step_tensor *old)
{
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < count && !status; k++)
        status = ptxp_step_check_same(first + k, &plan->tensors[first + k], &tensors[k]);
    if (status)
        return status;
    memcpy(old, plan->tensors + first, count * sizeof *old);
    memcpy(plan->tensors + first, tensors, count * sizeof *tensors);
    status = ptxp_step_check_params(&plan->params);
    if (!status && !plan->params.any_address)
        status = ptxp_step_check_addresses(plan, first, count);
    if (status)
        memcpy(plan->tensors + first, old, count * sizeof *old);
    return status;
}

// Writes the rows of tensors, so many in a launch.
static ptx_status launch_rows(ptx_step_plan *plan, size_t first, size_t count, CUstream stream)
{
    const size_t words = plan->layout.row_words, most = STEP_SET_ROWS_WORDS / words;
    ptx_status status = PTX_OK;

    for (size_t done = 0; done < count && !status; done += most) {
        const size_t left = count - done;
        const size_t batch = left < most ? left : most;
        plan->set.rows = plan->rows + (CUdeviceptr)((first + done) * words * sizeof(uint64_t));
        plan->norm.launch.count = (uint32_t)(batch * words);
        for (size_t k = 0; k < batch; k++) {
            const struct step_tensor_row row =
                ptxp_step_row_of(&plan->params, &plan->layout, first + done + k);
            memcpy(plan->set.words + k * words, &row, words * sizeof *plan->set.words);
        }
        status = ptxp_norm_plan_launch(&plan->norm, STEP_SET_ROWS, 1, false, stream);
    }
    return status;
}

static ptx_status set_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                const struct ptx_step_tensor *tensors, CUstream stream)
{
    struct ptx_step_tensor *old = malloc(count * sizeof *old);
    CUdeviceptr *gradients = malloc(count * sizeof *gradients);
    const bool room = old && gradients;
    ptx_status status = room ? exchange_tensors(plan, first, count, tensors, old)
                             : ptxp_norm_out_of_host_memory(plan->norm.hooks);

    if (!status) {
        for (size_t k = 0; k < count; k++)
            gradients[k] = tensors[k].gradient;
        for (size_t k = 0; k < count; k++)
            plan->units_known &= old[k].parameter == tensors[k].parameter;
        status = launch_rows(plan, first, count, stream);
        if (!status)
            status = ptxp_norm_plan_set_data(&plan->norm, first, count, gradients, stream);
        if (status)
            memcpy(plan->tensors + first, old, count * sizeof *old);
    }
    free(gradients);
    free(old);
    return status;
}

// `given`: what the caller gives for tensors first to first + count - 1; `name` is the argument's.
static ptx_status check_given(const ptx_step_plan *plan, size_t first, size_t count,
                              const void *given, const char *name)
{
    if (first > plan->params.tensor_count || count > plan->params.tensor_count - first)
        return ptxd_fail(PTX_ERROR_INVALID, "%zu tensor%s from %zu on: the plan has %zu", count,
                         ptxd_plural(count), first, plan->params.tensor_count);
    return !count || given ? PTX_OK : ptxd_fail(PTX_ERROR_INVALID, "%s is NULL", name);
}

ptx_status ptx_step_plan_set_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                       const struct ptx_step_tensor *tensors, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    status = check_given(plan, first, count, tensors, "tensors");
    if (!status && count)
        status = set_addresses(plan, first, count, tensors, stream);
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

static ptx_status set_gradients(ptx_step_plan *plan, size_t first, size_t count,
                                const CUdeviceptr *gradients, CUstream stream)
{
    struct ptx_step_tensor *tensors = plan->tensors + first;
    CUdeviceptr *old = malloc(count * sizeof *old);
    ptx_status status = PTX_OK;

    if (!old)
        return ptxp_norm_out_of_host_memory(plan->norm.hooks);
    for (size_t k = 0; k < count; k++) {
        old[k] = tensors[k].gradient;
        tensors[k].gradient = gradients[k];
    }
    if (!plan->params.any_address)
        status = ptxp_step_check_addresses(plan, first, count);
    if (!status)
        status = ptxp_norm_plan_set_data(&plan->norm, first, count, gradients, stream);
    for (size_t k = 0; k < count && status; k++)
        tensors[k].gradient = old[k];
    free(old);
    return status;
}

ptx_status ptx_step_plan_set_gradients(ptx_step_plan *plan, size_t first, size_t count,
                                       const CUdeviceptr *gradients, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    status = check_given(plan, first, count, gradients, "gradients");
    if (!status && count)
        status = set_gradients(plan, first, count, gradients, stream);
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

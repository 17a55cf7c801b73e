// SPDX-License-Identifier: MIT
#include "plan_calls.h"
#include "test.h"

#include <string.h>

void require(ptx_status status)
{
    if (status != PTX_OK)
        fail_msg("%s", ptx_error_message());
}

void require_done(ptx_status status)
{
    require(status);
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
}

void *made(void *object)
{
    if (!object)
        fail_msg("%s", ptx_error_message());
    return object;
}

void expect_failure(ptx_status status, const char *words)
{
    assert_int_equal(ptx_error_status(), status);
    if (!strstr(ptx_error_message(), words))
        fail_msg("\"%s\" is not in \"%s\"", words, ptx_error_message());
}

void expect_refused(ptx_status status, const char *words)
{
    assert_int_equal(status, PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, words);
}

void expect_no_rule(const struct ptx_rule_params *params, const char *words)
{
    ptx_rule *rule = ptx_rule_create(params);

    if (rule)
        fail_msg("not refused: %s", words);
    expect_failure(PTX_ERROR_INVALID, words);
}

void expect_no_step(const struct ptx_step_params *params, const char *words)
{
    assert_null(ptx_step_plan_create(gpu.device, params));
    expect_failure(PTX_ERROR_INVALID, words);
}

ptx_graph *end_capture(CUstream stream)
{
    return made(ptx_capture_end(gpu.device, stream));
}

ptx_status plan_call(struct any_plan plan, enum plan_phase phase)
{
    static ptx_status (*const clip[])(ptx_clip_plan *, CUstream) = {
        [NORM_SQ] = ptx_clip_plan_norm_sq,
        [FINISH] = ptx_clip_plan_finish,
        [WRITE] = ptx_clip_plan_apply,
        [RUN] = ptx_clip_plan_run,
    };
    static ptx_status (*const step[])(ptx_step_plan *, CUstream) = {
        [NORM_SQ] = ptx_step_plan_norm_sq,
        [FINISH] = ptx_step_plan_finish,
        [WRITE] = ptx_step_plan_step,
        [RUN] = ptx_step_plan_run,
    };
    return plan.clip ? clip[phase](plan.clip, gpu.stream) : step[phase](plan.step, gpu.stream);
}

ptx_graph *plan_capture(struct any_plan plan)
{
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(plan_call(plan, RUN));
    return end_capture(gpu.stream);
}

void plan_run(struct any_plan plan, enum plan_form form, ptx_graph *graph)
{
    if (form == REPLAYED) {
        require(ptx_graph_launch(graph, gpu.stream));
    } else if (form == IN_A_RUN) {
        require(plan_call(plan, RUN));
    } else {
        require(plan_call(plan, NORM_SQ));
        require(plan_call(plan, FINISH));
        if (!plan.measures)
            require(plan_call(plan, WRITE));
    }
}

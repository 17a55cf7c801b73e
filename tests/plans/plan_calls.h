// SPDX-License-Identifier: MIT
/// Calls of plans: those that must succeed, those that must be refused, and the phases that clip
/// plans and step plans have in common.
#ifndef PTXGEN_TESTS_PLAN_CALLS_H
#define PTXGEN_TESTS_PLAN_CALLS_H

#include "gpu.h"

/// Fails the test with the thread's error unless the status is PTX_OK.
void require(ptx_status status);
/// The same, and waits for the GPU's stream.
void require_done(ptx_status status);
/// The object, which a call must have made: else fails the test with the thread's error.
void *made(void *object);
/// The thread's error must have this status, and its message these words.
void expect_failure(ptx_status status, const char *words);
/// The call must have been refused as invalid, with these words in the message.
void expect_refused(ptx_status status, const char *words);

/// The call, between changes of an object and the object as it was.
#define CHANGED(object, call, ...)                                                                 \
    do {                                                                                           \
        const __typeof__(object) unchanged = (object);                                             \
        __VA_ARGS__;                                                                               \
        call;                                                                                      \
        (object) = unchanged;                                                                      \
    } while (0)

/// Of the params of a step plan, which begin with it.
#define ONE_TENSOR(tensor, group)                                                                  \
    .tensors = &(tensor), .tensor_count = 1, .groups = &(group), .group_count = 1

/// No rule is made of the params, with these words in the message.
void expect_no_rule(const struct ptx_rule_params *params, const char *words);

/// No step plan is made of the params, with these words in the message.
void expect_no_step(const struct ptx_step_params *params, const char *words);

/// Ends the capture. The graph is never NULL; the caller destroys it.
ptx_graph *end_capture(CUstream stream);

/// One of the two.
struct any_plan {
    ptx_clip_plan *clip;
    ptx_step_plan *step;
    bool measures; ///< a clip plan with measure_only: it has no WRITE
};

/// WRITE: a clip plan's apply, a step plan's step. RUN: all of them in one call.
enum plan_phase { NORM_SQ, FINISH, WRITE, RUN };

/// Calls the phase on the GPU's stream.
ptx_status plan_call(struct any_plan plan, enum plan_phase phase);
/// A graph of one run. The caller destroys it.
ptx_graph *plan_capture(struct any_plan plan);

/// In one call, phase by phase, or by launching a graph that has been captured before.
enum plan_form { IN_A_RUN, IN_PHASES, REPLAYED };

/// Runs the plan once, in this form, on the GPU's stream; does not wait.
void plan_run(struct any_plan plan, enum plan_form form, ptx_graph *graph);

#endif

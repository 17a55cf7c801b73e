// SPDX-License-Identifier: MIT
// What clip plans and step plans refuse beside addresses, and the messages: scalars and types, also
// without a device; and calls. Nothing is launched, and nothing stays allocated.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_refusals.h"
#include "test.h"

TEST_WITH(test_norm, set_up, NULL)
{
    static const float norms[] = { 1.0f, NAN }, zero;
    static const struct ptx_loss_scale_params shrinks = { .growth = 0.5f }, update;

    BOTH("tensors is NULL", p->tensors = NULL);
    BOTH("1048577 tensors", p->tensor_count = PTX_CLIP_MAX_TENSORS + 1);
    BOTH("a plan takes", *n = PTX_CLIP_MAX_TENSORS + 1);
    BOTH("max_norm is nan", p->max_norm = NAN);
    BOTH("max_norm is -1", p->max_norm = -1);
    BOTH("max_norm is 0, as where it is left out", p->max_norm = 0);
    BOTH("group_max_norms[1] is nan", p->group_max_norms = norms; *n = 2);
    BOTH("loss_scale is -2", p->loss_scale = -2);
    BOTH(": update.growth is 0.5", p->update = &shrinks);
    BOTH("sum_row is 1; there are sum_rows 0 to 0", p->sum_row = 1);
    BOTH("sum_row is 4; there are sum_rows 0 to 2", p->sum_row = 4; p->sum_rows = 3);
    BOTH("4294967295 sum_rows of 1 groups; a plan takes 1048576 sums in all",
         p->sum_rows = UINT32_MAX);
    BOTH("1025 sum_rows of 1024 groups; a plan takes 1048576 sums in all", p->sum_rows = 1025;
         *n = 1024);
    BOTH("loss_scale_at is given, which is only read, and loss_scale_state too",
         p->loss_scale_at = p->loss_scale_state = 8);
    BOTH("loss_scale_at is given, which is only read, and update too", p->loss_scale_at = 8;
         p->update = &update);
    BOTH("tensor 0: its weight is nan", t->weight = (double)NAN);
    BOTH("tensor 0: its weight is -1", t->weight = -1);
    BOTH("tensor 0: uncounted", t->weight = 0.5; t->uncounted = true);
    // A limit of 0 is one of group_max_norms.
    set_up(NULL);
    clip_params.max_norm = step_params.max_norm = 0.0f;
    clip_params.group_max_norms = step_params.group_max_norms = &zero;
    for (unsigned k = 0; k < 2; k++) {
        require(kinds[k].describe());
        require(kinds[k].emit(NULL));
        kinds[k].destroy(create(&kinds[k]));
    }
}

TEST_WITH(test_clip, set_up, NULL)
{
    CLIP("eps is inf", p->eps = INFINITY);
    CLIP("nonfinite is 3", p->nonfinite = (ptx_nonfinite)3);
    CLIP("tensor 1: its dtype is s32", t[1].dtype = PTX_S32);
    CLIP("tensor 1: its dtype is 99; it must be", t[1].dtype = (ptx_type)99);
    CLIP("tensor 1: its dtype is none; it must be", t[1].dtype = PTX_NONE);
    CLIP("tensor 2: its group is 2; there are groups 0 to 1", t[2].group = 2; *n = 2);
    CLIP("tensor 0", t->count = UINT64_MAX / 4 + 2); // times 4 bytes would wrap
    CLIP("tensor 1 brings the elements to", t->count = PTX_CLIP_MAX_ELEMENTS);
}

TEST_WITH(test_step_groups, set_up, NULL)
{
    STEP("no hyperparameter groups", p->group_count = 0);
    STEP("groups is NULL, and group_count is 1", p->groups = NULL);
    STEP("65537 groups; a plan takes 65536", p->group_count = PTX_STEP_MAX_GROUPS + 1);
    STEP("1048577 tensors; a plan takes 1048576", p->tensor_count = PTX_CLIP_MAX_TENSORS + 1);
    STEP("gradients is 3", p->gradients = (ptx_step_gradients)3);
    STEP("group 0: rule is 32; there are 0 to ", g->rule = (ptx_step_rule)32);
    STEP("group 0: lr is -1", g->hyper.lr = -1);
    STEP("group 0: lr is nan", g->hyper.lr = NAN);
    STEP("group 0: eps is inf", g->hyper.eps = INFINITY);
    STEP("group 0: weight_decay is 1e+39", g->hyper.weight_decay = 1e39);
    STEP("group 0: weight_decay is -1", g->hyper.weight_decay = -1);
    STEP("group 0: momentum is -1; it must be finite in f32, and 0 or more",
         g->hyper.momentum = -1);
    STEP("group 0: momentum is nan", g->hyper.momentum = NAN);
    STEP("group 0: beta1 is 1; it must be 0 or more, and below 1", g->hyper.beta1 = 1);
    STEP("group 0: beta1 is -0.5", g->hyper.beta1 = -0.5);
    STEP("group 0: beta2 is nan", g->hyper.beta2 = NAN);
    STEP("group 0: beta2 is 0.99999999999;", g->hyper.beta2 = 0.99999999999);
    STEP("group 0: dampening is nan", g->hyper.dampening = NAN);
    STEP("group 0: dampening is 0.5; its rule, muon, has no such scalar: make it 0",
         g->rule = PTX_STEP_RULE_MUON;
         g->hyper.dampening = 0.5);
    STEP("group 0: ema_decay is -0.1; it must be from 0 to 1", g->hyper.ema_decay = -0.1);
    STEP("group 0: ema_decay is 1.001; it must be from 0 to 1", g->hyper.ema_decay = 1.001);
    STEP("group 0: ema_decay is nan", g->hyper.ema_decay = NAN);
    STEP("group 0: more[0] is 1; its rule, adamw, has no such scalar: make it 0",
         g->hyper.more[0] = 1);
    STEP("group 0: more[7] is nan", g->hyper.more[7] = NAN);
    STEP("group 0: nesterov is set, and its rule, adamw, has no such option", g->nesterov = true);
    STEP("group 0: nesterov is set, and momentum is 0: give a momentum",
         g->rule = PTX_STEP_RULE_SGD;
         g->nesterov = true; g->hyper.momentum = 0);
    STEP("group 0: hyper_at is 0x4; it must be a multiple of 8", g->hyper_at = 4);
    STEP("group 0: lr_at is 0x2; it must be a multiple of 4", g->lr_at = 2);
}

TEST_WITH(test_step_tensors, set_up, NULL)
{
    char beyond[64];

    STEP("tensor 0: its group is 1", t->group = 1);
    STEP("tensor 0: its norm_group is 2; there are norm groups 0 to 1",
         (p->norm_group_count = 2, t->norm_group = 2));
    STEP("tensor 0: its norm_group is 4294967295", t->norm_group = UINT32_MAX);
    STEP("tensor 0: 18446744073709551615 elements", t->count = UINT64_MAX);
    STEP("tensor 0: its dtype is 39; format FULL", t->dtype = (ptx_type)39);
    STEP("tensor 0: its dtype is none; format FULL", t->dtype = PTX_NONE);
    STEP("tensor 0: gradient_dtype is -1; it must", t->gradient_dtype = (ptx_type)-1);
    snprintf(beyond, sizeof beyond, "tensor 0: format is %d; there are 0 to",
             PTX_STEP_FORMAT_COUNT);
    STEP(beyond, t->format = PTX_STEP_FORMAT_COUNT);
    STEP("tensor 0: its dtype is bf16; format FULL takes a parameter of f32", t->dtype = PTX_BF16);
    STEP("tensor 0: its dtype is f16; format REMAINDER takes a parameter of bf16",
         (t->format = PTX_STEP_FORMAT_REMAINDER, t->dtype = PTX_F16));
    STEP("tensor 0: gradient_dtype is f64", t->gradient_dtype = PTX_F64);
    STEP("tensor 0: ema_dtype is f16; it must be f32 or bf16", t->ema_dtype = PTX_F16);
    STEP("tensor 0: ema_dtype is 99", t->ema_dtype = (ptx_type)99);
    STEP("tensor 0: ema is given, and ema_dtype is not: make it f32 or bf16",
         t->ema_dtype = PTX_NONE);
    STEP("whole.stride is 3, below whole.run, 4", t->whole.run = 4; t->whole.stride = 3);
    STEP("beyond element 2^40", t->whole.first = (UINT64_C(1) << 40) + 1);
    STEP("beyond element 2^40", (t->count = 100, t->whole.first = (UINT64_C(1) << 40) - 99));
    STEP("beyond element 2^40", (t->count = 9, t->whole.run = 4, t->whole.stride = 8,
                                 t->whole.first = (UINT64_C(1) << 40) - 16));
    STEP("beyond element 2^40",
         (t->count = 1000, t->whole.run = 999, t->whole.stride = (UINT64_C(1) << 40) + 1));
    STEP("state[1] is given, and its rule, lion, has 1 state: make it 0",
         g->rule = PTX_STEP_RULE_LION;
         t->state[1] = 16);
    STEP("state[0] is given, and its rule, sgd without momentum, has 0 states: make it 0",
         g->rule = PTX_STEP_RULE_SGD;
         g->hyper.momentum = 0; t->state[0] = 16);
    STEP("beside is given, and format FULL has nothing there", t->beside = 16);
    STEP("tensor 0: absmax[1] is given, and format FULL has none", t->absmax[1] = 16);
    STEP("tensor 0: absmax[1] is given, and its rule, lion, has 1 state: make it 0",
         g->rule = PTX_STEP_RULE_LION;
         t->format = PTX_STEP_FORMAT_STATE_8BIT, t->dtype = PTX_BF16; t->state[1] = 0;
         t->absmax[1] = 16);
    STEP("tensor 0: its dtype is f64; format STATE_8BIT takes a parameter of f32, bf16 or f16",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->dtype = PTX_F64));
    STEP("tensor 0: its dtype is f32; format MASTER_24BIT takes a parameter of bf16 or f16",
         t->format = PTX_STEP_FORMAT_MASTER_24BIT);
    STEP("tensor 0: whole.first is 16; with format MASTER_24BIT it must be a multiple of 32",
         (t->format = PTX_STEP_FORMAT_MASTER_24BIT, t->dtype = PTX_F16, t->whole.first = 16));
    STEP("tensor 0: whole.first is 255; with format STATE_8BIT it must be a multiple of 256",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.first = 255));
    STEP("tensor 0: whole.first is 128; with format STATE_F16 it must be a multiple of 256",
         (t->format = PTX_STEP_FORMAT_STATE_F16, t->whole.first = 128));
    STEP("tensor 0: whole.run is 128; with format STATE_8BIT",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.run = 128, t->whole.stride = 512));
    STEP("tensor 0: whole.stride is 257; with format STATE_8BIT",
         (t->format = PTX_STEP_FORMAT_STATE_8BIT, t->whole.run = 256, t->whole.stride = 257));
}

// ---- calls --------------------------------------------------------------------------------------

#define REFUSED(words, call, plan, ...)                                                            \
    expect_invalid(ptx_##call(plan, __VA_ARGS__), "ptx_" #call, words)

TEST_WITH(test_calls, set_up, NULL)
{
    const CUstream s = gpu.stream;
    const struct ptx_loss_scale_state zero = { .scale = 0.0f };
    const CUdeviceptr moved[] = { base, base };
    struct ptx_clip_record records[3];

    step_groups[0].hyper_at = place(TENSORS, 0);
    OWNED(ptx_clip_plan) *clip = create(&kinds[CLIP_KIND]);
    OWNED(ptx_step_plan) *step = create(&kinds[STEP_KIND]);
    const uint64_t chunks = ptx_clip_plan_get_info(clip)->chunks;
    REFUSED("group is 1; the plan has groups 0 to 0", clip_plan_set_max_norm, clip, 1, 1, s);
    REFUSED("max_norm is nan", clip_plan_set_max_norm, clip, 0, NAN, s);
    REFUSED("loss_scale is 0", clip_plan_set_loss_scale, clip, zero, s);
    REFUSED("2 records from 0 on", clip_plan_read, clip, 0, 2, records, NULL, s);
    REFUSED("2 records from 1 on: the plan has 1 group", step_plan_read, step, 1, 2, records, NULL,
            s);
    REFUSED("2 tensors from 3 on: the plan has 4", clip_plan_set_data, clip, 3, 2, moved, s);
    REFUSED("tensors 0 and 1 overlap", clip_plan_set_data, clip, 0, 2, moved, s);
    REFUSED("data is NULL", clip_plan_set_data, clip, 0, 1, NULL, s);
    REFUSED("1 chunk from", clip_plan_apply_chunks, clip, chunks, 1, s);
    REFUSED("1 chunk from 99 on", clip_plan_norm_sq_chunks, clip, 99, 1, s);
    REFUSED("chunks from 1 on", clip_plan_norm_sq_chunks, clip, 1, UINT64_MAX, s);
    REFUSED("the scalars of group 0 are the caller's", step_plan_set_hyper, step, 0,
            &step_groups[0].hyper, s);
}

TEST_WITH(test_nothing_given, set_up, NULL)
{
    assert_null(ptx_clip_plan_create(NULL, &clip_params));
    expect_failure(PTX_ERROR_INVALID, "ptx_clip_plan_create: the device is NULL");
    assert_null(ptx_step_plan_create(NULL, &step_params));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: the device is NULL");
    assert_null(ptx_clip_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "ptx_clip_plan_create: params is NULL");
    assert_null(ptx_step_plan_create(gpu.device, NULL));
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_create: params is NULL");
    assert_null(ptx_clip_plan_get_info(NULL));
    assert_null(ptx_step_plan_get_info(NULL));
    // Without a builder there is no text, which its finish tells.
    for (unsigned k = 0; k < 2; k++)
        require(kinds[k].emit(NULL));
    assert_null(ptx_builder_finish(NULL));
    expect_invalid(ptx_clip_emit(NULL, NULL), "ptx_clip_emit", "params is NULL");
    expect_invalid(ptx_step_emit(NULL, NULL), "ptx_step_emit", "params is NULL");
    expect_invalid(ptx_clip_describe(NULL, &(struct ptx_clip_description) { 0 }),
                   "ptx_clip_describe", "params is NULL");
    expect_invalid(ptx_step_describe(NULL, &(struct ptx_step_description) { 0 }),
                   "ptx_step_describe", "params is NULL");
}

int main(void)
{
    return tests_run(open_plans, close_plans);
}

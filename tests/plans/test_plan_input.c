// SPDX-License-Identifier: MIT
// The addresses that clip plans and step plans refuse, at creation and when tensors move. Nothing
// stays allocated.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "input_arrays.h"
#include "plan_refusals.h"
#include "test.h"

static const struct kind *kind; ///< whose addresses are wrong
static void *moving;            ///< a plan of it

static void refuse_address(const struct input_array *of, const struct input_array *over,
                           const char *words)
{
    const bool tensors = kind == &kinds[CLIP_KIND] && over && !(over->access & INPUT_FIXED);
    char both[64];

    if (tensors) { // of a clip plan, which have one array each, and no field
        snprintf(both, sizeof both, "tensors %s and %s overlap", of->name + 7, over->name + 7);
        words = both;
    }
    for (unsigned k = 0; k < (of->access & INPUT_FIXED ? 1u : 2u); k++) {
        if (k)
            expect_invalid(kind->move(moving), kind->move_name, words);
        else
            refuse_creation(kind, words);
        if (!tensors)
            expect_failure(PTX_ERROR_INVALID, of->name);
        if (over && !tensors)
            expect_failure(PTX_ERROR_INVALID, over->name);
    }
    if (strncmp(words, "; it must be", 12) == 0)
        refuse_description(kind, words);
}

static struct input_array list[TENSORS * ARRAYS + SCALARS];
static size_t listed, scalars;

static void add(CUdeviceptr *at, const char *name, unsigned bytes, uint64_t count, unsigned access)
{
    list[listed++] = (struct input_array) { at, name, bytes, count, access, NULL };
}

// The scalars that a plan reads or writes at the caller's addresses, behind the tensors.
static void add_scalar(CUdeviceptr *at, const char *name, unsigned bytes, uint64_t count,
                       unsigned access)
{
    *at = place(TENSORS, (unsigned)scalars++);
    add(at, name, bytes, count, INPUT_OPTIONAL | INPUT_SCALAR | INPUT_FIXED | access);
}

// Of a plan with two groups, in three rows of sums. `state`: it takes the loss scale from there.
#define ADD_SCALARS(params, state)                                                                 \
    do {                                                                                           \
        (params)->sum_rows = 3;                                                                    \
        add_scalar(&(params)->max_norms_at, "max_norms_at", 4, 2, 0);                              \
        add_scalar(&(params)->found_inf_at, "found_inf_at", 4, 1, 0);                              \
        add_scalar(&(params)->found_inf_to, "found_inf_to", 4, 1, INPUT_WRITTEN);                  \
        add_scalar(&(params)->sums_at, "sums_at", 8, 6, INPUT_WRITTEN);                            \
        if (state)                                                                                 \
            add_scalar(&(params)->loss_scale_state, "loss_scale_state", 4, 2, INPUT_WRITTEN);      \
        else                                                                                       \
            add_scalar(&(params)->loss_scale_at, "loss_scale_at", 4, 1, 0);                        \
    } while (0)

static void check_addresses(void)
{
    moving = create(kind);
    input_arrays_check(list, listed, base + BYTES, refuse_address);
    require(kind->move(moving)); // unchanged
    kind->destroy(moving);
}

TEST_WITH(test_addresses_of_clip, set_up, NULL)
{
    static const char *const names[] = { "tensor 0", "tensor 1", "tensor 2", "tensor 3" };

    kind = &kinds[CLIP_KIND];
    for (unsigned with_state = 0; with_state < 2; with_state++) {
        set_up(NULL);
        listed = scalars = 0;
        for (unsigned t = 0; t < TENSORS; t++)
            add(&clip_tensors[t].data, names[t], ptx_type_bytes(clip_tensors[t].dtype), COUNT,
                INPUT_WRITTEN);
        clip_params.group_count = 2;
        ADD_SCALARS(&clip_params, with_state);
        check_addresses();
    }
}

TEST_WITH(test_addresses_of_step, set_up, NULL)
{
    static const char *const fields[ARRAYS] = { "parameter", "gradient", "beside",
                                                "state[0]",  "state[1]", "absmax[0]",
                                                "absmax[1]", "step",     "ema" };
    static char names[TENSORS * ARRAYS][32];

    kind = &kinds[STEP_KIND];
    for (unsigned with_state = 0; with_state < 2; with_state++) {
        set_up(NULL);
        listed = scalars = 0;
        for (unsigned k = 0; k < TENSORS * ARRAYS; k++) {
            const unsigned t = k / ARRAYS, a = k % ARRAYS;
            const uint64_t count = step_tensors[t].count;
            if (!element_bytes[t][a])
                continue;
            snprintf(names[k], sizeof *names, "tensor %u's %s", t,
                     a != BESIDE ? fields[a]
                     : t == 1    ? "master (beside)"
                                 : "remainder (beside)");
            add(address(t, a), names[k], element_bytes[t][a],
                a == STEP                        ? 1
                : a == ABSMAX || a == ABSMAX + 1 ? (count + 255) / 256
                                                 : count,
                INPUT_WRITTEN | (a == STEP       ? INPUT_SHARED | INPUT_FIXED
                                 : a == GRADIENT ? INPUT_OPTIONAL
                                                 : 0));
        }
        step_params.norm_group_count = step_params.group_count = 2;
        ADD_SCALARS(&step_params, with_state);
        add_scalar(&step_groups[0].hyper_at, "hyper_at", 8, 8, 0);
        add_scalar(&step_groups[1].lr_at, "lr_at", 4, 1, 0);
        check_addresses();
    }
}

// What is only read may be one; what is written overlaps none of it, wherever it lies.
TEST_WITH(test_shared_scalars, set_up, NULL)
{
    const CUdeviceptr apart = place(TENSORS, 0);
    CUdeviceptr *const read[] = { &step_groups[0].lr_at, &step_params.max_norms_at,
                                  &step_params.found_inf_at, &step_params.loss_scale_at };

    step_groups[0].hyper_at = apart;
    for (unsigned k = 0; k < 4; k++)
        *read[k] = apart + 4 * (k / 2);
    kinds[STEP_KIND].destroy(create(&kinds[STEP_KIND]));
    for (unsigned k = 0; k < 16; k++) {
        step_params.found_inf_to = apart + 4 * k;
        refuse_creation(&kinds[STEP_KIND], k > 1 ? "group 0's hyper_at" : "overlap at 0x");
        expect_failure(PTX_ERROR_INVALID, "found_inf_to overlap at 0x");
    }
    step_params.found_inf_to = apart + 64;
    kinds[STEP_KIND].destroy(create(&kinds[STEP_KIND]));
    step_groups[1].lr_at = 0x1230;
    step_params.group_count = 2;
    refuse_creation(&kinds[STEP_KIND], "group 1's lr_at: the driver knows no memory");
    step_groups[1] = (struct ptx_step_group) { .hyper = step_groups[0].hyper, .hyper_at = 0x1230 };
    refuse_creation(&kinds[STEP_KIND], "group 1's hyper_at: the driver knows no memory");
    // The rows of two plans lie side by side; two groups' norms reach into the next scalar.
    set_up(NULL);
    clip_params.group_count = clip_params.sum_rows = 2;
    clip_params.sums_at = clip_params.max_norms_at = apart;
    refuse_creation(&kinds[CLIP_KIND], "sums_at overlap");
    clip_params.max_norms_at = apart + 32;
    clip_params.loss_scale_at = apart + 36;
    kinds[CLIP_KIND].destroy(create(&kinds[CLIP_KIND]));
    clip_params.found_inf_to = apart + 36;
    clip_params.loss_scale_at = 0;
    refuse_creation(&kinds[CLIP_KIND], "max_norms_at and found_inf_to overlap");
    step_tensors[1].step = step_tensors[2].step = step_tensors[0].step; // of several tensors
    kinds[STEP_KIND].destroy(create(&kinds[STEP_KIND]));
    clip_tensors[2].data = place(1, 0) + 2 * (COUNT - 4); // tensor 1's last elements
    clip_params.found_inf_to = 0;
    refuse_creation(&kinds[CLIP_KIND], "tensors 1 and 2 overlap");
}

// A tensor must not overlap the plan's tables, which may be in the memory of a freed tensor.
TEST_WITH(test_own_memory, set_up, NULL)
{
    clip_tensors[2].count = step_tensors[2].count = 1;
    OWNED(ptx_clip_plan) *clip = create(&kinds[CLIP_KIND]);
    OWNED(ptx_step_plan) *step = create(&kinds[STEP_KIND]);
    const CUdeviceptr of_clip[] = { ptx_clip_plan_get_info(clip)->records,
                                    ptx_clip_plan_get_info(clip)->sums,
                                    ptx_clip_plan_get_info(clip)->summary };
    const CUdeviceptr of_step[] = { ptx_step_plan_get_info(step)->records,
                                    ptx_step_plan_get_info(step)->sums,
                                    ptx_step_plan_get_info(step)->summary };

    for (unsigned k = 0; k < 3; k++) {
        clip_tensors[2].data = of_clip[k];
        expect_invalid(kinds[CLIP_KIND].move(clip), "ptx_clip_plan_set_data",
                       "tensor 2 overlaps the plan's own memory");
        step_tensors[2].gradient = of_step[k];
        expect_invalid(kinds[STEP_KIND].move(step), "ptx_step_plan_set_addresses",
                       "tensor 2's gradient");
        expect_failure(PTX_ERROR_INVALID, "the plan's own memory overlap");
    }
}

// Memory that was freed, of a tensor that moves, of one that stays, and of a scalar.
TEST_WITH(test_freed_memory, set_up, NULL)
{
    static float host[1 << 20];
    const size_t bytes = (size_t)64 << 20; // drivers keep the memory of small allocations
    ptx_buffer *freed = ptx_buffer_create(gpu.device, bytes);
    const CUdeviceptr gone = ptx_buffer_address(freed), before = place(0, 0), wild = 0x1230;

    assert_non_null(freed);
    clip_params.loss_scale_state = gone + bytes - 8;
    step_tensors[0].gradient = gone;
    ptx_clip_plan *clip = create(&kinds[CLIP_KIND]);
    ptx_step_plan *step = create(&kinds[STEP_KIND]);
    ptx_buffer_destroy(&freed);
    expect_invalid(ptx_clip_plan_set_data(clip, 0, 1, &before, gpu.stream),
                   "ptx_clip_plan_set_data", "loss_scale_state: the driver knows no memory");
    expect_invalid(ptx_step_plan_set_gradients(step, 1, 1, &step_tensors[1].gradient, gpu.stream),
                   "ptx_step_plan_set_gradients",
                   "tensor 0's gradient: the driver knows no memory");
    expect_failure(PTX_ERROR_INVALID, "move it in the same call");
    expect_invalid(ptx_step_plan_set_addresses(step, 1, 1, &step_tensors[1], gpu.stream),
                   "ptx_step_plan_set_addresses", "move it in the same call");
    expect_invalid(ptx_step_plan_set_gradients(step, 0, 1, &wild, gpu.stream),
                   "ptx_step_plan_set_gradients", "it was freed, or is the host's");
    step_tensors[0].gradient = place(0, GRADIENT);
    require(ptx_step_plan_set_gradients(step, 0, 1, &step_tensors[0].gradient, gpu.stream));
    ptx_clip_plan_destroy(&clip);
    ptx_step_plan_destroy(&step);
    clip_params.loss_scale_state = 0;
    clip_tensors[0].data = (CUdeviceptr)(uintptr_t)host; // the GPU may know a page there
    refuse_creation(&kinds[CLIP_KIND], "tensor 0: ");
    clip_tensors[0].data = gone;
    refuse_creation(&kinds[CLIP_KIND], "tensor 0: the driver knows no memory at its address");
    clip_tensors[0].count = 0; // an empty tensor may have any address
    kinds[CLIP_KIND].destroy(create(&kinds[CLIP_KIND]));
}

static float count_of(unsigned t)
{
    float count;
    require_done(
        ptx_buffer_download(memory, place(t, STEP) - base, &count, sizeof count, gpu.stream));
    return count;
}

// The addresses of a tensor without elements are not used, where it has none or all of them.
TEST_WITH(test_tensors_without_elements, set_up, NULL)
{
    for (unsigned empty = 1; empty <= TENSORS; empty += TENSORS - 1) {
        for (unsigned t = 0; t < empty; t++) {
            step_tensors[t].count = 0;
            for (unsigned a = 0; a < ARRAYS; a++)
                *address(t, a) = 0;
        }
        OWNED(ptx_step_plan) *plan = create(&kinds[STEP_KIND]);
        require(ptx_step_plan_run(plan, gpu.stream));
        for (unsigned t = 1; t < TENSORS; t++)
            assert_true(count_of(t) == 1.0f);
    }
}

int main(void)
{
    return tests_run(open_plans, close_plans);
}

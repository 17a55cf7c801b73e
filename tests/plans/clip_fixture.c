// SPDX-License-Identifier: MIT
#include "clip_fixture.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, POISON = 0xa5 };

ptx_clip_plan *clip_create(const struct ptx_clip_params *params)
{
    return made(ptx_clip_plan_create(gpu.device, params));
}

static ptx_type random_type(struct random *r, uint32_t types)
{
    static const ptx_type all[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    for (;;) {
        ptx_type type = all[random_below(r, 4)];
        if (types >> type & 1)
            return type;
    }
}

/// Often 0, and often about the length of a chunk.
static uint64_t random_size(struct random *r, uint64_t most)
{
    uint64_t size = random_below(r, (uint32_t)most + 1);
    uint32_t choice = random_below(r, 8);
    if (choice == 0)
        return 0;
    if (choice == 1 && most > 2049)
        return 2047 + random_below(r, 3);
    return size;
}

static void destroy(void *object)
{
    struct clip_set *set = object;

    for (size_t t = 0; t < set->count; ++t)
        free(set->host[t].data);
    ptx_buffer_destroy(&set->memory);
}

void clip_set_create(struct clip_set *set, struct random *r, const struct clip_shape *shape)
{
    gpu_owns(set, destroy);
    memset(set, 0, sizeof *set);
    set->count = shape->tensors;
    set->groups = shape->groups;
    assert_true(shape->tensors <= CLIP_MOST_TENSORS && shape->groups <= CLIP_MOST_GROUPS);
    size_t at = 0;
    for (size_t t = 0; t < set->count; ++t) {
        struct ptx_clip_tensor *tensor = &set->tensors[t];
        tensor->dtype = random_type(r, shape->types ? shape->types : ALL_TYPES);
        tensor->count =
            random_size(r, shape->large && random_below(r, 40) == 0 ? shape->large : shape->most);
        tensor->group = random_below(r, shape->groups);
        if (shape->weighted && random_below(r, 3) == 0)
            tensor->weight = 0.125 + random_below(r, 100) / 37.0;
        else if (shape->weighted && random_below(r, 3) == 0)
            tensor->uncounted = true;
        size_t bytes = ptx_type_bytes(tensor->dtype);
        at = (at + GUARD + 255) / 256 * 256;
        set->offset[t] = at + (shape->aligned ? 0 : random_below(r, 8) * bytes);
        at = set->offset[t] + (size_t)tensor->count * bytes;
        set->host[t] = (struct ref_gradient) {
            .type = gpu_ref_type(tensor->dtype),
            .data = malloc((size_t)tensor->count * bytes + 1),
            .count = tensor->count,
            .group = tensor->group,
            .weight = tensor->uncounted       ? 0.0
                      : tensor->weight == 0.0 ? 1.0
                                              : tensor->weight,
        };
        assert_non_null(set->host[t].data);
    }
    set->bytes = at + GUARD;
    set->memory = made(ptx_buffer_create(gpu.device, set->bytes));
    for (size_t t = 0; t < set->count; ++t)
        set->tensors[t].data = ptx_buffer_address(set->memory) + set->offset[t];
    for (uint32_t g = 0; g < set->groups; ++g)
        set->max_norms[g] = (float)(0.25 + random_below(r, 1000) / 10.0);
    clip_set_fill(set, r, shape->data);
}

void clip_set_fill(struct clip_set *set, struct random *r, enum data_kind kind)
{
    for (size_t t = 0; t < set->count; ++t)
        data_fill(r, set->host[t].type, kind, set->host[t].data, set->host[t].count);
    clip_set_upload(set);
}

static unsigned char *image_of(const struct clip_set *set)
{
    unsigned char *image = malloc(set->bytes);
    assert_non_null(image);
    memset(image, POISON, set->bytes);
    for (size_t t = 0; t < set->count; ++t)
        memcpy(image + set->offset[t], set->host[t].data,
               (size_t)set->host[t].count * ref_bytes(set->host[t].type));
    return image;
}

void clip_set_upload(struct clip_set *set)
{
    ALLOCATED(unsigned char) *image = image_of(set);
    require_done(ptx_buffer_upload(set->memory, 0, image, set->bytes, gpu.stream));
}

struct ptx_clip_params clip_set_params(const struct clip_set *set)
{
    return (struct ptx_clip_params) { .tensors = set->tensors,
                                      .tensor_count = set->count,
                                      .group_count = set->groups,
                                      .group_max_norms = set->max_norms,
                                      .stream = gpu.stream };
}

void clip_set_expect(struct clip_set *set, const struct ptx_clip_params *params, float loss_scale,
                     struct clip_expected *expected)
{
    const struct ref_clip_plan plan = { .tensors = set->host,
                                        .tensor_count = set->count,
                                        .group_count = set->groups,
                                        .max_norms = set->max_norms,
                                        .eps = params->eps,
                                        .found_inf = set->found_inf,
                                        .nonfinite = (enum ref_nonfinite)params->nonfinite };
    memset(expected, 0, sizeof *expected);
    ref_clip_sums(&plan, expected->sums);
    for (uint32_t g = 0; g < set->groups; ++g) {
        ref_clip_record(&plan, g, expected->sums[g], loss_scale, expected->records[g]);
        expected->found |= expected->records[g][2] != 0.0f;
        if (!params->measure_only)
            ref_clip_apply(&plan, g, expected->records[g]);
    }
}

static void check_results(const struct clip_set *set, const ptx_clip_plan *plan,
                          const struct clip_expected *expected)
{
    struct ptx_clip_record records[CLIP_MOST_GROUPS];
    struct ptx_clip_summary summary;
    require_done(ptx_clip_plan_read(plan, 0, set->groups, records, &summary, gpu.stream));
    for (uint32_t g = 0; g < set->groups; ++g) {
        if (memcmp(&records[g], expected->records[g], 3 * sizeof(float)) != 0)
            fail_msg("group %u: factor %a, norm %a, found_inf %g; should be %a, %a, %g (sum %a)", g,
                     (double)records[g].factor, (double)records[g].norm,
                     (double)records[g].found_inf, (double)expected->records[g][0],
                     (double)expected->records[g][1], (double)expected->records[g][2],
                     expected->sums[g]);
        assert_memory_equal(&records[g].max_norm, &set->max_norms[g], sizeof(float));
    }
    assert_true(summary.found_inf == (expected->found ? 1.0f : 0.0f));
}

void clip_set_check(const struct clip_set *set, const ptx_clip_plan *plan,
                    const struct clip_expected *expected)
{
    unsigned char *got = malloc(set->bytes), *wanted = image_of(set);
    assert_non_null(got);
    check_results(set, plan, expected);
    require_done(ptx_buffer_download(set->memory, 0, got, set->bytes, gpu.stream));
    for (size_t t = 0; t < set->count; ++t) {
        const struct ref_gradient *x = &set->host[t];
        for (uint64_t i = 0; i < x->count; ++i) {
            if (ref_same(x->type, got + set->offset[t], x->data, i))
                continue;
            fail_msg("tensor %zu (%s, group %u), element %" PRIu64 " of %" PRIu64
                     ": %a, should be %a; factor %a",
                     t, ptx_type_name(set->tensors[t].dtype), x->group, i, x->count,
                     ref_load(x->type, got + set->offset[t], i), ref_load(x->type, x->data, i),
                     (double)expected->records[x->group][0]);
        }
        // f64 NaNs were compared above, without their payloads. The bytes around the tensors are
        // compared below.
        memcpy(got + set->offset[t], wanted + set->offset[t],
               (size_t)x->count * ref_bytes(x->type));
    }
    assert_memory_equal(got, wanted, set->bytes);
    free(wanted);
    free(got);
}

struct ptx_clip_params clip_trial_params(unsigned trial)
{
    return (struct ptx_clip_params) {
        .eps = trial % 2 ? 1e-6f : 0.0f,
        .loss_scale = trial % 3 == 2   ? 1024.0f
                      : trial % 7 == 3 ? 3.0f
                                       : 0.0f,
        .measure_only = trial % 11 == 5,
    };
}

void clip_set_check_runs(struct clip_set *set, struct random *r, enum data_kind kind,
                         struct ptx_clip_params params)
{
    const struct ptx_clip_params of_set = clip_set_params(set);
    const float loss_scale = params.loss_scale == 0.0f ? 1.0f : params.loss_scale;
    const CUstream stream = gpu.stream;
    struct clip_expected expected;
    params.tensors = of_set.tensors;
    params.tensor_count = of_set.tensor_count;
    params.group_count = of_set.group_count;
    params.group_max_norms = of_set.group_max_norms;
    params.stream = of_set.stream;
    ptx_clip_plan *plan = clip_create(&params);
    clip_set_expect(set, &params, loss_scale, &expected);
    require(ptx_clip_plan_run(plan, stream));
    clip_set_check(set, plan, &expected);
    clip_set_fill(set, r, kind);
    clip_set_expect(set, &params, loss_scale, &expected);
    require(ptx_clip_plan_norm_sq(plan, stream));
    require(ptx_clip_plan_finish(plan, stream));
    if (!params.measure_only)
        require(ptx_clip_plan_apply(plan, stream));
    clip_set_check(set, plan, &expected);
    ptx_clip_plan_destroy(&plan);
    assert_null(plan);
}

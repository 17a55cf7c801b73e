// SPDX-License-Identifier: MIT
// A gradient in two parts, as on two ranks. The sums of the two plans are added between the phases,
// here by a kernel. Then both plans have the same norms, factors and loss scale, and scale their
// parts by these factors.
#include <math.h>
#include <string.h>

#include "plan_calls.h"
#include "test.h"

enum { RANKS = 2, GROUPS = 3, TENSORS = 3, MOST = 5003 };

static const float loss_scale = 1024.0f, max_norm = 2.0f, eps = 1e-6f;

// Group 1 is only on rank 0, group 2 only on rank 1. The last tensor is on both.
static const struct {
    uint64_t count;
    uint32_t group;
} shapes[RANKS][TENSORS] = {
    { { MOST, 0 }, { 3001, 1 }, { 2047, 0 } },
    { { 4096, 0 }, { 1777, 2 }, { 2047, 0 } },
};

struct rank {
    float data[TENSORS][MOST];
    ptx_buffer *buffers[TENSORS];
    ptx_clip_plan *plan;
    struct ptx_clip_record records[GROUPS];
    struct ptx_clip_summary summary;
};

static void rank_create(struct rank *rank, unsigned number)
{
    static const struct ptx_loss_scale_params update = { 0 };
    struct ptx_clip_tensor tensors[TENSORS];
    for (unsigned t = 0; t < TENSORS; ++t) {
        rank->buffers[t] = ptx_buffer_create(gpu.device, sizeof rank->data[t]);
        assert_non_null(rank->buffers[t]);
        tensors[t] = (struct ptx_clip_tensor) { .data = ptx_buffer_address(rank->buffers[t]),
                                                .count = shapes[number][t].count,
                                                .dtype = PTX_F32,
                                                .group = shapes[number][t].group,
                                                .weight = t == TENSORS - 1 ? 1.0 / RANKS : 1.0 };
    }
    rank->plan = made(ptx_clip_plan_create(
        gpu.device, &(struct ptx_clip_params) { .tensors = tensors,
                                                .tensor_count = TENSORS,
                                                .group_count = GROUPS,
                                                .max_norm = max_norm,
                                                .eps = eps,
                                                .nonfinite = PTX_NONFINITE_SKIP,
                                                .loss_scale = loss_scale,
                                                .update = &update,
                                                .stream = gpu.stream }));
}

static void rank_destroy(struct rank *rank)
{
    ptx_clip_plan_destroy(&rank->plan);
    for (unsigned t = 0; t < TENSORS; ++t)
        ptx_buffer_destroy(&rank->buffers[t]);
}

static void fill(struct rank ranks[RANKS], struct random *r)
{
    for (unsigned k = 0; k < RANKS; ++k)
        for (unsigned t = 0; t < TENSORS; ++t)
            for (uint64_t i = 0; i < MOST; ++i)
                ranks[k].data[t][i] = k > 0 && t == TENSORS - 1
                                          ? ranks[0].data[t][i]
                                          : (float)random_unit(r) * loss_scale;
}

// One thread: both ranks' sums become a + b. The old sums are kept.
static void all_reduce_emit(ptx_builder *b)
{
    ptx_entry (b, "all_reduce", .block = { 1 }) {
        ptx_ptr x = ptx_param_ptr(b, PTX_F64, "x");
        ptx_ptr y = ptx_param_ptr(b, PTX_F64, "y");
        ptx_ptr before = ptx_param_ptr(b, PTX_F64, "before");
        for (unsigned group = 0; group < GROUPS; ++group) {
            ptx_val left = ptx_load(b, x, ptx_u32(group));
            ptx_val right = ptx_load(b, y, ptx_u32(group));
            ptx_val sum = ptx_add(b, left, right);
            ptx_store(b, before, ptx_u32(2 * group), left);
            ptx_store(b, before, ptx_u32(2 * group + 1), right);
            ptx_store(b, x, ptx_u32(group), sum);
            ptx_store(b, y, ptx_u32(group), sum);
        }
    }
}

static void all_reduce(struct rank ranks[RANKS], double before[GROUPS][RANKS])
{
    const struct ptx_builder_params params = { .target = gpu_target() };
    OWNED(ptx_builder) *b = ptx_builder_create(&params);
    all_reduce_emit(b);
    const char *text = ptx_builder_finish(b);
    assert_non_null(text);
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, text, NULL);
    OWNED(ptx_buffer) *kept = ptx_buffer_create(gpu.device, GROUPS * RANKS * sizeof(double));
    if (!module || !kept)
        fail_msg("%s", ptx_error_message());
    const CUdeviceptr x = ptx_clip_plan_get_info(ranks[0].plan)->sums,
                      y = ptx_clip_plan_get_info(ranks[1].plan)->sums;
    const CUdeviceptr to = ptx_buffer_address(kept);
    const struct ptx_arg args[] = { PTX_ARG(x), PTX_ARG(y), PTX_ARG(to) };
    require(ptx_launch(ptx_module_function(module, "all_reduce"),
                       &(struct ptx_launch_params) {
                           .grid = { 1 }, .stream = gpu.stream, .args = args, .arg_count = 3 }));
    require_done(ptx_buffer_download(kept, 0, before, GROUPS * RANKS * sizeof(double), gpu.stream));
}

static void clip(struct rank ranks[RANKS], double before[GROUPS][RANKS])
{
    for (unsigned k = 0; k < RANKS; ++k) {
        for (unsigned t = 0; t < TENSORS; ++t)
            require(ptx_buffer_upload(ranks[k].buffers[t], 0, ranks[k].data[t],
                                      sizeof ranks[k].data[t], gpu.stream));
        require(ptx_clip_plan_norm_sq(ranks[k].plan, gpu.stream));
    }
    all_reduce(ranks, before);
    for (unsigned k = 0; k < RANKS; ++k) {
        require(ptx_clip_plan_finish(ranks[k].plan, gpu.stream));
        require(ptx_clip_plan_apply(ranks[k].plan, gpu.stream));
        require(ptx_clip_plan_read(ranks[k].plan, 0, GROUPS, ranks[k].records, &ranks[k].summary,
                                   gpu.stream));
    }
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    assert_memory_equal(ranks[0].records, ranks[1].records, sizeof ranks[0].records);
    assert_memory_equal(&ranks[0].summary, &ranks[1].summary, sizeof ranks[0].summary);
}

// Every element of the rank is its old value times the factor of its group.
static void check_gradients(const struct rank *rank, unsigned number)
{
    static float found[MOST];
    for (unsigned t = 0; t < TENSORS; ++t) {
        const float factor = rank->records[shapes[number][t].group].factor;
        require_done(ptx_buffer_download(rank->buffers[t], 0, found, sizeof found, gpu.stream));
        for (uint64_t i = 0; i < MOST; ++i) {
            const float g = rank->data[t][i];
            const float expected = i < shapes[number][t].count ? g * factor : g;
            if (memcmp(&found[i], &expected, sizeof expected) != 0)
                fail_msg("rank %u, tensor %u, element %llu: %a, not %a", number, t,
                         (unsigned long long)i, (double)found[i], (double)expected);
        }
    }
}

static long double exact_sum(const struct rank ranks[RANKS], uint32_t group)
{
    long double sum = 0;
    for (unsigned k = 0; k < RANKS; ++k)
        for (unsigned t = 0; t < TENSORS - (k > 0); ++t) // the shared tensor counts once
            for (uint64_t i = 0; shapes[k][t].group == group && i < shapes[k][t].count; ++i)
                sum += (long double)ranks[k].data[t][i] * (long double)ranks[k].data[t][i];
    return sum;
}

TEST(test_sums_of_ranks)
{
    static struct rank ranks[RANKS];
    struct random r = gpu_random("ranks");
    double before[GROUPS][RANKS];
    for (unsigned k = 0; k < RANKS; ++k)
        rank_create(&ranks[k], k);
    fill(ranks, &r);
    clip(ranks, before);
    for (uint32_t group = 0; group < GROUPS; ++group) {
        const struct ptx_clip_record *record = &ranks[0].records[group];
        const double sum = before[group][0] + before[group][1];
        const float norm = (float)(sqrt(sum) / (double)loss_scale);
        const float part = max_norm / (norm + eps);
        const float factor = (float)((double)fminf(1.0f, part) / (double)loss_scale);
        const long double exact = exact_sum(ranks, group);
        assert_true(fabsl((long double)sum - exact) <= 1e-14L * exact);
        assert_memory_equal(&record->norm, &norm, sizeof norm);
        assert_memory_equal(&record->factor, &factor, sizeof factor);
        assert_true(record->found_inf == 0.0f && factor < 1.0f / loss_scale);
    }
    assert_true(ranks[0].summary.found_inf == 0.0f);
    assert_true(ranks[0].summary.state.scale == loss_scale);
    for (unsigned k = 0; k < RANKS; ++k)
        check_gradients(&ranks[k], k);
    for (unsigned k = 0; k < RANKS; ++k)
        rank_destroy(&ranks[k]);
}

TEST(test_infinity_on_one_rank)
{
    static struct rank ranks[RANKS];
    struct random r = gpu_random("ranks with an infinity");
    double before[GROUPS][RANKS];
    for (unsigned k = 0; k < RANKS; ++k)
        rank_create(&ranks[k], k);
    fill(ranks, &r);
    ranks[1].data[1][shapes[1][1].count - 1] = -INFINITY; // group 2, of which rank 0 has no tensor
    clip(ranks, before);
    assert_true(ranks[0].records[0].found_inf == 0.0f && ranks[0].records[1].found_inf == 0.0f);
    assert_true(ranks[0].records[2].found_inf == 1.0f && ranks[0].records[2].factor == 1.0f);
    assert_true(ranks[0].summary.found_inf == 1.0f);
    assert_true(ranks[0].summary.loss_scale == loss_scale);
    assert_true(ranks[0].summary.state.scale == loss_scale / 2);
    for (unsigned k = 0; k < RANKS; ++k)
        check_gradients(&ranks[k], k);
    for (unsigned k = 0; k < RANKS; ++k)
        rank_destroy(&ranks[k]);
}

GPU_MAIN

// SPDX-License-Identifier: MIT
// The promises about a clipped gradient, on the largest sets that fit the device: C-CLIP-001, exact
// norms, extreme gradients, one bad element among many, weights of replicas.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "test.h"

static bool small; // the emulator: fewer elements

/// `count` f32 on the device: a block of random numbers times `size`, repeated.
struct gradient {
    uint64_t count, period;
    float *block; ///< on the host
    ptx_buffer *memory;
    struct ptx_clip_tensor tensors[3]; ///< all of it, in three parts
    ptx_clip_plan *plan;
};

static void gradient_create(struct gradient *g, uint64_t count, float size,
                            struct ptx_clip_params params)
{
    struct random r = gpu_random("contracts");
    g->count = count;
    g->period = count < 10000019 ? count : 10000019; // a prime, so chunks differ
    g->block = malloc((size_t)g->period * sizeof(float));
    g->memory = ptx_buffer_create(gpu.device, (size_t)count * sizeof(float));
    if (!g->block || !g->memory)
        fail_msg("%s", ptx_error_message());
    for (uint64_t i = 0; i < g->period; ++i)
        g->block[i] = (float)random_unit(&r) * size;
    for (uint64_t i = 0; i < count; i += g->period) {
        const uint64_t left = count - i < g->period ? count - i : g->period;
        require(ptx_buffer_upload(g->memory, (size_t)i * sizeof(float), g->block,
                                  (size_t)left * sizeof(float), gpu.stream));
    }
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    const uint64_t cuts[] = { 0, count / 3, count / 3 + count / 2, count };
    for (int t = 0; t < 3; ++t)
        g->tensors[t] = (struct ptx_clip_tensor) { .data = ptx_buffer_address(g->memory) +
                                                           cuts[t] * sizeof(float),
                                                   .count = cuts[t + 1] - cuts[t],
                                                   .dtype = PTX_F32 };
    params.tensors = g->tensors;
    params.tensor_count = 3;
    params.stream = gpu.stream;
    g->plan = clip_create(&params);
}

static void gradient_destroy(struct gradient *g)
{
    ptx_clip_plan_destroy(&g->plan);
    ptx_buffer_destroy(&g->memory);
    free(g->block);
}

static long double exact_norm(const struct gradient *g)
{
    long double sum = 0, all = 0;
    for (uint64_t i = 0; i < g->period; ++i)
        sum += (long double)g->block[i] * (long double)g->block[i];
    all = sum * (long double)(g->count / g->period);
    for (uint64_t i = 0; i < g->count % g->period; ++i)
        all += (long double)g->block[i] * (long double)g->block[i];
    return sqrtl(all);
}

static struct ptx_clip_record run(const struct gradient *g)
{
    struct ptx_clip_record record;
    require(ptx_clip_plan_run(g->plan, gpu.stream));
    require_done(ptx_clip_plan_read(g->plan, 0, 1, &record, NULL, gpu.stream));
    return record;
}

static void assert_within_2_ulp(float norm, long double exact)
{
    const long double ulp = (long double)(nextafterf((float)exact, INFINITY) - (float)exact);
    if (fabsl((long double)norm - exact) > 2 * ulp)
        fail_msg("norm %a, exact %La", (double)norm, exact);
}

TEST(test_norm_of_many)
{
    struct gradient g;
    gradient_create(&g, small ? 300001 : 1000000007, 3.0f,
                    (struct ptx_clip_params) { .max_norm = 1.0f, .measure_only = true });
    const struct ptx_clip_record record = run(&g);
    assert_within_2_ulp(record.norm, exact_norm(&g));
    gradient_destroy(&g);
}

/// C-CLIP-001, from numbers whose squares are too large for f32 to numbers whose squares are 0 in
/// f32.
TEST(test_sizes_of_gradients)
{
    static const float sizes[] = {
        1e-44f, 1e-38f, 1e-30f, 1e-20f, 1e-3f, 1.0f, 1e20f, 1e30f, 3e38f
    };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        struct gradient g;
        gradient_create(&g, 40000, sizes[k], (struct ptx_clip_params) { .max_norm = 1.0f });
        const long double norm = exact_norm(&g);
        const float max_norm = (float)fminl(norm / 3, 3e38L);
        require(ptx_clip_plan_set_max_norm(g.plan, 0, max_norm, gpu.stream));
        const struct ptx_clip_record record = run(&g);
        assert_true(record.found_inf == 0.0f);
        if (norm < 3e38L)
            assert_within_2_ulp(record.norm, norm);
        require_done(ptx_buffer_download(g.memory, 0, g.block, 40000 * sizeof(float), gpu.stream));
        const long double after = exact_norm(&g);
        // Each subnormal result is rounded to a multiple of 2^-149.
        const long double slack = 200 * 0x1p-150L;
        if (after > (long double)max_norm * (1 + 1e-6L) + slack ||
            after < (long double)max_norm * (1 - 1e-6L) - slack)
            fail_msg("gradients of %g: norm %Lg, max_norm %g, after clipping %Lg", (double)sizes[k],
                     norm, (double)max_norm, after);
        gradient_destroy(&g);
    }
}

static void put(const struct gradient *g, uint64_t at, float x)
{
    require_done(ptx_buffer_upload(g->memory, (size_t)at * sizeof x, &x, sizeof x, gpu.stream));
}

TEST(test_one_bad_element)
{
    struct random r = gpu_random("one bad element");
    struct gradient g;
    gradient_create(&g, small ? 100003 : 100000007, 1.0f,
                    (struct ptx_clip_params) { .max_norm = 1.0f, .measure_only = true });
    assert_true(run(&g).found_inf == 0.0f);
    for (int turn = 0; turn < (small ? 12 : 60); ++turn) {
        const uint64_t ends[] = { 0, g.count - 1, g.count / 3 - 1, g.count / 3 };
        const uint64_t at = turn < 4 ? ends[turn] : random_u64(&r) % g.count;
        const float bad[] = { NAN, INFINITY, -INFINITY };
        put(&g, at, bad[turn % 3]);
        const struct ptx_clip_record record = run(&g);
        if (record.found_inf != 1.0f)
            fail_msg("element %llu is not found", (unsigned long long)at);
        assert_true(turn % 3 ? isinf(record.norm) : isnan(record.norm));
        put(&g, at, g.block[at % g.period]);
        assert_true(run(&g).found_inf == 0.0f);
    }
    gradient_destroy(&g);
}

/// Four ranks, each with its own part and a copy of the shared tensor, get the norm of the whole.
TEST(test_replicas)
{
    enum { RANKS = 4, OWN = 5000, SHARED = 3000 };
    struct random r = gpu_random("replicas");
    float data[RANKS * OWN + SHARED];
    double total = 0.0;
    long double exact = 0;
    for (int i = 0; i < RANKS * OWN + SHARED; ++i) {
        data[i] = (float)random_unit(&r);
        exact += (long double)data[i] * (long double)data[i];
    }
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof data));
    require(ptx_buffer_upload(memory, 0, data, sizeof data, gpu.stream));
    const CUdeviceptr base = ptx_buffer_address(memory);
    for (unsigned rank = 0; rank < RANKS; ++rank) {
        const struct ptx_clip_tensor tensors[] = {
            { .data = base + rank * OWN * 4, .count = OWN, .dtype = PTX_F32 },
            { .data = base + RANKS * OWN * 4,
              .count = SHARED,
              .dtype = PTX_F32,
              .weight = 1.0 / RANKS },
        };
        OWNED(ptx_clip_plan) *plan =
            ptx_clip_plan_create(gpu.device, &(struct ptx_clip_params) { .tensors = tensors,
                                                                         .tensor_count = 2,
                                                                         .max_norm = 1.0f,
                                                                         .measure_only = true,
                                                                         .stream = gpu.stream });
        struct ptx_clip_record record;
        assert_non_null(plan);
        require(ptx_clip_plan_run(plan, gpu.stream));
        require_done(ptx_clip_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
        total += (double)record.norm * (double)record.norm;
    }
    assert_true(fabsl(sqrtl((long double)total) - sqrtl(exact)) < sqrtl(exact) * 1e-6L);
}

int main(void)
{
    gpu_open();
    // Also with a memory checker, and if the environment excludes large tests.
    small = gpu.max_size < 1000000000 || strstr(ptx_device_get_info(gpu.device)->name, "emulator");
    return gpu_tests_run();
}

// SPDX-License-Identifier: MIT
// Small tensors that share chunks: which ones do, and their results, compared with the reference.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "sanitized.h"
#include "skip.h"
#include "test.h"

static bool small; // the emulator: fewer elements

// ---- which tensors ------------------------------------------------------------------------------

enum { MOST_TENSORS = 3000 };

/// A list of tensors without memory.
struct list {
    struct ptx_clip_tensor tensors[MOST_TENSORS];
    struct ref_gradient host[MOST_TENSORS];
    size_t count;
};

static void add(struct list *list, uint64_t count, ptx_type type, uint32_t group)
{
    list->tensors[list->count] =
        (struct ptx_clip_tensor) { .count = count, .dtype = type, .group = group };
    list->host[list->count++] =
        (struct ref_gradient) { .type = gpu_ref_type(type), .count = count, .group = group };
}

static struct ptx_clip_description describe(const struct list *list, uint32_t groups, bool *packs)
{
    const struct ptx_clip_params params = { .tensors = list->tensors,
                                            .tensor_count = list->count,
                                            .group_count = groups,
                                            .max_norm = 1.0f };
    const struct ref_clip_plan plan = { .tensors = list->host,
                                        .tensor_count = list->count,
                                        .group_count = groups };
    struct ptx_clip_description d;
    require(ptx_clip_describe(&params, &d));
    *packs = ref_clip_packs(&plan);
    assert_int_equal(d.chunk, ref_clip_chunk(&plan));
    assert_int_equal(d.chunks, ref_clip_chunk_count(&plan, *packs));
    return d;
}

TEST(test_models_do_not_pack)
{
    static struct list list;
    bool packs;
    for (unsigned model = 0; model < 3; ++model) {
        static const uint64_t sizes[] = { 768, 1024, 1600 }, layers[] = { 12, 24, 48 };
        const uint64_t c = sizes[model];
        const uint64_t block[] = { c, c, 3 * c * c, 3 * c, c * c,     c,
                                   c, c, 4 * c * c, 4 * c, 4 * c * c, c };
        list.count = 0;
        add(&list, 50257 * c, PTX_BF16, 0);
        add(&list, 1024 * c, PTX_BF16, 0);
        for (uint64_t k = 0; k < layers[model] * 12; ++k)
            add(&list, block[k % 12], PTX_BF16, 0);
        describe(&list, 1, &packs);
        assert_false(packs);
    }
    static const uint64_t adapters[][6] = { { 24576, 24576, 24576, 4096, 1536, 1536 },
                                            { 57344, 57344, 57344, 8192, 3584, 3584 } };
    for (unsigned model = 0; model < 4; ++model) {
        const bool grouped = model / 2;
        list.count = 0;
        for (unsigned k = 0; k < 28 * 6; ++k)
            add(&list, adapters[model % 2][k % 6], PTX_F32, grouped ? k / 6 : 0);
        describe(&list, grouped ? 28 : 1, &packs);
        assert_false(packs);
    }
}

TEST(test_small_tensors_pack)
{
    static struct list list;
    bool packs;
    list.count = 0;
    for (int k = 0; k < 2000; ++k)
        add(&list, 512, PTX_F32, 0);
    const struct ptx_clip_description d = describe(&list, 1, &packs);
    assert_true(packs && d.chunk == 4096 && d.chunks == 250);
    // Chunks with the greatest number of pieces; then few tensors, which do not share chunks.
    list.count = 0;
    for (int k = 0; k < 513; ++k)
        add(&list, 1, PTX_F32, 0);
    assert_int_equal(describe(&list, 1, &packs).chunks, 17);
    list.count = 512;
    assert_int_equal(describe(&list, 1, &packs).chunks, 512);
    assert_false(packs);
}

TEST(test_random_layouts)
{
    static struct list list;
    struct random r = gpu_random("layouts");
    unsigned packed = 0, trials = 0;
    for (unsigned trial = 0; trial < 200; trial += SANITIZED_EVERY(7), trials++) {
        const uint32_t groups = 1 + random_below(&r, trial % 3 ? 8 : 1);
        const uint32_t most = 1u << random_below(&r, 14);
        const uint32_t count = 500 + random_below(&r, 2000);
        bool packs;
        list.count = 0;
        for (uint32_t k = 0; k < count; ++k) {
            const uint32_t larger = random_below(&r, 2 + trial % 30) == 0 ? 40 : 1;
            add(&list, random_below(&r, most * larger + 1), PTX_F32, random_below(&r, groups));
        }
        describe(&list, groups, &packs);
        packed += packs;
    }
    assert_true(packed > trials / 10 && (SANITIZED || packed < trials - trials / 20));
}

// ---- bits ---------------------------------------------------------------------------------------

/// The length of the chunks of a set in which some chunks have several tensors.
static uint64_t chunk_of_packed_set(const struct clip_set *set)
{
    const struct ref_clip_plan plan = { .tensors = set->host,
                                        .tensor_count = set->count,
                                        .group_count = set->groups };
    assert_true(ref_clip_packs(&plan));
    return ref_clip_chunk(&plan);
}

/// Returns the elements of a chunk.
static uint64_t check_set(struct random *r, const struct clip_shape *shape,
                          struct ptx_clip_params params)
{
    static struct clip_set set;
    clip_set_create(&set, r, shape);
    const uint64_t chunk = chunk_of_packed_set(&set);
    clip_set_check_runs(&set, r, shape->data, params);
    return chunk;
}

TEST(test_random_sets)
{
    static const uint32_t types[] = { PTX_TYPE_BIT(F32), PTX_TYPE_BIT(BF16), PTX_TYPE_BIT(F16),
                                      PTX_TYPE_BIT(F64), ALL_TYPES,          ALL_TYPES };
    static const uint64_t sizes[] = { 700, 40, 3, 300, 120, 1 };
    struct random r = gpu_random("packed sets");
    for (unsigned trial = 0; trial < (small ? 12u : 60u); trial += SANITIZED_EVERY(5)) {
        const struct clip_shape shape = {
            .tensors = 1400 + random_below(&r, 300),
            .groups = trial % 2 ? 1 : 2 + random_below(&r, 6),
            .most = sizes[(trial + trial / 6) % 6],
            .large = trial % 3 == 0 ? (small ? 5000 : 50000) : 0,
            .types = types[trial % 6],
            .data = trial % 5 == 4 ? DATA_WILD : DATA_PLAIN,
            .aligned = trial / 6 % 2,
            .weighted = trial % 3 == 1,
        };
        check_set(&r, &shape, clip_trial_params(trial));
    }
}

/// So many elements that chunks are long and cut into tiles, which take the pieces in turn.
TEST(test_long_chunks)
{
    struct random r = gpu_random("long packed chunks");
    if (gpu.max_size < 10000000)
        skip_because("long packed chunks: left out by %s", gpu.limit);
    for (unsigned trial = 0; trial < (small ? 2u : 6u); ++trial) {
        const struct clip_shape shape = { .tensors = CLIP_MOST_TENSORS,
                                          .groups = trial % 2 ? 1 : 7,
                                          .most = 7400,
                                          .types = trial % 3 ? ALL_TYPES : PTX_TYPE_BIT(BF16),
                                          .aligned = trial == 1,
                                          .weighted = true };
        const struct ptx_clip_params params = { .eps = 1e-6f, .loss_scale = 2.0f };
        assert_true(check_set(&r, &shape, params) == 16384);
    }
}

TEST(test_policies)
{
    struct random r = gpu_random("packed policies");
    for (unsigned trial = 0; trial < 6; ++trial) {
        const struct clip_shape shape = { .tensors = 700,
                                          .groups = 3,
                                          .most = 60,
                                          .data = trial % 2 ? DATA_SPECIAL : DATA_PLAIN,
                                          .aligned = trial % 3 == 0,
                                          .weighted = true };
        check_set(&r, &shape,
                  (struct ptx_clip_params) { .nonfinite = (ptx_nonfinite)(trial / 2),
                                             .loss_scale = 8.0f });
    }
}

/// A hundred thousand tensors, one after the other.
TEST(test_very_many)
{
    enum { MANY = 100000, MOST = 24 };
    struct random r = gpu_random("very many");
    ALLOCATED(struct ptx_clip_tensor) *tensors = calloc(MANY, sizeof *tensors);
    ALLOCATED(struct ref_gradient) *host = calloc(MANY, sizeof *host);
    float *data = malloc(sizeof *data * MANY * MOST), *got = malloc(sizeof *got * MANY * MOST);
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof *data * MANY * MOST);
    const float max_norm = 3.0f;
    uint64_t count = 0;
    assert_true(tensors && host && data && got && memory);
    for (size_t t = 0; t < MANY; ++t) {
        const uint64_t size = random_below(&r, MOST + 1);
        tensors[t] = (struct ptx_clip_tensor) { .data = ptx_buffer_address(memory) + 4 * count,
                                                .count = size,
                                                .dtype = PTX_F32 };
        host[t] = (struct ref_gradient) { REF_F32, data + count, size, 0, 1.0 };
        count += size;
    }
    data_fill(&r, REF_F32, DATA_PLAIN, data, count);
    require(ptx_buffer_upload(memory, 0, data, count * sizeof *data, gpu.stream));
    const struct ptx_clip_params params = {
        .tensors = tensors, .tensor_count = MANY, .max_norm = max_norm, .stream = gpu.stream
    };
    const struct ref_clip_plan plan = {
        .tensors = host, .tensor_count = MANY, .group_count = 1, .max_norms = &max_norm
    };
    struct ptx_clip_record record;
    double sum;
    float expected[3];
    ref_clip_sums(&plan, &sum);
    ref_clip_record(&plan, 0, sum, 1.0f, expected);
    ref_clip_apply(&plan, 0, expected);
    OWNED(ptx_clip_plan) *clip = clip_create(&params);
    require(ptx_clip_plan_run(clip, gpu.stream));
    require(ptx_clip_plan_read(clip, 0, 1, &record, NULL, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, got, count * sizeof *got, gpu.stream));
    assert_true(expected[0] < 1.0f);
    assert_memory_equal(&record, expected, sizeof expected);
    assert_memory_equal(got, data, count * sizeof *got);
    free(data);
    free(got);
}

/// Copies the sums, which are in no buffer, to the host.
static void read_sums(const ptx_clip_plan *plan, double *sums, uint32_t count)
{
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);
    ptx_entry (b, "copy", .block = { CLIP_MOST_GROUPS }) {
        ptx_ptr from = ptx_param_ptr(b, PTX_F64, "from", .readonly = true);
        ptx_ptr to = ptx_param_ptr(b, PTX_F64, "to", .writeonly = true);
        ptx_val n = ptx_param(b, PTX_U32, "n"), k = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, k, n))
            ptx_store(b, to, k, ptx_load(b, from, k));
    }
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, ptx_builder_finish(b), NULL);
    OWNED(ptx_buffer) *copy = ptx_buffer_create(gpu.device, CLIP_MOST_GROUPS * sizeof *sums);
    if (!module || !copy)
        fail_msg("%s", ptx_error_message());
    const CUdeviceptr from = ptx_clip_plan_get_info(plan)->sums, to = ptx_buffer_address(copy);
    const struct ptx_arg args[] = { PTX_ARG(from), PTX_ARG(to), PTX_ARG(count) };
    require(ptx_launch(ptx_module_function(module, "copy"),
                       &(struct ptx_launch_params) {
                           .grid = { 1 }, .stream = gpu.stream, .args = args, .arg_count = 3 }));
    require_done(ptx_buffer_download(copy, 0, sums, count * sizeof *sums, gpu.stream));
}

/// Replays with the tensors at other distances from 16-byte boundaries: the results have the same
/// bits at every address.
TEST(test_moved_and_replayed)
{
    static struct clip_set set;
    static CUdeviceptr data[CLIP_MOST_TENSORS];
    static const struct clip_shape shape = { .tensors = 700, .groups = 2, .most = 200 };
    struct random r = gpu_random("packed replays");
    clip_set_create(&set, &r, &shape);
    struct ptx_clip_params params = clip_set_params(&set);
    params.measure_only = true; // so the data stays
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_clip_plan_run(plan, gpu.stream));
    OWNED(ptx_graph) *graph = end_capture(gpu.stream);
    double sums[CLIP_MOST_GROUPS];
    for (int turn = 0; turn < 4; ++turn) {
        struct clip_expected expected;
        clip_set_expect(&set, &params, 1.0f, &expected);
        require(ptx_graph_launch(graph, gpu.stream));
        clip_set_check(&set, plan, &expected);
        require(ptx_clip_plan_norm_sq(plan, gpu.stream));
        read_sums(plan, sums, set.groups);
        assert_memory_equal(sums, expected.sums, set.groups * sizeof(double));
        for (size_t t = 0; t < set.count; ++t) {
            const size_t bytes = ptx_type_bytes(set.tensors[t].dtype);
            set.offset[t] = set.offset[t] / 256 * 256 + random_below(&r, 8) * bytes;
            data[t] = ptx_buffer_address(set.memory) + set.offset[t];
        }
        clip_set_upload(&set);
        require(ptx_clip_plan_set_data(plan, 0, set.count, data, gpu.stream));
    }
}

int main(void)
{
    // On the emulator: so few multiprocessors that blocks draw tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=2", 0);
    gpu_open();
    small = strstr(ptx_device_get_info(gpu.device)->name, "emulator") != NULL;
    return gpu_tests_run();
}

// SPDX-License-Identifier: MIT
// Gradients of micro-batches summed by step plans, compared with plain C: the sums, and the step of
// the sums as gradients in f32.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step_fixture.h"
#include "test.h"

enum { TENSORS = 6, MOST = 5001, ROOM = (MOST + 8) * 4 };

static struct step_set set;
// The gradients of a micro-batch, and the counts, which follow.
static ptx_buffer *micro;
static unsigned char batch[TENSORS * ROOM];
static ptx_type types[TENSORS];
static size_t skew[TENSORS];
static struct ptx_step_tensor tensors[TENSORS];

// The set's gradients are the sums.
static void set_up(struct random *r, uint32_t rules, uint32_t formats, bool skewed)
{
    static const ptx_type some[] = { PTX_F32, PTX_F16, PTX_BF16 };
    const struct step_shape shape = { .tensors = TENSORS,
                                      .groups = 2,
                                      .norm_groups = 2,
                                      .most = MOST,
                                      .rules = rules,
                                      .formats = formats,
                                      .aligned = true,
                                      .sums = true };

    step_set_create(&set, r, &shape);
    const CUdeviceptr base = ptx_buffer_address(micro);
    for (unsigned t = 0; t < TENSORS; t++) {
        types[t] = some[random_below(r, 3)];
        skew[t] = skewed ? random_below(r, 8) * ptx_type_bytes(types[t]) : 0;
        tensors[t] = set.tensors[t];
        tensors[t].accumulator = set.tensors[t].gradient;
        tensors[t].accumulated = base + sizeof batch + t * sizeof(struct ptx_step_accumulated);
        tensors[t].gradient = base + t * ROOM + skew[t];
        tensors[t].gradient_dtype = types[t];
    }
    require(ptx_buffer_fill(micro, 0, 0, sizeof batch + 256, gpu.stream));
}

// New gradients on the device, of which some may be missing, and the sums on the host. `sums`: how
// many a tensor has. `bad`: the first element of each; 0: none.
static void next_batch(struct random *r, ptx_step_plan *plan, unsigned sums[TENSORS], bool missing,
                       float bad)
{
    CUdeviceptr addresses[TENSORS];

    for (unsigned t = 0; t < TENSORS; t++) {
        unsigned char *data = batch + t * ROOM + skew[t];
        float *sum = (void *)(set.host + set.offset[t][1]);
        const enum ref_type type = gpu_ref_type(types[t]);
        data_fill(r, type, DATA_PLAIN, data, tensors[t].count);
        if (bad != 0 && tensors[t].count)
            ref_store(type, data, 0, (double)bad);
        const bool is = !missing || random_below(r, 3);
        addresses[t] = is ? tensors[t].gradient : 0;
        for (uint64_t i = 0; i < tensors[t].count && is; i++) {
            const float g = (float)ref_load(type, data, i);
            sum[i] = sums[t] ? sum[i] + g : g;
        }
        sums[t] += is;
    }
    require(ptx_buffer_upload(micro, 0, batch, sizeof batch, gpu.stream));
    require_done(ptx_step_plan_set_gradients(plan, 0, TENSORS, addresses, gpu.stream));
}

static void check_counts(const unsigned sums[TENSORS], bool taken)
{
    struct ptx_step_accumulated got[TENSORS];

    require_done(ptx_buffer_download(micro, sizeof batch, got, sizeof got, gpu.stream));
    for (unsigned t = 0; t < TENSORS; t++) {
        if (!tensors[t].count || (!taken && !sums[t])) // left as it was
            continue;
        assert_int_equal(got[t].gradients, sums[t] | (taken ? UINT32_C(1) << 31 : 0));
    }
}

// A step of `batches` micro-batches; the last one in the run, or by a call of its own.
static void step(struct random *r, ptx_step_plan *plan, const struct ptx_step_params *params,
                 unsigned turn)
{
    const unsigned batches = 1 + random_below(r, 3);
    const bool in_run = turn % 3 != 2, missing = turn % 2;
    const struct any_plan any = { .step = plan };
    const CUdeviceptr none[TENSORS] = { 0 };
    unsigned sums[TENSORS] = { 0 };
    char what[64];

    for (unsigned k = 0; k < batches; k++) {
        next_batch(r, plan, sums, missing, 0);
        if (k == batches - 1 && in_run)
            break;
        require(ptx_step_plan_accumulate(plan, gpu.stream));
        check_counts(sums, false);
    }
    if (!in_run)
        require(ptx_step_plan_set_gradients(plan, 0, TENSORS, none, gpu.stream));
    for (unsigned t = 0; t < TENSORS; t++)
        set.tensors[t].gradient = sums[t] ? tensors[t].accumulator : 0;
    step_set_expect(&set, params, 1);
    OWNED(ptx_graph) *graph = plan_capture(any);
    plan_run(any, (enum plan_form)(turn % 3), graph);
    snprintf(what, sizeof what, "step %u of %u micro-batches", turn + 1, batches);
    step_set_check(&set, what);
    check_counts(sums, true);
}

static void check_steps(uint32_t rules, uint32_t formats, unsigned trial)
{
    struct random r = gpu_random("micro-batches");

    for (unsigned k = 0; k < trial; k++)
        random_below(&r, 2);
    set_up(&r, rules, formats, trial % 2);
    set.gradients = (ptx_step_gradients)(trial % 3);
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = trial % 4 ? 1.5f : INFINITY;
    const struct ptx_step_params expected = params;
    params.tensors = tensors;
    require(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
    OWNED(ptx_step_plan) *plan = step_create(&params);
    for (unsigned turn = 0; turn < 5; turn++) {
        step(&r, plan, &expected, turn + trial);
        if (turn == 2) { // as from a checkpoint, also between micro-batches
            unsigned sums[TENSORS] = { 0 };
            next_batch(&r, plan, sums, false, 0);
            require(ptx_step_plan_accumulate(plan, gpu.stream));
            ptx_step_plan_destroy(&plan);
            plan = step_create(&params);
            check_counts(sums, false);
            next_batch(&r, plan, sums, false, 0);
            for (unsigned t = 0; t < TENSORS; t++)
                set.tensors[t].gradient = tensors[t].accumulator;
            step_set_expect(&set, &expected, 1);
            require(ptx_step_plan_run(plan, gpu.stream));
            step_set_check(&set, "a plan that goes on with sums");
        }
    }
}

TEST(test_formats)
{
    for (unsigned format = 0; format < PTX_STEP_FORMAT_COUNT; format++)
        check_steps(ALL_RULES, 1u << format, format);
}

TEST(test_mixed)
{
    for (unsigned trial = 7; trial < 10; trial++)
        check_steps(ALL_RULES, ALL_FORMATS, trial);
}

// Infinity in any micro-batch skips the step, and the next one begins new sums.
TEST(test_skipped)
{
    struct random r = gpu_random("skipped micro-batches");

    set_up(&r, ALL_RULES, 1u << PTX_STEP_FORMAT_FULL, false);
    struct ptx_step_params params = step_set_params(&set);
    const struct ptx_step_params expected = params;
    params.tensors = tensors;
    require(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
    OWNED(ptx_step_plan) *plan = step_create(&params);
    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned sums[TENSORS] = { 0 };
        for (unsigned k = 0; k < 3; k++) {
            next_batch(&r, plan, sums, false, k == turn ? INFINITY : 0);
            require(k < 2 ? ptx_step_plan_accumulate(plan, gpu.stream)
                          : ptx_step_plan_run(plan, gpu.stream));
        }
        assert_true(step_set_expect(&set, &expected, 1));
        step_set_check(&set, "a step that is skipped");
        check_counts(sums, true);
        step(&r, plan, &expected, 2 * turn);
    }
}

// Reports are those of a plan whose gradients are the sums, which writes nothing else.
TEST(test_reports)
{
    enum { ROWS = TENSORS * sizeof(struct ptx_gradient_report) };
    static const float one = 1;
    struct random r = gpu_random("reports of micro-batches");

    set_up(&r, ALL_RULES, 1u << PTX_STEP_FORMAT_FULL, true);
    OWNED(ptx_buffer) *rows = made(ptx_buffer_create(gpu.device, 2 * ROWS + sizeof one));
    struct ptx_step_params params = step_set_params(&set), plain = params;
    params.tensors = tensors;
    params.reports_at = ptx_buffer_address(rows);
    plain.reports_at = params.reports_at + ROWS;
    plain.found_inf_at = plain.reports_at + ROWS;
    require(ptx_buffer_upload(rows, 2 * ROWS, &one, sizeof one, gpu.stream));
    require(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
    ptx_step_plan *plan = step_create(&params), *twin = step_create(&plain);
    for (unsigned turn = 0; turn < 8; turn++) {
        const float bad[] = { 0, INFINITY, NAN, -0.0f };
        struct ptx_gradient_report is[2 * TENSORS];
        CUdeviceptr sums_at[TENSORS];
        unsigned sums[TENSORS] = { 0 };
        for (unsigned k = 0; k <= turn % 3; k++) {
            next_batch(&r, plan, sums, turn % 2, k == 0 ? bad[turn % 4] : 0);
            require(k < turn % 3 ? ptx_step_plan_accumulate(plan, gpu.stream)
                                 : ptx_step_plan_run(plan, gpu.stream));
        }
        for (unsigned t = 0; t < TENSORS; t++)
            sums_at[t] = sums[t] ? tensors[t].accumulator : 0;
        require(ptx_step_plan_set_gradients(twin, 0, TENSORS, sums_at, gpu.stream));
        require(ptx_step_plan_run(twin, gpu.stream));
        require_done(ptx_buffer_download(rows, 0, is, sizeof is, gpu.stream));
        for (unsigned t = 0; t < TENSORS; t++) {
            assert_memory_equal(&is[t], &is[TENSORS + t], sizeof *is);
            assert_int_equal(is[t].absent, !sums[t] || !tensors[t].count);
        }
    }
    ptx_step_plan_destroy(&plan);
    ptx_step_plan_destroy(&twin);
}

// Tensors of many parts, which blocks take up before and after the first one has counted: each is
// counted once, however often, also captured, by two plans in turns, and after a count of before is
// written again.
TEST(test_parts)
{
    enum { PART = 4096, LARGE = 3, BATCHES = 12 };
    static const uint64_t counts[LARGE] = { 33 * PART + 5, 32 * PART, PART + 1 };
    struct ptx_step_tensor large[LARGE] = { 0 };
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD, .hyper = { .lr = 0.5 } };
    const struct ptx_step_params params = { .tensors = large,
                                            .tensor_count = LARGE,
                                            .groups = &group,
                                            .group_count = 1,
                                            .max_norm = INFINITY,
                                            .stream = gpu.stream };
    struct random r = gpu_random("parts");
    uint64_t at = 256, end = 0;

    for (unsigned t = 0; t < LARGE; t++)
        end += (counts[t] + 3) / 4 * 4;
    OWNED(ptx_buffer) *all = ptx_buffer_create(gpu.device, (size_t)(at + 3 * 4 * end));
    float *sum = calloc((size_t)end, sizeof *sum), *batch_of = calloc((size_t)end, sizeof *sum);
    ALLOCATED(float) *got = calloc((size_t)end, sizeof *sum);
    assert_true(all && sum && batch_of && got);
    require(ptx_buffer_fill(all, 0, 0, (size_t)(at + 3 * 4 * end), gpu.stream));
    const CUdeviceptr base = ptx_buffer_address(all);
    for (unsigned t = 0; t < LARGE; t++) {
        large[t] = (struct ptx_step_tensor) { .parameter = base + at,
                                              .accumulator = base + at + 4 * end,
                                              .gradient = base + at + 8 * end,
                                              .accumulated = base + t * 8,
                                              .step = base + 128 + t * 4,
                                              .count = counts[t],
                                              .dtype = PTX_F32,
                                              .format = PTX_STEP_FORMAT_FULL };
        at += (counts[t] + 3) / 4 * 16;
    }
    ptx_step_plan *plan = step_create(&params), *twin = step_create(&params);
    CUstream stream = ptx_stream_create(gpu.device);
    require(ptx_capture_begin(gpu.device, stream, PTX_CAPTURE_RELAXED));
    require(ptx_step_plan_accumulate(plan, stream));
    OWNED(ptx_graph) *graph = end_capture(stream);
    struct ptx_step_accumulated has[LARGE];
    for (unsigned n = 0; n < BATCHES; n++) {
        for (uint64_t i = 0; i < end; i++) {
            batch_of[i] = (float)random_below(&r, 1000) - 500;
            sum[i] = n ? sum[i] + batch_of[i] : batch_of[i];
        }
        require(ptx_buffer_upload(all, (size_t)(256 + 8 * end), batch_of, (size_t)(4 * end),
                                  gpu.stream));
        if (n) // what a checkpoint has
            require(ptx_buffer_upload(all, 0, has, sizeof has, gpu.stream));
        const unsigned which = random_below(&r, 3);
        require(which == 0   ? ptx_graph_launch(graph, gpu.stream)
                : which == 1 ? ptx_step_plan_accumulate(plan, gpu.stream)
                             : ptx_step_plan_accumulate(twin, gpu.stream));
        require(
            ptx_buffer_download(all, (size_t)(256 + 4 * end), got, (size_t)(4 * end), gpu.stream));
        require_done(ptx_buffer_download(all, 0, has, sizeof has, gpu.stream));
        for (unsigned t = 0; t < LARGE; t++) {
            const size_t first = (size_t)(large[t].parameter - base - 256) / 4;
            assert_memory_equal(got + first, sum + first, (size_t)counts[t] * sizeof *sum);
            assert_int_equal(has[t].gradients, n + 1);
        }
    }
    ptx_stream_destroy(gpu.device, &stream);
    ptx_step_plan_destroy(&plan);
    ptx_step_plan_destroy(&twin);
    free(sum);
    free(batch_of);
}

TEST(test_refusals)
{
    struct random r = gpu_random("refused micro-batches");

    set_up(&r, ALL_RULES, 1u << PTX_STEP_FORMAT_FULL, false);
    struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    expect_refused(ptx_step_plan_accumulate(plan, gpu.stream),
                   "ptx_step_plan_accumulate: no tensor of the plan has an accumulator");
    expect_refused(ptx_step_plan_accumulate(NULL, gpu.stream), "the plan is NULL");
    ptx_step_plan_destroy(&plan);
    params.tensors = tensors;
    require(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
    plan = step_create(&params);
    unsigned sums[TENSORS] = { 0 };
    next_batch(&r, plan, sums, false, 0);
    require(ptx_step_plan_norm_sq(plan, gpu.stream));
    expect_refused(ptx_step_plan_accumulate(plan, gpu.stream),
                   "the step of the sums so far is not taken: ptx_step_plan_step() comes first");
    require(ptx_step_plan_finish(plan, gpu.stream));
    expect_refused(ptx_step_plan_accumulate(plan, gpu.stream), "is not taken");
    require(ptx_step_plan_step(plan, gpu.stream));
    require_done(ptx_step_plan_accumulate(plan, gpu.stream));
    unsigned last = TENSORS - 1;
    while (!tensors[last].count)
        last--;
    const struct ptx_step_tensor right = tensors[last];
    struct ptx_step_tensor *wrong = &tensors[last];
#define REFUSED(words, ...) CHANGED(*wrong, expect_no_step(&params, words), __VA_ARGS__)
    REFUSED("and tensor ", (wrong->accumulator = 0, wrong->accumulated = 0));
    REFUSED("accumulated is given, and it has no accumulator", wrong->accumulator = 0);
    REFUSED("it must be a multiple of 16", wrong->accumulator += 4);
    REFUSED("'s accumulated: its address is 0", wrong->accumulated = 0);
    REFUSED("'s accumulated: its address", wrong->accumulated += 4);
    REFUSED("overlap", wrong->accumulator = wrong->parameter);
#undef REFUSED
    wrong->accumulator += 16;
    expect_refused(ptx_step_plan_set_addresses(plan, last, 1, wrong, gpu.stream),
                   "its accumulator is not what it was");
    *wrong = right;
}

// A rank of several may have empty shards alone, and calls what the others call.
TEST(test_empty_shards)
{
    const CUdeviceptr at = ptx_buffer_address(micro);
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD,
                                          .hyper = { .lr = 1 },
                                          .agc = { .clipping = 0.1, .eps = 1e-3 } };
    const struct ptx_step_tensor empty = {
        .parameter = at, .gradient = at, .dtype = PTX_F32, .gradient_dtype = PTX_F32, .columns = 4
    };
    const struct ptx_step_params params = { ONE_TENSOR(empty, group), .norm_group_count = 1,
                                            .max_norm = 1 };
    OWNED(ptx_step_plan) *plan = step_create(&params);

    require(ptx_step_plan_weights_changed(plan, gpu.stream));
    require(ptx_step_plan_accumulate(plan, gpu.stream));
    require(ptx_step_plan_run(plan, gpu.stream));
}

int main(void)
{
    gpu_open();
    gpu_buffer(&micro, sizeof batch + 256);
    return gpu_tests_run();
}

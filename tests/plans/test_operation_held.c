// SPDX-License-Identifier: MIT
// Calls that are checked once: with any addresses they do what a call of the operation does.
#include "data.h"
#include "operation_fixture.h"

enum { N = 4096 + 40, ARRAYS = 9, SLOT = 8 * N, BYTES = ARRAYS * SLOT, STEP = 8 };

/// A call whose arrays each have a slot of the memory; `arrays`: where their addresses are.
struct job {
    ptx_operation id;
    union {
        struct ptx_fake_quantize_params forward;
        struct ptx_quantize_backward_params backward;
        struct ptx_quantize_learned_backward_params learned;
        struct ptx_observer_update_params observer;
        struct ptx_loss_scale_update_params scale;
    } params;
    size_t count;
    size_t arrays[ARRAYS];
};

#define AT(type, member) offsetof(struct ptx_##type##_params, member)
#define FORWARD                                                                                    \
    4,                                                                                             \
    {                                                                                              \
        AT(fake_quantize, x), AT(fake_quantize, y), AT(fake_quantize, scales),                     \
            AT(fake_quantize, zero_points)                                                         \
    }
#define LEARNED_ARRAYS(zero)                                                                       \
    AT(quantize_learned_backward, x), AT(quantize_learned_backward, d_output),                     \
        AT(quantize_learned_backward, d_input), AT(quantize_learned_backward, scales),             \
        AT(quantize_learned_backward, zero), AT(quantize_learned_backward, d_scales)

static const struct job jobs[] = {
    { PTX_OPERATION_fake_quantize,
      .params.forward = { .dtype = PTX_F32, .count = 4096, .q_min = -8, .q_max = 7 }, FORWARD },
    { PTX_OPERATION_fake_quantize, // rows where x is at a multiple of 16 bytes, else columns
      .params.forward = { .dtype = PTX_F32, .count = 4096, .channels = 32, .inner = 64 }, FORWARD },
    { PTX_OPERATION_fake_quantize,
      .params.forward = { .dtype = PTX_F16, .count = 17, .scale = 0.25, .q_min = -8, .q_max = 7 },
      2,
      { AT(fake_quantize, x), AT(fake_quantize, y) } },
    { PTX_OPERATION_quantize_backward,
      .params.backward = { .dtype = PTX_BF16, .count = 4096, .channels = 8, .fake_quantize = true },
      5,
      { AT(quantize_backward, x), AT(quantize_backward, d_output), AT(quantize_backward, d_input),
        AT(quantize_backward, scales), AT(quantize_backward, zero_points) } },
    { PTX_OPERATION_quantize_learned_backward, // one launch
      .params.learned = { .dtype = PTX_F32, .count = 256, .grad_factor = 1 },
      7,
      { LEARNED_ARRAYS(zero_points), AT(quantize_learned_backward, d_zero_points) } },
    { PTX_OPERATION_quantize_learned_backward, // two
      .params.learned = { .dtype = PTX_F64, .count = 4096, .channels = 64, .grad_factor = 1 },
      7,
      { LEARNED_ARRAYS(fixed_zero_points), AT(quantize_learned_backward, workspace) } },
    { PTX_OPERATION_quantize_learned_backward,
      .params.learned = { .dtype = PTX_F32, .count = 4096, .group = 32, .grad_factor = 1 },
      7,
      { LEARNED_ARRAYS(zero_points), AT(quantize_learned_backward, d_zero_points) } },
    { PTX_OPERATION_observer_update, // whose kernels take addresses that are none of the struct
      .params.observer = { .dtype = PTX_F32, .count = 1000, .averaging_constant = 0.5f },
      4,
      { AT(observer_update, x), AT(observer_update, state), AT(observer_update, scales),
        AT(observer_update, zero_points) } },
    { PTX_OPERATION_loss_scale_update,
      .params.scale = { .rule = { 0 } },
      2,
      { AT(loss_scale_update, state), AT(loss_scale_update, found_inf) } },
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static CUdeviceptr in_slot(const ptx_buffer *memory, size_t slot, uint64_t shift)
{
    return ptx_buffer_address(memory) + slot * SLOT + shift;
}

/// The parameters of a job, with addresses in the memory.
static struct job placed(const struct job *job, const ptx_buffer *memory, uint64_t shift)
{
    struct job made = *job;

    for (size_t k = 0; k < job->count; k++) {
        const CUdeviceptr address = in_slot(memory, k, shift);
        memcpy((char *)&made.params + job->arrays[k], &address, sizeof address);
    }
    return made;
}

static void fill(unsigned char *bytes)
{
    struct random r = gpu_random("held");

    for (size_t k = 0; k < ARRAYS; k++)
        data_fill(&r, REF_F32, DATA_PLAIN, bytes + k * SLOT, SLOT / 4);
}

static ptx_operation_call *held(ptx_operations *operations, const struct job *job)
{
    return made(ptx_operation_call_create(operations, job->id, &job->params));
}

/// The first run compiles; other alignments have other variants; between them all runs are alike.
TEST(test_a_call_with_other_addresses)
{
    static const uint64_t shifts[] = { 0, 0, STEP, 2 * STEP, 0 };
    static unsigned char data[BYTES], want[BYTES], got[BYTES];

    fill(data);
    for (int j = 0; j < JOBS; j++) {
        ptx_operations *operations = create(), *others = create();
        ptx_buffer *there = upload(data, BYTES), *here = upload(data, BYTES);
        const struct job first = placed(&jobs[j], there, STEP);
        ptx_operation_call *call = held(operations, &first);
        for (size_t s = 0; s < sizeof shifts / sizeof *shifts; s++) {
            const struct job plain = placed(&jobs[j], there, shifts[s]);
            CUdeviceptr addresses[ARRAYS];
            require(ptx_operation_run(others, plain.id, &plain.params, gpu.stream));
            for (size_t k = 0; k < jobs[j].count; k++)
                addresses[k] = in_slot(here, k, shifts[s]);
            require(ptx_operation_call_run(call, addresses, jobs[j].count, gpu.stream));
            download(there, 0, want, BYTES);
            download(here, 0, got, BYTES);
            if (memcmp(want, data, BYTES) == 0)
                fail_msg("job %d wrote nothing", j);
            if (memcmp(want, got, BYTES) != 0)
                fail_msg("job %d, addresses moved by %d", j, (int)shifts[s]);
        }
        ptx_operation_call_destroy(&call);
        assert_null(call);
        ptx_buffer_destroy(&here);
        ptx_buffer_destroy(&there);
        ptx_operations_destroy(&others);
        ptx_operations_destroy(&operations);
    }
}

TEST(test_what_a_call_refuses)
{
    OWNED(ptx_operations) *operations = create();
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, BYTES);
    struct job job = placed(&jobs[0], memory, 0);
    CUdeviceptr addresses[ARRAYS];

    require(ptx_buffer_fill(memory, 0, MARK, BYTES, gpu.stream));
    assert_null(ptx_operation_call_create(NULL, job.id, &job.params));
    expect_refused(ptx_error_status(), "operations is NULL");
    assert_null(ptx_operation_call_create(operations, PTX_OPERATION_COUNT, &job.params));
    expect_refused(ptx_error_status(), "ptx_operation_call_create: 9 is no operation");
    assert_null(ptx_operation_call_create(operations, job.id, NULL));
    expect_refused(ptx_error_status(), "params is NULL");
    job.params.forward.q_min = 9;
    assert_null(ptx_operation_call_create(operations, job.id, &job.params));
    expect_refused(ptx_error_status(), "q_min is 9 and q_max 7");
    job = placed(&jobs[0], memory, 0);

    OWNED(ptx_operation_call) *call = held(operations, &job);
    for (size_t k = 0; k < job.count; k++)
        addresses[k] = in_slot(memory, k, 0);
    expect_refused(ptx_operation_call_run(NULL, addresses, job.count, gpu.stream),
                   "the call is NULL");
    expect_refused(ptx_operation_call_run(call, NULL, job.count, gpu.stream), "addresses is NULL");
    expect_refused(ptx_operation_call_run(call, addresses, 3, gpu.stream),
                   "count is 3, and the call has 4 arrays");
    for (int compiled = 0; compiled < 2; compiled++) {
        for (size_t k = 0; k < job.count; k++) {
            addresses[k] = 0;
            expect_refusal(ptx_operation_call_run(call, addresses, job.count, gpu.stream),
                           "ptx_fake_quantize", " is 0", memory, BYTES);
            addresses[k] = in_slot(memory, k, 2);
            expect_refusal(ptx_operation_call_run(call, addresses, job.count, gpu.stream),
                           "ptx_fake_quantize", "is not a multiple of its element's 4 bytes",
                           memory, BYTES);
            addresses[k] = in_slot(memory, k, 0);
        }
        if (!compiled)
            require(ptx_operation_prepare(operations, job.id, &job.params));
    }
    ptx_operation_call_destroy(&call);
    ptx_operation_call_destroy(&call);
    ptx_operation_call_destroy(NULL);
    job.params.forward.count = 0; // of x and y
    call = held(operations, &job);
    require(ptx_operation_call_run(call, &addresses[2], 2, gpu.stream));
    expect_untouched(memory, BYTES);
}

/// Captured once its kernel is compiled; refused before.
TEST(test_a_call_under_capture)
{
    OWNED(ptx_operations) *operations = create();
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, BYTES);
    const struct job job = placed(&jobs[0], memory, 0);
    OWNED(ptx_operation_call) *call = held(operations, &job);
    CUdeviceptr addresses[ARRAYS];

    for (size_t k = 0; k < job.count; k++)
        addresses[k] = in_slot(memory, k, 0);
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    assert_int_equal(ptx_operation_call_run(call, addresses, job.count, gpu.stream),
                     PTX_ERROR_CAPTURE);
    OWNED(ptx_graph) *graph = end_capture(gpu.stream);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 0);
    ptx_graph_destroy(&graph);
    require(ptx_operation_prepare(operations, job.id, &job.params));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_operation_call_run(call, addresses, job.count, gpu.stream));
    graph = end_capture(gpu.stream);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 1);
}

GPU_MAIN

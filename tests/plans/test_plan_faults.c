// SPDX-License-Identifier: MIT
// Creating and using plans and operations with each driver call and each allocation failing once:
// the error is reported, nothing is left over, and the next attempt works.
//
// Linked with --wrap for malloc, calloc, realloc, free and ptx_bind.
#include <ptxgen/binding.h>
#include <ptxgen/blocks.h>

#include "emulator_faults.h"
#include "failing_allocations.h"
#include "sanitized.h"
#include "subjects.h"

#include "plans/muon_products.h"

#include <stdlib.h>

// Of the calls and allocations of a creation, the first that fails, and the steps to the next; each
// of the last calls fails. A creation with matrices takes many times as long as another, and CI has
// three of these runs: without a sanitizer, and with one on the newest driver and on an older one.
// There each run takes a third, and together they take all; the last calls, which make a graph, are
// of the first alone.
static struct {
    int first, every, last;
} failing_ones = { 1, 1, 0 };

// The first call of an operation belongs to its creation: it compiles.
static ptx_status first_call(const struct subject *subject, void *object)
{
    return subject->is_operation ? subject->calls[0].call(&scene, object, NULL) : PTX_OK;
}

static ptx_status create_and_compile(const struct subject *subject, void **object)
{
    *object = subject->create(&scene);
    return *object ? first_call(subject, *object) : ptx_error_status();
}

// Creation of a plan ends with the destruction of a stream, which cannot report a failure.
static int calls_of_stream_destroy(void)
{
    CUstream stream = ptx_stream_create(scene.device);
    assert_non_null(stream);
    const int before = calls_so_far();
    ptx_stream_destroy(scene.device, &stream);
    return calls_so_far() - before;
}

static int calls_of_creation(const struct subject *subject)
{
    const int before = calls_so_far();
    void *object;
    if (create_and_compile(subject, &object) != PTX_OK)
        fail_msg("%s", ptx_error_message());
    const int calls = calls_so_far() - before;
    subject->destroy(object);
    assert_true(calls > 5);
    return subject->is_operation ? calls : calls - calls_of_stream_destroy();
}

TEST_WITH(each_driver_call_of_creation_fails, scene_set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    const int calls = calls_of_creation(subject);
    for (int call = failing_ones.first; call <= calls;
         call += calls - call < failing_ones.last ? 1 : failing_ones.every) {
        const int alive = objects_alive(), live = live_allocations, launches = launches_so_far();
        void *object;
        fail_call(CUDA_ERROR_UNKNOWN, call);
        const ptx_status status = create_and_compile(subject, &object);
        const char *failed = failed_function();
        fail_call(CUDA_SUCCESS, 0);
        assert_non_null(failed);
        if (status != PTX_ERROR_DRIVER || !strstr(ptx_error_message(), failed))
            fail_msg("failing %s, call %d of %d: %s", failed, call, calls, ptx_status_name(status));
        assert_thread_untouched(NULL);
        if (object) { // an operation, which works again
            // After the last launch, only leaving the context can fail.
            assert_true(launches_so_far() < launches + subject->calls[0].launches ||
                        strstr(failed, "cuCtxPop"));
            assert_int_equal(first_call(subject, object), PTX_OK);
            subject->destroy(object);
        }
        if (objects_alive() != alive || live_allocations != live)
            fail_msg("failing %s, call %d of %d, left something behind", failed, call, calls);
    }
}

TEST_WITH(each_allocation_of_creation_fails, scene_set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    bool all = false;
    int failing = failing_ones.first;
    for (; !all; failing += failing_ones.every) {
        const int alive = objects_alive(), live = live_allocations;
        void *object;
        allocations = 0;
        failing_allocation = failing;
        const ptx_status status = create_and_compile(subject, &object);
        all = allocations < failing;
        failing_allocation = 0;
        if (status != (all ? PTX_OK : PTX_ERROR_OUT_OF_MEMORY))
            fail_msg("allocation %d failing gave %s", failing, ptx_status_name(status));
        subject->destroy(object);
        assert_int_equal(live_allocations, live);
        assert_int_equal(objects_alive(), alive);
    }
    assert_true(failing > 5);
}

static void come_before(const struct call *call, void *object)
{
    if (call->before)
        assert_int_equal(call->before(&scene, object, NULL), PTX_OK);
}

// One driver call, number `driver_call`, returns the fault of an earlier kernel. The message names
// the function, whichever driver call it was.
static void meet_a_fault(const struct call *call, void *object, int driver_call)
{
    char begin[128];
    snprintf(begin, sizeof begin, "%s: an earlier kernel failed: CUDA_ERROR_LAUNCH_FAILED",
             call->name);
    come_before(call, object);
    fail_call(CUDA_ERROR_LAUNCH_FAILED, driver_call);
    assert_int_equal(call->call(&scene, object, NULL), PTX_ERROR_DRIVER);
    fail_call(CUDA_SUCCESS, 0);
    if (strncmp(ptx_error_message(), begin, strlen(begin)) != 0)
        fail_msg("%s: %s", call->name, ptx_error_message());
}

static void check_allocations_of_call(const struct call *call, void *object)
{
    come_before(call, object);
    allocations = 0;
    assert_int_equal(call->call(&scene, object, NULL), PTX_OK);
    const int count = allocations, live = live_allocations;
    if (call->allocates != (count > 0))
        fail_msg("%s allocated %d times", call->name, count);
    for (int k = 1; k <= count; k++) {
        allocations = 0;
        failing_allocation = k;
        const ptx_status status = call->call(&scene, object, NULL);
        failing_allocation = 0;
        assert_int_equal(status, PTX_ERROR_OUT_OF_MEMORY);
        assert_int_equal(live_allocations, live);
        assert_int_equal(call->call(&scene, object, NULL), PTX_OK);
    }
}

TEST_WITH(each_driver_call_of_a_use_fails, scene_set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    void *object = subject_create(subject);
    assert_int_equal(first_call(subject, object), PTX_OK);
    for (const struct call *call = subject->calls; call->name; call++) {
        come_before(call, object);
        const int before = calls_so_far();
        assert_int_equal(call->call(&scene, object, NULL), PTX_OK);
        const int calls = calls_so_far() - before, alive = objects_alive();
        for (int k = 1; k <= calls; k++) {
            come_before(call, object);
            fail_call(CUDA_ERROR_UNKNOWN, k);
            assert_int_equal(call->call(&scene, object, NULL), PTX_ERROR_DRIVER);
            fail_call(CUDA_SUCCESS, 0);
            assert_thread_untouched(NULL);
            come_before(call, object);
            assert_int_equal(call->call(&scene, object, NULL), PTX_OK); // it works again
            meet_a_fault(call, object, k);
        }
        check_allocations_of_call(call, object);
        assert_int_equal(objects_alive(), alive);
    }
    subject->destroy(object);
}

// A run that fails during the caller's capture does not end the capture. It works again afterwards.
TEST_WITH(each_driver_call_of_a_captured_run_fails, scene_set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    subject_call *run = subject->calls[0].call;
    void *object = subject_create(subject);
    CUstream stream = ptx_stream_create(scene.device);
    assert_non_null(stream);
    assert_int_equal(first_call(subject, object), PTX_OK);
    int calls = 0;
    for (int call = 0; call <= calls; call++) {
        assert_int_equal(ptx_capture_begin(scene.device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        const int before = calls_so_far();
        fail_call(CUDA_ERROR_UNKNOWN, call); // 0: none fails
        assert_int_equal(run(&scene, object, stream), call ? PTX_ERROR_DRIVER : PTX_OK);
        fail_call(CUDA_SUCCESS, 0);
        calls = call ? calls : calls_so_far() - before;
        ptx_capture_abandon(scene.device, stream);
        assert_int_equal(run(&scene, object, stream), PTX_OK);
    }
    assert_true(calls > (subject->is_operation ? 2 : 5));
    ptx_stream_destroy(scene.device, &stream);
    subject->destroy(object);
}

// ---- operations ---------------------------------------------------------------------------------

static bool refuse_to_bind;
__typeof__(ptx_bind) __real_ptx_bind, __wrap_ptx_bind;

ptx_status __wrap_ptx_bind(const ptx_builder *b, unsigned e, const struct ptx_named_arg *values,
                           size_t value_count, struct ptx_arg *args, size_t room, size_t *arg_count)
{
    return refuse_to_bind ? PTX_ERROR_INVALID
                          : __real_ptx_bind(b, e, values, value_count, args, room, arg_count);
}

static void a_kernel_is_loaded_and_not_bound(void **state)
{
    (void)state;
    const int alive = objects_alive(), live = live_allocations;
    void *operations = subject_create(&subjects[FIRST_OPERATION]);
    for (int i = FIRST_OPERATION; i < SUBJECTS; i++) {
        refuse_to_bind = true;
        assert_int_equal(first_call(&subjects[i], operations), PTX_ERROR_INVALID);
        refuse_to_bind = false;
        assert_int_equal(first_call(&subjects[i], operations), PTX_OK);
    }
    subjects[FIRST_OPERATION].destroy(operations);
    assert_int_equal(live_allocations, live);
    assert_int_equal(objects_alive(), alive);
}

// ---- step plans ---------------------------------------------------------------------------------

// If moving tensors fails, the plan checks later addresses against the old ones.
static void a_failed_move_is_forgotten(void **state)
{
    (void)state;
    OWNED(ptx_step_plan) *plan = subject_create(&subjects[STEP_SUBJECT]);
    struct ptx_step_tensor moved = scene.step[0], onto = scene.step[2];
    moved.gradient = scene_place(&scene, SCENE_STEP_TENSORS, 0); // free
    onto.gradient = scene.step[0].gradient;
    const int before = calls_so_far();
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &scene.step[0], NULL), PTX_OK);
    const int calls = calls_so_far() - before;
    for (int call = 1; call <= calls; call++) {
        fail_call(CUDA_ERROR_UNKNOWN, call);
        assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &moved, NULL), PTX_ERROR_DRIVER);
        fail_call(CUDA_ERROR_UNKNOWN, 1);
        assert_int_equal(ptx_step_plan_set_gradients(plan, 0, 1, &moved.gradient, NULL),
                         PTX_ERROR_DRIVER);
        fail_call(CUDA_SUCCESS, 0);
        assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &onto, NULL), PTX_ERROR_INVALID);
        assert_message("tensor 0's gradient and tensor 2's gradient");
    }
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &moved, NULL), PTX_OK);
    assert_int_equal(ptx_step_plan_set_addresses(plan, 2, 1, &onto, NULL), PTX_OK);
}

// A phase or a run that fails after a launch has done a part: no phase is taken from what it left.
static void nothing_follows_a_failure(void **state)
{
    typedef ptx_status phase(ptx_step_plan * plan, CUstream stream);
    static const struct {
        phase *fails;
        unsigned needs; // of the phases
    } cases[] = {
        { ptx_step_plan_norm_sq, 2 },
        { ptx_step_plan_finish, 1 },
        { ptx_step_plan_step, 2 },
        { ptx_step_plan_run, 2 },
    };
    phase *phases[] = { ptx_step_plan_norm_sq, ptx_step_plan_finish };
    OWNED(ptx_step_plan) *plan = subject_create(&subjects[STEP_SUBJECT]);
    (void)state;

    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        int parts = 0, launches;
        for (int call = 0, calls = 0; call <= calls; call++) {
            for (unsigned n = 0; n < cases[c].needs; n++)
                assert_int_equal(phases[n](plan, NULL), PTX_OK);
            const int before = calls_so_far();
            launches = launches_so_far();
            fail_call(CUDA_ERROR_UNKNOWN, call); // 0: none fails
            assert_int_equal(cases[c].fails(plan, NULL), call ? PTX_ERROR_DRIVER : PTX_OK);
            fail_call(CUDA_SUCCESS, 0);
            calls = call ? calls : calls_so_far() - before;
            if (!call || launches_so_far() == launches)
                continue;
            parts++;
            assert_int_equal(ptx_step_plan_finish(plan, NULL), PTX_ERROR_INVALID);
            assert_message("the sums are not known");
            assert_int_equal(ptx_step_plan_step(plan, NULL), PTX_ERROR_INVALID);
            assert_message("ptx_step_plan_norm_sq() comes first");
        }
        assert_true(parts > 0);
    }
}

static struct {
    ptx_step_plan *plan;
    int calls, refused;
} within;

static void run_within(void)
{
    within.calls++;
    within.refused += ptx_step_plan_run(within.plan, NULL) == PTX_ERROR_INVALID &&
                      strstr(ptx_error_message(), "another thread is using this plan");
}

// While addresses change, from the first allocation to the last free, a run is refused, as another
// thread's would be: it would find some tensors moved and others not.
static void a_move_is_one_call(void **state)
{
    (void)state;
    const struct subject *subject = &subjects[STEP_SUBJECT];
    int moves = 0;
    within.plan = subject_create(subject);
    for (const struct call *call = subject->calls; call->name; call++) {
        if (!call->allocates)
            continue;
        moves++;
        within.calls = within.refused = 0;
        at_allocation = run_within;
        const ptx_status status = call->call(&scene, within.plan, NULL);
        at_allocation = NULL;
        assert_int_equal(status, PTX_OK);
        assert_true(within.calls >= 4);
        assert_int_equal(within.refused, within.calls);
        assert_int_equal(ptx_step_plan_run(within.plan, NULL), PTX_OK);
    }
    assert_int_equal(moves, 2);
    ptx_step_plan_destroy(&within.plan);
}

// ---- matrices -----------------------------------------------------------------------------------

static ptx_status matrices_run(const struct scene *in, void *plan, CUstream stream)
{
    (void)in;
    return ptx_step_plan_run(plan, stream);
}

// A plan of two matrices, with steps and coefficients of their own, in a window each, beside AdamW.
static void *matrices_create(const struct scene *in)
{
    enum { TENSORS = 4 };
    static const float triples[] = { 3.5f, -4.5f, 2, 2, -1.5f, 0.5f };
    static const struct ptx_muon_params muon = { .steps = 2, .triples = triples };
    const struct ptx_step_group groups[] = {
        { .rule = PTX_STEP_RULE_MUON, .hyper = { .lr = 0.01, .momentum = 0.9 }, .muon = &muon },
        { .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 } },
    };
    struct ptx_step_tensor tensors[TENSORS];

    memcpy(tensors, in->step, sizeof tensors);
    for (unsigned t = 0; t < TENSORS; t++) {
        tensors[t].columns = t ? 10 : 5;
        tensors[t].group = t / 2;
        if (t < 2)
            tensors[t].state[1] = 0;
    }
    return ptx_step_plan_create(in->device, &(struct ptx_step_params) { .tensors = tensors,
                                                                        .tensor_count = TENSORS,
                                                                        .groups = groups,
                                                                        .group_count = 2,
                                                                        .max_norm = 1,
                                                                        .matrix_memory = 512,
                                                                        .stream = in->stream });
}

static void matrices_destroy(void *object)
{
    ptx_step_plan *plan = object;
    ptx_step_plan_destroy(&plan);
}

// Matrices on chips and in tiles have a launch each, which overlap. Whichever driver call of a run
// fails in a capture: the capture ends with a graph.
static void a_capture_ends_after_a_failed_run(void **state)
{
    static const float triple[][3] = { { 3, -4, 2 } };
    static const struct muon_schedule schedule = { 1, triple };
    struct muon_matrix matrices[] = { { .rows = 2, .columns = 3 },
                                      { .rows = 130, .columns = 140 } };
    const struct muon_set set = {
        .matrices = matrices, .count = 2, .schedules = &schedule, .schedule_count = 1
    };
    uint64_t bytes;
    (void)state;
    assert_int_equal(ptxp_muon_layout(&set, &bytes), PTX_OK);
    struct muon_products *products =
        ptxp_muon_create(scene.device, &set, scene.at, NULL, scene.stream);
    CUstream stream = ptx_stream_create(scene.device);
    assert_true(products && stream);
    int failing = 0, begun = 0;
    for (const char *failed = ""; failed;) {
        assert_int_equal(ptx_capture_begin(scene.device, stream, 0), PTX_OK);
        fail_call(CUDA_ERROR_UNKNOWN, ++failing);
        const ptx_status status = ptxp_muon_run(products, stream);
        failed = failed_function();
        fail_call(CUDA_SUCCESS, 0);
        assert_int_equal(status, failed ? PTX_ERROR_DRIVER : PTX_OK);
        if (failed && !strstr(ptx_error_message(), failed))
            fail_msg("failing %s, call %d: %s", failed, failing, ptx_error_message());
        OWNED(ptx_graph) *graph = ptx_capture_end(scene.device, stream);
        if (!graph)
            fail_msg("failing %s, call %d: %s", failed, failing, ptx_error_message());
        const size_t kernels = ptx_graph_get_info(graph)->kernel_nodes;
        begun += failed && kernels > 0;
        assert_true(failed || kernels == ptxp_muon_launches(products));
    }
    assert_true(begun > 0);
    ptx_stream_destroy(scene.device, &stream);
    ptxp_muon_destroy(products);
}

static const struct subject of_matrices = { "step plan of matrices",
                                            matrices_create,
                                            matrices_destroy,
                                            false,
                                            { { "ptx_step_plan_run", matrices_run, 9, false,
                                                NULL } } };

// ---- products of matrices from parts ------------------------------------------------------------

static ptx_status parts_run(const struct scene *in, void *plan, CUstream stream)
{
    (void)in;
    return ptx_muon_plan_run(plan, stream);
}

static void *parts_create(const struct scene *in)
{
    const CUdeviceptr at = (in->step[0].parameter + 15) / 16 * 16;
    const struct ptx_muon_part parts[] = { { at, 1 }, { at + 16, 1 } };
    const struct ptx_muon_matrix matrix = {
        .rows = 2, .columns = 3, .parts = parts, .part_count = 2
    };

    return ptx_muon_plan_create(in->device,
                                &(struct ptx_muon_plan_params) {
                                    .matrices = &matrix, .matrix_count = 1, .stream = in->stream });
}

static void parts_destroy(void *object)
{
    ptx_muon_plan *plan = object;
    ptx_muon_plan_destroy(&plan);
}

static const struct subject of_parts = { "muon plan",
                                         parts_create,
                                         parts_destroy,
                                         false,
                                         { { "ptx_muon_plan_run", parts_run, 3, false, NULL } } };

// ---- block formats ------------------------------------------------------------------------------

static ptx_status blocks_run(const struct scene *in, void *plan, CUstream stream)
{
    const CUdeviceptr at = (in->step[0].parameter + 15) / 16 * 16;
    const struct ptx_block_tensor tensor = { at, at, 1, 32, 0 };

    return ptx_block_plan_run(plan, &tensor, 1, NULL, stream);
}

static void *blocks_create(const struct scene *in)
{
    const struct ptx_block_params params = { .dtype = PTX_BF16, .format = PTX_BLOCK_FORMAT_MXFP4 };

    return ptx_block_plan_create(in->device, &params, in->stream);
}

static void blocks_destroy(void *object)
{
    ptx_block_plan *plan = object;
    ptx_block_plan_destroy(&plan);
}

static const struct subject of_blocks = { "block plan",
                                          blocks_create,
                                          blocks_destroy,
                                          false,
                                          { { "ptx_block_plan_run", blocks_run, 1, false,
                                              NULL } } };

int main(void)
{
    const struct CMUnitTest of_some[] = {
        cmocka_unit_test_setup_teardown(a_kernel_is_loaded_and_not_bound, scene_set_up,
                                        scene_tear_down),
        cmocka_unit_test_setup_teardown(a_failed_move_is_forgotten, scene_set_up, scene_tear_down),
        cmocka_unit_test_setup_teardown(a_move_is_one_call, scene_set_up, scene_tear_down),
        cmocka_unit_test_setup_teardown(nothing_follows_a_failure, scene_set_up, scene_tear_down),
        cmocka_unit_test_setup_teardown(a_capture_ends_after_a_failed_run, scene_set_up,
                                        scene_tear_down),
    };
    int failed = cmocka_run_group_tests_name("plans: faults", of_some, emulator_open, NULL);
    for (int i = 0; i < SUBJECTS; i++)
        failed += tests_run_on(&subjects[i]);
    const bool older = getenv("PTXGEN_EMU_DRIVER");
    failing_ones.first = 1 + older + SANITIZED;
    failing_ones.every = 3;
    failing_ones.last = older || SANITIZED ? 0 : 64;
    return failed + tests_run_on(&of_matrices) + tests_run_on(&of_parts) + tests_run_on(&of_blocks);
}

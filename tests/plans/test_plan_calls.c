// SPDX-License-Identifier: MIT
// The driver calls that plans and operations make, with drivers of several versions. After the
// first call, an operation allocates nothing and compiles nothing.
//
// Linked with --wrap for malloc, calloc, realloc and free.
#include "driver_fixture.h"
#include "failing_allocations.h"
#include "subjects.h"

// With the driver of this version. Creates the object, and makes the call that compiles it.
static void *set_up(const struct subject *subject, int driver_version, bool any_address)
{
    fake->driver_version = driver_version;
    fake->block_threads = 1024;
    scene_create(&scene);
    fake->registered = scene.at;
    // The fake knows no memory beyond the first 4096 bytes.
    scene.any_address = any_address || subject == &subjects[STEP_SUBJECT];
    void *object = subject->create(&scene);
    if (!object)
        fail_msg("%s: %s", subject->name, ptx_error_message());
    if (subject->is_operation)
        assert_int_equal(subject->calls[0].call(&scene, object, NULL), PTX_OK);
    return object;
}

static void tear_down(const struct subject *subject, void *object)
{
    subject->destroy(object);
    scene_destroy(&scene);
}

static void come_before(const struct call *call, void *object)
{
    if (call->before)
        assert_int_equal(call->before(&scene, object, NULL), PTX_OK);
}

// Counts the kernels and graphs that the call launches on the stream.
static void expect_launches(const struct call *call, void *object, CUstream stream, int kernels,
                            int graphs)
{
    const int kernels_before = atomic_load(&fake->launches);
    const int graphs_before = atomic_load(&fake->graphs);
    assert_int_equal(call->call(&scene, object, stream), PTX_OK);
    assert_int_equal(atomic_load(&fake->launches) - kernels_before, kernels);
    assert_int_equal(atomic_load(&fake->graphs) - graphs_before, graphs);
}

// A driver before 12.3 cannot capture the launches of a plan's run.
static int graphs_of_run(const struct subject *subject, int driver_version)
{
    return !subject->is_operation && driver_version >= 12030;
}

static const int drivers[] = { 12020, 12030 };

FAKE_TEST(a_run_is_one_graph_where_it_can_be)
{
    const struct subject *subject = *state;
    const struct call *run = &subject->calls[0];
    for (int i = 0; i < 2; i++) {
        void *object = set_up(subject, drivers[i], false);
        CUstream stream = ptx_stream_create(scene.device);
        assert_non_null(stream);
        expect_launches(run, object, stream, run->launches, graphs_of_run(subject, drivers[i]));
        assert_int_equal(ptx_capture_begin(scene.device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        expect_launches(run, object, stream, 0, 0);
        ptx_graph *graph = ptx_capture_end(scene.device, stream);
        assert_non_null(graph);
        assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, run->launches);
        assert_int_equal(ptx_graph_get_info(graph)->nodes, run->launches);
        ptx_graph_destroy(&graph);
        ptx_stream_destroy(scene.device, &stream);
        tear_down(subject, object);
    }
}

FAKE_TEST(later_calls_only_launch)
{
    enum { TIMES = 100 };
    const struct subject *subject = *state;
    void *object = set_up(subject, drivers[0], true);
    for (const struct call *call = subject->calls; call->name; call++) {
        int made = 0;
        come_before(call, object);
        assert_int_equal(call->call(&scene, object, NULL), PTX_OK);
        const int loads = atomic_load(&fake->loads);
        for (int k = 0; k < TIMES; k++) {
            come_before(call, object);
            const int before = atomic_load(&fake->calls);
            allocations = 0;
            expect_launches(call, object, NULL, call->launches, 0);
            assert_true(call->allocates || allocations == 0);
            made += atomic_load(&fake->calls) - before;
        }
        assert_int_equal(atomic_load(&fake->loads), loads);
        // Calls for the context (get, push, pop), and a query of the legacy default stream.
        assert_true(!subject->is_operation || made <= TIMES * 5 * call->launches);
    }
    tear_down(subject, object);
}

// Work on the legacy default stream would invalidate the capture.
FAKE_TEST(a_blocking_stream_is_being_captured)
{
    const struct subject *subject = *state;
    for (int i = 0; i < 2; i++) {
        void *object = set_up(subject, drivers[i], false);
        CUstream blocking = fake->stream_create(ptx_device_context(scene.device), true);
        for (const struct call *call = subject->calls; call->name; call++) {
            come_before(call, object);
            fake->capture_begin(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
            const int loads = atomic_load(&fake->loads), launches = atomic_load(&fake->launches);
            call->call(&scene, object, NULL);
            assert_error(PTX_ERROR_CAPTURE, subject->is_operation
                                                ? "could not launch the kernel: a blocking "
                                                  "stream of the context is being captured"
                                                : "use another stream");
            if (!subject->is_operation) {
                assert_null(subject->create(&scene));
                assert_error(PTX_ERROR_CAPTURE,
                             "a blocking stream of the context is being captured");
            }
            assert_int_equal(atomic_load(&fake->loads), loads);
            assert_int_equal(atomic_load(&fake->launches), launches);
            assert_int_equal(fake->capture_end(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        }
        expect_launches(&subject->calls[0], object, NULL, subject->calls[0].launches,
                        graphs_of_run(subject, drivers[i]));
        free(blocking);
        tear_down(subject, object);
    }
}

// A driver without graphs, launch attributes, and other later functions.
FAKE_TEST(a_run_with_the_oldest_driver)
{
    const struct subject *subject = *state;
    struct fake_cuda *usual = fake;
    fake = fake_open(FAKE_OLD_LIBCUDA);
    assert_non_null(fake);
    fake->reset();
    fake->sm = 70;
    void *object = set_up(subject, 11000, false);
    expect_launches(&subject->calls[0], object, NULL, subject->calls[0].launches, 0);
    tear_down(subject, object);
    fake_teardown(NULL);
    fake = usual;
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

FAKE_TEST(an_object_outlives_its_device)
{
    const struct subject *subject = *state;
    void *object = set_up(subject, drivers[1], false);
    scene_destroy(&scene);
    expect_launches(&subject->calls[0], object, NULL, subject->calls[0].launches,
                    graphs_of_run(subject, drivers[1]));
    subject->destroy(object);
    assert_int_equal(atomic_load(&fake->alive), 0);
}

// Each call names itself.
FAKE_TEST(there_is_no_object)
{
    const struct subject *subject = *state;
    for (const struct call *call = subject->calls; call->name; call++) {
        assert_int_equal(call->call(&scene, NULL, NULL), PTX_ERROR_INVALID);
        expect_named(call->name, subject->is_operation ? "operations is NULL" : "the plan is NULL");
    }
    subject->destroy(NULL);
}

int main(void)
{
    int failed = 0;
    for (int i = 0; i < SUBJECTS; i++)
        failed += tests_run_on(&subjects[i]);
    return failed;
}

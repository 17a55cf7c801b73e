// SPDX-License-Identifier: MIT
// Plans and operations on streams that are being captured, from two threads, and with a device that
// is closed: every call of every one.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "blocking_stream.h"
#include "plan_calls.h"
#include "subjects.h"
#include "test.h"

#define STREAM_LEGACY ((CUstream)(uintptr_t)1)

static int set_up(void **state)
{
    scene_set_up(state);
    scene.stream = gpu.stream;
    return 0;
}

// Ready for its calls: an operation compiles in its first one.
static void *create(const struct subject *subject)
{
    void *object = subject_create(subject);
    if (subject->is_operation)
        require(subject->calls[0].call(&scene, object, gpu.stream));
    return object;
}

static void come_before(const struct call *call, void *object, CUstream stream)
{
    if (call->before)
        require(call->before(&scene, object, stream));
}

static void expect_captured(CUstream stream, int kernels)
{
    OWNED(ptx_graph) *graph = end_capture(stream);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, kernels);
    assert_int_equal(ptx_graph_get_info(graph)->nodes, kernels);
}

// What compiles is refused on a stream that is being captured; the capture goes on.
TEST_WITH(a_cold_capture, set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    const struct call *run = &subject->calls[0];

    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    void *object = subject->create(&scene);
    if (subject->is_operation)
        assert_int_equal(run->call(&scene, object, gpu.stream), PTX_ERROR_CAPTURE);
    else
        assert_null(object);
    expect_failure(PTX_ERROR_CAPTURE,
                   subject->is_operation ? "_prepare()" : "before the capture begins");
    expect_captured(gpu.stream, 0);
    subject->destroy(object);
    object = create(subject);
    require(run->call(&scene, object, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    subject->destroy(object);
}

// Work on the legacy default stream would invalidate the capture of a blocking stream.
TEST_WITH(a_blocking_stream_is_being_captured, set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    const CUstream legacy[] = { NULL, STREAM_LEGACY };
    CUstream blocking = create_blocking_stream(gpu.device);
    void *object = create(subject);

    for (const struct call *call = subject->calls; call->name; call++) {
        come_before(call, object, gpu.stream);
        require(ptx_capture_begin(gpu.device, blocking, PTX_CAPTURE_RELAXED));
        for (unsigned k = 0; k < 2; k++) {
            if (call->call(&scene, object, legacy[k]) != PTX_ERROR_CAPTURE)
                fail_msg("%s is not refused", call->name);
            expect_failure(PTX_ERROR_CAPTURE, subject->is_operation
                                                  ? "a blocking stream of the context is being"
                                                  : "use another stream");
            scene.stream = legacy[k];
            if (!subject->is_operation) {
                assert_null(subject->create(&scene));
                expect_failure(PTX_ERROR_CAPTURE, "a blocking stream of the context is being");
            }
        }
        expect_captured(blocking, 0);
    }
    const struct call *run = &subject->calls[0];
    require(ptx_capture_begin(gpu.device, blocking, PTX_CAPTURE_RELAXED));
    require(run->call(&scene, object, gpu.stream));
    require(run->call(&scene, object, blocking));
    expect_captured(blocking, run->launches);
    require(run->call(&scene, object, NULL));
    require(ptx_stream_synchronize(gpu.device, NULL));
    subject->destroy(object);
    ptx_stream_destroy(gpu.device, &blocking);
}

enum { RUNS = 20 };

struct runner {
    const struct subject *subject;
    void *object;
    atomic_int *ready;
    int taken, refused;
};

static void *run_often(void *argument)
{
    struct runner *r = argument;

    atomic_fetch_add(r->ready, 1);
    while (atomic_load(r->ready) < 2)
        ;
    for (int k = 0; k < RUNS; k++) {
        const ptx_status status = r->subject->calls[0].call(&scene, r->object, gpu.stream);
        r->taken += status == PTX_OK;
        r->refused +=
            status == PTX_ERROR_INVALID && strstr(ptx_error_message(), "another thread is using");
    }
    return NULL;
}

// Of two threads that use one plan, one continues, and the other is refused. Each run that was not
// refused counts once. Operations have no state that both would change.
TEST_WITH(two_threads, set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    if (subject->is_operation)
        return;
    atomic_int ready = 0;
    void *object = create(subject);
    struct runner runners[2] = { { subject, object, &ready, 0, 0 },
                                 { subject, object, &ready, 0, 0 } };
    pthread_t thread;
    const float loss_scale = 1;
    float steps;

    require(ptx_buffer_upload(scene.memory, scene_place(&scene, SCENE_STEP_TENSORS, 1) - scene.at,
                              &loss_scale, sizeof loss_scale, gpu.stream));
    assert_int_equal(pthread_create(&thread, NULL, run_often, &runners[0]), 0);
    run_often(&runners[1]);
    pthread_join(thread, NULL);
    for (int k = 0; k < 2; k++)
        assert_int_equal(runners[k].taken + runners[k].refused, RUNS);
    require_done(ptx_buffer_download(scene.memory, scene.step[0].step - scene.at, &steps,
                                     sizeof steps, gpu.stream));
    if (subject == &subjects[STEP_SUBJECT])
        assert_true(steps == (float)(runners[0].taken + runners[1].taken));
    subject->destroy(object);
}

// What was made for a device keeps it open.
TEST_WITH(the_device_is_closed_first, set_up, scene_tear_down)
{
    const struct subject *subject = *state;
    ptx_device *first = scene.device;

    scene.device = ptx_device_open(NULL);
    assert_non_null(scene.device);
    void *object = subject->create(&scene);
    assert_non_null(object);
    ptx_device_close(&scene.device);
    scene.device = first;
    require(subject->calls[0].call(&scene, object, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    subject->destroy(object);
    subject->destroy(NULL);
}

// A call that returns the fault of a kernel names itself, and includes the emulator's report. This
// is the last test, because the context is lost.
static void an_earlier_kernel_failed(void **state)
{
    (void)state;
    const struct subject *clip = &subjects[CLIP_SUBJECT], *other = &subjects[FIRST_OPERATION];

    scene.clip[1].data = 16; // no such memory
    scene.any_address = true;
    void *plan = create(clip), *operations = create(other);
    require(clip->calls[0].call(&scene, plan, gpu.stream));
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER,
                   "ptx_stream_synchronize: an earlier kernel failed: CUDA_ERROR_");
    if (strstr(ptx_device_get_info(gpu.device)->name, "emulator"))
        expect_failure(PTX_ERROR_DRIVER, "(700), an illegal memory access was encountered: out of "
                                         "bounds: load of ");
    assert_int_equal(clip->calls[0].call(&scene, plan, gpu.stream), PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER, "ptx_clip_plan_run: an earlier kernel failed: CUDA_ERROR_");
    assert_int_equal(
        ptx_loss_scale_update_prepare(operations, &(struct ptx_loss_scale_update_params) { 0 }),
        PTX_ERROR_DRIVER);
    expect_failure(PTX_ERROR_DRIVER, "ptx_loss_scale_update_prepare: an earlier kernel failed");
    assert_null(clip->create(&scene));
    expect_failure(PTX_ERROR_DRIVER, "ptx_clip_plan_create: an earlier kernel failed");
    clip->destroy(plan);
    other->destroy(operations);
}

int main(void)
{
    int failed = 0;

    gpu_open();
    for (int i = 0; i < SUBJECTS; i++)
        failed += tests_run_on(&subjects[i]);
    const struct CMUnitTest last[] = { cmocka_unit_test_setup_teardown(an_earlier_kernel_failed,
                                                                       set_up, scene_tear_down) };
    failed += cmocka_run_group_tests_name("a fault", last, NULL, NULL);
    gpu_close();
    return failed;
}

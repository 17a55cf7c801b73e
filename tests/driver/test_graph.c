// SPDX-License-Identifier: MIT
/// Graphs: what a capture returns and what it refuses. Every capture ends.
#include "driver_fixture.h"

static void fill_and_launch(ptx_buffer *buffer, ptx_module *module, CUstream stream)
{
    assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 8, stream), PTX_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            ptx_launch(ptx_module_function(module, "fixed"),
                       &(struct ptx_launch_params) { .grid = { 1 }, .stream = stream }),
            PTX_OK);
    char bytes[8] = "";
    assert_int_equal(ptx_buffer_upload(buffer, 0, bytes, 8, stream), PTX_OK);
    assert_int_equal(ptx_buffer_copy(buffer, 0, buffer, 4, 4, stream), PTX_OK);
}

FAKE_TEST(capture_and_launch)
{
    static const CUstreamCaptureMode modes[] = {
        [PTX_CAPTURE_THREAD_LOCAL] = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        [PTX_CAPTURE_GLOBAL] = CU_STREAM_CAPTURE_MODE_GLOBAL,
        [PTX_CAPTURE_RELAXED] = CU_STREAM_CAPTURE_MODE_RELAXED,
    };
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 8);
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    CUstream stream = ptx_stream_create(device);
    for (int mode = 0; mode < 3; mode++) {
        int launches = atomic_load(&fake->launches);
        assert_int_equal(ptx_capture_begin(device, stream, (enum ptx_capture_mode)mode), PTX_OK);
        assert_int_equal(fake->capture_mode_of(stream), modes[mode]);
        bool capturing = false;
        assert_int_equal(ptx_stream_is_capturing(device, stream, &capturing), PTX_OK);
        assert_true(capturing);
        fill_and_launch(buffer, module, stream);
        ptx_graph *graph = ptx_capture_end(device, stream);
        if (!graph)
            fail_msg("%s", ptx_error_message());
        assert_int_equal(fake->capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
        assert_int_equal(atomic_load(&fake->launches), launches);
        const struct ptx_graph_info *info = ptx_graph_get_info(graph);
        assert_int_equal(info->nodes, 6);
        assert_int_equal(info->kernel_nodes, 3);
        assert_int_equal(info->memcpy_nodes, 2);
        assert_int_equal(info->memset_nodes, 1);
        assert_int_equal(info->host_nodes, 0);
        assert_int_equal(info->other_nodes, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(ptx_graph_launch(graph, stream), PTX_OK);
        assert_int_equal(atomic_load(&fake->launches), launches + 6);
        ptx_graph_destroy(&graph);
        assert_null(graph);
    }
    ptx_stream_destroy(device, &stream);
}

FAKE_TEST(what_cannot_be_captured)
{
    OWNED(ptx_device) *device = open_device();
    CUstream stream = ptx_stream_create(device);
    int calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_capture_begin(device, NULL, PTX_CAPTURE_GLOBAL), PTX_ERROR_INVALID);
    assert_message("ptx_capture_begin: the legacy default stream cannot be captured");
    assert_int_equal(ptx_capture_begin(device, (CUstream)1, PTX_CAPTURE_GLOBAL), PTX_ERROR_INVALID);
    assert_message("the legacy default stream");
    assert_int_equal(ptx_capture_begin(device, stream, (enum ptx_capture_mode)3),
                     PTX_ERROR_INVALID);
    assert_message("there is no mode 3");
    assert_null(ptx_capture_end(device, NULL));
    assert_error(PTX_ERROR_INVALID, "ptx_capture_end: the legacy default stream");
    assert_int_equal(ptx_capture_begin(NULL, stream, PTX_CAPTURE_GLOBAL), PTX_ERROR_INVALID);
    assert_null(ptx_capture_end(NULL, stream));
    assert_error(PTX_ERROR_INVALID, "ptx_capture_end: the device is NULL");
    assert_int_equal(ptx_graph_launch(NULL, stream), PTX_ERROR_INVALID);
    assert_message(
        "ptx_graph_launch: the graph is NULL: see what ptx_capture_end() said, or it was");
    assert_int_equal(atomic_load(&fake->calls), calls);

    assert_null(ptx_capture_end(device, stream));
    assert_error(PTX_ERROR_CAPTURE, "ptx_capture_end: could not");
    assert_error(PTX_ERROR_CAPTURE, "the stream is not being captured");
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_GLOBAL), PTX_OK);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_GLOBAL), PTX_ERROR_CAPTURE);
    assert_message("the stream is being captured already");
    assert_int_equal(fake->capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ptx_capture_abandon(device, stream);
    assert_int_equal(fake->capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_message("the stream is being captured already");
    ptx_capture_abandon(device, stream);
    ptx_capture_abandon(device, NULL);
    ptx_capture_abandon(NULL, stream);
    assert_null(ptx_graph_get_info(NULL));
    ptx_graph_destroy(NULL);
    ptx_stream_destroy(device, &stream);
}

FAKE_TEST(spoilt_capture_ends)
{
    OWNED(ptx_device) *device = open_device();
    CUstream stream = ptx_stream_create(device);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_GLOBAL), PTX_OK);
    fake->capture_spoil(stream);
    assert_null(ptx_capture_end(device, stream));
    assert_error(PTX_ERROR_CAPTURE, "an earlier error spoilt the capture");
    assert_int_equal(fake->capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);

    // The failed capture does not affect the next one. An empty graph is a graph.
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
    OWNED(ptx_graph) *graph = ptx_capture_end(device, stream);
    assert_non_null(graph);
    assert_int_equal(ptx_graph_get_info(graph)->nodes, 0);
    ptx_stream_destroy(device, &stream);
}

FAKE_TEST(other_captures_go_on)
{
    OWNED(ptx_device) *device = open_device();
    CUstream stream = ptx_stream_create(device);
    CUstream other = ptx_stream_create(device);
    assert_int_equal(ptx_capture_begin(device, other, PTX_CAPTURE_GLOBAL), PTX_OK);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
    ptx_graph *graph = ptx_capture_end(device, stream);
    if (!graph)
        fail_msg("%s", ptx_error_message());
    ptx_graph_destroy(&graph);
    assert_int_equal(fake->capture_status(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ptx_capture_abandon(device, other);
    ptx_stream_destroy(device, &other);
    ptx_stream_destroy(device, &stream);
}

/// Each call uses the legacy default stream, which would invalidate the capture of a blocking
/// stream.
FAKE_TEST(legacy_stream_beside_a_capture)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 8);
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    ptx_function *fixed = ptx_module_function(module, "fixed");
    CUstream own = ptx_stream_create(device);
    CUevent event = ptx_event_create(device);
    CUstream blocking = fake->stream_create(ptx_device_context(device), true);
    char bytes[8] = "";
    assert_int_equal(ptx_capture_begin(device, own, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
    OWNED(ptx_graph) *graph = ptx_capture_end(device, own);
    assert_non_null(graph);
    fake->capture_begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    const CUstream streams[] = { NULL, (CUstream)1, (CUstream)2, own };
    for (int i = 0; i < 4; i++) {
        const ptx_status status = i < 2 ? PTX_ERROR_CAPTURE : PTX_OK;
        const struct ptx_launch_params launch = { .grid = { 1 }, .stream = streams[i] };
        struct ptx_launch_params overlapping = launch;
        overlapping.programmatic = true;
        const int calls = atomic_load(&fake->calls);
        assert_int_equal(ptx_launch(fixed, &launch), status);
        assert_int_equal(atomic_load(&fake->calls) - calls, 4); // a query in place of the launch
        if (status)
            assert_message("could not launch the kernel: a blocking stream of the context");
        assert_int_equal(ptx_launch(fixed, &overlapping), status);
        assert_int_equal(ptx_buffer_upload(buffer, 0, bytes, 8, streams[i]), status);
        assert_int_equal(ptx_buffer_download(buffer, 0, bytes, 8, streams[i]), status);
        assert_int_equal(ptx_buffer_copy(buffer, 0, buffer, 4, 4, streams[i]), status);
        assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 8, streams[i]), status);
        assert_int_equal(ptx_event_record(device, event, streams[i]), status);
        assert_int_equal(ptx_stream_wait_event(device, streams[i], event), status);
        assert_int_equal(ptx_graph_launch(graph, streams[i]), status);
        assert_int_equal(fake->capture_status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    }
    fake->capture_end(blocking);
    assert_int_equal(ptx_launch(fixed, &(struct ptx_launch_params) { .grid = { 1 } }), PTX_OK);
    free(blocking);
    ptx_event_destroy(device, &event);
    ptx_stream_destroy(device, &own);
}

FAKE_TEST(graph_keeps_the_device)
{
    ptx_device *device = open_device();
    CUstream stream = ptx_stream_create(device);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
    ptx_graph *graph = ptx_capture_end(device, stream);
    ptx_stream_destroy(device, &stream);
    ptx_device_close(&device);
    assert_int_equal(ptx_graph_launch(graph, NULL), PTX_OK);
    assert_int_equal(atomic_load(&fake->graphs), 1);
    ptx_graph_destroy(&graph);
    ptx_graph_destroy(&graph);
    assert_int_equal(atomic_load(&fake->alive), 0);
}

FAKE_TEST(address_ranges)
{
    static char memory[2][4096];
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_device) *second = ptx_device_open(&(struct ptx_device_params) { .ordinal = 1 });
    CUdeviceptr base = 1;
    size_t bytes = 1;
    fake->foreign = (CUdeviceptr)(uintptr_t)memory[0];
    fake->registered = (CUdeviceptr)(uintptr_t)memory[1];
    assert_int_equal(ptx_address_range(second, fake->foreign + 7, &base, &bytes), PTX_OK);
    assert_true(base == fake->foreign);
    assert_int_equal(bytes, 4096);
    assert_int_equal(ptx_address_range(second, fake->foreign, NULL, NULL), PTX_OK);
    assert_int_equal(ptx_address_range(device, fake->foreign + 7, &base, &bytes),
                     PTX_ERROR_INVALID);
    assert_message("is memory of GPU 1, not of GPU 0");
    assert_true(base == 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(ptx_address_range(device, fake->registered + 4095, &base, &bytes), PTX_OK);
    assert_true(base == fake->registered);
    base = 1;
    assert_int_equal(ptx_address_range(device, 4096, &base, &bytes), PTX_ERROR_NOT_FOUND);
    assert_message("0x1000 is in no memory that the driver allocated or registered");
    assert_true(base == 0);
    assert_int_equal(ptx_address_range(device, 0, NULL, NULL), PTX_ERROR_NOT_FOUND);
    assert_int_equal(ptx_address_range(NULL, fake->foreign, &base, &bytes), PTX_ERROR_INVALID);
}

FAKE_TEST(old_driver)
{
    struct fake_cuda *old = fake_open(FAKE_OLD_LIBCUDA);
    assert_non_null(old);
    ptx_device *device = open_device();
    CUstream stream = ptx_stream_create(device);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
    assert_null(ptx_capture_end(device, stream));
    assert_error(PTX_ERROR_UNSUPPORTED, "update the driver to 470 (CUDA 11.4)");
    assert_int_equal(old->capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    ptx_stream_destroy(device, &stream);
    ptx_device_close(&device);
    assert_int_equal(atomic_load(&old->alive), 0);
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

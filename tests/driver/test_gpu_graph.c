// SPDX-License-Identifier: MIT
/// Captures and graphs on a real GPU. Without one, the test is skipped.
#include "gpu_fixture.h"
#include "skip.h"

static void needs_graphs(void)
{
    const int version = ptx_device_get_info(gpu)->driver_version;
    if (version < 11040)
        skip_because("driver %d is older than 11040, which has graphs", version);
}

static ptx_status scale_one(ptx_function *scale, CUdeviceptr data, CUstream stream)
{
    uint32_t n = 1;
    float factor = 3.0f;
    return ptx_launch(scale,
                      &(struct ptx_launch_params) {
                          .grid = { 1 },
                          .block = { 32 },
                          .stream = stream,
                          .args = (struct ptx_arg[]) { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) },
                          .arg_count = 3 });
}

/// A stream under capture refuses some work; other streams continue.
static void work_beside_capture(CUstream stream)
{
    assert_null(ptx_module_load(gpu, text, &(struct ptx_module_params) { .stream = stream }));
    wanted(PTX_ERROR_CAPTURE, "the stream is being captured");
    assert_int_equal(ptx_stream_synchronize(gpu, stream), PTX_ERROR_CAPTURE);
    assert_int_equal(ptx_capture_begin(gpu, stream, PTX_CAPTURE_GLOBAL), PTX_ERROR_CAPTURE);
    wanted(PTX_ERROR_CAPTURE, "the stream is being captured already");
    OWNED(ptx_module) *other = need(ptx_module_load(gpu, text, NULL));
    assert_true(scales(ptx_module_function(other, "scale"),
                       (struct ptx_launch_params) { .stream = NULL }, 1000));
}

TEST(capture_and_replay)
{
    needs_graphs();
    OWNED(ptx_module) *module = need(ptx_module_load(gpu, text, NULL));
    ptx_function *scale = need(ptx_module_function(module, "scale"));
    CUstream stream = need(ptx_stream_create(gpu));
    OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(gpu, 8));
    CUdeviceptr data = ptx_buffer_address(buffer);
    for (int mode = PTX_CAPTURE_THREAD_LOCAL; mode <= PTX_CAPTURE_RELAXED; mode++) {
        float value = 1.0f;
        check(ptx_buffer_upload(buffer, 0, &value, 4, stream));
        check(ptx_stream_synchronize(gpu, stream));
        check(ptx_capture_begin(gpu, stream, (enum ptx_capture_mode)mode));
        bool capturing = false;
        check(ptx_stream_is_capturing(gpu, stream, &capturing));
        assert_true(capturing);
        check(scale_one(scale, data, stream));
        check(ptx_address_range(gpu, data, NULL, NULL));
        work_beside_capture(stream);
        check(scale_one(scale, data, stream));
        OWNED(ptx_graph) *graph = need(ptx_capture_end(gpu, stream));
        check(ptx_stream_is_capturing(gpu, stream, &capturing));
        assert_false(capturing);
        assert_int_equal(ptx_graph_get_info(graph)->nodes, 2);
        assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 2);
        for (int i = 0; i < 3; i++)
            check(ptx_graph_launch(graph, i == 1 ? NULL : stream));
        check(ptx_stream_synchronize(gpu, NULL));
        check(ptx_buffer_download(buffer, 0, &value, 4, stream));
        check(ptx_stream_synchronize(gpu, stream));
        assert_true(value == 729.0f);
    }
    ptx_stream_destroy(gpu, &stream);
}

TEST(kinds_of_nodes)
{
    needs_graphs();
    static char host[8] = "abcdefg";
    CUstream stream = need(ptx_stream_create(gpu));
    OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(gpu, 8));
    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_buffer_upload(buffer, 0, host, 8, stream));
    check(ptx_buffer_fill(buffer, 2, 'x', 2, stream));
    check(ptx_buffer_copy(buffer, 4, buffer, 2, 2, stream));
    OWNED(ptx_graph) *graph = need(ptx_capture_end(gpu, stream));
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->nodes, 3);
    assert_int_equal(info->memcpy_nodes, 2);
    assert_int_equal(info->memset_nodes, 1);
    assert_int_equal(info->kernel_nodes + info->host_nodes + info->other_nodes, 0);
    char result[8] = "";
    check(ptx_graph_launch(graph, stream));
    check(ptx_buffer_download(buffer, 0, result, 8, stream));
    check(ptx_stream_synchronize(gpu, stream));
    assert_string_equal(result, "abxxxxg");
    ptx_stream_destroy(gpu, &stream);
}

TEST(captures_that_fail)
{
    needs_graphs();
    CUstream stream = need(ptx_stream_create(gpu));
    CUstream other = need(ptx_stream_create(gpu));
    CUevent event = need(ptx_event_create(gpu));
    OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(gpu, 8));
    assert_null(ptx_capture_end(gpu, stream));
    wanted(PTX_ERROR_CAPTURE, "the stream is not being captured");
    assert_int_equal(ptx_capture_begin(gpu, NULL, PTX_CAPTURE_GLOBAL), PTX_ERROR_INVALID);

    // A stream that joins the capture and does not return.
    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_event_record(gpu, event, stream));
    check(ptx_stream_wait_event(gpu, other, event));
    check(ptx_buffer_fill(buffer, 0, 1, 8, other));
    assert_null(ptx_capture_end(gpu, other));
    assert_int_equal(ptx_error_status(), PTX_ERROR_CAPTURE);
    assert_null(ptx_capture_end(gpu, stream));
    assert_int_equal(ptx_error_status(), PTX_ERROR_CAPTURE);

    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_buffer_fill(buffer, 0, 2, 8, stream));
    ptx_capture_abandon(gpu, stream);

    // Both streams can be used again.
    char bytes[2] = { 0 };
    check(ptx_buffer_fill(buffer, 0, 3, 1, stream));
    check(ptx_stream_synchronize(gpu, stream));
    check(ptx_buffer_fill(buffer, 1, 4, 1, other));
    check(ptx_stream_synchronize(gpu, other));
    check(ptx_buffer_download(buffer, 0, bytes, 2, stream));
    check(ptx_stream_synchronize(gpu, stream));
    assert_int_equal(bytes[0], 3);
    assert_int_equal(bytes[1], 4);
    ptx_event_destroy(gpu, &event);
    ptx_stream_destroy(gpu, &other);
    ptx_stream_destroy(gpu, &stream);
}

/// Work on the legacy default stream would invalidate the capture of a blocking stream: it is
/// refused.
static void work_on_legacy_stream(ptx_function *scale, ptx_buffer *buffer, const ptx_graph *graph,
                                  CUstream stream)
{
    char bytes[4] = "";
    CUevent event = need(ptx_event_create(gpu));
    const ptx_status statuses[] = {
        scale_one(scale, ptx_buffer_address(buffer), stream),
        ptx_graph_launch(graph, stream),
        ptx_buffer_fill(buffer, 0, 1, 4, stream),
        ptx_buffer_copy(buffer, 0, buffer, 4, 4, stream),
        ptx_buffer_upload(buffer, 0, bytes, 4, stream),
        ptx_buffer_download(buffer, 0, bytes, 4, stream),
        ptx_event_record(gpu, event, stream),
        ptx_stream_wait_event(gpu, stream, event),
    };
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i] != PTX_ERROR_CAPTURE)
            fail_msg("call %zu: %s", i, ptx_status_name(statuses[i]));
    wanted(PTX_ERROR_CAPTURE, "a blocking stream of the context is being captured");
    ptx_event_destroy(gpu, &event);
}

TEST(captured_blocking_stream)
{
    needs_graphs();
    struct others others;
    find_others(&others);
    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
    ptx_function *scale = need(ptx_module_function(module, "scale"));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, 8));
    CUstream stream = need(ptx_stream_create(gpu)), blocking = NULL;
    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_RELAXED));
    check(scale_one(scale, ptx_buffer_address(buffer), stream));
    ptx_graph *graph = need(ptx_capture_end(gpu, stream));
    assert_int_equal(others.push(ptx_device_context(gpu)), 0);
    assert_int_equal(others.create_stream(&blocking, 0), 0);
    check(ptx_capture_begin(gpu, blocking, PTX_CAPTURE_GLOBAL));
    assert_null(ptx_buffer_create(gpu, 4));
    wanted(PTX_ERROR_CAPTURE, "a blocking stream of the context");
    assert_null(ptx_module_load(gpu, text, NULL));
    wanted(PTX_ERROR_CAPTURE, "a blocking stream of the context");
    check(ptx_buffer_fill(buffer, 0, 1, 4, blocking));
    for (uintptr_t legacy = 0; legacy < 2; legacy++)
        work_on_legacy_stream(scale, buffer, graph, (CUstream)legacy);
    ptx_graph *captured = need(ptx_capture_end(gpu, blocking));
    assert_int_equal(ptx_graph_get_info(captured)->nodes, 1);
    ptx_graph_destroy(&captured);
    ptx_graph_destroy(&graph);
    ptx_stream_destroy(gpu, &blocking);
    ptx_stream_destroy(gpu, &stream);
    ptx_buffer_destroy(&buffer);
    ptx_module_unload(&module);
    CUcontext popped = NULL;
    assert_int_equal(others.pop(&popped), 0);
    assert_ptr_equal(popped, ptx_device_context(gpu));
}

int main(void)
{
    open_gpu();
    return tests_run(NULL, close_gpu);
}

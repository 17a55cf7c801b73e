// SPDX-License-Identifier: MIT
/// Buffers, pinned memory, streams, events; captures continue beside them.
#include "driver_fixture.h"

FAKE_TEST(round_trip)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 8);
    assert_non_null(buffer);
    assert_int_equal(ptx_buffer_size(buffer), 8);
    assert_true(ptx_buffer_address(buffer) != 0);
    const char in[8] = "abcdefg";
    char out[8] = "";
    assert_int_equal(ptx_buffer_upload(buffer, 0, in, 8, NULL), PTX_OK);
    assert_int_equal(ptx_buffer_fill(buffer, 2, 'x', 3, NULL), PTX_OK);
    assert_int_equal(ptx_buffer_download(buffer, 1, out, 7, NULL), PTX_OK);
    assert_string_equal(out, "bxxxfg");
    assert_int_equal(ptx_buffer_copy(buffer, 0, buffer, 5, 2, NULL), PTX_OK);
    assert_int_equal(ptx_buffer_download(buffer, 0, out, 4, NULL), PTX_OK);
    assert_memory_equal(out, "fgxx", 4);
    assert_int_equal(fake->context_depth(), 0);
    ptx_buffer_destroy(&buffer);
    assert_null(buffer);
    ptx_buffer_destroy(NULL);
}

FAKE_TEST(ranges_are_checked)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 8);
    char bytes[16] = "";
    int calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_buffer_upload(buffer, 4, bytes, 5, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_upload: 5 bytes at offset 4 would end beyond the buffer, which has "
                   "8 bytes");
    assert_int_equal(ptx_buffer_upload(buffer, 8, bytes, 1, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_upload: 1 byte at offset 8 would end beyond the buffer");
    assert_int_equal(ptx_buffer_download(buffer, 9, bytes, 0, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_download");
    assert_int_equal(ptx_buffer_fill(buffer, SIZE_MAX, 0, 2, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_fill");
    assert_int_equal(ptx_buffer_fill(buffer, 4, 0, SIZE_MAX - 1, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_upload(buffer, 0, NULL, 1, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_download(buffer, 0, NULL, 1, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_fill(NULL, 0, 0, 0, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_copy(buffer, 0, buffer, 6, 3, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_copy, from: 3 bytes at offset 6");
    assert_int_equal(ptx_buffer_copy(buffer, 6, buffer, 0, 3, NULL), PTX_ERROR_INVALID);
    assert_message("ptx_buffer_copy, to: 3 bytes at offset 6");
    assert_int_equal(ptx_buffer_copy(buffer, 2, buffer, 0, 3, NULL), PTX_ERROR_INVALID);
    assert_message("the ranges overlap");
    assert_int_equal(ptx_buffer_copy(NULL, 0, buffer, 0, 0, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_copy(buffer, 0, NULL, 0, 0, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_buffer_upload(buffer, 8, NULL, 0, NULL), PTX_OK);
    assert_int_equal(atomic_load(&fake->calls), calls);
    assert_int_equal(ptx_buffer_size(NULL), 0);
    assert_true(ptx_buffer_address(NULL) == 0);
}

FAKE_TEST(empty_buffer)
{
    ptx_device *device = open_device();
    ptx_buffer *buffer = ptx_buffer_create(device, 0);
    assert_non_null(buffer);
    assert_true(ptx_buffer_address(buffer) == 0);
    assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 0, NULL), PTX_OK);
    assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 1, NULL), PTX_ERROR_INVALID);
    ptx_buffer_destroy(&buffer);
    ptx_device_close(&device);
    assert_null(ptx_buffer_create(NULL, 4));
    assert_error(PTX_ERROR_INVALID, "ptx_buffer_create: the device is NULL: see what "
                                    "ptx_device_open() said, or it was closed");
}

FAKE_TEST(pinned_memory)
{
    OWNED(ptx_device) *device = open_device();
    char *memory = ptx_host_alloc(device, 4);
    assert_non_null(memory);
    memcpy(memory, "abc", 4);
    ptx_host_free(device, &memory);
    assert_null(memory);
    ptx_host_free(device, &memory);
    assert_null(ptx_host_alloc(device, 0));
    assert_error(PTX_ERROR_INVALID, "bytes is 0");
}

FAKE_TEST(streams_and_events)
{
    OWNED(ptx_device) *device = open_device();
    CUstream stream = ptx_stream_create(device);
    CUevent start = ptx_event_create(device);
    CUevent end = ptx_event_create(device);
    assert_non_null(stream);
    assert_int_equal(ptx_event_record(device, start, stream), PTX_OK);
    assert_int_equal(ptx_event_record(device, end, stream), PTX_OK);
    assert_int_equal(ptx_stream_wait_event(device, stream, end), PTX_OK);
    assert_int_equal(ptx_event_synchronize(device, end), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(device, stream), PTX_OK);
    float milliseconds = 0;
    assert_int_equal(ptx_event_elapsed(device, start, end, &milliseconds), PTX_OK);
    assert_true(milliseconds == 1.0f);
    assert_int_equal(ptx_event_elapsed(device, start, NULL, &milliseconds), PTX_ERROR_INVALID);
    assert_int_equal(ptx_event_elapsed(device, start, end, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_event_record(device, NULL, stream), PTX_ERROR_INVALID);
    assert_int_equal(ptx_event_synchronize(device, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_stream_wait_event(device, stream, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_stream_is_capturing(device, stream, NULL), PTX_ERROR_INVALID);
    ptx_event_destroy(device, &start);
    ptx_event_destroy(device, &end);
    ptx_stream_destroy(device, &stream);
    assert_null(stream);
    assert_null(end);
    assert_null(ptx_stream_create(NULL));
    assert_null(ptx_event_create(NULL));
}

/// Another stream is under capture in the strictest mode: all setup calls still work.
FAKE_TEST(captures_are_not_disturbed)
{
    OWNED(ptx_device) *device = open_device();
    ptx_buffer *old = ptx_buffer_create(device, 4);
    ptx_module *old_module = load_module(device, KERNEL_TEXT);
    CUstream own = ptx_stream_create(device);
    CUstream captured = fake->stream_create(ptx_device_context(device), false);
    fake->capture_begin(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);

    bool capturing = false;
    assert_int_equal(ptx_stream_is_capturing(device, captured, &capturing), PTX_OK);
    assert_true(capturing);
    assert_int_equal(ptx_stream_is_capturing(device, own, &capturing), PTX_OK);
    assert_false(capturing);
    assert_int_equal(ptx_stream_is_capturing(device, NULL, &capturing), PTX_OK);
    assert_false(capturing);

    ptx_buffer *buffer = ptx_buffer_create(device, 4);
    assert_non_null(buffer);
    void *memory = ptx_host_alloc(device, 4);
    assert_non_null(memory);
    ptx_module *module = load_module(device, KERNEL_TEXT);
    CUevent event = ptx_event_create(device);
    assert_int_equal(ptx_event_record(device, event, own), PTX_OK);
    assert_int_equal(ptx_event_synchronize(device, event), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(device, own), PTX_OK);
    ptx_event_destroy(device, &event);
    ptx_host_free(device, &memory);
    ptx_buffer_destroy(&buffer);
    ptx_buffer_destroy(&old);
    ptx_module_unload(&module);
    ptx_module_unload(&old_module);
    assert_int_equal(fake->capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);

    assert_int_equal(fake->capture_end(captured), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    free(captured);
    ptx_stream_destroy(device, &own);
}

FAKE_TEST(waiting_for_a_captured_stream_is_refused)
{
    OWNED(ptx_device) *device = open_device();
    CUstream captured = fake->stream_create(ptx_device_context(device), false);
    fake->capture_begin(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_int_equal(ptx_stream_synchronize(device, captured), PTX_ERROR_CAPTURE);
    assert_message("ptx_stream_synchronize: could not wait for the stream: the stream is being");
    assert_int_equal(fake->capture_end(captured), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(ptx_stream_synchronize(device, captured), PTX_OK);
    free(captured);
}

/// The default stream would become part of the capture of a blocking stream.
FAKE_TEST(blocking_capture_refuses_the_default_stream)
{
    OWNED(ptx_device) *device = open_device();
    CUstream captured = fake->stream_create(ptx_device_context(device), true);
    fake->capture_begin(captured, CU_STREAM_CAPTURE_MODE_RELAXED);

    bool capturing = false;
    assert_int_equal(ptx_stream_is_capturing(device, NULL, &capturing), PTX_OK);
    assert_true(capturing);
    assert_null(ptx_buffer_create(device, 4));
    assert_error(PTX_ERROR_CAPTURE, "a blocking stream of the context is being captured");
    assert_null(ptx_host_alloc(device, 4));
    assert_error(PTX_ERROR_CAPTURE, "allocate pinned host memory");
    assert_null(ptx_module_load(device, KERNEL_TEXT, NULL));
    assert_error(PTX_ERROR_CAPTURE, "compile and load");
    assert_int_equal(ptx_stream_synchronize(device, NULL), PTX_ERROR_CAPTURE);
    assert_int_equal(fake->capture_end(captured), CU_STREAM_CAPTURE_STATUS_ACTIVE);

    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 4);
    assert_non_null(buffer);
    free(captured);
}

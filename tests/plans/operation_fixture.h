// SPDX-License-Identifier: MIT
/// Shared by the tests of operations: the device, and its buffers.
#ifndef PTXGEN_TESTS_OPERATION_FIXTURE_H
#define PTXGEN_TESTS_OPERATION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs those headers before its own.
#include <cmocka.h>

#include "plan_calls.h"

static struct gpu gpu;

static inline ptx_operations *create(void)
{
    ptx_operations *operations = ptx_operations_create(gpu.device, NULL);
    if (!operations)
        fail_msg("%s", ptx_error_message());
    return operations;
}

static inline ptx_buffer *upload(const void *data, size_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, bytes);
    assert_non_null(buffer);
    require(ptx_buffer_upload(buffer, 0, data, bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    return buffer;
}

static inline void download(const ptx_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    require(ptx_buffer_download(buffer, offset, data, bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
}

#endif

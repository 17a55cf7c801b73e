// SPDX-License-Identifier: MIT
/// Shared by the tests of operations: the device, and its buffers.
#ifndef PTXGEN_TESTS_OPERATION_FIXTURE_H
#define PTXGEN_TESTS_OPERATION_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs those headers before its own.

#include "plan_calls.h"
#include "test.h"

static inline ptx_operations *create(void)
{
    return made(ptx_operations_create(gpu.device, NULL));
}

static inline ptx_buffer *upload(const void *data, size_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, bytes);
    assert_non_null(buffer);
    require_done(ptx_buffer_upload(buffer, 0, data, bytes, gpu.stream));
    return buffer;
}

static inline void download(const ptx_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    require_done(ptx_buffer_download(buffer, offset, data, bytes, gpu.stream));
}

enum { MARK = 0x3f };

/// The buffer must have MARK in every byte.
static inline void expect_untouched(const ptx_buffer *buffer, size_t bytes)
{
    ALLOCATED(unsigned char) *got = malloc(bytes);
    assert_non_null(got);
    download(buffer, 0, got, bytes);
    for (size_t k = 0; k < bytes; k++)
        if (got[k] != MARK)
            fail_msg("byte %zu was written", k);
}

/// The function must have refused the call, with this part in its message, and left the buffer as
/// it was, MARK in every byte.
static inline void expect_refusal(ptx_status status, const char *function, const char *part,
                                  const ptx_buffer *buffer, size_t bytes)
{
    if (status != PTX_ERROR_INVALID)
        fail_msg("%s: \"%s\": %s", function, part, ptx_status_name(status));
    expect_refused(status, part);
    if (strncmp(ptx_error_message(), function, strlen(function)) != 0)
        fail_msg("\"%s\" does not begin: %s", function, ptx_error_message());
    expect_untouched(buffer, bytes);
}

/// Operations, and memory for the arguments of their calls, every byte MARK.
struct scene {
    ptx_operations *operations;
    ptx_buffer *memory;
};

static inline struct scene scene_create(size_t bytes)
{
    const struct scene scene = { create(), ptx_buffer_create(gpu.device, bytes) };
    assert_non_null(scene.memory);
    require(ptx_buffer_fill(scene.memory, 0, MARK, bytes, gpu.stream));
    return scene;
}

static inline void scene_destroy(struct scene *scene)
{
    ptx_buffer_destroy(&scene->memory);
    ptx_operations_destroy(&scene->operations);
}

/// set_up() and tear_down() of a test's `scene`, which has so many bytes.
#define SCENE_OF(bytes)                                                                            \
    static int set_up(void **state)                                                                \
    {                                                                                              \
        (void)state;                                                                               \
        scene = scene_create(bytes);                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    static int tear_down(void **state)                                                             \
    {                                                                                              \
        (void)state;                                                                               \
        scene_destroy(&scene);                                                                     \
        return 0;                                                                                  \
    }

#endif

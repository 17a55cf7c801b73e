// SPDX-License-Identifier: MIT
/// A blocking stream: it and the legacy default stream wait for each other. Include string.h before
/// it.
#ifndef PTXGEN_TESTS_BLOCKING_STREAM_H
#define PTXGEN_TESTS_BLOCKING_STREAM_H

#include "test.h"

#include <dlfcn.h>

#include <ptxgen/device.h>

/// Made with the driver's own function: the library makes only non-blocking streams.
static CUstream create_blocking_stream(ptx_device *device)
{
    int (*push)(CUcontext) = NULL, (*pop)(CUcontext *) = NULL;
    int (*create)(CUstream *, unsigned) = NULL;
    CUcontext popped = NULL;
    CUstream stream = NULL;
    void *library = dlopen(ptx_device_get_info(device)->library_path, RTLD_NOW);
    assert_non_null(library);
    void *const symbols[] = { dlsym(library, "cuCtxPushCurrent_v2"),
                              dlsym(library, "cuCtxPopCurrent_v2"),
                              dlsym(library, "cuStreamCreate") };
    assert_true(symbols[0] && symbols[1] && symbols[2]);
    memcpy(&push, &symbols[0], sizeof push);
    memcpy(&pop, &symbols[1], sizeof pop);
    memcpy(&create, &symbols[2], sizeof create);
    assert_int_equal(push(ptx_device_context(device)), 0);
    assert_int_equal(create(&stream, 0), 0);
    assert_int_equal(pop(&popped), 0);
    return stream;
}

#endif

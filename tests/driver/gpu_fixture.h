// SPDX-License-Identifier: MIT
/// Shared by the driver layer's tests on a real GPU: the GPU, kernels for it, functions of libcuda.
#ifndef PTXGEN_TESTS_DRIVER_GPU_FIXTURE_H
#define PTXGEN_TESTS_DRIVER_GPU_FIXTURE_H

#define _GNU_SOURCE
#include "open_device.h"
#include "test.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/driver.h>

// scale: data[i] *= factor. last: writes the last word of dynamic shared memory and reads it back.
static const char text[] = ".version 6.4\n"
                           ".target sm_70\n"
                           ".address_size 64\n"
                           ".visible .global .align 8 .u64 counter;\n"
                           ".extern .shared .align 16 .b8 dynamic[];\n"
                           ".visible .entry scale(\n"
                           "    .param .u64 data,\n"
                           "    .param .u32 n,\n"
                           "    .param .f32 factor\n"
                           ")\n"
                           "{\n"
                           "    .reg .pred %p<2>;\n"
                           "    .reg .b32 %r<6>;\n"
                           "    .reg .f32 %f<4>;\n"
                           "    .reg .b64 %d<4>;\n"
                           "    ld.param.u64 %d1, [data];\n"
                           "    ld.param.u32 %r1, [n];\n"
                           "    ld.param.f32 %f1, [factor];\n"
                           "    mov.u32 %r2, %ctaid.x;\n"
                           "    mov.u32 %r3, %ntid.x;\n"
                           "    mov.u32 %r4, %tid.x;\n"
                           "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
                           "    setp.ge.u32 %p1, %r5, %r1;\n"
                           "    @%p1 ret;\n"
                           "    cvta.to.global.u64 %d1, %d1;\n"
                           "    mul.wide.u32 %d2, %r5, 4;\n"
                           "    add.u64 %d3, %d1, %d2;\n"
                           "    ld.global.f32 %f2, [%d3];\n"
                           "    mul.rn.f32 %f3, %f2, %f1;\n"
                           "    st.global.f32 [%d3], %f3;\n"
                           "    ret;\n"
                           "}\n"
                           ".visible .entry last(.param .u64 out, .param .u32 bytes)\n"
                           ".reqntid 32\n"
                           "{\n"
                           "    .reg .b32 %r<5>;\n"
                           "    .reg .b64 %d<2>;\n"
                           "    ld.param.u64 %d1, [out];\n"
                           "    ld.param.u32 %r1, [bytes];\n"
                           "    cvta.to.global.u64 %d1, %d1;\n"
                           "    mov.u32 %r2, dynamic;\n"
                           "    add.u32 %r2, %r2, %r1;\n"
                           "    mov.u32 %r3, 4711;\n"
                           "    st.volatile.shared.u32 [%r2 + -4], %r3;\n"
                           "    bar.sync 0;\n"
                           "    ld.volatile.shared.u32 %r4, [%r2 + -4];\n"
                           "    st.global.u32 [%d1], %r4;\n"
                           "    ret;\n"
                           "}\n";

static ptx_device *gpu;

static inline void check(ptx_status status)
{
    if (status != PTX_OK)
        fail_msg("%s: %s", ptx_status_name(status), ptx_error_message());
}

static inline void *need(void *object)
{
    if (!object)
        fail_msg("%s: %s", ptx_status_name(ptx_error_status()), ptx_error_message());
    return object;
}

static inline void wanted(ptx_status status, const char *message)
{
    assert_int_equal(ptx_error_status(), status);
    if (!strstr(ptx_error_message(), message))
        fail_msg("'%s' is not in the message: %s", message, ptx_error_message());
}

/// Scales n values by 2 on the stream, with these launch parameters. True if the result is right.
static inline bool scales(ptx_function *scale, struct ptx_launch_params params, uint32_t n)
{
    ALLOCATED(float) *values = malloc(n * sizeof(*values));
    for (uint32_t i = 0; i < n; i++)
        values[i] = (float)(i % 1000);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu, n * sizeof(*values));
    CUdeviceptr data = ptx_buffer_address(buffer);
    float factor = 2.0f;
    params.grid[0] = (n + 127) / 128;
    params.block[0] = 128;
    params.args = (struct ptx_arg[]) { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) };
    params.arg_count = 3;
    bool right =
        ptx_buffer_upload(buffer, 0, values, n * sizeof(*values), params.stream) == PTX_OK &&
        ptx_launch(scale, &params) == PTX_OK &&
        ptx_buffer_download(buffer, 0, values, n * sizeof(*values), params.stream) == PTX_OK &&
        ptx_stream_synchronize(gpu, params.stream) == PTX_OK;
    for (uint32_t i = 0; i < n && right; i++)
        right = values[i] == 2.0f * (float)(i % 1000);
    return right;
}

/// Functions of libcuda that the library itself does not use; NULL if missing.
struct others {
    int (*push)(CUcontext);
    int (*pop)(CUcontext *);
    int (*create_stream)(CUstream *, unsigned);
    int (*allocate_managed)(CUdeviceptr *, size_t, unsigned);
    int (*free)(CUdeviceptr);
    int (*allocate_from_pool)(CUdeviceptr *, size_t, CUstream);
    int (*free_to_pool)(CUdeviceptr, CUstream);
};

static inline void find_others(struct others *others)
{
    static const char *const names[] = { "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                                         "cuStreamCreate",      "cuMemAllocManaged",
                                         "cuMemFree_v2",        "cuMemAllocAsync",
                                         "cuMemFreeAsync" };
    void *library = need(dlopen(ptx_device_get_info(gpu)->library_path, RTLD_NOW));
    void *symbols[sizeof(names) / sizeof(names[0])] = { NULL };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        symbols[i] = dlsym(library, names[i]);
    _Static_assert(sizeof(*others) == sizeof(symbols), "a name for each member");
    memcpy(others, symbols, sizeof(symbols));
}

/// Opens `gpu` or ends the program.
static inline void open_gpu(void)
{
    gpu = open_device();
    const struct ptx_device_info *info = ptx_device_get_info(gpu);
    printf("%s, sm_%d, driver CUDA %d.%d, %s\n", info->name, info->sm, info->driver_version / 1000,
           info->driver_version % 1000 / 10, info->library_path);
}

/// For cmocka_run_group_tests().
static inline int close_gpu(void **state)
{
    (void)state;
    ptx_device_close(&gpu);
    return 0;
}

#endif

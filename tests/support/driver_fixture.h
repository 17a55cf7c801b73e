// SPDX-License-Identifier: MIT
/// What the tests of the driver layer share: the fake libcuda, and that a test leaves it tidy.
#ifndef PTXGEN_TESTS_DRIVER_FIXTURE_H
#define PTXGEN_TESTS_DRIVER_FIXTURE_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// After those four, as it asks.
#include <cmocka.h>

#include <ptxgen/driver.h>

#include "fake_libcuda.h"

static struct fake_cuda *fake;

/// A kernel with one parameter of each size that matters.
#define KERNEL_TEXT                                                                                \
    "// a comment with .entry in it\n"                                                             \
    ".version 8.0\n"                                                                               \
    ".target sm_80\n"                                                                              \
    ".address_size 64\n"                                                                           \
    ".visible .global .align 8 .u64 counter;\n"                                                    \
    ".visible .entry scale(\n"                                                                     \
    "    .param .u64 .ptr .global .align 16 data,\n"                                               \
    "    .param .u32 n, /* .entry */ .param .f32 factor\n"                                         \
    ")\n"                                                                                          \
    "{\n    ret;\n}\n"                                                                             \
    ".visible .entry fixed() .reqntid 128, 2\n"                                                    \
    "{\n    ret;\n}\n"

/// The fake of this path as a libcuda like any other, found by PTXGEN_LIBCUDA.
static inline struct fake_cuda *fake_open(const char *path)
{
    setenv("PTXGEN_LIBCUDA", path, 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    struct fake_cuda *(*reins)(void) = NULL;
    void *symbol = dlsym(library, "fake_cuda");
    memcpy(&reins, &symbol, sizeof(reins));
    return reins();
}

static inline int fake_setup(void **state)
{
    (void)state;
    if (!fake)
        fake = fake_open(FAKE_LIBCUDA);
    if (!fake)
        return -1;
    fake->reset();
    return 0;
}

/// Nothing left over, the thread's context and capture mode as they were.
static inline int fake_teardown(void **state)
{
    (void)state;
    assert_int_equal(atomic_load(&fake->alive), 0);
    assert_int_equal(atomic_load(&fake->violations), 0);
    assert_int_equal(fake->context_depth(), 0);
    assert_int_equal(fake->capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    return 0;
}

#define FAKE_TEST(function) cmocka_unit_test_setup_teardown(function, fake_setup, fake_teardown)

static inline void assert_message(const char *part)
{
    if (!strstr(ptx_error_message(), part))
        fail_msg("'%s' is not in the message: %s", part, ptx_error_message());
}

/// The thread's last error is this one, and says this.
static inline void assert_error(ptx_status status, const char *part)
{
    if (ptx_error_status() != status)
        fail_msg("%s wanted, got %s: %s", ptx_status_name(status),
                 ptx_status_name(ptx_error_status()), ptx_error_message());
    assert_message(part);
}

static inline ptx_device *open_device(void)
{
    ptx_device *device = ptx_device_open(NULL);
    if (!device)
        fail_msg("%s", ptx_error_message());
    return device;
}

static inline ptx_module *load_module(ptx_device *device, const char *text)
{
    ptx_module *module = ptx_module_load(device, text, NULL);
    if (!module)
        fail_msg("%s", ptx_error_message());
    return module;
}

#endif

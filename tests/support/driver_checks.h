// SPDX-License-Identifier: MIT
/// Checks shared by the tests of the driver layer, for any libcuda.
#ifndef PTXGEN_TESTS_DRIVER_CHECKS_H
#define PTXGEN_TESTS_DRIVER_CHECKS_H

#define _GNU_SOURCE
#include "test.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/driver.h>

/// A kernel with one parameter of each size used in the tests.
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

static inline void assert_message(const char *part)
{
    if (!strstr(ptx_error_message(), part))
        fail_msg("'%s' is not in the message: %s", part, ptx_error_message());
}

/// Fails unless this is the thread's last error, and its message contains `part`.
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

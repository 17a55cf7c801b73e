// SPDX-License-Identifier: MIT
/// The device of a program that needs one.
#ifndef PTXGEN_TESTS_OPEN_DEVICE_H
#define PTXGEN_TESTS_OPEN_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/driver.h>

/// Without a GPU, ends the program with 77 and one line. If there is a GPU that cannot be used,
/// ends it with 1.
static inline ptx_device *open_device(void)
{
    ptx_device *device = ptx_device_open(NULL);

    if (!device) {
        const ptx_status status = ptx_error_status();
        const bool absent = status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE;
        const char *message = ptx_error_message();
        const size_t shown = absent ? strcspn(message, "\n") : strlen(message);
        fprintf(stderr, "%s: %.*s\n", absent ? "SKIPPED, no GPU" : "FAILED, GPU unusable",
                (int)shown, message);
        exit(absent ? 77 : 1);
    }
    return device;
}

#endif

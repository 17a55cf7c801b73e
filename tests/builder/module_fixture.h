// SPDX-License-Identifier: MIT
// For programs that run modules and look at what kernels print.
#ifndef PTXGEN_TESTS_MODULE_FIXTURE_H
#define PTXGEN_TESTS_MODULE_FIXTURE_H

#include "builder_fixture.h"
#include "open_device.h"

#include <ptxgen/driver.h>

#include <unistd.h>

static ptx_device *gpu;

static inline void check(ptx_status status)
{
    if (status)
        fail_msg("%s: %s", ptx_status_name(status), ptx_error_message());
}

static int kept;
static FILE *printed;

// Keeps what goes to a stream of the process, until end_printing().
static inline void begin_printing(int stream)
{
    printed = tmpfile();
    if (!printed)
        fail_msg("no temporary file");
    fflush(NULL);
    kept = dup(stream);
    dup2(fileno(printed), stream);
}

static inline const char *end_printing(int stream)
{
    static char text[8192];

    fflush(NULL);
    dup2(kept, stream);
    close(kept);
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = 0;
    fclose(printed);
    return text;
}

#endif

// SPDX-License-Identifier: MIT
/// How the programs of this folder end if they cannot run. The status is not 1, which means a wrong
/// result. A program defines its name, PROGRAM, before it includes this.
#ifndef PTXGEN_TESTS_DIE_H
#define PTXGEN_TESTS_DIE_H

#include <ptxgen/driver.h>

#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
    exit(2);
}

static inline void check(ptx_status status)
{
    if (status != PTX_OK)
        die("driver", ptx_error_message());
}

#endif

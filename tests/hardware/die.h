// SPDX-License-Identifier: MIT
/// How the programs of this folder end if they cannot do their work. The status differs from that
/// of a wrong result, which is 1. A program defines its name, PROGRAM, before the include.
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

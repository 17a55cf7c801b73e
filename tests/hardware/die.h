// SPDX-License-Identifier: MIT
/// How the programs of this folder end if they cannot run, or are skipped. The status is not 1,
/// which means a wrong result. A program defines its name, PROGRAM, before it includes this.
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

/// The status of a program that has nothing to run on. tests/summary.py reads the reason.
static inline int skipped(const char *what, const char *why)
{
    fprintf(stderr, PROGRAM ": SKIPPED: %s%s\n", what, why);
    return 77;
}

static inline void check(ptx_status status)
{
    if (status != PTX_OK)
        die("driver", ptx_error_message());
}

#endif

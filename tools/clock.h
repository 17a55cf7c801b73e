// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TOOLS_CLOCK_H
#define PTXGEN_TOOLS_CLOCK_H

#include <time.h>

/// Seconds of a monotonic clock.
static inline double clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#endif

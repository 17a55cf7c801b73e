// SPDX-License-Identifier: MIT
/// A bar on standard error, while a long job goes on, for who sits at a terminal.
#ifndef PTXGEN_TOOLS_PROGRESS_H
#define PTXGEN_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    bool on;
    bool drawn;
    uint64_t done, total; ///< bytes
    struct timespec last; ///< when it was drawn
};

/// Draws nothing, then or later, if `quiet` or if standard error is no terminal.
void progress_begin(struct progress *progress, uint64_t total, bool quiet);
void progress_add(struct progress *progress, uint64_t bytes);
/// Takes the bar away. May be called again, and on a zeroed struct.
void progress_end(struct progress *progress);

#endif

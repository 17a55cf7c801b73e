// SPDX-License-Identifier: MIT
/// A progress bar on standard error, for long jobs on a terminal.
#ifndef PTXGEN_TOOLS_PROGRESS_H
#define PTXGEN_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    bool drawn;
    uint64_t done, total; ///< bytes, or steps
    const char *steps;    ///< the unit of the steps; NULL: bytes
    double last;          ///< time of the last update
};

/// Draws nothing, now or later, if `quiet` is set or standard error is not a terminal.
void progress_begin(struct progress *progress, uint64_t total, bool quiet);
/// The same for a number of steps; `steps` is their unit, a constant string.
void progress_begin_steps(struct progress *progress, uint64_t total, const char *steps, bool quiet);
void progress_add(struct progress *progress, uint64_t bytes);
/// Removes the bar, so that other text can be printed; the next progress_add() draws it again.
void progress_hide(struct progress *progress);
/// Removes the bar. May be called again, and on a zeroed struct.
void progress_end(struct progress *progress);

#endif

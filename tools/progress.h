// SPDX-License-Identifier: MIT
/// A bar on standard error, while a long job goes on, for who sits at a terminal.
#ifndef PTXGEN_TOOLS_PROGRESS_H
#define PTXGEN_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    bool drawn;
    uint64_t done, total; ///< bytes, or steps
    const char *steps;    ///< what the steps are of; NULL: bytes are counted
    double last;          ///< when it was drawn
};

/// Draws nothing, then or later, if `quiet` or if standard error is no terminal.
void progress_begin(struct progress *progress, uint64_t total, bool quiet);
/// The same for so many steps of what `steps` says, a constant string.
void progress_begin_steps(struct progress *progress, uint64_t total, const char *steps, bool quiet);
void progress_add(struct progress *progress, uint64_t bytes);
/// Takes the bar away, for something else to be printed; it comes back with the next
/// progress_add().
void progress_hide(struct progress *progress);
/// Takes the bar away. May be called again, and on a zeroed struct.
void progress_end(struct progress *progress);

#endif

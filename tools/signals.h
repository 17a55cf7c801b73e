// SPDX-License-Identifier: MIT
/// Cleanup and messages for signals.
#ifndef PTXGEN_TOOLS_SIGNALS_H
#define PTXGEN_TOOLS_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/// Makes a write beyond the file size limit fail with an error, instead of ending the process.
void signals_set_up(void);
/// The signals whose original handling a child process must inherit: for posix_spawn().
void signals_of_child(sigset_t *set);

/// From now on, a signal that ends the process (SIGINT, SIGTERM, SIGHUP and others, unless ignored)
/// removes this file first. One file at a time; NULL: none. The name must stay valid.
void signals_remove(const char *path);

/// Declares `size` bytes at `begin` as a mapping of the file `path`. If the file is truncated by
/// another process, an access ends the process with a message and status 1 instead of SIGBUS. One
/// mapping at a time; NULL: none.
void signals_mapped(const void *begin, size_t size, const char *path);

#endif

// SPDX-License-Identifier: MIT
/// Cleanup and messages for signals.
#ifndef PTXGEN_TOOLS_SIGNALS_H
#define PTXGEN_TOOLS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/// Makes a write beyond the file size limit fail with an error, instead of ending the process.
void signals_set_up(void);
/// The signals whose original handling a child process must inherit: for posix_spawn().
void signals_of_child(sigset_t *set);

/// From now on, a signal that ends the process (SIGINT, SIGTERM, SIGHUP and others, unless ignored)
/// removes this file first. The name must stay valid until signals_keep() with the same pointer.
/// False if there are SIGNALS_FILE_LIMIT such files.
bool signals_remove(const char *path);
void signals_keep(const char *path);

enum { SIGNALS_FILE_LIMIT = 1024 };

/// Declares `size` bytes at `begin` as a mapping of the file `path`. If the file is truncated by
/// another process, an access ends the process with a message and status 1 instead of SIGBUS. One
/// mapping at a time; NULL: none.
void signals_mapped(const void *begin, size_t size, const char *path);

#endif

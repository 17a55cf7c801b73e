// SPDX-License-Identifier: MIT
/// What signals must not leave behind, and must not do without a word.
#ifndef PTXGEN_TOOLS_SIGNALS_H
#define PTXGEN_TOOLS_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/// Has a write beyond the limit of a file's size fail with an error, instead of ending the process.
void signals_set_up(void);
/// The signals that a program started from here must get as they were: for posix_spawn().
void signals_of_child(sigset_t *set);

/// From now on a signal that ends the process (SIGINT, SIGTERM, SIGHUP and the like, unless they
/// are ignored) removes this file first. One file at a time; NULL: none. The name must stay valid.
void signals_remove(const char *path);

/// `size` bytes at `begin` are a mapping of the file `path`. If somebody truncates the file, an
/// access ends the process with a message and status 1, instead of SIGBUS. One mapping at a time;
/// NULL: none.
void signals_mapped(const void *begin, size_t size, const char *path);

#endif

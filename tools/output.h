// SPDX-License-Identifier: MIT
/// Files that are written whole or not at all.
#ifndef PTXGEN_TOOLS_OUTPUT_H
#define PTXGEN_TOOLS_OUTPUT_H

#include "message.h"

#include <stdio.h>
#include <sys/stat.h>

/// A file on its way. A regular file grows without a name, or under a temporary one where the file
/// system has no nameless files, and takes its name when it is complete. So a process that ends
/// early, by a signal too, leaves nothing behind. Everything else (a terminal, a pipe, /dev/null,
/// an open descriptor by its name in /dev/fd) is written directly.
///
/// A file that takes the place of another keeps its mode, its access control list and, where the
/// process may, its owner and group. A symbolic link stays, and leads to the new file. Another hard
/// link to the old file keeps the old contents.
struct output {
    FILE *stream;
    const char *name; ///< as given, for messages
    char *path;       ///< where symbolic links lead; NULL: written directly
    char *temporary;  ///< the name that the file has until it is complete; NULL: it has none
    bool replaces;    ///< there is a file of that name, `present`
    struct stat present;
    int reason; ///< errno of the first write that failed
};

/// Begins a file; `path` NULL or "-": standard output. Refused are a folder, a symbolic link that
/// leads nowhere, and, unless `force`, a file that is read-only: one without a write bit, also for
/// root, or that this user may not write. `path` must stay valid. On failure there is nothing to
/// discard.
bool output_open(struct output *output, const char *path, bool force, struct message *error);
/// Whether output_open() would refuse it, before work is put into what it is to hold. Makes
/// nothing.
bool output_check(const char *path, bool force, struct message *error);
/// Whether the path is another name of standard output: "-", /dev/stdout.
bool output_is_stdout(const char *path);
/// Adds bytes to it. A failure is kept for output_commit().
void output_write(struct output *output, const void *bytes, size_t count);
/// Completes the file and closes it. On failure the file that was there before is still there.
bool output_commit(struct output *output, struct message *error);
/// Gives the file up. Does nothing after output_commit() or a failed output_open().
void output_discard(struct output *output);

/// The file's bytes with a NUL behind them, to be freed; "-": standard input. NULL on failure, and
/// for files above `limit` bytes.
char *read_text(const char *path, size_t limit, struct message *error);

#endif

// SPDX-License-Identifier: MIT
/// Files that are written whole or not at all.
#ifndef PTXGEN_TOOLS_OUTPUT_H
#define PTXGEN_TOOLS_OUTPUT_H

#include "message.h"

#include <stdio.h>

/// A file on its way. It grows under a temporary name beside the one it is meant for, and takes
/// its name when it is complete. What is no regular file (a terminal, a pipe, /dev/null) is
/// written directly.
struct output {
    FILE *stream;
    char *path;
    char *temporary; ///< NULL where the path is written directly
    int reason;      ///< errno of the first write that failed
};

/// `path` NULL or "-": standard output.
bool output_open(struct output *output, const char *path, struct message *error);
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

// SPDX-License-Identifier: MIT
/// Files that are written completely or not at all.
#ifndef PTXGEN_TOOLS_OUTPUT_H
#define PTXGEN_TOOLS_OUTPUT_H

#include "message.h"

#include <stdio.h>
#include <sys/stat.h>

/// A file that is being written. A regular file has no name (or a temporary one, if the file system
/// does not support unnamed files) until it is complete, so that a process that ends early, also by
/// a signal, leaves nothing behind. Everything else (a terminal, a pipe, /dev/null, an open
/// descriptor named in /dev/fd) is written directly.
///
/// A file that replaces another keeps its mode, its access control list and, if the process is
/// allowed to, its owner and group. A symbolic link stays and points to the new file. Other hard
/// links to the old file keep the old contents.
struct output {
    FILE *stream;
    const char *name; ///< as given, for messages
    char *path;       ///< the path with symbolic links resolved; NULL: written directly
    char *temporary;  ///< the name until the file is complete; NULL: unnamed
    bool replaces;    ///< a file with the final name exists: `present`
    struct stat present;
    int reason; ///< errno of the first failed write
};

/// Opens a file; `path` NULL or "-" is standard output. Refuses a folder, a dangling symbolic link
/// and, unless `force`, a file that is read-only: one without a write bit, also for root, or one
/// that this user may not write. `path` must stay valid. After a failure there is nothing to
/// discard.
bool output_open(struct output *output, const char *path, bool force, struct message *error);
/// Whether output_open() would refuse the path; used before the contents are computed. Creates
/// nothing.
bool output_check(const char *path, bool force, struct message *error);
/// Whether the path is another name of standard output: "-", /dev/stdout.
bool output_is_stdout(const char *path);
/// Whether the path is one of a regular file that output_commit() would replace, described by
/// *present.
bool output_replaces(const char *path, struct stat *present);
/// Appends bytes. A failure is reported by output_commit().
void output_write(struct output *output, const void *bytes, size_t count);
/// Completes and closes the file. If this fails, the previous file remains.
bool output_commit(struct output *output, struct message *error);
/// Discards the file. Does nothing after output_commit() or a failed output_open().
void output_discard(struct output *output);

/// The contents of a file followed by a NUL, which the caller frees; "-": standard input. NULL on
/// failure, and for files of more than `limit` bytes.
char *read_text(const char *path, size_t limit, struct message *error);

#endif

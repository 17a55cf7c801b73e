// SPDX-License-Identifier: MIT
/// A file of a GPU's results: lines `name ...`; comments start with '#'. A case without a line is
/// unrecorded: it is counted and named, and its line can be added to the file.
#ifndef PTXGEN_TESTS_RECORDING_H
#define PTXGEN_TESTS_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct recording {
    char *text;          // of the known file; NULL without one
    const char *at;      // where the next search starts
    FILE *out;           // NULL: nothing is written
    unsigned unrecorded; // cases without a line in a known file
    char names[512];     // of the first of them
};

/// Opens `known`, unless it is NULL, to compare with. Opens `out`, unless it is NULL, to write to
/// ("-": standard output): first the known lines, then those of recording_add(). Returns false and
/// prints a message if a file cannot be read or written.
bool recording_open(struct recording *r, const char *known, const char *out);
/// The same with the files that follow -c and -o among a program's arguments; without both, writes
/// to standard output.
bool recording_open_by(struct recording *r, int argc, char **argv);
/// The rest of the line after the name, up to a newline; NULL if the case has no line.
const char *recording_find(struct recording *r, const char *name);
/// Counts a case without a line, and writes its line. `contents` and the arguments are as for
/// printf().
void recording_add(struct recording *r, const char *name, const char *contents, ...)
    __attribute__((format(printf, 3, 4)));
/// Prints the number of unrecorded cases and their names, and frees everything. False if `out`
/// could not be written.
bool recording_close(struct recording *r);

#endif

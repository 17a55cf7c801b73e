// SPDX-License-Identifier: MIT
/// A file of what a GPU computed: lines `name ...`, comments after '#'. A case that has no line is
/// unrecorded: it is counted and named, and its line can be written for the file to be completed.
#ifndef PTXGEN_TESTS_RECORDING_H
#define PTXGEN_TESTS_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct recording {
    char *text;          // of the known file; NULL without one
    const char *at;      // where the next search begins
    FILE *out;           // NULL: nothing is written
    unsigned unrecorded; // cases without a line in a known file
    char names[512];     // of the first of them
};

/// Opens `known` to compare with, if not NULL, and `out` to write to, if not NULL ("-": standard
/// output): first the known lines, then those of recording_add(). False, with a message on standard
/// error, if a file cannot be read or written.
bool recording_open(struct recording *r, const char *known, const char *out);
/// What follows the name in its line, up to a newline; NULL if the case has none.
const char *recording_find(struct recording *r, const char *name);
/// A case that has no line: counted, and written with its contents, printed as by printf().
void recording_add(struct recording *r, const char *name, const char *contents, ...)
    __attribute__((format(printf, 3, 4)));
/// Prints how many cases are unrecorded, and which, and frees everything. False if `out` could not
/// be written.
bool recording_close(struct recording *r);

#endif

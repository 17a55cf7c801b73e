// SPDX-License-Identifier: MIT
/// The folder of one run of a test, so that two runs in one build folder do not write the same
/// files.
#ifndef PTXGEN_TESTS_OWN_FOLDER_H
#define PTXGEN_TESTS_OWN_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OWN_FOLDER_SIZE = 400 };

/// Makes a new folder in `below`, named after the program. The caller removes it with rmdir(),
/// which leaves it where a failed test left its files.
static inline void own_folder(char path[OWN_FOLDER_SIZE], const char *below, const char *program)
{
    const int length = snprintf(path, OWN_FOLDER_SIZE, "%s/%s-XXXXXX", below, program);
    if (length < 0 || length >= OWN_FOLDER_SIZE || !mkdtemp(path)) {
        fprintf(stderr, "%s: no folder can be made in %s\n", program, below);
        exit(1);
    }
}

#endif

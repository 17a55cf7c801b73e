// SPDX-License-Identifier: MIT
// A whole module of unrelated instructions put through ptxas, whose errors are told apart by line.
#ifndef PTXGEN_TESTS_PTXAS_BATCH_H
#define PTXGEN_TESTS_PTXAS_BATCH_H

#include <stdbool.h>
#include <stddef.h>

struct ptxas_error {
    int line; // from 1; 0 where ptxas names none
    char text[160];
};

struct ptxas_report {
    bool accepted;
    struct ptxas_error *errors; // freed by ptxas_report_free()
    size_t count;
};

// The path of ptxas, or NULL: from the environment's PTXAS, PATH or CUDA's usual folder.
const char *ptxas_find(void);
// Assembles `text` for `target` ("sm_90"); the code it makes is thrown away.
struct ptxas_report ptxas_run(const char *text, const char *target);
void ptxas_report_free(struct ptxas_report *report);
// Whether this ptxas knows the target.
bool ptxas_knows(const char *target);

#endif

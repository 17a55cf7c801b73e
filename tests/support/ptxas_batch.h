// SPDX-License-Identifier: MIT
// Assembles a module of unrelated instructions with ptxas, and tells its errors apart by line.
#ifndef PTXGEN_TESTS_PTXAS_BATCH_H
#define PTXGEN_TESTS_PTXAS_BATCH_H

#include <stdbool.h>
#include <stddef.h>

struct ptxas_error {
    int line; // from 1; 0: ptxas gave none
    char text[160];
};

struct ptxas_report {
    bool accepted;
    struct ptxas_error *errors; // freed by ptxas_report_free()
    size_t count;
};

// The path of ptxas, or NULL: in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin, as the command finds
// it.
const char *ptxas_find(void);
// The exit status of a test that is about ptxas: 77 without one, unless something failed.
int ptxas_status(int failed);
// Assembles `text` for `target` ("sm_90"), and discards the code.
struct ptxas_report ptxas_run(const char *text, const char *target);
void ptxas_report_free(struct ptxas_report *report);
// True if this ptxas knows the target.
bool ptxas_knows(const char *target);
// True if this ptxas knows the PTX ISA; 90 is 9.0.
bool ptxas_knows_isa(int isa);

#endif

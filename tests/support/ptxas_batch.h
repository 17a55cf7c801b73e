// SPDX-License-Identifier: MIT
// Assembles a module of unrelated instructions with ptxas, and tells its errors apart by line.
#ifndef PTXGEN_TESTS_PTXAS_BATCH_H
#define PTXGEN_TESTS_PTXAS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptxas_error {
    int line; // from 1; 0: ptxas gave none
    char text[160];
};

struct ptxas_report {
    bool accepted;
    bool warned;
    bool believed;              // ptxas was not run: see ptxas_assemble()
    struct ptxas_error *errors; // freed by ptxas_report_free()
    size_t count;
};

// The path of ptxas, or NULL: in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin, as the command finds
// it.
const char *ptxas_find(void);
// The exit status of a test that is about ptxas: 77 without one, unless something failed.
int ptxas_status(int failed);
// Assembles `text` for `target` ("sm_90"), and discards the code. `optimization`: 0 to 3.
//
// $PTXGEN_PTXAS_VERDICTS names a file of texts that were accepted without a warning, a line each:
// the version of ptxas, the target, the text's first entry, a hash of text and optimization. A text
// that this file has is believed. $PTXGEN_PTXAS_ALL=1 believes none. $PTXGEN_PTXAS_RECORD names a
// file to which each accepted text adds its line.
struct ptxas_report ptxas_assemble(const char *text, const char *target, int optimization);
// The same without optimization.
struct ptxas_report ptxas_run(const char *text, const char *target);
void ptxas_report_free(struct ptxas_report *report);
// Many questions, refused texts among them, of which a test keeps one verdict: `hash` is of all
// texts, targets and expected answers. True if the file has it under this name; it stands in a line
// as of the target "all".
bool ptxas_answers_believed(const char *name, uint64_t hash);
// This ptxas has given all the expected answers.
void ptxas_answers_seen(const char *name, uint64_t hash);
// FNV-1a of a text, from the hash of what came before, at first PTXAS_NO_TEXT.
#define PTXAS_NO_TEXT UINT64_C(0xcbf29ce484222325)
uint64_t ptxas_hash(uint64_t hash, const char *text);
// True if this ptxas knows the target.
bool ptxas_knows(const char *target);
// True if this ptxas knows the PTX ISA; 90 is 9.0.
bool ptxas_knows_isa(int isa);
// True if this ptxas knows the target in a text of this PTX ISA.
bool ptxas_knows_both(const char *target, int isa);

#endif

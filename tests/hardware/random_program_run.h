// SPDX-License-Identifier: MIT
// Runs random programs on the current driver and records the results.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_RUN_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_RUN_H

#include <ptxgen/ptxgen.h>

#include <stdio.h>

#include "random_program.h"

#define PROGRAM "differential"
#include "die.h"

enum { PROGRAM_MAX_WORKERS = 64 };

struct program_result {
    uint64_t hash;
    uint64_t step[PROGRAM_STEPS];
    unsigned steps;
    unsigned held, wrong; // results of approximate instructions
    struct {
        struct op_case c;
        uint64_t word[3];
    } first; // the first one that is wrong
    struct op_case approximate[PROGRAM_APPROXIMATES];
    unsigned approximates;
};

struct program_run {
    ptx_device *device;
    uint64_t seed; // of the first program
    unsigned count, workers;
    unsigned last;                  // only this step and those that it needs; PROGRAM_STEPS: all
    FILE *words;                    // the output itself is written there, with one worker; or NULL
    struct program_result *results; // one for each program; zero at first
};

// Makes and runs the programs, and sets the results. Ends the process if that is not possible.
void program_run_all(struct program_run *run);

ptx_builder *program_builder(void);
// The program of a seed, without the calls that the builder's target lacks.
void program_make(struct program *p, uint64_t seed);

#endif

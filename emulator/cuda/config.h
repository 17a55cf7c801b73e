// SPDX-License-Identifier: MIT
// What the environment says (docs/emulator.md): read once, at the first call.
#ifndef PTXGEN_EMULATOR_CUDA_CONFIG_H
#define PTXGEN_EMULATOR_CUDA_CONFIG_H

#include "exec/exec.h"

#include <stdbool.h>
#include <stdint.h>

// A call that is made to fail.
struct api_fault {
    char function[96];
    int code;
    unsigned long call; // which one, from 1; 0: every one
    unsigned long seen;
};

enum { API_MAX_FAULTS = 64 };

struct api_config {
    int sm, multiprocessors;
    char name[256];
    int driver; // 13000
    int isa;    // 90: newest PTX that it accepts
    uint64_t memory, seed, instructions;
    enum emu_sanitize sanitize;
    unsigned threads, timeout;
    struct api_fault faults[API_MAX_FAULTS];
    unsigned fault_count;
    char log[4096];  // file that reports are appended to; "": standard error
    char error[320]; // what is malformed; "" if nothing is
};

void api_config_read(struct api_config *config);
// The CUresult that a call of the function (symbol or name) is to return, 0: none.
int api_config_fault(struct api_config *config, const char *symbol, const char *name);

#endif

// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_ASSEMBLE_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_ASSEMBLE_H

#include <stdint.h>

// Hands the programs seed to seed + count - 1 to ptxas, spread over the targets that it knows.
// Calls that a target lacks are left out. The status of the process: 1 if one is refused.
int program_assemble(uint64_t seed, unsigned count);

#endif

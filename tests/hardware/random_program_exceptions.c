// SPDX-License-Identifier: MIT
#include "random_program.h"

// Of a product with k = 8 and 16 bits (docs/matrices.md).
#define CONSTANT_B "ptxas 13.0 turns a sign of a constant B"
// Calls in divergent code (docs/functions.md); a fault would end the recording.
#define FAULTS     "faults on an H200, ptxas 13.0"
#define DIFFERS    "other results on an H200, ptxas 13.0"

static const struct program_exception exceptions[] = {
    { 1000159, false, CONSTANT_B }, { 1000227, true, FAULTS },      { 1000251, false, CONSTANT_B },
    { 1000302, false, CONSTANT_B }, { 1000334, false, CONSTANT_B }, { 1000424, false, CONSTANT_B },
    { 1000435, false, CONSTANT_B }, { 1000534, false, CONSTANT_B }, { 1000560, false, CONSTANT_B },
    { 1000639, false, CONSTANT_B }, { 1000706, true, FAULTS },      { 1000736, false, CONSTANT_B },
    { 1001059, false, CONSTANT_B }, { 1001755, true, FAULTS },      { 1002641, false, DIFFERS },
    { 1002771, false, CONSTANT_B }, { 1002802, true, FAULTS },      { 1003020, false, CONSTANT_B },
    { 1004299, false, CONSTANT_B }, { 1004662, false, CONSTANT_B },
};

const struct program_exception *program_exception(uint64_t seed)
{
    for (size_t k = 0; k < sizeof exceptions / sizeof *exceptions; k++)
        if (exceptions[k].seed == seed)
            return &exceptions[k];
    return NULL;
}

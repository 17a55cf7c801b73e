// SPDX-License-Identifier: MIT
/// What the PTX ISA documents about approximate instructions: corner cases and error bounds. In
/// plain C, written from the manual alone.
#ifndef PTXGEN_TESTS_APPROXIMATE_H
#define PTXGEN_TESTS_APPROXIMATE_H

#include "op_cases.h"

struct approximate_error {
    bool documented; ///< false: the manual says nothing about these operands
    bool right;      ///< has the bits of the corner case, or is within the bound
    double share;    ///< of the bound that the error reaches; 0 for a corner case
};

/// True if this file has the instruction's function and bound. A new approximate instruction needs
/// both.
bool approximate_is_documented(const struct op_case *c);
/// An instruction of one operand ignores `y`. Packed types are compared lane by lane; the share is
/// the greater of the two.
struct approximate_error approximate_error(const struct op_case *c, uint64_t x, uint64_t y,
                                           uint64_t result);

/// The i-th operands to try: corner cases; then all magnitudes, with most values where the
/// functions bend. The first APPROXIMATE_SWEEP include every value of a 16-bit type.
enum { APPROXIMATE_CHOSEN = 256, APPROXIMATE_SWEEP = APPROXIMATE_CHOSEN + 65536 };
uint64_t approximate_input(ptx_type type, unsigned operand, unsigned i);

#endif

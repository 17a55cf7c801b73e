// SPDX-License-Identifier: MIT
/// What the PTX ISA documents of the approximate instructions: their corner cases, and how far from
/// the exact result they may lie. In plain C, from the manual alone.
#ifndef PTXGEN_TESTS_APPROXIMATE_H
#define PTXGEN_TESTS_APPROXIMATE_H

#include "op_cases.h"

struct approximate_error {
    bool documented; ///< false: nothing is said of these operands
    bool right;      ///< the corner case's very bits, or within the bound
    double share;    ///< of the bound; 0 for a corner case
};

/// Whether this file has the instruction's function and bound. A new approximate instruction needs
/// both.
bool approximate_is_documented(const struct op_case *c);
/// Of an instruction of one operand, `y` is not looked at. Packed types are held lane by lane; the
/// share is the greater one.
struct approximate_error approximate_error(const struct op_case *c, uint64_t x, uint64_t y,
                                           uint64_t result);

/// The i-th operands to try: corner cases, then all magnitudes, the densest where the functions
/// bend. Of a 16-bit type, every value is among APPROXIMATE_SWEEP.
enum { APPROXIMATE_CHOSEN = 256, APPROXIMATE_SWEEP = APPROXIMATE_CHOSEN + 65536 };
uint64_t approximate_input(ptx_type type, unsigned operand, unsigned i);

#endif

// SPDX-License-Identifier: MIT
/// What an instruction computes, in plain C from the PTX ISA alone. A new row of ops.h gets its
/// expectation here; it needs no GPU. Integers, bits and selections; what rounds is held to what a
/// GPU recorded, and approximate instructions to their bound (approximate.h).
#ifndef PTXGEN_TESTS_OP_EXPECTED_H
#define PTXGEN_TESTS_OP_EXPECTED_H

#include "op_cases.h"

/// Whether there is an expectation for the case.
bool op_is_expected(const struct op_case *c);
/// The result of a case for operands of zero-extended bits; a predicate is 0 or 1. False, and
/// *result unchanged, where PTX leaves the result open or op_is_expected() is false.
bool op_expected(const struct op_case *c, const uint64_t operand[4], uint64_t *result);

#endif

// SPDX-License-Identifier: MIT
/// What instructions compute, in plain C from the PTX ISA alone: integers, bits and selections. A
/// new row of ops.h gets its expectation here, without a GPU. Instructions that round are compared
/// with a GPU's recordings, and approximate ones with their bound (approximate.h).
#ifndef PTXGEN_TESTS_OP_EXPECTED_H
#define PTXGEN_TESTS_OP_EXPECTED_H

#include "op_cases.h"

/// True if there is an expectation for the case.
bool op_is_expected(const struct op_case *c);
/// The result of a case for operands of zero-extended bits; a predicate is 0 or 1. Returns false
/// and leaves *result unchanged if PTX does not define the result, or if op_is_expected() is false.
bool op_expected(const struct op_case *c, const uint64_t operand[4], uint64_t *result);

#endif

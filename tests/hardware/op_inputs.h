// SPDX-License-Identifier: MIT
/// The operands with which the instructions of the table are tested.
#ifndef PTXGEN_TESTS_OP_INPUTS_H
#define PTXGEN_TESTS_OP_INPUTS_H

#include <ptxgen/types.h>

#include "random.h"

/// A number for each type that never changes: 1 to OP_TYPES - 1 for the types of the first
/// recordings, greater ones for later types.
enum { OP_TYPES = 20 };
ptx_type op_type(unsigned number);
unsigned op_type_number(ptx_type type);

/// Corner values of f32; also of f16 and bf16 together.
enum { OP_CORNERS = 32 };
extern const uint32_t op_corners_f32[OP_CORNERS];
extern const uint16_t op_corners_half[OP_CORNERS];

/// The i-th value of an operand (0 to 3): each pair of corner values in the first two operands;
/// then random bits, half of them with similar exponents. Always takes one number of `r`.
uint64_t op_input(struct random *r, ptx_type type, unsigned operand, unsigned i);

#endif

// SPDX-License-Identifier: MIT
// The rows of random_program_calls.c that random_program_matrix.c has.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_CALLS_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_CALLS_H

#include "random_program_emit.h"

program_call program_copy;
program_call program_load_tiles, program_store_tiles;
program_call program_product_f16, program_product_bf16, program_product_tf32, program_product_s8;
program_call program_product_in_memory;

#endif

// SPDX-License-Identifier: MIT
// What the files of rows share: the rows of random_program_calls.c that other files have, and
// functions.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_CALLS_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_CALLS_H

#include "random_program_emit.h"

program_call program_copy;
program_call program_load_tiles, program_store_tiles;
program_call program_product_f16, program_product_bf16, program_product_tf32, program_product_s8;
program_call program_product_in_memory;
// Those of random_program_subject.c.
program_call program_print_some, program_print_sides, program_assert_each, program_trap_never;
program_call program_constant_f16, program_constant_bf16;
/// A constant as a register: bits that are reinterpreted would stay a constant.
ptx_val program_placed(struct emitter *e, ptx_val x);
/// Prints operands where the condition is true. Returns one of them.
ptx_val program_print_if(struct emitter *e, const struct node *n, const ptx_val *x,
                         ptx_val condition);
/// `count` words of 32 bits made of x.
ptx_vec program_fragment_words(struct emitter *e, ptx_val x, unsigned count);

#endif

// SPDX-License-Identifier: MIT
// What the emission of random programs shares between its two files.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H

#include "random_program.h"

struct emitter {
    ptx_builder *b;
    const struct program *p;
    ptx_val value[PROGRAM_NODES], index[PROGRAM_NODES];
    ptx_ptr in, out, shared;
    ptx_val tid, thread;
};

/// The words of what the program writes, from first + index * scale on.
ptx_ptr program_words(struct emitter *e, uint32_t first, ptx_val index, uint32_t scale,
                      ptx_type type);
ptx_ptr program_input_array(struct emitter *e, ptx_type type);
/// Whether the lowest bit is set.
ptx_val program_is_odd(ptx_builder *b, ptx_val x);
/// The nodes of memory and of threads together.
ptx_val program_emit_memory(struct emitter *e, const struct node *n, const ptx_val *x);

#endif

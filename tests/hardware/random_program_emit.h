// SPDX-License-Identifier: MIT
// Shared by the files that emit random programs.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H

#include "random_program.h"

struct emitter {
    ptx_builder *b;
    const struct program *p;
    ptx_val value[PROGRAM_NODES], index[PROGRAM_NODES];
    ptx_ptr in, out;
    ptx_ptr shared; // a word a thread, for all to read
    ptx_ptr own;    // two words a thread, also in shared memory
    ptx_val tid, thread;
    ptx_val lanes; // of the warp: those that come by
};

/// The words of what the program writes, from first + index * scale on.
ptx_ptr program_words(struct emitter *e, uint32_t first, ptx_val index, uint32_t scale,
                      ptx_type type);
ptx_ptr program_input_array(struct emitter *e, ptx_type type);
/// The same value, as it comes from memory.
ptx_val program_opaque(struct emitter *e, ptx_val v);
/// Whether the lowest bit is set.
ptx_val program_is_odd(ptx_builder *b, ptx_val x);
ptx_val program_operand(struct emitter *e, const struct operand *o);
void program_emit_range(struct emitter *e, unsigned begin, unsigned end);
/// The nodes of memory, of threads together, and of control.
ptx_val program_emit_memory(struct emitter *e, const struct node *n, const ptx_val *x);
ptx_val program_emit_together(struct emitter *e, const struct node *n, const ptx_val *x);
void program_emit_control(struct emitter *e, const struct node *n);
void program_emit_return(struct emitter *e, const struct node *n, ptx_val condition);

#endif

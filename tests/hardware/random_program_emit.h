// SPDX-License-Identifier: MIT
// Shared by the files that emit random programs.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_EMIT_H

#include "random_program.h"

struct emitter {
    ptx_builder *b;
    const struct program *p;
    const char *name; // of the entry
    unsigned *failed; // the node at which the builder failed, if it did
    ptx_val value[PROGRAM_NODES], index[PROGRAM_NODES];
    ptx_ptr in, out;
    ptx_ptr shared; // one word for each thread, which all can read
    ptx_ptr own;    // two words for each thread, in shared memory too
    ptx_val tid, thread;
    ptx_val lanes; // the lanes of the warp that are here
};

/// The words of the program's output from first + index * scale on.
ptx_ptr program_words(struct emitter *e, uint32_t first, ptx_val index, uint32_t scale,
                      ptx_type type);
ptx_ptr program_input_array(struct emitter *e, ptx_type type);
/// The same value, hidden from ptxas by a load from memory.
ptx_val program_opaque(struct emitter *e, ptx_val v);
/// An input of this type that `bits` chooses.
ptx_val program_input(struct emitter *e, ptx_type type, uint64_t bits);
/// The thread's own 16 bytes in one of the memory spaces.
ptx_ptr program_own(struct emitter *e, ptx_space space, ptx_type type);
/// True if the lowest bit is set.
ptx_val program_is_odd(ptx_builder *b, ptx_val x);
ptx_val program_operand(struct emitter *e, const struct operand *o);
void program_emit_range(struct emitter *e, unsigned begin, unsigned end);
/// The nodes for memory, for threads together, and for control flow.
ptx_val program_emit_memory(struct emitter *e, const struct node *n, const ptx_val *x);
ptx_val program_emit_together(struct emitter *e, const struct node *n, const ptx_val *x);
void program_emit_control(struct emitter *e, const struct node *n);
void program_emit_return(struct emitter *e, const struct node *n, ptx_val condition);
/// The functions that the program calls, and a call.
void program_emit_functions(const struct emitter *e);
ptx_val program_emit_call(struct emitter *e, const struct node *n, const ptx_val *x);
/// The pointers, the arrays of shared memory and the thread's numbers.
void program_open(struct emitter *e);

#endif

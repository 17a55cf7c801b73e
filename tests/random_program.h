// SPDX-License-Identifier: MIT
// Programs made at random: a plan that depends on the seed alone, and its kernel.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_H

#include "op_cases.h"
#include "random.h"

enum {
    PROGRAM_BLOCK = 256,
    PROGRAM_GRID = 2,
    PROGRAM_THREADS = PROGRAM_BLOCK * PROGRAM_GRID,
    PROGRAM_STEPS = 24,
    PROGRAM_NODES = 192,
    PROGRAM_INPUTS = 4096, // values of one type
    PROGRAM_IN_BYTES = PTX_TYPE_COUNT * PROGRAM_INPUTS * 8,
    // What a program writes, in words: a row of results a step, one row that every program has, 16
    // bytes of scratch a thread, 8 cells a node that all threads update.
    PROGRAM_SCRATCH = (PROGRAM_STEPS + 1) * PROGRAM_THREADS,
    PROGRAM_CELLS = PROGRAM_SCRATCH + 2 * PROGRAM_THREADS,
    PROGRAM_WORDS = PROGRAM_CELLS + 8 * PROGRAM_NODES,
};

enum node_kind {
    NODE_CASE,
    NODE_PACK,
    NODE_UNPACK,
    NODE_LOAD,
    NODE_LOCAL,
    NODE_SCRATCH,
    NODE_ATOMIC,
    NODE_ATOMIC_OWN,
    NODE_EXCHANGE,
    NODE_SHARED_ATOMIC,
    NODE_SHUFFLE,
    NODE_WARP,
    NODE_BLOCK_VOTE,
    NODE_IF,
    NODE_FOR,
    NODE_LOOP,
    NODE_WHILE,
};

enum operand_source {
    OPERAND_NONE,
    OPERAND_NODE,  // what a node computed
    OPERAND_INDEX, // the counter of a loop
    OPERAND_INPUT,
    OPERAND_CONSTANT,
    OPERAND_SPECIAL,
};

struct operand {
    enum operand_source source;
    ptx_type type;
    unsigned node;
    uint64_t bits;
};

enum { NODE_OPERANDS = 5 };

struct node {
    enum node_kind kind;
    ptx_type type;  // of the result
    ptx_type other; // of the operand, where it differs
    struct op_case c;
    struct operand x[NODE_OPERANDS];
    uint32_t a, b;
    // Control flow: the bodies, and what each gives for a result. The operands are the first value,
    // the condition or count, and the condition of a break.
    unsigned begin[2], end[2];
    struct operand result[2];
    bool uniform;
};

struct program {
    struct node node[PROGRAM_NODES];
    bool needed[PROGRAM_NODES];
    unsigned count;
    unsigned step[PROGRAM_STEPS]; // the node of each
    unsigned steps;
};

/// What the builder accepts on sm_90: made once, before the programs.
void program_catalogue(void);
void program_plan(struct program *p, uint64_t seed);
/// Leaves the steps up to `last`, and of them what it depends on.
void program_cut(struct program *p, unsigned last);
/// An entry of that name, with parameters `in` and `out`.
void program_emit(ptx_builder *b, const struct program *p, const char *name);
void program_inputs(unsigned char in[PROGRAM_IN_BYTES]);
uint64_t program_value(struct random *r, ptx_type type);

typedef ptx_val program_reduction(ptx_builder *b, ptx_val x, ptx_val mask);
struct program_warp_row {
    program_reduction *call;
    uint32_t types;
    ptx_type result; // PTX_NONE: the operand's
};
extern const struct program_warp_row program_warp_rows[];
extern const unsigned program_warp_count;

#endif

// SPDX-License-Identifier: MIT
// Random programs: a plan, which depends only on the seed, and its kernel.
#ifndef PTXGEN_TESTS_RANDOM_PROGRAM_H
#define PTXGEN_TESTS_RANDOM_PROGRAM_H

#include "op_cases.h"
#include "op_inputs.h"
#include "random.h"

enum {
    PROGRAM_BLOCK = 256,
    PROGRAM_GRID = 2,
    PROGRAM_THREADS = PROGRAM_BLOCK * PROGRAM_GRID,
    PROGRAM_STEPS = 24,
    PROGRAM_NODES = 192,
    PROGRAM_APPROXIMATES = 4,
    PROGRAM_INPUTS = 4096, // values of each type
    PROGRAM_IN_BYTES = OP_TYPES * PROGRAM_INPUTS * 8,
    // The words that a program writes: a row of results for each step, and one more row; 16 bytes
    // of scratch for each thread; 8 cells for each node that all threads update; 4 words for each
    // two threads that meet across blocks; and operands and results of approximate instructions.
    PROGRAM_SCRATCH = (PROGRAM_STEPS + 1) * PROGRAM_THREADS,
    PROGRAM_CELLS = PROGRAM_SCRATCH + 2 * PROGRAM_THREADS,
    PROGRAM_MEETING = PROGRAM_CELLS + 8 * PROGRAM_NODES,
    PROGRAM_APPROXIMATE = PROGRAM_MEETING + 4 * PROGRAM_BLOCK,
    PROGRAM_WORDS = PROGRAM_APPROXIMATE + 3 * PROGRAM_THREADS * PROGRAM_APPROXIMATES,
    PROGRAM_FUNCTIONS = 3,
    PROGRAM_PARAMS = 3,
    // Programs from this seed on have functions, and the calls and blocks that came after the first
    // recordings (random_program_calls.c).
    PROGRAM_LATER = 1000000,
    // Programs from these seeds on have more of one subject (random_program_subject.c).
    PROGRAM_MESSAGES = 10000000,
    PROGRAM_CONSTANTS = 20000000,
};

// Messages in code that part of a warp reaches, without functions; constant factors B.
enum program_subject { SUBJECT_NONE, SUBJECT_MESSAGES, SUBJECT_CONSTANTS };

enum node_kind {
    NODE_CASE,
    NODE_PACK,
    NODE_UNPACK,
    NODE_APPROXIMATE,
    // memory
    NODE_LOAD,
    NODE_LOCAL,
    NODE_ACCESS,
    NODE_ATOMIC,
    NODE_ATOMIC_OWN,
    NODE_CAS,
    NODE_MEETING,
    // in later programs
    NODE_ROW,
    NODE_CALL,
    NODE_PARAM,
    // threads together
    NODE_FENCE,
    NODE_SHUFFLE,
    NODE_WARP,
    NODE_EXCHANGE,
    NODE_SHARED_ATOMIC,
    NODE_BLOCK_VOTE,
    // control
    NODE_RETURN,
    NODE_IF,
    NODE_FOR,
    NODE_LOOP,
    NODE_WHILE,
    NODE_JUMP,
    NODE_ELSE_IF,
    NODE_DOWN,
    NODE_STRIDE,
};

// The threads that reach the code under a condition. Barriers of the block are only in code that
// the whole block reaches; warp instructions only in code that known lanes reach.
enum condition { BY_BLOCK, BY_WARP, BY_LANES, BY_THREAD };

// The kinds of NODE_JUMP, with raw branches: over a body, into the middle of two, back, out of
// blocks.
enum { JUMP_OVER, JUMP_CROSS, JUMP_BACK, JUMP_OUT };

enum operand_source {
    OPERAND_NONE,
    OPERAND_NODE,  // the result of a node
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
    ptx_type other; // of the operand, if it differs
    struct op_case c, load;
    struct operand x[NODE_OPERANDS];
    uint32_t a, b;
    unsigned site; // index of an approximate instruction
    // Control flow: the bodies, and the operand that is the result of each. The node's operands are
    // the first value, the condition or count, and the condition of a break.
    unsigned begin[2], end[2];
    struct operand result[2];
    enum condition by;
};

// Its nodes; the first ones are its parameters. It returns one of two values, as `early` says.
struct program_function {
    unsigned begin, end, params;
    struct operand result, other, early;
    bool together; // its caller is code that the whole block reaches
};

struct program {
    struct node node[PROGRAM_NODES];
    bool needed[PROGRAM_NODES];
    bool lacking[PROGRAM_NODES]; // the target lacks it: an input takes its place
    struct program_function function[PROGRAM_FUNCTIONS];
    unsigned functions;
    bool later;
    enum program_subject subject;
    unsigned subjects; // nodes of the subject
    unsigned count;
    unsigned step[PROGRAM_STEPS]; // the node of each step
    unsigned steps;
    struct op_case approximate[PROGRAM_APPROXIMATES];
    unsigned approximates;
    bool returns; // some lanes of a warp return before the others
};

/// Reads the frozen alphabet (random_program_alphabet.c). Called once, before any program.
void program_catalogue(void);
bool program_is_integer(ptx_type type);
enum program_group {
    GROUP_OPS,
    GROUP_CONVERSIONS,
    GROUP_BITCASTS,
    GROUP_PACKS,
    GROUP_ATOMICS,
    GROUP_LOADS,
    GROUP_STORES,
    GROUP_APPROXIMATE,
    GROUP_FENCES,
    GROUP_COUNT,
};
struct op_case program_choose(struct random *r, enum program_group from);
void program_plan(struct program *p, uint64_t seed);
/// Keeps only what step `last` depends on, and the returns before it.
void program_cut(struct program *p, unsigned last);
/// Adds an entry of that name, with the parameters `in` and `out`, after the functions that it
/// calls. Returns the node at which the builder failed, or PROGRAM_NODES.
unsigned program_emit(ptx_builder *b, const struct program *p, const char *name);
/// Replaces the nodes that a target lacks. False if the builder refuses the program for another
/// reason, which `error` receives.
bool program_fit(struct program *p, struct ptx_target target, char *error, size_t size);
void program_inputs(unsigned char in[PROGRAM_IN_BYTES]);
uint64_t program_value(struct random *r, ptx_type type);

typedef ptx_val program_reduction(ptx_builder *b, ptx_val x, ptx_val mask);
struct program_warp_row {
    program_reduction *call;
    uint32_t types;
    ptx_type result; // PTX_NONE: the type of the operand
};
extern const struct program_warp_row program_warp_rows[];
extern const unsigned program_warp_count;

struct emitter;
typedef ptx_val program_call(struct emitter *e, const struct node *n, const ptx_val *x);
struct program_row {
    const char *name;
    program_call *call;
    bool together; // whole warps execute it
    ptx_type result, operand[NODE_OPERANDS];
};
extern const struct program_row program_rows[];
extern const unsigned program_row_count; // of those that any later program has
/// A row of program_rows of the subject, which `choice` chooses.
unsigned program_subject_row(enum program_subject subject, unsigned choice);

#endif

// SPDX-License-Identifier: MIT
/// Chains of instructions that pass the carry flag on: made at random from a seed, written as PTX,
/// and computed in plain C.
///
/// The flag is the carry out of the addition. a - b is a + ~b + 1, and with the flag a + ~b + flag.
/// So after a subtraction the flag is set if nothing was borrowed.
#ifndef PTXGEN_TESTS_CARRY_CHAIN_H
#define PTXGEN_TESTS_CARRY_CHAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CHAIN_MOST = 8,               // instructions
    CHAIN_LOADS = 3 * CHAIN_MOST, // words of input for each thread
    CHAIN_RESULTS =
        CHAIN_MOST +
        1, // words of output for each thread: one for each step, and the flag at the end
};

enum chain_op { CHAIN_ADD, CHAIN_SUB, CHAIN_MAD_LO, CHAIN_MAD_HI };

struct chain_step {
    enum chain_op op;
    bool takes, sets; // whether it uses and changes the flag
    bool wide;        // 64 bits, else 32
    bool is_signed;
    int operand[3]; // 0 and more: the result of that step; below: the loaded word -1 - operand
};

struct chain {
    struct chain_step step[CHAIN_MOST];
    unsigned count;
};

/// Every fourth chain is a step of a long division, alternately of 64 and 128 bits. The others are
/// random.
void chain_make(struct chain *chain, uint64_t seed);
/// The start of a module of chains.
void chain_write_header(FILE *to);
/// The entry `chain_<seed>`. It has the parameters `in` and `out`, with a word of each for every
/// thread.
void chain_write(FILE *to, const struct chain *chain, uint64_t seed);
/// The input of a thread: corner values and random values.
void chain_inputs(uint64_t seed, unsigned thread, uint64_t in[CHAIN_LOADS]);
/// The words that a thread writes; words after those of the chain are unchanged.
void chain_compute(const struct chain *chain, const uint64_t in[CHAIN_LOADS],
                   uint64_t out[CHAIN_RESULTS]);

#endif

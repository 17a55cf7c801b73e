// SPDX-License-Identifier: MIT
// Steps: the functions that run instructions in straight code, and what they share with the loop
// that calls them (interpret.c).
//
// Decoding gives each instruction its step. A step of its own (steps.c, access_steps.c) is for an
// instruction of which width, space and operands are known, and runs it for the usual case: all
// that it reads is defined, and for an access, all lanes are there and within one allocation. Any
// other case, and any other instruction, runs through emu_step_any().
#ifndef PTXGEN_EMULATOR_EXEC_STEP_H
#define PTXGEN_EMULATOR_EXEC_STEP_H

#include "exec/base/state.h"

// A running group of lanes.
struct emu_running {
    struct emu_warp *warp;
    struct emu_block *block;
    struct emu_worker *worker;
    const struct emu_exec *exec;
    unsigned char *pools[2]; // the frame; the constants
    uint32_t *init;          // NULL: undefined values are not tracked
    const struct emu_op *ops;
    uint64_t lanes;         // lane-instructions
    uint32_t counted;       // instructions before this pc are in the counts of the warp
    uint32_t group, exists; // the lanes of the group; those that the warp has
    uint32_t group_lanes;
    bool failed;                                     // a fault ends the launch
    alignas(64) unsigned char result[EMU_LANES * 8]; // before it goes to its register
};

// Brings pc and counts of the warp up to date: the instructions before `next` have run.
static inline void emu_settle(struct emu_running *run, const struct emu_op *next)
{
    const uint32_t count = next->index - run->counted;
    run->warp->left -= (int32_t)count;
    run->warp->pc = next->index;
    run->worker->executed += count;
    run->lanes += (uint64_t)count * run->group_lanes;
    run->counted = next->index;
}

// An instruction of any kind, of whose sources some lanes may be undefined.
emu_step emu_step_any;
// An instruction that only reads and writes registers, by its handler.
emu_step emu_step_registers;
// A branch of the lanes of the mask.
emu_step emu_step_branch;

// Gives an instruction its steps, for the build of lane functions that runs.
void emu_choose_step(struct emu_op *op);

// The steps of a build.
struct emu_step_build {
    emu_step *guarded;                            // evaluates the guard
    emu_step *(*lanes)(const struct emu_op *op);  // NULL: none for this instruction
    emu_step *(*access)(const struct emu_op *op); // the same for loads and stores
};
// By the access of all lanes: access_steps.c.
emu_step *emu_access_step_plain(const struct emu_op *op);
emu_step *emu_access_step_avx2(const struct emu_op *op);

#endif

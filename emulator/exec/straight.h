// SPDX-License-Identifier: MIT
// Straight pieces of code: see straight.c.
#ifndef PTXGEN_EMULATOR_EXEC_STRAIGHT_H
#define PTXGEN_EMULATOR_EXEC_STRAIGHT_H

#include "warp.h"

// An instruction of a straight piece of code, with what it takes to run it.
enum { EMU_STRAIGHT_SOURCES = 4 };

struct emu_straight {
    emu_lane_function *fn;
    const struct emu_insn *insn;
    uint32_t count; // instructions of the piece from here on; 0: this is none
    uint32_t from[EMU_STRAIGHT_SOURCES], to;      // offsets in the frame or among the constants
    uint32_t reads[EMU_STRAIGHT_SOURCES], writes; // registers
    uint16_t bytes;                               // of the result
    uint8_t source_count, read_count;
    bool in_place;
    bool constant[EMU_STRAIGHT_SOURCES];
};

// Finds the straight pieces of decoded code. False if host memory is out.
bool emu_straight_find(struct emu_code *code);
// Runs the first instructions of the piece at pc, at most `count`, for a warp whose lanes are all
// in `mask`. Returns how many have run: it stops at one that reads an undefined value.
uint32_t emu_straight_run(const struct emu_code *code, uint32_t pc, uint32_t count,
                          unsigned char *frame, uint32_t *init, uint32_t mask);

#endif

// SPDX-License-Identifier: MIT
// Inside the decoder: turns the parser's instructions into what the lanes run.
#ifndef PTXGEN_EMULATOR_EXEC_DECODE_H
#define PTXGEN_EMULATOR_EXEC_DECODE_H

#include "warp.h"

struct emu_decoder {
    struct emu_program *program;
    const struct emu_launch *launch;
    const struct emu_module *module;
    struct emu_code *code;
    const struct emu_insn *insn;
    char *reason;
    size_t reason_size;
    int result;
};

// The wanted storage of each operand of an instruction: enum emu_width.
struct emu_wants {
    uint8_t dst[EMU_MAX_OPERANDS], src[EMU_MAX_OPERANDS]; // as many as uint8_t counts
    uint8_t type;                                         // of the results
};

// Stores the reason and the CUresult; returns false.
bool emu_decode_fail(struct emu_decoder *d, int result, const char *format, ...) EMU_PRINTF(3, 4);
// Bytes that a register of the type takes for each lane.
uint8_t emu_storage(unsigned type);
bool emu_decode_operands(struct emu_decoder *d, struct emu_op *op, const struct emu_wants *wants);
// Decodes one instruction.
bool emu_decode_insn(struct emu_decoder *d, struct emu_op *op);

#endif

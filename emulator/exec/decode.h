// SPDX-License-Identifier: MIT
// Inside the decoder: from the parser's instructions to what the lanes run.
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

// What an instruction's operands are to be: enum emu_width each.
struct emu_wants {
    uint8_t dst[EMU_MAX_OPERANDS], src[EMU_MAX_OPERANDS]; // as many as uint8_t counts
    uint8_t type;                                         // of the results
};

// Keeps the reason, and the CUresult; returns false.
bool emu_decode_fail(struct emu_decoder *d, int result, const char *format, ...) EMU_PRINTF(3, 4);
// Bytes a lane of a register of the type.
uint8_t emu_storage(unsigned type);
bool emu_decode_operands(struct emu_decoder *d, struct emu_op *op, const struct emu_wants *wants);
// The decoder's instruction.
bool emu_decode_insn(struct emu_decoder *d, struct emu_op *op);

#endif

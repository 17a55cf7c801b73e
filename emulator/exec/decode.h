// SPDX-License-Identifier: MIT
// Inside the decoder: from the parser's instructions to what the lanes run.
#ifndef PTXGEN_EMULATOR_EXEC_DECODE_H
#define PTXGEN_EMULATOR_EXEC_DECODE_H

#include "exec.h"

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
EMU_PRINTF(2, 3) bool emu_decode_unsupported(struct emu_decoder *d, const char *format, ...);
// All operands are to be the same.
void emu_want_all(uint8_t *wants, uint8_t want);
// So many results, and from `least` to `most` sources.
bool emu_decode_need(struct emu_decoder *d, unsigned dst, unsigned least, unsigned most);
// Bytes a lane of a register of the type.
uint8_t emu_storage(unsigned type);
bool emu_decode_operands(struct emu_decoder *d, struct emu_op *op, const struct emu_wants *wants);
// The decoder's instruction.
bool emu_decode_insn(struct emu_decoder *d, struct emu_op *op);
// Of some kinds:
bool emu_decode_memory(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants);
bool emu_decode_address(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants);
bool emu_decode_copy(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants);
bool emu_decode_warp(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants);
bool emu_decode_barrier(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants);

#endif

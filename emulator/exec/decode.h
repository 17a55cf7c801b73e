// SPDX-License-Identifier: MIT
// Inside the decoder: what decode.c and program.c share.
#ifndef PTXGEN_EMULATOR_EXEC_DECODE_H
#define PTXGEN_EMULATOR_EXEC_DECODE_H

#include "exec/base/state.h"

struct decoder {
    struct emu_program *program;
    const struct emu_launch *launch;
    const struct emu_module *module;
    struct emu_code *code;
    const struct emu_insn *insn;
    char *reason;
    size_t reason_size;
    int result;
};

// Stores the reason and the CUresult; returns false.
bool emu_decode_fail(struct decoder *d, int result, const char *format, ...) EMU_PRINTF(3, 4);
// Decodes d->insn.
bool emu_decode_insn(struct decoder *d, struct emu_op *op);

#endif

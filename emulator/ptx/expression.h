// SPDX-License-Identifier: MIT
// Constant expressions.
#ifndef PTXGEN_EMULATOR_PTX_EXPRESSION_H
#define PTXGEN_EMULATOR_PTX_EXPRESSION_H

#include "parser.h"

struct emu_constant {
    enum emu_token_kind kind; // EMU_TOKEN_INTEGER, FLOAT32, FLOAT64 or DECIMAL (a double)
    uint64_t bits;
    bool is_unsigned;
};

bool emu_parse_constant(struct emu_parser *p, struct emu_constant *constant);
// An integer from `least` to `most`.
bool emu_parse_count(struct emu_parser *p, uint64_t least, uint64_t most, uint64_t *count);
// Converts the constant to the type, as an instruction or an initialiser does. False, without a
// report, if it does not fit.
bool emu_constant_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits);

#endif

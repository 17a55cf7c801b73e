// SPDX-License-Identifier: MIT
// Text as tokens.
#ifndef PTXGEN_EMULATOR_PTX_LEXER_H
#define PTXGEN_EMULATOR_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_token_kind {
    EMU_TOKEN_END,
    EMU_TOKEN_NAME,      // add, $L_1, %r5
    EMU_TOKEN_DOT,       // .rn, .L1::no_allocate, .reg: the text without the dot
    EMU_TOKEN_INTEGER,   // bits; is_unsigned if written so or beyond int64_t
    EMU_TOKEN_FLOAT32,   // 0f3f800000: bits
    EMU_TOKEN_FLOAT64,   // 0d...: bits
    EMU_TOKEN_DECIMAL,   // 1.5e3: bits of the double
    EMU_TOKEN_STRING,    // with its quotes
    EMU_TOKEN_PUNCT,     // one character
    EMU_TOKEN_OPERATOR2, // <<, >>, <=, >=, ==, !=, &&, ||
    EMU_TOKEN_ERROR,     // `error` says what is wrong
};

struct emu_token {
    enum emu_token_kind kind;
    const char *at;
    uint32_t length;
    uint32_t line, column; // from 1
    uint64_t bits;
    bool is_unsigned;
    const char *error;
};

// A position in the text. Use a copy of it to look ahead.
struct emu_lexer {
    const char *at, *end, *line_start;
    uint32_t line;
};

void emu_lexer_init(struct emu_lexer *lexer, const char *text, size_t length);
struct emu_token emu_lexer_next(struct emu_lexer *lexer);
// Skips to the end of the line, for directives without a terminator.
void emu_lexer_skip_line(struct emu_lexer *lexer);

bool emu_token_is(const struct emu_token *token, char punct);
bool emu_token_is_name(const struct emu_token *token, const char *name);
bool emu_token_is_dot(const struct emu_token *token, const char *name);

#endif

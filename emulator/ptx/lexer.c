// SPDX-License-Identifier: MIT
// PTX text as tokens.
#include "lexer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

// Characters allowed after the first one of a name.
static bool is_follow(char c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

void emu_lexer_init(struct emu_lexer *lexer, const char *text, size_t length)
{
    lexer->at = lexer->line_start = text;
    lexer->end = text + length;
    lexer->line = 1;
}

static char peek(const struct emu_lexer *lexer, size_t ahead)
{
    return (size_t)(lexer->end - lexer->at) > ahead ? lexer->at[ahead] : '\0';
}

static void new_line(struct emu_lexer *lexer)
{
    lexer->line++;
    lexer->line_start = lexer->at;
}

// False if a comment does not end.
static bool skip_blank(struct emu_lexer *lexer)
{
    for (;;) {
        const char c = peek(lexer, 0);
        if (c == '\n') {
            lexer->at++;
            new_line(lexer);
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            lexer->at++;
        } else if (c == '/' && peek(lexer, 1) == '/') {
            while (lexer->at < lexer->end && *lexer->at != '\n')
                lexer->at++;
        } else if (c == '/' && peek(lexer, 1) == '*') {
            for (lexer->at += 2; !(peek(lexer, 0) == '*' && peek(lexer, 1) == '/');) {
                if (lexer->at >= lexer->end)
                    return false;
                if (*lexer->at++ == '\n')
                    new_line(lexer);
            }
            lexer->at += 2;
        } else {
            return true;
        }
    }
}

void emu_lexer_skip_line(struct emu_lexer *lexer)
{
    while (lexer->at < lexer->end && *lexer->at != '\n')
        lexer->at++;
}

static void fail(struct emu_token *token, const char *error)
{
    token->kind = EMU_TOKEN_ERROR;
    token->error = error;
}

// ---- numbers ------------------------------------------------------------------------------------

// 0f and 0d: exactly this number of hexadecimal digits.
static void read_exact_float(struct emu_lexer *lexer, struct emu_token *token, unsigned digits)
{
    token->kind = digits == 8 ? EMU_TOKEN_FLOAT32 : EMU_TOKEN_FLOAT64;
    lexer->at += 2;
    for (unsigned k = 0; k < digits; k++, lexer->at++) {
        const int digit = hex_digit(peek(lexer, 0));
        if (digit > 15) {
            fail(token, "a hexadecimal float has 8 digits after 0f, 16 after 0d");
            return;
        }
        token->bits = token->bits << 4 | (unsigned)digit;
    }
    if (is_follow(peek(lexer, 0)))
        fail(token, "a hexadecimal float has 8 digits after 0f, 16 after 0d");
}

static void read_integer(struct emu_lexer *lexer, struct emu_token *token, unsigned base)
{
    bool overflow = false, any = false;

    token->kind = EMU_TOKEN_INTEGER;
    for (;; lexer->at++, any = true) {
        const int digit = hex_digit(peek(lexer, 0));
        if (digit >= (int)base)
            break;
        overflow |= token->bits > (UINT64_MAX - (unsigned)digit) / base;
        token->bits = token->bits * base + (unsigned)digit;
    }
    token->is_unsigned = token->bits > INT64_MAX;
    if (peek(lexer, 0) == 'U') {
        token->is_unsigned = true;
        lexer->at++;
    }
    if (!any || is_follow(peek(lexer, 0)))
        fail(token, "this is not a number");
    else if (overflow)
        fail(token, "integer constant does not fit into 64 bits");
}

static bool is_decimal(const struct emu_lexer *lexer)
{
    const char *c = lexer->at;

    while (c < lexer->end && is_digit(*c))
        c++;
    return c < lexer->end && (*c == '.' || *c == 'e' || *c == 'E');
}

// strtod expects the decimal point of the host's locale, so the point is removed and the exponent
// corrected.
static void read_decimal(struct emu_lexer *lexer, struct emu_token *token)
{
    char digits[1100];
    size_t count = 0;
    long exponent = 0, written = 0;
    bool point = false, negative = false;

    for (;; lexer->at++) {
        const char c = peek(lexer, 0);
        if (c == '.' && !point) {
            point = true;
        } else if (is_digit(c)) {
            exponent -= point;
            if (count >= sizeof digits - 40) {
                fail(token, "too many digits");
                return;
            }
            digits[count++] = c;
        } else {
            break;
        }
    }
    if (peek(lexer, 0) == 'e' || peek(lexer, 0) == 'E') {
        lexer->at++;
        if (peek(lexer, 0) == '+' || peek(lexer, 0) == '-')
            negative = *lexer->at++ == '-';
        if (!is_digit(peek(lexer, 0)))
            fail(token, "the exponent has no digits");
        for (; is_digit(peek(lexer, 0)); lexer->at++)
            written = written < 100000 ? written * 10 + (peek(lexer, 0) - '0') : written;
    }
    if (token->kind == EMU_TOKEN_ERROR)
        return;
    if (!count || is_follow(peek(lexer, 0))) {
        fail(token, "this is not a number");
        return;
    }
    snprintf(digits + count, sizeof digits - count, "e%ld",
             exponent + (negative ? -written : written));
    const int before = errno;
    const double value = strtod(digits, NULL);
    errno = before;
    token->kind = EMU_TOKEN_DECIMAL;
    memcpy(&token->bits, &value, sizeof value);
}

static void read_number(struct emu_lexer *lexer, struct emu_token *token)
{
    const char second = peek(lexer, 1);

    if (*lexer->at != '0') {
        if (is_decimal(lexer))
            read_decimal(lexer, token);
        else
            read_integer(lexer, token, 10);
        return;
    }
    switch (second) {
    case 'f':
    case 'F':
        read_exact_float(lexer, token, 8);
        return;
    case 'd':
    case 'D':
        read_exact_float(lexer, token, 16);
        return;
    case 'x':
    case 'X':
        lexer->at += 2;
        read_integer(lexer, token, 16);
        return;
    case 'b':
    case 'B':
        lexer->at += 2;
        read_integer(lexer, token, 2);
        return;
    default:
        if (is_decimal(lexer))
            read_decimal(lexer, token);
        else
            read_integer(lexer, token, 8);
    }
}

// ---- the rest -----------------------------------------------------------------------------------

static void read_name(struct emu_lexer *lexer, struct emu_token *token)
{
    token->kind = EMU_TOKEN_NAME;
    do
        lexer->at++;
    while (is_follow(peek(lexer, 0)));
}

// Whether a point begins a modifier: a name, or a geometry such as .1d, which is no number.
static bool is_modifier(const struct emu_lexer *lexer)
{
    const char *c = lexer->at + 1;

    if (c < lexer->end && is_digit(*c)) {
        while (c < lexer->end && is_digit(*c))
            c++;
        return c < lexer->end && is_letter(*c) && *c != 'e' && *c != 'E';
    }
    return c < lexer->end && (is_letter(*c) || *c == '_');
}

static void read_dot(struct emu_lexer *lexer, struct emu_token *token)
{
    token->kind = EMU_TOKEN_DOT;
    token->at = ++lexer->at;
    for (;;) {
        if (is_follow(peek(lexer, 0)))
            lexer->at++;
        else if (peek(lexer, 0) == ':' && peek(lexer, 1) == ':' && is_follow(peek(lexer, 2)))
            lexer->at += 2;
        else if (peek(lexer, 0) == ':' && is_digit(lexer->at[-1]) && is_digit(peek(lexer, 1)))
            lexer->at++; // the ratio of ".sp::2:4"
        else
            break;
    }
}

static void read_string(struct emu_lexer *lexer, struct emu_token *token)
{
    token->kind = EMU_TOKEN_STRING;
    for (lexer->at++; peek(lexer, 0) != '"'; lexer->at++) {
        if (lexer->at >= lexer->end || *lexer->at == '\n') {
            fail(token, "the string does not end on its line");
            return;
        }
        if (*lexer->at == '\\' && peek(lexer, 1) != '\n' && lexer->end - lexer->at > 1)
            lexer->at++;
    }
    lexer->at++;
}

static void read_punct(struct emu_lexer *lexer, struct emu_token *token)
{
    static const char pairs[][3] = { "<<", ">>", "<=", ">=", "==", "!=", "&&", "||" };
    const char c = *lexer->at;

    if (c == ',' || c == ';') { // most of them
        token->kind = EMU_TOKEN_PUNCT;
        lexer->at++;
        return;
    }
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        if (c != pairs[k][0] || peek(lexer, 1) != pairs[k][1])
            continue;
        token->kind = EMU_TOKEN_OPERATOR2;
        lexer->at += 2;
        return;
    }
    token->kind = EMU_TOKEN_PUNCT;
    lexer->at++;
    if (!strchr("@!|<>+-*/%~&^?:=()[]{},;", c) || c == '\0')
        fail(token, (unsigned char)c >= 0x80 ? "unexpected character outside ASCII"
                                             : "unexpected character");
}

struct emu_token emu_lexer_next(struct emu_lexer *lexer)
{
    struct emu_token token = { EMU_TOKEN_END, NULL, 0, 0, 0, 0, false, NULL };
    const bool complete = skip_blank(lexer);

    token.at = lexer->at;
    token.line = lexer->line;
    token.column = (uint32_t)(lexer->at - lexer->line_start) + 1;
    if (!complete) {
        fail(&token, "the comment does not end");
    } else if (lexer->at < lexer->end) {
        const char c = *lexer->at, second = peek(lexer, 1);
        if (is_letter(c) || ((c == '_' || c == '$' || c == '%') && is_follow(second)) || c == '_')
            read_name(lexer, &token);
        else if (c == '.' && is_modifier(lexer))
            read_dot(lexer, &token);
        else if (is_digit(c) || (c == '.' && is_digit(second)))
            read_number(lexer, &token);
        else if (c == '"')
            read_string(lexer, &token);
        else
            read_punct(lexer, &token);
    }
    token.length = (uint32_t)(lexer->at - token.at);
    return token;
}

bool emu_token_is(const struct emu_token *token, char punct)
{
    return token->kind == EMU_TOKEN_PUNCT && *token->at == punct;
}

static bool is_text(const struct emu_token *token, const char *text)
{
    return strlen(text) == token->length && memcmp(token->at, text, token->length) == 0;
}

bool emu_token_is_name(const struct emu_token *token, const char *name)
{
    return token->kind == EMU_TOKEN_NAME && is_text(token, name);
}

bool emu_token_is_dot(const struct emu_token *token, const char *name)
{
    return token->kind == EMU_TOKEN_DOT && is_text(token, name);
}

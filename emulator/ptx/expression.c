// SPDX-License-Identifier: MIT
// Constant expressions, as in C: 64-bit integers and doubles; and their conversion to a type.
#include "expression.h"

#include <string.h>

enum { MOST_DEPTH = 64 };

static bool expression(struct emu_parser *p, struct emu_constant *value, int least, unsigned depth);

static double as_double(const struct emu_constant *constant)
{
    double value;

    if (constant->kind == EMU_TOKEN_INTEGER)
        return constant->is_unsigned ? (double)constant->bits : (double)(int64_t)constant->bits;
    memcpy(&value, &constant->bits, sizeof value);
    return value;
}

static struct emu_constant from_double(double value)
{
    struct emu_constant constant = { EMU_TOKEN_DECIMAL, 0, false };

    memcpy(&constant.bits, &value, sizeof value);
    return constant;
}

static struct emu_constant from_integer(uint64_t bits, bool is_unsigned)
{
    return (struct emu_constant) { EMU_TOKEN_INTEGER, bits, is_unsigned };
}

// ---- operators ----------------------------------------------------------------------------------

enum operator{
    OP_NONE,
    OP_OR_ELSE,
    OP_AND_THEN,
    OP_OR,
    OP_XOR,
    OP_AND,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_SHL,
    OP_SHR,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_REM,
};

static const struct {
    char text[3];
    uint8_t priority;
} operators[] = {
    [OP_NONE] = { "", 0 },  [OP_OR_ELSE] = { "||", 2 }, [OP_AND_THEN] = { "&&", 3 },
    [OP_OR] = { "|", 4 },   [OP_XOR] = { "^", 5 },      [OP_AND] = { "&", 6 },
    [OP_EQ] = { "==", 7 },  [OP_NE] = { "!=", 7 },      [OP_LT] = { "<", 8 },
    [OP_LE] = { "<=", 8 },  [OP_GT] = { ">", 8 },       [OP_GE] = { ">=", 8 },
    [OP_SHL] = { "<<", 9 }, [OP_SHR] = { ">>", 9 },     [OP_ADD] = { "+", 10 },
    [OP_SUB] = { "-", 10 }, [OP_MUL] = { "*", 11 },     [OP_DIV] = { "/", 11 },
    [OP_REM] = { "%", 11 },
};

static enum operator operator_at(const struct emu_token *token)
{
    if (token->kind != EMU_TOKEN_PUNCT && token->kind != EMU_TOKEN_OPERATOR2)
        return OP_NONE;
    for (unsigned k = OP_OR_ELSE; k <= OP_REM; k++)
        if (strlen(operators[k].text) == token->length &&
            memcmp(operators[k].text, token->at, token->length) == 0)
            return (enum operator)k;
    return OP_NONE;
}

static bool float_operation(enum operator op, double a, double b, struct emu_constant *result)
{
    switch (op) {
    case OP_ADD:
        *result = from_double(a + b);
        return true;
    case OP_SUB:
        *result = from_double(a - b);
        return true;
    case OP_MUL:
        *result = from_double(a * b);
        return true;
    case OP_DIV:
        if (b == 0)
            return false;
        *result = from_double(a / b);
        return true;
    case OP_EQ:
        *result = from_integer(a == b, false);
        return true;
    case OP_NE:
        *result = from_integer(a != b, false);
        return true;
    case OP_LT:
        *result = from_integer(a < b, false);
        return true;
    case OP_LE:
        *result = from_integer(a <= b, false);
        return true;
    case OP_GT:
        *result = from_integer(a > b, false);
        return true;
    case OP_GE:
        *result = from_integer(a >= b, false);
        return true;
    default:
        return false;
    }
}

static bool divide(enum operator op, uint64_t a, uint64_t b, bool is_unsigned, uint64_t *result)
{
    if (b == 0)
        return false;
    if (is_unsigned) {
        *result = op == OP_DIV ? a / b : a % b;
        return true;
    }
    const int64_t x = (int64_t)a, y = (int64_t)b;
    if (y == -1) // the quotient of the most negative number does not fit
        *result = op == OP_DIV ? 0 - a : 0;
    else
        *result = (uint64_t)(op == OP_DIV ? x / y : x % y);
    return true;
}

static uint64_t shift(enum operator op, const struct emu_constant *a, uint64_t count)
{
    const bool negative = !a->is_unsigned && a->bits >> 63;

    if (count > 63)
        return op == OP_SHR && negative ? UINT64_MAX : 0;
    if (op == OP_SHL)
        return a->bits << count;
    const uint64_t fill = negative && count ? UINT64_MAX << (64 - count) : 0;
    return a->bits >> count | fill;
}

static bool integer_operation(enum operator op, const struct emu_constant *x,
                              const struct emu_constant *y, struct emu_constant *result)
{
    const uint64_t a = x->bits, b = y->bits;
    const bool is_unsigned = x->is_unsigned || y->is_unsigned;
    const uint64_t sign = is_unsigned ? 0 : UINT64_C(1) << 63; // compares as unsigned
    uint64_t bits = 0;
    bool truth = false, is_truth = true;

    switch (op) {
    case OP_OR_ELSE:
        truth = a || b;
        break;
    case OP_AND_THEN:
        truth = a && b;
        break;
    case OP_EQ:
        truth = a == b;
        break;
    case OP_NE:
        truth = a != b;
        break;
    case OP_LT:
        truth = (a ^ sign) < (b ^ sign);
        break;
    case OP_LE:
        truth = (a ^ sign) <= (b ^ sign);
        break;
    case OP_GT:
        truth = (a ^ sign) > (b ^ sign);
        break;
    case OP_GE:
        truth = (a ^ sign) >= (b ^ sign);
        break;
    default:
        is_truth = false;
    }
    if (is_truth) {
        *result = from_integer(truth, false);
        return true;
    }
    switch (op) {
    case OP_OR:
        bits = a | b;
        break;
    case OP_XOR:
        bits = a ^ b;
        break;
    case OP_AND:
        bits = a & b;
        break;
    case OP_SHL:
    case OP_SHR:
        *result = from_integer(shift(op, x, b), x->is_unsigned);
        return true;
    case OP_ADD:
        bits = a + b;
        break;
    case OP_SUB:
        bits = a - b;
        break;
    case OP_MUL:
        bits = a * b;
        break;
    default:
        if (!divide(op, a, b, is_unsigned, &bits))
            return false;
    }
    *result = from_integer(bits, is_unsigned);
    return true;
}

static bool combine(struct emu_parser *p, const struct emu_token *at, enum operator op,
                    struct emu_constant *x, const struct emu_constant *y)
{
    const bool exact = x->kind == EMU_TOKEN_FLOAT32 || x->kind == EMU_TOKEN_FLOAT64 ||
                       y->kind == EMU_TOKEN_FLOAT32 || y->kind == EMU_TOKEN_FLOAT64;
    struct emu_constant result = { EMU_TOKEN_INTEGER, 0, false };
    bool done = false;

    if (exact)
        done = false;
    else if (x->kind == EMU_TOKEN_INTEGER && y->kind == EMU_TOKEN_INTEGER)
        done = integer_operation(op, x, y, &result);
    else if (x->kind == y->kind)
        done = float_operation(op, as_double(x), as_double(y), &result);
    else
        return emu_error(p, at, "Constant expression type mismatch");
    *x = result;
    return done ||
           emu_error(p, at, "Illegal operand of '%.*s' in a constant expression", EMU_TEXT(at));
}

// ---- operands -----------------------------------------------------------------------------------

static bool unary(struct emu_parser *p, struct emu_constant *value, unsigned depth);

static bool apply_sign(struct emu_parser *p, const struct emu_token *at, struct emu_constant *value)
{
    const char sign = *at->at;

    if (value->kind == EMU_TOKEN_INTEGER) {
        value->bits = sign == '-'   ? 0 - value->bits
                      : sign == '~' ? ~value->bits
                      : sign == '!' ? !value->bits
                                    : value->bits;
        value->is_unsigned &= sign != '!';
        return true;
    }
    if (value->kind != EMU_TOKEN_DECIMAL || sign == '~' || sign == '!')
        return emu_error(p, at, "Parsing error near '%c': syntax error", sign);
    if (sign == '-')
        *value = from_double(-as_double(value));
    return true;
}

// (.s64) and (.u64)
static bool is_cast(const struct emu_parser *p)
{
    const struct emu_token next = emu_peek(p);
    return emu_token_is(&p->token, '(') && next.kind == EMU_TOKEN_DOT;
}

static bool cast(struct emu_parser *p, struct emu_constant *value, unsigned depth)
{
    emu_next(p);
    const struct emu_token at = p->token;
    const bool to_unsigned = emu_token_is_dot(&at, "u64");
    if (!to_unsigned && !emu_token_is_dot(&at, "s64"))
        return emu_syntax_error(p);
    emu_next(p);
    if (!emu_expect(p, ')') || !unary(p, value, depth + 1))
        return false;
    if (value->kind != EMU_TOKEN_INTEGER)
        return emu_error(p, &at, "Only integers can be cast");
    value->is_unsigned = to_unsigned;
    return true;
}

static bool unary(struct emu_parser *p, struct emu_constant *value, unsigned depth)
{
    const struct emu_token at = p->token;

    if (depth > MOST_DEPTH)
        return emu_error(p, &at, "The constant expression is nested too deeply");
    if (is_cast(p))
        return cast(p, value, depth);
    if (emu_take(p, '('))
        return expression(p, value, 1, depth + 1) && emu_expect(p, ')');
    if (emu_take(p, '-') || emu_take(p, '+') || emu_take(p, '~') || emu_take(p, '!'))
        return unary(p, value, depth + 1) && apply_sign(p, &at, value);
    if (emu_token_is_name(&at, "WARP_SZ")) {
        *value = from_integer(EMU_LANES, false);
    } else if (at.kind == EMU_TOKEN_INTEGER || at.kind == EMU_TOKEN_DECIMAL ||
               at.kind == EMU_TOKEN_FLOAT32 || at.kind == EMU_TOKEN_FLOAT64) {
        *value = (struct emu_constant) { at.kind, at.bits, at.is_unsigned };
    } else {
        return emu_syntax_error(p);
    }
    emu_next(p);
    return true;
}

static bool choose(struct emu_parser *p, struct emu_constant *value, unsigned depth)
{
    const struct emu_token at = p->token;
    struct emu_constant yes, no;

    emu_next(p);
    if (!expression(p, &yes, 1, depth + 1) || !emu_expect(p, ':') ||
        !expression(p, &no, 1, depth + 1))
        return false;
    if (value->kind != EMU_TOKEN_INTEGER)
        return emu_error(p, &at, "The condition is not an integer");
    *value = value->bits ? yes : no;
    return true;
}

static bool expression(struct emu_parser *p, struct emu_constant *value, int least, unsigned depth)
{
    if (!unary(p, value, depth))
        return false;
    for (;;) {
        const struct emu_token at = p->token;
        const enum operator op = operator_at(&at);
        struct emu_constant right;
        if (op == OP_NONE && least <= 1 && emu_token_is(&at, '?'))
            return choose(p, value, depth);
        if (op == OP_NONE || operators[op].priority < least)
            return true;
        emu_next(p);
        if (!expression(p, &right, operators[op].priority + 1, depth + 1) ||
            !combine(p, &at, op, value, &right))
            return false;
    }
}

bool emu_parse_constant(struct emu_parser *p, struct emu_constant *constant)
{
    return expression(p, constant, 1, 0);
}

// ---- in the type that is wanted -----------------------------------------------------------------

bool emu_parse_count(struct emu_parser *p, uint64_t least, uint64_t most, uint64_t *count)
{
    struct emu_constant constant;
    const struct emu_token at = p->token;

    if (!emu_parse_constant(p, &constant))
        return false;
    const bool negative = !constant.is_unsigned && constant.bits >> 63;
    if (constant.kind != EMU_TOKEN_INTEGER || negative || constant.bits < least ||
        constant.bits > most)
        return emu_error(p, &at, "An integer from %llu to %llu is expected here",
                         (unsigned long long)least, (unsigned long long)most);
    *count = constant.bits;
    return true;
}

static double float_value(const struct emu_constant *constant)
{
    float single;
    double wide;

    if (constant->kind == EMU_TOKEN_FLOAT32) {
        const uint32_t word = (uint32_t)constant->bits;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    memcpy(&wide, &constant->bits, sizeof wide);
    return wide;
}

static bool float_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits)
{
    const bool exact32 = constant->kind == EMU_TOKEN_FLOAT32;
    const bool exact64 = constant->kind == EMU_TOKEN_FLOAT64;

    if ((exact32 && (type == EMU_F32 || type == EMU_B32)) ||
        (exact64 && (type == EMU_F64 || type == EMU_B64))) {
        *bits = constant->bits; // NaNs unchanged
        return true;
    }
    if (type == EMU_F64) {
        const double wide = float_value(constant);
        memcpy(bits, &wide, sizeof wide);
        return true;
    }
    if (type != EMU_F32)
        return false;
    const float single = (float)float_value(constant);
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    *bits = word;
    return true;
}

bool emu_constant_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits)
{
    if (constant->kind != EMU_TOKEN_INTEGER)
        return float_in(constant, type, bits);
    switch (type) {
    case EMU_PRED:
        *bits = constant->bits != 0;
        return true;
    case EMU_F16:
    case EMU_BF16:
    case EMU_F32:
    case EMU_F64:
    case EMU_F16X2:
    case EMU_BF16X2:
    case EMU_E4M3X2:
    case EMU_E5M2X2:
    case EMU_U16X2:
    case EMU_S16X2:
    case EMU_TF32:
    case EMU_F32X2:
    case EMU_NONE:
        return false;
    case EMU_B128:
        *bits = constant->bits;
        return true;
    default:
        *bits = constant->bits & (UINT64_MAX >> (64 - emu_bits(type)));
        return true;
    }
}

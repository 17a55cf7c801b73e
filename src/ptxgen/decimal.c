// SPDX-License-Identifier: MIT
// Floats in decimal.
#include "print.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Decimal digits of a number above zero, rounded to `digits` digits without trailing zeros: d.ddd *
// 10^exponent.
struct digits {
    char text[40]; // from printf, with the decimal point of the locale
    char digit[18];
    int count, exponent;
};

static struct digits print_digits(double x, int count)
{
    struct digits d = { .count = 0 };
    const char *c = d.text;

    snprintf(d.text, sizeof d.text, "%.*e", count - 1, x);
    for (; *c != 'e'; c++)
        if (*c >= '0' && *c <= '9' && d.count < 17)
            d.digit[d.count++] = *c;
    d.exponent = atoi(c + 1);
    while (d.count > 1 && d.digit[d.count - 1] == '0')
        d.count--;
    return d;
}

// The shortest decimal that reads back as the same number. A normal number that needs at most
// FLT_DIG or DBL_DIG digits is printed with exactly that many digits, then zeros.
static struct digits shortest(double x, bool single)
{
    const bool normal = x >= (single ? FLT_MIN : DBL_MIN);
    const int most = single ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
    struct digits d = { .count = 0 };

    for (int count = !normal ? 1 : single ? FLT_DIG : DBL_DIG; count <= most; count++) {
        d = print_digits(x, count);
        if (single ? strtof(d.text, NULL) == (float)x : strtod(d.text, NULL) == x)
            break;
    }
    return d;
}

// As printf's %g, but with a decimal point in every locale, and always with a point or an exponent.
static char *write_shortest(char *at, double x, bool single)
{
    if (!isfinite(x))
        return write_string(at, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    if (signbit(x))
        *at++ = '-';
    x = fabs(x);
    if (x < 10 && 2 * x == (double)(int)(2 * x)) { // fast path: most are 0, 0.5 and 1
        at = write_unsigned(at, (uint64_t)x);
        return write_string(at, x > (double)(int)x ? ".5" : ".0");
    }
    const struct digits d = shortest(x, single);
    int power;
    if (d.count > FLT_DECIMAL_DIG && frexp(x, &power) == 0.5) { // 2^512, say
        at = write_string(at, power > 0 ? "2^" : "2^-");
        return write_unsigned(at, (uint64_t)abs(power - 1));
    }
    const bool scientific = d.exponent < -4 || d.exponent >= d.count;
    const int whole = scientific ? 1 : d.exponent + 1; // digits before the point
    if (whole <= 0)
        at = write_string(at, "0.");
    for (int k = whole; k < 0; k++)
        *at++ = '0';
    for (int k = 0; k < d.count || k < whole; k++) {
        if (k && k == whole)
            *at++ = '.';
        *at++ = k < d.count ? d.digit[k] : '0';
    }
    if (!scientific)
        return write_string(at, d.count > whole ? "" : ".0");
    at = write_string(at, d.exponent < 0 ? "e-" : "e+");
    at = write_string(at, abs(d.exponent) < 10 ? "0" : "");
    return write_unsigned(at, (uint64_t)abs(d.exponent));
}

static double from_half(uint64_t bits, int fraction, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const double units = (double)(bits & ((UINT64_C(1) << fraction) - 1));
    double x;

    if (exponent == (1 << exponent_bits) - 1)
        x = units > 0 ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp(units, 1 - bias - fraction);
    else
        x = ldexp(units + (double)(1 << fraction), exponent - bias - fraction);
    return bits >> 15 & 1 ? -x : x;
}

static char *write_float(char *at, ptx_type type, uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float single;
    double wide;

    switch (type) {
    case PTX_F64:
        memcpy(&wide, &bits, sizeof wide);
        return write_shortest(at, wide, false);
    case PTX_F16:
        return write_shortest(at, from_half(bits, 10, 5), true);
    case PTX_BF16:
        return write_shortest(at, from_half(bits, 7, 8), true);
    default:
        memcpy(&single, &word, sizeof single);
        return write_shortest(at, (double)single, true);
    }
}

// As write_float(). Finding the digits takes longer than all the rest of a line, and most constants
// occur several times: the text has those that were written last.
char *ptxb_write_decimal(ptx_builder *b, char *at, ptx_type type, uint64_t bits)
{
    for (unsigned k = 0; k < DECIMALS; k++) {
        const struct decimal *known = &b->decimals[k];
        if (known->bits == bits && known->type == type)
            return write_bytes(at, b->text.at + known->at, known->length);
    }
    char *end = write_float(at, type, bits);
    b->decimals[b->next_decimal++ % DECIMALS] = (struct decimal) {
        .bits = bits,
        .at = (uint32_t)(at - b->text.at),
        .type = (uint8_t)type,
        .length = (uint8_t)(end - at),
    };
    return end;
}

void ptxb_forget_decimals(ptx_builder *b, const char *from)
{
    for (unsigned k = 0; k < DECIMALS; k++)
        if (b->decimals[k].length && b->text.at + b->decimals[k].at >= from)
            b->decimals[k] = (struct decimal) { 0 };
}

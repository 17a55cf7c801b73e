// SPDX-License-Identifier: MIT
// What the module's text is made of: the buffer, and numbers as PTX spells them.
#include "internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the buffer ---------------------------------------------------------------------------------

static void put_bytes(ptx_builder *b, const char *bytes, size_t count)
{
    if (b->failed)
        return;
    if (b->text.count + count + 1 > b->text.capacity) {
        size_t capacity = b->text.capacity ? b->text.capacity * 2 : 4096;
        while (capacity < b->text.count + count + 1)
            capacity *= 2;
        char *moved = ptxb_resize(b, b->text.at, b->text.capacity, capacity);
        if (!moved)
            return;
        b->text.at = moved;
        b->text.capacity = capacity;
    }
    memcpy(b->text.at + b->text.count, bytes, count);
    b->text.count += count;
    b->text.at[b->text.count] = 0;
}

void ptxb_put(ptx_builder *b, const char *string)
{
    put_bytes(b, string, strlen(string));
}

void ptxb_putf(ptx_builder *b, const char *format, ...)
{
    char numbers[160];
    va_list args;

    va_start(args, format);
    vsnprintf(numbers, sizeof numbers, format, args);
    va_end(args);
    ptxb_put(b, numbers);
}

void ptxb_put_comment(ptx_builder *b, const char *string)
{
    for (; *string; string++) {
        const unsigned char c = (unsigned char)*string;
        if (c < 0x80 || c >= 0xc0) // else the rest of a UTF-8 character
            put_bytes(b, c >= 0x80 ? "?" : c < 0x20 || c == 0x7f ? " " : string, 1);
    }
}

void ptxb_pad(ptx_builder *b, size_t line_start, size_t column)
{
    do
        ptxb_put(b, " ");
    while (!b->failed && b->text.count - line_start < column);
}

// ---- values -------------------------------------------------------------------------------------

// The shortest decimal that reads back as the same number, with a point in every locale.
static void put_shortest(ptx_builder *b, double x, bool single)
{
    char text[40];
    bool plain = true, point = false;

    if (!isfinite(x)) {
        ptxb_put(b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x)
            break;
    }
    for (const char *c = text; *c; c++) {
        const bool digit = *c >= '0' && *c <= '9';
        if (digit || *c == '-' || *c == '+' || *c == 'e')
            put_bytes(b, c, 1);
        else if (!point) // it may have several bytes
            put_bytes(b, ".", 1);
        point |= !digit && *c != '-' && *c != '+';
        plain &= digit || *c == '-';
    }
    if (plain)
        ptxb_put(b, ".0");
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

void ptxb_put_decimal(ptx_builder *b, ptx_val x)
{
    const uint32_t word = (uint32_t)x.bits;
    float single;
    double wide;

    switch (x.type) {
    case PTX_F64:
        memcpy(&wide, &x.bits, sizeof wide);
        put_shortest(b, wide, false);
        return;
    case PTX_F16:
        put_shortest(b, from_half(x.bits, 10, 5), true);
        return;
    case PTX_BF16:
        put_shortest(b, from_half(x.bits, 7, 8), true);
        return;
    default:
        memcpy(&single, &word, sizeof single);
        put_shortest(b, (double)single, true);
    }
}

void ptxb_put_immediate(ptx_builder *b, ptx_val x)
{
    switch (x.type) {
    case PTX_F32:
        ptxb_putf(b, "0f%08" PRIX64, x.bits);
        return;
    case PTX_F64:
        ptxb_putf(b, "0d%016" PRIX64, x.bits);
        return;
    case PTX_F16:
    case PTX_BF16:
        ptxb_putf(b, "0x%04" PRIX64, x.bits);
        return;
    case PTX_S8:
    case PTX_S16:
    case PTX_S32:
    case PTX_S64: {
        const unsigned shift = 64 - ptxb_bits((ptx_type)x.type);
        const uint64_t sign = UINT64_C(1) << 63;
        const uint64_t top = x.bits << shift;
        if (top & sign) // magnitude of a negative number, without a signed shift
            ptxb_putf(b, "-%" PRIu64, (~top >> shift) + 1);
        else
            ptxb_putf(b, "%" PRIu64, x.bits);
        return;
    }
    default:
        if (x.bits <= 0xffff)
            ptxb_putf(b, "%" PRIu64, x.bits);
        else
            ptxb_putf(b, "0x%" PRIx64, x.bits);
    }
}

// SPDX-License-Identifier: MIT
// What the module's text is made of: the buffer, and numbers as PTX spells them.
#include "internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the buffer ---------------------------------------------------------------------------------

// Between the text and what is still to be printed there must be room for a line.
enum { GAP_BYTES = 1024 };

// The instructions that are still to be printed go to the end of what there will be.
static bool resize_text(ptx_builder *b, size_t capacity)
{
    const size_t left = b->text.capacity - b->text.limit;

    capacity = (capacity + 7) / 8 * 8; // the instructions' alignment
    char *moved = ptxb_resize(b, b->text.at, b->text.capacity, capacity);
    if (!moved)
        return false;
    memmove(moved + capacity - left, moved + b->text.limit, left);
    b->text.at = moved;
    b->text.limit = capacity - left;
    b->text.capacity = capacity;
    return true;
}

char *ptxb_grow_text(ptx_builder *b, size_t bytes)
{
    const size_t least = b->text.capacity - b->text.limit + b->text.count + bytes + 1;

    return resize_text(b, least + least / 16) ? b->text.at + b->text.count : NULL;
}

bool ptxb_text_over_code(ptx_builder *b, size_t bytes)
{
    struct code *code = &b->code[0];
    const size_t left = code->count * sizeof *code->at;
    const size_t about = ((bytes > left ? bytes : left) + GAP_BYTES) / sizeof *code->at;
    const uint32_t words = about < UINT32_MAX ? (uint32_t)about : UINT32_MAX;

    if (words > code->capacity &&
        !ptxb_set_capacity(b, (void **)&code->at, &code->capacity, sizeof *code->at, words))
        return false;
    b->text.at = (char *)code->at;
    b->text.capacity = code->capacity * sizeof *code->at;
    b->text.limit = b->text.capacity - left;
    memmove(b->text.at + b->text.limit, b->text.at, left);
    *code = (struct code) { 0 };
    return true;
}

static void put_bytes(ptx_builder *b, const char *bytes, size_t count)
{
    char *at = ptxb_room(b, count);
    if (!at)
        return;
    memcpy(at, bytes, count);
    ptxb_put_end(b, at + count);
}

void ptxb_put(ptx_builder *b, const char *string)
{
    put_bytes(b, string, strlen(string));
}

void ptxb_put_unsigned(ptx_builder *b, uint64_t x)
{
    char *at = ptxb_room(b, UNSIGNED_BYTES);
    if (at)
        ptxb_put_end(b, ptxb_write_unsigned(at, x));
}

void ptxb_put_comment(ptx_builder *b, const char *string)
{
    while (*string) {
        size_t plain = 0;
        while (string[plain] >= 0x20 && string[plain] < 0x7f)
            plain++;
        put_bytes(b, string, plain);
        string += plain;
        if (!*string)
            return;
        const unsigned char c = (unsigned char)*string++;
        if (c < 0x80 || c >= 0xc0) // else the rest of a UTF-8 character
            put_bytes(b, c >= 0x80 ? "?" : " ", 1);
    }
}

void ptxb_pad(ptx_builder *b, size_t line_start, size_t column)
{
    do
        ptxb_put(b, " ");
    while (!b->failed && b->text.count - line_start < column);
}

// ---- values -------------------------------------------------------------------------------------

// clang-format off
#define ONE(o)         { { '0' + o }, 1 }
#define TWO(t, o)      { { '0' + t, '0' + o }, 2 }
#define THREE(h, t, o) { { '0' + h, '0' + t, '0' + o }, 3 }
// clang-format on
#define TENS(t)                                                                                    \
    TWO(t, 0), TWO(t, 1), TWO(t, 2), TWO(t, 3), TWO(t, 4), TWO(t, 5), TWO(t, 6), TWO(t, 7),        \
        TWO(t, 8), TWO(t, 9)
#define TEN(h, t)                                                                                  \
    THREE(h, t, 0), THREE(h, t, 1), THREE(h, t, 2), THREE(h, t, 3), THREE(h, t, 4),                \
        THREE(h, t, 5), THREE(h, t, 6), THREE(h, t, 7), THREE(h, t, 8), THREE(h, t, 9)
#define HUNDRED(h)                                                                                 \
    TEN(h, 0), TEN(h, 1), TEN(h, 2), TEN(h, 3), TEN(h, 4), TEN(h, 5), TEN(h, 6), TEN(h, 7),        \
        TEN(h, 8), TEN(h, 9)
const struct small_number ptxb_small_numbers[1000] = {
    ONE(0),     ONE(1),     ONE(2),     ONE(3),     ONE(4),     ONE(5),     ONE(6),
    ONE(7),     ONE(8),     ONE(9),     TENS(1),    TENS(2),    TENS(3),    TENS(4),
    TENS(5),    TENS(6),    TENS(7),    TENS(8),    TENS(9),    HUNDRED(1), HUNDRED(2),
    HUNDRED(3), HUNDRED(4), HUNDRED(5), HUNDRED(6), HUNDRED(7), HUNDRED(8), HUNDRED(9),
};

char *ptxb_write_digits(char *at, uint64_t x)
{
    char digits[UNSIGNED_BYTES];
    size_t first = sizeof digits;

    do
        digits[--first] = (char)('0' + x % 10);
    while (x /= 10);
    memcpy(at, digits + first, sizeof digits - first);
    return at + (sizeof digits - first);
}

static char *write_hex(char *at, uint64_t x, unsigned digits, const char alphabet[17])
{
    for (unsigned k = digits; k-- > 0; x >>= 4)
        at[k] = alphabet[x & 15];
    return at + digits;
}

// Whether so few digits cannot read back as the number of which these 17 are the first: they are
// further from it than numbers are apart.
static bool too_few(int digits, uint64_t first17, bool single)
{
    uint64_t unit = 1;

    for (int k = digits; k < 17; k++)
        unit *= 10;
    const uint64_t below = first17 % unit;
    const uint64_t away = below < unit - below ? below : unit - below;
    return (double)away > (double)first17 * (single ? 0x1p-23 : 0x1p-52);
}

// The first `count` digits of a number above or equal to zero, rounded: value * 10^power.
struct digits {
    uint64_t value;
    int count, power;
};

static struct digits print_digits(double x, int count)
{
    struct digits d = { 0, count, 1 - count };
    char text[DECIMAL_BYTES];
    const char *c = text;

    snprintf(text, sizeof text, "%.*e", count - 1, x);
    for (; *c != 'e'; c++) // the point is the locale's
        if (*c >= '0' && *c <= '9')
            d.value = d.value * 10 + (uint64_t)(*c - '0');
    d.power += atoi(c + 1);
    return d;
}

// What print_digits() gives for fewer digits of `x`, from its first 17.
static struct digits round_digits(double x, struct digits first17, int count)
{
    struct digits d = { first17.value, count, first17.power + 17 - count };
    uint64_t unit = 1;

    for (int k = count; k < 17; k++)
        unit *= 10;
    const uint64_t rest = d.value % unit;
    if (2 * rest == unit) // these alone do not tell which way
        return print_digits(x, count);
    d.value = d.value / unit + (2 * rest > unit);
    if (d.value < UINT64_C(100000000000000000) / unit)
        return d;
    d.value /= 10; // 9.99 to 10.0
    d.power++;
    return d;
}

static bool reads_back(struct digits d, double x, bool single)
{
    char text[DECIMAL_BYTES];
    char *at = ptxb_write_unsigned(text, d.value);

    at = ptxb_write(at, d.power < 0 ? "e-" : "e");
    *ptxb_write_unsigned(at, (uint64_t)abs(d.power)) = 0;
    return single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x;
}

// The shortest decimal that reads back as the same number.
static struct digits shortest(double x, bool single)
{
    const bool normal = x >= (single ? FLT_MIN : DBL_MIN);
    const struct digits first17 = print_digits(x, 17);
    struct digits d = first17;

    for (int count = 1; count < 17; count++) {
        if (normal && too_few(count, first17.value, single))
            continue;
        d = round_digits(x, first17, count);
        if (reads_back(d, x, single))
            return d;
    }
    return first17;
}

// As printf's %g has it with so many digits, but with a point in every locale, and always with a
// point or an exponent.
static char *write_digits(char *at, struct digits d)
{
    char digits[UNSIGNED_BYTES];
    const int exponent = d.power + d.count - 1;
    const bool scientific = exponent < -4 || exponent >= d.count;

    ptxb_write_unsigned(digits, d.value);
    while (d.count > 1 && digits[d.count - 1] == '0')
        d.count--;
    const int whole = scientific ? 1 : exponent + 1; // digits before the point
    if (whole <= 0)
        at = ptxb_write(at, "0.");
    for (int k = whole; k < 0; k++)
        *at++ = '0';
    for (int k = 0; k < d.count || k < whole; k++) {
        if (k && k == whole)
            *at++ = '.';
        *at++ = k < d.count ? digits[k] : '0';
    }
    if (!scientific)
        return d.count > whole ? at : ptxb_write(at, ".0");
    at = ptxb_write(at, exponent < 0 ? "e-" : "e+");
    if (abs(exponent) < 10)
        *at++ = '0';
    return ptxb_write_unsigned(at, (uint64_t)abs(exponent));
}

static char *write_shortest(char *at, double x, bool single)
{
    if (!isfinite(x))
        return ptxb_write(at, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    if (signbit(x))
        *at++ = '-';
    x = fabs(x);
    if (x < 10 && x == (double)(int)x) { // most are 0 and 1
        *at = (char)('0' + (int)x);
        return ptxb_write(at + 1, ".0");
    }
    return write_digits(at, shortest(x, single));
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

char *ptxb_write_decimal(char *at, ptx_type type, uint64_t bits)
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

char *ptxb_write_immediate(char *at, ptx_type type, uint64_t bits)
{
    static const char upper[] = "0123456789ABCDEF", lower[] = "0123456789abcdef";
    unsigned digits = 1;

    switch (type) {
    case PTX_F32:
        return write_hex(ptxb_write(at, "0f"), bits, 8, upper);
    case PTX_F64:
        return write_hex(ptxb_write(at, "0d"), bits, 16, upper);
    case PTX_F16:
    case PTX_BF16:
        return write_hex(ptxb_write(at, "0x"), bits, 4, upper);
    case PTX_S8:
    case PTX_S16:
    case PTX_S32:
    case PTX_S64: {
        const unsigned shift = 64 - ptxb_bits(type);
        const uint64_t top = bits << shift;
        if (!(top >> 63))
            return ptxb_write_unsigned(at, bits);
        *at++ = '-'; // magnitude of a negative number, without a signed shift
        return ptxb_write_unsigned(at, (~top >> shift) + 1);
    }
    default:
        if (bits <= 0xffff)
            return ptxb_write_unsigned(at, bits);
        while (digits < 16 && bits >> (4 * digits))
            digits++;
        return write_hex(ptxb_write(at, "0x"), bits, digits, lower);
    }
}

// SPDX-License-Identifier: MIT
#include "array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const fills[] = { [ARRAY_ZEROS] = "zeros",
                                     [ARRAY_IOTA] = "iota",
                                     [ARRAY_RANDOM] = "random",
                                     [ARRAY_UNINITIALISED] = "uninitialised" };

enum { FILL_COUNT = sizeof(fills) / sizeof(fills[0]) };

static const struct tensor_dtype *const *all_dtypes(size_t *count)
{
    static const struct tensor_dtype *list[32];
    static size_t used;
    if (used == 0) {
#define ADD(name, bytes, type) list[used++] = tensor_dtype_named(#name);
        TENSOR_DTYPES(ADD)
#undef ADD
    }
    *count = used;
    return list;
}

const struct tensor_dtype *array_dtype(const char *name, size_t length)
{
    size_t count;
    const struct tensor_dtype *const *list = all_dtypes(&count);
    for (size_t k = 0; k < count; k++) {
        const char *kernel = list[k]->type == PTX_NONE ? "" : ptx_type_name(list[k]->type);
        if ((strlen(list[k]->name) == length && strncasecmp(list[k]->name, name, length) == 0) ||
            (strlen(kernel) == length && strncmp(kernel, name, length) == 0))
            return list[k];
    }
    return NULL;
}

bool array_is_fill(const char *word)
{
    for (size_t k = ARRAY_ZEROS; k < FILL_COUNT; k++)
        if (strcmp(word, fills[k]) == 0)
            return true;
    return false;
}

bool array_is(const char *text)
{
    const size_t length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length > 0 && text[length] == '[';
}

/// What stands before the ], in quotes.
static const char *quote_part(char quoted[QUOTED_SIZE], const char *text)
{
    char part[32];
    snprintf(part, sizeof(part), "%.*s", (int)strcspn(text, "]"), text);
    return quote(quoted, part);
}

static bool parse_shape(struct array_spec *spec, const char **text, struct message *error)
{
    const char *at = *text;
    char *end, quoted[QUOTED_SIZE];
    do {
        at++; // '[' or ','
        at += strspn(at, " ");
        if (spec->rank == ARRAY_RANK_LIMIT)
            return message_set(error, "more than %d dimensions", ARRAY_RANK_LIMIT);
        if (*at < '0' || *at > '9')
            return message_set(error,
                               "between [ and ] stand numbers of elements: f32[1000], f32[10,100]");
        spec->shape[spec->rank] = strtoull(at, &end, 10);
        if (__builtin_mul_overflow(spec->count, spec->shape[spec->rank++], &spec->count) ||
            __builtin_mul_overflow(spec->count, (uint64_t)spec->dtype->bytes, &spec->bytes) ||
            spec->bytes > INT64_MAX)
            return message_set(error, "more elements than memory can have");
        at = end + strspn(end, " ");
        if (*at && !strchr(",x]:", *at))
            return message_set(error, "%s is not a count", quote_part(quoted, *text + 1));
    } while (*at == ',' || *at == 'x');
    if (*at != ']')
        return message_set(error, "the ] is missing");
    *text = at + 1;
    return true;
}

bool array_parse(struct array_spec *spec, const char *text, struct message *error)
{
    const size_t length = strcspn(text, "[");
    char quoted[QUOTED_SIZE];
    *spec = (struct array_spec) { .dtype = array_dtype(text, length), .count = 1 };
    if (!spec->dtype) {
        message_set(error, "unknown type %.*s; there are", (int)(length < 32 ? length : 32), text);
        size_t count;
        const struct tensor_dtype *const *list = all_dtypes(&count);
        for (size_t k = 0; k < count; k++) {
            const char *name =
                list[k]->type == PTX_NONE ? list[k]->name : ptx_type_name(list[k]->type);
            message_add(error, "%s %s", k ? "," : "", name);
        }
        return false;
    }
    text += length;
    if (!parse_shape(spec, &text, error))
        return false;
    if (*text == '\0')
        return true;
    for (size_t k = ARRAY_ZEROS; k < FILL_COUNT && *text == ':'; k++)
        if (strcmp(text + 1, fills[k]) == 0) {
            spec->fill = (enum array_fill)k;
            return true;
        }
    return message_set(error,
                       "%s: after ] stands :zeros, :iota, :random, :uninitialised or nothing",
                       quote(quoted, text));
}

// ---- elements -----------------------------------------------------------------------------------

struct float_format {
    int exponent, fraction; // bits
};

/// True for the four types whose elements can be computed.
static bool format_of(ptx_type type, struct float_format *format)
{
    switch (type) {
    case PTX_F16:
        *format = (struct float_format) { 5, 10 };
        return true;
    case PTX_BF16:
        *format = (struct float_format) { 8, 7 };
        return true;
    case PTX_F32:
        *format = (struct float_format) { 8, 23 };
        return true;
    case PTX_F64:
        *format = (struct float_format) { 11, 52 };
        return true;
    default:
        return false;
    }
}

static uint64_t encode(struct float_format format, double number)
{
    const int bias = (1 << (format.exponent - 1)) - 1;
    const uint64_t sign = (uint64_t)(signbit(number) != 0) << (format.exponent + format.fraction);
    const uint64_t infinity = (UINT64_C(1) << format.exponent) - 1;
    int exponent = 0;
    if (isnan(number))
        return sign | infinity << format.fraction | UINT64_C(1) << (format.fraction - 1);
    if (number == 0 || isinf(number))
        return sign | (number == 0 ? 0 : infinity << format.fraction);
    frexp(number, &exponent); // 0.5 to 1 times 2^exponent
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    // The number in units of its last bit. A carry beyond the fraction raises the exponent.
    const uint64_t units = (uint64_t)nearbyint(ldexp(fabs(number), format.fraction - exponent));
    const uint64_t bits = ((uint64_t)(exponent + bias - 1) << format.fraction) + units;
    return sign | (bits < infinity << format.fraction ? bits : infinity << format.fraction);
}

uint64_t array_float_bits(ptx_type type, double number)
{
    struct float_format format = { 11, 52 };
    format_of(type, &format);
    return encode(format, number);
}

/// SplitMix64.
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/// A multiple of the distance of the type's numbers below 1, so that none is rounded.
static double uniform(uint64_t bits, int fraction)
{
    return ldexp((double)(bits >> (63 - fraction)), -fraction) - 1;
}

bool array_fill(const struct array_spec *spec, void *data, uint64_t seed, struct message *error)
{
    struct float_format format;
    const bool is_float = format_of(spec->dtype->type, &format);
    unsigned char *to = data;
    if (spec->fill == ARRAY_GIVEN || spec->fill == ARRAY_ZEROS ||
        spec->fill == ARRAY_UNINITIALISED) {
        memset(data, 0, (size_t)spec->bytes);
        return true;
    }
    if (!is_float && spec->dtype->type == PTX_NONE)
        return message_set(error, "%s has no :%s; use :zeros, or a file", spec->dtype->name,
                           fills[spec->fill]);
    for (uint64_t k = 0; k < spec->count; k++, to += spec->dtype->bytes) {
        uint64_t bits = spec->fill == ARRAY_RANDOM ? next(&seed) : k;
        if (is_float)
            bits = encode(format, spec->fill == ARRAY_RANDOM ? uniform(bits, format.fraction)
                                                             : (double)bits);
        for (unsigned byte = 0; byte < spec->dtype->bytes; byte++)
            to[byte] = (unsigned char)(bits >> 8 * byte);
    }
    return true;
}

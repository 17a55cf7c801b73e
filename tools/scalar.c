// SPDX-License-Identifier: MIT
#include "scalar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static bool is_signed(ptx_type type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

static bool is_integer(ptx_type type)
{
    return is_signed(type) || type == PTX_U8 || type == PTX_U16 || type == PTX_U32 ||
           type == PTX_U64;
}

static void store_integer(struct scalar *scalar)
{
    uint64_t bits = scalar->negative ? 0 - scalar->magnitude : scalar->magnitude;
    switch (scalar->bytes) {
    case 1:
        scalar->as.u8 = (uint8_t)bits;
        break;
    case 2:
        scalar->as.u16 = (uint16_t)bits;
        break;
    case 4:
        scalar->as.u32 = (uint32_t)bits;
        break;
    default:
        scalar->as.u64 = bits;
        break;
    }
}

static bool set_integer(struct scalar *scalar, ptx_type type, bool negative, uint64_t magnitude,
                        struct message *error)
{
    unsigned bytes = ptx_type_bytes(type);
    uint64_t most = UINT64_MAX >> (64 - 8 * bytes + (is_signed(type) ? 1 : 0));
    uint64_t least = is_signed(type) ? most + 1 : 0; // magnitude of the least value
    if (magnitude > (negative ? least : most))
        return message_set(error, "%s%" PRIu64 " does not fit %s: %s%" PRIu64 " to %" PRIu64,
                           negative ? "-" : "", magnitude, ptx_type_name(type), least ? "-" : "",
                           least, most);
    *scalar = (struct scalar) {
        .bytes = bytes,
        .integer = true,
        .negative = negative && magnitude > 0,
        .magnitude = magnitude,
    };
    store_integer(scalar);
    return true;
}

static bool parse_integer(struct scalar *scalar, ptx_type type, const char *text,
                          struct message *error)
{
    bool negative = text[0] == '-';
    const char *digits = text + (negative || text[0] == '+');
    char *end = NULL;
    errno = 0;
    uint64_t magnitude = digits[0] >= '0' && digits[0] <= '9' ? strtoull(digits, &end, 0) : 0;
    char quoted[QUOTED_SIZE];
    if (!end || *end != '\0')
        return message_set(error, "%s is not an integer", quote(quoted, text));
    if (errno == ERANGE)
        return message_set(error, "%s does not fit %s", quote(quoted, text), ptx_type_name(type));
    return set_integer(scalar, type, negative, magnitude, error);
}

static bool parse_float(struct scalar *scalar, ptx_type type, const char *text,
                        struct message *error)
{
    char *end;
    char quoted[QUOTED_SIZE];
    *scalar = (struct scalar) { .bytes = ptx_type_bytes(type) };
    errno = 0;
    // Parses each type directly: rounding to f64 first would round twice.
    if (type == PTX_F32) {
        scalar->as.f32 = strtof(text, &end);
        scalar->number = (double)scalar->as.f32;
    } else {
        scalar->as.f64 = strtod(text, &end);
        scalar->number = scalar->as.f64;
    }
    bool blank = text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r');
    if (end == text || *end != '\0' || blank)
        return message_set(error, "%s is not a number", quote(quoted, text));
    if (errno == ERANGE && isinf(scalar->number))
        return message_set(error, "%s is beyond the range of %s", quote(quoted, text),
                           ptx_type_name(type));
    return true;
}

bool scalar_parse(struct scalar *scalar, ptx_type type, const char *text, struct message *error)
{
    if (is_integer(type))
        return parse_integer(scalar, type, text, error);
    if (type == PTX_F32 || type == PTX_F64)
        return parse_float(scalar, type, text, error);
    return message_set(error, "values of type %s cannot be given as text", ptx_type_name(type));
}

bool scalar_from_count(struct scalar *scalar, ptx_type type, uint64_t count, struct message *error)
{
    if (!is_integer(type))
        return message_set(error, "a count of type %s", ptx_type_name(type));
    return set_integer(scalar, type, false, count, error);
}

int scalar_compare(const struct scalar *x, const struct scalar *y)
{
    if (!x->integer)
        return (x->number > y->number) - (x->number < y->number);
    if (x->negative != y->negative)
        return x->negative ? -1 : 1;
    int order = (x->magnitude > y->magnitude) - (x->magnitude < y->magnitude);
    return x->negative ? -order : order;
}

const char *scalar_range_broken(const struct scalar *scalar, unsigned range)
{
    bool nan = !scalar->integer && isnan(scalar->number);
    bool infinite = !scalar->integer && isinf(scalar->number);
    bool below = scalar->integer ? scalar->negative : scalar->number < 0;
    bool zero = scalar->integer ? scalar->magnitude == 0 : scalar->number == 0;
    if (nan && range != PTX_RANGE_ANY)
        return "must not be NaN";
    if (range & PTX_RANGE_POSITIVE && (below || zero))
        return "must be above 0";
    if (range & PTX_RANGE_NOT_NEGATIVE && below)
        return "must not be below 0";
    if (range & PTX_RANGE_FINITE && infinite)
        return "must be finite";
    return NULL;
}

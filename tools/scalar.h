// SPDX-License-Identifier: MIT
/// Kernel arguments passed by value.
#ifndef PTXGEN_TOOLS_SCALAR_H
#define PTXGEN_TOOLS_SCALAR_H

#include "message.h"

#include <ptxgen/builder.h>

struct scalar {
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
    } as; ///< the launch reads the first bytes
    unsigned bytes;
    bool integer;
    bool negative;
    uint64_t magnitude; ///< integers: absolute value
    double number;      ///< floats: rounded to the type
};

/// Parses a number in C syntax. False, with the reason, if it is not a number or does not fit the
/// type.
bool scalar_parse(struct scalar *scalar, ptx_type type, const char *text, struct message *error);
/// A value of an integer type. False if it does not fit.
bool scalar_from_count(struct scalar *scalar, ptx_type type, uint64_t count, struct message *error);
/// Compares two values of the same type: less than 0, 0 or greater than 0 for x below, equal to or
/// above y.
int scalar_compare(const struct scalar *x, const struct scalar *y);
/// Checks the value against PTX_RANGE_NOT_NAN and the other ranges: NULL, or the requirement as
/// text.
const char *scalar_range_broken(const struct scalar *scalar, unsigned range);

#endif

// SPDX-License-Identifier: MIT
/// Kernel arguments that are passed by value.
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
    } as; ///< read from its start, as the launch reads it
    unsigned bytes;
    bool integer;
    bool negative;
    uint64_t magnitude; ///< integers: without the sign
    double number;      ///< floats: as the kernel sees it
};

/// Reads text as C reads a number. False, with the reason, if it is none or does not fit the type.
bool scalar_parse(struct scalar *scalar, ptx_type type, const char *text, struct message *error);
/// An integer type's value. False if it does not fit.
bool scalar_from_count(struct scalar *scalar, ptx_type type, uint64_t count, struct message *error);
/// Less than 0, 0 or more, as x is below, equal to or above y; both of the same kind.
int scalar_compare(const struct scalar *x, const struct scalar *y);
/// Holds the value against PTX_RANGE_NOT_NAN and the others: NULL, or what it must be.
const char *scalar_range_broken(const struct scalar *scalar, unsigned range);

#endif

// SPDX-License-Identifier: MIT
#include "data.h"

#include <math.h>
#include <string.h>

#include "reference/half.h"

struct layout {
    int bits, fraction;
};

static struct layout layout_of(enum ref_type type)
{
    static const struct layout layouts[] = { [REF_F32] = { 32, 23 },
                                             [REF_F64] = { 64, 52 },
                                             [REF_F16] = { 16, 10 },
                                             [REF_BF16] = { 16, 7 } };
    return layouts[type];
}

static void store_bits(enum ref_type type, void *p, uint64_t i, uint64_t bits)
{
    char *at = (char *)p + i * ref_bytes(type);
    uint32_t word = (uint32_t)bits;
    uint16_t half = (uint16_t)bits;
    if (type == REF_F64)
        memcpy(at, &bits, 8);
    else if (type == REF_F32)
        memcpy(at, &word, 4);
    else
        memcpy(at, &half, 2);
}

static uint64_t special_bits(struct random *r, enum ref_type type)
{
    struct layout l = layout_of(type);
    uint64_t sign = (random_u64(r) & 1) << (l.bits - 1);
    uint64_t unit = UINT64_C(1) << l.fraction;
    uint64_t infinity = ((UINT64_C(1) << (l.bits - 1)) - 1) & ~(unit - 1);
    uint64_t one = (infinity >> 1) & ~(unit - 1);
    uint64_t payload = random_u64(r) & (unit - 1);
    switch (random_below(r, 12)) {
    case 0:
        return sign;
    case 1:
        return sign | 1;
    case 2:
        return sign | (unit - 1); // the largest subnormal
    case 3:
        return sign | unit; // the least normal
    case 4:
        return sign | (infinity - 1);
    case 5:
        return sign | infinity;
    case 6:
        return sign | infinity | unit >> 1 | payload; // quiet
    case 7:
        return sign | infinity | (payload & (unit / 2 - 1)) | 1; // signalling
    case 8:
        return sign | payload; // subnormal
    case 9:
        return sign | one;
    case 10:
        return sign | (one - 1);
    default:
        return sign | (one + 1);
    }
}

static void fill_one(struct random *r, enum ref_type type, enum data_kind kind, void *p, uint64_t i)
{
    struct layout l = layout_of(type);
    uint64_t bits = random_u64(r);
    if (kind == DATA_SPECIAL)
        kind = bits % 8 == 0 ? DATA_SPECIAL : bits % 8 < 4 ? DATA_WILD : DATA_PLAIN;
    if (kind == DATA_SPECIAL)
        store_bits(type, p, i, special_bits(r, type));
    else if (kind == DATA_WILD)
        // Without the last bit of its exponent, the value is neither infinity nor NaN.
        store_bits(type, p, i, random_u64(r) & ~(UINT64_C(1) << l.fraction));
    else
        ref_store(type, p, i, 2.0 * random_unit(r));
}

void data_fill(struct random *r, enum ref_type type, enum data_kind kind, void *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; ++i)
        fill_one(r, type, kind, p, i);
}

void data_make_positive(enum ref_type type, void *p, uint64_t n)
{
    size_t bytes = ref_bytes(type);
    for (uint64_t i = 0; i < n; ++i)
        ((unsigned char *)p)[i * bytes + bytes - 1] &=
            0x7f; // little endian, as all hosts of CUDA are
}

void data_fill_ties(struct random *r, enum ref_type type, double scale, void *p, uint64_t n)
{
    static const double far[] = { 0x1p31, 0x1p31 - 128, 0x1p32, 0x1p32 - 256, 0x1p32 - 1, 0x1p33 };
    for (uint64_t i = 0; i < n; ++i) {
        uint32_t choice = random_below(r, 16);
        double sign = random_u64(r) & 1 ? 1.0 : -1.0;
        if (choice < 2) {
            fill_one(r, type, DATA_SPECIAL, p, i);
        } else if (choice < 3) {
            ref_store(type, p, i, sign * far[random_below(r, 6)] * scale);
        } else {
            double integer = (double)random_below(r, 300) + (choice < 11 ? 0.5 : 0.0);
            double x = sign * integer * scale;
            if (choice % 2) {
                // The neighbour on a random side, in f32 or in f64.
                double towards = random_u64(r) & 1 ? (double)INFINITY : -(double)INFINITY;
                x = type == REF_F64 ? nextafter(x, towards)
                                    : (double)nextafterf((float)x, (float)towards);
            }
            ref_store(type, p, i, x);
        }
    }
}

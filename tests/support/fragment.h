// SPDX-License-Identifier: MIT
/// Which element of a matrix a lane has in a word of a fragment, as the figures of the PTX manual
/// draw it: for tests, and for the table in docs/matrices.md.
#ifndef PTXGEN_TESTS_FRAGMENT_H
#define PTXGEN_TESTS_FRAGMENT_H

#include <ptxgen/builder.h>

struct fragment_place {
    unsigned row, column; // of A, B or C
};

/// Bits of an element.
static inline unsigned fragment_bits(ptx_type type)
{
    return type == PTX_E4M3X2 || type == PTX_E5M2X2 ? 8 : 8 * ptx_type_bytes(type);
}

/// Elements in a word.
static inline unsigned fragment_parts(ptx_type type)
{
    return fragment_bits(type) < 32 ? 32 / fragment_bits(type) : 1;
}

/// Element `part` of a word: A and B have neighbours along k in a word, C neighbours in a row.
static inline struct fragment_place fragment_place(ptx_fragment_role role, ptx_type type,
                                                   unsigned lane, unsigned word, unsigned part)
{
    const unsigned group = lane / 4, thread = lane % 4, parts = fragment_parts(type);
    const unsigned step = role == PTX_FRAGMENT_A ? word / 2 : word;
    const unsigned k = (4 * step + thread) * parts + part, pair = word * parts + part;

    if (role == PTX_FRAGMENT_A)
        return (struct fragment_place) { group + word % 2 * 8, k };
    if (role == PTX_FRAGMENT_B)
        return (struct fragment_place) { k, group };
    return (struct fragment_place) { group + pair / 2 * 8, 2 * thread + pair % 2 };
}

#endif

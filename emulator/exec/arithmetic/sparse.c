// SPDX-License-Identifier: MIT
// mma.sp. A row of A is stored as half of its elements; for each chunk of the whole row, four bits
// of metadata say where they belong:
//   4 elements of 8 or 16 bits      two of them, by two indices
//   8 elements of 4 bits            two pairs, by two indices of pairs
//   2 elements of tf32              one, 0b0100 for the first and 0b1110 for the second
// The lanes 4 * row to 4 * row + 3 of rows 0 to 7 have the metadata of rows `row` and `row` + 8. If
// one or two of the four are enough, the selector says which.
#include "sparse.h"

static unsigned chunk_of(const struct emu_insn *insn)
{
    const unsigned bits = emu_bits((enum emu_type)insn->source_type);
    return bits == 32 ? 2 : bits == 4 ? 8 : 4;
}

static unsigned chunks_of(const struct emu_insn *insn)
{
    return emu_sizes_of((enum emu_shape)insn->shape).k / chunk_of(insn);
}

// 16 bits and more: a register has four chunks of both rows; else eight of one row.
static bool has_both_rows(const struct emu_insn *insn)
{
    return emu_bits((enum emu_type)insn->source_type) >= 16;
}

uint32_t emu_sparse_lanes(const struct emu_insn *insn, uint64_t selector, unsigned row)
{
    const unsigned first = row % 8 * 4, chunks = chunks_of(insn), lower = row / 8;
    if (has_both_rows(insn))
        return chunks == 4 ? 1u << (first + selector) : 3u << (first + 2 * selector);
    return chunks == 8 ? 1u << (first + 2 * selector + lower) : 5u << (first + lower);
}

int emu_sparse_columns(const struct emu_insn *insn, const uint32_t *metadata, uint32_t lanes,
                       unsigned row, uint8_t *columns)
{
    const unsigned size = chunk_of(insn), chunks = chunks_of(insn);
    const unsigned each = has_both_rows(insn) ? 4 : 8;
    const unsigned shift = has_both_rows(insn) ? row / 8 * 16 : 0;
    for (unsigned chunk = 0; chunk < chunks; chunk++) {
        unsigned lane = (unsigned)__builtin_ctz(lanes);
        if (chunk >= each)
            lane = (unsigned)__builtin_ctz(lanes & (lanes - 1));
        const unsigned bits = metadata[lane] >> (shift + chunk % each * 4) & 15;
        const unsigned first = bits & 3, second = bits >> 2;
        if (size == 2
                ? bits != 4 && bits != 14
                : first == second || (insn->mode == EMU_MODE_SPARSE_ORDERED && first > second))
            return (int)lane;
        if (size == 2)
            *columns++ = (uint8_t)(chunk * 2 + (bits == 14));
        for (unsigned k = 0; size > 2 && k < size / 2; k++) {
            const unsigned index = k < size / 4 ? first : second;
            *columns++ = (uint8_t)(chunk * size + (size == 8 ? index * 2 + k % 2 : index));
        }
    }
    return -1;
}

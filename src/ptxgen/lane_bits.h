// SPDX-License-Identifier: MIT
// What divergence.c knows about a value across the threads of a block, or of each of its warps: for
// each bit, whether it may differ between them, be 0, or be 1. In a warp the five lowest bits of
// %tid.x differ; %tid.x >> 5 has none that differs, so it is uniform, and so is x < 64 if only the
// five lowest bits of x differ.
#ifndef PTXGEN_BUILDER_LANE_BITS_H
#define PTXGEN_BUILDER_LANE_BITS_H

#include "internal.h"

// A bit that may differ may be 0 and may be 1. A bit that may be neither belongs to a variable that
// was not written yet. Above the width of its type, a value has bits that may differ if any does.
struct lane_bits {
    uint64_t differ, zero, one;
    bool less_one; // these are the bits of the value minus one, and the value is not 0
};

// The same value in all threads, or any in each; the `count` lowest bits differ, or are 0.
static inline struct lane_bits ptxb_uniform_if(bool uniform)
{
    return (struct lane_bits) { uniform ? 0 : UINT64_MAX, UINT64_MAX, UINT64_MAX, false };
}
static inline uint64_t ptxb_low_mask(unsigned count)
{
    return count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}
static inline struct lane_bits ptxb_low_bits_differ(unsigned count)
{
    return (struct lane_bits) { ptxb_low_mask(count), UINT64_MAX, UINT64_MAX, false };
}
static inline struct lane_bits ptxb_low_bits_zero(unsigned count)
{
    return (struct lane_bits) { 0, UINT64_MAX, ~ptxb_low_mask(count), false };
}
static inline struct lane_bits ptxb_constant_bits(uint64_t bits)
{
    return (struct lane_bits) { 0, ~bits, bits, false };
}
// The number of bits of the type, counted from the lowest, up to the highest that may differ.
unsigned ptxb_differing_bits(struct lane_bits x, ptx_type type);
// A value of the type: what an instruction leaves in bits above it is not known.
struct lane_bits ptxb_cut_to_type(struct lane_bits x, ptx_type type);

// What is known of a variable that was written before. Few steps lead from any facts to none, so
// that loops are read few times.
struct lane_bits ptxb_also_written(struct lane_bits before, struct lane_bits x);

// Whether a rule computes the bits of a result. Without one, the result is uniform if all sources
// are, and the instruction is not marked as varying.
bool ptxb_has_lane_rule(struct opcode *opcode, const struct insn *insn);
// The result by the rule, from the sources, which are changed.
void ptxb_lane_bits(const struct opcode *opcode, const struct insn *insn,
                    struct lane_bits source[4], struct lane_bits *result);

#endif

// SPDX-License-Identifier: MIT
#include "elementwise.h"

// What a block reads and writes, from its 16-byte boundary on. Places count from there; those from
// `head` up to `end` are the tensors' own.
struct part {
    const struct elementwise *e;
    ptx_ptr in[MAX_INPUTS], out[MAX_OUTPUTS];
    ptx_val head, end; // s32
    ptx_val alike;     // all tensors are aligned alike; poisoned where there is one alone
};

static ptx_val all_aligned_alike(ptx_builder *b, const struct elementwise *e)
{
    ptx_ptr tensors[MAX_INPUTS + MAX_OUTPUTS];

    for (unsigned t = 0; t < e->inputs + e->outputs; t++)
        tensors[t] = t < e->inputs ? e->in[t] : e->out[t - e->inputs];
    return aligned_alike(b, tensors, e->inputs + e->outputs);
}

static struct part part_of_block(ptx_builder *b, ptx_val n, const struct elementwise *e,
                                 uint32_t size)
{
    struct part part = { .e = e, .alike = all_aligned_alike(b, e) };

    ptx_val skew = elements_beyond_boundary(b, e->in[0]);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, ptx_u32(size));
    ptx_val start = ptx_sub(b, first, skew); // of block 0 before the tensor: wraps round
    ptx_val left = ptx_bitcast(b, PTX_S64, ptx_sub(b, n, start));
    part.end = ptx_cvt(b, PTX_S32, ptx_min(b, left, ptx_s64(size)));
    ptx_val outside = ptx_cvt(b, PTX_S32, skew);
    part.head = ptx_select(b, ptx_eq(b, block, ptx_u32(0)), outside, ptx_s32(0));
    for (unsigned t = 0; t < e->inputs; t++)
        part.in[t] = ptx_at(b, e->in[t], start);
    for (unsigned t = 0; t < e->outputs; t++) {
        const bool in_place = ptx_address(b, e->out[t]).reg == ptx_address(b, e->in[0]).reg;
        part.out[t] = in_place ? part.in[0] : ptx_at(b, e->out[t], start);
    }
    return part;
}

static void load_lanes(ptx_builder *b, const struct part *part, ptx_val i, unsigned lanes,
                       ptx_vec in[MAX_INPUTS])
{
    for (unsigned t = 0; t < part->e->inputs; t++)
        in[t] = ptx_load_vec(b, part->in[t], i, lanes);
}

static void compute_lanes(ptx_builder *b, const struct part *part, ptx_val i, const ptx_vec *in)
{
    const struct elementwise *e = part->e;
    ptx_vec out[MAX_OUTPUTS];

    for (unsigned t = 0; t < e->outputs; t++)
        out[t] = in[0];
    e->compute(b, e->user, in, out);
    for (unsigned t = 0; t < e->outputs; t++)
        ptx_store_vec(b, part->out[t], i, out[t]);
}

// out[o][i ...] = compute(in[0][i ...] ...) for the vector at a place, or what the tensors have of
// it.
static void compute_vector(ptx_builder *b, const struct part *part, ptx_val place)
{
    const unsigned lanes = vector_lanes((ptx_type)part->e->in[0].type);
    const ptx_val width = ptx_s32((int32_t)lanes);
    ptx_vec in[MAX_INPUTS];

    ptx_val whole = ptx_le(b, place, ptx_sub(b, part->end, width));
    whole = ptx_and(b, whole, ptx_ge(b, place, part->head));
    if (part->alike.kind != PTX_POISON)
        whole = ptx_and(b, whole, part->alike);
    if (part->e->unless.kind != PTX_POISON) { // waited for as late as can be
        ptx_comment(b, "nothing is to be done");
        ptx_return_if(b, part->e->unless);
    }
    ptx_if (b, whole) {
        ptx_val at = ptx_bitcast(b, PTX_U32, place);
        load_lanes(b, part, at, lanes, in);
        compute_lanes(b, part, at, in);
    }
    ptx_else (b) {
        ptx_val lo = ptx_max(b, place, part->head);
        ptx_val hi = ptx_min(b, ptx_add(b, place, width), part->end);
        ptx_for (b, i, lo, hi, ptx_s32(1)) {
            load_lanes(b, part, i, 1, in);
            compute_lanes(b, part, i, in);
        }
    }
}

// Two vectors, `row` places apart, both read before either is computed.
static void compute_pair(ptx_builder *b, const struct part *part, ptx_val place, int32_t row)
{
    const unsigned lanes = vector_lanes((ptx_type)part->e->in[0].type);
    const ptx_val at[2] = { place, ptx_add(b, place, ptx_s32(row)) };
    ptx_vec in[2][MAX_INPUTS];

    for (int v = 0; v < 2; v++)
        load_lanes(b, part, at[v], lanes, in[v]);
    for (int v = 0; v < 2; v++)
        compute_lanes(b, part, at[v], in[v]);
}

static void for_each_pair(ptx_builder *b, ptx_val n, const struct elementwise *e)
{
    const int32_t lanes = (int32_t)vector_lanes((ptx_type)e->in[0].type);
    const int32_t row = (int32_t)e->block * lanes;

    ptx_comment(b, "this block's elements, and two vectors of 16 bytes a thread, a row apart");
    struct part part = part_of_block(b, n, e, 2 * (uint32_t)row);
    ptx_val mine = ptx_bitcast(b, PTX_S32, ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32((uint32_t)lanes)));
    ptx_val all = ptx_eq(b, ptx_sub(b, part.end, part.head), ptx_s32(2 * row));
    if (part.alike.kind != PTX_POISON)
        all = ptx_and(b, all, part.alike);

    ptx_if (b, all)
        compute_pair(b, &part, mine, row);
    ptx_else (b) {
        ptx_for (b, place, mine, part.end, ptx_s32(row))
            compute_vector(b, &part, place);
    }
}

void for_each_element(ptx_builder *b, ptx_val n, const struct elementwise *e)
{
    const uint32_t lanes = vector_lanes((ptx_type)e->in[0].type);

    if (e->pairs) {
        for_each_pair(b, n, e);
        return;
    }
    ptx_comment(b, "this thread's elements: 16 bytes, aligned where the data begins unaligned too");
    struct part part = part_of_block(b, n, e, e->block * lanes);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(lanes));
    compute_vector(b, &part, ptx_bitcast(b, PTX_S32, mine));
}

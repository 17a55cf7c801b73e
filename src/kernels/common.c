// SPDX-License-Identifier: MIT
#include "common.h"

enum { VECTOR_BYTES = 16, WARP = 32 };

ptx_type compute_type(ptx_type dtype)
{
    return dtype == PTX_F64 ? PTX_F64 : PTX_F32;
}

unsigned vector_lanes(ptx_type dtype)
{
    // After an error in the builder pointers are poisoned and have no type.
    const unsigned bytes = ptx_type_bytes(dtype);
    return bytes ? VECTOR_BYTES / bytes : 1;
}

ptx_val tree_sum(ptx_builder *b, const ptx_val *x, unsigned count)
{
    if (count == 1)
        return *x;
    ptx_val left = tree_sum(b, x, count / 2);
    ptx_val right = tree_sum(b, x + count / 2, count / 2);
    return ptx_add(b, left, right);
}

ptx_val one_nan(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;
    const uint64_t all_ones = type == PTX_F64 ? UINT64_MAX >> 1 : UINT32_MAX >> 1;
    ptx_val is_nan = ptx_is_nan(b, x);

    return ptx_select(b, is_nan, ptx_immediate_bits(type, all_ones), x);
}

static ptx_val warp_sum(ptx_builder *b, ptx_val x, unsigned lanes)
{
    for (unsigned delta = lanes / 2; delta > 0; delta /= 2) {
        ptx_val other = ptx_shfl_down(b, x, ptx_u32(delta));
        x = ptx_add(b, x, other);
    }
    return x;
}

ptx_val block_sum(ptx_builder *b, ptx_val x, unsigned threads)
{
    const unsigned warps = threads / WARP;
    const ptx_type type = (ptx_type)x.type;
    ptx_ptr sums = ptx_shared(b, type, warps);

    ptx_comment(b, "sum over the lanes of the warp, then over the %u warps", warps);
    ptx_val total = ptx_var(b, warp_sum(b, x, WARP));
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val warp = ptx_shr(b, tid, ptx_u32(5));
    ptx_if (b, ptx_eq(b, lane, ptx_u32(0)))
        ptx_store(b, sums, warp, total);
    ptx_barrier(b);
    ptx_if (b, ptx_lt(b, tid, ptx_u32(WARP))) {
        ptx_set(b, total, ptx_zero(type));
        ptx_if (b, ptx_lt(b, tid, ptx_u32(warps)))
            ptx_set(b, total, ptx_load(b, sums, tid));
        ptx_set(b, total, warp_sum(b, total, warps));
    }
    return total;
}

// The elements of this thread, lo <= i < hi, and whether they are a whole vector.
struct span {
    ptx_val lo, hi; // u64
    ptx_val whole;
};

ptx_val elements_beyond_boundary(ptx_builder *b, ptx_ptr p)
{
    const unsigned bytes = ptx_type_bytes((ptx_type)p.type);
    const unsigned shift = bytes == 8 ? 3 : bytes == 4 ? 2 : 1;
    ptx_val offset = ptx_and(b, ptx_address(b, p), ptx_u64(VECTOR_BYTES - 1));

    return ptx_shr(b, offset, ptx_u32(shift));
}

ptx_val aligned_alike(ptx_builder *b, const ptx_ptr *p, unsigned count)
{
    ptx_val first = ptx_address(b, p[0]);
    ptx_val differ = { 0 };

    for (unsigned t = 1; t < count; t++) {
        ptx_val other = ptx_address(b, p[t]);
        if (other.reg == first.reg)
            continue;
        ptx_val bits = ptx_xor(b, first, other);
        differ = differ.kind == PTX_POISON ? bits : ptx_or(b, differ, bits);
    }
    if (differ.kind == PTX_POISON)
        return differ;
    differ = ptx_and(b, differ, ptx_u64(VECTOR_BYTES - 1));
    return ptx_eq(b, differ, ptx_u64(0));
}

// `whole`, and all tensors aligned alike.
static ptx_val and_aligned_alike(ptx_builder *b, ptx_val whole, const struct elementwise *e)
{
    ptx_ptr tensors[MAX_INPUTS + MAX_OUTPUTS];

    for (unsigned t = 0; t < e->inputs + e->outputs; t++)
        tensors[t] = t < e->inputs ? e->in[t] : e->out[t - e->inputs];
    ptx_val alike = aligned_alike(b, tensors, e->inputs + e->outputs);
    return alike.kind == PTX_POISON ? whole : ptx_and(b, whole, alike);
}

// The elements of a vector that begins `first` elements after the boundary.
static struct span vector_span(ptx_builder *b, ptx_val n, const struct elementwise *e, ptx_val skew,
                               ptx_val first)
{
    const unsigned lanes = vector_lanes((ptx_type)e->in[0].type);
    ptx_val lo = ptx_sub(b, ptx_max(b, first, skew), skew);
    ptx_val hi = ptx_sub(b, ptx_add(b, first, ptx_u64(lanes)), skew);
    hi = ptx_min(b, hi, n);

    ptx_val whole = ptx_eq(b, ptx_sub(b, hi, lo), ptx_u64(lanes));
    return (struct span) { lo, hi, and_aligned_alike(b, whole, e) };
}

static ptx_cache cache_for(unsigned lanes)
{
    return lanes > 1 ? PTX_STREAM : PTX_CACHE_DEFAULT;
}

static void load_lanes(ptx_builder *b, const struct elementwise *e, ptx_val i, unsigned lanes,
                       ptx_vec in[MAX_INPUTS])
{
    for (unsigned t = 0; t < e->inputs; t++)
        in[t] = ptx_load_vec(b, e->in[t], i, lanes, .cache = cache_for(lanes));
}

static void compute_lanes(ptx_builder *b, const struct elementwise *e, ptx_val i, const ptx_vec *in)
{
    ptx_vec out[MAX_OUTPUTS];

    for (unsigned t = 0; t < e->outputs; t++)
        out[t] = in[0];
    e->compute(b, e->user, in, out);
    for (unsigned t = 0; t < e->outputs; t++)
        ptx_store_vec(b, e->out[t], i, out[t], .cache = cache_for(in[0].lanes));
}

// out[o][i ...] = compute(in[0][i ...] ...) for a vector, or for what the tensors have of it.
static void compute_span(ptx_builder *b, const struct elementwise *e, const struct span *span)
{
    ptx_vec in[MAX_INPUTS];

    ptx_if (b, span->whole) {
        load_lanes(b, e, span->lo, vector_lanes((ptx_type)e->in[0].type), in);
        compute_lanes(b, e, span->lo, in);
    }
    ptx_else (b) {
        ptx_for (b, i, span->lo, span->hi, ptx_u64(1)) {
            load_lanes(b, e, i, 1, in);
            compute_lanes(b, e, i, in);
        }
    }
}

// This thread's two vectors, `row` elements apart.
static void compute_pair(ptx_builder *b, const struct elementwise *e, ptx_val i, uint32_t row)
{
    const unsigned lanes = vector_lanes((ptx_type)e->in[0].type);
    const ptx_val at[2] = { i, ptx_add(b, i, ptx_u64(row)) };
    ptx_vec in[2][MAX_INPUTS];

    for (int v = 0; v < 2; v++)
        load_lanes(b, e, at[v], lanes, in[v]);
    for (int v = 0; v < 2; v++)
        compute_lanes(b, e, at[v], in[v]);
}

static void for_each_pair(ptx_builder *b, ptx_val n, const struct elementwise *e)
{
    const uint32_t row = e->block * vector_lanes((ptx_type)e->in[0].type);

    ptx_comment(b, "this block's elements, and two vectors of 16 bytes a thread, a row apart");
    ptx_val skew = elements_beyond_boundary(b, e->in[0]);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, ptx_u32(2 * row));
    ptx_val end = ptx_add(b, first, ptx_u64(2 * row));
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val mine = ptx_mad_wide(b, tid, ptx_u32(row / e->block), first);
    ptx_val begins = ptx_ge(b, first, skew);
    ptx_val ends = ptx_le(b, end, ptx_add(b, n, skew));

    ptx_if (b, and_aligned_alike(b, ptx_and(b, begins, ends), e))
        compute_pair(b, e, ptx_sub(b, mine, skew), row);
    ptx_else (b) {
        ptx_for (b, place, mine, end, ptx_u64(row)) {
            struct span span = vector_span(b, n, e, skew, place);
            compute_span(b, e, &span);
        }
    }
}

void for_each_element(ptx_builder *b, ptx_val n, const struct elementwise *e)
{
    if (e->pairs) {
        for_each_pair(b, n, e);
        return;
    }
    ptx_comment(b, "this thread's elements: 16 bytes, aligned where the data begins unaligned too");
    ptx_val skew = elements_beyond_boundary(b, e->in[0]);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val threads = ptx_ntid(b, PTX_X);
    ptx_val tid = ptx_cvt(b, PTX_U64, ptx_tid(b, PTX_X));
    ptx_val thread = ptx_mad_wide(b, block, threads, tid);
    ptx_val first = ptx_mul(b, thread, ptx_u64(vector_lanes((ptx_type)e->in[0].type)));
    struct span span = vector_span(b, n, e, skew, first);
    compute_span(b, e, &span);
}

ptx_val scalar_param(ptx_builder *b, ptx_type type, bool device, struct ptx_param_info info)
{
    if (!device)
        return ptx_param_value(b, type, info);
    info.readonly = true;
    info.length = "1";
    ptx_ptr p = ptx_param_pointer(b, type, info);
    return ptx_load(b, p, ptx_u32(0));
}

// SPDX-License-Identifier: MIT
// Gradients times their group's factor, in place.
#include "clip_text.h"
#include "kernels/common.h"

enum { IN_FLIGHT = 4 }; // vectors a thread

struct apply {
    const struct clip_spec *spec;
    struct clip_chunk chunk;
    ptx_val tid, factor, zeros; // zeros: store 0; poisoned where the policy is another
};

struct vectors {
    ptx_type dtype;
    ptx_val factor; // in the compute type
    ptx_val zeros;
    ptx_ptr data;
};

static ptx_vec scaled(ptx_builder *b, const struct vectors *v, const ptx_vec *in)
{
    const ptx_type compute = (ptx_type)v->factor.type;
    ptx_vec out = *in;

    for (unsigned k = 0; k < in->lanes; k++) {
        ptx_val product = ptx_mul(b, ptx_cvt(b, compute, in->lane[k]), v->factor);
        if (v->zeros.kind != PTX_POISON)
            product = ptx_select(b, v->zeros, ptx_zero(compute), product);
        out.lane[k] = ptx_cvt(b, v->dtype, product);
    }
    return out;
}

// The elements of the vector at `i` that lie within the chunk.
static void apply_edge(ptx_builder *b, const struct vectors *v, ptx_val i, ptx_val length)
{
    const unsigned lanes = vector_lanes(v->dtype);
    ptx_val lo = ptx_max(b, i, ptx_s32(0));
    ptx_val hi = ptx_min(b, ptx_add(b, i, ptx_s32((int32_t)lanes)), length);

    ptx_for (b, k, lo, hi, ptx_s32(1)) {
        ptx_vec one = ptx_load_vec(b, v->data, k, 1);
        one = scaled(b, v, &one);
        ptx_store_vec(b, v->data, k, one);
    }
}

// So many rows at a time while they lie within the chunk.
static void apply_rows(ptx_builder *b, const struct vectors *v, ptx_val i, ptx_val length,
                       unsigned rows)
{
    const unsigned lanes = vector_lanes(v->dtype);
    const int32_t row = (int32_t)(CLIP_BLOCK * lanes);
    const int32_t reach = (int32_t)(rows - 1) * row + (int32_t)lanes;
    ptx_val last = ptx_sub(b, length, ptx_s32(reach));

    ptx_while (b, ptx_le(b, i, last)) {
        ptx_vec in[IN_FLIGHT];
        ptx_ptr p = ptx_at(b, v->data, i);
        for (unsigned k = 0; k < rows; k++)
            in[k] = ptx_load_vec(b, p, ptx_s32((int32_t)k * row), lanes, .cache = PTX_STREAM);
        for (unsigned k = 0; k < rows; k++) {
            ptx_vec out = scaled(b, v, &in[k]);
            ptx_store_vec(b, p, ptx_s32((int32_t)k * row), out, .cache = PTX_STREAM);
        }
        ptx_set(b, i, ptx_add(b, i, ptx_s32((int32_t)rows * row)));
    }
}

// Rows begin at the 16-byte boundary at or before the chunk; a thread has a vector of each.
static void apply_chunk(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct apply *a = user;
    const unsigned lanes = vector_lanes(dtype);
    const unsigned rows = a->spec->chunk / (CLIP_BLOCK * lanes);
    const unsigned unroll = rows < IN_FLIGHT ? rows : IN_FLIGHT;
    struct vectors v = { .dtype = dtype, .zeros = a->zeros };

    v.factor = ptx_cvt(b, compute_type(dtype), a->factor);
    ptx_ptr x = ptx_pointer(b, dtype, PTX_GLOBAL, a->chunk.data);
    v.data = ptx_at(b, x, a->chunk.first);
    ptx_val address = ptx_cvt(b, PTX_U32, a->chunk.data);
    ptx_val skew = ptx_and(b, address, ptx_u32(15));
    skew = ptx_div(b, skew, ptx_u32(ptx_type_bytes(dtype)));
    ptx_val mine = ptx_mul(b, a->tid, ptx_u32(lanes));
    ptx_val i = ptx_var(b, ptx_bitcast(b, PTX_S32, ptx_sub(b, mine, skew)));

    ptx_if (b, ptx_lt(b, i, ptx_s32(0))) {
        apply_edge(b, &v, i, a->chunk.length);
        ptx_set(b, i, ptx_add(b, i, ptx_s32((int32_t)(CLIP_BLOCK * lanes))));
    }
    if (unroll > 1)
        apply_rows(b, &v, i, a->chunk.length, unroll);
    apply_rows(b, &v, i, a->chunk.length, 1);
    apply_edge(b, &v, i, a->chunk.length);
}

void clip_apply_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct apply a = { .spec = spec };

    ptx_comment(b, "a block for each chunk, from the last to the first: what was read last may "
                   "still be in the cache");
    struct clip_tables tables = clip_tables_param(b);
    ptx_ptr records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                                    .meaning = "rows of 4: factor, norm, found_inf, max_norm");
    ptx_val last = ptx_param(b, PTX_U32, "last", .meaning = "chunk of block 0");

    clip_wait_for_last(b);
    a.tid = ptx_tid(b, PTX_X);
    ptx_val k = ptx_sub(b, last, ptx_ctaid(b, PTX_X));
    a.chunk = clip_chunk_read(b, &tables, k, spec->chunk);
    ptx_val row = ptx_mul_wide(b, a.chunk.group, ptx_u32(4));
    ptx_vec record = ptx_load_vec(b, records, row, 4);
    a.factor = record.lane[0];
    ptx_val unchanged = ptx_eq(b, a.factor, ptx_f32(1.0f));
    if (spec->nonfinite == PTX_NONFINITE_ZERO)
        a.zeros = ptx_ne(b, record.lane[2], ptx_f32(0.0f));
    ptx_comment(b, "nothing to scale: nothing is written");
    ptx_return_if(b, unchanged);
    clip_for_dtype(b, spec, a.chunk.dtype, apply_chunk, &a);
}

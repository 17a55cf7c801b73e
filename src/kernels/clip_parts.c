// SPDX-License-Identifier: MIT
#include "clip_parts.h"

unsigned ptxk_clip_dtype_code(ptx_type dtype)
{
    static const ptx_type dtypes[] = {
#define CLIP_DTYPE(name) PTX_##name,
        CLIP_DTYPES(CLIP_DTYPE)
#undef CLIP_DTYPE
    };
    unsigned code = 0;

    while (code < CLIP_DTYPE_COUNT && dtypes[code] != dtype)
        code++;
    return code;
}

struct clip_tables ptxk_clip_tables_param(ptx_builder *b, const struct clip_spec *spec)
{
    struct clip_tables tables;

    tables.tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                   .meaning = "rows of 4: data, count, weight (f64), type (u32)");
    tables.chunks = ptx_param_ptr(b, PTX_U32, "chunks", .readonly = true,
                                  .meaning = "rows of 4: tensor, place in it, group");
    if (spec->packs)
        tables.pieces = ptx_param_ptr(b, PTX_U32, "pieces", .readonly = true,
                                      .meaning = "tensors; chunks may be first piece, pieces, "
                                                 "group, log2 of a team's threads");
    return tables;
}

struct clip_chunk ptxk_clip_chunk_read(ptx_builder *b, const struct clip_tables *tables, ptx_val k)
{
    const uint32_t words = CLIP_LENGTH(uint32_t, struct clip_chunk_row);
    ptx_val row = ptx_mul_wide(b, k, ptx_u32(words));
    ptx_vec place = ptx_load_vec(b, tables->chunks, row, words);
    return (struct clip_chunk) { place.lane[0], place.lane[1], place.lane[2], place.lane[3] };
}

struct clip_tensor ptxk_clip_tensor_read(ptx_builder *b, const struct clip_tables *tables,
                                         ptx_val k)
{
    struct clip_tensor t;

    const ptx_val length = ptx_u32(CLIP_LENGTH(uint64_t, struct clip_tensor_row));
    ptx_ptr tensor = ptx_at(b, tables->tensors, ptx_mul_wide(b, k, length));
    const ptx_val data_at = ptx_u32(CLIP_PLACE(uint64_t, struct clip_tensor_row, data));
    const ptx_val weight_at = ptx_u32(CLIP_PLACE(uint64_t, struct clip_tensor_row, weight));
    ptx_vec extent = ptx_load_vec(b, tensor, data_at, 2);
    ptx_vec kind = ptx_load_vec(b, tensor, weight_at, 2);
    t.data = extent.lane[0];
    t.count = extent.lane[1];
    t.weight = ptx_bitcast(b, PTX_F64, kind.lane[0]);
    t.dtype = ptx_cvt(b, PTX_U32, kind.lane[1]);
    return t;
}

struct clip_extent ptxk_clip_extent_of(ptx_builder *b, ptx_val index, ptx_val count, uint32_t chunk)
{
    ptx_val first = ptx_mul_wide(b, index, ptx_u32(chunk));
    ptx_val left = ptx_min(b, ptx_sub(b, count, first), ptx_u64(chunk));
    return (struct clip_extent) { first, ptx_cvt(b, PTX_S32, left) };
}

void ptxk_clip_for_dtype(ptx_builder *b, const struct clip_spec *spec, ptx_val dtype,
                         void (*body)(ptx_builder *b, ptx_type dtype, void *user), void *user)
{
#define CLIP_BODY(name)                                                                            \
    if (spec->dtypes == PTX_TYPE_BIT(name)) {                                                      \
        body(b, PTX_##name, user);                                                                 \
    } else if (spec->dtypes & PTX_TYPE_BIT(name)) {                                                \
        ptx_comment(b, "tensors of " #name);                                                       \
        ptx_if (b, ptx_eq(b, dtype, ptx_u32(ptxk_clip_dtype_code(PTX_##name))))                    \
            body(b, PTX_##name, user);                                                             \
    }
    CLIP_DTYPES(CLIP_BODY)
#undef CLIP_BODY
}

static bool has_programmatic_launches(const ptx_builder *b)
{
    return ptx_builder_target(b).sm >= 90;
}

void ptxk_clip_let_next_start(ptx_builder *b)
{
    if (has_programmatic_launches(b))
        ptx_griddepcontrol_launch_dependents(b);
}

void ptxk_clip_wait_for_last(ptx_builder *b)
{
    if (has_programmatic_launches(b))
        ptx_griddepcontrol_wait(b);
}

ptx_vec ptxk_clip_scaled(ptx_builder *b, const struct clip_scaling *v, const ptx_vec *in)
{
    const ptx_type compute = (ptx_type)v->factor.type;
    ptx_vec out = *in;

    for (unsigned k = 0; k < in->lanes; k++) {
        ptx_val product = ptx_mul(b, ptx_cvt(b, compute, in->lane[k]), v->factor);
        if (v->zeros.kind != PTX_KIND_POISON)
            product = ptx_select(b, v->zeros, ptx_zero(compute), product);
        out.lane[k] = ptx_cvt(b, v->dtype, product);
    }
    return out;
}

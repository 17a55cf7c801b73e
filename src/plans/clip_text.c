// SPDX-License-Identifier: MIT
#include "clip_text.h"

void ptxk_clip_emit(ptx_builder *b, const struct clip_spec *spec)
{
#define CLIP_EMIT(name, blocks)                                                                    \
    ptx_entry (b, #name, .block = { CLIP_BLOCK }, .min_blocks = blocks)                            \
        ptxk_##name##_emit(b, spec);
    CLIP_KERNELS(CLIP_EMIT)
#undef CLIP_EMIT
}

uint32_t ptxk_clip_tile(const struct clip_spec *spec)
{
    if (spec->chunk <= CLIP_SHORT_CHUNK)
        return spec->chunk;
    if (spec->packs)
        return CLIP_TILE_PACKED;
    return spec->dtypes & (PTX_SET(F32) | PTX_SET(F64)) ? CLIP_TILE_WIDE : CLIP_TILE_HALF;
}

uint32_t ptxk_clip_tiles_of_chunk(const struct clip_spec *spec)
{
    return spec->chunk / ptxk_clip_tile(spec);
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
    ptx_val row = ptx_mul_wide(b, k, ptx_u32(4));
    ptx_vec place = ptx_load_vec(b, tables->chunks, row, 4);
    return (struct clip_chunk) { place.lane[0], place.lane[1], place.lane[2], place.lane[3] };
}

struct clip_tensor ptxk_clip_tensor_read(ptx_builder *b, const struct clip_tables *tables,
                                         ptx_val k)
{
    struct clip_tensor t;

    ptx_ptr tensor = ptx_at(b, tables->tensors, ptx_mul_wide(b, k, ptx_u32(4)));
    ptx_vec extent = ptx_load_vec(b, tensor, ptx_u32(0), 2);
    ptx_vec kind = ptx_load_vec(b, tensor, ptx_u32(2), 2);
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
    if (spec->dtypes == PTX_SET(name)) {                                                           \
        body(b, PTX_##name, user);                                                                 \
    } else if (spec->dtypes & PTX_SET(name)) {                                                     \
        ptx_comment(b, "tensors of " #name);                                                       \
        ptx_if (b, ptx_eq(b, dtype, ptx_u32(ptxp_clip_dtype_code(PTX_##name))))                    \
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

// ---- setting ------------------------------------------------------------------------------------

static ptx_val thread(ptx_builder *b)
{
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_tid(b, PTX_X);
    return ptx_mad(b, block, ptx_u32(CLIP_BLOCK), tid);
}

void ptxk_clip_set_max_norm_emit(ptx_builder *b, const struct clip_spec *spec)
{
    (void)spec;
    ptx_ptr records = ptx_param_ptr(b, PTX_F32, "records", .writeonly = true,
                                    .meaning = "rows of 4: factor, norm, found_inf, max_norm");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "records to set");
    ptx_val max_norm = ptx_param(b, PTX_F32, "max_norm", .range = PTX_NOT_NAN | PTX_NOT_NEGATIVE);
    ptx_val k = thread(b);
    ptx_if (b, ptx_lt(b, k, count)) {
        ptx_val row = ptx_mul_wide(b, k, ptx_u32(4));
        ptx_store(b, ptx_at(b, records, row), ptx_u32(3), max_norm);
    }
}

void ptxk_clip_set_loss_scale_emit(ptx_builder *b, const struct clip_spec *spec)
{
    (void)spec;
    ptx_ptr state = ptx_param_ptr(b, PTX_B32, "state", .writeonly = true, .length = "2",
                                  .meaning = "scale (f32), growth_tracker (s32)");
    ptx_val scale = ptx_param(b, PTX_F32, "scale", .range = PTX_FINITE | PTX_POSITIVE);
    ptx_val tracker = ptx_param(b, PTX_S32, "growth_tracker");
    ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(0))) {
        ptx_store(b, state, ptx_u32(0), ptx_bitcast(b, PTX_B32, scale));
        ptx_store(b, state, ptx_u32(1), ptx_bitcast(b, PTX_B32, tracker));
    }
}

void ptxk_clip_set_data_emit(ptx_builder *b, const struct clip_spec *spec)
{
    (void)spec;
    ptx_ptr tensors =
        ptx_param_ptr(b, PTX_U64, "tensors", .writeonly = true,
                      .meaning = "rows of 4, the first of which is the tensor's address");
    ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "rows to set");
    ptx_ptr data = ptx_param_array(b, PTX_U64, "data", CLIP_SET_DATA_BATCH);
    ptx_val k = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_lt(b, k, count)) {
        ptx_val address = ptx_load(b, data, k);
        ptx_val row = ptx_mul(b, k, ptx_u32(4));
        ptx_store(b, tensors, row, address);
    }
}

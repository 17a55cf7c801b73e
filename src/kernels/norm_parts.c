// SPDX-License-Identifier: MIT
#include "norm_parts.h"

const ptx_type ptxk_norm_dtypes[NORM_DTYPE_COUNT] = {
#define NORM_DTYPE(name) PTX_##name,
    NORM_DTYPES(NORM_DTYPE)
#undef NORM_DTYPE
};

unsigned ptxk_norm_dtype_code(ptx_type dtype)
{
    unsigned code = 0;

    while (code < NORM_DTYPE_COUNT && ptxk_norm_dtypes[code] != dtype)
        code++;
    return code;
}

ptx_ptr ptxk_norm_tensors_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                         .meaning = "rows of 4: data, count, weight (f64), type (u32)");
}

struct norm_tables ptxk_norm_tables_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct norm_tables tables = { .tensors = ptxk_norm_tensors_param(b) };

    tables.chunks = ptx_param_ptr(b, PTX_U32, "chunks", .readonly = true,
                                  .meaning = "rows of 4: tensor, place in it, group");
    if (spec->packs)
        tables.pieces = ptx_param_ptr(b, PTX_U32, "pieces", .readonly = true,
                                      .meaning = "tensors; chunks may be first piece, pieces, "
                                                 "group, log2 of a team's threads");
    return tables;
}

struct norm_chunk ptxk_norm_chunk_read(ptx_builder *b, const struct norm_tables *tables, ptx_val k)
{
    const uint32_t words = NORM_LENGTH(uint32_t, struct norm_chunk_row);
    ptx_val row = ptx_mul_wide(b, k, words);
    ptx_vec place = ptx_load_vec(b, tables->chunks, row, words);
    return (struct norm_chunk) { place.lane[0], place.lane[1], place.lane[2], place.lane[3] };
}

struct norm_tensor ptxk_norm_tensor_read(ptx_builder *b, const struct norm_tables *tables,
                                         ptx_val k)
{
    struct norm_tensor t;

    const uint32_t length = NORM_LENGTH(uint64_t, struct norm_tensor_row);
    ptx_ptr tensor = ptx_at(b, tables->tensors, ptx_mul_wide(b, k, length));
    const uint32_t data_at = NORM_PLACE(uint64_t, struct norm_tensor_row, data);
    const uint32_t weight_at = NORM_PLACE(uint64_t, struct norm_tensor_row, weight);
    ptx_vec extent = ptx_load_vec(b, tensor, data_at, 2);
    ptx_vec kind = ptx_load_vec(b, tensor, weight_at, 2);
    t.data = extent.lane[0];
    t.count = extent.lane[1];
    t.weight = ptx_bitcast(b, PTX_F64, kind.lane[0]);
    t.dtype = ptx_cvt(b, PTX_U32, kind.lane[1]);
    return t;
}

ptx_val ptxk_norm_weighted(ptx_builder *b, const struct norm_spec *spec, ptx_val sum,
                           ptx_val weight)
{
    ptx_val weighted = ptx_mul(b, sum, weight);

    if (!spec->leaves_out)
        return weighted;
    ptx_val is_nan = ptx_is_nan(b, weighted);

    return ptx_select(b, is_nan, sum, weighted);
}

struct norm_extent ptxk_norm_extent_of(ptx_builder *b, ptx_val index, ptx_val count, uint32_t chunk)
{
    ptx_val first = ptx_mul_wide(b, index, chunk);
    ptx_val left = ptx_min(b, ptx_sub(b, count, first), chunk);
    return (struct norm_extent) { first, ptx_cvt(b, PTX_S32, left) };
}

void ptxk_norm_for_dtype(ptx_builder *b, const struct norm_spec *spec, ptx_val dtype,
                         void (*body)(ptx_builder *b, ptx_type dtype, void *user), void *user)
{
#define NORM_BODY(name)                                                                            \
    if (spec->dtypes == PTX_TYPE_BIT(name)) {                                                      \
        body(b, PTX_##name, user);                                                                 \
    } else if (spec->dtypes & PTX_TYPE_BIT(name)) {                                                \
        ptx_comment(b, "tensors of " #name);                                                       \
        ptx_if (b, ptx_eq(b, dtype, ptxk_norm_dtype_code(PTX_##name)))                             \
            body(b, PTX_##name, user);                                                             \
    }
    NORM_DTYPES(NORM_BODY)
#undef NORM_BODY
}

static bool has_programmatic_launches(const ptx_builder *b)
{
    return ptx_builder_target(b).sm >= 90;
}

void ptxk_norm_let_next_start(ptx_builder *b)
{
    if (has_programmatic_launches(b))
        ptx_griddepcontrol_launch_dependents(b);
}

void ptxk_norm_wait_for_last(ptx_builder *b)
{
    if (has_programmatic_launches(b))
        ptx_griddepcontrol_wait(b);
}

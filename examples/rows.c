// SPDX-License-Identifier: MIT
#include "rows.h"

struct row_shape row_shape(ptx_type type, uint32_t columns)
{
    return row_shape_with(type, columns, ROW_MAX_ELEMENTS);
}

struct row_shape row_shape_with(ptx_type type, uint32_t columns, unsigned elements)
{
    struct row_shape s = { .type = type, .columns = columns, .threads = ROW_WARP };

    s.lanes = 16 / ptx_type_bytes(type);
    while (s.threads < ROW_MAX_THREADS && s.threads * elements < columns)
        s.threads *= 2;
    const unsigned once = s.threads * s.lanes;
    s.elements = (columns + once - 1) / once * s.lanes;
    s.together = s.threads == ROW_WARP ? ROW_BLOCK / ROW_WARP : 1;
    s.block = s.threads * s.together;
    return s;
}

bool row_check(ptx_builder *b, struct row_shape s)
{
    const bool right = s.columns % s.lanes == 0 && s.elements <= ROW_MAX_ELEMENTS;

    if (s.columns % s.lanes)
        ptx_builder_fail(b, "%u columns of %s; they must be a multiple of %u", s.columns,
                         ptx_type_name(s.type), s.lanes);
    else if (s.elements > ROW_MAX_ELEMENTS)
        ptx_builder_fail(b, "%u columns; a row has at most %u", s.columns,
                         (unsigned)(ROW_MAX_THREADS * ROW_MAX_ELEMENTS));
    return right;
}

ptx_val row_first(ptx_builder *b, struct row_shape s)
{
    ptx_val block = ptx_ctaid(b, PTX_X);

    if (s.together == 1)
        return block;
    return ptx_mad(b, block, s.together, ptx_div(b, ptx_tid(b, PTX_X), s.threads));
}

ptx_ptr row_at(ptx_builder *b, struct row_shape s, ptx_ptr matrix, ptx_val row)
{
    return ptx_at(b, matrix, ptx_mul_wide(b, row, s.columns));
}

void vector_load(ptx_builder *b, ptx_ptr p, ptx_val i, unsigned lanes, ptx_val *x)
{
    ptx_vec v = ptx_load_vec(b, p, i, lanes);

    for (unsigned k = 0; k < lanes; k++)
        x[k] = ptx_cvt(b, PTX_F32, v.lane[k]);
}

void vector_store(ptx_builder *b, ptx_ptr p, ptx_val i, unsigned lanes, const ptx_val *x)
{
    ptx_ptr at = ptx_at(b, p, i);

    if (p.type == PTX_BF16) {
        ptx_val pair[4] = { { 0 } };
        for (unsigned k = 0; k < 4; k++)
            pair[k] = ptx_cvt_pack(b, PTX_BF16X2, x[2 * k], x[2 * k + 1]);
        ptx_store_vec(b, ptx_ptr_cast(b, PTX_BF16X2, at), 0,
                      ptx_vec4(pair[0], pair[1], pair[2], pair[3]));
        return;
    }
    for (unsigned k = 0; k < lanes; k += 4)
        ptx_store_vec(b, at, k, ptx_vec4(x[k], x[k + 1], x[k + 2], x[k + 3]));
}

// Elements that every thread of the row has.
static unsigned whole(struct row_shape s)
{
    return s.columns / (s.threads * s.lanes) * s.lanes;
}

// This thread among those of its row.
static ptx_val thread_of(ptx_builder *b, struct row_shape s)
{
    ptx_val thread = ptx_tid(b, PTX_X);

    return s.together > 1 ? ptx_rem(b, thread, s.threads) : thread;
}

// The column of this thread's element k, the first of a vector.
static ptx_val column_of(ptx_builder *b, struct row_shape s, unsigned k)
{
    return ptx_mad(b, thread_of(b, s), s.lanes, k * s.threads);
}

void row_load(ptx_builder *b, struct row_shape s, ptx_ptr row, ptx_val missing, ptx_val *x)
{
    unsigned k = 0;

    for (; k < whole(s); k += s.lanes)
        vector_load(b, row, column_of(b, s, k), s.lanes, &x[k]);
    if (k == s.elements)
        return;
    ptx_val column = column_of(b, s, k), loaded[8];
    for (unsigned i = 0; i < s.lanes; i++)
        x[k + i] = ptx_var(b, missing);
    ptx_if (b, ptx_lt(b, column, s.columns)) {
        vector_load(b, row, column, s.lanes, loaded);
        for (unsigned i = 0; i < s.lanes; i++)
            ptx_set(b, x[k + i], loaded[i]);
    }
}

void row_copy(ptx_builder *b, struct row_shape s, ptx_ptr row, ptx_ptr to)
{
    for (unsigned k = 0; k < s.elements; k += s.lanes) {
        ptx_val column = column_of(b, s, k);
        if (k < whole(s))
            ptx_cp_async(b, ptx_at(b, to, column), ptx_at(b, row, column), 16, .bypass = true);
        else
            ptx_if (b, ptx_lt(b, column, s.columns))
                ptx_cp_async(b, ptx_at(b, to, column), ptx_at(b, row, column), 16, .bypass = true);
    }
}

void row_clear(ptx_builder *b, struct row_shape s, ptx_val *x)
{
    const unsigned first = whole(s);

    if (first == s.elements)
        return;
    ptx_val inside = ptx_lt(b, column_of(b, s, first), s.columns);
    for (unsigned k = first; k < s.elements; k++)
        x[k] = ptx_select(b, inside, x[k], ptx_f32(0));
}

void row_store(ptx_builder *b, struct row_shape s, ptx_ptr row, const ptx_val *x)
{
    unsigned k = 0;

    for (; k < whole(s); k += s.lanes)
        vector_store(b, row, column_of(b, s, k), s.lanes, &x[k]);
    if (k == s.elements)
        return;
    ptx_val column = column_of(b, s, k);
    ptx_if (b, ptx_lt(b, column, s.columns))
        vector_store(b, row, column, s.lanes, &x[k]);
}

ptx_val row_fold(ptx_builder *b, struct row_shape s, row_operation *op, const ptx_val *x)
{
    ptx_val part[ROW_MAX_ELEMENTS];
    unsigned count = s.elements;

    for (unsigned k = 0; k < count; k++)
        part[k] = x[k];
    for (; count > 1; count = (count + 1) / 2)
        for (unsigned k = 0; k < count / 2; k++)
            part[k] = op(b, part[k], part[count - 1 - k]);
    return part[0];
}

static ptx_val warp_reduce(ptx_builder *b, row_operation *op, ptx_val x, unsigned lanes)
{
    for (unsigned mask = lanes / 2; mask > 0; mask /= 2)
        x = op(b, x, ptx_shfl_bfly(b, x, mask));
    return x;
}

ptx_val row_reduce(ptx_builder *b, struct row_shape s, row_operation *op, ptx_val x)
{
    const unsigned warps = s.threads / ROW_WARP;

    x = warp_reduce(b, op, x, ROW_WARP);
    if (warps == 1)
        return x;
    ptx_ptr parts = ptx_shared(b, PTX_F32, warps);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_if (b, ptx_eq(b, ptx_laneid(b), 0))
        ptx_store(b, parts, ptx_div(b, tid, ROW_WARP), x);
    ptx_barrier(b);
    return warp_reduce(b, op, ptx_load(b, parts, ptx_rem(b, tid, warps)), warps);
}

void row_reduce_pair(ptx_builder *b, struct row_shape s, row_operation *op, ptx_val x[2])
{
    const unsigned warps = s.threads / ROW_WARP;

    for (unsigned k = 0; k < 2; k++)
        x[k] = warp_reduce(b, op, x[k], ROW_WARP);
    if (warps == 1)
        return;
    ptx_ptr parts = ptx_shared(b, PTX_F32, 2 * warps);
    ptx_val tid = ptx_tid(b, PTX_X), warp = ptx_div(b, tid, ROW_WARP);
    ptx_barrier(b); // all have read the parts of the turn before
    ptx_if (b, ptx_eq(b, ptx_laneid(b), 0))
        ptx_store_vec(b, parts, ptx_mul(b, warp, 2), ptx_vec2(x[0], x[1]));
    ptx_barrier(b);
    ptx_vec part = ptx_load_vec(b, parts, ptx_mul(b, ptx_rem(b, tid, warps), 2), 2);
    for (unsigned k = 0; k < 2; k++)
        x[k] = warp_reduce(b, op, part.lane[k], warps);
}

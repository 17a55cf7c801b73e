// SPDX-License-Identifier: MIT
#include "kernels.h"

#include <math.h>
#include <stddef.h>

enum {
    STEP = offsetof(struct train_progress, step) / 4,
    NORM = offsetof(struct ptx_clip_record, norm) / 4,
    FOUND_INF = offsetof(struct ptx_clip_summary, found_inf) / 4,
    LOSS_SCALE = offsetof(struct ptx_clip_summary, loss_scale) / 4,
    NEXT_LOSS_SCALE = offsetof(struct ptx_clip_summary, state.scale) / 4,
};

static ptx_val warp_sum(ptx_builder *b, ptx_val x)
{
    for (unsigned mask = 16; mask > 0; mask /= 2)
        x = ptx_add(b, x, ptx_shfl_bfly(b, x, ptx_u32(mask)));
    return x;
}

static void take_batch(ptx_builder *b)
{
    ptx_entry (b, "take_batch", .block = { TRAIN_BLOCK }) {
        ptx_ptr progress = ptx_param_ptr(b, PTX_U32, "progress", .length = "2", .readonly = true);
        ptx_ptr data = ptx_param_ptr(b, PTX_F32, "data", .readonly = true,
                                     .meaning = "batches one after the other");
        ptx_val batches = ptx_param(b, PTX_U32, "batches");
        ptx_ptr batch = ptx_param_ptr(b, PTX_F32, "batch", .length = "n");
        ptx_val n = ptx_param(b, PTX_U32, "n");

        ptx_val i = ptx_global_index(b, PTX_X);
        ptx_if (b, ptx_lt(b, i, n)) {
            ptx_val step = ptx_load(b, progress, ptx_u32(STEP));
            ptx_ptr from = ptx_at(b, data, ptx_mul_wide(b, ptx_rem(b, step, batches), n));
            ptx_store(b, batch, i, ptx_load(b, from, i));
        }
    }
}

// What a product does with its sums.
struct ending {
    const char *entry;
    ptx_type dtype; // of the result
    bool add;       // to the contents of `out`
    bool relu;
    bool where; // only where a second matrix is positive
};

static void product(ptx_builder *b, struct ending ending)
{
    ptx_entry (b, ending.entry, .block = { TRAIN_BLOCK }) {
        ptx_ptr left = ptx_param_ptr(b, PTX_F32, "a", .readonly = true);
        ptx_val a_row = ptx_param(b, PTX_U32, "a_row", .meaning = "elements from row to row");
        ptx_val a_column = ptx_param(b, PTX_U32, "a_column");
        ptx_ptr right = ptx_param_ptr(b, PTX_F32, "b", .readonly = true);
        ptx_val b_row = ptx_param(b, PTX_U32, "b_row");
        ptx_val b_column = ptx_param(b, PTX_U32, "b_column");
        ptx_ptr out = ptx_param_ptr(b, ending.dtype, "out", .meaning = "row after row");
        ptx_val rows = ptx_param(b, PTX_U32, "rows");
        ptx_val columns = ptx_param(b, PTX_U32, "columns");
        ptx_val depth = ptx_param(b, PTX_U32, "depth");
        ptx_ptr where = { 0 };
        if (ending.where)
            where = ptx_param_ptr(b, PTX_F32, "where", .readonly = true);

        ptx_val element = ptx_shr(b, ptx_global_index(b, PTX_X), ptx_u32(5));
        ptx_return_if(b, ptx_ge(b, element, ptx_mul(b, rows, columns)));
        ptx_val row = ptx_div(b, element, columns);
        ptx_val column = ptx_rem(b, element, columns);
        ptx_ptr a = ptx_at(b, left, ptx_mul_wide(b, row, a_row));
        ptx_ptr c = ptx_at(b, right, ptx_mul_wide(b, column, b_column));
        ptx_val lane = ptx_laneid(b);

        ptx_val sum = ptx_var(b, ptx_f32(0));
        ptx_for (b, k, lane, depth, ptx_u32(32)) {
            ptx_val x = ptx_load(b, a, ptx_mul(b, k, a_column));
            ptx_val y = ptx_load(b, c, ptx_mul(b, k, b_row));
            ptx_set(b, sum, ptx_fma(b, x, y, sum));
        }
        ptx_val result = warp_sum(b, sum);

        ptx_if (b, ptx_eq(b, lane, ptx_u32(0))) {
            if (ending.add)
                result = ptx_add(b, ptx_load(b, out, element), result);
            if (ending.relu)
                result = ptx_max_nan(b, result, ptx_f32(0));
            if (ending.where) {
                ptx_val positive = ptx_gt(b, ptx_load(b, where, element), ptx_f32(0));
                result = ptx_select(b, positive, result, ptx_f32(0));
            }
            ptx_store(b, out, element, ptx_cvt(b, ending.dtype, result));
        }
    }
}

// One block. The gradient of step `spoilt` is set to infinity, to show how it is handled.
static void loss(ptx_builder *b)
{
    ptx_entry (b, "loss", .block = { TRAIN_BLOCK }) {
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .length = "n", .readonly = true);
        ptx_ptr target = ptx_param_ptr(b, PTX_F32, "target", .length = "n", .readonly = true);
        ptx_ptr d_y = ptx_param_ptr(b, PTX_F32, "d_y", .length = "n");
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr summary =
            ptx_param_ptr(b, PTX_F32, "summary", .readonly = true, .meaning = "of the step plan");
        ptx_ptr progress = ptx_param_ptr(b, PTX_U32, "progress", .length = "2", .readonly = true);
        ptx_val spoilt = ptx_param(b, PTX_U32, "spoilt", .meaning = "number of a step");
        ptx_ptr history = ptx_param_ptr(b, PTX_F32, "history", .meaning = "four values a step");
        ptx_ptr warps = ptx_shared(b, PTX_F32, TRAIN_WARPS);

        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_val step = ptx_load(b, progress, ptx_u32(STEP));
        ptx_val count = ptx_cvt(b, PTX_F32, n);
        ptx_val scale = ptx_load(b, summary, ptx_u32(NEXT_LOSS_SCALE));
        scale = ptx_select(b, ptx_eq(b, step, spoilt), ptx_f32(INFINITY), scale);
        ptx_val slope = ptx_mul(b, ptx_div(b, ptx_f32(2), count), scale);

        ptx_val sum = ptx_var(b, ptx_f32(0));
        ptx_for (b, i, tid, n, ptx_u32(TRAIN_BLOCK)) {
            ptx_val result = ptx_load(b, y, i);
            ptx_val error = ptx_sub(b, result, ptx_load(b, target, i));
            ptx_store(b, d_y, i, ptx_mul(b, error, slope));
            ptx_set(b, sum, ptx_fma(b, error, error, sum));
        }
        ptx_val total = warp_sum(b, sum);
        ptx_store(b, warps, ptx_shr(b, tid, ptx_u32(5)), total);
        ptx_barrier(b);
        ptx_if (b, ptx_eq(b, tid, ptx_u32(0))) {
            total = ptx_load(b, warps, ptx_u32(0));
            for (unsigned k = 1; k < TRAIN_WARPS; k++)
                total = ptx_add(b, total, ptx_load(b, warps, ptx_u32(k)));
            ptx_ptr line = ptx_at(b, history, ptx_mul(b, step, ptx_u32(4)));
            ptx_store(b, line, ptx_u32(0), ptx_div(b, total, count));
        }
    }
}

// One thread.
static void advance(ptx_builder *b)
{
    ptx_entry (b, "advance", .block = { 1 }) {
        ptx_ptr record = ptx_param_ptr(b, PTX_F32, "record", .length = "4", .readonly = true,
                                       .meaning = "of the step plan");
        ptx_ptr summary = ptx_param_ptr(b, PTX_F32, "summary", .length = "4", .readonly = true,
                                        .meaning = "of the step plan");
        ptx_ptr progress = ptx_param_ptr(b, PTX_U32, "progress", .length = "2");
        ptx_ptr history = ptx_param_ptr(b, PTX_F32, "history", .meaning = "four values a step");

        ptx_val step = ptx_load(b, progress, ptx_u32(STEP));
        ptx_ptr line = ptx_at(b, history, ptx_mul(b, step, ptx_u32(4)));
        ptx_store(b, line, ptx_u32(1), ptx_load(b, record, ptx_u32(NORM)));
        ptx_store(b, line, ptx_u32(2), ptx_load(b, summary, ptx_u32(LOSS_SCALE)));
        ptx_store(b, line, ptx_u32(3), ptx_load(b, summary, ptx_u32(FOUND_INF)));
        ptx_store(b, progress, ptx_u32(STEP), ptx_add(b, step, ptx_u32(1)));
    }
}

void train_emit(ptx_builder *b)
{
    static const struct ending endings[] = {
        { "product", PTX_F32 },
        { "product_add", PTX_F32, .add = true },
        { "product_add_relu", PTX_F32, .add = true, .relu = true },
        { "product_add_where", PTX_F32, .add = true, .where = true },
        { "product_f16", PTX_F16 },
    };
    take_batch(b);
    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
        product(b, endings[k]);
    loss(b);
    advance(b);
}

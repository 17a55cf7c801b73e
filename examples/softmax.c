// SPDX-License-Identifier: MIT
// Softmax of each row of a matrix in place, one block per row: exp(x - max) / sum of exp(x - max).
#include "host.h"

#include <math.h>

enum { BLOCK = 256, WARP = 32, WARPS = BLOCK / WARP, ROWS = 50, COLUMNS = 1000 };

typedef ptx_val operation(ptx_builder *b, ptx_val x, ptx_val y);

static ptx_val warp_reduce(ptx_builder *b, operation *op, ptx_val x, unsigned lanes)
{
    for (unsigned mask = lanes / 2; mask > 0; mask /= 2)
        x = op(b, x, ptx_shfl_bfly(b, x, ptx_u32(mask)));
    return x;
}

// Reduces x over the block with op; every thread gets the result.
static ptx_val block_reduce(ptx_builder *b, operation *op, ptx_val x)
{
    ptx_ptr warps = ptx_shared(b, PTX_F32, WARPS);
    ptx_val tid = ptx_tid(b, PTX_X);

    x = warp_reduce(b, op, x, WARP);
    ptx_if (b, ptx_eq(b, ptx_laneid(b), ptx_u32(0)))
        ptx_store(b, warps, ptx_shr(b, tid, ptx_u32(5)), x);
    ptx_barrier(b);
    x = ptx_load(b, warps, ptx_and(b, tid, ptx_u32(WARPS - 1)));
    return warp_reduce(b, op, x, WARPS);
}

static void build(ptx_builder *b)
{
    ptx_entry (b, "softmax", .block = { BLOCK }) {
        ptx_ptr rows = ptx_param_ptr(b, PTX_F32, "rows", .meaning = "one after the other");
        ptx_val columns = ptx_param(b, PTX_U32, "columns");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_ptr x = ptx_at(b, rows, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), columns));

        ptx_val max = ptx_var(b, ptx_f32(-INFINITY));
        ptx_for (b, i, tid, columns, ptx_u32(BLOCK))
            ptx_set(b, max, ptx_max(b, max, ptx_load(b, x, i)));
        max = block_reduce(b, ptx_max, max);

        ptx_val sum = ptx_var(b, ptx_f32(0));
        ptx_for (b, i, tid, columns, ptx_u32(BLOCK)) {
            ptx_val below = ptx_sub(b, ptx_load(b, x, i), max);
            ptx_val power = ptx_ex2(b, ptx_mul(b, below, ptx_f32(1.44269504f))); // log2(e)
            ptx_store(b, x, i, power);
            ptx_set(b, sum, ptx_add(b, sum, power));
        }
        sum = block_reduce(b, ptx_add, sum);

        ptx_for (b, i, tid, columns, ptx_u32(BLOCK))
            ptx_store(b, x, i, ptx_div(b, ptx_load(b, x, i), sum));
    }
}

static bool run(struct host *host)
{
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    uint32_t columns = COLUMNS;

    host_random_floats(x, ROWS * COLUMNS, -8, 8);
    CUdeviceptr rows = host_upload(host, x, sizeof x);
    host_launch(host, ROWS, (struct ptx_arg[]) { PTX_ARG(rows), PTX_ARG(columns) }, 2);
    bool right = host_download(host, rows, y, sizeof y);

    for (unsigned start = 0; start < ROWS * COLUMNS; start += COLUMNS) {
        double sum = 0;
        for (unsigned i = start; i < start + COLUMNS; i++)
            sum += exp(x[i]);
        for (unsigned i = start; i < start + COLUMNS; i++)
            right = right && fabs(y[i] * sum / exp(x[i]) - 1) < 1e-5;
    }
    return right;
}

const struct example example = { "softmax", build, run };

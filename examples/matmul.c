// SPDX-License-Identifier: MIT
// C = A B, matrices of bf16 stored row after row, added up in f32 on tensor cores. Copies into
// shared memory run STAGES - 1 stages ahead of the products, and loads into registers a step of 16.
#include "host.h"

#include <math.h>

enum {
    TILE_M = 128, // rows and columns of C that a block computes, and the depth of a stage
    TILE_N = 256,
    TILE_K = 64,
    STAGES = 3,
    GROUP = 8, // rows of tiles that blocks with neighbouring numbers share, for the L2 cache
    PART = 64, // rows and columns that a warp computes
    PIECE = 8, // elements that a thread copies at a time: 16 bytes
    // Rows in shared memory are a piece longer, so that 8 pieces of a column are in all banks.
    A_STRIDE = TILE_K + PIECE,
    B_STRIDE = TILE_N + PIECE,
    A_ELEMENTS = TILE_M * A_STRIDE,
    STAGE = A_ELEMENTS + TILE_K * B_STRIDE, // elements
};
enum { DOWN = PART / 16, ACROSS = PART / 8, STEPS = TILE_K / 16 }; // fragments of a warp
enum { THREADS = 32 * (TILE_M / PART) * (TILE_N / PART), SHARED_BYTES = STAGES * STAGE * 2 };

struct operand {
    ptx_ptr from;   // this thread's first piece of the block's rows or columns
    ptx_val stride; // elements from row to row
    ptx_val to;     // the piece in shared memory
    unsigned rows, columns;
};

// The copies of a tile of rows x columns elements by the threads of the block.
static struct operand operand(ptx_builder *b, ptx_ptr from, ptx_val stride, unsigned rows,
                              unsigned columns)
{
    ptx_val tid = ptx_tid(b, PTX_X), row = ptx_div(b, tid, columns / PIECE);
    ptx_val column = ptx_mul(b, ptx_rem(b, tid, columns / PIECE), PIECE);
    ptx_ptr first = ptx_at(b, ptx_at(b, from, ptx_mul_wide(b, row, stride)), column);
    ptx_val to = ptx_mad(b, row, columns + PIECE, column);

    return (struct operand) { first, stride, to, rows, columns };
}

// Begins to copy a tile; `at` is where it begins in the matrix, in elements.
static void copy(ptx_builder *b, struct operand m, ptx_val at, ptx_ptr to)
{
    const unsigned step = THREADS / (m.columns / PIECE);
    ptx_ptr from = ptx_at(b, m.from, at);

    to = ptx_at(b, to, m.to);
    for (unsigned row = 0; row < m.rows; row += step) {
        ptx_cp_async(b, ptx_at(b, to, row * (m.columns + PIECE)), from, 16, .bypass = true);
        from = ptx_at(b, from, ptx_mul(b, m.stride, step));
    }
}

// Begins to copy a stage if there is one, and makes a group of the copies.
static void copy_stage(ptx_builder *b, const struct operand m[2], ptx_val k, ptx_val depth,
                       ptx_ptr stage)
{
    ptx_if (b, ptx_lt(b, k, depth)) {
        copy(b, m[0], k, stage);
        copy(b, m[1], ptx_mul_wide(b, k, m[1].stride), ptx_at(b, stage, A_ELEMENTS));
    }
    ptx_cp_async_commit(b);
}

// The block's tile, counted in tiles: column after column of a group of rows.
static void find_tile(ptx_builder *b, ptx_val rows, ptx_val columns, ptx_val *row, ptx_val *column)
{
    ptx_val group_size = ptx_mul(b, ptx_div(b, columns, TILE_N), GROUP);
    ptx_val block = ptx_ctaid(b, PTX_X), in_group = ptx_rem(b, block, group_size);
    ptx_val first = ptx_mul(b, ptx_div(b, block, group_size), GROUP);
    ptx_val height = ptx_min(b, ptx_sub(b, ptx_div(b, rows, TILE_M), first), GROUP);

    *row = ptx_add(b, first, ptx_rem(b, in_group, height));
    *column = ptx_div(b, in_group, height);
}

// What a warp multiplies in a step: DOWN fragments of A, then ACROSS of B. Variables, because they
// are loaded before the step; `first`: it makes them.
static void load(ptx_builder *b, ptx_matrix x, ptx_matrix y, unsigned k, bool first,
                 ptx_fragment *part)
{
    ptx_fragment loaded[DOWN + ACROSS];

    ptx_matrix_load(b, x, 0, k, DOWN, loaded);
    ptx_matrix_load(b, y, k, 0, ACROSS, loaded + DOWN);
    for (unsigned f = 0; f < DOWN + ACROSS; f++)
        if (first)
            part[f] = ptx_fragment_var(b, loaded[f]);
        else
            ptx_fragment_set(b, part[f], loaded[f]);
}

static void multiply(ptx_builder *b, const ptx_fragment *part, ptx_fragment *sums)
{
    for (unsigned k = 0; k < DOWN * ACROSS; k++) {
        const unsigned m = k / ACROSS, n = m % 2 ? ACROSS - 1 - k % ACROSS : k % ACROSS;
        ptx_fragment *sum = &sums[m * ACROSS + n];
        ptx_fragment_set(b, *sum, ptx_mma(b, part[m], part[DOWN + n], *sum));
    }
}

static void build(ptx_builder *b)
{
    const uint32_t *size = example.sizes;
    ptx_fragment sums[DOWN * ACROSS], part[2][DOWN + ACROSS];

    if (size[0] % TILE_M || size[1] % TILE_N || size[2] % TILE_K)
        ptx_builder_fail(b, "the sizes must be multiples of %d, %d and %d", TILE_M, TILE_N, TILE_K);
    ptx_entry (b, "matmul", .block = { THREADS }) {
        ptx_ptr left = ptx_param_ptr(b, PTX_BF16, "left", .readonly = true);
        ptx_ptr right = ptx_param_ptr(b, PTX_BF16, "right", .readonly = true);
        ptx_ptr product = ptx_param_ptr(b, PTX_BF16, "product", .writeonly = true);
        ptx_val rows = ptx_param(b, PTX_U32, "rows", .meaning = "a multiple of 128");
        ptx_val columns = ptx_param(b, PTX_U32, "columns", .meaning = "a multiple of 256");
        ptx_val depth = ptx_param(b, PTX_U32, "depth", .meaning = "a multiple of 64");
        ptx_ptr shared = ptx_shared_dynamic(b, PTX_BF16);
        ptx_val warp = ptx_shr(b, ptx_tid(b, PTX_X), 5), row, column;

        find_tile(b, rows, columns, &row, &column);
        row = ptx_mul(b, row, TILE_M), column = ptx_mul(b, column, TILE_N);
        left = ptx_at(b, left, ptx_mul_wide(b, row, depth));
        struct operand from[2] = { operand(b, left, depth, TILE_M, TILE_K) };
        from[1] = operand(b, ptx_at(b, right, column), columns, TILE_K, TILE_N);
        for (unsigned k = 0; k < STAGES - 1; k++)
            copy_stage(b, from, ptx_u32(k * TILE_K), depth, ptx_at(b, shared, k * STAGE));
        ptx_val warp_row = ptx_mul(b, ptx_div(b, warp, TILE_N / PART), PART);
        ptx_val warp_column = ptx_mul(b, ptx_rem(b, warp, TILE_N / PART), PART);
        ptx_ptr first = ptx_at(b, shared, ptx_mul(b, warp_row, A_STRIDE));
        ptx_matrix x = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, first, A_STRIDE);
        first = ptx_at(b, ptx_at(b, shared, A_ELEMENTS), warp_column);
        ptx_matrix y =
            ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, first, B_STRIDE, .trans = true);
        for (unsigned k = 0; k < DOWN * ACROSS; k++)
            sums[k] = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));

        ptx_val stage = ptx_var(b, ptx_u32(0)), next = ptx_var(b, ptx_u32((STAGES - 1) * STAGE));
        ptx_cp_async_wait(b, STAGES - 2); // this thread's part of the stage is there
        ptx_barrier(b);                   // all of it is, and all have read the one that is filled
        load(b, x, y, 0, true, part[0]);
        ptx_for (b, k, 0, depth, TILE_K) {
            for (unsigned step = 0; step < STEPS; step++) {
                if (step == STEPS - 1) { // loads from the next stage
                    ptx_cp_async_wait(b, STAGES - 2);
                    ptx_barrier(b);
                    ptx_set(b, next, stage);
                    ptx_val last = ptx_eq(b, stage, (STAGES - 1) * STAGE);
                    ptx_set(b, stage, ptx_select(b, last, ptx_u32(0), ptx_add(b, stage, STAGE)));
                }
                load(b, ptx_matrix_at(b, x, stage), ptx_matrix_at(b, y, stage),
                     (step + 1) % STEPS * 16, step == 0, part[(step + 1) % 2]);
                if (step == 0)
                    copy_stage(b, from, ptx_add(b, k, (STAGES - 1) * TILE_K), depth,
                               ptx_at(b, shared, next));
                multiply(b, part[step % 2], sums);
            }
        }
        ptx_val at = ptx_mul_wide(b, ptx_add(b, row, warp_row), columns);
        ptx_ptr to = ptx_at(b, ptx_at(b, product, at), ptx_add(b, column, warp_column));
        ptx_matrix result = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, to, columns);
        for (unsigned m = 0; m < DOWN; m++) // rounds to bf16
            ptx_matrix_store(b, result, 16 * m, 0, ACROSS, &sums[m * ACROSS]);
    }
}

static bool run(struct host *host)
{
    const uint32_t rows = example.sizes[0], columns = example.sizes[1], depth = example.sizes[2];
    const size_t count = (size_t)rows * columns;
    float *x = host_random_array(host, (size_t)rows * depth, -1, 1);
    float *y = host_random_array(host, (size_t)depth * columns, -1, 1);
    float *result = host_random_array(host, count, 0, 0);
    CUdeviceptr gpu_x = host_upload_floats(host, PTX_BF16, x, (size_t)rows * depth);
    CUdeviceptr gpu_y = host_upload_floats(host, PTX_BF16, y, (size_t)depth * columns);
    CUdeviceptr to = host_zeros(host, count * 2);
    const struct ptx_arg args[] = { PTX_ARG(gpu_x), PTX_ARG(gpu_y),   PTX_ARG(to),
                                    PTX_ARG(rows),  PTX_ARG(columns), PTX_ARG(depth) };

    host_launch(host, "matmul",
                &(struct ptx_launch_params) { .grid = { rows / TILE_M * (columns / TILE_N) },
                                              .shared_bytes = SHARED_BYTES,
                                              .args = args,
                                              .arg_count = 6 });
    bool right = host_download_floats(host, PTX_BF16, to, result, count);
    for (size_t at = 0; right && at < count; at++) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < depth; k++) {
            const double term = (double)x[at / columns * depth + k] * y[k * columns + at % columns];
            sum += term, size += fabs(term);
        }
        right = fabs(result[at] - sum) <= 0x1p-8 * fabs(sum) + 0x1p-20 * size;
    }
    return right;
}

struct example example = { "matmul",          build,   run, { "ROWS", "COLUMNS", "DEPTH" },
                           { 256, 256, 320 }, PTX_NONE };

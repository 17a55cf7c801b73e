// SPDX-License-Identifier: MIT
// Softmax of each row of a matrix: exp(x - max) / sum of exp(x - max). A warp or a block has a row
// in registers, so memory is read once and written once.
#include "host.h"
#include "rows.h"

#include <math.h>

// The pages show the lines between here and the end mark.
static void build(ptx_builder *b)
{
    const struct row_shape s = row_shape(example.type, example.sizes[1]);
    ptx_val x[ROW_MAX_ELEMENTS];

    if (!row_check(b, s))
        return;
    ptx_entry (b, "softmax", .block = { s.block }) {
        ptx_ptr in = ptx_param_ptr(b, s.type, "x", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, s.type, "y", .writeonly = true, .meaning = "may be x");
        ptx_val rows = ptx_param(b, PTX_U32, "rows");
        ptx_val row = row_first(b, s);
        ptx_return_if(b, ptx_ge(b, row, rows));

        row_load(b, s, row_at(b, s, in, row), ptx_f32(-INFINITY), x);
        ptx_val max = row_reduce(b, s, ptx_max, row_fold(b, s, ptx_max, x));
        for (unsigned k = 0; k < s.elements; k++) {
            ptx_val below = ptx_sub(b, x[k], max);
            x[k] = ptx_ex2(b, ptx_mul(b, below, 1.44269504)); // log2(e)
        }
        ptx_val sum = row_reduce(b, s, ptx_add, row_fold(b, s, ptx_add, x));
        ptx_val scale = ptx_rcp(b, sum);
        for (unsigned k = 0; k < s.elements; k++)
            x[k] = ptx_mul(b, x[k], scale);
        row_store(b, s, row_at(b, s, out, row), x);
    }
}
// End of what the pages show.

static bool run(struct host *host)
{
    const uint32_t rows = example.sizes[0], columns = example.sizes[1];
    const unsigned together = row_shape(example.type, columns).together;
    const size_t n = (size_t)rows * columns;
    float *x = host_random_array(host, n, -8, 8), *y = host_random_array(host, n, 0, 0);
    CUdeviceptr in = host_upload_floats(host, example.type, x, n);
    CUdeviceptr out = host_zeros(host, n * ptx_type_bytes(example.type));
    const struct ptx_arg args[] = { PTX_ARG(in), PTX_ARG(out), PTX_ARG(rows) };

    host_launch(host, "softmax",
                &(struct ptx_launch_params) {
                    .grid = { (rows + together - 1) / together }, .args = args, .arg_count = 3 });
    bool right = host_download_floats(host, example.type, out, y, n);
    for (size_t start = 0; right && start < n; start += columns) {
        double sum = 0;
        for (size_t i = start; i < start + columns; i++)
            sum += exp(x[i]);
        for (size_t i = start; i < start + columns; i++)
            right = right && fabs(y[i] * sum / exp(x[i]) - 1) <
                                 (example.type == PTX_BF16 ? 0x1.01p-8 : 2e-6);
    }
    return right;
}

struct example example = { .name = "softmax",
                           .build = build,
                           .run = run,
                           .size_names = { "ROWS", "COLUMNS" },
                           .sizes = { 50, 1000 },
                           .type = PTX_F32 };

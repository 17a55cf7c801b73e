// SPDX-License-Identifier: MIT
// y = GELU(x + bias), the bias one for each column: the exact form, x (1 + erf(x / sqrt(2))) / 2,
// and the one with tanh, which is x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
#include "host.h"
#include "rows.h"

#include <math.h>

enum { BLOCK = 256, MAX_ROWS = 8 };

// A thread has one vector of columns in so many rows: vectors under way, or, where there is more to
// compute for each byte, registers for more warps.
static unsigned rows_of_thread(void)
{
    return example.type == PTX_BF16 ? 2 : MAX_ROWS;
}

static uint32_t blocks_across(void)
{
    const uint32_t chunk = BLOCK * 16 / ptx_type_bytes(example.type);

    return (example.sizes[1] + chunk - 1) / chunk;
}

static const double LOG2_E = 1.44269504088896341;

typedef ptx_val function(ptx_builder *b, ptx_val x);

static ptx_val gelu_erf(ptx_builder *b, ptx_val x)
{
    ptx_val erf = ptx_math_erf(b, ptx_mul(b, x, 0.70710678118654752)); // 1 / sqrt(2)
    ptx_val half = ptx_mul(b, x, 0.5);

    return ptx_fma(b, half, erf, half);
}

// x / (1 + 2^power)
static ptx_val times_sigmoid(ptx_builder *b, ptx_val x, ptx_val power)
{
    // Flushing costs nothing here: beside 1 a subnormal power is nothing.
    ptx_val power_of_2 = ptx_op(b, PTX_OP_ex2, power, .ftz = true);
    ptx_val scale = ptx_op(b, PTX_OP_rcp_approx, ptx_add(b, power_of_2, 1.0), .ftz = true);

    return ptx_mul(b, x, scale);
}

static ptx_val gelu_tanh(ptx_builder *b, ptx_val x)
{
    // -2 u log2(e) = x (k + 0.044715 k x^2)
    const double k = -2 * 0.79788456080286536 * LOG2_E;
    ptx_val factor = ptx_fma(b, ptx_mul(b, x, x), 0.044715 * k, k);

    return times_sigmoid(b, x, ptx_mul(b, x, factor));
}

// The exact form for a result of bf16. The normal distribution is a sigmoid, too, of a polynomial
// in x that is fitted to ln(P(x) / P(-x)): the result is off by at most 1.6e-6 everywhere and,
// above -4, by 2^-12 of itself, where a bf16 has 2^-9. That takes half the instructions of an erf.
static ptx_val gelu_bf16(ptx_builder *b, ptx_val x)
{
    static const double c[] = { 1.5957224,     0.072755955,   -0.00011312411, -9.9958871e-05,
                                6.8243217e-06, -2.122309e-07, 2.618004e-09 };
    ptx_val square = ptx_mul(b, x, x), sum = ptx_f32((float)(-LOG2_E * c[6]));

    for (unsigned k = 6; k-- > 0;)
        sum = ptx_fma(b, sum, square, -LOG2_E * c[k]);
    return times_sigmoid(b, x, ptx_mul(b, x, sum));
}

struct gelu {
    function *f;
    ptx_ptr in, out; // row after row
    ptx_val column;  // of the thread's first element
    unsigned lanes;
    ptx_val bias[8];
};

// Loads `rows` vectors below each other, then computes and stores them.
static void rows_from(ptx_builder *b, const struct gelu *g, ptx_val row, unsigned rows)
{
    ptx_val x[MAX_ROWS][8], at[MAX_ROWS];

    for (unsigned r = 0; r < rows; r++) {
        at[r] =
            ptx_mad_wide(b, ptx_add(b, row, r), example.sizes[1], ptx_cvt(b, PTX_U64, g->column));
        vector_load(b, g->in, at[r], g->lanes, x[r]);
    }
    for (unsigned r = 0; r < rows; r++) {
        for (unsigned k = 0; k < g->lanes; k++)
            x[r][k] = g->f(b, ptx_add(b, x[r][k], g->bias[k]));
        vector_store(b, g->out, at[r], g->lanes, x[r]);
    }
}

// Blocks go along the columns, then down.
static void entry(ptx_builder *b, const char *name, function *f)
{
    const ptx_type type = example.type;
    struct gelu g = { .f = f, .lanes = 16 / ptx_type_bytes(type) };
    const uint32_t columns = example.sizes[1], across = blocks_across();
    const unsigned rows_below = rows_of_thread();

    if (columns % g.lanes)
        ptx_builder_fail(b, "%u columns of %s; they must be a multiple of %u", columns,
                         ptx_type_name(type), g.lanes);
    ptx_entry (b, name, .block = { BLOCK }) {
        g.in = ptx_param_ptr(b, type, "x", .readonly = true);
        ptx_ptr bias = ptx_param_ptr(b, type, "bias", .readonly = true, .meaning = "a row");
        g.out = ptx_param_ptr(b, type, "y", .writeonly = true, .meaning = "may be x");
        ptx_val rows = ptx_param(b, PTX_U32, "rows");
        ptx_val block = ptx_ctaid(b, PTX_X), chunk = ptx_rem(b, block, across);
        ptx_val row = ptx_mul(b, ptx_div(b, block, across), rows_below);

        g.column = ptx_mul(b, ptx_mad(b, chunk, BLOCK, ptx_tid(b, PTX_X)), g.lanes);
        ptx_return_if(b, ptx_ge(b, g.column, columns));
        vector_load(b, bias, g.column, g.lanes, g.bias);
        ptx_if (b, ptx_le(b, ptx_add(b, row, rows_below), rows))
            rows_from(b, &g, row, rows_below);
        ptx_else (b)
            ptx_for (b, r, row, rows, 1)
                rows_from(b, &g, r, 1);
    }
}

static void build(ptx_builder *b)
{
    entry(b, "gelu_erf", example.type == PTX_BF16 ? gelu_bf16 : gelu_erf);
    entry(b, "gelu_tanh", gelu_tanh);
}

static double expected(double x, bool tanh_form)
{
    return 0.5 * x *
           (1 + (tanh_form ? tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))
                           : erf(x * 0.70710678118654752)));
}

static bool run(struct host *host)
{
    const uint32_t rows = example.sizes[0], columns = example.sizes[1];
    const ptx_type type = example.type;
    const size_t n = (size_t)rows * columns;
    float *x = host_random_array(host, n, -8, 8), *y = host_random_array(host, n, 0, 0);
    float *bias = host_random_array(host, columns, -1, 1);
    CUdeviceptr in = host_upload_floats(host, type, x, n);
    CUdeviceptr gpu_bias = host_upload_floats(host, type, bias, columns);
    CUdeviceptr out = host_zeros(host, n * ptx_type_bytes(type));
    const struct ptx_arg args[] = { PTX_ARG(in), PTX_ARG(gpu_bias), PTX_ARG(out), PTX_ARG(rows) };
    const uint32_t down = (rows + rows_of_thread() - 1) / rows_of_thread();
    bool right = true;

    for (unsigned form = 0; right && form < 2; form++) {
        host_launch(host, form ? "gelu_tanh" : "gelu_erf",
                    &(struct ptx_launch_params) {
                        .grid = { blocks_across() * down }, .args = args, .arg_count = 4 });
        right = host_download_floats(host, type, out, y, n);
        for (size_t i = 0; right && i < n; i++) {
            const double wanted = expected((double)x[i] + bias[i % columns], form);
            right = fabs(y[i] - wanted) <=
                    2e-6 + (type == PTX_BF16 ? 0x1p-8 * fabs(wanted) : 0x1p-22 * fabs(wanted));
        }
    }
    return right;
}

struct example example = { .name = "gelu",
                           .build = build,
                           .run = run,
                           .size_names = { "ROWS", "COLUMNS" },
                           .sizes = { 45, 1320 },
                           .type = PTX_F32 };

// SPDX-License-Identifier: MIT
// Layer norm of each row: y = x' gamma + beta with x' = (x - mean) rstd, and rstd = 1 /
// sqrt(variance + eps); its gradients in two launches, whose sums have a fixed order.
#include "host.h"
#include "rows.h"

#include <math.h>

// The sums of rows are added by the warps of a block.
enum { SUM_GROUPS = 32, SUM_BLOCK = ROW_WARP * SUM_GROUPS, TOGETHER = 8 };

static const float EPS = 1e-5f;

// The sum of this thread's elements over the row, divided by the number of columns.
static ptx_val row_mean(ptx_builder *b, struct row_shape s, const ptx_val *x)
{
    ptx_val sum = row_reduce(b, s, ptx_add, row_fold(b, s, ptx_add, x));

    return ptx_mul(b, sum, 1.0 / s.columns);
}

// Blocks wanted on a multiprocessor, so that there are loads under way while others reduce. Two of
// the largest fill it; rows of f32 in smaller blocks have no registers to spare for that.
static uint32_t resident(struct row_shape s)
{
    const uint32_t full = s.type == PTX_BF16 || s.block == ROW_MAX_THREADS ? 2048 : 1536;

    return full / s.block;
}

static void forward(ptx_builder *b, struct row_shape s)
{
    ptx_val x[ROW_MAX_ELEMENTS], square[ROW_MAX_ELEMENTS];
    ptx_val gamma[ROW_MAX_ELEMENTS], beta[ROW_MAX_ELEMENTS];

    ptx_entry (b, "layer_norm", .block = { s.block }, .min_blocks = resident(s)) {
        ptx_ptr in = ptx_param_ptr(b, s.type, "x", .readonly = true);
        ptx_ptr gammas = ptx_param_ptr(b, s.type, "gamma", .readonly = true);
        ptx_ptr betas = ptx_param_ptr(b, s.type, "beta", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, s.type, "y", .writeonly = true);
        ptx_ptr means = ptx_param_ptr(b, PTX_F32, "mean", .length = "rows", .writeonly = true);
        ptx_ptr rstds = ptx_param_ptr(b, PTX_F32, "rstd", .length = "rows", .writeonly = true);
        ptx_val rows = ptx_param(b, PTX_U32, "rows"), eps = ptx_param(b, PTX_F32, "eps");
        ptx_val row = row_first(b, s);
        ptx_return_if(b, ptx_ge(b, row, rows));

        row_load(b, s, row_at(b, s, in, row), ptx_f32(0), x);
        ptx_val mean = row_mean(b, s, x);
        for (unsigned k = 0; k < s.elements; k++) {
            x[k] = ptx_sub(b, x[k], mean);
            square[k] = ptx_mul(b, x[k], x[k]);
        }
        row_clear(b, s, square); // what is beyond the row's end was 0, and differs from the mean
        ptx_val rstd = ptx_rcp(b, ptx_sqrt(b, ptx_add(b, row_mean(b, s, square), eps)));
        row_load(b, s, gammas, ptx_f32(0), gamma); // only now: they are in L1, and take registers
        row_load(b, s, betas, ptx_f32(0), beta);
        for (unsigned k = 0; k < s.elements; k++)
            x[k] = ptx_fma(b, ptx_mul(b, x[k], rstd), gamma[k], beta[k]);
        row_store(b, s, row_at(b, s, out, row), x);
        ptx_if (b, ptx_eq(b, ptx_rem(b, ptx_tid(b, PTX_X), s.threads), 0)) {
            ptx_store(b, means, row, mean);
            ptx_store(b, rstds, row, rstd);
        }
    }
}

// ---- backward -----------------------------------------------------------------------------------

// Of the pass: elements of a thread but in the longest rows, threads of a multiprocessor, its
// shared memory, and what a thread asks for before it needs it, in bytes of x and dy.
enum { FEW_ELEMENTS = 8, RESIDENT = 1024, SHARED_BYTES = 160 << 10, AHEAD_BYTES = 64 };

static struct row_shape backward_shape(void)
{
    return row_shape_with(example.type, example.sizes[1], FEW_ELEMENTS);
}

// What a thread adds up over its rows. The longest rows have no registers for it.
struct sums {
    bool in_shared;
    ptx_ptr shared; // for each thread four sums of gamma, then other four; then those of beta
    ptx_val gamma[ROW_MAX_ELEMENTS], beta[ROW_MAX_ELEMENTS];
};

static bool sums_in_shared(struct row_shape s)
{
    return s.elements > FEW_ELEMENTS;
}

static uint32_t sums_bytes(struct row_shape s)
{
    return sums_in_shared(s) ? 2 * 4 * s.threads * s.elements : 0;
}

enum { OF_GAMMA, OF_BETA };

static ptx_val sums_at(ptx_builder *b, struct row_shape s, unsigned of, unsigned k)
{
    return ptx_mad(b, ptx_tid(b, PTX_X), 4, (of * s.elements + k) * s.threads);
}

static void sums_begin(ptx_builder *b, struct row_shape s, struct sums *sums)
{
    for (unsigned k = 0; k < s.elements; k++) {
        sums->gamma[k] = ptx_var(b, ptx_f32(0));
        sums->beta[k] = ptx_var(b, ptx_f32(0));
    }
    for (unsigned of = OF_GAMMA; sums->in_shared && of <= OF_BETA; of++)
        for (unsigned k = 0; k < s.elements; k += 4)
            vector_store(b, sums->shared, sums_at(b, s, of, k), 4,
                         of == OF_GAMMA ? &sums->gamma[k] : &sums->beta[k]);
}

// Adds dy x and dy.
static void sums_add(ptx_builder *b, struct row_shape s, const struct sums *sums, const ptx_val *x,
                     const ptx_val *dy)
{
    ptx_val sum[4];

    for (unsigned k = 0; !sums->in_shared && k < s.elements; k++) {
        ptx_set(b, sums->gamma[k], ptx_fma(b, dy[k], x[k], sums->gamma[k]));
        ptx_set(b, sums->beta[k], ptx_add(b, sums->beta[k], dy[k]));
    }
    for (unsigned k = 0; sums->in_shared && k < s.elements; k += 4) {
        vector_load(b, sums->shared, sums_at(b, s, OF_GAMMA, k), 4, sum);
        for (unsigned i = 0; i < 4; i++)
            sum[i] = ptx_fma(b, dy[k + i], x[k + i], sum[i]);
        vector_store(b, sums->shared, sums_at(b, s, OF_GAMMA, k), 4, sum);
        vector_load(b, sums->shared, sums_at(b, s, OF_BETA, k), 4, sum);
        for (unsigned i = 0; i < 4; i++)
            sum[i] = ptx_add(b, sum[i], dy[k + i]);
        vector_store(b, sums->shared, sums_at(b, s, OF_BETA, k), 4, sum);
    }
}

// Writes them as rows 2 row and 2 row + 1.
static void sums_end(ptx_builder *b, struct row_shape s, struct sums *sums, ptx_ptr out,
                     ptx_val row)
{
    for (unsigned of = OF_GAMMA; sums->in_shared && of <= OF_BETA; of++)
        for (unsigned k = 0; k < s.elements; k += 4)
            vector_load(b, sums->shared, sums_at(b, s, of, k), 4,
                        of == OF_GAMMA ? &sums->gamma[k] : &sums->beta[k]);
    row_store(b, s, row_at(b, s, out, ptx_mul(b, row, 2)), sums->gamma);
    row_store(b, s, row_at(b, s, out, ptx_mad(b, row, 2, 1)), sums->beta);
}

// Rows on their way to shared memory while those before them are worked on: x, then dy. Each thread
// loads what it copied itself.
struct ahead {
    ptx_ptr d_out, in, stages;
    ptx_val rows;
    unsigned count; // of stages
};

static unsigned ahead_elements(struct row_shape s)
{
    return 2 * s.together * s.columns;
}

static unsigned ahead_count(struct row_shape s)
{
    const unsigned bytes = ptx_type_bytes(s.type), wanted = AHEAD_BYTES / (2 * s.elements * bytes);
    const uint32_t left = SHARED_BYTES / (RESIDENT / s.block) - sums_bytes(s);
    const uint32_t room = left / (ahead_elements(s) * bytes);

    return room < wanted ? room : wanted;
}

static uint32_t backward_bytes(struct row_shape s)
{
    return sums_bytes(s) + ahead_count(s) * ahead_elements(s) * ptx_type_bytes(s.type);
}

static void copy_ahead(ptx_builder *b, struct row_shape s, const struct ahead *a, ptx_val row,
                       ptx_val stage)
{
    ptx_if (b, ptx_lt(b, row, a->rows)) {
        ptx_ptr to = ptx_at(b, a->stages, stage);
        row_copy(b, s, row_at(b, s, a->in, row), to);
        row_copy(b, s, row_at(b, s, a->d_out, row), ptx_at(b, to, s.columns));
    }
    ptx_cp_async_commit(b);
}

// A block takes rows in turn and keeps the sums of its columns; it writes them as two rows of
// `sums`, for gamma and for beta.
static void backward(ptx_builder *b, struct row_shape s)
{
    ptx_val x[ROW_MAX_ELEMENTS], dy[ROW_MAX_ELEMENTS], g[ROW_MAX_ELEMENTS], gx[ROW_MAX_ELEMENTS];
    ptx_val gamma[ROW_MAX_ELEMENTS];
    struct sums sums = { .in_shared = sums_in_shared(s) };
    const unsigned size = ahead_elements(s);
    // Mean and rstd are loaded a row before, but for the longest rows of f32, where it does not
    // pay.
    const bool early = ahead_count(s) || s.type == PTX_BF16;

    ptx_entry (b, "layer_norm_backward", .block = { s.block }, .min_blocks = RESIDENT / s.block) {
        ptx_ptr d_out = ptx_param_ptr(b, s.type, "dy", .readonly = true);
        ptx_ptr in = ptx_param_ptr(b, s.type, "x", .readonly = true);
        ptx_ptr gammas = ptx_param_ptr(b, s.type, "gamma", .readonly = true);
        ptx_ptr means = ptx_param_ptr(b, PTX_F32, "mean", .length = "rows", .readonly = true);
        ptx_ptr rstds = ptx_param_ptr(b, PTX_F32, "rstd", .length = "rows", .readonly = true);
        ptx_ptr d_in = ptx_param_ptr(b, s.type, "dx", .writeonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "sums", .writeonly = true,
                                    .meaning = "two rows for each row that a grid has at a time");
        ptx_val rows = ptx_param(b, PTX_U32, "rows");
        ptx_val first = row_first(b, s), step = ptx_mul(b, ptx_nctaid(b, PTX_X), s.together);
        ptx_ptr shared = ptx_shared_dynamic(b, PTX_F32);
        struct ahead ahead = { d_out, in, .rows = rows, .count = ahead_count(s) };

        sums.shared = shared;
        sums_begin(b, s, &sums);
        ptx_val own = ptx_mul(b, ptx_div(b, ptx_tid(b, PTX_X), s.threads), 2 * s.columns);
        shared = ptx_ptr_cast(b, s.type, ptx_at(b, shared, sums_bytes(s) / 4));
        ahead.stages = ptx_at(b, shared, own);
        for (unsigned k = 0; k < ahead.count; k++)
            copy_ahead(b, s, &ahead, ptx_add(b, first, ptx_mul(b, step, k)), ptx_u32(k * size));
        if (!sums.in_shared)
            row_load(b, s, gammas, ptx_f32(0), gamma);
        ptx_val stage = ptx_var(b, ptx_u32(0)), next_mean = { 0 }, next_rstd = { 0 };
        if (early) {
            ptx_val at = ptx_min(b, first, ptx_sub(b, rows, 1));
            next_mean = ptx_var(b, ptx_load(b, means, at));
            next_rstd = ptx_var(b, ptx_load(b, rstds, at));
        }
        ptx_for (b, row, first, rows, step) {
            ptx_val mean = { 0 }, rstd = { 0 };
            if (early)
                mean = ptx_copy(b, next_mean), rstd = ptx_copy(b, next_rstd);
            if (ahead.count) {
                ptx_ptr here = ptx_at(b, ahead.stages, stage);
                ptx_cp_async_wait(b, ahead.count - 1);
                row_load(b, s, here, ptx_f32(0), x);
                row_load(b, s, ptx_at(b, here, s.columns), ptx_f32(0), dy);
                copy_ahead(b, s, &ahead, ptx_add(b, row, ptx_mul(b, step, ahead.count)), stage);
                ptx_val last = ptx_eq(b, stage, (ahead.count - 1) * size);
                ptx_set(b, stage, ptx_select(b, last, ptx_u32(0), ptx_add(b, stage, size)));
            } else {
                row_load(b, s, row_at(b, s, in, row), ptx_f32(0), x);
                row_load(b, s, row_at(b, s, d_out, row), ptx_f32(0), dy);
            }
            if (early) {
                ptx_val next = ptx_min(b, ptx_add(b, row, step), ptx_sub(b, rows, 1));
                ptx_set(b, next_mean, ptx_load(b, means, next));
                ptx_set(b, next_rstd, ptx_load(b, rstds, next));
            } else {
                mean = ptx_load(b, means, row), rstd = ptx_load(b, rstds, row);
            }
            for (unsigned k = 0; k < s.elements; k++)
                x[k] = ptx_mul(b, ptx_sub(b, x[k], mean), rstd);
            sums_add(b, s, &sums, x, dy);
            if (sums.in_shared)
                row_load(b, s, gammas, ptx_f32(0), gamma);
            for (unsigned k = 0; k < s.elements; k++) {
                g[k] = ptx_mul(b, dy[k], gamma[k]);
                gx[k] = ptx_mul(b, g[k], x[k]);
            }
            ptx_val sum[2] = { row_fold(b, s, ptx_add, g), row_fold(b, s, ptx_add, gx) };
            row_reduce_pair(b, s, ptx_add, sum);
            ptx_val of_g = ptx_mul(b, ptx_mul(b, sum[0], -1.0 / s.columns), rstd);
            ptx_val of_gx = ptx_mul(b, ptx_mul(b, sum[1], -1.0 / s.columns), rstd);
            for (unsigned k = 0; k < s.elements; k++)
                g[k] = ptx_fma(b, g[k], rstd, ptx_fma(b, x[k], of_gx, of_g));
            row_store(b, s, row_at(b, s, d_in, row), g);
        }
        sums_end(b, s, &sums, out, first);
    }
}

// A warp's lanes have columns, and the warps every SUM_GROUPS-th row; then they change sides.
static void add_rows(ptx_builder *b, struct row_shape s)
{
    ptx_entry (b, "layer_norm_sums", .block = { SUM_BLOCK }) {
        ptx_ptr sums = ptx_param_ptr(b, PTX_F32, "sums", .readonly = true);
        ptx_val count = ptx_param(b, PTX_U32, "count", .meaning = "half the rows of sums");
        ptx_ptr out =
            ptx_param_ptr(b, s.type, "d_gamma_beta", .writeonly = true, .meaning = "two rows");
        ptx_ptr parts = ptx_shared(b, PTX_F32, SUM_GROUPS * (ROW_WARP + 1));
        ptx_val tid = ptx_tid(b, PTX_X), lane = ptx_laneid(b), group = ptx_div(b, tid, ROW_WARP);
        ptx_val first = ptx_mul(b, ptx_ctaid(b, PTX_X), ROW_WARP), sum = ptx_var(b, ptx_f32(0));
        ptx_val column = ptx_add(b, first, lane);

        ptx_if (b, ptx_lt(b, column, 2 * s.columns)) {
            ptx_for (b, row, group, count, SUM_GROUPS * TOGETHER) {
                ptx_val x[TOGETHER]; // all are under way before one is added
                for (unsigned k = 0; k < TOGETHER; k++) {
                    ptx_val from = ptx_add(b, row, k * SUM_GROUPS);
                    ptx_val there = ptx_min(b, from, ptx_sub(b, count, 1));
                    ptx_val at = ptx_mad_wide(b, there, 2 * s.columns, ptx_cvt(b, PTX_U64, column));
                    x[k] = ptx_load(b, sums, at);
                    x[k] = ptx_select(b, ptx_lt(b, from, count), x[k], 0);
                }
                for (unsigned k = 0; k < TOGETHER; k++)
                    ptx_set(b, sum, ptx_add(b, sum, x[k]));
            }
        }
        ptx_store(b, parts, ptx_mad(b, group, ROW_WARP + 1, lane), sum);
        ptx_barrier(b);
        ptx_val part = ptx_load(b, parts, ptx_mad(b, lane, ROW_WARP + 1, group));
        for (unsigned mask = SUM_GROUPS / 2; mask > 0; mask /= 2)
            part = ptx_add(b, part, ptx_shfl_bfly(b, part, mask));
        column = ptx_add(b, first, group);
        ptx_val writes = ptx_and(b, ptx_eq(b, lane, 0), ptx_lt(b, column, 2 * s.columns));
        ptx_if (b, writes)
            ptx_store(b, out, column, ptx_cvt(b, s.type, part));
    }
}

static void build(ptx_builder *b)
{
    const struct row_shape s = row_shape(example.type, example.sizes[1]);

    if (!row_check(b, s))
        return;
    forward(b, s);
    backward(b, backward_shape());
    add_rows(b, s);
}

// Blocks of the backward pass, enough for 132 multiprocessors: the same number on every GPU,
// because the order of the sums depends on it.
static uint32_t turns(struct row_shape s, uint32_t rows)
{
    const uint32_t blocks = (rows + s.together - 1) / s.together;
    const uint32_t enough = 132 * (RESIDENT / s.block);

    return blocks < enough ? blocks : enough;
}

enum { X, GAMMA, BETA, DY, INPUTS };

// What the formulas give for a row, in f64; adds to the gradients of gamma and beta.
struct expected {
    double mean, rstd, mean_g, mean_gx;
};

static struct expected row_of(const float *const in[INPUTS], size_t start, uint32_t columns,
                              double *d_gamma, double *d_beta)
{
    struct expected e = { 0 };
    double square = 0;

    for (size_t i = 0; i < columns; i++)
        e.mean += in[X][start + i] / (double)columns;
    for (size_t i = 0; i < columns; i++)
        square += pow(in[X][start + i] - e.mean, 2) / columns;
    e.rstd = 1 / sqrt(square + EPS);
    for (size_t i = 0; i < columns; i++) {
        const double x = (in[X][start + i] - e.mean) * e.rstd, dy = in[DY][start + i];
        e.mean_g += dy * in[GAMMA][i] / columns;
        e.mean_gx += dy * in[GAMMA][i] * x / columns;
        d_gamma[i] += dy * x;
        d_beta[i] += dy;
    }
    return e;
}

static bool near(double x, double wanted, double scale)
{
    return fabs(x - wanted) <=
           1e-5 * scale + (example.type == PTX_BF16 ? 0x1p-8 * fabs(wanted) : 0);
}

struct results {
    float *y, *mean, *rstd, *dx, *d_gamma_beta;
};

static bool right(struct host *host, const float *const in[INPUTS], const struct results *r)
{
    const uint32_t rows = example.sizes[0], columns = example.sizes[1];
    double *d_gamma = (double *)host_alloc(host, columns, sizeof *d_gamma);
    double *d_beta = (double *)host_alloc(host, columns, sizeof *d_beta);
    bool right = d_gamma && d_beta;

    for (size_t row = 0; right && row < rows; row++) {
        const struct expected e = row_of(in, row * columns, columns, d_gamma, d_beta);
        right = fabs(r->mean[row] - e.mean) < 1e-5 && fabs(r->rstd[row] / e.rstd - 1) < 1e-5;
        for (size_t i = 0; right && i < columns; i++) {
            const size_t at = row * columns + i;
            const double x = (in[X][at] - e.mean) * e.rstd, g = (double)in[DY][at] * in[GAMMA][i];
            right = near(r->y[at], x * in[GAMMA][i] + in[BETA][i], 1) &&
                    near(r->dx[at], (g - e.mean_g - x * e.mean_gx) * e.rstd, 1);
        }
    }
    for (size_t i = 0; right && i < columns; i++)
        right = near(r->d_gamma_beta[i], d_gamma[i], rows) &&
                near(r->d_gamma_beta[columns + i], d_beta[i], rows);
    return right;
}

static bool run(struct host *host)
{
    const uint32_t rows = example.sizes[0], columns = example.sizes[1];
    const struct row_shape s = row_shape(example.type, columns);
    const size_t n = (size_t)rows * columns, bytes = ptx_type_bytes(s.type);
    const uint32_t blocks = (rows + s.together - 1) / s.together;
    const struct row_shape back_shape = backward_shape();
    const uint32_t taking_turns = turns(back_shape, rows);
    const uint32_t count = taking_turns * back_shape.together;
    const size_t counts[INPUTS] = { n, columns, columns, n };
    float eps = EPS;
    float *in[INPUTS];
    CUdeviceptr at[INPUTS];

    for (unsigned k = 0; k < INPUTS; k++) {
        in[k] = host_random_array(host, counts[k], k == X ? -2 : -1, k == X ? 4 : 1);
        at[k] = host_upload_floats(host, s.type, in[k], counts[k]);
    }
    CUdeviceptr y = host_zeros(host, n * bytes), dx = host_zeros(host, n * bytes);
    CUdeviceptr mean = host_zeros(host, rows * sizeof(float));
    CUdeviceptr rstd = host_zeros(host, rows * sizeof(float));
    CUdeviceptr sums = host_zeros(host, 2 * (size_t)count * columns * sizeof(float));
    CUdeviceptr d_gamma_beta = host_zeros(host, 2 * columns * bytes);
    const struct ptx_arg args[] = { PTX_ARG(at[X]), PTX_ARG(at[GAMMA]), PTX_ARG(at[BETA]),
                                    PTX_ARG(y),     PTX_ARG(mean),      PTX_ARG(rstd),
                                    PTX_ARG(rows),  PTX_ARG(eps) };
    const struct ptx_arg back[] = { PTX_ARG(at[DY]), PTX_ARG(at[X]), PTX_ARG(at[GAMMA]),
                                    PTX_ARG(mean),   PTX_ARG(rstd),  PTX_ARG(dx),
                                    PTX_ARG(sums),   PTX_ARG(rows) };
    const struct ptx_arg add[] = { PTX_ARG(sums), PTX_ARG(count), PTX_ARG(d_gamma_beta) };

    host_launch(host, "layer_norm",
                &(struct ptx_launch_params) { .grid = { blocks }, .args = args, .arg_count = 8 });
    host_launch(host, "layer_norm_backward",
                &(struct ptx_launch_params) { .grid = { taking_turns },
                                              .shared_bytes = backward_bytes(back_shape),
                                              .args = back,
                                              .arg_count = 8 });
    host_launch(host, "layer_norm_sums",
                &(struct ptx_launch_params) { .grid = { (2 * columns + ROW_WARP - 1) / ROW_WARP },
                                              .args = add,
                                              .arg_count = 3 });
    const struct results r = { host_random_array(host, n, 0, 0),
                               host_random_array(host, rows, 0, 0),
                               host_random_array(host, rows, 0, 0),
                               host_random_array(host, n, 0, 0),
                               host_random_array(host, 2 * columns, 0, 0) };
    const float *const inputs[INPUTS] = { in[X], in[GAMMA], in[BETA], in[DY] };
    return host_download_floats(host, s.type, y, r.y, n) &&
           host_download_floats(host, s.type, dx, r.dx, n) &&
           host_download(host, mean, r.mean, rows * sizeof(float)) &&
           host_download(host, rstd, r.rstd, rows * sizeof(float)) &&
           host_download_floats(host, s.type, d_gamma_beta, r.d_gamma_beta, 2 * columns) &&
           right(host, inputs, &r);
}

struct example example = { .name = "layer_norm",
                           .build = build,
                           .run = run,
                           .size_names = { "ROWS", "COLUMNS" },
                           .sizes = { 300, 1320 },
                           .type = PTX_F32 };

// SPDX-License-Identifier: MIT
// The modules that docs/matrices.md, functions.md and messages.md show, run: on a GPU, and on the
// emulator.
#define _POSIX_C_SOURCE 200809L
#include "module_fixture.h"

#include <math.h>

enum { THREADS = 64, DEPTH = 48, COUNT = 100, KEYS = 32, HEAD = 64, STRIDE = HEAD + 8 };

#define SCALE (1 / sqrtf(HEAD))

// ---- what the pages show ------------------------------------------------------------------------

// c[16][8] = a[16][k] b[k][8], stored row after row, by one warp. k is a multiple of 16.
static void product(ptx_builder *b, unsigned k)
{
    ptx_entry (b, "product", .block = { 32 }) {
        ptx_ptr a = ptx_param_ptr(b, PTX_BF16, "a", .readonly = true);
        ptx_ptr w = ptx_param_ptr(b, PTX_BF16, "b", .readonly = true);
        ptx_ptr c = ptx_param_ptr(b, PTX_F32, "c", .writeonly = true);
        ptx_ptr at = ptx_shared(b, PTX_BF16, 16 * 16), bt = ptx_shared(b, PTX_BF16, 16 * 8);
        ptx_val lane = ptx_laneid(b), piece = ptx_mul(b, lane, 8);
        ptx_val row = ptx_shr(b, lane, 1), column = ptx_and(b, piece, 8);
        ptx_fragment sum = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));

        ptx_for (b, i, ptx_u32(0), k, 16) {
            // Pieces of 8 elements: two are a row of A's tile, one is a row of B's.
            ptx_ptr from = ptx_at(b, a, ptx_mad(b, row, k, ptx_add(b, i, column)));
            ptx_cp_async(b, ptx_at(b, at, piece), from, 16);
            ptx_if (b, ptx_lt(b, lane, 16))
                ptx_cp_async(b, ptx_at(b, bt, piece), ptx_at(b, w, ptx_mad(b, i, 8, piece)), 16);
            ptx_cp_async_wait_all(b);
            ptx_barrier(b);
            ptx_fragment x = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_BF16, 16, at, 16);
            ptx_fragment y =
                ptx_fragment_load(b, PTX_FRAGMENT_B, PTX_BF16, 16, bt, 8, .trans = true);
            ptx_fragment_set(b, sum, ptx_mma(b, x, y, sum));
            ptx_barrier(b); // the tiles are read before they are copied again
        }
        ptx_fragment_store(b, sum, c, 8);
    }
}

// sums[4][8] += x[64][64] y[64][64], in shared memory, where columns of y lie as x's rows do.
static void multiply(ptx_builder *b, ptx_ptr x, ptx_ptr y, ptx_fragment *sums)
{
    ptx_matrix rows = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16, x, STRIDE);
    ptx_matrix columns = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_F16, 16, y, STRIDE);
    ptx_fragment part[4], other[8];

    for (unsigned k = 0; k < 64; k += 16) {
        ptx_matrix_load(b, rows, 0, k, 4, part);
        ptx_matrix_load(b, columns, k, 0, 8, other);
        for (unsigned f = 0; f < 32; f++)
            ptx_fragment_set(b, sums[f], ptx_mma(b, part[f / 8], other[f % 8], sums[f]));
    }
}

// out[64][64] = sums[4][8], in rows `columns` apart.
static void write_result(ptx_builder *b, const ptx_fragment *sums, ptx_ptr out, ptx_val columns)
{
    ptx_matrix result = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, out, columns);

    for (unsigned m = 0; m < 4; m++)
        ptx_matrix_store(b, result, 16 * m, 0, 8, &sums[8 * m]);
}

// s = softmax(s) by rows. A lane has elements of two rows, which it shares with three others.
static void softmax(ptx_builder *b, ptx_fragment s[KEYS / 8])
{
    for (unsigned row = 0; row < 2; row++) {
        ptx_val most = ptx_f32(-INFINITY), sum = ptx_f32(0), x[KEYS / 4];
        for (unsigned n = 0; n < KEYS / 4; n++) {
            x[n] = ptx_fragment_words(b, s[n / 2]).lane[2 * row + n % 2];
            most = ptx_max(b, x[n], most);
        }
        for (unsigned lanes = 1; lanes < 4; lanes *= 2)
            most = ptx_max(b, most, ptx_shfl_bfly(b, most, lanes));
        for (unsigned n = 0; n < KEYS / 4; n++) {
            x[n] = ptx_math_exp(b, ptx_mul(b, ptx_sub(b, x[n], most), SCALE));
            sum = ptx_add(b, x[n], sum);
        }
        for (unsigned lanes = 1; lanes < 4; lanes *= 2)
            sum = ptx_add(b, sum, ptx_shfl_bfly(b, sum, lanes));
        for (unsigned n = 0; n < KEYS / 4; n++) {
            ptx_vec words = ptx_fragment_words(b, s[n / 2]);
            words.lane[2 * row + n % 2] = ptx_div(b, x[n], sum);
            s[n / 2] = ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, words);
        }
    }
}

// out[16][HEAD] = softmax(q k^T / sqrt(HEAD)) v, of 16 queries and KEYS keys in shared memory.
static void attend(ptx_builder *b, ptx_ptr q, ptx_ptr k, ptx_ptr v, ptx_ptr out)
{
    ptx_matrix queries = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16, q, STRIDE);
    ptx_matrix keys = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, k, STRIDE);
    ptx_matrix values = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, v, STRIDE, .trans = true);
    ptx_fragment p, s[KEYS / 8], o[HEAD / 8], y[(KEYS > HEAD ? KEYS : HEAD) / 8];

    for (unsigned n = 0; n < KEYS / 8; n++)
        s[n] = ptx_fragment_fill(b, ptx_f32(0));
    for (unsigned d = 0; d < HEAD; d += 16) { // S = Q K^T
        ptx_matrix_load(b, queries, 0, d, 1, &p);
        ptx_matrix_load(b, keys, d, 0, KEYS / 8, y);
        for (unsigned n = 0; n < KEYS / 8; n++)
            s[n] = ptx_mma(b, p, y[n], s[n]);
    }
    softmax(b, s);
    for (unsigned n = 0; n < HEAD / 8; n++)
        o[n] = ptx_fragment_fill(b, ptx_f32(0));
    for (unsigned j = 0; j < KEYS; j += 16) { // O = P V
        p = ptx_fragment_to_a(b, PTX_BF16, 16, &s[j / 8]);
        ptx_matrix_load(b, values, j, 0, HEAD / 8, y);
        for (unsigned n = 0; n < HEAD / 8; n++)
            o[n] = ptx_mma(b, p, y[n], o[n]);
    }
    ptx_matrix result = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, out, HEAD);
    ptx_matrix_store(b, result, 0, 0, HEAD / 8, o);
}

static const float coefficients[] = { 1, 0.5f, 0.25f, 2 };

static void polynomial(ptx_builder *b)
{
    ptx_ptr table =
        ptx_const(b, PTX_F32, "coefficients", .values = coefficients, .bytes = sizeof coefficients);
    ptx_ptr largest = ptx_global(b, PTX_U32, "largest", .count = 1);

    ptx_func (b, "polynomial", .result = PTX_F32) {
        ptx_val x = ptx_param(b, PTX_F32, "x"), sum = ptx_var(b, ptx_f32(0));
        ptx_for_down (b, k, ptx_u32(4), 0, 1)
            ptx_set(b, sum, ptx_fma(b, sum, x, ptx_load(b, table, k)));
        ptx_return_value(b, sum);
    }
    ptx_entry (b, "evaluate", .block = { 64 }) {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .length = "n", .readonly = true);
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .length = "n", .writeonly = true);
        ptx_grid_stride (b, i, n) {
            ptx_store(b, y, i, ptx_call(b, "polynomial", ptx_load(b, x, i)));
            ptx_atomic_max(b, largest, 0, i);
        }
    }
}

static void report(ptx_builder *b)
{
    ptx_entry (b, "report", .block = { 64 }) {
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .readonly = true);
        ptx_val i = ptx_global_index(b, PTX_X), xi = ptx_load(b, x, i);
        ptx_if (b, ptx_is_infinite(b, xi))
            ptx_printf(b, "%s[%u] is %g\n", ptx_ptr_generic(b, ptx_string(b, "x")), i, xi);
        ptx_assert(b, ptx_ordered(b, xi, xi), "x is a number", .file = __FILE__, .line = __LINE__);
    }
}

// ---- running ------------------------------------------------------------------------------------

static ptx_module *load(ptx_builder *b)
{
    ptx_module *module = ptx_module_load(gpu, finished(b), NULL);

    if (!module)
        fail_msg("%s\n%s", ptx_error_message(), finished(b));
    ptx_builder_destroy(&b);
    return module;
}

static ptx_buffer *uploaded(const void *data, size_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu, bytes);

    check(ptx_buffer_upload(buffer, 0, data, bytes, NULL));
    return buffer;
}

static ptx_status launched(ptx_module *module, const char *name, const struct ptx_arg *args,
                           size_t count)
{
    const struct ptx_launch_params params = { .grid = { 1 }, .args = args, .arg_count = count };
    const ptx_status status = ptx_launch(ptx_module_function(module, name), &params);

    return status ? status : ptx_stream_synchronize(gpu, NULL);
}

// Small whole numbers as bf16: every sum is exact.
static uint16_t whole(int x)
{
    const float f = (float)x;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

TEST(matrices_are_multiplied)
{
    static uint16_t a[16][DEPTH], w[DEPTH][8];
    static float c[16][8];

    if (ptx_device_get_info(gpu)->sm < 80)
        return; // it has no mma of bf16
    for (int k = 0; k < DEPTH; k++) {
        for (int i = 0; i < 16; i++)
            a[i][k] = whole((3 * i + 5 * k) % 17 - 8);
        for (int j = 0; j < 8; j++)
            w[k][j] = whole((7 * k + j) % 13 - 6);
    }
    ptx_builder *b = builder_at(80);
    product(b, DEPTH);
    OWNED(ptx_module) *module = load(b);
    ptx_buffer *from = uploaded(a, sizeof a), *by = uploaded(w, sizeof w);
    OWNED(ptx_buffer) *to = ptx_buffer_create(gpu, sizeof c);
    const CUdeviceptr at[] = { ptx_buffer_address(from), ptx_buffer_address(by),
                               ptx_buffer_address(to) };
    const struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]), PTX_ARG(at[2]) };
    check(launched(module, "product", args, 3));
    check(ptx_buffer_download(to, 0, c, sizeof c, NULL));
    check(ptx_stream_synchronize(gpu, NULL));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += ((3 * i + 5 * k) % 17 - 8) * ((7 * k + j) % 13 - 6);
            if (c[i][j] != (float)sum)
                fail_msg("row %d, column %d: %g, not %d", i, j, (double)c[i][j], sum);
        }
    ptx_buffer_destroy(&by);
    ptx_buffer_destroy(&from);
}

// What the page says of the instructions of a step.
TEST(matrices_have_few_instructions)
{
    OWNED(ptx_builder) *b = builder_at(90);
    ptx_fragment sums[32];

    ptx_entry (b, "step", .block = { 32 }) {
        ptx_ptr s = ptx_shared(b, PTX_F16, 128 * STRIDE);
        for (unsigned f = 0; f < 32; f++)
            sums[f] = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));
        ptx_ptr out = ptx_param_ptr(b, PTX_BF16, "out");
        ptx_val columns = ptx_param(b, PTX_U32, "columns");
        ptx_comment(b, "the step");
        multiply(b, s, ptx_at(b, s, 64 * STRIDE), sums);
        ptx_comment(b, "the result");
        write_result(b, sums, out, columns);
    }
    unsigned count = 0, stored = 0, stores = 0, loads = 0, products = 0;
    const char *result = strstr(finished(b), "the result");
    for (const char *at = strstr(finished(b), "the step"); (at = strchr(at + 1, ';')) < result;)
        count++;
    for (const char *at = result; (at = strchr(at + 1, ';'));)
        stored++;
    for (const char *at = result; (at = strstr(at + 1, "    st.global"));)
        stores++;
    for (const char *at = finished(b); (at = strstr(at + 1, "    ldmatrix."));)
        loads++;
    for (const char *at = finished(b); (at = strstr(at + 1, "    mma."));)
        products++;
    assert_int_equal(count, 174);
    assert_int_equal(stored - 1, 148); // ret
    assert_int_equal(stores, 64);
    assert_int_equal(loads, 32);
    assert_int_equal(products, 128);
}

// Queries, keys and values follow each other in `in`, HEAD elements a row.
static void attention(ptx_builder *b)
{
    ptx_entry (b, "attention", .block = { 32 }) {
        ptx_ptr in = ptx_param_ptr(b, PTX_BF16, "in", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .writeonly = true);
        ptx_ptr s = ptx_shared(b, PTX_BF16, (16 + 2 * KEYS) * STRIDE);
        ptx_for (b, i, ptx_laneid(b), (16 + 2 * KEYS) * HEAD, 32) {
            ptx_val row = ptx_div(b, i, HEAD), column = ptx_rem(b, i, HEAD);
            ptx_store(b, s, ptx_mad(b, row, STRIDE, column), ptx_load(b, in, i));
        }
        ptx_barrier(b);
        attend(b, s, ptx_at(b, s, 16 * STRIDE), ptx_at(b, s, (16 + KEYS) * STRIDE), out);
    }
}

TEST(sums_of_a_product_are_factors)
{
    static uint16_t in[16 + 2 * KEYS][HEAD];
    static double x[16 + 2 * KEYS][HEAD];
    static float out[16][HEAD];

    if (ptx_device_get_info(gpu)->sm < 80)
        return; // it has no mma of bf16
    for (int i = 0; i < 16 + 2 * KEYS; i++)
        for (int d = 0; d < HEAD; d++) {
            const int n = (5 * i + 3 * d + i * d) % 5 - 2;
            in[i][d] = whole(n);
            x[i][d] = n;
        }
    ptx_builder *b = builder_at(80);
    attention(b);
    OWNED(ptx_module) *module = load(b);
    ptx_buffer *from = uploaded(in, sizeof in), *to = ptx_buffer_create(gpu, sizeof out);
    const CUdeviceptr at[] = { ptx_buffer_address(from), ptx_buffer_address(to) };
    const struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]) };
    check(launched(module, "attention", args, 2));
    check(ptx_buffer_download(to, 0, out, sizeof out, NULL));
    check(ptx_stream_synchronize(gpu, NULL));
    for (int i = 0; i < 16; i++) {
        double weight[KEYS], most = -INFINITY, sum = 0;
        for (int j = 0; j < KEYS; j++) {
            weight[j] = 0;
            for (int d = 0; d < HEAD; d++)
                weight[j] += x[i][d] * x[16 + j][d] / sqrt(HEAD);
            most = fmax(most, weight[j]);
        }
        for (int j = 0; j < KEYS; j++)
            sum += weight[j] = exp(weight[j] - most);
        for (int d = 0; d < HEAD; d++) {
            double want = 0;
            for (int j = 0; j < KEYS; j++)
                want += weight[j] / sum * x[16 + KEYS + j][d];
            // Weights are rounded to 8 bits, values are at most 2.
            if (!(fabs(out[i][d] - want) <= 2 * 0x1p-8))
                fail_msg("row %d, column %d: %g, not %g", i, d, (double)out[i][d], want);
        }
    }
    ptx_buffer_destroy(&to);
    ptx_buffer_destroy(&from);
}

TEST(functions_and_data_are_used)
{
    static float x[COUNT], y[COUNT];
    const uint32_t n = COUNT;
    CUdeviceptr global = 0;
    size_t bytes = 0;

    for (unsigned i = 0; i < COUNT; i++)
        x[i] = (float)i / 4;
    ptx_builder *b = builder_at(70);
    polynomial(b);
    OWNED(ptx_module) *module = load(b);
    ptx_buffer *from = uploaded(x, sizeof x), *to = ptx_buffer_create(gpu, sizeof y);
    const CUdeviceptr at[] = { ptx_buffer_address(from), ptx_buffer_address(to) };
    const struct ptx_arg args[] = { PTX_ARG(n), PTX_ARG(at[0]), PTX_ARG(at[1]) };
    check(launched(module, "evaluate", args, 3));
    check(ptx_buffer_download(to, 0, y, sizeof y, NULL));
    check(ptx_module_global(module, "largest", &global, &bytes));
    check(ptx_stream_synchronize(gpu, NULL));
    for (unsigned i = 0; i < COUNT; i++)
        assert_true(y[i] == ((2 * x[i] + 0.25f) * x[i] + 0.5f) * x[i] + 1);
    assert_int_equal(bytes, 4);
    ptx_buffer_destroy(&to);
    ptx_buffer_destroy(&from);
}

// The last test: the assertion takes the context with it.
TEST(kernels_report)
{
    static float x[THREADS];

    x[7] = 1 / 0.0f;
    ptx_builder *b = builder_at(70);
    report(b);
    OWNED(ptx_module) *module = load(b);
    for (unsigned k = 0; k < 2; k++) {
        const int stream = k ? STDERR_FILENO : STDOUT_FILENO;
        x[9] = k ? 0 / 0.0f : 0;
        OWNED(ptx_buffer) *from = uploaded(x, sizeof x);
        const CUdeviceptr at = ptx_buffer_address(from);
        const struct ptx_arg args[] = { PTX_ARG(at) };
        check(ptx_stream_synchronize(gpu, NULL));
        begin_printing(stream);
        const ptx_status status = launched(module, "report", args, 1);
        const char *text = end_printing(stream);
        if (k) {
            assert_int_not_equal(status, PTX_OK);
            assert_non_null(strstr(text, "report: block: [0,0,0], thread: [9,0,0] Assertion `x is "
                                         "a number` failed."));
        } else {
            check(status);
            assert_string_equal(text, "x[7] is inf\n");
        }
    }
}

int main(void)
{
    gpu = open_device();
    const int failed = tests_run(NULL, NULL);
    ptx_device_close(&gpu);
    return failed;
}

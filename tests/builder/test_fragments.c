// SPDX-License-Identifier: MIT
// Products of every shape, run: matrices of whole numbers in shared memory, loaded by one lane
// address for each or fragment by fragment, multiplied, stored, and compared with plain C. Every
// sum is exact. Then a product whose factor is the sum of another, and the layout that
// docs/matrices.md shows.
#include "fragment.h"
#include "gpu.h"
#include "reference/half.h"
#include "test.h"

#include <string.h>

enum { ROWS = 32, COLUMNS = 40, PAD = 16, MOST_BYTES = COLUMNS * (32 * 8 + PAD) };

// `sm`: the target of the text.
static const struct shape {
    ptx_type a, b, c;
    unsigned k;
    int sm;
} shapes[] = {
    { PTX_F16, PTX_F16, PTX_F32, 8, 75 },        { PTX_F16, PTX_F16, PTX_F16, 8, 80 },
    { PTX_F16, PTX_F16, PTX_F32, 16, 80 },       { PTX_F16, PTX_F16, PTX_F16, 16, 80 },
    { PTX_BF16, PTX_BF16, PTX_F32, 8, 80 },      { PTX_BF16, PTX_BF16, PTX_F32, 16, 80 },
    { PTX_TF32, PTX_TF32, PTX_F32, 4, 80 },      { PTX_TF32, PTX_TF32, PTX_F32, 8, 80 },
    { PTX_S8, PTX_U8, PTX_S32, 16, 80 },         { PTX_U8, PTX_S8, PTX_S32, 32, 80 },
    { PTX_E4M3X2, PTX_E4M3X2, PTX_F32, 32, 89 }, { PTX_E5M2X2, PTX_E4M3X2, PTX_F16, 32, 89 },
    { PTX_E4M3X2, PTX_E5M2X2, PTX_F32, 16, 89 }, { PTX_E5M2X2, PTX_E5M2X2, PTX_F16, 16, 89 },
    { PTX_F64, PTX_F64, PTX_F64, 4, 80 },        { PTX_F64, PTX_F64, PTX_F64, 8, 80 },
    { PTX_F64, PTX_F64, PTX_F64, 16, 80 },       { PTX_F64, PTX_F64, PTX_F64, 4, 90 },
    { PTX_F64, PTX_F64, PTX_F64, 8, 90 },        { PTX_F64, PTX_F64, PTX_F64, 16, 90 },
};

// How a product is written.
struct way {
    bool trans, each; // rows in memory are columns; fragment by fragment
    bool runtime;     // the strides are parameters
};

static unsigned bytes_of(ptx_type type)
{
    return fragment_bits(type) / 8;
}

// ---- whole numbers in a type --------------------------------------------------------------------

// -3 to 3.
static void put_whole(ptx_type type, int x, unsigned char *to)
{
    static const uint64_t magnitudes[][4] = {
        [PTX_F16] = { 0, 0x3c00, 0x4000, 0x4200 },
        [PTX_BF16] = { 0, 0x3f80, 0x4000, 0x4040 },
        [PTX_TF32] = { 0, 0x3f800000, 0x40000000, 0x40400000 },
        [PTX_E4M3X2] = { 0, 0x38, 0x40, 0x44 },
        [PTX_E5M2X2] = { 0, 0x3c, 0x40, 0x42 },
        [PTX_F64] = { 0, UINT64_C(0x3ff) << 52, UINT64_C(0x400) << 52, UINT64_C(0x4008) << 48 },
    };
    const unsigned bytes = bytes_of(type);
    uint64_t bits = (uint64_t)(int64_t)x;

    if (type != PTX_S8 && type != PTX_U8)
        bits = magnitudes[type][x < 0 ? -x : x] | (uint64_t)(x < 0) << (8 * bytes - 1);
    for (unsigned k = 0; k < bytes; k++)
        to[k] = (unsigned char)(bits >> 8 * k);
}

static double get_number(ptx_type type, const unsigned char *from)
{
    uint16_t half;
    int32_t word;
    float f;
    double d;

    memcpy(&half, from, sizeof half);
    if (type == PTX_F16)
        return f16_to_f64(half);
    memcpy(&word, from, sizeof word);
    memcpy(&f, from, sizeof f);
    if (type != PTX_F64)
        return type == PTX_S32 ? (double)word : (double)f;
    memcpy(&d, from, sizeof d);
    return d;
}

static int whole(ptx_type type, unsigned i, unsigned j)
{
    const unsigned x = (7 * i + 11 * j + i * j % 5) % 7;

    return type == PTX_U8 ? (int)(x % 4) : (int)x - 3;
}

// ---- a matrix in memory -------------------------------------------------------------------------

// Rows of memory with PAD bytes after each.
struct image {
    ptx_type type;
    unsigned rows, length, stride; // elements
    unsigned bytes;
};

static struct image image_of(ptx_type type, unsigned rows, unsigned length)
{
    const unsigned stride = length + PAD / bytes_of(type);

    return (struct image) { type, rows, length, stride, rows * stride * bytes_of(type) };
}

// Copies a parameter into shared memory.
static ptx_ptr copied(ptx_builder *b, const char *name, struct image m)
{
    ptx_ptr from = ptx_param_ptr(b, PTX_B32, name, .readonly = true);
    ptx_ptr to = ptx_shared(b, PTX_B32, m.bytes / 4);
    const bool pairs = m.type == PTX_E4M3X2 || m.type == PTX_E5M2X2;

    ptx_for (b, i, ptx_laneid(b), m.bytes / 4, 32)
        ptx_store(b, to, i, ptx_load(b, from, i));
    return ptx_ptr_cast(b, pairs ? PTX_B8 : m.type, to);
}

// Runs an entry of one warp. Its parameters: the inputs that are given, the output, a zero.
struct data {
    const void *a, *b;
    size_t a_bytes, b_bytes;
    void *out;
    size_t bytes;
    bool zero;
};

static ptx_buffer *uploaded(const void *from, size_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, bytes ? bytes : 4);

    assert_int_equal(ptx_buffer_upload(buffer, 0, from, bytes, gpu.stream), PTX_OK);
    return buffer;
}

static void run(ptx_builder *b, struct data d)
{
    const char *text = ptx_builder_finish(b);
    const uint32_t zero = 0;

    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, text, NULL);
    if (!module)
        fail_msg("%s\n%s", ptx_error_message(), text);
    ptx_buffer *buffers[] = { uploaded(d.a, d.a_bytes), uploaded(d.b, d.b_bytes),
                              ptx_buffer_create(gpu.device, d.bytes) };
    CUdeviceptr at[3];
    struct ptx_arg args[4];
    size_t count = 0;
    for (unsigned k = 0; k < 3; k++) {
        at[k] = ptx_buffer_address(buffers[k]);
        if (k == 2 || (k ? d.b : d.a))
            args[count++] = (struct ptx_arg)PTX_ARG(at[k]);
    }
    if (d.zero)
        args[count++] = (struct ptx_arg)PTX_ARG(zero);
    const struct ptx_launch_params params = {
        .grid = { 1 }, .block = { 32 }, .stream = gpu.stream, .args = args, .arg_count = count
    };
    if (ptx_launch(ptx_module_function(module, "k"), &params) ||
        ptx_buffer_download(buffers[2], 0, d.out, d.bytes, gpu.stream) ||
        ptx_stream_synchronize(gpu.device, gpu.stream))
        fail_msg("%s\n%s", ptx_error_message(), text);
    for (unsigned k = 0; k < 3; k++)
        ptx_buffer_destroy(&buffers[k]);
    ptx_builder_destroy(&b);
}

static ptx_builder *builder_at(int sm)
{
    return ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = sm } });
}

static bool runs(int sm)
{
    return ptx_device_get_info(gpu.device)->sm >= sm;
}

// ---- products -----------------------------------------------------------------------------------

enum { DOWN = ROWS / 16, ACROSS = COLUMNS / 8 };

static struct image image_a(const struct shape *s, struct way way)
{
    return way.trans ? image_of(s->a, 2 * s->k, ROWS) : image_of(s->a, ROWS, 2 * s->k);
}

static struct image image_b(const struct shape *s, struct way way)
{
    return way.trans ? image_of(s->b, 2 * s->k, COLUMNS) : image_of(s->b, COLUMNS, 2 * s->k);
}

// The fragments at depth d, each by itself: `step` is from one to the next along its side.
static void load_each(ptx_builder *b, ptx_fragment_role role, const struct image *m, ptx_ptr p,
                      const struct shape *s, struct way way, ptx_val stride, unsigned d,
                      unsigned count, ptx_fragment *to)
{
    const unsigned step = role == PTX_FRAGMENT_A ? 16 : 8;

    for (unsigned f = 0; f < count; f++) {
        const unsigned at = way.trans ? d * m->stride + f * step : f * step * m->stride + d;
        to[f] =
            ptx_fragment_load(b, role, m->type, s->k, ptx_at(b, p, at), stride, .trans = way.trans);
    }
}

static void load_all(ptx_builder *b, const struct image *m, ptx_matrix from, struct way way,
                     bool is_a, ptx_val zero, unsigned d, unsigned count, ptx_fragment *to)
{
    if (way.runtime && d) { // a stage of a buffer
        ptx_val stage = ptx_add(b, zero, way.trans ? d * m->stride : d);
        from = ptx_matrix_at(b, from, stage);
        d = 0;
    }
    ptx_matrix_load(b, from, is_a ? 0 : d, is_a ? d : 0, count, to);
}

static void out_matrix(ptx_builder *b, ptx_matrix to, const ptx_fragment *sums)
{
    for (unsigned m = 0; m < DOWN; m++)
        ptx_matrix_store(b, to, 16 * m, 0, ACROSS, &sums[m * ACROSS]);
}

static void write_product(ptx_builder *b, const struct shape *s, struct way way)
{
    const struct image a = image_a(s, way), w = image_b(s, way);
    ptx_fragment x[DOWN], y[ACROSS], sums[DOWN * ACROSS];

    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr left = copied(b, "a", a), right = copied(b, "b", w);
        ptx_ptr out = ptx_param_ptr(b, s->c, "out", .writeonly = true);
        ptx_val zero = way.runtime ? ptx_param(b, PTX_U32, "zero") : ptx_u32(0);
        ptx_val down = ptx_u32(a.stride), across = ptx_u32(w.stride);
        ptx_barrier(b);
        if (way.runtime) {
            down = ptx_var(b, ptx_add(b, zero, down));
            across = ptx_add(b, zero, across);
        }
        ptx_matrix rows = { .role = 0 }, columns = { .role = 0 };
        if (!way.each) {
            rows = ptx_matrix_from(b, PTX_FRAGMENT_A, s->a, s->k, left, down, .trans = way.trans);
            columns =
                ptx_matrix_from(b, PTX_FRAGMENT_B, s->b, s->k, right, across, .trans = way.trans);
        }
        if (way.runtime && !way.each)
            ptx_set(b, down, 0); // the matrix has what it was made of
        for (unsigned f = 0; f < DOWN * ACROSS; f++)
            sums[f] = ptx_fragment_fill(b, ptx_zero(s->c));
        for (unsigned d = 0; d < 2 * s->k; d += s->k) {
            if (way.each) {
                load_each(b, PTX_FRAGMENT_A, &a, left, s, way, down, d, DOWN, x);
                load_each(b, PTX_FRAGMENT_B, &w, right, s, way, across, d, ACROSS, y);
            } else {
                load_all(b, &a, rows, way, true, zero, d, DOWN, x);
                load_all(b, &w, columns, way, false, zero, d, ACROSS, y);
            }
            for (unsigned f = 0; f < DOWN * ACROSS; f++)
                sums[f] = ptx_mma(b, x[f / ACROSS], y[f % ACROSS], sums[f]);
        }
        ptx_val apart = way.runtime ? ptx_add(b, zero, COLUMNS) : ptx_u32(COLUMNS);
        for (unsigned f = 0; way.each && f < DOWN * ACROSS; f++)
            ptx_fragment_store(b, sums[f],
                               ptx_at(b, out, f / ACROSS * 16 * COLUMNS + f % ACROSS * 8), apart);
        if (!way.each)
            out_matrix(b, ptx_matrix_from(b, PTX_FRAGMENT_C, s->c, 0, out, apart), sums);
    }
}

static void multiply(const struct shape *s, struct way way)
{
    static unsigned char a[MOST_BYTES], w[MOST_BYTES], out[ROWS * COLUMNS * 8 + 8];
    const struct image at = image_a(s, way), by = image_b(s, way);
    ptx_builder *b = builder_at(s->sm);

    for (unsigned k = 0; k < 2 * s->k; k++) {
        for (unsigned i = 0; i < ROWS; i++)
            put_whole(s->a, whole(s->a, i, k),
                      a + (way.trans ? k * at.stride + i : i * at.stride + k) * bytes_of(s->a));
        for (unsigned j = 0; j < COLUMNS; j++)
            put_whole(s->b, whole(s->b, 3 * j, k),
                      w + (way.trans ? k * by.stride + j : j * by.stride + k) * bytes_of(s->b));
    }
    write_product(b, s, way);
    run(b, (struct data) { a, w, at.bytes, by.bytes, out, ROWS * COLUMNS * ptx_type_bytes(s->c),
                           way.runtime });
    for (unsigned i = 0; i < ROWS; i++)
        for (unsigned j = 0; j < COLUMNS; j++) {
            int sum = 0;
            for (unsigned k = 0; k < 2 * s->k; k++)
                sum += whole(s->a, i, k) * whole(s->b, 3 * j, k);
            const double got = get_number(s->c, out + (i * COLUMNS + j) * ptx_type_bytes(s->c));
            if (got != sum)
                fail_msg("%s, k = %u, sm_%d%s%s%s: row %u, column %u: %g, not %d",
                         ptx_type_name(s->a), s->k, s->sm, way.trans ? ", .trans" : "",
                         way.each ? ", each" : "", way.runtime ? ", runtime" : "", i, j, got, sum);
        }
}

TEST(products_of_every_shape)
{
    for (unsigned k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (unsigned way = 0; way < 8 && runs(shapes[k].sm); way++) {
            const struct way how = { way & 1, way & 2, way & 4 };
            if (!how.trans || fragment_bits(shapes[k].a) == 16 || shapes[k].a == PTX_F64)
                multiply(&shapes[k], how);
        }
}

// ---- sums in shared memory ----------------------------------------------------------------------

// An odd number of fragments a row and a column on, by tiles where sm_90 has them; what is around
// them stays as it is.
static void write_stored(ptx_builder *b, ptx_type of, struct image m, bool runtime)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr shared = ptx_ptr_cast(b, m.type, copied(b, "a", m));
        ptx_ptr out = ptx_param_ptr(b, PTX_B32, "out");
        ptx_val zero = runtime ? ptx_param(b, PTX_U32, "zero") : ptx_u32(0);
        ptx_fragment sums[ACROSS - 2];
        ptx_barrier(b);
        for (unsigned f = 0; f < ACROSS - 2; f++) { // word w of lane l has 4 l + w + 8 f
            ptx_vec x = { .lanes = 4 };
            for (unsigned w = 0; w < 4; w++)
                x.lane[w] = ptx_cvt(b, of == PTX_F16 ? PTX_F32 : of,
                                    ptx_mad(b, ptx_laneid(b), 4, w + 8 * f));
            if (of == PTX_F16)
                x = ptx_vec2(ptx_cvt_pack(b, PTX_F16X2, x.lane[0], x.lane[1]),
                             ptx_cvt_pack(b, PTX_F16X2, x.lane[2], x.lane[3]));
            sums[f] = ptx_fragment_from(b, PTX_FRAGMENT_C, of, 0, x);
        }
        ptx_matrix to = ptx_matrix_from(b, PTX_FRAGMENT_C, of, 0, shared,
                                        runtime ? ptx_add(b, zero, m.stride) : ptx_u32(m.stride));
        if (runtime)
            to = ptx_matrix_at(b, to, ptx_add(b, zero, 8));
        ptx_matrix_store(b, to, 16, runtime ? 0 : 8, ACROSS - 2, sums);
        ptx_barrier(b);
        ptx_for (b, i, ptx_laneid(b), m.bytes / 4, 32)
            ptx_store(b, out, i, ptx_load(b, ptx_ptr_cast(b, PTX_B32, shared), i));
    }
}

TEST(sums_are_stored_in_shared_memory)
{
    static const struct {
        ptx_type of, memory;
    } rows[] = { { PTX_F32, PTX_F32 }, { PTX_F32, PTX_BF16 }, { PTX_F32, PTX_F16 },
                 { PTX_F16, PTX_F16 }, { PTX_S32, PTX_S32 },  { PTX_F64, PTX_F64 } };
    static unsigned char before[MOST_BYTES], after[MOST_BYTES];

    memset(before, 0, sizeof before);
    for (unsigned way = 0; way < 4 * (sizeof rows / sizeof *rows); way++) {
        const ptx_type of = rows[way / 4].of, type = rows[way / 4].memory;
        const struct image m = image_of(type, ROWS, COLUMNS);
        const int sm = way & 1 ? 90 : 80;
        if (!runs(sm))
            continue;
        ptx_builder *b = builder_at(sm);
        write_stored(b, of, m, way & 2);
        run(b,
            (struct data) {
                .a = before, .a_bytes = m.bytes, .out = after, .bytes = m.bytes, .zero = way & 2 });
        for (unsigned i = 0; i < ROWS * m.stride; i++) {
            const unsigned row = i / m.stride, column = i % m.stride;
            const bool inside = row >= 16 && column >= 8 && column < 8 * (ACROSS - 1);
            const unsigned lane = row % 8 * 4 + column % 8 / 2;
            const unsigned x = 4 * lane + row % 16 / 8 * 2 + column % 2 + 8 * (column / 8 - 1);
            const double got = type == PTX_BF16
                                   ? bf16_to_f64((uint16_t)(after[2 * i] | after[2 * i + 1] << 8))
                                   : get_number(type, after + i * bytes_of(type));
            if (got != (inside ? x : 0))
                fail_msg("%s as %s, way %u: row %u, column %u: %g", ptx_type_name(of),
                         ptx_type_name(type), way, row, column, got);
        }
    }
}

// ---- a sum as a factor --------------------------------------------------------------------------

// out[16][8] = (q[16][16] k[16][16]^T) v[16][8], the first product in `sum`, the second in steps of
// `depth`.
static void write_chain(ptx_builder *b, ptx_type type, ptx_type sum, unsigned depth)
{
    const struct image rows = image_of(type, 32, 16), columns = image_of(type, 16, 8);
    ptx_fragment x, y[2], s[2];

    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr qk = copied(b, "a", rows), v = copied(b, "b", columns);
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_barrier(b);
        ptx_matrix q = ptx_matrix_from(b, PTX_FRAGMENT_A, type, 16, qk, rows.stride);
        ptx_matrix k = ptx_matrix_from(b, PTX_FRAGMENT_B, type, 16, ptx_at(b, qk, 16 * rows.stride),
                                       rows.stride);
        ptx_matrix values =
            ptx_matrix_from(b, PTX_FRAGMENT_B, type, depth, v, columns.stride, .trans = true);
        ptx_matrix_load(b, q, 0, 0, 1, &x);
        ptx_matrix_load(b, k, 0, 0, 2, y);
        for (unsigned n = 0; n < 2; n++)
            s[n] = ptx_mma(b, x, y[n], ptx_fragment_fill(b, ptx_zero(sum)));
        ptx_fragment o = ptx_fragment_fill(b, ptx_f32(0));
        for (unsigned j = 0; j < 16; j += depth) {
            ptx_matrix_load(b, values, j, 0, 1, y);
            o = ptx_mma(b, ptx_fragment_to_a(b, type, depth, &s[j / 8]), y[0], o);
        }
        ptx_fragment_store(b, o, out, 8);
    }
}

static int small(unsigned i, unsigned j)
{
    return (int)((5 * i + 3 * j + i * j % 3) % 3) - 1;
}

TEST(sums_are_factors)
{
    static const struct {
        ptx_type type, sum;
        unsigned depth;
    } rows[] = { { PTX_BF16, PTX_F32, 16 }, { PTX_BF16, PTX_F32, 8 }, { PTX_F16, PTX_F32, 16 },
                 { PTX_F16, PTX_F32, 8 },   { PTX_F16, PTX_F16, 16 }, { PTX_F16, PTX_F16, 8 } };
    static unsigned char qk[32 * 24 * 2], v[16 * 16 * 2];
    float out[16][8];

    for (unsigned r = 0; r < sizeof rows / sizeof *rows && runs(80); r++) {
        for (unsigned i = 0; i < 32 * 16; i++)
            put_whole(rows[r].type, small(i / 16, i % 16), qk + (i / 16 * 24 + i % 16) * 2);
        for (unsigned i = 0; i < 16 * 8; i++)
            put_whole(rows[r].type, small(i % 8, i / 8), v + (i / 8 * 16 + i % 8) * 2);
        ptx_builder *b = builder_at(80);
        write_chain(b, rows[r].type, rows[r].sum, rows[r].depth);
        run(b, (struct data) { qk, v, sizeof qk, sizeof v, out, sizeof out, false });
        for (unsigned i = 0; i < 16; i++)
            for (unsigned j = 0; j < 8; j++) {
                int sum = 0;
                for (unsigned n = 0; n < 16; n++) {
                    int s = 0;
                    for (unsigned d = 0; d < 16; d++)
                        s += small(i, d) * small(16 + n, d);
                    sum += s * small(j, n);
                }
                if (out[i][j] != (float)sum)
                    fail_msg("case %u, row %u, column %u: %g, not %d", r, i, j, (double)out[i][j],
                             sum);
            }
    }
}

// ---- the layout ---------------------------------------------------------------------------------

enum { MOST_WORDS = 8 };

// Each lane writes the words of a fragment.
static unsigned write_words(ptx_builder *b, ptx_fragment_role role, ptx_type type, unsigned k,
                            struct image m, bool trans)
{
    unsigned count = 0;

    ptx_entry (b, "k", .block = { 32 }) {
        ptx_ptr p = copied(b, "a", m);
        ptx_ptr out = ptx_param_ptr(b, PTX_U64, "out");
        ptx_barrier(b);
        ptx_fragment f = ptx_fragment_load(b, role, type, k, p, m.stride, .trans = trans);
        ptx_vec words = ptx_fragment_words(b, f);
        ptx_ptr own = ptx_at(b, out, ptx_mul(b, ptx_laneid(b), MOST_WORDS));
        count = words.lanes;
        for (unsigned w = 0; w < count; w++) {
            const bool wide = type == PTX_F64;
            ptx_val word = ptx_bitcast(b, wide ? PTX_U64 : PTX_U32, words.lane[w]);
            ptx_store(b, own, w, wide ? word : ptx_cvt(b, PTX_U64, word));
        }
    }
    return count;
}

static void compare_words(ptx_fragment_role role, ptx_type type, unsigned k, bool trans, int sm)
{
    const unsigned side = role == PTX_FRAGMENT_A ? 16 : 8, bytes = bytes_of(type);
    const struct image m = trans ? image_of(type, k, side) : image_of(type, side, k);
    unsigned char memory[16 * (16 * 8 + PAD)];
    uint64_t out[32][MOST_WORDS];

    for (unsigned k8 = 0; k8 < sizeof memory; k8++)
        memory[k8] = (unsigned char)(k8 * 167 + k8 / 256 * 59 + 13);
    ptx_builder *b = builder_at(sm);
    const unsigned words = write_words(b, role, type, k, m, trans);
    run(b, (struct data) { .a = memory, .a_bytes = m.bytes, .out = out, .bytes = sizeof out });
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned w = 0; w < words; w++) {
            uint64_t want = 0;
            for (unsigned part = 0; part < fragment_parts(type); part++) {
                const struct fragment_place at = fragment_place(role, type, lane, w, part);
                const bool down = (role == PTX_FRAGMENT_A) != trans;
                const unsigned row = down ? at.row : at.column, column = down ? at.column : at.row;
                for (unsigned n = 0; n < bytes; n++)
                    want |= (uint64_t)memory[(row * m.stride + column) * bytes + n]
                            << 8 * (part * bytes + n);
            }
            if (out[lane][w] != want)
                fail_msg("role %d of %s, k = %u%s: lane %u, word %u", role, ptx_type_name(type), k,
                         trans ? ", .trans" : "", lane, w);
        }
}

TEST(words_are_where_the_page_says)
{
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned way = 0; way < 4 && runs(shapes[s].sm); way++) {
            const ptx_type type = way < 2 ? shapes[s].a : shapes[s].b;
            if (way % 2 == 0 || fragment_bits(type) == 16 || type == PTX_F64)
                compare_words(way < 2 ? PTX_FRAGMENT_A : PTX_FRAGMENT_B, type, shapes[s].k,
                              way % 2 == 1, shapes[s].sm);
        }
}

// Word w of lane l of C is 16 l + 2 w, and its second half one more.
TEST(words_of_c_are_where_the_page_says)
{
    static const ptx_type types[] = { PTX_F32, PTX_S32, PTX_F64, PTX_F16 };
    unsigned char out[16 * 8 * 8 + 8];

    for (unsigned t = 0; t < 4 && runs(80); t++) {
        const ptx_type type = types[t], whole_type = type == PTX_F16 ? PTX_F32 : type;
        const unsigned bytes = ptx_type_bytes(type);
        ptx_builder *b = builder_at(80);
        ptx_vec words = { .lanes = type == PTX_F16 ? 2 : 4 };
        ptx_entry (b, "k", .block = { 32 }) {
            ptx_ptr to = ptx_param_ptr(b, type, "out");
            ptx_val first = ptx_mul(b, ptx_laneid(b), 16);
            for (unsigned w = 0; w < words.lanes; w++) {
                ptx_val x = ptx_cvt(b, whole_type, ptx_add(b, first, 2 * w));
                ptx_val next = ptx_cvt(b, whole_type, ptx_add(b, first, 2 * w + 1));
                words.lane[w] = type == PTX_F16 ? ptx_cvt_pack(b, PTX_F16X2, x, next) : x;
            }
            ptx_fragment c = ptx_fragment_from(b, PTX_FRAGMENT_C, type, 0, words);
            ptx_fragment_store(b, c, to, 8);
        }
        run(b, (struct data) { .out = out, .bytes = 16 * 8 * bytes });
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned w = 0; w < words.lanes; w++)
                for (unsigned part = 0; part < (type == PTX_F16 ? 2 : 1); part++) {
                    const struct fragment_place at =
                        fragment_place(PTX_FRAGMENT_C, type, lane, w, part);
                    const double got = get_number(type, out + (at.row * 8 + at.column) * bytes);
                    if (got != 16 * lane + 2 * w + part)
                        fail_msg("%s: lane %u, word %u, part %u: %g", ptx_type_name(type), lane, w,
                                 part, got);
                }
    }
}

GPU_MAIN

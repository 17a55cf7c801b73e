// SPDX-License-Identifier: MIT
// Products of random and corner tiles through the builder's fragments: cp.async to shared memory,
// ldmatrix, mma, and a store of the result. Each result is compared with plain C: the rule of
// reference/mma.h for this GPU, or exact integers. Prints a line for each shape, with a hash of all
// result bits, as op_record does. The products of mma_text.h come after them, a tenth of the tiles
// if there are many.
//
//     mma_record [-n TILES] [-j THREADS] [-o FILE]   writes the lines to standard output or FILE
//     mma_record [-n TILES] [-j THREADS] -c LINES    compares with the lines of a file
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mma_text.h"
#include "random.h"
#include "recording.h"
#include "reference/mma.h"

#define PROGRAM "mma_record"
#include "die.h"

enum { ROWS = 16, COLUMNS = 8, MOST_K = 32, BATCH = 256 };

static const struct shape {
    const char *name;
    ptx_type a, b, c;
    unsigned k;
    bool satfinite;
} shapes[] = {
    { "m16n8k8.f32.f16", PTX_F16, PTX_F16, PTX_F32, 8, false },
    { "m16n8k8.f16.f16", PTX_F16, PTX_F16, PTX_F16, 8, false },
    { "m16n8k16.f32.f16", PTX_F16, PTX_F16, PTX_F32, 16, false },
    { "m16n8k16.f16.f16", PTX_F16, PTX_F16, PTX_F16, 16, false },
    { "m16n8k8.f32.bf16", PTX_BF16, PTX_BF16, PTX_F32, 8, false },
    { "m16n8k16.f32.bf16", PTX_BF16, PTX_BF16, PTX_F32, 16, false },
    { "m16n8k4.f32.tf32", PTX_TF32, PTX_TF32, PTX_F32, 4, false },
    { "m16n8k8.f32.tf32", PTX_TF32, PTX_TF32, PTX_F32, 8, false },
    { "m16n8k16.s32.s8.u8", PTX_S8, PTX_U8, PTX_S32, 16, false },
    { "m16n8k32.s32.u8.s8.satfinite", PTX_U8, PTX_S8, PTX_S32, 32, true },
};

static unsigned element_bytes(const struct shape *s)
{
    return ptx_type_bytes(s->a);
}

// ---- the kernel ---------------------------------------------------------------------------------

// The lanes copy `bytes` of a tile of `elements`, 16 bytes each.
static ptx_ptr copy_tile(ptx_builder *b, ptx_type type, const char *name, unsigned bytes)
{
    ptx_ptr from = ptx_param_ptr(b, PTX_B32, name);
    ptx_ptr to = ptx_shared(b, PTX_B32, bytes / 4);
    ptx_val chunk = ptx_mul(b, ptx_laneid(b), 4);
    ptx_val first = ptx_mul(b, ptx_ctaid(b, PTX_X), ptx_u32(bytes / 4));

    ptx_if (b, ptx_lt(b, chunk, ptx_u32(bytes / 4)))
        ptx_cp_async(b, ptx_at(b, to, chunk), ptx_at(b, from, ptx_add(b, first, chunk)), 16,
                     .bypass = true);
    return ptx_ptr_cast(b, type, to);
}

static ptx_fragment load_sums(ptx_builder *b, const struct shape *s)
{
    ptx_ptr c = ptx_param_ptr(b, s->c, "c");
    ptx_val lane = ptx_laneid(b), row = ptx_shr(b, lane, 2);
    ptx_val column = ptx_shl(b, ptx_and(b, lane, 3), 1);
    ptx_ptr at = ptx_at(b, c, ptx_mul(b, ptx_ctaid(b, PTX_X), ptx_u32(ROWS * COLUMNS)));
    ptx_vec words = { .lanes = 0 };

    for (unsigned half = 0; half < 2; half++) {
        ptx_val first = ptx_mad(b, ptx_add(b, row, ptx_u32(8 * half)), COLUMNS, column);
        ptx_vec pair = ptx_load_vec(b, at, first, 2);
        if (s->c == PTX_F16) {
            words.lane[words.lanes++] = ptx_pack(b, PTX_F16X2, pair);
            continue;
        }
        words.lane[words.lanes++] = pair.lane[0];
        words.lane[words.lanes++] = pair.lane[1];
    }
    return ptx_fragment_from(b, PTX_FRAGMENT_C, s->c, 0, words);
}

static void write_kernel(ptx_builder *b, const struct shape *s)
{
    const unsigned row = s->k * element_bytes(s);

    ptx_entry (b, "product", .block = { 32 }) {
        ptx_ptr a = copy_tile(b, s->a, "a", ROWS * row),
                bt = copy_tile(b, s->b, "b", COLUMNS * row);
        ptx_cp_async_commit(b);
        ptx_cp_async_wait(b, 0);
        ptx_barrier(b);
        ptx_fragment x = ptx_fragment_load(b, PTX_FRAGMENT_A, s->a, s->k, a, ptx_u32(s->k));
        ptx_fragment y = ptx_fragment_load(b, PTX_FRAGMENT_B, s->b, s->k, bt, ptx_u32(s->k));
        ptx_fragment d = ptx_mma(b, x, y, load_sums(b, s), .satfinite = s->satfinite);
        ptx_val tile = ptx_mul(b, ptx_ctaid(b, PTX_X), ptx_u32(ROWS * COLUMNS));
        ptx_fragment_store(b, d, ptx_at(b, ptx_param_ptr(b, s->c, "out"), tile), COLUMNS);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

struct tile {
    uint32_t a[ROWS][MOST_K], b[COLUMNS][MOST_K], c[ROWS][COLUMNS];
};

static uint32_t random_element(struct random *r, ptx_type type, unsigned kind)
{
    static const uint32_t f16[] = { 0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x7bff, 1, 0x0400 };
    static const uint32_t f32[] = { 0,          0x80000000, 0x7f800000, 0xff800000,
                                    0x7fc00001, 0x7f7fffff, 0x00002000, 0x00800000 };
    const uint32_t bits = (uint32_t)random_u64(r);
    const unsigned half = type == PTX_F16 || type == PTX_BF16;

    if (type == PTX_S8 || type == PTX_U8)
        return kind == 1 ? 0x7f + (bits & 1) : bits & 0xff;
    if (type == PTX_S32)
        return kind == 1 ? UINT32_C(0x7fffff00) | (bits & 0xff) : bits;
    if (kind == 0) // near each other, so that sums cancel
        return type == PTX_F16    ? (bits & 0x83ff) | 0x3800 | (bits >> 16 & 0x0400)
               : type == PTX_BF16 ? (bits & 0x807f) | 0x3f00 | (bits >> 16 & 0x0080)
                                  : (bits & 0x807fffff) | 0x3f000000;
    if (kind == 1 && bits >> 29 == 0)
        return type == PTX_F16 ? f16[bits & 7] : half ? f32[bits & 7] >> 16 : f32[bits & 7];
    if (kind == 2 && bits >> 30 == 0)
        return 0;
    return half ? bits & 0xffff : bits;
}

static void fill(struct random *r, const struct shape *s, struct tile *t)
{
    const unsigned kind = (unsigned)random_below(r, 4);

    for (unsigned i = 0; i < ROWS; i++)
        for (unsigned k = 0; k < s->k; k++)
            t->a[i][k] = random_element(r, s->a, kind);
    for (unsigned j = 0; j < COLUMNS; j++)
        for (unsigned k = 0; k < s->k; k++)
            t->b[j][k] = random_element(r, s->b, kind);
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        t->c[i / COLUMNS][i % COLUMNS] = random_element(r, s->c, kind);
}

static int64_t byte_value(ptx_type type, uint32_t x)
{
    return type == PTX_S8 && x > 127 ? (int64_t)x - 256 : (int64_t)x;
}

static uint32_t wanted(int sm, const struct shape *s, const struct tile *t, unsigned row,
                       unsigned column)
{
    const uint32_t *a = t->a[row], *b = t->b[column], c = t->c[row][column];

    if (s->c == PTX_S32) {
        int64_t sum = (int32_t)c;
        for (unsigned k = 0; k < s->k; k++)
            sum += byte_value(s->a, a[k]) * byte_value(s->b, b[k]);
        if (s->satfinite)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        return (uint32_t)sum;
    }
    return mma_dot(sm,
                   s->a == PTX_F16    ? MMA_F16
                   : s->a == PTX_BF16 ? MMA_BF16
                                      : MMA_TF32,
                   s->c == PTX_F16 ? MMA_F16 : MMA_F32, a, b, s->k, c);
}

// ---- running ------------------------------------------------------------------------------------

struct run {
    ptx_device *gpu;
    struct recording recording;
    unsigned tiles, jobs;
    atomic_uint differences;
};

// A thread that takes batches of a shape, with memory of its own.
struct worker {
    struct run *run;
    const struct shape *shape;
    const struct mma_text *text; // or this one
    const ptx_function *function;
    atomic_uint *next;
    uint64_t hash; // the sum over its batches
    pthread_t thread;
    CUstream stream;
    ptx_buffer *in[3], *out;
    struct tile tiles[BATCH];
    unsigned char bytes[BATCH * ROWS * MOST_K * 4];
    uint32_t words[BATCH][MMA_LANES][MMA_TEXT_IN], results[BATCH][MMA_LANES][MMA_TEXT_OUT];
    uint32_t want[BATCH][MMA_LANES][MMA_TEXT_OUT];
};

static void put(unsigned char *to, unsigned bytes, uint32_t x)
{
    for (unsigned k = 0; k < bytes; k++)
        to[k] = (unsigned char)(x >> 8 * k);
}

// Puts the tiles' elements, `rows` x `columns` each from `from` words within a tile on, into a
// buffer.
static void upload(struct worker *w, unsigned tiles, unsigned which, size_t from, unsigned rows,
                   unsigned columns, unsigned pitch, unsigned size)
{
    unsigned char *to = w->bytes;

    for (unsigned n = 0; n < tiles; n++) {
        const uint32_t *words = (const uint32_t *)&w->tiles[n] + from;
        for (unsigned i = 0; i < rows; i++)
            for (unsigned k = 0; k < columns; k++, to += size)
                put(to, size, words[i * pitch + k]);
    }
    check(ptx_buffer_upload(w->in[which], 0, w->bytes, (size_t)(to - w->bytes), w->stream));
    check(ptx_stream_synchronize(w->run->gpu, w->stream));
}

static void launch(struct worker *w, unsigned tiles)
{
    const struct shape *s = w->shape;
    const unsigned size = element_bytes(s), sum = ptx_type_bytes(s->c);
    CUdeviceptr at[] = { ptx_buffer_address(w->in[0]), ptx_buffer_address(w->in[1]),
                         ptx_buffer_address(w->in[2]), ptx_buffer_address(w->out) };
    struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]), PTX_ARG(at[2]), PTX_ARG(at[3]) };
    const struct ptx_launch_params params = {
        .grid = { tiles }, .stream = w->stream, .args = args, .arg_count = 4
    };

    upload(w, tiles, 0, offsetof(struct tile, a) / 4, ROWS, s->k, MOST_K, size);
    upload(w, tiles, 1, offsetof(struct tile, b) / 4, COLUMNS, s->k, MOST_K, size);
    upload(w, tiles, 2, offsetof(struct tile, c) / 4, ROWS, COLUMNS, COLUMNS, sum);
    check(ptx_launch(w->function, &params));
    check(
        ptx_buffer_download(w->out, 0, w->bytes, (size_t)tiles * ROWS * COLUMNS * sum, w->stream));
    check(ptx_stream_synchronize(w->run->gpu, w->stream));
}

// Runs the first `count` tiles of a batch and compares them. Returns the hash of their bits.
static uint64_t run_batch(struct worker *w, unsigned batch, unsigned count)
{
    const struct shape *s = w->shape;
    const unsigned sum = ptx_type_bytes(s->c);
    const int sm = ptx_device_get_info(w->run->gpu)->sm;
    struct random random = { 2511 + (uint64_t)batch };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    random.state = random_u64(&random);
    for (unsigned n = 0; n < count; n++)
        fill(&random, s, &w->tiles[n]);
    launch(w, count);
    for (unsigned i = 0; i < count * ROWS * COLUMNS; i++) {
        const struct tile *t = &w->tiles[i / (ROWS * COLUMNS)];
        const unsigned row = i / COLUMNS % ROWS, column = i % COLUMNS;
        const uint32_t want = wanted(sm, s, t, row, column);
        uint32_t got = 0;
        for (unsigned k = 0; k < sum; k++) {
            got |= (uint32_t)w->bytes[i * sum + k] << 8 * k;
            hash = (hash ^ w->bytes[i * sum + k]) * UINT64_C(0x100000001b3); // FNV-1a
        }
        if (got != want && atomic_fetch_add(&w->run->differences, 1) < 20)
            printf("%s: row %u, column %u: %08" PRIx32 ", plain C gives %08" PRIx32 "\n", s->name,
                   row, column, got, want);
    }
    return hash;
}

// The same for a product of mma_text.h.
static uint64_t run_text_batch(struct worker *w, unsigned batch, unsigned count)
{
    const struct mma_text *s = w->text;
    const int sm = ptx_device_get_info(w->run->gpu)->sm;
    struct random random = { 2511 + (uint64_t)batch };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    CUdeviceptr at[] = { ptx_buffer_address(w->in[0]), ptx_buffer_address(w->out) };
    struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]) };
    const struct ptx_launch_params params = {
        .grid = { count }, .block = { MMA_LANES }, .stream = w->stream, .args = args, .arg_count = 2
    };

    random.state = random_u64(&random);
    for (unsigned n = 0; n < count; n++)
        mma_text_fill(&random, s, sm, w->words[n], w->want[n]);
    check(ptx_buffer_upload(w->in[0], 0, w->words, sizeof w->words, w->stream));
    check(ptx_launch(w->function, &params));
    check(ptx_buffer_download(w->out, 0, w->results, sizeof w->results, w->stream));
    check(ptx_stream_synchronize(w->run->gpu, w->stream));
    for (unsigned i = 0; i < count * MMA_LANES * mma_text_out(s); i++) {
        const unsigned n = i / (MMA_LANES * mma_text_out(s)), word = i % mma_text_out(s);
        const unsigned lane = i / mma_text_out(s) % MMA_LANES;
        const uint32_t got = w->results[n][lane][word], want = w->want[n][lane][word];
        for (unsigned k = 0; k < 4; k++)
            hash = (hash ^ (got >> 8 * k & 0xff)) * UINT64_C(0x100000001b3); // FNV-1a
        if (got != want && atomic_fetch_add(&w->run->differences, 1) < 20)
            printf("%s: lane %u, word %u: %08" PRIx32 ", plain C gives %08" PRIx32 "\n", s->name,
                   lane, word, got, want);
    }
    return hash;
}

static unsigned tiles_of(const struct run *r, bool text)
{
    return text && r->tiles > 10000 ? r->tiles / 10 : r->tiles;
}

static void *run_batches(void *context)
{
    struct worker *w = context;

    for (;;) {
        const unsigned batch = atomic_fetch_add(w->next, 1);
        const unsigned tiles = tiles_of(w->run, w->text != NULL);
        if (batch >= (tiles + BATCH - 1) / BATCH)
            return NULL;
        const unsigned left = tiles - batch * BATCH;
        const unsigned count = left < BATCH ? left : BATCH;
        w->hash += w->text ? run_text_batch(w, batch, count) : run_batch(w, batch, count);
    }
}

static void compare(struct run *r, const char *shape, unsigned tiles, uint64_t hash)
{
    char name[64];
    uint64_t known;

    snprintf(name, sizeof name, "%s/%u", shape, tiles);
    const char *line = recording_find(&r->recording, name);
    if (!line) {
        recording_add(&r->recording, name, "%016" PRIx64, hash);
    } else if (sscanf(line, "%" SCNx64, &known) != 1 || known != hash) {
        printf("%s: %016" PRIx64 ", the GPU gave%.17s\n", name, hash, line);
        r->differences++;
    }
}

// All batches of a shape or of a product of mma_text.h, by the kernel of the text.
static void run_module(struct run *r, struct worker *workers, const struct shape *s,
                       const struct mma_text *product, const char *text)
{
    atomic_uint next = 0;
    uint64_t hash = 0;

    ptx_module *module = ptx_module_load(r->gpu, text, NULL);
    const ptx_function *f = module ? ptx_module_function(module, "product") : NULL;
    if (!f)
        die("load", ptx_error_message());
    for (unsigned k = 0; k < r->jobs; k++) {
        struct worker *w = &workers[k];
        w->shape = s;
        w->text = product;
        w->function = f;
        w->next = &next;
        w->hash = 0;
        if (pthread_create(&w->thread, NULL, run_batches, w))
            die("pthread_create", "no thread");
    }
    for (unsigned k = 0; k < r->jobs; k++) {
        pthread_join(workers[k].thread, NULL);
        hash += workers[k].hash;
    }
    compare(r, product ? product->name : s->name, tiles_of(r, product != NULL), hash);
    ptx_module_unload(&module);
}

static void run_shape(struct run *r, struct worker *workers, const struct shape *s)
{
    struct ptx_target target = { 0 };

    ptx_target_newest(ptx_device_get_info(r->gpu)->sm, 0, &target);
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    write_kernel(b, s);
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    run_module(r, workers, s, NULL, text);
    ptx_builder_destroy(&b);
}

static void run_text(struct run *r, struct worker *workers, const struct mma_text *s)
{
    char text[8192];

    if (!mma_text_known(s, ptx_device_get_info(r->gpu)->sm))
        return;
    mma_text_write(s, text, sizeof text);
    run_module(r, workers, NULL, s, text);
}

static struct worker *workers_create(struct run *r)
{
    struct worker *workers = calloc(r->jobs, sizeof *workers);

    if (!workers)
        die("memory", "none left");
    for (unsigned k = 0; k < r->jobs; k++) {
        struct worker *w = &workers[k];
        w->run = r;
        for (unsigned i = 0; i < 3; i++)
            w->in[i] = ptx_buffer_create(r->gpu, sizeof w->words);
        w->out = ptx_buffer_create(r->gpu, sizeof w->results);
        if (!w->in[0] || !w->in[1] || !w->in[2] || !w->out)
            die("memory", ptx_error_message());
        w->stream = ptx_stream_create(r->gpu);
        if (!w->stream)
            die("stream", ptx_error_message());
    }
    return workers;
}

static void workers_destroy(struct run *r, struct worker *workers)
{
    for (unsigned k = 0; k < r->jobs; k++) {
        for (unsigned i = 0; i < 3; i++)
            ptx_buffer_destroy(&workers[k].in[i]);
        ptx_buffer_destroy(&workers[k].out);
        ptx_stream_destroy(r->gpu, &workers[k].stream);
    }
    free(workers);
}

int main(int argc, char **argv)
{
    static struct run r = { .tiles = 256, .jobs = 1 };

    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-n"))
            r.tiles = (unsigned)strtoul(argv[k + 1], NULL, 10);
        if (!strcmp(argv[k], "-j"))
            r.jobs = (unsigned)strtoul(argv[k + 1], NULL, 10);
    }
    r.gpu = ptx_device_open(NULL);
    if (!r.gpu || ptx_device_get_info(r.gpu)->sm < 80)
        return skipped("no GPU from sm_80 on: ", ptx_error_message());
    if (!recording_open_by(&r.recording, argc, argv))
        return 2;
    struct worker *workers = workers_create(&r);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        run_shape(&r, workers, &shapes[k]);
    for (size_t k = 0; k < mma_text_count; k++)
        run_text(&r, workers, &mma_texts[k]);
    workers_destroy(&r, workers);
    ptx_device_close(&r.gpu);
    if (!recording_close(&r.recording))
        die("the recording", "cannot be written");
    printf("%u results differ, %u tiles a shape\n", r.differences, r.tiles);
    return r.differences ? 1 : 0;
}

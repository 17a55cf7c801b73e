// SPDX-License-Identifier: MIT
// Products of random and corner tiles through the builder's fragments: cp.async to shared memory,
// ldmatrix, mma, and a store of the result. Each result is compared with plain C: the rule of
// reference/mma.h for this GPU, or exact integers. Prints a line for each shape, with a hash of all
// result bits, as op_record does.
//
//     mma_record [-n TILES] [-o FILE]              writes the lines to standard output or FILE
//     mma_record [-n TILES] -c LINES [-o FILE]     compares with the lines of a file
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    ptx_buffer *a, *b, *c, *out;
    struct recording recording;
    unsigned tiles, differences;
};

static void put(unsigned char *to, unsigned bytes, uint32_t x)
{
    for (unsigned k = 0; k < bytes; k++)
        to[k] = (unsigned char)(x >> 8 * k);
}

static void upload(struct run *r, const struct shape *s, const struct tile *tiles)
{
    static unsigned char a[BATCH * ROWS * MOST_K * 4], b[BATCH * COLUMNS * MOST_K * 4];
    static unsigned char c[BATCH * ROWS * COLUMNS * 4];
    const unsigned size = element_bytes(s), sum = ptx_type_bytes(s->c);

    for (unsigned n = 0; n < BATCH; n++) {
        for (unsigned i = 0; i < ROWS * s->k; i++)
            put(a + (n * ROWS * s->k + i) * size, size, tiles[n].a[i / s->k][i % s->k]);
        for (unsigned i = 0; i < COLUMNS * s->k; i++)
            put(b + (n * COLUMNS * s->k + i) * size, size, tiles[n].b[i / s->k][i % s->k]);
        for (unsigned i = 0; i < ROWS * COLUMNS; i++)
            put(c + (n * ROWS * COLUMNS + i) * sum, sum, tiles[n].c[i / COLUMNS][i % COLUMNS]);
    }
    check(ptx_buffer_upload(r->a, 0, a, BATCH * ROWS * s->k * size, NULL));
    check(ptx_buffer_upload(r->b, 0, b, BATCH * COLUMNS * s->k * size, NULL));
    check(ptx_buffer_upload(r->c, 0, c, BATCH * ROWS * COLUMNS * sum, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
}

// Runs a batch and compares its first `count` tiles. Returns the hash of their bits, begun with
// `hash`.
static uint64_t run_batch(struct run *r, const struct shape *s, const ptx_function *f,
                          const struct tile *tiles, unsigned count, uint64_t hash)
{
    static unsigned char out[BATCH * ROWS * COLUMNS * 4];
    const unsigned sum = ptx_type_bytes(s->c);
    const int sm = ptx_device_get_info(r->gpu)->sm;
    CUdeviceptr at[] = { ptx_buffer_address(r->a), ptx_buffer_address(r->b),
                         ptx_buffer_address(r->c), ptx_buffer_address(r->out) };
    struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]), PTX_ARG(at[2]), PTX_ARG(at[3]) };
    const struct ptx_launch_params launch = { .grid = { BATCH }, .args = args, .arg_count = 4 };

    upload(r, s, tiles);
    check(ptx_launch(f, &launch));
    check(ptx_buffer_download(r->out, 0, out, BATCH * ROWS * COLUMNS * sum, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
    for (unsigned i = 0; i < count * ROWS * COLUMNS; i++) {
        const struct tile *t = &tiles[i / (ROWS * COLUMNS)];
        const unsigned row = i / COLUMNS % ROWS, column = i % COLUMNS;
        const uint32_t want = wanted(sm, s, t, row, column);
        uint32_t got = 0;
        for (unsigned k = 0; k < sum; k++) {
            got |= (uint32_t)out[i * sum + k] << 8 * k;
            hash = (hash ^ out[i * sum + k]) * UINT64_C(0x100000001b3); // FNV-1a
        }
        if (got != want && r->differences++ < 20)
            printf("%s: row %u, column %u: %08" PRIx32 ", plain C gives %08" PRIx32 "\n", s->name,
                   row, column, got, want);
    }
    return hash;
}

static void compare(struct run *r, const struct shape *s, uint64_t hash)
{
    char name[64];
    uint64_t known;

    snprintf(name, sizeof name, "%s/%u", s->name, r->tiles);
    const char *line = recording_find(&r->recording, name);
    if (!line) {
        recording_add(&r->recording, name, "%016" PRIx64, hash);
    } else if (sscanf(line, "%" SCNx64, &known) != 1 || known != hash) {
        printf("%s: %016" PRIx64 ", the GPU gave%.17s\n", name, hash, line);
        r->differences++;
    }
}

static void run_shape(struct run *r, const struct shape *s)
{
    static struct tile tiles[BATCH];
    struct ptx_target target = { 0 };
    struct random random = { 2511 };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    ptx_target_newest(ptx_device_get_info(r->gpu)->sm, 0, &target);
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    write_kernel(b, s);
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    ptx_module *module = ptx_module_load(r->gpu, text, NULL);
    const ptx_function *f = module ? ptx_module_function(module, "product") : NULL;
    if (!f)
        die("load", ptx_error_message());
    for (unsigned done = 0; done < r->tiles; done += BATCH) {
        const unsigned count = r->tiles - done < BATCH ? r->tiles - done : BATCH;
        for (unsigned n = 0; n < BATCH; n++)
            fill(&random, s, &tiles[n]);
        hash = run_batch(r, s, f, tiles, count, hash);
    }
    compare(r, s, hash);
    ptx_module_unload(&module);
    ptx_builder_destroy(&b);
}

static ptx_buffer *buffer(struct run *r, size_t elements)
{
    ptx_buffer *made = ptx_buffer_create(r->gpu, BATCH * elements * 4);

    if (!made)
        die("memory", ptx_error_message());
    return made;
}

int main(int argc, char **argv)
{
    static struct run r = { .tiles = 256 };
    const char *known = NULL, *out = NULL;

    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-n"))
            r.tiles = (unsigned)strtoul(argv[k + 1], NULL, 10);
        if (!strcmp(argv[k], "-c"))
            known = argv[k + 1];
        if (!strcmp(argv[k], "-o"))
            out = argv[k + 1];
    }
    r.gpu = ptx_device_open(NULL);
    if (!r.gpu || ptx_device_get_info(r.gpu)->sm < 80) {
        fprintf(stderr, "mma_record: no GPU from sm_80 on: %s\n", ptx_error_message());
        return 77;
    }
    if (!recording_open(&r.recording, known, known || out ? out : "-"))
        return 2;
    r.a = buffer(&r, ROWS * MOST_K);
    r.b = buffer(&r, COLUMNS * MOST_K);
    r.c = buffer(&r, ROWS * COLUMNS);
    r.out = buffer(&r, ROWS * COLUMNS);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        run_shape(&r, &shapes[k]);
    ptx_buffer_destroy(&r.a);
    ptx_buffer_destroy(&r.b);
    ptx_buffer_destroy(&r.c);
    ptx_buffer_destroy(&r.out);
    ptx_device_close(&r.gpu);
    if (!recording_close(&r.recording))
        die(out, "cannot be written");
    printf("%u results differ, %u tiles a shape\n", r.differences, r.tiles);
    return r.differences ? 1 : 0;
}

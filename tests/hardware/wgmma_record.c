// SPDX-License-Identifier: MIT
// Products of warpgroups, of random and corner matrices in every layout of shared memory: the texts
// of wgmma_text.h, compared with plain C. Prints a line for each, with a hash of all result bits.
//
//     wgmma_record [-n BLOCKS] [-o FILE]   writes the lines to standard output or FILE
//     wgmma_record [-n BLOCKS] -c LINES    compares with the lines of a file
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "wgmma_text.h"

#define PROGRAM "wgmma_record"
#include "die.h"

enum { BATCH = 32 };

struct run {
    ptx_device *gpu;
    struct recording recording;
    unsigned blocks, differences;
    ptx_buffer *a, *b, *of_a, *sums, *out;
    uint32_t got[BATCH * WGMMA_THREADS * WGMMA_MOST_SUMS];
    uint32_t want[BATCH][WGMMA_THREADS][WGMMA_MOST_SUMS];
};

static void upload(const struct run *r, ptx_buffer *to, size_t at, const void *from, size_t bytes)
{
    check(ptx_buffer_upload(to, at, from, bytes, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
}

// Fills the buffers with the inputs of so many blocks. The rows of D have no gaps there.
static void fill(struct run *r, const struct wgmma_text *s, struct random *random, unsigned count)
{
    static struct wgmma_block in;
    const size_t row = 4 * wgmma_text_sums(s);

    for (unsigned n = 0; n < count; n++) {
        wgmma_text_fill(random, s, n, &in, r->want[n]);
        upload(r, r->a, n * sizeof in.a, in.a, sizeof in.a);
        upload(r, r->b, n * sizeof in.b, in.b, sizeof in.b);
        upload(r, r->of_a, n * sizeof in.of_a, in.of_a, sizeof in.of_a);
        for (unsigned k = 0; k < WGMMA_THREADS; k++)
            memcpy((unsigned char *)r->got + k * row, in.sums[k], row);
        upload(r, r->sums, n * WGMMA_THREADS * row, r->got, WGMMA_THREADS * row);
    }
}

static void compare_blocks(struct run *r, const struct wgmma_text *s, unsigned count,
                           uint64_t *hash)
{
    const unsigned sums = wgmma_text_sums(s);

    for (unsigned i = 0; i < count * WGMMA_THREADS * sums; i++) {
        const unsigned n = i / sums / WGMMA_THREADS, thread = i / sums % WGMMA_THREADS;
        const uint32_t got = r->got[i], want = r->want[n][thread][i % sums];
        for (unsigned k = 0; k < 4; k++)
            *hash = (*hash ^ (got >> 8 * k & 0xff)) * UINT64_C(0x100000001b3); // FNV-1a
        if (got != want && r->differences++ < 20)
            printf("%s: block %u, thread %u, register %u: %08" PRIx32 ", plain C gives %08" PRIx32
                   "\n",
                   s->name, n, thread, i % sums, got, want);
    }
}

static void run_blocks(struct run *r, const struct wgmma_text *s, const ptx_function *f,
                       unsigned batch, unsigned count, uint64_t *hash)
{
    const size_t bytes = (size_t)count * WGMMA_THREADS * wgmma_text_sums(s) * 4;
    CUdeviceptr at[] = { ptx_buffer_address(r->a), ptx_buffer_address(r->b),
                         ptx_buffer_address(r->of_a), ptx_buffer_address(r->sums),
                         ptx_buffer_address(r->out) };
    struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]), PTX_ARG(at[2]), PTX_ARG(at[3]),
                              PTX_ARG(at[4]) };
    const struct ptx_launch_params params = {
        .grid = { count }, .block = { WGMMA_THREADS }, .args = args, .arg_count = 5
    };
    struct random random = { 9064 + (uint64_t)batch };

    random.state = random_u64(&random);
    fill(r, s, &random, count);
    check(ptx_launch(f, &params));
    check(ptx_buffer_download(r->out, 0, r->got, bytes, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
    compare_blocks(r, s, count, hash);
}

static void run_text(struct run *r, const struct wgmma_text *s)
{
    static char text[65536];
    char name[64];
    uint64_t hash = UINT64_C(0xcbf29ce484222325), known;

    wgmma_text_write(s, text, sizeof text);
    ptx_module *module = ptx_module_load(r->gpu, text, NULL);
    const ptx_function *f = module ? ptx_module_function(module, "product") : NULL;
    if (!f)
        die(s->name, ptx_error_message());
    for (unsigned done = 0; done < r->blocks; done += BATCH) {
        const unsigned left = r->blocks - done;
        run_blocks(r, s, f, done / BATCH, left < BATCH ? left : BATCH, &hash);
    }
    ptx_module_unload(&module);
    snprintf(name, sizeof name, "%s/%u", s->name, r->blocks);
    const char *line = recording_find(&r->recording, name);
    if (!line) {
        recording_add(&r->recording, name, "%016" PRIx64, hash);
    } else if (sscanf(line, "%" SCNx64, &known) != 1 || known != hash) {
        printf("%s: %016" PRIx64 ", the GPU gave%.17s\n", name, hash, line);
        r->differences++;
    }
}

static ptx_buffer *buffer(struct run *r, size_t bytes)
{
    ptx_buffer *made = ptx_buffer_create(r->gpu, BATCH * bytes);

    if (!made)
        die("memory", ptx_error_message());
    return made;
}

int main(int argc, char **argv)
{
    static struct run r = { .blocks = 8 };

    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-n"))
            r.blocks = (unsigned)strtoul(argv[k + 1], NULL, 10);
    }
    r.gpu = ptx_device_open(NULL);
    if (!r.gpu)
        return skipped("no GPU: ", ptx_error_message());
    const int sm = ptx_device_get_info(r.gpu)->sm;
    if (sm != 90) {
        printf("the GPU is sm_%d: only sm_90 has wgmma\n", sm);
        ptx_device_close(&r.gpu);
        return 0;
    }
    if (!recording_open_by(&r.recording, argc, argv))
        return 2;
    r.a = buffer(&r, WGMMA_IMAGE_A);
    r.b = buffer(&r, WGMMA_IMAGE_B);
    r.of_a = buffer(&r, sizeof(uint32_t) * WGMMA_THREADS * WGMMA_MOST_A);
    r.sums = buffer(&r, sizeof(uint32_t) * WGMMA_THREADS * WGMMA_MOST_SUMS);
    r.out = buffer(&r, sizeof(uint32_t) * WGMMA_THREADS * WGMMA_MOST_SUMS);
    for (size_t k = 0; k < wgmma_text_count; k++)
        run_text(&r, &wgmma_texts[k]);
    ptx_buffer_destroy(&r.a);
    ptx_buffer_destroy(&r.b);
    ptx_buffer_destroy(&r.of_a);
    ptx_buffer_destroy(&r.sums);
    ptx_buffer_destroy(&r.out);
    ptx_device_close(&r.gpu);
    if (!recording_close(&r.recording))
        die("the recording", "cannot be written");
    printf("%u results differ, %u blocks a text\n", r.differences, r.blocks);
    return r.differences ? 1 : 0;
}

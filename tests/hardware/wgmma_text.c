// SPDX-License-Identifier: MIT
#include "wgmma_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mma_text.h"
#include "reference/mma.h"

// clang-format off
// Layouts of f16: for a swizzle the rows of a pattern, for MN-major from one pattern to the next.
#define K_PLAIN(lead, strd)     { 0, false, 0, lead, strd, 0 }
#define K_SWIZZLED(bytes)       { bytes, false, 0, 16, 8 * (bytes), 0 }
#define K_PART(bytes, at)       { bytes, false, at, 16, 8 * (bytes), 0 }
#define MN_PLAIN(lead, strd)    { 0, true, 0, lead, strd, 0 }
#define MN_SWIZZLED(bytes, next) { bytes, true, 0, next, 8 * (bytes), 0 }
const struct wgmma_text wgmma_texts[] = {
    { "n8.f32.f16", 8, 'h', 'h', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n64.f32.f16", 64, 'h', 'h', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n128.f32.f16.part", 128, 'h', 'h', 'f', 0, 0, 0, 0, K_PART(128, 32), K_PART(128, 96) },
    { "n256.f32.f16", 256, 'h', 'h', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n80.f32.f16.lead", 80, 'h', 'h', 'f', 0, 0, 0, 0, { 128, false, 0, 4096, 1024, 0 }, { 64, false, 0, 0, 512, 0 } },
    { "n24.f32.f16.64", 24, 'h', 'h', 'f', 0, 0, 0, 0, K_SWIZZLED(64), K_SWIZZLED(64) },
    { "n32.f32.f16.64.part", 32, 'h', 'h', 'f', 0, 0, 0, 0, K_PART(64, 32), K_PART(64, 32) },
    { "n40.f32.f16.32", 40, 'h', 'h', 'f', 0, 0, 0, 0, K_SWIZZLED(32), K_SWIZZLED(32) },
    { "n16.f32.f16.plain", 16, 'h', 'h', 'f', 0, 0, 0, 0, K_PLAIN(128, 256), K_PLAIN(128, 256) },
    { "n48.f32.f16.apart", 48, 'h', 'h', 'f', 0, 0, 0, 0, K_PLAIN(2048, 144), K_PLAIN(4096, 272) },
    { "n64.f32.f16.mn", 64, 'h', 'h', 'f', 0, 0, 0, 0, MN_SWIZZLED(128, 2048), MN_SWIZZLED(128, 2048) },
    { "n256.f32.f16.mn", 256, 'h', 'h', 'f', 0, 0, 0, 0, MN_SWIZZLED(128, 2048), MN_SWIZZLED(128, 4096) },
    { "n8.f32.f16.mn", 8, 'h', 'h', 'f', 0, 0, 0, 0, MN_SWIZZLED(64, 1024), MN_SWIZZLED(128, 2048) },
    { "n104.f32.f16.mn64", 104, 'h', 'h', 'f', 0, 0, 0, 0, MN_SWIZZLED(64, 1024), MN_SWIZZLED(64, 2048) },
    { "n72.f32.f16.mn32", 72, 'h', 'h', 'f', 0, 0, 0, 0, MN_SWIZZLED(32, 512), MN_SWIZZLED(32, 1024) },
    { "n56.f32.f16.mn.plain", 56, 'h', 'h', 'f', 0, 0, 0, 0, MN_PLAIN(128, 256), MN_PLAIN(2048, 144) },
    { "n128.f32.f16.negates", 128, 'h', 'h', 'f', 0, 1, 0, 0, K_SWIZZLED(128), MN_SWIZZLED(128, 2048) },
    { "n64.f32.f16.negates", 64, 'h', 'h', 'f', 0, 1, 1, 0, MN_SWIZZLED(128, 2048), K_SWIZZLED(64) },
    { "n64.f32.f16.registers", 64, 'h', 'h', 'f', 0, 0, 0, 1, K_PLAIN(0, 0), K_SWIZZLED(128) },
    { "n248.f32.f16.registers", 248, 'h', 'h', 'f', 0, 1, 1, 1, K_PLAIN(0, 0), MN_SWIZZLED(128, 2048) },
    { "n8.f16.f16", 8, 'h', 'h', 'h', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n96.f16.f16", 96, 'h', 'h', 'h', 0, 0, 1, 0, MN_SWIZZLED(128, 2048), K_SWIZZLED(32) },
    { "n256.f16.f16.registers", 256, 'h', 'h', 'h', 0, 0, 0, 1, K_PLAIN(0, 0), MN_SWIZZLED(64, 1024) },
    { "n64.f32.bf16", 64, 'y', 'y', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n176.f32.bf16.mn", 176, 'y', 'y', 'f', 0, 0, 1, 0, MN_SWIZZLED(128, 2048), MN_SWIZZLED(128, 2048) },
    { "n256.f32.bf16.registers", 256, 'y', 'y', 'f', 0, 0, 0, 1, K_PLAIN(0, 0), K_SWIZZLED(128) },
    { "n64.f32.tf32", 64, 't', 't', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n136.f32.tf32", 136, 't', 't', 'f', 0, 1, 0, 0, K_PLAIN(128, 256), K_SWIZZLED(64) },
    { "n32.f32.tf32.registers", 32, 't', 't', 'f', 0, 0, 1, 1, K_PLAIN(0, 0), K_SWIZZLED(32) },
    { "n64.s32.s8.u8", 64, 's', 'u', 'i', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n24.s32.u8.s8.satfinite", 24, 'u', 's', 'i', 1, 0, 0, 0, K_PLAIN(128, 256), K_SWIZZLED(32) },
    { "n112.s32.u8.s8.registers", 112, 'u', 's', 'i', 0, 0, 0, 1, K_PLAIN(0, 0), K_SWIZZLED(64) },
    { "n160.s32.s8.u8.satfinite", 160, 's', 'u', 'i', 1, 0, 0, 1, K_PLAIN(0, 0), K_SWIZZLED(128) },
    { "n64.f32.e4m3", 64, '4', '4', 'f', 0, 0, 0, 0, K_SWIZZLED(128), K_SWIZZLED(128) },
    { "n40.f32.e5m2", 40, '5', '5', 'f', 0, 1, 0, 0, K_PLAIN(128, 256), K_SWIZZLED(64) },
    { "n256.f32.e4m3.e5m2", 256, '4', '5', 'f', 0, 0, 1, 1, K_PLAIN(0, 0), K_SWIZZLED(128) },
    { "n64.f16.e4m3", 64, '4', '4', 'h', 0, 0, 0, 1, K_PLAIN(0, 0), K_SWIZZLED(32) },
    { "n64.f16.e5m2", 64, '5', '5', 'h', 0, 0, 0, 0, K_SWIZZLED(64), K_SWIZZLED(128) },
    { "n120.f16.e5m2.e4m3", 120, '5', '4', 'h', 0, 0, 1, 0, K_SWIZZLED(128), K_PLAIN(128, 256) },
    { "n32.f32.f16.base", 32, 'h', 'h', 'f', 0, 0, 0, 0, { 64, true, 384, 1024, 512, 3 }, { 128, false, 640, 16, 1024, 5 } },
    { "n64.f32.f16.base", 64, 'h', 'h', 'f', 0, 0, 0, 0, { 32, false, 128, 16, 256, 1 }, { 128, true, 256, 2048, 1024, 2 } },
};
// clang-format on
const size_t wgmma_text_count = sizeof wgmma_texts / sizeof *wgmma_texts;

static unsigned bits_of(const struct wgmma_text *s)
{
    return s->a_type == 't' ? 32 : strchr("su45", s->a_type) ? 8 : 16;
}

static unsigned depth_of(const struct wgmma_text *s)
{
    return 256 / bits_of(s);
}

static unsigned sum_bits(const struct wgmma_text *s)
{
    return s->sum == 'h' ? 16 : 32;
}

unsigned wgmma_text_sums(const struct wgmma_text *s)
{
    return s->n * sum_bits(s) / 64;
}

// ---- text ---------------------------------------------------------------------------------------

struct writer {
    char *at;
    size_t left;
};

static void write(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->at, w->left, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < w->left) {
        w->at += n;
        w->left -= (size_t)n;
    } else {
        w->left = 0;
    }
}

static void write_registers(struct writer *w, char name, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        write(w, "%s%%%c%u", k ? ", " : "{", name, k);
    write(w, "}");
}

// The threads copy an image to shared memory, and a descriptor of it is made.
static void write_image(struct writer *w, char which, unsigned bytes, const struct wgmma_layout *l)
{
    static const unsigned modes[] = { 0, 3, 2, 0, 1 };
    const uint64_t rest = (uint64_t)(l->leading / 16) << 16 | (uint64_t)(l->stride / 16) << 32 |
                          (uint64_t)l->base << 49 | (uint64_t)modes[l->swizzle / 32] << 62;

    write(w, "ld.param.u64 %%rd0, [%c];\nmad.wide.u32 %%rd0, %%r1, %u, %%rd0;\n", which, bytes);
    write(w, "mul.wide.u32 %%rd1, %%r0, 16;\nadd.u64 %%rd0, %%rd0, %%rd1;\n");
    write(w, "mov.u32 %%r2, s%c;\nshl.b32 %%r3, %%r0, 4;\nadd.u32 %%r3, %%r2, %%r3;\n", which);
    write(w, "mov.u32 %%r4, %u;\ncopy_%c:\n", bytes / 16 / WGMMA_THREADS, which);
    write(w, "ld.global.v4.u32 {%%r5, %%r6, %%r7, %%r8}, [%%rd0];\n");
    write(w, "st.shared.v4.u32 [%%r3], {%%r5, %%r6, %%r7, %%r8};\n");
    write(w, "add.u64 %%rd0, %%rd0, %u;\nadd.u32 %%r3, %%r3, %u;\n", 16 * WGMMA_THREADS,
          16 * WGMMA_THREADS);
    write(w, "sub.u32 %%r4, %%r4, 1;\nsetp.ne.u32 %%p, %%r4, 0;\n@%%p bra copy_%c;\n", which);
    write(w, "add.u32 %%r2, %%r2, %u;\nshr.u32 %%r2, %%r2, 4;\ncvt.u64.u32 %%m%c, %%r2;\n",
          (unsigned)l->start, which);
    write(w, "or.b64 %%m%c, %%m%c, 0x%llx;\n", which, which, (unsigned long long)rest);
}

// Registers from or to global memory, a row of them for each thread.
static void write_rows(struct writer *w, const char *param, char name, unsigned count, bool loads)
{
    write(w, "ld.param.u64 %%rd0, [%s];\nmad.lo.u32 %%r2, %%r1, %u, %%r0;\n", param, WGMMA_THREADS);
    write(w, "mad.wide.u32 %%rd0, %%r2, %u, %%rd0;\n", 4 * count);
    for (unsigned k = 0; k < count; k++) {
        if (loads)
            write(w, "ld.global.b32 %%%c%u, [%%rd0+%u];\n", name, k, 4 * k);
        else
            write(w, "st.global.b32 [%%rd0+%u], %%%c%u;\n", 4 * k, name, k);
    }
}

static const char *spelling(char type)
{
    switch (type) {
    case 'h':
        return "f16";
    case 'y':
        return "bf16";
    case 't':
        return "tf32";
    case 's':
        return "s8";
    case 'u':
        return "u8";
    default:
        return type == '4' ? "e4m3" : "e5m2";
    }
}

static void write_product(struct writer *w, const struct wgmma_text *s)
{
    const bool floats = s->sum != 'i';
    const char *sum = s->sum == 'f' ? "f32" : s->sum == 'h' ? "f16" : "s32";

    write(w, "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%uk%u%s.%s.%s.%s ", s->n,
          depth_of(s), s->satfinite ? ".satfinite" : "", sum, spelling(s->a_type),
          spelling(s->b_type));
    write_registers(w, 'd', wgmma_text_sums(s));
    write(w, ", ");
    if (s->a_in_registers)
        write_registers(w, 'a', WGMMA_MOST_A);
    else
        write(w, "%%ma");
    write(w, ", %%mb, %%scale");
    if (floats)
        write(w, ", %d, %d", s->negates_a ? -1 : 1, s->negates_b ? -1 : 1);
    if (bits_of(s) == 16 && !s->a_in_registers)
        write(w, ", %d", s->a.across);
    if (bits_of(s) == 16)
        write(w, ", %d", s->b.across);
    write(w, ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
}

void wgmma_text_write(const struct wgmma_text *s, char *text, size_t size)
{
    struct writer w = { text, size };

    write(&w, ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry product(\n");
    write(
        &w,
        ".param .u64 a, .param .u64 b, .param .u64 of_a, .param .u64 sums, .param .u64 out)\n{\n");
    write(&w, ".reg .pred %%p, %%scale;\n.reg .b32 %%r<9>, %%a<4>, %%d<%u>;\n", wgmma_text_sums(s));
    write(&w, ".reg .b64 %%rd<2>, %%ma, %%mb;\n");
    write(&w, ".shared .align 1024 .b8 sa[%u];\n.shared .align 1024 .b8 sb[%u];\n", WGMMA_IMAGE_A,
          WGMMA_IMAGE_B);
    write(&w, "mov.u32 %%r0, %%tid.x;\nmov.u32 %%r1, %%ctaid.x;\n");
    write_image(&w, 'a', WGMMA_IMAGE_A, &s->a);
    write_image(&w, 'b', WGMMA_IMAGE_B, &s->b);
    write(&w, "fence.proxy.async.shared::cta;\nbar.sync 0;\n");
    write_rows(&w, "of_a", 'a', WGMMA_MOST_A, true);
    write_rows(&w, "sums", 'd', wgmma_text_sums(s), true);
    write(&w, "and.b32 %%r2, %%r1, 3;\nsetp.ne.u32 %%scale, %%r2, 0;\n");
    write_product(&w, s);
    write_rows(&w, "out", 'd', wgmma_text_sums(s), false);
    write(&w, "ret;\n}\n");
}

// ---- blocks -------------------------------------------------------------------------------------

// Where an element lies in the image.
static uint32_t place_of(const struct wgmma_layout *l, unsigned bits, unsigned row, unsigned k)
{
    const unsigned each = 128 / bits, width = l->swizzle ? l->swizzle : 16;
    uint32_t at = l->start;

    if (!l->across)
        at += row % 8 * width + row / 8 * l->stride + k / each * (l->swizzle ? 16 : l->leading) +
              k % each * (bits / 8);
    else if (l->swizzle)
        at += row % (width / 2) * 2 + row / (width / 2) * l->leading + k % 8 * width +
              k / 8 * l->stride;
    else
        at += row % 8 * 2 + row / 8 * l->stride + k % 8 * 16 + k / 8 * l->leading;
    return at ^ ((at / 128 - l->base) % (width / 16)) * 16;
}

static void put_element(unsigned char *to, unsigned bits, uint64_t x)
{
    for (unsigned k = 0; k < bits / 8; k++)
        to[k] = (unsigned char)(x >> 8 * k);
}

struct product {
    uint32_t a[WGMMA_ROWS][WGMMA_MOST_K], b[WGMMA_MOST_N][WGMMA_MOST_K];
    uint32_t c[WGMMA_ROWS][WGMMA_MOST_N];
};

static int64_t byte_of(bool is_signed, uint32_t x)
{
    return is_signed ? (int8_t)x : (int64_t)x;
}

static enum mma_format format_of(char type)
{
    switch (type) {
    case 'h':
        return MMA_F16;
    case 'y':
        return MMA_BF16;
    case 't':
        return MMA_TF32;
    default:
        return type == '4' ? MMA_E4M3 : MMA_E5M2;
    }
}

static uint32_t wanted(const struct wgmma_text *s, const uint32_t *a, const uint32_t *b, uint32_t c)
{
    const unsigned depth = depth_of(s);

    if (s->sum == 'i') {
        int64_t sum = (int32_t)c;
        for (unsigned k = 0; k < depth; k++)
            sum += byte_of(s->a_type == 's', a[k]) * byte_of(s->b_type == 's', b[k]);
        if (s->satfinite)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        return (uint32_t)sum;
    }
    const enum mma_format of_sum = s->sum == 'h' ? MMA_F16 : MMA_F32;
    if (bits_of(s) == 8)
        return mma_dot_bytes(format_of(s->a_type), format_of(s->b_type), of_sum, a, b, c);
    return mma_dot(90, format_of(s->a_type), of_sum, a, b, depth, c);
}

// The registers of A of a thread, as the manual's figures have them.
static void put_rows(const struct wgmma_text *s, struct product *p, unsigned thread,
                     uint32_t words[WGMMA_MOST_A])
{
    const unsigned each = 32 / bits_of(s), lane = thread % 32, row = thread / 32 * 16 + lane / 4;

    for (unsigned i = 0; i < WGMMA_MOST_A * each; i++) {
        const unsigned reg = i / each;
        const uint32_t x = p->a[row + reg % 2 * 8][reg / 2 * 4 * each + lane % 4 * each + i % each];
        words[reg] = (i % each ? words[reg] : 0) | x << i % each * bits_of(s);
    }
}

static void put_sums(const struct wgmma_text *s, struct product *p, unsigned thread,
                     uint32_t words[WGMMA_MOST_SUMS])
{
    const unsigned lane = thread % 32, row = thread / 32 * 16 + lane / 4, each = 32 / sum_bits(s);

    for (unsigned i = 0; i < wgmma_text_sums(s) * each; i++) {
        const uint32_t x = p->c[row + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
        words[i / each] = (i % each ? words[i / each] : 0) | x << i % each * sum_bits(s);
    }
}

void wgmma_text_fill(struct random *r, const struct wgmma_text *s, unsigned block,
                     struct wgmma_block *in, uint32_t want[WGMMA_THREADS][WGMMA_MOST_SUMS])
{
    static struct product p;
    const unsigned bits = bits_of(s), depth = depth_of(s), kind = random_below(r, 4);
    const uint32_t sign = UINT32_C(1) << (bits - 1);
    const bool low = strchr("45", s->a_type) && block % 4 == 3; // numbers that are nearly zero

    for (unsigned i = 0; i < sizeof in->a; i++)
        in->a[i] = (unsigned char)random_u64(r);
    for (unsigned i = 0; i < sizeof in->b; i++)
        in->b[i] = (unsigned char)random_u64(r);
    for (unsigned i = 0; i < WGMMA_ROWS * depth; i++) {
        const unsigned row = i / depth, k = i % depth;
        p.a[row][k] =
            (uint32_t)mma_text_element(r, s->a_type, bits, kind) & (low ? 0x8f : UINT32_MAX);
        if (!s->a_in_registers)
            put_element(in->a + place_of(&s->a, bits, row, k), bits, p.a[row][k]);
    }
    for (unsigned i = 0; i < s->n * depth; i++) {
        const unsigned row = i / depth, k = i % depth;
        p.b[row][k] =
            (uint32_t)mma_text_element(r, s->b_type, bits, kind) & (low ? 0x8f : UINT32_MAX);
        put_element(in->b + place_of(&s->b, bits, row, k), bits, p.b[row][k]);
        p.b[row][k] ^= s->negates_b ? sign : 0;
    }
    for (unsigned i = 0; i < WGMMA_ROWS * s->n; i++)
        p.c[i / s->n][i % s->n] = (uint32_t)mma_text_element(r, s->sum, sum_bits(s), kind) &
                                  (low && s->sum == 'h' ? 0x87ff : UINT32_MAX);
    for (unsigned thread = 0; thread < WGMMA_THREADS; thread++) {
        put_rows(s, &p, thread, in->of_a[thread]);
        put_sums(s, &p, thread, in->sums[thread]);
    }
    for (unsigned i = 0; s->negates_a && i < WGMMA_ROWS * depth; i++)
        p.a[i / depth][i % depth] ^= sign;
    for (unsigned i = 0; i < WGMMA_ROWS * s->n; i++) {
        uint32_t *c = &p.c[i / s->n][i % s->n];
        *c = wanted(s, p.a[i / s->n], p.b[i % s->n], block % 4 ? *c : 0);
    }
    for (unsigned thread = 0; thread < WGMMA_THREADS; thread++)
        put_sums(s, &p, thread, want[thread]);
}

// SPDX-License-Identifier: MIT
#include "mma_text.h"

#include <fenv.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reference/mma.h"

enum { MOST_ROWS = 16, COLUMNS = 8, MOST_K = 256 };

// clang-format off
#define ROW(name, spelling, m, k, bits, a, b, sum, isa, sm) name, spelling, m, k, bits, a, b, sum, isa, sm
const struct mma_text mma_texts[] = {
    { ROW("m8n8k4.f64", "m8n8k4.row.col.f64.f64.f64.f64", 8, 4, 64, 'd', 'd', 'd', 70, 80), 0, FE_TONEAREST, 0, 0 },
    { ROW("m8n8k4.f64.rz", "m8n8k4.row.col.rz.f64.f64.f64.f64", 8, 4, 64, 'd', 'd', 'd', 70, 80), 0, FE_TOWARDZERO, 0, 0 },
    { ROW("m16n8k4.f64", "m16n8k4.row.col.f64.f64.f64.f64", 16, 4, 64, 'd', 'd', 'd', 78, 90), 0, FE_TONEAREST, 0, 0 },
    { ROW("m16n8k8.f64.rm", "m16n8k8.row.col.rm.f64.f64.f64.f64", 16, 8, 64, 'd', 'd', 'd', 78, 90), 0, FE_DOWNWARD, 0, 0 },
    { ROW("m16n8k16.f64", "m16n8k16.row.col.f64.f64.f64.f64", 16, 16, 64, 'd', 'd', 'd', 78, 90), 0, FE_TONEAREST, 0, 0 },
    { ROW("m16n8k16.f64.rp", "m16n8k16.row.col.rp.f64.f64.f64.f64", 16, 16, 64, 'd', 'd', 'd', 78, 90), 0, FE_UPWARD, 0, 0 },
    { ROW("m16n8k32.f32.e4m3", "m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 32, 8, '4', '4', 'f', 84, 89), 0, 0, 0, 0 },
    { ROW("m16n8k32.f32.e5m2.e4m3", "m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 32, 8, '5', '4', 'f', 84, 89), 0, 0, 0, 0 },
    { ROW("m16n8k32.f16.e4m3.e5m2", "m16n8k32.row.col.f16.e4m3.e5m2.f16", 16, 32, 8, '4', '5', 'h', 87, 89), 0, 0, 0, 0 },
    { ROW("m16n8k16.f32.e5m2", "m16n8k16.row.col.f32.e5m2.e5m2.f32", 16, 16, 8, '5', '5', 'f', 87, 89), 0, 0, 0, 0 },
    { ROW("m16n8k16.f16.e4m3", "m16n8k16.row.col.f16.e4m3.e4m3.f16", 16, 16, 8, '4', '4', 'h', 87, 89), 0, 0, 0, 0 },
    { ROW("m8n8k16.s8.u8", "m8n8k16.row.col.s32.s8.u8.s32", 8, 16, 8, 's', 'u', 'i', 65, 75), 0, 0, 0, 0 },
    { ROW("m8n8k16.u8.s8.satfinite", "m8n8k16.row.col.satfinite.s32.u8.s8.s32", 8, 16, 8, 'u', 's', 'i', 65, 75), 0, 0, 1, 0 },
    { ROW("m8n8k32.s4.u4", "m8n8k32.row.col.s32.s4.u4.s32", 8, 32, 4, 's', 'u', 'i', 65, 75), 0, 0, 0, 0 },
    { ROW("m16n8k32.u4.s4.satfinite", "m16n8k32.row.col.satfinite.s32.u4.s4.s32", 16, 32, 4, 'u', 's', 'i', 70, 80), 0, 0, 1, 0 },
    { ROW("m16n8k64.s4", "m16n8k64.row.col.s32.s4.s4.s32", 16, 64, 4, 's', 's', 'i', 70, 80), 0, 0, 0, 0 },
    { ROW("m8n8k128.xor", "m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 8, 128, 1, 'b', 'b', 'i', 70, 75), 0, 0, 0, 0 },
    { ROW("m8n8k128.and", "m8n8k128.row.col.s32.b1.b1.s32.and.popc", 8, 128, 1, 'b', 'b', 'i', 71, 80), 0, 0, 0, 1 },
    { ROW("m16n8k128.and", "m16n8k128.row.col.s32.b1.b1.s32.and.popc", 16, 128, 1, 'b', 'b', 'i', 71, 80), 0, 0, 0, 1 },
    { ROW("m16n8k256.xor", "m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 256, 1, 'b', 'b', 'i', 70, 80), 0, 0, 0, 0 },
    { ROW("sp.m16n8k16.f32.f16", "sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 16, 'h', 'h', 'f', 71, 80), 1, 0, 0, 0 },
    { ROW("sp.m16n8k32.f16.f16", "sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16", 16, 32, 16, 'h', 'h', 'h', 85, 80), 2, 0, 0, 0 },
    { ROW("sp.m16n8k32.f32.bf16", "sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", 16, 32, 16, 'y', 'y', 'f', 71, 80), 2, 0, 0, 0 },
    { ROW("sp.m16n8k8.f32.tf32", "sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, 't', 't', 'f', 71, 80), 1, 0, 0, 0 },
    { ROW("sp.m16n8k16.f32.tf32", "sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", 16, 16, 32, 't', 't', 'f', 85, 80), 2, 0, 0, 0 },
    { ROW("sp.m16n8k32.s8.u8", "sp.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 16, 32, 8, 's', 'u', 'i', 71, 80), 2, 0, 0, 0 },
    { ROW("sp.m16n8k64.u8.s8.satfinite", "sp.sync.aligned.m16n8k64.row.col.satfinite.s32.u8.s8.s32", 16, 64, 8, 'u', 's', 'i', 71, 80), 4, 0, 1, 0 },
    { ROW("sp.m16n8k64.s4.u4", "sp.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", 16, 64, 4, 's', 'u', 'i', 71, 80), 2, 0, 0, 0 },
    { ROW("sp.m16n8k128.s4", "sp::ordered_metadata.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32", 16, 128, 4, 's', 's', 'i', 85, 80), 4, 0, 0, 0 },
};
// clang-format on
const size_t mma_text_count = sizeof mma_texts / sizeof *mma_texts;

bool mma_text_known(const struct mma_text *s, int sm)
{
    return sm >= (int)s->sm && ((s->a != '4' && s->a != '5') || sm / 10 == 9);
}

// ---- registers ----------------------------------------------------------------------------------

static unsigned register_words(const struct mma_text *s)
{
    return s->a_bits == 64 ? 2 : 1;
}

static unsigned elements(const struct mma_text *s) // of a register of A and B
{
    return s->a_bits < 32 ? 32 / s->a_bits : 1;
}

static unsigned stored_k(const struct mma_text *s) // of a row of A
{
    return s->lanes ? s->k / 2 : s->k;
}

static unsigned registers_of_a(const struct mma_text *s)
{
    return s->m * stored_k(s) / (MMA_LANES * elements(s));
}

static unsigned registers_of_b(const struct mma_text *s)
{
    return COLUMNS * s->k / (MMA_LANES * elements(s));
}

static unsigned registers_of_c(const struct mma_text *s)
{
    return s->m / 4 / (s->sum == 'h' ? 2 : 1);
}

unsigned mma_text_out(const struct mma_text *s)
{
    return registers_of_c(s) * register_words(s);
}

unsigned mma_text_in(const struct mma_text *s)
{
    return (registers_of_a(s) + registers_of_b(s)) * register_words(s) + mma_text_out(s) +
           (s->lanes ? 1 : 0);
}

// ---- the module ---------------------------------------------------------------------------------

struct text {
    char *at;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    t->used += (size_t)vsnprintf(t->at + t->used, t->size - t->used, format, arguments);
    va_end(arguments);
}

static void add_vector(struct text *t, unsigned first, unsigned count, const char *end)
{
    for (unsigned k = 0; k < count; k++)
        add(t, "%s%%x%u", k ? ", " : "{ ", first + k);
    add(t, " }%s", end);
}

void mma_text_write(const struct mma_text *s, char *text, size_t size)
{
    struct text t = { text, size, 0 };
    const unsigned a = registers_of_a(s), b = registers_of_b(s), c = registers_of_c(s);
    const unsigned bytes = 4 * register_words(s), isa = s->isa > 78 ? s->isa : 78;

    add(&t,
        ".version %u.%u\n.target sm_%u\n.address_size 64\n"
        ".visible .entry product(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %%r<4>;\n.reg .b64 %%d<6>;\n.reg .b%u %%x<32>;\n.reg .b32 %%meta;\n"
        "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\nmov.u32 %%r0, %%ctaid.x;\n"
        "mov.u32 %%r1, %%tid.x;\nmad.lo.u32 %%r0, %%r0, 32, %%r1;\n"
        "mul.wide.u32 %%d2, %%r0, %u;\nadd.u64 %%d0, %%d0, %%d2;\n"
        "mul.wide.u32 %%d2, %%r0, %u;\nadd.u64 %%d1, %%d1, %%d2;\n",
        isa / 10, isa % 10, s->sm, 8 * bytes, 4 * MMA_TEXT_IN, 4 * MMA_TEXT_OUT);
    for (unsigned k = 0; k < a + b + c; k++)
        add(&t, "ld.global.b%u %%x%u, [%%d0+%u];\n", 8 * bytes, k, bytes * k);
    if (s->lanes)
        add(&t, "ld.global.b32 %%meta, [%%d0+%u];\n", bytes * (a + b + c));
    add(&t, "mma.%s%s ", s->lanes ? "" : "sync.aligned.", s->spelling);
    add_vector(&t, a + b, c, ", ");
    add_vector(&t, 0, a, ", ");
    add_vector(&t, a, b, ", ");
    add_vector(&t, a + b, c, "");
    // Where one or two lanes are enough, the last of them have the metadata.
    if (s->lanes)
        add(&t, ", %%meta, %u", 4 / s->lanes - 1);
    add(&t, ";\n");
    for (unsigned k = 0; k < c; k++)
        add(&t, "st.global.b%u [%%d1+%u], %%x%u;\n", 8 * bytes, bytes * k, a + b + k);
    add(&t, "ret;\n}\n");
}

// ---- elements -----------------------------------------------------------------------------------

struct tile {
    uint64_t a[MOST_ROWS][MOST_K], b[COLUMNS][MOST_K], c[MOST_ROWS][COLUMNS];
    unsigned column[MOST_ROWS][MOST_K]; // sparse: of the stored elements of A
};

static uint64_t corner(char type, unsigned k)
{
    static const uint64_t f64[] = {
        0, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000),
        1, UINT64_C(0x7fefffffffffffff), UINT64_C(0x0010000000000000), UINT64_C(0x3ff0000000000001)
    };
    static const uint32_t f16[] = { 0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x7bff, 1, 0x0400 };
    static const uint32_t f32[] = { 0,          0x80000000, 0x7f800000, 0xff800000,
                                    0x7fc00001, 0x7f7fffff, 0x00002000, 0x00800000 };
    static const uint8_t e4m3[] = { 0, 0x80, 0x7f, 0xff, 1, 0x7e, 8, 0xfe };
    static const uint8_t e5m2[] = { 0, 0x80, 0x7c, 0xfc, 1, 0x7b, 4, 0x7e };

    switch (type) {
    case 'd':
        return f64[k];
    case 'h':
        return f16[k];
    case 'y':
        return f32[k] >> 16;
    case '4':
        return e4m3[k];
    case '5':
        return e5m2[k];
    default:
        return f32[k];
    }
}

uint64_t mma_text_element(struct random *r, char type, unsigned bits, unsigned kind)
{
    const uint64_t x = random_u64(r), low = UINT64_MAX >> (64 - bits);

    if (strchr("sub", type))
        return kind == 1 && bits > 1 ? (UINT64_C(1) << (bits - 1)) - (x & 1) : x & low;
    if (type == 'i')
        return kind == 1 ? UINT64_C(0x7fffff00) | (x & 0xff) : x & low;
    if (kind == 1 && x >> 61 == 0)
        return corner(type, (unsigned)x & 7);
    if (kind == 2 && x >> 62 == 0)
        return 0;
    if (kind == 3)
        return x & low;
    switch (type) { // near each other, so that sums cancel
    case 'd':
        return (x & UINT64_C(0x800fffffffffffff)) | UINT64_C(0x3fe0000000000000) |
               (x >> 4 & UINT64_C(0x0010000000000000));
    case 'h':
        return (x & 0x83ff) | 0x3800 | (x >> 16 & 0x0400);
    case 'y':
        return (x & 0x807f) | 0x3f00 | (x >> 16 & 0x0080);
    case '4':
        return (x & 0x87) | (x >> 8 & 0x10) | 0x28;
    case '5':
        return (x & 0x83) | (x >> 8 & 0x08) | 0x34;
    default:
        return (x & 0x807fffff) | 0x3f000000;
    }
}

static unsigned sum_bits(const struct mma_text *s)
{
    return s->sum == 'd' ? 64 : s->sum == 'h' ? 16 : 32;
}

// Two of four elements, two pairs of eight, or one of two; four bits of metadata for each chunk.
static void choose_columns(struct random *r, const struct mma_text *s, struct tile *t,
                           uint8_t metadata[MOST_ROWS][MOST_K / 2])
{
    static const uint8_t pairs[] = { 0x4, 0x8, 0xc, 0x9, 0xd, 0xe }; // the second index above
    const unsigned chunk = s->a_bits == 32 ? 2 : s->a_bits == 4 ? 8 : 4;

    for (unsigned i = 0; i < s->m; i++)
        for (unsigned k = 0, at = 0; k < s->k; k += chunk) {
            unsigned bits = pairs[random_below(r, 6)];
            if (chunk == 2)
                bits = random_below(r, 2) ? 0xe : 0x4;
            metadata[i][k / chunk] = (uint8_t)bits;
            for (unsigned j = 0; j < chunk / 2; j++, at++)
                t->column[i][at] = chunk == 2   ? k + (bits == 0xe)
                                   : chunk == 4 ? k + (bits >> 2 * j & 3)
                                                : k + 2 * (bits >> 2 * (j / 2) & 3) + j % 2;
        }
}

// ---- sums ---------------------------------------------------------------------------------------

static uint64_t nan_of(double a, double b, double c, uint64_t x, uint64_t y, uint64_t z)
{
    const uint64_t quiet = UINT64_C(1) << 51;

    return isnan(b)   ? y | quiet
           : isnan(c) ? z | quiet
           : isnan(a) ? x | quiet
                      : UINT64_C(0xfff8000000000000);
}

static uint64_t double_sum(const uint64_t *x, const uint64_t *y, unsigned depth, uint64_t z)
{
    for (unsigned k = 0; k < depth; k++) {
        volatile double a, b, c, sum;
        double result;
        memcpy((void *)&a, &x[k], 8);
        memcpy((void *)&b, &y[k], 8);
        memcpy((void *)&c, &z, 8);
        sum = fma(a, b, c);
        result = sum;
        if (isnan(result))
            z = nan_of(a, b, c, x[k], y[k], z);
        else
            memcpy(&z, &result, 8);
    }
    return z;
}

static int64_t integer(char type, unsigned bits, uint64_t x)
{
    return type == 's' && x >> (bits - 1) ? (int64_t)x - (INT64_C(1) << bits) : (int64_t)x;
}

static uint64_t integer_sum(const struct mma_text *s, const uint64_t *x, const uint64_t *y,
                            unsigned depth, uint64_t c)
{
    int64_t sum = (int32_t)(uint32_t)c;

    for (unsigned k = 0; k < depth; k++)
        sum += s->a == 'b' ? (int64_t)(s->and ? x[k] & y[k] : x[k] ^ y[k])
                           : integer(s->a, s->a_bits, x[k]) * integer(s->b, s->a_bits, y[k]);
    if (s->satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

// A float of 8 bits as one of 16, which has all of its values.
static uint32_t as_half(char type, uint64_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x80) << 8, field = x >> 3 & 15, part = x & 7;

    if (type == '5')
        return (uint32_t)x << 8;
    if (field == 15 && part == 7)
        return 0x7fff;
    return sign | f16_from_f64(field ? ldexp(8 + part, (int)field - 10) : ldexp(part, -9));
}

// As ptxas 13.0 has it for sm_90: two products of halves, and the sum of both plus C.
static uint64_t byte_sum(const struct mma_text *s, const uint64_t *x, const uint64_t *y,
                         unsigned depth, uint64_t c)
{
    const enum mma_format sums = s->sum == 'h' ? MMA_F16 : MMA_F32;
    uint32_t a[MOST_K], b[MOST_K], sum = 0;

    for (unsigned upper = 0; upper < 2; upper++) {
        unsigned count = 0;
        for (unsigned k = upper * 2; k < depth; k += k % 4 == upper * 2 ? 1 : 3) {
            a[count] = as_half(s->a, x[k]);
            b[count++] = as_half(s->b, y[k]);
        }
        sum = mma_step(MMA_F16, sums, 25, -133, a, b, count, sum);
    }
    const double total = mma_value(sums, sum) + mma_value(sums, (uint32_t)c);
    if (isnan(total))
        return sums == MMA_F16 ? 0x7fff : 0x7fffffff;
    return sums == MMA_F16 ? f16_from_f64(total) : bits_of_f32((float)total);
}

static uint64_t wanted(const struct mma_text *s, int sm, const struct tile *t, unsigned row,
                       unsigned column)
{
    const unsigned depth = stored_k(s);
    uint64_t y[MOST_K];
    uint32_t a[MOST_K], b[MOST_K];

    for (unsigned k = 0; k < depth; k++)
        y[k] = t->b[column][s->lanes ? t->column[row][k] : k];
    if (s->sum == 'd')
        return double_sum(t->a[row], y, depth, t->c[row][column]);
    if (s->sum == 'i')
        return integer_sum(s, t->a[row], y, depth, t->c[row][column]);
    if (s->a == '4' || s->a == '5')
        return byte_sum(s, t->a[row], y, depth, t->c[row][column]);
    for (unsigned k = 0; k < depth; k++) {
        a[k] = (uint32_t)t->a[row][k];
        b[k] = (uint32_t)y[k];
    }
    return mma_dot(sm,
                   s->a == 'h'   ? MMA_F16
                   : s->a == 'y' ? MMA_BF16
                                 : MMA_TF32,
                   s->sum == 'h' ? MMA_F16 : MMA_F32, a, b, depth, (uint32_t)t->c[row][column]);
}

// ---- tiles --------------------------------------------------------------------------------------

static void put(uint32_t *words, unsigned element, unsigned bits, uint64_t x)
{
    if (bits == 64) {
        words[2 * element] = (uint32_t)x;
        words[2 * element + 1] = (uint32_t)(x >> 32);
        return;
    }
    words[element * bits / 32] |= (uint32_t)x << element * bits % 32;
}

static void put_sums(const struct mma_text *s, unsigned lane, uint32_t *words,
                     uint64_t sums[MOST_ROWS][COLUMNS])
{
    for (unsigned i = 0; i < s->m / 4; i++)
        put(words, i, sum_bits(s), sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
}

// The registers of a lane, as the figures of the PTX manual have them.
static void put_lane(const struct mma_text *s, struct tile *t, unsigned lane, uint32_t *words)
{
    const unsigned each = elements(s), group = lane / 4, thread = lane % 4;
    const unsigned a = registers_of_a(s), b = registers_of_b(s), rows = s->m / 8;

    for (unsigned i = 0; i < a * each; i++)
        put(words, i, s->a_bits,
            t->a[group + i / each % rows * 8]
                [i / each / rows * 4 * each + thread * each + i % each]);
    words += a * register_words(s);
    for (unsigned i = 0; i < b * each; i++)
        put(words, i, s->a_bits, t->b[group][i / each * 4 * each + thread * each + i % each]);
    words += b * register_words(s);
    put_sums(s, lane, words, t->c);
}

// 16 bits and more: each lane has four chunks of both rows; else eight chunks of one.
static uint32_t metadata_of(const struct mma_text *s, unsigned lane,
                            uint8_t metadata[MOST_ROWS][MOST_K / 2])
{
    const unsigned at = lane % 4 - (4 - s->lanes), group = lane / 4;
    uint32_t word = 0;

    if (lane % 4 < 4 - s->lanes) // not selected
        return 0x5a5a5a5a;
    for (unsigned k = 0; k < 8; k++)
        word |= (uint32_t)(s->a_bits >= 16 ? metadata[group + k / 4 * 8][at * 4 + k % 4]
                                           : metadata[group + at % 2 * 8][at / 2 * 8 + k])
                << 4 * k;
    return word;
}

void mma_text_fill(struct random *r, const struct mma_text *s, int sm,
                   uint32_t in[MMA_LANES][MMA_TEXT_IN], uint32_t want[MMA_LANES][MMA_TEXT_OUT])
{
    const unsigned kind = random_below(r, 4);
    static _Thread_local struct tile t;
    uint8_t metadata[MOST_ROWS][MOST_K / 2];
    uint64_t sums[MOST_ROWS][COLUMNS];

    for (unsigned i = 0; i < s->m * stored_k(s); i++)
        t.a[i / stored_k(s)][i % stored_k(s)] = mma_text_element(r, s->a, s->a_bits, kind);
    for (unsigned i = 0; i < COLUMNS * s->k; i++)
        t.b[i / s->k][i % s->k] = mma_text_element(r, s->b, s->a_bits, kind);
    for (unsigned i = 0; i < s->m * COLUMNS; i++)
        t.c[i / COLUMNS][i % COLUMNS] = mma_text_element(r, s->sum, sum_bits(s), kind);
    if (s->lanes)
        choose_columns(r, s, &t, metadata);
    fesetround(s->rounding);
    for (unsigned i = 0; i < s->m * COLUMNS; i++)
        sums[i / COLUMNS][i % COLUMNS] = wanted(s, sm, &t, i / COLUMNS, i % COLUMNS);
    fesetround(FE_TONEAREST);
    memset(in, 0, MMA_LANES * sizeof in[0]);
    memset(want, 0, MMA_LANES * sizeof want[0]);
    for (unsigned lane = 0; lane < MMA_LANES; lane++) {
        put_lane(s, &t, lane, in[lane]);
        put_sums(s, lane, want[lane], sums);
        if (s->lanes)
            in[lane][mma_text_in(s) - 1] = metadata_of(s, lane, metadata);
    }
}

// SPDX-License-Identifier: MIT
// ldmatrix, stmatrix and mma. Products are compared with reference/mma.h; the places of elements
// are those of the figures of the PTX manual, spelled as it spells them.
//
//     test_emulator_exec_matrix [TILES]   products of so many random tiles for each shape
#include "fixture.h"
#include "random.h"
#include "reference/mma.h"

static unsigned tile_count = 200;

// ---- mma ----------------------------------------------------------------------------------------

struct shape {
    const char *name, *a_registers, *b_registers, *c_registers;
    unsigned k, bits, a_count, b_count, c_count; // bits of an element of A and B; registers
    enum mma_format format, sum;
    bool integer, a_signed, b_signed, satfinite;
};

#define A2 "{%r10,%r11}"
#define A4 "{%r10,%r11,%r12,%r13}"
#define B1 "{%r14}"
#define B2 "{%r14,%r15}"
#define C2 "{%r16,%r17}"
#define C4 "{%r16,%r17,%r18,%r19}"

static const struct shape shapes[] = {
    { "m16n8k8.row.col.f32.f16.f16.f32", A2, B1, C4, 8, 16, 2, 1, 4, MMA_F16, MMA_F32, 0, 0, 0, 0 },
    { "m16n8k8.row.col.f16.f16.f16.f16", A2, B1, C2, 8, 16, 2, 1, 2, MMA_F16, MMA_F16, 0, 0, 0, 0 },
    { "m16n8k16.row.col.f32.f16.f16.f32", A4, B2, C4, 16, 16, 4, 2, 4, MMA_F16, MMA_F32, 0, 0, 0,
      0 },
    { "m16n8k16.row.col.f16.f16.f16.f16", A4, B2, C2, 16, 16, 4, 2, 2, MMA_F16, MMA_F16, 0, 0, 0,
      0 },
    { "m16n8k8.row.col.f32.bf16.bf16.f32", A2, B1, C4, 8, 16, 2, 1, 4, MMA_BF16, MMA_F32, 0, 0, 0,
      0 },
    { "m16n8k16.row.col.f32.bf16.bf16.f32", A4, B2, C4, 16, 16, 4, 2, 4, MMA_BF16, MMA_F32, 0, 0, 0,
      0 },
    { "m16n8k4.row.col.f32.tf32.tf32.f32", A2, B1, C4, 4, 32, 2, 1, 4, MMA_TF32, MMA_F32, 0, 0, 0,
      0 },
    { "m16n8k8.row.col.f32.tf32.tf32.f32", A4, B2, C4, 8, 32, 4, 2, 4, MMA_TF32, MMA_F32, 0, 0, 0,
      0 },
    { "m16n8k16.row.col.s32.s8.s8.s32", A2, B1, C4, 16, 8, 2, 1, 4, 0, 0, 1, 1, 1, 0 },
    { "m16n8k16.row.col.satfinite.s32.u8.s8.s32", A2, B1, C4, 16, 8, 2, 1, 4, 0, 0, 1, 0, 1, 1 },
    { "m16n8k32.row.col.s32.s8.u8.s32", A4, B2, C4, 32, 8, 4, 2, 4, 0, 0, 1, 1, 0, 0 },
    { "m16n8k32.row.col.satfinite.s32.u8.u8.s32", A4, B2, C4, 32, 8, 4, 2, 4, 0, 0, 1, 0, 0, 1 },
};

struct tile {
    uint32_t a[16][32], b[32][8], c[16][8];
};

// The row and column of element i of a lane's fragment, as the manual gives them.
static void place_of_a(const struct shape *s, unsigned lane, unsigned i, unsigned *row,
                       unsigned *col)
{
    const unsigned group = lane >> 2, thread = lane % 4;
    if (s->bits == 16) {
        *row = i % 4 < 2 ? group : group + 8;
        *col = thread * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    } else if (s->bits == 32) {
        *row = i == 0 || i == 2 ? group : group + 8;
        *col = i < 2 ? thread : thread + 4;
    } else {
        *row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
        *col = thread * 4 + (i & 3) + (i >= 8 ? 16 : 0);
    }
}

static void place_of_b(const struct shape *s, unsigned lane, unsigned i, unsigned *row,
                       unsigned *col)
{
    const unsigned thread = lane % 4;
    *col = lane >> 2;
    *row = s->bits == 16   ? thread * 2 + (i & 1) + (i >= 2 ? 8 : 0)
           : s->bits == 32 ? (i ? thread + 4 : thread)
                           : thread * 4 + (i & 3) + (i >= 4 ? 16 : 0);
}

static void place_of_c(unsigned lane, unsigned i, unsigned *row, unsigned *col)
{
    *row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
    *col = lane % 4 * 2 + (i & 1);
}

enum { WORDS = 10 }; // of a lane: those of A, B and C

static void spread(const struct shape *s, const struct tile *t, uint32_t words[32][WORDS])
{
    const unsigned parts = 32 / s->bits, sum_bits = s->c_count == 2 ? 16 : 32;
    unsigned row, col;
    memset(words, 0, 32 * sizeof(words[0]));
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned i = 0; i < s->a_count * parts; i++) {
            place_of_a(s, lane, i, &row, &col);
            words[lane][i / parts] |= t->a[row][col] << i % parts * s->bits % 32;
        }
        for (unsigned i = 0; i < s->b_count * parts; i++) {
            place_of_b(s, lane, i, &row, &col);
            words[lane][4 + i / parts] |= t->b[row][col] << i % parts * s->bits % 32;
        }
        for (unsigned i = 0; i < 4; i++) {
            place_of_c(lane, i, &row, &col);
            words[lane][6 + i * sum_bits / 32] |= t->c[row][col] << i * sum_bits % 32;
        }
    }
}

static uint32_t random_element(struct random *r, const struct shape *s, enum mma_format format,
                               unsigned kind)
{
    static const uint32_t corners[3][8] = {
        { 0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x7bff, 1, 0x0400 },
        { 0, 0x8000, 0x7f80, 0xff80, 0x7fc1, 0x7f7f, 1, 0x0080 },
        { 0, 0x80000000, 0x7f800000, 0xff800000, 0x7f802000, 0x7f7fffff, 0x2000, 0x00800000 },
    };
    const uint32_t bits = (uint32_t)random_u64(r);
    const unsigned row = format == MMA_F16 ? 0 : format == MMA_BF16 ? 1 : 2;
    if (s->integer)
        return kind == 1 ? (bits & 1 ? 0x80 : 0x7f) : bits & 0xff;
    if (kind == 0) // near each other, so that sums cancel
        return format == MMA_F16    ? (bits & 0x83ff) | 0x3800 | (bits >> 16 & 0x0400)
               : format == MMA_BF16 ? (bits & 0x807f) | 0x3f00 | (bits >> 16 & 0x0080)
                                    : (bits & 0x807fffff) | 0x3f000000;
    if (kind == 1 && bits >> 28 < 2)
        return corners[row][bits & 7];
    if (kind == 2 && bits >> 28 < 4)
        return 0;
    return format == MMA_F16 || format == MMA_BF16 ? bits & 0xffff : bits;
}

static void fill(struct random *r, const struct shape *s, struct tile *t)
{
    const unsigned kind = (unsigned)random_below(r, 4);
    for (unsigned i = 0; i < 16 * 32; i++)
        t->a[i / 32][i % 32] = random_element(r, s, s->format, kind);
    for (unsigned i = 0; i < 32 * 8; i++)
        t->b[i / 8][i % 8] = random_element(r, s, s->format, kind);
    for (unsigned i = 0; i < 16 * 8; i++) {
        const uint32_t bits = (uint32_t)random_u64(r);
        t->c[i / 8][i % 8] = !s->integer ? random_element(r, s, s->sum, kind)
                             : kind == 1 ? UINT32_C(0x7fffff00) + (bits & 0xff)
                                         : bits;
    }
}

static uint32_t integer_dot(const struct shape *s, const uint32_t *a, const uint32_t *b, uint32_t c)
{
    int64_t sum = (int32_t)c;
    for (unsigned k = 0; k < s->k; k++)
        sum += (s->a_signed && a[k] > 127 ? (int64_t)a[k] - 256 : (int64_t)a[k]) *
               (s->b_signed && b[k] > 127 ? (int64_t)b[k] - 256 : (int64_t)b[k]);
    if (s->satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

static uint32_t wanted_at(int sm, const struct shape *s, const struct tile *t, unsigned row,
                          unsigned col)
{
    uint32_t b[32];
    for (unsigned k = 0; k < 32; k++)
        b[k] = t->b[k][col];
    return s->integer ? integer_dot(s, t->a[row], b, t->c[row][col])
                      : mma_dot(sm, s->format, s->sum, t->a[row], b, s->k, t->c[row][col]);
}

static void load_product(struct emulator *e, const struct shape *s, char *body, size_t size)
{
    size_t used = (size_t)snprintf(body, size,
                                   "mad.lo.u32 %%r3, %%r1, 32, %%r0;\n"
                                   "mul.wide.u32 %%rd4, %%r3, 40;\nadd.u64 %%rd5, %%rd0, %%rd4;\n");
    (void)e;
    for (unsigned k = 0; k < WORDS; k++)
        used += (size_t)snprintf(body + used, size - used, "ld.global.u32 %%r%u, [%%rd5+%u];\n",
                                 10 + k, 4 * k);
    used +=
        (size_t)snprintf(body + used, size - used, "mma.sync.aligned.%s %s, %s, %s, %s;\n", s->name,
                         s->c_registers, s->a_registers, s->b_registers, s->c_registers);
    for (unsigned k = 0; k < s->c_count; k++)
        used += (size_t)snprintf(body + used, size - used, "st.global.u32 [%%rd5+%u], %%r%u;\n",
                                 24 + 4 * k, 16 + k);
    snprintf(body + used, size - used, "ret;");
}

static void check_tile(int sm, const struct shape *s, const struct tile *t,
                       uint32_t words[32][WORDS])
{
    const unsigned bits = s->c_count == 2 ? 16 : 32;
    unsigned row, col;
    for (unsigned i = 0; i < 32 * 4; i++) {
        place_of_c(i / 4, i % 4, &row, &col);
        const uint32_t got =
            words[i / 4][6 + i % 4 * bits / 32] >> i % 4 * bits % 32 & (UINT32_MAX >> (32 - bits));
        const uint32_t want = wanted_at(sm, s, t, row, col);
        if (got != want)
            fail_msg("sm_%d %s: row %u, column %u: %08x, wanted %08x", sm, s->name, row, col,
                     (unsigned)got, (unsigned)want);
    }
}

enum { TOGETHER = 50 };

static void products(struct emulator *e, int sm, const struct shape *s, unsigned count)
{
    static struct tile tiles[TOGETHER];
    static uint32_t words[TOGETHER][32][WORDS];
    struct random r = { (uint64_t)sm };
    char body[4096];
    load_product(e, s, body, sizeof(body));
    e->config.gpu = emu_gpu_of(sm);
    e->grid = TOGETHER;
    for (unsigned done = 0; done < count; done += TOGETHER) {
        for (unsigned k = 0; k < TOGETHER; k++) {
            fill(&r, s, &tiles[k]);
            spread(s, &tiles[k], words[k]);
        }
        const uint64_t at = emulator_upload(e, words, sizeof(words));
        emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
        memcpy(words, emulator_at(e, at, sizeof(words)), sizeof(words));
        for (unsigned k = 0; k < TOGETHER; k++)
            check_tile(sm, s, &tiles[k], words[k]);
        emu_memory_free(e->memory, at);
    }
}

static void tiles_are_multiplied(void **state)
{
    static const int sms[] = { 90, 80 };
    for (size_t g = 0; g < sizeof(sms) / sizeof(sms[0]); g++)
        for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++)
            products(*state, sms[g], &shapes[k], tile_count);
}

static void expect_first(struct emulator *e, int sm, const struct shape *s, const struct tile *t,
                         uint32_t wanted)
{
    uint32_t words[32][WORDS];
    char body[4096];
    load_product(e, s, body, sizeof(body));
    spread(s, t, words);
    e->config.gpu = emu_gpu_of(sm);
    const uint64_t at = emulator_upload(e, words, sizeof(words));
    emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
    const uint32_t *got = emulator_at(e, at, sizeof(words));
    if (got[6] != wanted)
        fail_msg("sm_%d %s: %08x, wanted %08x", sm, s->name, (unsigned)got[6], (unsigned)wanted);
    emu_memory_free(e->memory, at);
}

// 1 + 1 + c: the ones count down to the last of 25 bits below the exponent of c, on sm_80 of 24;
// then f32 has room for them.
static void summands_are_truncated(void **state)
{
    struct emulator *e = *state;
    static const struct {
        int sm;
        uint32_t c, wanted;
    } rows[] = {
        { 90, 0x4b800000, 0x4b800001 },                                 // 2^24
        { 90, 0xcb800000, 0xcb7ffffe },                                 // -2^24
        { 80, 0xcb800000, 0xcb7ffffe }, { 90, 0xcc000000, 0xcbffffff }, // -2^25
        { 80, 0xcc000000, 0xcc000000 }, { 90, 0xcc800000, 0xcc800000 }, // -2^26
        { 90, 0x4c000000, 0x4c000000 },                                 // 2^25 + 2: towards zero
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct tile t = { 0 };
        t.a[0][0] = t.a[0][1] = t.b[0][0] = t.b[1][0] = 0x3c00;
        t.c[0][0] = rows[k].c;
        expect_first(e, rows[k].sm, &shapes[0], &t, rows[k].wanted);
    }
}

// Results of an H200, of tiles of tests/hardware/mma_record.c: no sum is aligned to less than
// 2^-133, and of tf32 a number whose 19 bits are zero is zero, infinity times it NaN.
static void smallest_sums(void **state)
{
    static const struct {
        const char *shape;
        uint32_t a[8], b[8], c, wanted;
    } rows[] = {
        { "m16n8k4.row.col.f32.tf32.tf32.f32",
          { 0xb6982e2e, 0x4adb50fe, 0, 0x9797a44e },
          { 0x811e0961, 0, 0, 0x9cf03333 },
          0,
          0x5e },
        { "m16n8k4.row.col.f32.tf32.tf32.f32",
          { 0x8000087e, 0x5cabef1b, 0x8317b936, 0xf277f842 },
          { 0xff800000, 0xd777c20d, 0xa505c2e7, 0xfa4d797e },
          0x524eb8e8,
          0x7fffffff },
        { "m16n8k8.row.col.f32.bf16.bf16.f32",
          { 0x90e3, 0x4aa0, 0, 0xa975, 0x87f3, 0, 0x1d67, 0x8ffb },
          { 0x2a88, 0, 0, 0x8610, 0x0f5e, 0xbbe5, 0, 0x1c35 },
          0,
          0x80003c4c },
        { "m16n8k8.row.col.f32.bf16.bf16.f32",
          { 0, 0, 0x8973, 0, 0x2e5e, 0xac60, 0, 0xb357 },
          { 0, 0x3ecb, 0x254e, 0xa5a9, 0, 0x8c60, 0x5a78, 0 },
          0,
          0x188 },
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct tile t = { 0 };
        const struct shape *s = shapes;
        while (strcmp(s->name, rows[k].shape) != 0)
            s++;
        memcpy(t.a[0], rows[k].a, sizeof(rows[k].a));
        for (unsigned i = 0; i < 8; i++)
            t.b[i][0] = rows[k].b[i];
        t.c[0][0] = rows[k].c;
        expect_first(*state, 90, s, &t, rows[k].wanted);
    }
}

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

// Fills s with 0, 1, 2 ... as 16-bit elements; %r4: this lane's row in s, in the order of `rows`.
#define SHARED                                                                                     \
    ".shared .align 16 .b8 s[1024];\nmov.u32 %r3, s;\nshl.b32 %r5, %r0, 4;\n"                      \
    "add.u32 %r4, %r3, %r5;\n"
#define FILL                                                                                       \
    "mul.lo.u32 %r6, %r0, 0x80008;\nadd.u32 %r7, %r6, 0x10000;\nadd.u32 %r8, %r6, 0x30002;\n"      \
    "add.u32 %r9, %r6, 0x50004;\nadd.u32 %r6, %r6, 0x70006;\n"                                     \
    "st.shared.v4.b32 [%r4], {%r7, %r8, %r9, %r6};\nbar.warp.sync -1;\n"
#define OUT "mul.wide.u32 %rd4, %r0, 16;\nadd.u64 %rd5, %rd0, %rd4;\n"

static void tiles_are_loaded(void **state)
{
    struct emulator *e = *state;
    static const char *const registers[] = { "", "{%r10}", "{%r10,%r11}", "",
                                             "{%r10,%r11,%r12,%r13}" };
    for (unsigned count = 1; count <= 4; count *= 2)
        for (unsigned trans = 0; trans < 2; trans++)
            for (unsigned generic = 0; generic < 2; generic++) {
                char body[4096];
                snprintf(body, sizeof(body),
                         "%s"
                         "mov.u32 %%r10, 0; mov.u32 %%r11, 0; mov.u32 %%r12, 0; mov.u32 %%r13, 0;\n"
                         "cvt.u64.u32 %%rd6, %%r4;\ncvta.shared.u64 %%rd7, %%rd6;\n"
                         "ldmatrix.sync.aligned.m8n8.x%u%s%s.b16 %s, [%s];\n"
                         "st.global.v4.b32 [%%rd5], {%%r10, %%r11, %%r12, %%r13};\nret;",
                         SHARED FILL OUT, count, trans ? ".trans" : "", generic ? "" : ".shared",
                         registers[count], generic ? "%rd7" : "%r4");
                const uint64_t at = emulator_zeros(e, 512);
                emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
                const uint16_t *got = emulator_at(e, at, 512);
                for (unsigned lane = 0; lane < 32; lane++)
                    for (unsigned i = 0; i < 2 * count; i++) {
                        const unsigned row = lane / 4, col = lane % 4 * 2 + i % 2;
                        const unsigned tile = i / 2 * 64;
                        assert_int_equal(got[lane * 8 + i],
                                         tile + (trans ? col * 8 + row : row * 8 + col));
                    }
            }
}

static void tiles_are_stored(void **state)
{
    struct emulator *e = *state;
    for (unsigned count = 1; count <= 4; count *= 2)
        for (unsigned trans = 0; trans < 2; trans++) {
            static const char *const registers[] = { "", "{%r10}", "{%r10,%r11}", "",
                                                     "{%r10,%r11,%r12,%r13}" };
            char body[4096];
            // Element i of register k of a lane is 64 k + 2 lane + i.
            snprintf(body, sizeof(body),
                     "%s"
                     "mul.lo.u32 %%r10, %%r0, 0x20002;\nadd.u32 %%r10, %%r10, 0x10000;\n"
                     "add.u32 %%r11, %%r10, 0x400040;\nadd.u32 %%r12, %%r10, 0x800080;\n"
                     "add.u32 %%r13, %%r10, 0xc000c0;\n"
                     "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [%%r4], %s;\nbar.warp.sync -1;\n"
                     "ld.shared.v4.b32 {%%r10, %%r11, %%r12, %%r13}, [%%r4];\n"
                     "st.global.v4.b32 [%%rd5], {%%r10, %%r11, %%r12, %%r13};\nret;",
                     SHARED FILL OUT, count, trans ? ".trans" : "", registers[count]);
            const uint64_t at = emulator_zeros(e, 512);
            emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
            const uint16_t *got = emulator_at(e, at, 512);
            for (unsigned i = 0; i < count * 64; i++) {
                const unsigned row = i / 8 % 8, col = i % 8;
                assert_int_equal(got[i], i / 64 * 64 + (trans ? col * 8 + row : row * 8 + col));
            }
        }
}

// ---- what is reported ---------------------------------------------------------------------------

static void faults(void **state)
{
    struct emulator *e = *state;
    static const struct {
        const char *body;
        int result;
        const char *words;
    } rows[] = {
        { SHARED FILL "add.u32 %r4, %r4, 8;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                      "{%r10,%r11,%r12,%r13}, [%r4];\nret;",
          716, "misaligned load of 16 bytes|ldmatrix" },
        { SHARED FILL "add.u32 %r4, %r4, 1024;\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], "
                      "{%r0};\nret;",
          700, "store|stmatrix" },
        { "ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd0];\nret;", 700, "not in shared memory" },
        { SHARED FILL "setp.lt.u32 %p1, %r0, 16;\n@!%p1 bra L;\n"
                      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4];\nL: ret;",
          715, "it needs all 32 lanes of a warp; lanes 0xffff0000 are not there|ldmatrix" },
        { "setp.lt.u32 %p1, %r0, 1;\n@%p1 exit;\nmma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
          "{%r10,%r11,%r12,%r13}, {%r0,%r0}, {%r0}, {%r0,%r0,%r0,%r0};\nret;",
          715, "lanes 0x00000001 are not there|mma" },
        { SHARED "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r9];\nret;", 719,
          "uninitialised value decides an address: register %r9" },
        { SHARED "shl.b32 %r6, %r0, 5;\nst.shared.b32 [%r4], %r6;\n"
                 "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r3];\nret;",
          719, "race|ldmatrix" },
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        emulator_expect(e, emulator_body(e, rows[k].body, emulator_zeros(e, 1024), 0, 0),
                        rows[k].result, rows[k].words);
    // Where both halves of a warp get to it by other ways, they meet.
    emulator_expect(e,
                    emulator_body(e,
                                  SHARED FILL "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra L;\n"
                                              "add.u32 %r6, %r6, 1;\n"
                                              "L: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, "
                                              "[%r4];\nret;",
                                  0, 0, 0),
                    0, "");
}

// An undefined element of memory makes half a register undefined; an undefined row of A, one of D.
static void undefined_elements(void **state)
{
    struct emulator *e = *state;
    const uint64_t out = emulator_alloc(e, 128);
    const char *load = SHARED "mul.wide.u32 %rd4, %r0, 4;\nadd.u64 %rd5, %rd0, %rd4;\n"
                              "st.shared.b64 [%r4], %rd4;\nst.shared.b32 [%r4+8], %r0;\n"
                              "st.shared.b16 [%r4+12], %h1;\nbar.warp.sync -1;\n"
                              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4];\n"
                              "setp.ge.u32 %p1, %r0, 3;\nand.b32 %r6, %r0, 3;\n"
                              "setp.eq.u32 %p2, %r6, 3;\n@%p2 mov.u32 %r10, 0;\n"
                              "add.u32 %r10, %r10, 1;\n"
                              "st.global.u32 [%rd5], %r10;\nret;";
    emulator_expect_fine(e, emulator_body(e, load, out, 0, 0), out, 128);
    const char *all = SHARED "mul.wide.u32 %rd4, %r0, 4;\nadd.u64 %rd5, %rd0, %rd4;\n"
                             "st.shared.b64 [%r4], %rd4;\nbar.warp.sync -1;\n"
                             "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4];\n"
                             "add.u32 %r10, %r10, 1;\n"
                             "st.global.u32 [%rd5], %r10;\nret;";
    emulator_expect_undefined(e, emulator_body(e, all, out, 0, 0), out, 128,
                              "uninitialised|memory, never written|ldmatrix");
    static const char *const kept[] = { "16", "32" }; // lanes 0 to 15 have rows 0 to 3 and 8 to 11
    for (unsigned k = 0; k < 2; k++) {
        char body[2048];
        snprintf(body, sizeof(body),
                 "mov.u32 %%r12, 1;\nsetp.lt.u32 %%p1, %%r0, 16;\n@%%p1 mov.u32 %%r10, 1;\n"
                 "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%%r20,%%r21,%%r22,%%r23}, "
                 "{%%r10,%%r10}, {%%r12}, {%%r12,%%r12,%%r12,%%r12};\n"
                 "setp.lt.u32 %%p2, %%r0, %s;\n@!%%p2 mov.u32 %%r20, 0;\n"
                 "mul.wide.u32 %%rd4, %%r0, 4;\nadd.u64 %%rd5, %%rd0, %%rd4;\n"
                 "st.global.u32 [%%rd5], %%r20;\nret;",
                 kept[k]);
        const int result = emulator_body(e, body, out, 0, 0);
        if (k)
            emulator_expect_undefined(e, result, out, 128, "uninitialised|%r10");
        else
            emulator_expect_fine(e, result, out, 128);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        EMULATOR_TEST(tiles_are_multiplied), EMULATOR_TEST(summands_are_truncated),
        EMULATOR_TEST(smallest_sums),        EMULATOR_TEST(tiles_are_loaded),
        EMULATOR_TEST(tiles_are_stored),     EMULATOR_TEST(faults),
        EMULATOR_TEST(undefined_elements),
    };
    if (argc > 1)
        tile_count = (unsigned)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("emulator exec matrix", tests, NULL, NULL);
}

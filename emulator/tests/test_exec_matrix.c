// SPDX-License-Identifier: MIT
// ldmatrix, stmatrix and mma: how sums are truncated, and what is reported. `mma emulator` has
// products of whole tiles.
#include "fixture.h"

// ---- mma ----------------------------------------------------------------------------------------

// The first element of a product, of row `a`, column `b` and the summand `c`: four lanes have one
// register of each, with elements of 16 or 32 bits.
static void expect_first(struct emulator *e, int sm, const char *shape, const uint32_t a[8],
                         const uint32_t b[8], uint32_t c, uint32_t wanted)
{
    const bool wide = strstr(shape, "tf32") != NULL;
    uint32_t words[32][4] = { { 0 } };
    char body[1024];
    for (unsigned lane = 0; lane < 4; lane++) {
        words[lane][0] = wide ? a[lane] : a[2 * lane] | a[2 * lane + 1] << 16;
        words[lane][1] = wide ? b[lane] : b[2 * lane] | b[2 * lane + 1] << 16;
    }
    words[0][2] = c;
    snprintf(body, sizeof(body),
             "mul.wide.u32 %%rd4, %%r0, 16;\nadd.u64 %%rd5, %%rd0, %%rd4;\n"
             "ld.global.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%rd5];\n"
             "mma.sync.aligned.%s {%%r12,%%r14,%%r15,%%r16}, {%%r10,%%r13}, {%%r11}, "
             "{%%r12,%%r13,%%r13,%%r13};\nst.global.u32 [%%rd5], %%r12;\nret;",
             shape);
    e->config.gpu = emu_gpu_of(sm);
    const uint64_t at = emulator_upload(e, words, sizeof(words));
    emulator_runs(e, body, at, 0, 0);
    const uint32_t *got = emulator_at(e, at, sizeof(words));
    if (*got != wanted)
        fail_msg("sm_%d %s: %08x, wanted %08x", sm, shape, (unsigned)*got, (unsigned)wanted);
    emu_memory_free(e->memory, at);
}

// 1 + 1 + c: the ones count down to the last of 25 bits below the exponent of c, on sm_80 of 24;
// then f32 has room for them.
EMULATOR_TEST(summands_are_truncated)
{
    static const uint32_t ones[8] = { 0x3c00, 0x3c00 };
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
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        expect_first(e, rows[k].sm, "m16n8k8.row.col.f32.f16.f16.f32", ones, ones, rows[k].c,
                     rows[k].wanted);
}

// Results of an H200, of tiles of tests/hardware/mma_record.c: no sum is aligned to less than
// 2^-133, and of tf32 a number whose 19 bits are zero is zero, infinity times it NaN.
EMULATOR_TEST(smallest_sums)
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
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        expect_first(e, 90, rows[k].shape, rows[k].a, rows[k].b, rows[k].c, rows[k].wanted);
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

EMULATOR_TEST(tiles_are_loaded)
{
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
                emulator_runs(e, body, at, 0, 0);
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

EMULATOR_TEST(tiles_are_stored)
{
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
            emulator_runs(e, body, at, 0, 0);
            const uint16_t *got = emulator_at(e, at, 512);
            for (unsigned i = 0; i < count * 64; i++) {
                const unsigned row = i / 8 % 8, col = i % 8;
                assert_int_equal(got[i], i / 64 * 64 + (trans ? col * 8 + row : row * 8 + col));
            }
        }
}

// ---- what is reported ---------------------------------------------------------------------------

EMULATOR_TEST(faults)
{
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
        emulator_fails(e, rows[k].body, emulator_zeros(e, 1024), 0, 0, rows[k].result,
                       rows[k].words);
    // Nothing follows a fault.
    const uint64_t out = emulator_zeros(e, 4);
    emulator_fails(e,
                   SHARED FILL "add.u32 %r4, %r4, 8;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                               "{%r10,%r11,%r12,%r13}, [%r4];\nst.global.u32 [%rd0], 1;\nret;",
                   out, 0, 0, 716, "misaligned load of 16 bytes|ldmatrix");
    assert_int_equal(*(const int *)emulator_at(e, out, 4), 0);
    // Where both halves of a warp get to it by other ways, they meet.
    emulator_runs(e,
                  SHARED FILL "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra L;\n"
                              "add.u32 %r6, %r6, 1;\n"
                              "L: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, "
                              "[%r4];\nret;",
                  0, 0, 0);
}

// An undefined element of memory makes half a register undefined; an undefined row of A, one of D.
EMULATOR_TEST(undefined_elements)
{
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

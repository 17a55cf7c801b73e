// SPDX-License-Identifier: MIT
// Asynchronous copies, cache hints, accesses of 256 bits, atomics on vectors.
#include "fixture.h"

static uint64_t numbers(struct emulator *e, uint32_t count)
{
    uint32_t words[256];
    for (uint32_t i = 0; i < count; i++)
        words[i] = 1000 + i;
    return emulator_upload(e, words, count * sizeof(uint32_t));
}

static void expect_words(struct emulator *e, uint64_t at, const uint32_t *wanted, uint32_t count)
{
    const uint32_t *got = emulator_at(e, at, count * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        if (got[i] != wanted[i])
            fail_msg("word %u: %u, not %u", (unsigned)i, (unsigned)got[i], (unsigned)wanted[i]);
}

// 16 bytes for each thread: %rd4 in the source, %r3 in shared memory, %rd5 in the result.
#define ADDRESSES                                                                                  \
    ".shared .align 16 .b8 s[1024];\nmul.wide.u32 %rd6, %r0, 16;\nadd.u64 %rd4, %rd0, %rd6;\n"     \
    "add.u64 %rd5, %rd1, %rd6;\nmov.u32 %r4, s;\nmad.lo.u32 %r3, %r0, 16, %r4;\n"
#define FILL "mov.u32 %r6, 7;\nst.shared.v4.u32 [%r3], {%r6, %r6, %r6, %r6};\n"
#define SHOW                                                                                       \
    "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];\n"                                          \
    "st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};\nret;"
#define SHOW_SUM                                                                                   \
    "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];\n"                                          \
    "add.u32 %r10, %r10, %r11;\nst.global.u32 [%rd5], %r10;\nret;"

EMULATOR_TEST(copies)
{
    static const struct {
        const char *copy;
        uint32_t taken[4]; // 1: the word of the source, 0: zero, 2: unchanged
    } rows[] = {
        { "cp.async.cg.shared.global [%r3], [%rd4], 16;", { 1, 1, 1, 1 } },
        { "cp.async.ca.shared::cta.global.L2::128B [%r3], [%rd4], 16;", { 1, 1, 1, 1 } },
        { "cp.async.ca.shared.global [%r3+8], [%rd4+8], 8;", { 2, 2, 1, 1 } },
        { "cp.async.ca.shared.global [%r3+4], [%rd4+4], 4;", { 2, 1, 2, 2 } },
        { "cp.async.cg.shared.global [%r3], [%rd4], 16, 8;", { 1, 1, 0, 0 } },
        { "mov.u32 %r5, 12; cp.async.cg.shared.global [%r3], [%rd4], 16, %r5;", { 1, 1, 1, 0 } },
        { "cp.async.cg.shared.global [%r3], [%rd4], 16, 0;", { 0, 0, 0, 0 } },
        { "setp.eq.u32 %p1, %r0, %r0; cp.async.cg.shared.global [%r3], [%rd4], 16, %p1;",
          { 0, 0, 0, 0 } },
        { "setp.eq.u32 %p1, %r0, %r0; cp.async.cg.shared.global [%r3], [%rd4], 16, !%p1;",
          { 1, 1, 1, 1 } },
        { "createpolicy.fractional.L2::evict_last.b64 %rd8, 0.5;\n"
          "cp.async.cg.shared.global.L2::cache_hint [%r3], [%rd4], 16, 4, %rd8;",
          { 1, 0, 0, 0 } },
    };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        char body[2048];
        uint32_t wanted[128];
        snprintf(body, sizeof(body), "%s%s\ncp.async.wait_all;\n%s", ADDRESSES FILL, rows[k].copy,
                 SHOW);
        for (uint32_t i = 0; i < 128; i++)
            wanted[i] = rows[k].taken[i % 4] == 1 ? 1000 + i : rows[k].taken[i % 4] ? 7 : 0;
        uint64_t in = numbers(e, 128), out = emulator_alloc(e, 512);
        emulator_runs(e, body, in, out, 0);
        expect_words(e, out, wanted, 128);
    }
}

// After the wait, all of three batches have arrived except the last two, the last one, or none. The
// sanitizers report what is read of the others.
EMULATOR_TEST(batches)
{
    for (unsigned kept = 0; kept < 4; kept++) {
        char body[2048];
        uint32_t wanted[128];
        snprintf(body, sizeof(body), "%s%scp.async.wait_group %u;\n%s", ADDRESSES FILL,
                 "cp.async.ca.shared.global [%r3], [%rd4], 4;\ncp.async.commit_group;\n"
                 "cp.async.ca.shared.global [%r3+4], [%rd4+4], 4;\ncp.async.commit_group;\n"
                 "cp.async.ca.shared.global [%r3+8], [%rd4+8], 4;\ncp.async.commit_group;\n"
                 "cp.async.ca.shared.global [%r3+12], [%rd4+12], 4;\n",
                 kept, SHOW);
        for (uint32_t i = 0; i < 128; i++)
            wanted[i] = i % 4 + kept < 3 ? 1000 + i : 7;
        uint64_t in = numbers(e, 128), out = emulator_alloc(e, 512);
        e->config.sanitize = EMU_SANITIZE_OFF;
        emulator_runs(e, body, in, out, 0);
        expect_words(e, out, wanted, 128);
        e->config.sanitize = EMU_SANITIZE_ON;
        emulator_fails(e, body, in, out, 0, 719,
                       "not after the wait for the asynchronous copy by thread");
    }
}

EMULATOR_TEST(faulty_copies)
{
    uint64_t in = numbers(e, 128), out = emulator_alloc(e, 512), fresh = emulator_alloc(e, 512);
    // Without a wait.
    emulator_fails(e,
                   ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4], 16;\n"
                             "cp.async.commit_group;\n" SHOW_SUM,
                   in, out, 0, 719, "not after the wait for the asynchronous copy|ld.shared.v4");
    emulator_fails(
        e,
        ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4], 16;\n" FILL "cp.async.wait_all;\n" SHOW,
        in, out, 0, 719, "this write|not after the wait for the asynchronous copy|st.shared.v4");
    // The copy of another thread, with a wait but without a barrier.
    emulator_fails(e,
                   ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4], 16;\n"
                             "cp.async.wait_all;\nxor.b32 %r3, %r3, 16;\n" SHOW,
                   in, out, 0, 719, "shared-memory race|line");
    // A copy of undefined bytes is undefined.
    const char *copy = ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4], 16;\n"
                                 "cp.async.wait_all;\n" SHOW;
    const char *sum = ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4], 16;\n"
                                "cp.async.wait_all;\n" SHOW_SUM;
    emulator_expect_fine(e, emulator_body(e, copy, fresh, out, 0), out, 512);
    emulator_expect_undefined(e, emulator_body(e, sum, fresh, out, 0), out, 512,
                              "copied to the host|memory, never written|ld.shared.v4");
    emulator_fails(e,
                   ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4+512], 16;\n"
                             "ret;",
                   in, out, 0, 700, "out of bounds|load|cp.async");
    emulator_fails(e,
                   ADDRESSES "cp.async.cg.shared.global [%r3+1024], [%rd4], 16;\n"
                             "ret;",
                   in, out, 0, 700, "out of bounds|store|shared memory");
    emulator_fails(e, ADDRESSES "cp.async.cg.shared.global [%r3], [%rd4+8], 16;\nret;", in, out, 0,
                   716, "misaligned load of 16 bytes");
    emulator_fails(e, ADDRESSES "cp.async.ca.shared.global [%r3+4], [%rd4], 8;\nret;", in, out, 0,
                   716, "misaligned store of 8 bytes");
    emulator_fails(e,
                   ADDRESSES "mov.u32 %r5, 17;\n"
                             "cp.async.ca.shared.global [%r3], [%rd4], 16, %r5;\n"
                             "ret;",
                   in, out, 0, 715, "cp.async copies 16 bytes, but its source size is 17");
}

EMULATOR_TEST(hints)
{
    uint64_t in = numbers(e, 128), out = emulator_zeros(e, 512);
    uint32_t wanted[128];
    emulator_runs(e,
                  ADDRESSES "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 "
                            "%rd7, [%rd0], 256, 512;\ncreatepolicy.cvt.L2.b64 %rd8, %rd7;\n"
                            "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;\n"
                            "prefetch.global.L2::evict_last [%rd4];\nprefetchu.L1 [%rd4];\n"
                            "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.f32 "
                            "{%f1, %f2, %f3, %f4}, [%rd4], %rd7;\n"
                            "st.global.L1::evict_last.L2::cache_hint.v4.f32 "
                            "[%rd5], {%f1, %f2, %f3, %f4}, %rd8;\n"
                            "red.global.add.L2::cache_hint.u32 [%rd5], 5, %rd9;\n"
                            "atom.global.max.L2::cache_hint.u32 %r5, [%rd5+4], 2000, %rd9;\n"
                            "applypriority.global.L2::evict_normal [%rd0], 128;\n"
                            "discard.global.L2 [%rd0], 128;\nret;",
                  in, out, 0);
    for (uint32_t i = 0; i < 128; i++)
        wanted[i] = i % 4 == 1 ? 2000 : 1000 + i + (i % 4 ? 0 : 5);
    expect_words(e, out, wanted, 128);
}

// 32 bytes at once, on sm_100.
EMULATOR_TEST(wide_accesses)
{
    static const char *const moves[] = {
        "ld.global.L1::evict_last.L2::evict_first.v8.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, "
        "[%d1];\nst.global.v8.b32 [%d2], {%f7, %f6, %f5, %f4, %f3, %f2, %f1, %f0};\n",
        "ld.global.nc.v8.u32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d1];\n"
        "st.global.v8.u32 [%d2], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};\n",
        "ld.global.v4.b64 {%d4, %d5, %d6, %d7}, [%d1];\nmov.b64 {%r0, %r1}, %d4;\n"
        "mov.b64 {%r2, %r3}, %d5;\nmov.b64 {%r4, %r5}, %d6;\nmov.b64 {%r6, %r7}, %d7;\n"
        "mov.b64 %d4, {%r7, %r6};\nmov.b64 %d5, {%r5, %r4};\nmov.b64 %d6, {%r3, %r2};\n"
        "mov.b64 %d7, {%r1, %r0};\nst.global.v4.b64 [%d2], {%d4, %d5, %d6, %d7};\n",
    };
    for (size_t k = 0; k < sizeof(moves) / sizeof(moves[0]); k++) {
        for (unsigned off = 0; off < 2; off++) {
            char text[4096];
            uint32_t wanted[256];
            snprintf(text, sizeof(text),
                     ".version 8.8\n.target sm_100\n.address_size 64\n"
                     ".visible .entry k(.param .u64 p, .param .u64 q)\n{\n.reg .b32 %%r<9>;\n"
                     ".reg .f32 %%f<8>;\n.reg .b64 %%d<8>;\nld.param.u64 %%d1, [p];\n"
                     "ld.param.u64 %%d2, [q];\nmov.u32 %%r8, %%tid.x;\n"
                     "mul.wide.u32 %%d3, %%r8, 32;\nadd.u64 %%d1, %%d1, %%d3;\n"
                     "add.u64 %%d2, %%d2, %%d3;\nadd.u64 %%d1, %%d1, %u;\n%sret;\n}\n",
                     off * 16, moves[k]);
            emulator_load(e, text);
            const uint64_t params[] = { numbers(e, 256), emulator_alloc(e, 1024) };
            int result = emulator_run(e, params);
            emulator_expect(e, result, off ? 716 : 0, off ? "misaligned load of 32 bytes" : "");
            for (uint32_t i = 0; i < 256; i++)
                wanted[i] = 1000 + (i ^ 7);
            if (!off)
                expect_words(e, params[1], wanted, 256);
        }
    }
}

EMULATOR_TEST(vector_atomics)
{
    const float start[4] = { 1, 2, 3, 4 };
    const uint32_t halves[4] = { 0x3c004000, 0x40003c00, 0, 0x3c003c00 }; // 2 1, 1 2, 0 0, 1 1
    uint64_t sums = emulator_upload(e, start, sizeof(start));
    uint64_t packed = emulator_upload(e, halves, sizeof(halves)), old = emulator_alloc(e, 512);
    emulator_runs(e,
                  "mul.wide.u32 %rd6, %r0, 16;\nadd.u64 %rd5, %rd2, %rd6;\n"
                  "cvt.rn.f32.u32 %f1, %r0;\nmov.f32 %f2, 0f3F800000;\n"
                  "red.global.add.v2.f32 [%rd0], {%f1, %f2};\n"
                  "atom.global.v4.f32.add {%f4, %f5, %f6, %f7}, [%rd0], {%f2, %f2, "
                  "%f1, %f2};\nst.global.v4.f32 [%rd5], {%f4, %f5, %f6, %f7};\n"
                  "mov.b32 %r5, 0x3c000000;\nmov.b32 %r6, 0x00003c00;\n"
                  "red.global.add.noftz.v4.f16x2 [%rd1], {%r5, %r6, %r5, %r6};\n"
                  "ret;",
                  sums, packed, old);
    const float *got = emulator_at(e, sums, sizeof(start)), *before = emulator_at(e, old, 512);
    const float wanted[4] = { 1 + 496 + 32, 2 + 32 + 32, 3 + 496, 4 + 32 };
    const uint32_t wanted_halves[4] = { 0x50204000, 0x40005020, 0x50000000, 0x3c005020 };
    for (unsigned k = 0; k < 4; k++)
        assert_true(got[k] == wanted[k]);
    expect_words(e, packed, wanted_halves, 4);
    // Lanes execute in ascending order.
    for (unsigned i = 0; i < 32; i++) {
        assert_true(before[4 * i] == 497 + (float)i);
        assert_true(before[4 * i + 1] == 34 + (float)i);
        assert_true(before[4 * i + 2] == 3 + (float)(i * (i - 1) / 2));
        assert_true(before[4 * i + 3] == 4 + (float)i);
    }
    emulator_fails(e,
                   "mov.f32 %f2, 0f3F800000;\n"
                   "red.global.add.v4.f32 [%rd0+8], {%f2, %f2, %f2, %f2};\nret;",
                   sums, 0, 0, 716, "misaligned atomic of 16 bytes");
}

// The address register is a result too. The other results come from the old address.
EMULATOR_TEST(over_its_address)
{
    const char *body = "mul.wide.u32 %rd6, %r0, 16;\nadd.u64 %rd4, %rd0, %rd6;\n"
                       "xor.b32 %r5, %r0, 1;\nmul.wide.u32 %rd6, %r5, 16;\n"
                       "add.u64 %rd5, %rd1, %rd6;\nadd.u64 %rd7, %rd0, %rd6;\n"
                       "setp.eq.u64 %p1, %rd2, 0;\n@%p1 mov.u64 %rd7, %rd4;\n"
                       "ld.global.v2.u64 {%rd7, %rd8}, [%rd7];\n"
                       "st.global.v2.u64 [%rd5], {%rd7, %rd8};\nret;";
    for (uint32_t apart = 0; apart < 2; apart++) { // consecutive addresses or not
        uint64_t in = numbers(e, 128), out = emulator_zeros(e, 512);
        uint32_t wanted[128];
        for (uint32_t i = 0; i < 128; i++)
            wanted[i] = 1000 + (apart ? i : i ^ 4);
        emulator_runs(e, body, in, out, apart);
        expect_words(e, out, wanted, 128);
    }
}

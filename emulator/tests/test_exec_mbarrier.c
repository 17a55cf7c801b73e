// SPDX-License-Identifier: MIT
// mbarrier objects and bulk copies: what they compute, also in text of libcu++, and the reports of
// kernels that use them wrongly.
#include "sample.h"

enum { THREADS = 128, BLOCKS = 3, ROUNDS = 7 };

static void values(int *in, int count)
{
    for (int i = 0; i < count; i++)
        in[i] = i * 7919 % 1000 - 500;
}

// ---- libcu++ ------------------------------------------------------------------------------------

EMULATOR_TEST(by_bulk)
{
    static int in[BLOCKS * 1024];
    values(in, BLOCKS * 1024);
    load_sample(e, "barriers");
    e->grid = BLOCKS;
    e->block = THREADS;
    for (uint64_t seed = 0; seed < 4; seed++) {
        e->config.seed = seed;
        const uint64_t out = emulator_zeros(e, sizeof in);
        const uint64_t params[] = { emulator_upload(e, in, sizeof in), out };
        emulator_expect_fine(e, emulator_run_entry(e, "by_bulk", params), out, sizeof in);
        const int *got = emulator_at(e, out, sizeof in);
        for (int i = 0; i < BLOCKS * 1024; i++)
            assert_int_equal(got[i], 2 * in[i] + 1);
    }
}

EMULATOR_TEST(by_threads)
{
    static int in[ROUNDS * 256];
    values(in, ROUNDS * 256);
    load_sample(e, "barriers");
    e->block = 256;
    for (uint64_t seed = 0; seed < 4; seed++) {
        e->config.seed = seed;
        const uint64_t out = emulator_zeros(e, 1024);
        const uint64_t params[] = { emulator_upload(e, in, sizeof in), out, ROUNDS };
        emulator_expect_fine(e, emulator_run_entry(e, "by_threads", params), out, 1024);
        const int *got = emulator_at(e, out, 1024);
        for (int i = 0; i < 256; i++) {
            int sum = 0;
            for (int k = 0; k < ROUNDS; k++)
                sum += (k + 1) * in[k * 256 + (i ^ 65)];
            assert_int_equal(got[i], sum);
        }
    }
}

EMULATOR_TEST(by_roles)
{
    static int in[ROUNDS * 32];
    values(in, ROUNDS * 32);
    load_sample(e, "barriers");
    e->block = THREADS;
    for (uint64_t seed = 0; seed < 4; seed++) {
        e->config.seed = seed;
        const uint64_t out = emulator_zeros(e, 4 * THREADS);
        const uint64_t params[] = { emulator_upload(e, in, sizeof in), out, ROUNDS };
        emulator_expect_fine(e, emulator_run_entry(e, "by_roles", params), out, 4 * THREADS - 128);
        const int *got = emulator_at(e, out, 4 * THREADS);
        for (int i = 32; i < THREADS; i++) {
            int sum = 0;
            for (int k = 0; k < ROUNDS; k++)
                sum += in[k * 32 + (i % 32 + i / 32) % 32];
            assert_int_equal(got[i - 32], sum);
        }
    }
}

EMULATOR_TEST(with_drops)
{
    load_sample(e, "barriers");
    e->block = THREADS;
    const uint64_t out = emulator_zeros(e, 4), params[] = { out };
    emulator_expect(e, emulator_run_entry(e, "with_drops", params), 0, "");
    assert_int_equal(*(int *)emulator_at(e, out, 4), 32 * (1 + (1 << 8) + (1 << 16)));
}

// ---- single instructions ------------------------------------------------------------------------

#define SHARED ".shared .align 16 .b8 bar[16]; .shared .align 16 .b8 buf[512];\n"
#define INIT(count)                                                                                \
    "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], " #count "; bar.sync 0;\n"

// The count of a state is that before the arrival; a phase ends with its last arrival.
EMULATOR_TEST(states_and_phases)
{
    const char *body = SHARED "mbarrier.init.shared.b64 [bar], 3;\n"
                              "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;\n"
                              "mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;\n"
                              "mbarrier.arrive.shared.b64 %rd4, [bar], 2;\n"
                              "mbarrier.test_wait.shared.b64 %p3, [bar], %rd4;\n"
                              "mbarrier.arrive_drop.shared.b64 %rd5, [bar];\n"
                              "mbarrier.test_wait.shared.b64 %p4, [bar], %rd5;\n"
                              "mbarrier.test_wait.parity.shared.b64 %p5, [bar], 0;\n"
                              "mbarrier.arrive.noComplete.shared.b64 %rd6, [bar], 1;\n"
                              "mbarrier.arrive.shared.b64 _, [bar];\n"
                              "mbarrier.try_wait.shared.b64 %p6, [bar], %rd6, 100;\n"
                              "mbarrier.pending_count.b64 %r3, %rd4;\n"
                              "mbarrier.pending_count.b64 %r4, %rd5;\n"
                              "mbarrier.pending_count.b64 %r5, %rd6;\n"
                              "mbarrier.inval.shared.b64 [bar];\n"
                              "selp.u32 %r6, 1, 0, %p1; selp.u32 %r7, 2, 0, %p2;\n"
                              "selp.u32 %r8, 4, 0, %p3; selp.u32 %r9, 8, 0, %p4;\n"
                              "selp.u32 %r10, 16, 0, %p5; selp.u32 %r11, 32, 0, %p6;\n"
                              "or.b32 %r6, %r6, %r7; or.b32 %r6, %r6, %r8; or.b32 %r6, %r6, %r9;\n"
                              "or.b32 %r6, %r6, %r10; or.b32 %r6, %r6, %r11;\n"
                              "st.global.v4.u32 [%rd0], {%r3, %r4, %r5, %r6}; ret;";
    e->block = 1;
    const uint64_t out = emulator_zeros(e, 16);
    emulator_expect_fine(e, emulator_body(e, body, out, 0, 0), out, 16);
    const uint32_t *got = emulator_at(e, out, 16);
    assert_int_equal(got[0], 3);
    assert_int_equal(got[1], 1);
    assert_int_equal(got[2], 2);
    assert_int_equal(got[3], 1 | 8 | 16 | 32);
}

EMULATOR_TEST(generic_addresses)
{
    const char *body = SHARED "mov.u64 %rd4, bar; cvta.shared.u64 %rd4, %rd4;\n"
                              "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.b64 [%rd4], 32;\n"
                              "bar.sync 0;\n"
                              "mul.lo.u32 %r3, %r0, 4; mov.u32 %r4, buf; add.u32 %r4, %r4, %r3;\n"
                              "cvt.u64.u32 %rd6, %r3; add.u64 %rd6, %rd6, %rd1;\n"
                              "cp.async.ca.shared.global [%r4], [%rd6], 4;\n"
                              "cp.async.mbarrier.arrive.noinc.b64 [%rd4];\n"
                              "L: mbarrier.try_wait.parity.b64 %p1, [%rd4], 0; @!%p1 bra L;\n"
                              "xor.b32 %r4, %r4, 12; ld.shared.u32 %r5, [%r4];\n"
                              "cvt.u64.u32 %rd6, %r3; add.u64 %rd6, %rd6, %rd0;\n"
                              "st.global.u32 [%rd6], %r5; ret;";
    int in[32];
    values(in, 32);
    const uint64_t out = emulator_zeros(e, sizeof in);
    emulator_expect_fine(e, emulator_body(e, body, out, emulator_upload(e, in, sizeof in), 0), out,
                         sizeof in);
    for (int i = 0; i < 32; i++)
        assert_int_equal(((int *)emulator_at(e, out, sizeof in))[i], in[i ^ 3]);
}

// Two groups: the wait for all but one leaves the second, which the end of the thread completes.
EMULATOR_TEST(bulk_groups)
{
    const char *body = SHARED "mul.lo.u32 %r3, %r0, 16; mov.u32 %r4, buf; add.u32 %r4, %r4, %r3;\n"
                              "mov.u32 %r5, 1; add.u32 %r6, %r0, 7;\n"
                              "st.shared.v4.u32 [%r4], {%r0, %r5, %r6, %r3};\n"
                              "cvt.u64.u32 %rd4, %r3; add.u64 %rd5, %rd4, %rd0;\n"
                              "cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r4], 16;\n"
                              "cp.async.bulk.commit_group;\n"
                              "cp.async.bulk.global.shared::cta.bulk_group [%rd5+512], [%r4], 16;\n"
                              "cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;\n"
                              "ld.global.u32 %r7, [%rd5+8]; ld.global.u32 %r8, [%rd5+520];\n"
                              "cvt.u64.u32 %rd6, %r0; mad.lo.u64 %rd6, %rd6, 8, %rd1;\n"
                              "st.global.v2.u32 [%rd6], {%r7, %r8}; ret;";
    const uint64_t out = emulator_zeros(e, 1024), seen = emulator_zeros(e, 256);
    emulator_expect_fine(e, emulator_body(e, body, out, seen, 0), seen, 256);
    const uint32_t *got = emulator_at(e, out, 1024), *was = emulator_at(e, seen, 256);
    for (uint32_t i = 0; i < 32; i++) {
        for (uint32_t half = 0; half < 2; half++) {
            assert_int_equal(got[128 * half + 4 * i], i);
            assert_int_equal(got[128 * half + 4 * i + 1], 1);
            assert_int_equal(got[128 * half + 4 * i + 2], i + 7);
            assert_int_equal(got[128 * half + 4 * i + 3], 16 * i);
        }
        assert_int_equal(was[2 * i], i + 7);
        assert_int_equal(was[2 * i + 1], 0); // as late as possible
    }
}

static uint64_t reduced(const char *operation, uint64_t old, uint64_t x)
{
    const bool wide = strstr(operation, "64") != NULL, is_signed = strstr(operation, ".s") != NULL;
    const int64_t a = wide ? (int64_t)old : (int32_t)old, b = wide ? (int64_t)x : (int32_t)x;
    if (strncmp(operation, "add", 3) == 0)
        return old + x;
    if (strncmp(operation, "min", 3) == 0)
        return (is_signed ? a < b : old < x) ? old : x;
    if (strncmp(operation, "max", 3) == 0)
        return (is_signed ? a > b : old > x) ? old : x;
    if (strncmp(operation, "inc", 3) == 0)
        return old >= x ? 0 : old + 1;
    if (strncmp(operation, "dec", 3) == 0)
        return old == 0 || old > x ? x : old - 1;
    return strncmp(operation, "and", 3) == 0 ? old & x : *operation == 'o' ? old | x : old ^ x;
}

// A block reduces 512 bytes of shared memory into global memory, twice.
EMULATOR_TEST(bulk_reductions)
{
    static const char *const operations[] = { "add.u32", "add.s32", "add.u64", "min.u32",
                                              "min.s32", "max.u64", "max.s64", "inc.u32",
                                              "dec.u32", "and.b32", "or.b64",  "xor.b64" };
    for (size_t k = 0; k < sizeof operations / sizeof *operations; k++) {
        const unsigned bytes = strstr(operations[k], "64") ? 8 : 4;
        char body[1024];
        uint32_t in[128], old[128];
        for (uint32_t i = 0; i < 128; i++) {
            in[i] = (i * 2654435761u) >> (i % 3 ? 0 : 27);
            old[i] = (i * 40503u + 7) << (i % 5 ? 0 : 16);
        }
        snprintf(
            body, sizeof body,
            ".shared .align 16 .b32 words[128];\n"
            "mul.lo.u32 %%r3, %%r0, 16; mov.u32 %%r4, words; add.u32 %%r4, %%r4, %%r3;\n"
            "cvt.u64.u32 %%rd4, %%r3; add.u64 %%rd4, %%rd4, %%rd1;\n"
            "ld.global.v4.u32 {%%r5, %%r6, %%r7, %%r8}, [%%rd4];\n"
            "st.shared.v4.u32 [%%r4], {%%r5, %%r6, %%r7, %%r8};\n"
            "fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %%p1, %%r0, 3;\n"
            "@%%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%rd0], [words], 512;\n"
            "@%%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%rd0], [words], 512;\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;",
            operations[k], operations[k]);
        const uint64_t out = emulator_upload(e, old, sizeof old);
        emulator_expect_fine(e, emulator_body(e, body, out, emulator_upload(e, in, sizeof in), 0),
                             out, sizeof old);
        for (unsigned i = 0; i < sizeof old / bytes; i++) {
            uint64_t x = 0, before = 0, after = 0, mask = bytes == 8 ? UINT64_MAX : UINT32_MAX;
            memcpy(&x, (char *)in + (size_t)i * bytes, bytes);
            memcpy(&before, (char *)old + (size_t)i * bytes, bytes);
            memcpy(&after, (char *)emulator_at(e, out, sizeof old) + (size_t)i * bytes, bytes);
            const uint64_t once = reduced(operations[k], before, x) & mask;
            assert_true(after == (reduced(operations[k], once, x) & mask));
        }
    }
}

// What the source lacks, the sum lacks.
EMULATOR_TEST(undefined_reduction)
{
    const char *body = SHARED "mov.u32 %r4, buf;\n"
                              "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.v2.u32 [%r4], {1, 2};\n"
                              "@%p1 st.shared.u32 [%r4+12], 4;\n"
                              "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
                              "[%rd0], [%r4], 16;\n"
                              "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;";
    const uint64_t out = emulator_zeros(e, 16);
    emulator_expect_undefined(e, emulator_body(e, body, out, 0, 0), out + 8, 4,
                              "memory, never written, read at line");
}

EMULATOR_TEST(elected)
{
    const char *body = "setp.lt.u32 %p1, %r0, 5; @%p1 bra E;\n"
                       "elect.sync %r3|%p2, 0xffffffe0;\n"
                       "selp.u32 %r4, 100, 0, %p2; add.u32 %r4, %r4, %r3;\n"
                       "mul.lo.u32 %r5, %r0, 4; cvt.u64.u32 %rd4, %r5; add.u64 %rd4, %rd4, %rd0;\n"
                       "st.global.u32 [%rd4], %r4;\n"
                       "E: fence.proxy.async; fence.mbarrier_init.release.cluster;\n"
                       "griddepcontrol.wait; ret;";
    const uint64_t out = emulator_zeros(e, 128);
    emulator_runs(e, body, out, 0, 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(((int *)emulator_at(e, out, 128))[i], i < 5 ? 0 : i == 5 ? 105 : 5);
}

// The end of a phase wakes the lanes that wait for it, and counts no others: three of two warps.
EMULATOR_TEST(lanes_that_wait)
{
    const char *body = SHARED INIT(1) "setp.eq.u32 %p2, %r0, 2; @%p2 bra ARRIVES;\n"
                                      "setp.eq.u32 %p3, %r0, 33; @%p3 bra WAITS;\n"
                                      "setp.eq.u32 %p4, %r0, 65; @%p4 bra WAITS;\n"
                                      "setp.eq.u32 %p5, %r0, 66; @%p5 bra WAITS;\n"
                                      "ret;\n"
                                      "ARRIVES: mbarrier.arrive.shared.b64 _, [bar]; ret;\n"
                                      "WAITS: mbarrier.try_wait.parity.shared.b64 %p6, [bar], 0;\n"
                                      "@!%p6 bra WAITS;\n"
                                      "cvt.u64.u32 %rd4, %r0; mad.lo.u64 %rd4, %rd4, 4, %rd0;\n"
                                      "st.global.u32 [%rd4], %r0; ret;";
    e->block = 96;
    for (e->config.seed = 0; e->config.seed < 8; e->config.seed++) {
        const uint64_t out = emulator_zeros(e, 4 * 96);
        emulator_runs(e, body, out, 0, 0);
        const int *got = emulator_at(e, out, 4 * 96);
        for (int i = 0; i < 96; i++)
            assert_int_equal(got[i], i == 33 || i == 65 || i == 66 ? i : 0);
    }
}

// ---- reports ------------------------------------------------------------------------------------

#define COPY "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], "
#define WAIT "L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra L;\n"
#define POLL "L: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra L;\n"

EMULATOR_TEST(reports)
{
    static const struct {
        const char *body;
        int result;
        const char *words;
    } cases[] = {
        { SHARED "mbarrier.arrive.shared.b64 %rd4, [bar]; ret;", 719,
          "mbarrier at shared offset 0x0|mbarrier.init has not initialised it" },
        { SHARED WAIT "ret;", 719, "mbarrier.init has not initialised it" },
        { SHARED INIT(32) "cp.async.mbarrier.arrive.shared.b64 [bar+8]; ret;", 719,
          "shared offset 0x8|has not initialised it" },
        { SHARED INIT(32) "@%p1 mbarrier.inval.shared.b64 [bar]; bar.sync 0;\n"
                          "mbarrier.arrive.shared.b64 _, [bar]; ret;",
          719, "mbarrier.init has not initialised it" },
        { SHARED "mbarrier.init.shared.b64 [bar], 0; ret;", 719,
          "mbarrier.init with a count of 0" },
        { SHARED INIT(33) "mbarrier.arrive.shared.b64 _, [bar];\n" WAIT "ret;", 702,
          "a phase of an mbarrier never completes|phase 0 of the mbarrier at shared offset 0x0|"
          "lacks 1 of 33 arrivals and 0 bytes" },
        { SHARED INIT(33) "mbarrier.arrive.shared.b64 _, [bar];\n" POLL "ret;", 702,
          "a phase of an mbarrier never completes|lacks 1 of 33 arrivals" },
        { SHARED INIT(31) "mbarrier.arrive.shared.b64 _, [bar]; bar.sync 0;\n"
                          "mbarrier.arrive.shared.b64 _, [bar], 31; ret;",
          719, "31 arrivals at the mbarrier at shared offset 0x0, whose phase 1 expects 30 more" },
        { SHARED INIT(1) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n@%p1 " COPY
                         "48, [bar];\n" WAIT "ret;",
          702, "a phase of an mbarrier never completes|lacks 0 of 1 arrivals and 16 bytes" },
        { SHARED INIT(1) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;\n@%p1 " COPY
                         "48, [bar];\n" WAIT "ret;",
          702, "lacks 0 of 1 arrivals and -16 bytes" },
        { SHARED INIT(1) "@%p1 mbarrier.expect_tx.shared.b64 [bar], 1048575;\n"
                         "@%p1 mbarrier.expect_tx.shared.b64 [bar], 1; ret;",
          719, "wrong transaction count|1048576 bytes" },
        { SHARED INIT(1) "@%p1 " COPY "64, [bar];\n@%p1 ld.shared.u32 %r5, [buf+60]; ret;", 719,
          "shared-memory race|not after the wait for the asynchronous copy by thread (0,0,0)" },
        { SHARED INIT(1) "@%p1 " COPY
                         "64, [bar];\nbar.sync 0; bar.sync 0; ld.shared.u32 %r5, [buf]; ret;",
          719, "shared-memory race|not after the wait for the asynchronous copy" },
        { SHARED INIT(1) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n@%p1 " COPY
                         "64, [bar];\n@%p1 " COPY "64, [bar]; ret;",
          719, "shared-memory race|not after the wait for the asynchronous copy" },
        { SHARED INIT(1) "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 0;\n@%p1 " COPY
                         "64, [bar];\n" WAIT "ld.shared.u32 %r5, [buf]; ret;",
          719, "shared-memory race|not after the wait for the asynchronous copy" },
        { SHARED "st.shared.v4.u32 [buf], {1, 1, 1, 1}; bar.sync 0; setp.eq.u32 %p1, %r0, 0;\n"
                 "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [buf], 16;\n"
                 "@%p1 cp.async.bulk.commit_group; bar.sync 0; ld.shared.u32 %r5, [buf];\n"
                 "setp.eq.u32 %p1, %r0, 9; @%p1 st.shared.u32 [buf+12], 2; ret;",
          719,
          "this write at shared offset 0xc|asynchronous copy by thread (0,0,0)|which reads "
          "there" },
        { SHARED INIT(32) "st.shared.u32 [bar], 1; bar.sync 0;\n"
                          "mbarrier.arrive.shared.b64 _, [bar]; ret;",
          719, "initialised at line|was overwritten" },
        { SHARED INIT(1) "mov.u32 %r5, 24; @%p1 " COPY "%r5, [bar]; ret;", 716,
          "of 24 bytes: the size is a multiple of 16" },
        { SHARED INIT(1) "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                         "[buf+8], [%rd1], 16, [bar]; ret;",
          716, "addresses are multiples of 16" },
        { SHARED INIT(1) "@%p1 " COPY "128, [bar]; ret;", 700, "out of bounds" },
        { SHARED INIT(1) "@%p1 " COPY "%r9, [bar]; ret;", 719,
          "uninitialised value decides the size" },
        { SHARED INIT(32) "mbarrier.arrive.shared.b64 _, [bar], %r9; ret;", 719,
          "uninitialised value decides an mbarrier's count" },
        { SHARED INIT(32) "mbarrier.arrive.noComplete.shared.b64 %rd4, [bar], 1; ret;", 719,
          "noComplete completes phase 0" },
        { SHARED "mbarrier.init.b64 [%rd0], 1; ret;", 700, "not in shared memory" },
        { SHARED "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 1;\n"
                 "setp.eq.u32 %p2, %r0, 1; @%p2 mbarrier.arrive.shared.b64 _, [bar]; ret;",
          719, "shared-memory race" },
    };
    int in[16];
    values(in, 16);
    const uint64_t source = emulator_upload(e, in, sizeof in), out = emulator_zeros(e, 64);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        emulator_fails(e, cases[k].body, out, source, 0, cases[k].result, cases[k].words);
}

// A wait gives false after some time, so that a thread which looks may do what completes the phase,
// or what another thread waits for.
EMULATOR_TEST(waits_give_false)
{
    static const char *const bodies[] = {
        SHARED INIT(1) "@!%p1 bra E; mov.u32 %r5, 0;\n"
                       "L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @%p2 bra D;\n"
                       "add.u32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, 3;\n"
                       "@%p3 mbarrier.arrive.shared.b64 _, [bar]; bra L;\n"
                       "D: st.global.u32 [%rd0], %r5;\nE: ret;",
        SHARED INIT(
            1) "setp.eq.u32 %p4, %r0, 32; @!%p4 bra T; // thread 32 waits for thread 0\n"
               "S: ld.volatile.shared.u32 %r6, [buf]; setp.ne.u32 %p3, %r6, 3; @%p3 bra S;\n"
               "mbarrier.arrive.shared.b64 _, [bar]; ret;\n"
               "T: @!%p1 bra E; mov.u32 %r5, 0; st.volatile.shared.u32 [buf], %r5;\n"
               "L: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @%p2 bra D;\n"
               "setp.lt.u32 %p3, %r5, 3; @%p3 add.u32 %r5, %r5, 1;\n"
               "st.volatile.shared.u32 [buf], %r5; bra L;\n"
               "D: st.global.u32 [%rd0], %r5;\nE: ret;",
    };
    e->block = 64;
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        const uint64_t out = emulator_zeros(e, 4);
        e->config.sanitize = k == 0;
        emulator_runs(e, bodies[k], out, 0, 0);
        assert_int_equal(*(uint32_t *)emulator_at(e, out, 4), 3);
    }
}

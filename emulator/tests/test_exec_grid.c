// SPDX-License-Identifier: MIT
// Grids: blocks that wait for blocks, cooperative launches, special registers, memory, jumps by a
// list. `rows ... emulator` has atomics, and the accesses that the builder writes.
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define GLOBAL_THREAD                                                                              \
    "mad.lo.u32 %r3, %r1, %r2, %r0;\nmul.wide.u32 %rd10, %r3, 4;\nadd.u64 %rd11, %rd0, %rd10;\n"

EMULATOR_TEST(every_thread_once)
{
    e->grid = 37;
    e->block = 100;
    for (unsigned round = 0; round < 6; round++) {
        e->config.seed = round;
        e->config.host_threads = 1 + round % 3;
        uint64_t out = emulator_zeros(e, 3700 * 4);
        int result =
            emulator_body(e, GLOBAL_THREAD "red.global.add.u32 [%rd11], %r3;\nret;", out, 0, 0);
        emulator_expect(e, result, 0, "");
        const uint32_t *got = emulator_at(e, out, 3700 * 4);
        for (uint32_t i = 0; i < 3700; i++)
            assert_int_equal(got[i], i);
    }
}

EMULATOR_TEST(blocks_wait_for_blocks)
{
    e->grid = 8; // all fit on the device; the first waits for the last
    for (uint64_t seed = 0; seed < 3; seed++) {
        e->config.seed = seed;
        uint64_t word = emulator_zeros(e, 4);
        const char *chain =
            "mov.u32 %r5, %nctaid.x;\nsub.u32 %r6, %r5, %r1;\nsub.u32 %r6, %r6, 1;\n"
            "S: ld.acquire.gpu.global.u32 %r7, [%rd0];\n"
            "setp.ne.u32 %p1, %r7, %r6;\n@%p1 bra S;\nbar.warp.sync -1;\n"
            "setp.eq.u32 %p2, %r0, 0;\nadd.u32 %r6, %r6, 1;\n"
            "@%p2 st.release.gpu.global.u32 [%rd0], %r6;\nret;";
        emulator_runs(e, chain, word, 0, 0);
        assert_int_equal(*(uint32_t *)emulator_at(e, word, 4), 8);
    }
}

EMULATOR_TEST(grid_barrier)
{
    e->grid = 16;
    e->block = 64;
    e->cooperative = true;
    // Each block adds its number to a sum, all blocks meet, each reads the whole sum. Ten rounds.
    const char *body =
        "mov.u32 %r20, 0;\nsetp.eq.u32 %p1, %r0, 0;\nmov.u32 %r21, %nctaid.x;\n"
        "ROUND: @!%p1 bra MEET;\nadd.u64 %rd5, %rd0, 8;\nmul.wide.u32 %rd6, %r20, 4;\n"
        "add.u64 %rd5, %rd5, %rd6;\nred.global.add.u32 [%rd5], %r1;\nfence.acq_rel.gpu;\n"
        "atom.global.add.u32 %r5, [%rd0], 1;\nadd.u32 %r22, %r20, 1;\nmul.lo.u32 %r22, %r22, "
        "%r21;\n"
        "S: ld.acquire.gpu.global.u32 %r6, [%rd0];\nsetp.lt.u32 %p2, %r6, %r22;\n"
        "@%p2 nanosleep.u32 20;\n@%p2 bra S;\n"
        "ld.global.u32 %r7, [%rd5];\nsetp.ne.u32 %p3, %r7, 120;\n"
        "@%p3 red.global.add.u32 [%rd0+4], 1;\n"
        "MEET: bar.sync 0;\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p4, %r20, 10;\n@%p4 bra "
        "ROUND;\nret;";
    for (unsigned workers = 1; workers <= 3; workers++) {
        e->config.host_threads = workers;
        uint64_t words = emulator_zeros(e, 48);
        emulator_runs(e, body, words, 0, 0);
        const uint32_t *got = emulator_at(e, words, 48);
        assert_int_equal(got[0], 160);
        assert_int_equal(got[1], 0);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(got[2 + i], 120);
    }
    e->grid = 4 * 32 + 1;
    emulator_fails(e, body, emulator_zeros(e, 48), 0, 0, 720,
                   "cooperative launch of 129 blocks: the device holds 128");
}

// Counters, a list, flags that pass memory on, shared memory: kernels without a race, in which
// ThreadSanitizer must find none.
EMULATOR_TEST(many_workers)
{
    uint32_t wanted = 0;
    e->config.host_threads = 64;
    e->grid = 96;
    e->block = 64;
    for (uint32_t i = 0; i < e->grid * e->block; i++)
        wanted += i;
    // [0] a sum, [4] the number of blocks that have added to it, [8] the sum that the last one
    // read; from 64 on, what each block added. Only blocks write this memory.
    uint64_t words = emulator_zeros(e, 64 + 96 * 4), parts = emulator_alloc(e, 96 * 4);
    const char *body = ".shared .align 4 .b32 s;\nsetp.eq.u32 %p1, %r0, 0;\n"
                       "@%p1 st.shared.u32 [s], 0;\nbar.sync 0;\n" GLOBAL_THREAD
                       "red.shared.add.u32 [s], %r3;\nbar.sync 0;\n@!%p1 ret;\n"
                       "ld.shared.u32 %r4, [s];\nmul.wide.u32 %rd4, %r1, 4;\n"
                       "add.u64 %rd5, %rd1, %rd4;\nst.global.u32 [%rd5], %r4;\n"
                       "add.u64 %rd6, %rd0, %rd4;\natom.global.exch.b32 %r5, [%rd6+64], %r4;\n"
                       "red.global.add.u32 [%rd0], %r4;\nfence.acq_rel.gpu;\n"
                       "atom.global.add.u32 %r6, [%rd0+4], 1;\nsetp.ne.u32 %p2, %r6, 95;\n"
                       "@%p2 ret;\nfence.acq_rel.gpu;\nmov.u32 %r7, 0;\nmov.u32 %r8, 0;\n"
                       "L: ld.global.u32 %r9, [%rd1];\nadd.u32 %r7, %r7, %r9;\n"
                       "add.u64 %rd1, %rd1, 4;\nadd.u32 %r8, %r8, 1;\n"
                       "setp.lt.u32 %p3, %r8, 96;\n@%p3 bra L;\n"
                       "st.global.u32 [%rd0+8], %r7;\nret;";
    emulator_runs(e, body, words, parts, 0);
    const uint32_t *got = emulator_at(e, words, 64 + 96 * 4);
    assert_int_equal(got[0], wanted);
    assert_int_equal(got[1], 96);
    assert_int_equal(got[2], wanted);
    // A word that blocks pass on by release and acquire.
    e->grid = 16;
    uint64_t turn = emulator_zeros(e, 4), value = emulator_alloc(e, 4);
    body = "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\nmov.u32 %r9, 0;\n"
           "S: ld.acquire.gpu.global.u32 %r4, [%rd0];\nsetp.ne.u32 %p2, %r4, %r1;\n@%p2 bra S;\n"
           "setp.eq.u32 %p3, %r1, 0;\n@%p3 bra FIRST;\nld.global.u32 %r9, [%rd1];\n"
           "FIRST: add.u32 %r9, %r9, %r1;\nst.global.u32 [%rd1], %r9;\nadd.u32 %r5, %r1, 1;\n"
           "st.release.gpu.global.u32 [%rd0], %r5;\nret;";
    emulator_runs(e, body, turn, value, 0);
    assert_int_equal(*(uint32_t *)emulator_at(e, value, 4), 120);
}

EMULATOR_TEST(special_registers)
{
    struct emu_launch launch = { .grid = { 3, 2, 2 }, .block = { 5, 4, 3 }, .grid_id = 77 };
    emulator_load(e,
                  ".version 8.0\n.target sm_90\n.address_size 64\n"
                  ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<20>;\n.reg .b64 %rd<8>;\n"
                  "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\n"
                  "mov.u32 %r3, %tid.z;\nmov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %ctaid.y;\n"
                  "mov.u32 %r6, %ctaid.z;\nmov.u32 %r7, %laneid;\nmov.u32 %r8, %warpid;\n"
                  "mad.lo.u32 %r9, %r6, 2, %r5;\nmad.lo.u32 %r9, %r9, 3, %r4;\n"
                  "mad.lo.u32 %r10, %r3, 4, %r2;\nmad.lo.u32 %r10, %r10, 5, %r1;\n"
                  "mad.lo.u32 %r11, %r9, 60, %r10;\nmul.wide.u32 %rd2, %r11, 16;\n"
                  "add.u64 %rd3, %rd1, %rd2;\nmov.u32 %r12, %lanemask_lt;\nmov.u64 %rd4, %gridid;\n"
                  "cvt.u32.u64 %r13, %rd4;\nst.global.v4.u32 [%rd3], {%r7, %r8, %r12, %r13};\n"
                  "ret;\n}\n");
    uint64_t out = emulator_alloc(e, 12 * 60 * 16);
    launch.module = e->module;
    launch.entry = emu_module_entry(e->module, "k");
    launch.params = (const unsigned char *)&out;
    assert_int_equal(emu_run(&e->config, e->memory, &launch, e->report, sizeof(e->report)), 0);
    const uint32_t *got = emulator_at(e, out, 12 * 60 * 16);
    for (uint32_t i = 0; i < 12 * 60; i++) {
        assert_int_equal(got[4 * i], i % 60 % 32);
        assert_int_equal(got[4 * i + 1], i % 60 / 32);
        assert_int_equal(got[4 * i + 2], (UINT32_C(1) << i % 60 % 32) - 1);
        assert_int_equal(got[4 * i + 3], 77);
    }
}

EMULATOR_TEST(accesses)
{
    unsigned char bytes[64];
    for (unsigned i = 0; i < 64; i++)
        bytes[i] = (unsigned char)(0x80 + i);
    uint64_t in = emulator_upload(e, bytes, sizeof(bytes)), out = emulator_zeros(e, 128);
    const char *body =
        "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\n"
        "ld.global.s8 %r5, [%rd0];\nst.global.u32 [%rd1], %r5;\n"
        "ld.global.u8 %r5, [%rd0+1];\nst.global.u32 [%rd1+4], %r5;\n"
        "ld.global.s16 %rd5, [%rd0+2];\nst.global.u64 [%rd1+8], %rd5;\n"
        "ld.global.v2.u64 {%rd6, %rd7}, [%rd0+16];\n"
        "st.global.v2.u64 [%rd1+16], {%rd7, %rd6};\n"
        "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%rd0+4];\n"
        "st.global.v4.u8 [%rd1+32], {%h4, %h3, %h2, %h1};\n"
        "mov.b64 %rd8, {%r5, %r0};\nmov.b64 {%r6, %r7}, %rd6;\n"
        "st.global.v2.u32 [%rd1+40], {%r7, %r6};\n"
        ".local .align 8 .b64 l[2];\nst.local.u64 [l+8], %rd6;\nmov.u64 %rd12, l;\n"
        "cvta.local.u64 %rd12, %rd12;\nld.u64 %rd13, [%rd12+8];\n"
        "st.global.u64 [%rd1+48], %rd13;\n"
        ".shared .align 8 .b64 s;\nst.shared.u64 [s], %rd7;\nmov.u64 %rd14, s;\n"
        "cvta.shared.u64 %rd14, %rd14;\nisspacep.shared %p2, %rd14;\n"
        "isspacep.global %p3, %rd14;\nld.u64 %rd15, [%rd14];\n"
        "@%p2 st.global.u64 [%rd1+56], %rd15;\n@%p3 st.global.u64 [%rd1+56], 0;\nret;";
    emulator_runs(e, body, in, out, 0);
    const unsigned char *got = emulator_at(e, out, 128);
    uint32_t words[16];
    uint64_t longs[8], source[8];
    memcpy(words, got, 64);
    memcpy(longs, got, 64);
    memcpy(source, bytes, 64);
    assert_int_equal(words[0], 0xffffff80);
    assert_int_equal(words[1], 0x81);
    assert_true(longs[1] == UINT64_C(0xffffffffffff8382));
    assert_true(longs[2] == source[3] && longs[3] == source[2]);
    assert_memory_equal(got + 32, "\x87\x86\x85\x84", 4);
    assert_int_equal(words[10], source[2] >> 32);
    assert_int_equal(words[11], (uint32_t)source[2]);
    assert_true(longs[6] == source[2] && longs[7] == source[3]);
}

// A block is a cluster of its own: .shared::cluster is .shared::cta there.
EMULATOR_TEST(cluster_of_one_block)
{
    const uint64_t out = emulator_zeros(e, 32 * 32);
    const char *body =
        ".shared .align 8 .b8 s[512]; .shared .align 8 .b64 sum;\n"
        "mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 8, %r1;\n"
        "mapa.shared::cluster.u32 %r2, %r1, 0;\n" // its own block's: the same address
        "add.u32 %r3, %r0, 100; st.shared::cluster.v2.u32 [%r2], {%r3, %r0};\n"
        "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u64 [sum], 0; bar.sync 0;\n"
        "xor.b32 %r4, %r0, 1; mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 8, %r5;\n"
        "cvt.u64.u32 %rd3, %r5; cvta.shared::cluster.u64 %rd3, %rd3;\n"
        "isspacep.shared::cluster %p2, %rd3; mov.u32 %r12, 0;\n"
        "mapa.u64 %rd4, %rd3, %r12; ld.u32 %r6, [%rd4];\n" // generic
        "cvta.to.shared::cluster.u64 %rd5, %rd4; ld.shared::cluster.u32 %r7, [%rd5+4];\n"
        "atom.shared::cluster.add.u32 %r8, [sum], %r0; red.shared::cluster.add.u32 [sum+4], 1;\n"
        "bar.sync 0; ld.shared.u32 %r9, [sum]; ld.relaxed.cluster.shared::cluster.u32 %r10, "
        "[sum+4];\n"
        "getctarank.shared::cluster.u32 %r11, %r5; getctarank.u64 %r13, %rd3;\n"
        "or.b32 %r11, %r11, %r13; selp.u32 %r13, 1, 0, %p2;\n"
        "mad.wide.u32 %rd6, %r0, 32, %rd0; st.global.v4.u32 [%rd6], {%r6, %r7, %r9, %r10};\n"
        "st.global.v2.u32 [%rd6+16], {%r11, %r13}; ret;";
    e->block = 32;
    emulator_runs(e, body, out, 0, 0);
    const uint32_t *got = emulator_at(e, out, 32 * 32);
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t want[] = { 100 + (i ^ 1), i ^ 1, 31 * 16, 32, 0, 1 };
        assert_memory_equal(got + (size_t)8 * i, want, sizeof want);
    }
    emulator_fails(e,
                   ".shared .b32 s; mapa.shared::cluster.u32 %r1, s, %r0;\n"
                   "st.shared::cluster.u32 [%r1], 1; ret;",
                   0, 0, 0, 715, "mapa to block 1 of the cluster, which has 1 block");
    emulator_fails(e,
                   ".shared .b32 s; setp.eq.u32 %p1, %r0, 1;\n"
                   "@%p1 st.shared::cluster.u32 [s], 1; @!%p1 ld.shared.u32 %r1, [s]; ret;",
                   0, 0, 0, 719, "shared-memory race");
    emulator_fails(e, ".shared .b32 s; st.shared::cluster.u32 [s+4], 1; ret;", 0, 0, 0, 700,
                   "out of bounds");
}

EMULATOR_TEST(module_variables)
{
    emulator_load(e, ".version 8.0\n.target sm_90\n.address_size 64\n.global .u32 counter;\n"
                     ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
                     "mov.u64 %rd1, counter;\natom.global.add.u32 %r1, [%rd1], 1;\n"
                     "red.global.add.u32 [counter], 2;\nret;\n}\n");
    uint64_t none = 0;
    e->grid = 3;
    emulator_expect(e, emulator_run(e, &none), 0, "");
    assert_int_equal(*(uint32_t *)emulator_at(e, e->global_base, 4), 3 * 32 * 3);
}

EMULATOR_TEST(dynamic_shared)
{
    emulator_load(
        e, ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 d[];\n"
           ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n"
           ".shared .align 4 .u32 fixed[3];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, d;\n"
           "mov.u32 %r2, %tid.x;\nmad.lo.u32 %r3, %r2, 4, %r1;\n"
           "st.shared.u32 [%r3], %r2;\nst.shared.u32 [fixed+8], 1;\n"
           "mov.u32 %r4, %dynamic_smem_size;\nst.global.v2.u32 [%rd1], {%r4, %r1};\nret;\n}\n");
    uint64_t out = emulator_zeros(e, 8);
    e->dynamic_shared = 128;
    e->config.sanitize = false;
    emulator_expect(e, emulator_run(e, &out), 0, "");
    const uint32_t *got = emulator_at(e, out, 8);
    assert_int_equal(got[0], 128);
    assert_int_equal(got[1], 16);
    e->dynamic_shared = 124;
    emulator_expect(e, emulator_run(e, &out), 700, "out of bounds|124 of them dynamic");
}

// Registers of half a MiB a warp: the limit of host memory bounds the blocks that run at once.
EMULATOR_TEST(host_memory)
{
    enum { REGISTERS = 2048, LINE = 24 };
    static char many[REGISTERS * LINE + 256], text[sizeof(many) + 256];
    uint64_t out = emulator_zeros(e, 8 * 8);
    size_t length = (size_t)snprintf(many, sizeof(many), ".reg .b64 %%m<%d>;\n", REGISTERS);
    for (int i = 0; i < REGISTERS; i++)
        length += (size_t)snprintf(many + length, LINE, "mov.u64 %%m%d, %d;\n", i, i);
    snprintf(text, sizeof(text),
             "%smul.wide.u32 %%rd5, %%r1, 8;\nadd.u64 %%rd5, %%rd5, %%rd0;\n"
             "st.global.u64 [%%rd5], %%m7;\nret;",
             many);
    e->grid = 8;
    e->config.host_memory = 5 << 18;
    e->config.host_threads = 8;
    emulator_runs(e, text, out, 0, 0);
    assert_int_equal(*(uint64_t *)emulator_at(e, out + 56, 8), 7);
    e->cooperative = true;
    emulator_fails(e, text, out, 0, 0, 2, "needs 8 blocks at once|out of host memory");
    e->grid = 2;
    emulator_runs(e, text, out, 0, 0);
    snprintf(text, sizeof(text),
             ".version 8.0\n.target sm_90\n.address_size 64\n.func f()\n{\n%scall f;\nret;\n}\n"
             ".visible .entry k()\n{\ncall f;\nret;\n}\n",
             many);
    e->grid = 1;
    emulator_load(e, text);
    emulator_expect(e, emulator_run(e, &out), 714, "no host memory|nested 3 deep");
}

// An entry, decoded once, is launched by several threads with several sizes of shared memory.
struct launches {
    struct emulator *e;
    struct emu_programs *programs;
    uint64_t sums;
    atomic_int failed;
};

static void *launch_often(void *argument)
{
    struct launches *l = argument;
    for (uint32_t i = 0; i < 20; i++) {
        char report[256];
        const struct emu_launch launch = { .module = l->e->module,
                                           .entry = emu_module_entry(l->e->module, "k"),
                                           .programs = l->programs,
                                           .grid = { 1, 1, 1 },
                                           .block = { 32, 1, 1 },
                                           .dynamic_shared = i * 64,
                                           .params = (const unsigned char *)&l->sums };
        atomic_fetch_or(&l->failed,
                        emu_run(&l->e->config, l->e->memory, &launch, report, sizeof(report)));
    }
    return NULL;
}

EMULATOR_TEST(decoded_once)
{
    emulator_load(e, ".version 8.0\n.target sm_90\n.address_size 64\n"
                     ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n"
                     "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %dynamic_smem_size;\n"
                     "red.global.add.u32 [%rd1], %r1;\nret;\n}\n");
    struct launches l = { e, emu_programs_create(e->module), emulator_zeros(e, 4), 0 };
    pthread_t threads[3];
    assert_non_null(l.programs);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &l), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(l.failed, 0);
    assert_int_equal(*(uint32_t *)emulator_at(e, l.sums, 4), 3 * 32 * 64 * (19 * 20 / 2));
    emu_programs_destroy(&l.programs);
    assert_null(l.programs);
}

EMULATOR_TEST(jumps)
{
    uint64_t out = emulator_zeros(e, 64 * 4);
    const char *const body =
        "LIST: .branchtargets A, B, C, B;\nmul.wide.u32 %rd6, %r0, 4;\nadd.u64 %rd5, %rd0, %rd6;\n"
        "and.b32 %r3, %r0, 7;\nmov.u32 %r4, 1;\nsetp.lt.u32 %p1, %r3, 4;\n"
        "add.u32 %r3, %r3, %r6x;\n@%p1 brx.idx %r3, LIST;\nadd.u32 %r4, %r4, 5;\nbra END;\n"
        "A: add.u32 %r4, %r4, 10;\nbra END;\nB: add.u32 %r4, %r4, 20;\n"
        "C: add.u32 %r4, %r4, 30;\nEND: add.u32 %r4, %r4, 100;\nst.global.u32 [%rd5], %r4;\nret;";
    static const uint32_t wanted[8] = { 111, 151, 131, 151, 106, 106, 106, 106 };
    for (unsigned off = 0; off < 2; off++) {
        char text[2048];
        const char *at = strstr(body, "%r6x");
        snprintf(text, sizeof(text), "%.*s%u%s", (int)(at - body), body, off, at + 4);
        e->block = 64;
        emulator_fails(
            e, text, out, 0, 0, off ? 715 : 0,
            off ? "brx.idx with index 4, but its list has 4 targets|thread (3,0,0)|brx.idx" : "");
        const uint32_t *got = emulator_at(e, out, 64 * 4);
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(got[i], wanted[i % 8]);
    }
}

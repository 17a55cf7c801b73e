// SPDX-License-Identifier: MIT
// Undefined values: their origins, how instructions pass them on, where they are reported. Random
// programs, run with many values in their undefined bits.
#include "fixture.h"

#define SLOT                                                                                       \
    "mul.wide.u32 %rd10, %r0, 4;\nadd.u64 %rd11, %rd0, %rd10;\nadd.u64 %rd12, %rd1, %rd10;\n"
#define GUARD "setp.eq.u32 %p9, %r9, 7;\n@%p9 bra L;\nL: ret;"
#define STORE "st.global.u32 [%rd11], %r9;\nret;"

/// Which bits of a 32-bit word in device memory are undefined.
static uint32_t undefined_bits(struct emulator *e, uint64_t address)
{
    enum emu_access_fault fault;
    unsigned char *shadow = NULL;
    uint32_t bits = 0;
    assert_non_null(emu_memory_access(e->memory, address, 4, &shadow, &fault));
    for (unsigned k = 0; k < 4; k++)
        bits |= (uint32_t)emu_shadow_get(emu_memory_shadows(e->memory), shadow + k).bits << 8 * k;
    return bits;
}

// The code of compilers for a structure with padding: copied as a whole, the padding never used.
EMULATOR_TEST(padding)
{
    uint64_t out = emulator_alloc(e, 256);
    const char *body = ".local .align 8 .b8 s[8];\nmov.u64 %rd9, s;\nst.local.u32 [%rd9], %r0;\n"
                       "ld.local.u64 %rd8, [%rd9];\nmul.wide.u32 %rd10, %r0, 8;\n"
                       "add.u64 %rd11, %rd0, %rd10;\nst.global.u64 [%rd11], %rd8;\nret;";
    emulator_expect_fine(e, emulator_body(e, body, out, 0, 0), out, 256);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(*(uint32_t *)emulator_at(e, out + 8 * i, 4), i);
        assert_int_equal(undefined_bits(e, out + 8 * i), 0);
        assert_int_equal(undefined_bits(e, out + 8 * i + 4), UINT32_MAX);
    }
    // Copied by bytes, split and put together.
    body = "ld.global.b16 %h1, [%rd1];\nld.global.v2.b32 {%r5, %r6}, [%rd1+8];\n"
           "mov.b32 %r7, {%h1, %h1};\nprmt.b32 %r8, %r5, %r6, 0x1537;\nshl.b32 %r8, %r8, 8;\n"
           "bfi.b32 %r9, %r8, %r7, 4, 12;\nmov.b64 %rd5, {%r9, %r8};\ncvt.u16.u64 %h2, %rd5;\n"
           "or.b32 %r9, %r9, 0xf0;\nst.global.v2.b32 [%rd0], {%r9, %r8};\n"
           "st.global.b16 [%rd0+8], %h2;\nret;";
    e->block = 1;
    emulator_expect_fine(e, emulator_body(e, body, out, emulator_alloc(e, 64), 0), out, 256);
    assert_int_equal(undefined_bits(e, out), 0xfffff00f);
}

// A sort that reads one element past its keys, and uses the result only if the element exists.
EMULATOR_TEST(one_past_the_keys)
{
    uint64_t out = emulator_alloc(e, 128);
    const char *body =
        ".shared .align 4 .b32 s[32];\nmov.u32 %r10, s;\nshl.b32 %r11, %r0, 2;\n"
        "add.u32 %r12, %r10, %r11;\nsetp.lt.u32 %p1, %r0, 20;\n@%p1 st.shared.u32 [%r12], %r0;\n"
        "bar.sync 0;\nadd.u32 %r13, %r0, 1;\nmin.u32 %r13, %r13, 31;\nshl.b32 %r13, %r13, 2;\n"
        "add.u32 %r13, %r10, %r13;\nld.shared.u32 %r5, [%r13];\nld.shared.u32 %r6, [%r12];\n"
        "setp.lt.u32 %p2, %r5, %r6;\nsetp.lt.u32 %p3, %r0, 19;\nand.pred %p4, %p3, %p2;\n"
        "selp.b32 %r9, %r5, %r0, %p4;\n" SLOT;
    char text[2048];
    snprintf(text, sizeof(text), "%s@%%p4 bra L;\nL: %s", body, STORE);
    emulator_expect_fine(e, emulator_body(e, text, out, 0, 0), out, 128);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(undefined_bits(e, out + 4 * i), 0);
    // The comparison alone is reported.
    snprintf(text, sizeof(text), "%s@%%p2 bra L;\nL: %s", body, STORE);
    emulator_fails(e, text, out, 0, 0, 719,
                   "decides a guard: register %p2|memory, never written|ld.shared.u32 %r5");
}

EMULATOR_TEST(a_sum)
{
    uint64_t out = emulator_alloc(e, 128), in = emulator_alloc(e, 128),
             copy = emulator_alloc(e, 128);
    emulator_expect_undefined(
        e,
        emulator_body(e, SLOT "ld.global.u32 %r5, [%rd12];\nadd.u32 %r9, %r5, %r0;\n" STORE, out,
                      in, 0),
        out, 128,
        "copied to the host: byte 0 of the 128 bytes|it comes from memory, never written|kernel "
        "k|ld.global.u32 %r5|in the allocation of 128 bytes");
    // Through a second kernel, and to memory that is only copied.
    int result = emulator_body(e, SLOT "ld.global.u32 %r9, [%rd12];\n" STORE, copy, out, 0);
    emulator_expect_undefined(e, result, copy, 128, "ld.global.u32 %r5, [%rd12];");
    // A later store removes it.
    result = emulator_body(e, SLOT "mov.u32 %r9, 1;\n" STORE, copy, 0, 0);
    emulator_expect_fine(e, result, copy, 128);
}

// ---- decisions ----------------------------------------------------------------------------------

EMULATOR_TEST(decisions)
{
    static const struct {
        const char *body, *words;
    } rows[] = {
        { "ld.global.u64 %rd9, [%rd1];\nst.global.u32 [%rd9], %r0;\nret;",
          "decides an address: register %rd9|ld.global.u64|PTX line" },
        { "ld.global.u32 %r9, [%rd1];\ncvt.u64.u32 %rd9, %r9;\nadd.u64 %rd9, %rd9, %rd0;\n"
          "ld.global.u32 %r5, [%rd9];\nret;",
          "decides an address: register %rd9|ld.global.u32 %r9" },
        { "red.global.add.u32 [%rd9], 1;\nret;", "decides an address: register %rd9|red.global" },
        { "ld.global.u32 %r9, [%rd1];\n@%p3 bra L;\nL: ret;", "decides a guard: register %p3" },
        { "ld.global.u32 %r9, [%rd1];\n" GUARD, "decides a guard: register %p9" },
        { "T: .branchtargets A, B;\nbrx.idx %r9, T;\nA: ret;\nB: ret;",
          "decides a branch target: register %r9" },
        { "shfl.sync.idx.b32 %r5, %r0, %r9, 31, -1;\nret;",
          "decides a shuffle's lane: register %r9" },
        { "shfl.sync.idx.b32 %r5, %r0, 1, %r9, -1;\nret;",
          "decides a shuffle's clamp: register %r9" },
        { "shfl.sync.idx.b32 %r5, %r0, 1, 31, %r9;\nret;", "decides a membermask: register %r9" },
        { "vote.sync.ballot.b32 %r5, %p1, %r9;\nret;", "decides a membermask: register %r9" },
        { "bar.warp.sync %r9;\nret;", "decides a membermask: register %r9" },
        { "bar.sync %r9;\nret;", "decides a barrier's number: register %r9" },
        { "bar.sync 1, %r9;\nret;", "decides a barrier's thread count: register %r9" },
        { ".shared .align 16 .b8 s[16];\ncp.async.ca.shared.global [s], [%rd0], 4, %r9;\nret;",
          "decides the size of a cp.async: register %r9" },
        { ".shared .align 16 .b8 s[16];\ncp.async.ca.shared.global [s], [%rd9], 4;\nret;",
          "decides an address: register %rd9" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int result =
            emulator_body(e, rows[i].body, emulator_zeros(e, 64), emulator_alloc(e, 64), 0);
        char words[256];
        snprintf(words, sizeof(words),
                 "uninitialised value %s|never written|it comes from|kernel k", rows[i].words);
        emulator_expect(e, result, 719, words);
    }
    // The host reads its own memory without a copy.
    uint32_t host[32] = { 0 };
    assert_true(emu_memory_map_host(e->memory, host, sizeof(host)));
    uint64_t in = emulator_alloc(e, 128), at = (uint64_t)(uintptr_t)host;
    emulator_fails(e, SLOT "ld.global.u32 %r9, [%rd12];\n" STORE, at, in, 0, 0, "");
    emulator_fails(e, SLOT "ld.global.u32 %r9, [%rd12];\nadd.u32 %r9, %r9, 1;\n" STORE, at, in, 0,
                   719, "stored to pinned or managed memory|ld.global.u32 %r9|st.global");
    emulator_fails(e,
                   SLOT "ld.global.u32 %r9, [%rd12];\nadd.u32 %r9, %r9, 1;\n"
                        "red.global.add.u32 [%rd11], %r9;\nret;",
                   at, in, 0, 719, "stored to pinned or managed memory|red.global");
    assert_true(emu_memory_unmap_host(e->memory, host));
}

// ---- what is carried ----------------------------------------------------------------------------

// %r5 is undefined except for its low byte, 0x21. %r6 is undefined in lane 3, where it is never
// written. %r9 is the result.
#define HALF_KNOWN                                                                                 \
    SLOT "ld.global.u32 %r4, [%rd12];\nand.b32 %r4, %r4, 0xffffff00;\nor.b32 %r5, %r4, 0x21;\n"    \
         "setp.ne.u32 %p1, %r0, 3;\n@%p1 mov.u32 %r6, %r0;\nsetp.eq.u32 %p2, %r6, 3;\n"

EMULATOR_TEST(carried)
{
    static const struct {
        const char *body;
        uint32_t lane0, lane3; // undefined bits
    } rows[] = {
        { "mov.b32 %r9, %r5;", 0xffffff00, 0xffffff00 },
        { "and.b32 %r9, %r5, 0x0f0f;", 0x0f00, 0x0f00 },
        { "xor.b32 %r9, %r5, %r6;", 0xffffff00, 0xffffffff },
        { "add.u32 %r9, %r5, 0xff;", 0xffffff00, 0xffffff00 },
        { "sub.u32 %r9, %r5, 1;", 0xffffff00, 0xffffff00 },
        { "mul.lo.u32 %r9, %r5, 3;", 0xffffff00, 0xffffff00 },
        { "mul.lo.u32 %r9, %r5, 0;", 0, 0 },
        { "mad.lo.u32 %r9, %r0, 3, %r5;", 0xffffff00, 0xffffff00 },
        { "mul.wide.u32 %rd5, %r5, 2;\ncvt.u32.u64 %r9, %rd5;", 0xffffff00, 0xffffff00 },
        { "shr.u32 %r9, %r5, 4;", 0x0ffffff0, 0x0ffffff0 },
        { "shr.s32 %r9, %r5, 4;", 0xfffffff0, 0xfffffff0 },
        { "shl.b32 %r9, 1, %r5;", 0xffffffff, 0xffffffff },
        { "cvt.u32.u8 %r9, %r5;", 0, 0 },
        { "cvt.s32.s16 %r9, %r5;", 0xffffff00, 0xffffff00 },
        { "cvt.u32.u16 %r9, %r5;", 0xff00, 0xff00 },
        { "bfe.u32 %r9, %r5, 4, 8;", 0xf0, 0xf0 },
        { "brev.b32 %r9, %r5;", 0x00ffffff, 0x00ffffff },
        { "popc.b32 %r9, %r5;", 0xffffffff, 0xffffffff },
        { "slct.s32.s32 %r9, %r0, 5, %r6;", 0, 6 },
        { "cvt.rn.f32.u32 %f1, %r6;\nadd.rn.f32 %f2, %f1, %f1;\nmov.b32 %r9, %f2;", 0, UINT32_MAX },
        { "cvt.u16.u32 %h1, %r6;\nmov.u16 %h2, 1;\nmov.b32 %r7, {%h2, %h1};\n"
          "add.f16x2 %r9, %r7, %r7;",
          0, 0xffff0000 },
        { "cvt.rn.f32.u32 %f1, %r6;\nmov.f32 %f2, 0f3F800000;\ncvt.rn.f16x2.f32 %r9, %f2, %f1;", 0,
          0xffff },
        // Comparisons that defined bits decide, and predicates.
        { "setp.eq.u32 %p3, %r5, 0x22;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "setp.eq.u32 %p3, %r5, 0x21;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "setp.lt.u32 %p3, %r5, 0x20;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "and.b32 %r7, %r5, 0xff21;\nsetp.gt.u32 %p3, %r7, 0x10000;\nselp.b32 %r9, 1, 0, %p3;", 0,
          0 },
        { "or.b32 %r7, %r5, 0x80000000;\nsetp.lt.s32 %p3, %r7, 0;\nselp.b32 %r9, 1, 0, %p3;", 0,
          0 },
        { "setp.lt.s32 %p3, %r5, 0;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "setp.eq.and.u32 %p3|%p4, %r6, 3, %p1;\nselp.b32 %r9, 1, 0, %p3;\n", 0, 0 },
        { "setp.eq.or.u32 %p3, %r6, 3, %p1;\nselp.b32 %r9, 1, 0, %p3;\n", 0, 1 },
        { "setp.eq.and.u32 %p3, %r0, 99, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "setp.ne.and.u32 %p3, %r0, 99, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 1 },
        { "setp.ne.or.u32 %p3, %r0, 99, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "setp.ne.xor.u32 %p3, %r0, 99, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 1 },
        { "setp.eq.and.u32 %p3|%p4, %r0, 99, %p2;\nselp.b32 %r9, 1, 0, %p4;", 0, 1 },
        { "setp.ne.u32 %p5, %r0, 9;\nand.pred %p3, %p2, %p5;\nselp.b32 %r9, 1, 0, %p3;", 0, 1 },
        { "setp.eq.u32 %p5, %r0, 9;\nand.pred %p3, %p2, %p5;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "setp.ne.u32 %p5, %r0, 9;\nor.pred %p3, %p2, %p5;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "not.pred %p3, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 1 },
        { "selp.b32 %r9, %r5, 1, %p1;", 0xffffff00, 0 },
        { "selp.b32 %r9, 6, 5, %p2;", 0, 3 },
        { "set.eq.u32.u32 %r9, %r6, 3;", 0, UINT32_MAX },
        { "set.lt.f32.u32 %f1, %r6, 3;\nmov.b32 %r9, %f1;", 0, UINT32_MAX },
        { "lop3.or.b32 %r9|%p3, %r5, 0x0f0f, 0, 0xc0, 0;", 0x0f00, 0x0f00 },
        { "lop3.or.b32 %r7|%p3, %r5, 0, 0, 0xf0, 0;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "lop3.or.b32 _|%p3, %r5, 0xff00, 0, 0xc0, 0;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "lop3.and.b32 _|%p3, %r5, 0xff00, 0, 0xc0, 0;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "lop3.and.b32 _|%p3, %r5, 0, 0, 0xf0, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 1 },
        // Carries.
        { "add.cc.u32 %r7, %r5, 0xffffffff;\naddc.u32 %r9, 0, 0;", 0, 0 },
        { "add.cc.u32 %r7, %r5, 0xff;\naddc.u32 %r9, 0, 0;", 1, 1 },
        { "and.b32 %r7, %r5, 0xffff;\nadd.cc.u32 %r7, %r7, %r7;\naddc.u32 %r9, 0, 0;", 0, 0 },
        { "add.cc.u32 %r7, %r5, 0xff;\nadd.cc.u32 %r7, %r0, 1;\naddc.u32 %r9, 0, 0;", 0, 0 },
        { "sub.cc.u32 %r7, %r6, %r0;\nsubc.u32 %r9, 5, 3;", 0, 3 },
        { "mad.lo.cc.u32 %r7, %r6, 2, 5;\nmov.b32 %r9, %r7;", 0, UINT32_MAX },
        // Between lanes.
        { "shfl.sync.bfly.b32 %r9, %r6, 3, 31, -1;", UINT32_MAX, 0 },
        { "vote.sync.ballot.b32 %r9, %p2, -1;", 8, 8 },
        { "vote.sync.any.pred %p3, %p2, -1;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "vote.sync.all.pred %p3, %p2, -1;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "not.pred %p2, %p2;\nvote.sync.any.pred %p3, %p2, -1;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "vote.sync.uni.pred %p3, %p2, -1;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "match.any.sync.b32 %r9, %r6, -1;", 8, 0xfffffff7 },
        { "match.all.sync.b32 %r9|%p3, %r6, -1;", 0, 0 },
        { "match.all.sync.b32 %r7|%p3, %r5, -1;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "redux.sync.add.u32 %r9, %r5, -1;", 0xffffff00, 0xffffff00 },
        { "redux.sync.and.b32 %r9, %r6, -1;", 0, 0 },
        { "redux.sync.or.b32 %r9, %r6, -1;", 0xffffffe0, 0xffffffe0 },
        { "redux.sync.max.u32 %r9, %r6, -1;", UINT32_MAX, UINT32_MAX },
        { "bar.red.popc.u32 %r9, 0, %p2;", UINT32_MAX, UINT32_MAX },
        { "bar.red.and.pred %p3, 0, %p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        { "bar.red.or.pred %p3, 0, %p2;\nselp.b32 %r9, 1, 0, %p3;", 1, 1 },
        { "bar.red.or.pred %p3, 0, !%p2;\nselp.b32 %r9, 1, 0, %p3;", 0, 0 },
        // Memory.
        { "st.global.v2.u32 [%rd2], {%r5, %r6};\nld.global.v2.u32 {%r9, %r7}, [%rd2];", 0xffffff00,
          0xffffff00 },
        { "st.global.u32 [%rd2+128], %r5;\nld.global.u16 %r9, [%rd2+130];", 0xffff, 0xffff },
        { "st.global.u32 [%rd11], %r5;\nld.global.s16 %r9, [%rd11];", 0xffffff00, 0xffffff00 },
        { "st.volatile.global.u32 [%rd2], %r5;\nld.volatile.global.u32 %r9, [%rd2];", 0xffffff00,
          0xffffff00 },
        { "atom.global.exch.b32 %r9, [%rd12], %r0;", UINT32_MAX, UINT32_MAX },
        { "atom.global.exch.b32 %r9, [%rd12], %r0;\natom.global.or.b32 %r9, [%rd12], %r5;\n"
          "ld.global.u32 %r9, [%rd12];",
          0xffffff00, 0xffffff00 },
        { "st.global.u32 [%rd11], 0xf000;\natom.global.and.b32 %r7, [%rd11], %r5;\n"
          "ld.global.u32 %r9, [%rd11];",
          0xf000, 0xf000 },
        { "st.global.u32 [%rd11], 16;\nred.global.add.u32 [%rd11], %r5;\n"
          "ld.global.u32 %r9, [%rd11];",
          0xffffff00, 0xffffff00 },
        { "st.global.u32 [%rd11], 0x22;\natom.global.cas.b32 %r7, [%rd11], %r5, 1;\n"
          "ld.global.u32 %r9, [%rd11];",
          0, 0 },
        { "st.global.u32 [%rd11], 0x21;\natom.global.cas.b32 %r7, [%rd11], %r5, 1;\n"
          "ld.global.u32 %r9, [%rd11];",
          UINT32_MAX, UINT32_MAX },
        { ".shared .align 16 .b8 s[512];\nmov.u32 %r7, s;\nmad.lo.u32 %r7, %r0, 16, %r7;\n"
          "st.global.u32 [%rd11], %r6;\ncp.async.ca.shared.global [%r7], [%rd11], 4;\n"
          "cp.async.wait_all;\nld.shared.u32 %r9, [%r7];",
          0, UINT32_MAX },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[4096];
        snprintf(body, sizeof(body), "%s%s\n%s", HALF_KNOWN, rows[i].body, STORE);
        uint64_t out = emulator_alloc(e, 128);
        emulator_runs(e, body, out, emulator_alloc(e, 128), emulator_alloc(e, 256));
        uint32_t lane0 = undefined_bits(e, out), lane3 = undefined_bits(e, out + 12);
        if (lane0 != rows[i].lane0 || lane3 != rows[i].lane3)
            fail_msg("%s: undefined are 0x%08x and 0x%08x", rows[i].body, (unsigned)lane0,
                     (unsigned)lane3);
    }
}

// Into a function and back. The registers of a function are new in each call.
EMULATOR_TEST(through_calls)
{
    static const char text[] =
        ".version 8.1\n.target sm_90\n.address_size 64\n"
        ".func (.reg .b32 %o, .reg .b32 %n) f(.reg .b32 %a, .reg .b32 %b)\n"
        "{\n.reg .b32 %t;\n.reg .pred %p;\nsetp.eq.u32 %p, %b, 0;\n@%p mov.u32 %t, %a;\n"
        "mov.u32 %n, %t;\nadd.u32 %o, %a, %b;\nret;\n}\n"
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n"
        "{\n.reg .b32 %r<12>;\n.reg .b64 %rd<3>;\nld.param.u64 %rd0, [p0];\n"
        "ld.param.u64 %rd1, [p1];\nld.global.u32 %r1, [%rd1];\nand.b32 %r1, %r1, 0xf0;\n"
        "mov.u32 %r2, 0;\nmov.u32 %r3, 1;\ncall (%r4, %r5), f, (%r1, %r2);\n"
        "call (%r6, %r7), f, (%r1, %r3);\ncall (%r8, %r9), f, (%r3, %r3);\n"
        "st.global.v2.u32 [%rd0], {%r4, %r5};\nst.global.v2.u32 [%rd0+8], {%r6, %r7};\n"
        "st.global.v2.u32 [%rd0+16], {%r8, %r9};\nret;\n}\n";
    static const uint32_t wanted[6] = { 0xf0, 0xf0, 0xf0, UINT32_MAX, 0, UINT32_MAX };
    uint64_t params[4] = { emulator_alloc(e, 24), emulator_alloc(e, 4) };
    e->block = 1;
    emulator_load(e, text);
    emulator_expect(e, emulator_run(e, params), 0, "");
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(undefined_bits(e, params[0] + 4 * i), wanted[i]);
}

// Registers are new in each block, although their memory is reused.
EMULATOR_TEST(in_each_block)
{
    uint64_t out = emulator_alloc(e, 8);
    e->grid = 2;
    e->block = 1;
    const char *body = "ld.global.u32 %r5, [%rd1];\nand.b32 %r5, %r5, 0xf0;\n"
                       "setp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r6, %r5;\n"
                       "mul.wide.u32 %rd5, %r1, 4;\nadd.u64 %rd5, %rd5, %rd0;\n"
                       "st.global.u32 [%rd5], %r6;\nret;";
    emulator_expect_fine(e, emulator_body(e, body, out, emulator_alloc(e, 4), 0), out, 8);
    assert_int_equal(undefined_bits(e, out), 0xf0);
    assert_int_equal(undefined_bits(e, out + 4), UINT32_MAX);
}

// A value that is only a copy is not reported. A value that depends on undefined bits in another
// way is.
EMULATOR_TEST(copied_or_computed)
{
    static const struct {
        const char *body;
        bool computed;
    } rows[] = {
        { "mov.b32 %r9, %r5;", false },
        { "and.b32 %r9, %r5, 0xff;", false },
        { "or.b32 %r9, %r5, 0xff;", false },
        { "selp.b32 %r9, %r5, %r6, %p1;", false },
        { "shr.u32 %r9, %r5, 3;", false },
        { "prmt.b32 %r9, %r5, %r6, 0x1234;", false },
        { "cvt.s32.s8 %r9, %r5;", false },
        { "shfl.sync.bfly.b32 %r9, %r5, 1, 31, -1;", false },
        { "atom.global.exch.b32 %r9, [%rd12], %r0;", false },
        { "st.global.u32 [%rd11], 1;\natom.global.exch.b32 %r9, [%rd11], %r5;\n"
          "ld.global.u32 %r9, [%rd11];",
          false },
        { "and.b32 %r9, %r5, %r6;", true },
        { "or.b32 %r9, %r5, %r6;", true },
        { "xor.b32 %r9, %r5, 1;", true },
        { "not.b32 %r9, %r5;", true },
        { "add.u32 %r9, %r5, 1;", true },
        { "add.u32 %r9, %r5, 1;\nand.b32 %r9, %r9, 0xff;\nshl.b32 %r9, %r9, 3;\nprmt.b32 %r9, "
          "%r9, 0, 0x4140;",
          true },
        { "add.u32 %r9, %r5, 1;\nshfl.sync.bfly.b32 %r9, %r9, 1, 31, -1;", true },
        { "add.u32 %r9, %r5, 1;\nmov.b64 %rd5, {%r0, %r9};\nmov.b64 {%r7, %r9}, %rd5;", true },
        { "add.u32 %r9, %r5, 1;\nmov.b64 %rd5, {%r5, %r9};\nmov.b64 {%r9, %r7}, %rd5;", false },
        { "setp.eq.u32 %p2, %r5, 9;\nselp.b32 %r9, 6, 5, %p2;", true },
        { "shl.b32 %r9, 1, %r5;", true },
        { "cvt.rn.f32.u32 %f1, %r5;\nmov.b32 %r9, %f1;", true },
        { "vote.sync.ballot.b32 %r9, %p3, -1;", true },
        { "atom.global.add.u32 %r7, [%rd12], %r0;\nld.global.u32 %r9, [%rd12];", true },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[2048];
        uint64_t out = emulator_alloc(e, 128), in = emulator_alloc(e, 256);
        snprintf(body, sizeof(body),
                 "%sld.global.u32 %%r5, [%%rd12];\nld.global.u32 %%r6, [%%rd12+128];\n"
                 "setp.lt.u32 %%p1, %%r0, 16;\n%s\n%s",
                 SLOT, rows[i].body, STORE);
        int result = emulator_body(e, body, out, in, 0);
        if (rows[i].computed)
            emulator_expect_undefined(e, result, out, 128, "never written");
        else
            emulator_expect_fine(e, result, out, 128);
    }
}

// With two undefined sources, the report names the one whose bits are in the result.
EMULATOR_TEST(origins)
{
    static const char *const bodies[] = {
        "prmt.b32 %r9, %r5, %r6, 0x7654;",
        "selp.b32 %r9, %r5, %r6, %p1;",
        "slct.s32.s32 %r9, %r5, %r6, -1;",
        "bfi.b32 %r9, %r6, %r5, 0, 32;",
        "shl.b32 %r9, 1, %r6;",
        "slct.s32.s32 %r9, 1, 2, %r6;",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char body[1024];
        uint64_t out = emulator_alloc(e, 128), in = emulator_alloc(e, 256);
        snprintf(body, sizeof(body),
                 "%sld.global.u32 %%r5, [%%rd12];\nld.global.u32 %%r6, [%%rd12+128];\n"
                 "setp.gt.u32 %%p1, %%r0, 99;\n%s\nadd.u32 %%r9, %%r9, 1;\n%s",
                 SLOT, bodies[i], STORE);
        emulator_expect_undefined(e, emulator_body(e, body, out, in, 0), out, 128,
                                  "it comes from memory|`ld.global.u32 %r6, [%rd12+128];`");
    }
}

// ---- warnings -----------------------------------------------------------------------------------

static char told[8192];
static unsigned told_times;

static void keep(const char *text)
{
    size_t used = strlen(told);
    snprintf(told + used, sizeof(told) - used, "%s\n", text);
    told_times++;
}

EMULATOR_TEST(warn_and_go_on)
{
    static const char *const bodies[] = {
        SLOT "L2: ld.global.u32 %r5, [%rd12];\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p1, %r8, 3;\n"
             "@%p1 bra L2;\nsetp.gt.u32 %p2, %r5, 7;\n@%p2 mov.u32 %r9, 1;\n"
             "add.u32 %r9, %r9, %r5;\n" STORE,
        // A race, lanes that do not exist.
        ".shared .align 4 .b32 s[4];\n" SLOT
        "st.shared.u32 [s], %r0;\nld.shared.u32 %r9, [s];\n" STORE,
        SLOT "mov.u32 %r9, 0;\nsetp.gt.u32 %p1, %r0, 15;\n@%p1 bra L;\n"
             "shfl.sync.bfly.b32 %r9, %r0, 16, 31, 0xff;\nL: " STORE,
        SLOT "and.b32 %r6, %r0, 1;\nsetp.eq.u32 %p1, %r6, 0;\n@%p1 bra L;\nbar.sync 0;\nbra M;\n"
             "L: bar.sync 0;\nM: mov.u32 %r9, 3;\n" STORE,
        SLOT "shfl.sync.idx.b32 %r9, %r0, %r6, 31, -1;\nbar.sync %r7;\n" STORE,
    };
    static const char *const words[] = {
        "decides a guard: register %p1|decides a guard: register %p2",
        "shared-memory race",
        "not in its own membermask",
        "divergent barrier",
        "decides a shuffle's lane|decides a barrier's number",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        uint32_t results[2][32];
        for (unsigned pass = 0; pass < 2; pass++) {
            const enum emu_sanitize sanitize = pass ? EMU_SANITIZE_WARN : EMU_SANITIZE_OFF;
            emulator_close(e);
            emulator_open(e);
            emu_memory_destroy(&e->memory);
            e->memory = emu_memory_create(UINT64_C(1) << 28, sanitize);
            e->config.sanitize = sanitize;
            e->config.warn = keep;
            uint64_t out = emulator_alloc(e, 128), in = emulator_alloc(e, 128);
            told[0] = 0;
            told_times = 0;
            emulator_runs(e, bodies[i], out, in, 0);
            memcpy(results[pass], emulator_at(e, out, 128), 128);
        }
        assert_memory_equal(results[0], results[1], 128);
        memcpy(e->report, told, sizeof(e->report));
        emulator_expect(e, 0, 0, words[i]);
        emulator_expect(e, 0, 0, "warning: |in this launch|kernel k, block (0,0,0) thread");
    }
}

EMULATOR_TEST(warnings_are_counted)
{
    struct emu_launch launch = { .grid = { 2, 1, 1 }, .block = { 32, 1, 1 } };
    emulator_load(e, ".version 8.0\n.target sm_90\n.address_size 64\n"
                     ".visible .entry k()\n{\n.reg .pred %p<3>;\n@%p1 bra A;\nA: @%p2 bra B;\n"
                     "B: ret;\n}\n");
    launch.module = e->module;
    launch.entry = emu_module_entry(e->module, "k");
    launch.programs = emu_programs_create(e->module);
    assert_non_null(launch.programs);
    e->config.sanitize = EMU_SANITIZE_WARN;
    e->config.warn = keep;
    told[0] = 0;
    told_times = 0;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(emu_run(&e->config, e->memory, &launch, e->report, sizeof(e->report)), 0);
        assert_int_equal(told_times, 2); // once for each line
    }
    assert_non_null(strstr(told, "; 2 times in this launch"));
    emu_programs_destroy(&launch.programs);
    assert_int_equal(told_times, 4);
    assert_non_null(strstr(told, "; 6 times in all"));
}

// ---- at random ----------------------------------------------------------------------------------

static uint64_t seed = 1;

static uint32_t random_word(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) ^ (uint32_t)(seed >> 12);
}

enum { VALUES = 4, FILLS = 24, MANY_FILLS = 120 };

// Values 0 to 3 in %r20 to %r23: known words, and masks whose bits come from memory that was never
// written. %rd0: results, %rd1: known words and masks, %rd2: undefined words.
static int write_inputs(char *body, size_t size)
{
    int n = snprintf(body, size,
                     "mul.wide.u32 %%rd10, %%r0, 4;\nadd.u64 %%rd11, %%rd1, %%rd10;\n"
                     "add.u64 %%rd12, %%rd2, %%rd10;\nadd.u64 %%rd13, %%rd0, %%rd10;\n");
    for (unsigned k = 0; k < VALUES; k++)
        n += snprintf(body + n, size - (size_t)n,
                      "ld.global.u32 %%r10, [%%rd11+%u];\nld.global.u32 %%r11, [%%rd11+%u];\n"
                      "ld.global.u32 %%r12, [%%rd12+%u];\nand.b32 %%r12, %%r12, %%r11;\n"
                      "or.b32 %%r%u, %%r10, %%r12;\n",
                      k * 256, k * 256 + 128, k * 128, 20 + k);
    return n;
}

// One instruction with destination %r20 + d. Exact ones first.
enum { EXACT = 13, KINDS = 31 };

static int write_step(char *at, size_t size, unsigned kind, unsigned d, unsigned a, unsigned b,
                      unsigned c)
{
    unsigned imm = random_word(), n = imm & 31;
    d += 20, a += 20, b += 20, c += 20;
#define STEP(k, ...)                                                                               \
    case k:                                                                                        \
        return snprintf(at, size, __VA_ARGS__);
    switch (kind) {
        STEP(0, "and.b32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(1, "or.b32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(2, "xor.b32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(3, "not.b32 %%r%u, %%r%u;\n", d, a)
        STEP(4, "lop3.b32 %%r%u, %%r%u, %%r%u, %%r%u, %u;\n", d, a, b, c, imm & 255)
        STEP(5, "shl.b32 %%r%u, %%r%u, %u;\n", d, a, n)
        STEP(6, "shr.u32 %%r%u, %%r%u, %u;\n", d, a, n)
        STEP(7, "prmt.b32 %%r%u, %%r%u, %%r%u, %u;\n", d, a, b, imm & 0xffff)
        STEP(8, "shf.l.wrap.b32 %%r%u, %%r%u, %%r%u, %u;\n", d, a, b, n)
        STEP(9, "bfe.u32 %%r%u, %%r%u, %u, %u;\n", d, a, n, imm >> 8 & 31)
        STEP(10, "bfi.b32 %%r%u, %%r%u, %%r%u, %u, %u;\n", d, a, b, n, imm >> 8 & 31)
        STEP(11, "add.u32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(12, "sub.u32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(13, "setp.lt.u32 %%p1, %%r%u, %%r%u;\nselp.b32 %%r%u, %%r%u, %%r%u, %%p1;\n", a, b, d,
             b, c)
        STEP(14, "setp.ge.s32 %%p1, %%r%u, %%r%u;\nselp.b32 %%r%u, %%r%u, %%r%u, %%p1;\n", a, c, d,
             a, b)
        STEP(15, "setp.eq.u32 %%p1, %%r%u, %%r%u;\nselp.b32 %%r%u, 1, %%r%u, %%p1;\n", a, b, d, c)
        STEP(16, "shl.b32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(17, "shr.s32 %%r%u, %%r%u, %u;\n", d, a, n)
        STEP(18, "prmt.b32 %%r%u, %%r%u, %%r%u, %%r%u;\n", d, a, b, c)
        STEP(19, "mul.lo.u32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(20, "mad.lo.u32 %%r%u, %%r%u, %u, %%r%u;\n", d, a, imm & 0xff0, b)
        STEP(21, "cvt.s32.s8 %%r%u, %%r%u;\n", d, a)
        STEP(22, "cvt.u32.u16 %%r%u, %%r%u;\n", d, a)
        STEP(23, "bfe.s32 %%r%u, %%r%u, %u, %u;\n", d, a, n, imm >> 8 & 31)
        STEP(24, "brev.b32 %%r%u, %%r%u;\n", d, a)
        STEP(25, "min.s32 %%r%u, %%r%u, %%r%u;\n", d, a, b)
        STEP(26, "popc.b32 %%r%u, %%r%u;\n", d, a)
        STEP(27, "mul.wide.s32 %%rd20, %%r%u, %%r%u;\nmov.b64 {%%r40, %%r%u}, %%rd20;\n", a, b, d)
        STEP(28,
             "setp.gt.u32 %%p1, %%r%u, %%r%u;\nsetp.lt.or.s32 %%p2, %%r%u, 9, %%p1;\n"
             "and.pred %%p3, %%p1, %%p2;\nselp.b32 %%r%u, 1, 0, %%p3;\n",
             a, b, c, d)
        STEP(29, "slct.s32.s32 %%r%u, %%r%u, %%r%u, %%r%u;\n", d, a, b, c)
    default:
        return snprintf(at, size, "add.cc.u32 %%r%u, %%r%u, %%r%u;\naddc.u32 %%r%u, %%r%u, 0;\n", d,
                        a, b, a, c);
    }
#undef STEP
}

struct trial {
    char body[16384];
    uint32_t undefined[32][VALUES], varies[32][VALUES];
};

// Runs the body with the sanitizers, and then without them, with many values in the undefined bits.
static void run_trial(struct emulator *e, struct trial *t, unsigned fills)
{
    uint32_t known[VALUES * 2 * 32], *results, first[VALUES * 32];
    for (unsigned k = 0; k < VALUES; k++)
        for (unsigned i = 0; i < 32; i++) {
            uint32_t mask = random_word();
            mask = i % 4 == 0   ? mask & random_word() & random_word()
                   : i % 4 == 1 ? mask
                                : mask & 0xff;
            mask = i == 31 ? 0 : i == 30 ? UINT32_MAX : mask;
            known[k * 64 + i] = random_word() & ~mask;
            known[k * 64 + 32 + i] = mask;
        }
    uint64_t in = emulator_upload(e, known, sizeof(known));
    uint64_t out = emulator_alloc(e, VALUES * 128), never = emulator_alloc(e, VALUES * 128);
    e->config.sanitize = EMU_SANITIZE_ON;
    emulator_runs(e, t->body, out, in, never);
    for (unsigned k = 0; k < VALUES; k++)
        for (unsigned i = 0; i < 32; i++)
            t->undefined[i][k] = undefined_bits(e, out + k * 128 + i * 4);
    e->config.sanitize = EMU_SANITIZE_OFF;
    memset(t->varies, 0, sizeof(t->varies));
    uint32_t *fill = emulator_at(e, never, VALUES * 128);
    for (unsigned round = 0; round < fills; round++) {
        for (unsigned k = 0; k < VALUES * 32; k++)
            fill[k] = round < 16 ? (round >> k / 32 & 1 ? UINT32_MAX : 0) : random_word();
        emulator_runs(e, t->body, out, in, never);
        results = emulator_at(e, out, VALUES * 128);
        for (unsigned k = 0; k < VALUES * 32; k++) {
            if (round)
                t->varies[k % 32][k / 32] |= first[k] ^ results[k];
            else
                first[k] = results[k];
        }
    }
}

static int write_results(char *at, size_t size)
{
    return snprintf(at, size,
                    "st.global.u32 [%%rd13], %%r20;\nst.global.u32 [%%rd13+128], %%r21;\n"
                    "st.global.u32 [%%rd13+256], %%r22;\nst.global.u32 [%%rd13+384], %%r23;\nret;");
}

// A bit that varies with the undefined bits is undefined. After a single bitwise or moving
// instruction, a sum or a difference, no other bit is.
EMULATOR_TEST(random_programs)
{
    static struct trial t;
    for (unsigned trial = 0; trial < 160; trial++) {
        bool one = trial < 3 * EXACT;
        int n = write_inputs(t.body, sizeof(t.body));
        unsigned steps = one ? 1 : 2 + random_word() % 10;
        for (unsigned s = 0; s < steps; s++) {
            unsigned kind = one ? trial % EXACT : random_word() % KINDS;
            unsigned d = random_word() % VALUES, a = random_word() % VALUES;
            unsigned b = one ? (a + 1) % VALUES : random_word() % VALUES;
            unsigned c = one ? (a + 2) % VALUES : random_word() % VALUES;
            n += write_step(t.body + n, sizeof(t.body) - (size_t)n, kind, d, a, b, c);
        }
        write_results(t.body + n, sizeof(t.body) - (size_t)n);
        run_trial(e, &t, one ? MANY_FILLS : FILLS);
        for (unsigned i = 0; i < 32; i++)
            for (unsigned k = 0; k < VALUES; k++)
                if (t.varies[i][k] & ~t.undefined[i][k] ||
                    (one && t.varies[i][k] != t.undefined[i][k]))
                    fail_msg("lane %u, %%r%u: 0x%08x undefined, 0x%08x vary:\n%s", i, 20 + k,
                             (unsigned)t.undefined[i][k], (unsigned)t.varies[i][k], t.body);
    }
}

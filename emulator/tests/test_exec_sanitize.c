// SPDX-License-Identifier: MIT
// Small faulty kernels. Each is reported by the name of its fault, with the CUresult of hardware.
#include "fixture.h"

#define SHARED_ARRAY                                                                               \
    ".shared .align 4 .b32 s[64];\n"                                                               \
    "mov.u32 %r10, s;\nshl.b32 %r11, %r0, 2;\nadd.u32 %r12, %r10, %r11;\n"
#define OUT_SLOT "mul.wide.u32 %rd10, %r0, 4;\nadd.u64 %rd11, %rd0, %rd10;\n"

EMULATOR_TEST(out_of_bounds_store)
{
    uint64_t out = emulator_alloc(e, 31 * 4); // one too short
    emulator_fails(e, OUT_SLOT "st.global.u32 [%rd11], %r0;\nret;", out, 0, 0, 700,
                   "out of bounds|store of 4 bytes|0 bytes past the end of the allocation of 124 "
                   "bytes|kernel k|block (0,0,0) thread (31,0,0)|PTX line|st.global.u32");
}

EMULATOR_TEST(before_the_allocation)
{
    uint64_t out = emulator_zeros(e, 64);
    emulator_fails(e, "ld.global.u32 %r5, [%rd0+-4];\nret;", out, 0, 0, 700,
                   "out of bounds|load of 4 bytes|thread (0,0,0)");
}

EMULATOR_TEST(null_pointer)
{
    emulator_fails(e, "ld.global.u32 %r5, [%rd0];\nret;", 0, 0, 0, 700, "out of bounds|0x0");
}

EMULATOR_TEST(use_after_free)
{
    uint64_t out = emulator_zeros(e, 64);
    emu_memory_free(e->memory, out);
    emulator_fails(e, "ld.global.u32 %r5, [%rd0];\nret;", out, 0, 0, 700,
                   "use after free|freed allocation of 64 bytes");
}

EMULATOR_TEST(misaligned)
{
    uint64_t out = emulator_zeros(e, 256);
    emulator_fails(e, "ld.global.u32 %r5, [%rd0+2];\nret;", out, 0, 0, 716,
                   "misaligned load of 4 bytes|ld.global.u32");
    emulator_fails(e, "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd0+8];\nret;", out, 0, 0, 716,
                   "misaligned load of 16 bytes");
    // The same in shared memory and through generic addresses.
    emulator_fails(e,
                   SHARED_ARRAY "cvta.shared.u64 %rd9, 0;\n"
                                "st.u32 [%rd9+1], %r0;\nret;",
                   out, 0, 0, 716, "misaligned store of 4 bytes");
}

EMULATOR_TEST(shared_out_of_bounds)
{
    emulator_fails(e, SHARED_ARRAY "st.shared.u32 [%r12+132], %r0;\nret;", 0, 0, 0, 700,
                   "out of bounds|has 256 bytes of shared memory|thread (31,0,0)");
}

EMULATOR_TEST(local_out_of_bounds)
{
    emulator_fails(e,
                   ".local .align 4 .b32 l[4];\nmov.u64 %rd9, l;\n"
                   "st.local.u32 [%rd9+16], %r0;\nret;",
                   0, 0, 0, 700, "out of bounds|local memory");
    emulator_fails(e,
                   ".local .align 4 .b32 l[4];\nmov.u64 %rd9, l;\n"
                   "cvta.local.u64 %rd9, %rd9;\nld.global.u32 %r5, [%rd9];\nret;",
                   0, 0, 0, 700, "out of bounds|a generic address of local memory");
}

EMULATOR_TEST(uninitialised_register)
{
    uint64_t out = emulator_alloc(e, 128);
    int result = emulator_body(
        e, OUT_SLOT "add.u32 %r6, %r5, 1;\nst.global.u32 [%rd11], %r6;\nret;", out, 0, 0);
    emulator_expect_undefined(e, result, out, 128, "copied to the host|register %r5|add.u32");
    // Only some lanes are undefined. A copy is not a use.
    result = emulator_body(e,
                           OUT_SLOT "setp.lt.u32 %p1, %r0, 7;\n@%p1 mov.u32 %r5, 1;\n"
                                    "mov.u32 %r7, %r5;\nst.global.u32 [%rd11], %r7;\nret;",
                           out, 0, 0);
    emulator_expect_fine(e, result, out, 128);
    emulator_fails(e,
                   OUT_SLOT "setp.lt.u32 %p1, %r0, 7;\n@%p1 mov.u32 %r5, 1;\n"
                            "mov.u32 %r7, %r5;\nsetp.eq.u32 %p2, %r7, 1;\n"
                            "@%p2 st.global.u32 [%rd11], %r7;\nret;",
                   out, 0, 0, 719,
                   "uninitialised value decides a guard: register %p2|it comes from register %r5, "
                   "never written|mov.u32 %r7, %r5|thread (7,0,0)|st.global");
    emulator_fails(e, "@%p3 bra L;\nL: ret;", out, 0, 0, 719,
                   "uninitialised value decides a guard: register %p3|bra L");
}

#define DECIDE(reg) "setp.eq.u32 %p1, " reg ", 7;\n@%p1 bra L;\nL: ret;"

EMULATOR_TEST(uninitialised_memory)
{
    uint64_t out = emulator_alloc(e, 128);
    assert_int_equal(emulator_body(e, OUT_SLOT "ld.global.u32 %r5, [%rd11];\nret;", out, 0, 0), 0);
    int result =
        emulator_body(e, OUT_SLOT "ld.global.u32 %r5, [%rd11];\n" DECIDE("%r5"), out, 0, 0);
    emulator_expect(e, result, 719,
                    "uninitialised value decides a guard: register %p1|memory, never written, "
                    "read at line|`ld.global.u32 %r5, [%rd11];`|in the allocation of 128 bytes");
    emulator_fails(e, SHARED_ARRAY "ld.shared.u32 %r5, [%r12];\n" DECIDE("%r5"), out, 0, 0, 719,
                   "decides a guard|memory, never written|ld.shared.u32");
    emulator_fails(e,
                   ".local .align 4 .b32 l[4];\nmov.u64 %rd9, l;\nst.local.u16 [%rd9], "
                   "%h1;\nld.local.u16 %r5, [%rd9];\n" DECIDE("%r5"),
                   out, 0, 0, 719, "decides a guard|register %h1, never written|st.local.u16");
    // Half of the word was written. The whole word decides; the written half alone is not reported.
#define HALF                                                                                       \
    ".local .align 4 .b32 l[4];\nmov.u64 %rd9, l;\nmov.u16 %h1, 7;\n"                              \
    "st.local.u16 [%rd9], %h1;\nld.local.u32 %r5, [%rd9];\n"
    emulator_fails(e, HALF DECIDE("%r5"), out, 0, 0, 719,
                   "decides a guard|memory, never written|ld.local.u32 %r5");
    emulator_fails(e, HALF "and.b32 %r5, %r5, 0xffff;\n" DECIDE("%r5"), out, 0, 0, 0, "");
}

#define NEIGHBOUR "xor.b32 %r13, %r11, 128;\nadd.u32 %r14, %r10, %r13;\n" /* of the other warp */
#define MISSING_BARRIER(barrier)                                                                   \
    SHARED_ARRAY NEIGHBOUR OUT_SLOT                                                                \
        "st.shared.u32 [%r12], %r0;\n" barrier                                                     \
        "ld.shared.u32 %r5, [%r14];\nst.global.u32 [%rd11], %r5;\nret;"

// Loads of shared memory that is all defined are not checked, until some of it is not any more.
EMULATOR_TEST(shared_memory_undefined_again)
{
    const uint64_t never = emulator_alloc(e, 64);
    e->block = 64;
#define ALL_DEFINED                                                                                \
    SHARED_ARRAY "setp.eq.u32 %p2, %r0, 3;\nst.shared.u32 [%r12], %r0;\nbar.sync 0;\n"             \
                 "ld.shared.u32 %r5, [%r12];\nld.shared.u32 %r6, [%r12];\n"                        \
                 "ld.shared.u32 %r5, [%r12];\nld.shared.u32 %r6, [%r12];\nbar.sync 0;\n"
#define READ_ONE "bar.sync 0;\nld.shared.u32 %r5, [%r10+8];\n" DECIDE("%r5")
    emulator_runs(e, ALL_DEFINED READ_ONE, 0, 0, 0);
    int result =
        emulator_body(e, ALL_DEFINED "@%p2 st.shared.u32 [%r10+8], %r50;\n" READ_ONE, 0, 0, 0);
    emulator_expect(e, result, 719, "decides a guard|register %r50, never written");
    emulator_fails(e,
                   ALL_DEFINED "@%p2 cp.async.ca.shared.global [%r10+8], [%rd0], 8;\n"
                               "cp.async.wait_all;\n" READ_ONE,
                   never, 0, 0, 719, "decides a guard|memory, never written");
    emulator_fails(e,
                   ALL_DEFINED "@%p2 mbarrier.init.shared.b64 [%r10+8], 1;\n"
                               "@%p2 mbarrier.inval.shared.b64 [%r10+8];\n" READ_ONE,
                   0, 0, 0, 719, "decides a guard|memory, never written");
    result =
        emulator_body(e, ALL_DEFINED "@%p2 red.shared.add.u32 [%r10+8], %r50;\n" READ_ONE, 0, 0, 0);
    emulator_expect(e, result, 719, "decides a guard|register %r50, never written");
}

EMULATOR_TEST(missing_barrier)
{
    uint64_t out = emulator_alloc(e, 256);
    e->block = 64;
    assert_int_equal(emulator_body(e, MISSING_BARRIER("bar.sync 0;\n"), out, 0, 0), 0);
    emulator_fails(e, MISSING_BARRIER(""), out, 0, 0, 719,
                   "shared-memory race: this write|and the read|st.shared.u32");
    // The bytes are written before, so that the race is the only fault.
    emulator_fails(e,
                   SHARED_ARRAY NEIGHBOUR OUT_SLOT
                   "st.shared.u32 [%r12], 0;\nbar.sync 0;\nst.shared.u32 [%r12], %r0;\n"
                   "ld.shared.u32 %r5, [%r14];\nst.global.u32 [%rd11], %r5;\nret;",
                   out, 0, 0, 719, "shared-memory race|read|write|have no barrier between|line");
}

EMULATOR_TEST(missing_barrier_shows_in_results)
{
    uint64_t out = emulator_alloc(e, 256);
    e->block = 64;
    e->config.sanitize = false;
    unsigned shown = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        e->config.seed = seed;
        assert_int_equal(emulator_body(e, MISSING_BARRIER("bar.sync 0;\n"), out, 0, 0), 0);
        const uint32_t *got = emulator_at(e, out, 256);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(got[i], i ^ 32);
        assert_int_equal(emulator_body(e, MISSING_BARRIER(""), out, 0, 0), 0);
        unsigned wrong = 0;
        for (uint32_t i = 0; i < 64; i++)
            wrong += got[i] != (i ^ 32);
        shown += wrong != 0;
    }
    assert_in_range(shown, 5, 10);
    e->config.sanitize = true;
    for (e->config.seed = 1; e->config.seed <= 10; e->config.seed++)
        emulator_fails(e, MISSING_BARRIER(""), out, 0, 0, 719, "shared-memory race");
}

EMULATOR_TEST(lost_atomic)
{
    e->block = 64;
    const char *racy = SHARED_ARRAY "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r10], 0;\n"
                                    "bar.sync 0;\nld.shared.u32 %r5, [%r10];\n"
                                    "add.u32 %r5, %r5, 1;\nst.shared.u32 [%r10], %r5;\nret;";
    emulator_fails(e, racy, 0, 0, 0, 719, "shared-memory race|write|read");
    const char *right = SHARED_ARRAY "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r10], 0;\n"
                                     "bar.sync 0;\nred.shared.add.u32 [%r10], 1;\nret;";
    assert_int_equal(emulator_body(e, right, 0, 0, 0), 0);
    // An atomic and a plain store without order race too.
    const char *mixed = SHARED_ARRAY "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r10], 0;\n"
                                     "bar.sync 0;\nred.shared.add.u32 [%r10], 1;\n"
                                     "ld.shared.u32 %r5, [%r10];\nret;";
    emulator_fails(e, mixed, 0, 0, 0, 719, "shared-memory race");
}

// Reads are recorded when a write might race with them. However many there are before it, it finds
// the last ones; after a barrier, and after a write, they are as before.
EMULATOR_TEST(write_after_many_reads)
{
    e->block = 64;
#define MANY_READS(times, then)                                                                    \
    SHARED_ARRAY                                                                                   \
    "st.shared.u32 [%r12], %r0;\nbar.sync 0;\nmov.u32 %r20, 0;\n"                                  \
    "setp.ne.u32 %p2, %r0, 40;\n"                                                                  \
    "L: ld.shared.u32 %r5, [%r12];\n@!%p2 ld.shared.u32 %r6, [%r10+8];\n"                          \
    "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, " times ";\n@%p1 bra L;\n" then
#define STORE_OF_5 "setp.eq.u32 %p3, %r0, 5;\n@%p3 st.shared.u32 [%r10+8], 77;\nret;"
    // With 1 the warps' reads are a few; with 3000 they are more than the list has room for.
    for (int many = 0; many < 2; many++) {
        const char *racy = many ? MANY_READS("3000", "bar.sync 1, 64;\n" STORE_OF_5)
                                : MANY_READS("1", "bar.sync 1, 64;\n" STORE_OF_5);
        assert_int_equal(emulator_body(e, racy, 0, 0, 0), 0);
        racy = many ? MANY_READS("3000", STORE_OF_5) : MANY_READS("1", STORE_OF_5);
        for (e->config.seed = 0; e->config.seed < 4; e->config.seed++)
            emulator_fails(e, racy, 0, 0, 0, 719, "shared-memory race|shared offset 0x8");
        e->config.seed = 0;
    }
    // Reads on both sides of a write that nothing orders.
    const char *both = SHARED_ARRAY "st.shared.u32 [%r12], 0;\nbar.sync 0;\n"
                                    "ld.shared.u32 %r5, [%r12];\nsetp.eq.u32 %p3, %r0, 5;\n"
                                    "@%p3 st.shared.u32 [%r10+20], 77;\n"
                                    "ld.shared.u32 %r6, [%r10+20];\nret;";
    emulator_fails(e, both, 0, 0, 0, 719, "shared-memory race|shared offset 0x14|thread (5,0,0)");
}

// A GPU may answer a load by .nc from a cache that no store reaches.
EMULATOR_TEST(constant_memory_is_not_written)
{
    uint64_t out = emulator_zeros(e, 256);
#define NC    "ld.global.nc.u32 %r5, "
#define OWN   "[%rd11];\n"
#define STORE "st.global.u32 [%rd11], %r0;\n"
    static const char *const wrong[] = {
        STORE NC OWN,
        NC OWN STORE,
        NC OWN "st.u32 [%rd11], %r0;\n",
        NC OWN "atom.global.add.u32 %r6, [%rd11], 1;\n",
        NC OWN "red.global.add.u32 [%rd0], 1;\n",
        "st.global.u8 [%rd0+3], %r0;\n" NC OWN,
        "ld.global.nc.v4.u32 {%r5,%r6,%r7,%r8}, [%rd0+16];\nst.global.u8 [%rd0+31], %r0;\n",
        NC "[%rd0+4];\nst.volatile.global.u32 [%rd11], %r0;\n",
        "setp.eq.u32 %p1, %r0, 7;\n@%p1 " NC OWN STORE,
    };
    static const char *const right[] = {
        NC OWN NC OWN "st.global.u32 [%rd11+128], %r0;\n",
        "ld.global.u32 %r5, " OWN STORE,
        NC "[%rd0+128];\nst.global.u8 [%rd0+127], %r0;\nst.global.u8 [%rd0+132], %r0;\n",
    };
    for (size_t k = 0; k < sizeof(wrong) / sizeof(*wrong); k++) {
        char body[512];
        snprintf(body, sizeof(body), "%s%sret;", OUT_SLOT, wrong[k]);
        emulator_fails(e, body, out, 0, 0, 719,
                       ".nc|nothing writes while the kernel runs|PTX line");
    }
    // Each launch is one of its own.
    for (size_t k = 0; k < sizeof(right) / sizeof(*right); k++) {
        char body[512];
        snprintf(body, sizeof(body), "%s%sret;", OUT_SLOT, right[k]);
        assert_int_equal(emulator_body(e, body, out, 0, 0), 0);
    }
#undef NC
#undef OWN
#undef STORE
}

EMULATOR_TEST(race_within_a_warp)
{
    uint64_t out = emulator_alloc(e, 256);
#define LANES(sync)                                                                                \
    SHARED_ARRAY OUT_SLOT "st.shared.u32 [%r12], %r0;\n" sync                                      \
                          "xor.b32 %r13, %r11, 4;\nadd.u32 %r14, %r10, %r13;\n"                    \
                          "ld.shared.u32 %r5, [%r14];\nst.global.u32 [%rd11], %r5;\nret;"
    emulator_fails(e, LANES(""), out, 0, 0, 719, "shared-memory race");
    assert_int_equal(emulator_body(e, LANES("bar.warp.sync -1;\n"), out, 0, 0), 0);
    assert_int_equal(emulator_body(e, LANES("bar.warp.sync 0xffffffff;\n"), out, 0, 0), 0);
    assert_int_equal(
        emulator_body(e, LANES("shfl.sync.idx.b32 %r20, %r0, 0, 31, -1;\n"), out, 0, 0), 0);
}

EMULATOR_TEST(one_flag_for_all)
{
    e->block = 64;
    // Stores of the same value by every thread are no race. Stores of different values are.
    assert_int_equal(emulator_body(e, SHARED_ARRAY "st.shared.u32 [%r10], 7;\nret;", 0, 0, 0), 0);
    emulator_fails(e, SHARED_ARRAY "st.shared.u32 [%r10], %r0;\nret;", 0, 0, 0, 719,
                   "shared-memory race|write|thread (0,0,0)");
}

EMULATOR_TEST(divergent_barrier)
{
    e->block = 64;
    // Half of the threads wait at one barrier, half at another.
    emulator_fails(e,
                   "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra L;\nbar.sync 1;\nret;\n"
                   "L: bar.sync 0;\nret;",
                   0, 0, 0, 702,
                   "deadlock|divergent barrier, not reached by all|wait at barrier 0|wait at "
                   "barrier 1");
    // Lanes of one warp at two barrier instructions.
    int result = emulator_body(e,
                               "and.b32 %r5, %r0, 1;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra L;\n"
                               "bar.sync 0;\nret;\nL: bar.sync 0;\nret;",
                               0, 0, 0);
    emulator_expect(e, result, 719, "divergent barrier|same warp waits at another barrier");
    // A barrier with a count waits for that many, ended or not.
    result =
        emulator_body(e, "setp.lt.u32 %p1, %r0, 32;\n@!%p1 ret;\nbar.sync 0, 64;\nret;", 0, 0, 0);
    emulator_expect(e, result, 702, "deadlock|32 of 64 threads have ended");
}

// "if (i >= n) return;" before __syncthreads(): a barrier does not wait for threads that have
// ended, whether before it or while others wait; whole warps and parts of them.
EMULATOR_TEST(barrier_after_early_return)
{
    static const char body[] = ".shared .align 4 .b32 s[64];\n"
                               "mov.u32 %r10, s;\nshl.b32 %r5, %r0, 2;\nadd.u32 %r10, %r10, %r5;\n"
                               "setp.ge.u32 %p1, %r0, %r7;\n@%p1 ret;\n"
                               "st.shared.u32 [%r10], %r0;\nbar.sync 0;\n"
                               "xor.b32 %r5, %r5, 4;\nmov.u32 %r10, s;\nadd.u32 %r10, %r10, %r5;\n"
                               "ld.shared.u32 %r9, [%r10];\n"
                               "bar.red.popc.u32 %r8, 0, %p2;\n"
                               "cvt.u64.u32 %rd9, %r0;\nshl.b64 %rd9, %rd9, 2;\n"
                               "add.u64 %rd8, %rd0, %rd9;\nst.global.u32 [%rd8], %r9;\nret;";
    for (unsigned sanitize = 0; sanitize < 2; sanitize++)
        for (unsigned n = 2; n <= 64; n += 2) {
            e->config.sanitize = sanitize ? EMU_SANITIZE_ON : EMU_SANITIZE_OFF;
            e->block = 64;
            char text[2048];
            const uint64_t out = emulator_alloc(e, 256);
            snprintf(text, sizeof text, "mov.u32 %%r7, %u;\nsetp.eq.u32 %%p2, %%r0, 0;\n%s", n,
                     body);
            emulator_runs(e, text, out, 0, 0);
            const uint32_t *got = emulator_at(e, out, 256);
            for (unsigned i = 0; i < n; i++)
                assert_int_equal(got[i], i ^ 1);
        }
    // The others wait when the first warp ends.
    e->config.sanitize = EMU_SANITIZE_ON;
    emulator_runs(e,
                  "mov.u32 %r5, 0;\nsetp.ge.u32 %p1, %r0, 32;\n@%p1 bra L;\n"
                  "M: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 1000;\n"
                  "@%p2 bra M;\nret;\nL: bar.sync 0;\nret;",
                  0, 0, 0);
}

// A value from a lane that does not take part is undefined. It is reported where it decides.
EMULATOR_TEST(inactive_shuffle)
{
    emulator_fails(e,
                   "setp.lt.u32 %p1, %r0, 16;\n@!%p1 bra L;\n"
                   "shfl.sync.bfly.b32 %r5, %r0, 16, 31, 0xffff;\n"
                   "setp.eq.u32 %p2, %r5, 7;\n@%p2 bra L;\nL: ret;",
                   0, 0, 0, 719,
                   "decides a guard: register %p2|lane 16, which is not in the membermask|read by "
                   "the shuffle at line|shfl.sync.bfly");
    emulator_fails(e,
                   "setp.gt.u32 %p1, %r0, 15;\n@%p1 ret;\n"
                   "shfl.sync.bfly.b32 %r5, %r0, 16, 31, -1;\n"
                   "setp.eq.u32 %p2, %r5, 7;\n@%p2 bra L;\nL: ret;",
                   0, 0, 0, 719, "decides a guard|lane 16, which has ended");
    // The sum of the 20 lanes of a mask. Values of other lanes are computed with and discarded.
    uint64_t out = emulator_zeros(e, 4);
    emulator_fails(e,
                   "setp.gt.u32 %p1, %r0, 19;\n@%p1 ret;\nmov.u32 %r5, %r0;\n"
                   "mov.u32 %r7, 16;\nL: shfl.sync.down.b32 %r6, %r5, %r7, 31, 0xfffff;\n"
                   "add.u32 %r8, %r0, %r7;\nsetp.lt.u32 %p2, %r8, 20;\n"
                   "@%p2 add.u32 %r5, %r5, %r6;\nshr.u32 %r7, %r7, 1;\n"
                   "setp.ne.u32 %p1, %r7, 0;\n@%p1 bra L;\nsetp.eq.u32 %p1, %r0, 0;\n"
                   "@%p1 st.global.u32 [%rd0], %r5;\nret;",
                   out, 0, 0, 0, "");
    assert_int_equal(*(const uint32_t *)emulator_at(e, out, 4), 190);
    emulator_fails(e, "shfl.sync.bfly.b32 %r5, %r0, 1, 31, 0xf;\nret;", 0, 0, 0, 719,
                   "lane 4, which is not in its own membermask 0x0000000f");
}

EMULATOR_TEST(lanes_in_deadlock)
{
    // Each half waits for all 32 lanes, at an instruction that the other never reaches.
    emulator_fails(e,
                   "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra L;\nbar.sync 1, 64;\nret;\n"
                   "L: bar.warp.sync -1;\nret;",
                   0, 0, 0, 702, "deadlock|lanes 0x0000ffff wait for the lanes of membermask");
}

EMULATOR_TEST(trap_and_calls)
{
    emulator_fails(e, "trap;\nret;", 0, 0, 0, 719, "trap|kernel k");
    e->config.timeout_ms = 50;
    emulator_fails(e, "L: bra L;", 0, 0, 0, 702, "timeout");
}

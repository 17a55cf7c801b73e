// SPDX-License-Identifier: MIT
// Lanes together and apart: divergence, spin-waits, shuffles, votes, matches, barriers, calls.
#include "fixture.h"

#define OUT_SLOT "mul.wide.u32 %rd10, %r0, 4;\nadd.u64 %rd11, %rd0, %rd10;\n"

// Runs the body, and returns %r5 of each thread.
static const uint32_t *results(struct emulator *e, const char *body)
{
    char text[8192];
    uint64_t out = emulator_zeros(e, 1024 * 4);
    snprintf(text, sizeof(text), "%s\nDONE:\n%sst.global.u32 [%%rd11], %%r5;\nret;", body,
             OUT_SLOT);
    emulator_runs(e, text, out, out, 0);
    return emulator_at(e, out, 1024 * 4);
}

EMULATOR_TEST(loops_of_different_length)
{
    // Collatz's sequence in every lane, three instructions a step, until 1.
    const uint32_t *got = results(e, "add.u32 %r6, %r0, 1;\nmov.u32 %r5, 0;\n"
                                     "L: setp.eq.u32 %p1, %r6, 1;\n@%p1 bra DONE;\n"
                                     "and.b32 %r7, %r6, 1;\nsetp.eq.u32 %p2, %r7, 0;\n"
                                     "@%p2 shr.u32 %r6, %r6, 1;\n"
                                     "@!%p2 mad.lo.u32 %r6, %r6, 3, 1;\n"
                                     "add.u32 %r5, %r5, 1;\nbra L;");
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t steps = 0;
        for (uint32_t x = i + 1; x != 1; x = x & 1 ? 3 * x + 1 : x / 2)
            steps++;
        assert_int_equal(got[i], steps);
    }
}

EMULATOR_TEST(nested_branches_meet_again)
{
    // After two nested branches all 32 lanes run together.
    const uint32_t *got = results(e, "and.b32 %r6, %r0, 1;\nsetp.eq.u32 %p1, %r6, 0;\n"
                                     "@%p1 bra A;\nand.b32 %r6, %r0, 2;\n"
                                     "setp.eq.u32 %p2, %r6, 0;\n@%p2 bra B;\nmov.u32 %r7, 1;\n"
                                     "bra C;\nB: mov.u32 %r7, 2;\nC: bra E;\n"
                                     "A: mov.u32 %r7, 3;\nE: activemask.b32 %r5;");
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(got[i], UINT32_MAX);
}

EMULATOR_TEST(irreducible_jumps)
{
    // A loop with two entries.
    const uint32_t *got = results(e, "mov.u32 %r5, 0;\nand.b32 %r6, %r0, 3;\n"
                                     "setp.eq.u32 %p1, %r6, 2;\n@%p1 bra MIDDLE;\n"
                                     "TOP: add.u32 %r5, %r5, 10;\n"
                                     "MIDDLE: add.u32 %r5, %r5, 1;\n"
                                     "setp.lt.u32 %p2, %r5, %r0;\n@%p2 bra TOP;");
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t x = (i & 3) == 2 ? 1 : 11;
        while (x < i)
            x += 11;
        assert_int_equal(got[i], x);
    }
}

EMULATOR_TEST(lanes_wait_for_lanes)
{
    uint64_t word = emulator_zeros(e, 8);
    // A lock that each lane of the warp takes. The losers spin at a lower pc than the winner.
    const char *lock = "L: atom.global.cas.b32 %r5, [%rd0], 0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n"
                       "@%p1 bra L;\nld.volatile.global.u32 %r6, [%rd0+4];\nadd.u32 %r6, %r6, 1;\n"
                       "st.volatile.global.u32 [%rd0+4], %r6;\nfence.acq_rel.gpu;\n"
                       "atom.global.exch.b32 %r7, [%rd0], 0;\nret;";
    emulator_runs(e, lock, word, 0, 0);
    assert_int_equal(((uint32_t *)emulator_at(e, word, 8))[1], 32);
    // Lane 0 spins at the lower pc until lane 31 has stored. Only plain instructions.
    word = emulator_zeros(e, 8);
    const char *flag = "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra OTHERS;\n"
                       "S: ld.volatile.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p2, %r5, 0;\n"
                       "@%p2 bra S;\nret;\n"
                       "OTHERS: setp.eq.u32 %p3, %r0, 31;\n@%p3 st.volatile.global.u32 [%rd0], 1;\n"
                       "ret;";
    emulator_runs(e, flag, word, 0, 0);
    // The reverse: a loop without memory order.
    word = emulator_zeros(e, 8);
    const char *weak =
        "setp.ne.u32 %p1, %r0, 31;\n@%p1 bra OTHERS;\n"
        "S: ld.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p2, %r5, 0;\n@%p2 bra S;\nret;\n"
        "OTHERS: st.global.u32 [%rd0], 1;\nret;";
    emulator_runs(e, weak, word, 0, 0);
}

EMULATOR_TEST(warps_wait_for_warps)
{
    uint64_t word = emulator_zeros(e, 8);
    e->block = 128;
    const char *chain = "shr.u32 %r5, %r0, 5;\nsub.u32 %r6, 3, %r5;\n" // the last warp goes first
                        "S: ld.acquire.gpu.global.u32 %r7, [%rd0];\nsetp.ne.u32 %p1, %r7, %r6;\n"
                        "@%p1 bra S;\nbar.warp.sync -1;\nand.b32 %r8, %r0, 31;\n"
                        "setp.eq.u32 %p2, %r8, 0;\nadd.u32 %r6, %r6, 1;\n"
                        "@%p2 st.release.gpu.global.u32 [%rd0], %r6;\nret;";
    emulator_runs(e, chain, word, 0, 0);
    assert_int_equal(*(uint32_t *)emulator_at(e, word, 8), 4);
}

static uint32_t shuffled(unsigned mode, uint32_t lane, uint32_t b, uint32_t width)
{
    uint32_t first = lane / width * width, last = first + width - 1;
    switch (mode) {
    case 0:
        return lane + b <= last ? lane + b : lane;
    case 1:
        return lane >= first + b ? lane - b : lane;
    case 2:
        return (lane ^ b) <= last ? lane ^ b : lane;
    default:
        return first + b % width;
    }
}

EMULATOR_TEST(shuffles)
{
    static const char *const modes[] = { "down", "up", "bfly", "idx" };
    for (unsigned mode = 0; mode < 4; mode++)
        for (uint32_t width = 1; width <= 32; width *= 2)
            for (uint32_t b = 0; b < 32; b += 5) {
                char body[512];
                uint32_t c = (32 - width) << 8 | (mode == 1 ? 0 : 31);
                snprintf(body, sizeof(body),
                         "mul.lo.u32 %%r6, %%r0, 100;\nshfl.sync.%s.b32 %%r5|%%p1, %%r6, %u, %u, "
                         "-1;\n@%%p1 add.u32 %%r5, %%r5, 1;",
                         modes[mode], (unsigned)b, (unsigned)c);
                const uint32_t *got = results(e, body);
                for (uint32_t i = 0; i < 32; i++) {
                    uint32_t from = shuffled(mode, i, b, width), first = i / width * width;
                    bool inside = mode == 0   ? i + b < first + width
                                  : mode == 1 ? i >= first + b
                                  : mode == 2 ? (i ^ b) < first + width
                                              : true;
                    assert_int_equal(got[i], from * 100 + inside);
                }
            }
}

EMULATOR_TEST(diverged_halves_shuffle)
{
    // Both halves reach one shuffle with a mask of all lanes. The first waits for the second.
    const uint32_t *got = results(e, "setp.lt.u32 %p1, %r0, 16;\nmov.u32 %r6, %r0;\n"
                                     "@%p1 bra L;\nmul.lo.u32 %r6, %r0, 3;\n"
                                     "L: shfl.sync.bfly.b32 %r5, %r6, 16, 31, 0xffffffff;");
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(got[i], i < 16 ? (i ^ 16) * 3 : i ^ 16);
    // Each half has its own mask.
    got = results(e, "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra L;\n"
                     "shfl.sync.idx.b32 %r5, %r0, 20, 31, 0xffff0000;\nbra DONE;\n"
                     "L: shfl.sync.idx.b32 %r5, %r0, 3, 31, 0x0000ffff;");
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(got[i], i < 16 ? 3 : 20);
}

EMULATOR_TEST(matches_with_a_predicate)
{
    const uint32_t *got = results(e, "shr.u32 %r6, %r0, 5;\nmatch.all.sync.b32 %r5|%p1, %r6, -1;\n"
                                     "match.all.sync.b32 %r7|%p2, %r0, -1;\n@!%p1 mov.u32 %r5, 1;\n"
                                     "@%p2 mov.u32 %r5, 2;\nadd.u32 %r5, %r5, %r7;");
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(got[i], UINT32_MAX);
}

// The least and greatest float of the lanes, with a NaN, two zeros and infinities among them.
EMULATOR_TEST(redux_of_floats)
{
    static const struct {
        const char *op;
        uint32_t of_numbers, of_zeros, with_nan;
    } cases[] = {
        { "min", 0xff800000, 0x80000000, 0xff800000 },
        { "max", 0x41f00000, 0x00000000, 0x41f00000 },
        { "min.abs", 0x3f800000, 0x00000000, 0x3f800000 },
        { "max.abs", 0x7f800000, 0x00000000, 0x7f800000 },
        { "min.NaN", 0xff800000, 0x80000000, 0x7fffffff },
        { "max.abs.NaN", 0x7f800000, 0x00000000, 0x7fffffff },
    };
    e->target = ".version 8.6\n.target sm_100a";
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        // 1 to 30, then -infinity; of lane 31, and of lanes 29 and 30 alone, three kinds.
        static const char *const last[] = { "0f3f800000", "0f00000000", "0fffc12345" };
        const uint32_t wanted[] = { cases[k].of_numbers, cases[k].of_zeros, cases[k].with_nan };
        for (unsigned n = 0; n < 3; n++) {
            char body[1024];
            snprintf(body, sizeof(body),
                     "add.u32 %%r6, %%r0, 1; cvt.rn.f32.u32 %%f1, %%r6;\n"
                     "setp.eq.u32 %%p1, %%r0, 30; @%%p1 mov.f32 %%f1, 0fff800000;\n"
                     "setp.eq.u32 %%p1, %%r0, 31; @%%p1 mov.f32 %%f1, %s;\n"
                     "setp.lt.u32 %%p1, %%r0, 31; @%%p1 mov.f32 %%f1, %s;\n"
                     "redux.sync.%s.f32 %%f2, %%f1, -1; mov.b32 %%r5, %%f2;",
                     last[n], n == 1 ? "0f80000000" : "%f1", cases[k].op);
            const uint32_t *got = results(e, body);
            for (uint32_t i = 0; i < 32; i++)
                if (got[i] != wanted[n])
                    fail_msg("%s, %u: %08x, not %08x", cases[k].op, n, (unsigned)got[i],
                             (unsigned)wanted[n]);
        }
    }
}

// p says whether the result is not 0, combined with q.
EMULATOR_TEST(lop3_with_a_predicate)
{
    for (unsigned k = 0; k < 16; k++) {
        const bool is_or = k & 1, negated = k & 2, sink = k & 4, constant = k & 8;
        char body[512];
        snprintf(body, sizeof(body),
                 "setp.lt.u32 %%p2, %%r0, 20; and.b32 %%r6, %%r0, 6; mov.u32 %%r7, %%r6;\n"
                 "lop3.%s.b32 %s|%%p1, %%r0, %%r6, 3, 0x6a, %s;\n"
                 "selp.u32 %%r5, 100, 0, %%p1; add.u32 %%r5, %%r5, %%r7;",
                 is_or ? "or" : "and", sink ? "_" : "%r7",
                 constant  ? negated ? "0" : "1"
                 : negated ? "!%p2"
                           : "%p2");
        const uint32_t *got = results(e, body);
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t b = i & 6;
            uint32_t logic = 0;
            for (unsigned bit = 0; bit < 32; bit++) {
                const unsigned row = (i >> bit & 1) * 4 + (b >> bit & 1) * 2 + (3u >> bit & 1);
                logic |= (uint32_t)(0x6a >> row & 1) << bit;
            }
            const bool with = constant ? !negated : (i < 20) != negated;
            const bool holds = is_or ? logic != 0 || with : logic != 0 && with;
            assert_int_equal(got[i], (holds ? 100 : 0) + (sink ? b : logic));
        }
    }
}

EMULATOR_TEST(barriers)
{
    e->block = 96;
    const uint32_t *got = results(e, "setp.lt.u32 %p1, %r0, 70;\n"
                                     "bar.red.popc.u32 %r5, 0, %p1;\n"
                                     "bar.red.and.pred %p2, 0, %p1;\n"
                                     "bar.red.or.pred %p3, 0, %p1;\n"
                                     "@%p2 mov.u32 %r5, 1;\n@!%p3 mov.u32 %r5, 2;");
    for (uint32_t i = 0; i < 96; i++)
        assert_int_equal(got[i], 70);
    // Two warps arrive, the third waits, each with its own instruction.
    got = results(e, ".shared .align 4 .b32 s[64];\nmov.u32 %r10, s;\nshl.b32 %r11, %r0, 2;\n"
                     "add.u32 %r12, %r10, %r11;\nmov.u32 %r5, 0;\nsetp.ge.u32 %p1, %r0, 64;\n"
                     "@%p1 bra TAKE;\nmul.lo.u32 %r6, %r0, 7;\nst.shared.u32 [%r12], %r6;\n"
                     "bar.arrive 3, 96;\nbra DONE;\n"
                     "TAKE: bar.sync 3, 96;\nld.shared.u32 %r6, [%r12+-256];\n"
                     "ld.shared.u32 %r7, [%r12+-128];\nadd.u32 %r5, %r6, %r7;");
    for (uint32_t i = 0; i < 96; i++)
        assert_int_equal(got[i], i < 64 ? 0 : 7 * (2 * (i - 64) + 32));
}

EMULATOR_TEST(partial_warps)
{
    e->block = 50;
    const uint32_t *got = results(e, ".shared .align 4 .b32 s[64];\nmov.u32 %r10, s;\n"
                                     "shl.b32 %r11, %r0, 2;\nadd.u32 %r12, %r10, %r11;\n"
                                     "st.shared.u32 [%r12], %r0;\nbar.sync 0, 64;\n"
                                     "sub.u32 %r6, 49, %r0;\nshl.b32 %r6, %r6, 2;\n"
                                     "add.u32 %r6, %r6, %r10;\nld.shared.u32 %r5, [%r6];");
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(got[i], 49 - i);
    // A shuffle from a thread that the block does not have reads zero, whatever the others
    // computed.
    e->config.sanitize = false;
    got = results(e, "add.u32 %r6, %r0, 100;\nmad.lo.u32 %r6, %r6, 3, 1;\nactivemask.b32 %r7;\n"
                     "shfl.sync.down.b32 %r5, %r6, 10, 31, %r7;");
    for (uint32_t i = 0; i < 50; i++) {
        const uint32_t from = i % 32 < 22 ? i + 10 : i;
        assert_int_equal(got[i], from < 50 ? 3 * (from + 100) + 1 : 0);
    }
}

EMULATOR_TEST(calls)
{
    // Recursion to a depth that differs by lane, and two functions called from divergent paths.
    emulator_load(e,
                  ".version 8.0\n.target sm_90\n.address_size 64\n"
                  ".func (.reg .b32 %out) sum(.reg .b32 %n)\n{\n.reg .pred %p<2>;\n"
                  ".reg .b32 %r<4>;\nmov.u32 %out, 0;\nsetp.eq.u32 %p1, %n, 0;\n@%p1 ret;\n"
                  "sub.u32 %r1, %n, 1;\ncall (%r2), sum, (%r1);\nadd.u32 %out, %r2, %n;\nret;\n}\n"
                  ".func (.reg .b32 %out) twice(.reg .b32 %n)\n{\nadd.u32 %out, %n, %n;\nret;\n}\n"
                  ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n"
                  ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
                  "setp.lt.u32 %p1, %r1, 20;\n@%p1 bra L;\ncall (%r2), twice, (%r1);\nbra M;\n"
                  "L: mul.lo.u32 %r4, %r1, 12;\ncall (%r2), sum, (%r4);\nM: activemask.b32 %r3;\n"
                  "mul.wide.u32 %rd2, %r1, 8;\nadd.u64 %rd3, %rd1, %rd2;\n"
                  "st.global.v2.u32 [%rd3], {%r2, %r3};\nret;\n}\n");
    uint64_t out = emulator_alloc(e, 256);
    emulator_expect(e, emulator_run(e, &out), 0, "");
    const uint32_t *got = emulator_at(e, out, 256);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(got[2 * i], i < 20 ? 12 * i * (12 * i + 1) / 2 : 2 * i);
        assert_int_equal(got[2 * i + 1], UINT32_MAX);
    }
}

EMULATOR_TEST(endless_recursion)
{
    emulator_load(e, ".version 8.0\n.target sm_90\n.address_size 64\n"
                     ".func f()\n{\ncall f;\nret;\n}\n"
                     ".visible .entry k(.param .u64 p)\n{\ncall f;\nret;\n}\n");
    uint64_t none = 0;
    emulator_expect(e, emulator_run(e, &none), 714, "calls nested deeper");
}

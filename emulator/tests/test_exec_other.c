// SPDX-License-Identifier: MIT
// What few programs write: transposed tiles, sums as operands, registers of 128 bits, memory
// from the stack, long parameter lists, addresses of parameters. Compared with plain C.
#include "fixture.h"

enum { LANES = 32 };

#define OUT "mul.wide.u32 %rd4, %r0, 16;\nadd.u64 %rd5, %rd0, %rd4;\n"

static void run(struct emulator *e, const char *body, const void *in, size_t bytes, void *out)
{
    const uint64_t at = emulator_upload(e, in, bytes);
    e->target = ".version 8.8\n.target sm_90";
    emulator_runs(e, body, at, 0, 0);
    memcpy(out, emulator_at(e, at, bytes), bytes);
    emu_memory_free(e->memory, at);
}

EMULATOR_TEST(tiles_are_transposed)
{
    uint32_t in[LANES][4] = { { 0 } }, out[LANES][4];
    for (unsigned i = 0; i < LANES; i++) // lane i has columns 2 * (i % 4) and the next of row i / 4
        in[i][0] = (i / 4 * 8 + i % 4 * 2) | (i / 4 * 8 + i % 4 * 2 + 1) << 16;
    run(e,
        OUT "ld.global.u32 %r4, [%rd5];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;\n"
            "st.global.u32 [%rd5+4], %r5;\nret;",
        in, sizeof(in), out);
    for (unsigned i = 0; i < LANES; i++) {
        const unsigned row = i / 4, column = i % 4 * 2;
        assert_int_equal(out[i][1], (column * 8 + row) | ((column + 1) * 8 + row) << 16);
    }
}

EMULATOR_TEST(undefined_halves_are_transposed)
{
    const uint64_t at = emulator_zeros(e, 128);
    e->target = ".version 8.8\n.target sm_90";
    const int got = emulator_body(e,
                                  ".reg .b16 %never;\nmov.b32 %r4, {%h0, %never};\n"
                                  "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;\n"
                                  "add.u32 %r5, %r5, 1;\nmul.wide.u32 %rd4, %r0, 4;\n"
                                  "add.u64 %rd5, %rd0, %rd4;\nst.global.u32 [%rd5], %r5;\nret;",
                                  at, 0, 0);
    emulator_expect_undefined(e, got, at, 128, "never written");
}

EMULATOR_TEST(sums_are_operands)
{
    uint32_t in[LANES][4] = { { 0 } }, out[LANES][4];
    for (unsigned i = 0; i < LANES; i++)
        in[i][0] = i * 1000;
    run(e,
        OUT "ld.global.u32 %r4, [%rd5];\nsetp.lt.u32 %p1, %r0, 16;\n"
            "st.global.u32 [%rd5+4], %r4+77;\n@%p1 add.u32 %r5, %r4+-1, %r0+5;\n"
            "@!%p1 mov.u32 %r5, %r4+9;\nst.global.u32 [%rd5+8], %r5;\n"
            ".shared .b32 s[4];\nmov.u32 %r6, s;\nsub.u32 %r6, s+8, %r6;\n"
            "st.global.u32 [%rd5+12], %r6;\nret;",
        in, sizeof(in), out);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(out[i][1], i * 1000 + 77);
        assert_int_equal(out[i][2], i < 16 ? i * 1000 - 1 + i + 5 : i * 1000 + 9);
        assert_int_equal(out[i][3], 8);
    }
}

EMULATOR_TEST(vectors_have_elements)
{
    uint32_t in[LANES][4], out[LANES][4];
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned k = 0; k < 4; k++)
            in[i][k] = 100 * i + k;
    run(e,
        OUT ".reg .v4 .b32 %v; .reg .v2 .b64 %w;\nld.global.v4.b32 %v, [%rd5];\n"
            "add.u32 %v.x, %v.y, %v.w;\nmov.b64 %w.y, {%v.z, %v.x};\nmov.b64 {%v.y, %v.z}, %w.y;\n"
            "setp.gt.u32 %p0, %v.x, 200;\n@%p0 mov.u32 %v.w, 5;\nst.global.v4.b32 [%rd5], {%v.x, "
            "%v.y, %v.z, %v.w};\nret;",
        in, sizeof(in), out);
    for (unsigned i = 0; i < LANES; i++) {
        const uint32_t sum = in[i][1] + in[i][3];
        const uint32_t wanted[] = { sum, in[i][2], sum, sum > 200 ? 5 : in[i][3] };
        assert_memory_equal(out[i], wanted, sizeof(wanted));
    }
}

EMULATOR_TEST(words_of_128_bits)
{
    uint64_t in[LANES][2], out[LANES][2];
    for (unsigned i = 0; i < LANES; i++) {
        in[i][0] = i * UINT64_C(0x123456789);
        in[i][1] = ~in[i][0];
    }
    // The halves change places, by 64 and by 32 bits, through shared memory.
    run(e,
        OUT ".reg .b128 %o<4>; .shared .align 16 .b128 s[32];\nld.global.b128 %o0, [%rd5];\n"
            "mov.u32 %r4, s; mad.lo.u32 %r4, %r0, 16, %r4;\nst.shared.b128 [%r4], %o0;\n"
            "ld.shared.b128 %o1, [%r4];\nmov.b128 {%rd6, %rd7}, %o1;\nmov.b128 %o2, {%rd7, %rd6};\n"
            "mov.b128 {%r5, %r6, %r7, %r8}, %o2;\nmov.b128 %o3, {%r5, %r6, %r7, %r8};\n"
            "st.release.gpu.global.b128 [%rd5], %o3;\nret;",
        in, sizeof(in), out);
    for (unsigned i = 0; i < LANES; i++) {
        assert_int_equal(out[i][0], in[i][1]);
        assert_int_equal(out[i][1], in[i][0]);
    }
}

// Each lane adds one to both halves of one word, by compare and swap; then one exchanges it.
EMULATOR_TEST(atomics_of_128_bits)
{
    e->config.host_threads = 3;
    e->grid = 8;
    e->target = ".version 8.8\n.target sm_90";
    const uint64_t at = emulator_zeros(e, 32);
    emulator_runs(e,
                  ".reg .b128 %o<4>;\nld.relaxed.gpu.global.b128 %o0, [%rd0];\n"
                  "AGAIN: mov.b128 {%rd4, %rd5}, %o0;\nadd.u64 %rd6, %rd4, 1;\n"
                  "add.u64 %rd7, %rd5, 1;\nmov.b128 %o1, {%rd6, %rd7};\n"
                  "atom.global.cas.b128 %o2, [%rd0], %o0, %o1;\n"
                  "mov.b128 {%rd6, %rd7}, %o2;\nmov.b128 %o0, %o2;\n"
                  "setp.ne.u64 %p1, %rd4, %rd6;\n@%p1 bra AGAIN;\n"
                  "setp.ne.u64 %p2, %rd6, %rd7;\n@%p2 trap;\nret;",
                  at, 0, 0);
    const uint64_t *words = emulator_at(e, at, 32);
    assert_int_equal(words[0], 8 * LANES);
    assert_int_equal(words[1], 8 * LANES);
    e->grid = 1;
    e->block = 1;
    emulator_runs(e,
                  ".reg .b128 %o<4>;\nmov.b128 %o0, {7, 9};\n"
                  "atom.acq_rel.gpu.global.exch.b128 %o1, [%rd0], %o0;\n"
                  "st.global.b128 [%rd0+16], %o1;\nret;",
                  at, 0, 0);
    words = emulator_at(e, at, 32);
    assert_int_equal(words[0], 7);
    assert_int_equal(words[1], 9);
    assert_int_equal(words[2], 8 * LANES);
    emulator_fails(e, ".reg .b128 %o<4>;\nld.global.b128 %o1, [%rd0+8];\nret;", at, 0, 0, 716,
                   "misaligned load of 16 bytes");
    emulator_fails(e, ".reg .b128 %o<4>;\nst.global.b128 [%rd0+32], %o1;\nret;", at, 0, 0, 700,
                   "out of bounds|store of 16 bytes");
}

EMULATOR_TEST(halves_of_vectors)
{
    uint32_t in[LANES][4] = { { 0x3c004000, 0x7e00bc00, 0, 0x80000000 } }, out[LANES][4];
    e->block = 1;
    // min with {1, -2} and {3, NaN}; then max of {-0} with {+0}.
    run(e,
        "mov.b32 %r4, 0xc0003c00; mov.b32 %r5, 0x7fff4200; mov.b32 %r7, 0;\n"
        "atom.global.min.noftz.v2.f16x2 {%r8, %r9}, [%rd0], {%r4, %r5};\n"
        "red.global.max.noftz.v2.f16x2 [%rd0+8], {%r7, %r7};\nret;",
        in, sizeof(in), out);
    assert_int_equal(out[0][0], 0xc0003c00);
    assert_int_equal(out[0][1], 0x7fffbc00);
    assert_int_equal(out[0][3], 0);
}

// Each lane takes as many words as its number, twice in a loop, and sums them.
EMULATOR_TEST(memory_from_the_stack)
{
    uint32_t in[LANES][4] = { { 0 } }, out[LANES][4];
    run(e,
        OUT
        "stacksave.u64 %rd10;\nmov.u32 %r9, 0;\nmov.u32 %r10, 0;\n"
        "MORE: add.u32 %r4, %r0, 1;\nmul.wide.u32 %rd6, %r4, 4;\nalloca.u64 %rd7, %rd6, 16;\n"
        "mov.u32 %r5, 0;\n"
        "FILL: mul.wide.u32 %rd8, %r5, 4;\nadd.u64 %rd8, %rd7, %rd8;\nst.local.u32 [%rd8], %r5;\n"
        "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, %r4;\n@%p1 bra FILL;\n"
        "cvta.local.u64 %rd9, %rd7;\nmov.u32 %r5, 0;\n"
        "SUM: mul.wide.u32 %rd8, %r5, 4;\nadd.u64 %rd8, %rd9, %rd8;\nld.u32 %r6, [%rd8];\n"
        "add.u32 %r9, %r9, %r6;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, %r4;\n@%p1 bra SUM;\n"
        "and.b64 %rd11, %rd7, 15;\ncvt.u32.u64 %r7, %rd11;\nadd.u32 %r9, %r9, %r7;\n"
        "stackrestore.u64 %rd10;\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, 1000;\n"
        "@%p1 bra MORE;\nst.global.u32 [%rd5], %r9;\nret;",
        in, sizeof(in), out);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(out[i][0], 1000 * i * (i + 1) / 2);
}

EMULATOR_TEST(the_stack_ends)
{
    e->target = ".version 8.8\n.target sm_90";
    emulator_fails(e, "MORE: alloca.u64 %rd7, 512;\nbra MORE;", 0, 0, 0, 714,
                   "alloca of 512 bytes|of the thread's 16384 are left");
    emulator_fails(e, "mov.u64 %rd7, 8;\nstackrestore.u64 %rd7;\nret;", 0, 0, 0, 714,
                   "which stacksave did not give");
    const uint64_t at = emulator_zeros(e, 4);
    e->block = 1;
    const int got = emulator_body(e,
                                  "alloca.u64 %rd7, 16;\nld.local.u32 %r4, [%rd7];\n"
                                  "add.u32 %r4, %r4, 1;\nst.global.u32 [%rd0], %r4;\nret;",
                                  at, 0, 0);
    emulator_expect_undefined(e, got, at, 4, "memory, never written");
}

EMULATOR_TEST(special_registers)
{
    uint32_t in[LANES][4] = { { 0 } }, out[LANES][4];
    run(e,
        OUT
        ".shared .b8 s[100];\nmov.u32 %r9, s;\nmov.u32 %r4, %aggr_smem_size;\n"
        "mov.u32 %r5, %reserved_smem_offset_end;\nmov.u64 %rd6, %current_graph_exec;\n"
        "cvt.u32.u64 %r6, %rd6;\nmov.pred %p1, %is_explicit_cluster;\nselp.u32 %r7, 1, 0, %p1;\n"
        "mov.u32 %r8, %pm3;\nadd.u32 %r7, %r7, %r8;\npmevent 3;\nfence.proxy.alias;\n"
        "st.mmio.relaxed.sys.global.u32 [%rd5], %r4;\nld.mmio.relaxed.sys.global.u32 %r4, [%rd5];\n"
        "st.global.v4.u32 [%rd5], {%r4, %r5, %r6, %r7};\nret;",
        in, sizeof(in), out);
    assert_int_equal(out[3][0], 100);
    assert_int_equal(out[3][1] | out[3][2] | out[3][3], 0);
    emulator_fails(e, "brkpt;\nret;", 0, 0, 0, 719, "no debugger is attached");
}

EMULATOR_TEST(wrong_metadata)
{
    e->target = ".version 8.8\n.target sm_90";
    emulator_fails(e,
                   "mov.u32 %r20, 0xeeee5eee;\nmov.f32 %f0, 0f00000000;\n"
                   "mov.u32 %r10, 0;\n"
                   "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f0, "
                   "%f0, %f0}, {%r10, %r10}, {%r10, %r10}, {%f0, %f0, %f0, %f0}, "
                   "%r20, 0;\nret;",
                   0, 0, 0, 715, "metadata 0xeeee5eee names the elements of row 0 of A wrongly");
}

// A function adds what its structure and its number have, by their addresses, and writes to both. A
// branch and a list of targets come after the copies.
EMULATOR_TEST(addresses_of_parameters)
{
    const uint64_t at = emulator_zeros(e, 8 * LANES);
    const uint64_t params[] = { at };
    e->target = "";
    emulator_load(
        e,
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".func (.param .b32 out) f(.param .align 8 .b8 s[24], .param .b32 n)\n{\n"
        ".reg .b64 %d<8>; .reg .b32 %r<8>; .reg .pred %p<4>;\n"
        "ld.param.u32 %r5, [n]; mov.u32 %r1, 0; mov.u64 %d1, s; mov.u64 %d2, n; add.u64 %d3, %d1, "
        "24;\n"
        "NEXT: ld.local.u32 %r2, [%d1]; st.local.u32 [%d1], 7; add.u32 %r1, %r1, %r2;\n"
        "add.u64 %d1, %d1, 4; setp.lt.u64 %p1, %d1, %d3; @%p1 bra NEXT;\n"
        "cvta.local.u64 %d4, %d2; ld.u32 %r3, [%d4]; st.u32 [%d4], 9; mov.u64 %d5, s+8;\n"
        "and.b32 %r4, %r3, 1; LIST: .branchtargets A, B; brx.idx %r4, LIST;\n"
        "A: add.u32 %r1, %r1, 1000;\n B: add.u32 %r1, %r1, %r3; ld.local.u32 %r6, [%d5];\n"
        "ld.local.u32 %r7, [%d2]; mad.lo.u32 %r1, %r6, %r7, %r1; st.param.b32 [out], %r1; ret;\n}\n"
        ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %d<8>; .reg .b32 %r<8>;\n"
        "ld.param.u64 %d0, [p0]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 8; add.u64 %d0, %d0, "
        "%d1;\n"
        ".param .align 8 .b8 a[24]; .param .b32 b; .param .b32 c;\n"
        "st.param.v2.b32 [a], {%r0, 1}; st.param.v2.b32 [a+8], {2, 3}; st.param.v2.b32 [a+16], {4, "
        "%r0};\n"
        "st.param.b32 [b], %r0; call (c), f, (a, b); ld.param.b32 %r2, [c]; st.global.u32 [%d0], "
        "%r2; ret;\n}\n");
    emulator_expect(e, emulator_run(e, params), 0, "");
    const uint32_t *got = emulator_at(e, at, 8 * LANES);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(got[2 * i], 2 * i + 10 + (i & 1 ? 0 : 1000) + i + 7 * 9);
}

// A structure of 300 bytes and two numbers are more than 255 registers.
EMULATOR_TEST(many_parameters)
{
    const uint64_t at = emulator_zeros(e, 8 * LANES);
    const uint64_t params[] = { at };
    emulator_load(
        e, ".version 8.0\n.target sm_90\n.address_size 64\n"
           ".func (.param .align 4 .b8 out[300]) f(.param .align 4 .b8 s[600], .param .b32 n)\n{\n"
           ".reg .b32 %r<8>;\nld.param.u32 %r1, [s+596]; ld.param.u32 %r2, [n]; add.u32 %r1, %r1, "
           "%r2;\n"
           "st.param.b32 [out+296], %r1; ret;\n}\n"
           ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %d<8>; .reg .b32 %r<8>;\n"
           "ld.param.u64 %d0, [p0]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 8; add.u64 %d0, "
           "%d0, %d1;\n"
           ".param .align 4 .b8 a[600]; .param .b32 b; .param .align 4 .b8 c[300];\n"
           "st.param.b32 [a+596], %r0; st.param.b32 [b], 40; call (c), f, (a, b);\n"
           "ld.param.b32 %r2, [c+296]; st.global.u32 [%d0], %r2; ret;\n}\n");
    emulator_expect(e, emulator_run(e, params), 0, "");
    const uint32_t *got = emulator_at(e, at, 8 * LANES);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(got[2 * i], i + 40);
}

// Eight calls are named, and the others counted.
EMULATOR_TEST(source_lines_of_many_calls)
{
    char text[2048] =
        ".version 8.0\n.target sm_90\n.address_size 64\n.file 1 \"/home/me/a.cu\"\n"
        ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %d<4>;\nld.param.u64 %d0, [p0];\n"
        ".loc 1 100 0\n";
    const uint64_t params[] = { emulator_zeros(e, 256) };

    for (unsigned k = 101; k <= 111; k++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 ".loc 1 %u 0, function_name $f, inlined_at 1 %u 0\n", k, k - 1);
    strcat(text, "st.global.u32 [%d0+4096], 1;\nret;\n}\n"
                 ".section .debug_str\n{\n$f:\n.b8 102, 0\n}\n");
    emulator_load(e, text);
    emulator_expect(e, emulator_run(e, params), 700,
                    "inlined at /home/me/a.cu:104, inlined at /home/me/a.cu:103, and 3 more (700");
}

// A report names the source line beside that of PTX, with the calls that the code was inlined into.
EMULATOR_TEST(source_lines)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".func f(.reg .b64 a)\n{\n.loc 1 5 1\nst.global.u32 [a], 1;\nret;\n}\n"
        ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .b64 %d<4>;\n.reg .b32 %r<4>;\n"
        ".shared .b32 s[64];\n"
        "ld.param.u64 %d0, [p0];\nld.param.u64 %d1, [p1];\n.reg .pred %p<4>;\n"
        "setp.eq.u64 %p0, %d1, 1;\nsetp.eq.u64 %p1, %d1, 2;\nsetp.eq.u64 %p2, %d1, 3;\n"
        ".loc 1 30 3\nmov.u32 %r1, %tid.x;\n"
        ".loc 1 40 5, function_name $L__info_string0, inlined_at 1 30 3\n"
        "@%p0 st.global.u32 [%d0+4096], %r1;\n"
        ".loc 2 7 9, function_name $L__info_string0+4, inlined_at 1 40 5\n"
        "@%p1 st.global.u32 [%d0+4096], %r1;\n"
        ".loc 1 50 1\nst.shared.u32 [s], %r1;\n.loc 1 51 1\n@%p2 ld.shared.u32 %r2, [s];\n"
        "@%p0 call f, (%d0);\nret;\n}\n"
        ".entry none(.param .u64 p0)\n{\n.reg .b64 %d<4>;\nld.param.u64 %d0, [p0];\n"
        "st.global.u32 [%d0+4096], 1;\nret;\n}\n"
        ".file 1 \"/home/me/a.cu\"\n.file 2 \"/home/me/b.h\", 1700000000, 99\n";
    const uint64_t at = emulator_zeros(e, 256);
    static const char *const words[] = {
        "PTX line 24: `@%p0 st.global.u32 [%d0+4096], %r1;`, from /home/me/a.cu:40, inlined at "
        "/home/me/a.cu:30 (700",
        "PTX line 26: `@%p1 st.global.u32 [%d0+4096], %r1;`, from /home/me/b.h:7, inlined at "
        "/home/me/a.cu:40, inlined at /home/me/a.cu:30 (700",
        "thread (0,0,0) at line 28 (/home/me/a.cu:50) have no barrier between them",
    };
    emulator_load(e, text);
    for (uint64_t k = 0; k < 3; k++) {
        const uint64_t params[] = { at, k + 1 };
        emulator_expect(e, emulator_run(e, params), k == 2 ? 719 : 700, words[k]);
    }
    const uint64_t params[] = { at, 0 };
    emulator_expect(e, emulator_run_entry(e, "none", params), 700,
                    "`st.global.u32 [%d0+4096], 1;` (700");
}

// SPDX-License-Identifier: MIT
// Calls by address, vector registers, and the grid barrier of cooperative groups: text of nvcc and
// single instructions, executed and compared with plain C.
#include "sample.h"

enum { LANES = 32 };

// ---- calls by address ---------------------------------------------------------------------------

static float applied(int which, float a, float b)
{
    return which == 0 ? a + b : which == 1 ? a * b : a - b;
}

static void fill(float *a, float *b, int *which)
{
    for (int i = 0; i < LANES; i++) {
        a[i] = (float)(i * 7 % 13) - 3;
        b[i] = (float)i * 0.5f + 1;
        which[i] = i % 3;
    }
}

EMULATOR_TEST(by_table)
{
    float a[LANES], b[LANES];
    int which[LANES];
    fill(a, b, which);
    load_sample(e, "pointers");
    initialise(e);
    const uint64_t out = emulator_zeros(e, sizeof a);
    const uint64_t params[] = { emulator_upload(e, a, sizeof a), emulator_upload(e, b, sizeof b),
                                emulator_upload(e, which, sizeof which), out };
    emulator_expect(e, emulator_run_entry(e, "by_table", params), 0, "");
    const float *got = emulator_at(e, out, sizeof a);
    for (int i = 0; i < LANES; i++)
        assert_true(got[i] == applied(which[i], a[i], b[i]));
}

EMULATOR_TEST(by_class)
{
    int in[LANES];
    for (int i = 0; i < LANES; i++)
        in[i] = 5 * i - 11;
    load_sample(e, "pointers");
    initialise(e);
    const uint64_t out = emulator_zeros(e, sizeof in);
    const uint64_t params[] = { emulator_upload(e, in, sizeof in), out };
    emulator_expect(e, emulator_run_entry(e, "by_class", params), 0, "");
    const int *got = emulator_at(e, out, sizeof in);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(got[i], i & 1 ? 9 + in[i] : 100 * in[i]);
}

// A pointer that one launch stores is an argument of the next.
EMULATOR_TEST(by_address_from_the_host)
{
    float a[LANES], b[LANES];
    int which[LANES];
    fill(a, b, which);
    load_sample(e, "pointers");
    initialise(e);
    const uint64_t pointer = emulator_zeros(e, 8), out = emulator_zeros(e, sizeof a);
    const uint64_t in[] = { emulator_upload(e, a, sizeof a), emulator_upload(e, b, sizeof b) };
    for (int second = 0; second < 2; second++) {
        const uint64_t ask[] = { pointer, (uint64_t)second };
        emulator_expect(e, emulator_run_entry(e, "address_of", ask), 0, "");
        const uint64_t params[] = { in[0], in[1], *(uint64_t *)emulator_at(e, pointer, 8), out };
        assert_true(params[2] != 0);
        emulator_expect(e, emulator_run_entry(e, "by_address", params), 0, "");
        const float *got = emulator_at(e, out, sizeof a);
        for (int i = 0; i < LANES; i++)
            assert_true(got[i] == applied(second, a[i], b[i]));
    }
}

EMULATOR_TEST(addresses_of_no_function)
{
    static const int64_t off[] = { 8, 1, 1 << 20, -8 };
    float a[LANES] = { 0 };
    load_sample(e, "pointers");
    initialise(e);
    const uint64_t pointer = emulator_zeros(e, 8), ask[] = { pointer, 0 };
    emulator_expect(e, emulator_run_entry(e, "address_of", ask), 0, "");
    const uint64_t right = *(uint64_t *)emulator_at(e, pointer, 8);
    uint64_t params[] = { emulator_upload(e, a, sizeof a), emulator_upload(e, a, sizeof a), 0,
                          emulator_zeros(e, sizeof a) };
    emulator_expect(e, emulator_run_entry(e, "by_address", params), 715,
                    "call of 0x0, which is no function of this module|PTX line");
    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        params[2] = right + (uint64_t)off[k];
        emulator_expect(e, emulator_run_entry(e, "by_address", params), 715,
                        "which is no function of this module");
    }
}

#define MODULE ".version 8.1\n.target sm_90\n.address_size 64\n"

// The functions differ in their parameters, and one of them is another's alias.
static const char functions[] =
    MODULE ".func (.reg .b32 o) f(.reg .b32 i) { add.u32 o, i, 1; ret; }\n"
           ".func (.reg .b32 o) g(.reg .b32 i) { mul.lo.u32 o, i, 10; ret; }\n"
           ".func (.reg .b32 o) wide(.reg .b64 i) { cvt.u32.u64 o, i; ret; }\n"
           ".func (.reg .b32 o) two(.reg .b32 i, .reg .b32 j) { add.u32 o, i, j; ret; }\n"
           ".func (.reg .b32 o) same(.reg .b32 i);\n"
           ".alias same, g;\n"
           ".global .u64 fs[3] = { f, g, same };\n"
           ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n"
           ".reg .b32 r<4>; .reg .b64 d<6>; .reg .pred p;\n"
           "ld.param.u64 d0, [p0]; ld.param.u64 d1, [p1]; mov.u32 r0, %%tid.x;\n%s\n"
           "mad.wide.u32 d0, r0, 4, d0; st.global.u32 [d0], r1; ret;\n}\n";

static int run_functions(struct emulator *e, const char *body, uint64_t out, uint64_t p1)
{
    static char text[8192];
    const uint64_t params[] = { out, p1 };
    snprintf(text, sizeof text, functions, body);
    emulator_load(e, text);
    initialise(e);
    return emulator_run(e, params);
}

EMULATOR_TEST(lists_of_functions)
{
    static const char *const bodies[] = {
        "T: .calltargets f, g; setp.gt.u32 p, r0, 9; mov.u64 d2, f; mov.u64 d3, g;\n"
        "selp.b64 d2, d3, d2, p; call (r1), d2, (r0), T;",
        "and.b32 r2, r0, 1; mov.u64 d2, fs; mad.wide.u32 d2, r2, 8, d2; ld.global.u64 d2, [d2];\n"
        "call (r1), d2, (r0), fs;",
        "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d2, same;\n"
        "mov.u32 r1, 7; setp.lt.u32 p, r0, 4; @p call (r1), d2, (r0), P;",
        "P: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b32 _); mov.b64 d2, two;\n"
        "call (r1), d2, (r0, 3), P;",
    };
    const uint64_t out = emulator_zeros(e, 4 * LANES);
    for (unsigned k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        emulator_expect(e, run_functions(e, bodies[k], out, 0), 0, "");
        const uint32_t *got = emulator_at(e, out, 4 * LANES);
        for (uint32_t i = 0; i < LANES; i++) {
            const uint32_t expected[] = { i > 9 ? 10 * i : i + 1, i & 1 ? 10 * i : i + 1,
                                          i < 4 ? 10 * i : 7, i + 3 };
            assert_int_equal(got[i], expected[k]);
        }
    }
}

EMULATOR_TEST(wrong_calls_by_address)
{
    static const struct {
        const char *body, *words;
        int result;
    } cases[] = {
        { "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d2, wide;\n"
          "call (r1), d2, (r0), P;",
          "call of wide with parameters that it does not have", 715 },
        { "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d2, two;\n"
          "call (r1), d2, (r0), P;",
          "call of two with parameters that it does not have", 715 },
        { "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d2, k;\n"
          "call (r1), d2, (r0), P;",
          "which is no function", 715 },
        { "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d3, f;\n"
          "call (r1), d2, (r0), P;",
          "uninitialised value decides a branch target|register d2", 719 },
        { "P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u64 d2, f; mov.u64 d3, 0;\n"
          "setp.eq.u32 p, r0, 5; selp.b64 d2, d3, d2, p; call (r1), d2, (r0), P;",
          "call of 0x0|thread (5,0,0)", 715 },
    };
    const uint64_t out = emulator_zeros(e, 4 * LANES);
    for (unsigned k = 0; k < sizeof cases / sizeof *cases; k++)
        emulator_expect(e, run_functions(e, cases[k].body, out, 0), cases[k].result,
                        cases[k].words);
}

// ---- vector registers ---------------------------------------------------------------------------

EMULATOR_TEST(vector_registers)
{
    uint32_t in[4 * LANES];
    for (uint32_t i = 0; i < 4 * LANES; i++)
        in[i] = i * 2654435761u;
    const uint64_t out = emulator_zeros(e, sizeof in);
    const char *body = ".reg .v4 .b32 v, w<3>; .reg .v2 .b64 d; .reg .v4 .u32 at;\n"
                       "mov.v4.u32 at, %tid;\n"
                       "shl.b32 at.y, at.x, 4; cvt.u64.u32 %rd4, at.y;\n"
                       "add.u64 d.x, %rd0, %rd4; add.u64 d.y, %rd1, %rd4;\n"
                       "mov.b64 %rd5, d.x; ld.global.v4.b32 v, [%rd5];\n"
                       "mov.v4.b32 {v.x, v.y, v.z, v.w}, {v.w, v.x, v.y, v.z};\n"
                       "mov.v4.u32 w2, v;\n"
                       "add.u32 w2.g, w2.g, at.w; xor.b32 w2.a, w2.a, at.x;\n"
                       "mov.b64 %rd6, d.y; st.global.v4.b32 [%rd6], w2; ret;";
    emulator_runs(e, body, emulator_upload(e, in, sizeof in), out, 0);
    const uint32_t *got = emulator_at(e, out, sizeof in);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(got[4 * i], in[4 * i + 3]);
        assert_int_equal(got[4 * i + 1], in[4 * i]);
        assert_int_equal(got[4 * i + 2], in[4 * i + 1]);
        assert_int_equal(got[4 * i + 3], in[4 * i + 2] ^ i);
    }
}

// Only the elements that were written are defined.
EMULATOR_TEST(undefined_elements)
{
    const uint64_t out = emulator_zeros(e, 8);
    const char *body = ".reg .v2 .b32 v, w; mov.b32 v.x, 5; mov.v2.b32 w, v;\n"
                       "add.u32 w.%s, w.%s, 1; st.global.u32 [%%rd0], w.%s; ret;";
    char text[512];
    snprintf(text, sizeof text, body, "x", "x", "x");
    emulator_expect_fine(e, emulator_body(e, text, out, 0, 0), out, 8);
    assert_int_equal(*(uint32_t *)emulator_at(e, out, 4), 6);
    snprintf(text, sizeof text, body, "y", "y", "y");
    emulator_expect_undefined(e, emulator_body(e, text, out, 0, 0), out, 8, "register v.y");
}

// ---- parameters of functions --------------------------------------------------------------------

// A thread's number is in r0; what is in r1 to r4 goes to the output.
static const uint32_t *run_with(struct emulator *e, const char *functions_text, const char *body)
{
    static char text[8192];
    const uint64_t out = emulator_zeros(e, 16 * LANES), params[] = { out };
    snprintf(text, sizeof text,
             ".version 8.5\n.target sm_90\n.address_size 64\n%s\n"
             ".visible .entry k(.param .u64 p0)\n{\n"
             ".reg .b32 r<9>; .reg .f32 f<3>; .reg .b64 d<6>;\n"
             "ld.param.u64 d0, [p0]; mov.u32 r0, %%tid.x; mad.wide.u32 d0, r0, 16, d0;\n"
             "mov.b32 r1, 0; mov.b32 r2, 0; mov.b32 r3, 0; mov.b32 r4, 0;\n%s\n"
             "st.global.v4.u32 [d0], {r1, r2, r3, r4}; ret;\n}\n",
             functions_text, body);
    emulator_load(e, text);
    initialise(e);
    emulator_expect(e, emulator_run(e, params), 0, "");
    return emulator_at(e, out, 16 * LANES);
}

// A result is written by its name, under guards and in a loop, and through its address, before two
// returns.
EMULATOR_TEST(results_by_address)
{
    const uint32_t *got = run_with(
        e,
        ".func (.param .align 8 .b8 q[16]) f (.param .b32 n)\n{\n"
        ".reg .b32 r<5>; .reg .b64 d<3>; .reg .pred p;\n"
        "ld.param.u32 r1, [n]; st.param.b32 [q], r1; st.param.b32 [q+12], 9;\n"
        "mov.u64 d1, q; add.u32 r2, r1, 100; st.local.u32 [d1+4], r2;\n"
        "cvta.local.u64 d2, d1; st.u32 [d2+8], 7; setp.lt.u32 p, r1, 8; @p ret;\n"
        "NEXT: ld.param.u32 r3, [d1]; add.u32 r3, r3, 3; st.param.b32 [d1], r3;\n"
        "sub.u32 r1, r1, 5; setp.ge.u32 p, r1, 5; @p bra NEXT;\n"
        "and.b32 r4, r1, 1; setp.eq.u32 p, r4, 1; @p st.param.b32 [q+12], r1; ret;\n}\n",
        ".param .b32 n; .param .align 8 .b8 q[16]; st.param.b32 [n], r0; call (q), f, (n);\n"
        "ld.param.v4.b32 {r1, r2, r3, r4}, [q];");
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t first = i, last = 9, left = i;
        for (bool again = i >= 8; again; again = left >= 5) {
            first += 3;
            left -= 5;
        }
        last = i >= 8 && left & 1 ? left : last;
        const uint32_t expected[] = { first, i + 100, 7, last };
        assert_memory_equal(got + (size_t)4 * i, expected, sizeof expected);
    }
}

// Another function writes the result; the address of an input is read as a parameter.
EMULATOR_TEST(addresses_are_passed_on)
{
    const uint32_t *got = run_with(
        e,
        ".func set (.reg .b64 at, .reg .b32 x) { st.u32 [at], x; ret; }\n"
        ".func (.param .b32 q) f (.param .b32 x[3])\n{\n.reg .b32 r<3>; .reg .b64 d<3>;\n"
        "mov.u64 d1, q; cvta.local.u64 d1, d1; mov.u64 d2, x[1]; ld.param.u32 r1, [d2];\n"
        "ld.param.u32 r2, x[2]; mad.lo.u32 r1, r1, 1000, r2; call set, (d1, r1); ret;\n}\n",
        ".param .b32 a[3]; .param .b32 q; st.param.u32 [a], 5; st.param.u32 a[1], r0;\n"
        "st.param.u32 a[2], 17; call (q), f, (a); ld.param.u32 r1, [q];");
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(got[4 * i], 1000 * i + 17);
}

EMULATOR_TEST(parts_of_parameters)
{
    const uint32_t *got = run_with(
        e,
        ".func (.param .b64 q) f (.param .b128 x)\n{\n.reg .b32 r<3>; .reg .b64 d<3>;\n"
        "ld.param.ca.v2.b64 {d1, d2}, [x]; cvt.u32.u64 r1, d1; cvt.u32.u64 r2, d2;\n"
        "st.param.v2.b32 [q], {r1, r2}; st.param.b16 [q+2], r2; st.param.wb.b8 [q+7], 0xab;\n"
        "ret;\n}\n",
        ".param .b128 a; .param .b64 q; mul.wide.u32 d1, r0, 3; mul.wide.u32 d2, r0, 70001;\n"
        "st.param.v2.b64 [a], {d1, d2}; call (q), f, (a); ld.param.v2.b32 {r1, r2}, [q];\n"
        "ld.param.u16 r3, [q+2]; ld.param.s8 r4, [q+7];");
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t other = i * 70001;
        const uint32_t expected[] = { (i * 3 & 0xffff) | other << 16,
                                      (other & 0xffffff) | 0xab000000, other & 0xffff, 0xffffffab };
        assert_memory_equal(got + (size_t)4 * i, expected, sizeof expected);
    }
}

// Vector registers, '_', and constants of the parameter's type.
EMULATOR_TEST(registers_of_calls)
{
    const uint32_t *got = run_with(
        e,
        ".func (.reg .v2 .b32 q, .reg .f32 g) f (.reg .v2 .b32 x, .reg .f32 y, .reg .f64 z)\n{\n"
        ".reg .f32 t; add.u32 q.x, x.y, 5; add.u32 q.y, x.x, 9; cvt.rn.f32.f64 t, z;\n"
        "fma.rn.f32 g, y, t, 1.0; ret;\n}\n",
        ".reg .v2 .b32 v; mov.v2.b32 v, {r0, 40}; call (_, f1), f, (v, 1.5, 0d4008000000000000);\n"
        "cvt.rzi.u32.f32 r3, f1; call (v, _), f, (v, 0f3f800000, 1.0); mov.v2.b32 {r1, r2}, v;\n"
        "mov.u32 r4, WARP_SZ;");
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t expected[] = { 45, i + 9, 5, 32 };
        assert_memory_equal(got + (size_t)4 * i, expected, sizeof expected);
    }
}

// What a path does not write stays undefined, by name and by address.
EMULATOR_TEST(undefined_results)
{
    static const char function[] =
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        ".func (.param .b32 q) f (.param .b32 x)\n{\n.reg .b32 r; .reg .b64 d; .reg .pred p;\n"
        "ld.param.u32 r, [x]; mov.u64 d, q; setp.eq.u32 p, r, 3; @!p st.local.u32 [d], r; ret;\n}\n"
        ".visible .entry k(.param .u64 p0)\n{\n.reg .b32 r<3>; .reg .b64 d;\n"
        "ld.param.u64 d, [p0]; mov.u32 r1, %tid.x; mad.wide.u32 d, r1, 4, d; call (r2), f, (r1);\n"
        "add.u32 r2, r2, 1; st.global.u32 [d], r2; ret;\n}\n";
    const uint64_t out = emulator_zeros(e, 4 * LANES), params[] = { out };
    emulator_load(e, function);
    initialise(e);
    const int result = emulator_run(e, params);
    emulator_expect_undefined(e, result, out + 12, 4, "memory, never written, read at line 7");
}

// ---- the grid barrier ---------------------------------------------------------------------------

enum { BLOCKS = 7, COUNT = 1000 };

EMULATOR_TEST(grid_sync)
{
    int in[COUNT];
    for (int i = 0; i < COUNT; i++)
        in[i] = i * i;
    load_sample(e, "grid_sync");
    e->grid = BLOCKS;
    e->block = 64;
    e->cooperative = true;
    for (uint64_t seed = 0; seed < 4; seed++) {
        e->config.seed = seed;
        e->config.host_threads = 1 + (unsigned)seed % 2;
        const uint64_t out = emulator_zeros(e, sizeof in);
        const uint64_t params[] = { emulator_upload(e, in, sizeof in), emulator_alloc(e, sizeof in),
                                    out, COUNT };
        emulator_expect(e, emulator_run_entry(e, "reversed", params), 0, "");
        const int *got = emulator_at(e, out, sizeof in);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], 2 * in[COUNT - 1 - i] + BLOCKS);
    }
}

EMULATOR_TEST(grid_sync_in_halves)
{
    load_sample(e, "grid_sync");
    e->grid = BLOCKS;
    e->cooperative = true;
    const uint64_t sums = emulator_zeros(e, 4 * BLOCKS), out = emulator_zeros(e, 4 * BLOCKS);
    const uint64_t params[] = { sums, out, 9 };
    emulator_expect(e, emulator_run_entry(e, "in_halves", params), 0, "");
    const int *got = emulator_at(e, out, 4 * BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(got[i], 9 * ((i + 1) % BLOCKS + 1));
}

// The workspace goes back after the launch; without a cooperative launch there is none, and the
// code of cooperative groups traps.
EMULATOR_TEST(workspace)
{
    uint64_t before, after, total;
    load_sample(e, "grid_sync");
    const uint64_t sums = emulator_zeros(e, 4), out = emulator_zeros(e, 4);
    const uint64_t params[] = { sums, out, 1 };
    emulator_expect(e, emulator_run_entry(e, "in_halves", params), 719, "trap");
    e->cooperative = true;
    emu_memory_info(e->memory, &before, &total);
    emulator_expect(e, emulator_run_entry(e, "in_halves", params), 0, "");
    emu_memory_info(e->memory, &after, &total);
    assert_true(before == after);
}

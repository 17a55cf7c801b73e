// SPDX-License-Identifier: MIT
// Results of PTX texts in kernels: operands of each kind, scopes, labels, loops, functions and
// variables of the module. Compared with plain C. On a GPU if there is one, and on the emulator in
// CI. docs/asm.md shows dot() and reduce().
#include "rows.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64 };

static struct rows rows;

static ptx_val dot(ptx_builder *b, ptx_val x, ptx_val y, ptx_val sum)
{
    return ptx_asm(b, "dp2a.lo.u32.u32 %0, %1, %2, %3;", .result = { PTX_U32 }, .in = { x, y, sum },
                   .isa = 60, .sm = 70, .pure = true);
}

static uint32_t expect_dot(uint32_t t)
{
    const uint32_t x = 0x10003 * t, y = t * 77;
    return (x & 0xffff) * (y & 0xff) + (x >> 16) * (y >> 8 & 0xff) + 5;
}

static ptx_val emit_dot(ptx_builder *b, ptx_val t)
{
    return dot(b, ptx_mul(b, t, 0x10003), ptx_mul(b, t, 77), ptx_u32(5));
}

// v mod n, for v below 2 n.
static void reduce(ptx_builder *b, ptx_val v, ptx_val n)
{
    ptx_asm(b,
            "{\n"
            "    .reg .pred small;\n"
            "    setp.lt.u32 small, %0, %1;\n"
            "    @small bra done;\n"
            "    sub.u32 %0, %0, %1;\n"
            "done:\n"
            "}",
            .inout = { v }, .in = { n }, .pure = true);
}

// In a loop, and in both branches of an if: scopes and labels do not meet.
static ptx_val emit_scopes(ptx_builder *b, ptx_val t)
{
    ptx_val v = ptx_var(b, t);

    ptx_for (b, i, 0, ptx_add(b, t, 1), 1) {
        ptx_if (b, ptx_lt(b, i, 9)) {
            ptx_set(b, v, ptx_add(b, v, i));
            reduce(b, v, ptx_u32(70));
        }
        ptx_else (b) {
            ptx_set(b, v, ptx_add(b, v, 50));
            reduce(b, v, ptx_u32(61));
            ptx_asm(b, "@%1 bra over_%=; add.u32 %0, %0, 3; over_%=:", .inout = { v },
                    .in = { ptx_gt(b, v, 30) });
        }
    }
    return v;
}

static uint32_t expect_scopes(uint32_t t)
{
    uint32_t v = t;

    for (uint32_t i = 0; i < t + 1; i++) {
        v += i < 9 ? i : 50;
        v -= i < 9 ? v < 70 ? 0 : 70 : v < 61 ? 0 : 61;
        v += i < 9 || v > 30 ? 0 : 3;
    }
    return v;
}

// Two results, of which one is a predicate; a warp that executes together.
static ptx_val emit_shuffle(ptx_builder *b, ptx_val t)
{
    ptx_val out[2];

    ptx_asm_many(b, out, "shfl.sync.down.b32 %0|%1, %2, 5, 31, -1;",
                 .result = { PTX_U32, PTX_PRED }, .in = { ptx_mul(b, t, 3) });
    return ptx_select(b, out[1], out[0], ptx_u32(1000));
}

static uint32_t expect_shuffle(uint32_t t)
{
    return t % 32 + 5 < 32 ? 3 * (t + 5) : 1000;
}

// Every class of registers, as result and as input.
static ptx_val emit_classes(ptx_builder *b, ptx_val t)
{
    ptx_val r[6];

    ptx_asm_many(b, r,
                 "cvt.rn.f64.u32 %0, %6; cvt.rn.f32.u32 %1, %6; cvt.u64.u32 %2, %6;\n"
                 "cvt.u16.u32 %3, %6; cvt.rn.f16.u32 %4, %6; setp.gt.u32 %5, %6, 31;",
                 .result = { PTX_F64, PTX_F32, PTX_U64, PTX_U16, PTX_F16, PTX_PRED }, .in = { t },
                 .pure = true);
    return ptx_asm(b,
                   "{\n"
                   "    .reg .f64 d; .reg .f32 f; .reg .b32 x; .reg .b64 l;\n"
                   "    cvt.f64.f32 d, %2;       add.rn.f64 d, d, %1;\n"
                   "    cvt.rzi.u32.f64 %0, d;   cvt.u32.u64 x, %3;\n"
                   "    mad.lo.u32 %0, x, 4, %0; cvt.u32.u16 x, %4;\n"
                   "    mad.lo.u32 %0, x, 8, %0; cvt.f32.f16 f, %5;\n"
                   "    cvt.rzi.u32.f32 x, f;    mad.lo.u32 %0, x, %7, %0;\n"
                   "    @%6 add.u32 %0, %0, 7;\n"
                   "}",
                   .result = { PTX_U32 }, .in = { r[0], r[1], r[2], r[3], r[4], r[5], ptx_u32(16) },
                   .pure = true);
}

static uint32_t expect_classes(uint32_t t)
{
    return t * (1 + 1 + 4 + 8 + 16) + (t > 31 ? 7 : 0);
}

// Addresses with constant offsets, in shared memory; a special register.
static ptx_val emit_addresses(ptx_builder *b, ptx_val t)
{
    ptx_ptr words = ptx_shared(b, PTX_U32, THREADS + 4);

    ptx_asm(b, "st.shared.u32 [%1], %0;", .in = { ptx_mul(b, t, 7) },
            .at = { ptx_at(b, ptx_at(b, words, t), 4) }, .reads = PTX_MEMORY_NONE,
            .writes = PTX_MEMORY_SHARED);
    ptx_asm(b, "bar.sync 0;");
    ptx_val first = ptx_asm(b, "ld.shared.u32 %0, [%1];", .result = { PTX_U32 },
                            .at = { ptx_at(b, words, 9) }, .writes = PTX_MEMORY_NONE);
    ptx_val lane = ptx_asm(b, "mov.u32 %0, %%laneid;", .result = { PTX_U32 });
    return ptx_add(b, first, lane);
}

static uint32_t expect_addresses(uint32_t t)
{
    return 5 * 7 + t % 32;
}

// A function and a table of the module.
static ptx_val emit_module(ptx_builder *b, ptx_val t)
{
    ptx_asm_module(b,
                   ".const .align 4 .u32 primes[4] = { 2, 3, 5, 7 };\n"
                   ".global .align 8 .u64 seen;\n"
                   ".func (.reg .b32 r) cube(.reg .b32 x)\n"
                   "{\n"
                   "    .reg .b32 t;\n"
                   "    mul.lo.u32 t, x, x;\n"
                   "    mul.lo.u32 r, t, x;\n"
                   "    ret;\n"
                   "}",
                   .declares = { "primes", "seen", "cube" });
    ptx_ptr primes = ptx_asm_ptr(b, PTX_U32, PTX_SPACE_CONST, "primes");
    ptx_ptr seen = ptx_asm_ptr(b, PTX_U32, PTX_SPACE_GLOBAL, "seen");
    ptx_val prime = ptx_load(b, primes, ptx_and(b, t, 3));
    ptx_val cube = ptx_asm(b, "call (%0), cube, (%1);", .result = { PTX_U32 }, .in = { t });

    ptx_asm(b, "red.global.add.u32 [seen], 1;");
    ptx_barrier(b);
    return ptx_add(b, ptx_mul(b, cube, prime), ptx_load(b, seen, 0));
}

static uint32_t expect_module(uint32_t t)
{
    static const uint32_t primes[] = { 2, 3, 5, 7 };
    return t * t * t * primes[t & 3] + THREADS;
}

static const struct {
    const char *name;
    ptx_val (*emit)(ptx_builder *b, ptx_val t);
    uint32_t (*expect)(uint32_t t);
} texts[] = {
    { "asm, an instruction", emit_dot, expect_dot },
    { "asm, scopes and labels", emit_scopes, expect_scopes },
    { "asm, several results", emit_shuffle, expect_shuffle },
    { "asm, classes of registers", emit_classes, expect_classes },
    { "asm, addresses", emit_addresses, expect_addresses },
    { "asm, the module", emit_module, expect_module },
};

static void emit_text(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    (void)in;
    rows_store_result(b, out, texts[row->c.what].emit(b, ptx_tid(b, PTX_X)));
}

static void expect_text(struct rows *r, const struct row *row)
{
    for (uint32_t t = 0; t < THREADS; t++)
        rows_put(r->want + 8 * t, 4, 0, texts[row->c.what].expect(t));
}

TEST(results_of_texts)
{
    static const struct row_test test = { emit_text, expect_text, NULL };
    enum { TEXTS = sizeof texts / sizeof *texts };
    static struct row list[TEXTS];

    for (unsigned k = 0; k < TEXTS; k++) {
        list[k] = (struct row) { .c = { .kind = CASE_WARP, .what = k }, .threads = THREADS };
        snprintf(list[k].name, sizeof list->name, "%s", texts[k].name);
    }
    rows_run(&rows, &test, list, TEXTS);
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}

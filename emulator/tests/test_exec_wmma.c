// SPDX-License-Identifier: MIT
// wmma: D = 2 A B + C in every shape and type that the emulator runs, compared with sums of
// integers, and the reports of texts that use it wrongly.
#include "fixture.h"
#include "reference/half.h"

enum element { IS_F16, IS_BF16, IS_F32, IS_S8, IS_U8, IS_S32 };

static const struct kernel {
    const char *name;
    unsigned m, n, k;
    enum element factor, sum;
    bool a_rows, b_rows;
} kernels[] = {
    { "half_float_16_16", 16, 16, 16, IS_F16, IS_F32, true, false },
    { "half_float_8_32", 8, 32, 16, IS_F16, IS_F32, false, true },
    { "half_float_32_8", 32, 8, 16, IS_F16, IS_F32, true, true },
    { "half_half_16_16", 16, 16, 16, IS_F16, IS_F16, true, false },
    { "half_half_8_32", 8, 32, 16, IS_F16, IS_F16, false, true },
    { "half_half_32_8", 32, 8, 16, IS_F16, IS_F16, true, true },
    { "bf16_float_16_16", 16, 16, 16, IS_BF16, IS_F32, true, false },
    { "bf16_float_8_32", 8, 32, 16, IS_BF16, IS_F32, false, true },
    { "bf16_float_32_8", 32, 8, 16, IS_BF16, IS_F32, true, true },
    { "s8_int_16_16", 16, 16, 16, IS_S8, IS_S32, true, false },
    { "s8_int_8_32", 8, 32, 16, IS_S8, IS_S32, false, true },
    { "s8_int_32_8", 32, 8, 16, IS_S8, IS_S32, true, true },
    { "u8_int_16_16", 16, 16, 16, IS_U8, IS_S32, true, false },
    { "u8_int_8_32", 8, 32, 16, IS_U8, IS_S32, false, true },
    { "u8_int_32_8", 32, 8, 16, IS_U8, IS_S32, true, true },
    { "tf32_float", 16, 16, 8, IS_F32, IS_F32, false, false },
};

static unsigned bytes_of(enum element type)
{
    return type == IS_F32 || type == IS_S32 ? 4 : type == IS_S8 || type == IS_U8 ? 1 : 2;
}

static void put(unsigned char *to, enum element type, unsigned i, int value)
{
    const uint32_t bits = type == IS_F16    ? f16_from_f64(value)
                          : type == IS_BF16 ? bf16_from_f64(value)
                          : type == IS_F32  ? bits_of_f32((float)value)
                                            : (uint32_t)value;
    memcpy(to + i * bytes_of(type), &bits, bytes_of(type));
}

static int get(const unsigned char *from, enum element type, unsigned i)
{
    uint32_t bits = 0;
    memcpy(&bits, from + i * bytes_of(type), bytes_of(type));
    return type == IS_F16   ? (int)f16_to_f64((uint16_t)bits)
           : type == IS_F32 ? (int)f32_of_bits(bits)
                            : (int)bits;
}

enum { BLOCKS = 3, MOST = 32 * 16 * BLOCKS };

static int value_of(const struct kernel *k, unsigned matrix, unsigned block, unsigned row,
                    unsigned column)
{
    const unsigned x = (matrix * 977 + block * 131 + row * 37 + column * 11) * 2654435761u >> 13;
    return k->factor == IS_U8 ? (int)(x % 200) : (int)(x % 7) - 3;
}

static unsigned place(unsigned row, unsigned column, unsigned rows, unsigned columns, bool by_row)
{
    return by_row ? row * columns + column : column * rows + row;
}

static void run_kernel(struct emulator *e, const struct kernel *k, bool columns)
{
    static unsigned char a[4 * MOST], b[4 * MOST], c[4 * MOST];
    const unsigned ma = k->m * k->k, mb = k->k * k->n, mc = k->m * k->n;
    for (unsigned block = 0; block < BLOCKS; block++) {
        for (unsigned i = 0; i < k->m; i++)
            for (unsigned j = 0; j < k->k; j++)
                put(a, k->factor, block * ma + place(i, j, k->m, k->k, k->a_rows),
                    value_of(k, 0, block, i, j));
        for (unsigned i = 0; i < k->k; i++)
            for (unsigned j = 0; j < k->n; j++)
                put(b, k->factor, block * mb + place(i, j, k->k, k->n, k->b_rows),
                    value_of(k, 1, block, i, j));
        for (unsigned i = 0; i < k->m; i++)
            for (unsigned j = 0; j < k->n; j++)
                put(c, k->sum, block * mc + place(i, j, k->m, k->n, !columns),
                    value_of(k, 2, block, i, j));
    }
    const unsigned bytes = BLOCKS * mc * bytes_of(k->sum);
    const uint64_t out = emulator_alloc(e, bytes);
    const uint64_t params[] = { emulator_upload(e, a, BLOCKS * ma * bytes_of(k->factor)),
                                emulator_upload(e, b, BLOCKS * mb * bytes_of(k->factor)),
                                emulator_upload(e, c, bytes), out, columns };
    emulator_expect_fine(e, emulator_run_entry(e, k->name, params), out, bytes);
    const unsigned char *got = emulator_at(e, out, bytes);
    for (unsigned block = 0; block < BLOCKS; block++)
        for (unsigned i = 0; i < k->m; i++)
            for (unsigned j = 0; j < k->n; j++) {
                int sum = value_of(k, 2, block, i, j);
                for (unsigned n = 0; n < k->k; n++)
                    sum += 2 * value_of(k, 0, block, i, n) * value_of(k, 1, block, n, j);
                if (get(got, k->sum, block * mc + place(i, j, k->m, k->n, !columns)) != sum)
                    fail_msg("%s, row %u, column %u: %d, not %d", k->name, i, j,
                             get(got, k->sum, block * mc + place(i, j, k->m, k->n, !columns)), sum);
            }
}

// ---- the text of a kernel: A through shared memory, B from global memory, both layouts of C and D

static const char *const type_names[] = { "f16", "bf16", "f32", "s8", "u8", "s32" };

static char text[16384];
static size_t used;

static void write(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    assert_true(used < sizeof text);
}

/// "{%a0, %a1, ...}"
static const char *registers(const char *name, unsigned count)
{
    static char all[4][128];
    static unsigned next;
    char *list = all[next++ % 4];
    size_t length = 0;
    for (unsigned k = 0; k < count; k++)
        length += (size_t)snprintf(list + length, sizeof *all - length, "%s%%%s%u", k ? ", " : "{",
                                   name, k);
    snprintf(list + length, sizeof *all - length, "}");
    return list;
}

/// Registers of a factor with this many rows of A or columns of B.
static unsigned factor_count(const struct kernel *k, unsigned side)
{
    return k->factor == IS_F16   ? 8
           : k->factor == IS_F32 ? 4
                                 : side * 16 * bytes_of(k->factor) / 128;
}

static void write_sum(const struct kernel *k, const char *shape, bool columns)
{
    const unsigned count = k->sum == IS_F16 ? 4 : 8, stride = columns ? k->m : k->n;
    const char *layout = columns ? "col" : "row", *type = type_names[k->sum];
    const char *label = columns ? "columns" : "rows";
    write("%s:\n", label);
    write("wmma.load.c.sync.aligned.%s.%s.global.%s %s, [%%rd2], %u;\n", layout, shape, type,
          registers("c", count), stride);
    for (unsigned i = 0; i < count; i++)
        write("add.%s %%d%u, %%d%u, %%c%u;\n", k->sum == IS_F16 ? "f16x2" : type, i, i, i);
    write("wmma.store.d.sync.aligned.%s.%s.global.%s [%%rd3], %s, %u;\nret;\n", layout, shape, type,
          registers("d", count), stride);
}

static const char *text_of(const struct kernel *k)
{
    const bool floats = k->sum == IS_F32, tf32 = k->factor == IS_F32;
    // What nvcc writes: bf16 and tf32 by generic addresses.
    const bool generic = k->factor == IS_BF16 || tf32;
    const char *factor = tf32 ? "tf32" : type_names[k->factor], *sum = type_names[k->sum];
    const char *a_layout = k->a_rows ? "row" : "col", *b_layout = k->b_rows ? "row" : "col";
    const unsigned lda = k->a_rows ? k->k : k->m, ldb = k->b_rows ? k->n : k->k;
    const unsigned bytes = bytes_of(k->factor), count = k->sum == IS_F16 ? 4 : 8;
    const char *a = registers("a", factor_count(k, k->m)),
               *b = registers("b", factor_count(k, k->n));
    char shape[16];
    snprintf(shape, sizeof shape, "m%un%uk%u", k->m, k->n, k->k);
    used = 0;
    write(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry %s(\n", k->name);
    write(".param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)\n{\n");
    write(".reg .pred %%p; .reg .b64 %%rd<8>; .reg .b32 %%r<8>; .reg .b16 %%h; .reg .b32 %%x;\n");
    write(".reg .b32 %%a<8>; .reg .b32 %%b<8>; .reg .%s %%c<8>; .reg .%s %%d<8>;\n",
          floats ? "f32" : "b32", floats ? "f32" : "b32");
    write(".shared .align 32 .b8 tile[%u];\n", (k->m + 16) * (k->k + 16) * bytes);
    const unsigned sizes[] = { k->m * k->k * bytes, k->k * k->n * bytes,
                               k->m * k->n * bytes_of(k->sum) };
    write("mov.u32 %%r0, %%ctaid.x;\n");
    for (unsigned p = 0; p < 4; p++)
        write("ld.param.u64 %%rd%u, [p%u];\ncvta.to.global.u64 %%rd%u, %%rd%u;\n"
              "mad.wide.u32 %%rd%u, %%r0, %u, %%rd%u;\n",
              p, p, p, p, p, sizes[p < 2 ? p : 2], p);
    write("mov.u32 %%r1, %%tid.x;\nmov.u32 %%r5, tile;\ncopy:\n");
    write("div.u32 %%r2, %%r1, %u;\nrem.u32 %%r3, %%r1, %u;\nmad.lo.u32 %%r3, %%r2, %u, %%r3;\n",
          lda, lda, lda + 16);
    write("mad.lo.u32 %%r3, %%r3, %u, %%r5;\nmul.wide.u32 %%rd4, %%r1, %u;\nadd.u64 %%rd4, %%rd0, "
          "%%rd4;\n",
          bytes, bytes);
    write("ld.global.b%u %s, [%%rd4];\nst.shared.b%u [%%r3], %s;\n", 8 * bytes,
          bytes == 4 ? "%x" : "%h", 8 * bytes, bytes == 4 ? "%x" : "%h");
    write("add.u32 %%r1, %%r1, 32;\nsetp.lt.u32 %%p, %%r1, %u;\n@%%p bra copy;\nbar.sync 0;\n",
          k->m * k->k);
    write("cvt.u64.u32 %%rd5, %%r5;\ncvta.shared.u64 %%rd5, %%rd5;\n");
    write("wmma.load.a.sync.aligned.%s.%s%s.%s %s, [%s], %u;\n", a_layout, shape,
          generic ? "" : ".shared", factor, a, generic ? "%rd5" : "%r5", lda + 16);
    write("wmma.load.b.sync.aligned.%s.%s%s.%s %s, [%%rd1], %u;\n", b_layout, shape,
          generic ? "" : ".global", factor, b, ldb);
    for (unsigned i = 0; i < count; i++)
        write("mov.b32 %%d%u, 0;\n", i);
    for (unsigned i = 0; i < 2; i++) {
        const char *d = registers("d", count);
        write("wmma.mma.sync.aligned.%s.%s.%s.%s", a_layout, b_layout, shape, sum);
        if (k->factor != IS_F16)
            write(".%s.%s", factor, factor);
        write(".%s %s, %s, %s, %s;\n", sum, d, a, b, d);
    }
    write("ld.param.u64 %%rd6, [p4];\nsetp.ne.u64 %%p, %%rd6, 0;\n@%%p bra columns;\n");
    write_sum(k, shape, false);
    write_sum(k, shape, true);
    write("}\n");
    return text;
}

EMULATOR_TEST(products)
{
    e->grid = BLOCKS;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        emulator_load(e, text_of(&kernels[k]));
        for (unsigned columns = 0; columns < 2; columns++)
            run_kernel(e, &kernels[k], columns);
    }
}

// ---- single instructions ------------------------------------------------------------------------

#define F8     "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}"
#define A8     "{%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}"
#define B8     "{%r30,%r31,%r32,%r33,%r34,%r35,%r36,%r37}"
#define H4     "{%r20,%r21,%r22,%r23}"
#define LOAD   "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd1], 16;\n"
#define LOAD_B "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 " B8 ", [%rd1], 16;\n"
#define FLOATS "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 " F8 ", [%rd2], 16;\n"

// C and D of different types: a sum in f32, rounded once at the end.
EMULATOR_TEST(mixed_types)
{
    static uint16_t a[256], h[256];
    static float f[256];
    for (unsigned i = 0; i < 256; i++) {
        a[i] = f16_from_f64(i % 17 == 0 ? 1 : 0); // the unit matrix
        f[i] = (float)i + 1024.5f;
        h[i] = f16_from_f64(i % 9);
    }
    const char *body = LOAD LOAD_B FLOATS
        "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f32 " H4 ", " A8 ", " B8 ", " F8 ";\n"
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%rd0], " H4 ", 16; ret;";
    const uint64_t at = emulator_upload(e, a, sizeof a), out = emulator_zeros(e, 1024);
    emulator_expect_fine(e, emulator_body(e, body, out, at, emulator_upload(e, f, sizeof f)), out,
                         512);
    const uint16_t *halves = emulator_at(e, out, 512);
    for (unsigned i = 0; i < 256; i++)
        assert_int_equal(halves[i], f16_from_f64((double)f[i] + (i % 17 == 0)));
    body = LOAD LOAD_B "wmma.load.c.sync.aligned.col.m16n16k16.global.f16 " H4 ", [%rd2];\n"
                       "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16 " F8 ", " A8 ", " B8 ", " H4
                       ";\n"
                       "wmma.store.d.sync.aligned.col.m16n16k16.f32 [%rd0], " F8 "; ret;";
    emulator_expect_fine(e, emulator_body(e, body, out, at, emulator_upload(e, h, sizeof h)), out,
                         1024);
    const float *floats = emulator_at(e, out, 1024);
    for (unsigned i = 0; i < 256; i++)
        assert_true(floats[i] == (float)(i % 9) + (i % 17 == 0 ? 1.0f : 0.0f));
}

// An element of A that was never written reaches its row of D, one of C itself alone.
EMULATOR_TEST(undefined_elements)
{
    const char *body =
        "setp.ne.u32 %p1, %r0, 3; mul.wide.u32 %rd4, %r0, 16; add.u64 %rd4, %rd4, %rd1;\n"
        "@%p1 st.global.v4.u32 [%rd4], {0, 0, 0, 0};\n"
        ".shared .align 32 .b8 s[512]; bar.warp.sync -1;\n" LOAD LOAD_B FLOATS
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 " F8 ", " A8 ", " B8 ", " F8 ";\n"
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd0], " F8 ", 16; ret;";
    const uint64_t out = emulator_alloc(e, 1024);
    emulator_runs(e, body, out, emulator_alloc(e, 512), emulator_zeros(e, 1024));
    // Columns 8 to 15 of row 1: they reach row 1 by A, and columns 8 to 15 by B.
    for (unsigned i = 0; i < 256; i++) {
        uint32_t origin;
        const bool open =
            emu_memory_undefined(e->memory, out + 4 * i, 4, &origin, e->report, sizeof e->report);
        assert_int_equal(open, i / 16 == 1 || i % 16 >= 8);
    }
}

EMULATOR_TEST(reports)
{
    static const struct {
        const char *body;
        int result;
        const char *words;
    } cases[] = {
        { "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd1+8], 16; ret;", 716,
          "misaligned row or column of a matrix|a multiple of 16" },
        { "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd1], 12; ret;", 716,
          "misaligned row or column" },
        { "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd1], 24; ret;", 700,
          "out of bounds" },
        { "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], " F8 ", 16; ret;", 700,
          "out of bounds" },
        { "mul.wide.u32 %rd4, %r0, 32; add.u64 %rd4, %rd4, %rd1;\n"
          "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd4], 16; ret;",
          715, "lanes 0 and 1 give different addresses" },
        { "add.u32 %r3, %r0, 16; wmma.load.b.sync.aligned.col.m16n16k16.f16 " A8
          ", [%rd1], %r3; ret;",
          715, "lanes 0 and 1 give different addresses or strides" },
        { "setp.eq.u32 %p1, %r0, 5; @%p1 ret;\n" LOAD "ret;", 715, "needs all 32 lanes" },
        { "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [%rd1], %r40; ret;", 719,
          "uninitialised value decides an address" },
        { ".shared .align 32 .b8 s[1024]; st.shared.u32 [s], 1;\n"
          "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 " A8 ", [s]; ret;",
          719, "shared-memory race" },
    };
    static uint16_t in[256];
    const uint64_t source = emulator_upload(e, in, sizeof in), out = emulator_zeros(e, 64);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        e->block = k == 8 ? 64 : 32;
        emulator_fails(e, cases[k].body, out, source, 0, cases[k].result, cases[k].words);
    }
}

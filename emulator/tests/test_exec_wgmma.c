// SPDX-License-Identifier: MIT
// wgmma.mma_async: a product as plain C has it, what undefined elements reach, and the reports of
// texts that use it wrongly. tests/hardware/wgmma_record.c has every layout, and its bits.
#include "fixture.h"
#include "reference/half.h"

enum { ROWS = 64, COLUMNS = 16, DEPTH = 16, THREADS = 128 };

#define D8 "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}"
#define A4 "{%r10,%r11,%r12,%r13}"

/// %rd10 and %rd11 describe A, 64 x 16, and B, 16 x 16, without a swizzle; %p0 is true.
#define DESCRIBE                                                                                   \
    ".shared .align 128 .b8 sa[2048];\n.shared .align 128 .b8 sb[512];\n"                          \
    "mov.b64 %rd10, sa; shr.u64 %rd10, %rd10, 4; or.b64 %rd10, %rd10, 0x1000080000;\n"             \
    "mov.b64 %rd11, sb; shr.u64 %rd11, %rd11, 4; or.b64 %rd11, %rd11, 0x1000080000;\n"             \
    "setp.eq.u32 %p0, %r0, %r0;\n"
/// A thread writes its 16 bytes of A, from those of p1, and the first 32 of them B, from p2.
#define FILL                                                                                       \
    "mul.wide.u32 %rd4, %r0, 16; add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4;\n"            \
    "mov.u32 %r3, sa; mov.u32 %r4, sb; shl.b32 %r5, %r0, 4;\n"                                     \
    "add.u32 %r3, %r3, %r5; add.u32 %r4, %r4, %r5; setp.lt.u32 %p1, %r0, 32;\n"                    \
    "ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%rd5]; st.shared.v4.u32 [%r3], {%r6,%r7,%r8,%r9};\n"     \
    "@%p1 ld.global.v4.u32 {%r6,%r7,%r8,%r9}, [%rd6];\n"                                           \
    "@%p1 st.shared.v4.u32 [%r4], {%r6,%r7,%r8,%r9};\n"                                            \
    "fence.proxy.async; bar.sync 0;\n"
#define SUMS                                                                                       \
    "mov.f32 %f0, 1.0; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n"                    \
    "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;\n"
#define MULTIPLY(operands)                                                                         \
    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 " D8            \
    ", " operands ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
#define STORE                                                                                      \
    "mul.wide.u32 %rd4, %r0, 32; add.u64 %rd4, %rd4, %rd0;\n"                                      \
    "st.global.v4.f32 [%rd4], {%f0,%f1,%f2,%f3};\n"                                                \
    "st.global.v4.f32 [%rd4+16], {%f4,%f5,%f6,%f7}; ret;"

static int value_of(unsigned matrix, unsigned row, unsigned k)
{
    return (int)((matrix * 977 + row * 37 + k * 11) * 2654435761u >> 13) % 7 - 3;
}

/// The image of rows of 16 elements: tiles of 8 x 8, those of a row of tiles after each other.
static void fill_image(uint16_t *image, unsigned matrix, unsigned rows)
{
    for (unsigned i = 0; i < rows * DEPTH; i++) {
        const unsigned row = i / DEPTH, k = i % DEPTH;
        image[row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8] =
            f16_from_f64(value_of(matrix, row, k));
    }
}

/// The row and column of D that register `reg` of a thread has.
static void find_sum(unsigned thread, unsigned reg, unsigned *row, unsigned *column)
{
    *row = thread / 32 * 16 + thread % 32 / 4 + reg / 2 % 2 * 8;
    *column = reg / 4 * 8 + thread % 4 * 2 + reg % 2;
}

static void open_group(struct emulator *e)
{
    e->target = ".version 8.0\n.target sm_90a";
    e->device = 90;
    e->block = THREADS;
}

struct inputs {
    uint64_t a, b, out;
};

static struct inputs upload(struct emulator *e)
{
    uint16_t a[ROWS * DEPTH], b[COLUMNS * DEPTH];
    fill_image(a, 0, ROWS);
    fill_image(b, 1, COLUMNS);
    return (struct inputs) { emulator_upload(e, a, sizeof a), emulator_upload(e, b, sizeof b),
                             emulator_alloc(e, 32 * THREADS) };
}

EMULATOR_TEST(products)
{
    static const struct {
        const char *body;
        int a, b, c; // their factors
    } cases[] = {
        { DESCRIBE FILL SUMS MULTIPLY("%rd10, %rd11, %p0, 1, 1, 0, 0") STORE, 1, 1, 1 },
        { DESCRIBE FILL SUMS MULTIPLY("%rd10, %rd11, !%p0, 1, 1, 0, 0") STORE, 1, 1, 0 },
        { DESCRIBE FILL SUMS MULTIPLY("%rd10, %rd11, 1, -1, 1, 0, 0") STORE, -1, 1, 1 },
        { DESCRIBE FILL MULTIPLY("%rd10, %rd11, 0, 1, -1, 0, 0") STORE, 1, -1, 0 },
    };
    open_group(e);
    const struct inputs in = upload(e);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        emulator_expect_fine(e, emulator_body(e, cases[n].body, in.out, in.a, in.b), in.out,
                             32 * THREADS);
        const float *got = emulator_at(e, in.out, 32 * THREADS);
        for (unsigned i = 0; i < 8 * THREADS; i++) {
            unsigned row, column;
            find_sum(i / 8, i % 8, &row, &column);
            int sum = cases[n].c;
            for (unsigned k = 0; k < DEPTH; k++)
                sum += cases[n].a * cases[n].b * value_of(0, row, k) * value_of(1, column, k);
            assert_true(got[i] == (float)sum);
        }
    }
}

/// An element of A that was never written reaches its row, one of B its column, a register of D
/// itself.
EMULATOR_TEST(undefined_elements)
{
    const char *body =
        DESCRIBE "setp.ne.u32 %p2, %r0, 5; mov.u32 %r3, sa; mov.u32 %r4, sb; shl.b32 %r5, %r0, 4;\n"
                 "add.u32 %r3, %r3, %r5; add.u32 %r4, %r4, %r5; setp.lt.u32 %p1, %r0, 32;\n"
                 "and.pred %p1, %p1, %p2;\n"
                 "@%p2 st.shared.v4.u32 [%r3], {0,0,0,0}; @%p1 st.shared.v4.u32 [%r4], {0,0,0,0};\n"
                 "fence.proxy.async; bar.sync 0;\n" SUMS "setp.eq.u32 %p3, %r0, 70;\n"
                 "ld.global.f32 %f8, [%rd1]; @%p3 mov.f32 %f6, %f8;\n" MULTIPLY(
                     "%rd10, %rd11, %p0, 1, 1, 0, 0") STORE;
    open_group(e);
    const uint64_t out = emulator_alloc(e, 32 * THREADS);
    emulator_runs(e, body, out, emulator_alloc(e, 4), 0);
    for (unsigned i = 0; i < 8 * THREADS; i++) {
        unsigned row, column;
        uint32_t origin;
        find_sum(i / 8, i % 8, &row, &column);
        const bool open =
            emu_memory_undefined(e->memory, out + 4 * i, 4, &origin, e->report, sizeof e->report);
        assert_int_equal(open, row == 5 || column == 5 || i == 8 * 70 + 6);
    }
}

EMULATOR_TEST(undefined_registers)
{
    open_group(e);
    const struct inputs in = upload(e);
    emulator_expect_undefined(
        e,
        emulator_body(e, DESCRIBE FILL MULTIPLY("%rd10, %rd11, %p0, 1, 1, 0, 0") STORE, in.out,
                      in.a, in.b),
        in.out, 32 * THREADS, "register %f|never written");
    emulator_expect_undefined(
        e,
        emulator_body(e, DESCRIBE FILL SUMS MULTIPLY(A4 ", %rd11, %p0, 1, 1, 0") STORE, in.out,
                      in.a, in.b),
        in.out, 32 * THREADS, "register %r1|never written");
}

EMULATOR_TEST(reports)
{
    static const struct {
        const char *body;
        int result;
        const char *words;
        unsigned threads;
    } cases[] = {
        { DESCRIBE FILL SUMS MULTIPLY("%rd10, %rd11, %p0, 1, 1, 0, 0") STORE, 715,
          "it needs the four warps of a warpgroup, 0 to 3; the block has 96 threads", 96 },
        { DESCRIBE FILL SUMS "add.u64 %rd10, %rd10, 64;\n" MULTIPLY("%rd10, %rd11, %p0, 1, 1, 0, 0")
              STORE,
          700, "out of bounds|the block has 2560 bytes of shared memory", THREADS },
        { DESCRIBE FILL SUMS "cvt.u64.u32 %rd12, %r0; add.u64 %rd11, %rd11, %rd12;\n" MULTIPLY(
              "%rd10, %rd11, %p0, 1, 1, 0, 0") STORE,
          715, "lanes 0 and 1 give different descriptors of B", THREADS },
        { DESCRIBE FILL SUMS "setp.ne.u32 %p2, %r0, 2;\n" MULTIPLY("%rd10, %rd11, %p2, 1, 1, 0, 0")
              STORE,
          715, "lanes give different scales of D", THREADS },
        { DESCRIBE FILL SUMS MULTIPLY("%rd12, %rd11, %p0, 1, 1, 0, 0") STORE, 719,
          "uninitialised value decides an address: register %rd12", THREADS },
        { DESCRIBE FILL SUMS MULTIPLY("%rd10, %rd11, %p5, 1, 1, 0, 0") STORE, 719,
          "uninitialised value decides whether a product is added to D", THREADS },
        { DESCRIBE FILL SUMS
          "setp.eq.u32 %p2, %r0, 5; @%p2 ret;\n" MULTIPLY("%rd10, %rd11, %p0, 1, 1, 0, 0") STORE,
          715, "it needs all 32 lanes", THREADS },
        { DESCRIBE "mov.u32 %r3, sa; shl.b32 %r5, %r0, 4; add.u32 %r3, %r3, %r5;\n"
                   "st.shared.v4.u32 [%r3], {0,0,0,0};\n" SUMS MULTIPLY(
                       "%rd10, %rd11, %p0, 1, 1, 0, 0") STORE,
          719, "shared-memory race", THREADS },
    };
    open_group(e);
    const struct inputs in = upload(e);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        e->block = cases[k].threads;
        emulator_fails(e, cases[k].body, in.out, in.a, in.b, cases[k].result, cases[k].words);
    }
}

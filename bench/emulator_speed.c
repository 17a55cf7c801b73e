// SPDX-License-Identifier: MIT
// Measures how many lane-instructions per second the emulator executes on one core: arithmetic in
// registers, memory, shared memory with barriers, divergence; with and without sanitizers; by
// processor time, which other processes do not affect, and by wall clock. Also measures the time of
// two programs, a matrix product in tiles and a kernel of tinygrad, and of a nearly empty launch.
//
//     emulator_speed [SECONDS [NAME [SIZE]]]   minimum time of each measurement, default 0.5; of
//                                              all kernels, or of one: "shared memory"; SIZE is
//                                              that of a program, such as the edge of the matrices
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "exec/base/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD                                                                                       \
    ".version 8.0\n.target sm_90\n.address_size 64\n"                                              \
    ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<32>;\n"                  \
    ".reg .b64 %rd<8>;\n.reg .f32 %f<16>;\n.reg .f64 %fd<16>;\n.shared .align 4 .b32 s[256];\n"    \
    "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"                      \
    "mad.lo.u32 %r3, %r2, 256, %r1;\nmul.wide.u32 %rd2, %r3, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"      \
    "shl.b32 %r5, %r1, 2;\nmov.u32 %r6, s;\nadd.u32 %r7, %r5, %r6;\nmov.u32 %r4, 0;\n"             \
    "cvt.rn.f32.u32 %f1, %r3;\ncvt.rn.f64.u32 %fd1, %r3;\n"
#define LOOP(times, end, body)                                                                     \
    HEAD "L:\n" body "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, " times ";\n@%p1 bra L;\n" end   \
         "ret;\n}\n"
#define STORE_R3 "st.global.u32 [%rd3], %r3;\n"
#define STORE_F1 "st.global.f32 [%rd3], %f1;\n"

static const struct {
    const char *name, *text;
} kernels[] = {
    { "integers", LOOP("1000", STORE_R3,
                       "mad.lo.u32 %r3, %r3, 5, %r4;\nxor.b32 %r3, %r3, %r1;\n"
                       "shr.u32 %r8, %r3, 3;\nadd.u32 %r3, %r3, %r8;\n"
                       "mul.wide.u32 %rd4, %r3, %r8;\nadd.u64 %rd5, %rd4, %rd2;\n") },
    { "f32", LOOP("1000", STORE_F1,
                  "fma.rn.f32 %f2, %f1, 0f3F000000, 0f3F800000;\nadd.rn.f32 %f3, %f2, %f1;\n"
                  "mul.rn.f32 %f1, %f3, 0f3F000000;\nsub.rn.f32 %f4, %f1, %f2;\n"
                  "fma.rn.f32 %f1, %f4, 0f3A000000, %f1;\n") },
    { "f64", LOOP("1000", "cvt.rn.f32.f64 %f1, %fd1;\n" STORE_F1,
                  "fma.rn.f64 %fd2, %fd1, 0d3FE0000000000000, %fd1;\n"
                  "mul.rn.f64 %fd1, %fd2, 0d3FE0000000000000;\ncvt.rn.f32.f64 %f1, %fd1;\n"
                  "cvt.f64.f32 %fd3, %f1;\nadd.rn.f64 %fd1, %fd1, %fd3;\n") },
    { "f32 ftz", LOOP("1000", STORE_F1,
                      "fma.rn.ftz.f32 %f2, %f1, 0f3F000000, 0f3F800000;\n"
                      "mul.rn.ftz.f32 %f3, %f2, %f1;\nadd.rz.f32 %f1, %f3, %f2;\n"
                      "mul.rn.f32 %f1, %f1, 0f3E000000;\n") },
    { "halves", LOOP("300", STORE_R3,
                     "fma.rn.f16x2 %r8, %r1, %r1, %r3;\nadd.rn.f16x2 %r3, %r8, %r1;\n"
                     "fma.rn.bf16x2 %r9, %r1, %r2, %r3;\nmul.rn.bf16x2 %r3, %r9, %r3;\n") },
    { "vector loads", LOOP("300", "",
                           "mul.wide.u32 %rd4, %r1, 8;\nadd.u64 %rd4, %rd4, %rd1;\n"
                           "ld.global.v2.f32 {%f1, %f2}, [%rd4];\n"
                           "ld.global.v2.f32 {%f3, %f4}, [%rd4+2048];\n"
                           "ld.global.v2.f32 {%f5, %f6}, [%rd4+4096];\n"
                           "ld.global.v2.f32 {%f7, %f8}, [%rd4+6144];\n"
                           "ld.global.v2.f32 {%f1, %f2}, [%rd4+8192];\n"
                           "ld.global.v2.f32 {%f3, %f4}, [%rd4+10240];\n"
                           "ld.global.v2.f32 {%f5, %f6}, [%rd4+12288];\n"
                           "ld.global.v2.f32 {%f7, %f8}, [%rd4+14336];\n") },
    { "gathers", LOOP("300", "",
                      "mad.lo.u32 %r8, %r4, 5, %r3;\nand.b32 %r8, %r8, 2047;\n"
                      "mul.wide.u32 %rd4, %r8, 4;\nadd.u64 %rd4, %rd4, %rd1;\n"
                      "ld.global.u32 %r9, [%rd4];\nadd.u32 %r3, %r3, %r9;\n") },
    { "atomics", LOOP("300", "",
                      "and.b32 %r8, %r3, 63;\nmul.wide.u32 %rd4, %r8, 4;\n"
                      "add.u64 %rd4, %rd4, %rd1;\nred.global.add.u32 [%rd4], 1;\n"
                      "add.u32 %r3, %r3, %r4;\n") },
    { "global memory", LOOP("300", "",
                            "ld.global.f32 %f1, [%rd3];\nadd.rn.f32 %f1, %f1, 0f3F800000;\n"
                            "st.global.f32 [%rd3], %f1;\n") },
    { "shared memory", LOOP("300", STORE_R3,
                            "st.shared.u32 [%r7], %r3;\nbar.sync 0;\nxor.b32 %r8, %r7, 64;\n"
                            "ld.shared.u32 %r9, [%r8];\nbar.sync 0;\nadd.u32 %r3, %r3, %r9;\n"
                            "add.u32 %r3, %r3, 1;\n") },
    { "shuffles", LOOP("300", STORE_R3,
                       "shfl.sync.bfly.b32 %r8, %r3, 7, 31, -1;\nadd.u32 %r3, %r3, %r8;\n"
                       "shfl.sync.down.b32 %r8, %r3, 1, 31, -1;\nadd.u32 %r3, %r3, %r8;\n") },
    { "divergence", LOOP("300", STORE_R3,
                         "and.b32 %r8, %r1, 3;\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra A;\n"
                         "add.u32 %r3, %r3, %r4;\nxor.b32 %r3, %r3, %r1;\nbra B;\n"
                         "A: sub.u32 %r3, %r3, %r4;\nB: add.u32 %r3, %r3, 7;\n") },
};

// The product of two matrices of n x n, as nvcc compiles the usual kernel: a block has a tile of
// 16 x 16 results, and copies tiles of both matrices to shared memory.
#define STEP(a, b)                                                                                 \
    "ld.shared.f32 %f4, [%r8+" #b "];\nld.shared.f32 %f5, [%r7+" #a "];\n"                         \
    "fma.rn.f32 %f1, %f5, %f4, %f1;\n"
#define FOUR_STEPS(a0, b0, a1, b1, a2, b2, a3, b3)                                                 \
    STEP(a0, b0) STEP(a1, b1) STEP(a2, b2) STEP(a3, b3)

static const char product[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
    ".reg .pred %p<3>;\n.reg .f32 %f<8>;\n.reg .b32 %r<33>;\n.reg .b64 %rd<20>;\n"
    ".shared .align 4 .b8 x[1024];\n.shared .align 4 .b8 y[1024];\n"
    "ld.param.u64 %rd8, [a];\nld.param.u64 %rd9, [b];\nld.param.u64 %rd10, [c];\n"
    "ld.param.u32 %r12, [n];\nmov.u32 %r13, %ctaid.y;\nshl.b32 %r14, %r13, 4;\n"
    "mov.u32 %r1, %tid.y;\nadd.s32 %r15, %r14, %r1;\nmov.u32 %r16, %ctaid.x;\n"
    "shl.b32 %r2, %r16, 4;\nmov.u32 %r3, %tid.x;\nmul.lo.s32 %r4, %r15, %r12;\n"
    "shl.b32 %r18, %r1, 6;\nmov.u32 %r19, x;\nadd.s32 %r7, %r19, %r18;\nshl.b32 %r20, %r3, 2;\n"
    "add.s32 %r5, %r7, %r20;\nmov.u32 %r21, y;\nadd.s32 %r22, %r21, %r18;\n"
    "add.s32 %r6, %r22, %r20;\nadd.s32 %r8, %r21, %r20;\nadd.s32 %r23, %r3, %r4;\n"
    "cvta.to.global.u64 %rd11, %rd8;\nmul.wide.s32 %rd12, %r23, 4;\nadd.s64 %rd19, %rd11, %rd12;\n"
    "mad.lo.s32 %r24, %r1, %r12, %r3;\nadd.s32 %r25, %r24, %r2;\n"
    "cvta.to.global.u64 %rd13, %rd9;\nmul.wide.s32 %rd14, %r25, 4;\nadd.s64 %rd18, %rd13, %rd14;\n"
    "shl.b32 %r26, %r12, 4;\nmul.wide.s32 %rd3, %r26, 4;\nshr.u32 %r9, %r12, 4;\n"
    "mov.f32 %f1, 0f00000000;\nmov.u32 %r32, 0;\n"
    "L:\nld.global.f32 %f2, [%rd19];\nst.shared.f32 [%r5], %f2;\n"
    "ld.global.f32 %f3, [%rd18];\nst.shared.f32 [%r6], %f3;\nbar.sync 0;\n" //
    FOUR_STEPS(0, 0, 4, 64, 8, 128, 12, 192) FOUR_STEPS(16, 256, 20, 320, 24, 384, 28, 448)
        FOUR_STEPS(32, 512, 36, 576, 40, 640, 44, 704)
            FOUR_STEPS(48, 768, 52, 832, 56, 896, 60, 960) //
    "bar.sync 0;\nadd.s64 %rd19, %rd19, 64;\nadd.s64 %rd18, %rd18, %rd3;\nadd.s32 %r32, %r32, 1;\n"
    "setp.lt.s32 %p2, %r32, %r9;\n@%p2 bra L;\n"
    "add.s32 %r30, %r2, %r3;\nadd.s32 %r31, %r4, %r30;\ncvta.to.global.u64 %rd15, %rd10;\n"
    "mul.wide.s32 %rd16, %r31, 4;\nadd.s64 %rd17, %rd15, %rd16;\nst.global.f32 [%rd17], %f1;\n"
    "ret;\n}\n";

// The loops of the kernel that tinygrad 0.14 writes for masked_select() of n elements, 16 threads a
// block: comparisons of counters of int32, n * n * n / 16 times a thread.
static const char masked_select[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
    ".reg .s32 %c<10>;\n.reg .s32 %g<4>;\n.reg .s32 %i<4>;\n.reg .s32 %x<12>;\n.reg .pred %p<8>;\n"
    ".reg .u64 %rd<4>;\n.reg .u32 %t;\n.reg .u32 %u;\n"
    "ld.param.u32 %c0, [n];\nld.param.u64 %rd0, [c];\nmov.b32 %c1, 1;\n"
    "mov.u32 %u, %ctaid.x;\nmov.u32 %t, %tid.x;\nmov.b32 %c3, 0;\n"
    "sub.s32 %c4, 1, %c0;\nshr.s32 %c5, %c0, 4;\nsub.s32 %c6, %c0, 2;\nsub.s32 %c7, %c0, 1;\n"
    "mov.b32 %g2, %c3;\nmov.u32 %i0, -1;\nbra END_0;\n"
    "LOOP_0:\nmad.lo.s32 %x0, %t, %c5, %i0;\nadd.s32 %x1, %u, %x0;\nadd.s32 %x2, %x1, %c4;\n"
    "mov.b32 %g1, %c3;\nmov.u32 %i1, -1;\nbra END_1;\n"
    "LOOP_1:\nmov.b32 %g0, %c3;\nmov.u32 %i2, -1;\nbra END_2;\n"
    "LOOP_2:\nadd.s32 %x3, %i2, %i1;\nsetp.lt.s32 %p0, %c6, %x3;\nselp.b32 %c8, 1, 0, %p0;\n"
    "add.s32 %x4, %g0, %c8;\nmov.b32 %g0, %x4;\n"
    "END_2:\nadd.s32 %i2, %i2, 1;\nsetp.lt.s32 %p4, %i2, %c0;\n@%p4 bra LOOP_2;\n"
    "setp.ne.s32 %p1, %g0, %x2;\nselp.s32 %x5, %c3, %c1, %p1;\nadd.s32 %x6, %g1, %x5;\n"
    "mov.b32 %g1, %x6;\n"
    "END_1:\nadd.s32 %i1, %i1, 1;\nsetp.lt.s32 %p5, %i1, %c0;\n@%p5 bra LOOP_1;\n"
    "setp.lt.s32 %p2, %x1, %c7;\nselp.s32 %x7, %c3, %g1, %p2;\nadd.s32 %x8, %g2, %x7;\n"
    "mov.b32 %g2, %x8;\n"
    "END_0:\nadd.s32 %i0, %i0, 1;\nsetp.lt.s32 %p6, %i0, %c5;\n@%p6 bra LOOP_0;\n"
    "mad.lo.s32 %x9, %u, 16, %t;\nmul.wide.s32 %rd1, %x9, 4;\nadd.s64 %rd2, %rd0, %rd1;\n"
    "st.global.s32 [%rd2], %g2;\nret;\n}\n";

// What a launch runs: n is the parameter of a program, 0 for the kernels above, which have one
// parameter.
struct work {
    const char *name, *text;
    uint32_t grid[2], block[2], n;
};

enum { BLOCKS = 32, THREADS = 256 };

// The machine may be shared: processor time measures only this process.
static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct rates {
    double wall, processor; // lane-instructions per second by each clock, best run
    double seconds;         // processor time of that run
    double launch;          // minimum processor time in seconds of a launch of one block
};

static uint64_t run_once(const struct emu_machine_config *config, struct emu_memory *memory,
                         const struct emu_launch *launch)
{
    char report[1024];
    uint64_t before = emu_lane_instructions();
    if (emu_run(config, memory, launch, report, sizeof(report))) {
        fprintf(stderr, "%s\n", report);
        exit(1);
    }
    return emu_lane_instructions() - before;
}

static void measure_launches(const struct emu_machine_config *config, struct emu_memory *memory,
                             const struct emu_launch *launch, double least, struct rates *rates)
{
    enum { TIMES = 20 };
    double begin = seconds(CLOCK_MONOTONIC);
    do {
        double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < TIMES; i++)
            run_once(config, memory, launch);
        double each = (seconds(CLOCK_PROCESS_CPUTIME_ID) - start) / TIMES;
        rates->launch = rates->launch == 0 || each < rates->launch ? each : rates->launch;
    } while (seconds(CLOCK_MONOTONIC) - begin < least);
}

static void measure_work(const struct emu_machine_config *config, struct emu_memory *memory,
                         const struct emu_launch *launch, double least, struct rates *rates)
{
    double begin = seconds(CLOCK_MONOTONIC);
    do {
        double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
        double lanes = (double)run_once(config, memory, launch);
        processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
        wall = lanes / (seconds(CLOCK_MONOTONIC) - wall);
        rates->wall = wall > rates->wall ? wall : rates->wall;
        if (lanes / processor <= rates->processor)
            continue;
        rates->processor = lanes / processor;
        rates->seconds = processor;
    } while (seconds(CLOCK_MONOTONIC) - begin < least);
}

// Memory with nothing but zeros, all of it initialised. The matrices of a program are in it, one
// after the other.
static uint64_t zeros(struct emu_memory *memory, uint64_t bytes)
{
    uint64_t at = memory ? emu_memory_alloc(memory, bytes) : 0;
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    unsigned char *host = at ? emu_memory_access(memory, at, bytes, &shadow, &fault) : NULL;
    if (!host) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(host, 0, bytes);
    if (shadow)
        memset(shadow, 1, bytes);
    return at;
}

static struct rates measure(const struct emu_module *module, const struct work *work, bool sanitize,
                            double least, bool launches)
{
    const struct emu_machine_config config = {
        .gpu = emu_gpu_of(90), .multiprocessors = 132, .sanitize = sanitize, .host_threads = 1
    };
    struct emu_memory *memory = emu_memory_create(UINT64_C(1) << 28, sanitize);
    struct emu_programs *programs = emu_programs_create(module);
    uint64_t matrix = work->n ? (uint64_t)work->n * work->n * 4 : BLOCKS * THREADS * 4;
    uint64_t at = zeros(memory, work->n ? 3 * matrix : matrix);
    struct {
        uint64_t a, b, c;
        uint32_t n;
    } params = { at, at + matrix, at + 2 * matrix, work->n };
    struct rates rates = { 0 };
    const struct emu_launch launch = { .module = module,
                                       .entry = emu_module_entry(module, "k"),
                                       .programs = programs,
                                       .grid = { work->grid[0], work->grid[1], 1 },
                                       .block = { work->block[0], work->block[1], 1 },
                                       .params = (const unsigned char *)&params };
    (launches ? measure_launches : measure_work)(&config, memory, &launch, least, &rates);
    emu_programs_destroy(&programs);
    emu_memory_destroy(&memory);
    return rates;
}

static struct emu_module *parse(const char *name, const char *text)
{
    const struct emu_parse_limits limits = { .isa = 90, .sm = 90, .sm_suffix = 'a' };
    char log[1024];
    int result;
    struct emu_module *module =
        emu_module_parse(text, strlen(text), &limits, log, sizeof(log), &result);
    if (!module) {
        fprintf(stderr, "%s: %s\n", name, log);
        exit(1);
    }
    return module;
}

static void print_work(const struct work *work, double least)
{
    struct emu_module *module = parse(work->name, work->text);
    struct rates plain = measure(module, work, false, least, false);
    struct rates checked = measure(module, work, true, least, false);
    printf("%-16s %9.0f %8.0f   %9.0f %8.0f", work->name, plain.processor * 1e-6, plain.wall * 1e-6,
           checked.processor * 1e-6, checked.wall * 1e-6);
    if (work->n)
        printf("   n = %u: %.2f s plain, %.2f s with sanitizers", (unsigned)work->n, plain.seconds,
               checked.seconds);
    printf("\n");
    emu_module_destroy(&module);
}

int main(int argc, char **argv)
{
    const double least = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    const uint32_t size = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) / 16 * 16 : 0;
    const uint32_t edge = size ? size : 512, count = size ? size : 64;
    const struct work programs[] = {
        { "product", product, { edge / 16, edge / 16 }, { 16, 16 }, edge },
        { "masked_select", masked_select, { count, 1 }, { 16, 1 }, count },
    };

    printf("million lane-instructions a second, one core, best run\n");
    printf("%-16s %18s   %18s\n", "", "plain", "sanitizers");
    printf("%-16s %9s %8s   %9s %8s\n", "", "processor", "wall", "processor", "wall");
    for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
        const struct work work = {
            kernels[k].name, kernels[k].text, { BLOCKS, 1 }, { THREADS, 1 }, 0
        };
        if (argc <= 2 || strcmp(argv[2], work.name) == 0)
            print_work(&work, least);
    }
    for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++)
        if (argc <= 2 || strcmp(argv[2], programs[k].name) == 0)
            print_work(&programs[k], least);
    if (argc > 2)
        return 0;
    const struct work empty = { "launch", HEAD "ret;\n}\n", { 1, 1 }, { THREADS, 1 }, 0 };
    struct emu_module *module = parse(empty.name, empty.text);
    printf("a launch of one block: %.1f us plain, %.1f us with sanitizers\n",
           measure(module, &empty, false, least, true).launch * 1e6,
           measure(module, &empty, true, least, true).launch * 1e6);
    emu_module_destroy(&module);
    return 0;
}

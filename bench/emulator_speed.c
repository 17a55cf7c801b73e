// SPDX-License-Identifier: MIT
// Measures how many lane-instructions per second the emulator executes on one core: arithmetic in
// registers, memory, shared memory with barriers, divergence; with and without sanitizers; by
// processor time, which other processes do not affect, and by wall clock. Also measures the time of
// a nearly empty launch.
//
//     emulator_speed [SECONDS [NAME]]      minimum time of each measurement, default 0.5; of all
//                                          kernels, or of one: "shared memory"
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "exec/exec.h"

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
#define LOOP(times, body)                                                                          \
    HEAD "L:\n" body "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, " times ";\n@%p1 bra L;\n"

static const struct {
    const char *name, *text;
} kernels[] = {
    { "integers",
      LOOP("1000",
           "mad.lo.u32 %r3, %r3, 5, %r4;\nxor.b32 %r3, %r3, %r1;\n"
           "shr.u32 %r8, %r3, 3;\nadd.u32 %r3, %r3, %r8;\n"
           "mul.wide.u32 %rd4, %r3, %r8;\nadd.u64 %rd5, %rd4, %rd2;\n") "st.global.u32 [%rd3], "
                                                                        "%r3;\nret;\n}\n" },
    { "f32",
      LOOP("1000",
           "fma.rn.f32 %f2, %f1, 0f3F000000, 0f3F800000;\nadd.rn.f32 %f3, %f2, %f1;\n"
           "mul.rn.f32 %f1, %f3, 0f3F000000;\nsub.rn.f32 %f4, %f1, %f2;\n"
           "fma.rn.f32 %f1, %f4, 0f3A000000, %f1;\n") "st.global.f32 [%rd3], %f1;\nret;\n}\n" },
    { "f64",
      LOOP("1000",
           "fma.rn.f64 %fd2, %fd1, 0d3FE0000000000000, %fd1;\n"
           "mul.rn.f64 %fd1, %fd2, 0d3FE0000000000000;\ncvt.rn.f32.f64 %f1, %fd1;\n"
           "cvt.f64.f32 %fd3, %f1;\nadd.rn.f64 %fd1, %fd1, %fd3;\n") "cvt.rn.f32.f64 %f1, "
                                                                     "%fd1;\nst.global.f32 "
                                                                     "[%rd3], %f1;\nret;\n}\n" },
    { "f32 ftz", LOOP("1000", "fma.rn.ftz.f32 %f2, %f1, 0f3F000000, 0f3F800000;\n"
                              "mul.rn.ftz.f32 %f3, %f2, %f1;\nadd.rz.f32 %f1, %f3, %f2;\n"
                              "mul.rn.f32 %f1, %f1, 0f3E000000;\n") "st.global.f32 [%rd3], "
                                                                    "%f1;\nret;\n}\n" },
    { "halves", LOOP("300", "fma.rn.f16x2 %r8, %r1, %r1, %r3;\nadd.rn.f16x2 %r3, %r8, %r1;\n"
                            "fma.rn.bf16x2 %r9, %r1, %r2, %r3;\nmul.rn.bf16x2 %r3, %r9, "
                            "%r3;\n") "st.global.u32 [%rd3], %r3;\nret;\n}\n" },
    { "gathers", LOOP("300", "mad.lo.u32 %r8, %r4, 5, %r3;\nand.b32 %r8, %r8, 2047;\n"
                             "mul.wide.u32 %rd4, %r8, 4;\nadd.u64 %rd4, %rd4, %rd1;\n"
                             "ld.global.u32 %r9, [%rd4];\nadd.u32 %r3, %r3, %r9;\n") "ret;\n}\n" },
    { "atomics", LOOP("300", "and.b32 %r8, %r3, 63;\nmul.wide.u32 %rd4, %r8, 4;\n"
                             "add.u64 %rd4, %rd4, %rd1;\nred.global.add.u32 [%rd4], 1;\n"
                             "add.u32 %r3, %r3, %r4;\n") "ret;\n}\n" },
    { "global memory", LOOP("300", "ld.global.f32 %f1, [%rd3];\nadd.rn.f32 %f1, %f1, 0f3F800000;\n"
                                   "st.global.f32 [%rd3], %f1;\n") "ret;\n}\n" },
    { "shared memory",
      LOOP("300", "st.shared.u32 [%r7], %r3;\nbar.sync 0;\nxor.b32 %r8, %r7, 64;\n"
                  "ld.shared.u32 %r9, [%r8];\nbar.sync 0;\n"
                  "add.u32 %r3, %r3, %r9;\nadd.u32 %r3, %r3, 1;\n") "st.global.u32 [%rd3], "
                                                                    "%r3;\nret;\n}\n" },
    { "shuffles", LOOP("300", "shfl.sync.bfly.b32 %r8, %r3, 7, 31, -1;\nadd.u32 %r3, %r3, %r8;\n"
                              "shfl.sync.down.b32 %r8, %r3, 1, 31, -1;\nadd.u32 %r3, %r3, "
                              "%r8;\n") "st.global.u32 [%rd3], %r3;\nret;\n}\n" },
    { "divergence",
      LOOP("300", "and.b32 %r8, %r1, 3;\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra A;\n"
                  "add.u32 %r3, %r3, %r4;\nxor.b32 %r3, %r3, %r1;\nbra B;\n"
                  "A: sub.u32 %r3, %r3, %r4;\nB: add.u32 %r3, %r3, 7;\n") "st.global.u32 [%rd3], "
                                                                          "%r3;\nret;\n}\n" },
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
        processor = lanes / (seconds(CLOCK_PROCESS_CPUTIME_ID) - processor);
        wall = lanes / (seconds(CLOCK_MONOTONIC) - wall);
        rates->wall = wall > rates->wall ? wall : rates->wall;
        rates->processor = processor > rates->processor ? processor : rates->processor;
    } while (seconds(CLOCK_MONOTONIC) - begin < least);
}

static struct rates measure(const struct emu_module *module, bool sanitize, double least,
                            bool launches)
{
    const struct emu_machine_config config = {
        .gpu = emu_gpu_of(90), .multiprocessors = 132, .sanitize = sanitize, .host_threads = 1
    };
    struct emu_memory *memory = emu_memory_create(UINT64_C(1) << 26, sanitize);
    struct emu_programs *programs = emu_programs_create(module);
    uint64_t bytes = BLOCKS * THREADS * 4, at = memory ? emu_memory_alloc(memory, bytes) : 0;
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    unsigned char *host = at ? emu_memory_access(memory, at, bytes, &shadow, &fault) : NULL;
    struct rates rates = { 0 };
    if (!host || !programs) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(host, 0, bytes);
    if (shadow)
        memset(shadow, 1, bytes);
    const struct emu_launch launch = { .module = module,
                                       .entry = emu_module_entry(module, "k"),
                                       .programs = programs,
                                       .grid = { launches ? 1 : BLOCKS, 1, 1 },
                                       .block = { THREADS, 1, 1 },
                                       .params = (const unsigned char *)&at };
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

int main(int argc, char **argv)
{
    const double least = argc > 1 ? strtod(argv[1], NULL) : 0.5;

    printf("million lane-instructions a second, one core, best run\n");
    printf("%-16s %18s   %18s\n", "", "plain", "sanitizers");
    printf("%-16s %9s %8s   %9s %8s\n", "", "processor", "wall", "processor", "wall");
    for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
        if (argc > 2 && strcmp(argv[2], kernels[k].name) != 0)
            continue;
        struct emu_module *module = parse(kernels[k].name, kernels[k].text);
        struct rates plain = measure(module, false, least, false);
        struct rates checked = measure(module, true, least, false);
        printf("%-16s %9.0f %8.0f   %9.0f %8.0f\n", kernels[k].name, plain.processor * 1e-6,
               plain.wall * 1e-6, checked.processor * 1e-6, checked.wall * 1e-6);
        emu_module_destroy(&module);
    }
    if (argc > 2)
        return 0;
    struct emu_module *module = parse("launch", HEAD "ret;\n}\n");
    printf("a launch of one block: %.1f us plain, %.1f us with sanitizers\n",
           measure(module, false, least, true).launch * 1e6,
           measure(module, true, least, true).launch * 1e6);
    emu_module_destroy(&module);
    return 0;
}

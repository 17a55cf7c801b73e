// SPDX-License-Identifier: MIT
/// What the suites of `ptxgen bench` share: a device with two events, random data, measuring, lines
/// of the report. A suite is a function that reports what it measures; false: it failed, and
/// bench.error has the reason.
#ifndef PTXGEN_TOOLS_BENCH_H
#define PTXGEN_TOOLS_BENCH_H

#include "json.h"
#include "output.h"
#include "place.h"
#include "progress.h"

#include <ptxgen/ptxgen.h>

enum { BENCH_MOST_SIZES = 16 };

struct bench_options {
    const char *only; ///< what has this in its name is measured; NULL: all
    unsigned samples; ///< of each measurement; 0: as many as the suite finds right
    uint64_t sizes[BENCH_MOST_SIZES];
    size_t size_count; ///< 0: the suite's own
    bool quiet;
};

struct bench {
    struct bench_options options;
    struct place place;
    struct opened gpu; ///< its device is NULL until bench_open()
    bool emulated;     ///< what the suite measures is the emulator's
    CUstream stream;
    CUevent start, stop;
    ptx_module *module; ///< of the two kernels
    const ptx_function *random, *hold;
    ptx_buffer *held;    ///< what `hold` writes
    ptx_buffer *flushed; ///< more than the L2 cache holds; made when it is first needed
    uint64_t freed;      ///< bytes of device memory, since something was measured
    double copy_rate;    ///< bytes a second of a copy on the device, read and written ones counted
    const char *suite;
    size_t chosen; ///< measurements that were asked for, over all suites
    FILE *text;
    struct output *json; ///< NULL: none
    struct progress progress;
    struct message error;
};

// ---- measuring ----------------------------------------------------------------------------------

struct bench_times {
    double median, least, most; ///< seconds
    unsigned samples;
};

/// Sorts the samples, of which there is one at least.
struct bench_times bench_summary(double *seconds, unsigned samples);

/// Work to be measured.
struct bench_work {
    ptx_status (*enqueue)(struct bench *b, const void *state); ///< puts it on the stream, once
    const void *state;
    bool cold; ///< L2 is swept before each time
};

/// How often something is measured by events.
unsigned bench_samples(const struct bench *b);
/// The time on the device, between two events, after a few turns to warm up. The host has it all on
/// the stream before the device begins, so that its own time is not in it.
bool bench_measure(struct bench *b, const struct bench_work *work, struct bench_times *times);
/// The host's time for one call of `enqueue`: means of so many calls in a row, in which nothing is
/// waited for.
bool bench_measure_host(struct bench *b, const struct bench_work *work, unsigned calls,
                        struct bench_times *times);

/// Measures the yardstick, a copy of so many bytes, and reports it.
bool bench_copy(struct bench *b, uint64_t bytes);

// ---- the device ---------------------------------------------------------------------------------

bool bench_open(struct bench *b);
void bench_close(struct bench *b);
/// PTX_OK, or sets the error to "WHAT: the library's message".
bool bench_ok(struct bench *b, ptx_status status, const char *what);
bool bench_wait(struct bench *b);
/// A buffer for bench_free(), or NULL with the error set.
ptx_buffer *bench_buffer(struct bench *b, uint64_t bytes);
/// Destroys it. What is measured next waits until that is over for the device, too.
void bench_free(struct bench *b, ptx_buffer **buffer);
/// A builder for the newest target that the device runs.
ptx_builder *bench_builder(struct bench *b);
/// Its module, loaded; NULL with the error set.
ptx_module *bench_load_module(struct bench *b, ptx_builder *builder);
/// Whether there are so many bytes of device memory to be had.
bool bench_has_room(struct bench *b, uint64_t bytes);

/// Random numbers repeat after so many 32-bit words. Word i holds sign and fraction bits of its own
/// and the exponents given by `ones`: 0x3f800000 makes an f32 in [1, 2) or (-2, -1], 0x3f803f80 two
/// bf16.
enum { BENCH_PERIOD = 1 << 20 };

/// What a word may hold at random, and what is set in each.
struct bench_random {
    uint32_t mask, ones;
};

/// For f32, f64, f16 and bf16.
struct bench_random bench_random_of(ptx_type dtype);
uint32_t bench_random_word(struct bench_random random, uint64_t i);
/// Fills `bytes`, a multiple of 4, at an address that is one, too. On the stream.
bool bench_randomize(struct bench *b, CUdeviceptr at, uint64_t bytes, ptx_type dtype);

// ---- the report ---------------------------------------------------------------------------------

/// Whether what has this name is to be measured.
bool bench_is_wanted(const struct bench *b, const char *name);
/// So many copies and measurements are to come. bench_step() says that one is done.
void bench_steps(struct bench *b, size_t copies, size_t measurements);
void bench_step(struct bench *b);

/// One line of text. Takes `facts`, an object, adds the suite and, of the emulator's figures, that
/// they are, and writes it as a line of JSON. False if memory ran out, then `facts` may be NULL.
bool bench_report(struct bench *b, json_t *facts, const char *format, ...) PTXGEN_PRINTF(3, 4);
/// The same for a time of the device: its rate and its ratio to the copy follow from `bytes`, of
/// what has to be read and written at least.
bool bench_report_times(struct bench *b, json_t *facts, const char *label,
                        const struct bench_times *times, double bytes);
/// Writes an object, which it takes, as a line of JSON if there is to be any. False for NULL.
bool bench_write(struct bench *b, json_t *facts);
/// Adds to an object and returns it; both are taken. Whether memory ran out, bench_write() finds.
json_t *bench_with(json_t *facts, const char *key, json_t *value);
/// Adds the members of `more` in the same way.
json_t *bench_with_all(json_t *facts, json_t *more);
/// A line about what was not measured, and why.
bool bench_report_missing(struct bench *b, json_t *facts, const char *label, const char *reason);

// ---- the suites ---------------------------------------------------------------------------------

bool bench_suite_emit(struct bench *b);
bool bench_suite_load(struct bench *b);
bool bench_suite_kernels(struct bench *b);
bool bench_suite_clip(struct bench *b);
bool bench_suite_growth(struct bench *b);
bool bench_suite_step(struct bench *b);

#endif

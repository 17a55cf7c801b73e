// SPDX-License-Identifier: MIT
/// What the suites of ptxgen_bench share: a device with two events, random data, measurements,
/// lines of the report. A suite is a function that measures and reports. It returns false on an
/// error, with the reason in bench.error.
#ifndef PTXGEN_BENCH_H
#define PTXGEN_BENCH_H

#include "json.h"
#include "output.h"
#include "place.h"
#include "progress.h"

#include <ptxgen/ptxgen.h>

enum { BENCH_MOST_SIZES = 16 };

struct bench_options {
    const char *only; ///< measure only names that contain this; NULL: all
    unsigned samples; ///< per measurement; 0: the suite's default
    uint64_t sizes[BENCH_MOST_SIZES];
    size_t size_count; ///< 0: the suite's own
    bool quiet;
};

struct bench {
    struct bench_options options;
    struct place place;
    struct opened gpu; ///< its device is NULL until bench_open()
    bool emulated;     ///< results are the emulator's
    CUstream stream;
    CUevent start, stop;
    ptx_module *module; ///< of the two kernels
    const ptx_function *random, *hold;
    ptx_buffer *held;    ///< what `hold` writes
    ptx_buffer *flushed; ///< larger than the L2 cache; allocated on first use
    uint64_t freed;      ///< bytes of device memory freed since the last measurement
    double copy_rate; ///< bytes per second of a copy on the device, reads and writes both counted
    const char *suite;
    size_t chosen; ///< number of selected measurements in all suites
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

/// Sorts the samples; there must be at least one.
struct bench_times bench_summary(double *seconds, unsigned samples);

/// Work to be measured.
struct bench_work {
    ptx_status (*enqueue)(struct bench *b,
                          const void *state); ///< puts the work on the stream, once
    const void *state;
    bool cold; ///< L2 is flushed before each run
    /// What comes before each run and is not measured; NULL: nothing.
    ptx_status (*prepare)(struct bench *b, const void *state);
};

/// How often work is measured with events.
unsigned bench_samples(const struct bench *b);
/// The time on the device between two events, after a few warm-up runs. The host puts everything on
/// the stream before the device starts, so host time is not included.
bool bench_measure(struct bench *b, const struct bench_work *work, struct bench_times *times);
/// Sets *graph to what `enqueue` puts on the stream.
bool bench_capture(struct bench *b, ptx_status (*enqueue)(struct bench *b, const void *state),
                   const void *state, ptx_graph **graph);
/// The host's time for one call of `enqueue`: the mean of a number of calls in a row that wait for
/// nothing.
bool bench_measure_host(struct bench *b, const struct bench_work *work, unsigned calls,
                        struct bench_times *times);

/// Measures a copy of this many bytes as the reference and reports it.
bool bench_copy(struct bench *b, uint64_t bytes);

// ---- the device ---------------------------------------------------------------------------------

bool bench_open(struct bench *b);
void bench_close(struct bench *b);
/// PTX_OK, or sets the error to "WHAT: the library's message".
bool bench_ok(struct bench *b, ptx_status status, const char *what);
bool bench_wait(struct bench *b);
/// A buffer to be destroyed with bench_free(), or NULL with the error set.
ptx_buffer *bench_buffer(struct bench *b, uint64_t bytes);
/// Destroys the buffer. The next measurement waits until the device has finished the work of
/// freeing.
void bench_free(struct bench *b, ptx_buffer **buffer);
/// A builder for the newest target that the device supports.
ptx_builder *bench_builder(struct bench *b);
/// The builder's module, loaded; NULL with the error set.
ptx_module *bench_load_module(struct bench *b, ptx_builder *builder);
/// Whether this many bytes of device memory are available.
bool bench_has_room(struct bench *b, uint64_t bytes);

/// The period of the random numbers in 32-bit words. Word i has its own sign and fraction bits and
/// the exponents given by `ones`: 0x3f800000 makes an f32 in [1, 2) or (-2, -1], 0x3f803f80 makes
/// two bf16.
enum { BENCH_PERIOD = 1 << 20 };

/// The bits of a word that are random, and the bits that are set in every word.
struct bench_random {
    uint32_t mask, ones;
};

/// For f32, f64, f16 and bf16.
struct bench_random bench_random_of(ptx_type dtype);
uint32_t bench_random_word(struct bench_random random, uint64_t i);
/// Fills `bytes` bytes, on the stream; address and size must be multiples of 4.
bool bench_randomize(struct bench *b, CUdeviceptr at, uint64_t bytes, ptx_type dtype);

// ---- the report ---------------------------------------------------------------------------------

/// Whether the measurement of this name was selected.
bool bench_is_wanted(const struct bench *b, const char *name);
/// Adds to the number of expected copies and measurements. bench_step() marks one as done.
void bench_steps(struct bench *b, size_t copies, size_t measurements);
void bench_step(struct bench *b);

/// Prints one line. Takes ownership of `facts`, an object, adds the suite and whether the figures
/// are the emulator's, and writes it as a line of JSON. Returns false if memory ran out; `facts`
/// may then be NULL.
bool bench_report(struct bench *b, json_t *facts, const char *format, ...) PTXGEN_PRINTF(3, 4);
/// The same for a time on the device. Adds the rate and its ratio to the copy, computed from
/// `bytes`, the least number of bytes that must be read and written.
bool bench_report_times(struct bench *b, json_t *facts, const char *label,
                        const struct bench_times *times, double bytes);
/// Writes an object, and takes ownership of it, as a line of JSON if JSON was requested. False for
/// NULL.
bool bench_write(struct bench *b, json_t *facts);
/// Adds a member to an object and returns the object; takes ownership of both. bench_write()
/// reports if memory ran out.
json_t *bench_with(json_t *facts, const char *key, json_t *value);
/// Adds the members of `more` in the same way.
json_t *bench_with_all(json_t *facts, json_t *more);
/// Prints a line about something that was not measured, and the reason.
bool bench_report_missing(struct bench *b, json_t *facts, const char *label, const char *reason);

// ---- the suites ---------------------------------------------------------------------------------

bool bench_suite_emit(struct bench *b);
bool bench_suite_load(struct bench *b);
bool bench_suite_kernels(struct bench *b);
bool bench_suite_clip(struct bench *b);
bool bench_suite_growth(struct bench *b);
bool bench_suite_step(struct bench *b);

#endif

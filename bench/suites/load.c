// SPDX-License-Identifier: MIT
// The time until a program has its first result, for each way to machine code: from opening the
// device, in a process that already has the primary context, until the sums of squared_sum are on
// the host.
//
// Libraries that a process has loaded stay loaded, so each sample runs in a process of its own,
// forked from this one, which must not have used CUDA before.
#define _GNU_SOURCE // nftw
#include "bench.h"
#include "clock.h"
#include "load_nvrtc.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Ways to machine code: X(name, key, description)
#define LOAD_WAYS(X)                                                                               \
    X(LOAD_COMPILED, "compiled", "ptxgen, compiled anew")                                          \
    X(LOAD_DRIVER_CACHE, "driver cache", "ptxgen, found in the driver's cache")                    \
    X(LOAD_NVRTC, "nvrtc", "CUDA C++ by NVRTC to machine code")

enum load_way {
#define LOAD_WAY(name, key, what) name,
    LOAD_WAYS(LOAD_WAY)
#undef LOAD_WAY
        LOAD_WAY_COUNT
};

/// Milliseconds of one process.
struct load_sample {
    double open;   ///< ptx_device_open()
    double text;   ///< writing the PTX; for NVRTC, compiling to machine code
    double load;   ///< ptx_module_load(), until the kernels can be launched
    double first;  ///< memory, data, launch, result
    double total;  ///< sum of all
    bool compiler; ///< the process had loaded the driver's compiler library at the end
    int registers; ///< of the kernel, per thread
};

struct load_summary {
    struct load_sample median; ///< of each time separately
    double least, most;        ///< of the total
    int samples;
    bool compiler; ///< in any sample
};

enum { LOAD_MOST_SAMPLES = 100 };

// ---- a sample -----------------------------------------------------------------------------------

enum { CHUNKS = 16, CHUNK = 4096, ELEMENTS = CHUNKS * CHUNK, OPEN_FILES = 8 };

/// The message from the process of a sample to its parent.
struct answer {
    bool done;
    struct load_sample sample;
    char error[512];
};

struct run {
    enum load_way way;
    int ordinal;
    ptx_device *gpu;
    ptx_builder *builder;
    ptx_module *module;
    ptx_buffer *x, *partials;
    struct load_nvrtc *nvrtc;
    struct answer *answer;
};

/// In milliseconds.
static double now(void)
{
    return clock_now() * 1e3;
}

static bool failed(struct run *run, const char *what)
{
    snprintf(run->answer->error, sizeof(run->answer->error), "%s: %s", what, ptx_error_message());
    return false;
}

static bool is_mapped(const char *name)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static const char *write_text(struct run *run)
{
    static const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    run->builder = ptx_builder_create(NULL);
    ptx_kernel_emit(run->builder, ptx_kernel_find("squared_sum"), &spec);
    const char *text = ptx_builder_finish(run->builder);
    if (!text)
        snprintf(run->answer->error, sizeof(run->answer->error), "%s",
                 ptx_builder_error(run->builder));
    return text;
}

static bool make_code(struct run *run)
{
    struct load_sample *sample = &run->answer->sample;
    const double start = now();
    if (run->way == LOAD_NVRTC) {
        run->nvrtc = load_nvrtc_compile(run->gpu, run->answer->error, sizeof(run->answer->error));
        sample->text = now() - start;
        return run->nvrtc &&
               load_nvrtc_load(run->nvrtc, run->answer->error, sizeof(run->answer->error));
    }
    const char *text = write_text(run);
    sample->text = now() - start;
    if (!text)
        return false;
    run->module = ptx_module_load(run->gpu, text, NULL);
    return run->module ? true : failed(run, "load");
}

static bool launch(struct run *run, uint64_t n)
{
    CUdeviceptr x = ptx_buffer_address(run->x);
    CUdeviceptr partials = ptx_buffer_address(run->partials);
    if (run->way == LOAD_NVRTC)
        return load_nvrtc_launch(run->nvrtc, x, n, partials, CHUNKS, run->answer->error,
                                 sizeof(run->answer->error));
    struct ptx_geometry shape = { 0 };
    const struct ptx_arg args[] = { PTX_ARG(x), PTX_ARG(n), PTX_ARG(partials) };
    if (!ptx_kernel_geometry(ptx_kernel_find("squared_sum"), PTX_F32, n, &shape) ||
        shape.grid != CHUNKS) {
        snprintf(run->answer->error, sizeof(run->answer->error), "%u partials, not %d", shape.grid,
                 CHUNKS);
        return false;
    }
    return ptx_launch(ptx_module_function(run->module, "squared_sum_f32"),
                      &(struct ptx_launch_params) {
                          .grid = { shape.grid }, .args = args, .arg_count = 3 }) == PTX_OK ||
           failed(run, "launch");
}

static bool first_result(struct run *run, const float *ones)
{
    double sums[CHUNKS] = { 0 };
    run->x = ptx_buffer_create(run->gpu, ELEMENTS * sizeof(*ones));
    run->partials = ptx_buffer_create(run->gpu, sizeof(sums));
    if (!run->x || !run->partials ||
        ptx_buffer_upload(run->x, 0, ones, ELEMENTS * sizeof(*ones), NULL) != PTX_OK)
        return failed(run, "memory");
    if (!launch(run, ELEMENTS))
        return false;
    if (ptx_buffer_download(run->partials, 0, sums, sizeof(sums), NULL) != PTX_OK ||
        ptx_stream_synchronize(run->gpu, NULL) != PTX_OK)
        return failed(run, "result");
    for (int i = 0; i < CHUNKS; i++)
        if (sums[i] != CHUNK) {
            snprintf(run->answer->error, sizeof(run->answer->error), "the sum is %g", sums[i]);
            return false;
        }
    return true;
}

static bool timed(struct run *run, const float *ones)
{
    struct load_sample *sample = &run->answer->sample;
    const double start = now();
    run->gpu =
        ptx_device_open(&(struct ptx_device_params) { .ordinal = run->ordinal, .primary = true });
    if (!run->gpu)
        return failed(run, "open");
    const double opened = now();
    if (!make_code(run))
        return false;
    const double loaded = now();
    if (!first_result(run, ones))
        return false;
    const double end = now();
    sample->open = opened - start;
    sample->load = loaded - opened - sample->text;
    sample->first = end - loaded;
    sample->total = end - start;
    sample->compiler = is_mapped("ptxjitcompiler");
    if (run->module)
        sample->registers =
            ptx_function_get_info(ptx_module_function(run->module, "squared_sum_f32"))->registers;
    return true;
}

/// The process of a sample. The first device stays open, so that the context exists already.
static void take_sample(struct run *run)
{
    static float ones[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        ones[i] = 1.0f;
    ptx_device *warm =
        ptx_device_open(&(struct ptx_device_params) { .ordinal = run->ordinal, .primary = true });
    ptx_buffer *some = warm ? ptx_buffer_create(warm, 4) : NULL;
    if (!some || ptx_buffer_fill(some, 0, 0, 4, NULL) != PTX_OK ||
        ptx_stream_synchronize(warm, NULL) != PTX_OK)
        failed(run, "open");
    else
        run->answer->done = timed(run, ones);
    load_nvrtc_destroy(&run->nvrtc);
    ptx_buffer_destroy(&run->partials);
    ptx_buffer_destroy(&run->x);
    ptx_module_unload(&run->module);
    ptx_builder_destroy(&run->builder);
    ptx_device_close(&run->gpu);
    ptx_buffer_destroy(&some);
    ptx_device_close(&warm);
}

static void in_child(enum load_way way, int ordinal, const char *scratch, int to)
{
    struct answer answer = { 0 };
    struct run run = { .way = way, .ordinal = ordinal, .answer = &answer };
    setenv("CUDA_CACHE_DISABLE", way == LOAD_DRIVER_CACHE ? "0" : "1", 1);
    setenv("CUDA_CACHE_PATH", scratch, 1);
    take_sample(&run);
    _exit(write(to, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
}

static bool ask_child(enum load_way way, int ordinal, const char *scratch, struct answer *answer)
{
    int ends[2];
    *answer = (struct answer) { .error = "the sample's process ended early" };
    if (pipe(ends) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0)
        in_child(way, ordinal, scratch, ends[1]);
    close(ends[1]);
    const ssize_t got = child > 0 ? read(ends[0], answer, sizeof(*answer)) : -1;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return got == (ssize_t)sizeof(*answer) && answer->done;
}

static int remove_one(const char *path, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts;
    (void)type;
    if (place->level > 0)
        remove(path);
    return 0;
}

static void empty_folder(const char *path)
{
    nftw(path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
}

static double median_of(const struct load_sample *samples, int count, size_t offset)
{
    double values[LOAD_MOST_SAMPLES];
    for (int i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&samples[i] + offset, sizeof(double));
    return bench_summary(values, (unsigned)count).median;
}

static struct load_summary summarise(const struct load_sample *samples, int count)
{
    struct load_summary summary = {
        .median = samples[0], .least = samples[0].total, .most = samples[0].total, .samples = count
    };
#define MEDIAN(field) median_of(samples, count, offsetof(struct load_sample, field))
    summary.median.open = MEDIAN(open);
    summary.median.text = MEDIAN(text);
    summary.median.load = MEDIAN(load);
    summary.median.first = MEDIAN(first);
    summary.median.total = MEDIAN(total);
    for (int i = 0; i < count; i++) {
        summary.compiler = summary.compiler || samples[i].compiler;
        if (samples[i].total < summary.least)
            summary.least = samples[i].total;
        if (samples[i].total > summary.most)
            summary.most = samples[i].total;
    }
    return summary;
}

/// Takes samples on GPU `ordinal`. `scratch` is an empty folder for the driver's cache; it is
/// emptied again. Returns false if this failed, with the reason in `error`.
static bool load_measure(enum load_way way, int ordinal, int samples, const char *scratch,
                         struct load_summary *summary, char *error, size_t error_size)
{
    struct load_sample taken[LOAD_MOST_SAMPLES];
    struct answer answer;
    bool done = samples > 0 && samples <= LOAD_MOST_SAMPLES;
    *summary = (struct load_summary) { 0 };
    snprintf(error, error_size, "samples are from 1 to %d", (int)LOAD_MOST_SAMPLES);
    for (int i = -1; i < samples && done; i++) {
        // The first sample fills the driver's cache, or loads the libraries' files into memory.
        done = ask_child(way, ordinal, scratch, &answer);
        if (!done)
            snprintf(error, error_size, "%s", answer.error);
        else if (i >= 0)
            taken[i] = answer.sample;
    }
    empty_folder(scratch);
    if (done)
        *summary = summarise(taken, samples);
    return done;
}

// ---- the suite ----------------------------------------------------------------------------------

enum { SAMPLES = 9, EMULATED_SAMPLES = 1 };

static const struct {
    const char *key, *what;
    bool optional; ///< not available on every machine
    bool emulated; ///< works on the emulator
} ways[] = {
#define WAY(name, key, what) { key, what, name == LOAD_NVRTC, name == LOAD_COMPILED },
    LOAD_WAYS(WAY)
#undef WAY
};

static bool report(struct bench *b, size_t way, const struct load_summary *s)
{
    const struct load_sample *m = &s->median;
    json_t *facts =
        json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:i}", "name", ways[way].key,
                  "samples", s->samples, "total_ms", m->total, "min_ms", s->least, "max_ms",
                  s->most, "open_ms", m->open, "text_ms", m->text, "load_ms", m->load, "first_ms",
                  m->first, "compiler_library", s->compiler, "registers", m->registers);
    return bench_report(b, facts,
                        "%-58s %10.2f ms (%.2f to %.2f) open %.2f, text %.2f, load %.2f, first "
                        "%.2f; %s the compiler library",
                        ways[way].what, m->total, s->least, s->most, m->open, m->text, m->load,
                        m->first, s->compiler ? "with" : "without");
}

static unsigned sample_count(const struct bench *b)
{
    const unsigned samples = b->options.samples ? b->options.samples
                             : b->emulated      ? EMULATED_SAMPLES
                                                : SAMPLES;
    return samples < LOAD_MOST_SAMPLES ? samples : LOAD_MOST_SAMPLES;
}

static bool measure(struct bench *b, size_t way, const char *scratch)
{
    char reason[512] = "the emulator has no machine code";
    struct load_summary summary;
    bool done = (ways[way].emulated || !b->emulated) &&
                load_measure((enum load_way)way, b->place.ordinal, (int)sample_count(b), scratch,
                             &summary, reason, sizeof(reason));
    bench_step(b);
    if (done)
        return report(b, way, &summary);
    if (b->emulated ? ways[way].emulated : !ways[way].optional)
        return message_set(&b->error, "%s: %s", ways[way].what, reason);
    return bench_report_missing(b, json_pack("{s:s}", "name", ways[way].key), ways[way].what,
                                reason);
}

bool bench_suite_load(struct bench *b)
{
    char scratch[4096];
    const char *folder = getenv("TMPDIR");
    size_t steps = 0;
    bool done = true;
    snprintf(scratch, sizeof(scratch), "%s/ptxgen-bench-XXXXXX",
             folder && folder[0] ? folder : "/tmp");
    if (!mkdtemp(scratch))
        return message_set(&b->error, "cannot make the folder %s: %s", scratch, strerror(errno));
    for (size_t way = 0; way < LOAD_WAY_COUNT; way++)
        steps += bench_is_wanted(b, ways[way].key);
    bench_steps(b, 0, steps);
    for (size_t way = 0; way < LOAD_WAY_COUNT && done; way++)
        if (bench_is_wanted(b, ways[way].key))
            done = measure(b, way, scratch);
    rmdir(scratch);
    return done;
}

// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // nftw
#include "bench/load_time.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNKS = 16, CHUNK = 4096, ELEMENTS = CHUNKS * CHUNK, OPEN_FILES = 8 };

/// What a sample's process tells the one that asked.
struct answer {
    bool done;
    bool no_gpu;
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

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
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

/// The process of a sample. The first device stays open: it is what makes the context a warm one.
static void take_sample(struct run *run)
{
    static float ones[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        ones[i] = 1.0f;
    ptx_device *warm =
        ptx_device_open(&(struct ptx_device_params) { .ordinal = run->ordinal, .primary = true });
    ptx_buffer *some = warm ? ptx_buffer_create(warm, 4) : NULL;
    run->answer->no_gpu = !warm && (ptx_error_status() == PTX_ERROR_NO_DRIVER ||
                                    ptx_error_status() == PTX_ERROR_NO_DEVICE);
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
    *answer = (struct answer) { .error = "the sample's process broke off" };
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

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const struct load_sample *samples, int count, size_t offset)
{
    double values[LOAD_MOST_SAMPLES];
    for (int i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&samples[i] + offset, sizeof(double));
    qsort(values, (size_t)count, sizeof(*values), by_size);
    return values[count / 2];
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

bool load_measure(enum load_way way, int ordinal, int samples, const char *scratch,
                  struct load_summary *summary, char *error, size_t error_size)
{
    struct load_sample taken[LOAD_MOST_SAMPLES];
    struct answer answer;
    bool done = samples > 0 && samples <= LOAD_MOST_SAMPLES;
    *summary = (struct load_summary) { 0 };
    snprintf(error, error_size, "samples are from 1 to %d", (int)LOAD_MOST_SAMPLES);
    for (int i = -1; i < samples && done; i++) {
        // The first fills the driver's cache; or brings the libraries' files into memory.
        done = ask_child(way, ordinal, scratch, &answer);
        summary->no_gpu = answer.no_gpu;
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

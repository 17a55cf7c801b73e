// SPDX-License-Identifier: MIT
// What .line_info costs an example's text: bytes, and microseconds from create to text. Compiled
// with the example in place of its host.c; bench/line_info.py does that.
#define _POSIX_C_SOURCE 200809L
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 401 };

// The example's run is not called.
CUdeviceptr host_upload(struct host *host, const void *data, size_t bytes)
{
    (void)host, (void)data, (void)bytes;
    return 0;
}

CUdeviceptr host_zeros(struct host *host, size_t bytes)
{
    return host_upload(host, NULL, bytes);
}

CUdeviceptr host_upload_floats(struct host *host, ptx_type type, float *x, size_t n)
{
    (void)type;
    return host_upload(host, x, n);
}

void host_launch(struct host *host, const char *entry, const struct ptx_launch_params *params)
{
    (void)host, (void)entry, (void)params;
}

bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes)
{
    (void)host, (void)from, (void)data, (void)bytes;
    return false;
}

bool host_download_floats(struct host *host, ptx_type type, CUdeviceptr from, float *x, size_t n)
{
    (void)type;
    return host_download(host, from, x, n);
}

void *host_alloc(struct host *host, size_t count, size_t bytes)
{
    (void)host, (void)count, (void)bytes;
    return NULL;
}

float *host_random_array(struct host *host, size_t n, float low, float high)
{
    (void)low, (void)high;
    return host_alloc(host, n, sizeof(float));
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

// Writes the text to FOLDER/without.ptx and FOLDER/with.ptx, for the sm of the second argument.
int main(int argc, char **argv)
{
    static const char *const names[] = { "without", "with" };
    static double took[2][TURNS];
    size_t bytes[2] = { 0 };

    if (argc < 3)
        return 2;
    for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
        const unsigned way = turn % 2;
        const double begin = now();
        ptx_builder *b = ptx_builder_create(
            &(struct ptx_builder_params) { .target = { .sm = atoi(argv[2]) },
                                           .line_info = way == 1,
                                           .source_folder = way ? "/home/me" : NULL });
        example.build(b);
        const char *text = ptx_builder_finish(b);
        took[way][turn / 2] = now() - begin;
        if (!text) {
            fprintf(stderr, "%s\n", ptx_builder_error(b));
            return 1;
        }
        bytes[way] = strlen(text);
        if (turn < 2) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s.ptx", argv[1], names[way]);
            FILE *file = fopen(path, "w");
            if (!file || fputs(text, file) < 0 || fclose(file))
                return 1;
        }
        ptx_builder_destroy(&b);
    }
    for (unsigned way = 0; way < 2; way++)
        qsort(took[way], TURNS, sizeof **took, by_value);
    printf("%zu %zu %.1f %.1f %.1f %.1f\n", bytes[0], bytes[1], took[0][TURNS / 2],
           took[1][TURNS / 2], took[0][0], took[1][0]);
    return 0;
}

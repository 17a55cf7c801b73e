// SPDX-License-Identifier: MIT
// Prints the time to the first result for each way to machine code; with a file name, writes the
// same as JSON lines.
//
//     bench_load [-n SAMPLES] [-o FILE]
#define _GNU_SOURCE // mkdtemp
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

static const struct {
    const char *key, *what;
} ways[] = {
#define WAY(name, key, what) { key, what },
    LOAD_WAYS(WAY)
#undef WAY
};

static void report(FILE *json, enum load_way way, const struct load_summary *s)
{
    const struct load_sample *m = &s->median;
    printf("%-46s %8.2f ms (%.2f to %.2f)  open %.2f  text %.2f  load %.2f  first %.2f  %s\n",
           ways[way].what, m->total, s->least, s->most, m->open, m->text, m->load, m->first,
           s->compiler ? "with the compiler library" : "without");
    if (json)
        fprintf(json,
                "{\"way\": \"%s\", \"samples\": %d, \"total_ms\": %.4f, \"min_ms\": %.4f, "
                "\"max_ms\": %.4f, \"open_ms\": %.4f, \"text_ms\": %.4f, \"load_ms\": %.4f, "
                "\"first_ms\": %.4f, \"compiler_library\": %s, \"registers\": %d}\n",
                ways[way].key, s->samples, m->total, s->least, s->most, m->open, m->text, m->load,
                m->first, s->compiler ? "true" : "false", m->registers);
}

int main(int count, char **arguments)
{
    int samples = 9;
    FILE *json = NULL;
    char error[512] = "";
    char scratch[] = "/tmp/ptxgen-bench-load-XXXXXX";
    int status = 0;
    for (int option; (option = getopt(count, arguments, "n:o:")) != -1;) {
        if (option == 'n')
            samples = atoi(optarg);
        else if (option != 'o' || !(json = fopen(optarg, "w"))) {
            fprintf(stderr, "usage: bench_load [-n SAMPLES] [-o FILE]\n");
            return 2;
        }
    }
    if (!mkdtemp(scratch)) {
        perror("bench_load");
        return 1;
    }
    for (int way = 0; way < LOAD_WAY_COUNT && status == 0; way++) {
        struct load_summary summary;
        if (load_measure((enum load_way)way, 0, samples, scratch, &summary, error, sizeof(error))) {
            report(json, (enum load_way)way, &summary);
        } else {
            printf("%-46s not measured: %s\n", ways[way].what, error);
            if (way != LOAD_NVRTC) // which not every machine has
                status = summary.no_gpu ? EXIT_SKIPPED : 1;
        }
        fflush(stdout);
    }
    rmdir(scratch);
    if (json)
        fclose(json);
    return status;
}

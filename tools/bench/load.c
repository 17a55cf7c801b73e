// SPDX-License-Identifier: MIT
// The time from a warm context to the first result, for each way to machine code.
#include "bench/bench.h"
#include "bench/load_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 9, EMULATED_SAMPLES = 1 };

static const struct {
    const char *key, *what;
    bool optional; ///< not every machine has it
    bool emulated; ///< the emulator has it
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

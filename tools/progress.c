// SPDX-License-Identifier: MIT
#include "progress.h"
#include "clock.h"
#include "message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 40 };

static const double interval = 0.1; // minimum seconds between updates

static bool is_due(struct progress *progress)
{
    double now = clock_now();
    if (progress->drawn && now - progress->last < interval)
        return false;
    progress->last = now;
    return true;
}

static void draw(struct progress *progress)
{
    char bar[WIDTH + 1];
    double scale;
    const char *unit = byte_unit((double)progress->total, &scale);
    double part = progress->total > 0 ? (double)progress->done / (double)progress->total : 1;
    size_t filled = part < 1 ? (size_t)(part * WIDTH) : WIDTH;
    memset(bar, '=', filled);
    memset(bar + filled, ' ', WIDTH - filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3d %%  ", bar, (int)(part < 1 ? part * 100 : 100));
    if (progress->steps)
        fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64, progress->steps, progress->done,
                progress->total);
    else
        fprintf(stderr, "%.2f of %.2f %s", (double)progress->done / scale,
                (double)progress->total / scale, unit);
    fflush(stderr);
    progress->drawn = true;
}

void progress_begin_steps(struct progress *progress, uint64_t total, const char *steps, bool quiet)
{
    const char *terminal = getenv("TERM");
    bool able = terminal && strcmp(terminal, "dumb") != 0 && isatty(STDERR_FILENO);
    *progress = (struct progress) { .on = able && !quiet, .total = total, .steps = steps };
    progress_add(progress, 0);
}

void progress_begin(struct progress *progress, uint64_t total, bool quiet)
{
    progress_begin_steps(progress, total, NULL, quiet);
}

void progress_add(struct progress *progress, uint64_t bytes)
{
    progress->done += bytes;
    if (progress->on && is_due(progress))
        draw(progress);
}

void progress_hide(struct progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void progress_end(struct progress *progress)
{
    progress_hide(progress);
    progress->on = false;
}

// SPDX-License-Identifier: MIT
// For LD_PRELOAD: makes a program's calls of the C library fail. It does not affect the programs
// that this program starts.
//
//     FAULT_ALLOCATION=N    the N-th allocation fails, counted from 1 over all threads
//     FAULT_COUNT=FILE      the number of allocations is written to FILE at the end
//     FAULT_NAMELESS=1      the file system has no nameless files (O_TMPFILE)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*next_malloc)(size_t size);
static void *(*next_calloc)(size_t count, size_t size);
static void *(*next_realloc)(void *memory, size_t size);
static int (*next_posix_memalign)(void **memory, size_t alignment, size_t size);
static void *(*next_aligned_alloc)(size_t alignment, size_t size);
static void (*next_free)(void *memory);
static int (*next_open)(const char *path, int flags, ...);

static atomic_long allocations;
static long failing;
static bool nameless;
static const char *count_path;

/// Memory for allocations during the look-up of the functions above. It is never freed.
static _Alignas(max_align_t) char early[1 << 14];
static size_t early_used;
static bool looking_up;

static void *allocate_early(size_t size)
{
    const size_t rounded = (size + 15) / 16 * 16;
    if (rounded > sizeof(early) - early_used)
        return NULL;
    early_used += rounded;
    return early + early_used - rounded;
}

static bool is_early(const void *memory)
{
    return (const char *)memory >= early && (const char *)memory < early + sizeof(early);
}

static void look_up(void *function, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof(symbol)); // ISO C has no conversion to a function
}

static void set_up(void)
{
    if (next_free || looking_up)
        return;
    looking_up = true;
    look_up(&next_malloc, "malloc");
    look_up(&next_calloc, "calloc");
    look_up(&next_realloc, "realloc");
    look_up(&next_posix_memalign, "posix_memalign");
    look_up(&next_aligned_alloc, "aligned_alloc");
    look_up(&next_open, "open");
    look_up(&next_free, "free");
    looking_up = false;
}

/// Earlier allocations, for example a sanitizer's, do not count: there is no environment yet.
__attribute__((constructor)) static void begin(void)
{
    set_up();
    const char *number = getenv("FAULT_ALLOCATION");
    failing = number ? atol(number) : 0;
    nameless = getenv("FAULT_NAMELESS");
    count_path = getenv("FAULT_COUNT");
    atomic_store(&allocations, 0);
    unsetenv("LD_PRELOAD");
}

static bool fails(void)
{
    if (atomic_fetch_add(&allocations, 1) + 1 != failing)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    set_up();
    if (looking_up)
        return allocate_early(size);
    return fails() ? NULL : next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    set_up();
    if (looking_up)
        return allocate_early(count * size);
    return fails() ? NULL : next_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    set_up();
    if (is_early(memory)) {
        void *moved = malloc(size);
        const size_t most = (size_t)(early + sizeof(early) - (char *)memory);
        return moved ? memcpy(moved, memory, size < most ? size : most) : NULL;
    }
    return fails() ? NULL : next_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    set_up();
    return fails() ? ENOMEM : next_posix_memalign(memory, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    set_up();
    return fails() ? NULL : next_aligned_alloc(alignment, size);
}

void free(void *memory)
{
    set_up();
    if (memory && !is_early(memory))
        next_free(memory);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = flags & O_CREAT || is_nameless ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    set_up();
    if (nameless && is_nameless) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return next_open(path, flags, mode);
}

__attribute__((destructor)) static void report(void)
{
    char text[32];
    const int length = snprintf(text, sizeof(text), "%ld\n", atomic_load(&allocations));
    const int file = count_path ? next_open(count_path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (file >= 0 && write(file, text, (size_t)length) == length)
        close(file);
}

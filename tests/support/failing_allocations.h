// SPDX-License-Identifier: MIT
/// Counts the program's allocations and makes one of them fail. Include it in one source of a test
/// that is linked with --wrap for malloc, calloc, realloc and free.
#ifndef PTXGEN_TESTS_FAILING_ALLOCATIONS_H
#define PTXGEN_TESTS_FAILING_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static int allocations;
/// The number of the allocation that fails, from 1; 0: none.
static int failing_allocation;

/// Blocks allocated and not freed. libc's own allocations do not count, but its frees may. So
/// growth is a leak.
static int live_allocations;

/// Called by each allocation and each free, and not by its own; NULL: none.
static void (*at_allocation)(void);

static void call_at_allocation(void)
{
    void (*const call)(void) = at_allocation;

    at_allocation = NULL;
    if (call)
        call();
    at_allocation = call;
}

static bool allocation_fails(void)
{
    call_at_allocation();
    return ++allocations == failing_allocation;
}

static void *counted(void *memory)
{
    live_allocations += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (allocation_fails())
        return NULL;
    void *moved = __real_realloc(memory, size);
    return memory ? moved : counted(moved);
}

void __wrap_free(void *memory)
{
    call_at_allocation();
    live_allocations -= memory != NULL;
    __real_free(memory);
}

#endif

// SPDX-License-Identifier: MIT
/// The program's allocations counted, one of them made to fail. For the one source of a test that
/// is linked with --wrap for malloc, calloc and realloc.
#ifndef PTXGEN_TESTS_FAILING_ALLOCATIONS_H
#define PTXGEN_TESTS_FAILING_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static int allocations;
/// The number of the one that fails, from 1; 0: none.
static int failing_allocation;

static bool allocation_fails(void)
{
    return ++allocations == failing_allocation;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(memory, size);
}

#endif

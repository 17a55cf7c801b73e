// SPDX-License-Identifier: MIT
/// The fake libcuda in tests of the driver layer. Checks that a test leaves nothing behind.
#ifndef PTXGEN_TESTS_DRIVER_FIXTURE_H
#define PTXGEN_TESTS_DRIVER_FIXTURE_H

#include "driver_checks.h"
#include "fake_libcuda.h"

static struct fake_cuda *fake;

/// Loads the fake at this path, and makes the library use it through PTXGEN_LIBCUDA.
static inline struct fake_cuda *fake_open(const char *path)
{
    setenv("PTXGEN_LIBCUDA", path, 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    struct fake_cuda *(*reins)(void) = NULL;
    void *symbol = dlsym(library, "fake_cuda");
    memcpy(&reins, &symbol, sizeof(reins));
    return reins();
}

static inline int fake_setup(void **state)
{
    (void)state;
    if (!fake)
        fake = fake_open(FAKE_LIBCUDA);
    if (!fake)
        return -1;
    fake->reset();
    return 0;
}

/// Nothing is left over; the thread's context and capture mode are unchanged.
static inline int fake_teardown(void **state)
{
    (void)state;
    assert_int_equal(atomic_load(&fake->alive), 0);
    assert_int_equal(atomic_load(&fake->violations), 0);
    assert_int_equal(fake->context_depth(), 0);
    assert_int_equal(fake->capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    return 0;
}

#define FAKE_TEST(name) TEST_WITH(name, fake_setup, fake_teardown)

#endif

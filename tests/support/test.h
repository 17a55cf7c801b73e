// SPDX-License-Identifier: MIT
/// A test of cmocka stands once, where it is defined. A program runs its tests in their order, and
/// needs no main() for that. This header includes cmocka, and the four headers that it needs before
/// its own.
#ifndef PTXGEN_TESTS_TEST_H
#define PTXGEN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "owned.h"

/// The head of a test. Its body follows.
#define TEST(name) TEST_WITH(name, NULL, NULL)
/// The same, between a set-up and a tear-down. NULL: none. `state` is what the set-up left.
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        tests_add((struct CMUnitTest) { #name, name, set_up, tear_down, NULL });                   \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

void tests_add(struct CMUnitTest test);

/// Runs the program's tests, between a set-up and a tear-down of all. NULL: none. Returns the
/// number that failed, or 1 if there are none.
int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
/// The same with this `state`, for programs that run their tests more than once.
int tests_run_on(const void *state);

#endif

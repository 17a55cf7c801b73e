// SPDX-License-Identifier: MIT
/// A test of cmocka stands once, where it is defined. A program runs its tests in their order. This
/// header includes cmocka, and the four headers that it needs before its own.
#ifndef PTXGEN_TESTS_TEST_H
#define PTXGEN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/// The head of a test. Its body follows.
#define TEST(name) TEST_WITH(name, NULL, NULL)
/// The same, between a set-up and a tear-down. NULL: none. `state` is what the set-up left.
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        test_list.tests[test_list.count++ % TESTS_MOST] =                                          \
            (struct CMUnitTest) { #name, name, set_up, tear_down, NULL };                          \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

enum { TESTS_MOST = 64 };
static struct {
    size_t count;
    struct CMUnitTest tests[TESTS_MOST];
} test_list __attribute__((unused));

/// Runs the program's tests, between a set-up and a tear-down of all. NULL: none. Returns the
/// number that failed.
static inline int tests_run(CMFixtureFunction before, CMFixtureFunction after)
{
    if (!test_list.count || test_list.count > TESTS_MOST)
        return 1;
    return _cmocka_run_group_tests("tests", test_list.tests, test_list.count, before, after);
}

/// The same with this `state`, for programs that run their tests more than once.
static inline int tests_run_on(const void *state)
{
    for (size_t k = 0; k < test_list.count && k < TESTS_MOST; k++)
        test_list.tests[k].initial_state = (void *)(uintptr_t)state;
    return tests_run(NULL, NULL);
}

#endif

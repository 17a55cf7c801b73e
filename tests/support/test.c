// SPDX-License-Identifier: MIT
#include "test.h"

enum { MOST = 64 };
static struct CMUnitTest tests[MOST];
static size_t count;

void tests_add(struct CMUnitTest test)
{
    if (count < MOST)
        tests[count] = test;
    count++;
}

int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    if (count == 0 || count > MOST)
        return 1;
    return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
}

int tests_run_on(const void *state)
{
    for (size_t k = 0; k < count && k < MOST; k++)
        tests[k].initial_state = (void *)(uintptr_t)state;
    return tests_run(NULL, NULL);
}

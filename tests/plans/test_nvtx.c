// SPDX-License-Identifier: MIT
// The ranges that plans and operations tell a profiler of; and that they run where its library is
// not to be had.
#define _POSIX_C_SOURCE 200809L // setenv
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "subjects.h"
#include "test.h"

static char *recorded;
static int *initialized;

static int set_up(void **state)
{
    void *library = dlopen(RECORDER, RTLD_NOW);

    if (library) {
        recorded = dlsym(library, "recorded");
        initialized = dlsym(library, "initialized");
    }
    return scene_set_up(state);
}

static void expect(const char *words)
{
    if (recorded) {
        assert_string_equal(recorded, words);
        recorded[0] = 0;
    }
}

static void take(const struct subject *subject, void *object, const char *name)
{
    const struct call *call = subject->calls;

    while (strcmp(call->name, name) != 0)
        call++;
    assert_int_equal(call->call(&scene, object, NULL), PTX_OK);
}

static void ranges(void **state)
{
    (void)state;
    void *plan = subject_create(&subjects[STEP_SUBJECT]);
    expect("domain ptxgen; push ptxgen ptx_step_plan_create; pop ptxgen; ");
    take(&subjects[STEP_SUBJECT], plan, "ptx_step_plan_run");
    expect("push ptxgen ptx_step_plan_run; pop ptxgen; ");
    take(&subjects[STEP_SUBJECT], plan, "ptx_step_plan_norm_sq");
    take(&subjects[STEP_SUBJECT], plan, "ptx_step_plan_finish");
    expect("push ptxgen ptx_step_plan_norm_sq; pop ptxgen; "
           "push ptxgen ptx_step_plan_finish; pop ptxgen; ");
    assert_int_equal(ptx_step_plan_finish(plan, NULL), PTX_ERROR_INVALID); // refused within it
    expect("push ptxgen ptx_step_plan_finish; pop ptxgen; ");
    assert_int_equal(ptx_step_plan_run(NULL, NULL), PTX_ERROR_INVALID); // before it
    expect("");
    subjects[STEP_SUBJECT].destroy(plan);

    plan = subject_create(&subjects[CLIP_SUBJECT]);
    expect("push ptxgen ptx_clip_plan_create; pop ptxgen; ");
    subjects[CLIP_SUBJECT].destroy(plan);

    void *operations = subject_create(&subjects[FIRST_OPERATION]);
    take(&subjects[FIRST_OPERATION], operations, "ptx_quantize_backward");
    expect("push ptxgen ptx_quantize_backward; pop ptxgen; ");
    subjects[FIRST_OPERATION].destroy(operations);
    if (initialized)
        assert_int_equal(*initialized, 1);
    assert_int_equal(recorded != NULL, strstr(RECORDER, "recorder") != NULL);
}

int main(void)
{
    setenv("NVTX_INJECTION64_PATH", RECORDER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges, set_up, scene_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

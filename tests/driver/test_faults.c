// SPDX-License-Identifier: MIT
/// Every operation, with each driver call in it and each allocation in it failing once: the error
/// is reported and named, nothing stays behind, and the thread's context is as before.
///
/// Linked with --wrap for malloc, calloc and realloc, so that the library's own can be made to
/// fail.
#include "failing_allocations.h"
#include "operations.h"

#include <limits.h>

/// Fails the call'th driver call of the operation.
static void fail_one_call(struct scene *scene, size_t i, int call, bool reported, int depth)
{
    int alive = atomic_load(&fake->alive);
    fake->fail_result = CUDA_ERROR_UNKNOWN;
    fake->failed = NULL;
    atomic_store(&fake->fail_at, call);
    ptx_status status = operations[i].run(scene);
    atomic_store(&fake->fail_at, 0);
    assert_non_null(fake->failed);
    if (status != PTX_OK) {
        assert_int_equal(status, PTX_ERROR_DRIVER);
        assert_int_equal(ptx_error_code(), CUDA_ERROR_UNKNOWN);
        assert_message("CUDA_ERROR_UNKNOWN (999)");
        assert_message(fake->failed);
    } else if (reported) {
        fail_msg("%s: failing %s, call %d, was not reported", operations[i].name, fake->failed,
                 call);
    }
    if (atomic_load(&fake->alive) != alive)
        fail_msg("%s: failing %s, call %d, left something behind", operations[i].name, fake->failed,
                 call);
    assert_int_equal(fake->context_depth(), depth);
    assert_int_equal(fake->capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void each_call_fails(int depth)
{
    for (size_t i = 0; i < operation_count; i++) {
        struct scene scene = scene_create(fake);
        int before = atomic_load(&fake->calls);
        scene.calls_when_made = INT_MAX;
        if (operations[i].run(&scene) != PTX_OK)
            fail_msg("%s: %s", operations[i].name, ptx_error_message());
        int calls = atomic_load(&fake->calls) - before;
        int reported = scene.calls_when_made - before;
        assert_true(calls > 0);
        for (int call = 1; call <= calls; call++)
            fail_one_call(&scene, i, call, call <= reported, depth);
        scene_destroy(&scene);
    }
}

static void each_driver_call_fails_once(void **state)
{
    (void)state;
    each_call_fails(0);
}

static void each_driver_call_fails_once_in_a_callers_context(void **state)
{
    (void)state;
    CUcontext context = fake->context_create(1);
    each_call_fails(1);
    fake->context_pop();
    free(context);
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < operation_count; i++) {
        struct scene scene = scene_create(fake);
        int alive = atomic_load(&fake->alive);
        for (int failing = 1;; failing++) {
            const int live = live_allocations;
            allocations = 0;
            failing_allocation = failing;
            ptx_status status = operations[i].run(&scene);
            failing_allocation = 0;
            assert_true(live_allocations <= live);
            assert_int_equal(atomic_load(&fake->alive), alive);
            assert_int_equal(fake->context_depth(), 0);
            if (allocations < failing) {
                assert_int_equal(status, PTX_OK);
                break;
            }
            if (status != PTX_ERROR_OUT_OF_MEMORY)
                fail_msg("%s: allocation %d failing gave %s", operations[i].name, failing,
                         ptx_status_name(status));
            assert_message("out of");
        }
        scene_destroy(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_TEST(each_driver_call_fails_once),
        FAKE_TEST(each_driver_call_fails_once_in_a_callers_context),
        FAKE_TEST(each_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

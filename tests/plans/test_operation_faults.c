// SPDX-License-Identifier: MIT
// The first call of each operation, which compiles, with each driver call and each allocation
// failing once: the error is reported, nothing is left over, and the next attempt works.
//
// Linked with --wrap for malloc, calloc, realloc and ptx_bind.
#include <ptxgen/binding.h>

#include "emulator_faults.h"
#include "failing_allocations.h"
#include "operation_calls.h"

static bool refuse_to_bind;
__typeof__(ptx_bind) __real_ptx_bind, __wrap_ptx_bind;

ptx_status __wrap_ptx_bind(const ptx_builder *b, unsigned e, const struct ptx_named_arg *values,
                           size_t value_count, struct ptx_arg *args, size_t room, size_t *arg_count)
{
    return refuse_to_bind ? PTX_ERROR_INVALID
                          : __real_ptx_bind(b, e, values, value_count, args, room, arg_count);
}

static void the_kernel_is_loaded_and_not_bound(void **state)
{
    (void)state;
    struct scene scene;
    scene_create(&scene);
    const int alive = objects_alive(), live = live_allocations;
    ptx_operations *operations = ptx_operations_create(scene.device, NULL);
    for (int i = 0; i < CALLS; i++) {
        refuse_to_bind = true;
        assert_int_equal(calls[i](&scene, operations), PTX_ERROR_INVALID);
        refuse_to_bind = false;
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
    }
    ptx_operations_destroy(&operations);
    assert_int_equal(live_allocations, live);
    assert_int_equal(objects_alive(), alive);
    scene_destroy(&scene);
}

static void each_driver_call_of_the_first_call_fails(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        struct scene scene;
        scene_create(&scene);
        const int alive = objects_alive();
        ptx_operations *operations = ptx_operations_create(scene.device, NULL);
        const int before = calls_so_far();
        if (calls[i](&scene, operations) != PTX_OK)
            fail_msg("%s", ptx_error_message());
        const int count = calls_so_far() - before;
        assert_true(count > 5);
        ptx_operations_destroy(&operations);
        for (int call = 1; call <= count; call++) {
            const int live = live_allocations;
            operations = ptx_operations_create(scene.device, NULL);
            const int launches = launches_so_far();
            fail_call(CUDA_ERROR_UNKNOWN, call);
            const ptx_status status = calls[i](&scene, operations);
            const char *failed = failed_function();
            fail_call(CUDA_SUCCESS, 0);
            assert_non_null(failed);
            if (status != PTX_ERROR_DRIVER || !strstr(ptx_error_message(), failed))
                fail_msg("failing %s, call %d of %d: %s", failed, call, count,
                         ptx_status_name(status));
            assert_thread_untouched(NULL);
            // After the last launch, only leaving the context can fail.
            assert_true(launches_so_far() < launches + launches_of[i] ||
                        strstr(failed, "cuCtxPop"));
            assert_int_equal(calls[i](&scene, operations), PTX_OK);
            ptx_operations_destroy(&operations);
            if (objects_alive() != alive || live_allocations != live)
                fail_msg("failing %s, call %d of %d, left something behind", failed, call, count);
        }
        scene_destroy(&scene);
    }
}

static void each_allocation_of_the_first_call_fails(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        struct scene scene;
        scene_create(&scene);
        const int alive = objects_alive();
        for (int failing = 1;; failing++) {
            const int live = live_allocations;
            allocations = 0;
            failing_allocation = failing;
            ptx_operations *operations = ptx_operations_create(scene.device, NULL);
            const ptx_status status =
                operations ? calls[i](&scene, operations) : ptx_error_status();
            const bool all = allocations < failing;
            failing_allocation = 0;
            if (status != (all ? PTX_OK : PTX_ERROR_OUT_OF_MEMORY))
                fail_msg("allocation %d failing gave %s", failing, ptx_status_name(status));
            ptx_operations_destroy(&operations);
            assert_int_equal(live_allocations, live);
            assert_int_equal(objects_alive(), alive);
            if (all)
                break;
        }
        scene_destroy(&scene);
    }
}

static void a_later_call_allocates_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_create(&scene);
    ptx_operations *operations = ptx_operations_create(scene.device, NULL);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
        allocations = 0;
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
        if (allocations)
            fail_msg("call %d allocated %d times", i, allocations);
    }
    ptx_operations_destroy(&operations);
    scene_destroy(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_driver_call_of_the_first_call_fails),
        cmocka_unit_test(each_allocation_of_the_first_call_fails),
        cmocka_unit_test(a_later_call_allocates_nothing),
        cmocka_unit_test(the_kernel_is_loaded_and_not_bound),
    };
    return cmocka_run_group_tests_name("operations: faults", tests, emulator_open, NULL);
}

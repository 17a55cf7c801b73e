// SPDX-License-Identifier: MIT
/// Creates and uses a plan of any kind, with each driver call and each allocation failing once: the
/// error is reported, nothing is left over, and the next attempt works. Include it in one source of
/// a test that is linked with --wrap for malloc, calloc and realloc.
#ifndef PTXGEN_TESTS_PLAN_FAULTS_H
#define PTXGEN_TESTS_PLAN_FAULTS_H

#include "emulator_faults.h"
#include "failing_allocations.h"

/// An operation of a plan.
struct plan_operation {
    ptx_status (*call)(void *plan, CUstream stream);
    const char *name; ///< of the public function
    bool allocates;
    ptx_status (*before)(void *plan, CUstream stream); ///< must come before each call; NULL: none
};

struct plan_kind {
    ptx_device *(*set_up)(void); ///< opens the device
    void (*tear_down)(void);     ///< closes it
    void *(*create)(void);
    void (*destroy)(void *plan);
    const struct plan_operation *operations; ///< the first one is a run
    size_t operation_count;
};

// Creation ends with the destruction of a stream, which cannot report a failure.
static int calls_of_stream_destroy(ptx_device *device)
{
    CUstream stream = ptx_stream_create(device);
    assert_non_null(stream);
    const int before = calls_so_far();
    ptx_stream_destroy(device, &stream);
    return calls_so_far() - before;
}

static void each_driver_call_of_creation_fails(void **state)
{
    const struct plan_kind *kind = *state;
    ptx_device *device = kind->set_up();
    const int before = calls_so_far();
    void *plan = kind->create();
    if (!plan)
        fail_msg("%s", ptx_error_message());
    const int calls = calls_so_far() - before - calls_of_stream_destroy(device);
    kind->destroy(plan);
    assert_true(calls > 5);
    for (int call = 1; call <= calls; call++) {
        const int alive = objects_alive(), live = live_allocations;
        fail_call(CUDA_ERROR_UNKNOWN, call);
        plan = kind->create();
        const char *failed = failed_function();
        fail_call(CUDA_SUCCESS, 0);
        assert_non_null(failed);
        if (plan)
            fail_msg("failing %s, call %d of %d, was not reported", failed, call, calls);
        assert_int_equal(ptx_error_status(), PTX_ERROR_DRIVER);
        assert_non_null(strstr(ptx_error_message(), failed));
        if (objects_alive() != alive || live_allocations != live)
            fail_msg("failing %s, call %d of %d, left something behind", failed, call, calls);
    }
    kind->tear_down();
}

static void each_allocation_of_creation_fails(void **state)
{
    const struct plan_kind *kind = *state;
    kind->set_up();
    allocations = failing_allocation = 0;
    const int live = live_allocations;
    void *plan = kind->create();
    const int count = allocations;
    assert_non_null(plan);
    kind->destroy(plan);
    assert_int_equal(live_allocations, live);
    assert_true(count > 5);
    for (int k = 1; k <= count; k++) {
        const int alive = objects_alive();
        allocations = 0;
        failing_allocation = k;
        plan = kind->create();
        failing_allocation = 0;
        if (plan)
            fail_msg("failing allocation %d of %d was not reported", k, count);
        assert_int_equal(ptx_error_status(), PTX_ERROR_OUT_OF_MEMORY);
        assert_int_equal(live_allocations, live);
        assert_int_equal(objects_alive(), alive);
    }
    kind->tear_down();
}

static void come_before(const struct plan_operation *operation, void *plan)
{
    if (operation->before)
        assert_int_equal(operation->before(plan, NULL), PTX_OK);
}

// One driver call of the operation, number `call`, returns the fault of an earlier kernel. The
// message names the operation, whichever driver call it was.
static void meet_a_fault(const struct plan_operation *operation, void *plan, int call)
{
    char begin[128];
    snprintf(begin, sizeof begin, "%s: an earlier kernel failed: CUDA_ERROR_LAUNCH_FAILED",
             operation->name);
    come_before(operation, plan);
    fail_call(CUDA_ERROR_LAUNCH_FAILED, call);
    assert_int_equal(operation->call(plan, NULL), PTX_ERROR_DRIVER);
    fail_call(CUDA_SUCCESS, 0);
    if (strncmp(ptx_error_message(), begin, strlen(begin)) != 0)
        fail_msg("%s: %s", operation->name, ptx_error_message());
}

static void check_allocations_of_operation(const struct plan_operation *operation, void *plan)
{
    come_before(operation, plan);
    allocations = 0;
    assert_int_equal(operation->call(plan, NULL), PTX_OK);
    const int count = allocations, live = live_allocations;
    if (operation->allocates != (count > 0))
        fail_msg("%s allocated %d times", operation->name, count);
    for (int k = 1; k <= count; k++) {
        allocations = 0;
        failing_allocation = k;
        const ptx_status status = operation->call(plan, NULL);
        failing_allocation = 0;
        assert_int_equal(status, PTX_ERROR_OUT_OF_MEMORY);
        assert_int_equal(live_allocations, live);
        assert_int_equal(operation->call(plan, NULL), PTX_OK);
    }
}

static void each_driver_call_of_a_use_fails(void **state)
{
    const struct plan_kind *kind = *state;
    kind->set_up();
    void *plan = kind->create();
    assert_non_null(plan);
    for (size_t i = 0; i < kind->operation_count; i++) {
        const struct plan_operation *operation = &kind->operations[i];
        come_before(operation, plan);
        const int before = calls_so_far();
        assert_int_equal(operation->call(plan, NULL), PTX_OK);
        const int calls = calls_so_far() - before, alive = objects_alive();
        for (int call = 1; call <= calls; call++) {
            come_before(operation, plan);
            fail_call(CUDA_ERROR_UNKNOWN, call);
            assert_int_equal(operation->call(plan, NULL), PTX_ERROR_DRIVER);
            fail_call(CUDA_SUCCESS, 0);
            assert_thread_untouched(NULL);
            assert_int_equal(operation->call(plan, NULL), PTX_OK); // it works again
            meet_a_fault(operation, plan, call);
        }
        check_allocations_of_operation(operation, plan);
        assert_int_equal(objects_alive(), alive);
    }
    kind->destroy(plan);
    kind->tear_down();
}

// A run that fails during the caller's capture does not end the capture. The plan works again
// afterwards.
static void each_driver_call_of_a_captured_run_fails(void **state)
{
    const struct plan_kind *kind = *state;
    ptx_device *device = kind->set_up();
    void *plan = kind->create();
    CUstream stream = ptx_stream_create(device);
    assert_true(plan && stream);
    int calls = 0;
    for (int call = 0; call <= calls; call++) {
        assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        const int before = calls_so_far();
        fail_call(CUDA_ERROR_UNKNOWN, call); // 0: none fails
        assert_int_equal(kind->operations[0].call(plan, stream), call ? PTX_ERROR_DRIVER : PTX_OK);
        fail_call(CUDA_SUCCESS, 0);
        calls = call ? calls : calls_so_far() - before;
        ptx_capture_abandon(device, stream);
        assert_int_equal(kind->operations[0].call(plan, stream), PTX_OK);
    }
    assert_true(calls > 5);
    ptx_stream_destroy(device, &stream);
    kind->destroy(plan);
    kind->tear_down();
}

/// All of the above, for the tests of a kind.
#define PLAN_FAULT_TESTS(kind)                                                                     \
    cmocka_unit_test_prestate(each_driver_call_of_creation_fails, kind),                           \
        cmocka_unit_test_prestate(each_allocation_of_creation_fails, kind),                        \
        cmocka_unit_test_prestate(each_driver_call_of_a_use_fails, kind),                          \
        cmocka_unit_test_prestate(each_driver_call_of_a_captured_run_fails, kind)

#endif

// SPDX-License-Identifier: MIT
// Pieces of work: kernels, copies, fills and calls of the host. Checked, run, copied.
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "work.h"

#include "module.h"
#include "transfer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

CUresult api_work_check(const struct api_work *work)
{
    if (work->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        return api_copy_check(work);
    return work->type == CU_GRAPH_NODE_TYPE_MEMSET ? api_set_check(&work->as.set) : CUDA_SUCCESS;
}

static void forget_overlap(void)
{
    emu_constants_destroy(api_state.overlap.writes);
    api_state.overlap = (struct api_overlap) { 0 };
}

static CUresult run_kernel(const struct api_work *work, char *report, size_t report_size)
{
    const struct api_config *config = &api_state.config;
    const struct CUfunc_st *function = work->as.kernel.function;
    const struct CUmod_st *module = function->module;
    struct emu_machine_config machine = {
        .gpu = api_gpu(),
        .multiprocessors = config->multiprocessors,
        .sanitize = config->sanitize,
        .warn = api_log,
        .print = api_print,
        .seed = config->seed,
        .host_threads = config->threads,
        .timeout_ms = config->timeout,
        .instructions = config->instructions,
    };
    struct emu_launch launch = {
        .module = module->program,
        .entry = function->entry,
        .programs = module->programs,
        .dynamic_shared = work->as.kernel.shared,
        .params = work->as.kernel.params,
        .global_base = module->global_base,
        .const_base = module->const_base,
        .grid_id = ++api_state.grids, // only the engine uses it
        .cooperative = work->as.kernel.cooperative,
        .heap = &module->object.context->heap,
    };
    struct api_overlap *before = &api_state.overlap; // only the engine uses it
    struct emu_constants *writes = NULL;
    if (work->as.kernel.programmatic && before->stream == work->as.kernel.stream)
        launch.primary = before->writes;
    launch.writes = &writes;
    memcpy(launch.grid, work->as.kernel.grid, sizeof(launch.grid));
    memcpy(launch.block, work->as.kernel.block, sizeof(launch.block));
    const int result = emu_run(&machine, api_state.memory, &launch, report, report_size);
    forget_overlap();
    *before = (struct api_overlap) { work->as.kernel.stream, writes };
    return (CUresult)result;
}

static void run_host(const struct api_work *work)
{
    const bool before = api_thread.in_callback, told_now = api_thread.told_now;
    const bool per_thread = api_thread.per_thread;
    const enum api_function call = api_thread.call;
    api_thread.in_callback = true;
    api_thread.per_thread = false;
    if (work->as.host.callback)
        work->as.host.callback(work->as.host.stream, atomic_load(&api_state.error),
                               work->as.host.data);
    else
        work->as.host.function(work->as.host.data);
    api_thread.in_callback = before;
    api_thread.per_thread = per_thread;
    api_thread.told_now = told_now;
    api_thread.call = call;
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void api_event_stamp(CUevent event)
{
    event->recorded = true;
    event->capture = 0;
    event->nanoseconds = nanoseconds();
}

void api_event_record(CUevent handle)
{
    pthread_mutex_lock(&api_state.lock);
    CUevent event = API_FIND(handle, API_EVENT);
    if (event)
        api_event_stamp(event);
    pthread_mutex_unlock(&api_state.lock);
}

CUresult api_work_run(const struct api_work *work, char *report, size_t report_size)
{
    report[0] = '\0';
    if (work->type != CU_GRAPH_NODE_TYPE_KERNEL)
        forget_overlap();
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return run_kernel(work, report, report_size);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return api_copy_run(work, report, report_size);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        api_set_run(&work->as.set);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        run_host(work);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        api_event_record(work->as.event);
        break;
    default:
        break;
    }
    return CUDA_SUCCESS;
}

/// Whether the context remains usable after a launch with this result, so that only the call
/// failed.
static bool refused(CUresult result)
{
    return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_OUT_OF_MEMORY ||
           result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ||
           result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE || result == CUDA_ERROR_NOT_SUPPORTED;
}

CUresult api_work_run_all(CUcontext context, const struct api_work *works, size_t count)
{
    char report[sizeof(api_state.report)];
    CUresult result = CUDA_SUCCESS;
    const size_t limit = api_current() ? api_current()->limits[CU_LIMIT_PRINTF_FIFO_SIZE] : 0;
    report[0] = '\0';
    api_engine_enter();
    api_print_flush(limit);
    for (size_t i = 0; i < count && !result && !atomic_load(&api_state.error); i++)
        result = works[i].disabled ? CUDA_SUCCESS : api_work_run(&works[i], report, sizeof(report));
    if (result && !refused(result))
        api_fail(context, result, report);
    api_engine_leave();
    if (result && report[0] && refused(result))
        api_explain(result, report);
    else if (result && report[0])
        api_report(report);
    // A kernel's failure is reported by a later call, a copy's at once.
    bool at_once = refused(result) || (count == 1 && works[0].type == CU_GRAPH_NODE_TYPE_MEMCPY);
    return at_once ? result : CUDA_SUCCESS;
}

CUresult api_work_copy(struct api_work *to, const struct api_work *from)
{
    *to = *from;
    if (from->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_SUCCESS;
    const struct emu_function *entry = from->as.kernel.function->entry;
    size_t count = entry->param_count, bytes = entry->param_bytes;
    to->as.kernel.params = calloc(1, bytes + 16);
    to->as.kernel.pointers = calloc(count + 1, sizeof(void *));
    if (!to->as.kernel.params || !to->as.kernel.pointers) {
        free(to->as.kernel.params);
        free(to->as.kernel.pointers);
        to->type = CU_GRAPH_NODE_TYPE_EMPTY;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(to->as.kernel.params, from->as.kernel.params, bytes);
    for (size_t i = 0; i < count; i++)
        to->as.kernel.pointers[i] =
            to->as.kernel.params +
            ((unsigned char *)from->as.kernel.pointers[i] - from->as.kernel.params);
    from->as.kernel.function->module->references++;
    return CUDA_SUCCESS;
}

void api_work_clear(struct api_work *work)
{
    if (work->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        free(work->as.kernel.params);
        free(work->as.kernel.pointers);
        api_module_release(work->as.kernel.function->module);
    }
    memset(work, 0, sizeof(*work));
    work->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

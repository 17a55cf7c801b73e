// SPDX-License-Identifier: MIT
// Streams and events, and the work submitted to them: checked, then run at once or stored in a
// graph.
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- work ---------------------------------------------------------------------------------------

CUresult api_work_check(const struct api_work *work)
{
    if (work->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        return api_copy_check(work);
    return work->type == CU_GRAPH_NODE_TYPE_MEMSET ? api_set_check(&work->as.set) : CUDA_SUCCESS;
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
    memcpy(launch.grid, work->as.kernel.grid, sizeof(launch.grid));
    memcpy(launch.block, work->as.kernel.block, sizeof(launch.block));
    return (CUresult)emu_run(&machine, api_state.memory, &launch, report, report_size);
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

CUresult api_work_run(const struct api_work *work, char *report, size_t report_size)
{
    report[0] = '\0';
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
    char report[sizeof(api_state.report)] = "";
    CUresult result = CUDA_SUCCESS;
    const size_t limit = api_current() ? api_current()->limits[CU_LIMIT_PRINTF_FIFO_SIZE] : 0;
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

CUresult api_submit(CUstream stream, struct api_work *work)
{
    CUresult result = CUDA_SUCCESS;
    struct api_capture *capture = stream->capture;
    if (capture && capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!result)
        result = api_work_check(work);
    if (result || !capture) {
        if (!result)
            result = api_work_run_all(stream->context, work, 1);
        api_work_clear(work);
        return capture ? api_capture_fail(capture, result) : result;
    }
    CUgraphNode node = NULL;
    result = api_graph_add(capture->graph, work, stream->tail, stream->tail_count, &node);
    if (!result && !api_nodes_copy(&stream->tail, &stream->tail_count, &node, 1))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return result ? api_capture_fail(capture, result) : CUDA_SUCCESS;
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

// ---- streams ------------------------------------------------------------------------------------

static CUstream create(enum api_kind kind, CUcontext context, unsigned flags, int priority)
{
    CUstream made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    api_object_add(&made->object, kind, (uint64_t)(uintptr_t)made, context);
    made->context = context;
    made->flags = flags;
    made->priority = priority;
    made->id = api_new_id();
    made->thread = pthread_self();
    return made;
}

void api_stream_free(CUstream stream)
{
    api_capture_leave(stream);
    api_object_remove(&stream->object);
    free(stream->tail);
    free(stream);
}

static CUstream per_thread(CUcontext context)
{
    CUstream stream = context->threads;
    while (stream && !pthread_equal(stream->thread, pthread_self()))
        stream = stream->next;
    if (!stream && (stream = create(API_DEFAULT_STREAM, context, 0, 0))) {
        stream->next = context->threads;
        context->threads = stream;
    }
    return stream;
}

bool api_stream_is_legacy(CUstream handle)
{
    return (uintptr_t)handle == CUDA_ABI_STREAM_LEGACY || (!handle && !api_thread.per_thread);
}

CUresult api_stream_any(CUstream handle, CUstream *stream)
{
    CUcontext context = api_current();
    if ((uintptr_t)handle > CUDA_ABI_STREAM_PER_THREAD) {
        *stream = API_FIND(handle, API_STREAM);
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    if (api_stream_is_legacy(handle) && !context->legacy)
        context->legacy = create(API_DEFAULT_STREAM, context, 0, 0);
    *stream = api_stream_is_legacy(handle) ? context->legacy : per_thread(context);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult api_stream_idle(void)
{
    CUstream stream = NULL;
    CUresult result = api_stream_any(NULL, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

CUresult api_stream_find(CUstream handle, CUstream *stream)
{
    CUresult result = api_stream_is_legacy(handle) ? api_capture_legacy(true) : CUDA_SUCCESS;
    return result ? result : api_stream_any(handle, stream);
}

CUresult api_streamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0                       ? 0
               : priority < API_GREATEST_PRIORITY ? API_GREATEST_PRIORITY
                                                  : priority;
    CUstream made = create(API_STREAM, api_current(), flags, priority);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult api_streamCreate(CUstream *stream, unsigned flags)
{
    return api_streamCreateWithPriority(stream, flags, 0);
}

CUresult api_streamDestroy(CUstream handle)
{
    CUstream stream =
        (uintptr_t)handle > CUDA_ABI_STREAM_PER_THREAD ? API_FIND(handle, API_STREAM) : NULL;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    api_stream_free(stream);
    return CUDA_SUCCESS;
}

CUresult api_streamGetPriority(CUstream handle, int *priority)
{
    CUstream stream = NULL;
    CUresult result = priority ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *priority = stream->priority;
    return result;
}

CUresult api_streamGetFlags(CUstream handle, unsigned *flags)
{
    CUstream stream = NULL;
    CUresult result = flags ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *flags = stream->flags;
    return result;
}

CUresult api_streamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream = NULL;
    CUresult result = id ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *id = stream->id;
    return result;
}

CUresult api_streamGetCtx(CUstream handle, CUcontext *context)
{
    CUstream stream = NULL;
    CUresult result = context ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *context = stream->context;
    return result;
}

CUresult api_streamSynchronize(CUstream handle)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!result)
        result = api_capture_unsafe();
    if (result)
        return result;
    api_drain();
    return atomic_load(&api_state.error);
}

CUresult api_streamQuery(CUstream handle)
{
    return api_streamSynchronize(handle);
}

CUresult api_streamWaitEvent(CUstream handle, CUevent handle_of_event, unsigned flags)
{
    CUstream stream = NULL;
    CUevent event = API_FIND(handle_of_event, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_find(handle, &stream);
    if (!result && flags && stream->capture)
        return api_capture_external(stream, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    return result ? result : api_capture_wait(stream, event);
}

static CUresult call_host(CUstream handle, CUhostFn function, CUstreamCallback callback, void *data)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    if (result || (!function && !callback))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (callback && stream->capture)
        return api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_HOST };
    work.as.host.function = function;
    work.as.host.callback = callback;
    work.as.host.stream = handle;
    work.as.host.data = data;
    return api_submit(stream, &work);
}

CUresult api_launchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return call_host(stream, function, NULL, data);
}

CUresult api_streamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                               unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : call_host(stream, NULL, function, data);
}

// ---- events -------------------------------------------------------------------------------------

enum { EXTERNAL = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, FLAGS = 7 };

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

CUresult api_eventCreate(CUevent *event, unsigned flags)
{
    if (!event || flags & ~(unsigned)FLAGS || (flags & INTERPROCESS && !(flags & DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    api_object_add(&made->object, API_EVENT, (uint64_t)(uintptr_t)made, api_current());
    made->flags = flags;
    *event = made;
    return CUDA_SUCCESS;
}

void api_event_free(CUevent event)
{
    api_object_remove(&event->object);
    free(event->nodes);
    free(event);
}

CUresult api_eventDestroy(CUevent handle)
{
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    api_event_free(event);
    return CUDA_SUCCESS;
}

void api_event_record(CUevent handle)
{
    pthread_mutex_lock(&api_state.lock);
    CUevent event = API_FIND(handle, API_EVENT);
    if (event) {
        event->recorded = true;
        event->capture = 0;
        event->nanoseconds = nanoseconds();
    }
    pthread_mutex_unlock(&api_state.lock);
}

CUresult api_eventRecord(CUevent handle, CUstream stream_handle)
{
    CUstream stream = NULL;
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = api_stream_find(stream_handle, &stream);
    if (!result && event->object.context != stream->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result || stream->capture)
        return result ? result : api_capture_record(stream, event);
    api_drain();
    event = API_FIND(handle, API_EVENT);
    if (!event) // another thread has destroyed it
        return CUDA_ERROR_INVALID_HANDLE;
    event->recorded = true;
    event->capture = 0;
    event->nanoseconds = nanoseconds();
    return CUDA_SUCCESS;
}

CUresult api_eventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags)
{
    CUstream stream = NULL;
    if (flags > EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != EXTERNAL)
        return api_eventRecord(handle, stream_handle);
    CUevent event = API_FIND(handle, API_EVENT);
    CUresult result = event ? api_stream_find(stream_handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (result || !stream->capture) // the flag matters only during a capture
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return api_capture_external(stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

/// For calls that need an event with a real time.
static CUresult uncaptured(const struct CUevent_st *event, bool invalidate)
{
    if (event->capture == 0)
        return CUDA_SUCCESS;
    struct api_capture *capture = api_capture_by_id(event->capture);
    if (!capture || capture->invalid)
        return CUDA_ERROR_INVALID_VALUE;
    return invalidate ? api_capture_fail(capture, CUDA_ERROR_CAPTURED_EVENT)
                      : CUDA_ERROR_CAPTURED_EVENT;
}

CUresult api_eventSynchronize(CUevent handle)
{
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = uncaptured(event, true);
    return result ? result : api_capture_unsafe();
}

CUresult api_eventQuery(CUevent event)
{
    return api_eventSynchronize(event);
}

CUresult api_eventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
    CUevent start = API_FIND(start_handle, API_EVENT), end = API_FIND(end_handle, API_EVENT);
    if (!milliseconds || !start || !end)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = uncaptured(start, false);
    if (!result)
        result = uncaptured(end, false);
    if (result)
        return result;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(end->nanoseconds - start->nanoseconds) * 1e-6);
    return CUDA_SUCCESS;
}

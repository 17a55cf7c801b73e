// SPDX-License-Identifier: MIT
// What every exported function is: enter, implementation, leave.
#define _POSIX_C_SOURCE 200809L // getpid
#include "api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct api_state api_state = { .lock = PTHREAD_MUTEX_INITIALIZER };
_Thread_local struct api_thread api_thread;

static pthread_once_t config_read = PTHREAD_ONCE_INIT;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, now;
} engine = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };

static void read_config(void)
{
    api_config_read(&api_state.config);
}

static CUresult injected(enum api_function id)
{
    pthread_once(&config_read, read_config);
    if (api_state.config.fault_count == 0)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&fault_lock);
    int code = api_config_fault(&api_state.config, api_rows[id].symbol, api_rows[id].name);
    pthread_mutex_unlock(&fault_lock);
    return (CUresult)code;
}

CUcontext api_current(void)
{
    return api_thread.depth ? api_thread.stack[api_thread.depth - 1] : NULL;
}

CUresult api_require(enum api_needs needs)
{
    if (needs <= API_NEEDS_INIT)
        return CUDA_SUCCESS;
    CUcontext context = api_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (needs == API_NEEDS_CURRENT)
        return CUDA_SUCCESS;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult error = atomic_load(&api_state.error);
    if (error)
        return error;
    if (needs == API_NEEDS_UNSAFE)
        return api_capture_unsafe();
    if (needs == API_NEEDS_LEGACY)
        return api_thread.per_thread ? api_stream_idle() : api_capture_legacy(true);
    return CUDA_SUCCESS;
}

static CUresult admit(enum api_function id, enum api_needs needs)
{
    CUresult result = injected(id);
    if (result)
        return result;
    if (needs != API_NEEDS_ANY) {
        if (api_thread.in_callback && needs != API_NEEDS_CALLBACK)
            return CUDA_ERROR_NOT_PERMITTED;
        if (atomic_load(&api_state.process) != (int)getpid())
            return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&api_state.lock);
    result = api_require(needs);
    if (result)
        pthread_mutex_unlock(&api_state.lock);
    return result;
}

/// What was told of an earlier call does not explain this one.
static CUresult settle(CUresult result)
{
    if (result && result == api_thread.told && !api_thread.told_now)
        api_thread.told = CUDA_SUCCESS;
    return result;
}

static CUresult api_enter(enum api_function id, enum api_needs needs)
{
    api_thread.call = id;
    api_thread.told_now = false;
    return settle(admit(id, needs));
}

static CUresult api_leave(CUresult result)
{
    pthread_mutex_unlock(&api_state.lock);
    return settle(result);
}

enum {
#define API(symbol, needs, implementation) NEEDS_OF_##symbol = API_NEEDS_##needs,
#include "functions.def"
};

#define API(symbol, needs, implementation)                                                         \
    static __typeof__(symbol) *const of_##symbol = api_##implementation;
#include "functions.def"

#define EXPORT(symbol, parameters)                                                                 \
    __attribute__((visibility("default"))) CUresult symbol parameters;                             \
    CUresult symbol parameters
#define DEFINE(symbol, name, since, variant, parameters, arguments)                                \
    EXPORT(symbol, parameters)                                                                     \
    {                                                                                              \
        CUresult entered = api_enter(API_ID_##symbol, (enum api_needs)NEEDS_OF_##symbol);          \
        return entered ? entered : api_leave(of_##symbol arguments);                               \
    }                                                                                              \
    DEFINE_##variant(symbol, parameters, arguments)
#define DEFINE_none(symbol, parameters, arguments)
#define DEFINE_ptsz(symbol, parameters, arguments)                                                 \
    DEFINE_VARIANT(symbol, _ptsz, parameters, arguments)
#define DEFINE_ptds(symbol, parameters, arguments)                                                 \
    DEFINE_VARIANT(symbol, _ptds, parameters, arguments)
#define DEFINE_VARIANT(symbol, suffix, parameters, arguments)                                      \
    EXPORT(symbol##suffix, parameters)                                                             \
    {                                                                                              \
        api_thread.per_thread = true;                                                              \
        CUresult returned = symbol arguments;                                                      \
        api_thread.per_thread = false;                                                             \
        return returned;                                                                           \
    }
#define CUDA_FUNCTION DEFINE
#include "abi/functions.def"
EMULATOR_FUNCTIONS(DEFINE)

typedef void function(void);
#define VARIANT_none(symbol) NULL
#define VARIANT_ptsz(symbol) (function *)symbol##_ptsz
#define VARIANT_ptds(symbol) (function *)symbol##_ptds
#define ROW(symbol, name, since, variant, parameters, arguments)                                   \
    [API_ID_##symbol] = { #symbol, #name, since, (function *)symbol, VARIANT_##variant(symbol) },
const struct api_row api_rows[API_FUNCTION_COUNT] = {
#define CUDA_FUNCTION ROW
#include "abi/functions.def"
    EMULATOR_FUNCTIONS(ROW)
};

unsigned long long api_new_id(void)
{
    return ++api_state.last_id;
}

void api_engine_enter(void)
{
    pthread_mutex_lock(&engine.lock);
    uint64_t ticket = engine.next++;
    pthread_mutex_unlock(&api_state.lock);
    while (engine.now != ticket)
        pthread_cond_wait(&engine.changed, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
}

void api_engine_leave(void)
{
    pthread_mutex_lock(&engine.lock);
    engine.now++;
    pthread_cond_broadcast(&engine.changed);
    pthread_mutex_unlock(&engine.lock);
    pthread_mutex_lock(&api_state.lock);
}

void api_drain(void)
{
    api_engine_enter();
    api_engine_leave();
}

void api_report(const char *text)
{
    const char *path = api_state.config.log;
    snprintf(api_state.report, sizeof(api_state.report), "%s", text);
    FILE *file = path[0] ? fopen(path, "a") : stderr;
    if (!file)
        file = stderr;
    fprintf(file, "ptxgen emulator: %s\n", text);
    if (file != stderr)
        fclose(file);
}

void api_explain(CUresult result, const char *text)
{
    const char *plain = api_result_text(result);
    snprintf(api_thread.why, sizeof(api_thread.why), "%.150s: %.1890s", plain ? plain : "refused",
             text);
    api_thread.told = result;
    api_thread.told_now = true;
    api_report(text);
}

CUresult api_refuse(CUresult result, const char *format, ...)
{
    char text[sizeof(api_state.report)];
    int length =
        snprintf(text, sizeof(text), "%s failed (%d %s): ", api_rows[api_thread.call].symbol,
                 (int)result, api_result_name(result));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    api_explain(result, text);
    return result;
}

void api_fail(CUresult result, const char *report)
{
    const char *plain = api_result_text(result);
    snprintf(api_state.fault, sizeof(api_state.fault), "%s%s%s", plain ? plain : "a kernel failed",
             report[0] ? ": " : "", report);
    atomic_store(&api_state.error, result); // after the text: whoever sees it reads the text
}

CUresult api_init(unsigned flags)
{
    const struct api_config *config = &api_state.config;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (config->error[0]) {
        fprintf(stderr, "ptxgen emulator: %s\n", config->error);
        return CUDA_ERROR_INVALID_VALUE;
    }
    int process = atomic_load(&api_state.process);
    if (process)
        return process == (int)getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    api_state.memory = emu_memory_create(config->memory, config->sanitize);
    if (!api_state.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&api_state.process, (int)getpid());
    return CUDA_SUCCESS;
}

CUresult api_emulatorReport(const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = api_state.report;
    return CUDA_SUCCESS;
}

CUresult api_emulatorClearError(void)
{
    atomic_store(&api_state.error, CUDA_SUCCESS);
    api_thread.told = CUDA_SUCCESS;
    api_state.report[0] = '\0';
    return CUDA_SUCCESS;
}

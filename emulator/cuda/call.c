// SPDX-License-Identifier: MIT
// The path of every exported function: enter, implementation, leave. The table of live handles, so
// that any value may be passed as one. Descriptions of errors, and functions by name.
#define _POSIX_C_SOURCE 200809L // getpid
#include "api.h"

#include <errno.h>
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

static void forked(void);

static void read_config(void)
{
    api_config_read(&api_state.config);
    if (pthread_atfork(NULL, NULL, forked) != 0)
        snprintf(api_state.config.error, sizeof(api_state.config.error), "out of memory");
}

/// For cuEmulatorFail() and cuEmulatorCounts().
static struct {
    atomic_ullong calls, objects, until; // calls left until one fails; 0: none
    struct emulator_fault fault;
    const char *_Atomic failed;
} trial;
static _Thread_local CUresult fails_late;
static _Thread_local bool logs_late;

static bool counts(const char *symbol)
{
    return strncmp(symbol, "cuGetError", 10) != 0 && strncmp(symbol, "cuGetProcAddress", 16) != 0 &&
           strncmp(symbol, "cuEmulator", 10) != 0;
}

/// A change of the capture mode gives something back if it ends a relaxed mode.
static bool gives_back(const char *symbol)
{
    static const char *const words[] = {
        "Destroy", "Free", "Release", "Unload", "Pop", "EndCapture"
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(symbol, words[i]))
            return true;
    return strcmp(symbol, "cuThreadExchangeStreamCaptureMode") == 0 &&
           api_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

bool api_row_has_name(const struct api_row *row, const char *name)
{
    return strcmp(name, row->symbol) == 0 || strcmp(name, row->name) == 0;
}

/// True for the call that must fail.
static bool is_chosen(const struct api_row *row)
{
    unsigned long long until = atomic_load(&trial.until);
    if (until == 0 || (trial.fault.function && !api_row_has_name(row, trial.fault.function)))
        return false;
    while (until && !atomic_compare_exchange_weak(&trial.until, &until, until - 1))
        continue;
    return until == 1;
}

/// The injected result, if this is the call that must fail and it has nothing to do first.
static CUresult tried(const struct api_row *row)
{
    const struct emulator_fault *fault = &trial.fault;
    if (!counts(row->symbol))
        return CUDA_SUCCESS;
    atomic_fetch_add(&trial.calls, 1);
    if (!is_chosen(row))
        return CUDA_SUCCESS;
    trial.failed = row->symbol;
    if (fault->report) {
        pthread_mutex_lock(&api_state.lock);
        api_explain(fault->result, fault->report);
        pthread_mutex_unlock(&api_state.lock);
    }
    logs_late = fault->error_log || fault->info_log;
    if (!logs_late && !gives_back(row->symbol))
        return fault->result;
    fails_late = fault->result;
    return CUDA_SUCCESS;
}

CUresult api_fails_late(void)
{
    return fails_late;
}

const struct emulator_fault *api_fault_with_logs(void)
{
    return logs_late ? &trial.fault : NULL;
}

static CUresult injected(enum api_function id)
{
    pthread_once(&config_read, read_config);
    CUresult result = tried(&api_rows[id]);
    if (result || api_state.config.fault_count == 0)
        return result;
    pthread_mutex_lock(&fault_lock);
    int code = api_config_fault(&api_state.config, &api_rows[id]);
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

/// A process that begins as a fork of one that has called cuInit(): no call does anything there.
static bool is_forked(void)
{
    const int process = atomic_load(&api_state.process);
    return process && process != (int)getpid();
}

static CUresult admit(enum api_function id, enum api_needs needs)
{
    CUresult result = injected(id);
    if (result)
        return result;
    if (needs != API_NEEDS_ANY) {
        if (api_thread.in_callback && needs != API_NEEDS_CALLBACK)
            return CUDA_ERROR_NOT_PERMITTED;
        if (!atomic_load(&api_state.process) || is_forked())
            return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&api_state.lock);
    result = api_require(needs);
    if (result)
        pthread_mutex_unlock(&api_state.lock);
    return result;
}

/// Drops the reason of an earlier call: it does not explain this one.
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
    fails_late = CUDA_SUCCESS;
    logs_late = false;
    return settle(admit(id, needs));
}

static CUresult api_leave(CUresult result)
{
    pthread_mutex_unlock(&api_state.lock);
    const CUresult late = fails_late;
    fails_late = CUDA_SUCCESS;
    return settle(result ? result : late);
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

typedef void code(void);
#define VARIANT_none(symbol) NULL
#define VARIANT_ptsz(symbol) (code *)symbol##_ptsz
#define VARIANT_ptds(symbol) (code *)symbol##_ptds
#define ROW(symbol, name, since, variant, parameters, arguments)                                   \
    [API_ID_##symbol] = { #symbol, #name, since, (code *)symbol, VARIANT_##variant(symbol) },
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

// ---- what kernels print -------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    char *text;
    size_t length, room, limit;
} printed = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep_printed(const char *text, size_t length)
{
    if (length > printed.limit) {
        text += length - printed.limit;
        length = printed.limit;
    }
    if (printed.length + length > printed.limit) { // the oldest goes
        const size_t gone = printed.length + length - printed.limit;
        memmove(printed.text, printed.text + gone, printed.length - gone);
        printed.length -= gone;
    }
    if (printed.length + length > printed.room) {
        const size_t room = (printed.length + length) * 2;
        char *larger = realloc(printed.text, room);
        if (!larger)
            return;
        printed.text = larger;
        printed.room = room;
    }
    if (length)
        memcpy(printed.text + printed.length, text, length);
    printed.length += length;
}

void api_print(bool error, const char *text, size_t length)
{
    pthread_mutex_lock(&printed.lock);
    if (error)
        fwrite(text, 1, length, stderr);
    else
        keep_printed(text, length);
    pthread_mutex_unlock(&printed.lock);
}

void api_print_flush(size_t limit)
{
    pthread_mutex_lock(&printed.lock);
    if (printed.length) {
        fwrite(printed.text, 1, printed.length, stdout);
        fflush(stdout);
        printed.length = 0;
    }
    if (limit)
        printed.limit = limit;
    pthread_mutex_unlock(&printed.lock);
}

void api_drain(void)
{
    api_engine_enter();
    api_print_flush(0);
    api_engine_leave();
}

/// In a child process: other threads of the parent may have held the locks, and are not here. What
/// they guard is used only if the parent had not called cuInit().
static void forked(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    api_state.lock = fault_lock = printed.lock = engine.lock = unlocked;
}

/// False: errno says why not.
static bool append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    if (!file)
        return false;
    const bool written = fprintf(file, "ptxgen emulator: %s\n", text) >= 0;
    const int error = errno;
    const bool closed = fclose(file) == 0; // writes what is left
    if (!written)
        errno = error;
    return written && closed;
}

void api_log(const char *text)
{
    const char *path = api_state.config.log;
    if (path[0] && append(path, text))
        return;
    if (path[0])
        fprintf(stderr, "ptxgen emulator: PTXGEN_EMU_LOG='%s' cannot be written: %s\n", path,
                strerror(errno));
    fprintf(stderr, "ptxgen emulator: %s\n", text);
}

void api_report(const char *text)
{
    snprintf(api_state.report, sizeof(api_state.report), "%s", text);
    api_log(text);
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

void api_fail(CUcontext context, CUresult result, const char *report)
{
    const char *plain = api_result_text(result);
    snprintf(api_state.fault, sizeof(api_state.fault), "%s%s%s", plain ? plain : "a kernel failed",
             report[0] ? ": " : "", report);
    api_state.failed = context;
    atomic_store(&api_state.error,
                 result); // stored after the text: a thread that sees the error reads the text
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
    if (atomic_load(&api_state.process))
        return is_forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
    api_state.memory = emu_memory_create(config->memory, config->sanitize);
    if (!api_state.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (config->pageable)
        emu_memory_map_process(api_state.memory);
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

CUresult api_emulatorCounts(struct emulator_counts *counts_now)
{
    if (!counts_now)
        return CUDA_ERROR_INVALID_VALUE;
    *counts_now =
        (struct emulator_counts) { atomic_load(&trial.calls),
                                   atomic_load(&trial.objects) + api_state.primary.references,
                                   api_state.grids, trial.failed };
    return CUDA_SUCCESS;
}

CUresult api_emulatorFail(const struct emulator_fault *fault)
{
    atomic_store(&trial.until, 0);
    trial.failed = NULL;
    trial.fault = fault ? *fault : (struct emulator_fault) { 0 };
    atomic_store(&trial.until, trial.fault.call);
    return CUDA_SUCCESS;
}

// -------------------------------------------------------------- errors in words, functions by name

/// Functions whose symbol does not begin with their name.
static const struct {
    const char *name, *symbol;
    int since;
} aliases[] = {
    { "cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000 },
};

const char *api_result_name(CUresult result)
{
#define NAME(code, value, text)                                                                    \
    if ((unsigned)result == value)                                                                 \
        return #code;
    CUDA_ABI_RESULTS(NAME)
#undef NAME
    return NULL;
}

const char *api_result_text(CUresult result)
{
#define TEXT(code, value, text)                                                                    \
    if ((unsigned)result == value)                                                                 \
        return text;
    CUDA_ABI_RESULTS(TEXT)
#undef TEXT
    return NULL;
}

CUresult api_getErrorName(CUresult result, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = api_result_name(result);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_getErrorString(CUresult result, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = api_result_text(result);
    // A malformed variable makes cuInit() return this: name the variable.
    if (result == CUDA_ERROR_INVALID_VALUE && api_state.config.error[0])
        *text = api_state.config.error;
    else if (result && result == api_thread.told)
        *text = api_thread.why;
    else if (result && result == atomic_load(&api_state.error))
        *text = api_state.fault;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct api_row *row_of(const char *symbol)
{
    for (size_t i = 0; i < API_FUNCTION_COUNT; i++)
        if (strcmp(api_rows[i].symbol, symbol) == 0)
            return &api_rows[i];
    return NULL;
}

/// The newest symbol of that name that `version` has; *known: the name exists, if only in a newer
/// version.
static const struct api_row *newest(const char *name, int version, bool *known)
{
    const struct api_row *best = NULL;
    int since = 0;
    *known = false;
    for (size_t i = 0; i < API_FUNCTION_COUNT; i++) {
        const struct api_row *row = &api_rows[i];
        if (strcmp(row->name, name) != 0)
            continue;
        *known = true;
        if (row->since <= version && row->since >= since) {
            best = row;
            since = row->since;
        }
    }
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i].name, name) == 0 && aliases[i].since <= version)
            best = row_of(aliases[i].symbol);
    return best;
}

CUresult api_getProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status)
{
    if (!name || !function || flags > 2 || version > api_state.config.driver)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    const struct api_row *row = newest(name, version, &known);
    void (*found)(void) = row ? row->function : NULL;
    if (row && flags == 2 && row->variant)
        found = row->variant;
    memcpy(function, &found, sizeof(found));
    if (status)
        *status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult api_getProcAddress1(const char *name, void **function, int version, cuuint64_t flags)
{
    CUresult result = api_getProcAddress(name, function, version, flags, NULL);
    return result || *function ? result : CUDA_ERROR_NOT_FOUND;
}

// The CUDA runtime asks for tables that are not documented. NO_DEVICE lets it say that there is no
// GPU for it, which programs such as PyTorch take for a machine without one.
CUresult api_getExportTable(const void **table, const CUuuid *id)
{
    if (table)
        *table = NULL;
    return table && id ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_profilerStart(void)
{
    return CUDA_SUCCESS;
}

CUresult api_profilerStop(void)
{
    return CUDA_SUCCESS;
}

// ----------------------------------------------------------------------------------------- handles

enum { BUCKETS = 4096 };

static struct api_object *buckets[BUCKETS];

static struct api_object **bucket(uint64_t key)
{
    return &buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void api_object_add(struct api_object *object, enum api_kind kind, uint64_t key, CUcontext context)
{
    struct api_object **first = bucket(key);
    *object = (struct api_object) { key, kind, context, *first };
    *first = object;
    atomic_fetch_add(&trial.objects, 1);
}

void api_object_remove(struct api_object *object)
{
    struct api_object **at = bucket(object->key);
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at) {
        *at = object->next;
        atomic_fetch_sub(&trial.objects, 1);
    }
}

struct api_object *api_object_at(uint64_t key, enum api_kind kind)
{
    struct api_object *object = *bucket(key);
    while (object && (object->key != key || object->kind != kind))
        object = object->next;
    return object;
}

struct api_object *api_object_of(CUcontext context)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct api_object *object = buckets[i]; object; object = object->next)
            if (object->context == context && object->kind != API_FUNCTION)
                return object;
    return NULL;
}

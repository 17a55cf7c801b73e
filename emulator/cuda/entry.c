// SPDX-License-Identifier: MIT
// The path of every exported function: enter, implementation, leave. The process begins here, and
// functions are found by name.
#define _POSIX_C_SOURCE 200809L // pthread_atfork
#include "calls.h"
#include "environment.h"
#include "stream.h"
#include "trial.h"

#include <stdio.h>
#include <string.h>

static pthread_once_t config_read = PTHREAD_ONCE_INIT;

static void read_config(void)
{
    api_config_read(&api_state.config);
    if (pthread_atfork(NULL, NULL, api_state_forked) != 0)
        snprintf(api_state.config.error, sizeof(api_state.config.error), "out of memory");
}

static CUresult injected(enum api_function id)
{
    pthread_once(&config_read, read_config);
    CUresult result = api_trial(&api_rows[id]);
    if (result || api_state.config.fault_count == 0)
        return result;
    pthread_mutex_lock(&api_state.fault_lock);
    int code = api_config_fault(&api_state.config, &api_rows[id]);
    pthread_mutex_unlock(&api_state.fault_lock);
    return (CUresult)code;
}

static CUresult admit(enum api_function id, enum api_needs needs)
{
    CUresult result = injected(id);
    if (result)
        return result;
    if (needs != API_NEEDS_ANY) {
        if (api_thread.in_callback && needs != API_NEEDS_CALLBACK)
            return CUDA_ERROR_NOT_PERMITTED;
        if (!atomic_load(&api_state.begun) || atomic_load(&api_state.forked))
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
    api_trial_begin();
    return settle(admit(id, needs));
}

static CUresult api_leave(CUresult result)
{
    pthread_mutex_unlock(&api_state.lock);
    const CUresult late = api_fails_late();
    api_trial_begin();
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
    [API_ID_##symbol] = { (code *)symbol, VARIANT_##variant(symbol) },
static const struct {
    code *function, *variant; // the one for the per-thread default stream, or NULL
} entries[API_FUNCTION_COUNT] = {
#define CUDA_FUNCTION ROW
#include "abi/functions.def"
    EMULATOR_FUNCTIONS(ROW)
};

CUresult api_init(unsigned flags)
{
    const struct api_config *config = &api_state.config;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (config->error[0]) {
        api_log(config->error);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (atomic_load(&api_state.begun))
        return atomic_load(&api_state.forked) ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
    api_state.memory = emu_memory_create(config->memory, config->sanitize);
    if (!api_state.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (config->pageable)
        emu_memory_map_process(api_state.memory);
    atomic_store(&api_state.begun, true);
    return CUDA_SUCCESS;
}

// ---- functions by name --------------------------------------------------------------------------

/// Functions whose symbol does not begin with their name.
static const struct {
    const char *name, *symbol;
    int since;
} aliases[] = {
    { "cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000 },
};

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
    const size_t id = row ? (size_t)(row - api_rows) : 0;
    code *found = row ? entries[id].function : NULL;
    if (row && flags == 2 && entries[id].variant)
        found = entries[id].variant;
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

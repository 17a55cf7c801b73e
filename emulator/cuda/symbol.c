// SPDX-License-Identifier: MIT
// Errors in words, and functions by name.
#include "api.h"

#include <string.h>

/// Names that stand for a symbol that they are no prefix of.
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
    // A malformed variable makes cuInit() return this: say which.
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

/// The newest of that name that `version` has; *known: there is one, if only a newer one.
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

CUresult api_getExportTable(const void **table, const CUuuid *id)
{
    if (table)
        *table = NULL;
    return table && id ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_profilerStart(void)
{
    return CUDA_SUCCESS;
}

CUresult api_profilerStop(void)
{
    return CUDA_SUCCESS;
}

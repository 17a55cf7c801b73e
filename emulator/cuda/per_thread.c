// SPDX-License-Identifier: MIT
#include "per_thread.h"
#include "api.h"

#include <string.h>

#define DECLARE(symbol, variant, parameters, arguments)                                            \
    CUresult symbol parameters;                                                                    \
    __attribute__((visibility("default"))) CUresult variant parameters;
API_PER_THREAD(DECLARE)

#define DEFINE(symbol, variant, parameters, arguments)                                             \
    CUresult variant parameters                                                                    \
    {                                                                                              \
        api_thread.per_thread = true;                                                              \
        CUresult returned = symbol arguments;                                                      \
        api_thread.per_thread = false;                                                             \
        return returned;                                                                           \
    }
API_PER_THREAD(DEFINE)

void (*api_per_thread(const char *symbol))(void)
{
#define VARIANT(function, variant, parameters, arguments)                                          \
    if (strcmp(symbol, #function) == 0)                                                            \
        return (void (*)(void))variant;
    API_PER_THREAD(VARIANT)
    return NULL;
}

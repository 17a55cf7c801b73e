// SPDX-License-Identifier: MIT
// A client of NVTX 3, as its headers are to a program that includes them: a profiler names its
// library in NVTX_INJECTION64_PATH; the client loads that, and hands it tables, into which the
// library writes its functions. The layouts are those of nvtxTypes.h and nvToolsExt.h, version 3.
#define _GNU_SOURCE // secure_getenv
#include "nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3, MODULES = 7, FUNCTIONS = 16 };
enum { CALLBACKS = 1, VERSION_INFO = 3 }; // of NvtxExportTableID
enum { CORE2 = 5 };                       // of NvtxCallbackModule
enum { RANGE_PUSH = 4, RANGE_POP = 5, DOMAIN_CREATE = 12 };

typedef void (*function)(void);

struct callbacks {
    size_t bytes;
    int (*table_of)(int module, function ***table, unsigned *count);
};

struct version_info {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
};

struct event {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};
_Static_assert(sizeof(struct event) == 40 + sizeof(char *), "nvtxEventAttributes_t");

// By module: how many functions it has, with one that is never there in front.
static const unsigned char counts[MODULES] = { 0, 16, 9, 15, 7, 16, 7 };
static function functions[MODULES][FUNCTIONS];
static function *tables[MODULES][FUNCTIONS + 1];

static struct {
    pthread_once_t once;
    void *domain;
    int (*push)(void *domain, const struct event *event);
    int (*pop)(void *domain);
} profiler = { .once = PTHREAD_ONCE_INIT };

static int table_of(int module, function ***table, unsigned *count)
{
    if (module <= 0 || module >= MODULES)
        return 0;
    if (count)
        *count = counts[module];
    if (table)
        *table = tables[module];
    return 1;
}

static void set_version(uint32_t version)
{
    (void)version;
}

static const void *export_table(uint32_t id)
{
    static const struct callbacks callbacks = { sizeof callbacks, table_of };
    static const struct version_info info = { sizeof info, VERSION, 0, set_version };

    return id == CALLBACKS ? (const void *)&callbacks : id == VERSION_INFO ? &info : NULL;
}

// memcpy, because ISO C has no conversion between object pointers and function pointers.
static void find(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    void *library = path && path[0] ? dlopen(path, RTLD_LAZY) : NULL;
    void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    int (*initialize)(const void *(*export_table)(uint32_t id));
    void *(*create)(const char *name);

    if (!symbol)
        return;
    for (unsigned m = 0; m < MODULES; m++)
        for (unsigned k = 1; k < counts[m]; k++)
            tables[m][k] = &functions[m][k];
    memcpy(&initialize, &symbol, sizeof symbol);
    if (!initialize(export_table) || !functions[CORE2][DOMAIN_CREATE] ||
        !functions[CORE2][RANGE_PUSH] || !functions[CORE2][RANGE_POP])
        return;
    memcpy(&create, &functions[CORE2][DOMAIN_CREATE], sizeof create);
    memcpy(&profiler.pop, &functions[CORE2][RANGE_POP], sizeof profiler.pop);
    profiler.domain = create("ptxgen");
    memcpy(&profiler.push, &functions[CORE2][RANGE_PUSH], sizeof profiler.push);
}

void ptxd_range_begin(const char *name)
{
    enum { ASCII = 1 };

    pthread_once(&profiler.once, find);
    if (profiler.push)
        profiler.push(profiler.domain, &(struct event) { .version = VERSION,
                                                         .bytes = sizeof(struct event),
                                                         .message_type = ASCII,
                                                         .message = name });
}

void ptxd_range_end(void)
{
    if (profiler.push)
        profiler.pop(profiler.domain);
}

// SPDX-License-Identifier: MIT
// The emulated device: the environment variables that set it, and its attributes.
#define _GNU_SOURCE // strtok_r, environ
#include "api.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- the environment ----------------------------------------------------------------------------

/// The newest PTX ISA for each CUDA version of the driver, newest first.
static const struct {
    int driver, isa;
} newest_isa[] = {
    { 13050, 95 }, { 13040, 94 }, { 13030, 93 }, { 13020, 92 }, { 13010, 91 }, { 13000, 90 },
    { 12090, 88 }, { 12080, 87 }, { 12070, 86 }, { 12050, 85 }, { 12040, 84 }, { 12030, 83 },
    { 12020, 82 }, { 12010, 81 }, { 12000, 80 }, { 11080, 78 }, { 11070, 77 }, { 11060, 76 },
    { 11050, 75 }, { 11040, 74 }, { 11030, 73 }, { 11020, 72 }, { 11010, 71 }, { 11000, 70 },
};

/// The settings without the environment; the driver is the newest. docs/emulator.md has them too.
enum {
    DEFAULT_SM = 90,
    DEFAULT_GIB = 8,
    DEFAULT_SANITIZE = 1,
    DEFAULT_SEED = 0,
    DEFAULT_THREADS = 0,
    DEFAULT_TIMEOUT = 0,
    DEFAULT_INSTRUCTIONS = 0,
};

static bool fail(struct api_config *config, const char *variable, const char *text,
                 const char *wanted)
{
    if (!config->error[0])
        snprintf(config->error, sizeof(config->error), "%s='%.100s': %s", variable, text, wanted);
    return false;
}

static bool number(const char *text, uint64_t most, uint64_t *value)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long long read = strtoull(text, &end, 10);
    *value = read;
    return errno == 0 && *end == '\0' && read <= most;
}

static bool read_number(struct api_config *config, const char *variable, uint64_t most,
                        const char *wanted, uint64_t *value)
{
    const char *text = getenv(variable);
    if (!text)
        return true;
    return number(text, most, value) || fail(config, variable, text, wanted);
}

static bool read_memory(struct api_config *config)
{
    const char *variable = "PTXGEN_EMU_MEMORY", *text = getenv(variable);
    if (!text)
        return true;
    char digits[32] = "";
    size_t length = strlen(text);
    unsigned shift = 0;
    if (length > 0 && length < sizeof(digits)) {
        memcpy(digits, text, length);
        char unit = text[length - 1];
        shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
        digits[shift ? length - 1 : length] = '\0';
    }
    uint64_t value = 0;
    if (!number(digits, UINT64_C(1) << 46 >> shift, &value) || value == 0)
        return fail(config, variable, text,
                    "wanted: a number of bytes, with an optional K, M or G");
    config->memory = value << shift;
    return true;
}

static bool fail_device(struct api_config *config, const char *variable, const char *text)
{
    char wanted[192] = "wanted: sm_NN[,sms=N][,pageable][,name=TEXT], NN one of";
    for (int sm = 0; sm < 1000; sm++) {
        size_t length = strlen(wanted);
        if (emu_gpu_of(sm))
            snprintf(wanted + length, sizeof(wanted) - length, " %d", sm);
    }
    return fail(config, variable, text, wanted);
}

static bool read_device(struct api_config *config)
{
    const char *variable = "PTXGEN_EMU_DEVICE", *text = getenv(variable);
    char copy[512], *rest = NULL;
    uint64_t value = 0;
    if (!text)
        text = "";
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        if (strncmp(item, "sm_", 3) == 0 && number(item + 3, 999, &value) &&
            emu_gpu_of((int)value)) {
            config->gpu = emu_gpu_of((int)value);
            config->multiprocessors = config->gpu->multiprocessors;
        } else if (strcmp(item, "pageable") == 0) {
            config->pageable = true;
        } else if (strncmp(item, "sms=", 4) != 0 && strncmp(item, "name=", 5) != 0) {
            return fail_device(config, variable, text);
        }
    }
    snprintf(config->name, sizeof(config->name), "ptxgen emulator (sm_%d)", config->gpu->sm);
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        if (strncmp(item, "name=", 5) == 0)
            snprintf(config->name, sizeof(config->name), "%.200s", item + 5);
        if (strncmp(item, "sms=", 4) != 0)
            continue;
        if (!number(item + 4, 4096, &value) || value == 0)
            return fail(config, variable, text, "sms must be a number from 1 to 4096");
        config->multiprocessors = (int)value;
    }
    return true;
}

static bool read_driver(struct api_config *config)
{
    const char *variable = "PTXGEN_EMU_DRIVER";
    uint64_t value = (uint64_t)config->driver;
    if (!read_number(config, variable, 99990, "wanted: a CUDA version, for example 12040 for 12.4",
                     &value))
        return false;
    if (value < 11000)
        return fail(config, variable, getenv(variable), "the oldest version supported is 11000");
    config->driver = (int)value;
    config->isa = 0;
    for (size_t i = 0; i < sizeof(newest_isa) / sizeof(newest_isa[0]) && !config->isa; i++)
        if (config->driver >= newest_isa[i].driver)
            config->isa = newest_isa[i].isa;
    return true;
}

static int code_of(const char *text)
{
    uint64_t value = 0;
#define CODE(name, code, words)                                                                    \
    if (strcmp(text, #name) == 0)                                                                  \
        return code;
    CUDA_ABI_RESULTS(CODE)
#undef CODE
    return number(text, 999, &value) ? (int)value : 0;
}

static bool known(const char *function)
{
    for (size_t i = 0; i < API_FUNCTION_COUNT; i++)
        if (api_row_has_name(&api_rows[i], function))
            return true;
    return false;
}

static bool read_fault(struct api_config *config, char *item, const char *text)
{
    const char *variable = "PTXGEN_EMU_FAIL";
    char *code = strchr(item, ':');
    char *call = strchr(item, '@');
    uint64_t which = 0;
    if (code)
        *code++ = '\0';
    if (call)
        *call++ = '\0';
    if (config->fault_count == API_MAX_FAULTS)
        return fail(config, variable, text, "at most 64 functions are allowed");
    if (!known(item)) {
        char reason[160];
        snprintf(reason, sizeof(reason), "the emulator has no function '%.100s'", item);
        return fail(config, variable, text, reason);
    }
    struct api_fault *fault = &config->faults[config->fault_count++];
    snprintf(fault->function, sizeof(fault->function), "%s", item);
    fault->code = code ? code_of(code) : 0;
    if (fault->code == 0 || (call && (!number(call, UINT32_MAX, &which) || which == 0)))
        return fail(config, variable, text, "wanted: function:code[@call],...");
    fault->call = (unsigned long)which;
    return true;
}

static bool read_faults(struct api_config *config)
{
    const char *text = getenv("PTXGEN_EMU_FAIL");
    if (!text)
        return true;
    size_t size = strlen(text) + 1;
    char *copy = malloc(size), *rest = NULL;
    bool right = copy != NULL;
    if (copy)
        memcpy(copy, text, size);
    for (char *item = copy ? strtok_r(copy, ",", &rest) : NULL; item && right;
         item = strtok_r(NULL, ",", &rest))
        right = read_fault(config, item, text);
    free(copy);
    return right;
}

static bool read_sanitize(struct api_config *config)
{
    const char *variable = "PTXGEN_EMU_SANITIZE", *text = getenv(variable);
    uint64_t value = DEFAULT_SANITIZE;
    if (text && strcmp(text, "warn") == 0) {
        config->sanitize = EMU_SANITIZE_WARN;
        return true;
    }
    bool read = read_number(config, variable, 1, "wanted: 0, 1 or warn", &value);
    config->sanitize = value ? EMU_SANITIZE_ON : EMU_SANITIZE_OFF;
    return read;
}

/// A misspelt variable would leave its setting as it is, and nobody would notice.
static bool read_names(struct api_config *config)
{
    static const char prefix[] = "PTXGEN_EMU_";
    static const char *const known[] = { "DEVICE",  "DRIVER",  "MEMORY",       "SANITIZE", "SEED",
                                         "THREADS", "TIMEOUT", "INSTRUCTIONS", "FAIL",     "LOG" };
    for (char **at = environ; at && *at; at++) {
        if (strncmp(*at, prefix, sizeof(prefix) - 1) != 0)
            continue;
        const char *name = *at + sizeof(prefix) - 1;
        const size_t length = strcspn(name, "=");
        char variable[64];
        bool found = false;
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            found |= strlen(known[k]) == length && strncmp(name, known[k], length) == 0;
        if (found)
            continue;
        snprintf(variable, sizeof(variable), "%s%.*s", prefix, (int)(length < 50 ? length : 50),
                 name);
        return fail(config, variable, name[length] ? name + length + 1 : "",
                    "no such variable: DEVICE, DRIVER, MEMORY, SANITIZE, SEED, THREADS, TIMEOUT, "
                    "INSTRUCTIONS, FAIL and LOG can follow PTXGEN_EMU_");
    }
    return true;
}

void api_config_read(struct api_config *config)
{
    *config = (struct api_config) { .gpu = emu_gpu_of(DEFAULT_SM),
                                    .multiprocessors = emu_gpu_of(DEFAULT_SM)->multiprocessors,
                                    .driver = newest_isa[0].driver,
                                    .memory = (uint64_t)DEFAULT_GIB << 30,
                                    .seed = DEFAULT_SEED,
                                    .instructions = DEFAULT_INSTRUCTIONS };
    uint64_t threads = DEFAULT_THREADS, timeout = DEFAULT_TIMEOUT;
    read_names(config);
    read_device(config);
    read_driver(config);
    read_memory(config);
    read_number(config, "PTXGEN_EMU_SEED", UINT64_MAX, "wanted: a number", &config->seed);
    read_sanitize(config);
    read_number(config, "PTXGEN_EMU_THREADS", 1024, "wanted: a number of threads, 0 to 1024",
                &threads);
    read_number(config, "PTXGEN_EMU_TIMEOUT", UINT32_MAX, "wanted: a number of milliseconds",
                &timeout);
    read_number(config, "PTXGEN_EMU_INSTRUCTIONS", UINT64_MAX, "wanted: a number",
                &config->instructions);
    read_faults(config);
    const char *log = getenv("PTXGEN_EMU_LOG");
    if (log && strlen(log) < sizeof(config->log))
        strcpy(config->log, log);
    else if (log)
        fail(config, "PTXGEN_EMU_LOG", log, "the path is too long");
    config->threads = (unsigned)threads;
    config->timeout = (unsigned)timeout;
}

int api_config_fault(struct api_config *config, const struct api_row *row)
{
    for (unsigned i = 0; i < config->fault_count; i++) {
        struct api_fault *fault = &config->faults[i];
        if (!api_row_has_name(row, fault->function))
            continue;
        fault->seen++;
        if (fault->call == 0 || fault->call == fault->seen)
            return fault->code;
    }
    return 0;
}

// ---- attributes ---------------------------------------------------------------------------------

enum { NEWEST_ATTRIBUTE = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED };

// The attributes that are the same on every device: X(attribute, value). The others are 0.
#define COMMON(X)                                                                                  \
    X(MAX_THREADS_PER_BLOCK, EMU_MAX_THREADS)                                                      \
    X(MAX_BLOCK_DIM_X, EMU_MAX_THREADS)                                                            \
    X(MAX_BLOCK_DIM_Y, EMU_MAX_THREADS)                                                            \
    X(MAX_BLOCK_DIM_Z, EMU_MAX_BLOCK_Z)                                                            \
    X(MAX_GRID_DIM_X, EMU_MAX_GRID_X)                                                              \
    X(MAX_GRID_DIM_Y, EMU_MAX_GRID_YZ)                                                             \
    X(MAX_GRID_DIM_Z, EMU_MAX_GRID_YZ)                                                             \
    X(MAX_SHARED_MEMORY_PER_BLOCK, EMU_SHARED_DEFAULT)                                             \
    X(TOTAL_CONSTANT_MEMORY, EMU_MAX_CONST)                                                        \
    X(WARP_SIZE, EMU_LANES)                                                                        \
    X(MAX_PITCH, INT_MAX)                                                                          \
    X(MAX_REGISTERS_PER_BLOCK, 65536)                                                              \
    X(TEXTURE_ALIGNMENT, 512)                                                                      \
    X(GPU_OVERLAP, 1)                                                                              \
    X(CAN_MAP_HOST_MEMORY, 1)                                                                      \
    X(SURFACE_ALIGNMENT, 512)                                                                      \
    X(CONCURRENT_KERNELS, 1)                                                                       \
    X(ASYNC_ENGINE_COUNT, 1)                                                                       \
    X(UNIFIED_ADDRESSING, 1)                                                                       \
    X(TEXTURE_PITCH_ALIGNMENT, 32)                                                                 \
    X(STREAM_PRIORITIES_SUPPORTED, 1)                                                              \
    X(GLOBAL_L1_CACHE_SUPPORTED, 1)                                                                \
    X(LOCAL_L1_CACHE_SUPPORTED, 1)                                                                 \
    X(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536)                                                     \
    X(MANAGED_MEMORY, 1)                                                                           \
    X(CONCURRENT_MANAGED_ACCESS, 1)                                                                \
    X(COMPUTE_PREEMPTION_SUPPORTED, 1)                                                             \
    X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1)                                                  \
    X(COOPERATIVE_LAUNCH, 1)                                                                       \
    X(HOST_REGISTER_SUPPORTED, 1)                                                                  \
    X(MEMORY_POOLS_SUPPORTED, 1)                                                                   \
    X(MEM_SYNC_DOMAIN_COUNT, 1)                                                                    \
    X(NUMA_ID, -1)                                                                                 \
    X(HOST_NUMA_ID, -1)
// clang-format on

const struct emu_gpu *api_gpu(void)
{
    return api_state.config.gpu;
}

CUresult api_driverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = api_state.config.driver;
    return CUDA_SUCCESS;
}

CUresult api_deviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult api_deviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

/// For a function that writes to `out`.
static CUresult check(const void *out, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult api_deviceGetName(char *name, int size, CUdevice device)
{
    CUresult result = check(name, device);
    if (!result && size <= 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        snprintf(name, (size_t)size, "%s", api_state.config.name);
    return result;
}

CUresult api_deviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult result = check(uuid, device);
    if (!result)
        memcpy(uuid->bytes, "ptxgen-emulator", 16);
    return result;
}

CUresult api_deviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult result = check(bytes, device);
    if (!result)
        *bytes = (size_t)api_state.config.memory;
    return result;
}

CUresult api_deviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult result = check(major && minor ? major : NULL, device);
    if (!result) {
        *major = api_gpu()->sm / 10;
        *minor = api_gpu()->sm % 10;
    }
    return result;
}

/// The attributes that differ between devices.
static bool own_attribute(unsigned attribute, int *value)
{
    const struct emu_gpu *gpu = api_gpu();
    const struct {
        unsigned attribute;
        int value;
    } own[] = {
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, gpu->clock },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, api_state.config.multiprocessors },
        { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, gpu->memory_clock },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, gpu->bus_width },
        { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu->l2 },
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, gpu->threads_per_sm },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu->sm / 10 },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->sm % 10 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, gpu->shared_per_sm },
        { CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
          gpu->sm == 70 || gpu->sm == 80 || gpu->sm == 90 || gpu->sm == 100 ? 2 : 64 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, gpu->shared_optin },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, gpu->blocks_per_sm },
        { CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, gpu->shared_reserved },
        { CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, gpu->sm >= 90 },
        { CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, api_state.config.pageable },
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i].attribute == attribute) {
            *value = own[i].value;
            return true;
        }
    return false;
}

CUresult api_deviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = check(value, device);
    if (result || own_attribute((unsigned)attribute, value))
        return result;
    switch ((unsigned)attribute) {
#define CASE(name, constant)                                                                       \
    case CU_DEVICE_ATTRIBUTE_##name:                                                               \
        *value = constant;                                                                         \
        return CUDA_SUCCESS;
        COMMON(CASE)
#undef CASE
    default:
        *value = 0;
        return attribute >= 1 && (unsigned)attribute <= NEWEST_ATTRIBUTE ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult api_deviceGetPCIBusId(char *id, int size, CUdevice device)
{
    CUresult result = check(id, device);
    if (!result && size < 13)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        snprintf(id, (size_t)size, "0000:00:00.0");
    return result;
}

CUresult api_deviceGetByPCIBusId(CUdevice *device, const char *id)
{
    // domain:bus:device.function, domain:bus:device, bus:device.function
    static const char *const forms[] = { "%4x:%2x:%2x.%1x%n", "%4x:%2x:%2x%n", "%2x:%2x.%1x%n" };
    bool found = false;
    for (size_t k = 0; device && id && k < sizeof(forms) / sizeof(forms[0]) && !found; k++) {
        unsigned part[4] = { 0 };
        int length = 0;
        // The length is the argument after the parts of the form.
        if (k == 0)
            sscanf(id, forms[k], &part[0], &part[1], &part[2], &part[3], &length);
        else
            sscanf(id, forms[k], &part[0], &part[1], &part[2], &length);
        found = length && !id[length] && !(part[0] | part[1] | part[2] | part[3]);
    }
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult api_deviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = check(can, device ? device : peer);
    if (!result)
        *can = 0;
    return result;
}

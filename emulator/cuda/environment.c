// SPDX-License-Identifier: MIT
// The environment variables that set the emulated device.
#define _GNU_SOURCE // environ
#include "environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

#define PREFIX "PTXGEN_EMU_"

static bool fail(struct api_config *config, const char *variable, const char *text,
                 const char *wanted)
{
    if (!config->error[0])
        snprintf(config->error, sizeof(config->error), "%s='%.100s': %s", variable, text, wanted);
    return false;
}

/// Writes the value only if the text is a number up to `most`.
static bool number(const char *text, uint64_t most, uint64_t *value)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long long read = strtoull(text, &end, 10);
    if (errno || *end || read > most)
        return false;
    *value = read;
    return true;
}

/// The next part of a list that commas separate, without the comma, into `part`. Returns what comes
/// after the comma; NULL if there is no part, or it is empty or too long.
static const char *next_part(const char *text, char *part, size_t size)
{
    const size_t length = strcspn(text, ",");
    if (length == 0 || length >= size || (text[length] && !text[length + 1]))
        return NULL;
    memcpy(part, text, length);
    part[length] = '\0';
    return text + length + (text[length] == ',');
}

// A reader of each variable: sets what `text` says, or fails. `variable` is the name for the
// message.

static bool read_memory(struct api_config *config, const char *variable, const char *text)
{
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

static bool read_device(struct api_config *config, const char *variable, const char *text)
{
    char item[sizeof(config->name)];
    uint64_t value = 0;
    for (const char *rest = text; *rest;) {
        rest = next_part(rest, item, sizeof(item));
        if (!rest)
            return fail_device(config, variable, text);
        if (strncmp(item, "sm_", 3) == 0 && number(item + 3, 999, &value) &&
            emu_gpu_of((int)value)) {
            config->gpu = emu_gpu_of((int)value);
        } else if (strcmp(item, "pageable") == 0) {
            config->pageable = true;
        } else if (strncmp(item, "name=", 5) == 0) {
            if (!item[5] || strlen(item + 5) > 200)
                return fail(config, variable, text, "name must have 1 to 200 bytes");
            strcpy(config->name, item + 5);
        } else if (strncmp(item, "sms=", 4) == 0) {
            if (!number(item + 4, 4096, &value) || value == 0)
                return fail(config, variable, text, "sms must be a number from 1 to 4096");
            config->multiprocessors = (int)value;
        } else {
            return fail_device(config, variable, text);
        }
    }
    return true;
}

static bool read_driver(struct api_config *config, const char *variable, const char *text)
{
    uint64_t value = 0;
    if (!number(text, 99990, &value))
        return fail(config, variable, text, "wanted: a CUDA version, for example 12040 for 12.4");
    if (value < 11000)
        return fail(config, variable, text, "the oldest version supported is 11000");
    config->driver = (int)value;
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

static bool read_fault(struct api_config *config, char *item, const char *variable,
                       const char *text)
{
    struct api_fault *fault = &config->faults[config->fault_count];
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
    *fault = (struct api_fault) { .code = code ? code_of(code) : 0 };
    if (fault->code == 0 || (call && (!number(call, UINT32_MAX, &which) || which == 0)))
        return fail(config, variable, text, "wanted: function:code[@call],...");
    snprintf(fault->function, sizeof(fault->function), "%.95s", item);
    fault->call = (unsigned long)which;
    config->fault_count++;
    return true;
}

static bool read_faults(struct api_config *config, const char *variable, const char *text)
{
    char item[256];
    for (const char *rest = text; *rest;) {
        rest = next_part(rest, item, sizeof(item));
        if (!rest)
            return fail(config, variable, text, "wanted: function:code[@call],...");
        if (!read_fault(config, item, variable, text))
            return false;
    }
    return true;
}

static bool read_sanitize(struct api_config *config, const char *variable, const char *text)
{
    static const char *const names[] = {
        [EMU_SANITIZE_OFF] = "0", [EMU_SANITIZE_ON] = "1", [EMU_SANITIZE_WARN] = "warn"
    };
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        if (strcmp(text, names[k]) != 0)
            continue;
        config->sanitize = (enum emu_sanitize)k;
        return true;
    }
    return fail(config, variable, text, "wanted: 0, 1 or warn");
}

static bool read_seed(struct api_config *config, const char *variable, const char *text)
{
    return number(text, UINT64_MAX, &config->seed) ||
           fail(config, variable, text, "wanted: a number");
}

static bool read_threads(struct api_config *config, const char *variable, const char *text)
{
    uint64_t value = 0;
    if (!number(text, 1024, &value))
        return fail(config, variable, text, "wanted: a number of threads, 0 to 1024");
    config->threads = (unsigned)value;
    return true;
}

static bool read_timeout(struct api_config *config, const char *variable, const char *text)
{
    uint64_t value = 0;
    if (!number(text, UINT32_MAX, &value))
        return fail(config, variable, text, "wanted: a number of milliseconds");
    config->timeout = (unsigned)value;
    return true;
}

static bool read_instructions(struct api_config *config, const char *variable, const char *text)
{
    return number(text, UINT64_MAX, &config->instructions) ||
           fail(config, variable, text, "wanted: a number");
}

static bool read_log(struct api_config *config, const char *variable, const char *text)
{
    if (strlen(text) >= sizeof(config->log))
        return fail(config, variable, text, "the path is too long");
    strcpy(config->log, text);
    return true;
}

/// Every variable, by what follows PREFIX in its name; read in the order of the environment.
static const struct {
    const char *name;
    bool (*read)(struct api_config *config, const char *variable, const char *text);
} variables[] = {
    { "DEVICE", read_device },   { "DRIVER", read_driver },
    { "MEMORY", read_memory },   { "SANITIZE", read_sanitize },
    { "SEED", read_seed },       { "THREADS", read_threads },
    { "TIMEOUT", read_timeout }, { "INSTRUCTIONS", read_instructions },
    { "FAIL", read_faults },     { "LOG", read_log },
};

enum { VARIABLE_COUNT = sizeof(variables) / sizeof(variables[0]) };

static bool fail_name(struct api_config *config, const char *variable, const char *text)
{
    char wanted[192] = "no such variable: ";
    for (size_t k = 0; k < VARIABLE_COUNT; k++) {
        size_t length = strlen(wanted);
        snprintf(wanted + length, sizeof(wanted) - length, "%s%s", variables[k].name,
                 k + 2 < VARIABLE_COUNT   ? ", "
                 : k + 1 < VARIABLE_COUNT ? " and "
                                          : " can follow " PREFIX);
    }
    return fail(config, variable, text, wanted);
}

/// Reads one string of the environment. A misspelt variable would leave its setting as it is, and
/// nobody would notice.
static bool read_variable(struct api_config *config, const char *string)
{
    char variable[64];
    const char *name = string + strlen(PREFIX);
    const size_t length = strcspn(name, "=");
    const char *text = name[length] ? name + length + 1 : "";
    snprintf(variable, sizeof(variable), "%s%.*s", PREFIX, (int)(length < 50 ? length : 50), name);
    for (size_t k = 0; k < VARIABLE_COUNT; k++)
        if (strlen(variables[k].name) == length && strncmp(name, variables[k].name, length) == 0)
            return variables[k].read(config, variable, text);
    return fail_name(config, variable, text);
}

static int newest_isa_of(int driver)
{
    for (size_t i = 0; i < sizeof(newest_isa) / sizeof(newest_isa[0]); i++)
        if (driver >= newest_isa[i].driver)
            return newest_isa[i].isa;
    return 0;
}

void api_config_read(struct api_config *config)
{
    *config = (struct api_config) { .gpu = emu_gpu_of(DEFAULT_SM),
                                    .driver = newest_isa[0].driver,
                                    .memory = (uint64_t)DEFAULT_GIB << 30,
                                    .sanitize = (enum emu_sanitize)DEFAULT_SANITIZE,
                                    .seed = DEFAULT_SEED,
                                    .threads = DEFAULT_THREADS,
                                    .timeout = DEFAULT_TIMEOUT,
                                    .instructions = DEFAULT_INSTRUCTIONS };
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, PREFIX, strlen(PREFIX)) == 0)
            read_variable(config, *at);
    if (config->error[0])
        config->fault_count = 0; // cuInit() says what is wrong
    if (!config->multiprocessors)
        config->multiprocessors = config->gpu->multiprocessors;
    if (!config->name[0])
        snprintf(config->name, sizeof(config->name), "ptxgen emulator (sm_%d)", config->gpu->sm);
    config->isa = newest_isa_of(config->driver);
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

// SPDX-License-Identifier: MIT
/// For tests of the emulator's executor: a device's memory, PTX text in, results out.
#ifndef PTXGEN_TESTS_EMULATOR_FIXTURE_H
#define PTXGEN_TESTS_EMULATOR_FIXTURE_H

#include "exec/base/exec.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct emulator {
    struct emu_machine_config config;
    struct emu_memory *memory;
    struct emu_module *module;
    uint32_t grid, block, dynamic_shared;
    bool cooperative;
    int device; ///< for which texts are read: it runs those of older targets without a suffix
    const char *target; ///< of emulator_body(): ".version 8.1\n.target sm_90" and the like
    uint64_t global_base;
    char report[4096];
};

static inline void emulator_open(struct emulator *e)
{
    memset(e, 0, sizeof(*e));
    e->config = (struct emu_machine_config) { .gpu = emu_gpu_of(90),
                                              .multiprocessors = 4,
                                              .sanitize = true,
                                              .host_threads = 1,
                                              .timeout_ms = 20000 };
    e->memory = emu_memory_create(UINT64_C(1) << 28, true);
    e->device = 100;
    e->target = ".version 8.2\n.target sm_90";
    e->grid = 1;
    e->block = 32;
    assert_non_null(e->memory);
}

static inline void emulator_close(struct emulator *e)
{
    emu_module_destroy(&e->module);
    emu_memory_destroy(&e->memory);
}

/// Host bytes of a device address.
static inline void *emulator_at(struct emulator *e, uint64_t address, uint64_t bytes)
{
    enum emu_access_fault fault;
    void *host = emu_memory_access(e->memory, address, bytes, NULL, &fault);
    assert_non_null(host);
    return host;
}

static inline uint64_t emulator_alloc(struct emulator *e, uint64_t bytes)
{
    uint64_t address = emu_memory_alloc(e->memory, bytes);
    assert_int_not_equal(address, 0);
    return address;
}

/// Writes like a copy from the host: the bytes count as initialised.
static inline uint64_t emulator_upload(struct emulator *e, const void *data, uint64_t bytes)
{
    uint64_t address = emulator_alloc(e, bytes);
    enum emu_access_fault fault;
    unsigned char *shadow = NULL;
    void *host = emu_memory_access(e->memory, address, bytes, &shadow, &fault);
    assert_non_null(host);
    memcpy(host, data, (size_t)bytes);
    if (shadow)
        memset(shadow, 1, (size_t)bytes);
    return address;
}

static inline uint64_t emulator_zeros(struct emulator *e, uint64_t bytes)
{
    ALLOCATED(void) *data = calloc(1, (size_t)bytes);
    assert_non_null(data);
    return emulator_upload(e, data, bytes);
}

static inline void emulator_load(struct emulator *e, const char *text)
{
    const struct emu_parse_limits limits = { 90, e->device, 'a' };
    char log[2048] = "";
    int result = 0;
    emu_module_destroy(&e->module);
    e->module = emu_module_parse(text, strlen(text), &limits, log, sizeof(log), &result);
    if (!e->module)
        fail_msg("%d: %s\n%s", result, log, text);
    uint64_t bytes = e->module->global_bytes;
    e->global_base = bytes ? emulator_zeros(e, bytes) : 0;
}

/// Runs an entry with 64-bit parameters; the CUresult, and e->report.
static inline int emulator_run_entry(struct emulator *e, const char *name, const uint64_t *params)
{
    struct emu_launch launch = { .module = e->module,
                                 .entry = emu_module_entry(e->module, name),
                                 .grid = { e->grid, 1, 1 },
                                 .block = { e->block, 1, 1 },
                                 .dynamic_shared = e->dynamic_shared,
                                 .params = (const unsigned char *)params,
                                 .global_base = e->global_base,
                                 .cooperative = e->cooperative };
    assert_non_null(launch.entry);
    memset(e->report, 0, sizeof(e->report));
    return emu_run(&e->config, e->memory, &launch, e->report, sizeof(e->report));
}

static inline int emulator_run(struct emulator *e, const uint64_t *params)
{
    return emulator_run_entry(e, "k", params);
}

/// Runs a module with one entry "k" that has this body. %rd0 to %rd3 hold its 64-bit parameters p0
/// to p3; %r0 is %tid.x, %r1 is %ctaid.x, %r2 is %ntid.x.
static inline int emulator_body(struct emulator *e, const char *body, uint64_t p0, uint64_t p1,
                                uint64_t p2)
{
    static char text[65536];
    const uint64_t params[] = { p0, p1, p2, 0 };
    snprintf(
        text, sizeof(text),
        "%s\n.address_size 64\n"
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n{\n"
        ".reg .pred %%p<32>;\n.reg .b16 %%h<32>;\n.reg .b32 %%r<64>;\n.reg .b64 %%rd<64>;\n"
        ".reg .f32 %%f<32>;\n.reg .f64 %%fd<32>;\n"
        "ld.param.u64 %%rd0, [p0];\nld.param.u64 %%rd1, [p1];\nld.param.u64 %%rd2, [p2];\n"
        "mov.u32 %%r0, %%tid.x;\nmov.u32 %%r1, %%ctaid.x;\nmov.u32 %%r2, %%ntid.x;\n"
        "%s\n}\n",
        e->target, body);
    emulator_load(e, text);
    return emulator_run(e, params);
}

/// Requires that the launch ends with `result`, and that its report has each of the words.
static inline void emulator_expect(struct emulator *e, int got, int result, const char *words)
{
    if (got != result)
        fail_msg("result %d, not %d: %s", got, result, e->report);
    char list[256];
    snprintf(list, sizeof(list), "%s", words);
    for (char *word = strtok(list, "|"); word; word = strtok(NULL, "|"))
        if (!strstr(e->report, word))
            fail_msg("no '%s' in: %s", word, e->report);
}

/// emulator_body(), which must give this result and report these words.
static inline void emulator_fails(struct emulator *e, const char *body, uint64_t p0, uint64_t p1,
                                  uint64_t p2, int result, const char *words)
{
    emulator_expect(e, emulator_body(e, body, p0, p1, p2), result, words);
}

/// emulator_body(), which must succeed.
static inline void emulator_runs(struct emulator *e, const char *body, uint64_t p0, uint64_t p1,
                                 uint64_t p2)
{
    emulator_fails(e, body, p0, p1, p2, 0, "");
}

/// Requires that the launch succeeds, and that a copy of its results to the host is reported with
/// all of the words.
static inline void emulator_expect_undefined(struct emulator *e, int got, uint64_t address,
                                             uint64_t bytes, const char *words)
{
    uint32_t origin = 0;
    if (got)
        fail_msg("result %d: %s", got, e->report);
    if (!emu_memory_undefined(e->memory, address, bytes, &origin, e->report, sizeof(e->report)))
        fail_msg("nothing undefined, not: %s", words);
    emulator_expect(e, 719, 719, words);
}

/// Requires that the launch and a copy of its results succeed.
static inline void emulator_expect_fine(struct emulator *e, int got, uint64_t address,
                                        uint64_t bytes)
{
    uint32_t origin = 0;
    if (got ||
        emu_memory_undefined(e->memory, address, bytes, &origin, e->report, sizeof(e->report)))
        fail_msg("result %d: %s", got, e->report);
}

static inline int emulator_setup(void **state)
{
    struct emulator *e = malloc(sizeof(*e));
    assert_non_null(e);
    emulator_open(e);
    *state = e;
    return 0;
}

static inline int emulator_teardown(void **state)
{
    emulator_close(*state);
    free(*state);
    return 0;
}

#define EMULATOR_TEST(name)                                                                        \
    static void name##_on(struct emulator *e);                                                     \
    TEST_WITH(name, emulator_setup, emulator_teardown)                                             \
    {                                                                                              \
        name##_on(*state);                                                                         \
    }                                                                                              \
    static void name##_on(struct emulator *e)

#endif

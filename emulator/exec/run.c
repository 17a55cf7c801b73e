// SPDX-License-Identifier: MIT
// A launch: blocks distributed over workers.
//
// A worker runs a block to its end if it can. A block that runs for long may be waiting for another
// block. Then the worker starts more blocks, up to what the device would hold at once, and runs
// them by turns.
#include "exec/access/access.h"
#include "exec/base/room.h"
#include "exec/check/report.h"
#include "warps.h"

#include <fenv.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// ---- the programs of a module -------------------------------------------------------------------

struct emu_programs {
    struct emu_warnings *warnings;
    pthread_mutex_t lock; // guards the decoded programs
    uint32_t count;
    struct emu_program *by_entry[];
};

struct emu_programs *emu_programs_create(const struct emu_module *module)
{
    uint32_t count = module->function_count;
    struct emu_programs *programs =
        calloc(1, sizeof(*programs) + count * sizeof(programs->by_entry[0]));
    if (!programs)
        return NULL;
    programs->warnings = emu_warnings_create();
    if (!programs->warnings) {
        free(programs);
        return NULL;
    }
    pthread_mutex_init(&programs->lock, NULL);
    programs->count = count;
    return programs;
}

void emu_programs_destroy(struct emu_programs **programs)
{
    if (!programs || !*programs)
        return;
    for (uint32_t i = 0; i < (*programs)->count; i++)
        emu_program_destroy((*programs)->by_entry[i]);
    pthread_mutex_destroy(&(*programs)->lock);
    emu_warnings_destroy(&(*programs)->warnings);
    free(*programs);
    *programs = NULL;
}

static struct emu_warnings *programs_warnings(struct emu_programs *programs)
{
    return programs->warnings;
}

// The decoded entry of the launch. It belongs to launch->programs if there is one. NULL as from
// emu_program_create().
static const struct emu_program *program_of(const struct emu_launch *launch, int *result,
                                            char *reason, size_t reason_size)
{
    struct emu_programs *programs = launch->programs;
    if (!programs)
        return emu_program_create(launch, result, reason, reason_size);
    struct emu_program **at = &programs->by_entry[launch->entry - launch->module->functions];
    pthread_mutex_lock(&programs->lock);
    if (!*at)
        *at = emu_program_create(launch, result, reason, reason_size);
    const struct emu_program *program = *at;
    pthread_mutex_unlock(&programs->lock);
    return program;
}

// Frees the program unless it belongs to a module.
static void program_drop(const struct emu_launch *launch, const struct emu_program *program)
{
    if (!launch->programs)
        emu_program_destroy((struct emu_program *)(uintptr_t)program);
}

// ---- launches -----------------------------------------------------------------------------------

enum {
    SLICE = 16384,       // instructions of a block before the next resident block runs
    GROW_AFTER = 262144, // instructions of a worker's blocks before it adds another one
};

static atomic_uint_fast64_t lane_instructions;

uint64_t emu_lane_instructions(void)
{
    return atomic_load(&lane_instructions);
}

static int64_t now_ms(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct emu_block *next_block(struct emu_worker *worker)
{
    struct emu_exec *exec = worker->exec;
    if (atomic_load(&exec->next_block) >= exec->block_count)
        return NULL;
    if (atomic_fetch_add(&exec->resident, 1) >= exec->resident_limit) {
        atomic_fetch_sub(&exec->resident, 1);
        return NULL;
    }
    uint64_t k = atomic_fetch_add(&exec->next_block, 1);
    if (k >= exec->block_count) {
        atomic_fetch_sub(&exec->resident, 1);
        return NULL;
    }
    struct emu_block *block = worker->spare;
    worker->spare = NULL;
    if (!block)
        block = emu_block_create(worker);
    if (!block) {
        emu_fault_launch(exec, EMU_OUT_OF_MEMORY, "no host memory for a block of %u x %u x %u",
                         (unsigned)exec->launch->block[0], (unsigned)exec->launch->block[1],
                         (unsigned)exec->launch->block[2]);
        return NULL;
    }
    emu_block_start(block, (k * exec->order_step + exec->order_start) % exec->block_count);
    block->next = NULL;
    return block;
}

static void block_done(struct emu_worker *worker, struct emu_block *block)
{
    struct emu_exec *exec = worker->exec;
    atomic_fetch_add(&exec->finished_blocks, 1);
    atomic_fetch_sub(&exec->resident, 1);
    if (exec->config->timeout_ms)
        atomic_store(&exec->progress_ms, now_ms());
    if (worker->spare)
        emu_block_destroy(block);
    else
        worker->spare = block;
}

// Ends the launch, and names a thread of the block that has not ended.
static void time_out(struct emu_block *block, const char *reason)
{
    struct emu_exec *exec = block->exec;
    char text[256];
    snprintf(text, sizeof(text), "timeout: %s; %llu of %llu blocks have ended", reason,
             (unsigned long long)atomic_load(&exec->finished_blocks),
             (unsigned long long)exec->block_count);
    for (uint32_t w = 0; w < block->warp_count; w++) {
        struct emu_warp *warp = &block->warps[w];
        uint32_t lanes = warp->live & ~warp->waiting;
        if (!lanes)
            continue;
        unsigned lane = emu_first(lanes);
        uint32_t code = warp->whole ? warp->code : warp->lane_code[lane];
        uint32_t pc = warp->whole ? warp->pc : warp->lane_pc[lane];
        emu_fault(warp, exec->program->codes[code].ops[pc].insn, lane, EMU_TIMEOUT, "%s", text);
        return;
    }
    emu_fault_launch(exec, EMU_TIMEOUT, "%s", text);
}

static void check_time(struct emu_block *block)
{
    struct emu_exec *exec = block->exec;
    int64_t limit = exec->config->timeout_ms;
    char reason[96];
    if (!limit || now_ms() - atomic_load(&exec->progress_ms) <= limit)
        return;
    snprintf(reason, sizeof(reason), "no block has ended for %lld ms (PTXGEN_EMU_TIMEOUT)",
             (long long)limit);
    time_out(block, reason);
}

static int64_t slice(const struct emu_exec *exec)
{
    uint64_t limit = exec->config->instructions;
    return limit && limit < SLICE ? (int64_t)limit : SLICE;
}

// Checks once a turn, so a launch may exceed its limit a little.
static void check_spent(struct emu_block *block, uint64_t spent)
{
    struct emu_exec *exec = block->exec;
    uint64_t limit = exec->config->instructions;
    char reason[128];
    if (!limit || atomic_fetch_add(&exec->spent, spent) + spent <= limit)
        return;
    snprintf(reason, sizeof(reason),
             "the launch has run %llu instructions, more than PTXGEN_EMU_INSTRUCTIONS allows",
             (unsigned long long)atomic_load(&exec->spent));
    time_out(block, reason);
}

// Runs one turn of the first resident block, and puts it at the end of the queue.
static void turn(struct emu_worker *worker, int64_t *since_growth)
{
    struct emu_block *block = worker->resident;
    int64_t spent;
    worker->resident = block->next;
    bool ended = emu_block_run(block, slice(worker->exec), &spent);
    *since_growth += spent;
    check_spent(block, (uint64_t)spent);
    atomic_fetch_add_explicit(&lane_instructions, worker->lanes, memory_order_relaxed);
    worker->lanes = 0;
    if (ended) {
        block_done(worker, block);
        return;
    }
    struct emu_block **end = &worker->resident;
    while (*end)
        end = &(*end)->next;
    block->next = NULL;
    *end = block;
    check_time(block);
}

static void *work(void *argument)
{
    struct emu_worker *worker = argument;
    struct emu_exec *exec = worker->exec;
    fenv_t environment;
    int64_t since_growth = 0;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    while (!atomic_load(&exec->stop)) {
        if (!worker->resident || since_growth >= GROW_AFTER || exec->launch->cooperative) {
            struct emu_block *block = next_block(worker);
            if (block) {
                // Run the new block first: the others may be waiting for it.
                block->next = worker->resident;
                worker->resident = block;
            }
            since_growth = 0;
        }
        if (worker->resident) {
            turn(worker, &since_growth);
            continue;
        }
        if (atomic_load(&exec->next_block) >= exec->block_count)
            break;
        // The blocks of the other workers fill the device.
        struct timespec pause = { 0, 100000 };
        nanosleep(&pause, NULL);
    }
    fesetenv(&environment);
    while (worker->resident) {
        struct emu_block *block = worker->resident;
        worker->resident = block->next;
        emu_block_destroy(block);
    }
    emu_block_destroy(worker->spare);
    worker->spare = NULL;
    emu_room_free(worker->reads);
    worker->reads = NULL;
    return NULL;
}

static uint64_t greatest_common(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// The blocks in order, or each once in an order from the seed.
static void choose_order(struct emu_exec *exec)
{
    uint64_t count = exec->block_count, seed = exec->config->seed;
    exec->order_step = 1;
    exec->order_start = 0;
    if (seed == 0 || count < 2 || count > UINT32_MAX)
        return;
    exec->order_start = seed * UINT64_C(0x9e3779b97f4a7c15) % count;
    exec->order_step = (seed * UINT64_C(0xbf58476d1ce4e5b9) >> 20) % count;
    while (exec->order_step == 0 || greatest_common(exec->order_step, count) != 1)
        exec->order_step = (exec->order_step + 1) % count;
}

static bool check_shape(struct emu_exec *exec)
{
    const struct emu_launch *launch = exec->launch;
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->block[i] == 0 || launch->block[i] > EMU_MAX_THREADS)
            return emu_fault_launch(exec, EMU_INVALID_VALUE,
                                    "grid and block dimensions must be at least 1, and a block's "
                                    "at most %d",
                                    (int)EMU_MAX_THREADS);
        threads *= launch->block[i];
        blocks *= launch->grid[i];
        if (blocks > UINT64_C(1) << 48)
            return emu_fault_launch(exec, EMU_INVALID_VALUE, "the grid has more than 2^48 blocks");
    }
    if (threads > EMU_MAX_THREADS)
        return emu_fault_launch(exec, EMU_INVALID_VALUE, "a block has %u threads; the limit is %d",
                                (unsigned)threads, (int)EMU_MAX_THREADS);
    const struct emu_gpu *gpu = exec->config->gpu;
    uint64_t shared = emu_shared_bytes(launch->module, launch->entry, launch->dynamic_shared);
    if (shared > (uint64_t)gpu->shared_optin)
        return emu_fault_launch(
            exec, EMU_INVALID_VALUE,
            "a block needs %llu bytes of shared memory; the limit of sm_%d is %d",
            (unsigned long long)shared, gpu->sm, gpu->shared_optin);
    exec->shared_bytes = (uint32_t)shared;
    exec->block_count = blocks;
    exec->resident_limit =
        (uint64_t)emu_blocks_per_sm(gpu, threads, shared) * (uint64_t)exec->config->multiprocessors;
    if (launch->cooperative && blocks > exec->resident_limit)
        return emu_fault_launch(exec, EMU_COOPERATIVE_TOO_LARGE,
                                "cooperative launch of %llu blocks: the device holds %llu",
                                (unsigned long long)blocks,
                                (unsigned long long)exec->resident_limit);
    if (exec->resident_limit == 0)
        exec->resident_limit = 1;
    return true;
}

// The deepest chain of calls is unknown, so calls get a fixed size beside the entry's own.
static bool choose_local(struct emu_exec *exec)
{
    enum { CALLS = 16384 };
    uint64_t bytes = (exec->launch->entry->local_bytes + UINT64_C(15)) / 16 * 16;
    uint64_t callee = 0;
    for (uint32_t i = 0; i < exec->program->count; i++) {
        const struct emu_code *code = &exec->program->codes[i];
        if (code->function && i != exec->program->entry)
            callee += code->function->local_bytes;
    }
    if (callee)
        bytes += CALLS + (callee + 15) / 16 * 16;
    if (bytes > EMU_MAX_LOCAL)
        return emu_fault_launch(exec, EMU_OUT_OF_RESOURCES,
                                "a thread needs %llu bytes of local memory; the limit is %llu",
                                (unsigned long long)bytes, (unsigned long long)EMU_MAX_LOCAL);
    exec->local_bytes = bytes + (exec->program->allocates ? EMU_ALLOCA_BYTES : 0);
    return true;
}

static uint64_t host_memory(const struct emu_exec *exec)
{
    if (exec->config->host_memory)
        return exec->config->host_memory;
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 4 : UINT64_C(1) << 30;
}

// Limits the resident blocks to what host memory allows.
static bool limit_resident(struct emu_exec *exec)
{
    enum { RECORD = 64 }; // bytes that record the accesses to a grain of shared memory, at most
    const uint32_t *b = exec->launch->block;
    uint64_t warps = ((uint64_t)b[0] * b[1] * b[2] + EMU_LANES - 1) / EMU_LANES;
    uint64_t shared = exec->shared_bytes * (2 + UINT64_C(1) * RECORD / exec->program->race_grain);
    uint64_t bytes =
        warps * (emu_depth_bytes(exec) + 2 * EMU_LANES * exec->local_bytes) + shared + 1;
    exec->host_memory = host_memory(exec);
    uint64_t most = bytes < exec->host_memory ? exec->host_memory / bytes : 1;
    if (exec->launch->cooperative && exec->block_count > most)
        return emu_fault_launch(
            exec, EMU_OUT_OF_MEMORY,
            "a cooperative launch needs %llu blocks at once, %llu bytes each: out of host memory",
            (unsigned long long)exec->block_count, (unsigned long long)bytes);
    if (exec->resident_limit > most)
        exec->resident_limit = most;
    return true;
}

static unsigned worker_count(const struct emu_exec *exec)
{
    enum { MOST = 256 };
    uint64_t count = exec->config->host_threads;
    if (count == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        count = cores > 0 ? (uint64_t)cores : 1;
    }
    if (count > exec->block_count)
        count = exec->block_count;
    if (count > exec->resident_limit)
        count = exec->resident_limit;
    return count > MOST ? MOST : (unsigned)count;
}

// This thread works too. Missing worker threads are no error.
static void run_blocks(struct emu_exec *exec)
{
    unsigned count = worker_count(exec);
    struct emu_worker *workers = calloc(count, sizeof(*workers));
    if (!workers) {
        emu_fault_launch(exec, EMU_OUT_OF_MEMORY, "out of host memory for worker threads");
        return;
    }
    for (unsigned i = 0; i < count; i++)
        workers[i].exec = exec;
    for (unsigned i = 1; i < count; i++)
        workers[i].started = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    work(&workers[0]);
    for (unsigned i = 1; i < count; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    free(workers);
}

// The memory that the blocks of a cooperative launch share for their barriers: its size, and a
// counter. Only kernels that read %envreg get it.
static bool make_workspace(struct emu_exec *exec)
{
    enum { BYTES = 64 };
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    const uint32_t size = BYTES;
    if (!exec->launch->cooperative || !exec->program->reads_environment)
        return true;
    exec->workspace = emu_memory_alloc(exec->memory, BYTES);
    unsigned char *host =
        exec->workspace ? emu_memory_access(exec->memory, exec->workspace, BYTES, &shadow, &fault)
                        : NULL;
    if (!host)
        return emu_fault_launch(exec, EMU_OUT_OF_MEMORY,
                                "no device memory for the workspace of a cooperative launch");
    memset(host, 0, BYTES);
    memcpy(host, &size, sizeof(size));
    if (shadow)
        memset(shadow, EMU_SHADOW_DEFINED, BYTES);
    return true;
}

static bool check_constants(struct emu_exec *exec)
{
    const bool primary = exec->program->starts_dependents && exec->launch->writes;
    if (!exec->sanitize || (!exec->program->loads_nc && !primary))
        return true;
    exec->constants = emu_constants_create(exec->launch->entry->name);
    return exec->constants || emu_fault_launch(exec, EMU_OUT_OF_MEMORY,
                                               "out of host memory for the check of loads by .nc");
}

int emu_run(const struct emu_machine_config *config, struct emu_memory *memory,
            const struct emu_launch *launch, char *report, size_t report_size)
{
    struct emu_exec exec = { .config = config,
                             .memory = memory,
                             .launch = launch,
                             .sanitize = config->sanitize && emu_memory_shadows(memory),
                             .shadows = emu_memory_shadows(memory),
                             .report = report,
                             .report_size = report_size };
    char reason[512] = "";
    struct emu_warnings *own = NULL;
    if (report_size)
        report[0] = 0;
    pthread_mutex_init(&exec.lock, NULL);
    if (exec.sanitize && config->sanitize == EMU_SANITIZE_WARN) {
        own = launch->programs ? NULL : emu_warnings_create();
        exec.warnings = launch->programs ? programs_warnings(launch->programs) : own;
    }
    int result = EMU_SUCCESS;
    exec.access = emu_access_of(emu_lane_build());
    exec.program = program_of(launch, &result, reason, sizeof(reason));
    if (!exec.program)
        emu_fault_launch(&exec, result, "%s", reason);
    else if (check_shape(&exec) && choose_local(&exec) && limit_resident(&exec) &&
             make_workspace(&exec) && check_constants(&exec)) {
        exec.primary = exec.sanitize ? launch->primary : NULL;
        choose_order(&exec);
        atomic_store(&exec.progress_ms, now_ms());
        run_blocks(&exec);
    }
    if (exec.workspace)
        emu_memory_free(memory, exec.workspace);
    const bool kept = exec.program && exec.program->starts_dependents && launch->writes;
    if (launch->writes)
        *launch->writes = kept ? exec.constants : NULL;
    if (!kept)
        emu_constants_destroy(exec.constants);
    emu_heap_settle(memory);
    emu_warnings_tell(exec.warnings, config->warn);
    emu_warnings_destroy(&own);
    program_drop(launch, exec.program);
    pthread_mutex_destroy(&exec.lock);
    return exec.result;
}

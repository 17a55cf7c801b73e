// SPDX-License-Identifier: MIT
// The machine that runs a program: its memory with red zones and shadow, and a launch.
#ifndef PTXGEN_EMULATOR_EXEC_EXEC_H
#define PTXGEN_EMULATOR_EXEC_EXEC_H

#include "ptx/program.h"
#include "shadow.h"

// Device memory: allocations at addresses of their own, red zones round each, freed ones kept
// unmapped for a while so that use after free is seen. Thread-safe.
struct emu_memory;

// What the sanitizers do: nothing, end the launch with the first finding, or tell of each once and
// go on as without them.
enum emu_sanitize { EMU_SANITIZE_OFF, EMU_SANITIZE_ON, EMU_SANITIZE_WARN };

struct emu_memory *emu_memory_create(uint64_t bytes, enum emu_sanitize sanitize);
void emu_memory_destroy(struct emu_memory **memory);
// 256-byte aligned, uninitialised in the shadow. 0 if memory is out.
uint64_t emu_memory_alloc(struct emu_memory *memory, uint64_t bytes);
// False if nothing was allocated there (any more).
bool emu_memory_free(struct emu_memory *memory, uint64_t address);
// The allocation that holds the address: its start and size. False if none does.
bool emu_memory_find(struct emu_memory *memory, uint64_t address, uint64_t *start, uint64_t *bytes);
void emu_memory_info(struct emu_memory *memory, uint64_t *available, uint64_t *total);

// Device addresses begin here: above every address of the host, which faults if it is made to
// follow one. Lower ones are host memory that the device may reach too (emu_memory_map_host).
#define EMU_DEVICE_BASE 0x1000000000000u

// Makes host memory accessible at its own address, until unmapped; it counts as initialised. False
// if the range overlaps one that is mapped, or if host memory is out.
bool emu_memory_map_host(struct emu_memory *memory, void *host, uint64_t bytes);
bool emu_memory_unmap_host(struct emu_memory *memory, const void *host);
// For reports: the allocation next to the address, or that held it before it was freed. False if
// there is none near.
bool emu_memory_nearest(struct emu_memory *memory, uint64_t address, uint64_t *start,
                        uint64_t *bytes, bool *freed);

enum emu_access_fault { EMU_ACCESS_OK, EMU_ACCESS_OUTSIDE, EMU_ACCESS_FREED };
// Host bytes of [address, address + bytes), all within one allocation, else NULL and why. `shadow`
// (if not NULL) gets one byte for each byte (shadow.h); NULL when the sanitizer is off, and of host
// memory, which the host may write without anybody knowing. Stays valid until the allocation is
// freed. Lock-free.
unsigned char *emu_memory_access(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                                 unsigned char **shadow, enum emu_access_fault *fault);

enum {
    EMU_LANES = 32,         // of a warp
    EMU_MAX_THREADS = 1024, // of a block
    EMU_MAX_BLOCK_Z = 64,
    EMU_MAX_GRID_X = INT32_MAX,
    EMU_MAX_GRID_YZ = 65535,
};

// What a GPU of one compute capability has, as its data sheet, the CUDA programming guide and the
// occupancy calculator say. Shared memory and L2 in bytes, the bus in bits, clocks in kHz.
struct emu_gpu {
    int sm; // 90 for sm_90
    int multiprocessors;
    int threads_per_sm, blocks_per_sm;
    int shared_per_sm;
    int shared_optin;    // the most that a block may ask for
    int shared_reserved; // of each block, by the system
    int shared_unit;     // what a block takes is a multiple of this
    int l2, bus_width, memory_clock, clock;
};
// NULL if there is no such GPU.
const struct emu_gpu *emu_gpu_of(int sm);

// Where dynamic shared memory begins: after the static part, aligned for the arrays that name it.
uint32_t emu_dynamic_start(const struct emu_module *module, const struct emu_function *entry);
// Bytes of shared memory of a block: the entry's own, and `dynamic` more.
uint64_t emu_shared_bytes(const struct emu_module *module, const struct emu_function *entry,
                          uint64_t dynamic);
// Blocks of so many threads and bytes of shared memory that a multiprocessor holds at once. Every
// question about occupancy is answered from here.
int emu_blocks_per_sm(const struct emu_gpu *gpu, uint64_t threads, uint64_t shared);
// The most bytes of shared memory that each of `blocks` blocks may have where a multiprocessor
// holds them at once; 0 if that is none.
uint64_t emu_shared_for_blocks(const struct emu_gpu *gpu, uint64_t blocks);

// The table beside the shadow bytes; NULL when the sanitizer is off.
struct emu_shadows *emu_memory_shadows(struct emu_memory *memory);
// Whether a copy of [address, address + bytes) to the host has bytes computed from undefined
// values; then what to report.
bool emu_memory_undefined(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                          uint32_t *origin, char *report, size_t report_size);

struct emu_machine_config {
    const struct emu_gpu *gpu;
    int multiprocessors; // that it has: other than gpu->multiprocessors if the user says so
    enum emu_sanitize sanitize;
    void (*warn)(const char *text); // of EMU_SANITIZE_WARN; may be NULL
    uint64_t seed;                  // 0: warps and blocks run in order; else permutes them
    uint64_t host_memory;  // bytes that a launch's blocks may take, 0: a quarter of the host's
    unsigned host_threads; // workers that blocks are spread over, 0: the cores
    int64_t timeout_ms;    // 702 if no block ends for so long; 0: never
    uint64_t instructions; // 702 when the warps of a launch have run so many; 0: never
};

// The entries of a module, each decoded when it is launched for the first time. Thread-safe. Keeps
// pointers into the module, and what it decoded holds for one place of the module's data.
struct emu_programs;
// NULL if host memory is out. Findings are told once for all launches that share it.
struct emu_programs *emu_programs_create(const struct emu_module *module);
void emu_programs_destroy(struct emu_programs **programs);

struct emu_launch {
    const struct emu_module *module;
    const struct emu_function *entry;
    struct emu_programs *programs; // of the module; NULL: decoded for this launch alone
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared;
    const unsigned char *params; // param_bytes, laid out as the entry's parameters are
    uint64_t global_base;        // device address of the module's .global data
    uint64_t const_base;         // of its .const data
    uint64_t grid_id;
    bool cooperative; // all blocks are resident at once
};

// Runs a grid to its end. Returns 0, or the CUresult that the hardware would give (700 illegal
// address, 716 misaligned address, 719 launch failure, 715 illegal instruction, 702 timeout for a
// deadlock, 720 cooperative launch too large ...), and then writes into `report` what happened:
// kernel, PTX line with its text, block, thread, address. Blocks run on the configured workers.
int emu_run(const struct emu_machine_config *config, struct emu_memory *memory,
            const struct emu_launch *launch, char *report, size_t report_size);

// Lane-instructions executed since the process began, for the benchmark.
uint64_t emu_lane_instructions(void);

#endif

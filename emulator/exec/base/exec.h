// SPDX-License-Identifier: MIT
// Runs a program: the device memory with red zones and shadow bytes, and a launch.
#ifndef PTXGEN_EMULATOR_EXEC_BASE_EXEC_H
#define PTXGEN_EMULATOR_EXEC_BASE_EXEC_H

#include "ptx/program.h"

// ---- device memory ------------------------------------------------------------------------------

// Device memory. Each allocation has its own addresses with red zones around it. Freed addresses
// stay unmapped for a while, so that use after free is detected. Thread-safe.
struct emu_memory;
struct emu_shadows;

// What the sanitizers do: nothing; end the launch at the first finding; or report each finding once
// and continue as without them.
enum emu_sanitize { EMU_SANITIZE_OFF, EMU_SANITIZE_ON, EMU_SANITIZE_WARN };

struct emu_memory *emu_memory_create(uint64_t bytes, enum emu_sanitize sanitize);
void emu_memory_destroy(struct emu_memory **memory);
// 256-byte aligned, uninitialised in the shadow. 0 if out of memory.
uint64_t emu_memory_alloc(struct emu_memory *memory, uint64_t bytes);
// False if the address is not that of a live allocation.
bool emu_memory_free(struct emu_memory *memory, uint64_t address);
// The start and size of the allocation that contains the address. False if there is none.
bool emu_memory_find(struct emu_memory *memory, uint64_t address, uint64_t *start, uint64_t *bytes);
void emu_memory_info(struct emu_memory *memory, uint64_t *available, uint64_t *total);

// Device addresses begin here. They are above every host address, so a host that dereferences one
// faults. Lower addresses are host memory that the device may access (emu_memory_map_host).
#define EMU_DEVICE_BASE 0x1000000000000u

// Makes host memory accessible at its own address until it is unmapped. It counts as initialised.
// False if the range overlaps a mapped one or host memory is out.
bool emu_memory_map_host(struct emu_memory *memory, void *host, uint64_t bytes);
bool emu_memory_unmap_host(struct emu_memory *memory, const void *host);
// Makes all memory of the process accessible at its own address, as on a system with pageable
// memory access. Nothing there is checked: an access to what is not mapped ends the process.
void emu_memory_map_process(struct emu_memory *memory);
// For reports: the allocation nearest to the address, or the freed one that contained it. False if
// there is none nearby.
bool emu_memory_nearest(struct emu_memory *memory, uint64_t address, uint64_t *start,
                        uint64_t *bytes, bool *freed);

enum emu_access_fault { EMU_ACCESS_OK, EMU_ACCESS_OUTSIDE, EMU_ACCESS_FREED };
// The host bytes of [address, address + bytes) if all are within one allocation; else NULL and the
// reason. `shadow` (if not NULL) gets the address of their shadow bytes, one for each byte; NULL if
// the sanitizers are off, and for host memory, which the host may write unnoticed. Valid until the
// allocation is freed. Lock-free.
unsigned char *emu_memory_access(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                                 unsigned char **shadow, enum emu_access_fault *fault);

// The heap of a context: what malloc() of its kernels takes of the device's memory. The caller sets
// the limit in bytes; `in_use` is true after the first call.
struct emu_heap {
    uint64_t limit, used;
    bool in_use;
};

// 0 if the heap or the device's memory is out, or for 0 bytes.
uint64_t emu_heap_alloc(struct emu_memory *memory, struct emu_heap *heap, uint64_t bytes);
// False if the address is not one that emu_heap_alloc() gave and that is not freed. An access finds
// the memory freed at once, but its host memory stays until emu_heap_settle(), or a new allocation
// of the size, so that a thread that has just looked it up does no harm.
bool emu_heap_free(struct emu_memory *memory, struct emu_heap *heap, uint64_t address);
// After a launch.
void emu_heap_settle(struct emu_memory *memory);
// Frees all of a heap, with its context.
void emu_heap_clear(struct emu_memory *memory, struct emu_heap *heap);
// Whether the address is in a heap, live or freed: then it must be looked up at each access.
bool emu_heap_has(struct emu_memory *memory, uint64_t address);

// The table for partly defined bytes; NULL if the sanitizers are off.
struct emu_shadows *emu_memory_shadows(struct emu_memory *memory);
// Whether [address, address + bytes) has bytes computed from undefined values, which a copy to the
// host reports; and the report.
bool emu_memory_undefined(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                          uint32_t *origin, char *report, size_t report_size);

// ---- shadow.c: what is known of each byte -------------------------------------------------------

enum {
    EMU_SHADOW_NEVER,   // never written
    EMU_SHADOW_DEFINED, // written, all of it defined
    EMU_SHADOW_LISTED,  // in the table
    // No bit defined. The value is one of these plus the origin: computed, or only copied.
    EMU_SHADOW_COMPUTED,
    EMU_SHADOW_COPIED = 129,
    EMU_SHADOW_ORIGINS = EMU_SHADOW_COPIED - EMU_SHADOW_COMPUTED, // others are in the table
};

// The undefined bits, those of them that were computed and not only copied, and their origin. For a
// byte of memory the low 8 bits count.
struct emu_undefined {
    uint64_t bits, computed;
    uint32_t origin; // 0: unknown
};

struct emu_shadows *emu_shadows_create(void); // NULL if host memory is out
void emu_shadows_destroy(struct emu_shadows **shadows);

// The state of the byte that has this shadow byte.
struct emu_undefined emu_shadow_get(struct emu_shadows *shadows, const unsigned char *shadow);
void emu_shadow_put(struct emu_shadows *shadows, unsigned char *shadow, struct emu_undefined byte);
// Copies the state, like memmove() of the memory.
void emu_shadow_move(struct emu_shadows *shadows, unsigned char *to, const unsigned char *from,
                     size_t bytes);
// Forgets the entries of a shadow that is about to be freed.
void emu_shadow_forget(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);
// The index of the first byte with a computed undefined bit; `bytes` if there is none.
size_t emu_shadow_computed(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);

// Registers an origin of undefined values, in words, and returns its number. The same text has the
// same number. Numbers are valid as long as the shadows. 0 if there are too many or host memory is
// out.
uint32_t emu_origin_add(struct emu_shadows *shadows, const char *text);
const char *emu_origin_text(struct emu_shadows *shadows, uint32_t origin);
// True the first time for each origin.
bool emu_origin_report(struct emu_shadows *shadows, uint32_t origin);

// ---- GPUs ---------------------------------------------------------------------------------------

enum {
    EMU_MAX_THREADS = 1024, // threads of a block
    EMU_MAX_BLOCK_Z = 64,
    EMU_MAX_GRID_X = INT32_MAX,
    EMU_MAX_GRID_YZ = 65535,
};

// The properties of a GPU of one compute capability, from its data sheet, the CUDA programming
// guide and the occupancy calculator. Shared memory and L2 in bytes, the bus in bits, clocks in
// kHz.
struct emu_gpu {
    int sm; // 90 for sm_90
    int multiprocessors;
    int threads_per_sm, blocks_per_sm;
    int shared_per_sm;
    int shared_optin;    // limit of a block with the opt-in attribute
    int shared_reserved; // by the system, in each block
    int shared_unit;     // granularity of allocation
    int l2, bus_width, memory_clock, clock;
};
// NULL if the emulator does not know the GPU.
const struct emu_gpu *emu_gpu_of(int sm);

// The offset of dynamic shared memory: after the static part, aligned for the arrays that name it.
uint32_t emu_dynamic_start(const struct emu_module *module, const struct emu_function *entry);
// Bytes of shared memory of a block: static, and `dynamic` more.
uint64_t emu_shared_bytes(const struct emu_module *module, const struct emu_function *entry,
                          uint64_t dynamic);
// The number of blocks with this many threads and bytes of shared memory that a multiprocessor
// holds at once. Every answer about occupancy comes from here.
int emu_blocks_per_sm(const struct emu_gpu *gpu, uint64_t threads, uint64_t shared);
// The largest size of shared memory, in bytes, with which a multiprocessor holds `blocks` blocks at
// once; 0 if none does.
uint64_t emu_shared_for_blocks(const struct emu_gpu *gpu, uint64_t blocks);

// ---- launches -----------------------------------------------------------------------------------

struct emu_machine_config {
    const struct emu_gpu *gpu;
    int multiprocessors; // the user may set another number than gpu->multiprocessors
    enum emu_sanitize sanitize;
    void (*warn)(const char *text); // for EMU_SANITIZE_WARN; may be NULL
    // What a kernel prints: to the standard error, or to the standard output at the next
    // synchronisation. May be NULL. Several threads may call it at once.
    void (*print)(bool error, const char *text, size_t length);
    uint64_t seed;        // 0: warps and blocks run in order; else it permutes them
    uint64_t host_memory; // limit in bytes for a launch's blocks; 0: a quarter of the host's memory
    unsigned host_threads; // worker threads; 0: one for each core
    int64_t timeout_ms;    // 702 if no block ends for this time; 0: no limit
    uint64_t instructions; // 702 after this many warp-instructions of a launch; 0: no limit
};

// The entries of a module, each decoded at its first launch. Thread-safe. Keeps pointers into the
// module. The decoded code is valid for one address of the module's data.
struct emu_programs;
// NULL if host memory is out. Launches that share it report each finding once.
struct emu_programs *emu_programs_create(const struct emu_module *module);
void emu_programs_destroy(struct emu_programs **programs);

struct emu_constants;

struct emu_launch {
    const struct emu_module *module;
    const struct emu_function *entry;
    struct emu_programs *programs; // the module's; NULL: decode for this launch only
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared;
    const unsigned char *params; // param_bytes, laid out as the entry's parameters are
    uint64_t global_base;        // device address of the module's .global data
    uint64_t const_base;         // the same for its .const data
    uint64_t grid_id;
    bool cooperative;      // all blocks are resident at once
    struct emu_heap *heap; // for malloc(); NULL: there is none, and malloc() gives null
    // Programmatic dependent launch. `primary`: what the kernel wrote that this one may overlap, or
    // NULL. `writes`, if not NULL, gets what this kernel writes if it lets dependents start, else
    // NULL; the caller destroys it.
    const struct emu_constants *primary;
    struct emu_constants **writes;
};

void emu_constants_destroy(struct emu_constants *constants); // may be NULL

// Runs a grid to its end on the configured workers. Returns 0, or the CUresult of the hardware (700
// illegal address, 716 misaligned address, 719 launch failure, 715 illegal instruction, 702 timeout
// for a deadlock, 720 cooperative launch too large ...), and then writes to `report` what happened:
// kernel, PTX line with its text, block, thread, address.
int emu_run(const struct emu_machine_config *config, struct emu_memory *memory,
            const struct emu_launch *launch, char *report, size_t report_size);

// Lane-instructions executed since the process began, for the benchmark.
uint64_t emu_lane_instructions(void);

#endif

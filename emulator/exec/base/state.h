// SPDX-License-Identifier: MIT
// Inside the executor: the state of a launch, a block and a warp.
#ifndef PTXGEN_EMULATOR_EXEC_BASE_STATE_H
#define PTXGEN_EMULATOR_EXEC_BASE_STATE_H

#include "abi/cuda.h"
#include "code.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

// ---- warps and blocks ---------------------------------------------------------------------------

enum {
    EMU_MAX_WARPS = EMU_MAX_THREADS / EMU_LANES,
    EMU_BARRIERS = 16,
    EMU_ALLOCA_BYTES = 16 * 1024, // that a thread has for alloca
    EMU_MAX_DEPTH = 250,          // depth of nested calls; key_of() in group.c has 8 bits for it
};

// CUresult values that a launch may end with.
enum {
    EMU_SUCCESS = CUDA_SUCCESS,
    EMU_INVALID_VALUE = CUDA_ERROR_INVALID_VALUE,
    EMU_OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY,
    EMU_ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS,
    EMU_OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    EMU_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT,
    EMU_HARDWARE_STACK = CUDA_ERROR_HARDWARE_STACK_ERROR,
    EMU_ASSERT = CUDA_ERROR_ASSERT,
    EMU_ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION,
    EMU_MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS,
    EMU_LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED,
    EMU_COOPERATIVE_TOO_LARGE = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
};

// The generic addresses of the windows of the other state spaces: between every host address and
// EMU_DEVICE_BASE.
#define EMU_SHARED_WINDOW UINT64_C(0x800000000000)
#define EMU_LOCAL_WINDOW  UINT64_C(0x800100000000)
#define EMU_PARAM_WINDOW  UINT64_C(0x800200000000)
#define EMU_WINDOWS_END   UINT64_C(0x800300000000)
#define EMU_WINDOW_SIZE   UINT64_C(0x000100000000)

struct emu_exec;
struct emu_block;

enum emu_wait { EMU_WAIT_NONE, EMU_WAIT_BARRIER, EMU_WAIT_WARP, EMU_WAIT_PHASE };

// The findings of the sanitizers. Each is reported once for each line of PTX.
enum emu_finding {
    EMU_FINDING_GUARD, // the first ones: an undefined value decides
    EMU_FINDING_ADDRESS,
    EMU_FINDING_TARGET,
    EMU_FINDING_LANE,
    EMU_FINDING_CLAMP,
    EMU_FINDING_MEMBERS,
    EMU_FINDING_BARRIER,
    EMU_FINDING_COUNT,
    EMU_FINDING_SIZE,
    EMU_FINDING_PHASE,
    EMU_FINDING_SCALE,
    EMU_FINDING_HOST, // an undefined value is stored to host memory
    EMU_FINDING_RACE,
    EMU_FINDING_CONSTANT, // memory that .nc loads is written
    EMU_FINDING_PRIMARY,  // what a primary kernel writes is read before griddepcontrol.wait
    EMU_FINDING_OUTSIDE,  // a lane outside its own member mask
    EMU_FINDING_DIVERGENCE,
};

struct emu_return {
    uint32_t code, pc;
    uint32_t local_base;
    uint64_t stack_top;
};

// An asynchronous operation under way, in a list of its warp or block: see pending.c.
enum { EMU_NO_MBARRIER = -1 };

struct emu_async {
    struct emu_warp *warp;
    const struct emu_op *op;
    unsigned char *to, *to_shadow;
    const unsigned char *from, *from_shadow;
    uint64_t to_address, from_address;
    int64_t mbarrier; // shared offset, or EMU_NO_MBARRIER
    uint64_t order;   // of cp.async: a number; copies up to it count
    uint32_t bytes, batch;
    uint8_t lane;
    uint8_t taken; // cp.async: bytes read from the source; the rest is zero
    bool is_arrival, to_shared, from_shared;
};

struct emu_pending {
    struct emu_async *at;
    uint32_t count, room;
};

// Which operations of a list end, and how.
struct emu_ending {
    bool (*ends)(const struct emu_async *async, const struct emu_ending *ending);
    bool (*finish)(const struct emu_async *async);
    const struct emu_warp *warp;
    const uint32_t *batches; // the open group of each lane
    uint64_t kept, order;
    int64_t mbarrier;
    uint32_t lanes;
    bool open; // the open group too
};

struct emu_warp {
    struct emu_block *block;
    uint32_t index, exists, live, waiting;
    // The running group of lanes: they share pc, code and depth.
    uint32_t active, pc, code, depth;
    uint32_t limit;   // pc of the next other group
    bool alone;       // no other group can run
    bool leave;       // choose the group anew
    bool whole;       // `active` has all lanes that can run; lane_pc is not up to date
    int32_t left;     // instructions until the group is chosen anew
    int32_t budget;   // instructions left in this turn
    int32_t patience; // instructions until another group of a divergent warp runs
    uint32_t stamp;
    uint32_t lane_pc[EMU_LANES], lane_code[EMU_LANES], lane_depth[EMU_LANES];
    uint32_t exit_line[EMU_LANES];
    uint32_t depended;               // lanes that have executed griddepcontrol.wait
    uint32_t lane_served[EMU_LANES]; // stamp of the last turn for which other groups waited
    uint32_t wait[EMU_LANES];        // enum emu_wait
    // EMU_WAIT_WARP: its mask; EMU_WAIT_BARRIER: its barrier; EMU_WAIT_PHASE: its mbarrier's offset
    uint32_t wait_mask[EMU_LANES];
    uint32_t impatient; // lanes whose wait for a phase gives false if it has not completed
    uint32_t carry, carry_undefined;
    uint32_t carry_origin[EMU_LANES];
    uint32_t local_base[EMU_LANES];
    uint64_t stack_top[EMU_LANES]; // what alloca gave lies from here on
    struct emu_return *returns;    // [depth][lane], NULL in a program without calls
    unsigned char *frames;         // [depth], program.depth_bytes each
    // [depth], for each register the lanes in which it is fully defined; NULL: not tracked.
    // `undefined` has what is known of the other lanes; NULL until there is any: see undefined.c.
    uint32_t *init;
    struct emu_undefined_lanes **undefined;
    uint32_t frame_depths;          // allocated
    struct emu_pending copies;      // see copy.c
    uint32_t copy_batch[EMU_LANES]; // the open batch of each lane
    uint32_t bulk_batch[EMU_LANES]; // the open bulk group
    uint64_t copy_order;            // counts the copies
    unsigned char *local;           // [lane][local_bytes]
    unsigned char *local_shadow;
};

struct emu_barrier {
    bool busy, all;
    uint32_t expected;               // threads, where not all
    uint32_t arrived;                // threads that executed bar.arrive
    uint32_t waiting[EMU_MAX_WARPS]; // lanes in bar.sync and bar.red
    bool apart[EMU_MAX_WARPS];       // warps whose lanes arrived at different times
    bool red;                        // some lanes are in bar.red
    uint32_t line;                   // PTX line of the first arrival
};

// An mbarrier object: see mbarrier.c.
struct emu_mbarrier {
    uint32_t offset; // in shared memory
    uint32_t phase, expected, pending;
    int64_t bytes;
    uint32_t line; // of its mbarrier.init
};

struct emu_race;

struct emu_block {
    struct emu_exec *exec;
    struct emu_worker *worker;
    uint32_t id[3];
    uint64_t linear;
    uint32_t threads, warp_count, live_warps;
    uint32_t exited; // threads
    uint32_t next_warp;
    bool used; // its memory was written
    struct emu_warp *warps;
    unsigned char *shared, *shared_shadow;
    // Every byte of shared memory is defined; false: not known. Who makes one undefined clears it.
    bool shared_defined;
    uint32_t shared_checked; // bytes that loads have checked since it was last found not to be so
    unsigned char *frames;   // of depth 0, all warps
    uint32_t *inits;
    struct emu_race *race;
    struct emu_barrier barriers[EMU_BARRIERS];
    struct emu_mbarrier *mbarriers;
    uint32_t mbarrier_count, mbarrier_room;
    uint32_t polling;          // lanes that wait for a phase
    uint32_t waited;           // turns since one began to wait
    uint32_t stuck;            // times that all lanes waited since an mbarrier changed
    struct emu_pending asyncs; // see bulk.c
    uint64_t random;
    struct emu_block *next;
};

// Part of an address space that is host memory.
struct emu_region {
    uint64_t start, bytes;
    unsigned char *host, *shadow;
};

enum { EMU_REGIONS = 8 };

// A cache of origins of undefined values: what is read at which instruction.
enum { EMU_ORIGINS = 8 };

struct emu_origins {
    struct {
        const void *insn;
        uint64_t what;
        uint32_t origin;
    } of[EMU_ORIGINS];
    unsigned next;
};

struct emu_constants;
struct emu_constant_page;
enum { EMU_CONSTANT_PAGES = 16 };

struct emu_worker {
    struct emu_exec *exec;
    struct emu_constant_page *constant_pages[EMU_CONSTANT_PAGES]; // recently used
    struct emu_region regions[EMU_REGIONS]; // cache of recently used allocations
    unsigned next_region;
    uint8_t near[EMU_REGIONS]; // the region that an instruction of this slot used last
    struct emu_origins origins;
    uint64_t executed; // warp-instructions, for the clock
    uint64_t lanes;    // lane-instructions not yet added to the process's count
    struct emu_block *resident, *spare;
    struct emu_reads *reads; // of shared memory: see race.c
    pthread_t thread;
    bool started;
};

struct emu_exec {
    const struct emu_machine_config *config;
    struct emu_memory *memory;
    const struct emu_launch *launch;
    const struct emu_program *program;
    const struct emu_access_build *access;
    uint32_t shared_bytes; // of a block, static and dynamic
    uint64_t workspace;    // of a cooperative grid: see environment() in value.c; 0: none
    bool sanitize;
    struct emu_shadows *shadows;
    struct emu_constants *constants;     // see constant.c; NULL: nothing is checked
    const struct emu_constants *primary; // NULL: there is none
    struct emu_warnings *warnings;       // only with EMU_SANITIZE_WARN
    uint64_t block_count, resident_limit;
    uint64_t host_memory; // limit in bytes for resident blocks, and the same again for nested calls
    uint64_t local_bytes; // of a thread, including its calls
    uint64_t order_step, order_start; // block k runs as (k * step + start) mod count
    atomic_uint_fast64_t next_block, finished_blocks, resident;
    atomic_int_fast64_t progress_ms;  // when a block last finished
    atomic_uint_fast64_t spent;       // instructions of all warps, counted if there is a limit
    atomic_uint_fast64_t frame_bytes; // of all warps, beyond the first depth of calls
    atomic_bool stop;
    pthread_mutex_t lock; // of the fault
    int result;
    char *report;
    size_t report_size;
};

enum { EMU_MOST_PARTS = 8 };

enum emu_use { EMU_USE_LOAD, EMU_USE_STORE, EMU_USE_ATOMIC };

struct emu_access {
    unsigned char *host, *shadow;
    bool shared;
};

// The memory that all lanes of a warp access, if it is in one region.
struct emu_reach {
    unsigned char *host, *shadow; // of the first lane's address; shadow may be NULL
    bool shared;                  // shared memory
    bool in_row;                  // consecutive elements, all lanes active
    int32_t away[EMU_LANES];      // from the first lane's address; 0 for lanes without an access
};

static inline unsigned emu_first(uint32_t mask)
{
    return (unsigned)__builtin_ctz(mask);
}

static inline unsigned emu_count(uint32_t mask)
{
    return (unsigned)__builtin_popcount(mask);
}

extern const uint32_t emu_bit_of_lane[EMU_LANES];

// Sets the lanes of the mask to the value, without branches, so that compilers vectorise it.
static inline void emu_set_lanes(uint32_t *to, uint32_t value, uint32_t mask)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t keep = (mask & emu_bit_of_lane[i]) == 0 ? UINT32_MAX : 0;
        to[i] = (to[i] & keep) | (value & ~keep);
    }
}

static inline unsigned char *emu_frame(const struct emu_warp *warp, uint32_t depth,
                                       const struct emu_program *program, uint32_t code)
{
    return warp->frames + (size_t)depth * program->depth_bytes + program->codes[code].frame_at;
}

static inline uint32_t *emu_init(const struct emu_warp *warp, uint32_t depth,
                                 const struct emu_program *program, uint32_t code)
{
    return warp->init ? warp->init + (size_t)depth * program->depth_registers +
                            program->codes[code].init_at
                      : NULL;
}

static inline uint32_t emu_guarded(const struct emu_op *op, const unsigned char *frame,
                                   uint32_t mask)
{
    uint32_t guard;
    if (op->guard == EMU_NO_REGISTER)
        return mask;
    memcpy(&guard, frame + op->guard, sizeof(guard));
    return mask & (op->guard_negated ? ~guard : guard);
}

// One operand of an instruction.
struct emu_undefined_lanes {
    struct emu_undefined lane[EMU_LANES];
};

#endif

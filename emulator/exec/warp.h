// SPDX-License-Identifier: MIT
// Inside the executor: a warp, a block, a launch, undefined values.
#ifndef PTXGEN_EMULATOR_EXEC_WARP_H
#define PTXGEN_EMULATOR_EXEC_WARP_H

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
    EMU_MAX_DEPTH = 250,          // depth of nested calls; key_of() in warp.c has 8 bits for it
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

struct emu_block *emu_block_create(struct emu_worker *worker); // NULL if host memory is out
void emu_block_start(struct emu_block *block, uint64_t linear);
// Runs a block until it ends, faults, or has spent the budget of warp-instructions. True if it has
// ended.
bool emu_block_run(struct emu_block *block, int64_t budget, int64_t *spent);
void emu_block_destroy(struct emu_block *block);

// Runs lanes of a warp until its budget is spent, it ends, or all its lanes wait.
void emu_warp_run(struct emu_warp *warp, int32_t budget);
// Chooses the group among the lanes that can run.
void emu_group_pick(struct emu_warp *warp);
// Writes the pc of the group to its lanes.
void emu_group_put_back(struct emu_warp *warp);
void emu_warp_start(struct emu_warp *warp, uint32_t exists);
// Zeroed memory for vectors; NULL if host memory is out.
void *emu_zeros(size_t bytes);
// Bytes of the frames of all depths of calls except the first, which every block has.
uint64_t emu_bytes_of_calls(const struct emu_warp *warp, uint32_t depths);
// Makes room for the registers of calls up to this depth. False if host memory is out.
bool emu_warp_grow(struct emu_warp *warp, uint32_t depth);
// Bytes that the registers of a warp take for one depth of calls.
uint64_t emu_depth_bytes(const struct emu_exec *exec);
// Ends lanes and wakes the lanes that waited for them.
void emu_warp_exit(struct emu_warp *warp, uint32_t lanes, uint32_t line);
// Runs one instruction by its handler, for lanes of the running group. False after a fault.
bool emu_execute(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                 const struct emu_op *op, uint32_t mask);

// Handlers. `mask` is the active lanes whose guard holds. False after a fault.
bool emu_do_load(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_store(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_atomic(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_wide(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_stack(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_address(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_move(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
enum { EMU_MOST_PARTS = 8 };
// The result of a move of parts, lane by lane.
void emu_move_parts(const struct emu_op *op, const uint64_t (*from)[EMU_LANES],
                    uint64_t (*to)[EMU_LANES]);
bool emu_do_call(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_return(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// A call of a function of the driver: see system.c.
bool emu_do_system(struct emu_warp *warp, const struct emu_op *call, uint32_t mask,
                   enum emu_system system);
void emu_do_float_pair(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                       const struct emu_op *op, uint32_t mask);
void emu_do_truth(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask);
void emu_do_float(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask);
void emu_do_compare(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                    const struct emu_op *op, uint32_t mask);
void emu_do_compare_pair(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                         const struct emu_op *op, uint32_t mask);
// The host's rounding mode, of <fenv.h>, for enum emu_round.
int emu_host_rounding(unsigned round);
void emu_do_carry(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask);
bool emu_pending_add(struct emu_exec *exec, struct emu_pending *list,
                     const struct emu_async *async);
// False after a fault.
bool emu_pending_finish(struct emu_pending *list, const struct emu_ending *ending);
// Those of the warp's lanes in all closed groups but the last `kept`; up to an order; on an
// mbarrier.
bool emu_ends_with_group(const struct emu_async *async, const struct emu_ending *ending);
bool emu_ends_before(const struct emu_async *async, const struct emu_ending *ending);
bool emu_ends_at_mbarrier(const struct emu_async *async, const struct emu_ending *ending);

// Asynchronous copies: see copy.c.
bool emu_do_copy(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
void emu_do_copy_commit(struct emu_warp *warp, uint32_t mask);
bool emu_do_copy_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_copy_finish(struct emu_warp *warp, uint32_t lanes);
// Completes the copies of the lanes that were made before the warp had made `order` copies.
bool emu_copy_finish_before(struct emu_warp *warp, uint32_t lanes, uint64_t order);
bool emu_do_copy_arrive(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// Bulk copies: see bulk.c.
bool emu_do_bulk(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
void emu_do_bulk_commit(struct emu_warp *warp, uint32_t mask);
bool emu_do_bulk_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// Completes the bulk groups of lanes that end.
bool emu_bulk_exit(struct emu_warp *warp, uint32_t lanes);
// Completes what is pending on the mbarrier at this shared offset.
bool emu_async_finish(struct emu_warp *warp, uint32_t mbarrier);
// mbarrier objects: see mbarrier.c.
bool emu_do_mbarrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_phase_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_pending_count(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// The shared offset of the mbarrier at an address. False after a fault: there is none.
bool emu_mbarrier_check(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                        uint64_t address, uint32_t *offset);
// Bytes of the phase have come, and threads have arrived.
bool emu_mbarrier_complete(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                           uint32_t offset, uint32_t bytes, uint32_t arrivals);
// The object at an offset, if it is initialised and as it was left. NULL: reported.
struct emu_mbarrier *emu_mbarrier_object(struct emu_warp *warp, const struct emu_insn *insn,
                                         unsigned lane, uint32_t offset);
// The phase expects one arrival more.
bool emu_mbarrier_expect(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                         uint32_t offset);
// After each turn of a warp: waits that last for long give false.
void emu_mbarrier_turn(struct emu_block *block);
// No lane of the block can run. Waits for phases give false; false: it is a deadlock.
bool emu_mbarrier_stuck(struct emu_block *block);
void emu_mbarrier_describe(const struct emu_block *block, uint32_t offset, char *text, size_t size);
bool emu_do_barrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_warp_sync(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// Suspends lanes at their instruction. They belong to no group until they are released.
void emu_warp_park(struct emu_warp *warp, uint32_t lanes, enum emu_wait wait, uint32_t what);
// Moves suspended lanes past their instruction.
void emu_warp_release(struct emu_warp *warp, uint32_t lanes);
// Completes barriers and lane sets that no longer wait for anyone, after lanes have arrived or
// ended.
bool emu_barrier_check(struct emu_block *block, unsigned id);
bool emu_warp_sync_check(struct emu_warp *warp);
bool emu_mma(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame, uint32_t *init);
bool emu_tile_load(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                   uint32_t *init);
bool emu_tile_store(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                    uint32_t *init);
// ldmatrix, stmatrix, mma and wmma, for the lanes that are there: all 32, or it is a fault.
bool emu_matrix_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                          uint32_t *init, uint32_t lanes);
bool emu_warp_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                        uint32_t *init, uint32_t lanes, uint32_t members);

// Operands.
const void *emu_fetch_other(struct emu_warp *warp, unsigned char *frame,
                            const struct emu_value *value, void *scratch);
uint64_t emu_special(struct emu_warp *warp, uint8_t special, uint32_t axis, unsigned lane);
// Whether a special register differs between the lanes of a warp.
bool emu_special_by_lane(uint8_t special);
void emu_put_direct(unsigned char *frame, const struct emu_value *value, uint32_t mask,
                    const void *lanes);
void emu_put(unsigned char *frame, uint32_t *init, const struct emu_value *value, uint32_t mask,
             const void *lanes);

// Converts 64-bit lanes to the storage of the register.
void emu_put_longs(unsigned char *frame, uint32_t *init, const struct emu_value *value,
                   uint32_t mask, const uint64_t *longs);

// The host bytes of [address, address + bytes) of a state space for one lane, after all checks.
// NULL after a fault.
enum emu_use { EMU_USE_LOAD, EMU_USE_STORE, EMU_USE_ATOMIC };
struct emu_access {
    unsigned char *host, *shadow;
    bool shared;
};
bool emu_lane_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                     uint64_t address, uint32_t bytes, enum emu_use use, struct emu_access *access);

// The same, at any alignment.
bool emu_lane_range(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t address,
                    uint32_t bytes, enum emu_use use, struct emu_access *access);

// Whether it is memory that the host sees immediately.
static inline bool emu_is_host_address(unsigned space, uint64_t address)
{
    return address < EMU_SHARED_WINDOW && space != EMU_SHARED && space != EMU_LOCAL &&
           space != EMU_PARAM;
}

// The memory that all lanes of a warp access, if it is in one region.
struct emu_reach {
    unsigned char *host, *shadow; // of the first lane's address; shadow may be NULL
    bool shared;                  // shared memory
    bool in_row;                  // consecutive elements, all lanes active
    int32_t away[EMU_LANES];      // from the first lane's address; 0 for lanes without an access
};
// Finds the memory that lanes access at the first source of the instruction, `bytes` each. False if
// they have to be checked one by one.
bool emu_reach_all(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                   uint32_t mask, uint32_t bytes, struct emu_reach *reach);
// The cached region of the allocation that has the address; NULL: none, or it must be looked up
// each time.
const struct emu_region *emu_find_allocation(struct emu_worker *worker, uint64_t address);
// What the instruction adds to the register of the address.
uint64_t emu_added(const struct emu_value *value);
// Whether all of the block's shared memory is known to be defined, when `bytes` of it are read.
bool emu_shared_defined(struct emu_block *block, uint32_t bytes);
uint64_t emu_read_strong(unsigned char *at, unsigned bytes);
bool emu_shadow_set(const unsigned char *shadow, uint32_t bytes);
// The same, with all bytes initialised, for accesses that other workers may make to the same bytes
// on purpose: atomic, volatile, relaxed and stronger ones.
bool emu_shadow_set_strong(unsigned char *shadow, uint32_t bytes);
void emu_shadow_fill_strong(unsigned char *shadow, uint32_t bytes);
// The addresses of all lanes; `scratch` has room for them.
const uint64_t *emu_addresses(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                              uint64_t *scratch);

// Loads by .nc: see constant.c. The first is false if one of the lanes is at fault, which the other
// reports for each. NULL if host memory is out.
struct emu_constants *emu_constants_create(const char *kernel);
bool emu_constant_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                        const struct emu_reach *reach, uint32_t bytes, enum emu_use use);
bool emu_constant_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                         uint64_t address, const unsigned char *host, uint32_t bytes,
                         enum emu_use use);

// Races in shared memory: see race.c. These do nothing if the sanitizers are off.
struct emu_race *emu_race_create(struct emu_worker *worker, uint32_t warps);
void emu_race_destroy(struct emu_race *race);
void emu_race_start(struct emu_race *race);
// One lane. `same`: a store of the value that memory already has.
bool emu_race_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool same);
// All lanes of the mask, each `away` from the offset `first`. False, with nothing reported, if the
// lanes need the check above one by one.
bool emu_race_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask, uint32_t first,
                    const int32_t *away, uint32_t bytes, enum emu_use use);
void emu_race_atomic(struct emu_warp *warp, const struct emu_op *op);
void emu_race_fence(struct emu_warp *warp);
// A wait for a phase of an mbarrier has ended.
void emu_race_phase(struct emu_warp *warp, const struct emu_op *op);
// An asynchronous copy by a lane is under way and writes shared memory: every access to its bytes
// races with it. Or it reads shared memory (EMU_USE_LOAD): every write does. Or it has ended.
void emu_race_flight(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint32_t offset,
                     uint32_t bytes, enum emu_use use, bool flying);
// What the warp has copied so far is ordered before what follows the wait for it.
void emu_race_landed(struct emu_warp *warp);
void emu_race_warp(struct emu_warp *warp, uint32_t lanes);
void emu_race_arrive(struct emu_warp *warp, unsigned barrier);
void emu_race_barrier_done(struct emu_block *block, unsigned barrier, bool whole_block);

// Faults: the first one is recorded and stops every worker. Each function returns false.
bool emu_fault(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane, int result,
               const char *format, ...) EMU_PRINTF(5, 6);
bool emu_fault_launch(struct emu_exec *exec, int result, const char *format, ...) EMU_PRINTF(3, 4);
// A finding of a sanitizer: either a fault (false), or a warning (true).
bool emu_report_finding(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                        enum emu_finding kind, const char *format, ...) EMU_PRINTF(5, 6);
// Findings that do not end a launch, counted for all launches of a module together.
struct emu_warnings *emu_warnings_create(void); // NULL if host memory is out
struct emu_warnings *emu_programs_warnings(struct emu_programs *programs);
// Reports the remaining counts and destroys it.
void emu_warnings_destroy(struct emu_warnings **warnings);
// Reports what was found for the first time since the last call.
void emu_warnings_tell(struct emu_warnings *warnings, void (*warn)(const char *text));
// A line of the module's text as reports quote it: ": `...`", or nothing.
enum { EMU_SOURCE = 320, EMU_QUOTE = 184 + EMU_SOURCE };
void emu_quote_line(const struct emu_module *module, uint32_t line, char *text, size_t size);
// The source line alone, as " (a.cu:7)", or "".
const char *emu_beside_line(const struct emu_module *module, uint32_t line, char text[EMU_SOURCE]);
bool emu_fault_address(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint64_t address, uint32_t bytes, enum emu_access_fault fault,
                       const char *verb);
bool emu_fault_window(struct emu_warp *warp, const struct emu_op *op, unsigned lane, unsigned space,
                      uint64_t given, uint64_t offset, uint32_t bytes, const char *verb);
bool emu_fault_deadlock(struct emu_block *block);
// The parts of such a report: false if there is one already; text; the result ends it.
bool emu_report_begin(struct emu_exec *exec, int result);
void emu_report_append(struct emu_exec *exec, const char *format, ...) EMU_PRINTF(2, 3);
void emu_report_end(struct emu_exec *exec);
void emu_describe_thread(const struct emu_block *block, uint32_t thread, char *text, size_t size);
int64_t emu_now_ms(void);

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

// The operand's lanes or mask; `scratch` has room for them if they must be computed.
static inline const void *emu_fetch(struct emu_warp *warp, unsigned char *frame,
                                    const struct emu_value *value, void *scratch)
{
    if (value->direct)
        return value->constant ? value->constant : frame + value->at;
    return emu_fetch_other(warp, frame, value, scratch);
}

// Lane i of what emu_fetch() returned for this value.
static inline uint64_t emu_lane_of(const struct emu_value *value, const void *lanes, unsigned i)
{
    return value->want == EMU_LONG ? ((const uint64_t *)lanes)[i] : ((const uint32_t *)lanes)[i];
}

struct emu_sources {
    alignas(64) unsigned char scratch[4][EMU_LANES * 8];
    const void *at[4];
};

static inline void emu_fetch_all(struct emu_warp *warp, unsigned char *frame,
                                 const struct emu_op *op, struct emu_sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++)
        s->at[k] = emu_fetch(warp, frame, &op->src[k], s->scratch[k]);
}

// Flushes f32 subnormals to zero.
void emu_flush_sources(const struct emu_op *op, struct emu_sources *s);

// ---- undefined.c, undefined_rules.c -------------------------------------------------------------

// One operand of an instruction.
struct emu_undefined_lanes {
    struct emu_undefined lane[EMU_LANES];
};

#define EMU_TO_HOST "uninitialised value is stored to pinned or managed memory; it comes from %s"

// An instruction of which a guard or a source is undefined in some lanes. False if what it decides
// ends the launch.
bool emu_undefined_allows(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                          uint32_t mask);
// Whether it computes its results from registers alone; and which of their bits are undefined then.
// Call this before the instruction runs, and emu_undefined_put() for each result afterwards.
bool emu_undefined_computes(const struct emu_op *op);
void emu_undefined_compute(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                           const struct emu_op *op, uint32_t mask,
                           struct emu_undefined_lanes *results);
// Drops all records: every register counts as never written.
void emu_undefined_clear(struct emu_warp *warp);
// The same for the registers of a function that the lanes of the mask call.
void emu_undefined_enter(struct emu_warp *warp, const uint32_t *init, uint32_t registers,
                         uint32_t mask);

// The lanes of the mask in which the operand is open. `init` may be NULL.
static inline uint32_t emu_undefined_in(const uint32_t *init, const struct emu_value *value,
                                        uint32_t mask)
{
    return init && value->place == EMU_AT_SLOT ? mask & ~init[value->reg] : 0;
}

// The origin of what a shuffle reads from a lane that does not take part; `why` says why not.
uint32_t emu_origin_of_lane(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                            const char *why);

// The undefined bits of a source, in the width that emu_fetch() gives it.
void emu_undefined_fetch(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                         const struct emu_value *value, uint32_t mask,
                         struct emu_undefined_lanes *lanes);
// Records the undefined bits of a result. Call it after emu_put().
void emu_undefined_put(struct emu_warp *warp, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, const struct emu_undefined_lanes *lanes);
// The undefined bits of an element of memory that a lane reads. `address` is the instruction's.
struct emu_undefined emu_undefined_load(struct emu_warp *warp, const struct emu_op *op,
                                        uint64_t address, const unsigned char *shadow,
                                        uint32_t bytes);
void emu_undefined_store(struct emu_warp *warp, unsigned char *shadow, uint32_t bytes,
                         struct emu_undefined value);
// Reports the source if it is open in a lane of the mask. False if that ends the launch.
bool emu_undefined_decides(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                           const struct emu_value *value, uint32_t mask, enum emu_finding kind);

// The undefined bits of the results of an instruction on registers. `x` and `u` are the values and
// the undefined bits of its sources.
void emu_undefined_results(const struct emu_op *op, const uint64_t (*x)[EMU_LANES],
                           const struct emu_undefined_lanes *u,
                           struct emu_undefined_lanes *results);
// Whether the defined bits of two values differ.
bool emu_undefined_differ(uint64_t x, struct emu_undefined ux, uint64_t y, struct emu_undefined uy);
// All bits from the lowest set bit upward.
uint64_t emu_undefined_upward(uint64_t bits);
// The undefined bits of both results of a vote, match or redux over `lanes`. Each lane contributes
// x with the undefined bits u.
void emu_undefined_exchange(const struct emu_op *op, uint32_t lanes, const uint64_t *x,
                            const struct emu_undefined_lanes *u,
                            struct emu_undefined_lanes *results);
// The undefined bits of memory after an atomic operation on `old`.
struct emu_undefined emu_undefined_atomic(const struct emu_insn *insn, uint64_t old,
                                          struct emu_undefined u_old, uint64_t x,
                                          struct emu_undefined u_x, struct emu_undefined u_fresh);

#endif

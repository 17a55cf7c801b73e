// SPDX-License-Identifier: MIT
// Blocks, warps and groups of lanes: what runs, waits and ends.
#ifndef PTXGEN_EMULATOR_EXEC_WARPS_H
#define PTXGEN_EMULATOR_EXEC_WARPS_H

#include "exec/base/state.h"

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
// Suspends lanes at their instruction. They belong to no group until they are released.
void emu_warp_park(struct emu_warp *warp, uint32_t lanes, enum emu_wait wait, uint32_t what);
// Moves suspended lanes past their instruction.
void emu_warp_release(struct emu_warp *warp, uint32_t lanes);
// Completes barriers and lane sets that no longer wait for anyone, after lanes have arrived or
// ended.
bool emu_barrier_check(struct emu_block *block, unsigned id);
bool emu_warp_sync_check(struct emu_warp *warp);
bool emu_fault_deadlock(struct emu_block *block);

#endif

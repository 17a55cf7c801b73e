// SPDX-License-Identifier: MIT
// Asynchronous copies and mbarriers.
#ifndef PTXGEN_EMULATOR_EXEC_ASYNC_ASYNC_H
#define PTXGEN_EMULATOR_EXEC_ASYNC_ASYNC_H

#include "exec/base/state.h"

bool emu_pending_add(struct emu_exec *exec, struct emu_pending *list,
                     const struct emu_async *async);
// False after a fault.
bool emu_pending_finish(struct emu_pending *list, const struct emu_ending *ending);
// Those of the warp's lanes in all closed groups but the last `kept`; up to an order; on an
// mbarrier.
bool emu_ends_with_group(const struct emu_async *async, const struct emu_ending *ending);
bool emu_ends_before(const struct emu_async *async, const struct emu_ending *ending);
bool emu_ends_at_mbarrier(const struct emu_async *async, const struct emu_ending *ending);
bool emu_copy_finish(struct emu_warp *warp, uint32_t lanes);
// Completes the copies of the lanes that were made before the warp had made `order` copies.
bool emu_copy_finish_before(struct emu_warp *warp, uint32_t lanes, uint64_t order);
// Completes the bulk groups of lanes that end.
bool emu_bulk_exit(struct emu_warp *warp, uint32_t lanes);
// Completes what is pending on the mbarrier at this shared offset.
bool emu_async_finish(struct emu_warp *warp, uint32_t mbarrier);
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

#endif

// SPDX-License-Identifier: MIT
// Handlers: instructions that are more than a step, for the lanes of a mask that are active and
// whose guard holds. False after a fault.
#ifndef PTXGEN_EMULATOR_EXEC_BASE_HANDLERS_H
#define PTXGEN_EMULATOR_EXEC_BASE_HANDLERS_H

#include "state.h"

bool emu_do_load(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_store(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_atomic(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_wide(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_stack(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_address(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_cluster(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_move(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
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
// Asynchronous copies: see copy.c.
bool emu_do_copy(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
void emu_do_copy_commit(struct emu_warp *warp, uint32_t mask);
bool emu_do_copy_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_copy_arrive(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// Bulk copies: see bulk.c.
bool emu_do_bulk(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
void emu_do_bulk_commit(struct emu_warp *warp, uint32_t mask);
bool emu_do_bulk_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
// mbarrier objects: see mbarrier.c.
bool emu_do_mbarrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_phase_wait(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_pending_count(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_barrier(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_do_warp_sync(struct emu_warp *warp, const struct emu_op *op, uint32_t mask);
bool emu_mma(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame, uint32_t *init);
bool emu_wgmma(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
               uint32_t *init);
bool emu_tile_load(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                   uint32_t *init);
bool emu_tile_store(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                    uint32_t *init);
// ldmatrix, stmatrix, mma, wmma and wgmma, for the lanes that are there: all 32, or it is a fault.
bool emu_matrix_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                          uint32_t *init, uint32_t lanes);
bool emu_warp_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                        uint32_t *init, uint32_t lanes, uint32_t members);

#endif

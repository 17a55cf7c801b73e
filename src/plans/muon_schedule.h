// SPDX-License-Identifier: MIT
// The products of a matrix in their order, and where they lie.
#ifndef PTXGEN_PLANS_MUON_SCHEDULE_H
#define PTXGEN_PLANS_MUON_SCHEDULE_H

#include "muon_products.h"

// Whether X is multiplied after this step, counted from 1, and R made anew.
bool ptxp_muon_restarts(uint32_t step, uint32_t steps);
// Whether one block does all of it; `groups`: where warpgroups multiply. It has the same bits then.
bool ptxp_muon_on_chip(const struct muon_matrix *m, bool groups);
// Where a matrix that is given has the Q of its one restart, in bytes from X on; 0: nowhere.
enum { MUON_KEPT = MUON_CHIP_MOST * MUON_CHIP_MOST * 2 }; // bytes of it
uint64_t ptxp_muon_kept(const struct muon_matrix *m, uint32_t steps);

// What takes a product of a level, counted from 0: it begins when those of the level before are
// done.
typedef ptx_status muon_visit(void *to, uint32_t level, const struct muon_product *product);

// Visits the products of a matrix in the order of their levels; none where it has at most 128
// rows.
ptx_status ptxp_muon_visit(const struct muon_matrix *m, const struct muon_schedule *schedule,
                           CUdeviceptr workspace, muon_visit *visit_one, void *to);

// So many long matrices of a plan are updated by the blocks that multiply them; tests set it. Of
// fewer, a launch over the whole GPU takes less.
extern size_t ptxp_matrix_many;
// As struct muon_set's side and band, for the matrices of plans; tests set them.
extern uint32_t ptxp_matrix_side, ptxp_matrix_band;

#endif

// SPDX-License-Identifier: MIT
// The matrices of a step plan: checks, their part of its memory, and their launches.
#ifndef PTXGEN_PLANS_MUON_PROGRAM_H
#define PTXGEN_PLANS_MUON_PROGRAM_H

#include "norm_plan.h"
#include "step_table.h"

// Whether a tensor is a matrix, and has elements.
bool ptxp_is_matrix(const struct ptx_step_params *params, size_t t);
// Whether it has rows of one, or none of the rows, and the others are on other ranks.
bool ptxp_matrix_is_cut(const struct ptx_step_params *params, size_t t);
// What its `update` has.
uint64_t ptxp_matrix_update_bytes(const struct ptx_step_tensor *tensor);
// Its tiles: those of the pass before the products, and those of the step. There are none where the
// block that multiplies the matrix updates it, or steps it.
uint64_t ptxp_matrix_tiles(const struct ptx_step_params *params, enum matrix_chips chips, size_t t);
uint64_t ptxp_matrix_step_tiles(const struct ptx_step_params *params, enum matrix_chips chips,
                                size_t t);
// `chips` there and below. A plan that has them must be left nothing but parameters, masters and
// averages.
enum matrix_chips ptxp_matrix_chips(const struct ptx_step_params *params);

// Checks that the messages name as "`what` k"; the second, that a matrix's sides are not too large.
ptx_status ptxp_muon_check(const char *what, size_t k, const struct ptx_muon_params *muon);
ptx_status ptxp_muon_check_sides(const char *what, size_t k, uint64_t rows, uint64_t columns);
// The steps of a group or matrix, whose triples are written to `triples`; `muon` may be NULL.
struct muon_schedule ptxp_muon_schedule(const struct ptx_muon_params *muon, float (*triples)[3]);
// Checks a group's own parameters, and a tensor of a group; of other rules: that there are none.
ptx_status ptxp_matrix_check_group(uint32_t g, const struct ptx_step_group *group);
ptx_status ptxp_matrix_check_tensor(size_t t, const struct ptx_step_tensor *tensor,
                                    const struct ptx_step_group *group);
// Refuses targets that have no products.
ptx_status ptxp_matrix_check_target(const struct step_layout *layout, int sm);

// What groups point at, copied: to be freed. NULL: out of memory.
void *ptxp_matrix_copy(struct ptx_step_group *groups, uint32_t count);

// Finds the matrices of parameters that were checked, and lays them out. After a success or an
// error ptxp_matrix_set_free() must be called.
ptx_status ptxp_matrix_measure(const struct ptx_step_params *params, enum matrix_chips chips,
                               struct matrix_set *set);
void ptxp_matrix_set_free(struct matrix_set *set);
// Fills their rows; `memory`: the address of the plan's.
void ptxp_matrix_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      CUdeviceptr memory, unsigned char *image);

// Divides them into windows that have room in matrix_memory (muon_windows.c). The parts of the step
// of matrices: at least one, which may have no tiles; and one of them, as tiles of the pass before
// the products, and of the step.
ptx_status ptxp_matrix_windows(const struct ptx_step_params *params, enum matrix_chips chips,
                               struct matrix_set *set);
struct matrix_part {
    uint64_t tile, tiles;
    uint64_t step_tile, step_tiles;
};
size_t ptxp_matrix_parts(const struct step_layout *layout);
struct matrix_part ptxp_matrix_part(const struct step_layout *layout, size_t window);

// Makes the products of each part: to be freed, also after an error. NULL: there are no matrices.
ptx_status ptxp_matrix_products(const struct norm_plan *norm, const struct ptx_step_params *params,
                                const struct step_layout *layout, CUdeviceptr memory,
                                const struct muon_taker *taker, struct muon_products ***products);
void ptxp_matrix_products_free(const struct step_layout *layout, struct muon_products **products);
// The launches between the records and the step: what leaves X of a part, whose tiles the kernel's
// parameter has, then the products. How many they are, with those of the step of all parts but the
// first.
ptx_status ptxp_matrix_update(const struct norm_plan *norm, const struct matrix_part *part,
                              bool overlaps, CUstream stream);
ptx_status ptxp_matrix_multiply(const struct muon_products *products, CUstream stream);
int ptxp_matrix_launches(const struct step_layout *layout);
// Whether there are any products.
bool ptxp_matrix_multiplies(const struct step_layout *layout);

#endif

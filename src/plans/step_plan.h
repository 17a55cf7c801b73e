// SPDX-License-Identifier: MIT
// A step plan, for the files that make, run and change it.
#ifndef PTXGEN_PLANS_STEP_PLAN_H
#define PTXGEN_PLANS_STEP_PLAN_H

#include "norm_plan.h"
#include "step_table.h"

// The values of kernels that set something; under norm.busy.
struct step_set {
    CUdeviceptr rows, hyper;
    uint32_t casts; // codes in blocks are made also without a step
    double values[STEP_SCALARS];
    uint64_t words[STEP_SET_ROWS_WORDS];
};

// What a group's scalars were set to, and in which capture: 0: in none.
struct step_hyper_set {
    uint64_t capture;
    struct ptx_step_hyper hyper;
};

struct ptx_step_plan {
    struct norm_plan norm;
    ptx_buffer *memory;
    struct step_layout layout;
    struct ptxk_step_spec spec;
    struct step_set set;
    struct step_hyper_set *hypers_set; // one a group
#define STEP_DECLARE(member, type) CUdeviceptr member;
    STEP_ARRAYS(STEP_DECLARE)
#undef STEP_DECLARE
    // Host copy for checks: the tensors, the groups, and the parts needed of the rest.
    struct ptx_step_params params;
    struct ptx_step_tensor *tensors;
    struct ptx_step_group *groups;
    struct ptx_qk_clip *clips;
    void *muon;                              // what groups point at
    struct norm_kernel takers[MUON_ENTRIES]; // their arguments
    struct muon_products **products;         // of each part of the matrices
    struct {
        CUdeviceptr tiles;
        struct muon_values values;
        uint32_t step_tile;
    } part;                                   // the one that is launched
    CUdeviceptr square_tiles, square_reports; // of fp8_tiles and tile_reports, the last
    CUdeviceptr totals; // of matrices: info.matrix_sums where there are some, else the plan's own
    struct ptx_step_plan_info info;
    uint32_t first_turn; // of the launches that take gradients up
    bool units_known;    // the sums of the weights of units that are clipped
};

#endif

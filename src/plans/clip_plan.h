// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_CLIP_PLAN_H
#define PTXGEN_PLANS_CLIP_PLAN_H

#include <stdatomic.h>

#include "clip_layout.h"
#include "kernels/step_apply.h"

enum { CLIP_MOST_ARGS = 16 };

// A kernel with its arguments, which point at what the plan has for them.
struct clip_kernel {
    ptx_function *function;
    struct ptx_arg args[CLIP_MOST_ARGS];
    size_t arg_count;
};

// What differs from launch to launch, by the names of the kernels' parameters; under `busy`.
struct clip_launch {
    uint32_t first, last, tiles, fused, finishes, count;
    float max_norm;
    struct ptx_loss_scale_state state;
    CUdeviceptr rows; // of what is set: the records, or the tensors
    uint64_t data[CLIP_SET_DATA_BATCH];
    CUdeviceptr hyper; // of the scalars that are set
    double values[STEP_SCALARS];
    uint64_t words[STEP_ROW_WORDS * STEP_SET_ROWS_BATCH];
};

// What a step plan adds to the clip plan that it stands on, which then steps in place of scaling.
struct clip_step {
    struct ptxk_step_spec spec;
    uint32_t clock_count, clock_blocks;
    bool no_norm; // runs take no norm
    CUdeviceptr rows, clocks, coefficients, seed;
};

struct ptx_clip_plan {
    ptx_device *device;
    ptx_module *module;
    ptx_buffer *memory;
    struct clip_layout layout;
    bool any_address, measure_only, updates;
    bool has_own_state; // of the loss scale; else the caller's
    bool fused;         // ptxp_clip_is_fused()
    uint32_t tiles_of_chunk;
    uint32_t apply_blocks; // as many as are resident
    ptx_graph *graph;      // a run's launches as one; NULL: the driver is too old
    atomic_flag busy;
    // What has been put on a stream since creation, which a step reads; under `busy`.
    bool has_norm, has_records;
    struct clip_tensor_row *rows; // the host's copy, for checks
    struct clip_start *starts;    // in the order of chunks
    size_t start_count;
    uint32_t *piece_tensors;      // the host's copy of `pieces`
    const struct clip_step *step; // NULL: the plan scales
#define CLIP_DECLARE(name, ...) struct clip_kernel name;
    CLIP_KERNELS(CLIP_DECLARE)
#undef CLIP_DECLARE
    struct clip_launch launch;
    CUdeviceptr state;   // the loss scale's
    CUdeviceptr summary; // after the records
    CUdeviceptr used;    // the loss scale that a run divides by, in the summary
    float eps;
#define CLIP_DECLARE(member, type) CUdeviceptr member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// ptxp_clip_check_addresses() of tensors whose rows these are, and of what else the plan has.
ptx_status ptxp_clip_plan_check_addresses(const ptx_clip_plan *plan,
                                          const struct clip_tensor_row *rows);

// As ptx_clip_plan_create(), for a step plan where `step` is not NULL; it must outlive the plan.
ptx_clip_plan *ptxp_clip_plan_create(ptx_device *device, const struct ptx_clip_params *params,
                                     const struct clip_step *step);
// As ptx_clip_emit().
ptx_status ptxp_clip_emit(ptx_builder *b, const struct ptx_clip_params *params,
                          const struct ptxk_step_spec *step);
// Puts a hyperparameter group's scalars at `hyper`, on the stream.
ptx_status ptxp_clip_plan_set_hyper(ptx_clip_plan *plan, CUdeviceptr hyper,
                                    const double values[STEP_SCALARS], CUstream stream);

// Puts rows of STEP_ROW_WORDS words at `to`, on the stream.
ptx_status ptxp_clip_plan_set_rows(ptx_clip_plan *plan, CUdeviceptr to, const void *rows,
                                   size_t count, CUstream stream);

// Sets plan->graph, of a plan that is ready to run.
ptx_status ptxp_clip_plan_capture(ptx_clip_plan *plan);

// Whether a run's second launch takes its factors from the partials itself: each block adds up
// those of its group, which is cheap for few groups or few blocks.
bool ptxp_clip_is_fused(const struct ptx_clip_params *params, const struct clip_layout *layout);

#endif

// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_CLIP_PLAN_H
#define PTXGEN_PLANS_CLIP_PLAN_H

#include <stdatomic.h>

#include "clip_layout.h"
#include "kernels/step_apply.h"

enum { CLIP_MOST_ARGS = 20 };

// A kernel with its arguments, which point at values in the plan.
struct clip_kernel {
    ptx_function *function;
    struct ptx_arg args[CLIP_MOST_ARGS];
    size_t arg_count;
};

// Values that change from launch to launch, by the names of the kernel parameters; protected by
// `busy`.
struct clip_launch {
    uint32_t first, last, tiles, fused, finishes, count;
    float max_norm;
    struct ptx_loss_scale_state state;
    CUdeviceptr rows; // rows to set: records or tensors
    uint64_t data[CLIP_SET_DATA_BATCH];
    CUdeviceptr hyper; // address of the scalars to set
    double values[STEP_SCALARS];
    uint64_t words[STEP_ROW_WORDS * STEP_SET_ROWS_BATCH];
};

// The additions of a step plan to its clip plan, which then steps instead of scaling.
struct clip_step {
    struct ptxk_step_spec spec;
    uint32_t clock_count, clock_blocks;
    bool no_norm; // runs compute no norm
    uint32_t tile_count;
    CUdeviceptr rows, clocks, coefficients, seed, tables, tiles;
};

// What the last phase of a step plan left for the next one.
enum clip_left {
    CLIP_LEFT_NOTHING, // after a step or a run
    CLIP_LEFT_SUMS,    // after norm_sq: for a finish
    CLIP_LEFT_RECORDS, // after a finish: for a step
};

// Launched and captured phases are held apart: a capture may be dropped, or replayed at any time.
struct clip_order {
    enum clip_left launched, captured;
    uint64_t capture; // the last one, to which `captured` belongs
    // What any launch or capture has left. A capture may begin with a phase that needs it.
    bool ever[CLIP_LEFT_RECORDS + 1];
};

struct ptx_clip_plan {
    ptx_device *device;
    ptx_module *module;
    ptx_buffer *memory;
    struct clip_layout layout;
    bool any_address, measure_only, updates;
    bool fused; // ptxp_clip_is_fused()
    uint32_t tiles_of_chunk;
    uint32_t apply_blocks; // number of resident blocks
    ptx_graph *graph;      // a run's launches as one graph; NULL: the driver is too old
    atomic_flag busy;
    struct clip_order order;                      // of a step plan's phases; under `busy`
    struct clip_tensor_row *rows;                 // host copy, for checks
    struct plan_array others[CLIP_CALLER_ARRAYS]; // the caller's, for checks
    size_t other_count;
    struct clip_start *starts; // in the order of chunks
    size_t start_count;
    uint32_t *piece_tensors;      // host copy of `pieces`
    const struct clip_step *step; // NULL: the plan scales
#define CLIP_DECLARE(name, ...) struct clip_kernel name;
    CLIP_KERNELS(CLIP_DECLARE)
#undef CLIP_DECLARE
    struct clip_launch launch;
    CUdeviceptr state;    // address of the loss scale state, or of the scale alone: loss_scale_at
    CUdeviceptr all_sums; // address of all rows; `sums` is that of the plan's own row
    CUdeviceptr max_norms_at, loss_scale_at, found_inf_at, found_inf_to; // the caller's; 0: none
    CUdeviceptr summary;                                                 // after the records
    CUdeviceptr used; // the loss scale that a run divides by, in the summary
    float eps;
#define CLIP_DECLARE(member, type) CUdeviceptr member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// ptxp_clip_check_addresses() for tensors with these rows and the plan's other arrays.
ptx_status ptxp_clip_plan_check_addresses(const ptx_clip_plan *plan,
                                          const struct clip_tensor_row *rows);

// ptx_clip_plan_create(), for a step plan if `step` is not NULL; `step` must outlive the plan.
ptx_clip_plan *ptxp_clip_plan_create(ptx_device *device, const struct ptx_clip_params *params,
                                     const struct clip_step *step);
// As ptx_clip_emit().
ptx_status ptxp_clip_emit(ptx_builder *b, const struct ptx_clip_params *params,
                          const struct ptxk_step_spec *step);
// Writes a hyperparameter group's scalars to `hyper`, on the stream.
ptx_status ptxp_clip_plan_set_hyper(ptx_clip_plan *plan, CUdeviceptr hyper,
                                    const double values[STEP_SCALARS], CUstream stream);

// Between these two the plan is the calling thread's: another thread is refused. `call`: the public
// function, which the message names if a kernel launched earlier failed; the result is `status`.
ptx_status ptxp_clip_plan_begin(ptx_clip_plan *plan);
ptx_status ptxp_clip_plan_end(ptx_clip_plan *plan, const char *call, ptx_status status);
// To be called between them: ptx_clip_plan_set_data(), and writing rows of STEP_ROW_WORDS words to
// `to`, on the stream.
ptx_status ptxp_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                   const CUdeviceptr *data, CUstream stream);
ptx_status ptxp_clip_plan_set_rows(ptx_clip_plan *plan, CUdeviceptr to, const void *rows,
                                   size_t count, CUstream stream);

// Sets plan->graph; the plan must be ready to run.
ptx_status ptxp_clip_plan_capture(ptx_clip_plan *plan);

// Whether the second launch of a run computes the factors from the partials: each block adds the
// partials of its group, which is cheap for few groups or few blocks.
bool ptxp_clip_is_fused(const struct ptx_clip_params *params, const struct clip_layout *layout);

#endif

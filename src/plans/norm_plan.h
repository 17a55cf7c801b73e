// SPDX-License-Identifier: MIT
// The core of plans that take the norms of gradients: tables, sums, records, phases, capture. What
// a plan does with the factors, and what it adds, is a row of hooks: clip.c and step.c have one.
#ifndef PTXGEN_PLANS_NORM_PLAN_H
#define PTXGEN_PLANS_NORM_PLAN_H

#include <stdatomic.h>

#include <ptxgen/binding.h>
#include <ptxgen/norm.h>

#include "arrays.h"
#include "driver/capture.h"
#include "kernels/norm.h"

// ---- what a plan adds ---------------------------------------------------------------------------

struct norm_plan;

// What a phase leaves for the next one.
enum norm_left {
    NORM_LEFT_NOTHING,  // after the last phase, or a run
    NORM_LEFT_SUMS,     // after norm_sq: for a finish
    NORM_LEFT_RECORDS,  // after a finish: for a reduce, or the last phase
    NORM_LEFT_RULE_SUMS // after a reduce: for the last phase
};

// Plans that `reduces` have four phases, others no NORM_PHASE_REDUCE.
enum norm_phase { NORM_PHASE_SQUARES, NORM_PHASE_FINISH, NORM_PHASE_REDUCE, NORM_PHASE_LAST };

enum { NORM_MOST_OWN_VALUES = 52 };

struct norm_hooks {
    const struct norm_entry *entries; // its kernels
    const char *name;                 // "clip plan"
    const char *group, *groups;       // what it calls a group of a norm, and several
    const char *overlap;              // what would happen where tensors overlap
    bool folds_reports;               // norm_spec.folds_reports: all chunks are in one launch
    // The messages for a phase that lacks what the phase before leaves; NULL: the order is the
    // caller's.
    const char *missing[NORM_LEFT_RULE_SUMS + 1];
    // At creation, once params, layout and `others` are known, and before the core allocates: makes
    // what the plan has of its own, and sets `fused`, `no_norm`, `reduces`, `own_blocks` and
    // `own_sums`.
    ptx_status (*prepare)(struct norm_plan *plan);
    // Writes the values of its own kernels' parameters, at most NORM_MOST_OWN_VALUES, and returns
    // their number. Where the core has a value of the same name, the plan's own is taken. `sets`:
    // for the kernels that set something. The values stay where they are for the plan's life.
    size_t (*values)(const struct norm_plan *plan, bool sets, struct ptx_named_arg *values);
    // Launches what of the sums other ranks are to add, at the end of NORM_PHASE_SQUARES. NULL:
    // nothing.
    ptx_status (*total)(struct norm_plan *plan, CUstream stream);
    // Launches what the last phase needs beside the records, of plans that `reduces`. `overlaps`:
    // as below.
    ptx_status (*reduce)(struct norm_plan *plan, bool overlaps, CUstream stream);
    // Launches NORM_LAST for `count` chunks from `first` on. `fused`: it computes the factors from
    // the partials itself; else it reads the records. `overlaps`: the launch before on the stream
    // belongs to this run. Any other launch may write the tables, which the kernel reads before it
    // waits.
    ptx_status (*last)(struct norm_plan *plan, uint64_t first, uint64_t count, bool fused,
                       bool overlaps, CUstream stream);
};

// The parameters of the norms of a plan.
struct norm_params {
    const struct ptx_clip_tensor *tensors;
    size_t tensor_count;
    uint32_t group_count; // as in struct ptx_clip_params
    PTX_NORM_PARAMS(PTX_NORM_FIELD)
    ptx_nonfinite nonfinite;
    bool measure_only;                  // runs end with the records
    bool may_pack;                      // small tensors may share chunks
    bool has_turns;                     // the plan's first kernel has a turn for each chunk
    bool writes_again;                  // functions of a caller write some of the kernels
    unsigned last_blocks, last_threads; // of norm_spec
    const void *own;                    // norm_spec.own
    // With reports: the rows of tensors, whose places in the whole are set; NULL: each is whole.
    const struct norm_report_row *places;
};

// ---- the layout of the plan's device memory -----------------------------------------------------

// X(member, type of an element): the arrays in the plan's memory, each aligned to 256 bytes. The
// summary follows the records. The host writes everything before the partials.
#define NORM_ARRAYS(X)                                                                             \
    X(tensors, struct norm_tensor_row)                                                             \
    X(chunks, struct norm_chunk_row)                                                               \
    X(pieces, uint32_t)                                                                            \
    X(groups, struct norm_group_row)                                                               \
    X(rule, struct norm_rule)                                                                      \
    X(guard_rule, struct norm_guard_rule)                                                          \
    X(guard_own, unsigned char)                                                                    \
    X(report_rows, struct norm_report_row)                                                         \
    X(report_arrivals, uint32_t)                                                                   \
    X(records, struct ptx_clip_record)                                                             \
    X(sums, double)                                                                                \
    X(totals, struct norm_totals)                                                                  \
    X(chunk_turns, uint32_t)                                                                       \
    X(partials, double)                                                                            \
    X(chunk_reports, struct norm_chunk_report)

struct norm_array {
    uint64_t offset; // bytes
    uint64_t length; // elements
};

struct norm_layout {
    struct norm_spec spec; // of the kernels; `pieces` has an entry for each tensor that is packed
    struct norm_rule scale_rule;
    struct norm_guard_rule guard_scalars;
    uint64_t guard_bytes; // of the guards' state; 0: no guards
    uint32_t
        tensor_count; // number of rows: the tensors, and an empty one for groups without tensors
    uint32_t group_count;
    uint32_t sum_rows;
    uint64_t chunk_count;
    // Of tensors without elements, behind the others and of no group: where reports are folded.
    uint64_t empty_chunks;
    uint64_t element_count;
    uint64_t gradient_bytes;
    uint64_t bytes;
#define NORM_DECLARE(member, type) struct norm_array member;
    NORM_ARRAYS(NORM_DECLARE)
#undef NORM_DECLARE
};

// Checks everything about the parameters that is known without a device, and computes counts,
// offsets and what the kernels' text depends on. The message names what is wrong.
ptx_status ptxp_norm_layout_create(const struct norm_hooks *hooks, const struct norm_params *params,
                                   struct norm_layout *layout);

// The first chunk of a tensor, or a packed chunk.
struct norm_start {
    uint64_t chunk;
    uint32_t tensor; // or index of the first piece
    uint32_t pieces; // number of pieces; 0: the chunks of a tensor
};

// Fills the image of the plan's memory before the partials, which must be zeroed, and plan->starts,
// which has room for every tensor and every group.
ptx_status ptxp_norm_layout_fill(struct norm_plan *plan, unsigned char *image);

// ---- guards (guard.c) ----------------------------------------------------------------------

// Checks the guards, and sets what the kernels' text depends on, their scalars, and the state's
// size.
ptx_status ptxp_norm_guards_lay_out(const struct ptx_guard_params *guards, uint32_t groups,
                                    struct norm_layout *layout);
// Whether guards need a norm. They may be NULL.
bool ptxp_norm_guards_measure(const struct ptx_guard_params *guards);
// Refuses a state of the caller's that belongs to other guards.
ptx_status ptxp_norm_guards_check_state(struct norm_plan *plan);

// ---- checks -------------------------------------------------------------------------------------

ptx_status ptxp_norm_check_params(const struct norm_params *params);
ptx_status ptxp_norm_check_max_norm(const char *name, float max_norm);
ptx_status ptxp_norm_check_loss_scale(float scale);
ptx_status ptxp_norm_out_of_host_memory(const struct norm_hooks *hooks);

// The caller's arrays besides the tensors: what params names, for so many groups. Returns their
// number.
enum { NORM_CALLER_ARRAYS = 11 };
size_t ptxp_norm_caller_arrays(const struct norm_params *params, uint32_t groups,
                               struct plan_array arrays[NORM_CALLER_ARRAYS]);

// ---- plans --------------------------------------------------------------------------------------

enum { NORM_MOST_ARGS = 32 };

// A kernel with its arguments, which point at values in the plan.
struct norm_kernel {
    ptx_function *function;
    struct ptx_arg args[NORM_MOST_ARGS];
    size_t arg_count;
    uint32_t shared_bytes; // of dynamic shared memory
};

// Values that change from launch to launch, by the names of the kernel parameters; protected by
// `busy`.
struct norm_launch {
    uint32_t first, finishes, count;
    float max_norm;
    struct ptx_loss_scale_state state;
    CUdeviceptr rows; // rows to set: records or tensors
    uint64_t data[NORM_SET_DATA_BATCH];
};

// Launched and captured phases are held apart: a capture may be dropped, or replayed at any time.
struct norm_order {
    enum norm_left launched, captured;
    uint64_t capture; // the last one, to which `captured` belongs
    // What any launch or capture has left. A capture may begin with a phase that needs it.
    bool ever[NORM_LEFT_RULE_SUMS + 1];
};

// What a group's limit was set to, and in which capture: 0: in none.
struct norm_limit_set {
    uint64_t capture;
    float max_norm;
};

// The last setter that was captured, and its node.
struct norm_setter {
    uint64_t capture; // 0: none was
    const void *node;
};

// The first member of a plan.
struct norm_plan {
    const struct norm_hooks *hooks;
    ptx_device *device;
    ptx_module *module;
    ptx_buffer *memory;
    ptx_graph *graph;          // a run's launches as one graph; NULL: the driver is too old
    struct norm_params params; // after creation without what they point at
    struct ptx_guard_params guards;
    struct norm_layout layout;
    // Set by hooks->prepare:
    bool fused;          // in a run NORM_LAST computes the factors from the partials
    bool no_norm;        // no sums are taken
    bool reduces;        // hooks->reduce comes before hooks->last
    uint32_t own_blocks; // with which NORM_SQUARES begins
    uint64_t own_sums;   // blocks of NORM_SUMS behind those of the groups
    atomic_flag busy;
    struct norm_order order;       // of the phases; under `busy`
    struct norm_tensor_row *rows;  // host copy, for checks
    uint64_t rows_set;             // the capture that has set all addresses, if it was the last
    struct norm_limit_set *limits; // one a group
    struct norm_setter setter;
    struct plan_array others[NORM_CALLER_ARRAYS]; // the caller's, for checks
    size_t other_count;
    struct norm_start *starts; // in the order of chunks
    size_t start_count;
    uint32_t *piece_tensors; // host copy of `pieces`
    struct norm_kernel kernels[NORM_ENTRIES];
    struct norm_launch launch;
    CUdeviceptr state;    // address of the loss scale state, or of the scale alone: loss_scale_at
    CUdeviceptr all_sums; // address of all rows; `sums` is that of the plan's own row
    CUdeviceptr summary;  // after the records
    CUdeviceptr used;     // the loss scale that a run divides by, in the summary
    CUdeviceptr guard_state; // the caller's, or the plan's own; 0 without guards
#define NORM_DECLARE(member, type) CUdeviceptr member;
    NORM_ARRAYS(NORM_DECLARE)
#undef NORM_DECLARE
};

// The norms of a plan that may be NULL, which the calls below refuse.
#define NORM_OF(plan) ((plan) ? &(plan)->norm : NULL)

// Finds the values of the parameters of a kernel, entry `entry` of a text, by their names. `sets`:
// it sets something.
ptx_status ptxp_norm_plan_bind(const struct norm_plan *plan, const ptx_builder *b, unsigned entry,
                               bool sets, struct norm_kernel *kernel);

// A zeroed plan of so many bytes on the device, to be freed; NULL on an error.
void *ptxp_norm_plan_allocate(ptx_device *device, const struct norm_hooks *hooks, size_t bytes);
// Checks the parameters, and that nothing is being captured, and does all that is slow. On an error
// the plan must be cleared.
ptx_status ptxp_norm_plan_create(struct norm_plan *plan, const struct norm_params *params);
void ptxp_norm_plan_clear(struct norm_plan *plan);

// Checks the addresses of tensors with these rows and of the plan's other arrays, as
// ptxp_check_arrays().
ptx_status ptxp_norm_check_addresses(const struct norm_plan *plan,
                                     const struct norm_tensor_row *rows);

// As ptx_clip_plan_read().
ptx_status ptxp_norm_plan_read(const struct norm_plan *plan, uint32_t first, uint32_t count,
                               struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                               CUstream stream);

// In the following, `call` is the public function, which an error names.

// Whether a capture has set what it sets now, to the same value, and nothing outside of it has set
// it since: a graph that has several steps sets it once. `set`: the capture that was the last to
// set it; after an error of the launch it must be 0.
bool ptxp_norm_is_set(uint64_t *set, const struct ptxd_capture *in, bool same);

// Between these two the plan is the calling thread's: another thread is refused. The result is
// `status`.
ptx_status ptxp_norm_plan_begin(struct norm_plan *plan, const char *call);
ptx_status ptxp_norm_plan_end(struct norm_plan *plan, const char *call, ptx_status status);

ptx_status ptxp_norm_plan_run(struct norm_plan *plan, const char *call, CUstream stream);
// A phase, which needs what the phase before leaves: the first one needs nothing.
ptx_status ptxp_norm_plan_phase(struct norm_plan *plan, const char *call, enum norm_phase phase,
                                CUstream stream);
ptx_status ptxp_norm_plan_set_max_norm(struct norm_plan *plan, const char *call, uint32_t group,
                                       float max_norm, CUstream stream);
ptx_status ptxp_norm_plan_set_loss_scale(struct norm_plan *plan, const char *call,
                                         struct ptx_loss_scale_state state, CUstream stream);

// As ptx_clip_plan_error_if_nonfinite().
ptx_status ptxp_norm_plan_check_finite(struct norm_plan *plan, const char *call,
                                       const char *const *names, CUstream stream);

// To be called between begin and end. Refuses with `message` between the phases of a step.
ptx_status ptxp_norm_plan_check_idle(const struct norm_plan *plan, const char *message,
                                     CUstream stream);

// To be called between begin and end: launching a kernel, the sums of chunks, with the last of
// which those of the groups are complete, and ptx_clip_plan_set_data().
ptx_status ptxp_norm_plan_launch(const struct norm_plan *plan, unsigned entry, uint64_t blocks,
                                 bool overlaps, CUstream stream);
// Of a kernel that sets something, and begins with ptxk_norm_setter_begin(). It overlaps with a
// setter of the plan that is captured directly before it; `overlaps`: also beside captures.
ptx_status ptxp_norm_plan_launch_setter(struct norm_plan *plan, unsigned entry, uint64_t blocks,
                                        bool overlaps, const struct ptxd_capture *in,
                                        CUstream stream);
ptx_status ptxp_norm_plan_squares(struct norm_plan *plan, uint64_t first, uint64_t count,
                                  CUstream stream);
ptx_status ptxp_norm_plan_set_data(struct norm_plan *plan, size_t first, size_t count,
                                   const CUdeviceptr *data, CUstream stream);

// Captures a run's launches as plan->graph, unless runs are refused. The plan must be ready to run.
ptx_status ptxp_norm_plan_capture(struct norm_plan *plan);

#endif

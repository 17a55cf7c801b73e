// SPDX-License-Identifier: MIT
// The device memory of a step plan besides that of its norms.
#ifndef PTXGEN_PLANS_STEP_TABLE_H
#define PTXGEN_PLANS_STEP_TABLE_H

#include <ptxgen/launch.h>
#include <ptxgen/step.h>

#include "kernels/step_apply.h"
#include "muon_products.h"
#include "step_copies.h"
#include "step_units.h"

// X(member, type of an element): the arrays, each aligned to 256 bytes. The host writes those
// before the coefficients.
#define STEP_ARRAYS(X)                                                                             \
    X(rows, uint64_t)                                                                              \
    X(clock_rows, struct step_clock_row)                                                           \
    X(hypers, struct ptx_step_hyper)                                                               \
    X(seed, uint64_t)                                                                              \
    X(tables, unsigned char)                                                                       \
    X(tiles, struct step_tile_row)                                                                 \
    X(first_tiles, uint32_t)                                                                       \
    X(tile_sums, double)                                                                           \
    X(tensor_sums, double)                                                                         \
    X(accumulators, struct step_accumulator_row)                                                   \
    X(sum_parts, struct step_tile_row)                                                             \
    X(sum_turns, uint32_t)                                                                         \
    X(copies, struct step_copy_row)                                                                \
    X(matrices, struct step_transpose_row)                                                         \
    X(transpose_tiles, struct step_transpose_tile_row)                                             \
    X(fp8_matrices, struct step_fp8_row)                                                           \
    X(fp8_tiles, struct step_fp8_tile_row)                                                         \
    X(qk_rows, struct step_qk_row)                                                                 \
    X(qk_factors, uint64_t)                                                                        \
    X(qk_one, float)                                                                               \
    X(fold_parts, struct step_fold_part)                                                           \
    X(folds, struct step_fold_row)                                                                 \
    X(matrix_of, uint32_t)                                                                         \
    X(matrix_rows, struct step_matrix_row)                                                         \
    X(matrix_tiles, struct step_tile_row)                                                          \
    X(unit_rows, struct step_unit_row)                                                             \
    X(unit_blocks, struct step_tile_row)                                                           \
    X(unit_tiles, struct step_unit_tile)                                                           \
    X(coefficients, float)                                                                         \
    X(matrix_sums, double)                                                                         \
    X(matrix_totals, double)                                                                       \
    X(matrix_work, unsigned char)                                                                  \
    X(unit_sums, double)                                                                           \
    X(unit_weights, double)                                                                        \
    X(unit_factors, float)                                                                         \
    X(tile_reports, struct step_tile_report)

struct step_accumulator_row {
    uint64_t at, state; // addresses of the sums, and of their struct ptx_step_accumulated
};

struct step_array {
    uint64_t offset; // bytes
    uint64_t length; // elements
};

// Matrices that are stepped together: the first, how many; and of the first the first tile, and the
// first of the step's, among those of matrices.
struct matrix_window {
    size_t first, count;
    uint64_t tile, step_tile;
};

// What the block that multiplies a matrix does of its step, in a plan: nothing; the last part; of
// long ones the first, too.
enum matrix_chips { MATRIX_NO_CHIPS, MATRIX_CHIPS_STEPPED, MATRIX_CHIPS_UPDATED };

// The matrices of a plan, in the order of the tensors, and a schedule for each group.
struct matrix_set {
    struct matrix_window *windows; // one after the other
    size_t window_count;
    struct muon_matrix *matrices;
    size_t count;
    struct muon_schedule *schedules;
    float (*triples)[3];         // of all schedules
    uint64_t tiles, sums, bytes; // rows of tiles and of sums; the workspace
    unsigned takes;              // entries of products, as bits, that step some matrix
    bool takes_turned;           // and some of these is transposed in them
};

// What qk_clips say of a tensor: its lines, which are rows or columns; none: nothing.
struct qk_tensor {
    uint64_t first; // of its lines, in the set
    uint32_t lines;
    bool by_columns;
    size_t entry; // the first one of the tensor's
};
struct qk_set {
    struct qk_tensor *tensors; // NULL: there are no entries
    uint64_t count;            // of lines, with one more of each tensor
    uint32_t *entry;           // of each line, counted from 1; 0: none
};

struct step_layout {
    size_t tensor_count;
    uint32_t clock_count;
    uint32_t *clocks;               // the clock of each tensor
    struct norm_report_row *places; // of each tensor in its whole; NULL without reports
    struct ptxk_step_variant variants[PTXK_STEP_MOST_VARIANTS]; // sorted, without duplicates
    unsigned variant_count;
    struct matrix_set set;
    struct qk_set qk;
    bool accumulates; // tensors have accumulators
    bool takes_amax;  // some tensor has an amax
    enum matrix_chips chips;
    bool groups;               // warpgroups multiply matrices
    bool counts_empty;         // some tensor without elements has a clock
    bool over_ranks;           // some tensor has rows of a matrix whose others are elsewhere
    bool spreads;              // some matrix's elements are not consecutive
    enum copy_squares squares; // which matrices may be stepped in tiles of 128 x 128
    struct copy_counts fp8;
    struct unit_counts units;
    uint32_t tile;      // elements of one
    uint32_t threads;   // of a block that steps one
    uint32_t others;    // tiles of tensors that are no matrices, which come first
    uint32_t row_words; // of a tensor's row
    uint64_t bytes;     // size of the memory
    uint64_t bytes_moved;
#define STEP_DECLARE(member, type) struct step_array member;
    STEP_ARRAYS(STEP_DECLARE)
#undef STEP_DECLARE
};

// Computes the layout from parameters that passed ptxp_step_check_params(), for a device of
// compute capability `sm`, 90 for 9.0; 0: not known. After a success ptxp_step_layout_free() must
// be called.
ptx_status ptxp_step_layout_create(const struct ptx_step_params *params, int sm,
                                   struct step_layout *layout);
void ptxp_step_layout_free(struct step_layout *layout);

// Fills the image of the memory before the coefficients, which must be zeroed; `memory` is its
// device address.
void ptxp_step_layout_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                           CUdeviceptr memory, unsigned char *image);

// A tensor's row.
struct step_tensor_row ptxp_step_row_of(const struct ptx_step_params *params,
                                        const struct step_layout *layout, size_t t);

// Whether a tensor's step count goes on.
bool ptxp_step_has_clock(const struct ptx_step_tensor *tensor);

// The rule of a group.
const struct ptxk_step_rule *ptxp_step_rule_of(const struct ptx_step_group *group);
// Whether C functions of a caller's rule write some of the kernels.
bool ptxp_step_calls_functions(const struct ptx_step_params *params);
ptx_type ptxp_step_gradient_type(const struct ptx_step_tensor *tensor);
// The elements of each absmax of a tensor; 0 if its format has none.
uint64_t ptxp_step_scales(const struct ptx_step_tensor *tensor);
unsigned ptxp_step_scale_bytes(const struct ptx_step_tensor *tensor); // of each
// The address of one of its states, of which the average of its weights is the last.
CUdeviceptr ptxp_step_state_at(const struct ptx_step_tensor *tensor,
                               const struct ptxk_step_variant *v, unsigned k);
struct ptxk_step_variant ptxp_step_variant_of(const struct ptx_step_tensor *tensor,
                                              const struct ptx_step_group *group);

// Whether there are weights to report, and an array for it.
bool ptxp_step_reports_weights(const struct ptx_step_params *params);

// Adds what is known of a loaded kernel; NULL: the plan has none.
void ptxp_step_describe_kernel(const struct ptx_function_info *kernel,
                               struct ptx_step_description *to);

// Checks everything about the parameters that is known without a device.
ptx_status ptxp_step_check_params(const struct ptx_step_params *params);
// Checks that tensor t is unchanged but for the addresses that may change.
ptx_status ptxp_step_check_same(size_t t, const struct ptx_step_tensor *was,
                                const struct ptx_step_tensor *is);
ptx_status ptxp_step_check_hyper(uint32_t group, const struct ptxk_step_rule *rule,
                                 const struct ptx_step_hyper *hyper);

#endif

// SPDX-License-Identifier: MIT
/// A random set of parameters, gradients and states on the device and on the host. Runs a step plan
/// of it and compares every byte with the reference.
#ifndef PTXGEN_TESTS_STEP_FIXTURE_H
#define PTXGEN_TESTS_STEP_FIXTURE_H

#include "clip_reference.h"
#include "data.h"
#include "gpu.h"
#include "plan_calls.h"
#include "reference/fp8.h"
#include "reference/guard.h"
#include "reference/step.h"

/// The rules of elements, which come before that of matrices.
enum { STEP_RULES = PTX_STEP_RULE_MUON };
enum { STEP_MOST_TENSORS = 640, STEP_MOST_GROUPS = 4, STEP_ARRAYS = 14 };

enum { ALL_COPIES = 1 << 0 | 1 << (1 + PTX_FP8_E4M3) | 1 << (1 + PTX_FP8_E5M2) };
enum { ALL_RULES = (1 << STEP_RULES) - 1, ALL_FORMATS = (1 << PTX_STEP_FORMAT_COUNT) - 1 };
/// Of a shape, which begins with it.
#define ALL_STEPS .rules = ALL_RULES, .formats = ALL_FORMATS

/// Of the shape of trial k of all formats in turn, which begins with it.
#define FORMAT_IN_TURN(k)                                                                          \
    .groups = 3, .norm_groups = 2, .rules = ALL_RULES,                                             \
    .formats = 1u << (k) % PTX_STEP_FORMAT_COUNT, .aligned = (k) % 2, .sharded = (k) % 2,          \
    .absent = (k) % 3 == 1, .wild = (k) % 3 == 2

/// Parameters of a random set.
struct step_shape {
    size_t tensors;
    uint32_t groups, norm_groups; ///< 0: 1
    uint64_t most;  ///< greatest number of elements of a tensor; the number is random and may be 0
    uint32_t rules; ///< bits of ptx_step_rule, of matrices, too; 0: AdamW
    uint32_t formats;  ///< bits of ptx_step_format; 0: FULL
    uint32_t averages; ///< bits of the ema's type, PTX_NONE among them; 0: none has one
    uint32_t copies;   ///< bits of the kinds of copies in 8 bits: 1 + ptx_fp8, 0 for none; 0: none
    bool transposed;   ///< some copies are made transposed, too
    uint32_t blocks;   ///< bits of ptx_fp8_blocks of copies; 0: none is in blocks
    uint64_t columns;  ///< of matrices with copies in blocks; 0: random
    bool amax;         ///< the largest weight of some is wanted
    bool units;        ///< some groups clip units
    bool aligned;      ///< to 16 bytes; if not, to the element only
    bool sums;         ///< gradients are in f32: they stand for sums of gradients
    bool sharded;      ///< shards of whole parameters
    bool absent;       ///< some have no gradient
    bool wild; ///< any finite gradients; parameters and states may be anything, NaN included
};

struct step_set {
    size_t count;
    bool has_elements;
    uint32_t groups, norm_groups;
    struct ptx_step_tensor tensors[STEP_MOST_TENSORS];
    struct ptx_step_group group[STEP_MOST_GROUPS];
    struct ptx_muon_params muon[STEP_MOST_GROUPS]; ///< of groups with matrices
    unsigned copy[STEP_MOST_TENSORS];              ///< 1 + ptx_fp8; 0: the tensor has none
    bool amax[STEP_MOST_TENSORS];
    bool transposed[STEP_MOST_TENSORS]; ///< its copy is made transposed, too
    ptx_step_gradients gradients;
    size_t stages; ///< plans that share the norm, each of consecutive tensors; 0: one plan
    float max_norms[STEP_MOST_GROUPS];   ///< a plan reads them at its max_norms_at
    float found_inf;                     ///< a plan reads it at its found_inf_at
    const struct ref_guards *guards;     ///< of the plan; NULL: none
    struct ref_guard_state *guard_state; ///< the expected one
    float given, loss;                   ///< what guards read
    enum data_kind data;                 ///< of the gradients
    uint64_t seed;
    ptx_buffer *memory;
    unsigned char *host; ///< the expected bytes of the memory
    size_t bytes;
    size_t offset[STEP_MOST_TENSORS][STEP_ARRAYS]; ///< of the parameter, gradient, beside, states,
                                                   ///< absmax, ema, codes, their scale, its
                                                   ///< reciprocal, amax, codes transposed
                                                   ///< and their scales
    size_t step[STEP_MOST_TENSORS];                ///< of the tensor's step count
    const float *factors[STEP_MOST_TENSORS];       ///< of the elements; NULL: none has one
};

/// The GPU owns what the set has, which may be made again.
void step_set_create(struct step_set *set, struct random *r, const struct step_shape *given);
/// Fills the gradients on host and device with new values. If `bad` is not 0, one element of one
/// gradient is `bad`.
void step_set_gradients(struct step_set *set, struct random *r, float bad);
struct ptx_step_params step_set_params(const struct step_set *set);
/// The first tensor of a stage. For the number of stages: the number of tensors.
size_t step_set_first(const struct step_set *set, size_t stage);
/// Creates the plan; fails the test if that fails.
ptx_step_plan *step_create(const struct ptx_step_params *params);
/// The adjacent elements that a thread takes: those of 16 bytes, or 8 where any array but the
/// gradient is narrow.
unsigned step_set_lanes(const struct step_set *set, size_t t);
/// Takes the reference's step on the host: sums, records, then every tensor. The gradients are
/// divided by `loss_scale`. Returns true if a NaN or infinity was found, or a guard skips the step,
/// so that no parameter is written.
bool step_set_expect(struct step_set *set, const struct ptx_step_params *params, float loss_scale);
/// What tensor t's codes in blocks and their scales are of its weights; nothing if it has none.
void step_set_expect_blocks(struct step_set *set, size_t t);
/// Waits for the stream. Compares the device's memory with the host's, with the guard bytes.
void step_set_check(const struct step_set *set, const char *what);

#endif

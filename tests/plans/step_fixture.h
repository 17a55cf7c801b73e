// SPDX-License-Identifier: MIT
/// A random set of parameters, gradients and states on a device and on the host, and a step plan of
/// it held against the reference, every byte.
#ifndef PTXGEN_TESTS_STEP_FIXTURE_H
#define PTXGEN_TESTS_STEP_FIXTURE_H

#include "clip_reference.h"
#include "data.h"
#include "gpu.h"
#include "reference/step.h"

enum { STEP_MOST_TENSORS = 64, STEP_MOST_GROUPS = 4, STEP_ARRAYS = 5 };

/// How to make a random set.
struct step_shape {
    size_t tensors;
    uint32_t groups, norm_groups;
    uint64_t most;    ///< elements of a tensor; sizes are random, 0 among them
    uint32_t rules;   ///< bits of ptx_step_rule
    uint32_t formats; ///< bits of ptx_step_format
    bool aligned;     ///< to 16 bytes; else to the element alone
    bool sharded;     ///< shards of whole parameters
    bool absent;      ///< some have no gradient
};

struct step_set {
    struct gpu *gpu;
    size_t count;
    bool has_elements;
    uint32_t groups, norm_groups;
    struct ptx_step_tensor tensors[STEP_MOST_TENSORS];
    struct ptx_step_group group[STEP_MOST_GROUPS];
    ptx_step_gradients gradients;
    size_t stages; ///< plans that share the norm, each of consecutive tensors; 0: one
    float max_norms[STEP_MOST_GROUPS]; ///< what a plan reads at its max_norms_at
    float found_inf;                   ///< and at its found_inf_at
    uint64_t seed;
    ptx_buffer *memory;
    unsigned char *host; ///< what the memory should be
    size_t bytes;
    size_t offset[STEP_MOST_TENSORS][STEP_ARRAYS]; ///< parameter, gradient, beside, states
    size_t step[STEP_MOST_TENSORS];                ///< of the tensor's count
};

void step_set_create(struct step_set *set, struct gpu *gpu, struct random *r,
                     const struct step_shape *shape);
void step_set_destroy(struct step_set *set);
/// New gradients on the host and the device; one element of one of them is `bad` if that is not 0.
void step_set_gradients(struct step_set *set, struct random *r, float bad);
struct ptx_step_params step_set_params(const struct step_set *set);
/// The first tensor of a stage; of the number of stages, the number of tensors.
size_t step_set_first(const struct step_set *set, size_t stage);
/// The plan, or a failed test.
ptx_step_plan *step_create(struct gpu *gpu, const struct ptx_step_params *params);
/// Takes the reference's step on the host: sums, records, then every tensor. `loss_scale` is what
/// the gradients are divided by. Returns whether something was found, and so nothing is written.
bool step_set_expect(struct step_set *set, const struct ptx_step_params *params, float loss_scale);
/// Waits for the stream and holds the device's memory against the host's, guard bytes and all.
void step_set_check(const struct step_set *set, const char *what);

#endif

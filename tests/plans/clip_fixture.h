// SPDX-License-Identifier: MIT
/// A random set of gradients on the device and on the host. Runs a clip plan of it and compares
/// every byte with the reference.
#ifndef PTXGEN_TESTS_CLIP_FIXTURE_H
#define PTXGEN_TESTS_CLIP_FIXTURE_H

#include "clip_reference.h"
#include "data.h"
#include "gpu.h"
#include "plan_calls.h"

enum { CLIP_MOST_TENSORS = 6000, CLIP_MOST_GROUPS = 8 };

enum { ALL_TYPES = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16) };

/// Parameters of a random set.
struct clip_shape {
    size_t tensors;
    uint32_t groups;
    uint64_t most;  ///< greatest number of elements of a tensor; the number is random and may be 0
    uint64_t large; ///< if not 0: one of a few tensors has up to this many instead
    uint32_t types; ///< PTX_TYPE_BIT() bits; 0: all
    enum data_kind data;
    bool aligned; ///< to 16 bytes; if not, to the element only
    bool weighted;
};

struct clip_set {
    size_t count;
    uint32_t groups;
    struct ptx_clip_tensor tensors[CLIP_MOST_TENSORS];
    struct ref_gradient
        host[CLIP_MOST_TENSORS]; ///< the gradients; after the reference's run, the expected ones
    float max_norms[CLIP_MOST_GROUPS];
    float found_inf; ///< a plan reads it at its found_inf_at
    ptx_buffer *memory;
    size_t bytes;
    size_t offset[CLIP_MOST_TENSORS]; ///< in device memory
};

/// Creates the plan; fails the test if that fails.
ptx_clip_plan *clip_create(const struct ptx_clip_params *params);

/// The GPU owns what the set has, which may be made again.
void clip_set_create(struct clip_set *set, struct random *r, const struct clip_shape *shape);
/// Fills host and device with new data.
void clip_set_fill(struct clip_set *set, struct random *r, enum data_kind kind);
/// Copies the host's bytes to the device, with the guard bytes.
void clip_set_upload(struct clip_set *set);

/// The results of the reference's run on the host's data, which it replaces by the expected
/// gradients.
struct clip_expected {
    double sums[CLIP_MOST_GROUPS];
    float records[CLIP_MOST_GROUPS][3];
    bool found;
};
void clip_set_expect(struct clip_set *set, const struct ptx_clip_params *params, float loss_scale,
                     struct clip_expected *expected);
/// Waits for the stream. Compares sums, records, summary and gradients with the expected ones.
void clip_set_check(const struct clip_set *set, const ptx_clip_plan *plan,
                    const struct clip_expected *expected);
/// Parameters for the set: its tensors, groups and norms.
struct ptx_clip_params clip_set_params(const struct clip_set *set);

/// Scalars that differ between trials: eps, the loss scale, measure_only.
struct ptx_clip_params clip_trial_params(unsigned trial);
/// Creates a plan of the set; `params` has the settings that are not in the set. Runs it once in
/// one call and once in three phases, on new data each time, and compares with the reference.
void clip_set_check_runs(struct clip_set *set, struct random *r, enum data_kind kind,
                         struct ptx_clip_params params);

#endif

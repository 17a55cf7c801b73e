// SPDX-License-Identifier: MIT
/// A random set of gradients on a device and on the host, and a clip plan of it held against the
/// reference, every byte.
#ifndef PTXGEN_TESTS_CLIP_FIXTURE_H
#define PTXGEN_TESTS_CLIP_FIXTURE_H

#include "clip_reference.h"
#include "data.h"
#include "gpu.h"

enum { CLIP_MOST_TENSORS = 6000, CLIP_MOST_GROUPS = 8 };

/// How to make a random set.
struct clip_shape {
    size_t tensors;
    uint32_t groups;
    uint64_t most;  ///< elements of a tensor; sizes are random, 0 among them
    uint64_t large; ///< not 0: one of a few tensors has up to so many instead
    uint32_t types; ///< PTX_TYPE_BIT() bits
    enum data_kind data;
    bool aligned; ///< to 16 bytes; else to the element alone
    bool weighted;
};

struct clip_set {
    struct gpu *gpu;
    size_t count;
    uint32_t groups;
    struct ptx_clip_tensor tensors[CLIP_MOST_TENSORS];
    struct ref_gradient
        host[CLIP_MOST_TENSORS]; ///< what the gradients are, then what they should be
    float max_norms[CLIP_MOST_GROUPS];
    float found_inf; ///< what a plan reads at its found_inf_at
    ptx_buffer *memory;
    size_t bytes;
    size_t offset[CLIP_MOST_TENSORS]; ///< in the memory
};

/// Fails the test with the thread's error unless the status is PTX_OK.
void clip_require(ptx_status status);
/// The plan, or a failed test.
ptx_clip_plan *clip_create(struct gpu *gpu, const struct ptx_clip_params *params);

void clip_set_create(struct clip_set *set, struct gpu *gpu, struct random *r,
                     const struct clip_shape *shape);
void clip_set_destroy(struct clip_set *set);
/// New data on the host and the device.
void clip_set_fill(struct clip_set *set, struct random *r, enum data_kind kind);
/// Copies what the host has to the device, guard bytes and all.
void clip_set_upload(struct clip_set *set);

/// The reference of a run on the host's data, which becomes what it should be.
struct clip_expected {
    double sums[CLIP_MOST_GROUPS];
    float records[CLIP_MOST_GROUPS][3];
    bool found;
};
void clip_set_expect(struct clip_set *set, const struct ptx_clip_params *params, float loss_scale,
                     struct clip_expected *expected);
/// Waits for the stream and holds sums, records, summary and gradients against it.
void clip_set_check(const struct clip_set *set, const ptx_clip_plan *plan,
                    const struct clip_expected *expected);
/// Parameters for the set: its tensors, groups and norms.
struct ptx_clip_params clip_set_params(const struct clip_set *set);

/// Scalars that differ from trial to trial: eps, the loss scale, measure_only.
struct ptx_clip_params clip_trial_params(unsigned trial);
/// A plan of the set, with what is no matter of the set from `params`: a run, and one in three
/// phases on new data, each held against the reference.
void clip_set_check_runs(struct clip_set *set, struct random *r, enum data_kind kind,
                         struct ptx_clip_params params);

#endif

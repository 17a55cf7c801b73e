// SPDX-License-Identifier: MIT
/// The work of `ptxgen clip`: the tensors of a file, which of them are clipped, and their groups.
#ifndef PTXGEN_TOOLS_CLIP_JOB_H
#define PTXGEN_TOOLS_CLIP_JOB_H

#include "safetensors.h"

#include <ptxgen/clip.h>

/// Tensors that share a norm and a factor.
struct clip_group {
    char *name; ///< NULL: the group of all tensors, or of those that the expression does not match
    uint64_t tensors; ///< number of tensors, including empty ones
    uint64_t elements;
    uint64_t bytes;
    uint32_t place;                ///< in the order of the first tensors
    struct ptx_clip_record record; ///< filled in by clip_run()
};

/// The group of tensors whose type is none of f32, f64, f16 and bf16: they are copied unchanged.
#define CLIP_NO_GROUP UINT32_MAX

/// What --nonfinite says: a policy of the plan, or that the command fails.
enum clip_policy {
    CLIP_PROPAGATE = PTX_NONFINITE_PROPAGATE,
    CLIP_SKIP = PTX_NONFINITE_SKIP,
    CLIP_ZERO = PTX_NONFINITE_ZERO,
    CLIP_ERROR,
    CLIP_POLICY_COUNT,
};

/// The tensors of one output file.
struct clip_part {
    const struct tensor_file *file; ///< has the same tensors, and the notes
    size_t end;                     ///< index of the job's tensor after the part
};

struct clip_job {
    const struct tensor_file *file;
    struct clip_part *parts; ///< one for each shard, or one for all
    size_t part_count;
    const struct tensor *
        *tensors;       ///< in the order of the outputs: tensor_file_order() of each part
    uint32_t *group_of; ///< of each tensor, or CLIP_NO_GROUP
    size_t count;
    struct clip_group *groups; ///< by name, numbers by their value; the one without a name last
    uint32_t group_count;      ///< at least 1
    bool grouped;              ///< an expression was given
    struct clip_group clipped; ///< totals of all groups; name and record are not used
    struct clip_group copied;  ///< totals of the other tensors; name and record are not used
    float max_norm, eps, loss_scale;
    enum clip_policy nonfinite;
};

/// Sorts the file's tensors into groups. `group_by` is a POSIX extended regular expression that is
/// searched in each name, or NULL for one group. The match of its first pair of parentheses, or the
/// whole match, names the group; tensors without a match share one more group. `sharded`: the job
/// has a part for each shard of the file. The file must outlive the job. Returns an exit status,
/// with the reason in `error` unless it is EXIT_DONE; the caller releases the job in both cases.
/// The caller fills in the numbers.
int clip_job_create(struct clip_job *job, const struct tensor_file *file, bool sharded,
                    const char *group_by, struct message *error);
void clip_job_release(struct clip_job *job);

#endif

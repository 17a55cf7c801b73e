// SPDX-License-Identifier: MIT
/// What `ptxgen clip` is to do: the tensors of a file, which of them are clipped, and in what
/// groups.
#ifndef PTXGEN_TOOLS_CLIP_JOB_H
#define PTXGEN_TOOLS_CLIP_JOB_H

#include "safetensors.h"

#include <ptxgen/clip.h>

/// Tensors that share a norm and a factor.
struct clip_group {
    char *name;       ///< NULL: of all tensors, or of those that the expression does not match
    uint64_t tensors; ///< how many, empty ones among them
    uint64_t elements;
    uint64_t bytes;
    struct ptx_clip_record record; ///< filled in by clip_run()
};

/// The group of a tensor whose type is none of f32, f64, f16 and bf16: it is copied as it is.
#define CLIP_NO_GROUP UINT32_MAX

struct clip_job {
    const struct tensor_file *file;
    const struct tensor **tensors; ///< in the order of the output: tensor_file_order()
    uint32_t *group_of;            ///< of each tensor, or CLIP_NO_GROUP
    size_t count;
    struct clip_group *groups; ///< in the order in which their first tensors come
    uint32_t group_count;      ///< at least 1
    bool grouped;              ///< by an expression
    struct clip_group clipped; ///< all groups together; name and record are not used
    struct clip_group copied;  ///< the other tensors; name and record are not used
    float max_norm, eps, loss_scale;
    ptx_nonfinite nonfinite;
};

/// Sorts the file's tensors into groups. `group_by` is a POSIX extended regular expression that is
/// looked for in each name, or NULL for one group: what its first pair of parentheses matched, or
/// the whole match, names the group. Tensors without a match share one more. The file must outlive
/// the job. Returns an exit status, with the reason in `error` unless it is EXIT_DONE; the job is
/// to be released in any case. The numbers are left to the caller.
int clip_job_create(struct clip_job *job, const struct tensor_file *file, const char *group_by,
                    struct message *error);
void clip_job_release(struct clip_job *job);

#endif

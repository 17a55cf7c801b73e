// SPDX-License-Identifier: MIT
/// The output of `ptxgen clip`: one file, or the shards of a model and their index.
#ifndef PTXGEN_TOOLS_CLIP_OUTPUTS_H
#define PTXGEN_TOOLS_CLIP_OUTPUTS_H

#include "clip/job.h"

struct clip_outputs {
    const struct clip_job *job;
    const char *path; ///< as given
    char **paths;     ///< of each part
    struct output *files;
    size_t current; ///< the part that is being written
};

/// Whether clip_outputs_open() would refuse a path. Creates nothing.
bool clip_outputs_check(const struct clip_job *job, const char *path, bool force,
                        struct message *error);
/// Says on standard error which files will be replaced that are not the input. False: out of
/// memory.
bool clip_outputs_tell(const struct clip_job *job, const char *path, struct message *error);
/// Opens the file of each part and writes its header. An index gets the shards' own names, in its
/// own folder. The caller discards the outputs in any case.
bool clip_outputs_open(struct clip_outputs *outputs, const struct clip_job *job, const char *path,
                       bool force, struct message *error);
/// Appends bytes of this tensor of the job; tensors come in order.
void clip_outputs_write(struct clip_outputs *outputs, size_t tensor, const void *bytes,
                        size_t count);
/// Completes the files, then the index.
bool clip_outputs_commit(struct clip_outputs *outputs, bool force, struct message *error);
void clip_outputs_discard(struct clip_outputs *outputs);

#endif

// SPDX-License-Identifier: MIT
/// Compares the output of `ptxgen clip` with the reference.
#ifndef PTXGEN_TESTS_CLIP_FILE_H
#define PTXGEN_TESTS_CLIP_FILE_H

#include "clip_reference.h"
#include "safetensors.h"

enum { CLIP_FILE_MOST_GROUPS = 16 };

/// The options of the command.
struct clip_told {
    float max_norm, eps, loss_scale;
    enum ref_nonfinite nonfinite;
    /// One group for each name up to its first dot, and one for names without a dot; if false, one
    /// group.
    bool grouped;
};

struct clip_found {
    uint64_t elements; ///< in the tensors that are clipped
    uint64_t tensors;
    uint64_t wrong; ///< elements that differ, in all tensors
    uint32_t group_count;
    char names[CLIP_FILE_MOST_GROUPS][32];   ///< "" where there is no dot, or one group
    float records[CLIP_FILE_MOST_GROUPS][3]; ///< factor, norm, found_inf
};

/// Compares the files, and sets *found to the expected numbers and the differences. Returns false,
/// with a line on standard error, if they cannot be compared: unreadable, other tensors or
/// metadata, out of memory.
bool clip_file_compare(const char *input, const char *output, const struct clip_told *told,
                       struct clip_found *found);

#endif

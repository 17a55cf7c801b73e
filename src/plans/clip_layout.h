// SPDX-License-Identifier: MIT
// A clip plan's device memory: where the rows lie that the host writes and the kernels read.
#ifndef PTXGEN_PLANS_CLIP_LAYOUT_H
#define PTXGEN_PLANS_CLIP_LAYOUT_H

#include <stddef.h>

#include <ptxgen/clip.h>

#include "kernels/clip.h"

// X(member, type of an element): the arrays in the plan's memory, each from a 256-byte boundary.
// The summary follows the records. The host writes all that comes before the partials.
#define CLIP_ARRAYS(X)                                                                             \
    X(tensors, struct clip_tensor_row)                                                             \
    X(chunks, struct clip_chunk_row)                                                               \
    X(pieces, uint32_t)                                                                            \
    X(groups, struct clip_group_row)                                                               \
    X(rule, struct clip_rule)                                                                      \
    X(records, struct ptx_clip_record)                                                             \
    X(sums, double)                                                                                \
    X(totals, struct clip_totals)                                                                  \
    X(partials, double)

struct clip_array {
    uint64_t offset; // bytes
    uint64_t length; // elements
};

struct clip_layout {
    uint32_t chunk;        // elements, at most
    uint32_t tensor_count; // rows: the tensors, and an empty one for groups that have none
    uint32_t group_count;
    uint64_t chunk_count;
    uint64_t element_count;
    uint64_t gradient_bytes;
    uint32_t dtypes; // PTX_TYPE_BIT() bits of the tensors that are not empty; f32 if all are
    bool packs;      // small tensors share chunks; then `pieces` has each of them
    uint64_t bytes;
#define CLIP_DECLARE(member, type) struct clip_array member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// Counts and places, from tensors that ptxp_clip_check_params() found in order. `may_pack`: small
// tensors may share chunks.
ptx_status ptxp_clip_layout_create(const struct ptx_clip_params *params, bool may_pack,
                                   struct clip_layout *layout);

// Where a tensor's chunks start, or a packed chunk.
struct clip_start {
    uint64_t chunk;
    uint32_t tensor; // or first piece
    uint32_t pieces; // 0: a tensor's
};

// Fills an image of the plan's memory up to the partials, zeroed before, and `starts`, which has
// room for every tensor and every group, in the order of chunks.
ptx_status ptxp_clip_layout_fill(const struct ptx_clip_params *params,
                                 const struct clip_layout *layout, const struct clip_rule *rule,
                                 unsigned char *image, struct clip_start *starts,
                                 size_t *start_count);

// ---- checks -------------------------------------------------------------------------------------

// Everything about the parameters that is known without a device; the message names what is wrong.
ptx_status ptxp_clip_check_params(const struct ptx_clip_params *params);
ptx_status ptxp_clip_check_max_norm(float max_norm);
// That max_norm was not left out: 0 clips every gradient to 0.
ptx_status ptxp_clip_check_max_norm_given(const struct ptx_clip_params *params);
ptx_status ptxp_clip_check_loss_scale(float scale);

// What a plan reads and writes.
struct clip_addresses {
    const struct clip_tensor_row *rows;
    size_t count;
    CUdeviceptr state; // the loss scale's, if it is the caller's; else 0
    CUdeviceptr plan;  // the plan's own memory
    uint64_t plan_bytes;
};

// That the addresses are the device's memory, aligned, with room for what is there, and apart from
// each other.
ptx_status ptxp_clip_check_addresses(ptx_device *device, const struct clip_addresses *addresses);

ptx_status ptxp_clip_out_of_host_memory(void);

// The bytes of an element.
unsigned ptxp_clip_row_bytes(const struct clip_tensor_row *row);

#endif

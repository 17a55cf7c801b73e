// SPDX-License-Identifier: MIT
// The layout of a clip plan's device memory: the rows that the host writes and the kernels read.
#ifndef PTXGEN_PLANS_CLIP_LAYOUT_H
#define PTXGEN_PLANS_CLIP_LAYOUT_H

#include <stddef.h>

#include <ptxgen/clip.h>

#include "arrays.h"
#include "kernels/clip.h"

// X(member, type of an element): the arrays in the plan's memory, each aligned to 256 bytes. The
// summary follows the records. The host writes everything before the partials.
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
    uint32_t chunk; // maximum number of elements
    uint32_t
        tensor_count; // number of rows: the tensors, and an empty one for groups without tensors
    uint32_t group_count;
    uint32_t sum_rows;
    uint64_t chunk_count;
    uint64_t element_count;
    uint64_t gradient_bytes;
    uint32_t dtypes; // PTX_TYPE_BIT() bits of the tensors that are not empty; f32 if there are none
    bool packs;      // small tensors share chunks; then `pieces` has an entry for each of them
    uint64_t bytes;
#define CLIP_DECLARE(member, type) struct clip_array member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// Computes counts and offsets from tensors that passed ptxp_clip_check_params(). `may_pack`: small
// tensors may share chunks.
ptx_status ptxp_clip_layout_create(const struct ptx_clip_params *params, bool may_pack,
                                   struct clip_layout *layout);

// The first chunk of a tensor, or a packed chunk.
struct clip_start {
    uint64_t chunk;
    uint32_t tensor; // or index of the first piece
    uint32_t pieces; // number of pieces; 0: the chunks of a tensor
};

// Fills the image of the plan's memory before the partials, which must be zeroed, and `starts`, in
// the order of chunks; it has room for every tensor and every group.
ptx_status ptxp_clip_layout_fill(const struct ptx_clip_params *params,
                                 const struct clip_layout *layout, const struct clip_rule *rule,
                                 unsigned char *image, struct clip_start *starts,
                                 size_t *start_count);

// ---- checks -------------------------------------------------------------------------------------

// Checks everything about the parameters that is known without a device; the message names what is
// wrong.
ptx_status ptxp_clip_check_params(const struct ptx_clip_params *params);
ptx_status ptxp_clip_check_max_norm(float max_norm);
// Checks that max_norm was given: 0 would clip every gradient to 0.
ptx_status ptxp_clip_check_max_norm_given(const struct ptx_clip_params *params);
ptx_status ptxp_clip_check_loss_scale(float scale);

// The caller's arrays besides the tensors: what params names, for so many groups. Returns their
// number.
enum { CLIP_CALLER_ARRAYS = 6 };
size_t ptxp_clip_caller_arrays(const struct ptx_clip_params *params, uint32_t groups,
                               struct plan_array arrays[CLIP_CALLER_ARRAYS]);

// What a plan reads and writes.
struct clip_addresses {
    const struct clip_tensor_row *rows;
    size_t count;
    const struct plan_array *others;
    size_t other_count;
    CUdeviceptr plan; // the plan's own memory
    uint64_t plan_bytes;
};

// Checks that the addresses are in the device's memory, aligned, with room for the data, and do not
// overlap.
ptx_status ptxp_clip_check_addresses(ptx_device *device, const struct clip_addresses *addresses);

ptx_status ptxp_clip_out_of_host_memory(void);

// The size of an element in bytes.
unsigned ptxp_clip_row_bytes(const struct clip_tensor_row *row);

#endif

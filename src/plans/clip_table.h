// SPDX-License-Identifier: MIT
// A clip plan's device memory: the rows that the host writes and the kernels read, and where they
// lie.
//
// A tensor is cut into chunks, of which each has a partial sum. A group's chunks follow each other,
// tensor after tensor. Where many tensors are small, tensors of half a chunk at most that follow
// each other in a group are the pieces of one packed chunk.
#ifndef PTXGEN_PLANS_CLIP_TABLE_H
#define PTXGEN_PLANS_CLIP_TABLE_H

#include <stddef.h>

#include <ptxgen/plans.h>

// The types a tensor may have, in the order of clip_tensor_row.dtype.
#define CLIP_DTYPES(X) X(F32) X(F64) X(F16) X(BF16)
enum { CLIP_DTYPE_COUNT = 4 };

enum {
    CLIP_BLOCK = 256, // threads, of each kernel
    // Most pieces of a chunk: a warp looks all of them up at once, each lane one.
    CLIP_PIECES = 32,
    CLIP_PIECE_VECTORS = 4, // that a thread reads at once
};

struct clip_tensor_row {
    uint64_t data;
    uint64_t count;
    double weight;
    uint32_t dtype;
    uint32_t unused;
};

struct clip_chunk_row {
    uint32_t tensor; // of a packed chunk: its first piece, in `pieces`
    uint32_t index;  // of the chunk in its tensor; of a packed chunk: its pieces
    uint32_t group;
    uint32_t team; // 0; of a packed chunk: log2 of the threads that a piece gets
};

struct clip_group_row {
    uint32_t first; // chunk
    uint32_t count; // chunks
};

// How the loss scale changes; struct ptx_loss_scale_params with its defaults in place.
struct clip_rule {
    float growth, backoff, min_scale, max_scale;
    int32_t interval, hysteresis;
};

// Words by which blocks keep count; 0 before and after a launch.
struct clip_totals {
    uint32_t arrivals; // of groups whose record is written
    uint32_t found;    // not 0 if one of them was not finite
    uint32_t ticket;   // tiles that blocks have drawn: all beyond the first two of each
    uint32_t through;  // blocks that will take no more
};
#define CLIP_TOTALS_WORD(member) (offsetof(struct clip_totals, member) / sizeof(uint32_t))

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
    uint32_t dtypes; // PTX_SET() bits of the tensors that are not empty; f32 if all are
    bool packs;      // small tensors share chunks; then `pieces` has each of them
    uint64_t bytes;
#define CLIP_DECLARE(member, type) struct clip_array member;
    CLIP_ARRAYS(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// Counts and places, from tensors that ptxp_clip_check_params() found in order.
ptx_status ptxp_clip_layout_create(const struct ptx_clip_params *params,
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

// ---- packed chunks ------------------------------------------------------------------------------

// The packed chunk at the end of a group's chunks so far.
struct clip_pack {
    uint64_t elements;
    uint32_t pieces;
};

// Adds a tensor of at most half a chunk to it; or, if it is full, false, and begins the next.
bool ptxp_clip_pack_add(struct clip_pack *pack, uint64_t count, uint32_t chunk);

// The log2 of the threads that each piece gets.
uint32_t ptxp_clip_pack_team(const struct ptx_tensor *tensors, const uint32_t *pieces,
                             uint32_t count);

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

// The code of a tensor's type in its row, and the bytes of an element.
unsigned ptxp_clip_dtype_code(ptx_type dtype);
unsigned ptxp_clip_row_bytes(const struct clip_tensor_row *row);

#endif

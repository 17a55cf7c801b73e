// SPDX-License-Identifier: MIT
// What the kernels of a clip plan share.
#ifndef PTXGEN_KERNELS_CLIP_PARTS_H
#define PTXGEN_KERNELS_CLIP_PARTS_H

#include "clip.h"

// ---- what they share ----------------------------------------------------------------------------

// The tables, declared as parameters.
struct clip_tables {
    ptx_ptr tensors, chunks;
    ptx_ptr pieces; // where chunks are packed
};
struct clip_tables ptxk_clip_tables_param(ptx_builder *b, const struct clip_spec *spec);

// The row of chunk `k`: u32.
struct clip_chunk {
    ptx_val tensor, index, group, team;
};
struct clip_chunk ptxk_clip_chunk_read(ptx_builder *b, const struct clip_tables *tables, ptx_val k);

// The row of tensor `k`: u64, u64, f64, u32.
struct clip_tensor {
    ptx_val data, count, weight, dtype;
};
struct clip_tensor ptxk_clip_tensor_read(ptx_builder *b, const struct clip_tables *tables,
                                         ptx_val k);

// The elements of a tensor's chunk: u64, s32.
struct clip_extent {
    ptx_val first, length;
};
struct clip_extent ptxk_clip_extent_of(ptx_builder *b, ptx_val index, ptx_val count,
                                       uint32_t chunk);

// A body for each type that a tensor may have, of which the block takes the one of its chunk.
void ptxk_clip_for_dtype(ptx_builder *b, const struct clip_spec *spec, ptx_val dtype,
                         void (*body)(ptx_builder *b, ptx_type dtype, void *user), void *user);

// ---- packed chunks (clip_pieces.c) --------------------------------------------------------------

// The pieces that this thread's team takes of a packed chunk, if its block has a part of it, one of
// so many: pieces unit, unit + units ... The rows of all of them are read at once, by a lane of the
// warp each. Any of this may be a variable that is set later.
struct clip_share {
    ptx_val team;               // from the chunk's row
    ptx_val unit, units, count; // u32; `count`: of the chunk's pieces
    struct clip_tensor row;     // that this lane has read
};

// All but the row. `part`: u32, or poisoned if there is one.
struct clip_share ptxk_clip_share_of(ptx_builder *b, const struct clip_chunk *chunk, ptx_val tid,
                                     ptx_val part, uint32_t parts);
// The tensor (u32) whose row this lane is to read.
ptx_val ptxk_clip_share_tensor(ptx_builder *b, const struct clip_tables *tables,
                               const struct clip_chunk *chunk, const struct clip_share *share,
                               ptx_val tid);

// This thread's part of the weighted sum of squares, for ptxk_block_sum(). An element's place
// decides which thread and which sum it goes to, so the block's sum has the same bits at any
// alignment.
ptx_val ptxk_clip_share_sum(ptx_builder *b, const struct clip_spec *spec,
                            const struct clip_share *share, ptx_val tid);

// Elements of `dtype` times a factor of its compute type; or 0, where `zeros` is not poisoned and
// holds.
struct clip_scaling {
    ptx_type dtype;
    ptx_val factor;
    ptx_val zeros;
    ptx_ptr data;
};
ptx_vec ptxk_clip_scaled(ptx_builder *b, const struct clip_scaling *s, const ptx_vec *in);

// Scales them by `factor` (f32); tensors whose address is 0 are left out.
void ptxk_clip_share_scale(ptx_builder *b, const struct clip_spec *spec,
                           const struct clip_share *share, ptx_val tid, ptx_val factor,
                           ptx_val zeros);

// ---- launches -----------------------------------------------------------------------------------

// Programmatic launches overlap: where the target has them, a kernel lets the next one start as
// soon as all of its own blocks have, and that one waits before it looks at what the first has
// written.
void ptxk_clip_let_next_start(ptx_builder *b);
void ptxk_clip_wait_for_last(ptx_builder *b);

// The sum of a group's partials, in thread 0: thread t adds partials t, t + 256 ... in four turns,
// which are added in pairs, then a tree over the threads. All threads must come by.
struct clip_partials {
    ptx_ptr groups, partials;
};
struct clip_partials ptxk_clip_partials_param(ptx_builder *b);
ptx_val ptxk_clip_group_total(ptx_builder *b, const struct clip_partials *from, ptx_val tid,
                              ptx_vec group);

// Where a group's results go; declared as parameters.
struct clip_results {
    const struct clip_spec *spec;
    ptx_ptr records, used, totals;
    ptx_val groups, eps;
    ptx_ptr state, rule; // where there is an update
};
struct clip_results ptxk_clip_results_param(ptx_builder *b, const struct clip_spec *spec);

// What a record depends on beside the sum; read before the sum is made, since it takes a while.
struct clip_inputs {
    ptx_val max_norm; // f32
    ptx_val inverse;  // f64: 1 / loss scale
};
struct clip_inputs ptxk_clip_inputs_read(ptx_builder *b, const struct clip_results *results,
                                         ptx_val group);

// A group's record from its sum (f64): f32 values, the policy heeded.
struct clip_record {
    ptx_val factor, norm;
    ptx_val finite; // a predicate
};
struct clip_record ptxk_clip_record_of(ptx_builder *b, const struct clip_results *results,
                                       const struct clip_inputs *inputs, ptx_val sum);

// Writes the record, and, if it is the last of all groups', the summary and the update of the loss
// scale. For one thread.
void ptxk_clip_record_write(ptx_builder *b, const struct clip_results *results, ptx_val group,
                            const struct clip_record *record);

#endif

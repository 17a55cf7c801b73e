// SPDX-License-Identifier: MIT
// What the kernels of a clip plan share.
#ifndef PTXGEN_KERNELS_CLIP_PARTS_H
#define PTXGEN_KERNELS_CLIP_PARTS_H

#include "clip.h"

// ---- what they share ----------------------------------------------------------------------------

// The tables, declared as parameters.
struct clip_tables {
    ptx_ptr tensors, chunks;
    ptx_ptr pieces; // if chunks are packed
};
struct clip_tables ptxk_clip_tables_param(ptx_builder *b, const struct clip_spec *spec);

// Reads the row of chunk `k` (u32).
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

// Emits the body once for each type that a tensor may have; a block executes the one of its chunk's
// type.
void ptxk_clip_for_dtype(ptx_builder *b, const struct clip_spec *spec, ptx_val dtype,
                         void (*body)(ptx_builder *b, ptx_type dtype, void *user), void *user);

// ---- packed chunks (clip_pieces.c) --------------------------------------------------------------

// The pieces of a packed chunk that this thread's team processes, if the chunk is divided into
// `units` parts: pieces unit, unit + units, ... All their rows are read at once, one per lane of
// the warp. Each member may be a variable that is set later.
struct clip_share {
    ptx_val team;               // from the row of the chunk
    ptx_val unit, units, count; // u32; `count`: number of the chunk's pieces
    struct clip_tensor row;     // the row that this lane has read
};

// Sets all members except the row. `part`: u32, or poisoned if there is only one.
struct clip_share ptxk_clip_share_of(ptx_builder *b, const struct clip_chunk *chunk, ptx_val tid,
                                     ptx_val part, uint32_t parts);
// The tensor (u32) whose row this lane must read.
ptx_val ptxk_clip_share_tensor(ptx_builder *b, const struct clip_tables *tables,
                               const struct clip_chunk *chunk, const struct clip_share *share,
                               ptx_val tid);

// This thread's part of the weighted sum of squares, for ptxk_block_sum(). The index of an element
// decides which thread and which sum it goes to, so the block's sum has the same bits at any
// alignment.
ptx_val ptxk_clip_share_sum(ptx_builder *b, const struct clip_spec *spec,
                            const struct clip_share *share, ptx_val tid);

// Elements of `dtype` times a factor of the compute type; 0 if `zeros` is not poisoned and holds.
struct clip_scaling {
    ptx_type dtype;
    ptx_val factor;
    ptx_val zeros;
    ptx_ptr data;
};
ptx_vec ptxk_clip_scaled(ptx_builder *b, const struct clip_scaling *s, const ptx_vec *in);

// Scales the pieces by `factor` (f32); skips tensors whose address is 0.
void ptxk_clip_share_scale(ptx_builder *b, const struct clip_spec *spec,
                           const struct clip_share *share, ptx_val tid, ptx_val factor,
                           ptx_val zeros);

// ---- launches -----------------------------------------------------------------------------------

// For programmatic launches, which overlap. On targets that have them, a kernel allows the next one
// to start as soon as all of its own blocks have started; the next one waits before it reads what
// the first one writes.
void ptxk_clip_let_next_start(ptx_builder *b);
void ptxk_clip_wait_for_last(ptx_builder *b);

// The sum of a group's partials, in thread 0. Thread t adds partials t, t + 256, ... in four
// interleaved sums, which are added in pairs; a tree over the threads follows. All threads of the
// block must execute it.
struct clip_partials {
    ptx_ptr groups, partials;
};
struct clip_partials ptxk_clip_partials_param(ptx_builder *b);
ptx_val ptxk_clip_group_total(ptx_builder *b, const struct clip_partials *from, ptx_val tid,
                              ptx_vec group);

// The addresses of a group's results; declared as parameters.
struct clip_results {
    const struct clip_spec *spec;
    ptx_ptr records, used, totals;
    ptx_val groups, eps;
    ptx_ptr state, rule;                              // if there is an update
    ptx_ptr max_norms_at, found_inf_at, found_inf_to; // those that the plan has
};
struct clip_results ptxk_clip_results_param(ptx_builder *b, const struct clip_spec *spec);

// The inputs of a record besides the sum; read before the sum is computed, to hide the latency.
struct clip_inputs {
    ptx_val max_norm; // f32
    ptx_val inverse;  // f64: 1 / loss scale
    ptx_val usable;   // a predicate: false counts as NaN; poisoned: there is nothing to check
};
struct clip_inputs ptxk_clip_inputs_read(ptx_builder *b, const struct clip_results *results,
                                         ptx_val group);

// A group's record, computed from its sum (f64): f32 values, with the policy applied.
struct clip_record {
    ptx_val factor, norm, max_norm;
    ptx_val finite; // a predicate: of the sum, and the inputs are usable
};
struct clip_record ptxk_clip_record_of(ptx_builder *b, const struct clip_results *results,
                                       const struct clip_inputs *inputs, ptx_val sum);

// Writes the record and, for the last of all groups, the summary and the update of the loss scale.
// Executed by one thread.
void ptxk_clip_record_write(ptx_builder *b, const struct clip_results *results, ptx_val group,
                            const struct clip_record *record);

#endif

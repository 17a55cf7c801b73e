// SPDX-License-Identifier: MIT
// What the kernels of plans that take norms share.
#ifndef PTXGEN_KERNELS_NORM_PARTS_H
#define PTXGEN_KERNELS_NORM_PARTS_H

#include "common/chunk.h"
#include "common/spread.h"
#include "norm.h"

// ---- what they share ----------------------------------------------------------------------------

// The tables, declared as parameters.
struct norm_tables {
    ptx_ptr tensors, chunks;
    ptx_ptr pieces; // if chunks are packed
};
ptx_ptr ptxk_norm_tensors_param(ptx_builder *b);
struct norm_tables ptxk_norm_tables_param(ptx_builder *b, const struct norm_spec *spec);

// Reads the row of chunk `k` (u32).
struct norm_chunk {
    ptx_val tensor, index, group, team;
};
struct norm_chunk ptxk_norm_chunk_read(ptx_builder *b, const struct norm_tables *tables, ptx_val k);

// The row of tensor `k`: u64, u64, f64, u32.
struct norm_tensor {
    ptx_val data, count, weight, dtype;
};
struct norm_tensor ptxk_norm_tensor_read(ptx_builder *b, const struct norm_tables *tables,
                                         ptx_val k);

// The elements of a tensor's chunk: u64, s32.
struct norm_extent {
    ptx_val first, length;
};
struct norm_extent ptxk_norm_extent_of(ptx_builder *b, ptx_val index, ptx_val count,
                                       uint32_t chunk);

// Emits the body once for each type that a tensor may have; a block executes the one of its chunk's
// type.
void ptxk_norm_for_dtype(ptx_builder *b, const struct norm_spec *spec, ptx_val dtype,
                         void (*body)(ptx_builder *b, ptx_type dtype, void *user), void *user);

// ---- packed chunks (norm_pieces.c) --------------------------------------------------------------

// The pieces of a packed chunk that this thread's team processes, if the chunk is divided into
// `units` parts: pieces unit, unit + units, ... All their rows are read at once, one per lane of
// the warp. Each member may be a variable that is set later.
struct norm_share {
    ptx_val team;               // from the row of the chunk
    ptx_val unit, units, count; // u32; `count`: number of the chunk's pieces
    struct norm_tensor row;     // the row that this lane has read
    ptx_val tensor;             // u32: of the row; with reports
};

// Sets all members except the row. `part`: u32, or poisoned if there is only one.
struct norm_share ptxk_norm_share_of(ptx_builder *b, const struct norm_chunk *chunk, ptx_val tid,
                                     ptx_val part, uint32_t parts);
// A sum of squares (f64) times its tensor's weight: infinite where the sum is, also with a weight
// of 0, which a tensor has that is not counted.
ptx_val ptxk_norm_weighted(ptx_builder *b, const struct norm_spec *spec, ptx_val sum,
                           ptx_val weight);

// The tensor (u32) whose row this lane must read.
ptx_val ptxk_norm_share_tensor(ptx_builder *b, const struct norm_tables *tables,
                               const struct norm_chunk *chunk, const struct norm_share *share,
                               ptx_val tid);

// This thread's part of the weighted sum of squares, for ptxk_block_sum(). The index of an element
// decides which thread and which sum it goes to, so the block's sum has the same bits at any
// alignment. With reports a team is a warp, which writes those of its pieces.
struct norm_squares;
ptx_val ptxk_norm_share_sum(ptx_builder *b, const struct norm_squares *n,
                            const struct norm_share *share);

// A piece, and this thread's index in its team.
struct norm_piece {
    ptx_val data, weight; // u64, f64
    ptx_val count;        // s32
    ptx_val thread;       // s32, index in the team
    ptx_val team;         // log2 of the number of threads
    ptx_val tensor;       // u32; with reports
    void *user;
};

// Executes the body for each piece of the share, specialised for the type of its elements.
void ptxk_norm_for_pieces(ptx_builder *b, const struct norm_spec *spec,
                          const struct norm_share *share, ptx_val tid,
                          void (*body)(ptx_builder *b, ptx_type dtype, void *piece),
                          struct norm_piece *piece);

// The whole vectors of a piece: thread t of the team processes vectors t, t + team, ...
struct norm_vectors {
    ptx_ptr x;
    unsigned lanes;
    ptx_val i; // a variable: index of this thread's next element
    ptx_val end;
    ptx_val stride; // in elements
};
struct norm_vectors ptxk_norm_vectors_of(ptx_builder *b, const struct norm_piece *piece, ptx_ptr x,
                                         ptx_val end);
// Reads NORM_PIECE_VECTORS vectors, the first of which exists; reads the first one again in place
// of vectors past the end, which are not `within`.
void ptxk_norm_vectors_read(ptx_builder *b, const struct norm_vectors *v, bool nc, ptx_val *place,
                            ptx_val *within, ptx_vec *in);
void ptxk_norm_vectors_next(ptx_builder *b, const struct norm_vectors *v);

// ---- sums of several gradients (norm_accumulate.c) ----------------------------------------------

struct norm_squares;

// A tensor's f32 array in which gradients are summed, and its struct ptx_step_accumulated. A
// launch leaves its mark with the count. No launch of this plan had it before, and of plans that
// share an accumulator and take turns one may by chance, which is 1 in 2^31.
struct norm_accumulator {
    ptx_ptr rows;             // u64: rows of 2, one a tensor; poisoned: the plan has none
    ptx_ptr turns;            // u32: one a block, which alone reads and writes it
    ptx_val first_turn;       // u32: of the plan
    ptx_val place;            // u32: of the block's turn
    ptx_val turn, mark;       // u32: of this launch
    ptx_val at, state;        // u64: their addresses
    ptx_val count;            // u32: of the gradients that it has, before this launch
    ptx_val adds, onto, some; // predicates: there is a gradient; the accumulator has a sum; either
};
ptx_ptr ptxk_norm_accumulators_param(ptx_builder *b);
// The same of kernels that take gradients up. `turns`: the parameter's name.
void ptxk_norm_accumulator_params(ptx_builder *b, struct norm_squares *n, const char *turns);
// Whether a tensor's gradient was in the sum that a norm has taken, from its `state`. 0: it was
// not.
ptx_val ptxk_norm_accumulated(ptx_builder *b, ptx_val state);
// The same of a tensor (u32), as a predicate; false where it has no accumulator.
ptx_val ptxk_norm_has_accumulated(ptx_builder *b, ptx_ptr rows, ptx_val tensor);
// Reads a tensor's, whose row is read. `takes`: the norm's pass, which completes the sum.
void ptxk_norm_accumulator_read(ptx_builder *b, struct norm_squares *n, bool takes);
// Takes the gradient of the chunk up. `squares`: sets n->sum.
void ptxk_norm_accumulate_chunk(ptx_builder *b, struct norm_squares *n, bool squares);
// The tensor's first chunk or part counts the gradient, whatever others have read of it. All
// threads of the block must have read the accumulator's state, before a barrier.
void ptxk_norm_accumulator_count(ptx_builder *b, const struct norm_squares *n, bool takes);

// ---- the sums of squares (norm_squares.c) -------------------------------------------------------

// The first kernel, in parts: a plan's own may begin with blocks that do something else. It then
// sums with the others, renumbered from 0.
struct norm_squares {
    const struct norm_spec *spec;
    struct norm_tables tables;
    ptx_ptr partials, state, used;
    ptx_val first;
    ptx_val tid;
    bool may_lack;    // a tensor at address 0 has no gradient, and adds nothing
    bool notes_scale; // the plan's own blocks call ptxk_norm_squares_note_scale()
    // Sets `sum` of a chunk that the plan sums in its own way, of others by
    // ptxk_norm_squares_chunk(). NULL: it has none. `own`: what it needs.
    void (*own_sum)(ptx_builder *b, struct norm_squares *n);
    const void *own;
    // Of the chunk:
    struct norm_chunk chunk;
    struct norm_tensor tensor;
    struct norm_extent extent;
    ptx_ptr scratch;
    ptx_ptr reports;                           // f64: of chunks, with reports
    ptx_ptr report_rows, reports_at, arrivals; // u64, u64, u32: if they are folded here
    struct chunk_seen seen;                    // likewise, variables
    ptx_val first_bad;
    struct norm_accumulator accumulator; // if the gradient is taken up into one
    const struct ptxk_spread *spread;    // of gradients that are not consecutive; NULL: they are
    ptx_val sum;                         // a variable: this thread's sum
    ptx_val weight;                      // factor of the block's sum
};
struct norm_squares ptxk_norm_squares_param(ptx_builder *b, const struct norm_spec *spec);
// Follows the parameters; returns the number of the block.
ptx_val ptxk_norm_squares_begin(ptx_builder *b, struct norm_squares *n);
// Reads the chunk's tensor, and its part of it.
void ptxk_norm_squares_read(ptx_builder *b, struct norm_squares *n);
// Sets `sum` to this thread's part of the chunk's, whose tensor is read.
void ptxk_norm_squares_chunk(ptx_builder *b, struct norm_squares *n);
// Where the chunk's sum is not finite: sets first_bad in all threads. Reads the chunk again.
void ptxk_norm_find_nonfinite(ptx_builder *b, const struct norm_squares *n,
                              const struct chunk *chunk);
// Writes the partial of the block's chunk.
void ptxk_norm_squares_sum(ptx_builder *b, struct norm_squares *n, ptx_val block);
// With reports (norm_report.c): the chunk's sum, in thread 0, after what is known of chunk `k`
// (u32) is written, or the report of a tensor that is complete. Executed by all threads of the
// block.
void ptxk_norm_squares_report_param(ptx_builder *b, struct norm_squares *n);
ptx_val ptxk_norm_squares_report(ptx_builder *b, const struct norm_squares *n, ptx_val k);
// The same of a piece: what this lane has seen of it, and its sum without the weight. Executed by
// all lanes of the warp.
void ptxk_norm_piece_report(ptx_builder *b, const struct norm_squares *n,
                            const struct norm_piece *piece, ptx_ptr x,
                            const struct chunk_seen *seen, ptx_val sum);
// Writes the loss scale that this run divides by. Executed by one thread of the launch.
void ptxk_norm_squares_note_scale(ptx_builder *b, const struct norm_squares *n);

// ---- launches -----------------------------------------------------------------------------------

// For programmatic launches, which overlap. On targets that have them, a kernel allows the next one
// to start as soon as all of its own blocks have started; the next one waits before it reads what
// the first one writes.
void ptxk_norm_let_next_start(ptx_builder *b);
void ptxk_norm_wait_for_last(ptx_builder *b);
// Of a kernel that sets something: in a graph it overlaps with the setters beside it.
void ptxk_norm_setter_begin(ptx_builder *b);

// The sum of a group's partials, in thread 0. Thread t adds partials t, t + 256, ... in four
// interleaved sums, which are added in pairs; a tree over the threads follows. All threads of the
// block must execute it.
struct norm_partials {
    ptx_ptr groups, partials;
};
struct norm_partials ptxk_norm_partials_param(ptx_builder *b);
ptx_val ptxk_norm_group_total(ptx_builder *b, const struct norm_partials *from, ptx_val tid,
                              ptx_vec group);

// What guards read and write; declared as parameters.
struct norm_guards {
    ptx_ptr rule, state;                 // f64, u32
    ptx_ptr limits_at, skip_at, loss_at; // those that the plan has
};
void ptxk_norm_guards_param(ptx_builder *b, const struct norm_spec *spec, struct norm_guards *g);
// `skipped` (f32) of a state: 0 where the step is taken.
ptx_val ptxk_norm_guards_skipped(ptx_builder *b, ptx_ptr state);

// The addresses of a group's results; declared as parameters.
struct norm_results {
    const struct norm_spec *spec;
    ptx_ptr records, used, totals;
    ptx_val groups, eps;
    ptx_ptr state, rule;                              // if there is an update
    ptx_ptr max_norms_at, found_inf_at, found_inf_to; // those that the plan has
    struct norm_guards guards;                        // if it has some
};
struct norm_results ptxk_norm_results_param(ptx_builder *b, const struct norm_spec *spec);
// The second kernel, in parts: a plan's own may have more blocks than one a group.
struct norm_sums {
    struct norm_partials from;
    ptx_ptr sums;
    struct norm_results results;
    ptx_val finishes;
};
struct norm_sums ptxk_norm_sums_param(ptx_builder *b, const struct norm_spec *spec);
// Executed by all threads of the block.
void ptxk_norm_sums_of(ptx_builder *b, const struct norm_spec *spec, const struct norm_sums *s,
                       ptx_val tid, ptx_val group);
// The counters of a launch: with guards not among the results.
ptx_ptr ptxk_norm_totals_param(ptx_builder *b);
// Only the records, totals and groups, for kernels that read the records.
struct norm_results ptxk_norm_records_param(ptx_builder *b, const struct norm_spec *spec);

// The inputs of a record besides the sum; read before the sum is computed, to hide the latency.
struct norm_inputs {
    ptx_val max_norm; // f32
    ptx_val inverse;  // f64: 1 / loss scale
    ptx_val usable;   // a predicate: false counts as NaN; poisoned: there is nothing to check
};
struct norm_inputs ptxk_norm_inputs_read(ptx_builder *b, const struct norm_results *results,
                                         ptx_val group);

// A group's record, computed from its sum (f64): f32 values, with the policy applied.
struct norm_record {
    ptx_val factor, norm, max_norm;
    ptx_val finite; // a predicate: of the sum and the factor, and the inputs are usable
};
struct norm_record ptxk_norm_record_of(ptx_builder *b, const struct norm_results *results,
                                       const struct norm_inputs *inputs, ptx_val sum);

// The record of a group (u32), f32.
ptx_ptr ptxk_norm_record_at(ptx_builder *b, const struct norm_results *results, ptx_val group);
void ptxk_norm_record_store(ptx_builder *b, const struct norm_results *results, ptx_val group,
                            const struct norm_record *record);
// Writes the summary, and updates the loss scale. Executed by one thread.
void ptxk_norm_summary_write(ptx_builder *b, const struct norm_results *results, ptx_val found);

// Writes the record and, for the last of all groups, the summary and the update of the loss scale.
// Executed by one thread.
void ptxk_norm_record_write(ptx_builder *b, const struct norm_results *results, ptx_val group,
                            const struct norm_record *record);

// ---- guards (norm_guard.c) ----------------------------------------------------------------------

// With guards the last block decides for all groups, since each rule looks at all of them.

// Whether this block is the last of a block for each group, after what it has written. Executed by
// one thread.
ptx_val ptxk_norm_arrives_last(ptx_builder *b, const struct norm_results *results);

// What keeps a group: variables.
struct norm_guard_kept {
    ptx_val mean, variance, count; // f64, f64, u64
};
// What guards know before the norms of a step.
enum { GUARD_BELONGS = NORM_LENGTH(uint32_t, struct norm_guard_belongs) };
struct norm_guards_known {
    ptx_val in_a_row, belongs[GUARD_BELONGS], most_skips; // u32
    ptx_val length, filled, next;                         // u32: of the history
    ptx_val mean, reach;          // f64, variables: of the warp's ring, and how far a value may be
    ptx_val loss;                 // f32
    ptx_val taken;                // u64: steps
    struct norm_guard_kept first; // of the thread's first group
};
// Reads it, which may come before the launch waits for the norms' sums. Executed by all threads.
struct norm_guards_known ptxk_norm_guards_begin(ptx_builder *b, const struct norm_results *results,
                                                ptx_val tid);
// The sum (f64) of a group.
typedef ptx_val norm_sum_of(ptx_builder *b, const void *from, ptx_val group);
// Writes all records, the summary, the loss scale's update and the guards' state. Executed by all
// threads of one block.
void ptxk_norm_guards_decide(ptx_builder *b, const struct norm_results *results, ptx_val tid,
                             const struct norm_guards_known *known, norm_sum_of *sum_of,
                             const void *from);

#endif

// SPDX-License-Identifier: MIT
// What the step kernel does with the elements of a tile.
#ifndef PTXGEN_KERNELS_STEP_TILE_H
#define PTXGEN_KERNELS_STEP_TILE_H

#include "step/random.h"
#include "step_apply.h"

// Of the weights that a thread has stored: variables.
struct ptxk_weights_seen {
    ptx_val norm, change; // f64: sums of squares; with reports
    ptx_val largest;      // f32: magnitude; with reports or an amax
};

// Factors of a tensor's rows or columns: qk_clip.h.
struct ptxk_qk_lines {
    ptx_ptr rows;           // u64: struct step_qk_row of tensors; if a variant has factors
    ptx_ptr factors;        // u64: addresses
    ptx_val columns, count; // u32: of the tensor; of lines
    ptx_val by_columns;     // a predicate: lines are columns
};

// The tile of a block.
struct ptxk_tile {
    const struct ptxk_step_spec *spec;
    const struct ptxk_step_variant *variant;
    bool reduces; // takes the sums
    bool is_guarded;
    ptx_ptr sums; // of tiles if it takes them, else of tensors; if a rule has some
    ptx_val tid;
    ptx_val tensor;       // u32
    ptx_val index;        // u32: place of the tile among the tensor's
    ptx_val elements;     // u64: of the tensor
    ptx_val tensor_first; // u64: index of the tile's first element
    ptx_val length;       // s32: number of elements of the tile
    ptx_val address[ARRAYS], scale_at[PTX_STEP_MAX_STATES];
    ptx_val clock; // u32
    struct ptxk_step_random random;
    ptx_val vectors;  // a predicate: whole vectors can be accessed
    ptx_val group;    // u32: norm group
    ptx_val count_at; // u64
    ptx_val starts;   // a predicate: this is the first tile of the tensor
    ptx_val several;  // a variable: there are others; of a matrix
    ptx_ptr records, coefficients, seed;
    ptx_ptr guard_state;    // with guards
    ptx_ptr tables, shared; // of a format with blocks, if it has some
    ptx_ptr stages;         // what threads have read ahead; declared if a variant is staged
    ptx_val groups;         // u32
    ptx_ptr tile_reports, folds, reports;                   // with reports of weights or an amax
    ptx_ptr copies;                                         // with an amax or a copy
    ptx_val amax_at, codes_at, copy_scale_at, scale_inv_at; // u64, likewise
    ptx_ptr accumulators;                                   // if gradients are summed in some
    bool is_matrix;                                         // its tiles are those of matrices
    ptx_ptr matrix_of, matrices, tile_shared;               // then
    ptx_ptr totals, scale_shared;                           // and of chips; f32
    ptx_val first_tile;                                     // then, u32: of all, that of block 0
    ptx_val place;                                          // u32: the tile's among all
    struct ptxk_weights_seen seen;                          // likewise
    struct ptxk_qk_lines qk;
    // Where units are clipped (step_units.h):
    ptx_ptr unit_rows, unit_tiles, unit_factors, unit_weights; // the last two: at the tile's
    ptx_val unit_until, unit_magic, unit_run;                  // u32
    ptx_val unit_odd, unit_leaves; // predicates: vectors have several units; sums are left
    ptx_val unit_sum;              // a variable, f32: of the vector's weights
    ptx_val unit_ahead;            // f32: the factor of the vector's first element, if it is read
    bool units_known;              // factors can be read
    ptx_val unit_factor[PTXK_LANES];
    struct ptxk_step_blocks_tile *square; // of matrices in tiles of 128 x 128; else NULL
    ptx_ptr slot;    // shared: what is kept there, of which the thread keeps a vector
    ptx_val slot_at; // a variable, u32: from there on
    // Set anew for each body:
    const struct ptxk_step_blocks *blocks; // NULL: the variant has none
    ptx_ptr array[ARRAYS];                 // offset to the tile
    ptx_ptr scale[PTX_STEP_MAX_STATES];    // of the tile's blocks
    ptx_val factor, coefficient[PTX_RULE_MAX_COEFFICIENTS];
    ptx_val ema_rate;   // f32, of a variant with an average
    ptx_val copy_scale; // f32, and the codes from the tile on: of a variant with a copy
    ptx_ptr codes;
    ptx_val codes_policy; // b64: of the cache, poisoned: none
};

// A vector of each array, in variables: read ahead of its use.
struct ptxk_tile_vector {
    ptx_val i;     // s32: index of its first element in the tile
    ptx_val whole; // a predicate: the tile has all of it, and it can be read at once
    struct ptxk_lanes array[ARRAYS];
    ptx_val scale[PTX_STEP_MAX_STATES]; // f32, of states in blocks
    unsigned scales;
    ptx_val factor; // a variable, f32: of the first element, where units are clipped
    ptx_val stage;  // u32: where the thread's is, in bytes from `stages` on, if it is staged
};

// Whether blocks are read ahead into shared memory: registers would leave room for fewer warps, or
// have ptxas compute a thread's elements one after the other. Then there are so many stages, each
// of so many bytes.
enum { PTXK_STEP_STAGES = 2 };
bool ptxk_step_is_staged(ptx_builder *b, const struct ptxk_step_variant *v);
uint32_t ptxk_step_stage_bytes(const struct ptxk_step_variant *v);

// Sets the addresses of the variant's arrays and scales.
void ptxk_tile_arrays(ptx_builder *b, struct ptxk_tile *s);

// Begins to read the vectors at element `i` (s32) of the tile, or the thread's part of a block.
struct ptxk_tile_vector ptxk_tile_vector_begin(ptx_builder *b, const struct ptxk_tile *s,
                                               ptx_val i);
struct ptxk_tile_vector ptxk_tile_block_begin(ptx_builder *b, const struct ptxk_tile *s, ptx_val i);
// Reads them anew, where `to->i` is now.
void ptxk_tile_vector_read(ptx_builder *b, const struct ptxk_tile *s,
                           const struct ptxk_tile_vector *to);
// Vectors that are not read yet; whether they can be, at once; and other ones in their place.
struct ptxk_tile_vector ptxk_tile_vector_var(ptx_builder *b, const struct ptxk_tile *s, ptx_val i);
ptx_val ptxk_tile_is_whole(ptx_builder *b, const struct ptxk_tile *s, ptx_val i);
void ptxk_tile_vector_set(ptx_builder *b, const struct ptxk_tile_vector *to,
                          const struct ptxk_tile_vector *from);
// The values of a vector, states of blocks in f32.
void ptxk_tile_vector_values(ptx_builder *b, const struct ptxk_tile *s,
                             const struct ptxk_tile_vector *in, ptx_val value[ARRAYS][PTXK_LANES]);
// Lane `k` of the values, as the rule gets it. `scaled`: its gradient but for the sign.
struct ptxk_step_element ptxk_tile_element(ptx_builder *b, const struct ptxk_tile *s,
                                           ptx_val value[ARRAYS][PTXK_LANES], unsigned k,
                                           ptx_val *scaled);

// Steps all vectors of the thread's, `span` elements apart. Sets bit k of `missing` (u32) where
// vector k must be stepped by ptxk_tile_step_singles(); a variant with blocks has none, nor has a
// plan that reports weights, where the order of a thread's elements is fixed.
void ptxk_tile_step(ptx_builder *b, const struct ptxk_tile *s, struct ptxk_tile_vector *v,
                    uint32_t span, ptx_val missing);
// Steps vector `k` (u32) of the thread's. Of a variant with blocks, that is the warp's block, if
// there is one; of others, the vector, or bit k of `missing` is set.
void ptxk_tile_vector_step(ptx_builder *b, const struct ptxk_tile *s, struct ptxk_tile_vector *v,
                           ptx_val k, ptx_val missing);
// Steps the elements of the vector at `i` that are in the tile, one by one.
void ptxk_tile_step_singles(ptx_builder *b, const struct ptxk_tile *s, ptx_val i);

// ---- tiles of 128 x 128 (step_squares.c) --------------------------------------------------------

// The parameters of the kernel; the tile, of a matrix; what a thread does in it; and its codes.
struct ptxk_step_square_tables {
    ptx_ptr tiles, matrices;
};
struct ptxk_step_square_tables ptxk_step_square_params(ptx_builder *b);
// Returns the tile's index.
ptx_val ptxk_step_square_read(ptx_builder *b, struct ptxk_tile *s,
                              const struct ptxk_step_square_tables *tables);
// Sets the place of the tile and its length, once its index is known.
void ptxk_step_square_place(ptx_builder *b, struct ptxk_tile *s, ptx_val index);
// The rows of the tile that a thread has begun to copy into shared memory: its parameters to where
// they are kept, what else a rule reads into a ring of stages.
struct ptxk_step_square_ring {
    uint32_t rows, bytes;   // at once, 0: none; bytes of a stage
    uint32_t place[ARRAYS]; // of an array in a stage, in bytes
    ptx_val i, kept;        // variables, s32 and u32: what is copied next, where parameters go
    ptx_val to, from;       // variables, u32: the stages of what is copied and used next
};
// The thread's vectors: the first (s32), and how far rows are apart. A thread without any is behind
// the tile. Begins to read.
struct ptxk_step_square_walk {
    ptx_val first, pace;
    struct ptxk_tile_vector now, next; // next: where none are in a ring
    struct ptxk_step_square_ring ring;
};
struct ptxk_step_square_walk ptxk_step_square_begin(ptx_builder *b, struct ptxk_tile *s);
// Steps all of them. Before, where `is` (a predicate) holds: ends the kernel; or, if codes are
// transposed, leaves the step out, and the codes that there are will be.
void ptxk_step_square_step(ptx_builder *b, struct ptxk_tile *s, struct ptxk_step_square_walk *w);
void ptxk_step_square_leave(ptx_builder *b, struct ptxk_tile *s, ptx_val is);
// Keeps a vector that is written; or the word of its codes. The other one does nothing.
void ptxk_step_square_keep(ptx_builder *b, const struct ptxk_tile *s,
                           ptx_val value[ARRAYS][PTXK_LANES]);
void ptxk_step_square_keep_codes(ptx_builder *b, const struct ptxk_tile *s, ptx_val word);
// Makes codes in blocks of the weights that are kept, or transposes the codes.
void ptxk_step_square_codes(ptx_builder *b, const struct ptxk_tile *s);

// ---- copies of weights (step_copy.c) ------------------------------------------------------------

// Writes the codes of the parameters at `i` (s32) of the tile, of which `value` has what
// ptxk_narrow() takes: a whole vector; those lanes that are in the tile; one. Without a copy they
// do nothing.
void ptxk_step_copy_vector(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                           ptx_val value[ARRAYS][PTXK_LANES]);
void ptxk_step_copy_some(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                         ptx_val value[ARRAYS][PTXK_LANES]);
void ptxk_step_copy_single(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                           ptx_val value[ARRAYS][PTXK_LANES]);
// The parameters of the kernel and the row of the tensor; the scale, which is read once the step's
// scalars are; and the scale's reciprocal, which the thread of the first element writes.
void ptxk_step_copy_param(ptx_builder *b, struct ptxk_tile *s);
ptx_ptr ptxk_step_copies_param(ptx_builder *b);
ptx_val ptxk_step_amax_of(ptx_builder *b, const struct ptxk_tile *s); // its address, by itself
void ptxk_step_copy_row(ptx_builder *b, struct ptxk_tile *s);
void ptxk_step_copy_scale(ptx_builder *b, struct ptxk_tile *s);
void ptxk_step_copy_inverse(ptx_builder *b, const struct ptxk_tile *s);

// ---- factors of rows and columns (step_qk_clip.c) -----------------------------------------------

// The parameter of the kernel; and what belongs to the tensor, of a variant with factors.
void ptxk_step_qk_param(ptx_builder *b, struct ptxk_tile *s);
void ptxk_step_qk_begin(ptx_builder *b, struct ptxk_tile *s);
// The factors of lanes from element `i` (s32) of the tile on, 1 behind the tensor's last; and what
// a parameter becomes by one. Without factors: nothing, and the parameter.
void ptxk_step_qk_factors(ptx_builder *b, const struct ptxk_tile *s, ptx_val i, unsigned lanes,
                          ptx_val factor[PTXK_LANES]);
ptx_val ptxk_step_qk_multiply(ptx_builder *b, const struct ptxk_tile *s, ptx_val p, ptx_val factor);

// ---- what kernels have in common (step_apply.c) -------------------------------------------------

struct ptxk_tile_vector;

// What a kernel steps a variant by: of matrices, their rule after the products.
struct ptxk_step_variant ptxk_step_applied(const struct ptxk_step_variant *v);
// What s->tensor has in its row, and all else that does not depend on the results of the norm's
// launch. Ends the kernel, for all threads, of a tensor that is left out.
void ptxk_step_tile_read(ptx_builder *b, struct ptxk_tile *s, ptx_ptr tensors, ptx_ptr rows,
                         ptx_val *variant);
// Whether the step must not write: found_inf of all groups, or what a guard says; 0: it may.
ptx_val ptxk_step_found(ptx_builder *b, const struct ptxk_tile *s);
// Reads the factor and coefficients of this step, all before the first is used. Ends the kernel,
// for all threads, if the step must not write. `first`: the thread's first vector; NULL: there is
// none.
void ptxk_step_scalars_read(ptx_builder *b, struct ptxk_tile *s,
                            const struct ptxk_tile_vector *first);

// ---- reports of weights (step_report.c) ---------------------------------------------------------

// Whether the kernel reports weights; whether it notes them, for a report or an amax; whether it
// sees them, for these or for sums of units; and whether a thread's elements have a fixed order.
// Without, ptxk_step_report_old() and _new() do nothing.
bool ptxk_step_reports(const struct ptxk_tile *s);
bool ptxk_step_notes(const struct ptxk_tile *s);
bool ptxk_step_sees(const struct ptxk_tile *s);
bool ptxk_step_in_order(const struct ptxk_tile *s);
void ptxk_step_report_param(ptx_builder *b, struct ptxk_tile *s);
void ptxk_step_report_begin(ptx_builder *b, struct ptxk_tile *s);
// The weights of lanes as they are stored before the step, in f32, from the values read; and notes
// those after it, from the values to write.
void ptxk_step_report_old(ptx_builder *b, const struct ptxk_tile *s, unsigned lanes,
                          ptx_val value[ARRAYS][PTXK_LANES], ptx_val *old);
void ptxk_step_report_new(ptx_builder *b, const struct ptxk_tile *s, unsigned lanes,
                          ptx_val value[ARRAYS][PTXK_LANES], const ptx_val *old);
// Writes the report of a tensor that is left out, where `absent` holds.
void ptxk_step_report_absent(ptx_builder *b, const struct ptxk_tile *s, ptx_val absent);
// Leaves what the block's threads noted: of a tensor that is one tile its report and its amax, else
// what ptxk_step_report_emit() folds. Ends the kernel. All threads of the block must execute it.
void ptxk_step_report_tile(ptx_builder *b, const struct ptxk_tile *s);

#endif

// SPDX-License-Identifier: MIT
// The kernels that a step plan adds to those of its norm.
#ifndef PTXGEN_KERNELS_STEP_APPLY_H
#define PTXGEN_KERNELS_STEP_APPLY_H

#include "muon.h"
#include "norm.h"
#include "step/format.h"

enum {
    PTXK_STEP_MOST_VARIANTS = 64,
    STEP_ROW_STATES = 2, // those that every row has room for
    STEP_MORE_STATES = PTX_RULE_MAX_STATES - STEP_ROW_STATES,
};

#define STEP_NO_TILES UINT32_MAX // as the first of a tensor that is stepped in tiles of its codes

_Static_assert((int)PTXK_STEP_MOST_VARIANTS == (int)PTXK_STEP_MOST_RULES, "a rule each");

// What a step does with the gradients.
enum ptxk_step_gradients {
    PTXK_STEP_GRADIENTS_RAW,     // left unchanged
    PTXK_STEP_GRADIENTS_WRITTEN, // multiplied by the factor
    PTXK_STEP_GRADIENTS_ZEROED,
};

// What the text depends on beside the norm: norm_spec.own.
struct ptxk_step_spec {
    const struct ptxk_step_variant
        *variants; // without duplicates, in the order of ptxk_step_variant_compare()
    unsigned variant_count;
    uint32_t tile;    // elements that a block steps, of one tensor; from ptxk_step_tile()
    uint32_t threads; // of a block; 0: NORM_BLOCK; fewer if tensors are small
    enum ptxk_step_gradients gradients;
    bool accumulates; // gradients are summed in accumulators
    bool reports_weights;
    bool takes_amax;     // some tensor's largest weight is wanted
    bool transposes;     // some copy is wanted transposed, too
    bool counts_empty;   // some tensor without elements counts its steps
    bool over_ranks;     // some tensor has rows of a matrix whose others are on other ranks
    bool spreads;        // some matrix's elements are not consecutive: common/spread.h
    bool takes_turned;   // some matrix that products step is transposed in them
    uint32_t fp8_blocks; // bits of the kinds of copies in blocks: ptxk_step_fp8_kind()
    bool has_squares;    // there are tiles whose codes the step makes; others' step runs beside
    bool squares_whole;  // of tiles whose codes the step makes, most have most of their elements
    bool clips_units;    // some tensor's units are clipped (step_units.h)
    bool reads_units;    // and of some the weights are read, since no step leaves sums of them
};

// A tensor's row, with the same index as in the norm's table. In memory its words are those of
// ptxk_step_row_words().
struct step_tensor_row {
    uint64_t parameter, beside, state[STEP_ROW_STATES];
    uint64_t step;               // address of the step count; 0: it has no clock
    uint64_t first, run, stride; // run = stride: all elements are consecutive
    uint32_t id, clock;
    uint32_t variant; // 2 * its index; + 1 if all arrays except the gradient can be accessed in
                      // whole vectors
    uint32_t norm_group;
    uint64_t absmax[STEP_ROW_STATES];
    // Left out where no variant has so many states.
    uint64_t more_states[STEP_MORE_STATES];
    uint64_t more_absmax[STEP_MORE_STATES];
    // Likewise; these are in no blocks.
    uint64_t last_states[PTX_STEP_MAX_STATES - PTX_RULE_MAX_STATES];
};

enum {
    STEP_ROW_WORDS = NORM_LENGTH(uint64_t, struct step_tensor_row), // at most
    STEP_SET_ROWS_WORDS = 384, // of a launch that sets rows: 3 KiB of the 4 that parameters have
    STEP_SCALARS = NORM_LENGTH(double, struct ptx_step_hyper),
};
enum { STEP_FEW_SCALARS = 16 };

// Its kernels, of which these set something.
enum { STEP_SET_HYPER = NORM_SET_OWN, STEP_SET_ROWS };
enum {
    STEP_REDUCE = NORM_OWN, // before the step of rules with sums, a block for each tile: its sums
    STEP_SUMS,              // those of each tensor
    STEP_ACCUMULATE,        // in no run: gradients into accumulators, a block for each chunk
    STEP_REPORT, // after the step: reports of weights, or their largest, of tensors of several
                 // tiles
    STEP_MATRIX_TOTALS, // after the norm, of matrices over ranks: the sums of a tensor, in a block
    STEP_MATRIX,        // before the products of matrices, a block for some tiles: momentum, and
                        // the update for the products
    STEP_MATRIX_LAST,   // after them, likewise: the parameters
    STEP_UNITS,         // before the step, where units are clipped: a factor for each
    STEP_UNIT_WEIGHTS,  // in no run: the sums of their weights, a block for each tile
    STEP_SQUARES,       // the step of matrices with codes in blocks, a block for each 128 x 128
    // These come after the step, too.
    STEP_TRANSPOSE = NORM_AFTER_LAST, // a block for each tile of a matrix
    STEP_FP8_BLOCKS,                  // a block for each 128 x 128 elements of one
};
extern const struct norm_entry ptxk_step_entries[NORM_ENTRIES];
norm_emit ptxk_step_apply_emit, ptxk_step_reduce_emit, ptxk_step_sums_emit, ptxk_step_report_emit,
    ptxk_step_transpose_emit, ptxk_step_matrix_totals_emit, ptxk_step_matrix_emit,
    ptxk_step_matrix_apply_emit, ptxk_step_fp8_blocks_emit, ptxk_step_units_emit,
    ptxk_step_unit_weights_emit, ptxk_step_squares_emit;
// The kernels, with their entries, in the module of the products in place of theirs: they step
// parameters from last products, and of long matrices of 65 to 128 rows make momentum and update.
extern const char *const ptxk_step_products_names[MUON_ENTRIES];
void ptxk_step_products_emit(ptx_builder *b, const struct norm_spec *norm, unsigned entry);
// What is in such an entry.
void ptxk_step_products_with(ptx_builder *b, const struct norm_spec *norm, unsigned entry);
// The threads of a block of NORM_LAST; and whether they may be fewer than NORM_BLOCK: none works
// with the others.
unsigned ptxk_step_threads(const struct ptxk_step_spec *spec);
bool ptxk_step_may_have_fewer_threads(const struct ptxk_step_spec *spec);
// Whether there are tiles of 128 x 128, of which a block has so many bytes of shared memory.
bool ptxk_step_has_squares(const struct norm_spec *norm);
uint32_t ptxk_step_square_shared(const struct norm_spec *norm, int sm);
unsigned ptxk_step_square_threads(const struct norm_spec *norm);
// Whether NORM_LAST has something to step.
bool ptxk_step_has_others(const struct ptxk_step_spec *spec);

// The sums of a tile, and of a tensor: rows of PTX_RULE_MAX_SUMS f64.

// A tile: its tensor, and its place among the tensor's tiles.
struct step_tile_row {
    uint32_t tensor, index;
};

// Of a tensor, what a block takes up of a micro-batch's gradient. The table of parts has struct
// step_tile_row.
enum { STEP_PART = 4096 };

// What a step leaves of a tensor's weights beside them, in plans with an amax or a copy: addresses.
struct step_copy_row {
    uint64_t amax, codes;
    uint64_t scale, scale_inv; // of the codes
};

// Of a tensor whose rows or columns have factors: where the address of each one's factor is, and
// behind them that of a 1, for elements that are not there.
struct step_qk_row {
    uint64_t factors;
    uint32_t columns, lines; // lines: twice their number; + 1: they are columns
};

// The tiles of a matrix of codes, by rows of tiles: so many rows and columns, but at the edges.
enum { PTXK_STEP_CODES_TILE = 128 };

// A copy that is wanted transposed, too; and a tile of it.
struct step_transpose_row {
    uint64_t codes, to; // addresses
    uint64_t rows, columns;
};
struct step_transpose_tile_row {
    uint32_t matrix, index;
};

// A matrix whose copy is in blocks; and a tile of it.
struct step_fp8_row {
    uint64_t codes, scales;                 // addresses
    uint64_t transposed, transposed_scales; // 0: not wanted
    uint64_t rows, columns;
    uint32_t tensor, kind; // of ptxk_step_fp8_kind()
    uint64_t scaling;      // ptx_fp8_scaling
};
enum { PTXK_STEP_FP8_KINDS = 12 };
struct step_fp8_tile_row {
    uint32_t matrix, index;
};
// The code that makes the blocks of such a parameter.
unsigned ptxk_step_fp8_kind(ptx_type parameter, ptx_fp8_blocks blocks, ptx_fp8 format);

// With reports of weights or an amax, what is known of a tile of several of a tensor.
struct step_tile_report {
    double norm, change; // sums of squares; with reports
    float largest;
    uint32_t unused;
};
// And of the tensor, between the step and the launch of STEP_REPORT; 0 before and after.
struct step_fold_row {
    uint32_t left;     // 1: its tiles have left something
    uint32_t arrivals; // parts of it that are folded
};
// A block of that launch: so many tiles of a tensor.
enum { STEP_FOLD_TILES = NORM_BLOCK };
struct step_fold_part {
    uint32_t tensor, part;
    uint32_t first, tiles; // of the tensor: index of its first tile, and number
};

// A tile of a matrix, for a block: 32 x 128, and 64 x 64 of one that is transposed. The elements of
// a sum, in their order in memory, for a warp: a chunk of the norm has a multiple of these.
enum {
    STEP_MATRIX_TILE = 64,
    STEP_MATRIX_ROWS = 32,
    STEP_MATRIX_COLUMNS = 128,
    STEP_MATRIX_PART = 1024,
    STEP_MATRIX_SUMS = 3,
    STEP_MATRIX_NO_RUN = 1 << 30, // as run and stride: elements are consecutive; no run is as long
};

// `taken` of a product that a step plan takes is 1 + the tensor, and this bit of a matrix that the
// products have transposed.
enum { STEP_TAKEN_TURNED = 1 << 30 };

// What a matrix's row says of it, as bits.
enum {
    STEP_MATRIX_TRANSPOSED = 1, // X has the matrix's columns as rows
    STEP_MATRIX_NESTEROV = 2,
    STEP_MATRIX_MAXIMIZE = 4,
    STEP_MATRIX_BF16 = 8, // the momentum's type; else f32
};

struct step_matrix_row {
    uint64_t x, to; // addresses of X, and of what the products leave; f16
    uint64_t sums;  // of its parts: index of the first
    double adjust;  // of lr
    uint32_t tensor, rows;
    uint32_t columns, line; // elements of a row, and from a row of X to the next
    uint32_t options, each; // each: tiles of a block
    uint32_t run, stride;   // of elements that are not consecutive; run 0: they are
};

// Clipping of units: step_units.h.
enum {
    STEP_UNIT_PART = 1024,   // elements of a unit's gradient that have a sum, at most
    STEP_UNIT_AT_ONCE = 8,   // sums of a unit that a thread reads at once
    STEP_UNIT_READ = 255,    // as `run`: the weights are read, as no step leaves sums of them
    STEP_UNIT_FAR = 1 << 15, // more elements than a tile has
};

// A tensor's row. One that is not clipped is one unit without parts.
struct step_unit_row {
    uint64_t columns, units;          // elements of a unit, number of units
    uint64_t first_sum, first_weight; // of the tensor, in unit_sums and unit_weights
    double clipping, eps;
    uint32_t first_unit, parts; // parts: of each unit's gradient; 0: it is not clipped
    uint32_t team, sums_team;   // log2 of the threads: of a part, and of a unit's sums
    uint32_t run, weights;      // log2 of the elements of a sum of weights, sums of each unit
    uint32_t norm_group, kind;  // kind: of ptxk_unit_kind()
    uint32_t magic, even;       // of ptxk_unit_magic(); even: no vector has elements of two units
    uint64_t unused;
};
_Static_assert(sizeof(struct step_unit_row) == 12 * sizeof(uint64_t), "as the kernels read it");

// A tile of the step: its first element's unit, and how many elements until the next one.
struct step_unit_tile {
    uint32_t unit, until;
};

// What decides how a parameter is read: its type and the lanes of a thread.
uint32_t ptxk_unit_kind(const struct ptxk_step_variant *v);
// i / columns is mul_hi(2 i, magic) for i < STEP_UNIT_FAR, columns at most that.
uint32_t ptxk_unit_magic(uint64_t columns);

// Adds `count` sums (f64) of the block's threads, and writes them as row `k` (u32). All threads of
// the block must execute it.
void ptxk_step_sums_store(ptx_builder *b, const ptx_val *sum, unsigned count, ptx_val tid,
                          ptx_ptr rows, ptx_val k);

// The lanes that a thread processes at once of a variant's tensor.
unsigned ptxk_step_lanes(const struct ptxk_step_variant *v);
// The tile of a plan of so many elements; the spec's own is ignored.
uint32_t ptxk_step_tile(const struct ptxk_step_spec *spec, uint64_t elements);

// The number of step kernel blocks wanted on an SM: the fastest on an H200 for the variant with the
// most registers.
unsigned ptxk_step_blocks_per_sm(const struct ptxk_step_spec *spec);

// Whether any variant uses random bits.
bool ptxk_step_draws(const struct ptxk_step_spec *spec);
// The words (u64) of a tensor's row: 12, 16 or 20.
uint32_t ptxk_step_row_words(const struct ptxk_step_spec *spec);
// That of the three meanings of a parameter which fits the rows' length.
const char *ptxk_step_row_meaning(const struct ptxk_step_spec *spec, const char *const meanings[3]);
// The scalars of a group that ptx_step_plan_set_hyper() sets: STEP_FEW_SCALARS or STEP_SCALARS.
uint32_t ptxk_step_set_scalars(const struct ptxk_step_spec *spec);
// Whether any variant has states in blocks.
bool ptxk_step_has_blocks(const struct ptxk_step_spec *spec);
// The tables that conversions of blocks read, one format's behind another's: the bytes of those
// before the format's, of all if it is NULL; those of the longest one; and what they are.
uint32_t ptxk_step_tables_before(const struct ptxk_step_spec *spec,
                                 const struct ptxk_step_blocks *blocks);
uint32_t ptxk_step_tables_most(const struct ptxk_step_spec *spec);
const char *ptxk_step_tables_meaning(const struct ptxk_step_spec *spec);
void ptxk_step_tables_fill(const struct ptxk_step_spec *spec, unsigned char *tables);
// Whether any variant has an average of its weights.
bool ptxk_step_has_ema(const struct ptxk_step_spec *spec);
// Whether any variant has a copy of its weights; and whether there are struct step_copy_row.
bool ptxk_step_has_copies(const struct ptxk_step_spec *spec);
bool ptxk_step_has_copy_rows(const struct ptxk_step_spec *spec);
// The variants whose rule is one of matrices, which are adjacent; and whether there are any.
struct ptxk_step_matrices {
    unsigned first, count;
};
struct ptxk_step_matrices ptxk_step_matrices(const struct ptxk_step_spec *spec);
bool ptxk_step_has_matrices(const struct ptxk_step_spec *spec);
// Whether the step of other rules runs beside the products of matrices: its launch follows theirs,
// begins when all their blocks have begun, and has a block more than tiles, which waits for them.
bool ptxk_step_beside_products(const struct ptxk_step_spec *spec);
// Whether the launch of updates begins while that before it ends, and all that it reads and writes
// but X leaves the L2 cache first: in plans with so few elements that X stays there.
bool ptxk_step_updates_early(const struct norm_spec *norm);
// Whether any rule has sums.
bool ptxk_step_has_sums(const struct ptxk_step_spec *spec);
// The rules of the variants.
struct ptxk_step_rules ptxk_step_rules(const struct ptxk_step_spec *spec);

#endif

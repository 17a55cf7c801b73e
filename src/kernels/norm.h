// SPDX-License-Identifier: MIT
// The kernels of a plan that takes norms, and the rows in device memory that the host writes and
// the kernels read. What a plan does with the norms is a kernel of its own, in its table of
// kernels.
//
// A tensor is divided into chunks; each chunk has one partial sum. The chunks of a group are
// consecutive, tensor after tensor. If many tensors are small, consecutive tensors of a group with
// at most half a chunk of elements each become the pieces of one packed chunk.
#ifndef PTXGEN_KERNELS_NORM_H
#define PTXGEN_KERNELS_NORM_H

#include <stddef.h>

#include <ptxgen/builder.h>
#include <ptxgen/records.h>

// The types that a tensor may have, in the order of norm_tensor_row.dtype.
#define NORM_DTYPES(X) X(F32) X(F64) X(F16) X(BF16)
enum { NORM_DTYPE_COUNT = 4 };

enum {
    NORM_BLOCK = 256, // threads of each kernel
    // Maximum number of pieces of a chunk: a warp looks up all of them at once, one per lane.
    NORM_PIECES = 32,
    NORM_PIECE_VECTORS = 4, // vectors of a piece that a thread reads at once
};

struct norm_tensor_row {
    uint64_t data;
    uint64_t count;
    double weight;
    uint32_t dtype;
    uint32_t unused;
};

struct norm_chunk_row {
    uint32_t tensor; // for a packed chunk: index of its first piece in `pieces`
    uint32_t index;  // index of the chunk in its tensor; for a packed chunk: number of its pieces
    uint32_t group;
    uint32_t team; // 0; for a packed chunk: log2 of the threads per piece
};

struct norm_group_row {
    uint32_t first; // index of the first chunk
    uint32_t count; // number of chunks
};

// The rule of the loss scale: struct ptx_loss_scale_params with defaults filled in.
struct norm_rule {
    float growth, backoff, min_scale, max_scale;
    int32_t interval, hysteresis;
};

// What guards a plan has, as bits, and their scalars: struct ptx_guard_params with defaults filled
// in.
enum {
    NORM_GUARD_ANY = 1 << 0, // the state at least
    NORM_GUARD_LIMIT = 1 << 1,
    NORM_GUARD_LIMITS_AT = 1 << 2,
    NORM_GUARD_SKIP_AT = 1 << 3,
    NORM_GUARD_HISTORY = 1 << 4,
    NORM_GUARD_LOSS = 1 << 5,
    NORM_GUARD_MOST_SKIPS = 1 << 6,
    NORM_GUARD_ONE_GROUP = 1 << 7,
    NORM_GUARD_ZCLIP = 1 << 8,
    NORM_GUARD_ADAGC = 1 << 9,
};
// The first words of a state: the guards that it belongs to.
struct norm_guard_belongs {
    uint32_t version, length, groups, kinds;
};
struct norm_guard_rule {
    double deviations;
    double alpha, z_most;
    double lambda_abs, lambda_rel, beta;
    struct norm_guard_belongs belongs;
    float limit;
    uint32_t length, most_skips, group; // of the history
    uint32_t warmup;
    uint32_t records; // where those of groups are in the state, in f64
};

// A tensor of a plan with reports: its chunks, and its place in the whole parameter, as struct
// ptx_step_whole has it, with a run of 1 and a stride of 1 where all elements are consecutive.
struct norm_report_row {
    uint64_t first, run, stride;
    uint32_t chunk, chunks;
};

// What is known of a chunk's gradient.
struct norm_chunk_report {
    double sum; // of squares, without the weight
    float largest;
    uint32_t zeros;
    uint32_t first; // index in the chunk of the first element that is not finite; UINT32_MAX: none
    uint32_t unused;
};

// Counters shared by the blocks of a launch; 0 before and after it.
struct norm_totals {
    uint32_t arrivals;   // number of groups whose record is written
    uint32_t found;      // nonzero if a group was not finite
    uint32_t of_last[2]; // two for NORM_LAST, which gives them their meaning
};

// The offset of a member in its row, and the size of a row, in elements of the row pointer.
#define NORM_PLACE(type, row, member) ((uint32_t)(offsetof(row, member) / sizeof(type)))
#define NORM_LENGTH(type, row)        ((uint32_t)(sizeof(row) / sizeof(type)))

// A tensor's type by its code in the row, and the code of a type; NORM_DTYPE_COUNT if the type is
// not allowed.
extern const ptx_type ptxk_norm_dtypes[NORM_DTYPE_COUNT];
unsigned ptxk_norm_dtype_code(ptx_type dtype);

// ---- kernels ------------------------------------------------------------------------------------

// What the text depends on. Sizes and numbers of tensors are not included, so plans share compiled
// kernels.
struct norm_spec {
    uint32_t dtypes; // PTX_TYPE_BIT() bits
    uint32_t chunk;
    ptx_nonfinite nonfinite;
    bool updates;    // updates the loss scale
    bool packs;      // some chunks are packed
    bool leaves_out; // some tensors are not counted
    // Inputs and results at the caller's addresses, and whether the loss scale has to be checked.
    bool adds_rows; // there are several rows of sums
    bool has_max_norms_at, has_found_inf_at, has_found_inf_to, checks_loss_scale;
    uint32_t guards;                  // NORM_GUARD_ bits
    bool reports;                     // writes a report a tensor
    bool folds_reports;               // in NORM_SQUARES, each tensor's last block, not NORM_REPORT
    const struct norm_entry *entries; // NORM_ENTRIES of them: the plan's kernels
    unsigned last_blocks;             // .minnctapersm of NORM_LAST
    unsigned last_threads;            // of a block of NORM_LAST; 0: NORM_BLOCK
    const void *own;                  // what else the plan's own kernels depend on
};

// Writes the body of a kernel.
typedef void norm_emit(ptx_builder *b, const struct norm_spec *spec);

struct norm_entry {
    const char *name; // of the kernel; NULL: the plan has no such kernel
    norm_emit *emit;
    unsigned min_blocks;                             // .minnctapersm; 0: norm_spec.last_blocks
    bool (*is_needed)(const struct norm_spec *spec); // NULL: always
    // Dynamic, for a target; NULL: none.
    uint32_t (*shared_bytes)(const struct norm_spec *spec, int sm);
    // Of a block, of which there are fewer if they are more; NULL: NORM_BLOCK.
    unsigned (*threads)(const struct norm_spec *spec);
    // What min_blocks is for a plan on such devices; NULL: the same for all.
    unsigned (*blocks)(const struct norm_spec *spec, int sm);
};

// The kernels of a plan in the order of the text: those of a run, then those that change what it
// reads.
enum {
    NORM_SQUARES, // a block for each chunk: its sum of squares
    NORM_SUMS,
    NORM_FINISH,
    NORM_REPORT,               // a block for each tensor: its report from those of its chunks,
                               // which may be of several launches
    NORM_OWN,                  // and the next nine: the plan's own
    NORM_LAST = NORM_OWN + 10, // the plan's own: what is done with the factors
    NORM_AFTER_LAST,           // and the next: the plan's own
    NORM_SET_MAX_NORM = NORM_AFTER_LAST + 2,
    NORM_SET_LOSS_SCALE,
    NORM_SET_DATA,
    NORM_SET_OWN, // and from there on: the plan's own
    NORM_ENTRIES = NORM_SET_OWN + 2
};

// The rows of a plan's table that all plans have. A plan adds NORM_SQUARES and NORM_SUMS, whose
// kernels may have blocks of its own (norm_parts.h), NORM_LAST, and setters.
#define NORM_COMMON_ENTRIES                                                                        \
    [NORM_FINISH] = { "clip_finish", ptxk_norm_finish_emit, 1 },                                   \
    [NORM_REPORT] = { "norm_report", ptxk_norm_report_emit, 4, ptxk_norm_reports },                \
    [NORM_SET_MAX_NORM] = { "clip_set_max_norm", ptxk_norm_set_max_norm_emit, 1 },                 \
    [NORM_SET_LOSS_SCALE] = { "clip_set_loss_scale", ptxk_norm_set_loss_scale_emit, 1 },           \
    [NORM_SET_DATA] = { "clip_set_data", ptxk_norm_set_data_emit, 1 }

enum { NORM_SET_DATA_BATCH = 512 }; // addresses per launch: 4 KiB of parameters

bool ptxk_norm_reports(const struct norm_spec *spec);
norm_emit ptxk_norm_report_emit;
norm_emit ptxk_norm_squares_emit, ptxk_norm_sums_emit, ptxk_norm_finish_emit,
    ptxk_norm_set_max_norm_emit, ptxk_norm_set_loss_scale_emit, ptxk_norm_set_data_emit;

// A kernel of the plan's table, if the plan has it; else NULL.
const struct norm_entry *ptxk_norm_entry(const struct norm_spec *spec, unsigned k);

// Writes the kernels of a plan.
void ptxk_norm_emit(ptx_builder *b, const struct norm_spec *spec);

#endif

// SPDX-License-Identifier: MIT
// The kernels of a clip plan, and the rows in device memory that the host writes and they read.
//
// A tensor is cut into chunks, of which each has a partial sum. A group's chunks follow each other,
// tensor after tensor. Where many tensors are small, tensors of half a chunk at most that follow
// each other in a group are the pieces of one packed chunk.
#ifndef PTXGEN_KERNELS_CLIP_H
#define PTXGEN_KERNELS_CLIP_H

#include <stddef.h>

#include <ptxgen/builder.h>
#include <ptxgen/records.h>

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

// Where a member is in its row, and how long a row is, in elements of the pointer to it.
#define CLIP_PLACE(type, row, member) ((uint32_t)(offsetof(row, member) / sizeof(type)))
#define CLIP_LENGTH(type, row)        ((uint32_t)(sizeof(row) / sizeof(type)))

// The code of a tensor's type in its row; CLIP_DTYPE_COUNT if it may not have that type.
unsigned ptxk_clip_dtype_code(ptx_type dtype);

// ---- kernels ------------------------------------------------------------------------------------

struct ptxk_step_spec; // step/apply.h

// What the text depends on. Neither sizes nor numbers of tensors are among it, so that plans share
// compiled kernels.
struct clip_spec {
    uint32_t dtypes; // PTX_TYPE_BIT() bits
    uint32_t chunk;
    ptx_nonfinite nonfinite;
    bool updates;                      // the loss scale
    bool packs;                        // some chunks are packed
    const struct ptxk_step_spec *step; // a step plan's: it steps in place of scaling
};

// X(name of the entry, .minnctapersm, plans that have it): the kernels, in the order of the text:
// those of a run, and those that change what it reads.
#define CLIP_RUN_KERNELS(X)                                                                        \
    X(clip_norm, 4, EVERY_PLAN)                                                                    \
    X(clip_sums, 1, EVERY_PLAN)                                                                    \
    X(clip_finish, 1, EVERY_PLAN)                                                                  \
    X(clip_apply, CLIP_APPLY_BLOCKS, CLIP_PLAN)                                                    \
    X(step_apply, ptxk_step_blocks(spec->step), STEP_PLAN)
#define CLIP_SET_KERNELS(X)                                                                        \
    X(clip_set_max_norm, 1, EVERY_PLAN)                                                            \
    X(clip_set_loss_scale, 1, EVERY_PLAN)                                                          \
    X(clip_set_data, 1, EVERY_PLAN)                                                                \
    X(step_set_hyper, 1, STEP_PLAN)                                                                \
    X(step_set_rows, 1, STEP_PLAN)
#define CLIP_KERNELS(X) CLIP_RUN_KERNELS(X) CLIP_SET_KERNELS(X)

enum clip_plan_kind { EVERY_PLAN, CLIP_PLAN, STEP_PLAN };
bool ptxk_clip_has(const struct clip_spec *spec, enum clip_plan_kind plans);

enum {
    CLIP_APPLY_BLOCKS = 3,   // on a multiprocessor, where blocks take tile after tile
    CLIP_SHORT_CHUNK = 8192, // a chunk up to which is one tile
    CLIP_TILE_WIDE = 4096,   // elements of a tile of a longer one
    CLIP_TILE_HALF = 8192,   // the same where all are of 16 bits
    CLIP_TILE_PACKED = 8192, // and where tensors share chunks: fewer parts, of which some are empty
    CLIP_FUSED = 2048,       // most tiles of several groups that take factors from the partials
    CLIP_SET_DATA_BATCH = 256, // addresses of a launch
    STEP_SCALARS = 8,          // f64, of a hyperparameter group
    STEP_ROW_WORDS = 10,       // u64, of a tensor's row
    STEP_SET_ROWS_BATCH = 32,  // rows of a launch
};

#define CLIP_DECLARE(name, ...)                                                                    \
    void ptxk_##name##_emit(ptx_builder *b, const struct clip_spec *spec);
CLIP_KERNELS(CLIP_DECLARE)
#undef CLIP_DECLARE

// Elements that a block scales at a time, and how many such tiles a whole chunk has: powers of two.
uint32_t ptxk_clip_tile(const struct clip_spec *spec);
uint32_t ptxk_clip_tiles_of_chunk(const struct clip_spec *spec);

// All of them.
void ptxk_clip_emit(ptx_builder *b, const struct clip_spec *spec);

#endif

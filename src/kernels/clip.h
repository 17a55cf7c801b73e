// SPDX-License-Identifier: MIT
// The kernels of a clip plan, and the rows in device memory that the host writes and the kernels
// read.
//
// A tensor is divided into chunks; each chunk has one partial sum. The chunks of a group are
// consecutive, tensor after tensor. If many tensors are small, consecutive tensors of a group with
// at most half a chunk of elements each become the pieces of one packed chunk.
#ifndef PTXGEN_KERNELS_CLIP_H
#define PTXGEN_KERNELS_CLIP_H

#include <stddef.h>

#include <ptxgen/builder.h>
#include <ptxgen/records.h>

// The types that a tensor may have, in the order of clip_tensor_row.dtype.
#define CLIP_DTYPES(X) X(F32) X(F64) X(F16) X(BF16)
enum { CLIP_DTYPE_COUNT = 4 };

enum {
    CLIP_BLOCK = 256, // threads of each kernel
    // Maximum number of pieces of a chunk: a warp looks up all of them at once, one per lane.
    CLIP_PIECES = 32,
    CLIP_PIECE_VECTORS = 4, // vectors of a piece that a thread reads at once
};

struct clip_tensor_row {
    uint64_t data;
    uint64_t count;
    double weight;
    uint32_t dtype;
    uint32_t unused;
};

struct clip_chunk_row {
    uint32_t tensor; // for a packed chunk: index of its first piece in `pieces`
    uint32_t index;  // index of the chunk in its tensor; for a packed chunk: number of its pieces
    uint32_t group;
    uint32_t team; // 0; for a packed chunk: log2 of the threads per piece
};

struct clip_group_row {
    uint32_t first; // index of the first chunk
    uint32_t count; // number of chunks
};

// The rule of the loss scale: struct ptx_loss_scale_params with defaults filled in.
struct clip_rule {
    float growth, backoff, min_scale, max_scale;
    int32_t interval, hysteresis;
};

// Counters shared by the blocks of a launch; 0 before and after it.
struct clip_totals {
    uint32_t arrivals; // number of groups whose record is written
    uint32_t found;    // nonzero if a group was not finite
    uint32_t
        ticket; // number of tiles drawn by blocks, that is, all except the first two of each block
    uint32_t through; // number of blocks that will draw no more
};

// The offset of a member in its row, and the size of a row, in elements of the row pointer.
#define CLIP_PLACE(type, row, member) ((uint32_t)(offsetof(row, member) / sizeof(type)))
#define CLIP_LENGTH(type, row)        ((uint32_t)(sizeof(row) / sizeof(type)))

// The code of a tensor's type in its row; CLIP_DTYPE_COUNT if the type is not allowed.
unsigned ptxk_clip_dtype_code(ptx_type dtype);

// ---- kernels ------------------------------------------------------------------------------------

struct ptxk_step_spec; // step_apply.h

// What the text depends on. Sizes and numbers of tensors are not included, so plans share compiled
// kernels.
struct clip_spec {
    uint32_t dtypes; // PTX_TYPE_BIT() bits
    uint32_t chunk;
    ptx_nonfinite nonfinite;
    bool updates; // updates the loss scale
    bool packs;   // some chunks are packed
    // Inputs and results at the caller's addresses, and whether the loss scale has to be checked.
    bool adds_rows; // ptx_clip_params.sum_rows is above 1
    bool has_max_norms_at, has_found_inf_at, has_found_inf_to, checks_loss_scale;
    const struct ptxk_step_spec *step; // for a step plan, which steps instead of scaling
};

// X(name of the entry, .minnctapersm, plans that have it): the kernels in the order of the text:
// first those of a run, then those that change what it reads.
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
    CLIP_APPLY_BLOCKS = 3,   // per SM, if blocks take several tiles
    CLIP_SHORT_CHUNK = 8192, // longest chunk that is one tile
    CLIP_TILE_WIDE = 4096,   // elements of a tile of a longer chunk
    CLIP_TILE_HALF = 8192,   // the same if all types have 16 bits
    CLIP_TILE_PACKED = 8192, // the same with packed chunks: fewer parts, some of which are empty
    CLIP_FUSED = 2048, // maximum number of tiles at which blocks compute the factors of several
                       // groups from partials
    CLIP_SET_DATA_BATCH = 256, // addresses per launch
};

#define CLIP_DECLARE(name, ...)                                                                    \
    void ptxk_##name##_emit(ptx_builder *b, const struct clip_spec *spec);
CLIP_KERNELS(CLIP_DECLARE)
#undef CLIP_DECLARE

// The elements of a tile, which a block scales at a time, and the tiles of a whole chunk: powers of
// two.
uint32_t ptxk_clip_tile(const struct clip_spec *spec);
uint32_t ptxk_clip_tiles_of_chunk(const struct clip_spec *spec);

// Writes the kernels of a plan.
void ptxk_clip_emit(ptx_builder *b, const struct clip_spec *spec);

#endif

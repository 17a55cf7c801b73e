// SPDX-License-Identifier: MIT
#include "step_copies.h"

#include "driver/error.h"
#include "kernels/common/parts.h"
#include "step_table.h"

enum { TILE_ELEMENTS = PTXK_STEP_CODES_TILE * PTXK_STEP_CODES_TILE };

// ---- counts -------------------------------------------------------------------------------------

static bool is_transposed(const struct ptx_step_tensor *tensor)
{
    return tensor->fp8_transposed && tensor->count && !tensor->fp8_blocks;
}

static bool is_in_blocks(const struct ptx_step_tensor *tensor)
{
    return tensor->fp8_blocks && tensor->count;
}

uint64_t ptxp_copies_tiles(const struct ptx_step_tensor *tensor)
{
    const uint64_t tile = PTXK_STEP_CODES_TILE, columns = tensor->fp8_columns;

    return parts_of(tensor->count / columns, tile) * parts_of(columns, tile);
}

static uint64_t transpose_tiles_of(const struct ptx_step_tensor *tensor)
{
    return is_transposed(tensor) ? ptxp_copies_tiles(tensor) : 0;
}

static uint64_t block_tiles_of(const struct ptx_step_tensor *tensor)
{
    return is_in_blocks(tensor) ? ptxp_copies_tiles(tensor) : 0;
}

uint64_t ptxp_copies_scales(const struct ptx_step_tensor *tensor, bool transposed)
{
    const uint64_t tile = PTXK_STEP_CODES_TILE;

    if (!is_in_blocks(tensor))
        return 0;
    const uint64_t columns = tensor->fp8_columns, rows = tensor->count / columns;
    if (tensor->fp8_blocks == PTX_FP8_BLOCKS_128X128)
        return block_tiles_of(tensor);
    return transposed ? columns * parts_of(rows, tile) : rows * parts_of(columns, tile);
}

// Whether a tensor is stepped in tiles of 128 x 128 in a plan that has such ones.
static bool is_square(const struct ptx_step_params *params, enum copy_squares squares, size_t t)
{
    enum { EACH = 4, LINE = 32, MOST_COLUMNS = 1 << 20 }; // places in a tile have 31 bits
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
    const bool turns = squares == COPY_SQUARES_TURNED;

    return (turns ? is_transposed(tensor) : is_in_blocks(tensor)) && ptxk_step_lanes(&v) == EACH &&
           tensor->dtype == PTX_F32 && tensor->ema_dtype == PTX_NONE &&
           tensor->format == PTX_STEP_FORMAT_FULL &&
           tensor->fp8_columns % (turns ? LINE : EACH) == 0 &&
           tensor->fp8_columns <= MOST_COLUMNS && !v.rule->sums;
}

bool ptxp_copies_is_square(const struct ptx_step_params *params, const struct step_layout *layout,
                           size_t t)
{
    return layout->squares != COPY_SQUARES_NONE && is_square(params, layout->squares, t);
}

// Whether transposed codes are made faster so than by a launch of their own, on an H200: there are
// tiles for half of the multiprocessors, most of whose elements are there.
static bool turns(const struct ptx_step_params *params)
{
    enum { LEAST_TILES = 64 };
    uint64_t tiles = 0, elements = 0;

    for (size_t t = 0; t < params->tensor_count; t++)
        if (is_square(params, COPY_SQUARES_TURNED, t)) {
            tiles += ptxp_copies_tiles(&params->tensors[t]);
            elements += params->tensors[t].count;
        }
    return tiles >= LEAST_TILES && elements / 7 >= tiles * (TILE_ELEMENTS / 8);
}

// Not those of both kinds.
enum copy_squares ptxp_copies_may_be_square(const struct ptx_step_params *params, int sm)
{
    bool may = params->gradients == PTX_STEP_GRADIENTS_RAW && !params->weight_reports_at &&
               !params->qk_clip_count && (!sm || sm >= 80); // those have the shared memory
    bool amax = false, in_blocks = false;

    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_group *group = &params->groups[params->tensors[t].group];
        may = may && !ptxp_step_rule_of(group)->of_matrices && group->agc.clipping == 0;
        amax |= params->tensors[t].amax != 0;
        in_blocks |= is_in_blocks(&params->tensors[t]);
    }
    if (!may || (in_blocks && amax))
        return COPY_SQUARES_NONE;
    if (in_blocks)
        return COPY_SQUARES_IN_BLOCKS;
    return turns(params) ? COPY_SQUARES_TURNED : COPY_SQUARES_NONE;
}

uint64_t ptxp_copies_bytes(const struct ptx_step_tensor *tensor, bool is_square)
{
    uint64_t each = tensor->fp8 ? 1 : 0, scales = 0;

    if (is_transposed(tensor))
        each += is_square ? 1 : 2;
    if (is_in_blocks(tensor)) {
        each += (is_square ? 0 : ptx_type_bytes(tensor->dtype)) + (tensor->fp8_transposed ? 1 : 0);
        scales = ptxp_copies_scales(tensor, false) +
                 (tensor->fp8_transposed ? ptxp_copies_scales(tensor, true) : 0);
    }
    return tensor->count * each + scales * sizeof(float);
}

ptx_status ptxp_copies_count(const struct ptx_step_params *params, const struct step_layout *layout,
                             struct copy_counts *counts)
{
    uint64_t elements = 0; // of squares

    *counts = (struct copy_counts) { 0 };
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        const bool is_square = ptxp_copies_is_square(params, layout, t);
        if (is_square || is_in_blocks(tensor)) {
            counts->in_blocks++;
            counts->block_tiles += ptxp_copies_tiles(tensor);
        } else {
            counts->transposed += is_transposed(tensor);
            counts->transpose_tiles += transpose_tiles_of(tensor);
        }
        if (is_square) {
            counts->square_tiles += ptxp_copies_tiles(tensor);
            elements += tensor->count;
        }
        if (is_in_blocks(tensor))
            counts->kinds |= UINT32_C(1) << ptxk_step_fp8_kind(tensor->dtype, tensor->fp8_blocks,
                                                               tensor->fp8_format);
    }
    counts->squares_whole = elements / (TILE_ELEMENTS / 2) >= counts->square_tiles;
    if (counts->block_tiles > INT32_MAX || counts->transpose_tiles > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the matrices with fp8_blocks or an fp8_transposed have more than 2^31 "
                         "tiles of %d x %d codes: make several plans",
                         PTXK_STEP_CODES_TILE, PTXK_STEP_CODES_TILE);
    return PTX_OK;
}

// ---- rows ---------------------------------------------------------------------------------------

// The tiles of the last matrices are made first: their codes are what the step has written last.
static void fill_transposes(const struct ptx_step_params *params, const struct step_layout *layout,
                            struct step_transpose_row *rows, struct step_transpose_tile_row *tiles)
{
    uint32_t matrix = 0;
    size_t n = 0;

    for (size_t t = params->tensor_count; t-- > 0;) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (!is_transposed(tensor) || ptxp_copies_is_square(params, layout, t))
            continue;
        rows[matrix] = (struct step_transpose_row) { tensor->fp8, tensor->fp8_transposed,
                                                     tensor->count / tensor->fp8_columns,
                                                     tensor->fp8_columns };
        for (uint64_t k = transpose_tiles_of(tensor); k-- > 0;)
            tiles[n++] = (struct step_transpose_tile_row) { matrix, (uint32_t)k };
        matrix++;
    }
}

// The tiles of the last matrices are made first: their weights are what the step has written last;
// of squares, which come behind the others, the gradients are what the norm has read last.
static void fill_fp8_blocks(const struct ptx_step_params *params, const struct step_layout *layout,
                            struct step_fp8_row *rows, struct step_fp8_tile_row *tiles)
{
    uint32_t matrix = 0;
    size_t n = 0;

    for (size_t k = 2 * params->tensor_count; k-- > 0;) {
        const size_t t = k % params->tensor_count;
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        const bool is_square = ptxp_copies_is_square(params, layout, t);
        if ((!is_square && !is_in_blocks(tensor)) || is_square != (k < params->tensor_count))
            continue;
        rows[matrix] = (struct step_fp8_row) {
            .codes = tensor->fp8,
            .scales = tensor->fp8_scale_inv,
            .transposed = tensor->fp8_transposed,
            .transposed_scales = tensor->fp8_transposed_scale_inv,
            .rows = tensor->count / tensor->fp8_columns,
            .columns = tensor->fp8_columns,
            .tensor = (uint32_t)t,
            .kind = ptxk_step_fp8_kind(tensor->dtype, tensor->fp8_blocks, tensor->fp8_format),
            .scaling = (uint64_t)tensor->fp8_scaling,
        };
        for (uint64_t tile = ptxp_copies_tiles(tensor); tile-- > 0;)
            tiles[n++] = (struct step_fp8_tile_row) { matrix, (uint32_t)tile };
        matrix++;
    }
}

void ptxp_copies_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      unsigned char *image)
{
    fill_transposes(params, layout, (void *)(image + layout->matrices.offset),
                    (void *)(image + layout->transpose_tiles.offset));
    fill_fp8_blocks(params, layout, (void *)(image + layout->fp8_matrices.offset),
                    (void *)(image + layout->fp8_tiles.offset));
}

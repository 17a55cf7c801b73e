// SPDX-License-Identifier: MIT
#include "step_copies.h"

#include "driver/error.h"
#include "kernels/common/parts.h"
#include "step_table.h"

// ---- counts -------------------------------------------------------------------------------------

static bool is_transposed(const struct ptx_step_tensor *tensor)
{
    return tensor->fp8_transposed && tensor->count && !tensor->fp8_blocks;
}

static bool is_in_blocks(const struct ptx_step_tensor *tensor)
{
    return tensor->fp8_blocks && tensor->count;
}

// The tiles of a matrix.
static uint64_t tiles_of(const struct ptx_step_tensor *tensor)
{
    const uint64_t tile = PTXK_STEP_CODES_TILE, columns = tensor->fp8_columns;

    return parts_of(tensor->count / columns, tile) * parts_of(columns, tile);
}

static uint64_t transpose_tiles_of(const struct ptx_step_tensor *tensor)
{
    return is_transposed(tensor) ? tiles_of(tensor) : 0;
}

static uint64_t block_tiles_of(const struct ptx_step_tensor *tensor)
{
    return is_in_blocks(tensor) ? tiles_of(tensor) : 0;
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

bool ptxp_copies_may_be_square(const struct ptx_step_params *params, int sm)
{
    bool may = params->gradients == PTX_STEP_GRADIENTS_RAW && !params->weight_reports_at &&
               !params->qk_clip_count && (!sm || sm >= 80); // those have the shared memory

    for (uint32_t g = 0; g < params->group_count && may; g++)
        may = !ptxp_step_rule_of(&params->groups[g])->of_matrices &&
              params->groups[g].agc.clipping == 0;
    for (size_t t = 0; t < params->tensor_count && may; t++)
        may = !params->tensors[t].amax;
    return may;
}

bool ptxp_copies_is_square(const struct ptx_step_params *params, const struct step_layout *layout,
                           size_t t)
{
    enum { EACH = 4, MOST_COLUMNS = 1 << 20 }; // of a vector; places in a tile have 31 bits
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);

    return layout->may_be_square && is_in_blocks(tensor) && ptxk_step_lanes(&v) == EACH &&
           tensor->dtype == PTX_F32 && tensor->ema_dtype == PTX_NONE &&
           tensor->format == PTX_STEP_FORMAT_FULL && tensor->fp8_columns % EACH == 0 &&
           tensor->fp8_columns <= MOST_COLUMNS &&
           !ptxp_step_rule_of(&params->groups[tensor->group])->sums;
}

uint64_t ptxp_copies_bytes(const struct ptx_step_tensor *tensor, bool is_square)
{
    uint64_t each = (tensor->fp8 ? 1u : 0u) + (is_transposed(tensor) ? 2u : 0u), scales = 0;

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
    const uint64_t half = PTXK_STEP_CODES_TILE * PTXK_STEP_CODES_TILE / 2;
    uint64_t elements = 0; // of squares

    *counts = (struct copy_counts) { 0 };
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        counts->transposed += is_transposed(tensor);
        counts->transpose_tiles += transpose_tiles_of(tensor);
        counts->in_blocks += is_in_blocks(tensor);
        counts->block_tiles += block_tiles_of(tensor);
        if (ptxp_copies_is_square(params, layout, t)) {
            counts->square_tiles += block_tiles_of(tensor);
            elements += tensor->count;
        }
        if (is_in_blocks(tensor))
            counts->kinds |= UINT32_C(1) << ptxk_step_fp8_kind(tensor->dtype, tensor->fp8_blocks,
                                                               tensor->fp8_format);
    }
    counts->squares_whole = elements / half >= counts->square_tiles;
    if (counts->block_tiles > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the matrices with fp8_blocks have more than 2^31 tiles of %d x %d codes: "
                         "make several plans",
                         PTXK_STEP_CODES_TILE, PTXK_STEP_CODES_TILE);
    if (counts->transpose_tiles > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the matrices with an fp8_transposed have more than 2^31 tiles of %d x %d "
                         "codes: make several plans",
                         PTXK_STEP_CODES_TILE, PTXK_STEP_CODES_TILE);
    return PTX_OK;
}

// ---- rows ---------------------------------------------------------------------------------------

// The tiles of the last matrices are made first: their codes are what the step has written last.
static void fill_transposes(const struct ptx_step_params *params, struct step_transpose_row *rows,
                            struct step_transpose_tile_row *tiles)
{
    uint32_t matrix = 0;
    size_t n = 0;

    for (size_t t = params->tensor_count; t-- > 0;) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (!is_transposed(tensor))
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
        if (!is_in_blocks(tensor) ||
            ptxp_copies_is_square(params, layout, t) != (k < params->tensor_count))
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
        for (uint64_t tile = block_tiles_of(tensor); tile-- > 0;)
            tiles[n++] = (struct step_fp8_tile_row) { matrix, (uint32_t)tile };
        matrix++;
    }
}

void ptxp_copies_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      unsigned char *image)
{
    fill_transposes(params, (void *)(image + layout->matrices.offset),
                    (void *)(image + layout->transpose_tiles.offset));
    fill_fp8_blocks(params, layout, (void *)(image + layout->fp8_matrices.offset),
                    (void *)(image + layout->fp8_tiles.offset));
}

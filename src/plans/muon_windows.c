// SPDX-License-Identifier: MIT
// Windows: where memory is limited, the matrices of a step plan are stepped some after the others,
// and each window has the memory that the one before has left.
#include <inttypes.h>
#include <stdlib.h>

#include "driver/error.h"
#include "muon_program.h"

static size_t tensor_of(const struct ptx_step_params *params, size_t matrix)
{
    size_t t = 0;

    while (!ptxp_is_matrix(params, t) || matrix--)
        t++;
    return t;
}

// Matrix by matrix as long as they fit; each begins anew at the start of the memory.
static ptx_status choose(const struct ptx_step_params *params, struct matrix_set *set)
{
    const uint64_t most = params->matrix_memory ? params->matrix_memory : UINT64_MAX;
    uint64_t begin = 0, largest = 0;

    for (size_t k = 0; k < set->count; k++) {
        const uint64_t end = k + 1 < set->count ? set->matrices[k + 1].x : set->bytes;
        if (end - set->matrices[k].x > most)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: its products need %" PRIu64
                             " bytes, and matrix_memory is %" PRIu64 ": give that much",
                             tensor_of(params, k), end - set->matrices[k].x, most);
        if (!k || end - begin > most) {
            begin = set->matrices[k].x;
            set->windows[set->window_count++].first = k;
        }
        set->windows[set->window_count - 1].count++;
        set->matrices[k].x -= begin;
        set->matrices[k].out -= begin;
        largest = end - begin > largest ? end - begin : largest;
    }
    set->bytes = largest;
    return PTX_OK;
}

ptx_status ptxp_matrix_windows(const struct ptx_step_params *params, enum matrix_chips chips,
                               struct matrix_set *set)
{
    ptx_status status;

    for (size_t t = 0; t < params->tensor_count && params->matrix_memory; t++)
        if (params->tensors[t].whole_rows)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: it has whole_rows, and matrix_memory is given: the "
                             "matrices of such a plan are stepped at once: make it 0",
                             t);
    set->windows = calloc(set->count, sizeof *set->windows);
    if (!set->windows)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    status = choose(params, set);
    if (status)
        return status;
    // Tiles are in the order of the tensors. Those of the step are also of tensors without
    // elements.
    uint64_t tiles = 0, of_step = 0;
    size_t matrix = 0, next = 0;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (!ptxp_step_rule_of(&params->groups[tensor->group])->of_matrices)
            continue;
        const uint64_t own = tensor->count ? ptxp_matrix_step_tiles(params, chips, t)
                                           : params->weight_reports_at != 0;
        if (tensor->count && next < set->window_count && matrix++ == set->windows[next].first) {
            set->windows[next].tile = tiles;
            set->windows[next++].step_tile = of_step;
        }
        tiles += tensor->count ? ptxp_matrix_tiles(params, chips, t) : 0;
        of_step += own;
    }
    return PTX_OK;
}

struct matrix_part ptxp_matrix_part(const struct step_layout *layout, size_t window)
{
    const struct matrix_set *set = &layout->set;
    const struct matrix_window *w = &set->windows[window];
    const bool first = window == 0, last = window + 1 >= set->window_count;
    const uint64_t tile = first ? 0 : w->tile, step_tile = first ? 0 : w->step_tile;

    return (struct matrix_part) {
        .tile = tile,
        .tiles = (last ? layout->matrix_tiles.length : w[1].tile) - tile,
        .step_tile = layout->others + step_tile,
        .step_tiles = (last ? layout->tiles.length - layout->others : w[1].step_tile) - step_tile,
    };
}

size_t ptxp_matrix_parts(const struct step_layout *layout)
{
    return layout->set.window_count ? layout->set.window_count : 1;
}

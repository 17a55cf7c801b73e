// SPDX-License-Identifier: MIT
#include "step_units.h"

#include <inttypes.h>
#include <math.h>

#include "driver/error.h"
#include "kernels/common/parts.h"
#include "step_table.h"

enum {
    FEW_LOG2 = 3, // of sums, for one thread
    WARP_LOG2 = 5,
    BLOCK_LOG2 = 8,
};
_Static_assert(1 << FEW_LOG2 == STEP_UNIT_AT_ONCE, "read at once");
_Static_assert(1 << BLOCK_LOG2 == NORM_BLOCK, "threads");

bool ptxp_units_are_clipped(const struct ptx_step_params *params)
{
    for (uint32_t g = 0; g < params->group_count; g++)
        if (params->groups[g].agc.clipping != 0)
            return true;
    return false;
}

static bool is_clipped(const struct ptx_step_params *params, const struct ptx_step_tensor *tensor)
{
    return params->groups[tensor->group].agc.clipping != 0;
}

// ---- checks -------------------------------------------------------------------------------------

ptx_status ptxp_units_check_group(uint32_t g, const struct ptx_step_group *group)
{
    const struct ptx_step_agc *agc = &group->agc;

    if (!(agc->clipping >= 0 && isfinite(agc->clipping)))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": agc.clipping is %.15g; it must be finite and above 0 "
                         "(0: units are not clipped)",
                         g, agc->clipping);
    if (!(agc->eps >= 0 && isfinite(agc->eps)))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": agc.eps is %.15g; it must be finite and above 0 (0: "
                         "1e-3)",
                         g, agc->eps);
    if (agc->eps != 0 && agc->clipping == 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": agc.eps is %.15g, and agc.clipping is 0, which means "
                         "no such clipping: give a clipping",
                         g, agc->eps);
    if (agc->clipping != 0 && ptxp_step_rule_of(group)->of_matrices)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": agc is given, and its rule, %s, makes an update of "
                         "the same length of any gradient: leave agc out",
                         g, ptxp_step_rule_of(group)->name);
    return PTX_OK;
}

static ptx_status check_tensor(size_t t, const struct ptx_step_tensor *tensor)
{
    const struct ptx_step_whole *w = &tensor->whole;
    const uint64_t columns = tensor->columns;

    if (columns && tensor->count % columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: columns is %" PRIu64 ", and the tensor has %" PRIu64
                         " elements, which is no multiple: for agc give the elements of a row, all "
                         "dimensions but the "
                         "first, or 0 for a tensor of one dimension",
                         t, columns, tensor->count);
    if (!columns && (w->first || w->run))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: columns is 0, so that agc clips it as a whole, and `whole` "
                         "says that it is a shard: agc needs whole units on one rank",
                         t);
    if (columns && (w->first % columns || w->run % columns || (w->run && w->stride % columns)))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: `whole` cuts its rows of %" PRIu64 " elements, and agc "
                         "needs whole units on one rank: make first, run and stride multiples of "
                         "columns",
                         t, columns);
    return PTX_OK;
}

ptx_status ptxp_units_check(const struct ptx_step_params *params)
{
    ptx_status status = PTX_OK;

    if (!ptxp_units_are_clipped(params))
        return PTX_OK;
    for (size_t t = 0; t < params->tensor_count && !status; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (ptxp_step_rule_of(&params->groups[tensor->group])->of_matrices)
            status = ptxd_fail(PTX_ERROR_INVALID,
                               "tensor %zu: its rule is one of matrices, and another group has "
                               "agc: make a plan for each of the two",
                               t);
        else if (is_clipped(params, tensor))
            status = check_tensor(t, tensor);
    }
    return status;
}

// ---- rows ---------------------------------------------------------------------------------------

// The threads of a part, log2: each has at most the share of it that it has of a whole part.
static uint32_t team_of(uint64_t columns)
{
    uint32_t team = 0;

    while (team < WARP_LOG2 && (uint64_t)(STEP_UNIT_PART >> (WARP_LOG2 - team)) < columns)
        team++;
    return team;
}

// The elements of a sum of weights, log2: one that lies in a unit and is a warp's vectors, or those
// of some of its lanes. A row that is alone has those that it has among others, of which it may be
// a shard; 0 columns: a vector, which nothing cuts.
static uint32_t run_of(uint64_t columns, uint32_t lanes)
{
    uint32_t run = 0;

    while ((UINT32_C(1) << run) < 32 * lanes && columns % (UINT64_C(2) << run) == 0)
        run++;
    return (UINT32_C(1) << run) < lanes ? STEP_UNIT_READ : run;
}

// A tensor's row; `counts` has those before, to which it is added.
static struct step_unit_row row_of(const struct ptx_step_params *params, size_t t,
                                   struct unit_counts *counts)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptx_step_group *group = &params->groups[tensor->group];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, group);
    const bool clips = is_clipped(params, tensor);
    const uint64_t columns = clips && tensor->columns ? tensor->columns : tensor->count;
    const uint32_t lanes = ptxk_step_lanes(&v);
    struct step_unit_row row = { .columns = columns,
                                 .first_sum = counts->sums,
                                 .first_weight = counts->weights,
                                 .clipping = group->agc.clipping,
                                 .eps = group->agc.eps != 0 ? group->agc.eps : 1e-3,
                                 .first_unit = (uint32_t)counts->units,
                                 .run = STEP_UNIT_READ,
                                 .norm_group = tensor->norm_group,
                                 .kind = ptxk_unit_kind(&v),
                                 .magic = 1 };

    if (!tensor->count)
        return row;
    row.units = tensor->count / columns;
    row.magic = ptxk_unit_magic(columns);
    row.even = row.units == 1 || columns % lanes == 0;
    if (clips) {
        row.parts = (uint32_t)parts_of(columns, STEP_UNIT_PART);
        row.team = team_of(columns);
        row.run = run_of(tensor->columns, lanes);
        row.weights =
            row.run == STEP_UNIT_READ ? 0 : (uint32_t)parts_of(columns, UINT64_C(1) << row.run);
        if (row.parts > STEP_UNIT_AT_ONCE || row.weights > STEP_UNIT_AT_ONCE ||
            row.run == STEP_UNIT_READ)
            row.sums_team = WARP_LOG2;
    }
    counts->clips |= clips;
    counts->reads |= clips && row.run == STEP_UNIT_READ;
    counts->units += row.units;
    counts->blocks += parts_of(row.units, NORM_BLOCK >> row.sums_team);
    counts->sums += row.units * row.parts;
    counts->weights += row.units * row.weights;
    return row;
}

ptx_status ptxp_units_count(const struct ptx_step_params *params, struct unit_counts *counts)
{
    *counts = (struct unit_counts) { 0 };
    if (!ptxp_units_are_clipped(params))
        return PTX_OK;
    for (size_t t = 0; t < params->tensor_count; t++) {
        row_of(params, t, counts);
        if (counts->units > INT32_MAX || counts->sums > INT32_MAX || counts->blocks > INT32_MAX)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: with it the plan has more than 2^31 units, which agc "
                             "clips: make several plans",
                             t);
    }
    if (!counts->clips)
        *counts = (struct unit_counts) { 0 };
    return PTX_OK;
}

void ptxp_units_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                     unsigned char *image)
{
    struct step_unit_row *rows = (void *)(image + layout->unit_rows.offset);
    struct step_tile_row *blocks = (void *)(image + layout->unit_blocks.offset);
    struct step_unit_tile *to = (void *)(image + layout->unit_tiles.offset);
    const struct step_tile_row *tiles = (const void *)(image + layout->tiles.offset);
    struct unit_counts counts = { 0 };
    uint64_t block = 0;

    if (!layout->units.clips)
        return;
    for (size_t t = 0; t < params->tensor_count; t++) {
        rows[t] = row_of(params, t, &counts);
        for (uint32_t k = 0; block < counts.blocks; k++)
            blocks[block++] = (struct step_tile_row) { (uint32_t)t, k };
    }
    for (uint64_t k = 0; k < layout->tiles.length; k++) {
        const uint32_t t = tiles[k].tensor;
        if (t >= params->tensor_count || !rows[t].units)
            continue;
        const uint64_t first = (uint64_t)tiles[k].index * layout->tile;
        const uint64_t columns = rows[t].columns, left = columns - first % columns;
        to[k] = (struct step_unit_tile) { rows[t].first_unit + (uint32_t)(first / columns),
                                          left < STEP_UNIT_FAR ? (uint32_t)left : STEP_UNIT_FAR };
    }
}

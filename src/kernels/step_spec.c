// SPDX-License-Identifier: MIT
// What a spec of the step kernel asks of its launch: tiles, blocks, arguments.
#include "step/random.h"
#include "step_apply.h"

unsigned ptxk_step_lanes(const struct ptxk_step_variant *v)
{
    for (unsigned k = 0; k < ARRAYS; k++)
        if (ptxk_step_array_type(v, k) != PTX_NONE &&
            ptx_type_bytes(ptxk_step_array_type(v, k)) < 4)
            return 8;
    return 4;
}

// How many vectors a thread steps, at most, and how many blocks are wanted on a multiprocessor, and
// wanted where a thread steps one vector or two: the fastest on an H200. What a thread does once
// weighs most where an element has the fewest bytes; in short tiles most of that is waiting.
static const struct {
    unsigned vectors, blocks, blocks_if_short;
} tuning[PTX_STEP_FORMAT_COUNT] = {
    [PTX_STEP_FORMAT_FULL] = { 1, 7, 7 },       [PTX_STEP_FORMAT_STATE_BF16] = { 1, 6, 6 },
    [PTX_STEP_FORMAT_MASTER] = { 1, 3, 3 },     [PTX_STEP_FORMAT_REMAINDER] = { 1, 4, 4 },
    [PTX_STEP_FORMAT_STOCHASTIC] = { 4, 3, 4 }, [PTX_STEP_FORMAT_STATE_8BIT] = { 8, 3, 3 },
};

static unsigned blocks_of(const struct ptxk_step_variant *v, uint32_t tile)
{
    const bool is_short = tile <= 2 * CLIP_BLOCK * ptxk_step_lanes(v);

    return is_short ? tuning[v->format].blocks_if_short : tuning[v->format].blocks;
}

unsigned ptxk_step_blocks(const struct ptxk_step_spec *spec)
{
    unsigned blocks = blocks_of(&spec->variants[0], spec->tile);

    for (unsigned k = 1; k < spec->variant_count; k++) {
        const unsigned own = blocks_of(&spec->variants[k], spec->tile);
        blocks = own < blocks ? own : blocks;
    }
    return blocks;
}

// Several vectors a thread only if that leaves tiles enough for every SM, the more the longer a
// tile takes.
static uint32_t tile_of(const struct ptxk_step_variant *v, uint64_t elements)
{
    enum { TILES = 256 };
    const uint32_t span = CLIP_BLOCK * ptxk_step_lanes(v);
    uint32_t vectors = tuning[v->format].vectors;

    while (vectors > 1 && elements / (span * vectors) < TILES * vectors)
        vectors /= 2;
    return span * vectors;
}

uint32_t ptxk_step_tile(const struct ptxk_step_spec *spec, uint64_t elements)
{
    uint32_t tile = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const uint32_t own = tile_of(&spec->variants[k], elements);
        tile = own > tile ? own : tile;
    }
    return tile;
}

uint32_t ptxk_step_rules(const struct ptxk_step_spec *spec)
{
    uint32_t rules = 0;

    for (unsigned k = 0; k < spec->variant_count; k++)
        rules |= UINT32_C(1) << spec->variants[k].rule;
    return rules;
}

bool ptxk_step_draws(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (ptxk_step_streams(&spec->variants[k]))
            return true;
    return false;
}

bool ptxk_step_has_codes(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (ptxk_step_variant_has_codes(&spec->variants[k]))
            return true;
    return false;
}

// SPDX-License-Identifier: MIT
#include "common/channels.h"
#include "common/common.h"
#include "kernel_code.h"

// A team of a power of two of threads has a channel. It has about one thread for each
// SUMS_PER_THREAD sums, so a block has at least one channel, and a block for each BLOCK sums is
// enough.
enum { BLOCK = 1024, SUMS_PER_THREAD = 8 };
enum { OPTION_GRADIENTS };
enum { GRADIENTS_BOTH, GRADIENTS_SCALE };

enum { MOST_GRADIENTS = 2 };

struct reduction {
    unsigned gradients;
    ptx_ptr sums[MOST_GRADIENTS];
    ptx_val pieces, channels, width; // u64
    ptx_val each;                    // sums of a channel, u64
    ptx_val team;                    // threads of a channel, u32
    ptx_val slice;                   // the thread's place in its team, u32
    ptx_val channel;                 // u64; `local` counts it from the block's first, u32
    ptx_val local;
    ptx_val within; // whether there is such a channel
};

// The thread's channel and slice. Where a channel's sums are apart, adjacent threads have adjacent
// channels. The slice alone decides which sums a thread adds, and in which order.
static void place_thread(ptx_builder *b, struct reduction *r)
{
    ptx_comment(b, "the sums of a channel, and the threads that share it");
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);

    r->each = ptxk_quotient_by(b, r->pieces, r->channels, ptxk_inverse_of(b, r->channels));
    r->team = ptxk_team_for(b, r->each, SUMS_PER_THREAD, BLOCK);
    ptx_comment(b, "the thread's channel, and its place in the team");
    ptx_val side = ptx_div(b, BLOCK, r->team); // channels of a block
    ptx_val apart = ptx_eq(b, r->width, 1);
    ptx_val across = ptx_select(b, apart, side, r->team);
    ptx_val high = ptx_div(b, tid, across);
    ptx_val low = ptx_sub(b, tid, ptx_mul(b, high, across));
    r->slice = ptx_select(b, apart, high, low);
    r->local = ptx_select(b, apart, low, high);
    r->channel = ptx_mad_wide(b, block, side, ptx_cvt(b, PTX_U64, r->local));
    r->within = ptx_lt(b, r->channel, r->channels);
}

// The places of a thread's next SUMS_PER_THREAD sums: variables.
struct places {
    ptx_val at[SUMS_PER_THREAD], inside[SUMS_PER_THREAD];
};

// The places from sum `k` of the channel on. Sum k of a channel is sums[k / width, channel, k %
// width].
static struct places find_places(ptx_builder *b, const struct reduction *r, ptx_val k)
{
    struct places found;
    ptx_val inverse = ptxk_inverse_of(b, r->width);
    ptx_val step = ptx_cvt(b, PTX_U64, r->team);

    for (unsigned j = 0; j < SUMS_PER_THREAD; j++) {
        ptxk_comment_lanes(b, "where the thread's next sums are", j, 2, SUMS_PER_THREAD);
        ptx_val inside = ptx_lt(b, k, r->each);
        ptx_val outer = ptxk_quotient_by(b, k, r->width, inverse);
        ptx_val rest = ptx_sub(b, k, ptx_mul(b, outer, r->width));
        ptx_val row = ptx_mad(b, outer, r->channels, r->channel);
        ptx_val place = ptx_mad(b, row, r->width, rest);
        found.at[j] = ptx_var(b, ptx_select(b, inside, place, 0));
        found.inside[j] = ptx_var(b, inside);
        if (j + 1 < SUMS_PER_THREAD)
            k = ptx_add(b, k, step);
    }
    return found;
}

// The sums of a thread, in ascending order, for each of the gradients. The first ones are found
// before they may be read.
static void sum_of_thread(ptx_builder *b, const struct reduction *r, const ptx_val *totals)
{
    ptx_val loaded[MOST_GRADIENTS][SUMS_PER_THREAD];
    ptx_val end = ptx_select(b, r->within, r->each, 0);
    ptx_val stride = ptx_mul_wide(b, r->team, SUMS_PER_THREAD);
    ptx_val k = ptx_var(b, ptx_cvt(b, PTX_U64, r->slice));
    struct places places = find_places(b, r, k);

    if (ptx_builder_target(b).sm >= 90) {
        ptx_comment(b, "the sums may still be computed");
        ptx_griddepcontrol_wait(b);
    }
    ptx_while (b, ptx_lt(b, k, end)) {
        ptx_comment(b, "all are read before the first is added");
        for (unsigned g = 0; g < r->gradients; g++)
            for (unsigned j = 0; j < SUMS_PER_THREAD; j++)
                loaded[g][j] = ptx_load(b, r->sums[g], places.at[j]);
        for (unsigned g = 0; g < r->gradients; g++)
            for (unsigned j = 0; j < SUMS_PER_THREAD; j++) {
                if (!j)
                    ptx_comment(b, "added in ascending order");
                ptx_val term = ptx_select(b, places.inside[j], loaded[g][j], 0);
                ptx_set(b, totals[g], ptx_add(b, totals[g], term));
            }
        ptx_set(b, k, ptx_add(b, k, stride));
        ptx_if (b, ptx_lt(b, k, end)) {
            struct places next = find_places(b, r, k);
            ptx_comment(b, "they are the next ones");
            for (unsigned j = 0; j < SUMS_PER_THREAD; j++) {
                ptx_set(b, places.at[j], next.at[j]);
                ptx_set(b, places.inside[j], next.inside[j]);
            }
        }
    }
}

// v[slice] += v[slice + d] for d = team / 2 ... 1, over the team.
static void sum_of_team(ptx_builder *b, const struct reduction *r, const ptx_val *totals)
{
    ptx_ptr shared = ptx_shared(b, PTX_F64, MOST_GRADIENTS * BLOCK);
    ptx_comment(b, "sum over the team, in a tree");
    ptx_val mine = ptx_mad(b, r->local, r->team, r->slice);

    for (unsigned g = 0; g < r->gradients; g++)
        ptx_store(b, ptx_at(b, shared, mine), g * BLOCK, totals[g]);
    for (uint32_t d = BLOCK / 2; d > 0; d /= 2) {
        if (d & 0x155)
            ptx_comment(b, "slices %u apart, and less", d);
        ptx_if (b, ptx_gt(b, r->team, d)) { // all threads or none
            ptx_barrier(b);
            ptx_if (b, ptx_lt(b, r->slice, d)) {
                for (unsigned g = 0; g < r->gradients; g++) {
                    ptx_val other = ptx_load(b, ptx_at(b, shared, mine), g * BLOCK + d);
                    ptx_set(b, totals[g], ptx_add(b, totals[g], other));
                    ptx_store(b, ptx_at(b, shared, mine), g * BLOCK, totals[g]);
                }
            }
        }
    }
}

static ptx_ptr sums_param(ptx_builder *b, const char *name, const char *meaning)
{
    return ptx_param_ptr(b, PTX_F64, name, .meaning = meaning, .length = "pieces",
                         .readonly = true);
}

static ptx_ptr gradient_param(ptx_builder *b, ptx_type type, const char *name, const char *meaning)
{
    return ptx_param_ptr(b, type, name, .meaning = meaning, .length = "channels",
                         .writeonly = true);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const bool both = spec->option[OPTION_GRADIENTS] == GRADIENTS_BOTH;
    struct reduction r = { .gradients = both ? 2 : 1 };
    ptx_ptr to[MOST_GRADIENTS];
    ptx_val totals[MOST_GRADIENTS];

    r.sums[0] = sums_param(b, "scale_sums", "sums of the scale's gradient");
    if (both)
        r.sums[1] = sums_param(b, "zero_sums", "sums of the zero point's gradient");
    r.pieces = ptx_param(b, PTX_U64, "pieces", .meaning = "sums of all channels");
    r.channels = ptx_param(b, PTX_U64, "channels", .preset = "1", .low = "1",
                           .meaning = "channels; pieces is a multiple of it");
    r.width = ptx_param(b, PTX_U64, "width", .preset = "1", .low = "1",
                        .meaning = "adjacent sums of one channel");
    ptx_val factor = ptx_param(b, PTX_F64, "grad_factor", .preset = "1",
                               .meaning = "the gradients are multiplied by it");
    to[0] = gradient_param(b, spec->dtype, "d_scale", "gradient of the scale");
    if (both)
        to[1] = gradient_param(b, spec->dtype, "d_zero_point", "gradient of the zero point");

    place_thread(b, &r);
    for (unsigned g = 0; g < r.gradients; g++)
        totals[g] = ptx_var(b, ptx_f64(0));
    sum_of_thread(b, &r, totals);
    sum_of_team(b, &r, totals);
    ptx_val is_first = ptx_eq(b, r.slice, 0);
    ptx_if (b, ptx_and(b, is_first, r.within)) {
        ptx_comment(b, "the gradients");
        for (unsigned g = 0; g < r.gradients; g++) {
            ptx_val gradient = ptx_cvt(b, spec->dtype, ptx_mul(b, totals[g], factor));
            ptx_store(b, to[g], r.channel, ptxk_one_nan(b, gradient));
        }
    }
}

const ptx_kernel ptx_kernel_quantize_learned_reduce = {
    .name = "quantize_learned_reduce",
    .summary = "sums of quantize_learned_backward folded into the gradients of each channel",
    .formula = "d_scale[c] = grad_factor * sum of scale_sums[k / width, c, k % width] over k; "
               "d_zero_point alike",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64),
    .options = { [OPTION_GRADIENTS] = { "gradients",
                                        { "both", "scale" },
                                        "of the scale and the zero point, or of the scale" } },
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; the tree depends on the numbers of sums and channels alone",
    .chunk = BLOCK,
    .code = &(const struct ptx_kernel_code) { .build = build },
};

// SPDX-License-Identifier: MIT
#include "common/groups.h"
#include "common/learned.h"
#include "kernel_code.h"

enum { BLOCK = 256, CHUNK = 4096 };
enum { MOST_VECTORS = CHUNK / (BLOCK * 4) }; // of a thread, in f32: read before it computes

enum { OPTION_GROUP = LEARNED_OPTIONS };

struct group_work {
    const struct ptx_kernel_spec *spec;
    struct group_tensors of;
    unsigned team;    // threads that share a group
    uint32_t part;    // adjacent elements of a warp: its part
    unsigned vectors; // of a thread, of each tensor
    unsigned sums;    // of a group
    ptx_ptr scale, zero_point, gradient[MAX_SUMS];
    struct levels levels;
    ptx_val factor; // f64
    ptx_val lane;   // u32
    ptx_val first;  // u64: the index of the first of its elements
};

// ---- quantizers ---------------------------------------------------------------------------------

// The values of the lane's own group: a warp has at most as many groups as lanes, and those beyond
// them begin again.
struct own_values {
    ptx_val scale, zero_point;
};

static struct own_values read_own(ptx_builder *b, const struct group_work *w)
{
    const ptx_type type = (ptx_type)w->zero_point.type;
    struct own_values own = { ptx_var(b, ptx_f32(1)), ptx_var(b, ptx_zero(type)) };
    ptx_val place = ptx_and(b, w->lane, w->part / w->of.group - 1);
    ptx_val begin = ptx_mad_wide(b, place, w->of.group, w->first);

    ptx_if (b, ptx_lt(b, begin, w->of.end)) {
        ptx_val group = ptxk_over_power_of_two(b, begin, w->of.group);
        ptx_set(b, own.scale, ptx_load(b, w->scale, group, .nc = true));
        ptx_set(b, own.zero_point, ptx_load(b, w->zero_point, group, .nc = true));
    }
    return own;
}

// ---- sums ---------------------------------------------------------------------------------------

// Of the sums that a lane has, which are two halves: one half is kept and the other given away, for
// what the lane `apart` from it has of the kept one. Each lane of a team so has half of the sums,
// each of twice as many lanes: the same tree as that of ptxk_team_sum().
static void halve_sums(ptx_builder *b, const struct group_work *w, ptx_val *sums, unsigned half,
                       uint32_t apart)
{
    ptx_val upper = ptx_ne(b, ptx_and(b, w->lane, apart), 0);

    for (unsigned k = 0; k < half; k++) {
        ptx_val given = ptx_select(b, upper, sums[k], sums[half + k]);
        ptx_val kept = ptx_select(b, upper, sums[half + k], sums[k]);
        sums[k] = ptx_add(b, kept, ptx_shfl_bfly(b, given, apart));
    }
}

// The sums over the team of each of the thread's vectors, [vector][sum]. They are left in the lanes
// of the team, `*left` in each: those from sum `*first` (u32) on. Lanes that are less than `*same`
// apart have the same.
static ptx_val spread_sums(ptx_builder *b, const struct group_work *w, ptx_val *sums,
                           unsigned *left, unsigned *same)
{
    ptx_val first = ptx_u32(0);

    *left = w->vectors * w->sums;
    *same = w->team;
    while (*same > 1 && *left > 1) {
        *same /= 2;
        *left /= 2;
        ptx_comment(b, "sums over lanes %u apart; %u of them are left", *same, *left);
        halve_sums(b, w, sums, *left, *same);
        ptx_val bit = ptx_and(b, w->lane, *same);
        ptx_val more = ptx_select(b, ptx_ne(b, bit, 0), ptx_u32(*left), 0);
        first = first.kind == PTX_KIND_IMMEDIATE ? more : ptx_add(b, first, more);
    }
    if (*same > 1)
        ptx_comment(b, "and over the lanes that have the same");
    sums[0] = ptxk_lanes_combine_all(b, ptx_add, sums[0], *same);
    return first;
}

// Each lane writes the gradients of the sums that it has.
static void write_gradients(ptx_builder *b, const struct group_work *w, ptx_val *sums)
{
    unsigned left, same;
    ptx_val first = spread_sums(b, w, sums, &left, &same);
    ptx_comment(b, "the lanes write the gradients of their vectors' groups");
    ptx_val vector = ptx_shr(b, first, w->sums - 1); // 2 sums at most
    ptx_val place = ptx_sub(b, w->lane, ptx_and(b, w->lane, w->team - 1));
    ptx_val apart = ptx_mad(b, vector, WARP, place);
    ptx_val i = ptx_mad_wide(b, apart, w->of.lanes, w->first);
    ptx_val begins = ptx_eq(b, ptx_and(b, w->lane, same - 1), 0);

    ptx_if (b, ptx_and(b, begins, ptx_lt(b, i, w->of.end))) {
        ptx_val group = ptxk_over_power_of_two(b, i, w->of.group);
        for (unsigned k = 0; k < left; k++) {
            ptx_val gradient = ptx_cvt(b, PTX_F32, ptx_mul(b, sums[k], w->factor));
            gradient = ptxk_one_nan(b, gradient);
            if (left == w->sums) {
                ptx_store(b, w->gradient[k], group, gradient);
                continue;
            }
            ptx_val second = ptx_ne(b, ptx_and(b, first, 1), 0);
            ptx_if (b, second)
                ptx_store(b, w->gradient[SUM_ZERO_POINT], group, gradient);
            ptx_else (b)
                ptx_store(b, w->gradient[SUM_SCALE], group, gradient);
        }
    }
}

// Computes a vector; what it adds to the sums of its group becomes `sums`.
static void pass_vector(ptx_builder *b, const struct group_work *w, const struct group_vector *v,
                        const struct quantizer *q, ptx_val *sums)
{
    ptx_vec in[MAX_INPUTS];

    for (unsigned s = 0; s < w->sums; s++)
        sums[s] = ptx_var(b, ptx_f64(0));
    const struct quantizers same = ptxk_quantizers_same(q, sums);
    for (unsigned t = 0; t < w->of.inputs; t++)
        in[t] = ptxk_lanes_vec(b, &v->x[t]);
    ptx_vec d_input = ptxk_learned_terms(b, w->spec, &same, in);
    ptx_if (b, v->in)
        ptxk_groups_write(b, &w->of, v->i, d_input);
}

// ---- the kernel ---------------------------------------------------------------------------------

static void find_vectors(ptx_builder *b, const struct group_work *w, struct group_vector *vectors)
{
    const unsigned lanes = w->of.lanes;
    ptx_val mine = ptx_mad_wide(b, w->lane, lanes, w->first);

    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "vector %u; 0 where there is none", v);
        vectors[v].i = v ? ptx_add(b, mine, v * WARP * lanes) : mine;
        vectors[v].in = ptx_lt(b, vectors[v].i, w->of.end);
        for (unsigned t = 0; t < w->of.inputs; t++)
            vectors[v].x[t] = ptxk_lanes_var(b, w->spec->dtype, lanes);
    }
}

static void pass(ptx_builder *b, const struct group_work *w)
{
    struct group_vector vectors[MOST_VECTORS];
    ptx_val sums[MOST_VECTORS * MAX_SUMS];

    ptx_comment(b, "the quantizer of the lane's own group, and the vectors of the thread");
    struct own_values values = read_own(b, w);
    find_vectors(b, w, vectors);
    ptxk_groups_read(b, &w->of, vectors, w->vectors);
    struct quantizer own = ptxk_learned_of(b, w->spec, values.scale, values.zero_point, w->levels);
    ptx_val place = ptxk_over_power_of_two(b, w->lane, w->team);
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "vector %u", v);
        ptx_val from = v ? ptx_add(b, place, v * WARP / w->team) : place;
        struct quantizer q = ptxk_learned_of_lane(b, w->spec, &own, from);
        pass_vector(b, w, &vectors[v], &q, &sums[v * w->sums]);
    }
    write_gradients(b, w, sums);
}

static void take_params(ptx_builder *b, struct group_work *w)
{
    const struct ptx_kernel_spec *spec = w->spec;
    const bool learns = ptxk_learns_zero_point(spec);

    ptxk_backward_params(b, spec->dtype, w->of.in, &w->of.out);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements, a multiple of the group");
    w->scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "step of each group's quantizer",
                             .length = "groups", .computed_length = true, .readonly = true,
                             .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    w->zero_point = ptx_param_ptr(b, learns ? PTX_F32 : PTX_S32, "zero_point",
                                  .meaning = learns ? "what 0 is quantized to; rounded and clamped"
                                                    : "what 0 is quantized to",
                                  .length = "groups", .computed_length = true, .readonly = true);
    w->levels = ptxk_any_levels(b);
    w->factor = ptx_param(b, PTX_F64, "grad_factor", .preset = "1",
                          .meaning = "the sums are multiplied by it");
    w->gradient[SUM_SCALE] =
        ptx_param_ptr(b, PTX_F32, "d_scale", .meaning = "gradient of each scale",
                      .length = "groups", .computed_length = true, .writeonly = true);
    if (learns)
        w->gradient[SUM_ZERO_POINT] =
            ptx_param_ptr(b, PTX_F32, "d_zero_point", .meaning = "gradient of each zero point",
                          .length = "groups", .computed_length = true, .writeonly = true);
    w->of.end = ptx_and(b, n, ~(uint64_t)(w->of.group - 1));
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct group_work w = { .spec = spec,
                            .of = { .inputs = 2,
                                    .group = ptxk_group_of(spec, OPTION_GROUP),
                                    .lanes = ptxk_vector_lanes(spec->dtype) },
                            .sums = ptxk_learned_sums(spec) };

    w.vectors = CHUNK / (BLOCK * w.of.lanes);
    w.part = w.vectors * WARP * w.of.lanes;
    w.team = w.of.group / w.of.lanes;
    take_params(b, &w);
    w.of.aligned = ptxk_groups_aligned(b, &w.of);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val warp = ptx_shr(b, tid, 5);
    w.lane = ptx_and(b, tid, WARP - 1);
    ptx_val within = ptx_cvt(b, PTX_U64, ptx_mul(b, warp, w.part));
    w.first = ptx_mad_wide(b, block, CHUNK, within);
    pass(b, &w);
}

static bool length(const struct ptx_kernel_spec *spec, const struct ptx_kernel_sizes *sizes,
                   const char *name, uint64_t *count)
{
    return ptxk_group_count(ptxk_group_of(spec, OPTION_GROUP), sizes, name, count);
}

const ptx_kernel ptx_kernel_quantize_learned_groups = {
    .name = "quantize_learned_groups",
    .summary = "gradients of a fake quantizer's input, scales and zero points, a group of elements "
               "each",
    .formula = "d_input = in range ? d_output : 0; d_scale = grad_factor * sum of d_output * (in "
               "range ? q - z - x / scale : q - z); d_zero_point = grad_factor * sum of -scale * "
               "d_output out of range",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { LEARNED_OPTION_ROWS, [OPTION_GROUP] = GROUP_OPTION_ROW },
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; bit-stable at any alignment; NaN x gives +0 and counts as the "
                  "least level",
    .chunk = CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build, .length = length },
};

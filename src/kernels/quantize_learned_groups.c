// SPDX-License-Identifier: MIT
#include "common/groups.h"
#include "common/learned.h"
#include "kernel_code.h"

enum { BLOCK = 128, CHUNK = 4096 };
enum { VECTORS = 4 }; // of each tensor that a thread loads before it computes

enum { OPTION_GROUP = LEARNED_OPTIONS };

struct group_work {
    const struct ptx_kernel_spec *spec;
    bool learns; // the zero point
    uint32_t group;
    unsigned lanes; // of a vector
    unsigned team;  // threads that share a group
    uint32_t part;  // adjacent elements that a warp has at a time
    ptx_ptr x, d_output, d_input, scale, zero_point, d_scale, d_zero_point;
    struct levels levels;
    ptx_val factor;  // f64
    ptx_val aligned; // whether the tensors begin at 16-byte boundaries
    ptx_val lane;    // u32
    ptx_val first;   // u64: the index of the first of them
    ptx_val end;     // u64: the end of the last whole group
};

// A vector of a thread.
struct part {
    ptx_val i;  // u64: the index of its first element
    ptx_val in; // whether it is in the tensors
    ptx_vec x, d_output;
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
    ptx_val place = ptx_and(b, w->lane, ptx_u32(w->part / w->group - 1));
    ptx_val begin = ptx_mad_wide(b, place, ptx_u32(w->group), w->first);

    ptx_if (b, ptx_lt(b, begin, w->end)) {
        ptx_val group = ptxk_over_power_of_two(b, begin, w->group);
        ptx_set(b, own.scale, ptx_load(b, w->scale, group, .nc = true));
        ptx_set(b, own.zero_point, ptx_load(b, w->zero_point, group, .nc = true));
    }
    return own;
}

// ---- memory -------------------------------------------------------------------------------------

static void find_parts(ptx_builder *b, const struct group_work *w, struct part *parts)
{
    const ptx_type dtype = w->spec->dtype;
    ptx_val mine = ptx_mad_wide(b, w->lane, ptx_u32(w->lanes), w->first);

    for (unsigned v = 0; v < VECTORS; v++) {
        parts[v].i = v ? ptx_add(b, mine, ptx_u64(v * WARP * w->lanes)) : mine;
        parts[v].in = ptx_lt(b, parts[v].i, w->end);
        parts[v].x = ptxk_words_var(b, dtype);
        parts[v].d_output = ptxk_words_var(b, dtype);
    }
}

static void read_parts(ptx_builder *b, const struct group_work *w, const struct part *parts)
{
    ptx_if (b, w->aligned) {
        for (unsigned v = 0; v < VECTORS; v++)
            ptx_if (b, parts[v].in) {
                ptxk_words_read(b, parts[v].x, w->x, parts[v].i);
                ptxk_words_read(b, parts[v].d_output, w->d_output, parts[v].i);
            }
    }
    ptx_else (b) {
        for (unsigned v = 0; v < VECTORS; v++)
            ptx_if (b, parts[v].in) {
                ptxk_words_read_each(b, parts[v].x, w->x, parts[v].i);
                ptxk_words_read_each(b, parts[v].d_output, w->d_output, parts[v].i);
            }
    }
}

static void write_part(ptx_builder *b, const struct group_work *w, const struct part *p,
                       ptx_vec d_input)
{
    ptx_if (b, p->in) {
        ptx_if (b, w->aligned)
            ptx_store_vec(b, w->d_input, p->i, d_input);
        ptx_else (b) {
            for (unsigned k = 0; k < d_input.lanes; k++)
                ptx_store(b, ptx_at(b, w->d_input, p->i), ptx_u32(k), d_input.lane[k]);
        }
    }
}

// ---- sums ---------------------------------------------------------------------------------------

static void write_gradient(ptx_builder *b, const struct group_work *w, ptx_ptr to, ptx_val group,
                           ptx_val sum)
{
    ptx_val gradient = ptx_cvt(b, PTX_F32, ptx_mul(b, sum, w->factor));

    ptx_store(b, to, group, ptxk_one_nan(b, gradient));
}

// The thread with a group's first element writes its gradients.
static void write_sums(ptx_builder *b, const struct group_work *w, const struct part *p,
                       struct learned_sums sums)
{
    ptx_val place = ptx_and(b, w->lane, ptx_u32(w->team - 1));
    ptx_val begins = ptx_eq(b, place, ptx_u32(0));

    sums.scale = ptxk_team_sum(b, sums.scale, w->team);
    if (w->learns)
        sums.zero_point = ptxk_team_sum(b, sums.zero_point, w->team);
    ptx_if (b, ptx_and(b, begins, p->in)) {
        ptx_val group = ptxk_over_power_of_two(b, p->i, w->group);
        write_gradient(b, w, w->d_scale, group, sums.scale);
        if (w->learns)
            write_gradient(b, w, w->d_zero_point, group, sums.zero_point);
    }
}

static void pass_part(ptx_builder *b, const struct group_work *w, const struct part *p,
                      const struct learned *q)
{
    const ptx_type dtype = w->spec->dtype;
    struct learned_sums sums = ptxk_learned_sums_var(b, w->spec);
    struct learned_lanes same = { { NULL }, { NULL } };

    for (unsigned k = 0; k < w->lanes; k++) {
        same.of[k] = q;
        same.sums[k] = &sums;
    }
    ptx_vec x = ptxk_words_lanes(b, p->x, dtype);
    ptx_vec d_output = ptxk_words_lanes(b, p->d_output, dtype);
    write_part(b, w, p, ptxk_learned_terms(b, w->spec, &same, x, d_output));
    write_sums(b, w, p, sums);
}

// ---- the kernel ---------------------------------------------------------------------------------

static void pass(ptx_builder *b, const struct group_work *w)
{
    struct part parts[VECTORS];

    ptx_comment(b, "the quantizer of the lane's own group, and the vectors of the thread");
    struct own_values values = read_own(b, w);
    find_parts(b, w, parts);
    read_parts(b, w, parts);
    struct learned own = ptxk_learned_of(b, w->spec, values.scale, values.zero_point, w->levels);
    ptx_val place = ptxk_over_power_of_two(b, w->lane, w->team);
    for (unsigned v = 0; v < VECTORS; v++) {
        ptx_comment(b, "vector %u", v);
        ptx_val from = v ? ptx_add(b, place, ptx_u32(v * WARP / w->team)) : place;
        struct learned q = ptxk_learned_of_lane(b, w->spec, &own, from);
        pass_part(b, w, &parts[v], &q);
    }
}

static void take_params(ptx_builder *b, struct group_work *w)
{
    const struct ptx_kernel_spec *spec = w->spec;

    w->x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "what was quantized", .length = "n",
                         .readonly = true);
    w->d_output = ptx_param_ptr(b, spec->dtype, "d_output", .meaning = "gradient of the output",
                                .length = "n", .readonly = true);
    w->d_input =
        ptx_param_ptr(b, spec->dtype, "d_input", .meaning = "gradient of x; may be d_output",
                      .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements, a multiple of the group");
    w->scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "step of each group's quantizer",
                             .length = "groups", .readonly = true,
                             .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    w->zero_point =
        ptx_param_ptr(b, w->learns ? PTX_F32 : PTX_S32, "zero_point",
                      .meaning = w->learns ? "what 0 is quantized to; rounded and clamped"
                                           : "what 0 is quantized to",
                      .length = "groups", .readonly = true);
    w->levels = ptxk_any_levels(b);
    w->factor = ptx_param(b, PTX_F64, "grad_factor", .preset = "1",
                          .meaning = "the sums are multiplied by it");
    w->d_scale = ptx_param_ptr(b, PTX_F32, "d_scale", .meaning = "gradient of each scale",
                               .length = "groups", .writeonly = true);
    if (w->learns)
        w->d_zero_point =
            ptx_param_ptr(b, PTX_F32, "d_zero_point", .meaning = "gradient of each zero point",
                          .length = "groups", .writeonly = true);
    w->end = ptx_and(b, n, ptx_u64(~(uint64_t)(w->group - 1)));
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct group_work w = { .spec = spec,
                            .learns = ptxk_learns_zero_point(spec),
                            .group = ptxk_group_of(spec, OPTION_GROUP),
                            .lanes = ptxk_vector_lanes(spec->dtype) };

    w.part = VECTORS * WARP * w.lanes;
    w.team = w.group / w.lanes;
    take_params(b, &w);
    ptx_val addresses = ptx_ptr_address(b, w.d_output);
    addresses = ptx_or(b, ptx_ptr_address(b, w.x), addresses);
    addresses = ptx_or(b, addresses, ptx_ptr_address(b, w.d_input));
    w.aligned = ptx_eq(b, ptx_and(b, addresses, ptx_u64(VECTOR_BYTES - 1)), ptx_u64(0));
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val warp = ptx_shr(b, tid, ptx_u32(5));
    w.lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val within = ptx_cvt(b, PTX_U64, ptx_mul(b, warp, ptx_u32(w.part)));
    w.first = ptx_mad_wide(b, block, ptx_u32(CHUNK), within);
    const uint32_t together = w.part * (BLOCK / WARP);
    if (together == CHUNK) {
        pass(b, &w);
        return;
    }
    ptx_val first = w.first;
    ptx_for (b, k, ptx_u32(0), ptx_u32(CHUNK), ptx_u32(together)) {
        w.first = ptx_add(b, first, ptx_cvt(b, PTX_U64, k));
        pass(b, &w);
    }
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
    .code = &(const struct ptx_kernel_code) { .build = build, .chunk = CHUNK, .length = length },
};

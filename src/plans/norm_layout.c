// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "kernels/common/parts.h"
#include "kernels/common/vector.h"
#include "loss_scale.h"
#include "norm_plan.h"

enum { FEW_CHUNKS = 512 };

// Chunk lengths depend only on the number of elements, because sums must have the same bits on
// every GPU. Few elements get short chunks, to keep every SM busy. More elements get longer chunks,
// because each chunk costs a lookup, and every block of the next launch reads its partial.
static uint32_t chunk_for(uint64_t elements)
{
    static const struct {
        uint32_t chunk;
        uint64_t most; // maximum number of chunks
    } sizes[] = { { 2048, 300 },     { 4096, 300 },     { 8192, 2048 },
                  { 16384, 8192 },   { 32768, 8192 },   { 65536, 16384 },
                  { 131072, 16384 }, { 262144, 16384 }, { 524288, 16384 } };

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        if (elements / sizes[k].chunk <= sizes[k].most)
            return sizes[k].chunk;
    return 1 << 20;
}

static void count_elements(const struct norm_params *params, struct norm_layout *layout)
{
    layout->group_count = params->group_count ? params->group_count : 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_clip_tensor *tensor = &params->tensors[t];
        layout->element_count += tensor->count;
        layout->gradient_bytes += tensor->count * ptx_type_bytes(tensor->dtype);
        layout->spec.leaves_out |= tensor->uncounted;
        if (tensor->count)
            layout->spec.dtypes |= UINT32_C(1) << tensor->dtype;
        else
            layout->empty_chunks += layout->spec.folds_reports;
        if (!params->group_count && tensor->group >= layout->group_count)
            layout->group_count = tensor->group + 1;
    }
    if (!layout->spec.dtypes)
        layout->spec.dtypes = PTX_TYPE_BIT(F32);
    layout->sum_rows = params->sum_rows ? params->sum_rows : 1;
    layout->spec.chunk = chunk_for(layout->element_count);
    layout->tensor_count = (uint32_t)params->tensor_count + 1;
}

// A group without elements has one chunk, which belongs to the empty tensor.
static uint64_t at_least_one(uint64_t chunks)
{
    return chunks ? chunks : 1;
}

static void place(struct norm_layout *layout, bool has_state, bool has_turns)
{
    layout->tensors.length = layout->tensor_count;
    layout->chunks.length = layout->partials.length = layout->chunk_count + layout->empty_chunks;
    layout->groups.length = layout->group_count;
    layout->sums.length = (uint64_t)layout->sum_rows * layout->group_count;
    layout->records.length = (uint64_t)layout->group_count + 1; // includes the summary
    layout->rule.length = layout->totals.length = 1;
    layout->guard_rule.length = layout->guard_bytes != 0;
    if (layout->spec.reports) {
        layout->report_rows.length = layout->tensor_count;
        layout->chunk_reports.length = layout->chunks.length;
    }
    if (layout->spec.folds_reports)
        layout->report_arrivals.length = layout->tensor_count;
    layout->chunk_turns.length = has_turns ? layout->chunks.length : 0;
    layout->guard_own.length = has_state ? 0 : layout->guard_bytes;
#define NORM_ALLOT(member, type)                                                                   \
    layout->member.offset = layout->bytes;                                                         \
    layout->bytes +=                                                                               \
        parts_of(layout->member.length * sizeof(type), PLAN_ALIGNMENT) * PLAN_ALIGNMENT;
    NORM_ARRAYS(NORM_ALLOT)
#undef NORM_ALLOT
    _Static_assert(sizeof(struct ptx_clip_record) == sizeof(struct ptx_clip_summary),
                   "the summary is in the records' array");
}

// ---- packed chunks ------------------------------------------------------------------------------

// Decides which small tensors share a chunk, and how its threads share them.

// The packed chunk at the end of the group's chunks so far.
struct norm_pack {
    uint64_t elements;
    uint32_t pieces;
};

enum { LEAST_TEAM = 5 }; // log2: one warp, which processes one piece, of one type, at a time

// Adds a tensor of at most half a chunk. If the chunk is full: returns false and begins the next
// one.
static bool pack_add(struct norm_pack *pack, uint64_t count, uint32_t chunk)
{
    if (pack->pieces && pack->pieces < NORM_PIECES && pack->elements + count <= chunk) {
        pack->pieces++;
        pack->elements += count;
        return true;
    }
    *pack = (struct norm_pack) { count, 1 };
    return false;
}

// The number of reads of the busiest team: a thread reads several vectors of one piece at once.
static uint64_t turns(const struct ptx_clip_tensor *tensors, const uint32_t *pieces, uint32_t count,
                      uint32_t team)
{
    const uint32_t teams = NORM_BLOCK >> team;
    uint64_t most = 0;

    for (uint32_t t = 0; t < teams; t++) {
        uint64_t turns = 0;
        for (uint32_t k = t; k < count; k += teams) {
            const struct ptx_clip_tensor *piece = &tensors[pieces[k]];
            const uint64_t bytes = piece->count * ptx_type_bytes(piece->dtype);
            turns += (bytes - 1) / ((uint64_t)VECTOR_BYTES * NORM_PIECE_VECTORS << team) + 1;
        }
        most = turns > most ? turns : most;
    }
    return most;
}

// The log2 of the threads per piece. Among equally good sizes the smallest, because more pieces are
// then in flight at a time.
static uint32_t pack_team(const struct ptx_clip_tensor *tensors, const uint32_t *pieces,
                          uint32_t count)
{
    uint32_t best = LEAST_TEAM;
    uint64_t least = turns(tensors, pieces, count, best);

    for (uint32_t team = LEAST_TEAM + 1; NORM_BLOCK >> team; team++) {
        const uint64_t others = turns(tensors, pieces, count, team);
        if (others < least) {
            best = team;
            least = others;
        }
    }
    return best;
}

// With reports a warp has a piece alone, so a chunk must have one for each.
static bool is_small(const struct ptx_clip_tensor *tensor, const struct norm_spec *spec)
{
    const uint32_t least = spec->reports ? NORM_BLOCK >> LEAST_TEAM : 2;

    return tensor->count && tensor->count <= spec->chunk / least;
}

// A group's chunks, with and without packing.
struct tally {
    uint64_t chunks, with_packed;
    struct norm_pack pack;
};

static uint64_t add_to_tally(struct tally *tally, const struct ptx_clip_tensor *tensor,
                             const struct norm_spec *spec)
{
    const uint64_t chunks = parts_of(tensor->count, spec->chunk);
    const bool small = is_small(tensor, spec);

    tally->chunks += chunks;
    if (small) {
        tally->with_packed += !pack_add(&tally->pack, tensor->count, spec->chunk);
    } else if (chunks) {
        tally->with_packed += chunks;
        tally->pack.pieces = 0;
    }
    return small;
}

// Packs if that at least halves the number of chunks, unless there are so few chunks that all their
// blocks are resident on a large GPU at the same time: then it is faster without packing.
static bool count_chunks(const struct norm_params *params, struct norm_layout *layout)
{
    struct tally *tallies = calloc(layout->group_count, sizeof *tallies);
    uint64_t small = 0, with_packed = 0;

    if (!tallies)
        return false;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_clip_tensor *tensor = &params->tensors[t];
        small += add_to_tally(&tallies[tensor->group], tensor, &layout->spec);
    }
    for (uint32_t g = 0; g < layout->group_count; g++) {
        layout->chunk_count += at_least_one(tallies[g].chunks);
        with_packed += at_least_one(tallies[g].with_packed);
    }
    free(tallies);
    layout->spec.packs = params->may_pack && layout->spec.reports == layout->spec.folds_reports &&
                         layout->chunk_count > FEW_CHUNKS && with_packed <= layout->chunk_count / 2;
    if (layout->spec.packs) {
        layout->chunk_count = with_packed;
        layout->pieces.length = small;
    }
    return true;
}

ptx_status ptxp_norm_layout_create(const struct norm_hooks *hooks, const struct norm_params *params,
                                   struct norm_layout *layout)
{
    struct ptx_loss_scale_params rule = { 0 };
    ptx_status status = ptxp_norm_check_params(params);

    if (!status && params->update)
        status = ptxp_loss_scale_check("update.", params->update, &rule);
    if (status)
        return status;
    *layout = (struct norm_layout) {
        .spec = { .nonfinite = params->nonfinite,
                  .updates = params->update != NULL,
                  .adds_rows = params->sum_rows > 1,
                  .reports = params->reports_at != 0,
                  .folds_reports = params->reports_at && hooks->folds_reports,
                  .has_max_norms_at = params->max_norms_at != 0,
                  .has_found_inf_at = params->found_inf_at != 0,
                  .has_found_inf_to = params->found_inf_to != 0,
                  .checks_loss_scale =
                      params->update || params->loss_scale_state || params->loss_scale_at,
                  .entries = hooks->entries,
                  .last_blocks = params->last_blocks,
                  .last_threads = params->last_threads,
                  .own = params->own },
        .scale_rule = { rule.growth, rule.backoff, rule.min_scale, rule.max_scale, rule.interval,
                        rule.hysteresis },
    };
    count_elements(params, layout);
    if (params->guards)
        status = ptxp_norm_guards_lay_out(params->guards, layout->group_count, layout);
    if (status)
        return status;
    if (!count_chunks(params, layout))
        return ptxp_norm_out_of_host_memory(hooks);
    place(layout, params->guards && params->guards->state, params->has_turns);
    return PTX_OK;
}

// ---- the image ----------------------------------------------------------------------------------

// The tensors sorted by group, stable: order[first[g]] is the first tensor of group g.
struct grouping {
    size_t *first;
    uint32_t *order;
};

static bool group_tensors(const struct norm_params *params, uint32_t groups,
                          struct grouping *grouping)
{
    grouping->first = calloc((size_t)groups + 1, sizeof *grouping->first);
    grouping->order = calloc(params->tensor_count + 1, sizeof *grouping->order);
    size_t *next = calloc((size_t)groups + 1, sizeof *next);
    const bool ok = grouping->first && grouping->order && next;
    if (ok) {
        for (size_t t = 0; t < params->tensor_count; t++)
            grouping->first[params->tensors[t].group + 1]++;
        for (uint32_t g = 0; g < groups; g++)
            grouping->first[g + 1] += grouping->first[g];
        memcpy(next, grouping->first, ((size_t)groups + 1) * sizeof *next);
        for (size_t t = 0; t < params->tensor_count; t++)
            grouping->order[next[params->tensors[t].group]++] = (uint32_t)t;
    }
    free(next);
    return ok;
}

struct writer {
    struct norm_plan *plan; // whose `starts` are written, too
    struct norm_chunk_row *chunks;
    struct norm_group_row *groups;
    uint32_t *pieces;
    struct norm_report_row *reports; // used with reports
    uint32_t chunk, piece;
    struct norm_pack pack; // its pieces are the last ones
};

static void write_chunks(struct writer *w, uint32_t group, uint32_t tensor, uint64_t count)
{
    w->plan->starts[w->plan->start_count++] = (struct norm_start) { w->chunk, tensor, 0 };
    if (w->plan->layout.spec.reports && tensor < w->plan->params.tensor_count) {
        w->reports[tensor].chunk = w->chunk;
        w->reports[tensor].chunks = (uint32_t)count;
    }
    for (uint32_t index = 0; index < count; index++)
        w->chunks[w->chunk++] = (struct norm_chunk_row) { tensor, index, group, 0 };
    w->groups[group].count += (uint32_t)count;
}

// A single piece is an ordinary chunk.
static void write_pack(struct writer *w, uint32_t group, uint32_t count)
{
    const uint32_t first = w->piece - count;

    if (count == 1)
        write_chunks(w, group, w->pieces[first], 1);
    if (count < 2)
        return;
    const uint32_t team = w->plan->layout.spec.reports
                              ? LEAST_TEAM
                              : pack_team(w->plan->params.tensors, w->pieces + first, count);
    w->plan->starts[w->plan->start_count++] = (struct norm_start) { w->chunk, first, count };
    w->chunks[w->chunk++] = (struct norm_chunk_row) { first, count, group, team };
    w->groups[group].count++;
}

static void write_tensor(struct writer *w, uint32_t group, uint32_t tensor)
{
    const struct ptx_clip_tensor *from = &w->plan->params.tensors[tensor];
    const struct norm_spec *spec = &w->plan->layout.spec;
    const uint32_t pieces = w->pack.pieces;

    if (spec->packs && is_small(from, spec)) {
        if (!pack_add(&w->pack, from->count, spec->chunk))
            write_pack(w, group, pieces);
        w->pieces[w->piece++] = tensor;
    } else if (from->count) {
        write_pack(w, group, pieces);
        w->pack.pieces = 0;
        write_chunks(w, group, tensor, parts_of(from->count, spec->chunk));
    }
}

static void write_group(struct writer *w, uint32_t group, const uint32_t *tensors, size_t count)
{
    w->groups[group].first = w->chunk;
    for (size_t k = 0; k < count; k++)
        write_tensor(w, group, tensors[k]);
    write_pack(w, group, w->pack.pieces);
    w->pack.pieces = 0;
    if (w->groups[group].count == 0)
        write_chunks(w, group, w->plan->layout.tensor_count - 1, 1);
}

// A tensor without elements has a chunk that is in no sum, whose block reports it.
static void write_empty_chunks(struct writer *w)
{
    const struct norm_params *params = &w->plan->params;

    for (uint32_t t = 0; t < params->tensor_count && w->plan->layout.empty_chunks; t++) {
        if (params->tensors[t].count)
            continue;
        w->reports[t].chunk = w->chunk;
        w->reports[t].chunks = 1;
        w->chunks[w->chunk++] = (struct norm_chunk_row) { .tensor = t };
    }
}

static void write_tensors(const struct norm_params *params, const struct norm_layout *layout,
                          struct norm_tensor_row *rows)
{
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_clip_tensor *tensor = &params->tensors[t];
        rows[t] = (struct norm_tensor_row) {
            .data = tensor->data,
            .count = tensor->count,
            .weight = tensor->uncounted       ? 0.0
                      : tensor->weight == 0.0 ? 1.0
                                              : tensor->weight,
            .dtype = ptxk_norm_dtype_code(tensor->dtype),
        };
    }
    // The type of the empty tensor must be one that the kernels support.
    struct norm_tensor_row *empty = &rows[params->tensor_count];
    empty->weight = 1.0;
    while (!(layout->spec.dtypes >> ptxk_norm_dtypes[empty->dtype] & 1))
        empty->dtype++;
}

// Their places in the whole; write_chunks() sets the rest.
static void write_reports(const struct norm_params *params, struct norm_report_row *rows)
{
    for (size_t t = 0; t < params->tensor_count; t++)
        rows[t] =
            params->places ? params->places[t] : (struct norm_report_row) { .run = 1, .stride = 1 };
}

static void write_records(const struct norm_params *params, const struct norm_layout *layout,
                          struct ptx_clip_record *records)
{
    const float scale = params->loss_scale == 0.0f ? 1.0f : params->loss_scale;
    const struct ptx_clip_summary summary = { .loss_scale = scale, .state = { .scale = scale } };

    for (uint32_t g = 0; g < layout->group_count; g++)
        records[g].max_norm =
            params->group_max_norms ? params->group_max_norms[g] : params->max_norm;
    memcpy(&records[layout->group_count], &summary, sizeof summary);
}

ptx_status ptxp_norm_layout_fill(struct norm_plan *plan, unsigned char *image)
{
    const struct norm_params *params = &plan->params;
    const struct norm_layout *layout = &plan->layout;
    struct grouping grouping;
    struct writer w = {
        .plan = plan,
        .chunks = (struct norm_chunk_row *)(void *)(image + layout->chunks.offset),
        .groups = (struct norm_group_row *)(void *)(image + layout->groups.offset),
        .pieces = (uint32_t *)(void *)(image + layout->pieces.offset),
    };
    ptx_status status = PTX_OK;

    w.reports = (struct norm_report_row *)(void *)(image + layout->report_rows.offset);
    if (layout->spec.reports)
        write_reports(params, w.reports);
    if (!group_tensors(params, layout->group_count, &grouping)) {
        status = ptxp_norm_out_of_host_memory(plan->hooks);
    } else {
        for (uint32_t g = 0; g < layout->group_count; g++)
            write_group(&w, g, grouping.order + grouping.first[g],
                        grouping.first[g + 1] - grouping.first[g]);
        write_empty_chunks(&w);
        write_tensors(params, layout, (void *)(image + layout->tensors.offset));
        write_records(params, layout, (void *)(image + layout->records.offset));
        memcpy(image + layout->rule.offset, &layout->scale_rule, sizeof layout->scale_rule);
        if (layout->guard_rule.length)
            memcpy(image + layout->guard_rule.offset, &layout->guard_scalars,
                   sizeof layout->guard_scalars);
    }
    free(grouping.first);
    free(grouping.order);
    return status;
}
